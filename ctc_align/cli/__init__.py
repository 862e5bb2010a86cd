"""The command line: a thin shell. A command parses, calls the library once, and writes.

stdout is data, stderr is talk. Exit 0 all well, 1 an utterance failed, 2 the call was wrong, 130 interrupted.
Nothing heavy is imported before a command runs.
"""

from __future__ import annotations

import contextlib
import difflib
import functools
import os
import sys
import traceback
from collections.abc import Callable, Sequence
from typing import Annotated

import typer

from ctc_align._version import __version__
from ctc_align.cli.align import align, demo
from ctc_align.cli.bench import bench
from ctc_align.cli.calibrate import calibrate
from ctc_align.cli.corpus import corpus
from ctc_align.cli.evaluate import evaluate
from ctc_align.cli.messages import INTERRUPTED, OK, SOME_FAILED, WRONG_CALL, Interrupted
from ctc_align.cli.models import models
from ctc_align.cli.score import score
from ctc_align.cli.train import adapt, train
from ctc_align.errors import BackendError, CtcAlignError, UsageError

PROGRAM = "ctc-align"

app = typer.Typer(
    name=PROGRAM,
    rich_markup_mode=None,  # plain help needs no rich and is the same everywhere
    pretty_exceptions_enable=False,
    add_completion=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
COMMANDS: dict[str, Callable[..., None]] = {
    "adapt": adapt,
    "align": align,
    "bench": bench,
    "calibrate": calibrate,
    "corpus": corpus,
    "demo": demo,
    "evaluate": evaluate,
    "models": models,
    "score": score,
    "train": train,
}


LATER = ("view",)
"""Commands that have a name but no code yet: said, not taken for a recording."""


class _ReaderGone(Exception):
    """Whoever read our output (`| head`) has enough."""


def _noticing_the_reader(command: Callable[..., None]) -> Callable[..., None]:
    """The command, with an end of its reader that the parser does not take for a failure."""

    @functools.wraps(command)
    def noticing(*arguments: object, **options: object) -> None:
        try:
            command(*arguments, **options)
            sys.stdout.flush()
        except BrokenPipeError as error:
            raise _ReaderGone from error

    return noticing


for _name, _command in COMMANDS.items():
    app.command(_name)(_noticing_the_reader(_command))


@app.callback()
def ctc_align(
    version: Annotated[bool, typer.Option("--version", help="Show the version and exit.")] = False,
) -> None:
    """Align speech with its transcript by CTC: exact, offline.

    "ctc-align AUDIO TRANSCRIPT [OPTIONS]" is short for "ctc-align align AUDIO TRANSCRIPT [OPTIONS]".
    """


def main() -> None:
    """Entry point of the `ctc-align` program."""
    _replace_closed_streams()
    sys.exit(run(sys.argv[1:]))


def _replace_closed_streams() -> None:
    """A stream that the caller closed is None: talk then goes nowhere, and data fails as on any closed stream."""
    if sys.stderr is None:
        sys.stderr = os.fdopen(os.open(os.devnull, os.O_WRONLY), "w", encoding="utf-8")
    if sys.stdout is None:
        sys.stdout = os.fdopen(os.open(os.devnull, os.O_RDONLY), "w", encoding="utf-8")


def run(arguments: Sequence[str]) -> int:
    """Run one command line, and return its exit code; whatever goes wrong is one line on stderr."""
    given = list(arguments)
    arguments = with_command(given)
    if arguments == ["--version"]:
        print(f"{PROGRAM} {__version__}")
        return OK
    try:
        _refuse_other_commands(given)
        code = typer.main.get_command(app).main(list(arguments), prog_name=PROGRAM, standalone_mode=False)
        sys.stdout.flush()
        if code == INTERRUPTED:
            raise KeyboardInterrupt
        return code if isinstance(code, int) else OK
    except (_ReaderGone, BrokenPipeError):
        return _reader_gone()
    except (KeyboardInterrupt, typer.Abort):
        _say("interrupted; nothing was written")
        return INTERRUPTED
    except Interrupted as error:
        _say(str(error))
        return INTERRUPTED
    except CtcAlignError as error:
        if "--verbose" in arguments or "-v" in arguments:
            traceback.print_exc()
        _say(*(f"error: {line}" for line in str(error).splitlines() if line.strip()))
        return WRONG_CALL if isinstance(error, (UsageError, BackendError)) else SOME_FAILED
    except OSError as error:
        if "--verbose" in arguments or "-v" in arguments:
            traceback.print_exc()
        _say(f"error: {error.filename or 'standard output'}: {error.strerror or error}")
        _drop_stdout()
        return SOME_FAILED
    except MemoryError:
        _say("error: out of memory; give shorter audio, or close other programs")
        return SOME_FAILED
    except Exception as error:
        # the parser's own errors, whichever package it comes from, know how to say themselves
        if not hasattr(error, "format_message"):
            raise
        _say(f"error: {_parser_message(error)}")
        return WRONG_CALL


def with_command(arguments: Sequence[str]) -> list[str]:
    """The command line with its command: "align" where none is named, "--help" where there is nothing at all.

    >>> with_command(["talk.wav", "talk.txt"])
    ['align', 'talk.wav', 'talk.txt']
    """
    arguments = list(arguments)
    if not arguments:
        return ["--help"]
    if arguments[0] in COMMANDS or arguments[0] in ("-h", "--help", "--version"):
        return arguments
    return ["align", *arguments]


def _refuse_other_commands(given: Sequence[str]) -> None:
    """A command that is not there is said to be one, not taken for a recording."""
    name = given[0] if given else ""
    if name in COMMANDS or name.startswith("-") or not name.isalpha() or os.path.exists(name):
        return
    if name in LATER:
        raise UsageError(f"the command {name!r} is not in this version; there are {', '.join(COMMANDS)}")
    meant = difflib.get_close_matches(name, COMMANDS, n=1, cutoff=0.75)
    if meant:
        raise UsageError(f"{name}: no such command and no such audio file; did you mean {meant[0]}?")


def _parser_message(error: Exception) -> str:
    message = " ".join(error.format_message().split())  # type: ignore[attr-defined]
    context = getattr(error, "ctx", None)
    command = getattr(context, "command_path", PROGRAM)
    return f"{message.rstrip('.')}; see {command} --help"


def _reader_gone() -> int:
    """No complaint, also not from the interpreter's last flush."""
    _drop_stdout()
    return OK


def _drop_stdout() -> None:
    """What is left in the buffer goes nowhere: it would fail once more when the interpreter ends."""
    with contextlib.suppress(OSError, ValueError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _say(*lines: str) -> None:
    for line in lines:
        print(f"{PROGRAM}: {line}", file=sys.stderr)
