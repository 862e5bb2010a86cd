"""Align many recordings at once, and list those whose transcript does not fit.

    python examples/clean_a_corpus.py [MANIFEST.jsonl]

Each line of the manifest is an object with `audio_filepath` and `text`. Without arguments two
utterances are made of the recording that comes with the package, one of them with the wrong words.
For hours of speech use
`ctc-align corpus`, which resumes, keeps a journal, and uses all cores.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

import ctc_align

DEMO = Path(ctc_align.__file__).parent / "demo"


def read(manifest: str) -> list[tuple[str, str]]:
    lines = Path(manifest).read_text(encoding="utf-8").splitlines()
    rows = [json.loads(line) for line in lines if line.strip()]
    return [(row["audio_filepath"], row["text"]) for row in rows]


def main(pairs: list[tuple[str, str]]) -> None:
    aligner = ctc_align.Aligner()
    for (audio, text), result in zip(pairs, aligner.align_batch(pairs, on_error="return")):
        if isinstance(result, ctc_align.CtcAlignError):
            print(f"failed  {audio}: {result}")
            continue
        verdict = "keep" if result.fit == "good" else "doubt"
        print(
            f"{verdict:6}  fit {result.fit}, {result.loss_per_token:.2f} nats a token  {audio}: {text[:50]}"
        )
        for region in result.regions:
            print(f"        {region.reason}")


if __name__ == "__main__":
    demo = str(DEMO / "demo.flac")
    given = [
        (demo, (DEMO / "demo.txt").read_text(encoding="utf-8")),
        (demo, "These are entirely different words."),
    ]
    main(read(sys.argv[1]) if sys.argv[1:] else given)
