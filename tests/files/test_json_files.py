"""The JSON of alignments: written, read, described by its schema; what no format could write is
refused by name."""

from __future__ import annotations

import copy
import gzip
import io
import json
import math
import os
import re
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from jsonschema import Draft202012Validator
from rows import over_rows
from sample_alignments import aligned, make_alignment, random_alignments, talk_alignment, write_all
from schema_checks import faults_of, files_against_schema, strict

from ctc_align.errors import CtcAlignError, InputError
from ctc_align.files import (
    FORMATS,
    JsonWriter,
    Style,
    from_dict,
    json_schema,
    read_alignment,
    rendered,
    to_dict,
)
from ctc_align.files.corrections import latest_beside, latest_works
from ctc_align.types import (
    FITS,
    REGION_KINDS,
    UNSPOKEN_KINDS,
    Alignment,
    BookPlace,
    Interval,
    Region,
    SourceCue,
    Subtitles,
    Written,
)

HOSTILE: tuple[Any, ...] = (
    *(None, True, "", "x", "9" * 5000, -1, 10**400, 1e300, -1e300, 0.5, [], [[]], {"x": {}}),
    *(float("nan"), float("inf"), "\ud800", "a\0b", "1"),
)


def every_field() -> Alignment:
    """An alignment in which each field that there is has a value."""
    talk = talk_alignment()
    first, dash, *others = talk.words
    tokens = tuple(replace(token, start_sd_ms=3.0, end_sd_ms=4.0) for token in first.tokens)
    rated = {"gop": -1.5, "gop_percentile": 4.0, "heard": "AE"}
    tokens = (replace(tokens[0], by="hand", **rated), *tokens[1:])
    first = replace(
        first,
        tokens=tokens,
        start_sd_ms=3.0,
        end_sd_ms=4.0,
        speaker="JOHN",
        by="hand",
        language="en",
    )
    return replace(
        talk,
        words=(first, replace(dash, kind="direction"), *others),
        unknown=2,
        unknown_letters={"ש": 2},
        unexplained=((0.71, 0.74),),
        fit="doubtful",
        checked=True,
        regions=(
            Region("unexplained", 0.71, 0.74),
            Region("misfit", None, None, 11, 14, "far too fast"),
        ),
        subtitles=Subtitles(
            "vtt",
            "WEBVTT",
            (SourceCue(0, 9, 1.0, 2.5, "1", "line:0", "NOTE x", "a &amp; b", "Ann"),),
            "NOTE y",
        ),
        text_offset=1200,
        places=(BookPlace(0, 9, "OEBPS/one.xhtml", "p1", "epubcfi(/6/4!/4/2)"),),
        written=Written(
            (".TextGrid",), ((Interval(0.1, 0.4, "Hello"), (Interval(0.1, 0.4, "HH"),)),)
        ),
        config={
            "times": "recording",
            "min_confidence": 0.8,
            "labels": "bare",
            "tiers": "words",
            "max_cps": 17.0,
        },
        offset_s=1.5,
    )


def whole() -> dict[str, Any]:
    """Return the JSON object of an alignment with every field, of no book, and with nothing by
    hand."""
    data = json.loads(json.dumps(to_dict(every_field())))
    del (
        data["version"],
        data["places"],
    )  # without a version nobody takes it for what ctc-align wrote
    for part in (data["words"][0], data["words"][0]["tokens"][0]):
        del part["by"]  # what is by hand has messages of its own
    return data


def places(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Yield the path of every value in a JSON value; of a list those in its first two."""
    items = (
        value.items()
        if isinstance(value, dict)
        else enumerate(value[:2])
        if isinstance(value, list)
        else ()
    )
    for key, inner in items:
        yield (*path, key)
        yield from places(inner, (*path, key))


def with_value(path: tuple[Any, ...], value: Any) -> dict[str, Any]:
    data = whole()
    inner: Any = data
    for key in path[:-1]:
        inner = inner[key]
    inner[path[-1]] = value
    return data


def read(reader: Callable[[], Alignment], name: str) -> Alignment | None:
    """Return what was read, None where it is refused by its name in one line."""
    refused = pytest.raises(CtcAlignError, match=rf"\A{re.escape(name)}[^\n]{{,300}}\Z")
    with suppress(InputError):
        return reader()
    with refused:
        reader()
    return None


@over_rows("path", list(places(whole())))
def test_every_field_may_be_anything(path: tuple[Any, ...]):
    for value in HOSTILE:
        alignment = read(
            lambda value=value: from_dict(with_value(path, value), "a.json"), "a.json: "
        )
        if alignment is not None:
            write_all(alignment)
    alignment = from_dict(whole())
    write_all(alignment)
    assert from_dict(to_dict(alignment)) == alignment


DEEP = "[" * 100_000


@over_rows(
    "content",
    [
        DEEP,
        '{"a":' * 100_000,
        "9" * 5000,
        "1e999",
        "NaN",
        '"\\ud800"',
        "[1e400]",
        "",
        "\0",
        "\ufeff{}",
    ],
)
def test_json_that_is_none(tmp_path_factory, content: str):
    path = Path(tmp_path_factory.mktemp("json"), "a.json")
    for text in (content, json.dumps(whole()).replace('"bare"', content or "{")):
        path.write_text(text, encoding="utf-8")
        alignment = read(lambda: read_alignment(path), str(path))
        if alignment is not None:
            assert text != content
            write_all(alignment)


def test_json_that_does_not_fit_into_memory_is_not_parsed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("ctc_align.reading.free_memory", lambda: (2**26, ""))
    (tmp_path / "a.json").write_text("[" + "[]," * 700_000 + "[]]")
    with pytest.raises(InputError, match=r"JSON that needs 0\.1 GB of memory, 0\.1 GB are free"):
        read_alignment(tmp_path / "a.json")


def test_fields_of_a_later_version_pass_reader_and_schema():
    data = whole()
    data["new"] = data["words"][0]["new"] = data["regions"][0]["new"] = data["subtitles"]["cues"][
        0
    ]["new"] = [1]
    assert from_dict(data) == from_dict(whole())
    assert Draft202012Validator(json_schema()).is_valid(to_dict(every_field()) | {"later": 1})


def written(alignment, style=None) -> str:
    file = io.StringIO()
    JsonWriter(style).write(alignment, file)
    return file.getvalue()


def refuse(constant):
    raise AssertionError(f"{constant} is not JSON")


def test_the_file_says_what_the_object_says_and_no_number_is_null(talk, tmp_path):
    assert json.loads(written(talk), parse_constant=refuse) == to_dict(talk)
    assert "שלום" in written(talk), "characters stand as themselves, not as escapes"
    config = {"chunk_s": math.inf, "lexicon": tmp_path, "bands": (1, 2)}
    alignment = replace(
        talk, loss=math.inf, score=-math.inf, loss_per_token=math.nan, config=config
    )
    data = json.loads(written(alignment), parse_constant=refuse)
    assert (data["loss"], data["score"], data["loss_per_token"]) == (None, None, None)
    assert data["config"] == {"chunk_s": None, "lexicon": str(tmp_path), "bands": [1, 2]}


@given(random_alignments())
def test_read_back_gives_the_same_times(tmp_path_factory, alignment):
    path = tmp_path_factory.mktemp("json") / "a.json"
    path.write_text(written(alignment), "utf-8")
    again = read_alignment(path)
    assert to_dict(again) == to_dict(alignment)
    for word, original in zip(again.words, alignment.words):
        assert word.start_s == (
            None if original.start_s is None else pytest.approx(original.start_s, abs=1e-5)
        )
    assert again.loss == alignment.loss


def test_times_of_the_recording(talk, tmp_path):
    alignment = replace(talk, offset_s=10.0)
    text = written(alignment, Style(times="recording"))
    data = json.loads(text)
    assert (data["offset_s"], data["duration_s"], data["config"]["times"]) == (
        10.0,
        1.0,
        "recording",
    )
    assert data["words"][0]["start_s"] == 10.1
    assert data["words"][0]["tokens"][0]["start_s"] == 10.1
    assert data["words"][1]["start_s"] is None
    path = tmp_path / "a.json"
    path.write_text(text, "utf-8")
    assert read_alignment(path).words[0].start_s == 0.1, (
        "read back, times count from the utterance's start again"
    )
    by_config = replace(alignment, config={"times": "recording"})
    assert by_config.to_dict()["words"][0]["start_s"] == 10.1, (
        "the alignment's settings are the style"
    )


@pytest.mark.parametrize(
    ("content", "says"),
    [
        (None, "No such file"),
        ("{", "not JSON"),
        ("[]", "expected an alignment"),
        ('{"format": "other/1"}', "got 'other/1'"),
        ('{"format": "ctc-align/1", "config": {}}', "utterance"),
        (re.sub(r', "spoken": "12[^,]*', "", json.dumps(whole())), r"words\[2\].spoken is missing"),
        (
            json.dumps(whole() | {"places": [{"char_start": 0, "char_end": 9, "href": ""}]}),
            r"\[0\].href: expected the name",
        ),
    ],
)
def test_other_files_are_refused(tmp_path, content, says):
    path = tmp_path / "a.json"
    if content is not None:
        path.write_text(content)
    with pytest.raises(InputError, match=says) as caught:
        read_alignment(path)
    assert str(path) in str(caught.value)


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
    parts = {"$": schema, **schema["$defs"]}
    assert [fault for name, part in parts.items() for fault in described(part, name)] == []
    defs = schema["$defs"]
    assert tuple(schema["properties"]["fit"]["enum"]) == (*FITS, None)
    assert tuple(defs["region"]["properties"]["kind"]["enum"]) == REGION_KINDS
    assert tuple(defs["word"]["properties"]["kind"]["enum"]) == UNSPOKEN_KINDS


def test_it_has_the_fields_that_are_written_and_no_others() -> None:
    style = Style(times="recording", tiers="syllables", max_cps=1.0)
    data, schema = to_dict(replace(every_field(), token_kind="phones"), style), json_schema()
    assert faults_of(data) == []
    for name, objects in {
        "": [data],
        "word": data["words"],
        "token": [token for word in data["words"] for token in word["tokens"]],
        "syllable": [syllable for word in data["words"] for syllable in word["syllables"]],
        "stretch": data["unexplained"],
        "region": data["regions"],
        "cue": data["subtitles"]["cues"],
        "fast_cue": data["fast_cues"],
        "place": data["places"],
    }.items():
        part = schema["$defs"][name] if name else schema
        assert set(part["properties"]) == set().union(*objects), name
        assert set(part["required"]) <= set.intersection(*map(set, objects)), name


FAULTS: dict[str, tuple[Callable[[dict[str, Any]], Any], str]] = {
    "another format": (lambda data: data.update(format="ctc-align/2"), "$.format"),
    "a field that nobody described": (
        lambda data: data.update(mood="good"),
        "'mood' was unexpected",
    ),
    "one in a word": (lambda data: data["words"][0].update(pitch=1), "$.words.0"),
    "one in a token": (
        lambda data: data["words"][0]["tokens"][0].update(pitch=1),
        "$.words.0.tokens.0",
    ),
    "a field that is missing": (lambda data: data.pop("fit"), '"fit" is a required property'),
    "a loss in words": (lambda data: data.update(loss="Infinity"), "$.loss"),
    "a fit of no kind": (lambda data: data.update(fit="bad"), "$.fit"),
    "a confidence over 1": (
        lambda data: data["words"][0].update(confidence=1.2),
        "$.words.0.confidence",
    ),
    "an aligned word without a time": (
        lambda data: data["words"][0].update(start_s=None),
        "$.words.0.start_s",
    ),
    "a skipped word with a time": (
        lambda data: data["words"][0].update(status="skipped"),
        "$.words.0.start_s",
    ),
    "an unspoken word with tokens": (
        lambda data: data["words"][1].update(tokens=data["words"][0]["tokens"]),
        "$.words.1.tokens",
    ),
    "a status of no kind": (
        lambda data: data["words"][1].update(status="lost"),
        "$.words.1.status",
    ),
    "a kind of no kind": (lambda data: data["words"][1].update(kind="noise"), "$.words.1.kind"),
    "an aligned direction": (lambda data: data["words"][0].update(kind="direction"), "$.words.0"),
    "a region without a place": (
        lambda data: data["regions"][0].update(start_s=None),
        "$.regions.0.start_s",
    ),
    "a region without its words": (
        lambda data: data["regions"][1].update(char_end=None),
        "$.regions.1.char_end",
    ),
    "a word by a machine": (lambda data: data["words"][0].update(by="model"), "$.words.0.by"),
    "a direction by hand": (lambda data: data["words"][1].update(by="hand"), "$.words.1"),
    "no confidence, and nobody fixed it": (
        lambda data: data["words"][2].update(confidence=None),
        "$.words.2",
    ),
    "half a word skipped": (lambda data: data.update(skipped=0.5), "$.skipped"),
}


@over_rows("name", list(FAULTS))
def test_a_planted_fault_is_seen(name: str) -> None:
    spoil, place = FAULTS[name]
    data = copy.deepcopy(to_dict(every_field()))
    spoil(data)
    assert not Draft202012Validator(strict(json_schema())).is_valid(data)
    assert any(place in fault for fault in faults_of(data)), faults_of(data)


@pytest.mark.parametrize(
    "write", [Alignment.to_dict, lambda spoilt: rendered(spoilt, "json"), to_dict]
)
def test_what_tests_write_is_checked(write: Callable[[Alignment], Any], schema_watch: Any) -> None:
    """A word of an unknown status is refused by whichever door it leaves; the fault is kept if
    nobody hears it."""
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


# Words by hand: kept, or refused by name; and which of several files of an alignment has the latest
# corrections.

TALK = make_alignment((aligned("Hello,", 0.1, 0.4), aligned("you", 0.5, 0.7, 7)))
BY_HAND = replace(TALK, words=(replace(TALK.words[0], by="hand"), TALK.words[1]))


@pytest.fixture
def saved(tmp_path: Path):
    """Save an alignment; each that is saved is a second younger than the one before."""
    count = 0

    def save(name: str, alignment=BY_HAND) -> Path:
        nonlocal count
        count += 1
        path = tmp_path / name
        alignment.save(path, force=True)
        os.utime(path, (count, count))
        return path

    return save


@pytest.mark.parametrize(
    "name",
    [
        "a.corrected (1).json",
        "a.corrected(2).json",
        "a.corrected-2.json",
        "a.hand-3.json",
        "a.hand.aligned.json",
    ],
)
def test_the_last_correction_goes_before_all_others(saved, name: str) -> None:
    before, corrected = saved("a.json", TALK), saved("a.corrected.json")
    assert latest_beside(before).path == corrected
    latest = saved(name)
    work = latest_beside(before)
    assert (work.path, set(work.replaced)) == (latest, {before, corrected})
    (note,) = work.notes()
    assert (
        note == f"{latest} is used instead of a.json, a.corrected.json: it is the latest with"
        " corrections"
    )
    assert [each.path for each in latest_works([corrected, before, latest])] == [latest]
    mended = saved("a.json")
    assert latest_beside(latest).path == mended, "corrected in its own file, later"


def test_what_is_of_another_text_recording_or_utterance_is_not_taken(saved) -> None:
    path, other = (
        saved("a.json", TALK),
        saved("a.corrected.json", replace(BY_HAND, utterance="another")),
    )
    text = saved("a.hand.json", replace(BY_HAND, text="Hello, you there"))
    longer = saved("a.corrected (1).json", replace(BY_HAND, duration_s=2.0))
    before = saved("a.before.json", TALK)
    works = list(latest_works([path, other, text, longer, before]))
    assert [work.path for work in works] == [path, other]
    assert set(works[0].outdated) == {text, longer}
    assert all(
        "is ignored: it belongs to a different text or recording from a.json" in n
        for n in works[0].notes()
    )
    assert latest_beside(other).path == other
    again = saved("a.hand-2.json", replace(BY_HAND, utterance="another"))
    assert [work.path for work in latest_works([path, other, again])] == [
        path,
        again,
    ], "of the other one the latest"


def corrected() -> dict[str, Any]:
    """Return a JSON object: its first word by hand, a token of it too, its last one with nothing
    known but its time."""
    talk = talk_alignment()
    first, dash, second, last = talk.words
    first = replace(
        first, by="hand", tokens=(replace(first.tokens[0], by="hand"), *first.tokens[1:])
    )
    last = replace(last, by="hand", confidence=None, tokens=())
    return json.loads(json.dumps(to_dict(replace(talk, words=(first, dash, second, last)))))


def test_words_by_hand_come_back_and_every_format_writes_them() -> None:
    alignment = from_dict(corrected())
    first, _, second, last = alignment.words
    assert (first.by, first.tokens[0].by, first.tokens[1].by, second.by, last.by) == (
        "hand",
        "hand",
        "",
        "",
        "hand",
    )
    assert last.confidence is None
    assert to_dict(alignment) == {**corrected(), "version": to_dict(alignment)["version"]}
    assert from_dict(to_dict(alignment)) == alignment
    assert "1 0.750 0.250 שלום 1.0000" in rendered(alignment, "ctm").decode()
    alignment: Alignment = from_dict(corrected())
    for format in FORMATS.keys() - {"smil"}:  # which needs a book
        assert rendered(alignment, format)


@over_rows(
    ("word", "token", "change", "message"),
    [
        (
            2,
            None,
            {"text": "13"},
            r"word 3 '13' \(0.400–0.700 s\): `text` has '12\"' at characters 11:14; a word that",
        ),
        (1, None, {"char_start": 7}, "word 2 '—' begins at character 7,"),
        (3, None, {"start_s": 1.0}, r"'שלום!' \(1.000–1.000 s, by hand\) is empty"),
        (3, None, {"end_s": 1.01}, "leaves the recording, which is 1.000 s long"),
        (
            2,
            None,
            {"end_s": 0.76},
            r"\(0.400–0.760 s\) and 'שלום!' \(0.750–1.000 s, by hand\) overlap: move",
        ),
        (2, None, {"start_s": 0.05}, "and '“Hello,”' .* overlap"),
        (0, 1, {"start_s": 0.1}, "its tokens cross each other"),
        (0, None, {"start_s": 0.2}, "its tokens cross each other or its edges"),
        (0, 1, {"start_s": 0.22}, "its token 'e' is empty: move them, or give it"),
        (2, 0, {"by": "hand"}, "token 'a' of '12\"' .* is hand-corrected, its word is not"),
        (2, None, {"by": "eye"}, r"words\[2\].by: expected one of hand"),
        (1, None, {"by": "hand"}, r"words\[1\]: expected no times.*got by: remove"),
    ],
)
def test_what_cannot_be_is_refused_by_name(
    word: int, token: int | None, change: dict[str, Any], message: str
) -> None:
    data = corrected()
    changed = data["words"][word]
    (changed if token is None else changed["tokens"][token]).update(change)
    with pytest.raises(InputError, match=f"^talk.json: .*{message}") as caught:
        from_dict(data, "talk.json")
    assert "\n" not in str(caught.value)


@over_rows(
    ("path", "value", "message"),
    [
        (("words", 2, "text"), "13", "word 3 '13' .*: `text` has"),
        (("words", 3, "char_end"), 999, "word 4 .*: `text` has"),
        (("words", 2, "end_s"), 0.76, "overlap"),
        (("words", 3, "end_s"), 1.01, "leaves the recording"),
        (
            ("words", 0, "start_s"),
            -0.1,
            "expected times from the start of the utterance on, got -0.1 s",
        ),
        (("words", 3, "confidence"), None, r"words\[3\]: expected times and confidence"),
        (("duration_s",), 0, "expected seconds above 0"),
        (("config", "tiers"), 5, "config.tiers"),
        (("config", "max_cps"), 0, "config.max_cps: expected a number from 1"),
        (("config", "frame_rate"), 0.5, "config.frame_rate"),
    ],
)
def test_words_that_nobody_corrected_are_checked_too(
    path: tuple[Any, ...], value: Any, message: str
) -> None:
    data = inner = json.loads(json.dumps(to_dict(talk_alignment())))
    for key in path[:-1]:
        inner = inner[key]
    inner[path[-1]] = value
    with pytest.raises(InputError, match=f"^a.json: .*{message}"):
        from_dict(data, "a.json")


def test_an_alignment_prints_as_one_line(talk: Alignment) -> None:
    assert len(repr(talk)) < 120
    assert "Alignment of 'my talk'" in str(talk)
