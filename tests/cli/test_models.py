"""ctc-align models: the list, and what a model says of itself."""

from __future__ import annotations

import importlib.util
import json
import math
import re
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import soundfile
import torch
from inline_corpus import inline_alignment  # noqa: F401 (a fixture)
from made_models import LETTERS, TINY, tiny_folder, tiny_network, tiny_universal
from made_onnx import KINDS, METADATA, write, write_tokens
from made_sounds import babble

from ctc_align.cli.models import HEADER
from ctc_align.corpus.state.resume import model_identity
from ctc_align.models import EMBEDDED, FAMILIES
from ctc_align.models.catalogue import catalogue_entries
from ctc_align.models.convnet.convnet_model import ModelDescription, save_folder
from ctc_align.models.convnet.gaussian_mixtures import VALUES, Mixtures


def listed(cli: Any) -> list[dict[str, str]]:
    result = cli("models")
    assert (result.code, result.stderr) == (0, "")
    lines = [line.split("\t") for line in result.stdout.splitlines()]
    assert tuple(lines[0]) == HEADER
    return [dict(zip(HEADER, line, strict=True)) for line in lines[1:]]


def test_what_is_here_and_what_can_be_had(cli: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        importlib.util, "find_spec", lambda name: None if name == "torchaudio" else object()
    )
    found = {row["model"]: row for row in listed(cli)}
    assert found["english"]["state"] == "inside the package"
    assert found["torchaudio:MMS_FA"]["state"] == "pip install 'ctc-align[torchaudio]'"
    assert found["torchaudio:MMS_FA"]["licence"] == "CC-BY-NC 4.0"
    assert found["torchaudio:MMS_FA"]["megabytes"] == "1262"
    assert found["hf:…"]["state"] == "downloaded when first used"
    assert found["PATH"]["state"] == "yours"


@pytest.mark.parametrize("action", [(), ("languages",), ("show", "english")])
@pytest.mark.parametrize("width", [60, 80, 160])
def test_a_terminal_gets_a_table_that_loses_nothing(
    action: tuple[str, ...], width: int, cli: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    cells = re.split(r"[\t\n]", cli("models", *action, code=0).stdout)
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    monkeypatch.setenv("COLUMNS", str(width))
    shown = re.sub(r"\x1b\[\d*m", "", cli("models", *action, code=0).stdout)
    assert "\t" not in shown
    assert max(map(len, shown.splitlines())) <= width
    assert shown.count("…") == sum(cell.count("…") for cell in cells), "no cell is cut"
    words = set(" ".join(cells).split()) - {"state", "megabytes", "hours_in_training"}
    assert width < 160 or words <= set(shown.split())


def test_every_family_and_name_is_listed() -> None:
    names = [row.name for row in catalogue_entries()]
    assert len(names) == len(set(names))
    assert set(EMBEDDED) <= set(names)
    for prefix in FAMILIES:
        assert any(name.startswith(prefix) for name in names)


def test_the_languages_of_the_universal_model(
    cli: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    tiny_universal(monkeypatch, tmp_path / "models")
    assert [row["model"] for row in listed(cli)][:2] == ["english", "universal"]
    result = cli("models", "languages")
    assert (result.code, result.stderr.count("\n")) == (0, 1)
    assert [line.split("\t") for line in result.stdout.splitlines()] == [
        ["language", "code", "script", "digits", "hours_in_training", "clips"],
        ["Dutch", "nl", "Latin", "read", "1.25", "12"],
        ["Georgian", "ka", "Georgian", "not read", "0", "96"],
        ["Hakha Chin", "cnh", "Latin", "not read", "0.1", ""],
    ]


def test_the_columns_of_the_languages_are_told(cli: Any) -> None:
    """All but those that say it themselves: a new figure wants its words, too."""
    result = cli("models", "languages")
    figures = result.stdout.splitlines()[0].split("\t")[5:]
    assert len(figures) == 6
    assert [
        name for name in figures[1:] if f"{name.split(', nats')[0]}: " not in result.stderr
    ] == []


@pytest.mark.parametrize(
    ("table", "fault"),
    [("language\thours\n", "lacks script"), ("language\tscript\thours\nnl\n", "line 2 has")],
)
def test_a_table_of_languages_that_is_none(cli, monkeypatch, tmp_path, table, fault):
    (tiny_universal(monkeypatch, tmp_path / "models") / "languages.tsv").write_text(table, "utf-8")
    assert fault in cli("models", "languages", code=2).stderr


@pytest.mark.torchaudio
def test_torchaudio_s_bundles_are_all_there() -> None:
    """Their names, licences and sizes, beside what torchaudio says of them."""
    pytest.importorskip("torchaudio", exc_type=ImportError)
    from torchaudio import pipelines
    from torchaudio.pipelines._wav2vec2 import utils

    from ctc_align.models.torchaudio_bundles import names

    told = {
        row.name.removeprefix("torchaudio:"): row
        for row in catalogue_entries()
        if row.extra == "torchaudio"
    }
    assert sorted(told) == names()
    for name, row in told.items():
        bundle = getattr(pipelines, name)
        assert (row.licence == "MIT") == ("MIT License" in bundle.__doc__)
        assert (row.licence == "CC-BY-NC 4.0") == ("BY-NC 4.0" in bundle.__doc__)
    for name in ("WAV2VEC2_ASR_BASE_960H", "MMS_FA"):
        bundle = getattr(pipelines, name)
        with torch.device("meta"):
            network = utils._get_model(bundle._model_type, bundle._params)
        numbers = sum(weights.numel() for weights in network.parameters())
        assert told[name].megabytes == round(4 * numbers / 1e6)


def test_a_model_is_shown(cli: Any, tmp_path: Any) -> None:
    folder = tiny_folder(tmp_path / "mine", LETTERS)
    result = cli("models", "show", folder)
    assert (result.code, result.stderr) == (0, "")
    told = dict(line.split("\t") for line in result.stdout.splitlines())
    assert (told["model"], told["sample_rate"], told["frame_shift_ms"]) == ("tiny", "16000", "10")
    assert (told["blank"], told["separator"], told["classes"]) == (
        '"<blank>"',
        '"|"',
        str(len(LETTERS)),
    )
    assert json.loads(told["vocabulary"]) == list(LETTERS)
    assert float(told["receptive_field_ms"]) > 20


def test_what_only_models_of_ours_have_is_shown(cli: Any, tmp_path: Path) -> None:
    network = tiny_network()
    mixtures = Mixtures(
        np.full((TINY.states, 2), -math.log(2)), *np.ones((2, TINY.states, 2, VALUES))
    )
    description = ModelDescription(
        "m", ("<blank>", *"abcde"), TINY, parts=3, token_kind="phones", language="mt"
    )

    def own(weight: float) -> dict[str, str]:
        made = replace(description, mixture_weight=weight)
        save_folder(tmp_path, made, network, None, torch.float32, mixtures)
        result = cli("models", "show", tmp_path)
        assert (result.code, result.stderr) == (0, "")
        told = dict(line.split("\t") for line in result.stdout.splitlines())
        return {
            key: value
            for key, value in told.items()
            if key.startswith(("language", "lexicon", "gaussians"))
        }

    assert own(0.5) == {"language": "mt", "gaussians_per_state": "2"}
    (tmp_path / "lexicon.txt").write_text("aba\ta b a\naba\ta b\ncab\tc a b\n", "utf-8")
    own_lexicon = {"lexicon": str(tmp_path / "lexicon.txt"), "lexicon_words": "2"}
    assert own(0.0) == {"language": "mt", **own_lexicon}
    description = replace(description, token_kind="tokens", language="")
    assert own(0.0) == {}


def test_a_network_of_transformers_is_shown(cli: Any, tmp_path: Any) -> None:
    pytest.importorskip("transformers", reason="needs the extra [hf]")
    from made_transformers import checkpoint

    result = cli("models", "show", f"hf:{checkpoint(tmp_path, 'wav2vec2-layer')}")
    assert (result.code, result.stderr) == (0, "")
    told = dict(line.split("\t") for line in result.stdout.splitlines())
    assert (told["frame_shift_ms"], told["first_frame_ms"], told["receptive_field_ms"]) == (
        "20",
        "2.5",
        "25",
    )


@pytest.fixture
def model(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.chdir(tmp_path)
    write(tmp_path / "model.onnx", KINDS["icefall"], METADATA["icefall"])
    write_tokens(tmp_path / "tokens.txt")
    for i, seconds in enumerate((2.0, 2.0, 3.1)):
        soundfile.write(f"clip{i}.wav", babble(seconds, i), 16000)
    lines = [
        {"audio": f"clip{i}.wav", "text": text}
        for i, text in enumerate(("one and", "two", "three four"))
    ]
    Path("train.jsonl").write_text(
        "".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8"
    )
    return "onnx:model.onnx"


@pytest.mark.usefixtures("inline_alignment")
def test_a_corpus_gets_what_each_file_gets_alone(model: str, cli: Callable[..., Any]) -> None:
    cli(
        "corpus",
        "train.jsonl",
        "--out-dir",
        "out",
        "--model",
        model,
        "--format",
        "json",
        "--workers",
        1,
        code=0,
    )
    assert (
        cli("align", "clip2.wav", "--text", "three four", "--model", model, "--format", "json").code
        == 0
    )
    alone, among = (
        json.loads(path.read_text()) for path in (Path("clip2.json"), Path("out/clip2.json"))
    )
    assert alone["words"] == among["words"]
    assert alone["loss"] == pytest.approx(among["loss"], abs=1e-3)
    assert alone["frame_shift_s"] == 0.04


def test_what_describes_it_is_part_of_it(model: str) -> None:
    """A corpus run goes on only with the same network, described alike."""
    before = model_identity(model)
    Path("model.toml").write_text("first_frame_s = 0.0\n", encoding="utf-8")
    described = model_identity(model)
    write_tokens(Path("tokens.txt"), ("<blk>", "x"))
    found = {before, described, model_identity(model)}
    for weights in (b"1", b"2"):
        Path("model.onnx.data").write_bytes(weights)
        found.add(model_identity(model))
    assert len(found) == 5


def test_a_wrong_file_is_one_line(model: str, cli: Callable[..., Any]) -> None:
    Path("tokens.txt").unlink()
    result = cli("align", "clip0.wav", "--text", "a", "--model", model, code=2)
    assert "its vocabulary tokens.txt is missing: put it there" in result.error
    assert (
        "write onnx:model.onnx"
        in cli("align", "clip0.wav", "--text", "a", "--model", "model.onnx").error
    )
