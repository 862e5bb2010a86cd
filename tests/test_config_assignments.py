"""--set KEY=VALUE, the files in configs/, and that all faults of a call's settings are told at once."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

import pytest

from ctc_align.config import Settings, config_names, load_config, load_settings, setting
from ctc_align.errors import ConfigError

FAMILIES = ("default", "huggingface", "mms-fa", "onnx-nemo", "long-audio")


@dataclass(frozen=True)
class Stage:
    epochs: int = setting(3, above=0)
    name: str = ""
    sizes: tuple[int, ...] = (1, 2)


@dataclass(frozen=True)
class Recipe:
    seed: int = 0
    training: Stage = field(default_factory=Stage)


@pytest.mark.parametrize("name", FAMILIES)
def test_each_familys_config_is_found_by_name_and_right(name: str) -> None:
    assert name in config_names()
    assert isinstance(load_settings(name), Settings)
    assert (load_settings(name) == Settings()) == (name in ("default", "huggingface"))


def test_values_are_tomls_or_bare_texts() -> None:
    given = ["chunk_s=30", "romanize=true", "language=de", "labels='written'", "revision=2024", " band_s = 2.5 "]
    found = load_settings(None, given)
    assert (found.chunk_s, found.romanize, found.language) == (30.0, True, "de")
    assert (found.labels, found.revision, found.band_s) == ("written", "2024", 2.5)
    assert load_settings(None, ["cache_dir=", "calibration="]).cache_dir == ""


def test_the_order_is_file_set_option(tmp_path: Path) -> None:
    file = tmp_path / "mine.toml"
    file.write_text('language = "fr"\nchunk_s = 10\ncontext_s = 2\n', encoding="utf-8")
    found = load_settings(file, ["language=de", "chunk_s=20", "chunk_s=25"], language="it")
    assert (found.language, found.chunk_s, found.context_s) == ("it", 25.0, 2.0)


def test_tables_have_dots(tmp_path: Path) -> None:
    file = tmp_path / "recipe.toml"
    file.write_text("[training]\nepochs = 7\nsizes = [5]\n", encoding="utf-8")
    found = load_config(Recipe, file, {"seed": 4}, ["training.name=x", "training.sizes=[8, 9]"])
    assert found == Recipe(4, Stage(7, "x", (8, 9)))


def test_all_faults_are_told_at_once(tmp_path: Path) -> None:
    file = tmp_path / "mine.toml"
    file.write_text('labls = "bare"\nchunk_s = -1\n', encoding="utf-8")
    with pytest.raises(ConfigError) as caught:
        load_settings(file, ["tims=utterance", "band_s=wide", "romanize"], edges="sharp")
    lines = str(caught.value).split("\n")
    assert len(lines) == 6
    for part in ("mine.toml: unknown setting 'labls': did you mean 'labels'?", "mine.toml: chunk_s: expected"):
        assert any(part in line for line in lines)
    assert "--set: expected KEY=VALUE, got 'romanize'" in lines
    assert "--set unknown setting 'tims': did you mean 'times'?" in lines
    assert "--set band_s: expected a number above 0, got 'wide'" in lines
    assert any(line.startswith("edges: expected 'auto'") for line in lines)


@pytest.mark.parametrize("assignment", ["training=3", "training.epochs.more=3", "training.=1", "=1"])
def test_what_is_no_setting_is_told(assignment: str) -> None:
    with pytest.raises(ConfigError, match="--set"):
        load_config(Recipe, None, {}, [assignment])
