"""Where a corpus's results go: files for each utterance, shards, one TextGrid per recording, cut audio.

A worker calls `Layout.place` for each utterance; what it returns goes into the parent's spool, and `Assembly` makes the
files that several utterances share out of it. `ctc_align.corpus.manifests` writes manifests of all of it at the end.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from ctc_align.config import setting
from ctc_align.corpus.utterance import Utterance
from ctc_align.errors import UsageError
from ctc_align.types import Alignment
from ctc_align.writers import DEFAULT_FORMATS, WRITERS, Style, output_paths, write_outputs

FILES, SHARDS = "files", "shards"
SHARD_FORMATS = ("json", "ctm")
MANIFESTS = ("nemo", "lhotse")
UTTERANCE, PAUSE = "utterance", "pause"


@dataclass(frozen=True)
class OutputSettings:
    """What a corpus run writes, and where. `check` before use.

    Args:
        out_dir: the output folder.
        layout: "files" for each utterance, or "shards" of `shard_size` utterances.
        formats: names out of `writers.WRITERS`; () for what the layout has by default.
        shard_size: utterances in a shard.
        times, labels: as in `ctc_align.config.Settings`.
        manifests: "nemo", "lhotse" or both.
        cut: "" for no audio, "utterance" or "pause" for audio of utterances or of phrases (`--cut-audio`, `--by`).
        pause_s: a longer pause between two words parts phrases.
        job: "" or "I-of-N": the job of several that this is, for names of files that all of them write.
        protect: inputs of the call (the source) that are never overwritten.
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

    @property
    def formats_written(self) -> tuple[str, ...]:
        """`formats`, or the layout's own."""
        return self.formats or (SHARD_FORMATS if self.layout == SHARDS else DEFAULT_FORMATS)

    def check(self) -> None:
        """Refuse what does not go together.

        Raises:
            UsageError: a name that there is not, or options that contradict each other.
        """
        _one_of("--layout", self.layout, (FILES, SHARDS))
        _one_of("--by", self.cut or UTTERANCE, (UTTERANCE, PAUSE))
        for name in self.manifests:
            _one_of("--manifest", name, MANIFESTS)
        for name in self.formats:
            _one_of("--format", name, tuple(WRITERS))
        if self.shard_size < 1:
            raise UsageError(f"--shard-size: expected a whole number above 0, met {self.shard_size}")
        if not self.pause_s > 0:
            raise UsageError(f"--pause-s: expected seconds above 0, met {self.pause_s}")
        foreign = [name for name in self.formats if self.layout == SHARDS and name not in SHARD_FORMATS]
        if foreign:
            raise UsageError(f"--layout shards holds {' and '.join(SHARD_FORMATS)}, met --format {','.join(foreign)}")
        if self.manifests and self.layout == FILES and "json" not in self.formats_written:
            raise UsageError("--manifest is made of the JSON outputs: add json to --format")


def _one_of(option: str, met: str, names: tuple[str, ...]) -> None:
    if met not in names:
        raise UsageError(f"{option}: expected one of {', '.join(names)}, met {met}")


@dataclass(frozen=True)
class Piece:
    """One aligned utterance; `index` is its place in the source, from 0, lines that were refused counted too."""

    index: int
    utterance: Utterance
    alignment: Alignment


@dataclass(frozen=True)
class Layout:
    """Places what is made of each utterance. Picklable: workers and the parent have the same one."""

    settings: OutputSettings

    def outputs(self, utterance: Utterance) -> list[Path]:
        """The files that `place` writes for this utterance alone, cut audio apart; may be none."""
        formats = [name for name in self._own_formats() if not (name == "textgrid" and utterance.recording)]
        return output_paths(self.settings.out_dir, utterance.output, formats)

    def place(self, piece: Piece) -> bytes | None:
        """WORKER. Write the utterance's own files, each whole, in the place of what is there; return what to spool.

        Raises:
            OutputError: a file cannot be written, or is an input.
        """
        utterance = piece.utterance
        formats = [name for name in self._own_formats() if not (name == "textgrid" and utterance.recording)]
        if formats:
            target = Path(self.settings.out_dir, utterance.output)
            protect = (utterance.audio, *self.settings.protect)
            style = Style(self.settings.times, self.settings.labels)
            write_outputs(
                piece.alignment, target.parent, target.name, formats, settings=style, force=True, protect=protect
            )
        return None

    def group(self, index: int, utterance: Utterance) -> str | None:
        """Name of the assembled file(s) that the utterance is part of, or None.

        A group is a run of consecutive utterances; all of it must be the work of one process (`--shard I/N`).
        """
        if self.settings.layout == SHARDS:
            return f"alignments-{index // self.settings.shard_size:05d}"
        return utterance.recording if utterance.recording and "textgrid" in self._own_formats() else None

    def _own_formats(self) -> tuple[str, ...]:
        return () if self.settings.layout == SHARDS else self.settings.formats_written


def layout_for(settings: OutputSettings) -> Layout:
    """The layout that `settings` ask for.

    Raises:
        UsageError: as `OutputSettings.check`.
    """
    settings.check()
    return Layout(settings)


class Assembly:
    """PARENT: makes the files that several utterances share, as soon as all their utterances have an outcome.

    The order of calls for an utterance: `announce` (all utterances, in the source's order), then `keep` with what
    `place` returned, then its journal line, then `settle`. A killed run has lost nothing: rows are in the spool.

        with Assembly(layout) as assembly:
            for index, utterance in …:                      # a window at a time
                known = journal outcome, if assembly.present(index, utterance)
                assembly.announce(index, utterance, known)
            …
            assembly.keep([(utterance.id, data), …])        # once a batch, before the journal lines; None is left out
            assembly.settle(index, done=True)               # after the journal lines
            …
            assembly.finish()                               # the source is at its end and everything is settled
    """

    def __init__(self, layout: Layout) -> None:
        self._layout = layout

    def __enter__(self) -> Assembly:
        return self

    def __exit__(self, *_: object) -> None:
        """Leave the spool as it is, for the next run, unless `finish` was called."""

    def present(self, index: int, utterance: Utterance) -> bool:
        """Whether all that is made of an utterance that the journal calls done is still in place (or spooled)."""
        return all(path.exists() for path in self._layout.outputs(utterance))

    def announce(self, index: int, utterance: Utterance, done: bool | None = None) -> None:
        """An utterance of the source, in order; `done` True or False when its outcome stands from an earlier run."""

    def keep(self, rows: Iterable[tuple[str, bytes | None]]) -> None:
        """(id, what `place` returned) of a batch, in one transaction.

        Raises:
            OutputError: the spool cannot be written; write no journal lines then.
        """

    def settle(self, index: int, done: bool) -> list[Path]:
        """The outcome of an announced utterance is in the journal; returns files that were finished by it.

        Raises:
            OutputError: a finished file cannot be written; its rows stay in the spool.
        """
        return []

    def finish(self) -> list[Path]:
        """Finish the last groups, and remove the spool."""
        return []


def write_manifests(layout: Layout, done: Iterator[tuple[int, Utterance]]) -> list[Path]:
    """PARENT, after `Assembly.finish`: the manifests, out of (index, utterance) of all done, in the source's order.

    Raises:
        OutputError: a manifest cannot be written, or an output that it is made of is gone.
    """
    return []
