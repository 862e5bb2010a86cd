"""Written English and other languages as they are spoken: tables to be read from top to bottom."""

from __future__ import annotations

import sys
import unicodedata

from rows import over_rows

from ctc_align.text import split


def cases(*tables: str) -> list[tuple[str, list[str]]]:
    """Return (written, spoken forms of its words) of the cases of tables, which four spaces separate; ∅ is silent."""
    lines = [line for table in tables for line in table.strip().splitlines() if not line.startswith("# ")]
    pairs = [case.split(" → ") for line in lines for case in line.split("    ")]
    return [(written, spoken.replace("∅", "").split(" | ")) for written, spoken in pairs]


WORDS = """
# letters, quotes, apostrophes
Hello, → hello    “Hello” → hello    (Yes!) → yes    don't → don't    don’t → don't    DON'T → don't
o'clock → o'clock    O’Brien’s → o'brien's    'tis → 'tis    ‘Tis → 'tis    'Twas → 'twas    'Twould've → 'twould've
'n' 's' → 'n | s    ’em, → 'em    'cause → 'cause    'cause' → cause    ‘cause’ → cause    'round → 'round
'hello' → hello    ‘hello,’ → hello    dogs' → dogs    States’ → states    goin' → goin'    nothin’, → nothin'
again' → again    'within' → within    rock 'n' roll → rock | 'n | roll    rock'n'roll → rock 'n roll
it 's → it | 's    naïve café → naïve | café    Müller → müller    İstanbul → istanbul    co\u00adoperate → cooperate
zero\u200bwidth → zero width    ﬁne → fine    ωμ καὶ μ → ωμ | καὶ | μ    ｆｕｌｌ → full
# hyphens, dashes, slashes, dots
twenty-two → twenty two    e-mail → e mail    well‑known → well known    word—another → word | another
wait...what → wait | what    -- → ∅    — yes → ∅ | yes    ... → ∅    😀 → ∅    "" → ∅    :-) → ∅    =) → ∅
and/or → and | or    snake_case → snake case    T-shirt → t shirt    X-ray → x ray
# abbreviations
Mr. Brown → mister | brown    Mr Brown → mister | brown    Mrs. Brown's → missus | brown's    Ms. Brown → ms | brown
Dr. Brown → doctor | brown    Elm Dr. is → elm | drive | is    the Dr. said → the | doctor | said
St. Paul → saint | paul    Elm St., Paris → elm | street | paris    Elm St. is → elm | street | is
Ave. is → avenue | is    Sr., Jr. → senior | junior    vs. them → versus | them    etc. → et cetera
(etc.), → et cetera    Prof. Lee → professor | lee    Capt. Lee → captain | lee    Gen. Lee → general | lee
gen. pop → gen | pop    Smith & Co. → smith | and | company    Inc. → incorporated
approx. ten → approximately | ten    Jan. 5 → january | fifth    Dec. was → december | was    No. 5 → number | five
Nos. 5 and 6 → numbers | five | and | six    (555) 123-4567 → five five five | one two three four five six seven
no. 5 → number | five    No.5 → number five    No. Never → no | never    No. → no    p. 5 → page | five
pp. 5–7 → pages | five to seven    Fig. 3 → figure | three    Mt. Everest → mount | everest    U.S.A. → u s a
U.S. → u s    U.S.-based → u s based    (U.S.) → u s    a.m. → a m    e.g., → e g    i.e. → i e    Ph.D. → p h d
J. R. R. Tolkien → j | r | r | tolkien    J.R.R. Tolkien → j r r | tolkien    J.Smith → j smith
the BBC → the | b b c    the BBC's → the | b b c's    two TVs → two | t v's    an FBI man → an | f b i | man
of HTML → of | h t m l    of NASA → of | nasa    the US → the | u s    Hmm, HMM → hmm | hmm    a BUT → a | but
# Roman numerals
Henry VIII → henry | the eighth    Louis XIV's → louis | the fourteenth's    World War II → world | war | two
Chapter IV → chapter | four    Chapter I → chapter | one    World War I → world | war | one
in this chapter I → in | this | chapter | i    Super Bowl XLII → super | bowl | forty two
an XL shirt → an | x l | shirt    WWII → world war two    the IV drip → the | iv | drip    Malcolm X → malcolm | x
and I → and | i
# addresses
example.com → example dot com    www.example.co.uk → w w w dot example dot co dot u k
https://example.org/ → example dot org    me@example.com, → me at example dot com    end.Next → end | next
"""

ALL_CAPITALS = """
WE CALL IT BEAR → we | call | it | bear    MR BROWN AND DR GRAY → mister | brown | and | doctor | gray
THE BBC → the | bbc    HENRY VIII → henry | the eighth    IN CHAPTER I TELL → in | chapter | i | tell
I AM HERE → i | am | here    AT ST PAUL → at | saint | paul    US AND IT → us | and | it
"""


@over_rows(("written", "said"), cases(WORDS, ALL_CAPITALS))
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


NUMBERS = """
# whole numbers
0 → zero    5 → five    42, → forty two    120 → one hundred twenty    1,250 → one thousand two hundred fifty
1,000,000 → one million    1000000000 → one billion    12345 → twelve thousand three hundred forty five
007 → zero zero seven    5551234567 → five five five one two three four five six seven
555-1234 → five five five one two three four    555-867-5309 → five five five eight six seven five three zero nine
-5 → minus five    (-5) → minus five    −3 → minus three    +5 → plus five    ٢٣ → twenty three    ⑤ → five
1,2,3 → one two three
# decimals, versions
3.14 → three point one four    0.05 → zero point zero five    .5 → point five    A.1 → a one
-2.5 → minus two point five    1.2.3 → one point two point three    1.000.000 → one million
192.168.0.1 → one hundred ninety two point one hundred sixty eight point zero point one    5. → five
# years
1999 → nineteen ninety nine    1905 → nineteen oh five    1900 → nineteen hundred    1100 → eleven hundred
2000 → two thousand    2005 → two thousand five    2026 → twenty twenty six    1066 → one thousand sixty six
in 1066 → in | ten sixty six    2100 → two thousand one hundred    1990s → nineteen nineties
1990's → nineteen nineties    1900s → nineteen hundreds    2010s → twenty tens    '90s → nineties    ’90s, → nineties
'99 → ninety nine    '05 → oh five    80s → eighties    747s → seven hundred forty sevens
1999's → nineteen ninety nine's    1914-1918 → nineteen fourteen to nineteen eighteen
1914–18 → nineteen fourteen to eighteen    1914-18 → nineteen fourteen to eighteen
mid-1990s → mid nineteen nineties    1999-12-31 → nineteen ninety nine twelve thirty one
12/25/1999 → twelve twenty five nineteen ninety nine    May 5, 1999 → may | fifth | nineteen ninety nine
we may 5 → we | may | five
# ordinals
1st → first    2nd → second    3rd → third    21st → twenty first    20th-century → twentieth century
100th → one hundredth    1,000th → one thousandth
# ranges and scores
5-10 → five to ten    5–10 → five to ten    10–5 → ten to five    3-2 → three two    1-2-3 → one two three
# money
$5 → five dollars    $1 → one dollar    $3.50 → three dollars and fifty cents
$3.50, → three dollars and fifty cents    $1.01 → one dollar and one cent    $0.99 → ninety nine cents
$.99 → ninety nine cents    $5.00 → five dollars
$1,250.75 → one thousand two hundred fifty dollars and seventy five cents
$1999 → one thousand nine hundred ninety nine dollars    -$5 → minus five dollars
$5-$10 → five dollars to ten dollars    $5-10 → five dollars to ten
$5–$10 million → five dollars to ten | million dollars    1990--1995 → nineteen ninety to nineteen ninety five
June F–16 → june | f sixteen    £20 → twenty pounds    £3.50 → three pounds fifty    £0.01 → one penny
€9.99 → nine euros and ninety nine cents    20€ → twenty euros    ¥100 → one hundred yen    99¢ → ninety nine cents
US$5 → five u s dollars    $1.5M → one point five million dollars    $3bn → three billion dollars
$10k → ten thousand dollars    $2-million → two million dollars    $2 million → two | million dollars
$2 million. Then → two | million dollars | then    2 million → two | million    $ → dollars
# percent, fractions, powers
50% → fifty percent    12.5% → twelve point five percent    50 % → fifty | percent
50%-60% → fifty percent to sixty percent    1/2 → one half    3/4 → three quarters    2/3 → two thirds
5/8 → five eighths    3/100 → three hundredths    ½ → one half    2½ → two and a half    3¾ → three and three quarters
1 1/2 → one | and a half    9/11 → nine eleven    24/7. → twenty four seven    24/7 → twenty four seven
50/50 → fifty fifty    1/3rd → one third    mc^2 → m c squared    E=mc² → e equals m c squared    x² → x squared
10³ → ten cubed    10⁶ → ten to the sixth    claimed² → claimed
# times
3:30 → three thirty    10:05 → ten oh five    5:00 → five o'clock    5:00pm → five p m    7am → seven a m
7 a.m. → seven | a m    7 am → seven | a m    I am → i | am    10:30 p.m., → ten thirty | p m
5:00 p.m. → five | p m    17:00 → seventeen hundred    1:02:03 → one oh two oh three
9:00-5:30pm → nine to five thirty p m    2:1 → two to one    16:9 → sixteen to nine
# measures
6'2" 5'11 → six foot two | five foot eleven    Q3'24 → q three twenty four
5μm 5 µm → five micrometers | five | micrometers    3 μg → three | micrograms    5kg → five kilograms
1kg → one kilogram    5 kg → five | kilograms    ½kg → one half kilograms    3½-inch → three and a half inch
5kg. → five kilograms    10km/h → ten kilometers per hour    10 km/h → ten | kilometers per hour
9.8m/s² → nine point eight meters per second squared    $20/hr → twenty dollars per hour
-40°F/-40°C → minus forty degrees fahrenheit minus forty degrees celsius    60mph → sixty miles per hour
20°C → twenty degrees celsius    -5 °C → minus five | degrees celsius
98.6°F → ninety eight point six degrees fahrenheit    90° → ninety degrees    6ft → six feet    6'2" → six foot two
100m² → one hundred square meters    16GB → sixteen gigabytes    5-kg → five kilogram    5 in. → five | inches
5 in → five | in    4x4 → four by four    1920×1080 → nineteen twenty by one thousand eighty    2x → two x
# signs
& → and    R&B → r and b    AT&T → a t and t    #1 → number one    #MeToo → hashtag metoo    C++ → c plus plus
C# → c sharp    @ → at    2+2=4 → two plus two equals four    3×4 → three by four    + → plus    ~5 → about five
№ 5 → number | five    w/o → without
# letters with digits
mp3 → m p three    B2B → b two b    3D → three d    4K → four k    H₂O → h two o    COVID-19 → covid nineteen
F-16 → f sixteen    PS5 → p s five    iPhone5 → iphone five    x86 → x eighty six    ISO9001 → i s o nine thousand one
"""


@over_rows(("written", "said"), cases(NUMBERS))
def test_english_numbers(written: str, said: list[str]) -> None:
    words = split(written).words
    assert [word.text for word in words] == written.split()
    assert [word.spoken for word in words] == said


def test_every_decimal_digit_of_unicode_is_read() -> None:
    digits = [chr(i) for i in range(sys.maxunicode) if unicodedata.category(chr(i)) == "Nd"]
    assert len(digits) > 500
    for digit in digits:
        said = {word.spoken for word in split(digit).words}
        assert said == {split(str(unicodedata.decimal(digit))).words[0].spoken}, digit


TELEPHONE = """
Call 555-1234. → call | five five five one two three four
(212) 555-0123 → two one two | five five five zero one two three
at (212)555-0123, ok? → at | two one two five five five zero one two three | ok
(555) 123-4567; → five five five | one two three four five six seven
+1 800 555 0199 → plus one | eight zero zero | five five five | zero one nine nine
1 (800) 555-0199 → one | eight zero zero | five five five zero one nine nine
1-800-555-0199 → one eight zero zero five five five zero one nine nine
212.555.0123 → two one two five five five zero one two three
212 555 0123 → two one two | five five five | zero one two three    1-800-FLOWERS → one eight hundred flowers
800-GOT-JUNK? → eight hundred got junk
+44 20 7946 0958 → plus four four | two zero | seven nine four six | zero nine five eight
020 7946 0958 → zero two zero | seven nine four six | zero nine five eight
+49 (0)30 901820 → plus four nine | zero three zero | nine zero one eight two zero
Tel: 555 1234 → tel | five five five | one two three four
Phone: 5551234 → phone | five five five one two three four    ext. 4567 → extension | four five six seven
555-0123 x123 → five five five zero one two three | extension one two three
Dial 911 now → dial | nine one one | now    the 911 operator → the | nine one one | operator
"""
NOT_TELEPHONE = """
911 people → nine hundred eleven | people    on 9/11 → on | nine eleven    Extension 42 → extension | forty two
pages 100-2000 → pages | one hundred to two thousand    250-1200 mg → two hundred fifty to twelve hundred | milligrams
1999-2004 → nineteen ninety nine to two thousand four    100 200 3000 → one hundred | two hundred | three thousand
+1 500 people → plus one | five hundred | people    2024-01-15 → twenty twenty four one fifteen
978-0-306-40615-7 → nine seven eight zero three zero six four zero six one five seven
call 20 people → call | twenty | people
in 1999 2000 2001 → in | nineteen ninety nine | two thousand | two thousand one
flight 370 → flight | three hundred seventy    $800-900 → eight hundred dollars to nine hundred
phone 12 → phone | twelve
"""


@over_rows(("written", "said"), cases(TELEPHONE, NOT_TELEPHONE))
def test_telephone_numbers(written: str, said: list[str]) -> None:
    assert [word.spoken for word in split(written).words] == said
