"""Compile some of what the GPU's kernels are launched as, for cards that need not be there:
gpu_compiled.py [sample]

Prints one JSON object a line: target, kernel, its constants and what it takes. Of plain CTC for one
card, in one launch and in several, to look at the code; `sample`: of all kinds of calls a few, for
all cards. One kernel is compiled once more with too few registers, so that the limits are seen to
be broken.
`tests/benchmarks/gpu_matrix.py` compiles everything. Needs Triton, on Linux; TRITON_INTERPRET must
not be set. `tests/kernels/test_gpu_tools.py` runs it.
"""

from __future__ import annotations

import dataclasses
import json
import sys
from collections.abc import Iterator
from pathlib import Path
from unittest import mock

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

import absent_card
import torch
from absent_card import CARD, TARGETS, Specialisation
from gpu_calls import Combination

from ctc_align.kernels.gpu import launches

STRUCTURE = [Combination("ctc", length, torch.float32, False) for length in ("one strip", "strips")]
SAMPLE = {
    Combination("ctc, optional", "tiles", torch.float16, True): "occupancy",
    Combination("ctc, wildcards", "eight strips", torch.float64, False): "occupancy",
    Combination("simple", "tiles", torch.bfloat16, True): "best_path",
    Combination("segmentation, wildcards", "strips", torch.float32, False): "best_path in bands",
    Combination(
        "segmentation, optional, wildcards", "one strip", torch.float32, False
    ): "best_path",
}
"""One function of each; what they launch is dealt to the targets in turn."""


def wanted(sample: bool) -> Iterator[tuple[str, Specialisation, str]]:
    """Yield targets, what to compile for them, and the call that launches it."""
    if not sample:
        calls = {
            name: each
            for one in STRUCTURE
            for name, each in one.calls(CARD)
            if name[:4] in ("best", "occu")
        }
        calls = {name: each for name, each in calls.items() if "bands" not in name}
        for most in (launches.SINGLE_WARPS, 0):
            with mock.patch.object(launches, "SINGLE_WARPS", most):
                found = absent_card.specialisations(calls)
            for one, name in found.values():
                if most == 0 or one.kernel.startswith("small"):
                    yield "sm_90", one, name
    else:
        calls = {
            name: each
            for one, function in SAMPLE.items()
            for name, each in one.calls(CARD)
            if name == f"{function}: {one}"
        }
        for number, (one, name) in enumerate(absent_card.specialisations(calls).values()):
            yield list(TARGETS)[number % len(TARGETS)], one, name


def main() -> None:
    for target, one, name in wanted(sys.argv[1:] == ["sample"]):
        made = dataclasses.asdict(absent_card.compiled(one, target))
        print(
            json.dumps({"target": target, "kernel": one.kernel, "call": name, **one.named, **made}),
            flush=True,
        )
        if one.kernel == "posterior posterior" and one.named["LOG"] and target == "sm_90":
            made = dataclasses.asdict(absent_card.compiled(one, target, maxnreg=32))
            print(json.dumps({"target": target, "kernel": "starved", **made}), flush=True)


if __name__ == "__main__":
    main()
