"""Speaker labels such as "JOHN:", "Dr. Smith:", ">> MARY:", "[Speaker 1]:", "Q:".

"Note: this is…", "He said: go" and "Chapter 1: The…" have a similar form and are spoken. So two
things decide, the form of the label and the text as a whole:

certain       ">>", brackets, a time beside the name, SPEAKER_00, a role ("Interviewer"), a title with a name
              ("Dr. Smith"), capitals in a text that is not in capitals, a known first name
by the text   the same words begin several lines, or most lines begin with such words
uncertain     capitalised words that begin one line ("Jane Kowalski:"): the recording decides whether they are spoken
no label      a word that begins sentences and headings ("Note", "Chapter"), lower case that does not recur
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, replace

from ctc_align.text.characters import lazy_regex, word_set
from ctc_align.text.tables import word_list
from ctc_align.types import SPEAKER

TIME = r"\d{1,3}:[0-5]\d(?::[0-5]\d)?(?:[.,]\d{1,3})?"
"""Regular expression of a time stamp: 0:12, 01:02:03.500"""
_LONGEST = 60
_MOST_WORDS = 5
_LINE = lazy_regex(
    rf"^[^\S\n]*(?P<mark>>{{2,}}[^\S\n]*|[-–—]{{1,2}}[^\S\n]*(?=[A-Z\[]))?(?P<head>[^\n:：]{{1,{_LONGEST}}})[:：](?P<after>[*_]*)",
    re.MULTILINE,
)
_TIMED = lazy_regex(
    rf"^[^\S\n]*(?:>{{2,}}[^\S\n]*)?(?P<head>[^\s:：(\[\d][^\n:：(\[\d]{{,{_LONGEST}}}?(?:\d{{1,2}})?)(?P<gap>[^\S\n]*)"
    rf"(?P<open>[(\[]?){TIME}[)\]]?[^\S\n]*(?P<colon>[:：]|$)",
    re.MULTILINE,
)
_CHEVRONS = lazy_regex(r"(?<!\S)>{2,}(?=\s|[^\W\d_]|\[|-)")
_IN_BRACKETS = lazy_regex(r"^[^\S\n]*(\[[^\[\]\n]{1,40}\])(?![:：])", re.MULTILINE)
_ASIDE = lazy_regex(r"[^\S\n]*[(\[（][^()\[\]（）\n]*[)\]）]?$")
_TOKEN = lazy_regex(r"(?:[^\W\d_]|#\d)[\w.'’&/-]*|\d{1,3}|&")
_NUMBERED = lazy_regex(r"speaker[ _-]?(?:\d{1,3}|[a-z])", re.IGNORECASE)
_ENDED = lazy_regex(r"(?:\A|\n[^\S\n]*\n|[.?!…:;\-–—\"”’)\]♪。！？]|^)\s*\Z")

_TITLES = word_list("titles")
_ROLES = word_list("roles")
_HEADINGS = word_list("headings")
_NAMES = word_list("first-names")
_PARTICLES = word_set(
    "of de da do dos del della di van von der den la le al el bin ibn ben the and & y e und et"
)
_NO_NAME = word_set(
    "he she it they we i you who what this that there then and but or so if as when"
)


@dataclass(frozen=True)
class Mark:
    """Characters `start` to `end` (exclusive) that are not spoken.

    `speaker` speaks after them, unless it is None.

    `speaker` is "" if an unnamed speaker begins. `certain` is False for a label that may be spoken.
    """

    start: int
    end: int
    kind: str
    speaker: str | None = None
    certain: bool = True


@dataclass(frozen=True)
class _Candidate:
    """A possible label.

    Its span, the name without the signs around it, the form of the name, and the evidence.
    """

    start: int
    end: int
    name: str
    form: str
    sure: bool
    after_end: bool

    @property
    def key(self) -> str:
        return self.name.casefold()

    @property
    def words(self) -> list[str]:
        return [word.strip(".,'’").casefold() for word in re.split(r"[\s_]+", self.name)]


def speaker_labels(text: str, stamps: Sequence[int] = ()) -> list[Mark]:
    """Return the labels of speakers in `text`, ascending, as marks.

    Args:
        text: without tags.
        stamps: the ends of time stamps; a name after one is a label.

    >>> [(label.speaker, label.certain) for label in speaker_labels("JOHN: Note: this.\\nMary: Hi.\\nHe said: go.")]
    [('JOHN', True), ('Mary', True)]
    """
    has_colon = ":" in text or "：" in text
    stamped = {text.rfind("\n", 0, stamp) + 1 for stamp in stamps}
    if has_colon:
        candidates = [*_candidates(text, stamped)]
    else:
        candidates = []
    if candidates:
        labels = _labels_among(candidates, text)
    else:
        labels = []
    labels += [
        Mark(*match.span(1), SPEAKER, match[1].strip("[] \t"))
        for match in _IN_BRACKETS.finditer(text)
        if names_speaker(match[1])
    ]
    if has_colon:
        labels += _inside_lines(text, labels)
    labels += [Mark(*match.span(), SPEAKER, "") for match in _CHEVRONS.finditer(text)]
    return _in_order(labels)


def names_speaker(words: str) -> bool:
    """Return whether all words are roles, titles, first names or numbers.

    For example "[Host]" and "SPEAKER_00".

    >>> names_speaker("[Speaker 1]"), names_speaker("SPEAKER_00"), names_speaker("Dr. Jane"), names_speaker("Chapter 1")
    (True, True, True, False)
    """
    found = re.findall(r"[^\W_]+", words.casefold())
    known = _ROLES | _TITLES | _NAMES
    return (
        bool(found)
        and found[0] in known
        and all(word in known or word.isdigit() or len(word) == 1 for word in found)
    )


def _in_order(labels: list[Mark]) -> list[Mark]:
    """Return the labels in order without overlaps, with one spelling for each speaker.

    Of labels that begin together, one with a name stays.
    """
    written: dict[str, str] = {}
    ordered: list[Mark] = []
    for label in sorted(
        labels, key=lambda label: (label.start, not label.speaker, not label.certain)
    ):
        if not ordered or label.start >= ordered[-1].end:
            speaker = label.speaker or ""
            ordered.append(replace(label, speaker=written.setdefault(speaker.casefold(), speaker)))
    return ordered


def _candidates(text: str, stamped: Collection[int]) -> Iterator[_Candidate]:
    """Yield the candidates for labels; `stamped` are the beginnings of lines with a time stamp."""
    timed: set[int] = set()
    for match in _TIMED.finditer(text):
        if not match["gap"] and not match["open"]:
            continue
        found = _candidate(match["head"], match.start("head"), match.end(), text, timed=True)
        if found and (match["colon"] or found.form in ("caps", "title")):
            timed.add(text.rfind("\n", 0, match.start("head")) + 1)
            yield found
    for match in _LINE.finditer(text):
        if match.start() in timed:
            continue
        after = text[match.end() : match.end() + 1]
        full_width = text[match.end() - len(match["after"]) - 1] == "："
        joined = after.isupper() and match["head"].isupper()
        if after and not after.isspace() and after not in "\"“'‘([" and not (full_width or joined):
            continue
        start = match.start("mark" if match["mark"] else "head")
        found = _candidate(match["head"], start, match.end(), text, marked=text[start] == ">")
        if found and match.start() in stamped and found.form in ("caps", "title"):
            found = replace(found, sure=not _is_heading(found))
        if found:
            yield found


def _candidate(
    head: str, start: int, end: int, text: str, *, timed: bool = False, marked: bool = False
) -> _Candidate | None:
    """Return the candidate of the characters `head` before a colon or a time.

    None if they cannot be a label.
    """
    bare = head.strip(" \t*_\u00a0")
    bracketed = bare[:1] in "[<【" and bare[-1:] in "]>】"
    if bracketed:
        name = bare.strip("[]<>【】 \t*_")
    else:
        name = _ASIDE.sub("", bare)
    name = name.partition(",")[0].strip(' \t*_"“”')
    words = name.split()
    if not words or len(words) > _MOST_WORDS or not words[0][0].isalpha():
        return None
    if not all(_TOKEN.fullmatch(word) for word in words) or any(
        len(word) > 6 and word.endswith(".") for word in words
    ):
        return None
    form = _form(name, words)
    before = text[max(0, text.rfind("\n", 0, start) + 1 - 200) : text.rfind("\n", 0, start) + 1]
    return _Candidate(
        start, end, name, form, bracketed or timed or marked, _ENDED.search(before) is not None
    )


def _form(name: str, words: list[str]) -> str:
    letters = [character for character in name if character.isalpha()]
    if not any(letter.lower() != letter.upper() for letter in letters):
        return "caseless"
    if all(letter == letter.upper() for letter in letters):
        if len(letters) > 1:
            return "caps"
        return "single"
    titled = (
        all(not word[0].islower() or word.casefold() in _PARTICLES for word in words)
        and not words[0][0].islower()
    )
    if titled:
        return "title"
    return "lower"


def _labels_among(candidates: list[_Candidate], text: str) -> list[Mark]:
    """Return the candidates that are labels, certain or not."""
    candidates = [one for one in candidates if one.sure or not _is_heading(one)]
    counts = Counter(one.key for one in candidates)
    lines = sum(not line.isspace() for line in text.splitlines() if line) or 1
    most = len(candidates) * 2 >= lines
    often = len(candidates) * 5 >= lines
    shouting = not any(map(str.islower, text))
    several = len(counts) > 1
    certain: set[str] = {
        one.key for one in candidates if _is_certain(one, counts, shouting, several and most, often)
    }
    written = set(re.findall(r"(?<!\w)\w+(?![\w:])", text))
    ordinary = {
        one.key: _in_lower_case(one, text, written)
        for one in {one.key: one for one in candidates}.values()
    }
    labels = []
    for one in candidates:
        sure = (
            one.sure
            or one.key in certain
            or (one.form == "title" and bool(certain) and one.after_end and often)
        )
        if sure and not one.sure and one.form in ("title", "lower") and ordinary[one.key]:
            sure = counts[one.key] > 1 and most
        likely = (
            one.after_end
            or one.words[0] in _TITLES
            or (several and most)
            or (one.form == "caps" and not shouting)
        )
        unsure = one.form != "lower" and likely and not ordinary[one.key]
        if sure or unsure:
            labels.append(Mark(one.start, one.end, SPEAKER, one.name, sure))
    return labels


def _is_heading(one: _Candidate) -> bool:
    """Return whether a candidate is a phrase that begins sentences or headings."""
    words = one.words
    if one.form == "single" or any(word in _ROLES for word in words) or words[0] in _TITLES:
        return False
    if len(words) > 1 and words[-1].isdigit():
        return True  # "Genesis 1:", "Step 2:"
    return (
        any(word in _HEADINGS and word not in _PARTICLES for word in words) or words[0] in _HEADINGS
    )


def _is_certain(
    one: _Candidate, counts: Counter[str], shouting: bool, most_lines: bool, often: bool
) -> bool:
    words = one.words
    again = counts[one.key] > 1
    if one.sure or _NUMBERED.fullmatch(one.name):
        return True
    if one.form == "single":
        return (one.key in ("q", "a") and counts["q"] * counts["a"] > 0) or (
            most_lines and max(counts.values()) > 1
        )
    known = (words[0] in _TITLES and len(words) > 1) or any(word in _ROLES for word in words)
    if one.form == "caps":
        several = again or (often and len(counts) > 1)
        return known or words[0] in _NAMES or (several if not shouting else again or most_lines)
    if one.form == "title":
        recurs = again and (len(counts) > 1 or counts[one.key] > 2 or most_lines)
        known = known or words[0] in _NAMES
        return (
            recurs
            or (known and (one.after_end or again or most_lines))
            or (most_lines and len(counts) > 2)
        )
    if one.form == "lower":
        return (known or len(words) < 3) and words[0] not in _NO_NAME and again and most_lines
    return most_lines or (again and len(counts) > 1)


def _in_lower_case(one: _Candidate, text: str, written: Collection[str]) -> bool:
    """Return whether the name is also an ordinary word of the text.

    `written` are the text's words without a colon.
    """
    if one.form == "caseless" or any(word in _ROLES for word in one.words):
        return False
    if one.key in written or len(one.words) > 1 or one.key.isalnum() or one.key not in text:
        return one.key in written and len(one.words) == 1
    return re.search(rf"(?<!\w){re.escape(one.key)}(?!\w|:)", text) is not None


def _inside_lines(text: str, labels: list[Mark]) -> list[Mark]:
    """Return labels after the end of a sentence inside a line.

    Names that are labels elsewhere, and names in capitals.
    """
    known = {label.speaker for label in labels if label.certain and label.speaker}
    if not known:
        return []
    names = "|".join(sorted(map(re.escape, known), key=len, reverse=True))
    capitals = r"(?!)"
    if any(map(str.islower, text)):
        capitals = r"[A-Z][A-Z.'’-]+(?: [A-Z\d][A-Z\d.'’-]*){0,3}"
    pattern = re.compile(
        rf"(?<=[.?!…\"”)\]—-])[^\S\n]+(?P<mark>>>[^\S\n]*)?(?P<name>{names}|{capitals}):(?=\s)"
    )
    found = []
    for match in pattern.finditer(text):
        one = _Candidate(match.start(), match.end(), match["name"], "caps", False, True)
        if match["name"] in known or not _is_heading(one):
            found.append(
                Mark(
                    match.start("mark" if match["mark"] else "name"),
                    match.end(),
                    SPEAKER,
                    match["name"],
                )
            )
    return found
