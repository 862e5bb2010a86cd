"""Settings as frozen dataclasses, read from TOML.

All faults are reported at once. The command line overrides files.

A setting is a field of a frozen dataclass; `setting(default, choices=…, above=…, within=…)` limits
its values. `load_config` fills any such dataclass from a file: `Settings` for alignment, recipes
for training.
"""

from __future__ import annotations

import dataclasses
import difflib
import functools
import json
import math
import os
import re
import textwrap
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar, get_origin, get_type_hints

from ctc_align.errors import ConfigError
from ctc_align.reading import MOST_NUMBER, open_input, parse_toml, shown
from ctc_align.text.cue_styles import STYLES, merged, styled_levels, with_style
from ctc_align.types import FITS, SoundChoice

Config = TypeVar("Config")

ENGLISH = "en"
"""Default language of transcripts."""
DEFAULT = "default"
"""The name of the default settings, without a file."""
UNKNOWN_LANGUAGE = "und"
"""No language: letters stay letters, digits stay digits."""
_TIER = "(words|tokens|phones|syllables|sentences|speakers|languages|gop)"
_MOST_BYTES = 2**20
_LONGEST_NAME = 100
_KINDS: dict[type, str] = {
    str: "a text",
    int: "a whole number",
    float: "a number",
    bool: "true or false",
}


def setting(
    default: Any,
    help: str = "",
    *,
    more: str = "",
    choices: Iterable[Any] = (),
    above: float | None = None,
    within: tuple[float, float] | None = None,
    may_be_empty: bool = False,
    pattern: tuple[str, str] | None = None,
    commands: Iterable[str] = (),
    option: str = "",
    metavar: str = "",
    shown: str = "",
    panel: str = "",
    api: bool = False,
) -> Any:
    """Return a dataclass field with all that is known about a setting or an option.

    Args:
        default: the value if no other is given.
        help: one or two sentences, for `--help`, the HTTP API, the file and the page of all
            settings.
        more: further sentences, for the last two.
        choices: the valid values; () for any.
        above: a number is greater than this.
        within: a number lies between these two, both included, or is the default.
        may_be_empty: whether "" is valid.
        pattern: a regular expression that matches the whole text, and its meaning in words.
        commands: the commands that have an option for the setting.
        option: the names of the option, such as "--out-dir -o"; "" for the field's name after two
            hyphens.
        metavar: the value in `--help`; "" for the choices.
        shown: the default in `--help`; "" for the value itself.
        panel: the heading under which `--help` lists the option; "" for that of its group.
        api: whether a request to `ctc-align serve` can have the setting.
    """
    metadata = {**locals(), "choices": tuple(choices), "commands": tuple(commands)}
    return dataclasses.field(default=metadata.pop("default"), metadata=metadata)


EVERYDAY = "Options"
READING = "Recording and transcript"
TIMES = "Times and confidence"
SUBTITLES = "Subtitles and tiers"
MACHINE = "Model and machine"
LOG_PROBS = "Log-probs and models of other projects"
"""Headings of `--help` for settings; `ctc_align.cli.options` has all headings in order."""
_ALIGN = ("align", "corpus", "realign")
_WRITE = (*_ALIGN, "convert")
_TIME = (*_ALIGN, "serve")
_READ = (*_TIME, "score")
_TEXT = (*_READ, "check")
_TEXT_FILES = ("align", "corpus", "score", "serve", "check", "calibrate")
"""The commands that align to files, that write files, that find times, that read transcripts, that
read words, and that read files of transcripts."""
_reading = functools.partial(setting, panel=READING, commands=_READ, api=True)
_timing = functools.partial(setting, panel=TIMES, commands=_TIME)
_layout = functools.partial(setting, panel=SUBTITLES, commands=_WRITE, api=True)
_downloads = functools.partial(setting, panel=MACHINE, commands=(*_READ, "models"))
"""Settings that several fields share: their heading, their commands, and whether a request can have
them."""


def _expands_style(kind: type[Config]) -> type[Config]:
    """Return a class of settings that takes the limits of a style with which it is called."""
    without_limits = kind.__init__

    @functools.wraps(without_limits)
    def init(self: Any, *args: Any, **given: Any) -> None:
        without_limits(self, *args, **with_style(given, given.get("frame_rate")))

    kind.__init__ = init  # type: ignore[method-assign]
    return kind


@_expands_style
@dataclass(frozen=True)
class Settings:
    """The settings of an alignment. Names of seconds end in `_s`.

    A setting is declared here alone: its option, its field in HTTP requests, its line in TOML and
    its row in the documentation are made from the field.

    The limits of `style` are those of the settings that are not given beside it.

    >>> Settings().to_dict()["chunk_s"]
    60.0
    >>> Settings(style="netflix", max_line=40).max_cps, Settings(style="netflix", max_line=40).max_line
    (20.0, 40)
    """

    channel: str = _reading(
        "mix",
        "Channel of a recording with several channels, N from 1; mix is their average.",
        more=(
            'In a file the number is a string: "3". The average leaves out the channel for'
            " low-frequency effects. A channel in a corpus overrides this setting."
        ),
        pattern=("mix|left|right|[1-9][0-9]{0,4}", "mix, left, right or a number from 1"),
        metavar="mix|left|right|N",
    )
    track: str = _reading(
        "",
        "Audio track of a recording with several: N from 1, its language (de, German) or its"
        " title.",
        more=(
            '"" means the track in the language of the transcript, otherwise the one that the file'
            " marks as default."
        ),
        pattern=(
            r"|[1-9][0-9]{0,3}|[A-Za-z][A-Za-z0-9_ .,'()&-]*",
            "a number from 1, a language or a title",
        ),
        metavar="N|LANGUAGE|TITLE",
        shown="that of the transcript's language, else the file's default",
    )
    times: str = setting(
        "utterance",
        "Count times from the start of the utterance or of the recording.",
        choices=("utterance", "recording"),
        panel=TIMES,
        commands=(*_TIME, "convert"),
    )
    labels: str = setting(
        "bare",
        "Write words without their outer punctuation (bare), or as written. For CTM, TextGrid, ELAN,"
        " TSV, CSV, Audacity and Label Studio.",
        choices=("bare", "written"),
        panel=TIMES,
        commands=(*_TIME, "convert"),
        api=True,
    )
    cues: str = setting(
        "keep",
        "If the transcript is a subtitle file: keep its cues with new times, or make new cues.",
        choices=("keep", "again"),
        panel=SUBTITLES,
        commands=(*_TIME, "convert"),
        api=True,
    )
    max_line: int = _layout(
        42,
        "Maximum line length of new cues, in columns.",
        more="A cue has at most two lines.",
        within=(8, 1000),
        metavar="N",
    )
    max_cps: float = _layout(
        17.0,
        "Maximum reading speed of new cues, in columns per second; cues stay up long enough for it"
        " if the speech allows.",
        within=(1.0, 1000.0),
        metavar="N",
    )
    style: str = _layout(
        "",
        "Limits for new cues from the guide of Netflix, the BBC or the EBU; other options override them.",
        more="Sets those of max_line, max_cps, min_gap_s, min_duration_s, max_duration_s and"
        " close_gaps_s that the guide has. Cues that break them are listed.",
        pattern=("|" + "|".join(STYLES), "netflix, bbc or ebu"),
        metavar="|".join(STYLES),
        shown="none",
    )
    min_gap_s: float = _layout(
        0.08,
        "Shortest gap between new cues.",
        within=(0.0, 10.0),
        option="--min-gap",
        metavar="SECONDS",
    )
    min_duration_s: float = _layout(
        0.8,
        "Shortest time for which a new cue is shown, if the speech allows.",
        within=(0.0, 60.0),
        option="--min-duration",
        metavar="SECONDS",
    )
    max_duration_s: float = _layout(
        7.0,
        "Longest time for which a new cue is shown.",
        within=(0.5, 3600.0),
        option="--max-duration",
        metavar="SECONDS",
    )
    close_gaps_s: float = _layout(
        0.0,
        "Show a new cue until --min-gap before the next if the pause between them is shorter than"
        " this.",
        within=(0.0, 10.0),
        option="--close-gaps",
        metavar="SECONDS",
        shown="gaps are kept",
    )
    frame_rate: float = _layout(
        0.0,
        "Let cues begin and end on video frames at this rate: 25, 23.976, 29.97 or any other.",
        more="0: milliseconds.",
        within=(1.0, 1000.0),
        metavar="FPS",
        shown="milliseconds",
    )
    highlight_words: bool = _layout(
        False,
        "Underline each word of SRT as it is spoken; write the time of each word in VTT and LRC.",
    )
    highlight_at: str = _layout(
        "auto",
        "Where a highlighted word begins: at its first sound, or at its first vowel, the beat of a"
        " song. auto: vowel in LRC and ASS, sound in SRT and VTT. Other formats are unaffected.",
        more="Tokens must be phones. Words without a vowel, and words fixed by hand, begin at their start.",
        choices=("auto", "sound", "vowel"),
    )
    tiers: str = _layout(
        "",
        "Tiers of TextGrid, ELAN, CSV and Label Studio files: any of words, phones (or tokens),"
        " syllables, sentences, speakers, languages and gop.",
        more=(
            'Comma-separated; "" means the default list of each format. With syllables, JSON has'
            " them, too; gop rates the pronunciation, as --gop does."
        ),
        pattern=(
            rf"(?i:\s*|\s*{_TIER}\s*(,\s*{_TIER}\s*)*)",
            "a list of words, tokens (or phones), syllables, sentences, speakers, languages and gop",
        ),
        metavar="LIST",
        shown="words,phones; Label Studio: words",
    )
    textgrid: str = setting(
        "long",
        "Text format of TextGrids.",
        choices=("long", "short"),
        panel=SUBTITLES,
        commands=_WRITE,
    )
    chunk_s: float = setting(
        60.0,
        "Length of the chunks in which long audio goes through the model, in seconds.",
        more="Results of this project's models do not depend on it.",
        above=0.0,
    )
    context_s: float = setting(
        5.0,
        "Context of a chunk on either side, in seconds, for models that attend to the whole"
        " utterance (wav2vec 2.0 and similar).",
        more="Audio that is no longer than chunk_s goes through in one chunk.",
        above=0.0,
    )
    band_s: float = setting(
        1.0, "Largest distance of a word edge from its CTC spike, in seconds.", above=0.0
    )
    shortest_pause_s: float = setting(
        0.04,
        "Shortest pause, in seconds. A shorter gap between two words belongs to the sounds"
        " around it.",
        more=(
            "Beside plosives, and before vowels that begin with a closure, the limit is up to 2.25"
            " times as long; between other phones it is half as long."
        ),
        above=0.0,
    )
    edges: str = _timing(
        "auto",
        "How word edges are placed. spikes: at CTC's spikes; occupancy: at the medians over all"
        " paths; calibrated: spikes or medians, corrected by --calibration; refined: calibrated,"
        " then adjusted by networks; auto: the best that the model supports.",
        choices=("auto", "spikes", "occupancy", "calibrated", "refined"),
        api=True,
    )
    convention: str = _timing(
        "whole",
        "Where words begin and end. whole: they include the glottal closure before an initial vowel"
        " and the release of a final stop; glottal-out, release-out, both-out: without the first,"
        " the second or both.",
        more="For models with an edge network, such as the package's.",
        choices=("whole", "glottal-out", "release-out", "both-out"),
        api=True,
    )
    calibration: str = _timing(
        "",
        "Output of ctc-align calibrate: edge corrections learnt from labels, and confidence"
        " weights. A FILE holds only the constants.",
        may_be_empty=True,
        metavar="FILE|FOLDER",
        shown="the one in the model's folder",
    )
    min_confidence: float = _timing(
        0.0,
        "Mark words below this confidence; exit 3 if there are any, or if there is speech that the"
        " text does not explain.",
        within=(0.0, 1.0),
        metavar="0…1",
        shown="none are marked",
        api=True,
    )
    gop: bool = _timing(
        False,
        "Rate the pronunciation of each phone: by how many nats it is likelier than its best rival,"
        " and which sound was heard.",
        more=(
            "The model english also gives the percentile among native speakers. Takes about as"
            " long as the rest of the alignment."
        ),
        api=True,
    )
    max_skipped: float = _timing(
        100.0,
        "Exit 3 if more than this percentage of the pronounceable words are missing from the"
        " recording.",
        within=(0.0, 100.0),
        metavar="PERCENT",
        shown="no limit",
    )
    min_fit: str = _timing(
        "auto",
        "Exit 3 if the fit of the text and the recording is worse than this; all outputs are"
        " written. none: no limit. auto: poor for a single recording, none for a corpus.",
        more="An alignment without a fit passes.",
        choices=("auto", *FITS),
        metavar="|".join(("auto", *FITS)),
        shown="auto",
    )
    separator: str = _reading(
        "",
        "The token between words in the vocabulary of log-probs or of another project's model.",
        panel=LOG_PROBS,
        more=(
            'A token, or its index. "" finds |, ▁, a space, <space> and <wb>; of several, what the'
            " model emits."
        ),
        may_be_empty=True,
        metavar="TOKEN",
        shown="recognised by its name",
    )
    silence: str = _reading(
        "",
        "The token for silence (pau, SIL) in that vocabulary. No word contains it, and it may occur"
        " anywhere.",
        panel=LOG_PROBS,
        more=(
            "A token, or its index. Its probability counts as the blank's, so that loss and score"
            ' are of the words alone. "" finds <sil>, <pau> and similar names in brackets; among'
            " ARPAbet or IPA sil, sp and pau too."
        ),
        may_be_empty=True,
        metavar="TOKEN",
        shown="recognised by its name",
    )
    language: str = setting(
        "",
        "Language of the transcript (en, deu), or several (en,de). Decides how words and numbers are read, which"
        " built-in model is used unless --model is given, and the language in which a multilingual"
        " model is used.",
        more=(
            '"" means the language that the model was trained for, otherwise "en". Of several'
            " languages, the sound decides which one each word is in; the first one divides the"
            " text into words."
        ),
        may_be_empty=True,
        metavar="CODE",
        shown="detected in the text, else en",
        panel=EVERYDAY,
        commands=(*_TEXT, "models"),
        api=True,
    )
    encoding: str = setting(
        "",
        "Encoding of transcripts that are not UTF-8: cp1254, shift_jis, gb18030, utf-16 and"
        " others.",
        more=(
            "A byte order mark is obeyed, and text that is UTF-8 is read as such, whatever the"
            " setting is. Without a setting, a message says which encoding any other text looks"
            " like."
        ),
        pattern=(r"|[A-Za-z][A-Za-z0-9_.:-]{0,39}", "the name of an encoding"),
        panel=READING,
        commands=_TEXT_FILES,
        metavar="NAME",
        shown="UTF-8, or as the byte order mark says",
        api=True,
    )
    phones: str = setting(
        "auto",
        "Labels of English phones: those of the model, ARPAbet (OY) or IPA (ɔɪ).",
        choices=("auto", "arpabet", "ipa"),
        panel=SUBTITLES,
        commands=(*_TIME, "convert"),
        api=True,
        metavar="arpabet|ipa",
        shown="the model's",
    )
    stress: bool = setting(
        False,
        "Keep the stress marks of a dictionary (--lexicon) in the labels of vowels: OY1, or ˈɔɪ"
        " with IPA.",
        panel=SUBTITLES,
        commands=_TIME,
        api=True,
    )
    romanize: bool = setting(
        False,
        "Spell words of any script in Latin letters, for models that know only Latin letters (extra"
        " [romanize]).",
        panel=READING,
        commands=_TEXT,
    )
    words_by: str = setting(
        "auto",
        "How words are separated. auto: by spaces; in scripts without spaces, each character is a"
        " word. dictionary: by a dictionary, for Chinese, Japanese and Thai (extras [zh], [ja],"
        " [th]).",
        more=(
            '"spaces" is for text from a segmenter, "characters" makes each character a word in'
            ' every script. In other languages "dictionary" is the same as "auto".'
        ),
        choices=("auto", "spaces", "characters", "dictionary"),
        panel=READING,
        commands=_TEXT,
        api=True,
    )
    unknown: str = _reading(
        "wildcard",
        "What to do with letters that the model lacks: let them match any speech (for times only),"
        " skip them, or fail.",
        more="Loss and score cover only the letters that the vocabulary has.",
        choices=("wildcard", "skip", "error"),
    )
    match: str = _reading(
        "auto",
        "How to treat words that are missing from the recording. auto: give them no times; loose:"
        " give none to barely audible words either; exact: assume that every word was spoken, and"
        " time all of them.",
        choices=("auto", "exact", "loose"),
    )
    precision: str = setting(
        "auto",
        "Precision of the network; auto is float32, but float16 for others' models on CUDA.",
        more=(
            "Log-probs are float32. With bfloat16 the networks of this project take half the time,"
            " if the processor supports it."
        ),
        choices=("auto", "float32", "float16", "bfloat16"),
    )
    revision: str = _downloads(
        "main",
        "For hf:ORG/NAME: branch, tag or commit.",
        metavar="NAME",
    )
    cache_dir: str = _downloads(
        "",
        "Folder for downloaded models.",
        more='"" means the default of the library that downloads them.',
        may_be_empty=True,
        metavar="DIR",
    )

    @property
    def rates_pronunciation(self) -> bool:
        """True if goodness of pronunciation is asked for, by itself or as a tier."""
        return self.gop or "gop" in self.tiers.casefold()

    def sound_choice(self, language: str = "") -> SoundChoice:
        """Return the channel and the audio track to read for a transcript in a language.

        The language is "" if it is unknown.
        """
        return SoundChoice(self.channel_number, self.track, language)

    @property
    def channel_number(self) -> int | None:
        """The channel, from 1; None if all are mixed.

        >>> Settings(channel="right").channel_number, Settings().channel_number
        (2, None)
        """
        return {"mix": None, "left": 1, "right": 2}.get(self.channel) or (
            int(self.channel) if self.channel.isdigit() else None
        )

    def for_language(self, default: str = "") -> Settings:
        """Return the settings with a language.

        It is their own, otherwise `default` (the model's), otherwise English.

        >>> Settings(language="de").for_language("fr").language, Settings().for_language("fr").language
        ('de', 'fr')
        """
        if self.language:
            return self
        return dataclasses.replace(self, language=default or ENGLISH)

    def in_language(self, language: str) -> Settings:
        """Return the settings for a transcript that names its language; "" if it does not."""
        if language:
            return dataclasses.replace(self, language=language)
        return self

    def to_dict(self) -> dict[str, Any]:
        """Return names and values, as the JSON output shows them."""
        return dataclasses.asdict(self)


def load_settings(
    source: str | os.PathLike[str] | None = None,
    assignments: Iterable[str] | None = None,
    base: dict[str, Any] | None = None,
    **overrides: Any,
) -> Settings:
    """Return the settings of a TOML file or of a name in the package's `configs`.

    Overrides that are None are ignored.

    `base` replaces defaults; `known_settings` has checked it.

    >>> load_settings("default", ["chunk_s=30"], labels="written", times=None).labels
    'written'

    Raises:
        ConfigError: there is no such file or name, it is not TOML, or there are faults in it, in
            the assignments or in the overrides; the message lists all faults.
    """
    return load_config(Settings, source, overrides, assignments, base)


def known_settings(values: dict[str, Any], where: str) -> dict[str, Any]:
    """Return the values of an alignment's `config` that are settings of this version.

    Later versions may have others.

    >>> known_settings({"edges": "spikes", "later": 1}, "")
    {'edges': 'spikes'}

    Raises:
        ConfigError: values are invalid for their settings; each is named after `where`.
    """
    faults: list[str] = []
    names = {field.name for field in dataclasses.fields(Settings)}
    known = {key: value for key, value in values.items() if key in names}
    valid = checked_values(Settings, known, where, faults)
    if faults:
        raise ConfigError("\n".join(faults))
    return valid


def load_config(
    kind: type[Config],
    source: str | os.PathLike[str] | None,
    overrides: dict[str, Any],
    assignments: Iterable[str] | None = None,
    base: dict[str, Any] | None = None,
) -> Config:
    """Return an instance of the dataclass `kind`.

    Its defaults are overridden by the file's values, then by assignments, then by the
    overrides.

    Args:
        base: values that replace defaults.
        assignments: `key=value` each; the value as in TOML or a bare text, keys of tables after a
            dot: `training.epochs=3`.

    Raises:
        ConfigError: as `load_settings`.
    """
    faults: list[str] = []
    read: dict[str, Any] = {}
    if source is not None and os.fspath(source) != DEFAULT:
        path = find_config(source)
        read = read_toml(path)
        checked_values(kind, read, f"{path}: ", faults)
    assigned = _assigned(kind, assignments or (), faults)
    checked_values(kind, assigned, "--set ", faults)
    overridden = {key: value for key, value in overrides.items() if value is not None}
    checked_values(kind, overridden, "", faults)
    levels = [base or {}, read, assigned, overridden]
    if kind is Settings:
        levels = styled_levels(levels)
    values = checked_values(kind, functools.reduce(merged, levels), "", [])
    if faults:
        raise ConfigError("\n".join(faults))
    return kind(**values)


def _assigned(kind: Any, assignments: Iterable[str], faults: list[str]) -> dict[str, Any]:
    """Return the tables of a TOML file made from `key=value` lines.

    If a key occurs again, the last line counts.
    """
    tables: dict[str, Any] = {}
    for assignment in assignments:
        key, equals, text = assignment.partition("=")
        names = [name.strip() for name in key.split(".")]
        if not equals or not all(names):
            faults.append(f"--set: expected KEY=VALUE, got {shown(assignment)}")
            continue
        table = tables
        for name in names[:-1]:
            inner = table.setdefault(name, {})
            table = inner if isinstance(inner, dict) else table
        table[names[-1]] = _value(text.strip(), _type_of(kind, names))
    return tables


def _type_of(kind: Any, names: list[str]) -> Any:
    for name in names:
        if dataclasses.is_dataclass(kind):
            kind = get_type_hints(kind).get(name)
        else:
            kind = None
    return kind


def _value(text: str, wanted: Any) -> Any:
    """Return a TOML value.

    Anything else is a text, and so is a bare number where a text is expected.
    """
    try:
        value = parse_toml(f"value = {text}")["value"]
    except (ValueError, KeyError):
        return text
    if wanted is str and not isinstance(value, str):
        return text
    return value


def settings_toml() -> str:
    """Return a TOML file of all settings with their defaults.

    Each stands below its meaning and its values.
    """
    parts = [
        "# The default settings. Copy this file, change what you need, and give it with --config;"
        " settings that a\n# file leaves out keep the values below, and the command line overrides"
        " both."
    ]
    types = get_type_hints(Settings)
    for field in dataclasses.fields(Settings):
        about = f"{field.metadata['help']} {field.metadata['more']}".rstrip()
        allowed = allowed_values(field, types[field.name])
        about += f" Takes {allowed}." if allowed != _KINDS[str] else ""
        lines = textwrap.wrap(about, 118, break_on_hyphens=False)
        default = json.dumps(field.default, ensure_ascii=False)
        parts.append("\n".join([*(f"# {line}" for line in lines), f"{field.name} = {default}"]))
    return "\n\n".join(parts) + "\n"


def find_config(source: str | os.PathLike[str]) -> Path:
    """Return the file of a path or of a name in the package's `configs`.

    A name comes before a file without .toml.

    Raises:
        ConfigError: there is neither such a file nor such a name.
    """
    text = os.fspath(source)
    if not text.endswith(".toml") and os.path.basename(text) == text:
        names = config_names()
        if text in names:
            return _configs_folder() / f"{text}.toml"
        if not os.path.exists(text):
            raise ConfigError(
                f"config {text!r}: no such file, and no such name{_near(text, names)}"
            )
    if not os.path.isfile(text):
        exists = os.path.exists(text)
        if os.path.isdir(text):
            problem = "got a folder"
        elif exists:
            problem = "got a pipe or a device"
        else:
            problem = "no such file"
        raise ConfigError(f"config {text}: expected a TOML file, {problem}")
    return Path(text)


def config_names() -> list[str]:
    """Return the names that `--config NAME` finds inside the package."""
    return sorted([DEFAULT, *(path.stem for path in _configs_folder().glob("*.toml"))])


def _configs_folder() -> Path:
    """Return the folder beside this file (installed) or beside the package (in a checkout)."""
    here = Path(__file__).resolve().parent
    if (here / "configs").is_dir():
        return here / "configs"
    return here.parent / "configs"


def read_toml(path: Path) -> dict[str, Any]:
    """Return the tables of a TOML file.

    Raises:
        ConfigError: the file is not readable, not UTF-8 or not TOML.
    """
    try:
        with open_input(path) as file:
            data = file.read(_MOST_BYTES + 1)
        if len(data) > _MOST_BYTES:
            raise ConfigError(
                f"{path}: expected settings, got a file of more than {_MOST_BYTES >> 20} MiB"
            )
        return parse_toml(data.decode("utf-8-sig"))
    except UnicodeDecodeError as error:
        raise ConfigError(
            f"{path}: expected UTF-8, got byte 0x{error.object[error.start]:02x}"
        ) from None
    except ValueError as error:
        raise ConfigError(f"{path}: expected TOML (key = value): {error}") from None
    except OSError as error:
        raise ConfigError(f"{path}: cannot be read: {error.strerror}") from None


def checked_values(
    kind: Any, values: dict[str, Any], where: str, faults: list[str], table: str = ""
) -> dict[str, Any]:
    """Return the valid values in their field's type; append a line to `faults` for each other one.

    Fields of the class whose metadata say that `is_setting` is False are not settings.
    """
    fields = {
        field.name: field
        for field in dataclasses.fields(kind)
        if field.metadata.get("is_setting", True)
    }
    types = get_type_hints(kind)
    valid = {}
    for key, value in values.items():
        if key not in fields:
            faults.append(f"{where}unknown setting {shown(table + key)}{_near(key, list(fields))}")
            continue
        wanted = types[key]
        if dataclasses.is_dataclass(wanted) and isinstance(value, dict):
            inner: Any = wanted
            valid[key] = dataclasses.replace(
                inner(), **checked_values(inner, value, where, faults, f"{table}{key}.")
            )
            continue
        if get_origin(wanted) is tuple and isinstance(value, list):
            valid[key] = _tuples(value)
            continue
        if wanted is float and type(value) is int and abs(value) <= MOST_NUMBER:
            value = float(value)
        if _is_allowed(fields[key], wanted, value):
            valid[key] = value
            continue
        expected = allowed_values(fields[key], wanted)
        near = _near(value, _choices(fields[key]), "")
        faults.append(f"{where}{table}{key}: expected {expected}, got {shown(value)}{near}")
    return valid


def _tuples(value: Any) -> Any:
    """Return lists, and lists in them, as tuples: frozen settings hold no lists."""
    if isinstance(value, list):
        return tuple(_tuples(part) for part in value)
    return value


def allowed_values(field: dataclasses.Field[Any], wanted: Any) -> str:
    """Return the valid values of a field of the type `wanted`, in words for messages.

    An example is "a number above 0".
    """
    choices = _choices(field)
    above = field.metadata.get("above")
    within = field.metadata.get("within")
    if field.metadata.get("pattern"):
        return str(field.metadata["pattern"][1])
    if choices:
        return f"{', '.join(map(repr, choices[:-1]))} or {choices[-1]!r}"
    if wanted not in _KINDS:
        if dataclasses.is_dataclass(wanted):
            return "a table"
        return "a list"
    least = f" above {above:g}" if above is not None else ""
    if within is None or within[0] <= field.default <= within[1]:
        default = ""
    else:
        default = f", or {field.default:g}"
    return (
        _KINDS[wanted]
        + least
        + (f" from {within[0]:g} to {within[1]:g}{default}" if within else "")
    )


def _is_allowed(field: dataclasses.Field[Any], wanted: Any, value: Any) -> bool:
    choices = _choices(field)
    above = field.metadata.get("above")
    within = field.metadata.get("within")
    pattern = field.metadata.get("pattern")
    if pattern:
        return isinstance(value, str) and re.fullmatch(pattern[0], value) is not None
    if wanted not in _KINDS or type(value) is not wanted:
        return False
    if choices:
        return value in choices
    if isinstance(value, str):
        return value != "" or bool(field.metadata.get("may_be_empty"))
    if wanted is float:
        finite = math.isfinite(value)
    else:
        finite = abs(value) <= MOST_NUMBER
    return (
        finite
        and (above is None or value > above)
        and (within is None or within[0] <= value <= within[1] or value == field.default)
    )


def _choices(field: dataclasses.Field[Any]) -> tuple[Any, ...]:
    return tuple(field.metadata.get("choices", ()))


def _near(value: Any, names: Iterable[Any], otherwise: str | None = None) -> str:
    """Return a did-you-mean, or a list of the known names."""
    known = [str(name) for name in names]
    text = value if isinstance(value, str) else shown(value)
    near = difflib.get_close_matches(
        text[:_LONGEST_NAME].lower().replace("-", "_"), known, n=1, cutoff=0.6
    )
    if near:
        return f": did you mean {near[0]!r}?"
    if otherwise is None:
        return f": expected one of {', '.join(known)}"
    return otherwise
