"""The JSON Schema says what `to_dict` writes, and its checker sees faults."""

from __future__ import annotations

import copy
import gzip
import json
import math
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft202012Validator
from rows import over_rows
from sample_alignments import talk_alignment
from schema_checks import faults_of, files_against_schema, strict

from ctc_align.files import Alignment, json_schema, rendered, to_dict
from ctc_align.types import FITS, REGION_KINDS, UNSPOKEN_KINDS, BookPlace, Region, SourceCue, Subtitles


def every_field() -> Alignment:
    """An alignment in which each field that there is has a value."""
    talk = talk_alignment()
    first, dash, *others = talk.words
    token = replace(first.tokens[0], start_sd_ms=3.0, end_sd_ms=4.0, by="hand")
    tokens = (token, *first.tokens[1:])
    first = replace(first, tokens=tokens, start_sd_ms=3.0, end_sd_ms=4.0, speaker="JOHN", by="hand")
    return replace(
        talk,
        words=(first, replace(dash, kind="direction"), *others),
        unknown=2,
        unknown_letters={"ש": 2},
        unexplained=((0.71, 0.74),),
        fit="doubtful",
        regions=(Region("unexplained", 0.71, 0.74), Region("misfit", None, None, 11, 14, "far too fast")),
        subtitles=Subtitles(
            "vtt", "WEBVTT", (SourceCue(0, 9, 1.0, 2.5, "1", "line:0", "NOTE x", "a &amp; b", "Ann"),), "NOTE y"
        ),
        text_offset=1200,
        places=(BookPlace(0, 9, "OEBPS/one.xhtml", "p1", "epubcfi(/6/4!/4/2)"),),
        config={"min_confidence": 0.8, "chunk_s": 60.0},
    )


def described(schema: Any, name: str = "$") -> list[str]:
    """The fields of a schema that have no description of their own."""
    faults = []
    for key, part in schema.get("properties", {}).items():
        target = json_schema()["$defs"][part["$ref"].rpartition("/")[2]] if "$ref" in part else part
        if not target.get("description", "").endswith("."):
            faults.append(f"{name}.{key}")
    return faults


def test_it_is_a_schema_that_describes_each_field() -> None:
    schema = json_schema()
    Draft202012Validator.check_schema(schema)
    assert (
        described(schema) + [fault for name, part in schema["$defs"].items() for fault in described(part, name)] == []
    )
    defs = schema["$defs"]
    assert tuple(schema["properties"]["fit"]["enum"]) == (*FITS, None)
    assert tuple(defs["region"]["properties"]["kind"]["enum"]) == REGION_KINDS
    assert tuple(defs["word"]["properties"]["kind"]["enum"]) == UNSPOKEN_KINDS


def test_it_has_the_fields_that_are_written_and_no_others() -> None:
    data, schema = to_dict(every_field()), json_schema()
    assert faults_of(data) == []
    for name, objects in {
        "": [data],
        "word": data["words"],
        "token": [token for word in data["words"] for token in word["tokens"]],
        "stretch": data["unexplained"],
        "region": data["regions"],
        "cue": data["subtitles"]["cues"],
        "place": data["places"],
    }.items():
        part = schema["$defs"][name] if name else schema
        assert set(part["properties"]) == set().union(*objects), name
        assert set(part["required"]) <= set.intersection(*map(set, objects)), name


FAULTS: dict[str, tuple[Callable[[dict[str, Any]], Any], str]] = {
    "another format": (lambda data: data.update(format="ctc-align/2"), "$.format"),
    "a field that nobody described": (lambda data: data.update(mood="good"), "'mood' was unexpected"),
    "one in a word": (lambda data: data["words"][0].update(pitch=1), "$.words.0"),
    "one in a token": (lambda data: data["words"][0]["tokens"][0].update(pitch=1), "$.words.0.tokens.0"),
    "a field that is missing": (lambda data: data.pop("fit"), '"fit" is a required property'),
    "a loss in words": (lambda data: data.update(loss="Infinity"), "$.loss"),
    "a fit of no kind": (lambda data: data.update(fit="bad"), "$.fit"),
    "a confidence over 1": (lambda data: data["words"][0].update(confidence=1.2), "$.words.0.confidence"),
    "an aligned word without a time": (lambda data: data["words"][0].update(start_s=None), "$.words.0.start_s"),
    "a skipped word with a time": (lambda data: data["words"][0].update(status="skipped"), "$.words.0.start_s"),
    "an unspoken word with tokens": (
        lambda data: data["words"][1].update(tokens=data["words"][0]["tokens"]),
        "$.words.1.tokens",
    ),
    "a status of no kind": (lambda data: data["words"][1].update(status="lost"), "$.words.1.status"),
    "a kind of no kind": (lambda data: data["words"][1].update(kind="noise"), "$.words.1.kind"),
    "an aligned direction": (lambda data: data["words"][0].update(kind="direction"), "$.words.0"),
    "a region without a place": (lambda data: data["regions"][0].update(start_s=None), "$.regions.0.start_s"),
    "a region without its words": (lambda data: data["regions"][1].update(char_end=None), "$.regions.1.char_end"),
    "a word by a machine": (lambda data: data["words"][0].update(by="model"), "$.words.0.by"),
    "a direction by hand": (lambda data: data["words"][1].update(by="hand"), "$.words.1"),
    "no confidence, and nobody fixed it": (lambda data: data["words"][2].update(confidence=None), "$.words.2"),
    "half a word skipped": (lambda data: data.update(skipped=0.5), "$.skipped"),
}


@over_rows("name", list(FAULTS))
def test_a_planted_fault_is_seen(name: str) -> None:
    spoil, place = FAULTS[name]
    data = copy.deepcopy(to_dict(every_field()))
    spoil(data)
    assert not Draft202012Validator(strict(json_schema())).is_valid(data)
    assert any(place in fault for fault in faults_of(data)), faults_of(data)


def test_readers_take_fields_of_later_versions() -> None:
    data = to_dict(every_field()) | {"later": 1}
    assert Draft202012Validator(json_schema()).is_valid(data)


@pytest.mark.parametrize("write", [Alignment.to_dict, lambda spoilt: rendered(spoilt, "json"), to_dict])
def test_what_tests_write_is_checked(write: Callable[[Alignment], Any], schema_watch: Any) -> None:
    """A word of an unknown status is refused by whichever door it leaves; the fault is kept if nobody hears it."""
    spoilt = replace(talk_alignment(), words=(replace(talk_alignment().words[0], status="lost"),))
    with pytest.raises(AssertionError, match='"lost" is not one of'):
        write(spoilt)
    assert schema_watch.faults
    schema_watch.faults.clear()


def test_files_of_other_processes_are_checked(tmp_path: Path) -> None:
    good, bad = to_dict(every_field()), to_dict(every_field()) | {"fit": "bad"}
    folder = tmp_path / "a" / "b"
    folder.mkdir(parents=True)
    (folder / "good.json").write_text(json.dumps(good))
    (folder / "spoilt.json").write_text("{")
    assert files_against_schema(tmp_path) == []
    shard = folder / "alignments-00000.jsonl.gz"
    shard.write_bytes(gzip.compress(f"{json.dumps(good)}\n{json.dumps(bad)}\n".encode()))
    assert len(files_against_schema(tmp_path)) == 1
    shard.unlink()
    (folder / "bad.json").write_text(json.dumps(bad | {"loss": math.nan}))
    faults = files_against_schema(tmp_path)
    assert len(faults) == 2
    assert "bad.json: $.fit" in "".join(faults)
    assert "bad.json: $.loss" in "".join(faults)
    (folder / "bad.json").unlink()
