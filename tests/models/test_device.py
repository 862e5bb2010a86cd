"""Emissions stay on the device of the model: on torch's device without data ("meta") a copy to the CPU is an error."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from made_models import tiny_folder
from made_sounds import babble

from ctc_align.config import Settings
from ctc_align.models.convnet import convnet_model
from ctc_align.types import Audio

NOWHERE = torch.device("meta")
SETTINGS = Settings(chunk_s=1.0, context_s=0.3)
SHORT, LONG = Audio(babble(0.7), 16000), Audio(babble(11.5, 1), 16000)


def test_log_probs_and_states_of_our_models_stay(tmp_path: Path) -> None:
    model = convnet_model.load_folder(tiny_folder(tmp_path, ("<blank>", *"abcde")), NOWHERE, SETTINGS)
    for emissions in (model.emissions(SHORT), model.emissions(LONG), *model.emissions_batch([SHORT, LONG])):
        assert emissions.states is not None
        assert (emissions.log_probs.device, emissions.states.device) == (NOWHERE, NOWHERE)


@pytest.mark.parametrize("kind", ["wav2vec2-group", "wav2vec2-layer"])
def test_log_probs_of_networks_of_transformers_stay(kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made = pytest.importorskip("made_transformers", reason="needs the extra [hf]")
    from ctc_align.models import huggingface

    monkeypatch.setattr(huggingface, "resolve_device", lambda device: device)
    model = huggingface.load(str(made.checkpoint(tmp_path, kind)), NOWHERE, SETTINGS, folder=True)
    for emissions in (model.emissions(SHORT), model.emissions(LONG), *model.emissions_batch([SHORT, LONG])):
        assert emissions.log_probs.device == NOWHERE


def test_a_copy_to_the_cpu_is_seen(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As it was: what the network returns goes to the CPU at once."""
    model = convnet_model.load_folder(tiny_folder(tmp_path, ("<blank>", *"abcde")), NOWHERE, SETTINGS)
    network = model.network
    monkeypatch.setattr(model, "network", lambda inputs: tuple(output.cpu() for output in network(inputs)))
    with pytest.raises(NotImplementedError, match="meta"):
        model.emissions(SHORT)
