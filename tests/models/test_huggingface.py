"""Networks of transformers, each family from its own checkpoint: what they say, alone and in company."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from made_sounds import babble
from made_transformers import FAMILIES, LETTERS, checkpoint, directly, extractor, network

from ctc_align.alignment.aligner import Aligner
from ctc_align.config import Settings
from ctc_align.errors import AudioError, EmissionsError
from ctc_align.models import load_model
from ctc_align.models.framewise import FrameModel
from ctc_align.types import Audio

CPU = torch.device("cpu")
Folder = Callable[..., Path]


@pytest.fixture(scope="session")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Folder:
    """Checkpoints of each kind, made once."""
    made: dict[str, Path] = {}

    def make(kind: str) -> Path:
        if kind not in made:
            made[kind] = checkpoint(tmp_path_factory.mktemp(kind), kind)
        return made[kind]

    return make


def loaded(path: Path, **settings: Any) -> FrameModel:
    model = load_model(f"hf:{path}", device="cpu", settings=Settings(**settings))
    assert isinstance(model, FrameModel)
    return model


def sound(samples: int, seed: int = 0) -> Audio:
    return Audio(babble(samples / 16000 + 0.01, seed)[:samples], 16000, f"made-{seed}.wav")


@pytest.mark.parametrize("kind", FAMILIES)
@pytest.mark.parametrize("samples", [16000, 24961, 33333])
def test_log_probs_are_the_library_s(kind: str, samples: int, folder: Folder) -> None:
    heard = sound(samples)
    emissions = loaded(folder(kind)).emissions(heard)
    expected = directly(network(kind), extractor(kind), heard.samples)
    assert float(expected.std(0).mean()) > 0.05, "the network does not listen"
    torch.testing.assert_close(emissions.log_probs, expected, atol=1e-5, rtol=0)
    assert emissions.vocab == LETTERS
    assert (emissions.blank, emissions.duration_s, emissions.name) == (0, samples / 16000, heard.name)


@pytest.mark.parametrize("kind", FAMILIES)
def test_neighbours_in_a_batch_change_nothing(kind: str, folder: Folder) -> None:
    model = loaded(folder(kind))
    audios = [sound(samples, seed) for seed, samples in enumerate((24000, 9999, 40320, 16161, 24001, 3000))]
    together = model.emissions_batch(audios)
    for audio, emissions in zip(audios, together):
        alone = model.emissions(audio)
        assert emissions.name == alone.name
        torch.testing.assert_close(emissions.log_probs, alone.log_probs, atol=1e-4, rtol=0)


@pytest.mark.parametrize("kind", FAMILIES)
def test_it_aligns_end_to_end(kind: str, folder: Folder) -> None:
    text = "We call it bear's"
    alignment = Aligner(str(folder(kind)), device="cpu").align(sound(64000), text)
    assert [word.text for word in alignment.words] == text.split()
    edges = [edge for word in alignment.words for edge in (word.start_s, word.end_s)]
    assert None not in edges
    assert edges == sorted(edges)  # type: ignore[type-var]
    assert -alignment.score >= alignment.loss > 0


@pytest.mark.parametrize("kind", ["wav2vec2-group", "wav2vec2-bert", "sew"])
def test_what_is_too_short_or_at_another_rate_is_refused(kind: str, folder: Folder) -> None:
    model = loaded(folder(kind))
    frames = 2 if kind == "sew" else 1
    shortest = next(n for n in range(1, 2000) if model.grid.frames(n) == frames)
    assert len(model.emissions(sound(shortest)).log_probs) == frames
    with pytest.raises(AudioError, match=rf"at least {shortest} of them for the model .*got {shortest - 1} "):
        model.emissions_batch([sound(16000), sound(shortest - 1)])
    with pytest.raises(AudioError, match=r"expected samples at 16000 Hz.*got 24000 samples at 8000 Hz"):
        model.emissions(Audio(babble(1.5), 8000))


def test_the_rate_and_the_normalisation_are_the_extractor_s(tmp_path: Path) -> None:
    model = network("wav2vec2-group")
    features = extractor("wav2vec2-group", sampling_rate=8000, do_normalize=False)
    mine = loaded(checkpoint(tmp_path, "wav2vec2-group", model, features=features))
    heard = Audio(babble(2.0)[:16000] + np.float32(0.05), 8000)
    assert (mine.sample_rate, mine.frame_shift_s) == (8000, 0.04)
    torch.testing.assert_close(
        mine.emissions(heard).log_probs, directly(model, features, heard.samples), atol=1e-5, rtol=0
    )


@pytest.mark.parametrize("kind", ["wav2vec2-group", "wav2vec2-bert", "sew-d"])
def test_half_precision_says_nearly_the_same(kind: str, folder: Folder) -> None:
    whole, half = loaded(folder(kind)), loaded(folder(kind), precision="bfloat16")
    assert next(half.network.parameters()).dtype is torch.bfloat16
    exact, rounded = (model.emissions(sound(24000)).log_probs for model in (whole, half))
    assert rounded.dtype is torch.float32
    assert float((exact.exp() - rounded.exp()).abs().mean()) < 0.02
    assert float((exact.exp() - rounded.exp()).abs().mean()) > 0.0
    torch.testing.assert_close(rounded.logsumexp(1), torch.zeros(len(rounded)), atol=1e-5, rtol=0)
    chunked = loaded(folder(kind), precision="bfloat16", chunk_s=0.5, context_s=0.5).emissions(sound(24000)).log_probs
    assert chunked.shape == rounded.shape


def test_numbers_that_overflow_are_told(folder: Folder) -> None:
    model = loaded(folder("wav2vec2-layer"), precision="float16")
    with torch.no_grad():
        model.network.lm_head.weight.fill_(float("inf"))
    with pytest.raises(EmissionsError, match="overflow in float16: set precision to float32"):
        model.emissions(sound(16000))


def test_precision_is_half_on_cuda_only() -> None:
    from ctc_align.models.framewise import precision_of

    auto, cuda = Settings(), torch.device("cuda", 0)
    assert precision_of(auto, cuda) is torch.float16
    assert precision_of(auto, CPU) is precision_of(auto, torch.device("mps")) is torch.float32
    assert precision_of(Settings(precision="float32"), cuda) is torch.float32
