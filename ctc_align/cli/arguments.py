"""Checks of the files that are arguments of a command: each exists and has the right kind."""

from __future__ import annotations

import difflib
import os
import re
import shlex
import stat
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from ctc_align.errors import UsageError
from ctc_align.reading import is_url
from ctc_align.reading.file_kinds import HEAD_BYTES, RECORDING_ROLE, TEXT_ROLE, likely_role

if TYPE_CHECKING:
    from ctc_align.models.log_probs import LogProbsReader

_ESTIMATED_S = 0.1
"""The accuracy to which the length of a recording is known."""
_SUMMARY = re.compile(r"summary(\.\d+-of-\d+)?\.json")
_FORMAT_BYTES = 200
"""The first bytes of our JSON, which name its format."""
STDIN = "-"
_BOOK = ".epub"
_LIKELY = (".txt", ".srt", ".vtt", ".lab", _BOOK)


def kind_of(path: str, argument: str) -> str:
    """Return "file" (or a device), "folder" or "nothing"; raise UsageError if it is unreadable."""
    if not path:
        raise UsageError(f"{argument}: expected the path of a file, got an empty one")
    try:
        mode = os.stat(path).st_mode
    except (FileNotFoundError, NotADirectoryError):
        return "nothing"
    except (OSError, ValueError) as error:
        raise UsageError(
            f"{path}: cannot be read: {getattr(error, 'strerror', None) or error}"
        ) from None
    return "folder" if stat.S_ISDIR(mode) else "file"


def check_audio(audio: str) -> None:
    """Raise UsageError unless AUDIO is a regular file, or - for standard input."""
    from ctc_align.audio.audio_kinds import not_regular
    from ctc_align.models.log_probs import file_of

    if audio == STDIN:
        return
    if is_url(audio):
        raise UsageError(
            f"{audio}: expected a file, got a URL; download it first, and give the file"
        )
    kind = kind_of(file_of(audio), "AUDIO")
    if kind == "folder":
        raise UsageError(
            f"{audio}: expected an audio file, got a folder; name a file in it, or see ctc-align"
            " corpus"
        )
    if kind == "nothing":
        if Path(audio).suffix:
            hint = ""
        else:
            hint = "; if a command was meant, ctc-align --help lists them all"
        raise UsageError(f"{audio}: no such audio file{_near(audio) or hint}")
    mode = os.stat(file_of(audio)).st_mode
    if kind == "file" and not stat.S_ISREG(mode):
        raise UsageError(f"{audio}: {not_regular(mode)}")


def _near(path: str, role: str = RECORDING_ROLE) -> str:
    """Return "; did you mean …?" with a file of this role and a similar name beside it, or ""."""
    folder, name = os.path.split(path)
    try:
        names = [entry for entry in os.listdir(folder or ".") if not entry.startswith(".")]
    except OSError:
        return ""
    stem = os.path.splitext(name)[0]
    same = sorted(entry for entry in names if os.path.splitext(entry)[0] == stem != name)
    likely = [entry for entry in same if _role(os.path.join(folder, entry)) == role]
    if not likely and "." in name:
        close = difflib.get_close_matches(name, names, n=3, cutoff=0.8)
        likely = [entry for entry in close if _role(os.path.join(folder, entry)) in ("", role)]
    if likely:
        return f"; did you mean {os.path.join(folder, likely[0])}?"
    return ""


def check_recording(audio: str, reader: LogProbsReader | None, formats: Sequence[str] = ()) -> None:
    """Raise AudioError if AUDIO is no recording, UsageError if it is too long for a format.

    Log-probs and standard input are read later.
    """
    from ctc_align.audio.loading import estimated_duration_s
    from ctc_align.files.formats import FORMATS

    if audio == STDIN or reader is not None:
        return
    length_s = estimated_duration_s(audio)
    for format in formats:
        most_s = FORMATS[format].writers[0].most_s
        if most_s is not None and length_s > most_s + _ESTIMATED_S:
            raise UsageError(
                f"{audio}: is {length_s:,.0f} s long, but --format {format} holds times only up to"
                f" {most_s:,.0f} s: omit {format}, or align the recording in parts"
            )


def check_source(source: str, argument: str = "SOURCE") -> None:
    """Raise UsageError if there is nothing at the path of a corpus; a URL is refused elsewhere."""
    if "://" not in source and kind_of(source, argument) == "nothing":
        raise UsageError(
            f"{source}: no such file or folder; expected a manifest (JSONL, CSV, TSV, Lhotse cuts) or"
            f" a folder as {argument}"
        )


def check_transcript(
    audio: str, transcript: str | None, text: str | None, command: str = "ctc-align"
) -> None:
    """Raise UsageError unless exactly one of the two is given; the hint begins with `command`."""
    if transcript is not None and text is not None:
        raise UsageError(
            f"a transcript is given twice, as {transcript} and with --text; give one of them"
        )
    check_text(text)
    if transcript == "":
        raise UsageError(
            "TRANSCRIPT: expected the path of a text file or - for standard input, got an empty one"
        )
    if transcript is None and text is None:
        likely = [path for path in map(Path(audio).with_suffix, _LIKELY) if str(path) != audio]
        likely_file = next((path for path in likely if path.is_file()), None)
        if likely_file:
            hint = f"; did you mean: {command} {shlex.join((audio, str(likely_file)))}"
        else:
            hint = ""
        raise UsageError(
            f"no transcript for {audio}: give a text file, - for standard input, or --text"
            f' "…"{hint}'
        )


def is_book(text: str | None) -> bool:
    """Return whether the value of --text is the path of an EPUB book, not a transcript."""
    return bool(text) and str(text).casefold().endswith(_BOOK) and os.path.isfile(str(text))


def check_text(text: str | None) -> None:
    """Raise UsageError if the text after --text is the name of a file or of a missing book."""
    if (
        text
        and text.casefold().endswith(_BOOK)
        and not any(map(str.isspace, text))
        and not os.path.isfile(text)
    ):
        raise UsageError(
            f"--text {text}: no such book; give the path of an EPUB, or the words of the transcript"
        )
    if text and "." in text[1:-1] and not any(map(str.isspace, text)) and os.path.isfile(text):
        raise UsageError(
            f"--text {text}: is a file; give it as TRANSCRIPT, without --text, which takes the"
            " words"
        )


def check_roles(command: str, audio: str, transcripts: Sequence[str]) -> None:
    """Raise UsageError if AUDIO and TRANSCRIPT are swapped, or one of them is given twice.

    Only the beginnings of regular files are read; their readers report other faults.
    """
    if audio == STDIN and STDIN in transcripts:
        raise UsageError(
            "AUDIO and TRANSCRIPT are both -, and standard input holds one of them: give the"
            ' transcript as a file, or with --text "…"'
        )
    for path in transcripts:
        if path != STDIN and kind_of(path, "TRANSCRIPT") == "nothing":
            near = _near(path, TEXT_ROLE)
        else:
            near = ""
        if near:  # without it whoever reads it says so
            raise UsageError(f"{path}: no such transcript file{near}")
    first = _role(audio)
    roles = {path: _role(path) for path in transcripts}
    recordings = [path for path in transcripts if roles[path] == RECORDING_ROLE]
    if first == TEXT_ROLE and len(recordings) == 1:
        others = [path for path in transcripts if path != recordings[0]]
        line = f"{command} {shlex.join((recordings[0], audio, *others))}"
        raise UsageError(
            f"{audio} is a text and {recordings[0]} a recording: these look swapped; did you mean:"
            f" {line}"
        )
    if first == TEXT_ROLE:
        raise UsageError(
            f"{audio}: expected a recording as AUDIO, got a text file; the transcript comes"
            " after it"
        )
    if first == RECORDING_ROLE and recordings:
        raise UsageError(
            f"{recordings[0]}: expected a transcript (a text file), got a second recording ({audio}"
            f" is one too); give a text of what {audio} says"
        )


def _role(path: str) -> str:
    """Return whether a file is a recording or a text; "" if its start does not show it."""
    from ctc_align.models.log_probs import is_log_probs_path

    head = None if is_log_probs_path(path) else _head_of(path)
    if head is None:
        return ""
    return likely_role(head, Path(path).suffix)


def _head_of(path: str) -> bytes | None:
    """Return the first bytes of a regular file; None if it cannot be read."""
    if not os.path.isfile(path):
        return None
    try:
        with open(path, "rb") as file:
            return file.read(HEAD_BYTES)
    except OSError:
        return None


def check_alignments(paths: Sequence[str], argument: str) -> list[str]:
    """Return the paths of alignments; drop others that a pattern such as `OUT/*.json` matches.

    If there is nothing else, they stay, and their reader reports what they are.

    Raises:
        UsageError: a file does not begin like the JSON of an alignment; the message says what it
            is.
    """
    from ctc_align.files.transcripts import name_unless_object

    for path in paths:
        kind = kind_of(path, argument)
        if kind == "folder":
            raise UsageError(
                f"{path}: expected JSON of an alignment, got a folder; name files in it:"
                f" {path}/*.json"
                + (
                    f", or ctc-align view {path} --utterance ID"
                    if (Path(path) / "summary.json").is_file()
                    else ""
                )
            )
        if kind == "nothing":
            raise UsageError(f"{path}: no such file; expected JSON of an alignment")
        head = _head_of(path)
        what = "" if head is None else name_unless_object(head)
        if what:
            beside = Path(path).with_suffix(".json")
            if beside.is_file():
                advice = f"did you mean {beside}?"
            else:
                advice = "ctc-align writes it: ctc-align AUDIO TRANSCRIPT"
            if path.endswith(".jsonl.gz"):
                advice = (
                    f"to see one utterance of a shard: ctc-align view {Path(path).parent} --utterance"
                    " ID"
                )
            raise UsageError(f"{path}: expected JSON of an alignment, got {what}; {advice}")
    return [path for path in paths if not _is_beside_alignments(Path(path))] or list(paths)


def alignments_at(path: str) -> list[str]:
    """Return a file, or the alignments in a folder, which may be that of a corpus run."""
    if kind_of(path, "ALIGNMENT.json") != "folder":
        return [path]
    from ctc_align.files.formats import JSON_EXPORTS

    there = [
        file for file in sorted(Path(path).rglob("*.json")) if not _SUMMARY.fullmatch(file.name)
    ]
    files = [str(file) for file in there if not file.name.endswith(JSON_EXPORTS)]
    if not files:
        if next(Path(path).glob("*.jsonl.gz"), None) is not None:
            found = "shards; ctc-align corpus without --layout shards writes a JSON per utterance"
        else:
            found = "one without"
        raise UsageError(f"{path}: expected a folder with JSON that ctc-align wrote, got {found}")
    return files


def _is_beside_alignments(path: Path) -> bool:
    """Return whether a file is the summary of a corpus run, or JSON for another program."""
    from ctc_align.files.formats import JSON_EXPORTS

    if path.name.startswith("summary."):
        from ctc_align.corpus.state.summary import is_summary

        return is_summary(path)
    if not path.name.endswith(JSON_EXPORTS):
        return False
    try:
        with path.open("rb") as file:
            return b'"ctc-align/' not in file.read(_FORMAT_BYTES)
    except OSError:
        return False  # whoever reads it says so


def check_files(files: dict[str, str | None]) -> None:
    """Raise UsageError unless the file of each option exists; --calibration may name its folder."""
    from ctc_align.models.calibration import FILE

    for option, path in files.items():
        kind = "file" if path is None else kind_of(path, option)
        if path is not None and kind == "folder" and option == "--calibration":
            if not (Path(path) / FILE).is_file():
                raise UsageError(
                    f"{option} {path}: expected a folder that ctc-align calibrate wrote, got one"
                    f" without {FILE}"
                )
            continue
        if kind != "file":
            raise UsageError(
                f"{option} {path}: expected a file,"
                f" {'got a folder' if kind == 'folder' else 'no such file'}"
            )


def check_new(path: Path, force: bool, other: str = "another --out-dir") -> None:
    """Raise UsageError, before any work, if a file to write is a folder, or exists without `force`.

    `other`: what the caller can give instead.
    """
    if os.path.lexists(path) and (not force or path.is_dir()):
        raise UsageError(f"{path}: already exists; give --force to replace it, or {other}")
