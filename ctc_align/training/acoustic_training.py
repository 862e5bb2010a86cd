"""The training of the acoustic network.

It learns by CTC and, if there are frame labels, by classification of segmentation states.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import astuple, dataclass, field
from functools import cache, partial
from pathlib import Path

import numpy as np
import torch

from ctc_align.config import setting
from ctc_align.errors import InputError
from ctc_align.functional import ctc_loss
from ctc_align.models.convnet.inference import NetworkShape
from ctc_align.models.convnet.network import AcousticNetwork
from ctc_align.reading import JsonObject
from ctc_align.training import Watch, run_folder
from ctc_align.training.training_batches import (
    Augmentation,
    Material,
    TrainingBatch,
    collate,
    evaluation_batches,
    plan,
    prefetched,
)

STAGE = "training"
EVALUATIONS = 20
"""The most evaluations of the held-out part in a run.

With `keep_best` there is one after each epoch.
"""
CPU = torch.device("cpu")
HEADS = ("up", "local", "mix", "tokens", "states")
"""The network's modules above its body."""
_REPORT_S = 0.5
Check = Callable[[AcousticNetwork], Sequence[str]]
"""Returns the faults of weights that must not be kept, whatever their loss."""


@dataclass(frozen=True)
class Training:
    """Settings of the network's training.

    `batch_s`: seconds of padded audio per step; `learning_rate`: that at the top of a cosine.
    `epochs` and `batch_s` of 0 and `warmup_steps` of -1 depend on the amount of speech (see
    `Recipe`); `minutes` of 0 is no limit. `layers` "head" trains only the layers above the body,
    `freeze_norms` keeps the statistics of the norms, `keep_best` ends with the best weights on the
    held-out part, those at the start among them. `bfloat16` is ignored by processors without
    instructions for it, on which it would be ten times slower than float32.
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
class HeldOutLosses:
    """CTC loss per token and cross-entropy per frame, in nats, over `utterances`."""

    ctc: float
    frame: float
    utterances: int

    def __str__(self) -> str:
        if not self.utterances:
            return "no utterances"
        return f"ctc {self.ctc:.3f}/token  frame {self.frame:.3f}"


@dataclass(frozen=True)
class Trained:
    """A network in evaluation mode, and its losses on the held-out part.

    The losses of the initial weights are there, too. If the check refused all weights that were
    better than the initial ones, `faults` are those of the best weights.
    """

    network: AcousticNetwork
    dev: HeldOutLosses
    before: HeldOutLosses | None = None
    faults: tuple[str, ...] = ()


def train(
    shape: NetworkShape,
    training: Training,
    material: Material,
    folder: Path,
    start: dict[str, torch.Tensor] | None = None,
    *,
    device: torch.device = CPU,
    watch: Watch | None = None,
    check: Check | None = None,
) -> Trained:
    """Train a network, or continue from a checkpoint in `folder`.

    The same seed gives the same network. On the CPU, with the same number of threads, a run that
    was stopped and continued gives the same bits as an uninterrupted one, unless `training.minutes`
    ends it.

    Args:
        shape: sizes of the network.
        training: settings of this stage, resolved for the amount of speech.
        material: the corpus.
        folder: gets the checkpoints of this stage; `final.pt` there is the finished state.
        start: initial weights; those with a matching name and shape are used.
        watch: receives the progress.
        check: with `keep_best`, weights with faults are not kept.

    Raises:
        InputError: there is nothing to train on, or the folder has the state of a different
            network.
        OutputError: a checkpoint cannot be written.
    """
    if not len(material.train):
        raise InputError("expected utterances to train on, got none")
    folder.mkdir(parents=True, exist_ok=True)
    torch.manual_seed(training.seed)
    network = AcousticNetwork(shape, training.dropout)
    if start:
        random = network.state_dict()
        network.load_state_dict(
            random | {k: v for k, v in start.items() if k in random and v.shape == random[k].shape}
        )
    network.to(device)
    final = folder / "final.pt"
    if not final.exists():
        _Loop(network, training, material, folder, watch or Watch(), check).run()
    before, faults = run_folder.restore_checkpoint(final, partial(_put_back_final, network))
    network.eval()
    return Trained(network, evaluate(network, material, material.dev), before, faults)


def _put_back_final(
    network: AcousticNetwork, state: JsonObject
) -> tuple[HeldOutLosses | None, tuple[str, ...]]:
    network.load_state_dict(state["network"])
    before = None
    if state["before"]:
        before = HeldOutLosses(*state["before"])
    return before, tuple(state["faults"])


@cache
def computes_in_bfloat16(device: torch.device) -> bool:
    """Return whether a device has instructions for bfloat16.

    Others would convert every number twice.
    """
    if device.type != "cpu":
        return device.type == "cuda" and torch.cuda.is_bf16_supported(including_emulation=False)
    capabilities: dict[str, object] = getattr(torch.cpu, "get_capabilities", dict)()
    return any(has for name, has in capabilities.items() if "bf16" in name)


def losses(
    network: AcousticNetwork, batch: TrainingBatch, *, bfloat16: bool, with_ctc: bool = True
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor]:
    """Return sums over a batch: CTC loss, tokens, cross-entropy of the states, frames.

    They are on the network's device. Utterances with too few frames do not count.
    """
    device = batch.inputs.device.type
    with torch.autocast(device, torch.bfloat16, enabled=bfloat16 and device != "mps"):
        tokens, states = network(batch.inputs)
    nothing = tokens.new_zeros((), dtype=torch.float32)
    ctc = nothing
    count = nothing
    if with_ctc:
        log_probs = tokens.float().log_softmax(-1).transpose(0, 1)
        each = ctc_loss(
            log_probs, batch.targets, batch.lengths, batch.target_lengths, reduction="none"
        )
        fits = torch.isfinite(each)
        ctc = each[fits].sum()
        count = batch.target_lengths.to(each.device)[fits].sum()
    if states is None or batch.labels is None:
        return ctc, count, nothing, nothing
    labels = batch.labels.flatten()
    scores = states.float().flatten(0, 1)
    if batch.more_silence:
        # as if silence were as frequent here as in the data of the log-priors: see
        # `adaptation.more_silence`
        scores = torch.cat((scores[:, :-1], scores[:, -1:] + batch.more_silence), 1)
    entropy = torch.nn.functional.cross_entropy(scores, labels, ignore_index=-1, reduction="sum")
    return ctc, count, entropy, (labels >= 0).sum()


@torch.inference_mode()
def evaluate(network: AcousticNetwork, material: Material, indices: np.ndarray) -> HeldOutLosses:
    """Return the losses of a network on utterances without augmentation, in float32."""
    if not len(indices):
        return HeldOutLosses(0.0, 0.0, 0)
    was_training = network.training
    network.eval()
    device = next(network.parameters()).device
    sums = np.zeros(4)
    for part in evaluation_batches(material.store.lengths, indices):
        batch = collate(material, part, network.shape.context_frames)
        sums += [float(value) for value in losses(network, batch.to(device), bfloat16=False)]
    network.train(was_training)
    ctc, tokens, frame, frames = map(float, sums)
    return HeldOutLosses(ctc / max(1.0, tokens), frame / max(1.0, frames), len(indices))


class _Loop:
    """The state of a training: everything that changes during it and that checkpoints hold."""

    def __init__(
        self,
        network: AcousticNetwork,
        training: Training,
        material: Material,
        folder: Path,
        watch: Watch,
        check: Check | None,
    ) -> None:
        self.network = network
        self.training = training
        self.material = material
        self.folder = folder
        self.watch = watch
        self.check = check
        self.device = next(network.parameters()).device
        for name, weights in network.named_parameters():
            weights.requires_grad_(training.layers == "all" or name.split(".")[0] in HEADS)
        trained = [weights for weights in network.parameters() if weights.requires_grad]
        self.optimizer = torch.optim.AdamW(
            trained, lr=training.learning_rate, weight_decay=training.weight_decay
        )
        lengths = material.store.lengths[material.train]
        frames = int(training.batch_s * 100)
        self.epochs = [
            plan(lengths, frames, training.seed, epoch) for epoch in range(training.epochs)
        ]
        self.steps = sum(map(len, self.epochs))
        self.step = 0
        self.spent_s = 0.0
        self.sums = [0.0] * 4
        self.best: JsonObject | None = None
        self.refused: JsonObject = {"loss": math.inf, "faults": []}
        self.before: HeldOutLosses | None = None

    def run(self) -> None:
        self._resume()
        self._train_mode()
        if self.training.keep_best and self.before is None:
            self.before = self._evaluate()
        evaluations = self._evaluation_steps()
        began = reported = saved = time.monotonic()
        before_s = self.spent_s
        for batch in prefetched(self._makers()):
            if self._time_share() >= 1.0:
                break
            self._step(batch.to(self.device))
            self.step += 1
            now = time.monotonic()
            self.spent_s = before_s + now - began
            if now - reported > _REPORT_S or self.step == self.steps:
                reported = now
                self._report()
            if self.step in evaluations and len(self.material.dev):
                self._evaluate()
            if now - saved > self.training.checkpoint_s:
                run_folder.save_checkpoint(self.folder / "checkpoint.pt", self._state())
                saved = now
        if self.best is not None:
            weights = self.best["network"]
        else:
            weights = self.network.state_dict()
        before = None
        if self.before:
            before = list(astuple(self.before))
        if self.best is not None and not self.best["step"]:
            faults = self.refused["faults"]
        else:
            faults = []
        state = {"network": weights, "before": before, "faults": faults}
        run_folder.save_checkpoint(self.folder / "final.pt", state)

    def _step(self, batch: TrainingBatch) -> None:
        training = self.training
        for group in self.optimizer.param_groups:
            group["lr"] = rate(training, self.step, self.steps, self._time_share())
        bfloat16 = training.bfloat16 and computes_in_bfloat16(self.device)
        parts = losses(self.network, batch, bfloat16=bfloat16, with_ctc=bool(training.ctc_weight))
        ctc, tokens, frame, frames = parts
        # the minimum of 1: a mean over no frames, in a batch without labels, would be NaN
        ctc = ctc / tokens.clamp(min=1)
        frame = frame / frames.clamp(min=1)
        loss = training.ctc_weight * ctc + training.frame_weight * frame
        self.optimizer.zero_grad(set_to_none=True)
        if loss.requires_grad:
            loss.backward()
            torch.nn.utils.clip_grad_norm_(self.network.parameters(), 5.0)
            self.optimizer.step()
        # moving sums, so that the reported means weigh batches by their tokens and frames
        self.sums = [0.98 * old + 0.02 * float(new.detach()) for old, new in zip(self.sums, parts)]

    def _evaluate(self) -> HeldOutLosses:
        """Report and return the losses on the held-out part.

        With `keep_best`, the best weights are kept.
        """
        held_out = evaluate(self.network, self.material, self.material.dev)
        self.watch.say(f"step {self.step} of {self.steps}  held out: {held_out}")
        if self.training.keep_best and len(self.material.dev):
            self._keep(
                self.training.ctc_weight * held_out.ctc
                + self.training.frame_weight * held_out.frame
            )
        self._train_mode()
        return held_out

    def _keep(self, loss: float) -> None:
        """Keep the weights if they have the least loss and no faults.

        The weights at the start need no check.
        """
        if self.best is not None and loss >= self.best["loss"]:
            return
        if self.check is not None and self.step:
            faults = list(self.check(self.network))
        else:
            faults = []
        if faults:
            self.watch.say(f"these weights are not kept: {'; '.join(faults)}")
            if loss < self.refused["loss"]:
                self.refused = {"loss": loss, "faults": faults}
            return
        weights = {
            name: value.detach().cpu().clone() for name, value in self.network.state_dict().items()
        }
        self.best = {"loss": loss, "network": weights, "step": self.step}

    def _train_mode(self) -> None:
        self.network.train()
        for module in self.network.modules():
            if isinstance(module, torch.nn.BatchNorm1d) and self.training.freeze_norms:
                module.eval()

    def _evaluation_steps(self) -> set[int]:
        ends = []
        step = 0
        for epoch in self.epochs:
            step += len(epoch)
            ends.append(step)
        if self.training.keep_best:
            every = 1
        else:
            every = -(-len(ends) // EVALUATIONS)
        return set(ends[every - 1 :: every])

    def _time_share(self) -> float:
        if self.training.minutes:
            return self.spent_s / (60.0 * self.training.minutes)
        return 0.0

    def _report(self) -> None:
        share = max(self.step / max(1, self.steps), min(1.0, self._time_share()))
        ctc = self.sums[0] / max(self.sums[1], 1e-9)
        frame = self.sums[2] / max(self.sums[3], 1e-9)
        line = f"step {self.step} of {self.steps}  ctc {ctc:.3f}/token  frame {frame:.3f}"
        left_s = 0.0
        if share:
            left_s = self.spent_s / share - self.spent_s
        self.watch.progress(STAGE, share, f"{line}  {left_s / 60:.1f} min left")

    def _makers(self) -> Iterator[Callable[[], TrainingBatch]]:
        material = self.material
        training = self.training
        step = 0
        done = self.step
        for epoch, batches in enumerate(self.epochs):
            for batch in batches:
                step += 1
                if step > done:
                    indices = [int(material.train[i]) for i in batch]
                    context = self.network.shape.context_frames
                    yield partial(
                        collate,
                        material,
                        indices,
                        context,
                        training.augmentation,
                        (training.seed, epoch),
                    )

    def _state(self) -> JsonObject:
        """Return everything that a continued run needs.

        This includes torch's random generators, which dropout uses.
        """
        return {
            "network": self.network.state_dict(),
            "optimizer": self.optimizer.state_dict(),
            "step": self.step,
            "spent_s": self.spent_s,
            "sums": self.sums,
            "best": self.best,
            "refused": self.refused,
            "before": list(astuple(self.before)) if self.before else None,
            "random": torch.get_rng_state(),
            "cuda_random": (
                torch.cuda.get_rng_state(self.device) if self.device.type == "cuda" else None
            ),
        }

    def _resume(self) -> None:
        """Restore the last checkpoint, if there is one."""
        path = self.folder / "checkpoint.pt"
        if path.exists():
            run_folder.restore_checkpoint(path, self._put_back)
            self.watch.say(f"continues from step {self.step} of {self.steps}")

    def _put_back(self, state: JsonObject) -> None:
        self.network.load_state_dict(state["network"])
        self.optimizer.load_state_dict(state["optimizer"])
        torch.set_rng_state(state["random"])
        if state["cuda_random"] is not None and self.device.type == "cuda":
            torch.cuda.set_rng_state(state["cuda_random"], self.device)
        self.best = state["best"]
        self.refused = state["refused"]
        self.sums = list(state["sums"])
        if state["before"]:
            self.before = HeldOutLosses(*state["before"])
        else:
            self.before = None
        self.step = int(state["step"])
        self.spent_s = float(state["spent_s"])


def rate(training: Training, step: int, steps: int, time_share: float = 0.0) -> float:
    """Return the learning rate of a step.

    It is a warm-up, then a cosine to almost zero at the last step or time limit.
    """
    warm = min(1.0, (step + 1) / max(1, training.warmup_steps))
    share = min(1.0, max(step / max(1, steps), time_share))
    return training.learning_rate * warm * (0.01 + 0.99 * 0.5 * (1.0 + math.cos(math.pi * share)))
