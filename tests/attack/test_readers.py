"""Every reader, given anything: a value, or an error of ours that names the file; and the attack
sees what it should.

`ATTACKS=100000 python -m pytest tests/attack/test_readers.py` goes on for hours.
"""

from __future__ import annotations

import json
import os
import shutil
import sys
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, find, given, settings
from hypothesis.errors import NoSuchExample

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

from attacked_readers import READERS, Reader
from hostile_inputs import fill_with, hostile_cases
from reader_attack import FAULT, REFUSAL, VALUE, attack
from rows import over_rows

from ctc_align import config
from ctc_align.errors import InputError
from ctc_align.files import json_files, textgrid
from ctc_align.models import vocabulary
from ctc_align.reading import as_seconds
from ctc_align.sources import manifest_files

PLAIN = [name for name, reader in READERS.items() if not reader.native]
ATTACKS = int(os.environ.get("ATTACKS", "100"))
"""Cases of each reader in the long tests."""
_SLOW = settings(
    deadline=None,
    suppress_health_check=list(HealthCheck),
    database=None,
    report_multiple_bugs=False,
)


@pytest.mark.long
def test_the_samples_are_read(tmp_path: Path) -> None:
    """An attack on samples that no reader takes would prove nothing."""
    for name in PLAIN:
        outcomes = [attack(READERS[name], case, tmp_path) for case in READERS[name].seeds()]
        assert all(outcome.kind != FAULT for outcome in outcomes), (name, outcomes)
        assert VALUE in [outcome.kind for outcome in outcomes], name


def attack_often(names: list[str], folder: Path, cases: int) -> Counter[str]:
    """Attack each reader with so many cases, and return how often each kind of outcome was."""
    kinds: Counter[str] = Counter()

    def attack_one(reader: Reader) -> None:
        @settings(_SLOW, max_examples=cases, derandomize=cases < 100)
        @given(hostile_cases(reader.seeds()))
        def run(case: dict[str, bytes]) -> None:
            outcome = attack(reader, case, folder)
            kinds[outcome.kind] += 1
            assert not outcome.fault, f"{reader.name}: {outcome.fault}; its files are in {folder}"

        run()

    for name in names:
        attack_one(READERS[name])
    shutil.rmtree(folder)  # of the last case, an alignment that is hostile
    return kinds


def test_some_cases(tmp_path: Path) -> None:
    kinds = attack_often(PLAIN, tmp_path / "case", 12)
    assert min(kinds[VALUE], kinds[REFUSAL]) > 90


@pytest.mark.long
@pytest.mark.parametrize("name", READERS)
def test_many_cases_of_all_readers(tmp_path: Path, name: str) -> None:
    """Native code, too, which may end the process."""
    attack_often([name], tmp_path / "case", ATTACKS)


TOOK_MINUTES = [
    ("transcript", "a.txt", "Ann: 1:00\n" + fill_with(" ")),
    ("transcript", "a.txt", fill_with("<!--")),
    ("languages", "en.txt", fill_with("0")),
    ("settings", "a.toml", fill_with("a.")),
    ("tsv", "t.csv", "path\tsentence\tend\na.wav\tso\t" + fill_with("0") + "x"),
    ("transcript", "a.txt", "...(" + fill_with("0")),
]


def test_what_took_minutes(tmp_path: Path) -> None:
    for name, file, text in TOOK_MINUTES:
        assert attack(READERS[name], {file: text.encode()}, tmp_path).fault == ""


def _old_count(parser: Any, what: str) -> int:
    number = float(parser.take("number", what))
    if number < 0 or number != int(number):
        raise parser.fault(f"expected the {what}, got {number}")
    return int(number)


UNCHECKED_SECONDS = {
    name: kind._replace(convert=lambda value: value) if kind.convert is as_seconds else kind
    for name, kind in json_files._KIND_OF.items()
}
FAULTS = [
    ("textgrid", textgrid._Parser, "count", _old_count),
    ("mfa folder", textgrid._Parser, "count", _old_count),
    ("alignment json", json_files, "_KIND_OF", UNCHECKED_SECONDS),
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
        try:
            find(
                hostile_cases(READERS[reader].seeds()),
                lambda case: bool(attack(READERS[reader], case, folder / "case").fault),
                settings=settings(
                    _SLOW, max_examples=6000, derandomize=True, phases=[Phase.generate]
                ),
            )
        except NoSuchExample:
            return False
    return True


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
        "MiB of memory": lambda folder: bytearray(2**28),
    }
    for says, read in wrong.items():
        broken = type(reader)(reader.name, read)
        assert says in attack(broken, reader.seeds()[0], tmp_path / "case").fault
