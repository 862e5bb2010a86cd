"""Settings as frozen dataclasses, read from TOML; all faults are reported at once, and the command line wins.

A setting is a field of a frozen dataclass; `setting(default, choices=…, above=…, within=…)` limits its values.
`load_config` fills any such dataclass from a file: `Settings` for alignment, recipes for training.
"""

from __future__ import annotations

import dataclasses
import difflib
import math
import os
import re
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar, get_origin, get_type_hints

from ctc_align.errors import ConfigError
from ctc_align.reading.input_files import MOST_NUMBER, open_input, parse_toml, shown

Config = TypeVar("Config")

ENGLISH = "en"
"""Default language of transcripts."""
UNKNOWN_LANGUAGE = "und"
"""No language: letters stay letters, digits stay digits."""
_TIER = "(words|tokens|phones|sentences|speakers)"
_MOST_BYTES = 2**20
_LONGEST_NAME = 100
_KINDS: dict[type, str] = {str: "a text", int: "a whole number", float: "a number", bool: "true or false"}


def setting(
    default: Any,
    *,
    choices: Iterable[Any] = (),
    above: float | None = None,
    within: tuple[float, float] | None = None,
    may_be_empty: bool = False,
    pattern: tuple[str, str] | None = None,
) -> Any:
    """Return a dataclass field whose value is one of `choices`, greater than `above`, or `within` two numbers, both
    included. A text must not be empty unless `may_be_empty`; `pattern` is a regular expression for all of it, and its
    meaning in words."""
    metadata = {
        "choices": tuple(choices),
        "above": above,
        "within": within,
        "may_be_empty": may_be_empty,
        "pattern": pattern,
    }
    return dataclasses.field(default=default, metadata=metadata)


@dataclass(frozen=True)
class Settings:
    """The settings of an alignment. Names of seconds end in `_s`.

    >>> Settings().to_dict()["chunk_s"]
    60.0
    """

    channel: str = setting("mix", pattern=("mix|left|right|[1-9][0-9]{0,4}", "mix, left, right or a number from 1"))
    """Channel of recordings with several: "left", "right" or a number from 1, as a text; "mix" averages all but what
    the file names as the one for low-frequency effects. What a corpus says of a channel goes before it."""
    times: str = setting("utterance", choices=("utterance", "recording"))
    """Times count from the start of the utterance, or of the recording."""
    labels: str = setting("bare", choices=("bare", "written"))
    """Words in CTM and TextGrid without their outer punctuation, or as written."""
    cues: str = setting("keep", choices=("keep", "again"))
    """Subtitles as transcript: "keep" their cues in SRT and VTT, or cut them "again"."""
    max_line: int = setting(42, within=(8, 1000))
    """Columns of a line of subtitles that are cut anew."""
    max_cps: float = setting(17.0, within=(1.0, 1000.0))
    """Columns a second at which they are read: they are shown so long where the speech allows it."""
    frame_rate: float = setting(0.0, within=(0.0, 1000.0))
    """Frames a second on which cues of subtitles begin and end; 0: milliseconds."""
    highlight_words: bool = setting(False)
    """SRT shows each word lit while it is spoken, WebVTT and LRC hold the time of each word."""
    tiers: str = setting(
        "",
        pattern=(
            rf"(?i:\s*|\s*{_TIER}\s*(,\s*{_TIER}\s*)*)",
            "a list out of words, tokens (or phones), sentences and speakers",
        ),
    )
    """Tiers of TextGrid and ELAN files and of the tables of CSV and Label Studio, comma-separated; "" is the format's
    own list."""
    textgrid: str = setting("long", choices=("long", "short"))
    """Praat's text format in which TextGrids are written."""
    chunk_s: float = setting(60.0, above=0.0)
    """Length of the pieces of long audio that go through the model; results of our own models do not depend on it."""
    context_s: float = setting(5.0, above=0.0)
    """Context of a piece on either side, for models that attend to the whole utterance (wav2vec 2.0 …)."""
    band_s: float = setting(1.0, above=0.0)
    """Largest distance of a word edge from its place on the CTC path."""
    shortest_pause_s: float = setting(0.04, above=0.0)
    """A shorter gap between two words goes to the sounds around it. Between two phones the limit is up to 2.25 times
    as long, or half as long: see `ctc_align.alignment.edges`."""
    edges: str = setting("auto", choices=("auto", "spikes", "occupancy", "calibrated", "refined"))
    """How edges are placed: see `ctc_align.alignment.edges`; "auto" is the best way that the model has."""
    calibration: str = setting("", may_be_empty=True)
    """A folder that `ctc-align calibrate` wrote, or the file with constants in it alone; "": the model's own folder."""
    min_confidence: float = setting(0.0, within=(0.0, 1.0))
    """Words of less confidence are marked as doubtful; 0 marks none."""
    max_skipped: float = setting(100.0, within=(0.0, 100.0))
    """Percent of the words that may be missing in the recording; where more are, a command's exit code says so."""
    language: str = setting("", may_be_empty=True)
    """Language of the transcript, for numbers and abbreviations, and of models that have a part for each language; ""
    is the language in the model's folder, else English."""
    romanize: bool = setting(False)
    """Spell words of any script in Latin letters (by uroman), for models that know no other (MMS_FA)."""
    words_by: str = setting("auto", choices=("auto", "spaces", "characters", "dictionary"))
    """Words are separated by "spaces", or each of the "characters" is a word; "auto": by spaces, and in scripts without
    spaces by characters; "dictionary": as "auto", but Chinese, Japanese and Thai have the words of a dictionary."""
    unknown: str = setting("wildcard", choices=("wildcard", "skip", "error"))
    """Letters that the vocabulary lacks match any speech while times are found ("wildcard"), are left out ("skip"), or
    fail the utterance ("error"). Loss and score are those of the letters that the vocabulary has."""
    match: str = setting("auto", choices=("auto", "exact", "loose"))
    """How the transcript is looked for in the recording: "exact" gives every word times whatever it sounds like; with
    "auto" words that are not there have none; with "loose" a word that is hardly heard is left out, too."""
    precision: str = setting("auto", choices=("auto", "float32", "float16", "bfloat16"))
    """Precision of the network; "auto" is float32, but float16 for others' models on CUDA. Log-probs are float32. With
    "bfloat16" the network of the project's own models takes half the time, where the processor computes in it."""
    revision: str = setting("main")
    """Branch, tag or commit of a model on the Hugging Face hub."""
    cache_dir: str = setting("", may_be_empty=True)
    """Folder for downloaded models; "" is their library's own."""

    @property
    def channel_number(self) -> int | None:
        """The channel, from 1; None where all are mixed.

        >>> Settings(channel="right").channel_number, Settings().channel_number
        (2, None)
        """
        return {"mix": None, "left": 1, "right": 2}.get(self.channel) or (
            int(self.channel) if self.channel.isdigit() else None
        )

    def for_language(self, models: str = "") -> Settings:
        """Return the settings with their language, else the model's (`models`), else English.

        >>> Settings(language="de").for_language("fr").language, Settings().for_language("fr").language
        ('de', 'fr')
        """
        return self if self.language else dataclasses.replace(self, language=models or ENGLISH)

    def in_language(self, language: str) -> Settings:
        """Return the settings for a transcript that has a language of its own; "" for none."""
        return dataclasses.replace(self, language=language) if language else self

    def to_dict(self) -> dict[str, Any]:
        """Return names and values, as the JSON output shows them."""
        return dataclasses.asdict(self)


def load_settings(
    source: str | os.PathLike[str] | None = None,
    assignments: Iterable[str] | None = None,
    base: dict[str, Any] | None = None,
    **overrides: Any,
) -> Settings:
    """Return the settings of a TOML file or of a name in the package's `configs`; overrides that are None are ignored.

    `base` are values in the place of the defaults, checked by `known_settings`.

    >>> load_settings("default", ["chunk_s=30"], labels="written", times=None).labels
    'written'

    Raises:
        ConfigError: no such file or name, not TOML, or faults in it, in the assignments or in the overrides, all of
            them in one message.
    """
    return load_config(Settings, source, overrides, assignments, base)


def known_settings(values: dict[str, Any], where: str) -> dict[str, Any]:
    """Return the values, of an alignment's `config`, of the settings that there are; later versions may know others.

    >>> known_settings({"edges": "spikes", "later": 1}, "")
    {'edges': 'spikes'}

    Raises:
        ConfigError: values that no setting can have, each after `where`.
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
    """Return an instance of the dataclass `kind`: its defaults, the file's values, assignments, then the overrides.

    Args:
        base: values in the place of the defaults.
        assignments: `key=value` each; the value as in TOML or a bare text, keys of tables after a dot:
            `training.epochs=3`.

    Raises:
        ConfigError: as `load_settings`.
    """
    faults: list[str] = []
    read: dict[str, Any] = {}
    if source is not None:
        path = find_config(source)
        read = read_toml(path)
        checked_values(kind, read, f"{path}: ", faults)
    assigned = _assigned(kind, assignments or (), faults)
    checked_values(kind, assigned, "--set ", faults)
    overridden = {key: value for key, value in overrides.items() if value is not None}
    checked_values(kind, overridden, "", faults)
    values = checked_values(kind, merged(merged(merged(base or {}, read), assigned), overridden), "", [])
    if faults:
        raise ConfigError("\n".join(faults))
    return kind(**values)


def _assigned(kind: Any, assignments: Iterable[str], faults: list[str]) -> dict[str, Any]:
    """Return the tables of a TOML file made of `key=value` lines; of two with the same key the last counts."""
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
        kind = get_type_hints(kind).get(name) if dataclasses.is_dataclass(kind) else None
    return kind


def _value(text: str, wanted: Any) -> Any:
    """Return a TOML value; anything else is a text, and so is a bare number where a text is expected."""
    try:
        value = parse_toml(f"value = {text}")["value"]
    except (ValueError, KeyError):
        return text
    return text if wanted is str and not isinstance(value, str) else value


def merged(base: dict[str, Any], over: dict[str, Any]) -> dict[str, Any]:
    """Return `base` updated with `over`, table by table."""
    tables = dict(base)
    for key, value in over.items():
        inner = tables.get(key)
        tables[key] = merged(inner, value) if isinstance(inner, dict) and isinstance(value, dict) else value
    return tables


def find_config(source: str | os.PathLike[str]) -> Path:
    """Return the file of a path or of a name in the package's `configs`; a name comes before a file without .toml.

    Raises:
        ConfigError: neither.
    """
    text = os.fspath(source)
    if not text.endswith(".toml") and os.path.basename(text) == text:
        names = config_names()
        if text in names:
            return _configs_folder() / f"{text}.toml"
        if not os.path.exists(text):
            raise ConfigError(f"config {text!r}: no such file, and no such name{_near(text, names)}")
    if not os.path.isfile(text):
        exists = os.path.exists(text)
        problem = "got a folder" if os.path.isdir(text) else "got a pipe or a device" if exists else "no such file"
        raise ConfigError(f"config {text}: expected a TOML file, {problem}")
    return Path(text)


def config_names() -> list[str]:
    """Return the names that `--config NAME` finds inside the package."""
    return sorted(path.stem for path in _configs_folder().glob("*.toml"))


def _configs_folder() -> Path:
    """Return the folder beside this file (installed) or beside the package (in a checkout)."""
    here = Path(__file__).resolve().parent
    return here / "configs" if (here / "configs").is_dir() else here.parent / "configs"


def read_toml(path: Path) -> dict[str, Any]:
    """Return the tables of a TOML file.

    Raises:
        ConfigError: not readable, not UTF-8, not TOML.
    """
    try:
        with open_input(path) as file:
            data = file.read(_MOST_BYTES + 1)
        if len(data) > _MOST_BYTES:
            raise ConfigError(f"{path}: expected settings, got a file of more than {_MOST_BYTES >> 20} MiB")
        return parse_toml(data.decode("utf-8-sig"))
    except UnicodeDecodeError as error:
        raise ConfigError(f"{path}: expected UTF-8, got byte 0x{error.object[error.start]:02x}") from None
    except ValueError as error:
        raise ConfigError(f"{path}: expected TOML (key = value): {error}") from None
    except OSError as error:
        raise ConfigError(f"{path}: cannot be read: {error.strerror}") from None


def checked_values(kind: Any, values: dict[str, Any], where: str, faults: list[str], table: str = "") -> dict[str, Any]:
    """Return the valid values in their field's type; append a line to `faults` for each other one."""
    fields = {field.name: field for field in dataclasses.fields(kind)}
    types = get_type_hints(kind)
    valid = {}
    for key, value in values.items():
        if key not in fields:
            faults.append(f"{where}unknown setting {shown(table + key)}{_near(key, list(fields))}")
            continue
        wanted = types[key]
        if dataclasses.is_dataclass(wanted) and isinstance(value, dict):
            inner: Any = wanted
            valid[key] = dataclasses.replace(inner(), **checked_values(inner, value, where, faults, f"{table}{key}."))
            continue
        if get_origin(wanted) is tuple and isinstance(value, list):
            valid[key] = _tuples(value)
            continue
        if wanted is float and type(value) is int and abs(value) <= MOST_NUMBER:
            value = float(value)
        expected = _expected(fields[key], wanted, value)
        if expected:
            faults.append(
                f"{where}{table}{key}: expected {expected}, got {shown(value)}{_near(value, _choices(fields[key]), '')}"
            )
        else:
            valid[key] = value
    return valid


def _tuples(value: Any) -> Any:
    """Return lists, and lists in them, as tuples: frozen settings hold no lists."""
    return tuple(_tuples(part) for part in value) if isinstance(value, list) else value


def _expected(field: dataclasses.Field[Any], wanted: Any, value: Any) -> str:
    """Return a description of the valid values, or "" where `value` is one."""
    choices, above, within = _choices(field), field.metadata.get("above"), field.metadata.get("within")
    pattern = field.metadata.get("pattern")
    if pattern:
        return "" if isinstance(value, str) and re.fullmatch(pattern[0], value) else pattern[1]
    if choices:
        return "" if value in choices and type(value) is wanted else " or ".join(repr(choice) for choice in choices)
    if wanted not in _KINDS:
        return "a table" if dataclasses.is_dataclass(wanted) else "a list"
    if wanted in _KINDS:
        empty = value == "" and not field.metadata.get("may_be_empty")
        wrong = type(value) is not wanted or (wanted is float and not math.isfinite(value)) or empty
        wrong = wrong or (wanted is int and abs(value) > MOST_NUMBER)
        if wrong or (above is not None and not value > above) or (within and not within[0] <= value <= within[1]):
            least = f" above {above:g}" if above is not None else ""
            return _KINDS[wanted] + least + (f" from {within[0]:g} to {within[1]:g}" if within else "")
    return ""


def _choices(field: dataclasses.Field[Any]) -> tuple[Any, ...]:
    return tuple(field.metadata.get("choices", ()))


def _near(value: Any, names: Iterable[Any], otherwise: str | None = None) -> str:
    """Return a did-you-mean, or a list of the known names."""
    known = [str(name) for name in names]
    text = value if isinstance(value, str) else shown(value)
    near = difflib.get_close_matches(text[:_LONGEST_NAME].lower().replace("-", "_"), known, n=1, cutoff=0.6)
    if near:
        return f": did you mean {near[0]!r}?"
    return f": there is {', '.join(known)}" if otherwise is None else otherwise
