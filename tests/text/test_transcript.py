"""Splitting: every character once, in order, in any script."""

from __future__ import annotations

import re
import sys
import time
import unicodedata
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import assume, example, given, settings
from hypothesis import strategies as st
from rows import over_rows
from word_checks import assert_sound

from ctc_align.errors import TranscriptError, UsageError
from ctc_align.text import outer_punctuation_stripped, require_words, split
from ctc_align.types import Words

ALPHABET = (
    "aBz é'’‘\"“”$£€%°#@&+-−–—/.:,;!?()[]0123456789½²₂ⅧİßıﬁＡ"
    "世界「」、。ーっゃカﾞไทยาํก្ุកខេម្မာ​\u200c\ufe0f👍🏽\u00ad\n\t\u3000IVXUSm"
)
ANY_TEXT = (
    st.text()
    | st.text(ALPHABET)
    | st.text("0123456789$.,:/-'’%kmst²½x ")
    | st.text("AIVXUSBC.&' 12s\n")
)
LANGUAGES = st.sampled_from(["en", "de", "fr", "tr", "ja", "th", "zh", "ar", "pt-BR", "xx", ""])


def assert_spoken_form(spoken: str, digits: bool = False) -> None:
    assert spoken == "" or all(spoken.split(" "))
    for character in spoken:
        category = unicodedata.category(character)
        assert (
            character in "' 〇" or category[0] in "LM" or (digits and character in "0123456789")
        ), (
            spoken,
            character,
        )
        assert character.lower() == character, (spoken, character)


@settings(max_examples=400)
@given(ANY_TEXT, LANGUAGES, st.sampled_from([None, True, False]))
@example("ffi ﬃ ﷺ ǆ Ǆ 𝐀 ℃ №5 1⁄2 ⁻⁶ ✊🏿", "en", None)
@example("\ud800 lone", "en", None)
@example("1" * 5000 + " $" + "9" * 400 + " " + "1," + "000," * 200, "en", None)
@example("「」（）", "ja", None)
@example("々ー゙", "ja", None)
def test_every_character_is_in_exactly_one_word(
    text: str, language: str, by_character: bool | None
) -> None:
    words = split(text, language=language, by_character=by_character)
    assert_sound(words, text)
    for word in words.words:
        assert_spoken_form(word.spoken, digits=language != "en")


def test_the_checkers_see_a_wrong_split_and_a_wrong_spoken_form() -> None:
    right = split("a b").words
    for text, words in (
        ("a b", right[:1]),
        ("a b", split("b a").words),
        ("a b", right[::-1]),
        ("a  b", right),
    ):
        with pytest.raises(AssertionError):
            assert_sound(Words(text, words), text)
    for spoken in ("Hello", "a  b", "a.", " a", "5"):
        with pytest.raises(AssertionError):
            assert_spoken_form(spoken)


@settings(max_examples=300)
@given(st.text(st.characters(max_codepoint=0x2FF)) | st.text("aB1'\"-–—.…,/:!?) "))
@example("0,*--A")  # two marks with a sign between them, the second of which is two characters
def test_spaced_scripts_split_at_spaces_and_after_marks(text: str) -> None:
    words = split(text, by_character=None).words
    assume(not any(word.kind for word in words))
    for word, following in pairwise(words):
        if word.char_end == following.char_start:
            assert any(map(str.isalnum, word.text)), "a mark stays with a word"
            assert any(map(str.isalnum, following.text))
            assert not word.text[-1].isalnum()
    assume(
        not re.search(r"[-‐¬\xad]\s*[\n\r\v\f\x1c-\x1e\x85]", text)
    )  # may divide a word at the end of a line
    assert [word.text for word in split(text, by_character=False).words] == text.split()


WHOLE = """
1,000.50 3/4 1/2 24/7 9-11 9/11 1990–1995 1990—1995 10:30 10:30–11:00 5–6 $5–$10 12/25/2020 2020-01-02 3:1 1,5 .5 v2.0
https://a.org/b,c?x=and/or http://x.y.z/a.B www.example.org/a.Then me@example.co.uk example.com Booking.com
docs.python.org report.pdf index.html src/main.py /usr/local/bin ~/a/b ./a/b C:\\a\\b #hash.tag @john.smith
U.S. U.S.A. e.g. i.e. p.m. a.k.a. Ph.D. B.Sc. J.R.R. J.R.R.Tolkien J.Smith w/o c/o n/a N/A A/C I/O AC/DC TCP/IP km/h m/s
kg/m² twenty-two don't rock'n'roll l’année aujourd’hui well‑known Jean-Luc it's O'Brien's F–16 A–Z
word(s) Yahoo!'s Dr.'s No.5
c.-à-d. z.B. d.h. bl.a. p.ex. snake_case $20/hr 5'11" C++ AT&T R&D 50% (yes) “yes,” —word word— ...word word... /or
"""
PARTED = """
Americans—|ask it--|then one―|two end...|Then wait…|what no..|yes and/|or his/|her/|their one,|two one;|two Note:|this
end.|Then end.|then don't.|Then 1999.|Then Mr.|Smith St.|Petersburg etc.|and end.|I what?!|No Stop!|Go “Stop”—|he
said—|“go” (end)—|then 50%—|that Paris–|London May–|June 5–|June years—|5 one,|2 two…|5 “go.”|Then
"go."|Then **end.**|Then hola,|¿qué क्या।|वह ماذا؟|نعم نعم،|لا ሰላም።|ሰላም see:|https://a.org/b miles/|hour Mr./|Mrs.
one—|two/|three
"No."—|"Yes." “No.”—|“Yes.” (end.)—|then word!”—|and said:|“Go” U.S.—|and so—|“...then” what?)|no p.m.,|then
"""


def test_what_stays_one_word_and_what_is_parted() -> None:
    for run in WHOLE.split():
        assert [word.text for word in split(run).words] == [run]
    for run in PARTED.split():
        parts = run.split("|")
        assert [word.text for word in split("".join(parts)).words] == parts
    assert [word.text for word in split("EU:n kl:s", language="fi").words] == ["EU:n", "kl:s"]


@over_rows(
    ("text", "expected"),
    [
        ("今天天气很好。", "今|天|天|气|很|好。"),
        ("「今日」は（本当）", "「今|日」|は|（本|当）"),
        ("我用iPhone 15拍照", "我|用|iPhone|15|拍|照"),
        ("A、B和C", "A、|B|和|C"),
        ("“你好”，他说：", "“你|好”，|他|说："),
        ('"你好"吗', '"你|好"|吗'),
        ("价格$3.50元", "价|格|$3.50|元"),
        ("2024年5月", "2024|年|5|月"),
        ("人々", "人々"),
        ("コーヒー", "コー|ヒー"),
        ("ｶﾞｷﾞ", "ｶﾞ|ｷﾞ"),
        ("か\u3099", "か\u3099"),
        ("ความรัก", "ค|ว|า|ม|รั|ก"),
        ("น้ำ", "น้ำ"),
        ("ໂລກ", "ໂ|ລ|ກ"),
        ("ខ្មែរ", "ខ្មែ|រ"),
        ("မြန်မာ", "မြ|န်|မာ"),
        ("葛\U000e0100飾", "葛\U000e0100|飾"),
        ("hello你", "hello|你"),
        ("한국어 말", "한국어|말"),
        ("好👍🏽吗", "好👍🏽|吗"),
        ("「」", "「」"),
        ("……", "……"),
        ("—你", "—你"),
        ("don't停", "don't|停"),
        ("one—two停", "one—|two|停"),
        ("全角　空格", "全|角|空|格"),
    ],
)
def test_spaceless_scripts_split_by_character(text: str, expected: str) -> None:
    assert [word.text for word in split(text, language="zh").words] == expected.split("|")


def test_by_character_and_offsets_of_the_text_as_given() -> None:
    assert [word.text for word in split("Ab, 1é!", by_character=True).words] == [
        "A",
        "b,",
        "1",
        "é!",
    ]
    assert [word.spoken for word in split("Ab, 1é!", by_character=True).words] == [
        "a",
        "b",
        "one",
        "é",
    ]
    assert [word.text for word in split("今天 好", by_character=False).words] == ["今天", "好"]
    assert split("今天", by_character=False).words[0].spoken == "今天"
    text = "\r\n  İİ ﬁn\u0301e\t🏳️‍🌈 end\n"
    assert [(w.text, w.char_start, w.char_end) for w in split(text).words] == [
        ("İİ", 4, 6),
        ("ﬁn\u0301e", 7, 11),
        ("🏳️‍🌈", 12, 16),
        ("end", 17, 20),
    ]


def test_wrong_types_are_usage_errors() -> None:
    with pytest.raises(UsageError, match="got bytes"):
        split(b"abc")  # type: ignore[arg-type]
    with pytest.raises(UsageError, match="got NoneType"):
        split("abc", language=None)  # type: ignore[arg-type]


MARKS = (
    "JOHN: Hi (so) [laughs]\n",
    "(",
    "[a",
    "<a",
    "♪a",
    "&amp;",
    "a:",
    "<b>",
    "{\\",
    "Name: a\n",
    "*a",
    "(a) ",
)


@over_rows(
    "text",
    [
        "The quick, brown fox didn't jump over 1,250 well-known dogs in 1999 for $3.50 at St."
        " Paul's.\n" * 1_000,
        *[mark * (10_000 // len(mark)) for mark in MARKS],
        *("\u0301" * 3000 + "\\aughs", "9," * 5_000, "a@" * 20_000, "1-" * 20_000, "x." * 20_000),
    ],
)
def test_many_marks_and_words_without_end_are_read_in_time(text: str) -> None:
    """Some rules could take the square or the cube of a length: one of these took hours."""
    start = time.process_time()
    split(text)
    assert time.process_time() - start < 5


@pytest.mark.long
@over_rows(
    "run",
    [
        "a" * 100_000,
        "1" * 100_000,
        "a." * 50_000,
        "$" * 50_000,
        "a-" * 50_000,
        "(" * 99_999,
        "a²" * 40_000,
        "你-" * 50_000,
        "a" * 50_000 + ".b",
        "." * 50_000 + '"' * 50_000,
        "—-" * 50_000,
    ],
)
def test_long_runs_are_quick(run: str) -> None:
    start = time.process_time()
    assert len(split(run).words) in (1, 50_000)
    assert time.process_time() - start < 10


EMPTY, UNSPOKEN = r"a\.txt: the transcript is empty", r"a\.txt: nothing in the transcript is spoken"


@over_rows(
    ("text", "says"),
    [
        ("", EMPTY),
        (" \n\t\u3000", EMPTY),
        ("— …", UNSPOKEN),
        ("😀", UNSPOKEN),
        ("\u200b", UNSPOKEN),
    ],
)
def test_a_transcript_without_speech_is_an_error(text: str, says: str) -> None:
    with pytest.raises(TranscriptError, match=says):
        require_words(split(text), "a.txt")
    require_words(split(text + " yes"), "a.txt")


# Words as they are printed in CTM and TextGrid.

LABELS = """
Hello,→Hello (“Yes!”)→Yes twenty-two.→twenty-two —word—→word Wait—what?!→Wait—what don’t→don’t dogs'→dogs 'tis→'tis
‘Tis→‘Tis ’em,→’em '90s,→'90s 'hello'→hello ‘hello’→hello goin',→goin' $3.50,→$3.50 ($5)→$5 -$5→-$5 20€.→20€ 50%.→50%
-5→-5 (−5)→−5 .5→.5 ...5→5 --5→5 #1→#1 C++,→C++ 20°C.→20°C 90°→90° &→& @user:→@user U.S.→U.S. (U.S.)→U.S. a.m.,→a.m.
Mr.→Mr etc.)→etc word(s)→word(s) (word(s))→word(s) [sic]→sic Hello😀→Hello ❤️love→love 1️⃣→1 「今→今 日」→日 ¿Qué?→Qué
«да»→да \u200fשלום\u200f.→שלום สวัสดีๆ→สวัสดีๆ ...→... —→— 😀→😀 ''→''
"""


@over_rows(("written", "label"), [*(row.split("→") for row in LABELS.split()), ("", "")])
def test_outer_punctuation(written: str, label: str) -> None:
    assert outer_punctuation_stripped(written) == label


@settings(max_examples=300)
@given(st.text() | st.text("ab1.,'’‘\"()[]-−$%&#@+=in U"))
def test_a_label_is_a_part_of_the_word_and_stable(word: str) -> None:
    label = outer_punctuation_stripped(word)
    assert label in word
    assert bool(label) == bool(word)
    assert outer_punctuation_stripped(label) == label


# Written English and other languages as they are spoken.


def cases(file: str) -> list[tuple[str, list[str]]]:
    """Return (written, spoken forms of its words) of the cases in a file, which four spaces
    separate; ∅ is silent."""
    lines = (Path(__file__).parent / file).read_text("utf-8").splitlines()
    pairs = [
        case.split(" → ")
        for line in lines
        if not line.startswith("# ")
        for case in line.split("    ")
    ]
    return [(written, spoken.replace("∅", "").split(" | ")) for written, spoken in pairs]


@over_rows(("written", "said"), [*cases("english_words.txt"), *cases("english_numbers.txt")])
def test_english(written: str, said: list[str]) -> None:
    words = split(written).words
    assert "".join(word.text for word in words) == "".join(written.split())
    assert [word.spoken for word in words] == said


def test_numbers_are_parted_at_spaces_alone() -> None:
    for written, _ in cases("english_numbers.txt"):
        assert [word.text for word in split(written).words] == written.split()


OTHER = [
    ("de", "„Straße“, 21", ["straße", "einundzwanzig"]),
    ("de", "1.250 3,5", ["eintausendzweihundertfünfzig", "drei komma fünf"]),
    ("ja", "1984年 10%", ["千九百八十四", "年", "十 パーセント"]),
    ("ko", "1984년", ["천구백팔십사 년"]),
    ("it", "3,75", ["tre virgola sette cinque"]),
    ("tr", "3,5 %10", ["üç virgül beş", "yüzde on"]),
    ("vi", "1984", ["một nghìn chín trăm tám mươi bốn"]),
    ("ar", "١٠٪ ٣٫٥", ["عشرة بالمئة", "ثلاثة فاصلة خمسة"]),
    ("de", "1999 50%", ["neunzehnhundertneunundneunzig", "fünfzig prozent"]),
    ("de-AT", "2", ["zwei"]),
    ("deu", "2", ["zwei"]),
    ("fr", "L’année 80 est-ce", ["l'année", "quatre vingts", "est ce"]),
    ("es", "¿Qué? 7", ["qué", "siete"]),
    ("pt-BR", "16", ["dezesseis"]),
    ("tr", "İstanbul IRMAK", ["istanbul", "ırmak"]),
    ("el", "ΣΊΣΥΦΟΣ τέλος;", ["σίσυφος", "τέλος"]),
    ("ru", "Привет, мир!", ["привет", "мир"]),
    ("ca", "col·legi", ["collegi"]),
    ("ar", "مـشـغولاً. ٣", ["مشغولاً", "ثلاثة"]),
    ("fa", "می‌توانم", ["میتوانم"]),
    ("fa", "3,5", ["3 5"]),  # num2words has no decimals there: digits stay
    ("hi", "सुलाना है।", ["सुलाना", "है"]),
    ("vi", "Sâu mắt", ["sâu", "mắt"]),
    ("xx", "Abc 12 -", ["abc", "12", ""]),
    ("en", "Привет 5", ["привет", "five"]),
    ("en-GB", "5", ["five"]),
]


@over_rows(("language", "written", "said"), OTHER)
def test_other_languages(language: str, written: str, said: list[str]) -> None:
    assert [word.spoken for word in split(written, language=language).words] == said


def test_every_decimal_digit_of_unicode_is_read() -> None:
    digits = [chr(i) for i in range(sys.maxunicode) if unicodedata.category(chr(i)) == "Nd"]
    assert len(digits) > 500
    for digit in digits:
        said = {word.spoken for word in split(digit).words}
        assert said == {split(str(unicodedata.decimal(digit))).words[0].spoken}, digit
