"""The memory that can still be allocated.

It is limited by the machine, its control groups and the process.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path

PROC = Path("/proc")
CGROUPS = Path("/sys/fs/cgroup")

_CGROUP_FILES = (  # limit, use, and the entries of memory.stat that the kernel gives back when it must
    ("memory.max", "memory.current", ("inactive_file", "active_file")),
    (
        "memory.limit_in_bytes",
        "memory.usage_in_bytes",
        ("total_inactive_file", "total_active_file"),
    ),
)


def free_memory() -> tuple[int | None, str]:
    """Return (bytes of main memory that can still be allocated, name of the limit).

    Return (None, "") if no limit is known.
    """
    return min(_memory_limits(), default=(None, ""), key=lambda limit: limit[0])


def _memory_limits() -> Iterator[tuple[int, str]]:
    """Yield (bytes left, name) of every limit of this process."""
    machine = _read_table(PROC / "meminfo")
    if "MemAvailable" in machine:
        yield (
            1024 * (machine["MemAvailable"] + machine.get("SwapFree", 0)),
            "memory and swap of the machine",
        )
    elif hasattr(os, "sysconf"):
        with contextlib.suppress(OSError, ValueError):
            yield os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE"), "memory of the machine"
    yield from _cgroups()
    yield from _address_space()


def _cgroups() -> Iterator[tuple[int, str]]:
    """Yield the limits of this process's control groups and of their parents.

    These are of version 1 or 2.
    """
    for line in _read_text(PROC / "self" / "cgroup").splitlines():
        number, controllers, path = (*line.split(":", 2), "", "")[:3]
        if number == "0" and not controllers:
            root = CGROUPS
        elif "memory" in controllers.split(","):
            root = CGROUPS / "memory"
        else:
            continue
        # Inside a container the path may be the host's, which is not mounted: then the mount's root
        # counts.
        group = root / path.lstrip("/")
        for folder in (group, *(parent for parent in group.parents if parent.is_relative_to(root))):
            yield from _cgroup(folder)


def _cgroup(folder: Path) -> Iterator[tuple[int, str]]:
    for limit_name, used_name, reclaimable in _CGROUP_FILES:
        limit, used = (
            _read_text(folder / limit_name).strip(),
            _read_text(folder / used_name).strip(),
        )
        if limit.isdigit() and used.isdigit():
            stat = _read_table(folder / "memory.stat")
            cached = sum(stat.get(name, 0) for name in reclaimable)
            yield (
                max(int(limit) - max(int(used) - cached, 0), 0),
                f"{limit_name} of the control group",
            )


def _address_space() -> Iterator[tuple[int, str]]:
    with contextlib.suppress(ImportError, OSError, ValueError, IndexError):
        import resource

        limit = resource.getrlimit(resource.RLIMIT_AS)[0]
        if limit != resource.RLIM_INFINITY:
            pages = int(_read_text(PROC / "self" / "statm").split()[0])
            yield max(limit - pages * resource.getpagesize(), 0), "RLIMIT_AS (ulimit -v)"


def _read_text(path: Path) -> str:
    """Return the content of a small file, "" if it cannot be read."""
    try:
        return path.read_text("utf-8", "replace")
    except OSError:
        return ""


def _read_table(path: Path) -> dict[str, int]:
    """Parse lines of a name and a number: "MemAvailable:  123 kB", "active_file 123"."""
    rows = (line.replace(":", " ").split() for line in _read_text(path).splitlines())
    return {row[0]: int(row[1]) for row in rows if len(row) > 1 and row[1].isdigit()}
