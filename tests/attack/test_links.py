"""Links and pipes that others put into an output folder: nothing outside is written, and nothing
hangs.

`pytest --long tests/attack/test_links.py` plants every link with every target, a hundred and fifty
in all.
"""

from __future__ import annotations

import contextlib
import os
import shutil
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import corpus_runs as runs
import pytest
from inline_corpus import inline_corpus  # noqa: F401 (a fixture)

from ctc_align.corpus.outputs.layout import Layout
from ctc_align.corpus.run import CorpusRun, run_corpus
from ctc_align.corpus.state.output_folder import folds_case
from ctc_align.errors import CtcAlignError
from ctc_align.files.folder_lock import FolderLock, Shard, holder_of, lock_path
from ctc_align.files.whole_files import placing

SETTINGS = {
    "files": Layout("", formats=("json", "ctm", "srt"), manifests=("nemo", "lhotse"), cut="pause"),
    "shards": Layout("", kind="shards", manifests=("nemo",)),
    "grids": Layout("", formats=("textgrid",)),
    "failing": Layout("", formats=("textgrid",)),
}
OF_ALL = (
    "journal.jsonl",
    ".ctc-align-parts",
    ".ctc-align.lock",
    ".ctc-align.holder",
    f".ctc-align.{os.getpid()}.part",
    "summary.json",
)
PLACES = {
    "files": (
        *(
            "spk",
            "spk/deep",
            "cuts",
            "cuts/spk",
            "spk/u0.json",
            "spk/u0.ctm",
            "spk/u0.tokens.ctm",
            "spk/u0.srt",
        ),
        *(
            "cuts/spk/u0-0001.flac",
            "cuts/spk/u0-0002.txt",
            "manifest.nemo.jsonl",
            "manifest.lhotse.jsonl.gz",
        ),
    ),
    "shards": (
        *("alignments-00000.jsonl.gz", "alignments-00000.ctm", ".ctc-align-spool.sqlite"),
        *(
            ".ctc-align-spool.sqlite-journal",
            ".ctc-align-spool.0-of-2.sqlite",
            ".ctc-align-parts.0-of-2",
        ),
    ),
    "grids": ("spk", "spk/rec.TextGrid"),
    "failing": ("spk", "spk/rec.TextGrid"),
}
EVERY = [
    (layout, name, target)
    for layout, names in PLACES.items()
    for name in (*names, *OF_ALL)
    for target in ("", "spk", "file", "empty", "new")
]
SOME = [
    *(
        ("files", "spk", "spk"),
        ("files", "cuts", ""),
        ("files", "spk/deep", ""),
        ("files", "spk/u0.json", "file"),
    ),
    *(
        ("files", ".ctc-align-parts", ""),
        ("files", ".ctc-align.lock", "file"),
        ("files", ".ctc-align.holder", "file"),
    ),
    *(
        ("files", "manifest.nemo.jsonl", "file"),
        ("files", "journal.jsonl", "file"),
        ("shards", "journal.jsonl", "new"),
    ),
    *(("shards", ".ctc-align-spool.sqlite", "empty"), ("shards", "alignments-00000.ctm", "file")),
    *(("grids", "spk", "spk"), ("failing", "spk", "spk")),
]
"""Cases that found faults, one of each kind."""


class Silent:
    def progress(self, tally: object) -> None:
        pass

    def warn(self, line: str) -> None:
        pass


@pytest.fixture(scope="module")
def sources(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """A manifest of two utterances, and folders of one recording of two utterances, which may both
    fail."""
    folder = tmp_path_factory.mktemp("source")
    sound = runs.write_clip(folder / "clip.wav", 0.4)
    rows = [
        {"audio_filepath": str(sound), "text": "one two", "utterance": name}
        for name in ("spk/u0", "spk/deep/u1")
    ]
    manifest = runs.write_manifest(folder / "corpus.jsonl", rows)
    made = {"files": manifest, "shards": manifest}
    for name, text in (("grids", "one two"), ("failing", "word " * 60)):
        runs.write_clip(folder / name / "spk" / "rec.wav", 0.4)
        tier = f'"IntervalTier" "ann" 0 0.4 2 0 0.2 "{text}" 0.2 0.4 "{text}"'
        grid = f'"ooTextFile"\n"TextGrid"\n0 0.4 <exists> 1 {tier}\n'
        (folder / name / "spk" / "rec.TextGrid").write_text(grid, "utf-8")
        made[name] = folder / name
    return made


def contents(folder: Path) -> dict[str, bytes | None]:
    """Everything below a folder; links are not followed."""
    return {
        str(path.relative_to(folder)): (
            path.read_bytes() if path.is_file() and not path.is_symlink() else None
        )
        for path in folder.rglob("*")
    }


@contextlib.contextmanager
def attacked(tmp_path: Path, name: str, target: str) -> Iterator[Path]:
    """An output folder with a link in it; what lies outside must be as it was when the block
    ends."""
    shutil.rmtree(tmp_path)
    out_dir, victim = tmp_path / "out", tmp_path / "victim"
    (out_dir / name).parent.mkdir(parents=True)
    (victim / "spk").mkdir(parents=True)
    for file in (
        "file",
        "spk/u0.json",
        "u0-0003.flac",
        "u0-0003.txt",
        "rec.TextGrid",
        "spk/rec.TextGrid",
    ):
        (victim / file).write_text("mine")
    (victim / "empty").touch()
    (out_dir / name).symlink_to(Path("../" * name.count("/"), "..", "victim", target))
    before = contents(tmp_path / "victim")
    yield out_dir
    assert contents(victim) == before, f"{name} to {target}"
    assert {path.name for path in tmp_path.iterdir()} == {"out", "victim"}


def run_twice(layout: str, source: Path, out_dir: Path) -> None:
    for _ in range(2):
        with contextlib.suppress(CtcAlignError):
            run_corpus(
                CorpusRun(str(source), str(out_dir), outputs=replace(SETTINGS[layout]), force=True),
                Silent(),
            )


@pytest.mark.parametrize(
    "links", [SOME, pytest.param(EVERY, marks=pytest.mark.long)], ids=("some", "every")
)
def test_no_link_in_an_output_folder_is_followed(links, sources, tmp_path, inline_corpus):  # noqa: F811
    for layout, name, target in links:
        with attacked(tmp_path, name, target) as out_dir:
            run_twice(layout, sources[layout], out_dir)


def test_an_output_folder_that_is_a_link_is_the_users_choice(sources, tmp_path, inline_corpus):  # noqa: F811
    (tmp_path / "disk").mkdir()
    (tmp_path / "out").symlink_to("disk")
    run_twice("files", sources["files"], tmp_path / "out")
    assert (tmp_path / "disk" / "spk" / "u0.json").is_file()


def test_a_refused_link_is_named_with_what_to_do(sources, tmp_path, inline_corpus):  # noqa: F811
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "spk").symlink_to(tmp_path)
    summary = run_corpus(CorpusRun(str(sources["files"]), str(tmp_path / "out")), Silent()).summary
    assert (summary.done, summary.failed) == (0, 2)
    assert all("spk is a link" in failure["reason"] for failure in summary.failures)
    assert all("remove it, or choose another" in failure["reason"] for failure in summary.failures)


def test_a_pipe_in_the_place_of_a_holder_does_not_hang(tmp_path):
    os.mkfifo(tmp_path / ".ctc-align.holder")
    assert "has not written its name" in holder_of(lock_path(tmp_path, Shard()))
    with FolderLock(tmp_path, Shard()):
        assert "process" in holder_of(lock_path(tmp_path, Shard()))


@pytest.mark.parametrize("shard", [Shard(), Shard(1, 4)], ids=str)
def test_a_folder_that_folds_case_is_seen_by_every_shard(shard, tmp_path, monkeypatch):
    def exists(path: Path, **_: object) -> bool:
        return path.name.casefold() in {name.casefold() for name in os.listdir(path.parent)}

    assert not folds_case(tmp_path, shard)
    monkeypatch.setattr(Path, "exists", exists)
    assert folds_case(tmp_path, shard)
    assert list(tmp_path.iterdir()) == []


def test_ids_that_differ_in_case_do_not_meet_under_a_shard(
    sources,
    tmp_path,
    monkeypatch,
    inline_corpus,  # noqa: F811
):
    """A file system that folds case, imitated where the run looks; both utterances must have files
    of their own."""
    sound = sources["files"].parent / "clip.wav"
    rows = [
        {"audio_filepath": str(sound), "text": "one", "utterance": name}
        for name in ("Anna", "anna")
    ]
    source = runs.write_manifest(tmp_path / "corpus.jsonl", rows)
    real = Path.exists
    monkeypatch.setattr(
        Path, "exists", lambda path, **_: real(path) or path.name.lower() in os.listdir(path.parent)
    )
    for index in range(2):
        run_corpus(CorpusRun(str(source), str(tmp_path / "out"), shard=Shard(index, 2)), Silent())
    names = [path.name.casefold() for path in (tmp_path / "out").glob("*.TextGrid")]
    assert len(set(names)) == 2


def test_a_file_beside_its_target_replaces_a_link_alone(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("mine")
    (tmp_path / "new").symlink_to("file")
    with placing([tmp_path / "new"]) as parts:
        for _, part in parts:
            part.write_text("theirs")
    assert ((tmp_path / "file").read_text(), (tmp_path / "new").read_text()) == ("mine", "theirs")
    assert not (tmp_path / "new").is_symlink()


def test_no_link_in_the_folder_of_a_training_is_followed(tmp_path):
    from ctc_align.training.run_folder import NAME, TrainOptions, run_folder, save_checkpoint

    (tmp_path / "file").write_text("mine")
    work = tmp_path / "model" / NAME
    work.mkdir(parents=True)
    for name in ("run.part", "checkpoint.part", "frames.f16.part"):
        (work / name).symlink_to(tmp_path / "file")
    options = TrainOptions("", tmp_path / "model")
    with run_folder(options, {}):
        save_checkpoint(work / "checkpoint.pt", {})
        assert not (work / "frames.f16.part").is_symlink()
    work.symlink_to(tmp_path)
    with pytest.raises(CtcAlignError, match="is a link"), run_folder(options, {}):
        pass
    assert (tmp_path / "file").read_text() == "mine"
