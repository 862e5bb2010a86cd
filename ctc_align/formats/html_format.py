"""The page of an alignment as a file: HTML with the recording inside, beside it, or linked."""

from __future__ import annotations

import logging
import os
from dataclasses import replace
from pathlib import Path
from typing import Any, BinaryIO, TextIO

from ctc_align.audio.audio_kinds import MissingAudioError
from ctc_align.audio.loading import load_segment
from ctc_align.errors import AudioError, UsageError
from ctc_align.formats.json_format import to_dict
from ctc_align.formats.writer import NO_CONTEXT, Style, Writer, WritingContext
from ctc_align.text.control_characters import printable
from ctc_align.types import AlignmentData
from ctc_align.view.page import page
from ctc_align.view.page_sound import MOST_EMBEDDED_BYTES, PageSound, Peaks, peaks_of, played_type, relative_href

EMBED, LINK, NO_SOUND = SOUND_MODES = ("embed", "link", "none")
"""The sound of a page: inside it, a link to the recording as it lies, or none."""

SOUND_EXTENSION = ".page.ogg"
"""The end of the name of the sound of a page that is too large to be inside it."""
_PEAKS_RATE = 8000
logger = logging.getLogger(__name__)


def page_object(alignment: AlignmentData) -> dict[str, Any]:
    """Return the JSON object that a page shows: its times count from the start of the utterance, and it says so."""
    config = {**alignment.config, "times": "utterance"} if "times" in alignment.config else alignment.config
    return to_dict(replace(alignment, config=config), Style())


class HtmlWriter(Writer):
    """A page that shows the alignment, with its recording inside, or beside it (NAME.page.ogg) where it is too large.

    The sound is what was aligned where the context has it, else it is read from the recording that the alignment names.
    Where there is neither (log-probs), the page is without sound, and a warning is logged.
    """

    extension = ".html"
    beside_extension = SOUND_EXTENSION

    def write(self, alignment: AlignmentData, file: TextIO) -> None:
        file.write(self._page(alignment, NO_CONTEXT))

    def write_bytes(self, alignment: AlignmentData, file: BinaryIO, context: WritingContext = NO_CONTEXT) -> None:
        file.write(self._page(alignment, context).encode("utf-8"))

    def _page(self, alignment: AlignmentData, context: WritingContext) -> str:
        name = alignment.utterance if context.path is None else context.path.stem
        return page(page_object(alignment), name=name, sound=_sound(alignment, context))


def _sound(alignment: AlignmentData, context: WritingContext) -> PageSound | None:
    """Return the sound of an alignment that was just made, or read; None, and a warning, where there is none."""
    if context.sound is not None:
        sound = PageSound.embedded(context.sound.samples, context.sound.sample_rate)
    else:
        try:
            sound = embedded_stretch(alignment, alignment.audio)
        except AudioError as error:
            logger.warning("%s", printable(f"the page of {alignment.utterance} has no sound: {error}"))
            return None
    if sound.encoded is None or len(sound.encoded) <= MOST_EMBEDDED_BYTES:
        return sound
    megabytes = len(sound.encoded) / 1e6
    if context.path is not None and context.beside is not None:
        beside = sound_place(context.path, alignment.audio)
        context.beside[beside] = sound.encoded
        logger.warning("%.0f MB of sound are too much for inside %s: they are in %s", megabytes, context.path, beside)
        return sound.beside(beside.name)
    if context.path is None or context.sound is not None or played_type(alignment.audio) is None:
        logger.warning(
            "the page of %s has no sound: %.0f MB are too many to be inside it; ctc-align view, of its JSON, "
            "writes them beside it",
            printable(alignment.utterance),
            megabytes,
        )
        return None
    logger.warning(
        "%s: the sound (%.0f MB) is not inside the page, which links to %s",
        printable(str(context.path)),
        megabytes,
        printable(alignment.audio),
    )
    return linked_recording(alignment, alignment.audio, context.path.parent, sound.peaks)


def sound_place(page: Path, recording: str | os.PathLike[str]) -> Path:
    """Return where the sound beside a page lies, which is never the recording itself."""
    place = page.with_suffix(SOUND_EXTENSION)
    while place.exists() and os.path.exists(recording) and place.samefile(recording):
        place = place.with_suffix(SOUND_EXTENSION)
    return place


def embedded_stretch(alignment: AlignmentData, recording: str | os.PathLike[str]) -> PageSound:
    """Return the stretch of a recording that was aligned, as sound inside the page.

    Raises:
        AudioError: there is no such recording, or the stretch is not in it.
    """
    if not os.fspath(recording):
        raise MissingAudioError("samples in memory: no recording is named in the alignment")
    return PageSound.file(
        recording, offset_s=alignment.offset_s, duration_s=alignment.duration_s, channel=channel_of(alignment)
    )


def linked_recording(
    alignment: AlignmentData, recording: str | os.PathLike[str], folder: Path, peaks: Peaks | None = None
) -> PageSound:
    """Return a link to the whole recording from a page in `folder`; `peaks` are the stretch's, where they are known.

    Raises:
        AudioError: there is no such recording, or the stretch is not in it.
        UsageError: browsers do not play files of this kind.
    """
    mime = played_type(os.fspath(recording))
    if mime is None:
        raise UsageError(
            f"{recording}: browsers play no files of this kind, so a page cannot link to it; leave --audio link away, "
            "and its sound is put into the page"
        )
    if peaks is None:
        stretch = load_segment(
            recording,
            _PEAKS_RATE,
            offset_s=alignment.offset_s,
            duration_s=alignment.duration_s,
            channel=channel_of(alignment),
            on_disk=True,
        )
        peaks = peaks_of(stretch)
    return PageSound.link(relative_href(recording, folder), mime=mime, start_s=alignment.offset_s, peaks=peaks)


def channel_of(alignment: AlignmentData) -> int | None:
    """Return the channel that was aligned, from 1; None for all of them."""
    channel = str(alignment.config.get("channel", "mix"))
    return {"left": 1, "right": 2}.get(channel) or (int(channel) if channel.isdecimal() and len(channel) < 10 else None)
