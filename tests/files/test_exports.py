"""CSV, Whisper's JSON and Label Studio's tasks, read by pandas, and the reader of transcripts."""

from __future__ import annotations

import io
import json
from dataclasses import replace

import pandas
import pysubs2
import pytest
from hypothesis import given, settings
from sample_alignments import aligned, conversation, make_alignment, random_alignments

from ctc_align.files import Alignment, Style, rendered
from ctc_align.files.transcripts import parse_transcript
from ctc_align.types import aligned_words

ALL_TIERS = Style(tiers="words,phones,sentences,speakers", labels="written")


def table_of(alignment: Alignment, style: Style | None = None) -> pandas.DataFrame:
    data = rendered(alignment, "csv", style)
    return pandas.read_csv(io.BytesIO(data), keep_default_na=False, na_values={"start_s": "", "end_s": "", "word": ""})


def test_a_long_table_of_words_and_phones():
    alignment = conversation()
    table = table_of(alignment)
    words, phones = table[table.tier == "words"], table[table.tier == "phones"]
    assert len(table) == len(words) + len(phones)
    assert [*words.word] == [*range(1, len(alignment.words) + 1)]
    assert [*words.status] == [word.status for word in alignment.words]
    timed = words[words.status == "aligned"]
    assert [*timed.start_s] == pytest.approx([word.start_s for word in aligned_words(alignment)], abs=0.00051)
    assert [*timed.duration_s.astype(float)] == pytest.approx([0.2] * len(timed))
    assert words[words.status == "skipped"].start_s.isna().all()
    assert [*phones.groupby("word").size()] == [2] * len(timed)
    assert {*phones.merge(words, on="word").eval("word_label_x == label_y")} == {True}
    assert [*phones[phones.word_label == "yes"].position] == ["1", "2"] or [*phones.position.astype(int)][:2] == [1, 2]
    ann = table_of(alignment, ALL_TIERS)
    assert [*ann[ann.tier == "sentences"].label] == ["It is Dr. Brown.", "Is it?", "Yes, yes is!", "And so"]
    assert [*ann[ann.tier == "speakers"].label] == ["Ann", "Bob"]


def test_labels_that_programs_would_take_for_something_else():
    words = ("None", "NA", 'say "x,y"', "=1+1", "a\x1bb")
    alignment = make_alignment(tuple(aligned(word, i / 10, i / 10 + 0.1, 0, "@=") for i, word in enumerate(words)))
    table = table_of(replace(alignment, token_kind="phones"), Style(labels="written"))
    assert [*table[table.tier == "words"].label] == ["None", "NA", 'say "x,y"', "'=1+1", r"a\x1bb"]
    assert [*table[table.tier == "phones"].label] == ["@", "="] * 5


def test_whispers_words_add_up_to_its_text():
    alignment = replace(conversation(), config={"language": "en"}, offset_s=100.0)
    data = rendered(alignment, "whisper", Style(times="recording"))
    whisper = json.loads(data)
    assert whisper["text"] == " It is Dr. Brown. Is it? Yes, yes is! And so"
    assert whisper["language"] == "en"
    assert [segment["speaker"] for segment in whisper["segments"]] == ["Ann", "Ann", "Bob", "Bob"]
    for segment in whisper["segments"]:
        assert "".join(word["word"] for word in segment["words"]) == segment["text"]
        assert (segment["start"], segment["end"]) == (segment["words"][0]["start"], segment["words"][-1]["end"])
    words = [word for segment in whisper["segments"] for word in segment["words"]]
    assert whisper["word_segments"] == words
    for got, word in zip(words, aligned_words(alignment), strict=True):
        assert (got["start"], got["end"]) == pytest.approx((word.start_s + 100, word.end_s + 100), abs=0.00051)
        assert got["probability"] == got["score"] == word.confidence
    events = [(each.start, each.end, each.text) for each in pysubs2.load_from_whisper(whisper)]
    segments = [(round(1000 * each["start"]), round(1000 * each["end"]), each["text"]) for each in whisper["segments"]]
    assert events == [(start, end, text.strip()) for start, end, text in segments]
    read = parse_transcript(data, "a.whisper.json")
    assert read.text.splitlines() == [segment["text"].strip() for segment in whisper["segments"]]
    assert {(cue.start_s, cue.speaker) for cue in read.subtitles.cues} >= {(whisper["segments"][0]["start"], "Ann")}


def test_whispers_words_have_no_spaces_where_the_text_has_none():
    alignment = make_alignment((aligned("行", 0.1, 0.4), aligned("く。", 0.4, 0.9, 1)), text="行く。")
    (segment,) = json.loads(rendered(alignment, "whisper"))["segments"]
    assert [word["word"] for word in segment["words"]] == ["行", "く。"]
    assert segment["text"] == "行く。"


def test_label_studio_gets_regions_with_label_and_text():
    alignment = conversation()
    (task,) = json.loads(rendered(alignment, "labelstudio"))
    (prediction,) = task["predictions"]
    assert {"model_version", "score", "result"} <= {*prediction}, "as Label Studio's documentation wants it"
    for result in prediction["result"]:
        assert {"id", "from_name", "to_name", "type", "value", "original_length"} <= {*result}
        assert result["type"] in ("labels", "textarea")
        assert {"start", "end", "channel"} <= {*result["value"]}
        assert ("labels" in result["value"]) != ("text" in result["value"])
    assert task["data"] == {"audio": alignment.audio, "text": alignment.text, "utterance": alignment.utterance}
    regions: dict[str, dict] = {}
    for result in prediction["result"]:
        regions.setdefault(result["id"], {}).update(result["value"], by=result["from_name"], meta=result["meta"])
    shown = sorted((region["start"], region["end"], *region["text"], *region["labels"]) for region in regions.values())
    expected = [(word.start_s, word.end_s) for word in aligned_words(alignment)]
    assert [(start, end) for start, end, *_ in shown] == [pytest.approx(span, abs=0.00051) for span in expected]
    assert [row[2:] for row in shown][:4] == [("It", "Word"), ("is", "Word"), ("Dr", "Word"), ("Brown", "Word")]
    (task,) = json.loads(rendered(alignment, "labelstudio", ALL_TIERS))
    labels = {label for each in task["predictions"][0]["result"] for label in each["value"].get("labels", ())}
    assert labels == {"Word", "Phone", "Sentence", "Speaker"}


@settings(max_examples=20, deadline=None)
@given(random_alignments())
def test_any_alignment_is_a_table_and_json(alignment):
    table = table_of(alignment, ALL_TIERS)
    assert [*table[table.tier == "words"].label.astype(str)] == [word.text for word in alignment.words]
    whisper = json.loads(rendered(alignment, "whisper", ALL_TIERS))
    assert len(whisper["word_segments"]) == len(aligned_words(alignment))
    json.loads(rendered(alignment, "labelstudio", ALL_TIERS))
