"""Recorded sentences of seventeen languages, through a model that knows Latin letters and whose weights are random."""

from __future__ import annotations

import json
import re
from importlib.util import find_spec
from pathlib import Path

import pytest
from made_models import tiny_folder
from rows import first_row_of
from word_checks import assert_sound

from ctc_align.alignment.aligner import Aligner
from ctc_align.config import Settings
from ctc_align.files import Alignment
from ctc_align.text.transcript import has_spaceless
from ctc_align.types import Words

pytestmark = [
    pytest.mark.data,
    pytest.mark.skipif(find_spec("uroman") is None, reason="needs the extra [romanize]"),
]

MMS = ("-", *"aienuotsrmkldghybpwcvjzf'qx")
LANGUAGES = ("ar", "de", "el", "es", "fa", "fr", "hi", "it", "ja", "ka", "pt", "ru", "ta", "th", "tr", "vi", "zh-CN")
SILENT = {"th": 0.1, "ja": 0.01}
"""Share of the words (single letters) that are not heard at most; 0 in the other languages."""


@pytest.fixture(scope="module")
def clips(speech_data: Path) -> dict[str, list[tuple[str, str]]]:
    """Twenty of each language: path and text."""
    found: dict[str, list[tuple[str, str]]] = {}
    for line in (speech_data / "languages" / "manifest.jsonl").read_text("utf-8").splitlines():
        clip = json.loads(line)
        if clip["source"].startswith("commonvoice"):
            audio = str(speech_data / "languages" / clip["audio"])
            found.setdefault(clip["language"], []).append((audio, clip["text"]))
    return found


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tiny_folder(tmp_path_factory.mktemp("latin"), MMS, parts=0)


def check(alignment: Alignment, text: str) -> None:
    """Every character that is no space is in one word, in order, at its place; words that are said have times."""
    assert_sound(Words(alignment.text, alignment.words), text)  # type: ignore[arg-type]
    before = 0.0
    for word in alignment.words:
        if word.status == "aligned":
            assert word.start_s is not None
            assert word.end_s is not None
            assert before <= word.start_s < word.end_s <= alignment.duration_s
            before = word.end_s
            assert {letter for token in word.tokens for letter in token.token} <= set(MMS)
        else:
            assert word.status == "unspoken"
    assert alignment.unknown == 0
    if not has_spaceless(text):
        assert len(alignment.words) == len(text.split()) + len(re.findall(r"\S[,.…]+(?=\w)", text))


@pytest.mark.parametrize("language", [*first_row_of(LANGUAGES[:8]), *first_row_of(LANGUAGES[8:])])
def test_twenty_clips_of_each(language: str, clips: dict[str, list[tuple[str, str]]], folder: Path) -> None:
    assert len(clips[language]) == 20
    aligner = Aligner(str(folder), settings=Settings(romanize=True, language=language))
    alignments = aligner.align_batch(clips[language], "return")
    silent, words = 0, 0
    for (audio, text), alignment in zip(clips[language], alignments):
        assert isinstance(alignment, Alignment), (audio, alignment)
        check(alignment, text)
        silent += sum(bool(word.spoken) and word.status == "unspoken" for word in alignment.words)
        words += len(alignment.words)
    assert silent <= SILENT.get(language, 0.0) * words


def test_a_checkpoint_of_transformers(tmp_path: Path, clips: dict[str, list[tuple[str, str]]]) -> None:
    made = pytest.importorskip("made_transformers", reason="needs the extra [hf]")
    vocab = ("<pad>", "<s>", "</s>", "<unk>", "|", *MMS[1:])
    made.checkpoint(tmp_path, "wav2vec2-layer", vocab=vocab)
    for language in ("fa", "hi", "th"):
        settings = Settings(romanize=True, language=language)
        aligner = Aligner(f"hf:{tmp_path}", settings=settings)
        for audio, text in clips[language][:3]:
            check(aligner.align(audio, text), text)
