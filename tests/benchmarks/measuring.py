"""What the measurements share: where data lie, the rows of a manifest, joined speech, and a browser."""

from __future__ import annotations

import argparse
import json
import os
import shutil
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
import soundfile

ROOT = Path(__file__).resolve().parents[2]
for _folder in ("tools", "tests/support", ""):
    sys.path.insert(0, str(ROOT / _folder))
DATA = ROOT.parent / "shared" / "data"
"""Speech data beside the checkout."""
ENGLISH, GOLD = DATA / "english", DATA / "gold-dev"
MANIFEST = ENGLISH / "manifest.jsonl"
RATE = 16000
PAUSE_S = 0.3
"""Between the clips of joined speech."""


def parser_of(text: str | None) -> argparse.ArgumentParser:
    """Return a parser whose help is the docstring of a script."""
    return argparse.ArgumentParser(description=text, formatter_class=argparse.RawDescriptionHelpFormatter)


def manifest_rows(path: Path = MANIFEST, split: str | None = None) -> list[dict[str, Any]]:
    """Return the rows of a manifest, of one split or of all; exit where there is none."""
    if not path.is_file():
        sys.exit(f"{path}: no such manifest")
    rows = map(json.loads, filter(None, path.read_text("utf-8").splitlines()))
    return [row for row in rows if split is None or row.get("split", split) == split]


def join_clips(rows: Iterable[dict[str, Any]], seconds: float, audio: Path) -> float:
    """Write a recording of at least so many seconds out of clips of the English data, and its transcript beside it.

    Returns:
        the seconds of the recording.
    """
    from ctc_align.audio.loading import load_audio

    samples, texts = 0, []
    with soundfile.SoundFile(audio, "w", RATE, 1, subtype="PCM_16") as file:
        for clip in rows:
            for piece in (load_audio(ENGLISH / clip["audio"], RATE).samples, np.zeros(round(PAUSE_S * RATE))):
                file.write(piece)
                samples += len(piece)
            texts.append(clip["text"])
            if samples >= seconds * RATE:
                break
    audio.with_suffix(".txt").write_text("\n".join(texts) + "\n", "utf-8")
    return samples / RATE


def chromium(playwright: Any) -> Any:
    """Return a Chromium that is on the path, started."""
    program = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))))
    return playwright.chromium.launch(executable_path=program, args=["--no-sandbox"] if os.geteuid() == 0 else [])
