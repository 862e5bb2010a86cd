"""Pages in a real browser: Chromium by Playwright, skipped, visibly, where one of the two is not
there.

Whatever a page asks for beyond files, `data:` and `blob:` is refused, and fails the test; so do
errors in its script.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

CHROMIUM = ("chromium", "chromium-browser", "google-chrome")
_INSIDE = ("file:", "data:", "blob:", "about:")


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    """Start a browser without a window, one for each file: Playwright's event loop ends before
    others begin."""
    playwright = pytest.importorskip(
        "playwright.sync_api", reason="no Playwright, the extra [browser-test]"
    )
    program = next(filter(None, map(shutil.which, CHROMIUM)), None)
    if program is None:
        pytest.skip(f"no Chromium here: none of {', '.join(CHROMIUM)} is on the path")
    # Chromium's sandbox does not start for root
    as_root = ["--no-sandbox"] if hasattr(os, "geteuid") and os.geteuid() == 0 else []
    arguments = [*as_root, "--autoplay-policy=no-user-gesture-required", "--mute-audio"]
    with playwright.sync_playwright() as running:
        chromium = running.chromium.launch(executable_path=program, args=arguments)
        yield chromium
        chromium.close()


@pytest.fixture
def open_page(browser: Any) -> Iterator[Callable[..., Any]]:
    """Open a file as a page that can be used: `open_page(path, viewport=…)`; options are those of a
    context."""
    contexts, left, faults = [], [], []

    def decide(route: Any) -> None:
        if route.request.url.startswith(_INSIDE):
            route.continue_()
        else:
            left.append(route.request.url)
            route.abort()

    def open_file(path: Path, **options: Any) -> Any:
        context = browser.new_context(**options)
        contexts.append(context)
        context.route("**/*", decide)
        page = context.new_page()
        page.on(
            "request",
            lambda request: None if request.url.startswith(_INSIDE) else left.append(request.url),
        )
        page.on("pageerror", lambda error: faults.append(str(error)))
        page.on(
            "dialog",
            lambda dialog: (faults.append(f"a dialog: {dialog.message}"), dialog.dismiss()),
        )
        page.on("console", lambda line: faults.append(line.text) if line.type == "error" else None)
        page.goto(path.resolve().as_uri())
        page.wait_for_selector("body[data-ready=true]")
        return page

    yield open_file
    for context in contexts:
        context.close()
    assert (left, faults) == ([], [])
