"""What a person changed in the labels of an alignment: all commands read it by one rule, and
nothing else of them."""

from __future__ import annotations

import json
import os
import re
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from inline_corpus import inline_pool

from ctc_align.cli import run as run_command
from ctc_align.corpus import run
from ctc_align.corpus.report.run_figures import run_figures
from ctc_align.files import read_alignment
from ctc_align.types import Interval

DEMO = Path(__file__).resolve().parents[2] / "ctc_align" / "demo"
LATE_S = 0.04


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with two recordings and, in `out`, a corpus run with all formats in which people
    correct labels."""
    folder = tmp_path_factory.mktemp("corrections")
    (folder / "sounds").mkdir()
    for name in ("demo", "other"):
        shutil.copy(DEMO / "demo.flac", folder / "sounds" / f"{name}.flac")
        shutil.copy(DEMO / "demo.txt", folder / "sounds" / f"{name}.txt")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(run, "plan_pool", inline_pool)
        formats = ("--format", "json,textgrid,csv,eaf,audacity", "--device", "cpu")
        assert (
            run_command(
                ["corpus", str(folder / "sounds"), "--out-dir", str(folder / "out"), *formats, "-q"]
            )
            == 0
        )
    return folder


@pytest.fixture
def out(made: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The run in a folder of its own, which is the current one; its files are an hour old."""
    shutil.copytree(made, tmp_path, dirs_exist_ok=True)
    for path in (tmp_path / "out").iterdir():
        age(path, 3600)
    monkeypatch.chdir(tmp_path)
    return Path("out")


def age(path: Path, seconds: float) -> None:
    os.utime(path, ns=(0, path.stat().st_mtime_ns - round(seconds * 1e9)))


def first_words(out: Path) -> list[Interval]:
    words = read_alignment(out / "demo.json").words[:5]
    return [Interval(word.start_s, word.end_s, word.text) for word in words]  # type: ignore[arg-type]


def save_again(grid: Path) -> None:
    """As other programs do: UTF-16, and times in milliseconds."""
    text = re.sub(r"\d+\.\d+", lambda time: f"{float(time[0]):.3f}", grid.read_text("utf-8"))
    grid.write_bytes(text.replace("\n", "\r\n").encode("utf-16"))


def move_start(grid: Path, late_s: float = LATE_S) -> None:
    """Move the start of the first word, and not of its first phone."""
    start_s = first_words(grid.parent)[0].start_s
    text = grid.read_text("utf-8")
    assert text.index(f"{start_s:g}") < text.index('"phones"')
    grid.write_text(text.replace(f"= {start_s:g}\n", f"= {start_s + late_s:.17g}\n", 2), "utf-8")


def merge_words(grid: Path) -> None:
    """Remove the boundary between the third and the fourth word, as Praat does: their labels become
    one."""
    third, fourth = first_words(grid.parent)[2:4]
    assert third.end_s == fourth.start_s
    text, labels = grid.read_text("utf-8"), (third.label.strip(",."), fourth.label.strip(",."))
    between = (
        rf'xmax = {third.end_s:g}\n\s+text = "{labels[0]}"\n[^"]*?xmax ='
        rf' ({fourth.end_s:g})\n\s+text = "'
    )
    text, count = re.subn(between, rf'xmax = \1\n            text = "{labels[0]}', text, count=1)
    assert count == 1
    text = re.sub(
        r"(size = )(\d+)(\s+intervals \[1\])",
        lambda m: f"{m[1]}{int(m[2]) - 1}{m[3]}",
        text,
        count=1,
    )
    grid.write_text(text, "utf-8")


EDITS: dict[str, Callable[[Path], None]] = {
    "saved again": save_again,
    "moved": move_start,
    "merged": merge_words,
}


def test_labels_whose_tier_was_renamed_are_told(cli: Any, out: Path) -> None:
    grid = out / "demo.TextGrid"
    move_start(grid)
    grid.write_text(grid.read_text("utf-8").replace('name = "words"', 'name = "ORT"'), "utf-8")
    told = "demo.TextGrid: its corrections are not read: expected an interval tier named words"
    assert told in start_in_table(cli, out)[1]
    assert told in cli("evaluate", out, out, code=2).stderr


def start_in_page(cli: Any, out: Path) -> tuple[float, str]:
    result = cli("view", out / "demo.json", "--audio", "none", "--out-dir", "pages", code=0)
    page = re.search(
        r'id="page-data">(.*?)</script>', Path("pages/demo.html").read_text("utf-8"), re.S
    )
    assert page is not None
    return json.loads(page[1])["alignment"]["words"][0]["start_s"], result.stderr


def start_in_table(cli: Any, out: Path) -> tuple[float, str]:
    result = cli("convert", out, "--format", "csv", "--out-dir", "tables", code=0)
    return (
        float(Path("tables/demo.csv").read_text("utf-8").splitlines()[1].split(",")[4]),
        result.stderr,
    )


def start_when_realigned(cli: Any, out: Path) -> tuple[float, str]:
    result = cli("realign", out / "demo.json", "--out-dir", "again", "--device", "cpu", code=0)
    word = read_alignment("again/demo.aligned.json").words[0]
    assert (word.by == "hand") == ("corrections of 1 word are used" in result.stderr)
    return word.start_s or 0.0, result.stderr


@pytest.mark.parametrize("edit", EDITS)
@pytest.mark.parametrize("start_in", [start_in_page, start_in_table, start_when_realigned])
def test_one_alignment_has_the_times_of_its_labels(
    cli: Any, out: Path, edit: str, start_in: Callable[..., tuple[float, str]]
) -> None:
    start_s = first_words(out)[0].start_s
    EDITS[edit](out / "demo.TextGrid")
    found_s, told = start_in(cli, out)
    assert found_s == pytest.approx(start_s + LATE_S * (edit == "moved"), abs=0.0005)
    assert ("demo.TextGrid: corrections of 1 word are used" in told) == (edit == "moved")
    assert (
        "demo.TextGrid: has other words than the text, 'findswhere' for 'finds where' at " in told
    ) == (edit == "merged")
    assert ("demo.TextGrid" in told) == (edit != "saved again")


@pytest.mark.parametrize("edit", EDITS)
def test_evaluate_measures_output_against_corrections(cli: Any, out: Path, edit: str) -> None:
    EDITS[edit](out / "demo.TextGrid")
    result = cli("evaluate", out, out, "--format", "json", "--bootstrap", "0")
    if edit == "saved again":
        assert result.code == 2
        assert (
            "got the program's own output, the same as out: none of its 2 alignments is corrected"
            in result.error
        )
        return
    figures, words = json.loads(result.stdout), len(read_alignment(out / "demo.json").words)
    assert (result.code, figures["untouched"]) == (0, 1)
    assert "1 alignment without corrections is not measured" in result.stderr
    assert (figures["paired"], figures["missing"], figures["extra"]) == (
        words - (edit == "merged"),
        0,
        0,
    )
    assert figures["worst_edges"][0]["error_ms"] == (-1000 * LATE_S if edit == "moved" else 0.0)


@pytest.mark.parametrize("edit", EDITS)
def test_report_and_filter_read_corrections_of_a_run(cli: Any, out: Path, edit: str) -> None:
    speech_s = run_figures(out).speech_s
    EDITS[edit](out / "demo.TextGrid")
    assert run_figures(out).speech_s == pytest.approx(
        speech_s - LATE_S * (edit == "moved"), abs=1e-6
    )
    told = cli("report", out, "--audio", "none", code=0).stderr
    assert told.count("note: out/demo.TextGrid: ") == (edit != "saved again")
    result = cli("filter", out, "--to", "kept.jsonl", code=0)
    assert ("1 utterance was corrected by hand" in result.stderr) == (edit != "saved again")
    assert ("its words were changed by hand, and its text was not" in result.stderr) == (
        edit == "merged"
    )
    assert Path("kept.jsonl").read_text("utf-8").count("\n") == 2 - (edit == "merged")


@pytest.mark.parametrize("edit", EDITS)
def test_calibrate_learns_from_corrected_files_alone(cli: Any, out: Path, edit: str) -> None:
    EDITS[edit](out / "demo.TextGrid")
    result = cli(
        "calibrate", "english", out, "--audio", "sounds", "--out-dir", "mine", "--device", "cpu"
    )
    if edit == "saved again":
        assert result.code == 2
        assert "got 2 alignments without corrections" in result.error
        return
    assert result.code == 0
    assert (
        "learnt from 1 corrected or hand-labelled file; 1 alignment without corrections left out"
        in result.stderr
    )
    mean_ms = (
        1000 * LATE_S / (2 * len(read_alignment(out / "demo.json").words))
        if edit == "moved"
        else 0.0
    )
    assert f"as it is {mean_ms:.1f} ms" in result.stderr


# Several corrections of one alignment.


def fix_in_json(path: Path, at: int, by_s: float = -0.01) -> None:
    """Move the end of a word in JSON, by hand."""
    data = json.loads(path.read_text("utf-8"))
    word = data["words"][at]
    word |= {"end_s": round(word["end_s"] + by_s, 5), "tokens": [], "by": "hand"}
    path.write_text(json.dumps(data), "utf-8")


def by_hand(cli: Any, path: Path) -> tuple[dict[int, tuple[float, float]], str]:
    """Return the words by hand as `convert` writes them, by their index, and what it tells."""
    result = cli("convert", path, "--format", "json", "--out-dir", "merged", "--force", code=0)
    words = read_alignment(Path("merged") / path.name).words
    return {
        at: (word.start_s, word.end_s) for at, word in enumerate(words) if word.by
    }, result.stderr  # type: ignore[misc]


def test_corrections_of_different_words_are_joined(cli: Any, out: Path) -> None:
    first, _, third, *_ = first_words(out)
    fix_in_json(out / "demo.json", 2)
    move_start(out / "demo.TextGrid")
    found, told = by_hand(cli, out / "demo.json")
    assert found[0] == pytest.approx((first.start_s + LATE_S, first.end_s))
    assert found[2] == pytest.approx((third.start_s, third.end_s - 0.01))
    assert (len(found), "is older" in told) == (2, False)
    hypothesis = cli(
        "evaluate", out, out, "--format", "json", "--bootstrap", "0", "--worst", "3", code=0
    ).stdout
    errors = [edge["error_ms"] for edge in json.loads(hypothesis)["worst_edges"]]
    assert errors == [
        -1000 * LATE_S,
        10.0,
        0.0,
    ], "JSON that was corrected in place is the program's, too"


@pytest.mark.parametrize("later", ["json", "TextGrid"])
def test_the_later_correction_of_a_word_wins_and_is_told(cli: Any, out: Path, later: str) -> None:
    first = first_words(out)[0]
    fix_in_json(out / "demo.json", 0)
    move_start(out / "demo.TextGrid")
    age(out / ("demo.json" if later == "TextGrid" else "demo.TextGrid"), 60)
    found, told = by_hand(cli, out / "demo.json")
    if later == "TextGrid":
        assert found[0] == pytest.approx((first.start_s + LATE_S, first.end_s))
        assert "corrections of 1 word are used; 1 of them also in demo.json, which is older" in told
    else:
        assert found[0] == pytest.approx((first.start_s, first.end_s - 0.01))
        assert "corrections of 1 word are not used: demo.json has later ones" in told


def test_labels_of_the_alignment_join_those_in_json_that_corrects_it(cli: Any, out: Path) -> None:
    shutil.copy(out / "demo.json", out / "demo.corrected.json")
    fix_in_json(out / "demo.corrected.json", 2)
    move_start(out / "demo.TextGrid")
    assert set(by_hand(cli, out / "demo.corrected.json")[0]) == {0, 2}
    cli(
        "realign",
        out / "demo.corrected.json",
        "--format",
        "json,textgrid",
        "--out-dir",
        out,
        code=0,
    )
    again = out / "demo.corrected.aligned.json"
    found, told = by_hand(cli, again)
    assert set(found) == {0, 2}
    assert "TextGrid" not in told, "they are in the JSON already"


def test_of_words_that_overlap_the_one_corrected_earlier_gives_way(cli: Any, out: Path) -> None:
    second, third = first_words(out)[1:3]
    fix_in_json(out / "demo.json", 0, by_s=0.05)  # beyond the start of the second
    data = json.loads((out / "demo.json").read_text("utf-8"))
    data["words"][1] |= {"start_s": data["words"][0]["end_s"], "tokens": []}
    data["words"][1]["by"] = "hand"
    (out / "demo.json").write_text(json.dumps(data), "utf-8")
    age(out / "demo.json", 60)
    text = (out / "demo.TextGrid").read_text("utf-8")
    moved_s = third.start_s + 0.01
    (out / "demo.TextGrid").write_text(
        text.replace(f"= {second.end_s:g}\n", f"= {moved_s:.17g}\n", 2), "utf-8"
    )
    found, _ = by_hand(cli, out / "demo.json")
    assert found[1] == pytest.approx((second.start_s, moved_s))
    assert found[0][1] == pytest.approx(second.start_s)


@pytest.mark.parametrize("extension", [".csv", ".eaf", ".audacity.txt"])
def test_other_files_of_labels_are_read_by_the_same_rule(
    cli: Any, out: Path, extension: str
) -> None:
    path, start_s = out / f"demo{extension}", first_words(out)[0].start_s
    assert by_hand(cli, out / "demo.json")[0] == {}
    text, moved_s = path.read_text("utf-8"), round(start_s + LATE_S, 3)
    form = {".csv": "{:.3f}", ".eaf": 'TIME_VALUE="{:.0f}"', ".audacity.txt": "{:.6f}"}[extension]
    old, new = (
        form.format(time_s * (1000 if extension == ".eaf" else 1)) for time_s in (start_s, moved_s)
    )
    assert old in text
    path.write_text(text.replace(old, new, 1), "utf-8")
    found, told = by_hand(cli, out / "demo.json")
    assert found[0][0] == pytest.approx(moved_s, abs=0.0006)
    assert f"demo{extension}: corrections of 1 word are used" in told


def test_of_unknown_origin_nothing_is_guessed(cli: Any, out: Path) -> None:
    """JSON of an older version does not say what was written with it."""
    data = json.loads((out / "demo.json").read_text("utf-8"))
    del data["written"]
    (out / "demo.json").write_text(json.dumps(data), "utf-8")
    assert "TextGrid" not in by_hand(cli, out / "demo.json")[1], "nothing differs"
    move_start(out / "demo.TextGrid")
    for command in (("convert", "--format", "json"), ("view", "--audio", "none")):
        told = cli(
            command[0], out / "demo.json", *command[1:], "--out-dir", "x", code=0
        ).stderr.splitlines()
        (note,) = [line for line in told if "TextGrid" in line]
        assert (
            "out/demo.TextGrid differs from demo.json, which does not say that it was written with"
            " it: only" in note
        )
        assert note.endswith("ctc-align realign out/demo.json --hand out/demo.TextGrid")
    assert read_alignment("x/demo.json").words[0].by == ""
    assert "out/demo.TextGrid differs" in cli("evaluate", out, out, code=2).error
    assert (
        "out/demo.TextGrid differs"
        in cli("calibrate", "english", out, "--out-dir", "mine", code=2).error
    )
    (out / "demo.TextGrid").rename(out / "demo.hand.TextGrid")  # as a corpus run keeps it
    assert (
        "demo.hand.TextGrid has corrections of an earlier alignment"
        in by_hand(cli, out / "demo.json")[1]
    )
    (out / "demo.TextGrid").write_text("no TextGrid", "utf-8")
    assert by_hand(cli, out / "demo.json")[0] == {}
