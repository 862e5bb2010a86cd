"""Recordings of alignments, found again where either was moved."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import soundfile
from sample_alignments import make_alignment

from ctc_align.corpus.sources.named_recordings import find_recording
from ctc_align.errors import UsageError

MADE = make_alignment((), 1.0, audio="corpus/spk1/a.wav")


def put(*places: tuple[str, float]) -> None:
    for path, seconds in places:
        Path(path).parent.mkdir(parents=True, exist_ok=True)
        soundfile.write(path, np.zeros(int(seconds * 8000)), 8000)


@pytest.mark.parametrize(
    ("there", "given", "found"),
    [
        ([("corpus/spk1/a.wav", 1), ("out/a.wav", 1)], "", "corpus/spk1/a.wav"),
        ([("corpus/spk1/a.wav", 9), ("out/a.wav", 1)], "", "out/a.wav"),
        ([("corpus/spk1/a.wav", 9), ("out/a.wav", 0.5)], "", "corpus/spk1/a.wav"),
        ([("out/spk1/a.wav", 1), ("out/a.wav", 1)], "", "out/spk1/a.wav"),
        ([("new/spk1/a.wav", 1), ("new/a.wav", 1)], "new", "new/spk1/a.wav"),
        ([("new/spk1/a.wav", 2), ("new/a.wav", 1)], "new", "new/a.wav"),
        ([("corpus/spk1/a.wav", 1), ("new/talk.flac", 1)], "new", "new/talk.flac"),
        ([("new/b.wav", 9)], "new/b.wav", "new/b.wav"),
        (
            [("corpus/spk1/a.wav", 0.5), ("out/b.wav", 1)],
            "",
            "spk1/a.wav is another recording: it is 0.5 s",
        ),
        ([("new/b.wav", 1)], "new", "'corpus/spk1/a.wav' is not in new"),
    ],
)
def test_a_recording_is_that_of_the_longest_end_of_its_path_and_of_its_length(
    tmp_path, monkeypatch, there, given, found
) -> None:
    monkeypatch.chdir(tmp_path)
    put(*there)
    if " " not in found:
        assert find_recording(MADE, Path("out/talk.json"), given) == Path(found)
    else:
        with pytest.raises(UsageError, match=found):
            find_recording(MADE, Path("out/talk.json"), given)
