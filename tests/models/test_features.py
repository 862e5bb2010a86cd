"""Log-mel features: gain, silence, cuts and short sounds."""

from __future__ import annotations

import inspect
import json
import math
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from made_edges import untrained
from made_sounds import babble
from safetensors import safe_open
from safetensors.torch import save

from ctc_align.errors import ConfigError
from ctc_align.models import onnx_description
from ctc_align.models.confidence_network import FILE as CONFIDENCE_FILE
from ctc_align.models.confidence_network import (
    ConfidenceNetwork,
    FitLimits,
    load_confidence_network,
    save_confidence_network,
    weight_shapes,
)
from ctc_align.models.convnet import features
from ctc_align.models.convnet.features import HOP_SAMPLES, MELS, mel_filters
from ctc_align.models.convnet.gaussian_mixtures import level_range
from ctc_align.models.edge_network import (
    CHANNELS,
    FILE,
    FINE_MELS,
    FINE_SILENCE,
    POSITIONS,
    WINDOW,
    EdgeNetwork,
    EdgeNetworkShape,
    EdgeWindows,
    edge_network_bytes,
    fine_features,
    fine_frame_count,
    load_edge_network,
)
from ctc_align.models.onnx_description import KaldiFbank, NemoMel, normalisation
from ctc_align.training.edge_learning import TrainableEdgeNetwork
from ctc_align.types import Audio


def normalised(samples: np.ndarray) -> np.ndarray:
    frames = features.log_mel(samples, 0, features.frame_count(len(samples)))
    return features.normalise(frames, features.statistics_of(frames))


@pytest.mark.parametrize("gain", [0.01, 0.3, 3.0, 30.0])
def test_gain_does_not_matter(gain: float) -> None:
    sound = babble(3.0)
    np.testing.assert_allclose(normalised(sound * np.float32(gain)), normalised(sound), atol=1e-3)


def test_sixteen_bits_and_a_spectrum_that_is_not_flat_do_not_matter() -> None:
    quiet = np.round(babble(3.0, level=0.02) * 32768).astype(np.float32) / 32768
    far = np.abs(normalised(quiet) - normalised(babble(3.0, level=0.9)))
    assert far.mean() < 0.05
    # A wire that weakens each channel by its own constant leaves next to nothing behind.
    frames = features.log_mel(babble(3.0), 0, 300)
    coloured = frames + np.linspace(0.5, -0.5, MELS, dtype=np.float32)
    one = features.normalise(frames, features.statistics_of(frames))
    two = features.normalise(coloured, features.statistics_of(coloured))
    assert np.abs(one - two).mean() < 0.02


def test_what_is_above_the_band_of_a_telephone_says_nothing() -> None:
    sound = babble(3.0)
    whistle = (0.02 * np.sin(2 * np.pi * 3000 / 16000 * np.arange(len(sound)))).astype(np.float32)
    for wide in (sound, sound + whistle):
        assert features.statistics_of(features.log_mel(wide, 0, 300)).band == MELS
    spectrum = np.fft.rfft(sound)
    spectrum[3400 * 3 :] = 0  # a bin each third of a hertz
    heard = np.fft.irfft(spectrum)
    # The steps of few bits fill the band above with a noise that is louder where the sound is.
    coded = np.round(np.sign(heard) * np.log1p(255 * np.abs(heard)) * 23) / 23
    coded = (np.sign(coded) * np.expm1(np.abs(coded)) / 255).astype(np.float32)
    frames = features.log_mel(coded, 0, 300)
    statistics = features.statistics_of(frames)
    assert 43 <= statistics.band <= 46
    assert level_range(statistics) == 0.0
    assert not features.normalise(frames, statistics)[:, statistics.band :].any()


def test_silence_at_the_ends_leaves_the_speech_as_it_is() -> None:
    sound = babble(4.0)
    pad = np.zeros(160 * 25, np.float32)
    alone, padded = normalised(sound), normalised(np.concatenate((pad, sound, pad)))
    inside = padded[25 : 25 + len(alone)]
    # The frames at the seam reach 5 ms into their neighbours, and the recording's statistics move a
    # little.
    assert np.abs(inside[1:-1] - alone[1:-1]).mean() < 0.05
    np.testing.assert_allclose(padded[:24], padded[:1].repeat(24, 0), rtol=1e-5)
    assert padded[:24].mean() < padded[25:-25].mean() - 3.0


def test_silence_is_the_floor_and_clicks_are_no_speech() -> None:
    sound = np.concatenate((np.zeros(16000, np.float32), babble(2.0)))
    frames = features.log_mel(sound, 0, 300)
    statistics = features.statistics_of(frames)
    silent = features.normalise(frames, statistics)[:99]
    np.testing.assert_allclose(
        silent, np.tile(features.silence(statistics), (99, 1)), rtol=1e-5, atol=1e-5
    )
    sound = np.concatenate((np.zeros(16000 * 60, np.float32), babble(2.0, level=0.03)))
    clicked = sound.copy()
    clicked[8000 : 16000 * 60 : 32000] = 1.0
    one, two = (features.statistics_of(features.log_mel(s, 0, 6200)).loud for s in (sound, clicked))
    assert abs(two - one) < 0.4


@pytest.mark.parametrize(
    ("sample", "frames"), [(10 * HOP_SAMPLES + 70, [9, 10]), (10 * HOP_SAMPLES + 90, [10, 11])]
)
def test_a_frame_sees_half_a_hop_to_either_side(sample: int, frames: list[int]) -> None:
    sound = babble(0.2)
    changed = sound.copy()
    changed[sample] += 0.1
    differs = (features.log_mel(sound, 0, 20) != features.log_mel(changed, 0, 20)).any(1)
    assert differs.nonzero()[0].tolist() == frames


@pytest.mark.parametrize("samples", [1, 2, 159, 160, 161, 320, 399, 400])
def test_very_short_sounds_have_finite_frames(samples: int) -> None:
    sound = babble(0.1)[:samples] + np.float32(0.01)
    frames = normalised(sound)
    assert frames.shape == (-(-samples // HOP_SAMPLES), MELS)
    assert np.isfinite(frames).all()
    assert np.isfinite(normalised(np.zeros(samples, np.float32))).all(), "nothing but zeros"


@pytest.mark.parametrize("size", [1, 7, 100, 1000])
def test_statistics_in_pieces_are_those_of_the_whole(size: int) -> None:
    frames = features.log_mel(babble(5.0), 0, 500)
    whole = features.statistics_of(frames)
    pieces = features.gather_statistics(
        lambda: (frames[first : first + size] for first in range(0, len(frames), size))
    )
    assert pieces.loud == whole.loud
    np.testing.assert_allclose(pieces.mean, whole.mean, atol=1e-6)


def test_the_loud_level_and_the_frequency_of_each_mel_channel() -> None:
    frames = np.log(np.random.default_rng(1).uniform(0.1, 1.1, (200, MELS)).astype(np.float32))
    ranked = np.sort(features.level(frames))
    assert features.statistics_of(frames).loud == ranked[189]
    t = np.arange(16000) / 16000
    channels = [
        int(
            features.log_mel(np.sin(2 * np.pi * hertz * t).astype(np.float32), 20, 80)
            .mean(0)
            .argmax()
        )
        for hertz in (150.0, 500.0, 1000.0, 2000.0, 4000.0, 7000.0)
    ]
    assert channels == sorted(set(channels))
    assert channels[0] < 8
    assert channels[-1] > MELS - 6


def hiss(seconds: float, level: float) -> np.ndarray:
    return (np.random.default_rng(3).standard_normal(round(16000 * seconds)) * level).astype(
        np.float32
    )


@pytest.mark.parametrize("level", [0.0, 1e-5, 1e-4, 1e-3])
@pytest.mark.parametrize("seconds", [1.0, 4.0])
def test_rare_speech_looks_as_it_does_alone(seconds: float, level: float) -> None:
    """A second of speech in two minutes of silence, hum or hiss (down to 40 dB below it) is what
    counts."""
    sound = babble(seconds, level=0.3)
    rare = np.concatenate((hiss(60.0, level), sound, hiss(60.0, level)))
    inside = normalised(rare)[6000 : 6000 + round(seconds * 100)]
    apart = (inside - normalised(sound))[1:-1].mean()
    assert abs(apart) < 0.9, apart


def test_a_frame_does_not_depend_on_how_many_are_made_with_it() -> None:
    sound = babble(3.0)
    frames = features.log_mel(sound, 0, 300)
    for first, count in enumerate((*range(1, 60), 100, 230), 1):
        assert np.array_equal(
            features.log_mel(sound, first, first + count), frames[first : first + count]
        )


# Features compared with independent code: torchaudio's, transformers' formulas and its port of
# NeMo's.

RATE = 16000
LENGTHS = (16000, 16079, 16080, 16159, 401, 4567)
FBANKS = {
    "icefall": KaldiFbank(),
    "wenet": KaldiFbank(snip_edges=True, high_hz=0.0, gain=32768.0),
    "odd": KaldiFbank(
        bins=23, window="hamming", preemphasis=0.5, remove_dc=False, low_hz=64.0, high_hz=7000.0
    ),
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
        fft // 2 + 1,
        fbank.bins,
        fbank.low_hz,
        high_hz,
        RATE,
        None,
        "kaldi",
        triangularize_in_mel_space=True,
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
        assert found.shape == expected.shape == (fbank.layer(RATE).outputs(samples), fbank.bins), (
            samples
        )
        np.testing.assert_allclose(found, expected, atol=2e-3, err_msg=f"{samples} samples")
        assert np.abs(found - expected).mean() < 2e-5, samples


@pytest.mark.parametrize(
    "wrong",
    [
        {"preemphasis": 0.96},
        {"window": "hann"},
        {"high_hz": 0.0},
        {"low_hz": 0.0},
        {"remove_dc": False},
        {"gain": 1.1},
    ],
)
def test_a_filter_bank_that_is_another_is_told(wrong: dict[str, Any]) -> None:
    heard = sound(16000)
    found = replace(KaldiFbank(), **wrong).rows(heard, RATE)
    assert np.abs(found - by_numpy(KaldiFbank(), heard)).mean() > 2e-5


@pytest.mark.parametrize("bins", [64, 80, 128])
def test_mel_features_are_nemos(bins: int) -> None:
    """transformers has NeMo's preprocessor for Parakeet: the whole of it, normalisation and masks
    too."""
    parakeet = pytest.importorskip(
        "transformers.models.parakeet.feature_extraction_parakeet", reason="needs [hf]"
    )
    if "librosa.filters" in inspect.getsource(parakeet):
        pytest.importorskip(
            "librosa", reason="this version of transformers makes its filters with librosa"
        )
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
        np.testing.assert_allclose(
            (rows - mean) / deviation, expected, atol=3e-4, err_msg=f"{samples} samples"
        )


@pytest.mark.parametrize("scale", ["slaney", "htk"])
@pytest.mark.parametrize("ends", [(0.0, 0.0), (125.0, 7600.0)])
def test_filters_are_librosas_and_torchaudios(scale: str, ends: tuple[float, float]) -> None:
    utils = pytest.importorskip("transformers.audio_utils", reason="needs [hf]")
    low, high = ends
    expected = utils.mel_filter_bank(
        257,
        80,
        low,
        high or 8000.0,
        RATE,
        norm="slaney" if scale == "slaney" else None,
        mel_scale=scale,
    )
    found = mel_filters(80, 512, RATE, low, high or 8000.0, scale=scale)
    np.testing.assert_allclose(found, expected, atol=1e-6)


def test_a_tone_rises_where_the_formula_says() -> None:
    """By hand: Slaney's mel of 440 Hz is 440 · 3/200 = 6.6, and the loudest channel is the one
    around it."""
    tone = np.sin(2 * math.pi * 440.0 * np.arange(RATE) / RATE).astype(np.float32)
    rows = NemoMel().rows(tone, RATE)
    highest = 15.0 + math.log(8.0) / (math.log(6.4) / 27.0)
    assert int(rows[50].argmax()) == round(440.0 * 3 / 200 / (highest / 81)) - 1


@pytest.mark.torchaudio
def test_frames_of_gigaam_are_torchaudios() -> None:
    """Away from the ends, where torchaudio mirrors and NeMo has zeros."""
    transforms: Any = pytest.importorskip(
        "torchaudio.transforms", reason="needs torchaudio", exc_type=ImportError
    )
    heard = sound(RATE)
    spectrogram = transforms.MelSpectrogram(RATE, n_fft=400, hop_length=160, n_mels=64)(
        torch.from_numpy(heard)
    )
    features = NemoMel(
        64,
        fft=400,
        window="hann-periodic",
        preemphasis=0.0,
        scale="htk",
        guard="clamp",
        guard_value=1e-9,
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


# The edge network: its chances in any company, and its file.

LABELS = ("S", "AH")


def windows(count: int) -> EdgeWindows:
    rng = np.random.default_rng(count)
    values = rng.normal(size=(count, WINDOW, CHANNELS)).astype(np.float32)
    return EdgeWindows(values, *rng.integers(0, 6, (2, count)), rng.integers(0, 3, count))


@pytest.mark.parametrize("count", [1, 31, 33, 100])
def test_chances_are_the_same_alone_and_among_others(count: int) -> None:
    network, some = untrained(LABELS), windows(100)
    together = network.chances(some)
    assert together.shape == (100, POSITIONS)
    assert np.array_equal(network.chances(some.part(slice(0, count))), together[:count])
    for first in range(count % 40, 40):
        assert np.array_equal(network.chances(some.part(slice(first, 100))), together[first:]), (
            first
        )


@torch.no_grad()
def test_the_network_of_edges_is_that_of_torch() -> None:
    some, shape = windows(20), EdgeNetworkShape(LABELS, 12, 5)
    columns = [
        torch.from_numpy(column) for column in (some.values, some.left, some.right, some.role)
    ]
    trained = [TrainableEdgeNetwork(shape) for _ in range(2)]
    members = [
        EdgeNetwork(shape, {k: w.numpy() for k, w in each.state_dict().items()}) for each in trained
    ]
    each = [network(*columns) for network in trained]
    assert all(logits.std() > 0.1 for logits in each)
    together = EdgeNetwork.together(members)
    np.testing.assert_allclose(together.logits(some), torch.stack(each), atol=1e-5)
    expected = sum(logits.softmax(1) for logits in each) / 2
    np.testing.assert_allclose(together.chances(some), expected, atol=1e-6)


def test_networks_of_edges_and_of_confidence_come_back_from_their_files(tmp_path: Path) -> None:
    network = untrained(LABELS)
    network.spread = 1.25
    (tmp_path / FILE).write_bytes(edge_network_bytes(network))
    loaded = load_edge_network(tmp_path)
    assert (loaded.shape, loaded.spread) == (network.shape, 1.25)
    np.testing.assert_allclose(loaded.chances(windows(3)), network.chances(windows(3)), atol=1e-2)
    assert load_edge_network(tmp_path / "nowhere") is None
    network, features = made(), np.ones((4, 3), np.float32)
    assert load_confidence_network(tmp_path) is None
    save_confidence_network(network, tmp_path)
    loaded = load_confidence_network(tmp_path)
    assert (loaded.features, loaded.limits) == (network.features, LIMITS)
    np.testing.assert_allclose(loaded.chances(features), network.chances(features), atol=1e-3)
    (tmp_path / CONFIDENCE_FILE).write_bytes(b"no tensors")
    with pytest.raises(ConfigError, match="expected a confidence network"):
        load_confidence_network(tmp_path)


def changed(
    change: Callable[[dict[str, Any], dict[str, torch.Tensor]], object], path: Path
) -> bytes:
    """The file of a network with its description and weights changed."""
    path.write_bytes(edge_network_bytes(untrained(LABELS)))
    with safe_open(path, framework="pt") as file:
        about = json.loads(file.metadata()["ctc-align"])
        weights = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118 (no mapping)
    change(about, weights)
    return save(weights, {"ctc-align": json.dumps(about)})


HOSTILE: dict[str, Callable[[dict[str, Any], dict[str, torch.Tensor]], object]] = {
    "another format": lambda about, _: about.update(format="ctc-align-edges/9"),
    "more labels than weights": lambda about, _: about.update(labels=["S", "AH", "M"]),
    "a label twice": lambda about, _: about.update(labels=["S", "S"]),
    "labels that are no texts": lambda about, _: about.update(labels=["S", 1]),
    "a huge width": lambda about, _: about.update(width=10**9),
    "no spread": lambda about, _: about.update(spread=0.0),
    "NaN": lambda _, weights: weights["habit.weight"].fill_(float("nan")),
    "a weight missing": lambda _, weights: weights.pop("output.bias"),
}


@pytest.mark.parametrize("name", HOSTILE)
def test_another_file_is_refused(name: str, tmp_path: Path) -> None:
    (tmp_path / FILE).write_bytes(changed(HOSTILE[name], tmp_path / "whole"))
    with pytest.raises(ConfigError, match="expected an edge network"):
        load_edge_network(tmp_path)


@pytest.mark.parametrize("size", [0, 7, 100, 5000])
def test_a_file_that_was_cut_off_is_refused(size: int, tmp_path: Path) -> None:
    (tmp_path / FILE).write_bytes(edge_network_bytes(untrained(LABELS))[:size])
    with pytest.raises(ConfigError, match="expected an edge network"):
        load_edge_network(tmp_path)


# Fine log-mels: a frame is the same whatever is asked for beside it, and loudness makes no
# difference.


@pytest.fixture(scope="module")
def audio() -> Audio:
    return Audio(babble(14.0), 16000)


@pytest.mark.parametrize(("first", "last"), [(0, 1), (399, 402), (1500, 2100), (2799, 2800)])
def test_a_frame_is_the_same_whatever_others_are_asked_for(
    audio: Audio, first: int, last: int
) -> None:
    whole = fine_features(audio, 0, fine_frame_count(audio))
    assert np.array_equal(fine_features(audio, first, last), whole[first:last])


def test_fine_features_beyond_the_ends_and_of_softer_sound(audio: Audio) -> None:
    count = fine_frame_count(audio)
    around = fine_features(audio, -3, count + 2)
    assert around.shape == (count + 5, FINE_MELS)
    assert (around[:3] == FINE_SILENCE).all()
    assert (around[-2:] == FINE_SILENCE).all()
    assert (fine_features(audio, count + 5, count + 9) == FINE_SILENCE).all()
    softer = Audio((0.05 * audio.samples).astype(np.float32), audio.sample_rate)
    np.testing.assert_allclose(
        fine_features(softer, 0, 500), fine_features(audio, 0, 500), atol=2e-3
    )


# The confidence network of a model.

LIMITS = FitLimits(2.0, 3.0, 0.9, 0.6)


def made() -> ConfidenceNetwork:
    rng, names = np.random.default_rng(1), ("one", "two", "three")
    weights = {
        name: rng.normal(size=size).astype(np.float32) for name, size in weight_shapes(3, 8).items()
    }
    weights["deviation"][:] = 1.0
    return ConfidenceNetwork(names, 8, LIMITS, weights)
