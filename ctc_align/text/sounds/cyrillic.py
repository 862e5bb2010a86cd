"""Phones of words in Cyrillic letters: a table that suits most languages, and what single languages read
otherwise."""

from __future__ import annotations

from functools import lru_cache

from ctc_align.text.characters import word_set
from ctc_align.text.sounds.pieces import Piece
from ctc_align.text.sounds.spelling_rules import SpellingRules

VOWELS, FRONT = "аеёиоуыэюяѣіїєөүұәӑӗӕѵѧѫѡꙋьъ", "еёиюяіїєөүәьѣ"
"""The signs ь and ъ stand among the vowels, because a vowel letter begins with j after both."""
GENERIC = """
а=a б=b в=v г=ɡ д=d е=je е/C_=e ё=jo ё/C_=o ж=ʒ з=z и=i й=j к=k л=l м=m н=n о=o п=p р=r с=s т=t у=u ф=f х=x ц=ts ч=tʃ
ш=ʃ щ=ʃ ъ= ы=ɨ ь= э=e ю=ju ю/C_=u я=ja я/C_=a '= і=i ї=ji є=je є/C_=e ґ=ɡ ў=w ђ=dʒ ѓ=dj ѕ=dz ј=j љ=lj њ=ɲ ћ=tʃ ќ=tj
џ=dʒ ѣ=e ѳ=f ѵ=i ѡ=o ѧ=ja ѫ=u ꙋ=u ѯ=ks ѱ=ps ә=æ ӕ=æ ғ=ʁ ҕ=ɣ ӷ=ʁ ҙ=ð җ=dʒ ҝ=ɡ қ=q ҡ=q ҟ=q ң=ŋ ҥ=ŋ ӈ=ŋ ө=ø ӧ=ø ҫ=s ұ=ʊ
ү=y ӱ=y ӳ=y һ=h ҳ=h ҷ=dʒ ҹ=dʒ ӝ=dʒ ӟ=dʒ ӵ=tʃ ӓ=æ ӑ=ə ӗ=ə ӣ=i ӥ=i ӯ=u ӡ=dz ҭ=t ҧ=p ԥ=p ҩ=w ҵ=ts ҽ=tʃ ҿ=tʃ ӄ=q ӌ=dʒ ӏ=
ԛ=q ԝ=w ҏ=r ӊ=n ӆ=l ӹ=ɨ ӭ=e дж=dʒ дз=dz нг/_#=ŋ a=a ă=ə b=v c=s ç=ʃ e=e ĕ=ə ə=æ h=h i=i ï=ji j=j k=k m=m o=o ö=ø p=p
s=dz t=t x=x y=u ÿ=y
"""
"""The last line are Latin letters that look like Cyrillic ones, where a word has a few of them."""
_NO_J = "е=e э=e"
_TURKIC = "ж=ʒ х=x в=v э=e у/[аеиоыэюяөәү]_=w щ=ʃ ц=ts е/V_=je"
_CAUCASIAN = """
кӏ=k тӏ=t пӏ=p цӏ=ts чӏ=tʃ ӏ=ʔ хӏ=h гӏ=ʁ къ=q кх=q хъ=q гъ=ʁ хь=h аь=æ оь=ø уь=y яь=jæ юь=jy лъ=l кь=k ъ=ʔ
"""
_TABLES: dict[str, str] = {
    "ru": """
        ж=ʒ и/[жшц]_=ɨ е/[жшц]_=e щ=ʃ сч=ʃ зч=ʃ тч=tʃ ого/_#=ovo его/C_#=evo его/#_#=jevo его/[аоуыиеэюя]_#=jevo
        что/#_=ʃto чтоб/#_=ʃtob конечно=koneʃno тся/_#=tsa ться/_#=tsa здн=zn стн=sn лнц=nts вств=stv тц=ts дц=ts дч=tʃ
        дж=dʒ дз=dz гк=xk сегодня=sevodna нг=nɡ ь/_[иео]=j ьи=ji ье=je ьё=jo ью=ju ья=ja
    """,
    "uk": "г=h и=ɪ щ=ʃtʃ в/V_C=w в/V_#=w в/#_C=w ьо=jo йо=jo дз=dz дж=dʒ е=e е/C_=e",
    "be": "г=ɣ щ=ʃtʃ дз=dz дж=dʒ цц=ts",
    "bg": f"{_NO_J} щ=ʃt ъ=ə ьо=jo ь= г=ɡ дж=dʒ",
    "mk": f"{_NO_J} х=x л=l р/C_C=ər",
    "sr": f"{_NO_J} х=x р/C_C=ər р/#_C=ər",
    "kk": f"{_TURKIC} і=ɪ ы=ɨ е/#_=je и=ɪ у/C_=u ң=ŋ һ=h",
    "ky": f"{_TURKIC} ж=dʒ е=e я=ja ң=ŋ",
    "tt": f"{_TURKIC} җ=ʒ ч=ʃ в=w е/#_=jɨ г/_[аоуыъ]=ʁ г/[аоуы]_=ʁ к/_[аоуыъ]=q к/[аоуы]_=q гъ=ʁ къ=q э=e",
    "ba": f"{_TURKIC} ҫ=θ в=w е/#_=je",
    "cv": "ҫ=ʃ ç=ʃ ӑ=ə ӗ=ə ӳ=y в=v е=e е/#_=je ч=tʃ х=x",
    "sah": "дь=dʒ нь=ɲ ҕ=ʁ ҥ=ŋ х=q һ=h в=v",
    "az": "ҹ=dʒ ҝ=ɡ ј=j ғ=ɣ г=ɡ е=e ж=ʒ",
    "uz": "ў=o о=ɔ ж=dʒ ҳ=h ғ=ʁ х=x е=e е/#_=je",
    "tk": "җ=dʒ с=θ з=ð в=w е=e е/#_=je",
    "ug": "җ=dʒ ж=ʒ е=e",
    "mn": """
        ө=ø ү=u у=ʊ о=ɔ ж=dʒ з=dz в=w ы=i е=je ё=jɔ ю=jʊ э=e ий=i ы/C_й=i н/_[гкх]=ŋ н/_#=ŋ нг/_#=ŋ г/V_#=ɡ юу=jʊ яа=ja
        ёо=jɔ еэ=je е/C_=je ю/C_=jʊ я/C_=ja ё/C_=jɔ
    """,
    "bua": "ө=ø ү=y ж=ʒ з=z һ=h е=je",
    "xal": "җ=dʒ ә=æ һ=h е=je",
    "tg": f"{_NO_J} ӯ=u ғ=ʁ х=x ҷ=dʒ ъ= е/#_=je е/V_=je",
    "os": f"{_NO_J} ы=ə гъ=ʁ хъ=q дз=dz дж=dʒ у/_V=w у/V_=w",
    "ab": """
        а=a ы=ə и/[аеоы]_=j и/_[аеоы]=j у/V_=w у/_V=w ә=w е=e о=o ь= ж=ʒ жь=ʒ шь=ʃ жә=ʒ шә=ʃ гь=ɡ кь=k хь=x ҕ=ʁ ҳә=hw
        цә=tʃ ҵә=tʃ ӡә=dʒ ҭә=tw тә=tw дә=dw ч=tʃ ҷ=tʃ џь=dʒ џ=dʒ ҩ=w
    """,
    "ce": _CAUCASIAN,
    "inh": _CAUCASIAN,
    "av": _CAUCASIAN,
    "lez": _CAUCASIAN,
    "kbd": _CAUCASIAN + "жь=ʒ шӏ=ʃ щӏ=ʃ щ=ʃ кӏу=kw ку=kw гу=ɡw хъу=qw къу=qw э=ə ы=ə у/_V=w",
    "ady": _CAUCASIAN + "жь=ʒ шъ=ʃ шӏ=ʃ кӏ=tʃ э=ə ы=ə у/_V=w",
    "kv": "ӧ=ə і=i дж=dʒ тш=tʃ",
    "udm": "ӧ=ə",
    "chm": "г=ɣ д=ð б=b в=v",
    "cu": "щ=ʃt ъ=ə ь=ɪ ы=ɨ",
}
_LIKE = {"bs": "sr", "sh": "sr", "hr": "sr", "cnr": "sr", "mhr": "chm", "mrj": "chm", "koi": "kv", "crh": "kk"}
_FINAL_DEVOICING = word_set("ru be bg mk")
_ASSIMILATION = word_set("ru be bg mk sr")
_LONG_VOWELS = word_set("ky sah mn bua xal kk tt ba")
"""Languages that write a long vowel twice; elsewhere two are two syllables."""


def cyrillic_pieces(text: str, language: str) -> list[Piece]:
    """Return the pieces of a stretch of Cyrillic letters."""
    return _rules(_LIKE.get(language, language)).pieces(text)


@lru_cache(maxsize=64)
def _rules(language: str) -> SpellingRules:
    return SpellingRules(
        (GENERIC, _TABLES.get(language, "")),
        vowels=VOWELS,
        front=FRONT,
        final_devoicing=language in _FINAL_DEVOICING,
        assimilation=language in _ASSIMILATION,
        hiatus=language not in _LONG_VOWELS,
    )
