"""When frames are: an impulse put through each network must be heard where the grid says that frames lie."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from made_models import planted
from made_sounds import babble
from made_transformers import FAMILIES, checkpoint, network

from ctc_align.alignment.aligner import Aligner
from ctc_align.config import Settings
from ctc_align.models import load_model
from ctc_align.models.framewise import FrameGrid, FrameModel
from ctc_align.types import Audio

SAMPLES = 48000
IMPULSES = range(8000, 40000, 997)
WAVEFORM = [kind for kind in FAMILIES if not kind.startswith("wav2vec2-bert")]


def nearly_local(kind: str) -> Any:
    """A network that hears above all its own frame: attention and positions say a little, not nothing."""
    model = network(kind)
    with torch.no_grad():
        for name, weights in model.named_parameters():
            positions = "pos_conv" in name and "original0" in name
            attends = "out_proj.weight" in name or "linear_out.weight" in name or "output.dense.weight" in name
            causal = "depthwise_conv" in name
            if positions or attends or causal:
                weights.mul_(0.1)
    return model


def loaded(folder: Path) -> FrameModel:
    model = load_model(str(folder), device="cpu")
    assert isinstance(model, FrameModel)
    return model


def delays_s(model: FrameModel) -> np.ndarray:
    """For impulses all over a recording: centre of the frame that moves most, less the time of the impulse."""
    background = babble(SAMPLES / 16000 + 0.01)[:SAMPLES]
    audios = [Audio(background, 16000)]
    for place in IMPULSES:
        struck = background.copy()
        struck[place] += 1.0
        audios.append(Audio(struck, 16000))
    calm, *struck_ones = (emissions.log_probs for emissions in model.emissions_batch(audios))
    found = []
    for place, log_probs in zip(IMPULSES, struck_ones):
        moved = (log_probs - calm).square().sum(1).numpy()
        # frames that move alike (a pooled pair) share the honour
        frame = float(np.flatnonzero(moved > 0.7 * moved.max()).mean())
        found.append(model.first_frame_s + (frame + 0.5) * model.frame_shift_s - (place + 0.5) / 16000)
    return np.array(found)


@pytest.mark.parametrize("kind", FAMILIES)
def test_an_impulse_is_heard_when_it_is(kind: str, tmp_path: Path) -> None:
    model = loaded(checkpoint(tmp_path, kind, nearly_local(kind)))
    found = delays_s(model)
    assert abs(float(np.median(found))) <= model.frame_shift_s / 2
    assert float(np.mean(np.abs(found) <= 1.5 * model.frame_shift_s)) > 0.8


def test_times_that_are_a_frame_off_are_told(tmp_path: Path) -> None:
    model = loaded(checkpoint(tmp_path, "wav2vec2-group", nearly_local("wav2vec2-group")))
    model.first_frame_s += model.frame_shift_s
    assert abs(float(np.median(delays_s(model)))) > model.frame_shift_s / 2


@pytest.mark.parametrize("kind", ["wav2vec2-layer", "data2vec-audio", "wavlm-layer"])
@pytest.mark.parametrize("frame", [0, 7, 48])
def test_convolutions_see_exactly_what_the_grid_says(kind: str, frame: int) -> None:
    """The samples that move a frame, by the gradient: none more, none less, the centre in their middle."""
    samples = torch.randn(1, 16000, generator=torch.Generator().manual_seed(1), requires_grad=True)
    body = getattr(model := network(kind), model.base_model_prefix)
    outputs = body.feature_extractor(samples)
    outputs[0, :, frame].square().sum().backward()
    assert samples.grad is not None
    felt = samples.grad[0].nonzero().flatten()
    grid = FrameGrid.of(
        (layer.conv.kernel_size[0], layer.conv.stride[0]) for layer in body.feature_extractor.conv_layers
    )
    assert outputs.shape[-1] == grid.frames(16000)
    assert (int(felt.min()), int(felt.max()) + 1) == grid.inputs(frame, frame + 1)
    assert (int(felt.min()) + int(felt.max()) + 1) / 2 == grid.first_centre + frame * grid.stride


@pytest.mark.parametrize("layers", [[(10, 5), (3, 2)], [(400, 160), (2, 2)], [(4, 2, 1), (3, 2, 1)], [(3, 1, 1)]])
def test_a_grid_is_its_convolutions(layers: list[tuple[int, ...]]) -> None:
    """Beside torch's own: how many frames, and from which inputs, padded layers too."""
    grid = FrameGrid.of(layers)
    stack = torch.nn.Sequential(
        *(torch.nn.Conv1d(1, 1, kernel, stride, *padding, bias=False) for kernel, stride, *padding in layers)
    )
    for inputs in range(grid.field, grid.field + 3 * grid.stride + 2):
        row = torch.rand(1, 1, inputs, requires_grad=True)
        outputs = stack(row)
        assert outputs.shape[-1] == grid.frames(inputs) == grid.levels(inputs)[-1]
        last = outputs.shape[-1] - 1
        (gradient,) = torch.autograd.grad(outputs[0, 0, last], row)
        felt = gradient[0, 0].nonzero().flatten()
        first, end = grid.inputs(last, last + 1)
        assert int(felt.min()) == max(0, first + grid.start)
        assert int(felt.max()) + 1 == min(end, inputs)


def test_times_do_not_drift_as_duration_by_frames_does() -> None:
    """Ten seconds and a bit: the last frame's place by its own samples, and by the share of the duration."""
    grid = FrameGrid.of([(10, 5), (3, 2), (3, 2), (3, 2), (3, 2), (2, 2), (2, 2)])
    samples = 160000 + 390
    frames = grid.frames(samples)
    centre_s = ((frames - 1) * grid.stride + grid.field / 2) / 16000
    assert grid.first_frame_s(16000) + (frames - 0.5) * grid.frame_shift_s(16000) == pytest.approx(centre_s, abs=1e-9)
    assert abs((frames - 0.5) * (samples / 16000 / frames) - centre_s) > 0.01


@pytest.mark.parametrize("first_frame_s", [0.0025, -0.01])
def test_words_begin_where_their_frames_do(first_frame_s: float) -> None:
    """A path that is planted: its edges are those of the frames, and none is before the audio or beyond it."""
    path = ["h", "h", "", "i", "|", "m", "e", "e"]
    emissions = replace(planted(path), first_frame_s=first_frame_s, duration_s=0.161)
    hi, me = Aligner(None, settings=Settings(edges="spikes")).align(emissions, "hi me").words
    for met, frame in ((hi.start_s, 0), (hi.end_s, 4), (me.start_s, 5), (me.end_s, 8)):
        assert met == pytest.approx(min(max(0.02 * frame + first_frame_s, 0.0), 0.161), abs=1e-6)
