"""The fields of requests, and their conversion to settings, transcripts, formats and jobs."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from pathlib import PurePath
from typing import Any

from ctc_align.config import Settings, checked_values, known_settings
from ctc_align.errors import ConfigError
from ctc_align.files import FORMATS
from ctc_align.models.acoustic_model import family_of
from ctc_align.serve.access import RefusedError, refusal_of
from ctc_align.serve.jobs import ServerJob, ServerLimits, too_long
from ctc_align.serve.uploads import MOST_NAME, Form
from ctc_align.text.characters import printable
from ctc_align.types import Transcript

SETTINGS = {field.name: field for field in dataclasses.fields(Settings) if field.metadata["api"]}
"""Settings that a request may have: none that names a file, or affects the loading of the model."""
FIELDS = {
    "text": "the text of the transcript, UTF-8; for /score it may be repeated",
    "format": "format of the response; for /align",
    "utterance": "name of the recording in the outputs; by default the name of the file",
    "model": "must be the model that the server has loaded",
}
PARTS = {
    "audio": "the recording or video, a file in any format that `ctc-align` reads",
    "transcript": "the transcript as a file, instead of `text`: plain text, SRT, VTT, TextGrid, ELAN, JSON or EPUB",
}
MODEL_SETTINGS = ("language",)
"""Settings that some models use when they are loaded."""


def served_formats() -> tuple[str, ...]:
    """Return the formats of answers."""
    return tuple(name for name, format in FORMATS.items() if format.is_served)


def checked_format(value: str) -> str:
    """Return the name of a format.

    Raises:
        RefusedError: 400, there is no such format.
    """
    name = value.strip().casefold()
    if name not in served_formats():
        raise RefusedError(400, f"format: expected one of {', '.join(served_formats())}; got {printable(value)[:40]!r}")
    return name


def check_fields(form: Form, kind: str) -> None:
    """Raise RefusedError if a part has an unknown name, or a field occurs twice."""
    known = {*SETTINGS, *FIELDS} - ({"format"} if kind == "score" else set())
    for name, values in form.fields.items():
        if name not in known:
            parts = ", ".join([*PARTS, *sorted(known)])
            raise RefusedError(400, f"{printable(name)[:40]!r}: no such part; there are {parts}")
        if len(values) > 1 and not (name == "text" and kind == "score"):
            raise RefusedError(400, f"{name}: expected one value, got {len(values)}")


def settings_again(config: Mapping[str, Any], base: Settings, model: str) -> Settings:
    """Return the server's settings with those of an alignment's `config` that a request may have.

    Raises:
        ConfigError: values are invalid for their settings.
        RefusedError: 400, the language differs from the one at the server's start, and the model depends on it.
    """
    values = known_settings({name: value for name, value in config.items() if name in SETTINGS}, "config.")
    _check_model_settings(values, base, model)
    return dataclasses.replace(base, **values)


def settings_of(form: Form, base: Settings, model: str) -> Settings:
    """Return the server's settings with those of a request.

    Raises:
        RefusedError: 400, all faults in one message.
    """
    from ctc_align.text.languages import known_language

    given = {name: form.fields[name][0].strip() for name in SETTINGS if form.fields.get(name, [""])[0].strip()}
    faults: list[str] = []
    values = checked_values(Settings, {name: _as_setting(name, text) for name, text in given.items()}, "", faults)
    if faults:
        raise RefusedError(400, "; ".join(faults))
    if "language" in values:
        try:
            values["language"] = known_language(values["language"])
        except ConfigError as error:
            raise refusal_of(error) from error
    _check_model_settings(values, base, model)
    return dataclasses.replace(base, **values)


def _check_model_settings(values: Mapping[str, Any], base: Settings, model: str) -> None:
    changed = [name for name in MODEL_SETTINGS if name in values and values[name] != getattr(base, name)]
    family = family_of(model)
    if changed and family is not None and family.reads_language:
        loaded = f"the model {model} was loaded with {getattr(base, changed[0])!r}"
        raise RefusedError(400, f"{changed[0]}: {loaded}, and a request cannot change it")


def _as_setting(name: str, text: str) -> Any:
    """Return the text of a field as its setting's type; unchanged if it is not of that type."""
    default = getattr(Settings(), name)
    if isinstance(default, bool):
        return {"true": True, "false": False}.get(text.casefold(), text)
    try:
        return type(default)(text) if isinstance(default, (int, float)) else text
    except ValueError:
        return text


def made_job(kind: str, form: Form, base: Settings, model: str, limits: ServerLimits) -> ServerJob:
    """Return the job of a form, after checking the recording's kind and length, its transcripts, settings and names.

    Raises:
        RefusedError: the worker could not process it.
    """
    from ctc_align.audio.loading import open_recording

    check_fields(form, kind)
    if "audio" not in form.files:
        raise RefusedError(400, "audio: expected a recording; with curl: -F audio=@FILE")
    wanted = form.fields.get("model", [model])[0].strip() or model
    if wanted != model:
        raise RefusedError(400, f"model: this server has {model}, got {printable(wanted)[:80]!r}; see /models")
    settings = settings_of(form, base, model)
    try:
        texts = _transcripts(kind, form, limits)
        with open_recording(str(form.files["audio"].path)) as recording:
            duration_s = recording.header_s()
    except Exception as error:
        raise refusal_of(error, form.names) from error
    audio = form.files["audio"].filename
    if duration_s is not None and duration_s > limits.audio_s:
        raise too_long(audio, limits.audio_s, duration_s)
    name = form.fields.get("utterance", [""])[0].strip() or PurePath(audio).stem
    return ServerJob(kind, printable(name)[:MOST_NAME] or "audio", form, duration_s, texts, settings)


def _transcripts(kind: str, form: Form, limits: ServerLimits) -> Sequence[Transcript]:
    from ctc_align.files.transcripts import parse_transcript, require_text
    from ctc_align.reading import read_input

    texts = [Transcript(text) for text in form.fields.get("text", [])]
    if "transcript" in form.files:
        upload = form.files["transcript"]
        texts.append(parse_transcript(read_input(upload.path, factor=8), upload.filename))
    if not texts:
        raise RefusedError(400, "text: expected a transcript: a field `text`, or a file `transcript`")
    if len(texts) > 1 and kind == "align":
        raise RefusedError(400, "a transcript is given twice, as `text` and as `transcript`; give one of them")
    for text in texts:
        if len(text.text) > limits.text_chars:
            raise RefusedError(
                413, f"expected a transcript of at most {limits.text_chars} characters, got {len(text.text)}"
            )
        if kind == "align":
            require_text(text.text, "text" if "transcript" not in form.files else form.files["transcript"].filename)
    return texts
