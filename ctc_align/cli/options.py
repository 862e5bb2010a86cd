"""Options of the commands: single parameters, and groups that a command takes as one object.

    @with_options
    def align(audio: …, *, text: str | None = setting(None, "…"), model: ModelOptions, config:
    SettingsOptions, …):

`ctc_align.config.setting` holds the help of an option. A group is a frozen dataclass for options
that several commands share, or that have methods. `SettingsOptions` has an option for each field of
`Settings` that names the command.
"""

from __future__ import annotations

import dataclasses
import functools
import inspect
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, TypeVar, get_type_hints

import typer

from ctc_align.cli.printing import Talk
from ctc_align.config import (
    EVERYDAY,
    LOG_PROBS,
    MACHINE,
    READING,
    SUBTITLES,
    TIMES,
    Settings,
    load_settings,
    setting,
)
from ctc_align.errors import ConfigError, UsageError
from ctc_align.machine import BACKENDS

if TYPE_CHECKING:
    from typing_extensions import Self

    from ctc_align.models.log_probs import LogProbsReader

Command = TypeVar("Command", bound=Callable[..., None])

OUTPUTS = "Outputs"
WORKERS = "Workers and resuming"
LIMITS = "Limits"
GENERAL = "Settings and messages"
PANELS = (
    EVERYDAY,
    OUTPUTS,
    LIMITS,
    WORKERS,
    READING,
    TIMES,
    SUBTITLES,
    MACHINE,
    GENERAL,
    LOG_PROBS,
)
"""The headings under which `--help` lists options, in order."""


def assignments_option() -> Any:
    about = "Set one setting, as in the settings file; may be repeated, and overrides --config."
    return setting(None, about, option="--set", metavar="KEY=VALUE", panel=GENERAL)


def lexicon_option(
    help: str = "Pronunciations in MFA dictionary format; takes precedence over the model's own dictionary.",
    shown: str = "the one in the model's folder",
) -> Any:
    return setting(None, help, metavar="FILE", shown=shown)


device_option = functools.partial(
    setting, "auto", "Device of the model.", metavar="auto|cpu|cuda|cuda:N|mps", panel=MACHINE
)
backend_option = functools.partial(
    setting,
    "auto",
    "Implementation of the alignment algorithms: cpu, gpu (CUDA), or the slow reference; auto:"
    " chosen from --device.",
    metavar="|".join(BACKENDS),
    panel=MACHINE,
)


def formats_option(
    default: str | None = None, shown: str = "json,ctm,textgrid", panel: str = ""
) -> Any:
    about = (
        "Output formats, comma-separated: any of json, ctm, textgrid, srt, vtt, ass, lrc, tsv, csv,"
        " audacity, eaf, smil, html, labelstudio, whisper, png and svg."
    )
    return setting(default, about, metavar="LIST", shown=shown, panel=panel)


folder_option = functools.partial(setting, None, option="--out-dir -o", metavar="DIR")
recording_option = functools.partial(
    setting,
    metavar="PATH",
    shown="the path in the JSON, relative to the current folder or to the JSON's",
)
force_option = functools.partial(
    setting, False, "Replace outputs that exist. Inputs are never replaced."
)
config_option = functools.partial(
    setting,
    None,
    "Read settings from a file; options on the command line override it.",
    option="--config",
    metavar="NAME|FILE.toml",
    panel=GENERAL,
)
encoding_option = functools.partial(
    setting,
    "",
    "Encoding of texts that are not UTF-8: cp1254, shift_jis, gb18030, utf-16 and others.",
    metavar="NAME",
    shown="UTF-8, or as the byte order mark says",
    panel=READING,
)
source_option = functools.partial(
    setting,
    None,
    "Kind of corpus: manifest, table, lhotse, kaldi, librispeech, metadata or mfa.",
    option="--source",
    metavar="KIND",
    shown="recognised",
)
"""Options that several commands or groups share: a call returns the default of a parameter, or a
field of a group."""


def with_options(command: Callable[..., None]) -> Callable[..., None]:
    """Return the command with its options and those of its groups as Typer's parameters."""
    # Not get_type_hints: for what is None by default Python 3.10 puts Optional around the
    # annotation.
    given = inspect.signature(command, eval_str=True).parameters
    groups: dict[str, type[Group]] = {}
    declared: list[dataclasses.Field[Any]] = []
    parameters: list[inspect.Parameter] = []
    for name, parameter in given.items():
        kind, default = parameter.annotation, parameter.default
        if isinstance(kind, type) and issubclass(kind, Group):
            groups[name] = kind
            declared += _fields(kind)
            parameters += _options(kind, command.__name__)
        elif isinstance(default, dataclasses.Field):
            default.name = name
            declared.append(default)
            parameters.append(_option(default, kind, default.default, EVERYDAY))
        else:
            parameters.append(parameter.replace(kind=parameter.KEYWORD_ONLY))

    @functools.wraps(command)
    def called(**values: Any) -> None:
        _check_choices(declared, values)
        for name, group in groups.items():
            parsed = {
                option.name: values.pop(option.name) for option in _options(group, command.__name__)
            }
            values[name] = group.of(parsed)
        command(**values)

    called.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    called.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
    return called


def with_examples(*lines: str) -> Callable[[Command], Command]:
    """Return a decorator that gives a command the example calls at the end of its help."""

    def add_examples(command: Command) -> Command:
        command.examples = lines  # type: ignore[attr-defined]
        return command

    return add_examples


def _check_choices(declared: Iterable[dataclasses.Field[Any]], values: Mapping[str, Any]) -> None:
    """Raise UsageError if a value is not among the choices of its option.

    Settings are checked with their file.
    """
    for each in declared:
        choices = each.metadata["choices"]
        value = values[each.name]
        if choices and value is not None and value not in choices:
            expected = f"{', '.join(choices[:-1])} or {choices[-1]}"
            raise UsageError(f"{option_names(each)[0]}: expected {expected}, got {value!r}")


def _fields(group: type[Group]) -> list[dataclasses.Field[Any]]:
    """Return the fields of a group that are options."""
    return [each for each in dataclasses.fields(group) if each.metadata]  # type: ignore[arg-type]


def _options(group: type[Group], command: str) -> Iterator[inspect.Parameter]:
    """Yield a Typer parameter for each option of a group, and for each of its settings."""
    types = get_type_hints(group)
    for each in _fields(group):
        yield _option(each, types[each.name], each.default, group.panel)
    if issubclass(group, SettingsOptions):
        yield from settings_options(Settings, command)


def settings_options(kind: Any, command: str) -> Iterator[inspect.Parameter]:
    """Yield a Typer parameter for each setting of the dataclass `kind` that names the command.

    An option that is not given is None, so that a file of settings decides.
    """
    types = get_type_hints(kind)
    for each in dataclasses.fields(kind):
        if command in each.metadata["commands"]:
            yield _option(each, types[each.name] | None, None, EVERYDAY)


def _option(
    declared: dataclasses.Field[Any], kind: Any, default: Any, panel: str
) -> inspect.Parameter:
    """Return the parameter of an option of the type `kind`; `panel` is its heading by default."""
    about = declared.metadata
    names = option_names(declared)
    shown = about["shown"]
    if kind == bool | None:
        shown = shown or ("" if declared.default else "no-") + names[0].removeprefix("--")
        names = [f"{names[0]}/--no-{names[0].removeprefix('--')}", *names[1:]]
    elif isinstance(declared.default, float):
        shown = shown or f"{declared.default:g}"
    elif default is None and declared.default is not None:
        shown = shown or str(declared.default)
    limits = (
        about["within"] if default == declared.default else None
    )  # those of settings are checked with their file
    option = typer.Option(
        *names,
        metavar=about["metavar"] or "|".join(about["choices"]) or None,
        help=about["help"],
        show_default=shown or default not in (None, ""),
        rich_help_panel=about["panel"] or panel,
        min=limits[0] if limits else None,
    )
    return inspect.Parameter(
        declared.name,
        inspect.Parameter.KEYWORD_ONLY,
        default=default,
        annotation=Annotated[kind, option],
    )


def option_names(declared: dataclasses.Field[Any]) -> list[str]:
    """Return the names of a field's option, the long one first: "--out-dir" and "-o"."""
    return str(declared.metadata["option"]).split() or [f"--{declared.name.replace('_', '-')}"]


def setting_option(name: str) -> str:
    """Return the option of a setting: "--min-gap" for "min_gap_s"."""
    declared = {each.name: each for each in dataclasses.fields(Settings)}
    return option_names(declared[name])[0]


def checked_language(language: str) -> str:
    """Return the code of a language, "" for none; raise UsageError for an unknown one."""
    from ctc_align.text.languages import known_language

    return known_language(language) if language else ""


class Group:
    """A group of options, under the heading `panel` unless an option names another."""

    panel: ClassVar[str] = EVERYDAY

    @classmethod
    def of(cls, values: dict[str, Any]) -> Self:
        """Return the group with the values of a call."""
        return cls(**values)


@dataclass(frozen=True)
class ModelOptions(Group):
    """The acoustic model, where it runs, and its pronunciations."""

    model: str | None = setting(
        None, "Acoustic model; see ctc-align models.", metavar="NAME|PATH", shown="by language"
    )
    lexicon: str | None = lexicon_option()
    device: str = device_option()
    backend: str = backend_option()

    def name_for(self, log_probs: LogProbsReader | None) -> str | None:
        """Return the model's name, "auto" by default; None if log-probs replace the model."""
        if log_probs is not None:
            return None
        return self.model or "auto"


@dataclass(frozen=True)
class SettingsOptions(Group):
    """A command's settings: a file, single assignments, and its own options in `overrides`."""

    panel: ClassVar[str] = GENERAL

    file: str | None = config_option()
    assignments: list[str] | None = assignments_option()
    overrides: dict[str, Any] = field(default_factory=dict)

    @classmethod
    def of(cls, values: dict[str, Any]) -> Self:
        """Return the options of a call, None for each one that is not given."""
        values = dict(values)
        return cls(values.pop("file"), values.pop("assignments"), values)

    def settings(self, base: dict[str, Any] | None = None) -> Settings:
        """Return the settings: of the file, then of `--set`, then of the command's options.

        `base` replaces defaults.

        Raises:
            ConfigError: no such file, or faults in any of them.
            UsageError: the language is unknown.
        """
        try:
            settings = load_settings(self.file, self.assignments, base, **self.overrides)
        except ConfigError as error:
            raise ConfigError("\n".join(map(self._as_option, str(error).splitlines()))) from error
        from ctc_align.text.languages import known_languages

        return dataclasses.replace(settings, language=known_languages(settings.language))

    def _as_option(self, fault: str) -> str:
        """Return a fault with the name of the option that gave the value: "--min-confidence: …"."""
        name, colon, rest = fault.partition(":")
        if name in self.overrides:
            return f"{setting_option(name)}{colon}{rest}"
        return fault


@dataclass(frozen=True)
class LogProbsOptions(Group):
    """The vocabulary, frame shift and blank of log-probs that replace audio."""

    panel: ClassVar[str] = LOG_PROBS

    vocab: str | None = setting(
        None,
        "Vocabulary file: one token per line in class order, Kaldi's 'token id' lines, or JSON.",
        metavar="FILE",
    )
    frame_shift: float | None = setting(None, "Time between frames.", metavar="SECONDS")
    blank: str | None = setting(
        None, "The blank of the vocabulary.", metavar="TOKEN|INDEX", shown="index 0"
    )

    def reader_of_file(self, audio: str, model: str | None) -> LogProbsReader | None:
        """Return the reader of log-probs `audio`; None if it is sound.

        Raises:
            UsageError: options of log-probs are given with sound, or as for `_reader`.
        """
        from ctc_align.models.log_probs import is_log_probs_path

        if is_log_probs_path(audio):
            return self._reader(audio, model)
        if self._names:
            kinds = ".npy, .npz, .pt, .safetensors, FILE.ark:OFFSET"
            raise UsageError(
                f"{' and '.join(self._names)}: only for log-probs ({kinds}), got {audio}"
            )
        return None

    def reader_of_source(self, source: str, model: str | None) -> LogProbsReader | None:
        """Return the reader of a corpus of log-probs; None if none of these options is given.

        Raises:
            UsageError: as `_reader`.
        """
        return self._reader(source, model) if self._names else None

    @property
    def _names(self) -> list[str]:
        """The options that are given."""
        values = {"--vocab": self.vocab, "--frame-shift": self.frame_shift, "--blank": self.blank}
        return [option for option, value in values.items() if value is not None]

    def _reader(self, audio: str, model: str | None) -> LogProbsReader:
        """Return the reader; raise UsageError if an option is missing or a model is given."""
        from ctc_align.models.log_probs import LogProbsReader

        if self.vocab is None or self.frame_shift is None:
            missing = " and ".join(
                option for option in ("--vocab", "--frame-shift") if option not in self._names
            )
            raise UsageError(
                f"{audio}: log-probs need {missing} too (--vocab FILE, --frame-shift SECONDS)"
            )
        if model is not None:
            raise UsageError(f"{audio}: log-probs already come from a model; omit --model {model}")
        return LogProbsReader(self.vocab, self.frame_shift, self.blank)


@dataclass(frozen=True)
class MessageOptions(Group):
    """How many messages go to stderr."""

    panel: ClassVar[str] = GENERAL

    quiet: bool = setting(False, "Print only errors.", option="--quiet -q")
    verbose: bool = setting(
        False, "Print more, including where an error occurred.", option="--verbose -v"
    )

    def talk(self) -> Talk:
        """Return the writer of a command's messages to stderr."""
        return Talk(quiet=self.quiet, verbose=self.verbose)
