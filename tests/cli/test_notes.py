"""What is told of words that are not in the recording and of speech that is not in the text, and `--max-skipped`."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
import typer
from corpus_runs import journal_line

from ctc_align.cli.notes import alignment_notes, leave, written_line
from ctc_align.corpus.state.journal import DONE, Journal, read_lines
from ctc_align.corpus.state.summary import Summary, summarize
from ctc_align.errors import InputError
from ctc_align.files import Alignment, from_dict
from ctc_align.types import ALIGNED, NOT_SPOKEN, SKIPPED, UNSPOKEN, AlignedWord, Region, SourceCue, Subtitles


def alignment_of(aligned: int, skipped: int, **changes) -> Alignment:
    """An alignment of words of one letter; the aligned ones come first, a dash last."""
    words = [AlignedWord("a", "a", 2 * i, 2 * i + 1, ALIGNED, float(i), i + 1.0, 0.9) for i in range(aligned)]
    words += [AlignedWord("b", "b", 2 * i, 2 * i + 1, SKIPPED) for i in range(aligned, aligned + skipped)]
    words.append(AlignedWord("—", "", 2 * len(words), 2 * len(words) + 1, UNSPOKEN))
    text = " ".join(word.text for word in words)
    fields = ("u", "u.wav", aligned + 1.0, "english", "cpu", 0.01, 1.0, -1.0, text, tuple(words))
    return replace(Alignment(*fields, fit="good"), **changes)


@pytest.mark.parametrize(
    ("aligned", "skipped", "unexplained", "told"),
    [
        (4335, 477, ((10.0, 120.0), (200.0, 310.2)), "477 of 4,812 words are not in the recording; 220 s of speech are "
         "not in the text (10.00–120.00 s, 200.00–310.20 s)"),
        (7, 1, (), "1 of 8 words is not in the recording (b)"),
        (7, 0, ((1.0, 4.25),), "3.2 s of speech are not in the text (1.00–4.25 s)"),
        (7, 0, tuple((10.0 * i, 10.0 * i + 2) for i in range(6)), "12 s of speech are not in the text"),
        (7, 0, (), None),
    ],
)  # fmt: skip
def test_both_sides_are_told_in_one_line(aligned, skipped, unexplained, told):
    region = Region(NOT_SPOKEN, None, None, 2 * aligned, 2 * (aligned + skipped), "not spoken")
    alignment = alignment_of(aligned, skipped, unexplained=unexplained, regions=(region,) if skipped else ())
    assert [note for note in alignment_notes(alignment) if "—" not in note] == ([told] if told else [])


@pytest.mark.parametrize(("limit", "too_many"), [(None, False), (100.0, False), (25.0, False), (24.9, True), (0, True)])
def test_the_limit_is_of_the_words_that_can_be_spoken(limit, too_many):
    config = {} if limit is None else {"max_skipped": limit}
    assert alignment_of(3, 1, config=config).too_many_skipped is too_many
    assert not alignment_of(3, 0, config=config).too_many_skipped


def test_the_exit_code_tells_that_more_is_missing(cli, here, fake_aligner, monkeypatch):
    align = fake_aligner.align
    monkeypatch.setattr(
        fake_aligner, "align", lambda self, *a, **b: replace(align(self, *a, **b), words=alignment_of(3, 1).words)
    )
    for limit, code in ((30, 0), (20, 3)):
        result = cli("talk.wav", "talk.txt", "--max-skipped", str(limit), "--force")
        assert (result.code, "note: 1 of 4 words is not in the recording (b)" in result.stderr) == (code, True)
        told = "ctc-align: --max-skipped 20 is exceeded: 1 of 4 words (25.0 %) are not in the recording"
        assert (told in result.stderr) is (code == 3)
    assert cli("talk.wav", "talk.txt", "--max-skipped", "20", "--force", "--quiet").stderr == f"{told}\n"


def test_a_corpus_says_which_limit_is_passed_beside_what_failed(capsys):
    both = Summary(failed=2, too_many_skipped=1, most_skipped=[{"utterance": "e02"}, {"utterance": "e04"}])
    for summary, code, end in (
        (both, 1, "; exit code 1 all the same: 2 failed"),
        (replace(both, failed=0), 3, ""),
    ):
        with pytest.raises(typer.Exit) as exit:
            leave(summary)
        assert exit.value.exit_code == code
        told = f"ctc-align: --max-skipped is exceeded: 1 utterance lacks more of its words (e02){end}\n"
        assert capsys.readouterr().err == told


def test_cues_that_are_not_in_the_recording_are_all_named():
    cues = tuple(SourceCue(2 * at, 2 * at + 1, 0.0, 1.0, str(at + 5)) for at in range(9))
    subtitles = Subtitles("srt", cues=cues)
    found = alignment_notes(alignment_of(1, 7, subtitles=subtitles))
    assert [note.partition(":")[0] for note in found if "cue" in note] == [
        "7 cues have no word in the recording (numbers 6–12)",
        "1 cue has no word to speak (number 13)",
    ]
    nothing = alignment_of(
        0, 8, subtitles=subtitles, fit="none", regions=(Region(NOT_SPOKEN, 0, 1, 0, 1, "not found"),)
    )
    assert len(alignment_notes(nothing)) == 1
    end = ": nothing of the text was found in the recording, and the times of its cues do not belong to this recording"
    assert written_line(nothing, [Path("e.srt")]) == f"wrote e.srt{end}"


def test_json_keeps_the_limit_and_refuses_one_that_is_none():
    data = alignment_of(3, 1, config={"max_skipped": 20.0}).to_dict()
    assert from_dict(data).too_many_skipped
    data["config"]["max_skipped"] = None
    with pytest.raises(InputError, match=r"config.max_skipped: expected percent from 0 to 100, got"):
        from_dict(data)


def test_the_summary_counts_names_and_ranks(tmp_path):
    lines = [
        journal_line("a", DONE, skipped=0, words=100),
        journal_line("b", DONE, skipped=5, words=10, too_many_skipped=True, unexplained_s=1.5),
        journal_line("c", DONE, skipped=20, words=100),
        journal_line("of a version without `words`", DONE, skipped=None),
    ]
    with Journal(tmp_path / "journal.jsonl") as journal:
        journal.append(lines)
    assert [line.result.too_many_skipped for line in read_lines(tmp_path / "journal.jsonl")] == [None, True, None, None]
    found = summarize([tmp_path / "journal.jsonl"])
    assert (found.skipped_words, found.words, found.too_many_skipped, found.unexplained_s) == (25, 210, 1, 1.5)
    assert [(row["utterance"], row["skipped_percent"]) for row in found.most_skipped] == [("b", 50.0), ("c", 20.0)]


def test_text_that_goes_on_earlier_in_the_recording_is_told() -> None:
    words = tuple(
        AlignedWord(text, text, 2 * at, 2 * at + 1, start_s=float(start_s), end_s=start_s + 0.5, confidence=1.0)
        for at, (text, start_s) in enumerate(zip("abcd", (5, 6, 1, 2)))
    )
    alignment = alignment_of(4, 0, words=words, text="a b c d")
    assert [note for note in alignment_notes(alignment) if "order" in note] == [
        "not read in the order of the text: the recording jumps back at c (1.00 s)"
    ]


def test_words_of_cues_that_name_nobody_are_told() -> None:
    cues = Subtitles("srt", cues=(SourceCue(0, 3, 0.0, 1.0), SourceCue(4, 7, 1.0, 2.0)))
    found = alignment_of(4, 0, subtitles=cues)
    assert not any("speaker" in note for note in alignment_notes(found))
    named = tuple(replace(word, speaker="Ann") if word.char_start < 4 else word for word in found.words)
    assert any(
        "2 words are in cues that name nobody and have no speaker" in note
        for note in alignment_notes(replace(found, words=named))
    )
