"""Does the loss know the true transcript, and does `--worst` find wrong ones? On read speech with its texts.

    python tests/benchmarks/scoring.py [MANIFEST] [--split dev] [--utterances 388] [--seed 0] [--model english]

1. Each utterance's own text against nine of other utterances, of the most similar lengths; and against itself with one
   word replaced, dropped or added (three of each). The true one is first if its loss is smaller than all nine.
2. A corpus with wrong words, and how well each statistic that `ctc-align score` prints tells the utterances that have
   any from those that have none: the area under the ROC curve (0.5 is chance, 1 is all). Three readings of "one in
   ten": one word is wrong in one utterance of ten; in wrong utterances a tenth of the words (at least one) is wrong;
   each word of the corpus is wrong with probability one tenth.

Words are drawn from the corpus as often as they are said in it. Nothing wrong is the same word in other letters.
"""

from __future__ import annotations

import random
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from measuring import MANIFEST, manifest_rows, parser_of

from ctc_align.alignment.aligner import Aligner
from ctc_align.alignment.scoring import Scored

KINDS = ("replaced", "dropped", "added")
STATISTICS = ("loss_per_token", "loss_per_frame", "loss", "local_loss")
OTHERS, EACH, DRAWS = 9, 3, 50


@dataclass(frozen=True)
class Case:
    """One utterance's scores: of its own text, of others, of its own with a wrong word (by kind), with a tenth of the
    words wrong, and with each word wrong with probability one tenth (None where none was)."""

    own: Scored
    others: list[Scored]
    one_word: list[tuple[str, Scored]]
    a_tenth: Scored
    at_random: Scored | None


class Spoiler:
    """Puts wrong words into texts; the same for the same seed."""

    def __init__(self, texts: Sequence[str], seed: int) -> None:
        self.random = random.Random(seed)
        self.pool = [word for text in texts for word in text.split()]

    def one(self, text: str, kind: str) -> str:
        """The text with one word wrong; one word alone is replaced, not dropped."""
        return " ".join(self._spoilt(text.split(), kind))

    def several(self, text: str, count: int) -> str:
        words = text.split()
        for _ in range(count):
            words = self._spoilt(words, self.random.choice(KINDS))
        return " ".join(words)

    def _spoilt(self, words: list[str], kind: str) -> list[str]:
        words = list(words)
        if kind == "added":
            words.insert(self.random.randrange(len(words) + 1), self.random.choice(self.pool))
            return words
        place = self.random.randrange(len(words))
        if kind == "dropped" and len(words) > 1:
            del words[place]
            return words
        old = words[place]
        while bare(words[place]) == bare(old):
            words[place] = self.random.choice(self.pool)
        return words


def bare(text: str) -> str:
    return "".join(char for char in text.casefold() if char.isalnum() or char == " ").strip()


def wrong_texts(text: str, spoiler: Spoiler) -> list[tuple[str, str]]:
    """Nine (kind, text), none of which reads like `text`."""
    found: list[tuple[str, str]] = []
    for kind in KINDS * EACH:
        wrong = spoiler.one(text, kind)
        # A dropped word of two equal ones, say, or the same word twice over: try once more, the last one stands.
        for _ in range(20):
            if bare(wrong) != bare(text) and wrong not in [other for _, other in found]:
                break
            wrong = spoiler.one(text, kind)
        found.append((kind, wrong))
    return found


def scored_cases(rows: Sequence[dict], folder: Path, aligner: Aligner, count: int, seed: int) -> list[Case]:
    texts = [row["text"] for row in rows]
    spoiler = Spoiler(texts, seed)
    chosen = sorted(random.Random(seed).sample(range(len(rows)), min(count, len(rows))))
    cases = []
    for i in chosen:
        own = texts[i]
        near = sorted(range(len(rows)), key=lambda k: (abs(len(texts[k]) - len(own)), k))
        others = [texts[k] for k in near if bare(texts[k]) != bare(own)][:OTHERS]
        wrong = wrong_texts(own, spoiler)
        words = len(own.split())
        at_random = sum(spoiler.random.random() < 0.1 for _ in range(words))
        several = [spoiler.several(own, max(1, round(words / 10))), spoiler.several(own, at_random)]
        alternatives = [own, *others, *(text for _, text in wrong), *several]
        scored = {one.index: one for one in aligner.score_texts(str(folder / rows[i]["audio"]), alternatives)}
        first = 1 + len(others)
        one_word = [(kind, scored[first + k]) for k, (kind, _) in enumerate(wrong)]
        last = scored[len(alternatives) - 1] if at_random else None
        cases.append(Case(scored[0], [scored[k] for k in range(1, first)], one_word, scored[first + len(wrong)], last))
    return cases


def area(right: np.ndarray, wrong: np.ndarray) -> float:
    """The probability that a wrong one's statistic is larger than a right one's; ties count half.

    >>> area(np.array([0.0, 1.0]), np.array([1.0, 2.0]))
    0.875
    """
    order = np.sort(right)
    below = np.searchsorted(order, wrong, "left") + np.searchsorted(order, wrong, "right")
    return float(below.mean() / 2 / len(right))


def values(scored: Sequence[Scored], statistic: str) -> np.ndarray:
    """What does not fit is worse than all."""
    return np.array([np.inf if one.error else getattr(one, statistic) for one in scored], np.float64)


def show_ranks(cases: Sequence[Case]) -> None:
    def first(wrong: list[list[Scored]], statistic: str = "loss") -> float:
        own = values([case.own for case in cases], statistic)
        return 100 * float(np.mean([(value < values(row, statistic)).all() for value, row in zip(own, wrong)]))

    by_kind = {kind: [[one for k, one in case.one_word if k == kind] for case in cases] for kind in KINDS}
    spoilt = [[one for _, one in case.one_word] for case in cases]
    print(f"the true text is first of ten: {first([c.others for c in cases]):.1f} % against texts of other utterances, "
          f"{first(spoilt):.1f} % against its own with a wrong word")  # fmt: skip
    print("  of four: " + ", ".join(f"{first(wrong):.1f} % against a word {kind}" for kind, wrong in by_kind.items()))
    for kind, wrong in by_kind.items():
        margins = np.array([one.loss - case.own.loss for case, row in zip(cases, wrong) for one in row])
        won, tied = 100 * (margins > 0).mean(), 100 * (margins == 0).mean()
        print(f"  a word {kind}: {won:.1f} % of pairs won, {tied:.1f} % tied")
    print(f"  were they ranked by loss_per_token: {first([c.others for c in cases], 'loss_per_token'):.1f} % and "
          f"{first(spoilt, 'loss_per_token'):.1f} %")  # fmt: skip


def show_areas(cases: Sequence[Case], seed: int) -> None:
    print(f"\narea under the curve     {'  '.join(f'{name:>14}' for name in STATISTICS)}")

    def line(label: str, right: list[Scored], wrong: list[Scored]) -> None:
        print(f"{label:25}" + "  ".join(f"{area(values(right, s), values(wrong, s)):14.3f}" for s in STATISTICS))

    own = [case.own for case in cases]
    line("one word wrong", own, [one for case in cases for _, one in case.one_word])
    for kind in KINDS:
        line(f"  {kind}", own, [one for case in cases for k, one in case.one_word if k == kind])
    line("a tenth of the words", own, [case.a_tenth for case in cases])
    line("each with p = 0.1", [c.own for c in cases if not c.at_random], [c.at_random for c in cases if c.at_random])
    line("another text", own, [one for case in cases for one in case.others])
    print(f"\n`--worst 10` of corpora with one word wrong in one utterance of ten (means of {DRAWS} draws)")
    for statistic in STATISTICS:
        found, areas = zip(*(worst_tenth(cases, statistic, random.Random(seed + draw)) for draw in range(DRAWS)))
        print(f"  by {statistic:15} {100 * np.mean(found):.1f} % of what it marks is wrong, area {np.mean(areas):.3f}")


def worst_tenth(cases: Sequence[Case], statistic: str, random: random.Random) -> tuple[float, float]:
    """Share of wrong ones among the marked tenth, and the area, of one corpus."""
    wrong = set(random.sample(range(len(cases)), max(1, len(cases) // 10)))
    texts = [random.choice(case.one_word)[1] if i in wrong else case.own for i, case in enumerate(cases)]
    all_values = values(texts, statistic)
    is_wrong = np.array([i in wrong for i in range(len(cases))])
    marked = np.argsort(-all_values, kind="stable")[: len(wrong)]
    return float(is_wrong[marked].mean()), area(all_values[~is_wrong], all_values[is_wrong])


def main() -> None:
    parser = parser_of(__doc__)
    parser.add_argument("manifest", nargs="?", type=Path, default=MANIFEST)
    parser.add_argument("--split", default="dev")
    parser.add_argument("--utterances", type=int, default=10**6)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--model", default="english")
    arguments = parser.parse_args()
    rows = manifest_rows(arguments.manifest, arguments.split)
    began_s = time.perf_counter()
    cases = scored_cases(
        rows, arguments.manifest.parent, Aligner(arguments.model), arguments.utterances, arguments.seed
    )
    print(f"{len(cases)} utterances of {arguments.split}, {OTHERS * 2 + 3} transcripts each, seed {arguments.seed}: "
          f"{time.perf_counter() - began_s:.0f} s")  # fmt: skip
    show_ranks(cases)
    show_areas(cases, arguments.seed)


if __name__ == "__main__":
    main()
