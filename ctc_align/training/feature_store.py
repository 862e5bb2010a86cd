"""Log-mel frames of a whole corpus in one file on disk, so that epochs do not decode audio again."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TypeVar

import numpy as np
import torch

from ctc_align.corpus.utterance import Utterance
from ctc_align.errors import InputError
from ctc_align.models.convnet import features

AHEAD = 32
"""Number of results that `spread` computes before the first of them is taken."""
Item = TypeVar("Item")
Result = TypeVar("Result")


def spread(function: Callable[[Item], Result], items: Sequence[Item]) -> Iterator[Result]:
    """Yield `function` of each item, in order, one item on each core.

    Torch works on one thread within: its own threads wait for one another after every operation, which on small tensors
    costs more than it gives.
    """
    count = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        with ThreadPoolExecutor(count) as pool:
            for begin in range(0, len(items), AHEAD):
                yield from pool.map(function, items[begin : begin + AHEAD])
    finally:
        torch.set_num_threads(count)


class FeatureStore:
    """Frames of utterances, float16 on disk, mapped into memory; `store[i]` is (T, MELS) float32.

    `faults` holds the reasons why utterances have no frames.
    """

    def __init__(self, folder: Path) -> None:
        index = json.loads((folder / "index.json").read_text("utf-8"))
        self.faults = {int(i): str(reason) for i, reason in index["faults"].items()}
        self.starts = np.load(folder / "starts.npy")
        count = int(self.starts[-1])
        self._frames = (
            np.memmap(folder / "frames.f16", np.float16, "r", shape=(count, features.MELS)) if count else None
        )

    def __len__(self) -> int:
        return len(self.starts) - 1

    def __getitem__(self, i: int) -> torch.Tensor:
        if self._frames is None:
            return torch.empty(0, features.MELS)
        return torch.from_numpy(self._frames[self.starts[i] : self.starts[i + 1]].astype(np.float32))

    @property
    def lengths(self) -> np.ndarray:
        """Frames of each utterance (N,), 0 for those that could not be read."""
        return np.diff(self.starts)


def build(utterances: Sequence[Utterance], folder: Path, progress: Callable[[int], None] | None = None) -> FeatureStore:
    """Decode every utterance once; a store of as many utterances that is there already is used as it is.

    Each list of utterances needs a folder of its own. `progress` is called with the number of utterances done.
    """
    folder.mkdir(parents=True, exist_ok=True)
    index = folder / "index.json"
    if index.exists():
        store = FeatureStore(folder)
        if len(store) == len(utterances):
            return store
    starts, faults = [0], {}
    with open(folder / "frames.f16.part", "wb") as file:
        for i, frames in enumerate(spread(_frames_of, utterances)):
            if isinstance(frames, str):
                faults[i] = frames
                starts.append(starts[-1])
            else:
                file.write(frames.numpy().astype(np.float16).tobytes())
                starts.append(starts[-1] + len(frames))
            if progress:
                progress(i + 1)
    os.replace(folder / "frames.f16.part", folder / "frames.f16")
    np.save(folder / "starts.npy", np.array(starts, np.int64))
    part = folder / "index.json.part"
    part.write_text(json.dumps({"faults": faults}), "utf-8", newline="\n")
    os.replace(part, index)
    return FeatureStore(folder)


def _frames_of(utterance: Utterance) -> torch.Tensor | str:
    """Return the frames (T, MELS) of an utterance, or the reason why there are none."""
    from ctc_align.audio.loading import load_segment

    try:
        audio = load_segment(
            utterance.audio,
            features.SAMPLE_RATE,
            offset_s=utterance.offset_s,
            duration_s=utterance.duration_s,
            channel=utterance.channel,
        )
    except InputError as error:
        return " ".join(str(error).split())
    return features.log_mel(audio.samples, 0, features.frame_count(len(audio.samples)))
