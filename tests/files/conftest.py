from __future__ import annotations

import pytest
from sample_alignments import talk_alignment

from ctc_align.types import Alignment


@pytest.fixture
def talk() -> Alignment:
    return talk_alignment()
