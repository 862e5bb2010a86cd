"""How long the GPU's kernels take by their machine code, for cards that need not be there: an estimate, not measured.

    python tests/benchmarks/gpu_estimate.py [--write]

Each case's launches are taken from the package's own call on a card that is not there, compiled for the card, and
disassembled. One warp is followed through the machine code (`tests/support/machine_code.py`); its programs share
multiprocessors as registers and warps allow. A launch takes the longest of: the wait of one warp for itself, the pipe
that all warps of a multiprocessor load most, and the memory traffic. The range is from all three side by side to the
first two one after the other, with the slower figures of `Card`. `--write` puts the table into `docs/gpu.md`. Needs
Triton with its tools, on Linux; TRITON_INTERPRET must not be set.
"""

from __future__ import annotations

import math
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path

import numpy as np
import torch
import triton

from measuring import ROOT, parser_of  # isort: skip
import absent_card
import gpu_calls
import machine_code
from absent_card import Specialisation

from ctc_align import lattice
from ctc_align.kernels.benchmark import Case
from ctc_align.kernels.gpu import launch_plan

PAGE = ROOT / "docs" / "gpu.md"


@dataclass(frozen=True)
class Card:
    """A card's figures: clock in GHz, memory in GB/s, cycles that a warp's instruction occupies its quarter of a
    multiprocessor, by the pipe (memory: a quarter of the one that all four share)."""

    name: str
    target: str
    multiprocessors: int
    clock: float
    memory: float
    pipes: dict[str, float]


PIPES = {"integer": 2, "product": 2, "special": 8, "memory": 4, "control": 1}
CARDS = (
    Card("H100 SXM", "sm_90", 132, 1.755, 3350, {**PIPES, "float": 1, "double": 2}),
    Card("A100 80 GB", "sm_80", 108, 1.41, 2040, {**PIPES, "float": 2, "double": 4}),
)
LATENCIES = {
    "LDG": 270, "LDS": 29, "LDL": 33, "LDC": 40, "SHFL": 24, "MUFU": 22, "F2I": 22, "I2F": 22, "F2F": 22, "FRND": 22,
    "S2R": 30, "read": 20, "BAR": 25, "other": 16,
}  # fmt: skip
SLOW = {"LDG": 560, "BAR": 60}
"""Cycles until results are there, as published for both cards: loads from the second cache; slow: from memory."""
LAUNCH_US = (2.0, 4.0)
MOST_WARPS, REGISTERS = 64, 65536


@dataclass(frozen=True)
class Task:
    """A case of the goals; `rival_cycles`: what the rival takes a frame and pass at least and at most."""

    case: Case
    function: str
    goal: float
    rival: str


TASKS = (
    Task(Case(64, 1500, 250, 32), "best_path", 300, "torchaudio's forced_align, in a loop"),
    Task(Case(64, 1500, 250, 32), "occupancy", 4, "torch's ctc_loss and its gradient"),
    Task(Case(256, 128, 30, 32), "occupancy", 3, "torch's ctc_loss and its gradient"),
    Task(Case(32, 1024, 170, 32), "occupancy", 4, "torch's ctc_loss and its gradient"),
)


def trips(task: Task, one: Specialisation) -> dict[str, int]:
    """Return how often each loop of a kernel runs, by what its `for` goes over; nothing is in logarithms."""
    case, constants = task.case, one.named
    states = 2 * case.tokens + 1
    exchange_frames = launch_plan.shape(states, case.batch).halo or 4
    alone = 0 if constants.get("FALLBACK") else 1
    frames, classes = "range(tl.cdiv(frame_count, exchange_frames))", "range(-CLASSES if WILD else 0, classes, CLASSES)"
    class_states = "range(0, count, STRIDE)"
    of_a_class = -(-case.tokens // (case.classes - 1))
    return {
        frames: alone * -(-(case.frames - 1) // exchange_frames),
        f"{frames} > range(0, exchange_frames, 4)": exchange_frames // 4,
        "range(0, width, STATES)": -(-states // 128),
        "range(0, tl.max(size), STEP)": -(-states // 128),
        "range(0, tl.max(length), STEP)": -(-case.frames // 128),
        "range(0, tl.max(size), LINE_THREADS)": 0,
        class_states: alone
        * -(-(case.tokens + 1) // (constants.get("CLASSES", 1) * constants.get("CLASS_THREADS", 1))),
        classes: alone * -(-case.classes // constants.get("CLASSES", 1)),
        f"{classes} > {class_states}": alone * -(-of_a_class // constants.get("CLASS_THREADS", 1)),
        "range(tl.max(last_block) + 1)": -(-case.frames // 64),
        "range(tl.max(tl.where(active, last_frame - start_frame, 0)))": 64,
        "range(tiles)": 1,
        "range(0, tl.max(size), COMPARED_STATES)": -(-states // 64),
        "EXIT": 1 - alone,
        "?": alone,  # too few lines of Python are left in it
    }


def traffic(task: Task, one: Specialisation) -> float:
    """Return the bytes that a launch moves from and to memory, at least."""
    case, kernel = task.case, one.kernel
    frames = case.batch * case.frames
    units = launch_plan.shape(2 * case.tokens + 1, case.batch).units
    rows = frames * 2 * 2 * units * 8
    scores = frames * case.classes * 4
    if one.named.get("FALLBACK"):
        return 0
    if kernel == "sum sweep":
        return scores + (rows if one.named["SAVE_ROWS"] else 0)
    if kernel == "path sweep":
        return scores + frames * 2 * units / 4
    if kernel == "posterior posterior":
        return 2 * scores + frames * 2 * (2 * case.tokens + 1) * 8
    return scores if kernel == "posterior centre" else 0


@cache
def programs_code(key: str, target: str) -> tuple[int, machine_code.Program]:
    """Return registers of a thread, and the program; `key` is that of a specialisation in `KNOWN`."""
    one = KNOWN[key]
    resources, made = absent_card.compiled(one, target)
    with tempfile.NamedTemporaryFile(suffix=".cubin") as file:
        Path(file.name).write_bytes(made["cubin"])
        tool = [triton.knobs.nvidia.nvdisasm.path, "-c", "-hex", "-g", file.name]
        text = subprocess.run(tool, capture_output=True, text=True, check=True).stdout
    return resources.registers, machine_code.Program(text, one.kernel.rpartition(" ")[2])


KNOWN: dict[str, Specialisation] = {}


@dataclass(frozen=True)
class Estimate:
    """Of a launch: microseconds from and to, and what they come from."""

    kernel: str
    low: float
    high: float
    bound: str
    instructions: float
    cycles: float


def estimate(task: Task, one: Specialisation, card: Card) -> Estimate:
    """Estimate one launch."""
    KNOWN[one.key] = one
    registers, program = programs_code(one.key, card.target)
    many, warps = math.prod(one.grid), int(one.options["num_warps"])
    fitting = min(MOST_WARPS // warps, REGISTERS // (-(-registers // 8) * 8 * 32 * warps), 32)
    of_each = -(-many // card.multiprocessors)
    turns = -(-of_each // max(fitting, 1))
    times = trips(task, one)
    costs = [program.cost(times, {**LATENCIES, **more}) for more in ({}, SLOW)]
    pipes = {name: costs[0].counts.get(name, 0) * cycles for name, cycles in card.pipes.items()}
    pipes["issue"] = costs[0].instructions
    busiest = max(pipes, key=lambda name: pipes[name])
    busy = pipes[busiest] * of_each * max(warps / 4, 1 / min(4, of_each))
    waits = [turns * cost.cycles for cost in costs]
    moved = traffic(task, one) / card.memory / 1e3
    parts = {"waiting": waits[0] / card.clock / 1e3, busiest: busy / card.clock / 1e3, "memory traffic": moved}
    low = max(parts.values())
    high = max((waits[1] + busy) / card.clock / 1e3, moved * 1.25)
    return Estimate(
        one.kernel, low + LAUNCH_US[0], high + LAUNCH_US[1], max(parts, key=lambda name: parts[name]),
        costs[0].instructions, costs[0].cycles,
    )  # fmt: skip


def launches(task: Task) -> list[Specialisation]:
    """Return what the package launches for a task, in order."""
    case = task.case
    targets = np.tile(np.arange(case.tokens) % (case.classes - 1) + 1, (case.batch, 1))
    topology = lattice.ctc_padded(targets, np.full(case.batch, case.tokens))
    call = partial(gpu_calls.call, task.function, topology, case.frames, torch.float32, absent_card.CARD, case.classes)
    with absent_card.card() as launched:
        call()
    return launched


def rival_us(task: Task, card: Card) -> tuple[float, float]:
    """Return what the rival takes, by how it works; see `docs/gpu.md`."""
    case = task.case
    if task.function == "best_path":
        return case.batch * case.frames * 2.5, case.batch * case.frames * 4.0
    moved = 40 * case.cells / card.memory / 1e3
    low, high = (3 * case.frames * cycles / card.clock / 1e3 + moved + 15 * us for cycles, us in ((500, 2), (1200, 4)))
    return low, high


def table() -> Iterator[str]:
    """Yield the lines of the table."""
    yield "| card | case | launches | of them the longest | on the card, µs | rival, µs | times | goal |"
    yield "|---|---|---:|---|---:|---:|---:|---:|"
    for card in CARDS:
        for task in TASKS:
            made = [estimate(task, one, card) for one in launches(task)]
            low, high = sum(one.low for one in made), sum(one.high for one in made)
            longest = sorted(made, key=lambda one: -one.low)[:2]
            named = "; ".join(f"{one.kernel} {one.low:.0f}–{one.high:.0f} ({one.bound})" for one in longest)
            rival = rival_us(task, card)
            what = "best path" if task.function == "best_path" else "forward + backward"
            yield (
                f"| {card.name} | {what}, {task.case} | {len(made)} | {named} | {low:.0f}–{high:.0f} | "
                f"{rival[0]:.0f}–{rival[1]:.0f} | {rival[0] / high:.1f}–{rival[1] / low:.1f} | {task.goal:.0f} |"
            )


def main() -> int:
    parser = parser_of(__doc__)
    parser.add_argument("--write", action="store_true", help="put the table into docs/gpu.md")
    parser.add_argument("--launches", action="store_true", help="print each launch")
    arguments = parser.parse_args()
    if arguments.launches:
        for card in CARDS:
            for task in TASKS:
                print(f"{card.name}: {task.function} {task.case}")
                for one in launches(task):
                    print(f"    {one.grid} {estimate(task, one, card)}")
        return 0
    lines = []
    for line in table():
        print(line, flush=True)
        lines.append(line)
    if arguments.write:
        gpu_calls.replace_block(PAGE, "estimate", "\n".join(lines))
    return 0


if __name__ == "__main__":
    sys.exit(main())
