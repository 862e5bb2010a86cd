"""Notes on stderr.

They are about an alignment, the language of a transcript, a corpus run, and options without effect.
"""

from __future__ import annotations

import textwrap
import unicodedata
from collections.abc import Collection, Iterator, Sequence
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from ctc_align.cli.printing import SOME_FAILED, THRESHOLD_NOT_MET, Talk, counted, say
from ctc_align.config import ENGLISH, UNKNOWN_LANGUAGE, Settings
from ctc_align.errors import CtcAlignError
from ctc_align.text.characters import printable
from ctc_align.text.note_kinds import MOST_NAMED, name_first
from ctc_align.types import (
    ALIGNED,
    CUT_OFF,
    DIRECTION,
    FITS,
    MARKUP,
    NONE,
    POOR,
    REPEAT,
    SKIPPED,
    SPEAKER,
    SRT,
    TRANSLATION,
    UNEXPLAINED,
    UNKNOWN,
    UNSPOKEN,
    VTT,
    Region,
    aligned_words,
    is_worse_fit,
)

if TYPE_CHECKING:
    from ctc_align.cli.options import SettingsOptions
    from ctc_align.corpus.run import RunResult
    from ctc_align.corpus.state.summary import RunStats, Summary
    from ctc_align.types import Alignment

_OF_CUES = (
    *("style", "max_line", "max_cps", "frame_rate"),
    *("min_gap_s", "min_duration_s", "max_duration_s", "close_gaps_s", "highlight_at"),
)
"""Settings that have no effect if no subtitles are cut."""
_SEVERAL = 5
"""The maximum number of words, times or stretches that a note names."""
_LONGER_S = 1.0
"""A recording that is this much longer than its alignment may be a different one."""
_MANY = 20
_MOSTLY = 0.3
"""From this share of its letters on, a transcript counts as written in a different script from the
model's."""
_ALIKE = ({"da", "no"}, {"ca", "es"})
"""Languages that share most of their function words."""
_REMEDY = "use --model universal, which covers all languages (ctc-align models lists others)"
_DIRECTION_CHARS = 40
"""The most characters of a stage direction that are shown."""
_ENDS_OF_DIRECTIONS = (")", "]", "}", "*", "♪")
_NAMED = 1000
"""The maximum number of failures that are named on stderr, one per line; the summary has more, the
journal all."""
_AUTO = Settings.min_fit
"""The least fit is `poor` for a single recording, and there is none for a corpus."""


def alignment_notes(alignment: Alignment) -> list[str]:
    """Return notes on words without times, doubtful words, unexplained speech, and a poor fit."""
    from ctc_align.text.encodings import decoding_note

    decoded = decoding_note(alignment.text)
    if alignment.fit == NONE and alignment.skipped:
        lost = (
            f"{alignment.regions[0].reason}: no word has times (--match exact gives times to all)"
        )
        track = str(alignment.config.get("track", ""))
        others = (
            [f"track {track} was aligned: is the text that of another audio track? Try --track N"]
            if track
            else []
        )
        return [lost, *others, *filter(None, [decoded]), *cue_notes(alignment)]
    found = difference_notes(alignment) + order_notes(alignment)
    reasons = {UNKNOWN: "the model has none of its letters", UNSPOKEN: "nothing to pronounce"}
    for status, reason in reasons.items():
        words = [word.text for word in alignment.words if word.status == status and not word.kind]
        words = [
            printable(word)
            for word in words
            if any(unicodedata.category(char)[0] not in "PZ" for char in word)
        ]
        if words:
            found.append(f"without times ({reason}): {several(words)}")
    labels = "".join(token.token for word in alignment.words for token in word.tokens)
    if alignment.config.get("stress") and not set("012ˈˌ") & set(labels):
        found.append(
            "--stress has no effect: no phone has a stress mark; give a dictionary with stress"
            " (--lexicon)"
        )
    found += [*filter(None, [decoded]), *markup_notes(alignment), *cue_notes(alignment)]
    found += translation_notes(alignment)
    doubtful = doubtful_words(alignment)
    if doubtful:
        found.append(f"doubtful: {several(doubtful, ', ')}")
    found += region_notes(alignment)
    found += lone_word_notes(alignment)
    return found


def recording_notes(alignment: Alignment, path: str | Path) -> list[str]:
    """Return a note on a recording that is much longer than its alignment.

    There is none if the header does not give the length.
    """
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
        f"{path} is {length_s:.1f} s long, but the alignment covers only its first"
        f" {alignment.duration_s:.1f} s: is it the same recording?"
    ]


def old_book_notes(path: str) -> list[str]:
    """Return a note on an EPUB 2 book, which cannot hold media overlays; [] for any other file."""
    from ctc_align.cli.arguments import is_book
    from ctc_align.files.epub import epub_version

    if not is_book(path) or not epub_version(path).startswith("2"):
        return []
    return [
        f"{path} is an EPUB 2 book. It can be aligned, but media overlays (ctc-align book, SMIL)"
        " need EPUB 3. Convert it before or after aligning with ebook-polish --upgrade-book"
        " (Calibre)"
    ]


def later_notes(given: Sequence[str]) -> Iterator[str]:
    """Yield a note for each alignment with a later version in its folder that was not given."""
    from ctc_align.files.corrections import LatestBeside, has_later_fixes

    paths, beside = list(map(Path, given)), LatestBeside()
    for path in paths:
        work = beside.of(path)
        if work.path in paths:
            continue
        if path in work.outdated:
            why = "belongs to a different text or recording and corrects an earlier alignment"
        elif has_later_fixes(work.path, path):
            why = f"has newer corrections: give {work.path.name} to use them"
        else:
            why = "is newer but has the same corrections"
        yield f"using {path} as given; {work.path.name}, in the same folder, {why}"


def latest_alignments(alignments: list[str], talk: Talk) -> list[str]:
    """Return the file with the latest corrections of each alignment among the given ones."""
    from ctc_align.files.corrections import latest_works

    found = list(latest_works(map(Path, alignments)))
    for work in found:
        talk.notes(work.notes())
    taken = [str(work.path) for work in found]
    talk.notes(later_notes(taken))
    return taken


def read_with_corrections(path: str, talk: Talk) -> Alignment:
    """Return the alignment in a file with its corrections, and note which are used.

    Corrections may also be in files of labels.
    """
    from ctc_align.evaluate.corrected_labels import read_corrected

    corrected = read_corrected(path)
    talk.notes(corrected.notes)
    return corrected.alignment


def difference_notes(alignment: Alignment) -> list[str]:
    """Return one note on missing words, and on the speech that is not in the text.

    "477 of 4,812 words are not in the recording; 220 s of speech is not in the text"; if there are
    only a few words, or stretches of speech, the note names them. Where more than a third of the
    words is missing, it names the longest stretches of speech, and how to keep all words.
    """
    parts = []
    lacks_many = 3 * alignment.skipped > alignment.spoken
    if alignment.skipped:
        words = [printable(word.text) for word in alignment.words if word.status == SKIPPED]
        named = f" ({' '.join(words)})" if len(words) <= _SEVERAL else ""
        which = "word is" if alignment.spoken == 1 else "words are"
        if alignment.skipped == 1 < alignment.spoken:
            which = "words is"
        parts.append(
            f"{alignment.skipped:,} of {alignment.spoken:,} {which} not in the recording{named}"
        )
    if alignment.unexplained:
        by_length = sorted(alignment.unexplained, key=lambda span: span[0] - span[1])
        longest = [
            f"{start_s:.2f}–{end_s:.2f} s" for start_s, end_s in sorted(by_length[:_SEVERAL])
        ]
        more = len(by_length) - len(longest)
        named = f" ({', '.join(longest)}{f' and {more} more' * bool(more)})"
        speech = f"{seconds_text(alignment.unexplained_s)} of speech"
        if lacks_many:
            parts.append(f"heard instead: {speech}{named}")
        else:
            parts.append(f"{speech} is not in the text{'' if more else named}")
    if lacks_many:
        parts.append("if the text is right, --match exact gives times to all of its words")
    return ["; ".join(parts)] if parts else []


def order_notes(alignment: Alignment) -> list[str]:
    """Return a note on the words at which the recording jumps back."""
    pairs = pairwise(aligned_words(alignment))
    backwards = [
        after for before, after in pairs if (after.start_s or 0.0) < (before.start_s or 0.0)
    ]
    if not backwards:
        return []
    where = several([f"{printable(word.text)} ({word.start_s:.2f} s)" for word in backwards], ", ")
    return [f"not read in the order of the text: the recording jumps back at {where}"]


def seconds_text(seconds: float) -> str:
    """Return a duration with its unit, to a tenth of a second below 10 s.

    >>> seconds_text(4220.4), seconds_text(3.26)
    ('4,220 s', '3.3 s')
    """
    return f"{seconds:,.0f} s" if seconds >= 10 else f"{seconds:.1f} s"


def region_notes(alignment: Alignment) -> list[str]:
    """Return notes on words that have times but do not fit, or on a poor overall fit.

    Each note ends with the times of the stretch.
    """
    regions = [
        region
        for region in alignment.regions
        if region.kind != UNEXPLAINED and _has_times(alignment, region)
    ]
    found = [f"{region.reason}{_place(region)}" for region in regions[:_SEVERAL]]
    if len(regions) > _SEVERAL:
        found.append(
            f"and {len(regions) - _SEVERAL} more stretches of words do not fit: see `regions` in"
            " JSON"
        )
    if alignment.fit == POOR and 2 * alignment.skipped > alignment.spoken:
        found.append(
            "poor fit: most of the text is not in the recording. Is it the right text? If many"
            " recordings share it, use ctc-align corpus FOLDER --text TEXT, which finds the part"
            " that each one reads"
        )
    elif alignment.fit == POOR and not regions:
        loss = f"{alignment.loss_per_token:.1f} per token"
        found.append(
            f"the transcript fits the recording badly (loss {loss}): is it what is said, and all"
            " of it?"
        )
    return found


def _has_times(alignment: Alignment, region: Region) -> bool:
    """Return whether a word of the region has times; True for a region without characters."""
    start, end = region.char_start, region.char_end
    if start is None or end is None:
        return True
    return any(
        word.status == ALIGNED and start <= word.char_start < end for word in alignment.words
    )


def _place(region: Region) -> str:
    """Return the times of a region in the recording, for the end of a note."""
    if region.start_s is None or region.end_s is None:
        return ""
    return f" ({region.start_s:.2f}–{region.end_s:.2f} s)"


def lone_word_notes(alignment: Alignment) -> list[str]:
    """Return a note on single words that are likely elsewhere, or not spoken.

    Words in a row are regions, and words below the least confidence are noted as doubtful.
    """
    from ctc_align.alignment.fit import UNLIKELY

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
    """Return notes on written words that are not spoken.

    They have the number of each kind, and of parentheses.
    """
    from ctc_align.text.markup import parentheses

    names = {
        SPEAKER: "names of speakers",
        DIRECTION: "stage directions",
        MARKUP: "markup",
        CUT_OFF: "words that break off",
        TRANSLATION: "lines in letters that the model lacks, a translation",
    }
    groups: dict[str, list[str]] = {kind: [] for kind in names}
    repeated = sum(word.kind == REPEAT for word in alignment.words)
    goes_on = False
    for word in alignment.words:
        if goes_on and word.kind == DIRECTION:
            groups[DIRECTION][-1] += f" {printable(word.text)}"
        elif word.kind in groups:
            groups[word.kind].append(printable(word.text))
        goes_on = word.kind == DIRECTION and not word.text.endswith(_ENDS_OF_DIRECTIONS)
    groups[DIRECTION] = [
        textwrap.shorten(direction, _DIRECTION_CHARS, placeholder=" …")
        for direction in groups[DIRECTION]
    ]
    parts = [f"{names[kind]} ({several(words)})" for kind, words in groups.items() if words]
    found = [f"not spoken: {', '.join(parts)}"] if parts else []
    if repeated:
        found.append(
            f"the captions roll: {counted(repeated, 'word is', 'words are')} shown again and"
            " aligned once"
        )
    found += _unnamed_notes(alignment)
    directions = {
        at
        for word in alignment.words
        if word.kind == DIRECTION
        for at in range(word.char_start, word.char_end)
    }
    spans = parentheses(alignment.text)
    left_out = sum(all(at in directions for at in (start, end - 1)) for start, end in spans)
    if left_out:
        found.append(
            f"{left_out} of {counted(len(spans), 'parenthesis is', 'parentheses are')} not spoken"
        )
    return found


def _unnamed_notes(alignment: Alignment) -> list[str]:
    """Return a note on words of cues that name no speaker, if others do.

    A name covers only its cue.
    """
    said = [bool(word.speaker) for word in alignment.words if word.status == ALIGNED]
    subtitles = alignment.subtitles
    if subtitles is None or subtitles.format not in (SRT, VTT) or not any(said) or all(said):
        return []
    without = said.count(False)
    which = (
        "word is in a cue that names nobody and has"
        if without == 1
        else "words are in cues that name nobody and have"
    )
    return [
        f"{without:,} {which} no speaker: a name covers only its cue, unless every turn has one"
    ]


def several(items: Sequence[str], separator: str = " ", most: int = _SEVERAL) -> str:
    """Return the first few distinct items, and how many more there are."""
    different = list(dict.fromkeys(items))
    return name_first(different, len(different), most, separator)


def cue_notes(alignment: Alignment) -> list[str]:
    """Return notes on the tiers that are the text, and on cues of which no word has a time."""
    from ctc_align.files.source_cues import cues_without_times
    from ctc_align.files.subtitles import cue_numbers

    found = tier_notes(alignment)
    ranks = cues_without_times(alignment)
    if not ranks or alignment.fit == NONE:
        return found
    if found:
        return [*found, f"{counted(len(ranks), 'label has', 'labels have')} no word with a time"]
    assert alignment.subtitles is not None, "it has cues"
    numbers = cue_numbers(alignment.subtitles)
    missing = [rank for rank, is_missing in ranks.items() if is_missing]
    is_cut_again = alignment.config.get("cues") == "again"
    if missing:
        what = (
            "left out"
            if is_cut_again
            else "the old times are kept, and may overlap other cues; delete what was cut, or use"
            " --cues again to omit what is not in the recording, or --max-skipped 0 to exit with 3"
        )
        found.append(
            f"{counted(len(missing), 'cue has', 'cues have')} no word in the recording"
            f" ({_named(numbers, missing)}): {what}"
        )
    silent = [rank for rank, is_missing in ranks.items() if not is_missing]
    if silent and not is_cut_again:
        found.append(
            f"{counted(len(silent), 'cue has', 'cues have')} no word to speak"
            f" ({_named(numbers, silent)}): old times are shifted like those of the neighbours, or"
            " put between them, or shown with the one of the same old time"
        )
    return found


def translation_notes(alignment: Alignment) -> list[str]:
    """Return a note on a translation that new cues show among the words that are spoken."""
    is_cut_again = alignment.subtitles is not None and alignment.config.get("cues") == "again"
    if not is_cut_again or all(word.kind != TRANSLATION for word in alignment.words):
        return []
    return ["new cues mix the translation with what is spoken: --cues keep shows both as they are"]


def fast_cue_notes(alignment: Alignment, settings: Settings, formats: Sequence[str]) -> list[str]:
    """Return a note on the cues that are faster than --max-cps."""
    from ctc_align.files import Style
    from ctc_align.files.cues import fast_cues

    fast = fast_cues(alignment, Style.of(settings), formats)
    named = several([f"cue {each.cue} ({each.columns_per_s:g} columns/s)" for each in fast], ", ")
    return [
        f"{counted(len(fast), 'cue is', 'cues are')} faster than --max-cps {settings.max_cps:g},"
        f" because the speech is that fast: {named}; shorten the text"
    ] * bool(fast)


def _named(numbers: Sequence[int], ranks: Sequence[int]) -> str:
    """Return the numbers of the cues at ascending ranks, which count from 1.

    Consecutive numbers are written as a range.

    >>> _named([5, 6, 8], [2]), _named([5, 6, 8, 9], [1, 3, 4])
    ('number 6', 'numbers 5, 8–9')
    """
    ranges: list[list[int]] = []
    for before, rank in zip([0, *ranks], ranks):
        if ranges and before + 1 == rank:
            ranges[-1][1:] = [numbers[rank - 1]]
        else:
            ranges.append([numbers[rank - 1]])
    listed = ", ".join("–".join(map(str, pair)) for pair in ranges)
    return f"{'number' if len(ranks) == 1 else 'numbers'} {listed}"


def limit_lines(alignment: Alignment) -> list[str]:
    """Return a line for each limit that the call set and that is not met.

    The exit code is then 3.
    """
    found = []
    if alignment.too_many_skipped:
        most, share = (
            float(alignment.config["max_skipped"]),
            100 * alignment.skipped / alignment.spoken,
        )
        words = f"{alignment.skipped:,} of {alignment.spoken:,} words ({share:.1f} %)"
        found.append(f"--max-skipped {most:g} is exceeded: {words} are not in the recording")
    least = str(alignment.config.get("min_fit", _AUTO))
    by_default = ", the default," if least == _AUTO else ""
    least = POOR if least == _AUTO else least
    if is_worse_fit(alignment.fit, least):
        exact = " If it is, --match exact gives times to every word;" if alignment.skipped else ""
        found.append(
            f"--min-fit {least}{by_default} is not met: the fit is {alignment.fit}. Is it the text"
            f" of this recording?{exact} --min-fit none sets no limit"
        )
    if alignment.in_doubt:
        words = counted(len(alignment.doubtful), "word is", "words are")
        speech = seconds_text(alignment.unexplained_s)
        nothing = "; nothing of the text was found" if alignment.fit == NONE else ""
        found.append(
            f"{words} below --min-confidence {alignment.min_confidence:g}, and {speech} of speech"
            f" is not in the text{nothing}"
        )
    return found


def written_line(alignment: Alignment, paths: Sequence[Path]) -> str:
    """Return the line that names the written files.

    If nothing was found, it says that they have no times of this recording.
    """
    files = "wrote " + ", ".join(str(path) for path in paths)
    if alignment.fit != NONE or not alignment.skipped:
        return files
    if alignment.subtitles is not None and alignment.config.get("cues") != "again":
        return f"{files}: the cues keep their old times, which do not belong to this recording"
    return f"{files}: no word in them has times"


def tier_notes(alignment: Alignment) -> list[str]:
    """Return a note on the tiers of a document that are the text, and on those that are not."""
    from ctc_align.files.alignment_files import document_tiers

    tiers = document_tiers(alignment)
    if not tiers:
        return []
    subtitles = alignment.subtitles
    text = (
        dict.fromkeys(printable(cue.name) for cue in subtitles.cues)
        if subtitles is not None
        else {}
    )
    others = [printable(name) for name in tiers if printable(name) not in text]
    left = ""
    if others:
        stays = "stays as it is" if len(others) == 1 else "stay as they are"
        left = f"; {several(others, ', ')} {stays}"
    return [f"the text: {'tier' if len(text) == 1 else 'tiers'} {several(list(text), ', ')}{left}"]


def doubtful_words(alignment: Alignment) -> list[str]:
    """Return the words below the least confidence, with their times."""
    return [
        f"{printable(word.text)} ({word.start_s:.2f} s, {word.confidence:.2f})"
        for word in alignment.doubtful
    ]


def choice_notes(looks: dict[str, int]) -> list[str]:
    """Return a note on transcripts that seem not to be English; `looks` counts them by language.

    >>> choice_notes({"de": 1})[0].partition(";")[0]
    'the text looks German (de): aligned with the model universal'
    >>> choice_notes({"de": 12, "und": 1})[0].partition(": aligned")[0]
    'texts: 12 look German (de), 1 does not look English'
    >>> choice_notes({"de": 12, "und": 1})[0].rpartition("if ")[2]
    'they are English, otherwise the code of their language, so that they are read by its rules'
    """
    from ctc_align.text.languages import UNKNOWN, shown_language

    looks = {
        code: count
        for code, count in looks.items()
        if code not in ("", ENGLISH) and "," not in code
    }
    if not looks:
        return []
    remedy = "aligned with the model universal; give --language en if "
    if sum(looks.values()) == 1:
        [code] = looks
        if code == UNKNOWN:
            return [
                f"the text does not look English: {remedy}it is, otherwise the code of its language"
            ]
        return [f"the text looks {shown_language(code)}: {remedy}it is English"]
    parts = [f"{count} {_look(code, count)}" for code, count in looks.items()]
    other = (
        ", otherwise the code of their language, so that they are read by its rules"
        if UNKNOWN in looks
        else ""
    )
    return [f"texts: {', '.join(parts)}: {remedy}they are English{other}"]


def _look(code: str, count: int) -> str:
    from ctc_align.text.languages import UNKNOWN, shown_language

    if code == UNKNOWN:
        return f"{'do' if count > 1 else 'does'} not look English"
    return f"look{'' if count > 1 else 's'} {shown_language(code)}"


def language_notes(text: str, model: str | None, language: str = "") -> list[str]:
    """Return a note if a transcript is not in the language of the model called `model`.

    Either its words show it clearly, or `language` (a code, "" for none) says so.

    >>> language_notes("Der Hund und die Katze sind nicht im Haus, aber sie sind auch nicht auf dem Dach, und wenn "
    ...                "es regnet, ist das schade.", "english")[0].partition(":")[0]
    'the transcript looks German and the model english is for English'
    """
    from ctc_align.models import AUTO
    from ctc_align.models.catalogue import language_of, speaks_any
    from ctc_align.text.languages import (
        NAMES,
        base_code,
        likely_language,
        likely_other_language,
        script_of,
    )

    spoken = language_of(model)
    if spoken not in NAMES:
        return _contradicting_language(text, language) if model == AUTO or speaks_any(model) else []
    written, rough = likely_language(text), "times are rough at best"
    other = (
        likely_other_language(text)
        if spoken == "en" and not written and script_of(text) == "Latin"
        else ""
    )
    written = other if other in NAMES else written
    if other and not written:
        return [
            f"the transcript does not look English, and the model {model} is for English: {rough};"
            f" {_REMEDY}"
        ]
    if written not in ("", spoken) and {written, spoken} not in _ALIKE:
        looks = (
            f"the transcript looks {NAMES[written]} and the model {model} is for {NAMES[spoken]}"
        )
        return [f"{looks}: {rough}; {_REMEDY}, or is it the wrong transcript?"]
    if language and base_code(language) != spoken:
        return [
            f"--language is {language} and the model {model} is for {NAMES[spoken]}: {rough};"
            f" {_REMEDY}"
        ]
    return []


def _contradicting_language(text: str, language: str) -> list[str]:
    """Return a note if a text is clearly in another language than the one that --language names.

    Both are among the languages that function words tell apart.
    """
    from ctc_align.text.languages import NAMES, base_code, likely_language

    named, written = base_code(language), likely_language(text)
    if named not in NAMES or written in ("", named) or {written, named} in _ALIKE:
        return []
    return [
        f"the transcript looks {NAMES[written]}, but --language is {language}: words and numbers"
        f" are read as {NAMES[named]}; omit --language, or is it the wrong transcript?"
    ]


def unknown_letters(alignment: Alignment) -> list[str]:
    """Return notes on letters that the vocabulary lacks, and on digits that are not read.

    The former may be phones of a lexicon; the note says how often each occurs. Digits are not
    read if num2words does not know the language.
    """
    from ctc_align.text.languages import split_languages
    from ctc_align.text.word_forms import reads_digits

    counts, language = alignment.unknown_letters, str(alignment.config.get("language") or ENGLISH)
    left = frozenset(filter(str.isdecimal, counts))
    if left and all(map(reads_digits, split_languages(language))):
        left = frozenset()
    digits = {letter: count for letter, count in counts.items() if letter in left}
    letters = {letter: count for letter, count in counts.items() if letter not in left}
    aligned = "the rest is aligned normally"
    if alignment.config.get("unknown") == "wildcard":
        aligned = f"they match any speech, so their times are guesses; {aligned}"
    found = [f"the model's vocabulary lacks {_counted(letters)}; {aligned}"] if letters else []
    if digits:
        why = f"language {language!r}: num2words does not know it, so digits are not read"
        if language == UNKNOWN_LANGUAGE:
            why = "digits are not read if the language is unknown (--language)"
        found.append(f"{why}: {_counted(digits)}; {aligned}")
    return [*_script_notes(alignment, letters), *found]


def _script_notes(alignment: Alignment, lacking: dict[str, int]) -> list[str]:
    """Return a note if much of the transcript is in a script that the vocabulary lacks."""
    from ctc_align.text.languages import script_of

    letters = sum(character.isalpha() for word in alignment.words for character in word.spoken)
    missing = sum(count for letter, count in lacking.items() if letter.isalpha())
    script = script_of("".join(letter * count for letter, count in lacking.items()))
    if script in ("", "Latin") or missing < _MOSTLY * letters:
        return []
    which = f"{counted(missing, 'letter', 'letters')} of {letters}"
    remedy = f"{_REMEDY}, or --romanize with a model that reads Latin letters"
    return [f"{which} are {script}, which the model {alignment.model} does not know: {remedy}"]


def _counted(letters: dict[str, int]) -> str:
    return several([f"{letter!r} × {count}" for letter, count in letters.items()], ", ", _MANY)


def verification(result: RunResult) -> str:
    """Return the findings of `--verify`, for a message."""
    assert result.verified is not None
    checked, damaged, unknown = result.verified
    again = ""
    if damaged:
        again = ", to be redone" if result.interrupted else ", redone"
    only = (
        f"; {unknown} not compared in full (written by a version without checksums)"
        if unknown
        else ""
    )
    utterances = counted(checked, "utterance", "utterances")
    return f"{utterances} checked: {checked - damaged} whole, {damaged} not{again}{only}"


def changed_outputs(stats: RunStats) -> Iterator[str]:
    """Yield notes on outputs that somebody has changed since a run wrote them."""
    for files, what in (
        (stats.left, "left alone"),
        (stats.kept, "moved aside, not replaced"),
    ):
        if files.count:
            changed = counted(files.count, "output of a run was", "outputs of a run were")
            named = name_first(files.names, files.count)
            yield f"{changed} changed by others since, and {what}: {named}"


def interruption(result: RunResult) -> str:
    of = "" if result.total is None else f" of {result.total}"
    return (
        f"interrupted: {result.summary.done}{of} utterances are done; run the same command to"
        " continue"
    )


def name_failures(summary: Summary, journal: Path) -> None:
    """Print each failure with its reason to stderr, one on each line, even when quiet."""
    for failure in summary.failures[:_NAMED]:
        line = " ".join(f"{failure['utterance']}: {failure['reason']}".split())
        say(f"ctc-align: {line}")
    more = summary.failed - len(summary.failures[:_NAMED])
    if more > 0:
        say(f"ctc-align: and {more} more that failed: see {journal}")


def leave(summary: Summary, min_fit: str = _AUTO) -> None:
    """Exit with 1 if something failed, otherwise with 3 if a limit is not met.

    The limit is named even when quiet.

    `min_fit`: the setting, which limits nothing in a corpus unless it is given.
    """
    unmet = []
    worse = FITS[FITS.index(min_fit) + 1 :] if min_fit != _AUTO else ()
    if count := sum(summary.fit.get(fit, 0) for fit in worse):
        fit_worse = counted(count, "utterance fits", "utterances fit")
        rows = [row for row in summary.misfits if row["fit"] in worse]
        named = f" ({_ranked_names(rows, count)})" if rows else ": see fit in the journal"
        unmet.append(f"--min-fit {min_fit} is not met: {fit_worse} worse{named}")
    if summary.too_many_skipped:
        which = _ranked_names(summary.most_skipped, summary.too_many_skipped)
        lack = counted(
            summary.too_many_skipped, "utterance lacks more of its", "utterances lack more of their"
        )
        unmet.append(f"--max-skipped is exceeded: {lack} words ({which})")
    if summary.in_doubt:
        which = _ranked_names(summary.doubtful, summary.in_doubt)
        are = counted(summary.in_doubt, "utterance is", "utterances are")
        unmet.append(f"--min-confidence is not met: {are} in doubt ({which})")
    failed = f"; exit code 1, because {summary.failed} failed" if summary.failed else ""
    for line in unmet:
        say(f"ctc-align: {line}{failed}")
    if summary.failed or unmet:
        raise typer.Exit(SOME_FAILED if summary.failed else THRESHOLD_NOT_MET)


def _ranked_names(ranked: list[dict[str, Any]], count: int) -> str:
    return name_first([str(row["utterance"]) for row in ranked], count)


def misfits(summary: Summary, *, has_json: bool = True, keeps_cues: bool = False) -> Iterator[str]:
    """Yield how many transcripts fit poorly, and where to find the words that are missing.

    Args:
        summary: of the run.
        has_json: whether the run writes JSON, which names such words.
        keeps_cues: whether cues of subtitles are kept, even unspoken ones.
    """
    count = summary.fit.get(POOR, 0) + summary.fit.get(NONE, 0)
    if count:
        named = name_first([_misfit(row) for row in summary.misfits], count)
        fit = "transcript fits its recording" if count == 1 else "transcripts fit their recordings"
        yield f"{count} {fit} poorly or not at all: {named}: do they belong to these recordings?"
        if summary.text_gaps and count == summary.done:
            yield "no recording reads the text well: it may be another book, or another edition"
    if fast := summary.others.get("fast_cues"):
        yield (
            f"{counted(fast, 'cue is', 'cues are')} faster than --max-cps because the speech is that"
            " fast: see fast_cues in the journal and, if --max-cps is given, in JSON"
        )
    if not summary.skipped_words:
        return
    where = "ctc-align view shows them" if has_json else "a run with --format json writes it"
    yield (
        'words that are not in the recordings have "status": "skipped" in the JSON of an'
        f" utterance; {where}"
    )
    if keeps_cues:
        yield (
            "subtitles: a cue without a word in its recording keeps its old times; ctc-align"
            " RECORDING SUBTITLES prints its number, and --cues again omits it"
        )


def grouped_notes(summary: Summary, journal: Path, said: Collection[str] = ()) -> Iterator[str]:
    """Yield the notes on utterances, one for each kind, and where all of them are.

    `said`: what was printed during the run; of a single utterance or of all it is not repeated.
    """
    for note in summary.notes:
        if note.text not in said or 1 < note.count < summary.utterances:
            yield from note.lines("utterance", summary.utterances)
    if any(note.count > MOST_NAMED for note in summary.notes):
        yield f"the notes on each utterance are in {journal}"


def read_twice(summary: Summary) -> Iterator[str]:
    """Yield notes on passages that two recordings read, and on transcripts given to several.

    Of the latter, only those that do not fit all of their recordings.
    """
    from ctc_align.corpus.state import shared_texts

    for row in summary.text_overlaps[:MOST_NAMED]:
        words = (
            ""
            if row["words"] is None
            else f" ({counted(row['words'], 'word', 'words')}: {shared_texts.gap_words(row)})"
        )
        one, other = row["utterances"]
        yield (
            f"{one} and {other} read the same passage{words}: a second take? Omit one of them:"
            " ctc-align book does not accept two recordings of one passage"
        )
    left = len(summary.text_overlaps) - MOST_NAMED
    if left > 0:
        more = counted(left, "more passage is", "more passages are")
        yield f"and {more} read twice: see text_overlaps in summary.json"
    doubtful = [
        row
        for row in summary.same_texts
        if row["misfits"] and row["count"] <= shared_texts.MOST_NAMED
    ]
    for row in doubtful[:MOST_NAMED]:
        yield (
            f"{name_first(row['utterances'], row['count'])} have the same transcript"
            f" ({row['words']} words), which does not fit"
            f" {name_first(row['misfits'], row['misfit_count'])}: was it given to the wrong"
            " recording?"
        )
    if len(doubtful) > MOST_NAMED:
        yield (
            f"and {len(doubtful) - MOST_NAMED} more transcripts that several recordings share do"
            " not fit all of them; see same_texts in summary.json"
        )


def _misfit(row: dict[str, Any]) -> str:
    skipped = f", {row['skipped']} of {row['words']} words not in it" if row["skipped"] else ""
    return f"{row['utterance']} (fit {row['fit']}{skipped})"


def effect_notes(config: SettingsOptions, formats: Sequence[str]) -> list[str]:
    """Return a note on the given subtitle options that have no effect on the output."""
    from ctc_align.cli.options import setting_option
    from ctc_align.files.cues import CUED

    names = [setting_option(name) for name in _OF_CUES if config.overrides[name] is not None]
    if not names or not CUED.isdisjoint(formats):
        return []
    return [f"{' and '.join(names)}: no effect, because no subtitles are written (--format srt)"]
