"""The whole line in one object: sound and text in, `Alignment` out."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from ctc_align import units
from ctc_align.alignment.align_utterance import Chosen, Means, Task, align_emissions, choose
from ctc_align.alignment.inputs import (
    check_on_error,
    checked,
    named,
    named_pairs,
    names_of,
    or_raise,
    raise_first,
    whose,
)
from ctc_align.config import Settings
from ctc_align.errors import CtcAlignError, UsageError
from ctc_align.formats import Alignment
from ctc_align.models.calibration import Calibration, calibration_of, read_calibration
from ctc_align.models.folder_settings import remembered
from ctc_align.tokens.tokenizer import Tokenizer, tokenizer_for
from ctc_align.types import Audio, Emissions, Word, Words

if TYPE_CHECKING:
    from ctc_align.alignment.scoring import Scored
    from ctc_align.models import AcousticModel
    from ctc_align.text.lexicon import Lexicon

Progress = Callable[[float], None]
OnError = Literal["raise", "return"]

GROUP_S = 600.0
"""A long batch goes through in groups of so many seconds of audio: what is in memory at once."""


class Aligner:
    """Loads a model once and aligns with it often.

    `emissions` and `emissions_batch` may be called by several threads at once. What pronounces words keeps them in
    memory without a lock: `align`, `align_batch` and `score` are for one thread at a time, or an `Aligner` for each.

    Args:
        model: "english" (inside the package) or the folder of a trained model; None when only `Emissions` are aligned.
        device: "auto", "cpu", "cuda", "cuda:N" or "mps".
        backend: of the kernels: "auto", "reference" or "cpu".
        lexicon: path of a pronunciation dictionary (MFA format) that goes before the model's own pronunciations; None
            is the one in the model's folder, if there is one.
        settings: see `ctc_align.config.Settings`; a language that is not set is the model's, else English.

    Raises:
        UsageError: no such model, lexicon or backend.
        BackendError: device or backend that cannot run here.
    """

    def __init__(
        self,
        model: str | None = "english",
        *,
        device: str = "auto",
        backend: str = "auto",
        lexicon: str | PathLike[str] | None = None,
        settings: Settings | None = None,
    ) -> None:
        from ctc_align.kernels import check_backend

        check_backend(backend)
        own = remembered(model)
        self.settings = (settings or Settings()).for_language(own.language)
        self.backend = backend
        if self.settings.romanize:
            from ctc_align.text.romanisation import require_uroman

            require_uroman()
        self._lexicon, self._own_lexicon = _lexicon(lexicon), _lexicon(own.lexicon if lexicon is None else None)
        self.model: AcousticModel | None = None
        if model is not None:
            from ctc_align.models import load_model

            self.model = load_model(model, device=device, settings=self.settings)
        self._calibrations = self._read_calibrations(model)
        self._tokenizers: dict[tuple[tuple[str, ...], int], Tokenizer] = {}

    def _read_calibrations(self, model: str | None) -> tuple[Calibration | None, Calibration | None]:
        """The one that the settings name, and the model's own."""
        named = read_calibration(Path(self.settings.calibration)) if self.settings.calibration else None
        if model is None or named:
            return named, None
        return None, getattr(self.model, "calibration", None) or calibration_of(model)

    def emissions(self, audio: Any, *, progress: Progress | None = None) -> Emissions:
        """What the model says of an audio: log-probs (T, C), natural log, one row per frame.

        Args:
            audio: a path, (samples float32 mono, sample rate), `Audio`, or `Emissions`, which are returned as they are.

        Raises:
            AudioError: the audio cannot be used.
            EmissionsError: log-probs with NaN or +inf, or of a shape that does not fit the vocabulary.
        """
        loaded = self._loaded(audio)
        if isinstance(loaded, CtcAlignError):
            raise loaded
        return loaded if isinstance(loaded, Emissions) else self._listener().emissions(loaded, progress)

    def align(
        self, audio: Any, text: str, *, utterance: str | None = None, progress: Progress | None = None
    ) -> Alignment:
        """Lay a transcript onto its audio.

        Args:
            audio: as for `emissions`.
            text: the transcript as written.
            utterance: its name in outputs and messages; the audio's name without extension if None.
            progress: called with the share done, in [0, 1].

        Raises:
            InputError: the audio or the transcript cannot be used, or they do not fit together.
        """
        task = self.task(audio, text, utterance, progress)
        with whose(task.name):
            return or_raise(align_emissions([task], self.means)[0])

    def align_batch(
        self,
        pairs: Iterable[tuple[Any, str]],
        on_error: OnError = "raise",
        *,
        utterances: Sequence[str] | None = None,
    ) -> list[Alignment | CtcAlignError]:
        """Align many at once: to the bit what `align` says of each, on one machine with one number of torch's threads.

        The model (on a GPU) and every kernel run once for many. However many pairs there are, no more audio and
        emissions than those of `GROUP_S` seconds, and of one pair more, are in memory at once, but for audio that was
        given as samples.

        Args:
            pairs: (audio, text), each as for `align`.
            on_error: with "return" the place of a pair that cannot be aligned holds its error, and the others are done.
            utterances: names, one for each pair; else the audio's, or `utterance-I`, I its place from 0.

        Raises:
            UsageError: pairs that are none, or another number of names.
            CtcAlignError: with on_error="raise", the first pair's that cannot be aligned.
        """
        check_on_error(on_error)
        results: list[Alignment | CtcAlignError] = []
        for group in self._groups(named_pairs(pairs, utterances)):
            results += self._align_group(group)
            if on_error == "raise":
                raise_first(results)
        return results

    def emissions_batch(self, audios: Iterable[Any], on_error: OnError = "return") -> list[Emissions | CtcAlignError]:
        """Of each audio what `emissions` says of it; with on_error="return" a failed one's place holds its error.

        Raises:
            CtcAlignError: with on_error="raise", the first audio's that cannot be used.
        """
        check_on_error(on_error)
        results = self._hear([self._loaded(audio) for audio in audios])
        if on_error == "raise":
            raise_first(results)
        return results

    def score(self, audio: Any, text: str) -> float:
        """The CTC loss -log p(text | audio), natural log, over all paths; of the pronunciations that fit best.

        Raises as `align`.
        """
        task = self.task(audio, text, None, None)
        with whose(task.name):
            chosen: Chosen = or_raise(choose([task], self.means)[0])
            return chosen.loss

    def score_texts(self, audio: Any, texts: Sequence[str]) -> list[Scored]:
        """Losses of alternatives for one audio, best first: see `ctc_align.alignment.scoring.score_texts`."""
        from ctc_align.alignment.scoring import score_texts

        return score_texts(self, audio, texts)

    def task(self, audio: Any, text: str, utterance: str | None = None, progress: Progress | None = None) -> Task:
        """An utterance that was listened to, for `ctc_align.alignment.align_utterance`."""
        name, source = names_of(audio, utterance)
        words = self._words(text, name)
        with whose(name, source):
            return Task(name, source, words, self.emissions(audio, progress=progress))

    def _groups(self, named: Sequence[tuple[Any, str, str]]) -> Iterator[list[_Loaded]]:
        """Pairs in their order, read, as many as make a group."""
        group: list[_Loaded] = []
        seconds = 0.0
        for audio, text, name in named:
            source = names_of(audio, name)[1]
            words: Words | CtcAlignError
            try:
                words = self._words(text, name)
                heard = self._loaded(audio)
            except CtcAlignError as error:
                words = heard = error
            group.append(_Loaded(name, source, words, heard))
            seconds += _seconds(heard)
            if seconds >= GROUP_S:
                yield group
                group, seconds = [], 0.0
        if group:
            yield group

    def _align_group(self, group: Sequence[_Loaded]) -> list[Alignment | CtcAlignError]:
        results: list[Any] = []
        for one, emissions in zip(group, self._hear([one.audio for one in group])):
            if isinstance(one.words, CtcAlignError):
                results.append(one.words)
            elif isinstance(emissions, CtcAlignError):
                results.append(named(emissions, one.name, one.source))
            else:
                results.append(Task(one.name, one.source, one.words, emissions))
        tasks = [result for result in results if isinstance(result, Task)]
        done = iter(zip(tasks, align_emissions(tasks, self.means)))
        for i, result in enumerate(results):
            if isinstance(result, Task):
                task, alignment = next(done)
                results[i] = named(alignment, task.name) if isinstance(alignment, CtcAlignError) else alignment
        return results

    def _loaded(self, audio: Any) -> Audio | Emissions | CtcAlignError:
        """What the model listens to, or emissions that were given, or what is wrong with them."""
        try:
            if isinstance(audio, Emissions):
                return checked(audio)
            from ctc_align.audio.loading import as_audio

            return as_audio(audio, self._listener().sample_rate)
        except CtcAlignError as error:
            return error

    def _hear(self, given: Sequence[Audio | Emissions | CtcAlignError]) -> list[Emissions | CtcAlignError]:
        """What the model says of all that is audio; the rest as it is."""
        results: list[Any] = list(given)
        places = [i for i, one in enumerate(given) if isinstance(one, Audio)]
        if places:
            for i, emissions in zip(places, self._listen([results[i] for i in places])):
                results[i] = emissions
        return results

    def _listen(self, audios: Sequence[Audio]) -> Sequence[Emissions | CtcAlignError]:
        model = self._listener()
        try:
            return model.emissions_batch(audios)
        except CtcAlignError as error:
            if len(audios) == 1:
                return [error]
        # One of them cannot be listened to: the others are not concerned.
        return [self._listen([audio])[0] for audio in audios]

    def _listener(self) -> AcousticModel:
        if self.model is None:
            raise UsageError("audio: this Aligner has no model (model=None) and takes Emissions only")
        return self.model

    def words_of(self, text: str) -> Sequence[Word]:
        """The words of a transcript, as they will be aligned."""
        return self._words(text, "transcript").words

    def _words(self, text: str, name: str) -> Words:
        from ctc_align.text import require_words, words_of

        if not isinstance(text, str):
            raise UsageError(f"{name}: expected the transcript as a str, got {type(text).__name__}")
        words = words_of(text, self.settings)
        require_words(words, name)
        return words

    def _tokenizer(self, emissions: Emissions) -> Tokenizer:
        key = (emissions.vocab, emissions.blank)
        if key not in self._tokenizers:
            lexicon = self._lexicon or (self._own_lexicon if self._is_own(emissions) else None)
            self._tokenizers[key] = tokenizer_for(emissions.vocab, emissions.blank, lexicon)
        return self._tokenizers[key]

    @property
    def means(self) -> Means:
        """What `ctc_align.alignment.align_utterance` needs of this aligner."""
        return Means(self._tokenizer, self._model_name, self._calibration, self.settings, self.backend)

    def _model_name(self, emissions: Emissions) -> str:
        return self.model.name if self.model and self._is_own(emissions) else "log-probs"

    def _is_own(self, emissions: Emissions) -> bool:
        """Whether the emissions may be the model's."""
        return self.model is not None and self.model.vocab == emissions.vocab

    def _calibration(self, emissions: Emissions) -> Calibration:
        """What the settings name; else the model's, of emissions that are its own."""
        known = self._calibrations[0] or (self._calibrations[1] if self._is_own(emissions) else None) or Calibration()
        return known.at(emissions.frame_shift_s)


class _Loaded(NamedTuple):
    """A pair on its way; what is wrong with a part stands in its place."""

    name: str
    source: str
    words: Words | CtcAlignError
    audio: Audio | Emissions | CtcAlignError


def align(audio: Any, text: str, *, model: str = "english", **options: Any) -> Alignment:
    """Lay a transcript onto its audio; for many, make one `Aligner` and keep it. Options as `Aligner`'s."""
    return Aligner(model, **options).align(audio, text)


def _lexicon(path: str | PathLike[str] | None) -> Lexicon | None:
    if path is None:
        return None
    from ctc_align.text.lexicon import read_lexicon

    return read_lexicon(Path(path))


def _seconds(heard: Audio | Emissions | CtcAlignError) -> float:
    if isinstance(heard, CtcAlignError):
        return 0.0
    if isinstance(heard, Emissions):
        return units.frames_to_seconds(len(heard.log_probs), heard.frame_shift_s)
    return heard.duration_s
