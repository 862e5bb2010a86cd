"""Long recordings: chunks on the frame grid, one pass beside them, and memory that does not grow."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from made_sounds import babble
from made_transformers import FAMILIES, checkpoint, network
from rows import first_row_of

from ctc_align.config import Settings
from ctc_align.models import load_model
from ctc_align.models.framewise import FrameGrid, FrameModel, plan_chunks
from ctc_align.types import Audio

LOCAL = (
    "wav2vec2-group",
    "wav2vec2-layer",
    "wav2vec2-adapter",
    "hubert-group",
    "sew",
    "data2vec-audio",
    "wav2vec2-bert",
)
"""Without their layers of attention these see no further than their convolutions: chunks must be one pass exactly."""
LISTENING = ("wav2vec2-group", "wavlm", "hubert-layer", "sew-d", "wav2vec2-conformer", "wav2vec2-bert")


def loaded(folder: Path, **settings: Any) -> FrameModel:
    return load_model(str(folder), device="cpu", settings=Settings(**settings))


def sound(seconds: float, seed: int = 0) -> Audio:
    return Audio(babble(seconds, seed), 16000)


@pytest.mark.parametrize(
    ("length", "context", "together"), [(1, 0, 1), (10, 3, 1), (10, 3, 2), (7, 5, 4), (2000, 9, 2)]
)
def test_chunks_cover_every_frame_once(length: int, context: int, together: int) -> None:
    for frames in (1, 2, 7, 99, 100, 101, 1000):
        pieces = plan_chunks(frames, length, context, together)
        assert [pieces[0][1], pieces[-1][2]] == [0, frames]
        for before, after in itertools.pairwise(pieces):
            assert before[2] == after[1], frames
        for begin, first, last, end in pieces:
            assert first < last <= first + length + together - 1, frames
            assert begin % together == 0, frames
            assert begin <= max(0, first - context), frames
            assert end >= min(frames, last + context), frames
            assert end <= frames


@pytest.mark.parametrize("kind", LOCAL)
@pytest.mark.parametrize("chunk_s", first_row_of([0.5, 1.3]))
def test_what_sees_no_further_than_its_context_is_as_in_one_pass(kind: str, chunk_s: float, tmp_path: Path) -> None:
    """The recording's own mean and variance, and those of norms over time, in every chunk."""
    model = network(kind, num_hidden_layers=1)
    body = getattr(model, model.base_model_prefix)
    with torch.no_grad():  # attention that says nothing
        for name, weights in body.encoder.named_parameters():
            if "out_proj" in name or "linear_out" in name:
                weights.zero_()
    folder = checkpoint(tmp_path, kind, model)
    # quiet, then loud: a chunk's own statistics would be others
    samples = sound(5.0).samples.copy()
    samples[40000:] *= 8
    whole = loaded(folder).emissions(Audio(samples, 16000))
    pieces = loaded(folder, chunk_s=chunk_s, context_s=0.5).emissions(Audio(samples, 16000))
    assert pieces.first_frame_s == whole.first_frame_s
    torch.testing.assert_close(pieces.log_probs, whole.log_probs, atol=1e-4, rtol=0)


@pytest.mark.parametrize("kind", LISTENING)
def test_attention_loses_little_with_the_context(kind: str, tmp_path: Path) -> None:
    """Probabilities of chunks of 2 s with 2 s around them beside one pass of 12 s, whose attention is over all of it.

    Random attention is nearly uniform, so what it loses here is the worst case; on average at most 0.02 of probability.
    """
    folder = checkpoint(tmp_path, kind)
    heard = sound(12.0)
    whole = loaded(folder).emissions(heard).log_probs.exp()
    near, far = (
        (loaded(folder, chunk_s=2.0, context_s=context_s).emissions(heard).log_probs.exp() - whole).abs().mean()
        for context_s in (4.0, 0.5)
    )
    assert 0 < float(near) < 0.02
    assert float(near) < float(far)


def test_progress_grows_to_one(tmp_path: Path) -> None:
    shares: list[float] = []
    model = loaded(checkpoint(tmp_path, "wav2vec2-group"), chunk_s=1.0, context_s=0.2)
    model.emissions(sound(4.5), shares.append)
    assert shares == sorted(shares)
    assert len(set(shares)) == 5
    assert shares[-1] == 1.0


def watched_passes(model: FrameModel, monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Return a list that gets the frames of each pass through the network, all rows together."""
    seen: list[int] = []
    heard = model._logits

    def logits(inputs: torch.Tensor, lengths: torch.Tensor | None) -> torch.Tensor:
        found = heard(inputs, lengths)
        seen.append(found.shape[0] * found.shape[1])
        return found

    monkeypatch.setattr(model, "_logits", logits)
    return seen


@pytest.mark.parametrize("kind", ["wav2vec2-group", "wav2vec2-bert"])
def test_no_pass_is_longer_than_a_chunk_and_its_context(kind, tmp_path, monkeypatch) -> None:
    model = loaded(checkpoint(tmp_path, kind), chunk_s=1.0, context_s=0.5)
    seen = watched_passes(model, monkeypatch)
    model.emissions(sound(60.0))
    assert len(seen) >= 59
    assert max(seen) <= 102


def test_batches_go_in_chunks_too_and_no_pass_is_longer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    model = loaded(checkpoint(tmp_path, "wav2vec2-layer"), chunk_s=1.0, context_s=0.5)
    audios = [sound(0.2 + 0.05 * (seed % 7), seed) for seed in range(20)]
    expected = [model.emissions(audio).log_probs for audio in audios]
    seen = watched_passes(model, monkeypatch)
    for emissions, log_probs in zip(model.emissions_batch(audios), expected):
        torch.testing.assert_close(emissions.log_probs, log_probs, atol=1e-4, rtol=0)
    assert 4 <= len(seen) < 10
    assert max(seen) <= 100
    model = loaded(checkpoint(tmp_path, "wav2vec2-layer"), chunk_s=1.5, context_s=0.5)
    audios = [sound(1.2, 1), sound(4.0, 2), sound(0.7, 3), sound(2.0, 4)]
    for audio, emissions in zip(audios, model.emissions_batch(audios)):
        torch.testing.assert_close(emissions.log_probs, model.emissions(audio).log_probs, atol=1e-4, rtol=0)


def test_the_checks_see_a_guard_that_sleeps_and_times_that_are_a_frame_off(tmp_path, monkeypatch) -> None:
    """The faults that the checks above are for: chunks with their own statistics, batches with their padding."""
    folder = checkpoint(tmp_path, "wav2vec2-group")
    samples = sound(5.0).samples.copy()
    samples[40000:] *= 8
    model = loaded(folder, chunk_s=1.0, context_s=0.5)
    right = model.emissions(Audio(samples, 16000)).log_probs
    monkeypatch.setattr(model._guard, "norms", [])
    assert float((model.emissions(Audio(samples, 16000)).log_probs - right).abs().max()) > 1e-2
    for kind in ("wav2vec2-group", "wav2vec2-conformer", "data2vec-audio"):
        model = loaded(checkpoint(tmp_path / kind, kind))
        audios = [sound(2.0), sound(1.0, 1)]
        monkeypatch.setattr(model._guard, "lengths_of", lambda rows: None)
        alone, together = model.emissions(audios[1]), model.emissions_batch(audios)[1]
        assert float((alone.log_probs - together.log_probs).abs().max()) > 1e-3
    model = loaded(checkpoint(tmp_path, "wav2vec2-group", nearly_local("wav2vec2-group")))
    model.first_frame_s += model.frame_shift_s
    assert abs(float(np.median(delays_s(model)))) > model.frame_shift_s / 2


# When frames are: an impulse put through each network must be heard where the grid says that frames lie.

SAMPLES = 48000
IMPULSES = range(8000, 40000, 997)


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
        if grid.start == 0 and end <= inputs:
            assert (int(felt.min()) + int(felt.max()) + 1) / 2 == grid.first_centre + last * grid.stride
