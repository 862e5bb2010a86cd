"""Fingerprints of results, 64 bits of all that they depend on: an utterance whose fingerprint changed is done again."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from ctc_align.corpus.utterance import Utterance
from ctc_align.models.log_probs import Reader, file_of
from ctc_align.reading import content_hash

_PLACES = ("calibration", "cache_dir")
"""Settings that are paths; the content of the files counts."""


def run_fingerprint(
    model: str | None,
    lexicon: str | None,
    settings: Mapping[str, Any],
    formats: Sequence[str],
    others: Sequence[str] = (),
) -> str:
    """Return the fingerprint of a run: model and lexicon by their content, settings, kinds of outputs.

    `others` are further choices that change outputs (layout, manifests …), as texts.
    """
    calibration = settings.get("calibration")
    parts = {
        "model": "" if model is None else model_identity(model),
        "lexicon": _content(Path(lexicon)) if lexicon else "",
        "calibration": _calibration_content(Path(calibration)) if calibration else "",
        "settings": {name: value for name, value in settings.items() if name not in _PLACES},
        "formats": sorted(formats),
        "others": list(others),
    }
    return hashlib.blake2b(json.dumps(parts, sort_keys=True).encode(), digest_size=16).hexdigest()


def log_probs_identity(reader: Reader) -> tuple[str, ...]:
    """Return how log-probs are read, with the vocabulary by its content."""
    return _content(Path(reader.vocab_path)), repr(reader.frame_shift_s), repr(reader.blank)


def model_identity(model: str) -> str:
    """Return a model by the content of its files, by its name where they are elsewhere.

    >>> model_identity("hf:org/name")
    'hf:org/name'
    """
    from ctc_align.models import EMBEDDED, FOLDER_FILES, embedded_folder
    from ctc_align.models.calibration import FILE as CALIBRATION
    from ctc_align.models.edge_network import FILE as EDGES

    folder = embedded_folder(model) if model in EMBEDDED else Path(model.partition(":")[2] or model)
    if folder.is_file():
        # an ONNX file is described by files in its folder
        descriptions = [folder.with_suffix(".toml"), folder.parent / "tokens.txt"] if model.startswith("onnx:") else []
        descriptions += [folder.parent / CALIBRATION, folder.parent / EDGES]
        return " ".join(_content(path) for path in [folder, *filter(Path.is_file, descriptions)])
    files = [folder / name for name in (*FOLDER_FILES, CALIBRATION, EDGES) if (folder / name).is_file()]
    if not files and folder.is_dir():
        files = sorted(path for path in folder.iterdir() if path.is_file())
    return " ".join(_content(path) for path in files) or model


def _calibration_content(place: Path) -> str:
    """Return the content of a calibration: of its file, or of the files in its folder."""
    from ctc_align.models.calibration import file_in
    from ctc_align.models.edge_network import FILE as EDGES

    edges = place / EDGES
    return " ".join(_content(path) for path in (file_in(place), *([edges] if edges.is_file() else [])))


def _content(path: Path) -> str:
    try:
        return content_hash(path, 16)
    except OSError:  # reported when it is opened
        return str(path)


class Fingerprints:
    """Fingerprints of the utterances of one run; the status of the last audio file is cached."""

    def __init__(self, run: str) -> None:
        self._run = run
        self._audio: tuple[str, str] = ("", "")

    def of(self, utterance: Utterance, group: str | None = None) -> int:
        """Return a hash of the audio's size and time of change, its part, its transcript and the run's fingerprint.

        `group` is the assembled file that the utterance goes into, where there is one.
        """
        if self._audio[0] != utterance.audio:
            self._audio = (utterance.audio, _state(file_of(utterance.audio)))
        part = (utterance.offset_s, utterance.duration_s, utterance.channel, utterance.text, utterance.texts)
        names = (os.path.basename(utterance.audio), utterance.output, utterance.speaker, utterance.recording, group)
        text = repr((self._run, self._audio[1], part, names)) + ("" if utterance.book is None else " a part")
        text += f" in {utterance.language}" if utterance.language else ""
        text += f" {utterance.file}" if utterance.file else ""
        digest = hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=8).digest()
        return int.from_bytes(digest, "little")


def _state(path: str) -> str:
    try:
        status = os.stat(path)
        return f"{status.st_size} {status.st_mtime_ns}"
    except (OSError, ValueError):
        return "missing"
