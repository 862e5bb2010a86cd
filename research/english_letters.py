"""Learns the letter n-grams of English words and of other languages' words, for
`ctc_align.text.languages`.

    python research/english_letters.py --english MANIFEST.jsonl --others MANIFEST.jsonl

Manifests have a `text` a line, and perhaps `language` and `split`; of the latter only "train" is
read. English is the text of the one, what is "en" in the other, and the words of CMUdict that come
with the English model; each other language counts the same, however much there is of it.
"""

from __future__ import annotations

import argparse
import json
import re
import unicodedata
from collections import Counter
from collections.abc import Iterable, Sequence
from itertools import chain
from pathlib import Path

import numpy as np
import torch

from ctc_align.text.languages import NGRAM_BUCKETS, NGRAM_SCALE, NGRAM_WEIGHTS, ngrams, script_of
from ctc_align.text.letter_to_phone import DICTIONARY, FOLDER

_WORD = re.compile(r"[^\W\d_]+(?:['’][^\W\d_]+)*")
_DICTIONARY = 0.35
"""Weight of the dictionary's words, all of them together; that of English texts is 1, and that of
all others 1.35."""
_FEWEST, _MOST, _HEAVIEST = 50, 2000, 50.0
_EPOCHS, _BATCH, _RATE, _DECAY = 6, 4096, 0.03, 1e-6

Example = tuple[str, float, float]
"""A word, 1 where it is English, and its weight."""


def main() -> None:
    """Read the manifests, learn, and write the weights."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--english", required=True)
    parser.add_argument("--others", required=True)
    parser.add_argument("--out", default=str(NGRAM_WEIGHTS))
    arguments = parser.parse_args()
    english = [text for texts in texts_of(arguments.english, "en").values() for text in texts]
    others = texts_of(arguments.others)
    weights = learnt([*english, *others.pop("en", [])], others)
    np.save(arguments.out, weights)


def texts_of(path: str, language: str = "") -> dict[str, list[str]]:
    """Return the texts of a manifest by their language (that which is named there, else
    `language`), each once."""
    texts: dict[str, dict[str, None]] = {}
    for line in Path(path).read_text(encoding="utf-8").splitlines():
        row = json.loads(line)
        if row.get("split", "train") == "train":
            texts.setdefault(row.get("language") or language, {})[row["text"]] = None
    return {code: list(each) for code, each in texts.items()}


def learnt(english: Iterable[str], others: dict[str, list[str]]) -> np.ndarray:
    """Return the weights (BUCKETS + 1), int8: of each n-gram's bucket, and the constant."""
    known = _dictionary()
    examples = [
        *_examples(english, 1.0, 1.0),
        *((word, 1.0, _DICTIONARY / len(known)) for word in known),
    ]
    latin = [
        each
        for texts in others.values()
        if len(each := list(_examples(texts, 0.0, 1.0 + _DICTIONARY))) > _FEWEST
    ]
    examples += [
        (word, is_english, weight / len(latin))
        for word, is_english, weight in chain.from_iterable(latin)
    ]
    return _fitted(examples)


def _examples(texts: Iterable[str], is_english: float, total: float) -> list[Example]:
    """Return the words in Latin letters, weighted by how often they are said, `total` in all."""
    words = [
        word.lower().replace("’", "'")
        for text in texts
        for word in _WORD.findall(unicodedata.normalize("NFC", text))
    ]
    counts = Counter(word for word in words if script_of(word) == "Latin")
    in_all = sum(min(count, _MOST) for count in counts.values())
    return [(word, is_english, total * count / in_all) for word, count in counts.items()]


def _dictionary() -> list[str]:
    return [row.partition("\t")[0] for row in (FOLDER / DICTIONARY).read_text("ascii").splitlines()]


def _fitted(examples: Sequence[Example]) -> np.ndarray:
    """Return the weights of a logistic regression on the n-grams of words, by Adam."""
    torch.manual_seed(0)
    places = [torch.tensor(ngrams(word)) for word, _, _ in examples]
    wanted = torch.tensor([is_english for _, is_english, _ in examples])
    weight = torch.tensor([weight for _, _, weight in examples])
    weight = (weight / weight.mean()).clamp(max=_HEAVIEST)
    table = torch.zeros(NGRAM_BUCKETS, 1, requires_grad=True)
    constant = torch.zeros(1, requires_grad=True)
    adam = torch.optim.Adam([table, constant], lr=_RATE)
    for _ in range(_EPOCHS):
        for batch in torch.randperm(len(examples)).split(_BATCH):
            bags = [places[index] for index in batch.tolist()]
            lengths = torch.tensor(list(map(len, bags)))
            starts = lengths.cumsum(0) - lengths
            share = torch.repeat_interleave(lengths.float().rsqrt(), lengths)
            scores = torch.nn.functional.embedding_bag(
                torch.cat(bags), table, starts, mode="sum", per_sample_weights=share
            )
            losses = torch.nn.functional.binary_cross_entropy_with_logits(
                scores[:, 0] + constant, wanted[batch], reduction="none"
            )
            loss = (losses * weight[batch]).mean() + _DECAY * table.square().sum()
            adam.zero_grad()
            loss.backward()
            adam.step()
    values = torch.cat([table[:, 0], constant]).detach().numpy()
    return np.clip(np.round(values * NGRAM_SCALE), -127, 127).astype(np.int8)


if __name__ == "__main__":
    main()
