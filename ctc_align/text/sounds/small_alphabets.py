"""Phones of words in alphabets of one language each: Greek, Georgian, Armenian."""

from __future__ import annotations

from functools import lru_cache

from ctc_align.text.sounds.pieces import Piece
from ctc_align.text.sounds.spelling_rules import SpellingRules

_GREEK_VOWELS, _GREEK_FRONT = "αεηιουω", "εηιυ"
_VOICELESS = "[θκξπσςτφχψ]"
_GREEK = f"""
α=a β=v γ=ɣ δ=ð ε=e ζ=z η=i θ=θ ι=i κ=k λ=l μ=m ν=n ξ=ks ο=o π=p ρ=r σ=s ς=s τ=t υ=i φ=f χ=x ψ=ps ω=o ϐ=v ϑ=θ ϕ=f '=
ά=a έ=e ή=i ί=i ό=o ύ=i ώ=o ϊ=i ϋ=i ΐ=i ΰ=i αι=e αί=e ει=i εί=i οι=i οί=i υι=i υί=i ου=u ού=u αυ=av αύ=av ευ=ev εύ=ev
ηυ=iv ηύ=iv αυ/_{_VOICELESS}=af αύ/_{_VOICELESS}=af ευ/_{_VOICELESS}=ef εύ/_{_VOICELESS}=ef αυ/_#=af ευ/_#=ef αύ/_#=af
εύ/_#=ef μπ=b ντ=d γκ=ɡ γκ/V_=ŋɡ γγ=ŋɡ γχ=ŋx γξ=ŋks τσ=ts τζ=dz σ/_[βγδζμ]=z γ/_E=j γ/_αι=j γ/_αί=j γ/_ει=j γ/_οι=j
γι/_[αάοόωώ]=j γι/_ου=j γει/_[αάοόωώ]=j ι/C_[αάοόωώ]=j γκ/_E=ɡ ό/_ι=o ϣ=ʃ ϥ=f ϧ=x ϩ=h ϫ=dʒ ϭ=tʃ ϯ=ti ϝ=w ϲ=s ϳ=j
"""
_GEORGIAN = """
ა=a ბ=b გ=ɡ დ=d ე=e ვ=v ზ=z თ=t ი=i კ=k ლ=l მ=m ნ=n ო=o პ=p ჟ=ʒ რ=r ს=s ტ=t უ=u ფ=p ქ=k ღ=ɣ ყ=q შ=ʃ ჩ=tʃ ც=ts ძ=dz წ=ts
ჭ=tʃ ხ=x ჯ=dʒ ჰ=h ჱ=e ჲ=j ჳ=w ჴ=q ჵ=o ჶ=f ჷ=ə ჸ=ʔ ჹ=ɡ ჺ=ʔ ჼ=n '=
"""
_ARMENIAN = """
ա=a բ=b գ=ɡ դ=d ե=e ե/#_=je ե/V_=je զ=z է=e ը=ə թ=t ժ=ʒ ի=i լ=l խ=x ծ=ts կ=k հ=h ձ=dz ղ=ʁ ճ=tʃ մ=m յ=j ն=n շ=ʃ ո=o
ո/#_=vo ո/#_վ=o չ=tʃ պ=p ջ=dʒ ռ=r ս=s վ=v տ=t ր=r ց=ts ու=u ու/_V=v ւ=v փ=p ք=k օ=o ֆ=f և=ev և/#_=jev և/V_=jev եւ=ev
եւ/#_#=jev ՙ= '= յ/#_=j
"""
_WESTERN_ARMENIAN = _ARMENIAN + " բ=p պ=b գ=k կ=ɡ դ=t տ=d ծ=dz ձ=ts ճ=dʒ ջ=tʃ յ/#_=h"


def greek_pieces(text: str, language: str) -> list[Piece]:
    """Return the pieces of a stretch of Greek letters, ancient ones read as modern."""
    return _rules(_GREEK, _GREEK_VOWELS, _GREEK_FRONT).pieces(text)


def georgian_pieces(text: str, language: str) -> list[Piece]:
    """Return the pieces of a stretch of Georgian letters."""
    return _rules(_GEORGIAN, "აეიოუ", "ეი").pieces(text)


def armenian_pieces(text: str, language: str) -> list[Piece]:
    """Return the pieces of a stretch of Armenian letters, Eastern ones unless the language is Western Armenian."""
    return _rules(_WESTERN_ARMENIAN if language == "hyw" else _ARMENIAN, "աեէըիոօ", "եէի").pieces(text)


@lru_cache(maxsize=8)
def _rules(table: str, vowels: str, front: str) -> SpellingRules:
    return SpellingRules((table,), vowels=vowels, front=front, hiatus=True)
