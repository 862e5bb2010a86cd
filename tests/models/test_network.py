"""The network: chunks, context, padding and shapes."""

from __future__ import annotations

import pytest
import torch
from made_models import TINY, tiny_network

from ctc_align.models.convnet.network import InferenceNetwork, NetworkShape

WIDE = NetworkShape(4, 3, 5, stem=4, body=6, head=4, dilations=(1, 2, 1, 4, 1, 8, 2, 4))


def features(frames: int, inputs: int = TINY.inputs, seed: int = 3, batch: int = 1) -> torch.Tensor:
    return torch.randn(batch, frames, inputs, generator=torch.Generator().manual_seed(seed))


@pytest.mark.parametrize("frames", [2, 4, 10, 64])
def test_one_row_for_every_frame(frames: int) -> None:
    tokens, states = tiny_network()(features(frames + 2 * TINY.context_frames))
    assert tokens.shape == (1, frames, TINY.classes)
    assert states is not None
    assert states.shape == (1, frames, TINY.states)


def test_without_a_second_output() -> None:
    shape = NetworkShape(TINY.inputs, 4, 0, stem=4, body=4, head=4, dilations=(1,))
    tokens, states = tiny_network(shape)(features(6 + 2 * shape.context_frames))
    assert tokens.shape == (1, 6, 4)
    assert states is None


@pytest.mark.parametrize("chunk", [2, 6, 10, 34, 100])
@torch.no_grad()
def test_chunks_with_their_context_are_one_pass(chunk: int) -> None:
    network, context = tiny_network(), TINY.context_frames
    x = features(80 + 2 * context)
    whole_tokens, whole_states = network(x)
    parts = [network(x[:, t : min(t + chunk, 80) + 2 * context]) for t in range(0, 80, chunk)]
    torch.testing.assert_close(torch.cat([part[0] for part in parts], 1), whole_tokens, atol=1e-5, rtol=0)
    torch.testing.assert_close(torch.cat([part[1] for part in parts], 1), whole_states, atol=1e-5, rtol=0)


@torch.no_grad()
def test_a_padded_batch_is_its_utterances_alone() -> None:
    network, context = tiny_network(), TINY.context_frames
    x = features(60 + 2 * context, batch=3)
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
    x = features(frames + 2 * shape.context_frames, shape.inputs, batch=3)
    expected, found = trained(x), InferenceNetwork(trained)(x)
    assert float(expected[0].std()) > 0.01
    torch.testing.assert_close(found[0], expected[0], atol=1e-5, rtol=1e-5)
    torch.testing.assert_close(found[1], expected[1], atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("shape", [TINY, WIDE, NetworkShape(3, 2, 2, stem=8, body=8, head=8, dilations=(1, 1, 1))])
def test_what_a_frame_sees_is_what_the_shape_says(shape: NetworkShape) -> None:
    """By gradients: both phases of a pair together see at most `context_frames`, and within two frames of it."""
    network, context, frames = tiny_network(shape).double(), shape.context_frames, 12
    x = features(frames + 2 * context, shape.inputs).double().requires_grad_()
    reach = []
    for t in (4, 5):
        tokens, states = network(x)
        (gradient,) = torch.autograd.grad(tokens[0, t].square().sum() + states[0, t].square().sum(), x)
        seen = gradient[0].abs().amax(1).nonzero().flatten() - context
        assert int(seen[0]) >= t - context
        assert int(seen[-1]) <= t + context
        reach += [t - int(seen[0]), int(seen[-1]) - t]
    assert max(reach) >= context - 2


def test_the_stated_context_of_the_english_network() -> None:
    assert NetworkShape(64, 40, 118).context_frames == 52


def test_a_dilation_more_is_context_more() -> None:
    assert NetworkShape(4, 2, 0, dilations=(1, 2, 4)).context_frames == TINY.context_frames + 8
