"""The project's own models: from sound to emissions in chunks, and the folder on disk."""

from __future__ import annotations

import math
import tracemalloc
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from made_models import TINY, arrays_of, tiny_folder, tiny_network
from made_sounds import babble

from ctc_align.config import Settings
from ctc_align.errors import AudioError, UsageError
from ctc_align.models.convnet import convnet_model, features
from ctc_align.models.convnet.convnet_model import (
    ConvNet,
    ModelDescription,
    load_folder,
    save_folder,
)
from ctc_align.models.convnet.gaussian_mixtures import (
    REACH,
    VALUES,
    StateScoring,
    level_range,
    values_of,
)
from ctc_align.models.convnet.inference import InferenceNetwork, NetworkShape, folded_layers
from ctc_align.models.convnet.network import DeviceNetwork
from ctc_align.types import Audio, Emissions

CPU = torch.device("cpu")
DESCRIPTION = ModelDescription("tiny", ("<blank>", *"abcde"), TINY, parts=3)


def model(chunk_s: float = 60.0) -> ConvNet:
    weights = arrays_of(tiny_network())
    weights["log_priors"] = np.linspace(-4.0, -2.0, TINY.states, dtype=np.float32)
    return ConvNet(DESCRIPTION, weights, CPU, Settings(chunk_s=chunk_s))


def states_of(emissions: Emissions) -> torch.Tensor:
    assert isinstance(emissions.states, torch.Tensor)
    return emissions.states


def sound(samples: int) -> Audio:
    return Audio(babble(samples / 16000 + 0.01)[:samples], 16000, "made.wav")


@pytest.mark.parametrize("samples", [400, 401, 480, 1600, 1601, 16000, 33333])
def test_a_frame_for_every_begun_ten_milliseconds(samples: int) -> None:
    emissions = model().emissions(sound(samples))
    assert emissions.log_probs.shape == (-(-samples // 160), TINY.classes)
    assert states_of(emissions).shape == (-(-samples // 160), TINY.states)
    assert (emissions.frame_shift_s, emissions.duration_s, emissions.name) == (
        0.01,
        samples / 16000,
        "made.wav",
    )
    torch.testing.assert_close(
        emissions.log_probs.logsumexp(1), torch.zeros(len(emissions.log_probs))
    )


@torch.no_grad()
def test_outside_the_recording_stands_its_silence_as_in_training() -> None:
    heard, context = sound(8080), TINY.context_frames
    frames = features.log_mel(heard.samples, 0, 51)
    statistics = features.statistics_of(frames)
    silent = features.silence(statistics)
    outside = np.tile(silent, (context, 1)), np.tile(silent, (context + 1, 1))
    inputs = np.concatenate((outside[0], features.normalise(frames, statistics), outside[1]))
    logits, _ = tiny_network()(torch.from_numpy(inputs)[None])
    torch.testing.assert_close(
        model().emissions(heard).log_probs, logits[0, :51].log_softmax(1), atol=1e-5, rtol=0
    )


@pytest.mark.parametrize("precision", ["bfloat16", "float16"])
def test_a_precision_that_is_asked_for_is_the_networks(precision: str) -> None:
    weights = arrays_of(tiny_network())
    found = ConvNet(DESCRIPTION, weights, CPU, Settings(precision=precision)).emissions(
        sound(16000)
    )
    exact = ConvNet(DESCRIPTION, weights, CPU).emissions(sound(16000))
    assert (found.log_probs.dtype, states_of(found).dtype) == (torch.float32, torch.float32)
    assert not torch.equal(found.log_probs, exact.log_probs)
    torch.testing.assert_close(found.log_probs, exact.log_probs, atol=0.05, rtol=0)
    torch.testing.assert_close(states_of(found), exact.states, atol=0.05, rtol=0)


def test_priors_are_taken_off_the_states_only() -> None:
    plain = ConvNet(DESCRIPTION, arrays_of(tiny_network()), CPU).emissions(sound(8000))
    priors = model().emissions(sound(8000))
    torch.testing.assert_close(states_of(plain).logsumexp(1), torch.zeros(50))
    taken_off = torch.linspace(-4.0, -2.0, TINY.states).expand(50, -1)
    torch.testing.assert_close(states_of(plain) - states_of(priors), taken_off)
    torch.testing.assert_close(plain.log_probs, priors.log_probs)


def mixed(weight: float = 0.5, chunk_s: float = 60.0) -> ConvNet:
    """As `model`, with two Gaussians for each state."""
    rng = np.random.default_rng(3)
    weights = arrays_of(tiny_network())
    weights["log_priors"] = np.linspace(-4.0, -2.0, TINY.states, dtype=np.float32)
    weights["mixtures.weights"] = np.full((TINY.states, 2), -math.log(2))
    weights["mixtures.means"] = rng.normal(size=(TINY.states, 2, VALUES))
    weights["mixtures.variances"] = rng.uniform(2.0, 3.0, (TINY.states, 2, VALUES))
    return ConvNet(
        replace(DESCRIPTION, mixture_weight=weight), weights, CPU, Settings(chunk_s=chunk_s)
    )


def paused(samples: int) -> Audio:
    """As `sound`, a fifth of it next to silent."""
    whole = sound(samples)
    whole.samples[-samples // 5 :] *= 1e-3
    return whole


def test_mixtures_are_added_to_the_states_by_their_weight() -> None:
    plain, half = (states_of(made.emissions(paused(16000))) for made in (model(), mixed(0.5)))
    whole = states_of(mixed(1.0).emissions(paused(16000)))
    torch.testing.assert_close(whole - plain, 2 * (half - plain), atol=1e-4, rtol=1e-4)
    added = whole - plain
    torch.testing.assert_close(added.logsumexp(1), torch.zeros(len(added)), atol=1e-4, rtol=0)
    # As the formula says, over the whole recording at once.
    frames = features.log_mel(paused(16000).samples, 0, 100)
    statistics = features.statistics_of(frames)
    silence = np.tile(features.silence(statistics), (REACH, 1))
    inputs = np.concatenate((silence, features.normalise(frames, statistics), silence))
    own = mixed().scoring.mixtures
    np.testing.assert_allclose(added, own.log_posteriors(values_of(inputs)), atol=1e-4, rtol=1e-4)


@pytest.mark.parametrize(
    ("piece_frames", "chunk_s", "samples", "made"),
    [
        *(
            (2, 0.001, 9600, model),
            (2, 0.1, 9999, model),
            (8, 0.2, 9600, model),
            (30, 0.3, 9999, model),
        ),
        *((30, 1e9, 9600, model), (8, 0.2, 9600, mixed), (8, 0.2, 9999, mixed)),
    ],
)
def test_chunks_are_one_pass(piece_frames, chunk_s, samples, made, monkeypatch) -> None:
    whole = made().emissions(paused(samples))
    monkeypatch.setattr(convnet_model, "PIECE_FRAMES", piece_frames)
    pieces = made(chunk_s=chunk_s).emissions(paused(samples))
    torch.testing.assert_close(pieces.log_probs, whole.log_probs, atol=1e-5, rtol=0)
    atol, rtol = (1e-4, 1e-5) if made is mixed else (1e-5, 0)
    torch.testing.assert_close(states_of(pieces), states_of(whole), atol=atol, rtol=rtol)


def test_mixtures_say_nothing_where_noise_covers_the_quiet_sounds() -> None:
    clean = paused(32000)
    rng = np.random.default_rng(0)
    loudness = float(np.sqrt((clean.samples**2).mean()))

    scoring = mixed().scoring
    full = scoring.mixture_weight

    def weight(noise_db: float) -> float:
        noise = rng.normal(size=len(clean.samples)) * loudness * 10 ** (-noise_db / 20)
        frames = features.log_mel((clean.samples + noise).astype(np.float32), 0, 200)
        return scoring.weight_for(level_range(features.statistics_of(frames)))

    assert weight(0.0) == 0.0
    assert weight(60.0) == full
    # Zeros at the ends, as of padded recordings, change nothing.
    noisy = clean.samples + rng.normal(size=len(clean.samples)) * loudness
    padded = np.concatenate((np.zeros(8000), noisy, np.zeros(8000))).astype(np.float32)
    heard = features.statistics_of(features.log_mel(padded, 0, 300))
    assert scoring.weight_for(level_range(heard)) == 0.0
    loud = Audio((clean.samples + rng.normal(size=32000) * loudness).astype(np.float32), 16000)
    one, two = (states_of(made.emissions(loud)) for made in (mixed(), model()))
    torch.testing.assert_close(one, two)


def test_mixtures_come_back_from_a_folder(tmp_path: Path) -> None:
    made = mixed()
    save_folder(tmp_path, made.description, tiny_network(), torch.linspace(-4.0, -2.0, TINY.states), torch.float32,
                made.scoring.mixtures)  # fmt: skip
    loaded = load_folder(tmp_path, CPU)
    assert loaded.description == made.description
    one, two = (states_of(each.emissions(paused(8000))) for each in (loaded, made))
    torch.testing.assert_close(one, two)


@pytest.mark.parametrize(
    ("name", "change", "message"),
    [
        ("mixtures.means", None, "there is no mixtures.means"),
        (
            "mixtures.means",
            lambda x: x[1:],
            r"mixtures.means has shape \(15, 2, 39\), expected \(16, 2, 39\)",
        ),
        (
            "mixtures.weights",
            lambda x: x[:, :0],
            r"mixtures.weights has shape \(16, 0\), expected \(16, 1\)",
        ),
        ("mixtures.weights", lambda x: x[0], r"mixtures.weights has shape \(2,\)"),
        (
            "mixtures.means",
            lambda x: x * float("nan"),
            "mixtures.means holds numbers that are not finite",
        ),
        ("mixtures.variances", lambda x: x * 0.0, "mixtures.variances holds numbers below 1e-08"),
        ("mixtures.variances", lambda x: x + float("inf"), "not finite"),
        ("states.weight", None, "states.weight"),
        ("stem.1.running_mean", None, "stem.1.running_mean"),
        ("tokens.bias", None, "tokens.bias"),
        ("log_priors", lambda x: x[:1], "log_priors"),
    ],
)
def test_weights_that_do_not_fit_are_one_line(
    tmp_path: Path, name: str, change, message: str
) -> None:
    from safetensors.torch import load_file, save_file

    made, priors = mixed(), torch.zeros(TINY.states)
    save_folder(
        tmp_path, made.description, tiny_network(), priors, torch.float32, made.scoring.mixtures
    )
    weights = load_file(str(tmp_path / "model.safetensors"))
    old = weights.pop(name)
    if change is not None:
        weights[name] = change(old).contiguous()
    save_file(weights, str(tmp_path / "model.safetensors"))
    with pytest.raises(
        UsageError, match=f"cannot be loaded as model.toml describes them: .*{message}"
    ):
        load_folder(tmp_path, CPU)
    (tmp_path / "model.safetensors").write_bytes(b"not weights at all")
    with pytest.raises(UsageError, match="cannot be loaded"):
        load_folder(tmp_path, CPU)


def test_progress_grows_to_one_and_what_comes_out_may_be_differentiated(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    shares: list[float] = []
    monkeypatch.setattr(convnet_model, "PIECE_FRAMES", 50)
    model(0.5).emissions(sound(33333), shares.append)
    assert shares == sorted(shares)
    assert len(shares) == 5
    assert shares[-1] == 1.0
    log_probs = model().emissions(sound(8000)).log_probs.requires_grad_()
    log_probs.square().sum().backward()
    assert log_probs.grad is not None


def watched(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Return the numbers of frames with which networks are called from now on."""
    seen: list[int] = []
    call = InferenceNetwork.__call__
    monkeypatch.setattr(
        InferenceNetwork,
        "__call__",
        lambda self, inputs: (seen.append(len(inputs)), call(self, inputs))[1],
    )
    return seen


def test_long_recordings_go_in_pieces_of_bounded_size(monkeypatch: pytest.MonkeyPatch) -> None:
    samples = np.random.default_rng(0).standard_normal(600 * 16000, dtype=np.float32)
    listener = model(10.0)
    seen = watched(monkeypatch)
    tracemalloc.start()
    emissions = listener.emissions(Audio(samples, 16000))
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert len(emissions.log_probs) == features.frame_count(len(samples))
    results = 4 * len(emissions.log_probs) * (TINY.classes + TINY.states)
    # a copy of the samples would be 38 MB; NumPy 1, whose FFT is of float64 alone, takes 12.3
    assert peak - results < 16 * 2**20
    assert max(seen) == convnet_model.PIECE_FRAMES + 2 * TINY.context_frames
    assert len(seen) == -(-60_000 // convnet_model.PIECE_FRAMES)
    seen.clear()
    for samples in (160 * 1024, 160 * 1024 + 1, 160 * 1281, 160 * 2048):
        listener.emissions(sound(samples))
    assert sorted(size - 2 * TINY.context_frames for size in seen) == [256, 512, *[1024] * 5]


def same(one: Emissions, two: Emissions) -> bool:
    """To the bit, in all that they say."""
    rest = [replace(e, log_probs=None, states=None) for e in (one, two)]  # type: ignore[arg-type]
    alike = torch.equal(one.log_probs, two.log_probs) and torch.equal(
        states_of(one), states_of(two)
    )
    return rest[0] == rest[1] and alike


SAMPLES = (400, 163_840, 16_000, 163_841, 401, 500_000, 33_333, 200_000)


@pytest.mark.parametrize("threads", [1, 2])
def test_a_batch_is_its_utterances_to_the_bit(threads: int) -> None:
    before = torch.get_num_threads()
    torch.set_num_threads(threads)
    try:
        listener, sounds = (
            model(),
            [replace(sound(samples), offset_s=float(i)) for i, samples in enumerate(SAMPLES)],
        )
        alone = [listener.emissions(one) for one in sounds]
        for order in (range(8), range(7, -1, -1), (3, 3, 0)):
            together = listener.emissions_batch([sounds[i] for i in order])
            assert all(same(one, alone[i]) for one, i in zip(together, order))
        assert [one.offset_s for one in alone] == list(range(8))
    finally:
        torch.set_num_threads(before)


@pytest.mark.parametrize("at_once", [1, 3, 100])
@pytest.mark.parametrize("made", [model, mixed])
def test_pieces_of_all_go_to_another_device_together(
    made, at_once: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As a CUDA device has it, with the CPU in its place."""
    monkeypatch.setattr(convnet_model, "PIECES_ON_DEVICE", at_once)
    seen: list[int] = []
    listener, sounds = made(), [paused(samples) for samples in SAMPLES]
    listener.device_network = on_device(listener)
    listener.device_network.register_forward_pre_hook(lambda _, inputs: seen.append(len(inputs[0])))
    found = listener.emissions_batch(sounds)
    assert max(seen) <= at_once
    assert sum(seen) == 1 + 1 + 1 + 2 + 1 + 4 + 1 + 2
    assert at_once < 100 or len(seen) == 1
    for one, two in zip(found, map(made().emissions, sounds)):
        torch.testing.assert_close(one.log_probs, two.log_probs, atol=1e-5, rtol=0)
        torch.testing.assert_close(states_of(one), states_of(two), atol=1e-4, rtol=1e-5)


def on_device(listener: ConvNet) -> DeviceNetwork:
    shape = listener.description.shape
    layers = folded_layers(shape, arrays_of(tiny_network(shape)))
    return DeviceNetwork(shape, layers, listener.scoring, torch.float32)


def test_what_cannot_be_heard_is_an_error() -> None:
    slow = Audio(babble(0.5), 8000, "made.wav")
    assert model().emissions_batch([]) == []
    for call in (
        lambda: model().emissions(slow),
        lambda: model().emissions_batch([sound(8000), slow]),
    ):
        with pytest.raises(AudioError, match="got 8000 samples at 8000 Hz"):
            call()
    with pytest.raises(AudioError, match=r"made\.wav: expected samples at 16000 Hz"):
        model().emissions(Audio(np.zeros(0, np.float32), 16000, "made.wav"))


def test_a_folder_gives_back_what_was_saved_half_precision_too(tmp_path: Path) -> None:
    folder = tiny_folder(tmp_path / "m", ("<blank>", *"abc", '"', "\\", "ä", "\t", "\u2028"))
    loaded = load_folder(folder, CPU)
    assert loaded.vocab == ("<blank>", *"abc", '"', "\\", "ä", "\t", "\u2028")
    assert (loaded.name, loaded.blank, loaded.token_kind) == ("tiny", 0, "tokens")
    assert loaded.receptive_field_s == pytest.approx(2 * 0.12 + 0.02)
    network = tiny_network(loaded.description.shape)
    again = ConvNet(loaded.description, arrays_of(network), CPU).emissions(sound(8000))
    torch.testing.assert_close(loaded.emissions(sound(8000)).log_probs, again.log_probs)
    for name in ('mt"3', "a\\b", "tab\tand\nline", "日本\x7f"):
        save_folder(
            tmp_path / "n", replace(DESCRIPTION, name=name), tiny_network(), None, torch.float32
        )
        assert load_folder(tmp_path / "n", CPU).name == name
    save_folder(
        tmp_path,
        DESCRIPTION,
        tiny_network(),
        torch.linspace(-4.0, -2.0, TINY.states),
        torch.float16,
    )
    loaded = load_folder(tmp_path, CPU).emissions(sound(8000))
    torch.testing.assert_close(
        loaded.log_probs, model().emissions(sound(8000)).log_probs, atol=0.02, rtol=0
    )
    assert loaded.log_probs.dtype == torch.float32


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("ctc-align-model/1", "ctc-align-model/9", "format is not ctc-align-model/1"),
        ("vocab = [", "vocabulary = [", "vocab"),
        ("inputs = 64", "inputs = ", "Invalid value"),
        ("name = ", "nmae = ", "nmae"),
        ("[network]", "network = 3\n[other]", "network"),
        ('"a", ', "", "6 classes"),
        ('"a", ', '"b", ', "twice"),
        ('"a", ', "7, ", "vocab"),
        ("inputs = 64", "inputs = 80", "expected 64 inputs"),
        ("states = 16", "states = 17", "17 states"),
        ("parts = 3", "parts = 2", "16 states"),
        ("body = 8", "body = 10", "cannot be loaded as model.toml describes them"),
        ("stem = 8", 'stem = "8"', "stem"),
        (
            "dilations = [1, 2]",
            "dilations = [1, 2, 4]",
            "cannot be loaded as model.toml describes them",
        ),
        ("dilations = [1, 2]", "dilations = 4", "not iterable"),
        ("prior_scale = 1.0", 'prior_scale = "x"', "prior_scale"),
        (
            "prior_scale = 1.0",
            "prior_scale = nan",
            "prior_scale is not a number from -1000 to 1000: nan",
        ),
        (
            "prior_scale = 1.0",
            "prior_scale = 1.0\nmixture_weight = -1.0",
            "mixture_weight is not a number from 0",
        ),
        (
            "prior_scale = 1.0",
            "prior_scale = 1.0\nmixture_weight = true",
            "mixture_weight is not a number from 0",
        ),
        (
            "prior_scale = 1.0",
            "prior_scale = 1.0\nmixture_weight = 1e30",
            "mixture_weight is not a number from 0",
        ),
    ],
)
def test_a_description_that_is_wrong_is_one_line(
    tmp_path: Path, old: str, new: str, message: str
) -> None:
    folder = tiny_folder(tmp_path, ("<blank>", *"abcde"))
    text = (folder / "model.toml").read_text("utf-8")
    assert old in text
    (folder / "model.toml").write_text(text.replace(old, new), "utf-8")
    with pytest.raises(UsageError) as caught:
        load_folder(folder, CPU)
    assert message in str(caught.value)
    assert str(folder) in str(caught.value)


# The network: chunks, context, padding and shapes.

WIDE = NetworkShape(4, 3, 5, stem=4, body=6, head=4, dilations=(1, 2, 1, 4, 1, 8, 2, 4))


def inputs_of(
    frames: int, inputs: int = TINY.inputs, seed: int = 3, batch: int = 1
) -> torch.Tensor:
    return torch.randn(batch, frames, inputs, generator=torch.Generator().manual_seed(seed))


@torch.no_grad()
def test_a_padded_batch_is_its_utterances_alone() -> None:
    network, context = tiny_network(), TINY.context_frames
    x = inputs_of(60 + 2 * context, batch=3)
    batch, _ = network(x)
    for row, frames in enumerate((60, 22, 8)):
        alone, _ = network(x[row : row + 1, : frames + 2 * context])
        torch.testing.assert_close(alone[0], batch[row, :frames], atol=1e-5, rtol=0)


NARROW = NetworkShape(3, 2, 0, stem=1, body=1, head=1, dilations=(3,))


@pytest.mark.parametrize("shape", [TINY, WIDE, NARROW])
@pytest.mark.parametrize("frames", [2, 64])
@torch.no_grad()
def test_what_runs_after_training_is_what_was_trained(shape: NetworkShape, frames: int) -> None:
    trained = tiny_network(shape)
    norms = [module for module in trained.modules() if isinstance(module, torch.nn.BatchNorm1d)]
    for i, norm in enumerate(norms):
        norm.weight.uniform_(0.5, 2.0, generator=torch.Generator().manual_seed(i))
        norm.bias.normal_(generator=torch.Generator().manual_seed(i))
    x = inputs_of(frames + 2 * shape.context_frames, shape.inputs, batch=3)
    expected, layers = trained(x), folded_layers(shape, arrays_of(trained))
    scoring = StateScoring(np.zeros(shape.states, np.float32), None, 0.0, 0.0, shape.context_frames)
    found = DeviceNetwork(shape, layers, scoring, torch.float32).logits(x)
    assert float(expected[0].std()) > 0.01
    torch.testing.assert_close(found[0], expected[0], atol=1e-5, rtol=1e-5)
    torch.testing.assert_close(found[1], expected[1], atol=1e-5, rtol=1e-5)
    assert (found[1] is None) == (shape.states == 0)
    for row in range(3):
        tokens, states = InferenceNetwork(shape, layers)(x[row].numpy())
        np.testing.assert_allclose(tokens, expected[0][row], atol=1e-5, rtol=1e-5)
        if shape.states:
            np.testing.assert_allclose(states, expected[1][row], atol=1e-5, rtol=1e-5)


def test_sizes_of_weights_are_those_of_the_network_of_torch() -> None:
    for shape in (TINY, WIDE, NARROW):
        assert shape.weight_shapes == {
            name: array.shape for name, array in arrays_of(tiny_network(shape)).items()
        }


@pytest.mark.parametrize(
    "shape", [TINY, WIDE, NetworkShape(3, 2, 2, stem=8, body=8, head=8, dilations=(1, 1, 1))]
)
def test_what_a_frame_sees_is_what_the_shape_says(shape: NetworkShape) -> None:
    """By gradients: both phases of a pair together see at most `context_frames`, and within two
    frames of it."""
    network, context, frames = tiny_network(shape).double(), shape.context_frames, 12
    x = inputs_of(frames + 2 * context, shape.inputs).double().requires_grad_()
    reach = []
    for t in (4, 5):
        tokens, states = network(x)
        (gradient,) = torch.autograd.grad(
            tokens[0, t].square().sum() + states[0, t].square().sum(), x
        )
        seen = gradient[0].abs().amax(1).nonzero().flatten() - context
        assert int(seen[0]) >= t - context
        assert int(seen[-1]) <= t + context
        reach += [t - int(seen[0]), int(seen[-1]) - t]
    assert max(reach) >= context - 2


# Emissions stay on the device of the model: on torch's device without data ("meta") a copy to the
# CPU is an error.

NOWHERE = torch.device("meta")
SETTINGS = Settings(chunk_s=1.0, context_s=0.3)
SHORT, LONG = Audio(babble(0.7), 16000), Audio(babble(11.5, 1), 16000)


def test_emissions_stay_on_their_device(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    model = convnet_model.load_folder(
        tiny_folder(tmp_path, ("<blank>", *"abcde")), NOWHERE, SETTINGS
    )
    for emissions in (
        model.emissions(SHORT),
        model.emissions(LONG),
        *model.emissions_batch([SHORT, LONG]),
    ):
        assert (emissions.log_probs.device, states_of(emissions).device) == (NOWHERE, NOWHERE)
    # As it was: what the network returns goes to the CPU at once.
    network = model.device_network
    network.register_forward_hook(lambda _, __, outputs: tuple(output.cpu() for output in outputs))
    with pytest.raises(NotImplementedError, match="meta"):
        model.emissions(SHORT)


@pytest.mark.parametrize("kind", ["wav2vec2-group", "wav2vec2-layer"])
def test_log_probs_of_networks_of_transformers_stay(
    kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = pytest.importorskip("made_transformers", reason="needs the extra [hf]")
    from ctc_align.models import huggingface

    monkeypatch.setattr(huggingface, "torch_device", lambda device: device)
    model = huggingface.load(str(made.checkpoint(tmp_path, kind)), NOWHERE, SETTINGS, folder=True)
    for emissions in (
        model.emissions(SHORT),
        model.emissions(LONG),
        *model.emissions_batch([SHORT, LONG]),
    ):
        assert emissions.log_probs.device == NOWHERE
