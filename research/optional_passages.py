"""How well the sound decides whether parentheses are spoken, and words that break off:

    python research/optional_passages.py [FOLDER]       default: ../shared/data/english beside the checkout

In sentences of the split "dev", at most 14 of a speaker, words that were said are put in
parentheses, and words of other sentences, which were not, are put in: twice each, at places by
chance. For several biases, and for the speakers that chose the bias and the others: how many of
what was said are left out, and of what was not are kept, in percent.
A word that breaks off is made of a sentence's own: the sound of its first two or three phones and
80 ms of silence are put before it, or it is only written there.
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import soundfile
from measuring import ENGLISH, manifest_rows

from ctc_align.alignment.aligner import Aligner
from ctc_align.alignment.pronunciations import passage_gains
from ctc_align.kernels import batching
from ctc_align.kernels.batching import StageSteps
from ctc_align.text import split
from ctc_align.tokens.tokenizer import Tokenizer, tokenize, tokenizer_for
from ctc_align.types import Emissions

LENGTHS = (1, 2, 3, 4, 6, 8, 12)
BIASES = (0.0, -1.0, -2.0, -2.5, -3.0, -4.0, -5.0, -6.0)
BROKEN_OFF = 0
"""Stands for the number of words of a passage: a part of one."""
PAUSE_S, FADE_S = 0.08, 0.01
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
            start, place = (
                int(rng.integers(len(words) - count + 1)),
                int(rng.integers(len(words) + 1)),
            )
            begin = int(rng.integers(len(other) - count + 1))
            said = [
                *words[:start],
                f"({' '.join(words[start : start + count])})",
                *words[start + count :],
            ]
            unsaid = [*words[:place], f"({' '.join(other[begin : begin + count])})", *words[place:]]
            for was_said, text in ((True, said), (False, unsaid)):
                tasks.append(gain(emissions, " ".join(text), tokenizer))
                cases.append((row["speaker"], count, was_said))
        for was_said, emissions, sentence in broken_off(
            aligner, folder / row["audio"], row["text"], rng
        ):
            tasks.append(gain(emissions, sentence, tokenizer))
            cases.append((row["speaker"], BROKEN_OFF, was_said))
    gains = batching.run(tasks)
    speakers = sorted({speaker for speaker, _, _ in cases})
    for name, chosen in (("choosing", speakers[::2]), ("held out", speakers[1::2])):
        print(
            f"{name}: {len(chosen)} speakers; left out of what was said / kept of what was not, %,"
            " by words inside"
        )
        print("bias   all        " + "".join(f"{count:<11}" for count in LENGTHS) + "broken off")
        for bias in BIASES:
            cells = [
                shares(cases, gains, chosen, counts, bias)
                for counts in (LENGTHS, *((n,) for n in (*LENGTHS, BROKEN_OFF)))
            ]
            print(f"{bias:<7}" + "".join(f"{cell:<11}" for cell in cells))
        print(
            "of "
            + ", ".join(
                str(sum(c[0] in chosen and c[2] == was for c in cases)) for was in (True, False)
            )
        )


def broken_off(
    aligner: Aligner, audio: Path, text: str, rng: np.random.Generator
) -> Iterator[tuple[bool, Emissions, str]]:
    """Yield a sentence with a word that breaks off: whether it is spoken, emissions, and the
    text."""
    samples, rate = soundfile.read(audio, dtype="float32")
    words = aligner.align((samples, rate), text).words
    places = [at for at, word in enumerate(words) if word.text.isalpha() and len(word.tokens) >= 4]
    if not places:
        return
    at, count = int(rng.choice(places)), int(rng.integers(2, 4))
    word = words[at]
    letters = max(2, round(len(word.text) * count / len(word.tokens)))
    written = " ".join(
        [*(w.text for w in words[:at]), word.text[:letters] + "-", *(w.text for w in words[at:])]
    )
    first, last = round(word.start_s * rate), round(word.tokens[count - 1].end_s * rate)
    part, fade = samples[first:last].copy(), min((last - first) // 4, round(FADE_S * rate))
    part[-fade:] *= np.linspace(1, 0, fade, dtype=np.float32)
    pause = rng.normal(0, 1e-4, round(PAUSE_S * rate)).astype(np.float32)
    said = np.concatenate((samples[:first], part, pause, samples[first:]))
    yield True, aligner.emissions((said, rate)), written
    yield False, aligner.emissions((samples, rate)), written


def sentences(folder: Path) -> list[dict[str, str]]:
    taken: Counter[str] = Counter()
    chosen = []
    for row in manifest_rows(folder / "manifest.jsonl", "dev"):
        if len(row["text"].split()) >= FEWEST_WORDS:
            taken[row["speaker"]] += 1
            if taken[row["speaker"]] <= MOST_OF_A_SPEAKER:
                chosen.append(row)
    return chosen


def gain(emissions: Emissions, text: str, tokenizer: Tokenizer) -> StageSteps[float]:
    """Return the nats a token by which the only passage of a text is likelier than nothing in its
    place."""
    words = split(text)
    word_tokens = tokenize(words, tokenizer)
    found = yield from passage_gains(emissions, words, word_tokens, tokenizer.separator)
    return found[0][1] if found else float("nan")  # "(music)" is a direction without asking


def shares(
    cases: list[tuple[str, int, bool]],
    gains: list[float],
    speakers: list[str],
    counts: tuple[int, ...],
    bias: float,
) -> str:
    kept = {True: [], False: []}  # type: dict[bool, list[bool]]
    for (speaker, count, was_said), gained in zip(cases, gains):
        if speaker in speakers and count in counts and not np.isnan(gained):
            kept[was_said].append(gained > bias)
    return f"{100 - 100 * np.mean(kept[True]):.1f} / {100 * np.mean(kept[False]):.1f}"


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else ENGLISH)
