"""How well a transcript fits its recording, and where the two disagree."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from alignment_checks import check

import ctc_align
from ctc_align.alignment import confidence
from ctc_align.alignment import fit as module
from ctc_align.alignment.aligner import Aligner, pronounce_transcript
from ctc_align.alignment.confidence import spike_confidence
from ctc_align.alignment.ctc_path import Spans
from ctc_align.alignment.fit import (
    MUSIC,
    NOT_FOUND,
    SILENCE,
    SPEECH,
    fit_of,
    part_of_text,
    regions_of,
    sound_kinds,
    unexplained_sounds,
)
from ctc_align.audio.loading import load_audio
from ctc_align.config import Settings
from ctc_align.files import from_dict, read_alignment, to_dict
from ctc_align.models.confidence_network import FitLimits
from ctc_align.types import (
    AlignedToken,
    AlignedWord,
    Alignment,
    BookPlace,
    Emissions,
    Region,
    SourceCue,
    Subtitles,
)

DEMO = Path(ctc_align.__file__).parent / "demo"
LIMITS = FitLimits(good_loss=2.0, doubtful_loss=3.0, good_share=0.9, doubtful_share=0.6)


def words_of(confidences: Sequence[float], *, each_s: float = 0.4) -> list[AlignedWord]:
    """Words of four tokens in a row, `each_s` long."""
    token = AlignedToken("a", 0.0, 0.1, 0.5)
    return [
        AlignedWord(
            "word",
            "word",
            5 * i,
            5 * i + 4,
            "aligned",
            i * each_s,
            (i + 1) * each_s,
            confidence,
            (token,) * 4,
        )
        for i, confidence in enumerate(confidences)
    ]


@pytest.mark.parametrize(
    ("confidences", "loss", "fit"),
    [
        ([0.9] * 10, 1.0, "good"),
        ([0.9] * 10, 2.5, "doubtful"),
        ([0.9] * 8 + [0.1] * 2, 1.0, "doubtful"),
        ([0.9] * 10, 3.5, "poor"),
        ([0.9] * 5 + [0.1] * 5, 2.5, "poor"),
        ([0.1] * 10, 2.5, "poor"),
        ([0.1] * 2, 3.5, "poor"),
    ],
)
def test_fit_by_loss_and_by_the_share_of_likely_words(
    confidences: list[float], loss: float, fit: str
) -> None:
    assert fit_of(words_of(confidences), (), loss, LIMITS) == fit


def test_what_is_said_without_words_and_words_without_time() -> None:
    assert fit_of(words_of([0.9] * 10), [(4.0, 4.2)], 1.0, LIMITS) == "good"
    assert fit_of(words_of([0.9] * 10), [(4.0, 4.2), (5.0, 6.0)], 1.0, LIMITS) == "doubtful"
    regions = regions_of(words_of([0.1] * 3, each_s=0.12), [(2.0, 3.0, "speech")])
    assert [(region.kind, region.start_s) for region in regions] == [
        ("not_spoken", 0.0),
        ("unexplained", 2.0),
    ]
    assert regions[1].char_start is None


@pytest.mark.parametrize(
    ("confidences", "runs"),
    [
        ([0.9, 0.1, 0.9], []),
        ([0.9, 0.1, 0.1, 0.9], [(2, 3)]),
        ([0.1, 0.1, 0.9, 0.1], [(1, 4)]),
        ([0.1, 0.1, 0.9, 0.9, 0.1, 0.1], [(1, 2), (5, 6)]),
    ],
)
def test_words_in_a_row_that_are_unlikely_are_a_region(
    confidences: list[float], runs: list[tuple[int, int]]
) -> None:
    regions = regions_of(words_of(confidences), ())
    assert [region.kind for region in regions] == ["misfit"] * len(runs)
    for region, (first, last) in zip(regions, runs):
        assert f"words {first}–{last} " in region.reason
        assert (region.char_start, region.char_end) == (5 * (first - 1), 5 * (last - 1) + 4)
        assert (region.start_s, region.end_s) == pytest.approx(((first - 1) * 0.4, last * 0.4))


@pytest.fixture(scope="module")
def demo() -> tuple[np.ndarray, str]:
    return (
        load_audio(DEMO / "demo.flac", 16000).samples,
        (DEMO / "demo.txt").read_text("utf-8").strip(),
    )


@pytest.fixture(scope="module")
def whole(english: Aligner, demo: tuple[np.ndarray, str]) -> Alignment:
    return english.align((demo[0], 16000), demo[1])


def test_an_exact_transcript_fits_well_in_pieces_too(
    whole: Alignment, english, demo, monkeypatch
) -> None:
    assert (whole.fit, whole.regions, whole.unexplained, whole.skipped) == ("good", (), (), 0)
    assert min(word.confidence or 0.0 for word in whole.words) > 0.5
    monkeypatch.setattr(confidence, "SUMMED_FRAMES", 64)
    assert english.align((demo[0], 16000), demo[1]).words == whole.words


def test_a_sentence_that_is_not_spoken_is_a_region(
    english: Aligner, demo: tuple[np.ndarray, str]
) -> None:
    extra = "Nobody in the village remembered why the old bridge had been painted yellow."
    alignment = english.align((demo[0], 16000), f"{demo[1]} {extra}")
    check(alignment)
    assert alignment.fit in ("doubtful", "poor")
    (region,) = [region for region in alignment.regions if region.kind != "unexplained"]
    wanted = (len(demo[1]) + 1, len(alignment.text))
    # "text, or in 1999." before it was moved to make room.
    assert wanted[0] - 25 < (region.char_start or 0) <= wanted[0]
    assert region.char_end == wanted[1]


@pytest.mark.parametrize("kind", ["noise", "chords"])
def test_without_speech_no_word_has_a_time(
    english: Aligner, demo: tuple[np.ndarray, str], kind: str
) -> None:
    at_s = np.arange(7 * 16000) / 16000
    noise = np.random.default_rng(0).standard_normal(len(at_s)) * 0.05
    chords = sum(
        np.sin(2 * np.pi * hertz * at_s) * np.exp(-(at_s % 0.5) * 4)
        for hertz in (220, 277, 330, 440, 554)
    )
    sound = (noise if kind == "noise" else 0.05 * np.asarray(chords)).astype(np.float32)
    alignment = english.align((sound, 16000), demo[1])
    check(alignment)
    assert alignment.fit == "none"
    assert {word.status for word in alignment.words} == {"skipped"}
    (region,) = alignment.regions
    assert (region.kind, region.char_start, region.char_end) == ("misfit", 0, len(demo[1]))


def test_an_exact_match_places_all_words_without_confidence(
    english: Aligner, demo: tuple[np.ndarray, str]
) -> None:
    exact = Aligner(device="cpu", settings=replace(english.settings, match="exact"))
    noise = (np.random.default_rng(0).standard_normal(7 * 16000) * 0.05).astype(np.float32)
    alignment = exact.align((noise, 16000), demo[1])
    check(alignment)
    assert alignment.fit == "none"
    assert {word.status for word in alignment.words} == {"aligned"}
    assert max(word.confidence or 0.0 for word in alignment.words) < 0.1
    assert Settings().match == "auto"


def test_a_text_of_another_recording_is_told_where_there_are_log_probs_alone(
    english: Aligner,
) -> None:
    heard = replace(english.emissions(DEMO / "demo.flac"), states=None)
    aligner = Aligner(None)
    other = "Nobody knows why seven old ships never came back to this harbour, or who was on board."
    assert [region.reason for region in aligner.align(heard, other).regions] == [NOT_FOUND]
    assert not aligner.align(heard, (DEMO / "demo.txt").read_text("utf-8")).regions


# Speech that no word explains, and words that are not there.


def emissions(speech: list[tuple[int, int]], frames: int = 200) -> Emissions:
    """States of one sound and silence, which fit as told."""
    states = torch.zeros(frames, 2)
    states[:, 0] = -5
    for first, last in speech:
        states[first:last, 0] = 5
    return Emissions(torch.zeros(frames, 2), ("-", "a"), 0.01, states=states)


def unexplained(emissions: Emissions, words: list[AlignedWord]) -> tuple[tuple[float, float], ...]:
    return tuple(
        (start_s, end_s)
        for start_s, end_s, kind in unexplained_sounds(emissions, words)
        if kind == "speech"
    )


def word(start_s: float, end_s: float) -> AlignedWord:
    return AlignedWord("a", "a", 0, 1, start_s=start_s, end_s=end_s, confidence=1.0)


def test_only_speech_between_words_is_told() -> None:
    heard = emissions([(10, 60), (80, 130), (150, 185)])
    assert unexplained(heard, [word(0.1, 0.6), word(0.8, 1.3)]) == ((1.5, 1.85),)
    assert unexplained(heard, [word(0.1, 0.6), word(1.5, 1.85)]) == ((0.8, 1.3),)
    assert unexplained(heard, []) == ((0.1, 0.6), (0.8, 1.3), (1.5, 1.85))
    late = replace(emissions([(50, 120)]), first_frame_s=0.1)
    assert unexplained(late, []) == ((0.6, 1.3),)
    assert unexplained(late, [word(0.55, 1.4)]) == ()


def test_what_is_clear_speech_and_long_enough() -> None:
    assert unexplained(emissions([(50, 60)]), []) == ()
    quiet = emissions([(50, 120)])
    quiet.states[:, 0].clamp_(max=1.0)
    assert unexplained(quiet, []) == ()
    assert unexplained(replace(quiet, states=None), []) == ()
    empty = Emissions(torch.zeros(0, len(LETTERS)), LETTERS, SHIFT_S)
    assert unexplained_sounds(empty, []) == ()


def test_words_that_are_missing_or_wrong_are_told(english, demo, whole) -> None:
    missing = english.align((demo[0], 16000), demo[1].split("where")[0])
    *_, last = missing.unexplained
    assert last[1] > whole.words[-1].start_s
    back = from_dict(json.loads(json.dumps(to_dict(missing))))
    assert np.allclose(back.unexplained, missing.unexplained, atol=1e-5)
    wrong = english.align((demo[0], 16000), demo[1].replace("text", "milk"))
    assert (wrong.words[13].confidence or 0.0) < 0.3 * (whole.words[13].confidence or 0.0)
    marked = to_dict(replace(wrong, config={**wrong.config, "min_confidence": 0.5}))
    assert [one["text"] for one in marked["words"] if one.get("doubtful")] == ["milk,"]


@pytest.mark.parametrize(("setting", "value"), [("SPEECH_NATS", 20.0), ("STATES_WINDOW_S", 5.0)])
def test_the_checks_would_notice(
    setting: str, value: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, setting, value)
    with pytest.raises(AssertionError):
        test_only_speech_between_words_is_told()


# Speech, music and silence where no word is: of made emissions, for any vocabulary and rate of
# frames.
#
# On recordings: `research/inexact_transcripts.py`.

LETTERS = ("<blank>", "|", *"abcdefghijklmnop")
SHIFT_S = 0.02
WORDS_S = 20.0
"""The recording begins with words for so long."""


def made(
    parts: list[tuple[str, float]], rate_per_s: float = 10.0, vocab: tuple[str, ...] = LETTERS
) -> Emissions:
    """Return emissions of (kind, seconds) after words: clear tokens, faint ones in music, none in
    silence."""
    rng = np.random.default_rng(3)
    rows = []
    for kind, seconds in [(SPEECH, WORDS_S), *parts]:
        frames = round(seconds / SHIFT_S)
        p = np.zeros((frames, len(vocab)))
        if kind == SILENCE:
            p[:, 0] = 0.999
        else:
            p[:, 0] = 0.998 if kind == SPEECH else rng.uniform(0.6, 1.0, frames)
            every = max(1, round(1 / (rate_per_s * SHIFT_S) * (1 if kind == SPEECH else 3)))
            at = np.arange(every // 2, frames, every)
            p[at, 0] = 0.0
            p[at, rng.integers(2, len(vocab), len(at))] = (
                0.97 if kind == SPEECH else rng.uniform(0.3, 0.7, len(at))
            )
        p += ((1 - p.sum(1)) / len(vocab))[:, None]
        rows.append(p)
    log_probs = torch.from_numpy(np.log(np.concatenate(rows))).float()
    return Emissions(log_probs, vocab, SHIFT_S)


def words_in(emissions: Emissions) -> list[AlignedWord]:
    return [
        AlignedWord("w", "w", 0, 1, "aligned", at / 2, at / 2 + 0.5, 0.9)
        for at in range(int(2 * WORDS_S))
    ]


@pytest.mark.parametrize("rate_per_s", [10.0, 4.0], ids=["letters", "subwords"])
def test_speech_music_and_silence_are_told_apart(rate_per_s: float) -> None:
    emissions = made(
        [(SILENCE, 8.0), (MUSIC, 30.0), (SPEECH, 6.0), (MUSIC, 20.0), (SPEECH, 3.0)], rate_per_s
    )
    found = unexplained_sounds(emissions, words_in(emissions))
    assert [kind for *_, kind in found] == [
        MUSIC,
        SPEECH,
        MUSIC,
        SPEECH,
    ], "silence is nothing to explain"
    edges_s = [28.0, 58.0, 64.0, 84.0, 87.0]
    starts, ends = zip(*((start_s, end_s) for start_s, end_s, _ in found))
    assert starts == pytest.approx(edges_s[:-1], abs=1.0)
    assert ends == pytest.approx(edges_s[1:], abs=1.0)


def test_speech_goes_on_where_only_the_states_hear_it() -> None:
    emissions = made([(SPEECH, 4.0), (MUSIC, 3.0), (SPEECH, 4.0)])
    words = words_in(emissions)
    unsure = unexplained_sounds(emissions, words)
    assert [kind for *_, kind in unsure] == [SPEECH, SPEECH]
    states = torch.tensor([5.0, -5.0]).repeat(len(emissions), 1)
    ((start_s, end_s, kind),) = unexplained_sounds(replace(emissions, states=states), words)
    assert kind == SPEECH
    assert (start_s, end_s) == pytest.approx((WORDS_S, WORDS_S + 11.0), abs=1.0)


def test_of_music_separators_and_marks_nothing_is_speech() -> None:
    emissions = made([(MUSIC, 60.0)])
    kinds = sound_kinds(emissions, [(0, round(WORDS_S / SHIFT_S))])
    first = round(WORDS_S / SHIFT_S)
    assert kinds.speech(first, first + 3000) == []
    assert kinds.kind(first, first + 3000) == MUSIC
    assert kinds.kind(0, first) == SPEECH
    emissions = made([(SILENCE, 10.0)])
    log_probs = emissions.log_probs.clone()
    log_probs[1000::5] = torch.log_softmax(torch.eye(len(LETTERS))[1] * 20, 0)
    assert not unexplained_sounds(replace(emissions, log_probs=log_probs), words_in(emissions))


def test_what_looks_unlike_speech_in_pieces_and_in_blurred_models(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    emissions = made([(MUSIC, 10.0), (SPEECH, 10.0)])
    whole = sound_kinds(emissions)
    monkeypatch.setattr(module, "PIECE_FRAMES", 77)
    pieces = sound_kinds(emissions)
    for name in ("at", "clear", "silent", "likeness"):
        np.testing.assert_array_equal(getattr(pieces, name), getattr(whole, name))
    emissions = made([(MUSIC, 10.0)])
    blurred = torch.log_softmax(0.2 * emissions.log_probs, 1)
    assert sound_kinds(emissions).tells
    assert not sound_kinds(replace(emissions, log_probs=blurred)).tells
    states = torch.zeros(len(blurred), 4)
    states[1050:1300, 1] = 9.0
    found = unexplained_sounds(
        replace(emissions, log_probs=blurred, states=states), words_in(emissions)
    )
    assert found == ((pytest.approx(21.0), pytest.approx(26.0), SPEECH),)


# Confidence of tokens and words.

PROBS = torch.tensor([[0.7, 0.2, 0.1], [0.1, 0.6, 0.3], [0.1, 0.8, 0.1], [0.5, 0.1, 0.4]])


def spikes(*spans: tuple[int, int]) -> Spans:
    return Spans(*np.array(spans, np.int64).reshape(-1, 2).T)


@pytest.mark.parametrize(
    "shift", [(0.0, 0.0, 0.0, 0.0), (3.0, -2.0, 100.0, 0.5)], ids=["normalised", "not normalised"]
)
def test_the_highest_posterior_over_the_spike(shift: tuple[float, ...]) -> None:
    scores = PROBS.log() + torch.tensor(shift)[:, None]
    found = spike_confidence(scores.numpy(), (1, 2), spikes((1, 3), (3, 4)))
    np.testing.assert_allclose(found, [0.8, 0.4], rtol=1e-4 if any(shift) else 1e-6)
    assert spike_confidence(scores.numpy(), (), spikes()).tolist() == []


def test_impossible_and_certain_are_zero_and_one() -> None:
    x = np.array([[0.0, -np.inf], [-np.inf, 0.0]])
    assert spike_confidence(x, (1, 1), spikes((0, 1), (1, 2))).tolist() == [0.0, 1.0]


@pytest.mark.parametrize("given", ["log-probs", "spikes", "flat", "noisy"])
def test_log_probs_of_any_model_are_assessed_on_their_own_scale(
    english: Aligner, given: str
) -> None:
    demo = Path(ctc_align.__file__).parent / "demo"
    emissions = english.emissions(demo / "demo.flac")
    x = emissions.log_probs
    noise = 2 * torch.from_numpy(np.random.default_rng(1).normal(size=tuple(x.shape))).float()
    scores = {"flat": x / 2, "noisy": x + noise}.get(given, x)
    if given != "spikes":
        emissions = replace(emissions, log_probs=scores.log_softmax(1), states=None)
    settings = replace(
        english.settings, edges="spikes" if given == "spikes" else "auto", match="exact"
    )
    aligner = Aligner(device="cpu", settings=settings)
    own = aligner.align(emissions, (demo / "demo.txt").read_text("utf-8"))
    assert own.fit == "good"
    assert min(word.confidence or 0.0 for word in own.words) > 0.5
    other = aligner.align(
        emissions, "Nothing of what is written here has ever been read aloud by anybody."
    )
    assert other.fit in ("poor", "none")
    *_, second, _ = sorted(word.confidence or 0.0 for word in other.words)
    assert second < 0.5, "at most one of the 13 words is likely"


def test_words_with_half_of_their_sounds_wrong_are_doubted_and_not_lost(
    demo, tmp_path: Path
) -> None:
    english = Aligner("universal", device="cpu", settings=Settings(language="en"))
    ways = [
        own.pronunciations[0].labels
        for own in pronounce_transcript(english, demo[1], "demo")[1]
        if own.pronunciations
    ]
    names = [f"w{chr(ord('a') + index)}" for index in range(len(ways))]
    wrong = [
        " ".join("u" if index % 2 else sound for index, sound in enumerate(way)) for way in ways
    ]
    (tmp_path / "lexicon.dict").write_text(
        "".join(map("{}\t{}\n".format, names, wrong)), encoding="utf-8"
    )
    aligner = Aligner(
        "universal", lexicon=tmp_path / "lexicon.dict", settings=Settings(language="und")
    )
    doubted, absent = (
        aligner.align((demo[0], 16000), " ".join(own)) for own in (names, names[::-1])
    )
    assert (doubted.fit, doubted.skipped, absent.fit, absent.skipped) == (
        "poor",
        0,
        "none",
        len(names),
    )


IN_NOISE = (
    "The birch canoe slid on the smooth planks and glue the sheet to the dark blue background"
)


@pytest.mark.parametrize("amplitude", [0.0005, 0.01, 0.3])
@pytest.mark.parametrize(
    "text", ["hello world", "good morning to you", "two", f"{IN_NOISE} it is easy to tell"]
)
def test_words_are_not_found_in_noise(english: Aligner, text: str, amplitude: float) -> None:
    rng = np.random.default_rng(10)
    noise = (amplitude * rng.normal(size=4 * 16000)).astype(np.float32)
    alignment = english.align((noise, 16000), text)
    assert max([word.confidence or 0.0 for word in alignment.words]) < 0.3
    assert alignment.fit in ("none", "poor")


# The part of a text that a recording reads, cut out of the alignment of all of it.

TEXT = "One two.\n\nANNA: three four — five\n\nsix"
STATUSES = (
    "skipped",
    "skipped",
    "unspoken",
    "aligned",
    "skipped",
    "unspoken",
    "aligned",
    "skipped",
)


TOKEN = AlignedToken("a", 0.0, 0.1, 0.01)


def whole_text() -> Alignment:
    words, at = [], 0
    for number, (text, status) in enumerate(zip(TEXT.split(), STATUSES, strict=True)):
        at = TEXT.index(text, at)
        times = (float(number), number + 0.5, 0.9) if status == "aligned" else ()
        words.append(AlignedWord(text, text, at, at + len(text), status, *times))
        at += len(text)
    return Alignment("u", "u.wav", 9.0, "m", "cpu", 0.01, 1.0, -1.0, TEXT, tuple(words))


def test_the_part_reaches_from_the_first_word_found_to_the_last_and_json_says_where(tmp_path):
    part = part_of_text(whole_text())
    assert (part.text, part.text_offset) == ("ANNA: three four — five", 10)
    assert [part.text[word.char_start : word.char_end] for word in part.words] == part.text.split()
    assert (part.skipped, part.spoken) == (1, 3)
    assert TEXT[part.text_offset :].startswith(part.text)
    part = part_of_text(whole_text())
    part.save(tmp_path / "u.json")
    assert read_alignment(tmp_path / "u.json").text_offset == 10
    assert '"text_offset": 10' in (tmp_path / "u.json").read_text("utf-8")
    assert "text_offset" not in whole_text().to_dict()


def test_regions_places_and_cues_are_those_of_the_part():
    regions = (
        Region("not_spoken", None, None, 0, 8, "words 1–2 are not in the recording"),
        Region("misfit", 3.0, 5.0, 16, 26, "words 4–5 do not fit the recording"),
        Region("not_spoken", None, None, 22, len(TEXT), "words 5–8 are not in the recording"),
        Region("unexplained", 7.0, 8.0, None, None, "speech"),
    )
    places = (BookPlace(0, 8, "a.xhtml"), BookPlace(10, 33, "a.xhtml", "p2"))
    cues = (
        SourceCue(0, 8, 0.0, 1.0, "1"),
        SourceCue(10, 33, 1.0, 2.0, "2"),
        SourceCue(35, 38, 2.0, 3.0, "3"),
    )
    part = part_of_text(
        replace(whole_text(), regions=regions, places=places, subtitles=Subtitles("srt", cues=cues))
    )
    assert part.regions == (
        Region("misfit", 3.0, 5.0, 6, 16, "words 2–3 do not fit the recording"),
        Region("not_spoken", None, None, 12, 23, "words 3–6 are not in the recording"),
        regions[3],
    )
    assert part.places == (BookPlace(0, 23, "a.xhtml", "p2"),)
    assert [(cue.name, cue.char_start, cue.char_end) for cue in part.subtitles.cues] == [
        ("2", 0, 23)
    ]


def test_a_few_words_far_away_are_told_and_left_out():
    """Six words of a title page, 20,000 words before the chapter; a page skipped within the chapter
    stays in it."""
    words, at = [], 0
    for number, count, status in ((0, 6, "aligned"), (6, 20_000, "skipped"), (7, 500, "aligned"), (600, 300, "skipped"),
                                  (700, 400, "aligned"), (0, 9_000, "skipped")):  # fmt: skip
        for i in range(count):
            times = (number + i * 0.5, number + i * 0.5 + 0.4, 0.9) if status == "aligned" else ()
            words.append(AlignedWord("w", "w", at, at + 1, status, *times))
            at += 2
    book = replace(
        whole_text(),
        text="w " * len(words),
        words=tuple(words),
        duration_s=1000.0,
        unexplained=((900.0, 901.0),),
    )
    part = part_of_text(book)
    assert (len(part.words), part.skipped, part.text_offset) == (1200, 300, 2 * 20_006)
    assert part.unexplained == ((0.0, 2.9), (900.0, 901.0))
    assert part.regions[0].reason.endswith(
        "far from the part of the text that is read: w w w w w …"
    )


def test_words_that_are_unlikely_where_they_were_put_carry_no_weight():
    """As the words of an introduction are, that were found by chance a hundred words after the
    chapter."""
    chances = (
        [("aligned", 0.99)] * 200
        + [("skipped", None)] * 100
        + [("aligned", c) for c in [0.7, 0.1] * 9]
    )
    words = tuple(
        AlignedWord(
            "w", "w", 2 * i, 2 * i + 1, status, *(() if c is None else (i * 0.5, i * 0.5 + 0.4, c))
        )
        for i, (status, c) in enumerate(chances)
    )
    part = part_of_text(
        replace(whole_text(), text="w " * len(words), words=words, duration_s=1000.0)
    )
    assert (len(part.words), part.skipped) == (200, 0)
    assert part.unexplained == ((150.0, 158.9),)


def test_where_nothing_is_found_all_of_it_stays():
    words = tuple(
        replace(word, status="skipped", start_s=None, end_s=None, confidence=None)
        for word in whole_text().words
    )
    nothing = replace(whole_text(), words=words)
    assert part_of_text(nothing) == nothing


def test_the_fit_is_that_of_the_part():
    limits = FitLimits(good_loss=2.0, doubtful_loss=3.0, good_share=0.6, doubtful_share=0.4)
    poor = replace(whole_text(), fit="poor", loss_per_token=1.0)
    assert (part_of_text(poor, limits).fit, part_of_text(poor).fit) == ("good", "poor")
    unsure = tuple(
        replace(w, confidence=w.confidence and 0.01, tokens=(TOKEN,) * 6) for w in poor.words
    )
    heard = replace(poor, words=unsure, loss_per_token=5.0)
    assert part_of_text(heard, limits).fit == "poor"
    nothing = part_of_text(replace(heard, fit="none"), limits)
    assert (nothing.fit, nothing.text_offset, nothing.spoken, nothing.skipped) == (
        "none",
        None,
        6,
        6,
    )
    assert [region.kind for region in nothing.regions] == ["misfit"]
