"""The network of edges that a new model gets: the one that learnt from English edges drawn by eye.

A network that learns from a model's own edges hardly draws better ones, and hand labels are there for few languages.
How the sound changes where an edge is, English has taught: a model of IPA phones gets the network that takes each for
the English phone that is most like it, and a model of other tokens the one that is not told what the sounds are.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from ctc_align.models import embedded_folder
from ctc_align.models.edge_network import EdgeNetwork, load_edge_network
from ctc_align.text.phone_sets import ARPABET_PHONES, is_ipa

EDGES = ("english", "none")
"""Which network of edges a new model gets."""


def learnt_edges(edges: str, vocab: Sequence[str], base: Path | None = None) -> EdgeNetwork | None:
    """Return the network of edges for a new model; None where it is to have none.

    Args:
        edges: one of `EDGES`; of "english" the model has, if there is one, the network of its base, else the English
            one: whole where its tokens are the same phones, of IPA phones with what it knows of the nearest ones, and
            else without what it knows of single phones.
        vocab: of the new model, the blank first.
        base: the folder of the model that is adapted.

    Raises:
        ConfigError: the base's network is not one that training wrote.
    """
    if edges == "none":
        return None
    own = None if base is None else load_edge_network(base)
    if own is not None:
        return own
    english = load_edge_network(embedded_folder("english"))
    if english is None or set(english.shape.labels) == set(vocab[1:]):
        return english
    if is_ipa(vocab) and set(english.shape.labels) == set(ARPABET_PHONES):
        return english.for_ipa()
    return english.without_sounds()
