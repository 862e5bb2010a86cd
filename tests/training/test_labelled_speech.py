"""Hand labels in folders."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import soundfile
from sample_alignments import aligned, make_alignment

from ctc_align.training.labelled_speech import read_labelled


def test_of_the_downloads_of_a_page_the_last_is_a_label(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    soundfile.write(tmp_path / "talk.wav", np.zeros(16000), 16000)
    word = replace(aligned("Hello", 0.1, 0.4), by="hand")
    for number, name in enumerate(("talk.json", "talk.corrected.json", "talk.corrected (1).json")):
        moved = replace(word, end_s=0.4 + number / 10)
        make_alignment((moved,), audio="").save(tmp_path / name)
        os.utime(tmp_path / name, (number, number))
    make_alignment((word,), audio="", duration_s=9.0).save(tmp_path / "talk.hand.json")
    os.utime(tmp_path / "talk.hand.json", (0, 0))
    (labelled,) = read_labelled(tmp_path)
    assert "talk.hand.json is ignored: it belongs to another text or recording than talk.corrected (1)" in caplog.text
    assert (labelled.name, labelled.audio, labelled.words[0].end_s) == ("talk", tmp_path / "talk.wav", 0.6)
