"""Start a new model from another one: its initial weights, and its edge network.

Weights of equal shape are copied. The output rows of a token are copied from the most similar
token: the one with the same name, otherwise the nearest phone of the other set; for a letter, the
phone that it has in most languages.

An edge network that learns from a model's own edges would hardly improve them, and few languages
have hand labels. Therefore new models use edges of English that people drew: a model with IPA
phones gets the English edge network, with each phone replaced by the most similar English phone; a
model with other tokens gets the English network without information about single sounds.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np
import torch

from ctc_align.config import Settings
from ctc_align.errors import UsageError
from ctc_align.lattice import states_per_sound
from ctc_align.models import EMBEDDED, ENGLISH, FOLDER_FILES, embedded_folder
from ctc_align.models.convnet import convnet_model
from ctc_align.models.convnet.convnet_model import ModelDescription
from ctc_align.models.convnet.gaussian_mixtures import StateScoring
from ctc_align.models.convnet.inference import NetworkShape
from ctc_align.models.convnet.network import AcousticNetwork
from ctc_align.models.edge_network import EdgeNetwork, load_edge_network
from ctc_align.reading import content_hash
from ctc_align.text.phone_sets import (
    ARPABET_PHONES,
    IPA_OF_ARPABET,
    IPA_PHONES,
    NEAREST_ARPABET,
    is_ipa,
)
from ctc_align.text.sounds.pieces import pieces
from ctc_align.tokens.phones import is_arpabet

EDGES = ("english", "none")
"""The edge network of a new model."""


@dataclass(frozen=True)
class Start:
    """The model from which another one starts.

    It has its name in the call, folder, description and weights (float32).
    """

    model: str
    folder: Path
    description: ModelDescription
    weights: dict[str, torch.Tensor]

    @property
    def fingerprint(self) -> str:
        """Hash of its weights."""
        return content_hash(self.folder / FOLDER_FILES[1], 16)

    @property
    def parts(self) -> int:
        """Number of segmentation states of a token."""
        return states_per_sound(self.description.shape.states, len(self.description.vocab))

    @cached_property
    def scoring(self) -> StateScoring:
        """Scores of its segmentation states.

        They come from the outputs of its network, or of one trained further.
        """
        return convnet_model.state_scoring(self.description, self.arrays)

    @property
    def arrays(self) -> dict[str, np.ndarray]:
        """The weights as arrays."""
        return {name: weight.numpy() for name, weight in self.weights.items()}

    def network(self) -> AcousticNetwork:
        """Return a new network in evaluation mode with all its weights."""
        network = AcousticNetwork(self.description.shape)
        own = network.state_dict()
        network.load_state_dict(own | {name: w for name, w in self.weights.items() if name in own})
        return network.eval()

    @property
    def log_priors(self) -> torch.Tensor:
        """The log-priors (K,) of the segmentation states."""
        return self.weights.get("log_priors", torch.zeros(self.description.shape.states))

    def weights_for(
        self, shape: NetworkShape, vocab: Sequence[str], units: str, seed: int
    ) -> dict[str, torch.Tensor]:
        """Return initial weights for a network; all others start at random.

        Args:
            shape: of the new network.
            vocab: its tokens, the blank first.
            units: see `ctc_align.training.corpus_data`.
            seed: of the rows for tokens without a similar one.

        Raises:
            UsageError: no weights fit.
        """
        torch.manual_seed(seed)
        random = AcousticNetwork(shape).state_dict()
        fitting = {
            name: w
            for name, w in self.weights.items()
            if name in random and w.shape == random[name].shape
        }
        if not any(name.startswith("body.") for name in fitting):
            old = self.description.shape
            raise UsageError(
                f"start {self.model}: expected a network of the same sizes, got (stem, body, head) "
                f"{(old.stem, old.body, old.head)} for {(shape.stem, shape.body, shape.head)}; "
                "omit the recipe's [network]"
            )
        if self.description.shape.head != shape.head:
            return fitting
        nearest = [0, *(self._nearest(token, units) for token in vocab[1:])]
        rows = {"tokens": nearest}
        if shape.states and self.description.shape.states:
            rows["states"] = self._nearest_states(
                nearest[1:], states_per_sound(shape.states, len(vocab))
            )
        for layer, sources in rows.items():
            for name in (f"{layer}.weight", f"{layer}.bias"):
                fitting[name] = torch.stack(
                    [
                        random[name][row] if old < 0 else self.weights[name][old]
                        for row, old in enumerate(sources)
                    ]
                )
        return fitting

    def _nearest(self, token: str, units: str) -> int:
        """Return the index of the token that sounds most like a token of the new model.

        It is -1 if there is none.
        """
        vocab = self.description.vocab
        phone = _phone(token, units)
        if is_ipa(vocab):
            name = phone
        elif is_arpabet(vocab):
            name = token
            if units != "arpabet":
                name = NEAREST_ARPABET.get(phone, "")
        else:
            name = token
        return vocab.index(name) if name in vocab[1:] else -1

    def _nearest_states(self, nearest: Sequence[int], parts: int) -> list[int]:
        """Return the old index of each state of the new model's tokens, and of silence.

        It is -1 for a state without one.
        """
        states = self.description.shape.states
        old_parts = self.parts
        each = [part * old_parts // parts for part in range(parts)]
        return [
            *((old - 1) * old_parts + part if old > 0 else -1 for old in nearest for part in each),
            states - 1,
        ]


def read_start(model: str, out_dir: Path) -> Start | None:
    """Read the model from which a new one starts; None for "".

    Raises:
        UsageError: it is not a model of `ctc-align train`, or its folder is that of the new model.
    """
    if not model:
        return None
    folder = folder_of(model)
    if not all((folder / name).is_file() for name in FOLDER_FILES):
        raise UsageError(
            f"start {model}: expected {' or '.join(EMBEDDED)}, or the folder of a model that"
            " `ctc-align train` wrote"
        )
    if out_dir.resolve() == folder.resolve():
        raise UsageError(
            f"--out-dir {out_dir}: is the folder of the starting model; choose another"
        )
    return Start(model, folder, *read_model(folder))


def folder_of(model: str) -> Path:
    """Return the folder of a model that the package holds, or that `ctc-align train` wrote."""
    if model in EMBEDDED:
        return embedded_folder(model)
    return Path(model)


def read_model(folder: Path) -> tuple[ModelDescription, dict[str, torch.Tensor]]:
    """Return the description and the weights (float32) of a model in a folder."""
    from safetensors.torch import load_file

    description = convnet_model.load_folder(folder, torch.device("cpu"), Settings()).description
    weights = load_file(str(folder / FOLDER_FILES[1]))
    return description, {name: weight.float() for name, weight in weights.items()}


def _phone(token: str, units: str) -> str:
    """Return the IPA phone that is most like a token of a new model; "" if there is none.

    >>> _phone("x", "letters"), _phone("x", "ipa"), _phone("tʃʰ", "lexicon"), _phone("AY", "arpabet")
    ('k', 'x', 'tʃ', 'a')
    """
    if units == "arpabet":
        return IPA_OF_ARPABET[token][0]
    if units == "letters":
        phones = [phone for piece in pieces(token, "") for phone in piece.phones]
        if phones and phones[0] in IPA_PHONES:
            return phones[0]
        return ""
    return next((token[:length] for length in (3, 2, 1) if token[:length] in IPA_PHONES), "")


def learnt_edges(edges: str, vocab: Sequence[str], base: Path | None = None) -> EdgeNetwork | None:
    """Return the edge network for a new model; None for none.

    Args:
        edges: one of `EDGES`. With "english" the network is the one of the `base`, if it has one,
            else the English one: whole for the same phones, for IPA phones with its knowledge of
            the nearest ones, and for other tokens without its knowledge of single phones.
        vocab: of the new model, the blank first.
        base: the folder of the model that is adapted.

    Raises:
        ConfigError: the base's network was not written by training.
    """
    if edges == "none":
        return None
    inherited = None
    if base is not None:
        inherited = load_edge_network(base)
    if inherited is not None:
        return inherited
    english = load_edge_network(embedded_folder(ENGLISH))
    if english is None or set(english.shape.labels) == set(vocab[1:]):
        return english
    if is_ipa(vocab) and set(english.shape.labels) == set(ARPABET_PHONES):
        nearest = [english.shape.index_of(NEAREST_ARPABET[phone]) for phone in IPA_PHONES]
        return english.with_sounds(IPA_PHONES, [*nearest, english.shape.silence])
    return english.with_sounds((), [english.shape.silence])
