"""The whole line from sound: rates, files, names and errors, with a tiny network."""

from __future__ import annotations

import pickle
import sys
import types
import weakref
from dataclasses import replace
from pathlib import Path
from typing import Any

import gpu_interpreted
import numpy as np
import pytest
import soundfile
import torch
from made_models import LETTERS, planted, random_emissions, spelt, tiny_folder
from made_sounds import babble

from ctc_align.alignment import align_utterance
from ctc_align.alignment.aligner import Aligner, align
from ctc_align.config import Settings
from ctc_align.errors import AudioError, CtcAlignError, TooShortError, UsageError
from ctc_align.kernels.cpu import cpu_backend
from ctc_align.machine.rows_on_disk import RowsOnDisk, TensorOnDisk
from ctc_align.types import Emissions, get_log_probs


@pytest.fixture(scope="module")
def listener(tmp_path_factory: pytest.TempPathFactory) -> Aligner:
    return Aligner(str(tiny_folder(tmp_path_factory.mktemp("model"), LETTERS)), device="cpu")


def test_a_file_and_its_samples_are_one_and_progress_is_told(
    listener: Aligner, tmp_path: Path
) -> None:
    path = tmp_path / "talk.wav"
    soundfile.write(path, babble(1.0), 16000, subtype="FLOAT")
    one, two = (
        listener.align(path, "we call it"),
        listener.align((babble(1.0), 16000), "we call it"),
    )
    assert one.words == two.words
    assert (one.utterance, one.audio) == ("talk", str(path))
    assert two.utterance == "utterance"
    assert listener.score(str(path), "we call it") == one.loss
    assert listener.align(listener.emissions(path), "we call it").words == one.words
    shares: list[float] = []
    listener.align((babble(1.0), 16000), "ab", progress=shares.append)
    assert [shares[0], shares[1]] == [0.0, 0.05]
    assert shares[-1] == 1.0
    assert len(shares) > 3
    assert shares == sorted(shares)


def test_samples_are_let_go_once_they_are_heard(
    listener: Aligner, tmp_path: Path, monkeypatch
) -> None:
    """Those of hours are most of the memory that an alignment would take."""
    soundfile.write(tmp_path / "a.wav", babble(2.0), 16000)
    loaded, left = [], []
    load, assess_fit = Aligner._load, align_utterance.assess_fit

    def watched(self: Aligner, audio: object, language: str) -> object:
        sound = load(self, audio, language=language)
        loaded.append(weakref.ref(sound))
        return sound

    def assessed(*arguments: object) -> object:
        left.extend(sound() for sound in loaded)
        return assess_fit(*arguments)

    monkeypatch.setattr(Aligner, "_load", watched)
    monkeypatch.setattr(align_utterance, "assess_fit", assessed)
    listener.align(tmp_path / "a.wav", "we call it")
    assert left == [None]


def test_the_short_way_and_emissions_of_another_model(tmp_path: Path, listener: Aligner) -> None:
    folder = str(tiny_folder(tmp_path, LETTERS))
    sound = (babble(1.0), 16000)
    assert (
        align(sound, "ab", model=folder, device="cpu").words
        == Aligner(folder).align(sound, "ab").words
    )
    other = planted(spelt("ab"), ("_", *"abc"))
    assert listener.align(other, "ab").model == "log-probs"
    assert listener.align(planted(spelt("ab")), "ab").model == "tiny"


def test_errors_of_audio_name_it_once(listener: Aligner, tmp_path: Path) -> None:
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
        with pytest.raises(
            AudioError, match=r"^utterance: samples in memory: the audio is silence only"
        ):
            call((np.zeros(8000, np.float32), 16000), "hello")
    results = listener.align_batch(
        [((np.full(8000, np.nan, np.float32), 16000), "hello")], on_error="return"
    )
    assert isinstance(results[0], AudioError)
    assert str(results[0]).startswith("utterance-0: samples in memory: sample is nan")
    soundfile.write(path, babble(0.025, level=0.5), 16000)
    with pytest.raises(TooShortError, match=r"^u: .* at least 6 frames, the audio has 3"):
        listener.align(path, "hello", utterance="u")


@pytest.mark.parametrize("sound", [None, 3, babble(0.1), (babble(0.1),), ("talk.wav", 16000)])
def test_what_is_no_audio(listener: Aligner, sound: object) -> None:
    with pytest.raises(CtcAlignError, match=r"utterance: .*expected"):
        listener.align(sound, "hello")


# Emissions stay on their device, and the kernels run there: on a pretended GPU, and in Triton's
# interpreter.

TEXT = "cab abe"
CALIBRATION = (
    Path(__file__).resolve().parents[2] / "ctc_align" / "models" / "english" / "calibration.toml"
)


class OnDevice(torch.Tensor):
    """A tensor that says it is on a GPU."""

    @property
    def is_cuda(self) -> bool:
        return True


def fake_gpu() -> types.ModuleType:
    """A backend that takes tensors, and returns tensors, as that of GPUs does."""
    module = types.ModuleType("ctc_align.kernels.gpu.gpu_backend")
    module.unavailable = lambda: None  # type: ignore[attr-defined]

    def on_tensors(function: Any) -> Any:
        def call(*arguments: Any) -> Any:
            assert all(
                isinstance(argument, torch.Tensor) for argument in (arguments[0], arguments[2])
            )
            plain = [x.numpy() if isinstance(x, torch.Tensor) else x for x in arguments]
            results = function(*plain)
            each = results if isinstance(results, tuple) else (results,)
            tensors = tuple(None if x is None else torch.from_numpy(x) for x in each)
            return tensors if isinstance(results, tuple) else tensors[0]

        return call

    for name in ("best_path", "forward", "occupancy"):
        setattr(module, name, on_tensors(getattr(cpu_backend, name)))
    return module


def segmented_speech() -> Emissions:
    heard = planted(spelt(TEXT))
    return replace(heard, states=random_emissions(len(heard.log_probs), parts=3).states)


@pytest.mark.parametrize("unknown", ["skip", "wildcard"])
@pytest.mark.parametrize("segmented", [False, True])
def test_emissions_on_a_device_use_its_kernels(
    segmented: bool, unknown: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    here = segmented_speech() if segmented else planted(spelt(TEXT))
    text = TEXT if unknown == "skip" else "cжb abe"
    there = replace(
        here,
        log_probs=here.log_probs.as_subclass(OnDevice),
        states=None if here.states is None else here.states.as_subclass(OnDevice),
    )
    monkeypatch.setitem(sys.modules, "ctc_align.kernels.gpu.gpu_backend", fake_gpu())
    aligner = Aligner(model=None, settings=Settings(unknown=unknown, calibration=str(CALIBRATION)))
    result = aligner.align(there, text)
    assert result.backend == "gpu"
    assert replace(result, backend="cpu") == aligner.align(here, text)
    (scored,) = aligner.score_texts(there, [TEXT])
    assert scored.loss == aligner.score(here, TEXT)


def test_the_gpu_kernels_align(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    if reason := gpu_interpreted.missing():
        pytest.skip(f"the GPU's kernels cannot run here: {reason}")
    modules = gpu_interpreted.backend(tmp_path)
    monkeypatch.setattr(modules["gpu_backend"], "unavailable", lambda: None)
    monkeypatch.setitem(sys.modules, "ctc_align.kernels.gpu.gpu_backend", modules["gpu_backend"])
    emissions = segmented_speech()
    result = Aligner(model=None, backend="gpu").align(emissions, TEXT)
    expected = Aligner(model=None, backend="cpu").align(emissions, TEXT)
    assert result.to_dict()["backend"] == "gpu"
    assert result.loss == pytest.approx(expected.loss, rel=1e-5)
    assert [word.start_s for word in result.words] == pytest.approx(
        [word.start_s for word in expected.words], abs=1e-3
    )


# Parts of emissions: the frames of a stretch, with the times of the whole recording.


def emissions(frames: int = 10, duration_s: float | None = 0.095) -> Emissions:
    rows = torch.arange(frames * 3.0).reshape(frames, 3)
    return Emissions(
        rows, ("<b>", "a", "b"), 0.01, states=rows + 100, duration_s=duration_s, first_frame_s=0.0
    )


def test_a_part_has_the_frames_and_times_of_the_whole() -> None:
    whole = emissions()
    part = whole.part(3, 7)
    assert part.log_probs.data_ptr() == whole.log_probs[3:].data_ptr()
    assert part.states.tolist() == whole.states[3:7].tolist()  # type: ignore[index]
    assert (part.first_frame_s, part.duration_s) == (0.03, 0.07)
    again = part.part(1, 2)
    assert again.log_probs.tolist() == whole.log_probs[4:5].tolist()
    assert (again.first_frame_s, again.duration_s) == (0.04, 0.05)


@pytest.mark.parametrize(("duration_s", "end_s"), [(0.095, 0.095), (None, 0.1)])
def test_the_last_part_ends_with_the_audio(duration_s: float | None, end_s: float) -> None:
    whole = emissions(duration_s=duration_s)
    assert whole.part(9, 10).duration_s == end_s
    assert whole.part(0, 10) is whole


def test_arrays_and_tensors_are_one_memory_and_survive_replacing_and_pickling() -> None:
    rows = np.log(np.full((4, 3), 1 / 3, np.float32))
    made = Emissions(rows, ("<b>", "a", "b"), 0.01)  # type: ignore[arg-type]
    assert made.array is rows
    assert made.log_probs is made.log_probs
    assert np.shares_memory(made.log_probs.numpy(), rows)
    half = replace(made, log_probs=made.log_probs.half(), states=torch.zeros(4, 5))
    assert (half.log_probs.dtype, half.array.dtype) == (torch.float16, np.float32)
    assert np.shape(half.state_array) == (4, 5)
    for each in (made, half):
        again = pickle.loads(pickle.dumps(each))
        assert torch.equal(again.log_probs, each.log_probs)
        assert (again.vocab, type(get_log_probs(again))) == (each.vocab, type(get_log_probs(each)))
    stored = RowsOnDisk((5,))
    stored.append(np.arange(20, dtype=np.float32).reshape(4, 5))
    on_disk = replace(made, states=TensorOnDisk(stored))
    assert isinstance(on_disk.state_array[1:2], np.ndarray)  # type: ignore[index]
    assert torch.equal(on_disk.states[1:2], torch.from_numpy(stored[1:2]))  # type: ignore[index]
    assert on_disk.part(1, 3).states[:].shape == (2, 5)  # type: ignore[index]
