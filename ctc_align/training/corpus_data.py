"""The training data of a corpus: frames, pronunciations, a held-out part, and the pairs that are left out.

A pair of audio and transcript that cannot be used does not stop a run: it is left out, with its reason, and counted.
"""

from __future__ import annotations

import hashlib
import os
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np

from ctc_align.audio.loading import estimated_duration_s
from ctc_align.corpus.utterance import Refused, Source, Utterance
from ctc_align.errors import AudioError, InputError
from ctc_align.models.convnet import features
from ctc_align.text.markup import may_have_sample_numbers, without_sample_numbers
from ctc_align.tokens.tokenizer import tokenize, with_phones
from ctc_align.training import Watch
from ctc_align.training.feature_store import FeatureStore, build
from ctc_align.training.inventory import Inventory, read_words, why_not
from ctc_align.training.segmenter import Spoken
from ctc_align.types import Words

FASTEST_TOKENS_S = 33.0
"""No one speaks more letters or phones a second."""
PAUSE_S, SLOWEST_TOKEN_S = 5.0, 1.0
"""Audio longer than this pause and this time for each token has more speech than its transcript."""
FEWEST_SPEAKERS = 4
"""With fewer speakers, utterances are held out and not whole speakers."""
MOST_DEV_S = 1800.0


@dataclass(frozen=True)
class LeftOut:
    """One pair that is not used: its id, its place in the corpus, the kind of reason, and the details."""

    id: str
    origin: str
    kind: str
    details: str


@dataclass
class Pairs:
    """The pairs of a corpus with a readable transcript; `is_dev` marks those of the held-out corpus."""

    utterances: list[Utterance] = field(default_factory=list)
    words: list[Words] = field(default_factory=list)
    is_dev: list[bool] = field(default_factory=list)
    left_out: list[LeftOut] = field(default_factory=list)

    def leave_out(self, utterance: Utterance | Refused, kind: str, details: str) -> None:
        """Note a pair that is not used."""
        self.left_out.append(LeftOut(utterance.id, utterance.origin, kind, details))

    @property
    def fingerprint(self) -> str:
        """A hash of speakers, languages, texts and files (size and time): it differs between corpora."""
        digest = hashlib.sha256()
        for utterance, dev in zip(self.utterances, self.is_dev):
            try:
                stat = os.stat(utterance.audio)
                file = (stat.st_size, stat.st_mtime_ns)
            except OSError:
                file = (0, 0)
            place = (utterance.offset_s, utterance.duration_s, utterance.channel, utterance.speaker, utterance.language)
            said = (utterance.id, utterance.audio, utterance.text, *place)
            digest.update(repr((said, file, dev)).encode("utf-8", "surrogateescape"))
        return digest.hexdigest()


@dataclass(frozen=True)
class Corpus:
    """Frames and pronunciations of the usable pairs; `train` and `dev` are indices into the store.

    `languages` are those of all utterances in the store; () where the corpus names none.
    """

    store: FeatureStore
    spoken: dict[int, Spoken]
    train: np.ndarray
    dev: np.ndarray
    left_out: tuple[LeftOut, ...]
    speakers: int
    languages: tuple[str, ...] = ()

    def hours(self, indices: np.ndarray) -> float:
        """Return the hours of speech in these utterances."""
        return float(self.store.lengths[indices].sum()) * features.FRAME_SHIFT_S / 3600.0


@dataclass(frozen=True)
class Limits:
    """Limits of the data: seconds of an utterance, states of a token, the share that is held out, and its seed."""

    longest_s: float = 36.0
    parts: int = 3
    dev_share: float = 0.05
    seed: int = 1


def read_pairs(sources: Sequence[tuple[Source, bool]], language: str) -> Pairs:
    """Read the pairs of the sources; those of a source that is marked are held out.

    An utterance whose source names no language is in `language`.

    Raises:
        InputError: none of them can be read.
    """
    pairs = Pairs()
    for source, is_dev in sources:
        for utterance in source:
            if isinstance(utterance, Refused):
                pairs.leave_out(utterance, "not readable in the corpus", utterance.reason)
                continue
            utterance = replace(utterance, language=utterance.language or language)
            words = _without_sample_numbers(read_words(utterance.text, utterance.language), utterance)
            if any(word.spoken for word in words.words):
                pairs.utterances.append(utterance)
                pairs.words.append(words)
                pairs.is_dev.append(is_dev)
            else:
                pairs.leave_out(utterance, "nothing that is spoken in the transcript", utterance.text)
    if not pairs.utterances:
        raise InputError(f"{sources[0][0].name}: none of the transcripts can be used: {summary(pairs.left_out)}")
    return pairs


def _without_sample_numbers(words: Words, utterance: Utterance) -> Words:
    """Return words without the numbers of samples that a transcript may begin with, as TIMIT's do."""
    if not may_have_sample_numbers(words.text):
        return words
    try:
        return without_sample_numbers(words, utterance.duration_s or estimated_duration_s(utterance.audio))
    except AudioError:  # it is left out when its frames are read
        return words


def gather(pairs: Pairs, inventory: Inventory, limits: Limits, folder: Path, watch: Watch) -> Corpus:
    """Return the frames and pronunciations of the usable pairs; the frames are written into `folder`.

    Raises:
        InputError: fewer than two pairs are usable.
    """
    said = _pronounced(pairs, inventory)
    chosen = [i for i, spoken in enumerate(said) if spoken is not None]
    utterances = [pairs.utterances[i] for i in chosen]
    store = build(utterances, folder, _progress(watch, "reading audio", len(utterances)))
    left_out = list(pairs.left_out)
    usable: dict[int, Spoken] = {}
    for place, i in enumerate(chosen):
        spoken = said[i]
        assert spoken is not None
        utterance, frames = pairs.utterances[i], int(store.lengths[place])
        fault = _fault(len(spoken.phones), frames, limits, store.faults.get(place))
        if fault:
            left_out.append(LeftOut(utterance.id, utterance.origin, *fault))
        else:
            usable[place] = spoken
    if len(usable) < 2:
        raise InputError(f"expected two utterances or more that can be used, got {len(usable)}: {summary(left_out)}")
    indices = np.array(sorted(usable))
    marked = np.array([pairs.is_dev[chosen[i]] for i in indices.tolist()], bool)
    speakers = [utterances[i].speaker for i in indices.tolist()]
    dev = marked if marked.any() else _held_out(speakers, store.lengths[indices] * features.FRAME_SHIFT_S, limits)
    if dev.all():
        raise InputError(f"expected utterances to train on, got none that can be used: {summary(left_out)}")
    known = len(set(filter(None, speakers)))
    languages = tuple(utterance.language for utterance in utterances)
    return Corpus(
        store, usable, indices[~dev], indices[dev], tuple(left_out), known, languages if any(languages) else ()
    )


def summary(left_out: Iterable[LeftOut]) -> str:
    """Return the number of pairs for each reason, the most frequent first, with one example each.

    >>> summary([LeftOut("a", "m.jsonl, line 1", "unreadable audio", "no such file")])
    '1 × unreadable audio (a, m.jsonl, line 1: no such file)'
    """
    first: dict[str, LeftOut] = {}
    for pair in (left_out := list(left_out)):
        first.setdefault(pair.kind, pair)
    lines = []
    for kind, number in Counter(pair.kind for pair in left_out).most_common():
        example = first[kind]
        details = " ".join(example.details.split())
        details = details if len(details) <= 100 else details[:100] + "…"
        lines.append(f"{number} × {kind} ({example.id}, {example.origin}: {details})")
    return "; ".join(lines) or "nothing is left out"


def _pronounced(pairs: Pairs, inventory: Inventory) -> list[Spoken | None]:
    """Return the pronunciations of each pair; None, with the pair left out, if it has no tokens for something."""
    said: list[Spoken | None] = []
    for utterance, words in zip(pairs.utterances, pairs.words):
        words = with_phones(words, inventory.tokenizer, utterance.language)
        word_tokens = tokenize(words, inventory.tokenizer)
        lacking = [i for i, word in enumerate(word_tokens) if word.missing]
        spoken = Spoken.of(word_tokens)
        if lacking or not spoken.words:
            without = Words(words.text, tuple(words.words[i] for i in lacking))
            missing = [letter for i in lacking for letter in word_tokens[i].missing]
            pairs.leave_out(utterance, *why_not(without, missing, inventory.units, utterance.language))
        said.append(None if lacking or not spoken.words else spoken)
    return said


def _fault(tokens: int, frames: int, limits: Limits, unreadable: str | None) -> tuple[str, str] | None:
    """Return why a pair cannot be used (kind and details), None if it can."""
    seconds = frames * features.FRAME_SHIFT_S
    details = f"{tokens} tokens in {seconds:.1f} s"
    if unreadable is not None:
        return "unreadable audio", unreadable
    if tokens * limits.parts >= frames or tokens > FASTEST_TOKENS_S * seconds:
        return "a transcript too long for its audio", details
    if seconds > limits.longest_s:
        return f"longer than {limits.longest_s:g} s", details
    if seconds > PAUSE_S + SLOWEST_TOKEN_S * tokens:
        return "a transcript too short for its audio", details
    return None


def _held_out(speakers: Sequence[str], seconds: np.ndarray, limits: Limits) -> np.ndarray:
    """Return (N,) bool: whole speakers if there are enough, else single utterances, drawn by the seed."""
    random = np.random.default_rng((limits.seed, 20))
    wanted = min(MOST_DEV_S, limits.dev_share * float(seconds.sum()))
    known = sorted(set(filter(None, speakers)))
    whole = all(speakers) and len(known) >= FEWEST_SPEAKERS
    groups = [[i for i, speaker in enumerate(speakers) if speaker == name] for name in known] if whole else None
    if groups is None:
        groups = [[i] for i in range(len(speakers))]
    dev = np.zeros(len(speakers), bool)
    most = max(0.25 * float(seconds.sum()), 2 * wanted)
    for place in random.permutation(len(groups)).tolist():
        own = float(seconds[groups[place]].sum())
        if float(seconds[dev].sum()) >= wanted:
            break
        # a speaker with most of the corpus stays in training
        if float(seconds[dev].sum()) + own <= most:
            dev[groups[place]] = True
    if not dev.any():
        dev[int(np.argmin(seconds))] = True
    return dev


def _progress(watch: Watch, stage: str, total: int) -> Callable[[int], None]:
    def report(done: int) -> None:
        watch.progress(stage, done / max(1, total), f"{done} of {total}")

    return report
