"""The training data of a corpus.

It has frames on disk, the tokens of the model, pronunciations, and a held-out part. A pair of audio
and transcript that cannot be used does not stop a run: it is left out, with a reason, and counted.

The tokens (`Recipe.units`) are
    letters   the letters and marks that are frequent enough in the transcripts' spoken forms: lower case, NFC, so é is
              one letter, because Unicode composes it; otherwise letter and mark are two
              (Devanagari, Thai)
    lexicon   the phones of the words in the transcripts
    arpabet   the 39 phones of CMUdict; words are pronounced as by the model `english`
    ipa       the phones of `IPA_PHONES`, which all languages share; words are pronounced by their spelling
"""

from __future__ import annotations

import hashlib
import json
import os
import unicodedata
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TypeVar

import numpy as np
import torch

from ctc_align.audio.loading import estimated_duration_s, load_audio
from ctc_align.config import UNKNOWN_LANGUAGE, Settings
from ctc_align.errors import AudioError, InputError
from ctc_align.models.convnet import features
from ctc_align.sources.utterance import Refused, Source, Utterance
from ctc_align.text import words_of
from ctc_align.text.lexicon import Lexicon
from ctc_align.text.markup import may_have_sample_numbers, without_sample_numbers
from ctc_align.text.phone_sets import ARPABET_PHONES, IPA_PHONES
from ctc_align.tokens.phones import is_arpabet
from ctc_align.tokens.tokenizer import Tokenizer, tokenize, tokenizer_for, with_phones
from ctc_align.training import Watch
from ctc_align.types import SoundChoice, Words, WordTokens

BLANK = "<blank>"
UNITS = ("letters", "lexicon", "arpabet", "ipa")
AHEAD = 32
"""Number of results that `spread` computes before it yields the first of them."""
FASTEST_TOKENS_S = 33.0
"""Nobody speaks more letters or phones per second."""
PAUSE_S, SLOWEST_TOKEN_S = 5.0, 1.0
"""Audio longer than this pause plus this time a token has more speech than its transcript."""
FEWEST_SPEAKERS = 4
"""Corpora of fewer speakers hold out utterances, the others whole speakers."""
MOST_DEV_S = 1800.0
Item = TypeVar("Item")
Result = TypeVar("Result")


def spread(function: Callable[[Item], Result], items: Sequence[Item]) -> Iterator[Result]:
    """Yield `function` of each item, in order, computed on all cores.

    Within `function`, torch has a single thread: several would wait for one another after every
    operation, which costs more than it gains on tensors as small as these.
    """
    count = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        with ThreadPoolExecutor(count) as pool:
            for begin in range(0, len(items), AHEAD):
                yield from pool.map(function, items[begin : begin + AHEAD])
    finally:
        torch.set_num_threads(count)


class FeatureStore:
    """Log-mel frames of utterances: float16 on disk, mapped into memory.

    `store[i]` is (T, MELS) float32. Epochs read them from here instead of decoding the audio again.
    `faults` maps the indices of utterances without frames to the reasons.
    """

    def __init__(self, folder: Path) -> None:
        index = json.loads((folder / "index.json").read_text("utf-8"))
        self.faults = {int(i): str(reason) for i, reason in index["faults"].items()}
        self.starts = np.load(folder / "starts.npy")
        count = int(self.starts[-1])
        shape = (count, features.MELS)
        self._frames: np.ndarray = np.empty(shape)
        if count:  # a file of no bytes cannot be mapped
            self._frames = np.memmap(folder / "frames.f16", np.float16, "r", shape=shape)

    def __len__(self) -> int:
        return len(self.starts) - 1

    def __getitem__(self, i: int) -> np.ndarray:
        return np.asarray(self._frames[self.starts[i] : self.starts[i + 1]], np.float32)

    @property
    def lengths(self) -> np.ndarray:
        """Number of frames of each utterance (N,); 0 for those that could not be read."""
        return np.diff(self.starts)


def build_store(
    utterances: Sequence[Utterance], folder: Path, progress: Callable[[int], None] | None = None
) -> FeatureStore:
    """Decode every utterance into a store in `folder`.

    An existing store with the same number of utterances is opened instead. Each list of utterances
    needs a separate folder. `progress` is called with the number of decoded utterances.
    """
    folder.mkdir(parents=True, exist_ok=True)
    index = folder / "index.json"
    if index.exists():
        store = FeatureStore(folder)
        if len(store) == len(utterances):
            return store
    starts = [0]
    faults = {}
    with open(folder / "frames.f16.part", "wb") as file:
        for i, frames in enumerate(spread(_frames_of, utterances)):
            if isinstance(frames, str):
                faults[i] = frames
                frames = np.empty((0, features.MELS))
            file.write(frames.astype(np.float16).tobytes())
            starts.append(starts[-1] + len(frames))
            if progress:
                progress(i + 1)
    os.replace(folder / "frames.f16.part", folder / "frames.f16")
    np.save(folder / "starts.npy", np.array(starts, np.int64))
    part = folder / "index.json.part"
    part.write_text(json.dumps({"faults": faults}), "utf-8", newline="\n")
    os.replace(part, index)  # last: it makes the folder a store
    return FeatureStore(folder)


def _frames_of(utterance: Utterance) -> np.ndarray | str:
    """Return the frames (T, MELS) of an utterance, or the reason why there are none."""
    try:
        audio = load_audio(
            utterance.audio,
            features.SAMPLE_RATE,
            offset_s=utterance.offset_s,
            duration_s=utterance.duration_s,
            choice=SoundChoice(utterance.channel, language=utterance.language),
        )
    except InputError as error:
        return " ".join(str(error).split())
    return features.log_mel(audio.samples, 0, features.frame_count(len(audio.samples)))


@dataclass(frozen=True)
class Inventory:
    """The tokens of a model.

    It has `vocab` with the blank first, the tokenizer, and the counts of letters too rare to learn.
    `units` is one of `UNITS`; `language` is the transcripts' language, "" if unknown.
    """

    vocab: tuple[str, ...]
    tokenizer: Tokenizer
    rare: dict[str, int]
    units: str = "letters"
    language: str = ""

    @property
    def tokens(self) -> int:
        """Number of tokens without the blank."""
        return len(self.vocab) - 1


def make_inventory(
    units: str, texts: Iterable[Words], lexicon: Lexicon | None, fewest: int, language: str = ""
) -> Inventory:
    """Return the tokens for a corpus.

    Args:
        units: one of `UNITS`.
        texts: the transcripts.
        lexicon: required for `lexicon`; overrides the package's pronunciations for `arpabet` and
            `ipa`.
        fewest: a rarer letter is not a token.
        language: the language of the transcripts.

    Raises:
        InputError: the transcripts have no letters that are frequent enough, or no word of the
            lexicon.
    """
    rare: dict[str, int] = {}
    if units == "letters":
        labels, rare = _frequent_letters(texts, fewest)
    elif units == "ipa":
        labels = IPA_PHONES
    elif units == "arpabet" or (lexicon is not None and is_arpabet(tuple(lexicon.phones()))):
        labels = ARPABET_PHONES
    else:
        assert lexicon is not None, "the recipe was checked"
        labels = _used_phones(texts, lexicon)
    vocab = (BLANK, *labels)
    tokenizer = tokenizer_for(vocab, 0, None if units == "letters" else lexicon)
    return Inventory(vocab, tokenizer, rare, units, language)


def _frequent_letters(
    texts: Iterable[Words], fewest: int
) -> tuple[tuple[str, ...], dict[str, int]]:
    """Return the letters that occur `fewest` times or more, and the counts of the others."""
    count: Counter[str] = Counter()
    for words in texts:
        for word in words.words:
            count.update(
                c
                for c in unicodedata.normalize("NFC", word.spoken)
                if unicodedata.category(c)[0] in "LM"
            )
    letters = sorted(letter for letter, number in count.items() if number >= fewest)
    if not letters:
        got = "none at all"
        if count:
            got = f"{len(count)} letters, {count.most_common(1)[0][1]} times at most"
        raise InputError(
            f"expected transcripts with letters that occur {fewest} times or more; got {got}"
        )
    return tuple(letters), {
        letter: number for letter, number in count.most_common() if number < fewest
    }


def _used_phones(texts: Iterable[Words], lexicon: Lexicon) -> tuple[str, ...]:
    """Return the phones of the words in the transcripts."""
    every = (BLANK, *lexicon.phones())
    tokenizer = tokenizer_for(every, 0, lexicon)
    used: set[str] = set()
    for words in texts:
        for word in tokenize(words, tokenizer):
            used.update(
                every[token] for pronunciation in word.pronunciations for token in pronunciation.ids
            )
    if not used:
        raise InputError(f"{lexicon.source}: expected words of the transcripts, got none of them")
    return tuple(sorted(used))


@dataclass(frozen=True)
class Spoken:
    """The pronunciations of each word of an utterance, and the chosen ones.

    They are phone indices, without the blank.
    """

    words: tuple[tuple[np.ndarray, ...], ...]
    choice: tuple[int, ...]

    @staticmethod
    def of(words: Sequence[WordTokens]) -> Spoken:
        """Return the words that have pronunciations."""
        heard = [
            tuple(np.asarray(p.ids) - 1 for p in word.pronunciations)
            for word in words
            if word.pronunciations
        ]
        return Spoken(tuple(heard), (0,) * len(heard))

    @staticmethod
    def chosen(targets: np.ndarray, owners: np.ndarray) -> Spoken:
        """Return words of one pronunciation each.

        They are given as token ids (L,), 0 the blank, and the word of each token (L,).
        """
        words = tuple((targets[owners == word].astype(np.int64) - 1,) for word in np.unique(owners))
        return Spoken(words, (0,) * len(words))

    @property
    def phones(self) -> np.ndarray:
        """Phones of the chosen pronunciations (L,)."""
        return np.concatenate([word[k] for word, k in zip(self.words, self.choice)])

    @property
    def owners(self) -> np.ndarray:
        """Word of each of the `phones` (L,)."""
        return np.concatenate(
            [np.full(len(word[k]), w) for w, (word, k) in enumerate(zip(self.words, self.choice))]
        )


@dataclass(frozen=True)
class LeftOut:
    """A pair that cannot be used.

    It has its id, its origin (file and line), the kind of reason, and details.
    """

    id: str
    origin: str
    kind: str
    details: str


@dataclass
class Pairs:
    """The pairs of a corpus whose transcripts can be read.

    `is_dev` marks those of a corpus to hold out.
    """

    utterances: list[Utterance] = field(default_factory=list)
    words: list[Words] = field(default_factory=list)
    is_dev: list[bool] = field(default_factory=list)
    left_out: list[LeftOut] = field(default_factory=list)

    def leave_out(self, utterance: Utterance | Refused, kind: str, details: str) -> None:
        """Note a pair that is not used."""
        self.left_out.append(LeftOut(utterance.id, utterance.origin, kind, details))

    @property
    def fingerprint(self) -> str:
        """Return a hash that tells corpora apart.

        It covers speakers, languages, texts and files (size and time).
        """
        digest = hashlib.sha256()
        for utterance, dev in zip(self.utterances, self.is_dev):
            try:
                stat = os.stat(utterance.audio)
                file = (stat.st_size, stat.st_mtime_ns)
            except OSError:
                file = (0, 0)
            part = (
                utterance.offset_s,
                utterance.duration_s,
                utterance.channel,
                utterance.speaker,
                utterance.language,
            )
            facts = (utterance.id, utterance.audio, utterance.text, *part)
            digest.update(repr((facts, file, dev)).encode("utf-8", "surrogateescape"))
        return digest.hexdigest()


@dataclass(frozen=True)
class Corpus:
    """Frames and pronunciations of the usable pairs; `train` and `dev` are indices into the store.

    `speakers` counts the named ones; `languages` has one for each utterance of the store, or is ()
    if the corpus
    names none.
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

    def in_language(self, indices: np.ndarray, language: str) -> np.ndarray:
        """Return those of the utterances that are in a language."""
        return indices[np.array(self.languages)[indices] == language]


def read_pairs(sources: Sequence[tuple[Source, bool]], language: str) -> Pairs:
    """Read the pairs of (source, whether its pairs are held out).

    `language` is the language of utterances whose source names none.

    Raises:
        InputError: no pair can be read.
    """
    pairs = Pairs()
    for source, is_dev in sources:
        for utterance in source:
            if isinstance(utterance, Refused):
                pairs.leave_out(utterance, "not readable in the corpus", utterance.reason)
                continue
            utterance = replace(utterance, language=utterance.language or language)
            # digits of texts in an unknown language are not spelled out
            cues = None
            if utterance.file is not None:
                cues = utterance.file.subtitles
            words = words_of(
                utterance.text, Settings(language=utterance.language or UNKNOWN_LANGUAGE), cues
            )
            words = _without_sample_numbers(words, utterance)
            if any(word.spoken for word in words.words):
                pairs.utterances.append(utterance)
                pairs.words.append(words)
                pairs.is_dev.append(is_dev)
            else:
                pairs.leave_out(
                    utterance, "nothing that is spoken in the transcript", utterance.text
                )
    if not pairs.utterances:
        raise InputError(
            f"{sources[0][0].name}: none of the transcripts can be used: {summary(pairs.left_out)}"
        )
    return pairs


def _without_sample_numbers(words: Words, utterance: Utterance) -> Words:
    """Return the words without the sample numbers with which a transcript may begin.

    TIMIT's transcripts do.
    """
    if not may_have_sample_numbers(words.text):
        return words
    try:
        return without_sample_numbers(
            words, utterance.duration_s or estimated_duration_s(utterance.audio)
        )
    except AudioError:  # `gather` will leave it out
        return words


def gather(
    pairs: Pairs,
    inventory: Inventory,
    folder: Path,
    watch: Watch,
    *,
    longest_s: float = 36.0,
    parts: int = 3,
    dev_share: float = 0.05,
    seed: int = 1,
) -> Corpus:
    """Return the frames and pronunciations of the usable pairs.

    The frames are written into `folder`.

    Args:
        longest_s: longer utterances are left out.
        parts: states of a token, which need as many frames.
        dev_share, seed: the share that is held out where no pair is marked, and the seed that draws
            it.

    Raises:
        InputError: fewer than two pairs are usable.
    """
    pronounced = _pronounced(pairs, inventory)
    origin = list(pronounced)
    utterances = [pairs.utterances[i] for i in origin]
    store = build_store(utterances, folder, _progress(watch, "reading audio", len(utterances)))
    left_out = list(pairs.left_out)
    usable: dict[int, Spoken] = {}
    for index, (utterance, spoken) in enumerate(zip(utterances, pronounced.values())):
        fault = _fault(
            len(spoken.phones), int(store.lengths[index]), longest_s, parts, store.faults.get(index)
        )
        if fault:
            left_out.append(LeftOut(utterance.id, utterance.origin, *fault))
        else:
            usable[index] = spoken
    if len(usable) < 2:
        raise InputError(
            f"expected two utterances or more that can be used, got {len(usable)}:"
            f" {summary(left_out)}"
        )
    indices = np.array(sorted(usable))
    marked = np.array([pairs.is_dev[origin[i]] for i in indices.tolist()], bool)
    speakers = [utterances[i].speaker for i in indices.tolist()]
    lengths_s = store.lengths[indices] * features.FRAME_SHIFT_S
    if marked.any():
        dev = marked
    else:
        dev = _held_out(speakers, lengths_s, dev_share, seed)
    if dev.all():
        raise InputError(
            f"expected utterances to train on, got none that can be used: {summary(left_out)}"
        )
    known = len(set(filter(None, speakers)))
    languages = tuple(utterance.language for utterance in utterances)
    return Corpus(
        store,
        usable,
        indices[~dev],
        indices[dev],
        tuple(left_out),
        known,
        languages if any(languages) else (),
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
        if not (len(details) <= 100):
            details = details[:100] + "…"
        lines.append(f"{number} × {kind} ({example.id}, {example.origin}: {details})")
    return "; ".join(lines) or "nothing is left out"


def _pronounced(pairs: Pairs, inventory: Inventory) -> dict[int, Spoken]:
    """Return the pronunciations of each pair, by index.

    Pairs with words that the tokens cannot spell are left out.
    """
    pronounced = {}
    for i, (utterance, words) in enumerate(zip(pairs.utterances, pairs.words)):
        words = with_phones(words, inventory.tokenizer, utterance.language)
        word_tokens = tokenize(words, inventory.tokenizer)
        lacking = [k for k, word in enumerate(word_tokens) if word.missing]
        spoken = Spoken.of(word_tokens)
        if lacking or not spoken.words:
            without = Words(words.text, tuple(words.words[k] for k in lacking))
            missing = [letter for k in lacking for letter in word_tokens[k].missing]
            pairs.leave_out(
                utterance, *_why_not_spelled(without, missing, inventory.units, utterance.language)
            )
        else:
            pronounced[i] = spoken
    return pronounced


def _why_not_spelled(
    words: Words, missing: Sequence[str], units: str, language: str
) -> tuple[str, str]:
    """Return why a transcript cannot be spelled: the kind of reason, and the words or letters."""
    digits = [character for character in missing if unicodedata.category(character[0])[0] == "N"]
    if not missing:
        return "nothing that is spoken in the transcript", words.text
    if digits:
        hint = "give --language"
        if language:
            hint = f"{language!r} does not say how they are read"
        return f"digits ({hint})", "".join(digits)
    if units == "letters":
        return "letters that are too rare", "".join(dict.fromkeys(missing))
    if units == "ipa":
        return "letters that nothing pronounces", "".join(dict.fromkeys(missing))
    return "words that are not in the lexicon", " ".join(word.spoken for word in words.words)


def _fault(
    tokens: int, frames: int, longest_s: float, parts: int, unreadable: str | None
) -> tuple[str, str] | None:
    """Return why a pair cannot be used (kind, details), or None if it can."""
    seconds = frames * features.FRAME_SHIFT_S
    details = f"{tokens} tokens in {seconds:.1f} s"
    if unreadable is not None:
        return "unreadable audio", unreadable
    if tokens * parts >= frames or tokens > FASTEST_TOKENS_S * seconds:
        return "a transcript too long for its audio", details
    if seconds > longest_s:
        return f"longer than {longest_s:g} s", details
    if seconds > PAUSE_S + SLOWEST_TOKEN_S * tokens:
        return "a transcript too short for its audio", details
    return None


def _held_out(
    speakers: Sequence[str], seconds: np.ndarray, dev_share: float, seed: int
) -> np.ndarray:
    """Return which utterances are held out (N,) bool, drawn by the seed.

    Whole speakers are drawn, unless these are few.
    """
    random = np.random.default_rng((seed, 20))
    wanted = min(MOST_DEV_S, dev_share * float(seconds.sum()))
    known = sorted(set(filter(None, speakers)))
    whole = all(speakers) and len(known) >= FEWEST_SPEAKERS
    groups = [[i] for i in range(len(speakers))]
    if whole:
        groups = [[i for i, speaker in enumerate(speakers) if speaker == name] for name in known]
    dev = np.zeros(len(speakers), bool)
    most = max(0.25 * float(seconds.sum()), 2 * wanted)
    for group in random.permutation(len(groups)).tolist():
        group_s = float(seconds[groups[group]].sum())
        if float(seconds[dev].sum()) >= wanted:
            break
        # a speaker with most of the corpus stays in training
        if float(seconds[dev].sum()) + group_s <= most:
            dev[groups[group]] = True
    if not dev.any():
        dev[int(np.argmin(seconds))] = True
    return dev


def _progress(watch: Watch, stage: str, total: int) -> Callable[[int], None]:
    def report(done: int) -> None:
        watch.progress(stage, done / max(1, total), f"{done} of {total}")

    return report
