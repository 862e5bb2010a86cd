"""Hand corrections of an alignment, in its JSON and in the label files beside it, by one rule.

`docs/correcting.md` states the rule, and `read_corrected` is the rule: all commands that read an
alignment call it. A file of labels (TextGrid, ELAN, CSV, Audacity) is compared with the record of
what was written (`Written`) in the JSON. `with_labels` takes all labels of one file as a person's,
whatever was written.
"""

from __future__ import annotations

import csv
import os
from bisect import bisect_left
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from difflib import SequenceMatcher
from itertools import pairwise
from operator import attrgetter
from pathlib import Path

from ctc_align.errors import InputError, MissingTierError
from ctc_align.evaluate.pairing import (
    PHONE_SILENCES,
    PHONES,
    SAME_EDGE_S,
    SILENCES,
    WORDS,
    Pair,
    Pairing,
    normalised_label,
    pair_intervals,
)
from ctc_align.evaluate.sanity_checks import find_time_doubts
from ctc_align.evaluate.utterance_files import (
    NO_SPEAKER,
    TIER_NAMES,
    JsonReading,
    UtteranceTier,
    alignment_tier,
    file_shift_s,
    moved_intervals,
    named_tiers,
    tier_intervals,
    word_interval,
)
from ctc_align.files import Style, read_alignment
from ctc_align.files.corrections import BEFORE, original_of, path_beside
from ctc_align.files.formats import LABELS
from ctc_align.files.json_files import check_fixed_words, is_fixed
from ctc_align.files.tiers import UNNAMED, is_document, wanted_tiers
from ctc_align.files.writer import is_timed
from ctc_align.files.written_labels import WrittenWord, labels_of_words
from ctc_align.reading import read_input, shown
from ctc_align.text.characters import printable
from ctc_align.types import (
    EAF,
    HAND,
    TEXTGRID,
    AlignedToken,
    AlignedWord,
    Alignment,
    Interval,
    Tier,
    aligned_words,
)

_TEXT_BYTES = 8
"""Approximate bytes of memory for each byte of a file of labels."""
_start = attrgetter("start_s")
_OVER_S = 0.01
"""By rounding, a label may end this long after the recording."""
_ENDS = (*LABELS, ".hand.TextGrid")
"""Ends of the names of files of labels, after the name of their alignment."""
_KEPT = (".hand.TextGrid", ".TextGrid", ".textgrid")
"""File name endings for the labels of NAME; the version that a corpus run kept comes first."""


@dataclass(frozen=True)
class ChangedWords:
    """Words whose labels have become other words: merged, split, removed, added or renamed.

    `places` are indices into the alignment's words, () for added ones; `words` and `phones` are the
    labels.
    """

    places: tuple[int, ...]
    words: tuple[Interval, ...]
    phones: tuple[Interval, ...] = ()


@dataclass(frozen=True)
class Corrected:
    """An alignment with all of its corrections.

    Attributes:
        path: the JSON that was read.
        alignment: its words by hand are those of the JSON and those that differ in files of labels.
        files: the files of labels with corrections.
        unknown: files of labels that differ, but whose origin the JSON does not tell: they are not
            used.
        changed: what the alignment cannot hold, because its text has other words.
        used: notes on the corrections in `files`: how many are used, and which are older than
            others.
    """

    path: Path
    alignment: Alignment
    files: tuple[Path, ...] = ()
    unknown: tuple[Path, ...] = ()
    changed: tuple[ChangedWords, ...] = ()
    used: tuple[str, ...] = ()

    @property
    def notes(self) -> tuple[str, ...]:
        """The lines that a command prints: which corrections are used, and which are not."""
        return (*self.used, *(unknown_note(self.path, file) for file in self.unknown))

    @property
    def is_corrected(self) -> bool:
        """True if a person has corrected or checked anything."""
        return (
            bool(self.files) or self.alignment.checked or any(map(is_fixed, self.alignment.words))
        )

    def intervals(self, tier: str) -> list[Interval]:
        """Return the words or phones with times, in seconds; of changed words, the labels."""
        replaced = {place for change in self.changed for place in change.places}
        words = [
            word
            for place, word in enumerate(self.alignment.words)
            if place not in replaced and is_timed(word)
        ]
        rows = tier_intervals(words, tier)
        for change in self.changed:
            rows += change.words if tier == WORDS else change.phones
        return sorted(rows, key=_start)


def read_corrected(
    path: str | Path, is_output: Callable[[Path], bool] = lambda _: False
) -> Corrected:
    """Read an alignment's JSON with the corrections in the label files written with it.

    Corrections of JSON such as `NAME.corrected.json` are joined with those in the labels of
    `NAME.json`.

    Args:
        path: the JSON.
        is_output: returns True for files that are known to be as they were written; they are not
            read.

    Raises:
        InputError: the JSON or labels written with it cannot be read, or its corrections contradict
            each other.
    """
    path = Path(path)
    alignment = read_alignment(path)
    merge = _Merge(path, alignment)
    sources: list[_Source] = []
    unknown: list[Path] = []
    notes: list[str] = []
    for own, stem in _find_owners(path, alignment):
        for file, is_known in _label_files(stem, own):
            if is_output(file):
                continue
            try:
                tiers = read_label_tiers(file)
                edits = _find_edits(own, tiers, file)
            except InputError as error:
                if is_known:
                    raise InputError(
                        f"{error}; {path.name} was written with it, and a person may have corrected"
                        " it: fix it, or remove it to go on without it"
                    ) from error
                continue
            if is_known and _lacks_words(own, tiers):
                notes.append(f"{file}: its corrections are not read: {_no_words(tiers)}")
            if not edits:
                continue
            if is_known:
                sources.append(_Source(file, _changed_ns(file), edits, own))
            elif edits.shared:  # labels of the same text
                unknown.append(file)
    for source in sorted(sources, key=lambda source: source.changed_ns):
        notes += merge.add(source)
    return Corrected(
        path, merge.merged(), tuple(merge.files), tuple(unknown), tuple(merge.changed), tuple(notes)
    )


def unknown_note(path: Path, file: Path) -> str:
    """Return why a file of labels is not used, and how to use it."""
    why = f"differs from {path.name}, which does not say that it was written with it"
    if is_kept(file):
        why = "has corrections of an earlier alignment"
    return (
        f"{file} {why}: only {path.name} is read; to use a person's corrections in {file.name}: "
        f"ctc-align realign {path} --hand {file}"
    )


def is_kept(file: Path) -> bool:
    """Return whether a run has kept these labels because a person had changed them."""
    return file.name.endswith(_KEPT[0])


def output_tier(path: Path, tier: str) -> UtteranceTier:
    """Return a tier of an alignment's JSON without the corrections that are in the JSON.

    It is in the record of what was written, or in the file that was kept or corrected. A word that
    was by hand when the JSON was written (by `realign`) is as it was written; a note says so.

    Raises:
        InputError: it cannot be read.
    """
    alignment = read_alignment(path)
    found = replace(alignment_tier(alignment, tier), path=path)
    fixed = {at for at, word in enumerate(alignment.words) if is_fixed(word)}
    if not fixed:
        return found
    if alignment.written is not None:
        rows = alignment.written.words
        places = {at: rows[row][0] for row, at in _find_places(rows, alignment).items()}
        fixed = {
            at
            for at in fixed
            if at in places and _are_same_edges(word_interval(alignment.words[at]), places[at])
        }
        labels = moved_intervals(_labels_of(rows, tier), file_shift_s(alignment))
        found = replace(found, speakers={NO_SPEAKER: tuple(labels)})
    else:
        original = original_of(path)
        for earlier in (path_beside(original, BEFORE), original):
            if (
                earlier != path
                and earlier.is_file()
                and read_alignment(earlier).utterance == alignment.utterance
            ):
                return replace(output_tier(earlier, tier), path=path)
    notes: tuple[str, ...] = ()
    if fixed:
        notes = (
            (
                f"{path}: {_count(len(fixed))} by hand are measured as they are: the program's"
                " times are not known"
            ),
        )
    return replace(found, is_corrected=False, is_ours=True, notes=notes)


def _labels_of(rows: Sequence[WrittenWord], tier: str) -> list[Interval]:
    """Return the words that were written, or their tokens."""
    if tier == WORDS:
        return [word for word, _ in rows]
    return [token for _, tokens in rows for token in tokens]


def corrected_tier(path: Path, tier: str) -> UtteranceTier:
    """Return a tier of an alignment with all of its corrections.

    Raises:
        InputError: it cannot be read.
    """
    corrected = read_corrected(path)
    alignment = corrected.alignment
    intervals = moved_intervals(corrected.intervals(tier), file_shift_s(alignment))
    return replace(
        alignment_tier(alignment, tier),
        speakers={NO_SPEAKER: tuple(intervals)},
        is_corrected=corrected.is_corrected,
        is_ours=not corrected.is_corrected,
        notes=corrected.notes,
        path=path,
    )


OUTPUT = JsonReading(output_tier)
CORRECTIONS = JsonReading(corrected_tier, is_latest=True)
"""How a hypothesis is read, and a reference."""


def read_label_tiers(path: Path) -> Sequence[Tier]:
    """Return the tiers of a label file: by its name ELAN, CSV or Audacity, otherwise a TextGrid.

    Raises:
        InputError: it cannot be read.
    """
    name = path.name.casefold()
    reader = next(
        (LABELS[end] for end in LABELS if name.endswith(end.casefold())), LABELS[".TextGrid"]
    )
    try:
        return reader(read_input(path, factor=_TEXT_BYTES), str(path))
    except OSError as error:
        raise InputError(f"{path}: cannot be read ({error.strerror or error})") from error
    except UnicodeDecodeError as error:
        raise InputError(
            f"{path}: expected UTF-8, got {error.reason} at byte {error.start}"
        ) from error
    except csv.Error as error:
        raise InputError(f"{path}: not a table that can be read: {error}") from error


def _find_owners(path: Path, alignment: Alignment) -> Iterator[tuple[Alignment, Path]]:
    """Yield the alignments of label files, and the names of these without extension.

    They are the alignment itself, and the one that it corrects; if that is not there, the first has
    its files.
    """
    original = original_of(path)
    yield alignment, path.with_suffix("")
    if original == path:
        return
    try:
        if original.is_file():
            first = read_alignment(original)
        else:
            first = alignment
    except InputError:
        return
    if first.utterance == alignment.utterance:
        yield first, original.with_suffix("")


def _label_files(stem: Path, alignment: Alignment) -> Iterator[tuple[Path, bool]]:
    """Yield the files of labels beside an alignment, and whether they were written with it."""
    ends: tuple[str, ...] = ()
    if alignment.written is not None:
        ends = alignment.written.files
    for end in dict.fromkeys((*ends, *_ENDS)):
        file = stem.with_name(f"{stem.name}{end}")
        if file.is_file():
            yield file, end in ends


def label_files_beside(path: Path) -> list[Path]:
    """Return the label files that may belong to an alignment, or to the one that it corrects."""
    stems = dict.fromkeys((path.with_suffix(""), original_of(path).with_suffix("")))
    files = (
        stem.with_name(f"{stem.name}{end}")
        for stem in stems
        for end in (*_ENDS, f".aligned{_ENDS[0]}")
    )
    return [file for file in files if file.is_file()]


def _changed_ns(path: Path) -> int:
    try:
        return path.stat().st_mtime_ns
    except OSError:
        return 0


@dataclass
class _Edits:
    """The differences of a label file: labels by the index of the written word, and changed words.

    The phones of an edit are all of the speaker's; None if the file has none. Indices of `changed`
    are of words that were written, too.
    """

    rows: Sequence[WrittenWord]
    shared: int = 0
    """The number of words that are in both."""
    renamed: list[int] = field(default_factory=list)
    """The indices in `words` of those whose phones have other labels, and no other times."""
    words: dict[int, tuple[Interval, Sequence[Interval] | None]] = field(default_factory=dict)
    changed: list[ChangedWords] = field(default_factory=list)

    def __bool__(self) -> bool:
        return bool(self.words or self.changed)


def _find_edits(alignment: Alignment, tiers: Sequence[Tier], file: Path) -> _Edits:
    """Return how the tiers of a file differ from what was written; nothing without words."""
    rows = labels_of_words(alignment, Style.of(alignment.config))
    timed = [word for word in alignment.words if is_timed(word)]
    if alignment.written is not None:
        rows = alignment.written.words
    if len(timed) == len(rows):
        speakers = _speakers_of(timed)
    else:
        speakers = [UNNAMED] * len(rows)
    shift_s = _shift_s(alignment, file)
    edits = _Edits(rows)
    for own, words, phones in _group_by_speaker(speakers, tiers):
        by_time = sorted(own, key=lambda at: rows[at][0].start_s)
        labels = moved_intervals(_drop_silences(words, [rows[at][0].label for at in own]), -shift_s)
        labels = [_inside_recording(label, alignment.duration_s) for label in labels]
        _compare(
            edits, by_time, labels, None if phones is None else moved_intervals(phones, -shift_s)
        )
    if len(edits.renamed) > max(edits.shared / 2, 1):  # `convert --phones ipa`, not a person
        for at in edits.renamed:
            del edits.words[at]
    return edits


def _shift_s(alignment: Alignment, file: Path) -> float:
    """Return the seconds that the times in a file are later than those of the alignment."""
    document = {".textgrid": TEXTGRID, ".eaf": EAF}.get(file.suffix.casefold(), "")
    if is_document(alignment.subtitles, document):
        return alignment.offset_s
    return file_shift_s(alignment)


def _compare(
    edits: _Edits, own: Sequence[int], labels: Sequence[Interval], phones: Sequence[Interval] | None
) -> None:
    """Add to `edits` how the labels of a speaker differ from the words `own`, both by time."""
    rows = [edits.rows[at][0] for at in own]
    row_of = {id(row): at for at, row in zip(own, rows)}
    pairing = pair_intervals(rows, labels)
    for pair in pairing.pairs:
        places = _find_covered(rows, pair.hypothesis)
        found = _find_covered(labels, pair.reference)
        if pair.mismatch or len(places) != 1 or len(found) != 1:
            change = ChangedWords(
                tuple(own[place] for place in places), tuple(labels[at] for at in found)
            )
            edits.changed.append(_with_phones(change, phones))
            continue
        at = own[places[0]]
        label = labels[found[0]]
        edits.shared += 1
        word, tokens = edits.rows[at]
        spoken = tokens if phones is None else _select_inside(phones, label)
        is_moved = len(spoken) != len(tokens) or not all(
            map(_are_same_edges, (word, *tokens), (label, *spoken))
        )
        if is_moved or [phone.label.split() for phone in spoken] != [
            token.label.split() for token in tokens
        ]:
            edits.words[at] = label, phones
            edits.renamed += [] if is_moved else [at]
    for row in pairing.extra:
        edits.changed.append(ChangedWords((row_of[id(row)],), ()))
    for label in pairing.missing:
        edits.changed.append(_with_phones(ChangedWords((), (label,)), phones))


def _find_covered(intervals: Sequence[Interval], whole: Interval) -> list[int]:
    """Return the indices of the intervals that `whole` covers: itself, or its parts in order."""
    first = bisect_left(intervals, whole.start_s, key=_start)
    found: list[int] = []
    for at in range(first, len(intervals)):
        if intervals[at] is whole:
            return [at]
        if intervals[at].start_s >= whole.end_s and found:
            break
        if intervals[at].end_s <= whole.end_s:
            found.append(at)
    return found


def _with_phones(change: ChangedWords, phones: Sequence[Interval] | None) -> ChangedWords:
    if phones is None or not change.words:
        return change
    own = [phone for word in change.words for phone in _select_inside(phones, word)]
    return replace(change, phones=tuple(own))


def _are_same_edges(one: Interval, other: Interval) -> bool:
    """Return whether times differ only by rounding, which is down at the end of the recording."""
    return (
        abs(one.start_s - other.start_s) <= SAME_EDGE_S
        and abs(one.end_s - other.end_s) <= SAME_EDGE_S
    )


@dataclass
class _Source:
    """A label file, when it was changed (ns), its corrections, and the alignment it belongs to."""

    file: Path
    changed_ns: int
    edits: _Edits
    owner: Alignment


class _Merge:
    """Joins corrections of one alignment, from the earliest file to the latest."""

    def __init__(self, path: Path, alignment: Alignment) -> None:
        self.path = path
        self.alignment = alignment
        self.words = list(alignment.words)
        self.changed_ns = _changed_ns(path)
        self.by: dict[int, tuple[int, str]] = {}
        """When each corrected word was corrected last, in ns, and the name of the file."""
        self.changed: list[ChangedWords] = []
        self.files: list[Path] = []
        if alignment.written is not None:
            rows = alignment.written.words
        else:
            rows = ()
        known = {at: rows[row][0] for row, at in _find_places(rows, alignment).items()}
        self.taken_over = {
            at for at, row in known.items() if _are_same_edges(word_interval(self.words[at]), row)
        }
        """Words whose times were written with this JSON: they were fixed before, if at all."""

    def add(self, source: _Source) -> Iterator[str]:
        """Adopt the corrections of a file that are newer than the present ones; yield notes."""
        places = _find_places(source.edits.rows, self.alignment)
        name = source.file.name
        used = 0
        later = dict[str, int]()
        earlier = dict[str, int]()
        for row, (label, phones) in source.edits.words.items():
            at = places.get(row)
            if at is None:
                source.edits.changed.append(ChangedWords((row,), (label,)))
                continue
            changed_ns, by = self._find_last_correction(at, source)
            if by and _are_same_edges(word_interval(self.words[at]), label):
                continue
            if changed_ns > source.changed_ns:
                earlier[by] = earlier.get(by, 0) + 1
                continue
            if by:
                later[by] = later.get(by, 0) + 1
            self.words[at] = _label_word(self.words[at], label, phones)
            self.by[at] = source.changed_ns, name
            used += 1
        changed = [self._placed(change, places) for change in source.edits.changed]
        self.changed += [
            change for change in changed if not any(at in self.by for at in change.places)
        ]
        if used or changed:
            self.files.append(source.file)
        if used:
            over = "".join(
                f"; {count} of them also in {by}, which is older" for by, count in later.items()
            )
            yield f"{source.file}: corrections of {_count(used)} are used{over}"
        for by, count in earlier.items():
            yield f"{source.file}: corrections of {_count(count)} are not used: {by} has later ones"
        if changed:
            yield _changed_note(source.file, changed, self.alignment)
        yield from self._find_doubts(source)

    def _find_last_correction(self, at: int, source: _Source) -> tuple[int, str]:
        """Return when and where a word was corrected last; (0, "") if it was not since."""
        if at in self.by:
            return self.by[at]
        is_older = source.owner is self.alignment and at in self.taken_over
        if is_fixed(self.words[at]) and not is_older:
            return (self.changed_ns, self.path.name)
        return (0, "")

    def _placed(self, change: ChangedWords, places: dict[int, int]) -> ChangedWords:
        return replace(change, places=tuple(places[row] for row in change.places if row in places))

    def _find_doubts(self, source: _Source) -> Iterator[str]:
        rows = source.edits.rows
        pairs = tuple(
            Pair(rows[row][0], label, False) for row, (label, _) in source.edits.words.items()
        )
        pairing = Pairing(pairs, utterance=self.alignment.utterance)
        yield from (f"{source.file}: {doubt}" for doubt in find_time_doubts([pairing]))

    def merged(self) -> Alignment:
        """Return the alignment with all corrections; later ones end the words they overlap."""
        fixed = {at: self.changed_ns for at, word in enumerate(self.words) if is_fixed(word)}
        if not self.by:
            return self.alignment
        words = _shorten_overlaps(
            self.words, fixed | {at: changed_ns for at, (changed_ns, _) in self.by.items()}
        )
        check_fixed_words(words, self.alignment.text, self.alignment.duration_s, str(self.path))
        return replace(self.alignment, words=tuple(words))


def _count(words: int) -> str:
    return f"{words} word" if words == 1 else f"{words} words"


def _find_places(rows: Sequence[WrittenWord], alignment: Alignment) -> dict[int, int]:
    """Return the index of each written word among the words of the alignment.

    The alignment may have another text.
    """
    style = Style.of(alignment.config)
    timed = [at for at, word in enumerate(alignment.words) if is_timed(word)]
    names = [normalised_label(style.label(alignment.words[at])) for at in timed]
    labels = [normalised_label(row.label) for row, _ in rows]
    if names == labels:
        return dict(enumerate(timed))
    blocks = SequenceMatcher(None, labels, names, autojunk=False).get_matching_blocks()
    return {block.a + k: timed[block.b + k] for block in blocks for k in range(block.size)}


def _changed_note(file: Path, changed: Sequence[ChangedWords], alignment: Alignment) -> str:
    first = changed[0]
    text = " ".join(alignment.words[at].text for at in first.places)
    labels = " ".join(label.label for label in first.words)
    start_s: float | None
    if first.words:
        start_s = first.words[0].start_s
    else:
        start_s = alignment.words[first.places[0]].start_s
    what = (
        f"{shown(labels, 80) if labels else 'no label'} for"
        f" {shown(text, 80) if text else 'no word of the text'}"
    )
    if len(changed) > 1:
        more = f", and {len(changed) - 1} more"
    else:
        more = ""
    return (
        f"{file}: has other words than the text, {printable(what)} at {start_s or 0.0:.2f} s{more}:"
        " the text and the times of its words stay; if the text was wrong, correct the"
        " transcript and align again"
    )


def _shorten_overlaps(
    words: Sequence[AlignedWord], changed_ns: Mapping[int, int]
) -> list[AlignedWord]:
    """Return the words; of two that overlap, shorten the one that was corrected earlier, or never.

    `changed_ns` says when words were corrected, by their indices.
    """
    found = list(words)
    timed = sorted(
        (at for at in range(len(found)) if is_timed(found[at])),
        key=lambda at: found[at].start_s or 0.0,
    )
    for first, second in pairwise(timed):
        end_s = found[first].end_s or 0.0
        start_s = found[second].start_s or 0.0
        if end_s <= start_s:
            continue
        if changed_ns.get(first, 0) > changed_ns.get(second, 0):
            found[second] = _clip_word(found[second], end_s, found[second].end_s or end_s)
        else:
            found[first] = _clip_word(found[first], found[first].start_s or 0.0, start_s)
    return found


def _clip_word(word: AlignedWord, low_s: float, high_s: float) -> AlignedWord:
    """Return a word, and its tokens, between two times."""

    def clip(time_s: float) -> float:
        return min(max(time_s, low_s), high_s)

    tokens = [
        replace(token, start_s=clip(token.start_s), end_s=clip(token.end_s))
        for token in word.tokens
    ]
    if is_fixed(word) and any(token.start_s >= token.end_s for token in tokens):
        tokens = []
    return replace(word, start_s=low_s, end_s=max(high_s, low_s), tokens=tuple(tokens))


def labels_of(folder: Path, json_path: Path) -> Path:
    """Return the TextGrid of an alignment in a folder, by the endings of its path, longest first.

    Raises:
        InputError: no such file.
    """
    name = json_path.with_suffix("")
    parts = name.parts[1 if name.anchor else 0 :]
    parts = parts[max((at for at, part in enumerate(parts, 1) if part == os.pardir), default=0) :]
    for start in range(len(parts)):
        place = folder.joinpath(*parts[start:])
        for ending in _KEPT:
            path = place.with_name(f"{place.name}{ending}")
            if path.is_file():
                return path
    raise InputError(
        f"{json_path}: expected its labels in {folder}, {name.name}.TextGrid, got no such file"
    )


def with_labels(alignment: Alignment, path: Path) -> tuple[AlignedWord, ...]:
    """Return the words with the times of a label file, as hand-corrected words.

    The file has the words of the alignment, in their order; those without times stay so. Its phones
    are used if
    they fill their word; otherwise, because the word's edges were moved and theirs were not, the
    word has none.

    Raises:
        InputError: it cannot be read, is JSON, has different words, or has impossible corrections
            (overlapping words).
    """
    if path.suffix.casefold() == ".json":
        raise InputError(
            f"{path}: expected a TextGrid, got JSON, in which what a person has corrected is"
            " marked: give it in place of the alignment, without --hand"
        )
    shift_s = _shift_s(alignment, path)
    tiers = read_label_tiers(path)
    if not named_tiers(tiers, TIER_NAMES[WORDS]):
        raise MissingTierError(f"{path}: {_no_words(tiers)}")
    timed = sorted(aligned_words(alignment), key=lambda word: word.start_s or 0.0)
    labelled: dict[int, AlignedWord] = {}
    for own, words, phones in _group_by_speaker(_speakers_of(timed), tiers):
        spoken = [timed[at] for at in own]
        intervals = moved_intervals(_drop_silences(words, [word.text for word in spoken]), -shift_s)
        _check_labels(spoken, intervals, path)
        if phones is None:
            moved = None
        else:
            moved = moved_intervals(phones, -shift_s)
        for word, interval in zip(spoken, intervals):
            labelled[word.char_start] = _label_word(
                word, _inside_recording(interval, alignment.duration_s), moved
            )
    found = tuple(labelled.get(word.char_start, word) for word in alignment.words)
    check_fixed_words(found, alignment.text, alignment.duration_s, str(path))
    return found


def _lacks_words(alignment: Alignment, tiers: Sequence[Tier]) -> bool:
    """Return whether the tier of words that was written is no longer in a file, or not so named."""
    was_written = WORDS in wanted_tiers(Style.of(alignment.config))
    is_any = alignment.written is not None and bool(alignment.written.words)
    return was_written and is_any and not named_tiers(tiers, TIER_NAMES[WORDS])


def _no_words(tiers: Sequence[Tier]) -> str:
    names = ", ".join(tier.name[:80] for tier in tiers[:30]) or "none"
    return f"expected an interval tier named words or word, got: {names}; rename it"


def _inside_recording(label: Interval, duration_s: float) -> Interval:
    """Return a label that does not end after the recording by rounding."""
    return replace(label, end_s=min(label.end_s, max(duration_s, label.end_s - _OVER_S)))


def label_doubts(alignment: Alignment, words: Sequence[AlignedWord], path: Path) -> tuple[str, ...]:
    """Return why the labels in `path` can hardly belong to the recording.

    `words` are the result of `with_labels`.
    """
    pairs = [
        Pair(word_interval(was), word_interval(word), False)
        for was, word in zip(alignment.words, words)
        if word.by == HAND
    ]
    pairing = Pairing(tuple(pairs), utterance=alignment.utterance)
    return tuple(f"{path}: {doubt}" for doubt in find_time_doubts([pairing]))


def _speakers_of(words: Sequence[AlignedWord]) -> list[str]:
    """Return the speaker of each word, as in names of tiers."""
    return [" ".join((word.speaker or UNNAMED).split()).casefold() for word in words]


def _group_by_speaker(
    speakers: Sequence[str], tiers: Sequence[Tier]
) -> Iterator[tuple[list[int], Sequence[Interval], list[Interval] | None]]:
    """Yield the indices of each speaker's words, with the labels of their words and phones.

    Phones are without silences.

    If the tiers are not those of the speakers, all words and all labels are yielded at once;
    nothing if there is no tier of words. Phones are None if there is no tier of them.
    """
    of_words, of_phones = (named_tiers(tiers, TIER_NAMES[kind]) for kind in (WORDS, PHONES))
    if not of_words:
        return
    if len(of_words) < 2 or {*of_words} != {*speakers}:
        yield (
            list(range(len(speakers))),
            _join_labels(of_words.values()),
            _phones(of_phones.values()),
        )
        return
    for name, row in of_words.items():
        own = [at for at, speaker in enumerate(speakers) if speaker == name]
        yield own, row, _phones([of_phones[name]] if name in of_phones else [])


def _join_labels(tiers: Iterable[Sequence[Interval]]) -> list[Interval]:
    return sorted((label for tier in tiers for label in tier), key=_start)


def _phones(tiers: Collection[Sequence[Interval]]) -> list[Interval] | None:
    """Return the phones by time; None if there are no tiers."""
    if tiers:
        return [phone for phone in _join_labels(tiers) if not _is_silence(phone, PHONE_SILENCES)]
    return None


def _drop_silences(row: Sequence[Interval], words: Sequence[str]) -> list[Interval]:
    """Return the labels of words by time, without silences.

    "sil" and the like are words if the alignment has such words.
    """
    said = {normalised_label(word) for word in words}
    found = [
        each
        for each in row
        if not _is_silence(each, SILENCES) or normalised_label(each.label) in said - {""}
    ]
    return sorted(found, key=_start)


def _is_silence(interval: Interval, silences: frozenset[str]) -> bool:
    return interval.label.strip().casefold() in silences


def _check_labels(words: Sequence[AlignedWord], intervals: Sequence[Interval], path: Path) -> None:
    """Raise InputError, which names the first difference, unless the labels are the words."""
    texts = [normalised_label(word.text) for word in words]
    labels = [normalised_label(interval.label) for interval in intervals]
    if texts == labels:
        return
    at = next(
        (at for at, (text, label) in enumerate(zip(texts, labels)) if text != label),
        min(len(texts), len(labels)),
    )
    expected = got = ""
    if at < len(words):
        expected = f"{shown(words[at].text, 80)} ({words[at].start_s:.2f} s)"
    if at < len(intervals):
        got = f"{shown(intervals[at].label, 80)} ({intervals[at].start_s:.2f} s)"
    if not expected:
        fault = f"got {got} after the last of them"
    elif not got:
        fault = f"got an end before word {at + 1}, {expected}"
    else:
        fault = f"got {got} for word {at + 1}, {expected}"
    raise InputError(
        f"{path}: expected the words of the alignment, {fault}; if the text was wrong, put the"
        " transcript right and align again"
    )


def _label_word(
    word: AlignedWord, interval: Interval, phones: Sequence[Interval] | None
) -> AlignedWord:
    """Return a hand-corrected word with the times of its label and of the `phones` in it."""
    own = phones
    if own is None:
        own = [Interval(token.start_s, token.end_s, token.token) for token in word.tokens]
    inside = _select_inside(own, interval)
    fixed = replace(word, start_s=interval.start_s, end_s=interval.end_s, by=HAND, tokens=())
    fixed = replace(fixed, confidence=None, start_sd_ms=None, end_sd_ms=None)
    edges = (interval.start_s, interval.end_s)
    if (
        not inside
        or max(abs(inside[0].start_s - edges[0]), abs(inside[-1].end_s - edges[1])) > SAME_EDGE_S
    ):
        return fixed
    inside[0] = replace(inside[0], start_s=edges[0])
    inside[-1] = replace(inside[-1], end_s=edges[1])
    by = HAND if phones is not None else ""
    tokens = tuple(
        AlignedToken(each.label.strip(), each.start_s, each.end_s, 1.0, by=by) for each in inside
    )
    return replace(fixed, tokens=tokens)


def _select_inside(phones: Sequence[Interval], word: Interval) -> list[Interval]:
    """Return the phones, by time, that start in a word."""
    first = bisect_left(phones, word.start_s - SAME_EDGE_S, key=_start)
    last = bisect_left(phones, word.end_s - SAME_EDGE_S, key=_start)
    return list(phones[first:last])
