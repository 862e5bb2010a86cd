"""The lists of cut audio: a manifest, and the data set of a layout that other programs open.

They are made from the cut files at the end of a run, in the source's order. All lie in the folder
`cuts`, except the manifest, which is beside those for NeMo and Lhotse.
"""

from __future__ import annotations

import csv
import io
import json
import re
import tarfile
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any, NamedTuple

from ctc_align.corpus.outputs.assembly import manifest_path, remove_other_counts
from ctc_align.corpus.outputs.layout import (
    AUDIOFOLDER,
    LJSPEECH,
    PAUSE,
    WEBDATASET,
    Layout,
    cut_paths,
)
from ctc_align.corpus.outputs.records import CUTS, WAVS
from ctc_align.errors import OutputError
from ctc_align.files.whole_files import placing
from ctc_align.sources.utterance import Utterance
from ctc_align.text.characters import json_escaped

_HEADER = ("file_name", "transcription", "utterance", "speaker", "language", "duration")


_RowMaker = Callable[["CutFile", Layout], bytes]


class CutFile(NamedTuple):
    """One cut on disk.

    Attributes:
        key: of a sample of WebDataset: the indices of the utterance and of the cut.
        duration_s: seconds.
    """

    key: str
    path: Path
    text: str
    duration_s: float
    utterance: Utterance

    @property
    def id(self) -> str:
        """The utterance's id, with the number of a phrase."""
        return self.utterance.id + self.path.stem[len(Path(self.utterance.output).name) :]


def write_cut_lists(layout: Layout, done: Iterator[tuple[int, Utterance]]) -> list[Path]:
    """Write the manifest of all cuts and, with a layout of a data set, its table or its shards.

    Args:
        done: (index, utterance), in the source's order.

    Raises:
        OutputError: a file cannot be written, or a cut is gone.
    """
    folder = Path(layout.out_dir, CUTS)
    makers: dict[Path, _RowMaker] = {
        manifest_path(layout.out_dir, "cuts", layout.job): _manifest_line
    }
    if layout.data_set in _TABLES:
        makers[folder / "metadata.csv"] = _TABLES[layout.data_set]
    with ExitStack() as stack:
        parts = stack.enter_context(placing([*makers], layout.parts_folder, sync=True))
        files = [stack.enter_context(open(part, "xb")) for _, part in parts]
        if layout.data_set == AUDIOFOLDER:
            files[1].write(_csv_row(_HEADER))
        if layout.data_set == WEBDATASET:
            shards = stack.enter_context(_TarShards(folder, layout))
        else:
            shards = None
        for cut in _cuts(layout, done):
            for file, line_of in zip(files, makers.values()):
                file.write(line_of(cut, layout))
            if shards is not None:
                shards.add(cut)
    remove_other_counts(Path(layout.out_dir), "cuts", layout.job)
    return [*makers]


def _cuts(layout: Layout, done: Iterator[tuple[int, Utterance]]) -> Iterator[CutFile]:
    """Yield the cuts on disk; phrases are numbered without gaps."""
    import soundfile

    for index, utterance in done:
        number = 0
        audio, text = cut_paths(utterance, layout, number)
        while number == 0 or (layout.cut == PAUSE and audio.is_file()):
            try:
                duration_s = soundfile.info(str(audio)).duration
                words = text.read_text("utf-8").removesuffix("\n")
            except (OSError, ValueError, soundfile.SoundFileError) as error:
                raise OutputError(
                    f"{audio}: cannot be read ({error}), and the list of cuts is made of it: run"
                    " the same command again"
                ) from error
            yield CutFile(f"{index:08d}-{number:04d}", audio, words, duration_s, utterance)
            number += 1
            audio, text = cut_paths(utterance, layout, number)


def _facts(cut: CutFile) -> dict[str, Any]:
    """Return what is known of a cut besides its path."""
    facts = {
        "text": cut.text,
        "duration": round(cut.duration_s, 6),
        "utterance": cut.id,
        "speaker": cut.utterance.speaker,
        "lang": cut.utterance.language,
    }
    return {key: value for key, value in facts.items() if value or key == "text"}


def _to_json(data: dict[str, Any]) -> bytes:
    line = json_escaped(json.dumps(data, ensure_ascii=False, allow_nan=False))
    return line.encode("utf-8", "backslashreplace") + b"\n"


def _manifest_line(cut: CutFile, layout: Layout) -> bytes:
    """Return a line of the manifest; its path is relative to the manifest."""
    name = cut.path.relative_to(layout.out_dir).as_posix()
    return _to_json({"audio_filepath": name, **_facts(cut)})


def _csv_row(cells: tuple[Any, ...]) -> bytes:
    row = io.StringIO()
    csv.writer(row, lineterminator="\n").writerow(cells)
    return row.getvalue().encode("utf-8", "backslashreplace")


def _audiofolder_row(cut: CutFile, layout: Layout) -> bytes:
    name = cut.path.relative_to(Path(layout.out_dir, CUTS)).as_posix()
    facts = (cut.id, cut.utterance.speaker, cut.utterance.language, round(cut.duration_s, 6))
    return _csv_row((name, cut.text, *facts))


def _ljspeech_row(cut: CutFile, layout: Layout) -> bytes:
    """Return a row `id|text|text`.

    The table has no quotes, so texts lose their bars and line ends.
    """
    name = cut.path.relative_to(Path(layout.out_dir, WAVS)).with_suffix("").as_posix()
    text = " ".join(cut.text.replace("|", " ").split())
    return (
        "|".join((name.replace("|", " "), text, text)).encode("utf-8", "backslashreplace") + b"\n"
    )


_TABLES: dict[str, _RowMaker] = {
    AUDIOFOLDER: _audiofolder_row,
    LJSPEECH: _ljspeech_row,
}


class _TarShards:
    """Tar files of `shard_size` cuts each; those of an earlier run beyond the last are removed.

    A sample is KEY.flac, KEY.txt and KEY.json. Names and times are of the cuts alone, so that equal
    cuts make equal bytes.
    """

    def __init__(self, folder: Path, layout: Layout) -> None:
        self._folder = folder
        self._prefix = f"shard{'.' + layout.job if layout.job else ''}-"
        self._layout = layout
        self._stack = ExitStack()
        self._tar: tarfile.TarFile | None = None
        self._cuts = 0

    def __enter__(self) -> _TarShards:
        return self

    def __exit__(self, *error: Any) -> None:
        self._stack.__exit__(*error)
        if error[0] is None:
            shards = -(-self._cuts // self._layout.shard_size)
            for path in self._folder.glob(f"{self._prefix}*.tar"):
                number = re.fullmatch(re.escape(self._prefix) + r"(\d{5,})\.tar", path.name)
                if number and int(number[1]) >= shards:
                    path.unlink(missing_ok=True)

    def add(self, cut: CutFile) -> None:
        """Append the sample of a cut, to the next shard where this one is full."""
        number, place = divmod(self._cuts, self._layout.shard_size)
        if place == 0:
            self._begin(number)
        assert self._tar is not None
        facts = _to_json(_facts(cut))
        for ending, data in (
            (cut.path.suffix, cut.path.read_bytes()),
            (".txt", cut.text.encode("utf-8", "backslashreplace")),
            (".json", facts),
        ):
            entry = tarfile.TarInfo(cut.key + ending)
            entry.size = len(data)
            self._tar.addfile(entry, io.BytesIO(data))
        self._cuts += 1

    def _begin(self, number: int) -> None:
        """Finish the shard that is open, and open the next one."""
        self._stack.close()
        target = self._folder / f"{self._prefix}{number:05d}.tar"
        [(_, part)] = self._stack.enter_context(
            placing([target], self._layout.parts_folder, sync=True)
        )
        self._tar = self._stack.enter_context(tarfile.TarFile(part, "x"))
