"""What texts hold beside words: one table of kinds of texts, what is spoken of each, and what became of the rest."""

from __future__ import annotations

import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from rows import over_rows
from word_checks import assert_sound

from ctc_align.files.subtitles import parse_subtitles
from ctc_align.text import split, with_cues
from ctc_align.types import SPEAKER, Words

KINDS = r"""
# labels in capitals
> JOHN: Hello there.\nMARY: Hi, John.
= speaker<JOHN:> Hello@JOHN there.@JOHN speaker<MARY:> Hi,@MARY John.@MARY
# labels without a line of their own
> JOHN: Hello there. MARY: Hi. JOHN: Bye.
= speaker<JOHN:> Hello@JOHN there.@JOHN speaker<MARY:> Hi.@MARY speaker<JOHN:> Bye.@JOHN
# one label in capitals
> JOHN: Hello there, all of you.
= speaker<JOHN:> Hello@JOHN there,@JOHN all@JOHN of@JOHN you.@JOHN
# a title and a name
> Dr. Smith: Good morning.\nMr. Jones: Is it?
= speaker<Dr.> speaker<Smith:> Good@Dr._Smith morning.@Dr._Smith speaker<Mr.> speaker<Jones:> Is@Mr._Jones
= it?@Mr._Jones
# a first name, once
> John: So it begins.
= speaker<John:> So@John it@John begins.@John
# captions
> &gt;&gt; MARY: Well. >> So what. >>JOHN: Yes.
= speaker<&gt;&gt;> speaker<MARY:> Well.@MARY speaker<>>> So what. speaker<>>JOHN:> Yes.@JOHN
# roles
> Interviewer: And then?\nInterviewee: Nothing.
= speaker<Interviewer:> And@Interviewer then?@Interviewer speaker<Interviewee:> Nothing.@Interviewee
# questions and answers
> Q: And then?\nA: A dog.
= speaker<Q:> And@Q then?@Q speaker<A:> A@A dog.@A
# bracketed speakers
> [Speaker 1]: Hello\n[Speaker 2]: Hi
= speaker<[Speaker> speaker<1]:> Hello@Speaker_1 speaker<[Speaker> speaker<2]:> Hi@Speaker_2
# speakers of a diarisation
> SPEAKER_00: one two\n[SPEAKER_01] three
= speaker<SPEAKER_00:> one@SPEAKER_00 two@SPEAKER_00 speaker<[SPEAKER_01]> three@SPEAKER_01
# times before names
> [00:01:02] Olamide: Hi there\n[00:01:05] Kovacs: Hi
= markup<[00:01:02]> speaker<Olamide:> Hi@Olamide there@Olamide markup<[00:01:05]> speaker<Kovacs:> Hi@Kovacs
# times after names
> John (00:12): Hi\nMary (00:15): Ho
= speaker<John> speaker<(00:12):> Hi@John speaker<Mary> speaker<(00:15):> Ho@Mary
# names and times on lines of their own
> Ann Smith  0:03\nHello everyone\nOla Jones  0:07\nHi Ann
= speaker<Ann> speaker<Smith> speaker<0:03> Hello@Ann_Smith everyone@Ann_Smith speaker<Ola> speaker<Jones>
= speaker<0:07> Hi@Ola_Jones Ann@Ola_Jones
# names in bold
> **Ann:** Hi there.\n**Ann:** Hello.\n**Ola:** Yes.
= speaker<**Ann:**> Hi@Ann there.@Ann speaker<**Ann:**> Hello.@Ann speaker<**Ola:**> Yes.@Ola
# asides in labels
> JOHN (V.O.): I was young.\nMARY (laughing): No!
= speaker<JOHN> speaker<(V.O.):> I@JOHN was@JOHN young.@JOHN speaker<MARY> direction<(laughing)> speaker<:> No!@MARY
# a label with a description
> JOHN SMITH, HOST: Welcome. MR. JONES: Thanks.
= speaker<JOHN> speaker<SMITH,> speaker<HOST:> Welcome.@JOHN_SMITH speaker<MR.> speaker<JONES:> Thanks.@MR._JONES
# names in lower case that recur
> interviewer: hi\njohn: hello\ninterviewer: so\njohn: well
= speaker<interviewer:> hi@interviewer speaker<john:> hello@john speaker<interviewer:> so@interviewer speaker<john:>
= well@john
# a script without capitals
> 主持人：你好。\n张三：好。
= speaker<主持人：> 你@主持人 好。@主持人 speaker<张三：> 好。@张三
# WebVTT voices
> <v Roger Bingham>We are\n<v.loud Neil>Yes
= speaker<<v> speaker<Roger> speaker<Bingham>> We@Roger_Bingham are@Roger_Bingham speaker<<v.loud> speaker<Neil>>
= Yes@Neil
# Windows line ends
> JOHN: Hi\r\n---\r\nMARY: Ho\r\n
= speaker<JOHN:> Hi@JOHN markup<---> speaker<MARY:> Ho@MARY
# words that only look like labels
> Note: this is so. He said: go.\nChapter 1: The end\nGenesis 1: In the beginning
= Note: this is so. He said: go. Chapter 1: The end Genesis 1: In the beginning
# warnings in capitals
> WARNING: hot. NOTE: cold.\nSTEP 2: mix
= WARNING: hot. NOTE: cold. STEP 2: mix
# headings of a list
> Monday: rain\nTuesday: sun\nBreaking News: snow
= Monday: rain Tuesday: sun Breaking News: snow
# a letter
> Dear all:\nThere are three: one, two, three.
= Dear all: There are three: one, two, three.
# a verse and a time
> Luke 3:16 says: go at 10:30 to John: now
= Luke 3:16 says: go at 10:30 to John: now
# what the sound must decide
> Jane went.\nKowalski: Hello.\nPetrova: Ho.
= Jane went. Kowalski: Hello. Petrova: Ho. ?speaker<Kowalski:> ?speaker<Petrova:>
# directions in brackets
> So [laughs], he [MUSIC PLAYING] went [door slams].
= So direction<[laughs],> he direction<[MUSIC> direction<PLAYING]> went direction<[door> direction<slams].>
# sounds in parentheses
> (Applause.) So (laughs) he (audience laughs) went (inaudible 00:12).
= direction<(Applause.)> So direction<(laughs)> he direction<(audience> direction<laughs)> went direction<(inaudible>
= direction<00:12).>
# sounds between asterisks
> *sighs* It is *very* late *clears throat*.
= direction<*sighs*> It is *very* late direction<*clears> direction<throat*.>
# music
> ♪ la la ♪\n♪ happy birthday\nto you ♪\nHe spoke.\n♪ one line\nand speech
= direction<♪> direction<la> direction<la> direction<♪> direction<♪> direction<happy> direction<birthday>
= direction<to> direction<you> direction<♪> He spoke. direction<♪> direction<one> direction<line> and speech
# notes without words, and several that close
> ♪\n♪ la ♪♪ he spoke
= direction<♪> direction<♪> direction<la> direction<♪♪> he spoke
# sounds in other languages
> Ja (lacht) das [Gelächter] ist so (笑) да (смех)
= Ja direction<(lacht)> das direction<[Gelächter]> ist so direction<(笑)> да direction<(смех)>
# brackets inside words
> [T]he w[as] here[1] and[12] gone [citation needed].
= [T]he w[as] here markup<[1]> and markup<[12]> gone markup<[citation> markup<needed].>
# parentheses that may be read
> It was (or so he said) here. (Yes.) A word(s) or (9).
= It was (or so he said) here. (Yes.) A word(s) or (9). ?direction<(or so he said)> ?direction<(Yes.)>
= ?direction<(9).>
# nested and unbalanced parentheses
> He said (as ever (he was old)) that a) it b) is (not done
= He said (as ever (he was old)) that a) it b) is (not done ?direction<(as ever (he was old))>
# parentheses around everything
> (The whole text.)
= (The whole text.)
# subtitle tags
> <i>Hello</i> {\\an8}there, <font color="#fff">red</font> <b>one</b>
= markup<<i>> Hello markup<</i>> markup<{\an8}> there, markup<<font> markup<color="#fff">> red markup<</font>>
= markup<<b>> one markup<</b>>
# a tag inside a word
> un<b>believ</b>able H<sub>2</sub>O
= un<b>believ</b>able H<sub>2</sub>O
# what is no tag
> a < b and c > d, I <3 you <me@x.org>
= a -<<> b and c -<>> d, I <3 you <me@x.org>
# entities
> &quot;Hello&quot; R&amp;D don&#39;t he&nbsp;said Tom &amp; Ann
= markup<&quot;> Hello markup<&quot;> R&amp;D don&#39;t he markup<&nbsp;> said Tom &amp; Ann
# escaped tags
> &lt;i&gt;Yes&lt;/i&gt; no
= markup<&lt;i&gt;> Yes markup<&lt;/i&gt;> no
# sounds as tags
> <laugh> well <noise> so <soft music>
= direction<<laugh>> well direction<<noise>> so direction<<soft> direction<music>>
# word times of WebVTT
> Yes<00:00:00.480><c> we</c><00:00:01.000><c> are</c>
= Yes markup<<00:00:00.480>> markup<<c>> we markup<</c>> markup<<00:00:01.000>> markup<<c>> are markup<</c>>
# a page of HTML
> <!DOCTYPE html><html><head><title>T</title></head><body><h1>Hi</h1><p>A<br>b<script>var x;</script><!-- no
>  --></p></body></html>
= markup<<!DOCTYPE> markup<html>> markup<<html>> markup<<head><title>T</title></head>> markup<<body>> markup<<h1>> Hi
= markup<</h1>> markup<<p>> A markup<<br>> b markup<<script>var> markup<x;</script>> markup<<!--> markup<no>
= markup<-->> markup<</p>> markup<</body>> markup<</html>>
# Markdown headings, bold, rules
> # Heading one\nSome **bold** _words_\n---\n> quoted
= markup<#> Heading one Some **bold** _words_ markup<---> markup<>> quoted
# Markdown links and pictures
> See [a link](https://x.org/a_b) or ![pic](a.png) <https://y.org>
= See markup<[> a link markup<](https://x.org/a_b)> or markup<![pic](a.png)> <https://y.org>
# Markdown lists
> - first\n* second\n1. third\n- [x] done\n+ more\n+ 5
= markup<-> first markup<*> second 1. third markup<-> markup<[x]> done markup<+> more + 5
# Markdown tables
> | a | b |\n|---|---|\n| c | d |
= markup<|> a markup<|> b markup<|> markup<|---> markup<|---> markup<|> markup<|> c markup<|> d markup<|>
# time stamps at lines
> 00:01:23 Hello there\n[00:01:25] and more [00:01:26.5] here
= markup<00:01:23> Hello there markup<[00:01:25]> and more markup<[00:01:26.5]> here
# bare times that ascend
> 0:00\nhello everyone\n0:05\nwelcome back
= markup<0:00> hello everyone markup<0:05> welcome back
# a time that is spoken
> 10:30 we met there\nand so on
= 10:30 we met there and so on
# a subtitle file pasted
> 1\n00:00:01,000 --> 00:00:02,000\nHello\n\n2\n00:00:03,000 --> 00:00:04,000\nthere
= markup<1> markup<00:00:01,000> markup<-->> markup<00:00:02,000> Hello markup<2> markup<00:00:03,000> markup<-->>
= markup<00:00:04,000> there
# a transcript of Whisper
> [00:00.000 --> 00:05.000]  Hello there
= markup<[00:00.000> markup<-->> markup<00:05.000]> Hello there
# dialogue dashes
> - Hello.\n-Hi there.\n– So.
= markup<-> Hello. -Hi there. -<–> So.
# words joined by marks
> Americans—ask and/or wait...what, one,two end.Then
= Americans— ask and/ or wait... what, one, two end. Then
# plain capitals
> WE CALL IT BEAR
= WE CALL IT BEAR
# single letters that recur
> A: Hi\nB: Ho\nA: Hm
= speaker<A:> Hi@A speaker<B:> Ho@B speaker<A:> Hm@A
# single letters once
> A: red\nB: blue
= A: red B: blue ?speaker<A:> ?speaker<B:>
# speakers in brackets without a colon
> [Host] Welcome\n[Guest 2] Hi [Crowd cheers]
= speaker<[Host]> Welcome@Host speaker<[Guest> speaker<2]> Hi@Guest_2 direction<[Crowd> direction<cheers]>
# one unknown word in capitals
> NASA: the agency
= NASA: the agency ?speaker<NASA:>
# music before a speaker
> ♪♪ HOST: Welcome!
= direction<♪♪> speaker<HOST:> Welcome!@HOST
# dashes before names
> -- JOHN: yes\n- MARY: no
= speaker<--> speaker<JOHN:> yes@JOHN markup<-> speaker<MARY:> no@MARY
# roles of a court
> THE COURT: Sustained. MR. SMITH: Objection.
= speaker<THE> speaker<COURT:> Sustained.@THE_COURT speaker<MR.> speaker<SMITH:> Objection.@MR._SMITH
# French spacing, names in HTML
> <p><b>Marie</b> : Bonjour.</p><p><b>Paul</b> : Salut.</p>
= markup<<p>> markup<<b>> speaker<Marie> markup<</b>> speaker<:> Bonjour.@Marie markup<</p>> markup<<p>> markup<<b>>
= speaker<Paul> markup<</b>> speaker<:> Salut.@Paul markup<</p>>
# names in a script with capitals, once each
> Иван: Привет.\nМария: Да.
= Иван: Привет. Мария: Да. ?speaker<Иван:> ?speaker<Мария:>
# a heading or two in prose
> EXTRAS: so\nit goes\nand on.\nit goes\nand on\nOTHERS: and on.\nit goes\nand\non\nand on\nand on
= EXTRAS: so it goes and on. it goes and on OTHERS: and on. it goes and on and on and on ?speaker<EXTRAS:>
= ?speaker<OTHERS:>
# dashes before parentheses, breaks of SubStation Alpha
> {\\i1}late—(really){\\i0}\\Nso (I think!).
= markup<{\i1}> late— (really) markup<{\i0}> markup<\N> so (I think!). ?direction<(really)> ?direction<(I think!).>
# numbered lists
> 1. the first\n2. the second\n\n99. none
= 1. the first 2. the second 99. none ?markup<1.> ?markup<2.>
# titles of books and films
> Star Wars: A New Hope is old. Mission: Impossible too.
= Star Wars: A New Hope is old. Mission: Impossible too. ?speaker<Star Wars:>
# a sentence broken before a title
> and then he asked\nDr. Smith: are you well
= and then he asked Dr. Smith: are you well ?speaker<Dr. Smith:>
"""


def kinds(table: str) -> list[tuple[str, str, str]]:
    """Return (name, text, its words in order) of the kinds of texts in a table, which escapes line ends in texts.

    `word@SPEAKER` is spoken, `kind<word>` is not, `-<word>` is a mark alone; the passages `?kind<words>` may be spoken.
    """
    found: list[tuple[str, str, str]] = []
    for line in table.strip().splitlines():
        sign, _, rest = line.partition(" ")
        name, text, words = found[-1] if found else ("", "", "")
        if sign == "#":
            found.append((rest, "", ""))
        elif sign == ">":
            characters = re.sub(r"\\(.)", lambda match: {"n": "\n", "r": "\r"}.get(match[1], match[1]), rest)
            found[-1] = (name, text + characters, words)
        else:
            found[-1] = (name, text, f"{words} {rest}".strip())
    return found


def shown(words: Words) -> str:
    """Return words in the notation of `kinds`."""
    parts = []
    for word in words.words:
        speaker = f"@{word.speaker.replace(' ', '_')}" if word.speaker else ""
        assert not (word.kind and word.spoken)
        parts.append(word.text + speaker if word.spoken else f"{word.kind or '-'}<{word.text}>")
    for passage in words.optional:
        inside = " ".join(word.text for word in words.words[passage.first : passage.last])
        parts.append(f"?{passage.kind}<{inside}>")
    return " ".join(parts)


@over_rows(("kind", "text", "expected"), kinds(KINDS))
def test_what_is_spoken(kind: str, text: str, expected: str) -> None:
    words = split(text)
    assert shown(words) == expected
    assert_sound(words, text)


def test_spoken_forms_are_read_without_markup() -> None:
    text = "<b>Elm</b> Dr. un<b>believ</b>able AT&amp;T don&#39;t Tom &amp; 5 [laughs] pm"
    spoken = [word.spoken for word in split(text).words if not word.kind]
    assert spoken == ["elm", "drive", "unbelievable", "a t and t", "don't", "tom", "and", "five", "p m"]


PIECES = """JOHN: Mary: Q: A: Dr. [ ] ( ) ♪ <i> </i> &amp; &quot; &nbsp; {\\an8} * ** # - >> [x](y) | --- 0:12 [00:01]
laughs
word Two. a—b ： 笑 <script> </script> <!-- --> < > 5 \ufeff"""


@settings(max_examples=200, deadline=None)
@given(
    st.lists(st.sampled_from([*PIECES.split(), "<v Ann>", *[" ", "\n", "\r\n", "\n\n"] * 3]), max_size=25).map("".join),
    st.sampled_from([None, True, False]),
)
def test_every_character_is_in_exactly_one_word_of_a_kind(text: str, by_character: bool | None) -> None:
    words = split(text, by_character=by_character)
    assert_sound(words, text)
    assert not any(word.kind and word.spoken for word in words.words)
    assert not any(word.speaker for word in words.words if word.kind == SPEAKER)
    free = 0
    for passage in words.optional:
        assert free <= passage.first < passage.last <= len(words.words)
        free = passage.last


# Who speaks in subtitles: a label names its cue, and only where every turn has one those that follow.


def speakers(*cues: str) -> list[str]:
    """The speaker of the first spoken word of each cue, "-" for nobody."""
    source = "\n\n".join(f"{n}\n00:00:{n:02d},000 --> 00:00:{n:02d},900\n{cue}" for n, cue in enumerate(cues, 1))
    transcript = parse_subtitles(source, "a.srt")
    words = with_cues(split(transcript.text), transcript.subtitles)
    said = [word for word in words.words if word.spoken]
    firsts = [
        next(word for word in said if cue.char_start <= word.char_start < cue.char_end) for cue in words.subtitles.cues
    ]
    return [word.speaker or "-" for word in firsts]


@pytest.mark.parametrize(
    ("cues", "named"),
    [
        (("I heard that.", "ANNA: Hello.", "Who is there?", "It is cold."), "- ANNA - -"),
        (("Well.", "ANNA: I came", "home at last,", "you know.", "Did you?"), "- ANNA ANNA ANNA -"),
        (("Well.", "ANNA: I wait...", "...and wait.", "So."), "- ANNA ANNA -"),
        (("Well.", "ANNA: I came", "- Hello!", "So."), "- ANNA - -"),
        (("ANNA: Why?", "I ask.", "BEN: Because.", "It is so.", "ANNA: Oh."), "ANNA ANNA BEN BEN ANNA"),
        (("ANNA: Why?", "I ask.", "ANNA: And who?", "Me."), "ANNA - ANNA -"),
        (("So.", ">> ANNA: Why?", "I ask.", ">> Me.", "Yes."), "- ANNA ANNA - -"),
        (("ANNA: Why?", *["So."] * 41, "BEN: Oh."), "ANNA" + " -" * 41 + " BEN"),
        (("Well.", "ANNA: Is he here।", "He is", "not."), "- ANNA - -"),
        (("Well.", "ANNA: so", *["it goes on and on"] * 10), "- ANNA" + " ANNA" * 8 + " - -"),
    ],
)
def test_how_long_a_label_holds(cues: tuple[str, ...], named: str) -> None:
    assert speakers(*cues) == named.split()
