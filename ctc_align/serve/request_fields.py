"""The forms of requests.

They become settings, transcripts, formats and jobs; files are paired by name.
"""

from __future__ import annotations

import dataclasses
import json
import posixpath
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial, reduce
from pathlib import PurePath
from typing import Any

from ctc_align.config import Settings, checked_values, known_settings
from ctc_align.errors import UsageError
from ctc_align.files import FORMATS, rendered
from ctc_align.models.acoustic_model import family_of
from ctc_align.serve.access import RefusedError, refusal_of
from ctc_align.serve.jobs import ServerJob, ServerLimits, too_long
from ctc_align.serve.uploads import MOST_NAME, Form, checked_content
from ctc_align.sources.transcribed_folders import folder_of
from ctc_align.text.characters import DIRECTION_MARKS, printable
from ctc_align.text.cue_styles import merged, styled_levels
from ctc_align.types import Alignment, Transcript

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
    "transcript": (
        "the transcript as a file, instead of `text`: plain text, SRT, VTT, TextGrid, ELAN, JSON or"
        " EPUB"
    ),
}
MOST_PAIRED = 20_000
"""Names of files that are paired at once."""
MODEL_SETTINGS = ("language",)
"""Settings that some models use when they are loaded."""


@dataclass(frozen=True)
class FormShape:
    """The form of an address.

    Attributes:
        kind: of its jobs, as in `ServerJob`.
        formats: the formats of its answers; the first is the default.
        objects: those formats that only this address has, and the functions that make their JSON
            object.
        names: of parts that `PARTS` or `FIELDS` call differently; "" for a part that this form
            lacks.
    """

    kind: str
    formats: tuple[str, ...]
    objects: Mapping[str, Callable[[Alignment], dict[str, Any]]] = field(default_factory=dict)
    names: Mapping[str, str] = field(default_factory=dict)

    def name(self, part: str) -> str:
        """Return the name of a part in this form."""
        return self.names.get(part, part)

    @property
    def files(self) -> dict[str, str]:
        """The names of the parts that are files, and their keys in `Form.files`."""
        return {self.name(part): part for part in PARTS}

    def described(self, parts: Mapping[str, str]) -> dict[str, str]:
        """Return `PARTS` or `FIELDS` with the names of this form."""
        return {self.name(part): text for part, text in parts.items() if self.name(part)}


def _timed_words(alignment: Alignment, *, verbose: bool = False) -> dict[str, Any]:
    """Return the words with times, in seconds, and apart from them the others, with the reason.

    With `verbose`, add the confidences, the loss, and the segments of the format `whisper`.
    """
    data = alignment.to_dict()
    words: list[dict[str, Any]] = []
    untimed: list[dict[str, Any]] = []
    for word in data["words"]:
        if word["start_s"] is None:
            untimed.append({"word": word["text"], "status": word["status"]})
        else:
            if verbose:
                sure = {"confidence": word["confidence"]}
            else:
                sure = {}
            words.append(
                {"word": word["text"], "start": word["start_s"], "end": word["end_s"], **sure}
            )
    answer = {
        "task": "align",
        "language": data["config"].get("language", ""),
        "duration": data["duration_s"],
        **{name: data[name] for name in ("model", "text", "fit")},
        "words": words,
        "untimed_words": untimed,
    }
    if not verbose:
        return answer
    segments = json.loads(rendered(alignment, "whisper"))["segments"]
    return {
        **answer,
        "segments": segments,
        "loss": data["loss"],
        "loss_per_token": data["loss_per_token"],
    }


ALIGN = FormShape("align", tuple(name for name, format in FORMATS.items() if format.is_served))
SCORE = FormShape("score", ("json",), names={"format": ""})
OTHERS_ALIGN = FormShape(
    "align",
    ("json", "verbose_json", "srt", "vtt"),
    {"json": _timed_words, "verbose_json": partial(_timed_words, verbose=True)},
    {"audio": "file", "format": "response_format"},
)
"""The form of other servers' `POST /v1/audio/alignments`."""


def checked_format(value: str, shape: FormShape = ALIGN) -> str:
    """Return the name of a format.

    Raises:
        RefusedError: 400, there is no such format.
    """
    name = value.strip().casefold()
    if name not in shape.formats:
        expected = f"{shape.name('format')}: expected one of {', '.join(shape.formats)}"
        raise RefusedError(400, f"{expected}; got {printable(value)[:40]!r}")
    return name


def check_fields(form: Form, shape: FormShape) -> None:
    """Raise RefusedError if a part has an unknown name, or a field occurs twice."""
    known = {*SETTINGS, *shape.described(FIELDS)}
    for name, values in form.fields.items():
        if name not in known:
            parts = ", ".join([*shape.described(PARTS), *sorted(known)])
            raise RefusedError(400, f"{printable(name)[:40]!r}: no such part; there are {parts}")
        if len(values) > 1 and not (name == "text" and shape is SCORE):
            raise RefusedError(400, f"{name}: expected one value, got {len(values)}")


def settings_again(config: Mapping[str, Any], base: Settings, model: str) -> Settings:
    """Return the server's settings with those of an alignment's `config` that a request may have.

    Raises:
        ConfigError: values are invalid for their settings.
        RefusedError: 400, the language differs from the one at the server's start, and the model
            depends on it.
    """
    values = known_settings(
        {name: value for name, value in config.items() if name in SETTINGS}, "config."
    )
    _check_model_settings(values, base, model)
    return dataclasses.replace(base, **values)


def settings_of(form: Form, base: Settings, model: str) -> Settings:
    """Return the server's settings with those of a request.

    Raises:
        RefusedError: 400, all faults in one message; 422, no such language.
    """
    from ctc_align.text.languages import known_languages

    given = {
        name: form.fields[name][0].strip()
        for name in SETTINGS
        if form.fields.get(name, [""])[0].strip()
    }
    faults: list[str] = []
    values = checked_values(
        Settings, {name: _as_setting(name, text) for name, text in given.items()}, "", faults
    )
    if faults:
        raise RefusedError(400, "; ".join(faults))
    if "language" in values:
        try:
            values["language"] = known_languages(values["language"], "language")
        except UsageError as error:
            raise RefusedError(422, str(error)) from error
    _check_model_settings(values, base, model)
    levels = styled_levels([base.to_dict(), values])
    return Settings(**reduce(merged, levels))


def _check_model_settings(values: Mapping[str, Any], base: Settings, model: str) -> None:
    changed = [
        name for name in MODEL_SETTINGS if name in values and values[name] != getattr(base, name)
    ]
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
        if isinstance(default, (int, float)):
            return type(default)(text)
        return text
    except ValueError:
        return text


def made_job(
    shape: FormShape, form: Form, base: Settings, model: str, limits: ServerLimits
) -> ServerJob:
    """Return the job of a form.

    The recording's kind and length, its transcripts, settings and names are checked before.

    Raises:
        RefusedError: the worker could not process it.
    """
    from ctc_align.audio.loading import open_recording

    check_fields(form, shape)
    if "audio" not in form.files:
        part = shape.name("audio")
        raise RefusedError(400, f"{part}: expected a recording; with curl: -F {part}=@FILE")
    wanted = form.fields.get("model", [model])[0].strip() or model
    if wanted != model:
        raise RefusedError(
            422, f"model: this server has {model}, got {printable(wanted)[:80]!r}; see /models"
        )
    settings = settings_of(form, base, model)
    try:
        texts = _transcripts(shape.kind, form, limits, settings.encoding)
        with open_recording(str(form.files["audio"].path)) as recording:
            duration_s = recording.header_s()
    except Exception as error:
        raise refusal_of(error, form.names) from error
    audio = form.files["audio"].filename
    if duration_s is not None and duration_s > limits.audio_s:
        raise too_long(audio, limits.audio_s, duration_s)
    name = form.fields.get("utterance", [""])[0].strip() or PurePath(audio).stem
    return ServerJob(
        shape.kind,
        printable(name, keep=DIRECTION_MARKS)[:MOST_NAME] or "audio",
        form,
        duration_s,
        texts,
        settings,
    )


def _transcripts(
    kind: str, form: Form, limits: ServerLimits, encoding: str
) -> Sequence[Transcript]:
    from ctc_align.files.transcripts import parse_transcript, require_text

    texts = [Transcript(text) for text in form.fields.get("text", [])]
    if "transcript" in form.files:
        upload = form.files["transcript"]
        texts.append(parse_transcript(checked_content(upload), upload.filename, encoding))
    if not texts:
        raise RefusedError(
            400, "text: expected a transcript: a field `text`, or a file `transcript`"
        )
    if len(texts) > 1 and kind == "align":
        raise RefusedError(
            400, "a transcript is given twice, as `text` and as `transcript`; give one of them"
        )
    for text in texts:
        if len(text.text) > limits.text_chars:
            raise RefusedError(
                413,
                f"expected a transcript of at most {limits.text_chars} characters, got"
                f" {len(text.text)}",
            )
        if kind == "align":
            require_text(
                text.text,
                "text" if "transcript" not in form.files else form.files["transcript"].filename,
            )
    return texts


def paired(data: Mapping[str, Any]) -> dict[str, Any]:
    """Return recordings and transcripts in pairs, and those without a partner.

    `data["names"]` are paths with `/`; they pair as a corpus folder has them, and what has no
    partner comes with the reason.

    >>> paired({"names": ["a/x.wav", "a/x.srt", "a/y.mp3"]})["pairs"]
    [{'name': 'x', 'audio': 'a/x.wav', 'transcript': 'a/x.srt'}]

    Raises:
        RefusedError: 400, these are not names, or too many.
    """
    names = data.get("names")
    if (
        not isinstance(names, list)
        or len(names) > MOST_PAIRED
        or not all(isinstance(name, str) for name in names)
    ):
        raise RefusedError(400, f'expected "names", a list of at most {MOST_PAIRED} file names')
    folders: dict[str, list[str]] = {}
    for name in dict.fromkeys(names):
        folders.setdefault(posixpath.dirname(name), []).append(posixpath.basename(name))
    pairs, alone = [], []
    for below, files in sorted(folders.items()):
        folder = folder_of(below, below, sorted(file for file in files if not file.startswith(".")))
        kinds = (folder.texts, folder.grids, folder.subtitles, folder.elan, folder.books)
        for stem in sorted({*folder.sounds}.union(*kinds)):
            sounds = folder.sounds.get(stem, [])
            texts = [file for kind in kinds for file in kind.get(stem, [])]
            if sounds and texts:
                audio, transcript = (posixpath.join(below, of[0]) for of in (sounds, texts))
                pairs.append(
                    {
                        "name": printable(stem, keep=DIRECTION_MARKS),
                        "audio": audio,
                        "transcript": transcript,
                    }
                )
            reasons = dict.fromkeys(
                sounds[1:], f"{sounds[0] if sounds else ''} has the same name: rename one of them"
            )
            if sounds and not texts:
                reasons[sounds[0]] = (
                    f"no transcript: add {stem}.txt, .lab, .srt, .vtt, .TextGrid, .eaf or .epub, or"
                    " type it"
                )
            if texts and not sounds:
                reasons |= dict.fromkeys(
                    texts, f"no recording: add {stem}.wav (or in another format), or rename one"
                )
            for file, reason in reasons.items():
                kind = "audio" if file in sounds else "transcript"
                alone.append(
                    {"file": posixpath.join(below, file), "kind": kind, "reason": printable(reason)}
                )
    return {"pairs": pairs, "alone": alone}
