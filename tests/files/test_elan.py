"""ELAN's files out, and ELAN files in: their own elements as they were, and words and phones behind their tiers."""

from __future__ import annotations

import itertools
import re
import xml.etree.ElementTree as ElementTree
from dataclasses import replace

import pytest
from hypothesis import given
from rows import over_rows
from sample_alignments import aligned, make_alignment, random_alignments
from spoken_documents import spoken

from ctc_align.errors import InputError, TranscriptError
from ctc_align.files import Alignment, from_dict, rendered
from ctc_align.files.transcripts import parse_transcript
from ctc_align.types import aligned_words

EAF = """<?xml version="1.0" encoding="UTF-8"?>
<!-- kept: <TIER> -->
<ANNOTATION_DOCUMENT AUTHOR="me" DATE="2020-01-01T00:00:00+00:00" FORMAT="3.0" VERSION="3.0"
    xmlns:xsi="http://www.w3.org/2001/XMLSchema-instance"
    xsi:noNamespaceSchemaLocation="http://www.mpi.nl/tools/elan/EAFv3.0.xsd">
    <HEADER MEDIA_FILE="" TIME_UNITS="milliseconds">
        <PROPERTY NAME="lastUsedAnnotationId">7</PROPERTY>
    </HEADER>
    <TIME_ORDER>
        <TIME_SLOT TIME_SLOT_ID="ts1" TIME_VALUE="0"/>
        <TIME_SLOT TIME_SLOT_ID="ts2" TIME_VALUE="800"/>
        <TIME_SLOT TIME_SLOT_ID="ts3"/>
        <TIME_SLOT TIME_SLOT_ID="ts4" TIME_VALUE="1400"/>
        <TIME_SLOT TIME_SLOT_ID="ts9" TIME_VALUE="3500"/>
    </TIME_ORDER>
    <TIER LINGUISTIC_TYPE_REF="ref" TIER_ID="ref@A" PARTICIPANT="Ann"  >
        <ANNOTATION>
            <ALIGNABLE_ANNOTATION ANNOTATION_ID="a1" TIME_SLOT_REF1="ts1" TIME_SLOT_REF2="ts2">
                <ANNOTATION_VALUE>001</ANNOTATION_VALUE>
            </ALIGNABLE_ANNOTATION>
        </ANNOTATION>
        <ANNOTATION>
            <ALIGNABLE_ANNOTATION ANNOTATION_ID="a2" TIME_SLOT_REF1="ts4" TIME_SLOT_REF2="ts9">
                <ANNOTATION_VALUE>002</ANNOTATION_VALUE>
            </ALIGNABLE_ANNOTATION>
        </ANNOTATION>
    </TIER>
    <TIER LINGUISTIC_TYPE_REF="tx" PARENT_REF="tx@A" TIER_ID="ft@A" PARTICIPANT="Ann">
        <ANNOTATION><REF_ANNOTATION ANNOTATION_ID="a6" ANNOTATION_REF="a4">
            <ANNOTATION_VALUE>Ainsi soit-il, &#233;crit-on.</ANNOTATION_VALUE></REF_ANNOTATION></ANNOTATION>
    </TIER>
    <TIER LINGUISTIC_TYPE_REF="tx" PARENT_REF="ref@A" TIER_ID="tx@A" PARTICIPANT="Ann">
        <ANNOTATION><REF_ANNOTATION ANNOTATION_ID="a3" ANNOTATION_REF="a1">
            <ANNOTATION_VALUE>So be it.</ANNOTATION_VALUE></REF_ANNOTATION></ANNOTATION>
        <ANNOTATION><REF_ANNOTATION ANNOTATION_ID="a4" ANNOTATION_REF="a2">
            <ANNOTATION_VALUE>He said &lt;&quot;no&quot; &amp; left.</ANNOTATION_VALUE></REF_ANNOTATION></ANNOTATION>
    </TIER>
    <TIER LINGUISTIC_TYPE_REF="ref" TIER_ID="Ben">
        <ANNOTATION>
            <ALIGNABLE_ANNOTATION ANNOTATION_ID="a5" TIME_SLOT_REF1="ts3" TIME_SLOT_REF2="ts4">
                <ANNOTATION_VALUE>Yes!</ANNOTATION_VALUE>
            </ALIGNABLE_ANNOTATION>
        </ANNOTATION>
    </TIER>
    <LINGUISTIC_TYPE GRAPHIC_REFERENCES="false" LINGUISTIC_TYPE_ID="ref" TIME_ALIGNABLE="true"/>
    <LINGUISTIC_TYPE LINGUISTIC_TYPE_ID="tx" TIME_ALIGNABLE="false" CONSTRAINTS="Symbolic_Association"/>
    <CONSTRAINT STEREOTYPE="Symbolic_Association" DESCRIPTION="1-1 association"/>
</ANNOTATION_DOCUMENT>
"""


def annotations(data: bytes) -> dict[str, list[tuple[float, float, str]]]:
    """Return the annotations with times of each tier, checked: ids unique, references found, slots ascending."""
    root = ElementTree.fromstring(data)
    assert root.tag == "ANNOTATION_DOCUMENT"
    slots = {slot.get("TIME_SLOT_ID"): slot.get("TIME_VALUE") for slot in root.iter("TIME_SLOT")}
    times = [int(time) for time in slots.values() if time is not None]
    assert times == sorted(times)
    ids = [each.get("ANNOTATION_ID") for each in root.iter() if each.get("ANNOTATION_ID")]
    assert len({*ids}) == len(ids)
    assert len(slots) == len(list(root.iter("TIME_SLOT")))
    order = [
        child.tag for child in root if child.tag in ("HEADER", "TIME_ORDER", "TIER", "LINGUISTIC_TYPE", "CONSTRAINT")
    ]
    assert order == sorted(order, key=("HEADER", "TIME_ORDER", "TIER", "LINGUISTIC_TYPE", "CONSTRAINT").index)
    types = {each.get("LINGUISTIC_TYPE_ID") for each in root.iter("LINGUISTIC_TYPE")}
    tiers = {}
    for tier in root.iter("TIER"):
        assert tier.get("LINGUISTIC_TYPE_REF") in types
        rows = []
        for each in tier.iter("ALIGNABLE_ANNOTATION"):
            edges = [slots[each.get(f"TIME_SLOT_REF{n}")] for n in (1, 2)]
            rows.append((*(float(edge or "nan") / 1000 for edge in edges), each.findtext("ANNOTATION_VALUE")))
        tiers[tier.get("TIER_ID")] = rows
    return tiers


@given(random_alignments())
def test_tiers_of_words_and_tokens(alignment: Alignment) -> None:
    tiers = annotations(rendered(alignment, "eaf", None))
    assert list(tiers) == ["words", alignment.token_kind]
    assert len(tiers["words"]) == len(aligned_words(alignment))
    for rows in tiers.values():
        assert all(a[1] <= b[0] for a, b in itertools.pairwise(rows))
        assert all(row[0] < row[1] for row in rows)
    for row, word in zip(tiers["words"], aligned_words(alignment)):
        assert row[0] == pytest.approx(word.start_s, abs=0.0011 * (1 + len(tiers["words"])))


def test_speakers_signs_and_the_recording() -> None:
    words = (aligned("a<b>&\x07", 0.1, 0.2), replace(aligned("c", 0.3, 0.4, 8), speaker="Ann"))
    words = (replace(words[0], speaker="Ben & Co"), words[1])
    data = rendered(make_alignment(words, audio="sounds/my talk.wav"), "eaf", {"labels": "written"})
    assert list(annotations(data)) == [
        "Ben & Co - words",
        "Ben & Co - tokens",
        "Ann - words",
        "Ann - tokens",
        "speakers",
    ]
    assert annotations(data)["speakers"] == [(0.1, 0.2, "Ben & Co"), (0.3, 0.4, "Ann")]
    assert annotations(data)["Ben & Co - words"] == [(0.1, 0.2, "a<b>&\ufffd")]
    assert b'MEDIA_URL="./sounds/my%20talk.wav" MIME_TYPE="audio/x-wav"' in data


def test_an_elan_file_comes_back_with_words_behind_its_tiers() -> None:
    alignment = spoken(EAF.encode(), name="talk.eaf")
    assert alignment.text == 'So be it.\nYes!\nHe said <"no" & left.'
    cues = alignment.subtitles.cues
    assert [(cue.start_s, cue.end_s, cue.name) for cue in cues] == [
        (0.0, 0.8, "tx@A"),
        (1.1, 1.4, "Ben"),
        (1.4, 3.5, "tx@A"),
    ]
    assert [cue.speaker for cue in cues] == ["Ann", "Ben", "Ann"]
    data = rendered(alignment, "eaf")
    tiers = annotations(data)
    assert list(tiers)[-4:] == ["tx@A - words", "tx@A - phones", "Ben - words", "Ben - phones"]
    assert [row[2] for row in tiers["tx@A - words"]] == ["So", "be", "it", "He", "said", "no", "&", "left"]
    assert [row[2] for row in tiers["Ben - phones"]] == ["X", "Y"]
    written = data.decode()
    assert f">{len(re.findall('ANNOTATION_ID=', written)) + 1}</PROPERTY>" in written, "a7 was never used"
    kept = re.sub(r'<TIME_SLOT TIME_SLOT_ID="ts[0-9]{2}"[^>]*/>\n {8}', "", written)
    start, end = kept.index('<TIER LINGUISTIC_TYPE_REF="ctc-align"'), kept.index('TIME_ALIGNABLE="true"/>')
    kept = kept[:start] + kept[end + len('TIME_ALIGNABLE="true"/>\n    ') :]
    assert re.sub('lastUsedAnnotationId">[0-9]+', 'lastUsedAnnotationId">7', kept) == EAF
    assert rendered(from_dict(alignment.to_dict()), "eaf") == data
    assert rendered(spoken(EAF.replace("\n", "\r\n").encode(), name="a.eaf"), "eaf") == data.replace(b"\n", b"\r\n")
    again = rendered(spoken(data, name="talk.eaf"), "eaf")
    assert list(annotations(again))[-4:] == [f"{name} 2" for name in list(tiers)[-4:]]


BOMB = '<!DOCTYPE a [<!ENTITY b "bbbb"><!ENTITY c "&b;&b;&b;">]>\n'


@over_rows(
    ("document", "says"),
    [
        (EAF[: EAF.index(">001<") + 6], "talk.eaf:19: not an ELAN file that can be read: unclosed token"),
        (EAF.replace("<ANNOTATION_DOCUMENT", BOMB + "<ANNOTATION_DOCUMENT", 1), "talk.eaf:3: not an ELAN file"),
        (EAF.replace('"800"', '"soon"'), "talk.eaf:11: not an ELAN file that can be read: expected a TIME_VALUE in"),
        (EAF.replace('"milliseconds"', '"PAL-frames"'), "expected times in milliseconds, got PAL-frames"),
        ("<ANNOTATION_DOCUMENT></ANNOTATION_DOCUMENT>", "expected TIME_ORDER and TIER, got neither"),
        (re.sub("_VALUE>[^<]*", "_VALUE>", EAF), "expected a tier with text between two times"),
    ],
)
def test_an_elan_file_that_is_no_transcript_is_an_error(document: str, says: str) -> None:
    with pytest.raises((TranscriptError, InputError)) as caught:
        parse_transcript(document.encode(), "talk.eaf")
    assert says in str(caught.value)
