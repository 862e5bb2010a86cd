"""The check of a corpus before a run.

It reads only the source, the headers of its recordings, and its texts. `PROBLEMS` lists what is
looked for. The kinds that end a run over the utterance come first; the others are doubts.
"""

from __future__ import annotations

import re
from array import array
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from ctc_align.errors import CtcAlignError, UsageError
from ctc_align.files.textgrid import read_textgrid
from ctc_align.files.tiers import utterance_tiers
from ctc_align.sources.transcribed_folders import TEXTGRID
from ctc_align.sources.utterance import Refused, Source, Utterance
from ctc_align.text.characters import printable
from ctc_align.text.encodings import wrong_decoding

if TYPE_CHECKING:
    from ctc_align.alignment.aligner import Aligner

FAILS, DOUBT = "fails", "doubt"
PROBLEMS = {
    "refused": (FAILS, "entries that lack audio or text, or cannot be read"),
    "audio": (FAILS, "recordings that are missing or cannot be read"),
    "length": (FAILS, "utterances that lie after the end of their recordings, or are too short"),
    "beyond": (FAILS, "utterances that end after their recordings"),
    "channel": (FAILS, "channels that the recording does not have"),
    "unspoken": (FAILS, "texts without a word that can be pronounced"),
    "crowded": (FAILS, "more sounds than their time can hold"),
    "cut": (DOUBT, "truncated recordings: shorter than their headers say"),
    "rate": (DOUBT, "recordings with a lower sample rate than the model's"),
    "fast": (DOUBT, "too much text for the time: more than 22 sounds a second"),
    "slow": (DOUBT, "little text for the time: less than 2 sounds a second"),
    "letters": (DOUBT, "words with letters that the model cannot pronounce"),
    "strange": (DOUBT, "texts with markup, wrong encodings or control characters"),
    "tiers": (DOUBT, "TextGrids with tiers that are not read as utterances"),
    "twice": (DOUBT, "parts of a recording that another utterance has, too"),
}
"""Kinds of problems: whether the utterance fails, and what it is."""
MOST_PER_S, LEAST_PER_S = 22.0, 2.0
"""Sounds a second.

Fast speech has 17; less than 2 is mostly silence, or not all of it is written.
"""
SLOW_FROM_S = 5.0
"""Shorter utterances may be a word with pauses around it."""
BEYOND_S = 0.1
"""Manifests round, and headers of compressed files are off by an encoder's delay."""
SHORTEST_S = 0.025
_THREADS = 8
_STRANGE = {
    "a control character": re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f]"),
    "markup": re.compile(r"</?[A-Za-z][A-Za-z0-9]{0,20}[ />]|&(?:[a-z]{2,6}|#[0-9]{1,6});"),
    "a URL": re.compile(r"\bhttps?://"),
}
_MOST_SHOWN = 40


class Finding(NamedTuple):
    """A problem of an utterance: one of `PROBLEMS`, and what exactly it is."""

    utterance: str
    problem: str
    detail: str


class Header(NamedTuple):
    """The header of a recording, or the reason why it cannot be read.

    `cut`: the file is shorter than its header says.
    """

    length_s: float = 0.0
    rate: int = 0
    channels: int = 0
    fault: str = ""
    cut: str = ""


@dataclass
class CorpusFigures:
    """The counts of a corpus.

    `unlisted` are the words that the dictionary lacks, with how often each occurs.
    """

    utterances: int = 0
    words: int = 0
    lengths_s: array[float] = field(default_factory=lambda: array("d"))
    per_s: array[float] = field(default_factory=lambda: array("d"))
    speakers: set[str] = field(default_factory=set)
    recordings: int = 0
    rates: Counter[int] = field(default_factory=Counter)
    channels: Counter[int] = field(default_factory=Counter)
    unlisted: Counter[str] = field(default_factory=Counter)
    problems: Counter[str] = field(default_factory=Counter)

    @property
    def fails(self) -> int:
        """The number of findings that end a run over their utterance."""
        return sum(
            count for problem, count in self.problems.items() if PROBLEMS[problem][0] == FAILS
        )

    def quantiles(self, values: array[float]) -> list[float]:
        """Return the least, median and greatest of the values; [] of none."""
        if values:
            return [float(value) for value in np.quantile(values, (0.0, 0.5, 1.0))]
        return []


def check_corpus(
    source: Source,
    aligner: Aligner,
    figures: CorpusFigures,
    *,
    progress: Callable[[float], None] | None = None,
) -> Iterator[Finding]:
    """Yield the problems of a corpus in its order, and count it in `figures`.

    Args:
        source: as `open_source` returns it.
        aligner: pronounces the words; it hears nothing.
        progress: called with the completed share.

    Raises:
        UsageError: it has log-probs instead of recordings.
    """
    from ctc_align.models.log_probs import is_log_probs_path

    entries = list(source)
    names = list(dict.fromkeys(each.audio for each in entries if isinstance(each, Utterance)))
    if (first := next(filter(is_log_probs_path, names), None)) is not None:
        raise UsageError(
            f"{first}: expected recordings, whose headers can be checked, got log-probs;"
            " ctc-align corpus with --vocab and --frame-shift names those that it cannot align"
        )
    headers: dict[str, Header] = {}
    figures.recordings = len(names)
    with ThreadPoolExecutor(_THREADS) as pool:
        read = pool.map(header_of, names)
        for number, (name, header) in enumerate(zip(names, read), start=1):
            headers[name] = header
            if not header.fault:
                figures.rates[header.rate] += 1
                figures.channels[header.channels] += 1
            if progress is not None:
                progress(0.5 * number / len(names))
    texts = _Texts(aligner, figures)
    stretches: set[tuple[str, float, float | None, int | None]] = set()
    for number, entry in enumerate(entries, start=1):
        if isinstance(entry, Refused):
            found = _refused(entry)
        else:
            found = _problems(entry, headers, texts, figures, stretches)
        for problem, detail in found:
            figures.problems[problem] += 1
            yield Finding(entry.id, problem, detail)
        if progress is not None:
            progress(0.5 + 0.5 * number / len(entries))


def header_of(name: str) -> Header:
    """Return what the header of a recording says."""
    from ctc_align.audio.cut_files import cut_reason
    from ctc_align.audio.loading import open_recording

    try:
        with open_recording(name) as recording:
            length_s = recording.estimated_s()
            cut = cut_reason(name) or "; ".join(recording.find_cut(length_s))
            return Header(length_s, recording.rate, recording.channels, cut=cut)
    except (CtcAlignError, OSError, ValueError) as error:
        return Header(fault=str(error).removeprefix(f"{name}: "))


def _refused(entry: Refused) -> Iterator[tuple[str, str]]:
    named = entry.reason.partition(":")[0].partition(", line ")[0].endswith(entry.origin)
    yield "refused", entry.reason if named else f"{entry.origin}: {entry.reason}"


def _problems(
    utterance: Utterance,
    headers: dict[str, Header],
    texts: _Texts,
    figures: CorpusFigures,
    stretches: set[tuple[str, float, float | None, int | None]],
) -> Iterator[tuple[str, str]]:
    header = headers[utterance.audio]
    figures.utterances += 1
    if utterance.speaker:
        figures.speakers.add(utterance.speaker)
    length_s = utterance.duration_s or 0.0
    if header.fault:
        yield "audio", f"{utterance.audio}: {header.fault}"
    else:
        left_s = header.length_s - utterance.offset_s
        length_s = left_s
        if utterance.duration_s is not None:
            length_s = min(utterance.duration_s, left_s)
        yield from _of_sound(utterance, header, length_s, texts.sample_rate)
    if length_s > 0:
        figures.lengths_s.append(length_s)
    if utterance.transcript not in texts.grids:
        texts.grids.add(utterance.transcript)
        yield from _of_tiers(utterance)
    stretch = utterance.audio, utterance.offset_s, utterance.duration_s, utterance.channel
    if stretch in stretches:
        yield "twice", f"{utterance.audio}, from {utterance.offset_s:g} s"
    stretches.add(stretch)
    if utterance.book is None:
        yield from texts.problems(utterance, length_s)


def _of_sound(
    utterance: Utterance, header: Header, length_s: float, rate: int
) -> Iterator[tuple[str, str]]:
    if length_s < SHORTEST_S:
        yield "length", f"from {utterance.offset_s:g} s, in a recording of {header.length_s:.2f} s"
    elif utterance.duration_s is not None and utterance.duration_s > length_s + BEYOND_S:
        end_s = utterance.offset_s + utterance.duration_s
        yield "beyond", f"ends at {end_s:.2f} s, the recording at {header.length_s:.2f} s"
    if header.cut:
        yield "cut", f"{utterance.audio}: {header.cut}"
    if header.rate < rate:
        yield "rate", f"{utterance.audio}: {header.rate:,} Hz, the model's is {rate:,} Hz"
    if utterance.channel is not None and utterance.channel > header.channels:
        yield "channel", f"channel {utterance.channel} of {header.channels}"


def _of_tiers(utterance: Utterance) -> Iterator[tuple[str, str]]:
    """Yield the tiers of a TextGrid that are not utterances, where their names do not say so."""
    if not utterance.transcript.casefold().endswith(TEXTGRID):
        return
    try:
        chosen, unread = utterance_tiers(read_textgrid(utterance.transcript).tiers)
    except CtcAlignError:  # in another encoding
        return
    names = printable(", ".join(unread))
    if not chosen:
        yield (
            "tiers",
            (
                f"{names}: words and sounds, not utterances; the words are read as the text of the"
                " recording"
            ),
        )
    elif unread:
        yield (
            "tiers",
            (
                f"{names}: beside the utterances of"
                f" {printable(', '.join(tier.name for tier in chosen))}"
            ),
        )


class _Texts:
    """The problems of texts, by the words and pronunciations of an aligner."""

    def __init__(self, aligner: Aligner, figures: CorpusFigures) -> None:
        self._aligner = aligner
        self._figures = figures
        self.grids = {""}
        """The transcripts whose tiers have been looked at."""
        if aligner.model is not None:
            self.sample_rate = aligner.model.sample_rate
        else:
            self.sample_rate = 0

    def problems(self, utterance: Utterance, length_s: float) -> Iterator[tuple[str, str]]:
        """Yield the problems of an utterance's text.

        The text is read in `length_s` seconds, 0 if that is not known.
        """
        if wrong := wrong_decoding(utterance.text):
            yield "strange", printable(f"decoded wrongly: {wrong}")
        for what, pattern in _STRANGE.items():
            # tags and entities of captions are part of their format
            if (what != "markup" or utterance.file is None) and (
                met := pattern.search(utterance.text)
            ):
                around = slice(
                    max(0, met.start() - _MOST_SHOWN // 2), met.start() + _MOST_SHOWN // 2
                )
                yield "strange", f"{what}: {printable(utterance.text[around])}"
        from ctc_align.alignment.aligner import pronounce_transcript

        try:
            words, tokens, lacking = pronounce_transcript(
                self._aligner, utterance.spoken, utterance.id
            )
        except CtcAlignError as error:
            yield "unspoken", str(error).removeprefix(f"{utterance.id}: ")
            return
        self._figures.words += sum(bool(word.lookup_text) for word in words.words)
        self._figures.unlisted.update(lacking)
        unread = [word.text for word, own in zip(words.words, tokens) if own.missing]
        if unread:
            yield "letters", printable(" ".join(unread)[:_MOST_SHOWN])
        sounds = sum(len(own.pronunciations[0].ids) for own in tokens if own.pronunciations)
        if not sounds:
            yield "unspoken", "the model cannot spell any word of it"
        elif length_s >= SHORTEST_S:
            yield from self._of_rate(sounds, length_s)

    def _of_rate(self, sounds: int, length_s: float) -> Iterator[tuple[str, str]]:
        model = self._aligner.model
        self._figures.per_s.append(sounds / length_s)
        said = f"{sounds} sounds in {length_s:.2f} s"
        if model is not None and sounds * model.frame_shift_s > length_s:
            yield "crowded", said
        elif sounds > MOST_PER_S * length_s:
            yield "fast", said
        elif length_s >= SLOW_FROM_S and sounds < LEAST_PER_S * length_s:
            yield "slow", said
