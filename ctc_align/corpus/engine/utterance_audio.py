"""What an utterance is aligned by: its sound, or log-probs that a model has made of it before."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ctc_align.audio.loading import load_segment
from ctc_align.corpus.utterance import Utterance
from ctc_align.errors import InputError
from ctc_align.models.log_probs import is_log_probs_path

if TYPE_CHECKING:
    from ctc_align.models.log_probs import Reader
    from ctc_align.types import Audio, Emissions


def read_utterance(utterance: Utterance, sample_rate: int, log_probs: Reader | None) -> Audio | Emissions:
    """The sound of an utterance at `sample_rate`, or its log-probs, which `log_probs` reads.

    Raises:
        InputError: neither can be read, or it is the other of the two that this run reads.
        UsageError: a reader of this kind of file is not installed.
    """
    if is_log_probs_path(utterance.audio):
        if log_probs is None:
            raise InputError(f"{utterance.audio}: log-probs need --vocab FILE and --frame-shift SECONDS")
        return log_probs.read(utterance.audio, offset_s=utterance.offset_s, duration_s=utterance.duration_s)
    if log_probs is not None:
        raise InputError(
            f"{utterance.audio}: expected log-probs, got sound: leave --vocab and --frame-shift away for sound"
        )
    return load_segment(
        utterance.audio,
        sample_rate,
        offset_s=utterance.offset_s,
        duration_s=utterance.duration_s,
        channel=utterance.channel,
    )
