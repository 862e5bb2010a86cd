"""States on disk: written whole or not at all, and refused in one line where they are another network's."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import torch

from ctc_align.errors import InputError, OutputError

Result = TypeVar("Result")


def save(path: Path, state: object) -> None:
    """Write a state.

    Raises:
        OutputError: the system refused.
    """
    part = path.with_suffix(".part")
    try:
        torch.save(state, part)
        os.replace(part, path)
    except (OSError, RuntimeError) as error:  # torch's own writer tells of a full disk by a RuntimeError
        part.unlink(missing_ok=True)
        raise OutputError(f"{path}: the checkpoint cannot be written ({error})") from error


def restore(path: Path, put_back: Callable[[Any], Result]) -> Result:
    """What `put_back` makes of a saved state.

    Raises:
        InputError: damaged, or the state of something else.
    """
    try:
        return put_back(torch.load(path, weights_only=True, map_location="cpu"))
    except Exception as error:  # torch and pickle have many kinds, and all mean that this is not our state
        reason = " ".join(str(error).split())[:200]
        raise InputError(
            f"{path}: expected the state of this recipe's network, got another or a damaged one ({reason}); "
            "remove it, or take another folder"
        ) from error
