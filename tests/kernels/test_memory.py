"""Allocations that cannot succeed are refused, with the bytes needed and the bytes that there
are."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
import torch

from ctc_align.errors import KernelError
from ctc_align.kernels import memory_limits
from ctc_align.machine import memory

GIB = 2**30


@pytest.fixture
def machine(tmp_path, monkeypatch) -> Path:
    """A machine of 8 GiB free memory and 1 GiB free swap, without control groups, as files."""
    monkeypatch.setattr(memory, "PROC", tmp_path / "proc")
    monkeypatch.setattr(memory, "CGROUPS", tmp_path / "cgroup")
    monkeypatch.setattr(memory, "_address_space", lambda: iter(()))
    write(
        tmp_path / "proc/meminfo",
        f"MemTotal: 99 kB\nMemAvailable: {8 * 2**20} kB\nSwapFree:  {2**20} kB\n",
    )
    return tmp_path


def write(path: Path, text: object) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"{text}\n", "utf-8")


def test_more_than_the_machine_has(machine):
    assert memory_limits.available() == (9 * GIB, "memory and swap of the machine")
    memory_limits.require(9 * GIB, "posteriors")
    with pytest.raises(KernelError) as error:
        memory_limits.require(9 * GIB + 1, "posteriors", utterance=3)
    assert (
        str(error.value)
        == f"posteriors of utterance 3: {9 * GIB + 1} bytes (9.0 GiB) are needed, {9 * GIB} (9.0"
        " GiB) are available (memory and swap of the machine); pass fewer utterances at a time,"
        " or split long ones"
    )


def test_small_requests_read_no_file(machine, monkeypatch):
    monkeypatch.setattr(memory, "_read_text", lambda path: pytest.fail(f"{path} was read"))
    memory_limits.require(memory_limits.UNCHECKED_BYTES - 1, "states")


def test_control_groups_of_version_2(machine):
    write(machine / "proc/self/cgroup", "0::/user/job")
    group = machine / "cgroup/user/job"
    write(group / "memory.max", "max")
    write(group / "memory.current", 0)
    assert memory_limits.available()[0] == 9 * GIB
    write(group / "memory.max", 4 * GIB)
    write(group / "memory.current", 3 * GIB)
    assert memory_limits.available() == (GIB, "memory.max of the control group")
    write(group / "memory.stat", f"anon 5\ninactive_file {GIB // 2}\nactive_file {GIB // 4}")
    assert memory_limits.available()[0] == GIB + GIB // 2 + GIB // 4, "the page cache is given back"
    write(group.parent / "memory.max", 5 * GIB)
    write(group.parent / "memory.current", 5 * GIB)
    assert memory_limits.available()[0] == 0, "what contains the group limits it too"
    with pytest.raises(KernelError, match=r"0 \(0.0 GiB\) are available"):
        memory_limits.require(GIB, "posteriors")


@pytest.mark.parametrize(
    "mounted", ["memory/docker/abc", "memory"], ids=["path", "root of the mount"]
)
def test_control_groups_of_version_1(machine, mounted):
    write(machine / "proc/self/cgroup", "7:cpu,cpuacct:/x\n5:memory:/docker/abc\n0::/")
    write(machine / "cgroup" / mounted / "memory.limit_in_bytes", 3 * GIB)
    write(machine / "cgroup" / mounted / "memory.usage_in_bytes", 2 * GIB)
    write(
        machine / "cgroup" / mounted / "memory.stat",
        f"inactive_file 1\ntotal_inactive_file {GIB // 2}",
    )
    assert memory_limits.available() == (
        GIB + GIB // 2,
        "memory.limit_in_bytes of the control group",
    )


def test_without_proc(machine, monkeypatch):
    """Elsewhere the size of the memory is all that is known, or nothing: then nothing is
    refused."""
    (machine / "proc/meminfo").unlink()
    pages = {"SC_PHYS_PAGES": 2**20, "SC_PAGE_SIZE": 4096}
    monkeypatch.setattr(memory.os, "sysconf", pages.__getitem__)
    assert memory_limits.available() == (4 * GIB, "memory of the machine")
    monkeypatch.delattr(memory.os, "sysconf")
    assert memory_limits.available() == (None, "")
    memory_limits.require(10**18, "posteriors")


def test_graphics_memory(machine, monkeypatch):
    monkeypatch.setattr(torch.cuda, "mem_get_info", lambda device: (5 * GIB, 80 * GIB))
    memory_limits.require(5 * GIB, "posteriors", device=torch.device("cuda:1"))
    with pytest.raises(KernelError, match=f"{5 * GIB} .*memory of cuda:1"):
        memory_limits.require(6 * GIB, "posteriors", device=torch.device("cuda:1"))
    memory_limits.require(6 * GIB, "posteriors", device=torch.device("cpu"))


LIMITED = """
import resource
from ctc_align.errors import KernelError
from ctc_align.kernels import memory_limits
used = int(open("/proc/self/statm").read().split()[0]) * resource.getpagesize()
resource.setrlimit(resource.RLIMIT_AS, (used + 2**29, resource.RLIM_INFINITY))
import numpy as np
memory_limits.require(2**28 + 2**26, "posteriors")
np.ones(2**28 + 2**26, np.uint8)
try:
    memory_limits.require(2**29 + 2**26, "posteriors")
except KernelError as error:
    print(error)
try:
    np.ones(2**29 + 2**26, np.uint8)
except MemoryError:
    print("right")
"""


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="reads /proc")
@pytest.mark.long
def test_a_limited_address_space():
    """What is let through succeeds, and what is refused would have failed."""
    done = subprocess.run(
        [sys.executable, "-c", LIMITED], capture_output=True, text=True, check=True
    )
    refusal, right = done.stdout.splitlines()
    assert refusal.startswith(f"posteriors: {2**29 + 2**26} bytes (0.6 GiB) are needed, ")
    assert "(RLIMIT_AS (ulimit -v))" in refusal
    assert right == "right"


def test_here():
    """The limits of the machine that runs this are found and let something through."""
    free, name = memory_limits.available()
    assert free is None or (free > memory_limits.UNCHECKED_BYTES and name)
