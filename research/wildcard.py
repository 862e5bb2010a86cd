"""What the wildcard's penalty does on recorded sentences:

    python research/wildcard.py [FOLDER]        default: ../shared/data/gold-dev beside the checkout

Every second word may be left out to a wildcard before it: how many of its tokens are (they were
said), and how many of as many tokens in its place that were not. Then the wildcard replaces the
word: how far its neighbours' tokens move.
"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import torch
from measuring import GOLD

from ctc_align import kernels, lattice
from ctc_align.alignment.aligner import Aligner
from ctc_align.alignment.ctc_path import best_ctc_path, token_spans
from ctc_align.alignment.wildcard import wildcard_scores
from ctc_align.kernels import batching
from ctc_align.lattice import WILDCARD
from ctc_align.text import split
from ctc_align.tokens.tokenizer import join, tokenize, tokenizer_for

PENALTIES = (0.0, 0.5, 1.0, 2.0, 4.0, 8.0)
NEAR_FRAMES = 2


def main(folder: Path) -> None:
    aligner, rng = Aligner("english", device="cpu"), np.random.default_rng(0)
    said: dict[float, list[float]] = {penalty: [] for penalty in PENALTIES}
    unsaid: dict[float, list[float]] = {penalty: [] for penalty in PENALTIES}
    moved: dict[float, list[float]] = {penalty: [] for penalty in PENALTIES}
    for audio in sorted((folder / "corpus").rglob("*.wav")):
        emissions = aligner.emissions(audio)
        x, blank = emissions.array, emissions.blank
        tokenizer = tokenizer_for(emissions.vocab, blank)
        word_tokens = tokenize(split(audio.with_suffix(".txt").read_text("utf-8")), tokenizer)
        tokens = join(word_tokens, [0] * len(word_tokens), tokenizer.separator)
        ids, owner = np.array(tokens.ids), np.array(tokens.words)
        first = batching.run([best_ctc_path(x, ids.tolist(), blank)])[0][0].start
        for word in range(1, len(word_tokens) - 1, 2):
            own = np.flatnonzero(owner == word)
            others = rng.choice(np.delete(ids, own), len(own))
            for penalty in PENALTIES:
                scores = wildcard_scores(x, blank, penalty)
                for place, kept in ((ids[own], said), (others, unsaid)):
                    row = np.concatenate((ids[: own[0]], [WILDCARD], place, ids[own[-1] + 1 :]))
                    free = np.isin(np.arange(len(row)), own + 1)
                    kept[penalty].append(
                        float(np.mean(spikes(x, row, blank, free, scores)[own + 1] < 0))
                    )
                row = np.concatenate((ids[: own[0]], [WILDCARD], ids[own[-1] + 1 :]))
                met = np.delete(spikes(x, row, blank, np.zeros(len(row), bool), scores), own[0])
                beside = np.abs(np.delete(owner, own) - word) == 1
                moved[penalty].append(float(np.abs(met - np.delete(first, own))[beside].max()))
    print(
        f"{len(said[0.0])} words; tokens left out, and neighbours that stay within {NEAR_FRAMES}"
        " frames, in per cent"
    )
    print("penalty  said  not said  neighbours")
    for penalty in PENALTIES:
        near = np.mean(np.array(moved[penalty]) <= NEAR_FRAMES)
        print(
            f"{penalty:7.1f} {np.mean(said[penalty]):5.0%} {np.mean(unsaid[penalty]):9.0%}"
            f" {near:11.0%}"
        )


def spikes(
    x: torch.Tensor, row: np.ndarray, blank: int, free: np.ndarray, scores: torch.Tensor
) -> np.ndarray:
    """First frame of each token on the best path, -1 where it is left out."""
    topology = lattice.ctc([row], blank, [free])
    path = kernels.best_path(x[None], topology, wildcard=scores[None])
    return token_spans(path.states[0], topology.token[0], len(row)).start


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else GOLD)
