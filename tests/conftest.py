"""How the suite runs, and the fixtures that all tests share.

`pytest` without paths starts one worker more than there are cores, four at most (`-n 0`: none; `-n
8`: eight; PYTEST_XDIST_AUTO_NUM_WORKERS counts too). With paths everything runs in this process, at
once. Each worker takes a whole file at a time. The files of PROCESSES start, kill and measure
processes: they are in one queue and never run beside each other. They hold one smoke test for each
promise (one run at a time, a kill loses nothing, an interrupt ends the batch in flight, streams and
exit codes); the other tests of processes are `long`.
"""

from __future__ import annotations

import os

# One thread for each process, as PyTorch and OpenMP read it when they are imported: workers share
# the cores.
os.environ.setdefault("OMP_NUM_THREADS", "1")
# No test leaves a process behind.
os.environ["CTC_ALIGN_NO_BACKGROUND"] = "1"

import gc
import logging
import random
import subprocess
import sys
import time
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import hypothesis
import pytest
from caused_warnings import errors_where_caused
from schema_checks import Watch, files_against_schema

if TYPE_CHECKING:
    from ctc_align.alignment.aligner import Aligner

hypothesis.settings.register_profile("tests", deadline=None)  # machines are busy
hypothesis.settings.load_profile("tests")
ROOT = Path(__file__).resolve().parent.parent
MAX_WORKERS = 4
collect_ignore = ["support/absent_card.py", "support/gpu_compiled.py"]
"""They import Triton, not interpreted, and have no doctests; other tests import it interpreted."""
WATCH = pytest.StashKey[Watch]()
PROCESSES = (
    "tests/corpus/test_resume.py",
    "tests/files/test_folder_lock.py",
    "tests/corpus/test_pending_parts.py",
    "tests/kernels/test_fork.py",
    "tests/kernels/test_memory.py",
    "tests/cli/test_processes.py",
)
ROMANISED = (
    "tests/text/test_library_readings.py",
    "tests/text/test_sounds.py",
)
"""Files that load the tables of romanisation, which takes seconds: one worker does it, once."""
LONG = (
    "tests/test_readme.py",
    "tests/attack/",
    "tests/alignment/test_gold.py",
    "tests/kernels/",
    "tests/ctc/",
    "tests/alignment/",
)
"""Files and folders that take long: next in the queue, so that no worker waits for the last of
them."""


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--long",
        action="store_true",
        help="run the long suite too: what is slow and rarely tells more",
    )
    parser.addoption(
        "--shuffle", type=int, metavar="SEED", help="shuffle the files, and the tests within each"
    )
    parser.addoption(
        "--planted",
        action="store_true",
        help="plant faults too: each must be seen by the tests' comparisons",
    )


@pytest.hookimpl(tryfirst=True)
def pytest_cmdline_main(config: pytest.Config) -> None:
    """Start workers where the whole suite is asked for and the call says nothing of them."""
    whole_suite = config.args_source == pytest.Config.ArgsSource.TESTPATHS
    unsaid = getattr(config.option, "numprocesses", 0) is None
    is_worker = "PYTEST_XDIST_WORKER" in os.environ  # workers, and what they run, start no workers
    if (
        whole_suite
        and unsaid
        and not is_worker
        and not config.option.collectonly
        and not config.option.usepdb
    ):
        config.option.numprocesses = number_of_workers(config)


def number_of_workers(config: pytest.Config) -> int:
    """Return how many workers the cores of this process can feed, as one often waits; 0 where one
    core needs none."""
    if os.environ.get("PYTEST_XDIST_AUTO_NUM_WORKERS"):
        return config.hook.pytest_xdist_auto_num_workers(config=config)
    cores = (
        len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    )
    return min(cores + 1, MAX_WORKERS) if cores > 1 else 0


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line(
        "markers", "long: runs with --long, and where its file is named in the call"
    )
    config.stash[WATCH] = Watch()  # before any test module takes `to_dict`
    config.addinivalue_line(
        "markers", "planted: plants faults; runs with --planted, and where its file is named"
    )
    config.addinivalue_line(
        "markers",
        "torchaudio: compares with torchaudio, which has an environment of its own (skipped"
        " without it)",
    )


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_setupnodes(config: pytest.Config) -> None:
    """Compile the kernels before the workers start, which would each do it; within the time that
    pytest reports."""
    started_s = time.perf_counter()
    program = str(ROOT / "tests" / "support" / "compile_kernels.py")
    groups = (["float32"], ["float64", "bfloat16", "float16"])
    codes = [
        process.wait()
        for process in [subprocess.Popen([sys.executable, program, *names]) for names in groups]
    ]
    if any(codes):
        raise pytest.UsageError(f"compiling the kernels failed: exit codes {codes}")
    reporter = config.pluginmanager.get_plugin("terminalreporter")
    reporter.write_line(
        "kernels: compiled, or found as compiled before, in"
        f" {time.perf_counter() - started_s:.0f} s"
    )


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """Give whole files to the workers, in the order of the collection; the files of PROCESSES to
    one worker."""
    from xdist.scheduler import LoadFileScheduling

    class FileScheduling(LoadFileScheduling):
        """Whole files; those of PROCESSES as if they were one, and those of ROMANISED."""

        def _split_scope(self, nodeid: str) -> str:
            file = super()._split_scope(nodeid)
            return "processes" if file in PROCESSES else "romanised" if file in ROMANISED else file

    config.option.loadscopereorder = False
    return FileScheduling(config, log)


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    left_out = [item for item in items if not _is_asked_for(item, config)]
    if left_out:
        items[:] = [item for item in items if _is_asked_for(item, config)]
        config.hook.pytest_deselected(items=left_out)
    seed = config.getoption("--shuffle")
    if seed is None:
        items.sort(key=_turn)
        return
    chance = random.Random(seed)
    files: dict[str, list[pytest.Item]] = {}
    for item in items:
        files.setdefault(item.nodeid.partition("::")[0], []).append(item)
    shuffled = list(files.values())
    chance.shuffle(shuffled)
    for tests in shuffled:
        chance.shuffle(tests)
    items[:] = [item for tests in shuffled for item in tests]


def _is_asked_for(item: pytest.Item, config: pytest.Config) -> bool:
    """Return whether a test runs in this call: `long` tests and planted faults only when asked."""
    if item.get_closest_marker("planted") and not config.getoption("--planted"):
        return any(item.path.name in argument for argument in config.args)
    has_paths = config.args_source != pytest.Config.ArgsSource.TESTPATHS
    return has_paths or config.getoption("--long") or not item.get_closest_marker("long")


def _turn(item: pytest.Item) -> int:
    """Return where in the queue a test's file stands; files of equal turn stay as they are."""
    file = item.nodeid.partition("::")[0]
    if file in PROCESSES:
        return 0
    return next(
        (turn for turn, start in enumerate(LONG, start=1) if file.startswith(start)), len(LONG) + 1
    )


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol() -> Iterator[object]:
    with errors_where_caused():
        return (yield)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport() -> Iterator[pytest.TestReport]:
    """Escape what is not UTF-8 in captured output: workers send their reports as UTF-8, and a
    report that they cannot send ends the whole run.
    """
    report: pytest.TestReport = yield
    report.sections = [
        (name, text.encode("utf-8", "backslashreplace").decode()) for name, text in report.sections
    ]
    return report


@pytest.fixture(scope="module", autouse=True)
def _collect_garbage() -> Iterator[None]:
    """Close at the end of each file what its tests left open, so that no test of another file is
    blamed for it.

    The garbage collector warns of an unclosed file in whatever runs when it comes by, mostly the
    compiler of kernels. What lives is left out of later collections (`gc.freeze`), which would take
    a quarter of a second for each file.
    """
    yield
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ResourceWarning)
        gc.collect()
    gc.freeze()


@pytest.fixture(autouse=True)
def quiet_logger() -> Iterator[None]:
    """Give each test the library's logger as a new process has it.

    Commands that run in this process, also those of fixtures of a whole session, take it over for
    their messages; and pytest captures the records of a logger that does not propagate twice once
    it does.
    """
    logger = logging.getLogger("ctc_align")
    logger.handlers, logger.level, logger.propagate = [], logging.NOTSET, True
    yield
    logger.handlers, logger.level, logger.propagate = [], logging.NOTSET, True


@pytest.fixture(scope="session", autouse=True)
def user_state(tmp_path_factory: pytest.TempPathFactory) -> None:
    """Keep the token of a served folder out of the profile of whoever runs the tests."""
    os.environ["XDG_STATE_HOME"] = str(tmp_path_factory.mktemp("state"))


@pytest.fixture(scope="session", autouse=True)
def files_of_other_processes(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Check the alignments that other processes wrote, when all tests are through."""
    yield
    assert files_against_schema(tmp_path_factory.getbasetemp()) == []


@pytest.fixture(autouse=True)
def schema_watch(pytestconfig: pytest.Config) -> Iterator[Watch]:
    """Fail a test that wrote JSON against the schema, even where the error was caught."""
    watch = pytestconfig.stash[WATCH]
    yield watch
    faults, watch.faults = watch.faults, []
    assert faults == []


@dataclass(frozen=True)
class Result:
    code: int
    stdout: str
    stderr: str

    @property
    def error(self) -> str:
        """The one line that says what is wrong."""
        lines = self.stderr.splitlines()
        assert len(lines) == 1, self.stderr
        assert lines[0].startswith("ctc-align: error: "), self.stderr
        assert self.stdout == ""
        return lines[0].removeprefix("ctc-align: error: ")


@pytest.fixture
def cli(capsys) -> Callable[..., Result]:
    """Runs one command line, which must end with the exit code where one is given: `cli("a.wav",
    "a.txt", code=0)`."""
    from ctc_align.cli import run

    def call(*arguments: object, code: int | None = None) -> Result:
        capsys.readouterr()
        found = run([str(argument) for argument in arguments])
        captured = capsys.readouterr()
        assert code in (None, found), captured.err
        return Result(found, captured.out, captured.err)

    return call


@pytest.fixture(scope="session")
def english() -> Aligner:
    """The aligner with the model that is inside the package."""
    weights = ROOT / "ctc_align" / "models" / "english" / "model.safetensors"
    if not weights.is_file():
        pytest.skip("the weights of the model `english` are not here yet")
    from ctc_align.alignment.aligner import Aligner

    return Aligner("english", device="cpu")


@pytest.fixture(scope="session")
def speech_data() -> Path:
    """The folder of speech beside the checkout; tests that ask for it are marked `data`."""
    folder = ROOT.parent / "shared" / "data"
    if not folder.is_dir():
        pytest.skip(f"no speech data in {folder.parent.name}/{folder.name} beside the checkout")
    return folder
