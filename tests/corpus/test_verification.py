"""Outputs compared with what the journal recorded of them: every changed byte is seen, and nothing that is whole."""

from __future__ import annotations

import dataclasses
import os
import random

from corpus_runs import journal_line
from layout_runs import made_alignment, made_utterances, run, settings_of
from rows import over_rows

from ctc_align.corpus.outputs.assembly import Assembly
from ctc_align.corpus.outputs.layout import Layout, layout_for
from ctc_align.corpus.outputs.shared_files import GroupedUtterance
from ctc_align.corpus.state.journal import DONE, FAILED, Line
from ctc_align.corpus.utterance import Utterance

FAILING = "r1/u5"
FLIPS = int(os.environ.get("FLIPS", "1"))
"""Bits that are flipped in each file."""


def recorded(layout: Layout, utterances: list[Utterance]) -> dict[str, Line]:
    """The lines of utterances whose outputs are in their places; their own files are written once more."""
    lines = {}
    for index, utterance in enumerate(utterances):
        if utterance.id != FAILING:
            placed = layout.place(index, utterance, made_alignment(utterance))
            lines[utterance.id] = journal_line(utterance.id, DONE, files=placed.files, row=placed.row)
    return lines


def found(layout: Layout, utterances: list[Utterance], lines: dict[str, Line]) -> dict[str, str]:
    """What is wrong, by utterance."""
    faults: dict[str, str] = {}
    groups: dict[str | None, list] = {}
    for index, utterance in enumerate(utterances):
        member = (GroupedUtterance.of(index, utterance), lines.get(utterance.id))
        groups.setdefault(layout.group(index, utterance), []).append(member)
    with Assembly(layout) as assembly:
        for name, members in groups.items():
            faults |= assembly.faults(name, members)
    return faults


@over_rows(("layout", "overlap"), [("files", False), ("files", True), ("shards", False)])
def test_every_changed_byte_is_seen(layout, overlap, audio, tmp_path_factory):
    folder, chance = tmp_path_factory.mktemp(layout), random.Random(layout)
    utterances = made_utterances(audio)
    if overlap:
        utterances = [dataclasses.replace(utterance, duration_s=1.2) for utterance in utterances]
    settings = settings_of(folder, layout, cut="pause")
    run(settings, utterances, failing=[FAILING])
    made = layout_for(settings)
    lines = recorded(made, utterances)
    assert found(made, utterances, lines) == {}
    for number, path in enumerate(sorted(path for path in folder.rglob("*") if path.is_file())):
        if path.name.startswith("manifest") or path.name == "journal.txt":
            continue  # manifests are made anew at the end of each run
        whole = path.read_bytes()
        last_bits = [len(whole) - 9] if path.suffix == ".gz" else []  # those of the content that mean nothing, too
        flips = 0 if overlap and path.suffix == ".TextGrid" else FLIPS  # words that others cut are not compared
        for place in [*last_bits, *chance.sample(range(len(whole)), min(len(whole), flips))]:
            data = bytearray(whole)
            data[place] ^= 1 << (7 if place in last_bits else chance.randrange(8))
            path.write_bytes(data)
            assert found(made, utterances, lines), f"{path.name}: byte {place}"
        damages = [whole + b"\0", whole + whole, whole[: len(whole) // 2], b""]
        for data in damages if FLIPS > 1 else [damages[number % 4]]:
            path.write_bytes(data)
            assert found(made, utterances, lines), f"{path.name}: {len(data)} of {len(whole)} bytes"
        path.unlink()
        assert found(made, utterances, lines), f"{path.name} is gone"
        path.write_bytes(whole)
    assert found(made, utterances, lines) == {}


def test_only_files_of_an_earlier_success_go_when_an_utterance_fails(audio, tmp_path):
    """A journal may have been changed: names that cannot be the utterance's own are left alone."""
    out_dir = tmp_path / "out"
    layout = layout_for(settings_of(out_dir, "files", cut="pause"))
    utterance = dataclasses.replace(made_utterances(audio, 1)[0], recording="")
    other = tmp_path / "precious"
    other.write_text("theirs")
    (out_dir / "r0").mkdir()
    (out_dir / "r0" / "u0.txt").write_text("theirs")
    with Assembly(layout) as assembly:
        files = layout.place(0, utterance, made_alignment(utterance)).files
        forged = {"../precious": (6, ""), "r0/u0.txt": (6, ""), str(other): (6, "")}
        for line in (journal_line(utterance.id, FAILED), journal_line("other", FAILED)):
            assembly.remove_stale(utterance, line)
            assert all((out_dir / name).is_file() for name in files), "what had failed already has no files of ours"
        assembly.remove_stale(utterance, journal_line(utterance.id, DONE, files=files | forged))
        left = sorted(path.relative_to(tmp_path).as_posix() for path in tmp_path.rglob("*") if path.is_file())
        assert left == ["out/r0/u0.txt", "precious"]
        layout.place(0, utterance, made_alignment(utterance))
        assembly.remove_stale(utterance, None)
        assert not (out_dir / "r0" / "u0.json").exists(), "the JSON says whose they are"
        (out_dir / "r0" / "u0.json").write_text('{"format": "theirs", "utterance": "r0/u0"}')
        assembly.remove_stale(utterance, None)
        assert (out_dir / "r0" / "u0.json").exists()
