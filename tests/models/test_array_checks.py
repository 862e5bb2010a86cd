"""Arrays of other programs: what is no log-probs; the blank, the separator and silences; the frame
shift."""

from __future__ import annotations

import json
import logging
import math

import numpy as np
import pytest
import torch

from ctc_align import Aligner, Emissions
from ctc_align.config import Settings
from ctc_align.errors import EmissionsError, UsageError, WrongArrayError
from ctc_align.functional import ctc_loss
from ctc_align.models import array_checks
from ctc_align.models.array_checks import blank_of_array, check_values, with_named_classes
from ctc_align.text.phone_sets import ARPABET_PHONES

TEXT = (
    "the quick brown fox jumps over a lazy dog and my big cats hide from it while we look for them"
    " in vain"
)
LETTERS = tuple("abcdefghijklmnopqrstuvwxyz")
VOCAB = ("<blk>", "|", *LETTERS)


@pytest.fixture(autouse=True)
def nothing_told(monkeypatch) -> None:
    """Each test is a process in which nothing was warned of."""
    monkeypatch.setattr(array_checks, "_warned", set())


def heard(text=TEXT, every=4):
    """Log-probs (T, C) of a network that emits a token each `every` frames, `|` between words."""
    tokens = [VOCAB.index(token) for token in "|".join(text.split())]
    noise = torch.randn(
        every * len(tokens) + 3, len(VOCAB), generator=torch.Generator().manual_seed(0)
    )
    scores = 1.5 * noise - 4
    scores[:, 0] += 8
    for i, token in enumerate(tokens):
        scores[every * i + 2, token] += 13
        scores[every * i + 2, 0] -= 3
    return scores.log_softmax(1)


def with_silence(log_probs, frames=9, first=100):
    """The log-probs with a last class that is heard alone in two pauses of so many frames."""
    pause = torch.full((frames, log_probs.shape[1] + 1), -9.0)
    pause[:, -1] = 0
    longer = torch.cat([log_probs, torch.full((len(log_probs), 1), -12.0)], 1)
    return torch.cat(
        [longer[:first], pause, longer[first : 2 * first], pause, longer[2 * first :]]
    ).log_softmax(1)


KINDS = {
    "log_softmax of probabilities": lambda x: x.exp().log_softmax(1),
    "log_softmax of probabilities ": lambda x: (x / 2).softmax(1).log_softmax(1).half().float(),
    "softmax of probabilities": lambda x: x.exp().softmax(1),
    r"probabilities \(rows sum to one\): take the natural log": lambda x: x.exp(),
    r"probabilities \(all values are from 0 to 1\): take the natural log": lambda x: (
        x.exp() * (x < x.amax(1)[:, None])
    ),
    "base 10: multiply them by ln 10": lambda x: x / math.log(10),
    "base 2: multiply them by ln 2": lambda x: x / math.log(2),
    "negative log-probs: change their sign": lambda x: -x,
    "over the classes, the last axis": lambda x: (x * 2).log_softmax(0),
}


@pytest.mark.parametrize("message", KINDS)
@pytest.mark.parametrize("classes", [4, 28, 600])
def test_what_is_no_log_probs_is_named_with_the_cure(message, classes) -> None:
    scores = torch.randn(120, classes, generator=torch.Generator().manual_seed(classes)) * 3
    scores[
        torch.arange(120),
        torch.randint(classes, (120,), generator=torch.Generator().manual_seed(1)),
    ] += 12
    with pytest.raises(WrongArrayError, match=message.strip()):
        check_values(KINDS[message](scores.log_softmax(1)).numpy(), "a.npy")
    assert issubclass(WrongArrayError, EmissionsError)
    assert issubclass(WrongArrayError, UsageError)


@pytest.mark.parametrize("temperature", [1, 2, 10, 100, 250, 1000, 10_000])
def test_flat_log_probs_are_log_probs(temperature, caplog) -> None:
    for every, classes in ((4, 28), (2, 28), (4, 5)):
        log_probs = heard(every=every)[:, :classes].log_softmax(1)
        check_values((log_probs / temperature).log_softmax(1).numpy(), "a.npy")
        check_values((0.5 * log_probs.exp() + 0.5 / classes).log().numpy(), "a.npy")
    for rows in (torch.zeros(50, 1), torch.zeros(50, 7).log_softmax(1)):
        check_values(rows.numpy(), "a.npy")
    assert not caplog.records
    check_values(heard().numpy() + 3, "a.npy")
    assert "unnormalised scores" in caplog.text


def test_another_class_that_is_the_blank_is_asked_for() -> None:
    last = (*VOCAB[1:], "#")
    with pytest.raises(
        WrongArrayError, match=r"token 27, '#', wins 7\d%, between most labels.*\(--blank '#'\)"
    ):
        blank_of_array(heard().roll(-1, 1).numpy(), last, "a.npy")
    with pytest.raises(WrongArrayError, match=r"\(--blank 27\)"):  # an option would be read
        blank_of_array(heard().roll(-1, 1).numpy(), (*VOCAB[1:], "-"), "a.npy")
    assert blank_of_array(heard().numpy(), VOCAB, "a.npy") == 0


def test_of_two_tokens_that_are_called_blanks_the_one_that_wins_is_one() -> None:
    extra = torch.full((len(heard()), 1), -18.0)
    two = torch.cat([extra, heard()[:, 1:], heard()[:, :1]], 1)
    vocab = ("<pad>", *VOCAB[1:], "<blank>")
    assert blank_of_array(two.numpy(), vocab, "a.npy") == 28
    assert (
        blank_of_array(
            torch.cat([heard(), extra], 1).numpy(), ("<pad>", *VOCAB[1:], "[blank]"), "a.npy"
        )
        == 0
    )
    never = two[(two.argmax(1) != 28)].numpy()
    with pytest.raises(WrongArrayError, match="0 '<pad>' and 28 '<blank>' are called blanks"):
        blank_of_array(never, vocab, "a.npy")


@pytest.mark.parametrize("every", [1, 2])
def test_few_blanks_are_no_alarm(every) -> None:
    """Frames of 80 ms: letters follow each other, and a separator or a letter wins more frames than
    the blank."""
    for text in (TEXT, "banana abracadabra " * 5, "a", "aa", TEXT + " |" * 60):
        log_probs = heard(text.replace(" |", ""), every=every).numpy()
        assert blank_of_array(log_probs, VOCAB, "a.npy") == 0
        assert blank_of_array(log_probs[:7], VOCAB, "a.npy") == 0
    silence = torch.full((200, 28), -8.0)
    for winner in (0, 1):
        silence[:, winner] = 0
        assert blank_of_array(silence.log_softmax(1).numpy(), VOCAB, "a.npy") == 0


def test_in_python_the_default_blank_is_warned_of_once_and_a_given_one_obeyed(caplog) -> None:
    last, log_probs = (*VOCAB[1:], "#"), heard(every=2).roll(-1, 1)
    aligner = Aligner(model=None, settings=Settings(match="exact"))
    right = aligner.score(Emissions(log_probs, last, 0.02, blank=27), TEXT)
    assert not caplog.records
    aligner.score(Emissions(log_probs, last, 0.02, blank=0), "by the dog")
    assert not [record for record in caplog.records if "would be the blank" in record.message]
    for _ in range(2):
        assert aligner.score(Emissions(log_probs, last, 0.02), "by the dog") > right
    assert caplog.text.count("say which is the blank (Emissions(…, blank=27))") == 1
    assert Emissions(log_probs, last, 0.02).blank == 0


def test_a_separator_of_any_name(caplog) -> None:
    """By its name, by the array where two have such names, or as it is given; else there is a hint,
    once."""
    aligner, right = Aligner(model=None), None
    for names, option in (
        (("|", "~"), ""),
        (("<wb>", "~"), ""),
        (("_", "~"), "_"),
        (("_", "|"), "1"),
        (("sep", " "), "sep"),
    ):
        vocab = tuple(names[0] if token == "|" else token for token in VOCAB) + names[1:]
        log_probs = torch.cat([heard(), torch.full((len(heard()), 1), -20.0)], 1)
        given = Aligner(model=None, settings=Settings(separator=option))
        loss = given.score(Emissions(log_probs, vocab, 0.02, 0), TEXT)
        assert right is None or loss == right
        right = loss
    for names in ((" ", "<wb>"), ("<wb>", " "), ("<wb>", "|")):
        vocab = tuple(names[0] if token == "|" else token for token in VOCAB) + names[1:]
        assert aligner.score(Emissions(log_probs, vocab, 0.02, 0), TEXT) == right
    assert not caplog.records
    for name, argument in (("_", "_"), ("<x>", "'<x>'"), ("border", "border")):
        vocab = tuple(name if token == "|" else token for token in VOCAB)
        for _ in range(2):
            assert aligner.score(Emissions(heard(), vocab, 0.02, 0), TEXT) > right + 50
        assert caplog.text.count(f"--separator {argument} if it stands between words") == 1
    with pytest.raises(
        UsageError, match="separator: expected a token of the vocabulary or an index, got 'no'"
    ):
        Aligner(model=None, settings=Settings(separator="no")).score(
            Emissions(heard(), VOCAB, 0.02, 0), TEXT
        )
    with pytest.raises(UsageError, match="silence: expected another token than the separator"):
        Aligner(model=None, settings=Settings(silence="|", separator="|")).score(
            Emissions(heard(), VOCAB, 0.02, 0), TEXT
        )


def test_silence_counts_as_the_blank(caplog) -> None:
    log_probs = with_silence(heard())
    targets = torch.tensor([VOCAB.index(token) for token in "|".join(TEXT.split())])
    folded = log_probs[:, :-1].clone()
    folded[:, 0] = torch.logaddexp(log_probs[:, 0], log_probs[:, -1])
    right = ctc_loss(
        folded[:, None],
        targets[None],
        torch.tensor([len(folded)]),
        torch.tensor([len(targets)]),
        reduction="sum",
    )
    for name, option in (("<sil>", ""), ("pau", "pau"), ("Q", "28")):
        aligner = Aligner(model=None, settings=Settings(silence=option))
        alignment = aligner.align(Emissions(log_probs, (*VOCAB, name), 0.02, 0), TEXT)
        assert alignment.loss == pytest.approx(float(right), rel=1e-5)
        assert not alignment.skipped
        assert not alignment.unexplained
    caplog.clear()
    Aligner(model=None).score(Emissions(log_probs, (*VOCAB, "pau"), 0.02, 0), TEXT)
    assert "--silence pau if it is silence" in caplog.text
    phones = ("<blank>", "sil", *ARPABET_PHONES)
    named = with_named_classes(
        Emissions(torch.zeros(5, len(phones)).log_softmax(1), phones, 0.01, 0), Settings()
    )
    assert named.vocab[1] == "<sil>"
    assert bool((named.log_probs[:, 1] == -math.inf).all())
    letters = Emissions(torch.zeros(5, 3).log_softmax(1), ("<blk>", "sil", "ver"), 0.01, 0)
    assert with_named_classes(letters, Settings()) is letters


@pytest.mark.parametrize(
    ("shift_s", "told"), [(0.004, True), (0.02, False), (0.04, False), (0.4, True)]
)
def test_a_frame_shift_that_nobody_speaks_by_is_told(shift_s, told, caplog) -> None:
    aligner = Aligner(model=None)
    for _ in range(2):
        aligner.align(Emissions(heard(), VOCAB, shift_s, 0), TEXT)
        aligner.score(Emissions(heard(), VOCAB, shift_s, 0), TEXT)
    lines = [record.message for record in caplog.records if record.levelno == logging.WARNING]
    assert len(lines) == told, lines
    assert not told or (
        "words a second" in lines[0]
        and f"{shift_s:g} s" in lines[0]
        and "--frame-shift" in lines[0]
    )


def test_slow_speech_with_pauses_is_no_wrong_frame_shift(caplog) -> None:
    pause = torch.full((9000, len(VOCAB)), -9.0)
    pause[:, 0] = 0
    log_probs = torch.cat([heard(), pause.log_softmax(1), heard()])
    Aligner(model=None).align(Emissions(log_probs, VOCAB, 0.02, 0), f"{TEXT} {TEXT}")
    assert not caplog.records


def test_the_commands_refuse_with_exit_2(cli, tmp_path) -> None:
    (tmp_path / "vocab.txt").write_text("\n".join((*VOCAB[1:], "#")) + "\n", encoding="utf-8")
    np.save(tmp_path / "a.npy", heard().roll(-1, 1).numpy())
    line = json.dumps({"audio": "a.npy", "text": TEXT, "utterance": "a"})
    (tmp_path / "m.jsonl").write_text(f"{line}\n", encoding="utf-8")
    reading = ("--vocab", tmp_path / "vocab.txt", "--frame-shift", "0.02")
    out = ("--out-dir", tmp_path / "o")
    for call in (
        ("align", tmp_path / "a.npy", "--text", TEXT, *out),
        ("score", tmp_path / "a.npy", "--text", TEXT),
        ("score", tmp_path / "m.jsonl"),
        ("corpus", tmp_path / "m.jsonl", *out),
    ):
        result = cli(*call, *reading)
        assert (result.code, "--blank '#'" in result.stderr) == (2, True), result.stderr
        assert not (tmp_path / "o").exists()
    assert (
        cli("score", tmp_path / "m.jsonl", *reading, "--blank", "#", "--separator", "|").code == 0
    )


def test_where_only_the_blank_is_possible_numpy_does_not_speak_first() -> None:
    """Warnings are errors in tests: quantiles of infinities were one, before the error that says
    what is wrong."""
    matrix = np.full((50, 5), -np.inf, np.float32)
    matrix[:, 0] = 0.0
    check_values(matrix, "blank.npy")
