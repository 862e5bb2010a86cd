"""Edges with hand labels as examples for a network of edges: windows around drawn edges, and where labels put them.

Labels of words alone say nothing of the edges inside words: these are examples too, of little weight, that say "as it
is drawn", so that learning leaves them where they are.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ctc_align.alignment.ctc_path import Spans
from ctc_align.alignment.refined_edges import Edges, EdgeScene, edges_of, utterance_sounds
from ctc_align.models.edge_network import EdgeNetwork
from ctc_align.training.calibrating.edge_errors import SpokenUtterance, phones_of, words_of
from ctc_align.training.refining.edge_training import EdgeExamples, examples_of
from ctc_align.types import Emissions

UNLABELLED_WEIGHT = 0.2
"""Weight of an edge without a label."""
ONE_EDGE_S = 0.011
"""Labels of the end of a phone and of the start of the next one, at most this far apart, are of one edge."""


def network_labels(emissions: Emissions, separator: int | None = None) -> tuple[str, ...]:
    """Return the tokens that a network of edges knows: all but the blank and the separator of words.

    >>> import torch
    >>> network_labels(Emissions(torch.zeros(1, 4), ("-", "|", "a", "b"), 0.01), 1)
    ('a', 'b')
    """
    others = (emissions.blank, separator)
    return tuple(label for index, label in enumerate(emissions.vocab) if label and index not in others)


def edge_examples(utterances: Sequence[SpokenUtterance], drawn: Sequence[Spans], network: EdgeNetwork) -> EdgeExamples:
    """Return the examples of utterances, the sounds counted as by `network`.

    Args:
        utterances: whose emissions have their sound; at least one.
        drawn: the edges of each, as they are when a network will look at them.
        network: of the same labels as the one that will learn.
    """
    return EdgeExamples.joined(
        [utterance_examples(utterance, edges, network) for utterance, edges in zip(utterances, drawn)]
    )


def utterance_examples(
    utterance: SpokenUtterance, drawn: Spans, network: EdgeNetwork, word_weights: np.ndarray | None = None
) -> EdgeExamples:
    """Return the examples of one utterance.

    Args:
        utterance: whose emissions have their sound.
        drawn: its edges, as they are when a network will look at them.
        network: of the same labels as the one that will learn.
        word_weights: (W, 2) what the start and the end of each labelled word count, and all other edges as those
            without a label; None: 1 for every labelled edge.
    """
    spoken, ids, words = utterance_sounds(utterance.tokens.ids, utterance.tokens.words)
    own = drawn.of(spoken)
    edges = edges_of(own.start, own.end, words)
    place_s = labelled_places(utterance, drawn, edges)
    unknown = np.isnan(place_s)
    emissions = utterance.emissions
    place_s[unknown] = edges.frames[unknown] * emissions.frame_shift_s + emissions.first_frame_s
    if word_weights is None:
        weight = np.where(unknown, UNLABELLED_WEIGHT, 1.0)
    else:
        weight = _weights_of_words(utterance, drawn, edges, word_weights)
    return examples_of(EdgeScene(emissions, ids, edges, network), place_s, weight)


def _weights_of_words(utterance: SpokenUtterance, drawn: Spans, edges: Edges, word_weights: np.ndarray) -> np.ndarray:
    weight = np.full(len(edges), UNLABELLED_WEIGHT)
    of_label = {id(label): row for label, row in zip(utterance.labelled.words, word_weights)}
    words = words_of(utterance, drawn)
    for w, label in words.labels:
        if id(label) in of_label:
            start, end = edges.begins[words.begins[w]], edges.ends[words.begins[w + 1] - 1]
            weight[start], weight[end] = of_label[id(label)]
    return weight


def labelled_places(utterance: SpokenUtterance, drawn: Spans, edges: Edges) -> np.ndarray:
    """Return where the labels put edges (E,), in seconds from the audio's start; NaN where they do not say it.

    Starts and ends of words are those of the labelled words; edges inside words are those that two labelled phones
    share.

    Args:
        utterance: with its labels.
        drawn: the edges of all its tokens.
        edges: of its sounds, from `drawn`.
    """
    place_s = np.full(len(edges), np.nan)
    start_s, end_s = np.full((2, len(edges.begins)), np.nan)
    for k, phone in phones_of(utterance, drawn).labels:
        start_s[k], end_s[k] = phone.start_s, phone.end_s
    shared = edges.ends[:-1] == edges.begins[1:]
    agree = shared & (np.abs(start_s[1:] - end_s[:-1]) <= ONE_EDGE_S)  # never where one is NaN
    place_s[edges.ends[:-1][agree]] = ((start_s[1:] + end_s[:-1]) / 2)[agree]
    words = words_of(utterance, drawn)
    for w, word in words.labels:
        place_s[edges.begins[words.begins[w]]] = word.start_s
        place_s[edges.ends[words.begins[w + 1] - 1]] = word.end_s
    return place_s
