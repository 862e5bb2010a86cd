"""What callers give, and what they are told when it is wrong: pairs, names, emissions, errors."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from os import PathLike, fspath
from pathlib import Path
from typing import Any, TypeVar

import torch

from ctc_align import units
from ctc_align.errors import CtcAlignError, EmissionsError, LexiconError, UsageError
from ctc_align.types import Emissions

Result = TypeVar("Result")


def or_raise(result: Result | CtcAlignError) -> Result:
    if isinstance(result, CtcAlignError):
        raise result
    return result


def raise_first(results: Sequence[Any]) -> None:
    for result in results:
        or_raise(result)


@contextmanager
def whose(name: str, source: str = "") -> Iterator[None]:
    """Errors from within get the utterance's name."""
    try:
        yield
    except CtcAlignError as error:
        told = named(error, name, source)
        if told is error:
            raise
        raise told from error


def named(error: CtcAlignError, name: str, source: str = "") -> CtcAlignError:
    """The error with the utterance's name, unless it names the source or a dictionary itself."""
    if isinstance(error, LexiconError) or (source and source in str(error)):
        return error
    told = type(error)(f"{name}: {error}")
    told.__cause__ = error
    return told


def check_on_error(on_error: str) -> None:
    if on_error not in ("raise", "return"):
        raise UsageError(f"on_error: expected 'raise' or 'return', got {on_error!r}")


def named_pairs(pairs: Iterable[tuple[Any, str]], utterances: Sequence[str] | None) -> list[tuple[Any, str, str]]:
    """Audio, text and the utterance's name of each pair."""
    pairs = list(pairs)
    for i, pair in enumerate(pairs):
        if not isinstance(pair, (tuple, list)) or len(pair) != 2:
            raise UsageError(f"pair {i}: expected (audio, text), got {type(pair).__name__}")
    if utterances is None:
        names = [
            names_of(audio, None if names_of(audio, None)[1] else f"utterance-{i}")[0]
            for i, (audio, _) in enumerate(pairs)
        ]
    elif len(utterances) != len(pairs):
        raise UsageError(f"utterances: expected {len(pairs)} names, one for each pair; got {len(utterances)}")
    else:
        names = list(utterances)
    return [(audio, text, name) for (audio, text), name in zip(pairs, names)]


def names_of(audio: Any, utterance: str | None) -> tuple[str, str]:
    """The utterance's name and the audio as it was given."""
    if isinstance(audio, (str, PathLike)):
        source = fspath(audio)
        return utterance or Path(source).stem, source
    source = getattr(audio, "name", "") or ""
    return utterance or Path(source).stem or "utterance", source


def checked(emissions: Emissions) -> Emissions:
    """Emissions as a user gives them, on the CPU; what cannot be log-probs, or their states, is refused."""
    from ctc_align.models.log_probs import check_emissions

    checked = check_emissions(emissions)
    name, frames, classes = checked.name or "log-probs", *checked.log_probs.shape
    last_s = units.frames_to_seconds(frames - 1, checked.frame_shift_s) + checked.first_frame_s
    if checked.duration_s is not None and checked.duration_s <= last_s:
        raise EmissionsError(
            f"{name}: {frames} frames of {checked.frame_shift_s} s do not fit into duration_s {checked.duration_s}"
        )
    states = checked.states
    if states is not None:
        states = torch.as_tensor(states).detach().to("cpu", torch.float32)
        if states.dim() != 2 or len(states) != frames or not _whole_parts(states.shape[1] - 1, classes - 1):
            raise EmissionsError(
                f"{name}: expected states of shape ({frames}, parts * {classes - 1} + 1), got {tuple(states.shape)}"
            )
        if bool((states.isnan() | (states == float("inf"))).any()):
            raise EmissionsError(f"{name}: states hold NaN or +inf; expected log-scores")
    return replace(checked, log_probs=checked.log_probs.to("cpu"), states=states)


def _whole_parts(sounding: int, tokens: int) -> bool:
    return 0 < tokens <= sounding and sounding % tokens == 0
