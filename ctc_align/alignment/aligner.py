"""`Aligner`: a model, loaded once, and the calls that align and score with it."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from copy import copy
from dataclasses import replace
from functools import partial
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, overload

import numpy as np

from ctc_align.alignment.align_utterance import align_utterance, choose_tokens
from ctc_align.alignment.edges import may_refine
from ctc_align.alignment.inputs import (
    AlignerOptions,
    ModelEmissions,
    Progress,
    StepProgress,
    TranscriptSplitter,
    UtteranceInputs,
    check_on_error,
    checked_emissions,
    error_context,
    failed_steps,
    named_pairs,
    names_of,
    on_stage_thread,
    read_words,
    require_text_extras,
    seconds_of,
)
from ctc_align.alignment.model_choice import ModelChoice
from ctc_align.config import Settings
from ctc_align.errors import CtcAlignError, UsageError
from ctc_align.kernels import backend_of, batching
from ctc_align.kernels.batching import StageSteps
from ctc_align.models import AUTO
from ctc_align.models.array_checks import check_computed, warn_of_frame_shift, with_named_classes
from ctc_align.models.calibration import Calibration, file_in, read_calibration
from ctc_align.models.catalogue import folder_settings
from ctc_align.models.confidence_network import FitLimits, network_of_any_model
from ctc_align.models.edge_network import EdgeNetwork, load_edge_network
from ctc_align.tokens.phones import PhoneTokenizer
from ctc_align.tokens.tokenizer import Tokenizer, tokenize, tokenizer_for
from ctc_align.types import (
    DOUBTFUL,
    GOOD,
    AlignedWord,
    Alignment,
    Audio,
    AudioLike,
    Emissions,
    Transcript,
    Words,
    WordTokens,
    aligned_words,
    get_log_probs,
)

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from ctc_align.alignment.scoring import Scored
    from ctc_align.models import AcousticModel
    from ctc_align.text.lexicon import Lexicon

GROUP_S = 600.0
"""A long batch is divided into groups of about this many seconds of audio; one group is in memory
at a time."""


class Aligner:
    """Loads a model once and aligns any number of recordings with it.

    With the models of this project, several threads may call `emissions` and `emissions_batch` at
    the same time. All other calls are not thread-safe, because other models and the pronunciation
    cache have no lock: use one `Aligner` for each thread.

    Args:
        model: a name that `ctc-align models` lists, or the folder of a trained model; None to align
            only `Emissions`. "auto": `universal` if the settings or the `Transcript` name a
            language other than English, or if its text is clearly not English; otherwise `english`.
        device: "auto", "cpu", "cuda", "cuda:N" or "mps".
        backend: implementation of the kernels: "auto", "reference", "cpu" or "gpu".
        lexicon: path of a pronunciation dictionary (MFA format), which takes precedence over the
            model's pronunciations; None means the dictionary in the model's folder, if there is
            one.
        settings: see `ctc_align.config.Settings`; without a language, that of the model is used,
            otherwise English.

    Raises:
        UsageError: no such model, lexicon or backend.
        BackendError: the device or backend cannot run here.
    """

    def __init__(
        self,
        model: str | None = AUTO,
        *,
        device: str = "auto",
        backend: str = "auto",
        lexicon: str | PathLike[str] | None = None,
        settings: Settings | None = None,
    ) -> None:
        from ctc_align.kernels import check_backend

        check_backend(backend)
        given = settings or Settings()
        load = partial(
            Aligner,
            device=device,
            backend=backend,
            lexicon=lexicon,
            settings=replace(given, language=""),
        )
        self._choice: ModelChoice[Aligner] = ModelChoice(model, given, lexicon is not None, load)
        of_model = folder_settings(model := self._choice.first)
        self.settings = given.for_language(of_model.language)
        self.backend = backend
        require_text_extras(self.settings, is_ipa=of_model.ipa)
        self._lexicon: Lexicon | None = None
        self._has_model_lexicon = lexicon is None
        if (lexicon_path := of_model.lexicon if lexicon is None else lexicon) is not None:
            from ctc_align.text.lexicon import read_lexicon

            self._lexicon = read_lexicon(Path(lexicon_path))
        self.model: AcousticModel | None = None
        if model is not None:
            from ctc_align.models import load_model

            self.model = load_model(model, device=device, settings=self.settings)
        self._calibration: Calibration | None = None
        self._model_calibration: Calibration | None = None
        self._edge_network: EdgeNetwork | None = None
        if self.model is not None:
            self._model_calibration, self._edge_network = (
                self.model.calibration,
                self.model.edge_network,
            )
        if self.settings.calibration:
            path = Path(self.settings.calibration)
            self._calibration = read_calibration(file_in(path))
            # Constants alone leave the model's own network as it is.
            self._edge_network = (
                load_edge_network(path) if path.is_dir() else None
            ) or self._edge_network
        self._splitter = TranscriptSplitter(self.settings)
        self._tokenizers: dict[tuple[tuple[str, ...], int], Tokenizer] = {}

    def align(
        self,
        audio: AudioLike,
        text: str | Transcript | Words,
        *,
        utterance: str | None = None,
        progress: Progress | None = None,
    ) -> Alignment:
        """Align an audio with its transcript.

        Args:
            audio: as for `emissions`.
            text: the transcript as a str, as a `Transcript` (`read_transcript_file` keeps the cues
                of subtitles), or as the result of `split_transcript`.
            utterance: name in outputs and messages; None means the audio's name without extension.
            progress: called with the completed share in [0, 1]: a float whose `step` names the
                current step.

        Raises:
            InputError: the audio or the transcript cannot be used, or they do not fit together.
        """
        name, source = names_of(audio, utterance)
        words = split_transcript(self, text, name)
        aligner, report = self._choice.aligner(self, words.language), StepProgress(progress)
        language = self._choice.track_language(words.language)
        with error_context(name, source):
            steps = aligner._align(
                aligner._load(audio, language=language), words, name, source, report
            )
        [alignment] = batching.run([on_stage_thread(steps)], after_batch=report.end_batch)
        report.end()
        return alignment

    def realign(
        self,
        alignment: Alignment,
        audio: AudioLike | None = None,
        *,
        progress: Progress | None = None,
    ) -> Alignment:
        """Align a corrected alignment again.

        Hand-corrected words keep their times, others are aligned between them.

        Args:
            alignment: from `ctc_align.files.read_alignment`; without hand-corrected words, all of
                its text is aligned.
            audio: as for `emissions`; a path is that of the whole recording. None means the
                recording that the alignment names.
            progress: as for `align`.

        Raises:
            CtcAlignError: hand-corrected words cross or leave no room for others; the audio is
                missing, or belongs to another alignment.
        """
        from ctc_align.alignment import realign
        from ctc_align.files.json_files import is_fixed

        aligner = self._choice.aligner_of(self, alignment.model, alignment.config)
        settings = _settings_of_sound(aligner.settings, alignment, audio)
        if settings != aligner.settings:
            aligner = aligner.with_settings(settings)
        if aligner is not self:
            return aligner.realign(alignment, audio, progress=progress)
        name = alignment.utterance
        sound = realign.path_of(alignment) if audio is None else audio
        source = names_of(sound, name)[1]
        report = StepProgress(progress)
        fixed = None
        with error_context(name, source):
            if any(map(is_fixed, alignment.words)):
                fixed = alignment.words
                words = realign.corrected_words(alignment, self.settings, name)
            else:
                words = split_transcript(self, realign.text_of(alignment), name)
            loaded = self._load(sound, alignment)
            realign.check_length(alignment, seconds_of(loaded), source)
            steps = self._align(loaded, words, name, source, report, fixed)
        del loaded
        [again] = batching.run([on_stage_thread(steps)], after_batch=report.end_batch)
        report.end()
        return replace(again, offset_s=alignment.offset_s, text_offset=alignment.text_offset)

    @overload
    def align_batch(
        self,
        pairs: Iterable[tuple[AudioLike, str | Transcript]],
        on_error: Literal["raise"] = "raise",
        *,
        utterances: Sequence[str] | None = None,
        timings: dict[str, float] | None = None,
    ) -> list[Alignment]: ...

    @overload
    def align_batch(
        self,
        pairs: Iterable[tuple[AudioLike, str | Transcript]],
        on_error: Literal["return"],
        *,
        utterances: Sequence[str] | None = None,
        timings: dict[str, float] | None = None,
    ) -> list[Alignment | CtcAlignError]: ...

    def align_batch(
        self,
        pairs: Iterable[tuple[AudioLike, str | Transcript]],
        on_error: Literal["raise", "return"] = "raise",
        *,
        utterances: Sequence[str] | None = None,
        timings: dict[str, float] | None = None,
    ) -> list[Alignment] | list[Alignment | CtcAlignError]:
        """Align many pairs at once; return for each what `align` returns.

        The results equal those of `align` to the bit if the model's emissions do not depend on the
        batch, as with this project's models on the CPU. The model (on a GPU) and every kernel
        process many pairs in one call. At most `GROUP_S` seconds of audio and emissions, plus one
        pair, are in memory at a time, not counting audio that was passed as samples.

        Args:
            pairs: (audio, text), each as for `align`.
            on_error: "raise" raises the first error; "return" returns the error of a pair instead
                of its alignment.
            utterances: names, one for each pair; default: the audio's name, or `utterance-I` for
                index I from 0.
            timings: receives the seconds spent on the "model", the "words" and the "kernels", added
                to its values.

        Raises:
            UsageError: an item is not a pair, or the number of names differs.
            CtcAlignError: with on_error="raise", the error of the first pair that cannot be
                aligned.
        """
        check_on_error(on_error)
        results: list[Alignment | CtcAlignError] = []
        for group in self._groups(named_pairs(pairs, utterances)):
            results += batching.run(list(map(on_stage_thread, group)), on_error, timings)
        return results

    def emissions(self, audio: AudioLike, *, progress: Progress | None = None) -> Emissions:
        """Return the model's log-probs (T, C) for an audio, natural log, one row per frame.

        Args:
            audio: a path, (samples float32 mono, sample rate), `Audio`, or `Emissions`, which are
                returned as they are.
            progress: called with the completed share in [0, 1].

        Raises:
            AudioError: the audio cannot be used.
            EmissionsError: the log-probs contain NaN or +inf, or their shape does not fit the
                vocabulary.
        """
        return batching.run([self._listen(audio, progress)])[0]

    @overload
    def emissions_batch(
        self, audios: Iterable[AudioLike], on_error: Literal["return"] = "return"
    ) -> list[Emissions | CtcAlignError]: ...

    @overload
    def emissions_batch(
        self, audios: Iterable[AudioLike], on_error: Literal["raise"]
    ) -> list[Emissions]: ...

    def emissions_batch(
        self, audios: Iterable[AudioLike], on_error: Literal["raise", "return"] = "return"
    ) -> list[Emissions] | list[Emissions | CtcAlignError]:
        """Return for each audio what `emissions` returns.

        With on_error="return", return the error of one that fails.

        Raises:
            CtcAlignError: with on_error="raise", the error of the first audio that cannot be used.
        """
        check_on_error(on_error)
        return batching.run([self._listen(audio) for audio in audios], on_error)

    def score(self, audio: AudioLike, text: str | Transcript) -> float:
        """Return the CTC loss -log p(text | audio), natural log.

        It is over all paths of the best-fitting pronunciations.

        Raises the errors of `align`.
        """
        name, source = names_of(audio, None)
        words = split_transcript(self, text, name)
        aligner = self._choice.aligner(self, words.language)
        with error_context(name, source):
            emissions = aligner.emissions(
                aligner._load(audio, language=self._choice.track_language(words.language))
            )
        with error_context(name):
            inputs = aligner._inputs(emissions, words, name, source, as_written=True)
            return batching.run([on_stage_thread(choose_tokens(inputs))])[0].loss

    def score_texts(
        self,
        audio: AudioLike,
        texts: Sequence[str | Transcript],
        *,
        progress: Progress | None = None,
    ) -> list[Scored]:
        """Return the losses of alternative transcripts of one audio, best first.

        The model runs once.

        Args:
            audio: as for `emissions`.
            texts: the transcripts. If one cannot be scored, its `error` says why, and the others
                are scored.
            progress: as for `emissions`.

        Raises:
            AudioError, EmissionsError: the audio cannot be used.
            UsageError: a text is not a str, or `texts` is one str instead of a list.
        """
        if isinstance(texts, str):
            raise UsageError("texts: expected a list of transcripts, got a str; write [text]")
        aligner, language = find_aligner(self, texts)
        loaded = aligner._load(audio, language=self._choice.track_language(language))
        emissions = aligner.emissions(loaded, progress=progress)
        return aligner.score_emissions([emissions], [list(texts)], languages=[language])[0]

    def score_emissions(
        self,
        emissions: Sequence[Emissions],
        texts: Sequence[Sequence[str | Transcript]],
        timings: dict[str, float] | None = None,
        languages: Sequence[str] = (),
    ) -> list[list[Scored]]:
        """Return for each audio, given as emissions, what `score_texts` returns for its texts.

        `languages` has the language of each audio's texts; "" or an empty sequence means that of
        the settings.
        """
        from ctc_align.alignment.scoring import ranked, score_transcript

        settings_of = [
            self.settings.in_language(language) for language in languages or [""] * len(emissions)
        ]
        steps = [
            score_transcript(named, text, index, tokenizer, settings, self.backend)
            for each, alternatives, settings in zip(emissions, texts, settings_of)
            for named, tokenizer in [self._named(each)]
            for index, text in enumerate(alternatives)
        ]
        scored = iter(batching.run(list(map(on_stage_thread, steps)), timings=timings))
        return [ranked([next(scored) for _ in alternatives]) for alternatives in texts]

    def with_settings(self, settings: Settings) -> Aligner:
        """Return an aligner with the same loaded models and other settings.

        Settings for loading have no effect.
        """
        other = copy(self)
        other._choice = self._choice.with_settings(settings)
        other.settings = settings.for_language(folder_settings(self._choice.first).language)
        other._splitter = TranscriptSplitter(other.settings)
        return other

    if not TYPE_CHECKING:  # for type checkers the names are gone

        def __getattr__(self, name: str) -> Any:
            if name not in _DEPRECATED:
                raise AttributeError(f"'Aligner' object has no attribute {name!r}")
            function = _DEPRECATED[name]
            warnings.warn(
                f"Aligner.{name} is deprecated and will be removed in 0.6; use {function.__name__}"
                " of ctc_align.alignment.aligner, which may change (docs/migrate/0.4.md)",
                DeprecationWarning,
                stacklevel=2,
            )
            is_call = name in ("for_texts", "inputs", "pronounced", "split")
            return partial(function, self) if is_call else function(self)

    def _align(
        self,
        loaded: Audio | Emissions,
        words: Words,
        name: str,
        source: str,
        report: StepProgress,
        corrected: Sequence[AlignedWord] | None = None,
    ) -> StageSteps[Alignment]:
        with error_context(name, source):
            emissions = yield from self._emit(loaded, report.of_model(seconds_of(loaded)))
        if isinstance(loaded, Emissions):
            given = emissions
            track = 0
        else:
            given = None
            track = loaded.track
        del (
            loaded
        )  # three hours of samples are 700 MB; they stay only if an edge network needs them
        with error_context(name):
            inputs = self._inputs(emissions, words, name, source, report)
            if track:  # whoever reads the recording for this alignment again reads the same track
                inputs = replace(inputs, settings=replace(inputs.settings, track=str(track)))
            if corrected is not None:
                from ctc_align.alignment.realign import realign_utterance

                return (yield from realign_utterance(inputs, corrected))
            alignment = yield from align_utterance(inputs)
        if given is not None and alignment.fit in (GOOD, DOUBTFUL):
            _check_rate(alignment, given)
        return alignment

    def _listen(self, audio: AudioLike, progress: Progress | None = None) -> StageSteps[Emissions]:
        return (
            yield from self._emit(self._load(audio, language=self._choice.given.language), progress)
        )

    def _emit(
        self, loaded: Audio | Emissions, progress: Progress | None, keep_sound: bool = False
    ) -> StageSteps[Emissions]:
        if isinstance(loaded, Emissions):
            return loaded
        model = self._loaded_model()
        emissions = yield ModelEmissions(model, loaded, progress)
        check_computed(emissions, model.name)
        keep_sound = keep_sound or may_refine(self.settings.edges, self._edge_network)
        if keep_sound:
            return emissions.altered(sound=loaded)
        return emissions

    def _groups(
        self, pairs: Sequence[tuple[AudioLike, str | Transcript, str]]
    ) -> Iterator[list[StageSteps[Alignment]]]:
        """Yield the stages of the pairs in groups of `GROUP_S` seconds.

        They are in order, and their audio is loaded.
        """
        group: list[StageSteps[Alignment]] = []
        seconds = 0.0
        for audio, text, name in pairs:
            source = names_of(audio, name)[1]
            try:
                words = split_transcript(self, text, name)
                aligner = self._choice.aligner(self, words.language)
                with error_context(name, source):
                    loaded = aligner._load(
                        audio, language=self._choice.track_language(words.language)
                    )
            except CtcAlignError as error:
                group.append(failed_steps(error))
                continue
            group.append(aligner._align(loaded, words, name, source, StepProgress()))
            seconds += seconds_of(loaded)
            if seconds >= GROUP_S:
                yield group
                group = []
                seconds = 0.0
        if group:
            yield group

    def _load(
        self, audio: AudioLike, part: Alignment | None = None, language: str = ""
    ) -> Audio | Emissions:
        """Return the audio at the model's rate, or checked emissions.

        From a path, only the part that was aligned is read.

        `language` is that of the audio track that is preferred, "" for none.
        """
        if isinstance(audio, Emissions):
            return checked_emissions(audio)
        from ctc_align.audio.loading import as_audio

        model = self._loaded_model()
        choice = self.settings.sound_choice(language)
        if part is not None and isinstance(audio, (str, PathLike)):
            from ctc_align.alignment.realign import recording_of

            return recording_of(part, audio, model.sample_rate, choice=choice)
        return as_audio(audio, model.sample_rate, choice=choice, on_disk=True)

    def _loaded_model(self) -> AcousticModel:
        if self.model is None:
            raise UsageError(
                "audio: this Aligner has no model (model=None) and takes Emissions only"
            )
        return self.model

    def _inputs(
        self,
        emissions: Emissions,
        words: Words,
        name: str,
        source: str,
        report: StepProgress | None = None,
        *,
        as_written: bool = False,
    ) -> UtteranceInputs:
        has_model_vocab = self._has_model_vocab(emissions)
        calibration = (
            self._calibration
            or (self._model_calibration if has_model_vocab else None)
            or Calibration()
        )
        emissions, tokenizer = self._named(emissions)
        settings = self.settings.in_language(words.language)
        words, tokenizer = read_words(
            words, emissions, tokenizer, settings.language, as_written=as_written
        )
        return UtteranceInputs(
            name,
            source,
            words,
            emissions,
            self.model.name if self.model and has_model_vocab else "log-probs",
            tokenizer,
            calibration.at(
                emissions.frame_shift_s,
                emissions.vocab,
                self.model.durations if self.model and has_model_vocab else None,
            ),
            settings,
            backend_of(get_log_probs(emissions)) if self.backend == "auto" else self.backend,
            self.model.confidence_network if self.model and has_model_vocab else None,
            self._edge_network if has_model_vocab else None,
            report or StepProgress(),
            self.model.native_speech if self.model and has_model_vocab else None,
        )

    def _named(self, emissions: Emissions) -> tuple[Emissions, Tokenizer]:
        """Return emissions with named classes, and the tokenizer of their vocabulary.

        The names come from `with_named_classes`.
        """
        uses_lexicon = self._has_model_vocab(emissions) or not self._has_model_lexicon
        named = with_named_classes(emissions, self.settings)
        key = (named.vocab, named.blank)
        if key not in self._tokenizers:
            self._tokenizers[key] = tokenizer_for(*key, self._lexicon if uses_lexicon else None)
        return named, self._tokenizers[key]

    def _has_model_vocab(self, emissions: Emissions) -> bool:
        """Return whether the emissions have the vocabulary of the model.

        If so, they may come from it.
        """
        return self.model is not None and self.model.vocab == emissions.vocab


def split_transcript(aligner: Aligner, text: str | Transcript | Words, name: str) -> Words:
    """Return a transcript split into words; `name` is its name in error messages.

    Raises:
        TranscriptError: the transcript has no spoken word.
    """
    if isinstance(text, Words):
        return text
    return aligner._splitter.split(aligner._choice.named(text), name)


def find_aligner(
    aligner: Aligner, texts: Sequence[str | Transcript], language: str = ""
) -> tuple[Aligner, str]:
    """Return the aligner for transcripts of one audio, and their language.

    A language of "" means that of its settings.
    """
    known = (text.text if isinstance(text, Transcript) else text for text in texts)
    language = language or aligner._choice.language_of(
        "\n".join(text for text in known if isinstance(text, str))
    )
    return aligner._choice.aligner(aligner, language), language


def group_by_aligner(
    aligner: Aligner, texts: Sequence[Sequence[str | Transcript]], languages: Sequence[str]
) -> Iterator[tuple[Aligner, list[int], list[str]]]:
    """Yield the aligners that audios with alternative transcripts need.

    Each comes with the indices of its audios, and their languages.

    `languages` are those that are known, "" for others.
    """
    groups: dict[int, tuple[Aligner, list[int], list[str]]] = {}
    for index, (alternatives, known) in enumerate(zip(texts, languages)):
        chosen, language = find_aligner(aligner, alternatives, known)
        _, indices, codes = groups.setdefault(id(chosen), (chosen, [], []))
        indices.append(index)
        codes.append(language)
    yield from groups.values()


def read_inputs(
    aligner: Aligner,
    audio: AudioLike,
    text: str | Transcript,
    utterance: str | None = None,
    *,
    keep_sound: bool = False,
) -> UtteranceInputs:
    """Return the inputs of an alignment.

    `keep_sound` keeps the sound even without an edge network.
    """
    name, source = names_of(audio, utterance)
    words = split_transcript(aligner, text, name)
    chosen = aligner._choice.aligner(aligner, words.language)
    language = aligner._choice.track_language(words.language)
    with error_context(name, source):
        loaded = chosen._load(audio, language=language)
        [emissions] = batching.run([chosen._emit(loaded, None, keep_sound=keep_sound)])
        return chosen._inputs(emissions, words, name, source)


def pronounce_transcript(
    aligner: Aligner, text: str | Transcript, name: str
) -> tuple[Words, list[WordTokens], list[str]]:
    """Return the words of a transcript and their tokens.

    Also return the parts of them that the dictionary lacks.

    No recording is needed; `name` is what error messages call the transcript.

    Raises:
        InputError: nothing in it is spoken, or it cannot be turned into tokens of the model.
    """
    words = split_transcript(aligner, text, name)
    chosen = aligner._choice.aligner(aligner, words.language)
    model = chosen._loaded_model()
    one_frame: Any = np.zeros((1, len(model.vocab)), np.float32)
    nothing = Emissions(one_frame, model.vocab, model.frame_shift_s, model.blank)
    named, tokenizer = chosen._named(nothing)
    language = chosen.settings.in_language(words.language).language
    words, tokenizer = read_words(words, named, tokenizer, language)
    tokens = tokenize(words, tokenizer)
    lexicon = chosen._lexicon
    if lexicon is None or not isinstance(tokenizer, PhoneTokenizer):
        return words, tokens, []
    parts = (part for word in words.words for part in word.lookup_text.split())
    return words, tokens, [part for part in parts if lexicon.get(part) is None]


def find_choice(aligner: Aligner) -> ModelChoice[Aligner]:
    """Return how an aligner chooses a model by the language of a transcript."""
    return aligner._choice


def find_edge_network(aligner: Aligner) -> EdgeNetwork | None:
    """Return the edge network of the calibration, otherwise of the model, or None."""
    return aligner._edge_network


def find_fit_limits(aligner: Aligner) -> FitLimits | None:
    """Return the limits for `ctc_align.alignment.fit.fit_of`.

    They are the model's, or if it has none those of any model.
    """
    own = None if aligner.model is None else aligner.model.confidence_network
    return (own or network_of_any_model()).limits


_DEPRECATED: dict[str, Callable[..., Any]] = {
    "choice": find_choice,
    "edge_network": find_edge_network,
    "fit_limits": find_fit_limits,
    "for_texts": find_aligner,
    "inputs": read_inputs,
    "pronounced": pronounce_transcript,
    "split": split_transcript,
}
"""Former members of `Aligner`, and the functions that took their places."""


def _settings_of_sound(
    settings: Settings, alignment: Alignment, audio: AudioLike | None
) -> Settings:
    """Return the settings with the channel and the track of an alignment.

    They stay as they are if they name others, or if `audio` is another recording.
    """
    sound = alignment.audio if audio is None else audio
    if not isinstance(sound, (str, PathLike)) or Path(sound).name != Path(alignment.audio).name:
        return settings
    kept: dict[str, Any] = {
        name: str(alignment.config[name])
        for name in ("channel", "track")
        if alignment.config.get(name) and getattr(settings, name) == getattr(Settings, name)
    }
    return replace(settings, **kept)


def _check_rate(alignment: Alignment, emissions: Emissions) -> None:
    """Log a warning if the frame shift of log-probs makes the speech too fast or too slow."""
    if words := aligned_words(alignment):
        # Words may be spoken in a different order from the text.
        speech_s = max(word.end_s or 0.0 for word in words) - min(
            word.start_s or 0.0 for word in words
        )
        warn_of_frame_shift(
            emissions, [word.spoken for word in words], sum(len(w.tokens) for w in words), speech_s
        )


def align(
    audio: AudioLike,
    text: str | Transcript,
    *,
    model: str = AUTO,
    **options: Unpack[AlignerOptions],
) -> Alignment:
    """Align an audio with its transcript.

    Options are those of `Aligner`; for many recordings, make one `Aligner`.
    """
    return Aligner(model, **options).align(audio, text)
