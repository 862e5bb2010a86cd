"""ctc-align realign: align again between the edges that a person has corrected."""

from __future__ import annotations

import os
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ctc_align.cli.align import (
    DestinationOptions,
    check_places,
    checked_formats,
    code_of_file,
    distinct_outputs,
    load_aligner,
    write_alignment,
)
from ctc_align.cli.arguments import check_alignments, check_files, kind_of
from ctc_align.cli.notes import (
    effect_notes,
    later_notes,
    read_with_corrections,
    recording_notes,
    unknown_letters,
)
from ctc_align.cli.options import (
    LogProbsOptions,
    MessageOptions,
    ModelOptions,
    SettingsOptions,
    formats_option,
    recording_option,
    with_examples,
    with_options,
)
from ctc_align.cli.printing import SOME_FAILED, Talk, counted
from ctc_align.config import known_settings, setting
from ctc_align.errors import InputError, UsageError

if TYPE_CHECKING:
    from ctc_align.alignment.aligner import Aligner
    from ctc_align.config import Settings
    from ctc_align.files import OutputFiles
    from ctc_align.models.log_probs import LogProbsReader
    from ctc_align.types import Alignment, AudioLike


Corrected = Annotated[
    list[str],
    typer.Argument(
        metavar="CORRECTED.json",
        help='Alignments in JSON with corrected words marked "by": "hand".',
    ),
]


@with_examples(
    "ctc-align realign talk.json",
    "ctc-align realign talk.json --hand talk.hand.TextGrid --out-dir by-hand",
    "ctc-align realign talk.json --format json,csv --out-dir again",
)
@with_options
def realign(
    corrected: Corrected,
    *,
    audio: str | None = recording_option(
        None, "The recording (or log-probs), or a folder of recordings."
    ),
    hand: str | None = setting(
        None,
        "A TextGrid with the corrected words (and phones) of CORRECTED.json, or a folder of them"
        " (NAME.hand.TextGrid or NAME.TextGrid). All its edges count as hand-corrected. Without"
        " --hand, only what differs in the files written with CORRECTED.json does.",
        metavar="PATH",
    ),
    model: ModelOptions,
    format: str = formats_option("json", shown=""),
    destination: DestinationOptions,
    log_probs: LogProbsOptions,
    config: SettingsOptions,
    messages: MessageOptions,
) -> None:
    """Align again between the edges that a person has corrected.

    Words marked "by": "hand" in CORRECTED.json, words that a person has changed in its TextGrid,
    and all words in the TextGrid of --hand, keep their times. The model and the settings come from
    the JSON, unless options override them; the defaults below apply only to settings that the JSON
    lacks. Writes NAME.aligned.json for NAME.json, and other formats with --format.
    """
    talk = messages.talk()
    calibration = config.overrides["calibration"]
    check_files(
        {"--lexicon": model.lexicon, "--vocab": log_probs.vocab, "--calibration": calibration}
    )
    corrected = check_alignments(corrected, "CORRECTED.json")
    _check_inputs(corrected, audio, stdout=destination.stdout)
    _check_hand(corrected, hand)
    formats = checked_formats(format, destination.stdout, destination.out_dir)
    talk.listen()
    inputs = [*corrected, audio, hand, model.lexicon, log_probs.vocab, config.file, calibration]
    names = {path: f"{name}.aligned" for path, name in _names(corrected).items()}
    outputs = distinct_outputs(names, destination, formats, inputs)
    talk.notes(later_notes(corrected))
    work = _FileRealignment(formats, audio, hand, model, log_probs, config, talk)
    codes = [
        code_of_file(work.align_file, path, files, alone=len(corrected) == 1)
        for path, files in zip(corrected, outputs)
    ]
    code = SOME_FAILED if SOME_FAILED in codes else max(codes)
    if code:
        raise typer.Exit(code)


@dataclass
class _FileRealignment:
    """The options of a call that apply to each alignment, and the aligner of the last one."""

    formats: tuple[str, ...]
    audio: str | None
    hand: str | None
    model: ModelOptions
    log_probs: LogProbsOptions
    config: SettingsOptions
    talk: Talk
    aligner: tuple[tuple[str | None, Settings], Aligner] | None = None

    def align_file(self, path: str, files: OutputFiles | None) -> int:
        """Align the alignment in a file again, and write it; return the exit code."""
        if self.hand is None:
            alignment = read_with_corrections(path, self.talk)
        else:
            alignment = _labelled(path, self.hand, self.talk)
        check_places(self.formats, alignment.places, f"the transcript of {path} is not one")
        settings = self.config.settings(known_settings(alignment.config, f"{path}: config."))
        self.talk.notes(effect_notes(self.config, self.formats))
        sound = _recording(path, alignment, self.audio)
        reader = self.log_probs.reader_of_file(sound, self.model.model)
        name = None
        if reader is None:
            name = self.model.model or _model_of(alignment, path)
        if self.aligner is None or self.aligner[0] != (name, settings):
            self.aligner = None  # one model in memory is enough
            aligner = load_aligner(replace(self.model, model=name), reader, settings)
            self.aligner = ((name, settings), aligner)
        read = _read(sound, alignment, reader)
        again = _realigned(self.aligner[1], alignment, read, self.talk)
        return write_alignment(again, files, self.formats[0], settings, self.talk)


def _check_inputs(corrected: Sequence[str], audio: str | None, *, stdout: bool) -> None:
    """Raise UsageError if outputs would collide, on --stdout or by name, or if sound is missing."""
    if stdout and len(corrected) > 1:
        raise UsageError(f"--stdout takes one alignment, got {len(corrected)}")
    if audio is not None and (
        kind := kind_of(audio.partition(":")[0] if ".ark:" in audio else audio, "--audio")
    ):
        if kind == "nothing":
            raise UsageError(
                f"--audio {audio}: no such file or folder; expected a recording or a folder of them"
            )
        if kind == "file" and len(corrected) > 1:
            raise UsageError(
                f"--audio {audio}: one recording for {len(corrected)} alignments: give their folder"
            )


def _names(corrected: Sequence[str]) -> dict[str, str]:
    """Return the names of the outputs, with their paths where files in several folders share one.

    Raises:
        UsageError: a file is given twice.
    """
    stems = [Path(path).stem for path in corrected]
    if len(set(stems)) == len(stems):
        return dict(zip(corrected, stems))
    whole = [os.path.abspath(path) for path in corrected]
    if len(set(whole)) < len(whole):
        raise UsageError(
            f"{next(path for path in corrected if corrected.count(path) > 1)}: is given twice"
        )
    folder = os.path.commonpath([os.path.dirname(path) for path in whole])
    below = (Path(os.path.relpath(path, folder)).with_suffix("") for path in whole)
    return {path: name.as_posix() for path, name in zip(corrected, below)}


def _check_hand(corrected: Sequence[str], hand: str | None) -> None:
    """Raise UsageError if labels are missing, or one file of labels is for several alignments."""
    from ctc_align.evaluate.corrected_labels import labels_of

    if hand is None:
        return
    if (kind := kind_of(hand, "--hand")) == "folder":
        owners: dict[Path, str] = {}
        for path in corrected:
            with suppress(InputError):  # a missing one fails its own alignment
                labels = labels_of(Path(hand), Path(path))
                if (owner := owners.setdefault(labels, path)) != path:
                    got = f"{labels}: expected labels of one alignment, got {owner} and {path}"
                    raise UsageError(
                        f"{got}: put those of each into a subfolder of {hand} that is named like"
                        " its own"
                    )
        return
    if kind == "nothing":
        raise UsageError(
            f"--hand {hand}: no such file or folder; expected a TextGrid or a folder of them"
        )
    if len(corrected) > 1:
        raise UsageError(
            f"--hand {hand}: one TextGrid for {len(corrected)} alignments: give their folder"
        )


def _labelled(path: str, hand: str, talk: Talk) -> Alignment:
    """Return an alignment with the labels of `--hand`, and report how many differ."""
    from ctc_align.evaluate.corrected_labels import label_doubts, labels_of, with_labels
    from ctc_align.files import read_alignment
    from ctc_align.files.json_files import is_fixed

    alignment = read_alignment(path)
    if Path(hand).is_dir():
        labels = labels_of(Path(hand), Path(path))
    else:
        labels = Path(hand)
    words = with_labels(alignment, labels)
    moved = [
        was
        for was, word in zip(alignment.words, words)
        if (was.start_s, was.end_s) != (word.start_s, word.end_s)
    ]
    fixed = [word for word in words if is_fixed(word)]
    bare = sum(not word.tokens for word in fixed)
    phones = counted(bare, "word's phones do not span it", "words' phones do not span them")
    placed = f"; {phones} and are placed anew" if bare else ""
    twice = sum(map(is_fixed, moved))
    if twice:
        before = f" ({twice} of them also corrected in {path}; {labels} wins)"
    else:
        before = ""
    corrected = counted(len(fixed), "hand-corrected word", "hand-corrected words")
    talk.note(f"{labels}: {corrected}, {len(moved)} moved{before}{placed}")
    talk.notes(label_doubts(alignment, words, labels))
    return replace(alignment, words=words)


def _model_of(alignment: Alignment, path: str) -> str:
    """Return the model that an alignment was made with."""
    if alignment.model == "log-probs":
        raise UsageError(
            f"{path}: this was aligned from log-probs: give them with --audio FILE, --vocab and"
            " --frame-shift, or a --model and the recording"
        )
    return alignment.model


def _recording(path: str, alignment: Alignment, audio: str | None) -> str:
    """Return the recording of a corrected file: the given one, or the one that the file names."""
    from ctc_align.sources.named_recordings import find_recording

    return str(find_recording(alignment, Path(path), audio or ""))


def _read(sound: str, alignment: Alignment, reader: LogProbsReader | None) -> AudioLike:
    """Return the log-probs of a file, or the path of a recording."""
    if reader is None:
        return sound
    if alignment.offset_s:
        duration_s = alignment.duration_s
    else:
        duration_s = None
    return reader.read(sound, offset_s=alignment.offset_s, duration_s=duration_s)


def _realigned(aligner: Aligner, alignment: Alignment, audio: AudioLike, talk: Talk) -> Alignment:
    if not any(word.by for word in alignment.words):
        talk.note(
            f"{alignment.utterance}: no word is hand-corrected: its text is aligned as if for the"
            " first time"
        )
    alignment = replace(alignment, config={**alignment.config, "channel": aligner.settings.channel})
    talk.notes(recording_notes(alignment, audio) if isinstance(audio, str) else ())
    with talk.progress("aligning") as progress:
        again = aligner.realign(alignment, audio, progress=progress)
    talk.notes(unknown_letters(again) if again.unknown else ())
    return again
