"""The page of an hour of speech: its size, how long it takes to make and to open, and how long
frames are in scrolling.

python research/page.py [--seconds 3600]
"""

from __future__ import annotations

import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np

from measuring import parser_of  # isort: skip
from long_pages import hour_page

from page_pictures import chromium


def main() -> None:
    parser = parser_of(__doc__)
    parser.add_argument("--seconds", type=float, default=3600.0)
    options = parser.parse_args()
    from playwright.sync_api import sync_playwright

    began_s = time.perf_counter()
    html, words = hour_page(options.seconds)
    print(f"made in {time.perf_counter() - began_s:.1f} s: {len(html) / 1e6:.1f} MB, {words} words")
    with tempfile.TemporaryDirectory() as folder, sync_playwright() as playwright:
        path = Path(folder, "hour.html")
        path.write_text(html, "utf-8")
        browser = chromium(playwright)
        for run in range(3):
            measure(browser, path, run)
        browser.close()


def measure(browser: Any, path: Path, run: int) -> None:
    """Open the page, then scroll it as a wheel does: in the overview's zoom, and a minute wide."""
    page = browser.new_page(viewport={"width": 1280, "height": 900})
    began_s = time.perf_counter()
    page.goto(path.as_uri())
    page.wait_for_selector("body[data-ready=true]")
    opened_s = time.perf_counter() - began_s
    page.locator("[data-testid=stage]").hover()
    figures = []
    for zoom in (None, "zoom-all"):
        if zoom is not None:
            page.click(f"[data-testid={zoom}]")
            page.locator("[data-testid=stage]").hover()
        before = len(page.evaluate("ctcAlignPage.frameTimes"))
        for _ in range(60):
            page.mouse.wheel(200, 0)
        frames = np.array(page.evaluate("ctcAlignPage.frameTimes")[before:] or [0.0])
        figures.append(
            f"median {np.median(frames):.0f} ms, 95 % under {np.percentile(frames, 95):.0f} ms"
        )
    print(
        f"run {run + 1}: opened in {opened_s:.2f} s; frames zoomed in: {figures[0]}; the whole"
        f" hour: {figures[1]}"
    )
    page.close()


if __name__ == "__main__":
    main()
