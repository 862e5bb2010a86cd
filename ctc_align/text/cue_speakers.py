"""Who speaks in the cues of a subtitle file, and how long a label or a voice holds."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise

from ctc_align.types import MARKUP, SPEAKER, SRT, VTT, Subtitles, Word, Words

_MOST_CUES_OF_A_TURN = 20
"""Labels that name every turn are no rarer than one in so many cues."""
_LONGEST_SENTENCE = 40
"""Words of later cues into which a sentence goes on: with more, marks and capitals do not tell where sentences end."""
_SENTENCE_END = re.compile(r"[.?!…。．！？؟۔।॥։።]['\"”’»)\]」』）]*\Z")
_GOES_ON = re.compile(r"(?:…|\.\.)|['\"“‘(\[]*[a-zß-öø-ÿ]")


def with_cues(words: Words, subtitles: Subtitles | None) -> Words:
    r"""Return words with the cues of their file; a word that the text gives no speaker has that of its cue.

    >>> from ctc_align.types import SourceCue
    >>> cues = Subtitles("json", cues=(SourceCue(0, 3, 0.0, 1.0, speaker="Ann"), SourceCue(4, 7, 1.0, 2.0)))
    >>> from ctc_align.text.transcript import split
    >>> [word.speaker for word in with_cues(split("So.\nYes"), cues).words]
    ['Ann', '']
    """
    words = replace(words, words=named_in_cues(words.words, subtitles), subtitles=subtitles)
    named = [] if subtitles is None else [cue for cue in subtitles.cues if cue.speaker]
    if not named:
        return words
    starts = [cue.char_start for cue in named]

    def spoken_by(word: Word) -> Word:
        cue = named[max(bisect_right(starts, word.char_start) - 1, 0)]
        is_inside = cue.char_start <= word.char_start < cue.char_end
        return replace(word, speaker=cue.speaker) if is_inside and not word.speaker else word

    return replace(words, words=tuple(map(spoken_by, words.words)))


def named_in_cues(words: Sequence[Word], subtitles: Subtitles | None) -> tuple[Word, ...]:
    """Return the words of an SRT or WebVTT file without the speakers whom only an earlier cue names.

    A voice of WebVTT (`<v Mary Ann>`) ends with its cue. A label ("ANNA:") names its own cue, and those after it into
    which its sentence goes on: guides for subtitles ask for labels where the picture does not show who speaks (see
    https://dcmp.org/learn/captioningkey/603), so a cue without one may be anybody's. Only where every turn has its
    label, as in transcripts of interviews, it holds until the next one: from the first cue on, never the same name
    twice in a row, at least one label in `_MOST_CUES_OF_A_TURN` cues; and where ">>" marks every turn.
    """
    if subtitles is None or subtitles.format not in (SRT, VTT):
        return tuple(words)
    starts = [cue.char_start for cue in subtitles.cues]
    cues = [bisect_right(starts, word.char_start) for word in words]
    is_every_turn = _names_every_turn(words, cues, len(starts))
    named, is_voice, is_open = -1, False, False
    before: Word | None = None
    own, later = 0, 0  # the cue of the label, words of those after it
    found = []
    for place, (word, cue) in enumerate(zip(words, cues)):
        if word.kind == SPEAKER:
            is_voice = is_open or _is_voice(word)
            is_open = is_voice and not word.text.endswith(">")
            named, own, later = cue, cue, 0
        elif cue != named and named > 0:
            goes_on = is_every_turn or (later < _LONGEST_SENTENCE and _sentence_goes_on(before, words, place))
            named = cue if goes_on and not is_voice else 0
        found.append(replace(word, speaker="") if word.speaker and named != cue else word)
        before = word if word.spoken else before
        later += bool(word.spoken) and cue != own
    return tuple(found)


def _is_voice(word: Word) -> bool:
    return word.text.startswith("<")


def _names_every_turn(words: Sequence[Word], cues: Sequence[int], count: int) -> bool:
    """Return whether the labels of `count` cues are at all changes of the speaker; `cues` are the words' own."""
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


def _sentence_goes_on(before: Word | None, words: Sequence[Word], place: int) -> bool:
    """Return whether the words from a place on, where a cue begins, go on with the sentence of the word before it."""
    first = words[place]
    if before is None or (first.kind == MARKUP and first.text.strip("-–—") == ""):
        return False  # a dash: somebody else
    if not _SENTENCE_END.search(before.text):
        return True
    following = next((words[at] for at in range(place, len(words)) if words[at].spoken), None)
    return following is not None and _GOES_ON.match(following.text) is not None
