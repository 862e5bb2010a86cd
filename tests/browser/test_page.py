"""The page of an alignment in a browser: it plays, nothing leaves it, no text is obeyed, and words
are mended in it."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from io import StringIO
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import soundfile
from long_pages import DEMO
from praatio import textgrid
from sample_alignments import aligned, make_alignment

from ctc_align.files import from_dict
from ctc_align.files.labels import CtmWriter
from ctc_align.files.textgrid import TextGridWriter
from ctc_align.types import Alignment, Audio
from ctc_align.view.page import page as html_of

WATCH = """() => new Promise((done) => {
    const seen = [];
    const step = () => {
        const { time, playing, isPlaying } = ctcAlignPage;
        const lit = document.querySelector("[data-testid=transcript] .playing");
        seen.push({ time, playing, lit: lit === null ? -1 : Number(lit.dataset.place) });
        if (seen.length > 30 && !isPlaying) done(seen);
        else requestAnimationFrame(step);
    };
    requestAnimationFrame(step);
})"""
"""Returns what is lit at each frame, until nothing plays."""

TIER_COLOURS = """() => new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(() => {
    const canvas = document.querySelector("[data-testid=canvas]");
    const { top, height } = ctcAlignPage.lanes.find((lane) => lane.name === "tokens");
    const x = 0.05 * ctcAlignPage.view.pxPerS;
    done([...canvas.getContext("2d").getImageData(x, top + height - 3, 1, 1).data]);
})))"""
"""Returns the colour of the first token."""


@pytest.fixture(scope="module")
def demo_page(english: Any, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Alignment]:
    alignment = english.align(DEMO / "demo.flac", (DEMO / "demo.txt").read_text("utf-8"))
    path = tmp_path_factory.mktemp("demo") / "demo.html"
    alignment.save(path)
    return path, alignment


def noise(seconds: float) -> Audio:
    return Audio(
        np.random.default_rng(0).normal(0, 0.1, int(16000 * seconds)).astype(np.float32), 16000
    )


def words_of(*texts: str, between: str = " ") -> Alignment:
    """Return an alignment of words of 0.4 s each, half a second apart."""
    starts = np.cumsum([0, *(len(text) + len(between) for text in texts)])
    words = tuple(
        aligned(text, i / 2, i / 2 + 0.4, int(starts[i]), "ab") for i, text in enumerate(texts)
    )
    return make_alignment(words, len(texts) / 2, text=between.join(texts), audio="")


def test_words_light_up_at_their_times_while_it_plays(
    open_page: Callable[..., Any], demo_page: Any
) -> None:
    path, alignment = demo_page
    page = open_page(path)
    shown = page.evaluate("ctcAlignPage.words.map((word) => [word.text, word.start, word.end])")
    assert shown == [[word.text, word.start_s, word.end_s] for word in alignment.words]
    page.wait_for_selector("body[data-samples=true]")
    page.keyboard.press("Space")
    seen = page.evaluate(WATCH)
    assert seen[-1]["time"] > alignment.duration_s - 0.2
    # what is lit was chosen a frame ago
    near_s = 0.05 + max(after["time"] - before["time"] for before, after in pairwise(seen))
    assert near_s < 0.5
    lit = {moment["lit"] for moment in seen}
    assert lit - {-1} == set(range(len(alignment.words)))
    for moment in seen[1:-1]:
        assert moment["lit"] == moment["playing"]
        if moment["lit"] >= 0:
            word = alignment.words[moment["lit"]]
            assert word.start_s - near_s <= moment["time"] < word.end_s + near_s


def test_a_click_on_a_word_plays_that_word_alone(
    open_page: Callable[..., Any], demo_page: Any
) -> None:
    path, alignment = demo_page
    page = open_page(path)
    page.wait_for_selector("body[data-samples=true]")
    # watched from the click on: a word is over soon
    seen = page.evaluate(f"""() => {{
        document.querySelector("[data-testid=transcript] [data-place='5']").click();
        return ({WATCH})();
    }}""")
    assert page.evaluate("ctcAlignPage.selected") == 5
    word = alignment.words[5]
    assert {moment["lit"] for moment in seen} == {5, -1}
    assert all(word.start_s - 1e-3 <= moment["time"] <= word.end_s + 1e-3 for moment in seen)


@pytest.mark.parametrize(
    ("texts", "between", "direction"),
    [(("שלום", "לכולם,", "ABC", "היום"), " ", "rtl"), (("今", "日", "は", "。"), "", "ltr")],
    ids=["right to left", "spaceless"],
)
def test_other_scripts_stand_as_they_are(open_page, tmp_path, texts, between, direction):
    alignment = words_of(*texts, between=between)
    alignment.save(tmp_path / "a.html", sound=noise(2.0))
    page = open_page(tmp_path / "a.html")
    assert page.inner_text("[data-testid=transcript]").strip() == alignment.text
    paragraph = page.locator("[data-testid=transcript] p").first
    assert paragraph.evaluate("(element) => getComputedStyle(element).direction") == direction
    first, last = (page.locator(f"[data-place='{place}']").bounding_box() for place in (0, 3))
    assert (first["x"] > last["x"]) is (direction == "rtl")
    starts = page.evaluate("ctcAlignPage.words.map((word) => word.start)")
    assert starts == sorted(starts)
    page.click("[data-place='1']")
    assert page.evaluate("ctcAlignPage.selected") == 1


def test_of_many_words_the_share_of_doubtful_ones_is_drawn(
    open_page: Callable[..., Any], tmp_path: Path
) -> None:
    alignment = words_of(*["a"] * 4000)
    words = [
        replace(word, confidence=0.9 if i % 2 or not 1000 <= i < 2000 else 0.1)
        for i, word in enumerate(alignment.words)
    ]
    replace(alignment, words=tuple(words)).save(tmp_path / "a.html")
    page = open_page(tmp_path / "a.html")
    page.keyboard.press("0")
    pixel = """(share) => new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(() => {
        const { top, height } = ctcAlignPage.lanes.find((lane) => lane.name === "words");
        const { width } = document.querySelector("[data-testid=canvas]");
        const context = document.querySelector("[data-testid=canvas]").getContext("2d");
        done([...context.getImageData(Math.round(share * width), top + height / 2, 1, 1).data]);
    })))"""
    colours = [page.evaluate(pixel, share) for share in (0.1, 0.3, 0.45, 0.6, 0.9)]
    assert colours[0] == colours[3] == colours[4] != colours[1] == colours[2]


HOSTILE = (
    "<img/src=x:x/onerror=hit()>",
    "</script><script>hit()</script>",
    "<!--<script>",
    "javascript:hit()",
    "&lt;b&gt;",
    "\u2028${hit()}",
    "\x1b[2J\u202e",
)


def test_no_text_of_the_alignment_is_obeyed(open_page: Callable[..., Any], tmp_path: Path) -> None:
    alignment = words_of(*HOSTILE).to_dict()
    strange = f"{HOSTILE[0]}{HOSTILE[1]}"
    for word in alignment["words"]:
        word.update(speaker=strange, spoken=strange)
        word["tokens"][0]["token"] = strange
    region = {
        "kind": "misfit",
        "start_s": 0.1,
        "end_s": 1.0,
        "char_start": 0,
        "char_end": 5,
        "reason": strange,
    }
    alignment.update(
        utterance=strange,
        audio=HOSTILE[3],
        model=strange,
        regions=[region],
        config={HOSTILE[1]: strange},
    )
    harmless = words_of(*"abcdefg").to_dict()
    harmless.update(regions=[region | {"reason": "b"}])
    for word in harmless["words"]:
        word["speaker"] = "c"
    counts = []
    for name, data in ((strange, alignment), ("a", harmless)):
        path = tmp_path / f"{len(counts)}.html"
        path.write_text(html_of(data, name=name, sound=None, home_href="/"), "utf-8")
        page = open_page(path)
        page.click("[data-testid=transcript] [data-place='1']")
        page.keyboard.press("n")
        page.keyboard.press("?")
        assert page.evaluate("typeof window.hit") == "undefined"
        assert page.evaluate("document.title").startswith(f"\u2068{name}")
        assert page.evaluate("ctcAlignPage.words.map((word) => word.text)") == [
            word["text"] for word in data["words"]
        ]
        assert page.locator("a[href^='javascript:' i]").count() == 0
        counts.append(
            [
                page.locator(kind).count()
                for kind in ("script", "img", "iframe", "a", "b", "object", "svg")
            ]
        )
    assert counts[0] == counts[1]


def test_a_recording_that_is_linked_plays_from_where_the_utterance_begins(open_page, tmp_path, cli):
    soundfile.write(tmp_path / "a talk#1.wav", noise(2.5).samples, 16000)
    alignment = replace(words_of("one", "two", "three"), audio="a talk#1.wav", offset_s=1.0)
    alignment.save(tmp_path / "a.json")
    assert cli("view", tmp_path / "a.json", "-o", tmp_path / "pages", "--audio", "link").code == 0
    page = open_page(tmp_path / "pages" / "a.html")
    page.keyboard.press("Space")
    page.wait_for_selector("[data-testid=transcript] .playing")
    seen = page.evaluate(WATCH)
    assert {moment["lit"] for moment in seen} >= {1, 2}
    assert max(moment["time"] for moment in seen) == pytest.approx(1.5, abs=0.3)
    why = page.get_by_test_id("unseen")
    assert "Open a talk#1.wav with “Recording”" in why.inner_text()
    with page.expect_file_chooser() as chooser:
        page.get_by_test_id("recording").click()
    chooser.value.set_files(str(tmp_path / "a talk#1.wav"))
    page.wait_for_selector("body[data-samples=true]")
    why.wait_for(state="hidden")


WORDS = "ctcAlignPage.words"


@pytest.fixture
def page(open_page: Callable[..., Any], tmp_path: Path) -> Any:
    """Open three words of 0.3 s that touch, and a fourth behind a gap."""
    texts, starts = ("“One,”", "two", "three", "four."), (0.1, 0.4, 0.7, 1.2)
    words, at = [], 0
    for text, start_s in zip(texts, starts):
        words.append(aligned(text, start_s, start_s + 0.3, at, "abc"))
        at += len(text) + 1
    alignment = make_alignment(tuple(words), 1.7, text=" ".join(texts), audio="")
    data = json.loads(json.dumps(alignment.to_dict()))
    (tmp_path / "talk.html").write_text(html_of(data, name="talk", sound=None), "utf-8")
    return open_page(tmp_path / "talk.html", viewport={"width": 1200, "height": 800})


def saved(page: Any, format: str) -> str:
    page.click("[data-testid=save]")
    with page.expect_download() as download:
        page.click(f"[data-testid=save-{format}]")
    return Path(download.value.path()).read_text("utf-8")


def place_of(page: Any, lane: str, time_s: float) -> tuple[float, float]:
    """Return where a time is in a lane, in pixels of the window."""
    stage, view = (
        page.locator("[data-testid=stage]").bounding_box(),
        page.evaluate("ctcAlignPage.view"),
    )
    row = next(row for row in page.evaluate("ctcAlignPage.lanes") if row["name"] == lane)
    return (
        stage["x"] + (time_s - view["start"]) * view["pxPerS"],
        stage["y"] + row["top"] + row["height"] / 2,
    )


def drag(page: Any, lane: str, from_s: float, to_s: float) -> None:
    page.mouse.move(*place_of(page, lane, from_s))
    page.mouse.down()
    page.mouse.move(*place_of(page, lane, (from_s + to_s) / 2))
    page.mouse.move(*place_of(page, lane, to_s))
    page.mouse.up()


def test_an_edge_that_is_dragged_is_in_the_files(page: Any, tmp_path: Path) -> None:
    before = page.evaluate(WORDS)
    drag(page, "words", 0.7, 0.65)
    (tmp_path / "a.TextGrid").write_text(saved(page, "textgrid"), "utf-8")
    grid = textgrid.openTextgrid(str(tmp_path / "a.TextGrid"), includeEmptyIntervals=True)
    words, tokens = (grid.getTier(name).entries for name in ("words", "tokens"))
    assert [entry.label for entry in words] == ["", "One", "two", "three", "", "four", ""]
    assert (words[2].end, words[3].start) == pytest.approx((0.65, 0.65), abs=1e-3)
    assert words[2].end == words[3].start == tokens[6].end == tokens[7].start
    assert (words[0].start, words[-1].end) == (0, 1.7)
    page.keyboard.press("Control+z")
    assert page.evaluate(WORDS) == before
    page.keyboard.press("Control+Shift+z")
    assert page.evaluate(WORDS)[1]["end"] == words[2].end
    alignment = from_dict(json.loads(saved(page, "json")))
    assert [word.by for word in alignment.words] == ["", "hand", "", ""]
    for format, writer in (("textgrid", TextGridWriter()), ("ctm", CtmWriter())):
        expected = StringIO()
        writer.write(alignment, expected)
        assert saved(page, format) == expected.getvalue()


def test_the_pronunciation_is_in_colours_and_in_words(
    open_page: Callable[..., Any], tmp_path: Path, page: Any
) -> None:
    """A colour is never alone: labels, the transcript and the selected word say the same."""
    assert page.locator("[data-testid=ratings]").is_hidden()
    alignment = words_of("this", "is")
    tokens = alignment.words[0].tokens
    rated = (
        replace(tokens[0], gop=-4.98, gop_percentile=1.5, heard="S"),
        replace(tokens[1], gop=3.0, gop_percentile=64.0, heard="b"),
    )
    words = (replace(alignment.words[0], tokens=rated), alignment.words[1])
    replace(alignment, words=words).save(tmp_path / "a.html", sound=noise(1.0))
    page = open_page(tmp_path / "a.html")
    in_words = "a, S heard: −4.98 nats; 1.5 % of native speakers’ a are rated lower"
    word = page.locator("[data-place='0']")
    assert page.inner_text("[data-testid=rating]") == f"Lowest sound {in_words}"
    assert word.get_attribute("title") == in_words
    assert "< 2 %" in page.inner_text("[data-testid=legend]")
    colours = page.evaluate(TIER_COLOURS)
    page.keyboard.press("v")
    assert page.locator("[data-testid=legend]").is_hidden()
    assert word.get_attribute("title") is None
    assert page.evaluate(TIER_COLOURS) != colours
    drag(page, "words", 0.4, 0.45)
    kept = from_dict(json.loads(saved(page, "json"))).words[0]
    assert kept.by == "hand"
    assert [(token.gop, token.heard) for token in kept.tokens] == [(-4.98, "S"), (3.0, "b")]


def test_edges_never_cross(page: Any) -> None:
    drag(page, "words", 0.7, 1.6)
    drag(page, "tokens", 0.2, 0.9)
    drag(page, "words", 1.2, 0.2)
    edges = [0.0]
    for word in page.evaluate(WORDS):
        assert word["tokens"][0]["start"] == word["start"]
        assert word["tokens"][-1]["end"] == word["end"]
        for token in word["tokens"]:
            assert token["start"] >= edges[-1] - 1e-9
            assert token["end"] - token["start"] > 0.0049
            edges.append(token["end"])
    alignment = from_dict(json.loads(saved(page, "json")))
    assert sum(token.by == "hand" for token in alignment.words[0].tokens) == 2


def test_words_are_mended_by_keys_alone(page: Any) -> None:
    press = page.keyboard.press
    text = lambda: [word["text"] for word in page.evaluate(WORDS)]  # noqa: E731
    press("Home")
    press("ArrowRight")
    press("[")
    press("Shift+ArrowLeft")
    assert (
        page.evaluate(WORDS)[0]["end"] == page.evaluate(WORDS)[1]["start"] == pytest.approx(0.395)
    )
    press("b")
    assert page.evaluate(WORDS)[1] == page.evaluate(WORDS)[1] | {"start": 0.4, "byHand": False}
    press("s")
    assert text() == ["“One,”", "tw", "o", "three", "four."]
    press("m")
    assert text() == ["“One,”", "two", "three", "four."]
    press("e")
    page.keyboard.insert_text("deux  mots")
    press("Enter")
    assert text() == ["“One,”", "deux", "mots", "three", "four."]
    press("End")
    press("r")
    press("ArrowLeft")
    press("Delete")
    press("ArrowLeft")
    press("i")
    page.keyboard.insert_text("neu")
    press("Enter")
    assert text() == ["“One,”", "deux", "mots", "neu", "four."]
    alignment = from_dict(json.loads(saved(page, "json")))
    assert alignment.text == "“One,” deux mots neu four."
    assert [alignment.text[word.char_start : word.char_end] for word in alignment.words] == text()
    assert [word.by for word in alignment.words] == ["", "hand", "hand", "hand", "hand"]
    assert (alignment.words[3].confidence, alignment.words[3].tokens) == (None, ())


def test_a_recording_is_signed_off(page: Any) -> None:
    mark = page.get_by_test_id("checked-mark")
    page.keyboard.press("c")
    mark.wait_for()
    assert from_dict(json.loads(saved(page, "json"))).checked
    page.get_by_test_id("undo").click()
    mark.wait_for(state="hidden")
    assert "checked" not in json.loads(saved(page, "json"))
    page.keyboard.press("Control+y")
    page.reload()
    mark.wait_for()


def test_what_was_mended_is_kept_until_it_is_discarded(page: Any) -> None:
    before = page.evaluate(WORDS)
    drag(page, "words", 0.7, 0.6)
    mended = page.evaluate(WORDS)
    assert mended != before
    page.reload()
    page.wait_for_selector("[data-testid=notice]:not([hidden])")
    assert page.evaluate(WORDS) == mended
    page.click("[data-testid=notice-discard]")
    assert page.evaluate(WORDS) == before
    page.reload()
    page.wait_for_selector("body[data-ready=true]")
    assert page.evaluate(WORDS) == before
