"""SMIL of a book: its elements by their ids, read by an XML parser and looked up in the archive."""

from __future__ import annotations

import xml.etree.ElementTree as ElementTree
import zipfile
from pathlib import Path
from urllib.parse import unquote

import pytest
from made_books import write_epub
from sample_alignments import aligned, make_alignment

from ctc_align.cli.align import with_source_format
from ctc_align.errors import OutputError, UsageError
from ctc_align.files import Alignment, rendered
from ctc_align.files.transcripts import read_transcript_file
from ctc_align.text import split
from ctc_align.types import AlignedWord, Transcript

SMIL, OPS = "{http://www.w3.org/ns/SMIL}", "{http://www.idpf.org/2007/ops}"
BODIES = {
    "oné.xhtml": '<p id="p1"><span id="s1">It is.</span> <span id="s2">Is it?</span></p><p>No id.</p>',
    "two.xhtml": '<section id="all"><p id="p2">Yes <b id="b">it</b> is.</p><p>So be it.</p></section>'
    '<p id="never">Never read.</p>',
}


def read_book(path: Path, ids: bool = True) -> Alignment:
    bodies = BODIES if ids else {"one.xhtml": "<p>It is.</p>"}
    transcript = read_transcript_file(write_epub(path, bodies))
    words = []
    for number, word in enumerate(split(transcript.text).words):
        if word.text in ("Never", "read."):
            words.append(AlignedWord(word.text, word.spoken, word.char_start, word.char_end, "skipped"))
        else:
            words.append(aligned(word.text, number / 2, number / 2 + 0.4, word.char_start))
    changes = {"audio": "/recordings/my talk&.mp3", "offset_s": 3600.0, "places": transcript.places}
    return make_alignment(tuple(words), 60.0, text=transcript.text, **changes)


def clips(data: bytes) -> list[tuple[str, str, float, float]]:
    """Return (page, id, begin, end) of each `par`."""
    root = ElementTree.fromstring(data)
    assert (root.tag, root.get("version")) == (f"{SMIL}smil", "3.0")
    found = []
    for page in root.find(f"{SMIL}body"):
        assert page.tag == f"{SMIL}seq"
        for par in page:
            text, audio = par
            assert (text.tag, audio.tag, unquote(audio.get("src"))) == (f"{SMIL}text", f"{SMIL}audio", "my talk&.mp3")
            source, _, id = text.get("src").partition("#")
            assert source == page.get(f"{OPS}textref")
            begin, end = (
                sum(float(part) * 60**place for place, part in enumerate(reversed(audio.get(name).split(":"))))
                for name in ("clipBegin", "clipEnd")
            )
            found.append((unquote(source), unquote(id), begin, end))
    ids = [each.get("id") for each in root.iter() if each.get("id")]
    assert len({*ids}) == len(ids)
    return found


def test_each_element_that_is_read_has_its_clip(tmp_path, caplog):
    alignment = read_book(tmp_path / "book.epub")
    found = clips(rendered(alignment, "smil"))
    assert "5 of the words with times are not in the SMIL document: 5 in elements without an id; ctc-al" in caplog.text
    assert [(page, id) for page, id, *_ in found] == [
        ("OEBPS/oné.xhtml", "s1"),
        ("OEBPS/oné.xhtml", "s2"),
        ("OEBPS/two.xhtml", "p2"),
    ]
    spans = [(start + 3600, end + 3600) for start, end in ((0.0, 0.9), (1.0, 1.9), (3.0, 4.4))]
    assert [(begin, end) for *_, begin, end in found] == [pytest.approx(span, abs=0.00051) for span in spans]
    with zipfile.ZipFile(tmp_path / "book.epub") as archive:
        for page, id, *_ in found:
            assert [each.get("id") for each in ElementTree.fromstring(archive.read(page)).iter()].count(id) == 1


def test_what_is_no_book_or_has_no_ids_is_refused(tmp_path, talk):
    with pytest.raises(OutputError, match=r"SMIL needs an EPUB book.*the transcript is not a book.*leave smil out"):
        rendered(talk, "smil")
    with pytest.raises(OutputError, match="no element that is read has an id"):
        rendered(read_book(tmp_path / "plain.epub", ids=False), "smil")
    plain = Transcript("a", places=read_book(tmp_path / "plain.epub", ids=False).places)
    with pytest.raises(UsageError, match="no element of this one has an id"):
        with_source_format(("smil",), plain, False)
