"""Features compared with independent code: torchaudio's, transformers' formulas and its port of NeMo's."""

from __future__ import annotations

import inspect
import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from made_sounds import babble

from ctc_align.models import onnx_description
from ctc_align.models.convnet.features import mel_filters
from ctc_align.models.onnx_description import KaldiFbank, NemoMel, normalisation

RATE = 16000
LENGTHS = (16000, 16079, 16080, 16159, 401, 4567)
FBANKS = {
    "icefall": KaldiFbank(),
    "wenet": KaldiFbank(snip_edges=True, high_hz=0.0, gain=32768.0),
    "odd": KaldiFbank(bins=23, window="hamming", preemphasis=0.5, remove_dc=False, low_hz=64.0, high_hz=7000.0),
    "hann": KaldiFbank(bins=40, window="hann", hop_s=0.0125, window_s=0.032),
}


def sound(samples: int, seed: int = 0) -> np.ndarray:
    """Babble on top of a constant, so that its removal shows."""
    return babble(samples / RATE + 0.01, seed)[:samples] + np.float32(0.05)


def by_numpy(fbank: KaldiFbank, samples: np.ndarray) -> np.ndarray:
    """The formulas in numpy, as transformers has them for its own models of Kaldi's features."""
    pytest.importorskip("kaldi_native_fbank", reason="needs the extra [onnx]")
    utils = pytest.importorskip("transformers.audio_utils", reason="needs [hf]")
    layer = fbank.layer(RATE)
    fft = 1 << (layer.kernel - 1).bit_length()
    high_hz = fbank.high_hz if fbank.high_hz > 0 else RATE / 2 + fbank.high_hz
    filters = utils.mel_filter_bank(
        fft // 2 + 1, fbank.bins, fbank.low_hz, high_hz, RATE, None, "kaldi", triangularize_in_mel_space=True
    )
    padding = (0, 0) if fbank.snip_edges else (layer.padding, max(0, layer.end_padding or 0))
    return utils.spectrogram(
        np.pad(samples * np.float32(fbank.gain), padding, mode="symmetric"),
        utils.window_function(layer.kernel, fbank.window, periodic=False),
        layer.kernel,
        layer.stride,
        fft,
        power=2.0,
        center=False,
        preemphasis=fbank.preemphasis,
        mel_filters=filters,
        log_mel="log",
        mel_floor=fbank.floor,
        remove_dc_offset=fbank.remove_dc,
    ).T


@pytest.mark.parametrize("kind", FBANKS)
def test_the_filter_bank_is_kaldis(kind: str) -> None:
    fbank = FBANKS[kind]
    for samples in LENGTHS:
        if samples < 600 and kind == "hann":
            continue  # shorter than a window
        heard = sound(samples)
        expected, found = by_numpy(fbank, heard), fbank.rows(heard, RATE)
        assert found.shape == expected.shape == (fbank.layer(RATE).outputs(samples), fbank.bins), samples
        np.testing.assert_allclose(found, expected, atol=2e-3, err_msg=f"{samples} samples")
        assert np.abs(found - expected).mean() < 2e-5, samples


@pytest.mark.parametrize(
    "wrong",
    [{"preemphasis": 0.96}, {"window": "hann"}, {"high_hz": 0.0}, {"low_hz": 0.0}, {"remove_dc": False}, {"gain": 1.1}],
)
def test_a_filter_bank_that_is_another_is_told(wrong: dict[str, Any]) -> None:
    heard = sound(16000)
    found = replace(KaldiFbank(), **wrong).rows(heard, RATE)
    assert np.abs(found - by_numpy(KaldiFbank(), heard)).mean() > 2e-5


@pytest.mark.parametrize("bins", [64, 80, 128])
def test_mel_features_are_nemos(bins: int) -> None:
    """transformers has NeMo's preprocessor for Parakeet: the whole of it, normalisation and masks too."""
    parakeet = pytest.importorskip("transformers.models.parakeet.feature_extraction_parakeet", reason="needs [hf]")
    if "librosa.filters" in inspect.getsource(parakeet):
        pytest.importorskip("librosa", reason="this version of transformers makes its filters with librosa")
    extractor = parakeet.ParakeetFeatureExtractor(feature_size=bins)
    features = NemoMel(bins=bins)
    for samples in LENGTHS:
        heard = sound(samples)
        made = extractor(heard, sampling_rate=RATE, return_tensors="np")
        count = int(made["attention_mask"].sum())
        expected = made["input_features"][0, :count]
        rows = features.rows(heard, RATE)
        mean, deviation = normalisation(rows, features.normalise)
        assert rows.shape == (count, bins) == (samples // 160, bins), samples
        np.testing.assert_allclose((rows - mean) / deviation, expected, atol=3e-4, err_msg=f"{samples} samples")


@pytest.mark.parametrize("scale", ["slaney", "htk"])
@pytest.mark.parametrize("ends", [(0.0, 0.0), (125.0, 7600.0)])
def test_filters_are_librosas_and_torchaudios(scale: str, ends: tuple[float, float]) -> None:
    utils = pytest.importorskip("transformers.audio_utils", reason="needs [hf]")
    low, high = ends
    expected = utils.mel_filter_bank(
        257, 80, low, high or 8000.0, RATE, norm="slaney" if scale == "slaney" else None, mel_scale=scale
    )
    found = mel_filters(80, 512, RATE, low, high or 8000.0, scale=scale)
    np.testing.assert_allclose(found, expected, atol=1e-6)


def test_a_tone_rises_where_the_formula_says() -> None:
    """By hand: Slaney's mel of 440 Hz is 440 · 3/200 = 6.6, and the loudest channel is the one around it."""
    tone = np.sin(2 * math.pi * 440.0 * np.arange(RATE) / RATE).astype(np.float32)
    rows = NemoMel().rows(tone, RATE)
    highest = 15.0 + math.log(8.0) / (math.log(6.4) / 27.0)
    assert int(rows[50].argmax()) == round(440.0 * 3 / 200 / (highest / 81)) - 1


@pytest.mark.torchaudio
def test_frames_of_gigaam_are_torchaudios() -> None:
    """Away from the ends, where torchaudio mirrors and NeMo has zeros."""
    transforms: Any = pytest.importorskip("torchaudio.transforms", reason="needs torchaudio", exc_type=ImportError)
    heard = sound(RATE)
    spectrogram = transforms.MelSpectrogram(RATE, n_fft=400, hop_length=160, n_mels=64)(torch.from_numpy(heard))
    features = NemoMel(
        64, fft=400, window="hann-periodic", preemphasis=0.0, scale="htk", guard="clamp", guard_value=1e-9
    )
    expected = spectrogram.clamp(1e-9, 1e9).log().T.numpy()
    np.testing.assert_allclose(features.rows(heard, RATE)[3:-3], expected[3:97], atol=2e-3)


@pytest.mark.parametrize("features", [NemoMel(), KaldiFbank(), KaldiFbank(snip_edges=True)])
def test_blocks_are_one_piece(features: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    heard = sound(20000)
    whole = features.rows(heard, RATE)
    monkeypatch.setattr(onnx_description, "_BLOCK_FRAMES", 7)
    np.testing.assert_allclose(features.rows(heard, RATE), whole, atol=1e-5)


@pytest.mark.parametrize("kind", ["per_feature", "all_features"])
def test_normalised_features_have_mean_0_and_variance_1(kind: str) -> None:
    rows = NemoMel().rows(sound(16000), RATE)
    mean, deviation = normalisation(rows, kind)
    axis = 0 if kind == "per_feature" else None
    normal = (rows - mean) / deviation
    np.testing.assert_allclose(normal.mean(axis), 0.0, atol=1e-4)
    # the guard that NeMo adds to the deviation keeps a channel that hardly moves below 1
    np.testing.assert_allclose(normal.std(axis, ddof=1), 1.0, atol=1e-3)
    assert normalisation(rows, "none") == (None, 1.0)
    assert np.isfinite(normalisation(rows[:1], kind)[1]).all()
