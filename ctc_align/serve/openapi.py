"""The description of the API.

It is OpenAPI for programs, and for people a page without external requests.
"""

from __future__ import annotations

import dataclasses
import json
import re
from collections.abc import Iterable, Mapping
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ctc_align._version import __version__
from ctc_align.files import FORMATS, json_schema
from ctc_align.reading import JsonObject
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

if TYPE_CHECKING:
    from markupsafe import Markup

_ADDRESSES = Path(__file__).with_name("addresses.json")
"""The description, but for what the code knows better.

An operation there has the arguments of `_operation`; `id` describes the id in a path.
"""
_FORMS = {"align": ALIGN, "score": SCORE, "others": OTHERS_ALIGN}
_USUAL_REFUSALS = ("401", "421")
_JSON = "application/json"


def api_description() -> JsonObject:
    """Return the description of all addresses as an object of OpenAPI 3.1."""
    description = json.loads(_ADDRESSES.read_text("utf-8"))
    refusals = description.pop("refusals")
    description["info"]["version"] = __version__
    description["components"]["schemas"]["Alignment"] = _alignment_schema()
    for path, operations in description["paths"].items():
        described: JsonObject = {}
        if "id" in operations:
            described["parameters"] = [
                _parameter("id", "path", operations.pop("id"), required=True)
            ]
        for method, operation in operations.items():
            described[method] = _operation(refusals, **operation)
        description["paths"][path] = described
    return description


def _alignment_schema() -> JsonObject:
    """Return the schema of format ctc-align/1 with references that begin at the description."""
    schema = json.dumps(json_schema())
    schema = schema.replace('"#/$defs/', '"#/components/schemas/Alignment/$defs/')
    return {
        key: value for key, value in json.loads(schema).items() if key not in ("$schema", "$id")
    }


def _parameter(
    name: str, place: str, about: str, choices: Iterable[str] = (), **more: Any
) -> JsonObject:
    schema: JsonObject = {"type": "string"}
    if choices:
        schema["enum"] = list(choices)
    return {"name": name, "in": place, **more, "description": about, "schema": schema}


def _operation(
    refusal_texts: Mapping[str, str],
    *,
    summary: str,
    answer: str,
    media_type: str = _JSON,
    formats: str = "",
    form: str = "",
    body: JsonObject | None = None,
    refusals: str = "",
    statuses: Iterable[str] = ("200",),
) -> JsonObject:
    """Return an operation as OpenAPI describes it.

    Args:
        refusal_texts: what each status of a refusal means.
        answer: the description of an answer that is not a refusal.
        formats: the name of the form whose formats an answer may have; "" if it has `media_type`.
        form: the name of the form that a request has.
        body: the schema of the JSON that a request has.
        refusals: the statuses of refusals besides `_USUAL_REFUSALS`.
    """
    kinds = _media_types(_FORMS[formats].formats) if formats else [media_type]
    success = {"description": answer, "content": {kind: {} for kind in kinds}}
    error = {_JSON: {"schema": {"$ref": "#/components/schemas/Error"}}}
    responses = dict.fromkeys(statuses, success)
    for status in sorted({*_USUAL_REFUSALS, *refusals.split()}):
        responses[status] = {"description": refusal_texts[status], "content": error}
    operation: JsonObject = {"summary": summary, "responses": responses}
    content = {}
    if form:
        content["multipart/form-data"] = {"schema": _form_schema(_FORMS[form])}
    elif formats:
        about = "format of the response; json by default"
        operation["parameters"] = [_parameter("format", "query", about, _FORMS[formats].formats)]
    if body:
        content[_JSON] = {"schema": body}
    if content:
        operation["requestBody"] = {"required": True, "content": content}
    return operation


def _media_types(formats: Iterable[str]) -> list[str]:
    """Return the media types of formats, without their parameters; JSON first."""
    types = [FORMATS[name].media_type.split(";")[0] for name in formats if name in FORMATS]
    return list(dict.fromkeys([_JSON, *types]))


def _form_schema(shape: FormShape) -> JsonObject:
    parts: JsonObject = {
        name: {"type": "string", "format": "binary", "description": text}
        for name, text in shape.described(PARTS).items()
    }
    for name, text in shape.described(FIELDS).items():
        parts[name] = {"type": "string", "maxLength": FIELD_CHARS, "description": text}
    for name, field in SETTINGS.items():
        parts[name] = _setting(field)
    text_schema = {"type": "string", "pattern": r"\S"}
    about_text = {"description": FIELDS["text"]}
    if shape is SCORE:
        parts["text"] = {"type": "array", "items": text_schema, "minItems": 1, **about_text}
    else:
        parts["text"] = text_schema | about_text
        parts[shape.name("format")] |= {"enum": list(shape.formats), "default": shape.formats[0]}
    return {
        "type": "object",
        "required": [shape.name("audio")],
        "anyOf" if shape is SCORE else "oneOf": [
            {"required": ["text"]},
            {"required": ["transcript"]},
        ],
        "properties": parts,
        "additionalProperties": False,
    }


def _setting(field: dataclasses.Field[Any]) -> JsonObject:
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


def docs_page(description: JsonObject) -> str:
    """Return a page with the contents of an OpenAPI object; self-contained and without scripts."""
    import jinja2

    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(Path(__file__).parent),
        autoescape=True,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    environment.filters["prose"] = _prose
    return environment.get_template("docs.html.j2").render(description)


def _prose(text: str) -> Markup:
    """Return a description as HTML, with its `code`.

    >>> str(_prose("as `NAME.json`, a < b"))
    'as <code>NAME.json</code>, a &lt; b'
    """
    from markupsafe import Markup

    return Markup(re.sub(r"`([^`]+)`", r"<code>\1</code>", escape(text)))
