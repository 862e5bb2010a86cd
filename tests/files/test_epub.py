"""EPUB books as transcripts: the text of the spine, the places of its paragraphs, and what is
refused."""

from __future__ import annotations

import json
import logging
import xml.etree.ElementTree as ElementTree
import zipfile
from functools import partial
from pathlib import Path
from urllib.parse import unquote

import pytest
from made_books import PAGE, made_epub, write_epub
from rows import over_rows
from sample_alignments import aligned, make_alignment

from ctc_align.cli.align import with_source_format
from ctc_align.errors import OutputError, TranscriptError, UsageError
from ctc_align.files import epub, read_alignment, rendered
from ctc_align.files.transcripts import parse_transcript, read_transcript_file
from ctc_align.text import split
from ctc_align.types import AlignedWord, Alignment, BookPlace, Transcript

TEXTS = [
    ("<p>Call me <i>Ish</i>mael.</p>", "Call me Ishmael."),
    (
        "<h1>One</h1>\n <p> Some\n  years   ago&#160;— </p><p></p><p>never</p>",
        "One\n\nSome years ago —\n\nnever",
    ),
    ("<p>one<br/>two<br/> three</p>", "one\ntwo\nthree"),
    ("<div>before<p>in</p>after</div>", "before\n\nin\n\nafter"),
    ("<p>a&nbsp;b &eacute; &lt;i&gt; &amp; &#8212;</p>", "a b é <i> & —"),
    ("<p>x<script>var a;</script><style>p {}</style><svg><text>no</text></svg>y</p>", "xy"),
    (
        (
            '<p>note<a epub:type="noteref" href="#n">1</a>, page<span'
            ' epub:type="pagebreak">7</span>.</p>'
        ),
        "note, page.",
    ),
    ("<p><ruby>東<rt>とう</rt>京<rt>きょう</rt></ruby></p>", "東京"),
    ("<p hidden='hidden'>no</p><ul><li>one</li><li>two</li></ul>", "one\n\ntwo"),
    ("<p>![CDATA: <![CDATA[a < b]]></p>", "![CDATA: a < b"),
]


@over_rows(("body", "text"), TEXTS)
def test_the_text_of_a_page(body: str, text: str) -> None:
    assert read(made_epub({"a.xhtml": body})).text == text


def test_elements_mark_languages_and_inner_ones_override_outer_ones() -> None:
    bodies = {
        "a.xhtml": "<div xml:lang='en'><p>So <i lang='de'>die <b>gute</b> Mutter</i> is.</p></div>",
        "b.xhtml": "<p>It <i lang=''>is</i> <span lang='fr'>la</span></p><p lang='fr'>mère</p>",
    }
    book = read(made_epub(bodies))
    spans = [(book.text[span.char_start : span.char_end], span.language) for span in book.languages]
    expected = [
        ("So", "en"),
        ("die gute Mutter", "de"),
        ("is.", "en"),
        ("la", "fr"),
        ("mère", "fr"),
    ]
    assert spans == expected
    whole = read(made_epub({"a.xhtml": "<p lang='de'>So</p><p lang='de-AT'>sei es.</p>"}))
    assert whole.languages == ()


def read(data: bytes) -> Transcript:
    return parse_transcript(data, "book.epub")


def test_pages_come_in_the_order_of_the_spine_without_contents_and_what_is_out_of_it() -> None:
    bodies = {"b.xhtml": "<p>second</p>", "a.xhtml": "<p>first</p>", "notes.xhtml": "<p>notes</p>"}
    assert read(made_epub(bodies)).text == "second\n\nfirst\n\nnotes"
    assert read(made_epub(bodies, linear="no")).text == "second\n\nfirst"


def test_paragraphs_and_elements_with_an_id_have_places_which_json_keeps(tmp_path) -> None:
    body = (
        '<section id="c1"><h2>One</h2><p id="p1">Call <span id="w">me</span> so.</p><a'
        ' id="empty"/></section>'
    )
    book = read(made_epub({"cover.xhtml": "<p>Cover</p>", "a b.xhtml": body}))
    href = "OEBPS/a b.xhtml"
    assert [(book.text[place.char_start : place.char_end], place) for place in book.places] == [
        ("Cover", BookPlace(0, 5, "OEBPS/cover.xhtml", "", "epubcfi(/6/4!/4/2)")),
        ("One", BookPlace(7, 10, href, "", "epubcfi(/6/6!/4/2/2)")),
        ("Call me so.", BookPlace(12, 23, href, "p1", "epubcfi(/6/6!/4/2/4)")),
        ("me", BookPlace(17, 19, href, "w", "epubcfi(/6/6!/4/2/4/2)")),
    ]
    book = read(made_epub({"a.xhtml": '<p id="p1">Call me.</p><p>So.</p>'}))
    fields = ("u", "", 1.0, "m", "cpu", 0.01, 1.0, -1.0, book.text, ())
    Alignment(*fields, places=book.places).save(tmp_path / "u.json")
    assert json.loads((tmp_path / "u.json").read_text("utf-8"))["places"][0]["id"] == "p1"
    assert read_alignment(tmp_path / "u.json").places == book.places


def test_a_page_that_is_not_well_formed_is_read_as_html_and_said(caplog) -> None:
    with caplog.at_level(logging.WARNING, "ctc_align"):
        text = read(made_epub({"a.xhtml": "<p>one<p>two <b>three<br>four</p><p>five"})).text
    assert text == "one\n\ntwo three\nfour\n\nfive"
    assert (
        "OEBPS/a.xhtml: not well-formed (line 3: mismatched tag); it is read as HTML" in caplog.text
    )


BOMB = (
    '<?xml version="1.0"?><!DOCTYPE html [<!ENTITY a "ha"><!ENTITY b'
    ' "&a;&a;">]><html><body>&b;</body></html>'
)
DEEP = PAGE.format("<b>" * 2000 + "x" + "</b>" * 2000)
LOCKED = """<encryption><EncryptedData><EncryptionMethod Algorithm="{}"/><CipherData><CipherReference URI="{}"/>
</CipherData></EncryptedData></encryption>"""
AES = "http://www.w3.org/2001/04/xmlenc#aes128-cbc"
ONE = {"a.xhtml": "<p>one</p>"}
REFUSED = [
    ({"OEBPS/a.xhtml": BOMB}, "OEBPS/a.xhtml: cannot be read: it declares entities of its own"),
    ({"OEBPS/a.xhtml": DEEP}, "OEBPS/a.xhtml: cannot be read: more than 1000 nested elements"),
    (
        {epub.ENCRYPTION: LOCKED.format(AES, "OEBPS/a.xhtml")},
        "got one that is encrypted (DRM); give its text",
    ),
    ({epub.CONTAINER: "<container/>"}, "META-INF/container.xml names no package document"),
    ({epub.CONTAINER: '<r><rootfile full-path="x"/></r>'}, "expected x in the book"),
    ({"OEBPS/book.opf": "<package"}, "OEBPS/book.opf: expected XML"),
    ({"OEBPS/book.opf": "<package/>"}, "OEBPS/book.opf has no page in its spine"),
]


@over_rows(("others", "says"), REFUSED)
def test_what_is_no_book_that_can_be_read_is_refused(others: dict[str, str], says: str) -> None:
    with pytest.raises(TranscriptError, match=r"book\.epub: ") as refused:
        read(made_epub(ONE, others))
    assert says in str(refused.value)


def test_fonts_may_be_encrypted_and_a_book_may_have_any_name(tmp_path) -> None:
    others = {
        epub.ENCRYPTION: LOCKED.format("http://www.idpf.org/2008/embedding", "OEBPS/font.otf")
    }
    assert read(made_epub(ONE, others)).text == "one"
    (tmp_path / "book.txt").write_bytes(made_epub(ONE))
    assert read_transcript_file(tmp_path / "book.txt").text == "one"


def test_archives_that_are_damaged_or_unpack_to_too_much_are_refused(monkeypatch) -> None:
    data = made_epub({"a.xhtml": "<p>" + " ".join(map(str, range(3000))) + "</p>"})
    at = data.index(b"OEBPS/a.xhtml") + 2000
    with pytest.raises(
        TranscriptError, match=r"book\.epub: expected a whole EPUB book, got a damaged archive"
    ):
        read(data[:at] + bytes(64) + data[at + 64 :])
    with pytest.raises(TranscriptError, match="ZIP archive"):
        read(data[: len(data) // 2])
    data = made_epub({"a.xhtml": "<p>" + "a " * 200_000 + "</p>"})
    assert len(data) < 5000
    monkeypatch.setattr(epub, "MOST_PAGE_BYTES", 2**18)
    with pytest.raises(
        TranscriptError,
        match=r"OEBPS/a\.xhtml: expected a page of text, got more than 0 MiB when unpacked",
    ):
        read(data)


# SMIL of a book: its elements by their ids, read by an XML parser and looked up in the archive.

SMIL, OPS = "{http://www.w3.org/ns/SMIL}", "{http://www.idpf.org/2007/ops}"
BODIES = {
    "oné.xhtml": (
        '<p id="p1"><span id="s1">It is.</span> <span id="s2">Is it?</span></p><p>No id.</p>'
    ),
    "two.xhtml": (
        '<section id="all"><p id="p2">Yes <b id="b">it</b> is.</p><p>So be it.</p></section>'
        '<p id="never">Never read.</p>'
    ),
}


def read_book(path: Path, ids: bool = True) -> Alignment:
    bodies = BODIES if ids else {"one.xhtml": "<p>It is.</p>"}
    transcript = read_transcript_file(write_epub(path, bodies))
    words = []
    for number, word in enumerate(split(transcript.text).words):
        if word.text in ("Never", "read."):
            words.append(
                AlignedWord(word.text, word.spoken, word.char_start, word.char_end, "skipped")
            )
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
            assert (text.tag, audio.tag, unquote(audio.get("src"))) == (
                f"{SMIL}text",
                f"{SMIL}audio",
                "my talk&.mp3",
            )
            source, _, id = text.get("src").partition("#")
            assert source == page.get(f"{OPS}textref")
            begin, end = (
                sum(
                    float(part) * 60**place
                    for place, part in enumerate(reversed(audio.get(name).split(":")))
                )
                for name in ("clipBegin", "clipEnd")
            )
            found.append((unquote(source), unquote(id), begin, end))
    ids = [each.get("id") for each in root.iter() if each.get("id")]
    assert len({*ids}) == len(ids)
    return found


def test_each_element_that_is_read_has_its_clip(tmp_path, caplog):
    alignment = read_book(tmp_path / "book.epub")
    found = clips(rendered(alignment, "smil"))
    assert (
        "5 of the words with times are not in the SMIL document: 5 in elements without an id;"
        " ctc-al" in caplog.text
    )
    expected = [("OEBPS/oné.xhtml", "s1"), ("OEBPS/oné.xhtml", "s2"), ("OEBPS/two.xhtml", "p2")]
    assert [(page, id) for page, id, *_ in found] == expected
    spans = [(start + 3600, end + 3600) for start, end in ((0.0, 0.9), (1.0, 1.9), (3.0, 4.4))]
    assert [(begin, end) for *_, begin, end in found] == [
        pytest.approx(span, abs=0.00051) for span in spans
    ]
    with zipfile.ZipFile(tmp_path / "book.epub") as archive:
        for page, id, *_ in found:
            assert [
                each.get("id") for each in ElementTree.fromstring(archive.read(page)).iter()
            ].count(id) == 1


def test_what_is_no_book_or_has_no_ids_is_refused(tmp_path, talk):
    with pytest.raises(
        OutputError, match=r"SMIL needs an EPUB book.*the transcript is not a book.*omit smil"
    ):
        rendered(talk, "smil")
    with pytest.raises(OutputError, match="no element that is read has an id"):
        rendered(read_book(tmp_path / "plain.epub", ids=False), "smil")
    plain = Transcript("a", places=read_book(tmp_path / "plain.epub", ids=False).places)
    with pytest.raises(UsageError, match="no element of this one has an id"):
        with_source_format(("smil",), plain, False)


@pytest.mark.parametrize(
    ("limit", "most", "said"),
    [
        ("MOST_ELEMENTS", 9, "more than 9 elements"),
        ("MOST_HELD", 900, "places of"),
        ("MOST_CHARS", 40, "40 characters"),
    ],
)
def test_a_book_is_refused_before_it_fills_the_memory(
    limit: str, most: int, said: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = epub.BookText()
    page = b"<html><body>" + b"<p>so be it</p>" * 20 + b"</body></html>"
    text.add("a.xhtml", "/6/2", partial(epub.parse_xml, page))
    monkeypatch.setattr(epub, limit, most)
    with pytest.raises(ValueError, match=said):
        epub.BookText().add("a.xhtml", "/6/2", partial(epub.parse_xml, page))
