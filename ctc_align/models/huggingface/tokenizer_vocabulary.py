"""What a tokenizer of transformers says of a network's classes: their tokens, the blank, what parts words."""

from __future__ import annotations

import json
import logging
from pathlib import Path
from typing import Any

from ctc_align.errors import UsageError
from ctc_align.models.huggingface import language_codes

SEPARATOR = "|"
"""How the token between words is written in a vocabulary of ours, whatever the tokenizer calls it."""
KNOWN_SEPARATORS = (SEPARATOR, "▁", " ", "<space>", "[SPACE]", "<SPACE>")

logger = logging.getLogger(__name__)


def load_tokenizer(folder: Path, name: str) -> Any:
    """The tokenizer in a model's folder.

    Raises:
        UsageError: there is none, or it cannot be read.
    """
    from transformers import AutoTokenizer

    try:
        # phonemes come from our lexicon, not from a phonemizer that the tokenizer would ask for
        more = {"do_phonemize": False} if _says(folder, "tokenizer_class") == "Wav2Vec2PhonemeCTCTokenizer" else {}
        return AutoTokenizer.from_pretrained(str(folder), **more)
    except Exception as error:  # transformers raises whatever it meets: OSError, ValueError, TypeError, ImportError …
        reason = " ".join(str(error).split())[:200]
        raise UsageError(
            f"model {name}: its tokenizer (vocab.json or tokenizer.json) is missing, damaged or unknown: {reason}"
        ) from error


def set_language(tokenizer: Any, language: str, name: str) -> str | None:
    """Choose the vocabulary of a language where the tokenizer has one for each; the language as the model writes it.

    Raises:
        UsageError: the tokenizer does not know the language.
    """
    nested = getattr(tokenizer, "vocab", None)
    if not isinstance(nested, dict) or not nested or not all(isinstance(part, dict) for part in nested.values()):
        return None
    chosen = language_codes.choose(language, nested, name)
    tokenizer.set_target_lang(chosen)
    return chosen


def vocabulary(tokenizer: Any, folder: Path, classes: int, name: str) -> tuple[str, ...]:
    """The token of each class; `folder` is the tokenizer's own.

    Special tokens are in brackets, so that they are never taken for letters; the token between words is `|`.

    Raises:
        UsageError: the tokenizer has more tokens than the network has classes: it belongs to another model.
    """
    ids = _ids(tokenizer)
    special = set(tokenizer.all_special_tokens)
    # transformers 5 forgets a delimiter other than its own when it loads a tokenizer
    delimiter = _says(folder, "word_delimiter_token") or getattr(tokenizer, "word_delimiter_token", None)
    beyond = sorted(token for token, index in ids.items() if index >= classes and token not in special)
    if beyond:
        raise UsageError(
            f"model {name}: the tokenizer has tokens beyond the network's {classes} classes ({', '.join(beyond[:5])}): "
            "it is another model's: copy vocab.json and tokenizer_config.json of this one"
        )
    tokens = [f"<no-token-{index}>" for index in range(classes)]
    for token, index in ids.items():
        if index < classes:
            tokens[index] = _written(token, special, delimiter, ids)
    without = sum(token.startswith("<no-token-") for token in tokens)
    if without:
        logger.warning("model %s: %d of the network's %d classes have no token", name, without, classes)
    return tuple(tokens)


def blank_of(tokenizer: Any, config: Any, classes: int, name: str) -> int:
    """The blank: the tokenizer's padding token, else the one of the model's configuration.

    Raises:
        UsageError: neither is one of the network's classes.
    """
    for index in (getattr(tokenizer, "pad_token_id", None), getattr(config, "pad_token_id", None)):
        if index is not None and 0 <= index < classes:
            return int(index)
    raise UsageError(
        f"model {name}: expected the blank as pad_token of the tokenizer or pad_token_id of config.json, "
        f"below {classes}: neither says so"
    )


def _ids(tokenizer: Any) -> dict[str, int]:
    """Tokens and their ids; of two tokens with one id, the vocabulary's own comes before an added one."""
    own = getattr(tokenizer, "encoder", None)
    if not isinstance(own, dict):
        return {str(token): int(index) for token, index in tokenizer.get_vocab().items()}
    taken = set(own.values())
    added = {token: index for token, index in tokenizer.get_vocab().items() if token not in own and index not in taken}
    return own | added


def _written(token: str, special: set[str], delimiter: str | None, ids: dict[str, int]) -> str:
    if token == delimiter and token not in KNOWN_SEPARATORS and SEPARATOR not in ids:
        return SEPARATOR
    bracketed = len(token) > 2 and (token[0] + token[-1]) in ("<>", "[]")
    return f"<{token}>" if token in special and token != delimiter and not bracketed else token


def _says(folder: Path, key: str) -> Any:
    """What `tokenizer_config.json` says of `key`, a token's text; None where it says nothing."""
    try:
        said = json.loads((folder / "tokenizer_config.json").read_text(encoding="utf-8")).get(key)
        return said["content"] if isinstance(said, dict) else said
    except (OSError, ValueError, AttributeError, KeyError):
        return None
