"""The cues of subtitles: which lines are shown again, and who speaks in them.

A line that is shown again is not spoken again.

Captions roll: each line is shown two or three times and spoken once. Downloads of automatic
captions repeat the line above the new one and put cues of 10 ms between; captions of television
scroll two or three lines; live captions grow by a word or two. The first copy of a line is the one
that is spoken. A line is a repeat only where the cue before ends with the same words: a chorus, or
an answer given twice, is none.
"""

from __future__ import annotations

import math
import re
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

from ctc_align.text.characters import Span, lazy_regex
from ctc_align.types import MARKUP, SPEAKER, SRT, VTT, SourceCue, Subtitles, Transcript, Word, Words

_SPACELESS = "\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3041-\u30ff\u3400-\u9fff\uf900-\ufaff"
_UNIT = lazy_regex(rf"[{_SPACELESS}]|[^\W_{_SPACELESS}]+")
_LETTERS_OF_SIGN = 2
"""Letters of Latin script that take as long to say as a character of a script without spaces."""
_SAYABLE = 16.0
"""Letters a second, without spaces: more than this over a whole file are not all said (read speech
has 10 to 14)."""
_UNSAYABLE = 50.0
"""Letters a second that nobody says: a cue this fast only shows again what was said."""
_TOUCHING_S = 0.5
_MOST_WORDS = 200
"""The most words of a cue that the next one may repeat."""
_LEAST_OVERLAP = 4
"""Words that the end of a cue and the start of the next share where lines are broken anew."""


@dataclass(frozen=True)
class Repeats:
    """Spans of lines that are shown again, ascending.

    `certain` lines are not spoken again; `possible` ones may be.
    """

    certain: Sequence[Span] = ()
    possible: Sequence[Span] = ()


@dataclass(frozen=True)
class _Shown:
    """The words of a cue in lower case, without marks, their spans and the starts of lines.

    `lines` are the indices of the words at which lines begin.
    """

    words: Sequence[str]
    spans: Sequence[Span]
    lines: Sequence[int]
    start_s: float
    end_s: float


@dataclass(frozen=True)
class _Overlap:
    """The words that a cue repeats of the one before it.

    They are its first `count` words, and those of the cue before from the index `start` on.

    With `is_partial` the last of them was not whole there ("hel" before "hello").
    """

    start: int
    count: int
    is_line: bool = True
    is_partial: bool = False

    def shows_all(self, cue: _Shown) -> bool:
        """Return whether the cue shows nothing else."""
        return self.count == len(cue.words) and not self.is_partial


def repeated_lines(
    text: str, cues: Sequence[SourceCue], starts: Sequence[int] | None = None
) -> Repeats:
    r"""Return the lines of cues that only repeat what the cue before shows.

    Args:
        text: without tags.
        cues: of the file, in its order.
        starts: the character of the file's text for each character of `text`; None where they are
            the same.

    >>> cues = [SourceCue(0, 12, 0.0, 1.0), SourceCue(13, 33, 1.0, 1.5), SourceCue(34, 41, 1.5, 1.51)]
    >>> repeated_lines("so it begins\nso it begins\nand ends\nand ends", [*cues[:2], SourceCue(34, 42, 1.5, 1.51)])
    Repeats(certain=[(13, 25), (35, 43)], possible=[])
    """
    shown = [each for each in _shown(text, cues, starts) if each.words]
    pairs = list(pairwise(shown))
    overlaps = [_overlap(*pair) for pair in pairs]
    holds = [found is not None and found.shows_all(cue) for found, (_, cue) in zip(overlaps, pairs)]
    rolls = [found is not None and not hold for found, hold in zip(overlaps, holds)]
    # nobody says the beginning of a word, or drops the first lines of a song, each time
    certainly = [
        found is not None and (found.is_partial or found.start > 0) and not hold
        for found, hold in zip(overlaps, holds)
    ]
    is_rolling = any(rolls) and 3 * sum(rolls) >= len(holds) - sum(holds)
    is_doubled = len(shown) > 4 and 5 * sum(holds) >= 2 * len(holds)
    is_fast = _is_fast(shown)
    is_sure = (
        is_fast or sum(certainly) > 1 or (sum(rolls) > 2 and _is_steady_without(overlaps, shown))
    )
    certain: list[Span] = []
    possible: list[Span] = []
    for (before, cue), found, hold in zip(pairs, overlaps, holds):
        if found is None:
            continue
        touches = cue.start_s - before.end_s <= _TOUCHING_S
        together = min(before.end_s, cue.end_s) - cue.start_s
        if (
            hold
            and touches
            and (_rate(cue) > _UNSAYABLE or 2 * together >= max(cue.end_s - cue.start_s, 1e-3))
        ):
            certain += _spans(text, before, cue, found)
        elif is_rolling and not (hold and (found.start == 0 or not touches)):
            (certain if is_sure else possible).extend(_spans(text, before, cue, found))
        elif hold and (is_rolling or is_doubled):
            (certain if is_doubled and touches and is_fast else possible).extend(
                _spans(text, before, cue, found)
            )
    return Repeats(sorted(set(certain)), sorted(set(_joined(text, possible)) - set(certain)))


def _is_fast(shown: Sequence[_Shown]) -> bool:
    """Return whether the cues show more words than anybody could say while they are shown."""
    seconds = sum(max(cue.end_s - cue.start_s, 0.0) for cue in shown)
    letters = sum(_letters(cue.words) for cue in shown)
    return letters > _SAYABLE * seconds or any(_rate(cue) > _UNSAYABLE for cue in shown)


def _is_steady_without(overlaps: Sequence[_Overlap | None], shown: Sequence[_Shown]) -> bool:
    """Return whether the speech is steadier if repeated words are not spoken.

    Then cues last as long as their new words.

    Songs and tales may grow by a line each time, too ("This is the house that Jack built"); they
    take their time for all lines. The spread is that of the logarithms of the rates, in letters per
    second.
    """
    from statistics import pvariance  # imports more than all else here

    spoken = []
    rolled = []
    for found, cue in zip([None, *overlaps], shown):
        count = 0
        if found:
            count = found.count
        if count < len(cue.words):
            spoken.append(math.log(_rate(cue)))
            rolled.append(math.log(_rate(cue, count)))
    return pvariance(rolled) < pvariance(spoken)


def _letters(words: Sequence[str]) -> int:
    return sum(
        len(word) * (_LETTERS_OF_SIGN if not word.isascii() and len(word) == 1 else 1)
        for word in words
    )


def _rate(cue: _Shown, first: int = 0) -> float:
    """Return the letters a second of a cue's words from the index `first` on."""
    return _letters(cue.words[first:]) / max(cue.end_s - cue.start_s, 1e-3)


def _shown(text: str, cues: Sequence[SourceCue], starts: Sequence[int] | None) -> list[_Shown]:
    found = []
    for cue in cues:
        edges = (cue.char_start, cue.char_end)
        low, high = edges if starts is None else (bisect_left(starts, edge) for edge in edges)
        spans: list[Span] = []
        lines: list[int] = []
        for line in re.finditer(r"[^\n]+", text[low:high]):
            units = [
                unit.span() for unit in _UNIT.finditer(text, low + line.start(), low + line.end())
            ]
            lines += [len(spans)] * bool(units)
            spans += units
        words = [text[start:end].casefold() for start, end in spans]
        found.append(_Shown(words, spans, lines, cue.start_s, cue.end_s))
    return found


def _overlap(before: _Shown, cue: _Shown) -> _Overlap | None:
    """Return what a cue repeats; None if nothing.

    Whole lines if there are any, otherwise the most words.
    """
    growing = None
    found = None
    for start in range(max(len(before.words) - _MOST_WORDS, 0), len(before.words)):
        is_line = start in before.lines
        count = len(before.words) - start
        if count > len(cue.words) or (not is_line and count < _LEAST_OVERLAP):
            continue
        last = before.words[-1]
        shown = cue.words[count - 1]
        if list(before.words[start:-1]) != list(cue.words[: count - 1]) or not shown.startswith(
            last
        ):
            continue
        is_partial = last != shown
        if is_partial and (count < 2 or not is_line):
            continue
        if is_line and not is_partial and (count in cue.lines or count == len(cue.words)):
            return _Overlap(start, count)
        if is_line:
            growing = growing or _Overlap(start, count, is_partial=is_partial)
        else:
            found = found or _Overlap(start, count, is_line=False)
    return growing or found


def _spans(text: str, before: _Shown, cue: _Shown, found: _Overlap) -> list[Span]:
    """Return the spans of the words that are repeated, a line each, with the marks beside them."""
    count = found.count - found.is_partial
    edges = sorted({0, count, *(line for line in cue.lines if line < count)})
    spans = [_with_marks(text, cue, first, last) for first, last in pairwise(edges)]
    if found.is_partial:
        spans.append(_with_marks(text, before, len(before.words) - 1, len(before.words)))
    return spans


def _joined(text: str, spans: Sequence[Span]) -> list[Span]:
    """Return spans, those of lines that follow each other as one."""
    joined: list[Span] = []
    for start, end in sorted(spans):
        if joined and not text[joined[-1][1] : start].strip():
            start = joined.pop()[0]
        joined.append((start, end))
    return joined


def _with_marks(text: str, cue: _Shown, first: int, last: int) -> Span:
    """Return the span of words, extended to the next space or to the ends of their line.

    This takes in the marks that stand beside the words.
    """
    start, end = cue.spans[first][0], cue.spans[last - 1][1]
    line_start = text.rfind("\n", 0, start) + 1
    line_end = text.find("\n", end)
    if line_end < 0:
        line_end = len(text)
    if first in cue.lines:
        start = line_start
    if last in cue.lines or last == len(cue.words):
        return start, line_end
    rest = re.match(r"[^\s\w]*", text[end:line_end])
    return start, end + (rest.end() if rest else 0)


def transcript_of_cues(rows: Iterable[tuple[SourceCue, str]], subtitles: Subtitles) -> Transcript:
    """Return the transcript of cues, each with its text: the texts, a line or more for each.

    The cues get the spans of their texts, and become those of `subtitles`.

    >>> rows = [(SourceCue(0, 0, 1.0, 2.0), "So"), (SourceCue(0, 0, 2.0, 3.0), "be")]
    >>> transcript_of_cues(rows, Subtitles("lrc")).text
    'So\\nbe'
    """
    cues: list[SourceCue] = []
    texts: list[str] = []
    at = 0
    for cue, text in rows:
        cues.append(replace(cue, char_start=at, char_end=at + len(text)))
        texts.append(text)
        at += len(text) + 1
    return Transcript("\n".join(texts), replace(subtitles, cues=tuple(cues)))


# Speakers of cues

_MOST_CUES_OF_A_TURN = 20
"""The most cues for each label, if labels name every turn."""
_LONGEST_SENTENCE = 40
"""The most words of later cues that continue a sentence: after more, the text has no marks at ends
of sentences."""
_SENTENCE_END = lazy_regex(r"[.?!…。．！？؟۔।॥։።]['\"”’»)\]」』）]*\Z")
_GOES_ON = lazy_regex(r"(?:…|\.\.)|['\"“‘(\[]*[a-zß-öø-ÿ]")


def with_cues(words: Words, subtitles: Subtitles | None) -> Words:
    r"""Return words with the cues of their file; a word without a speaker has that of its cue.

    >>> cues = Subtitles("json", cues=(SourceCue(0, 3, 0.0, 1.0, speaker="Ann"), SourceCue(4, 7, 1.0, 2.0)))
    >>> from ctc_align.text.transcript import split
    >>> [word.speaker for word in with_cues(split("So.\nYes"), cues).words]
    ['Ann', '']
    """
    words = replace(words, words=named_in_cues(words.words, subtitles), subtitles=subtitles)
    if subtitles is None:
        named = []
    else:
        named = [cue for cue in subtitles.cues if cue.speaker]
    if not named:
        return words
    starts = [cue.char_start for cue in named]

    def spoken_by(word: Word) -> Word:
        cue = named[max(bisect_right(starts, word.char_start) - 1, 0)]
        is_inside = cue.char_start <= word.char_start < cue.char_end
        if is_inside and not word.speaker:
            return replace(word, speaker=cue.speaker)
        return word

    return replace(words, words=tuple(map(spoken_by, words.words)))


def named_in_cues(words: Sequence[Word], subtitles: Subtitles | None) -> tuple[Word, ...]:
    """Return the words of an SRT or WebVTT file; drop speakers that only an earlier cue names.

    A voice of WebVTT (`<v Mary Ann>`) ends with its cue. A label ("ANNA:") is valid for its cue,
    and later ones that continue its sentence: guides for subtitles ask for labels where the picture
    does not show who speaks (see https://dcmp.org/learn/captioningkey/603), so anybody may speak in
    a cue without one. If every turn has its label, as in transcripts of interviews, a label is
    valid until the next one: from the first cue on, never the same name twice in a row, at least
    one label in `_MOST_CUES_OF_A_TURN` cues, or with ">>" before every turn.
    """
    if subtitles is None or subtitles.format not in (SRT, VTT):
        return tuple(words)
    starts = [cue.char_start for cue in subtitles.cues]
    cues = [bisect_right(starts, word.char_start) for word in words]
    is_every_turn = _names_every_turn(words, cues, len(starts))
    named = -1
    is_voice = False
    is_open = False
    before: Word | None = None
    labelled, later = 0, 0  # the cue of the label, and the number of words in later cues
    found = []
    for index, (word, cue) in enumerate(zip(words, cues)):
        if word.kind == SPEAKER:
            is_voice = is_open or _is_voice(word)
            is_open = is_voice and not word.text.endswith(">")
            named = cue
            labelled = cue
            later = 0
        elif cue != named and named > 0:
            goes_on = is_every_turn or (
                later < _LONGEST_SENTENCE and _sentence_goes_on(before, words, index)
            )
            named = 0
            if goes_on and not is_voice:
                named = cue
        found.append(replace(word, speaker="") if word.speaker and named != cue else word)
        if word.spoken:
            before = word
        later += bool(word.spoken) and cue != labelled
    return tuple(found)


def _is_voice(word: Word) -> bool:
    return word.text.startswith("<")


def _names_every_turn(words: Sequence[Word], cues: Sequence[int], count: int) -> bool:
    """Return whether every change of speaker in `count` cues has a label.

    `cues` are those of the words.
    """
    labels: list[tuple[int, str]] = []
    is_label = False
    for word, cue in zip(words, cues):
        if word.kind == SPEAKER and not _is_voice(word):
            if word.text.startswith(">>"):
                return True
            is_label = True
        elif is_label and word.kind != SPEAKER:
            labels.append((cue, word.speaker))
            is_label = False
    first = next((cue for word, cue in zip(words, cues) if word.spoken), 0)
    if not labels or labels[0][0] > first or len(labels) * _MOST_CUES_OF_A_TURN < count:
        return False
    return all(one != other for (_, one), (_, other) in pairwise(labels))


def _sentence_goes_on(before: Word | None, words: Sequence[Word], index: int) -> bool:
    """Return whether the words from an index on continue the sentence of the word `before`.

    A cue begins at the index.
    """
    first = words[index]
    if before is None or (first.kind == MARKUP and first.text.strip("-–—") == ""):
        return False  # a dash: somebody else
    if not _SENTENCE_END.search(before.text):
        return True
    following = next((word for word in words[index:] if word.spoken), None)
    return following is not None and _GOES_ON.match(following.text) is not None
