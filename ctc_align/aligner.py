"""The whole line in one object: sound and text in, `Alignment` out."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from os import PathLike, fspath
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import torch

from ctc_align import types, units
from ctc_align.boundaries import Spans, from_spikes, from_states
from ctc_align.confidence import token_confidence, word_confidence
from ctc_align.config import Settings
from ctc_align.ctc_path import Spikes, choose_pronunciations, ctc_score
from ctc_align.errors import CtcAlignError, EmissionsError, LexiconError, TranscriptError, UsageError
from ctc_align.pauses import close_short_pauses
from ctc_align.tokens import Tokenizer, count_missing, tokenize, tokenizer_for
from ctc_align.types import AlignedToken, AlignedWord, Alignment, Emissions, Tokens, Words, WordTokens

if TYPE_CHECKING:
    from ctc_align.models import AcousticModel
    from ctc_align.scoring import Scored

Progress = Callable[[float], None]


class Aligner:
    """Loads a model once and aligns with it often.

    Args:
        model: "english" (inside the package) or the folder of a trained model; None when only `Emissions` are aligned.
        device: "auto", "cpu", "cuda", "cuda:N" or "mps".
        backend: of the kernels: "auto", "reference" or "cpu".
        lexicon: path of a pronunciation dictionary (MFA format) that goes before the model's own pronunciations.
        settings: see `ctc_align.config.Settings`.

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
        self.settings = settings or Settings()
        self.backend = backend
        self._lexicon = None
        if lexicon is not None:
            from ctc_align.text.lexicon import read_lexicon

            self._lexicon = read_lexicon(Path(lexicon))
        self.model: AcousticModel | None = None
        if model is not None:
            from ctc_align.models import load_model

            self.model = load_model(model, device=device, settings=self.settings)
        self._tokenizers: dict[tuple[tuple[str, ...], int], Tokenizer] = {}

    def emissions(self, audio: Any, *, progress: Progress | None = None) -> Emissions:
        """What the model says of an audio: log-probs (T, C), natural log, one row per frame.

        Args:
            audio: a path, (samples float32 mono, sample rate), `Audio`, or `Emissions`, which are returned as they are.

        Raises:
            AudioError: the audio cannot be used.
            EmissionsError: log-probs with NaN or +inf, or of a shape that does not fit the vocabulary.
        """
        if isinstance(audio, Emissions):
            return _checked(audio)
        if self.model is None:
            raise UsageError("audio: this Aligner has no model (model=None) and takes Emissions only")
        from ctc_align.audio import as_audio

        return self.model.emissions(as_audio(audio, self.model.sample_rate), progress)

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
        name, source = _names(audio, utterance)
        words = self._words(text, name)
        emissions = self._heard(audio, name, source, progress)
        with _whose(name):
            return self._align(emissions, words, name, source)

    def align_batch(
        self,
        pairs: Iterable[tuple[Any, str]],
        on_error: Literal["raise", "return"] = "raise",
        *,
        utterances: Sequence[str] | None = None,
    ) -> list[Alignment | CtcAlignError]:
        """Align many; with on_error="return" a failed pair's place holds its error, and the others are done.

        Args:
            pairs: (audio, text), each as for `align`.
            on_error: what is done about a pair that cannot be aligned.
            utterances: names, one for each pair; else the audio's, or `utterance-I`, I its place from 0.

        Raises:
            UsageError: pairs that are none, or another number of names.
            CtcAlignError: with on_error="raise", the first pair's that cannot be aligned.
        """
        _check_on_error(on_error)
        results: list[Alignment | CtcAlignError] = []
        for (audio, text), name in _named_pairs(pairs, utterances):
            try:
                results.append(self.align(audio, text, utterance=name))
            except CtcAlignError as error:
                if on_error == "raise":
                    raise
                results.append(error)
        return results

    def emissions_batch(
        self, audios: Iterable[Any], on_error: Literal["raise", "return"] = "return"
    ) -> list[Emissions | CtcAlignError]:
        """Of each audio what `emissions` says of it; with on_error="return" a failed one's place holds its error.

        Raises:
            CtcAlignError: with on_error="raise", the first audio's that cannot be used.
        """
        _check_on_error(on_error)
        results: list[Emissions | CtcAlignError] = []
        for audio in audios:
            try:
                results.append(self.emissions(audio))
            except CtcAlignError as error:
                if on_error == "raise":
                    raise
                results.append(error)
        return results

    def score(self, audio: Any, text: str) -> float:
        """The CTC loss -log p(text | audio), natural log, over all paths; of the pronunciations that fit best.

        Raises as `align`.
        """
        name, source = _names(audio, None)
        words = self._words(text, name)
        emissions = self._heard(audio, name, source, None)
        with _whose(name):
            tokens, spikes, _ = self._tokens(emissions, words)
            return self._loss(emissions, tokens, spikes)

    def score_texts(self, audio: Any, texts: Sequence[str]) -> list[Scored]:
        """Losses of alternatives for one audio, best first: see `ctc_align.scoring.score_texts`."""
        from ctc_align.scoring import score_texts

        return score_texts(self, audio, texts)

    def _heard(self, audio: Any, name: str, source: str, progress: Progress | None) -> Emissions:
        """Emissions, and errors that say whose audio it is: a source's own name, else the utterance's."""
        with _whose(name, source):
            return self.emissions(audio, progress=progress)

    def _words(self, text: str, name: str) -> Words:
        from ctc_align.text import require_words, split

        if not isinstance(text, str):
            raise UsageError(f"{name}: expected the transcript as a str, met {type(text).__name__}")
        words = split(text, language=self.settings.language)
        require_words(words, name)
        return words

    def _tokenizer(self, emissions: Emissions) -> Tokenizer:
        key = (emissions.vocab, emissions.blank)
        if key not in self._tokenizers:
            self._tokenizers[key] = tokenizer_for(emissions.vocab, emissions.blank, self._lexicon)
        return self._tokenizers[key]

    def _tokens(self, emissions: Emissions, words: Words) -> tuple[Tokens, Spikes, list[WordTokens]]:
        tokenizer = self._tokenizer(emissions)
        word_tokens = tokenize(words, tokenizer)
        if not any(word.pronunciations for word in word_tokens):
            lacking = "".join(dict.fromkeys(letter for word in word_tokens for letter in word.missing))
            raise TranscriptError(
                f"the model's vocabulary has nothing for any word of the transcript (it lacks {lacking[:40]!r}); "
                "is it the right model for this language?"
            )
        tokens, spikes = choose_pronunciations(
            emissions.log_probs,
            word_tokens,
            tokenizer.separator,
            emissions.blank,
            whole_words=emissions.states is not None,
            backend=self.backend,
        )
        # A word of two spoken parts holds a separator, which is none of its sounds.
        parted = (-1 if token == tokenizer.separator else w for token, w in zip(tokens.ids, tokens.words))
        return replace(tokens, words=tuple(parted)), spikes, word_tokens

    def _loss(self, emissions: Emissions, tokens: Tokens, spikes: Spikes) -> float:
        loss = ctc_score(emissions.log_probs, tokens.ids, emissions.blank, backend=self.backend)
        # One path is never likelier than all; where it is all there is, rounding may say so.
        return min(loss, -spikes.score)

    def _align(self, emissions: Emissions, words: Words, name: str, source: str) -> Alignment:
        tokens, spikes, word_tokens = self._tokens(emissions, words)
        loss = self._loss(emissions, tokens, spikes)
        spans = self._spans(emissions, tokens, spikes)
        duration_s = emissions.duration_s
        if duration_s is None:
            duration_s = units.frames_to_seconds(len(emissions.log_probs), emissions.frame_shift_s)
        confidence = token_confidence(emissions.log_probs, tokens.ids, spikes)
        return Alignment(
            utterance=name,
            audio=source,
            duration_s=duration_s,
            model=self.model.name if self.model and self.model.vocab == emissions.vocab else "log-probs",
            backend=spikes.backend,
            frame_shift_s=emissions.frame_shift_s,
            loss=loss,
            score=spikes.score,
            text=words.text,
            words=_aligned(words, word_tokens, tokens, spans, confidence, emissions.frame_shift_s, duration_s),
            unknown=count_missing(word_tokens),
            offset_s=emissions.offset_s,
            loss_per_token=loss / len(tokens.ids),
            config=self.settings.to_dict(),
            token_kind=self._tokenizer(emissions).token_kind,
        )

    def _spans(self, emissions: Emissions, tokens: Tokens, spikes: Spikes) -> Spans:
        if emissions.states is None:
            return from_spikes(spikes)
        band_frames = max(1, units.seconds_to_frames(self.settings.band_s, emissions.frame_shift_s))
        spans = from_states(emissions, tokens, spikes, band_frames, backend=self.backend)
        if spans is None:
            return from_spikes(spikes)
        shortest_frames = units.seconds_to_frames(self.settings.shortest_pause_s, emissions.frame_shift_s)
        return close_short_pauses(spans, tokens, shortest_frames)


def align(audio: Any, text: str, *, model: str = "english", **options: Any) -> Alignment:
    """Lay a transcript onto its audio; for many, make one `Aligner` and keep it. Options as `Aligner`'s."""
    return Aligner(model, **options).align(audio, text)


@contextmanager
def _whose(name: str, source: str = "") -> Iterator[None]:
    """Errors from within get the utterance's name, unless they name the source or a dictionary themselves."""
    try:
        yield
    except LexiconError:
        raise
    except CtcAlignError as error:
        if source and source in str(error):
            raise
        raise type(error)(f"{name}: {error}") from error


def _check_on_error(on_error: str) -> None:
    if on_error not in ("raise", "return"):
        raise UsageError(f"on_error: expected 'raise' or 'return', met {on_error!r}")


def _named_pairs(
    pairs: Iterable[tuple[Any, str]], utterances: Sequence[str] | None
) -> list[tuple[tuple[Any, str], str]]:
    """The pairs, each with its utterance's name."""
    pairs = list(pairs)
    for i, pair in enumerate(pairs):
        if not isinstance(pair, (tuple, list)) or len(pair) != 2:
            raise UsageError(f"pair {i}: expected (audio, text), met {type(pair).__name__}")
    if utterances is None:
        names = [
            _names(audio, None if _names(audio, None)[1] else f"utterance-{i}")[0] for i, (audio, _) in enumerate(pairs)
        ]
    elif len(utterances) != len(pairs):
        raise UsageError(f"utterances: expected {len(pairs)} names, one for each pair; met {len(utterances)}")
    else:
        names = list(utterances)
    return list(zip(pairs, names))


def _names(audio: Any, utterance: str | None) -> tuple[str, str]:
    """The utterance's name and the audio as it was given."""
    if isinstance(audio, (str, PathLike)):
        source = fspath(audio)
        return utterance or Path(source).stem, source
    source = getattr(audio, "name", "") or ""
    return utterance or Path(source).stem or "utterance", source


def _checked(emissions: Emissions) -> Emissions:
    """Emissions as a user gives them, on the CPU; what cannot be log-probs, or their states, is refused."""
    from ctc_align.models.logprobs import check_emissions

    checked = check_emissions(emissions)
    name, frames, classes = checked.name or "log-probs", *checked.log_probs.shape
    last_s = units.frames_to_seconds(frames - 1, checked.frame_shift_s)
    if checked.duration_s is not None and checked.duration_s <= last_s:
        raise EmissionsError(
            f"{name}: {frames} frames of {checked.frame_shift_s} s do not fit into duration_s {checked.duration_s}"
        )
    states = checked.states
    if states is not None:
        states = torch.as_tensor(states).detach().to("cpu", torch.float32)
        if states.dim() != 2 or len(states) != frames or not _whole_parts(states.shape[1] - 1, classes - 1):
            raise EmissionsError(
                f"{name}: expected states of shape ({frames}, parts * {classes - 1} + 1), met {tuple(states.shape)}"
            )
        if bool((states.isnan() | (states == float("inf"))).any()):
            raise EmissionsError(f"{name}: states hold NaN or +inf; expected log-scores")
    return replace(checked, log_probs=checked.log_probs.to("cpu"), states=states)


def _whole_parts(sounding: int, tokens: int) -> bool:
    return 0 < tokens <= sounding and sounding % tokens == 0


def _aligned(
    words: Words,
    word_tokens: Sequence[WordTokens],
    tokens: Tokens,
    spans: Spans,
    confidence: np.ndarray,
    frame_shift_s: float,
    duration_s: float,
) -> tuple[AlignedWord, ...]:
    mine: dict[int, list[AlignedToken]] = {}
    for k, (label, w) in enumerate(zip(tokens.labels, tokens.words)):
        if w >= 0:
            start_s = units.frames_to_seconds(int(spans.first[k]), frame_shift_s)
            end_s = min(units.frames_to_seconds(int(spans.last[k]), frame_shift_s), duration_s)
            mine.setdefault(w, []).append(AlignedToken(label, start_s, end_s, float(confidence[k])))
    return tuple(_word(word, word_tokens[w], mine.get(w, [])) for w, word in enumerate(words.words))


def _word(word: types.Word, word_tokens: WordTokens, tokens: list[AlignedToken]) -> AlignedWord:
    place = (word.text, word.spoken, word.char_start, word.char_end)
    if not tokens:
        return AlignedWord(*place, status=types.UNSPOKEN if not word.spoken else types.UNKNOWN)
    confidence = word_confidence([token.confidence for token in tokens])
    return AlignedWord(*place, types.ALIGNED, tokens[0].start_s, tokens[-1].end_s, confidence, tuple(tokens))
