"""Transcripts of other programs are read with their times and speakers, each kind in two or more
layouts."""

from __future__ import annotations

from pathlib import Path

import pytest
from cue_lines import cue_lines
from rows import over_rows

from ctc_align.errors import TranscriptError, WrongFileError
from ctc_align.files.foreign_transcripts import KINDS
from ctc_align.files.json_transcripts import programs
from ctc_align.files.transcripts import parse_transcript, read_transcript_file
from ctc_align.text import split, with_cues

B = "\x15"


CHAT = f"""@UTF8
@Begin
@Languages:\tspa, eng
@Participants:\tCHI Lea Target_Child, MOT Rosa Mother
@ID:\tspa|x|CHI|2;06.||||Target_Child|||
*MOT:\t¿qué quieres , cielo ? {B}200_1400{B}
%mor:\tpro|qué verb|querer ?
*CHI:\t&-eh quiero (a)gua [//]
\tagua . {B}1500_2600{B}
%com:\tshe points *MOT: at it
*CHI:\tmás !
@End
"""
OLD_CHAT = f"""@Begin
@Participants:\tSUE Sue Adult
*SUE:\twell \x02\x01then\x02\x02 . {B}%snd:"talk"_0_900{B}
*SUE:\tone {B}1000_1500{B} two . {B}1500_2100{B}
@End"""
STM = """;; LABEL "o" "all" "everything"
talk 1 Ann 0.50 2.25 <o,f0,female> so { uh / @ } we begin
talk 1 inter_segment_gap 2.25 3.00
talk 1 Ben 2.3 2.4 IGNORE_TIME_SEGMENT_IN_SCORING
talk 1 excluded_region 2.4 2.5
talk 1 Ben 3.00 4.10 <o,f0,male> (%hm) yes
"""
RTTM = """;; words
SPKR-INFO talk 1 <NA> <NA> <NA> adult_female ann <NA> <NA>
SPEAKER talk 1 0.40 0.95 <NA> <NA> ann <NA> <NA>
LEXEME talk 1 0.40 0.30 good lex ann 0.98 <NA>
LEXEME talk 1 0.75 0.60 morning lex ann 0.91 <NA>
CB talk 1 1.35 <NA> <NA> clausal ann <NA>
NON-LEX talk 1 1.35 0.20 <NA> laugh ann <NA> <NA>
LEXEME talk 1 1.10 0.25 hi lex ben 0.90 <NA>
LEXEME talk 1 3.00 0.50 again lex ann 0.90 <NA>
"""
OLD_RTTM = """LEXEME talk 1 0.5 0.25 so lex <NA> <NA>
LEXEME talk 1 0.75 0.25 be fp <NA> <NA>"""
HTK_WORDS = "0 3000000 sil\n3000000 5500000 call -512.5\n5500000 9000000 me\n9000000 9500000 sp\n"
HTK_SOUNDS = """0 2500000 sil -1200.1 SENT-START
2500000 4000000 s-ao+l -300.5 all
4000000 5200000 ao-l+w -210.0
5200000 6800000 l-w+eh -190.2 well
6800000 9000000 w-eh+sil -80.0
9000000 9900000 sil -70.0 SENT-END
"""
MLF = '#!MLF!#\n"*/talk.lab"\n0 4000000 call\n4000000 8000000 me\n.\n'
PARTITUR = """LHD: Partitur 1.3
SAM: 16000
LBD:
KAN: 0 g'u:tn
KAN: 1 m'O6gn
ORT: 0 guten
ORT: 1 Morgen
MAU: 0 3200 -1 <p:>
MAU: 3200 1600 0 g
MAU: 4800 3200 0 u:
MAU: 8000 8000 1 m
"""
PARTITUR_TURNS = """LHD: Partitur 1.3
SAM: 10000
SPN: AAA
LBD:
ORT:\t0\tja
ORT:\t1\tgut
ORT:\t2\tnein
SPK:\t2\tBBB
TRN:\t1000\t4000\t0,1\t<A> ja, gut!
TRN:\t6000\t2000\t2\t
"""
WHISPER_TSV = 'start\tend\ttext\n500\t1500\t"Well," he said.\n2000\t3250\tNo.\n'
WHISPER_CSV = 'start,end,speaker,text\n500,1500,0," Well, yes."\n2000,3250,1," No."\n'
SBV = "0:00:00.500,0:00:01.500\nHello[br]there\n\n0:00:02.000,0:00:03.250\nANNA: you\n\nyou\n"
SBV_SHORT = "01:00.500,01:02.000\r\nHello\r\n"
TIMES = [
    ("CHAT", CHAT, ["0.2-1.4 MOT: ¿qué quieres , cielo ?", "1.5-2.6 CHI: &-eh quiero (a)gua [//] agua .",
                    "2.6-2.6 CHI: más !"]),
    ("CHAT, older", OLD_CHAT, ["0-0.9 SUE: well then .", "1-1.5 SUE: one", "1.5-2.1 SUE: two ."]),
    ("STM", STM, ["0.5-2.25 Ann: so (uh) we begin", "3-4.1 Ben: (%hm) yes"]),
    ("STM, alternatives", "talk 1 A 1 2 { @ / uh } {a / b} {i'm / {i am / i m}} { (uh) / um / @ }",
     ["1-2 A: (uh) a i'm (uh)"]),
    ("STM without labels", "talk A A 1 2.5 hello there\n", ["1-2.5 A: hello there"]),
    ("RTTM", RTTM, ["0.4-1.35 ann: good morning", "1.1-1.35 ben: hi", "3-3.5 ann: again"]),
    ("RTTM without speakers", OLD_RTTM, ["0.5-1 : so be"]),
    ("HTK", HTK_WORDS, ["0.3-0.9 : call me"]),
    ("HTK, sounds with words", HTK_SOUNDS, ["0.25-0.9 : all well"]),
    ("HTK, a line", "0 5000000 hello", ["0-0.5 : hello"]),
    ("MLF", MLF, ["0-0.8 : call me"]),
    ("MLF, others beside it", MLF + '"*/walk.lab"\n0 4000000 go\n.\n', ["0-0.8 : call me"]),
    ("Partitur", PARTITUR, ["0.2-1 : guten Morgen"]),
    ("Partitur, turns", PARTITUR_TURNS, ["0.1-0.5 AAA: ja, gut!", "0.6-0.8 BBB: nein"]),
    ("TSV", WHISPER_TSV, ['0.5-1.5 : "Well," he said.', "2-3.25 : No."]),
    ("CSV in seconds", "start,end,text\n0.5,1.5,Yes\n2,3,No", ["0.5-1.5 : Yes", "2-3 : No"]),
    ("CSV, blanks around it", "\n\nstart,end,text \n0.5,1.5,Yes\r", ["0.5-1.5 : Yes"]),
    ("simple lines", "0.5 1.5 So\n1.5  2.25 be it\n", ["0.5-1.5 : So", "1.5-2.25 : be it"]),
    ("CSV of whisper.cpp", WHISPER_CSV, ["0.5-1.5 0: Well, yes.", "2-3.25 1: No."]),
    ("SBV", SBV, ["0.5-1.5 : Hello\nthere", "2-3.25 : ANNA: you\nyou"]),
    ("SBV without hours", SBV_SHORT, ["60.5-62 : Hello"]),
]  # fmt: skip


@over_rows(("kind", "data", "lines"), TIMES)
def test_texts_are_read_with_times_and_speakers(kind: str, data: str, lines: list[str]) -> None:
    assert cue_lines(parse_transcript(data.encode(), "data/talk.txt")) == lines


TRS = """<?xml version="1.0" encoding="ISO-8859-1"?>
<!DOCTYPE Trans SYSTEM "trans-14.dtd">
<Trans scribe="x" audio_filename="talk" version="1" xml:lang="fra">
<Speakers><Speaker id="spk1" name="Zoé" type="female"/><Speaker id="spk2" name="Luc"/></Speakers>
<Episode><Section type="report" startTime="0" endTime="7.5">
<Turn startTime="0" endTime="1.5"><Sync time="0"/><Event desc="jingle"/></Turn>
<Turn speaker="spk1" startTime="1.5" endTime="4.25"><Sync time="1.5"/>
bonjour<Event desc="rire" type="noise"/> à tous
<Sync time="3"/>
ça va
</Turn>
<Turn speaker="spk1 spk2" startTime="4.25" endTime="7.5"><Sync time="4.25"/><Who nb="1"/>oui<Who nb="2"/>non
</Turn></Section></Episode></Trans>
"""
TRS_UTF8 = (
    '<Trans><Speakers/><Episode><Section><Turn speaker="A" startTime="0" endTime="2">'
    '<Sync time="0.5"/>so &amp; so</Turn></Section></Episode></Trans>'
)
SRV1 = """<?xml version="1.0" encoding="utf-8" ?><transcript>
<text start="0.5" dur="1.5">it&amp;#39;s so</text><text start="2">be it</text></transcript>"""
SRV3 = """<?xml version="1.0" encoding="utf-8" ?><timedtext format="3"><head><ws id="0"/></head><body>
<w t="0" id="1"/><p t="500" d="1500" w="1"><s>it</s><s t="300"> is</s></p><p t="1990" d="10" w="1" a="1">
</p><p t="2000" d="900">so<br/>be it</p></body></timedtext>"""
XML = [
    (TRS.encode("latin-1"), ["1.5-3 Zoé: bonjour à tous", "3-4.25 Zoé: ça va",
                             "4.25-7.5 Zoé: oui", "4.25-7.5 Luc: non"]),
    (TRS_UTF8.encode(), ["0.5-2 A: so & so"]),
    (SRV1.encode(), ["0.5-2 : it's so", "2-2 : be it"]),
    (SRV3.encode(), ["0.5-2 : it is", "2-2.9 : so\nbe it"]),
]  # fmt: skip


@over_rows(("data", "lines"), XML)
def test_xml_is_read_in_its_own_encoding(data: bytes, lines: list[str]) -> None:
    assert cue_lines(parse_transcript(data, "talk.xml")) == lines


def test_languages_and_speakers_reach_the_words(tmp_path: Path) -> None:
    chat = parse_transcript(CHAT.encode(), "talk.cha")
    assert chat.language == "spa"
    assert parse_transcript(TRS.encode("latin-1"), "talk.trs").language == "fra"
    path = tmp_path / "talk.cha"
    path.write_text(CHAT, encoding="utf-8")
    assert [read_transcript_file(path, "", code).language for code in ("", "it")] == ["spa", ""]
    words = with_cues(split(chat.text, language="es"), chat.subtitles).words
    assert [word.speaker for word in words if word.spoken][:4] == ["MOT"] * 3 + ["CHI"]


TEXTS = [
    # a label file of MFA, and words that begin with numbers
    ("call me ishmael\n", "call me ishmael\n"),
    ("3 5 apples\n", "3 5 apples\n"),
    ("1 2 3 4 5 6 7\n", "1 2 3 4 5 6 7\n"),
    ("100 500000 dollars\n", "100 500000 dollars\n"),
    ("2.5 1.5 miles\n0.5 1.5 more\n", "2.5 1.5 miles\n0.5 1.5 more\n"),
    ("@UTF8\n@Begin\n*CHI:\tmore .\n%mor:\tqn|more .\n@End\n", "*CHI: more ."),
    ('#!MLF!#\n"*/talk.lab"\ncall\nme\n.\n', "call me"),
    ("LHD: Partitur 1.3\nLBD:\nORT: 0 guten\nORT: 1 Tag\n", "guten Tag"),
]


@over_rows(("data", "text"), TEXTS)
def test_what_has_no_times_is_a_text(data: str, text: str) -> None:
    transcript = parse_transcript(data.encode(), "talk.lab")
    assert (transcript.text, transcript.subtitles) == (text, None)


REFUSED = [
    ("a 1 A 0 1 hello\nb 1 A 0 1 there\n", WrongFileError, "got those of 2 (a, b)"),
    ("SPEAKER talk 1 0 1 <NA> <NA> ann <NA> <NA>\n", TranscriptError, "RTTM that cannot be read: it has no words"),
    ("LHD: Partitur 1.3\nLBD:\nKAN: 0 a\n", TranscriptError, "it has no words (tiers TRN, TRO or ORT)"),
    ("start\tend\ttext\nsoon\t2\thello\n", TranscriptError, "'soon' is not a number"),
    ("<Trans><Turn>", TranscriptError, "XML that cannot be read: no element found"),
    ('<!DOCTYPE Trans [<!ENTITY a "b">]><Trans/>', TranscriptError, "it declares entities"),
]  # fmt: skip


@over_rows(("data", "error", "says"), REFUSED)
def test_what_cannot_be_read_is_named(data: str, error: type[Exception], says: str) -> None:
    with pytest.raises(error, match=r"^talk\.stm: ") as caught:
        parse_transcript(data.encode(), "talk.stm")
    assert says in str(caught.value)


def test_the_documentation_names_each_kind() -> None:
    page = Path(__file__).parents[2].joinpath("docs", "transcripts.md").read_text(encoding="utf-8")
    names = [*(kind.name for kind in KINDS), *programs()]
    assert [name for name in names if name not in page] == []
