"""The pairs of a corpus, as they are learnt from."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import soundfile

from ctc_align.corpus.sources import open_source
from ctc_align.training.corpus_data import read_pairs


def test_the_samples_that_a_transcript_begins_with_are_not_learnt(tmp_path: Path) -> None:
    """Where they fit the recording (TIMIT's texts); a recording that is not there is told later."""
    soundfile.write(tmp_path / "a.wav", np.zeros(16000), 16000)
    texts = {"a.wav": "0 16000 She had it.", "none.wav": "0 16000 She had it."}
    rows = [{"audio": name, "text": text} for name, text in texts.items()]
    for name, text in {"b": "0 70000 she had it.", "c": f"0 {'9' * 5000} she had it."}.items():
        rows.append({"audio": "a.wav", "text": text, "utterance": name})
    manifest = tmp_path / "manifest.jsonl"
    manifest.write_text("".join(json.dumps(row) + "\n" for row in rows), "utf-8")
    pairs = read_pairs([(open_source(str(manifest)), False)], "en")
    said = [" ".join(word.spoken for word in words.words if word.spoken) for words in pairs.words]
    assert [text.split()[0] for text in said] == ["she", "zero", "zero", "zero"]
