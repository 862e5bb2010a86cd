"""Align one recording with its transcript, and print when each word was said.

    python examples/align_a_file.py [AUDIO TRANSCRIPT.txt]

Without arguments it takes the recording that comes with the package. NAME.TextGrid is written to
the current folder, never over a file that is there.
"""

from __future__ import annotations

import sys
from pathlib import Path

import ctc_align

DEMO = Path(ctc_align.__file__).parent / "demo"


def main(audio: str, transcript: str) -> None:
    alignment = ctc_align.align(audio, Path(transcript).read_text(encoding="utf-8"))
    for word in alignment.words:
        if word.status == "aligned":
            print(f"{word.start_s:8.3f} {word.end_s:8.3f}  {word.confidence:.2f}  {word.text}")
        else:  # a dash, say, or letters that the model does not have
            print(f"{'':17}        {word.text} ({word.status})")
    print(f"CTC loss {alignment.loss:.1f}, {alignment.loss_per_token:.2f} a token")
    alignment.save(f"{Path(audio).stem}.TextGrid")


if __name__ == "__main__":
    main(*(sys.argv[1:] or [str(DEMO / "demo.flac"), str(DEMO / "demo.txt")]))
