"""ELAN's files out, and ELAN files in: their own elements as they were, and words and phones behind their tiers."""

from __future__ import annotations

import itertools
import re
import xml.etree.ElementTree as ElementTree
from dataclasses import replace
from pathlib import Path

import pympi
import pytest
from hypothesis import given, settings
from rows import over_rows
from sample_alignments import aligned, conversation, make_alignment, swapped_alignments
from spoken_documents import spoken

from ctc_align.errors import InputError, TranscriptError
from ctc_align.files import Alignment, Style, from_dict, rendered
from ctc_align.files.transcripts import parse_transcript
from ctc_align.types import aligned_words

EAF = (Path(__file__).parent / "two_speakers.eaf").read_text("utf-8")


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


def by_pympi(path: Path) -> dict[str, list[tuple[float, float, str]]]:
    eaf = pympi.Elan.Eaf(str(path))
    return {
        name: [(start / 1000, end / 1000, value) for start, end, value, *_ in eaf.get_annotation_data_for_tier(name)]
        for name in eaf.get_tier_names()
    }


@settings(deadline=None)
@given(swapped_alignments())
def test_tiers_of_any_alignment(tmp_path_factory: pytest.TempPathFactory, alignment: Alignment) -> None:
    path = tmp_path_factory.mktemp("elan") / "a.eaf"
    path.write_bytes(rendered(alignment, "eaf", Style(labels="written", tiers="words,phones,sentences,speakers")))
    tiers = annotations(path.read_bytes())
    assert tiers == by_pympi(path)
    assert list(tiers) == ["words", alignment.token_kind, "sentences", "speakers"]
    assert len(tiers["words"]) == len(aligned_words(alignment))
    for rows in tiers.values():
        assert all(a[1] <= b[0] for a, b in itertools.pairwise(rows))
        assert all(row[0] < row[1] for row in rows)
    words = sorted(aligned_words(alignment), key=lambda word: word.start_s)
    for row, word in zip(tiers["words"], words, strict=True):
        assert row[2] == word.text
        assert row[0] == pytest.approx(word.start_s, abs=0.0011 * (1 + len(words)))


def test_phones_lie_within_words_and_speakers_have_tiers(tmp_path: Path) -> None:
    conversation().save(tmp_path / "a.eaf")
    tiers, eaf = by_pympi(tmp_path / "a.eaf"), pympi.Elan.Eaf(str(tmp_path / "a.eaf"))
    assert list(tiers) == ["Ann - words", "Ann - phones", "Bob - words", "Bob - phones", "speakers"]
    parameters = eaf.get_parameters_for_tier("Ann - phones")
    assert (parameters["PARENT_REF"], parameters["PARTICIPANT"]) == ("Ann - words", "Ann")
    kind = eaf.get_parameters_for_linguistic_type(parameters["LINGUISTIC_TYPE_REF"])
    assert (kind["CONSTRAINTS"], kind["TIME_ALIGNABLE"]) == ("Included_In", "true")
    assert [*eaf.constraints] == ["Included_In"]
    assert eaf.get_child_tiers_for("Bob - words") == ["Bob - phones"]
    for name in ("Ann", "Bob"):
        words, phones = tiers[f"{name} - words"], tiers[f"{name} - phones"]
        assert len(phones) == 2 * len(words)
        assert all(any(w[0] <= p[0] < p[1] <= w[1] for w in words) for p in phones)
    words = (aligned("a", 0.1, 0.101, 0, "abc"), aligned("b", 0.102, 0.2, 2, "d"))
    make_alignment(words).save(tmp_path / "b.eaf")
    eaf = pympi.Elan.Eaf(str(tmp_path / "b.eaf"))
    assert "PARENT_REF" not in eaf.get_parameters_for_tier("tokens")
    assert len(eaf.get_annotation_data_for_tier("tokens")) == 4


def test_speakers_signs_and_the_recording() -> None:
    words = (aligned("a<b>&\x07", 0.1, 0.2), replace(aligned("c", 0.3, 0.4, 8), speaker="Ann"))
    words = (replace(words[0], speaker="Ben & Co"), words[1])
    data = rendered(make_alignment(words, audio="sounds/my talk.wav"), "eaf", {"labels": "written"})
    tiers = [f"{name} - {kind}" for name in ("Ben & Co", "Ann") for kind in ("words", "tokens")]
    assert list(annotations(data)) == [*tiers, "speakers"]
    assert annotations(data)["speakers"] == [(0.1, 0.2, "Ben & Co"), (0.3, 0.4, "Ann")]
    assert annotations(data)["Ben & Co - words"] == [(0.1, 0.2, "a<b>&\ufffd")]
    assert b'MEDIA_URL="./sounds/my%20talk.wav" MIME_TYPE="audio/x-wav"' in data


def test_an_elan_file_comes_back_with_words_behind_its_tiers() -> None:
    alignment = spoken(EAF.encode(), name="talk.eaf")
    assert alignment.text == 'So be it.\nYes!\nHe said <"no" & left.'
    cues = alignment.subtitles.cues
    expected = [(0.0, 0.8, "tx@A"), (1.1, 1.4, "Ben"), (1.4, 3.5, "tx@A")]
    assert [(cue.start_s, cue.end_s, cue.name) for cue in cues] == expected
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
