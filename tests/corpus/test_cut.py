"""Cut audio: to the sample, phrase by phrase, all cuts or none, and never in place of an input."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import soundfile
from hypothesis import given
from made_media import Coding, write_media
from made_sounds import babble
from sample_alignments import aligned, make_alignment, random_alignments

from ctc_align.corpus.outputs.layout import MARGIN_S, Layout, cut_audio, phrases
from ctc_align.errors import AudioError, OutputError
from ctc_align.sources.utterance import Utterance
from ctc_align.types import AlignedWord, Alignment

RATE = 22050
OFFSET_S, DURATION_S = 1.0, 4.0
TEXT = "We got — there. Then nothing, at all."


def noise(shape: tuple[int, ...]) -> np.ndarray:
    return np.random.default_rng(0).integers(-32768, 32767, shape).astype(np.int16)


@pytest.fixture
def sound(tmp_path) -> Path:
    path = tmp_path / "in" / "talk.wav"
    path.parent.mkdir()
    soundfile.write(path, noise((6 * RATE, 2)), RATE)
    return path


def utterance_of(sound: Path, **changes: object) -> Utterance:
    fields = {
        "id": "a/talk",
        "output": "a/talk",
        "audio": str(sound),
        "text": TEXT,
        "origin": "line 1",
    }
    return Utterance(**{**fields, "offset_s": OFFSET_S, "duration_s": DURATION_S, **changes})


def alignment_of(status: str = "unspoken") -> Alignment:
    """Three phrases: pauses of 0.6 and 1.6 s; a word without times in the first pause's place."""
    before = (
        aligned("We", 0.5, 0.7, 0),
        aligned("got", 0.7, 1.0, 3),
        AlignedWord("—", "", 7, 8, status),
    )
    within = (
        aligned("there.", 1.6, 1.8, 9),
        aligned("Then", 1.9, 2.0, 16),
        aligned("nothing,", 2.0, 2.2, 21),
    )
    words = (*before, *within, aligned("at", 3.8, 3.9, 30), aligned("all.", 3.9, 3.95, 33))
    return make_alignment(words, DURATION_S, text=TEXT, offset_s=OFFSET_S)


def cut(sound: Path, out: Path, *, by_pause: bool = False, **changes: object) -> list[Path]:
    layout = Layout(str(out), cut="pause" if by_pause else "utterance")
    return cut_audio(alignment_of(), utterance_of(sound, **changes), layout)


def samples_of(path: Path) -> np.ndarray:
    return soundfile.read(path, dtype="int16", always_2d=True)[0]


def test_an_utterance_to_the_sample(sound, tmp_path):
    paths = cut(sound, tmp_path / "out")
    assert paths == [tmp_path / "out/cuts/a/talk.flac", tmp_path / "out/cuts/a/talk.txt"]
    info = soundfile.info(str(paths[0]))
    assert (info.format, info.subtype, info.samplerate, info.channels) == (
        "FLAC",
        "PCM_16",
        RATE,
        2,
    )
    np.testing.assert_array_equal(samples_of(paths[0]), noise((6 * RATE, 2))[RATE : 5 * RATE])
    assert paths[1].read_text() == "We got — there. Then nothing, at all.\n"


def test_phrases_lie_between_pauses(sound, tmp_path):
    paths = cut(sound, tmp_path / "out", by_pause=True)
    assert [path.name for path in paths[::2]] == [
        "talk-0001.flac",
        "talk-0002.flac",
        "talk-0003.flac",
    ]
    assert [path.read_text() for path in paths[1::2]] == [
        "We got —\n",
        "there. Then nothing,\n",
        "at all.\n",
    ]
    edges = [
        (1.25, 2.25),
        (2.35, 3.45),
        (4.55, 5.0),
    ]  # a quarter of a second about the words, not beyond the audio
    for path, (start_s, end_s) in zip(paths[::2], edges):
        wanted = noise((6 * RATE, 2))[round(start_s * RATE) : round(end_s * RATE)]
        np.testing.assert_array_equal(samples_of(path), wanted)


def test_a_short_pause_is_cut_in_its_middle():
    words = (aligned("a", 0.0, 1.0, 0), aligned("b", 1.4, 2.0, 2))
    first, second = phrases(make_alignment(words, 2.0), utterance_of(Path("x"), offset_s=0.0), 0.3)
    assert first.end_s == second.start_s == pytest.approx(1.2)


def test_phrases_hold_no_word_that_is_not_in_the_recording_and_end_where_the_text_goes_back():
    skipped = AlignedWord("x", "x", 2, 3, "skipped")
    words = (
        aligned("c", 2.0, 2.4, 0),
        skipped,
        aligned("d", 2.4, 3.0, 4),
        aligned("a", 0.2, 1.0, 6),
    )
    first, second = phrases(
        make_alignment(words, 4.0, text="c x d a"), utterance_of(Path("x"), offset_s=0.0), 0.3
    )
    assert (first.label, first.start_s, first.end_s) == ("c d", 1.75, 3.25)
    assert (second.label, second.start_s, second.end_s) == ("a", 0.0, 1.25)


def test_nothing_is_cut_where_a_word_may_have_been_spoken_unrecognised():
    texts = [part.label for part in phrases(alignment_of("unknown"), utterance_of(Path("x")), 0.3)]
    assert texts == ["We got — there. Then nothing,", "at all."]


def test_without_any_aligned_word_the_utterance_is_one_phrase(sound, tmp_path):
    alignment = make_alignment((AlignedWord("—", "", 0, 1, "unspoken"),), DURATION_S)
    paths = cut_audio(alignment, utterance_of(sound, text="—"), Layout(str(tmp_path), cut="pause"))
    assert [path.name for path in paths] == ["talk-0001.flac", "talk-0001.txt"]
    assert len(samples_of(paths[0])) == 4 * RATE


@given(random_alignments())
def test_words_are_whole_and_text_is_complete(alignment):
    utterance = utterance_of(Path("x"), offset_s=0.0, text=alignment.text)
    cuts = phrases(alignment, utterance, 0.05)
    kept = [word.text for word in alignment.words if word.status != "skipped"]
    has_times = any(word.status == "aligned" for word in alignment.words)
    assert " ".join(cut.label for cut in cuts).split() == (
        kept if has_times else alignment.text.split()
    )
    at_s = 0.0
    for part in cuts:
        if not any(word.status == "aligned" for word in alignment.words):
            return
        assert part.start_s >= at_s - 1e-9
        assert part.end_s > part.start_s
        at_s = part.end_s
    for word in alignment.words:
        if word.start_s is not None:
            inside = [
                part
                for part in cuts
                if part.start_s - 1e-9 <= word.start_s and word.end_s <= part.end_s + 1e-9
            ]
            assert len(inside) == 1
            assert word.text in inside[0].label
    spoken = [word for word in alignment.words if word.start_s is not None]
    assert cuts[0].start_s >= spoken[0].start_s - MARGIN_S - 1e-9


@pytest.mark.parametrize(
    ("subtype", "format"),
    [("PCM_16", "FLAC"), ("PCM_24", "WAV"), ("FLOAT", "WAV"), ("DOUBLE", "WAV"), ("PCM_U8", "WAV")],
)
def test_sources_of_other_kinds(tmp_path, subtype, format):
    values = noise((RATE,))
    values = (values >> 8) << 8 if subtype == "PCM_U8" else values
    path = tmp_path / f"a.{format.lower()}"
    soundfile.write(path, values / 32768, RATE, subtype, format=format)
    paths = cut(path, tmp_path / "out", offset_s=0.25, duration_s=0.5)
    np.testing.assert_array_equal(
        samples_of(paths[0])[:, 0], values[round(0.25 * RATE) : round(0.75 * RATE)]
    )


def test_what_is_louder_than_16_bits_is_clipped_not_wrapped(tmp_path):
    soundfile.write(tmp_path / "a.wav", np.array([0.5, 1.5, -1.5, 0.25] * 1000), RATE, "FLOAT")
    paths = cut(tmp_path / "a.wav", tmp_path / "out", offset_s=0.0, duration_s=None)
    assert samples_of(paths[0])[:4, 0].tolist() == [16384, 32767, -32768, 8192]


def test_phrases_of_an_earlier_run_go(sound, tmp_path):
    cut(sound, tmp_path, by_pause=True)
    other = tmp_path / "cuts/a/talk-2-0003.flac"
    other.write_bytes(b"another's")
    one = make_alignment((aligned("We", 0.5, 0.7),))
    cut_audio(one, utterance_of(sound), Layout(str(tmp_path), cut="pause"))
    left = sorted(path.name for path in (tmp_path / "cuts/a").iterdir())
    assert left == ["talk-0001.flac", "talk-0001.txt", "talk-2-0003.flac"]


@pytest.mark.parametrize(("cut", "name"), [("utterance", "a.wav"), ("pause", "a-0001.flac")])
def test_no_input_is_replaced(tmp_path, cut, name):
    """The cuts of a run taken for the source of the next, into the same folder."""
    sound = tmp_path / "cuts" / name
    sound.parent.mkdir()
    soundfile.write(sound, noise((RATE,)), RATE)
    (sound.parent / "a.txt").write_text("the user's")
    layout = Layout(str(tmp_path), formats=("json",), cut=cut)
    before = {path.name: path.read_bytes() for path in sound.parent.iterdir()}
    with pytest.raises(OutputError, match=rf"{sound.stem}\.(flac|txt): is an input"):
        layout.place(
            0,
            Utterance("a", "a", str(sound), "One.", "line 1"),
            make_alignment((aligned("One.", 0.1, 0.4),), 1.0),
        )
    assert {path.name: path.read_bytes() for path in sound.parent.iterdir()} == before


def test_all_cuts_or_none(sound, tmp_path):
    (tmp_path / "cuts/a/talk-0003.txt").mkdir(parents=True)
    with pytest.raises(OutputError, match=r"talk-0003\.txt: writing failed"):
        cut(sound, tmp_path, by_pause=True)
    assert [path.name for path in (tmp_path / "cuts/a").iterdir()] == ["talk-0003.txt"]


def test_a_full_disk_leaves_nothing(sound, tmp_path, monkeypatch):
    def full(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Path, "write_bytes", full)
    with pytest.raises(OutputError, match=r"talk\.flac: writing failed \(No space left"):
        cut(sound, tmp_path)
    assert list((tmp_path / "cuts/a").iterdir()) == []


@pytest.mark.parametrize(
    ("content", "changes", "says"),
    [
        (None, {}, "no such audio file"),
        (b"no sound" * 100, {}, "expected audio"),
        (noise((6 * RATE, 2)), {"offset_s": 7.0}, "got the recording's end"),
        (noise((6 * RATE, 2)), {"channel": 3}, "expected channel 3, got a recording of 2"),
        (noise((RATE, 9)), {"offset_s": 0.0, "duration_s": 0.5}, "FLAC"),
    ],
)
def test_what_cannot_be_cut(tmp_path, content, changes, says):
    path = tmp_path / "a.wav"
    if isinstance(content, bytes):
        path.write_bytes(content)
    elif content is not None:
        soundfile.write(path, content, RATE)
    with pytest.raises(AudioError, match=says):
        cut(path, tmp_path / "out", **changes)
    assert not list((tmp_path / "out").rglob("*.*"))


def test_a_name_that_is_too_long_is_this_utterances_fault(sound, tmp_path):
    with pytest.raises(OutputError, match="too long") as caught:
        cut(sound, tmp_path, output="x" * 252)
    assert isinstance(caught.value.__cause__, OSError)


def test_the_checks_see_a_sample_too_much(sound, tmp_path, monkeypatch):
    monkeypatch.setattr(
        "ctc_align.corpus.outputs.layout.seconds_to_samples", lambda s, rate: round(s * rate) + 1
    )
    with pytest.raises(AssertionError):
        test_an_utterance_to_the_sample(sound, tmp_path)


def test_media_files_are_cut_by_the_players_clock(tmp_path):
    both = np.stack([babble(5.0, 1), babble(5.0, 2)], axis=1)
    sound = write_media(tmp_path / "a.m4a", [(0.0, both)], 16000, Coding("aac", "ipod"))
    for channel, wanted in ((None, both), (2, both[:, 1:])):
        paths = cut(sound, tmp_path / f"out {channel}", by_pause=True, channel=channel)
        for path, (start_s, end_s) in zip(paths[::2], [(1.25, 2.25), (2.35, 3.45), (4.55, 5.0)]):
            samples, part = (
                samples_of(path) / 32768,
                wanted[round(start_s * 16000) : round(end_s * 16000)],
            )
            assert samples.shape == part.shape
            assert np.corrcoef(samples.ravel(), part.ravel())[0, 1] > 0.98
