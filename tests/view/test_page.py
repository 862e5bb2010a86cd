"""The page of an alignment: its data are read as they were put in, its sound is that of the utterance."""

from __future__ import annotations

import base64
import io
import json
import re
from html.parser import HTMLParser

import numpy as np
import pytest
import soundfile

from ctc_align.types import Audio
from ctc_align.view.page import PageSound, page, peaks_of, relative_href

HOSTILE = '</script><script>x()</script><!-- <img src=x onerror=x()> ]]> & \u2028\u2029 \udcff "\\u003c" javascript:x()'


class Elements(HTMLParser):
    """The elements with an id that are scripts, and how many elements there are of each kind."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.texts: dict[str, str] = {}
        self._id = ""
        self.feed(html)

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self._id = dict(attributes).get("id") or ""

    def handle_endtag(self, tag: str) -> None:
        self._id = ""

    def handle_data(self, data: str) -> None:
        if self._id.startswith("page-"):
            self.texts[self._id] = self.texts.get(self._id, "") + data


def clicks(rate: int, seconds: float, every_s: float = 0.5) -> np.ndarray:
    samples = np.random.default_rng(0).normal(0, 1e-3, int(rate * seconds)).astype(np.float32)
    for start in range(int(rate * every_s), len(samples), int(rate * every_s)):
        samples[start : start + rate // 200] = 0.8
    return samples


def test_no_text_becomes_markup_and_all_of_it_is_read_back() -> None:
    alignment = {"text": HOSTILE, HOSTILE: [HOSTILE, 1.5, None]}
    plain, hostile = Elements(page({}, name="a", sound=None)), Elements(page(alignment, name=HOSTILE, sound=None))
    assert hostile.tags == plain.tags
    data = json.loads(hostile.texts["page-data"])
    assert (data["alignment"], data["name"]) == (alignment, HOSTILE)
    assert not re.search(r"[<>&\u2028\u2029]", hostile.texts["page-data"])


def test_a_page_without_sound_is_small_and_names_no_other_file() -> None:
    html = page({}, name="a", sound=None)
    assert len(html.encode()) < 400_000
    script = "".join(re.findall(r"<(?:script|link|img|iframe|audio|source)\b[^>]*>", html))
    assert re.findall(r"(?:src|href)=\"(?!data:)", script) == []


@pytest.mark.parametrize("rate", [8000, 11025, 16000, 44100])
def test_samples_are_inside_at_their_times(rate: int) -> None:
    samples = clicks(rate, 5.25)
    sound = PageSound.embedded(samples, rate)
    elements = Elements(page({}, name="a", sound=sound))
    decoded, got_rate = soundfile.read(io.BytesIO(base64.b64decode(elements.texts["page-audio"])), dtype="float32")
    # Ogg Opus counts in samples of its own rate
    assert len(decoded) / got_rate == pytest.approx(len(samples) / rate, abs=2e-3)
    quarters = range(got_rate // 4, len(decoded), got_rate // 2)
    found = [np.flatnonzero(part > 0.4)[0] / got_rate for part in np.split(decoded, quarters)[1:11]]
    assert found == pytest.approx([0.25] * 10, abs=2e-3)
    data = json.loads(elements.texts["page-data"])
    assert data["audio"] == {"href": "#page-audio", "mime": "audio/ogg", "start_s": 0.0}
    greatest = np.frombuffer(base64.b64decode(data["peaks"]["max"]), np.int8)
    assert len(greatest) == 525
    assert {round(place / 50) for place in np.flatnonzero(greatest > 60)} == set(range(1, 11))


def test_peaks_of_a_sound_are_the_same_in_blocks() -> None:
    samples = np.random.default_rng(1).normal(0, 0.2, 61 * 8000 + 17).astype(np.float32)
    peaks = peaks_of(Audio(samples, 8000))
    scale = 127 / np.abs(samples).max()
    for part in (0, 5999, 6000, 6099, 6100):
        of = samples[part * 80 : part * 80 + 80] * scale
        assert (peaks.least[part], peaks.greatest[part]) == (round(float(of.min())), round(float(of.max())))
    assert len(peaks.least) == 6101


@pytest.mark.parametrize(
    ("kind", "stretch", "mime"),
    [
        ("WAV", {}, "audio/wav"),
        ("FLAC", {"duration_s": 2.0}, "audio/flac"),
        ("FLAC", {"offset_s": 0.5, "duration_s": 1.0}, "audio/ogg"),
        ("FLAC", {"channel": 1}, "audio/ogg"),
        ("MP3", {}, "audio/ogg"),
    ],
)
def test_a_file_is_inside_as_it_is_only_where_it_is_the_utterance(tmp_path, kind, stretch, mime) -> None:
    path = tmp_path / f"a.{kind.lower()}"
    soundfile.write(path, clicks(16000, 2.0), 16000, format=kind)
    sound = PageSound.file(path, **stretch)
    assert sound.mime == mime
    assert (sound.encoded == path.read_bytes()) is (mime != "audio/ogg")
    length_s = stretch.get("duration_s", 2.0)
    info = soundfile.info(io.BytesIO(sound.encoded))
    assert info.duration == pytest.approx(length_s, abs=0.002 if kind != "MP3" else 0.1)


def test_links_are_relative_and_never_schemes(tmp_path) -> None:
    assert relative_href(tmp_path / "a" / "b c#?.ogg", tmp_path / "pages") == "../a/b%20c%23%3F.ogg"
    assert relative_href("javascript:x().ogg", ".") == "javascript%3Ax%28%29.ogg"
