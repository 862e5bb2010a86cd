"""From tokens to topologies, the sets of possible paths. Integers only, no floats, no device.

`ctc`, `simple_ctc` and `segmentation` make a `Topology` from token ids; `stack` pads several to one
batch; the kernels sum and maximise over its paths.
"""

from ctc_align.lattice.topology import (
    MAX_CLASS,
    WILDCARD,
    Detours,
    Topology,
    ctc,
    ctc_padded,
    ctc_passages,
    segmentation,
    simple_ctc,
    stack,
    states_per_sound,
)

__all__ = [
    "MAX_CLASS",
    "WILDCARD",
    "Detours",
    "Topology",
    "ctc",
    "ctc_padded",
    "ctc_passages",
    "segmentation",
    "simple_ctc",
    "stack",
    "states_per_sound",
]
