"""Models on the Hugging Face hub: a repository's files in a local folder.

`HF_HUB_OFFLINE`, `HF_HOME` and `HF_ENDPOINT` work as in every program that uses huggingface_hub.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from ctc_align.config import Settings
from ctc_align.errors import UsageError, one_line

DESCRIPTIONS = ("*.json", "*.txt", "*.model")
"""Small files: configuration, tokenizer, feature extractor."""
SAFE_WEIGHTS = ("model.safetensors", "model-*-of-*.safetensors")
PICKLED_WEIGHTS = ("pytorch_model.bin", "pytorch_model-*-of-*.bin")
"""Pickles of tensors; anything else in them is refused when they are read."""
_PATH_PREFIXES = (".", "/", "~")


def is_folder(target: str) -> bool:
    """Return whether `target` names a folder (also a Windows path) rather than a repository ORG/NAME.

    >>> is_folder("./model"), is_folder("facebook/wav2vec2-base-960h")
    (True, False)
    """
    return target.startswith(_PATH_PREFIXES) or "\\" in target or target[1:2] == ":"


@dataclass(frozen=True)
class HubSource:
    """The origin of a model, a folder or a repository ORG/NAME; `name` is what the user wrote.

    `revision` and `cache_dir` of the settings are used.
    """

    name: str
    target: str
    settings: Settings
    folder: bool = False

    def description(self) -> Path:
        """Return the folder with `config.json` and the other small files; those of a repository are downloaded.

        Raises:
            UsageError: no such folder, repository or revision, no access to it, no network, no room.
        """
        if self.folder:
            return self._local()
        folder = self._snapshot(DESCRIPTIONS)
        if not (folder / "config.json").is_file():
            raise UsageError(f"model {self.name}: the repository has no config.json: it is no model of transformers")
        return folder

    def weights(self, *further: str) -> Path:
        """Return the folder with the weights too, safetensors if there are any, and with `further` files (patterns).

        Raises:
            UsageError: as `description`, or no weights.
        """
        if self.folder:
            folder = self._local()
            if not any(_has(folder, weights) for weights in (SAFE_WEIGHTS, PICKLED_WEIGHTS)):
                raise UsageError(
                    f"model {self.name}: {folder} lacks the weights, {SAFE_WEIGHTS[0]}: copy them there too"
                )
            return folder
        for weights in (SAFE_WEIGHTS, PICKLED_WEIGHTS):
            folder = self._snapshot((*DESCRIPTIONS, *weights, *further))
            if _has(folder, weights):
                return folder
        raise UsageError(
            f"model {self.name}: {self.target} has neither {SAFE_WEIGHTS[0]} nor {PICKLED_WEIGHTS[0]}, or they are not "
            "in the cache: load it once with a network and without HF_HUB_OFFLINE"
        )

    def _local(self) -> Path:
        folder = Path(self.target).expanduser()
        if not folder.is_dir():
            got = "got a file" if folder.exists() else "no such folder"
            raise UsageError(f"model {self.name}: expected the folder of a model of transformers, {got}: {self.target}")
        if not (folder / "config.json").is_file():
            raise UsageError(
                f"model {self.name}: {self.target} has no config.json, which save_pretrained of transformers writes"
            )
        return folder

    def _snapshot(self, patterns: tuple[str, ...]) -> Path:
        return _snapshot(self.target, self.name, self.settings, patterns)


def _has(folder: Path, patterns: tuple[str, ...]) -> bool:
    return any(any(folder.glob(pattern)) for pattern in patterns)


def _snapshot(repository: str, name: str, settings: Settings, patterns: tuple[str, ...]) -> Path:
    from huggingface_hub import errors, snapshot_download

    revision, cache_dir = settings.revision or None, settings.cache_dir
    try:
        return Path(
            snapshot_download(
                repository,
                revision=revision,
                cache_dir=Path(cache_dir).expanduser() if cache_dir else None,
                allow_patterns=list(patterns),
            )
        )
    except errors.GatedRepoError as error:
        raise UsageError(
            f"model {name}: {repository} asks for its licence to be accepted: do so on its page, then `hf auth login`"
        ) from error
    except errors.RepositoryNotFoundError as error:
        raise UsageError(
            f"model {name}: the hub has no repository {repository}, or it is private (`hf auth login`); "
            "a folder is written hf:./FOLDER"
        ) from error
    except errors.RevisionNotFoundError as error:
        raise UsageError(
            f"model {name}: {repository} has no revision {revision!r}: expected a branch, tag or commit"
        ) from error
    except errors.HFValidationError as error:
        raise UsageError(f"model {name}: expected hf:ORG/NAME or hf:./FOLDER, got {repository!r}") from error
    except errors.LocalEntryNotFoundError as error:
        raise UsageError(
            f"model {name}: not in the cache, or not whole, and the hub cannot be reached: connect once (unset "
            "HF_HUB_OFFLINE), or give the model as a folder: hf:./FOLDER"
        ) from error
    except errors.HfHubHTTPError as error:
        raise UsageError(f"model {name}: the hub refused: {one_line(error)}: try again later") from error
    except OSError as error:
        raise UsageError(f"model {name}: cannot be downloaded: {one_line(error)}") from error
