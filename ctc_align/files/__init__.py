"""Alignments and their files: one small class per format. Outputs are written whole or not at all.

To add a format, write a `Writer` with its extension, and add a row to `formats.FORMATS`.
"""

from __future__ import annotations

from ctc_align.files.alignment_files import (
    Alignment,
    OutputFiles,
    from_dict,
    read_alignment,
    rendered,
)
from ctc_align.files.formats import DEFAULT_FORMATS, FORMATS, Format, output_paths, parse_formats
from ctc_align.files.json_files import JsonWriter, json_schema, to_dict
from ctc_align.files.labels import CtmWriter, TokenCtmWriter
from ctc_align.files.writer import Style

__all__ = [
    "DEFAULT_FORMATS",
    "FORMATS",
    "Alignment",
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
