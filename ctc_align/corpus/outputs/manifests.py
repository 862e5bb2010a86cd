"""Manifests of what was aligned, in NeMo's and in Lhotse's format, made of the JSON outputs when a run is over.

NeMo: `manifest.nemo.jsonl`, a line for each utterance that any tool of NeMo's reads (`audio_filepath`, `offset`,
`duration`, `text`), and beside that `utterance`, `speaker` and `lang` if the source names them, `loss`,
`words_level_ctm_filepath` and `tokens_level_ctm_filepath` as the manifests of NeMo's aligner have them (relative to
the manifest; where the layout is files with CTM), and `words`: [{word, start, duration, confidence}], seconds from the
start of the utterance.

Lhotse: `manifest.lhotse.jsonl.gz`, cuts (`CutSet.from_file`, `load_manifest_lazy`), each with its recording and one
supervision, whose `alignment` has "word" and "phone" (or "token") items [symbol, start, duration, score]. A supervision
of a cut counts from the start of the cut, but its alignment from the start of the recording: see `AlignmentItem` and
`trim_to_alignments` in Lhotse.
"""

from __future__ import annotations

import functools
import gzip
import json
import os
import re
import zlib
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from ctc_align.corpus.outputs.shared_files import read_lines
from ctc_align.corpus.utterance import Utterance
from ctc_align.errors import CtcAlignError, OutputError
from ctc_align.files import Alignment, from_dict, output_paths, read_alignment
from ctc_align.files.whole_files import placing
from ctc_align.files.writer import words_by_time
from ctc_align.text.characters import json_escaped
from ctc_align.types import AlignedToken, AlignedWord

if TYPE_CHECKING:
    from ctc_align.corpus.outputs.layout import Layout

_DECIMALS = 5


class _Sound(NamedTuple):
    """Rate, length and channels of a recording."""

    rate: int
    samples: int
    channels: int


def write_manifests(layout: Layout, done: Iterator[tuple[int, Utterance]]) -> list[Path]:
    """Write the manifests that the settings ask for, whole, of all utterances that succeeded.

    Args:
        done: (index, utterance), in the source's order; they are read and written one by one.

    Raises:
        OutputError: a manifest cannot be written, or an output that it is made of is gone.
    """
    settings = layout.settings
    if not settings.manifests:
        return []
    targets = [manifest_path(settings.out_dir, name, settings.job) for name in settings.manifests]
    makers: list[Callable[[Layout, Utterance, Alignment], dict[str, Any]]]
    makers = [_nemo if name == "nemo" else _lhotse for name in settings.manifests]
    with placing(targets, settings.parts_folder, sync=True) as parts, ExitStack() as stack:
        files = [stack.enter_context(_line_file(target, part)) for target, part in parts]
        for utterance, alignment in _stored(layout, done):
            for file, maker in zip(files, makers):
                data = maker(layout, utterance, alignment)
                line = json_escaped(json.dumps(data, ensure_ascii=False, allow_nan=False))
                file.write(line.encode("utf-8", "backslashreplace") + b"\n")
    for name in settings.manifests:
        _remove_other_counts(Path(settings.out_dir), name, settings.job)
    return targets


def _remove_other_counts(out_dir: Path, name: str, job: str) -> None:
    """Remove manifests of another number of jobs: all of them together would have utterances twice."""
    count = job.partition("-of-")[2]
    for path in out_dir.glob(f"manifest.{name}.*-of-*"):
        other = re.fullmatch(rf"manifest\.{name}\.\d+-of-(\d+)\.jsonl(\.gz)?", path.name)
        if other and other[1] != count:
            path.unlink(missing_ok=True)


def manifest_path(out_dir: str | Path, name: str, job: str = "") -> Path:
    """Return the path of a manifest; each of several jobs has one.

    >>> manifest_path("out", "nemo", "0-of-4").name, manifest_path("out", "lhotse").name
    ('manifest.nemo.0-of-4.jsonl', 'manifest.lhotse.jsonl.gz')
    """
    extension = ".jsonl" if name == "nemo" else ".jsonl.gz"
    return Path(out_dir) / f"manifest.{name}{'.' + job if job else ''}{extension}"


@contextmanager
def _line_file(target: Path, part: Path) -> Iterator[Any]:
    with open(part, "xb") as raw:
        if target.suffix != ".gz":
            yield raw
            return
        with gzip.GzipFile(filename="", mode="wb", compresslevel=6, fileobj=raw, mtime=0) as packer:
            yield packer


def _stored(layout: Layout, done: Iterator[tuple[int, Utterance]]) -> Iterator[tuple[Utterance, Alignment]]:
    """Yield the alignments from the output folder, one at a time."""
    shard: tuple[str | None, Iterator[bytes]] = (None, iter(()))
    for index, utterance in done:
        if layout.settings.layout == "files":
            (path,) = output_paths(layout.settings.out_dir, utterance.output, ("json",))
            yield utterance, _read(path)
            continue
        group = layout.group(index, utterance)
        assert group is not None, "every utterance is in a shard"
        path = layout.shared_files().targets(group)[0]
        if shard[0] != group:
            shard = (group, read_lines(path))
        yield utterance, _next_of(shard[1], utterance.id, path)


def _read(path: Path) -> Alignment:
    try:
        return read_alignment(path)
    except CtcAlignError as error:
        raise OutputError(f"{error}; the manifest is made from these outputs: run the same command again") from error


def _next_of(lines: Iterator[bytes], id: str, path: Path) -> Alignment:
    """Return the alignment of an utterance from the rest of its shard; both have the source's order."""
    try:
        for line in lines:
            data = json.loads(line)
            if data["utterance"] == id:
                return from_dict(data, path)
    except (OSError, EOFError, zlib.error, ValueError, KeyError, CtcAlignError) as error:
        raise OutputError(f"{path}: cannot be read ({error}); run the same command again") from error
    raise OutputError(f"{path}: {id} is not in it; run the same command again")


def _nemo(layout: Layout, utterance: Utterance, alignment: Alignment) -> dict[str, Any]:
    line: dict[str, Any] = {
        "audio_filepath": os.path.abspath(utterance.audio),
        "offset": _number(utterance.offset_s),
        "duration": _number(alignment.duration_s),
        "text": " ".join(alignment.text.split()),
        "utterance": utterance.id,
    }
    if utterance.speaker:
        line["speaker"] = utterance.speaker
    if utterance.language:
        line["lang"] = utterance.language
    line["loss"] = alignment.loss if abs(alignment.loss) < float("inf") else None
    for key, extension in (("words_level_ctm_filepath", ".ctm"), ("tokens_level_ctm_filepath", ".tokens.ctm")):
        name = utterance.output.rpartition("/")[2] + extension
        folder = layout.settings.out_dir
        line.update((key, os.path.relpath(path, folder)) for path in layout.outputs(utterance) if path.name == name)
    line["words"] = [
        {"word": symbol, "start": start, "duration": duration, "confidence": score}
        for symbol, start, duration, score in map(_item, words_by_time(alignment))
    ]
    return line


def _lhotse(layout: Layout, utterance: Utterance, alignment: Alignment) -> dict[str, Any]:
    sound = _sound(utterance.audio)
    channels = list(range(sound.channels)) if utterance.channel is None else [utterance.channel - 1]
    channel: Any = channels[0] if len(channels) == 1 else channels
    duration_s = _number(min(alignment.duration_s, sound.samples / sound.rate - utterance.offset_s))
    recording = os.path.abspath(utterance.audio)
    words = words_by_time(alignment)
    kind = alignment.token_kind.removesuffix("s")
    supervision = {
        "id": utterance.id,
        "recording_id": recording,
        "start": 0.0,
        "duration": duration_s,
        "channel": channel,
        "text": " ".join(alignment.text.split()),
        **({"speaker": utterance.speaker} if utterance.speaker else {}),
        **({"language": utterance.language} if utterance.language else {}),
        "custom": {"loss": alignment.loss if abs(alignment.loss) < float("inf") else None},
        "alignment": {
            "word": [_item(word, utterance.offset_s) for word in words],
            kind: [_item(token, utterance.offset_s) for word in words for token in word.tokens],
        },
    }
    return {
        "id": utterance.id,
        "start": _number(utterance.offset_s),
        "duration": duration_s,
        "channel": channel,
        "supervisions": [supervision],
        "recording": {
            "id": recording,
            "sources": [{"type": "file", "channels": list(range(sound.channels)), "source": recording}],
            "sampling_rate": sound.rate,
            "num_samples": sound.samples,
            "duration": sound.samples / sound.rate,
            "channel_ids": list(range(sound.channels)),
        },
        "type": "MonoCut" if len(channels) == 1 else "MultiCut",
    }


@functools.lru_cache(maxsize=16)
def _sound(path: str) -> _Sound:
    from ctc_align.audio.loading import header_duration_s, open_recording

    try:
        with open_recording(path) as recording:
            rate, channels = recording.rate, recording.channels
        return _Sound(rate, round(header_duration_s(path) * rate), channels)
    except (OSError, CtcAlignError) as error:
        raise OutputError(
            f"{path}: a manifest cannot be made: the recording can no longer be read ({error})"
        ) from error


def _item(part: AlignedWord | AlignedToken, shift_s: float = 0.0) -> list[Any]:
    """Return [symbol, start, duration, score] of a word, as written, or a token; `shift_s` is added to the start."""
    assert part.start_s is not None, "aligned words have times"
    assert part.end_s is not None, "aligned words have times"
    symbol = part.text if isinstance(part, AlignedWord) else part.token
    return [symbol, _number(part.start_s + shift_s), _number(part.end_s - part.start_s), part.confidence]


def _number(seconds: float) -> float:
    return round(seconds, _DECIMALS)
