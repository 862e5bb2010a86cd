"""The description of the API.

It is OpenAPI for programs, and for people a page without external requests.
"""

from __future__ import annotations

import dataclasses
import json
import re
from collections.abc import Iterable
from html import escape
from typing import Any

from ctc_align._version import __version__
from ctc_align.files import FORMATS, json_schema
from ctc_align.serve.request_fields import (
    ALIGN,
    FIELDS,
    OTHERS_ALIGN,
    PARTS,
    SCORE,
    SETTINGS,
    FormShape,
)
from ctc_align.serve.uploads import FIELD_CHARS

_REFUSALS = {
    "400": "a part is missing, unknown or has a wrong value",
    "401": "a token is needed",
    "403": "a page of another site asks for a change",
    "404": "nothing has this name",
    "408": "the recording, or the JSON, did not arrive in time",
    "409": (
        "a conflict: the job is not done, or was cancelled; or the corrections belong to another"
        " alignment"
    ),
    "412": "it was changed since it had the tag in If-Match",
    "413": "too large, or too long",
    "415": "not a form",
    "421": "a Host header that is not this server's",
    "422": "the recording, the transcript, its language, the model or the alignment cannot be used",
    "503": (
        "the queue or the server is full (Retry-After: when to try again), it is stopping, or its"
        " folder is gone or read-only"
    ),
    "507": "no space is left where the server keeps its files",
}
_FORM_REFUSALS = ("400", "401", "403", "408", "413", "415", "422", "503", "507")
_JSON = "application/json"
_ALIGNMENT = "an alignment in the requested format"
_WORDS = (
    "json: `words` with `word`, `start`, `end` (seconds), `untimed_words` with `status`, and `fit`;"
    " verbose_json: also `segments`, `loss` and confidences; srt, vtt: subtitles"
)


def _media_types(formats: Iterable[str]) -> tuple[str, ...]:
    """Return the media types of formats, without their parameters; JSON first."""
    return tuple(
        dict.fromkeys(
            [
                _JSON,
                *(FORMATS[name].media_type.split(";")[0] for name in formats if name in FORMATS),
            ]
        )
    )


_FORMAT = {
    "name": "format",
    "in": "query",
    "description": "format of the response; json by default",
    "schema": {"type": "string", "enum": list(ALIGN.formats)},
}
_ALIGNED = _media_types(ALIGN.formats)
_CORRECTION = {"$ref": "#/components/schemas/Alignment"}

_WORD = {"type": "object", "properties": {"index": {"type": "integer"}, "was": {}, "is": {}}}
_CHANGES = {
    "type": "object",
    "properties": {"checked": {"type": "boolean"}, "words": {"type": "array", "items": _WORD}},
}
_NAMES = {"type": "object", "properties": {"names": {"type": "array", "items": {"type": "string"}}}}


def _alignment_schema() -> dict[str, Any]:
    """Return the schema of format ctc-align/1 with references that begin at the description."""
    schema = json.dumps(json_schema()).replace('"#/$defs/', f'"{_CORRECTION["$ref"]}/$defs/')
    return {
        key: value for key, value in json.loads(schema).items() if key not in ("$schema", "$id")
    }


def api_description() -> dict[str, Any]:
    """Return the description of all addresses as an object of OpenAPI 3.1."""
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "ctc-align",
            "version": __version__,
            "description": (
                "Aligns speech with its transcript, and scores transcripts, with the loaded model."
            ),
        },
        "paths": {
            "/align": {
                "post": _form("Align a recording and return the alignment", ALIGN, _ALIGNMENT)
            },
            "/score": {
                "post": _form(
                    "Score transcripts of a recording, best first", SCORE, "their figures, ranked"
                )
            },
            "/v1/audio/alignments": {
                "post": _form("Align, with the names of other servers", OTHERS_ALIGN, _WORDS)
            },
            "/models": {
                "get": _operation("The loaded model, the formats and the limits", "the model")
            },
            "/health": {
                "get": _operation(
                    "Whether the server works, and how busy it is; needs no token", "it works"
                )
            },
            **_job_paths(),
            **_folder_paths(),
            "/": {"get": _operation("The app", "a page", "text/html")},
            "/docs": {"get": _operation("This description for people", "a page", "text/html")},
            "/openapi.json": {"get": _operation("This description", "an OpenAPI document")},
        },
        "components": {
            "securitySchemes": {"token": {"type": "http", "scheme": "bearer"}},
            "schemas": {
                "Error": {
                    "type": "object",
                    "required": ["error"],
                    "properties": {
                        "error": {"type": "string", "description": "what is wrong, on one line"}
                    },
                },
                "Alignment": _alignment_schema(),
            },
        },
        "security": [{}, {"token": []}],
    }


def _job_paths() -> dict[str, Any]:
    made = _form(
        "Start a job that aligns a recording", ALIGN, "the job, at once: id, state and place", "202"
    )
    one = [_path_parameter("id", "of the job")]
    kept = (
        "Put the result and the recording into the folder",
        "the id there",
        _JSON,
        ("403", "404", "409", "503"),
    )
    return {
        "/jobs": {"post": made, "get": _operation("All stored jobs", "the jobs")},
        "/jobs/{id}": {
            "parameters": one,
            "get": _operation(
                "State, step, progress and position in the queue (from 1)",
                "the job",
                refusals=("404",),
            ),
            "delete": _operation(
                "Cancel, and remove recording and result", "the job's state", refusals=("404",)
            ),
        },
        **_alignment_paths(
            [f"/jobs/{{id}}/{part}" for part in ("alignment", "realign", "page", "audio")],
            one,
            ("The result", "Replace the result by a corrected one"),
            ("409",),
        ),
        "/jobs/{id}/keep": {"parameters": one, "post": _operation(*kept, statuses=("201",))},
    }


def _folder_paths() -> dict[str, Any]:
    summaries = (
        "An alignment of the folder",
        "Save a corrected alignment; the first version is kept as NAME.before.json",
    )
    listed = (
        "Figures of all alignments of the folder, worst first",
        "the rows, and the number of files left out",
    )
    return {
        "/api/alignments": {"get": _operation(*listed, refusals=("503",))},
        **_alignment_paths(
            [f"/{part}/{{id}}" for part in ("api/alignments", "api/realign", "view", "api/audio")],
            [_path_parameter("id", "path below the folder without .json; may contain /")],
            summaries,
            ("503",),
        ),
        "/api/words": {
            "get": _operation(
                "Words to check in recordings that nobody has checked",
                "the words",
                refusals=("503",),
            )
        },
        "/api/pairs": {
            "post": _taking(
                "Pair the names of files, recordings with transcripts",
                _NAMES,
                "the pairs, and the rest",
            )
        },
    }


def _alignment_paths(
    paths: list[str],
    one: list[dict[str, Any]],
    summaries: tuple[str, str],
    more: tuple[str, ...] = (),
) -> dict[str, Any]:
    """Return what the addresses of an alignment take.

    These are itself, aligning again, its page, and its recording.

    `summaries` are of reading and of replacing it; `more` are refusals that its source adds.
    """
    alignment, realign, page, audio = paths
    again = "Align a corrected alignment again between the hand-corrected words, without saving it"
    made = "the new alignment, its times from the start of the utterance"
    heard = "The recording, with byte ranges", "the file", "audio/*"
    refusals = ("404", "422", *more)
    operations = {
        alignment: {
            "get": _operation(
                summaries[0], _ALIGNMENT, _ALIGNED, refusals=("400", *refusals), more=[_FORMAT]
            ),
            "put": _taking(summaries[1], _CORRECTION),
            "patch": _taking(
                "Sign off as checked, or mend words: each with its index, as it was and as it is",
                _CHANGES,
            ),
        },
        realign: {"post": _taking(again, _CORRECTION, made)},
        page: {"get": _operation("View, listen and correct", "a page", "text/html", refusals)},
        audio: {"get": _operation(*heard, refusals, statuses=("200", "206"))},
    }
    return {path: {"parameters": one, **described} for path, described in operations.items()}


def _path_parameter(name: str, description: str) -> dict[str, Any]:
    return {
        "name": name,
        "in": "path",
        "required": True,
        "description": description,
        "schema": {"type": "string"},
    }


def _operation(
    summary: str,
    answer: str,
    media_types: str | Iterable[str] = _JSON,
    refusals: tuple[str, ...] = (),
    more: list[dict[str, Any]] | None = None,
    statuses: tuple[str, ...] = ("200",),
) -> dict[str, Any]:
    given = [media_types] if isinstance(media_types, str) else media_types
    error = {_JSON: {"schema": {"$ref": "#/components/schemas/Error"}}}
    success = {"description": answer, "content": {kind: {} for kind in given}}
    responses: dict[str, Any] = dict.fromkeys(statuses, success)
    for status in sorted({"401", "421", *refusals}):
        responses[status] = {"description": _REFUSALS[status], "content": error}
    return {"summary": summary, "responses": responses, **({"parameters": more} if more else {})}


def _taking(summary: str, schema: dict[str, Any], answer: str = "what was saved") -> dict[str, Any]:
    refusals = ("400", "403", "404", "408", "409", "412", "413", "422", "503")
    body = {"required": True, "content": {_JSON: {"schema": schema}}}
    return {**_operation(summary, answer, refusals=refusals), "requestBody": body}


def _form(summary: str, shape: FormShape, answer: str, status: str = "200") -> dict[str, Any]:
    parts: dict[str, Any] = {
        name: {"type": "string", "format": "binary", "description": text}
        for name, text in shape.described(PARTS).items()
    }
    fields = shape.described(FIELDS).items()
    parts |= {
        name: {"type": "string", "maxLength": FIELD_CHARS, "description": text}
        for name, text in fields
    }
    parts |= {name: _setting(field) for name, field in SETTINGS.items()}
    text: dict[str, Any] = {"type": "string", "pattern": r"\S"}
    parts["text"] = {**text, "description": FIELDS["text"]}
    if shape is SCORE:
        parts["text"] = {
            "type": "array",
            "items": text,
            "minItems": 1,
            "description": FIELDS["text"],
        }
    else:
        parts[shape.name("format")] |= {"enum": list(shape.formats), "default": shape.formats[0]}
    schema = {
        "type": "object",
        "required": [shape.name("audio")],
        "anyOf" if shape is SCORE else "oneOf": [
            {"required": ["text"]},
            {"required": ["transcript"]},
        ],
        "properties": parts,
        "additionalProperties": False,
    }
    body = {"required": True, "content": {"multipart/form-data": {"schema": schema}}}
    given = _JSON if shape is SCORE or status == "202" else _media_types(shape.formats)
    return {
        **_operation(summary, answer, given, _FORM_REFUSALS, statuses=(status,)),
        "requestBody": body,
    }


def _setting(field: dataclasses.Field[Any]) -> dict[str, Any]:
    """Return the schema of a setting's field in a form."""
    kind = {bool: "boolean", int: "integer", float: "number"}.get(type(field.default), "string")
    about = field.metadata
    within = field.metadata["within"]
    limits: dict[str, Any] = {"minimum": within[0], "maximum": within[1]} if within else {}
    if within and field.default < within[0]:
        limits = {"anyOf": [{"const": field.default}, limits]}
    choices: dict[str, Any] = {"enum": list(about["choices"])} if about["choices"] else {}
    if about["pattern"]:
        choices["pattern"] = f"^({about['pattern'][0].replace('(?i:', '(?:')})$"
    if kind == "string":
        most = {"maxLength": FIELD_CHARS}
    else:
        most = {}
    return {
        "type": kind,
        "description": f"{about['help']} {about['more']}".rstrip(),
        **limits,
        **choices,
        **most,
    }


_STYLE = """
:root { color-scheme: light dark; font: 16px/1.5 system-ui, sans-serif }
:root { --accent: #0b5fb8 }
@media (prefers-color-scheme: dark) { :root { --accent: #6cb0ff } body { background: #12161d; color: #e6ebf2 } }
a { color: var(--accent) } :focus-visible { outline: 2px solid var(--accent) }
body { max-width: 60rem; margin: 2rem auto; padding: 0 1rem }
h2 { margin: 2rem 0 .3rem; font-size: 1.05rem; border-top: 1px solid #8886; padding-top: 1rem }
code, h2 { font-family: ui-monospace, monospace } p { margin: .3rem 0 }
table { border-collapse: collapse; width: 100%; font-size: .92rem }
td { padding: .15rem .7rem .15rem 0; vertical-align: top }
td:first-child { white-space: nowrap; font-family: ui-monospace, monospace } details { margin: .3rem 0 }
"""


def docs_page(description: dict[str, Any]) -> str:
    """Return a page with the contents of an OpenAPI object; self-contained and without scripts."""
    info = description["info"]
    parts = [
        (
            "<!doctype html><html lang=en><meta charset=utf-8><meta name=viewport"
            " content='width=device-width'>"
        ),
        (
            "<link rel=icon href='data:,'><title>ctc-align:"
            f" API</title><style>{_STYLE}</style><main><h1>ctc-align {escape(info['version'])}</h1>"
        ),
        (
            f"<p>{_prose(info['description'])} <a href='/'>The app</a> · <a"
            " href='/openapi.json'>openapi.json</a>"
        ),
        (
            "<p><code>curl -F audio=@talk.wav -F text='We call it bear.' -F format=textgrid"
            " ADDRESS/align</code>"
        ),
    ]
    for path, operations in description["paths"].items():
        for method, operation in operations.items():
            if method != "parameters":
                parts += _operation_html(f"{method.upper()} {path}", operation)
    return "\n".join(parts) + "\n"


def _operation_html(title: str, operation: dict[str, Any]) -> list[str]:
    parts = [f"<h2>{escape(title)}</h2><p>{_prose(operation['summary'])}."]
    content = operation.get("requestBody", {}).get("content", {})
    for media_type, body in content.items():
        properties = body["schema"].get("properties", {})
        rows = [(name, _described(value)) for name, value in properties.items()]
        parts.append(f"<p>Takes <code>{escape(media_type)}</code>{_table(rows)}")
    rows = [(status, answer["description"]) for status, answer in operation["responses"].items()]
    parts.append(f"<details><summary>Answers</summary>{_table(rows)}</details>")
    return parts


def _prose(text: str) -> str:
    """Return a description as HTML, with its `code`.

    >>> _prose("as `NAME.json`, a < b")
    'as <code>NAME.json</code>, a &lt; b'
    """
    return re.sub(r"`([^`]+)`", r"<code>\1</code>", escape(text))


def _described(value: dict[str, Any]) -> str:
    if "enum" in value:
        choices = f": {', '.join(value['enum'])}"
    else:
        choices = ""
    return f"{value.get('description', '')}{choices}"


def _table(rows: list[tuple[str, str]]) -> str:
    cells = "".join(f"<tr><td>{escape(name)}<td>{_prose(text)}" for name, text in rows)
    return f"<table>{cells}</table>" if rows else ""
