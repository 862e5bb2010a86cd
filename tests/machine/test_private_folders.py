"""Folders whose files run as code: what others can have written to is not used."""

from __future__ import annotations

import os
import stat
import sys
import types
from collections.abc import Callable
from pathlib import Path

import pytest

from ctc_align.machine import private_folders
from ctc_align.machine.private_folders import (
    make_private_folder,
    read_private_file,
    user_folder,
    why_not_trusted,
)

grp = pytest.importorskip("grp", reason="this system has no owners of files")
pwd = pytest.importorskip("pwd")

OTHER = 12346
as_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root can give files to another user")


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """A folder that is trusted, with a folder `kernels` in it that is, too."""
    place = tmp_path / "place"
    (place / "kernels").mkdir(parents=True)
    place.chmod(0o755)
    (place / "kernels").chmod(0o755)
    return place


def move_behind_link_of_other(place: Path) -> None:
    """What the user unpacked, behind a link that a neighbour put into a folder such as /tmp."""
    (place / "kernels").rename(place.with_name("unpacked"))
    (place / "kernels").symlink_to(place.with_name("unpacked"))
    os.chown(place / "kernels", OTHER, OTHER, follow_symlinks=False)
    place.chmod(0o1777)


def link_in_circle(place: Path) -> None:
    (place / "kernels").rmdir()
    (place / "kernels").symlink_to(place / "kernels")


def put_file_in_way(place: Path) -> None:
    (place / "kernels").rmdir()
    (place / "kernels").write_text("")


FAULTS = (
    pytest.param(
        lambda place: (place / "kernels").chmod(0o777), "others may write to", id="all may write"
    ),
    pytest.param(
        lambda place: (place / "kernels").chmod(0o775),
        "others may write to",
        id="the group may write",
    ),
    pytest.param(
        lambda place: (place / "kernels").chmod(0o1777), "others may write to", id="shared"
    ),
    pytest.param(lambda place: place.chmod(0o777), "others may write to", id="all may write above"),
    pytest.param(
        lambda place: place.chmod(0o770), "others may write to", id="the group may write above"
    ),
    pytest.param(link_in_circle, "Too many levels of symbolic links", id="a circle"),
    pytest.param(put_file_in_way, "is not a folder", id="a file"),
    pytest.param(
        lambda place: os.chown(place / "kernels", OTHER, 0),
        "another user",
        id="another's",
        marks=as_root,
    ),
    pytest.param(
        lambda place: os.chown(place, OTHER, 0), "another user", id="below another's", marks=as_root
    ),
    pytest.param(move_behind_link_of_other, "another user", id="another's link", marks=as_root),
)


@pytest.mark.parametrize(("spoil", "reason"), FAULTS)
def test_a_folder_that_others_can_change_is_not_trusted(
    spoil: Callable[[Path], object], reason: str, place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(private_folders, "_is_group_of_user_alone", lambda group: False)
    assert why_not_trusted(place / "kernels") is None
    spoil(place)
    assert reason in (why_not_trusted(place / "kernels") or "trusted")
    with pytest.raises(PermissionError, match=reason):
        make_private_folder(place / "kernels")


def test_a_relative_folder_is_not_trusted() -> None:
    assert "not an absolute path" in (why_not_trusted(Path("kernels")) or "trusted")


def test_folders_that_nobody_else_can_change_are_trusted(place: Path) -> None:
    """Behind one's own link, in a shared folder, and where there is none yet."""
    (place / "link").symlink_to("../place/kernels")
    place.chmod(0o1777)
    for name in ("kernels", "link", "not/there"):
        assert why_not_trusted(place / name) is None
    make_private_folder(private_folders.private_folder_in(place, "mine"))
    assert (place / f"mine-{os.geteuid()}").is_dir()


def test_a_group_of_the_user_alone_is_the_user(monkeypatch: pytest.MonkeyPatch) -> None:
    """As Ubuntu has it, where what one makes may be written by the group."""
    user = types.SimpleNamespace(pw_uid=1000, pw_gid=1000, pw_name="ann")
    groups = {1000: ("ann", []), 1001: ("staff", []), 1002: ("ann", [])}
    monkeypatch.setattr(pwd, "getpwuid", lambda number: user)
    monkeypatch.setattr(
        grp,
        "getgrgid",
        lambda number: types.SimpleNamespace(gr_name=groups[number][0], gr_mem=groups[number][1]),
    )
    assert [private_folders._is_group_of_user_alone(number) for number in groups] == [
        True,
        False,
        False,
    ]
    groups[1000] = ("ann", ["ann", "bob"])
    assert not private_folders._is_group_of_user_alone(1000)


@pytest.mark.parametrize("mask", [0, 0o77, 0o777])
def test_folders_and_files_are_private_whatever_the_umask(mask: int, place: Path) -> None:
    before = os.umask(mask)
    try:
        make_private_folder(place / "a" / "b")
        make_private_folder(place / "c", 0o755)
        private_folders.write_private_file(place / "a" / "file", b"x")
        private_folders.write_private_file(place / "c" / "file", b"x", 0o755)
    finally:
        os.umask(before)
    modes = [
        stat.S_IMODE((place / name).stat().st_mode)
        for name in ("a", "a/b", "c", "a/file", "c/file")
    ]
    assert modes == [0o700, 0o700, 0o755, 0o600, 0o644]
    assert read_private_file(place / "a" / "file") == b"x"


FILE_FAULTS = (
    pytest.param(lambda path: path.chmod(0o664), "others may write", id="the group may write"),
    pytest.param(lambda path: path.chmod(0o606), "others may write", id="all may write"),
    pytest.param(
        lambda path: os.chown(path, OTHER, 0), "another user", id="another's", marks=as_root
    ),
    pytest.param(lambda path: (path.unlink(), os.mkfifo(path)), "not a regular file", id="a pipe"),
    pytest.param(
        lambda path: path.symlink_to(path.rename(path.with_name("far"))),
        "symbolic links",
        id="a link",
    ),
)


@pytest.mark.parametrize(("spoil", "reason"), FILE_FAULTS)
def test_a_file_that_others_can_have_written_is_not_read(
    spoil: Callable[[Path], object], reason: str, tmp_path: Path
) -> None:
    path = tmp_path / "file"
    private_folders.write_private_file(path, b"code")
    assert read_private_file(path) == b"code"
    spoil(path)
    with pytest.raises(OSError, match=reason):
        read_private_file(path)


@pytest.mark.skipif(sys.platform == "darwin", reason="XDG's folders are Linux's")
def test_an_empty_or_relative_cache_home_is_none(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    for given in ("", ".", "cache"):
        monkeypatch.setenv("XDG_CACHE_HOME", given)
        assert user_folder("x", "cache") == tmp_path / ".cache" / "x"
        private_folders.unset_relative_cache_home()
        assert "XDG_CACHE_HOME" not in os.environ
    monkeypatch.setenv("XDG_CACHE_HOME", "/caches")
    private_folders.unset_relative_cache_home()
    assert user_folder("x", "cache") == Path("/caches/x")
    monkeypatch.delenv("XDG_CACHE_HOME")
    monkeypatch.setenv("HOME", "home")
    assert user_folder("x", "cache") is None


def test_windows_uses_the_profile_alone(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    from ctc_align.kernels.cpu import compilation

    monkeypatch.setattr(compilation, "HAS_OWNERS", False)
    monkeypatch.setattr(private_folders.sys, "platform", "win32")
    monkeypatch.setenv(compilation.CHOSEN, "/chosen")
    monkeypatch.setenv(compilation.SHARED, "/shared")
    for given, folder in (
        ("/profile/local", "/profile/local"),
        ("local", tmp_path / "AppData/Local"),
        ("", tmp_path / "AppData/Local"),
    ):
        monkeypatch.setenv("HOME", str(tmp_path))
        monkeypatch.setenv("LOCALAPPDATA", given)
        assert compilation.cache_places() == [Path(folder, "ctc-align", "Cache")]


def test_a_relative_folder_of_a_variable_is_ignored_with_one_warning(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    private_folders._WARNED.clear()
    for given, folder in (("", None), ("cache", None), ("cache", None), ("/cache", Path("/cache"))):
        monkeypatch.setenv("NUMBA_CACHE_DIR", given)
        assert private_folders.read_folder_variable("NUMBA_CACHE_DIR") == folder
    assert [record.getMessage() for record in caplog.records] == [
        "NUMBA_CACHE_DIR=cache is ignored: expected an absolute path"
    ]


def test_triton_gets_a_folder_of_the_user_in_a_shared_one(
    monkeypatch: pytest.MonkeyPatch, place: Path, caplog: pytest.LogCaptureFixture
) -> None:
    def used(chosen: Path | str) -> str | None:
        monkeypatch.setenv("TRITON_CACHE_DIR", str(chosen))
        private_folders.use_private_folder("TRITON_CACHE_DIR", "triton")
        return os.environ.get("TRITON_CACHE_DIR")

    own = place / "kernels"
    assert [used(chosen) for chosen in ("", own, place / "new")] == [
        "",
        str(own),
        str(place / "new"),
    ]
    own.chmod(0o1777)
    assert used(own) == str(own / f"triton-{os.geteuid()}")
    assert not caplog.records
    own.chmod(0o777)
    assert [used(chosen) for chosen in (own, "kernels")] == [None, None]
    assert ["others may write" in caplog.text, "not an absolute path" in caplog.text] == [
        True,
        True,
    ]


def test_the_backend_of_the_gpu_is_imported_with_a_folder_of_the_user(
    monkeypatch: pytest.MonkeyPatch, place: Path
) -> None:
    from ctc_align import kernels

    place.chmod(0o1777)
    monkeypatch.setenv("TRITON_CACHE_DIR", str(place))
    monkeypatch.delitem(sys.modules, "ctc_align.kernels.gpu.gpu_backend", raising=False)
    monkeypatch.setattr(kernels, "import_module", lambda name: os.environ["TRITON_CACHE_DIR"])
    assert kernels._module("gpu") == str(place / f"triton-{os.geteuid()}")
