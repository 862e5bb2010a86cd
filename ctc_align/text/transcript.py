"""Split a transcript into words, each with its span in the text and its spoken form.

A run of characters without spaces is one word or several: "Americans—ask", "end...Then", "and/or",
"one,two". It is split after a dash, an ellipsis, a slash or a sentence mark between two words; the
mark, and closing quotes or brackets after it, stay with the preceding word. Hyphens and apostrophes
never separate words, nor do the marks in numbers, times, dates, ranges, addresses, file names,
paths and abbreviations.
"""

from __future__ import annotations

import unicodedata
from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import lru_cache

from ctc_align.config import Settings
from ctc_align.errors import TranscriptError, UsageError
from ctc_align.text.characters import Span, lazy_regex, plain, word_set
from ctc_align.text.english_numbers import unit_name
from ctc_align.text.languages import split_languages
from ctc_align.text.markup import MappedText, Markup, read_markup
from ctc_align.text.notation import ANY, LATCH, OPEN, is_silent, without_optional_letters
from ctc_align.text.speaker_labels import Mark
from ctc_align.text.word_forms import other_readings, primary_subtag, spoken_forms
from ctc_align.types import (
    ANY_SPEECH,
    MARKUP,
    SPEAKER,
    SRT,
    VTT,
    LanguageSpan,
    OptionalWords,
    SourceCue,
    Subtitles,
    Word,
    Words,
)

_RUN = lazy_regex(r"\S+")
_LONGEST_ASIDE = 60
"""The most words in parentheses that may be unspoken."""
_SPACELESS = (
    "\u0e00-\u0eff"  # Thai, Lao
    "\u1000-\u109f\ua9e0-\ua9ff\uaa60-\uaa7f"  # Myanmar
    "\u1780-\u17ff"  # Khmer
    "\u2e80-\u2fdf\u3005-\u3007\u3021-\u3029\u3031-\u303c\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff"  # Han
    "\U00020000-\U000323af"
    "\u3041-\u309f\u30a1-\u30fa\u30fc-\u30ff\u31f0-\u31ff\uff66-\uff9f\U0001aff0-\U0001b16f"  # kana
)
_ANY_SPACELESS = lazy_regex(f"[{_SPACELESS}]")
_STACKERS = "\u1039\u17d2"
_VOWELS_LIKE_MARKS = "\u0e33\u0eb3"
_PREFIXES = "#@+-−±~'’"

_LETTER, _EXTEND, _STACK, _OTHER, _OPEN, _PREFIX, _WIDE, _NARROW = "LXJAOSWP"
_ATOM = lazy_regex(
    r"(?P<core>L(?:J+L|[XJ])*|A(?:[AXJ]|[POS][POSX]*(?=A))*)|(?P<open>O|S(?=S*A))|(?P<close>.)"
)


def split(
    text: str,
    *,
    language: str = "en",
    by_character: bool | None = None,
    by_dictionary: bool = False,
    cues: Sequence[SourceCue] = (),
) -> Words:
    """Split `text` into its written words.

    `char_start` and `char_end` count code points; `char_end` is exclusive.

    A word is a run of non-space characters (Unicode spaces, as `str.isspace` knows them), attached
    punctuation and hyphens included; it also ends after a dash, an ellipsis, a slash or a sentence
    mark that stands between two words ("Americans—ask": see the module). If a run contains a script
    that is written without spaces
    (Han, kana, Thai, Lao, Khmer, Myanmar), each character with its marks is a word: closing
    punctuation belongs to the character before it, opening punctuation to the one after. Every
    non-space character belongs to exactly one word.

    Labels of speakers, stage directions and markup are separate words with a `kind`, which are not
    spoken; the other words have a `speaker`. Passages that may be spoken or not are in `optional`.

    Args:
        text: the transcript.
        language: BCP 47 or ISO 639 code, which decides how digits, signs and abbreviations are
            read.
        by_character: True makes every letter and digit a word, in any script; False cuts a run only
            at markup, not
            even at a dash; None decides run by run, as above.
        by_dictionary: join characters into words of a dictionary in Chinese, Japanese and Thai,
            with readings of Japanese (`ctc_align.text.library_readings`).
        cues: of a subtitle file, whose lines may be shown again without being spoken again.

    Raises:
        UsageError: `text` or `language` is not a string, or the dictionary is not installed.

    >>> [(word.text, word.spoken) for word in split("Twenty-two cost $3.50!").words]
    [('Twenty-two', 'twenty two'), ('cost', 'cost'), ('$3.50!', 'three dollars and fifty cents')]
    >>> [word.text for word in split("「今日」は", language="ja").words]
    ['「今', '日」', 'は']
    """
    if not isinstance(text, str) or not isinstance(language, str):
        got = type(language if isinstance(text, str) else text).__name__
        raise UsageError(
            f"expected the transcript and its language as strings, got {got}; decode bytes as UTF-8"
            " first"
        )
    markup = read_markup(text, cues, language)
    spoken = markup.spoken
    spans = _spans(spoken.text, by_character)
    if by_character is None:
        latches = [at + 1 for at, character in enumerate(spoken.text) if character == LATCH]
        spans = list(cut_at(spans, sorted([*boundaries(spoken.text, language), *latches])))
    readings: Sequence[str | None] = ()
    if by_dictionary and has_spaceless(spoken.text):
        from ctc_align.text.library_readings import words_by_dictionary

        spans, readings = words_by_dictionary(spoken.text, spans, language)
    if spoken.starts is not None:
        spans = [_without_entities(span, spoken) for span in spans]
    written = [spoken.text[start:end] for start, end in spans]
    forms = spoken_forms(written, language, in_context=not by_character)
    forms = [ANY_SPEECH if ANY in word else form for word, form in zip(written, forms)]
    others = _other_readings(written, forms, language)
    if spoken.starts is None and not markup.marks and not markup.optional:
        if spans:
            words = list(map(Word, written, forms, *zip(*spans)))
        else:
            words = []
        return Words(text, tuple(_with_readings(words, readings, others)))
    return _marked_words(text, markup, spans, forms, (readings, others))


def _other_readings(
    written: Sequence[str], forms: Sequence[str], language: str
) -> dict[int, tuple[str, ...]]:
    """Return the other spoken forms of words, by index.

    Those of numbers, and of words with letters that may be unspoken.
    """
    found: dict[int, tuple[str, ...]] = {}
    for index, (word, form) in enumerate(zip(written, forms)):
        if OPEN in word:
            shorter = without_optional_letters(word)
            end = "-" * word.rstrip(",.;!?").endswith("-")
            found[index] = (spoken_forms([shorter], language, in_context=False)[0] + end,)
        elif not word.isalpha() and any(map(str.isdigit, word)):
            found[index] = other_readings(word, form, language)
    return found


def _with_readings(
    words: list[Word], readings: Sequence[str | None], others: Mapping[int, tuple[str, ...]]
) -> list[Word]:
    """Return words with their readings and the other readings that they may have.

    Of the readings, "" means the spoken form.
    """
    for index, forms in others.items():
        words[index] = replace(words[index], others=tuple(Word(form, form, 0, 0) for form in forms))
    if not readings:
        return words
    both = zip(words, readings)
    return [
        word if reading is None else replace(word, reading=reading or word.spoken)
        for word, reading in both
    ]


def words_of(
    text: str,
    settings: Settings,
    subtitles: Subtitles | None = None,
    marked: Sequence[LanguageSpan] = (),
) -> Words:
    """Split a transcript by the settings `language`, `words_by` and `romanize`.

    It may be of subtitles; an empty `language` is English.

    Words in a passage of `marked` are read in its language, all others in each language of the
    settings: the first one's form of a word is its own, the others' are its `others`.

    Raises:
        UsageError: as `split`, or uroman is needed and not installed.
    """
    first, *others = split_languages(settings.for_language().language)
    by_character = {"spaces": False, "characters": True}.get(settings.words_by)
    by_dictionary = settings.words_by == "dictionary"
    if subtitles is not None and subtitles.format in (SRT, VTT):
        cues = subtitles.cues
    else:
        cues = ()

    def split_in(language: str) -> Words:
        return split(
            text,
            language=language,
            by_character=by_character,
            by_dictionary=by_dictionary,
            cues=cues,
        )

    words = split_in(first)
    if others or marked:
        other_codes = {*others, *(span.language for span in marked)} - {first}
        words_in = {first: words, **{code: split_in(code) for code in sorted(other_codes)}}
        words = _with_languages(words_in, (first, *others), marked)
    if not settings.romanize:
        return words
    from ctc_align.text.library_readings import romanized

    return romanized(words, first)


def _with_languages(
    words_in: Mapping[str, Words], languages: Sequence[str], marked: Sequence[LanguageSpan]
) -> Words:
    """Return the words of the first of `languages`, with their forms in all of these.

    A word in a passage of `marked` has only those of its language. `words_in` has the words of the
    text in each language.
    """
    words = words_in[languages[0]]
    form_of = {
        (word.char_start, word.char_end, code): word
        for code, split_words in words_in.items()
        for word in split_words.words
        if word.spoken
    }
    starts = [span.char_start for span in marked]
    said = []
    for word in words.words:
        codes = languages
        at = bisect_right(starts, word.char_start) - 1
        if at >= 0 and word.char_start < marked[at].char_end:
            codes = (marked[at].language,)
        elif len(languages) == 1:
            codes = ()
        forms = []
        for code in codes if word.spoken else ():
            own = form_of.get((word.char_start, word.char_end, code), word)
            forms += [replace(form, others=(), language=code) for form in (own, *own.others)]
        if forms:
            first, *others = forms
            said.append(
                replace(
                    word,
                    spoken=first.spoken,
                    reading=first.reading,
                    language=first.language,
                    others=tuple(others),
                )
            )
        else:
            said.append(word)
    return replace(words, words=tuple(said))


def require_words(words: Words, source: str) -> None:
    """Raise TranscriptError, naming `source`, unless at least one word of `words` is spoken.

    >>> require_words(split("Yes."), "yes.txt")
    """
    if not words.words:
        raise TranscriptError(
            f"{source}: the transcript is empty; expected at least one word that is spoken"
        )
    if not any(word.spoken for word in words.words):
        got = " ".join(word.text for word in words.words[:5])
        raise TranscriptError(
            f"{source}: nothing in the transcript is spoken (got: {got}); expected at least one"
            " word"
        )


def _marked_words(
    text: str,
    markup: Markup,
    spans: Sequence[Span],
    forms: Sequence[str],
    readings: tuple[Sequence[str | None], Mapping[int, tuple[str, ...]]],
) -> Words:
    """Return the words of a text with marks.

    The spoken ones, in the `spans` of `markup.spoken`, and those of the marks.
    """
    spoken = markup.spoken
    marks = [
        Mark(*spoken.span(mark.start, mark.end), mark.kind, mark.speaker) for mark in markup.marks
    ]
    marks = sorted([*marks, *markup.tags], key=lambda mark: (mark.start, mark.end))
    source_spans = [spoken.span(*span) for span in spans]
    words = [
        Word(text[start:end], form, start, end) for (start, end), form in zip(source_spans, forms)
    ]
    words = _with_readings(words, *readings)
    words += _unspoken_words(text, source_spans, marks)
    words.sort(key=lambda word: word.char_start)
    names = [(mark.end, mark.speaker) for mark in marks if mark.speaker is not None]
    if names:
        ends = [end for end, _ in names]
        before = (bisect_right(ends, word.char_start) for word in words)
        words = [
            replace(word, speaker=names[at - 1][1]) if at and word.kind != SPEAKER else word
            for word, at in zip(words, before)
        ]
    return Words(text, tuple(words), tuple(_optional_words(words, markup, spans, source_spans)))


def _unspoken_words(text: str, spoken: Sequence[Span], marks: Sequence[Mark]) -> Iterator[Word]:
    """Yield the runs of characters outside the `spoken` spans, which are ascending.

    They are cut where marks begin and end.
    """
    cuts = sorted({edge for mark in marks for edge in (mark.start, mark.end)})
    gaps = zip([0, *(end for _, end in spoken)], [*(start for start, _ in spoken), len(text)])
    runs = [
        run.span() for low, high in gaps if low < high for run in _RUN.finditer(text, low, high)
    ]
    starts = [mark.start for mark in marks]
    for start, end in cut_at(runs, cuts):
        at = bisect_right(starts, start) - 1
        while at > 0 and marks[at].end <= start and marks[at - 1].end > start:
            at -= 1  # a mark inside another one
        kind = MARKUP
        if at >= 0 and marks[at].end > start:
            kind = marks[at].kind
        yield Word(text[start:end], "", start, end, kind=kind)


def _optional_words(
    words: Sequence[Word], markup: Markup, spans: Sequence[Span], source_spans: Sequence[Span]
) -> Iterator[OptionalWords]:
    """Yield the passages that may be spoken or not.

    Without those too long for an aside, and one of the whole text.
    """
    index_of = {word.char_start: index for index, word in enumerate(words)}
    said = sum(bool(word.spoken) for word in words)
    starts, ends = [start for start, _ in spans], [end for _, end in spans]
    free = 0
    for mark in markup.optional:
        low, high = bisect_right(ends, mark.start), bisect_left(starts, mark.end)
        if low >= high:
            continue
        first, last = index_of[source_spans[low][0]], index_of[source_spans[high - 1][0]] + 1
        inside = sum(bool(word.spoken) for word in words[first:last])
        if first >= free and 0 < inside < said and inside <= _LONGEST_ASIDE:
            free = last
            yield OptionalWords(first, last, mark.kind, mark.speaker or "")


def _without_entities(span: Span, spoken: MappedText) -> Span:
    """Return the span of a word without the signs around it that are entities (&quot;)."""
    start, end = span
    assert spoken.starts is not None

    def is_entity(at: int) -> bool:
        low, high = spoken.span(at, at + 1)
        return high - low > 1 and not spoken.text[at].isalnum() and not is_silent(spoken.text[at])

    if not any(map(str.isalnum, spoken.text[start:end])):
        return span
    while is_entity(start):
        start += 1
    while is_entity(end - 1):
        end -= 1
    return start, end


def _spans(text: str, by_character: bool | None) -> list[Span]:
    whole = by_character is False or (by_character is None and not has_spaceless(text))
    spans = []
    for run in _RUN.finditer(text):
        start, end = run.span()
        if whole or (by_character is None and not has_spaceless(run.group())):
            spans.append((start, end))
        else:
            spans.extend(
                (start + a, start + b)
                for a, b in character_spans(run.group(), every=bool(by_character))
            )
    return spans


def has_spaceless(text: str) -> bool:
    """Return whether `text` holds a character of a script that is written without spaces."""
    return not text.isascii() and _ANY_SPACELESS.search(text) is not None


def character_spans(run: str, *, every: bool = False) -> list[Span]:
    """Cut a run without spaces into words.

    The spans (start, end exclusive) cover it without gaps, in order.

    A letter of a spaceless script with its marks is a word, and so is each stretch between such
    letters (Latin words, digits). With `every`, each letter and digit of any script is a word.

    >>> [("iPhoneを買う。")[a:b] for a, b in character_spans("iPhoneを買う。")]
    ['iPhone', 'を', '買', 'う。']
    """
    kinds = _kinds(run, every)
    spans: list[Span] = []
    pending = -1  # start of punctuation that waits for the next word
    for atom in _ATOM.finditer(kinds):
        start, end = atom.span()
        if atom.lastgroup == "core":
            spans.append((start if pending < 0 else pending, end))
            pending = -1
        elif atom.lastgroup == "close" and pending < 0 and spans:
            spans[-1] = (spans[-1][0], end)
        elif pending < 0:
            pending = start
    if pending >= 0:
        spans[-1:] = [(spans[-1][0] if spans else pending, len(run))]
    return spans


def _kinds(run: str, every: bool) -> str:
    """Return one letter per character of `run`, for `_ATOM` to match."""
    kinds = []
    quote_is_open = False
    for character in run:
        kind = _kind(character, every)
        if character == '"':
            kind = _OPEN
            if quote_is_open:
                kind = _NARROW
            quote_is_open = not quote_is_open
        kinds.append(kind)
    if kinds[0] == _EXTEND and unicodedata.category(run[0]) == "Lm":
        kinds[0] = _LETTER  # an iteration or length mark with nothing before it is a letter
    return "".join(kinds)


@lru_cache(maxsize=16384)
def _kind(character: str, every: bool) -> str:
    category = unicodedata.category(character)
    spaceless = _ANY_SPACELESS.match(character) is not None
    if character in _STACKERS:
        return _STACK
    if (
        category[0] == "M"
        or category == "Cf"
        or character in _VOWELS_LIKE_MARKS
        or (spaceless and category == "Lm")
    ):
        return _EXTEND
    if category[0] in "LN":
        if every or (spaceless and category != "Nd"):
            return _LETTER
        return _OTHER
    if category in ("Ps", "Pi"):
        return _OPEN
    if category == "Sc" or character in _PREFIXES:
        return _PREFIX
    if unicodedata.east_asian_width(character) in "WF":
        return _WIDE
    return _NARROW


_DASHES = "\u2012\u2013\u2014\u2015\u2e3a\u2e3b\ufe58"
_ELLIPSES = "…‥"
_SLASHES = "/／"
_PAUSES = ",;،؛、，；፣፤"
_COLONS = ":：፡፥፦"
_ENDS = "!?؟۔।॥։׃።፧‽⁇⁈⁉。．！？\u037e"
_MARKS = f"{_DASHES}{_ELLIPSES}{_SLASHES}{_PAUSES}{_COLONS}{_ENDS}."
_CLUSTER = lazy_regex(rf"(?:[{_MARKS}]|--+)+")
_CLOSING = "”’»)]}›"
_OPENING = "“‘„«‹([{¿¡"
_EITHER = "\"'*_`~"
"""Signs that both open and close: quotes, and the emphasis of Markdown."""
_SIGNS = "$£€¥₹₩₽₺#@+-−%°&"
_AFTER_WORDS = f"{_CLOSING}{_EITHER}{_MARKS}%°"
_BEFORE_WORDS = f"{_CLOSING}{_OPENING}{_EITHER}{_MARKS}{_SIGNS}"
_MOST_BETWEEN = 8
"""The most quotes, brackets and signs between a mark and the letter or digit beside it."""
_LONGEST_PIECE = 40

_ENDINGS = lazy_regex(r"['’](?:s|ll|re|ve|d|m|t|S|LL|RE|VE|D|M|T)(?![^\W_])")
_TITLE_OR_DEGREE = word_set("ph ed psy lit th sc pharm mus bl")
_SLASHED_NAMES = word_set("AC/DC TCP/IP CI/CD PL/SQL HIV/AIDS GNU/LINUX UTF/ASCII")
_COLON_INSIDE = ("fi", "fin", "sv", "swe")
"""Languages that put a colon inside words: EU:n, kl:s."""
_DOMAINS = "com|org|net|edu|gov|mil|info|biz|io|ai|app|dev|tv|fm|ly|xyz|uk|de|fr|eu|ca|au|jp|cn|ru|ch|nl|br|pl|se|dk|fi"
_EXTENSIONS = (
    "pdf|docx?|xlsx?|pptx?|odt|rtf|txt|csv|tsv|json|jsonl|xml|html?|css|js|ts|py|java|cpp|rs|png|jpe?g|gif|svg|bmp|"
    "mp3|mp4|wav|flac|ogg|m4a|mov|avi|mkv|webm|zip|gz|tar|exe|dll|iso|apk|bat|cfg|ini|ya?ml|toml|tex|srt|vtt|md"
)
_HOST = r"(?<![\w-])(?:[\w-]{1,63}\.){1,4}"
_AFTER_ADDRESS = r"(?![\w-]|\.[a-z])(?:[:/?#][^\s—\"”»]*)?"
_WHOLE = lazy_regex(
    rf"(?i:[a-z][a-z\d+.-]{{1,15}}://|www\.)[^\s—\"”»<>]+"
    rf"|(?:mailto:)?[\w.%+-]{{1,64}}@(?:[\w-]{{1,63}}\.){{1,4}}\w{{2,}}"
    rf"|{_HOST}(?:{_DOMAINS}){_AFTER_ADDRESS}|{_HOST}(?:{_DOMAINS.upper()})(?![\w-]|\.[A-Z])"
    rf"|(?:[\w.-]{{1,60}}[/\\]){{0,9}}[\w-]{{1,100}}\.(?i:{_EXTENSIONS})(?![^\W_]|\.[a-z])"
    rf"|(?<![^\s\"'(])(?:~?/|\.{{1,2}}/|[A-Za-z]:[\\/]|\\\\)[^\s—]*[/\\][^\s—]*"
    rf"|(?<!\w)[@#]\w+(?:\.\w+)*"
)
"""Addresses, file names, paths and handles, which are never cut."""


def boundaries(text: str, language: str = "en") -> list[int]:
    """Return the indices in `text` where a word ends although no space follows, ascending.

    >>> [("Americans—ask and/or stop...Then 1,000 at U.S.-based x@y.org")[:cut][-4:] for cut in
    ...  boundaries("Americans—ask and/or stop...Then 1,000 at U.S.-based x@y.org")]
    ['ans—', 'and/', 'p...']
    """
    colons = primary_subtag(language) not in _COLON_INSIDE
    cuts: list[int] = []
    run_end = -1
    whole = []
    for cluster in _CLUSTER.finditer(text):
        start, end = cluster.span()
        if not start or end == len(text) or text[start - 1].isspace() or text[end].isspace():
            continue
        sides = _sides(text, start, end)
        if sides is None or not _separates(cluster.group(), *sides, colons):
            continue
        if start >= run_end:
            run_start, run_end = _run(text, start)
            whole = [
                (run_start + match.start(), run_start + match.end())
                for match in _WHOLE.finditer(text[run_start:run_end])
            ]
        if not any(low <= start and end <= high for low, high in whole):
            cuts.append(_after_closing(text, end))
    return cuts


def _run(text: str, index: int) -> Span:
    """Return the run of non-space characters around an index."""
    start, end = index, index
    while start and not text[start - 1].isspace():
        start -= 1
    while end < len(text) and not text[end].isspace():
        end += 1
    return start, end


def _sides(text: str, start: int, end: int) -> tuple[str, str] | None:
    """Return the pieces of words on both sides of a mark, None if there is no word on one side."""
    left, right = start, end
    while left and start - left < _MOST_BETWEEN and text[left - 1] in _AFTER_WORDS:
        left -= 1
    opened = False
    while right < len(text) and right - end < _MOST_BETWEEN and text[right] in _BEFORE_WORDS:
        opened = opened or text[right] in _OPENING
        if not opened and _CLUSTER.match(text, right):
            return None  # of several marks in a row only the last one separates words
        right += 1
    if not left or right == len(text) or not _is_word(text[left - 1]) or not _is_word(text[right]):
        return None
    if _ENDINGS.match(text, end):
        return None
    low, high = left, right
    while low and left - low < _LONGEST_PIECE and _is_inside(text[low - 1]):
        low -= 1
    while high < len(text) and high - right < _LONGEST_PIECE and _is_inside(text[high]):
        high += 1
    return text[low:left].strip("-'’"), text[right:high].strip("-'’")


@lru_cache(maxsize=4096)
def _is_word(character: str) -> bool:
    return character.isalnum() or (
        not character.isascii() and unicodedata.category(character)[0] in "LMN"
    )


def _is_inside(character: str) -> bool:
    return character in "-'’\u2010\u2011" or _is_word(character)


def _separates(marks: str, left: str, right: str, colons: bool) -> bool:
    """Return whether marks separate the two pieces of words around them."""
    digits = left[-1:].isdigit() and right[:1].isdigit()
    if any(mark in _DASHES for mark in marks) or "--" in marks:
        return _dash_separates(marks, left, right)
    if ".." in marks or any(mark in _ELLIPSES for mark in marks):
        return not digits
    if any(mark in _SLASHES for mark in marks):
        return _slash_separates(left, right)
    if any(mark in _ENDS or mark in _PAUSES for mark in marks):
        return not digits
    if any(mark in _COLONS for mark in marks):
        return colons and not digits and not (_is_initial(left) or _is_initial(right))
    return _point_separates(left, right)


def _dash_separates(marks: str, left: str, right: str) -> bool:
    if left[:1].isdigit() and right[:1].isdigit():
        return False  # a range: 1990–1995, 5pm–6pm
    if marks not in ("\u2012", "\u2013"):
        return True
    if _is_initial(left) and _is_initial(right):
        return False  # A–Z
    return not (right[:1].isdigit() and left.isupper() and len(left) <= 5)  # F–16


def _slash_separates(left: str, right: str) -> bool:
    if _is_initial(left) or _is_initial(right) or not (left[-1:].isalpha() and right[:1].isalpha()):
        return (
            not (left.isascii() and right.isascii()) and left[-1:].isalpha() and right[:1].isalpha()
        )
    if left[:1].isdigit():
        return False  # 60km/hour
    if unit_name(plain(left)) and unit_name(plain(right)):
        return False  # kg/m²
    return f"{left}/{right}".upper() not in _SLASHED_NAMES


def _point_separates(left: str, right: str) -> bool:
    if left.isdigit():
        return len(right) > 1 and right[:1].isupper() and right[1:2].islower()  # "in 1999.Then"
    if not right[:1].isalpha() or _is_initial(left):
        return False
    if left.lower() in _TITLE_OR_DEGREE and len(right) <= 2:
        return False  # Ph.D
    return not _is_initial(right) or (right in ("I", "A") and left[-1:].islower())


def _is_initial(piece: str) -> bool:
    """Return whether a piece is one letter of a script with capitals."""
    return len(piece) == 1 and piece.lower() != piece.upper()


def _after_closing(text: str, index: int) -> int:
    """Return the index after the quotes and brackets that close at `index`."""
    while index < len(text) and (
        text[index] in _CLOSING
        or (text[index] in _EITHER and text[index] != "'" and _is_open(text, index))
    ):
        index += 1
    return index


def _is_open(text: str, index: int) -> bool:
    """Return whether the sign at `index` has been opened before in its line.

    The sign both opens and closes.
    """
    sign = text[index]
    before = text[text.rfind("\n", 0, index) + 1 : index]
    return before.count(sign) % 2 == 1 or before.replace(sign * 2, sign).count(sign) % 2 == 1


def cut_at(spans: list[Span], cuts: list[int]) -> Iterator[Span]:
    """Yield the spans, each cut at those of `cuts` that lie inside it.

    Spans are (start, end exclusive), ascending.

    >>> list(cut_at([(0, 5), (6, 9)], [2, 5, 8]))
    [(0, 2), (2, 5), (6, 8), (8, 9)]
    """
    at = 0
    for start, end in spans:
        while at < len(cuts) and cuts[at] < end:
            if cuts[at] > start:
                yield start, cuts[at]
                start = cuts[at]
            at += 1
        yield start, end
