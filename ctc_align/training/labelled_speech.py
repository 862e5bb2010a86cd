"""Hand-labelled speech in folders.

It is TextGrids, each with a recording of the same name, and corrected JSON.
"""

from __future__ import annotations

import logging
import os
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np

from ctc_align.alignment.confidence import sound_fits, word_begins
from ctc_align.alignment.ctc_path import Spans
from ctc_align.alignment.edges import kinds_around
from ctc_align.audio.loading import LONGER_S, estimated_duration_s, load_audio
from ctc_align.errors import CtcAlignError, InputError, TranscriptError, UsageError
from ctc_align.evaluate import Evaluation, read_intervals
from ctc_align.evaluate.corrected_labels import is_kept, read_corrected, unknown_note
from ctc_align.evaluate.pairing import broad_phones, pair_intervals
from ctc_align.evaluate.utterance_files import word_interval
from ctc_align.files.corrections import latest_works, original_of
from ctc_align.files.json_files import is_fixed, read_object
from ctc_align.files.transcripts import read_transcript
from ctc_align.models.calibration import Calibration, fit_logistic, fit_offsets, probability
from ctc_align.models.edge_network import EdgeNetwork
from ctc_align.types import HAND, SKIPPED, Alignment, AudioLike, Emissions, Interval, Tokens, Word
from ctc_align.units import seconds_to_ms

TRANSCRIPTS = (".txt", ".lab")
_NOT_AUDIO = (".textgrid", ".txt", ".lab", ".json", ".ctm", ".md", ".toml")
_KEPT = re.compile(r"\.hand(-\d+)?$")
"""The part of a name that a corpus run adds to an output that a person has changed.

It is added when the run makes the output again.
"""
ALIGNED_AGAIN = ".aligned"
"""The part of a name that commands add if the name is taken."""
FEWEST_UTTERANCES = 8
"""An edge network needs this many labelled utterances."""
Row = tuple[str, Sequence[Interval], Sequence[Interval]]
"""A name, intervals and labels, as `evaluate_intervals` expects them."""

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class LabelledUtterance:
    """A hand-labelled utterance; phones may be missing.

    With `char_starts`, `words` are those at these characters of the text, and the others have no
    label.
    """

    name: str
    speaker: str
    audio: AudioLike
    text: str
    words: Sequence[Interval]
    phones: Sequence[Interval] = ()
    char_starts: Sequence[int] = ()


_LabelFile = tuple[Path, Path]
"""A TextGrid, or JSON with corrections: its path, and its name.

The name is the path in the folder, without extension.
"""


@dataclass
class LabelFiles:
    """The files of labels in a folder: those that are learnt from, and what is not.

    `files` are in the order of their names; `untouched` are alignments without corrections; `notes`
    say which corrections are used, and which are not.
    """

    files: list[_LabelFile] = field(default_factory=list)
    untouched: list[Path] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)


def read_labelled(
    reference: str | os.PathLike[str],
    audio: str | os.PathLike[str] | None = None,
    failed: list[str] | None = None,
    found: LabelFiles | None = None,
    encoding: str | None = None,
) -> Iterator[LabelledUtterance]:
    """Yield every TextGrid and every corrected alignment below a folder, in order.

    Each comes with its recording and transcript.

    Args:
        reference: a folder of TextGrids with a tier of words, and perhaps one of phones, or of
            alignments in JSON. If a person has corrected the TextGrid of an alignment, all its
            words are labels, otherwise only words by hand. An alignment without corrections is
            ignored, and so is its TextGrid. The speaker is the folder of a file,
            or the file itself if all are in one folder. The latest correction of an alignment is
            used. Of TextGrids without JSON, `NAME.aligned.TextGrid` belongs to the recording NAME
            and overrides `NAME.TextGrid`; `NAME.hand.TextGrid` overrides both.
        audio: the folder with recordings of the same relative names; None: `reference` itself, and
            for JSON the path that it names. The transcript is a .txt or .lab file beside the
            recording, else the words of the TextGrid; JSON has its text.
        failed: a list for the reasons why files cannot be used; without it the first one is raised.
        found: receives the files before the first utterance is read.
        encoding: of TextGrids and transcripts that are not UTF-8, as in
            `ctc_align.text.encodings.decode_text`.

    Raises:
        UsageError: there is no such folder, it has no labels, or some labels have no recording.
        InputError: labels or a transcript cannot be read, or hold no words.
    """
    folder = Path(reference)
    sounds = Path(reference if audio is None else audio)
    for needed in (folder, sounds):
        if not needed.is_dir():
            raise UsageError(
                f"{needed}: expected a folder of labels, or of the recordings that they are of"
            )
    problems: list[str] = []
    found = LabelFiles() if found is None else found
    _find_label_files(folder, problems, found)
    files = found.files
    if not files and not problems:
        got = "none"
        if found.untouched:
            got = f"{len(found.untouched)} alignments without corrections"
        raise UsageError(
            f"{folder}: expected hand-labelled TextGrids in this folder or below it, or alignments"
            f" with corrections, got {got}" + "".join(f"; {note}" for note in found.notes[:1])
        )
    if problems and failed is None:
        raise InputError(problems[0])
    if failed is not None:
        failed += problems
    flat = len({name.parent for _, name in files}) == 1
    for path, name in files:
        if flat:
            speaker = name.as_posix()
        else:
            speaker = name.parent.as_posix()
        try:
            if path.suffix.casefold() == ".json":
                utterance = _read_json(path, name, speaker, sounds, given=audio is not None)
            else:
                utterance = _read_textgrid(path, name, speaker, sounds, encoding)
        except CtcAlignError as error:
            if failed is None:
                raise
            failed.append(str(error))
        else:
            yield utterance


def _find_label_files(folder: Path, problems: list[str], into: LabelFiles) -> None:
    """Find the files with labels, one for each name; add JSON that cannot be read to `problems`."""
    paths = sorted(
        path for path in folder.rglob("*") if path.suffix.casefold() in (".json", ".textgrid")
    )
    has_fixes = {
        path: _has_fixes(path, problems) for path in paths if path.suffix.casefold() == ".json"
    }
    alignments = [path for path, fixed in has_fixes.items() if fixed is not None]
    fixed = [path for path in alignments if has_fixes[path]]
    found: dict[Path, tuple[int, _LabelFile]] = {}
    works = list(latest_works(fixed))
    for work in works:
        for path in work.outdated:
            logger.warning(
                "%s is ignored: it belongs to a different text or recording from %s",
                path,
                work.path.name,
            )
    corrected = {original_of(work.path) for work in works}
    others = [
        work.path
        for work in latest_works(path for path in alignments if original_of(path) not in corrected)
    ]
    governed: set[Path] = set()
    for path in (*(work.path for work in works), *others):
        bare = original_of(path).relative_to(folder).with_suffix("")
        name = bare
        if bare in found:
            name = path.relative_to(folder).with_suffix("")
        try:
            alignment = read_corrected(path)
        except InputError as error:
            problems.append(str(error))
            continue
        governed.add(bare)
        into.notes += alignment.used
        into.notes += [unknown_note(path, file) for file in alignment.unknown if not is_kept(file)]
        if alignment.files or has_fixes[path]:
            found[name] = -1, (path, name)
        else:
            into.untouched.append(path)
    for path in (path for path in paths if path.suffix.casefold() == ".textgrid"):
        name = path.relative_to(folder).with_suffix("")
        stem = _KEPT.sub("", name.name)
        bare = name.with_name(stem.removesuffix(ALIGNED_AGAIN))
        rank = 2 * (bare == name) - (stem != name.name)
        if stem == name.name and bare in governed:  # the JSON says whether a person has changed it
            continue
        if bare not in found or rank < found[bare][0]:
            found[bare] = rank, (path, bare)
    into.files += [found[name][1] for name in sorted(found)]


def _has_fixes(path: Path, problems: list[str]) -> bool | None:
    """Return whether an alignment has hand-corrected words.

    It is None for other JSON (a summary, settings).
    """
    try:
        words = read_object(path).get("words")
    except InputError as error:
        if "expected an alignment of format" not in str(error):
            problems.append(str(error))
        return None
    return isinstance(words, list) and any(
        isinstance(word, dict) and word.get("by") == HAND for word in words
    )


def _read_textgrid(
    path: Path, name: Path, speaker: str, sounds: Path, encoding: str | None
) -> LabelledUtterance:
    sound = _recording(sounds / name, path)
    words = read_intervals(path, "words", encoding=encoding)
    text = _transcript(sound, words, encoding)
    phones = _phones(path, encoding)
    return LabelledUtterance(name.as_posix(), speaker, sound, text, words, phones)


def _read_json(
    path: Path, name: Path, speaker: str, sounds: Path, *, given: bool
) -> LabelledUtterance:
    """Return the labels of a corrected alignment, and the part of the recording that it covers.

    They are the words and tokens by hand; all of them if a person has corrected its TextGrid.
    """
    corrected = read_corrected(path)
    alignment = corrected.alignment
    if alignment.audio and not given:
        named = [Path(alignment.audio), path.parent / alignment.audio]
    else:
        named = []
    sound = next((each for each in named if each.is_file()), None)
    if sound is None and alignment.audio:
        leaf = (sounds / name).with_name(Path(alignment.audio).name)
        sound = leaf if leaf.is_file() else None
    sound = sound or _recording(sounds / name, path)
    audio: AudioLike = sound
    if alignment.offset_s or estimated_duration_s(sound) > alignment.duration_s + LONGER_S:
        audio = load_audio(sound, offset_s=alignment.offset_s, duration_s=alignment.duration_s)
    if corrected.files:
        words, phones = corrected.intervals("words"), corrected.intervals("phones")
        return LabelledUtterance(
            name.as_posix(), speaker, audio, _spoken_text(alignment), words, phones
        )
    fixed = [word for word in alignment.words if is_fixed(word)]
    words = list(map(word_interval, fixed))
    tokens = [token for word in fixed for token in word.tokens if token.by == HAND]
    phones = [Interval(token.start_s, token.end_s, token.token) for token in tokens]
    starts = [word.char_start for word in fixed]
    return LabelledUtterance(
        name.as_posix(), speaker, audio, _spoken_text(alignment), words, phones, starts
    )


def _spoken_text(alignment: Alignment) -> str:
    """Return the text of an alignment as it was spoken.

    Words that are not in the recording are replaced by spaces.
    """
    text = list(alignment.text)
    for word in alignment.words:
        if word.status == SKIPPED:
            text[word.char_start : word.char_end] = " " * (word.char_end - word.char_start)
    return "".join(text)


def _recording(name: Path, label: Path) -> Path:
    """Return the recording with the name of a file of labels."""
    if name.parent.is_dir():
        files = [path for path in name.parent.iterdir() if path.is_file()]
    else:
        files = []
    others = [path for path in files if path.suffix.casefold() not in _NOT_AUDIO]
    # A recording may itself be called NAME.aligned.wav.
    sounds = sorted(path for path in others if path.stem in (name.name, label.stem))
    if not sounds:
        hint = f" in {name.parent}, the folder that --audio means"
        if name.parent == label.parent:
            hint = "; give the recordings' folder with --audio"
        raise UsageError(f"{name}.*: there is no recording for {label}{hint}")
    return sounds[0]


def _transcript(sound: Path, words: list[Interval], encoding: str | None) -> str:
    for suffix in TRANSCRIPTS:
        transcript = sound.with_suffix(suffix)
        if transcript.is_file():
            return read_transcript(str(transcript), encoding)
    text = " ".join(word.label.strip() for word in words if word.label.strip())
    if not text:
        raise TranscriptError(
            f"{sound}: no transcript beside it, and its TextGrid's tier of words is empty"
        )
    return text


def _phones(grid: Path, encoding: str | None) -> list[Interval]:
    try:
        return read_intervals(grid, "phones", encoding=encoding)
    except InputError:
        return []


# Edges of aligned words and phones paired with hand labels, offsets estimated from them, and
# cross-validation.

AS_GOOD = 0.03
"""Among candidates so little worse than the best, the one with the fewest lost pauses wins."""
MOST_FOLDS = 5


@dataclass(frozen=True)
class SpokenUtterance:
    """A labelled utterance with chosen pronunciations.

    It has words, and tokens with their spikes on CTC's best path.
    """

    labelled: LabelledUtterance
    emissions: Emissions
    words: Sequence[Word]
    tokens: Tokens
    spikes: Spans
    separator: int | None = None

    @property
    def spoken(self) -> np.ndarray:
        """Indices of the tokens that belong to words."""
        return word_begins(self.tokens)[0]

    @property
    def kinds(self) -> list[str]:
        """The kinds of the tokens that belong to words."""
        known = Calibration().at(self.emissions.frame_shift_s, self.emissions.vocab)
        return known.kinds([self.tokens.labels[k] for k in self.spoken])

    @property
    def begins(self) -> np.ndarray:
        """Index of each word's first sound among `spoken`, and their number (W + 1,)."""
        return word_begins(self.tokens)[1]

    @property
    def owners(self) -> np.ndarray:
        """Index of each word that has sounds (W,)."""
        return np.asarray(self.tokens.words)[self.spoken][self.begins[:-1]]

    def word_intervals(self, edges: Spans) -> list[Interval]:
        """Return the words that have sounds, between their edges."""
        return self.intervals(edges, self.begins, [self.words[w].text for w in self.owners])

    def labelled_intervals(self, edges: Spans) -> list[Interval]:
        """Return the words that are compared with labels.

        They are all, or only the labelled ones if some have no label.
        """
        intervals = self.word_intervals(edges)
        if not self.labelled.char_starts:
            return intervals
        return [intervals[unit] for unit, _ in words_of(self, edges)[1]]

    def with_pairs(self, edges: Spans) -> SpokenUtterance:
        """Return the utterance with labels only for words that pair with one.

        They pair by the characters of the text.
        """
        pairs = [(self.words[self.owners[unit]], label) for unit, label in words_of(self, edges)[1]]
        words = [replace(label, label=word.text) for word, label in pairs]
        labelled = replace(
            self.labelled, words=words, char_starts=[word.char_start for word, _ in pairs]
        )
        return replace(self, labelled=labelled)

    def intervals(self, edges: Spans, begins: np.ndarray, labels: Sequence[str]) -> list[Interval]:
        """Return one interval per unit u, of the sounds begins[u] to begins[u + 1], exclusive."""
        spoken = self.spoken
        shift_s = self.emissions.frame_shift_s
        origin_s = self.emissions.first_frame_s
        start, end = (
            edges.start[spoken] * shift_s + origin_s,
            edges.end[spoken] * shift_s + origin_s,
        )
        return [
            Interval(float(start[a]), float(end[b - 1]), label)
            for a, b, label in zip(begins[:-1].tolist(), begins[1:].tolist(), labels)
        ]

    def features(self, edges: Spans, begins: np.ndarray) -> np.ndarray | None:
        """Return the features (U, F) of confidence of each unit; None without spreads."""
        fits = sound_fits(self.emissions, self.tokens, edges)
        return None if fits is None else fits.features(begins)


@dataclass
class PairedEdges:
    """Edges of units (words or phones) that are paired with labels.

    Each unit has two: its start and its end. `utterances` are the indices of their utterances.
    `features` has one row of confidence features for each unit, computed from the drawn edges;
    errors and spreads are those of the final edges.
    """

    utterances: list[int] = field(default_factory=list)
    pairs: list[tuple[str, str]] = field(default_factory=list)
    errors_ms: list[float] = field(default_factory=list)
    spreads_ms: list[float] = field(default_factory=list)
    features: list[np.ndarray] = field(default_factory=list)

    def add_words(
        self, number: int, utterance: SpokenUtterance, drawn: Spans, final: Spans | None = None
    ) -> None:
        """Pair the words of an utterance with its labels.

        `final` are edges that a network made of those drawn.
        """
        self._add(number, utterance, drawn, final or drawn, words_of(utterance, drawn))

    def add_phones(
        self, number: int, utterance: SpokenUtterance, drawn: Spans, final: Spans | None = None
    ) -> None:
        """Pair the phones of an utterance with its labels, both in broad classes."""
        self._add(number, utterance, drawn, final or drawn, phones_of(utterance, drawn))

    def errors_by_utterance(self) -> np.ndarray:
        """Return the errors in ms (E,), utterance by utterance."""
        return np.asarray(self.errors_ms)[np.argsort(self.utterances, kind="stable")]

    def in_parts(self, parts: int) -> PairedEdges:
        """Return the same edges with parts of each utterance as utterances.

        Parts follow the order of an utterance's units.
        """
        numbers = np.asarray(self.utterances, np.int64)
        rank = np.arange(len(numbers)) - np.searchsorted(numbers, numbers)
        counts = numbers
        if len(numbers):
            counts = np.bincount(numbers)[numbers]
        return replace(
            self, utterances=(numbers * parts + rank // 2 * parts // (counts // 2)).tolist()
        )

    def among(self, used: np.ndarray) -> np.ndarray:
        """Return which edges (E,) belong to the `used` utterances (U,) bool."""
        return used[np.asarray(self.utterances, np.int64)]

    def _add(
        self,
        number: int,
        utterance: SpokenUtterance,
        drawn: Spans,
        final: Spans,
        labelled: LabelledUnits,
    ) -> None:
        spoken = utterance.spoken
        begins, labels = labelled
        apart = np.append(final.end[spoken][:-1] < final.start[spoken][1:], True)
        around_start, around_end = kinds_around(utterance.kinds, apart)
        features = utterance.features(drawn, begins)
        units = utterance.intervals(final, begins, [""] * (len(begins) - 1))
        sd_ms = seconds_to_ms(utterance.emissions.frame_shift_s)
        for u, label in labels:
            a = int(begins[u])
            b = int(begins[u + 1]) - 1
            self.utterances += [number] * 2
            self.pairs += [around_start[a], around_end[b]]
            self.errors_ms += [
                seconds_to_ms(units[u].start_s - label.start_s),
                seconds_to_ms(units[u].end_s - label.end_s),
            ]
            if final.start_sd is not None and final.end_sd is not None:
                spreads = final.start_sd[spoken[a]], final.end_sd[spoken[b]]
                self.spreads_ms += [float(spread) * sd_ms for spread in spreads]
            if features is not None:
                self.features.append(features[u])


LabelledUnits = tuple[np.ndarray, Sequence[tuple[int, Interval]]]
"""The words or the phones of an utterance that have a label.

They are where units begin, and (unit, label), in order. Unit u has the sounds from begins[u] to
begins[u + 1].

Unit u has the sounds from begins[u] to begins[u + 1].
"""


@dataclass(frozen=True)
class LearntEdges:
    """An edge network, and its errors for speakers left out.

    Attributes:
        network: trained on all utterances.
        words, phones: edges drawn by networks trained on other folds, with their errors and
            standard deviations.
        evaluation: of the words between these edges.
        within_sd: share of the edges within their standard deviation, scaled by the spread of other
            folds; 0.68 is right.
    """

    network: EdgeNetwork
    words: PairedEdges
    phones: PairedEdges
    evaluation: Evaluation
    within_sd: float


def words_of(utterance: SpokenUtterance, edges: Spans) -> LabelledUnits:
    """Return the words of an utterance that pair with its labels.

    They pair by characters of the text, if these are known.
    """
    if utterance.labelled.char_starts:
        unit_at = {utterance.words[w].char_start: u for u, w in enumerate(utterance.owners)}
        pairs = [
            (unit_at[start], label)
            for start, label in zip(utterance.labelled.char_starts, utterance.labelled.words)
            if start in unit_at
            and utterance.words[utterance.owners[unit_at[start]]].text == label.label
        ]
        return utterance.begins, pairs
    reference = [word for word in utterance.labelled.words if word.label.strip()]
    return _paired_units(utterance.begins, utterance.word_intervals(edges), reference)


def phones_of(utterance: SpokenUtterance, edges: Spans) -> LabelledUnits:
    """Return the phones of an utterance that pair with its labels, both in broad classes."""
    labels = [utterance.tokens.labels[k] for k in utterance.spoken]
    begins = np.arange(len(labels) + 1)
    ours = broad_phones(utterance.intervals(edges, begins, labels))
    reference = [phone for phone in utterance.labelled.phones if phone.label.strip()]
    if len(ours) != len(labels) or not reference:
        return begins, ()
    return _paired_units(begins, ours, broad_phones(reference))


def _paired_units(
    begins: np.ndarray, units: Sequence[Interval], reference: Sequence[Interval]
) -> LabelledUnits:
    index = {id(unit): u for u, unit in enumerate(units)}
    found = [
        (index[id(pair.hypothesis)], pair.reference)
        for pair in pair_intervals(units, reference).pairs
        if not pair.mismatch and id(pair.hypothesis) in index
    ]
    return begins, found


Candidate = tuple[Calibration, PairedEdges, PairedEdges]
"""Constants without offsets, and the edges of words and of phones that are placed with them."""


def folds_of(speakers: Sequence[str]) -> np.ndarray:
    """Return which utterances (U,) are left out together.

    There are at most `MOST_FOLDS` groups of speakers, or of single utterances.

    >>> folds_of(["anna", "anna", "bert", "carl"]).tolist()
    [0, 0, 1, 2]
    >>> folds_of(["anna"] * 3).tolist()
    [0, 1, 2]
    """
    several = len(set(speakers)) > 1
    if several:
        names = list(speakers)
    else:
        names = [str(k) for k in range(len(speakers))]
    counts = {name: names.count(name) for name in dict.fromkeys(names)}
    sizes = [0] * min(MOST_FOLDS, len(counts))
    fold = {}
    for name in sorted(counts, key=lambda name: -counts[name]):
        fold[name] = sizes.index(min(sizes))
        sizes[fold[name]] += counts[name]
    return np.array([fold[name] for name in names])


def offsets_of(
    words: PairedEdges, phones: PairedEdges | None = None, used: np.ndarray | None = None
) -> dict[tuple[str, str], float]:
    """Return offsets of words' edges, shrunk towards those of all sounds.

    They come from the `used` utterances (U,) bool.
    """
    wider = None
    if phones is not None and phones.errors_ms:
        wider = offsets_of(phones, None, used)
    among = [True] * len(words.pairs) if used is None else words.among(used)
    rows = zip(among, words.pairs, words.errors_ms)
    return fit_offsets([(pair, error_ms) for is_used, pair, error_ms in rows if is_used], wider)


def left_out(edges: PairedEdges, phones: PairedEdges | None, folds: np.ndarray) -> np.ndarray:
    """Return errors in ms (E,) after the offsets from other folds."""
    offsets = [offsets_of(edges, phones, folds != fold) for fold in range(int(folds.max()) + 1)]
    rows = zip(folds[edges.utterances], edges.pairs, edges.errors_ms)
    return np.array([error_ms + offsets[fold].get(pair, 0.0) for fold, pair, error_ms in rows])


def best_of(candidates: Sequence[Candidate], used: np.ndarray) -> int:
    """Return the index of the constants with the least error after their offsets.

    Errors are those in the `used` utterances (U,).
    """
    errors_ms = []
    for _, words, phones in candidates:
        offsets = offsets_of(words, phones, used)
        rows = zip(words.among(used), words.pairs, words.errors_ms)
        sizes_ms = [abs(error + offsets.get(pair, 0.0)) for is_used, pair, error in rows if is_used]
        errors_ms.append(float(np.mean(sizes_ms)) if sizes_ms else 0.0)
    least = min(errors_ms)
    if candidates[0][0].scale != candidates[-1][0].scale:
        return errors_ms.index(least)
    gaps_s = [constants.spike_gap_s for constants, _, _ in candidates]
    gap_s = min(gap for gap, error in zip(gaps_s, errors_ms) if error <= least * (1 + AS_GOOD))
    return min((k for k, gap in enumerate(gaps_s) if gap == gap_s), key=lambda k: errors_ms[k])


def cross_validated(
    rows: np.ndarray, right: np.ndarray, folds: np.ndarray
) -> tuple[np.ndarray, tuple[float, ...]]:
    """Return P(right) (N,) by weights from other folds, and the weights of all.

    If there is one fold, its own weights serve.

    Args:
        rows: (N, F) features.
        right: (N,) bool.
        folds: (N,) of the rows.
    """
    chances = np.zeros(len(rows))
    for fold in np.unique(folds):
        inside = folds == fold
        others = inside if inside.all() else ~inside
        chances[inside] = probability(rows[inside], fit_logistic(rows[others], right[others]))
    return chances, fit_logistic(rows, right)
