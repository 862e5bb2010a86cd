"""The tuned numbers by which the search and its judges decide, read from the code.

    python tests/support/tuned_limits.py [ROOT]

Each number of a module-level constant counts, each of a pair. Left out are numbers that bound only
time or memory (`SIZES`), and those that made the inputs from which a network has learnt
(`LEARNT`): whoever changes these trains it again.
"""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator
from pathlib import Path

JUDGES = (
    *("token_search", "found_words", "spoken_words", "islands", "undecided_words", "presence"),
    *("align_utterance", "fit", "confidence", "segmentation", "wildcard"),
)
"""The modules of `ctc_align.alignment` that search and judge."""
SIZES = {
    "token_search": {
        *("MOST_CELLS", "WHOLE_CELLS", "LARGEST_CELLS", "MOST_FRAGMENTS", "MOST_PLACES"),
        *("LOOK_BACK", "REACH_TOKENS", "REACH_A_LABEL", "_SPOKEN", "_JUMPED"),
    },
    "spoken_words": {"SAMPLES", "LONGEST_RUN", "WINDOWS_AT_ONCE", "MOST_ROUNDS"},
    "islands": {"LONGEST_S"},
    "undecided_words": {"MOST_CELLS"},
    "presence": {"MOST_CELLS", "PIECE_TOKENS", "MOST_PIECES", "ROTATIONS"},
    "align_utterance": {"MOST_CELLS"},
    "fit": {"_NAMED"},
    "confidence": {"SUMMED_FRAMES", "WORDS_AT_ONCE"},
    "segmentation": {
        *("WHOLE_FRAMES", "WINDOW_FRAMES", "OVERLAP_FRAMES", "WINDOW_TOKENS", "CONTEXT_TOKENS"),
        "BAND_FRAMES",
    },
}
"""Constants that bound time or memory, or number states."""
LEARNT = {
    "fit": {"SPEECH_NATS"},
    "confidence": {
        *("RIGHT_MS", "MOST_NATS", "LIKELY_SPIKE_NATS", "LIKELY_FIT_NATS", "SILENCE_NATS"),
        *("ALTERNATIVES", "CONTEXT_S", "WORST_NATS", "TYPICAL_NATS"),
        *("PRIOR_WORDS", "LONG_TEXT", "VARIED_TEXT"),
    },
}
"""Constants of the features of the confidence networks, and of the calibration."""

MOST_TUNED_LIMITS = 54
"""The search and its judges had 104 before a text was judged by what its sound can show, and 102 with
it."""


def tuned_limits(root: Path) -> dict[str, list[str]]:
    """Return the names of the tuned numbers of each module, one for each number."""
    found = {}
    for module in JUDGES:
        path = root / "ctc_align" / "alignment" / f"{module}.py"
        others = SIZES.get(module, set()) | LEARNT.get(module, set())
        if path.exists():
            found[module] = [name for name in number_names(path) if name not in others]
    return found


def number_names(path: Path) -> Iterator[str]:
    """Yield the name of each number that a file assigns at its top level."""
    for node in ast.parse(path.read_text("utf-8")).body:
        if not isinstance(node, ast.Assign):
            continue
        (target,) = node.targets
        pairs = [(target, node.value)]
        if isinstance(target, ast.Tuple) and isinstance(node.value, ast.Tuple):
            pairs = list(zip(target.elts, node.value.elts))
        for name, value in pairs:
            if isinstance(name, ast.Name):
                yield from [name.id] * count_numbers(value)


def count_numbers(value: ast.expr) -> int:
    """Return how many numbers a constant has; derived from others, it has none of its own.

    >>> [count_numbers(ast.parse(code).body[0].value) for code in ("2**5", "-1.5", "(1, 2)", "A / 2", "'a'")]
    [1, 1, 2, 0, 0]
    """
    if isinstance(value, ast.Dict):
        return sum(map(count_numbers, value.values))
    if isinstance(value, (ast.Tuple, ast.List)):
        return sum(map(count_numbers, value.elts))
    if any(isinstance(node, (ast.Name, ast.Attribute, ast.Call)) for node in ast.walk(value)):
        return 0
    numbers = [node for node in ast.walk(value) if isinstance(node, ast.Constant)]
    return int(bool(numbers) and all(isinstance(each.value, (int, float)) for each in numbers))


def main() -> None:
    root = Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).resolve().parents[2]
    found = tuned_limits(root)
    for module, names in found.items():
        print(f"{module:16} {len(names):3d}  {' '.join(names)}")
    print(f"{'all':16} {sum(map(len, found.values())):3d}")


if __name__ == "__main__":
    main()
