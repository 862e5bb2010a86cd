from __future__ import annotations

import random
import tracemalloc

import pytest
from made_sources import read, require_reasons, write

from ctc_align.corpus.sources import open_source
from ctc_align.corpus.utterance import Utterance
from ctc_align.errors import UsageError


def test_without_segments(tmp_path):
    files = {"wav.scp": '\ufeffb  wavs/b two.wav \na\t/abs/a\'s "x".flac\r\nc c.wav\n', "utt2spk": "c anna\na bert\n"}
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
    files = {"wav.scp": "r2 r2.wav\nr1 r1.wav\nunused u.wav\n", "text": "u2 two\nu1 one\nu4 four\nu3 three\n"}
    files["segments"] = "u1 r1 0.5 1.75\nu3 r2 0 -1\nu2 r1 1.75 3e0 1\nu4 r1 2 3 0\n"
    root = write(tmp_path, files | {"utt2spk": "u1 s1\nu2 s1\nu3 s2\nu4 s1\n"})
    found, refused = read(root)
    assert refused == []
    assert [(u.id, u.audio, u.text, u.offset_s, u.duration_s, u.channel, u.speaker, u.origin[-1]) for u in found] == [
        ("u1", f"{root}/r1.wav", "one", 0.5, 1.25, None, "s1", "1"),
        ("u3", f"{root}/r2.wav", "three", 0.0, None, None, "s2", "2"),
        ("u2", f"{root}/r1.wav", "two", 1.75, 1.25, 2, "s1", "3"),
        ("u4", f"{root}/r1.wav", "four", 2.0, 1.0, 1, "s1", "4"),
    ]


def test_nothing_is_run(tmp_path):
    evil = tmp_path / "evil"
    entries = [f"touch {evil} |", f"touch {evil}|", f"| touch {evil}", f"$(touch {evil})", f"`touch {evil}`"]
    entries += ["feats.ark:123", "feats.ark:9[0:1]", "https://example.org/a.wav", ""]
    lines = "".join(f"u{i} {entry}\n" for i, entry in enumerate(entries))
    root = write(tmp_path, {"wav.scp": lines, "text": "".join(f"u{i} x\n" for i in range(len(entries)))})
    found, refused = read(root)
    assert [utterance.id for utterance in found] == ["u3", "u4"]  # odd file names, and no more
    words = dict.fromkeys((1, 2, 3), "shell pipe") | dict.fromkeys((6, 7), "archive") | {8: "fetched", 9: "got nothing"}
    require_reasons(refused, {f"wav.scp, line {line}": said for line, said in words.items()})
    assert not evil.exists()


def test_every_line_that_is_of_no_use_is_named(tmp_path):
    root = write(
        tmp_path,
        {
            "wav.scp": "r1 r1.wav\nr2 cat r2 |\nr1 other.wav\n",
            "segments": "ok r1 0 1\nnotext r1 0 1\nempty r1 0 1\nnorec r9 0 1\npipe r2 0 1\nback r1 2 1\nnan r1 nan 1\n"
            "minus r1 -1 1\nfew r1 0\nok r1 1 2\nlatin r1 0 1\nchannel r1 0 1 A\n",
            "text": b"ok fine\nempty\nnorec x\npipe x\nback x\nnan x\nminus x\nfew x\nlatin \xe4\nchannel x\n"
            b"nowhere x\nok again\n\xff\xff x\n",
        },
    )
    found, refused = read(root)
    assert [utterance.id for utterance in found] == ["ok"]
    expected = {2: "no transcript", 3: "empty", 4: "r9", 5: "shell pipe", 6: "after the start", 7: "got 'nan'"}
    expected |= {8: "0 or more", 9: "behind the utterance", 10: "segments, line 1 has it", 11: "UTF-8", 12: "channel"}
    places = {f"segments, line {line}": words for line, words in expected.items()}
    places |= {"text, line 11": "no audio", "text, line 12": "text, line 1 has it already", "text, line 13": "UTF-8"}
    require_reasons(refused, places | {"wav.scp, line 3": "wav.scp, line 1 has it already"})


def test_any_order_is_right(tmp_path):
    numbers = list(range(3000))
    orders = random.Random(5)

    def shuffled(pattern: str) -> str:
        orders.shuffle(numbers)
        return "".join(pattern.format(n=number, rec=number % 100) + "\n" for number in numbers)

    files = {"segments": shuffled("u{n} r{rec} {n} {n}.5"), "text": shuffled("u{n} text {n}")}
    files |= {"utt2spk": shuffled("u{n} s{rec}"), "wav.scp": "".join(f"r{n} {n}.wav\n" for n in range(100))}
    found, refused = read(write(tmp_path, files))
    assert refused == []
    assert len(found) == 3000
    for utterance in found:
        number = int(utterance.id[1:])
        assert (utterance.text, utterance.offset_s) == (f"text {number}", number)
        assert (utterance.audio, utterance.speaker) == (f"{tmp_path}/{number % 100}.wav", f"s{number % 100}")


def test_paths_count_from_the_folder_or_as_kaldi_has_it_from_here(tmp_path, monkeypatch):
    root = write(tmp_path / "data", {"wav.scp": "a a.wav\nb b.wav\nc c.wav\n", "text": "a x\nb x\nc x\n"})
    write(root, {"a.wav": ""})
    write(tmp_path / "here", {"a.wav": "", "b.wav": ""})
    monkeypatch.chdir(tmp_path / "here")
    assert [utterance.audio for utterance in read(root)[0]] == [f"{root}/a.wav", "b.wav", f"{root}/c.wav"]


def test_memory_holds_hashes_and_no_text(tmp_path):
    count = 5_000
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
