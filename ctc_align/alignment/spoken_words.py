"""Which words of a transcript are spoken: the search proposes, the likelihood of the sound decides.

The gain of leaving out a word w is

    gain(w) = log p(words around w, other speech) - log p(these words and w, other speech on either
    side of w)

over all CTC paths, from the word before w to the word after it. A word that was found is skipped if
its gain is large; a word that was not found is added if its gain is below 0. The scale is measured
in each recording: the gains of words that are surely absent, and of words that are surely spoken.
In an exact transcript, barely audible words must stay; if others are surely absent, a smaller gain
is enough; not so if all of the text is there and all of it fits badly.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from ctc_align import lattice, units
from ctc_align.alignment.ctc_path import token_spans
from ctc_align.alignment.fit import SHORTEST_TOKEN_S
from ctc_align.alignment.found_words import FOREIGN_LABELS, FoundWords, Gaps, room_frames
from ctc_align.alignment.token_search import UNWRITTEN_NATS, HeardTokens
from ctc_align.kernels.batching import BestPath, CtcTargets, Forward, StageSteps
from ctc_align.types import WordTokens

OTHER_SPEECH_NATS = 3.5
"""Cost of a label of other speech beside words: about the log of the number of phones."""
SKIP_SHARE = 0.4
"""A word may be skipped if its gain per token is more than this share of the mean gain of absent
words. With three models, with and without noise of 2 and 3 nats, 1 % of spoken words are above 0.25
to 0.5 of the median of absent."""
SKIP_SDS = 8.0
"""Or if it is this many standard deviations above the mean of words that are surely spoken, and
above 0."""
SURE_TOKENS = 2.0
SURE_SDS = 1.5 * SKIP_SDS
"""A word is surely absent if its gain would be enough with this many more tokens, and exceeds that
by what the labels heard there would cost as no tokens; or if it is this many standard deviations above the mean of
surely spoken words, and above 0."""
ABSENT_NATS = 11.0
SPOKEN_SD = 1.9
PRIOR_SAMPLES = 4
"""The mean gain per token of absent words with the English model, the standard deviation of gain /
sqrt(tokens) of spoken words with it, and the weight of each in samples."""
SAMPLES = 24
"""The maximum number of words sampled of each kind. From as many spoken ones as the prior is worth,
`PRIOR_SAMPLES`, a standard deviation is estimated."""
INEXACT_SHARE = 0.005
"""A transcript is not exact if more than this share of its words is surely absent."""
MOST_LABELS = FOREIGN_LABELS
"""More labels where a word would be count as this many."""
CONTEXT_S = SHORTEST_TOKEN_S
"""Words are scored from this long before their first label until this long after their last."""
SHORT_FRAME_S = CONTEXT_S / 3
"""With frames of at most this length there is always a frame for other speech between two words. With
longer ones, or with separators between words, there may be none, and other speech is optional."""
LONGEST_RUN, WINDOWS_AT_ONCE = 12, 256
"""The maximum number of words in a run, and of windows scored together: their paths take memory."""
MOST_ROUNDS = 50
"""Added words are neighbours of others, which are tried in the next round."""


@dataclass
class _Window:
    """Words in the order of time, some of which may be absent.

    Attributes:
        words: indices into K, with the kept words around the others.
        kept: the words that are spoken, and which of their pronunciations.
        doubtful: kept words that may be absent.
        missing: words that are not kept and may be spoken.
        joined: missing words at a cut: 1 if they must follow the word before them with no other
            speech between them,
            -1 if they must so precede the word after them.
        first_frame, last_frame: where they are, the last exclusive.
        more: whether further words may be spoken if the missing ones are.
        gains: of words that were left out or tried, in nats.
        added: missing words that became kept.
    """

    words: list[int]
    kept: dict[int, int]
    doubtful: list[int]
    missing: list[int]
    joined: dict[int, int]
    first_frame: int
    last_frame: int
    more: bool = False
    gains: dict[int, float] = field(default_factory=dict)
    added: list[int] = field(default_factory=list)

    def additions(self) -> list[list[int]]:
        """Return the sets of missing words to try: each or all; at a cut, those near kept words."""
        inner = [word for word in self.missing if word not in self.joined]
        after = [word for word in self.missing if self.joined.get(word) == 1]
        before = [word for word in self.missing if self.joined.get(word) == -1]
        sets = [[word] for word in inner] + ([inner] if len(inner) > 1 else [])
        sets += [after[: count + 1] for count in range(len(after))]
        return sets + [before[count:] for count in range(len(before))]

    def take_back(self, words: list[int]) -> None:
        """Keep words that were left out."""
        self.kept |= dict.fromkeys(words, 0)
        self.missing = [word for word in self.missing if word not in words]


@dataclass(frozen=True)
class HeardSpeech:
    """The speech in which words may be absent.

    Attributes:
        log_probs: (T, C).
        other: (T,) the score of other speech, whose labels cost `OTHER_SPEECH_NATS` each.
        blank, separator: classes; the separator None for none.
        word_tokens: of the K words.
        frame_shift_s: of the frames.
        backend: of the kernels.
    """

    log_probs: np.ndarray
    other: np.ndarray
    blank: int
    separator: int | None
    word_tokens: Sequence[WordTokens]
    frame_shift_s: float
    backend: str

    def frames_from_to(self, gaps: Gaps, first_rank: int, last_rank: int) -> tuple[int, int]:
        """Return the frames between two found words by rank, with context; the end is exclusive."""
        context = max(1, units.seconds_to_frames(CONTEXT_S, self.frame_shift_s))
        return int(gaps.after[first_rank]) - context, int(gaps.before[last_rank + 1]) + context + 1

    def spell(self, words: Sequence[int]) -> np.ndarray:
        """Return the tokens of words in their first pronunciations, with separators between."""
        ids: list[int] = []
        for word in words:
            if ids and self.separator is not None:
                ids.append(self.separator)
            ids += self.word_tokens[word].pronunciations[0].ids
        return np.array(ids, np.int64)

    def likelihood(self, window: _Window, kept: dict[int, int]) -> Forward:
        """Return the request for the likelihood of words ({index: pronunciation}).

        Other speech is optional.
        """
        frames = slice(window.first_frame, window.last_frame)
        return Forward(
            self.log_probs[frames], self._paths(window, kept)[0], self.other[frames], self.backend
        )

    def best_path(self, window: _Window) -> tuple[BestPath, dict[int, tuple[int, int]]]:
        """Return the request for the best path of the kept words, and the tokens of each."""
        frames = slice(window.first_frame, window.last_frame)
        paths, tokens = self._paths(window, window.kept)
        return BestPath(self.log_probs[frames], paths, self.other[frames], self.backend), tokens

    def _paths(
        self, window: _Window, kept: dict[int, int]
    ) -> tuple[CtcTargets | lattice.Topology, dict[int, tuple[int, int]]]:
        ids: list[int] = [lattice.WILDCARD]
        tokens: dict[int, tuple[int, int]] = {}
        for word in window.words:
            if word not in kept:
                continue
            if window.joined.get(word) == 1 and ids[-1] == lattice.WILDCARD:
                ids.pop()
            if tokens and self.separator is not None:
                ids.append(self.separator)
            said = self.word_tokens[word].pronunciations[kept[word]].ids
            tokens[word] = len(ids), len(ids) + len(said)
            ids += said
            if window.joined.get(word) != -1:
                ids.append(lattice.WILDCARD)
        if self.separator is None and self.frame_shift_s <= SHORT_FRAME_S:
            return CtcTargets(ids, self.blank), tokens
        row = np.array(ids, np.int64)
        return lattice.ctc([row], self.blank, [row == lattice.WILDCARD]), tokens


def spoken_words(
    speech: HeardSpeech,
    found: FoundWords,
    heard: HeardTokens,
    gaps: Gaps,
    fixed: np.ndarray,
    loose: bool = False,
) -> StageSteps[tuple[FoundWords, bool]]:
    """Return the words with those that are spoken, and whether another round may add more.

    Args:
        speech: of the recording.
        found: K words, as a search found them.
        heard: H labels.
        gaps: between the found words.
        fixed: (K,) bool, words of optional passages, which are not added here.
        loose: the transcript is known not to be exact.
    """
    sequence = _Sequence(found, gaps, fixed)
    windows: list[_Window] = []
    for some in _divide_windows(list(sequence.windows(speech))):
        yield from _choose_pronunciations(speech, some)
        windows += yield from _select_doubtful(speech, some)
    if not windows:
        return found, False
    enough, surely = yield from _compute_thresholds(speech, found, gaps)
    for some in _divide_windows(windows):
        yield from _leave_out(speech, some, enough)
        yield from _add(speech, some, None)
        yield from _leave_out(speech, [window for window in some if window.added], enough)
    is_faint = found.is_faint
    if not loose and (
        is_faint or sequence.surely_absent(windows, surely) <= INEXACT_SHARE * len(found.in_time())
    ):
        for window in windows:
            window.take_back(
                [
                    word
                    for word in window.missing
                    if found.found[word] and window.gains[word] <= surely[word]
                ]
            )
    if not loose and (
        is_faint or sequence.absent(windows, surely) <= INEXACT_SHARE * len(found.words)
    ):
        for some in _divide_windows(windows):
            yield from _add(speech, some, surely)
    first, last = yield from _find_labels_of_added(speech, found, heard, windows)
    more = any(window.added and (window.more or window.missing) for window in windows)
    return replace(found, first=first, last=last, order=sequence.order(windows)), more


def _divide_windows(windows: Sequence[_Window]) -> Iterator[Sequence[_Window]]:
    for low in range(0, len(windows), WINDOWS_AT_ONCE):
        yield windows[low : low + WINDOWS_AT_ONCE]


class _Sequence:
    """The found words in the order of time, and where the words that are missing would be."""

    def __init__(self, found: FoundWords, gaps: Gaps, fixed: np.ndarray) -> None:
        self.found = found
        self.gaps = gaps
        self.fixed = fixed
        self.in_time = found.in_time()
        self.sure = found.sure
        self.segments = list(self._segments())

    def order(self, windows: Sequence[_Window]) -> np.ndarray:
        """Return (K,) the ranks in time of the words that windows keep, -1 for the others."""
        kept = set(self.in_time.tolist())
        for window in windows:
            kept -= set(window.missing)
            kept |= set(window.added)
        in_time = [
            word
            for word in dict.fromkeys(word for words, *_ in self.segments for word in words)
            if word in kept
        ]
        order = np.full(len(self.found.words), -1, np.int64)
        order[in_time] = np.arange(len(in_time))
        return order

    def surely_absent(self, windows: Sequence[_Window], surely: np.ndarray) -> int:
        """Return how many of the found words are surely absent."""
        return sum(
            self.found.found[word] and window.gains[word] > surely[word]
            for window in windows
            for word in window.missing
        )

    def absent(self, windows: Sequence[_Window], surely: np.ndarray) -> int:
        """Return how many of all words are surely absent, those that no window has among them."""
        absent = sum(
            window.gains.get(word, 0.0) > surely[word]
            for window in windows
            for word in window.missing
        )
        tried = np.zeros(len(self.found.words), np.bool_)
        for window in windows:
            tried[window.words] = True
        return absent + int(np.count_nonzero(~tried & ~self.found.found & ~self.fixed))

    def _list_missing(self, first: int, last: int) -> list[int]:
        """Return the words that are missing between two indices, both exclusive."""
        between = np.arange(first + 1, last)
        return between[~self.found.found[between] & ~self.fixed[between]].tolist()

    def _segments(self) -> Iterator[tuple[list[int], dict[int, int], bool]]:
        """Yield what a window has of each stretch between two cuts: `words`, `joined`, `more`."""
        words: list[int] = []
        joined: dict[int, int] = {}
        more = False
        places = np.flatnonzero(self.found.found)
        for rank in range(len(self.in_time) + 1):
            left = int(self.in_time[rank - 1]) if rank else None
            if rank < len(self.in_time):
                right = int(self.in_time[rank])
            else:
                right = None
            if left is not None and right is not None and not self.gaps.cuts[rank]:
                between = self._list_missing(left, right)
                if len(between) > 2 * LONGEST_RUN:
                    between = between[:LONGEST_RUN] + between[-LONGEST_RUN:]
                    more = True
                words += [*between, right]
                continue
            if left is not None:
                later = places[np.searchsorted(places, left, "right") :]
                after = self._list_missing(
                    left, int(later[0]) if len(later) else len(self.found.words)
                )
                words += after[:LONGEST_RUN]
                joined |= dict.fromkeys(after[:LONGEST_RUN], 1) if self.gaps.cuts[rank] else {}
                yield words, joined, more or len(after) > LONGEST_RUN
            if right is not None:
                earlier = places[: np.searchsorted(places, right)]
                before = self._list_missing(int(earlier[-1]) if len(earlier) else -1, right)
                more = len(before) > LONGEST_RUN
                words = [*before[-LONGEST_RUN:], right]
                if self.gaps.cuts[rank]:
                    joined = dict.fromkeys(before[-LONGEST_RUN:], -1)
                else:
                    joined = {}

    def windows(self, speech: HeardSpeech) -> Iterator[_Window]:
        """Yield the words that are doubtful or missing, with the words around them."""
        for words, joined, more in self.segments:
            is_sure = self.sure[words]
            start = 0
            while start < len(words):
                if is_sure[start]:
                    start += 1
                    continue
                end = start + 1
                while end < len(words) and not is_sure[end]:
                    if end - start >= LONGEST_RUN and self.found.found[words[end]]:
                        break
                    end += 1
                left = next(
                    (word for word in reversed(words[:start]) if self.found.found[word]), None
                )
                right = words[end] if end < len(words) else None
                window = self._window(left, words[start:end], right, speech)
                window.more = more
                window.joined = {word: joined[word] for word in window.missing if word in joined}
                yield window
                start = end

    def _window(
        self, left: int | None, run: list[int], right: int | None, speech: HeardSpeech
    ) -> _Window:
        """Return the window of a run of words between kept ones; None at cuts and ends."""
        inside = [word for word in run if self.found.found[word]]
        around = [*([] if left is None else [left]), *run, *([] if right is None else [right])]
        return _Window(
            around,
            {word: 0 for word in around if self.found.found[word]},
            inside,
            [word for word in run if not self.found.found[word]],
            {},
            max(self._first_frame(left, run, inside, right, speech), 0),
            min(self._last_frame(left, run, inside, right, speech), len(speech.log_probs)),
        )

    # Beside a cut there is room for the tokens that were not heard. Labels of words that are not
    # sure may be wrong, so that there is as much as the whole run takes from the kept word on its
    # other side.

    def _first_frame(
        self,
        left: int | None,
        run: list[int],
        inside: list[int],
        right: int | None,
        speech: HeardSpeech,
    ) -> int:
        gaps = self.gaps
        ranks = self.found.order
        lengths = self.found.lengths
        shift_s = speech.frame_shift_s
        if left is not None:
            return speech.frames_from_to(gaps, ranks[left], ranks[left])[0]
        lead = run[: run.index(inside[0])] if inside else run
        gap = int(ranks[inside[0] if inside else right])
        first = int(gaps.after[gap]) - room_frames(
            int(gaps.unheard[gap, 1] + lengths[lead].sum()), shift_s
        )
        if right is not None:
            first = min(
                first, int(gaps.after[ranks[right]]) - room_frames(int(lengths[run].sum()), shift_s)
            )
        return max(int(gaps.before[gap]) + 1, first)

    def _last_frame(
        self,
        left: int | None,
        run: list[int],
        inside: list[int],
        right: int | None,
        speech: HeardSpeech,
    ) -> int:
        gaps = self.gaps
        ranks = self.found.order
        lengths = self.found.lengths
        shift_s = speech.frame_shift_s
        if right is not None:
            return speech.frames_from_to(gaps, ranks[right], ranks[right])[1]
        trail = run[run.index(inside[-1]) + 1 :] if inside else run
        gap = int(ranks[inside[-1] if inside else left]) + 1
        last = (
            int(gaps.before[gap])
            + 1
            + room_frames(int(gaps.unheard[gap, 0] + lengths[trail].sum()), shift_s)
        )
        if left is not None:
            last = max(
                last,
                int(gaps.before[ranks[left] + 1])
                + 1
                + room_frames(int(lengths[run].sum()), shift_s),
            )
        return min(int(gaps.after[gap]), last)


def _compute_thresholds(
    speech: HeardSpeech, found: FoundWords, gaps: Gaps
) -> StageSteps[tuple[np.ndarray, np.ndarray]]:
    """Return (K,) the gains above which words are absent: in inexact transcripts, and in any."""
    absent, spoken = _draw_samples(speech, found, gaps)
    scores = iter(
        (yield [request for _, *pair in (*absent, *spoken) for request in pair]) if absent else []
    )
    gains = [(length, next(scores) - next(scores)) for length, *_ in (*absent, *spoken)]
    per_token = [gain / length for length, gain in gains[: len(absent)] if np.isfinite(gain)]
    nats = (
        SKIP_SHARE
        * (sum(per_token) + PRIOR_SAMPLES * ABSENT_NATS)
        / (len(per_token) + PRIOR_SAMPLES)
    )
    enough = nats * found.lengths
    surely = enough + SURE_TOKENS * nats + UNWRITTEN_NATS * _count_labels_between(found)
    table = np.array([row for row in gains[len(absent) :] if np.isfinite(row[1])])
    if len(table) < PRIOR_SAMPLES:
        return enough, surely
    # The gain of a spoken word grows with its tokens, and so does its variance: least squares of
    # gain / sqrt(tokens).
    root = np.sqrt(table[:, 0])
    columns = np.stack((1 / root, root), 1)
    line, *_ = np.linalg.lstsq(columns, table[:, 1] / root, rcond=None)
    residuals = table[:, 1] / root - columns @ line
    squares = np.sum(residuals**2) + PRIOR_SAMPLES * SPOKEN_SD**2
    freedom = len(table) - 2 + PRIOR_SAMPLES
    sd = float(np.sqrt(squares / freedom))
    mean = line[0] + line[1] * found.lengths
    root = np.sqrt(found.lengths)
    enough = np.minimum(enough, np.maximum(mean + SKIP_SDS * sd * root, 0.0))
    return enough, np.minimum(surely, np.maximum(mean + SURE_SDS * sd * root, 0.0))


_Sample = tuple[int, Forward, Forward]
"""The tokens of a word, and the requests for the likelihood without it and with it."""


def _draw_samples(
    speech: HeardSpeech, found: FoundWords, gaps: Gaps
) -> tuple[list[_Sample], list[_Sample]]:
    """Return samples of absent words, put between sure ones, and of sure words."""
    in_time = found.in_time()
    sure = found.sure[in_time]
    adjacent = (
        (np.diff(in_time) == 1) & ~gaps.foreign[1:-1] & ~gaps.cuts[1:-1] & sure[1:] & sure[:-1]
    )

    def sample(words: list[int], rank: int, last_rank: int) -> _Sample:
        first, last = speech.frames_from_to(gaps, rank, last_rank)
        window = _Window(words, {}, [], [], {}, max(first, 0), min(last, len(speech.log_probs)))
        without = speech.likelihood(window, {words[0]: 0, words[2]: 0})
        return (
            int(found.lengths[words[1]]),
            without,
            speech.likelihood(window, dict.fromkeys(words, 0)),
        )

    absent = []
    for rank in _spread_ranks(np.flatnonzero(adjacent)):
        left, right = in_time[rank : rank + 2].tolist()
        other = (left + max(2, len(found.words) // 2)) % len(found.words)
        if other not in (left, right):
            absent.append(sample([left, other, right], rank, rank + 1))
    triples = _spread_ranks(np.flatnonzero(adjacent[1:] & adjacent[:-1]))
    return absent, [sample(in_time[rank : rank + 3].tolist(), rank, rank + 2) for rank in triples]


def _spread_ranks(ranks: np.ndarray) -> list[int]:
    """Return at most `SAMPLES` of some ranks, evenly spread."""
    if len(ranks) > SAMPLES:
        ranks = ranks[np.linspace(0, len(ranks) - 1, SAMPLES).astype(np.int64)]
    return ranks.tolist()


def _count_labels_between(found: FoundWords) -> np.ndarray:
    """Return (K,) how many labels are heard around each word, at most `MOST_LABELS`."""
    beyond = np.iinfo(np.int64).max
    heard = found.found & (found.last >= found.first)
    first = np.where(heard, found.first, beyond)
    last = np.where(heard, found.last, -1)
    before = np.append(-1, np.maximum.accumulate(last)[:-1])
    after = np.append(np.minimum.accumulate(first[::-1])[::-1][1:], beyond)
    return np.clip(after - before - 1, 0, MOST_LABELS)


def _choose_pronunciations(speech: HeardSpeech, windows: Sequence[_Window]) -> StageSteps[None]:
    """Give each doubtful word its likeliest pronunciation beside the others' first ones."""
    tried, requests = [], []
    for window in windows:
        for word in window.doubtful:
            count = len(speech.word_tokens[word].pronunciations)
            for way in range(count) if count > 1 else ():
                tried.append((window, word, way))
                requests.append(
                    speech.likelihood(window, {**dict.fromkeys(window.kept, 0), word: way})
                )
    best: dict[tuple[int, int], float] = {}
    for (window, word, way), score in zip(tried, (yield requests) if requests else []):
        key = (id(window), word)
        if key not in best or score > best[key]:
            best[key] = score
            window.kept[word] = way


def _select_doubtful(speech: HeardSpeech, windows: Sequence[_Window]) -> StageSteps[list[_Window]]:
    """Return the windows with missing words, or with a word of positive gain.

    No threshold is below 0.
    """
    gains = yield from _compute_gains(speech, windows)
    return [window for window, own in zip(windows, gains) if window.missing or (own > 0).any()]


def _compute_gains(speech: HeardSpeech, windows: Sequence[_Window]) -> StageSteps[list[np.ndarray]]:
    """Return the gains of leaving out each doubtful word of each window.

    None where all of them have no path.
    """
    scores = iter(
        (
            yield [
                speech.likelihood(
                    window, {word: way for word, way in window.kept.items() if word != left_out}
                )
                for window in windows
                for left_out in (-1, *window.doubtful)
            ]
        )
        if windows
        else []
    )
    gains = []
    for window in windows:
        whole = next(scores)
        own = np.array([next(scores) for _ in window.doubtful])
        # Without a path for all of them there is too little time to decide.
        gains.append(own - whole if whole > float("-inf") else np.full(len(own), -np.inf))
    return gains


def _leave_out(
    speech: HeardSpeech, windows: Sequence[_Window], enough: np.ndarray
) -> StageSteps[None]:
    """Leave out the doubtful word of greatest gain of each window, and go on while `enough`."""
    windows = [window for window in windows if window.doubtful]
    while windows:
        shrunk = []
        for window, gains in zip(windows, (yield from _compute_gains(speech, windows))):
            worst = int(np.argmax(gains - enough[window.doubtful]))
            word = window.doubtful[worst]
            if not gains[worst] > enough[word]:
                continue
            window.doubtful.remove(word)
            window.missing = sorted([*window.missing, word], key=window.words.index)
            window.gains[word] = float(gains[worst])
            del window.kept[word]
            if word in window.added:
                window.added.remove(word)
            if window.doubtful:
                shrunk.append(window)
        windows = shrunk


def _add(
    speech: HeardSpeech, windows: Sequence[_Window], most: np.ndarray | None
) -> StageSteps[None]:
    """Add the missing word of least gain to each window, then the next, up to a gain of `most`.

    Args:
        speech: of the recording.
        windows: changed in place.
        most: (K,) nats; None: the gain must be below 0, by a margin that grows with the number of
            words that may fit by chance.
    """
    windows = [window for window in windows if window.missing]
    while windows:
        tried = [list(_yield_variants(speech, window)) for window in windows]
        scores = iter(
            (
                yield [
                    speech.likelihood(window, window.kept | added)
                    for window, variants in zip(windows, tried)
                    for added in ({}, *variants)
                ]
            )
        )
        grown = []
        for window, variants in zip(windows, tried):
            without = next(scores)
            gains = np.array([without - next(scores) for _ in variants])
            for added, gain in zip(variants, gains.tolist()):
                for word in added if len(added) == 1 else ():
                    window.gains[word] = min(gain, window.gains.get(word, np.inf))
            if most is None:
                limits = np.full(len(variants), -np.log(len(window.missing)))
            else:
                limits = np.array([most[list(added)].sum() for added in variants])
            best = int(np.argmin(gains - limits))
            if not gains[best] <= limits[best]:
                continue
            window.kept |= variants[best]
            window.added += variants[best]
            window.doubtful += variants[best]
            window.missing = [word for word in window.missing if word not in variants[best]]
            if window.missing:
                grown.append(window)
        windows = grown


def _yield_variants(speech: HeardSpeech, window: _Window) -> Iterator[dict[int, int]]:
    """Yield the sets of words to add, single ones in each of their pronunciations."""
    for words in window.additions():
        if len(words) == 1:
            ways = len(speech.word_tokens[words[0]].pronunciations)
        else:
            ways = 1
        for way in range(ways):
            yield dict.fromkeys(words, way)


def _find_labels_of_added(
    speech: HeardSpeech, found: FoundWords, heard: HeardTokens, windows: Sequence[_Window]
) -> StageSteps[tuple[np.ndarray, np.ndarray]]:
    """Return the first and last label of each word; added words have them on the best path."""
    first, last = found.first.copy(), found.last.copy()
    for some in _divide_windows([window for window in windows if window.added]):
        plans = [speech.best_path(window) for window in some]
        paths = yield [request for request, _ in plans]
        for window, (_, tokens), (states, *_) in zip(some, plans, paths):
            # The states of CTC are blank, token 0, blank, token 1, … blank, whether tokens are
            # optional or not.
            token_of_state = np.full(int(states.max(initial=0)) + 2, -1, np.int64)
            token_of_state[1::2] = np.arange(len(token_of_state) // 2)
            spans = token_spans(states, token_of_state, len(token_of_state) // 2).shifted(
                window.first_frame
            )
            for word in window.added:
                begin, end = tokens[word]
                frames = spans.start[begin] - 1, spans.end[end - 1] + 1
                first[word], last[word] = np.searchsorted(heard.frames, frames) - np.array([0, 1])
    return first, last
