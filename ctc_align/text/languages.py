"""Codes and names of languages: which there are (ISO 639, BCP 47), and which one a text is written in."""

from __future__ import annotations

import difflib
import re
import unicodedata
from collections import Counter
from contextlib import suppress
from functools import lru_cache

from ctc_align.errors import UsageError
from ctc_align.text.characters import word_set

_TAG = re.compile(r"(?P<base>[A-Za-z]{2,3})(?:[-_][A-Za-z0-9]{1,8})*(?:-script_[a-z]+)?")
_NO_ISO = frozenset(("kz",))
"""Codes of num2words that ISO 639 does not have."""
_COMMON = word_set(
    """ar az be bn bg ca cs cy da de el en eo es et fa fi fr he hi hr hu id is it ja ko lt lv nb nl no pl pt ro ru sk sl
    sr sv te th tr uk vi zh ara ces dan deu ell eng fin fra hin hun ita jpn kor nld nor pol por rus spa swe tur ukr
    zho"""
)
"""Codes that need no table."""
_OWN_NAMES = {
    "deutsch": "de", "français": "fr", "francais": "fr", "español": "es", "espanol": "es", "castellano": "es",
    "italiano": "it", "português": "pt", "portugues": "pt", "nederlands": "nl", "polski": "pl", "svenska": "sv",
    "dansk": "da", "norsk": "no", "suomi": "fi", "čeština": "cs", "cestina": "cs", "magyar": "hu", "română": "ro",
    "türkçe": "tr", "turkce": "tr", "русский": "ru", "українська": "uk", "ελληνικά": "el", "日本語": "ja", "中文": "zh",
    "mandarin": "zh", "farsi": "fa", "한국어": "ko", "العربية": "ar", "हिन्दी": "hi", "jp": "ja", "cn": "zh",
    "gr": "el", "cz": "cs", "dk": "da", "ua": "uk", "ger": "de", "fre": "fr",
}  # fmt: skip
"""Other names that people give languages, and codes that are none: only to say what they may have meant."""


@lru_cache(maxsize=64)
def known_language(language: str, option: str = "--language") -> str:
    """Return the code of a language: as it is given (ISO 639, or BCP 47 with a region), or that of an English name.

    Names are those of the languages with a code of two letters.

    Raises:
        UsageError: nothing knows such a language; the message names what may have been meant.

    >>> known_language("pt-BR"), known_language("eng"), known_language("German"), known_language("azj-script_latin")
    ('pt-BR', 'eng', 'de', 'azj-script_latin')
    """
    written = language.strip()
    tag = _TAG.fullmatch(written)
    base = tag["base"].lower() if tag else ""
    if base in _COMMON or base in _NO_ISO:
        return written
    names = _names()
    if not names or (base and base in names.values()):
        return written
    by_name = names.get(written.casefold(), "")
    if len(by_name) == 2:
        return by_name
    raise UsageError(
        f"{option} {language}: expected the code of a language (ISO 639 or BCP 47: en, deu, pt-BR), got one that "
        f"nothing knows{_hint(written, base, names)}"
    )


def base_code(language: str) -> str:
    """Return the code of a language without region or script, of two letters where it has one.

    >>> base_code("pt-BR"), base_code("deu"), base_code("English"), base_code("yue")
    ('pt', 'de', 'en', 'yue')
    """
    base = re.split("[-_]", language.strip().casefold(), maxsplit=1)[0]
    if len(base) == 3:
        import iso639

        # another package of that name has no such class
        with suppress(AttributeError, getattr(iso639, "LanguageNotFoundError", LookupError)):
            return iso639.Language.match(base).part1 or base
    return next((code for code, name in NAMES.items() if name.casefold() == base), base)


def name_of_language(code: str) -> str:
    """Return the English name of a language; its code where nothing knows one.

    >>> name_of_language("de"), name_of_language("nl-BE"), name_of_language("sw")
    ('German', 'Dutch', 'Swahili')
    """
    base = base_code(code)
    return NAMES.get(base) or _iso_names().get(base, code)


@lru_cache(maxsize=1)
def _iso_names() -> dict[str, str]:
    """Return the names of all languages by their shortest codes, without what stands in parentheses."""
    import iso639

    languages = getattr(iso639, "ALL_LANGUAGES", ())
    return {each.part1 or each.part3: each.name.partition(" (")[0] for each in languages}


def _hint(written: str, base: str, names: dict[str, str]) -> str:
    """Return "; did you mean …" with the codes and names that come close."""
    folded = written.casefold()
    codes = [_OWN_NAMES[key] for key in (folded, base) if key in _OWN_NAMES]
    if base and base != folded and base in names.values():
        codes.append(base)
    large = [name for name, code in names.items() if len(code) == 2 < len(name)]
    near = [folded] if folded in names else []
    if not codes and not near and len(folded) > 3:
        near = difflib.get_close_matches(folded, large, n=2, cutoff=0.7)
    meant = {code: _name_of(code, names) for code in [*codes, *(names[name] for name in near)]}
    likely = [f"{code} ({name})" if name else code for code, name in meant.items()]
    return f"; did you mean {' or '.join(likely)}?" if likely else ""


def _name_of(code: str, names: dict[str, str]) -> str:
    return next((name.title() for name, each in names.items() if each == code and name != code), "")


@lru_cache(maxsize=1)
def _names() -> dict[str, str]:
    """Return the codes of all languages by their names and codes, the shortest code of each."""
    import iso639

    if not hasattr(iso639, "ALL_LANGUAGES"):  # another package of that name
        return {}
    names: dict[str, str] = {}
    for language in iso639.ALL_LANGUAGES:
        names.setdefault(language.name.casefold(), language.part1 or language.part3)
    for language in iso639.ALL_LANGUAGES:
        for code in (language.part1, language.part3, language.part2b, language.part2t):
            if code:
                names[code] = code
    return names


LEAST_WORDS = 20
"""The language of a shorter text is not told."""
_LEAST_SHARE, _SURE_SHARE, _MOST_ENGLISH = 0.2, 0.25, 0.12
_FEW_SHARE, _HARDLY_ENGLISH, _ACCENTED = 0.1, 0.04, 0.04
"""Limits for languages whose endings say what function words do elsewhere (Turkish, Finnish)."""
_MOSTLY_ENGLISH = 0.25
_FUNCTION_WORDS = {
    "de": """der die das und ist nicht ich sie wir ihr ein eine einen einem einer zu den dem mit auf für von sich
        auch wie aber wenn nur noch nach bei aus über oder wird werden haben hat war sind im am zum zur dass daß es
        kann mehr sein seine durch um als vor bis schon""",
    "fr": """le la les de des du un une et est pas que qui ne je tu il elle nous vous ils elles dans pour sur avec
        ce cette ces son sa ses au aux plus par mais ou où on se été être sont avait comme tout leur c'est n'est d'un
        d'une qu'il qu'elle j'ai l'on en""",
    "es": """el la los las de del y es en que no un una por con para se su sus lo como más pero al le les este esta
        está son ser fue muy ya yo me mi te tu si sí cuando hay ha todo también nos desde entre sin sobre o""",
    "it": """il lo la i gli le di del della dei delle che non è un una uno e in per con si da dal dalla nel nella
        al alla sono come più ma anche ha ho questo questa se ci suo sua era dello sul sulla degli mi ti ed o""",
    "pt": """o a os as de do da dos das que não é um uma e em no na nos nas para com por se mais mas como ao à
        foi são seu sua ele ela isso este esta está também eu me você já muito ser tem até pelo pela ou""",
    "nl": """de het een en van is in dat niet ik je hij zij ze wij we op te met voor zijn er aan maar om ook als bij
        nog naar uit dan wat door was heeft hebben worden wordt deze die dit geen kan over tot of haar meer zich""",
    "sv": """och att det som en är på av för med till den inte jag du vi han hon de har ett om var från så men
        eller ska kan sig när nu här där man också hade skulle efter detta mycket bara dem""",
    "da": """og det at er en på af for med til den ikke jeg du vi han hun de har et om var fra så men eller skal
        kan sig når nu her der man også havde skulle efter dette meget mig hvad blev være""",
    "no": """og det at er en på av for med til den ikke jeg du vi han hun de har et om var fra så men eller skal
        kan seg når nå her der man også hadde skulle etter dette mye meg hva ble være""",
    "fi": """ja on ei se että hän oli en mutta kun niin ovat joka mitä minä sinä me te he ole olla tämä myös kuin
        jos sen nyt vain sitten mikä tai ollut siitä kaikki mukaan jo vielä hyvin olen""",
    "pl": """i w na z do nie że się to jest jak o po co za od ale tak czy jego jej był była było są przez dla tego
        tym już tylko ja ty mnie może być ich jako ze gdy bardzo który która""",
    "cs": """a v na se je to že s z do o ne by jsem jako ale tak co za jak po pro jeho byl byla bylo jsou nebo ve k
        už který která aby jen mi si od při být jsme ten tak když""",
    "hu": """a az és hogy nem is egy ez azt van volt de ha csak már meg mint még el vagy ki be ezt minden majd
        itt ott én te ő mi lehet kell nagyon volna sem akkor mert után""",
    "ro": """și să de la în cu pe nu un o este a că din mai care pentru ce se au fost eu tu el ea lui sunt sau dar
        al ale prin după când fi am ai ar lor într si sa in ca""",
    "tr": """ve bir bu da de için ile çok ne ben sen o daha gibi var yok kadar değil mi mı her olarak olan ama ya
        sonra en ki onun şey diye ise bana sana biz siz oldu""",
    "id": """yang dan di ini itu dengan untuk tidak dari dalam akan pada juga ke saya ada adalah kami kita
        mereka dia bisa sudah oleh karena atau seperti lebih telah dapat anda aku""",
    "vi": """và là của có không được trong cho một những người này các với tôi đã để khi đến như đó anh em
        chúng từ thì ra cũng vào ở nhiều phải""",
    "ca": """el la els les de del i és que no un una per amb en es al seu seva com més però són aquest aquesta què
        va ha hi ho també dels als d'un l'any pel perquè o""",
}
_ENGLISH_WORDS = word_set(
    """the of and to a in is it you that he was for on are with as i his they be at one have this from or had by but
    not what all were we when your can said there an each which she do how their if will up out them then so her
    would him has more no my than been who its now did get may about into just don't it's i'm me our us over some"""
)
_SETS = {code: word_set(words) for code, words in _FUNCTION_WORDS.items()}
NAMES = {
    "en": "English", "de": "German", "fr": "French", "es": "Spanish", "it": "Italian", "pt": "Portuguese",
    "nl": "Dutch", "sv": "Swedish", "da": "Danish", "no": "Norwegian", "fi": "Finnish", "pl": "Polish", "cs": "Czech",
    "hu": "Hungarian", "ro": "Romanian", "tr": "Turkish", "id": "Indonesian", "vi": "Vietnamese", "ca": "Catalan",
}  # fmt: skip
"""The languages that `likely_language` tells, by their codes."""
_LATIN_WORD = re.compile(r"[^\W\d_]+(?:['’][^\W\d_]+)*")


def likely_language(text: str, *, least: int = LEAST_WORDS) -> str:
    """Return the code of the language that a text in Latin letters looks like, one of `NAMES`; "" where it is unclear.

    By its function words, which are a third of any text; of texts of fewer than `least` words, and of mixtures, nothing
    is said.

    >>> likely_language("Der Hund und die Katze sind nicht im Haus, aber sie sind auch nicht auf dem Dach, "
    ...                 "und wenn es regnet, ist das schade.")
    'de'
    >>> likely_language("The dog and the cat are not in the house.")
    ''
    """
    words = [word.lower().replace("’", "'") for word in _LATIN_WORD.findall(unicodedata.normalize("NFC", text))]
    if len(words) < least:
        return ""
    counts = Counter(words)

    def share(known: frozenset[str]) -> float:
        return sum(counts[word] for word in known) / len(words)

    best = max(_SETS, key=lambda code: share(_SETS[code]))
    english, own = share(_ENGLISH_WORDS - _SETS[best]), share(_SETS[best] - _ENGLISH_WORDS)
    if english >= _MOSTLY_ENGLISH and own < english / 2:
        return "en"
    letters = "".join(words)
    accented = sum(not letter.isascii() and letter.isalpha() for letter in letters) / len(letters)
    is_clear = own >= (_SURE_SHARE if len(words) < LEAST_WORDS else _LEAST_SHARE) and english <= _MOST_ENGLISH
    if len(words) < LEAST_WORDS:
        return best if is_clear else ""
    is_likely = own >= _FEW_SHARE and english <= _HARDLY_ENGLISH
    is_accented = own >= _FEW_SHARE / 2 and accented >= _ACCENTED and english <= _HARDLY_ENGLISH
    different = sum(counts[word] > 0 for word in _SETS[best] - _ENGLISH_WORDS)
    return best if (is_clear or is_likely or is_accented) and different >= 3 else ""


def script_of(text: str) -> str:
    """Return the script of most letters of a text, as people call it; "" where there are none.

    >>> script_of("Добрый день, Mr. Smith"), script_of("42")
    ('Cyrillic', '')
    """
    counts: Counter[str] = Counter()
    for character, number in Counter(filter(str.isalpha, text)).items():
        counts[_script(character)] += number
    most = counts.most_common(1)[0][0] if counts else ""
    return "Japanese" if most == "Chinese" and counts["Japanese"] else most


_SCRIPT_NAMES = {"Cjk": "Chinese", "Hiragana": "Japanese", "Katakana": "Japanese", "Hangul": "Korean"}


@lru_cache(maxsize=4096)
def _script(letter: str) -> str:
    name = unicodedata.name(letter, "unknown").partition(" ")[0].title()
    if name in ("Fullwidth", "Modifier", "Feminine", "Masculine", "Micro", "Ligature"):
        return "Latin"
    return _SCRIPT_NAMES.get(name, name)
