"""When the tests of planted faults run: they are slow, and say nothing new while what they plant into stays the same.

A module of such tests is marked `pytest.mark.planted(PATH, …)` with the files and folders that it plants into. It runs
where these, the module or the checkers changed since all its faults were last seen (`planted_hashes.txt` keeps a hash
of them), where the module is named in the call, and with `pytest --planted`, which runs nothing else, all of them, and
writes the hashes of those that pass.
"""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[2]
RECORD = Path(__file__).with_name("planted_hashes.txt")
CHECKERS = ("kernel_problems", "oracles", "planted", "cpu_checks", "interpreted_checks")
CHECKERS += ("gpu_interpreted", "gpu_problems", "tangent_checks")


def add_option(parser: pytest.Parser) -> None:
    parser.addoption("--planted", action="store_true", help="run the tests of planted faults, all of them, alone")


def state_of(module: Path, planted_into: tuple[str, ...]) -> str:
    """Return a hash of the module, the checkers, and the Python files at the paths (relative to the repository)."""
    files = [module, *(Path(__file__).with_name(f"{name}.py") for name in CHECKERS)]
    for path in (ROOT / name for name in planted_into):
        files += path.rglob("*.py") if path.is_dir() else [path]
    state = hashlib.sha256()
    for path in sorted(set(files)):
        state.update(f"{path.relative_to(ROOT).as_posix()}\n".encode())
        state.update(path.read_bytes().replace(b"\r\n", b"\n"))
    return state.hexdigest()


def recorded() -> dict[str, str]:
    """Return the hashes by module, as they were when all faults of the module were last seen."""
    lines = RECORD.read_text("utf-8").splitlines() if RECORD.is_file() else []
    return dict(reversed(line.split()) for line in lines if line and not line.startswith("#"))  # type: ignore[misc]


class PlantedRuns:
    """A plugin of pytest that selects the tests of planted faults, and records what was seen."""

    def __init__(self, config: pytest.Config) -> None:
        self.config = config
        self.alone: bool = config.getoption("--planted")
        self.states: dict[str, str] = {}
        self.expected: dict[str, set[str]] = {}
        self.passed: set[str] = set()

    @pytest.hookimpl(tryfirst=True)
    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        kept, left_out = [], []
        for item in items:
            mark = item.get_closest_marker("planted")
            runs = self._runs(item, mark.args) if mark else not self.alone
            (kept if runs else left_out).append(item)
        items[:] = kept
        if left_out:
            self.config.hook.pytest_deselected(items=left_out)

    def _runs(self, item: pytest.Item, planted_into: tuple[str, ...]) -> bool:
        name = item.path.relative_to(ROOT).as_posix()
        if name not in self.states:
            self.states[name] = state_of(item.path, planted_into)
        self.expected.setdefault(name, set()).add(item.nodeid)
        changed = recorded().get(name) != self.states[name]
        return self.alone or changed or any(name in Path(arg).as_posix() for arg in self.config.args)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.when == "call" and report.passed:
            self.passed.add(report.nodeid)

    @pytest.hookimpl(optionalhook=True)
    def pytest_testnodedown(self, node: Any) -> None:
        """Take over what a worker of pytest-xdist collected: this process collects nothing itself."""
        collected = getattr(node, "workeroutput", {}).get("planted", ({}, {}))
        self.states.update(collected[0])
        self.expected.update({name: set(tests) for name, tests in collected[1].items()})

    def pytest_sessionfinish(self) -> None:
        """Record the modules of which every test passed."""
        option = self.config.option
        if hasattr(self.config, "workeroutput"):
            tests = {name: sorted(tests) for name, tests in self.expected.items()}
            self.config.workeroutput["planted"] = (self.states, tests)
            return
        if not self.alone or option.keyword or option.markexpr:
            return
        seen = {name: self.states[name] for name, tests in self.expected.items() if tests <= self.passed}
        lines = ["# Written by `pytest --planted`: of each module, the state in which all its faults were seen."]
        lines += [f"{state} {name}" for name, state in sorted({**recorded(), **seen}.items())]
        RECORD.write_text("\n".join(lines) + "\n", "utf-8")
