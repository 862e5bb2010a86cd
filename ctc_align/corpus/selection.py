"""The utterances of a corpus run that are good enough.

They become lines of a manifest; of the others it is said why not.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from ctc_align.config import Settings
from ctc_align.corpus.report.run_figures import is_output_of, json_of
from ctc_align.corpus.state.journal import DONE, Line, journal_paths, line_key
from ctc_align.corpus.state.resume import Outcomes
from ctc_align.corpus.state.shared_texts import text_hash
from ctc_align.corpus.state.summary import source_of_run
from ctc_align.errors import CtcAlignError, UsageError
from ctc_align.evaluate.corrected_labels import Corrected, label_files_beside, read_corrected
from ctc_align.files.corrections import LatestBeside
from ctc_align.reading import JsonObject
from ctc_align.sources import open_source
from ctc_align.sources.manifest_files import KEYS, Manifest, parsed_object
from ctc_align.sources.source import TextLine, read_lines
from ctc_align.sources.utterance import Refused, Utterance, UtteranceResult
from ctc_align.text import words_of
from ctc_align.text.markup import text_said_once
from ctc_align.types import NONE, is_worse_fit

_DECIMALS = 5
_REPLACED = ("audio", "text", "id", "offset", "duration")
"""Values of a manifest's line that a selection writes itself; it keeps all other keys."""


@dataclass(frozen=True)
class Limits:
    """The limits of a selection; None is no limit.

    Attributes:
        min_fit: one of `FITS`, the worst that is kept; "none" is no limit.
        max_loss_per_token, max_local_loss: nats.
        max_skipped: percent of the words that can be spoken.
        no_duplicates: of utterances with equal sound and text only the first is kept.
    """

    min_fit: str = NONE
    max_loss_per_token: float | None = None
    max_local_loss: float | None = None
    max_skipped: float | None = None
    no_duplicates: bool = False

    def reasons(self, result: UtteranceResult) -> Iterator[str]:
        """Yield why an aligned utterance is left out.

        A figure that has a limit and is not known is a reason.
        """
        if self.min_fit != NONE and result.fit is None:
            yield "fit not known"
        elif is_worse_fit(result.fit, self.min_fit):
            yield f"fit {result.fit}"
        limits = {"loss per token": (result.loss_per_token, self.max_loss_per_token)}
        limits["local loss"] = (result.local_loss, self.max_local_loss)
        for name, (value, most) in limits.items():
            if most is not None and value is None:
                yield f"{name} not known"
            elif most is not None and value is not None and value > most:
                yield f"{name} above {most:g}"
        if self.max_skipped is not None and 100 * (result.skipped or 0) > self.max_skipped * (
            result.words or 0
        ):
            yield f"more than {self.max_skipped:g} % of the words are not in the recording"


@dataclass(frozen=True)
class Selected:
    """An utterance of the source: its line of a manifest, and why it is left out; () if it is kept.

    `notes` say which corrections were read; `is_corrected` is True if there are any.
    """

    line: JsonObject
    reasons: tuple[str, ...]
    duration_s: float
    is_corrected: bool = False
    notes: tuple[str, ...] = ()


def selected(
    out_dir: Path,
    limits: Limits,
    source: str = "",
    kind: str | None = None,
    text: str = "",
    encoding: str = "",
) -> Iterator[Selected]:
    """Yield every entry of the source of a corpus run, in its order.

    Args:
        out_dir: the folder of the run, whose journals have the results.
        limits: what is kept.
        source: where the corpus is; "" where `summary.json` says.
        kind, text, encoding: as for `open_source`.

    Raises:
        UsageError: not the folder of a run, or the source is not there.
    """
    paths = journal_paths(out_dir) if out_dir.is_dir() else []
    if not paths:
        raise UsageError(
            f"OUT_DIR {out_dir}: expected the --out-dir of a corpus run, got {_kind_of_path(out_dir)}"
        )
    path = source or source_of_run(out_dir)
    if not path or not os.path.exists(path):
        got = (
            f"{path}: no such file or folder"
            if path
            else f"{out_dir} does not say where its corpus is"
        )
        raise UsageError(f"{got}; give the corpus: ctc-align filter {out_dir} SOURCE")
    corpus = open_source(
        path, kind, exclude=[os.fspath(out_dir)], parts=True, text=text, encoding=encoding
    )
    rows: Iterator[TextLine] = read_lines(path) if isinstance(corpus, Manifest) else iter(())
    beside = LatestBeside()
    kept: dict[bytes, str] = {}
    with Outcomes(paths, quiet=True) as outcomes:
        for entry in corpus:
            row = next(rows, None)
            if isinstance(entry, Refused):
                yield Selected({"utterance": entry.id}, ("failed",), 0.0)
                continue
            line = None
            if outcomes.find(line_key(entry.id)) is not None:
                line = outcomes.line(line_key(entry.id))
            judged = _judge(entry, line, row, limits, beside, out_dir)
            if limits.no_duplicates and line is not None and not judged.reasons:
                judged = _without_duplicate(judged, entry, line.result, kept)
            yield judged


def _kind_of_path(path: Path) -> str:
    if path.is_dir():
        return "a folder without a journal"
    return "a file" if path.exists() else "no such folder"


def _without_duplicate(
    judged: Selected, utterance: Utterance, result: UtteranceResult, kept: dict[bytes, str]
) -> Selected:
    """Return an utterance, left out if one of the `kept` ones has its sound and its text.

    Otherwise it is added to `kept`.
    """
    first = kept.setdefault(_sound_and_text(utterance, result), utterance.id)
    if first == utterance.id:
        return judged
    note = f"{utterance.id}: has the sound and the text of {first}"
    return replace(judged, reasons=("a duplicate",), notes=(*judged.notes, note))


def _sound_and_text(utterance: Utterance, result: UtteranceResult) -> bytes:
    """Return a hash of an utterance's sound and text.

    Two utterances share it if they have the same stretch of equal recordings and, spaces aside, the
    same text. Recordings are equal if their bytes are, as the journal has them.
    """
    recording = result.audio or os.path.realpath(utterance.audio)
    duration_s = utterance.duration_s or result.duration_s or 0.0
    span = (utterance.offset_s, duration_s, utterance.channel)
    words = " ".join(utterance.text.split())
    if utterance.book is not None:
        words = str(result.part)
    return hashlib.blake2b(repr((recording, span, words)).encode(), digest_size=16).digest()


def _judge(
    utterance: Utterance,
    line: Line | None,
    row: TextLine | None,
    limits: Limits,
    beside: LatestBeside,
    out_dir: Path,
) -> Selected:
    """Return an utterance, judged by the figures of its latest corrections.

    Args:
        line: its outcome in the journal, None if there is none.
        row: its line in the manifest that it comes from, None in other sources.
    """
    if line is None:
        manifest = _line(utterance, UtteranceResult(), {})
        return Selected(manifest, ("not aligned yet",), utterance.duration_s or 0.0)
    result = line.result
    duration_s = result.duration_s or 0.0
    manifest = _line(utterance, result, {} if row is None else parsed_object(row))
    if line.status != DONE:
        return Selected(manifest, ("failed",), duration_s)
    try:
        corrected = _corrected(line, beside, out_dir)
    except CtcAlignError as error:
        return Selected(
            manifest, ("its corrections cannot be read",), duration_s, notes=(str(error),)
        )
    reasons: list[str] = []
    if corrected is not None:
        alignment = corrected.alignment
        result = replace(
            result,
            fit=alignment.fit,
            loss_per_token=alignment.loss_per_token,
            local_loss=alignment.local_loss,
            skipped=alignment.skipped,
            words=alignment.spoken,
        )
        if corrected.changed:
            reasons.append("its words were changed by hand, and its text was not")
    reasons = [*limits.reasons(result), *_changes(utterance, line.result), *reasons]
    is_corrected = corrected is not None and corrected.is_corrected
    return Selected(
        manifest, tuple(reasons), duration_s, is_corrected, corrected.notes if corrected else ()
    )


def _corrected(line: Line, beside: LatestBeside, out_dir: Path) -> Corrected | None:
    """Return the alignment of an utterance with its corrections.

    It is None if its files are as the run wrote them.
    """
    name = json_of(line)
    if name is None or not (out_dir / name).is_file():
        return None
    work = beside.of(out_dir / name)
    is_output = partial(is_output_of, line, out_dir)
    if all(map(is_output, (work.path, *label_files_beside(work.path)))):
        return None
    return read_corrected(work.path, is_output)


def _changes(utterance: Utterance, result: UtteranceResult) -> Iterator[str]:
    """Yield why the result is not that of the text which the source has now."""
    if utterance.book is not None:
        if result.part is None:
            yield "nothing of the text is in the recording"
    elif result.text is not None and text_hash(utterance.text, result.words) != result.text:
        yield "the text has changed since the run"


def _line(utterance: Utterance, result: UtteranceResult, extra: JsonObject) -> JsonObject:
    """Return the line of an utterance in a manifest.

    `extra` is its line in the manifest that it comes from.
    """
    text = utterance.text
    if utterance.book is not None and result.part is not None:
        text = text[slice(*result.part)]
    if not extra and (utterance.file is not None or "<" in text):
        if utterance.file is None or utterance.book is not None:
            cues = None
        else:
            cues = utterance.file.subtitles
        text = text_said_once(
            text, words_of(text, Settings(language=utterance.language), cues).words
        )
    if not extra:
        text = text.strip()
    line: JsonObject = {
        "utterance": utterance.id,
        "audio_filepath": os.path.abspath(utterance.audio),
    }
    if utterance.offset_s:
        line["offset"] = utterance.offset_s
    duration_s = utterance.duration_s or result.duration_s
    if duration_s is not None:
        line["duration"] = round(duration_s, _DECIMALS)
    line["text"] = text
    others = {
        "speaker": utterance.speaker,
        "channel": utterance.channel,
        "lang": utterance.language,
    }
    if not extra:
        line |= {key: value for key, value in others.items() if value}
    replaced = {key for which in _REPLACED for key in KEYS[which]}
    return line | {key: value for key, value in extra.items() if key not in replaced}
