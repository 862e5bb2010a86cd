"""Hand-labelled speech in folders: TextGrids, each with a recording of the same name, and corrected JSON."""

from __future__ import annotations

import logging
import os
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from ctc_align.audio.loading import LONGER_S, estimated_duration_s, load_segment
from ctc_align.errors import CtcAlignError, InputError, TranscriptError, UsageError
from ctc_align.evaluate import read_intervals
from ctc_align.files import Alignment, read_alignment
from ctc_align.files.corrections import latest_works, original_of
from ctc_align.files.json_files import is_fixed, read_object
from ctc_align.files.transcripts import read_transcript
from ctc_align.types import HAND, SKIPPED, AudioLike, Interval

TRANSCRIPTS = (".txt", ".lab")
_NOT_AUDIO = (".textgrid", ".txt", ".lab", ".json", ".ctm", ".md", ".toml")
_KEPT = re.compile(r"\.hand(-\d+)?$")
"""A run of a corpus puts it after the name of an output that a person has changed, when it makes that again."""
ALIGNED_AGAIN = ".aligned"
"""Commands put it after a name that is taken."""

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class LabelledUtterance:
    """A hand-labelled utterance; phones may be missing.

    Where `places` are known, `words` are those at these characters of the text, and the others have no label.
    """

    name: str
    speaker: str
    audio: AudioLike
    text: str
    words: Sequence[Interval]
    phones: Sequence[Interval] = ()
    places: Sequence[int] = ()


@dataclass(frozen=True)
class _LabelFile:
    """A TextGrid, or JSON of which words are by hand; `name` is its path in the folder, without extension."""

    path: Path
    name: Path

    @property
    def is_json(self) -> bool:
        return self.path.suffix.casefold() == ".json"


def read_labelled(
    reference: str | os.PathLike[str], audio: str | os.PathLike[str] | None = None, failed: list[str] | None = None
) -> Iterator[LabelledUtterance]:
    """Yield every TextGrid and every corrected JSON below a folder, in order, with its recording and transcript.

    Args:
        reference: a folder of TextGrids with a tier of words, and one of phones if there is one, or of JSON, of which
            words by hand are labels and no others. The speaker is the folder that a file lies in, or, where all lie in
            one, the file itself. JSON without words by hand is passed over, as is the TextGrid beside corrected JSON
            of its name; of several corrections of one alignment the latest is taken. `NAME.aligned.TextGrid` is of the
            recording NAME, and comes before `NAME.TextGrid`, as does `NAME.hand.TextGrid` before both.
        audio: the folder with recordings of the same relative names; None: `reference` itself, and for JSON the place
            that it names. A .txt or .lab file beside a recording is its transcript, else the words of the TextGrid
            are; JSON has its own.
        failed: a list that gets the reasons why files cannot be used; without it the first of them is raised.

    Raises:
        UsageError: no such folder, no labels in it, or some without a recording.
        InputError: labels or a transcript cannot be read, or hold no words.
    """
    folder, sounds = Path(reference), Path(reference if audio is None else audio)
    for needed in (folder, sounds):
        if not needed.is_dir():
            raise UsageError(f"{needed}: expected a folder of labels, or of the recordings that they are of")
    problems: list[str] = []
    files = _label_files(folder, problems)
    if not files and not problems:
        raise UsageError(
            f"{folder}: expected TextGrids labelled by hand in this folder or below it, or JSON with words by hand, "
            "got none"
        )
    if problems and failed is None:
        raise InputError(problems[0])
    if failed is not None:
        failed += problems
    flat = len({file.name.parent for file in files}) == 1
    for file in files:
        speaker = file.name.as_posix() if flat else file.name.parent.as_posix()
        try:
            if file.is_json:
                utterance = _corrected(file, speaker, sounds, given=audio is not None)
            else:
                utterance = _labelled(file, speaker, sounds)
        except CtcAlignError as error:
            if failed is None:
                raise
            failed.append(str(error))
        else:
            yield utterance


def _label_files(folder: Path, problems: list[str]) -> list[_LabelFile]:
    """Return the files with labels, one for each name, by name; `problems` gets those of JSON that cannot be read."""
    paths = sorted(path for path in folder.rglob("*") if path.suffix.casefold() in (".json", ".textgrid"))
    corrected = [path for path in paths if path.suffix.casefold() == ".json" and _has_labels(path, problems)]
    found: dict[Path, tuple[int, _LabelFile]] = {}
    for work in latest_works(corrected):
        for path in work.outdated:
            logger.warning("%s is left aside: it is of another text, or recording, than %s", path, work.path.name)
        bare = original_of(work.path).relative_to(folder).with_suffix("")
        name = bare if bare not in found else work.path.relative_to(folder).with_suffix("")
        found[name] = -1, _LabelFile(work.path, name)
    for path in (path for path in paths if path.suffix.casefold() == ".textgrid"):
        name = path.relative_to(folder).with_suffix("")
        own = _KEPT.sub("", name.name)
        bare = name.with_name(own.removesuffix(ALIGNED_AGAIN))
        rank = 2 * (bare == name) - (own != name.name)
        if bare not in found or rank < found[bare][0]:
            found[bare] = rank, _LabelFile(path, bare)
    return [found[name][1] for name in sorted(found)]


def _has_labels(path: Path, problems: list[str]) -> bool:
    """Return whether a file is an alignment with words by hand; other JSON (a summary, settings) says nothing."""
    try:
        words = read_object(path).get("words")
    except InputError as error:
        if "expected an alignment of format" not in str(error):
            problems.append(str(error))
        return False
    return isinstance(words, list) and any(isinstance(word, dict) and word.get("by") == HAND for word in words)


def _labelled(file: _LabelFile, speaker: str, sounds: Path) -> LabelledUtterance:
    sound = _recording(sounds / file.name, file.path)
    words = read_intervals(file.path, "words")
    return LabelledUtterance(file.name.as_posix(), speaker, sound, _transcript(sound, words), words, _phones(file.path))


def _corrected(file: _LabelFile, speaker: str, sounds: Path, *, given: bool) -> LabelledUtterance:
    """Return the words, and tokens, of a JSON file that are by hand, and the part of the recording that it is of."""
    alignment = read_alignment(file.path)
    named = [Path(alignment.audio), file.path.parent / alignment.audio] if alignment.audio and not given else []
    sound = next((path for path in named if path.is_file()), None)
    if sound is None and alignment.audio:
        leaf = (sounds / file.name).with_name(Path(alignment.audio).name)
        sound = leaf if leaf.is_file() else None
    sound = sound or _recording(sounds / file.name, file.path)
    audio: AudioLike = sound
    if alignment.offset_s or estimated_duration_s(sound) > alignment.duration_s + LONGER_S:
        audio = load_segment(sound, offset_s=alignment.offset_s, duration_s=alignment.duration_s)
    fixed = [word for word in alignment.words if is_fixed(word)]
    words = [Interval(word.start_s or 0.0, word.end_s or 0.0, word.text) for word in fixed]
    tokens = [token for word in fixed for token in word.tokens if token.by == HAND]
    phones = [Interval(token.start_s, token.end_s, token.token) for token in tokens]
    places = [word.char_start for word in fixed]
    return LabelledUtterance(file.name.as_posix(), speaker, audio, _said(alignment), words, phones, places)


def _said(alignment: Alignment) -> str:
    """Return the text of an alignment with spaces in the place of words that are not in the recording."""
    text = list(alignment.text)
    for word in alignment.words:
        if word.status == SKIPPED:
            text[word.char_start : word.char_end] = " " * (word.char_end - word.char_start)
    return "".join(text)


def _recording(place: Path, label: Path) -> Path:
    """Return the recording with the name of a file of labels."""
    files = [path for path in place.parent.iterdir() if path.is_file()] if place.parent.is_dir() else []
    others = [path for path in files if path.suffix.casefold() not in _NOT_AUDIO]
    # A recording may itself be called NAME.aligned.wav.
    sounds = sorted(path for path in others if path.stem in (place.name, label.stem))
    if not sounds:
        raise UsageError(f"{place}.*: there is no recording for {label}; give the recordings' folder with --audio")
    return sounds[0]


def _transcript(sound: Path, words: list[Interval]) -> str:
    for suffix in TRANSCRIPTS:
        transcript = sound.with_suffix(suffix)
        if transcript.is_file():
            return read_transcript(str(transcript))
    text = " ".join(word.label.strip() for word in words if word.label.strip())
    if not text:
        raise TranscriptError(f"{sound}: no transcript beside it, and its TextGrid's tier of words is empty")
    return text


def _phones(grid: Path) -> list[Interval]:
    try:
        return read_intervals(grid, "phones")
    except InputError:
        return []
