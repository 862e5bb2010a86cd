"""The whole line: emissions or sound and text in, `Alignment` out."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from alignment_checks import check
from hypothesis import given, settings
from hypothesis import strategies as st
from made_models import LETTERS, planted, random_emissions, spelt, tiny_folder

from ctc_align.alignment.aligner import Aligner
from ctc_align.config import Settings
from ctc_align.errors import (
    BackendError,
    CtcAlignError,
    EmissionsError,
    TooShortError,
    TranscriptError,
    UsageError,
)
from ctc_align.files import Alignment
from ctc_align.types import Emissions

ALIGNER = Aligner(model=None)
PARTS = 3


def times(alignment: Alignment) -> list[tuple[str, float | None, float | None]]:
    return [(word.text, word.start_s, word.end_s) for word in alignment.words]


def test_a_planted_path_is_found_to_the_frame() -> None:
    alignment = ALIGNER.align(planted(spelt("cab abe")), "Cab, Abe!")
    check(alignment)
    # Two blanks, then each letter for two frames of 20 ms and one blank; a separator between the words.
    assert times(alignment) == [("Cab,", 0.04, 0.2), ("Abe!", 0.28, 0.44)]
    assert [(token.token, token.start_s, token.end_s) for token in alignment.words[0].tokens] == [
        ("c", 0.04, 0.08),
        ("a", 0.1, 0.14),
        ("b", 0.16, 0.2),
    ]
    assert alignment.words[0].confidence == pytest.approx(0.9)
    assert alignment.score == pytest.approx(23 * math.log(0.9), rel=1e-6)
    names = (alignment.utterance, alignment.audio, alignment.model, alignment.backend)
    assert names == ("utterance", "", "log-probs", "cpu")
    assert (alignment.duration_s, alignment.frame_shift_s, alignment.token_kind) == (0.46, 0.02, "tokens")
    assert alignment.config == Settings(language="en").to_dict()


@pytest.mark.parametrize(("unknown", "status"), [("wildcard", "aligned"), ("skip", "unknown")])
def test_words_that_cannot_be_said_are_there_without_times(unknown: str, status: str) -> None:
    aligner = Aligner(None, settings=Settings(unknown=unknown))
    alignment = aligner.align(planted(spelt("ab be")), "— ab жя 😀 be ...")
    check(alignment)
    statuses = [word.status for word in alignment.words]
    assert statuses == ["unspoken", "aligned", status, "unspoken", "aligned", "unspoken"]
    assert alignment.unknown == 2


def test_a_vocabulary_without_separator() -> None:
    vocab = ("_", *"abcde")
    alignment = ALIGNER.align(planted(spelt("abbe"), vocab), "ab be")
    check(alignment)
    assert times(alignment) == [("ab", 0.04, 0.14), ("be", 0.16, 0.26)]


@pytest.mark.parametrize("blank", [0, 3, len(LETTERS) - 1])
@pytest.mark.parametrize("with_states", [False, True])
def test_the_blank_may_stand_anywhere(blank: int, with_states: bool) -> None:
    """Rolling the vocabulary and its columns changes nothing, nor does naming the blank by its token."""
    plain = random_emissions(120, 5, parts=PARTS * with_states)
    order = [*range(1, blank + 1), 0, *range(blank + 1, len(LETTERS))]
    moved = replace(
        plain, log_probs=plain.log_probs[:, order], vocab=tuple(LETTERS[i] for i in order), blank=order.index(0)
    )
    one, two = ALIGNER.align(plain, "we call it bear"), ALIGNER.align(moved, "we call it bear")
    assert times(one) == times(two)
    assert one.loss == pytest.approx(two.loss, rel=1e-6)
    assert ALIGNER.align(replace(moved, blank="<blank>"), "we call it bear").words == two.words  # type: ignore[arg-type]


@pytest.mark.parametrize("kind", ["numpy", "double", "half", "list", "grad", "batch"])
def test_emissions_as_they_come(kind: str) -> None:
    plain = random_emissions(100, parts=PARTS)
    x, states = plain.log_probs, plain.states
    given: dict[str, Emissions] = {
        "numpy": replace(plain, log_probs=x.numpy(), states=states.numpy()),  # type: ignore[arg-type]
        "double": replace(plain, log_probs=x.double(), states=states.double()),
        "half": replace(plain, log_probs=x.bfloat16().float().bfloat16()),
        "list": replace(plain, vocab=list(LETTERS)),  # type: ignore[arg-type]
        "grad": replace(plain, log_probs=x.clone().requires_grad_()),
        "batch": replace(plain, log_probs=x[None]),
    }
    alignment = ALIGNER.align(given[kind], "we call it bear")
    check(alignment)
    if kind != "half":
        assert alignment.words == ALIGNER.align(plain, "we call it bear").words


def test_the_second_output_says_where_and_changes_neither_loss_nor_score() -> None:
    emissions = random_emissions(200, 1, parts=PARTS)
    one, two = ALIGNER.align(emissions, "we call it"), ALIGNER.align(replace(emissions, states=None), "we call it")
    assert (one.loss, one.score) == (two.loss, two.score)
    assert times(one) != times(two)


@pytest.mark.parametrize("states", [torch.zeros(99, 85), torch.zeros(100, 84), torch.zeros(100), torch.zeros(100, 1)])
def test_states_of_a_wrong_shape(states: torch.Tensor) -> None:
    with pytest.raises(EmissionsError, match=r"utterance: log-probs: expected states of shape \(100, parts \* 28 \+ 1"):
        ALIGNER.align(replace(random_emissions(100), states=states), "ab")


@pytest.mark.parametrize("bad", [math.nan, math.inf])
@pytest.mark.parametrize(
    ("output", "message"),
    [("log_probs", "value is (nan|inf) at frame 7, class 3"), ("states", r"states hold NaN or \+inf")],
)
def test_values_that_are_no_log_probs(output: str, message: str, bad: float) -> None:
    emissions = random_emissions(100, parts=PARTS, name="talk.npy")
    getattr(emissions, output)[7, 3] = bad
    with pytest.raises(EmissionsError, match=rf"^talk\.npy: {message}"):
        ALIGNER.align(emissions, "ab")


def test_offset_and_duration_are_handed_on() -> None:
    emissions = planted(spelt("ab"), offset_s=12.5, duration_s=0.155, name="sounds/talk.npy")
    alignment = ALIGNER.align(emissions, "ab")
    assert (alignment.offset_s, alignment.duration_s, alignment.utterance) == (12.5, 0.155, "talk")
    assert alignment.audio == "sounds/talk.npy"
    assert alignment.words[0].start_s == 0.04  # from the start of the utterance
    assert ALIGNER.align(emissions, "ab", utterance="u-1").utterance == "u-1"


def test_the_last_frame_may_be_a_part_of_one_and_no_frame_lies_beyond_the_duration() -> None:
    path = ["", "a", "b", "b"]
    alignment = ALIGNER.align(planted(path, duration_s=0.061), "ab")
    check(alignment)
    assert alignment.words[0].end_s == 0.061
    with pytest.raises(EmissionsError, match=r"4 frames of 0\.02 s do not fit into duration_s 0\.06$"):
        ALIGNER.align(planted(path, duration_s=0.06), "ab")


def test_where_one_path_is_all_there_is_loss_and_score_agree() -> None:
    """As many frames as tokens: rounding must not make the loss larger than its only path."""
    for seed in range(20):
        alignment = ALIGNER.align(random_emissions(16, seed), "we call it bear")  # 15 tokens, two of them alike
        assert -alignment.score >= alignment.loss
        assert alignment.loss == pytest.approx(-alignment.score, rel=1e-6)


@pytest.mark.parametrize(("heard", "phones"), [("K AE B", "K AE B"), ("K EY B Z", "K EY B Z"), ("B", "B")])
def test_a_lexicon_gives_pronunciations_and_the_audio_chooses(tmp_path: Path, heard: str, phones: str) -> None:
    lexicon = tmp_path / "words.dict"
    lexicon.write_text("cab\tK AE1 B\ncab\tK EY1 B Z\ncab\tB\nbad\tB AE1 D\n", "utf-8")
    vocab = ("<blank>", "AE", "B", "D", "EY", "K", "Z")
    path = ["", *(token for phone in f"{heard} B AE D".split() for token in (phone, phone, ""))]
    alignment = Aligner(model=None, lexicon=lexicon).align(planted(path, vocab), "cab bad")
    check(alignment)
    assert [token.token.rstrip("1") for token in alignment.words[0].tokens] == phones.split()
    assert alignment.token_kind == "phones"
    start_s = 0.02 + 3 * 0.02 * len(heard.split())
    assert alignment.words[1].start_s == pytest.approx(start_s)


@pytest.mark.parametrize("call", [ALIGNER.align, ALIGNER.score])
@pytest.mark.parametrize(
    ("text", "error", "message"),
    [
        ("hello world", TooShortError, ".*11 tokens need at least 12 frames, the audio has 10"),
        ("漢字 —", TranscriptError, ".*cannot spell any word.*'漢字'"),
        ("", TranscriptError, ".*empty"),
        (" \n ", TranscriptError, ".*empty"),
        ("— …", TranscriptError, ".*nothing in the transcript"),
        (None, UsageError, "expected the transcript as a str, got NoneType"),
    ],
)
def test_texts_that_cannot_be_aligned(
    call: Callable[..., object], text: str, error: type[CtcAlignError], message: str
) -> None:
    with pytest.raises(error, match=f"^utterance: {message}"):
        call(random_emissions(10), text)


def test_wrong_calls() -> None:
    assert ALIGNER.align_batch([]) == []
    for call in (ALIGNER.align_batch, ALIGNER.emissions_batch):
        with pytest.raises(UsageError, match="expected 'raise' or 'return', got 'skip'"):
            call([], on_error="skip")  # type: ignore[call-arg, operator]
    with pytest.raises(UsageError, match=r"pair 0: expected \(audio, text\), got str"):
        ALIGNER.align_batch(["ab"])  # type: ignore[list-item]
    with pytest.raises(UsageError, match="takes Emissions only"):
        ALIGNER.align("talk.wav", "hello")


@pytest.mark.parametrize(
    ("options", "error"),
    [
        ({"backend": "abacus"}, UsageError),
        ({"backend": "gpu"}, BackendError),
        ({"model": "no-such"}, UsageError),
        ({"lexicon": "no-such.dict"}, UsageError),
        ({"device": "abacus"}, UsageError),
    ],
)
def test_options_that_cannot_be(options: dict[str, str], error: type[CtcAlignError], tmp_path: Path) -> None:
    model = None if "device" not in options else str(tiny_folder(tmp_path, LETTERS))
    with pytest.raises(error):
        Aligner(**{"model": model, **options})  # type: ignore[arg-type]


def test_both_backends_say_the_same() -> None:
    emissions = random_emissions(60, 2, parts=PARTS)
    one = Aligner(model=None, backend="reference").align(emissions, "we call it")
    two = Aligner(model=None, backend="cpu").align(emissions, "we call it")
    assert (one.backend, two.backend) == ("reference", "cpu")
    assert one.words == two.words
    assert (one.loss, one.score) == (pytest.approx(two.loss, rel=1e-6), pytest.approx(two.score, rel=1e-6))


texts = st.lists(
    st.sampled_from(["a", "be", "see", "hello", "twenty-two", "—", "漢", "O'Neil", "aaa"]), min_size=1, max_size=8
).filter(lambda words: not set(words) <= {"—", "漢"})


@given(texts, st.integers(1, 150), st.integers(0, 999), st.booleans(), st.floats(0.01, 1.0), st.booleans())
@settings(max_examples=150, deadline=None)
def test_whatever_comes_the_promises_hold(
    words: list[str], frames: int, seed: int, with_states: bool, last: float, tied: bool
) -> None:
    """Random and tied scores, with and without states, tight and roomy, the last frame whole or a part of one."""
    emissions = random_emissions(frames, seed, parts=PARTS * with_states, duration_s=(frames - 1 + last) * 0.01)
    if tied:
        emissions = replace(emissions, log_probs=emissions.log_probs.round())
    try:
        alignment = ALIGNER.align(emissions, " ".join(words))
    except TooShortError:
        letters = sum(map(str.isalpha, "".join(words)))
        assert frames < 3 * letters + 2 * len(words)  # every letter, a blank before it, and what twenty-two adds
        return
    check(alignment)


@pytest.mark.parametrize("frames", range(5, 18))
def test_fewer_frames_than_parts_leave_the_spikes(frames: int) -> None:
    """Five letters are at least five frames of CTC and fifteen of the second output."""
    emissions = random_emissions(frames, 4, parts=PARTS)
    alignment = ALIGNER.align(emissions, "abcde")
    check(alignment)
    if frames < 15:
        assert alignment.words == ALIGNER.align(replace(emissions, states=None), "abcde").words


def test_log_probs_keep_their_best_path_also_through_a_long_gap_in_a_word() -> None:
    """Without a second output the times are the best CTC path's, however far apart a word's tokens lie."""
    log_probs = torch.full((300, 3), -3.0)
    log_probs[:, 0] = -0.2
    log_probs[10, 1] = log_probs[250, 2] = -0.1
    log_probs[10, 0] = log_probs[250, 0] = -3.0
    alignment = Aligner(None).align(Emissions(log_probs.log_softmax(1), ("<b>", "a", "b"), 0.02), "ab")
    assert [(token.start_s, token.end_s) for token in alignment.words[0].tokens] == [(0.2, 0.22), (5.0, 5.02)]


def test_the_first_and_last_sample_of_a_transcript_are_not_spoken() -> None:
    """TIMIT's texts: numbers that fit the recording's length at a usual rate are markup, whatever `match` is."""
    emissions = planted(spelt("cab abe"))  # 0.46 s
    for match in ("auto", "exact"):
        aligner = Aligner(None, settings=Settings(match=match))
        alignment = aligner.align(emissions, "0 7360 Cab, abe!\n")
        kinds = [(word.text, word.kind) for word in alignment.words[:3]]
        assert kinds == [("0", "markup"), ("7360", "markup"), ("Cab,", "")]
        assert times(alignment)[2:] == [("Cab,", 0.04, 0.2), ("abe!", 0.28, 0.44)]
        assert aligner.score(emissions, "0 7360 Cab, abe!") == pytest.approx(aligner.score(emissions, "Cab, abe!"))
    for text in ("0 5000 cab abe", "0 7360\ncab abe", "7360 0 cab abe", "0 7360 cab\nabe", "9 7360 cab abe"):
        assert ALIGNER.align(emissions, text).words[0].kind == "", text


@pytest.mark.parametrize(
    ("edges", "with_states", "told"),
    [
        ("refined", False, "--edges refined is not possible here (log-probs: no network for edges): using spikes"),
        ("refined", True, "using medians over all paths"),
        ("calibrated", False, "(log-probs: no calibration of edges; make one with ctc-align calibrate): using spikes"),
        ("occupancy", False, ""),
        ("auto", True, ""),
    ],
)
def test_edges_that_cannot_be_had_are_told(
    edges: str, with_states: bool, told: str, caplog: pytest.LogCaptureFixture
) -> None:
    Aligner(None, settings=Settings(edges=edges)).align(random_emissions(60, 1, parts=PARTS * with_states), "ab")
    assert told in caplog.text
    assert len(caplog.messages) == (1 if told else 0)
