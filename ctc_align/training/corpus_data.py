"""From a corpus on disk to what can be trained on: frames, pronunciations, a held-out part, and what was left out.

Nothing that is wrong with one pair of audio and transcript stops a run: it is left out, with its reason, and counted.
"""

from __future__ import annotations

import hashlib
import os
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from ctc_align.corpus.utterance import Refused, Source, Utterance
from ctc_align.errors import InputError
from ctc_align.models.convnet import features
from ctc_align.tokens.tokenizer import Tokenizer, tokenize
from ctc_align.training.feature_store import FeatureStore, build
from ctc_align.training.inventory import Inventory, read_words, why_not
from ctc_align.training.progress import Watch
from ctc_align.training.segmenter import Spoken
from ctc_align.types import Words

FASTEST_TOKENS_S = 33.0
"""More letters or phones a second nobody says."""
PAUSE_S, SLOWEST_TOKEN_S = 5.0, 1.0
"""Audio that is longer than this pause and so much for each token holds more than its transcript."""
FEWEST_SPEAKERS = 4
"""With fewer speakers none is held out whole."""
MOST_DEV_S = 1800.0


@dataclass(frozen=True)
class LeftOut:
    """One pair that is not used: who, where it stands, the kind of reason, and what was met."""

    id: str
    origin: str
    kind: str
    met: str


@dataclass
class Pairs:
    """The pairs of a corpus whose transcript can be read; `is_dev` says which were given as held out."""

    utterances: list[Utterance] = field(default_factory=list)
    words: list[Words] = field(default_factory=list)
    is_dev: list[bool] = field(default_factory=list)
    left_out: list[LeftOut] = field(default_factory=list)

    def leave_out(self, utterance: Utterance | Refused, kind: str, met: str) -> None:
        self.left_out.append(LeftOut(utterance.id, utterance.origin, kind, met))

    @property
    def fingerprint(self) -> str:
        """Of who says what in which files as they are now: another one is another corpus."""
        digest = hashlib.sha256()
        for one, dev in zip(self.utterances, self.is_dev):
            try:
                stat = os.stat(one.audio)
                file = (stat.st_size, stat.st_mtime_ns)
            except OSError:
                file = (0, 0)
            said = (one.id, one.audio, one.text, one.offset_s, one.duration_s, one.channel, one.speaker)
            digest.update(repr((said, file, dev)).encode("utf-8", "surrogateescape"))
        return digest.hexdigest()


@dataclass(frozen=True)
class Corpus:
    """Frames and pronunciations of the pairs that can be used (indices into the store), train and dev apart."""

    store: FeatureStore
    spoken: dict[int, Spoken]
    train: np.ndarray
    dev: np.ndarray
    left_out: tuple[LeftOut, ...]
    speakers: int

    def hours(self, members: np.ndarray) -> float:
        return float(self.store.lengths[members].sum()) * features.FRAME_SHIFT_S / 3600.0


@dataclass(frozen=True)
class Limits:
    """What is used: seconds an utterance may have, states of a token, and how much is held out."""

    longest_s: float = 36.0
    parts: int = 3
    dev_share: float = 0.05
    seed: int = 1


def read_pairs(sources: Sequence[tuple[Source, bool]], language: str) -> Pairs:
    """The pairs of the sources; those of a source that is marked are held out.

    Raises:
        InputError: none of them can be read.
    """
    pairs = Pairs()
    for source, is_dev in sources:
        for one in source:
            if isinstance(one, Refused):
                pairs.leave_out(one, "not readable in the corpus", one.reason)
                continue
            words = read_words(one.text, language)
            if any(word.spoken for word in words.words):
                pairs.utterances.append(one)
                pairs.words.append(words)
                pairs.is_dev.append(is_dev)
            else:
                pairs.leave_out(one, "nothing that is spoken in the transcript", one.text)
    if not pairs.utterances:
        raise InputError(f"{sources[0][0].name}: none of the transcripts can be used: {told(pairs.left_out)}")
    return pairs


def gather(
    pairs: Pairs, inventory: Inventory, units: str, language: str, limits: Limits, folder: Path, watch: Watch
) -> Corpus:
    """Frames and pronunciations of the pairs that can be used.

    Raises:
        InputError: fewer than two of them can be.
    """
    said = _pronounced(pairs, inventory.tokenizer, units, language)
    chosen = [i for i, spoken in enumerate(said) if spoken is not None]
    utterances = [pairs.utterances[i] for i in chosen]
    tell = _teller(watch, "reading audio", len(utterances))
    store = build(utterances, folder, tell)
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
        raise InputError(f"expected two utterances or more that can be used, got {len(usable)}: {told(left_out)}")
    members = np.array(sorted(usable))
    given = np.array([pairs.is_dev[chosen[place]] for place in members.tolist()], bool)
    speakers = [utterances[place].speaker for place in members.tolist()]
    dev = given if given.any() else _held_out(speakers, store.lengths[members] * features.FRAME_SHIFT_S, limits)
    if dev.all():
        raise InputError(f"expected utterances to train on, got none that can be used: {told(left_out)}")
    return Corpus(store, usable, members[~dev], members[dev], tuple(left_out), len(set(filter(None, speakers))))


def told(left_out: Iterable[LeftOut]) -> str:
    """How many for which reason, the most frequent first, with one example each.

    >>> told([LeftOut("a", "m.jsonl, line 1", "unreadable audio", "no such file")])
    '1 × unreadable audio (a, m.jsonl, line 1: no such file)'
    """
    first: dict[str, LeftOut] = {}
    for one in (left_out := list(left_out)):
        first.setdefault(one.kind, one)
    lines = []
    for kind, number in Counter(one.kind for one in left_out).most_common():
        one = first[kind]
        met = " ".join(one.met.split())
        lines.append(f"{number} × {kind} ({one.id}, {one.origin}: {met if len(met) <= 100 else met[:100] + '…'})")
    return "; ".join(lines) or "nothing is left out"


def _pronounced(pairs: Pairs, tokenizer: Tokenizer, units: str, language: str) -> list[Spoken | None]:
    """What is said in each pair; None, and a reason, where the tokens lack something."""
    said: list[Spoken | None] = []
    for utterance, words in zip(pairs.utterances, pairs.words):
        word_tokens = tokenize(words, tokenizer)
        lacking = [i for i, word in enumerate(word_tokens) if word.missing]
        spoken = Spoken.of(word_tokens)
        if lacking or not spoken.words:
            without = Words(words.text, tuple(words.words[i] for i in lacking))
            missing = [letter for i in lacking for letter in word_tokens[i].missing]
            pairs.leave_out(utterance, *why_not(without, missing, units, language))
        said.append(None if lacking or not spoken.words else spoken)
    return said


def _fault(tokens: int, frames: int, limits: Limits, unreadable: str | None) -> tuple[str, str] | None:
    """Why audio and transcript do not go together."""
    seconds = frames * features.FRAME_SHIFT_S
    met = f"{tokens} tokens in {seconds:.1f} s"
    if unreadable is not None:
        return "unreadable audio", unreadable
    if tokens * limits.parts >= frames or tokens > FASTEST_TOKENS_S * seconds:
        return "a transcript too long for its audio", met
    if seconds > limits.longest_s:
        return f"longer than {limits.longest_s:g} s", met
    if seconds > PAUSE_S + SLOWEST_TOKEN_S * tokens:
        return "a transcript too short for its audio", met
    return None


def _held_out(speakers: Sequence[str], seconds: np.ndarray, limits: Limits) -> np.ndarray:
    """(N,) bool: whole speakers where there are enough, else single utterances, drawn by the seed."""
    random = np.random.default_rng((limits.seed, 20))
    wanted = min(MOST_DEV_S, limits.dev_share * float(seconds.sum()))
    known = sorted(set(filter(None, speakers)))
    whole = all(speakers) and len(known) >= FEWEST_SPEAKERS
    groups = [[i for i, one in enumerate(speakers) if one == name] for name in known] if whole else None
    if groups is None:
        groups = [[i] for i in range(len(speakers))]
    dev = np.zeros(len(speakers), bool)
    most = max(0.25 * float(seconds.sum()), 2 * wanted)
    for place in random.permutation(len(groups)).tolist():
        own = float(seconds[groups[place]].sum())
        if float(seconds[dev].sum()) >= wanted:
            break
        # A speaker who has most of the corpus is not taken away from training.
        if float(seconds[dev].sum()) + own <= most:
            dev[groups[place]] = True
    if not dev.any():
        dev[int(np.argmin(seconds))] = True
    return dev


def _teller(watch: Watch, stage: str, total: int) -> Callable[[int], None]:
    def tell(done: int) -> None:
        watch.progress(stage, done / max(1, total), f"{done} of {total}")

    return tell
