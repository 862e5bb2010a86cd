"""The command line. A command parses its options, calls the library once, and writes.

Data goes to stdout, messages to stderr. Nothing heavy is imported before a command runs.
"""

from __future__ import annotations

import contextlib
import difflib
import functools
import importlib
import inspect
import io
import os
import re
import signal
import sys
import traceback
from collections.abc import Callable, Mapping, Sequence
from typing import Annotated, Any, get_args

import typer
from typer.core import TyperCommand, TyperGroup

from ctc_align._version import __version__
from ctc_align.cli.options import GENERAL, PANELS, with_examples
from ctc_align.cli.printing import (
    INTERRUPTED,
    OK,
    PROGRAM,
    SOME_FAILED,
    WRONG_CALL,
    Interrupted,
    end_listening,
    put,
    route_python_warnings,
    say,
    say_lines,
)
from ctc_align.config import settings_toml
from ctc_align.errors import BackendError, ConfigError, CtcAlignError, InputError, UsageError
from ctc_align.machine.private_folders import unset_relative_cache_home


@with_examples("ctc-align help", "ctc-align help align", "ctc-align help settings > settings.toml")
def show_help(
    context: typer.Context,
    command: Annotated[
        str | None,
        typer.Argument(
            metavar="COMMAND", help="A command, or settings.", show_default="the list of commands"
        ),
    ] = None,
) -> None:
    """Show the help of a command, or all settings as a file.

    "ctc-align help COMMAND" prints the same as "ctc-align COMMAND --help". "ctc-align help
    settings" prints a file of all settings with their defaults, for --config.
    """
    if command is None:
        put(program().get_help(context.find_root()))
        return
    if command == "settings":
        put(settings_toml().rstrip("\n"))
        return
    _refuse_withdrawn_command(command)
    if command not in COMMANDS:
        meant = difflib.get_close_matches(command, COMMANDS, n=1, cutoff=0.6)
        if meant:
            hint = f"did you mean {meant[0]}?"
        else:
            hint = f"expected one of {', '.join(COMMANDS)}"
        raise UsageError(f"help {command}: no such command; {hint}")
    program(command).main([command, "--help"], prog_name=PROGRAM, standalone_mode=False)


COMMANDS = {
    "adapt": "train:adapt",
    "align": "align:align",
    "book": "book:book",
    "calibrate": "calibrate:calibrate",
    "check": "check:check",
    "convert": "convert:convert",
    "corpus": "corpus:corpus",
    "demo": "doctor:demo",
    "doctor": "doctor:doctor",
    "evaluate": "evaluate:evaluate",
    "filter": "filter:filter_run",
    "help": "",
    "models": "models:models",
    "praat": "praat:praat",
    "realign": "realign:realign",
    "report": "view:report",
    "score": "score:score",
    "serve": "serve:serve",
    "train": "train:train",
    "view": "view:view",
}
"""The module of each command in this folder, and its function: a module is imported if its command
is called."""

WITHDRAWN = {
    "bench": "ctc-align doctor --speed compares the speed of kernels, ctc-align evaluate HYPOTHESIS"
    " REFERENCE measures edges (--interval-by folder: intervals over speakers); see"
    " docs/migrate/0.4.md",
}
"""Commands that are gone, and what to use instead; they are named until the version after next."""
_COMPLETION = "_CTC_ALIGN_COMPLETE"
"""The variable with which a shell asks for completions."""
_OF_PROGRAM = ("-h", "--help", "--version", "--install-completion", "--show-completion")
"""Options that belong to no command."""
_NO_NUMBER = re.compile(
    r"Input should be a valid (?:number|integer).*|(?<=: )(?P<value>'.*') is not a valid"
    r" (?:float|integer).*"
)
"""Complaints of several versions of the parser about a value that is not a number."""
_TYPE = re.compile(r" <[^<>]*>\Z")
_DEFAULT = re.compile(r"\[default: \(([^()]*)\)")
"""A default in words, which the parser puts into brackets."""
_NUMBERS = {
    "--frame-rate": " of frames per second such as 24 or 23.976",
    "--frame-shift": " of seconds such as 0.02",
}
_SORT = (
    "sort the rows: ctc-align score SOURCE | sort -t$'\\t' -grk4 (loss_per_token; k8: local_loss);"
    " see docs/migrate/0.4.md"
)
MISNOMERS = {
    "--transcript": "give the file as the second argument: ctc-align AUDIO TRANSCRIPT",
    "--transcript-file": "give the file as the second argument: ctc-align AUDIO TRANSCRIPT",
    "--text-file": "give the file as the second argument: ctc-align AUDIO TRANSCRIPT",
    "--subtitles": "give the file as the second argument: ctc-align AUDIO TRANSCRIPT",
    "--audio": "give the recording as the first argument: ctc-align AUDIO TRANSCRIPT",
    "--audio-file": "give the recording as the first argument: ctc-align AUDIO TRANSCRIPT",
    "--output": "use -o DIR, --out-dir DIR (a folder), or --stdout",
    "--output-dir": "use --out-dir DIR",
    "--overwrite": "use --force",
    "--dictionary": "use --lexicon FILE",
    "--worst": _SORT,
    "--worst-by": _SORT,
}
"""Options of other programs or earlier versions that people type, and what to use here."""


class _OutputClosed(Exception):
    """The reader of the output (`| head`) has closed it."""


def _raising_ours(command: Callable[..., None]) -> Callable[..., None]:
    """Wrap a command: raise other exceptions for a closed output and for data that end too early.

    The parser takes BrokenPipeError for a failure, and EOFError for Ctrl-D at a prompt.
    """

    @functools.wraps(command)
    def called(*arguments: object, **options: object) -> None:
        try:
            command(*arguments, **options)
            sys.stdout.flush()
        except BrokenPipeError as error:
            raise _OutputClosed from error
        except EOFError as error:
            raise InputError(
                f"a file ends too early ({error or 'no more data'}): is it truncated or damaged?"
            ) from error

    return called


class _SparingConversions:
    """Leaves values alone that have their types: Typer would load pydantic for them (0.07 s)."""

    # Up to Typer 0.29 no public setting avoids this: each value passes `process_value` of Typer's
    # own parameter class, which builds a pydantic adapter even for str, and for `parser=`, too;
    # `app.command(cls=…)` replaces the class of a command, not that of its parameters. To replace
    # `parse_args` would be to copy the parser, and Click's classes are vendored, in private.
    def get_params(self, ctx: Any) -> list[Any]:
        """Return the parameters, that of --help too."""
        parameters: list[Any] = super().get_params(ctx)  # type: ignore[misc]
        declared = inspect.signature(self.callback).parameters  # type: ignore[attr-defined]
        for each in parameters:
            if "process_value" not in vars(each):
                if each.name in declared:
                    kind = get_args(declared[each.name].annotation)[:1]
                else:
                    kind = ()
                is_text = kind in ((str,), (str | None,))
                each.process_value = functools.partial(_value, each, is_text, each.process_value)
        return parameters


def _value(
    parameter: Any, is_text: bool, convert: Callable[[Any, Any], Any], context: Any, value: Any
) -> Any:
    """Return the value of a parameter, converted where it has to be."""
    if value is None and not parameter.required:
        if getattr(parameter, "multiple", False):
            return ()
        return None
    if is_text:
        is_right = isinstance(value, str)
    else:
        is_right = isinstance(value, bool)
    if is_right and parameter.callback is None:
        return value
    return convert(context, value)


class PlainProgram(_SparingConversions, TyperGroup):
    """The program, whose parameter is a command."""


class PlainCommand(_SparingConversions, TyperCommand):
    """A command whose help names arguments plainly.

    Versions of the parser add braces, dots and Python's types.
    """

    def collect_usage_pieces(self, ctx: Any) -> list[str]:
        """Return the words of the usage line after the command's name."""
        pieces = [self.options_metavar or ""]
        for each in self.params:
            if each.param_type_name == "argument":
                name = f"{each.metavar or str(each.name).upper()}{'...' if each.nargs != 1 else ''}"
                pieces.append(name if each.required else f"[{name}]")
        return pieces

    def format_options(self, ctx: Any, formatter: Any) -> None:
        """Write the arguments, then the options under the headings of their panels."""
        sections: dict[str, list[tuple[str, str]]] = {title: [] for title in ("Arguments", *PANELS)}
        for each in self.get_params(ctx):
            row = each.get_help_record(ctx)
            if row is not None:
                # the parser's own --help has no panel
                panel = getattr(each, "rich_help_panel", None) or GENERAL
                if each.param_type_name == "argument":
                    title = "Arguments"
                else:
                    title = panel
                sections[title].append(
                    (_TYPE.sub("", row[0]), _DEFAULT.sub(r"[default: \1", row[1]))
                )
        for title, rows in sections.items():
            if rows:
                with formatter.section(title):
                    formatter.write_dl(rows)

    def format_epilog(self, ctx: Any, formatter: Any) -> None:
        """Write the example calls, each on a line that is never broken."""
        examples = getattr(self.callback, "examples", ())
        if examples:
            with formatter.section("Examples"):
                formatter.write("".join(f"  {line}\n" for line in examples))

    def get_short_help_str(self, limit: int = 0) -> str:
        """Return the whole summary for the list of commands, whatever the limit is."""
        return super().get_short_help_str(limit=sys.maxsize)


@functools.cache
def program(*names: str) -> Any:
    """Return the program with some of its commands, or with all."""
    app = typer.Typer(
        name=PROGRAM,
        cls=PlainProgram,
        rich_markup_mode=None,  # plain help needs no rich and is the same everywhere
        pretty_exceptions_enable=False,
        context_settings={"help_option_names": ["-h", "--help"]},
    )
    app.callback()(ctc_align)
    for name in names or COMMANDS:
        module, _, function = COMMANDS[name].partition(":")
        if module:
            command = getattr(importlib.import_module(f"{__name__}.{module}"), function)
        else:
            command = show_help
        app.command(name, cls=PlainCommand)(_raising_ours(command))
    return typer.main.get_command(app)


def program_for(arguments: Sequence[str]) -> Any:
    """Return the program with the command of a command line.

    Where the shell asks for completions, it has all commands.
    """
    name = arguments[0] if arguments else ""
    if name in COMMANDS and _COMPLETION not in os.environ:
        return program(name)
    return program()


def ctc_align(
    version: Annotated[bool, typer.Option("--version", help="Show the version and exit.")] = False,
) -> None:
    """Align speech with its transcript using CTC, exactly and offline.

    "ctc-align AUDIO TRANSCRIPT [OPTIONS]" is short for "ctc-align align AUDIO TRANSCRIPT
    [OPTIONS]".
    """


def main() -> None:
    """Entry point of the `ctc-align` program."""
    _replace_closed_streams()
    if os.name == "nt" and not sys.stdout.isatty():
        as_everywhere(sys.stdout)
    unset_relative_cache_home()
    route_python_warnings()
    if _COMPLETION in os.environ:
        os.environ.update(completed_with_command(os.environ))
    try:
        code = run(sys.argv[1:])
    except KeyboardInterrupt:
        code = INTERRUPTED
    if code == INTERRUPTED:
        _ignore_interrupts()
    sys.exit(code)


def _ignore_interrupts() -> None:
    """Ignore Ctrl-C from now on.

    While Python ends, it would replace the exit code and print tracebacks.
    """
    while signal.getsignal(signal.SIGINT) is not signal.SIG_IGN:
        with contextlib.suppress(KeyboardInterrupt):
            signal.signal(signal.SIGINT, signal.SIG_IGN)


def completed_with_command(environment: Mapping[str, str]) -> dict[str, str]:
    """Return the variables for shell completion; a line without a command is completed as "align".

    >>> completed_with_command({"COMP_WORDS": "ctc-align talk.wav --fo", "COMP_CWORD": "2"})
    {'COMP_WORDS': 'ctc-align align talk.wav --fo', 'COMP_CWORD': '3'}
    """
    changed = {}
    for name in ("COMP_WORDS", "_TYPER_COMPLETE_ARGS"):
        program, _, rest = environment.get(name, "").partition(" ")
        first, space, _ = rest.lstrip().partition(" ")
        if space and not first.startswith("-") and first not in COMMANDS:
            changed[name] = f"{program} align {rest}"
    if "COMP_WORDS" in changed and environment.get("COMP_CWORD", "").isdecimal():
        changed["COMP_CWORD"] = str(int(environment["COMP_CWORD"]) + 1)
    return changed


def _replace_closed_streams() -> None:
    """Replace streams that the caller closed (None): messages are dropped, writing data fails."""
    if sys.stderr is None:
        sys.stderr = os.fdopen(os.open(os.devnull, os.O_WRONLY), "w", encoding="utf-8")
    if sys.stdout is None:
        sys.stdout = os.fdopen(os.open(os.devnull, os.O_RDONLY), "w", encoding="utf-8")


def as_everywhere(stream: object) -> None:
    """Write UTF-8 and line feeds to pipes and files, on Windows, too."""
    if isinstance(stream, io.TextIOWrapper):
        stream.reconfigure(encoding="utf-8", newline="\n")


def run(arguments: Sequence[str]) -> int:
    """Run one command line, and return its exit code; errors are reported in one line on stderr."""
    original = list(arguments)
    arguments = with_command(original)
    if arguments == ["--version"]:
        put(f"{PROGRAM} {__version__}")
        return OK
    try:
        _refuse_unknown_command(original)
        _refuse_option_as_value(arguments)
        code = program_for(arguments).main(
            list(arguments), prog_name=PROGRAM, standalone_mode=False
        )
        sys.stdout.flush()
        if code == INTERRUPTED:
            raise KeyboardInterrupt
        if "ctc_align.kernels.cpu.cpu_backend" in sys.modules:
            from ctc_align.kernels.cpu.background import compile_in_background

            compile_in_background()
        return code if isinstance(code, int) else OK
    except (_OutputClosed, BrokenPipeError):
        _drop_stdout()
        return OK
    except (KeyboardInterrupt, typer.Abort):
        _say("interrupted")
        return INTERRUPTED
    except Interrupted as error:
        _say(str(error))
        return INTERRUPTED
    except CtcAlignError as error:
        if "--verbose" in arguments or "-v" in arguments:
            say_lines(traceback.format_exc())
        lines = [line for line in str(error).split("\n") if line.strip()]
        lines = (
            ["; ".join(lines)] if isinstance(error, ConfigError) else lines
        )  # all faults of a call in one line
        _say(*(f"error: {line}" for line in lines))
        return WRONG_CALL if isinstance(error, (UsageError, BackendError)) else SOME_FAILED
    except OSError as error:
        if "--verbose" in arguments or "-v" in arguments:
            say_lines(traceback.format_exc())
        _say(f"error: {error.filename or 'standard output'}: {error.strerror or error}")
        _drop_stdout()
        return SOME_FAILED
    except MemoryError:
        _say("error: out of memory; give shorter audio, or close other programs")
        return SOME_FAILED
    except Exception as error:
        # the parser's own errors, whichever package they come from, have this method
        if not hasattr(error, "format_message"):
            raise
        _say(f"error: {_parser_message(error)}")
        return WRONG_CALL
    finally:
        end_listening()


def with_command(arguments: Sequence[str]) -> list[str]:
    """Return the command line with its command: "align" if none is named, "--help" if it is empty.

    >>> with_command(["talk.wav", "talk.txt"])
    ['align', 'talk.wav', 'talk.txt']
    """
    arguments = list(arguments)
    if not arguments:
        return ["--help"]
    if arguments[0] in COMMANDS or arguments[0] in _OF_PROGRAM:
        return arguments
    return ["align", *arguments]


def _refuse_withdrawn_command(name: str) -> None:
    if name in WITHDRAWN:
        raise UsageError(f"{name}: this command was removed; {WITHDRAWN[name]}")


def _refuse_unknown_command(arguments: Sequence[str]) -> None:
    """Raise UsageError if the first argument is a withdrawn or a misspelt command.

    A name that may be that of a recording passes.
    """
    name = arguments[0] if arguments else ""
    _refuse_withdrawn_command(name)
    if name in COMMANDS or name.startswith("-") or not name.isalpha() or os.path.exists(name):
        return
    meant = difflib.get_close_matches(name, COMMANDS, n=1, cutoff=0.75)
    if meant:
        raise UsageError(
            f"{name}: no such command and no such audio file; did you mean {meant[0]}?"
        )


def _refuse_option_as_value(arguments: Sequence[str]) -> None:
    """Raise UsageError if an option stands where another one's value should be."""
    command = program_for(arguments).commands.get(arguments[0])
    # An argument has a name without hyphens, which may be that of a file or folder in the call:
    # `reference`.
    options = {
        name: each
        for each in getattr(command, "params", ())
        for name in each.opts
        if name.startswith("-")
    }
    for index, name in enumerate(arguments[1:-1], start=1):
        if name == "--":
            return
        option = options.get(name)
        value = arguments[index + 1]
        if (
            option is None
            or getattr(option, "is_flag", False)
            or not value.startswith("--")
            or value not in options
        ):
            continue
        wanted, *after = option.metavar or "its value", *arguments[index + 2 : index + 3]
        is_meant = after and options[value].metavar == wanted and not after[0].startswith("-")
        if is_meant:
            hint = f"; did you mean {name} {after[0]}?"
        else:
            hint = f"; see {PROGRAM} {arguments[0]} --help"
        raise UsageError(f"{name}: expected {wanted}, got the option {value}{hint}")


def _parser_message(error: Exception) -> str:
    message = " ".join(error.format_message().split())  # type: ignore[attr-defined]
    option = getattr(error, "option_name", None)
    if option in MISNOMERS:
        return f"{option}: no such option; {MISNOMERS[option]}"
    no_number = _NO_NUMBER.search(message)
    if no_number:
        message = f"{message[: no_number.start()]}{_expected_number(error, no_number)}"
    if "unexpected extra argument" in message:
        message = f"{message.rstrip('.')}; a name with spaces needs quotes"
    context = getattr(error, "ctx", None)
    command = getattr(context, "command_path", PROGRAM)
    return f"{message.rstrip('.')}; see {command} --help"


def _expected_number(error: Exception, no_number: re.Match[str]) -> str:
    """Return what a numeric option expected and what it got, for every version of the parser."""
    options = getattr(getattr(error, "param", None), "opts", [])
    what = _NUMBERS.get(options[0] if options else "", "")
    whole = "whole " if "integer" in no_number[0] else ""
    met = no_number["value"]
    faults = getattr(error.__cause__, "errors", None)
    if met is None and faults is not None:
        met = repr(faults()[0].get("input"))
    return f"expected a {whole}number{what}" + (f", got {met}" if met else "")


def _drop_stdout() -> None:
    """Discard what is buffered for a closed or full stdout: Python would fail as it ends."""
    with contextlib.suppress(OSError, ValueError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _say(*lines: str) -> None:
    for line in lines:
        say(f"{PROGRAM}: {line}")
