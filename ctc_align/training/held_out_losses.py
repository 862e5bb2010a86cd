"""Losses of a network on batches: what it is trained on, and what is said of held-out speech."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch

from ctc_align.ctc.autograd import ctc_loss
from ctc_align.models.convnet.network import AcousticNetwork
from ctc_align.training.training_batches import Batch, collate, plan
from ctc_align.training.training_data import Material

EVALUATION_FRAMES = 6000


@dataclass(frozen=True)
class Sums:
    """Losses of a batch, to be divided: CTC over `tokens`, cross-entropy of the states over `frames`."""

    ctc: torch.Tensor
    tokens: torch.Tensor
    frame: torch.Tensor
    frames: torch.Tensor


@dataclass(frozen=True)
class Figures:
    """CTC loss per token and cross-entropy per frame, in nats, over `utterances`."""

    ctc: float
    frame: float
    utterances: int

    def __str__(self) -> str:
        if not self.utterances:
            return "no utterances"
        return f"ctc {self.ctc:.3f}/token  frame {self.frame:.3f}"


def losses(network: AcousticNetwork, batch: Batch, *, bfloat16: bool, with_ctc: bool = True) -> Sums:
    """Both losses of a batch that lies on the network's device; utterances that do not fit their frames count not."""
    device = batch.inputs.device.type
    with torch.autocast(device, torch.bfloat16, enabled=bfloat16 and device != "mps"):
        tokens, states = network(batch.inputs)
    nothing = tokens.new_zeros((), dtype=torch.float32)
    ctc, count = nothing, nothing
    if with_ctc:
        each = ctc_loss(tokens.float().log_softmax(-1), batch.targets, batch.lengths, batch.target_lengths)
        fits = torch.isfinite(each)
        ctc, count = each[fits].sum(), batch.target_lengths.to(each.device)[fits].sum()
    if states is None or batch.labels is None:
        return Sums(ctc, count, nothing, nothing)
    labels = batch.labels.flatten()
    entropy = torch.nn.functional.cross_entropy(states.float().flatten(0, 1), labels, ignore_index=-1, reduction="sum")
    return Sums(ctc, count, entropy, (labels >= 0).sum())


@torch.inference_mode()
def evaluate(network: AcousticNetwork, material: Material, members: np.ndarray) -> Figures:
    """Figures of a network on utterances as they are: no augmentation, float32."""
    if not len(members):
        return Figures(0.0, 0.0, 0)
    was_training = network.training
    network.eval()
    device = next(network.parameters()).device
    sums = np.zeros(4)
    for places in plan(material.store.lengths[members], EVALUATION_FRAMES, 0, 0):
        batch = collate(
            material.store,
            members[places].tolist(),
            material.targets,
            material.labels,
            network.shape.context_frames,
            None,
        )
        found = losses(network, batch.to(device), bfloat16=False)
        sums += [float(value) for value in (found.ctc, found.tokens, found.frame, found.frames)]
    network.train(was_training)
    ctc, tokens, frame, frames = map(float, sums)
    return Figures(ctc / max(1.0, tokens), frame / max(1.0, frames), len(members))
