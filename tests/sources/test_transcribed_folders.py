"""Kaldi folders, MFA-style and LibriSpeech folders."""

from __future__ import annotations

import logging
import os
import random
import tracemalloc
from dataclasses import replace
from pathlib import Path

import pytest
from made_sources import read, require_reasons, write

from ctc_align.corpus.state.resume import Fingerprints
from ctc_align.errors import UsageError
from ctc_align.sources import open_source
from ctc_align.sources.utterance import Utterance
from ctc_align.types import Transcript


def test_without_segments(tmp_path):
    files = {
        "wav.scp": '\ufeffb  wavs/b two.wav \na\t/abs/a\'s "x".flac\r\nc c.wav\n',
        "utt2spk": "c anna\na bert\n",
    }
    root = write(tmp_path, files | {"text": "\ufeffa  ONE  two \nc\tdrei\nb été 日本\n"})
    found, refused = read(root)
    assert refused == []
    assert found == [
        Utterance("b", "b", f"{root}/wavs/b two.wav", "été 日本", "wav.scp, line 1"),
        Utterance("a", "a", '/abs/a\'s "x".flac', "ONE  two", "wav.scp, line 2", speaker="bert"),
        Utterance("c", "c", f"{root}/c.wav", "drei", "wav.scp, line 3", speaker="anna"),
    ]
    source = open_source(root)
    assert source.kind == "kaldi"
    assert source.files == tuple(f"{root}/{name}" for name in ("wav.scp", "text", "utt2spk"))


def test_with_segments(tmp_path):
    files = {
        "wav.scp": "r2 r2.wav\nr1 r1.wav\nunused u.wav\n",
        "text": "u2 two\nu1 one\nu4 four\nu3 three\n",
    }
    files["segments"] = "u1 r1 0.5 1.75\nu3 r2 0 -1\nu2 r1 1.75 3e0 1\nu4 r1 2 3 0\n"
    root = write(tmp_path, files | {"utt2spk": "u1 s1\nu2 s1\nu3 s2\nu4 s1\n"})
    found, refused = read(root)
    assert refused == []
    assert [
        (u.id, u.audio, u.text, u.offset_s, u.duration_s, u.channel, u.speaker, u.origin[-1])
        for u in found
    ] == [
        ("u1", f"{root}/r1.wav", "one", 0.5, 1.25, None, "s1", "1"),
        ("u3", f"{root}/r2.wav", "three", 0.0, None, None, "s2", "2"),
        ("u2", f"{root}/r1.wav", "two", 1.75, 1.25, 2, "s1", "3"),
        ("u4", f"{root}/r1.wav", "four", 2.0, 1.0, 1, "s1", "4"),
    ]


def test_nothing_is_run(tmp_path):
    evil = tmp_path / "evil"
    entries = [
        f"touch {evil} |",
        f"touch {evil}|",
        f"| touch {evil}",
        f"$(touch {evil})",
        f"`touch {evil}`",
    ]
    entries += ["feats.ark:123", "feats.ark:9[0:1]", "https://example.org/a.wav", ""]
    lines = "".join(f"u{i} {entry}\n" for i, entry in enumerate(entries))
    root = write(
        tmp_path, {"wav.scp": lines, "text": "".join(f"u{i} x\n" for i in range(len(entries)))}
    )
    found, refused = read(root)
    assert [utterance.id for utterance in found] == ["u3", "u4"]  # odd file names, and no more
    words = (
        dict.fromkeys((1, 2, 3), "shell pipe")
        | dict.fromkeys((6, 7), "archive")
        | {
            8: "fetched",
            9: "got nothing",
        }
    )
    require_reasons(refused, {f"wav.scp, line {line}": said for line, said in words.items()})
    assert not evil.exists()


def test_every_line_that_is_of_no_use_is_named(tmp_path):
    root = write(
        tmp_path,
        {
            "wav.scp": "r1 r1.wav\nr2 cat r2 |\nr1 other.wav\n",
            "segments": (
                "ok r1 0 1\nnotext r1 0 1\nempty r1 0 1\nnorec r9 0 1\npipe r2 0 1\nback r1 2"
                " 1\nnan r1 nan 1\nminus r1 -1 1\nfew r1 0\nok r1 1 2\nlatin r1 0 1\nchannel r1 0"
                " 1 A\n"
            ),
            "text": (
                b"ok fine\nempty\nnorec x\npipe x\nback x\nnan x\nminus x\nfew x\nlatin"
                b" \xe4\nchannel x\nnowhere x\nok again\n\xff\xff x\n"
            ),
        },
    )
    found, refused = read(root)
    assert [utterance.id for utterance in found] == ["ok"]
    expected = {
        2: "no transcript",
        3: "empty",
        4: "r9",
        5: "shell pipe",
        6: "after the start",
        7: "got 'nan'",
    }
    expected |= {
        8: "0 or more",
        9: "after the utterance",
        10: "segments, line 1 has it",
        11: "UTF-8",
        12: "channel",
    }
    places = {f"segments, line {line}": words for line, words in expected.items()}
    places |= {
        "text, line 11": "no audio",
        "text, line 12": "text, line 1 has it already",
        "text, line 13": "UTF-8",
    }
    require_reasons(refused, places | {"wav.scp, line 3": "wav.scp, line 1 has it already"})


def test_any_order_is_right(tmp_path):
    numbers = list(range(3000))
    orders = random.Random(5)

    def shuffled(pattern: str) -> str:
        orders.shuffle(numbers)
        return "".join(pattern.format(n=number, rec=number % 100) + "\n" for number in numbers)

    files = {"segments": shuffled("u{n} r{rec} {n} {n}.5"), "text": shuffled("u{n} text {n}")}
    files |= {
        "utt2spk": shuffled("u{n} s{rec}"),
        "wav.scp": "".join(f"r{n} {n}.wav\n" for n in range(100)),
    }
    found, refused = read(write(tmp_path, files))
    assert refused == []
    assert len(found) == 3000
    for utterance in found:
        number = int(utterance.id[1:])
        assert (utterance.text, utterance.offset_s) == (f"text {number}", number)
        assert (utterance.audio, utterance.speaker) == (
            f"{tmp_path}/{number % 100}.wav",
            f"s{number % 100}",
        )


def test_paths_count_from_the_folder_or_as_kaldi_has_it_from_here(tmp_path, monkeypatch):
    root = write(
        tmp_path / "data", {"wav.scp": "a a.wav\nb b.wav\nc c.wav\n", "text": "a x\nb x\nc x\n"}
    )
    write(root, {"a.wav": ""})
    write(tmp_path / "here", {"a.wav": "", "b.wav": ""})
    monkeypatch.chdir(tmp_path / "here")
    assert [utterance.audio for utterance in read(root)[0]] == [
        f"{root}/a.wav",
        "b.wav",
        f"{root}/c.wav",
    ]


def test_memory_holds_hashes_and_no_text(tmp_path):
    count = 2_000
    with open(tmp_path / "wav.scp", "w") as scp, open(tmp_path / "text", "w") as text:
        for number in range(count):
            scp.write(f"utterance{number} {number}.wav\n")
            text.write(f"utterance{number} {'word ' * 150}\n")
    tracemalloc.start()
    found = sum(isinstance(item, Utterance) for item in open_source(tmp_path))
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert found == count
    assert peak < 110 * count + 2**18
    assert peak < (tmp_path / "text").stat().st_size / 4


@pytest.mark.parametrize("missing", ["wav.scp", "text"])
def test_a_folder_that_lacks_a_file_is_a_wrong_call(tmp_path, missing):
    root = write(tmp_path, {"wav.scp": "a a.wav\n", "text": "a x\n", "segments": "a a 0 1\n"})
    (root / missing).unlink()
    with pytest.raises(UsageError, match=missing):
        open_source(root, "kaldi")


def test_a_file_of_the_folder_is_a_wrong_call_that_says_so(tmp_path):
    root = write(tmp_path, {"wav.scp": "a a.wav\n", "text": "a x\n"})
    with pytest.raises(UsageError, match="give the folder"):
        open_source(root / "wav.scp")


def grid(*tiers: tuple[str, list[tuple[float, float, str]]], end: float = 10.0) -> str:
    rows = [
        'File type = "ooTextFile"',
        'Object class = "TextGrid"',
        "",
        f"0 {end} <exists> {len(tiers)}",
    ]
    for name, intervals in tiers:
        rows.append(f'"IntervalTier" "{name}" 0 {end} {len(intervals)}')
        rows += [f'{start} {stop} "{label}"' for start, stop, label in intervals]
    return "\n".join(rows) + "\n"


def test_audio_and_transcripts_beside(tmp_path):
    files = dict.fromkeys(("b/two.WAV", 'a/one é\'s "x".flac', "a/inner/z.opus", "top.mp3"), "")
    files |= {
        "b/two.Lab": "\ufefftwo\r\n",
        'a/one é\'s "x".txt': "One, two.\n",
        "a/inner/z.lab": "z",
        "top.txt": "top",
    }
    root = write(tmp_path / "corpus", files)
    found, refused = read(root)
    assert refused == []
    expected = [
        ("top", "mp3", "top", "txt", "corpus"),
        ('a/one é\'s "x"', "flac", "One, two.\n", "txt", "a"),
        ("a/inner/z", "opus", "z", "lab", "inner"),
        ("b/two", "WAV", "two\r\n", "Lab", "b"),
    ]
    for utterance, (id, audio, text, transcript, speaker) in zip(found, expected, strict=True):
        whole = Utterance(
            id, id, f"{root}/{id}.{audio}", text, f"{id}.{transcript}", speaker=speaker
        )
        assert utterance == replace(whole, transcript=f"{root}/{id}.{transcript}")
    assert open_source(root).kind == "mfa"
    assert read(f"{root}/") == (found, refused)


def test_transcripts_of_other_programs_beside_recordings(tmp_path):
    chat = "@Begin\n@Languages:\tfra\n*CHI:\toui . \x15100_900\x15\n@End\n"
    files = {"a.wav": "", "a.cha": chat, "b.wav": "", "b.stm": "b 1 Ann 0.5 2 well\n"}
    found, refused = read(write(tmp_path / "corpus", files | {"c.rttm": "no recording"}))
    assert (refused, [utterance.text for utterance in found]) == ([], ["oui .", "well"])
    assert [utterance.language for utterance in found] == ["fra", ""]
    assert [utterance.file.subtitles.cues[0].speaker for utterance in found] == ["CHI", "Ann"]


def test_nothing_is_skipped_silently(tmp_path):
    sounds = (
        "good.wav",
        "alone.wav",
        "other.m4a",
        "empty.wav",
        "latin.wav",
        "both.wav",
        "twin.wav",
        "twin.flac",
    )
    files: dict[str, str | bytes] = dict.fromkeys((f"s/{name}" for name in sounds), "")
    files |= {
        "s/good.txt": "good",
        "s/text.txt": "no audio",
        "s/grid.TextGrid": grid(("a", [(0, 1, "x")])),
    }
    files |= {
        "s/other.txt": "for FFmpeg",
        "s/good.mp4": "a video beside its sound",
        "s/empty.txt": " \n",
    }
    files |= {
        "s/latin.txt": b"stra\xdfe",
        "s/both.txt": "txt",
        "s/both.lab": "lab",
        "s/twin.txt": "twin",
    }
    found, refused = read(write(tmp_path, files | {"s/README.md": "left alone"}))
    assert [
        (utterance.id, os.path.basename(utterance.audio), utterance.text) for utterance in found
    ] == [
        ("s/both", "both.wav", "lab"),
        ("s/good", "good.wav", "good"),
        ("s/other", "other.m4a", "for FFmpeg"),
        ("s/twin", "twin.flac", "twin"),
    ]
    expected = {
        "s/alone.wav": "no transcript beside it",
        "s/both.txt": "both.lab is used",
        "s/latin.txt": "UTF-8",
    }
    expected |= dict.fromkeys(("s/text.txt", "s/grid.TextGrid"), "no audio of this name")
    expected |= {
        "s/empty.txt": "empty.txt: the transcript is empty",
        "s/twin.wav": "twin.flac beside it has the same",
    }
    require_reasons(refused, expected)
    assert {item.id for item in refused} >= {
        "s/alone",
        "s/text",
        "s/empty",
        "s/latin",
        "s/twin (s/twin.wav)",
    }


def test_textgrid_transcripts(tmp_path):
    tiers = grid(
        (
            "anna",
            [(0, 1.25, ""), (1.25, 2.5, "Hello there."), (2.5, 3, " "), (3, 4.1, 'say ""x""')],
        ),
        ("bert/b", [(0, 1.25, "One"), (2, 2, "no time")]),
        ("", [(0.5, 1, "nameless")]),
    )
    root = write(
        tmp_path,
        {
            "day 1/rec.wav": "",
            "day 1/rec.TextGrid": tiers,
            "day 1/rec2.wav": "",
            "day 1/rec2.txt": "x",
        },
    )
    found, refused = read(root)
    assert [(u.id, u.text, u.offset_s, u.duration_s, u.speaker, u.tier) for u in found[:-1]] == [
        ("day 1/rec-anna-1.250-2.500", "Hello there.", 1.25, 1.25, "anna", "anna"),
        ("day 1/rec-anna-3.000-4.100", 'say "x"', 3.0, 1.1, "anna", "anna"),
        ("day 1/rec-bert_b-0.000-1.250", "One", 0.0, 1.25, "bert/b", "bert/b"),
        ("day 1/rec--0.500-1.000", "nameless", 0.5, 0.5, "", ""),
    ]
    assert {utterance.recording for utterance in found[:-1]} == {"day 1/rec"}
    assert {utterance.audio for utterance in found[:-1]} == {f"{root}/day 1/rec.wav"}
    assert {utterance.transcript for utterance in found[:-1]} == {f"{root}/day 1/rec.TextGrid"}
    assert found[-1].recording == found[-1].tier == ""
    assert [item.origin for item in refused] == ['day 1/rec.TextGrid, tier "bert/b", interval 2']
    assert found[1].origin == 'day 1/rec.TextGrid, tier "anna", interval 4'


def test_tiers_of_words_and_sounds_are_no_utterances(tmp_path):
    """As MFA, FAVE, BAS and this program write them beside recordings, with and without a tier of
    utterances."""
    words = [(0.0, 0.5, "we"), (0.5, 1.0, "call"), (1.0, 2.0, "it")]
    sounds = [
        (0.0, 0.2, "W"),
        (0.2, 0.5, "IY1"),
        (0.5, 0.7, "K"),
        (0.7, 1.0, "AO1"),
        (1.0, 1.5, "IH1"),
        (1.5, 2.0, "T"),
    ]
    spoken = ("ann", [(0.0, 2.0, "we call it")])
    names = {
        "mfa": ("ann - words", "ann - phones"),
        "fave": ("ann - word", "ann - phone"),
        "bas": ("ORT-MAU", "MAU"),
    }
    files = {}
    for name, (of_words, of_sounds) in names.items():
        tiers = (of_sounds, sounds), (of_words, words)
        files |= {f"{name}.wav": "", f"{name}.TextGrid": grid(*tiers, spoken)}
    files |= {"alone.wav": "", "alone.TextGrid": grid(("words", words), ("phones", sounds))}
    files |= {"odd.wav": "", "odd.TextGrid": grid(("w", words), ("s", sounds), spoken)}
    found, refused = read(write(tmp_path, files))
    assert refused == []
    assert [(u.id, u.text) for u in found] == [
        ("alone", "we\ncall\nit"),
        ("bas-ann-0.000-2.000", "we call it"),
        ("fave-ann-0.000-2.000", "we call it"),
        ("mfa-ann-0.000-2.000", "we call it"),
        ("odd-ann-0.000-2.000", "we call it"),
    ]


def test_speakers_who_say_single_words_are_not_taken_for_words_of_others(tmp_path):
    digits = [(0.0, 1.0, "one"), (1.0, 2.0, "two"), (4.0, 5.0, "three")]
    answers = [(2.0, 3.0, "yes"), (6.0, 7.0, "no")]
    root = write(tmp_path, {"a.wav": "", "a.TextGrid": grid(("ann", digits), ("ben", answers))})
    assert [u.speaker for u in read(root)[0]] == ["ann"] * 3 + ["ben"] * 2


def test_textgrids_that_are_no_transcripts(tmp_path):
    silence = grid(("anna", [(0, 1, " ")]))
    files = {"bad.wav": "", "bad.TextGrid": "nonsense", "none.wav": "", "none.TextGrid": silence}
    files |= {
        "done.wav": "",
        "done.txt": "aligned before",
        "done.TextGrid": grid(("words", [(0, 1, "aligned")])),
    }
    found, refused = read(write(tmp_path, files))
    assert [(utterance.id, utterance.text, utterance.recording) for utterance in found] == [
        ("done", "aligned before", "")
    ]
    require_reasons(refused, {"bad.TextGrid": "not a TextGrid", "none.TextGrid": "got none"})


def test_intervals_of_one_name_get_names_of_their_own(tmp_path):
    same = ("a", [(0, 1, "x")])
    files = {
        "r.wav": "",
        "r.TextGrid": grid(same, same),
        "r-a-0.000-1.000.wav": "",
        "r-a-0.000-1.000.txt": "y",
    }
    found, refused = read(write(tmp_path, files))
    ids = ["r-a-0.000-1.000+", "r-a-0.000-1.000+-2", "r-a-0.000-1.000"]
    assert [utterance.id for utterance in found] == ids
    assert refused == []


def test_order_is_by_code_point(tmp_path):
    names = ["b", "B", "a", "é", "Z", "10", "9", "a b", "日"]
    root = write(
        tmp_path,
        {
            f"{folder}/{name}.{ext}": "x"
            for folder in names
            for name in names
            for ext in ("wav", "txt")
        },
    )
    found, _ = read(root)
    assert [utterance.id for utterance in found] == [
        f"{a}/{b}" for a in sorted(names) for b in sorted(names)
    ]


def test_links_and_loops(tmp_path, caplog):
    root = write(
        tmp_path / "corpus", {"a/x.wav": "", "a/x.txt": "x", "other/y.wav": "", "other/y.txt": "y"}
    )
    (root / "a" / "up").symlink_to(root)
    (root / "a" / "self").symlink_to(root / "a" / "self")
    (root / "a" / "gone.wav").symlink_to(root / "nowhere")
    (root / "a" / "gone.txt").symlink_to(root / "nowhere")
    (root / "linked").symlink_to(root / "other")
    with caplog.at_level(logging.WARNING):
        found, refused = read(root)
    assert [utterance.id for utterance in found] == ["a/x", "linked/y", "other/y"]
    assert [(item.id, "leads nowhere" in item.reason) for item in refused] == [("a/gone", True)]
    assert "a/up: the link leads back" in caplog.text


def test_pipes_are_not_waited_for(tmp_path):
    root = write(tmp_path, {"a.wav": "", "b.wav": "", "b.txt": "b"})
    os.mkfifo(root / "a.txt")
    found, refused = read(root)
    assert [utterance.id for utterance in found] == ["b"]
    assert [item.id for item in refused] == ["a"]


def test_a_folder_that_goes_away_or_fails(tmp_path, monkeypatch):
    root = write(tmp_path, {"a/x.wav": "", "a/x.txt": "x", "b/y.wav": "", "b/y.txt": "y"})
    scandir = os.scandir

    def failing(path):
        if os.path.basename(path) == "a":
            raise PermissionError(13, "Permission denied")
        return scandir(path)

    monkeypatch.setattr(os, "scandir", failing)
    found, refused = read(root)
    assert [utterance.id for utterance in found] == ["b/y"]
    assert [(item.id, "Permission denied" in item.reason) for item in refused] == [("a", True)]


def test_names_that_are_not_utf8_are_refused(tmp_path):
    root = write(tmp_path, {"good.wav": "", "good.txt": "x"})
    os.mkdir(os.path.join(os.fsencode(root), b"d\xfe"))
    for name in (b"bad\xff.wav", b"bad\xff.txt", b"d\xfe/x.wav", b"d\xfe/x.txt"):
        with open(os.path.join(os.fsencode(root), name), "w"):
            pass
    found, refused = read(root)
    assert [utterance.id for utterance in found] == ["good"]
    assert [item.id for item in refused] == ["bad\\xff", "d\\xfe/x"]
    assert all("not UTF-8" in item.reason and item.reason.isascii() for item in refused)


def test_hidden_files_and_the_output_folder_are_no_part_of_it(tmp_path):
    root = write(
        tmp_path,
        {
            "a.wav": "",
            "a.txt": "x",
            "._a.wav": "",
            ".git/b.wav": "",
            "out/a.TextGrid": "",
            "o2/c.wav": "",
        },
    )
    found, refused = read(root, exclude=[root / "out", f"{root}/./o2/"])
    assert [utterance.id for utterance in found] == ["a"]
    assert refused == []
    assert len(read(root)[1]) == 2
    assert len(read(root, exclude=[root])[0]) == 1


def test_librispeech(tmp_path):
    folder = "dev/84/121"
    sounds = [
        f"{folder}/84-121-000{name}"
        for name in ("0.flac", "1.FLAC", "3.flac", "4.flac", "5.flac", "5.wav")
    ]
    files: dict[str, str | bytes] = dict.fromkeys((*sounds, "dev/85/1/other.flac"), "")
    files |= {"README.TXT": "left alone", "dev/85/1/85-1.trans.txt": b"other \xff\n"}
    files[f"{folder}/84-121.trans.txt"] = (
        "84-121-0000 GO DO YOU HEAR\n84-121-0001\tBUT  IN\r\n\n84-121-0002 NO AUDIO\n84-121-0000"
        " AGAIN\n84-121-0004\n84-121-0005 TWO FORMATS\n../84-121-0000 X\n"
    )
    root = write(tmp_path / "LibriSpeech", files)
    found, refused = read(root)
    assert open_source(root).kind == "librispeech"
    assert [(utterance.id, utterance.text, utterance.speaker) for utterance in found] == [
        (f"{folder}/84-121-0000", "GO DO YOU HEAR", "84"),
        (f"{folder}/84-121-0001", "BUT  IN", "84"),
        (f"{folder}/84-121-0005", "TWO FORMATS", "84"),
    ]
    assert found[1].audio == f"{root}/{folder}/84-121-0001.FLAC"
    assert found[1].origin == f"{folder}/84-121.trans.txt, line 2"
    assert found[1].output == found[1].id
    lines = {4: "no audio", 5: "84-121.trans.txt, line 1 has it already", 6: "empty", 8: "no audio"}
    expected = {f"{folder}/84-121.trans.txt, line {line}": words for line, words in lines.items()}
    expected |= dict.fromkeys(
        (f"{folder}/84-121-0003.flac", "dev/85/1/other.flac"), "no transcript"
    )
    expected |= {
        f"{folder}/84-121-0005.wav": "same name",
        "dev/85/1/85-1.trans.txt, line 1": "UTF-8",
    }
    require_reasons(refused, expected)


def test_which_kind_a_folder_is(tmp_path):
    pair = {"s/a.wav": "", "s/a.txt": "x"}
    trans = {"t/1-2.trans.txt": "1-2-3 X\n", "t/1-2-3.flac": ""}
    kaldi = {"wav.scp": "a s/a.wav\n", "text": "a x\n"}
    expected = {"m": (pair, "mfa"), "l": (trans, "librispeech"), "ml": (pair | trans, "mfa")}
    expected["lm"] = ({**trans, "z/a.wav": "", "z/a.txt": "x"}, "librispeech")
    expected["k"] = (kaldi | pair | trans, "kaldi")
    expected["alone"] = ({"a.wav": ""}, "mfa")
    expected["text"] = ({"a.lab": "x"}, "mfa")
    for name, (files, kind) in expected.items():
        assert open_source(write(tmp_path / name, files)).kind == kind
    assert open_source(tmp_path / "k", "folder").kind == "mfa"
    assert open_source(tmp_path / "k", "librispeech").kind == "librispeech"


@pytest.mark.parametrize(
    ("files", "kind", "message"),
    [
        ({"x.md": ""}, None, "expected a corpus"),
        ({"x.md": ""}, "mfa", "got none"),
        ({"x.md": ""}, "folder", "got none"),
        ({"a.wav": "", "a.txt": "x"}, "librispeech", "trans.txt"),
        ({"a.wav": "", "a.txt": "x"}, "kaldi", "wav.scp"),
        ({"wav.scp": "a a.wav\n"}, None, "text"),
        ({"wav.scp": "", "text": ""}, None, "empty"),
        ({"a.wav": ""}, "manifest", "got a folder"),
        ({"a.wav": ""}, "table", "got a folder"),
        ({"audio/a.wav": "", "train.jsonl": "{}\n"}, None, "did you mean .*train.jsonl"),
    ],
)
def test_a_folder_of_another_kind_is_a_wrong_call(tmp_path, files, kind, message):
    with pytest.raises(UsageError, match=message) as caught:
        open_source(write(tmp_path, files), kind)
    assert "expected" in str(caught.value)
    assert str(tmp_path) in str(caught.value)


def test_nothing_there(tmp_path):
    for kind in (None, "manifest", "table", "lhotse", "kaldi", "mfa", "librispeech", "folder"):
        with pytest.raises(UsageError, match="no such"):
            open_source(tmp_path / "nowhere", kind)
    for kind in ("kaldi", "mfa", "librispeech"):
        file = write(tmp_path, {"file": "x"}) / "file"
        with pytest.raises(UsageError, match="got a file"):
            open_source(file, kind)
    with pytest.raises(UsageError, match="expected one of manifest"):
        open_source(tmp_path, "nonsense")
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(UsageError, match="pipe"):
        open_source(tmp_path / "pipe")


def test_subtitles_are_the_transcript_where_there_is_no_other(tmp_path: Path) -> None:
    srt = "1\n00:00:01,000 --> 00:00:02,000\nHello\n\n2\n00:00:02,000 --> 00:00:03,000\nthere\n"
    for name, text in (
        ("a.wav", ""),
        ("a.srt", srt),
        ("b.wav", ""),
        ("b.srt", srt),
        ("b.txt", "mine"),
        ("c.srt", srt),
    ):
        (tmp_path / name).write_text(text)
    film, other = (item for item in open_source(tmp_path) if isinstance(item, Utterance))
    assert (film.text, other.spoken) == ("Hello\nthere", "mine")
    assert isinstance(film.spoken, Transcript)  # its cues come back
    assert len(film.spoken.subtitles.cues) == 2
    (tmp_path / "a.srt").write_text(srt.replace("1\n00", "5\n00"))
    changed = next(iter(open_source(tmp_path)))
    assert Fingerprints("").of(changed) != Fingerprints("").of(film)


def test_names_with_the_same_letters_pair_however_they_are_composed(tmp_path):
    """macOS writes "ä" as two characters; a zip of it, unpacked elsewhere, has both ways."""
    composed, apart = "K\u00e4se", "Ka\u0308se"
    found, refused = read(
        write(tmp_path, {f"{apart}.wav": "", f"{composed}.txt": "two", "b.wav": "", "b.txt": "b"})
    )
    assert refused == []
    assert [(u.id, u.text) for u in found] == [(apart, "two"), ("b", "b")]
    both = {f"{name}.{end}": name for name in (composed, apart) for end in ("wav", "txt")}
    found, refused = read(write(tmp_path / "both", both))
    assert refused == []
    assert sorted((u.id, u.text) for u in found) == sorted([(apart, apart), (composed, composed)])


def test_transcripts_in_a_named_encoding(tmp_path):
    turkish = "g\u00fczel bir ak\u015fam"
    grid_1254 = grid(("ann", [(0, 1, turkish)])).encode("cp1254")
    files = {
        "a.wav": "",
        "a.txt": turkish.encode("cp1254"),
        "b.wav": "",
        "b.TextGrid": grid_1254,
        "c.wav": "",
    }
    root = write(
        tmp_path / "folder",
        files | {"c.srt": f"1\n00:00:00,000 --> 00:00:01,000\n{turkish}\n".encode()},
    )
    named = list(open_source(root, encoding="cp1254"))
    assert [getattr(item, "text", item) for item in named] == [turkish] * 3, (
        "and one in UTF-8 all the same"
    )
    reasons = [
        item.reason for item in open_source(root, encoding="") if not isinstance(item, Utterance)
    ]
    assert all("--encoding cp1254" in reason for reason in reasons)
    assert len(reasons) == 2
    root = write(
        tmp_path / "kaldi",
        {"wav.scp": "a a.wav\n", "text": b"a " + turkish.encode("cp1254"), "a.wav": ""},
    )
    assert [item.text for item in open_source(root, encoding="cp1254")] == [turkish]
    with pytest.raises(UsageError, match="--encoding: expected the name"):
        open_source(root, encoding="klingon")
