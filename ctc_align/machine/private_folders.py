"""Folders whose files run as code when they are read.

Where they lie, and whether others can have written to them.

Such files are read only if nobody but the user, root and the owner of the installed package (whose
code runs anyway) can have made them. That is decided by every folder and link on the way from the
root folder to the file: each belongs to one of these three, and others may write to none, except
that they may add names to a folder with the sticky bit, such as /tmp, where they cannot replace
names that are not theirs. Then nobody else can change the way between a check and the reading,
either. Windows has no such owners and modes: only folders of the user's profile are used there.
"""

from __future__ import annotations

import errno
import functools
import logging
import os
import stat
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

HAS_OWNERS = hasattr(os, "geteuid")
"""True where the system says who owns a file and who may write to it, as Windows does not."""
PRIVATE = 0o700
"""The mode of folders of one user."""
_MOST_LINKS = 40
"""As many links as Linux follows."""
_ROOT = 0
_OTHERS_MAY_WRITE = stat.S_IWGRP | stat.S_IWOTH

logger = logging.getLogger(__name__)

_WARNED: set[tuple[str, str]] = set()
"""Variables and relative paths that were warned of."""


def read_folder_variable(variable: str) -> Path | None:
    """Return the absolute path that an environment variable has, None if it is unset or empty.

    A relative path would name a folder of whoever made the current folder: it is ignored, which is
    said once.
    """
    given = os.environ.get(variable, "")
    if given and not os.path.isabs(given):
        _warn_of_relative(variable, given)
    return Path(given) if os.path.isabs(given) else None


def _warn_of_relative(variable: str, given: str) -> None:
    if (variable, given) in _WARNED:
        return
    _WARNED.add((variable, given))  # first: a handler of the warning may read the variable, too
    logger.warning("%s=%s is ignored: expected an absolute path", variable, given)


def unset_relative_cache_home() -> None:
    """Unset an empty or relative XDG_CACHE_HOME, which counts as unset.

    This is for the libraries of this process, too.

    The XDG Base Directory Specification says so; PyTorch and others would look in the current
    folder.
    """
    if not os.path.isabs(os.environ.get("XDG_CACHE_HOME", "/")):
        del os.environ["XDG_CACHE_HOME"]


_USER_FOLDERS = {
    "cache": ("Cache", "Caches", "XDG_CACHE_HOME", ".cache"),
    "state": ("State", "Application Support", "XDG_STATE_HOME", ".local/state"),
}
"""For each kind its name on Windows and on macOS, and its variable and default elsewhere."""


def user_folder(program: str, kind: str) -> Path | None:
    """Return the folder of a program in the user's profile.

    Return None if the user has no home folder.

    Args:
        program: its name.
        kind: cache, for files that can be made again, or state, for those that must last.
    """
    home = os.path.expanduser("~")
    on_windows, on_macos, variable, default = _USER_FOLDERS[kind]
    if sys.platform == "win32":
        base = os.environ.get("LOCALAPPDATA", "")
        if not os.path.isabs(base):
            base = os.path.join(home, "AppData", "Local")
        program = os.path.join(program, on_windows)
    elif sys.platform == "darwin":
        base = os.path.join(home, "Library", on_macos)
    else:
        base = os.environ.get(variable, "")
        if not os.path.isabs(base):
            base = os.path.join(home, default)
    if os.path.isabs(base):
        return Path(base, program)
    return None


def is_shared(place: Path) -> bool:
    """Return whether several users may write to a folder."""
    try:
        return HAS_OWNERS and bool(place.stat().st_mode & _OTHERS_MAY_WRITE)
    except OSError:
        return False


def private_folder_in(place: Path, name: str) -> Path:
    """Return the folder `name` of a place, one for each user where the place is shared."""
    if is_shared(place):
        return place / f"{name}-{os.geteuid()}"
    return place / name


def use_private_folder(variable: str, name: str) -> None:
    """Let a variable that names a library's folder name one that is trusted, or none.

    Where the folder is shared, each user gets the folder `name` in it. One that others can change
    is unset, which is said.
    """
    chosen = os.environ.get(variable)
    if not chosen:
        return
    place = Path(chosen)
    if is_shared(place):
        folder = private_folder_in(place, name)
    else:
        folder = place
    try:
        make_private_folder(folder)
        os.environ[variable] = str(folder)
    except OSError as error:
        del os.environ[variable]
        logger.warning("%s=%s is not used: %s", variable, chosen, error.strerror)


def make_private_folder(folder: Path, mode: int = PRIVATE) -> None:
    """Make a folder, and those above it, with this mode whatever the umask is.

    One that is there stays as it is.

    Raises:
        OSError: it cannot be made, or somebody else may have put files into it.
    """
    _refuse(why_not_trusted(folder))
    missing = [path for path in (folder, *folder.parents) if not path.exists()]
    for path in reversed(missing):
        with suppress(FileExistsError):
            path.mkdir(PRIVATE)
            path.chmod(mode)
    _refuse(why_not_trusted(folder))


def read_private_file(path: Path, *, is_secret: bool = False) -> bytes:
    """Return the content of a file in a folder that is trusted.

    Raises:
        OSError: it cannot be read, is no regular file, or somebody else may have written it, or
            read it if it is secret.
    """
    options = ("O_NOFOLLOW", "O_NONBLOCK", "O_CLOEXEC", "O_BINARY")
    descriptor = os.open(path, sum((getattr(os, name, 0) for name in options), os.O_RDONLY))
    with open(descriptor, "rb") as file:
        found = os.fstat(descriptor)
        if not stat.S_ISREG(found.st_mode):
            _refuse(f"{path} is not a regular file")
        if HAS_OWNERS:
            _refuse(_fault_of_content(str(path), found))
            if is_secret and found.st_mode & (stat.S_IRWXG | stat.S_IRWXO):
                _refuse(f"others may read {path}")
        return file.read()


def write_private_file(path: Path, content: bytes, mode: int = PRIVATE) -> None:
    """Write a file that does not exist yet, whatever the umask is.

    Those whom the mode of its folder lets read can read it.

    Raises:
        OSError: it exists, or cannot be written.
    """
    with open(
        path, "xb", opener=functools.partial(os.open, mode=stat.S_IRUSR | stat.S_IWUSR)
    ) as file:
        file.write(content)
    path.chmod(mode & ~(stat.S_IXUSR | stat.S_IXGRP | stat.S_IXOTH))


def why_not_trusted(folder: Path) -> str | None:
    """Return why somebody else may have put files into a folder, None if nobody can have.

    A folder that does not exist is judged by those above it.
    """
    if not HAS_OWNERS:
        return None
    if not folder.is_absolute():
        return f"{folder} is not an absolute path"
    try:
        # The owner of / is root, too, where a container shows root by another number.
        owners = {*_trusted_owners(), os.stat("/").st_uid}
        for path, found in _steps_to(folder):
            fault = _fault_of_step(path, found, owners)
            if fault:
                return fault
        return _fault_of_content(str(folder), folder.stat())
    except FileNotFoundError:
        return None
    except OSError as error:
        return f"{error.filename or folder}: {error.strerror}"


def _refuse(fault: str | None) -> None:
    if fault:
        raise PermissionError(errno.EPERM, fault)


def _trusted_owners() -> set[int]:
    """Return the users whose files are read: this one, root, and the owner of the package."""
    owners = {os.geteuid(), _ROOT}
    with suppress(OSError):
        owners.add(os.stat(__file__).st_uid)
    return owners


def _steps_to(folder: Path) -> Iterator[tuple[str, os.stat_result]]:
    """Yield each folder and link on the way to a folder, from the root folder on.

    Raises:
        OSError: a name cannot be looked up, or links go in a circle.
    """
    current = "/"
    links = 0
    ahead = list(reversed(folder.parts[1:]))
    yield current, os.lstat(current)
    while ahead:
        name = ahead.pop()
        if name == "..":
            current = os.path.dirname(current)
            continue
        path = os.path.join(current, name)
        found = os.lstat(path)
        yield path, found
        if not stat.S_ISLNK(found.st_mode):
            current = path
            continue
        links += 1
        if links > _MOST_LINKS:
            raise OSError(errno.ELOOP, os.strerror(errno.ELOOP), path)
        target = os.readlink(path)
        if os.path.isabs(target):
            current = "/"
        ahead += reversed([part for part in target.split("/") if part not in ("", ".")])


def _fault_of_step(path: str, found: os.stat_result, owners: set[int]) -> str | None:
    """Return why others may choose what lies behind a folder or a link, None if they may not."""
    if found.st_uid not in owners:
        return f"{path} belongs to another user ({found.st_uid})"
    if stat.S_ISLNK(found.st_mode):
        return None
    if not stat.S_ISDIR(found.st_mode):
        return f"{path} is not a folder"
    if _may_others_write(found) and not found.st_mode & stat.S_ISVTX:
        return f"others may write to {path}"
    return None


def _fault_of_content(path: str, found: os.stat_result) -> str | None:
    """Return why others may have written a file, or to a folder, None if they may not have."""
    if found.st_uid not in _trusted_owners():
        return f"{path} belongs to another user ({found.st_uid})"
    if found.st_mode & _OTHERS_MAY_WRITE:
        return f"others may write to {path}"
    return None


def _may_others_write(found: os.stat_result) -> bool:
    """Return whether others may write.

    A group that has only the user, as many systems make one, counts as the user.
    """
    if found.st_mode & stat.S_IWOTH:
        return True
    return bool(found.st_mode & stat.S_IWGRP) and not _is_group_of_user_alone(found.st_gid)


def _is_group_of_user_alone(group: int) -> bool:
    import grp
    import pwd

    try:
        user = pwd.getpwuid(os.geteuid())
        members = grp.getgrgid(group)
    except KeyError:
        return False
    if user.pw_uid == _ROOT or user.pw_gid != group or user.pw_name != members.gr_name:
        return False
    return set(members.gr_mem) <= {user.pw_name}
