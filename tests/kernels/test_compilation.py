"""The cache of compiled kernels: whole or absent, and never a reason not to run."""

from __future__ import annotations

import hashlib
import os
import pickle
import shutil
import subprocess
import sys
import tempfile
import threading
import time
import types
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest
from filelock import FileLock
from rows import over_rows

from ctc_align.errors import NOTE
from ctc_align.kernels.cpu import background, compilation, cpu_backend


def twice(x: float) -> float:
    return x + x


def total(x: np.ndarray) -> float:
    copy = np.empty(len(x))
    copy[:] = x
    return copy.sum()


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(compilation, "cache_places", lambda: [tmp_path])
    return tmp_path


def calls() -> tuple[int, int]:
    """Call a kernel with a number and return how often it was found in the cache, and how often
    not."""
    kernel = compilation.compiled(twice)
    assert kernel(1.5) == 3.0
    return sum(kernel.stats.cache_hits.values()), sum(kernel.stats.cache_misses.values())


def files(place: Path) -> list[Path]:
    return sorted(path for path in place.rglob("*") if path.is_file())


DAMAGES: dict[str, Callable[[bytes], bytes]] = {
    "empty": lambda data: b"",
    "cut": lambda data: data[: len(data) // 2],
    "one byte less": lambda data: data[:-1],
    "one bit": lambda data: data[:900] + bytes([data[900] ^ 4]) + data[901:],
    "zeros": lambda data: bytes(len(data)),
    "of another form": lambda data: b"ctc-align kernel 0" + data[18:],
    "more": lambda data: data + b"x",
}


@over_rows(("damage", "damaged"), DAMAGES.items())
def test_a_damaged_file_is_compiled_again_and_replaced(
    damage: str, damaged: Callable[[bytes], bytes], place: Path
) -> None:
    assert calls() == (0, 1)
    assert calls() == (1, 0)
    (file,) = files(place)
    whole = file.read_bytes()
    file.write_bytes(damaged(whole))
    assert calls() == (0, 1)
    assert files(place) == [file]
    assert calls() == (1, 0), damage
    file.unlink()


def test_a_file_of_another_kernel_or_version_is_not_taken(
    place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The name of a file is a hash; what it was made of stands in it."""
    assert calls() == (0, 1)
    monkeypatch.setattr(compilation, "state_of", lambda module: "0" * 64)
    (file,) = files(place)
    assert calls() == (0, 1)
    other = next(path for path in files(place) if path != file)
    file.replace(other)
    assert calls() == (0, 1)


def test_a_kernel_from_the_cache_is_compiled_into_its_callers(place: Path) -> None:
    assert calls() == (0, 1)
    inner = compilation.compiled(twice)

    def caller(x: float) -> float:
        return inner(x) + 1.0

    assert compilation.compiled(caller)(1.5) == 4.0
    assert sum(inner.stats.cache_hits.values()) == 1


def test_without_a_place_kernels_are_compiled_and_it_is_said_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    file = tmp_path / "file"
    file.write_text("in the way of a folder")
    monkeypatch.setattr(compilation, "cache_places", lambda: [file, file / "below"])
    compilation._tell_uncached.cache_clear()
    assert [calls(), calls()] == [(0, 1), (0, 1)]
    (record,) = caplog.records
    assert "kernels are compiled again at each start" in record.getMessage()
    assert str(file) in caplog.text
    assert "NUMBA_CACHE_DIR" in caplog.text


def test_workers_share_a_folder_where_no_other_can_be_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "file"
    file.write_text("in the way of a folder")
    monkeypatch.setenv("NUMBA_CACHE_DIR", str(file))
    monkeypatch.setattr(compilation, "__file__", str(file / "compilation.py"))
    monkeypatch.setenv("XDG_CACHE_HOME", str(file))
    monkeypatch.setenv("HOME", str(file))
    monkeypatch.setenv(compilation.SHARED, str(tmp_path / "shared"))
    assert [calls(), calls()] == [(0, 1), (1, 0)]


class Attack:
    """A corpus whose files, or a neighbour's, have the names of kernels, and leave a mark where
    they are run."""

    def __init__(self, folder: Path, name: str) -> None:
        self.mark, self._name, self.site = folder / "mark", name, folder / "site"
        self.corpus, self.shared = folder / "corpus", folder / "shared"
        for each in (self.site, self.corpus, self.shared):
            each.mkdir()
        self.shared.chmod(0o1777)

    def __reduce__(self) -> tuple[object, ...]:
        return Path.touch, (self.mark,)

    def plant(
        self,
        place: Path,
        owner: int | None = None,
        folder: str = "ctc-align-kernels",
        mode: int = 0o644,
    ) -> None:
        content = pickle.dumps(self)
        path = place / folder / self._name
        path.parent.mkdir(parents=True)
        path.write_bytes(b"ctc-align kernel 1\n" + hashlib.sha256(content).digest() + content)
        path.chmod(mode)
        for each in (path, path.parent) if owner else ():
            os.chown(each, owner, owner)


OTHER = 12346
ATTACKS: dict[str, tuple[dict[str, str], Callable[[Attack], None]]] = {
    "empty": ({"XDG_CACHE_HOME": ""}, lambda attack: attack.plant(attack.corpus / "ctc-align")),
    "relative": (
        {"XDG_CACHE_HOME": "c"},
        lambda attack: attack.plant(attack.corpus / "c" / "ctc-align"),
    ),
    "relative, of Numba": (
        {"NUMBA_CACHE_DIR": "c"},
        lambda attack: attack.plant(attack.corpus / "c"),
    ),
    "relative, at home": (
        {"HOME": "."},
        lambda attack: attack.plant(attack.corpus / ".cache" / "ctc-align"),
    ),
    "read-only": (
        {"HOME": "/proc/none", "XDG_CACHE_HOME": ""},
        lambda attack: attack.plant(attack.corpus / "ctc-align"),
    ),
    "files for all": ({}, lambda attack: attack.plant(attack.site / "__pycache__", mode=0o666)),
}
ATTACKS_OF_NEIGHBOURS: dict[str, tuple[dict[str, str], Callable[[Attack], None]]] = {
    "sticky": ({"NUMBA_CACHE_DIR": "SHARED"}, lambda attack: attack.plant(attack.shared, OTHER)),
    "sticky, by name": (
        {"NUMBA_CACHE_DIR": "SHARED"},
        lambda attack: attack.plant(attack.shared, OTHER, f"ctc-align-kernels-{os.geteuid()}"),
    ),
    "workers": (
        {"CTC_ALIGN_SHARED_KERNELS": "SHARED"},
        lambda attack: attack.plant(attack.shared, OTHER),
    ),
    "another owner": (
        {"XDG_CACHE_HOME": "SITE"},
        lambda attack: attack.plant(attack.site / "ctc-align", OTHER),
    ),
}


def check_attack(
    variables: dict[str, str],
    plant: Callable[[Attack], None],
    folder: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(compilation, "cache_places", lambda: [folder / "names"])
        assert calls() == (0, 1)
        (named,) = files(folder / "names")
        attack = Attack(folder, named.name)
        plant(attack)
    with monkeypatch.context() as patch:
        patch.setattr(compilation, "__file__", str(attack.site / "compilation.py"))
        patch.chdir(attack.corpus)
        for name in ("XDG_CACHE_HOME", "NUMBA_CACHE_DIR", "CTC_ALIGN_SHARED_KERNELS"):
            patch.delenv(name, raising=False)
        patch.setenv("HOME", str(folder / "home"))
        for name, value in variables.items():
            patch.setenv(
                name, {"SHARED": str(attack.shared), "SITE": str(attack.site)}.get(value, value)
            )
        compilation._tell_uncached.cache_clear()
        assert calls() == (0, 1)
    assert not attack.mark.exists(), "the file of a stranger was run"


@over_rows(("name", "attack"), ATTACKS.items())
def test_files_of_a_corpus_are_not_run(
    name: str,
    attack: tuple[dict[str, str], Callable[[Attack], None]],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    folder = tmp_path / name
    folder.mkdir()
    check_attack(*attack, folder, monkeypatch)


@pytest.mark.skipif(
    os.name == "nt" or os.geteuid() != 0, reason="only root can give files to another user"
)
@over_rows(("name", "attack"), ATTACKS_OF_NEIGHBOURS.items())
def test_files_of_another_user_are_not_run(
    name: str,
    attack: tuple[dict[str, str], Callable[[Attack], None]],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    folder = tmp_path / name
    folder.mkdir()
    check_attack(*attack, folder, monkeypatch)


def call_as(user: int, function: Callable[[], object]) -> object:
    """Return what a function returns in a process of another user."""
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            os.setgroups([])
            os.setresgid(user, user, user)
            os.setresuid(user, user, user)
            os.write(writer, pickle.dumps(function()))
        finally:
            os._exit(0)
    os.close(writer)
    os.waitpid(child, 0)
    with open(reader, "rb") as file:
        return pickle.loads(file.read())


@pytest.mark.skipif(
    os.name == "nt" or os.geteuid() != 0, reason="only root can act as another user"
)
@pytest.mark.filterwarnings("ignore:This process .* is multi-threaded")
def test_installations_of_root_and_shared_folders_serve_other_users(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """What root compiled beside the package; in the folder of an image each user has a folder of
    their own."""
    with tempfile.TemporaryDirectory() as folder, monkeypatch.context() as patch:
        site, shared = Path(folder, "site"), Path(folder, "shared")
        for each, mode in ((Path(folder), 0o755), (site, 0o755), (shared, 0o1777)):
            each.mkdir(exist_ok=True)
            each.chmod(mode)
        patch.setattr(compilation, "__file__", str(site / "compilation.py"))
        patch.setenv("HOME", "/proc/none")
        for name in ("XDG_CACHE_HOME", "NUMBA_CACHE_DIR", "CTC_ALIGN_SHARED_KERNELS"):
            patch.delenv(name, raising=False)
        assert calls() == (0, 1)
        assert call_as(OTHER, calls) == (1, 0)
        patch.setattr(compilation, "__file__", str(shared / "none" / "compilation.py"))
        patch.setenv("NUMBA_CACHE_DIR", str(shared))
        assert [call_as(user, calls) for user in (OTHER, OTHER, OTHER + 1, OTHER + 1)] == [
            (0, 1),
            (1, 0),
        ] * 2
        found = {
            path.name: (path.stat().st_uid, path.stat().st_mode & 0o7777)
            for path in shared.iterdir()
        }
    assert found == {f"ctc-align-kernels-{user}": (user, 0o700) for user in (OTHER, OTHER + 1)}


def test_what_is_not_used_goes_after_a_month(place: Path) -> None:
    """Folders of versions that had one each, and kernels; what was used today stays."""
    old, recent, foreign = (
        place / name for name in (f"ctc-align-{'0' * 16}", f"ctc-align-{'1' * 16}", "ctc-align-x")
    )
    for folder in (old, recent, foreign):
        folder.mkdir()
    for folder in (old, foreign):
        os.utime(folder, (1e9, 1e9))
    assert calls() == (0, 1)
    assert [folder.exists() for folder in (old, recent, foreign)] == [False, True, True]
    (used,) = place.rglob("*.kernel")
    unused = used.with_name("viterbi.walk-0-1.kernel")
    unused.write_bytes(b"")
    for path in (used, unused):
        os.utime(path, (1e9, 1e9))
    assert calls() == (1, 0)
    compilation._remove_unused_kernels.cache_clear()
    compilation._remove_unused_kernels(used.parent)
    assert list(place.rglob("*.kernel")) == [used]


def test_a_kernel_depends_on_its_module_and_what_that_imports(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And on nothing else: an edit compiles again what can have changed."""
    folder = tmp_path / "cpu"
    shutil.copytree(
        Path(compilation.__file__).parent, folder, ignore=shutil.ignore_patterns("__pycache__")
    )
    monkeypatch.setattr(compilation, "__file__", str(folder / "compilation.py"))
    modules = sorted(path.stem for path in folder.glob("*.py"))

    def changed(edited: str) -> set[str]:
        states = []
        for line in ("", "# edited\n"):
            with (folder / f"{edited}.py").open("a") as file:
                file.write(line)
            compilation.state_of.cache_clear()
            states.append({module: compilation.state_of(module) for module in modules})
        return {module for module in modules if states[0][module] != states[1][module]}

    callers = {"cpu_backend", "background"}
    assert changed("rest_bounds") == {"rest_bounds", "pruned_search", *callers}
    assert changed("log_sums") == {"log_sums", "general_kernels", *callers}
    assert changed("sum_recursion") == {
        "sum_recursion",
        "sums",
        "pruned_search",
        "row_kernels",
        *callers,
    }
    assert {"viterbi", "sums", "rest_bounds", "long_viterbi"} <= changed("simd")
    compilation.state_of.cache_clear()


@pytest.mark.long
def test_what_was_compiled_runs_without_the_compiler(place: Path) -> None:
    """Half of the seconds that Numba takes at a start, and what is compiled still finds the memory
    that it asks for."""
    kernel = compilation.compiled_with_arrays(total)
    assert kernel(np.ones(3)) == 3.0
    program = "\n".join(
        (
            "import sys, numpy",
            (
                "sys.path[:0] ="
                f" {[str(Path(__file__).parent), str(Path(__file__).parents[1] / 'support')]!r}"
            ),
            "from test_compilation import compilation, total",
            "kernel = compilation.compiled_with_arrays(total)",
            "found = kernel(numpy.ones(3)), sum(kernel.stats.cache_hits.values())",
            "print(*found, 'numba.cpython.setobj' in sys.modules)",
        )
    )
    environment = {**os.environ, "NUMBA_CACHE_DIR": str(place)}
    ran = subprocess.run(
        [sys.executable, "-c", program], env=environment, capture_output=True, text=True
    )
    assert ran.stdout.split() == ["3.0", "1", "False"], ran.stderr


@pytest.mark.long
def test_a_read_only_installation_without_a_cache_aligns(tmp_path: Path) -> None:
    """By a user who can write nowhere but to the outputs; a short recording needs no compiled
    kernels."""
    nowhere = "/proc/nowhere"
    code = (
        "from ctc_align.kernels.cpu import compilation; from pathlib import Path;"
        f"compilation.__file__ = '{nowhere}/compilation.py';"
        "import sys; from ctc_align.cli import run; sys.exit(run(sys.argv[1:]))"
    )
    ran = subprocess.run(
        [sys.executable, "-c", code, "demo", "--out-dir", str(tmp_path)],
        env={**os.environ, "NUMBA_CACHE_DIR": nowhere, "HOME": nowhere, "XDG_CACHE_HOME": nowhere},
        capture_output=True,
        text=True,
        check=False,
    )
    assert ran.returncode == 0, ran.stderr
    assert "compiled kernels cannot be kept" not in ran.stderr


@pytest.fixture
def started(place: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[list[list[str]]]:
    """The processes in the background that would have been started, where nothing is compiled: each
    is waited for."""
    found: list[list[str]] = []
    ends: list[threading.Event] = []

    def start(command: list[str], **options: object) -> types.SimpleNamespace:
        found.append(command)
        ends.append(threading.Event())
        return types.SimpleNamespace(wait=ends[-1].set)

    monkeypatch.setattr(subprocess, "Popen", start)
    monkeypatch.setattr(cpu_backend, "used_rows", lambda: True)
    monkeypatch.setattr(background, "yield_to_others", lambda: None)
    for name in (background.OFF, "CI"):
        monkeypatch.delenv(name, raising=False)
    yield found
    assert all(end.wait(10.0) for end in ends)


def later(place: Path, seconds: float) -> bool:
    """Let time pass since the last start, and return whether another process is started then."""
    (path,) = place.rglob(background.STARTS)
    os.utime(path, (time.time() - seconds,) * 2)
    return background.compile_in_background()


def test_kernels_are_compiled_in_the_background_once(
    started: list[list[str]],
    place: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(NOTE, "ctc_align")
    for name in (background.OFF, "CI"):
        with monkeypatch.context() as patch:
            patch.setenv(name, "1")
            assert not background.compile_in_background()
    with monkeypatch.context() as patch:
        patch.setattr(cpu_backend, "used_rows", lambda: False)
        assert not background.compile_in_background()
    assert background.compile_in_background()
    assert background.OFF in caplog.text
    # Not again before that one has its lock; again if it has gone, a few times a day.
    assert [later(place, seconds) for seconds in (0, 11, 11, 11, 80_000, 90_000)] == [
        0,
        1,
        1,
        0,
        0,
        1,
    ]
    with FileLock(next(place.rglob(background.STARTS)).with_name("compiling.lock")):
        assert not later(place, 11)
    assert len(started) == 4
    compile(started[0][-1], "", "exec")


def test_an_error_in_the_background_is_written_down(
    started: list[list[str]], place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail() -> None:
        raise ValueError("planted")

    assert background.compile_in_background()
    monkeypatch.setattr(cpu_backend, "compile_default", fail)
    background.main()
    (path,) = place.rglob(background.STARTS)
    assert "ValueError: planted" in path.read_text()
    assert [later(place, seconds) for seconds in (80_000, 90_000)] == [0, 1]
    monkeypatch.setattr(cpu_backend, "compile_default", lambda: None)
    background.main()
    assert "is not there" in path.read_text()
    monkeypatch.setattr(cpu_backend, "is_compiled", lambda: True)
    background.main()
    assert not path.exists()


def test_what_is_compiled_in_the_background_is_all_that_an_alignment_needs() -> None:
    program = "\n".join(
        (
            "from pathlib import Path",
            "import ctc_align",
            "from ctc_align.kernels.cpu import compilation, cpu_backend",
            "cpu_backend.compile_default()",
            "compilation.KernelCache.load_overload = None",
            "demo = Path(ctc_align.__file__).with_name('demo') / 'demo.flac'",
            (
                "ctc_align.Aligner('english', device='cpu').align(demo,"
                " demo.with_suffix('.txt').read_text())"
            ),
        )
    )
    subprocess.run([sys.executable, "-c", program], check=True)
