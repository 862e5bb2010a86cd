"""The arguments of callers: pairs, names, emissions; and the request for what a model says of an audio."""

from __future__ import annotations

import logging
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from os import PathLike, fspath
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar, NoReturn, TypedDict

import torch

from ctc_align import units
from ctc_align.alignment.edges import EdgeSettings, duration_of
from ctc_align.config import Settings
from ctc_align.errors import CtcAlignError, EmissionsError, LexiconError, UsageError
from ctc_align.files import Alignment
from ctc_align.kernels import batching
from ctc_align.kernels.requests import Steps
from ctc_align.models import AcousticModel
from ctc_align.models.calibration import Calibration
from ctc_align.models.confidence_network import ConfidenceNetwork
from ctc_align.models.edge_network import EdgeNetwork
from ctc_align.text.markup import without_sample_numbers
from ctc_align.tokens.tokenizer import Tokenizer, with_phones
from ctc_align.types import Audio, AudioLike, Emissions, Transcript, Words
from ctc_align.units import clock

if TYPE_CHECKING:
    from ctc_align.text.lexicon import Lexicon

# The progress of one alignment: the share that is done, and the step that is going on.

Progress = Callable[[float], None]

READ, LISTENED = 0.05, 0.7
"""The shares of an alignment that are done when the recording has been read, and when the model has listened."""
EACH_BATCH = 0.03
"""The share of what is left then that a batch of kernel work is: how many batches there will be is not known."""


class Done(float):
    """The share of an alignment that is done, in [0, 1], a number like any other; `step` says what goes on.

    >>> Done(0.5, "edges") + 0.25, Done(0.5, "edges").step
    (0.75, 'edges')
    """

    step: str

    def __new__(cls, share: float, step: str = "") -> Done:
        done = super().__new__(cls, share)
        done.step = step
        return done


def reading(progress: Progress | None) -> StepProgress | None:
    """Return who tells a caller of the steps, the reading of the recording first; None where nobody watches."""
    if progress is None:
        return None
    told = StepProgress(progress)
    told.begin("reading")
    return told


class StepProgress:
    """Tells a caller, by `progress(Done(share, step))`, how far an alignment is; the share never falls."""

    def __init__(self, progress: Progress) -> None:
        self._progress = progress
        self._share = 0.0
        self._step = ""

    def begin(self, step: str, share: float = 0.0) -> None:
        """Tell that a step has begun; `share` is what is done at least."""
        self._step = step
        self._go_on_to(share)

    def listener(self, duration_s: float) -> Progress:
        """Return what a model calls with the share of a recording of so many seconds that it has listened to."""

        def listened(share: float) -> None:
            far = "" if not duration_s else f", {clock(share * duration_s)} of {clock(duration_s)}"
            self.begin(f"emissions{far}", READ + (LISTENED - READ) * share)

        self.begin("emissions", READ)
        return listened

    def went_on(self) -> None:
        """Tell that a batch of requests has been answered."""
        self._go_on_to(self._share + (1.0 - self._share) * EACH_BATCH)

    def end(self) -> None:
        """Tell that all is done."""
        self.begin("done", 1.0)

    def _go_on_to(self, share: float) -> None:
        self._share = max(self._share, share)
        self._progress(Done(self._share, self._step))


_BOOK_CHARS = 20_000
"""A text of so many characters is kept."""
FINE = ("auto", "refined")
"""Values of the setting `edges` with which a network of edges is used, where there is one."""

logger = logging.getLogger(__name__)


class AlignerOptions(TypedDict, total=False):
    """The keyword arguments of `Aligner`."""

    device: str
    backend: str
    lexicon: str | PathLike[str] | None
    settings: Settings | None


@dataclass(frozen=True, eq=False)
class ModelEmissions:
    """A request (`ctc_align.kernels.requests`) for what a model says of an audio; the answer is its `Emissions`."""

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
        if len(requests) == 1 and requests[0].progress is not None:
            return [model.emissions(requests[0].audio, requests[0].progress)]
        return model.emissions_batch([request.audio for request in requests])


@dataclass(frozen=True)
class UtteranceInputs:
    """Everything that one alignment is made from.

    Attributes:
        name: of the utterance.
        audio: the path of the audio as the caller gave it, "" for samples in memory.
        words: of the transcript.
        emissions: what the model says of the audio.
        model: name of the model.
        tokenizer: of the emissions' vocabulary.
        calibration: of the model.
        settings: of the caller.
        backend: of the kernels.
        confidence_network, edge_network: of the model, if it has them.
        progress: told of the steps, where somebody watches.
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
    progress: StepProgress | None = None

    def begin(self, step: str) -> None:
        """Tell who watches that a step begins."""
        if self.progress is not None:
            self.progress.begin(step)

    @property
    def edge_settings(self) -> EdgeSettings:
        """How the edges are drawn."""
        settings = self.settings
        return EdgeSettings(settings.edges, self.calibration, settings.band_s, settings.shortest_pause_s, self.backend)

    @property
    def looks_at_edges(self) -> bool:
        """True if a network draws the edges finely: there is one, and the sound, and the settings ask for it."""
        asked = self.settings.edges in FINE
        return asked and self.edge_network is not None and self.emissions.sound is not None


def warn_of_edges(inputs: UtteranceInputs) -> None:
    """Warn where the setting `edges` asks for what cannot be had, and say which edges there are in its place."""
    asked, calibration = inputs.settings.edges, inputs.calibration
    whose = inputs.settings.calibration or inputs.model
    segmented = inputs.emissions.states is not None
    if asked == "refined" and not inputs.looks_at_edges:
        networkless = f"{whose}: no network that looks at edges"
        lacking = networkless if inputs.edge_network is None else "no sound to look at"
    elif asked == "calibrated" and not (calibration.offsets_ms if segmented else calibration.draws):
        lacking = f"{whose}: no calibration of edges, which ctc-align calibrate makes"
    else:
        return
    if segmented:
        drawn = "medians over all paths" if asked == "refined" else "those of the best path"
    else:
        drawn = "calibrated spikes of CTC" if calibration.draws else "spikes of CTC"
    logger.warning("edges %s cannot be had (%s): they are %s", asked, lacking, drawn)


@contextmanager
def error_context(name: str, source: str = "") -> Iterator[None]:
    """Put the utterance's name before the message of an error, unless it names the `source` or a dictionary itself."""
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
        UsageError: something that is no pair, or another number of names.
    """
    pairs = list(pairs)
    for i, pair in enumerate(pairs):
        if not isinstance(pair, (tuple, list)) or len(pair) != 2:
            raise UsageError(f"pair {i}: expected (audio, text), got {type(pair).__name__}")
    if utterances is None:
        names = [
            names_of(audio, None if names_of(audio, None)[1] else f"utterance-{i}")[0]
            for i, (audio, _) in enumerate(pairs)
        ]
    elif len(utterances) != len(pairs):
        raise UsageError(f"utterances: expected {len(pairs)} names, one for each pair; got {len(utterances)}")
    else:
        names = list(utterances)
    return [(audio, text, name) for (audio, text), name in zip(pairs, names)]


def names_of(audio: AudioLike, utterance: str | None) -> tuple[str, str]:
    """Return the utterance's name, and the audio's path as the caller wrote it ("" for samples)."""
    if isinstance(audio, (str, PathLike)):
        source = fspath(audio)
        return utterance or Path(source).stem, source
    source = getattr(audio, "name", "") or ""
    return utterance or Path(source).stem or "utterance", source


def checked_emissions(emissions: Emissions) -> Emissions:
    """Return emissions that a caller made, where they lie, with float32 states.

    Raises:
        EmissionsError: what cannot be log-probs, or their states.
    """
    from ctc_align.models.log_probs import check_emissions
    from ctc_align.models.vocabulary import called_blank

    checked = check_emissions(emissions)
    called = called_blank(checked.vocab)
    if called and not checked.blank:
        logger.warning(
            "the blank is token 0, %r, though token %d is called %r", checked.vocab[0], called, checked.vocab[called]
        )
    name, frames, classes = checked.name or "log-probs", *checked.log_probs.shape
    last_s = units.frames_to_seconds(frames - 1, checked.frame_shift_s) + checked.first_frame_s
    if checked.duration_s is not None and checked.duration_s <= last_s:
        raise EmissionsError(
            f"{name}: {frames} frames of {checked.frame_shift_s} s do not fit into duration_s {checked.duration_s}"
        )
    if checked.states is None:
        return checked
    states = torch.as_tensor(checked.states).detach().to(checked.log_probs.device, torch.float32)
    if states.dim() != 2 or len(states) != frames or not _whole_parts(states.shape[1] - 1, classes - 1):
        raise EmissionsError(
            f"{name}: expected states of shape ({frames}, parts * {classes - 1} + 1), got {tuple(states.shape)}"
        )
    if bool((states.isnan() | (states == float("inf"))).any()):
        raise EmissionsError(f"{name}: states hold NaN or +inf; expected log-scores")
    return replace(checked, states=states)


def _whole_parts(sounding: int, tokens: int) -> bool:
    return 0 < tokens <= sounding and sounding % tokens == 0


def run_watched(steps: Steps[Alignment], told: StepProgress | None) -> Alignment:
    """Return the alignment of one utterance, each step told to who watches."""
    [alignment] = batching.run([steps], after_batch=None if told is None else told.went_on)
    if told is not None:
        told.end()
    return alignment


class TranscriptSplitter:
    """Splits transcripts. The last text is kept where it is long: recordings of a book follow each other with it."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._book: tuple[Settings, Words] | None = None

    def split(self, text: str | Transcript, name: str) -> Words:
        """Return a transcript split into the words that are aligned; `name` is what error messages call it.

        Raises:
            UsageError: no text.
            TranscriptError: nothing in it is spoken.
        """
        from ctc_align.text import require_words, with_cues, words_of

        transcript = text if isinstance(text, Transcript) else Transcript(text)
        if not isinstance(transcript.text, str):
            raise UsageError(f"{name}: expected the transcript as a str, got {type(transcript.text).__name__}")
        settings = self._settings.in_language(transcript.language)
        if self._book is None or (self._book[0], self._book[1].text) != (settings, transcript.text):
            words = words_of(transcript.text, settings)
            require_words(words, name)
            self._book = (settings, words) if len(words.text) >= _BOOK_CHARS else None
        else:
            words = self._book[1]
        words = replace(words, places=transcript.places, language=transcript.language)
        return with_cues(words, transcript.subtitles)


def require_text_extras(settings: Settings, *, is_ipa: bool) -> None:
    """Raise UsageError where words cannot be cut or romanised as the settings say.

    An extra is not there, or words are to be romanised for a model that reads every script (`is_ipa`).
    """
    from ctc_align.text.library_readings import require_dictionary, require_uroman

    if settings.words_by == "dictionary":
        require_dictionary(settings.language)
    if settings.romanize and is_ipa:
        raise UsageError(
            "romanize: the model's tokens are phones, which it finds for words of any script: leave --romanize away, "
            "and name the transcript's language (--language)"
        )
    if settings.romanize:
        require_uroman()


def said_words(words: Words, emissions: Emissions, tokenizer: Tokenizer, language: str) -> Words:
    """Return words with what `tokenizer` reads, without the numbers of samples that some transcripts begin with."""
    return with_phones(without_sample_numbers(words, duration_of(emissions)), tokenizer, language)


def lexicon_in(path: str | PathLike[str] | None) -> Lexicon | None:
    """Return the pronunciations in a file, None without one."""
    if path is None:
        return None
    from ctc_align.text.lexicon import read_lexicon

    return read_lexicon(Path(path))


def seconds_of(loaded: Audio | Emissions) -> float:
    """Return the length of an audio, or of the emissions in its place."""
    if isinstance(loaded, Emissions):
        return units.frames_to_seconds(len(loaded.log_probs), loaded.frame_shift_s)
    return loaded.duration_s


def failed_steps(error: CtcAlignError) -> Steps[NoReturn]:
    """Return the stages of an utterance that failed before its first one."""
    raise error
    yield
