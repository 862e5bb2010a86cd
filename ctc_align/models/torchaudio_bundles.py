"""`torchaudio:NAME`: the CTC bundles of torchaudio.pipelines.

They range from WAV2VEC2_ASR_BASE_960H to MMS_FA. Labels, blank and rate are the bundle's. MMS_FA's
star, which matches any speech, is its last label: the token `*` with log-prob 0 at every frame, as
in torchaudio; the other classes are a distribution without it.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn

from ctc_align.config import Settings
from ctc_align.errors import UsageError, one_line
from ctc_align.extras import install_line
from ctc_align.models.acoustic_model import TORCHAUDIO, Device, torch_device
from ctc_align.models.framewise import Convolution, FrameGrid, NetworkFacts
from ctc_align.models.torch_networks import TorchModel, time_norm

BLANK = 0
"""Index of the blank in every bundle's `get_labels`."""
STAR = "*"

_NORM_EPSILON = 1e-5
"""The default of torch's layer_norm, which bundles apply to the waveform."""


def load(name: str, device: str | Device | torch.device, settings: Settings) -> TorchModel:
    """Load the bundle torchaudio:NAME.

    Its weights are downloaded once, into `settings.cache_dir` if that is set.

    Raises:
        UsageError: torchaudio is missing or does not fit this torch, there is no such bundle or no
            network, or the bundle has no labels or damaged weights.
    """
    device = torch_device(device)
    pipelines = _pipelines()
    bundle = _bundle(pipelines, name)
    star = isinstance(bundle, type(pipelines.MMS_FA))
    network = _network(bundle, name, settings)
    layers = list(network.feature_extractor.conv_layers)
    norms, stem = time_norm(layers[0])
    facts = NetworkFacts(
        name=name,
        vocab=tuple(bundle.get_labels()),
        blank=BLANK,
        sample_rate=int(bundle.sample_rate),
        grid=FrameGrid(tuple(Convolution(layer.kernel_size, layer.stride) for layer in layers)),
        norms=norms,
        stem=stem,
        norm_epsilon=_NORM_EPSILON if bundle._normalize_waveform else None,
    )
    return Bundle(facts, network, device, settings, star=star)


def names() -> list[str]:
    """Return the names of the bundles that `load` takes, without the prefix.

    Raises:
        UsageError: torchaudio is missing or does not fit this torch.
    """
    pipelines = _pipelines()
    return sorted(name for name in dir(pipelines) if _labelled(getattr(pipelines, name)))


class Bundle(TorchModel):
    """A network of torchaudio with its bundle's star."""

    def __init__(
        self,
        facts: NetworkFacts,
        network: nn.Module,
        device: torch.device,
        settings: Settings,
        *,
        star: bool,
    ) -> None:
        super().__init__(facts, network, device, settings)
        self._star = star

    def _logits(self, inputs: torch.Tensor, lengths: torch.Tensor | None) -> torch.Tensor:
        logits, _ = self.network(inputs, lengths)
        return logits

    def _scores(self, inputs: np.ndarray, lengths: np.ndarray | None) -> torch.Tensor:
        log_probs = super()._scores(inputs, lengths)
        if self._star:
            return nn.functional.pad(log_probs, (0, 1))
        return log_probs


def _pipelines() -> Any:
    try:
        from torchaudio import pipelines
    except (ImportError, OSError, RuntimeError, AttributeError) as error:
        raise UsageError(
            f"{TORCHAUDIO} torchaudio is missing or does not fit torch {torch.__version__}: in an"
            f" environment of its own, {install_line('torchaudio')} (torch 2.11 with torchaudio"
            f" 2.11) ({one_line(error, 160)})"
        ) from error
    return pipelines


def _labelled(bundle: Any) -> bool:
    return hasattr(bundle, "get_labels") and not isinstance(bundle, type)


def _bundle(pipelines: Any, name: str) -> Any:
    wanted = name.removeprefix(TORCHAUDIO)
    if wanted in dir(pipelines):
        bundle = getattr(pipelines, wanted, None)
    else:
        bundle = None
    if _labelled(bundle):
        return bundle
    if bundle is None:
        got = "no such bundle"
    else:
        got = "it has no labels, so it was not trained with CTC"
    raise UsageError(f"model {name}: {got}; expected one of {', '.join(names())}")


def _network(bundle: Any, name: str, settings: Settings) -> Any:
    """Return the network without the bundle's wrapper, which takes only one utterance at a time."""
    folder = settings.cache_dir
    # a pickle of tensors and nothing else
    options: dict[str, Any] = {"weights_only": True, "map_location": "cpu"}
    if folder:
        options["model_dir"] = str(Path(folder).expanduser())
    try:
        network = bundle.get_model(dl_kwargs=options)
    except OSError as error:  # urllib's errors are among them
        raise UsageError(
            f"model {name}: its weights cannot be downloaded ({one_line(error)}): connect, or put"
            f" the file {_file(bundle)} into {folder or '$TORCH_HOME/hub/checkpoints'}"
        ) from error
    except (
        Exception
    ) as error:  # torch has many kinds for a file that is cut, and all mean the same here
        raise UsageError(
            f"model {name}: its weights cannot be read (was a download cut off?): delete"
            f" {_file(bundle)} in {folder or '$TORCH_HOME/hub/checkpoints'} and load it again:"
            f" {one_line(error)}"
        ) from error
    return getattr(network, "model", network)


def _file(bundle: Any) -> str:
    return bundle._path.rpartition("/")[2]
