"""Training of a model's acoustic network on speech that is hard to hear.

    python research/hard_sound_training.py --model english --speech MANIFEST... --out DIR [--left-out
    radio,…]

The network learns from itself: for each piece of a recording, what the shipped network and its
Gaussians say of the clean sound is the target for the same piece spoiled (`spoiled_sound.py`),
frame by frame, in both outputs. A third of each batch stays clean. DIR gets `speech.npy` (all
recordings, 16-bit), `checkpoint.pt`, from which a run that was stopped continues, and
`model.safetensors`, the moving average of the weights, for the model's folder.
"""

from __future__ import annotations

import argparse
import json
import math
import sys
import time
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import soundfile
import torch
from safetensors.numpy import load_file as load_arrays
from safetensors.torch import save_file
from torch.nn.functional import kl_div

from ctc_align.alignment.aligner import Aligner
from ctc_align.models.convnet import features
from ctc_align.models.convnet.convnet_model import ConvNet
from ctc_align.models.convnet.inference import NetworkShape
from ctc_align.models.convnet.network import AcousticNetwork
from spoiled_sound import RATE, spoil

PIECE_FRAMES = 400
PIECES = 4
"""Pieces in a batch: each once clean and `SPOILED` times spoiled."""
SPOILED = 2
BAND_UNSEEN = 0.5
"""Share of pieces whose inputs above the edge of a band are as they are, as in a recording with
noise above it."""
CTC_WEIGHT = 0.5
LONGEST_AVERAGE = 0.998
CHECKPOINT_S = 60.0


class Speech:
    """Recordings in one array, those of a speaker side by side."""

    def __init__(self, samples: np.ndarray, starts: np.ndarray) -> None:
        self.samples, self.starts = samples, starts

    @classmethod
    def read(cls, manifests: Sequence[Path], folder: Path) -> Speech:
        """Return the training speech of some manifests; it is kept in `folder` for the next run."""
        array, table = folder / "speech.npy", folder / "speech.json"
        if not table.exists():
            rows = [(path.parent, row) for path in manifests for row in training_rows(path)]
            rows.sort(key=lambda pair: str(pair[1].get("speaker", "")))
            parts, starts, total = [], [], 0
            for parent, row in rows:
                samples = read_samples(parent, row)
                parts.append(samples)
                starts.append(total)
                total += len(samples)
            np.save(array, np.concatenate(parts))
            table.write_text(json.dumps(starts), "utf-8")
        return cls(np.load(array, mmap_mode="r"), np.array(json.loads(table.read_text("utf-8"))))

    def piece(self, count: int, rng: np.random.Generator) -> np.ndarray:
        """Return (count,) float32 from anywhere; often from where a recording begins, with its
        silence."""
        start = int(rng.integers(len(self.samples) - count))
        if rng.random() < 0.3:
            start = min(int(rng.choice(self.starts)), len(self.samples) - count)
        return np.asarray(self.samples[start : start + count], np.float32) / 32768


def read_samples(folder: Path, row: dict[str, Any]) -> np.ndarray:
    """Return the samples (N,) int16 of a row of a manifest in `folder`."""
    path = folder / (row.get("audio") or row["audio_filepath"])
    samples, rate = soundfile.read(path, dtype="int16")
    if rate != RATE or samples.ndim > 1:
        raise SystemExit(f"{path}: expected {RATE} Hz and one channel")
    return np.asarray(samples)


def training_rows(path: Path) -> list[dict[str, Any]]:
    """Return the rows of a manifest that are for training."""
    rows = [json.loads(line) for line in path.read_text("utf-8").splitlines() if line]
    return [row for row in rows if row.get("split", "train") == "train"]


@dataclass(frozen=True)
class Batch:
    """Inputs (PIECES, T, MELS) of clean pieces, and (PIECES, 1 + SPOILED, T, MELS) clean and
    spoiled."""

    clean: np.ndarray
    heard: np.ndarray


def make_batch(
    speech: Speech, context: int, rng: np.random.Generator, left_out: Collection[str]
) -> Batch:
    """Return the next batch of the source of chance."""
    clean, heard = [], []
    count = PIECE_FRAMES * features.HOP_SAMPLES
    for _ in range(PIECES):
        samples = speech.piece(count, rng)
        given = _network_inputs(samples, context, sees_band=True)
        clean.append(given)
        versions = [given]
        for _ in range(SPOILED):
            worse = spoil(samples, rng, speech.piece, left_out)
            versions.append(_network_inputs(worse, context, sees_band=rng.random() >= BAND_UNSEEN))
        heard.append(np.stack(versions))
    return Batch(np.stack(clean), np.stack(heard))


def _network_inputs(samples: np.ndarray, context: int, *, sees_band: bool) -> np.ndarray:
    frames = features.log_mel(samples, 0, PIECE_FRAMES)
    statistics = features.statistics_of(frames)
    if not sees_band:
        statistics = replace(statistics, band=features.MELS)
    silence = np.repeat(features.silence(statistics)[None], context, 0)
    return np.concatenate((silence, features.normalise(frames, statistics), silence)).astype(
        np.float32
    )


class Training:
    """A student that learns from its teacher: the state that checkpoints hold."""

    def __init__(self, model: ConvNet, weights: Path, given: argparse.Namespace) -> None:
        self.model, self.given = model, given
        self.shape: NetworkShape = model.description.shape
        self.arrays = load_arrays(weights)
        self.teacher = self._network(self.arrays).eval()
        self.student = self._network(
            load_arrays(given.start) if given.start else self.arrays
        ).train()
        self.average = {name: value.clone() for name, value in self.student.state_dict().items()}
        self.optimizer = torch.optim.AdamW(self.student.parameters(), given.rate, weight_decay=1e-2)
        self.step, self.spent_s, self.losses = 0, 0.0, np.zeros(2)
        self.checkpoint = given.out / "checkpoint.pt"
        if self.checkpoint.exists():
            self._resume()

    def _network(self, arrays: dict[str, np.ndarray]) -> AcousticNetwork:
        network = AcousticNetwork(self.shape)
        state = network.state_dict()
        state.update(
            {name: torch.from_numpy(arrays[name]).float() for name in state if name in arrays}
        )
        network.load_state_dict(state)
        return network

    def run(self, speech: Speech) -> None:
        """Train to the last step."""
        context, left_out = self.shape.context_frames, self.given.left_out
        began = saved = time.monotonic()
        before_s = self.spent_s
        while self.step < self.given.steps:
            rng = np.random.default_rng((self.given.seed, self.step))
            self.learn(make_batch(speech, context, rng, left_out))
            self.step += 1
            self.spent_s = before_s + time.monotonic() - began
            if self.step % 50 == 0:
                ctc, states = self.losses
                print(
                    f"step {self.step}  ctc {ctc:.4f}  states {states:.4f}  {self.spent_s:.0f} s",
                    flush=True,
                )
            if time.monotonic() - saved > CHECKPOINT_S:
                self.save()
                saved = time.monotonic()
        self.save()

    def learn(self, batch: Batch) -> None:
        """Take one step."""
        share = self.step / self.given.steps
        for group in self.optimizer.param_groups:
            group["lr"] = (
                self.given.rate
                * min(1.0, (self.step + 1) / 100)
                * (0.01 + 0.495 * (1 + math.cos(math.pi * share)))
            )
        with torch.inference_mode():
            tokens, states = self._targets(batch.clean)
        versions = batch.heard.shape[1]
        with torch.autocast("cpu", torch.bfloat16):
            outputs = self.student(torch.from_numpy(batch.heard).flatten(0, 1))
        ctc = _divergence(outputs[0].float(), tokens.repeat_interleave(versions, 0))
        segments = _divergence(outputs[1].float(), states.repeat_interleave(versions, 0))
        self.optimizer.zero_grad()
        (segments + CTC_WEIGHT * ctc).backward()
        torch.nn.utils.clip_grad_norm_(self.student.parameters(), 5.0)
        self.optimizer.step()
        keep = min(LONGEST_AVERAGE, (self.step + 1) / (self.step + 10))
        with torch.no_grad():
            for name, value in self.student.state_dict().items():
                if value.dtype.is_floating_point:
                    self.average[name].lerp_(value, 1 - keep)
        self.losses = 0.98 * self.losses + 0.02 * np.array(
            (float(ctc.detach()), float(segments.detach()))
        )

    def _targets(self, clean: np.ndarray) -> tuple[torch.Tensor, torch.Tensor]:
        """Return the log-posteriors of tokens and of states, these with the Gaussians' share, of
        clean inputs."""
        tokens, states = self.teacher(torch.from_numpy(clean))
        scoring = self.model.scoring
        posteriors = states.log_softmax(-1)
        if scoring.mixtures is not None:
            rows = [scoring.mixtures.log_posteriors(scoring.values_of(each)) for each in clean]
            posteriors = (
                posteriors + scoring.mixture_weight * torch.from_numpy(np.stack(rows))
            ).log_softmax(-1)
        return tokens.log_softmax(-1), posteriors

    def save(self) -> None:
        """Write the checkpoint and the averaged weights."""
        state = {
            "student": self.student.state_dict(),
            "average": self.average,
            "optimizer": self.optimizer.state_dict(),
            "step": self.step,
            "spent_s": self.spent_s,
            "losses": self.losses.tolist(),
        }
        torch.save(state, self.checkpoint.with_suffix(".new"))
        self.checkpoint.with_suffix(".new").replace(self.checkpoint)
        weights = {name: torch.from_numpy(np.array(value)) for name, value in self.arrays.items()}
        for name, value in self.average.items():
            if name in weights:
                weights[name] = value.to(weights[name].dtype).contiguous()
        save_file(weights, self.given.out / "model.safetensors")

    def _resume(self) -> None:
        state = torch.load(self.checkpoint, weights_only=True)
        self.student.load_state_dict(state["student"])
        self.average = state["average"]
        self.optimizer.load_state_dict(state["optimizer"])
        self.step, self.spent_s = state["step"], state["spent_s"]
        self.losses = np.array(state["losses"])
        print(f"continues from step {self.step}", flush=True)


def _divergence(logits: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
    """Return the mean over frames of KL(targets ‖ softmax(logits)); both (B, T, K), targets are
    logs."""
    scores = logits.log_softmax(-1).flatten(0, 1)
    return kl_div(scores, targets.flatten(0, 1), log_target=True, reduction="batchmean")


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the training from the command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--model", default="english")
    parser.add_argument("--speech", required=True, type=Path, nargs="+", metavar="MANIFEST")
    parser.add_argument("--out", required=True, type=Path, metavar="DIR")
    parser.add_argument("--steps", type=int, default=10000)
    parser.add_argument("--rate", type=float, default=6e-4, help="learning rate at its peak")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument(
        "--start", type=Path, default=None, help="weights to begin with; default: the model's"
    )
    parser.add_argument(
        "--left-out", type=lambda text: tuple(filter(None, text.split(","))), default=()
    )
    parser.add_argument(
        "--cache", type=Path, default=None, help="folder of speech.npy; default: DIR"
    )
    given = parser.parse_args(arguments)
    torch.set_num_threads(1)
    given.out.mkdir(parents=True, exist_ok=True)
    speech = Speech.read(given.speech, given.cache or given.out)
    model = Aligner(given.model, device="cpu").model
    if not isinstance(model, ConvNet):
        parser.error(f"{given.model}: expected a model of this package's own kind")
    weights = (
        Path(__file__).resolve().parents[1]
        / "ctc_align"
        / "models"
        / given.model
        / "model.safetensors"
    )
    Training(model, weights, given).run(speech)
    return 0


if __name__ == "__main__":
    sys.exit(main())
