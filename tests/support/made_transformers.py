"""Checkpoints of `transformers` for tests: small random weights of each family, written by its own
save_pretrained."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
import torch
from made_models import randomise_norms

pytest.importorskip("transformers", reason="needs the extra [hf]")

import transformers
from transformers.utils import logging

logging.set_verbosity_error()
logging.disable_progress_bar()

SPECIAL = ("<pad>", "<s>", "</s>", "<unk>", "|")
LETTERS = (*SPECIAL, *"abcdefghijklmnopqrstuvwxyz", "'")
COMMON = {
    "hidden_size": 24,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
    "intermediate_size": 32,
    "conv_dim": (12,) * 7,
    "num_conv_pos_embeddings": 16,
    "num_conv_pos_embedding_groups": 2,
    "pad_token_id": 0,
}
SQUEEZED = {"squeeze_factor": 2, "conv_dim": (12,) * 13}
FAMILIES: dict[str, tuple[str, dict[str, Any]]] = {
    "wav2vec2-group": ("Wav2Vec2", {"feat_extract_norm": "group"}),
    "wav2vec2-layer": ("Wav2Vec2", {"feat_extract_norm": "layer", "do_stable_layer_norm": True}),
    "wav2vec2-adapter": (
        "Wav2Vec2",
        {"feat_extract_norm": "layer", "add_adapter": True, "num_adapter_layers": 2},
    ),
    "hubert-group": ("Hubert", {"feat_extract_norm": "group"}),
    "hubert-layer": ("Hubert", {"feat_extract_norm": "layer", "do_stable_layer_norm": True}),
    "hubert-batch-norm": ("Hubert", {"feat_extract_norm": "layer", "conv_pos_batch_norm": True}),
    "wavlm": ("WavLM", {"feat_extract_norm": "group"}),
    "wavlm-layer": ("WavLM", {"feat_extract_norm": "layer", "do_stable_layer_norm": True}),
    "sew": ("SEW", SQUEEZED),
    "sew-d": ("SEWD", {**SQUEEZED, "max_position_embeddings": 64, "position_buckets": 16}),
    "data2vec-audio": ("Data2VecAudio", {"conv_pos_kernel_size": 7, "num_conv_pos_embeddings": 3}),
    "unispeech": ("UniSpeech", {"feat_extract_norm": "group", "num_ctc_classes": 32}),
    "unispeech-sat": ("UniSpeechSat", {"feat_extract_norm": "group"}),
    "wav2vec2-conformer": (
        "Wav2Vec2Conformer",
        {"position_embeddings_type": "relative", "conv_depthwise_kernel_size": 5},
    ),
    "wav2vec2-conformer-rotary": (
        "Wav2Vec2Conformer",
        {"position_embeddings_type": "rotary", "conv_depthwise_kernel_size": 5},
    ),
    "wav2vec2-bert": ("Wav2Vec2Bert", {"conv_depthwise_kernel_size": 5}),
    "wav2vec2-bert-adapter": (
        "Wav2Vec2Bert",
        {
            "conv_depthwise_kernel_size": 5,
            "add_adapter": True,
            "num_adapter_layers": 1,
            "output_hidden_size": 24,
        },
    ),
}
"""The families, each in the forms that differ in what they do to time: class, and what its
configuration says."""


def network(kind: str, *, classes: int = len(LETTERS), seed: int = 0, **more: Any) -> Any:
    """A network of `kind` with random weights, large enough that its output moves with the
    sound."""
    family, differing = FAMILIES[kind]
    config = getattr(transformers, f"{family}Config")(
        **{**COMMON, **differing, "vocab_size": classes, **more}
    )
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        model = getattr(transformers, f"{family}ForCTC")(config).eval()
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for name, weights in model.named_parameters():
            if weights.dim() > 1 and "original0" not in name:
                fan_in = weights[0].numel()
                weights.copy_(torch.randn(weights.shape, generator=generator) * (1.2 / fan_in**0.5))
    randomise_norms(model, generator)
    return model


def tokenizer(folder: Path, vocab: Sequence[str] | dict[str, Any] = LETTERS, **more: Any) -> Any:
    """A tokenizer over `vocab`, its blank `<pad>` by default."""
    folder.mkdir(parents=True, exist_ok=True)
    file = folder / "vocab.json"
    ids = vocab if isinstance(vocab, dict) else {token: index for index, token in enumerate(vocab)}
    file.write_text(json.dumps(ids), encoding="utf-8")
    return transformers.Wav2Vec2CTCTokenizer(str(file), **more)


def extractor(kind: str, **more: Any) -> Any:
    """The feature extractor that the family was trained with."""
    if kind.startswith("wav2vec2-bert"):
        return transformers.SeamlessM4TFeatureExtractor(**{"padding_value": 1.0, **more})
    return transformers.Wav2Vec2FeatureExtractor(
        **{"do_normalize": True, "return_attention_mask": True, **more}
    )


def checkpoint(
    folder: Path,
    kind: str,
    model: Any = None,
    *,
    vocab: Sequence[str] = LETTERS,
    features: Any = None,
    **more: Any,
) -> Path:
    """A folder as users have them: weights, configuration, feature extractor, tokenizer."""
    (network(kind, classes=len(vocab)) if model is None else model).save_pretrained(folder)
    (extractor(kind) if features is None else features).save_pretrained(folder)
    tokenizer(folder, vocab, **more).save_pretrained(folder)
    return folder


@torch.no_grad()
def directly(model: Any, features: Any, samples: Any) -> torch.Tensor:
    """Log-probs (T, C) of one utterance as transformers documents its calls; frames that it masks
    are left out."""
    inputs = features(samples, sampling_rate=features.sampling_rate, return_tensors="pt")
    if "attention_mask" in inputs and inputs["attention_mask"].bool().all():
        inputs.pop("attention_mask")
    logits = model(**inputs).logits[0]
    if "attention_mask" in inputs:
        logits = logits[
            : int(model._get_feat_extract_output_lengths(inputs["attention_mask"].sum(-1))[0])
        ]
    return logits.float().log_softmax(-1)
