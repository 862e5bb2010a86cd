"""What is spoken for digits and signs: one table, read it top to bottom."""

from __future__ import annotations

import sys
import unicodedata

from rows import over_rows
from spoken_tables import rows

from ctc_align.text import split

TABLE = """
# whole numbers
0                     | zero
5                     | five
42,                   | forty two
120                   | one hundred twenty
1,250                 | one thousand two hundred fifty
1,000,000             | one million
1000000000            | one billion
12345                 | twelve thousand three hundred forty five
007                   | zero zero seven
5551234567            | five five five one two three four five six seven
555-1234              | five five five one two three four
555-867-5309          | five five five eight six seven five three zero nine
-5                    | minus five
(-5)                  | minus five
−3                    | minus three
+5                    | plus five
٢٣                    | twenty three
⑤                     | five
1,2,3                 | one two three
# decimals, versions
3.14                  | three point one four
0.05                  | zero point zero five
.5                    | point five
A.1                   | a one
-2.5                  | minus two point five
1.2.3                 | one point two point three
1.000.000             | one million
192.168.0.1           | one hundred ninety two point one hundred sixty eight point zero point one
5.                    | five
# years
1999                  | nineteen ninety nine
1905                  | nineteen oh five
1900                  | nineteen hundred
1100                  | eleven hundred
2000                  | two thousand
2005                  | two thousand five
2026                  | twenty twenty six
1066                  | one thousand sixty six
in 1066               | in | ten sixty six
2100                  | two thousand one hundred
1990s                 | nineteen nineties
1990's                | nineteen nineties
1900s                 | nineteen hundreds
2010s                 | twenty tens
'90s                  | nineties
’90s,                 | nineties
'99                   | ninety nine
'05                   | oh five
80s                   | eighties
747s                  | seven hundred forty sevens
1999's                | nineteen ninety nine's
1914-1918             | nineteen fourteen to nineteen eighteen
1914–18               | nineteen fourteen to eighteen
1914-18               | nineteen fourteen to eighteen
mid-1990s             | mid nineteen nineties
1999-12-31            | nineteen ninety nine twelve thirty one
12/25/1999            | twelve twenty five nineteen ninety nine
May 5, 1999           | may | fifth | nineteen ninety nine
we may 5              | we | may | five
# ordinals
1st                   | first
2nd                   | second
3rd                   | third
21st                  | twenty first
20th-century          | twentieth century
100th                 | one hundredth
1,000th               | one thousandth
# ranges and scores
5-10                  | five to ten
5–10                  | five to ten
10–5                  | ten to five
3-2                   | three two
1-2-3                 | one two three
# money
$5                    | five dollars
$1                    | one dollar
$3.50                 | three dollars and fifty cents
$3.50,                | three dollars and fifty cents
$1.01                 | one dollar and one cent
$0.99                 | ninety nine cents
$.99                  | ninety nine cents
$5.00                 | five dollars
$1,250.75             | one thousand two hundred fifty dollars and seventy five cents
$1999                 | one thousand nine hundred ninety nine dollars
-$5                   | minus five dollars
$5-$10                | five dollars to ten dollars
$5-10                 | five dollars to ten
$5–$10 million        | five dollars to ten | million dollars
1990--1995            | nineteen ninety to nineteen ninety five
June F–16             | june | f sixteen
£20                   | twenty pounds
£3.50                 | three pounds fifty
£0.01                 | one penny
€9.99                 | nine euros and ninety nine cents
20€                   | twenty euros
¥100                  | one hundred yen
99¢                   | ninety nine cents
US$5                  | five u s dollars
$1.5M                 | one point five million dollars
$3bn                  | three billion dollars
$10k                  | ten thousand dollars
$2-million            | two million dollars
$2 million            | two | million dollars
$2 million. Then      | two | million dollars | then
2 million             | two | million
$                     | dollars
# percent, fractions, powers
50%                   | fifty percent
12.5%                 | twelve point five percent
50 %                  | fifty | percent
50%-60%               | fifty percent to sixty percent
1/2                   | one half
3/4                   | three quarters
2/3                   | two thirds
5/8                   | five eighths
3/100                 | three hundredths
½                     | one half
2½                    | two and a half
3¾                    | three and three quarters
1 1/2                 | one | and a half
9/11                  | nine eleven
24/7.                 | twenty four seven
24/7                  | twenty four seven
50/50                 | fifty fifty
1/3rd                 | one third
mc^2                  | m c squared
E=mc²                 | e equals m c squared
x²                    | x squared
10³                   | ten cubed
10⁶                   | ten to the sixth
claimed²              | claimed
# times
3:30                  | three thirty
10:05                 | ten oh five
5:00                  | five o'clock
5:00pm                | five p m
7am                   | seven a m
7 a.m.                | seven | a m
7 am                  | seven | a m
I am                  | i | am
10:30 p.m.,           | ten thirty | p m
5:00 p.m.             | five | p m
17:00                 | seventeen hundred
1:02:03               | one oh two oh three
9:00-5:30pm           | nine to five thirty p m
2:1                   | two to one
16:9                  | sixteen to nine
# measures
6'2" 5'11             | six foot two | five foot eleven
Q3'24                 | q three twenty four
5μm 5 µm             | five micrometers | five | micrometers
3 μg                  | three | micrograms
5kg                   | five kilograms
1kg                   | one kilogram
5 kg                  | five | kilograms
½kg                   | one half kilograms
3½-inch               | three and a half inch
5kg.                  | five kilograms
10km/h                | ten kilometers per hour
10 km/h               | ten | kilometers per hour
9.8m/s²               | nine point eight meters per second squared
$20/hr                | twenty dollars per hour
-40°F/-40°C           | minus forty degrees fahrenheit minus forty degrees celsius
60mph                 | sixty miles per hour
20°C                  | twenty degrees celsius
-5 °C                 | minus five | degrees celsius
98.6°F                | ninety eight point six degrees fahrenheit
90°                   | ninety degrees
6ft                   | six feet
6'2"                  | six foot two
100m²                 | one hundred square meters
16GB                  | sixteen gigabytes
5-kg                  | five kilogram
5 in.                 | five | inches
5 in                  | five | in
4x4                   | four by four
1920×1080             | nineteen twenty by one thousand eighty
2x                    | two x
# signs
&                     | and
R&B                   | r and b
AT&T                  | a t and t
#1                    | number one
#MeToo                | hashtag metoo
C++                   | c plus plus
C#                    | c sharp
@                     | at
2+2=4                 | two plus two equals four
3×4                   | three by four
+                     | plus
~5                    | about five
№ 5                   | number | five
w/o                   | without
# letters with digits
mp3                   | m p three
B2B                   | b two b
3D                    | three d
4K                    | four k
H₂O                   | h two o
COVID-19              | covid nineteen
F-16                  | f sixteen
PS5                   | p s five
iPhone5               | iphone five
x86                   | x eighty six
ISO9001               | i s o nine thousand one
"""


@over_rows(("written", "said"), rows(TABLE))
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
