"""Alignments and their files: one small class per format, and outputs that are written whole or not at all.

A new format is a `Writer` with its extension, and its row in `formats.FORMATS`.
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
