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
    from ctc_align.errors import CtcAlignError
    from ctc_align.files import Alignment, read_alignment
    from ctc_align.losses import CTCLoss
    from ctc_align.types import Emissions

__all__ = [
    "Aligner",
    "Alignment",
    "CTCLoss",
    "CtcAlignError",
    "Emissions",
    "__version__",
    "align",
    "read_alignment",
]
if importlib.util.find_spec("torch") is None:  # `from ctc_align import *` takes what is there
    __all__.remove("CTCLoss")

_HOMES = {
    "Aligner": "ctc_align.alignment.aligner",
    "Alignment": "ctc_align.files",
    "CTCLoss": "ctc_align.losses",
    "CtcAlignError": "ctc_align.errors",
    "Emissions": "ctc_align.types",
    "align": "ctc_align.alignment.aligner",
    "read_alignment": "ctc_align.files",
}
_MODULES = ("functional", "losses")
"""Modules that are available as attributes without a separate import."""


def __getattr__(name: str) -> Any:
    if name in _HOMES:
        return getattr(importlib.import_module(_HOMES[name]), name)
    if name in _MODULES:
        return importlib.import_module(f"ctc_align.{name}")
    raise AttributeError(f"module 'ctc_align' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
