"""Training: from a corpus to a model."""

from __future__ import annotations


class Watch:
    """A listener to the progress of a training.

    This one ignores everything; subclasses override its methods.
    """

    def say(self, line: str) -> None:
        """Receive a line for the log."""

    def progress(self, stage: str, share: float, line: str = "") -> None:
        """Receive the finished share of `stage`, in [0, 1], and a line of changing numbers."""
