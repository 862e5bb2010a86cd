"""Align speech with its transcript by CTC.

>>> import ctc_align
>>> aligner = ctc_align.Aligner()                       # doctest: +SKIP
>>> aligner.align("audio.wav", "We call it bear.")      # doctest: +SKIP

Importing the package costs nothing: the modules behind a name are loaded when the name is first
used.
"""

from __future__ import annotations

import importlib.util
from typing import TYPE_CHECKING, Any

from ctc_align._version import __version__

if TYPE_CHECKING:
    from ctc_align.alignment.aligner import Aligner, align
    from ctc_align.config import Settings
    from ctc_align.errors import (
        AudioError,
        BackendError,
        BackendWarning,
        ConfigError,
        CtcAlignError,
        EmissionsError,
        InputError,
        KernelError,
        LexiconError,
        LostFolderError,
        MissingExtraError,
        MissingTierError,
        OutputError,
        TooShortError,
        TranscriptError,
        UsageError,
        WrongArrayError,
        WrongFileError,
    )
    from ctc_align.files import read_alignment
    from ctc_align.losses import CTCLoss
    from ctc_align.types import (
        AlignedToken,
        AlignedWord,
        Alignment,
        Emissions,
        LanguageSpan,
        Region,
        Transcript,
    )

__all__ = [
    "AlignedToken",
    "AlignedWord",
    "Aligner",
    "Alignment",
    "AudioError",
    "BackendError",
    "BackendWarning",
    "CTCLoss",
    "ConfigError",
    "CtcAlignError",
    "Emissions",
    "EmissionsError",
    "InputError",
    "KernelError",
    "LanguageSpan",
    "LexiconError",
    "LostFolderError",
    "MissingExtraError",
    "MissingTierError",
    "OutputError",
    "Region",
    "Settings",
    "TooShortError",
    "Transcript",
    "TranscriptError",
    "UsageError",
    "WrongArrayError",
    "WrongFileError",
    "__version__",
    "align",
    "read_alignment",
]
if importlib.util.find_spec("torch") is None:  # `from ctc_align import *` takes what is there
    __all__.remove("CTCLoss")

_HOMES = {
    "AlignedToken": "ctc_align.types",
    "AlignedWord": "ctc_align.types",
    "Aligner": "ctc_align.alignment.aligner",
    "Alignment": "ctc_align.types",
    "AudioError": "ctc_align.errors",
    "BackendError": "ctc_align.errors",
    "BackendWarning": "ctc_align.errors",
    "CTCLoss": "ctc_align.losses",
    "ConfigError": "ctc_align.errors",
    "CtcAlignError": "ctc_align.errors",
    "Emissions": "ctc_align.types",
    "EmissionsError": "ctc_align.errors",
    "InputError": "ctc_align.errors",
    "KernelError": "ctc_align.errors",
    "LanguageSpan": "ctc_align.types",
    "LexiconError": "ctc_align.errors",
    "LostFolderError": "ctc_align.errors",
    "MissingExtraError": "ctc_align.errors",
    "MissingTierError": "ctc_align.errors",
    "OutputError": "ctc_align.errors",
    "Region": "ctc_align.types",
    "Settings": "ctc_align.config",
    "TooShortError": "ctc_align.errors",
    "Transcript": "ctc_align.types",
    "TranscriptError": "ctc_align.errors",
    "UsageError": "ctc_align.errors",
    "WrongArrayError": "ctc_align.errors",
    "WrongFileError": "ctc_align.errors",
    "align": "ctc_align.alignment.aligner",
    "read_alignment": "ctc_align.files",
}
_MODULES = ("functional", "losses", "pipelines")
"""Modules that are available as attributes without a separate import."""


def __getattr__(name: str) -> Any:
    if name in _HOMES:
        return getattr(importlib.import_module(_HOMES[name]), name)
    if name in _MODULES:
        return importlib.import_module(f"ctc_align.{name}")
    raise AttributeError(f"module 'ctc_align' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
