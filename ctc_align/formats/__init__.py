"""From an alignment to files: one small class per format, and outputs that are written whole or not at all."""

from __future__ import annotations

from ctc_align.formats.alignment import Alignment, from_dict, read_alignment
from ctc_align.formats.audacity import AudacityWriter
from ctc_align.formats.ctm import CtmWriter, TokenCtmWriter
from ctc_align.formats.json_format import JsonWriter, to_dict
from ctc_align.formats.saving import (
    DEFAULT_FORMATS,
    WRITERS,
    check_outputs,
    output_paths,
    parse_formats,
    rendered,
    save,
    write_outputs,
)
from ctc_align.formats.srt import SrtWriter
from ctc_align.formats.textgrid import TextGridWriter
from ctc_align.formats.tsv import TsvWriter
from ctc_align.formats.vtt import VttWriter
from ctc_align.formats.writer import Style, Writer

__all__ = [
    "DEFAULT_FORMATS",
    "WRITERS",
    "Alignment",
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
