"""The encoding of a text: marks are obeyed, others are named and never guessed, wrong decodings are
noticed."""

import codecs

import pytest

from ctc_align.errors import TranscriptError, UsageError
from ctc_align.text.encodings import (
    decode_text,
    encoding_advice,
    known_encoding,
    likely_encodings,
    wrong_decoding,
)

TEXTS = {
    (
        "tr",
        "cp1254",
    ): "Bugün hava çok güzel değil mi? Akşam görüşürüz, işten sonra kızın için bir şey alacağım.",
    (
        "pl",
        "cp1250",
    ): (
        "Wszyscy ludzie rodzą się wolni i równi pod względem swej godności i swych praw. Mają rozum"
        " i sumienie."
    ),
    (
        "pl",
        "iso8859_2",
    ): (
        "Wszyscy ludzie rodzą się wolni i równi pod względem swej godności i swych praw. Mają rozum"
        " i sumienie."
    ),
    ("cs", "cp1250"): "Všichni lidé rodí se svobodní a sobě rovní co do důstojnosti a práv.",
    (
        "hu",
        "cp1250",
    ): "Minden emberi lény szabadon születik és egyenlő méltósága és joga van, de az idő nem vár.",
    ("ru", "cp1251"): "Все люди рождаются свободными и равными в своём достоинстве и правах.",
    ("ru", "koi8_u"): "Все люди рождаются свободными и равными в своём достоинстве и правах.",
    ("ru", "cp866"): "Все люди рождаются свободными и равными в своём достоинстве и правах.",
    ("uk", "cp1251"): "Всі люди народжуються вільними і рівними у своїй гідності та правах.",
    (
        "el",
        "cp1253",
    ): (
        "Όλοι οι άνθρωποι γεννιούνται ελεύθεροι και ίσοι στην αξιοπρέπεια και τα δικαιώματα. Άλλο"
        " τίποτα."
    ),
    ("he", "cp1255"): "כל בני האדם נולדו בני חורין ושווים בערכם ובזכויותיהם.",
    ("ar", "cp1256"): "يولد جميع الناس أحرارا متساوين في الكرامة والحقوق.",
    ("th", "cp874"): "มนุษย์ทั้งหลายเกิดมามีอิสระและเสมอภาคกันในเกียรติศักดิ์และสิทธิ",
    (
        "ja",
        "cp932",
    ): "すべての人間は、生まれながらにして自由であり、かつ、尊厳と権利とについて平等である。",
    (
        "ja",
        "euc_jp",
    ): "すべての人間は、生まれながらにして自由であり、かつ、尊厳と権利とについて平等である。",
    ("zh", "gb18030"): "人人生而自由，在尊严和权利上一律平等。他们赋有理性和良心。",
    ("zh", "big5hkscs"): "人人生而自由，在尊嚴和權利上一律平等。他們賦有理性和良心。",
    ("ko", "cp949"): "모든 인간은 태어날 때부터 자유로우며 그 존엄과 권리에 있어 동등하다.",
    (
        "de",
        "cp1252",
    ): "Alle Menschen sind frei und gleich an Würde und Rechten geboren. Über die Straße.",
    (
        "fr",
        "cp1252",
    ): "Tous les êtres humains naissent libres et égaux en dignité et en droits, ça va de soi.",
}


@pytest.mark.parametrize(("language", "codec"), TEXTS)
def test_letters_and_language_show_the_encoding(language, codec):
    text = TEXTS[language, codec]
    (found,) = likely_encodings(text.encode(codec))
    assert text.encode(codec).decode(found.codec) == text
    assert f"--encoding {found.codec}" in encoding_advice(text.encode(codec))


def test_encodings_that_are_as_likely_are_both_named_with_what_they_spell():
    advice = encoding_advice(b"Kop\xe1\xe8")
    assert 'it may be Windows-1252 ("Kopáè") or Windows-1250 ("Kopáč")' in advice
    assert (
        "give --encoding cp1252 or --encoding cp1250, whichever spells it right, or save it as UTF-8"
        in advice
    )


@pytest.mark.parametrize("codec", ["utf-8-sig", "utf-16", "utf-32"])
def test_byte_order_marks_are_obeyed_before_a_named_encoding(codec):
    assert decode_text("Grüße, мир".encode(codec), "a.txt", "cp1254") == "Grüße, мир"


def test_big_endian_marks_and_texts_that_are_utf8_already():
    assert decode_text(codecs.BOM_UTF16_BE + "Grüße".encode("utf-16-be"), "a.txt") == "Grüße"
    assert decode_text("Grüße".encode(), "a.txt", "cp1254") == "Grüße"
    assert decode_text("Grüße".encode("utf-16-le"), "a.txt", "utf-16-le") == "Grüße"
    assert decode_text("平等である".encode("iso2022_jp"), "a.txt", "iso2022_jp") == "平等である"


def test_a_named_encoding_that_does_not_fit_is_refused_with_the_likely_one():
    japanese = TEXTS["ja", "cp932"].encode("cp932")
    with pytest.raises(
        TranscriptError, match=r"expected big5, got byte .* Japanese in Shift JIS.*--encoding cp932"
    ):
        decode_text(japanese, "a.txt", "big5")
    with pytest.raises(TranscriptError, match=r"save it as UTF-8$") as error:
        decode_text(japanese, "a.txt")
    assert "--encoding" not in str(error.value), "where nobody can give one"


@pytest.mark.parametrize("name", ["klingon", "idna", "base64", "unicode_escape", "a\0b"])
def test_names_that_are_no_encodings_are_refused(name):
    with pytest.raises(UsageError, match="--encoding: expected the name of an encoding"):
        known_encoding(name)


@pytest.mark.parametrize(
    ("text", "right"),
    [
        (TEXTS["tr", "cp1254"].encode("cp1254").decode("cp1252"), "Windows-1254"),
        (TEXTS["ru", "cp1251"].encode("cp1251").decode("cp1252"), "Windows-1251"),
        (TEXTS["pl", "cp1250"].encode("cp1250").decode("cp1252"), "Windows-1250"),
        (TEXTS["de", "cp1252"].encode().decode("cp1252", "replace"), "UTF-8"),
        (TEXTS["ru", "cp1251"].encode().decode("cp1251", "ignore"), "UTF-8"),
        (TEXTS["tr", "cp1254"].encode("cp1254").decode("cp1251"), "Windows-1254"),
        ("Ein Gebдude fьr alle Kinder und ihre Eltern", "Windows-1252"),
        ("It\u00e2\u20ac\u2122s late", "UTF-8"),
        ("Gr\ufffd\ufffde", "U+FFFD"),
    ],
)
def test_a_text_that_was_decoded_wrongly_is_noticed(text, right):
    assert right in wrong_decoding(text)


def test_right_texts_in_many_languages_are_not_suspected():
    assert [text for text in TEXTS.values() if wrong_decoding(text)] == []
    assert wrong_decoding("Йо-йо-йо, ой-ой, эх, ах, ух, ага, угу, эй") == ""
    assert wrong_decoding("NÃO. „Ä“ und „Ü“, Ãndrea — Þórður á bæ") == ""
