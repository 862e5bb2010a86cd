"""The last step to the edges that are written: between frames, corrected by kind, in order, with their spread.

Kinds of sounds have edges that a model puts early or late by a habit: a person ends a stop with its burst, and a vowel
where the next one's formants begin. A calibration holds what to add for each pair of kinds.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from ctc_align import units
from ctc_align.alignment.ctc_path import Spans, best_ctc_path
from ctc_align.alignment.edge_order import SHORTEST_FRAMES, among_all_tokens, frames_in, in_order
from ctc_align.alignment.edge_posteriors import Sounds, soft_edges
from ctc_align.alignment.pauses import PauseRule
from ctc_align.alignment.segmentation import parts_of, segment, sounds_of
from ctc_align.alignment.wildcard import scores_of, speech_scores
from ctc_align.errors import InputError
from ctc_align.kernels.requests import Steps
from ctc_align.lattice import WILDCARD
from ctc_align.models.calibration import SILENCE, Calibration
from ctc_align.types import Emissions, Tokens


@dataclass(frozen=True)
class EdgeSettings:
    """The way in which edges are drawn.

    Attributes:
        method: "spikes": the frames of CTC's best path. "occupancy": the medians over all paths, of the segmentation
            where the model has one, else of CTC. "calibrated": the best path's, with the calibration's offsets, and
            where it is CTC's own with its cost of blanks. "refined": the medians, with the offsets; "calibrated" where
            the model has no segmentation. "auto": "refined" where it has one, else "calibrated" where it has a
            calibration, else "spikes".
        calibration: the model's.
        band_s, shortest_pause_s: see `Settings`.
        backend: of the kernels.
    """

    method: str
    calibration: Calibration
    band_s: float
    shortest_pause_s: float
    backend: str

    def resolved(self, *, segmented: bool) -> str:
        """Return the method for a model with or without a segmentation; never "auto"."""
        if self.method == "auto":
            return "refined" if segmented else "calibrated" if self.calibration.draws else "spikes"
        return "calibrated" if self.method == "refined" and not segmented else self.method


def place_edges(emissions: Emissions, tokens: Tokens, spikes: Spans, settings: EdgeSettings) -> Steps[Spans]:
    """Return where the tokens of an utterance begin and end, between frames.

    Args:
        emissions: of the utterance.
        tokens: what is said, wildcards and separators included.
        spikes: where CTC's best path has them.
        settings: how to draw.
    """
    segmented = emissions.states is not None
    method, calibration = settings.resolved(segmented=segmented), settings.calibration
    segments = None
    if segmented and settings.method != "spikes":
        band_frames = max(1, units.seconds_to_frames(settings.band_s, emissions.frame_shift_s))
        segments = yield from segment(emissions, tokens, spikes, band_frames, settings.backend)
    medians = None
    # Of a segmentation that does not fit, spikes are what there is.
    if method in ("occupancy", "refined") and segmented == (segments is not None):
        medians = yield from _medians(emissions, tokens, segments or spikes, segmented, settings)
    if method in ("spikes", "occupancy"):
        calibration = replace(calibration, offsets_ms={})
    if segments is not None:
        pauses = PauseRule(settings.shortest_pause_s / emissions.frame_shift_s)
        return draw(segments, medians, tokens, calibration, frames_in(emissions), pauses)
    if method == "calibrated" and calibration.blank_cost and not segmented:
        spikes = yield from _spikes_with_costly_blanks(emissions, tokens, spikes, settings)
    known = Calibration(ipa=calibration.ipa) if segmented else calibration
    gap_frames = known.spike_gap_s / emissions.frame_shift_s if method == "calibrated" else 0.0
    return draw(spikes, medians, tokens, known, frames_in(emissions), PauseRule(gap_frames, spikes=True))


def _medians(
    emissions: Emissions, tokens: Tokens, spans: Spans, segmented: bool, settings: EdgeSettings
) -> Steps[Spans]:
    """Medians over all paths, of the tokens that belong to words."""
    spoken, sounds = sounds_of(emissions, tokens)
    words, lacking = np.asarray(tokens.words), WILDCARD in tokens.ids
    if segmented:
        assert emissions.states is not None
        wildcard = speech_scores(emissions.states) if lacking else None
        given = Sounds(
            emissions.states, sounds, words[spoken], spans.of(spoken), parts_of(emissions), wildcard=wildcard
        )
        return (yield from soft_edges(given, settings.calibration.scale, settings.backend))
    # Frames of CTC are taken as the model has them: there is no edge in its peaks to be drawn more softly.
    wildcard = scores_of(emissions) if lacking else None
    given = Sounds(emissions.log_probs, np.asarray(tokens.ids), words, spans, blank=emissions.blank, wildcard=wildcard)
    medians = yield from soft_edges(given, 1.0, settings.backend)
    return medians.of(spoken)


def _spikes_with_costly_blanks(
    emissions: Emissions, tokens: Tokens, spikes: Spans, settings: EdgeSettings
) -> Steps[Spans]:
    """CTC's best path when each frame of blank costs what the calibration says; the one that is known if none fits."""
    log_probs = emissions.log_probs.clone()
    log_probs[:, emissions.blank] -= settings.calibration.blank_cost
    wildcard = scores_of(emissions) if WILDCARD in tokens.ids else None
    try:
        path = yield from best_ctc_path(
            log_probs, tokens.ids, emissions.blank, wildcard=wildcard, backend=settings.backend
        )
    except InputError:
        return spikes
    return path.spans


def kinds_around(kinds: Sequence[str], pause_after: np.ndarray) -> tuple[list[tuple[str, str]], list[tuple[str, str]]]:
    """Return the kinds on either side of each sound's start, and of its end; the ends of the utterance are silence.

    >>> kinds_around(["stop", "vowel"], np.array([False, True]))
    ([('silence', 'stop'), ('stop', 'vowel')], [('stop', 'vowel'), ('vowel', 'silence')])
    """
    before = [SILENCE, *kinds[:-1]]
    after = [*kinds[1:], SILENCE]
    starts = [(SILENCE if k == 0 or pause_after[k - 1] else before[k], kinds[k]) for k in range(len(kinds))]
    ends = [(kinds[k], SILENCE if pause_after[k] else after[k]) for k in range(len(kinds))]
    return starts, ends


def draw(
    spans: Spans,
    medians: Spans | None,
    tokens: Tokens,
    calibration: Calibration,
    frames: float,
    pauses: PauseRule,
) -> Spans:
    """Return the edges of all tokens: ascending, no sound shorter than `SHORTEST_FRAMES`, separators empty.

    Args:
        spans: frames of the best path, of all tokens.
        medians: where the edges are between frames, of the tokens that belong to words; None: as in `spans`.
        tokens: as in `spans`.
        calibration: what is added to edges, and what spreads are multiplied by.
        frames: length of the audio, in frames.
        pauses: which gaps between the spans are pauses.
    """
    spoken = np.flatnonzero(np.asarray(tokens.words) >= 0)
    path = spans.of(spoken)
    edges = path if medians is None else medians
    start, end = edges.start.astype(np.float64), edges.end.astype(np.float64)
    kinds = calibration.kinds([tokens.labels[k] for k in spoken])
    gap = path.start[1:] > path.end[:-1]
    start, end, pause_after = pauses.close(start, end, gap, kinds, np.asarray(tokens.words)[spoken])
    around_start, around_end = kinds_around(kinds, pause_after)
    start = start + [calibration.offset_frames(*pair) for pair in around_start]
    end = end + [calibration.offset_frames(*pair) for pair in around_end]
    start, end = in_order(start, end, pause_after, frames)
    if medians is None or medians.start_sd is None or medians.end_sd is None:
        return among_all_tokens(spans, spoken, Spans(start, end))
    sds = medians.start_sd * calibration.spread, medians.end_sd * calibration.spread
    return among_all_tokens(spans, spoken, Spans(start, end, *sds))


def share_out_wildcards(edges: Spans, tokens: Tokens) -> Spans:
    """Share out stretches of wildcards in a row, which do not know of each other, by the letters they stand for."""
    ids = np.asarray(tokens.ids)
    spoken = np.flatnonzero(np.asarray(tokens.words) >= 0)
    lacking = ids[spoken] == WILDCARD
    if not (lacking[1:] & lacking[:-1]).any():
        return edges
    start, end = edges.start.copy(), edges.end.copy()
    begins = np.flatnonzero(lacking & ~np.append(False, lacking[:-1]))
    ends = np.flatnonzero(lacking & ~np.append(lacking[1:], False)) + 1
    for low, high in zip(begins, ends):
        places = spoken[low:high]
        letters = np.array([len(tokens.labels[place]) for place in places], np.float64)
        length = end[places[-1]] - start[places[0]]
        least = min(SHORTEST_FRAMES, length / len(places))
        shares = least + (length - least * len(places)) * letters / letters.sum()
        cuts = start[places[0]] + np.cumsum(shares)[:-1]
        start[places[1:]], end[places[:-1]] = cuts, cuts
    return replace(edges, start=start, end=end)
