"""What is read of which file, and which files meet."""

from __future__ import annotations

import gzip
import json

import pytest
from made_alignments import CTM, WORDS, alignment, put, textgrid

from ctc_align.errors import InputError
from ctc_align.evaluate import Options, evaluate, read_intervals
from ctc_align.files import OutputFiles, to_dict
from ctc_align.types import Interval


def test_ctm_as_hypothesis_and_as_reference(tmp_path):
    OutputFiles(tmp_path / "ours", "a").write(alignment(shift_s=0.01))
    OutputFiles(tmp_path / "theirs", "a").write(alignment())
    for ours in ("a.json", "a.ctm", "a.TextGrid"):
        for theirs in ("a.json", "a.ctm", "a.TextGrid"):
            found = evaluate(tmp_path / "ours" / ours, tmp_path / "theirs" / theirs)
            assert (found.paired, found.mismatched, found.both.mae_ms) == (3, 0, 10.0), (ours, theirs)
    for ours in ("a.json", "a.tokens.ctm", "a.TextGrid"):
        for theirs in ("a.json", "a.tokens.ctm", "a.TextGrid"):
            found = evaluate(tmp_path / "ours" / ours, tmp_path / "theirs" / theirs, "phones")
            assert (found.paired, found.mismatched, found.both.mae_ms) == (6, 0, 10.0), (ours, theirs)


@pytest.mark.parametrize(
    ("content", "rows"),
    [
        ("a 1 0.1 0.2 x\na 1 0.3 0.4 y\n", [Interval(0.1, 0.3, "x"), Interval(0.3, 0.7, "y")]),  # no rounding between
        ("a 1 0.5 0.1 y\na 1 0.1 0.2 x\n", [Interval(0.1, 0.3, "x"), Interval(0.5, 0.6, "y")]),  # out of order
    ],
)
def test_rows_of_ctm_ascend_and_touch(tmp_path, content, rows):
    assert read_intervals(put(tmp_path / "a.ctm", content)) == rows


def test_ctm_with_many_utterances_against_a_folder_and_against_ctm(tmp_path):
    names = ("s1/a", "s1/b", "s2/c")
    many = put(
        tmp_path / "all.ctm", ";; a comment\n" + "".join(CTM.format(*[name] * 3).replace("{}", name) for name in names)
    )
    for name in names:
        textgrid(tmp_path / "theirs" / f"{name}.TextGrid", ("words", WORDS))
    found = evaluate(many, tmp_path / "theirs")
    assert (found.paired, found.complete, [u.utterance for u in found.utterances]) == (9, True, list(names))
    assert evaluate(many, many).paired == 9
    assert evaluate(tmp_path / "theirs", many).paired == 9
    few = put(tmp_path / "few.ctm", CTM.replace("{}", "s1/a"))
    found = evaluate(few, many)
    assert (found.paired, found.missing_files) == (3, ("s1/b", "s2/c"))
    assert evaluate(tmp_path / "theirs" / "s2" / "c.TextGrid", many).missing_files == ("s1/a", "s1/b")


def test_channels_are_told_apart(tmp_path):
    path = put(tmp_path / "a.ctm", "a A 0.1 0.2 x\na B 0.15 0.2 y\nb 1 0 1 z\n")
    assert [u.utterance for u in evaluate(path, path).utterances] == ["a:A", "a:B", "b"]


@pytest.mark.parametrize(
    ("line", "says"),
    [
        ("a 1 0.1 0.2", ":2: expected '<utterance> <channel> <start> <duration> <label>', got: a 1 0.1 0.2"),
        ("a 1 soon 0.2 x", ":2: expected '<utterance>"),
        ("a 1 0.1 -0.2 x", ":2: expected a start and a duration in seconds, got 0.1 -0.2"),
        ("a 1 nan 0.2 x", ":2: expected a start and a duration"),
    ],
)
def test_ctm_that_cannot_be_read(tmp_path, line, says):
    path = put(tmp_path / "a.ctm", f"a 1 0 0.1 x\n{line}\n")
    with pytest.raises(InputError, match=r"a\.ctm") as error:
        read_intervals(path)
    assert says in str(error.value)
    with pytest.raises(InputError, match="got an empty file"):
        read_intervals(put(tmp_path / "b.ctm", ";; nothing\n"))


def test_folders_of_ctm(tmp_path):
    for side, shift_s in (("ours", 0.01), ("theirs", 0.0)):
        for name in ("x", "y"):
            OutputFiles(tmp_path / side / "deep", name, ("ctm",)).write(alignment(name, shift_s))
    for tier, paired in (("words", 6), ("phones", 12)):
        found = evaluate(tmp_path / "ours", tmp_path / "theirs", tier)
        assert (found.paired, found.complete, found.extra_files) == (paired, True, ())


def test_json_comes_before_textgrid_and_that_before_ctm(tmp_path):
    for shift_s, format in ((0.03, "ctm"), (0.02, "textgrid"), (0.01, "json")):
        OutputFiles(tmp_path / "ours", "x", (format,)).write(alignment("x", shift_s))
        OutputFiles(tmp_path / "theirs", "x", ("textgrid",), force=True).write(alignment("x"))
        assert evaluate(tmp_path / "ours", tmp_path / "theirs").both.mae_ms == pytest.approx(1000 * shift_s)


def test_shards(tmp_path):
    lines = [json.dumps(to_dict(alignment(name, 0.01))) for name in ("s/x", "s/y")]
    shards = tmp_path / "ours"
    shards.mkdir()
    for i, line in enumerate(lines):
        with gzip.open(shards / f"alignments-0000{i}.jsonl.gz", "wt", encoding="utf-8") as file:
            file.write(line + "\n")
    put(shards / "journal.jsonl", '{"id": "s/x"}\n')
    put(shards / "summary.json", "{}")
    for name in ("x", "y"):
        textgrid(tmp_path / "theirs" / "s" / f"{name}.TextGrid", ("words", WORDS))
    found = evaluate(shards, tmp_path / "theirs")
    assert (found.paired, found.both.mae_ms, found.complete, found.extra_files) == (6, 10.0, True, ())
    assert evaluate(shards / "alignments-00000.jsonl.gz", tmp_path / "theirs").missing_files == ("s/y",)


@pytest.mark.parametrize(
    ("content", "says"),
    [
        (b"no gzip", "not whole gzip data"),
        (gzip.compress(b"{}\n", mtime=0), ':1: expected an alignment of format "ctc-align/1", got other JSON'),
        (gzip.compress(b"{\n", mtime=0), ":1: not JSON"),
        (
            gzip.compress(b'{"format": "ctc-align/1", "utterance": "a"}\n', mtime=0),
            ":1: expected words and tokens with times in seconds: words is missing",
        ),
        (gzip.compress(b"x" * 1000, mtime=0)[:-12], "not whole gzip data"),
    ],
)
def test_shards_that_cannot_be_read(tmp_path, content, says):
    (tmp_path / "ours").mkdir()
    (tmp_path / "ours" / "alignments-00000.jsonl.gz").write_bytes(content)
    textgrid(tmp_path / "theirs" / "x.TextGrid", ("words", WORDS))
    found = evaluate(tmp_path / "ours", tmp_path / "theirs")
    assert not found.complete
    assert says in found.failures[0][1]
    assert found.missing_files == ("x",)


def test_an_utterance_twice(tmp_path):
    line = json.dumps(to_dict(alignment("x")))
    path = put(tmp_path / "a.jsonl", f"{line}\n\n{line}\n")
    with pytest.raises(InputError, match=r"a.jsonl:3: .* got 'x' again"):
        evaluate(path, path)


def test_tiers_by_name_and_by_number(tmp_path):
    others = tuple((label + "x", start, end) for label, start, end in WORDS)
    grid = textgrid(tmp_path / "a.TextGrid", (".points", ()), ("Notes", others), ("Wörter", WORDS))
    ours = textgrid(tmp_path / "b.TextGrid", ("words", WORDS))
    for name in ("Wörter", "wörter ", "3"):
        found = evaluate(ours, grid, options=Options(reference_tier=name))
        assert (found.paired, found.mismatched) == (3, 0)
        assert evaluate(grid, ours, options=Options(hypothesis_tier=name)).mismatched == 0
    assert evaluate(ours, grid, options=Options(reference_tier="2")).mismatched == 3
    with pytest.raises(InputError, match=r"a\.TextGrid: expected an interval tier named words.*got: 2 Notes, 3 Wörter"):
        evaluate(ours, grid)
    for name in ("Worte", "1", "4"):
        with pytest.raises(InputError, match=f"expected an interval tier named '{name}', got: 2 Notes, 3 Wörter"):
            evaluate(ours, grid, options=Options(reference_tier=name))


def test_a_tier_whose_name_is_a_number(tmp_path):
    grid = textgrid(tmp_path / "a.TextGrid", ("2", WORDS), ("words", ()))
    assert len(read_intervals(grid, "words", "2")) == 3


def test_speakers(tmp_path):
    late = tuple((label, start + 0.05, end + 0.05) for label, start, end in WORDS)
    both = textgrid(tmp_path / "a.TextGrid", ("Ann - words", WORDS), ("Ann - phones", ()), ("Bob - words", late))
    same = textgrid(tmp_path / "b.TextGrid", ("bob - words", late), ("ann - words", WORDS))
    found = evaluate(both, same)
    assert [(u.utterance, u.mae_ms) for u in found.utterances] == [("b (ann)", 0.0), ("b (bob)", 0.0)]
    alone = textgrid(tmp_path / "c.TextGrid", ("words", tuple(sorted(WORDS + late, key=lambda row: row[1]))))
    found = evaluate(both, alone)
    assert (found.paired, found.both.mae_ms) == (6, 0.0)


def test_labels_that_only_look_like_stress_marks(tmp_path):
    """SAMPA writes vowels as digits: they must not be taken for silence."""
    phones = (("6", 0.1, 0.2), ("2:", 0.2, 0.3), ("AH0", 0.3, 0.4), ("9", 0.5, 0.6))
    grid = textgrid(tmp_path / "a.TextGrid", ("phones", phones))
    found = evaluate(grid, grid, "phones")
    assert (found.paired, found.mismatched) == (4, 0)


def test_names_that_meet_by_their_ends_take_no_time(tmp_path):
    """Flat names against nested ones, thousands of them."""
    import time

    from ctc_align.evaluate.utterance_files import AlignmentSource, matched

    def never():
        raise AssertionError

    ours, theirs = AlignmentSource(tmp_path), AlignmentSource(tmp_path)
    ours.utterances = {f"u{i}": never for i in range(20000)}
    theirs.utterances = {f"s{i % 7}/u{i}": never for i in range(20000)}
    began_s = time.process_time()
    assert len(matched(ours, theirs).triples) == 20000
    assert time.process_time() - began_s < 5.0


def test_json_that_is_no_alignment_with_times(tmp_path):
    data = to_dict(alignment())
    del data["version"]  # so that nobody takes it for what ctc-align wrote
    for start_s, end_s, says in ((1e999, 2.0, r"words\[0\].start_s"), (0.5, 0.1, "'one' starts")):
        data["words"][0].update(start_s=start_s, end_s=end_s)
        path = put(tmp_path / "a.json", json.dumps(data).replace("Infinity", "1e999"))
        with pytest.raises(InputError, match=rf"a.json: expected words and tokens with times in seconds: {says}"):
            read_intervals(path)
    for content in ('{"format": "ctc-align/1"}', '{"format": "ctc-align/1", "words": [{}]}', '{"words": []}', "3"):
        with pytest.raises(InputError, match=r"a\.json: "):
            read_intervals(put(tmp_path / "a.json", content))


def test_labels_of_timit(tmp_path):
    """Samples at 16 kHz, words and phones in files of their own, in whatever case."""
    put(tmp_path / "theirs" / "dr1" / "A.WRD", "1600 6400 one\n6400 12000 two\n14400 20800 three\n")
    put(tmp_path / "theirs" / "dr1" / "A.PHN", "0 1600 h#\n1600 3200 o\n3200 6400 e\n")
    put(tmp_path / "theirs" / "dr1" / "A.TXT", "0 32000 one two three\n")
    OutputFiles(tmp_path / "ours" / "dr1", "A").write(alignment("A", 0.01))
    for tier, paired in (("words", 3), ("phones", 2)):
        found = evaluate(tmp_path / "ours", tmp_path / "theirs", tier)
        assert (found.paired, found.both.mae_ms, found.complete) == (paired, 10.0, True), tier
    grid = textgrid(tmp_path / "A.TextGrid", ("words", WORDS))
    assert evaluate(grid, tmp_path / "theirs" / "dr1" / "A.WRD").both.mae_ms == 0.0
    with pytest.raises(InputError, match=r"A\.PHN: holds phones, by its name, and no words; give --tier phones"):
        evaluate(grid, tmp_path / "theirs" / "dr1" / "A.PHN")
    with pytest.raises(InputError, match=r"b\.wrd:1: expected '<first sample> <end> <label>', got: 0\.1 0\.2 one"):
        read_intervals(put(tmp_path / "b.wrd", "0.1 0.2 one\n"))
    with pytest.raises(InputError, match=r"c\.wrd:1: expected '<first sample> <end> <label>'"):
        read_intervals(put(tmp_path / "c.wrd", f"0 {'9' * 5000} one\n"))
