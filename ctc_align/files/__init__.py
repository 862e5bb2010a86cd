"""Alignments and their files: one small class per format. Outputs are written whole or not at all.

To add a format, write a `Writer` with its extension, and add a row to `formats.FORMATS`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ctc_align.extras import late_names

if TYPE_CHECKING:
    from ctc_align.files.alignment_files import OutputFiles, from_dict, read_alignment, rendered
    from ctc_align.files.formats import (
        DEFAULT_FORMATS,
        FORMATS,
        Format,
        output_paths,
        parse_formats,
    )
    from ctc_align.files.json_files import JsonWriter, json_schema, to_dict
    from ctc_align.files.labels import CtmWriter, TokenCtmWriter
    from ctc_align.files.writer import Style

_HOMES = {
    "DEFAULT_FORMATS": "formats",
    "FORMATS": "formats",
    "CtmWriter": "labels",
    "Format": "formats",
    "JsonWriter": "json_files",
    "OutputFiles": "alignment_files",
    "Style": "writer",
    "TokenCtmWriter": "labels",
    "from_dict": "alignment_files",
    "json_schema": "json_files",
    "output_paths": "formats",
    "parse_formats": "formats",
    "read_alignment": "alignment_files",
    "rendered": "alignment_files",
    "to_dict": "json_files",
}
__all__ = [
    "DEFAULT_FORMATS",
    "FORMATS",
    "CtmWriter",
    "Format",
    "JsonWriter",
    "OutputFiles",
    "Style",
    "TokenCtmWriter",
    "from_dict",
    "json_schema",
    "output_paths",
    "parse_formats",
    "read_alignment",
    "rendered",
    "to_dict",
]
__getattr__ = late_names(__name__, _HOMES)
