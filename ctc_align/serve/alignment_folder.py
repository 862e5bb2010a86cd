"""A folder of alignments: list them, worst first; read one and its recording; save corrections.

Nothing outside the folder is read or written, no matter what a name or a file in it says: names are
checked, and links are followed only to targets inside the folder.
"""

from __future__ import annotations

import os
import re
import shutil
import threading
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import count
from pathlib import Path
from typing import Any

from ctc_align.errors import CtcAlignError, InputError, UsageError
from ctc_align.evaluate.utterance_files import file_shift_s
from ctc_align.files import from_dict, rendered
from ctc_align.files.corrections import BEFORE, path_beside, short_stem
from ctc_align.files.json_files import check_format, json_bytes, parse_object, read_object
from ctc_align.files.whole_files import is_link, placing, remove_abandoned_part
from ctc_align.reading import MOST_S, as_number, open_input, parse_json
from ctc_align.serve.access import RefusedError
from ctc_align.serve.uploads import MOST_BYTES
from ctc_align.sources.named_recordings import fitting_recording, named_ends
from ctc_align.text.characters import DIRECTION_MARKS, printable
from ctc_align.types import FITS, FORMAT, Alignment, Region, is_to_check

MOST_ALIGNMENTS = 20_000
_NUMBERED = re.compile(rf"(?P<stem>.+){re.escape(BEFORE)}(-[0-9]+)?")
HEAD_BYTES = 4096
ROUNDED_S = 0.001
"""By rounding, times of a correction may differ this much from those of the alignment."""
MOST_NAME_BYTES = 200
"""Longest name of a saved alignment.

With `.before.json` and a number it fits into the 255 bytes of a file name.
"""
_DRIVE = re.compile(r"[A-Za-z]:")
_UNASKED = re.compile("[\x00-\x1f\x7f-\x9f\ud800-\udfff]")
"""Characters that the address of a file cannot have.

They are control characters, and bytes that are not UTF-8.
"""


class AlignmentFolder:
    """Alignments below a folder, by their ids: the path from there, with `/`, without `.json`.

    Args:
        root: the folder.
        audio_root: another folder whose recordings may be played, or None.

    Raises:
        UsageError: there is no such folder.
    """

    def __init__(self, root: str | Path, audio_root: str | Path | None = None) -> None:
        self.root = _folder(root, "FOLDER")
        if audio_root is None:
            self.audio_roots = [self.root]
        else:
            self.audio_roots = [self.root, _folder(audio_root, "--audio")]
        self._rows: dict[str, tuple[str, dict[str, Any] | None]] = {}
        self._listing = threading.Lock()
        self._saving = threading.Lock()

    def listing(self) -> dict[str, Any]:
        """Return all alignments of the folder, and how much of it is not listed, as JSON values.

        `alignments` has a row for each, the worst first: those that cannot be opened, with the
        reason as `error`, then by `fit`, then by loss per token. At most `MOST_ALIGNMENTS` are
        listed. The words of a file are only checked when it is opened. `left_out` has the numbers
        of other JSON files, of versions before a correction, of hidden folders and links to
        folders, and of JSON files beyond the limit. Files that did not change are not read again.
        Unfinished files of programs that were killed are removed.

        Raises:
            RefusedError: 503, the folder is gone.
        """
        left_out = Counter(dict.fromkeys(("other", "before", "folders", "beyond"), 0))
        with self._listing:
            found: dict[str, tuple[str, dict[str, Any] | None]] = {}
            rows: dict[str, dict[str, Any]] = {}
            for name in self._names(left_out):
                if left_out["beyond"]:
                    left_out["beyond"] += 1
                    continue
                found[name] = self._stamped_row(name)
                row = found[name][1]
                if row is None:
                    left_out["other"] += not _is_hidden(name)
                elif len(rows) == MOST_ALIGNMENTS:
                    left_out["beyond"] += 1
                else:
                    rows[name] = row
            self._rows = found
        by_short_name = {_short_name(name): row for name, row in rows.items()}
        shown = [row for row in rows.values() if not _is_before(row, by_short_name)]
        left_out["before"] = len(rows) - len(shown)
        return {"alignments": sorted(shown, key=_badness), "left_out": dict(left_out)}

    def _names(self, left_out: Counter[str]) -> Iterator[str]:
        """Yield the names of all JSON files; count the folders that are not looked into.

        Raises:
            RefusedError: 503, the folder is gone, or cannot be read.
        """
        self.require_root()

        def count_folder(error: OSError) -> None:
            if error.filename == os.fspath(self.root):
                raise self._lost(error.strerror or str(error))
            left_out["folders"] += 1

        for folder, folders, files in os.walk(self.root, onerror=count_folder):
            inside = [
                name
                for name in folders
                if not name.startswith(".") and not is_link(Path(folder, name))
            ]
            left_out["folders"] += len(folders) - len(inside)
            folders[:] = sorted(inside)
            for file in sorted(files):
                remove_abandoned_part(Path(folder, file))
                if file.endswith(".json") and file != ".json":
                    yield Path(folder, file.removesuffix(".json")).relative_to(self.root).as_posix()

    def _stamped_row(self, name: str) -> tuple[str, dict[str, Any] | None]:
        """Return the row of a file after its tag; the row is None for other JSON.

        The tag is "" for what is read again.
        """
        known = self._rows.get(name, ("", None))
        try:
            tag = _tag_of((self.root / f"{name}.json").stat())
            if known[0] == tag:
                return known
            return (tag, self._row(name, tag))
        except (OSError, RefusedError) as error:
            return "", _faulty_row(name, self._reason_not_opened(name, error))

    def _row(self, name: str, tag: str) -> dict[str, Any] | None:
        """Return the figures of an alignment, None for other JSON.

        An alignment that cannot be opened has its `error` instead.

        Raises:
            OSError: it cannot be read.
            RefusedError: its name, or a link, leads out of the folder.
        """
        path = self._path(name)
        size = path.stat().st_size
        with open_input(path) as file:
            head = file.read(HEAD_BYTES)
        if FORMAT.encode() not in head and (_is_hidden(name) or _is_other_json(head, size)):
            return None
        if size > MOST_BYTES:
            return _faulty_row(
                name, f"expected at most {MOST_BYTES >> 20} MiB, got {size >> 20} MiB"
            )
        row = _faulty_row(name, "")
        try:
            data = read_object(path)
            row |= {**alignment_row(data), "tag": tag}
            has_words = isinstance(data.get("words"), list)
            from_dict({**data, "words": []} if has_words else data, f"{name}.json")
        except CtcAlignError as error:
            reason = str(error).replace(f"{self.root}{os.sep}", "")
            row["error"] = printable(" ".join(reason.split()))
        return row

    def _reason_not_opened(self, name: str, error: OSError | RefusedError) -> str:
        """Return why a file in the folder cannot be opened by its name."""
        if not is_plain_name(name):
            return (
                "its name has characters that no address can have, such as a line break or a"
                " backslash: rename it"
            )
        if is_link(self.root / f"{name}.json"):
            return "is a link that leads out of the folder, or nowhere"
        if isinstance(error, OSError):
            return f"cannot be read: {error.strerror or error}"
        return "is no file"

    def require_root(self) -> None:
        """Raise RefusedError (503) if the folder is gone."""
        if not self.root.is_dir():
            raise self._lost("is gone")

    def _lost(self, why: str) -> RefusedError:
        said = (
            f"{printable(self.root.name)}: the folder of this server cannot be read: {why}; put it"
            " back, or start"
        )
        return RefusedError(503, f"{said} the server with the place where it is now")

    def read(self, name: str) -> Alignment:
        """Return an alignment.

        Raises:
            RefusedError: 404, no file has this name.
            InputError: the file exists, but is damaged, or no alignment.
        """
        return from_dict(read_object(self._path(name)), f"{shown_name(name)}.json")

    def words(self) -> Iterator[dict[str, Any]]:
        """Yield the words to check of alignments that nobody has checked.

        Those of the worst alignment come first.
        """
        for row in self.listing()["alignments"]:
            if row["to_check"] and not row["checked"] and not row["error"]:
                try:
                    tag = self.tag(row["id"])
                    data = read_object(self._path(row["id"]))
                    alignment = from_dict(data, row["id"])
                except (CtcAlignError, RefusedError, OSError):
                    continue
                yield from words_to_check(
                    data, alignment, {"folder": row["id"], "name": row["name"], "tag": tag}
                )

    def size(self, name: str) -> int:
        """Return the bytes of an alignment's file; raise RefusedError (404) without one."""
        return self._path(name).stat().st_size

    def tag(self, name: str) -> str:
        """Return the tag (ETag) of an alignment's file as it is now.

        It raises RefusedError (404) if there is no file.
        """
        return _tag_of(self._path(name).stat())

    def save(self, name: str, was: str | None, data: Mapping[str, Any]) -> str:
        """Replace an alignment by its correction, and return its new tag.

        NAME.before.json is the version before the first correction. `was` is the tag that the
        correction began with; None: it replaces whatever is there.

        Raises:
            RefusedError: 412, the file has another tag.
            RefusedError: 404, no alignment has this name; others, and InputError, as
                `read_correction`.
            OutputError: it cannot be written; then nothing has changed.
        """
        with self._saving:
            check_tag(was, self.tag(name))
            self._write(name, data, self.read(name))
            return self.tag(name)

    def mend(self, name: str, was: str | None, changes: Mapping[str, Any]) -> str:
        """Change words of an alignment, or its sign-off, as `mended` does, and return its new tag.

        Arguments and errors as for `save`, and as for `mended`.
        """
        with self._saving:
            check_tag(was, self.tag(name))
            data = read_object(self._path(name))
            if (after := mended(data, changes)) != data:
                self._write(name, after, from_dict(data, f"{shown_name(name)}.json"))
            return self.tag(name)

    def _write(self, name: str, data: Mapping[str, Any], current: Alignment) -> None:
        """Write a correction (its JSON) of the current alignment; raises as `save`."""
        corrected = read_correction(data, current)
        new = correction_bytes(data)
        path = self._path(name)
        if is_link(self.root / f"{name}.json"):
            raise RefusedError(
                409,
                f"{shown_name(name)}: is a link, and is not written; save the file that it"
                " leads to",
            )
        before = _path_before(path, corrected.utterance)
        is_only_signed_off = replace(corrected, checked=current.checked) == current
        if is_only_signed_off or os.path.lexists(before):
            targets = [path]
        else:
            targets = [before, path]
        with open_input(path) as file:
            old = file.read()
        with placing(targets, sync=True) as parts:
            for target, part in parts:
                with open(part, "xb") as written:
                    written.write(old if target == before else new)

    def keep(self, alignment: Alignment, recording: Path, filename: str) -> str:
        """Put an alignment and its recording into the folder, under a name that is free.

        Return the alignment's id.

        Raises:
            OutputError: they cannot be written; then neither exists.
            RefusedError: 503, the folder is gone.
        """
        from ctc_align.sources.transcribed_folders import MEDIA, SOUND

        self.require_root()
        wanted = re.sub(r"[/\\:]", "_", alignment.utterance).lstrip(".") or "recording"
        wanted = wanted.encode("utf-8", "replace")[:MOST_NAME_BYTES].decode("utf-8", "ignore")
        suffix = Path(filename).suffix
        if suffix.casefold() not in SOUND | MEDIA:
            suffix = ".audio"
        with self._saving:
            for number in count(1):
                name = wanted if number == 1 else f"{wanted}-{number}"
                # the recording first: a kill between the two leaves no alignment without its sound
                targets = [self.root / f"{name}{suffix}", self.root / f"{name}.json"]
                if not any(map(os.path.lexists, targets)):
                    break
            with placing(targets, sync=True) as parts:
                for target, part in parts:
                    if target == targets[0]:
                        shutil.copyfile(recording, part)
                    else:
                        part.write_bytes(
                            rendered(replace(alignment, audio=targets[0].name), "json")
                        )
        return name

    def audio(self, name: str, alignment: Alignment) -> Path | None:
        """Return the recording that an alignment names, None unless it is in our folders.

        These are the folder and the folder of recordings. The path itself takes precedence, then
        its longest ending that exists; a file of a different length is a different recording: see
        `fitting_recording`.
        """
        ends = named_ends(alignment.audio)
        if not ends:
            return None
        ends.insert(-1, Path(name).parent / ends[-1])
        bases = (self._path(name).parent, *self.audio_roots)
        paths = [bases[0] / alignment.audio, *(base / end for end in ends for base in bases)]
        return fitting_recording(filter(None, map(self._inside, paths)), alignment)[0]

    def _inside(self, path: Path) -> Path | None:
        """Return the file that a path leads to.

        It is None unless the file lies in one of the server's folders.
        """
        try:
            found = path.resolve(strict=True)
        except (OSError, ValueError, RuntimeError):
            return None
        if found.is_file() and any(map(found.is_relative_to, self.audio_roots)):
            return found
        return None

    def _path(self, name: str) -> Path:
        """Return the file of an alignment, checked to be inside the folder.

        Raises:
            RefusedError: 404, whatever is wrong with the name; 503, the folder is gone.
        """
        self.require_root()
        refusal = RefusedError(404, "no such alignment in the folder")
        if not is_plain_name(name):
            raise refusal
        try:
            found = (self.root / f"{name}.json").resolve(strict=True)
        except (OSError, ValueError, RuntimeError):
            raise refusal from None
        if not found.is_relative_to(self.root) or not found.is_file():
            raise refusal
        return found


def _tag_of(status: os.stat_result) -> str:
    return f'"{status.st_mtime_ns:x}-{status.st_size:x}"'


def _short_name(name: str) -> str:
    """Return the name of an alignment as it is in the names of its other versions."""
    folder, slash, stem = name.rpartition("/")
    return f"{folder}{slash}{short_stem(stem)}"


def _is_before(row: Mapping[str, Any], rows: Mapping[str, Mapping[str, Any]]) -> bool:
    """Return whether a row describes an alignment as it was before a correction.

    The correction, of the same utterance, was saved since; `rows` are by their short names.
    """
    match = _NUMBERED.fullmatch(row["id"])
    return match is not None and rows.get(match["stem"], {}).get("utterance") == row["utterance"]


def _path_before(path: Path, utterance: str) -> Path:
    """Return the path for an alignment as it was before its first correction.

    It is never that of a different alignment.
    """
    for number in count(1):
        before = path_beside(path, BEFORE if number == 1 else f"{BEFORE}-{number}")
        try:
            if not os.path.lexists(before) or read_object(before).get("utterance") == utterance:
                break
        except InputError:
            continue
    return before


CORRECTED = "the corrected alignment"
"""The name of a correction in error messages."""


def read_correction(data: Mapping[str, Any], current: Alignment) -> Alignment:
    """Return the corrected alignment in a JSON object, checked as a whole before anything is saved.

    Raises:
        InputError: it is not an alignment of this format, or parts of its text are in no word.
        RefusedError: 409, it belongs to a different utterance or part from the current alignment.
    """
    check_format(data, CORRECTED)
    corrected = from_dict(dict(data), CORRECTED)
    check_same_part(corrected, current)
    outside = _text_outside_words(corrected)
    if len(outside) > len(_text_outside_words(current)):
        raise InputError(
            f"{CORRECTED}: expected each word of `text` in `words`, got none for {outside[:40]!r}"
        )
    return corrected


def _text_outside_words(alignment: Alignment) -> str:
    """Return the characters of the text, without spaces, that belong to no word."""
    ends = [0, *(word.char_end for word in alignment.words)]
    starts = [*(word.char_start for word in alignment.words), len(alignment.text)]
    return "".join(
        "".join(alignment.text[end:start].split()) for end, start in zip(ends, starts, strict=True)
    )


def correction_bytes(data: Mapping[str, Any]) -> bytes:
    """Return the file of a correction, read back as the folder will read it.

    Raises:
        RefusedError: 400, it contains a number that is not finite; 413, it is larger than the
            folder reads.
        InputError: it cannot be read back.
    """
    try:
        written = json_bytes(
            {"format": FORMAT, **data}
        )  # the format first: files are recognised by their beginning
    except ValueError:
        raise RefusedError(400, f"{CORRECTED}: expected finite numbers in all fields") from None
    if len(written) > MOST_BYTES:
        raise RefusedError(413, f"{CORRECTED}: expected at most {MOST_BYTES >> 20} MiB of JSON")
    from_dict(parse_object(written, CORRECTED), CORRECTED)
    return written


def check_tag(was: str | None, tag: str) -> None:
    """Raise RefusedError (412) unless a correction began with what is there.

    `was` is the header If-Match.
    """
    if was is None:
        seen = {"*"}
    else:
        seen = {one.strip().removeprefix("W/") for one in was.split(",")}
    if not seen & {"*", tag}:  # "W/": a proxy that compresses makes tags weak
        raise RefusedError(
            412,
            "it was changed elsewhere since it was opened here: save it as JSON, and load it again",
        )


def check_same_part(corrected: Alignment, aligned: Alignment) -> None:
    """Raise RefusedError (409) unless two alignments are of the same speech.

    It is the same seconds of one utterance's recording.
    """
    from ctc_align.files.pages import choice_of

    if corrected.utterance != aligned.utterance:
        raise RefusedError(409, "the correction is of another utterance")
    times = (corrected.offset_s - aligned.offset_s, corrected.duration_s - aligned.duration_s)
    if max(map(abs, times)) > ROUNDED_S or choice_of(corrected) != choice_of(aligned):
        raise RefusedError(
            409,
            "the correction is of another part of the recording, or of another channel or track",
        )


def _folder(path: str | Path, what: str) -> Path:
    try:
        found = Path(path).resolve(strict=True)
    except (OSError, ValueError) as error:
        raise UsageError(f"{what} {path}: no such folder") from error
    if not found.is_dir():
        raise UsageError(f"{what} {path}: expected a folder, got a file")
    return found


def is_plain_name(name: str) -> bool:
    r"""Return whether a name can only mean a file below a folder, and not one in a hidden folder.

    >>> is_plain_name("book/.chapter 1"), is_plain_name(".book/x"), is_plain_name("../x"), is_plain_name("C:\\x")
    (True, False, False, False)
    """
    *folders, file = name.split("/")
    wrong = (
        "\\" in name
        or _DRIVE.match(name)
        or _UNASKED.search(name)
        or (os.name == "nt" and ":" in name)
    )
    return (
        not wrong
        and file.strip(".") != ""
        and all(part and not part.startswith(".") for part in folders)
    )


def shown_name(name: str) -> str:
    r"""Return a name as it is shown.

    Marks of right-to-left scripts stay; what else changes its order is escaped.

    >>> shown_name("a\u200f"), shown_name("a\u202eb")
    ('a\u200f', 'a\\u202eb')
    """
    return printable(name, keep=DIRECTION_MARKS)


def _is_hidden(name: str) -> bool:
    return name.rpartition("/")[2].startswith(".")


def _is_other_json(head: bytes, size: int) -> bool:
    """Return whether a file that begins like this may be JSON of another kind.

    The beginning lacks the format of alignments.
    """
    if size > HEAD_BYTES:
        return head.lstrip(b"\xef\xbb\xbf \t\r\n")[:1] in (b"{", b"[")
    try:
        parse_json(head.decode("utf-8-sig"))
    except ValueError:
        return False
    return True


def _faulty_row(name: str, reason: str) -> dict[str, Any]:
    """Return the row of a file that cannot be opened."""
    id = name if is_plain_name(name) else printable(name)
    return {**alignment_row({}), "id": id, "name": shown_name(name), "tag": "", "error": reason}


def alignment_row(data: Mapping[str, Any]) -> dict[str, Any]:
    """Return the figures of an alignment (its JSON) that say where to look first.

    A figure that it lacks is None. `confidence` is the mean of the words', `least` the lowest,
    `unexplained_s` the seconds of speech without words, `by_hand` the words that a person fixed,
    `to_check` those that a person should look at.
    """
    words = [word for word in _listed(data.get("words")) if isinstance(word, dict)]
    confidences = [
        value for word in words if (value := _number(word.get("confidence"))) is not None
    ]
    unexplained = [
        (_number(part.get("end_s")) or 0.0) - (_number(part.get("start_s")) or 0.0)
        for part in _listed(data.get("unexplained"))
        if isinstance(part, dict)
    ]
    fit = data.get("fit")
    config = data.get("config")
    least = (_number(config.get("min_confidence")) if isinstance(config, dict) else None) or 0.0
    return {
        "utterance": shown_name(str(data.get("utterance", ""))),
        "duration_s": _number(data.get("duration_s")),
        "loss_per_token": _number(data.get("loss_per_token")),
        "confidence": round(sum(confidences) / len(confidences), 4) if confidences else None,
        "least": min(confidences, default=None),
        "words": sum(word.get("status") == "aligned" for word in words),
        "skipped": sum(word.get("status") == "skipped" for word in words),
        "unexplained_s": round(sum(unexplained), 3),
        "fit": fit if fit in FITS else None,
        "by_hand": sum(word.get("by") == "hand" for word in words),
        "to_check": sum(
            is_to_check(_number(word.get("confidence")), word.get("by") or "", least)
            for word in words
        ),
        "checked": data.get("checked") is True,
        "text": shown_name(" ".join(str(data.get("text", ""))[:160].split())),
        "error": "",
    }


AROUND, AROUND_CHARS = 6, 200
"""Words before and after a word to check, and at most how many of their characters.

They say where the word is.
"""


def words_to_check(
    data: Mapping[str, Any], alignment: Alignment, source: Mapping[str, Any]
) -> Iterator[dict[str, Any]]:
    """Yield the words to check of an alignment, whose JSON is `data`, in the order of the text.

    Each is `source` with the word as it is in the JSON and its `index`, the text `before` and
    `after` it, the seconds between its neighbours (`room_s`), the seconds from its times to those
    of the recording (`shift_s`), and `why`.
    """
    words = data["words"]
    text = alignment.text
    first_s = file_shift_s(alignment)
    shift_s = alignment.offset_s - first_s
    for index, word in enumerate(words):
        if not is_to_check(word["confidence"], word.get("by") or "", alignment.min_confidence):
            continue
        nearby = words[max(0, index - AROUND) : index], words[index + 1 : index + 1 + AROUND]
        ends = [
            one["end_s"]
            for one in nearby[0]
            if one["end_s"] is not None and one["end_s"] <= word["start_s"]
        ]
        starts = [
            one["start_s"]
            for one in nearby[1]
            if one["start_s"] is not None and one["start_s"] >= word["end_s"]
        ]
        begin, end = word["char_start"], word["char_end"]
        first = nearby[0][0]["char_start"] if index > AROUND else 0
        if index + AROUND < len(words) - 1:
            last = nearby[1][-1]["char_end"]
        else:
            last = len(text)
        yield {
            **source,
            "index": index,
            "word": word,
            "before": shown_name(text[max(first, begin - AROUND_CHARS) : begin]),
            "after": shown_name(text[end : min(last, end + AROUND_CHARS)]),
            "room_s": [
                max(ends, default=first_s),
                min(starts, default=first_s + alignment.duration_s),
            ],
            "shift_s": shift_s,
            "why": next(
                (part.reason for part in alignment.regions if _holds(part, begin, end)), ""
            ),
        }


def _holds(region: Region, begin: int, end: int) -> bool:
    first, last = region.char_start, region.char_end
    return first is not None and last is not None and first <= begin and end <= last


def mended(data: dict[str, Any], changes: Mapping[str, Any]) -> dict[str, Any]:
    """Return an alignment, its JSON, with another sign-off, or with words that a person has mended.

    Args:
        changes: `checked`, true or false; `words`, a list of objects with the `index` of a word,
            and this word as it `was` and as it `is`. Its text stays.

    Raises:
        RefusedError: 400, the changes have another form; 409, a word is no longer as it was.
    """
    checked = changes.get("checked")
    words = changes.get("words", [])
    known = (
        isinstance(words, list)
        and isinstance(checked, bool | None)
        and not changes.keys() - {"checked", "words"}
    )
    if not known or not all(
        isinstance(one, dict) and one.keys() == {"index", "was", "is"} for one in words
    ):
        raise RefusedError(
            400, 'expected "checked", true or false, or "words", each with "index", "was" and "is"'
        )
    there = list(_listed(data.get("words")))
    for one in words:
        index, was, now = one["index"], one["was"], one["is"]
        if type(index) is not int or not 0 <= index < len(there) or there[index] != was:
            raise RefusedError(
                409, "this word was changed elsewhere meanwhile: load the list again"
            )
        if not isinstance(now, dict) or any(
            now.get(key) != was[key] for key in ("text", "char_start", "char_end")
        ):
            raise RefusedError(
                400, "expected the word with its text as it was: correct texts in the page"
            )
        there[index] = now
    result = {**data, "words": there}
    if checked is not None:
        result.pop("checked", None)
    return {**result, "checked": True} if checked else result


def _badness(row: Mapping[str, Any]) -> tuple[bool, float, float, str]:
    if row["fit"] in FITS:
        fit = -FITS.index(row["fit"])
    else:
        fit = 1
    loss = row["loss_per_token"]
    return not row["error"], fit, -loss if loss is not None else float("-inf"), row["id"]


def _listed(value: Any) -> Sequence[Any]:
    return value if isinstance(value, list) else ()


def _number(value: Any) -> float | None:
    """Return a number that can be added up and shown; None for anything else."""
    try:
        number = as_number(value)
    except ValueError:
        return None
    return number if abs(number) <= MOST_S else None
