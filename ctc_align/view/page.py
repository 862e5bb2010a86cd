"""The page of an alignment: one HTML file to see, hear and correct it, without a network.

The page, including script and style, is `page.html`, built from the folder `web` of the repository.
This module inserts the alignment (its JSON object) and its sound as data that no browser can
mistake for code. The sound is the outline of the waveform, and the recording: inside the page
(encoded or unchanged), or as a link.
"""

from __future__ import annotations

import base64
import io
import json
import os
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any
from urllib.parse import quote

import numpy as np

from ctc_align.audio.loading import as_audio, load_audio
from ctc_align.errors import UsageError
from ctc_align.reading import read_input
from ctc_align.text.characters import json_escaped
from ctc_align.types import DEFAULT_SOUND, Audio, SoundChoice

MOST_EMBEDDED_BYTES = 20_000_000
"""The maximum size of the encoded sound inside a page; larger sound lies beside it."""
OPUS = "audio/ogg"
PEAKS_PER_S = 100
_OPUS_RATES = (8000, 12000, 16000, 24000)
"""Sample rates of Opus, in Hz, up to the one whose band (12 kHz) holds all of speech."""
_OPUS_BITS_PER_S = 32_000
"""About 16 MB an hour."""
_OPUS_OPTIONS = {"compression_level": "5"}
"""The coder's effort, of 10: half of it takes 25 s for an hour of speech, not a minute, and 12 %
more bytes."""
_AS_IT_IS_BYTES = 2_000_000
_AS_IT_IS = {"WAV": "audio/wav", "FLAC": "audio/flac", "OGG": "audio/ogg"}
_SUBTYPES = ("PCM_U8", "PCM_16", "PCM_24", "FLOAT", "VORBIS", "OPUS")
_PLAYED = {
    ".wav": "audio/wav",
    ".flac": "audio/flac",
    ".ogg": OPUS,
    ".oga": OPUS,
    ".opus": OPUS,
    ".mp3": "audio/mpeg",
    ".m4a": "audio/mp4",
    ".mp4": "audio/mp4",
    ".m4v": "audio/mp4",
    ".mov": "audio/mp4",
    ".aac": "audio/aac",
    ".webm": "audio/webm",
    ".weba": "audio/webm",
}
"""Files that browsers play, by their extension, and their media types."""
THEMES = ("auto", "light", "dark")
_DATA = '<script type="application/json" id="page-data">{}</script>'
_SOUND = '<script type="text/plain" id="page-audio">{}</script>'
_SOUND_HREF = "#page-audio"
_ESCAPES = {ord(mark): f"\\u{ord(mark):04x}" for mark in "<>&"}
"""Without these characters, JSON inside HTML contains no tag, no comment, and no end of its
element."""


def page(
    alignment: Mapping[str, Any],
    *,
    name: str,
    sound: PageSound | None,
    theme: str = "auto",
    save_href: str | None = None,
    save_tag: str | None = None,
    realign_href: str | None = None,
    home_href: str | None = None,
) -> str:
    """Return the page of an alignment as HTML.

    Nothing in the arguments can become markup or script.

    Args:
        alignment: a JSON object of format "ctc-align/1", its times counted from the start of the
            utterance.
        name: the title, and the stem of the files that the page saves.
        sound: the recording; None: a page without sound.
        theme: one of `THEMES`; "auto" is that of the reader's system.
        save_href: the address to which the page of a server saves corrections (HTTP PUT of JSON);
            None: they are only downloaded.
        save_tag: the ETag of the alignment there, which saving sends as If-Match.
        realign_href: the address for aligning corrections again (HTTP POST of JSON, answered by an
            alignment of the same words); None: there is none.
        home_href: a link back, or None.

    Raises:
        UsageError: there is no such theme.
    """
    if theme not in THEMES:
        raise UsageError(f"theme: expected one of {', '.join(THEMES)}, got {theme}")
    data = {
        "name": name,
        "alignment": alignment,
        "audio": {"href": None} if sound is None else sound.as_dict(_SOUND_HREF),
        "peaks": None if sound is None or sound.peaks is None else _peaks_data(sound.peaks),
        "save_href": save_href,
        "save_tag": save_tag,
        "realign_href": realign_href,
        "home_href": home_href,
        "theme": theme,
    }
    # base64 has no marks of HTML
    if sound is None or sound.encoded is None:
        encoded = ""
    else:
        encoded = base64.b64encode(sound.encoded).decode("ascii")
    rest = (Path(__file__).parent / "page.html").read_text(encoding="utf-8")
    pieces = []
    for element, empty, content in ((_DATA, "null", json_in_html(data)), (_SOUND, "", encoded)):
        before, rest = rest.split(element.format(empty))
        pieces += [before, element.format(content)]
    return "".join([*pieces, rest])


def json_in_html(data: Any) -> str:
    """Return JSON that can stand in a script element.

    It reads the same, and has no marks of HTML in it.

    Control characters, marks of direction and halves of surrogate pairs are escaped too.

    >>> json_in_html({"text": "</script><!--"})
    '{"text": "\\\\u003c/script\\\\u003e\\\\u003c!--"}'
    """
    return json_escaped(json.dumps(data, ensure_ascii=False, allow_nan=False)).translate(_ESCAPES)


def _peaks_data(peaks: np.ndarray) -> dict[str, Any]:
    """Return the object of the page's data for the outline that `peaks_of` returns."""
    coded = {
        key: base64.b64encode(row.tobytes()).decode("ascii")
        for key, row in zip(("min", "max"), peaks)
    }
    return {"per_s": PEAKS_PER_S, **coded}


@dataclass(frozen=True)
class PageSound:
    """The sound of a page.

    Args:
        href: a link to it; None if it is inside the page.
        mime: its media type.
        start_s: where the utterance begins in it, in seconds.
        peaks: the outline of the utterance, by `peaks_of`; None: the page draws it when it has
            decoded the sound.
        encoded: the bytes of the sound inside the page.
    """

    href: str | None
    mime: str
    start_s: float = 0.0
    peaks: np.ndarray | None = None
    encoded: bytes | None = None

    @classmethod
    def embedded(cls, samples: np.ndarray, sample_rate: int) -> PageSound:
        """Return mono samples (N,) float32 as sound inside the page, coded as Opus.

        Raises:
            AudioError: the samples cannot be encoded (NaN, none at all, an invalid sample rate).
        """
        audio = as_audio((samples, sample_rate), _opus_rate(sample_rate))
        return cls(None, OPUS, 0.0, peaks_of(audio), encoded_opus(audio))

    @classmethod
    def file(
        cls,
        path: str | os.PathLike[str],
        *,
        offset_s: float = 0.0,
        duration_s: float | None = None,
        choice: SoundChoice = DEFAULT_SOUND,
    ) -> PageSound:
        """Return the stretch of a recording that belongs to an utterance, as sound inside the page.

        A small WAV, FLAC or Ogg file that is the whole utterance is copied; everything else is
        encoded as Opus, with the clock by which it was aligned, because browsers play MP3 and MP4
        with different clocks.

        Args:
            path: the recording.
            offset_s, duration_s: the stretch; None: to its end.
            choice: the channel and the audio track.

        Raises:
            MissingAudioError, AudioError: as `ctc_align.audio.loading.load_audio`.
        """
        name = os.fspath(path)
        rate, length_s, mime = _header(name)
        # the peaks need the samples, whichever bytes are embedded
        audio = load_audio(
            name,
            _opus_rate(rate),
            offset_s=offset_s,
            duration_s=duration_s,
            choice=choice,
            on_disk=True,
        )
        is_whole = (
            offset_s == 0 and length_s is not None and abs(audio.duration_s - length_s) < 1e-3
        )
        if (
            mime
            and is_whole
            and choice == DEFAULT_SOUND
            and os.path.getsize(name) <= _AS_IT_IS_BYTES
        ):
            return cls(None, mime, 0.0, peaks_of(audio), read_input(name))
        return cls(None, OPUS, 0.0, peaks_of(audio), encoded_opus(audio))

    @classmethod
    def link(
        cls, href: str, *, mime: str = "", start_s: float = 0.0, peaks: np.ndarray | None = None
    ) -> PageSound:
        """Return a link to a recording.

        `href` as in the page, `start_s` where the utterance begins in it.

        `peaks` are those of the utterance, by `peaks_of`; without them an overview waits until the
        sound is decoded.
        """
        return cls(href, mime or played_type(href) or OPUS, start_s, peaks)

    def beside(self, href: str) -> PageSound:
        """Return the same sound as a link, for a page whose sound lies in a file of its own."""
        return replace(self, href=href, encoded=None)

    def as_dict(self, embedded_href: str) -> dict[str, Any]:
        """Return the object of the page's data.

        `embedded_href` is where the page has the sound that is inside it.
        """
        href = embedded_href if self.href is None else self.href
        return {"href": href, "mime": self.mime, "start_s": round(self.start_s, 6)}


def played_type(name: str) -> str | None:
    """Return the media type of a file that browsers play, by its extension; None if they do not.

    >>> played_type("talk.MP3"), played_type("talk.sph")
    ('audio/mpeg', None)
    """
    return _PLAYED.get(Path(name).suffix.casefold())


def relative_href(file: str | os.PathLike[str], folder: str | os.PathLike[str]) -> str:
    """Return the link to a file in a page that lies in `folder`.

    >>> relative_href("talks/a b.ogg", "pages")
    '../talks/a%20b.ogg'
    """
    try:
        path = os.path.relpath(file, folder)
    except ValueError:  # another drive of Windows
        return Path(file).resolve().as_uri()
    return quote(os.fsencode(Path(path).as_posix()))


def peaks_of(audio: Audio) -> np.ndarray:
    """Return the outline (2, N) int8 of a sound.

    It is the least and the greatest sample of each hundredth of a second.

    It is scaled so that the loudest sample is 127. The sound may lie on disk.
    """
    edges = np.arange(int(np.ceil(len(audio.samples) * PEAKS_PER_S / audio.sample_rate)) + 1)
    edges = np.minimum(edges * audio.sample_rate // PEAKS_PER_S, len(audio.samples))
    edges = np.unique(edges)
    least, greatest = np.zeros(len(edges) - 1, np.float32), np.zeros(len(edges) - 1, np.float32)
    for first in range(0, len(edges) - 1, 60 * PEAKS_PER_S):
        last = min(first + 60 * PEAKS_PER_S, len(edges) - 1)
        block = np.asarray(audio.samples[int(edges[first]) : int(edges[last])])
        starts = edges[first:last] - edges[first]
        least[first:last] = np.minimum.reduceat(block, starts)
        greatest[first:last] = np.maximum.reduceat(block, starts)
    scale = 127 / max(float(np.max(np.abs(least))), float(np.max(np.abs(greatest))), 1e-9)
    return np.round(np.stack((least, greatest)) * scale).astype(np.int8)


def encoded_opus(audio: Audio) -> bytes:
    """Return mono sound, at a rate that Opus has, as an Ogg Opus file.

    The bytes are the same for the same samples.
    """
    import av

    file = io.BytesIO()
    with av.open(file, "w", format="ogg", container_options={"fflags": "+bitexact"}) as container:
        stream = container.add_stream("libopus", rate=audio.sample_rate, options=_OPUS_OPTIONS)
        stream.layout = "mono"
        stream.bit_rate = _OPUS_BITS_PER_S
        # in parts of a second: samples of a long recording may lie on disk
        for first in range(0, len(audio.samples), audio.sample_rate):
            block = np.asarray(audio.samples[first : first + audio.sample_rate], np.float32)
            frame = av.AudioFrame.from_ndarray(
                np.clip(block, -1, 1)[None], format="flt", layout="mono"
            )
            frame.sample_rate = audio.sample_rate
            frame.pts = first
            container.mux(stream.encode(frame))
        container.mux(stream.encode(None))
    return file.getvalue()


def opus_of(path: str | os.PathLike[str]) -> bytes:
    """Return a recording as an Ogg Opus file, all of it and all channels as one.

    Raises as `PageSound.file`.
    """
    rate, _, _ = _header(os.fspath(path))
    return encoded_opus(load_audio(path, _opus_rate(rate), on_disk=True))


def _opus_rate(rate: float) -> int:
    """Return the lowest rate of Opus that keeps the band of a rate, up to 12 kHz."""
    return next((opus for opus in _OPUS_RATES if opus >= rate), _OPUS_RATES[-1])


def _header(name: str) -> tuple[int, float | None, str]:
    """Return sample rate, seconds, and media type of a file that can be embedded as it is.

    The type is "" for a file that cannot.
    """
    from ctc_align.audio.loading import open_recording
    from ctc_align.units import samples_to_seconds

    with open_recording(name) as recording:
        rate, samples, channels = recording.rate, recording.samples, recording.channels
    if samples is None:
        length_s = None
    else:
        length_s = samples_to_seconds(samples, rate)
    return rate, length_s, _type_as_it_is(name) if channels <= 2 and 8000 <= rate <= 96000 else ""


def _type_as_it_is(name: str) -> str:
    import soundfile

    try:
        found = soundfile.info(name)
    except soundfile.SoundFileError:
        return ""
    if found.subtype in _SUBTYPES:
        return _AS_IT_IS.get(found.format, "")
    return ""
