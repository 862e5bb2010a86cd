"""Phones of words in Arabic letters: Arabic, Persian, Urdu, Pashto, Sindhi, Sorani Kurdish, Uyghur and others.

Uyghur and Kurdish write all their vowels; the others leave out the short ones.
"""

from __future__ import annotations

import re
from functools import lru_cache

from ctc_align.text.characters import word_set
from ctc_align.text.runs import divided
from ctc_align.text.sounds.neighbours import unknown
from ctc_align.text.sounds.pieces import Piece
from ctc_align.text.sounds.short_vowels import SHORT, Letter, with_short_vowels
from ctc_align.text.sounds.spelling_rules import phone_table

_CONSONANTS = """
ء=ʔ ب=b ت=t ث=θ ج=dʒ ح=h خ=x د=d ذ=ð ر=r ز=z س=s ش=ʃ ص=s ض=d ط=t ظ=ð ع=ʔ غ=ɣ ف=f ق=q ك=k ل=l م=m ن=n ه=h ئ=ʔ ؤ=ʔ
أ=ʔ إ=ʔ آ=ʔ پ=p چ=tʃ ژ=ʒ گ=ɡ ک=k ڤ=v ہ=h ھ=h ۀ=h ە=h ۃ=t ٹ=ʈ ڈ=ɖ ڑ=r ں=n ټ=ʈ ډ=ɖ ړ=r ږ=ʒ ښ=ʃ ڼ=n څ=ts ځ=dz ګ=ɡ ڭ=ŋ ڠ=ŋ
ڽ=ɲ ݢ=ɡ ۋ=v ڕ=r ڵ=l ٻ=b ڄ=dʒ ڏ=ɖ ڳ=ɡ ڦ=p ڪ=k ٿ=t ٽ=ʈ ٺ=ʈ ڌ=d ڊ=ɖ ڍ=ɖ ڀ=b ڻ=n ڱ=ŋ ڃ=ɲ ڇ=tʃ ڙ=r ڧ=q ڨ=ɡ ڥ=v ݣ=ɡ ۊ=v
ڒ=r ڗ=dz ڞ=ʃ ڟ=ts ڬ=k ڢ=f ݨ=n
"""
_IRANIAN = "ث=s ذ=z ض=z ظ=z"
_OWN = {
    "fa": f"{_IRANIAN} ق=ɣ",
    "ur": f"{_IRANIAN} ع= ئ= ؤ= أ= ھ= ں=",
    "ps": f"{_IRANIAN} ع= ح=h ف=f ق=q ئ=",
    "sd": f"{_IRANIAN} ع= ئ= ھ=h ک=k",
    "ks": f"{_IRANIAN} ع= ئ=",
}
_OWN["pa"] = _OWN["pnb"] = _OWN["skr"] = _OWN["ur"]
_LONG_A = {"fa": "ɔ"}
_E_VOWELS = {"ې": ("e",), "ے": ("e",), "ێ": ("e",), "ۍ": ("ə", "ɪ"), "ۓ": ("e",)}
_WAW = {"ur": "o", "pa": "o", "pnb": "o", "skr": "o", "ps": "o", "sd": "o"}
_FINAL_HE = {"fa": "e", "ur": "a", "pa": "a", "pnb": "a", "skr": "a", "ps": "a", "sd": "a", "ks": "ə"}
"""The vowel that a final he is after a consonant."""
_MARKS = {
    "\u064e": ("a",), "\u064f": ("u",), "\u0650": ("i",), "\u0652": (), "\u064b": ("a", "n"), "\u064c": ("u", "n"),
    "\u064d": ("i", "n"), "\u0670": ("a",), "\u0656": ("i",), "\u0657": ("u",), "\u06e1": (),
}  # fmt: skip
_SHADDA, _HAMZA_ABOVE = "\u0651", "\u0654"
_ALEFS, _WAWS, _YES, _HES = "اأإآٱىٰ", "وۆۇۊ", "يیىئ", "هہەة"
_SUN = frozenset("تثدذرزسشصضطظلن")
_ARTICLE = re.compile("(?P<prefix>[وفبك]?)ال(?=[^\u064b-\u0652]{2})|(?P<for>لل)(?=..)")
_FULL = {
    "ug": "ئ= ا=a ە=æ ې=e ى=i ی=i و=o ۇ=u ۆ=ø ۈ=y ۋ=w ي=j ھ=h غ=ʁ ج=dʒ",
    "ckb": "ئ= ا=a ە=ɛ ێ=e ۆ=o ڵ=l ڕ=r ڤ=v ع=ʔ ح=h غ=ɣ ق=q ه=h ھ=h",
    "kk": "ا=a ٵ=æ ە=e و=o ٶ=ø ۇ=u ٷ=y ى=ɨ ي=j ۋ=w ع=ɣ ق=q ڭ=ŋ چ=tʃ ھ=h ء=",
}
_FULL["ku"] = _FULL["ckb"]
_WORDS = {
    "ar": "هو=huwa هي=hija هذا=haða هذه=haði ذلك=ðalik لكن=lakin الله=ala هؤلاء=haʔulaʔ",
    "fa": "او=u نه=næ تو=to دو=do چون=tʃon خود=xod",
    "ur": "یہ=je وہ=vo نہ=nə کہ=ke میں=mɛ̃ ہے=hɛ ہیں=hɛ̃ اور=ɔr ہوں=hu پر=pər سے=se",
}
"""Frequent words that are said otherwise than they are written."""
_SILENT_INSIDE = {"ur": "ھعئ", "pa": "ھعئ", "pnb": "ھعئ", "skr": "ھعئ", "sd": "ع", "ps": "ع", "ks": "ھع"}
_NASAL_VOWELS = {"a": "ã", "e": "ɛ̃", "o": "ɔ̃"}
_UNWRITTEN = word_set("ckb ku")


def arabic_pieces(text: str, language: str) -> list[Piece]:
    """Return a piece for each letter with its marks.

    >>> [" ".join(piece.phones) for piece in arabic_pieces("كتاب", "ar")]
    ['k ə', 't', 'a', 'b']
    """
    code = language if language in _OWN or language in _FULL else "ar"
    if code in _FULL:
        letters = _full_letters(text, code)
        return with_short_vowels([_said(letter) for letter in letters], final_clusters="none")
    if phones := _words(code).get(text):
        return _shared_out(text, phones)
    letters = _letters(text, code)
    return with_short_vowels(letters, final_clusters="short" if code == "ar" else "all")


def _shared_out(text: str, phones: tuple[str, ...]) -> list[Piece]:
    return [Piece(place, place + 1, part) for place, part in enumerate(divided(phones, len(text)))]


def _said(letter: Letter) -> Letter:
    letter.vowel = letter.vowel or ()
    return letter


def _full_letters(text: str, language: str) -> list[Letter]:
    """Return the letters of a script that writes its vowels; Kurdish و and ی are vowels beside consonants."""
    table = _table(language)
    letters: list[Letter] = []
    for place, character in enumerate(text):
        phones = table.get(character, unknown(character))
        if language in _UNWRITTEN and character in "ویي":
            before, after = text[place - 1 : place], text[place + 1 : place + 2]
            is_doubled = character == before == "و"
            is_glide = not before or before in "اەێۆ" or (after != "" and after in "اەێۆ") or before == "ئ"
            is_glide = is_glide and not (before == "ئ" and not (after and after in "اەێۆ"))
            phones = (("w" if is_glide else "u",) if character == "و" else ("j" if is_glide else "i",)) * (
                not is_doubled
            )
        letters.append(Letter(place, place + 1, phones))
    return letters


def _letters(text: str, language: str) -> list[Letter]:
    table = _table(language)
    article = _ARTICLE.match(text) if language == "ar" and len(text) > 3 else None
    letters: list[Letter] = _article(article, text) if article else []
    for place in range(letters[-1].end if letters else 0, len(text)):
        character, last = text[place], letters[-1] if letters else None
        if character in _MARKS and last is not None:
            last.end = place + 1
            if not last.vowel or last.onset or len(_MARKS[character]) > 1:
                last.vowel = _MARKS[character]
        elif last is not None and character in _SHADDA + _HAMZA_ABOVE + _SILENT_INSIDE.get(language, ""):
            last.end = place + 1
        elif character == "و" and last is not None and _is_silent_waw(text, place, language):
            last.end, last.vowel = place + 1, ()
        elif character == "ں" and last is not None and language != "ar":
            last.end = place + 1
            last.vowel = tuple(_NASAL_VOWELS.get(phone, phone) for phone in last.vowel or (SHORT,))
        elif character not in table and character not in _ALEFS + _WAWS + _YES + _HES and character not in _E_VOWELS:
            letters.append(Letter(place, place + 1, unknown(character), ()))
        else:
            letters.append(_letter(text, place, last, language))
            vowel_letter = not letters[-1].onset and letters[-1].vowel
            if vowel_letter and last is not None and last.is_bare:
                last.vowel = ()
    return letters


def _is_silent_waw(text: str, place: int, language: str) -> bool:
    return language == "fa" and text[place - 1] == "خ" and text[place + 1 : place + 2] == "ا"


def _article(match: re.Match[str], text: str) -> list[Letter]:
    """Return the letters of the article, whose l is the next consonant where that is a coronal."""
    start = match.end("prefix") if match["prefix"] else 0
    letters = [Letter(0, 1, _table("ar").get(text[0], ("w",)), ("a",))] if start else []
    follows = text[match.end()] if match.end() < len(text) else ""
    sound = () if follows in _SUN else ("l",)
    if match["for"]:
        return [Letter(0, 1, ("l",), ("i",)), Letter(1, 2, sound, ())]
    return [*letters, Letter(start, start + 1, (), () if start else ("a",)), Letter(start + 1, start + 2, sound, ())]


def _letter(text: str, place: int, last: Letter | None, language: str) -> Letter:
    """Return the letter at a place: a consonant, or a vowel where it can be one."""
    character = text[place]
    rest = text[place + 1 :].lstrip("".join((*_MARKS, _SHADDA, _HAMZA_ABOVE)))
    marked = text[place + 1 : place + 2]
    is_marked = marked in _MARKS or marked == _SHADDA
    after_consonant = last is not None and bool(last.onset) and not last.vowel
    span = (place, place + 1)
    if character in _E_VOWELS:
        return Letter(*span, (), _E_VOWELS[character], is_long=True)
    if character in "اآٱأإ" or (last is None and character == "ع" and language in _SILENT_INSIDE):
        return _alef(text, place, last, language)
    if character == "ة":
        return Letter(*span, (), ("a",) if not (last and last.vowel) else (), is_long=True)
    if character == "ى" and not rest and last is not None:
        return Letter(*span, (), ("a",), is_long=True)
    if character in "هہەۀ" and not rest and after_consonant and language in _FINAL_HE and len(text) > 1:
        return Letter(*span, (), (_FINAL_HE[language],), is_long=True)
    if (character in _WAWS and character not in "ۇۆ") or character in "يیى":
        glide = ("v" if language in ("fa", "ur") else "w") if character in _WAWS else "j"
        before_vowel = (rest[:1] != "" and rest[0] in "اآےېێ") or rest in ("ة", "ى")
        before_vowel = before_vowel or (rest in ("ه", "ہ") and language in _FINAL_HE)
        if last is None or before_vowel or is_marked or (last.vowel and not _lengthens(last, character)):
            is_alone = not rest and last is not None and bool(last.vowel)
            return Letter(*span, (glide,), () if is_alone else None)
        vowel = _WAW.get(language, "u") if character in _WAWS else "i"
        if last.vowel and last.onset:
            last.vowel = ()  # the mark before a long vowel says the same
        return Letter(*span, (), (vowel,), is_long=True)
    if character in "ۇۆ":
        return Letter(*span, (), ("u",) if character == "ۇ" else ("o",), is_long=True)
    return Letter(*span, _table(language).get(character, ()), None if _table(language).get(character) else ())


def _lengthens(last: Letter, character: str) -> bool:
    return bool(last.onset) and last.vowel == (("u",) if character in _WAWS else ("i",))


def _alef(text: str, place: int, last: Letter | None, language: str) -> Letter:
    character, follows = text[place], text[place + 1 : place + 2]
    long_a = (_LONG_A.get(language, "a"),)
    hamza = ("ʔ",) if language == "ar" else ()
    if character == "آ":
        return Letter(place, place + 1, hamza if last else (), long_a, is_long=True)
    if character == "إ":
        return Letter(place, place + 1, hamza if last else (), ("i",))
    if last is None and (follows in "ويی" and follows) and len(text) > 2 and text[place + 2] not in "اآ":
        return Letter(place, place + 1, (), ())
    if last is None:
        return Letter(place, place + 1, (), ("a",) if character == "أ" else (SHORT,))
    if character == "أ":
        return Letter(place, place + 1, hamza, ("a",))
    if last.vowel and last.onset and last.vowel[-1:] == ("n",):
        return Letter(place, place + 1, (), ())
    if last.vowel == ("a",) and last.onset:
        last.vowel = ()  # the mark before a long vowel says the same
    return Letter(place, place + 1, (), long_a, is_long=True)


@lru_cache(maxsize=16)
def _words(language: str) -> dict[str, tuple[str, ...]]:
    return phone_table(_WORDS.get(language, ""))


@lru_cache(maxsize=16)
def _table(language: str) -> dict[str, tuple[str, ...]]:
    return phone_table(f"{_CONSONANTS} {_OWN.get(language, '')} {_FULL.get(language, '')}")
