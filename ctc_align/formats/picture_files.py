"""Pictures of alignments as files and in notebooks, and the sound that they are drawn with."""

from __future__ import annotations

import html
import logging
import threading
from os import PathLike
from typing import TYPE_CHECKING, BinaryIO, ClassVar

from ctc_align.errors import AudioError, CtcAlignError, UsageError
from ctc_align.formats.html_format import channel_of, embedded_stretch, page_object
from ctc_align.formats.writer import NO_CONTEXT, Writer, WritingContext
from ctc_align.text.control_characters import printable
from ctc_align.types import AlignmentData, Audio, AudioLike, Emissions
from ctc_align.view import check_plotting

if TYPE_CHECKING:
    from ctc_align.view.pictures import PictureSound

SAMPLE_RATE = 16000
"""Rate of the sound that is drawn, in Hz."""
MOST_NOTEBOOK_S = 600.0
"""Recordings of up to so many seconds are put into notebooks: about 3 MB."""
_FRAME_PX = 640
_DRAWING = threading.Lock()
"""Pictures are drawn one at a time: matplotlib's settings are those of the process."""

logger = logging.getLogger(__name__)


class PngWriter(Writer):
    """A picture of the whole alignment, 150 dots an inch: `ctc_align.view.pictures`."""

    extension = ".png"
    is_binary = True
    format: ClassVar[str] = "png"

    @classmethod
    def require(cls) -> None:
        """Raise UsageError unless matplotlib is installed."""
        check_plotting()

    def write_bytes(self, alignment: AlignmentData, file: BinaryIO, context: WritingContext = NO_CONTEXT) -> None:
        """Write the picture, without the sound where that cannot be read (any more), which is told in a warning."""
        from ctc_align.view.pictures import alignment_figure, rendered_figure

        try:
            sound = picture_sound(alignment, context.sound)
        except CtcAlignError as error:
            logger.warning("%s", printable(f"{alignment.utterance}: its picture has no sound: {error}"))
            sound = None
        with _DRAWING:
            file.write(rendered_figure(alignment_figure(page_object(alignment), sound), self.format))


class SvgWriter(PngWriter):
    """The same picture in lines and outlines of letters, for print."""

    extension = ".svg"
    is_binary = False
    format = "svg"


def picture_sound(alignment: AlignmentData, audio: AudioLike | None = None) -> PictureSound:
    """Return the samples of an alignment's utterance at 16 kHz, for a picture.

    Args:
        audio: the recording as a path, or the utterance as samples with their rate or `Audio`; None: the path that the
            alignment names, from the current directory.

    Raises:
        AudioError: it cannot be read, or is not long enough; or the alignment names none.
        UsageError: log-probs, which have no sound.
    """
    from ctc_align.audio.loading import as_audio, load_segment
    from ctc_align.view.pictures import PictureSound

    if isinstance(audio, Emissions):
        raise UsageError("audio: expected a recording or samples, got log-probs, which have no sound")
    if isinstance(audio, (tuple, list, Audio)):
        found = as_audio(audio, SAMPLE_RATE)
        return PictureSound(found.samples, found.sample_rate)
    path: str | PathLike[str] = alignment.audio if audio is None else audio
    if path in ("", "-"):
        raise AudioError(
            f"{alignment.utterance}: it was aligned from samples or standard input, and names no recording"
        )
    start_s, length_s = alignment.offset_s, alignment.duration_s
    channel = channel_of(alignment)
    found = load_segment(path, SAMPLE_RATE, offset_s=start_s, duration_s=length_s, channel=channel, on_disk=True)
    return PictureSound(found.samples, found.sample_rate)


def notebook_html(alignment: AlignmentData) -> str:
    """Return what a notebook shows of an alignment: its page in a frame, with a recording of up to ten minutes inside.

    Where the recording is not there (any more) it is a table of the words. The frame may run the page's own script and
    save files, and reaches nothing of the notebook.
    """
    from ctc_align.view.page import page

    if alignment.duration_s > MOST_NOTEBOOK_S:
        note = f"longer than {MOST_NOTEBOOK_S / 60:.0f} minutes: save it as .html to listen to it"
        return _words_table(alignment, note)
    try:
        sound = embedded_stretch(alignment, alignment.audio)
    except CtcAlignError as error:
        return _words_table(alignment, f"without its recording: {error}")
    shown = page(page_object(alignment), name=alignment.utterance, sound=sound)
    return (
        f'<iframe srcdoc="{html.escape(shown)}" sandbox="allow-scripts allow-downloads" '
        f'title="{html.escape(alignment.utterance)}" style="width:100%;height:{_FRAME_PX}px;border:0"></iframe>'
    )


def _words_table(alignment: AlignmentData, note: str) -> str:
    """Return the words with their times and confidences as a table of HTML, and why it is no page."""
    rows = []
    for word in alignment.words:
        times = [None if time_s is None else f"{time_s:.3f}" for time_s in (word.start_s, word.end_s)]
        confidence = word.status if word.confidence is None else f"{word.confidence:.2f}"
        cells = "".join(f"<td>{html.escape(cell or '')}</td>" for cell in (word.text, *times, confidence))
        rows.append(f"<tr>{cells}</tr>")
    head = "".join(f"<th>{name}</th>" for name in ("word", "start s", "end s", "confidence"))
    caption = f"<caption>{html.escape(alignment.utterance)}, {html.escape(note)}</caption>"
    return f"<table>{caption}<thead><tr>{head}</tr></thead><tbody>{''.join(rows)}</tbody></table>"
