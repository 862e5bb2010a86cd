"""A command line in this process, with the real aligner or a fake one in its place."""

from __future__ import annotations

import sys
import types
import wave
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any, ClassVar

import pytest

from ctc_align.types import AlignedToken, AlignedWord, Alignment, Transcript, Word, Words


class FakeAligner:
    """Spreads the words evenly over two seconds; `calls` holds what it was asked."""

    calls: ClassVar[list[dict[str, Any]]] = []
    raises: BaseException | None = None

    def __init__(self, **options: Any) -> None:
        self.options = options
        self.choice = types.SimpleNamespace(by_text=False, only=options["model"])
        self.model = types.SimpleNamespace(
            vocab=("<blank>", *"abcdefghijklmnopqrstuvwxyz'"), blank=0
        )

    def split(self, text: Transcript, name: str) -> Words:
        from ctc_align.text import require_words, words_of

        words = words_of(text.text, self.options["settings"])
        require_words(words, name)
        return replace(words, subtitles=text.subtitles, places=text.places)

    def align(
        self, audio: Any, text: str | Words, *, utterance: str, progress: Callable[[float], None]
    ) -> Alignment:
        words = self.split(Transcript(text), "text") if isinstance(text, str) else text
        text = words.text
        FakeAligner.calls.append(
            {**self.options, "audio": audio, "text": text, "utterance": utterance}
        )
        if FakeAligner.raises is not None:
            raise FakeAligner.raises
        progress(0.5)
        step_s = 2.0 / max(1, len(words.words))
        aligned = tuple(
            self._word(word, i * step_s, (i + 0.5) * step_s) for i, word in enumerate(words.words)
        )
        alignment = Alignment(
            utterance, str(audio), 2.0, "fake", "cpu", 0.01, 3.25, -3.5, text, aligned
        )
        letters = {"ß": text.count("ß")} if "ß" in text else {}
        alignment = replace(
            alignment, unknown=sum(letters.values()), unknown_letters=letters, loss_per_token=0.5
        )
        config = self.options["settings"].to_dict()
        return replace(alignment, config=config, subtitles=words.subtitles, places=words.places)

    def _word(self, word: Word, start_s: float, end_s: float) -> AlignedWord:
        place = (word.text, word.spoken, word.char_start, word.char_end)
        if not word.spoken:
            return AlignedWord(*place, "unspoken")
        token = AlignedToken(word.text[:1], start_s, end_s, 0.5)
        return AlignedWord(*place, "aligned", start_s, end_s, 0.75, (token,))


@pytest.fixture
def fake_aligner(monkeypatch) -> type[FakeAligner]:
    module = types.ModuleType("ctc_align.alignment.aligner")
    module.Aligner = FakeAligner  # type: ignore[attr-defined]
    module.split_transcript = FakeAligner.split  # type: ignore[attr-defined]
    module.find_choice = lambda aligner: aligner.choice  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "ctc_align.alignment.aligner", module)
    monkeypatch.setattr(FakeAligner, "calls", [])
    monkeypatch.setattr(FakeAligner, "raises", None)
    return FakeAligner


@pytest.fixture
def here(tmp_path, monkeypatch) -> Path:
    """The current directory: a recording and its transcript (the fake aligner does not listen)."""
    monkeypatch.chdir(tmp_path)
    with wave.open("talk.wav", "wb") as file:
        file.setparams((1, 2, 16000, 0, "NONE", ""))
        file.writeframes(bytes(3200))
    Path("talk.txt").write_text("Hello, big world!\n", "utf-8")
    return tmp_path
