"""When tests of kernels run: they are slow, and say nothing new while what they test stays the
same.

The tests of `tests/kernels` and `tests/ctc` run where the kernels, the functions on top of them,
these tests or their helpers changed since all of them last passed, or the environment is another;
with `--long`; and where paths are given. Else they are skipped with the reason, but for those of
SMOKE, which always run. `pytest --kernels` runs nothing else, and records it if all pass.

A module of planted faults is marked `pytest.mark.planted(PATH, …)` with the files and folders that
it plants into. It runs where these, the module or the checkers changed since all its faults were
last seen (`planted_hashes.txt` keeps a hash of them), where the module is named in the call, and
with `pytest --planted`, which runs nothing else, all of them, and writes the hashes of those that
pass.
"""

from __future__ import annotations

import hashlib
import platform
import re
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[2]
RECORD = Path(__file__).with_name("planted_hashes.txt")
CHECKERS = ("kernel_problems", "oracles", "planted", "cpu_checks", "interpreted_checks")
CHECKERS += ("gpu_interpreted", "gpu_problems", "tangent_checks")


TESTED = (
    "ctc_align/kernels",
    "ctc_align/lattice",
    "ctc_align/ctc",
    "ctc_align/functional.py",
    "ctc_align/losses.py",
)
TESTED += ("ctc_align/errors.py", "tests/kernels", "tests/ctc", "tests/conftest.py")
"""What the tests of `tests/kernels` and `tests/ctc` depend on, beside their helpers in
`tests/support`."""
SMOKE = (
    "tests/kernels/test_enumeration.py",
    "tests/kernels/test_row_kernels.py",
    "tests/ctc/test_functional.py",
)
LIBRARIES = ("numpy", "numba", "llvmlite", "torch", "torchaudio", "triton", "pytest")
KERNELS = "tests/kernels+tests/ctc"
UNCHANGED = (
    "kernels, their tests and libraries are as when all passed (tests/support/planted_hashes.txt);"
    " --long runs it"
)


def add_option(parser: pytest.Parser) -> None:
    parser.addoption(
        "--planted", action="store_true", help="run the tests of planted faults, all of them, alone"
    )
    parser.addoption(
        "--kernels", action="store_true", help="run the tests of kernels and CTC functions, alone"
    )


def state_of(module: Path, planted_into: tuple[str, ...]) -> str:
    """Return a hash of the module, the checkers, and the Python files at the paths (relative to the
    repository)."""
    files = [module, *(Path(__file__).with_name(f"{name}.py") for name in CHECKERS)]
    return _hash_of(files, planted_into)


def state_of_kernels() -> str:
    """Return a hash of all that the tests of kernels depend on: files, versions of libraries, the
    width of vectors."""
    from ctc_align.kernels.cpu.simd import WIDTH

    system = [
        platform.python_version(),
        platform.machine(),
        str(WIDTH),
        *(_version(name) for name in LIBRARIES),
    ]
    return _hash_of(_helpers(), TESTED, " ".join(system))


def _version(library: str) -> str:
    try:
        return version(library)
    except PackageNotFoundError:
        return "none"


def _helpers() -> list[Path]:
    """Return the helpers that the tests of kernels import, and those that these import."""
    ahead = [
        path for folder in ("kernels", "ctc") for path in (ROOT / "tests" / folder).glob("*.py")
    ]
    found: set[Path] = set()
    while ahead:
        for name in re.findall(
            r"^\s*(?:from|import) (\w+)", ahead.pop().read_text("utf-8"), re.MULTILINE
        ):
            path = Path(__file__).with_name(f"{name}.py")
            if path not in found and path.is_file():
                found.add(path)
                ahead.append(path)
    return sorted(found)


def _hash_of(files: list[Path], paths: tuple[str, ...], more: str = "") -> str:
    for path in (ROOT / name for name in paths):
        files = [*files, *(path.rglob("*.py") if path.is_dir() else [path])]
    state = hashlib.sha256(more.encode())
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
        self.kernels_alone: bool = config.getoption("--kernels")
        self.states: dict[str, str] = {}
        self.expected: dict[str, set[str]] = {}
        self.passed: set[str] = set()

    @pytest.hookimpl(tryfirst=True)
    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        kept, left_out = [], []
        for item in items:
            mark = item.get_closest_marker("planted")
            if mark:
                runs = not self.kernels_alone and self._runs(item, mark.args)
            else:
                runs = not self.alone and self._is_of_kernels(item) >= self.kernels_alone
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
        return (
            self.alone or changed or any(name in Path(arg).as_posix() for arg in self.config.args)
        )

    def _is_of_kernels(self, item: pytest.Item) -> bool:
        """Return whether a test is one of kernels; skip it where nothing that it depends on
        changed."""
        name = item.path.relative_to(ROOT).as_posix()
        if not name.startswith(("tests/kernels/", "tests/ctc/")):
            return False
        if KERNELS not in self.states:
            self.states[KERNELS] = state_of_kernels()
        if self.config.getoption("--long") or not item.get_closest_marker("long"):
            self.expected.setdefault(KERNELS, set()).add(item.nodeid)
        is_named = self.config.args_source == pytest.Config.ArgsSource.ARGS
        asked = self.kernels_alone or self.config.getoption("--long") or is_named or name in SMOKE
        if not asked and recorded().get(KERNELS) == self.states[KERNELS]:
            item.add_marker(pytest.mark.skip(reason=UNCHANGED))
        return True

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        # What is skipped, since a library is missing, is as it was; a planted fault must have been
        # seen.
        if (report.when == "call" and report.passed) or (report.skipped and self.kernels_alone):
            self.passed.add(report.nodeid)

    @pytest.hookimpl(optionalhook=True)
    def pytest_testnodedown(self, node: Any) -> None:
        """Take over what a worker of pytest-xdist collected: this process collects nothing
        itself."""
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
        if not (self.alone or self.kernels_alone) or option.keyword or option.markexpr:
            return
        seen = {
            name: self.states[name] for name, tests in self.expected.items() if tests <= self.passed
        }
        lines = [
            "# Written by `pytest --planted` and `pytest --kernels`: where all faults were seen,"
            " where all passed."
        ]
        lines += [f"{state} {name}" for name, state in sorted({**recorded(), **seen}.items())]
        RECORD.write_text("\n".join(lines) + "\n", "utf-8")
