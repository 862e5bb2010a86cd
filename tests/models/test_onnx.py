"""ONNX files by flag: log-probs as onnxruntime's own, frames where impulses say, batches, faults in
one line."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from document_blocks import blocks
from made_onnx import KINDS, LETTERS, METADATA, Made, write, write_tokens
from made_sounds import babble

from ctc_align.config import Settings
from ctc_align.errors import AudioError, BackendError, ConfigError, EmissionsError, UsageError
from ctc_align.kernels.log_space import log_softmax
from ctc_align.models import load_model
from ctc_align.models.acoustic_model import Device
from ctc_align.models.onnx_description import KaldiFbank, NemoMel, from_metadata, normalisation
from ctc_align.models.onnx_model import OnnxModel
from ctc_align.types import Audio

ROOT = Path(__file__).resolve().parents[2]
RATE = 16000
TOML = {"waveform": 'features = "waveform"\nframe_shift_s = 0.02\n'}
NEMO = 'features = "nemo-mel"\nframe_shift_s = 0.04\n'


def checkpoint(
    folder: Path, made: Made, metadata: dict[str, str] | None = None, toml: str = ""
) -> str:
    file = write(folder / "model.onnx", made, metadata)
    write_tokens(folder / "tokens.txt")
    if toml:
        (folder / "model.toml").write_text(toml, encoding="utf-8")
    return f"onnx:{file}"


def loaded(folder: Path, kind: str, **settings: Any) -> OnnxModel:
    name = checkpoint(folder, KINDS[kind], METADATA.get(kind), TOML.get(kind, ""))
    return load_model(name, device="cpu", settings=Settings(**settings))


def audio(seconds: float, seed: int = 0) -> Audio:
    return Audio(babble(seconds, seed), RATE)


def by_hand(folder: Path, kind: str, heard: Audio) -> np.ndarray:
    """onnxruntime alone, with features made by the formulas that the metadata stand for."""
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1  # sums of another number of threads round differently
    session = onnxruntime.InferenceSession(str(folder / "model.onnx"), options)
    samples = heard.samples
    if kind == "waveform":
        return session.run(None, {"x": samples[None]})[0][0]
    if kind == "nemo":
        rows = NemoMel().rows(samples, RATE)
        mean, deviation = normalisation(rows, "per_feature")
        features = ((rows - mean) / deviation).astype(np.float32).T[None]
        return session.run(
            None, {"audio_signal": features, "length": np.array([features.shape[2]])}
        )[0][0]
    fbank = (
        KaldiFbank()
        if kind == "icefall"
        else KaldiFbank(snip_edges=True, high_hz=0.0, gain=32768.0)
    )
    features = fbank.rows(samples, RATE)[None]
    return session.run(None, {"x": features, "x_lens": np.array([features.shape[1]])})[0][0]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("samples", [16000, 17777, 40123])
def test_log_probs_are_onnxruntimes(kind: str, samples: int, tmp_path: Path) -> None:
    model = loaded(tmp_path, kind)
    heard = Audio(babble(3.0)[:samples], RATE)
    found = model.emissions(heard)
    # the network's own log-probs, normalised again as ours are: float32 leaves them 1e-5 from a
    # distribution
    expected = log_softmax(by_hand(tmp_path, kind, heard))
    assert found.array.shape == expected.shape == (model.grid.frames(samples), len(LETTERS))
    np.testing.assert_allclose(found.array, expected, atol=1e-5)
    assert (found.vocab, found.blank) == (LETTERS, 0)
    assert found.frame_shift_s == {"waveform": 0.02}.get(kind, 0.04)


@pytest.mark.parametrize("kind", KINDS)
def test_an_impulse_is_heard_when_it_is(kind: str, tmp_path: Path) -> None:
    """The middle of what moves, by its weight, is where the impulse was: on average within a
    quarter of a frame."""
    model = loaded(tmp_path, kind)
    assert abs(mean_delay_s(model)) < model.frame_shift_s / 4


def test_a_frame_late_is_told(tmp_path: Path) -> None:
    model = loaded(tmp_path, "icefall")
    model.first_frame_s += model.frame_shift_s
    assert abs(mean_delay_s(model)) > model.frame_shift_s / 2


def mean_delay_s(model: OnnxModel) -> float:
    background = 0.01 * babble(2.0)
    calm = model.emissions(Audio(background, RATE)).array
    delays = []
    for place in range(8000, 24000, 331):
        struck = background.copy()
        struck[place] += 0.5
        moved = np.square(model.emissions(Audio(struck, RATE)).array - calm).sum(1)
        # normalised features move a little everywhere
        moved = np.where(moved > 0.1 * moved.max(), moved, 0.0)
        frame = float((moved * np.arange(len(moved))).sum() / moved.sum())
        delays.append(
            model.first_frame_s + (frame + 0.5) * model.frame_shift_s - (place + 0.5) / RATE
        )
    return float(np.mean(delays))


LAYERS = [
    ((3, 2, 1, 1), (3, 2, 1, 1), (3, 2, 1, 1)),
    ((5, 1, 0, 0), (3, 2, 0, 0), (4, 2, 1, 1)),
    ((11, 2, 5, 5), (1, 2, 0, 0)),
    ((9, 4, 0, 0),),
    ((4, 4, 3, 3),),
]


@pytest.mark.parametrize("layers", LAYERS)
def test_what_is_measured_is_what_is_described(layers: Any, tmp_path: Path) -> None:
    """The same counts and the same first centre, whether the TOML file has the layers or nobody
    knows them."""
    shift = 0.01 * np.prod([layer[1] for layer in layers])
    made = replace(KINDS["nemo"], layers=layers)
    toml = f'features = "nemo-mel"\nframe_shift_s = {shift}\n'
    measured = load_model(checkpoint(tmp_path / "a", made, toml=toml), device="cpu")
    told = f"layers = {[list(layer) for layer in layers]}\n"
    described = load_model(checkpoint(tmp_path / "b", made, toml=toml + told), device="cpu")
    assert measured.grid.layers != described.grid.layers or len(layers) == 1
    assert measured.first_frame_s == pytest.approx(described.first_frame_s, abs=1e-9)
    for samples in range(16000, 16000 + 2 * measured.grid.stride, 97):
        assert measured.grid.frames(samples) == described.grid.frames(samples)


def test_first_frames_half_precision_and_separators(tmp_path: Path) -> None:
    name = checkpoint(tmp_path, KINDS["nemo"], METADATA["nemo"], "first_frame_s = -0.1\n")
    assert load_model(name, device="cpu").emissions(audio(1.0)).first_frame_s == -0.1
    found = load_model(
        checkpoint(tmp_path / "half", replace(KINDS["nemo"], half=True), METADATA["nemo"]),
        device="cpu",
    )
    expected = loaded(tmp_path / "plain", "nemo").emissions(audio(1.0))
    np.testing.assert_allclose(found.emissions(audio(1.0)).array, expected.array, atol=0.05)
    name = checkpoint(
        tmp_path, KINDS["nemo"], METADATA["nemo"], 'word_separator = "_"\nblank = "#"\n'
    )
    write_tokens(tmp_path / "tokens.txt", ("#", "_", *LETTERS[2:]))
    model = load_model(name, device="cpu")
    assert (model.vocab[1], model.blank) == ("|", 0)


@pytest.mark.parametrize("kind", KINDS)
def test_a_batch_is_its_utterances(kind: str, tmp_path: Path) -> None:
    model = loaded(tmp_path, kind)
    audios = [audio(seconds, seed) for seed, seconds in enumerate((1.0, 2.31, 1.0, 0.7, 1.57))]
    for found, heard in zip(model.emissions_batch(audios), audios):
        alone = model.emissions(heard).array
        assert found.array.shape == alone.shape
        assert float(np.abs(found.array - alone).max()) < 1e-4


def test_what_is_padded_is_found_out(tmp_path: Path) -> None:
    """Masks: all lengths at once. None: those of one length. Made for one: one by one."""
    made = KINDS["nemo"]
    ways = {"a": made, "b": replace(made, masks=False), "c": replace(made, batch=1)}
    models = {
        key: load_model(checkpoint(tmp_path / key, way, METADATA["nemo"]), device="cpu")
        for key, way in ways.items()
    }
    found = [(model.facts.pads, model._alone) for model in models.values()]
    assert found == [(True, False), (False, False), (False, True)]
    audios = [audio(1.0), audio(1.0, 1), audio(2.0, 2)]
    for model in models.values():
        for found, heard in zip(model.emissions_batch(audios), audios):
            assert float(np.abs(found.array - model.emissions(heard).array).max()) < 1e-4


@pytest.mark.parametrize("kind", ["nemo", "icefall", "waveform"])
def test_long_audio_in_chunks_is_one_pass(kind: str, tmp_path: Path) -> None:
    """A network of convolutions sees no further than its context: chunks are stitched without a
    seam."""
    heard = audio(9.37)
    whole = loaded(tmp_path, kind).emissions(heard).array
    chunked = loaded(tmp_path, kind, chunk_s=2.0, context_s=0.5).emissions(heard).array
    assert chunked.shape == whole.shape
    assert float(np.abs(chunked - whole).max()) < 1e-4


@pytest.mark.parametrize("scores", ["log-probs", "logits"])
@pytest.mark.parametrize("order", ["BTC", "BCT", "TBC"])
def test_outputs_of_any_order(scores: str, order: str, tmp_path: Path) -> None:
    made = replace(KINDS["nemo"], log_softmax=scores != "logits", output=order)
    toml = f'[output]\naxes = "{order}"\nscores = "{scores}"\n'
    found = load_model(checkpoint(tmp_path, made, METADATA["nemo"], toml), device="cpu").emissions(
        audio(1.0)
    )
    expected = loaded(tmp_path / "plain", "nemo").emissions(audio(1.0))
    np.testing.assert_allclose(found.array, expected.array, atol=1e-5)


def test_nemos_own_export_needs_what_the_page_says(tmp_path: Path) -> None:
    """A Conformer of letters, whose space is a token."""
    page = (ROOT / "docs" / "howto" / "own-model.md").read_text(encoding="utf-8")
    [toml] = [block.text for block in blocks(page) if block.language == "toml"]
    name = checkpoint(tmp_path, KINDS["nemo"], None, toml)
    write_tokens(tmp_path / "tokens.txt", (" ", *LETTERS[2:], "<blk>"))
    model = load_model(name, device="cpu")
    assert (model.vocab[0], model.blank, model.frame_shift_s) == (" ", 28, 0.04)
    with_metadata = loaded(tmp_path / "sherpa", "nemo").emissions(audio(1.0))
    np.testing.assert_array_equal(model.emissions(audio(1.0)).array, with_metadata.array)


def test_metadata_of_sherpa_say_what_it_is() -> None:
    assert from_metadata({}) == from_metadata({"model_type": "paraformer"}) == {}
    nemo = from_metadata(
        {
            "model_type": "EncDecHybridRNNTCTCBPEModel",
            "subsampling_factor": "8",
            "normalize_type": "",
        }
    )
    assert nemo == {
        "features": "nemo-mel",
        "nemo_mel": {"normalise": "none"},
        "frame_shift_s": 0.08,
    }
    assert from_metadata({"model_type": "EncDecRNNTBPEModel"}) == {}
    gigaam = from_metadata(
        {"model_type": "EncDecCTCModel", "subsampling_factor": "4", "is_giga_am": "1"}
    )
    assert (gigaam["nemo_mel"]["bins"], gigaam["nemo_mel"]["scale"]) == (64, "htk")
    assert from_metadata(METADATA["wenet"])["kaldi_fbank"]["gain"] == 32768.0


@pytest.mark.parametrize(
    ("spoil", "says"),
    [
        (lambda folder: (folder / "model.onnx").unlink(), "no such file"),
        (
            lambda folder: os.truncate(folder / "model.onnx", 2000),
            r"cannot be read as ONNX \(was a download cut off",
        ),
        (
            lambda folder: (folder / "tokens.txt").unlink(),
            r"vocabulary .*tokens\.txt is missing: put it there",
        ),
        (
            lambda folder: write_tokens(folder / "tokens.txt", LETTERS[1:]),
            "expected 29 tokens .* got 28: the blank",
        ),
        (
            lambda folder: write_tokens(folder / "tokens.txt", ("#", *LETTERS[1:])),
            "none of <blk>.* model.toml: blank",
        ),
    ],
)
def test_files_that_are_spoilt_are_named_in_one_line(
    spoil: Callable[[Path], object], says: str, tmp_path
) -> None:
    name = checkpoint(tmp_path, KINDS["nemo"], METADATA["nemo"])
    spoil(tmp_path)
    with pytest.raises(UsageError, match=says) as caught:
        load_model(name, device="cpu")
    assert "\n" not in str(caught.value)


SHIFTED = 'features = "nemo-mel"\nframe_shift_s = '


@pytest.mark.parametrize(
    ("toml", "error", "says"),
    [
        ("", ConfigError, "features: expected .*\n.*frame_shift_s: expected .*\n.*no metadata"),
        (
            'feature = 1\nblank = 3\n[input]\naxes = "XY"\n',
            ConfigError,
            "'feature'.*\n.*blank.*\n.*input.axes",
        ),
        (f"{NEMO}layers = [[3]]\n", ConfigError, "layers: expected lists of kernel"),
        (f"{NEMO}layers = [[0x{'f' * 5000}]]\n", ConfigError, "layers: .* that cannot be shown"),
        (
            f"{NEMO}layers = [[3, 4]]\n",
            UsageError,
            r"layers: they make .* the network makes \[25, 26, 26\]",
        ),
        (
            f"{SHIFTED}0.02\n",
            UsageError,
            "194 inputs more gave 49 frames instead of 97: about 0.04 would fit",
        ),
        (f"{SHIFTED}0.025\n", UsageError, "a multiple of 0.01, got 0.025"),
        (
            f"{NEMO}[nemo-mel]\nbins = 64\n",
            UsageError,
            r"\(N, 80, T\) does not take 64 channels of nemo-mel",
        ),
        ('features = "waveform"\nframe_shift_s = 0.04\n', UsageError, "does not take a waveform"),
        (
            f'{NEMO}[input]\nname = "y"\n',
            UsageError,
            r"expected one of audio_signal \(N, 80, T\), length .*; got 'y'",
        ),
        (f'{NEMO}word_separator = "_"\n', UsageError, "word_separator '_' is not a token"),
    ],
)
def test_descriptions_that_are_wrong_are_told(
    toml: str, error: type[Exception], says: str, tmp_path: Path
) -> None:
    name = checkpoint(tmp_path, KINDS["nemo"], None, toml)
    with pytest.raises(error, match=says) as caught:
        load_model(name, device="cpu")
    assert error is ConfigError or "\n" not in str(caught.value)


def test_networks_with_caches_are_refused(tmp_path: Path) -> None:
    import onnx

    name = checkpoint(tmp_path, KINDS["nemo"], METADATA["nemo"])
    model = onnx.load(tmp_path / "model.onnx")
    model.graph.input.append(
        onnx.helper.make_tensor_value_info("cache", onnx.TensorProto.FLOAT, [1, 4])
    )
    onnx.save(model, tmp_path / "model.onnx")
    with pytest.raises(UsageError, match=r"which of audio_signal .* is meant\?"):
        load_model(name, device="cpu")
    (tmp_path / "model.toml").write_text('[input]\nname = "audio_signal"\n', encoding="utf-8")
    with pytest.raises(UsageError, match=r"caches .* export it for whole utterances"):
        load_model(name, device="cpu")


def test_devices_precisions_and_extras_that_are_not_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import onnxruntime

    name = checkpoint(tmp_path, KINDS["nemo"], METADATA["nemo"])
    with pytest.raises(UsageError, match="precision to auto"):
        load_model(name, device="cpu", settings=Settings(precision="bfloat16"))
    if "CUDAExecutionProvider" not in onnxruntime.get_available_providers():
        from ctc_align.models.onnx_model import open_session

        assert load_model(name, device="auto").sample_rate == RATE
        with pytest.raises(BackendError, match="pip install onnxruntime-gpu"):
            open_session(tmp_path / "model.onnx", Device("cuda", 0), name)
    with pytest.raises(AudioError, match="expected samples at 16000 Hz, at least"):
        load_model(name, device="cpu").emissions(Audio(babble(0.01)[:100], RATE))
    monkeypatch.setitem(sys.modules, "onnxruntime", None)
    with pytest.raises(UsageError, match=r"pip install 'ctc-align\[onnx\]'"):
        load_model(f"onnx:{tmp_path / 'model.onnx'}")


@pytest.mark.parametrize("kind", ["nemo", "icefall", "waveform"])
@pytest.mark.parametrize("beyond", ["cut", "fail"])
def test_a_network_that_takes_only_short_sound_gets_it_in_pieces(
    kind: str, beyond: str, tmp_path, caplog
) -> None:
    """Three seconds at once, cut off there or failing beyond: the same log-probs as of a network
    without a limit."""
    free, limit = (
        loaded(tmp_path / "free", kind),
        round(3.0 / (0.02 if kind == "waveform" else 0.04)),
    )
    made = replace(KINDS[kind], limit=limit, beyond=beyond)
    name = checkpoint(tmp_path / "made", made, METADATA.get(kind), TOML.get(kind, ""))
    short, long = (
        [audio(seconds, seed) for seed, seconds in enumerate((1.3, 2.9))],
        [audio(9.37, 7), audio(3.1, 8)],
    )
    model = load_model(name, device="cpu")
    before = [model.emissions(heard).array for heard in short]
    together = model.emissions_batch([*short, *long])
    for heard, found in zip([*short, *long], together):
        assert float(np.abs(found.array - free.emissions(heard).array).max()) < 1e-4
        assert float(np.abs(found.array - model.emissions(heard).array).max()) < 1e-4
    for first, heard in zip(before, short):
        assert np.array_equal(model.emissions(heard).array, first), (
            "what is known of the limit changes nothing"
        )
    [said] = [record.getMessage() for record in caplog.records]
    assert f"takes at most 3 s at once ({limit} frames)" in said
    assert "--set chunk_s=1.6 --set context_s=0.7" in said.replace("chunk_s=1.5 ", "chunk_s=1.6 ")
    alone = load_model(name, device="cpu", settings=Settings(chunk_s=1.5, context_s=0.7))
    assert float(np.abs(alone.emissions(long[0]).array - together[2].array).max()) < 1e-4
    assert len(caplog.records) == 1, "within the limit nothing is tried"


def test_a_network_that_pads_its_input_is_cut(tmp_path: Path) -> None:
    """Thirty seconds whatever it hears: the frames of the sound are kept, and longer sound goes in
    pieces."""
    free = loaded(tmp_path / "free", "waveform")
    name = checkpoint(
        tmp_path / "made",
        replace(KINDS["waveform"], limit=1500, beyond="pad"),
        None,
        TOML["waveform"],
    )
    model = load_model(name, device="cpu")
    for seconds in (2.0, 29.7, 75.0):
        found, expected = (each.emissions(audio(seconds)).array for each in (model, free))
        assert abs(len(found) - seconds * 50) <= 1
        assert float(np.abs(found[: len(expected)] - expected).max()) < 1e-4


@pytest.mark.parametrize(
    ("error", "says"),
    [
        (
            RuntimeError("index out of range\nin self"),
            r"fails on 3 s of sound \(150 frames\): index out of range in s.* chunk_s",
        ),
        (
            RuntimeError("DefaultCPUAllocator: can't allocate memory"),
            "not enough memory: set chunk_s to less",
        ),
        (MemoryError(), "not enough memory: set chunk_s to less"),
    ],
)
def test_errors_of_a_network_name_the_cure(
    error: Exception, says: str, tmp_path: Path, monkeypatch
) -> None:
    model = loaded(tmp_path, "waveform")

    def fails(*given: Any) -> None:
        raise error

    monkeypatch.setattr(model, "_scores", fails)
    with pytest.raises(EmissionsError, match=says) as caught:
        model.emissions(Audio(babble(3.01)[:48160], RATE))
    assert "\n" not in str(caught.value)
