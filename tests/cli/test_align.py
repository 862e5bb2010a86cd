"""ctc-align align, up to the aligner's door: what reaches it, what is written, what is refused."""

from __future__ import annotations

import json
import os
import re
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import soundfile
import typer
from made_books import write_epub

from ctc_align.alignment.fit import regions_of
from ctc_align.cli import run
from ctc_align.cli.notes import alignment_notes, leave, written_line
from ctc_align.cli.tables import fit_line
from ctc_align.corpus.state.summary import Summary
from ctc_align.errors import BackendError, InputError, TooShortError
from ctc_align.files import from_dict
from ctc_align.types import (
    ALIGNED,
    NOT_SPOKEN,
    SKIPPED,
    UNSPOKEN,
    AlignedWord,
    Alignment,
    Region,
    SourceCue,
    Subtitles,
)

FILES = ["talk.TextGrid", "talk.ctm", "talk.json", "talk.tokens.ctm", "talk.txt", "talk.wav"]


@pytest.fixture(autouse=True)
def _with_fake(fake_aligner, here):
    """All tests of this file run beside talk.wav and talk.txt with the fake aligner."""


def listed() -> list[str]:
    return sorted(os.listdir())


@pytest.mark.parametrize("command", [[], ["align"]])
def test_both_forms_write_all_formats(cli, fake_aligner, command):
    result = cli(*command, "talk.wav", "talk.txt")
    assert (result.code, result.stdout) == (0, "")
    assert listed() == FILES
    assert "Nothing to check (CTC loss 3.250, 0.500 per token; " in result.stderr
    assert "wrote talk.json, talk.ctm, talk.tokens.ctm, talk.TextGrid" in result.stderr
    call = fake_aligner.calls[0]
    assert (call["audio"], call["text"], call["utterance"]) == (
        "talk.wav",
        "Hello, big world!\n",
        "talk",
    )
    assert (call["model"], call["device"], call["backend"], call["lexicon"]) == (
        "auto",
        "auto",
        "auto",
        None,
    )
    assert json.loads(Path("talk.json").read_text())["words"][0]["text"] == "Hello,"


def test_options_reach_the_aligner(cli, fake_aligner):
    Path("my.dict").write_text("a AH0\n")
    Path("my.toml").write_text('labels = "written"\nband_s = 0.5\n')
    code = cli(
        *(
            "talk.wav",
            "talk.txt",
            "--model",
            "universal",
            "--lexicon",
            "my.dict",
            "--device",
            "cpu",
        ),
        *(
            "--backend",
            "reference",
            "--config",
            "my.toml",
            "--out-dir",
            "out/deep",
            "--format",
            "ctm",
        ),
    ).code
    assert code == 0
    call = fake_aligner.calls[0]
    assert (call["model"], call["lexicon"], call["device"], call["backend"]) == (
        "universal",
        "my.dict",
        "cpu",
        "reference",
    )
    assert (call["settings"].labels, call["settings"].band_s) == ("written", 0.5)
    assert sorted(os.listdir("out/deep")) == ["talk.ctm", "talk.tokens.ctm"]
    assert "Hello," in Path("out/deep/talk.ctm").read_text()


@pytest.mark.parametrize(
    ("format", "starts"), [(None, "{"), ("ctm", ";; talk loss"), ("textgrid", "File type")]
)
def test_standard_output_is_data_only(capfdbinary, format, starts):
    arguments = ["talk.wav", "talk.txt", "--stdout", *(["--format", format] if format else [])]
    assert run(arguments) == 0
    out, err = capfdbinary.readouterr()
    assert out.decode("utf-8").startswith(starts)
    assert b"CTC loss" in err
    assert b"wrote" not in err
    assert listed() == ["talk.txt", "talk.wav"]


def test_notes_say_what_has_no_time(cli):
    result = cli("talk.wav", "--text", "straße — ☺ weiter")
    assert "note: the model's vocabulary lacks 'ß' × 1; they match any speech" in result.stderr
    assert "note: without times (nothing to pronounce): ☺\n" in result.stderr, (
        "punctuation goes without saying"
    )


def test_the_table_comes_on_a_terminal(cli, monkeypatch):
    monkeypatch.setattr(type(sys.stderr), "isatty", lambda self: True, raising=False)
    result = cli("talk.wav", "--text", "one \x1b[31mtwo —", code=0)
    assert "█" in result.stderr
    assert "unspoken" in result.stderr
    assert "\x1b[31mtwo" not in result.stderr, "a terminal must not obey a transcript"


def test_a_recording_too_long_for_a_format_is_refused_before_the_work(cli, fake_aligner):
    soundfile.write("long.wav", np.zeros(8000), 8000, subtype="PCM_U8")
    data = bytearray(Path("long.wav").read_bytes()[:44])
    for place, size in ((4, 36 + 8000 * 6001), (40, 8000 * 6001)):
        data[place : place + 4] = size.to_bytes(4, "little")
    Path("long.wav").write_bytes(data)
    os.truncate("long.wav", 44 + 8000 * 6001)
    result = cli("long.wav", "talk.txt", "--format", "json,lrc", code=2)
    assert (
        "long.wav: is 6,001 s long, but --format lrc holds times only up to 6,000 s: omit lrc"
        in result.stderr
    )


def test_force_replaces_outputs_but_never_inputs(cli):
    Path("talk.ctm").write_text("mine")
    assert cli("talk.wav", "talk.txt", "--force").code == 0
    assert Path("talk.ctm").read_text() != "mine"
    Path("talk.json").write_text("my transcript")
    result = cli("talk.wav", "talk.json", "--force", code=0)
    assert (
        "note: talk.json is an input and stays as it is: what would replace it is in"
        " talk.aligned.json" in result.stderr
    )
    assert "wrote talk.aligned.json, talk.ctm" in result.stderr
    assert Path("talk.json").read_text() == "my transcript"
    assert json.loads(Path("talk.aligned.json").read_text())["text"] == "my transcript"
    assert "talk.aligned.json: already exists" in cli("talk.wav", "talk.json", code=2).error


@pytest.mark.parametrize(
    ("raised", "code", "line"),
    [
        (
            TooShortError("talk: 3 frames, the transcript needs 9"),
            1,
            "error: talk: 3 frames, the transcript needs 9",
        ),
        (
            PermissionError(13, "Permission denied", "talk.wav"),
            1,
            "error: talk.wav: Permission denied",
        ),
        (
            BackendError("backend gpu: no CUDA device here"),
            2,
            "error: backend gpu: no CUDA device here",
        ),
        (MemoryError(), 1, "error: out of memory; give shorter audio, or close other programs"),
        (KeyboardInterrupt(), 130, "interrupted"),
    ],
)
def test_what_ends_the_work_is_one_line_and_a_code(
    cli, fake_aligner, monkeypatch, raised, code, line
):
    monkeypatch.setattr(fake_aligner, "raises", raised)
    result = cli("talk.wav", "talk.txt")
    assert (result.code, result.stderr.splitlines()[-1]) == (code, f"ctc-align: {line}")
    assert listed() == ["talk.txt", "talk.wav"]


def test_a_part_of_a_book_is_not_called_a_bad_fit():
    read = AlignedWord("a", "a", 0, 1, "aligned", 0.5, 1.0, 0.9)
    rest = tuple(AlignedWord("b", "b", at, at + 1, "skipped") for at in (2, 4))
    found = Alignment(
        "a",
        "a.wav",
        2.0,
        "english",
        "cpu",
        0.01,
        1.0,
        -1.0,
        "a b b",
        (read, *rest),
        loss_per_token=0.6,
        fit="poor",
    )
    told = " ".join(alignment_notes(found))
    assert "fits the recording badly" not in told
    assert "ctc-align corpus FOLDER --text TEXT" in told


@pytest.mark.parametrize(
    ("confidences", "least", "told"),
    [
        ((0.9, 0.5, 0.9), 0.0, ["a word is likely not spoken, or elsewhere: b (1.00 s)"]),
        (
            (0.1, 0.9, 0.9, 0.0),
            0.0,
            ["2 single words are likely not spoken, or elsewhere: a (0.00 s), d (3.00 s)"],
        ),
        ((0.9, 0.51, 0.9), 0.0, []),
        ((0.1, 0.1, 0.9), 0.0, ["words 1–2 do not fit the recording (0.00–2.00 s)"]),
        ((0.9, 0.1, 0.9), 0.2, ["doubtful: b (1.00 s, 0.10)"]),
    ],
)
def test_each_unlikely_word_is_told_once(confidences, least, told):
    words = [
        AlignedWord(letter, letter, 2 * at, 2 * at + 1, "aligned", at, at + 1.0, confidence)
        for at, (letter, confidence) in enumerate(zip("abcd", confidences, strict=False))
    ]
    alignment = Alignment(
        *("a", "a.wav", 4.0, "english", "cpu", 0.01, 1.0, -1.0, "a b c d", tuple(words)),
        regions=regions_of(words, ()),
        fit="good",
        config={"min_confidence": least},
    )
    assert alignment_notes(alignment) == told
    without = alignment_notes(replace(alignment, config={**alignment.config, "stress": True}))
    assert [note for note in without if note not in told] == [
        "--stress has no effect: no phone has a stress mark; give a dictionary with stress"
        " (--lexicon)"
    ]


def test_a_full_disk_exits_1_and_leaves_nothing(cli, monkeypatch):
    def full(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("ctc_align.files.alignment_files.open", full, raising=False)
    assert "No space left on device" in cli("talk.wav", "talk.txt", code=1).error
    assert listed() == ["talk.txt", "talk.wav"]


def test_verbose_shows_where_an_error_came_from(cli):
    result = cli("none.wav", "talk.txt", "--verbose", code=2)
    assert "Traceback" in result.stderr
    assert result.stderr.splitlines()[-1].startswith("ctc-align: error: none.wav")


def test_our_own_faults_are_not_hidden(cli, fake_aligner, monkeypatch):
    monkeypatch.setattr(fake_aligner, "raises", ZeroDivisionError())
    with pytest.raises(ZeroDivisionError):
        cli("talk.wav", "talk.txt")


def test_demo_copies_the_files_of_the_tutorials(cli, fake_aligner):
    assert cli("demo", "--examples", "practice").code == 0
    assert {"interview.flac", "demo.flac", "lighthouse.epub", "turns.jsonl"} <= {
        p.name for p in Path("practice").iterdir()
    }
    assert Path("practice/corrected/interview.TextGrid").is_file()
    assert fake_aligner.calls == []
    assert cli("demo", "--examples", "practice").code == 0
    Path("practice/interview.txt").write_text("my own words")
    result = cli("demo", "--examples", "practice", code=2)
    assert "interview.txt: already exists with different content" in result.stderr
    assert Path("practice/interview.txt").read_text() == "my own words"


SRT = (
    "1\n00:00:05,000 --> 00:00:06,000\n<i>Hello,</i>\nbig\n\n2\n00:00:07,000 -->"
    " 00:00:08,000\nworld!\n\n"
)


def test_a_subtitle_file_adds_its_format_and_is_never_replaced(cli):
    Path("talk.srt").write_text(SRT)
    result = cli("talk.wav", "talk.srt", code=0)
    assert (
        "note: talk.srt is an input and stays as it is: what would replace it is in"
        " talk.aligned.srt" in result.stderr
    )
    assert Path("talk.srt").read_text() == SRT
    written = Path("talk.aligned.srt").read_text()
    assert written.split("\n")[2:4] == ["<i>Hello,</i>", "big"]
    assert written.count("-->") == 2
    data = json.loads(Path("talk.json").read_text())
    assert data["text"] == "<i>Hello,</i>\nbig\nworld!"
    assert [cue["name"] for cue in data["subtitles"]["cues"]] == ["1", "2"]


@pytest.mark.parametrize(
    "arguments", [("talk.wav", "book.epub"), ("talk.wav", "--text", "book.epub")]
)
def test_a_book_is_read_as_transcript_and_after_text_too(cli, arguments):
    write_epub(Path("book.epub"), {"one.xhtml": '<p id="a">Hello, big</p><p>world!</p>'})
    assert cli(*arguments, "-q").code == 0
    data = json.loads(Path("talk.json").read_text("utf-8"))
    assert data["text"] == "Hello, big\n\nworld!"
    assert [(place["char_start"], place["href"], place.get("id")) for place in data["places"]] == [
        (0, "OEBPS/one.xhtml", "a"),
        (12, "OEBPS/one.xhtml", None),
    ]


def test_elsewhere_it_has_its_own_name_and_cues_may_be_cut_again(cli):
    Path("talk.srt").write_text(SRT)
    assert cli("talk.wav", "talk.srt", "--out-dir", "out", "--format", "vtt", "-q").code == 0
    assert sorted(os.listdir("out")) == ["talk.srt", "talk.vtt"]
    assert cli("talk.wav", "talk.srt", "--out-dir", "new", "--cues", "again", "-q").code == 0
    assert Path("new/talk.srt").read_text().count("-->") == 1
    assert cli("talk.wav", "talk.srt", "--stdout").stdout.startswith("{")
    assert (
        "cues: expected 'keep' or 'again', got 'no'"
        in cli("talk.wav", "talk.srt", "--cues", "no").error
    )


def test_a_textgrid_comes_back_with_words_and_says_which_tiers_are_the_text(cli):
    rows = (
        '"IntervalTier" "Ann" 0 2 2 0 1 "Hello, big" 1 2 "world!" "IntervalTier" "mood" 0 2 1 0 2'
        ' "fine"'
    )
    grid = f'"ooTextFile"\n"TextGrid" 0 2 <exists> 2 {rows}\n'
    Path("talk.TextGrid").write_text(grid)
    result = cli("talk.wav", "talk.TextGrid", "--format", "json", code=0)
    assert "note: the text: tier Ann; mood stays as it is" in result.stderr
    assert "what would replace it is in talk.aligned.TextGrid" in result.stderr
    assert Path("talk.TextGrid").read_text() == grid
    assert Path("talk.aligned.TextGrid").read_text().startswith(grid.replace("> 2", "> 4"))


def test_segments_add_no_format(cli):
    Path("talk.json").write_text('[{"text": "Hello, big world!", "start": 0, "end": 1}]')
    assert cli("talk.wav", "talk.json", "--format", "vtt", "-q").code == 0
    assert not Path("talk.aligned.json").exists()
    assert Path("talk.vtt").read_text().endswith("\nHello, big world!\n")


def test_cues_as_they_are_wanted(cli):
    Path("talk.srt").write_text(SRT)
    wanted = ("--cues", "again", "--max-line", "8", "--max-cps", "5", "--frame-rate", "25")
    assert (
        cli("talk.wav", "talk.srt", "--stdout", "--format", "srt", *wanted).stdout.count("-->") >= 1
    )
    for option, value, says in (
        ("--max-line", "2", "--max-line: expected a whole number from 8 to 1000, got 2"),
        ("--max-cps", "0", "--max-cps: expected a number from 1 to 1000, got 0.0"),
        ("--frame-rate", "-25", "--frame-rate: expected a number from 1 to 1000, or 0, got -25.0"),
        ("--frame-rate", "0.4", "--frame-rate: expected a number from 1 to 1000, or 0, got 0.4"),
        ("--min-gap", "-1", "--min-gap: expected a number from 0 to 10, got -1.0"),
        ("--style", "itv", "--style: expected netflix, bbc or ebu, got 'itv'"),
    ):
        assert cli("talk.wav", "talk.srt", option, value).error == says
    kept = cli("talk.wav", "talk.srt", "--force", "--style", "ebu", "--min-duration", "5").stderr
    assert "2 cues are shorter than 5 s (1, 2): kept as in the transcript; --cues again" in kept
    assert "cues are" not in cli("talk.wav", "talk.srt", "--force", "--style", "bbc").stderr
    assert "no effect, because no" in cli("talk.wav", "talk.txt", "--force", *wanted[2:]).stderr
    assert (
        "no effect" not in cli("talk.wav", "talk.txt", "--force", "--format", "vtt", *wanted).stderr
    )


def alignment_of(aligned: int, skipped: int, **changes) -> Alignment:
    """An alignment of words of one letter; the aligned ones come first, a dash last."""
    words = [
        AlignedWord("a", "a", 2 * i, 2 * i + 1, ALIGNED, float(i), i + 1.0, 0.9)
        for i in range(aligned)
    ]
    words += [
        AlignedWord("b", "b", 2 * i, 2 * i + 1, SKIPPED) for i in range(aligned, aligned + skipped)
    ]
    words.append(AlignedWord("—", "", 2 * len(words), 2 * len(words) + 1, UNSPOKEN))
    text = " ".join(word.text for word in words)
    fields = ("u", "u.wav", aligned + 1.0, "english", "cpu", 0.01, 1.0, -1.0, text, tuple(words))
    return replace(Alignment(*fields, fit="good"), **changes)


@pytest.mark.parametrize(
    ("aligned", "skipped", "unexplained", "told"),
    [
        (4335, 477, ((10.0, 120.0), (200.0, 310.2)), "477 of 4,812 words are not in the recording; 220 s of speech is "
         "not in the text (10.00–120.00 s, 200.00–310.20 s)"),
        (7, 1, (), "1 of 8 words is not in the recording (b)"),
        (7, 0, ((1.0, 4.25),), "3.2 s of speech is not in the text (1.00–4.25 s)"),
        (7, 0, tuple((10.0 * i, 10.0 * i + 2) for i in range(6)), "12 s of speech is not in the text"),
        (3, 2, ((8.0, 9.0), *((10.0 * i, 10.0 * i + 2) for i in range(1, 6)), (70.0, 79.0)),
         "2 of 5 words are not in the recording (b b); heard instead: 20 s of speech "
         "(10.00–12.00 s, 20.00–22.00 s, 30.00–32.00 s, 40.00–42.00 s, 70.00–79.00 s and 2 more); "
         "if the text is right, --match exact gives times to all of its words"),
        (7, 0, (), None),
    ],
)  # fmt: skip
def test_both_sides_are_told_in_one_line(aligned, skipped, unexplained, told):
    region = Region(NOT_SPOKEN, None, None, 2 * aligned, 2 * (aligned + skipped), "not spoken")
    alignment = alignment_of(
        aligned, skipped, unexplained=unexplained, regions=(region,) if skipped else ()
    )
    assert [note for note in alignment_notes(alignment) if "—" not in note] == (
        [told] if told else []
    )


def test_the_exit_code_tells_that_more_is_missing(cli, here, fake_aligner, monkeypatch):
    align = fake_aligner.align
    monkeypatch.setattr(
        fake_aligner,
        "align",
        lambda self, *a, **b: replace(align(self, *a, **b), words=alignment_of(3, 1).words),
    )
    for limit, code in ((30, 0), (20, 3)):
        result = cli("talk.wav", "talk.txt", "--max-skipped", str(limit), "--force")
        assert (result.code, "note: 1 of 4 words is not in the recording (b)" in result.stderr) == (
            code,
            True,
        )
        told = (
            "ctc-align: --max-skipped 20 is exceeded: 1 of 4 words (25.0 %) are not in the"
            " recording"
        )
        assert (told in result.stderr) is (code == 3)
    assert (
        cli("talk.wav", "talk.txt", "--max-skipped", "20", "--force", "--quiet").stderr
        == f"{told}\n"
    )


@pytest.mark.parametrize(
    ("fit", "least", "told"),
    [
        ("none", None, "--min-fit poor, the default, is not met: the fit is none."),
        ("poor", None, ""),
        ("none", "none", ""),
        ("doubtful", "good", "--min-fit good is not met: the fit is doubtful."),
        (None, "good", ""),
    ],
)
def test_a_fit_below_the_least_one_exits_with_3(
    cli, here, fake_aligner, monkeypatch, fit, least, told
):
    align = fake_aligner.align
    monkeypatch.setattr(
        fake_aligner, "align", lambda self, *a, **b: replace(align(self, *a, **b), fit=fit)
    )
    option = () if least is None else ("--min-fit", least)
    result = cli("talk.wav", "talk.txt", "--quiet", *option)
    assert (result.code, result.stderr.count("\n")) == ((3, 1) if told else (0, 0))
    assert result.stderr.startswith(f"ctc-align: {told}" if told else "")
    assert (here / "talk.json").exists()


def test_a_corpus_counts_fits_below_the_least_one_that_is_given(capsys):
    misfits = [{"utterance": "e02", "fit": "none"}, {"utterance": "e04", "fit": "poor"}]
    summary = Summary(fit={"good": 5, "doubtful": 4, "poor": 1, "none": 1}, misfits=misfits)
    leave(summary)
    leave(summary, "none")
    for least, told in (
        ("good", "6 utterances fit worse (e02, e04 and 4 more)"),
        ("poor", "1 utterance fits worse (e02)"),
    ):
        with pytest.raises(typer.Exit) as exit:
            leave(summary, least)
        assert exit.value.exit_code == 3
        assert capsys.readouterr().err == f"ctc-align: --min-fit {least} is not met: {told}\n"


def test_a_corpus_says_which_limit_is_passed_beside_what_failed(capsys):
    both = Summary(
        failed=2, too_many_skipped=1, most_skipped=[{"utterance": "e02"}, {"utterance": "e04"}]
    )
    for summary, code, end in (
        (both, 1, "; exit code 1, because 2 failed"),
        (replace(both, failed=0), 3, ""),
    ):
        with pytest.raises(typer.Exit) as exit:
            leave(summary)
        assert exit.value.exit_code == code
        told = (
            "ctc-align: --max-skipped is exceeded: 1 utterance lacks more of its words"
            f" (e02){end}\n"
        )
        assert capsys.readouterr().err == told


def test_cues_that_are_not_in_the_recording_are_all_named():
    cues = tuple(SourceCue(2 * at, 2 * at + 1, 0.0, 1.0, str(at + 5)) for at in range(9))
    subtitles = Subtitles("srt", cues=cues)
    found = alignment_notes(alignment_of(1, 7, subtitles=subtitles))
    assert [note.partition(":")[0] for note in found if "cue" in note] == [
        "7 cues have no word in the recording (numbers 6–12)",
        "1 cue has no word to speak (number 13)",
    ]
    again = alignment_notes(alignment_of(1, 7, subtitles=subtitles, config={"cues": "again"}))
    assert [note for note in again if "cue" in note] == [
        "7 cues have no word in the recording (numbers 6–12): left out"
    ]
    *words, last = alignment_of(1, 7).words
    translated = (*words, replace(last, kind="translation"))
    for cues in ("again", "keep"):
        told = alignment_notes(
            alignment_of(1, 7, subtitles=subtitles, words=translated, config={"cues": cues})
        )
        assert any(note.startswith("new cues mix") for note in told) == (cues == "again")
    nothing = alignment_of(
        0,
        8,
        subtitles=subtitles,
        fit="none",
        regions=(Region(NOT_SPOKEN, 0, 1, 0, 1, "not found"),),
    )
    assert len(alignment_notes(nothing)) == 1
    end = ": the cues keep their old times, which do not belong to this recording"
    assert written_line(nothing, [Path("e.srt")]) == f"wrote e.srt{end}"


@pytest.mark.parametrize(
    ("fit", "line"),
    [
        ("good", "Good fit, nothing to check (CTC"),
        ("doubtful", "Doubtful fit, no single word to check (CTC"),
        ("poor", "Poor fit, no single word to check (CTC"),
        ("none", "No fit (CTC"),
        (None, "Nothing to check (CTC"),
    ],
)
def test_only_a_good_fit_leaves_nothing_to_check(fit, line):
    assert fit_line(alignment_of(8, 0, fit=fit)).startswith(line)


def test_a_stage_direction_is_shown_as_a_whole():
    text = "[door opens] [pause] (which also was printed at Mainz by Peter Schoeffer)"
    words = [
        AlignedWord(match[0], "", *match.span(), UNSPOKEN, kind="direction")
        for match in re.finditer(r"\S+", text)
    ]
    alignment = replace(alignment_of(1, 0), text=text, words=tuple(words))
    assert alignment_notes(alignment)[0] == (
        "not spoken: stage directions ([door opens] [pause] (which also was printed at Mainz by …)"
    )


def test_json_keeps_the_limit_and_refuses_one_that_is_none():
    data = alignment_of(3, 1, config={"max_skipped": 20.0}).to_dict()
    assert from_dict(data).too_many_skipped
    data["config"]["max_skipped"] = None
    with pytest.raises(
        InputError, match=r"config.max_skipped: expected a number from 0 to 100, got"
    ):
        from_dict(data)


def test_text_that_goes_on_earlier_in_the_recording_is_told() -> None:
    words = tuple(
        AlignedWord(
            text,
            text,
            2 * at,
            2 * at + 1,
            start_s=float(start_s),
            end_s=start_s + 0.5,
            confidence=1.0,
        )
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
    named = tuple(
        replace(word, speaker="Ann") if word.char_start < 4 else word for word in found.words
    )
    assert any(
        "2 words are in cues that name nobody and have no speaker" in note
        for note in alignment_notes(replace(found, words=named))
    )
