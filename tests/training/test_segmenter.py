"""The generative segmenter finds the edges of sounds whose edges are known."""

from __future__ import annotations

import numpy as np
import pytest
from made_corpus import Lines, Made, frames, make_corpus, utterances_of

from ctc_align.text import split
from ctc_align.text.phone_sets import ARPABET_PHONES
from ctc_align.tokens.phones import PhoneTokenizer
from ctc_align.tokens.tokenizer import tokenize
from ctc_align.training import Watch
from ctc_align.training.corpus_data import FeatureStore, Spoken, build_store
from ctc_align.training.segmenter import PARTS, Segmenter

pytestmark = pytest.mark.long

SILENCE = len(ARPABET_PHONES) * PARTS
OTHER = ARPABET_PHONES.index("OW")
ROUNDS = [(1, 6, 30), (2, 2, 30)]


def spoken_of(one: Made) -> Spoken:
    words = tokenize(split(one.text), PhoneTokenizer(("<blank>", *ARPABET_PHONES)))
    said = tuple((np.array(word.pronunciations[0].ids) - 1,) for word in words)
    return Spoken(said, (0,) * len(said))


@pytest.fixture(scope="module")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> tuple[list[Made], FeatureStore]:
    folder = tmp_path_factory.mktemp("corpus")
    made = make_corpus(folder, utterances=30, dev=0, slow=2)
    return made, build_store(utterances_of(folder), folder / "features")


@pytest.fixture(scope="module")
def trained(corpus: tuple[list[Made], FeatureStore]) -> Segmenter:
    made, store = corpus
    lines = Lines()
    segmenter = Segmenter(store, {i: spoken_of(one) for i, one in enumerate(made)}, len(ARPABET_PHONES), lines)
    segmenter.train(range(30), ROUNDS)
    assert [line.split()[1] for line in lines.lines] == ["1", "2"]
    return segmenter


def segments(labels: np.ndarray) -> list[tuple[int, int]]:
    """First and last (exclusive) frame of each phone, in order."""
    phone = np.where(labels == SILENCE, -1, labels // PARTS)
    edges = np.concatenate(([0], np.flatnonzero(np.diff(phone)) + 1, [len(phone)]))
    return [(a, b) for a, b in zip(edges[:-1].tolist(), edges[1:].tolist()) if phone[a] >= 0]


def test_what_is_said() -> None:
    spoken = Spoken(((np.array([1, 2]), np.array([3])), (np.array([4]),)), (1, 0))
    assert spoken.phones.tolist() == [3, 4]
    assert spoken.owners.tolist() == [0, 1]


def test_planted_edges_are_found(trained: Segmenter, corpus: tuple[list[Made], FeatureStore]) -> None:
    inner, outer = [], []
    for i, labels in trained.label(range(30)):
        one, found = corpus[0][i], segments(labels)
        assert len(labels) == corpus[1].lengths[i]
        assert len(found) == len(one.phones)
        for k, (start, end) in enumerate(zip(frames(one.starts), frames(one.ends))):
            # The slopes see two frames more each, twice: a change is felt a few frames before and after it.
            (inner if k and one.starts[k] == one.ends[k - 1] else outer).append(abs(found[k][0] - start))
            (inner if one.ends[k] in one.starts else outer).append(abs(found[k][1] - end))
    assert len(inner) > 200
    assert len(outer) > 150
    assert np.mean(np.array(inner) <= 3) > 0.95
    assert np.mean(np.array(outer) <= 4) > 0.95


def test_labels_walk_through_the_parts_in_order(trained: Segmenter, corpus: tuple[list[Made], FeatureStore]) -> None:
    for i, labels in trained.label([3, 5]):
        runs = labels[np.concatenate(([True], np.diff(labels) != 0))]
        sounding = runs[runs != SILENCE]
        expected = (spoken_of(corpus[0][i]).phones[:, None] * PARTS + np.arange(PARTS)).reshape(-1)
        # Two equal phones in a row would merge in `runs`; the words are chosen so that there are none.
        assert sounding.tolist() == expected.tolist()


def test_the_pronunciation_that_sounds_is_taken(trained: Segmenter, corpus: tuple[list[Made], FeatureStore]) -> None:
    made, store = corpus
    wrong = {}
    for i, one in enumerate(made[:8]):
        words = spoken_of(one).words
        # Words of three phones get a pronunciation with a wrong vowel before the right one.
        doubled = tuple((np.array([w[0], OTHER, w[2]]), w) if len(w) == 3 else (w,) for (w,) in words)
        wrong[i] = Spoken(doubled, (0,) * len(words))
    segmenter = Segmenter(store, wrong, len(ARPABET_PHONES), Watch())
    segmenter.mixtures = trained.mixtures
    several = sum(len(word) > 1 for one in wrong.values() for word in one.words)
    assert several == 8
    assert segmenter.choose_pronunciations(range(8)) >= 7
    assert segmenter.choose_pronunciations(range(8)) <= 1


def test_realignment_raises_the_likelihood(corpus: tuple[list[Made], FeatureStore]) -> None:
    lines = Lines()
    spoken = {i: spoken_of(one) for i, one in enumerate(corpus[0][:12])}
    segmenter = Segmenter(corpus[1], spoken, len(ARPABET_PHONES), lines)
    segmenter.train(range(12), [(1, 1, 12)] * 4)
    scores = [float(line.split()[-3]) for line in lines.lines]
    assert scores[-1] > scores[0] + 0.1
    assert scores[1] >= scores[0] - 0.01


def test_the_same_data_give_the_same_labels(trained: Segmenter, corpus: tuple[list[Made], FeatureStore]) -> None:
    made, store = corpus
    again = Segmenter(store, {i: spoken_of(one) for i, one in enumerate(made)}, len(ARPABET_PHONES), Watch())
    again.train(range(30), ROUNDS)
    for (i, one), (j, two) in zip(trained.label(range(30)), again.label(range(30))):
        assert i == j
        assert one.tolist() == two.tolist()


def test_an_utterance_without_room_for_its_phones_is_left_out(
    trained: Segmenter, corpus: tuple[list[Made], FeatureStore]
) -> None:
    crowd = {0: Spoken(((np.zeros(2000, int),),), (0,)), 1: spoken_of(corpus[0][1])}
    segmenter = Segmenter(corpus[1], crowd, len(ARPABET_PHONES), Watch())
    segmenter.mixtures = trained.mixtures
    assert [i for i, _ in segmenter.label([0, 1])] == [1]


def test_a_round_without_realignment(corpus: tuple[list[Made], FeatureStore]) -> None:
    lines = Lines()
    segmenter = Segmenter(corpus[1], {0: spoken_of(corpus[0][0])}, len(ARPABET_PHONES), lines)
    segmenter.train([0], [(1, 0, 5)])
    assert lines.lines == ["segments: 1 Gaussians a state, 1 utterances: nan per frame"]
    assert segmenter.mixtures is not None
