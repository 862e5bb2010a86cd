"""Parts of emissions: the frames of a stretch, with the times of the whole recording."""

from __future__ import annotations

import pytest
import torch

from ctc_align.types import Emissions


def emissions(frames: int = 10, duration_s: float | None = 0.095) -> Emissions:
    rows = torch.arange(frames * 3.0).reshape(frames, 3)
    return Emissions(rows, ("<b>", "a", "b"), 0.01, states=rows + 100, duration_s=duration_s, first_frame_s=0.0)


def test_a_part_has_the_frames_and_times_of_the_whole() -> None:
    whole = emissions()
    part = whole.part(3, 7)
    assert part.log_probs.data_ptr() == whole.log_probs[3:].data_ptr()
    assert part.states is not None
    assert part.states.tolist() == whole.states[3:7].tolist()  # type: ignore[index]
    assert (part.first_frame_s, part.duration_s) == (0.03, 0.07)
    again = part.part(1, 2)
    assert (again.log_probs.tolist(), again.first_frame_s, again.duration_s) == (
        whole.log_probs[4:5].tolist(),
        0.04,
        0.05,
    )


@pytest.mark.parametrize(("duration_s", "end_s"), [(0.095, 0.095), (None, 0.1)])
def test_the_last_part_ends_with_the_audio(duration_s: float | None, end_s: float) -> None:
    whole = emissions(duration_s=duration_s)
    assert whole.part(9, 10).duration_s == end_s
    assert whole.part(0, 10) is whole
