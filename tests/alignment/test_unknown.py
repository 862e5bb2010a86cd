"""Letters that a vocabulary lacks: a wildcard for their times, none for the loss; left out; or
refused."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from alignment_checks import check
from hypothesis import given, settings
from hypothesis import strategies as st
from made_models import LETTERS, planted, spelt

from ctc_align import kernels, lattice
from ctc_align.alignment.aligner import Aligner
from ctc_align.alignment.ctc_path import best_ctc_path, token_spans
from ctc_align.alignment.wildcard import LETTER_S, scores_of, wildcard_scores, with_wildcards
from ctc_align.config import Settings
from ctc_align.errors import KernelError, TranscriptError
from ctc_align.kernels import batching
from ctc_align.lattice import WILDCARD
from ctc_align.text import split
from ctc_align.tokens.tokenizer import join, tokenize, tokenizer_for
from ctc_align.types import Alignment, Emissions, Tokens

SHIFT_S = 0.02
EDGES = ("spikes", "occupancy", "auto")


def aligner(unknown: str = "wildcard", edges: str = "auto", **more: object) -> Aligner:
    return Aligner(None, settings=Settings(unknown=unknown, edges=edges, language="xx", **more))  # type: ignore[arg-type]


def said(text: str, **more: int) -> Emissions:
    return planted(spelt(text, **more))


@pytest.mark.parametrize("edges", EDGES)
def test_a_word_of_unknown_letters_is_where_its_sounds_are(edges: str) -> None:
    whole = aligner(edges=edges).align(said("we call bear now"), "we call bear now")
    found = aligner(edges=edges).align(said("we call bear now"), "we зов bear now")
    check(found)
    for mine, true in zip(found.words, whole.words):
        assert mine.status == "aligned"
        assert mine.start_s == pytest.approx(true.start_s, abs=3 * SHIFT_S)
        assert mine.end_s == pytest.approx(true.end_s, abs=3 * SHIFT_S)
    assert [token.token for token in found.words[1].tokens] == ["зов"]
    assert found.words[1].confidence == 0.0
    assert (found.unknown, found.unknown_letters) == (3, {"з": 1, "о": 1, "в": 1})
    assert found.to_dict()["unknown_letters"] == {"з": 1, "о": 1, "в": 1}
    assert "unknown_letters" not in whole.to_dict()


@pytest.mark.parametrize("edges", EDGES)
def test_letters_inside_a_word(edges: str) -> None:
    found = aligner(edges=edges).align(said("caesar wins"), "cæsar wins")
    check(found)
    assert ["".join(token.token for token in word.tokens) for word in found.words] == [
        "cæsar",
        "wins",
    ]
    assert 0.0 < found.words[0].confidence < found.words[1].confidence  # type: ignore[operator]


@pytest.mark.parametrize("edges", EDGES)
@pytest.mark.parametrize("unknown", ["wildcard", "skip"])
@pytest.mark.parametrize(
    "transcript", ["we 7 bear", "7 we bear", "we beжar 77", "ж we bear ж", "we ж ж bear", "we bear"]
)
def test_loss_and_score_are_those_of_the_letters_there_are(
    transcript: str, unknown: str, edges: str
) -> None:
    known = " ".join(
        "".join(c for c in word if c.isascii() and c.isalpha()) for word in transcript.split()
    )
    plain = aligner(edges=edges, match="exact").align(said("we call bear"), " ".join(known.split()))
    found = aligner(unknown, edges, match="exact").align(said("we call bear"), transcript)
    check(found)
    assert (found.loss, found.score, found.loss_per_token) == (
        plain.loss,
        plain.score,
        plain.loss_per_token,
    )
    assert aligner(unknown).score(said("we call bear"), transcript) == plain.loss
    if unknown == "skip":
        lost = [word for word in found.words if not set(word.text) & set("webar")]
        assert {word.status for word in lost} <= {"unknown"}
        known_times = [
            (word.start_s, word.end_s) for word in found.words if word.status == "aligned"
        ]
        assert known_times == [(word.start_s, word.end_s) for word in plain.words]
    else:
        assert {word.status for word in found.words} == {"aligned"}
    if transcript == known:
        assert found.words == plain.words


def test_words_of_unknown_letters_share_by_letters_and_fill_no_pause() -> None:
    found = aligner(edges="spikes").align(said("we callthem bear", first=3), "we ж жжж bear")
    check(found)
    short, long = found.words[1:3]
    assert short.end_s == long.start_s
    assert (long.end_s - long.start_s) / (short.end_s - short.start_s) == pytest.approx(3, rel=0.35)  # type: ignore[operator]
    long = planted([*spelt("we"), *[""] * 2000, *spelt("bear")])
    middle = aligner().align(long, "we жж bear").words[1]
    assert middle.end_s - middle.start_s <= 2 * LETTER_S + SHIFT_S  # type: ignore[operator]
    first = aligner().align(planted([*[""] * 2000, *spelt("bear")]), "жж bear").words
    assert first[0].end_s - first[0].start_s <= 2 * LETTER_S + SHIFT_S  # type: ignore[operator]
    assert first[1].start_s - first[0].end_s < 0.1  # type: ignore[operator]


def test_wildcards_that_do_not_fit_and_stars() -> None:
    tight = planted(["a", "|", "b"])
    found = aligner().align(tight, "a ж я b")
    check(found)
    assert [word.status for word in found.words] == ["aligned", "unknown", "unknown", "aligned"]
    vocab = (*LETTERS, "*")
    log_probs = torch.nn.functional.pad(said("we call bear").log_probs, (0, 1))
    emissions = Emissions(log_probs, vocab, SHIFT_S)
    np.testing.assert_array_equal(scores_of(emissions), scores_of(said("we call bear")))
    starred = aligner("wildcard", "spikes").align(emissions, "we жж bear")
    plain = aligner("wildcard", "spikes").align(said("we call bear"), "we жж bear")
    assert [(w.start_s, w.end_s) for w in starred.words] == [
        (w.start_s, w.end_s) for w in plain.words
    ]


def test_errors_name_the_words_and_their_letters() -> None:
    with pytest.raises(
        TranscriptError,
        match=r"lacks 'ж' of 'beжжar', 'як' of 'як!'; expected .*'wildcard' or 'skip'",
    ):
        aligner("error").align(said("we bear"), "we beжжar як!")
    (scored,) = aligner("error").score_texts(said("we bear"), ["we beжar"])
    assert isinstance(scored.error, TranscriptError)
    check(aligner("error").align(said("we bear"), "we, bear!"))
    for unknown in ("wildcard", "skip"):
        with pytest.raises(TranscriptError, match=r"lacks 'як'.*romanize"):
            aligner(unknown).align(said("we bear"), "як")


def test_the_row_with_wildcards() -> None:
    tokenizer = tokenizer_for(LETTERS, 0)
    words = split("7 aжb 88 c — 9", language="xx")
    word_tokens = tokenize(words, tokenizer)
    tokens = join(word_tokens, [0] * len(word_tokens), tokenizer.separator)
    row = with_wildcards(tokens, word_tokens, tokenizer.separator)
    assert row == Tokens(
        (WILDCARD, 1, 2, WILDCARD, 3, 1, WILDCARD, 1, 4, 1, WILDCARD),
        ("7", "|", "a", "ж", "b", "|", "88", "|", "c", "|", "9"),
        (0, -1, 1, 1, 1, -1, 2, -1, 3, -1, 5),
    )
    known = tokenize(split("ab c"), tokenizer)
    assert with_wildcards(join(known, [0, 0], 1), known, 1) is None


@settings(max_examples=150)
@given(
    words=st.lists(st.text("abcж7é", min_size=1, max_size=4), min_size=1, max_size=6),
    heard=st.text("abc ", min_size=4, max_size=16),
    seed=st.integers(0, 3),
    edges=st.sampled_from(EDGES),
)
def test_whatever_is_lacking_every_word_comes_out(
    words: list[str], heard: str, seed: int, edges: str
) -> None:
    text = " ".join(words)
    emissions = said(heard)
    noise = (
        torch.randn(emissions.log_probs.shape, generator=torch.Generator().manual_seed(seed)) * seed
    )
    emissions = Emissions((emissions.log_probs + noise).log_softmax(1), LETTERS, SHIFT_S)
    results = {
        u: aligner(u, edges).align_batch([(emissions, text)], "return")[0]
        for u in ("wildcard", "skip")
    }
    assert len({isinstance(one, Alignment) for one in results.values()}) == 1
    for one in results.values():
        if isinstance(one, Alignment):
            check(one)
            assert one.unknown == sum(not c.isascii() or c.isdigit() for c in text)
    mine, skipped = results.values()
    if isinstance(mine, Alignment) and isinstance(skipped, Alignment):
        assert (mine.loss, mine.score) == (skipped.loss, skipped.score)


# The wildcard: it takes the speech that no word explains, and no other.

BLANK = 0
SAID = [1, 2, 3, 4, 5, 6, 2, 4, 1]
STEP = 10


def heard(rng: np.random.Generator, labels: list[int], classes: int = 8) -> torch.Tensor:
    """Peaky log-probs (T, C): a label every STEP frames (frame 5, 15, …), right but not certain;
    blanks between."""
    x = rng.normal(size=(STEP * len(labels), classes))
    x[:, BLANK] += 8
    for place, label in enumerate(labels):
        frame = STEP * place + STEP // 2
        x[frame, BLANK] -= 6
        x[frame, label] += 8
    return torch.as_tensor(x).log_softmax(1)


def places(
    x: torch.Tensor,
    row: list[int],
    optional: list[bool] | None = None,
    penalty: float | None = None,
) -> tuple[list[int], list[int]]:
    """First and last (exclusive) frame of each token of the row on the best path; -1 where it is
    left out."""
    given = {} if penalty is None else {"penalty": penalty}
    topology = lattice.ctc([row], BLANK, None if optional is None else [optional])
    path = kernels.best_path(x[None], topology, wildcard=wildcard_scores(x, BLANK, **given)[None])
    spans = token_spans(path.states[0].numpy(), topology.token[0], len(row))
    first, last = spans.start, spans.end
    return first.tolist(), last.tolist()


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("place", range(len(SAID) + 1))
def test_it_swallows_no_word_that_fits(place: int, seed: int) -> None:
    """A wildcard where nothing is missing leaves every token in its place, also those that may be
    left out."""
    x = heard(np.random.default_rng(seed), SAID)
    row = [*SAID[:place], WILDCARD, *SAID[place:]]
    expected = [STEP * k + STEP // 2 for k in range(len(SAID))]
    for optional in (None, [True] * len(row)):
        first, last = places(x, row, optional)
        assert first[:place] + first[place + 1 :] == expected
        assert last[:place] + last[place + 1 :] == [frame + 1 for frame in expected]


def test_without_a_penalty_it_would() -> None:
    x = heard(np.random.default_rng(0), SAID)
    first, _ = places(x, [*SAID[:4], WILDCARD, *SAID[4:]], [True] * (len(SAID) + 1), penalty=0.0)
    assert -1 in first


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("missing", [1, 3, 5])
def test_it_takes_what_no_word_explains(missing: int, seed: int) -> None:
    x = heard(np.random.default_rng(seed), SAID)
    row = [*SAID[:2], WILDCARD, *SAID[2 + missing :]]
    first, last = places(x, row)
    kept = [k for k in range(len(SAID)) if not 2 <= k < 2 + missing]
    assert first[:2] + first[3:] == [STEP * k + STEP // 2 for k in kept]
    assert first[2] <= STEP * 2 + STEP // 2
    assert last[2] > STEP * (1 + missing) + STEP // 2


@pytest.mark.parametrize("seed", range(5))
def test_words_that_were_not_said_are_left_to_it(seed: int) -> None:
    x = heard(np.random.default_rng(seed), [1, 2, 7, 3, 7, 4, 5])
    row = [1, 2, WILDCARD, 6, 6, 4, 5]
    first, last = places(x, row, [False, False, False, True, True, False, False])
    assert (first[3], first[4]) == (-1, -1)
    assert first[2] <= 25
    assert last[2] > 45


@pytest.mark.parametrize("blank", [0, 1, 3])
@pytest.mark.parametrize("dtype", [torch.float16, torch.float32, torch.float64], ids=str)
def test_scores(dtype: torch.dtype, blank: int) -> None:
    x = (
        torch.randn(2, 3, 5, 4, generator=torch.Generator().manual_seed(0))
        .log_softmax(-1)
        .to(dtype)
    )
    x[0, 0, 0] = float("-inf")
    expected = x.clone()
    expected -= 1.5
    expected[..., blank] = x[..., blank]
    met = wildcard_scores(x, blank, 1.5)
    assert met.dtype == dtype
    assert torch.equal(met, expected.amax(-1))
    turned = x.transpose(1, 2).contiguous().transpose(1, 2)
    assert torch.equal(wildcard_scores(turned, blank, 1.5), met)
    assert wildcard_scores(x[..., :1]).tolist() == x[..., 0].tolist()
    assert wildcard_scores(x[:, :, :0]).shape == (2, 3, 0)


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (([[0.0]],), "expected floating-point numbers (..., T, C), got none"),
        ((torch.zeros(3, 2, dtype=torch.int64),), "got torch.int64 of shape (3, 2)"),
        ((torch.zeros(3),), "got torch.float32 of shape (3,)"),
        ((torch.zeros(3, 2), 2), "blank: expected a class below 2, got 2"),
        ((torch.zeros(3, 2), -1), "got -1"),
        ((torch.zeros(3, 2), 0, -0.5), "penalty: expected nats, 0 or more, got -0.5"),
        ((torch.zeros(3, 2), 0, float("nan")), "got nan"),
    ],
)
def test_wrong_arguments(given: tuple, said: str) -> None:
    with pytest.raises(KernelError) as error:
        wildcard_scores(*given)
    assert said in str(error.value)


@pytest.mark.data
@pytest.mark.parametrize("missing", [1, 2])
@pytest.mark.long
def test_neighbours_of_an_unwritten_word_stay_where_they_are(
    missing: int, english: Aligner, speech_data: Path
) -> None:
    """Recorded sentences, every second word: how far the words beside it move when a wildcard takes
    its place."""
    moved, covered = [], []
    for audio in sorted((speech_data / "gold-dev" / "corpus").rglob("*.wav"))[::2]:
        emissions = english.emissions(audio)
        x, blank = emissions.log_probs, emissions.blank
        words = split(audio.with_suffix(".txt").read_text("utf-8"))
        tokenizer = tokenizer_for(emissions.vocab, blank)
        word_tokens = tokenize(words, tokenizer)
        tokens = join(word_tokens, [0] * len(word_tokens), tokenizer.separator)
        ids, owner = np.array(tokens.ids), np.array(tokens.words)
        spikes = batching.run([best_ctc_path(x.numpy(), ids.tolist(), blank)])[0][0]
        scores = wildcard_scores(x, blank)
        for word in range(1, len(word_tokens) - missing, 2):
            gone = (owner >= word) & (owner < word + missing)
            place = int(np.argmax(gone))
            topology = lattice.ctc([[*ids[:place], WILDCARD, *ids[place:][~gone[place:]]]], blank)
            path = kernels.best_path(x[None], topology, wildcard=scores[None])
            spans = token_spans(path.states[0].numpy(), topology.token[0], topology.token.max() + 1)
            first, last = spans.start, spans.end
            beside = (owner >= word - 1) & (owner <= word + missing) & ~gone
            moved.append(
                np.abs(np.delete(first, place)[beside[~gone]] - spikes.start[beside]).max()
            )
            spoken = np.arange(spikes.start[gone][0], spikes.end[gone][-1])
            covered.append(np.mean((spoken >= first[place]) & (spoken < last[place])))
    assert len(moved) > 100
    # In frames of 10 ms. What was said in between is the wildcard's. (Of 153 words, or 126: a
    # hundredth is one or two.)
    assert np.mean(np.array(moved) <= 2) >= 0.85
    assert np.mean(np.array(moved) <= 5) >= 0.88
    assert np.mean(covered) > 0.75
