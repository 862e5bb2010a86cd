"""From emissions to the best CTC path and the pronunciations that the audio prefers."""

from __future__ import annotations

import itertools
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from made_models import planted, random_emissions

import ctc_align
from ctc_align.alignment import ctc_path, pronunciations
from ctc_align.alignment.align_utterance import choose_tokens
from ctc_align.alignment.aligner import Aligner, read_inputs
from ctc_align.alignment.ctc_path import Spans, best_ctc_path, best_word_path
from ctc_align.alignment.pronunciations import choose_pronunciations, leave_out_unspoken
from ctc_align.cli.notes import alignment_notes
from ctc_align.config import Settings
from ctc_align.errors import EmissionsError, TooShortError, UsageError
from ctc_align.files import Style
from ctc_align.kernels import batching
from ctc_align.text import split
from ctc_align.text.phone_sets import ARPABET_PHONES, IPA_PHONES
from ctc_align.tokens.tokenizer import tokenize, tokenizer_for
from ctc_align.types import ALIGNED, UNSPOKEN, Emissions, Pronunciation, Tokens, Words, WordTokens

VOCAB = ("", *"abcdef")


def best_path(x: torch.Tensor, *arguments: object, **options: object) -> tuple[Spans, float]:
    return batching.run([best_ctc_path(x.numpy(), *arguments, **options)])[0]  # type: ignore[arg-type]


def word_path(
    x: torch.Tensor, tokens: Tokens, blank: int, **options: object
) -> tuple[Spans, float]:
    vocab = VOCAB[: x.shape[1]]
    emissions = Emissions(x, vocab, 0.01, blank, states=torch.zeros(len(x), 1))
    return batching.run([best_word_path(emissions, tokens, **options)])[0]  # type: ignore[arg-type]


def starts(path: tuple[Spans, float]) -> list[int]:
    return path[0].start.tolist()


def choose(
    x: torch.Tensor, words: list[WordTokens], separator: int | None = None
) -> tuple[Tokens, Spans]:
    return batching.run([choose_pronunciations(Emissions(x, VOCAB, 0.01), words, separator)])[0][:2]


def loss(x: torch.Tensor, target: tuple[int, ...], blank: int, backend: str = "auto") -> float:
    request = batching.Forward(x.numpy(), batching.CtcTargets(target, blank), backend=backend)
    return -batching.Forward.run([request])[0]


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
    spikes, score = best_path(planted(path, VOCAB).log_probs, ids("abbc"), 0)
    assert spikes.start.tolist() == [1, 4, 7, 8]
    assert spikes.end.tolist() == [3, 5, 8, 9]
    assert score == pytest.approx(10 * np.log(0.9), rel=1e-6)


@pytest.mark.parametrize("backend", ["cpu", "reference"])
@pytest.mark.parametrize("blank", [0, 2])
@pytest.mark.parametrize("target", [(1,), (1, 1), (1, 3), (3, 1, 3)])
@pytest.mark.parametrize("step", [0.0, 1.0])
def test_loss_and_score_are_those_of_all_paths_written_out(target, blank, backend, step) -> None:
    x = scores(5, 4, seed=7, step=step)
    paths = [
        path for path in itertools.product(range(4), repeat=5) if collapse(path, blank) == target
    ]
    each = torch.stack(
        [sum((x[t, k] for t, k in enumerate(path)), torch.zeros(())) for path in paths]
    )
    assert best_path(x, target, blank, backend=backend)[1] == pytest.approx(
        float(each.max()), abs=1e-6
    )
    assert loss(x, target, blank, backend=backend) == pytest.approx(
        -float(each.logsumexp(0)), abs=1e-6
    )


def test_paths_that_cannot_be() -> None:
    with pytest.raises(TooShortError, match="3 tokens need at least 5 frames, the audio has 4"):
        best_path(scores(4, 3), (1, 1, 1), 0)
    assert starts(best_path(scores(5, 3), (1, 1, 1), 0)) == [0, 2, 4]
    assert loss(scores(4, 3), (1, 1, 1), 0) == float("inf")
    x = scores(6, 4)
    x[:, 3] = float("-inf")
    with pytest.raises(EmissionsError, match="every path meets -inf"):
        best_path(x, (1, 3), 0)


@pytest.mark.parametrize(("path", "chosen"), [("abf", "ab"), ("acf", "ac"), ("cbaf", "cba")])
def test_the_pronunciation_that_was_said_is_taken(path: str, chosen: str) -> None:
    emissions = planted(["", *(token for letter in path for token in (letter, ""))], VOCAB)
    tokens, spikes = choose(emissions.log_probs, [said("ab", "ac", "cba"), said("f")])
    assert "".join(tokens.labels) == chosen + "f"
    assert tokens.words == (0,) * len(chosen) + (1,)
    assert len(spikes.start) == len(chosen) + 1


def test_each_word_has_its_own_choice_and_on_a_tie_the_first_stays() -> None:
    ways = ["ab", "ac", "ac", "ab", "ac"] * 20
    path = [token for way in ways for letter in (*way, "f") for token in (letter, "")]
    word_tokens = [word for _ in ways for word in (said("ab", "ac"), said("f"))]
    tokens, _ = choose(planted(path, VOCAB).log_probs, word_tokens)
    assert "".join(tokens.labels) == "f".join(ways) + "f"
    x = torch.zeros(8, len(VOCAB))
    tokens, _ = choose(x, [said("ab", "cd")])
    assert tokens.labels == ("a", "b")


def test_the_choice_does_not_depend_on_how_many_are_scored_at_once(monkeypatch) -> None:
    x = scores(300, len(VOCAB), seed=3).float()
    words = [
        said("ab", "ac", "fed"),
        said("d"),
        said("cb", "a"),
        WordTokens(()),
        said("ee", "f"),
    ] * 6
    together = choose(x, words)[0]
    monkeypatch.setattr(batching, "VALUES_AT_ONCE", 1)
    assert choose(x, words)[0] == together


def test_a_word_that_spans_minutes_is_scored_in_bounded_memory(monkeypatch) -> None:
    """One word over the whole recording and many short ones: no padded batch is larger than the
    limit."""
    sizes = []
    real = batching.Forward.run

    def watched(asked):
        sizes.append(len(asked) * max(request.scores.size for request in asked))
        return real(asked)

    monkeypatch.setattr(batching, "VALUES_AT_ONCE", 50_000)
    monkeypatch.setattr(batching.Forward, "run", staticmethod(watched))
    path = ["a", *[""] * 6000, "b", *["f", ""] * 100]
    x = planted(path, VOCAB).log_probs
    x[1:6001, list(ids("abc"))] = float("-inf")
    choose(x, [said("ab", "ac"), *[said("f", "e")] * 100])
    assert len(sizes) > 2
    assert max(sizes) <= 50_000


def test_words_side_by_side_and_shorter_pronunciations() -> None:
    emissions = planted(["a", "f", "b"], VOCAB)
    tokens, spikes = choose(emissions.log_probs, [said("a"), WordTokens(()), said("b")], 6)
    assert (tokens.ids, tokens.words) == ((1, 6, 2), (0, -1, 2))
    assert spikes.start.tolist() == [0, 1, 2]
    x = planted(["a", "b", "c"], VOCAB).log_probs
    assert choose(x, [said("abcd", "abc")])[0].labels == ("a", "b", "c")
    with pytest.raises(TooShortError, match="4 tokens need at least 4 frames, the audio has 3"):
        choose(x, [said("abcde", "abcd")])
    with pytest.raises(TooShortError, match="4 tokens"):
        choose(x, [said("abcd")])


def torn(low: float = 0.2, high: float = 0.6) -> torch.Tensor:
    """ "ab" at frames 5 and 8, b doubtful; a likelier b stands alone at frame 150; "c" at frame
    220."""
    x = planted(["a" if t == 5 else "c" if t == 220 else "" for t in range(240)], VOCAB).log_probs
    for t, p in ((8, low), (150, high)):
        x[t] = np.log(0.01)
        x[t, 0], x[t, VOCAB.index("b")] = np.log(1 - p - 0.05), np.log(p)
    return x


@pytest.mark.parametrize(
    ("words", "scores", "expected"),
    [
        ((0, 0, 1), (0.2, 0.6), [5, 8, 220]),
        ((0, 1, 2), (0.2, 0.6), [5, 150, 220]),  # words may stand as far apart as they like,
        ((0, -1, 1), (0.2, 0.6), [5, 150, 220]),  # and so may separators
        ((0, 0, 1), (0.9, 0.01), [5, 8, 220]),  # where no word is torn, the spikes are those of CTC
    ],
)
def test_a_word_is_not_torn_apart(
    words: tuple[int, ...], scores: tuple[float, float], expected: list[int]
) -> None:
    x, tokens = torn(*scores), Tokens(ids("abc"), tuple("abc"), words)
    plain, whole = best_path(x, tokens.ids, 0), word_path(x, tokens, 0)
    assert starts(plain) == ([5, 150, 220] if scores == (0.2, 0.6) else expected)
    assert starts(whole) == expected
    assert whole[0].end.tolist() == [start + 1 for start in expected]
    assert whole[1] == plain[1]


@pytest.mark.parametrize("blank", [0, 3])
def test_a_word_that_is_torn_whatever_one_does_still_has_its_spikes(blank: int) -> None:
    x = torch.full((200, 5), float("-inf"))
    x[:, blank] = 0.0
    x[10, 1], x[190, 2] = -0.1, -0.1
    found, _ = word_path(x, Tokens((1, 2), ("a", "b"), (0, 0)), blank)
    assert (found.start.tolist(), found.end.tolist()) == ([10, 190], [11, 191])


# Words that CTC's best path tears apart, in recordings that are too long for a second search of all
# states.

BLANK, CLASSES = 0, 5
SOUNDS = (1, 2, 3)


def torn_words(words: int = 12) -> tuple[torch.Tensor, Tokens]:
    """Log-probs in which the first sound of every word comes a second early, once more, a little
    likelier."""
    log_probs = torch.full((words * 200, CLASSES), -9.0)
    log_probs[:, BLANK] = -0.02
    for word in range(words):
        for k, sound in enumerate(SOUNDS):
            log_probs[word * 200 + 120 + 3 * k, sound] = -0.3
            log_probs[word * 200 + 120 + 3 * k, BLANK] = -3.0
        log_probs[word * 200 + 10, SOUNDS[0]], log_probs[word * 200 + 10, BLANK] = -0.1, -4.0
    ids, owners = SOUNDS * words, np.repeat(np.arange(words), len(SOUNDS))
    return log_probs, Tokens(ids, tuple(map(str, ids)), tuple(owners.tolist()))


@pytest.mark.parametrize("window_frames", [100, 500])
def test_in_windows_it_is_the_same(window_frames: int, monkeypatch: pytest.MonkeyPatch) -> None:
    log_probs, tokens = torn_words()
    everywhere = starts(word_path(log_probs, tokens, BLANK))
    assert everywhere[:3] == [120, 123, 126]
    windows: list[int] = []
    usual = ctc_path.window_from

    def seen(first: int, *arguments: object) -> object:
        windows.append(first)
        return usual(first, *arguments)  # type: ignore[arg-type]

    monkeypatch.setattr(ctc_path, "window_from", seen)
    monkeypatch.setattr(ctc_path, "MOST_CELLS", 0)
    monkeypatch.setattr(ctc_path, "WINDOW_FRAMES", window_frames)
    monkeypatch.setattr(ctc_path, "NEAR_FRAMES", 400)
    assert starts(word_path(log_probs, tokens, BLANK)) == everywhere
    assert len(windows) >= 3


def test_a_wildcard_among_the_tokens_keeps_its_scores() -> None:
    log_probs, tokens = torn_words(2)
    ids = list(tokens.ids)
    ids[4] = ctc_path.lattice.WILDCARD
    scores = np.full(len(log_probs), -9.0, np.float32)
    scores[323] = -0.1
    wild = Tokens(tuple(ids), tokens.labels, tokens.words)
    assert starts(word_path(log_probs, wild, BLANK, wildcard=scores)) == [
        120,
        123,
        126,
        320,
        323,
        326,
    ]


# Parentheses and possible names of speakers: the sound decides whether they are spoken.

PASSAGE_VOCAB = ("-", "|", *"abcdefghij")
DEMO = Path(ctc_align.__file__).parent / "demo" / "demo.flac"


def decided(said: str, text: str, vocab: tuple[str, ...] = PASSAGE_VOCAB) -> Words:
    """Return the words of a text where the model hears the labels `said`, one a frame."""
    emissions = planted(list(said), vocab)
    words = split(text)
    tokenizer = tokenizer_for(vocab, 0)
    word_tokens = tokenize(words, tokenizer)
    steps = leave_out_unspoken(emissions, words, word_tokens, tokenizer.separator)
    return batching.run([steps])[0][0]


def spoken(words: Words) -> str:
    return " ".join(word.spoken for word in words.words if word.spoken)


def test_passages_are_kept_where_they_are_heard() -> None:
    text = "abc (de fg) hi"
    assert spoken(decided("-a-b-c-|-d-e-|-f-g-|-h-i-", text)) == "abc de fg hi"
    left = decided("-a-b-c-|-h-i-", text)
    assert spoken(left) == "abc hi"
    assert [word.kind for word in left.words] == ["", "direction", "direction", ""]
    text = "(ab cd) (ef) gh (ij)"
    assert spoken(decided("-g-h-", text)) == "gh"
    assert spoken(decided("-e-f-|-g-h-", text)) == "ef gh"
    assert spoken(decided("-a-b-|-c-d-|-g-h-|-i-j-", text)) == "ab cd gh ij"
    bare = ("-", *"abcdefghij")
    assert spoken(decided("-g-h-i-j-", text, bare)) == "gh ij"
    assert spoken(decided("--", "(ab) (cd)")) == "ab cd"  # not all there is
    assert spoken(decided("-a", "abc (de fg) hi")) == "abc de fg hi"


def test_words_that_break_off_are_heard_or_not() -> None:
    for said, words in (("-a-b-|-a-b-c-", "ab abc"), ("-a-b-c-", "abc")):
        found = decided(said, "ab- abc")
        assert spoken(found) == words
        assert found.words[0].kind == ("" if "|" in said else "cut_off")


def test_long_recordings_are_searched_near_a_path_through_all_words(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(pronunciations, "MOST_CELLS", 0)
    monkeypatch.setattr(pronunciations, "NEAR_FRAMES", 6)
    text = "abc (de fg) hi (ab) cd"
    assert spoken(decided("-a-b-c-|-d-e-|-f-g-|-h-i-|-c-d-", text)) == "abc de fg hi cd"
    assert spoken(decided("-a-b-c-|-h-i-|-a-b-|-c-d-", text)) == "abc hi ab cd"


def test_names_that_are_not_heard_are_speakers() -> None:
    words = decided("-a-b-|-c-d-", "Fie: ab.\nJade: cd.")
    assert [(word.spoken, word.kind, word.speaker) for word in words.words] == [
        ("", "speaker", ""),
        ("ab", "", "Fie"),
        ("", "speaker", ""),
        ("cd", "", "Jade"),
    ]


SAID = (
    "Forced alignment finds where every word begins and ends, in twenty-two lines of text, or in"
    " 1999."
)


@pytest.mark.parametrize("match", ["auto", "exact"])
def test_the_sound_decides_about_square_brackets_and_fillers(match: str, english: Aligner) -> None:
    text = SAID.replace("alignment finds", "[alignment finds]").replace(
        "and", "[He leaves the room.] and"
    )
    text = text.replace("lines", "&-um lines")
    aligner = english.with_settings(replace(english.settings, match=match))
    alignment, plain = aligner.align(str(DEMO), text), aligner.align(str(DEMO), SAID)
    assert {word.text for word in alignment.words if word.kind} == {
        "[He",
        "leaves",
        "the",
        "room.]",
        "&-um",
    }
    heard = [word for word in alignment.words if not word.kind]
    assert [word.start_s for word in heard] == [word.start_s for word in plain.words]


@pytest.mark.data
def test_a_filler_that_nobody_says_takes_no_word_with_it(
    english: Aligner, speech_data: Path
) -> None:
    """The search missed MUSEUM, which begins as the filler ends."""
    audio = speech_data / "english" / "audio" / "libri_test_clean" / "260-123286-0018.opus"
    text = (
        "I SAW AT THE HAMBURG MUSEUM THE SKELETON OF ONE OF {}THESE CREATURES THIRTY FEET IN LENGTH"
    )
    alignment, plain = (english.align(audio, text.format(each)) for each in ("&-um &-um ", ""))
    heard = [word for word in alignment.words if not word.kind]
    assert [word.start_s for word in heard] == [word.start_s for word in plain.words]


def test_a_word_for_any_speech_keeps_its_place_and_proves_nothing(english: Aligner) -> None:
    plain = english.align(str(DEMO), SAID)
    alignment = english.align(str(DEMO), SAID.replace("every", "<unk>"))
    moved = [abs(one.start_s - other.start_s) for one, other in zip(alignment.words, plain.words)]
    assert max(moved) < 0.06
    assert (alignment.fit, alignment.unknown, alignment.regions) == (plain.fit, 0, plain.regions)
    assert alignment.words[4].confidence == min(alignment.words[at].confidence for at in (3, 5))
    assert alignment_notes(alignment) == alignment_notes(plain)
    assert Style().label(alignment.words[4]) == "<unk>"


def test_the_sound_chooses_how_a_number_is_read(english: Aligner) -> None:
    alignment = english.align(str(DEMO), SAID.replace("1999", "19-99"))
    plain = english.align(str(DEMO), SAID)
    assert alignment.words[-1].spoken == "nineteen ninety nine"
    assert [word.end_s for word in alignment.words] == [word.end_s for word in plain.words]


def test_a_recording_with_and_without_what_is_in_parentheses(english: Aligner) -> None:
    text = (
        "JOHN: Forced alignment (finds where every word) begins (he smiles at them) and ends,"
        " [laughs] <i>in</i> twenty-two lines (of text),\nMARY: or in 1999. (Curtain falls.)"
    )
    said = (
        "Forced alignment finds where every word begins and ends, in twenty-two lines of text, or"
        " in 1999."
    )
    alignment, plain = english.align(str(DEMO), text), english.align(str(DEMO), said)
    heard = [word for word in alignment.words if word.status == ALIGNED]
    assert " ".join(word.text for word in heard).replace("(", "").replace(")", "") == said
    assert [word.start_s for word in heard] == [word.start_s for word in plain.words]
    assert alignment.loss == plain.loss
    place = 0
    for word in alignment.words:
        assert text[word.char_start : word.char_end] == word.text
        assert not text[place : word.char_start].strip()
        place = word.char_end
        assert (word.status == UNSPOKEN) == bool(word.kind)
    assert "2 of 4 parentheses are not spoken" in alignment_notes(alignment)
    assert [word.speaker for word in heard if word.text in ("Forced", "1999.")] == ["JOHN", "MARY"]
    inputs = read_inputs(english, str(DEMO), text)
    exact = batching.run(
        [choose_tokens(replace(inputs, settings=replace(inputs.settings, match="exact")))]
    )[0]
    assert exact.words == inputs.words


@pytest.mark.parametrize(
    ("options", "labels"),
    [
        ({}, ["B", "OY"]),
        ({"stress": True}, ["B", "OY1"]),
        ({"phones": "ipa"}, ["b", "ɔɪ"]),
        ({"phones": "ipa", "stress": True}, ["b", "ˈɔɪ"]),
    ],
)
def test_labels_of_phones_are_those_that_the_settings_ask_for(options, labels, tmp_path) -> None:
    (tmp_path / "words.dict").write_text("boy\tB OY1\n", "utf-8")
    vocab = ("<blank>", *ARPABET_PHONES)
    emissions = random_emissions(40, len(vocab), vocab=vocab)
    aligner = Aligner(
        model=None, lexicon=tmp_path / "words.dict", settings=Settings(match="exact", **options)
    )
    plain = Aligner(model=None, lexicon=tmp_path / "words.dict", settings=Settings(match="exact"))
    [word], [same] = aligner.align(emissions, "boy").words, plain.align(emissions, "boy").words
    assert [token.token for token in word.tokens] == labels
    assert [token.start_s for token in word.tokens] == [token.start_s for token in same.tokens]


def test_arpabet_labels_need_an_arpabet_model() -> None:
    emissions = random_emissions(40, vocab=("<blank>", *IPA_PHONES))
    with pytest.raises(UsageError, match="--phones arpabet: this model has IPA phones"):
        Aligner(model=None, settings=Settings(match="exact", phones="arpabet")).align(
            emissions, "boy"
        )
