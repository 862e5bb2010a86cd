"""ctc-align evaluate as people call it."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path

import pytest
from document_blocks import blocks
from made_alignments import WORDS, alignment, textgrid

from ctc_align.files import OutputFiles

MOVED = tuple((label, start + 0.05, end + 0.05) for label, start, end in WORDS)


@pytest.fixture
def here(tmp_path, monkeypatch) -> Path:
    """`ours` is 10 ms late, `others` 30 ms; two utterances."""
    monkeypatch.chdir(tmp_path)
    for folder, shift_s in (("ours", 0.01), ("others", 0.03)):
        for name in ("x", "y"):
            OutputFiles(tmp_path / folder, name).write(alignment(name, shift_s))
    for name in ("x", "y"):
        textgrid(tmp_path / "theirs" / f"{name}.TextGrid", ("words", WORDS), ("Phonetik", MOVED))
    return tmp_path


def test_the_table(cli, here):
    result = cli("evaluate", "ours", "theirs")
    assert (result.code, result.stderr) == (0, "")
    lines = {line[:27].strip(): line[27:].split() for line in result.stdout.splitlines()}
    assert lines["mean absolute error, ms"] == ["10.0", "10.0", "…", "10.0", "10.0", "10.0"]
    assert lines["median signed error, ms"] == ["+10.0", "+10.0", "…", "+10.0", "+10.0", "+10.0"]
    assert lines["F1 at 20 ms"] == ["1.000", "1.000", "…", "1.000", "1.000", "1.000"]
    assert "F1 over the starts of all words but the first" in result.stdout
    assert any(
        line.startswith(" 10 to 20") and "100.0" in line for line in result.stdout.splitlines()
    )
    assert all(
        len(line) <= 80 for line in result.stdout.splitlines() if not line.startswith("F1 over")
    )


def test_json(cli, here):
    data = json.loads(cli("evaluate", "ours", "theirs", "--format", "json", "--worst", "2").stdout)
    assert data["both"]["mae_ms"] == 10.0
    assert data["both"]["ci95"]["within_20_ms"] == [100.0, 100.0]
    assert data["boundaries"]["both"]["hits"] == 10
    assert data["settings"] == {
        "tolerance_ms": 20.0,
        "resamples": 1000,
        "seed": 0,
        "interval_by": "utterance",
    }
    assert [edge["error_ms"] for edge in data["worst_edges"]] == [10.0, 10.0]
    assert not {"pairings", "counts"} & data.keys()
    assert "ci95" in data["onset"]
    assert (
        json.loads(
            cli("evaluate", "ours", "theirs", "--format", "json", "--bootstrap", "0").stdout
        )["both"]["ci95"]
        == {}
    )


def test_two_tiers(cli, here):
    shutil.copytree("ours", "again")
    arguments = [
        "evaluate",
        "ours",
        "again",
        "--tier",
        "words",
        "--tier",
        "tokens",
        "--format",
        "json",
    ]
    assert [tier["tier"] for tier in json.loads(cli(*arguments).stdout)["tiers"]] == [
        "words",
        "phones",
    ]
    result = cli(*arguments[:-2])
    assert "boundaries of words" in result.stdout
    assert "boundaries of phones" in result.stdout


def test_tiers_of_other_names(cli, here):
    for option in (["--reference-tier", "Phonetik"], ["--reference-tier", "2"]):
        data = json.loads(cli("evaluate", "ours", "theirs", *option, "--format", "json").stdout)
        assert data["both"]["mae_ms"] == 40.0
    data = json.loads(
        cli("evaluate", "theirs", "theirs", "--tier", "words=2", "--format", "json").stdout
    )
    assert data["both"]["mae_ms"] == 0.0
    result = cli("evaluate", "theirs", "theirs", "--tier", "words=Worte", code=2)
    assert "expected an interval tier named 'Worte', got: 1 words, 2 Phonetik" in result.error


def test_labels_in_an_encoding_that_is_named(cli, here):
    for path in (here / "theirs").iterdir():
        text = path.read_text(encoding="utf-8").replace('"three"', '"größer"')
        path.write_bytes(text.encode("cp1252"))
    call = ("evaluate", "theirs", "theirs", "--tier", "words=2", "--format", "json")
    assert "give --encoding cp1252" in cli(*call, code=1).stderr
    assert json.loads(cli(*call, "--encoding", "cp1252").stdout)["both"]["mae_ms"] == 0.0


def test_against_another_hypothesis(cli, here):
    result = cli("evaluate", "ours", "theirs", "--against", "others")
    assert (result.code, result.stderr) == (0, "")
    assert (
        "the mean absolute error of HYPOTHESIS is smaller than that of --against" in result.stdout
    )
    data = json.loads(
        cli("evaluate", "ours", "theirs", "--against", "others", "--format", "json").stdout
    )
    assert data["comparison"]["edges"]["both"]["mae_ms"]["difference"] == -20.0
    assert data["comparison"]["edges"]["both"]["mae_ms"]["ci95"] == [-20.0, -20.0]
    assert data["against"]["both"]["mae_ms"] == 30.0
    result = cli("evaluate", "ours", "theirs", "--against", "ours")
    assert "may be due to chance" in result.stdout
    (here / "others" / "y.json").rename(here / "gone")
    (here / "others" / "y.ctm").unlink()
    (here / "others" / "y.TextGrid").unlink()
    result = cli("evaluate", "ours", "theirs", "--against", "others", code=1)
    assert "ctc-align: others: y: no hypothesis for this reference" in result.stderr
    assert "there is only one utterance" in result.stdout


@pytest.mark.parametrize(
    ("options", "code", "says"),
    [
        (["--max-mae", "10"], 0, ""),
        (
            ["--max-mae", "9.99"],
            3,
            "ctc-align: words: mean absolute error 10.00 ms, above --max-mae 9.99\n",
        ),
        (["--min-within", "100"], 0, ""),
        (
            ["--min-within", "1", "--tolerance", "9"],
            3,
            "words: 0.00 % within 9 ms, below --min-within 1\n",
        ),
        (["--min-f1", "1"], 0, ""),
        (
            ["--min-f1", "0.5", "--tolerance", "5"],
            3,
            "words: F1 0.0000 at 5 ms, below --min-f1 0.5\n",
        ),
        (["--min-within", "101"], 2, "--min-within: expected a number from 0 to 100, got 101.0"),
        (["--min-f1", "nan"], 2, "--min-f1: expected a number from 0 to 1, got nan"),
        (["--tolerance", "0"], 2, "tolerance: expected milliseconds above 0, got 0.0"),
        (["--tolerance", "inf"], 2, "tolerance: expected milliseconds above 0"),
        (["--tier", "words", "--tier", "word"], 2, "--tier: words is given twice"),
        (["--tier", "words", "--tier", "phones", "--reference-tier", "x"], 2, "go with one --tier"),
        (["--map", "nowhere"], 2, "nowhere: cannot be read"),
        (["--format", "xml"], 2, "--format: expected table or json, got 'xml'"),
        (["--against", "nowhere"], 2, "nowhere: no such file or folder"),
    ],
)
def test_thresholds_and_wrong_calls(cli, here, options, code, says):
    result = cli("evaluate", "ours", "theirs", *options)
    assert result.code == code, result.stderr
    assert says in result.stderr
    assert (result.stdout == "") == (code == 2)


def test_what_the_hypothesis_lacks_or_cannot_be_read_is_named(cli, here):
    for path in Path("ours").glob("x.*"):
        path.rename(path.with_name(path.name.replace("x", "z", 1)))
    result = cli("evaluate", "ours", "theirs", "--format", "json")
    assert (result.code, json.loads(result.stdout)["missing_files"]) == (1, ["x"])
    assert result.stderr.splitlines() == [
        "ctc-align: x: no hypothesis for this reference",
        "ctc-align: note: 1 hypothesis without a reference is left out: z",
    ]
    written = (
        Path("ours/y.json").read_text().replace('"version"', '"written_by"')
    )  # no file of ours, which are checked
    for text in ("{", re.sub(r'"start_s": [\d.]+', '"start_s": NaN', written, count=1)):
        Path("bad.json").write_text(text)
        assert "bad.json: " in cli("evaluate", "bad.json", "theirs/y.TextGrid", code=1).error


def test_nothing_paired(cli, here):
    for path in Path("ours").iterdir():
        path.rename(path.with_name(f"other-{path.name}"))
    assert "nothing in it pairs" in cli("evaluate", "ours", "theirs", code=1).stderr


def test_a_picture(cli, here):
    pytest.importorskip("matplotlib")
    for name, start in (
        ("errors.png", b"\x89PNG"),
        ("deep/errors.pdf", b"%PDF"),
        ("errors.SVG", b"<?xml"),
    ):
        result = cli("evaluate", "ours", "theirs", "--against", "others", "--plot", name)
        assert (result.code, result.stderr) == (0, "")
        assert Path(name).read_bytes().startswith(start)
    before = Path("errors.png").read_bytes()
    result = cli("evaluate", "ours", "theirs", "--plot", "errors.png")
    assert (result.code, Path("errors.png").read_bytes()) == (2, before)
    assert "errors.png: already exists; give --force" in result.error
    assert cli("evaluate", "ours", "theirs", "--plot", "errors.png", "--force").code == 0
    assert Path("errors.png").read_bytes() != before
    result = cli("evaluate", "ours", "theirs", "--plot", "errors.txt")
    assert (result.code, result.error) == (
        2,
        "--plot: expected a file that ends in .png, .svg, .pdf, got errors.txt",
    )


def test_the_output_in_the_guide_is_what_comes_out(cli, tmp_path, monkeypatch):
    """Its files are made and compared; its words explain these figures."""
    monkeypatch.chdir(tmp_path)
    page = (Path(__file__).resolve().parents[2] / "docs" / "howto" / "evaluating.md").read_text(
        "utf-8"
    )
    call, shown = (block.text for block in blocks(page))
    for name, rows in re.findall(
        r"^cat > (\S+) <<'EOF'\n(.*?)^EOF$", call, re.MULTILINE | re.DOTALL
    ):
        Path(name).write_text(rows, "utf-8")
    result = cli(*call.splitlines()[-1].split()[1:])
    printed, told = (
        [line.rstrip() for line in text.splitlines() if line.strip()]
        for text in (result.stdout, shown)
    )
    assert printed == told
    assert result.stderr == ""


def test_words_of_one_side_are_named(cli, here):
    textgrid(
        here / "theirs" / "x.TextGrid",
        ("words", (*WORDS, ("bonus", WORDS[-1][2] + 0.1, WORDS[-1][2] + 0.4))),
    )
    assert (
        f"missing words: 'bonus' at {WORDS[-1][2] + 0.1:.2f} s of x"
        in cli("evaluate", "ours", "theirs").stderr
    )
    assert "extra words: 'bonus' at" in cli("evaluate", "theirs", "ours").stderr
