"""The archive of a book that is read aloud: its recordings, its package document, and the new EPUB file.

The recordings are files of EPUB 3's core media types (MP3, AAC in MP4, Opus in Ogg), taken as they are; all others are
coded as Opus.
"""

from __future__ import annotations

import io
import posixpath
import shutil
import time
import zipfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple
from xml.sax.saxutils import quoteattr

from ctc_align.audio.media_file import MediaFile, NotMediaError
from ctc_align.formats.media_overlays import SmilClip, SmilPage, quoted, smil_clock, write_smil
from ctc_align.text.book_pages import parse_xml
from ctc_align.text.epub import MIMETYPE, EpubArchive, SpinePage
from ctc_align.text.xml_source import SourceNode, XmlSource, edited
from ctc_align.view.page_sound import opus_of

ACTIVE_CLASS = "ctc-align-spoken"
_STYLE = f".{ACTIVE_CLASS} {{\n  background-color: #ffe28a;\n  color: #000000;\n}}\n"
_OPUS = (".opus", "audio/ogg; codecs=opus")
_MOST_COPIED_BYTES = 8 * 2**30
"""Pictures, fonts and all else in a book that unpack to more are refused."""
_FIRST_DATE = (1980, 1, 1, 0, 0, 0)


class SpokenClip(NamedTuple):
    """An element of a page, and the stretch of a recording (by its place in a list) in which it is read."""

    id: str
    recording: int
    start_ms: int
    end_ms: int


@dataclass(frozen=True)
class SpokenPage:
    """A page with its new bytes, and its elements that are read, in the order of reading."""

    page: SpinePage
    data: bytes
    clips: Sequence[SpokenClip]


class BookFolder:
    """The names of the new files: in one folder, beside the package document, that the book does not have."""

    def __init__(self, package: str, names: set[str]) -> None:
        self.root = posixpath.dirname(package)
        name = "read-aloud"
        while any(each.startswith(posixpath.join(self.root, name)) for each in names):
            name += "-x"
        self.path = posixpath.join(self.root, name)

    @property
    def style(self) -> str:
        return self.named("spoken.css")

    def named(self, name: str) -> str:
        """Return the name in the archive of a file of the folder."""
        return posixpath.join(self.path, name)

    def overlay(self, number: int) -> str:
        """Return the name of the overlay of a page, by its place among those that are read, from 0."""
        return self.named(f"page{number + 1}.smil")


def href_from(name: str, folder: str) -> str:
    """Return the URL of a file of the archive in a file that is in `folder`."""
    return quoted(posixpath.relpath(name, folder or "."))


def sound_kind(recording: Path) -> tuple[str, str] | None:
    """Return the extension and the media type of a recording that goes into a book as it is; None for all others."""
    try:
        with MediaFile(str(recording), str(recording)) as media:
            codec, streams = media.stream.codec_context, media.container.streams
            is_film = any("ATTACHED_PIC" not in str(stream.disposition.name) for stream in streams.video)
            if is_film or len(streams.audio) > 1:
                return None
            if media.format == "mp3":
                return ".mp3", "audio/mpeg"
            if media.format.startswith("mov") and codec.name == "aac" and codec.profile == "LC":
                return ".m4a", "audio/mp4"
            return _OPUS if media.format == "ogg" and codec.name in ("opus", "libopus") else None
    except NotMediaError:
        return None


def write_book(book: EpubArchive, pages: Sequence[SpokenPage], recordings: Sequence[Path], part: Path) -> None:
    """Write the book with its pages, their overlays and the recordings, at a path where nothing is.

    Raises:
        AudioError: a recording cannot be read.
        TranscriptError: the book has media overlays, or is too large unpacked.
    """
    package = book.spine()[0]
    folder = BookFolder(package, book.names)
    kinds = [sound_kind(recording) or _OPUS for recording in recordings]
    sounds = [folder.named(f"audio{number}{extension}") for number, (extension, _) in enumerate(kinds, 1)]
    items = [(folder.style, "text/css"), *zip(sounds, (kind for _, kind in kinds))]
    changed: dict[str, bytes | str] = {page.page.href: page.data for page in pages}
    changed[package] = _package(book, package, pages, folder, items)
    new = {folder.style: _STYLE} | {
        folder.overlay(number): _overlay(page, sounds, folder) for number, page in enumerate(pages)
    }
    with zipfile.ZipFile(part, "x", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr(zipfile.ZipInfo("mimetype", _FIRST_DATE), MIMETYPE)
        _copy(book, archive, changed)
        for name, content in new.items():
            archive.writestr(_info(name), content)
        for name, recording in zip(sounds, recordings):
            with archive.open(_info(name, zipfile.ZIP_STORED), "w", force_zip64=True) as file:
                if sound_kind(recording) is None:
                    file.write(opus_of(recording))
                else:
                    with open(recording, "rb") as source:
                        shutil.copyfileobj(source, file)


def _info(name: str, method: int = zipfile.ZIP_DEFLATED) -> zipfile.ZipInfo:
    info = zipfile.ZipInfo(name, _FIRST_DATE)
    info.compress_type = method
    return info


def _copy(book: EpubArchive, archive: zipfile.ZipFile, changed: Mapping[str, bytes | str]) -> None:
    """Copy all files of a book, those of `changed` with their new content."""
    left = _MOST_COPIED_BYTES
    for info in {info.filename: info for info in book.archive.infolist()}.values():
        if info.filename == "mimetype":
            continue
        if info.filename in changed:
            archive.writestr(_info(info.filename), changed[info.filename])
            continue
        left -= info.file_size
        if left < 0:
            raise book.fault(f"expected a book, got one that unpacks to more than {_MOST_COPIED_BYTES >> 30} GiB")
        with book.archive.open(info) as source, archive.open(_info(info.filename, info.compress_type), "w") as file:
            shutil.copyfileobj(source, file)


def _overlay(page: SpokenPage, sounds: Sequence[str], folder: BookFolder) -> str:
    """Return the media overlay of a page."""
    href = href_from(page.page.href, folder.path)
    urls = [href_from(name, folder.path) for name in sounds]
    clips = [SmilClip(f"{href}#{clip.id}", urls[clip.recording], clip.start_ms, clip.end_ms) for clip in page.clips]
    file = io.StringIO()
    write_smil([SmilPage(href, clips)], file)
    return file.getvalue()


def refuse_old(book: EpubArchive) -> None:
    """Raise TranscriptError for a book that is no EPUB 3, with what makes one of it and leaves its text as it is."""
    version = book.version()
    if not version.startswith("3"):
        raise book.fault(
            f"expected an EPUB 3 book, got version {version or 'unknown'}, which cannot hold a recording; make it one: "
            "ebook-polish --upgrade-book BOOK.epub NEW.epub (Calibre), and give the new book: where its text is the "
            "same, which is checked, the alignments are good for it"
        )


def _package(
    book: EpubArchive,
    name: str,
    pages: Sequence[SpokenPage],
    folder: BookFolder,
    items: Sequence[tuple[str, str]],
) -> bytes:
    """Return the package document with the overlays, their lengths, and the new files (name, media type)."""
    data = book.read(name)
    source = XmlSource(data)
    try:
        parse_xml(data, source)
    except ValueError as error:
        raise book.fault(f"{name}: cannot be changed: {error}") from None
    manifest, metadata = _only(book, name, source, "manifest"), _only(book, name, source, "metadata")
    entries = {node.attributes.get("id"): node for node in source.nodes if node.name == "item"}
    has_media = any(node.attributes.get("property", "").startswith("media:") for node in source.nodes)
    if has_media or any("media-overlay" in node.attributes for node in entries.values()):
        raise book.fault("it has media overlays already; give the book without them")
    prefix = "read-aloud"
    while any(str(node.attributes.get("id", "")).startswith(prefix) for node in source.nodes):
        prefix += "-x"
    edits, metas, new = _modified_now(source), [], []
    for number, page in enumerate(pages):
        id = f"{prefix}-page{number + 1}"
        edits.append(source.in_start_tag(entries[page.page.id], f'media-overlay="{id}"'))
        metas.append(f'property="media:duration" refines="#{id}">{smil_clock(_length_ms([page]))}')
        new.append((id, folder.overlay(number), "application/smil+xml"))
    metas.append(f'property="media:duration">{smil_clock(_length_ms(pages))}')
    metas.append(f'property="media:active-class">{ACTIVE_CLASS}')
    new += [(f"{prefix}-{number}", file, kind) for number, (file, kind) in enumerate(items, 1)]
    tag = manifest.prefix + "item"
    lines = [
        f'<{tag} id="{id}" href={quoteattr(href_from(file, folder.root))} media-type="{kind}"/>\n'
        for id, file, kind in new
    ]
    edits.append(source.at_end_of(manifest, "".join(lines)))
    tag = metadata.prefix + "meta"
    edits.append(source.at_end_of(metadata, "".join(f"<{tag} {meta}</{tag}>\n" for meta in metas)))
    return edited(data, edits)


def _modified_now(source: XmlSource) -> list[tuple[int, int, str]]:
    """Return the edits by which the package says that it was changed now, where it says when it was."""
    now, edits = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()), []
    for node in source.nodes:
        end = source.data.rindex(b"<", 0, node.end)
        if node.attributes.get("property") == "dcterms:modified" and source.data.startswith(b"</", end):
            edits.append((source.data.rindex(b">", node.start, end) + 1, end, now))
    return edits


def _length_ms(pages: Sequence[SpokenPage]) -> int:
    return sum(clip.end_ms - clip.start_ms for page in pages for clip in page.clips)


def _only(book: EpubArchive, file: str, source: XmlSource, name: str) -> SourceNode:
    found = [node for node in source.nodes if node.name == name]
    if len(found) != 1:
        raise book.fault(f"{file}: expected one element {name}, got {len(found)}; it is no whole EPUB book")
    return found[0]
