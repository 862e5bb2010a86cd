"""What a network is trained on."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from ctc_align.training.feature_store import FeatureStore


@dataclass(frozen=True)
class Material:
    """Frames, token ids (CTC) and optional state labels of every utterance; `members` teach, `dev` are held out."""

    store: FeatureStore
    targets: Sequence[np.ndarray]
    labels: Sequence[np.ndarray] | None
    members: np.ndarray
    dev: np.ndarray = field(default_factory=lambda: np.empty(0, int))
