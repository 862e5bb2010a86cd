"""What the studies share: the helpers of the benchmarks, hand labels, and joined speech."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
import soundfile

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests" / "benchmarks"))
from timed_runs import (  # noqa: F401
    DATA,
    ENGLISH,
    MANIFEST,
    ROOT,
    manifest_rows,
    parser_of,
    timed_run,
)

GOLD = DATA / "gold-dev"
RATE = 16000
PAUSE_S = 0.3
"""Between the clips of joined speech."""


def join_clips(rows: Iterable[dict[str, Any]], seconds: float, audio: Path) -> float:
    """Write a recording of at least `seconds`, made of clips of the English data, and its
    transcript beside it.

    Returns:
        the seconds of the recording.
    """
    from ctc_align.audio.loading import load_audio

    samples, texts = 0, []
    with soundfile.SoundFile(audio, "w", RATE, 1, subtype="PCM_16") as file:
        for clip in rows:
            for piece in (
                load_audio(ENGLISH / clip["audio"], RATE).samples,
                np.zeros(round(PAUSE_S * RATE)),
            ):
                file.write(piece)
                samples += len(piece)
            texts.append(clip["text"])
            if samples >= seconds * RATE:
                break
    audio.with_suffix(".txt").write_text("\n".join(texts) + "\n", "utf-8")
    return samples / RATE
