"""Windows around edges against the same numbers taken one by one from the whole recording."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from ctc_align.alignment.refined_edges import LEAST_SCORE, SCORE_CENTRE, SCORE_SCALE, EdgeScene, edges_of, sound_scores
from ctc_align.models.edge_network import FINE_MELS, FINE_SHIFT_S, REACH, EdgeNetwork, EdgeNetworkShape, fine_features
from ctc_align.types import Audio, Emissions

VOCAB = ("<blank>", "S", "AH", "T")
FRAMES = 2600


def emissions(parts: int) -> Emissions:
    """Made emissions of 26 s, with `parts` states of a token."""
    chance = torch.Generator().manual_seed(5)
    log_probs = (4 * torch.randn(FRAMES, 4, generator=chance)).log_softmax(1)
    states = 4 * torch.randn(FRAMES, 3 * parts + 1, generator=chance) if parts else None
    samples = np.random.default_rng(5).normal(size=FRAMES * 160).astype(np.float32)
    return Emissions(log_probs, VOCAB, frame_shift_s=0.01, states=states, sound=Audio(samples, 16000))


@pytest.mark.parametrize("parts", [0, 1, 3])
def test_windows_hold_what_the_whole_recording_holds(parts: int) -> None:
    """At both ends of the recording, and where 20 s are between two words."""
    made, ids = emissions(parts), np.array([1, 2, 3, 1])
    edges = edges_of(np.array([0.2, 9, 30, 2550.4]), np.array([9, 21.3, 44, 2599.9]), np.array([0, 0, 1, 2]))
    scene = EdgeScene(made, ids, edges, EdgeNetwork(EdgeNetworkShape(("AH", "S"))))
    windows = scene.windows(0, len(edges))
    fine = scene.centres()[:, None] + np.arange(-REACH, REACH + 1)
    low = int(fine.min())
    assert made.sound is not None
    features = fine_features(made.sound, low, int(fine.max()) + 1).numpy()
    assert np.array_equal(windows.values[:, :FINE_MELS].numpy(), features[fine - low].transpose(0, 2, 1))
    stop = scene.network.index_of("T")
    assert windows.left.tolist() == [2, 1, 0, 2, stop, 2, 1]
    assert windows.right.tolist() == [1, 0, 2, stop, 2, 1, 2]
    frame = np.clip(fine * FINE_SHIFT_S / 0.01 - 0.5, 0, None)
    scores = sound_scores(made, ids, edges.left, edges.right, frame)
    rows = (made.log_probs if made.states is None else made.states).log_softmax(1).double().numpy()
    silence = rows[:, -1 if parts else 0]
    for edge in range(len(edges)):
        sides = []
        for sound in (edges.left[edge], edges.right[edge]):
            own = rows[:, [ids[sound]]] if not parts else rows[:, (ids[sound] - 1) * parts : ids[sound] * parts]
            sides.append(silence[:, None] if sound < 0 else own)
        left, right = sides
        wholes = [np.logaddexp.reduce(side, axis=1) for side in sides]
        for channel, track in enumerate((*wholes, silence, np.maximum(left[:, -1], right[:, 0]))):
            plain = np.interp(frame[edge], np.arange(FRAMES), np.clip(track, LEAST_SCORE, 0.0))
            assert np.abs(scores[edge, channel] - (plain + SCORE_CENTRE) * SCORE_SCALE).max() < 1e-5
