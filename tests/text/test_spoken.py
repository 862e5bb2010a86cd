"""What is spoken for what is written: one table, read it top to bottom; numbers have their own."""

from __future__ import annotations

import time

import pytest
from rows import over_rows
from spoken_tables import rows

from ctc_align.text import split
from ctc_align.text.english_numbers import Context
from ctc_align.text.spoken_english import speak

TABLE = """
# letters, quotes, apostrophes
Hello,                | hello
“Hello”               | hello
(Yes!)                | yes
don't                 | don't
don’t                 | don't
DON'T                 | don't
o'clock               | o'clock
O’Brien’s             | o'brien's
'tis                  | 'tis
‘Tis                  | 'tis
'Twas                 | 'twas
'Twould've            | 'twould've
'n' 's'               | 'n | s
’em,                  | 'em
'cause                | 'cause
'cause'               | cause
‘cause’               | cause
'round                | 'round
'hello'               | hello
‘hello,’              | hello
dogs'                 | dogs
States’               | states
goin'                 | goin'
nothin’,              | nothin'
again'                | again
'within'              | within
rock 'n' roll         | rock | 'n | roll
rock'n'roll           | rock 'n roll
it 's                 | it | 's
naïve café            | naïve | café
Müller                | müller
İstanbul              | istanbul
co\u00adoperate       | cooperate
zero\u200bwidth       | zero width
ﬁne                   | fine
ωμ καὶ μ              | ωμ | καὶ | μ
ｆｕｌｌ                  | full
# hyphens, dashes, slashes, dots
twenty-two            | twenty two
e-mail                | e mail
well‑known            | well known
word—another          | word | another
wait...what           | wait | what
--                    |
— yes                 | | yes
...                   |
😀                    |
""                    |
:-)                   |
=)                    |
and/or                | and | or
snake_case            | snake case
T-shirt               | t shirt
X-ray                 | x ray
# abbreviations
Mr. Brown             | mister | brown
Mr Brown              | mister | brown
Mrs. Brown's          | missus | brown's
Ms. Brown             | ms | brown
Dr. Brown             | doctor | brown
Elm Dr. is            | elm | drive | is
the Dr. said          | the | doctor | said
St. Paul              | saint | paul
Elm St., Paris        | elm | street | paris
Elm St. is            | elm | street | is
Ave. is               | avenue | is
Sr., Jr.              | senior | junior
vs. them              | versus | them
etc.                  | et cetera
(etc.),               | et cetera
Prof. Lee             | professor | lee
Capt. Lee             | captain | lee
Gen. Lee              | general | lee
gen. pop              | gen | pop
Smith & Co.           | smith | and | company
Inc.                  | incorporated
approx. ten           | approximately | ten
Jan. 5                | january | fifth
Dec. was              | december | was
No. 5                 | number | five
Nos. 5 and 6          | numbers | five | and | six
(555) 123-4567        | five five five | one two three four five six seven
no. 5                 | number | five
No.5                  | number five
No. Never             | no | never
No.                   | no
p. 5                  | page | five
pp. 5–7               | pages | five to seven
Fig. 3                | figure | three
Mt. Everest           | mount | everest
U.S.A.                | u s a
U.S.                  | u s
U.S.-based            | u s based
(U.S.)                | u s
a.m.                  | a m
e.g.,                 | e g
i.e.                  | i e
Ph.D.                 | p h d
J. R. R. Tolkien      | j | r | r | tolkien
J.R.R. Tolkien        | j r r | tolkien
J.Smith               | j smith
the BBC               | the | b b c
the BBC's             | the | b b c's
two TVs               | two | t v's
an FBI man            | an | f b i | man
of HTML               | of | h t m l
of NASA               | of | nasa
the US                | the | u s
Hmm, HMM              | hmm | hmm
a BUT                 | a | but
# Roman numerals
Henry VIII            | henry | the eighth
Louis XIV's           | louis | the fourteenth's
World War II          | world | war | two
Chapter IV            | chapter | four
Chapter I             | chapter | one
World War I           | world | war | one
in this chapter I     | in | this | chapter | i
Super Bowl XLII       | super | bowl | forty two
an XL shirt           | an | x l | shirt
WWII                  | world war two
the IV drip           | the | iv | drip
Malcolm X             | malcolm | x
and I                 | and | i
# addresses
example.com           | example dot com
www.example.co.uk     | w w w dot example dot co dot u k
https://example.org/  | example dot org
me@example.com,       | me at example dot com
end.Next              | end | next
"""

ALL_CAPITALS = """
WE CALL IT BEAR       | we | call | it | bear
MR BROWN AND DR GRAY  | mister | brown | and | doctor | gray
THE BBC               | the | bbc
HENRY VIII            | henry | the eighth
IN CHAPTER I TELL     | in | chapter | i | tell
I AM HERE             | i | am | here
AT ST PAUL            | at | saint | paul
US AND IT             | us | and | it
"""


@over_rows(("written", "said"), rows(TABLE) + rows(ALL_CAPITALS))
def test_english(written: str, said: list[str]) -> None:
    words = split(written).words
    assert "".join(word.text for word in words) == "".join(written.split())
    assert [word.spoken for word in words] == said


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
    ("hi", "सुलाना है।", ["सुलाना", "है"]),
    ("vi", "Sâu mắt", ["sâu", "mắt"]),
    ("xx", "Abc 12 -", ["abc", "12", ""]),
    ("en", "Привет 5", ["привет", "five"]),
    ("en-GB", "5", ["five"]),
]


@over_rows(("language", "written", "said"), OTHER)
def test_other_languages(language: str, written: str, said: list[str]) -> None:
    assert [word.spoken for word in split(written, language=language).words] == said


@pytest.mark.parametrize(
    "word", ["\u0301" * 3000 + "\\aughs", "9," * 5_000, "a@" * 20_000, "1-" * 20_000, "x." * 20_000]
)
def test_a_word_without_end_is_read_in_time(word: str) -> None:
    """Some rules take the square or the cube of a word's length: the first of these took hours."""
    start = time.process_time()
    assert speak(word, Context())
    assert time.process_time() - start < 5
