"""Phones of words in Latin letters: a table that suits most languages, and what single languages read otherwise."""

from __future__ import annotations

from functools import lru_cache

from ctc_align.text.characters import word_set
from ctc_align.text.sounds.english_words import english_pieces
from ctc_align.text.sounds.latin_europe import EUROPE
from ctc_align.text.sounds.latin_world import WORLD
from ctc_align.text.sounds.pieces import Piece
from ctc_align.text.sounds.spelling_rules import SpellingRules

VOWELS, FRONT = "aeiouyæœøıəɛɔǝɩɨʉ", "eiyæœøɛäöü"
GENERIC = """
a=a b=b c=k d=d e=e f=f g=ɡ h=h i=i j=j k=k l=l m=m n=n o=o p=p q=k r=r s=s t=t u=u v=v w=w x=ks y=i z=z '=
c/_E=ts y/_V=j y/V_=j n/_[kgqx]=ŋ ng/_#=ŋ
ch=tʃ ck=k cz=tʃ dj=dʒ dz=dz dzh=dʒ gh=ɡ gn=ɲ kh=x ny/_V=ɲ nj/_V=ɲ ph=f qu=kw sch=ʃ sh=ʃ sz=s tch=tʃ th=t ts=ts tz=ts
zh=ʒ ä=ɛ ö=ø ü=y å=o ø=ø æ=ɛ œ=ø ß=s ñ=ɲ ç=s č=tʃ ć=tʃ ĉ=tʃ ċ=tʃ š=ʃ ś=ʃ ş=ʃ ș=ʃ ŝ=ʃ ž=ʒ ź=ʒ ż=ʒ ĵ=ʒ ǆ=dʒ đ=dʒ ð=ð þ=θ
ď=d ť=t ţ=ts ț=ts ň=ɲ ń=ɲ ņ=ɲ ŋ=ŋ ł=w ľ=l ļ=l ĺ=l ř=rʒ ŕ=r ğ=ɣ ģ=ɡ ĝ=dʒ ġ=dʒ ǧ=dʒ ǵ=ɡ ħ=h ĥ=x ḥ=h ḫ=x ķ=k ĳ=ɛɪ
ă=ə ą=a ę=e ė=e ě=e ẽ=ɛ̃ ã=ã õ=ɔ̃ ı=ɨ ű=y ő=ø û=u ŭ=w ư=ɨ ơ=ə ə=æ ǝ=ə ɛ=ɛ ɔ=ɔ ɓ=b ɗ=d ɖ=ɖ ɠ=ɡ ƙ=k ƴ=j ɣ=ɣ ʿ= ʾ=
ṭ=t ḍ=d ṣ=s ẓ=z ṛ=r ẋ=x ḏ=ð ṯ=θ ẖ=x ǀ=k ǁ=k ǂ=k ǃ=k ɩ=ɪ ʋ=v ŧ=θ ƒ=f ª=a º=o ɲ=ɲ ʃ=ʃ ʒ=ʒ ɨ=ɨ ʉ=u
α=a β=b γ=ɣ δ=ð ε=e θ=θ λ=l μ=m π=p σ=s φ=f χ=x ω=o
"""
_NOT_LATIN = word_set(
    """en ru uk be bg mk el ka hy ar fa ur ps ckb ug he yi hi bn as pa gu or ta te kn ml si mr ne sa th lo my km bo dz
    zh yue ja ko am ti dv ab cv sah ky tg mn ba os"""
)
"""Languages that are written in other letters, where a word in Latin letters is English; and English."""


_LIKE = {
    **dict.fromkeys(("nb", "nn"), "no"), **dict.fromkeys(("bs", "sr", "sh", "cnr"), "hr"), "fil": "tl",
    **dict.fromkeys(("ms", "min", "ace", "bjn"), "id"), **dict.fromkeys(("ast", "an", "ext", "lad"), "es"),
    **dict.fromkeys(("scn", "nap", "vec", "lmo", "lij", "sc", "co", "fur", "pms"), "it"), "mwl": "pt",
    **dict.fromkeys(("nds", "bar"), "de"), "li": "nl", **dict.fromkeys(("szl", "csb"), "pl"), "gag": "tr", "ba": "tt",
    "kmr": "ku", "gv": "gd", "tw": "ak", "fat": "ak",
}  # fmt: skip
"""Languages that are read as another one is."""
_GERMAN = word_set("lb gsw")
"""Languages that are read as German is, but for their own tables."""
_FINAL_DEVOICING = word_set("de nl af fy ca pl cs sk hsb dsb sl mt br lb gsw")
_ASSIMILATION = word_set("nl fy pl cs sk hsb dsb sl hu mt lt")
_HIATUS = word_set(
    "es gl pt ca oc it ro la ia eo io pl cs sk hr sl sq eu id ms sw zu xh tl rw hu fr ga ja mi haw sm to qu vi"
)
"""Languages in which two equal vowels are two syllables, not one long vowel."""


def is_read_as_english(language: str) -> bool:
    """Return whether a word in Latin letters is an English one in a text of this language."""
    return language in _NOT_LATIN


def latin_pieces(text: str, language: str) -> list[Piece]:
    """Return the pieces of a stretch of Latin letters."""
    if is_read_as_english(language):
        return english_pieces(text)
    return _rules(language).pieces(text)


@lru_cache(maxsize=256)
def _rules(language: str) -> SpellingRules:
    own = _LIKE.get(language, language)
    table = EUROPE.get(own) or WORLD.get(own, "")
    tables = (GENERIC, EUROPE["de"], table) if own in _GERMAN else (GENERIC, table)
    return SpellingRules(
        tables,
        vowels=VOWELS,
        front=FRONT,
        final_devoicing=own in _FINAL_DEVOICING,
        assimilation=own in _ASSIMILATION,
        hiatus=own in _HIATUS,
    )
