from __future__ import annotations

import dataclasses
import errno
import functools
import io
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from ctc_align.errors import OutputError, UsageError
from ctc_align.files import (
    FORMATS,
    OutputFiles,
    from_dict,
    parse_formats,
    read_alignment,
    to_dict,
)
from ctc_align.types import Alignment

try:
    import resource
except ImportError:
    resource = None  # type: ignore[assignment]

ALL = ("json", "ctm", "textgrid")
NAMES = ["a.TextGrid", "a.ctm", "a.json", "a.tokens.ctm"]


def listed(folder: Path) -> list[str]:
    return sorted(os.listdir(folder))


@pytest.fixture
def disk_full(monkeypatch):
    """Writes succeed until `room` bytes are spent, the last one only in part."""

    def arrange(room: int) -> None:
        class Full(io.FileIO):
            def write(self, data):
                nonlocal room
                super().write(data[:room])
                if len(data) > room:
                    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
                room -= len(data)

        monkeypatch.setattr("ctc_align.files.alignment_files.open", Full, raising=False)

    return arrange


def test_writes_every_format(talk, tmp_path):
    out = tmp_path / "new" / "folder"
    paths = OutputFiles(out, "a", ALL).write(talk)
    assert sorted(path.name for path in paths) == listed(out) == NAMES
    assert (
        dataclasses.replace(read_alignment(out / "a.json"), written=None).to_dict()
        == talk.to_dict()
    )
    assert (out / "a.json").stat().st_mode & 0o777 == 0o666 & ~_umask()
    alignment = dataclasses.replace(talk, audio="caf\udce9.wav", utterance="caf\udce9")
    OutputFiles(tmp_path, "a", ALL).write(alignment)
    assert read_alignment(tmp_path / "a.json").audio == "caf\udce9.wav"
    assert (tmp_path / "a.ctm").read_text("utf-8").startswith(";; caf? loss")


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask


def test_what_exists_or_is_an_input_is_not_overwritten(talk, tmp_path):
    (tmp_path / "a.ctm").write_text("mine")
    with pytest.raises(OutputError, match=r"a\.ctm: already exists; give --force"):
        OutputFiles(tmp_path, "a", ALL).write(talk)
    assert listed(tmp_path) == ["a.ctm"]
    assert (tmp_path / "a.ctm").read_text() == "mine"
    source = tmp_path / "a.json"
    source.write_text("my transcript")
    (tmp_path / "link").symlink_to(tmp_path)
    with pytest.raises(OutputError, match="is an input"):
        OutputFiles(tmp_path / "link", "a", ALL, force=True, protect=[source]).write(talk)
    assert source.read_text() == "my transcript"


def test_what_a_person_fixed_is_replaced_only_by_what_holds_it(talk, tmp_path, caplog):
    first, *others = talk.words
    tokens = (dataclasses.replace(first.tokens[0], by="hand"), *first.tokens[1:])
    words = (dataclasses.replace(first, by="hand", tokens=tokens), *others)
    fixed = from_dict(to_dict(dataclasses.replace(talk, words=words)))
    files = OutputFiles(tmp_path, "a", ("json", "ctm"), force=True)
    save = functools.partial(Alignment.save, path=tmp_path / "a.json", force=True)
    for _ in range(2):
        files.write(fixed)
    assert listed(tmp_path) == ["a.ctm", "a.json", "a.tokens.ctm"], "nothing is lost"
    before = (tmp_path / "a.json").read_bytes()
    for expected, write in {"a.hand.json": files.write, "a.hand-2.json": save}.items():
        write(talk)
        assert (tmp_path / expected).read_bytes() == before
        assert expected in caplog.messages[-1]
        assert read_alignment(tmp_path / "a.json").to_dict() == talk.to_dict()
        files.write(talk)
        (tmp_path / "a.json").write_bytes(before)
    assert len(caplog.messages) == 2
    (tmp_path / "a.json").write_text(json.dumps(dataclasses.replace(talk, checked=True).to_dict()))
    save(talk)
    assert read_alignment(tmp_path / "a.hand-3.json").checked, "a sign-off is a person's work, too"


@pytest.mark.parametrize(("room", "force"), [(0, False), (100, True), (1000, False), (2000, True)])
def test_full_disk_leaves_nothing_half_written(talk, tmp_path, disk_full, room, force):
    if force:
        (tmp_path / "a.json").write_text("old")
    disk_full(room)
    with pytest.raises(OutputError, match=r"No space left on device.*nothing was written"):
        OutputFiles(tmp_path, "a", ALL, force=force).write(talk)
    assert listed(tmp_path) == (["a.json"] if force else [])
    assert not force or (tmp_path / "a.json").read_text() == "old"
    disk_full(10**6)
    OutputFiles(tmp_path, "a", ALL, force=force).write(talk)
    assert listed(tmp_path) == NAMES, "the simulated disk has room for what fits"
    assert (tmp_path / "a.json").read_text() != "old"


ROOT = Path(__file__).resolve().parents[2]
LIMITED = """
import resource, sys
from ctc_align.errors import OutputError
from ctc_align.files import OutputFiles
from sample_alignments import talk_alignment
resource.setrlimit(resource.RLIMIT_FSIZE, (int(sys.argv[1]),) * 2)
try:
    OutputFiles(sys.argv[2], "a", ("ctm", "json")).write(talk_alignment())
except OutputError as error:
    print(error)
"""


@pytest.mark.skipif(resource is None, reason="no limits of file size here")
def test_a_limit_of_the_system_half_way_leaves_nothing(talk, tmp_path):
    """The limit is set in a process of its own."""
    OutputFiles(tmp_path / "sizes", "a", ("ctm", "json")).write(talk)
    ctm, json = ((tmp_path / "sizes" / name).stat().st_size for name in ("a.ctm", "a.json"))
    assert ctm < json
    command = [sys.executable, "-c", LIMITED, str((ctm + json) // 2), str(tmp_path / "out")]
    paths = os.pathsep.join(str(ROOT / name) for name in (".", "tests/support"))
    done = subprocess.run(
        command, env=os.environ | {"PYTHONPATH": paths}, capture_output=True, text=True, check=True
    )
    assert "File too large" in done.stdout
    assert listed(tmp_path / "out") == []


@pytest.mark.parametrize(
    ("stop", "error", "says"),
    [
        (KeyboardInterrupt(), KeyboardInterrupt, "^$"),
        (
            OSError(errno.EACCES, "Permission denied"),
            OutputError,
            r"a\.ctm: writing failed \(Permission denied\)",
        ),
    ],
)
def test_what_stops_the_placing_takes_back_what_was_placed(
    talk, tmp_path, monkeypatch, stop, error, says
):
    real_replace = os.replace

    def stops_at_ctm(source, target):
        if str(target).endswith(".ctm"):
            raise stop
        real_replace(source, target)

    monkeypatch.setattr(os, "replace", stops_at_ctm)
    with pytest.raises(error, match=says):
        OutputFiles(tmp_path, "a", ALL).write(talk)
    assert listed(tmp_path) == []


@pytest.mark.parametrize(
    ("below", "says"), [("file/below", "expected a folder"), ("", "is a folder")]
)
def test_what_cannot_be_written_is_an_error_before_any_work(tmp_path, below, says):
    (tmp_path / "file").write_text("")
    (tmp_path / "a.json").mkdir()
    with pytest.raises(OutputError, match=says):
        OutputFiles(tmp_path / below, "a", ALL, force=True)


def test_folder_without_permission_told_by_the_system(tmp_path, monkeypatch):
    monkeypatch.setattr(os, "access", lambda *_: False)
    with pytest.raises(OutputError, match="cannot be written"):
        OutputFiles(tmp_path / "new", "a", ALL)
    assert listed(tmp_path) == []


@pytest.mark.parametrize(
    "name",
    ["b.json", "b.CTM", "b.tokens.ctm", "b.textgrid", "b.srt", "b.vtt", "b.tsv", "b.audacity.txt"],
)
def test_save_takes_the_format_from_the_name(talk, tmp_path, name):
    talk.save(tmp_path / name)
    assert listed(tmp_path) == [name]
    content = (tmp_path / name).read_text("utf-8")
    assert ("my_talk 1 0.100 0.060 h" in content) == ("tokens" in name)
    with pytest.raises(OutputError, match="already exists"):
        talk.save(tmp_path / name)
    talk.save(tmp_path / name, force=True)


def test_formats_by_their_names(talk, tmp_path):
    assert parse_formats("CTM,json,ctm") == ("ctm", "json")
    for wrong in ("", ",", "json,doc"):
        with pytest.raises(UsageError, match="expected formats out of json, ctm, textgrid"):
            parse_formats(wrong)
    with pytest.raises(UsageError, match=r"\.TextGrid"):
        talk.save(tmp_path / "b.doc")


def test_the_page_of_formats_says_what_the_table_says():
    page = (Path(__file__).parents[2] / "docs" / "formats.md").read_text("utf-8")
    rows = [
        [cell.strip() for cell in line.split("|")[1:-1]]
        for line in page.splitlines()
        if line.startswith("| `")
    ]
    said = {name.strip("`"): (files, leaves_out) for name, files, _, _, leaves_out, *_ in rows}
    missing = FORMATS.keys() - said.keys()
    assert missing == {"html", "png", "svg"}, "a format needs a row in docs/formats.md"
    for name, found in said.items():
        files = ", ".join(f"`NAME{extension}`" for extension in FORMATS[name].files)
        assert found == (files, FORMATS[name].leaves_out)
