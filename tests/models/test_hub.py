"""Where models of transformers come from, and the one line for each way in which they do not."""

from __future__ import annotations

import json
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
import torch
from made_sounds import babble
from made_transformers import LETTERS, checkpoint, network, tokenizer

from ctc_align.config import Settings
from ctc_align.errors import UsageError
from ctc_align.models import load_model
from ctc_align.types import Audio

pytest.importorskip("huggingface_hub")
import huggingface_hub.constants as hub_constants
from huggingface_hub import errors as hub_errors

COMMIT = "0123456789abcdef0123456789abcdef01234567"
HEARD = Audio(babble(1.0), 16000)


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return checkpoint(tmp_path_factory.mktemp("made"), "wav2vec2-group")


@pytest.fixture
def folder(made: Path, tmp_path: Path) -> Path:
    """A copy that a test may spoil."""
    copy = tmp_path / "model"
    copy.mkdir()
    for file in made.iterdir():
        (copy / file.name).write_bytes(file.read_bytes())
    return copy


def said(name: str, **settings: Any) -> str:
    with pytest.raises(UsageError) as caught:
        load_model(name, device="cpu", settings=Settings(**settings))
    assert "\n" not in str(caught.value)
    return str(caught.value)


def cached(made: Path, cache: Path, branch: str = "main") -> None:
    """A cache as the hub's library leaves it behind a download."""
    repository = cache / "models--someone--something"
    snapshot = repository / "snapshots" / COMMIT
    snapshot.mkdir(parents=True, exist_ok=True)
    (repository / "refs").mkdir(exist_ok=True)
    (repository / "refs" / branch).write_text(COMMIT)
    for file in made.iterdir():
        (snapshot / file.name).write_bytes(file.read_bytes())


@pytest.mark.parametrize("written", ["hf:{}", "{}"])
def test_a_folder_is_loaded_from_there(written: str, made: Path) -> None:
    assert load_model(written.format(made), device="cpu").vocab == LETTERS


def test_a_folder_may_be_relative(made: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(made.parent)
    assert load_model(f"hf:./{made.name}", device="cpu").vocab == LETTERS


def test_the_cache_is_enough_when_offline(made: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """HF_HUB_OFFLINE, --cache-dir and --revision: the same log-probs as from the folder."""
    monkeypatch.setattr(hub_constants, "HF_HUB_OFFLINE", True)
    cached(made, tmp_path, "spring")
    settings = Settings(cache_dir=str(tmp_path), revision="spring")
    from_cache = load_model("hf:someone/something", device="cpu", settings=settings)
    torch.testing.assert_close(
        from_cache.emissions(HEARD).log_probs, load_model(str(made), device="cpu").emissions(HEARD).log_probs
    )
    assert "not in the cache" in said("hf:someone/something", cache_dir=str(tmp_path), revision="autumn")
    assert "not in the cache" in said("hf:someone/else", cache_dir=str(tmp_path))
    (tmp_path / "models--someone--something" / "snapshots" / COMMIT / "model.safetensors").unlink()
    message = said("hf:someone/something", cache_dir=str(tmp_path), revision="spring")
    assert "neither model.safetensors nor pytorch_model.bin" in message
    assert "without HF_HUB_OFFLINE" in message


def test_no_network_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hub_constants, "ENDPOINT", "http://127.0.0.1:9")
    message = said("hf:someone/something", cache_dir=str(tmp_path))
    assert "the hub cannot be reached: connect once" in message
    assert "hf:./FOLDER" in message


class Answer:
    """Of the hub, as its errors want it."""

    headers: dict[str, str] = {}  # noqa: RUF012
    status_code = 404
    request = None


def refusal(kind: type[Exception]) -> Callable[..., None]:
    def download(*args: Any, **options: Any) -> None:
        try:
            error = kind("why\nand more", response=Answer())
        except TypeError:
            error = kind("why\nand more")
        raise error

    return download


@pytest.mark.parametrize(
    ("kind", "remedy"),
    [
        (hub_errors.RepositoryNotFoundError, "no repository someone/something, or it is private"),
        (hub_errors.GatedRepoError, "asks for its licence to be accepted"),
        (hub_errors.RevisionNotFoundError, "no revision 'main'"),
        (hub_errors.LocalEntryNotFoundError, "the hub cannot be reached"),
        (hub_errors.HfHubHTTPError, "the hub refused: why and more: try again later"),
        (OSError, "cannot be downloaded: why and more"),
    ],
)
def test_what_the_hub_says_is_one_line(kind: type[Exception], remedy: str, monkeypatch: pytest.MonkeyPatch) -> None:
    import huggingface_hub

    monkeypatch.setattr(huggingface_hub, "snapshot_download", refusal(kind))
    assert remedy in said("hf:someone/something")


@pytest.mark.parametrize("name", ["hf:", "hf:some/thing/else", "hf:so me/thing"])
def test_what_is_no_repository_is_told(name: str) -> None:
    assert "expected hf:ORG/NAME or hf:./FOLDER" in said(name)


def test_a_missing_extra_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    import sys

    monkeypatch.setitem(sys.modules, "transformers", None)
    assert "pip install 'ctc-align[hf]'" in said("hf:someone/something")


def test_folders_that_hold_no_model_are_told(tmp_path: Path) -> None:
    assert "no such folder" in said(f"hf:{tmp_path}/nothing")
    (tmp_path / "file").touch()
    assert "got a file" in said(f"hf:{tmp_path}/file")
    assert "has no config.json" in said(f"hf:{tmp_path}")
    (tmp_path / "config.json").write_text("{")
    assert "config.json cannot be read" in said(f"hf:{tmp_path}")
    (tmp_path / "config.json").write_text('{"model_type": "unheard-of"}')
    assert "config.json cannot be read" in said(f"hf:{tmp_path}")


@pytest.mark.parametrize(
    ("config", "got"),
    [
        ({"model_type": "whisper", "architectures": ["WhisperForConditionalGeneration"]}, "got whisper (Whisper"),
        ({"model_type": "bert"}, "got bert (no architecture)"),
    ],
)
def test_a_model_of_another_family_is_told(config: dict[str, Any], got: str, folder: Path) -> None:
    (folder / "config.json").write_text(json.dumps(config))
    message = said(str(folder))
    assert "expected a CTC head (wav2vec2, hubert" in message
    assert got in message


def test_a_network_without_its_head_is_told(folder: Path) -> None:
    """Such as a model that was pretrained only: its head would be random."""
    model = network("wav2vec2-group")
    model.wav2vec2.save_pretrained(folder)
    message = said(str(folder))
    assert "the weights lack lm_head.bias, lm_head.weight" in message
    assert "got architecture Wav2Vec2Model" in message


def test_half_a_download_is_told(folder: Path) -> None:
    weights = folder / "model.safetensors"
    whole = weights.read_bytes()
    for length in (0, 5, 100, len(whole) // 2, len(whole) - 1):
        weights.write_bytes(whole[:length])
        assert f"was a download cut? then delete {folder}" in said(str(folder))
    weights.unlink()
    assert "lacks the weights, model.safetensors" in said(str(folder))


def test_a_pickle_runs_nothing(folder: Path, tmp_path: Path) -> None:
    (folder / "model.safetensors").unlink()
    torch.save(network("wav2vec2-group").state_dict(), folder / "pytorch_model.bin")
    assert load_model(str(folder), device="cpu").vocab == LETTERS
    trace = tmp_path / "it-ran"

    class Payload:
        def __reduce__(self) -> Any:
            return Path.touch, (trace,)

    torch.save({"lm_head.weight": Payload()}, folder / "pytorch_model.bin")
    assert "its weights cannot be read" in said(str(folder))
    assert not trace.exists()


@pytest.mark.parametrize(
    ("file", "maps"),
    [
        ("config.json", {"AutoConfig": "evil.Config", "AutoModelForCTC": "evil.Config"}),
        ("preprocessor_config.json", {"AutoFeatureExtractor": "evil.Config"}),
        ("tokenizer_config.json", {"AutoTokenizer": ["evil.Config", None]}),
    ],
)
def test_code_of_a_folder_is_neither_run_nor_asked_about(
    file: str, maps: dict[str, Any], folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    trace = folder / "it-ran"
    (folder / "evil.py").write_text(f"open({str(trace)!r}, 'w')\nclass Config: pass\n")
    monkeypatch.setattr("builtins.input", lambda *_: "y")
    data = json.loads((folder / file).read_text())
    renamed = {key: "unheard-of" for key in ("model_type", "feature_extractor_type", "tokenizer_class") if key in data}
    for changes in ({}, renamed):
        (folder / file).write_text(json.dumps({**data, **changes, "auto_map": maps}))
        with suppress(UsageError):
            load_model(str(folder), device="cpu")
        assert not trace.exists()


def test_a_missing_extractor_or_tokenizer_is_told(folder: Path) -> None:
    for name in ("processor_config.json", "preprocessor_config.json"):
        (folder / name).unlink(missing_ok=True)
    assert "feature extractor (preprocessor_config.json) is missing" in said(str(folder))


def test_no_tokenizer_is_told(folder: Path) -> None:
    (folder / "vocab.json").unlink()
    assert "its tokenizer (vocab.json or tokenizer.json) is missing" in said(str(folder))


def test_another_model_s_vocabulary_is_told(folder: Path) -> None:
    tokenizer(folder, (*LETTERS, "ä", "ö")).save_pretrained(folder)
    assert f"tokens beyond the network's {len(LETTERS)} classes (ä, ö)" in said(str(folder))


def test_classes_without_tokens_are_no_letters(folder: Path, caplog: pytest.LogCaptureFixture) -> None:
    tokenizer(folder, LETTERS[:-2]).save_pretrained(folder)
    model = load_model(str(folder), device="cpu")
    assert model.vocab[-2:] == (f"<no-token-{len(LETTERS) - 2}>", f"<no-token-{len(LETTERS) - 1}>")
    assert f"2 of the network's {len(LETTERS)} classes have no token" in caplog.text
