"""Transcripts of other programs, whose segments or words have times and speakers: a table of kinds.

To read another kind, add its reader and its row of `KINDS`. A reader yields segments in any order;
those without a time get it from their neighbours. JSON has a table of its own (`json_transcripts`).
"""

from __future__ import annotations

import csv
import functools
import html
import io
import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import groupby, pairwise
from operator import attrgetter
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from ctc_align.errors import InputError, TranscriptError, WrongFileError
from ctc_align.files.labels import audacity_tiers
from ctc_align.files.sentences import SENTENCE, break_cost
from ctc_align.files.tiers import is_silence
from ctc_align.reading import as_seconds, clock_seconds
from ctc_align.text.captions import transcript_of_cues
from ctc_align.text.characters import lazy_regex, word_set
from ctc_align.text.languages import known_code
from ctc_align.types import SEGMENTS, SourceCue, Subtitles, Transcript

if TYPE_CHECKING:
    from xml.etree.ElementTree import Element

_PAUSE_S = 1.0
_LONGEST_S = 20.0
"""Words with a longer pause between them, or this long after the first one, belong to different
segments."""
_MS_PER_S = 1000.0
_HTK_PER_S = 1e7
_LEAST_HTK_UNITS = 50_000
"""The least median length of HTK's labels, 5 ms; if the units are samples, as in TIMIT, words are
shorter."""
_GIVE_WORDS = "give the words as a text file"


class Segment(NamedTuple):
    """A passage or a word with its times in the file, None if it has none, and its speaker.

    The text of a word begins with the space that stands before it.
    """

    start_s: float | None
    end_s: float | None
    text: str
    speaker: str = ""


class TranscriptKind(NamedTuple):
    """A kind of transcript.

    Attributes:
        name: in messages and in docs/transcripts.md.
        recognise: returns whether a text is of this kind.
        read: takes the text and the file's name; yields its segments.
    """

    name: str
    recognise: Callable[[str], object]
    read: Callable[[str, str], Iterable[Segment]]


def foreign_transcript(text: str, source: str) -> Transcript | None:
    """Return the transcript in a text of another program; None if it is of no kind in the table.

    Raises:
        TranscriptError: a time is no number, or there are no words; the message names the file.
        WrongFileError: the file is about several recordings.
    """
    for kind in KINDS:
        if kind.recognise(text):
            try:
                return segments_transcript(kind.read(text, source), language_of_chat(text))
            except (ValueError, ArithmeticError, IndexError, csv.Error) as error:
                raise TranscriptError(
                    f"{source}: {kind.name} that cannot be read: {error}"
                ) from None
    return None


def segments_transcript(segments: Iterable[Segment], language: str = "") -> Transcript:
    """Return segments, in order of time, as the cues of a transcript.

    Without any times, the transcript is a text without cues.

    >>> segments_transcript([Segment(2.0, 3.0, "there"), Segment(0.5, None, "Hello", "Ann")]).text
    'Hello\\nthere'
    """
    rows = [
        segment._replace(text="\n".join(filter(str.strip, segment.text.strip().splitlines())))
        for segment in segments
    ]
    is_timed = any((segment.start_s, segment.end_s) != (None, None) for segment in rows)
    rows = [row for row in _with_times(rows) if row.text]
    if not is_timed:
        return Transcript("\n".join(row.text for row in rows), language=language)
    cues = []
    for row in rows:
        speaker = " ".join(row.speaker.split())
        cue = SourceCue(0, 0, row.start_s or 0.0, row.end_s or 0.0, speaker=speaker)
        cues.append((cue, row.text))
    return replace(transcript_of_cues(cues, Subtitles(SEGMENTS)), language=language)


def _with_times(rows: Sequence[Segment]) -> list[Segment]:
    """Return segments with times, by their starts; a missing time is that of a neighbour."""
    starts = [row.start_s for row in rows[1:]]
    found: list[Segment] = []
    before_s = 0.0
    for row, next_s in zip(rows, [*starts, None]):
        start_s = before_s if row.start_s is None else max(row.start_s, 0.0)
        end_s = row.end_s
        if end_s is None:
            end_s = start_s if next_s is None else next_s
        before_s = max(end_s, start_s)
        found.append(row._replace(start_s=start_s, end_s=before_s))
    return sorted(found, key=attrgetter("start_s"))


def join_words(words: Iterable[Segment]) -> Iterator[Segment]:
    """Yield words as segments, which end at sentences, at pauses and where the speaker changes.

    >>> words = [Segment(0.0, 0.2, " Well", "A"), Segment(None, None, ".", "A"), Segment(0.3, 0.5, " Go", "A")]
    >>> [segment.text for segment in join_words(words)]
    ['Well.', 'Go']
    """
    joined: list[Segment] = []
    for word in words:
        if joined and word.text.strip() and _begins_segment(joined, word):
            yield _joined(joined)
            joined = []
        joined.append(word)
    if joined:
        yield _joined(joined)


def _begins_segment(before: Sequence[Segment], word: Segment) -> bool:
    """Return whether a word begins a segment after words, of which there is one."""
    first, last = before[0], before[-1]
    if word.speaker != last.speaker or _ends_sentence(last.text, word.text):
        return True
    if word.start_s is None or last.end_s is None:
        return False
    start_s = last.end_s if first.start_s is None else first.start_s
    return word.start_s - last.end_s > _PAUSE_S or word.start_s - start_s > _LONGEST_S


def _joined(words: Sequence[Segment]) -> Segment:
    """Return words as a segment, with the first and the last of their times."""
    starts = [word.start_s for word in words if word.start_s is not None]
    ends = [word.end_s for word in words if word.end_s is not None]
    text = "".join(word.text for word in words).strip()
    start_s = starts[0] if starts else None
    end_s = ends[-1] if ends else None
    return Segment(start_s, end_s, text, words[0].speaker)


def _ends_sentence(text: str, following: str) -> bool:
    """Return whether a sentence ends between a piece of text and a word.

    In most languages the word begins with a space.
    """
    words = text.split()
    after = following.split()
    if not words or not after or not (following[0].isspace() or words[-1][-1] in "。！？｡"):
        return False
    return break_cost(words[-1], " ", after[0]) == SENTENCE


def with_marks(words: Sequence[Segment], text: str) -> list[Segment]:
    """Return words with the marks and spaces that stand beside them in the whole text.

    If a word is not in the text, all stay as they are.

    >>> [word.text for word in with_marks([Segment(0.0, 0.1, "so"), Segment(0.1, 0.2, "be")], '"So, be it"')]
    ['"So,', ' be it"']
    """
    lower = text.lower()
    if len(lower) != len(text) or not words:
        return list(words)
    spans: list[tuple[int, int]] = []
    at = 0
    for word in words:
        bare = word.text.strip().lower()
        start = lower.find(bare, at)
        if start < 0:
            return list(words)
        at = start + len(bare)
        spans.append((start, at))
    edges = [0]
    for (_, end), (start, _) in pairwise(spans):
        space = max(text.rfind(" ", end, start), text.rfind("\n", end, start))
        edges.append(space if space >= 0 else start)
    pieces = (text[low:high] for low, high in pairwise([*edges, len(text)]))
    return [word._replace(text=piece) for word, piece in zip(words, pieces)]


# CHAT, of CHILDES and TalkBank: https://talkbank.org/0info/manuals/CHAT.html

_CHAT_LANGUAGES = lazy_regex(r"^@Languages:\s*([A-Za-z]{2,3})\b", re.MULTILINE)
_CHAT_LINE_END = lazy_regex(r"\r?\n(?=[@*%])")
_CHAT_UNDERLINING = lazy_regex("\x02[\x01\x02]")
_CHAT_TIER = lazy_regex(r"\*([^\s:]+):\s*(.*)", re.DOTALL)
_BULLET = lazy_regex('[\x15•](?:%(?:snd|mov):"[^"]*"_)?(\\d{1,12})_(\\d{1,12})[\x15•]')


def language_of_chat(text: str) -> str:
    """Return the first language of a transcript in CHAT; "" for any other text."""
    found = _CHAT_LANGUAGES.search(text, 0, 4000)
    return known_code(found[1]) if found else ""


def _read_chat(text: str, source: str) -> Iterator[Segment]:
    """Yield the main tiers, in parts with a bullet each.

    Without any bullet, they keep their names.
    """
    plain = _CHAT_UNDERLINING.sub("", text)
    tiers = filter(None, map(_CHAT_TIER.fullmatch, _CHAT_LINE_END.split(plain.strip())))
    is_timed = _BULLET.search(plain) is not None
    for tier in tiers:
        speaker, line = tier[1], " ".join(tier[2].split())
        if not is_timed:
            yield Segment(None, None, f"*{speaker}: {line}", speaker)
            continue
        *parts, rest = _BULLET.split(line)
        for part, start, end in zip(*[iter(parts)] * 3):
            yield Segment(int(start) / _MS_PER_S, int(end) / _MS_PER_S, part, speaker)
        yield Segment(None, None, rest, speaker)


# NIST: https://github.com/usnistgov/SCTK (STM), Rich Transcription 2009 (RTTM)

_NUMBER = r"\d+(?:\.\d*)?"
_STM_LINE = lazy_regex(
    rf"(?P<name>\S+)[ \t]+\S+[ \t]+(?=\S*[^\W\d])(?P<speaker>\S+)[ \t]+(?P<start>{_NUMBER})[ \t]+(?P<end>{_NUMBER})"
    r"(?:[ \t]+(?:<[^>]*(?:>\s*|\Z))?(?P<text>.*))?"
)
_STM_GAPS = ("inter_segment_gap", "excluded_region", "ignore_time_segment_in_scoring")
_ALTERNATIVES = lazy_regex(r"\{([^{}]*/[^{}]*)\}")
_RTTM_LINE = lazy_regex(
    r"(?:SPEAKER|LEXEME|NON-LEX|NON-SPEECH|SPKR-INFO|SEGMENT|NOSCORE|EDIT|FILLER|IP|SU|CB|A/P)(?:[ \t]+\S+){7,9}"
)
_RTTM_WORD = lazy_regex(
    r"LEXEME\s+(?P<name>\S+)\s+\S+\s+(?P<start>\S+)\s+(?P<length>\S+)\s+(?!<NA>\s)(?P<text>\S+)\s+\S+"
    r"\s+(?:<NA>|(?P<speaker>\S+)).*"
)


def _data_lines(text: str) -> Iterator[str]:
    """Yield the lines without comments (`;;`)."""
    for line in map(str.strip, text.splitlines()):
        if line and not line.startswith(";;"):
            yield line


def _recognise_lines(pattern: re.Pattern[str], text: str) -> bool:
    """Return whether a pattern matches each line of data, and there is one."""
    lines = _data_lines(text)
    first = next(lines, "")
    return pattern.fullmatch(first) is not None and all(map(pattern.fullmatch, lines))


def _rows(pattern: re.Pattern[str], text: str, before: str = "") -> Iterator[tuple[str, Segment]]:
    """Yield the segments in the lines that a pattern matches, each with its recording's name.

    The groups of the pattern have their fields; `before` stands before each text.
    """
    for match in filter(None, map(pattern.fullmatch, _data_lines(text))):
        fields = match.groupdict("")
        start_s = as_seconds(fields["start"])
        if "length" in fields:
            end_s = start_s + as_seconds(fields["length"])
        else:
            end_s = as_seconds(fields["end"])
        yield fields["name"], Segment(start_s, end_s, before + fields["text"], fields["speaker"])


def _of_one_recording(lines: Iterable[tuple[str, Segment]], source: str) -> list[Segment]:
    """Return the segments of the recording that the file is named after, or of the only one.

    Raises:
        WrongFileError: there are several recordings, none of which has the file's name.
    """
    by_name: dict[str, list[Segment]] = {}
    for name, segment in lines:
        by_name.setdefault(name, []).append(segment)
    if not by_name:
        raise ValueError(f"it has no words; {_GIVE_WORDS}")
    stem = Path(source).stem
    if len(by_name) > 1 and stem not in by_name:
        names = list(by_name)
        raise WrongFileError(
            f"{source}: expected the transcript of one recording, got those of {len(names)}"
            f" ({', '.join(names[:3])}{' …' * (len(names) > 3)}); write each into a file that is"
            " named after its recording"
        )
    return by_name.get(stem) or next(iter(by_name.values()))


def _read_stm(text: str, source: str) -> Iterable[Segment]:
    return _of_one_recording(
        (
            (name, row._replace(text=_first_readings(row.text)))
            for name, row in _rows(_STM_LINE, text)
            if row.speaker not in _STM_GAPS and row.text.lower() not in _STM_GAPS
        ),
        source,
    )


def _first_readings(words: str) -> str:
    """Return words with the first of some alternatives; in parentheses if nothing (`@`) is another.

    >>> _first_readings("so { @ / uh } we {I'm / I am}")
    "so (uh) we I'm"
    """
    while match := _ALTERNATIVES.search(words):  # the inner ones first
        readings = [part.strip() for part in match[1].split("/")]
        spoken = [part for part in readings if part not in ("", "@")]
        first = "".join(spoken[:1])
        if 0 < len(spoken) < len(readings):
            first = f"({first.strip('()')})"
        words = f"{words[: match.start()]}{first}{words[match.end() :]}"
    return words


def _read_rttm(text: str, source: str) -> Iterator[Segment]:
    words = _of_one_recording(_rows(_RTTM_WORD, text, " "), source)
    words.sort(key=attrgetter("speaker", "start_s"))
    for _, spoken in groupby(words, attrgetter("speaker")):
        yield from join_words(spoken)


# HTK (The HTK Book, 6.2): labels of words or sounds; a field after the score is the word that
# begins there

_HTK_LINE = lazy_regex(r"(\d{1,15})[ \t]+(\d{1,15})[ \t]+(\S+)(?:[ \t]+-?\d\S*)?(?:[ \t]+(\S+))?.*")
_HTK_SILENCE = word_set("sent-start sent-end !enter !exit pau h# <s> </s>")
_HTK_CONTEXT = lazy_regex(r"\S*?-([^+\s-]+)\+\S+")
_MLF_NAME = lazy_regex(r'"(.*)"')


def _recognise_htk(text: str) -> bool:
    """Return whether all lines are labels whose times ascend, in units of 100 ns by their lengths."""
    if not _recognise_lines(_HTK_LINE, text):
        return False
    rows = [line.split(None, 2) for line in _data_lines(text)]
    times = [int(time) for start, end, _ in rows for time in (start, end)]
    lengths = sorted(end - start for start, end in zip(times[::2], times[1::2]))
    is_of_labels = len(rows) > 1 or times[0] == 0  # "100 500000 dollars" is a text
    return (
        is_of_labels and times == sorted(times) and lengths[len(lengths) // 2] >= _LEAST_HTK_UNITS
    )


def _read_htk(text: str, source: str) -> Iterable[Segment]:
    rows = [match.groups() for match in map(_HTK_LINE.match, _data_lines(text)) if match]
    words = [(start, word) for start, _, _, word in rows if word]
    if words:
        ends = [*(start for start, _ in words[1:]), rows[-1][1]]
        labels = [(start, end, word) for (start, word), end in zip(words, ends)]
    else:
        labels = [(start, end, label) for start, end, label, _ in rows]
    # the sound of a label with its neighbours: "ao" of "k-ao+l"
    named = [(start, end, _HTK_CONTEXT.sub(r"\1", label)) for start, end, label in labels]
    return join_words(
        Segment(int(start) / _HTK_PER_S, int(end) / _HTK_PER_S, f" {label}")
        for start, end, label in named
        if not is_silence(label) and label.casefold() not in _HTK_SILENCE
    )


def _read_mlf(text: str, source: str) -> Iterable[Segment]:
    return _of_one_recording(_mlf_rows(text, source), source)


def _mlf_rows(text: str, source: str) -> Iterator[tuple[str, Segment]]:
    name = ""
    block: list[str] = []
    for line in map(str.strip, text.strip().splitlines()[1:]):
        title = _MLF_NAME.fullmatch(line)
        if title:
            name = Path(title[1]).stem
            block = []
        elif line != ".":
            block.append(line)
        elif _HTK_LINE.fullmatch(block[0] if block else ""):
            for segment in _read_htk("\n".join(block), source):
                yield name, segment
        else:
            yield name, Segment(None, None, " ".join(block))


# BAS Partitur: https://www.bas.uni-muenchen.de/forschung/Bas/BasFormatseng.html

_PARTITUR_LINE = lazy_regex(r"([A-Z0-9]{3}):[ \t]*(.*)")
_PARTITUR_MARKS = lazy_regex(r"<[^<>\s]*>\s*")


def _read_partitur(text: str, source: str) -> Iterator[Segment]:
    """Yield the turns (TRN), otherwise the words (ORT) with the times of their words or sounds."""
    tiers: dict[str, list[list[str]]] = defaultdict(list)
    for match in filter(None, map(_PARTITUR_LINE.fullmatch, map(str.strip, text.splitlines()))):
        if match[2]:
            tiers[match[1]].append(match[2].split())
    words = {index: " ".join(written) for index, *written in tiers["TRO"] or tiers["ORT"]}
    who = {index: " ".join(name) for indices, *name in tiers["SPK"] for index in indices.split(",")}
    default = " ".join((tiers["SPN"] or [[]])[0])
    rate = as_seconds((tiers["SAM"] or [["16000"]])[0][0])
    starts: dict[str, float] = {}
    ends: dict[str, float] = {}
    for start, length, index, *_ in tiers["WOR"] or tiers["MAU"]:
        starts.setdefault(index, int(start) / rate)
        ends[index] = (int(start) + int(length)) / rate
    if not words and not tiers["TRN"]:
        raise ValueError(f"it has no words (tiers TRN, TRO or ORT); {_GIVE_WORDS}")
    for start, length, link, *written in tiers["TRN"]:
        indices = link.split(",")
        line = _PARTITUR_MARKS.sub("", " ".join(written))
        line = line or " ".join(words.get(index, "") for index in indices)
        end_s = (int(start) + int(length)) / rate
        yield Segment(int(start) / rate, end_s, line, who.get(indices[0], default))
    if not tiers["TRN"]:
        yield from join_words(
            Segment(starts.get(index), ends.get(index), f" {word}", who.get(index, default))
            for index, word in words.items()
            if not _PARTITUR_MARKS.fullmatch(word)
        )


# Tables and subtitles

_CLOCK = r"((?:\d{1,4}:){1,2}\d{1,4}(?:[.,]\d+)?)"
_LABEL = lazy_regex(r"(\d+\.\d+)[ 	]+(\d+\.\d+)(?:	|[ 	]+(?=\S))")
_SBV_TIMES = lazy_regex(rf"^[^\S\n]*{_CLOCK},{_CLOCK}[^\S\n]*$", re.MULTILINE)


def _read_table(text: str, source: str) -> Iterator[Segment]:
    """Yield the rows of Whisper's TSV, or of whisper.cpp's CSV.

    Their times are milliseconds, in tables of other programs seconds with decimals.
    """
    rows = io.StringIO(text.strip(), newline=None)
    head = rows.readline()
    is_tsv = "\t" in head
    names = [name.strip() for name in head.split("\t" if is_tsv else ",")]
    if is_tsv:
        table = csv.DictReader(rows, names, delimiter="\t", quoting=csv.QUOTE_NONE)
    else:
        table = csv.DictReader(rows, names)
    table_rows = list(table)
    is_seconds = any("." in f"{row['start']}{row['end']}" for row in table_rows)
    per_s = 1.0 if is_seconds else _MS_PER_S
    for row in table_rows:
        start_s, end_s = (as_seconds(row[key] or 0) / per_s for key in ("start", "end"))
        yield Segment(start_s, end_s, row["text"] or "", row.get("speaker") or "")


def _recognise_labels(text: str) -> bool:
    """Return whether all lines are labels of Audacity, whose times always have decimals.

    Without tabs, their times must ascend.
    """
    lines = [line for line in text.splitlines() if line.strip() and not line.startswith("\\")]
    found = list(filter(None, map(_LABEL.match, lines)))
    times = [tuple(map(float, match.groups())) for match in found]
    is_track = all("	" in match[0] for match in found) or (
        times == sorted(times) and all(start < end for start, end in times)
    )
    return 0 < len(lines) == len(found) and is_track


def _read_labels(text: str, source: str) -> Iterator[Segment]:
    lines = (_LABEL.sub(r"\1	\2	", line, count=1) for line in text.splitlines())
    try:
        (tier,) = audacity_tiers("\n".join(lines).encode(), source)
    except InputError as error:
        raise TranscriptError(str(error)) from None
    for row in tier.intervals:
        yield Segment(row.start_s, row.end_s, row.label)


def _read_sbv(text: str, source: str) -> Iterator[Segment]:
    _, *parts = _SBV_TIMES.split(text)
    for start, end, lines in zip(*[iter(parts)] * 3):
        words = lines.replace("[br]", "\n")
        yield Segment(clock_seconds(start), clock_seconds(end), words)


# XML: Transcriber (trans-14.dtd) and YouTube's timed text (srv1, srv2, srv3)

_XML_HEAD = re.compile(
    rb"\s*(?:<\?xml[^>]*>\s*)?(?:<!--.*?-->\s*)*(?:<!DOCTYPE\s+Trans\b|<Trans\b|<timedtext\b|<transcript>)",
    re.DOTALL,
)
_XML_LANGUAGE = "{http://www.w3.org/XML/1998/namespace}lang"


def xml_transcript(data: bytes, source: str) -> Transcript | None:
    """Return the transcript in XML of Transcriber or of YouTube; None for any other file.

    The bytes are decoded as the XML says.

    Raises:
        TranscriptError: it is not well-formed, declares entities, or a time is no number.
    """
    if not _XML_HEAD.match(data.removeprefix(b"\xef\xbb\xbf")):
        return None
    from xml.etree import ElementTree  # a text needs no parser of XML

    try:
        if b"<!ENTITY" in data:
            raise ValueError("it declares entities, which no transcript needs")
        root = ElementTree.fromstring(data)
        segments = _turns(root) if root.tag == "Trans" else _timed_texts(root)
        return segments_transcript(segments, known_code(root.get(_XML_LANGUAGE, "")))
    except (ValueError, LookupError, ElementTree.ParseError) as error:
        raise TranscriptError(f"{source}: XML that cannot be read: {error}") from None


def _turns(root: Element) -> Iterator[Segment]:
    """Yield the parts of Transcriber's turns, each up to the next time (`Sync`) or speaker (`Who`)."""
    names = {each.get("id", ""): each.get("name", "") for each in root.iter("Speaker")}
    for turn in root.iter("Turn"):
        speakers = [names.get(id, id) for id in turn.get("speaker", "").split()]
        first = "".join(speakers[:1])
        found = [Segment(as_seconds(turn.get("startTime", 0)), None, turn.text or "", first)]
        for child in turn:
            if child.tag == "Sync":
                found.append(Segment(as_seconds(child.get("time", 0)), None, "", first))
            elif child.tag == "Who":
                number = int(child.get("nb", 1))
                speaker = "".join(speakers[number - 1 : number])
                found.append(Segment(found[-1].start_s, None, "", speaker))
            found[-1] = found[-1]._replace(text=found[-1].text + (child.tail or ""))
        starts = [segment.start_s or 0.0 for segment in found]
        end_s = as_seconds(turn.get("endTime", 0))
        for index, (segment, start_s) in enumerate(zip(found, starts)):
            later = (each for each in starts[index:] if each > start_s)
            text = html.unescape(segment.text)
            yield segment._replace(end_s=next(later, end_s), text=text)


def _timed_texts(root: Element) -> Iterator[Segment]:
    """Yield the passages of YouTube: `text`, in seconds (srv1) or not (srv2), and `p` (srv3)."""
    for passage in root.iter():
        if passage.tag not in ("text", "p"):
            continue
        for line_break in passage.iter("br"):
            line_break.text = "\n"
        words = html.unescape("".join(passage.itertext()))
        if "start" in passage.attrib:
            start_s = as_seconds(passage.get("start"))
            yield Segment(start_s, start_s + as_seconds(passage.get("dur", 0)), words)
        elif "t" in passage.attrib:
            start_s = as_seconds(passage.get("t")) / _MS_PER_S
            yield Segment(start_s, start_s + as_seconds(passage.get("d", 0)) / _MS_PER_S, words)


_CHAT_HEAD = re.compile(r"\s*@(?:UTF8|Begin|Font|PID|Languages)\b")
_MLF_HEAD = re.compile(r"\s*#!MLF!#")
_PARTITUR_HEAD = re.compile(r"\s*(?:LHD:[ \t]*Partitur|(?:[A-Z]{3}:[^\n]*\n)*LBD:)")
_TABLE_HEAD = re.compile(r"\s*start([\t,])end\1(?:speaker\1)?text\s*\n")
_SBV_HEAD = re.compile(rf"\s*{_CLOCK},{_CLOCK}[ \t]*\r?\n")
KINDS = (
    TranscriptKind("CHAT", _CHAT_HEAD.match, _read_chat),
    TranscriptKind("RTTM", functools.partial(_recognise_lines, _RTTM_LINE), _read_rttm),
    TranscriptKind("STM", functools.partial(_recognise_lines, _STM_LINE), _read_stm),
    TranscriptKind("HTK labels", _recognise_htk, _read_htk),
    TranscriptKind("HTK master label file", _MLF_HEAD.match, _read_mlf),
    TranscriptKind("BAS Partitur", _PARTITUR_HEAD.match, _read_partitur),
    TranscriptKind("TSV of Whisper", _TABLE_HEAD.match, _read_table),
    TranscriptKind("SBV", _SBV_HEAD.match, _read_sbv),
    TranscriptKind("Label track of Audacity", _recognise_labels, _read_labels),
)
"""The kinds, in the order in which they are tried."""
