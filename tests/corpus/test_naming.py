"""Ids become outputs that stay where they belong, one each; fed with what people and attackers
write."""

from __future__ import annotations

import os
import unicodedata
from pathlib import PureWindowsPath

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from ctc_align.sources import utterance_ids
from ctc_align.sources.utterance_ids import (
    MAX_OUTPUT_BYTES,
    MAX_PART_BYTES,
    TakenError,
    UsedIds,
    output_of,
)

PIECES = (
    *(
        "é",
        "..",
        "../",
        "%2F",
        "%2E",
        "%25",
        "%5C",
        "C:",
        "summary",
        "journal",
        ".json",
        "ß",
        "SS",
        "ſummary",
    ),
    *(".tokens", ".ctc-align", "manifest.nemo", "alignments-00000", "-2"),
)
# few letters, so that what is special meets often
NASTY = st.lists(
    st.sampled_from([*"aAb.%/\\:~-\0\n é\x7f", *PIECES, "x" * 250, "/" * 3]), min_size=1, max_size=8
).map("".join)
IDS = NASTY | st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=40)
EXTENSIONS = (".json", ".ctm", ".tokens.ctm", ".TextGrid", ".srt", ".png", ".jsonl")
OURS = {
    "journal.jsonl",
    "summary.json",
    "journal.0-of-2.jsonl",
    "manifest.nemo.jsonl",
    "alignments-00000.ctm",
}


def files_of(output: str) -> set[str]:
    return {output + extension for extension in EXTENSIONS}


def folders_of(output: str) -> set[str]:
    parts = output.split("/")
    return {"/".join(parts[:i]) for i in range(1, len(parts))}


@given(IDS)
@example("../../etc/passwd")
@example("/etc/passwd")
@example("C:\\Windows\\system32")
@example("C:/x")
@example("a/./b/../../..")
@example("a\0b")
@example("x" * 10_000)
@example("é" * 130)
@example("x/" * 3000 + "y")
@example("😀" * 70)
@example(".ctc-align-spool")
@example("journal.jsonl/a")
def test_an_output_is_a_plain_path_below_the_folder(id):
    output = output_of(id)
    root = "/out"
    for file in files_of(output):
        assert os.path.normpath(os.path.join(root, file)) == f"{root}/{file}"
    parts = output.split("/")
    assert all(part not in ("", ".", "..") for part in parts)
    assert all(len(part.encode()) <= 255 - len(".tokens.ctm") for part in parts)
    assert len(output.encode()) <= MAX_OUTPUT_BYTES
    assert not any(char < " " or char in "\\\x7f" for char in output)
    assert not utterance_ids._DRIVE.match(output)
    assert not any(part.casefold().startswith(".ctc-align") for part in parts)
    assert not {file.casefold() for file in files_of(output)} & OURS
    assert not folders_of(output) & OURS


@given(st.lists(IDS, max_size=8, unique=True))
@example(["a", "a.tokens"])
@example(["a", "a.json/b"])
@example(["a", "a.png/b"])
@example(["a%5Cb", "a\\b", "a%255Cb"])
@example(["%2F/a", "/a"])
@example(["%2E%2E/a", "../a"])
@example(["%73ummary", "summary"])
@example(["é" * 130, "é" * 131])
@example(["%", "%%", "%\\", "%2\\", "%2", "%25", "%2F", ""])
def test_two_ids_share_no_file(ids):
    outputs = [output_of(id) for id in ids]
    files = [file for output in outputs for file in files_of(output)]
    assert len(set(files)) == len(files)
    assert not set(files) & {folder for output in outputs for folder in folders_of(output)}


@pytest.mark.parametrize(
    "id",
    [
        "84/121123/84-121123-0000",
        'it\'s "so".v1',
        "日本/語 é",
        "a b",
        "100%",
        "xy:z",
        "~a",
        "-a",
        "a.b.c",
        "sub/summary",
    ],
)
def test_what_is_harmless_is_mirrored(id):
    assert output_of(id) == id


DEVICES = (
    "CON",
    "PRN",
    "AUX",
    "NUL",
    *(f"{name}{digit}" for name in ("COM", "LPT") for digit in "0123456789¹²³"),
)


@given(IDS)
@example("aux.json")
@example("COM1 .x/a/lpt²")
@example("a:b")
@example("D:/a?*/b. ")
@example("... ")
def test_an_output_is_a_plain_path_on_windows_too(id):
    output = output_of(id, windows=True)
    assert PureWindowsPath(f"C:/out/{output}").parts == ("C:\\", "out", *output.split("/"))
    for part in output.split("/"):
        assert not set(part) & set('<>:"|?*\\')
        assert part[-1] not in ". "
        assert part.partition(".")[0].rstrip().upper() not in DEVICES


def test_on_windows_two_ids_share_no_file_either():
    ids = [
        "a:b",
        "a%3Ab",
        "a.",
        "a%2E",
        "nul",
        "%6Eul",
        "n%75l",
        "a?",
        "a*",
        "a?b/c",
        "a b",
        "a ",
        "a%20",
    ]
    assert len({output_of(id, windows=True) for id in ids}) == len(ids)


def fold(output):
    return unicodedata.normalize("NFD", unicodedata.normalize("NFD", output).casefold())


@given(st.lists(IDS, max_size=12), st.booleans())
@example(["A", "a", "A", "a"], True)
@example(["é", "e\u0301"], True)
@example(["straße", "STRASSE", "Straße"], True)
def test_names_keep_the_promise_over_a_whole_source(ids, fold_case):
    names = UsedIds(fold_case=fold_case)
    outputs, seen = [], {}
    for place, id in enumerate(ids, 1):
        assert names.has(id) == (id in seen)
        if id in seen:
            with pytest.raises(TakenError) as caught:
                names.claim(id, place)
            assert (caught.value.line, caught.value.made) == (seen[id], False)
            continue
        outputs.append(names.claim(id, place))
        seen[id] = place
    keys = [fold(output) if fold_case else output for output in outputs]
    assert len(set(keys)) == len(keys)
    if not fold_case:
        assert outputs == [output_of(id) for id in seen]


@given(
    st.lists(
        st.tuples(st.booleans(), st.sampled_from(["a", "a-2", "a-3", "a-4", "b", "A", "a-2-2"])),
        max_size=30,
    )
)
def test_made_names_are_unique_beside_given_ones(rows):
    names, taken, outputs = UsedIds(fold_case=True), {}, set()
    for place, (is_given, name) in enumerate(rows, 1):
        if is_given and name in taken:
            with pytest.raises(TakenError) as caught:
                names.claim(name, place)
            assert (caught.value.line, not caught.value.made) == taken[name]
            continue
        id, output = (name, names.claim(name, place)) if is_given else names.make(name, place)
        assert id not in taken
        assert fold(output) not in outputs
        taken[id] = (place, is_given)
        outputs.add(fold(output))


def test_made_names_count_without_gaps_and_without_looking_at_all_of_them(monkeypatch):
    names, looks = UsedIds(), 0
    is_used = UsedIds._is_used

    def counted(self, id):
        nonlocal looks
        looks += 1
        return is_used(self, id)

    monkeypatch.setattr(UsedIds, "_is_used", counted)
    made = [names.make("audio", place)[0] for place in range(1, 2001)]
    assert made == ["audio", *(f"audio-{number}" for number in range(2, 2001))]
    assert looks < 2000 * 25


def test_hashes_that_meet_cost_a_suffix_and_never_a_file(monkeypatch):
    """Keys that all but collide: 3 bits of hash."""
    monkeypatch.setattr(utterance_ids, "hash64", lambda name: sum(name) % 8 + 1)
    names = UsedIds()
    outputs = [names.claim(f"id{number}", number) for number in range(4)]
    assert len(set(outputs)) == 4


def test_a_shortened_name_tells_where_it_came_from_and_fits():
    first, second = "é" * 200 + "1", "é" * 200 + "2"
    assert output_of(first) != output_of(second)
    assert output_of(first).startswith("é" * 80)
    assert len(output_of(first).encode()) <= MAX_PART_BYTES
    assert output_of("é" * 100) == "é" * 100
