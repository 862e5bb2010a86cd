"""Models of strangers as they come from PyPI: hama (an ONNX file of IPA) and snfa (Japanese phones,
its log-probs)."""

from __future__ import annotations

import logging
import shutil
from collections.abc import Callable
from importlib.resources import files
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from made_sounds import babble

from ctc_align.alignment.aligner import Aligner, split_transcript
from ctc_align.audio.loading import load_audio
from ctc_align.config import Settings
from ctc_align.evaluate import evaluate
from ctc_align.files import read_alignment
from ctc_align.models import load_model
from ctc_align.training.calibration_fitting import calibrate
from ctc_align.training.labelled_speech import read_labelled
from ctc_align.types import SKIPPED, Alignment, Audio

ROOT = Path(__file__).resolve().parents[2]
EXAMPLES = ROOT / "examples"
RATE = 16000
TOML = 'features = "waveform"\nframe_shift_s = 0.02\nword_separator = "<wb>"\n'


@pytest.fixture(scope="module")
def hama() -> Any:
    return pytest.importorskip(
        "hama", reason="needs the package hama, which the extra [test] brings"
    )


@pytest.fixture(scope="module")
def folder(hama: Any, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The ONNX file of hama and its vocabulary, described by three lines."""
    pytest.importorskip("onnxruntime", reason="needs the extra [onnx]")
    folder = tmp_path_factory.mktemp("hama")
    shutil.copy(str(files("hama.assets") / "asr_waveform_fp16.onnx"), folder / "model.onnx")
    tokens = [*hama.Vocabulary.load(None).decoder, "<wb>", "<blank>"]
    (folder / "tokens.txt").write_text("\n".join(tokens), encoding="utf-8")
    (folder / "model.toml").write_text(TOML, encoding="utf-8")
    return folder


@pytest.fixture(scope="module")
def aligner_of(hama: Any, folder: Path) -> Callable[..., Aligner]:
    """Returns aligners that read the words of texts by hama's own letter-to-phone."""
    letter_to_phone = hama.G2PModel()

    def make(*texts: str, **settings: Any) -> Aligner:
        spoken = {
            part
            for text in texts
            for word in split_transcript(Aligner(None), text, "").words
            for part in word.spoken.split()
        }
        lexicon = folder / f"{len(spoken)}.dict"
        phones = {
            part: [each.phoneme for each in letter_to_phone.predict(part).alignments]
            for part in sorted(spoken)
        }
        lines = [f"{part}\t{' '.join(filter(str.strip, phones[part]))}" for part in phones]
        lexicon.write_text("\n".join(lines), encoding="utf-8")
        return Aligner(
            f"onnx:{folder / 'model.onnx'}",
            device="cpu",
            lexicon=lexicon,
            settings=Settings(**settings),
        )

    return make


def test_log_probs_of_hama_are_its_own(hama: Any, folder: Path) -> None:
    model = load_model(f"onnx:{folder / 'model.onnx'}", device="cpu")
    theirs = hama.ASRModel()
    for seconds in (2.0, 3.3):
        samples = babble(seconds)
        found = model.emissions(Audio(samples, RATE))
        fed = {"waveform": samples[None], "waveform_lengths": np.array([len(samples)])}
        log_probs, lengths = theirs.session.run(["log_probs", "out_lengths"], fed)
        expected = torch.from_numpy(log_probs[0, : int(lengths[0])]).float().log_softmax(-1)
        assert len(found.log_probs) == len(expected)
        torch.testing.assert_close(found.log_probs, expected, atol=1e-4, rtol=0)
    assert (found.vocab[found.blank], found.frame_shift_s, len(found.vocab)) == (
        "<blank>",
        0.02,
        191,
    )
    assert "|" in found.vocab, "whatever it calls the token between words"


def test_hama_takes_thirty_seconds_and_is_told_of(
    folder: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Its positions end there: longer sound goes through it in pieces."""
    model = load_model(f"onnx:{folder / 'model.onnx'}", device="cpu")
    samples = babble(40.0)
    with caplog.at_level(logging.WARNING):
        found = model.emissions(Audio(samples, RATE)).log_probs
    assert len(found) == 2001
    assert "takes at most 30 s at once (1500 frames)" in caplog.text
    alone = model.emissions(Audio(samples[: 29 * RATE], RATE)).log_probs
    assert float((found[:800].exp() - alone[:800].exp()).abs().max()) < 0.1, (
        "but for the context of a piece"
    )


def test_hama_aligns_the_example(aligner_of: Callable[..., Aligner], tmp_path: Path) -> None:
    text = (EXAMPLES / "interview.txt").read_text("utf-8")
    alignment = aligner_of(text).align(EXAMPLES / "interview.flac", text)
    assert alignment.skipped == 0
    alignment.save(tmp_path / "interview.json")
    edges = evaluate(tmp_path / "interview.json", EXAMPLES / "corrected" / "interview.TextGrid")
    assert edges.both.mae_ms < 70
    assert abs(edges.both.median_signed_ms) < 20, "spikes lie in the middle of words"


@pytest.fixture(scope="module")
def gold(speech_data: Path) -> Path:
    return speech_data / "gold-dev"


@pytest.mark.data
def test_no_spoken_word_is_skipped_by_hama(aligner_of: Callable[..., Aligner], gold: Path) -> None:
    """Exact transcripts: searching them finds what is there, with the same loss as without a
    search."""
    clips = sorted((gold / "corpus").rglob("*.wav"))[::8]
    texts = [clip.with_suffix(".txt").read_text("utf-8") for clip in clips]
    searched, exact = (
        aligner_of(*texts, match=match).align_batch(list(zip(clips, texts)))
        for match in ("auto", "exact")
    )
    assert [word.text for each in searched for word in each.words if word.status == SKIPPED] == []
    assert [each.loss for each in searched] == pytest.approx([each.loss for each in exact])
    assert all((each.loss_per_token or 9.0) < 2.0 for each in searched)


@pytest.mark.data
def test_hama_is_sure_of_what_is_said_and_of_nothing_else(
    aligner_of: Callable[..., Aligner], gold: Path
) -> None:
    """Its words are assessed on the scale of each recording; 200 right words say it within some
    percent."""
    clips = sorted((gold / "corpus").rglob("*.wav"))[3::4]
    texts = [clip.with_suffix(".txt").read_text("utf-8") for clip in clips]
    aligner = aligner_of(*texts, match="exact")
    own = aligner.align_batch(list(zip(clips, texts)))
    assert np.mean([(word.confidence or 0.0) > 0.5 for each in own for word in each.words]) > 0.95
    assert np.mean([each.fit == "good" for each in own]) > 0.85
    others = [
        each
        for each in aligner.align_batch(list(zip(clips, texts[1:] + texts[:1])), "return")
        if isinstance(each, Alignment)
    ]
    assert len(others) > len(clips) / 2
    assert (
        np.mean([(word.confidence or 0.0) > 0.5 for each in others for word in each.words]) < 0.02
    )
    assert {each.fit for each in others} <= {"none", "poor"}


@pytest.mark.data
def test_constants_for_hama_hold_for_speakers_left_out(
    aligner_of: Callable[..., Aligner], gold: Path
) -> None:
    """CTC's spikes of a stranger: calibrated on some speakers, measured on others."""
    labelled = list(read_labelled(gold / "reference", gold / "corpus"))[::5]
    report = calibrate(aligner_of(*(each.text for each in labelled)), labelled, learns=False)
    assert report.failed == ()
    assert report.before.mae_ms > 38
    found = report.trials[report.chosen].errors
    assert found.mae_ms < 26
    assert found.within_20_ms > 48
    assert report.calibration.blank_cost > 0
    assert report.calibration.spike_gap_s > 0


WORDS = {
    "kore": "k o r e",
    "wa": "w a",
    "karada": "k a r a d a",
    "ni": "n i",
    "warui": "w a r u i",
    "tabemono": "t a b e m o n o",
    "desu": "d e s u",
}
CLIP = "languages/audio/commonvoice_ja/common_voice_ja_21789627.opus"


def japanese(clip: Path, folder: Path) -> tuple[Path, Path, Path]:
    """Log-probs of snfa, its vocabulary as it is (`pad` is the blank), and a lexicon."""
    snfa = pytest.importorskip("snfa", reason="needs the package snfa")
    from snfa.stft import mel_spectrogram

    network = snfa.Aligner()
    samples = load_audio(clip, network.sr).samples
    options = {
        "sr": network.sr,
        "n_fft": network.n_fft,
        "hop_length": network.hop_size,
        "n_mels": network.n_mels,
    }
    scores = network.forward(mel_spectrogram(samples, p=2, log=True, **options).T)
    np.save(folder / "clip.npy", torch.from_numpy(scores).float().log_softmax(-1).numpy())
    (folder / "snfa.vocab").write_text("\n".join(network.phone_set), encoding="utf-8")
    lexicon = folder / "snfa.dict"
    lexicon.write_text(
        "".join(f"{word}\t{phones}\n" for word, phones in WORDS.items()), encoding="utf-8"
    )
    return folder / "clip.npy", folder / "snfa.vocab", lexicon


@pytest.mark.data
@pytest.mark.skipif(
    np.lib.NumpyVersion(np.__version__) < "2.0.0", reason="snfa's weights were written by NumPy 2"
)
def test_snfa_s_log_probs_align_japanese(speech_data: Path, tmp_path: Path, cli: Any) -> None:
    log_probs, vocab, lexicon = japanese(speech_data / CLIP, tmp_path)
    (tmp_path / "clip.txt").write_text(" ".join(WORDS), encoding="utf-8")
    given = ("--vocab", vocab, "--frame-shift", 0.02, "--lexicon", lexicon, "--format", "json")
    cli(log_probs, tmp_path / "clip.txt", *given, "--out-dir", tmp_path, code=0)
    found = read_alignment(tmp_path / "clip.json")
    assert [word.status for word in found.words] == ["aligned"] * len(WORDS)
    assert (found.loss_per_token or 9.0) < 1.2
    ours = {
        word.text: word.start_s
        for word in (
            Aligner("universal", device="cpu")
            .align(speech_data / CLIP, "これは体に悪い食べ物です。")
            .words
        )
    }
    starts = [ours[letter] for letter in "こは体に悪食で"]
    assert [word.start_s for word in found.words] == pytest.approx(starts, abs=0.15), (
        "as `universal` hears them"
    )
