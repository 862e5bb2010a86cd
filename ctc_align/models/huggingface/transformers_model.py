"""`hf:ORG/NAME`, `hf:./FOLDER`: networks of `transformers` with a CTC head.

wav2vec 2.0 (and MMS with its parts for each language), HuBERT, WavLM, SEW, SEW-D, data2vec-audio, UniSpeech,
UniSpeech-SAT and wav2vec 2.0 Conformer take samples, Wav2Vec2-BERT takes mel features. The model's feature extractor
and tokenizer give the rate, the normalisation, the blank and the word separator.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn

from ctc_align.config import ENGLISH, Settings
from ctc_align.errors import UsageError, one_line
from ctc_align.extras import install_line
from ctc_align.models.acoustic_model import resolve_device
from ctc_align.models.framewise.frame_times import Convolution, FrameGrid
from ctc_align.models.framewise.framewise_model import FrameModel, NetworkFacts, Signal, standardised
from ctc_align.models.huggingface import tokenizer_vocabulary
from ctc_align.models.huggingface.hub import HubSource, is_folder
from ctc_align.types import Audio

PREFIX = "hf:"
WAVEFORM = (
    "wav2vec2",
    "hubert",
    "wavlm",
    "sew",
    "sew-d",
    "data2vec-audio",
    "unispeech",
    "unispeech-sat",
    "wav2vec2-conformer",
)
FEATURES = ("wav2vec2-bert",)
SQUEEZED = ("sew", "sew-d")
"""They pool pairs of frames, and a last odd one alone: padding would change it."""

_NORM_EPSILON = 1e-7
_FBANK = Convolution(400, 160)
"""Samples to one frame of the filter bank of Wav2Vec2-BERT."""
_BLOCK_FRAMES = 6000
"""Frames of the filter bank computed at once."""


def load(name: str, device: str | torch.device, settings: Settings, *, folder: bool = False) -> FrameModel:
    """Load the model `name`: hf:ORG/NAME, hf:./FOLDER, or with `folder` the path of a folder.

    Raises:
        UsageError: `transformers` is missing, no such model, one without a CTC head, damaged files.
    """
    device = resolve_device(device)
    _require()
    target = name.removeprefix(PREFIX)
    source = HubSource(name, target, settings, folder or is_folder(target))
    description = source.description()
    with _quiet():
        config = _config(description, name)
        extractor = _extractor(description, name)
        tokenizer = tokenizer_vocabulary.load_tokenizer(description, name)
        language = tokenizer_vocabulary.set_language(tokenizer, settings.language or ENGLISH, name)
        further = (f"adapter.{language}.safetensors", f"adapter.{language}.bin") if language else ()
        network = _network(source.weights(*further), config, name)
        if language and getattr(config, "adapter_attn_dim", None):
            _load_adapter(network, language, name)
    classes = network.lm_head.out_features
    mel = config.model_type in FEATURES
    norms, stem = ((), None) if mel else _norms(_body(network))
    facts = NetworkFacts(
        name=name,
        vocab=tokenizer_vocabulary.vocabulary(tokenizer, description, classes, name),
        blank=tokenizer_vocabulary.blank_of(tokenizer, config, classes, name),
        sample_rate=int(extractor.sampling_rate),
        grid=_mel_grid(network, extractor) if mel else _waveform_grid(network, config),
        front=2 if mel else 0,
        pads=config.model_type not in SQUEEZED,
        norms=norms,
        stem=stem,
    )
    return (MelNetwork if mel else WaveformNetwork)(facts, network, extractor, device, settings)


class WaveformNetwork(FrameModel):
    """A network of transformers that takes samples, standardised if its feature extractor does so."""

    def __init__(
        self, facts: NetworkFacts, network: nn.Module, extractor: Any, device: torch.device, settings: Settings
    ) -> None:
        super().__init__(facts, network, device, settings)
        self._normalises = bool(extractor.do_normalize)

    def _signal(self, audio: Audio) -> Signal:
        return standardised(audio.samples, _NORM_EPSILON) if self._normalises else Signal(audio.samples)

    def _logits(self, inputs: torch.Tensor, lengths: torch.Tensor | None) -> torch.Tensor:
        with warnings.catch_warnings():  # WavLM gives torch two masks of different types
            warnings.filterwarnings("ignore", "Support for mismatched key_padding_mask")
            return self.network(inputs, attention_mask=_mask(inputs, lengths)).logits


class MelNetwork(FrameModel):
    """A network of transformers that takes a filter bank, each channel standardised over the utterance."""

    def __init__(
        self, facts: NetworkFacts, network: nn.Module, extractor: Any, device: torch.device, settings: Settings
    ) -> None:
        super().__init__(facts, network, device, settings)
        self._extractor = extractor

    def _signal(self, audio: Audio) -> Signal:
        count = _FBANK.outputs(len(audio.samples))
        # each channel's frames side by side, as in the extractor: sums round as there
        features = np.empty((self._extractor.num_mel_bins, count), np.float32).T
        for first in range(0, count, _BLOCK_FRAMES):
            last = min(count, first + _BLOCK_FRAMES)
            samples = audio.samples[first * _FBANK.stride : (last - 1) * _FBANK.stride + _FBANK.kernel]
            features[first:last] = self._extractor._extract_fbank_features(samples)
        mean, variance = features.mean(0), features.var(0, ddof=1)
        # the extractor pads the last odd frame and masks it: it is not used
        together = self._extractor.stride
        rows = features[: count // together * together].reshape(-1, together * features.shape[1])
        deviation = np.sqrt(variance + _NORM_EPSILON)
        return Signal(rows, *(np.tile(each, together).astype(np.float32) for each in (mean, deviation)))

    def _logits(self, inputs: torch.Tensor, lengths: torch.Tensor | None) -> torch.Tensor:
        return self.network(inputs, attention_mask=_mask(inputs, lengths)).logits


def _mask(inputs: torch.Tensor, lengths: torch.Tensor | None) -> torch.Tensor | None:
    """Return the mask (B, N) int64, 1 within an utterance; None if nothing is padded."""
    if lengths is None:
        return None
    return (torch.arange(inputs.shape[1], device=inputs.device) < lengths[:, None]).long()


def _body(network: Any) -> Any:
    """Return the network without its head."""
    return getattr(network, network.base_model_prefix.replace("-", "_"))  # versions before 5 say "sew-d"


def _waveform_grid(network: Any, config: Any) -> FrameGrid:
    body = _body(network)
    layers = (_convolution(layer.conv) for layer in body.feature_extractor.conv_layers)
    return FrameGrid((*layers, *_adapters(body)), config.squeeze_factor if config.model_type in SQUEEZED else 1)


def _mel_grid(network: Any, extractor: Any) -> FrameGrid:
    return FrameGrid((_FBANK, Convolution(extractor.stride, extractor.stride), *_adapters(_body(network))))


def _norms(body: Any) -> tuple[tuple[tuple[nn.Module, str], ...], nn.Module | None]:
    """Return the norm over time behind the first convolution, and that convolution; nothing if there is none."""
    first = body.feature_extractor.conv_layers[0]
    if not isinstance(getattr(first, "layer_norm", None), nn.GroupNorm):
        return (), None
    return ((first, "layer_norm"),), first.conv


def _convolution(module: nn.Conv1d) -> Convolution:
    padding = module.padding[0]
    assert isinstance(padding, int)
    return Convolution(module.kernel_size[0], module.stride[0], padding)


def _adapters(body: Any) -> list[Convolution]:
    """Return the convolutions behind the encoder, which lengthen the stride."""
    adapter = getattr(body, "adapter", None)
    layers = [] if adapter is None else adapter.layers
    return [_convolution(getattr(layer, "residual_conv", None) or layer.conv) for layer in layers]


def _config(folder: Path, name: str) -> Any:
    from transformers import AutoConfig

    try:
        config = AutoConfig.from_pretrained(str(folder), trust_remote_code=False)
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise UsageError(f"model {name}: config.json cannot be read: {one_line(error)}") from error
    if config.model_type not in (*WAVEFORM, *FEATURES):
        made = ", ".join(getattr(config, "architectures", None) or []) or "no architecture"
        raise UsageError(
            f"model {name}: expected a CTC head ({', '.join((*WAVEFORM, *FEATURES))}), "
            f"got {config.model_type} ({made}): choose a model that was fine-tuned with CTC"
        )
    return config


def _extractor(folder: Path, name: str) -> Any:
    from transformers import AutoFeatureExtractor

    try:
        extractor = AutoFeatureExtractor.from_pretrained(str(folder), trust_remote_code=False)
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise UsageError(
            f"model {name}: its feature extractor (preprocessor_config.json) is missing or damaged: {one_line(error)}"
        ) from error
    kind = type(extractor).__name__
    if kind not in ("Wav2Vec2FeatureExtractor", "SeamlessM4TFeatureExtractor"):
        raise UsageError(f"model {name}: expected the feature extractor of wav2vec 2.0 or Wav2Vec2-BERT, got {kind}")
    return extractor


def _network(folder: Path, config: Any, name: str) -> Any:
    from transformers import AutoModelForCTC

    try:
        network, report = AutoModelForCTC.from_pretrained(
            str(folder), config=config, output_loading_info=True, trust_remote_code=False
        )
    except Exception as error:  # safetensors, torch and transformers have their own kinds, and all mean the same here
        raise UsageError(
            f"model {name}: its weights cannot be read (was a download cut? then delete {folder} and load it again): "
            f"{one_line(error)}"
        ) from error
    missing = sorted(key for key in report["missing_keys"] if not key.endswith("masked_spec_embed"))
    if missing:
        made = ", ".join(getattr(config, "architectures", None) or []) or "unknown"
        raise UsageError(
            f"model {name}: the weights lack {', '.join(missing[:3])}{' …' if missing[3:] else ''}: expected a model "
            f"fine-tuned with CTC (…ForCTC), got architecture {made}"
        )
    return network


def _load_adapter(network: Any, language: str, name: str) -> None:
    try:
        network.load_adapter(language, local_files_only=True)
    except (OSError, ValueError, KeyError) as error:
        raise UsageError(
            f"model {name}: its part for {language} (adapter.{language}.safetensors) is missing or damaged: "
            f"{one_line(error)}"
        ) from error


def _require() -> None:
    try:
        import transformers  # noqa: F401
    except ImportError as error:
        raise UsageError(
            f"{PREFIX}: models of transformers need an extra: {install_line('hf')} ({one_line(error)})"
        ) from error


@contextmanager
def _quiet() -> Iterator[None]:
    """Keep transformers' warnings and progress bars off the terminal; errors are raised as ours."""
    from transformers.utils import logging

    verbosity, bars = logging.get_verbosity(), logging.is_progress_bar_enabled()
    logging.set_verbosity_error()
    logging.disable_progress_bar()
    try:
        yield
    finally:
        logging.set_verbosity(verbosity)
        if bars:
            logging.enable_progress_bar()
