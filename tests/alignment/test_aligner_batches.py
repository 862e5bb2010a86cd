"""Batches: what `align` says of each, to the bit, whatever stands beside it."""

from __future__ import annotations

import itertools
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
from ctc_align.config import Settings
from ctc_align.errors import AudioError, CtcAlignError, LexiconError, TooShortError, TranscriptError, UsageError
from ctc_align.files import Alignment
from ctc_align.kernels import batching
from ctc_align.types import Audio, Emissions

plain_pad = batching.pad
WORDS = ["a", "be", "see", "hello", "twenty-two", "—", "漢", "beжar", "жя", "O'Neil", "aaa", "we", "call", "it", "bear"]
PHONES = ("<blank>", "AE", "B", "D", "EY", "K", "Z")
DICTIONARY = "cab\tK AE1 B\ncab\tK EY1 B Z\ncab\tB\nbad\tB AE1 D\nbad\tB EY1\nlaughed\tL AE F T\n"


def made(frames: int, seed: int, vocab: tuple[str, ...] = LETTERS, parts: int = 3) -> Emissions:
    """Random emissions, on a coarse grid for odd seeds, so that paths tie."""
    emissions = random_emissions(frames, seed, vocab, parts, name=f"made-{seed}.npy")
    if seed % 2 == 0:
        return emissions
    states = None if emissions.states is None else emissions.states.round()
    return replace(emissions, log_probs=emissions.log_probs.round(), states=states)


def one_by_one(aligner: Aligner, pairs: list[tuple[object, str]]) -> list[Alignment | CtcAlignError]:
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
    st.lists(st.sampled_from(WORDS), max_size=8).map(" ".join), st.integers(1, 250), st.integers(0, 999), st.booleans()
)


@given(
    st.lists(utterances, min_size=1, max_size=8),
    st.sampled_from([1, 5_000, 2**22]),
    st.sampled_from([1, 2]),
    st.sampled_from(["spikes", "occupancy", "auto"]),
)
@settings(max_examples=40, deadline=None)
def test_a_batch_is_its_utterances(
    rows: list[tuple[str, int, int, bool]], at_once: int, threads: int, edges: str
) -> None:
    """Random and tied scores, with and without states, too short, unspoken, unknown and empty: in any company."""
    before, torch_before = batching.VALUES_AT_ONCE, torch.get_num_threads()
    aligner = Aligner(model=None, settings=Settings(edges=edges))
    pairs = [(made(frames, seed, parts=3 * with_states), text) for text, frames, seed, with_states in rows]
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


@pytest.mark.parametrize("count", first_row_of([1, 2]))
def test_sound_in_batches_is_sound_alone(listener: Aligner, count: int, threads: None) -> None:
    torch.set_num_threads(count)
    lengths = [0.3, 12.0, 0.5, 3.0, 1.0, 25.0, 0.7, 3.0, 10.24, 10.25]
    pairs = [((babble(seconds, i), 16000), "we call it bear"[: 1 + 5 * i]) for i, seconds in enumerate(lengths)]
    alone = one_by_one(listener, pairs)
    for seed in range(3):
        order = random.Random(seed).sample(range(len(pairs)), len(pairs) - seed)
        together = listener.align_batch([pairs[i] for i in order], utterances=[f"u-{i}" for i in order])
        assert all(same(alone[i], one) for i, one in zip(order, together))
        heard = listener.emissions_batch([pairs[i][0] for i in order])
        for i, emissions in zip(order, heard):
            assert isinstance(emissions, Emissions)
            assert torch.equal(emissions.log_probs, listener.emissions(pairs[i][0]).log_probs)


def test_padding_is_never_looked_at(monkeypatch: pytest.MonkeyPatch) -> None:
    """NaN beyond the lengths, in every kernel's input."""
    pairs: list[tuple[object, str]] = [(made(frames, frames), "hello bear") for frames in (60, 200, 90, 61)]
    alone = one_by_one(Aligner(model=None), pairs)
    poisoned = []

    def pad(rows: list[torch.Tensor]) -> tuple[torch.Tensor, list[int]]:
        batch, lengths = plain_pad(rows)
        batch = batch.clone()
        for row, length in zip(batch, lengths):
            row[length:] = torch.nan
        poisoned.append(int(batch.isnan().sum()))
        return batch, lengths

    monkeypatch.setattr(batching, "pad", pad)
    together = Aligner(model=None).align_batch(pairs, utterances=[f"u-{i}" for i in range(4)])
    assert all(map(same, alone, together))
    assert len([count for count in poisoned if count]) >= 3


def test_the_checker_is_seen_to_fail(monkeypatch: pytest.MonkeyPatch) -> None:
    """Kernels that look at the whole padded row give something else, and it is told."""
    pairs: list[tuple[object, str]] = [(made(frames, frames), "hello bear") for frames in (60, 200)]
    alone = one_by_one(Aligner(model=None), pairs)
    real = kernels.forward
    monkeypatch.setattr(kernels, "forward", lambda x, topology, lengths=None, **how: real(x, topology, None, **how))
    together = Aligner(model=None).align_batch(pairs, utterances=["u-0", "u-1"])
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
    moved = replace(moved, log_probs=moved.log_probs.roll(-1, 1), vocab=(*LETTERS[1:], LETTERS[0]), blank=28)
    narrow = replace(made(120, 6), states=torch.randn(120, 2 * 28 + 1))
    pairs: list[tuple[object, str]] = [
        (made(120, 2), "we call it"),
        (moved, "we call it"),
        (made(100, 3, ("_", *"abcde")), "abba"),
        (narrow, "bear"),
        (replace(made(90, 5), log_probs=made(90, 5).log_probs.double(), frame_shift_s=0.02), "hello"),
        (replace(made(90, 8), log_probs=made(90, 8).log_probs.bfloat16()), "hello"),
    ]
    alone = one_by_one(Aligner(model=None), pairs)
    assert all(isinstance(one, Alignment) for one in alone)
    together = Aligner(model=None).align_batch(pairs, utterances=[f"u-{i}" for i in range(6)])
    assert all(map(same, alone, together))


def test_what_is_wrong_with_one_concerns_no_other(listener: Aligner, tmp_path: Path) -> None:
    good = ((babble(2.0), 16000), "we call it bear")
    bad: list[tuple[object, str]] = [
        ((np.zeros(8000, np.float32), 16000), "hello"),
        ((babble(0.05), 16000), "hello hello hello"),
        ((np.full(8000, np.nan, np.float32), 16000), "hello"),
        ((babble(1.0), 16000), ""),
        ((babble(1.0), 16000), "漢字"),
        (tmp_path / "none.wav", "hello"),
        (Audio(babble(1.0), 8), "hello"),
        ("neither", None),  # type: ignore[list-item]
    ]
    kinds = [
        AudioError,
        TooShortError,
        AudioError,
        TranscriptError,
        TranscriptError,
        AudioError,
        AudioError,
        UsageError,
    ]
    pairs = [*itertools.chain.from_iterable((good, one) for one in bad), good]
    names = [f"u-{i}" for i in range(len(pairs))]
    results = listener.align_batch(pairs, on_error="return", utterances=names)
    assert all(isinstance(result, kind) for result, kind in zip(results[1::2], kinds))
    assert all(str(result).startswith(f"u-{i}: ") for i, result in enumerate(results) if i % 2 and i != 11)
    assert str(results[11]).startswith(str(tmp_path / "none.wav"))
    expected = listener.align(*good)
    assert all(replace(result, utterance="utterance") == expected for result in results[::2])  # type: ignore[arg-type]
    assert all(map(same, one_by_one(listener, pairs), results))
    with pytest.raises(AudioError, match=r"^u-1: .*silence only"):
        listener.align_batch(pairs, utterances=names)


def test_a_model_that_refuses_one_refuses_no_other(listener: Aligner, monkeypatch: pytest.MonkeyPatch) -> None:
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


def test_names() -> None:
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


def test_a_long_batch_is_read_in_groups(listener: Aligner, monkeypatch: pytest.MonkeyPatch) -> None:
    """Audio is read when its group's turn comes, and no group is larger than it may be by more than one."""
    monkeypatch.setattr(aligner_module, "GROUP_S", 3.0)
    sizes: list[int] = []
    model = listener.model
    real = type(model).emissions_batch
    monkeypatch.setattr(
        type(model), "emissions_batch", lambda self, audios: sizes.append(len(audios)) or real(self, audios)
    )
    pairs = [((babble(seconds, i), 16000), "we call it") for i, seconds in enumerate([1.0] * 7 + [9.0] + [0.4] * 3)]
    results = listener.align_batch(pairs)
    assert sizes == [3, 3, 2, 3]
    assert [result.duration_s for result in results if isinstance(result, Alignment)] == [1.0] * 7 + [9.0] + [0.4] * 3


def test_lengths_far_apart_are_not_padded_to_the_longest(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[tuple[int, int]] = []

    def watched(rows: list[torch.Tensor]) -> tuple[torch.Tensor, list[int]]:
        batch, lengths = plain_pad(rows)
        seen.append((len(batch), batch.numel()))
        return batch, lengths

    monkeypatch.setattr(batching, "pad", watched)
    monkeypatch.setattr(batching, "VALUES_AT_ONCE", 50_000)
    pairs = [(made(frames, frames), "a be") for frames in [*range(30, 70), 3000]]
    results = Aligner(model=None).align_batch(pairs)
    assert all(isinstance(result, Alignment) for result in results)
    assert all(size <= 50_000 for count, size in seen if count > 1)
    assert {3000 * 29, 3000 * 85} <= {size for count, size in seen if count == 1}
    assert len(seen) < 30


@pytest.mark.parametrize(
    ("first_frame_s", "start_s", "end_s"), [(0.0, 0.04, 0.2), (0.0125, 0.0525, 0.2125), (-0.05, 0.0, 0.15)]
)
def test_frames_may_begin_later_or_before_the_audio(first_frame_s: float, start_s: float, end_s: float) -> None:
    emissions = replace(planted(spelt("cab abe")), first_frame_s=first_frame_s)
    alignment = Aligner(model=None).align(emissions, "cab abe")
    check(alignment)
    assert (alignment.words[0].start_s, alignment.words[0].end_s) == (start_s, end_s)
    assert alignment.duration_s == pytest.approx(0.46 + first_frame_s)
