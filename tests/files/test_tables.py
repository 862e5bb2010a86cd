"""CTM, TSV and Audacity's labels."""

from __future__ import annotations

import csv
import io
import json
import math
import unicodedata
from dataclasses import replace

import pandas
import pysubs2
import pytest
from hypothesis import given, settings
from rows import over_rows
from sample_alignments import (
    aligned,
    conversation,
    make_alignment,
    random_alignments,
    swapped_alignments,
)
from spoken_documents import timed

from ctc_align.config import Settings
from ctc_align.errors import UsageError
from ctc_align.files import (
    FORMATS,
    CtmWriter,
    OutputFiles,
    Style,
    TokenCtmWriter,
    output_paths,
    rendered,
)
from ctc_align.files.textgrid import read_textgrid
from ctc_align.files.tiers import with_phones
from ctc_align.files.transcripts import parse_transcript
from ctc_align.files.writer import WRITTEN
from ctc_align.text.characters import spreadsheet_cell
from ctc_align.types import AlignedWord, Alignment, BookPlace, aligned_words


def by_time(alignment) -> list[AlignedWord]:
    return sorted(aligned_words(alignment), key=lambda word: word.start_s)


def lines_of(writer, alignment) -> list[str]:
    file = io.StringIO()
    writer.write(alignment, file)
    return file.getvalue().splitlines()


@over_rows(
    ("format", "lines"),
    [
        (
            "ctm",
            [
                ";; my_talk loss 12.345000 loss_per_token 0.617000 score -13.002000",
                "my_talk 1 0.100 0.300 Hello 0.7500",
                "my_talk 1 0.400 0.300 12 0.7500",
                "my_talk 1 0.750 0.250 שלום 0.7500",
            ],
        ),
        (
            "tsv",
            [
                "start_s\tend_s\tword\tconfidence\tchar_start\tchar_end",
                "0.100\t0.400\tHello\t0.7500\t0\t8",
                "0.400\t0.700\t12\t0.7500\t11\t14",
                "0.750\t1.000\tשלום\t0.7500\t15\t20",
            ],
        ),
        (
            "audacity",
            ["0.100000\t0.400000\tHello", "0.400000\t0.700000\t12", "0.750000\t1.000000\tשלום"],
        ),
    ],
)
def test_lines(format, lines, talk):
    assert rendered(talk, format).decode().splitlines() == lines


def test_losses_that_are_no_numbers_and_names_that_look_like_comments():
    alignment = make_alignment((aligned("a", 0.0, 0.5),), utterance=";;b c", loss=math.inf)
    comment, row = lines_of(CtmWriter(), alignment)
    assert "loss inf " in comment
    assert row.startswith("__b_c 1 0.000 ")


def test_short_words_stay_apart_and_inside_the_audio_though_milliseconds_are_coarse():
    words = tuple(aligned("a", i * 0.0002, (i + 1) * 0.0002) for i in range(5))
    rows = [line.split() for line in lines_of(CtmWriter(), make_alignment(words))[1:]]
    assert [(row[2], row[3]) for row in rows] == [(f"0.00{i}", "0.001") for i in range(5)]
    words = (aligned("a", 0.0, 0.0372, tokens="a"), aligned("b", 0.0372, 0.0375, 2, tokens="b"))
    rows = [
        line.split()[2:4]
        for line in lines_of(CtmWriter(), make_alignment(words, duration_s=0.0375))[1:]
    ]
    assert rows == [["0.000", "0.036"], ["0.036", "0.001"]]


@given(swapped_alignments())
def test_six_fields_never_empty_never_overlapping(alignment):
    for writer, count in (
        (CtmWriter(), len(aligned_words(alignment))),
        (TokenCtmWriter(), sum(len(word.tokens) for word in alignment.words)),
    ):
        rows = [line.split() for line in lines_of(writer, alignment) if not line.startswith(";;")]
        assert len(rows) == count
        at_ms = 0
        for row in rows:
            assert len(row) == 6
            assert row[1] == "1"
            start_ms, duration_ms = round(float(row[2]) * 1000), round(float(row[3]) * 1000)
            assert start_ms >= at_ms
            assert duration_ms > 0
            at_ms = start_ms + duration_ms
    starts = [float(line.split()[2]) for line in lines_of(CtmWriter(), alignment)[1:]]
    for start, word in zip(starts, by_time(alignment), strict=True):
        assert abs(start - word.start_s) <= 0.0005 + 1e-9


def read_tsv(data: bytes) -> list[dict[str, str]]:
    rows = list(
        csv.DictReader(
            io.StringIO(data.decode(), newline=""), delimiter="\t", quoting=csv.QUOTE_NONE
        )
    )
    assert all(None not in row and None not in row.values() for row in rows), (
        "as many fields as the header has"
    )
    return rows


def unescaped(label: str) -> str:
    out, rest = "", iter(label)
    for char in rest:
        out += {"t": "\t", "n": "\n", "r": "\r", "\\": "\\"}[next(rest)] if char == "\\" else char
    return out


def test_labels_of_tabs_line_ends_and_other_programs():
    word = "a\tb\\n\r\nc"
    alignment = make_alignment((aligned(word, 0.0, 0.5), aligned("d", 0.5, 1.0)))
    rows = read_tsv(rendered(alignment, "tsv", Style(labels="written")))
    assert [unescaped(row["word"]) for row in rows] == [word, "d"]
    assert rendered(alignment, "audacity", Style(labels="written")).decode().count("\n") == 2
    words = ("None", "NA", 'say "x,y"', "=1+1", "a\x1bb")
    alignment = make_alignment(
        tuple(aligned(word, i / 10, i / 10 + 0.1, 0, "@=") for i, word in enumerate(words))
    )
    table = table_of(replace(alignment, token_kind="phones"), Style(labels="written"))
    assert [*table[table.tier == "words"].label] == ["None", "NA", 'say "x,y"', "'=1+1", r"a\x1bb"]
    assert [*table[table.tier == "phones"].label] == ["@", "="] * 5


@given(swapped_alignments())
def test_every_aligned_word_is_there_once(alignment):
    words = by_time(alignment)
    rows = read_tsv(rendered(alignment, "tsv", Style(labels="written")))
    assert [unescaped(row["word"]) for row in rows] == [word.text for word in words]
    labels = [
        line.split("\t")
        for line in rendered(alignment, "audacity", Style(labels="written")).decode().splitlines()
    ]
    assert [label for _, _, label in labels] == [word.text for word in words]
    at_s = 0.0
    for row, (start, end, _), word in zip(rows, labels, words):
        assert alignment.text[int(row["char_start"]) : int(row["char_end"])] == word.text
        assert at_s <= float(row["start_s"]) < float(row["end_s"])
        assert float(row["start_s"]) == pytest.approx(word.start_s, abs=6e-4)
        assert float(start) == pytest.approx(word.start_s, abs=1e-5)
        assert float(start) < float(end)
        at_s = float(row["end_s"])


def test_a_label_track_never_takes_the_transcripts_name(talk, tmp_path):
    (tmp_path / "talk.txt").write_text("mine")
    OutputFiles(tmp_path, "talk", ("audacity",), force=True).write(talk)
    assert (tmp_path / "talk.txt").read_text() == "mine"
    assert [path.name for path in output_paths(tmp_path, "talk", ("audacity",))] == [
        "talk.audacity.txt"
    ]


# CSV, Whisper's JSON and Label Studio's tasks, read by pandas, and the reader of transcripts.

ALL_TIERS = Style(tiers="words,phones,sentences,speakers", labels="written")


def table_of(alignment: Alignment, style: Style | None = None) -> pandas.DataFrame:
    data = rendered(alignment, "csv", style)
    return pandas.read_csv(
        io.BytesIO(data), keep_default_na=False, na_values={"start_s": "", "end_s": "", "word": ""}
    )


def test_a_long_table_of_words_and_phones():
    alignment = conversation()
    table = table_of(alignment)
    words, phones = table[table.tier == "words"], table[table.tier == "phones"]
    assert len(table) == len(words) + len(phones)
    assert [*words.word] == [*range(1, len(alignment.words) + 1)]
    assert [*words.status] == [word.status for word in alignment.words]
    timed = words[words.status == "aligned"]
    assert [*timed.start_s] == pytest.approx(
        [word.start_s for word in aligned_words(alignment)], abs=0.00051
    )
    assert [*timed.duration_s.astype(float)] == pytest.approx([0.2] * len(timed))
    assert words[words.status == "skipped"].start_s.isna().all()
    assert [*phones.groupby("word").size()] == [2] * len(timed)
    assert {*phones.merge(words, on="word").eval("word_label_x == label_y")} == {True}
    assert [*phones[phones.word_label == "yes"].position] == ["1", "2"] or [
        *phones.position.astype(int)
    ][:2] == [1, 2]
    ann = table_of(alignment, ALL_TIERS)
    assert [*ann[ann.tier == "sentences"].label] == [
        "It is Dr. Brown.",
        "Is it?",
        "Yes, yes is!",
        "And so",
    ]
    assert [*ann[ann.tier == "speakers"].label] == ["Ann", "Bob"]


def test_syllables_are_in_tables_tiers_and_json(tmp_path):
    style = Style(tiers="words,syllables")
    words = (
        aligned("Extra", 0.0, 0.6, 0, ["ɛ", "k", "s", "t", "ɹ", "ˈə"]),
        aligned("boy", 0.6, 0.8, 6, ["b", "ɔɪ"]),
    )
    alignment = make_alignment(
        words, token_kind="phones", config={"language": "en", "tiers": "words,syllables"}
    )
    labels = ["ɛ k", "ˈs t ɹ ə", "b ɔɪ"]
    assert [*table_of(alignment, style).query("tier == 'syllables'").label] == labels
    alignment.save(tmp_path / "a.TextGrid")
    _, tier = read_textgrid(tmp_path / "a.TextGrid").tiers
    assert [row.label for row in tier.intervals if row.label] == labels
    found = [each for word in alignment.to_dict()["words"] for each in word["syllables"]]
    assert [each["syllable"] for each in found] == labels
    assert [(each["start_s"], each["end_s"]) for each in found] == [
        (0.0, 0.2),
        (0.2, 0.6),
        (0.6, 0.8),
    ]
    with pytest.raises(
        UsageError, match="--tiers syllables: expected a model of phones, got english"
    ):
        rendered(replace(alignment, token_kind="tokens"), "textgrid", style)


@pytest.mark.parametrize("parted", ["no", "pause", "speaker"])
def test_phones_that_touch_are_each_others_neighbours(parted):
    second = aligned("boy", 0.65 if parted == "pause" else 0.6, 0.8, 6, ["b", "ɔɪ"])
    if parted == "speaker":
        second = replace(second, speaker="Ann")
    words = (aligned("Hey", 0.0, 0.6, 0, ["h", "eɪ"]), second)
    phones = table_of(make_alignment(words, token_kind="phones")).query("tier == 'phones'")
    around = [("", "eɪ"), ("h", "b"), ("eɪ", "ɔɪ"), ("b", "")]
    if parted != "no":
        around[1:3] = [("h", ""), ("", "ɔɪ")]
    assert list(zip(phones.previous, phones.next)) == around


def test_goodness_of_pronunciation_has_columns_and_a_tier(tmp_path):
    thin = aligned("thin", 0.0, 0.6, 0, ["TH", "IH", "N"])
    rated = [(-2.41, "S", 3.0), (1.25, "IH", 40.5), (-0.5, "", None)]
    tokens = tuple(
        replace(token, gop=gop, heard=heard, gop_percentile=percentile)
        for token, (gop, heard, percentile) in zip(thin.tokens, rated)
    )
    alignment = make_alignment((replace(thin, tokens=tokens),), token_kind="phones")
    style = Style(tiers="phones,gop")
    table = table_of(alignment, style)
    phones = table[table.tier == "phones"]
    assert [*zip(phones.gop, phones.heard)] == [(f"{gop:.2f}", heard) for gop, heard, _ in rated]
    assert [*phones.gop_percentile] == ["3.0", "40.5", ""]
    labels = ["-2.4 S", "1.2", "-0.5 ∅"]
    assert [*table[table.tier == "gop"].label] == labels
    assert [*table[table.tier == "gop"].gop_percentile] == [""] * 3
    assert [*table_of(alignment, Style(tiers="gop")).gop_percentile] == ["3.0", "40.5", ""]
    (tmp_path / "a.TextGrid").write_bytes(rendered(alignment, "textgrid", style))
    _, tier = read_textgrid(tmp_path / "a.TextGrid").tiers
    assert [row.label for row in tier.intervals if row.label] == labels
    (in_ipa,) = with_phones(alignment, "ipa").words
    assert [token.heard for token in in_ipa.tokens] == ["s", "ɪ", ""]
    assert "gop" not in table_of(conversation()).columns
    with pytest.raises(UsageError, match="--tiers gop: expected an alignment that was made with"):
        rendered(conversation(), "textgrid", style)


def test_whispers_words_add_up_to_its_text():
    alignment = replace(conversation(), config={"language": "en"}, offset_s=100.0)
    data = rendered(alignment, "whisper", Style(times="recording"))
    whisper = json.loads(data)
    assert whisper["text"] == " It is Dr. Brown. Is it? Yes, yes is! And so"
    assert whisper["language"] == "en"
    assert [segment["speaker"] for segment in whisper["segments"]] == ["Ann", "Ann", "Bob", "Bob"]
    for segment in whisper["segments"]:
        assert "".join(word["word"] for word in segment["words"]) == segment["text"]
        assert (segment["start"], segment["end"]) == (
            segment["words"][0]["start"],
            segment["words"][-1]["end"],
        )
    words = [word for segment in whisper["segments"] for word in segment["words"]]
    assert whisper["word_segments"] == words
    for got, word in zip(words, aligned_words(alignment), strict=True):
        assert (got["start"], got["end"]) == pytest.approx(
            (word.start_s + 100, word.end_s + 100), abs=0.00051
        )
        assert got["probability"] == got["score"] == word.confidence
    events = [(each.start, each.end, each.text) for each in pysubs2.load_from_whisper(whisper)]
    segments = [
        (round(1000 * each["start"]), round(1000 * each["end"]), each["text"])
        for each in whisper["segments"]
    ]
    assert events == [(start, end, text.strip()) for start, end, text in segments]
    read = parse_transcript(data, "a.whisper.json")
    assert read.text.splitlines() == [segment["text"].strip() for segment in whisper["segments"]]
    assert {(cue.start_s, cue.speaker) for cue in read.subtitles.cues} >= {
        (whisper["segments"][0]["start"], "Ann")
    }
    alignment = make_alignment(
        (aligned("行", 0.1, 0.4), aligned("く。", 0.4, 0.9, 1)), text="行く。"
    )
    (segment,) = json.loads(rendered(alignment, "whisper"))["segments"]
    assert [word["word"] for word in segment["words"]] == ["行", "く。"]
    assert segment["text"] == "行く。"


def test_label_studio_gets_regions_with_label_and_text():
    alignment = conversation()
    (task,) = json.loads(rendered(alignment, "labelstudio"))
    (prediction,) = task["predictions"]
    assert {"model_version", "score", "result"} <= {*prediction}, (
        "as Label Studio's documentation wants it"
    )
    for result in prediction["result"]:
        assert {"id", "from_name", "to_name", "type", "value", "original_length"} <= {*result}
        assert result["type"] in ("labels", "textarea")
        assert {"start", "end", "channel"} <= {*result["value"]}
        assert ("labels" in result["value"]) != ("text" in result["value"])
    assert task["data"] == {
        "audio": alignment.audio,
        "text": alignment.text,
        "utterance": alignment.utterance,
    }
    regions: dict[str, dict] = {}
    for result in prediction["result"]:
        regions.setdefault(result["id"], {}).update(
            result["value"], by=result["from_name"], meta=result["meta"]
        )
    shown = sorted(
        (region["start"], region["end"], *region["text"], *region["labels"])
        for region in regions.values()
    )
    expected = [(word.start_s, word.end_s) for word in aligned_words(alignment)]
    assert [(start, end) for start, end, *_ in shown] == [
        pytest.approx(span, abs=0.00051) for span in expected
    ]
    assert [row[2:] for row in shown][:4] == [
        ("It", "Word"),
        ("is", "Word"),
        ("Dr", "Word"),
        ("Brown", "Word"),
    ]
    (task,) = json.loads(rendered(alignment, "labelstudio", ALL_TIERS))
    labels = {
        label
        for each in task["predictions"][0]["result"]
        for label in each["value"].get("labels", ())
    }
    assert labels == {"Word", "Phone", "Sentence", "Speaker"}


@settings(max_examples=20)
@given(random_alignments())
def test_any_alignment_is_a_table_and_json(alignment):
    table = table_of(alignment, ALL_TIERS)
    assert [*table[table.tier == "words"].label.astype(str)] == [
        word.text for word in alignment.words
    ]
    whisper = json.loads(rendered(alignment, "whisper", ALL_TIERS))
    assert len(whisper["word_segments"]) == len(aligned_words(alignment))
    json.loads(rendered(alignment, "labelstudio", ALL_TIERS))


# What a format cannot carry: control characters, formulas, markup of players; each has its own
# rule, and all parse.

CONTROLS = "a\x1b[2J\x00\x07\x08\x7f\x85\x9bb"


def of_words(*texts: str, **changes: object) -> Alignment:
    words = [aligned(text, i + 0.1, i + 0.9, 0, "ab") for i, text in enumerate(texts)]
    return make_alignment(tuple(words), len(texts) + 1.0, **changes)


def shown(format: str, *texts: str) -> str:
    return rendered(of_words(*texts), format, Style(labels=WRITTEN)).decode()


@pytest.mark.parametrize(
    "format", [name for name, format in FORMATS.items() if not format.writers[0].is_binary]
)
def test_no_format_holds_control_characters(format):
    names: dict = {
        "utterance": f"u{CONTROLS}\n\u2028",
        "audio": f"{CONTROLS}.wav",
        "model": CONTROLS,
    }
    names["token_kind"] = CONTROLS
    names["places"] = (BookPlace(0, 9, f"{CONTROLS}.xhtml", CONTROLS),)
    told = rendered(
        of_words(CONTROLS, "\x1b", "\u2028", **names), format, Style(labels=WRITTEN)
    ).decode()
    assert {c for c in told if unicodedata.category(c) == "Cc"} <= {"\n", "\t"}
    assert not {"\u2028", "\u2029"} & set(told)


@over_rows(
    ("format", "word", "told"),
    [
        ("tsv", "=1+1", "\t'=1+1\t"),
        ("tsv", "@cmd", "\t'@cmd\t"),
        ("tsv", "+cmd|x", "\t'+cmd|x\t"),
        ("tsv", "-5", "\t-5\t"),
        ("tsv", "+1.5%", "\t+1.5%\t"),
        ("tsv", "'=x", "\t''=x\t"),
        ("tsv", "'tis", "\t'tis\t"),
        ("tsv", "a\x1bb\\c", "\ta\\x1bb\\\\c\t"),
        ("audacity", "a\x1bb", "\ta\ufffdb\n"),
        ("ctm", "a\x1bb", " a_b "),
        ("textgrid", 'a\x1b"b', 'text = "a\ufffd""b"'),
        ("json", "a\x9bb\u202e", '"text": "a\\u009bb\\u202e"'),
        ("srt", "a\x1bb", "\na\ufffdb\n"),
        ("srt", "&lt;b&gt;", "‹b›"),
        ("srt", "&lt;font", "<font"),  # no tag without its end
        ("srt", "<<b>x>", "‹x›"),
        ("srt", "{\\an8}", "(\\an8)"),
        ("srt", "{m}", "{m}"),
        ("srt", "1<2", "1<2"),
        ("vtt", "a\x00b", "\na\ufffdb\n"),
    ],
)
def test_what_a_format_says_in_its_place(format, word, told):
    assert told in shown(format, word)


def test_tags_are_those_of_the_source_and_text_that_looks_like_them_stays_text():
    texts = (
        "&lt;font",
        "color=red&gt;big",
        "&lt;/font&gt;",
        "00:00:01,000",
        "--&gt;",
        "00:00:02,000",
    )
    told = shown("srt", *texts)
    assert "<" not in told
    assert told.count(" --> ") == told.count("\n\n")
    vtt = "WEBVTT\n\n00:01.000 --> 00:02.000\n<b>one</b> &lt;b&gt; <c.x>two</c>\n"
    srt = "1\n00:00:01,000 --> 00:00:02,000\n<b>one</b> {\\an8} two\n\n"
    times, config = {"one": (0.1, 0.9), "two": (1.1, 1.9)}, Settings().to_dict()
    of_vtt, of_srt = (timed(content, times, 3.0, config=config) for content in (vtt, srt))
    assert "\n<b>one</b> ‹b› two\n" in rendered(of_vtt, "srt").decode()
    assert "\n<b>one</b> &lt;b&gt; <c.x>two</c>\n" in rendered(of_vtt, "vtt").decode()
    assert "\n<b>one</b> {\\an8} two\n" in rendered(of_srt, "srt").decode()


def test_json_and_textgrid_hold_hostile_words_and_names(tmp_path):
    words = [aligned("one", 0.1, 0.5), aligned("two", 0.6, 0.9, 4)]
    named = [replace(word, speaker=f'{name}\n"\x1b') for word, name in zip(words, "AB")]
    (tmp_path / "a.TextGrid").write_bytes(rendered(make_alignment(tuple(named)), "textgrid"))
    assert read_textgrid(tmp_path / "a.TextGrid").tiers[0].name == 'A "\ufffd - words'
    text = f"{CONTROLS}\u202e\u2028\U000e0041"
    assert json.loads(shown("json", text))["words"][0]["text"] == text


@over_rows("cell", ["=x", "'=x", "''@", "-x", "-5", "+", "-", "", "'", "a=b", "＝x", "1,5"])
def test_a_spreadsheets_cell_gives_the_text_back(cell):
    made = spreadsheet_cell(cell)
    assert (made[1:] if made != cell else made) == cell
    assert made != cell or made[:1] not in "=+@＝" or not made
