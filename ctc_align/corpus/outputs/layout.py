"""The layout of a corpus's outputs: files for each utterance, shards, one TextGrid for each recording, cut audio.

A worker calls `Layout.place` for each utterance; what it returns is kept by the parent's `Assembly`, which makes the
files that several utterances share.
"""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from ctc_align.config import setting
from ctc_align.corpus.outputs.audio_cuts import CutSettings, cut_audio, first_cut
from ctc_align.corpus.outputs.records import Placed, checksum, name_of, refuse_inputs
from ctc_align.corpus.outputs.shared_files import RecordingGrids, ShardFiles, SharedFiles, grid_row, shard_row
from ctc_align.corpus.utterance import Checksum, Utterance
from ctc_align.errors import OutputError, UsageError
from ctc_align.files import DEFAULT_FORMATS, FORMATS, Alignment, OutputFiles, Style, output_paths
from ctc_align.files.corrections import keep_corrected
from ctc_align.files.whole_files import remove_file

FILES, SHARDS = "files", "shards"
SHARD_FORMATS = ("json", "ctm")
MANIFESTS = ("nemo", "lhotse")
UTTERANCE, PAUSE = "utterance", "pause"


@dataclass(frozen=True)
class OutputSettings:
    """The outputs of a corpus run, and where they go. `check` before use.

    Args:
        out_dir: the output folder.
        layout: "files" for each utterance, or "shards" of `shard_size` utterances.
        formats: names out of `FORMATS`; () for the layout's own.
        shard_size: utterances in a shard.
        times, labels: as in `ctc_align.config.Settings`.
        manifests: "nemo", "lhotse" or both.
        cut: "" for no audio, "utterance" or "pause" for audio of utterances or of phrases (`--cut-audio`, `--by`).
        pause_s: a longer pause between two words parts phrases.
        job: "" or "I-of-N": the job of several that this is, for names of files that all of them write.
        protect: inputs of the call (the source) that are never overwritten.
        parts: a folder, on the same file system, for unfinished files; "": the folders of the outputs.
    """

    out_dir: str
    layout: str = setting(FILES, choices=(FILES, SHARDS))
    formats: tuple[str, ...] = ()
    shard_size: int = 5000
    times: str = "utterance"
    labels: str = "bare"
    manifests: tuple[str, ...] = ()
    cut: str = ""
    pause_s: float = 0.3
    job: str = ""
    protect: tuple[str, ...] = ()
    parts: str = ""

    @property
    def formats_written(self) -> tuple[str, ...]:
        """`formats`, or the layout's own."""
        return self.formats or (SHARD_FORMATS if self.layout == SHARDS else DEFAULT_FORMATS)

    def check(self) -> None:
        """Refuse options that contradict each other.

        Raises:
            UsageError: an unknown name, or such options.
        """
        _one_of("--layout", self.layout, (FILES, SHARDS))
        _one_of("--by", self.cut or UTTERANCE, (UTTERANCE, PAUSE))
        for name in self.manifests:
            _one_of("--manifest", name, MANIFESTS)
        for name in self.formats:
            _one_of("--format", name, tuple(FORMATS))
        if self.shard_size < 1:
            raise UsageError(f"--shard-size: expected a whole number above 0, got {self.shard_size}")
        if not self.pause_s > 0:
            raise UsageError(f"--pause-s: expected seconds above 0, got {self.pause_s}")
        foreign = [name for name in self.formats if self.layout == SHARDS and name not in SHARD_FORMATS]
        if foreign:
            raise UsageError(f"--layout shards holds {' and '.join(SHARD_FORMATS)}, got --format {','.join(foreign)}")
        if self.manifests and self.layout == FILES and "json" not in self.formats_written:
            raise UsageError("--manifest is made of the JSON outputs: add json to --format")


def _one_of(option: str, value: str, names: tuple[str, ...]) -> None:
    if value not in names:
        raise UsageError(f"{option}: expected one of {', '.join(names)}, got {value}")


@dataclass(frozen=True)
class Layout:
    """Puts the outputs of each utterance in their places. Picklable: workers and the parent have the same one."""

    settings: OutputSettings

    def outputs(self, utterance: Utterance) -> list[Path]:
        """Return the files that `place` writes for this utterance alone; may be none. Of cut phrases the first only."""
        paths = output_paths(self.settings.out_dir, utterance.output, self._formats_of(utterance))
        return paths + (first_cut(utterance, self._cut()) if self.settings.cut else [])

    def place(
        self,
        index: int,
        utterance: Utterance,
        alignment: Alignment,
        recorded: Mapping[str, Checksum] | None = None,
    ) -> Placed:
        """Write the utterance's own files, each whole, over existing ones; return their record and its part of others.

        `index` is its place in the source, from 0, lines that were refused included; `recorded` are the files as an
        earlier run wrote them: what has changed since is kept (`Placed`). Called by workers.

        Raises:
            OutputError: a file cannot be written, or is an input.
            AudioError: the audio that is to be cut cannot be read.
        """
        settings = self.settings
        protect = (*inputs_of(utterance), *settings.protect)
        style = replace(Style.of(alignment.config), times=settings.times, labels=settings.labels)
        placed = Placed(Path(settings.out_dir), recorded)
        if settings.cut:
            cut_audio(alignment, utterance, self._cut(), protect, placed.add)
        formats = [*self._formats_of(utterance), *self._others_there(utterance, alignment, recorded or {})]
        if formats:
            target = Path(settings.out_dir, utterance.output)
            OutputFiles(target.parent, target.name, formats, force=True, protect=protect).write(
                alignment, style=style, parts=self._parts(), written=placed.add
            )
        group = self.group(index, utterance)
        if group is None:
            return placed
        shared = self.shared_files()
        if settings.layout == SHARDS:
            placed.pending = shard_row(alignment, style, settings.formats_written)
        else:
            refuse_inputs(shared.targets(group), protect)
            placed.pending = grid_row(alignment, style, _recording_s(utterance.audio))
        placed.row = checksum(shared.content(placed.pending))
        return placed

    def remove(self, utterance: Utterance) -> None:
        """Remove the utterance's own files as far as they can be removed; inputs stay."""
        for path in self.outputs(utterance):
            with contextlib.suppress(OutputError, OSError):
                refuse_inputs([path], (*inputs_of(utterance), *self.settings.protect))
                keep_corrected(path)
                remove_file(path, Path(self.settings.out_dir))

    def group(self, index: int, utterance: Utterance) -> str | None:
        """Return the name of the assembled file(s) that the utterance is part of, or None.

        A group is a run of consecutive utterances; all of it must be the work of one process (`--shard I/N`).
        """
        if self.settings.layout == SHARDS:
            return f"alignments-{index // self.settings.shard_size:05d}"
        return utterance.recording if utterance.recording and "textgrid" in self._own_formats() else None

    def shared_files(self) -> SharedFiles:
        """Return the kind of file that groups of utterances make up."""
        folder = Path(self.settings.out_dir)
        if self.settings.layout == SHARDS:
            return ShardFiles(folder, self.settings.formats_written, self._parts())
        return RecordingGrids(folder, self._parts())

    def pending_parts_path(self) -> Path:
        """Return the file in which the parent keeps parts of larger ones; each job of several has its own."""
        job = self.settings.job
        return Path(self.settings.out_dir, f".ctc-align-spool{'.' + job if job else ''}.sqlite")

    def signature(self) -> str:
        """Return what pending parts depend on besides the utterance."""
        return " ".join(
            (self.settings.layout, *self.settings.formats_written, self.settings.times, self.settings.labels)
        )

    def _formats_of(self, utterance: Utterance) -> list[str]:
        return [name for name in self._own_formats() if not (name == "textgrid" and utterance.recording)]

    def _others_there(self, utterance: Utterance, alignment: Alignment, recorded: Mapping[str, Checksum]) -> list[str]:
        """Return the formats that an earlier run wrote, that this one does not ask for, and that are there and can be.

        They are made again, too: else files of one name would be of two texts, recordings or settings.
        """
        if not recorded:
            return []
        folder = Path(self.settings.out_dir)
        others = []
        for name in FORMATS.keys() - {*self._own_formats()}:
            paths = output_paths(folder, utterance.output, [name])
            if any(name_of(path, folder) in recorded and path.is_file() for path in paths) and _can_hold(
                name, alignment
            ):
                others.append(name)
        return sorted(others)

    def _cut(self) -> CutSettings:
        settings = self.settings
        return CutSettings(settings.out_dir, settings.cut == PAUSE, settings.pause_s, self._parts())

    def _parts(self) -> Path | None:
        return Path(self.settings.parts) if self.settings.parts else None

    def _own_formats(self) -> tuple[str, ...]:
        return () if self.settings.layout == SHARDS else self.settings.formats_written


def layout_for(settings: OutputSettings) -> Layout:
    """Return the layout that `settings` ask for.

    Raises:
        UsageError: as `OutputSettings.check`.
    """
    settings.check()
    return Layout(settings)


def inputs_of(utterance: Utterance) -> list[str | Path]:
    """Return the files that must not be overwritten: the recording, and the transcript that may lie beside it."""
    audio = Path(utterance.audio)
    extensions = [".txt", ".lab", *([".TextGrid", ".textgrid"] if utterance.recording else [])]
    beside = [audio.with_suffix(extension) for extension in extensions if audio.suffix != extension]
    return [audio, *beside, *([utterance.transcript] if utterance.transcript else [])]


def _can_hold(format: str, alignment: Alignment) -> bool:
    """Return whether a format can be written here, and of this alignment: SMIL names elements of a book."""
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
