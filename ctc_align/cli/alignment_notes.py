"""Notes on an alignment: what has no times, what is doubtful, and where transcript and recording disagree."""

from __future__ import annotations

import unicodedata
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING

from ctc_align.cli.messages import counted
from ctc_align.errors import CtcAlignError
from ctc_align.types import ALIGNED, DIRECTION, MARKUP, NONE, POOR, SKIPPED, SPEAKER, UNEXPLAINED, UNKNOWN, UNSPOKEN

if TYPE_CHECKING:
    from ctc_align.files import Alignment
    from ctc_align.types import Region

_SEVERAL = 5
_LONGER_S = 1.0


def notes(alignment: Alignment) -> list[str]:
    """Return notes on words without times, doubtful words, unexplained speech, and a poor fit."""
    from ctc_align.text.control_characters import printable

    if alignment.fit == NONE and alignment.skipped:
        lost = f"{alignment.regions[0].reason}: no word has times (--match exact places them all the same)"
        return [lost, *cue_notes(alignment)]
    found = difference_notes(alignment) + order_notes(alignment)
    reasons = {UNKNOWN: "the model can stand for none of it", UNSPOKEN: "nothing to pronounce"}
    for status, reason in reasons.items():
        words = [word.text for word in alignment.words if word.status == status and not word.kind]
        words = [printable(word) for word in words if not _is_punctuation(word)]
        if words:
            found.append(f"without times ({reason}): {several(words)}")
    found += markup_notes(alignment) + cue_notes(alignment)
    doubtful = doubtful_words(alignment)
    if doubtful:
        found.append(f"doubtful: {several(doubtful, ', ')}")
    found += region_notes(alignment)
    found += lone_word_notes(alignment)
    return found


def _is_punctuation(text: str) -> bool:
    return all(unicodedata.category(char)[0] in "PZ" for char in text)


def recording_notes(alignment: Alignment, path: str | Path) -> list[str]:
    """Return a note on a recording that goes on long after its alignment ends, where its header says how long it is."""
    from ctc_align.audio.loading import open_recording
    from ctc_align.units import samples_to_seconds

    if alignment.offset_s:
        return []
    try:
        with open_recording(str(path)) as recording:
            length_s = samples_to_seconds(recording.samples or 0, recording.rate)
    except CtcAlignError:  # whoever reads it says so
        return []
    if length_s <= alignment.duration_s + _LONGER_S:
        return []
    return [
        f"{path} is {length_s:.1f} s long, the alignment is of its first {alignment.duration_s:.1f} s: is it the same "
        "recording?"
    ]


def old_book_notes(path: str) -> list[str]:
    """Return a note on an EPUB 2 book, which cannot hold what is read aloud; none for all else."""
    from ctc_align.cli.arguments import is_book
    from ctc_align.files.epub import epub_version

    if not is_book(path) or not epub_version(path).startswith("2"):
        return []
    return [
        f"{path} is an EPUB 2 book: it is aligned as any other, and media overlays (ctc-align book, SMIL) need EPUB 3: "
        "ebook-polish --upgrade-book (Calibre) makes one of it, now or after the alignment"
    ]


def later_notes(given: Sequence[str]) -> Iterator[str]:
    """Yield a note for each alignment of which a later one lies beside it, and is not among those given."""
    from ctc_align.files.corrections import LatestBeside, has_later_fixes

    paths, beside = list(map(Path, given)), LatestBeside()
    for path in paths:
        work = beside.of(path)
        if work.path in paths:
            continue
        if path in work.outdated:
            why = "is of another text or recording: this one has corrections of what was aligned before"
        elif has_later_fixes(work.path, path):
            why = "has later corrections: give that for them"
        else:
            why = "is later and has the same corrections"
        yield f"{path} is taken as it is named; {work.path.name} beside it {why}"


def difference_notes(alignment: Alignment) -> list[str]:
    """Return one note on the words that are not in the recording, and on the speech that is not in the text.

    "477 of 4,812 words are not in the recording; 220 s of speech are not in the text"; few words are named, and so are
    the times of few stretches of speech.
    """
    from ctc_align.text.control_characters import printable

    parts = []
    if alignment.skipped:
        words = [printable(word.text) for word in alignment.words if word.status == SKIPPED]
        named = f" ({' '.join(words)})" if len(words) <= _SEVERAL else ""
        which = "word is" if alignment.spoken == 1 else "words is" if alignment.skipped == 1 else "words are"
        parts.append(f"{alignment.skipped:,} of {alignment.spoken:,} {which} not in the recording{named}")
    if alignment.unexplained:
        stretches = [f"{start_s:.2f}–{end_s:.2f} s" for start_s, end_s in alignment.unexplained]
        named = f" ({', '.join(stretches)})" if len(stretches) <= _SEVERAL else ""
        parts.append(f"{seconds_told(alignment.unexplained_s)} of speech are not in the text{named}")
    return ["; ".join(parts)] if parts else []


def order_notes(alignment: Alignment) -> list[str]:
    """Return a note on the words after which the text goes on earlier in the recording."""
    from ctc_align.text.control_characters import printable
    from ctc_align.types import aligned_words

    pairs = pairwise(aligned_words(alignment))
    backwards = [after for before, after in pairs if (after.start_s or 0.0) < (before.start_s or 0.0)]
    if not backwards:
        return []
    where = several([f"{printable(word.text)} ({word.start_s:.2f} s)" for word in backwards], ", ")
    return [f"read in another order than it is written: the text goes on earlier in the recording at {where}"]


def seconds_told(seconds: float) -> str:
    """
    >>> seconds_told(4220.4), seconds_told(3.26)
    ('4,220 s', '3.3 s')
    """
    return f"{seconds:,.0f} s" if seconds >= 10 else f"{seconds:.1f} s"


def region_notes(alignment: Alignment) -> list[str]:
    """Return notes on the words that have times and do not fit, and where they are; else on a poor fit of all."""
    regions = [region for region in alignment.regions if region.kind != UNEXPLAINED and _has_times(alignment, region)]
    found = [f"{region.reason}{_place(region)}" for region in regions[:_SEVERAL]]
    if len(regions) > _SEVERAL:
        found.append(f"and {len(regions) - _SEVERAL} more stretches of words do not fit: see `regions` in JSON")
    if alignment.fit == POOR and 2 * alignment.skipped > alignment.spoken:
        found.append(
            "the fit is poor as most of the text is not in the recording: is it the text of this recording? Where it "
            "is that of many recordings, ctc-align corpus FOLDER --text TEXT takes the part that each reads"
        )
    elif alignment.fit == POOR and not regions:
        loss = f"{alignment.loss_per_token:.1f} a token"
        found.append(f"the transcript fits the recording badly (loss {loss}): is it what is said, and all of it?")
    return found


def _has_times(alignment: Alignment, region: Region) -> bool:
    """Return whether a word of the region has times; a region without characters is told."""
    start, end = region.char_start, region.char_end
    if start is None or end is None:
        return True
    return any(word.status == ALIGNED and start <= word.char_start < end for word in alignment.words)


def _place(region: Region) -> str:
    """Return where a region is in the recording, for the end of a note."""
    if region.start_s is None or region.end_s is None:
        return ""
    return f" ({region.start_s:.2f}–{region.end_s:.2f} s)"


def lone_word_notes(alignment: Alignment) -> list[str]:
    """Return a note on single words that are likely elsewhere, or not spoken: those in a row are regions, and those
    of less than the least confidence are told as doubtful."""
    from ctc_align.alignment.fit import UNLIKELY
    from ctc_align.text.control_characters import printable

    if alignment.fit is None:
        return []
    stretches = [
        (region.char_start, region.char_end)
        for region in alignment.regions
        if region.char_start is not None and region.char_end is not None
    ]
    lone = [
        f"{printable(word.text)} ({word.start_s:.2f} s)"
        for word in alignment.words
        if word.confidence is not None
        and not word.by
        and alignment.min_confidence <= word.confidence <= UNLIKELY
        and not any(start <= word.char_start < end for start, end in stretches)
    ]
    which = "a word is likely" if len(lone) == 1 else f"{len(lone)} single words are likely"
    return [f"{which} not spoken, or elsewhere: {several(lone, ', ')}"] if lone else []


def markup_notes(alignment: Alignment) -> list[str]:
    """Return notes on what is written and not spoken: how much of each kind, and how many parentheses."""
    from ctc_align.text.control_characters import printable
    from ctc_align.text.stage_directions import parentheses

    groups: dict[str, list[str]] = {SPEAKER: [], DIRECTION: [], MARKUP: []}
    for word in alignment.words:
        if word.kind in groups:
            groups[word.kind].append(printable(word.text))
    names = {SPEAKER: "names of speakers", DIRECTION: "stage directions", MARKUP: "markup"}
    parts = [f"{names[kind]} ({several(words)})" for kind, words in groups.items() if words]
    found = [f"not spoken: {', '.join(parts)}"] if parts else []
    found += _unnamed_notes(alignment)
    directions = {
        at for word in alignment.words if word.kind == DIRECTION for at in range(word.char_start, word.char_end)
    }
    spans = parentheses(alignment.text)
    left_out = sum(all(at in directions for at in (start, end - 1)) for start, end in spans)
    if left_out:
        found.append(f"{left_out} of {counted(len(spans), 'parenthesis is', 'parentheses are')} not spoken")
    return found


def _unnamed_notes(alignment: Alignment) -> list[str]:
    """Return a note on words of cues that name nobody, where others do: a label holds for its own cue."""
    from ctc_align.types import SRT, VTT

    said = [bool(word.speaker) for word in alignment.words if word.status == ALIGNED]
    subtitles = alignment.subtitles
    if subtitles is None or subtitles.format not in (SRT, VTT) or not any(said) or all(said):
        return []
    without = said.count(False)
    which = (
        "word is in a cue that names nobody and has" if without == 1 else "words are in cues that name nobody and have"
    )
    return [f"{without:,} {which} no speaker: a name holds for its own cue, unless every turn has one"]


def several(items: Sequence[str], separator: str = " ") -> str:
    """Return the first of some different items, and how many more there are."""
    different = list(dict.fromkeys(items))
    more = f" and {len(different) - _SEVERAL} more" if len(different) > _SEVERAL else ""
    return separator.join(different[:_SEVERAL]) + more


def cue_notes(alignment: Alignment) -> list[str]:
    """Return notes on the tiers that are the text, and on the cues of a file that have text and no word with a time."""
    from ctc_align.files.cue_times import cues_without_times
    from ctc_align.files.subtitles import cue_numbers

    found = tier_notes(alignment)
    places = cues_without_times(alignment)
    if not places or alignment.config.get("cues") == "again" or alignment.fit == NONE:
        return found
    if found:
        return [*found, f"{counted(len(places), 'label has', 'labels have')} no word with a time"]
    assert alignment.subtitles is not None, "it has cues"
    numbers = cue_numbers(alignment.subtitles)
    missing = _missing_cues(alignment)
    if missing:
        which = "1 cue has no word that is" if len(missing) == 1 else f"{len(missing)} cues have no word that is"
        found.append(
            f"{which} in the recording ({_named(numbers, missing)}): kept, between the neighbours, at times that mean "
            "nothing; --cues again leaves out what is not in the recording, and with --max-skipped 0 the exit code is 3"
        )
    silent = [place for place in places if place not in {*missing}]
    if silent:
        found.append(
            f"{counted(len(silent), 'cue has', 'cues have')} no word that is spoken ({_named(numbers, silent)}): "
            "shown at the old time, moved as its neighbours are, or between them"
        )
    return found


def _missing_cues(alignment: Alignment) -> list[int]:
    """Return the places, from 1, of the cues whose words are all not in the recording."""
    from ctc_align.files.cue_times import cues_without_times

    subtitles = alignment.subtitles
    starts = [] if subtitles is None else [cue.char_start for cue in subtitles.cues]
    skipped = {bisect_right(starts, word.char_start) for word in alignment.words if word.status == SKIPPED}
    return [place for place in cues_without_times(alignment) if place in skipped]


def _named(numbers: Sequence[int], places: Sequence[int]) -> str:
    """Return the numbers of all cues at ascending places, which count from 1, those in a row as a range.

    >>> _named([5, 6, 8], [2]), _named([5, 6, 8, 9], [1, 3, 4])
    ('number 6', 'numbers 5, 8–9')
    """
    ranges: list[list[int]] = []
    for before, place in zip([0, *places], places):
        if ranges and before + 1 == place:
            ranges[-1][1:] = [numbers[place - 1]]
        else:
            ranges.append([numbers[place - 1]])
    listed = ", ".join("–".join(map(str, pair)) for pair in ranges)
    return f"{'number' if len(places) == 1 else 'numbers'} {listed}"


def limit_lines(alignment: Alignment) -> list[str]:
    """Return a line for each limit that the call set and that is not met, which makes the exit code 3."""
    found = []
    if alignment.too_many_skipped:
        most, share = float(alignment.config["max_skipped"]), 100 * alignment.skipped / alignment.spoken
        words = f"{alignment.skipped:,} of {alignment.spoken:,} words ({share:.1f} %)"
        found.append(f"--max-skipped {most:g} is passed: {words} are not in the recording")
    if alignment.in_doubt:
        words = counted(len(alignment.doubtful), "word has", "words have")
        speech = seconds_told(alignment.unexplained_s)
        least = f"--min-confidence {alignment.min_confidence:g} is not met"
        nothing = "; nothing of the text was found" if alignment.fit == NONE else ""
        found.append(f"{least}: {words} less, {speech} of speech are not in the text{nothing}")
    return found


def written_line(alignment: Alignment, paths: Sequence[Path]) -> str:
    """Return the line that names the files that were written, and that they are of no use where nothing was found."""
    files = "wrote " + ", ".join(str(path) for path in paths)
    if alignment.fit != NONE or not alignment.skipped:
        return files
    keeps_cues = alignment.subtitles is not None and alignment.config.get("cues") != "again"
    old = ", and the times of its cues are not those of this recording" if keeps_cues else ""
    return f"{files}: nothing of the text was found in the recording{old}"


def tier_notes(alignment: Alignment) -> list[str]:
    """Return a note on the tiers of a document that are the text, and on those that are not."""
    from ctc_align.files.alignment_files import document_tiers
    from ctc_align.text.control_characters import printable

    tiers = document_tiers(alignment)
    if not tiers:
        return []
    subtitles = alignment.subtitles
    text = dict.fromkeys(printable(cue.name) for cue in subtitles.cues) if subtitles is not None else {}
    others = [printable(name) for name in tiers if printable(name) not in text]
    left = f"; {several(others, ', ')} {'stays as it is' if len(others) == 1 else 'stay as they are'}" if others else ""
    return [f"the text: {'tier' if len(text) == 1 else 'tiers'} {several(list(text), ', ')}{left}"]


def doubtful_words(alignment: Alignment) -> list[str]:
    """Return the words of less than the least confidence, with their times."""
    from ctc_align.text.control_characters import printable

    return [f"{printable(word.text)} ({word.start_s:.2f} s, {word.confidence:.2f})" for word in alignment.doubtful]
