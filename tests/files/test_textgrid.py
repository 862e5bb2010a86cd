"""TextGrids: read, written, and documents that come back with words and phones behind their
tiers."""

from __future__ import annotations

import dataclasses
import itertools
import re
import xml.etree.ElementTree as ElementTree
from dataclasses import replace
from pathlib import Path

import praatio.textgrid
import pympi
import pytest
import textgrid as textgrid_package
from hypothesis import given
from hypothesis import strategies as st
from made_alignments import textgrid
from rows import over_rows
from sample_alignments import aligned, conversation, make_alignment, swapped_alignments
from spoken_documents import spoken

from ctc_align.errors import InputError, TranscriptError
from ctc_align.evaluate.utterance_files import read_intervals
from ctc_align.files import Style, from_dict, rendered
from ctc_align.files.textgrid import parse_textgrid, read_textgrid
from ctc_align.files.tiers import sentence_tiers
from ctc_align.files.transcripts import parse_transcript
from ctc_align.types import AlignedWord, Alignment, Interval, Tier, aligned_words

DOCUMENT = (Path(__file__).parent / "points_and_words.TextGrid").read_text("utf-8")
LONG = (
    DOCUMENT.removeprefix("\ufeff")
    .replace("So be it.", 'say ""xmax = 3"" né')
    .replace("xmax = 1\n", "xmax = 1e0\n")
)
SHORT = (Path(__file__).parent / "short_format.TextGrid").read_text("utf-8")
END_S = 5.0000001234


@over_rows(
    ("text", "encoding", "newline"),
    [
        (text, encoding, "\r\n" if (number + len(text)) % 2 else "\n")
        for number, encoding in enumerate(
            ["utf-8", "utf-8-sig", "utf-16", "utf-16-le", "utf-16-be"]
        )
        for text in (LONG, SHORT)
    ],
)
def test_both_formats_in_every_encoding(tmp_path, text, encoding, newline):
    path = tmp_path / "a.TextGrid"
    path.write_bytes(text.replace("\n", newline).encode(encoding))
    grid = read_textgrid(path)
    assert (grid.start_s, grid.end_s) == (0.0, END_S)
    assert [tier.name for tier in grid.tiers] == ["Ann"]
    assert grid.tiers[0].intervals == (
        Interval(0.0, 1.0, 'say "xmax = 3" né'),
        Interval(1.0, END_S, ""),
    )
    path.write_text('"ooTextFile"\n"TextGrid"\n0\n1\n<absent>\n')
    assert read_textgrid(path).tiers == ()


@pytest.mark.parametrize(
    ("content", "says"),
    [
        (None, "No such file"),
        (b"", "got the end of the file"),
        (b'"Praat picture"', "expected the file type"),
        (b'"ooTextFile" "Sound 2"', "expected the object class"),
        (
            b'"ooTextFile"\n"TextGrid"\n0\nhello\n<exists>',
            r":5: .*expected a time in seconds, got <exists>",
        ),
        (LONG[: LONG.index("xmax = 1e0")].encode(), "got the end of the file"),
        (
            LONG.replace("size = 2\nitem", "size = 1.5\nitem").encode(),
            "expected the number of tiers, got 1.5",
        ),
        (LONG.replace("xmax = 1e0", "xmax = -1").encode(), "before its start"),
        (LONG.encode("latin-1"), "line 27: expected UTF-8, got byte 0xe9 .* Windows-1252"),
        (
            b"ooBinaryFile\x08TextGrid",
            "not a binary TextGrid that can be read, at byte .*: it ends too early",
        ),
    ],
)
def test_what_cannot_be_read(tmp_path, content, says):
    path = tmp_path / "a.TextGrid"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(InputError, match=says) as caught:
        read_textgrid(path)
    assert str(path) in str(caught.value)


def test_praats_binary_format() -> None:
    grid = read_textgrid(Path(__file__).parent / "binary.TextGrid")  # Praat 6.3 saved it
    assert (grid.start_s, grid.end_s) == (0.0, END_S)
    (tier,) = grid.tiers
    assert (tier.name, tier.number) == ("Ann", 2), "after a tier of points"
    assert tier.intervals == (Interval(0.0, 1.0, "né"), Interval(1.0, END_S, "ʃə 𝄞"))


Rows = list[tuple[float, float, str]]


def by_praatio(path: Path) -> dict[str, Rows]:
    grid = praatio.textgrid.openTextgrid(str(path), includeEmptyIntervals=True)
    return {tier.name: [(i.start, i.end, i.label) for i in tier.entries] for tier in grid.tiers}


def by_textgrid(path: Path) -> dict[str, Rows]:
    grid = textgrid_package.TextGrid.fromFile(str(path))
    return {tier.name: [(i.minTime, i.maxTime, i.mark) for i in tier] for tier in grid}


def by_own_reader(path: Path) -> dict[str, Rows]:
    return {
        tier.name: [(i.start_s, i.end_s, i.label) for i in tier.intervals]
        for tier in read_textgrid(path).tiers
    }


def tiers_of(alignment, style=None) -> dict[str, Rows]:
    tiers = parse_textgrid(rendered(alignment, "textgrid", style), "a.TextGrid").tiers
    return {tier.name: [(i.start_s, i.end_s, i.label) for i in tier.intervals] for tier in tiers}


def test_words_silences_and_the_tiers_of_several_speakers(talk, tmp_path):
    rows = [
        (0.0, 0.1, ""),
        (0.1, 0.4, "Hello"),
        (0.4, 0.7, "12"),
        (0.7, 0.75, ""),
        (0.75, 1.0, "שלום"),
    ]
    assert list(tiers_of(talk)) == ["words", "tokens"]
    assert tiers_of(talk)["words"] == rows
    late = tiers_of(dataclasses.replace(talk, offset_s=10.0), Style(times="recording"))["words"]
    assert (late[0], late[-1]) == ((0.0, 10.1, ""), (10.75, 11.0, "שלום"))
    nothing = make_alignment((AlignedWord("—", "", 0, 1, "unspoken"),), 1.5)
    assert tiers_of(nothing) == {"words": [(0.0, 1.5, "")], "tokens": [(0.0, 1.5, "")]}
    path = tmp_path / "a.TextGrid"
    names = ["", "", "Ann A.", "BOB"]
    words = tuple(dataclasses.replace(word, speaker=name) for word, name in zip(talk.words, names))
    dataclasses.replace(talk, words=words).save(path)
    tiers = by_own_reader(path)
    kinds = ("words", "tokens")
    assert list(tiers) == [
        f"{name} - {kind}" for name in ("unnamed", "Ann A.", "BOB") for kind in kinds
    ]
    labels = {name: [label for _, _, label in rows if label] for name, rows in tiers.items()}
    assert [labels[f"{name} - words"] for name in ("unnamed", "Ann A.", "BOB")] == [
        ["Hello"],
        ["12"],
        ["שלום"],
    ]
    assert labels["BOB - tokens"] == list("שלום")
    assert [row.label for row in read_intervals(path) if row.label] == ["Hello", "12", "שלום"]
    one = tuple(
        dataclasses.replace(word, speaker=name)
        for word, name in zip(talk.words, ["", "BOB", "BOB", "BOB"])
    )
    assert list(tiers_of(dataclasses.replace(talk, words=one))) == ["words", "tokens"]


@given(swapped_alignments(), st.sampled_from(["long", "short"]))
def test_other_parsers_read_the_same_times(tmp_path_factory, alignment, form):
    path = tmp_path_factory.mktemp("textgrid") / "a.TextGrid"
    style = Style(labels="written", tiers="words,phones,sentences,speakers", textgrid=form)
    path.write_bytes(rendered(alignment, "textgrid", style))
    own = by_own_reader(path)
    assert by_praatio(path) == own
    assert by_textgrid(path) == own
    assert list(own) == ["words", alignment.token_kind, "sentences", "speakers"]
    texts = " ".join(label for *_, label in own["sentences"])
    assert all(word.text in texts for word in aligned_words(alignment))
    for rows in own.values():
        assert rows[0][0] == 0
        assert rows[-1][1] == pytest.approx(alignment.duration_s, abs=1e-5)
        assert all(left[1] == right[0] for left, right in itertools.pairwise(rows)), (
            "no gaps, to the last digit"
        )
        assert all(start < end for start, end, _ in rows)
    spoken = [row for row in own["words"] if row[2]]
    assert len(spoken) == len(aligned_words(alignment))
    by_time = sorted(aligned_words(alignment), key=lambda word: word.start_s)
    for (start_s, end_s, label), word in zip(spoken, by_time):
        assert label == word.text
        assert start_s == pytest.approx(word.start_s, abs=1e-5)
        assert end_s == pytest.approx(word.end_s, abs=1e-5)
    word_edges = {edge for start_s, end_s, _ in spoken for edge in (start_s, end_s)}
    token_edges = {
        edge for start_s, end_s, _ in own[alignment.token_kind] for edge in (start_s, end_s)
    }
    assert word_edges <= token_edges, "both tiers have the same word edges"


@pytest.mark.parametrize("form", ["long", "short"])
def test_tiers_that_are_asked_for(form):
    tiers = tiers_of(conversation(), Style(tiers="speakers, Sentences,words", textgrid=form))
    kinds, names = ("sentences", "words"), ("Ann", "Bob")
    assert list(tiers) == ["speakers", *(f"{name} - {kind}" for name in names for kind in kinds)]
    shown = {name: [row for row in rows if row[2]] for name, rows in tiers.items()}
    assert [label for *_, label in shown["speakers"]] == ["Ann", "Bob"]
    sentences = [[label for *_, label in shown[f"{name} - sentences"]] for name in names]
    assert sentences == [["It is Dr. Brown.", "Is it?"], ["Yes, yes is!", "And so"]]
    (first, *_), words = shown["Bob - sentences"], shown["Bob - words"]
    assert first[:2] == (words[0][0], words[2][1])
    assert shown["speakers"][1][:2] == (words[0][0], words[-1][1])
    one = tiers_of(conversation(names=False), Style(tiers="phones,speakers", textgrid=form))
    assert list(one) == ["phones", "speakers"]
    assert one["speakers"] == [(0.0, conversation().duration_s, "")]
    assert sum(label != "" for *_, label in one["phones"]) == 2 * len(aligned_words(conversation()))


ANN = (("So be it.", 0.0, 1.0), ("", 1.0, 2.0), ('He said ""no"".', 2.0, 3.5), ("", 3.5, 5.0))
BEN = (("", 0.0, 0.8), ("Yes!", 0.8, 1.4), ("", 1.4, 5.0))
NOTES = (("noise", 0.0, 5.0),)


def labels(data: bytes) -> dict[str, list[str]]:
    tiers = parse_textgrid(data, "a.TextGrid").tiers
    return {tier.name: [row.label for row in tier.intervals if row.label] for tier in tiers}


def test_words_and_phones_of_each_speaker_come_behind_the_tiers_that_are_there(
    tmp_path: Path,
) -> None:
    path = textgrid(
        tmp_path / "a.TextGrid",
        ("Ann", ANN),
        (".clicks", ()),
        ("notes", NOTES),
        ("Ben", BEN),
        end_s=5.0,
    )
    alignment = spoken(path.read_bytes())
    assert alignment.text == 'So be it.\nYes!\nHe said "no".', "by time"
    assert [word.speaker for word in alignment.words] == ["Ann"] * 3 + ["Ben"] + ["Ann"] * 3
    data = rendered(alignment, "textgrid")
    assert data.startswith(path.read_bytes().replace(b"<exists>\n4\n", b"<exists>\n8\n"))
    names = ["Ann", "notes", "Ben", "Ann - words", "Ann - phones", "Ben - words", "Ben - phones"]
    assert list(labels(data)) == names
    assert labels(data)["Ann - words"] == ["So", "be", "it", "He", "said", "no"]
    assert labels(data)["Ben - words"] == ["Yes"]
    assert labels(data)["Ben - phones"] == ["X", "Y"]
    out = tmp_path / "out.TextGrid"
    out.write_bytes(data)
    read = praatio.textgrid.openTextgrid(str(out), includeEmptyIntervals=True)
    assert list(read.tierNames) == ["Ann", ".clicks", *names[1:]]
    assert read.maxTimestamp == 5.0
    assert rendered(from_dict(alignment.to_dict()), "textgrid") == data
    assert b"--> 00:00:01,000\nSo be it.\n\n2\n" in rendered(alignment, "srt").replace(
        b"00,900", b"01,000"
    )


def test_the_long_format_keeps_its_signs_and_its_length() -> None:
    """In the long format tiers are added in it, whatever looks like the number of tiers; line ends
    are its own."""
    for document in (DOCUMENT, DOCUMENT.replace("\n", "\r\n")):
        data = rendered(spoken(document.encode()), "textgrid").decode()
        kept = document.removeprefix("\ufeff").replace("size = 2", "size = 4", 1)
        assert data.startswith(kept)
        added = data.removeprefix(kept).splitlines()
        assert added[0] == "    item [3]:"
        assert added[2] == '        name = "Ann - words"'
        assert ("\r" in data) == ("\r" in document)
        assert re.findall(r"xmax = (\S+)", data)[-1] == "5.0000001234"
        (xmax, *_), tiers = (
            re.findall(r"xmax = (\S+)", data),
            parse_textgrid(data.encode(), "a").tiers,
        )
        assert all(tier.intervals[-1].end_s == float(xmax) for tier in tiers)
    wide = DOCUMENT.removeprefix("\ufeff").encode("utf-16")
    assert rendered(spoken(wide), "textgrid") == rendered(spoken(DOCUMENT.encode()), "textgrid")


def test_words_after_its_end_make_it_longer_and_names_stay_unique() -> None:
    document = DOCUMENT.replace("5.0000001234", "0.5").replace("size = 7", "Ann - words")
    document = document.replace("xmax = 1", "xmax = 0.4").replace("xmin = 1", "xmin = 0.4")
    data = rendered(spoken(document.encode(), 9.0), "textgrid")
    grid = parse_textgrid(data, "a.TextGrid")
    assert grid.end_s == pytest.approx(0.9)
    assert [tier.name for tier in grid.tiers] == ["Ann", "Ann - words 2", "Ann - phones"]
    assert [tier.intervals[-1].end_s for tier in grid.tiers] == [
        0.5,
        pytest.approx(0.9),
        pytest.approx(0.9),
    ]
    again = parse_transcript(data, "a.TextGrid")
    assert again.text == "So be it.", "tiers of words that are there already are no text"


def rows(*texts: str, shift_s: float = 0.0) -> tuple[tuple[float, float, str], ...]:
    return tuple((at + shift_s, at + shift_s + 0.5, text) for at, text in enumerate(texts))


SENTENCES = rows("So be it.", "Here we go again")
CASES = [
    (
        "a sentence tier and MFA's",
        {"Ann": SENTENCES, "Ann - words": rows("so"), "Ann - phones": rows("S")},
        ["Ann"],
    ),
    (
        "a translation",
        {"Ann": SENTENCES, "english": rows("Let it be so.", "Off we go again")},
        ["Ann"],
    ),
    (
        "somebody who says little",
        {"Ann": SENTENCES, "Ben": rows("Yes.", "No", shift_s=0.25)},
        ["Ann", "Ben"],
    ),
    ("notes", {"Ann": SENTENCES, "noise": rows("cough", shift_s=0.25)}, ["Ann"]),
    ("characters", {"汉": rows("今天天气很好"), "拼音": rows("jin")}, ["汉"]),
    ("single words", {"vowel": rows("a", "o"), "item": rows("cat", "dog")}, ["item"]),
    ("nothing but words", {"words": rows("so", "be"), "phones": rows("S")}, ["words"]),
    (
        "words",
        {"A - words": rows("so"), "phones": rows("SOW"), "B - words": rows("it")},
        ["A - words", "B - words"],
    ),
    ("nothing but sounds", {"phones": rows("S", "OW")}, []),
    ("no letters", {"Ann": rows("1", "2")}, []),
]


@over_rows(("case", "tiers", "chosen"), CASES)
def test_tiers_that_are_the_text(case: str, tiers: dict, chosen: list[str]) -> None:
    given = [Tier(name, tuple(Interval(*row) for row in labels)) for name, labels in tiers.items()]
    assert [tier.name for tier in sentence_tiers(given)] == chosen


@over_rows(
    ("document", "says"),
    [
        (
            DOCUMENT.replace("So be it.", "<sil>"),
            "talk.TextGrid: expected a tier with text between two times",
        ),
        (
            DOCUMENT[: DOCUMENT.index("So be it")],
            "talk.TextGrid:26: not a TextGrid that can be read: expected an int",
        ),
        (
            DOCUMENT.replace('"TextGrid"', '"Pitch 1"'),
            'expected the object class "TextGrid", got "Pitch 1"',
        ),
        (
            "ooBinaryFile\x08TextGrid",
            "talk.TextGrid: a binary TextGrid; save it in Praat with 'Save as text file'",
        ),
    ],
)
def test_a_textgrid_that_is_no_transcript_is_an_error(document: str, says: str) -> None:
    with pytest.raises(TranscriptError) as caught:
        parse_transcript(document.encode(), "talk.TextGrid")
    assert says in str(caught.value)


def test_a_document_in_json_that_is_none_is_refused() -> None:
    alignment = spoken(DOCUMENT.encode())
    broken = replace(alignment, subtitles=replace(alignment.subtitles, document="File type"))
    with pytest.raises(InputError, match=r"subtitles\.document:1: not a TextGrid"):
        from_dict(broken.to_dict())


# ELAN's files out, and ELAN files in: their own elements as they were, and words and phones behind
# their tiers.

EAF = (Path(__file__).parent / "two_speakers.eaf").read_text("utf-8")


def test_the_language_of_a_tier_is_that_of_its_words() -> None:
    ann, ben = 'PARENT_REF="ref@A" TIER_ID="tx@A"', 'TIER_ID="Ben"'
    both = EAF.replace(ann, f'{ann} LANG_REF="eng"').replace(ben, f'{ben} LANG_REF="deu"')
    transcript = parse_transcript(both.encode(), "a.eaf")
    spans = [
        (transcript.text[span.char_start : span.char_end], span.language)
        for span in transcript.languages
    ]
    assert spans == [("So be it.", "eng"), ("Yes!", "deu"), ('He said <"no" & left.', "eng")]
    same = EAF.replace(ann, f'{ann} LANG_REF="eng"').replace(ben, f'{ben} LANG_REF="eng"')
    assert parse_transcript(same.encode(), "a.eaf").languages == ()


def annotations(data: bytes) -> dict[str, list[tuple[float, float, str]]]:
    """Return the annotations with times of each tier, checked: ids unique, references found, slots
    ascending."""
    root = ElementTree.fromstring(data)
    assert root.tag == "ANNOTATION_DOCUMENT"
    slots = {slot.get("TIME_SLOT_ID"): slot.get("TIME_VALUE") for slot in root.iter("TIME_SLOT")}
    times = [int(time) for time in slots.values() if time is not None]
    assert times == sorted(times)
    ids = [each.get("ANNOTATION_ID") for each in root.iter() if each.get("ANNOTATION_ID")]
    assert len({*ids}) == len(ids)
    assert len(slots) == len(list(root.iter("TIME_SLOT")))
    parts = ("HEADER", "TIME_ORDER", "TIER", "LINGUISTIC_TYPE", "CONSTRAINT")
    order = [parts.index(child.tag) for child in root if child.tag in parts]
    assert order == sorted(order)
    types = {each.get("LINGUISTIC_TYPE_ID") for each in root.iter("LINGUISTIC_TYPE")}
    tiers = {}
    for tier in root.iter("TIER"):
        assert tier.get("LINGUISTIC_TYPE_REF") in types
        rows = []
        for each in tier.iter("ALIGNABLE_ANNOTATION"):
            edges = [slots[each.get(f"TIME_SLOT_REF{n}")] for n in (1, 2)]
            rows.append(
                (
                    *(float(edge or "nan") / 1000 for edge in edges),
                    each.findtext("ANNOTATION_VALUE"),
                )
            )
        tiers[tier.get("TIER_ID")] = rows
    return tiers


def by_pympi(path: Path) -> dict[str, list[tuple[float, float, str]]]:
    eaf = pympi.Elan.Eaf(str(path))
    return {
        name: [
            (start / 1000, end / 1000, value)
            for start, end, value, *_ in eaf.get_annotation_data_for_tier(name)
        ]
        for name in eaf.get_tier_names()
    }


@given(swapped_alignments())
def test_tiers_of_any_alignment(
    tmp_path_factory: pytest.TempPathFactory, alignment: Alignment
) -> None:
    path = tmp_path_factory.mktemp("elan") / "a.eaf"
    path.write_bytes(
        rendered(alignment, "eaf", Style(labels="written", tiers="words,phones,sentences,speakers"))
    )
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
    assert [row[2] for row in tiers["tx@A - words"]] == [
        "So",
        "be",
        "it",
        "He",
        "said",
        "no",
        "&",
        "left",
    ]
    assert [row[2] for row in tiers["Ben - phones"]] == ["X", "Y"]
    written = data.decode()
    assert f">{len(re.findall('ANNOTATION_ID=', written)) + 1}</PROPERTY>" in written, (
        "a7 was never used"
    )
    kept = re.sub(r'<TIME_SLOT TIME_SLOT_ID="ts[0-9]{2}"[^>]*/>\n {8}', "", written)
    start, end = (
        kept.index('<TIER LINGUISTIC_TYPE_REF="ctc-align"'),
        kept.index('TIME_ALIGNABLE="true"/>'),
    )
    kept = kept[:start] + kept[end + len('TIME_ALIGNABLE="true"/>\n    ') :]
    assert re.sub('lastUsedAnnotationId">[0-9]+', 'lastUsedAnnotationId">7', kept) == EAF
    assert rendered(from_dict(alignment.to_dict()), "eaf") == data
    assert rendered(
        spoken(EAF.replace("\n", "\r\n").encode(), name="a.eaf"), "eaf"
    ) == data.replace(b"\n", b"\r\n")
    again = rendered(spoken(data, name="talk.eaf"), "eaf")
    assert list(annotations(again))[-4:] == [f"{name} 2" for name in list(tiers)[-4:]]


BOMB = '<!DOCTYPE a [<!ENTITY b "bbbb"><!ENTITY c "&b;&b;&b;">]>\n'


@over_rows(
    ("document", "says"),
    [
        (
            EAF[: EAF.index(">001<") + 6],
            "talk.eaf:19: not an ELAN file that can be read: unclosed token",
        ),
        (
            EAF.replace("<ANNOTATION_DOCUMENT", BOMB + "<ANNOTATION_DOCUMENT", 1),
            "talk.eaf:3: not an ELAN file",
        ),
        (
            EAF.replace('"800"', '"soon"'),
            "talk.eaf:11: not an ELAN file that can be read: expected a TIME_VALUE in",
        ),
        (
            EAF.replace('"milliseconds"', '"PAL-frames"'),
            "expected times in milliseconds, got PAL-frames",
        ),
        (
            "<ANNOTATION_DOCUMENT></ANNOTATION_DOCUMENT>",
            "expected TIME_ORDER and TIER, got neither",
        ),
        (re.sub("_VALUE>[^<]*", "_VALUE>", EAF), "expected a tier with text between two times"),
    ],
)
def test_an_elan_file_that_is_no_transcript_is_an_error(document: str, says: str) -> None:
    with pytest.raises((TranscriptError, InputError)) as caught:
        parse_transcript(document.encode(), "talk.eaf")
    assert says in str(caught.value)
