"""`python -m ctc_align.training`: the recipe of `ctc_align.training.recipe` from the command line."""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from ctc_align.config import load_config
from ctc_align.errors import CtcAlignError, UsageError
from ctc_align.training.recipe import Recipe, run


def main(arguments_given: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m ctc_align.training", description="Train an acoustic model.")
    parser.add_argument("--config", default="train-english", help="TOML file or the name of one of ours")
    parser.add_argument("--manifest", type=Path, required=True, help="JSONL: audio, text, duration_s, split")
    parser.add_argument("--out", type=Path, required=True, help="folder of features, checkpoints and the model")
    arguments = parser.parse_args(arguments_given)
    began = time.monotonic()

    def say(line: str) -> None:
        print(f"{(time.monotonic() - began) / 60:6.1f} min  {line}", file=sys.stderr, flush=True)

    try:
        _make(arguments.out)
        print(run(load_config(Recipe, arguments.config, {}), arguments.manifest, arguments.out, say))
    except CtcAlignError as error:
        print(f"training: error: {error}", file=sys.stderr)
        return 2 if isinstance(error, UsageError) else 1
    return 0


def _make(folder: Path) -> None:
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UsageError(f"--out {folder}: the folder cannot be made: {error.strerror}") from error


if __name__ == "__main__":
    sys.exit(main())
