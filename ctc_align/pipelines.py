"""Tokenizers and aligners of given emissions, in the shape of `torchaudio.pipelines.MMS_FA`.

Code for torchaudio's bundle of forced alignment keeps its calls; only the emissions, log-probs of
each frame, come from a network of the caller's. The package has no weights of MMS_FA.

>>> import torch
>>> from ctc_align.pipelines import MMS_FA as bundle
>>> tokenizer, aligner = bundle.get_tokenizer(), bundle.get_aligner()
>>> emission = torch.zeros(40, len(bundle.get_labels())).log_softmax(1)
>>> words = aligner(emission, tokenizer("i had *".split()))
>>> [[bundle.get_labels()[span.token] for span in spans] for spans in words]
[['i'], ['h', 'a', 'd'], ['*']]
"""

from __future__ import annotations

import ctc_align.ctc  # noqa: F401

# isort: split
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain, islice

import torch

from ctc_align.ctc import arguments
from ctc_align.errors import KernelError
from ctc_align.functional import TokenSpan, forced_align, merge_tokens

__all__ = ["MMS_FA", "EmissionAligner", "LabelTokenizer", "LabelsBundle"]


def __dir__() -> list[str]:
    return sorted(__all__)


@dataclass(frozen=True)
class LabelTokenizer:
    """Maps the letters of words to token ids: `torchaudio.pipelines.Wav2Vec2FABundle.Tokenizer`."""

    dictionary: dict[str, int]

    def __call__(self, transcript: Sequence[str]) -> list[list[int]]:
        """Return the token ids of each word.

        Raises:
            KernelError: a word has a letter that is no label.
        """
        return [[self._find(letter, word) for letter in word] for word in transcript]

    def _find(self, letter: str, word: str) -> int:
        if letter not in self.dictionary:
            raise KernelError(
                "transcript: expected a list of words of the letters"
                f" {''.join(self.dictionary)!r}, got {letter!r} in {word!r}; write it in these"
                " letters (lower case, romanized), or put the star in its place"
            )
        return self.dictionary[letter]


@dataclass(frozen=True)
class EmissionAligner:
    """Finds the frames of tokens: `torchaudio.pipelines.Wav2Vec2FABundle.Aligner`.

    Attributes:
        blank: the class of the blank.
        star: the class that stands for any speech, with log-prob 0, if emissions may lack it.
    """

    blank: int = 0
    star: int | None = None

    def __call__(
        self, emission: torch.Tensor, tokens: Sequence[Sequence[int]]
    ) -> list[list[TokenSpan]]:
        """Return the spans of each word's tokens on the best path.

        Args:
            emission: (T, C) log-probs; where C is the index of the star, its class is added.
            tokens: the token ids of each word, from a tokenizer.

        Returns:
            A list of spans for each word; their scores are mean probabilities.

        Raises:
            KernelError: as in `forced_align`.
        """
        arguments.check_log_probs(emission, "(T, C)", (2,), "emission")
        if emission.shape[1] == self.star:
            emission = torch.nn.functional.pad(emission, (0, 1))
        target = list(chain.from_iterable(tokens))
        paths, scores = forced_align(emission[None], [target], blank=self.blank)
        spans = iter(merge_tokens(paths[0], scores[0].exp(), self.blank))
        return [list(islice(spans, len(word))) for word in tokens]


@dataclass(frozen=True)
class LabelsBundle:
    """The labels of a network for forced alignment.

    Like `torchaudio.pipelines.Wav2Vec2FABundle`, without its network.

    Attributes:
        labels: the names of the classes, the blank first, without a star.
        sample_rate: samples in a second of the network's input.
    """

    labels: tuple[str, ...]
    sample_rate: int = 16_000

    def get_labels(self, star: str | None = "*", blank: str = "-") -> tuple[str, ...]:
        """Return the labels in the order of the classes; None leaves out the star, the last."""
        labels = (blank, *self.labels[1:])
        if star is None:
            return labels
        return (*labels, star)

    def get_dict(self, star: str | None = "*", blank: str = "-") -> dict[str, int]:
        """Return the class of each label."""
        return {label: index for index, label in enumerate(self.get_labels(star, blank))}

    def get_tokenizer(self) -> LabelTokenizer:
        """Return the tokenizer of these labels and the star."""
        return LabelTokenizer(self.get_dict())

    def get_aligner(self) -> EmissionAligner:
        """Return the aligner for emissions over these labels, with or without the star."""
        return EmissionAligner(star=len(self.labels))

    def get_model(self, with_star: bool = True, **_: object) -> torch.nn.Module:
        """Raise KernelError: the package has no weights of this network."""
        raise KernelError(
            "get_model: ctc_align has no weights of this network; compute its emissions elsewhere,"
            " for example with torchaudio.pipelines or transformers, and give them to"
            " get_aligner()"
        )


MMS_FA = LabelsBundle(tuple("-aienoutsrmkldghybpwcvjzf'qx"))
"""The labels of torchaudio's MMS_FA: 26 letters, the apostrophe, and the star."""
