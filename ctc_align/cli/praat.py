"""ctc-align praat: the plug-in for Praat's menu, installed and removed, and the jobs it starts.

A job is a folder. The plug-in writes `job.txt` there and starts `ctc-align praat run JOB`, which
returns at once; a second process runs the command of the job and writes its output, its messages
and, last, its exit code. So Praat can show that a long job runs, and no argument passes a shell.
"""

from __future__ import annotations

import hashlib
import os
import shlex
import shutil
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path
from typing import IO, Annotated

import typer

from ctc_align.cli.options import with_examples
from ctc_align.cli.printing import PROGRAM, SOME_FAILED, counted, say
from ctc_align.errors import CtcAlignError, InputError, UsageError
from ctc_align.files.whole_files import remove_file, remove_tree, write_whole

SCRIPTS = Path(__file__).resolve().parent.parent / "integrations" / "praat"
PLUGIN = "plugin_ctc_align"
MANIFEST = "installed.txt"
"""The record of what was installed: a line with the SHA-256 and the name of each file, as sha256sum prints it."""
COMMAND = "command.praat"
_OWN_FOLDER = ("apps", "ctc_align")
"""In the preferences folder, where Praat's manual puts what scripts keep."""
JOB, STARTED, OUTPUT, MESSAGES, EXIT = (
    *("job.txt", "started.txt", "output.txt", "messages.txt", "exit.txt"),
)
_UNREAD_S = 60.0
"""Seconds for which the folder of a finished job stays, so that Praat can read it."""


@with_examples(
    "ctc-align praat install",
    'ctc-align praat install "D:\\Praat preferences"',
    "ctc-align praat remove",
)
def praat(
    action: Annotated[
        str,
        typer.Argument(
            metavar="install|remove",
            help="Put the plug-in into Praat's preferences folder, or remove it.",
        ),
    ],
    folder: Annotated[
        str | None,
        typer.Argument(
            metavar="FOLDER",
            help="Praat's preferences folder.",
            show_default="those of Praat 6 and 7, if they exist",
        ),
    ] = None,
) -> None:
    """Add ctc-align to Praat's menu, or remove it.

    The menu then aligns, realigns and compares Sounds and TextGrids. `install` writes the folder
    plugin_ctc_align with the path of this ctc-align; install again after an update. `remove`
    removes what `install` wrote, and nothing else. Restart Praat after either. The plug-in itself
    calls `run` with the folder of a job.
    """
    if action == "run" and folder:
        start_job(Path(folder))
    elif action == "work" and folder:
        work_on_job(Path(folder))
    elif action == "install":
        for each in _chosen_folders(folder):
            install_plugin(each)
    elif action == "remove":
        for each in _chosen_folders(folder):
            remove_plugin(each)
    else:
        raise UsageError(
            f"praat {action}: expected `ctc-align praat install`, `ctc-align praat remove`, or one"
            " of them with Praat's preferences folder"
        )


def preferences_folders(system: str = sys.platform) -> list[Path]:
    """Return where Praat 7 and Praat 6 keep their preferences.

    Source: Praat's manual, "preferences folder".
    """
    home = Path.home()
    if system == "win32":
        return [home / "AppData" / "Roaming" / "Praat", home / "Praat"]
    if system == "darwin":
        library = home / "Library"
        return [library / "Application Support" / "Praat", library / "Preferences" / "Praat Prefs"]
    settings = Path(os.environ.get("XDG_CONFIG_HOME") or home / ".config")
    return [settings / "praat", home / ".praat-dir"]


def _chosen_folders(folder: str | None) -> list[Path]:
    """Return the folder that was named, or the preferences folders that exist.

    Raises:
        UsageError: there is none.
    """
    if folder is not None:
        candidates = [Path(folder)]
    else:
        candidates = preferences_folders()
    found = [each.resolve() for each in candidates if each.is_dir()]
    if not found:
        raise UsageError(
            f"praat: expected Praat's preferences folder, found no folder"
            f" {' or '.join(map(str, candidates))}; start Praat once, or name the folder:"
            " ctc-align praat install FOLDER"
        )
    return found


def install_plugin(preferences: Path) -> None:
    """Write the plug-in into a preferences folder, over an earlier one of its own.

    Raises:
        UsageError: a file that this program did not write, or that was changed since, is in the
            way; nothing is written.
        OutputError: the files cannot be written.
    """
    plugin = preferences / PLUGIN
    contents = {path.name: path.read_bytes() for path in sorted(SCRIPTS.glob("*.praat"))}
    contents[COMMAND] = command_script(preferences).encode("utf-8")
    before = _installed_hashes(plugin)
    for name in contents:
        path = plugin / name
        if os.path.lexists(path) and _hash(path) != before.get(name):
            raise UsageError(
                f"{path}: was not installed by ctc-align, or was changed since; move or rename it, and"
                " install again"
            )
    lines = [f"{hashlib.sha256(data).hexdigest()}  {name}\n" for name, data in contents.items()]
    contents[MANIFEST] = "".join(lines).encode("utf-8")
    write_whole({plugin / name: data for name, data in contents.items()})
    preferences.joinpath(*_OWN_FOLDER).mkdir(parents=True, exist_ok=True)
    for name in before.keys() - contents.keys():
        if _hash(plugin / name) == before[name]:
            remove_file(plugin / name, plugin)
    say(f"{PROGRAM}: installed {plugin}; start Praat again, and select a Sound")


def remove_plugin(preferences: Path) -> None:
    """Remove the files that `install_plugin` wrote and nobody has changed, and empty folders."""
    plugin = preferences / PLUGIN
    before = _installed_hashes(plugin)
    if not before:
        say(f"{PROGRAM}: note: {preferences} has no plug-in of ctc-align")
        return
    changed = []
    for name, value in before.items():
        path = plugin / name
        if _hash(path) == value:
            remove_file(path, plugin)
        elif os.path.lexists(path):
            changed.append(name)
    remove_file(plugin / MANIFEST, plugin)
    own = preferences.joinpath(*_OWN_FOLDER)
    remove_tree(own / "jobs")
    for empty in (plugin, own):
        with suppress(OSError):  # not empty: what is in it stays
            empty.rmdir()
    if changed:
        kept = counted(len(changed), "file was", "files were")
        say(f"{PROGRAM}: note: {kept} changed and stay in {plugin}: {', '.join(changed)}")
    if own.is_dir():
        say(f"{PROGRAM}: note: the alignments that realigning needs stay in {own}")
    say(f"{PROGRAM}: removed the plug-in from {preferences}")


def _installed_hashes(plugin: Path) -> dict[str, str]:
    """Return the hash of each file that was installed; names of other folders are not followed."""
    try:
        lines = (plugin / MANIFEST).read_text(encoding="utf-8").splitlines()
    except (OSError, ValueError):
        return {}
    rows = [line.partition("  ") for line in lines]
    return {name: value for value, _, name in rows if name and Path(name).name == name}


def _hash(path: Path) -> str:
    try:
        return hashlib.sha256(path.read_bytes()).hexdigest()
    except OSError:
        return ""


def command_script(preferences: Path, system: str = sys.platform) -> str:
    """Return the script that tells the plug-in its folder, and the command line that runs a job.

    The number of the job stands between the two halves of the command line. On Windows, cmd.exe
    takes the outermost quotes away.
    """
    own = str(preferences.joinpath(*_OWN_FOLDER))
    program = _own_program()
    if system == "win32":
        start = f'"{subprocess.list2cmdline([*program, "praat", "run"])} "{own}\\jobs\\'
        end = '""'
    else:
        start = f"{shlex.join([*program, 'praat', 'run'])} {shlex.quote(own)}/jobs/"
        end = ""
    values = {
        "ctc_align_folder$": own,
        "ctc_align_command$": start,
        "ctc_align_command_end$": end,
    }
    lines = [f'{name} = "{_doubled(value)}"\n' for name, value in values.items()]
    return "# Written by ctc-align praat install.\n" + "".join(lines)


def _doubled(text: str) -> str:
    """Return a text as it stands between the quotes of Praat's language."""
    return text.replace('"', '""')


def _own_program() -> list[str]:
    """Return the absolute path of this program: its script, or Python and the package."""
    script = Path(sys.argv[0])
    if script.stem == PROGRAM and (found := shutil.which(script)):
        return [os.path.abspath(found)]
    return [sys.executable, "-m", "ctc_align"]


def start_job(folder: Path) -> None:
    """Start the process that works on a job, and return at once; remove old jobs.

    Raises:
        InputError: the folder has no job.
    """
    if not (folder / JOB).is_file():
        raise InputError(f"{folder}: expected a job of the Praat plug-in, found no {JOB}")
    for other in folder.parent.iterdir():
        with suppress(OSError):
            if time.time() - (other / EXIT).stat().st_mtime > _UNREAD_S:
                remove_tree(other)
    # Praat waits until all ends of its pipes are closed: the worker must not inherit them.
    subprocess.Popen(
        [*_python(), "praat", "work", str(folder.resolve())],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        cwd=folder,
        start_new_session=True,
        creationflags=getattr(subprocess, "CREATE_NO_WINDOW", 0),
    )
    (folder / STARTED).touch()


def work_on_job(folder: Path) -> None:
    """Run the command of a job in its folder, keep its results, and write its exit code last."""
    code = SOME_FAILED
    try:
        with open(folder / OUTPUT, "wb") as output, open(folder / MESSAGES, "wb") as messages:
            try:
                code = _run_job(folder, output, messages)
            except (OSError, CtcAlignError) as error:
                messages.write(f"{PROGRAM}: error: {error}\n".encode())
    finally:  # Praat waits for it
        write_whole({folder / EXIT: f"{code}\n".encode()})


def _run_job(folder: Path, output: IO[bytes], messages: IO[bytes]) -> int:
    """Run the command of a job, and return its exit code; `output` and `messages` are its streams.

    Raises:
        OSError: a file cannot be copied.
        CtcAlignError: the job cannot be read, no earlier alignment has the words of its TextGrid,
            or its results cannot be written.
    """
    from ctc_align.text.encodings import decode_text

    lines = decode_text((folder / JOB).read_bytes(), str(folder / JOB)).splitlines()
    rows = [line.split("\t") for line in lines]
    for row in rows:
        if row[0] == "earlier":
            textgrid = folder / f"{row[2]}.TextGrid"
            shutil.copyfile(_find_earlier(Path(row[1]), textgrid), textgrid.with_suffix(".json"))
    code = subprocess.call(
        [*_python(), *(row[1] for row in rows if row[0] == "argument")],
        stdin=subprocess.DEVNULL,
        stdout=output,
        stderr=messages,
        cwd=folder,
        env={**os.environ, "PYTHONUTF8": "1"},
    )
    for row in rows:
        if row[0] == "keep" and (folder / "out").is_dir():
            _keep(folder / "out", Path(row[1]), row[2])
    return code


def _find_earlier(path: Path, textgrid: Path) -> Path:
    """Return the JSON that a TextGrid was made from.

    That is the file given, or the latest with its words below a folder.

    Raises:
        InputError: there is none.
    """
    from ctc_align.evaluate.corrected_labels import with_labels
    from ctc_align.files import read_alignment

    found = [path]
    if path.suffix != ".json":
        found = sorted(path.glob("*/*.json"), key=lambda each: each.stat().st_mtime, reverse=True)
    faults = []
    for each in found:
        try:
            with_labels(read_alignment(each), textgrid)
            return each
        except InputError as error:
            faults.append(error)
    if faults:
        raise faults[0]
    raise InputError(
        "expected an earlier alignment of this sound, found none: align the sound first, or name"
        " its alignment (JSON)"
    )


def _keep(made: Path, target: Path, ending: str) -> None:
    """Copy what a job has made to a folder of the plug-in, without the `ending` of names."""
    names = {path: path.stem.removesuffix(ending) + path.suffix for path in made.iterdir()}
    write_whole({target / name: path.read_bytes() for path, name in names.items()})


def _python() -> list[str]:
    return [sys.executable, "-m", "ctc_align"]
