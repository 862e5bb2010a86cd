"""Log-probs in the place of audio: files, places in Kaldi's archives, and corpora of them, by the
command line."""

from __future__ import annotations

import ctypes
import gc
import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from inline_corpus import inline_alignment  # noqa: F401 (a fixture)

kaldiio = pytest.importorskip("kaldiio", reason="needs the extra [kaldi]")

VOCAB = ("<blk>", "|", *"abcdefghijklmnopqrstuvwxyz")
TEXTS = {"one": "we call it bear", "two": "a b c", "three": "bear with me"}
READING = ["--frame-shift", "0.02", "--vocab"]


def log_probs_of(text: str, frames: int = 90, seed: int = 0) -> np.ndarray:
    """Log-probs that hear the text: each token in two frames, blanks between, the rest at
    random."""
    scores = np.random.default_rng(seed).normal(0.0, 1.0, (frames, len(VOCAB)))
    path = [
        token
        for letter in text.replace(" ", "|")
        for token in (VOCAB.index(letter), VOCAB.index(letter), 0)
    ]
    path += [0] * (frames - len(path))
    scores[np.arange(frames), path] += 8.0
    return (scores - np.log(np.exp(scores).sum(1, keepdims=True))).astype(np.float32)


@pytest.fixture
def corpus(tmp_path: Path) -> Path:
    """The same log-probs in every form: files, an archive, a manifest, a Kaldi folder."""
    folder = tmp_path / "corpus"
    folder.mkdir()
    (folder / "vocab.txt").write_text("\n".join(VOCAB) + "\n", encoding="utf-8")
    arrays = {name: log_probs_of(text, seed=i) for i, (name, text) in enumerate(TEXTS.items())}
    kaldiio.save_ark(str(folder / "logprobs.ark"), arrays, scp=str(folder / "made.scp"))
    kaldiio.save_ark(str(folder / "small.ark"), {"two": arrays["two"]}, compression_method=2)
    for name, array in arrays.items():
        np.save(folder / f"{name}.npy", array)
    places = dict(line.split() for line in (folder / "made.scp").read_text().splitlines())
    lines = [
        {"log_probs": "one.npy", "text": TEXTS["one"], "utterance": "one"},
        {"log_probs": Path(places["two"]).name, "text": TEXTS["two"], "utterance": "two"},
        {"log_probs": "three.npy", "text": TEXTS["three"], "utterance": "three"},
    ]
    (folder / "train.jsonl").write_text(
        "".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8"
    )
    kaldi = folder / "kaldi"
    kaldi.mkdir()
    relative = {name: "../" + Path(place).name for name, place in places.items()}
    (kaldi / "logprobs.scp").write_text(
        "".join(f"{n} {p}\n" for n, p in relative.items()), encoding="utf-8"
    )
    (kaldi / "text").write_text("".join(f"{n} {t}\n" for n, t in TEXTS.items()), encoding="utf-8")
    return folder


@pytest.fixture
def run(cli: Callable[..., Any]) -> Callable[..., Any]:
    """A command line in this process; how it ends is looked at."""

    def call(*arguments: object, code: int = 0) -> Any:
        result = cli(*arguments)
        assert result.code == code, result.stderr
        return result

    return call


def words(path: Path) -> list[tuple[str, float, float]]:
    return [
        (word["text"], word["start_s"], word["end_s"])
        for word in json.loads(path.read_text())["words"]
    ]


def test_a_compressed_matrix_of_an_archive_is_aligned_as_its_file(run, corpus, tmp_path):
    for audio, out in ((corpus / "two.npy", "a"), (f"{corpus}/small.ark:4", "b")):
        given = (audio, "--text", TEXTS["two"], *READING, corpus / "vocab.txt", "--format", "json")
        run("align", *given, "--out-dir", tmp_path / out)
    (made,) = (tmp_path / "b").iterdir()
    assert words(made) == words(tmp_path / "a" / "two.json")


@pytest.mark.parametrize("source", ["train.jsonl", "kaldi"])
def test_a_source_of_log_probs_is_aligned(run, source, corpus, tmp_path, request):
    """One by a worker, one in this process."""
    if source == "kaldi":
        request.getfixturevalue("inline_alignment")
    out = tmp_path / "out"
    reading = [*READING, corpus / "vocab.txt", "--workers", "1"]
    run("corpus", corpus / source, "--out-dir", out, "--format", "json", *reading)
    for name, text in TEXTS.items():
        run(
            "align",
            corpus / f"{name}.npy",
            "--text",
            text,
            *READING,
            corpus / "vocab.txt",
            "--out-dir",
            tmp_path / "x",
        )
        assert words(out / f"{name}.json") == words(tmp_path / "x" / f"{name}.json")
    assert json.loads((out / "summary.json").read_text())["done"] == 3
    again = run("corpus", corpus / source, "--out-dir", out, "--format", "json", *reading)
    assert json.loads((out / "summary.json").read_text())["skipped"] == 3, again.stderr


@pytest.mark.parametrize("source", ["train.jsonl", "kaldi"])
def test_a_source_of_log_probs_is_scored(
    run: Callable[..., Any], source: str, corpus: Path
) -> None:
    made = run("score", corpus / source, *READING, corpus / "vocab.txt", "--format", "jsonl")
    rows = {row["utterance"]: row for row in map(json.loads, made.stdout.splitlines())}
    for name, text in TEXTS.items():
        alone = run(
            "score",
            corpus / f"{name}.npy",
            "--text",
            text,
            *READING,
            corpus / "vocab.txt",
            "--format",
            "jsonl",
        )
        assert rows[name]["loss"] == json.loads(alone.stdout)["loss"]


def test_what_is_wrong_with_a_source_is_said(
    run: Callable[..., Any], corpus: Path, tmp_path: Path
) -> None:
    source, out = corpus / "train.jsonl", tmp_path / "out"
    made = run("corpus", source, "--out-dir", out, "--vocab", corpus / "vocab.txt", code=2)
    assert "log-probs need --frame-shift too" in made.stderr
    made = run(
        "corpus",
        source,
        "--out-dir",
        out,
        *READING,
        corpus / "vocab.txt",
        "--model",
        "english",
        code=2,
    )
    assert "omit --model english" in made.stderr
    made = run(
        "corpus", source, "--out-dir", out, *READING, corpus / "vocab.txt", "--cut-audio", code=2
    )
    assert "need the sound" in made.stderr
    made = run("score", source, code=1)
    assert made.stderr.count("log-probs need --vocab FILE and --frame-shift SECONDS") == 3
    (corpus / "train.jsonl").write_text(
        '{"log_probs": "logprobs.ark:3", "text": "a"}\n{"log_probs": "no.ark:3", "text": "a"}\n'
    )
    made = run("score", source, *READING, corpus / "vocab.txt", code=1)
    assert "expected a binary matrix of Kaldi's at this offset" in made.stderr
    assert "no.ark:3: no such file" in made.stderr


@pytest.mark.usefixtures("inline_alignment")
def test_a_folder_of_log_probs_with_their_texts_is_aligned(run, corpus, tmp_path):
    folder, out = tmp_path / "folder", tmp_path / "out"
    folder.mkdir()
    (corpus / "one.npy").rename(folder / "one.npy")
    (folder / "one.txt").write_text(TEXTS["one"])
    np.save(folder / "pitch.npy", np.zeros(9))  # has no text, and is nobody's recording
    run(
        "corpus",
        folder,
        "--out-dir",
        out,
        "--format",
        "json",
        *READING,
        corpus / "vocab.txt",
        "--workers",
        "1",
    )
    assert [word for word, *_ in words(out / "one.json")] == TEXTS["one"].split()


def test_a_blank_that_the_transcript_needs_is_doubted(
    run: Callable[..., Any], corpus: Path, tmp_path: Path
) -> None:
    given = (
        corpus / "two.npy",
        "--text",
        TEXTS["two"],
        *READING,
        corpus / "vocab.txt",
        "--blank",
        TEXTS["two"][0],
    )
    for command in (("align", *given, "--out-dir", tmp_path), ("score", *given)):
        stderr = run(*command, code=1).stderr
        assert f"'{TEXTS['two'][0]}', is given as the blank, and the transcript needs it" in stderr


def test_archives_never_run_nor_unpickle_anything(run: Callable[..., Any], corpus: Path) -> None:
    archive = corpus / "bad.ark"
    archive.write_bytes(b"PKL\x80\x04cos\nsystem\n" + b"x" * 40)
    made = run("align", f"{archive}:0", "--text", "a", *READING, corpus / "vocab.txt", code=1)
    assert "expected a binary matrix of Kaldi's" in made.stderr
    (corpus / "kaldi" / "logprobs.scp").write_text("one cat x |\ntwo ../logprobs.ark:4[0:3]\n")
    made = run("score", corpus / "kaldi", *READING, corpus / "vocab.txt", code=1)
    assert "got the shell pipe 'cat x |': nothing is run" in made.stderr
    assert "got a part of a matrix in the archive" in made.stderr


def test_a_part_of_log_probs_is_its_frames(corpus: Path) -> None:
    from ctc_align.models.log_probs import LogProbsReader

    reader = LogProbsReader(str(corpus / "vocab.txt"), 0.02)
    whole = reader.read(corpus / "one.npy")
    part = reader.read(corpus / "one.npy", offset_s=0.4, duration_s=0.5)
    assert np.array_equal(part.array, whole.array[20:45])
    assert part.offset_s == 0.4


@pytest.mark.skipif(not os.path.exists("/proc/self/status"), reason="reads /proc")
def test_hours_of_log_probs_stay_on_disk(tmp_path: Path) -> None:
    """128 MB of them: checked, scored on their frames, and of memory that is not the file's no copy
    is made."""
    import tracemalloc

    from ctc_align.models.log_probs import LogProbsReader

    frames, classes = 125_000, 256
    array = np.lib.format.open_memmap(tmp_path / "long.npy", "w+", np.float32, (frames, classes))
    array[:] = -np.log(classes)
    del array
    (tmp_path / "vocab.txt").write_text(
        "\n".join(["<blk>", *(f"t{i}" for i in range(1, classes))]), encoding="utf-8"
    )
    reader = LogProbsReader(str(tmp_path / "vocab.txt"), 0.02)
    reader.check()
    LogProbsReader(str(tmp_path / "vocab.txt"), 0.02).read(_short(tmp_path))
    gc.collect()  # what others left would make room meanwhile
    before_kb = _own_kb()
    tracemalloc.start()
    emissions = reader.read(tmp_path / "long.npy")
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert emissions.array.shape == (frames, classes)
    size = frames * classes * 4
    assert peak < size / 10
    assert (_own_kb() - before_kb) * 1024 < size / 4
    ctypes.CDLL(None).malloc_trim(0)  # a copy must not fit into what was freed before
    before_kb = _own_kb()
    copied = emissions.array.copy()
    assert (_own_kb() - before_kb) * 1024 > 0.9 * size, "a copy is seen by this check"
    assert copied.shape == emissions.array.shape


def _short(folder: Path) -> Path:
    np.save(folder / "short.npy", np.full((9000, 256), -np.log(256.0), np.float32))
    return folder / "short.npy"


def _own_kb() -> int:
    """Memory of this process that no file stands behind."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith("RssAnon:"):
            return int(line.split()[1])
    raise AssertionError("no RssAnon")


def test_logits_have_no_fit_and_the_cure_is_told(tmp_path: Path, cli: Any) -> None:
    """Scores of a network before its log_softmax: times as before, and nothing that a filter would
    keep."""
    (tmp_path / "vocab.txt").write_text("\n".join(VOCAB) + "\n", encoding="utf-8")
    logits = log_probs_of("we call it bear") + np.random.default_rng(1).normal(
        8.0, 1.0, (90, 1)
    ).astype(np.float32)
    np.save(tmp_path / "logits.npy", logits)
    np.save(tmp_path / "log_probs.npy", log_probs_of("we call it bear"))
    found = {}
    for name in ("logits", "log_probs"):
        call = [
            tmp_path / f"{name}.npy",
            "--text",
            "we call it bear",
            *READING,
            tmp_path / "vocab.txt",
        ]
        result = cli(*call, "--format", "json", "--out-dir", tmp_path)
        found[name] = json.loads((tmp_path / f"{name}.json").read_text("utf-8"))
        assert ("take log_softmax first" in result.stderr) == (name == "logits")
    assert found["log_probs"]["fit"] == "good"
    assert found["logits"]["fit"] is None
    assert [w["start_s"] for w in found["logits"]["words"]] == [
        w["start_s"] for w in found["log_probs"]["words"]
    ]
