"""Pages for everybody: contrast, names, landmarks and sizes, in light, in dark and on a telephone.

The checks here are our own. Where `web/node_modules` has axe-core (`npm install --no-save
axe-core`), it runs, too.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from local_server import local_server, wav
from sample_alignments import aligned, make_alignment, placed

AXE = Path(__file__).resolve().parents[2] / "web" / "node_modules" / "axe-core" / "axe.min.js"
TELEPHONE = {"viewport": {"width": 390, "height": 844}, "has_touch": True, "is_mobile": True}
SCREENS: dict[str, dict[str, Any]] = {
    "light": {"color_scheme": "light"},
    "dark": {"color_scheme": "dark"},
    "telephone": {"color_scheme": "light"} | TELEPHONE,
}
FAULTS = """() => {
    const faults = [];
    const seen = (of) => of.checkVisibility({ visibilityProperty: true }) && of.getBoundingClientRect().width > 1;
    const rgba = (text) => { const of = text.match(/[\\d.]+/g).map(Number); return of.length < 4 ? [...of, 1] : of; };
    const over = (top, below) => top.slice(0, 3).map((of, i) => of * top[3] + below[i] * (1 - top[3]));
    const ground = (of) => {
        if (!of) return [255, 255, 255];
        const colour = rgba(getComputedStyle(of).backgroundColor);
        return colour[3] === 1 ? colour : over(colour, ground(of.parentElement));
    };
    const light = (rgb) => rgb.slice(0, 3).map((of) => of / 255)
        .map((of) => (of <= 0.04045 ? of / 12.92 : ((of + 0.055) / 1.055) ** 2.4))
        .reduce((sum, of, i) => sum + of * [0.2126, 0.7152, 0.0722][i], 0);
    const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
    while (walker.nextNode()) {
        const text = walker.currentNode.textContent.trim();
        const of = walker.currentNode.parentElement;
        if (!text || of.closest("script, style, noscript, option, :disabled") || !seen(of)) continue;
        const below = ground(of);
        const [high, low] = [light(over(rgba(getComputedStyle(of).color), below)), light(below)].sort((a, b) => b - a);
        const contrast = (high + 0.05) / (low + 0.05);
        if (contrast < 4.5) faults.push(`contrast ${contrast.toFixed(2)}: ${text}`);
        if (!of.closest("main, header, nav, [role=status], dialog")) faults.push(`outside of landmarks: ${text}`);
    }
    for (const of of document.querySelectorAll("button, a[href], select, input, textarea, summary")) {
        if (!seen(of)) continue;
        const shown = (of.innerText ?? "").replace(/[^\\p{L}\\p{N}]+/gu, " ").trim().toLowerCase();
        const label = of.getAttribute("aria-label");
        const name = label ?? (of.labels?.[0]?.innerText || shown);
        if (!name) faults.push(`without a name: ${of.outerHTML}`);
        if (label && !label.toLowerCase().includes(shown)) faults.push(`"${label}" lacks "${shown}"`);
    }
    return faults;
}"""
SMALL = """() => [...document.querySelectorAll("button, select, input, summary")].filter((of) => {
    if (!of.checkVisibility()) return false;
    const { left, right, width, height } = of.getBoundingClientRect();
    return width < 44 || height < 43.5 || left < 0 || right > innerWidth || of.scrollWidth > of.clientWidth + 1;
}).map((of) => of.outerHTML.slice(0, 120))"""


def is_accessible(page: Any) -> bool:
    assert page.evaluate(FAULTS) == []
    if AXE.exists():
        page.evaluate(AXE.read_text("utf-8"))
        rules = (
            "{rules: {'label-content-name-mismatch': {enabled: true}, 'target-size': {enabled:"
            " true}}}"
        )
        found = page.evaluate(f"axe.run(document, {rules})")["violations"]
        assert [(of["id"], [node["html"] for node in of["nodes"]]) for of in found] == []
    return True


@pytest.fixture
def talk(tmp_path: Path) -> Path:
    """A page of six words: one doubtful, one skipped."""
    texts = ["One", "two", "three", "four", "five", "six."]
    words = [aligned(text, i / 2, i / 2 + 0.4, tokens="ab") for i, text in enumerate(texts)]
    words[2] = replace(words[2], confidence=0.2)
    words[4] = replace(
        words[4], status="skipped", start_s=None, end_s=None, confidence=None, tokens=()
    )
    make_alignment(placed(words), 3.0, text=" ".join(texts), audio="", fit="good").save(
        tmp_path / "talk.html"
    )
    return tmp_path / "talk.html"


@pytest.mark.parametrize("screen", SCREENS)
def test_the_page_is_accessible(open_page: Callable[..., Any], talk: Path, screen: str) -> None:
    page = open_page(talk, bypass_csp=True, **SCREENS[screen])
    assert (
        page.get_by_test_id("fit").inner_text()
        == "Good fit · 1 word to check · 1 word not in the recording"
    )
    assert is_accessible(page)
    page.get_by_test_id("details").click()
    page.keyboard.press("s")
    assert is_accessible(page)
    # From doubtful word to doubtful word, as a screen reader says it; the skipped one comes after
    # the fourth
    page.keyboard.press("n")
    assert page.get_by_test_id("spoken").inner_text() == "three: confidence 0.20, passage 1 of 2"
    assert page.get_by_role("mark").all_inner_texts() == ["three"]
    page.keyboard.press("n")
    assert (
        page.get_by_test_id("spoken").inner_text() == "five: not in the recording, passage 2 of 2"
    )


def test_a_telephone_has_all_in_reach(open_page: Callable[..., Any], talk: Path) -> None:
    page = open_page(talk, **SCREENS["telephone"])
    for name in ("doubt-previous", "play", "doubt-next", "undo", "redo", "save", "more"):
        box = page.get_by_test_id(name).bounding_box()
        assert box["y"] > 844 - 80, name
    # A short text leaves its room to the sound
    assert page.get_by_test_id("stage").bounding_box()["height"] > 400
    assert page.get_by_test_id("transcript").bounding_box()["height"] > 90
    assert page.evaluate(SMALL) == []
    page.get_by_test_id("more").tap()
    assert page.get_by_test_id("right").is_visible()
    assert page.evaluate(SMALL) == []
    page.keyboard.press("Escape")
    assert not page.get_by_test_id("right").is_visible()
    page.get_by_test_id("save").tap()
    assert page.evaluate(SMALL) == []


@pytest.mark.parametrize("screen", SCREENS)
def test_the_app_and_its_description_are_accessible(
    browser: Any, tmp_path: Path, screen: str
) -> None:
    words = [replace(aligned("One", 0.0, 0.4), confidence=0.2), aligned("two", 0.5, 0.9)]
    make_alignment(placed(words), text="One two", audio="", fit="good").save(tmp_path / "talk.json")
    with local_server(tmp_path) as server:
        for name, content in (("talk.wav", b"no sound"), ("mine.wav", wav())):
            server.post("/jobs", [("audio", name, content), ("text", None, b"one")])
        context = browser.new_context(bypass_csp=True, **SCREENS[screen])
        page = context.new_page()
        for path, part in (("/", "row"), ("/#words", "doubt"), ("/docs", "")):
            page.goto(f"http://127.0.0.1:{server.port}{path}")
            page.wait_for_load_state("networkidle")
            if part:
                page.get_by_test_id(part).first.wait_for()
            assert is_accessible(page)
            if part and screen == "telephone":
                assert page.evaluate("document.documentElement.scrollWidth") <= 390
                assert [
                    of for of in page.evaluate(SMALL) if not re.search("checkbox|file", of)
                ] == [], "their labels count"
        assert "`" not in page.inner_text("body")
        context.close()
