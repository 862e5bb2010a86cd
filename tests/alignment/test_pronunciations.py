"""From emissions to the best CTC path and the pronunciations that the audio prefers."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
import torch
from made_models import planted

from ctc_align.alignment.ctc_path import CtcPath, best_ctc_path, best_word_path, token_spans
from ctc_align.alignment.pronunciations import choose_pronunciations
from ctc_align.errors import EmissionsError, TooShortError
from ctc_align.kernels import batching, requests
from ctc_align.types import Emissions, Pronunciation, Tokens, WordTokens

VOCAB = ("", *"abcdef")


def best_path(*arguments: object, **options: object) -> CtcPath:
    return batching.run([best_ctc_path(*arguments, **options)])[0]  # type: ignore[arg-type]


def word_path(x: torch.Tensor, tokens: Tokens, blank: int) -> CtcPath:
    emissions = Emissions(x, VOCAB, 0.01, blank, states=torch.zeros(len(x), 1))
    return batching.run([best_word_path(emissions, tokens)])[0]


def choose(x: torch.Tensor, words: list[WordTokens], separator: int | None = None) -> tuple[Tokens, CtcPath]:
    return batching.run([choose_pronunciations(Emissions(x, VOCAB, 0.01), words, separator)])[0]


def loss(x: torch.Tensor, target: tuple[int, ...], blank: int, backend: str = "auto") -> float:
    return -requests.Forward.run([requests.Forward(x, requests.CtcTargets(target, blank), backend=backend)])[0]


def ids(letters: str) -> tuple[int, ...]:
    return tuple(VOCAB.index(letter) for letter in letters)


def said(*ways: str) -> WordTokens:
    return WordTokens(tuple(Pronunciation(ids(way), tuple(way)) for way in ways))


def scores(frames: int, classes: int, seed: int = 0, step: float = 0.0) -> torch.Tensor:
    """Random log-probs; with `step`, on a coarse grid, so that many paths tie."""
    x = torch.randn(frames, classes, generator=torch.Generator().manual_seed(seed)).double()
    return (x / step).round() * step if step else x.log_softmax(1)


def collapse(labels: tuple[int, ...], blank: int) -> tuple[int, ...]:
    return tuple(label for label, _ in itertools.groupby(labels) if label != blank)


def test_planted_spikes_are_found() -> None:
    path = ["", "a", "a", "", "b", "", "", "b", "c", ""]
    spikes = best_path(planted(path, VOCAB).log_probs, ids("abbc"), 0)
    assert spikes.spans.start.tolist() == [1, 4, 7, 8]
    assert spikes.spans.end.tolist() == [3, 5, 8, 9]
    assert spikes.score == pytest.approx(10 * np.log(0.9), rel=1e-6)
    assert spikes.backend == "cpu"


@pytest.mark.parametrize("backend", ["cpu", "reference"])
@pytest.mark.parametrize("blank", [0, 2])
@pytest.mark.parametrize("target", [(1,), (1, 1), (1, 3), (3, 1, 3)])
@pytest.mark.parametrize("step", [0.0, 1.0])
def test_loss_and_score_are_those_of_all_paths_written_out(
    target: tuple[int, ...], blank: int, backend: str, step: float
) -> None:
    x = scores(5, 4, seed=7, step=step)
    paths = [path for path in itertools.product(range(4), repeat=5) if collapse(path, blank) == target]
    each = torch.stack([sum((x[t, k] for t, k in enumerate(path)), torch.zeros(())) for path in paths])
    assert best_path(x, target, blank, backend=backend).score == pytest.approx(float(each.max()), abs=1e-6)
    assert loss(x, target, blank, backend=backend) == pytest.approx(-float(each.logsumexp(0)), abs=1e-6)


def test_what_does_not_fit_is_said_with_what_it_needs() -> None:
    with pytest.raises(TooShortError, match="3 tokens need at least 5 frames, the audio has 4"):
        best_path(scores(4, 3), (1, 1, 1), 0)
    assert best_path(scores(5, 3), (1, 1, 1), 0).spans.start.tolist() == [0, 2, 4]
    assert loss(scores(4, 3), (1, 1, 1), 0) == float("inf")


def test_probability_zero_is_an_error_of_the_log_probs() -> None:
    x = scores(6, 4)
    x[:, 3] = float("-inf")
    with pytest.raises(EmissionsError, match="every path meets -inf"):
        best_path(x, (1, 3), 0)


def test_runs_of_a_path() -> None:
    token = np.array([-1, 0, -1, 1, -1])
    spans = token_spans(np.array([0, 1, 1, 2, 3, 3, 3, 4]), token, 2)
    assert (spans.start.tolist(), spans.end.tolist()) == ([1, 4], [3, 7])


@pytest.mark.parametrize(("path", "chosen"), [("abf", "ab"), ("acf", "ac"), ("cbaf", "cba")])
def test_the_pronunciation_that_was_said_is_taken(path: str, chosen: str) -> None:
    emissions = planted(["", *(token for letter in path for token in (letter, ""))], VOCAB)
    tokens, spikes = choose(emissions.log_probs, [said("ab", "ac", "cba"), said("f")])
    assert "".join(tokens.labels) == chosen + "f"
    assert tokens.words == (0,) * len(chosen) + (1,)
    assert len(spikes.spans.start) == len(chosen) + 1


def test_on_a_tie_the_first_pronunciation_stays() -> None:
    x = torch.zeros(8, len(VOCAB))
    tokens, _ = choose(x, [said("ab", "cd")])
    assert tokens.labels == ("a", "b")


def test_each_of_many_words_has_its_own_choice() -> None:
    ways = ["ab", "ac", "ac", "ab", "ac"] * 20
    path = [token for way in ways for letter in (*way, "f") for token in (letter, "")]
    word_tokens = [word for _ in ways for word in (said("ab", "ac"), said("f"))]
    tokens, _ = choose(planted(path, VOCAB).log_probs, word_tokens)
    assert "".join(tokens.labels) == "f".join(ways) + "f"


def test_the_choice_does_not_depend_on_how_many_are_scored_at_once(monkeypatch) -> None:
    x = scores(300, len(VOCAB), seed=3).float()
    words = [said("ab", "ac", "fed"), said("d"), said("cb", "a"), WordTokens(()), said("ee", "f")] * 6
    together = choose(x, words)[0]
    monkeypatch.setattr(batching, "VALUES_AT_ONCE", 1)
    assert choose(x, words)[0] == together


def test_a_word_that_spans_minutes_is_scored_in_bounded_memory(monkeypatch) -> None:
    """One word over the whole recording and many short ones: no padded batch is larger than the limit."""
    sizes = []
    real = requests.Forward.run

    def watched(asked):
        sizes.append(len(asked) * max(request.scores.numel() for request in asked))
        return real(asked)

    monkeypatch.setattr(batching, "VALUES_AT_ONCE", 50_000)
    monkeypatch.setattr(requests.Forward, "run", staticmethod(watched))
    path = ["a", *[""] * 6000, "b", *["f", ""] * 100]
    x = planted(path, VOCAB).log_probs
    x[1:6001, list(ids("abc"))] = float("-inf")
    choose(x, [said("ab", "ac"), *[said("f", "e")] * 100])
    assert len(sizes) > 2
    assert max(sizes) <= 50_000


def test_when_the_first_pronunciation_is_too_long_a_shorter_one_is_tried() -> None:
    x = planted(["a", "b", "c"], VOCAB).log_probs
    assert choose(x, [said("abcd", "abc")])[0].labels == ("a", "b", "c")
    with pytest.raises(TooShortError, match="4 tokens need at least 4 frames, the audio has 3"):
        choose(x, [said("abcde", "abcd")])
    with pytest.raises(TooShortError, match="4 tokens"):
        choose(x, [said("abcd")])


def test_separators_stand_between_words_only() -> None:
    emissions = planted(["a", "f", "b"], VOCAB)
    tokens, spikes = choose(emissions.log_probs, [said("a"), WordTokens(()), said("b")], 6)
    assert (tokens.ids, tokens.words) == ((1, 6, 2), (0, -1, 2))
    assert spikes.spans.start.tolist() == [0, 1, 2]


def torn(low: float = 0.2, high: float = 0.6) -> torch.Tensor:
    """ "ab" at frames 5 and 8, b doubtful; a likelier b stands alone at frame 150; "c" at frame 220."""
    x = planted(["a" if t == 5 else "c" if t == 220 else "" for t in range(240)], VOCAB).log_probs
    for t, p in ((8, low), (150, high)):
        x[t] = np.log(0.01)
        x[t, 0], x[t, VOCAB.index("b")] = np.log(1 - p - 0.05), np.log(p)
    return x


def test_a_word_is_not_torn_apart() -> None:
    tokens = Tokens(ids("abc"), tuple("abc"), (0, 0, 1))
    plain = best_path(torn(), tokens.ids, 0)
    whole = word_path(torn(), tokens, 0)
    assert plain.spans.start.tolist() == [5, 150, 220]
    assert whole.spans.start.tolist() == [5, 8, 220]
    assert whole.spans.end.tolist() == [6, 9, 221]
    assert whole.score == plain.score


def test_words_may_stand_as_far_apart_as_they_like() -> None:
    tokens = Tokens(ids("abc"), tuple("abc"), (0, 1, 2))
    assert word_path(torn(), tokens, 0).spans.start.tolist() == [5, 150, 220]
    separated = Tokens(ids("abc"), tuple("abc"), (0, -1, 1))
    assert word_path(torn(), separated, 0).spans.start.tolist() == [5, 150, 220]


def test_where_no_word_is_torn_the_spikes_are_those_of_ctc() -> None:
    x, tokens = torn(low=0.9, high=0.01), Tokens(ids("abc"), tuple("abc"), (0, 0, 1))
    plain, whole = best_path(x, tokens.ids, 0), word_path(x, tokens, 0)
    assert (plain.spans.start.tolist(), plain.spans.end.tolist()) == (
        whole.spans.start.tolist(),
        whole.spans.end.tolist(),
    )


@pytest.mark.parametrize("blank", [0, 3])
def test_a_word_that_is_torn_whatever_one_does_still_has_its_spikes(blank: int) -> None:
    x = torch.full((200, 5), float("-inf"))
    x[:, blank] = 0.0
    x[10, 1], x[190, 2] = -0.1, -0.1
    found = word_path(x, Tokens((1, 2), ("a", "b"), (0, 0)), blank)
    assert (found.spans.start.tolist(), found.spans.end.tolist()) == ([10, 190], [11, 191])
