"""Phones of words, by their spelling: languages in Latin, Cyrillic, Greek, Georgian and Armenian letters, and none."""

from __future__ import annotations

import importlib.util
from difflib import SequenceMatcher

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from rows import first_row_of

from ctc_align.text.library_readings import romanized
from ctc_align.text.phone_sets import IPA_PHONES, ipa_class
from ctc_align.text.sounds import pronounced
from ctc_align.text.sounds.pieces import SCRIPTS, pieces
from ctc_align.text.sounds.spelling_rules import spelling_rules, table
from ctc_align.text.transcript import split
from ctc_align.types import Word, Words

WORDS = {
    "de": {"straße": "ʃ t ʁ a s ə", "ich": "ɪ x", "tag": "t a k", "äußern": "ɔ ɪ s ə ʁ n"},
    "nl": {"schip": "s x ɪ p", "huis": "h ø y s", "een": "ə n"},
    "sv": {"kyrka": "ʃ y r k a", "sju": "ʃ u"},
    "da": {"hvid": "v i ð"},
    "is": {"þjóð": "θ j o ʊ ð"},
    "fr": {
        "bonjour": "b ɔ̃ ʒ u ʁ",
        "champagne": "ʃ ã p a ɲ",
        "eaux": "o",
        "viennent": "v j ɛ n",
        "l'hiver": "l i v ɛ ʁ",
    },
    "es": {"guerra": "ɡ e r a", "hijo": "i x o", "año": "a ɲ o"},
    "pt": {"coração": "k o r a s ã ʊ", "rio": "ʁ j ʊ", "filho": "f i l j ʊ"},
    "ca": {"caixa": "k a ʃ ə"},
    "it": {"gnocchi": "ɲ o k i", "cielo": "tʃ e l o", "famiglia": "f a m i l j a"},
    "pl": {"dziękuję": "dʒ ɛ ŋ k u j ɛ", "wstrząs": "f s t ʃ ɔ̃ s", "w": "v"},
    "cs": {"kdežto": "ɡ d ɛ ʃ t o", "němec": "ɲ ɛ m ɛ ts"},
    "hsb": {"łužica": "w u ʒ i ts a"},
    "sr": {"đak": "dʒ a k", "ђак": "dʒ a k"},
    "hu": {"zsír": "ʒ i r", "magyar": "m ɔ d j ɔ r"},
    "fi": {"työ": "t y ø", "kenkä": "k e ŋ k æ"},
    "lt": {"žąsis": "ʒ a s i s"},
    "ga": {"bhfuil": "v ɪ l", "tá": "t a"},
    "cy": {"llwybr": "l ʊ ɪ b r", "y": "ə"},
    "br": {"c'hoar": "x w a ʁ"},
    "mt": {"għajn": "a j n", "qalb": "ʔ a l p"},
    "tr": {"çocuk": "tʃ o dʒ u k", "ışık": "ɨ ʃ ɨ k"},
    "id": {"nyanyi": "ɲ a ɲ i"},
    "vi": {"đường": "d ɨ ə ŋ", "nghiệp": "ŋ i ə p", "mã": "m a"},
    "sw": {"ng'ombe": "ŋ ɔ m b ɛ"},
    "yo": {"ọ̀rẹ́": "ɔ r ɛ"},
    "kab": {"iγer": "i ɣ ə r", "εli": "l i"},
    "ru": {"хлеб": "x l e p", "его": "j e v o", "что": "ʃ t o", "объект": "o b j e k t"},
    "uk": {"щастя": "ʃ tʃ a s t a", "гарно": "h a r n o"},
    "kk": {"қазақ": "q a z a q"},
    "cv": {"ҫӗнӗ": "ʃ ə n ə", "çĕнĕ": "ʃ ə n ə", "ĕç": "ə ʃ"},
    "el": {"ευχαριστώ": "e f x a r i s t o", "μπύρα": "b i r a", "άγγελος": "a ŋ ɡ e l o s", "γεια": "j a"},
    "ka": {"ღვინო": "ɣ v i n o"},
    "hy": {"որդի": "v o r d i"},
    "und": {"dzień": "dz i e ɲ", "ǻ": "o", "ḁ": "a", "ꕆ": "m i", "ᬓᬶ": "k i", "ⲁⲣ": "a r"},
}
LETTERS = {
    "br": "çêñùû", "ca": "àçèéíïòóú", "cnh": "ṭ", "cs": "áéíúýčďěňřšůž", "cy": "âêîôûŵŷ", "de": "ßäöü", "eo": "ĉĝĵŝŭ",
    "es": "áéíñóú", "et": "äõöüš", "eu": "", "fi": "äö", "fr": "àâçèéêîïôû", "fy": "áâêôúûü", "ga": "áéíóú",
    "hsb": "óćčěłńřšźž", "hu": "áéíóöúüőű", "ia": "", "it": "àèéìòóùō", "kab": "čǧɛɣγεԑḍḥṛṣṭẓ", "lg": "", "rw": "",
    "lt": "ąčėęįšūųž", "lv": "āčēģīķļņšūž", "mt": "àùċġħż", "nl": "èéëï", "pl": "óąćęłńśźż", "pt": "àáãçéêíóôõú",
    "rm": "àèéìòöü", "sv": "äåéö", "tr": "çöüğış", "en": "é", "und": "āçđęğħıķłñøőŕşţųźæœß",
    "vi": "àáâãéêìíòóôõùúýăđĩũơưạảấầẩẫậắằẳặẹẻẽếềểễệỉịọỏốồổỗộớờởỡợụủứừữựỳỷ",
    "ab": "абвгдежзиклмнопрстуфхцшыьқҟҩҭҳҵҽҿәӡԥ", "cv": "çăĕабвгдежзийклмнопрстуфхцчшыьэюяҫӑӗӳ",
    "ky": "абвгдежзийклмнопрстуфхцчшыэюяёңүө", "mn": "абвгдежзийклмнопрстуфхцчшъыьэюяёүө",
    "ru": "абвгдежзийклмнопрстуфхцчшщъыьэюяё", "sah": "абвгдезийклмнопрстуфхчшыьэяҕҥүһө",
    "tt": "абвгдезийклмнопрстуфхцчшыьэюяҗңүһәө", "el": "άέήίαβγδεζηθικλμνξοπρςστυφχψωόύώ",
}  # fmt: skip
"""The letters of texts of Common Voice besides a to z."""
ASCII = "abcdefghijklmnopqrstuvwxyz"


def said(text: str, language: str) -> list[str | None]:
    return [word.phones for word in pronounced(split(text, language=language), language).words]


@pytest.mark.parametrize("language", WORDS)
def test_words_sound_as_they_are_spelt(language: str) -> None:
    found = {word: " ".join(p for piece in pieces(word, language) for p in piece.phones) for word in WORDS[language]}
    assert found == WORDS[language]


@pytest.mark.parametrize("language", LETTERS)
def test_all_letters_of_a_language_have_rules(language: str) -> None:
    letters = LETTERS[language] if "а" in LETTERS[language] or language == "el" else ASCII + LETTERS[language]
    phones = {letter: [p for piece in pieces(letter, language) for p in piece.phones] for letter in letters}
    assert {letter: own for letter, own in phones.items() if not set(own) <= set(IPA_PHONES)} == {}


@settings(deadline=None)  # the first one loads letter-to-phone
@example("か\U0001aff0", "ja")  # a tone of Taiwanese, by its name a letter of katakana
@example("'ー", "ja")  # a length mark after something silent
@given(
    st.text(st.characters(categories=["L", "M"]) | st.sampled_from("'aяωăě̃ใあ中한கक1"), max_size=12),
    st.sampled_from(["", "und", "de", "fr", "ru", "cv", "ja", "vi", "el", "th"]),
)
def test_pieces_cover_any_text_without_gaps(text: str, language: str) -> None:
    found = pieces(text, language)
    ends = [0, *(piece.end for piece in found)]
    assert [piece.start for piece in found] == ends[:-1]
    assert ends[-1] == len(text)
    assert all(piece.start < piece.end for piece in found)


def test_words_of_a_run_share_what_is_said_together() -> None:
    words = Words("schön", (Word("s", "s", 0, 1), Word("chön", "chön", 1, 5)))
    assert [word.phones for word in pronounced(words, "de").words] == ["", "ʃ ø n"]


def test_english_words_have_the_pronunciations_of_letter_to_phone() -> None:
    assert said("The cat's", "en") == ["ð ə | ð i", "k æ t s"]
    assert said("слово computer", "ru") == ["s l o v o", "k ə m p j u t ə ɹ"]


@pytest.mark.parametrize(
    ("language", "text", "phones"),
    [
        ("de", "B-Säule", "b e z ɔ ɪ l ə | b z ɔ ɪ l ə"),
        ("de", "Die USA und die NATO", "d i;u ɛ s a | u z a;ʊ n t;d i;ɛ n a t e o | n a t o"),
        ("de", "DAS WAR IN WIEN", "d a s;v a ʁ;ɪ n;v i n"),
        ("fr", "l'ONU", "l o ɛ n y | l o n y"),
        ("es", "O", "o"),
        ("ru", "в США", "v;e s ʃ a a | s ʃ a"),
    ],
)
def test_initials_are_spelled_out_or_said_as_words(language: str, text: str, phones: str) -> None:
    words = pronounced(split(text, language=language), language).words
    assert ";".join(str(word.phones) for word in words) == phones


def test_what_nobody_can_say_stands_for_itself() -> None:
    # languages whose numbers nobody spells out
    assert [piece.phones for piece in pieces("b1", "kab")] == [("b",), ("1",)]
    assert said("b12 – 7!", "sah") == ["b i 1 2", "", "7"]


@pytest.mark.parametrize("file", ["latin", "cyrillic", "small-alphabets"])
def test_every_section_has_valid_rules(file: str) -> None:
    for name in table(file):
        spelling_rules(file, name)  # asserts that it knows all phones


def test_scripts_name_functions_that_are_there() -> None:
    for module, function in SCRIPTS.values():
        assert callable(getattr(importlib.import_module(f"ctc_align.text.sounds.{module}"), function))


ROMAN = {
    # language → words, and the least agreement
    "ru": (
        "человек город жизнь щука хороший цена яблоко съезд ёлка этот вьюга больница подъезд чашка июль мягкий борщ",
        0.95,
    ),
    "uk": ("людина їжак щока гай ґанок єдність хліб цукор чорний юнак яблуко сім'я жовтень шість", 0.9),
    "bg": ("човек щастие ъгъл ябълка жена цвят шапка юни хляб дъжд чаша обичам", 0.9),
    "mn": ("монгол улаанбаатар үндэс өдөр хүн нар сар цас эх оюун хөл гэр морь", 0.9),
    "el": ("άνθρωπος θάλασσα ψωμί ξένος δρόμος βιβλίο φίλος ουρανός εκκλησία παιδί λόγος ζωή", 0.9),
    "ka": ("საქართველო თბილისი ღვინო წყალი ჭადრაკი ძმა ცა ჯარი შვილი ჩაი ჟანგი პური მასწავლებელი", 0.8),
    "hy": ("հայաստան երևան շնորհակալություն գիրք դպրոց լեռ ծով խնձոր ճանապարհ ղեկավար չորս ֆիլմ", 0.9),
}
ALIKE = {
    "b": "p", "d": "t", "ɡ": "k", "v": "f", "w": "f", "z": "s", "ʒ": "ʃ", "dz": "ts", "dʒ": "tʃ", "ɣ": "k", "ʁ": "k",
    "q": "k", "x": "h", "ð": "t", "θ": "t", "ŋ": "n", "ɲ": "n", "j": "", "ʔ": "",
}  # fmt: skip
"""Consonants that romanisation tells apart in other ways, or not."""


def consonants(phones: list[str]) -> list[str]:
    return [ALIKE.get(p, p) for p in phones if ipa_class(p) != "vowel" and ALIKE.get(p, p)]


@pytest.mark.parametrize("language", first_row_of(ROMAN))
def test_consonants_agree_with_those_of_uroman(language: str) -> None:
    pytest.importorskip("uroman")
    text, least = ROMAN[language]
    words = romanized(pronounced(split(text, language=language), language), language).words
    ours = [consonants((word.phones or "").split()) for word in words]
    theirs = [consonants([p for piece in pieces(word.roman or "", "und") for p in piece.phones]) for word in words]
    same = sum(2 * m.size for a, b in zip(ours, theirs) for m in SequenceMatcher(None, a, b).get_matching_blocks())
    share = same / sum(len(a) + len(b) for a, b in zip(ours, theirs))
    assert share >= least, [(w.spoken, w.phones, w.roman) for w, a, b in zip(words, ours, theirs) if a != b]
