"""Folders for temporary files: those of killed programs go with the next start, those of running
ones stay."""

from __future__ import annotations

from pathlib import Path

import pytest

from ctc_align.machine.own_folders import own_folder

PREFIX = "ctc-align-test-"


def test_the_next_start_removes_what_a_killed_program_left_and_nothing_else(
    tmp_path: Path, monkeypatch
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    dead, other = tmp_path / f"{PREFIX}{'0' * 32}", tmp_path / f"{PREFIX}mine"
    for folder in (dead, other):
        folder.mkdir()
        (folder / "audio").write_bytes(b"x")
    (tmp_path / f"{dead.name}.lock").touch()
    lone = tmp_path / f"{PREFIX}{'1' * 32}.lock"
    lone.touch()
    with own_folder(PREFIX) as running:
        assert not dead.exists()
        assert not Path(f"{dead}.lock").exists()
        assert not lone.exists(), "of a program that was killed before it had its folder"
        assert other.exists(), "of another name"
        with own_folder(PREFIX):
            assert running.exists(), "its program runs"
    with pytest.raises(ZeroDivisionError), own_folder(PREFIX):
        _ = 1 / 0
    assert [path.name for path in tmp_path.iterdir()] == [other.name]
