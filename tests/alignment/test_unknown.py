"""Letters that a vocabulary lacks: a wildcard for their times, none for the loss; left out; or refused."""

from __future__ import annotations

import pytest
import torch
from alignment_checks import check
from hypothesis import given, settings
from hypothesis import strategies as st
from made_models import LETTERS, planted, spelt

from ctc_align.alignment.aligner import Aligner
from ctc_align.alignment.wildcard import LETTER_S, scores_of, with_wildcards
from ctc_align.config import Settings
from ctc_align.errors import TranscriptError
from ctc_align.files import Alignment
from ctc_align.lattice.topology import WILDCARD
from ctc_align.text import split
from ctc_align.tokens.tokenizer import join, tokenize, tokenizer_for
from ctc_align.types import Emissions, Tokens

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
    assert ["".join(token.token for token in word.tokens) for word in found.words] == ["cæsar", "wins"]
    assert 0.0 < found.words[0].confidence < found.words[1].confidence  # type: ignore[operator]


@pytest.mark.parametrize("edges", EDGES)
@pytest.mark.parametrize("unknown", ["wildcard", "skip"])
@pytest.mark.parametrize(
    "transcript", ["we 7 bear", "7 we bear", "we beжar 77", "ж we bear ж", "we ж ж bear", "we bear"]
)
def test_loss_and_score_are_those_of_the_letters_there_are(transcript: str, unknown: str, edges: str) -> None:
    known = " ".join("".join(c for c in word if c.isascii() and c.isalpha()) for word in transcript.split())
    plain = aligner(edges=edges, match="exact").align(said("we call bear"), " ".join(known.split()))
    found = aligner(unknown, edges, match="exact").align(said("we call bear"), transcript)
    check(found)
    assert (found.loss, found.score, found.loss_per_token) == (plain.loss, plain.score, plain.loss_per_token)
    assert aligner(unknown).score(said("we call bear"), transcript) == plain.loss
    if unknown == "skip":
        lost = [word for word in found.words if not set(word.text) & set("webar")]
        assert {word.status for word in lost} <= {"unknown"}
        known_times = [(word.start_s, word.end_s) for word in found.words if word.status == "aligned"]
        assert known_times == [(word.start_s, word.end_s) for word in plain.words]
    else:
        assert {word.status for word in found.words} == {"aligned"}
    if transcript == known:
        assert found.words == plain.words


def test_words_in_a_row_share_by_letters() -> None:
    found = aligner(edges="spikes").align(said("we callthem bear", first=3), "we ж жжж bear")
    check(found)
    short, long = found.words[1:3]
    assert short.end_s == long.start_s
    assert (long.end_s - long.start_s) / (short.end_s - short.start_s) == pytest.approx(3, rel=0.35)  # type: ignore[operator]


def test_where_nothing_is_heard_a_word_does_not_fill_the_pause() -> None:
    long = planted([*spelt("we"), *[""] * 2000, *spelt("bear")])
    middle = aligner().align(long, "we жж bear").words[1]
    assert middle.end_s - middle.start_s <= 2 * LETTER_S + SHIFT_S  # type: ignore[operator]
    first = aligner().align(planted([*[""] * 2000, *spelt("bear")]), "жж bear").words
    assert first[0].end_s - first[0].start_s <= 2 * LETTER_S + SHIFT_S  # type: ignore[operator]
    assert first[1].start_s - first[0].end_s < 0.1  # type: ignore[operator]


def test_where_wildcards_do_not_fit_the_rest_is_aligned() -> None:
    tight = planted(["a", "|", "b"])
    found = aligner().align(tight, "a ж я b")
    check(found)
    assert [word.status for word in found.words] == ["aligned", "unknown", "unknown", "aligned"]


def test_error_names_the_words_and_their_letters() -> None:
    with pytest.raises(TranscriptError, match=r"lacks 'ж' of 'beжжar', 'як' of 'як!'; expected .*'wildcard' or 'skip'"):
        aligner("error").align(said("we bear"), "we beжжar як!")
    (scored,) = aligner("error").score_texts(said("we bear"), ["we beжar"])
    assert isinstance(scored.error, TranscriptError)
    check(aligner("error").align(said("we bear"), "we, bear!"))


def test_nothing_but_unknown_letters_is_an_error_whatever_is_asked_for() -> None:
    for unknown in ("wildcard", "skip"):
        with pytest.raises(TranscriptError, match=r"lacks 'як'.*romanize"):
            aligner(unknown).align(said("we bear"), "як")


def test_a_star_does_not_count() -> None:
    vocab = (*LETTERS, "*")
    log_probs = torch.nn.functional.pad(said("we call bear").log_probs, (0, 1))
    emissions = Emissions(log_probs, vocab, SHIFT_S)
    assert scores_of(emissions).equal(scores_of(said("we call bear")))
    starred = aligner("wildcard", "spikes").align(emissions, "we жж bear")
    plain = aligner("wildcard", "spikes").align(said("we call bear"), "we жж bear")
    assert [(w.start_s, w.end_s) for w in starred.words] == [(w.start_s, w.end_s) for w in plain.words]


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


@settings(max_examples=150, deadline=None)
@given(
    words=st.lists(st.text("abcж7é", min_size=1, max_size=4), min_size=1, max_size=6),
    heard=st.text("abc ", min_size=4, max_size=16),
    seed=st.integers(0, 3),
    edges=st.sampled_from(EDGES),
)
def test_whatever_is_lacking_every_word_comes_out(words: list[str], heard: str, seed: int, edges: str) -> None:
    text = " ".join(words)
    emissions = said(heard)
    noise = torch.randn(emissions.log_probs.shape, generator=torch.Generator().manual_seed(seed)) * seed
    emissions = Emissions((emissions.log_probs + noise).log_softmax(1), LETTERS, SHIFT_S)
    results = {u: aligner(u, edges).align_batch([(emissions, text)], "return")[0] for u in ("wildcard", "skip")}
    assert len({isinstance(one, Alignment) for one in results.values()}) == 1
    for one in results.values():
        if isinstance(one, Alignment):
            check(one)
            assert one.unknown == sum(not c.isascii() or c.isdigit() for c in text)
    mine, skipped = results.values()
    if isinstance(mine, Alignment) and isinstance(skipped, Alignment):
        assert (mine.loss, mine.score) == (skipped.loss, skipped.score)
