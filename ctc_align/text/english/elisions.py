"""English words that begin or end with an apostrophe."""

from __future__ import annotations

from ctc_align.text.characters import word_set

_ALWAYS = word_set("tis tisn't twas twasn't twill twould twere twixt em til n s re ll ve d m")
_UNLESS_QUOTED = word_set("cause bout round course cuz cos gainst neath kay till im er")
_WHOLE_IN = word_set(
    """basin begin berlin bulletin cabin coffin coin cousin dolphin franklin goblin join kevin latin lenin margin marlin
    martin merlin muffin napkin origin penguin pumpkin puffin putin raisin resin robin rubin ruin satin skin stalin
    thin turin twin urchin vein violin virgin vitamin within"""
)


def is_elision(word: str, mark: str, closed: bool = False) -> bool:
    """Whether the apostrophe `mark` before `word` belongs to it ('tis, 'em) rather than to a quotation.

    `closed` says that an apostrophe follows the word too, as in 'cause'; so does an opening mark (‘cause).

    >>> is_elision("tis", "'"), is_elision("cause", "'"), is_elision("cause", "‘"), is_elision("hello", "'")
    (True, True, False, False)
    """
    if mark not in ("'", "’", "‘"):
        return False
    low = word.lower().replace("’", "'")
    if len(low) <= 2 and low not in ("em", "n") and (mark == "‘" or closed):
        return False
    stem = low.partition("'")[0]
    return (
        low in _ALWAYS or (len(stem) > 2 and stem in _ALWAYS) or (low in _UNLESS_QUOTED and mark != "‘" and not closed)
    )


def drops_g(word: str) -> bool:
    """Whether an apostrophe after `word` stands for a g (goin', nothin') rather than for the end of a quotation.

    >>> drops_g("goin"), drops_g("again"), drops_g("Berlin")
    (True, False, False)
    """
    low = word.lower()
    return len(low) > 3 and low.endswith("in") and not low.endswith("ain") and low not in _WHOLE_IN
