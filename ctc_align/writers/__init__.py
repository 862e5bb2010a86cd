"""From an alignment to files: one small class per format, and outputs that are written whole or not at all."""

from __future__ import annotations

from ctc_align.writers.audacity import AudacityWriter
from ctc_align.writers.base import Style, Writer
from ctc_align.writers.ctm import CtmWriter, TokenCtmWriter
from ctc_align.writers.files import (
    DEFAULT_FORMATS,
    WRITERS,
    check_outputs,
    output_paths,
    parse_formats,
    rendered,
    save,
    write_outputs,
)
from ctc_align.writers.json_writer import JsonWriter, from_dict, read_alignment, to_dict
from ctc_align.writers.srt import SrtWriter
from ctc_align.writers.textgrid import TextGridWriter
from ctc_align.writers.tsv import TsvWriter
from ctc_align.writers.vtt import VttWriter

__all__ = [
    "DEFAULT_FORMATS",
    "WRITERS",
    "AudacityWriter",
    "CtmWriter",
    "JsonWriter",
    "SrtWriter",
    "Style",
    "TextGridWriter",
    "TokenCtmWriter",
    "TsvWriter",
    "VttWriter",
    "Writer",
    "check_outputs",
    "from_dict",
    "output_paths",
    "parse_formats",
    "read_alignment",
    "rendered",
    "save",
    "to_dict",
    "write_outputs",
]
