"""Compile the GPU's kernels as the package's own calls launch them, for many cards, none of which
need be there.

    python tests/benchmarks/gpu_matrix.py [--targets sm_90,gfx942] [--parts N] [--keep FILE]
    [--table] [--host]

Every call of `tests/support/gpu_calls.py` is made on a card that is not there
(`tests/support/absent_card.py`); what it launches is compiled for each target, and registers,
stack, shared memory and barriers are read from the machine code. Each target gets every 74th
combination, another one first, so that topologies, lengths, dtypes and walks all come; `--parts 1`
gives everything to all, which takes hours. What has been compiled is kept in a file and not
compiled again: a run that was ended goes on, and after a change of a kernel only what changed is
done.

`--table` writes `docs/gpu-kernels.tsv` from what has been compiled of today's kernels, and the
summary in `docs/gpu.md`. `--host` compiles nothing: it writes how long the host takes for a call of
the loss, forward + backward, by phase, in microseconds of the thread's CPU time, the median and the
least of a few hundred calls, with kernels that do nothing. Exits 1 where
something does not compile or takes more than `LIMITS`. Needs Triton, on Linux; TRITON_INTERPRET must
not be set.
"""

from __future__ import annotations

import contextlib
import dataclasses
import hashlib
import json
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from unittest import mock

from timed_runs import ROOT, parser_of  # isort: skip
import absent_card
import gpu_calls
import numpy as np
import torch
import triton
from absent_card import CARD, TARGETS, Resources, Specialisation

from ctc_align import functional
from ctc_align.ctc import arguments
from ctc_align.kernels.gpu import gpu_backend, launch_plan, launches

DOCS = ROOT / "docs"
TABLE, PAGE = DOCS / "gpu-kernels.tsv", DOCS / "gpu.md"
PARTS = 74
Wanted = dict[str, dict[str, tuple[Specialisation, str]]]
"""By target and key: what to compile, and the call that launches it."""


def limits_broken(found: Resources) -> list[str]:
    """Return which of the limits a program breaks; they stand in `gpu_calls.LIMITS`."""
    return [
        f"{name} {getattr(found, name)}, at most {most}"
        for name, most in gpu_calls.LIMITS.items()
        if getattr(found, name) > most
    ]


def calls_of(target: str, parts: int) -> Iterator[tuple[str, Callable[[], object]]]:
    """Yield the calls that a target gets."""
    number = list(TARGETS).index(target)
    for place, one in enumerate(gpu_calls.combinations()):
        if (place + 5 * number) % parts == 0:
            yield from one.calls(CARD)
    yield from gpu_calls.long_calls(CARD)


def mark(one: Specialisation, target: str) -> str:
    """Return what a compilation is kept under."""
    return hashlib.sha256(f"{triton.__version__} {target} {one.key}".encode()).hexdigest()


def compile_one(one: Specialisation, target: str) -> Resources | str:
    """Return what a program takes, or why it cannot be compiled."""
    with tempfile.TemporaryDirectory() as folder, triton.knobs.cache.scope():
        triton.knobs.cache.dir = folder
        try:
            return absent_card.compiled(one, target)
        except Exception as error:
            return f"{type(error).__name__}: {' '.join(str(error).split())[:500]}"


def read_kept(path: Path) -> dict[str, dict]:
    """Return the lines of earlier runs by their marks; the last one may have been cut."""
    kept = {}
    for line in path.read_text(encoding="utf-8").splitlines() if path.exists() else ():
        with contextlib.suppress(json.JSONDecodeError):
            found = json.loads(line)
            kept[found["mark"]] = found
    return kept


def compile_missing(wanted: Wanted, kept: dict[str, dict], keep: Path) -> None:
    """Compile what is not kept, all targets in turn, and keep it."""
    missing = [
        (number, target, one, name)
        for target, found in wanted.items()
        for number, (one, name) in enumerate(found.values())
        if mark(one, target) not in kept
    ]
    since = time.monotonic()
    with keep.open("a", encoding="utf-8") as file:
        for done, (_, target, one, name) in enumerate(sorted(missing, key=lambda each: each[0]), 1):
            made = compile_one(one, target)
            line = {
                "mark": mark(one, target), "target": target, "kernel": one.kernel, "of": str(one), "call": name,
                "error": made if isinstance(made, str) else None,
                "resources": None if isinstance(made, str) else dataclasses.asdict(made),
            }  # fmt: skip
            kept[line["mark"]] = line
            print(json.dumps(line), file=file, flush=True)
            if done % 50 == 0:
                each = (time.monotonic() - since) / done
                print(f"{done} of {len(missing)}, {each:.2f} s each", file=sys.stderr, flush=True)


def rows(wanted: Wanted, kept: dict[str, dict]) -> Iterator[list[str]]:
    """Yield for each kernel and target how many compilations there are, and the most that one takes
    of each."""
    for target, found in wanted.items():
        kernels: dict[str, list[tuple[Resources, str]]] = {}
        for one, _name in found.values():
            line = kept.get(mark(one, target))
            if line is not None and line["resources"] is not None:
                kernels.setdefault(one.kernel, []).append(
                    (Resources(**line["resources"]), str(one))
                )
        for kernel, made in sorted(kernels.items()):
            most = [
                max(getattr(one, name) for one, _ in made)
                for name in ("registers", "stack", "shared", "barriers")
            ]
            worst = max(made, key=lambda pair: (pair[0].stack, pair[0].registers))[1]
            yield [kernel, target, str(len(made)), *map(str, most), worst]


def write_table(table: list[list[str]], missing: int) -> None:
    """Write the table, and its summary on the page: registers and stack, kernels × targets."""
    head = "kernel\ttarget\tcompilations\tregisters\tstack_bytes\tshared_bytes\tbarriers\tworst"
    lines = [
        f"# kernels {gpu_calls.source_hash()}",
        f"# triton {triton.__version__}",
        f"# not compiled {missing}",
        head,
    ]
    TABLE.write_text(
        "\n".join((*lines, *("\t".join(row) for row in table))) + "\n", encoding="utf-8"
    )
    cells = {(row[0], row[1]): f"{row[3]} / {row[4]} / {row[5]}" for row in table}
    counts = {target: sum(int(row[2]) for row in table if row[1] == target) for target in TARGETS}
    summary = [
        "| kernel | " + " | ".join(TARGETS) + " |",
        "|---|" + "---|" * len(TARGETS),
        *(
            f"| {kernel} | "
            + " | ".join(cells.get((kernel, target), "") for target in TARGETS)
            + " |"
            for kernel in sorted({row[0] for row in table})
        ),
        "| compilations | " + " | ".join(str(counts[target]) for target in TARGETS) + " |",
    ]
    gpu_calls.replace_block(PAGE, "resources", "\n".join(summary))


HOST_CASES = ((4, 128, 30), (256, 128, 30), (32, 1024, 170))
"""Utterances, frames and tokens of the calls of `--host`."""
HOST_CALLS, FIRST_CALLS = 300, 10
REST = "PyTorch, and the rest"
PHASES = {
    "arguments": (functional, "loss_arguments"),
    "topology": (arguments.Problem, "topology"),
    "tables": (launch_plan, "device_problem"),
    "plan and buffers": (gpu_backend, "occupancy"),
    "launches": (launches, "launch"),
}
"""By phase the function in which it is spent, less the other phases."""


class Clock:
    """CPU time of this thread within functions, by phase, less that of other phases within them."""

    def __init__(self) -> None:
        self.spent: dict[str, float] = {}
        self.within = [0.0]

    def around(self, phase: str, function: Callable[..., Any]) -> Callable[..., Any]:
        """Return the function, timed."""

        def timed(*given: Any, **named: Any) -> Any:
            self.within.append(0.0)
            since = time.thread_time()
            result = function(*given, **named)
            took = time.thread_time() - since
            self.spent[phase] = self.spent.get(phase, 0.0) + took - self.within.pop()
            self.within[-1] += took
            return result

        return timed


def host_times(batch: int, frames: int, tokens: int) -> dict[str, list[float]]:
    """Return by phase, then of the whole, the microseconds of each call of the loss, forward +
    backward."""
    noise = torch.randn(frames, batch, 32).log_softmax(-1).requires_grad_()
    targets = torch.randint(1, 32, (batch, tokens))
    lengths = torch.full((batch,), frames), torch.full((batch,), tokens)

    def step() -> None:
        noise.grad = None
        functional.ctc_loss(noise, targets, *lengths, reduction="none").sum().backward()

    def repeated(call: Callable[[], None], spent: dict[str, float]) -> list[dict[str, float]]:
        made = []
        for number in range(FIRST_CALLS + HOST_CALLS):
            spent.clear()
            call()
            if number >= FIRST_CALLS:
                made.append(dict(spent))
        return made

    with absent_card.warm_card(), contextlib.ExitStack() as stack:
        whole = Clock()
        calls = repeated(whole.around("whole", step), whole.spent)
        clock = Clock()
        for phase, (place, name) in PHASES.items():
            timed = clock.around(phase, getattr(place, name))
            stack.enter_context(mock.patch.object(place, name, timed))
        parts = repeated(clock.around(REST, step), clock.spent)
    found = {phase: [1e6 * part[phase] for part in parts] for phase in (*PHASES, REST)}
    return {**found, "whole": [1e6 * call["whole"] for call in calls]}


def write_host_times() -> None:
    """Print the table of `--host`."""
    torch.set_num_threads(1)
    columns = [host_times(*case) for case in HOST_CASES]
    print("| phase | " + " | ".join("{} x {}, {}".format(*case) for case in HOST_CASES) + " |")
    print("|---|" + "---:|" * len(columns))
    for phase in columns[0]:
        cells = [f"{np.median(each[phase]):.0f} ({min(each[phase]):.0f})" for each in columns]
        print(f"| {phase} | {' | '.join(cells)} |")


def main() -> int:
    parser = parser_of(__doc__)
    parser.add_argument("--targets", default=",".join(TARGETS), help="names, by commas")
    parser.add_argument(
        "--parts", type=int, default=PARTS, help="each target gets every N-th combination; 1: hours"
    )
    parser.add_argument(
        "--keep", type=Path, default=Path(tempfile.gettempdir()) / "ctc-align-gpu-matrix.jsonl"
    )
    parser.add_argument(
        "--table", action="store_true", help="only write the table of what has been compiled"
    )
    parser.add_argument("--host", action="store_true", help="only what a call takes on the host")
    given = parser.parse_args()
    if given.host:
        write_host_times()
        return 0
    kept = read_kept(given.keep)
    wanted = {}
    for target in given.targets.split(","):
        wanted[target] = absent_card.specialisations(dict(calls_of(target, given.parts)))
        print(f"{target}: {len(wanted[target])} specialisations", file=sys.stderr, flush=True)
    if not given.table:
        compile_missing(wanted, kept, given.keep)
    lines = [
        kept.get(mark(one, target)) for target, found in wanted.items() for one, _ in found.values()
    ]
    made = [line for line in lines if line is not None]
    bad = 0
    for line in made:
        faults = [line["error"]] if line["error"] else limits_broken(Resources(**line["resources"]))
        bad += bool(faults)
        if faults:
            print(
                f"{line['target']} {line['kernel']} ({line['of']}), launched by {line['call']}:"
                f" {'; '.join(faults)}"
            )
    missing = len(lines) - len(made)
    if given.table:
        write_table(list(rows(wanted, kept)), missing)
    print(f"{len(made)} compiled, {bad} faults, {missing} not compiled")
    return 1 if bad or missing else 0


if __name__ == "__main__":
    sys.exit(main())
