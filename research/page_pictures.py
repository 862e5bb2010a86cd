"""The pictures of the page in the documents, taken anew: docs/pictures/page.png and page-dark.png,
64 colours each.

python research/page_pictures.py
"""

from __future__ import annotations

import io
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
PICTURES = ROOT / "docs" / "pictures"
PAGES = {"page": ("light", 1280, 760), "page-dark": ("dark", 1280, 760)}


def main() -> None:
    from PIL import Image
    from playwright.sync_api import sync_playwright

    PICTURES.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory() as folder, sync_playwright() as playwright:
        call = [sys.executable, "-m", "ctc_align", "demo", "--out-dir", folder, "--format", "html"]
        subprocess.run(call, check=True, cwd=ROOT, stdout=subprocess.DEVNULL)
        browser = chromium(playwright)
        for name, (colours, width, height) in PAGES.items():
            page = browser.new_page(
                viewport={"width": width, "height": height}, color_scheme=colours
            )
            page.goto(Path(folder, "demo.html").as_uri())
            page.wait_for_selector("body[data-samples=true]")
            for _ in range(8):
                page.keyboard.press("ArrowRight")
            page.keyboard.press("ArrowDown")
            for _ in range(2):
                page.keyboard.press("+")
            page.wait_for_timeout(1500)
            image = Image.open(io.BytesIO(page.screenshot()))
            image.quantize(64, dither=Image.Dither.NONE).save(
                PICTURES / f"{name}.png", optimize=True
            )
        browser.close()


def chromium(playwright: Any) -> Any:
    """Return a Chromium that is on the path, started."""
    program = next(
        filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome")))
    )
    return playwright.chromium.launch(
        executable_path=program, args=["--no-sandbox"] if os.geteuid() == 0 else []
    )


if __name__ == "__main__":
    main()
