"""Transcripts of up to a million words in one file of log-probs, through the program: time, and peak memory.

python tests/benchmarks/long_transcripts.py [WORDS …] [--kind KIND …]        default: 10000 30000 100000; all kinds

Kinds of made log-probs, float32 of 32 classes, 6 frames a word:

    clear       the class that is said has 60 to 95 % of each frame
    blurred     30 to 90 %, and every frame leaks into its neighbours
    elsewhere   as clear; of a hundredth of the text, in a row, other words are said
    noise       nothing of the text is there: what takes too long is refused
"""

from __future__ import annotations

import os
import sys
import tempfile
from pathlib import Path

import numpy as np
from measuring import Cost, parser_of, timed_run

KINDS = ("clear", "blurred", "elsewhere", "noise")
LETTERS = "etaoinshrdlcumwfgypbvkjxqz"
VOCABULARY = ("<blank>", "|", *sorted(LETTERS), "'", "-", "+", "=")
LEXICON_WORDS = 20_000
FRAMES_AT_ONCE = 200_000
FRAME_SHIFT_S = 0.02


def lexicon(rng: np.random.Generator) -> list[str]:
    """Words of one to five letters, frequent letters more often."""
    share = 1.0 / np.arange(2, len(LETTERS) + 2)
    words: set[str] = set()
    while len(words) < LEXICON_WORDS:
        words.add("".join(rng.choice(list(LETTERS), p=share / share.sum(), size=rng.integers(1, 6))))
    return sorted(words)


def classes_of(words: list[str], rng: np.random.Generator) -> np.ndarray:
    """The class that is said in each frame: blanks now and then, and between equal letters; a letter lasts a frame or
    two."""
    index = {token: number for number, token in enumerate(VOCABULARY)}
    ids = np.array([index[letter] for letter in "|".join(words)])
    blanks = rng.poisson(0.08, len(ids)) + np.append(False, ids[1:] == ids[:-1])
    lasts = 1 + (rng.random(len(ids)) < 0.07)
    classes = np.zeros(int((blanks + lasts).sum()), np.int64)
    starts = np.cumsum(blanks + lasts) - lasts
    for frame in (0, 1):
        there = lasts > frame
        classes[starts[there] + frame] = ids[there]
    return classes


def make(folder: Path, words: int, kind: str, seed: int = 1) -> tuple[Path, Path, int]:
    """Write log-probs and their transcript; return both files and the number of frames."""
    rng, known = np.random.default_rng(seed), lexicon(np.random.default_rng(7))
    text = [known[i] for i in rng.integers(0, len(known), words)]
    said = list(text)
    if kind == "elsewhere":
        first, count = words // 3, words // 100
        said[first : first + count] = [known[i] for i in rng.integers(0, len(known), count)]
    transcript, audio = folder / f"{kind}-{words}.txt", folder / f"{kind}-{words}.npy"
    transcript.write_text(" ".join(text) + "\n", "utf-8")
    classes = classes_of(said, rng)
    frames, kinds = len(classes), len(VOCABULARY)
    out = np.lib.format.open_memmap(audio, mode="w+", dtype=np.float32, shape=(frames, kinds))
    for first in range(0, frames, FRAMES_AT_ONCE):
        own = classes[first : first + FRAMES_AT_ONCE]
        place = np.arange(len(own))
        if kind == "noise":
            x = np.exp(rng.standard_normal((len(own), kinds)))
        else:
            top = rng.uniform(0.3, 0.9, len(own)) if kind == "blurred" else rng.uniform(0.6, 0.95, len(own))
            x = rng.gamma(0.3, 1.0, (len(own), kinds))
            x[place, own] = 0.0
            x *= ((1 - top) / x.sum(1))[:, None]
            x[place, own] = top
        if kind == "blurred":
            x[1:-1] += 0.3 * (x[:-2] + x[2:])
        out[first : first + len(own)] = np.log(np.maximum(x / x.sum(1, keepdims=True), 1e-9))
    out.flush()
    return audio, transcript, frames


def run(audio: Path, transcript: Path, folder: Path) -> tuple[Cost, str]:
    """Return what a call took, and the last line that it wrote to stderr."""
    options = ["--vocab", str(folder / "vocabulary.txt"), "--frame-shift", str(FRAME_SHIFT_S), "--force"]
    out = ["--out-dir", str(folder / "out")]
    with open(folder / "said.txt", "w+b") as said:
        cost = timed_run(["-m", "ctc_align", str(audio), str(transcript), *options, *out], stderr=said)
        said.seek(0)
        lines = said.read().decode("utf-8").splitlines()
    return cost, next((line for line in lines if line.startswith("CTC loss")), lines[-1] if lines else "")


def main() -> int:
    parser = parser_of(__doc__)
    parser.add_argument("words", nargs="*", type=int, default=[10_000, 30_000, 100_000])
    parser.add_argument("--kind", action="append", choices=KINDS)
    parser.add_argument("--folder", help="for the files, which need 800 MB for a million words")
    arguments = parser.parse_args()
    print(f"{os.cpu_count()} cores\nkind           words     frames     wall  processor  peak memory")
    for kind in arguments.kind or KINDS:
        for words in arguments.words:
            with tempfile.TemporaryDirectory(dir=arguments.folder) as name:
                folder = Path(name)
                (folder / "vocabulary.txt").write_text("\n".join(VOCABULARY) + "\n", "utf-8")
                audio, transcript, frames = make(folder, words, kind)
                cost, said = run(audio, transcript, folder)
            figures = f"{cost.wall_s:7.1f}s {cost.processor_s:9.1f}s {cost.peak / 2**20:8.0f} MiB"
            print(f"{kind:10} {words:9} {frames:10} {figures}  {said}", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
