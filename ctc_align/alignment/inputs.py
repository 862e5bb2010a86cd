"""The inputs of an alignment: checked arguments and the model's emissions; and its progress."""

from __future__ import annotations

import logging
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from os import PathLike, fspath
from typing import Any, ClassVar, NoReturn, TypedDict, TypeVar

import numpy as np

from ctc_align import units
from ctc_align.alignment.edges import duration_of, edges_warning, refines_edges
from ctc_align.config import Settings
from ctc_align.errors import CtcAlignError, EmissionsError, LexiconError, UsageError
from ctc_align.kernels.batching import StageSteps
from ctc_align.models.acoustic_model import AcousticModel, check_coverage
from ctc_align.models.array_checks import greedy_labels, warn_of_default_blank
from ctc_align.models.calibration import Calibration, NativeSpeech
from ctc_align.models.confidence_network import ConfidenceNetwork
from ctc_align.models.edge_network import EdgeNetwork
from ctc_align.threads import in_caller, on_one_thread
from ctc_align.tokens.alphabet import LetterTokenizer
from ctc_align.tokens.phones import PhoneTokenizer
from ctc_align.tokens.tokenizer import (
    SpellingOrder,
    Tokenizer,
    refuse_unreadable,
    runs_as_written,
    unit_tokenizer,
    with_phones,
)
from ctc_align.types import (
    Audio,
    AudioLike,
    DefaultBlank,
    Emissions,
    Transcript,
    Words,
    utterance_name,
)

_BOOK_CHARS = 20_000
"""Longer transcripts are cached."""
READ, LISTENED = 0.05, 0.7
"""The share of an alignment that is done when the recording has been read, and when the model has
run."""
_UNHEARD_S = 0.5
"""How much sound at the end other programs' log-probs may leave out."""
EACH_BATCH = 0.03
"""The share of the remaining progress that each batch of kernel work counts as, because the number
of batches is unknown."""

Progress = Callable[[float], None]
Result = TypeVar("Result")

logger = logging.getLogger(__name__)


class ProgressValue(float):
    """The share of an alignment that is done, a number in [0, 1]; `step` names what is running.

    >>> ProgressValue(0.5, "edges") + 0.25, ProgressValue(0.5, "edges").step
    (0.75, 'edges')
    """

    step: str

    def __new__(cls, share: float, step: str = "") -> ProgressValue:
        value = super().__new__(cls, share)
        value.step = step
        return value


class StepProgress:
    """Calls `callback(ProgressValue(share, step))` as an alignment advances.

    The share never falls. Without a callback it does nothing.
    """

    def __init__(self, callback: Progress | None = None) -> None:
        self._callback = callback
        self._share = 0.0
        self._step = ""
        self.begin("reading")

    def begin(self, step: str, share: float = 0.0) -> None:
        """Report that a step has begun; at least the share `share` is done."""
        self._step = step
        self._report(share)

    def of_model(self, duration_s: float) -> Progress | None:
        """Return the callback that reports how much of a recording of `duration_s` the model has done.

        Return None if nobody listens.
        """
        if self._callback is None:
            return None

        def report_progress(share: float) -> None:
            if duration_s:
                position = f", {units.clock(share * duration_s)} of {units.clock(duration_s)}"
            else:
                position = ""
            self.begin(f"listening{position}", READ + (LISTENED - READ) * share)

        self.begin("listening", READ)
        return report_progress

    def end_batch(self) -> None:
        """Report that a batch of requests has been answered."""
        self._report(self._share + (1.0 - self._share) * EACH_BATCH)

    def end(self) -> None:
        """Report that all is done."""
        self.begin("done", 1.0)

    def _report(self, share: float) -> None:
        self._share = max(self._share, share)
        if self._callback is not None:
            in_caller(partial(self._callback, ProgressValue(self._share, self._step)))


def on_stage_thread(steps: StageSteps[Result]) -> StageSteps[Result]:
    """Return the same stages, which compute on one thread (`ctc_align.threads`).

    Their requests are run elsewhere.
    """

    def advance(answer: object, error: CtcAlignError | None) -> tuple[bool, Any]:
        try:
            return False, steps.send(answer) if error is None else steps.throw(error)
        except StopIteration as end:
            return True, end.value

    answer, error = None, None
    while True:
        has_ended, value = on_one_thread(partial(advance, answer, error))
        if has_ended:
            return value
        try:
            answer = yield value
            error = None
        except CtcAlignError as raised:
            answer = None
            error = raised


class AlignerOptions(TypedDict, total=False):
    """The keyword arguments of `Aligner`."""

    device: str
    backend: str
    lexicon: str | PathLike[str] | None
    settings: Settings | None


@dataclass(frozen=True, eq=False)
class ModelEmissions:
    """A request (`ctc_align.kernels.batching`) for the `Emissions` of a model for an audio."""

    model: AcousticModel
    audio: Audio
    progress: Callable[[float], None] | None = None

    stage: ClassVar[str] = "model"
    shape: ClassVar[tuple[int, int]] = (0, 0)

    @property
    def key(self) -> Hashable:
        return ModelEmissions, id(self.model)

    @staticmethod
    def run(requests: Sequence[ModelEmissions]) -> Sequence[Emissions]:
        model = requests[0].model
        with np.errstate(
            over="ignore", invalid="ignore"
        ):  # of damaged weights: what comes out is checked
            if len(requests) == 1 and requests[0].progress is not None:
                results = [model.emissions(requests[0].audio, requests[0].progress)]
            else:
                results = model.emissions_batch([request.audio for request in requests])
        for result in results:
            check_coverage(result, f"model {model.name}", model.receptive_field_s)
        return results


@dataclass(frozen=True)
class UtteranceInputs:
    """Everything that one alignment is made from.

    Attributes:
        name: of the utterance.
        audio: the path of the audio as the caller gave it, "" for samples in memory.
        words: of the transcript.
        emissions: of the model for the audio.
        model: its name.
        tokenizer: of the emissions' vocabulary.
        calibration: of the model.
        settings: of the caller.
        backend: of the kernels: the one that runs, never "auto".
        confidence_network, edge_network: of the model, if it has them.
        progress: of the alignment.
        native_speech: how native speakers pronounce the model's phones, if it knows.
    """

    name: str
    audio: str
    words: Words
    emissions: Emissions
    model: str
    tokenizer: Tokenizer
    calibration: Calibration
    settings: Settings
    backend: str
    confidence_network: ConfidenceNetwork | None = None
    edge_network: EdgeNetwork | None = None
    progress: StepProgress = field(default_factory=StepProgress)
    native_speech: NativeSpeech | None = None

    @property
    def refines_edges(self) -> bool:
        """True if the edge network refines the edges."""
        return refines_edges(self.settings.edges, self.edge_network, self.emissions)

    def warn_of_edges(self) -> None:
        """Log a warning if the edges that the settings ask for are not possible."""
        method = self.settings.edges
        whose = self.settings.calibration or self.model
        if warning := edges_warning(
            method, self.calibration, self.edge_network, self.emissions, whose
        ):
            logger.warning("%s", warning)
        if (convention := self.settings.convention) != "whole" and not self.refines_edges:
            needs = "a model with an edge network, its audio, and --edges auto or refined"
            logger.warning(
                "--convention %s has no effect here (%s): it needs %s", convention, whose, needs
            )


@contextmanager
def error_context(name: str, source: str = "") -> Iterator[None]:
    """Put the utterance's name before an error's message, unless that names its `source`."""
    try:
        yield
    except CtcAlignError as error:
        if isinstance(error, LexiconError) or (source and source in str(error)):
            raise
        raise type(error)(f"{name}: {error}") from error


def check_on_error(on_error: str) -> None:
    """Raise UsageError unless `on_error` is "raise" or "return"."""
    if on_error not in ("raise", "return"):
        raise UsageError(f"on_error: expected 'raise' or 'return', got {on_error!r}")


def named_pairs(
    pairs: Iterable[tuple[AudioLike, str | Transcript]], utterances: Sequence[str] | None
) -> list[tuple[AudioLike, str | Transcript, str]]:
    """Return the audio, the text and the utterance's name of each pair.

    Raises:
        UsageError: an item is not a pair, or the number of names is wrong.
    """
    pairs = list(pairs)
    for i, pair in enumerate(pairs):
        if not isinstance(pair, (tuple, list)) or len(pair) != 2:
            raise UsageError(f"pair {i}: expected (audio, text), got {type(pair).__name__}")
    if utterances is None:
        sources = [names_of(audio, None) for audio, _ in pairs]
        names = [name if source else f"utterance-{i}" for i, (name, source) in enumerate(sources)]
    elif len(utterances) != len(pairs):
        raise UsageError(
            f"utterances: expected {len(pairs)} names, one for each pair; got {len(utterances)}"
        )
    else:
        names = list(utterances)
    return [(audio, text, name) for (audio, text), name in zip(pairs, names)]


def names_of(audio: AudioLike, utterance: str | None) -> tuple[str, str]:
    """Return the utterance's name, and the audio's path as the caller wrote it ("" for samples)."""
    if isinstance(audio, (str, PathLike)):
        source = fspath(audio)
    else:
        source = getattr(audio, "name", "") or ""
    return utterance or utterance_name(source), source


def checked_emissions(emissions: Emissions) -> Emissions:
    """Return a caller's emissions, on their device, with float32 states.

    Raises:
        EmissionsError: the log-probs or states are invalid.
    """
    from ctc_align.models.log_probs import check_emissions

    checked = check_emissions(emissions)
    if isinstance(emissions.blank, DefaultBlank):
        warn_of_default_blank(checked.array, checked.vocab)
    name, frames, classes = checked.name or "log-probs", *checked.array.shape
    last_s = units.frames_to_seconds(frames - 1, checked.frame_shift_s) + checked.first_frame_s
    if checked.duration_s is not None and checked.duration_s <= last_s:
        raise EmissionsError(
            f"{name}: expected a frame shift of at most {checked.duration_s / frames:.3g} s:"
            f" {frames} frames of {checked.frame_shift_s} s do not fit into duration_s"
            f" {checked.duration_s}"
        )
    check_coverage(checked, name, _UNHEARD_S)
    if checked.state_array is None:
        return checked
    states = np.asarray(checked.state_array, np.float32)
    if (
        states.ndim != 2
        or len(states) != frames
        or not _check_whole_parts(states.shape[1] - 1, classes - 1)
    ):
        raise EmissionsError(
            f"{name}: expected states of shape ({frames}, parts * {classes - 1} + 1), got"
            f" {tuple(states.shape)}"
        )
    if not (states < np.inf).all():
        raise EmissionsError(f"{name}: states hold NaN or +inf; expected log-scores")
    return checked.altered(states=states)


def _check_whole_parts(sounding: int, tokens: int) -> bool:
    return 0 < tokens <= sounding and sounding % tokens == 0


class TranscriptSplitter:
    """Splits transcripts.

    A long one is cached until the next one: successive recordings of a book share one text.
    """

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._book: tuple[tuple[object, ...], Words] | None = None

    def split(self, text: str | Transcript, name: str) -> Words:
        """Return a transcript split into the words to align; error messages call it `name`.

        Raises:
            UsageError: no text.
            TranscriptError: nothing in it is spoken.
        """
        from ctc_align.text import require_words, with_cues, words_of

        if isinstance(text, Transcript):
            transcript = text
        else:
            transcript = Transcript(text)
        if not isinstance(transcript.text, str):
            raise UsageError(
                f"{name}: expected the transcript as a str, got {type(transcript.text).__name__}"
            )
        settings = self._settings.in_language(transcript.language)
        marked = transcript.languages
        key = (settings, transcript.text, transcript.subtitles, marked)
        if self._book is None or self._book[0] != key:
            words = words_of(transcript.text, settings, transcript.subtitles, marked)
            require_words(words, name)
            if len(words.text) >= _BOOK_CHARS:
                self._book = (key, words)
            else:
                self._book = None
        else:
            words = self._book[1]
        words = replace(words, places=transcript.places, language=transcript.language)
        return with_cues(words, transcript.subtitles)


def require_text_extras(settings: Settings, *, is_ipa: bool) -> None:
    """Check that words can be cut and romanised as the settings say.

    Raises:
        UsageError: an extra is missing, or words are to be romanised for a model of every script
            (`is_ipa`).
    """
    from ctc_align.text.library_readings import require_dictionary, require_uroman

    if settings.words_by == "dictionary":
        require_dictionary(settings.language)
    if settings.romanize and is_ipa:
        raise UsageError(
            "romanize: the model's tokens are phones, which it finds for words of any script: omit"
            " --romanize, and name the transcript's language (--language)"
        )
    if settings.romanize:
        require_uroman()


def read_words(
    words: Words,
    emissions: Emissions,
    tokenizer: Tokenizer,
    language: str,
    *,
    as_written: bool = False,
) -> tuple[Words, Tokenizer]:
    """Return words as the vocabulary of the emissions can spell them, and the tokenizer for it.

    A transcript of tokens is split at spaces only. Other words get phones if `tokenizer` reads
    phones, and lose sample numbers at the beginning. If a word has several spellings, those that
    the emissions' classes suggest come first; with `as_written` there is only the spelling with
    case, digits and marks of the transcript, as far as the vocabulary has them.

    Raises:
        TranscriptError: there is no way to turn the words into tokens of the vocabulary.
    """
    units = unit_tokenizer(emissions.vocab, emissions.blank)
    if units.reads(words.text) and not (
        isinstance(tokenizer, PhoneTokenizer) and tokenizer.has_all(words.text)
    ):
        return units.split(words), units
    from ctc_align.text.markup import without_sample_numbers
    from ctc_align.tokens.translations import without_translations

    words = without_sample_numbers(words, duration_of(emissions))
    if isinstance(tokenizer, PhoneTokenizer) and tokenizer.lexicon_name:
        from ctc_align.tokens.lexicon_words import join_entries

        words = join_entries(words, tokenizer)
    words = without_translations(with_phones(words, tokenizer, language), tokenizer)
    if not isinstance(tokenizer, LetterTokenizer):
        return words, tokenizer
    if units.unreadable:
        refuse_unreadable(words, tokenizer, emissions.vocab)
    if not tokenizer.writes:
        return words, tokenizer
    if as_written:
        return runs_as_written(words), SpellingOrder(tokenizer)
    heard = greedy_labels(emissions.array).frames.nonzero()[0]
    return words, SpellingOrder(tokenizer, frozenset(heard.tolist()))


def seconds_of(loaded: Audio | Emissions) -> float:
    """Return the length of an audio, or of emissions."""
    if isinstance(loaded, Emissions):
        return units.frames_to_seconds(len(loaded), loaded.frame_shift_s)
    return loaded.duration_s


def failed_steps(error: CtcAlignError) -> StageSteps[NoReturn]:
    """Return the stages of an utterance that failed before its first one."""
    raise error
    yield
