"""Every reader of the package, each with valid samples and what its values must allow.

`Reader.read(folder)` reads the files of a case in `folder`. It returns a value or raises a
CtcAlignError that names a file of it; anything else is a fault.
"""

from __future__ import annotations

import dataclasses
import json
import os
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path

import attack_samples as samples
import torch
from hostile_inputs import Case
from sample_alignments import PICTURES, write_all

from ctc_align.audio.loading import estimated_duration_s, load_audio
from ctc_align.config import Settings, load_config, load_settings
from ctc_align.corpus.state.summary import joined
from ctc_align.errors import CtcAlignError, OutputError
from ctc_align.evaluate.corrected_labels import label_doubts, with_labels
from ctc_align.evaluate.pairing import read_labels
from ctc_align.evaluate.utterance_files import read_one, read_table
from ctc_align.files import (
    from_dict,
    read_alignment,
    rendered,
    to_dict,
)
from ctc_align.files.formats import FORMATS
from ctc_align.files.textgrid import read_textgrid
from ctc_align.files.transcripts import read_transcript_file
from ctc_align.models.calibration import as_toml, read_calibration
from ctc_align.models.convnet.convnet_model import load_folder
from ctc_align.models.log_probs import LogProbsReader, estimated_seconds
from ctc_align.models.onnx_description import describe
from ctc_align.models.vocabulary import load_vocab, resolve_blank
from ctc_align.sources import open_source
from ctc_align.sources.utterance import Refused
from ctc_align.text import split, with_cues, words_of
from ctc_align.text.languages import likely_language, likely_other_language
from ctc_align.text.lexicon import read_lexicon
from ctc_align.text.sounds import pronounced
from ctc_align.training.recipe import Recipe
from ctc_align.types import ALIGNED, AlignedWord, Alignment, SoundChoice


@dataclass(frozen=True)
class Reader:
    """A reader: its cases are files by name; `native`: code that may crash."""

    name: str
    read: Callable[[Path], object]
    native: bool = False

    def seeds(self) -> list[Case]:
        return samples.seeds_of(self.name)


def _textgrid(folder: Path) -> object:
    grid = read_textgrid(folder / "a.TextGrid")
    assert all(
        abs(each.start_s) <= 1e9 and abs(each.end_s) <= 1e9
        for tier in grid.tiers
        for each in tier.intervals
    )
    return _tolerant(partial(read_one, folder / "a.TextGrid", "words")), grid


def _tolerant(read: Callable[[], object]) -> object:
    """Return a value, or the refusal in its place."""
    try:
        return read()
    except CtcAlignError as error:
        _check_message(error)
        return error


def _check_message(error: CtcAlignError) -> None:
    assert str(error).strip(), "an error without a message"


def _table(name: str, folder: Path) -> object:
    return read_table(folder / name, "words"), _tolerant(
        partial(read_table, folder / name, "phones")
    )


def _alignment(folder: Path) -> object:
    alignment = read_alignment(folder / "a.json")
    write_all(alignment)
    again = json.loads(json.dumps(to_dict(alignment), allow_nan=False))
    assert to_dict(from_dict(again)) == to_dict(
        from_dict(json.loads(json.dumps(to_dict(from_dict(again)))))
    )
    return alignment


def _source(name: str, kind: str, folder: Path) -> object:
    items = list(open_source(folder / name, kind))
    for item in items:
        json.dumps([item.id, item.origin], ensure_ascii=False).encode("utf-8", "backslashreplace")
        if isinstance(item, Refused):
            assert item.reason.strip()
            continue
        item.id.encode()
        item.text.encode()
        assert item.text.strip() or item.texts
        assert not item.output.startswith("/")
        assert ".." not in item.output.split("/")
        assert item.offset_s is None or 0 <= item.offset_s <= 1e9
        assert item.duration_s is None or 0 < item.duration_s <= 1e9
        assert item.channel is None or 1 <= item.channel <= 1024
    ids = [item.id for item in items]
    assert len(ids) == len(set(ids)), "an id twice"
    return items


def _transcript(name: str, folder: Path) -> object:
    transcript = read_transcript_file(folder / name)
    words = words_of(transcript.text, Settings())
    for word in words.words:
        assert word.text == transcript.text[word.char_start : word.char_end]
    return words


def _spoken(folder: Path) -> object:
    """Return the phones of a text in the language that is the name of its file."""
    path = next(folder.iterdir())
    words = split(path.read_text("utf-8", "replace"), language=path.stem)
    return (
        pronounced(words, path.stem),
        likely_language(words.text),
        likely_other_language(words.text),
    )


def _hand_labels(folder: Path) -> object:
    alignment = read_alignment(folder / "a.json")
    words = with_labels(alignment, folder / "a.TextGrid")
    return label_doubts(alignment, words, folder / "a.TextGrid")


def _document(folder: Path) -> object:
    """Read a document as a transcript, with every word at its place in time, and write it in a
    format, twice."""
    transcript = read_transcript_file(folder / "a.doc")
    words = with_cues(words_of(transcript.text, Settings()), transcript.subtitles)
    aligned = tuple(
        AlignedWord(
            word.text, word.spoken, word.char_start, word.char_end, ALIGNED, at, at + 0.5, 0.9
        )
        for at, word in enumerate(words.words)
    )
    duration_s = len(aligned) + 1.0
    alignment = Alignment(
        "a", "a.wav", duration_s, "m", "cpu", 0.01, 1.0, -1.0, transcript.text, aligned
    )
    alignment = dataclasses.replace(alignment, subtitles=words.subtitles)
    again = from_dict(json.loads(json.dumps(alignment.to_dict())))
    formats = sorted(FORMATS.keys() - {*PICTURES, "smil"})
    format = formats[len(aligned) % len(formats)]
    with suppress(OutputError):  # LRC and ASS hold no hours without end
        assert rendered(again, format) == rendered(alignment, format)
    return words


def _vocabulary(name: str, folder: Path) -> object:
    vocab = load_vocab(folder / name)
    assert len(set(vocab)) == len(vocab)
    return resolve_blank(0, vocab)


def _assignments(folder: Path) -> object:
    text = (folder / "a.set").read_bytes().decode("utf-8", "surrogateescape")
    return load_settings(None, text.split("\n")[:30])


def _onnx_settings(folder: Path) -> object:
    return describe(
        folder / "a.onnx",
        {"model_type": "EncDecCTCModelBPE", "subsampling_factor": "8"},
        "onnx:a.onnx",
    )


def _state(folder: Path) -> object:
    summary, notes = joined(folder)
    json.dumps(summary.to_dict(), allow_nan=False)
    return notes


def _audio(name: str, folder: Path) -> object:
    _tolerant(partial(estimated_duration_s, folder / name))
    audio = load_audio(folder / name)
    assert len(audio.samples) < 16000 * 3600
    return _tolerant(
        partial(load_audio, folder / name, offset_s=0.1, duration_s=0.1, choice=SoundChoice(1))
    )


@cache
def _vocab_of(folder: str) -> str:
    path = os.path.join(folder, "vocab.txt")
    Path(path).write_text("\n".join(samples.VOCAB), encoding="utf-8")
    return path


def _log_probs(name: str, folder: Path) -> object:
    assert estimated_seconds(folder / name) >= 0
    vocab = _vocab_of(str(folder.parent))
    _tolerant(
        partial(LogProbsReader(vocab, 0.01).read, folder / name, offset_s=0.02, duration_s=0.03)
    )
    return LogProbsReader(vocab, 0.01).read(folder / name)


READERS: dict[str, Reader] = {
    reader.name: reader
    for reader in (
        Reader("textgrid", _textgrid),
        Reader("ctm", partial(_table, "a.ctm")),
        Reader("alignment json", _alignment),
        Reader("alignments jsonl", partial(_table, "a.jsonl")),
        Reader("alignments jsonl.gz", partial(_table, "a.jsonl.gz")),
        Reader("manifest", partial(_source, "m.jsonl", "manifest")),
        Reader("manifest gz", partial(_source, "m.jsonl", "manifest")),
        Reader("csv", partial(_source, "t.csv", "table")),
        Reader("tsv", partial(_source, "t.csv", "table")),
        Reader("detected source", lambda folder: list(open_source(folder / "m.jsonl"))),
        Reader("kaldi", partial(_source, "", "kaldi")),
        Reader("lhotse", partial(_source, "cuts.jsonl", "lhotse")),
        Reader("librispeech", partial(_source, "", "librispeech")),
        Reader("mfa folder", partial(_source, "", "mfa")),
        Reader("lexicon", lambda folder: read_lexicon(folder / "a.dict").phones()),
        Reader("vocabulary lines", partial(_vocabulary, "v.txt")),
        Reader("vocabulary json", partial(_vocabulary, "v.json")),
        Reader(
            "settings",
            lambda folder: json.dumps(load_settings(folder / "a.toml").to_dict(), allow_nan=False),
        ),
        Reader("--set", _assignments),
        Reader("recipe", lambda folder: load_config(Recipe, folder / "a.toml", {})),
        Reader(
            "calibration", lambda folder: as_toml(read_calibration(folder / "calibration.toml"))
        ),
        Reader("onnx settings", _onnx_settings),
        Reader("journal, summary", _state),
        Reader("labels map", lambda folder: read_labels(folder / "a.map")),
        Reader("subtitles", partial(_transcript, "a.srt")),
        Reader("vtt", partial(_transcript, "a.vtt")),
        Reader("document", _document),
        Reader("book", partial(_transcript, "a.epub")),
        Reader("transcript", partial(_transcript, "a.txt")),
        Reader("languages", _spoken),
        Reader("hand labels", _hand_labels),
        Reader("wav", partial(_audio, "a.wav"), True),
        Reader("flac", partial(_audio, "a.flac"), True),
        Reader("ogg", partial(_audio, "a.ogg"), True),
        Reader("mp3", partial(_audio, "a.mp3"), True),
        Reader("mp4", partial(_audio, "a.m4a"), True),
        Reader("webm", partial(_audio, "a.webm"), True),
        Reader("npy", partial(_log_probs, "a.npy"), True),
        Reader("npz", partial(_log_probs, "a.npz"), True),
        Reader("safetensors", partial(_log_probs, "a.safetensors"), True),
        Reader("pt", partial(_log_probs, "a.pt"), True),
        Reader("ark", partial(_log_probs, "a.ark:0"), True),
        Reader("model folder", lambda folder: load_folder(folder, torch.device("cpu")), True),
    )
}
