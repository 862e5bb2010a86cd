"""Stage directions: "[laughs]", "(applause)", "[MUSIC]", "♪ … ♪", "*sighs*"; and parentheses, which may be spoken.

What stands in square brackets, between notes, or is a known sound in any brackets is a direction. Of other
parentheses the text cannot tell: "(or so he said)" in a book is read, "(he leaves)" in a play is not. They are
returned as passages whose words the recording may or may not have.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from ctc_align.text.speaker_labels import TIME, names_speaker
from ctc_align.text.tables import word_list

Span = tuple[int, int]

_SOUNDS = word_list("sounds")
_BESIDE_SOUNDS = word_list("beside-sounds")
_WORD = re.compile(r"[^\W\d_]+(?:_[^\W\d_]+)?")
_BRACKETS = re.compile(r"[\[［【](?P<inside>[^\[\]［］【】]{0,400})[\]］】]")
_OTHER_BRACKETS = re.compile(
    r"[(（](?P<paren>[^()（）\n]{1,80})[)）]|\{(?P<brace>[^{}\n]{1,60})\}|(?<![\w*])\*(?P<star>[^*\n]{1,60})\*(?![\w*])"
)
_MOST_WORDS = 25
_FOOTNOTE = re.compile(r"[\d\s,–*†‡-]*|[xX]|citation needed|sic")
_NOTES = "♪♫♩♬🎵🎶"
_ANY_NOTE = re.compile(f"[{_NOTES}]")
_TRAILING = re.compile(r"[.,;!?…]+(?=\s|\Z)")
_LABELLED = re.compile(r"[^\S\n]*[:：]")
_BLANK_LINE = re.compile(r"\n[^\S\n]*\n")
_PARENTHESIS = re.compile(r"[()（）]|\n[^\S\n]*\n")
_BEFORE = "\"'“‘«„—–-*_…"
_AFTER = "\"'”’»—–-*_….,;:!?、。，；：！？"


def stage_directions(text: str) -> tuple[list[Span], list[Span]]:
    """Return the spans (start, end exclusive) of stage directions and those of other marks (footnotes), ascending.

    >>> stage_directions("So [laughs], it [T]hen went (applause) on.[1] ♪ la la ♪")[0]
    [(3, 12), (28, 38), (46, 55)]
    """
    directions: list[Span] = []
    marks: list[Span] = []
    if "[" in text or "【" in text or "［" in text:
        for match in _BRACKETS.finditer(text):
            kind = _kind_of_brackets(text, match)
            if kind:
                (directions if kind == "direction" else marks).append(_with_trailing(text, match))
    if any(sign in text for sign in "({*（"):
        for match in _OTHER_BRACKETS.finditer(text):
            if is_sound(match[match.lastgroup or 0]):
                directions.append(_with_trailing(text, match))
    if _ANY_NOTE.search(text):
        directions += _sung(text)
    return sorted(directions), sorted(marks)


def is_sound(words: str) -> bool:
    """Return whether words name a sound: all of them known, and one of them a sound.

    >>> is_sound("audience laughs"), is_sound("INAUDIBLE 00:12"), is_sound("he laughs at me"), is_sound("background")
    (True, True, False, False)
    """
    found = [word.casefold() for word in _WORD.findall(words)]
    known = _SOUNDS | _BESIDE_SOUNDS
    return any(word in _SOUNDS for word in found) and all(word in known for word in found)


def _with_trailing(text: str, match: re.Match[str]) -> Span:
    """Return the span with the punctuation that follows it, which would be a word of its own."""
    start, end = match.span()
    trailing = _TRAILING.match(text, end)
    return start, trailing.end() if trailing else end


def _kind_of_brackets(text: str, match: re.Match[str]) -> str:
    """Return "direction" or "markup" for what is not spoken, "" for brackets whose words are part of the text."""
    inside = match["inside"]
    start, end = match.span()
    before, after = text[start - 1 : start] if start else "", text[end : end + 1]
    if _FOOTNOTE.fullmatch(inside):
        return "markup"
    if is_sound(inside):
        return "direction"
    if text[start] == "【" or before == "[" or after == "]" or before.isalnum() or after.isalnum():
        return ""
    begins_line = not text[text.rfind("\n", 0, start) + 1 : start].strip()
    if begins_line and (_LABELLED.match(text, end) or names_speaker(inside)):
        return ""
    if _BLANK_LINE.search(inside) or len(inside.split()) > _MOST_WORDS:
        return ""
    return "markup" if re.fullmatch(TIME, inside.strip()) else "direction"


def _sung(text: str) -> Iterator[Span]:
    """Yield what stands between notes, or after a note to the end of its line."""
    at = 0
    while note := _ANY_NOTE.search(text, at):
        start = note.start()
        line_end = _line_end(text, start)
        closing = text[start:line_end].rstrip()
        last = max((closing.rfind(sign) for sign in _NOTES), default=0)
        first_word = re.search(rf"[^\s{_NOTES}]", closing)
        if first_word is None:
            end = start + len(closing)
        elif last > first_word.start():
            # up to the note that closes: the next one after a word
            end = start + next(m.end() for m in _ANY_NOTE.finditer(closing) if m.start() > first_word.start())
            while end < len(text) and text[end] in _NOTES:
                end += 1
        elif len(closing) > 1 and closing[1] in _NOTES:
            end = start + len(closing) - len(closing.lstrip(_NOTES))  # ♪♪ alone is music without words
        else:
            end = _end_of_verse(text, start, line_end)
        yield start, end
        at = max(end, start + 1)


def _end_of_verse(text: str, start: int, line_end: int) -> int:
    """Return where a verse ends that has no second note in its line: at a line's last note, else with its line."""
    end = line_end
    for _ in range(3):
        next_end = _line_end(text, end + 1)
        line = text[end + 1 : next_end].strip()
        if not line or line[0] in _NOTES:
            break
        if line[-1] in _NOTES:
            return next_end
        end = next_end
    return line_end


def _line_end(text: str, place: int) -> int:
    end = text.find("\n", place)
    return len(text) if end < 0 else end


def parentheses(text: str) -> list[Span]:
    """Return the outermost pairs of parentheses that hold whole words and no blank line, ascending.

    >>> text = "He went (or so (they) said) home(s). (Yes."
    >>> [text[start:end] for start, end in parentheses(text)]
    ['(or so (they) said)']
    """
    found: list[Span] = []
    opened: list[int] = []
    for match in _PARENTHESIS.finditer(text) if "(" in text or "（" in text else ():
        sign = match.group()
        if sign in "(（":
            opened.append(match.start())
        elif sign not in ")）":
            opened.clear()
        elif opened:
            start, end = opened.pop(), match.end()
            if _stands_alone(text, start, end):
                while found and found[-1][0] > start:
                    found.pop()
                found.append((start, end))
    return found


def _stands_alone(text: str, start: int, end: int) -> bool:
    """Return whether words begin and end with these parentheses, but for quotes and marks."""
    full_width = text[start] == "（"
    while start and text[start - 1] in _BEFORE:
        start -= 1
    while end < len(text) and text[end] in _AFTER:
        end += 1
    begins = not start or text[start - 1].isspace() or text[start] in "—–"
    ends = end == len(text) or text[end].isspace() or text[end - 1] in "—–"
    return full_width or (begins and ends)
