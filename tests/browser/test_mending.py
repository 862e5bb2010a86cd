"""An alignment is mended in its page: by mouse and by keys, undone, kept by the browser, and saved as files."""

from __future__ import annotations

import json
from collections.abc import Callable
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
from praatio import textgrid
from sample_alignments import aligned, make_alignment

from ctc_align.files import from_dict
from ctc_align.files.labels import CtmWriter
from ctc_align.files.textgrid import TextGridWriter
from ctc_align.view.page import page as html_of

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
    stage, view = page.locator("[data-testid=stage]").bounding_box(), page.evaluate("ctcAlignPage.view")
    row = next(row for row in page.evaluate("ctcAlignPage.lanes") if row["name"] == lane)
    return stage["x"] + (time_s - view["start"]) * view["pxPerS"], stage["y"] + row["top"] + row["height"] / 2


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
    assert page.evaluate(WORDS)[0]["end"] == page.evaluate(WORDS)[1]["start"] == pytest.approx(0.395)
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
