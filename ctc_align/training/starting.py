"""The weights that a new model begins with, where it begins with those of another one.

Weights of equal shape are taken as they are. A token's rows of the output layers are those of the token that sounds
most like it: the one of the same name, or the nearest phone of the other set, for a letter that of the phone which it
is in most languages.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import torch

from ctc_align.config import Settings
from ctc_align.errors import UsageError
from ctc_align.models import EMBEDDED, FOLDER_FILES, embedded_folder
from ctc_align.models.convnet import convnet_model
from ctc_align.models.convnet.convnet_model import ModelDescription
from ctc_align.models.convnet.network import AcousticNetwork, NetworkShape
from ctc_align.reading import content_hash
from ctc_align.text.phone_sets import IPA_OF_ARPABET, IPA_PHONES, NEAREST_ARPABET, is_ipa
from ctc_align.text.sounds.pieces import pieces
from ctc_align.tokens.phones import is_arpabet


@dataclass(frozen=True)
class Start:
    """The model that a new one begins with: its name or folder, description, weights (float32) and their hash."""

    model: str
    description: ModelDescription
    weights: dict[str, torch.Tensor]
    fingerprint: str

    def weights_for(self, shape: NetworkShape, vocab: Sequence[str], units: str, seed: int) -> dict[str, torch.Tensor]:
        """Return the weights that a network begins with; those that are not there begin at random.

        Args:
            shape: of the new network.
            vocab: its tokens, the blank first.
            units: see `ctc_align.training.inventory`.
            seed: of the rows of tokens that the other model has nothing for.

        Raises:
            UsageError: none of its weights fits.
        """
        torch.manual_seed(seed)
        own = AcousticNetwork(shape).state_dict()
        fitting = {name: w for name, w in self.weights.items() if name in own and w.shape == own[name].shape}
        if not any(name.startswith("body.") for name in fitting):
            old = self.description.shape
            raise UsageError(
                f"start {self.model}: expected a network of the same sizes, got (stem, body, head) "
                f"{(old.stem, old.body, old.head)} for {(shape.stem, shape.body, shape.head)}; "
                "leave the recipe's [network] away"
            )
        if self.description.shape.head != shape.head:
            return fitting
        known = [0, *(self._nearest(token, units) for token in vocab[1:])]
        rows = {"tokens": known}
        if shape.states and self.description.shape.states:
            rows["states"] = self._states(known[1:], (shape.states - 1) // (len(vocab) - 1))
        for layer, places in rows.items():
            for name in (f"{layer}.weight", f"{layer}.bias"):
                fitting[name] = torch.stack(
                    [own[name][row] if place < 0 else self.weights[name][place] for row, place in enumerate(places)]
                )
        return fitting

    def _nearest(self, token: str, units: str) -> int:
        """Return the place of the token that sounds most like a token of the new model; -1 where there is none."""
        vocab = self.description.vocab
        phone = _phone(token, units)
        if is_ipa(vocab):
            name = phone
        elif is_arpabet(vocab):
            name = token if units == "arpabet" else NEAREST_ARPABET.get(phone, "")
        else:
            name = token
        return vocab.index(name) if name in vocab[1:] else -1

    def _states(self, known: Sequence[int], parts: int) -> list[int]:
        """Return the place of each state of the new model's tokens, and of silence."""
        states = self.description.shape.states
        old_parts = (states - 1) // (len(self.description.vocab) - 1)
        each = [part * old_parts // parts for part in range(parts)]
        return [*((place - 1) * old_parts + part if place > 0 else -1 for place in known for part in each), states - 1]


def read_start(model: str, out_dir: Path) -> Start | None:
    """Read the model that a new one begins with; None for "".

    Raises:
        UsageError: not a model of `ctc-align train`, or the folder that the new one is written to.
    """
    from safetensors.torch import load_file

    if not model:
        return None
    folder = embedded_folder(model) if model in EMBEDDED else Path(model)
    if not all((folder / name).is_file() for name in FOLDER_FILES):
        raise UsageError(
            f"start {model}: expected {' or '.join(EMBEDDED)}, or the folder of a model that `ctc-align train` wrote"
        )
    if out_dir.resolve() == folder.resolve():
        raise UsageError(f"--out-dir {out_dir}: is the folder of the model that is begun with; take another one")
    description = convnet_model.load_folder(folder, torch.device("cpu"), Settings()).description
    path = folder / FOLDER_FILES[1]
    weights = {name: weight.float() for name, weight in load_file(str(path)).items()}
    return Start(model, description, weights, content_hash(path, 16))


def _phone(token: str, units: str) -> str:
    """Return the phone of IPA that a token of a new model is most like; "" where none is known.

    >>> _phone("x", "letters"), _phone("x", "ipa"), _phone("tʃʰ", "lexicon"), _phone("AY", "arpabet")
    ('k', 'x', 'tʃ', 'a')
    """
    if units == "arpabet":
        return IPA_OF_ARPABET[token][0]
    if units == "letters":
        said = [phone for piece in pieces(token, "") for phone in piece.phones]
        return said[0] if said and said[0] in IPA_PHONES else ""
    return next((token[:length] for length in (3, 2, 1) if token[:length] in IPA_PHONES), "")
