"""A worker for FA-Bench (github.com/olewave/fa-bench), which compares aligners on TIMIT and
Buckeye.

FA-Bench starts a program in the environment of each aligner:

    python fa_bench_worker.py JOBS.jsonl MODEL

JOBS has an object a line: `item_id`, `audio_path`, `transcript`. For each a line goes to stdout:
`words` and `phones` as lists of [label, start, end, confidence], in seconds, or `error`.
`docs/compare/benchmark.md` says how to set it up.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import ctc_align
from ctc_align.text.word_forms import outer_punctuation_stripped

BATCH = 32


def results(jobs: list[dict[str, Any]], model: str) -> Iterator[dict[str, Any]]:
    """Yield the result of each job, in order."""
    aligner = ctc_align.Aligner(model=model)
    for begin in range(0, len(jobs), BATCH):
        part = jobs[begin : begin + BATCH]
        pairs = [(job["audio_path"], job["transcript"]) for job in part]
        for job, found in zip(part, aligner.align_batch(pairs, on_error="return")):
            yield {"item_id": job["item_id"], **described(found)}


def described(found: ctc_align.Alignment | ctc_align.CtcAlignError) -> dict[str, Any]:
    """Return the words and phones that have times, or the error."""
    if isinstance(found, ctc_align.CtcAlignError):
        return {"error": str(found)}
    words = [word for word in found.words if word.status == "aligned"]
    return {
        "words": [
            [outer_punctuation_stripped(word.text), word.start_s, word.end_s, word.confidence]
            for word in words
        ],
        "phones": [
            [one.token, one.start_s, one.end_s, one.confidence]
            for word in words
            for one in word.tokens
        ],
        "fit": found.fit,
        "loss_per_token": found.loss_per_token,
    }


def main(arguments: list[str]) -> None:
    jobs_file, model = (
        arguments[0],
        arguments[1] if len(arguments) > 1 and arguments[1] else "english",
    )
    lines = Path(jobs_file).read_text(encoding="utf-8").splitlines()
    for result in results([json.loads(line) for line in lines if line.strip()], model):
        print(json.dumps(result), flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
