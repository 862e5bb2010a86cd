"""The whole line from sound: rates, files, names and errors, with a tiny network."""

from __future__ import annotations

import itertools
import weakref
from pathlib import Path

import numpy as np
import pytest
import soundfile
from alignment_checks import check
from made_models import LETTERS, planted, spelt, tiny_folder
from made_sounds import babble

from ctc_align.alignment import align_utterance
from ctc_align.alignment.aligner import Aligner, align
from ctc_align.config import Settings
from ctc_align.errors import AudioError, CtcAlignError, TooShortError, UsageError
from ctc_align.types import AlignedWord


@pytest.fixture(scope="module")
def listener(tmp_path_factory: pytest.TempPathFactory) -> Aligner:
    return Aligner(str(tiny_folder(tmp_path_factory.mktemp("model"), LETTERS)), device="cpu")


@pytest.mark.parametrize("samples", [400, 801, 5000, 16001])
def test_sound_through_a_network(listener: Aligner, samples: int) -> None:
    alignment = listener.align((babble(2.0)[:samples], 16000), "a b")
    check(alignment)
    assert alignment.model == "tiny"
    assert alignment.duration_s == samples / 16000


@pytest.mark.parametrize("rate", [8000, 11025, 22050, 44100, 96000])
def test_any_rate_keeps_times_inside(listener: Aligner, rate: int) -> None:
    sound = np.interp(np.arange(rate * 2 // 3) / rate, np.arange(16000) / 16000, babble(1.0)).astype(np.float32)
    check(listener.align((sound, rate), "we call it bear"))


def test_a_file_and_its_samples_are_one(listener: Aligner, tmp_path: Path) -> None:
    import soundfile

    path = tmp_path / "talk.wav"
    soundfile.write(path, babble(1.0), 16000, subtype="FLOAT")
    one, two = listener.align(path, "we call it"), listener.align((babble(1.0), 16000), "we call it")
    assert one.words == two.words
    assert (one.utterance, one.audio) == ("talk", str(path))
    assert two.utterance == "utterance"
    assert listener.score(str(path), "we call it") == one.loss
    assert listener.align(listener.emissions(path), "we call it").words == one.words


def test_samples_are_let_go_once_they_are_heard(listener: Aligner, tmp_path: Path, monkeypatch) -> None:
    """Those of hours are most of the memory that an alignment would take."""
    soundfile.write(tmp_path / "a.wav", babble(2.0), 16000)
    loaded, left = [], []
    load, assess_fit = Aligner._load, align_utterance.assess_fit

    def watched(self: Aligner, audio: object) -> object:
        sound = load(self, audio)
        loaded.append(weakref.ref(sound))
        return sound

    def assessed(*arguments: object) -> object:
        left.extend(sound() for sound in loaded)
        return assess_fit(*arguments)

    monkeypatch.setattr(Aligner, "_load", watched)
    monkeypatch.setattr(align_utterance, "assess_fit", assessed)
    listener.align(tmp_path / "a.wav", "we call it")
    assert left == [None]


def test_the_short_way(tmp_path: Path) -> None:
    folder = str(tiny_folder(tmp_path, LETTERS))
    sound = (babble(1.0), 16000)
    assert align(sound, "ab", model=folder, device="cpu").words == Aligner(folder).align(sound, "ab").words


def test_emissions_of_another_model_are_not_called_by_this_ones_name(listener: Aligner) -> None:
    other = planted(spelt("ab"), ("_", *"abc"))
    assert listener.align(other, "ab").model == "log-probs"
    assert listener.align(planted(spelt("ab")), "ab").model == "tiny"


def test_errors_of_audio_name_it_once(listener: Aligner, tmp_path: Path) -> None:
    import soundfile

    path = tmp_path / "still.wav"
    soundfile.write(path, np.zeros(8000, np.float32), 16000)
    with pytest.raises(AudioError, match="silence only") as caught:
        listener.align(path, "hello")
    assert str(caught.value).count("still") == 1
    with pytest.raises(AudioError) as caught:
        listener.align(tmp_path / "absent.wav", "hello")
    assert str(caught.value).count("absent") == 1
    assert isinstance(caught.value, UsageError)
    for call in (listener.align, listener.score):
        with pytest.raises(AudioError, match=r"^utterance: samples in memory: the audio is silence only"):
            call((np.zeros(8000, np.float32), 16000), "hello")
    results = listener.align_batch([((np.full(8000, np.nan, np.float32), 16000), "hello")], on_error="return")
    assert isinstance(results[0], AudioError)
    assert str(results[0]).startswith("utterance-0: samples in memory: sample is nan")
    soundfile.write(path, babble(0.025, level=0.5), 16000)
    with pytest.raises(TooShortError, match=r"^u: .* at least 6 frames, the audio has 3"):
        listener.align(path, "hello", utterance="u")


@pytest.mark.parametrize("sound", [None, 3, babble(0.1), (babble(0.1),), ("talk.wav", 16000)])
def test_what_is_no_audio(listener: Aligner, sound: object) -> None:
    with pytest.raises(CtcAlignError, match=r"utterance: .*expected"):
        listener.align(sound, "hello")


def test_progress_is_told(listener: Aligner) -> None:
    shares: list[float] = []
    listener.align((babble(1.0), 16000), "ab", progress=shares.append)
    assert [shares[0], shares[1]] == [0.0, 0.05]
    assert shares[-1] == 1.0
    assert len(shares) > 3
    assert shares == sorted(shares)


def test_chunks_do_not_change_the_result(tmp_path: Path) -> None:
    folder = str(tiny_folder(tmp_path, LETTERS))
    results: list[tuple[AlignedWord, ...]] = [
        Aligner(folder, settings=Settings(chunk_s=chunk_s)).align((babble(3.0), 16000), "we call it bear").words
        for chunk_s in (0.3, 1.0, 60.0)
    ]
    for one, two in itertools.pairwise(results):
        assert [word.start_s for word in one] == [word.start_s for word in two]
