"""Cut audio: each utterance, or each phrase of it, as FLAC beside its text, for making data sets."""

from __future__ import annotations

import io
import os
from bisect import bisect_left
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from ctc_align.corpus.outputs.records import CUTS, refuse_inputs
from ctc_align.corpus.utterance import Utterance
from ctc_align.errors import AudioError, OutputError
from ctc_align.files import Alignment
from ctc_align.files.whole_files import placing, remove_file
from ctc_align.text.control_characters import without_controls
from ctc_align.types import ALIGNED, SKIPPED, UNKNOWN, AlignedWord
from ctc_align.units import seconds_to_samples

if TYPE_CHECKING:
    from ctc_align.audio.recordings import Recording

MARGIN_S = 0.25
"""Silence that a phrase keeps before and after it, where there is as much."""

_BACK_S = 1e-3
"""A word that begins so much before the end of the one before it is elsewhere in the recording."""


@dataclass(frozen=True)
class CutSettings:
    """How audio is cut. The cuts go below `out_dir`/cuts, at the place of the utterance's other outputs.

    Args:
        by_pause: phrases `OUTPUT-0001.flac`, `OUTPUT-0002.flac` … in place of the whole utterance `OUTPUT.flac`.
        pause_s: a longer pause between two words separates phrases.
        parts: a folder for unfinished files; None: the folders of the outputs.
    """

    out_dir: str
    by_pause: bool = False
    pause_s: float = 0.3
    parts: Path | None = None


@dataclass(frozen=True)
class Cut:
    """A stretch of the recording, in seconds (`end_s` exclusive, None: to the recording's end), and its text."""

    start_s: float
    end_s: float | None
    text: str


def first_cut(utterance: Utterance, settings: CutSettings) -> list[Path]:
    """Return the files of the first (or only) cut of an utterance."""
    return _targets(utterance, settings, 0)


def cut_audio(
    alignment: Alignment,
    utterance: Utterance,
    settings: CutSettings,
    protect: Sequence[str | Path] = (),
    written: Callable[[Path, bytes], None] | None = None,
) -> list[Path]:
    """Write the cuts of an utterance and their text, whole or not at all; further cuts of an earlier run are removed.

    FLAC of 16 bits at the recording's own rate and with its own channels (the one channel, where the utterance names
    one); samples are copied from the recording, not the model's resampled ones. `written` is called with the path and
    the bytes of each file.

    Raises:
        AudioError: the recording cannot be read, or has more channels than FLAC holds.
        OutputError: a file cannot be written, or would replace one of `protect`.
    """
    from ctc_align.audio.loading import open_recording

    cuts = phrases(alignment, utterance, settings.pause_s) if settings.by_pause else [whole(alignment, utterance)]
    targets = [path for number in range(len(cuts)) for path in _targets(utterance, settings, number)]
    refuse_inputs(targets, protect)
    with open_recording(utterance.audio) as recording, placing(targets, settings.parts) as parts:
        files = iter(parts)
        for cut in cuts:
            for data in (
                _flac(recording, cut, utterance),
                f"{without_controls(cut.text)}\n".encode("utf-8", "replace"),
            ):
                target, part = next(files)
                part.write_bytes(data)
                if written is not None:
                    written(target, data)
        for _ in files:  # finish the last file
            pass
    if settings.by_pause:
        _remove_further(utterance, settings, len(cuts))
    return targets


def _targets(utterance: Utterance, settings: CutSettings, number: int) -> list[Path]:
    """Return the paths of sound and text of cut `number`, from 0."""
    place = Path(settings.out_dir, CUTS, utterance.output)
    name = f"{place.name}-{number + 1:04d}" if settings.by_pause else place.name
    return [place.with_name(f"{name}{extension}") for extension in (".flac", ".txt")]


def _remove_further(utterance: Utterance, settings: CutSettings, number: int) -> None:
    """Remove phrases of an earlier run beyond the last; they are numbered without gaps."""
    further = _targets(utterance, settings, number)
    while any(map(os.path.exists, further)):
        for path in further:
            with suppress(OutputError):
                remove_file(path, Path(settings.out_dir))
        number += 1
        further = _targets(utterance, settings, number)


def whole(alignment: Alignment, utterance: Utterance) -> Cut:
    """Return the cut of a whole utterance."""
    end_s = None if utterance.duration_s is None else utterance.offset_s + utterance.duration_s
    return Cut(utterance.offset_s, end_s, " ".join(alignment.text.split()))


def phrases(alignment: Alignment, utterance: Utterance, pause_s: float) -> list[Cut]:
    """Return the phrases between pauses longer than `pause_s`; every written word is whole and in one phrase.

    A phrase keeps up to `MARGIN_S` of the silence around it and never more than half a pause. Words without times
    belong to the phrase before them; where one could have been spoken unrecognised (`unknown`), nothing is cut. Words
    that are not in the recording are in no phrase; where the text goes on elsewhere in the recording, one ends.
    """
    runs = _runs(alignment.words, pause_s)
    if not runs:
        return [whole(alignment, utterance)]
    by_time = sorted((_edge(first.start_s), _edge(last.end_s)) for first, last in runs)
    cuts = []
    for number, (first, last) in enumerate(runs):
        start_s, end_s = _edge(first.start_s), _edge(last.end_s)
        place = bisect_left(by_time, (start_s, end_s))
        low_s = (by_time[place - 1][1] + start_s) / 2 if place else 0.0
        high_s = (end_s + by_time[place + 1][0]) / 2 if place + 1 < len(by_time) else alignment.duration_s
        next_char = runs[number + 1][0].char_start if number + 1 < len(runs) else len(alignment.text)
        text = _without_skipped(alignment, first.char_start if number else 0, next_char)
        cuts.append(
            Cut(
                utterance.offset_s + max(low_s, start_s - MARGIN_S),
                utterance.offset_s + min(high_s, end_s + MARGIN_S),
                " ".join(text.split()),
            )
        )
    return cuts


def _without_skipped(alignment: Alignment, start: int, end: int) -> str:
    """Return a stretch of the text without the words in it that are not in the recording."""
    pieces, at = [], start
    for word in alignment.words:
        if word.status == SKIPPED and start <= word.char_start < end:
            pieces.append(alignment.text[at : word.char_start])
            at = word.char_end
    return "".join([*pieces, alignment.text[at:end]])


def _runs(words: Sequence[AlignedWord], pause_s: float) -> list[tuple[AlignedWord, AlignedWord]]:
    """Return the first and the last aligned word of each phrase."""
    runs: list[tuple[AlignedWord, AlignedWord]] = []
    is_unsure = False
    for word in words:
        if word.status != ALIGNED:
            is_unsure |= word.status == UNKNOWN
            continue
        gap_s = _edge(word.start_s) - _edge(runs[-1][1].end_s) if runs else 0.0
        if runs and gap_s > -_BACK_S and (is_unsure or gap_s <= pause_s + 1e-9):
            runs[-1] = (runs[-1][0], word)
        else:
            runs.append((word, word))
        is_unsure = False
    return runs


def _edge(time_s: float | None) -> float:
    assert time_s is not None, "aligned words have times"
    return time_s


def _flac(recording: Recording, cut: Cut, utterance: Utterance) -> bytes:
    """Return the samples of one cut as FLAC, made in memory: a full disk is then reported by who writes the file."""
    import soundfile

    rate, channel = recording.rate, utterance.channel
    if channel is not None and channel > recording.channels:
        raise AudioError(f"{utterance.audio}: expected channel {channel}, got a recording of {recording.channels}")
    first = seconds_to_samples(cut.start_s, rate)
    most = None if cut.end_s is None else max(1, seconds_to_samples(cut.end_s, rate) - first)
    channels = recording.channels if channel is None else 1
    data, written = io.BytesIO(), 0
    try:
        with soundfile.SoundFile(data, "w", rate, channels, subtype="PCM_16", format="FLAC") as file:
            for block in recording.read(first, most):
                file.write(_as_int16(block if channel is None else block[:, channel - 1 : channel]))
                written += len(block)
    except soundfile.SoundFileError as error:
        reason = str(getattr(error, "error_string", error)).rstrip(". ")
        raise AudioError(f"{utterance.audio}: expected audio that FLAC of 16 bits can hold: {reason}") from error
    if not written:
        raise AudioError(f"{utterance.audio}: expected sound from {cut.start_s:.3f} s on, got the recording's end")
    return data.getvalue()


def _as_int16(block: np.ndarray) -> np.ndarray:
    """Return int16: the samples themselves of sources of 16 bits, the nearest of others."""
    return np.clip(np.rint(block * 32768.0), -32768, 32767).astype(np.int16)
