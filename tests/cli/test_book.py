"""ctc-align book: the new EPUB, read by the rules of EPUB 3 with ZIP and XML readers of others."""

from __future__ import annotations

import os
import posixpath
import re
import xml.etree.ElementTree as ElementTree
import zipfile
from datetime import datetime, timedelta, timezone
from pathlib import Path
from urllib.parse import unquote

import numpy as np
import pytest
import soundfile
from made_books import PACKAGE, PAGE, made_epub, made_zip
from made_media import Coding, write_media
from sample_alignments import aligned, make_alignment

from ctc_align.files.transcripts import read_transcript_file
from ctc_align.text import split

OPF, SMIL, XHTML = (
    "{http://www.idpf.org/2007/opf}",
    "{http://www.w3.org/ns/SMIL}",
    "{http://www.w3.org/1999/xhtml}",
)
BODIES = {
    "oné.xhtml": (
        '<h1>Chap<b>ter</b> O<i>n</i>e</h1>\r\n<p id="x">He <i>said so. She</i> left.</p>'
        "<p>It is <ruby>漢<rt>kan</rt>字<rt>ji</rt></ruby> too. "
        '<b>All</b> of it<a epub:type="noteref" href="#x">1</a>!</p>'
    ),
    "two.xhtml": (
        "<p>A&#8217;s &#233; <!-- no --> &amp; big. <![CDATA[Is <it>? Yes.]]> So a<i>b c</i>d.</p>"
    ),
    "silent.xhtml": "<p>Never read.</p>",
}
SENTENCES = ["Chapter One", "He", "said so.", "She", "left.", "It is 漢kan字ji too.", "All of it1!"]
SENTENCES += ["A’s é  & big.", "Is <it>? Yes.", "So ab cd."]


@pytest.fixture
def folder(tmp_path, monkeypatch) -> Path:
    """The current directory: book.epub, one.wav and two.ogg, and the JSON of each, of one page of
    the book."""
    monkeypatch.chdir(tmp_path)
    Path("book.epub").write_bytes(made_epub(BODIES))
    transcript = read_transcript_file("book.epub")
    edges = [0, transcript.text.index("A’s"), transcript.text.index("Never")]
    for name, start, end in zip(("one.wav", "two.ogg"), edges, edges[1:]):
        text = transcript.text[start:end]
        words = [
            aligned(word.text, at / 2, at / 2 + 0.4, word.char_start)
            for at, word in enumerate(split(text).words)
        ]
        alignment = make_alignment(
            tuple(words), 20.0, text=text, audio=name, offset_s=1.0, text_offset=start
        )
        alignment.save(Path(name).with_suffix(".json"))
        soundfile.write(name, np.random.default_rng(0).normal(0, 0.1, 16000 * 22), 16000)
    return tmp_path


def opened(path: str) -> list[tuple[str, list[tuple[str, float, float]], bytes]]:
    """Return (page, [(text of an element, begin, end)], the recording) of each page of a book that
    is read."""
    pages = []
    with zipfile.ZipFile(path) as archive:
        first = archive.infolist()[0]
        assert (first.filename, first.compress_type) == ("mimetype", zipfile.ZIP_STORED)
        package = ElementTree.fromstring(archive.read("OEBPS/book.opf"))
        items = {item.get("id"): item for item in package.iter(f"{OPF}item")}
        hrefs = [posixpath.join("OEBPS", unquote(item.get("href"))) for item in items.values()]
        assert {*hrefs} - {"OEBPS/font.otf"} <= {*archive.namelist()}
        lengths = {
            each.get("refines"): each.text
            for each in package.iter(f"{OPF}meta")
            if "duration" in each.get("property")
        }
        for item in items.values():
            if item.get("media-overlay"):
                overlay = items[item.get("media-overlay")]
                assert overlay.get("media-type") == "application/smil+xml"
                found = clips(archive, posixpath.join("OEBPS", overlay.get("href")))
                pages.append((unquote(item.get("href")), *found))
                length_s = sum(end - begin for _, begin, end in found[0])
                assert seconds(lengths["#" + overlay.get("id")]) == pytest.approx(length_s)
        assert seconds(lengths[None]) == pytest.approx(
            sum(end - at for _, found, _ in pages for _, at, end in found)
        )
    return pages


def clips(archive: zipfile.ZipFile, name: str) -> tuple[list[tuple[str, float, float]], bytes]:
    found, sounds = [], set()
    for par in ElementTree.fromstring(archive.read(name)).iter(f"{SMIL}par"):
        text, audio = par
        page, _, id = text.get("src").partition("#")
        tree = ElementTree.fromstring(
            archive.read(posixpath.normpath(posixpath.join(name, "..", unquote(page))))
        )
        assert any("spoken.css" in link.get("href") for link in tree.iter(f"{XHTML}link"))
        (element,) = (each for each in tree.iter(f"{XHTML}span") if each.get("id") == id)
        sounds.add(posixpath.join(posixpath.dirname(name), audio.get("src")))
        found.append(
            (
                "".join(element.itertext()),
                seconds(audio.get("clipBegin")),
                seconds(audio.get("clipEnd")),
            )
        )
    assert len(sounds) == 1
    return found, archive.read(sounds.pop())


def seconds(clock: str) -> float:
    return sum(float(part) * 60**place for place, part in enumerate(reversed(clock.split(":"))))


def test_a_book_with_its_recordings_inside(cli, folder) -> None:
    Path("summary.json").write_text("{}")
    result = cli("book", "book.epub", ".", "-o", "out")
    assert (result.code, result.stdout) == (0, "")
    assert "1 page of 3 without sound" in result.stderr
    assert "wrote out/book.read-aloud.epub (10 sentences on 2 pages)" in result.stderr
    one, two = opened("out/book.read-aloud.epub")
    assert [text for page in (one, two) for text, *_ in page[1]] == SENTENCES
    assert one[1][:3] == [("Chapter One", 1.0, 2.0), ("He", 2.0, 2.5), ("said so.", 2.5, 3.5)]
    assert one[2][:4] == two[2][:4] == b"OggS"
    with zipfile.ZipFile("book.epub") as old, zipfile.ZipFile("out/book.read-aloud.epub") as new:
        for name in set(old.namelist()) - {"OEBPS/book.opf"}:
            before, after = old.read(name), new.read(name)
            if name.endswith(("oné.xhtml", "two.xhtml")):
                before, after = (
                    "".join(ElementTree.fromstring(data).itertext()) for data in (before, after)
                )
            assert before == after, name


def test_what_the_page_of_an_alignment_saved_is_taken_in_its_place(cli, folder) -> None:
    Path("one.json").rename("one.corrected.json")
    Path("one.json").write_text("what was before")
    result = cli("book", "book.epub", ".")
    assert "one.corrected.json is used instead of one.json" in result.stderr
    assert opened("book.read-aloud.epub")[0][1][0] == ("Chapter One", 1.0, 2.0)


def test_of_the_downloads_of_a_page_the_last_is_taken_and_exports_are_no_alignments(
    cli, folder
) -> None:
    data = Path("one.json").read_text("utf-8")
    for number, name in enumerate(("one.corrected (1).json", "one.corrected.json", "one.json")):
        Path(name).write_text(data, "utf-8")
        os.utime(name, (9 - number, 9 - number))
    Path("one.whisper.json").write_text("{}")
    Path("book.read-aloud.epub").touch()  # nothing is made
    said = cli("book", "book.epub", ".").stderr
    assert "one.corrected (1).json is used instead of one.corrected.json, one.json" in said
    said = cli("book", "book.epub", "one.corrected.json", "two.json").stderr
    assert (
        "one.corrected.json as given; one.corrected (1).json, in the same folder, is newer but has"
        in said
    )


def test_the_package_says_when_it_was_changed(cli, folder) -> None:
    with zipfile.ZipFile("book.epub") as archive:
        files = {name: archive.read(name) for name in archive.namelist()}
    old = b'<metadata><meta property="dcterms:modified">2020-01-02T03:04:05Z</meta></metadata>'
    files["OEBPS/book.opf"] = files["OEBPS/book.opf"].replace(b"<metadata/>", old)
    Path("book.epub").write_bytes(made_zip(files))
    assert cli("book", "book.epub", ".").code == 0
    with zipfile.ZipFile("book.read-aloud.epub") as archive:
        package = archive.read("OEBPS/book.opf").decode()
    (made,) = re.findall(r'dcterms:modified">(.*?)</meta>', package)
    assert abs(
        datetime.strptime(made, "%Y-%m-%dT%H:%M:%S%z") - datetime.now(timezone.utc)
    ) < timedelta(minutes=10)


def test_words_of_a_page_with_prefixes_and_recordings_as_they_are(cli, folder) -> None:
    page = (
        PAGE.replace("<", "<h:").replace("<h:/", "</h:").replace("<h:?", "<?").replace("<h:!", "<!")
    )
    page = page.replace("xmlns=", "xmlns:h=").format(
        '<h:p id="spoken-1">So <h:i>be i</h:i>t. \u00e9!</h:p><p>No <b>x</b></p>'
    )
    Path("book.epub").write_bytes(made_epub({"a.xhtml": ""}, {"OEBPS/a.xhtml": page}))
    text = read_transcript_file("book.epub").text
    words = [
        aligned(word.text, at + 0.0, at + 1.0, word.char_start)
        for at, word in enumerate(split(text).words)
    ]
    noise = np.random.default_rng(0).normal(0, 0.1, 320000).astype(np.float32)
    for name, coding in {
        "a.mp3": Coding("libmp3lame"),
        "a.m4a": Coding("aac", "ipod"),
        "a.flac": Coding("flac"),
    }.items():
        write_media(Path(name), [(0.0, noise[:, None])], 16000, coding)
        make_alignment(tuple(words), 20.0, text=text, audio=name).save("a.json", force=True)
        assert cli("book", "book.epub", "a.json", "--by", "words", "--force").code == 0
        ((_, found, sound),) = opened("book.read-aloud.epub")
        assert found == [
            ("So", 0.0, 1.0),
            ("be", 1.0, 2.0),
            ("i", 2.0, 2.333),
            ("t.", 2.333, 3.0),
            ("\u00e9!", 3.0, 4.0),
        ]
        assert (sound == Path(name).read_bytes()) == (name != "a.flac")


REFUSED = [
    (
        {"OEBPS/a.xhtml": "<html><body><p>Be it.<br></p></body></html>"},
        "a.xhtml: cannot be changed: line 1: mismatched tag",
    ),
    (
        {"OEBPS/a.xhtml": PAGE.replace("utf-8", "latin-1").format("<p>Be it.</p>")},
        "it is in latin-1; only files in UTF-8",
    ),
    (
        {"OEBPS/a.xhtml": PAGE.replace("utf-8", "utf-16").format("<p>Be it.</p>").encode("utf-16")},
        "only files in UTF-8",
    ),
    ({"OEBPS/a.xhtml": PAGE.format("<p>Be so.</p>")}, "a.json: its text differs from the book's"),
    (
        {"OEBPS/book.opf": (r'version="3.0"', 'version="2.0"')},
        "make it one: ebook-polish --upgrade-book",
    ),
    ({"OEBPS/book.opf": ("<item ", '<item media-overlay="a" ')}, "it has media overlays already"),
]


@pytest.mark.parametrize(("changes", "said"), REFUSED)
def test_books_that_cannot_be_read_aloud_are_refused(cli, folder, changes, said) -> None:
    make_alignment((aligned("Be", 0, 1, 0), aligned("it.", 1, 2, 3)), 20.0, audio="one.wav").save(
        "a.json"
    )
    package = PACKAGE.format(
        items='<item id="a" href="a.xhtml" media-type="text/html"/>',
        references='<itemref idref="a"/>',
    )
    files = {
        name: package.replace(*what) if isinstance(what, tuple) else what
        for name, what in changes.items()
    }
    Path("book.epub").write_bytes(made_epub({"a.xhtml": "<p>Be it.</p>"}, files))
    assert said in cli("book", "book.epub", "a.json", code=1).stderr
    assert not Path("book.read-aloud.epub").exists()


def test_two_alignments_of_the_same_words_are_refused(cli, folder) -> None:
    Path("take2.json").write_bytes(Path("one.json").read_bytes())
    result = cli("book", "book.epub", "one.json", "take2.json", code=2)
    assert (
        "one.json and take2.json both have times for 'Chapter' and 14 more words" in result.stderr
    )
