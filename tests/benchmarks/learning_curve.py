"""How the errors of word edges fall with the number of labelled utterances that `ctc-align calibrate` learns from.

    python tests/benchmarks/learning_curve.py REFERENCE --audio CORPUS [--utterances 8 16 32 64]

Groups of speakers are left out in turn; utterances are chosen at random among those of the others. Both the constants
and the network of edges come from the chosen ones alone.
"""

from __future__ import annotations

import os
import time

import numpy as np
from measuring import parser_of

from ctc_align.alignment.aligner import Aligner
from ctc_align.training.calibration_fitting import PlacedUtterances
from ctc_align.training.edge_learning import learn_edges
from ctc_align.training.labelled_speech import read_labelled


def main() -> None:
    """Print a row for each number of utterances."""
    parser = parser_of(__doc__)
    parser.add_argument("reference", help="folder of TextGrids")
    parser.add_argument("--audio", help="folder of recordings")
    parser.add_argument("--model", default="english")
    parser.add_argument("--utterances", type=int, nargs="+", default=[8, 16, 32, 64])
    options = parser.parse_args()
    started_s = time.monotonic()
    aligner = Aligner(options.model, device="cpu")
    placed = PlacedUtterances.of(aligner, read_labelled(options.reference, options.audio), "", keep_sound=True)
    others = len(placed.utterances) * (1 - 1 / (placed.folds.max() + 1))
    shares = tuple(count / others for count in options.utterances if count < 0.95 * others)
    constants = placed.held_out()
    print(f"constants of all others: {np.abs(constants.errors_ms).mean():.1f} ms")
    print("utterances  mean error, ms")
    for count, error_ms in learn_edges(placed.as_set(aligner, shares)).curve:
        print(f"{count:10.0f}  {error_ms:14.2f}")
    print(f"took {time.monotonic() - started_s:.0f} s, load {os.getloadavg()[0]:.1f}")


if __name__ == "__main__":
    main()
