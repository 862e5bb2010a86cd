"""ctc-align doctor: an installation that works, one that does not, and nothing in either that names the user."""

from __future__ import annotations

import getpass
import json
import re
import sys
from pathlib import Path
from typing import Any

import pytest

from ctc_align.alignment import aligner
from ctc_align.cli.doctor import KNOWN_TIMES, _extra, _extra_line, compared, without_user
from ctc_align.extras import EXTRAS, Extra

HOME = "/".join(["", "home", "ada"])
ROOT = Path(__file__).resolve().parents[2]


def test_an_installation_that_works(cli: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "kaldiio", None)
    result = cli("doctor", "--format", "json")
    assert (result.code, json.loads(result.stdout)["format"]) == (0, "ctc-align-doctor/1")
    found = json.loads(result.stdout)
    assert found["self_tests"][0]["device"] == "cpu"
    assert all(test["passed"] and test["largest_error_ms"] <= 10 for test in found["self_tests"])
    assert "broken" not in result.stdout
    kaldi = next(row for row in found["extras"] if row["extra"] == "kaldi")
    assert (kaldi["missing"], kaldi["install"]) == (["kaldiio"], "pip install 'ctc-align[kaldi]'")


def test_an_installation_that_does_not(cli: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """PyTorch cannot be imported, from a folder of the user's: all else is told, as text."""
    lost = Path.home() / "cache" / "libtorch.so"

    def broken(**_: object) -> None:
        raise OSError(f"{lost}: cannot open shared object file")

    monkeypatch.setattr(aligner, "Aligner", broken)
    monkeypatch.setitem(sys.modules, "av", None)
    result = cli("doctor")
    assert result.code == 1
    assert re.search(r"^  cpu +FAILED after .* s: OSError: ~.cache.libtorch.so: cannot open", result.stdout, re.M)
    assert re.search(r"^  ffmpeg +broken: ModuleNotFoundError", result.stdout, re.M)
    assert re.search(r"^  numpy +\d", result.stdout, re.M)
    assert not re.search(rf"{re.escape(str(Path.home()))}\b", result.stdout)


@pytest.mark.parametrize("spoiled", ["word", "time", "skipped"])
def test_the_self_test_sees_what_is_wrong(spoiled: str) -> None:
    words: list[tuple[str, float | None, float | None]] = list(KNOWN_TIMES)
    assert compared(words) == {"passed": True, "largest_error_ms": 0}
    text, start_s, end_s = words[3]
    words[3] = {"word": ("wear", start_s, end_s), "time": (text, start_s, 1.9), "skipped": (text, None, None)}[spoiled]
    assert "passed" not in compared(words)


def test_no_folder_names_the_user(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Path, "home", lambda: Path(HOME))
    monkeypatch.setattr(getpass, "getuser", lambda: "ada")
    for told, shown in {
        f"{HOME}/a b": "~/a b",
        f"{HOME}-2/x": f"{HOME}-2/x",
        "/scratch/ada/venv": "/scratch/USER/venv",
        "C:\\Users\\ada\\x": "C:\\Users\\USER\\x",
        "/opt/canada": "/opt/canada",
    }.items():
        assert without_user({"folder": [told]}) == {"folder": [shown]}


def test_the_table_of_extras_is_that_of_the_package() -> None:
    text = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    table = text.partition("[project.optional-dependencies]")[2].partition("[project.scripts]")[0]
    declared = set(re.findall(r"^([\w-]+) = \[", table, re.M))
    developers = {"test", "browser-test", "gpu-test", "dev", "docs"}
    assert set(EXTRAS) == declared - developers, "ctc_align/extras.py has the extras of pyproject.toml that users need"


def test_an_extra_that_cannot_be_imported_is_broken(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its modules are there, and one of them wants what is not."""
    (tmp_path / "half_there.py").write_text("import not_there_at_all\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setitem(EXTRAS, "lhotse", Extra(("half_there",), "manifests"))
    row = _extra("lhotse")
    assert row["broken"] == "half_there: ModuleNotFoundError: No module named 'not_there_at_all'"
    assert _extra_line(row).startswith("BROKEN: manifests; half_there: ModuleNotFoundError")
