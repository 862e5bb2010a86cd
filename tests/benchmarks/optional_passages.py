"""How well the sound decides whether parentheses are spoken:

    python tests/benchmarks/optional_passages.py [FOLDER]       default: ../shared/data/english beside the checkout

In sentences of the split "dev", at most 14 of a speaker, words that were said are put in parentheses, and words of
other sentences, which were not, are put in: twice each, at places by chance. For several biases, and for the speakers
that chose the bias and the others: how many of what was said are left out, and of what was not are kept, in percent.
"""

from __future__ import annotations

import sys
from collections import Counter
from pathlib import Path

import numpy as np
from measuring import ENGLISH, manifest_rows

from ctc_align.alignment.aligner import Aligner
from ctc_align.alignment.pronunciations import passage_gains
from ctc_align.kernels import batching
from ctc_align.kernels.batching import KernelSteps
from ctc_align.text import split
from ctc_align.tokens.tokenizer import Tokenizer, tokenize, tokenizer_for
from ctc_align.types import Emissions

LENGTHS = (1, 2, 3, 4, 6, 8, 12)
BIASES = (0.0, -1.0, -2.0, -2.5, -3.0, -4.0)
MOST_OF_A_SPEAKER, FEWEST_WORDS = 14, 12


def main(folder: Path) -> None:
    rng, rows = np.random.default_rng(0), sentences(folder)
    aligner = Aligner("english", device="cpu")
    texts = [row["text"].split() for row in rows]
    tasks, cases = [], []
    for row, words in zip(rows, texts):
        emissions = aligner.emissions(str(folder / row["audio"]))
        tokenizer = tokenizer_for(emissions.vocab, emissions.blank)
        for count in 2 * [count for count in LENGTHS if len(words) >= count + 4]:
            others = [text for text in texts if text is not words and len(text) >= count]
            other = others[int(rng.integers(len(others)))]
            start, place = int(rng.integers(len(words) - count + 1)), int(rng.integers(len(words) + 1))
            begin = int(rng.integers(len(other) - count + 1))
            said = [*words[:start], f"({' '.join(words[start : start + count])})", *words[start + count :]]
            unsaid = [*words[:place], f"({' '.join(other[begin : begin + count])})", *words[place:]]
            for was_said, text in ((True, said), (False, unsaid)):
                tasks.append(gain(emissions, " ".join(text), tokenizer))
                cases.append((row["speaker"], count, was_said))
    gains = batching.run(tasks)
    speakers = sorted({speaker for speaker, _, _ in cases})
    for name, chosen in (("choosing", speakers[::2]), ("held out", speakers[1::2])):
        print(f"{name}: {len(chosen)} speakers; left out of what was said / kept of what was not, %, by words inside")
        print("bias   all        " + "".join(f"{count:<11}" for count in LENGTHS))
        for bias in BIASES:
            cells = [shares(cases, gains, chosen, counts, bias) for counts in (LENGTHS, *((n,) for n in LENGTHS))]
            print(f"{bias:<7}" + "".join(f"{cell:<11}" for cell in cells))
        print("of " + ", ".join(str(sum(c[0] in chosen and c[2] == was for c in cases)) for was in (True, False)))


def sentences(folder: Path) -> list[dict[str, str]]:
    taken: Counter[str] = Counter()
    chosen = []
    for row in manifest_rows(folder / "manifest.jsonl", "dev"):
        if len(row["text"].split()) >= FEWEST_WORDS:
            taken[row["speaker"]] += 1
            if taken[row["speaker"]] <= MOST_OF_A_SPEAKER:
                chosen.append(row)
    return chosen


def gain(emissions: Emissions, text: str, tokenizer: Tokenizer) -> KernelSteps[float]:
    """Return the nats a token by which the only passage of a text is likelier than nothing in its place."""
    words = split(text)
    word_tokens = tokenize(words, tokenizer)
    found = yield from passage_gains(emissions, words, word_tokens, tokenizer.separator)
    return found[0][1] if found else float("nan")  # "(music)" is a direction without asking


def shares(
    cases: list[tuple[str, int, bool]], gains: list[float], speakers: list[str], counts: tuple[int, ...], bias: float
) -> str:
    kept = {True: [], False: []}  # type: dict[bool, list[bool]]
    for (speaker, count, was_said), gained in zip(cases, gains):
        if speaker in speakers and count in counts and not np.isnan(gained):
            kept[was_said].append(gained > bias)
    return f"{100 - 100 * np.mean(kept[True]):.1f} / {100 * np.mean(kept[False]):.1f}"


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else ENGLISH)
