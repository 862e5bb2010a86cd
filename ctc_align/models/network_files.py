"""Files of small networks beside a model.

They hold weights in half precision, and a description of the network. The file format is
safetensors. Its metadata contain the description as JSON under the key `ctc-align`: `format`, which
names the kind of network and its version, and the values that are needed to build the network
again.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from ctc_align.errors import ConfigError, one_line
from ctc_align.reading import parse_json

KEY = "ctc-align"
"""Names the description in the metadata of a file."""
Network = TypeVar("Network")


def read_network(
    path: Path,
    what: str,
    form: str,
    build: Callable[[Mapping[str, Any], Mapping[str, np.ndarray]], Network],
) -> Network | None:
    """Return the network in a file, for inference; None if there is no file.

    Args:
        path: of the file.
        what: the network's name in an error, such as "a confidence network".
        form: the `format` that the description must have.
        build: returns the network for a description and weights by name (float32), after checking
            both. If something is missing or wrong, its KeyError, TypeError, ValueError or
            AttributeError becomes the error.

    Raises:
        ConfigError: the file was not written by training.
    """
    from safetensors import SafetensorError, safe_open

    if not path.is_file():
        return None
    try:
        with safe_open(path, framework="numpy") as file:
            about = parse_json((file.metadata() or {}).get(KEY, "{}"))
            weights = {name: file.get_tensor(name).astype(np.float32) for name in file.keys()}  # noqa: SIM118 (no mapping)
        if about["format"] != form:
            raise ValueError("another format")
        return build(about, weights)
    except (
        SafetensorError,
        KeyError,
        TypeError,
        ValueError,
        RuntimeError,
        AttributeError,
        OSError,
    ) as error:
        raise ConfigError(
            f"{path}: expected {what} ({form}), got a file without it: {one_line(error)}"
        ) from error


def check_weights(weights: Mapping[str, np.ndarray], shapes: Mapping[str, tuple[int, ...]]) -> None:
    """Raise ValueError unless the weights have the names and shapes of a network's."""
    for name, shape in shapes.items():
        if name not in weights:
            raise ValueError(f"{name} is missing")
        if weights[name].shape != shape:
            raise ValueError(f"{name}: expected the shape {shape}, got {weights[name].shape}")
    if others := sorted(weights.keys() - shapes.keys()):
        raise ValueError(f"{others[0]} is not a weight of this network")


def network_bytes(
    weights: Mapping[str, np.ndarray], form: str, about: Mapping[str, object]
) -> bytes:
    """Return the contents of a network's file.

    Args:
        weights: by name; they are written in half precision.
        form: the `format` of the description.
        about: the rest of the description, as values that JSON can hold.
    """
    # safetensors' own `save_file` makes files that only their owner can read
    from safetensors.numpy import save

    halves = {name: np.ascontiguousarray(weight, np.float16) for name, weight in weights.items()}
    return bytes(save(halves, {KEY: json.dumps({"format": form, **about}, ensure_ascii=False)}))
