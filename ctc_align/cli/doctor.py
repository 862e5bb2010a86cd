"""ctc-align doctor checks the installation; ctc-align demo aligns the package's recording.

A broken part is reported and does not stop the check of the others, because the command is for
broken installations.
"""

from __future__ import annotations

import contextlib
import filecmp
import getpass
import json
import math
import os
import platform
import re
import shutil
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator
from importlib import metadata
from pathlib import Path
from typing import Any

import typer

from ctc_align._version import __version__
from ctc_align.cli.align import (
    check_places,
    checked_formats,
    load_aligner,
    output_files,
    run_aligner,
)
from ctc_align.cli.options import (
    MessageOptions,
    ModelOptions,
    formats_option,
    with_examples,
    with_options,
)
from ctc_align.cli.printing import SOME_FAILED, Talk, console_for, put
from ctc_align.config import Settings, setting
from ctc_align.errors import UsageError
from ctc_align.extras import EXTRAS, has_torch, install_line
from ctc_align.machine.private_folders import why_not_trusted
from ctc_align.threads import thread_count

DEMO_FOLDER = Path(__file__).resolve().parent.parent / "demo"
PACKAGES = [
    "torch",
    "numpy",
    "numba",
    "llvmlite",
    "av",
    "soundfile",
    "soxr",
    "safetensors",
    "typer",
    "rich",
    "num2words",
]
KNOWN_TIMES = (
    *(
        ("Forced", 0.17, 0.63),
        ("alignment", 0.63, 1.15),
        ("finds", 1.15, 1.61),
        ("where", 1.61, 1.81),
    ),
    *(
        ("every", 1.81, 2.15),
        ("word", 2.15, 2.50),
        ("begins", 2.50, 2.80),
        ("and", 2.80, 2.93),
        ("ends,", 2.93, 3.22),
    ),
    *(
        ("in", 3.31, 3.45),
        ("twenty-two", 3.45, 4.07),
        ("lines", 4.07, 4.62),
        ("of", 4.62, 4.70),
        ("text,", 4.70, 5.17),
    ),
    *(("or", 5.17, 5.38), ("in", 5.38, 5.50), ("1999.", 5.50, 6.89)),
)
"""The words of the demo recording with their starts and ends in seconds."""
TOLERANCE_S = 0.05
"""The distance from the known times that passes: far below a wrong word, far above differences
between processors."""


@with_examples(
    "ctc-align doctor",
    "ctc-align doctor > report.txt",
    "ctc-align doctor --format json",
)
@with_options
def doctor(
    *,
    speed: bool = setting(
        False,
        "Also compare the speed of the kernels with that of PyTorch's and torchaudio's functions, if"
        " these are installed.",
    ),
    format: str = setting(
        "text", "Text to paste into a report, or JSON for programs.", choices=("text", "json")
    ),
) -> None:
    """Check the installation: versions, devices, extras, self-test.

    Also lists folders and models. The self-test aligns the recording of `ctc-align demo` on each
    available kind of device, and compares all words with their known times. The output names no
    user: the home folder is `~`. Exits with 1 if the self-test fails, or with --speed if a result
    of a kernel is wrong.
    """
    Talk().listen()
    found = without_user({**installation(), "self_tests": self_tests()})
    if speed:
        found["speed"] = kernel_speed()
    put(
        json.dumps(found, indent=1, allow_nan=False)
        if format == "json"
        else "\n".join(_lines(found))
    )
    checks = [test["passed"] for test in found["self_tests"]]
    checks += [row["right"] for row in found.get("speed", [])]
    if not all(checks):
        raise typer.Exit(SOME_FAILED)


def _lines(found: dict[str, Any]) -> Iterator[str]:
    """Yield the report as text: a heading for each part, followed by its rows."""
    versions = found["versions"]
    yield (
        f"ctc-align {versions['ctc-align']}, Python {versions['python']},"
        f" {found['system']['system']}"
    )
    yield f"in {found['system']['folder']}"
    absent = {"torch": "not installed (the extra [torch])"}
    packages = {
        name: version or absent.get(name, "missing")
        for name, version in versions.items()
        if name not in ("ctc-align", "python")
    }
    models = found["models"]
    parts = {
        "versions": packages,
        "devices": found["devices"],
        "folders": [(row["holds"], _folder_line(row)) for row in found["folders"]],
        "models": (
            {"": models}
            if isinstance(models, str)
            else {row["name"]: f"{row['megabytes']} MB, {row['about']}" for row in models}
        ),
        "extras": {row["extra"]: _extra_line(row) for row in found["extras"]},
        "self-test": {test["device"]: _test_line(test) for test in found["self_tests"]},
    }
    if "speed" in found:
        parts["speed"] = [
            (f"{row['task']}, {row['case']}", _speed_line(row)) for row in found["speed"]
        ]
    for heading, rows in parts.items():
        yield f"\n{heading}"
        if isinstance(rows, dict):
            pairs = list(rows.items())
        else:
            pairs = rows
        width = max(len(name) for name, _ in pairs)
        yield from (f"  {name:<{width}}  {value}" for name, value in pairs)


def _folder_line(row: dict[str, Any]) -> str:
    if row.get("unused"):
        return f"{row['folder']} (not used: {row['unused']})"
    if "free_megabytes" in row:
        size = f"{row['free_megabytes']} MB free"
    else:
        size = f"{row['megabytes']} MB"
    return f"{row['folder']} ({'' if row['writable'] else 'not '}writable, {size})"


def _extra_line(row: dict[str, Any]) -> str:
    if "broken" in row:
        return f"BROKEN: {row['purpose']}; {row['broken']}; perhaps {row['install']} fixes it"
    if row["installed"]:
        return f"installed: {row['purpose']}"
    return f"not installed: {row['purpose']}; lacks {', '.join(row['missing'])}: {row['install']}"


def _test_line(test: dict[str, Any]) -> str:
    if test["passed"]:
        error = f"all words within {test['largest_error_ms']} ms of their known times"
        return f"passed in {test['seconds']} s by the backend {test['backend']}: {error}"
    return f"FAILED after {test['seconds']} s: {test['problem']}"


def _speed_line(row: dict[str, Any]) -> str:
    if not row["right"]:
        return f"WRONG on {row['device']}: scores differ from those of the reference in float64"
    line = f"{row['ms']:.3f} ms on {row['device']}"
    if row["beside"]:
        line += f", {row['beside']} {row['their_ms']:.3f} ms ({row['their_ms'] / row['ms']:.1f} x)"
    return line


def installation() -> dict[str, Any]:
    """Return all facts except the self-test, as JSON values; no path in them names the user."""
    return {
        "format": "ctc-align-doctor/1",
        "versions": versions(),
        "system": {
            "system": f"{platform.system()} {platform.release()} {platform.machine()}",
            "folder": str(Path(__file__).resolve().parent.parent),
        },
        "devices": {
            "cpu": _fact(_cpu),
            "cuda": _fact(_cuda),
            "triton": _fact(_triton),
            "mps": _fact(_mps),
        },
        "folders": _folders(),
        "models": _fact(_models),
        "extras": [_extra(name) for name in EXTRAS],
    }


def versions() -> dict[str, str | None]:
    """Return the versions of packages (None: missing), and of libraries inside two of them."""
    return {
        "ctc-align": __version__,
        "python": f"{platform.python_version()} ({platform.python_implementation()})",
        **{name: _version(name) for name in PACKAGES},
        "ffmpeg": _fact(_ffmpeg),
        "libsndfile": _fact(_libsndfile),
    }


def _version(package: str) -> str | None:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return None


def _fact(fact: Callable[[], Any]) -> Any:
    """Return a fact, or why it is unavailable: the report must work for broken installations."""
    try:
        return fact()
    except Exception as error:
        return f"broken: {type(error).__name__}: {error}"


def _ffmpeg() -> str:
    import av

    libraries = (
        f"{name} {'.'.join(map(str, numbers))}"
        for name, numbers in sorted(av.library_versions.items())
    )
    return f"{getattr(av, 'ffmpeg_version_info', '')} ({', '.join(libraries)})".strip()


def _libsndfile() -> str:
    import soundfile

    return str(soundfile.__libsndfile_version__)


def _cpu() -> str:
    from ctc_align.kernels.cpu.cpu_backend import is_compiled

    if is_compiled():
        kernels = "kernels are compiled"
    else:
        kernels = "kernels are not compiled yet: the first recording compiles them"
    return f"{processor()}, {os.cpu_count()} cores, {thread_count()} threads; {kernels}"


def processor() -> str:
    """Return the name of the processor, or its architecture where the system does not tell."""
    with contextlib.suppress(OSError):
        for line in Path("/proc/cpuinfo").read_text("utf-8").splitlines():
            if line.startswith("model name"):
                return line.split(":", 1)[1].strip()
    return platform.processor() or platform.machine()


def _cuda() -> str:
    from ctc_align.models.acoustic_model import has_driver

    if not has_torch():
        if has_driver():
            return f"not used: a GPU needs PyTorch: {install_line('torch')}"
        return "none: no driver"
    import torch

    if not torch.cuda.is_available():
        built = torch.version.cuda
        if built:
            return f"none: PyTorch for CUDA {built} sees no device"
        return "none: this PyTorch is built without CUDA"
    names = (torch.cuda.get_device_name(index) for index in range(torch.cuda.device_count()))
    return f"{', '.join(names)} (CUDA {torch.version.cuda})"


def _triton() -> str:
    if not has_torch():
        return "none: Triton comes with PyTorch"
    from ctc_align.kernels.gpu import triton_import

    why = triton_import.unavailable()
    if why:
        return f"none: {why}"
    return str(triton_import.triton.__version__)


def _mps() -> str:
    if not has_torch():
        if sys.platform == "darwin":
            return f"not used: --device mps needs PyTorch: {install_line('torch')}"
        return "none"
    import torch

    if torch.backends.mps.is_available():
        return "yes"
    return "none"


def _folders() -> list[dict[str, Any]]:
    """Return the folders, besides those of outputs, that are written to.

    For kernels, the first writable one is used.

    `unused` says why a folder of kernels is neither read nor written.
    """
    try:
        from ctc_align.kernels.cpu.compilation import cache_folders

        kernels = cache_folders()
    except Exception:
        kernels = []
    named = [
        ("compiled kernels (fallback)" if at else "compiled kernels", folder)
        for at, folder in enumerate(kernels)
    ]
    named += [("downloaded models", folder) for folder in _download_folders() if folder.is_dir()]
    rows = [
        {
            "holds": holds,
            "folder": str(folder),
            "writable": _is_writable(folder),
            "megabytes": _megabytes(folder),
        }
        for holds, folder in named
    ]
    for row, folder in zip(rows, kernels):
        reason = why_not_trusted(folder)
        if reason:
            row["unused"] = reason
    free = round(shutil.disk_usage(tempfile.gettempdir()).free / 1e6)
    return [
        *rows,
        {
            "holds": "temporary files",
            "folder": tempfile.gettempdir(),
            "writable": True,
            "free_megabytes": free,
        },
    ]


def _download_folders() -> list[Path]:
    """Return where the Hugging Face hub and torchaudio keep downloads, without importing either."""
    caches = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    hub_home = Path(os.environ.get("HF_HOME") or caches / "huggingface")
    hub = Path(os.environ.get("HF_HUB_CACHE") or hub_home / "hub")
    return [hub, Path(os.environ.get("TORCH_HOME") or caches / "torch") / "hub" / "checkpoints"]


def _is_writable(folder: Path) -> bool:
    """Return whether a folder can be written, or created if it does not exist."""
    there = next((path for path in (folder, *folder.parents) if path.exists()), folder)
    return there.is_dir() and os.access(there, os.W_OK)


def _megabytes(folder: Path) -> float:
    total = 0
    for path in folder.rglob("*"):
        with contextlib.suppress(OSError):
            total += 0 if path.is_symlink() or not path.is_file() else path.stat().st_size
    return round(total / 1e6, 1)


def _models() -> list[dict[str, Any]]:
    from ctc_align.models.catalogue import INSIDE, catalogue_entries

    inside = (entry for entry in catalogue_entries() if entry.state == INSIDE)
    return [
        {"name": entry.name, "megabytes": entry.megabytes, "about": entry.about} for entry in inside
    ]


def _extra(name: str) -> dict[str, Any]:
    extra = EXTRAS[name]
    missing = extra.missing()
    there = {"extra": name, "purpose": extra.purpose, "installed": not missing}
    if missing:
        return {**there, "missing": missing, "install": install_line(name)}
    broken = extra.broken()
    if broken:
        return {**there, "broken": broken, "install": install_line(name)}
    return there


def kernel_speed() -> list[dict[str, Any]]:
    """Return the speed of each task and problem size, beside that of others' functions."""
    from ctc_align.cli.speed import compare_speed

    return [
        {
            "device": row.device,
            "task": row.task,
            "case": str(row.case),
            "ms": row.ours_ms,
            "ns_per_cell": row.ours_ms * 1e6 / row.case.cells,
            "beside": row.rival or None,
            "their_ms": row.rival_ms if row.rival else None,
            "error": row.error if math.isfinite(row.error) else None,
            "right": row.is_right,
        }
        for row in compare_speed()
    ]


def self_tests() -> list[dict[str, Any]]:
    """Return a self-test for each available kind of device."""
    devices = ["cpu"]
    with contextlib.suppress(Exception):
        import torch

        devices += ["cuda"] * torch.cuda.is_available() + [
            "mps"
        ] * torch.backends.mps.is_available()
    return [self_test(device) for device in devices]


def self_test(device: str) -> dict[str, Any]:
    """Align the demo recording on a device, and compare its words with the known ones.

    Returns:
        `device`, `passed`, `seconds` (including loading and any compilation), and either
        `largest_error_ms` and `backend` or, if the alignment failed, `problem`.
    """
    began = time.perf_counter()
    test: dict[str, Any] = {"device": device, "passed": False}
    try:
        from ctc_align.alignment.aligner import Aligner

        text = (DEMO_FOLDER / "demo.txt").read_text(encoding="utf-8")
        alignment = Aligner(model="english", device=device).align(
            str(DEMO_FOLDER / "demo.flac"), text
        )
        found = [(word.text, word.start_s, word.end_s) for word in alignment.words]
        test |= {"backend": alignment.backend, **compared(found)}
    except Exception as error:
        test["problem"] = f"{type(error).__name__}: {error}"
    return test | {"seconds": round(time.perf_counter() - began, 1)}


def compared(found: Iterable[tuple[str, float | None, float | None]]) -> dict[str, Any]:
    """Return whether the words are the known ones, and their largest error in time."""
    found = list(found)
    texts, known = [text for text, _, _ in found], [text for text, _, _ in KNOWN_TIMES]
    if texts != known:
        return {"problem": f"expected the words {' '.join(known)}, got {' '.join(texts)}"}
    errors = [0.0]
    for (text, *times), (_, *right) in zip(found, KNOWN_TIMES):
        for time_s, right_s in zip(times, right):
            if time_s is None:
                return {"problem": f"the word {text} has no time"}
            errors.append(abs(time_s - right_s))
    largest_ms = round(1000 * max(errors))
    if max(errors) <= TOLERANCE_S:
        return {"passed": True, "largest_error_ms": largest_ms}
    return {
        "largest_error_ms": largest_ms,
        "problem": f"an edge is {largest_ms} ms from its known time",
    }


def without_user(value: Any) -> Any:
    """Return a JSON value with `~` for the home folder, and without folders named after the user.

    >>> without_user([{"folder": str(Path.home() / "cache")}])[0]["folder"].replace(os.sep, "/")
    '~/cache'
    """
    if isinstance(value, dict):
        return {key: without_user(item) for key, item in value.items()}
    if isinstance(value, list):
        return [without_user(item) for item in value]
    if isinstance(value, str):
        return _without_user(value)
    return value


def _without_user(text: str) -> str:
    with contextlib.suppress(RuntimeError):
        home = Path.home()
        for name in {str(home), os.path.realpath(home)} - {os.sep}:
            text = re.sub(rf"{re.escape(name)}(?![\w-])", "~", text)
    # getpass fails in several ways where there is no user of this number
    with contextlib.suppress(Exception):
        text = re.sub(rf"(?<=[\\/]){re.escape(getpass.getuser())}(?=[\\/]|$)", "USER", text)
    return text


@with_examples(
    "ctc-align demo",
    "ctc-align demo --out-dir subtitles --format srt,vtt",
    "ctc-align demo --examples practice",
)
@with_options
def demo(
    *,
    out_dir: str = setting(
        "ctc-align-demo",
        "Folder for the outputs; outputs of an earlier demo are replaced.",
        option="--out-dir -o",
        metavar="DIR",
    ),
    format: str | None = formats_option(),
    examples: str | None = setting(
        None, "Copy the files of the tutorials to DIR, and align nothing.", metavar="DIR"
    ),
    messages: MessageOptions,
) -> None:
    """Align a recording that comes with the package.

    Prints the words with their times, and writes the outputs.
    """
    from ctc_align.cli.tables import fit_line, words_table
    from ctc_align.files.transcripts import read_transcript

    talk = messages.talk()
    if examples is not None:
        talk.say(f"wrote {len(copy_examples(Path(examples)))} files to {examples}")
        return
    formats = checked_formats(format, False, out_dir)
    check_places(formats, (), "the demo is not a book; omit smil")
    talk.listen()
    audio, transcript = DEMO_FOLDER / "demo.flac", DEMO_FOLDER / "demo.txt"
    outputs = output_files(out_dir, "demo", formats, True, [str(audio), str(transcript)])
    aligner = load_aligner(ModelOptions(), None, Settings())
    alignment = run_aligner(aligner, str(audio), read_transcript(transcript), "demo", talk)
    paths = outputs.write(alignment)
    if talk.quiet:
        return
    console = console_for(sys.stdout)
    console.print(words_table(alignment, console.width))
    for line in (
        fit_line(alignment),
        "",
        f"The recording: {audio}",
        f"Its transcript: {alignment.text.strip()}",
        "",
        "Wrote",
    ):
        console.print(line, markup=False, soft_wrap=True)
    for path in paths:
        console.print(f"  {path}", markup=False, soft_wrap=True)


def copy_examples(folder: Path) -> list[Path]:
    """Copy the files of the documentation; return all of them, even those that existed.

    Raises:
        UsageError: a file with one of their names has different content, or the folder is not a
            folder.
        OutputError: the system refused; nothing was written.
    """
    from ctc_align.files.whole_files import placing

    package = DEMO_FOLDER.parent
    installed = package / "examples"  # in a checkout they are beside the package
    sources: dict[Path, Path] = {}
    for home in (installed if installed.is_dir() else package.parent / "examples", DEMO_FOLDER):
        for path in sorted(home.rglob("*.*")):
            if path.is_file() and path.name != "README.md" and "__pycache__" not in path.parts:
                sources[folder / path.relative_to(home)] = path
    if folder.exists() and not folder.is_dir():
        raise UsageError(f"--examples {folder}: expected a folder, got a file")
    there = [(target, path) for target, path in sources.items() if target.exists()]
    other = [target for target, path in there if not filecmp.cmp(target, path, shallow=False)]
    if other:
        raise UsageError(f"{other[0]}: already exists with different content; give a new folder")
    missing = [target for target in sources if not target.exists()]
    if missing:
        with placing(missing) as parts:
            for target, part in parts:
                shutil.copyfile(sources[target], part)
    return list(sources)
