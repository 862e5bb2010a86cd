"""The layout of a corpus's outputs.

There are files for each utterance, shards, one TextGrid for each recording, and cut audio. A worker
calls `Layout.place` for each utterance. The result goes to the `Assembly` of the parent process,
which makes the files that several utterances share.
"""

from __future__ import annotations

import functools
import io
import math
import os
from bisect import bisect_left
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from ctc_align.config import setting
from ctc_align.corpus.outputs.records import CUTS, WAVS, Placed, checksum, name_of, refuse_inputs
from ctc_align.corpus.outputs.shared_files import (
    RecordingGrids,
    ShardFiles,
    SharedFiles,
    grid_row,
    shard_row,
)
from ctc_align.errors import AudioError, OutputError, UsageError
from ctc_align.files import (
    DEFAULT_FORMATS,
    FORMATS,
    OutputFiles,
    Style,
    output_paths,
)
from ctc_align.files.corrections import keep_corrected
from ctc_align.files.whole_files import placing, remove_file
from ctc_align.sources.utterance import Checksum, Utterance
from ctc_align.text.characters import without_controls
from ctc_align.text.markup import text_said_once
from ctc_align.types import ALIGNED, SKIPPED, UNKNOWN, AlignedWord, Alignment, Interval
from ctc_align.units import seconds_to_samples

if TYPE_CHECKING:
    from ctc_align.audio.recordings import Recording

FILES, SHARDS = "files", "shards"
SHARD_FORMATS = ("json", "ctm")
MANIFESTS = ("nemo", "lhotse")
AUDIOFOLDER, WEBDATASET, LJSPEECH = "audiofolder", "webdataset", "ljspeech"
DATA_SETS = (AUDIOFOLDER, WEBDATASET, LJSPEECH)
TABLES = (AUDIOFOLDER, LJSPEECH)
"""Data sets with one table for the whole corpus."""
LAYOUTS = (FILES, SHARDS, *DATA_SETS)
UTTERANCE, PAUSE = "utterance", "pause"
MARGIN_S = 0.25
"""The longest silence that a phrase keeps before and after it."""
_BACK_S = 1e-3
"""A word that begins this long before its predecessor ends was spoken elsewhere."""


@dataclass(frozen=True)
class Layout:
    """The outputs of a corpus run, and where they go.

    It writes those of each utterance. Call `check` before anything else. Picklable: workers and the
    parent have the same one.

    Args:
        out_dir: the output folder.
        kind: "files" for each utterance, or "shards" of `shard_size` utterances.
        formats: names out of `FORMATS`; () for the defaults of the kind.
        shard_size: utterances in a shard.
        times, labels: as in `ctc_align.config.Settings`.
        manifests: "nemo", "lhotse" or both.
        data_set: "" or one of `DATA_SETS`: what the cut audio makes up, beside a manifest.
        cut: "" for no audio, "utterance" or "pause" for audio of utterances or of phrases
            (`--cut-audio`, `--by`).
        pause_s: a longer pause between two words separates phrases.
        job: "" or "I-of-N", if this is one of several jobs: part of the names of files that every
            job writes.
        protect: inputs of the call (the source) that are never overwritten.
        parts: a folder, on the same file system, for unfinished files; "": the folders of the
            outputs.
    """

    out_dir: str
    kind: str = setting(FILES, choices=(FILES, SHARDS))
    formats: tuple[str, ...] = ()
    shard_size: int = 5000
    times: str = "utterance"
    labels: str = "bare"
    manifests: tuple[str, ...] = ()
    data_set: str = ""
    cut: str = ""
    pause_s: float = 0.3
    job: str = ""
    protect: tuple[str, ...] = ()
    parts: str = ""

    @property
    def formats_written(self) -> tuple[str, ...]:
        """`formats`, or the defaults of the kind."""
        return self.formats or (SHARD_FORMATS if self.kind == SHARDS else DEFAULT_FORMATS)

    @property
    def parts_folder(self) -> Path | None:
        return Path(self.parts) if self.parts else None

    def check(self) -> None:
        """Check that the options do not contradict each other.

        Raises:
            UsageError: they do, or a name is unknown.
        """
        if self.kind not in (FILES, SHARDS):
            _one_of("--layout", self.kind, LAYOUTS)
        _one_of("--by", self.cut or UTTERANCE, (UTTERANCE, PAUSE))
        for name in self.manifests:
            _one_of("--manifest", name, MANIFESTS)
        for name in self.formats:
            _one_of("--format", name, tuple(FORMATS))
        if self.shard_size < 1:
            raise UsageError(
                f"--shard-size: expected a whole number above 0, got {self.shard_size}"
            )
        if not self.pause_s > 0:
            raise UsageError(f"--pause-s: expected seconds above 0, got {self.pause_s}")
        foreign = [
            name for name in self.formats if self.kind == SHARDS and name not in SHARD_FORMATS
        ]
        if foreign:
            raise UsageError(
                f"--layout shards holds {' and '.join(SHARD_FORMATS)}, got --format"
                f" {','.join(foreign)}"
            )
        if self.manifests and self.kind == FILES and "json" not in self.formats_written:
            raise UsageError("--manifest is made of the JSON outputs: add json to --format")
        if self.data_set and not self.cut:
            raise UsageError(f"--layout {self.data_set}: is made of cut audio: add --cut-audio")
        if self.data_set in TABLES and self.job:
            raise UsageError(
                f"--layout {self.data_set}: has one table for the whole corpus, and --shard does a"
                " part: give --layout webdataset, or cut without --shard"
            )

    def outputs(self, utterance: Utterance) -> list[Path]:
        """Return the files that `place` writes for this utterance alone.

        Of its cut phrases only the first is named.
        """
        paths = output_paths(self.out_dir, utterance.output, self._formats_of(utterance))
        return paths + ([*cut_paths(utterance, self, 0)] if self.cut else [])

    def place(
        self,
        index: int,
        utterance: Utterance,
        alignment: Alignment,
        recorded: Mapping[str, Checksum] | None = None,
    ) -> Placed:
        """Write the files of this utterance alone, each whole.

        Return their record, and the utterance's part of shared files. `index` is its index in the
        source, from 0, refused lines included; `recorded` are the files as an earlier run wrote
        them: files that have changed since are kept (`Placed`). Called by workers.

        Raises:
            OutputError: a file cannot be written, or is an input.
            AudioError: the audio that is to be cut cannot be read.
        """
        protect = (*inputs_of(utterance), *self.protect)
        style = replace(Style.of(alignment.config), times=self.times, labels=self.labels)
        placed = Placed(Path(self.out_dir), recorded)
        if self.cut:
            cut_audio(alignment, utterance, self, protect, placed.add)
        formats = [
            *self._formats_of(utterance),
            *self._others_there(utterance, alignment, recorded or {}),
        ]
        if formats:
            target = Path(self.out_dir, utterance.output)
            OutputFiles(target.parent, target.name, formats, force=True, protect=protect).write(
                alignment, style=style, parts=self.parts_folder, written=placed.add
            )
        group = self.group(index, utterance)
        if group is None:
            return placed
        shared = self.shared_files()
        if self.kind == SHARDS:
            placed.pending = shard_row(alignment, style, self.formats_written)
        else:
            refuse_inputs(shared.targets(group), protect)
            placed.pending = grid_row(alignment, style, _recording_s(utterance.audio))
        placed.row = checksum(shared.content(placed.pending))
        return placed

    def remove(self, utterance: Utterance) -> None:
        """Remove the files of this utterance alone, as far as they can be removed; inputs stay."""
        for path in self.outputs(utterance):
            with suppress(OutputError, OSError):
                refuse_inputs([path], (*inputs_of(utterance), *self.protect))
                keep_corrected(path)
                remove_file(path, Path(self.out_dir))

    def group(self, index: int, utterance: Utterance) -> str | None:
        """Return the name of the assembled file or files that contain the utterance, or None.

        A group is a run of consecutive utterances; one process (`--shard I/N`) must do all of it.
        """
        if self.kind == SHARDS:
            return f"alignments-{index // self.shard_size:05d}"
        if utterance.recording and "textgrid" in self._own_formats():
            return utterance.recording
        return None

    def shared_files(self) -> SharedFiles:
        """Return the kind of file that groups of utterances make up."""
        folder = Path(self.out_dir)
        if self.kind == SHARDS:
            return ShardFiles(folder, self.formats_written, self.parts_folder)
        return RecordingGrids(folder, self.parts_folder)

    def pending_parts_path(self) -> Path:
        """Return the file in which the parent keeps parts of larger files.

        Each of several jobs has its own.
        """
        job = self.job
        return Path(self.out_dir, f".ctc-align-spool{'.' + job if job else ''}.sqlite")

    def signature(self) -> str:
        """Return everything that pending parts depend on besides the utterance."""
        return " ".join((self.kind, *self.formats_written, self.times, self.labels))

    def _formats_of(self, utterance: Utterance) -> list[str]:
        return [
            name for name in self._own_formats() if not (name == "textgrid" and utterance.recording)
        ]

    def _others_there(
        self, utterance: Utterance, alignment: Alignment, recorded: Mapping[str, Checksum]
    ) -> list[str]:
        """Return the other formats of an earlier run that this utterance keeps.

        Their files still exist, and the utterance allows them. They are made again, too; otherwise
        files of one name would come from different texts, recordings or settings.
        """
        if not recorded:
            return []
        folder = Path(self.out_dir)
        others = []
        for name in FORMATS.keys() - {*self._own_formats()}:
            paths = output_paths(folder, utterance.output, [name])
            if any(
                name_of(path, folder) in recorded and path.is_file() for path in paths
            ) and _can_hold(name, alignment):
                others.append(name)
        return sorted(others)

    def _own_formats(self) -> tuple[str, ...]:
        return () if self.kind == SHARDS else self.formats_written


def _one_of(option: str, value: str, names: tuple[str, ...]) -> None:
    if value not in names:
        raise UsageError(f"{option}: expected one of {', '.join(names)}, got {value}")


def inputs_of(utterance: Utterance) -> list[str | Path]:
    """Return the files that must not be overwritten: the recording, and a transcript beside it."""
    audio = Path(utterance.audio)
    extensions = [".txt", ".lab", *([".TextGrid", ".textgrid"] if utterance.recording else [])]
    beside = [audio.with_suffix(extension) for extension in extensions if audio.suffix != extension]
    return [audio, *beside, *([utterance.transcript] if utterance.transcript else [])]


def _can_hold(format: str, alignment: Alignment) -> bool:
    """Return whether this layout and this alignment allow a format.

    SMIL, for example, needs the elements of a book.
    """
    try:
        for writer in FORMATS[format].writers:
            writer.require()
    except UsageError:
        return False
    return format != "smil" or any(place.id for place in alignment.places)


@functools.lru_cache(maxsize=16)
def _recording_s(path: str) -> float:
    from ctc_align.audio.loading import header_duration_s

    return header_duration_s(path)


def cut_audio(
    alignment: Alignment,
    utterance: Utterance,
    layout: Layout,
    protect: Sequence[str | Path] = (),
    written: Callable[[Path, bytes], None] | None = None,
) -> list[Path]:
    """Write the cuts of an utterance and their text, whole or not at all.

    Further cuts of an earlier run are removed. The sound is FLAC (for LJSpeech WAV) of 16 bits with
    the sampling rate and the channels of the recording (or the one channel that the utterance
    names); samples are copied from the recording, not from the model's resampled input. `written`
    is called with the path and the bytes of each file.

    Raises:
        AudioError: the recording cannot be read, or has more channels than FLAC holds.
        OutputError: a file cannot be written, or would replace one of `protect`.
    """
    from ctc_align.audio.loading import open_recording
    from ctc_align.files.pages import choice_of

    if layout.cut == PAUSE:
        cuts = phrases(alignment, utterance, layout.pause_s)
    else:
        cuts = [whole(alignment, utterance)]
    targets = [path for number in range(len(cuts)) for path in cut_paths(utterance, layout, number)]
    refuse_inputs(targets, protect)
    with (
        open_recording(utterance.audio, choice=choice_of(alignment)) as recording,
        placing(targets, layout.parts_folder) as parts,
    ):
        for data, (target, part) in zip(_contents(recording, cuts, utterance, layout), parts):
            part.write_bytes(data)
            if written is not None:
                written(target, data)
    if layout.cut == PAUSE:
        _remove_further(utterance, layout, len(cuts))
    return targets


def _contents(
    recording: Recording, cuts: Sequence[Interval], utterance: Utterance, layout: Layout
) -> Iterator[bytes]:
    """Yield the sound and the text of each cut as files."""
    for cut in cuts:
        yield _encoded(recording, cut, utterance, layout)
        yield f"{without_controls(cut.label)}\n".encode("utf-8", "replace")


def cut_paths(utterance: Utterance, layout: Layout, number: int) -> tuple[Path, Path]:
    """Return the paths of sound and text of cut `number`, from 0.

    They are below `cuts` in the output folder.
    """
    folder = WAVS if layout.data_set == LJSPEECH else CUTS
    sound = ".wav" if layout.data_set == LJSPEECH else ".flac"
    target = Path(layout.out_dir, folder, utterance.output)
    if layout.cut == PAUSE:
        name = f"{target.name}-{number + 1:04d}"
    else:
        name = target.name
    return target.with_name(f"{name}{sound}"), target.with_name(f"{name}.txt")


def _remove_further(utterance: Utterance, layout: Layout, number: int) -> None:
    """Remove phrases of an earlier run beyond the last; they are numbered without gaps."""
    further = cut_paths(utterance, layout, number)
    while any(map(os.path.exists, further)):
        for path in further:
            with suppress(OutputError):
                remove_file(path, Path(layout.out_dir))
        number += 1
        further = cut_paths(utterance, layout, number)


def whole(alignment: Alignment, utterance: Utterance) -> Interval:
    """Return the cut of a whole utterance and its text.

    It is a stretch of the recording, to inf if it has no end.
    """
    end_s = math.inf
    if utterance.duration_s is not None:
        end_s = utterance.offset_s + utterance.duration_s
    return Interval(utterance.offset_s, end_s, text_said_once(alignment.text, alignment.words))


def phrases(alignment: Alignment, utterance: Utterance, pause_s: float) -> list[Interval]:
    """Return the phrases between pauses longer than `pause_s`.

    Every written word is whole and in one phrase. A phrase keeps up to `MARGIN_S` of the silence
    around it and never more than half a pause. Words without times belong to the phrase before
    them; there is no cut where an `unknown` word may have been spoken. Words that are not in the
    recording belong to no phrase; if the text continues elsewhere in the recording, the phrase
    ends.
    """
    runs = _runs(alignment.words, pause_s)
    if not runs:
        return [whole(alignment, utterance)]
    by_time = sorted((_edge(first.start_s), _edge(last.end_s)) for first, last in runs)
    skipped = {word.char_start for word in alignment.words if word.status == SKIPPED}
    cuts = []
    for number, (first, last) in enumerate(runs):
        start_s = _edge(first.start_s)
        end_s = _edge(last.end_s)
        rank = bisect_left(by_time, (start_s, end_s))
        low_s = 0.0
        if rank:
            low_s = (by_time[rank - 1][1] + start_s) / 2
        if rank + 1 < len(by_time):
            high_s = (end_s + by_time[rank + 1][0]) / 2
        else:
            high_s = alignment.duration_s
        if number + 1 < len(runs):
            next_char = runs[number + 1][0].char_start
        else:
            next_char = len(alignment.text)
        span = (first.char_start if number else 0, next_char)
        cuts.append(
            Interval(
                utterance.offset_s + max(low_s, start_s - MARGIN_S),
                utterance.offset_s + min(high_s, end_s + MARGIN_S),
                text_said_once(alignment.text, alignment.words, span, skipped),
            )
        )
    return cuts


def _runs(words: Sequence[AlignedWord], pause_s: float) -> list[tuple[AlignedWord, AlignedWord]]:
    """Return the first and the last aligned word of each phrase."""
    runs: list[tuple[AlignedWord, AlignedWord]] = []
    is_unsure = False
    for word in words:
        if word.status != ALIGNED:
            is_unsure |= word.status == UNKNOWN
            continue
        gap_s = 0.0
        if runs:
            gap_s = _edge(word.start_s) - _edge(runs[-1][1].end_s)
        if runs and gap_s > -_BACK_S and (is_unsure or gap_s <= pause_s + 1e-9):
            runs[-1] = (runs[-1][0], word)
        else:
            runs.append((word, word))
        is_unsure = False
    return runs


def _edge(time_s: float | None) -> float:
    assert time_s is not None, "aligned words have times"
    return time_s


def _encoded(recording: Recording, cut: Interval, utterance: Utterance, layout: Layout) -> bytes:
    """Return the samples of one cut as a file, in memory.

    The code that writes the file can then report a full disk.
    """
    import soundfile

    rate = recording.rate
    channel = utterance.channel
    if channel is not None and channel > recording.channels:
        raise AudioError(
            f"{utterance.audio}: expected channel {channel}, got a recording of"
            f" {recording.channels}"
        )
    first = seconds_to_samples(cut.start_s, rate)
    most = None
    if cut.end_s != math.inf:
        most = max(1, seconds_to_samples(cut.end_s, rate) - first)
    channels = recording.channels if channel is None else 1
    kind = "WAV" if layout.data_set == LJSPEECH else "FLAC"
    data = io.BytesIO()
    written = 0
    try:
        with soundfile.SoundFile(data, "w", rate, channels, subtype="PCM_16", format=kind) as file:
            for block in recording.read(first, most):
                file.write(_as_int16(block if channel is None else block[:, channel - 1 : channel]))
                written += len(block)
    except soundfile.SoundFileError as error:
        reason = str(getattr(error, "error_string", error)).rstrip(". ")
        raise AudioError(
            f"{utterance.audio}: expected audio that {kind} of 16 bits can hold: {reason}"
        ) from error
    if not written:
        raise AudioError(
            f"{utterance.audio}: expected sound from {cut.start_s:.3f} s on, got the"
            " recording's end"
        )
    return data.getvalue()


def _as_int16(block: np.ndarray) -> np.ndarray:
    """Return samples as int16: unchanged from 16-bit sources, otherwise the nearest values."""
    return np.clip(np.rint(block * 32768.0), -32768, 32767).astype(np.int16)
