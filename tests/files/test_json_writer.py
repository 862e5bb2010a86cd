from __future__ import annotations

import dataclasses
import io
import json
import math

import pytest
from hypothesis import given
from sample_alignments import make_alignment, random_alignments

from ctc_align.errors import InputError
from ctc_align.files import JsonWriter, Style, read_alignment, to_dict

WORD_KEYS = ["text", "spoken", "start_s", "end_s", "confidence", "char_start", "char_end", "status", "tokens"]


def written(alignment, style=None) -> str:
    file = io.StringIO()
    JsonWriter(style).write(alignment, file)
    return file.getvalue()


def refuse(constant):
    raise AssertionError(f"{constant} is not JSON")


def test_object_has_the_promised_keys(talk):
    data = to_dict(talk)
    assert data["format"] == "ctc-align/1"
    assert {"version", "utterance", "audio", "offset_s", "duration_s", "model", "backend", "frame_shift_s"} <= set(data)
    assert {"loss", "loss_per_token", "score", "unknown", "text", "words", "config"} <= set(data)
    assert list(data["words"][0]) == WORD_KEYS
    assert list(data["words"][0]["tokens"][0]) == ["token", "start_s", "end_s", "confidence"]
    assert data["words"][1] == dict(
        zip(WORD_KEYS, ["—", "", None, None, None, 9, 10, "unspoken", []]),
    )


def test_file_says_what_the_object_says(talk):
    assert json.loads(written(talk), parse_constant=refuse) == to_dict(talk)
    assert "שלום" in written(talk), "characters stand as themselves, not as escapes"


def test_no_number_is_null_not_infinity(talk):
    alignment = dataclasses.replace(talk, loss=math.inf, score=-math.inf, loss_per_token=math.nan)
    data = json.loads(written(alignment), parse_constant=refuse)
    assert (data["loss"], data["score"], data["loss_per_token"]) == (None, None, None)


def test_settings_become_plain(talk, tmp_path):
    alignment = dataclasses.replace(talk, config={"chunk_s": math.inf, "lexicon": tmp_path, "bands": (1, 2)})
    assert json.loads(written(alignment))["config"] == {"chunk_s": None, "lexicon": str(tmp_path), "bands": [1, 2]}


@given(random_alignments())
def test_read_back_gives_the_same_times(tmp_path_factory, alignment):
    path = tmp_path_factory.mktemp("json") / "a.json"
    path.write_text(written(alignment), "utf-8")
    again = read_alignment(path)
    assert to_dict(again) == to_dict(alignment)
    for word, original in zip(again.words, alignment.words):
        assert word.start_s == (None if original.start_s is None else pytest.approx(original.start_s, abs=1e-5))
    assert again.loss == alignment.loss


def test_times_of_the_recording(talk, tmp_path):
    alignment = dataclasses.replace(talk, offset_s=10.0)
    text = written(alignment, Style(times="recording"))
    data = json.loads(text)
    assert (data["offset_s"], data["duration_s"], data["config"]["times"]) == (10.0, 1.0, "recording")
    assert data["words"][0]["start_s"] == 10.1
    assert data["words"][0]["tokens"][0]["start_s"] == 10.1
    assert data["words"][1]["start_s"] is None
    path = tmp_path / "a.json"
    path.write_text(text, "utf-8")
    assert read_alignment(path).words[0].start_s == 0.1, "read back, times count from the utterance's start again"


def test_style_comes_from_the_alignment_itself(talk):
    alignment = dataclasses.replace(talk, offset_s=10.0, config={"times": "recording"})
    assert alignment.to_dict()["words"][0]["start_s"] == 10.1


@pytest.mark.parametrize(
    ("content", "says"),
    [
        ("{", "not JSON"),
        ("[]", "expected an alignment"),
        ('{"format": "other/1"}', "got 'other/1'"),
        ('{"format": "ctc-align/1", "config": {}}', "utterance"),
    ],
)
def test_other_files_are_refused(tmp_path, content, says):
    path = tmp_path / "a.json"
    path.write_text(content)
    with pytest.raises(InputError, match=says) as caught:
        read_alignment(path)
    assert str(path) in str(caught.value)


def test_a_missing_file_is_refused(tmp_path):
    with pytest.raises(InputError, match="No such file"):
        read_alignment(tmp_path / "none.json")


def test_empty_alignment_is_valid():
    assert json.loads(written(make_alignment(())))["words"] == []
