"""Settings: where they are found, who wins, --set KEY=VALUE, and all faults at once."""

from __future__ import annotations

import dataclasses
import re
from pathlib import Path

import pytest
from rows import over_rows

from ctc_align.config import (
    Settings,
    config_names,
    load_config,
    load_settings,
    read_toml,
    setting,
    settings_toml,
)
from ctc_align.errors import ConfigError, UsageError
from ctc_align.models.calibration import read_calibration

FAMILIES = ("default", "huggingface", "mms-fa", "onnx-nemo", "long-audio")
NAMES = ", ".join(field.name for field in dataclasses.fields(Settings))


@dataclasses.dataclass(frozen=True)
class Stage:
    epochs: int = setting(3, above=0)
    name: str = ""
    resume: bool = False
    rounds: tuple[tuple[int, ...], ...] = ()


@dataclasses.dataclass(frozen=True)
class Recipe:
    seed: int = 0
    training: Stage = dataclasses.field(default_factory=Stage)


def test_the_file_of_all_settings_is_the_defaults(tmp_path: Path) -> None:
    assert "default" in config_names()
    assert load_settings("default") == load_settings() == Settings()
    (tmp_path / "all.toml").write_text(settings_toml(), encoding="utf-8")
    assert read_toml(tmp_path / "all.toml") == Settings().to_dict()
    for field in dataclasses.fields(Settings):
        assert field.metadata["help"].strip().endswith("."), "each is described"


def test_the_command_line_wins(tmp_path: Path) -> None:
    """A file, then --set, then options."""
    path = tmp_path / "mine.toml"
    path.write_text('\ufefflabels = "written"\nchunk_s = 30\nlanguage = "fr"\n', encoding="utf-8")
    assert load_settings(str(path)) == Settings(labels="written", chunk_s=30.0, language="fr")
    assert isinstance(load_settings(path).chunk_s, float)
    found = load_settings(
        path,
        ["language=de", "chunk_s=10", "chunk_s=25"],
        times="recording",
        language="it",
        band_s=None,
    )
    assert found == Settings(labels="written", chunk_s=25.0, language="it", times="recording")


def test_a_style_sets_limits_where_it_is_given_and_options_win(tmp_path: Path) -> None:
    path = tmp_path / "mine.toml"
    path.write_text('style = "bbc"\nmax_cps = 12.0\nmax_line = 30\n', encoding="utf-8")
    found = load_settings(path)
    assert (found.max_line, found.max_cps, found.close_gaps_s) == (30, 12.0, 1.0)
    found = load_settings(path, style="netflix", max_line=40)
    assert (found.max_line, found.max_cps, found.min_gap_s) == (40, 20.0, 2 / 24)
    old = Settings(frame_rate=50.0).to_dict()
    found = load_settings(base=old, style="netflix", max_cps=17.0)
    assert (found.max_cps, found.min_gap_s) == (17.0, 0.04), "two frames, and the option's default"


def test_another_style_replaces_the_limits_of_the_first_but_not_those_that_were_given() -> None:
    first = Settings(style="netflix", frame_rate=25.0, max_duration_s=5.0)
    assert (first.max_cps, first.min_gap_s) == (20.0, 0.08), "also in Python"
    found = load_settings(base=first.to_dict(), style="bbc")
    assert (found.max_line, found.max_cps, found.min_duration_s) == (37, 17.0, 0.8)
    assert found.max_duration_s == 5.0
    found = load_settings(base=first.to_dict(), frame_rate=50.0)
    assert (found.max_cps, found.min_gap_s) == (20.0, 0.04), "two frames at the new rate"
    assert dataclasses.replace(first, max_cps=15.0).max_cps == 15.0


def test_tables_and_lists(tmp_path: Path) -> None:
    path = tmp_path / "recipe.toml"
    path.write_text("[training]\nepochs = 7\nrounds = [[5]]\n")
    found = load_config(
        Recipe, path, {"seed": 4}, ["training.name=x", "training.rounds=[[1, 2], [3]]"]
    )
    assert found == Recipe(4, Stage(7, "x", False, ((1, 2), (3,))))
    path.write_text("[training]\nepochs = 1.5\nresume = 1\nrounds = 3\nzzz = 1\n")
    with pytest.raises(ConfigError) as caught:
        load_config(Recipe, path, {})
    assert str(caught.value).splitlines() == [
        f"{path}: training.epochs: expected a whole number above 0, got 1.5",
        f"{path}: training.resume: expected true or false, got 1",
        f"{path}: training.rounds: expected a list, got 3",
        f"{path}: unknown setting 'training.zzz': expected one of epochs, name, resume, rounds",
    ]
    path.write_text("training = 3\n")
    with pytest.raises(ConfigError, match="training: expected a table, got 3"):
        load_config(Recipe, path, {})


def test_all_faults_at_once(tmp_path: Path) -> None:
    path = tmp_path / "bad.toml"
    path.write_text(
        'lables = "bare"\ntimes = "utterence"\nchunk_s = 0\nband_s = "x"\nrevision = ""\n[qqqq]\na'
        " = 1\n"
    )
    with pytest.raises(ConfigError) as caught:
        load_settings(path, chunk_s=float("nan"), labels="Bare", zzz=1)
    assert str(caught.value).splitlines() == [
        f"{path}: unknown setting 'lables': did you mean 'labels'?",
        (
            f"{path}: times: expected 'utterance' or 'recording', got 'utterence': did you mean"
            " 'utterance'?"
        ),
        f"{path}: chunk_s: expected a number above 0, got 0.0",
        f"{path}: band_s: expected a number above 0, got 'x'",
        f"{path}: revision: expected a text, got ''",
        f"{path}: unknown setting 'qqqq': expected one of {NAMES}",
        "chunk_s: expected a number above 0, got nan",
        "labels: expected 'bare' or 'written', got 'Bare': did you mean 'bare'?",
        f"unknown setting 'zzz': expected one of {NAMES}",
    ]
    assert isinstance(caught.value, UsageError)


@over_rows(
    ("name", "expected", "value"),
    [
        ("chunk_s", "above 0", value)
        for value in ("true", "[60.0]", "inf", "nan", "-1.0", "1979-05-27")
    ]
    + [
        ("min_confidence", "from 0 to 1", value)
        for value in ("-1", "-1e-9", "1.01", "2", "nan", "inf", "true")
    ],
)
def test_a_number_has_its_limits(tmp_path_factory, name: str, expected: str, value: str) -> None:
    path = tmp_path_factory.mktemp("settings") / "a.toml"
    path.write_text(f"{name} = {value}\n")
    with pytest.raises(ConfigError, match=rf"a\.toml: {name}: expected a number {expected}, got "):
        load_settings(path)
    with pytest.raises(ConfigError, match=f"--set {name}: expected a number {expected}, got "):
        load_settings(None, [f"{name}={value}"])
    for share in (0, 0.5, 1):
        assert load_settings(None, [f"min_confidence={share}"]).min_confidence == share


def test_files_that_are_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "bad.toml").write_text("labels = bare\n")
    (tmp_path / "latin.toml").write_bytes(b'labels = "\xe9"\n')
    (tmp_path / "folder.toml").mkdir()
    for source, message in (
        ("defualt", r"config 'defualt': no such file, and no such name: did you mean 'default'\?"),
        ("qqqq", r"no such name: expected one of .*default"),
        ("a/b", "config a/b: expected a TOML file, no such file"),
        ("nowhere.toml", "no such file"),
        ("folder.toml", "got a folder"),
        ("bad.toml", r"bad\.toml: expected TOML .*line 1"),
        ("latin.toml", "expected UTF-8, got byte 0xe9"),
    ):
        with pytest.raises(ConfigError, match=message):
            load_settings(source)


def test_a_name_comes_before_a_file_without_extension(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("default", "mine"):
        (tmp_path / name).write_text('labels = "written"\n')
    assert load_settings("default").labels == "bare"
    assert load_settings("./default").labels == load_settings("mine").labels == "written"


LONG, DEEP = "9" * 5000, "[" * 100_000
HOSTILE = (
    *(
        LONG,
        "9" * 400,
        "0x" + "f" * 5000,
        DEEP,
        "[" * 300 + "]" * 300,
        "{a=" * 3000,
        "1e999",
        "nan",
        "-inf",
        '"' * 999,
    ),
    *(
        "[" + LONG + "]",
        "{x = " + LONG + "}",
        "'''" + "x" * 9999,
        "9999-99-99",
        '"\\ud800"',
        "a.b.c",
        "\0",
    ),
)


@over_rows("value", HOSTILE)
def test_no_value_of_a_file_or_of_the_command_line_ends_in_a_traceback(
    tmp_path_factory, value: str
) -> None:
    """Each fault is one line of a ConfigError that names the file or --set."""
    path = tmp_path_factory.mktemp("hostile") / "a.toml"
    for name in (
        "chunk_s",
        "min_confidence",
        "channel",
        "romanize",
        "labels",
        "training",
        "training.epochs",
        "training.rounds",
    ):
        kind = Recipe if "training" in name else Settings
        path.write_text(f"{name} = {value}\n", encoding="utf-8")
        with pytest.raises(ConfigError, match=rf"\A{re.escape(str(path))}: [^\n]{{,300}}\Z"):
            load_config(kind, path, {})
        if value != "nan" or name != "channel":
            with pytest.raises(ConfigError, match=r"\A(--set [^\n]{,300}\n?)+\Z"):
                load_config(kind, None, {}, [f"{name}={value}"])


@over_rows("value", HOSTILE)
def test_no_value_of_a_calibration_ends_in_a_traceback(tmp_path_factory, value: str) -> None:
    path = tmp_path_factory.mktemp("hostile") / "calibration.toml"
    for line in (
        "scale",
        "blank_cost",
        "spread",
        "word_confidence",
        "offsets_ms",
        'offsets_ms."stop vowel"',
        "format",
    ):
        path.write_text(
            f'format = "ctc-align-calibration/1"\n{line} = {value}\n'.replace("|", "\n"),
            encoding="utf-8",
        )
        with pytest.raises(ConfigError, match=re.escape(str(path))):
            read_calibration(path)


def test_a_file_of_settings_is_small(tmp_path: Path) -> None:
    (tmp_path / "a.toml").write_text("#" * 2**20 + "\n")
    with pytest.raises(ConfigError, match="more than 1 MiB"):
        load_settings(tmp_path / "a.toml")


@pytest.mark.parametrize("name", FAMILIES)
def test_each_familys_config_is_found_by_name_and_right(name: str) -> None:
    assert name in config_names()
    assert isinstance(load_settings(name), Settings)
    assert (load_settings(name) == Settings()) == (name in ("default", "huggingface"))


def test_values_are_tomls_or_bare_texts() -> None:
    given = [
        "chunk_s=30",
        "romanize=true",
        "language=de",
        "labels='written'",
        "revision=2024",
        " band_s = 2.5 ",
    ]
    found = load_settings(None, given)
    assert (found.chunk_s, found.romanize, found.language) == (30.0, True, "de")
    assert (found.labels, found.revision, found.band_s) == ("written", "2024", 2.5)
    assert load_settings(None, ["cache_dir=", "calibration="]).cache_dir == ""


def test_faults_of_assignments_are_told_with_the_others() -> None:
    with pytest.raises(ConfigError) as caught:
        load_settings(None, ["tims=utterance", "band_s=wide", "romanize"], edges="sharp")
    assert str(caught.value).split("\n")[:3] == [
        "--set: expected KEY=VALUE, got 'romanize'",
        "--set unknown setting 'tims': did you mean 'times'?",
        "--set band_s: expected a number above 0, got 'wide'",
    ]


@pytest.mark.parametrize(
    "assignment", ["training=3", "training.epochs.more=3", "training.=1", "=1"]
)
def test_what_is_no_setting_is_told(assignment: str) -> None:
    with pytest.raises(ConfigError, match="--set"):
        load_config(Recipe, None, {}, [assignment])
