"""Every reader, given anything: a value, or an error of ours that names the file; and the attack
sees what it should.

`python tests/support/reader_attack.py --minutes 600 --out runs/attack` goes on for hours.
"""

from __future__ import annotations

import json
import random
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

from attacked_readers import READERS
from reader_attack import Attack, most_memory, table
from rows import over_rows

from ctc_align import config
from ctc_align.errors import InputError
from ctc_align.files import json_files, textgrid
from ctc_align.models import vocabulary
from ctc_align.sources import manifest_files

ROOT = Path(__file__).resolve().parents[2]
PLAIN = [name for name, reader in READERS.items() if not reader.native]
SEED = 20


def faults(attack: Attack) -> list[str]:
    return [fault for tally in attack.tallies.values() for fault in tally.faults]


@pytest.mark.long
def test_the_samples_are_read(tmp_path: Path) -> None:
    """An attack on samples that no reader takes would prove nothing."""
    attack = Attack(tmp_path, PLAIN)
    for name in PLAIN:
        for case in READERS[name].seeds():
            assert attack.attack(READERS[name], case) == ""
        assert attack.tallies[name].kinds["value"], name


def test_some_cases(tmp_path: Path) -> None:
    attack = Attack(tmp_path, PLAIN, SEED)
    assert len(list(attack.run(400))) == 400
    assert faults(attack) == [], table(attack.tallies)
    for kind in ("value", "refusal"):
        assert sum(tally.kinds[kind] for tally in attack.tallies.values()) > 120


@pytest.mark.long
def test_four_thousand_cases_of_all_readers(tmp_path: Path) -> None:
    """Native code, too; a process that ends or hangs is a fault."""
    command = [
        sys.executable,
        ROOT / "tests" / "support" / "reader_attack.py",
        "--cases",
        "4000",
        "--out",
        tmp_path,
    ]
    result = subprocess.run(list(map(str, command)), capture_output=True, text=True)
    assert result.returncode == 0, result.stdout[-3000:] + result.stderr[-1000:]


TOOK_MINUTES = [
    ("transcript", "a.txt", "Ann: 1:00\n" + " " * 100_000),
    ("transcript", "a.txt", "<!--" * 25_000),
    ("languages", "en.txt", "0" * 100_000),
    ("settings", "a.toml", "a." * 50_000),
]


def test_what_took_minutes(tmp_path: Path) -> None:
    attack = Attack(tmp_path)
    for name, file, text in TOOK_MINUTES:
        attack.attack(READERS[name], {file: text.encode()})
    assert faults(attack) == [], table(attack.tallies)


def _old_count(parser: Any, what: str) -> int:
    number = float(parser.take("number", what))
    if number < 0 or number != int(number):
        raise parser.fault(f"expected the {what}, got {number}")
    return int(number)


FAULTS = [
    ("textgrid", textgrid._Parser, "count", _old_count),
    ("mfa folder", textgrid._Parser, "count", _old_count),
    ("alignment json", json_files, "as_seconds", lambda value: value),
    ("vocabulary json", vocabulary, "parse_json", json.loads),
    ("settings", config, "parse_toml", tomllib.loads),
    ("lhotse", manifest_files, "_channels", lambda value: set(value or ())),
]


def test_the_attack_sees_a_count_of_1e999(tmp_path: Path) -> None:
    assert was_seen(tmp_path, *FAULTS[0])


@pytest.mark.long
@over_rows(("reader", "owner", "name", "fault"), FAULTS)
def test_the_attack_sees_faults_that_were_there(
    tmp_path_factory, schema_watch, reader, owner, name, fault
):
    assert was_seen(tmp_path_factory.mktemp("attack"), reader, owner, name, fault), (
        f"nothing was seen in {reader}"
    )
    schema_watch.faults.clear()  # what is planted may read, and write, what no alignment is


def was_seen(folder: Path, reader: str, owner: Any, name: str, fault: Any) -> bool:
    """Return whether the attack finds a reader as it was before, within the cases of seconds."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(owner, name, fault)
        attack = Attack(folder, [reader], SEED)
        return any(faults(attack) for _ in attack.run(1500))


@pytest.mark.long
def test_what_is_a_fault(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Another exception, a message without the file or of pages, a hang, memory: each is told with
    its place."""
    reader = READERS["labels map"]

    def raising(error: BaseException) -> Callable[[Path], object]:
        def read(folder: Path) -> object:
            raise error

        return read

    def hangs(folder: Path) -> object:
        while True:
            pass

    monkeypatch.setattr("reader_attack.LONGEST_S", 1.0)
    monkeypatch.setattr("reader_attack.MOST_BYTES", 2**26)
    wrong: dict[str, Callable[[Path], object]] = {
        "ZeroDivisionError": raising(ZeroDivisionError("division")),
        "names no file": raising(InputError("something is wrong")),
        "names no file: ''": raising(InputError("a.map: two\n\nlines")),
        "a message of 9005 characters": raising(InputError("a.map" + "x" * 9000)),
        "no end within 1 s": hangs,
        "MiB of memory": lambda folder: bytearray(most_memory() + 2**28),
    }
    for says, read in wrong.items():
        attack = Attack(tmp_path, [reader.name])
        broken = type(reader)(reader.name, read)
        assert says in attack.attack(broken, reader.seeds()[0])
    assert list((tmp_path / "faults" / "labels_map").glob("*.txt"))


def test_a_case_follows_from_its_seed(tmp_path: Path) -> None:
    one, two = (
        Attack(tmp_path / name, ["npz"], 3).case("npz", random.Random("3 7")) for name in ("a", "b")
    )
    assert one == two
