"""Lists of cut audio: the manifest, and the data sets, opened as those who train do it."""

from __future__ import annotations

import json
import tarfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import soundfile
from corpus_runs import lines, summary, write_clip, write_manifest

from ctc_align.errors import UsageError
from ctc_align.sources import open_source

ROWS = [
    {"utterance": "a/one", "text": 'He said "no", twice:\nno.', "speaker": "kim"},
    {"utterance": "a/two.5", "text": "one | two", "offset": 0.1, "duration": 0.2},
    {"utterance": "fails", "text": ""},
    {"utterance": "three", "text": "= words ü"},
]
LEAVES_FILES_OPEN = pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
"""As datasets and webdataset themselves do."""
CUT = ("--cut-audio", "--format", "json")


@pytest.fixture
def source(tmp_path: Path) -> Path:
    for i, row in enumerate(ROWS):
        row["audio"] = str(write_clip(tmp_path / "in" / f"{i}.wav", 0.4 + 0.1 * i, i))
    return write_manifest(tmp_path / "in" / "m.jsonl", ROWS)


def found_in(source: Any) -> list[tuple[str, str, str, float]]:
    """Return id, text, speaker and seconds of the utterances of a source."""
    return [
        (item.id, item.text, item.speaker, round(soundfile.info(item.audio).duration, 3))
        for item in source
    ]


CUTS = [
    ("a/one", 'He said "no", twice: no.', "kim", 0.4),
    ("a/two.5", "one | two", "", 0.2),
    ("three", "= words ü", "", 0.7),
]


def test_the_manifest_names_what_was_cut(
    run_into: Callable[..., Any], source: Path, tmp_path: Path
) -> None:
    out = tmp_path / "out"
    run_into(source, out, *CUT)
    assert found_in(open_source(out / "manifest.cuts.jsonl")) == CUTS
    rows = [json.loads(line) for line in (out / "manifest.cuts.jsonl").read_text().splitlines()]
    assert rows[0] == {
        "audio_filepath": "cuts/a/one.flac",
        "text": CUTS[0][1],
        "duration": 0.4,
        "utterance": "a/one",
        "speaker": "kim",
    }
    run_into(source, tmp_path / "by", *CUT, "--by", "pause", "--shard", "0/2")
    phrases = found_in(open_source(tmp_path / "by" / "manifest.cuts.0-of-2.jsonl"))
    assert phrases[0][:3] == ("a/one-0001", *CUTS[0][1:3])
    (out / "cuts/three.txt").unlink()
    run_into(source, out, *CUT)  # is mended first
    assert found_in(open_source(out / "manifest.cuts.jsonl")) == CUTS


@LEAVES_FILES_OPEN
def test_audiofolder(run_into: Callable[..., Any], source: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    run_into(source, out, *CUT)
    run_into(source, out, *CUT, "--layout", "audiofolder")
    assert summary(out)["run"]["done"] == 0  # only the table is new
    assert found_in(open_source(out / "cuts", "metadata")) == CUTS
    datasets = pytest.importorskip("datasets", reason="Hugging Face's datasets is not installed")
    if int(datasets.__version__.split(".")[0]) > 3:
        pytest.importorskip("torchcodec", reason="which datasets needs from version 4 on")
    table = datasets.load_dataset(
        "audiofolder", data_dir=str(out / "cuts"), cache_dir=str(tmp_path / "cache")
    )["train"].cast_column("audio", datasets.Audio(decode=False))
    assert [
        (row["utterance"], row["transcription"], row["speaker"] or "", row["duration"])
        for row in table
    ] == CUTS
    assert [Path(row["audio"]["path"]).name for row in table] == [
        *("one.flac", "two.5.flac", "three.flac")
    ]


@LEAVES_FILES_OPEN
def test_webdataset(run_into: Callable[..., Any], source: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    (out / "cuts").mkdir(parents=True)
    for stale in ("shard-00002.tar", "shard-00001.tar.bak"):
        (out / "cuts" / stale).write_text("")
    shards = ("--layout", "webdataset", "--shard-size", 2)
    run_into(source, out, *CUT, *shards)
    names = sorted(path.name for path in (out / "cuts").glob("shard*"))
    assert names == ["shard-00000.tar", "shard-00001.tar", "shard-00001.tar.bak"]
    first = out / "cuts" / names[0]
    before = first.read_bytes()
    run_into(source, out, *CUT, *shards)
    assert first.read_bytes() == before
    with tarfile.open(first) as tar:
        assert tar.getnames()[:3] == [f"00000000-0000{end}" for end in (".flac", ".txt", ".json")]
        assert {entry.mtime for entry in tar} == {0}
    webdataset = pytest.importorskip("webdataset", reason="webdataset is not installed")
    urls = [str(out / "cuts" / name) for name in names[:2]]
    samples = list(webdataset.WebDataset(urls, shardshuffle=False).decode("rgb"))
    assert [
        (sample["json"]["utterance"], sample["txt"], sample["json"].get("speaker", ""))
        for sample in samples
    ] == [row[:3] for row in CUTS]
    assert samples[1]["flac"] == (out / "cuts/a/two.5.flac").read_bytes()


def test_ljspeech(run_into: Callable[..., Any], source: Path, tmp_path: Path) -> None:
    """As recipes of text to speech read it: split at bars, wavs/NAME.wav, the last column is
    said."""
    out = tmp_path / "out"
    run_into(source, out, *CUT, "--layout", "ljspeech")
    root = out / "cuts"
    rows = [line.split("|") for line in (root / "metadata.csv").read_text("utf-8").splitlines()]
    texts = [CUTS[0][1], "one two", "= words ü"]
    assert [row[1:] for row in rows] == [[text, text] for text in texts]
    files = [soundfile.info(str(root / "wavs" / (row[0] + ".wav"))) for row in rows]
    assert [(file.format, round(file.duration, 3)) for file in files] == [
        ("WAV", row[3]) for row in CUTS
    ]
    found = found_in(open_source(root, "metadata"))
    assert [row[1] for row in found] == texts
    run_into(source, out, *CUT, "--verify", "--layout", "ljspeech")
    done = [line for line in lines(out) if line["status"] == "done"]
    assert len(done) == 3
    assert not list(root.rglob("*.flac"))


@pytest.mark.parametrize(
    ("options", "says"),
    [
        (("--layout", "audiofolder"), "add --cut-audio"),
        (("--layout", "ljspeech", "--cut-audio", "--shard", "0/2"), "give --layout webdataset"),
        (("--layout", "heap"), "expected one of files, shards, audiofolder, webdataset, ljspeech"),
    ],
)
def test_what_makes_no_data_set_is_refused(
    options: tuple[str, ...], says: str, cli: Any, source: Path, tmp_path: Path
) -> None:
    assert says in cli("corpus", source, "--out-dir", tmp_path / "out", *options, code=2).error


def test_lists_that_another_layout_left_are_named(
    run_into: Callable[..., Any], source: Path, tmp_path: Path
) -> None:
    out = tmp_path / "out"
    run_into(source, out, *CUT, "--layout", "audiofolder")
    source.write_text(source.read_text().replace("words", "word"))
    assert "cuts/metadata.csv: made by an earlier run" in run_into(source, out, *CUT).stderr


@pytest.mark.parametrize("table", ["csv", "jsonl"])
def test_a_folder_with_a_table_of_its_recordings_is_read_as_that(
    table: str, tmp_path: Path
) -> None:
    folder = tmp_path / "set"
    for name in ("train", "test"):
        write_clip(folder / name / "data" / "a.wav")
        (folder / name / "README.txt").write_text("No transcript.")
        row = {"file_name": "data/a.wav", "transcription": f"in {name}"}
        if table == "csv":
            text = "file_name,transcription\ndata/a.wav,in " + name + "\ndata/b.wav,\n"
        else:
            text = json.dumps(row) + "\n" + json.dumps({**row, "transcription": ""}) + "\n"
        (folder / name / f"metadata.{table}").write_text(text)
    source = open_source(folder)
    assert source.kind == "metadata"
    assert len(source.files) == 2
    found = [(item.id, getattr(item, "text", "refused")) for item in source]
    assert [row[:2] for row in found if row[1] != "refused"] == [
        *(("test/a", "in test"), ("train/a", "in train"))
    ]
    assert len(found) == 4
    assert {item.output for item in source if hasattr(item, "output")} == {"test/a", "train/a"}
    assert open_source(folder / "test").kind == "metadata"
    (folder / "test" / "data" / "a.txt").write_text("A transcript.")
    assert open_source(folder / "test").kind == "mfa"  # recordings with transcripts beside them
    (folder / "test" / f"metadata.{table}").write_text("nothing\n")
    with pytest.raises(UsageError, match=r"metadata\.csv or metadata\.jsonl"):
        open_source(folder / "test", "metadata")
