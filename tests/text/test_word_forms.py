"""Words as they are printed in CTM and TextGrid."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st
from rows import over_rows

from ctc_align.text import outer_punctuation_stripped

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


@settings(max_examples=300, deadline=None)
@given(st.text() | st.text("ab1.,'’‘\"()[]-−$%&#@+=in U"))
def test_a_label_is_a_part_of_the_word_and_stable(word: str) -> None:
    label = outer_punctuation_stripped(word)
    assert label in word
    assert bool(label) == bool(word)
    assert outer_punctuation_stripped(label) == label
