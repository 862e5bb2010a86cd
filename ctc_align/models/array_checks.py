"""Checks of log-probs made by other programs: what their values are, and which class is which.

Each check recognises a mistake by a property that log-probs of speech do not have; its message says
what to do.
"""

from __future__ import annotations

import logging
import math
import shlex
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from ctc_align.errors import EmissionsError, UsageError, WrongArrayError
from ctc_align.kernels.log_space import log_sum_exp
from ctc_align.models.vocabulary import called_blanks, resolve_blank
from ctc_align.reading import shown
from ctc_align.text.phone_sets import is_ipa
from ctc_align.tokens.alphabet import (
    PHONE_SILENCES,
    SEPARATORS,
    SILENCES,
    alphabet_of,
    separator_of,
)
from ctc_align.tokens.phones import is_arpabet
from ctc_align.types import Emissions, get_log_probs

if TYPE_CHECKING:
    from ctc_align.config import Settings

CELLS_AT_ONCE = 2**19
"""Rows are read in blocks: a mapped file is never copied whole."""
_NORMALISED = 0.1
"""A row whose log-sum-exp is further from 0 is not a distribution; float16 stays well below."""
_SUM = 0.02
"""Rounding changes the sum of a row of probabilities by less than this.

Rounding is that of float16 with thousands of classes.
"""
_INVERSES = (
    (math.log(10), "logarithms to base 10", "multiply them by ln 10 = 2.302585"),
    (math.log(2), "logarithms to base 2", "multiply them by ln 2 = 0.693147"),
    (-1.0, "negative log-probs", "change their sign"),
)
"""A factor that turns the values of some programs into log-probs, its name, and what to do."""
_LEAST_EXCESS, _ROUNDING, _ALIKE = 0.3, 0.004, 0.9
"""Limits of `_is_twice`, which hold for log_softmax of probabilities.

The excess of no row is above 1 by more than the second for each class (a step of float16); its 90th
percentile is at least the first, and the 10th at least the third of that: .97 and more of
log_softmax of probabilities (of a softmax at temperature 2, too), .21 to .66 of log-probs at any
temperature, .83 with much silence (80 clips).
"""
_FEWEST_FRAMES = 10
_warned: set[tuple[tuple[str, ...], str]] = set()
"""The pairs of vocabulary (or frame shift) and check of which this process has warned."""

logger = logging.getLogger(__name__)


def check_values(matrix: np.ndarray, name: str) -> None:
    """Check the values of an array (T, C) of log-probs.

    Rows that are not distributions are only logged as a warning.

    Raises:
        EmissionsError: no path can pass a row.
        WrongArrayError: the array holds something else, such as probabilities; the message says
            what to do with it.
    """
    lowest = math.inf
    highest = -math.inf
    farthest = 0.0
    excesses = []
    for start, rows in _blocks(matrix):
        bad = np.isnan(rows) | (rows == np.inf)
        if bad.any():
            frame, klass = (int(i) for i in np.argwhere(bad)[0])
            raise EmissionsError(
                f"{name}: value is {rows[frame, klass].item()} at frame {start + frame}, class"
                f" {klass}: expected log-probabilities (-inf is allowed, NaN and +inf are not)"
            )
        sums = log_sum_exp(rows)
        empty = sums == -math.inf
        if empty.any():
            frame = start + int(empty.argmax())
            raise EmissionsError(
                f"{name}: every class is -inf at frame {frame}: no path can pass it"
            )
        lowest = min(lowest, rows.min().item())
        highest = max(highest, rows.max().item())
        farthest = max(farthest, float(np.abs(sums).max()))
        excesses.append(_excess(rows))
    excess = np.concatenate(excesses)
    if farthest <= _NORMALISED:
        if _is_twice(excess, matrix.shape[1]):
            raise WrongArrayError(
                f"{name}: these look like log_softmax of probabilities: no class is ever likelier"
                f" than {math.exp(highest):.2g}, as if a second softmax followed the network's own;"
                " take the natural log of its probabilities instead"
            )
        return
    if what := _other_kind(matrix, lowest, highest):
        raise WrongArrayError(f"{name}: these look like {what}")
    logger.warning(
        "%s: rows are not distributions (log-sum-exp up to %.3g from 0, values %.3g to %.3g): taken"
        " as unnormalised scores, by which no fit can be judged; take log_softmax first if they are"
        " logits",
        name,
        farthest,
        lowest,
        highest,
    )


def check_computed(emissions: Emissions, model: str) -> None:
    """Raise EmissionsError if a network has computed NaN.

    Damaged weights cause this, or sound unlike any recording.
    """
    given: Any = get_log_probs(emissions)
    if bool((given != given).any()):  # true of NaN alone, in arrays and in tensors
        name = f"{emissions.name}: " if emissions.name else ""
        raise EmissionsError(
            f"{name}the model {model} computed log-probs that are not numbers (NaN): its weights"
            " are damaged, or the recording is; try another recording, and load the model again if"
            " that fails, too"
        )


def are_distributions(log_probs: np.ndarray) -> bool:
    """Return whether the rows of (T, C) are log-probs that sum to one.

    How well a transcript fits can be judged by such rows alone.
    """
    return all(
        bool((np.abs(log_sum_exp(rows)) <= _NORMALISED).all()) for _, rows in _blocks(log_probs)
    )


def _blocks(matrix: np.ndarray) -> Iterator[tuple[int, np.ndarray]]:
    at_once = max(1, CELLS_AT_ONCE // matrix.shape[1])
    for start in range(0, len(matrix), at_once):
        yield start, matrix[start : start + at_once]


def _excess(rows: np.ndarray) -> np.ndarray:
    """Return (T,) the sum of each row's differences from its lowest value.

    It is inf where a class is impossible.
    """
    with np.errstate(over="ignore", invalid="ignore"):
        sums = rows.sum(1, dtype=np.float64) - rows.shape[1] * rows.min(1).astype(np.float64)
    return np.nan_to_num(sums, nan=np.inf, posinf=np.inf, neginf=-np.inf)


def _is_twice(excess: np.ndarray, classes: int) -> bool:
    """Return whether rows went through log_softmax after they were probabilities already.

    The rows are normalised, with this `excess`; otherwise they come from a network's scores. For
    probabilities p, log_softmax is x = p - log Σ exp(p). So Σ (x - min x) = 1 - C min p: at most 1
    in each row, and almost the same in most rows, because in each some class is all but impossible.
    (No class exceeds e / (e + C - 1).) A network's scores differ by whole nats in each of C
    classes, and differently in each row; a temperature divides all these sums by the same factor,
    so their spread remains.
    """
    if len(excess) < _FEWEST_FRAMES or classes < 3:
        return False
    if excess.max() > 1.02 + _ROUNDING * classes:  # infinite where a class is impossible
        return False
    low, high = np.quantile(excess, (0.1, 0.9))
    return bool(high >= _LEAST_EXCESS and low >= _ALIKE * high)


def _other_kind(matrix: np.ndarray, lowest: float, highest: float) -> str:
    """Return what an array holds whose rows are not distributions, and what to do about it.

    The text is "" if any kind of scores is accepted.
    """

    def in_all(test: Callable[[np.ndarray], np.ndarray]) -> bool:
        with np.errstate(over="ignore", invalid="ignore"):  # of values that are no log-probs
            return all(bool(test(rows).all()) for _, rows in _blocks(matrix))

    if lowest >= 0 and 0 < highest <= 1 + _SUM:
        if not in_all(lambda rows: np.abs(rows.sum(1) - 1) < _SUM):
            return (
                "probabilities (all values are from 0 to 1): take the natural log (that of 0 is"
                " -inf, as it should be)"
            )
        if lowest > 0:
            excesses = [_excess(np.log(rows)) for _, rows in _blocks(matrix)]
        else:
            excesses = []
        if excesses and _is_twice(np.concatenate(excesses), matrix.shape[1]):
            return (
                "softmax of probabilities (rows sum to one, and no class stands out): take the"
                " natural log of the network's probabilities, without another softmax"
            )
        return "probabilities (rows sum to one): take the natural log"
    for factor, kind, cure in _INVERSES:
        if in_all(lambda rows, factor=factor: np.abs(log_sum_exp(rows * factor)) < _NORMALISED):  # type: ignore[misc]
            return f"{kind}: {cure}"
    if len(matrix) > 1 and bool((np.abs(log_sum_exp(matrix, 0)) < _NORMALISED).all()):
        return (
            "log-probs over the frames (each class sums to one): take log_softmax over the classes,"
            " the last axis"
        )
    return ""


# The blank of an array, and classes that no transcript uses, by the greedy labels of its frames.

_LEAST_SHARE, _LEAST_RUNS, _RARELY = 0.3, 0.5, 0.2
"""Limits of `likelier_blank`.

The other class wins at least this share of the frames, and this many per label; the assumed blank
wins at most this share of the frames that the other class wins.
"""
_LABELS, _KINDS = 8, 5
"""Fewer labels, or fewer different ones, say nothing about the blank."""


@dataclass(frozen=True, eq=False)
class GreedyLabels:
    """The likeliest class of each frame, `best` (T,), and how often each class occurs.

    `frames` (C,) counts the frames of each class, `runs` (C,) its runs of consecutive frames.
    """

    best: np.ndarray
    frames: np.ndarray
    runs: np.ndarray

    def gap_frames(self, blank: int) -> float:
        """Return the median distance from one label to the next, in frames.

        It is inf for fewer than two labels.
        """
        begins = np.flatnonzero((np.diff(self.best, prepend=-1) != 0) & (self.best != blank))
        if len(begins) > 1:
            return float(np.median(np.diff(begins)))
        return math.inf


def greedy_labels(log_probs: np.ndarray) -> GreedyLabels:
    """Return the likeliest class of each frame of (T, C), the first one on a tie."""
    classes = log_probs.shape[1]
    best = np.concatenate([rows.argmax(1) for _, rows in _blocks(log_probs)])
    begins = best[np.diff(best, prepend=-1) != 0]
    return GreedyLabels(
        best, np.bincount(best, minlength=classes), np.bincount(begins, minlength=classes)
    )


def likelier_blank(labels: GreedyLabels, vocab: tuple[str, ...], blank: int = 0) -> int | None:
    """Return the class that behaves like the blank if `blank` does not, otherwise None.

    A blank wins many frames, and stands between most labels. A separator or a silence stands only
    between words, and hardly ever is every second letter of a text the same (as in "banana").
    """
    frames, runs = labels.frames, labels.runs
    index = int(frames.argmax())
    others = runs.sum() - runs[index]
    kinds = (runs > 0).sum() - 1
    if (
        index == blank
        or vocab[index] in (*SEPARATORS, *SILENCES)
        or others < _LABELS
        or kinds < _KINDS
    ):
        return None
    if blank in called_blanks(vocab) and len(vocab[index]) == 1 and vocab[index].isalpha():
        return None
    dominates = (
        frames[index] >= _LEAST_SHARE * len(labels.best) and runs[index] >= _LEAST_RUNS * others
    )
    rarely = frames[blank] <= _RARELY * frames[index] or vocab[blank] in SEPARATORS
    return index if dominates and rarely else None


def blank_of_array(log_probs: np.ndarray, vocab: tuple[str, ...], name: str) -> int:
    """Return the blank of an array (T, C) for which none was given.

    It is token 0, or the one that wins if several tokens have names of blanks.

    Raises:
        WrongArrayError: another class behaves like the blank, or several have the name of a blank
            and none behaves like one.
    """
    labels = greedy_labels(log_probs)
    called = called_blanks(vocab)
    blank = 0 if len(called) < 2 else _winner(labels, called)
    if blank is None:
        names = " and ".join(f"{index} {shown(vocab[index])}" for index in called)
        raise WrongArrayError(
            f"{name}: the tokens {names} are called blanks, and the frames do not tell which one"
            f" is: say so (--blank {called[0]})"
        )
    if (index := likelier_blank(labels, vocab, blank)) is not None:
        token = _argument(index, vocab[index])
        raise WrongArrayError(
            f"{name}: {_not_the_blank(labels, vocab, blank, index)} (--blank {token})"
        )
    return blank


def warn_of_default_blank(log_probs: np.ndarray, vocab: tuple[str, ...]) -> None:
    """Log a warning if token 0 was assumed to be the blank and another class is likelier.

    It is logged once for each vocabulary.
    """
    if (vocab, "blank") in _warned:
        return
    labels = greedy_labels(log_probs)
    called = called_blanks(vocab)
    index = likelier_blank(labels, vocab)
    if index is not None:
        message = _not_the_blank(labels, vocab, 0, index)
    elif (called and 0 not in called) or (len(called) > 1 and _winner(labels, called)):
        index = _winner(labels, called) or called[0]
        message = (
            f"the blank is token 0, {shown(vocab[0])}, though token {index} is called"
            f" {shown(vocab[index])}"
        )
    else:
        return
    _warned.add((vocab, "blank"))
    logger.warning("%s (Emissions(…, blank=%d))", message, index)


def _winner(labels: GreedyLabels, indices: list[int]) -> int | None:
    """Return the only one of several classes that wins many frames, otherwise None."""
    winner = max(indices, key=lambda index: labels.frames[index])
    rest = sum(int(labels.frames[index]) for index in indices if index != winner)
    if labels.frames[winner] and rest <= _RARELY * labels.frames[winner]:
        return winner
    return None


def _not_the_blank(labels: GreedyLabels, vocab: tuple[str, ...], blank: int, index: int) -> str:
    """Return a message: the blank is the class `index`, not `blank`.

    `blank` was assumed because none was given.
    """
    share, of_blank = (labels.frames[i] / len(labels.best) for i in (index, blank))
    return (
        f"token {blank}, {shown(vocab[blank])}, would be the blank, but wins {of_blank:.0%} of the"
        f" frames, and token {index}, {shown(vocab[index])}, wins {share:.0%}, between most labels:"
        " say which is the blank"
    )


def _argument(index: int, token: str) -> str:
    """Return a token as the command line accepts it; its index if it looks like an option."""
    if token[:1] != "-":
        return shlex.quote(token)
    return str(index)


# Separators of words and silences: those that are given or called so, and classes that may be one

_OTHER_SEPARATOR = "<space>"
"""The name of all other separators.

It comes later in `SEPARATORS` than that of the separator between words.
"""


def with_named_classes(emissions: Emissions, settings: Settings) -> Emissions:
    """Return emissions with their word separator renamed and their silences counted as the blank.

    The separator takes the first name in `SEPARATORS`. The settings `separator` and `silence` say
    which tokens they are, otherwise their names. Adding p(silence) to p(blank) makes the loss that
    of all label sequences that equal the transcript once silences are removed.

    Raises:
        UsageError: a separator or silence is not a token, is the blank, or both are the same token.
    """
    vocab, blank = emissions.vocab, emissions.blank
    separator = _separator(emissions, settings)
    silences = _silences(emissions, settings)
    for role, index in (
        ("separator", separator),
        ("silence", silences[0] if settings.silence else None),
    ):
        if index == blank or (role == "silence" and index is not None and index == separator):
            other = "blank" if index == blank else "separator"
            raise UsageError(
                f"{role}: expected another token than the {other}, got {vocab[index]!r}"
            )
    silences = [index for index in silences if index != separator]
    names = dict.fromkeys(silences, SILENCES[0])
    if separator is not None and separator != separator_of(vocab, blank):
        names |= {
            index: _OTHER_SEPARATOR for index, token in enumerate(vocab) if token in SEPARATORS
        }
        names[separator] = SEPARATORS[0]
    if not names:
        return emissions
    named = emissions.altered(
        vocab=tuple(names.get(index, token) for index, token in enumerate(vocab))
    )
    if not silences:
        return named
    log_probs = emissions.array.copy()
    log_probs[:, blank] = log_sum_exp(log_probs[:, [blank, *silences]])
    log_probs[:, silences] = -math.inf
    return named.altered(log_probs=log_probs)


def _separator(emissions: Emissions, settings: Settings) -> int | None:
    """Return the class between words, or None if its name already shows it.

    It is the class that the settings name; of several such names it is the one that is emitted.
    """
    vocab, blank = emissions.vocab, emissions.blank
    if settings.separator:
        return resolve_blank(settings.separator, vocab, "separator")
    called = [
        vocab.index(name) for name in SEPARATORS if name in vocab and vocab.index(name) != blank
    ]
    if len(called) < 2 or alphabet_of(vocab, blank).separator is None:
        return None
    frames = greedy_labels(emissions.array).frames
    return max(called, key=lambda index: frames[index])


def _silences(emissions: Emissions, settings: Settings) -> list[int]:
    vocab = emissions.vocab
    if settings.silence:
        return [resolve_blank(settings.silence, vocab, "silence")]
    called = [
        name for name in PHONE_SILENCES if name in vocab and vocab.index(name) != emissions.blank
    ]
    of_phones = bool(called) and (is_arpabet(vocab) or is_ipa(vocab))
    return [vocab.index(name) for name in called if of_phones or name in SILENCES]


_LEAST_WORDS = 3
_LONG = 0.15
_NO_LETTERS = frozenset("_#%+$^~=|\\ ")
"""Characters that occur in tokens but are no letters, phones or marks of a text.

X-SAMPA's phones have @ and {.
"""
_WHOLE = 0.5
"""A transcript with at least this share of the labels that are heard covers the recording."""


def warn_of_unused(emissions: Emissions, used: Collection[int], tokens: int, words: int) -> None:
    """Log a warning for a class that a model often emits and a transcript never uses.

    It is logged once for each vocabulary.

    Args:
        used: the classes of its words, the blank, and the classes that are not sounds.
        tokens, words: their numbers in the transcript.
    """
    vocab, blank = emissions.vocab, emissions.blank
    if (vocab, "unused") in _warned or words < _LEAST_WORDS:
        return
    labels = greedy_labels(emissions.array)
    if tokens < _WHOLE * (labels.runs.sum() - labels.runs[blank]):
        return
    often = [
        index
        for index in range(len(vocab))
        if index not in used and _is_often(labels, index, vocab[index], words)
    ]
    if not often:
        return
    _warned.add((vocab, "unused"))
    index = max(often, key=lambda index: labels.frames[index])
    token = _argument(index, vocab[index])
    share = labels.frames[index] / len(labels.best)
    logger.warning(
        "%s: the model emits %s %d times (in %.0f%% of the frames), and no word of the transcript"
        " has it: --separator %s if it stands between words, --silence %s if it is silence%s",
        *(
            emissions.name or "log-probs",
            shown(vocab[index]),
            labels.runs[index],
            100 * share,
            token,
            token,
        ),
        f", --blank {token} if it is the blank" if not labels.runs[blank] else "",
    )


def _is_often(labels: GreedyLabels, index: int, token: str, words: int) -> bool:
    """Return whether a class that no word has wins as often as a separator or a silence does.

    A class with the name of a separator or a silence may be rare. A phone that the transcript's
    dialect lacks may be heard in each word of a short text, in half of the words of a long one
    (Persian, universal model), and in 12 % of the frames.
    """
    runs = int(labels.runs[index])
    bracketed = (token[0] + token[-1]) in ("<>", "[]") and "unk" not in token.casefold()
    if token in PHONE_SILENCES:
        often = runs >= 2
    elif bracketed or _NO_LETTERS.issuperset(token):
        often = runs >= max(3, 0.1 * words)
    else:
        often = runs >= max(10, 0.6 * words)
    return often or (runs >= 2 and bool(labels.frames[index] >= _LONG * len(labels.best)))


_FASTEST, _SLOWEST = 10.0, 0.5
"""Words per second; speech has two to five.

For Japanese, each kana counts as half a word, even of a fast speaker.
"""
_SLOW_WORD_S = 1.5
"""If the labels inside words are this far apart, pauses do not explain it."""
_FEW_WORDS = 5


def warn_of_frame_shift(
    emissions: Emissions, spoken: Sequence[str], tokens: int, speech_s: float
) -> None:
    """Log a warning if the frame shift makes speech faster or slower than anybody speaks.

    It is logged once for each frame shift.

    Args:
        spoken: the words that are in the recording; a word of one letter that is not ASCII (漢, か)
            counts half.
        tokens: their number of tokens; if each word is a token (a phone or a syllable), it counts
            as a third.
        speech_s: seconds from the first to the last of these words.
    """
    shift_s = emissions.frame_shift_s
    key = (f"{shift_s:g}",), "frame shift"
    if key in _warned or len(spoken) < _FEW_WORDS:
        return
    words = sum(0.5 if len(word) == 1 and not word.isascii() else 1.0 for word in spoken)
    words = words if tokens > len(spoken) else len(spoken) / 3
    rate = words / max(speech_s, shift_s)
    if rate < _FASTEST:
        if rate >= _SLOWEST:
            return
        gap_s = greedy_labels(emissions.array).gap_frames(emissions.blank) * shift_s
        if gap_s * tokens / words < _SLOW_WORD_S:
            return  # there are pauses between words, and the words are no longer than usual
    _warned.add(key)
    logger.warning(
        "%s: this is %.3g words a second with a frame shift of %g s; people say two to five: is the"
        " frame shift right (--frame-shift SECONDS)?",
        emissions.name or "log-probs",
        rate,
        shift_s,
    )
