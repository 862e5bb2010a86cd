"""Options that commands share, alone or in groups; a command takes a group as one object.

    @grouped
    def align(audio: …, model: ModelOptions, logging: …) -> None:

A group is a frozen dataclass whose fields are annotated as Typer wants its options.
"""

from __future__ import annotations

import dataclasses
import functools
import inspect
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, get_type_hints

import typer

from ctc_align.errors import ConfigError, UsageError

if TYPE_CHECKING:
    from ctc_align.cli.messages import Talk
    from ctc_align.config import Settings
    from ctc_align.models.log_probs import Reader


def grouped(command: Callable[..., None]) -> Callable[..., None]:
    """Return the command with each parameter that is a dataclass replaced by that class's fields, in its place."""
    # Not get_type_hints: for what is None by default Python 3.10 puts Optional around the annotation.
    given = inspect.signature(command, eval_str=True).parameters
    hints = {name: parameter.annotation for name, parameter in given.items()}
    groups = {name: hint for name, hint in hints.items() if isinstance(hint, type) and dataclasses.is_dataclass(hint)}
    parameters = []
    for name, parameter in given.items():
        if name in groups:
            annotations = get_type_hints(groups[name], include_extras=True)
            options = {
                field.name: (field.default, annotations[field.name]) for field in dataclasses.fields(groups[name])
            }
        else:
            options = {name: (parameter.default, hints[name])}
        for option, (default, annotation) in options.items():
            parameters.append(inspect.Parameter(option, parameter.KEYWORD_ONLY, default=default, annotation=annotation))

    @functools.wraps(command)
    def called(**values: Any) -> None:
        objects = {
            name: group(**{field.name: values.pop(field.name) for field in dataclasses.fields(group)})
            for name, group in groups.items()
        }
        command(**values, **objects)

    called.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    called.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
    return called


Lexicon = Annotated[
    str | None,
    typer.Option(
        "--lexicon",
        metavar="FILE",
        help="Pronunciations in MFA dictionary format; used before the model's own.",
        show_default="in the model's folder",
    ),
]
Device = Annotated[str, typer.Option("--device", metavar="auto|cpu|cuda|cuda:N|mps", help="Device of the model.")]
Backend = Annotated[
    str,
    typer.Option(
        "--backend",
        metavar="auto|reference|cpu|gpu",
        help="Code that computes the alignment: cpu, gpu (CUDA), or the slow reference; auto: by --device.",
    ),
]
Formats = Annotated[
    str | None,
    typer.Option(
        "--format",
        metavar="LIST",
        help="Output formats, comma-separated, out of json, ctm, textgrid, srt, vtt, ass, lrc, tsv, csv, audacity, "
        "eaf, smil, html, labelstudio, whisper, png and svg.",
        show_default="json,ctm,textgrid",
    ),
]
Force = Annotated[bool, typer.Option("--force", help="Replace outputs that exist. Inputs are never replaced.")]
ConfigFile = Annotated[
    str | None,
    typer.Option(
        "--config", metavar="NAME|FILE.toml", help="Read settings from a file; options of the command line win."
    ),
]
Assignments = Annotated[
    list[str] | None,
    typer.Option(
        "--set",
        metavar="KEY=VALUE",
        help="Set one value of the settings file; may be repeated, and wins over --config.",
    ),
]
Language = Annotated[
    str | None,
    typer.Option(
        "--language",
        metavar="CODE",
        help="Language of the transcript (en, deu): how words and numbers are spoken; chooses the model where --model "
        "does not (english or universal), and the part of a multilingual one.",
        show_default="told by the text, else en",
    ),
]
Revision = Annotated[
    str | None,
    typer.Option("--revision", metavar="NAME", help="For hf:ORG/NAME: branch, tag or commit.", show_default="main"),
]
CacheDir = Annotated[str | None, typer.Option("--cache-dir", metavar="DIR", help="Folder for downloaded models.")]
SourceKind = Annotated[
    str | None,
    typer.Option(
        "--source",
        metavar="KIND",
        help="Kind of corpus: manifest, table, lhotse, kaldi, librispeech or mfa.",
        show_default="recognised",
    ),
]


def _as_option(fault: str, options: Iterable[str]) -> str:
    """Return a fault of a setting that an option gave with the name of the option: "--min-confidence: …"."""
    name, colon, rest = fault.partition(":")
    return f"--{name.replace('_', '-')}{colon}{rest}" if name in options else fault


def checked_language(language: str) -> str:
    """Return the code of a language, "" for none; raise UsageError for one that nothing knows."""
    from ctc_align.text.languages import known_language

    return known_language(language) if language else ""


@dataclass(frozen=True)
class ModelOptions:
    """The acoustic model, where it runs, and its pronunciations."""

    model: Annotated[
        str | None,
        typer.Option(
            "--model", metavar="NAME|PATH", help="Acoustic model; see ctc-align models.", show_default="by language"
        ),
    ] = None
    lexicon: Lexicon = None
    device: Device = "auto"
    backend: Backend = "auto"

    def name_for(self, log_probs: Reader | None) -> str | None:
        """Return the model's name, by default that of a choice by language; None where log-probs take its place."""
        return None if log_probs is not None else self.model or "auto"


@dataclass(frozen=True)
class TranscriptOptions:
    """Settings of how recordings and transcripts are read, and of models that are downloaded."""

    channel: Annotated[
        str | None,
        typer.Option(
            "--channel",
            metavar="mix|left|right|N",
            help="Channel of a recording with several, N from 1; mix is their average.",
            show_default="mix",
        ),
    ] = None
    language: Language = None
    romanize: Annotated[
        bool | None,
        typer.Option(
            "--romanize/--no-romanize",
            help="Spell words of any script in Latin letters, for models that know no other (extra [romanize]).",
            show_default="no-romanize",
        ),
    ] = None
    words_by: Annotated[
        str | None,
        typer.Option(
            "--words-by",
            metavar="auto|spaces|characters|dictionary",
            help="How words are separated; auto: by spaces, and in scripts without spaces each character is a word; "
            "dictionary: by one in Chinese, Japanese, Thai (extras [zh], [ja], [th]).",
            show_default="auto",
        ),
    ] = None
    unknown: Annotated[
        str | None,
        typer.Option(
            "--unknown",
            metavar="wildcard|skip|error",
            help="Letters that the model does not have: match any speech (for times only), leave out, or fail.",
            show_default="wildcard",
        ),
    ] = None
    match: Annotated[
        str | None,
        typer.Option(
            "--match",
            metavar="auto|exact|loose",
            help="auto: words that are not in the recording get no times; loose: nor do those that are hardly heard; "
            "exact: every word is there, and gets times.",
            show_default="auto",
        ),
    ] = None
    revision: Revision = None
    cache_dir: CacheDir = None


@dataclass(frozen=True)
class TimesOptions:
    """Settings of times, labels and edges, and of what is marked as doubtful."""

    times: Annotated[
        str | None,
        typer.Option(
            "--times",
            metavar="utterance|recording",
            help="Count times from the start of the utterance or of the recording.",
            show_default="utterance",
        ),
    ] = None
    labels: Annotated[
        str | None,
        typer.Option(
            "--labels",
            metavar="bare|written",
            help="Words in CTM and TextGrid without their outer punctuation, or as written.",
            show_default="bare",
        ),
    ] = None
    edges: Annotated[
        str | None,
        typer.Option(
            "--edges",
            metavar="auto|spikes|occupancy|calibrated|refined",
            help="Where words begin and end: at CTC's spikes, at medians over all paths (occupancy), or at either with "
            "the corrections of --calibration (calibrated, refined), and with networks that look at each edge "
            "(refined); auto: the best that the model has.",
            show_default="auto",
        ),
    ] = None
    calibration: Annotated[
        str | None,
        typer.Option(
            "--calibration",
            metavar="FILE|FOLDER",
            help="What ctc-align calibrate wrote: edges drawn as in the labels, and weights of confidence. A file has "
            "constants only.",
            show_default="in the model's folder",
        ),
    ] = None
    min_confidence: Annotated[
        float | None,
        typer.Option(
            "--min-confidence",
            metavar="0…1",
            help="Point out words of less confidence; exit 3 if there are any, or unexplained speech.",
            show_default="none are marked",
        ),
    ] = None
    max_skipped: Annotated[
        float | None,
        typer.Option(
            "--max-skipped",
            metavar="PERCENT",
            help="Exit 3 where more of the words that can be spoken are not in the recording.",
            show_default="no limit",
        ),
    ] = None


@dataclass(frozen=True)
class SubtitleOptions:
    """Settings of a subtitle file that is the transcript."""

    cues: Annotated[
        str | None,
        typer.Option(
            "--cues",
            metavar="keep|again",
            help="Of a subtitle file as TRANSCRIPT: keep its cues, with new times, or cut new ones.",
            show_default="keep",
        ),
    ] = None


@dataclass(frozen=True)
class CueOptions:
    """Settings of files that are written: cues of subtitles, and tiers."""

    max_line: Annotated[
        int | None,
        typer.Option(
            "--max-line", metavar="N", help="Columns of a line of subtitles that are cut anew.", show_default="42"
        ),
    ] = None
    max_cps: Annotated[
        float | None,
        typer.Option(
            "--max-cps",
            metavar="N",
            help="Columns a second at which new subtitles are read: shown so long where the speech allows it.",
            show_default="17",
        ),
    ] = None
    frame_rate: Annotated[
        float | None,
        typer.Option(
            "--frame-rate",
            metavar="FPS",
            help="Let cues begin and end on frames: 25, 23.976, 29.97 or any other rate.",
            show_default="milliseconds",
        ),
    ] = None
    highlight_words: Annotated[
        bool | None,
        typer.Option(
            "--highlight-words/--no-highlight-words",
            help="Underline each word of SRT as it is spoken; write the time of each word in VTT and LRC.",
            show_default="no-highlight-words",
        ),
    ] = None

    tiers: Annotated[
        str | None,
        typer.Option(
            "--tiers",
            metavar="LIST",
            help="Tiers of TextGrid, ELAN, CSV and Label Studio files, out of words, phones (or tokens), sentences and "
            "speakers.",
            show_default="words,phones",
        ),
    ] = None
    textgrid: Annotated[
        str | None,
        typer.Option("--textgrid", metavar="long|short", help="Text format of TextGrids.", show_default="long"),
    ] = None


@dataclass(frozen=True)
class ConfigOptions:
    """A settings file, and single settings."""

    config: ConfigFile = None
    assignments: Assignments = None

    def settings(
        self,
        *groups: TranscriptOptions | TimesOptions | SubtitleOptions | CueOptions,
        base: dict[str, Any] | None = None,
    ) -> Settings:
        """Return the settings of the file, then those of `--set`, then those of the option `groups`.

        `base` are values in the place of the defaults.

        Raises:
            ConfigError: no such file, or faults in any of them.
            UsageError: a language that nothing knows.
        """
        from ctc_align.config import load_settings

        options = {name: value for group in groups for name, value in vars(group).items()}
        try:
            settings = load_settings(self.config, self.assignments, base, **options)
        except ConfigError as error:
            raise ConfigError("\n".join(_as_option(line, options) for line in str(error).splitlines())) from error
        return dataclasses.replace(settings, language=checked_language(settings.language))


@dataclass(frozen=True)
class LogProbsOptions:
    """The vocabulary, frame shift and blank of log-probs that are given in place of audio."""

    vocab: Annotated[
        str | None,
        typer.Option(
            "--vocab",
            metavar="FILE",
            help="For log-probs: the vocabulary: a token a line in the classes' order, Kaldi 'token id', or JSON.",
        ),
    ] = None
    frame_shift: Annotated[
        float | None, typer.Option("--frame-shift", metavar="SECONDS", help="For log-probs: time from frame to frame.")
    ] = None
    blank: Annotated[
        str | None,
        typer.Option(
            "--blank", metavar="TOKEN|INDEX", help="For log-probs: the vocabulary's blank.", show_default="index 0"
        ),
    ] = None

    def reader_of_file(self, audio: str, model: str | None) -> Reader | None:
        """Return the reader of log-probs `audio`; None where it is sound.

        Raises:
            UsageError: sound with options of log-probs, or as `_reader`.
        """
        from ctc_align.models.log_probs import is_log_probs_path

        if is_log_probs_path(audio):
            return self._reader(audio, model)
        if self._names:
            kinds = ".npy, .npz, .pt, .safetensors, FILE.ark:OFFSET"
            raise UsageError(f"{' and '.join(self._names)}: only for log-probs ({kinds}), got {audio}")
        return None

    def reader_of_source(self, source: str, model: str | None) -> Reader | None:
        """Return the reader of a corpus of log-probs; None where none of these options is given.

        Raises:
            UsageError: as `_reader`.
        """
        return self._reader(source, model) if self._names else None

    @property
    def _names(self) -> list[str]:
        """The options that are given."""
        values = {"--vocab": self.vocab, "--frame-shift": self.frame_shift, "--blank": self.blank}
        return [option for option, value in values.items() if value is not None]

    def _reader(self, audio: str, model: str | None) -> Reader:
        """Return the reader; raise UsageError where an option is missing, or a model is given as well."""
        from ctc_align.models.log_probs import Reader

        if self.vocab is None or self.frame_shift is None:
            missing = " and ".join(option for option in ("--vocab", "--frame-shift") if option not in self._names)
            raise UsageError(f"{audio}: log-probs need {missing} too (--vocab FILE, --frame-shift SECONDS)")
        if model is not None:
            raise UsageError(f"{audio}: log-probs come out of a model already; leave --model {model} away")
        return Reader(self.vocab, self.frame_shift, self.blank)


@dataclass(frozen=True)
class MessageOptions:
    """How much is said on stderr."""

    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Print nothing but errors.")] = False
    verbose: Annotated[bool, typer.Option("--verbose", "-v", help="Print more, and where an error came from.")] = False

    def talk(self) -> Talk:
        """Return what writes a command's messages to stderr."""
        from ctc_align.cli.messages import Talk

        return Talk(quiet=self.quiet, verbose=self.verbose)
