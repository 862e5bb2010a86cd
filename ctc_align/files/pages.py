"""Pages and pictures of alignments: HTML, PNG, SVG, and cells of notebooks.

The recording is inside a page, beside it, or linked.
"""

from __future__ import annotations

import html
import logging
import os
import threading
from collections.abc import Sequence
from dataclasses import replace
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, ClassVar

import numpy as np

from ctc_align.audio.audio_kinds import MissingAudioError
from ctc_align.audio.loading import as_audio, load_audio
from ctc_align.errors import AudioError, CtcAlignError, UsageError
from ctc_align.files.json_files import to_dict
from ctc_align.files.writer import NO_CONTEXT, Style, Writer, WritingContext
from ctc_align.text.characters import printable
from ctc_align.types import (
    Alignment,
    Audio,
    AudioLike,
    Emissions,
    Panel,
    SoundChoice,
)
from ctc_align.view import check_plotting
from ctc_align.view.page import (
    MOST_EMBEDDED_BYTES,
    PageSound,
    page,
    peaks_of,
    played_type,
    relative_href,
)

if TYPE_CHECKING:
    from matplotlib.figure import Figure

EMBED, LINK, NO_SOUND = SOUND_MODES = ("embed", "link", "none")
"""The sound of a page: inside it, a link to the recording as it lies, or none."""
SOUND_EXTENSION = ".page.ogg"
"""The end of a sound file's name, if the sound is too large to be inside its page."""
_PEAKS_RATE = 8000
logger = logging.getLogger(__name__)
SAMPLE_RATE = 16000
"""Sampling rate of the drawn sound, in Hz."""
MOST_NOTEBOOK_S = 600.0
"""Recordings of up to this many seconds are put into notebooks: about 3 MB."""
_FRAME_PX = 640
_DRAWING = threading.Lock()
"""Pictures are drawn one at a time: matplotlib's settings are those of the process."""


def page_object(alignment: Alignment) -> dict[str, Any]:
    """Return the JSON object that a page shows.

    Its times count from the start of the utterance, as its config says.
    """
    if "times" in alignment.config:
        config = {**alignment.config, "times": "utterance"}
    else:
        config = alignment.config
    return to_dict(replace(alignment, config=config), Style())


class HtmlWriter(Writer):
    """A page that shows the alignment, with the recording inside.

    If it is too large, it stands beside the page (NAME.page.ogg).

    The sound is the one that was aligned, if the context has it; otherwise it is read from the
    recording that the alignment names. If there is neither (log-probs), the page has no sound, and
    a warning is logged.
    """

    beside_extension = SOUND_EXTENSION

    def write_bytes(
        self, alignment: Alignment, file: BinaryIO, context: WritingContext = NO_CONTEXT
    ) -> None:
        if context.path is None:
            name = alignment.utterance
        else:
            name = context.path.stem
        shown = page(page_object(alignment), name=name, sound=_sound(alignment, context))
        file.write(shown.encode("utf-8"))


def _sound(alignment: Alignment, context: WritingContext) -> PageSound | None:
    """Return the sound of an alignment that was just made or read.

    None, with a warning, if it cannot be read.
    """
    if isinstance(context.sound, str):
        recording = context.sound
    else:
        recording = alignment.audio
    if isinstance(context.sound, Audio):
        sound = PageSound.embedded(context.sound.samples, context.sound.sample_rate)
    else:
        try:
            sound = embedded_stretch(alignment, recording)
        except AudioError as error:
            logger.warning(
                "%s", printable(f"the page of {alignment.utterance} has no sound: {error}")
            )
            return None
    if sound.encoded is None or len(sound.encoded) <= MOST_EMBEDDED_BYTES:
        return sound
    megabytes = len(sound.encoded) / 1e6
    if context.path is not None and context.beside is not None:
        beside = sound_place(context.path, recording)
        context.beside[beside] = sound.encoded
        logger.warning(
            "the sound (%.0f MB) is too large to embed in %s: it is in %s",
            megabytes,
            context.path,
            beside,
        )
        return sound.beside(beside.name)
    if context.path is None or isinstance(context.sound, Audio) or played_type(recording) is None:
        logger.warning(
            "the page of %s has no sound: %.0f MB is too large to embed; ctc-align view, given its"
            " JSON, writes the sound beside the page",
            printable(alignment.utterance),
            megabytes,
        )
        return None
    logger.warning(
        "%s: the sound (%.0f MB) is not inside the page, which links to %s",
        printable(str(context.path)),
        megabytes,
        printable(recording),
    )
    return linked_recording(alignment, recording, context.path.parent, sound.peaks)


def sound_place(page: Path, recording: str | os.PathLike[str]) -> Path:
    """Return the path of the sound beside a page, which is never the recording itself."""
    place = page.with_suffix(SOUND_EXTENSION)
    while place.exists() and os.path.exists(recording) and place.samefile(recording):
        place = place.with_suffix(SOUND_EXTENSION)
    return place


def embedded_stretch(alignment: Alignment, recording: str | os.PathLike[str]) -> PageSound:
    """Return the aligned stretch of a recording, as sound inside the page.

    Raises:
        AudioError: there is no such recording, or the stretch is not in it.
    """
    if not os.fspath(recording):
        raise MissingAudioError("samples in memory: no recording is named in the alignment")
    return PageSound.file(
        recording,
        offset_s=alignment.offset_s,
        duration_s=alignment.duration_s,
        choice=choice_of(alignment),
    )


def linked_recording(
    alignment: Alignment,
    recording: str | os.PathLike[str],
    folder: Path,
    peaks: np.ndarray | None = None,
) -> PageSound:
    """Return a link to the whole recording from a page in `folder`.

    `peaks` are those of the stretch, if known.

    Raises:
        AudioError: there is no such recording, or the stretch is not in it.
        UsageError: browsers do not play files of this kind.
    """
    mime = played_type(os.fspath(recording))
    if mime is None:
        raise UsageError(
            f"{recording}: browsers do not play files of this kind, so a page cannot link to it;"
            " omit --audio link to put the sound into the page"
        )
    if peaks is None:
        peaks = peaks_of(aligned_stretch(alignment, recording))
    return PageSound.link(
        relative_href(recording, folder), mime=mime, start_s=alignment.offset_s, peaks=peaks
    )


def aligned_stretch(
    alignment: Alignment, recording: str | PathLike[str], sample_rate: int = _PEAKS_RATE
) -> Audio:
    """Return the aligned stretch of a recording, as float32 at a sample rate.

    By default the rate is enough for its outline.

    Raises:
        AudioError: there is no such recording, or the stretch is not in it.
    """
    start_s = alignment.offset_s
    length_s = alignment.duration_s
    choice = choice_of(alignment)
    return load_audio(
        recording, sample_rate, offset_s=start_s, duration_s=length_s, choice=choice, on_disk=True
    )


def choice_of(alignment: Alignment) -> SoundChoice:
    """Return the channel and the audio track that were aligned."""
    channel = str(alignment.config.get("channel", "mix"))
    track = str(alignment.config.get("track", ""))
    number = {"left": 1, "right": 2}.get(channel) or (
        int(channel) if channel.isdecimal() and len(channel) < 10 else None
    )
    return SoundChoice(number, track)


class PngWriter(Writer):
    """A picture of the whole alignment, 150 dots per inch: `ctc_align.view.pictures`."""

    is_binary = True
    format: ClassVar[str] = "png"

    @classmethod
    def require(cls) -> None:
        """Raise UsageError unless matplotlib is installed."""
        check_plotting()

    def write_bytes(
        self, alignment: Alignment, file: BinaryIO, context: WritingContext = NO_CONTEXT
    ) -> None:
        """Write the picture; if the sound cannot be read, without it and with a warning."""
        from ctc_align.view.pictures import alignment_figure, rendered_figure

        try:
            sound = picture_sound(alignment, context.sound)
        except CtcAlignError as error:
            logger.warning(
                "%s", printable(f"{alignment.utterance}: its picture has no sound: {error}")
            )
            sound = None
        with _DRAWING:
            file.write(
                rendered_figure(alignment_figure(page_object(alignment), sound), self.format)
            )


class SvgWriter(PngWriter):
    """The same picture as `PngWriter` draws, as vector graphics with letters as outlines."""

    is_binary = False
    format = "svg"


def picture_sound(alignment: Alignment, audio: AudioLike | None = None) -> Audio:
    """Return the samples of an alignment's utterance at 16 kHz, for a picture.

    Args:
        audio: the recording as a path, or the utterance as samples with their rate or `Audio`;
            None: the path that the alignment names, from the current directory.

    Raises:
        AudioError: the recording cannot be read or is too short, or the alignment names none.
        UsageError: `audio` is log-probs, which have no sound.
    """
    if isinstance(audio, Emissions):
        raise UsageError(
            "audio: expected a recording or samples, got log-probs, which have no sound"
        )
    if isinstance(audio, (tuple, list, Audio)):
        return as_audio(audio, SAMPLE_RATE)
    path: str | PathLike[str] = alignment.audio if audio is None else audio
    if path in ("", "-"):
        raise AudioError(
            f"{alignment.utterance}: it was aligned from samples or standard input, and names no"
            " recording"
        )
    return aligned_stretch(alignment, path, SAMPLE_RATE)


def notebook_html(alignment: Alignment) -> str:
    """Return an alignment for a notebook: its page in a frame.

    A recording of up to ten minutes is inside.

    If the recording is missing, it is a table of the words. The frame may run the page's script and
    save files, but has no access to the notebook.
    """
    if alignment.duration_s > MOST_NOTEBOOK_S:
        note = f"longer than {MOST_NOTEBOOK_S / 60:.0f} minutes: save it as .html to listen to it"
        return _words_table(alignment, note)
    try:
        sound = embedded_stretch(alignment, alignment.audio)
    except CtcAlignError as error:
        return _words_table(alignment, f"without its recording: {error}")
    shown = page(page_object(alignment), name=alignment.utterance, sound=sound)
    return (
        f'<iframe srcdoc="{html.escape(shown)}" sandbox="allow-scripts allow-downloads"'
        f' title="{html.escape(alignment.utterance)}"'
        f' style="width:100%;height:{_FRAME_PX}px;border:0"></iframe>'
    )


def _words_table(alignment: Alignment, note: str) -> str:
    """Return the words with their times and confidences as a table of HTML.

    It says why it is not a page.
    """
    rows = []
    for word in alignment.words:
        times = [
            None if time_s is None else f"{time_s:.3f}" for time_s in (word.start_s, word.end_s)
        ]
        if word.confidence is None:
            confidence = word.status
        else:
            confidence = f"{word.confidence:.2f}"
        cells = "".join(
            f"<td>{html.escape(cell or '')}</td>" for cell in (word.text, *times, confidence)
        )
        rows.append(f"<tr>{cells}</tr>")
    head = "".join(f"<th>{name}</th>" for name in ("word", "start s", "end s", "confidence"))
    caption = f"<caption>{html.escape(alignment.utterance)}, {html.escape(note)}</caption>"
    return f"<table>{caption}<thead><tr>{head}</tr></thead><tbody>{''.join(rows)}</tbody></table>"


def plot_alignment(
    alignment: Alignment,
    start_s: float | None,
    end_s: float | None,
    *,
    audio: AudioLike | None,
    panels: Sequence[Panel],
) -> Figure:
    """Draw an alignment, as `Alignment.plot` says."""
    from ctc_align.view.pictures import alignment_figure

    check_plotting()
    sound = picture_sound(alignment, audio) if panels else None
    return alignment_figure(
        page_object(alignment), sound, start_s=start_s, end_s=end_s, panels=panels
    )
