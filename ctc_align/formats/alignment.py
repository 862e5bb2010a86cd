"""The result of an alignment as users hold it: written to files of any format, and read back from JSON."""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ctc_align.errors import InputError
from ctc_align.formats.json_format import DECIMALS, read_object, to_dict
from ctc_align.formats.saving import save
from ctc_align.formats.writer import RECORDING
from ctc_align.types import AlignedToken, AlignedWord, AlignmentData


@dataclass(frozen=True)
class Alignment(AlignmentData):
    """A transcript aligned with its audio; see `ctc_align.types.AlignmentData` for its fields."""

    def to_dict(self) -> dict[str, Any]:
        """Return the JSON object of format "ctc-align/1": plain dicts, lists, strings and finite numbers or None."""
        return to_dict(self)

    def save(self, path: str | Path, *, force: bool = False) -> None:
        """Write the alignment in the format that the extension of `path` names (.json, .ctm, .TextGrid, …).

        Raises:
            OutputError: the file exists and `force` is not given, or it cannot be written.
            UsageError: no format has this extension.
        """
        save(self, path, force=force)


def read_alignment(path: str | Path) -> Alignment:
    """Read the JSON file of an alignment; times count from the start of the utterance, whatever they did in the file.

    Raises:
        InputError: the file cannot be read, is not JSON, or not of this format.
    """
    return from_dict(read_object(path), path)


def from_dict(data: dict[str, Any], name: str | Path = "the JSON object") -> Alignment:
    """Return the alignment of a JSON object that `to_dict` made; `name` is what error messages call the object.

    Raises:
        InputError: something is missing.
    """
    try:
        return _alignment(data)
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise InputError(f"{name}: not a whole alignment: {type(error).__name__} {error}") from error


def _alignment(data: dict[str, Any]) -> Alignment:
    shift_s = -data["offset_s"] if data["config"].get("times") == RECORDING else 0.0
    return Alignment(
        utterance=data["utterance"],
        audio=data["audio"],
        duration_s=data["duration_s"],
        model=data["model"],
        backend=data["backend"],
        frame_shift_s=data["frame_shift_s"],
        loss=math.inf if data["loss"] is None else data["loss"],
        score=-math.inf if data["score"] is None else data["score"],
        text=data["text"],
        words=tuple(_aligned_word(word, shift_s) for word in data["words"]),
        unknown=data["unknown"],
        offset_s=data["offset_s"],
        loss_per_token=data["loss_per_token"],
        config=data["config"],
        unknown_letters=dict(data.get("unknown_letters", {})),
        token_kind=data.get("token_kind", "tokens"),
        unexplained=tuple(
            (max(round(part["start_s"] + shift_s, DECIMALS), 0.0), round(part["end_s"] + shift_s, DECIMALS))
            for part in data.get("unexplained", ())
        ),
    )


def _aligned_word(data: dict[str, Any], shift_s: float) -> AlignedWord:
    def moved(seconds: float | None) -> float | None:
        return None if seconds is None else max(round(seconds + shift_s, DECIMALS), 0.0)

    def timed(item: dict[str, Any]) -> dict[str, Any]:
        times = {"start_s": moved(item["start_s"]), "end_s": moved(item["end_s"]), "confidence": item["confidence"]}
        return times | {key: item.get(key) for key in ("start_sd_ms", "end_sd_ms")}

    return AlignedWord(
        text=data["text"],
        spoken=data["spoken"],
        char_start=data["char_start"],
        char_end=data["char_end"],
        status=data["status"],
        tokens=tuple(AlignedToken(token["token"], **timed(token)) for token in data["tokens"]),
        **timed(data),
    )
