"""Training of the acoustic network: CTC, and, where labels are given, frame classification of segmentation states."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import torch

from ctc_align.config import setting
from ctc_align.errors import InputError
from ctc_align.models.convnet.network import AcousticNetwork, NetworkShape
from ctc_align.training import checkpoints
from ctc_align.training.augmentation import Augmentation
from ctc_align.training.held_out_losses import Figures, evaluate, losses
from ctc_align.training.progress import Watch
from ctc_align.training.training_batches import Batch, collate, plan, prefetched
from ctc_align.training.training_data import Material

STAGE = "training"
LOOKS = 20
"""How often in a run the held-out part is looked at, at most (an adaptation looks after each epoch)."""
HEADS = ("up", "local", "mix", "tokens", "states")
"""The network's modules above its body."""
_TELL_S = 0.5


@dataclass(frozen=True)
class Training:
    """The stage of the network. `batch_s` is seconds of padded audio per step, `learning_rate` the peak of a cosine.

    `epochs` and `batch_s` of 0 and `warmup_steps` of -1 go by the amount of speech (see `Recipe`); `minutes` of 0 is
    no limit. `layers` "head" trains what lies above the body only, `freeze_norms` keeps the statistics of the norms,
    `keep_best` ends with the weights that were best on the held-out part, the ones given at the start among them.
    """

    epochs: int = 0
    minutes: float = 0.0
    learning_rate: float = setting(2e-3, above=0.0)
    batch_s: float = 0.0
    warmup_steps: int = -1
    weight_decay: float = 1e-2
    dropout: float = 0.1
    frame_weight: float = 1.0
    ctc_weight: float = 0.5
    seed: int = 1
    bfloat16: bool = True
    checkpoint_s: float = 30.0
    layers: str = setting("all", choices=("all", "head"))
    freeze_norms: bool = False
    keep_best: bool = False
    augmentation: Augmentation = field(default_factory=Augmentation)


@dataclass(frozen=True)
class Place:
    """Where a stage runs: the folder of its checkpoints, a device, and who follows it."""

    folder: Path
    device: torch.device = field(default_factory=lambda: torch.device("cpu"))
    watch: Watch = field(default_factory=Watch)


@dataclass(frozen=True)
class Trained:
    """A network in evaluation mode, its figures on the held-out part, and those of the weights at the start."""

    network: AcousticNetwork
    dev: Figures
    before: Figures | None = None


def train(
    shape: NetworkShape,
    training: Training,
    material: Material,
    place: Place,
    start: dict[str, torch.Tensor] | None = None,
) -> Trained:
    """Train a network, or go on where `place.folder` has a checkpoint. The same seed gives the same network.

    On the CPU, with one number of threads, a run that was stopped gives to the bit what one that was not gives, unless
    `training.minutes` ends it.

    Args:
        shape: sizes of the network.
        training: settings of this stage, all of them said.
        material: the corpus.
        place: checkpoints go to its folder; `final.pt` there is the finished state.
        start: weights to begin with; those of the same name and shape are taken.

    Raises:
        InputError: nothing to train on, or the folder holds the state of another network.
        OutputError: a checkpoint cannot be written.
    """
    if not len(material.members):
        raise InputError("expected utterances to train on, got none")
    place.folder.mkdir(parents=True, exist_ok=True)
    torch.manual_seed(training.seed)
    network = AcousticNetwork(shape, training.dropout)
    if start:
        own = network.state_dict()
        network.load_state_dict(own | {k: v for k, v in start.items() if k in own and v.shape == own[k].shape})
    network.to(place.device)
    final = place.folder / "final.pt"
    if not final.exists():
        _Loop(network, training, material, place).run()
    before = checkpoints.restore(final, partial(_put_back_final, network))
    network.eval()
    return Trained(network, evaluate(network, material, material.dev), before)


def _put_back_final(network: AcousticNetwork, state: dict[str, Any]) -> Figures | None:
    network.load_state_dict(state["network"])
    return Figures(*state["before"]) if state["before"] else None


class _Loop:
    """All that moves while a network is trained, and is kept in its checkpoints."""

    def __init__(self, network: AcousticNetwork, training: Training, material: Material, place: Place) -> None:
        self.network, self.training, self.material, self.place = network, training, material, place
        for name, weights in network.named_parameters():
            weights.requires_grad_(training.layers == "all" or name.split(".")[0] in HEADS)
        trained = [weights for weights in network.parameters() if weights.requires_grad]
        self.optimizer = torch.optim.AdamW(trained, lr=training.learning_rate, weight_decay=training.weight_decay)
        lengths = material.store.lengths[material.members]
        frames = int(training.batch_s * 100)
        self.epochs = [plan(lengths, frames, training.seed, epoch) for epoch in range(training.epochs)]
        self.steps = sum(map(len, self.epochs))
        self.step, self.spent_s = 0, 0.0
        self.sums = [0.0] * 4
        self.best: dict[str, Any] | None = None
        self.before: Figures | None = None

    def run(self) -> None:
        self._resume()
        self._train_mode()
        if self.training.keep_best and self.before is None:
            self.before = self._look()
        looks = self._steps_to_look()
        began = told = saved = time.monotonic()
        before_s = self.spent_s
        for batch in prefetched(self._makers()):
            if self._time_share() >= 1.0:
                break
            self._step(batch.to(self.place.device))
            self.step += 1
            now = time.monotonic()
            self.spent_s = before_s + now - began
            if now - told > _TELL_S or self.step == self.steps:
                told = now
                self._tell()
            if self.step in looks and len(self.material.dev):
                self._look()
            if now - saved > self.training.checkpoint_s:
                checkpoints.save(self.place.folder / "checkpoint.pt", self._state())
                saved = now
        weights = self.best["network"] if self.best is not None else self.network.state_dict()
        before = [self.before.ctc, self.before.frame, self.before.utterances] if self.before else None
        checkpoints.save(self.place.folder / "final.pt", {"network": weights, "before": before})

    def _step(self, batch: Batch) -> None:
        training = self.training
        for group in self.optimizer.param_groups:
            group["lr"] = rate(training, self.step, self.steps, self._time_share())
        found = losses(self.network, batch, bfloat16=training.bfloat16, with_ctc=bool(training.ctc_weight))
        # A batch whose utterances all lack labels teaches nothing; a mean over no frames would be NaN.
        ctc, frame = found.ctc / found.tokens.clamp(min=1), found.frame / found.frames.clamp(min=1)
        loss = training.ctc_weight * ctc + training.frame_weight * frame
        self.optimizer.zero_grad(set_to_none=True)
        if loss.requires_grad:
            loss.backward()
            torch.nn.utils.clip_grad_norm_(self.network.parameters(), 5.0)
            self.optimizer.step()
        parts = (found.ctc, found.tokens, found.frame, found.frames)
        self.sums = [0.98 * old + 0.02 * float(new.detach()) for old, new in zip(self.sums, parts)]

    def _look(self) -> Figures:
        """Figures on the held-out part, told; the weights are kept if they are the best so far and that is wanted."""
        found = evaluate(self.network, self.material, self.material.dev)
        self._train_mode()
        self.place.watch.say(f"step {self.step} of {self.steps}  held out: {found}")
        if self.training.keep_best and len(self.material.dev):
            loss = self.training.ctc_weight * found.ctc + self.training.frame_weight * found.frame
            if self.best is None or loss < self.best["loss"]:
                weights = {name: value.detach().cpu().clone() for name, value in self.network.state_dict().items()}
                self.best = {"loss": loss, "network": weights}
        return found

    def _train_mode(self) -> None:
        self.network.train()
        for module in self.network.modules():
            if isinstance(module, torch.nn.BatchNorm1d) and self.training.freeze_norms:
                module.eval()

    def _steps_to_look(self) -> set[int]:
        ends, step = [], 0
        for epoch in self.epochs:
            step += len(epoch)
            ends.append(step)
        every = 1 if self.training.keep_best else -(-len(ends) // LOOKS)
        return set(ends[every - 1 :: every])

    def _time_share(self) -> float:
        return self.spent_s / (60.0 * self.training.minutes) if self.training.minutes else 0.0

    def _tell(self) -> None:
        share = max(self.step / max(1, self.steps), min(1.0, self._time_share()))
        ctc, frame = self.sums[0] / max(self.sums[1], 1e-9), self.sums[2] / max(self.sums[3], 1e-9)
        line = f"step {self.step} of {self.steps}  ctc {ctc:.3f}/token  frame {frame:.3f}"
        left_s = self.spent_s / share - self.spent_s if share else 0.0
        self.place.watch.progress(STAGE, share, f"{line}  {left_s / 60:.1f} min left")

    def _makers(self) -> Iterator[Callable[[], Batch]]:
        material, training, step = self.material, self.training, 0
        done = self.step
        for epoch, batches in enumerate(self.epochs):
            for batch in batches:
                step += 1
                if step > done:
                    members = [int(material.members[i]) for i in batch]
                    yield partial(
                        collate, material.store, members, material.targets, material.labels,
                        self.network.shape.context_frames, training.augmentation, (training.seed, epoch),
                    )  # fmt: skip

    def _state(self) -> dict[str, Any]:
        """All that a run which goes on needs; dropout draws from torch's own generators."""
        before = [self.before.ctc, self.before.frame, self.before.utterances] if self.before else None
        return {
            "network": self.network.state_dict(),
            "optimizer": self.optimizer.state_dict(),
            "step": self.step,
            "spent_s": self.spent_s,
            "sums": self.sums,
            "best": self.best,
            "before": before,
            "random": torch.get_rng_state(),
            "cuda_random": torch.cuda.get_rng_state(self.place.device) if self.place.device.type == "cuda" else None,
        }

    def _resume(self) -> None:
        """Put the last checkpoint back, if there is one."""
        path = self.place.folder / "checkpoint.pt"
        if path.exists():
            checkpoints.restore(path, self._put_back)
            self.place.watch.say(f"goes on from step {self.step} of {self.steps}")

    def _put_back(self, state: dict[str, Any]) -> None:
        self.network.load_state_dict(state["network"])
        self.optimizer.load_state_dict(state["optimizer"])
        torch.set_rng_state(state["random"])
        if state["cuda_random"] is not None and self.place.device.type == "cuda":
            torch.cuda.set_rng_state(state["cuda_random"], self.place.device)
        self.best, self.sums = state["best"], list(state["sums"])
        self.before = Figures(*state["before"]) if state["before"] else None
        self.step, self.spent_s = int(state["step"]), float(state["spent_s"])


def rate(training: Training, step: int, steps: int, time_share: float = 0.0) -> float:
    """The learning rate of a step: a warm-up, then a cosine to almost zero at the last step or at the end of time."""
    warm = min(1.0, (step + 1) / max(1, training.warmup_steps))
    share = min(1.0, max(step / max(1, steps), time_share))
    return training.learning_rate * warm * (0.01 + 0.99 * 0.5 * (1.0 + math.cos(math.pi * share)))
