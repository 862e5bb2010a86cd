"""The whole line: emissions or sound and text in, `Alignment` out."""

from __future__ import annotations

import itertools
import math
import random
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from alignment_checks import check
from hypothesis import given, settings
from hypothesis import strategies as st
from made_models import LETTERS, planted, random_emissions, spelt, tiny_folder
from made_sounds import babble
from rows import first_row_of

from ctc_align import kernels
from ctc_align.alignment import aligner as aligner_module
from ctc_align.alignment.aligner import Aligner
from ctc_align.alignment.inputs import ModelEmissions
from ctc_align.config import Settings
from ctc_align.errors import (
    AudioError,
    BackendError,
    CtcAlignError,
    EmissionsError,
    LexiconError,
    TooShortError,
    TranscriptError,
    UsageError,
)
from ctc_align.kernels import batching
from ctc_align.types import Alignment, Audio, Emissions

ALIGNER = Aligner(model=None)
PARTS = 3


def times(alignment: Alignment) -> list[tuple[str, float | None, float | None]]:
    return [(word.text, word.start_s, word.end_s) for word in alignment.words]


def test_planted_paths_are_found_to_the_frame() -> None:
    alignment = ALIGNER.align(planted(spelt("cab abe")), "Cab, Abe!")
    check(alignment)
    # Two blanks, then each letter for two frames of 20 ms and one blank; a separator between the
    # words.
    assert times(alignment) == [("Cab,", 0.04, 0.2), ("Abe!", 0.28, 0.44)]
    assert [(token.token, token.start_s, token.end_s) for token in alignment.words[0].tokens] == [
        ("c", 0.04, 0.08),
        ("a", 0.1, 0.14),
        ("b", 0.16, 0.2),
    ]
    assert alignment.words[0].tokens[0].confidence == pytest.approx(
        0.9 * (alignment.words[0].confidence or 0.0), abs=1e-4
    )
    assert alignment.score == pytest.approx(23 * math.log(0.9), rel=1e-6)
    names = (alignment.utterance, alignment.audio, alignment.model, alignment.backend)
    assert names == ("utterance", "", "log-probs", "cpu")
    assert (alignment.duration_s, alignment.frame_shift_s, alignment.token_kind) == (
        0.46,
        0.02,
        "tokens",
    )
    assert alignment.config == Settings(language="en").to_dict()
    vocab = ("_", *"abcde")
    alignment = ALIGNER.align(planted(spelt("abbe"), vocab), "ab be")
    check(alignment)
    assert times(alignment) == [("ab", 0.04, 0.14), ("be", 0.16, 0.26)]


@pytest.mark.parametrize(("unknown", "status"), [("wildcard", "aligned"), ("skip", "unknown")])
def test_words_that_cannot_be_said_are_there_without_times(unknown: str, status: str) -> None:
    aligner = Aligner(None, settings=Settings(unknown=unknown))
    alignment = aligner.align(planted(spelt("ab be")), "— ab жя 😀 be ...")
    check(alignment)
    statuses = [word.status for word in alignment.words]
    assert statuses == ["unspoken", "aligned", status, "unspoken", "aligned", "unspoken"]
    assert alignment.unknown == 2


@pytest.mark.parametrize("blank", [0, 3, len(LETTERS) - 1])
@pytest.mark.parametrize("with_states", [False, True])
def test_the_blank_may_stand_anywhere(blank: int, with_states: bool) -> None:
    """Rolling the vocabulary and its columns changes nothing, nor does naming the blank by its
    token."""
    plain = random_emissions(120, 5, parts=PARTS * with_states)
    order = [*range(1, blank + 1), 0, *range(blank + 1, len(LETTERS))]
    moved = replace(
        plain,
        log_probs=plain.log_probs[:, order],
        vocab=tuple(LETTERS[i] for i in order),
        blank=order.index(0),
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


def test_losses_and_scores_of_both_outputs_and_of_the_only_path() -> None:
    emissions = random_emissions(200, 1, parts=PARTS)
    aligner = Aligner(model=None, settings=Settings(match="exact"))
    one, two = (
        aligner.align(emissions, "we call it"),
        aligner.align(replace(emissions, states=None), "we call it"),
    )
    assert (one.loss, one.score) == (two.loss, two.score)
    assert times(one) != times(two)
    # As many frames as tokens: rounding must not make the loss larger than its only path.
    for seed in range(20):
        alignment = ALIGNER.align(
            random_emissions(16, seed), "we call it bear"
        )  # 15 tokens, two of them alike
        assert -alignment.score >= alignment.loss
        assert alignment.loss == pytest.approx(-alignment.score, rel=1e-6)


@pytest.mark.parametrize(
    "states", [torch.zeros(99, 85), torch.zeros(100, 84), torch.zeros(100), torch.zeros(100, 1)]
)
def test_states_of_a_wrong_shape(states: torch.Tensor) -> None:
    with pytest.raises(
        EmissionsError,
        match=r"utterance: log-probs: expected states of shape \(100, parts \* 28 \+ 1",
    ):
        ALIGNER.align(replace(random_emissions(100), states=states), "ab")


@pytest.mark.parametrize("bad", [math.nan, math.inf])
@pytest.mark.parametrize(
    ("output", "message"),
    [
        ("log_probs", "value is (nan|inf) at frame 7, class 3"),
        ("states", r"states hold NaN or \+inf"),
    ],
)
def test_values_that_are_no_log_probs(output: str, message: str, bad: float) -> None:
    emissions = random_emissions(100, parts=PARTS, name="talk.npy")
    getattr(emissions, output)[7, 3] = bad
    with pytest.raises(EmissionsError, match=rf"^talk\.npy: {message}"):
        ALIGNER.align(emissions, "ab")


def test_offset_and_duration_are_handed_on_and_bound_the_frames() -> None:
    emissions = planted(spelt("ab"), offset_s=12.5, duration_s=0.155, name="sounds/talk.npy")
    alignment = ALIGNER.align(emissions, "ab")
    assert (alignment.offset_s, alignment.duration_s, alignment.utterance) == (12.5, 0.155, "talk")
    assert alignment.audio == "sounds/talk.npy"
    assert alignment.words[0].start_s == 0.04  # from the start of the utterance
    assert ALIGNER.align(emissions, "ab", utterance="u-1").utterance == "u-1"
    path = ["", "a", "b", "b"]
    alignment = ALIGNER.align(planted(path, duration_s=0.061), "ab")
    check(alignment)
    assert alignment.words[0].end_s == 0.061
    with pytest.raises(
        EmissionsError, match=r"4 frames of 0\.02 s do not fit into duration_s 0\.06$"
    ):
        ALIGNER.align(planted(path, duration_s=0.06), "ab")
    with pytest.raises(
        EmissionsError,
        match=r"4 frames of 0\.02 s end at 0\.08 s of 1\.2 s .*either frame_shift_s is 0\.3,",
    ):
        ALIGNER.align(planted(path, duration_s=1.2), "ab")


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
def test_texts_that_cannot_be_aligned(call, text, error, message) -> None:
    with pytest.raises(error, match=f"^utterance: {message}"):
        call(random_emissions(10), text)


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
def test_options_that_cannot_be(
    options: dict[str, str], error: type[CtcAlignError], tmp_path: Path
) -> None:
    model = None if "device" not in options else str(tiny_folder(tmp_path, LETTERS))
    with pytest.raises(error):
        Aligner(**{"model": model, **options})  # type: ignore[arg-type]


def test_both_backends_say_the_same() -> None:
    emissions = random_emissions(60, 2, parts=PARTS)
    one = Aligner(model=None, backend="reference").align(emissions, "we call it")
    two = Aligner(model=None, backend="cpu").align(emissions, "we call it")
    assert (one.backend, two.backend) == ("reference", "cpu")
    assert one.words == two.words
    assert (one.loss, one.score) == (
        pytest.approx(two.loss, rel=1e-6),
        pytest.approx(two.score, rel=1e-6),
    )


def test_log_probs_keep_their_best_path_also_through_a_long_gap_in_a_word() -> None:
    """Without a second output the times are the best CTC path's, however far apart a word's tokens
    lie."""
    log_probs = torch.full((300, 3), -3.0)
    log_probs[:, 0] = -0.2
    log_probs[10, 1] = log_probs[250, 2] = -0.1
    log_probs[10, 0] = log_probs[250, 0] = -3.0
    alignment = Aligner(None).align(
        Emissions(log_probs.log_softmax(1), ("<b>", "a", "b"), 0.02), "ab"
    )
    assert [(token.start_s, token.end_s) for token in alignment.words[0].tokens] == [
        (0.2, 0.22),
        (5.0, 5.02),
    ]


def test_the_first_and_last_sample_of_a_transcript_are_not_spoken() -> None:
    """TIMIT's texts: numbers that fit the recording's length at a usual rate are markup, whatever
    `match` is."""
    emissions = planted(spelt("cab abe"))  # 0.46 s
    for match in ("auto", "exact"):
        aligner = Aligner(None, settings=Settings(match=match))
        alignment = aligner.align(emissions, "0 7360 Cab, abe!\n")
        kinds = [(word.text, word.kind) for word in alignment.words[:3]]
        assert kinds == [("0", "markup"), ("7360", "markup"), ("Cab,", "")]
        assert times(alignment)[2:] == [("Cab,", 0.04, 0.2), ("abe!", 0.28, 0.44)]
        assert aligner.score(emissions, "0 7360 Cab, abe!") == pytest.approx(
            aligner.score(emissions, "Cab, abe!")
        )
    for text in (
        "0 5000 cab abe",
        "0 7360\ncab abe",
        "7360 0 cab abe",
        "0 7360 cab\nabe",
        "9 7360 cab abe",
    ):
        assert ALIGNER.align(emissions, text).words[0].kind == "", text


@pytest.mark.parametrize(
    ("edges", "with_states", "told"),
    [
        (
            "refined",
            False,
            "--edges refined is not possible here (log-probs: no edge network): using spikes",
        ),
        ("refined", True, "using medians over all paths"),
        (
            "calibrated",
            False,
            "(log-probs: no calibration of edges; make one with ctc-align calibrate): using spikes",
        ),
        ("occupancy", False, ""),
        ("auto", True, ""),
    ],
)
def test_edges_that_cannot_be_had_are_told(edges, with_states, told, caplog) -> None:
    Aligner(None, settings=Settings(edges=edges)).align(
        random_emissions(60, 1, parts=PARTS * with_states), "ab"
    )
    assert told in caplog.text
    assert len(caplog.messages) == (1 if told else 0)


# Batches: what `align` says of each, to the bit, whatever stands beside it.

plain_pad = batching.pad
WORDS = [
    "a",
    "be",
    "see",
    "hello",
    "twenty-two",
    "—",
    "漢",
    "beжar",
    "жя",
    "O'Neil",
    "aaa",
    "we",
    "call",
    "it",
    "bear",
]
PHONES = ("<blank>", "AE", "B", "D", "EY", "K", "Z")
DICTIONARY = "cab\tK AE1 B\ncab\tK EY1 B Z\ncab\tB\nbad\tB AE1 D\nbad\tB EY1\nlaughed\tL AE F T\n"


def made(frames: int, seed: int, vocab: tuple[str, ...] = LETTERS, parts: int = 3) -> Emissions:
    """Random emissions, on a coarse grid for odd seeds, so that paths tie."""
    emissions = random_emissions(frames, seed, vocab, parts, name=f"made-{seed}.npy")
    if seed % 2 == 0:
        return emissions
    states = None if emissions.states is None else emissions.states.round()
    return replace(emissions, log_probs=emissions.log_probs.round(), states=states)


def one_by_one(
    aligner: Aligner, pairs: list[tuple[object, str]]
) -> list[Alignment | CtcAlignError]:
    results: list[Alignment | CtcAlignError] = []
    for i, (audio, text) in enumerate(pairs):
        try:
            results.append(aligner.align(audio, text, utterance=f"u-{i}"))
        except CtcAlignError as error:
            results.append(error)
    return results


def same(one: Alignment | CtcAlignError, two: Alignment | CtcAlignError) -> bool:
    """Every number to the bit; of errors the kind and every letter."""
    if isinstance(one, CtcAlignError):
        return type(one) is type(two) and str(one) == str(two)
    return one == two


@pytest.fixture(scope="module")
def listener(tmp_path_factory: pytest.TempPathFactory) -> Aligner:
    return Aligner(str(tiny_folder(tmp_path_factory.mktemp("model"), LETTERS)), device="cpu")


@pytest.fixture
def threads() -> Iterator[None]:
    before = torch.get_num_threads()
    yield
    torch.set_num_threads(before)


utterances = st.tuples(
    st.lists(st.sampled_from(WORDS), max_size=8).map(" ".join),
    st.integers(1, 250),
    st.integers(0, 999),
    st.booleans(),
    st.floats(0.01, 1.0),
)


@given(
    st.lists(utterances, min_size=1, max_size=8),
    st.sampled_from([1, 5_000, 2**22]),
    st.sampled_from([1, 2]),
    st.sampled_from(["spikes", "occupancy", "auto"]),
)
@settings(max_examples=40)
def test_a_batch_is_its_utterances(rows, at_once, threads, edges) -> None:
    """Random and tied scores, with and without states, too short, unspoken, unknown, empty, a last
    frame in part."""
    before, torch_before = batching.VALUES_AT_ONCE, torch.get_num_threads()
    aligner = Aligner(model=None, settings=Settings(edges=edges))
    pairs: list[tuple[object, str]] = []
    for text, frames, seed, with_states, last in rows:
        emissions = made(frames, seed, parts=3 * with_states)
        pairs.append(
            (replace(emissions, duration_s=(frames - 1 + last) * emissions.frame_shift_s), text)
        )
    batching.VALUES_AT_ONCE = at_once
    torch.set_num_threads(threads)
    try:
        alone = one_by_one(aligner, pairs)
        names = [f"u-{i}" for i in range(len(pairs))]
        together = aligner.align_batch(pairs, on_error="return", utterances=names)
    finally:
        batching.VALUES_AT_ONCE = before
        torch.set_num_threads(torch_before)
    assert all(map(same, alone, together))
    for alignment in together:
        if isinstance(alignment, Alignment):
            check(alignment)
    for (text, frames, *_), result in zip(rows, together):
        if isinstance(result, TooShortError):
            letters = sum(map(str.isalpha, text))
            # every letter, a blank before it, and what twenty-two adds
            assert frames < 3 * letters + 2 * len(text.split())


@pytest.mark.parametrize("count", first_row_of([1, 2]))
def test_sound_in_batches_is_sound_alone(listener: Aligner, count: int, threads: None) -> None:
    torch.set_num_threads(count)
    lengths = [0.3, 12.0, 0.5, 3.0, 1.0, 25.0, 0.7, 3.0, 10.24, 10.25]
    pairs = [
        ((babble(seconds, i), 16000), "we call it bear"[: 1 + 5 * i])
        for i, seconds in enumerate(lengths)
    ]
    alone = one_by_one(listener, pairs)
    for seed in range(3):
        order = random.Random(seed).sample(range(len(pairs)), len(pairs) - seed)
        together = listener.align_batch(
            [pairs[i] for i in order], utterances=[f"u-{i}" for i in order]
        )
        assert all(same(alone[i], one) for i, one in zip(order, together))
        heard = listener.emissions_batch([pairs[i][0] for i in order])
        for i, emissions in zip(order, heard):
            assert torch.equal(emissions.log_probs, listener.emissions(pairs[i][0]).log_probs)


def test_padding_is_never_looked_at_and_the_checker_would_see_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """NaN beyond the lengths, in every kernel's input."""
    pairs: list[tuple[object, str]] = [
        (made(frames, frames), "hello bear") for frames in (60, 200, 90, 61)
    ]
    alone = one_by_one(Aligner(model=None), pairs)
    poisoned = []

    def pad(rows: list[np.ndarray]) -> tuple[np.ndarray, list[int]]:
        batch, lengths = plain_pad(rows)
        batch = batch.copy()
        for row, length in zip(batch, lengths):
            row[length:] = np.nan
        poisoned.append(int(np.isnan(batch).sum()))
        return batch, lengths

    monkeypatch.setattr(batching, "pad", pad)
    together = Aligner(model=None).align_batch(pairs, utterances=[f"u-{i}" for i in range(4)])
    assert all(map(same, alone, together))
    assert len([count for count in poisoned if count]) >= 3
    # Kernels that look at the whole padded row give something else, and it is told.
    monkeypatch.setattr(batching, "pad", plain_pad)
    real = kernels.forward
    monkeypatch.setattr(
        kernels, "forward", lambda x, topology, lengths=None, **how: real(x, topology, None, **how)
    )
    together = Aligner(model=None).align_batch(pairs[:2], utterances=["u-0", "u-1"])
    assert [same(*both) for both in zip(alone, together)] == [False, True]


def test_pronunciations_are_chosen_in_company(tmp_path: Path) -> None:
    (tmp_path / "words.dict").write_text(DICTIONARY, "utf-8")
    aligner = Aligner(model=None, lexicon=tmp_path / "words.dict")
    pairs: list[tuple[object, str]] = []
    for heard in ("K AE B", "K EY B Z", "B", "K AE B B EY"):
        path = ["", *(token for phone in f"{heard} B AE D".split() for token in (phone, phone, ""))]
        pairs.append((planted(path, PHONES), "cab bad"))
    pairs += [(made(60, seed, PHONES), "cab bad cab bad") for seed in range(12)]
    pairs.insert(2, (made(60, 1, PHONES), "cab laughed"))
    pairs.insert(5, (made(5, 1, PHONES), "cab bad"))  # the shortest pronunciations fit
    pairs.insert(6, (made(2, 1, PHONES), "cab bad"))
    alone = one_by_one(aligner, pairs)
    assert isinstance(alone[2], LexiconError)
    assert isinstance(alone[6], TooShortError)
    assert sum(isinstance(one, Alignment) for one in alone) == len(pairs) - 2
    names = [f"u-{i}" for i in range(len(pairs))]
    assert all(map(same, alone, aligner.align_batch(pairs, on_error="return", utterances=names)))


def test_vocabularies_blanks_and_numbers_of_states_may_be_mixed() -> None:
    moved = made(120, 4)
    moved = replace(
        moved, log_probs=moved.log_probs.roll(-1, 1), vocab=(*LETTERS[1:], LETTERS[0]), blank=28
    )
    narrow = replace(made(120, 6), states=torch.randn(120, 2 * 28 + 1))
    pairs: list[tuple[object, str]] = [
        (made(120, 2), "we call it"),
        (moved, "we call it"),
        (made(100, 3, ("_", *"abcde")), "abba"),
        (narrow, "bear"),
        (
            replace(made(90, 5), log_probs=made(90, 5).log_probs.double(), frame_shift_s=0.02),
            "hello",
        ),
        (replace(made(90, 8), log_probs=made(90, 8).log_probs.bfloat16()), "hello"),
    ]
    alone = one_by_one(Aligner(model=None), pairs)
    assert all(isinstance(one, Alignment) for one in alone)
    together = Aligner(model=None).align_batch(pairs, utterances=[f"u-{i}" for i in range(6)])
    assert all(map(same, alone, together))


def test_what_is_wrong_with_one_concerns_no_other(listener: Aligner, tmp_path: Path) -> None:
    good = ((babble(2.0), 16000), "we call it bear")
    bad = [
        ((np.zeros(8000, np.float32), 16000), "hello", AudioError),
        ((babble(0.05), 16000), "hello hello hello", TooShortError),
        ((np.full(8000, np.nan, np.float32), 16000), "hello", AudioError),
        ((babble(1.0), 16000), "", TranscriptError),
        ((babble(1.0), 16000), "漢字", TranscriptError),
        (tmp_path / "none.wav", "hello", AudioError),
        (Audio(babble(1.0), 8), "hello", AudioError),
        ("neither", None, UsageError),
    ]
    pairs = [*itertools.chain.from_iterable((good, (audio, text)) for audio, text, _ in bad), good]
    names = [f"u-{i}" for i in range(len(pairs))]
    results = listener.align_batch(pairs, on_error="return", utterances=names)
    assert all(isinstance(result, kind) for result, (*_, kind) in zip(results[1::2], bad))
    assert all(
        str(result).startswith(f"u-{i}: ") for i, result in enumerate(results) if i % 2 and i != 11
    )
    assert str(results[11]).startswith(str(tmp_path / "none.wav"))
    expected = listener.align(*good)
    assert all(replace(result, utterance="utterance") == expected for result in results[::2])  # type: ignore[arg-type]
    assert all(map(same, one_by_one(listener, pairs), results))
    with pytest.raises(AudioError, match=r"^u-1: .*silence only"):
        listener.align_batch(pairs, utterances=names)


def test_a_model_that_refuses_one_refuses_no_other(
    listener: Aligner, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = listener.model
    real = type(model).emissions_batch

    def picky(self: object, audios: list[Audio]) -> list[Emissions]:
        if any(len(audio.samples) == 16000 for audio in audios):
            raise AudioError("a second is what this model cannot stand")
        return real(self, audios)  # type: ignore[arg-type]

    monkeypatch.setattr(type(model), "emissions_batch", picky)
    sounds = [(babble(seconds), 16000) for seconds in (0.5, 1.0, 2.0)]
    results = listener.align_batch([(sound, "a") for sound in sounds], on_error="return")
    assert [isinstance(result, Alignment) for result in results] == [True, False, True]
    assert str(results[1]) == "utterance-1: a second is what this model cannot stand"
    heard = listener.emissions_batch(sounds)
    assert [isinstance(one, Emissions) for one in heard] == [True, False, True]
    with pytest.raises(AudioError, match=r"^a second"):
        listener.emissions_batch(sounds, on_error="raise")


def test_names_and_wrong_calls() -> None:
    good = planted(spelt("ab"), name="folder/good.npy")
    pairs = [(good, "ab"), (replace(good, name=""), "ab"), (good, "")]
    aligner = Aligner(model=None)
    *aligned, error = aligner.align_batch(pairs, on_error="return")
    assert [result.utterance for result in aligned] == ["good", "utterance-1"]  # type: ignore[union-attr]
    assert str(error).startswith("good: ")
    named = aligner.align_batch(pairs[:2], utterances=["x", "y"])
    assert [result.utterance for result in named] == ["x", "y"]  # type: ignore[union-attr]
    with pytest.raises(UsageError, match="utterances: expected 3 names, one for each pair; got 1"):
        aligner.align_batch(pairs, utterances=["x"])
    assert ALIGNER.align_batch([]) == []
    for call in (ALIGNER.align_batch, ALIGNER.emissions_batch):
        with pytest.raises(UsageError, match="expected 'raise' or 'return', got 'skip'"):
            call([], on_error="skip")  # type: ignore[call-arg, operator]
    with pytest.raises(UsageError, match=r"pair 0: expected \(audio, text\), got str"):
        ALIGNER.align_batch(["ab"])  # type: ignore[list-item]
    with pytest.raises(UsageError, match="takes Emissions only"):
        ALIGNER.align("talk.wav", "hello")


def test_a_long_batch_is_read_in_groups(listener: Aligner, monkeypatch: pytest.MonkeyPatch) -> None:
    """Audio is read when its group's turn comes, and no group is larger than it may be by more than
    one."""
    monkeypatch.setattr(aligner_module, "GROUP_S", 3.0)
    sizes: list[int] = []
    model = listener.model
    real = type(model).emissions_batch
    monkeypatch.setattr(
        type(model),
        "emissions_batch",
        lambda self, audios: sizes.append(len(audios)) or real(self, audios),
    )
    pairs = [
        ((babble(seconds, i), 16000), "we call it")
        for i, seconds in enumerate([1.0] * 7 + [9.0] + [0.4] * 3)
    ]
    results = listener.align_batch(pairs)
    assert sizes == [3, 3, 2, 3]
    assert [result.duration_s for result in results if isinstance(result, Alignment)] == [
        1.0
    ] * 7 + [9.0] + [0.4] * 3


def test_lengths_far_apart_are_not_padded_to_the_longest(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[tuple[int, int]] = []

    def watched(rows: list[np.ndarray]) -> tuple[np.ndarray, list[int]]:
        batch, lengths = plain_pad(rows)
        seen.append((len(batch), batch.size))
        return batch, lengths

    monkeypatch.setattr(batching, "pad", watched)
    monkeypatch.setattr(batching, "VALUES_AT_ONCE", 50_000)
    pairs = [(made(frames, frames), "a be") for frames in [*range(30, 70), 3000]]
    results = Aligner(model=None).align_batch(pairs)
    assert all(isinstance(result, Alignment) for result in results)
    assert all(size <= 50_000 for count, size in seen if count > 1)
    assert {3000 * 29, 3000 * 85} <= {size for count, size in seen if count == 1}
    assert len(seen) < 40


@pytest.mark.parametrize(
    ("first_frame_s", "start_s", "end_s"),
    [(0.0, 0.04, 0.2), (0.0125, 0.0525, 0.2125), (-0.05, 0.0, 0.15)],
)
def test_frames_may_begin_later_or_before_the_audio(
    first_frame_s: float, start_s: float, end_s: float
) -> None:
    emissions = replace(planted(spelt("cab abe")), first_frame_s=first_frame_s)
    alignment = Aligner(model=None).align(emissions, "cab abe")
    check(alignment)
    assert (alignment.words[0].start_s, alignment.words[0].end_s) == (start_s, end_s)
    assert alignment.duration_s == pytest.approx(0.46 + first_frame_s)


def test_a_network_that_computes_nan_is_an_error_of_the_utterance(
    english: Aligner, monkeypatch: pytest.MonkeyPatch
) -> None:
    computed = ModelEmissions.run

    def damaged(requests):
        found = computed(requests)
        log_probs = np.array(found[0].array)
        log_probs[7] = np.nan
        return [found[0].altered(log_probs=log_probs), *found[1:]]

    monkeypatch.setattr(ModelEmissions, "run", staticmethod(damaged))
    audio = Audio(babble(2.0), 16000)
    with pytest.raises(
        EmissionsError, match=r"the model english computed .* \(NaN\): its weights are damaged"
    ):
        english.align(audio, "hello there")
    results = english.align_batch([(audio, "hello there")] * 2, on_error="return")
    assert [isinstance(result, EmissionsError) for result in results] == [True, False]
