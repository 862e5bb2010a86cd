"""Scores of alternatives: exact losses, ranks, posteriors, and the worst place of each."""

from __future__ import annotations

import json
import math
import random
from dataclasses import replace
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from made_models import LETTERS, planted, random_emissions, spelt, tiny_folder

from ctc_align import kernels, lattice
from ctc_align.alignment.aligner import Aligner
from ctc_align.alignment.ctc_path import LOCAL_S
from ctc_align.alignment.scoring import Scored, posteriors
from ctc_align.errors import AudioError, EmissionsError, TooShortError, TranscriptError, UsageError
from ctc_align.files.transcripts import parse_transcript
from ctc_align.types import Emissions

ALIGNER = Aligner(model=None)
TEXTS = ["we call it bear", "we call it a bear", "We called it beer!", "no", "hello world"]


def letters_of(text: str) -> list[int]:
    return [LETTERS.index(letter) for letter in "|".join(text.lower().strip("!").split())]


def torch_loss(emissions: Emissions, text: str) -> float:
    ids, x = letters_of(text), emissions.log_probs.double()
    return float(
        torch.nn.functional.ctc_loss(
            x[:, None], torch.tensor([ids]), [len(x)], [len(ids)], reduction="sum"
        )
    )


def texts_of(scored: list[Scored]) -> list[str]:
    return [one.text for one in scored]


def test_losses_are_those_of_torch_and_the_smallest_comes_first() -> None:
    emissions = random_emissions(150, 3)
    scored = ALIGNER.score_texts(emissions, TEXTS)
    expected = {text: torch_loss(emissions, text) for text in TEXTS}
    assert texts_of(scored) == sorted(TEXTS, key=expected.__getitem__)
    assert [one.rank for one in scored] == [1, 2, 3, 4, 5]
    for one in scored:
        assert one.loss == pytest.approx(expected[one.text], rel=1e-6)
        assert one.loss_per_token == pytest.approx(
            expected[one.text] / len(letters_of(one.text)), rel=1e-6
        )
        assert one.loss_per_frame == pytest.approx(expected[one.text] / 150, rel=1e-6)
        assert (TEXTS[one.index], one.frames, one.unknown, one.error) == (one.text, 150, 0, None)


def test_the_loss_is_the_same_alone_among_others_and_in_the_alignment() -> None:
    for seed in range(5):
        emissions = random_emissions(60, seed)
        for one in ALIGNER.score_texts(emissions, TEXTS):
            alignment = ALIGNER.align(emissions, one.text)
            assert one.loss == ALIGNER.score(emissions, one.text) == alignment.loss
            assert one.loss_per_token == pytest.approx(alignment.loss_per_token)
            assert [one.loss] == [
                alone.loss for alone in ALIGNER.score_texts(emissions, [one.text])
            ]


def test_the_audio_is_heard_once_and_the_losses_are_one_call(tmp_path: Path, monkeypatch) -> None:
    aligner = Aligner(str(tiny_folder(tmp_path, LETTERS)), device="cpu")
    heard, calls = [], []
    listen, forward = aligner.model.emissions_batch, kernels.forward  # type: ignore[union-attr]
    monkeypatch.setattr(
        aligner.model, "emissions_batch", lambda *a, **k: heard.append(1) or listen(*a, **k)
    )

    def counted(log_probs, *arguments, **options):
        calls.append(len(log_probs))
        return forward(log_probs, *arguments, **options)

    monkeypatch.setattr("ctc_align.kernels.forward", counted)
    sound = np.random.default_rng(0).standard_normal(16000).astype(np.float32) * 0.1
    scored = aligner.score_texts((sound, 16000), TEXTS)
    assert (len(heard), calls) == (1, [5])
    assert scored[0].posterior is not None


def test_the_order_of_ties_and_of_texts_with_unknown_letters() -> None:
    emissions = random_emissions(80)
    scored = ALIGNER.score_texts(emissions, ["no no", "ab", "No, no!", "ab", "no  no"])
    same = [one.index for one in scored if one.text != "ab"]
    assert same == [0, 2, 4]
    assert [one.index for one in scored if one.text == "ab"] == [1, 3]
    assert len({one.loss for one in scored}) == 2
    assert len({one.posterior for one in scored if one.text == "ab"}) == 1
    emissions = planted(spelt("cab abe"))
    scored = ALIGNER.score_texts(emissions, ["caжb abe", "hello world", "cab aжяbe", "cab abe"])
    assert texts_of(scored) == ["cab abe", "hello world", "caжb abe", "cab aжяbe"]
    assert [one.unknown for one in scored] == [0, 0, 1, 2]
    assert scored[2].loss == scored[3].loss == scored[0].loss < scored[1].loss, (
        "by what is known they would win"
    )
    assert [one.posterior is None for one in scored] == [False, False, True, True]
    assert scored[0].posterior == pytest.approx(1.0)
    assert [one.posterior for one in ALIGNER.score_texts(emissions, ["aж", "bж"])] == [None, None]


def test_what_does_not_fit_and_what_is_nothing_are_told_and_the_others_scored() -> None:
    emissions = planted(spelt("cab"))
    scored = ALIGNER.score_texts(emissions, ["", "cab " * 9, "— …", "漢字", "cab", " cжb " * 9])
    assert [one.index for one in scored] == [4, 1, 3, 5, 0, 2]
    assert [type(one.error) for one in scored] == [
        type(None), TooShortError, TranscriptError, TooShortError, TranscriptError, TranscriptError,
    ]  # fmt: skip
    assert [scored[1].loss, scored[3].loss] == [math.inf, math.inf]
    assert all(math.isnan(scored[rank].loss) for rank in (2, 4, 5))
    assert [one.posterior for one in scored] == [1.0, 0.0, None, None, None, None]
    assert [one.unknown for one in scored] == [0, 0, 2, 9, 0, 0]
    assert (
        str(scored[4].error) == "the transcript is empty; expected at least one word that is spoken"
    )


def test_transcripts_that_do_not_fit() -> None:
    scored = ALIGNER.score_texts(random_emissions(3), ["hello", "world"])
    assert [(one.index, one.loss, one.posterior) for one in scored] == [
        (0, math.inf, None),
        (1, math.inf, None),
    ]
    assert ALIGNER.score_texts(random_emissions(3), []) == []
    emissions = planted(spelt("ab"))
    emissions.log_probs[:, LETTERS.index("c")] = -math.inf
    scored = ALIGNER.score_texts(emissions, ["cab", "ab"])
    assert [one.index for one in scored] == [1, 0]
    assert (scored[1].loss, scored[1].posterior) == (math.inf, 0.0)
    assert isinstance(scored[1].error, EmissionsError)


@pytest.mark.parametrize(
    "losses", [[5000.0, 5000.5, 5003.0], [0.0, 0.25], [98765.4321, 98765.4320], [7.0] * 30]
)
def test_posteriors_of_any_losses(losses: list[float]) -> None:
    """Against sums of fractions: exp of the differences from the first."""
    weights = [Fraction(math.exp(losses[0] - loss)) for loss in losses]
    expected = [float(weight / sum(weights)) for weight in weights]
    assert posteriors(losses) == pytest.approx(expected, rel=1e-12)
    assert posteriors([9000.0, 1.0, 2000.0]) == [0.0, 1.0, 0.0]
    assert (posteriors([1e6]), posteriors([])) == ([1.0], [])


def test_posteriors_where_losses_are_thousands() -> None:
    """In single precision the difference of such losses would be off by a thousandth."""
    emissions = random_emissions(3000, 1)
    emissions = replace(emissions, log_probs=(3.0 * emissions.log_probs).log_softmax(1))
    words = ["hello world and no more of it"] * 12
    texts = [" ".join(words), " ".join([*words[:-1], "hello world and no more of in"])]
    scored = ALIGNER.score_texts(emissions, texts)
    assert min(one.loss for one in scored) > 9000
    exact = [torch_loss(emissions, one.text) for one in scored]
    assert abs(exact[0] - exact[1]) < 30
    expected = 1 / (1 + math.exp(exact[0] - exact[1]))
    assert scored[0].posterior == pytest.approx(expected, rel=1e-4)
    assert sum(one.posterior or 0.0 for one in scored) == pytest.approx(1.0, rel=1e-12)


def test_each_transcript_gets_the_pronunciation_that_fits_it(tmp_path: Path) -> None:
    lexicon = tmp_path / "words.dict"
    lexicon.write_text(
        "cab\tK AE1 B\ncab\tK EY1 B Z\ncab\tB\nbad\tB AE1 D\nbade\tB EY1 D\n", "utf-8"
    )
    vocab = ("<blank>", "AE", "B", "D", "EY", "K", "Z")
    path = [
        "",
        *(token for phone in ["K", "EY", "B", "Z", "B", "AE", "D"] for token in (phone, phone, "")),
    ]
    aligner, emissions = Aligner(model=None, lexicon=lexicon), planted(path, vocab)
    scored = aligner.score_texts(emissions, ["cab bade", "cab bad", "cab cab"])
    assert texts_of(scored)[0] == "cab bad"
    assert scored[0].tokens == 7
    for one in scored:
        assert one.loss == aligner.align(emissions, one.text).loss


def test_one_wrong_word_is_seen_where_it_stands() -> None:
    """Of fifty words one is wrong: the mean hardly moves, the worst place does, however long the
    rest is."""
    words = ["cab", "abe"] * 25
    true, wrong = " ".join(words), " ".join([*words[:20], "hub", *words[21:]])
    long, short = planted(spelt(true)), planted(spelt("cab abe"))
    right, fault = ALIGNER.score_texts(long, [true, wrong])
    assert (right.text, right.local_loss) == (true, 0.0)
    expected = ALIGNER.score_texts(short, ["hub abe"])[0].local_loss
    assert fault.local_loss == pytest.approx(expected, rel=1e-6)
    assert fault.loss_per_token - right.loss_per_token < 0.2 < 5.0 < (fault.local_loss or 0.0)
    for one in (right, fault):
        assert ALIGNER.align(long, one.text).local_loss == one.local_loss, (
            "of words that are skipped, too"
        )


def test_the_worst_place_is_that_of_every_place_however_short_the_audio() -> None:
    """All windows of the best path, added up one by one."""
    emissions = random_emissions(90, 5)
    text = "we call it bear"
    scored = ALIGNER.score_texts(emissions, [text])[0]
    ids = letters_of(text)
    path = kernels.best_path(emissions.log_probs[None], lattice.ctc([ids])).states[0].tolist()
    emitted = [0 if state % 2 == 0 else ids[state // 2] for state in path]
    rows = emissions.log_probs.tolist()
    below = [max(row) - row[label] for row, label in zip(rows, emitted)]
    window = round(LOCAL_S / emissions.frame_shift_s)
    expected = max(math.fsum(below[t : t + window]) for t in range(len(below) - window + 1))
    assert scored.local_loss == pytest.approx(expected, rel=1e-6)
    emissions = random_emissions(9)
    assert ALIGNER.score_texts(emissions, ["ab"])[0].local_loss == pytest.approx(
        float(emissions.log_probs.max(1).values.sum()) + ALIGNER.align(emissions, "ab").score * -1,
        rel=1e-5,
    )


@pytest.mark.parametrize("at_once", [2**22, 3000])
def test_a_batch_says_of_each_audio_what_it_says_alone(at_once: int, monkeypatch) -> None:
    """Only what goes together is scored together; a limit of memory parts it once more."""
    monkeypatch.setattr("ctc_align.kernels.batching.VALUES_AT_ONCE", at_once)
    plain = [random_emissions(frames, frames) for frames in (40, 90, 15, 120)]
    double = replace(plain[0], log_probs=plain[0].log_probs.double())
    heard = [plain[0], planted(spelt("ab"), ("_", *"abc")), plain[1], double, *plain[2:]]
    texts = [
        ["we call it"],
        ["ab"],
        ["no", "hello world", "no"],
        ["ab"],
        ["we call it bear"],
        ["bear"],
    ]
    for one, mine, together in zip(heard, texts, ALIGNER.score_emissions(heard, texts)):
        alone = ALIGNER.score_texts(one, mine)
        shown = [
            [vars(it) | {"error": str(it.error)} for it in scored] for scored in (alone, together)
        ]
        assert shown[0] == shown[1]


@given(st.permutations(range(6)))
@settings(max_examples=20)
def test_the_order_of_the_input_does_not_matter(order: list[int]) -> None:
    texts = [*TEXTS, "ж no"]
    emissions = random_emissions(70, 8)
    expected = {
        one.text: (one.rank, one.loss, one.posterior)
        for one in ALIGNER.score_texts(emissions, texts)
    }
    met = ALIGNER.score_texts(emissions, [texts[i] for i in order])
    assert {one.text: (one.rank, one.loss) for one in met} == {
        text: it[:2] for text, it in expected.items()
    }
    for one in met:
        assert one.posterior == (
            expected[one.text][2] and pytest.approx(expected[one.text][2], rel=1e-12)
        )


def test_a_line_that_is_shown_again_is_scored_once() -> None:
    times = ("00:01 --> 00:02", "00:02 --> 00:02.010", "00:02.010 --> 00:03", "00:03 --> 00:03.010")
    lines = ("we call it", "we call it", "we call it\na bear", "a bear")
    cues = "\n\n".join(f"{time}\n{line}" for time, line in zip(times, lines))
    shown = parse_transcript(f"WEBVTT\n\n{cues}\n".encode(), "a.vtt")
    emissions = random_emissions(80)
    one, two = ALIGNER.score_texts(emissions, [shown, "we call it a bear"])
    assert one.loss == two.loss


def test_calls_that_are_wrong(tmp_path: Path) -> None:
    with pytest.raises(
        UsageError, match=r"expected a list of transcripts, got a str; write \[text\]"
    ):
        ALIGNER.score_texts(random_emissions(20), "no")
    with pytest.raises(UsageError, match="text 1: expected the transcript as a str, got NoneType"):
        ALIGNER.score_texts(random_emissions(20), ["no", None])  # type: ignore[list-item]
    with pytest.raises(UsageError, match="takes Emissions only"):
        ALIGNER.score_texts("talk.wav", ["no"])
    aligner = Aligner(str(tiny_folder(tmp_path, LETTERS)), device="cpu")
    with pytest.raises(AudioError, match=r"nowhere\.wav"):
        aligner.score_texts("nowhere.wav", ["no"])


@pytest.mark.data
def test_of_real_speech_the_true_text_comes_first(english: Aligner, speech_data: Path) -> None:
    lines = (speech_data / "english" / "manifest.jsonl").read_text("utf-8").splitlines()
    dev = [row for row in map(json.loads, lines) if row["split"] == "dev"]
    for row in random.Random(0).sample(dev, 3):
        others = sorted(dev, key=lambda other: abs(len(other["text"]) - len(row["text"])))
        texts = [other["text"] for other in others if other["text"] != row["text"]][:9]
        scored = english.score_texts(
            str(speech_data / "english" / row["audio"]), [*texts, row["text"]]
        )
        assert scored[0].text == row["text"]
        assert scored[0].posterior == pytest.approx(1.0)


@pytest.mark.data
def test_spoiled_texts_have_the_highest_local_losses(english: Aligner, speech_data: Path) -> None:
    """Two words too many, four too few, and one that is another: in 3 of 24 clips of read
    speech."""
    lines = (speech_data / "english" / "manifest.jsonl").read_text("utf-8").splitlines()
    dev = [
        row
        for row in map(json.loads, lines)
        if row["split"] == "dev" and len(row["text"].split()) > 9
    ]
    rows = random.Random(1).sample(dev, 24)
    words = [row["text"].split() for row in rows]
    words[3][4:4] = ["GREAT", "ELEPHANTS"]
    del words[9][4:8]
    words[15][6] = "YESTERDAY"
    pairs = [
        (str(speech_data / "english" / row["audio"]), " ".join(said))
        for row, said in zip(rows, words)
    ]
    found = [
        (each.local_loss or 0.0, place) for place, each in enumerate(english.align_batch(pairs))
    ]
    assert {place for _, place in sorted(found)[-3:]} == {3, 9, 15}
