"""Initials, which are spelled out: USA, ÖBB, the B of B-Säule, l'ONU.

Names of letters are written as their language writes them, and read by its rules. Whether initials are spelled out
(USA) or said as a word (NATO) their letters do not say: both are pronunciations, and the audio prefers one.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import lru_cache
from string import ascii_lowercase

from ctc_align.text.characters import word_set
from ctc_align.text.sounds.latin import is_read_as_english
from ctc_align.text.sounds.pieces import pieces

Phones = tuple[str, ...]
MOST = 5
"""Longer words in capitals are words."""
_SLAVIC = "a be ce de e ef ge ha i je ka el em en o pe ku er es te u ve dvojnive iks ipsilon ze"
_CZECH = "á bé cé dé é ef gé há í jé ká el em en ó pé kvé er es té ú vé dvojitévé iks ypsilon zet"
_DANISH = "a bee see dee ee æf gee hå i jåd kå æl æm æn o pee ku ær æs tee u vee dobbeltve æks y sæt"
_LATIN = {
    "": "a be ce de e ef ge ha i jota ka el em en o pe ku er es te u ve doblve iks ipsilon zet",
    "de": "a bee zee dee e eff gee ha i jott ka ell emm enn o pee kuu err ess tee u vau wee iks üpsilon zett",
    "nl": "aa bee see dee ee ef gee haa ie jee kaa el em en oo pee kuu er es tee uu vee wee iks ij zet",
    "fr": "a bé cé dé e effe gé ache i ji ka elle emme enne o pé ku erre esse té u vé doublevé ixe igrec zède",
    "es": "a be ce de e efe ge hache i jota ca ele eme ene o pe cu erre ese te u uve uvedoble equis ye zeta",
    "ca": "a be ce de e efa ge hac i jota ca ela ema ena o pe cu erra essa te u ve vedoble ics igrega zeta",
    "it": "a bi ci di e effe gi acca i ilunga cappa elle emme enne o pi cu erre esse ti u vi doppiavu ics ipsilon zeta",
    "pt": "á bê cê dê é efe gê agá i jota cá ele eme ene ó pê quê erre esse tê u vê dáblio xis ípsilon zê",
    "ro": "a be ce de e ef ge haș i je ca el em en o pe chiu er es te u ve dubluve ics igrec zet",
    "pl": "a be ce de e ef gie ha i jot ka el em en o pe ku er es te u fał wu iks igrek zet",
    "cs": _CZECH, "sk": _CZECH, "sl": _SLAVIC, "hr": _SLAVIC, "sr": _SLAVIC, "bs": _SLAVIC,
    "hu": "á bé cé dé é ef gé há í jé ká el em en ó pé kú er es té ú vé duplavé iksz ipszilon zé",
    "sv": "a bé sé dé é eff gé hå i ji kå ell emm enn o pé ku ärr ess té u vé dubbelve eks y säta",
    "da": _DANISH, "nb": _DANISH, "nn": _DANISH, "no": _DANISH,
    "fi": "aa bee see dee ee äf gee hoo ii jii koo äl äm än oo pee kuu är äs tee uu vee kaksoisvee äks yy tset",
    "et": "aa bee tsee dee ee eff gee haa ii jot kaa ell emm enn oo pee kuu err ess tee uu vee kaksisvee iks igrek set",
    "tr": "a be ce de e fe ge he i je ke le me ne o pe kü re se te u ve çiftve iks ye ze",
    "id": "a be ce de e ef ge ha i je ka el em en o pe ki er es te u ve we eks ye zet",
    "lt": "a bė cė dė e ef gė ha i jot ka el em en o pė kū er es tė u vė dviguba iks ygrek zė",
    "lv": "ā bē cē dē ē ef gā hā ī jē kā el em en ō pē kū er es tē ū vē dubultvē iks igrek zē",
}  # fmt: skip
"""The names of a to z, by language; "" for others."""
_OTHERS = {
    "": ("абвгдежзийклмнопрстуфхцчшщэюя",
         "а бэ вэ гэ дэ е жэ зэ и и ка эль эм эн о пэ эр эс тэ у эф ха цэ че ша ща э ю я"),
    "uk": ("абвгґдеєжзиіїйклмнопрстуфхцчшщюя",
           "а бе ве ге ґе де е є же зе и і ї йот ка ел ем ен о пе ер ес те у еф ха це че ша ща ю я"),
    "bg": ("абвгдежзийклмнопрстуфхцчшщъюя",
           "а бъ въ гъ дъ е жъ зъ и й къ лъ мъ нъ о пъ ръ съ тъ у фъ хъ цъ чъ шъ щъ ъ ю я"),
    "sr": ("абвгдђежзијклљмнњопрстћуфхцчџш",
           "а бе ве ге де ђе е же зе и је ка ел ље ем ен ње о пе ер ес те ће у еф ха це че џе ша"),
    "el": ("αβγδεζηθικλμνξοπρστυφχψω",
           "άλφα βήτα γάμα δέλτα έψιλον ζήτα ήτα θήτα γιώτα κάπα λάμδα μι νι ξι όμικρον πι ρο σίγμα ταυ ύψιλον φι χι "
           "ψι ωμέγα"),
}  # fmt: skip
"""Letters of other alphabets, and their names; "" for the Cyrillic of languages without a line."""
_PART = re.compile(r"(?P<before>[^\W\d_]+['’])?(?P<initials>[^\W\d_]+)")
_VOWELS = frozenset("aeiouyäöüåæøõаеёиоуыэюяіїє")
"""Alone they are words, or said as they are named."""
_AS_WRITTEN = word_set("en vi ga gd cy")
"""English has its own letter-to-phone, and so have words in Latin letters of languages that are written in others; the
names of the letters of the rest are not known here."""


def spelled_ways(text: str, spoken: Sequence[str], code: str) -> list[Phones | None]:
    """Return for each part of a word the phones of its initials, spelled out; None for parts that are none.

    Args:
        text: the word as it is written; capitals tell initials.
        spoken: the parts that are said, parted by spaces.
        code: of the language, as for `pieces`.

    >>> [" ".join(way or ()) for way in spelled_ways("EU-Recht", ["eu", "recht"], "de")]
    ['e u', '']
    """
    parts = [part.strip('.,;:!?…"“”„«»()[]') for part in re.split(r"[\s/‐‑–-]+", text)]
    parts = [part for part in parts if part]
    if code in _AS_WRITTEN or [part.lower().replace("’", "'") for part in parts] != list(spoken):
        return [None] * len(spoken)
    return [_spelled(part, code) for part in parts]


def _spelled(part: str, code: str) -> Phones | None:
    match = _PART.fullmatch(part)
    if match is None or not match["initials"].isupper() or not len(match["initials"]) <= MOST:
        return None
    names = [_name(letter, code) for letter in match["initials"].lower()]
    reads_english = is_read_as_english(code) and part.isascii()
    if None in names or part.lower() in _VOWELS or reads_english:
        return None
    before = (match["before"] or "").replace("’", "'").lower()
    return tuple(phone for name in (before, *names) if name for piece in pieces(name, code) for phone in piece.phones)


def _name(letter: str, code: str) -> str | None:
    return _names(code).get(letter)


@lru_cache(maxsize=64)
def _names(code: str) -> dict[str, str]:
    names = dict(zip(ascii_lowercase, _LATIN.get(code, _LATIN[""]).split()))
    letters, said = _OTHERS.get(code, _OTHERS[""])
    return {**names, **dict(zip(letters, said.split())), **{letter: letter for letter in "äöüåæøõ"}}
