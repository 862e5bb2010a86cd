"""Files of transcripts: subtitles in all states of repair, and files that are none, named as what
they are."""

from __future__ import annotations

import io
import json
import zipfile
from pathlib import Path

import pytest
from rows import over_rows

from ctc_align.errors import TranscriptError, UsageError, WrongFileError
from ctc_align.files.transcripts import parse_transcript, read_transcript
from ctc_align.text import split, with_cues

TIMES = "00:00:01,000 --> 00:00:02,500"
LATER = "00:00:03,000 --> 00:00:04,000"


def zipped(**files: str) -> bytes:
    data = io.BytesIO()
    with zipfile.ZipFile(data, "w") as archive:
        for name, text in files.items():
            archive.writestr(name.replace("__", "/").replace("_", "."), text)
    return data.getvalue()


WRONG_FILES = [
    (b"%PDF-1.4\n%\xe2\xe3\xcf\xd3\n", "a PDF document"),
    (b"{\\rtf1\\ansi Hello}", "an RTF document"),
    (b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1" + bytes(600), "a Word document (.doc)"),
    (zipped(word__document_xml="<w/>"), "a Word document (.docx)"),
    (zipped(mimetype="application/vnd.oasis.opendocument.text"), "an OpenDocument text"),
    (zipped(notes_txt="hello"), "a ZIP archive"),
    (b"PK\x03\x04 and cut", "a ZIP archive"),
    (b"\x1f\x8b\x08\x00abc", "a gzip archive"),
    (b"\x89PNG\r\n\x1a\n\0", "a picture"),
    (b"RIFF\x24\x08\0\0WAVEfmt ", "a sound or video file"),
    (b"RIFF\x24\x08\0\0WEBPVP8 ", "a picture"),
    (b"\xff\xfb\x90\x64\0\0", "a sound or video file"),
    (b"\0\0\0\x20ftypisom", "a sound or video file"),
    (b"\x93NUMPY\x01\0v\0", "perhaps log-probs"),
    (b"\x01\x02\0\x04\0\0\0\xff" * 20, "a binary file"),
    (b"<!DOCTYPE html>\n<html><body>Hi</body></html>", "an HTML page"),
    (b"<!-- saved -->\n<HTML lang=en>Hi", "an HTML page"),
    (b'<?xml version="1.0"?>\n<tt xml:lang="en"/>', "subtitles in TTML"),
    (
        json.dumps({"format": "ctc-align/1", "words": []}, indent=1).encode(),
        "an alignment of ctc-align",
    ),
    (b'{"segments": ["a", "b"]}', "a JSON file"),
    (b'[{"audio": "a.wav", "text": "a", "start": 0, "end": 1}]', "a JSON file"),
    (b'{"text": "hello", "segments": []}', "a JSON file"),
    (
        b'{"audio_filepath": "a.wav", "text": "a"}\n{"audio_filepath": "b.wav", "text": "b"}\n',
        "a manifest",
    ),
    (b";; a comment\na 1 0.50 0.25 hello 0.9\n", "a CTM file"),
    (b"start_s\tend_s\tword\n0.1\t0.2\thello\n", "a table"),
    (b'"id";"path";"text"\r\nx;b.wav;hello\r\n', "a table"),
    (b"0\t500\thello\n500\t900\tthere\n", "labels with times"),
    (b"0 2300 hello\n2300 4100 there\n4200 5000 you\n", "labels with times"),
    (b"[Script Info]\nTitle: x\n", "subtitles in ASS or SSA"),
    (b"{10}{40}Hello\n{50}{80}there\n", "subtitles in MicroDVD"),
    (b"<SAMI><BODY><SYNC Start=500><P>Hello", "subtitles in SAMI"),
    (b"Scenarist_SCC V1.0\n\n00:00:01:00\t9420 9420\n", "captions in SCC"),
    (b"850STL25.01\0\0", "subtitles in EBU STL"),
    (b"//Subtitles\n$Bold = FALSE\n00:00:01:00 , 00:00:02:00 , Hello\n", "subtitles in Spruce STL"),
    (b"#TITLE:So\n#BPM:300\n: 0 4 5 Print\n: 4 4 5 ing\n- 10\nE\n", "a song of UltraStar"),
]


@over_rows(("data", "name"), WRONG_FILES)
def test_files_that_are_no_transcripts_are_named(data: bytes, name: str) -> None:
    with pytest.raises(WrongFileError, match="expected a transcript") as caught:
        parse_transcript(data, "talk.txt")
    assert f"got {name}" in str(caught.value) or name in str(caught.value)
    assert "; " in str(caught.value), "and what to do"
    assert "\n" not in str(caught.value)


ENCODINGS = [
    ("Hello there, how are you?", "utf-16-le", "UTF-16 (little-endian)", "--encoding utf-16-le"),
    ("Hello there, how are you?", "utf-16-be", "UTF-16 (big-endian)", "--encoding utf-16-be"),
    ("Hello there", "utf-32-le", "UTF-32 (little-endian)", "--encoding utf-32-le"),
    ("Hello there", "utf-32-be", "UTF-32 (big-endian)", "--encoding utf-32-be"),
    ("Добрый день, друзья", "utf-16-le", "UTF-16 (little-endian)", "--encoding utf-16-le"),
    ("Добрый день, друзья", "utf-16-be", "UTF-16 (big-endian)", "--encoding utf-16-be"),
    ("안녕하세요 여러분\n", "utf-16-be", "UTF-16 (big-endian)", "--encoding utf-16-be"),
    (
        "吾輩は猫である。名前はまだ無い。",
        "utf-16-le",
        "UTF-16 (little-endian)",
        "--encoding utf-16-le",
    ),
    ("“Smart” quotes", "cp1252", "Windows-1252", "--encoding cp1252"),
    ("Eine schöne Straße", "latin-1", "Windows-1252", "--encoding cp1252"),
    ("Добрый день, друзья", "cp1251", "Windows-1251", "--encoding cp1251"),
    ("吾輩は猫である。名前はまだ無い。", "shift-jis", "Shift JIS", "--encoding cp932"),
    ("我是一只猫，名字还没有。", "gb18030", "GB18030", "--encoding gb18030"),
]


@over_rows(("text", "codec", "name", "remedy"), ENCODINGS)
def test_other_encodings_are_named_and_the_name_reads_them(text, codec, name, remedy) -> None:
    with pytest.raises(TranscriptError, match="expected") as caught:
        parse_transcript(text.encode(codec), "my talk.txt", "")
    assert f"it looks like {name}" in str(caught.value) or name in str(caught.value)
    assert remedy in str(caught.value)
    assert parse_transcript(text.encode(codec), "my talk.txt", remedy.split()[1]).text == text


TEXTS = [
    "She said <i>hello</i> &amp; left.",
    "<p>A fragment of <b>HTML</b></p>",
    "{not json} after all",
    "[laughs] Well…",
    "[00:12] Hello\n[00:15] there\n",
    "# Heading\n\nHTML and PDF, RIFF, ID3, FORM A:",
    "RIFFRAFF",
    "OggS and fLaC are words here",
    "WEBVTTing is no header",
    "WEBVTT is a format of subtitles.",
    "Meet 12:30 --> 13:00, lunch",
    "ÿâ ÿþ",
    "",
]


@over_rows("text", TEXTS)
def test_texts_stay_texts(text: str) -> None:
    transcript = parse_transcript(text.encode(), "talk.txt")
    assert (transcript.text, transcript.subtitles) == (text, None)


SUBTITLES = [
    # what it shows, the file, its text, each cue's text
    ("plain", f"1\n{TIMES}\nHello\n\n2\n{LATER}\nthere\n", ["Hello", "there"]),
    ("CRLF and a mark", f"\ufeff1\r\n{TIMES}\r\nHello\r\n\r\n2\r\n{LATER}\r\nthere\r\n", ["Hello", "there"]),
    ("doubled line ends", f"1\r\r\n{TIMES}\r\r\nHello\r\r\n\r\r\n2\r\r\n{LATER}\r\r\nthere\r\r\n", ["Hello", "there"]),
    ("every second line blank", f"1\n\n{TIMES}\n\nHello\n\n\n\n2\n\n{LATER}\n\nthere\n", ["Hello", "there"]),
    ("no numbers", f"{TIMES}\nHello\n\n{LATER}\nthere", ["Hello", "there"]),
    ("no blank lines", f"1\n{TIMES}\nHello\n2\n{LATER}\nthere\n", ["Hello", "there"]),
    ("repeated numbers", f"7\n{TIMES}\nHello\n\n7\n{LATER}\nthere\n", ["Hello", "there"]),
    ("two lines", f"1\n{TIMES}\n- Hello\n- there\n", ["- Hello\n- there"]),
    ("a number as text", f"1\n{TIMES}\n42\n\n2\n{LATER}\nthere\n", ["42", "there"]),
    ("a blank line inside", f"1\n{TIMES}\nHello\n\nthere\n\n2\n{LATER}\nyou\n", ["Hello\n\nthere", "you"]),
    ("empty cues", f"1\n{TIMES}\n\n2\n{LATER}\n\n3\n{LATER}\nyou\n", ["", "", "you"]),
    ("points, no hours", "1\n00:01.0 --> 00:02.5\nHello\n", ["Hello"]),
    ("half an arrow", f"1\n{TIMES}\nHello\n\n2\n{LATER.replace('-->', '--')}\nthere\n", ["Hello", "there"]),
    ("times as text", f"1\n{TIMES}\nfrom\n00:00:03,000 - 00:00:04,000\n", ["from\n00:00:03,000 - 00:00:04,000"]),
    ("a position", f"1\n{TIMES} X1:100 X2:200 Y1:1 Y2:2\nHello\n", ["Hello"]),
    ("markup", f"1\n{TIMES}\n{{\\an8}}<i>Hello</i>\n", ["{\\an8}<i>Hello</i>"]),
    ("an arrow in the text", f"1\n{TIMES}\nfrom here --> to there\n", ["from here --> to there"]),
]  # fmt: skip


@over_rows(("what", "file", "texts"), SUBTITLES)
def test_subtitles_in_all_states_of_repair(what: str, file: str, texts: list[str]) -> None:
    transcript = parse_transcript(file.encode(), "film.txt")
    subtitles = transcript.subtitles
    assert subtitles.format == "srt"
    assert [transcript.text[cue.char_start : cue.char_end] for cue in subtitles.cues] == texts, what
    assert transcript.text == "\n".join(texts)
    assert (subtitles.cues[0].start_s, subtitles.cues[0].end_s) == (1.0, 2.5)


def test_what_a_files_name_and_its_other_cues_decide() -> None:
    file = f"1\n{TIMES}\nHello\n2\n{LATER}\nthere\n".replace("-->", "--").encode()
    assert parse_transcript(file, "film.srt").text == "Hello\nthere"
    assert parse_transcript(file, "film.txt").subtitles is None
    file = f"WEBVTT\n\n{TIMES}\n2\n\n{LATER}\nthere\n".encode()
    assert parse_transcript(file, "film.vtt").text == "2\nthere"


BROKEN = [
    (
        "film.srt",
        f"1\n{TIMES}\nHello\n\n2\n00:00:03,000 --> soon\nthere\n",
        "film.srt, line 6: expected the times",
    ),
    (
        "film.srt",
        f"1\n{TIMES}\nHello\n\n2\n00:00:xx --> 00:00:04,000\nthere\n",
        "film.srt, line 6: expected the times",
    ),
    ("film.vtt", "WEBVTT\n", "film.vtt: expected subtitles with cues"),
    ("film.srt", "Just a text.\n", "film.srt: expected subtitles, as its name says"),
]


@over_rows(("name", "file", "says"), BROKEN)
def test_broken_subtitles_are_an_error_that_names_the_line(name: str, file: str, says: str) -> None:
    with pytest.raises(TranscriptError) as caught:
        parse_transcript(file.encode(), name)
    assert says in str(caught.value)


def test_files_are_read_as_utf8_without_its_bom(tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    path.write_bytes(b"\xef\xbb\xbfna\xc3\xafve\r\nline\n")
    assert read_transcript(path) == "naïve\r\nline\n"
    assert read_transcript(str(path)) == "naïve\r\nline\n"
    path = tmp_path / "latin.txt"
    path.write_bytes(b"one\ntwo caf\xe9 three")
    with pytest.raises(
        TranscriptError,
        match=r"latin\.txt, line 2: expected UTF-8, got byte 0xe9 at offset 11; .*Windows-1252",
    ):
        read_transcript(path)
    assert read_transcript(path, "cp1252") == "one\ntwo café three"
    path.write_bytes("wide".encode("utf-16"))
    assert read_transcript(path) == "wide"


def test_reading_standard_input(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        "sys.stdin", io.TextIOWrapper(io.BytesIO(b"\xef\xbb\xbfcaf\xc3\xa9"), encoding="ascii")
    )
    assert read_transcript("-") == "café"
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(b"\xff"), encoding="latin-1"))
    with pytest.raises(TranscriptError, match="standard input, line 1: expected UTF-8"):
        read_transcript("-")
    monkeypatch.setattr("sys.stdin", io.StringIO("text"))
    assert read_transcript("-") == "text"


def test_files_that_cannot_be_read_are_usage_errors(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"none\.txt: no such transcript file"):
        read_transcript(tmp_path / "none.txt")
    with pytest.raises(UsageError, match="got a folder"):
        read_transcript(tmp_path)
    with pytest.raises(UsageError, match="cannot be read"):
        read_transcript("a\0b")
    (tmp_path / "file").write_text("x", encoding="utf-8")
    with pytest.raises(UsageError, match="cannot be read: Not a directory"):
        read_transcript(tmp_path / "file" / "x.txt")


# JSON of other programs as transcripts: the text of its segments, with their times and speakers,
# whatever its keys.

SEGMENT_TEXTS = [" Call me\nIshmael.", "Some years ago."]
SEGMENT_TIMES = [(0.5, 1.5), (2.0, 3.25)]
ROWS = list(zip(SEGMENT_TEXTS, SEGMENT_TIMES))
WHISPER = {
    "text": "".join(SEGMENT_TEXTS),
    "segments": [{"id": n, "start": a, "end": b, "text": t, "tokens": [1]} for n, (t, (a, b)) in enumerate(ROWS)],
    "language": "en",
}  # fmt: skip
WHISPERX = {
    "segments": [{"start": a, "end": b, "text": t, "words": [{"word": "x"}], "speaker": f"SPEAKER_0{n}"}
                 for n, (t, (a, b)) in enumerate(ROWS)],
    "word_segments": [{"word": "x", "start": 0.5, "end": 0.6}],
}  # fmt: skip
NEMO = {"text": "…", "timestamp": {
    "word": [{"word": "Call", "start": 0.5, "end": 0.7}],
    "segment": [{"segment": t, "start": a, "end": b, "start_offset": 6, "end_offset": 18} for t, (a, b) in ROWS],
}}  # fmt: skip
SEGLST = [
    {
        "session_id": "s",
        "speaker": f"SPEAKER_0{n}",
        "start_time": str(a),
        "end_time": str(b),
        "words": t,
    }
    for n, (t, (a, b)) in enumerate(ROWS)
]
WHISPER_CPP = {"transcription": [
    {"timestamps": {"from": "x"}, "offsets": {"from": a * 1000, "to": b * 1000}, "text": t} for t, (a, b) in ROWS
]}  # fmt: skip
FILES = [
    ("whisper", json.dumps(WHISPER), False),
    ("whisperx", json.dumps(WHISPERX, indent=1), True),
    ("nemo", json.dumps(NEMO), False),
    ("nemo, a list of one recording", json.dumps([NEMO]), False),
    ("segments alone", json.dumps(WHISPER["segments"]), False),
    ("a segment a line", "\n".join(map(json.dumps, SEGLST)), True),
    (
        "transformers",
        json.dumps({"chunks": [{"text": t, "timestamp": times} for t, times in ROWS]}),
        False,
    ),
    ("whisper.cpp", json.dumps(WHISPER_CPP), False),
]


@over_rows(("kind", "data", "named"), FILES)
def test_segments_are_read_as_cues(kind: str, data: str, named: bool) -> None:
    transcript = parse_transcript(data.encode(), "talk.json")
    subtitles = transcript.subtitles
    assert transcript.text == "Call me\nIshmael.\nSome years ago."
    assert [transcript.text[cue.char_start : cue.char_end] for cue in subtitles.cues] == [
        t.strip() for t in SEGMENT_TEXTS
    ]
    assert [(cue.start_s, cue.end_s) for cue in subtitles.cues] == SEGMENT_TIMES
    speakers = ["SPEAKER_00", "SPEAKER_01"] if named else ["", ""]
    assert [cue.speaker for cue in subtitles.cues] == speakers
    words = with_cues(split(transcript.text), subtitles)
    assert words.subtitles == subtitles
    assert [word.speaker for word in words.words] == [*speakers[:1] * 3, *speakers[1:] * 3]


def test_what_segments_lack_is_filled_and_our_own_alignment_is_its_text() -> None:
    rows = [
        {"text": "One", "start": -0.1, "end": None},
        {"text": " ", "start": 1.0, "end": 2.0},
        {"text": "two", "end": 3, "start": None},
        {"text": "ANN: three", "start": 4, "end": 3.5, "speaker": "Bob"},
    ]
    transcript = parse_transcript(json.dumps(rows).encode(), "a.json")
    assert [(cue.start_s, cue.end_s) for cue in transcript.subtitles.cues] == [
        (0.0, 1.0),
        (2.0, 3.0),
        (4.0, 4.0),
    ]
    words = with_cues(split(transcript.text), transcript.subtitles).words
    assert [(word.text, word.speaker) for word in words][-1] == (
        "three",
        "ANN",
    ), "the text's own name goes before"
    data = json.dumps({"format": "ctc-align/1", "text": "So  be\nit.", "words": []})
    assert parse_transcript(data.encode(), "a.json").text == "So  be\nit."


@over_rows(
    ("segment", "says"),
    [
        ({"start": 1, "end": 2}, "a.json, segment 2: expected a segment with its text"),
        (
            "text",
            "a.json, segment 2: expected a segment with its text, as in the others, got 'text'",
        ),
        (
            {"text": "b", "start": "soon"},
            "a.json, segment 2: expected its start and end in seconds, got 'soon'",
        ),
        (
            {"text": "b", "start": 1, "end": 1e300},
            "expected its start and end in seconds, got 1e+300",
        ),
    ],
)
def test_a_broken_segment_is_named(segment: object, says: str) -> None:
    with pytest.raises(TranscriptError) as caught:
        parse_transcript(
            json.dumps({"segments": [WHISPER["segments"][0], segment]}).encode(), "a.json"
        )
    assert says in str(caught.value)


def test_a_label_track_of_audacity_is_a_transcript_with_times() -> None:
    track = b"2.500000\t3.000000\tover the  sea\n\\\t80.0\t4000.0\n0.500000\t2.000000\tThe sun\n"
    found = parse_transcript(track, "labels.txt")
    assert found.text == "The sun\nover the  sea"
    assert found.subtitles is not None
    assert [(cue.start_s, cue.end_s) for cue in found.subtitles.cues] == [(0.5, 2.0), (2.5, 3.0)]
    with pytest.raises(TranscriptError, match=r"labels\.txt:1: a label ends at 1\.0 s"):
        parse_transcript(b"2.000000\t1.000000\tThe sun\n", "labels.txt")
