"""Words of the demo recording in every kind of media file, against those in the WAV: length and word times.

python tests/benchmarks/media_kinds.py

Prints for each kind: how much longer it is than the WAV, the delay of its coder that nothing in the file takes back
(every player plays it), how far the sound lies from where it is in the WAV after that delay, and the median and the
largest difference of word edges from those of the WAV at the same rate, after that delay too.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

import numpy as np

from measuring import ROOT  # isort: skip

sys.path.insert(0, str(ROOT / "tests" / "audio"))

from made_media import write_media
from test_media_file import DEMO, KINDS, at_rate, lags_s, word_edges

from ctc_align import Aligner
from ctc_align.audio.loading import load_audio


def main() -> None:
    """Print the table."""
    aligner, sound = Aligner(device="cpu"), load_audio(DEMO).samples
    wanted: dict[int, np.ndarray] = {}
    print("| kind | rate | channels | length − WAV, ms | coder's delay, ms | sound, ms | words, median, ms | largest |")
    print("|---|---|---|---|---|---|---|---|")
    with tempfile.TemporaryDirectory() as folder:
        for name, coding, rate, channels, delay in KINDS:
            path = write_media(Path(folder, name), [(0.0, at_rate(sound, rate, channels))], rate, coding)
            audio = load_audio(path)
            lag_s = max((lag - delay / rate for lag in lags_s(audio.samples, sound)), key=abs)
            if rate not in wanted:
                wanted[rate] = word_edges(aligner, (at_rate(sound, rate), rate))
            off_ms = np.abs(word_edges(aligner, path) - delay / rate - wanted[rate]) * 1000
            length_ms = 1000 * (audio.duration_s - len(sound) / 16000)
            row = (f"{name} ({coding.codec})", rate, channels, f"{length_ms:+.1f}", f"{1000 * delay / rate:.1f}")
            row = (*row, f"{1000 * lag_s:+.1f}", f"{np.median(off_ms):.1f}", f"{off_ms.max():.1f}")
            print("|", " | ".join(map(str, row)), "|", flush=True)


if __name__ == "__main__":
    main()
