"""How often a text is taken for English or not, by the number of its words.

    python research/english_or_not.py --english MANIFEST.jsonl --train MANIFEST.jsonl --test
    MANIFEST.jsonl …

Manifests are those of `research/english_letters.py`. The texts of one language (or one kind of
`english-texts.txt`) are joined, and cut into texts of as many words. With `--folds K` the languages
and the English speakers of the training are left out in K turns, and the weights learnt without
them.
"""

from __future__ import annotations

import os
import tempfile
from collections import Counter
from collections.abc import Iterable
from pathlib import Path

import numpy as np

from measuring import manifest_rows, parser_of  # isort: skip
from ctc_align.text.languages import NGRAM_WEIGHTS, likely_other_language
from english_letters import learnt, texts_of

SIZES = (5, 10, 20, 50)
HARD = Path(__file__).with_name("english-texts.txt")


def main() -> None:
    """Measure, and print tables."""
    parser = parser_of(__doc__)
    parser.add_argument("--english", required=True)
    parser.add_argument("--train")
    parser.add_argument("--test", nargs="*", default=[])
    parser.add_argument("--folds", type=int, default=0)
    parser.add_argument("--show", action="store_true", help="print what is taken for the other")
    arguments = parser.parse_args()
    if arguments.folds:
        folds(arguments.english, arguments.train, arguments.folds, arguments.show)
        return
    dev = by_speaker(arguments.english, "dev")
    texts = [text for each in dev.values() for text in each]
    table(
        "English, split dev",
        {"as it is": texts, "capitals": [text.upper() for text in texts]},
        False,
        arguments.show,
    )
    table("English, hard", hard_texts(), False, arguments.show)
    for path in arguments.test:
        table(path, texts_of_test(path), True, arguments.show)


def folds(english: str, train: str, count: int, show: bool) -> None:
    """Print the tables of languages and speakers that the weights were not learnt from."""
    speakers, others = by_speaker(english, "train"), texts_of(train)
    others.pop("en", None)
    missed: dict[str, dict[int, list[tuple[str, str]]]] = {}
    heard: dict[str, dict[int, list[tuple[str, str]]]] = {}
    for fold in range(count):
        left_out = sorted(others)[fold::count]
        silent = sorted(speakers)[fold::count]
        weights = Path(tempfile.gettempdir(), f"english-letters-{os.getpid()}-{fold}.npy")
        kept = [text for name, each in speakers.items() if name not in silent for text in each]
        np.save(
            weights,
            learnt(kept, {code: each for code, each in others.items() if code not in left_out}),
        )
        heard[f"speakers {fold}"] = rows(
            [text for name in silent for text in speakers[name]], weights
        )
        missed |= {code: rows(others[code], weights) for code in left_out}
        weights.unlink()
    show_rows("English speakers left out", heard, False, show)
    show_rows("languages left out", missed, True, show)


def by_speaker(path: str, split: str) -> dict[str, list[str]]:
    """Return the texts of a split of the English manifest by speaker, each once."""
    texts: dict[str, dict[str, None]] = {}
    for row in manifest_rows(Path(path), split):
        texts.setdefault(row["speaker"], {})[row["text"]] = None
    return {name: list(each) for name, each in texts.items()}


def texts_of_test(path: str) -> dict[str, list[str]]:
    """Return the texts of a manifest by language, whatever their split."""
    texts: dict[str, list[str]] = {}
    for row in manifest_rows(Path(path)):
        texts.setdefault(row["language"], []).append(row["text"])
    return texts


def hard_texts() -> dict[str, list[str]]:
    """Return the texts of `english-texts.txt` by kind."""
    texts: dict[str, list[str]] = {}
    for line in filter(None, HARD.read_text(encoding="utf-8").splitlines()):
        if line.startswith("["):
            texts[line.strip("[]")] = []
        elif not line.startswith("#"):
            texts[list(texts)[-1]].append(line)
    return texts


def rows(texts: Iterable[str], weights: Path = NGRAM_WEIGHTS) -> dict[int, list[tuple[str, str]]]:
    """Return the texts cut into pieces of each number of words, with the language that each is
    taken for."""
    words = " ".join(texts).split()
    if len(words) < len("".join(words)) / 30:  # no spaces between words
        words = ["".join(words)[place : place + 2] for place in range(0, len("".join(words)), 2)]
    cut = {
        size: [" ".join(words[at : at + size]) for at in range(0, len(words) - size + 1, size)]
        for size in SIZES
    }
    return {
        size: [(text, likely_other_language(text, weights)) for text in each]
        for size, each in cut.items()
    }


def table(title: str, texts: dict[str, list[str]], other: bool, show: bool) -> None:
    """Print how many of the texts are taken for what they are not English."""
    show_rows(title, {name: rows(each) for name, each in texts.items()}, other, show)


def show_rows(
    title: str, found: dict[str, dict[int, list[tuple[str, str]]]], other: bool, show: bool
) -> None:
    """Print for each size how many texts are taken for another language than English, and which are
    taken wrongly."""
    print(f"\n{title}: taken for another language than English")
    for size in SIZES:
        pairs = [
            (name, *pair)
            for name, each in found.items()
            for pair in each[size]
            if name != "en" or not other
        ]
        taken = sum(bool(code) for _, _, code in pairs)
        wrong = Counter(name for name, _, code in pairs if bool(code) != other)
        named = sum(code == name.partition("-")[0] for name, _, code in pairs) if other else 0
        print(
            f"  {size:3} words: {taken} of {len(pairs)} ({100 * taken / max(1, len(pairs)):.2f} %)",
            end="",
        )
        print(f", {named} by the right name" if other else "", dict(wrong.most_common(12)))
        for name, text, code in pairs if show and size >= 20 else ():
            if bool(code) != other:
                print(f"      {name} {code}: {text[:180]}")


if __name__ == "__main__":
    main()
