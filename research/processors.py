"""What the CPU's kernels become on other processors: LLVM compiles them for each, and the loops
that do the work are searched for values that are moved to the stack and back, because registers do
not suffice. It says nothing of time.

    python research/processors.py [--write]
    python research/processors.py --cycles znver3     each loop: instructions, gathers, and cycles by llvm-mca

The kernels are compiled once for a processor without anything special, in vectors of 8 and of 16
numbers (`WIDTH` of `ctc_align/kernels/cpu/simd.py`), and LLVM's code for that is compiled again for
each processor. Counted are innermost loops that are mostly vectors. `--write` puts the table into
`docs/processors.md`.
"""

from __future__ import annotations

import argparse
import os
import pickle
import re
import subprocess
import sys
import tempfile
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

from measuring import ROOT, parser_of

KERNELS = {"best path": "viterbi.walk", "sums": "sums.sums"}
WIDTHS = {8: "", 16: "+avx512f,-sse3"}
"""By vectors' width, features that make `simd` choose it; what the second takes back, LLVM does not
use."""
PROCESSORS = {
    "x86-64-v2": ("x86_64", "SSE 4.2"),
    "haswell": ("x86_64", "AVX2"),
    "znver3": ("x86_64", "AVX2"),
    "skylake-avx512": ("x86_64", "AVX-512"),
    "znver4": ("x86_64", "AVX-512"),
    "cortex-a76": ("aarch64", "NEON"),
    "neoverse-n1": ("aarch64", "NEON"),
    "apple-m1": ("aarch64", "NEON"),
}
VECTORS = re.compile(r"[xyz]mm\d|\bv\d+\.|\b[qd]\d+")


def dump(path: Path) -> None:
    """Compile the kernels with this process's settings of Numba; write LLVM's code of each."""
    import torch

    from ctc_align import kernels, lattice
    from ctc_align.kernels.cpu import sums, viterbi
    from ctc_align.kernels.cpu.cpu_backend import compile_at_once

    compile_at_once()

    scores = torch.randn(2, 40, 9).log_softmax(-1)
    topology = lattice.ctc([[1, 2, 3], [3, 3]])
    kernels.best_path(scores, topology, backend="cpu")
    kernels.forward(scores, topology, backend="cpu")
    found = {"viterbi.walk": viterbi.walk, "sums.sums": sums.sums}
    code = {name: kernel.inspect_llvm(kernel.signatures[0]) for name, kernel in found.items()}
    path.write_bytes(pickle.dumps(code))


def generic_code(width: int) -> dict[str, str]:
    """Return LLVM's code of each kernel for vectors of a width."""
    with tempfile.TemporaryDirectory() as folder:
        settings = {
            "NUMBA_CPU_NAME": "generic",
            "NUMBA_CPU_FEATURES": WIDTHS[width],
            "NUMBA_CACHE_DIR": folder,
        }
        out = Path(folder) / "code"
        command = [sys.executable, __file__, "--dump", str(out)]
        subprocess.run(command, env={**os.environ, **settings}, check=True)
        return pickle.loads(out.read_bytes())


def assembly(code: str, processor: str) -> str:
    """Return the assembly of LLVM's code for a processor, with LLVM's remarks on loops and
    spills."""
    from llvmlite import binding

    binding.initialize_all_targets()
    binding.initialize_all_asmprinters()
    triple = f"{PROCESSORS[processor][0]}-unknown-linux-gnu"
    # What counts references is not in the loops; its instruction is x86's own.
    code = re.sub(r"= .*call i8 @llvm\.x86\.atomic[^\n]*", "= add i8 0, 0", code)
    code = re.sub(
        r"target datalayout = .*\n",
        "",
        re.sub(r"target triple = .*", f'target triple = "{triple}"', code),
    )
    module = binding.parse_assembly(code)
    machine = binding.Target.from_triple(triple).create_target_machine(cpu=processor, opt=3)
    module.data_layout = str(machine.target_data)
    machine.set_asm_verbosity(True)
    return machine.emit_assembly(module)


def hot_loops(text: str) -> Iterator[tuple[int, int]]:
    """Yield of each innermost loop that is mostly vectors: instructions, and those that use the
    stack for want of a register."""
    loops: dict[str, list[str]] = defaultdict(list)
    block, header = "", ""
    for line in text.splitlines():
        if label := re.match(r"^(?:\.?(LBB\d+_\d+)|\S+):|^(?:#|//) %bb", line):
            block, header = label[1] or "", ""
        if block and "Inner Loop Header" in line:
            header = block
        elif inside := re.search(r"in Loop: Header=(BB\d+_\d+) Depth", line):
            header = "L" + inside[1]
        if header and re.match(r"^\t[a-z]", line):
            loops[header].append(line)
    for lines in loops.values():
        vectors = sum(bool(VECTORS.search(line)) for line in lines)
        if vectors > 40 and vectors > 0.6 * len(lines):
            yield len(lines), sum("Spill" in line or "Reload" in line for line in lines)


def vector_loops(text: str) -> Iterator[list[str]]:
    """Yield the lines of each loop of assembly that has vectors and no other loop inside."""
    lines = [line.partition("#")[0].rstrip() for line in text.splitlines()]
    labels = {line[:-1]: n for n, line in enumerate(lines) if re.match(r"\.LBB\w+:$", line)}
    loops = []
    for end, line in enumerate(lines):
        jump = re.match(r"\tj\w+\s+(\.LBB\w+)", line)
        if jump and labels.get(jump[1], end) < end:
            loops.append((labels[jump[1]], end))
    for begin, end in loops:
        if sum(begin <= other and last <= end for other, last in loops) == 1:
            body = lines[begin : end + 1]
            if sum(bool(VECTORS.search(line)) for line in body) > 30:
                yield body


def shortest_round(loop: list[str]) -> list[str]:
    """Return the instructions of the shortest way through a loop, from its first line back to
    it."""
    first = loop[0][:-1]
    labels = {line[:-1]: n for n, line in enumerate(loop) if line.startswith(".LBB")}
    ways: dict[int, list[str]] = {len(loop): []}
    for n in range(len(loop) - 1, -1, -1):
        line = loop[n]
        onward = ways.get(n + 1)
        if not re.match(r"\t[a-z]", line):
            ways[n] = onward
            continue
        jump = re.match(r"\tj(\w+)\s+(\S+)", line)
        if jump is None:
            choices = [onward]
        elif jump[2] == first:
            choices = [[]]
        else:
            choices = [ways.get(labels.get(jump[2], -1))]
            if jump[1] != "mp":
                choices.append(onward)
        found = [way for way in choices if way is not None]
        ways[n] = [line, *min(found, key=len)] if found else None
    return ways[0] or []


def cycles_of(instructions: list[str], processor: str) -> float:
    """Return the cycles of a round by Debian's llvm-mca, of 200 rounds."""
    code = "\n".join(re.sub(r"\$?\.L\w+", "4096", line) for line in instructions)
    command = ["llvm-mca", f"-mcpu={processor}", "-iterations=200"]
    done = subprocess.run(command, input=code, capture_output=True, text=True, check=True)
    return int(re.search(r"Total Cycles:\s+(\d+)", done.stdout)[1]) / 200


def print_cycles(processor: str) -> None:
    """Print the loops of both kernels, in vectors of 8, for one x86-64 processor."""
    for kernel, code in generic_code(8).items():
        text = assembly(code, processor)
        print(f"{kernel}: {len(re.findall('vp?gather', text))} gathers")
        for loop in vector_loops(text):
            way = shortest_round(loop)
            if way:
                print(f"  {len(way)} instructions: {cycles_of(way, processor):.1f} cycles")


def table() -> Iterator[str]:
    """Yield the lines of the table."""
    codes = {width: generic_code(width) for width in WIDTHS}
    names = [f"{kernel}, {width}" for kernel in KERNELS for width in WIDTHS]
    yield f"| processor | vectors | {' | '.join(names)} |"
    yield "|---|---|" + "---:|" * len(names)
    for processor, (_, kind) in PROCESSORS.items():
        cells = []
        for kernel in KERNELS.values():
            for width in WIDTHS:
                found = list(hot_loops(assembly(codes[width][kernel], processor)))
                cells.append(
                    f"{sum(stack for _, stack in found)} of {sum(size for size, _ in found)}"
                )
        yield f"| {processor} | {kind} | {' | '.join(cells)} |"


def main() -> None:
    parser = parser_of(__doc__)
    parser.add_argument(
        "--write", action="store_true", help="put the table into docs/processors.md"
    )
    parser.add_argument("--cycles", help="a processor that llvm-mca knows, such as znver3")
    parser.add_argument("--dump", type=Path, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.dump is not None:
        return dump(arguments.dump)
    if arguments.cycles is not None:
        return print_cycles(arguments.cycles)
    lines = []
    for line in table():
        print(line, flush=True)
        lines.append(line)
    if arguments.write:
        from gpu_calls import replace_block

        replace_block(ROOT / "docs" / "processors.md", "processors", "\n".join(lines))
    return None


if __name__ == "__main__":
    main()
