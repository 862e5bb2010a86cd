"""EPUB books made for tests."""

from __future__ import annotations

import io
import re
import zipfile
from collections.abc import Mapping
from pathlib import Path

CONTAINER = """<?xml version="1.0"?>
<container version="1.0" xmlns="urn:oasis:names:tc:opendocument:xmlns:container">
<rootfiles><rootfile full-path="OEBPS/book.opf" media-type="application/oebps-package+xml"/></rootfiles></container>"""
PACKAGE = """<?xml version="1.0" encoding="utf-8"?>
<package xmlns="http://www.idpf.org/2007/opf" version="3.0"><metadata/>
<manifest><item id="nav" href="nav.xhtml" media-type="application/xhtml+xml" properties="nav"/>
<item id="face" href="font.otf" media-type="font/otf"/>{items}</manifest>
<spine><itemref idref="nav"/>{references}</spine></package>"""
PAGE = (
    '<?xml version="1.0" encoding="utf-8"?>\n<!DOCTYPE html>\n<html'
    ' xmlns="http://www.w3.org/1999/xhtml" xmlns:epub="http://www.idpf.org/2007/ops"><head><title>A'
    " title</title></head><body>{}</body></html>"
)


def made_epub(
    bodies: Mapping[str, str], others: Mapping[str, str | bytes] | None = None, linear: str = "yes"
) -> bytes:
    """Return a book with one page, in `OEBPS/`, for each name and content of `<body>`, in this
    order.

    `others` replaces or adds files of the archive by their full names; `linear` is that of the last
    page.
    """
    items = "".join(
        f'<item id="{name}" href="{name}" media-type="application/xhtml+xml"/>' for name in bodies
    )
    last = list(bodies)[-1:]
    references = "".join(
        f'<itemref idref="{name}"{f""" linear="{linear}" """ if [name] == last else ""}/>'
        for name in bodies
    )
    files: dict[str, str | bytes] = {
        "mimetype": "application/epub+zip",
        "META-INF/container.xml": CONTAINER,
        "OEBPS/book.opf": PACKAGE.format(items=items, references=references),
        "OEBPS/nav.xhtml": PAGE.format("<nav><ol><li>Contents</li></ol></nav>"),
        **{f"OEBPS/{name}": PAGE.format(body) for name, body in bodies.items()},
        **(others or {}),
    }
    return made_zip(files)


def made_epub_2(bodies: Mapping[str, str]) -> bytes:
    """Return a book as EPUB 2 has it: contents in toc.ncx, which no page of the spine is, and a
    guide."""
    ncx = '<item id="ncx" href="toc.ncx" media-type="application/x-dtbncx+xml"/>'
    old = PACKAGE.replace('version="3.0"', 'version="2.0"').replace(
        '<item id="nav" href="nav.xhtml" ', "<item-gone "
    )
    old = re.sub(r"<item-gone [^>]*>", ncx, old).replace(
        '<spine><itemref idref="nav"/>', '<spine toc="ncx">'
    )
    items = "".join(
        f'<item id="{name}" href="{name}" media-type="application/xhtml+xml"/>' for name in bodies
    )
    references = "".join(f'<itemref idref="{name}"/>' for name in bodies)
    toc = (
        '<ncx xmlns="http://www.daisy.org/z3986/2005/ncx/"><navMap><navPoint><navLabel><text>Not'
        " read</text></navLabel></navPoint></navMap></ncx>"
    )
    doctype = (
        '<!DOCTYPE html PUBLIC "-//W3C//DTD XHTML 1.1//EN"'
        ' "http://www.w3.org/TR/xhtml11/DTD/xhtml11.dtd">'
    )
    pages = {
        f"OEBPS/{name}": PAGE.replace("<!DOCTYPE html>", doctype).format(body)
        for name, body in bodies.items()
    }
    others = {
        "OEBPS/book.opf": old.format(items=items, references=references),
        "OEBPS/toc.ncx": toc,
        **pages,
    }
    return made_zip(
        {"mimetype": "application/epub+zip", "META-INF/container.xml": CONTAINER, **others}
    )


def made_zip(files: Mapping[str, str | bytes]) -> bytes:
    """Return a ZIP archive of files by their names."""
    data = io.BytesIO()
    with zipfile.ZipFile(data, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in files.items():
            archive.writestr(name, content)
    return data.getvalue()


def write_epub(path: Path, bodies: Mapping[str, str]) -> Path:
    """Write such a book, and return its path."""
    path.write_bytes(made_epub(bodies))
    return path
