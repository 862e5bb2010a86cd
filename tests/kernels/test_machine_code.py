"""Estimates from machine code, on programs small enough to count by hand."""

from __future__ import annotations

import pytest
from machine_code import Program

LATENCIES = {"LDG": 100, "read": 20, "BAR": 30, "other": 10}


def line(code: str, stall: int = 1, result: int = 7, read: int = 7, waits: int = 0) -> str:
    bits = (stall | result << 5 | read << 8 | waits << 11) << 41
    return f"        /*0000*/  {code} ;  /* 0x{0:016x} */\n        /* 0x{bits:016x} */"


def program(*lines: str) -> Program:
    return Program("\n".join(lines), "sweep")


LOOP = (line("MOV R1, R2", 5), ".L_x_0:", line("FADD R1, R1, R2", 4), line("@P0 BRA `(.L_x_0)", 5), line("EXIT", 1))
LOAD = (line("LDG.E R1, [R2]", 2, result=3), line("MOV R4, R5", 6), line("FADD R1, R1, R1", 4, waits=8), line("EXIT"))
STORE = (line("STG.E [R2], R1", 2, read=1), line("MOV R1, R5", 4, waits=2), line("EXIT"))
SLOW = (line("@P0 BRA `(.L_x_1)", 5), line("BAR.SYNC 0x0", 5), ".L_x_1:", line("EXIT"))
CALL = (line("CALL.REL.NOINC `($div)", 5), line("EXIT", 1), "$div:", line("IMAD R1, R1, R1", 4), line("RET.REL R2", 5))
LEFT = (".L_x_2:", line("@P0 EXIT", 5), line("BRA `(.L_x_2)", 5), "$div:", line("RET.REL R2", 5))


@pytest.mark.parametrize(
    ("lines", "runs", "cycles", "counts"),
    [
        (LOOP, 1, 5 + 9 + 1, {"float": 1, "control": 2}),
        (LOOP, 3, 5 + 3 * 9 + 1, {"float": 3, "control": 4}),
        (LOOP, 1000, 5 + 1000 * 9 + 1, {"float": 1000, "control": 1001}),
        (LOAD, 0, 100 + 4 + 1, {"memory": 1, "float": 1, "control": 1}),
        (STORE, 0, 20 + 4 + 1, {"memory": 1, "control": 1}),
        (SLOW, 0, 5 + 1, {"control": 2}),
        (CALL, 0, 5 + 4 + 5 + 1, {"control": 3, "product": 1}),
        (LEFT, 2, 2 * 10, {"control": 4}),
    ],
    ids=["once", "thrice", "often", "load", "store", "slow path", "call", "left by exit"],
)
def test_a_warp_is_followed(lines: tuple[str, ...], runs: int, cycles: float, counts: dict[str, int]) -> None:
    cost = program(*lines).cost({"?": runs}, LATENCIES)
    assert cost.cycles == cycles
    assert {name: count for name, count in cost.counts.items() if name != "integer"} == counts


def test_a_loop_that_is_not_counted_is_named() -> None:
    with pytest.raises(AssertionError, match=r"how often do these loops run: \['\?'\]"):
        program(*LOOP).cost({}, LATENCIES)
