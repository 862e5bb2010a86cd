"""The last step to the edges that are written: between frames, corrected by kind, in order, with their spread.

Kinds of sounds have edges that a model puts early or late by a habit: a person ends a stop with its burst, and a vowel
where the next one's formants begin. A calibration holds what to add for each pair of kinds.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

import numpy as np

from ctc_align import units
from ctc_align.alignment.ctc_path import Spikes, best_spikes_batch
from ctc_align.alignment.edge_posteriors import Places, Segmented, soft_places
from ctc_align.alignment.pauses import belongs_to_next, shortest_pause
from ctc_align.alignment.segmentation import Spans, from_spikes, from_states_batch, parts_of
from ctc_align.alignment.wildcard import scores_of, speech_scores
from ctc_align.lattice.topology import WILDCARD
from ctc_align.models.calibration import SILENCE, Calibration, kind_of
from ctc_align.types import Emissions, Tokens

SHORTEST_FRAMES = 0.5
"""What a sound lasts at least."""


@dataclass(frozen=True)
class Edges:
    """Of each token (L,), in frames: start and end (exclusive), ascending, never overlapping, and the standard
    deviations of both, None where nobody knows them. What stands between words (a separator) is empty."""

    start: np.ndarray
    end: np.ndarray
    start_sd: np.ndarray | None = None
    end_sd: np.ndarray | None = None


@dataclass(frozen=True)
class Neighbours:
    """Of the sounds of an utterance, L of them: which are followed by a pause, and the kinds on either side of their
    starts and ends (L, 2)."""

    pause_after: np.ndarray
    around_start: list[tuple[str, str]]
    around_end: list[tuple[str, str]]


@dataclass(frozen=True)
class Utterance:
    """What edges are drawn from: what the model says, the tokens, and their spikes on CTC's best path."""

    emissions: Emissions
    tokens: Tokens
    spikes: Spikes

    @property
    def said(self) -> np.ndarray:
        """Places of the tokens that belong to words."""
        return np.flatnonzero(np.asarray(self.tokens.words) >= 0)

    def segmented(self, spans: Spans | None) -> Segmented:
        """For `soft_places`: the segmentation where the spans come from one, else CTC's paths through all tokens."""
        ids, words = np.asarray(self.tokens.ids), np.asarray(self.tokens.words)
        lacking = (ids == WILDCARD).any()
        if spans is None:
            spikes, blank = self.spikes, self.emissions.blank
            wildcard = scores_of(self.emissions) if lacking else None
            return Segmented(
                self.emissions.log_probs, ids, words, spikes.first, spikes.last, blank=blank, wildcard=wildcard
            )
        states, said = self.emissions.states, self.said
        assert states is not None
        sounds = ids[said] - (ids[said] > self.emissions.blank)
        wildcard = speech_scores(states) if lacking else None
        parts = parts_of(self.emissions)
        return Segmented(states, sounds, words[said], spans.first[said], spans.last[said], parts, wildcard=wildcard)


@dataclass(frozen=True)
class Drawing:
    """How edges are drawn.

    Attributes:
        how: "spikes": the frames of CTC's best path. "occupancy": the medians over all paths, of the segmentation where
            the model has one, else of CTC. "calibrated": the best path's, with the calibration's offsets, and
            where it is CTC's own with its cost of blanks. "refined": the medians, with the offsets; "calibrated" where
            the model has no segmentation. "auto": "refined" where it has one, else "calibrated" where it has a
            calibration, else "spikes".
        calibration: the model's.
        band_s, shortest_pause_s: see `Settings`.
        backend: of the kernels.
    """

    how: str
    calibration: Calibration
    band_s: float
    shortest_pause_s: float
    backend: str


def draw_batch(utterances: Sequence[Utterance], drawing: Drawing) -> list[Edges]:
    """The edges of utterances of one vocabulary, blank, frame shift and number of states."""
    spans = _best_spans(utterances, drawing)
    how = drawing.how
    segmented = utterances[0].emissions.states is not None
    if how == "auto":
        how = "refined" if segmented else "calibrated" if drawing.calibration.draws else "spikes"
    elif how == "refined" and not segmented:
        how = "calibrated"
    places: list[Places | None] = [None] * len(utterances)
    if how in ("occupancy", "refined"):
        places = _all_places(utterances, spans, drawing)
    calibration = drawing.calibration
    if how in ("spikes", "occupancy"):
        calibration = replace(calibration, offsets_ms={})
    all_spikes = [one.spikes for one in utterances]
    if how == "calibrated" and calibration.blank_cost and not segmented:
        all_spikes = _with_costly_blanks(utterances, drawing)
    edges = []
    for one, own, soft, spikes in zip(utterances, spans, places, all_spikes):
        shift_s = one.emissions.frame_shift_s
        frames = _frames_of(one.emissions)
        if own is None:
            known = Calibration() if one.emissions.states is not None else calibration
            gap = known.spike_gap_s / shift_s if how == "calibrated" else 0.0
            edges.append(draw(from_spikes(spikes), soft, one.tokens, known, frames, gap, spikes=True))
        else:
            shortest = drawing.shortest_pause_s / shift_s
            edges.append(draw(own, soft, one.tokens, calibration, frames, shortest))
    return edges


def _best_spans(utterances: Sequence[Utterance], drawing: Drawing) -> list[Spans | None]:
    """By the segmentation, where there is one and it fits."""
    first = utterances[0].emissions
    if first.states is None or drawing.how == "spikes":
        return [None] * len(utterances)
    band_frames = max(1, units.seconds_to_frames(drawing.band_s, first.frame_shift_s))
    return from_states_batch(
        [one.emissions for one in utterances],
        [one.tokens for one in utterances],
        [one.spikes for one in utterances],
        band_frames,
        backend=drawing.backend,
    )


def _with_costly_blanks(utterances: Sequence[Utterance], drawing: Drawing) -> list[Spikes]:
    """CTC's best paths when each frame of blank costs what the calibration says."""
    blank = utterances[0].emissions.blank
    rows = []
    for one in utterances:
        row = one.emissions.log_probs.clone()
        row[:, blank] -= drawing.calibration.blank_cost
        rows.append(row)
    ids = [one.tokens.ids for one in utterances]
    wildcards = [scores_of(one.emissions) for one in utterances] if any(map(_lacks, utterances)) else None
    paths = best_spikes_batch(rows, ids, blank, wildcards=wildcards, backend=drawing.backend)
    return [path if isinstance(path, Spikes) else one.spikes for one, path in zip(utterances, paths)]


def _lacks(utterance: Utterance) -> bool:
    """Whether letters that the model lacks are among the tokens."""
    return WILDCARD in utterance.tokens.ids


def _all_places(
    utterances: Sequence[Utterance], spans: Sequence[Spans | None], drawing: Drawing
) -> list[Places | None]:
    """Medians over all paths, of the tokens that belong to words."""
    places: list[Places | None] = [None] * len(utterances)
    for ctc in (False, True):
        # Of a segmentation that does not fit, spikes are what there is.
        chosen = [i for i, own in enumerate(spans) if ctc == (utterances[i].emissions.states is None) == (own is None)]
        given = [utterances[i].segmented(spans[i]) for i in chosen]
        # Frames of CTC are taken as the model has them: there is no edge in its peaks to be drawn more softly.
        scale = 1.0 if ctc else drawing.calibration.scale
        for i, found in zip(chosen, soft_places(given, scale, backend=drawing.backend)):
            places[i] = found.of(utterances[i].said) if ctc else found
    return places


def _frames_of(emissions: Emissions) -> float:
    """Length of the audio in frames, from where frame 0 begins."""
    if emissions.duration_s is None:
        return float(len(emissions.log_probs))
    return (emissions.duration_s - emissions.first_frame_s) / emissions.frame_shift_s


def neighbours(labels: list[str], pause_after: np.ndarray) -> Neighbours:
    """Who stands beside whom; the ends of the utterance are silence."""
    kinds = [kind_of(label) for label in labels]
    before = [SILENCE, *kinds[:-1]]
    after = [*kinds[1:], SILENCE]
    starts = [(SILENCE if k == 0 or pause_after[k - 1] else before[k], kinds[k]) for k in range(len(kinds))]
    ends = [(kinds[k], SILENCE if pause_after[k] else after[k]) for k in range(len(kinds))]
    return Neighbours(pause_after, starts, ends)


def draw(
    spans: Spans,
    places: Places | None,
    tokens: Tokens,
    calibration: Calibration,
    frames: float,
    usual_pause: float,
    *,
    spikes: bool = False,
) -> Edges:
    """The edges of an utterance.

    Args:
        spans: frames of the best path, of all tokens.
        places: where the edges are between frames, of the tokens that belong to words; None: as in `spans`.
        tokens: as in `spans`.
        calibration: what is added to edges, and what spreads are multiplied by.
        frames: length of the audio, in frames.
        usual_pause: the usual shortest pause, in frames (see `ctc_align.alignment.pauses`).
        spikes: the spans are CTC's, between which there is a gap almost always.
    """
    said = np.flatnonzero(np.asarray(tokens.words) >= 0)
    first, last = spans.first[said], spans.last[said]
    start, end = (first.astype(np.float64), last.astype(np.float64)) if places is None else (places.start, places.end)
    labels = [tokens.labels[k] for k in said]
    gap = first[1:] > last[:-1]
    if spikes:
        owners = np.asarray(tokens.words)[said]
        start, end, pause_after = _met_half_way(start, end, gap, owners[1:] != owners[:-1], usual_pause)
    else:
        start, end, pause_after = _closed(start, end, gap, labels, usual_pause)
    beside = neighbours(labels, pause_after)
    start = start + [calibration.offset_frames(*pair) for pair in beside.around_start]
    end = end + [calibration.offset_frames(*pair) for pair in beside.around_end]
    start, end = _in_order(start, end, pause_after, frames)
    whole = Edges(spans.first.astype(np.float64), spans.first.astype(np.float64))
    whole.start[said], whole.end[said] = start, end
    _empty_between(whole, said)
    if places is None:
        return whole
    start_sd, end_sd = np.zeros(len(spans.first)), np.zeros(len(spans.first))
    start_sd[said] = places.start_sd * calibration.spread
    end_sd[said] = places.end_sd * calibration.spread
    return Edges(whole.start, whole.end, start_sd, end_sd)


def _closed(
    start: np.ndarray, end: np.ndarray, gap: np.ndarray, labels: list[str], shortest: float
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Starts and ends where neighbours without a pause share their edge, and after which sounds (L,) there is one."""
    start, end = start.copy(), end.copy()
    kinds = [kind_of(label) for label in labels]
    least = shortest * np.array([shortest_pause(*pair) for pair in pairwise(kinds)])
    closure = np.array([belongs_to_next(*pair) for pair in pairwise(kinds)], np.bool_)
    pause = gap & (start[1:] - end[:-1] >= least)
    shared = np.where(gap & closure, end[:-1], start[1:])
    start[1:] = np.where(pause, start[1:], shared)
    end[:-1] = np.where(pause, end[:-1], shared)
    return start, end, np.append(pause, True)


def _met_half_way(
    start: np.ndarray, end: np.ndarray, gap: np.ndarray, between_words: np.ndarray, shortest: float
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """As `_closed`, but what is no pause is shared out: a spike says little about where its sound ends. Inside a word
    there is no pause; with a `shortest` of 0 every gap is left as it is."""
    pause = gap & (start[1:] - end[:-1] >= shortest)
    if shortest > 0:
        pause &= between_words
    middle = (start[1:] + end[:-1]) / 2
    starts = np.append(start[:1], np.where(pause, start[1:], middle))
    ends = np.append(np.where(pause, end[:-1], middle), end[-1:])
    return starts, ends, np.append(pause, True)


def _in_order(
    start: np.ndarray, end: np.ndarray, pause_after: np.ndarray, frames: float
) -> tuple[np.ndarray, np.ndarray]:
    """Edges that ascend within [0, frames], every sound SHORTEST_FRAMES or longer, shared edges still shared."""
    count = len(start)
    edges = np.empty(2 * count)
    edges[::2], edges[1::2] = start, end
    shared = np.zeros(2 * count, np.bool_)
    shared[2::2] = ~pause_after[:-1]
    # A shared edge is one: its two places are their mean, which is either where they are the same.
    middle = (edges[1:-1:2] + edges[2::2]) / 2
    edges[1:-1:2] = np.where(shared[2::2], middle, edges[1:-1:2])
    edges[2::2] = np.where(shared[2::2], middle, edges[2::2])
    least = min(SHORTEST_FRAMES, frames / max(count, 1))
    room = np.repeat(np.arange(count), 2) * least
    room[1::2] += least
    edges = np.maximum.accumulate(np.maximum(edges, 0.0) - room) + room
    latest = frames - (count * least - room)
    edges = np.minimum(edges, latest)
    edges = np.minimum.accumulate((edges - room)[::-1])[::-1] + room
    return edges[::2], edges[1::2]


def _empty_between(edges: Edges, said: np.ndarray) -> None:
    """Separators at the end of the sound before them."""
    others = np.setdiff1d(np.arange(len(edges.start)), said)
    before = np.searchsorted(said, others) - 1
    place = np.where(before >= 0, edges.end[said[np.maximum(before, 0)]], 0.0) if len(said) else np.zeros(len(others))
    edges.start[others] = edges.end[others] = place


def shared_out(edges: Edges, tokens: Tokens) -> Edges:
    """Stretches of wildcards in a row, which know nothing of each other, shared out by the letters they stand for."""
    ids = np.asarray(tokens.ids)
    said = np.flatnonzero(np.asarray(tokens.words) >= 0)
    lacking = ids[said] == WILDCARD
    if not (lacking[1:] & lacking[:-1]).any():
        return edges
    start, end = edges.start.copy(), edges.end.copy()
    begins = np.flatnonzero(lacking & ~np.append(False, lacking[:-1]))
    ends = np.flatnonzero(lacking & ~np.append(lacking[1:], False)) + 1
    for low, high in zip(begins, ends):
        places = said[low:high]
        letters = np.array([len(tokens.labels[place]) for place in places], np.float64)
        length = end[places[-1]] - start[places[0]]
        least = min(SHORTEST_FRAMES, length / len(places))
        shares = least + (length - least * len(places)) * letters / letters.sum()
        cuts = start[places[0]] + np.cumsum(shares)[:-1]
        start[places[1:]], end[places[:-1]] = cuts, cuts
    return replace(edges, start=start, end=end)
