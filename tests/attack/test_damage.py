"""Random damage of journals and of outputs: nothing is believed that was not written, and a rerun
mends it all.

    DAMAGES=20000 python -m pytest tests/attack/test_damage.py

damages journals for minutes, and the outputs of real runs in both layouts.
"""

from __future__ import annotations

import os
import random
from collections.abc import Callable
from pathlib import Path

import corpus_runs as runs
import pytest
from corpus_runs import journal_line

from ctc_align.corpus.state.journal import (
    DONE,
    FAILED,
    Line,
    journal_path,
    line_key,
)
from ctc_align.corpus.state.resume import Outcomes
from ctc_align.files.folder_lock import Shard

DAMAGES = int(os.environ.get("DAMAGES", "250"))
UTTERANCES = 40


Damage = Callable[[bytes, bytes, random.Random], bytes]


def flip(data: bytes, other: bytes, chance: random.Random) -> bytes:
    damaged = bytearray(data)
    for _ in range(chance.choice((1, 1, 2, 8))):
        damaged[chance.randrange(len(data))] ^= 1 << chance.randrange(8)
    return bytes(damaged)


def overwrite(data: bytes, other: bytes, chance: random.Random) -> bytes:
    """A sector of zeros or of noise, as disks have it."""
    place, size = chance.randrange(len(data)), chance.choice((1, 16, 512))
    size = min(size, len(data) - place)
    return (
        data[:place]
        + (bytes(size) if chance.random() < 0.5 else chance.randbytes(size))
        + data[place + size :]
    )


def digit(data: bytes, other: bytes, chance: random.Random) -> bytes:
    """Another digit: the line stays JSON."""
    place = chance.choice([place for place, byte in enumerate(data) if chr(byte).isdigit()])
    return (
        data[:place]
        + b"%d" % ((int(chr(data[place])) + chance.randrange(1, 10)) % 10)
        + data[place + 1 :]
    )


def delete(data: bytes, other: bytes, chance: random.Random) -> bytes:
    start = chance.randrange(len(data) + 1)
    return data[:start] + data[start + chance.randrange(200) :]


def lines(data: bytes, other: bytes, chance: random.Random) -> bytes:
    """Double, remove, swap or join lines, or repeat one a thousand times."""
    rows = data.split(b"\n")
    a, b = chance.randrange(len(rows)), chance.randrange(len(rows))
    action = chance.randrange(5)
    if action == 0:
        rows[a:a] = [rows[b]] * chance.choice((1, 1, 1000))
    elif action == 1:
        del rows[a]
    elif action == 2:
        rows[a], rows[b] = rows[b], rows[a]
    elif action == 3:
        rows[a] = rows[a].strip() + rows[b]
    else:
        rows[a] = b""
    return b"\n".join(rows)


CHANGES: tuple[Damage, ...] = (flip, overwrite, digit, delete, lines, lines, lines)


def made_journals(folder: Path, chance: random.Random) -> list[Path]:
    """Two journals, of runs that did some utterances again, with other outcomes."""
    paths = [folder / "journal.0-of-2.jsonl", folder / "journal.jsonl"]
    rows: dict[Path, list[bytes]] = {path: [] for path in paths}
    for run in range(1, 4):
        mine = rows[paths[run % 2]]
        for id in chance.sample(range(12), 8):
            status = chance.choice((DONE, FAILED))
            loss = chance.randrange(1000) / 8 if status == DONE else None
            files = {f"u{id}.json": (chance.randrange(999), f"{chance.getrandbits(64):016x}")}
            reason = None if status == DONE else f"reason {chance.random()}"
            line = journal_line(
                f"u{id}", status, reason, loss=loss, fingerprint=f"{id:016x}", files=files
            )
            mine.append(line.encoded(run, len(mine) + 1))
    for path in paths:
        path.write_bytes(b"".join(rows[path]))
    return paths


def test_a_journal_of_which_no_line_is_left_lets_no_older_one_win(tmp_path):
    """Every line of a later run is damaged; what it says of its run still tells that it was
    later."""
    paths = [tmp_path / "journal.0-of-2.jsonl", tmp_path / "journal.jsonl"]
    done = [journal_line(f"u{i}", DONE, fingerprint=f"{i:016x}") for i in range(3)]
    for run, path in enumerate(paths, start=1):
        path.write_bytes(
            b"".join(line.encoded(run, number) for number, line in enumerate(done, start=1))
        )
    paths[1].write_bytes(paths[1].read_bytes().replace(b"done", b"dine"))
    outcomes = Outcomes(paths)
    assert all(outcomes.is_unsure(line.key) for line in done)
    assert outcomes.last_run == 2


def believed(paths: list[Path], counts: dict[Path, int]) -> dict[str, Line | None]:
    """The lines that a run would rely on without looking at the outputs; `counts` of lines are in
    the summaries."""
    with Outcomes(paths, counts, quiet=True) as outcomes:
        keys = {f"u{id}": line_key(f"u{id}") for id in range(12)}
        sure = {
            id: outcomes.find(key) is not None and not outcomes.is_unsure(key)
            for id, key in keys.items()
        }
        return {id: outcomes.line(key) if sure[id] else None for id, key in keys.items()}


def test_no_damage_changes_a_recorded_value_silently(tmp_path):
    """Also the value of an older line, which a later one had replaced, is a changed one."""
    changed = []
    for seed in range(DAMAGES):
        chance = random.Random(seed)
        paths = made_journals(tmp_path, chance)
        counts = {path: path.read_bytes().count(b"\n") for path in paths}
        before = believed(paths, counts)
        path, damage = chance.choice(paths), chance.choice(CHANGES)
        path.write_bytes(damage(path.read_bytes(), b"", chance))
        after = believed(paths, counts)
        wrong = [id for id, line in after.items() if line is not None and line != before[id]]
        if wrong:
            changed.append((seed, path.name, damage, wrong))
    assert not changed, f"{len(changed)} of {DAMAGES} damages: {changed[:5]}"


@pytest.fixture(scope="module")
def corpus(tmp_path_factory) -> Path:
    return runs.make_corpus(tmp_path_factory.mktemp("corpus"), UTTERANCES)


OPTIONS = {
    "files": ["--format", "json,ctm,textgrid", "--cut-audio", "--manifest", "nemo"],
    "shards": ["--layout", "shards", "--shard-size", 7, "--manifest", "nemo,lhotse"],
}


@pytest.mark.long
@pytest.mark.parametrize("layout", OPTIONS)
def test_verify_mends_outputs_and_journals_at_random(layout, corpus, tmp_path):
    out_dir, chance = tmp_path / "out", random.Random(layout)
    options = (corpus, "--out-dir", out_dir, "--workers", 1, *OPTIONS[layout])
    assert runs.run(*options).returncode == 1
    expected = runs.outputs(out_dir)
    for _ in range(4):
        for name in chance.sample(sorted(expected), 4):
            damage_file(out_dir / name, chance)
        journal = journal_path(out_dir, Shard())
        journal.write_bytes(chance.choice(CHANGES)(journal.read_bytes(), b"", chance))
        result = runs.run(*options, "--verify")
        assert result.returncode == 1, result.stderr
        found = {name: data for name, data in runs.outputs(out_dir).items() if ".hand." not in name}
        assert found == expected, result.stderr  # what may be a person's work was moved aside
        assert "utterances checked" in result.stderr
        summary = runs.summary(out_dir)
        assert (summary["done"], summary["failed"]) == (37, 3)
    before = (out_dir / "journal.jsonl").read_bytes()
    result = runs.run(*options, "--verify")
    assert "37 utterances checked: 37 whole, 0 not" in result.stderr
    assert (out_dir / "journal.jsonl").read_bytes() == before, "what was mended stays so"
    for path in out_dir.rglob("*.hand.*"):
        path.unlink()  # damaged files that were kept aside: no schema holds for them


def damage_file(path: Path, chance: random.Random) -> None:
    """Leave the size as it is, half of the time: only the checksum tells."""
    if chance.random() < 0.2:
        path.unlink()
        return
    path.write_bytes(chance.choice((flip, delete))(path.read_bytes(), b"", chance))
