"""Training: from a corpus to a model."""

from __future__ import annotations


class Watch:
    """A listener that a training run reports to; this one ignores everything, others override its methods."""

    def say(self, line: str) -> None:
        """Take a line that is worth keeping."""

    def progress(self, stage: str, share: float, line: str = "") -> None:
        """Take the share of `stage` that is done, in [0, 1], and a line of changing numbers."""
