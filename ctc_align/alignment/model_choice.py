"""The choice of a model if the caller names none.

It is `english` or `universal`, by the language of each transcript.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from copy import copy
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, Generic, Protocol, TypeVar

from ctc_align.config import ENGLISH as ENGLISH_CODE
from ctc_align.config import Settings
from ctc_align.models import AUTO, ENGLISH, UNIVERSAL
from ctc_align.models.calibration import file_in, read_calibration
from ctc_align.models.catalogue import speaks_any
from ctc_align.text.languages import base_code, likely_other_language, split_languages
from ctc_align.types import Transcript


class HasSettings(Protocol):
    """An `Aligner`."""

    def with_settings(self: One, settings: Settings) -> One:
        """Return an aligner with other settings and the same models."""
        ...


One = TypeVar("One", bound=HasSettings)
_MARKED_SHARE = 0.1
"""An English text of which this share is marked as other languages is one for all languages."""


def model_for(language: str) -> str:
    """Return the embedded model for a language, "" for English: `universal` for all others.

    >>> model_for(""), model_for("en-GB"), model_for("English")
    ('english', 'english', 'english')
    """
    if base_code(language) in ("", ENGLISH_CODE):
        return ENGLISH
    return UNIVERSAL


def with_calibrated(model: str | None, settings: Settings) -> str | None:
    """Return the model, or that of the calibration.

    The latter counts if no model was named and the settings have a calibration.

    Raises:
        ConfigError: the calibration cannot be read.
    """
    if model != AUTO or not settings.calibration:
        return model
    return read_calibration(file_in(Path(settings.calibration))).model or model


def only_model(model: str | None, given: Settings, has_lexicon: bool) -> str | None:
    """Return the model for all transcripts, whatever their language.

    Return `AUTO` if each chooses its model.
    """
    is_bound = has_lexicon or bool(given.calibration)
    model = with_calibrated(model, given)
    if model == AUTO and is_bound:
        return model_for(given.language)
    return model


def _with_marked(language: str, transcript: Transcript) -> str:
    """Return an English transcript's language, and the other ones in which much of it is marked.

    >>> from ctc_align.types import LanguageSpan
    >>> half = Transcript("yes ja", languages=(LanguageSpan(4, 6, "de"),))
    >>> _with_marked("", half)
    'en,de'
    """
    others = [span for span in transcript.languages if model_for(span.language) != ENGLISH]
    marked = sum(span.char_end - span.char_start for span in others)
    if not others or marked < _MARKED_SHARE * len(transcript.text):
        return language
    return ",".join(dict.fromkeys([ENGLISH_CODE, *(span.language for span in others)]))


class ModelChoice(Generic[One]):
    """The model that an aligner was asked for.

    It holds the aligners of other embedded models that its transcripts need.

    Args:
        model: as given; with `AUTO` the transcripts decide.
        given: the settings as given; if their language is "", the transcripts' languages decide.
        has_lexicon: a lexicon, like a calibration, binds the aligner to one model, whatever the
            texts' language.
            A calibration that names its model chooses this model.
        load: loads the aligner of a model, with the same settings except the language, which is "".
    """

    def __init__(
        self, model: str | None, given: Settings, has_lexicon: bool, load: Callable[[str], One]
    ) -> None:
        model = with_calibrated(model, given)
        self.is_open = model == AUTO
        self.first = model_for(given.language) if self.is_open else model
        self.given = given
        self.only = only_model(model, given, has_lexicon)
        self.knows_all = speaks_any(self.first)
        self.has_choice = self.only == AUTO or self.knows_all
        self._load = load
        self._others: dict[str, One] = {}

    @property
    def by_text(self) -> bool:
        """True if the language of a transcript that names none is detected in its text."""
        return self.has_choice and not self.given.language

    def language_of(self, text: str) -> str:
        """Return the code of the language that a text looks like.

        Return "" if it does not matter or the model is right.

        For models of all languages, English is named by its code, too.
        """
        if not self.by_text:
            return ""
        return likely_other_language(text) or (ENGLISH_CODE if self.knows_all else "")

    def track_language(self, language: str) -> str:
        """Return the language of the audio track that is preferred.

        It follows that of the transcript ("" if it names none).
        """
        named = language or self.given.language or (ENGLISH_CODE if self.is_open else "")
        return split_languages(named)[0]

    def named(self, text: str | Transcript) -> str | Transcript:
        """Return a transcript with a language.

        If neither it nor the settings name one, it is the language that the text appears to
        be in.
        """
        if isinstance(text, str):
            transcript = Transcript(text)
        else:
            transcript = text
        if (
            not isinstance(transcript, Transcript)
            or not isinstance(transcript.text, str)
            or transcript.language
        ):
            return text
        language = self.language_of(transcript.text)
        if self.by_text and model_for(language) == ENGLISH:
            language = _with_marked(language, transcript)
        if language:
            return replace(transcript, language=language)
        return text

    def aligner(self, this: One, language: str) -> One:
        """Return the aligner for a transcript in a language ("" if it names none).

        It is `this`, or that of another model.
        """
        model = model_for(language or self.given.language) if self.is_open else self.first
        if model is None or model == self.first:
            return this
        return self.loaded(model, "" if language else None)

    def aligner_of(self, this: One, model: str, config: Mapping[str, Any]) -> One:
        """Return the aligner that an alignment was made with, by model and settings.

        Return `this` if a model was named.
        """
        is_other = self.is_open and model == UNIVERSAL != self.first
        if is_other:
            return self.loaded(model, str(config.get("language", "")))
        return this

    def loaded(self, model: str, language: str | None = None) -> One:
        """Return the aligner of another model, loaded once, for a language.

        None means the language of the settings.
        """
        if model not in self._others:
            self._others[model] = self._load(model)
        if language is None:
            code = self.given.language
        else:
            code = language
        other = self._others[model]
        if code:
            return other.with_settings(replace(self.given, language=code))
        return other

    def with_settings(self, settings: Settings) -> ModelChoice[One]:
        """Return the same choice for other settings, with the same models."""
        choice = copy(self)
        choice.given = settings
        choice._others = {}
        choice._load = partial(self._load_with_settings, replace(settings, language=""))
        return choice

    def _load_with_settings(self, settings: Settings, model: str) -> One:
        return self.loaded(model, "").with_settings(settings)
