"""Estimates of how long a warp takes for a kernel, from NVIDIA's machine code, as `nvdisasm -c -hex -g` prints it.

ptxas writes into each instruction how many cycles the next one has to wait at least, and which of six barriers of
results still under way it waits for. So one warp can be followed in order: what takes a fixed time is in the code, and
only the latencies of memory, shuffles and special functions must be given. Loops run as often as they are said to, by
the `for` of the Python source that they come from; branches over slow paths are taken.
"""

from __future__ import annotations

import ast
import re
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

LABEL = re.compile(r"^(\S+):$")
LINE = re.compile(r'^\s*//## File "([^"]+)", line (\d+)')
CODE = re.compile(r"^\s*/\*([0-9a-f]{4,})\*/\s+(?:@(!?U?P\w+)\s+)?([A-Z][\w.]*)([^;]*);\s*/\* 0x([0-9a-f]{16}) \*/")
CONTROL = re.compile(r"^\s*/\* 0x([0-9a-f]{16}) \*/")
NONE = 7

PIPES = {
    "double": re.compile(r"D(ADD|MUL|FMA|SETP|MNMX)|DMMA"),
    "special": re.compile(r"MUFU|[FI]2[FI]|FRND|POPC|FLO|BREV|R2UR|I2FP"),
    "memory": re.compile(r"LD[GSLC]?\b|ST[GSL]?\b|LD[GSL]|ST[GSL]|SHFL|ATOM|RED"),
    "float": re.compile(r"F(ADD|MUL|FMA)\b|FADD|FMUL|FFMA"),
    "product": re.compile(r"IMAD"),
    "control": re.compile(r"BRA|BSSY|BSYNC|EXIT|CALL|RET|NOP|BAR|WARPSYNC|DEPBAR|S2R|CS2R|U\w+|LDC|VOTE"),
}
"""What instructions use; the rest, integers, comparisons and selections, is "integer"."""


@dataclass(frozen=True)
class Instruction:
    """One instruction: `waits` has a bit for each barrier that it waits for, `result` and `read` are those it sets."""

    name: str
    guarded: bool
    target: str
    stall: int
    result: int
    read: int
    waits: int
    place: tuple[str, int]

    @property
    def pipe(self) -> str:
        return next((pipe for pipe, names in PIPES.items() if names.match(self.name)), "integer")


@dataclass(frozen=True)
class Loop:
    """The instructions first … last, which ends with the branch back; `source`: what the Python `for` goes over, after
    what those go over that it is in: "outer > inner"."""

    first: int
    last: int
    source: str

    @property
    def inner(self) -> str:
        return self.source.rpartition(" > ")[2]


@dataclass(frozen=True)
class Cost:
    """What a warp takes: cycles from the first to the last instruction, and instructions by `PIPES`."""

    cycles: float
    counts: Mapping[str, float]

    @property
    def instructions(self) -> float:
        return sum(self.counts.values())


class Program:
    """A kernel's instructions and loops."""

    def __init__(self, text: str, kernel: str) -> None:
        """Parse the text; `kernel` is the name of the Python function."""
        self.code: list[Instruction] = []
        self.labels: dict[str, int] = {}
        place, half = ("", 0), None
        for line in text.splitlines():
            if found := LABEL.match(line):
                self.labels[found[1]] = len(self.code)
            elif found := LINE.match(line):
                if "inlined at" not in line or not place[1]:
                    place = found[1], int(found[2])
            elif found := CODE.match(line):
                half = found
            elif half is not None and (found := CONTROL.match(line)):
                bits = int(found[1], 16) >> 41
                target = re.search(r"`\(([^)]+)\)", half[4])
                fields = (bits & 15, bits >> 5 & 7, bits >> 8 & 7, bits >> 11 & 63)
                guarded = half[2] is not None or ("BRA" in half[3] and bool(re.match(r"\s*U?!?P", half[4])))
                self.code.append(Instruction(half[3], guarded, target[1] if target else "", *fields, place))
                half = None
        assert self.code, "no machine code"
        self.loops = self._loops(kernel)

    def _loops(self, kernel: str) -> list[Loop]:
        found = []
        for last, one in enumerate(self.code):
            first = self.labels.get(one.target, last + 1)
            if one.name.startswith("BRA") and first < last:
                lines = [each.place for each in self.code[first : last + 1]]
                found.append(Loop(first, last, source_of(lines, kernel)))
        named = {}
        for loop in found:
            outer = [each for each in found if each.first <= loop.first and loop.last < each.last]
            named[loop] = " > ".join(
                [each.source for each in sorted(outer, key=lambda each: each.first)] + [loop.source]
            )
        return [Loop(loop.first, loop.last, named[loop]) for loop in found]

    def cost(self, trips: Mapping[str, int], latencies: Mapping[str, float]) -> Cost:
        """Follow one warp. `trips`: by what a `for` goes over, how often it runs, which all loops need; "EXIT": whether
        a program with nothing to do leaves early.

        The loop that runs most is followed twice and four times; what each further time costs is their difference.
        """
        trips = {loop.source: trips[loop.inner] for loop in self.loops if loop.inner in trips} | dict(trips)
        unknown = {loop.source for loop in self.loops} - set(trips)
        assert not unknown, f"how often do these loops run: {sorted(unknown)}"
        most = max((loop.source for loop in self.loops), key=lambda source: trips[source], default="")
        if not most or trips[most] <= 4:
            return self._follow(trips, latencies)
        two, four = (self._follow({**trips, most: number}, latencies) for number in (2, 4))
        times = (trips[most] - 2) / 2
        counts = {name: two.counts[name] + times * (four.counts[name] - two.counts[name]) for name in four.counts}
        return Cost(two.cycles + times * (four.cycles - two.cycles), counts)

    def _follow(self, trips: Mapping[str, int], latencies: Mapping[str, float]) -> Cost:
        at, time, ready, counts = 0, 0.0, [0.0] * 8, Counter[str]()
        left: dict[int, int] = {}
        calls: list[int] = []
        while at < len(self.code):
            one = self.code[at]
            time = max([time, *(ready[barrier] for barrier in range(6) if one.waits >> barrier & 1)])
            counts[one.pipe] += 1
            if one.result != NONE:
                ready[one.result] = max(ready[one.result], time + latency(one.name, latencies))
            if one.read != NONE:
                ready[one.read] = max(ready[one.read], time + latencies["read"])
            time += max(one.stall, 1) + (latencies["BAR"] if one.name.startswith("BAR") else 0)
            if one.name.startswith("EXIT") and (not one.guarded or trips.get("EXIT")):
                break
            at = self._next(at, trips, left, calls)
        return Cost(time, counts)

    def _next(self, at: int, trips: Mapping[str, int], left: dict[int, int], calls: list[int]) -> int:
        one = self.code[at]
        if one.name.startswith("CALL") and one.guarded:  # how a loop is left: the branch back follows
            return at + 1
        if one.name.startswith("CALL") and one.target in self.labels:
            calls.append(at + 1)
            return self.labels[one.target]
        if one.name.startswith("RET") and calls:
            return calls.pop()
        if not one.name.startswith("BRA") or one.target not in self.labels:
            return at + 1
        goal = self.labels[one.target]
        if goal <= at:
            loop = next(loop for loop in self.loops if loop.last == at)
            left[at] = left.get(at, trips[loop.source]) - 1
            if left[at] > 0:
                return goal
            del left[at]
            leaves = not one.guarded and self.code[at - 1].name.startswith("EXIT")
            return len(self.code) if leaves else at + 1
        skipped = [loop for loop in self.loops if at < loop.first and loop.last < goal]
        outer = [loop for loop in skipped if not any(o.first <= loop.first and loop.last < o.last for o in skipped)]
        if one.guarded and any(trips[loop.source] > 0 for loop in outer):
            return at + 1
        return goal


def latency(name: str, latencies: Mapping[str, float]) -> float:
    """Return the latency of an instruction whose result is waited for: that of the longest name it begins with."""
    fitting = [start for start in latencies if name.startswith(start)]
    return latencies[max(fitting, key=len)] if fitting else latencies["other"]


def source_of(lines: list[tuple[str, int]], kernel: str) -> str:
    """Return what the `for` goes over that most of these lines of Python are of, the innermost; of a function that has
    an eighth of the lines, else of the kernel."""
    for least in (len(lines) / 8, 0):
        best, score = "?", (0.0, False, 0)
        for file in {file for file, _ in lines if file}:
            for node in ast.walk(ast.parse(Path(file).read_text(encoding="utf-8"))):
                if isinstance(node, ast.FunctionDef) and (least or node.name == kernel):
                    own = [line for name, line in lines if name == file and _within(node, line)]
                    for loop in ast.walk(node):
                        if isinstance(loop, ast.For) and len(own) > least:
                            inside = sum(_within(loop, line) for line in own) / len(own)
                            found = round(inside, 1), node.name == kernel, loop.lineno - (loop.end_lineno or 0)
                            if inside >= 0.5 and found > score:
                                best, score = ast.unparse(loop.iter), found
        if best != "?":
            return best
    return "?"


def _within(node: ast.FunctionDef | ast.For, line: int) -> bool:
    return node.lineno <= line <= (node.end_lineno or 0)
