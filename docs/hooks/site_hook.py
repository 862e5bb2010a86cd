"""MkDocs' hook: pages that are made while the site is built, files of the repository beside `docs`,
and their links."""

from __future__ import annotations

import os
import posixpath
import re
import sys
from pathlib import Path
from typing import TYPE_CHECKING

sys.path.insert(0, str(Path(__file__).parent))
import reference_pages

if TYPE_CHECKING:
    from mkdocs.config.defaults import MkDocsConfig
    from mkdocs.structure.files import Files
    from mkdocs.structure.pages import Page

ROOT = Path(__file__).resolve().parent.parent.parent
ENGLISH = "ctc_align/models/english"
BROUGHT = {
    "CHANGELOG.md": "project/changes.md",
    "CONTRIBUTING.md": "project/contributing.md",
    "ARCHITECTURE.md": "project/architecture.md",
    "ROADMAP.md": "project/roadmap.md",
    "SECURITY.md": "project/security.md",
    "THIRD_PARTY.md": "project/third-party.md",
    "examples/README.md": "project/examples.md",
    f"{ENGLISH}/README.md": "models/english.md",
    "research/english-notebook.md": "models/english-notebook.md",
    f"{ENGLISH}/confidence.svg": "models/confidence.svg",
    "ctc_align/models/universal/README.md": "models/universal.md",
}
"""Files of the repository that are pages or pictures of the site, and their places there."""
_LINK = re.compile(r"(!?)\[((?:[^\[\]]|\[[^\]]*\])*)\]\(([^)\s#]*)(#[^)\s]*)?\)")
_CODE = re.compile(r"(^(?:```|~~~).*?^(?:```|~~~)$|`[^`\n]+`)", re.MULTILINE | re.DOTALL)


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the pages that are made from the code, and the files beside `docs`."""
    from mkdocs.structure.files import File

    for place, text in reference_pages.pages(ROOT).items():
        stub = files.get_file_from_path(place)
        if stub is not None:  # a page that says, in the repository, where to look
            files.remove(stub)
        files.append(File.generated(config, place, content=text))
    for path, place in BROUGHT.items():
        files.append(File.generated(config, place, abs_src_path=str(ROOT / path)))
    return files


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Return the page with links that lead where its neighbours in the repository are in the
    site."""
    places = {place: path for path, place in BROUGHT.items()}
    here = page.file.src_uri
    return with_site_links(markdown, places.get(here, f"docs/{here}"), here)


def with_site_links(markdown: str, path: str, place: str) -> str:
    """Return the Markdown of a file of the repository (`path`) with its links for its place in the
    site.

    Links to files that the site does not have become their text.
    """

    def moved(match: re.Match[str]) -> str:
        image, text, target, anchor = match[1], match[2], match[3], match[4] or ""
        if not target or ":" in target:
            return match[0]
        file = posixpath.normpath(posixpath.join(posixpath.dirname(path), target))
        there = BROUGHT.get(file) or (
            file.removeprefix("docs/") if file.startswith("docs/") else None
        )
        if there is None:
            return text if (ROOT / file).exists() else match[0]
        return f"{image}[{text}]({os.path.relpath(there, posixpath.dirname(place) or '.')}{anchor})"

    return "".join(
        part if i % 2 else _LINK.sub(moved, part) for i, part in enumerate(_CODE.split(markdown))
    )
