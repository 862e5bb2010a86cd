"""Log-mel frames of a whole corpus in one file on disk, so that epochs do not decode audio again."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch

from ctc_align.errors import InputError, UsageError
from ctc_align.models import features


@dataclass(frozen=True)
class Utterance:
    """One line of a training manifest; `audio` is an absolute path."""

    audio: str
    text: str
    speaker: str
    split: str
    duration_s: float


def read_manifest(path: Path, splits: Sequence[str]) -> list[Utterance]:
    """Utterances of the given splits, in the manifest's order.

    Raises:
        UsageError: no such file.
        InputError: a line that is not a JSON object with `audio`, `text` and `duration_s`.
    """
    try:
        data = path.read_bytes()
    except OSError as error:
        raise UsageError(f"{path}: the manifest cannot be read: {error.strerror}") from error
    utterances = []
    for number, line in enumerate(data.removeprefix(b"\xef\xbb\xbf").splitlines(), 1):
        if line.strip():
            try:
                utterance = _utterance(json.loads(line.decode("utf-8")), path.parent)
            except (ValueError, TypeError) as error:
                raise InputError(
                    f"{path}:{number}: expected a JSON object with audio, text, duration_s; met {error}"
                ) from error
            if utterance.split in splits:
                utterances.append(utterance)
    return utterances


def _utterance(row: Any, folder: Path) -> Utterance:
    """One line's utterance; ValueError where it is none."""
    if not isinstance(row, dict):
        raise ValueError(f"a {type(row).__name__}")
    lacking = [key for key in ("audio", "text", "duration_s") if key not in row]
    if lacking:
        raise ValueError(f"one without {', '.join(lacking)}")
    for key in ("audio", "text"):
        if not isinstance(row[key], str):
            raise ValueError(f"{key} {row[key]!r}")
    duration_s = float(row["duration_s"])
    if not 0.0 < duration_s < float("inf"):
        raise ValueError(f"duration_s {row['duration_s']!r}")
    return Utterance(
        str(folder / row["audio"]), row["text"], str(row.get("speaker", "")), str(row.get("split", "train")), duration_s
    )


class FeatureStore:
    """Frames of utterances, float16 on disk, mapped into memory; `store[i]` is (T, MELS) float32."""

    def __init__(self, folder: Path) -> None:
        self.utterances = [Utterance(**row) for row in json.loads((folder / "utterances.json").read_text())]
        self.starts = np.load(folder / "starts.npy")
        self._frames = np.memmap(folder / "frames.f16", np.float16, "r", shape=(int(self.starts[-1]), features.MELS))

    def __len__(self) -> int:
        return len(self.utterances)

    def __getitem__(self, i: int) -> torch.Tensor:
        return torch.from_numpy(self._frames[self.starts[i] : self.starts[i + 1]].astype(np.float32))

    @property
    def lengths(self) -> np.ndarray:
        """(N,) frames of each utterance."""
        return np.diff(self.starts)


def build(utterances: Sequence[Utterance], folder: Path, progress: Callable[[int], None] | None = None) -> FeatureStore:
    """Decode every utterance once; what is already there for the same list is used as it is."""
    folder.mkdir(parents=True, exist_ok=True)
    listing = json.dumps([asdict(u) for u in utterances])
    index = folder / "utterances.json"
    if index.exists() and index.read_text() == listing:
        return FeatureStore(folder)
    index.unlink(missing_ok=True)
    starts = [0]
    with open(folder / "frames.f16.part", "wb") as file, ThreadPoolExecutor(os.cpu_count()) as pool:
        for done, frames in enumerate(pool.map(_frames_of, utterances, chunksize=8), 1):
            file.write(frames.numpy().astype(np.float16).tobytes())
            starts.append(starts[-1] + len(frames))
            if progress:
                progress(done)
    os.replace(folder / "frames.f16.part", folder / "frames.f16")
    np.save(folder / "starts.npy", np.array(starts, np.int64))
    index.write_text(listing)
    return FeatureStore(folder)


def _frames_of(utterance: Utterance) -> torch.Tensor:
    from ctc_align.audio import load_audio

    audio = load_audio(utterance.audio, features.SAMPLE_RATE)
    return features.log_mel(audio.samples, 0, features.frame_count(len(audio.samples)))
