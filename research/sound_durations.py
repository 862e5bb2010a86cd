"""How long the sounds of a model usually last: the table `durations.tsv` of a model.

    python research/sound_durations.py MODEL MANIFEST FILE.tsv [--clips 400] [--seed N]
    python research/sound_durations.py MODEL MANIFEST FILE.tsv --languages ar,de,… --clips 20

The lengths are those in the model's own alignments of clips of a manifest: some of those for
training, or with `--languages` as many of each language, whatever their split. The last sound
before a pause of 50 ms or more, or before the end, is counted apart. A token's mean and
variance are drawn towards those of all tokens, as if `SHRINKAGE` of its sounds had these.
"""

from __future__ import annotations

import sys
from collections import defaultdict
from collections.abc import Iterable, Sequence
from pathlib import Path

import numpy as np
import soundfile
from measuring import manifest_rows, parser_of

from ctc_align.alignment.aligner import Aligner
from ctc_align.alignment.usual_lengths import PAUSE_S
from ctc_align.config import Settings
from ctc_align.errors import CtcAlignError
from ctc_align.types import AlignedWord, Transcript

SHRINKAGE = 10
LONGEST_S = 15.0
SHORTEST_S = 0.01
LEAST_SD = 0.2


def sound_lengths(words: Sequence[AlignedWord]) -> Iterable[tuple[str, bool, float]]:
    """Yield each token, whether a pause follows, and the logarithm of its length in seconds."""
    timed = [word for word in words if word.tokens]
    for k, word in enumerate(timed):
        following_s = timed[k + 1].tokens[0].start_s if k + 1 < len(timed) else float("inf")
        for token in word.tokens:
            pause = token is word.tokens[-1] and following_s - token.end_s >= PAUSE_S
            yield token.token, pause, float(np.log(max(token.end_s - token.start_s, SHORTEST_S)))


def choose_clips(
    manifest: Path, languages: Sequence[str], clips: int, seed: int
) -> Iterable[tuple[Path, Transcript]]:
    """Yield recordings and texts: `clips` of those for training, or of each of some languages."""
    if languages:
        groups = [
            [row for row in manifest_rows(manifest) if row["language"] == language]
            for language in languages
        ]
    else:
        groups = [manifest_rows(manifest, "train")]
    for group in groups:
        rows = [row for row in group if row["duration_s"] < LONGEST_S]
        for k in np.random.default_rng(seed).permutation(len(rows))[:clips]:
            language = rows[k]["language"] if languages else ""
            yield manifest.parent / rows[k]["audio"], Transcript(rows[k]["text"], language=language)


def measure_lengths(
    aligner: Aligner, clips: Iterable[tuple[Path, Transcript]]
) -> dict[bool, dict[str, list[float]]]:
    """Return the lengths of each token, by whether a pause follows."""
    lengths: dict[bool, dict[str, list[float]]] = {
        False: defaultdict(list),
        True: defaultdict(list),
    }
    for audio, text in clips:
        samples, rate = soundfile.read(audio, dtype="float32")
        try:
            alignment = aligner.align((samples, rate), text)
        except CtcAlignError as error:
            print(f"{audio}: {error}", file=sys.stderr)
            continue
        for token, pause, length in sound_lengths(alignment.words):
            lengths[pause][token].append(length)
    return lengths


def shrunk(values: Sequence[float], everyone: np.ndarray) -> tuple[float, float]:
    """Return mean and standard deviation, drawn towards those of all tokens."""
    count = len(values) + SHRINKAGE
    mean = (sum(values) + SHRINKAGE * everyone.mean()) / count
    squares = sum((value - mean) ** 2 for value in values) + SHRINKAGE * everyone.var()
    return float(mean), max(float(np.sqrt(squares / count)), LEAST_SD)


def main() -> int:
    parser = parser_of(__doc__)
    parser.add_argument("model")
    parser.add_argument("manifest", type=Path)
    parser.add_argument("table", type=Path)
    parser.add_argument("--clips", type=int, default=400)
    parser.add_argument("--languages", default="", help="their codes, separated by commas")
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args()
    languages = [language for language in given.languages.split(",") if language]
    clips = choose_clips(given.manifest, languages, given.clips, given.seed)
    aligner = Aligner(given.model, device="cpu", settings=Settings(match="exact"))
    aligner.model.durations = None  # what the sound says, without a table that is there already
    lengths = measure_lengths(aligner, clips)
    everyone = {
        pause: np.concatenate(list(map(np.array, of_tokens.values())))
        for pause, of_tokens in lengths.items()
    }
    lines = ["token\tmean\tsd\tmean before a pause\tsd before a pause"]
    for token in sorted(aligner.model.vocab[1:]):  # the first is the blank
        numbers = [
            number
            for pause in (False, True)
            for number in shrunk(lengths[pause][token], everyone[pause])
        ]
        lines.append("\t".join([token, *(f"{number:.3f}" for number in numbers)]))
    given.table.write_text("\n".join(lines) + "\n", "utf-8")
    print(f"{sum(map(len, everyone.values()))} sounds", file=sys.stderr)
    return 0


if __name__ == "__main__":
    sys.exit(main())
