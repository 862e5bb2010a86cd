"""Goodness of pronunciation: how much likelier a phone is than its best rival at its place.

For token i with the neighbours a and b, x the frames between the tokens beyond these neighbours,
and p CTC's likelihood over all paths,

    gop(i) = log p(a i b | x) - max over rivals r of log p(a r b | x)

in nats. The rivals are all other sounds of the model, and none at all (a deletion). Witt and Young
(2000, Speech Communication 30) compare phones within fixed edges; without edges, as here, it is the
measure of Cao et al. (2024, "A Framework for Phoneme-Level Pronunciation Assessment Using CTC",
Interspeech) with the best rival in place of the sum of all, within a window in place of the whole
recording.

Vowels have closer rivals than stops, so the same number of nats means different things. The
percentile is the share of native speech in which the same phone has fewer
(`ctc_align.models.calibration.NativeSpeech`).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np

from ctc_align.alignment.ctc_path import Spans
from ctc_align.alignment.inputs import UtteranceInputs
from ctc_align.kernels.batching import CtcTargets, Forward, StageSteps
from ctc_align.lattice import WILDCARD
from ctc_align.tokens.alphabet import PHONE_SILENCES, STAR, is_special
from ctc_align.tokens.phones import shown_labels
from ctc_align.types import AlignedToken, AlignedWord, Emissions, Tokens

BESIDE_S = 0.3
"""How far a window goes beyond the outer token's spike, where no other token ends it."""
TOKENS_AT_ONCE = 256
"""For these, tens of thousands of likelihoods are requested together."""
DELETED = -1
"""The rival that is no sound at all."""


@dataclass(frozen=True)
class Goodness:
    """The goodness of one token.

    Attributes:
        gop: in nats.
        heard: the id of the likeliest sound: the token's own, or that of a rival, or `DELETED`.
    """

    gop: float
    heard: int


def add_goodness(
    words: Sequence[AlignedWord], inputs: UtteranceInputs, tokens: Tokens, spikes: Spans
) -> StageSteps[tuple[AlignedWord, ...]]:
    """Return words with the goodness of their tokens.

    Args:
        words: of the transcript.
        inputs: of the utterance.
        tokens: of the words that are aligned, with the labels that are shown.
        spikes: their frames on CTC's best path.
    """
    separator = inputs.tokenizer.separator
    found = yield from measure_goodness(
        inputs.emissions, tokens.ids, spikes, separator, inputs.backend
    )
    vocab = inputs.emissions.vocab
    rated = (
        (label, vocab[token], goodness)
        for token, label, word, goodness in zip(tokens.ids, tokens.labels, tokens.words, found)
        if word >= 0
    )
    return tuple(
        replace(
            word, tokens=tuple([_rate_token(part, inputs, *next(rated)) for part in word.tokens])
        )
        for word in words
    )


def _rate_token(
    part: AlignedToken, inputs: UtteranceInputs, label: str, phone: str, goodness: Goodness | None
) -> AlignedToken:
    """Return a token, shown as `label`, with the goodness of its phone; itself if it has none."""
    if goodness is None:
        return part
    native = inputs.native_speech
    percentile = None if native is None else native.percentile(phone, goodness.gop)
    heard = label if goodness.gop >= 0.0 else _label_of_rival(inputs, goodness.heard)
    return replace(part, gop=round(goodness.gop, 2), heard=heard, gop_percentile=percentile)


def _label_of_rival(inputs: UtteranceInputs, rival: int) -> str:
    """Return the label that the settings ask for of a sound; none of `DELETED`."""
    if rival == DELETED:
        return ""
    settings = inputs.settings
    vocab = inputs.emissions.vocab
    (label,) = shown_labels((vocab[rival],), vocab, settings.phones, stress=settings.stress)
    return label


def measure_goodness(
    emissions: Emissions,
    ids: Sequence[int],
    spikes: Spans,
    separator: int | None,
    backend: str,
) -> StageSteps[list[Goodness | None]]:
    """Return the goodness of each token (L,); None for separators and wildcards.

    Args:
        emissions: of the model.
        ids: of all tokens, separators and wildcards included.
        spikes: their frames on CTC's best path.
        separator: the token between words, if the vocabulary has one.
        backend: of the kernels.
    """
    rivals = [
        index
        for index, label in enumerate(emissions.vocab)
        if index not in (emissions.blank, separator)
        and not is_special(label)
        and label not in (*PHONE_SILENCES, STAR)
    ]
    found: list[Goodness | None] = [None] * len(ids)
    rated = [index for index, token in enumerate(ids) if token not in (WILDCARD, separator)]
    for low in range(0, len(rated), TOKENS_AT_ONCE):
        asked = [
            (index, rival, request)
            for index in rated[low : low + TOKENS_AT_ONCE]
            for rival, request in _compare(emissions, ids, spikes, index, rivals, backend)
        ]
        answers = yield [request for _, _, request in asked]
        scores: dict[int, dict[int, float]] = {}
        for (index, rival, _), score in zip(asked, answers):
            scores.setdefault(index, {})[rival] = score
        for index, of_sounds in scores.items():
            own = of_sounds.pop(ids[index])
            best = max(of_sounds, key=of_sounds.__getitem__, default=DELETED)
            gop = own - of_sounds.get(best, -np.inf)
            if np.isfinite(gop):
                found[index] = Goodness(gop, ids[index] if gop >= 0.0 else best)
    return found


def _compare(
    emissions: Emissions,
    ids: Sequence[int],
    spikes: Spans,
    index: int,
    rivals: Sequence[int],
    backend: str,
) -> Iterator[tuple[int, Forward]]:
    """Yield each sound that may be at a token's place, and the request for its likelihood.

    The token's own comes first; the likelihood is that between the neighbours.
    """
    first, last = max(index - 1, 0), min(index + 2, len(ids))
    while ids[first] == WILDCARD:
        first += 1
    while ids[last - 1] == WILDCARD:
        last -= 1
    beside = round(BESIDE_S / emissions.frame_shift_s)
    begin = max(int(spikes.start[first]) - beside, 0)
    end = int(spikes.end[last - 1]) + beside
    if first > 0:
        begin = max(begin, int(spikes.end[first - 1]))
    if last < len(ids):
        end = min(end, int(spikes.start[last]))
    before, after = tuple(ids[first:index]), tuple(ids[index + 1 : last])
    places: dict[int, tuple[int, ...]] = {sound: (sound,) for sound in (ids[index], *rivals)}
    # Between words, one sound may stand for two of a kind (bus stop).
    if ids[index] not in (*before, *after) and (before or after):
        places[DELETED] = ()
    window = emissions.array[begin:end]
    for sound, place in places.items():
        targets = CtcTargets((*before, *place, *after), emissions.blank)
        yield sound, Forward(window, targets, None, backend)
