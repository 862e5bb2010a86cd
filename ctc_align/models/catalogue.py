"""Models by name: what is inside the package, and what can be had, with which extra, how large, under which licence."""

from __future__ import annotations

import importlib.util
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ctc_align.models import AcousticModel

INSIDE = "inside the package"
_BASE_MB, _LARGE_MB, _XLARGE_MB = 378, 1262, 3850
_MIT, _NC = "MIT", "CC-BY-NC 4.0"
_NEEDS = {"hf": "transformers", "torchaudio": "torchaudio", "onnx": "onnxruntime"}
"""The package that an extra brings."""


@dataclass(frozen=True)
class Row:
    """One line of the list: `name` is what --model takes, "…" and PATH stand for what is the user's own.

    `megabytes` is the download (10**6 bytes), None where it is not known before; `licence` "" likewise.
    """

    name: str
    about: str
    extra: str = ""
    megabytes: int | None = None
    licence: str = ""

    @property
    def state(self) -> str:
        """Where it is, or what it needs."""
        if not self.extra:
            return "yours" if self.megabytes is None else INSIDE
        if importlib.util.find_spec(_NEEDS[self.extra]) is None:
            return f"pip install 'ctc-align[{self.extra}]'"
        return "yours" if self.name == "onnx:…" else "downloaded when first used"


def rows() -> list[Row]:
    """All of them, the embedded model first."""
    english = Path(__file__).parent / "english" / "model.safetensors"
    size = round(english.stat().st_size / 1e6) if english.is_file() else 0
    return [
        Row("english", "American English, phones", megabytes=size, licence="MIT"),
        Row("PATH", "folder of a model that ctc-align train wrote"),
        *(_bundle(*line) for line in _BUNDLES),
        Row("hf:facebook/wav2vec2-base-960h", "English, letters", "hf", _BASE_MB, "Apache-2.0"),
        Row("hf:facebook/mms-1b-all", "1,162 languages, choose with --language", "hf", 3859, _NC),
        Row("hf:…", "ORG/NAME or ./FOLDER: any network of transformers with a CTC head", "hf"),
        Row("onnx:…", "FILE: a CTC network of NeMo, icefall, WeNet … in an ONNX file", "onnx"),
    ]


_BUNDLES = (
    ("WAV2VEC2_ASR_BASE_10M", "English, letters", _BASE_MB, _MIT),
    ("WAV2VEC2_ASR_BASE_100H", "English, letters", _BASE_MB, _MIT),
    ("WAV2VEC2_ASR_BASE_960H", "English, letters", _BASE_MB, _MIT),
    ("WAV2VEC2_ASR_LARGE_10M", "English, letters", _LARGE_MB, _MIT),
    ("WAV2VEC2_ASR_LARGE_100H", "English, letters", _LARGE_MB, _MIT),
    ("WAV2VEC2_ASR_LARGE_960H", "English, letters", _LARGE_MB, _MIT),
    ("WAV2VEC2_ASR_LARGE_LV60K_10M", "English, letters", _LARGE_MB, _MIT),
    ("WAV2VEC2_ASR_LARGE_LV60K_100H", "English, letters", _LARGE_MB, _MIT),
    ("WAV2VEC2_ASR_LARGE_LV60K_960H", "English, letters", _LARGE_MB, _MIT),
    ("HUBERT_ASR_LARGE", "English, letters", _LARGE_MB, _MIT),
    ("HUBERT_ASR_XLARGE", "English, letters", _XLARGE_MB, _MIT),
    ("VOXPOPULI_ASR_BASE_10K_DE", "German, letters", _BASE_MB, _NC),
    ("VOXPOPULI_ASR_BASE_10K_EN", "English, letters", _BASE_MB, _NC),
    ("VOXPOPULI_ASR_BASE_10K_ES", "Spanish, letters", _BASE_MB, _NC),
    ("VOXPOPULI_ASR_BASE_10K_FR", "French, letters", _BASE_MB, _NC),
    ("VOXPOPULI_ASR_BASE_10K_IT", "Italian, letters", _BASE_MB, _NC),
    ("MMS_FA", "1,130 languages, romanised, with a star for any speech", _LARGE_MB, _NC),
)
"""torchaudio's, with the licence that its own documentation states; sizes are those of their weights in float32."""


def receptive_field_s(model: AcousticModel) -> float:
    """What a model makes a frame of, in seconds; attention, where there is any, may see the whole utterance."""
    from ctc_align.models.convnet.features import WINDOW_SAMPLES
    from ctc_align.units import samples_to_seconds

    own = getattr(model, "receptive_field_s", None)
    if own is not None:
        return float(own)
    # our own: features of a window around each frame, and frames on either side of it
    return 2 * float(getattr(model, "context_s", 0.0)) + samples_to_seconds(WINDOW_SAMPLES, model.sample_rate)


def gaussians(model: AcousticModel) -> int:
    """How many each segmentation state of a model has; 0 where there are none, or where they count for nothing."""
    mixtures, description = getattr(model, "_mixtures", None), getattr(model, "description", None)
    counted = mixtures is not None and getattr(description, "mixture_weight", 0.0) > 0
    return mixtures.weights.shape[1] if mixtures is not None and counted else 0


def _bundle(name: str, about: str, megabytes: int, licence: str) -> Row:
    return Row(f"torchaudio:{name}", about, "torchaudio", megabytes, licence)
