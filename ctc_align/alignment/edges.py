"""Edges of sounds, from frames to seconds: method, pauses, offsets by kind of sound, and order.

A model puts the edges of some kinds of sounds systematically early or late: a person ends a stop
with its burst, and a vowel where the next vowel's formants begin. A calibration has the correction
for each pair of kinds.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np

from ctc_align import units
from ctc_align.alignment.ctc_path import Spans, best_ctc_path, runs_of, spoken_indices
from ctc_align.alignment.segmentation import SpokenTokens, segment, segmented_sounds, soft_edges
from ctc_align.alignment.wildcard import scores_of
from ctc_align.config import Settings
from ctc_align.errors import InputError
from ctc_align.kernels.batching import StageSteps
from ctc_align.lattice import WILDCARD
from ctc_align.models.calibration import SILENCE, SOUND, Calibration, SoundDurations
from ctc_align.models.edge_network import EdgeNetwork
from ctc_align.types import Emissions, Tokens

if TYPE_CHECKING:
    from ctc_align.alignment.usual_lengths import UsualLengths

SHORTEST_FRAMES = 0.5
"""The shortest length of a sound."""
CLOSURES = ("stop", "affricate")
Pairs = list[tuple[str, str]]
"""The kinds of sounds on either side of each edge."""
LONG, LONGER, SHORT = 1.5, 2.25, 0.5
"""The shortest pause beside plosives, before vowels with a glottal closure, and beside neither, as
multiples of the setting `shortest_pause_s`."""


def edge_method(method: str, calibration: Calibration, *, segmented: bool) -> str:
    """Return the method for a model with or without a segmentation; never "auto".

    `method` is the setting `edges`; what it means depends on whether the model has a segmentation:

        | method     | with segmentation                    | without                                              |
        |------------|--------------------------------------|------------------------------------------------------|
        | spikes     | frames of CTC's best path            | frames of CTC's best path                            |
        | occupancy  | medians over all segmentations       | medians over all paths of CTC                        |
        | calibrated | best segmentation + offsets          | best path of CTC with the cost of blanks + offsets   |
        | refined    | medians over segmentations + offsets | as calibrated                                        |
        | auto       | as refined                           | calibrated if CTC is calibrated, else spikes         |

    With "refined" and "auto" a network, if there is one, then refines the edges from the audio
    (`may_refine`).
    """
    if method == "auto":
        if segmented:
            return "refined"
        if calibration.draws:
            return "calibrated"
        return "spikes"
    if method == "refined" and not segmented:
        return "calibrated"
    return method


def edges_warning(
    method: str,
    calibration: Calibration,
    network: EdgeNetwork | None,
    emissions: Emissions,
    whose: str,
) -> str:
    """Return a warning with the edges used instead if the method is impossible, otherwise "".

    `whose` names the model or calibration that lacks something.
    """
    segmented = emissions.state_array is not None
    if method == "refined" and not refines_edges(method, network, emissions):
        if network is None:
            lacking = f"{whose}: no edge network"
        else:
            lacking = "there is no audio"
        drawn = "medians over all paths"
    elif method == "calibrated" and not (
        calibration.offsets_ms if segmented else calibration.draws
    ):
        lacking = f"{whose}: no calibration of edges; make one with ctc-align calibrate"
        drawn = "the edges of the best path"
    else:
        return ""
    if not segmented:
        if calibration.draws:
            drawn = "calibrated spikes of CTC"
        else:
            drawn = "spikes of CTC"
    return f"--edges {method} is not possible here ({lacking}): using {drawn}"


def may_refine(method: str, network: EdgeNetwork | None) -> bool:
    """Return whether a network refines the edges if there is audio; `method` is `edges`."""
    return method in ("auto", "refined") and network is not None


def refines_edges(method: str, network: EdgeNetwork | None, emissions: Emissions) -> bool:
    """Return whether a network refines the edges: by the setting, the network and the audio."""
    return may_refine(method, network) and emissions.sound is not None


def place_edges(
    emissions: Emissions,
    tokens: Tokens,
    spikes: Spans,
    calibration: Calibration,
    settings: Settings,
    backend: str,
) -> StageSteps[Spans]:
    """Return where the tokens of an utterance begin and end, between frames.

    Args:
        emissions: of the utterance.
        tokens: what is said, wildcards and separators included.
        spikes: their frames on CTC's best path.
        calibration: the model's.
        settings: the caller's; uses `edges`, `band_s` and `shortest_pause_s`.
        backend: see `ctc_align.kernels`.
    """
    segmented = emissions.state_array is not None
    method = edge_method(settings.edges, calibration, segmented=segmented)
    segments = None
    if segmented and method != "spikes":
        band_frames = max(1, units.seconds_to_frames(settings.band_s, emissions.frame_shift_s))
        segments = yield from segment(emissions, tokens, spikes, band_frames, backend)
    medians = None
    # Where a segmentation does not fit there are only spikes.
    if method in ("occupancy", "refined") and segmented == (segments is not None):
        medians = yield from _compute_medians(
            emissions, tokens, segments or spikes, calibration, backend
        )
    if method in ("spikes", "occupancy"):
        calibration = replace(calibration, offsets_ms={})
    if segments is not None:
        pauses = PauseRule(settings.shortest_pause_s / emissions.frame_shift_s)
        given = tokens, calibration, frames_in(emissions), pauses
        edges = correct_edges(segments, medians, *given)
        if medians is None or medians.by_sound is None:
            return edges
        return replace(edges, by_sound=correct_edges(segments, medians.by_sound, *given))
    if segmented:
        calibration = Calibration(ipa=calibration.ipa)  # its constants are those of segments
    elif method == "calibrated" and calibration.blank_cost:
        spikes = yield from _find_spikes_with_costly_blanks(
            emissions, tokens, spikes, calibration.blank_cost, backend
        )
    if method == "calibrated":
        gap_frames = calibration.spike_gap_s / emissions.frame_shift_s
    else:
        gap_frames = 0.0
    return correct_edges(
        spikes,
        medians,
        tokens,
        calibration,
        frames_in(emissions),
        PauseRule(gap_frames, spikes=True),
    )


def _compute_medians(
    emissions: Emissions, tokens: Tokens, spans: Spans, calibration: Calibration, backend: str
) -> StageSteps[Spans]:
    """Return medians over all paths for the tokens of words.

    By a calibration's scale and usual lengths.
    """
    if emissions.state_array is not None:
        spoken, sounds = segmented_sounds(emissions, tokens, spans)
        if calibration.durations is not None and len(spoken):
            labels = [tokens.labels[k] for k in spoken]
            usual = _usual_lengths(calibration.durations, labels, sounds.spans, emissions)
            sounds = replace(sounds, usual=usual)
        return (yield from soft_edges(sounds, calibration.scale, backend))
    # Scores of CTC are used as they are: its peaks leave no edge to draw more softly.
    words = np.asarray(tokens.words)
    if WILDCARD in tokens.ids:
        wildcard = scores_of(emissions)
    else:
        wildcard = None
    sounds = SpokenTokens(
        emissions.array,
        np.asarray(tokens.ids),
        words,
        spans,
        blank=emissions.blank,
        wildcard=wildcard,
    )
    medians = yield from soft_edges(sounds, 1.0, backend)
    return medians.of(spoken_indices(tokens))


def _usual_lengths(
    durations: SoundDurations, labels: Sequence[str], spans: Spans, emissions: Emissions
) -> UsualLengths:
    """Return how long sounds with these labels (L,) and spans on the best path usually last."""
    from ctc_align.alignment.usual_lengths import PAUSE_S, UsualLengths

    gap_s = (spans.start[1:] - spans.end[:-1]) * emissions.frame_shift_s
    pause_after = np.append(gap_s >= PAUSE_S - emissions.frame_shift_s / 2, True)
    mean, sd = durations.of(labels, pause_after, emissions.frame_shift_s)
    return UsualLengths(mean, sd, pause_after)


def _find_spikes_with_costly_blanks(
    emissions: Emissions, tokens: Tokens, spikes: Spans, blank_cost: float, backend: str
) -> StageSteps[Spans]:
    """Return CTC's best path if a blank costs `blank_cost` nats a frame; `spikes` if none fits."""
    log_probs = emissions.array.copy()
    log_probs[:, emissions.blank] -= blank_cost
    if WILDCARD in tokens.ids:
        wildcard = scores_of(emissions)
    else:
        wildcard = None
    try:
        costly, _ = yield from best_ctc_path(
            log_probs, tokens.ids, emissions.blank, wildcard=wildcard, backend=backend
        )
    except InputError:
        return spikes
    return costly


def correct_edges(
    spans: Spans,
    medians: Spans | None,
    tokens: Tokens,
    calibration: Calibration,
    frames: float,
    pauses: PauseRule,
) -> Spans:
    """Return ascending edges of all tokens; sounds have `SHORTEST_FRAMES` or more, separators none.

    Args:
        spans: frames of the best path, of all tokens.
        medians: edges between frames, of the tokens that belong to words; None means those of
            `spans`.
        tokens: as in `spans`.
        calibration: its offsets are added to edges, and its factor scales the spreads.
        frames: length of the audio, in frames.
        pauses: which gaps between the spans are pauses.
    """
    spoken = spoken_indices(tokens)
    path = spans.of(spoken)
    edges = path if medians is None else medians
    start, end = edges.start.astype(np.float64), edges.end.astype(np.float64)
    kinds = calibration.kinds([tokens.labels[k] for k in spoken])
    gap = path.start[1:] > path.end[:-1]
    start, end, pause_after = pauses.close(start, end, gap, kinds, np.asarray(tokens.words)[spoken])
    start, end = _apply_offsets(
        start, end, kinds_around(kinds, pause_after), calibration.offset_frames
    )
    start, end = in_order(start, end, pause_after, frames)
    if medians is None or medians.start_sd is None or medians.end_sd is None:
        return among_all_tokens(spans, spoken, Spans(start, end))
    sds = medians.start_sd * calibration.spread, medians.end_sd * calibration.spread
    return among_all_tokens(spans, spoken, Spans(start, end, *sds))


def with_convention(edges: Spans, tokens: Tokens, calibration: Calibration, frames: float) -> Spans:
    """Return refined edges of all tokens, moved by a calibration's convention.

    `frames` as for `correct_edges`.
    """
    spoken = spoken_indices(tokens)
    if not calibration.convention_ms or not len(spoken):
        return edges
    of_words = edges.of(spoken)
    pause_after = np.append(of_words.start[1:] > of_words.end[:-1], True)
    around = kinds_around(calibration.kinds([tokens.labels[k] for k in spoken]), pause_after)
    start, end = _apply_offsets(of_words.start, of_words.end, around, calibration.convention_frames)
    start, end = in_order(start, end, pause_after, frames)
    return among_all_tokens(edges, spoken, replace(of_words, start=start, end=end))


def _apply_offsets(
    start: np.ndarray,
    end: np.ndarray,
    around: tuple[Pairs, Pairs],
    offset_frames: Callable[[str, str], float],
) -> tuple[np.ndarray, np.ndarray]:
    """Return edges (L,) with the offsets of the kinds of sounds around them."""
    before, after = around
    return start + [offset_frames(*pair) for pair in before], end + [
        offset_frames(*pair) for pair in after
    ]


def kinds_around(kinds: Sequence[str], pause_after: np.ndarray) -> tuple[Pairs, Pairs]:
    """Return the kinds on both sides of each sound's start and end.

    The ends of the utterance are silence.

    >>> kinds_around(["stop", "vowel"], np.array([False, True]))
    ([('silence', 'stop'), ('stop', 'vowel')], [('stop', 'vowel'), ('vowel', 'silence')])
    """
    before = [SILENCE, *kinds[:-1]]
    after = [*kinds[1:], SILENCE]
    starts = [
        (SILENCE if k == 0 or pause_after[k - 1] else before[k], kinds[k])
        for k in range(len(kinds))
    ]
    ends = [(kinds[k], SILENCE if pause_after[k] else after[k]) for k in range(len(kinds))]
    return starts, ends


# Pauses: a silence too short to be one belongs to the sounds around it
#
# How short that is depends on these sounds. The closure of a plosive is as silent as a pause, and
# hand labels count it to the plosive; the glottal closure before a vowel likewise belongs to the
# vowel, unless a vowel or the noise of a fricative runs up to it. Where neither neighbour has a
# closure, even a little silence is a pause. The kinds are known for the phones of
# `ctc_align.text.phone_sets`; between letters, and phones of other sets, the shortest pause has the
# usual length.


def shortest_pause(before: str, after: str) -> float:
    """Return the shortest pause between two kinds of sounds, as a multiple of the usual one.

    >>> shortest_pause("nasal", "stop"), shortest_pause("nasal", "vowel"), shortest_pause("vowel", "vowel")
    (1.5, 2.25, 0.5)
    """
    if SOUND in (before, after):
        return 1.0
    if _is_glottal(before, after):
        return LONGER
    if after in CLOSURES or before == "stop":
        return LONG
    return SHORT


def belongs_to_next(before: str, after: str) -> bool:
    """Return whether a silence too short for a pause is the closure of the sound after it.

    >>> belongs_to_next("nasal", "stop"), belongs_to_next("stop", "vowel"), belongs_to_next("stop", "fricative")
    (True, True, False)
    """
    return after in CLOSURES or _is_glottal(before, after)


def _is_glottal(before: str, after: str) -> bool:
    return after == "vowel" and before in ("stop", "affricate", "nasal", "liquid", "glide")


@dataclass(frozen=True)
class PauseRule:
    """Which gaps between sounds are pauses: `shortest_frames` is the usual shortest one.

    Between CTC's `spikes` there is nearly always a gap, and a spike says little about where its
    sound ends: a gap that is not a pause is closed at its middle, and no gap inside a word is a
    pause; with `shortest_frames` 0 every gap stays.
    """

    shortest_frames: float
    spikes: bool = False

    def close(
        self,
        start: np.ndarray,
        end: np.ndarray,
        gap: np.ndarray,
        kinds: Sequence[str],
        words: np.ndarray,
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Close the gaps that are not pauses: their neighbours share an edge.

        Args:
            start, end: (L,) edges of the sounds, in frames.
            gap: (L - 1,) bool, after which sounds the best path has a silence.
            kinds, words: (L,) of the sounds.

        Returns:
            Starts and ends (L,), and after which sounds (L,) there is a pause; always after the
            last one.
        """
        if self.spikes:
            pause = gap & (start[1:] - end[:-1] >= self.shortest_frames)
            if self.shortest_frames > 0:
                pause &= words[1:] != words[:-1]
            shared = (start[1:] + end[:-1]) / 2
        else:
            least = self.shortest_frames * np.array(
                [shortest_pause(*pair) for pair in pairwise(kinds)]
            )
            closure = np.array([belongs_to_next(*pair) for pair in pairwise(kinds)], np.bool_)
            pause = gap & (start[1:] - end[:-1] >= least)
            shared = np.where(gap & closure, end[:-1], start[1:])
        starts = np.append(start[:1], np.where(pause, start[1:], shared))
        ends = np.append(np.where(pause, end[:-1], shared), end[-1:])
        return starts, ends, np.append(pause, True)


# The order of edges: they ascend, every sound has a length, and separators between words have none


def in_order(
    start: np.ndarray, end: np.ndarray, pause_after: np.ndarray, frames: float
) -> tuple[np.ndarray, np.ndarray]:
    """Return edges that ascend within [0, frames].

    Every sound has `SHORTEST_FRAMES` or more; shared edges stay shared.

    Args:
        start, end: (L,) in frames.
        pause_after: (L,) bool, after which sounds there is a pause; the others share their edge
            with the next.
        frames: length of the audio.
    """
    count = len(start)
    edges = np.empty(2 * count)
    edges[::2] = start
    edges[1::2] = end
    shared = np.zeros(2 * count, np.bool_)
    shared[2::2] = ~pause_after[:-1]
    # A shared edge has one time: the mean of the end before it and the start after it.
    middle = (edges[1:-1:2] + edges[2::2]) / 2
    edges[1:-1:2] = np.where(shared[2::2], middle, edges[1:-1:2])
    edges[2::2] = np.where(shared[2::2], middle, edges[2::2])
    # Edge i is clamped from both sides: before it there are sounds of `least` frames each, room[i]
    # frames in all, and as much must remain for those after it. Measured from the room, ascending
    # edges are a running maximum (from the left); then each is limited by what the ones after it
    # need, a running minimum (from the right). One alone would let a late edge push its followers
    # beyond the end of the audio, or an early one pull the earlier ones below 0.
    least = min(SHORTEST_FRAMES, frames / max(count, 1))
    room = np.repeat(np.arange(count), 2) * least
    room[1::2] += least
    edges = np.maximum.accumulate(np.maximum(edges, 0.0) - room) + room
    latest = frames - (count * least - room)
    edges = np.minimum(edges, latest)
    edges = np.minimum.accumulate((edges - room)[::-1])[::-1] + room
    return edges[::2], edges[1::2]


def among_all_tokens(spans: Spans, spoken: np.ndarray, sounds: Spans) -> Spans:
    """Return the edges of all tokens: those of `spoken` (L,), and separators where sounds end.

    Args:
        spans: of all tokens; separators before the first sound are at 0.
        spoken: the indices of the sounds among all tokens.
        sounds: edges of the sounds, with standard deviations or without.
    """
    start, end = spans.start.astype(np.float64), spans.start.astype(np.float64)
    start[spoken], end[spoken] = sounds.start, sounds.end
    others = np.setdiff1d(np.arange(len(start)), spoken)
    before = np.searchsorted(spoken, others) - 1
    if len(spoken):
        at = np.where(before >= 0, end[spoken[np.maximum(before, 0)]], 0.0)
    else:
        at = np.zeros(len(others))
    start[others] = end[others] = at
    if sounds.start_sd is None or sounds.end_sd is None:
        return Spans(start, end)
    start_sd, end_sd = np.zeros((2, len(start)))
    start_sd[spoken], end_sd[spoken] = sounds.start_sd, sounds.end_sd
    return Spans(start, end, start_sd, end_sd)


def share_out_wildcards(edges: Spans, tokens: Tokens) -> Spans:
    """Return the edges; divide the time of each run of wildcards by their letters.

    No path can divide it.
    """
    spoken = spoken_indices(tokens)
    lacking = np.asarray(tokens.ids)[spoken] == WILDCARD
    if not (lacking[1:] & lacking[:-1]).any():
        return edges
    start, end = edges.start.copy(), edges.end.copy()
    for low, high in runs_of(lacking):
        row = spoken[low:high]
        letters = np.array([len(tokens.labels[index]) for index in row], np.float64)
        length = end[row[-1]] - start[row[0]]
        least = min(SHORTEST_FRAMES, length / len(row))
        shares = least + (length - least * len(row)) * letters / letters.sum()
        cuts = start[row[0]] + np.cumsum(shares)[:-1]
        start[row[1:]] = cuts
        end[row[:-1]] = cuts
    if edges.by_sound is None:
        return replace(edges, start=start, end=end)
    heard = share_out_wildcards(edges.by_sound, tokens)
    return replace(edges, start=start, end=end, by_sound=heard)


# From frames to seconds


def frames_in(emissions: Emissions) -> float:
    """Return the length of the audio in frames, from where frame 0 begins."""
    if emissions.duration_s is None:
        return float(len(emissions))
    return (emissions.duration_s - emissions.first_frame_s) / emissions.frame_shift_s


def duration_of(emissions: Emissions) -> float:
    """Return the length of the audio in seconds; if it is not known, the end of the last frame."""
    if emissions.duration_s is not None:
        return emissions.duration_s
    return seconds_at(float(len(emissions)), emissions.frame_shift_s, emissions.first_frame_s)


@lru_cache(maxsize=2**16)
def seconds_at(frames: float, frame_shift_s: float, first_frame_s: float) -> float:
    """Return when frame `frames` begins, to 10 µs.

    It is cached: rounding is slow, and short utterances share edges.
    """
    if frames.is_integer():
        begin_s = units.frames_to_seconds(int(frames), frame_shift_s)
        if not first_frame_s:
            return begin_s
        return round(begin_s + first_frame_s, 6)
    return round(frames * frame_shift_s + first_frame_s, 5)
