"""Bad inputs fail alone and by name; an output that cannot be written ends the run, which goes on
when it can."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import corpus_runs as runs
import pytest

UTTERANCES = 40
MEGABYTES = 1


@pytest.fixture
def run_of(run):
    """Runs of rows as a manifest in a folder."""

    def call(rows: list[dict[str, Any]], folder: Path, code: int) -> Any:
        manifest = runs.write_manifest(folder / "corpus.jsonl", rows)
        return run(manifest, "--out-dir", folder / "out", code=code)

    return call


def named(result: Any) -> dict[str, str]:
    """Reasons by utterance, as stderr names them."""
    found = [
        line.removeprefix("ctc-align: ").split(": ", 1)
        for line in result.stderr.splitlines()
        if ": " in line
    ]
    return {pair[0]: pair[1] for pair in found}


class TestInputs:
    @pytest.fixture
    def clip(self, tmp_path) -> Path:
        return runs.write_clip(tmp_path / "clip.wav", 0.5)

    @pytest.fixture
    def fails(self, run_of, tmp_path, clip):
        """Gives the reason for which a row fails; the utterance beside it does not."""

        def call(**bad: Any) -> str:
            good = {"audio": str(clip), "text": "all is well", "utterance": "good"}
            result = run_of(
                [{"audio": str(clip), "text": "bad one", "utterance": "bad", **bad}, good],
                tmp_path,
                1,
            )
            lines = {line["id"]: line for line in runs.lines(tmp_path / "out")}
            assert lines["good"]["status"] == "done"
            assert lines["bad"]["status"] == "failed"
            assert named(result)["bad"] == lines["bad"]["reason"]
            assert {path.name for path in (tmp_path / "out").glob("bad*")} == set()
            failures = runs.summary(tmp_path / "out")["failures"]
            assert failures == [{"utterance": "bad", "reason": lines["bad"]["reason"]}]
            return lines["bad"]["reason"]

        return call

    @pytest.mark.parametrize(
        ("bad", "reason"),
        [
            ({"audio": "nowhere.wav"}, "no such audio file"),
            ({"audio": "loop.wav"}, "loop.wav"),
            ({"audio": "secret.wav"}, "Permission denied"),
            ({"audio": "text.wav"}, "expected audio"),
            ({"audio": "."}, "got a folder"),
            ({"audio": "corrupt.flac"}, "damaged"),
            ({"audio": "header.flac"}, "header.flac"),
            ({"text": ""}, "empty"),
            ({"offset": 0.4, "duration": 3.0}, "part of the recording"),
        ],
    )
    def test_what_cannot_be_aligned(self, fails, bad, reason, tmp_path):
        (tmp_path / "loop.wav").symlink_to("loop.wav")
        (tmp_path / "text.wav").write_text("this is no sound")
        secret = runs.write_clip(tmp_path / "secret.wav")
        secret.chmod(0)
        flac = runs.write_clip(tmp_path / "corrupt.flac", 2.0).read_bytes()
        (tmp_path / "corrupt.flac").write_bytes(
            flac[:200] + bytes(255 - byte for byte in flac[200:])
        )
        (tmp_path / "header.flac").write_bytes(flac[:60])
        if reason == "Permission denied" and os.access(secret, os.R_OK):
            pytest.skip("no mode of a file stops this user")
        assert reason in fails(**bad)


ODD = [
    'with space/it\'s "quoted" & $HOME `id` ; rm -rf *.wav',
    "Größe/日本語 – ñ.wav",
    "-rf.wav",
    "new\nline.wav",
    "%2e%2e.wav",
    "a" * 200 + ".wav",
    "trailing dot..wav",
    ".hidden.wav",
]


def test_odd_paths(run_of, tmp_path):
    for name in ODD:
        runs.write_clip(tmp_path / "audio" / name)
    (tmp_path / "audio" / "sub").mkdir()
    run_of(
        [{"audio": f"audio/sub/../{name}", "text": f"words of {name}"} for name in ODD], tmp_path, 0
    )
    found = [path for path in (tmp_path / "out").rglob("*.json") if path.name != "summary.json"]
    texts = {json.loads(path.read_text("utf-8"))["text"] for path in found}
    assert (len(found), texts) == (len(ODD), {f"words of {name}" for name in ODD})
    assert {path.name for path in tmp_path.iterdir()} == {"audio", "corpus.jsonl", "out"}


def test_nothing_is_written_outside(run_of, tmp_path):
    ids = ["../../escaped", "/escaped", "a/../../escaped", "..", ".", "journal", "x/", "C:\\x"]
    clip = runs.write_clip(tmp_path / "in" / "clip.wav")
    run_of(
        [{"audio": str(clip), "text": "some words", "utterance": id} for id in ids],
        tmp_path / "in",
        0,
    )
    assert [path.name for path in tmp_path.iterdir()] == ["in"]
    assert {path.name for path in (tmp_path / "in").iterdir()} == {
        "clip.wav",
        "corpus.jsonl",
        "out",
    }
    assert sorted(line["id"] for line in runs.lines(tmp_path / "in" / "out")) == sorted(ids)
    assert not Path("/escaped.json").exists()


@pytest.mark.long
class TestOutput:
    @pytest.fixture
    def small_disk(self, tmp_path) -> Iterator[Path]:
        folder = tmp_path / "disk"
        folder.mkdir()
        mount = ["mount", "-t", "tmpfs", "-o", f"size={MEGABYTES}m", "tmpfs", str(folder)]
        if shutil.which("mount") is None or subprocess.run(mount, capture_output=True).returncode:
            pytest.skip("a small disk cannot be mounted here")
        try:
            yield folder
        finally:
            subprocess.run(["umount", str(folder)], check=True)

    def test_a_full_disk(self, run, corpus, small_disk, tmp_path):
        filler = small_disk / "filler"
        filler.write_bytes(bytes(MEGABYTES * 2**20 - 200 * 1024))
        out_dir = small_disk / "out"
        options = (corpus, "--batch-seconds", 1)
        result = runs.run(*options, "--out-dir", out_dir, "--workers", 1)
        self.stopped(result, out_dir)
        filler.unlink()
        run(*options, "--out-dir", out_dir, code=1)
        whole = tmp_path / "whole"
        run(*options, "--out-dir", whole)
        assert runs.outputs(out_dir) == runs.outputs(whole)

    @pytest.mark.parametrize("fault", ["nospace:20", "journal-nospace:3"])
    def test_a_disk_that_says_it_is_full(self, run, fault, corpus, tmp_path):
        options = (corpus, "--batch-seconds", 1)
        out_dir, whole = tmp_path / "out", tmp_path / "whole"
        result = runs.run(*options, "--out-dir", out_dir, "--workers", 1, FAULT=fault)
        self.stopped(result, out_dir)
        assert runs.summary(out_dir)["utterances"] == len(runs.lines(out_dir))
        assert not runs.summary(out_dir)["complete"]
        run(*options, "--out-dir", out_dir, code=1)
        run(*options, "--out-dir", whole)
        assert runs.outputs(out_dir) == runs.outputs(whole)
        assert len(runs.lines(out_dir)) == UTTERANCES

    def stopped(self, result: subprocess.CompletedProcess[str], out_dir: Path) -> None:
        """It says why and what to do; what there is, is whole."""
        assert result.returncode == 1
        assert "No space left on device" in result.stderr
        assert "run the same command" in result.stderr
        assert 0 < len(runs.lines(out_dir)) < UTTERANCES
        assert list(out_dir.rglob("*.part")) == []
        for path in out_dir.rglob("u*.json"):
            assert json.loads(path.read_text("utf-8"))["words"]

    def test_a_folder_that_cannot_be_written(self, run, corpus, small_disk):
        subprocess.run(["mount", "-o", "remount,ro", str(small_disk)], check=True)
        result = run(corpus, "--out-dir", small_disk / "out", code=2)
        assert "cannot be written (Read-only file system)" in result.stderr
        assert result.stderr.count("\n") == 1

    def test_a_file_where_the_folder_should_be(self, run, corpus, tmp_path):
        (tmp_path / "out").write_text("precious")
        result = run(corpus, "--out-dir", tmp_path / "out", code=2)
        assert "got a file" in result.stderr
        assert (tmp_path / "out").read_text() == "precious"

    def test_a_folder_where_a_file_should_be_fails_one_utterance(self, run, corpus, tmp_path):
        (tmp_path / "out" / "part 0" / "u0.json").mkdir(parents=True)
        result = run(corpus, "--out-dir", tmp_path / "out", "--force", code=1)
        assert "is a folder" in named(result)["part 0/u0"]
        assert runs.summary(tmp_path / "out")["failed"] == 4
