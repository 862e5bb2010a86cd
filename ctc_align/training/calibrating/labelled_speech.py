"""Hand-labelled speech in folders: TextGrids, each with a recording of the same name, beside it or elsewhere."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from ctc_align.errors import CtcAlignError, InputError, TranscriptError, UsageError
from ctc_align.evaluate import read_intervals
from ctc_align.text import read_transcript
from ctc_align.text.textgrid_files import Interval
from ctc_align.types import AudioLike

TRANSCRIPTS = (".txt", ".lab")
_NOT_AUDIO = (".textgrid", ".txt", ".lab", ".json", ".ctm", ".md", ".toml")


@dataclass(frozen=True)
class LabelledUtterance:
    """A hand-labelled utterance; phones may be missing."""

    name: str
    speaker: str
    audio: AudioLike
    text: str
    words: Sequence[Interval]
    phones: Sequence[Interval] = ()


def read_labelled(
    reference: str | os.PathLike[str], audio: str | os.PathLike[str] | None = None, failed: list[str] | None = None
) -> Iterator[LabelledUtterance]:
    """Yield every TextGrid below a folder, in order, with its recording and transcript.

    Args:
        reference: a folder of TextGrids with a tier of words, and one of phones if there is one. The speaker is the
            folder that a TextGrid lies in, or, where all lie in one, the TextGrid itself.
        audio: the folder with recordings of the same relative names; None: `reference` itself. A .txt or .lab file
            beside a recording is its transcript, else the words of the TextGrid are.
        failed: a list that gets the reasons why files cannot be used; without it the first of them is raised.

    Raises:
        UsageError: no such folder, no TextGrid in it, or one without a recording.
        InputError: a TextGrid or a transcript cannot be read, or holds no words.
    """
    folder, sounds = Path(reference), Path(reference if audio is None else audio)
    for needed in (folder, sounds):
        if not needed.is_dir():
            raise UsageError(f"{needed}: expected a folder of TextGrids, or of the recordings that they label")
    grids = sorted(path for path in folder.rglob("*") if path.suffix.casefold() == ".textgrid")
    if not grids:
        raise UsageError(f"{folder}: expected TextGrids labelled by hand in this folder or below it, got none")
    names = [grid.relative_to(folder).with_suffix("") for grid in grids]
    flat = len({name.parent for name in names}) == 1
    for grid, name in zip(grids, names):
        try:
            sound = _recording(sounds / name)
            words = read_intervals(grid, "words")
            speaker = name.as_posix() if flat else name.parent.as_posix()
            transcript, phones = _transcript(sound, words), _phones(grid)
        except CtcAlignError as error:
            if failed is None:
                raise
            failed.append(str(error))
        else:
            yield LabelledUtterance(name.as_posix(), speaker, sound, transcript, words, phones)


def _recording(place: Path) -> Path:
    """Return the recording with the name of a TextGrid."""
    same_name = []
    if place.parent.is_dir():
        same_name = [path for path in place.parent.iterdir() if path.stem == place.name and path.is_file()]
    sounds = sorted(path for path in same_name if path.suffix.casefold() not in _NOT_AUDIO)
    if not sounds:
        raise UsageError(
            f"{place}.*: there is no recording for this TextGrid; give the recordings' folder with --audio"
        )
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
