"""Notes on a transcript whose language or script is not the model's; the work goes on."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ctc_align.cli.messages import counted

if TYPE_CHECKING:
    from ctc_align.files import Alignment

_MANY = 20
_MOSTLY = 0.3
"""Share of the letters from which on a transcript counts as written in another script than the model's."""
_ALIKE = ({"da", "no"}, {"ca", "es"})
"""Languages whose function words are much the same."""
_REMEDY = "the model universal knows all languages, see ctc-align models for others"


def choice_notes(looks: dict[str, int]) -> list[str]:
    """Return a note on transcripts that were taken for another language than English; `looks` counts them by language.

    >>> choice_notes({"de": 1})
    ['the text looks German (de): aligned with the model universal; give --language en if it is English']
    >>> choice_notes({"de": 12, "und": 1})[0].partition(": aligned")[0]
    'texts: 12 look German (de), 1 does not look English'
    >>> choice_notes({"de": 12, "und": 1})[0].rpartition("if ")[2]
    'they are English, else the code of their language, by whose rules they are read then'
    """
    from ctc_align.text.english_or_not import UNKNOWN, name_of

    if not looks:
        return []
    remedy = "aligned with the model universal; give --language en if "
    if sum(looks.values()) == 1:
        [code] = looks
        if code == UNKNOWN:
            return [f"the text does not look English: {remedy}it is, else the code of its language"]
        return [f"the text looks {name_of(code)}: {remedy}it is English"]
    told = [f"{count} {_look(code, count)}" for code, count in looks.items()]
    other = ", else the code of their language, by whose rules they are read then" if UNKNOWN in looks else ""
    return [f"texts: {', '.join(told)}: {remedy}they are English{other}"]


def _look(code: str, count: int) -> str:
    from ctc_align.text.english_or_not import UNKNOWN, name_of

    if code == UNKNOWN:
        return f"{'do' if count > 1 else 'does'} not look English"
    return f"look{'' if count > 1 else 's'} {name_of(code)}"


def language_notes(text: str, model: str | None, language: str = "") -> list[str]:
    """Return a note where a transcript is in another language than that of the model called `model`: clearly by its
    words, or because `language` (a code, "" for none) says so.

    >>> language_notes("Der Hund und die Katze sind nicht im Haus, aber sie sind auch nicht auf dem Dach, und wenn "
    ...                "es regnet, ist das schade.", "english")[0].partition(":")[0]
    'the transcript looks German and the model english is for English'
    """
    from ctc_align.models.catalogue import language_of
    from ctc_align.text.english_or_not import likely_other
    from ctc_align.text.languages import NAMES, base_code, likely_language, script_of

    spoken = language_of(model)
    if spoken not in NAMES:
        return []
    written, rough = likely_language(text), "times are rough at best"
    other = likely_other(text) if spoken == "en" and not written and script_of(text) == "Latin" else ""
    written = other if other in NAMES else written
    if other and not written:
        return [f"the transcript does not look English, and the model {model} is for English: {rough}; {_REMEDY}"]
    if written not in ("", spoken) and {written, spoken} not in _ALIKE:
        looks = f"the transcript looks {NAMES[written]} and the model {model} is for {NAMES[spoken]}"
        return [f"{looks}: {rough}; {_REMEDY}, or is it the wrong transcript?"]
    if language and base_code(language) != spoken:
        return [f"--language is {language} and the model {model} is for {NAMES[spoken]}: {rough}; {_REMEDY}"]
    return []


def unknown_letters(alignment: Alignment) -> list[str]:
    """Return notes on the letters (or phones of a lexicon) that the vocabulary lacks and how often each occurs, and on
    digits that are not read because num2words does not know the language."""
    from ctc_align.config import ENGLISH, UNKNOWN_LANGUAGE
    from ctc_align.text.spoken_form import reads_digits

    counts, language = alignment.unknown_letters, str(alignment.config.get("language") or ENGLISH)
    left = frozenset(filter(str.isdecimal, counts))
    if left and reads_digits(language):
        left = frozenset()
    digits = {letter: count for letter, count in counts.items() if letter in left}
    letters = {letter: count for letter, count in counts.items() if letter not in left}
    aligned = "the rest is aligned"
    if alignment.config.get("unknown") == "wildcard":
        aligned += ", and where they are is a guess: any speech stands for them"
    found = [f"the model's vocabulary lacks {_counted(letters)}; {aligned}"] if letters else []
    if digits:
        why = f"language {language!r}: num2words does not know it, so digits are not read"
        if language == UNKNOWN_LANGUAGE:
            why = "digits are not read where the language is not known (--language)"
        found.append(f"{why}: {_counted(digits)}; {aligned}")
    return [*_script_notes(alignment, letters), *found]


def _script_notes(alignment: Alignment, lacking: dict[str, int]) -> list[str]:
    """Return a note where much of the transcript is in a script that the vocabulary lacks."""
    from ctc_align.text.languages import script_of

    letters = sum(character.isalpha() for word in alignment.words for character in word.spoken)
    missing = sum(count for letter, count in lacking.items() if letter.isalpha())
    script = script_of("".join(letter * count for letter, count in lacking.items()))
    if script in ("", "Latin") or missing < _MOSTLY * letters:
        return []
    which = f"{counted(missing, 'letter', 'letters')} of {letters}"
    remedy = f"{_REMEDY}, or --romanize with one that reads Latin letters"
    return [f"{which} are {script}, which the model {alignment.model} does not know: {remedy}"]


def _counted(letters: dict[str, int]) -> str:
    each = [f"{letter!r} × {count}" for letter, count in list(letters.items())[:_MANY]]
    return ", ".join(each) + (f" and {len(letters) - _MANY} more" if len(letters) > _MANY else "")
