"""Recordings with several audio tracks: which one is read, and what is said of the others."""

from __future__ import annotations

import logging
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import Any

import av
import numpy as np
import pytest
import soundfile
from corpus_runs import write_manifest
from made_models import LETTERS, tiny_folder
from made_sounds import babble
from rows import over_rows

from ctc_align.alignment.aligner import Aligner
from ctc_align.audio.loading import load_audio
from ctc_align.cli.notes import alignment_notes
from ctc_align.config import Settings, load_settings
from ctc_align.errors import AudioError, ConfigError
from ctc_align.files import read_alignment
from ctc_align.files.pages import choice_of
from ctc_align.types import Region, SoundChoice

RATE = 16000


def write_tracks(path: Path, *tracks: tuple[str, str, np.ndarray]) -> Path:
    """Write a media file with tracks (language, title, samples (n,) float32), and return its
    path."""
    with av.open(str(path), "w") as out:
        streams = []
        for language, title, _ in tracks:
            stream = out.add_stream(
                "aac" if path.suffix == ".mp4" else "flac", rate=RATE, layout="mono"
            )
            stream.metadata.update({"language": language, "title": title} if language else {})
            streams.append(stream)
        for stream, (_, _, samples) in zip(streams, tracks):
            if path.suffix == ".mp4":
                array, form = samples[None], "fltp"
            else:
                array, form = np.rint(samples[None] * 32767).astype(np.int16), "s16"
            for low in range(0, len(samples), 1024):
                frame = av.AudioFrame.from_ndarray(
                    np.ascontiguousarray(array[:, low : low + 1024]), form, "mono"
                )
                frame.sample_rate, frame.pts, frame.time_base = RATE, low, Fraction(1, RATE)
                out.mux(stream.encode(frame))
            out.mux(stream.encode(None))
    return path


def sounds() -> tuple[np.ndarray, np.ndarray]:
    return 0.3 * babble(2.0, 1), 0.3 * babble(2.0, 2)


def heard(path: Path, choice: SoundChoice, **part: float) -> int:
    """Return which of the `sounds`, from 1, is read."""
    audio = load_audio(path, choice=choice, **part)
    first = round(part.get("offset_s", 0.0) * RATE)
    same = [
        np.corrcoef(audio.samples, sound[first : first + len(audio.samples)])[0, 1]
        for sound in sounds()
    ]
    assert max(same) > 0.98
    assert audio.track == int(np.argmax(same)) + 1
    return audio.track


@over_rows("name", ["film.mkv", "film.mp4"])
def test_the_track_is_chosen_by_number_or_language(tmp_path: Path, name: str) -> None:
    english, german = sounds()
    path = write_tracks(tmp_path / name, ("eng", "", english), ("ger", "", german))
    rows = {
        SoundChoice(): 1,
        SoundChoice(language="fr"): 1,
        SoundChoice(language="de-AT"): 2,
        SoundChoice(track="2"): 2,
        SoundChoice(track="1", language="de"): 1,
        SoundChoice(track="German"): 2,
        SoundChoice(track="deu", language="en"): 2,
    }
    for choice, track in rows.items():
        assert heard(path, choice) == track, choice
    # parts are read by seeking, by readers that stay open: one for each track
    for track in ("1", "2", "1"):
        for offset_s in (1.0, 0.25):
            assert heard(path, SoundChoice(track=track), offset_s=offset_s, duration_s=0.5) == int(
                track
            )


def test_the_tracks_are_named_unless_one_is_chosen(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    english, german = sounds()
    path = write_tracks(
        tmp_path / "a.mkv", ("eng", "", english), ("", "", english), ("ger", "Kommentar", german)
    )
    caplog.set_level(logging.INFO)
    load_audio(path, choice=SoundChoice(language="de"))
    [record] = caplog.records
    assert record.levelname == "NOTE", "the choice is right"
    assert (
        '3 audio tracks (1 English, 2 no language given, 3 German "Kommentar"); track 3 is used'
        in record.message
    )
    assert "--track" in record.message
    caplog.clear()
    load_audio(path, choice=SoundChoice(track="2"))
    assert load_audio(path, choice=SoundChoice(track="kommentar")).track == 3
    load_audio(write_tracks(tmp_path / "b.mkv", ("eng", "", english)))
    assert not caplog.records
    twice = write_tracks(tmp_path / "c.mkv", ("ger", "Film", english), ("ger", "Kommentar", german))
    for choice in (SoundChoice(track="de"), SoundChoice(language="de")):
        caplog.clear()
        assert heard(twice, choice) == 1
        assert "track 1 is used" in caplog.text
        assert caplog.records[0].levelname == "WARNING", "it may be the other one"


def test_tracks_that_are_not_there(tmp_path: Path) -> None:
    english, german = sounds()
    path = write_tracks(tmp_path / "a.mkv", ("eng", "", english), ("ger", "", german))
    there = r"got a recording with 2 audio tracks \(1 English, 2 German\): choose with --track N"
    rows = {
        "3": "audio track 3",
        "fra": "an audio track in French",
        "Gag reel": 'an audio track with the title "Gag reel"',
    }
    for track, expected in rows.items():
        with pytest.raises(AudioError, match=f"expected {expected}, {there}"):
            load_audio(path, choice=SoundChoice(track=track))
    single = write_tracks(tmp_path / "b.mkv", ("eng", "", english))
    with pytest.raises(
        AudioError, match=r"in German, got a recording with 1 audio track \(English\)"
    ):
        load_audio(single, choice=SoundChoice(track="de"))
    unnamed = write_tracks(tmp_path / "c.mkv", ("", "", english))
    assert load_audio(unnamed, choice=SoundChoice(track="de", language="fr")).track == 0
    for wrong in ("0", "-1", "2 German", "!"):
        with pytest.raises(
            ConfigError, match="track: expected a number from 1, a language or a title"
        ):
            load_settings(track=wrong)
    assert Settings(track="de", channel="2").sound_choice("en") == SoundChoice(2, "de", "en")


def test_commands_align_the_track_of_the_language_and_name_the_others(cli, tmp_path: Path) -> None:
    model = tiny_folder(tmp_path / "tiny", LETTERS)
    english, german = sounds()
    path = write_tracks(tmp_path / "film.mkv", ("eng", "", english), ("ger", "", german))
    (tmp_path / "film.txt").write_text("one two", "utf-8")
    alignments = {}
    for track, given in (("2", ("--language", "de")), ("1", ()), ("2", ("--track", "German"))):
        out = tmp_path / "-".join(("out", *given))
        result = cli(
            "align",
            path,
            tmp_path / "film.txt",
            "--model",
            model,
            "--out-dir",
            out,
            "--format",
            "json",
            *given,
        )
        assert ("2 audio tracks (1 English, 2 German)" in result.stderr) == ("--track" not in given)
        alignments[given] = read_alignment(out / "film.json")
        assert alignments[given].config["track"] == track
        assert choice_of(alignments[given]) == SoundChoice(None, track)
    assert Aligner(str(model)).realign(alignments["--track", "German"], path).config["track"] == "2"
    gone = {"status": "skipped", "start_s": None, "end_s": None, "confidence": None, "tokens": ()}
    words = tuple(replace(word, **gone) for word in alignments[()].words)
    lost = replace(
        alignments[()], words=words, fit="none", regions=(Region("misfit", reason="not found"),)
    )
    assert any("Try --track N" in note for note in alignment_notes(lost))

    for track, given in (("2", ("--language", "de")), ("2", ("--track", "2"))):
        rows = [
            {"audio_filepath": "film.mkv", "text": "one two", "utterance": f"u{at}", "offset": at}
            for at in (0, 1)
        ]
        source, out = (
            write_manifest(tmp_path / "corpus.jsonl", rows),
            tmp_path / "-".join(("corpus", *given)),
        )
        result = cli(
            "corpus",
            source,
            "--model",
            model,
            "--workers",
            1,
            "--out-dir",
            out,
            "--cut-audio",
            *given,
        )
        assert result.stderr.count("2 audio tracks") == ("--track" not in given)
        assert read_alignment(out / "u1.json").config["track"] == track
        samples, _ = soundfile.read(out / "cuts" / "u1.flac")
        assert np.corrcoef(samples, german[RATE:])[0, 1] > 0.98


def test_scores_are_of_the_track_in_the_language_of_the_transcript(
    cli: Any, tmp_path: Path
) -> None:
    german, english = sounds()
    path = write_tracks(tmp_path / "film.mkv", ("ger", "", german), ("eng", "", english))
    assert "track 2 is used" in cli("score", path, "--text", "one two").stderr
    assert (
        "track 1 is used"
        in cli("score", path, "--text", "Das ist nicht die Frage, und das ist auch gut.").stderr
    )
    aligner = Aligner()
    assert aligner.score(path, "one two") == pytest.approx(
        aligner.score((english, RATE), "one two"), rel=0.01
    )
