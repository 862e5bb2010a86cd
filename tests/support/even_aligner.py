"""An aligner that does not listen, and needs no torch."""

from __future__ import annotations

import hashlib
import types
from typing import Any

from ctc_align.errors import TooShortError
from ctc_align.types import AlignedToken, AlignedWord, Alignment

MOST_WORDS = 50


class EvenAligner:
    """Spreads the words evenly over the sound; the loss is a hash of the samples. More than
    `MOST_WORDS` words do not fit, and the text "raise" raises RuntimeError."""

    _choice = types.SimpleNamespace(
        language_of=lambda text: "",
        track_language=str,
        aligner=lambda this, language: this,
    )
    settings = types.SimpleNamespace(track="")
    model = types.SimpleNamespace(
        sample_rate=16000, confidence_network=types.SimpleNamespace(limits=None)
    )

    def align_batch(self, pairs: Any, on_error: str, utterances: Any, timings: Any) -> list[Any]:
        return [self.align(audio, text, name) for (audio, text), name in zip(pairs, utterances)]

    def align(self, audio: Any, text: str, name: str) -> Any:
        if text == "raise":
            raise RuntimeError("no good")
        texts = text.split()
        if len(texts) > MOST_WORDS:
            return TooShortError(f"{name}: the transcript needs more frames than the audio has")
        loss = (
            int.from_bytes(hashlib.sha256(audio.samples.tobytes()).digest()[:2], "little") / 1000.0
        )
        words, place = [], 0
        step_s = audio.duration_s / max(len(texts), 1)
        for i, word in enumerate(texts):
            place = text.index(word, place)
            token = AlignedToken(word[:1], i * step_s, (i + 1) * step_s, 0.5)
            times = ("aligned", i * step_s, (i + 1) * step_s, 0.5, (token,))
            words.append(AlignedWord(word, word, place, place + len(word), *times))
            place += len(word)
        about = {
            "loss": loss,
            "score": -loss,
            "loss_per_token": loss / max(len(texts), 1),
            "text": text,
        }
        return Alignment(
            name, "", audio.duration_s, "even", "cpu", 0.01, **about, words=tuple(words)
        )
