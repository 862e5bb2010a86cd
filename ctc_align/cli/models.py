"""ctc-align models: what --model takes."""

from __future__ import annotations


def models() -> None:
    """List the models that --model takes by name."""
    from ctc_align.models import EMBEDDED

    for name in EMBEDDED:
        print(f"{name}\tinside the package")
    print("PATH\tthe folder of a trained model")
