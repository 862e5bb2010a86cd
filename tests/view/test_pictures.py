"""Pictures of alignments: what is drawn where, of a few seconds and of an hour."""

from __future__ import annotations

import base64
import io
import json
import logging
import re
import sys
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path

import numpy as np
import pytest
import soundfile

from ctc_align.errors import AudioError, UsageError
from ctc_align.files import rendered
from ctc_align.types import AlignedToken, AlignedWord, Alignment, Audio, Region, SoundChoice
from ctc_align.view.page import PageSound, page, peaks_of, relative_href
from ctc_align.view.pictures import alignment_figure, rendered_figure, spectrogram

pytest.importorskip("matplotlib")
ROOT = Path(__file__).resolve().parents[2]


def word(
    text: str, start_s: float, end_s: float, confidence: float = 0.95, speaker: str = ""
) -> AlignedWord:
    middle_s = (start_s + end_s) / 2
    tokens = (
        AlignedToken("AH", start_s, middle_s, 0.9, 20.0, 5.0),
        AlignedToken("T", middle_s, end_s, 0.9, 5.0, 30.0),
    )
    times = (start_s, end_s, confidence, tokens, 20.0, 30.0)
    return AlignedWord(text, text, 0, 1, "aligned", *times, speaker=speaker)


WORDS = (
    word("$a$", 0.5, 1.0, speaker="A"),
    word("</b>", 1.0, 1.5, 0.6, "A"),
    word("c", 8.0, 8.5, 0.1, "B"),
)
SKIPPED = AlignedWord("d", "d", 0, 1, "skipped")
ALIGNMENT = Alignment(
    "talk",
    "talk.wav",
    10.0,
    "m",
    "cpu",
    0.01,
    1.0,
    -1.0,
    "$a$ </b> c d",
    (*WORDS, SKIPPED),
    token_kind="phones",
)
SOUND = Audio(np.sin(np.arange(160000, dtype=np.float32)), 16000)


def texts(figure) -> list[str]:
    return [text.get_text() for axes in figure.axes for text in axes.texts]


def lines_and_bands(axes, level: int) -> tuple[list[float], list[tuple[float, float]]]:
    """Return the edges that are drawn in a tier, and the first and last times of the bands about
    them."""
    lines, bands = [], []
    for collection in axes.collections:
        for path in collection.get_paths():
            times, levels = path.vertices[:, 0], path.vertices[:, 1]
            if levels.min() == level and levels.max() == level + 1:
                if type(collection).__name__ == "LineCollection":
                    lines.append(float(times[0]))
                elif collection.get_alpha():
                    bands.append((float(times.min()), float(times.max())))
    return sorted(lines), sorted(bands)


def test_words_stand_at_their_times_with_the_spread_of_their_edges():
    figure = alignment_figure(ALIGNMENT.to_dict(), SOUND)
    assert len(figure.axes) == 2 * 3, "two rows of five seconds: waveform, spectrogram, tiers"
    first, second = figure.axes[2], figure.axes[5]
    assert (first.get_xlim(), second.get_xlim()) == ((0.0, 5.0), (5.0, 10.0))
    assert [label.get_text() for label in first.get_yticklabels()] == [
        "words",
        "phones",
        "speakers",
    ]
    assert texts(figure) == [
        "$a$",
        "</b>",
        "AH",
        "T",
        "AH",
        "T",
        "A",
        "c",
        "AH",
        "T",
        "B",
    ], "as they are written"
    lines, bands = lines_and_bands(first, 0)
    assert lines == [0.5, 1.0, 1.5]
    assert np.allclose(bands, [(0.48, 0.52), (0.97, 1.03), (1.47, 1.53)]), (
        "the greater of two that touch"
    )
    assert lines_and_bands(second, 1)[0] == [8.0, 8.25, 8.5]
    colours = {
        tuple(np.round(colour, 2))
        for axes in (first, second)
        for colour in axes.collections[0].get_facecolor()
    }
    assert len(colours) == 3, "of three confidences"
    assert any("1 of 4 words not in the recording" in text.get_text() for text in figure.texts)
    moved = replace(ALIGNMENT, offset_s=100.0, config={"times": "recording"}).to_dict()
    assert moved["words"][0]["start_s"] == 100.5
    assert lines_and_bands(alignment_figure(moved, None).axes[0], 0)[0] == [0.5, 1.0, 1.5]


def test_a_stretch_and_what_is_none():
    figure = alignment_figure(
        ALIGNMENT.to_dict(), SOUND, start_s=7.5, end_s=99, panels=["waveform"]
    )
    assert [axes.get_xlim() for axes in figure.axes] == [(7.5, 10.0)] * 2
    assert "c" in texts(figure)
    assert "$a$" not in texts(figure)
    for start_s, end_s in ((3, 2), (-1, 2), (10, 12)):
        with pytest.raises(UsageError, match=r"expected a stretch of the utterance's 10\.00 s"):
            alignment_figure(ALIGNMENT.to_dict(), None, start_s=start_s, end_s=end_s)
    with pytest.raises(
        UsageError, match="panels: expected some of waveform, spectrogram, got 'pitch'"
    ):
        alignment_figure(ALIGNMENT.to_dict(), None, panels=["pitch"])  # type: ignore[list-item]


def test_an_hour_is_drawn_coarsely_and_never_read_whole():
    class Samples:
        most = 0

        def __getitem__(self, part: slice) -> np.ndarray:
            self.most = max(self.most, part.stop - part.start)
            return np.ones(part.stop - part.start, np.float32)

    samples = Samples()
    words = tuple(word("hello", i * 1.0, i + 0.9, 0.3 if i == 1234 else 0.99) for i in range(3600))
    region = Region("unexplained", 3000.0, 3100.0, None, None, "speech")
    hour = replace(ALIGNMENT, words=words, duration_s=3600.0, regions=(region,)).to_dict()
    figure = alignment_figure(hour, Audio(samples, 100))
    assert samples.most <= 600 * 100
    assert len(figure.axes) == 6 * 2, "waveform and words; no spectrogram"
    assert texts(figure) == [], "no word has room"
    doubtful = [
        path for path in figure.axes[5].collections[0].get_paths() if path.vertices[0, 0] == 1234.0
    ]
    assert len(doubtful) == 1
    assert len(figure.axes[10].patches) == 1, "what no word explains is hatched"


@pytest.mark.parametrize(
    "samples", [np.zeros(1600, np.float32), np.zeros(0, np.float32), np.ones(3, np.float32)]
)
def test_silence_and_nothing_have_a_spectrogram(samples):
    levels_db, highest_hz = spectrogram(samples, 8000, 7)
    assert levels_db.shape[1] == 7
    assert highest_hz == 4000.0
    assert np.isfinite(levels_db).all()


def test_hostile_labels_and_characters_that_no_font_has(caplog):
    hostile = replace(
        ALIGNMENT, utterance="\udcff\n\x00", words=(word("a\x1b\n]]>--><script>", 0.0, 1.0),)
    )
    figure = alignment_figure(hostile.to_dict(), None)
    assert texts(figure)[0] == "a\ufffd ]]>--><script>"
    from xml.etree import ElementTree

    tree = ElementTree.fromstring(rendered_figure(figure, "svg"))
    assert not [element for element in tree.iter() if element.tag.endswith("script")]
    strange = replace(ALIGNMENT, words=(word("\U000f1234", 0.0, 1.0), word("привет", 1.0, 2.0)))
    with caplog.at_level(logging.WARNING, "ctc_align"):
        figure = alignment_figure(strange.to_dict(), None)
    assert [record.getMessage() for record in caplog.records] == [
        "no font of this machine has U+F1234: a picture shows boxes in their places"
    ]
    assert rendered_figure(figure, "png").startswith(b"\x89PNG\r\n\x1a\n")


def test_files_are_the_same_bytes_each_time_and_have_the_sound(tmp_path, monkeypatch, caplog):
    import soundfile

    monkeypatch.chdir(tmp_path)
    soundfile.write("talk.wav", 0.5 * SOUND.samples, 16000)
    with caplog.at_level(logging.WARNING, "ctc_align"):
        svg = rendered(ALIGNMENT, "svg")
        assert rendered(ALIGNMENT, "svg") == svg
        assert svg.startswith(b"<?xml")
        assert b"<dc:date>" not in svg
        ALIGNMENT.save("talk.png")
    assert caplog.records == []
    assert Path("talk.png").read_bytes().startswith(b"\x89PNG")
    Path("talk.wav").unlink()
    with caplog.at_level(logging.WARNING, "ctc_align"):
        assert len(rendered(ALIGNMENT, "svg")) < len(svg) / 2, "tiers alone"
    assert [record.getMessage()[:42] for record in caplog.records] == [
        "talk: its picture has no sound: talk.wav: "
    ]


def test_plot_reads_the_recording_or_what_takes_its_place(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert len(ALIGNMENT.plot(0, 2, audio=(SOUND.samples, 16000)).axes) == 3
    assert len(ALIGNMENT.plot(panels=()).axes) == 2
    with pytest.raises(AudioError, match=r"talk\.wav"):
        ALIGNMENT.plot()
    with pytest.raises(AudioError, match="it was aligned from samples or standard input"):
        replace(ALIGNMENT, audio="").plot()


def test_a_notebook_shows_the_page_or_a_table(tmp_path, monkeypatch):
    import html

    import soundfile

    from ctc_align.files import pages

    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(
        pages, "page", lambda data, *, name, sound: f'<p title="{name}">{len(sound.encoded)}</p>'
    )
    table = ALIGNMENT._repr_html_()
    assert table.startswith("<table><caption>talk, without its recording: talk.wav: ")
    assert "<td>&lt;/b&gt;</td><td>1.000</td><td>1.500</td><td>0.60</td>" in table
    assert "<td>d</td><td></td><td></td><td>skipped</td>" in table
    soundfile.write("talk.wav", 0.5 * SOUND.samples, 16000)
    frame = ALIGNMENT._repr_html_()
    inside = html.unescape(frame.split('srcdoc="')[1].split('"')[0])
    assert inside.startswith('<p title="talk">')
    assert ' sandbox="allow-scripts allow-downloads" ' in frame, (
        "a strange text has no way to the notebook"
    )
    assert "longer than 10 minutes" in replace(ALIGNMENT, duration_s=3600.0)._repr_html_()


def test_without_matplotlib_nothing_is_begun(cli, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    demo = ROOT / "ctc_align" / "demo"
    result = cli(
        demo / "demo.flac", demo / "demo.txt", "--format", "json,png", "-o", tmp_path / "out"
    )
    assert result.code == 2
    assert "pip install 'ctc-align[plot]'" in result.error
    assert not (tmp_path / "out").exists()
    with pytest.raises(UsageError, match="need the package matplotlib"):
        ALIGNMENT.plot(panels=())


def test_a_picture_is_not_put_on_a_terminal(cli, monkeypatch):
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True, raising=False)
    demo = ROOT / "ctc_align" / "demo"
    result = cli(demo / "demo.flac", demo / "demo.txt", "--format", "png", "--stdout")
    assert (result.code, result.stdout) == (2, "")
    assert "--stdout: png is not text for a terminal" in result.error


# The page of an alignment: its data are read as they were put in, its sound is that of the
# utterance.

HOSTILE = (
    '</script><script>x()</script><!-- <img src=x onerror=x()> ]]> & \u2028\u2029 \udcff "\\u003c"'
    " javascript:x()"
)


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
    plain, hostile = (
        Elements(page({}, name="a", sound=None)),
        Elements(page(alignment, name=HOSTILE, sound=None)),
    )
    assert hostile.tags == plain.tags
    data = json.loads(hostile.texts["page-data"])
    assert (data["alignment"], data["name"]) == (alignment, HOSTILE)
    assert not re.search(r"[<>&\u2028\u2029]", hostile.texts["page-data"])


def test_pages_without_sound_and_links(tmp_path) -> None:
    html = page({}, name="a", sound=None)
    assert len(html.encode()) < 400_000
    script = "".join(re.findall(r"<(?:script|link|img|iframe|audio|source)\b[^>]*>", html))
    assert re.findall(r"(?:src|href)=\"(?!data:)", script) == []
    assert relative_href(tmp_path / "a" / "b c#?.ogg", tmp_path / "pages") == "../a/b%20c%23%3F.ogg"
    assert relative_href("javascript:x().ogg", ".") == "javascript%3Ax%28%29.ogg"


@pytest.mark.parametrize("rate", [8000, 11025, 16000, 44100])
def test_samples_are_inside_at_their_times(rate: int) -> None:
    samples = clicks(rate, 5.25)
    sound = PageSound.embedded(samples, rate)
    elements = Elements(page({}, name="a", sound=sound))
    decoded, got_rate = soundfile.read(
        io.BytesIO(base64.b64decode(elements.texts["page-audio"])), dtype="float32"
    )
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
        assert tuple(peaks[:, part]) == (round(float(of.min())), round(float(of.max())))
    assert peaks.shape == (2, 6101)


@pytest.mark.parametrize(
    ("kind", "stretch", "mime"),
    [
        ("WAV", {}, "audio/wav"),
        ("FLAC", {"duration_s": 2.0}, "audio/flac"),
        ("FLAC", {"offset_s": 0.5, "duration_s": 1.0}, "audio/ogg"),
        ("FLAC", {"choice": SoundChoice(channel=1)}, "audio/ogg"),
        ("MP3", {}, "audio/ogg"),
    ],
)
def test_a_file_is_inside_as_it_is_only_where_it_is_the_utterance(
    tmp_path, kind, stretch, mime
) -> None:
    path = tmp_path / f"a.{kind.lower()}"
    soundfile.write(path, clicks(16000, 2.0), 16000, format=kind)
    sound = PageSound.file(path, **stretch)
    assert sound.mime == mime
    assert (sound.encoded == path.read_bytes()) is (mime != "audio/ogg")
    length_s = stretch.get("duration_s", 2.0)
    info = soundfile.info(io.BytesIO(sound.encoded))
    assert info.duration == pytest.approx(length_s, abs=0.002 if kind != "MP3" else 0.1)
