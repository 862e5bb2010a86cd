"""The page of an hour of speech: the demo again and again, its sound inside as Opus."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import soundfile
from sample_alignments import aligned, make_alignment

from ctc_align.files.pages import page_object
from ctc_align.types import AlignedWord
from ctc_align.view.page import PageSound, page

DEMO = Path(__file__).resolve().parents[2] / "ctc_align" / "demo"
_WORDS_PER_S = 3


def hour_page(seconds: float = 3600.0) -> tuple[str, int]:
    """Return the HTML, and the number of words: three a second, four tokens each, some of them
    doubtful."""
    samples, rate = soundfile.read(DEMO / "demo.flac", dtype="float32")
    samples = np.resize(samples, int(seconds * rate))
    texts = (DEMO / "demo.txt").read_text("utf-8").split()
    words: list[AlignedWord] = []
    place = 0
    for number in range(int(seconds * _WORDS_PER_S)):
        text = texts[number % len(texts)]
        start_s = number / _WORDS_PER_S
        word = aligned(text, start_s, start_s + 0.3, place, "abcd")
        words.append(replace(word, confidence=0.2) if number % 50 == 0 else word)
        place += len(text) + 1
    alignment = make_alignment(tuple(words), seconds)
    return page(page_object(alignment), name="hour", sound=PageSound.embedded(samples, rate)), len(
        words
    )
