"""How a training run is followed: lines to keep, and how far a stage is. This one says nothing."""

from __future__ import annotations


class Watch:
    """What a run tells; whoever wants to hear it overrides."""

    def say(self, line: str) -> None:
        """A line worth keeping."""

    def progress(self, stage: str, share: float, line: str = "") -> None:
        """How much of `stage` is done, in [0, 1], and figures that change as it goes."""
