"""The tiers of a document that are its transcript, and the tiers to write.

Of words, tokens, sentences, speakers and languages.

The text of a document (TextGrid, ELAN file) consists of its sentence tiers, one for each speaker,
in order of time. Tiers of words and phones, which aligners add, are not text. A tier whose labels
all have the times of another tier's labels (a translation) is not text, either. If a transcript
names several speakers, each gets tiers, named as in MFA.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from itertools import groupby, pairwise
from typing import NamedTuple, TypeGuard, TypeVar

from ctc_align.errors import TranscriptError, UsageError
from ctc_align.files.sentences import sentences
from ctc_align.files.writer import Style, TimedLabel, token_rows, word_rows, words_by_time
from ctc_align.text.captions import transcript_of_cues
from ctc_align.text.characters import lazy_regex
from ctc_align.text.languages import base_code, split_languages
from ctc_align.text.markup import distinct_spans
from ctc_align.text.phone_sets import broad_phones, label_in, phone_set_of, syllable_starts
from ctc_align.text.transcript import has_spaceless
from ctc_align.types import (
    AlignedToken,
    AlignedWord,
    Alignment,
    LanguageSpan,
    SourceCue,
    Subtitles,
    Tier,
    Transcript,
)

_LEAST_WORDS = 2.0
"""The least average number of words in labels of sentences; in scripts without spaces, two
characters count as a word."""
_FILLED = 0.5
"""Labels that fill more of the time of another tier's labels, and are more, are parts of those."""
_ENDS = tuple(".?!…。？！")
_SILENCE = lazy_regex(r"<?(?:sil|silence|sp|spn|p:|pause|eps)>?|[^\w<>()\[\]♪]*", re.IGNORECASE)
"""Labels of silence."""
_SEGMENTS = lazy_regex(
    r"(?:.*[\W_])?(?:words?|phones?|phonemes?|tokens?|syllables?|syll|letters?|segments?|phonetics?|phon|phns?|mas|mau|"
    r"(?:ort|kan)-mau)(?: \d+)?",
    re.IGNORECASE | re.DOTALL,
)
"""Names of tiers of single words or sounds: `words`, `Ann - phones`, `Ann - words 2`."""
_WORDS = lazy_regex(r"(?:^|\s-\s|[\W_])words?(?: \d+)?\s*$", re.IGNORECASE)
_NO_NAMES = lazy_regex(
    r"(?:text|transcri\w*|sentences?|utterances?|utt|phrases?|default|speech|orthograph\w*|ort|tier\W?\d*|\W*)",
    re.IGNORECASE,
)
"""Names of tiers that do not name a speaker."""
UNNAMED = "unnamed"
"""The speaker, in names of tiers, before the first name in a transcript with several speakers."""
WORDS = "words"
TOKENS = "tokens"
PHONES = "phones"
SYLLABLES = "syllables"
SENTENCES = "sentences"
SPEAKERS = "speakers"
GOP = "gop"
LANGUAGES = "languages"
"""Kinds of tiers by their names in the setting `tiers`; "phones" means the tokens, even if they are
not phones."""
NOTHING = "∅"
"""The label of a rival that is no sound."""


def speaker_of(name: str) -> str:
    """Return the speaker that a tier is named after, "" if its name describes its content.

    >>> speaker_of("Ann"), speaker_of("sentences"), speaker_of("Ann - words")
    ('Ann', '', 'Ann')
    """
    name = _WORDS.sub("", name)
    if _NO_NAMES.fullmatch(name.strip()):
        return ""
    return " ".join(name.split())


def is_silence(label: str) -> bool:
    """Return whether a label says that nothing is spoken.

    >>> is_silence("<sil>"), is_silence(" "), is_silence("[noise]"), is_silence("So.")
    (True, True, False, False)
    """
    return _SILENCE.fullmatch(label.strip()) is not None


def tiers_transcript(tiers: Sequence[Tier], source: str, format: str, document: str) -> Transcript:
    """Return the labels of the text tiers, in order of time, as a transcript.

    Each label is a cue.

    Args:
        tiers: of the document, without silence; a tier comes before those that depend on it.
        source: the document's name, for messages.
        format: one of `ctc_align.types.CUE_FORMATS`.
        document: the whole file, to which words are added.

    Raises:
        TranscriptError: no label has letters.
    """
    chosen = sentence_tiers(tiers)
    if not chosen:
        names = ", ".join(tier.name for tier in tiers) or "none"
        raise TranscriptError(
            f"{source}: expected a tier with text between two times, one for each speaker; got"
            f" tiers without any ({names}); write the sentences into one, or give their text as a"
            " text file"
        )
    rows = sorted(
        ((row, tier) for tier in chosen for row in tier.intervals), key=lambda pair: pair[0].start_s
    )
    cues: list[tuple[SourceCue, str]] = []
    for row, tier in rows:
        start_s = max(row.start_s, 0.0)
        end_s = max(row.end_s, start_s)
        cue = SourceCue(0, 0, start_s, end_s, name=tier.name, speaker=tier.speaker)
        cues.append((cue, " ".join(row.label.split())))
    transcript = transcript_of_cues(cues, Subtitles(format, document=document))
    assert transcript.subtitles is not None
    spans = (
        LanguageSpan(cue.char_start, cue.char_end, tier.language)
        for cue, (_, tier) in zip(transcript.subtitles.cues, rows)
        if tier.language
    )
    return replace(transcript, languages=distinct_spans(transcript.text, spans))


def sentence_tiers(tiers: Sequence[Tier]) -> list[Tier]:
    """Return the tiers whose labels are sentences.

    If there are none, that with the most letters, or tiers of words.

    >>> from ctc_align.types import Interval
    >>> tiers = [Tier(name, tuple(Interval(at, at + len(labels[0]), label) for at, label in enumerate(labels)))
    ...          for name, labels in (("Ann", ["So be it.", "We go."]), ("Ben", ["Yes.", "No."]), ("words", ["so"]))]
    >>> [tier.name for tier in sentence_tiers(tiers)]
    ['Ann', 'Ben']
    """
    labelled = [tier for tier in tiers if _letters(tier)]
    others = [tier for tier in labelled if not _SEGMENTS.fullmatch(tier.name.strip())]
    chosen: list[Tier] = []
    chosen_times: list[set[tuple[float, float]]] = []
    for tier in filter(_is_of_sentences, others):
        times = {(row.start_s, row.end_s) for row in tier.intervals}
        if not any(times <= before for before in chosen_times):
            chosen.append(tier)
            chosen_times.append(times)
    if chosen:
        return chosen
    if others:
        return [max(others, key=_letters)]
    return [tier for tier in labelled if _WORDS.search(tier.name)]


def utterance_tiers(tiers: Sequence[Tier]) -> tuple[list[Tier], list[str]]:
    """Return the tiers whose labels are the utterances of speakers.

    And the names of other tiers with text, which are worth a mention.

    They are the sentence tiers. Without any, labels of single words are utterances, too, unless the
    tier is one of words or sounds by its name, by its labels, or because it divides another one. No
    tier: the words of a document without utterances are the text of its recording.

    >>> from ctc_align.types import Interval
    >>> tiers = [Tier(name, (Interval(0, 1, "so"), Interval(1, 2, "be"))) for name in ("Ann - words", "Ann - phones")]
    >>> utterance_tiers(tiers)
    ([], ['Ann - words', 'Ann - phones'])
    """
    labelled = [tier for tier in tiers if _letters(tier)]
    chosen = [
        tier
        for tier in sentence_tiers(tiers)
        if _is_of_sentences(tier) and not _is_of_segments(tier)
    ]
    if not chosen:
        others = [tier for tier in labelled if not _is_of_segments(tier)]
        chosen = [
            tier
            for tier in others
            if not any(_divides(tier, other) for other in labelled if other is not tier)
        ]
    unread = [tier for tier in labelled if not any(tier is each for each in chosen)]
    return chosen, [tier.name for tier in unread if not chosen or not _is_of_segments(tier)]


def _is_of_segments(tier: Tier) -> bool:
    """Return whether a tier is one of words or sounds, by its name or by its labels."""
    by_name = _SEGMENTS.fullmatch(tier.name.strip()) is not None
    return by_name or bool(phone_set_of(" ".join(row.label for row in tier.intervals)))


def _divides(tier: Tier, other: Tier) -> bool:
    """Return whether the labels of a tier are parts of those of another.

    They mostly fill these, several in one.
    """
    ends = [row.end_s for row in other.intervals if row.label.strip()]
    starts = [row.start_s for row in other.intervals if row.label.strip()]
    inner = [row for row in tier.intervals if row.label.strip()]
    within = [
        row
        for row in inner
        if (at := bisect_right(starts, row.start_s) - 1) >= 0 and row.end_s <= ends[at]
    ]
    filled = sum(row.end_s - row.start_s for row in within) > _FILLED * sum(
        b - a for a, b in zip(starts, ends)
    )
    return len(within) == len(inner) > len(starts) and filled


def _letters(tier: Tier) -> int:
    """Return the number of letters of all labels."""
    return sum(character.isalpha() for row in tier.intervals for character in row.label)


def _is_of_sentences(tier: Tier) -> bool:
    """Return whether labels have several words on average, or half of them end like sentences."""
    labels = [row.label for row in tier.intervals]
    count = len(tier.intervals)
    words = sum(len(label) // 2 if has_spaceless(label) else len(label.split()) for label in labels)
    ended = sum(label.rstrip("\"'”’») ").endswith(_ENDS) for label in labels)
    return words >= _LEAST_WORDS * count or ended >= count / 2


Data = TypeVar("Data", bound=Alignment)


class SpokenTier(NamedTuple):
    """A tier: its name, its rows by time in whole units, its kind, and its owner ("" for none)."""

    name: str
    rows: list[TimedLabel]
    kind: str = WORDS
    speaker: str = ""


def wanted_tiers(style: Style, default: Sequence[str] = (WORDS, TOKENS)) -> tuple[str, ...]:
    """Return the kinds of tiers in the style, each once, in the order of the style.

    >>> wanted_tiers(Style(tiers="Sentences, phones,tokens")), wanted_tiers(Style())
    (('sentences', 'tokens'), ('words', 'tokens'))
    """
    names = [name.strip().casefold() for name in style.tiers.split(",") if name.strip()]
    return tuple(dict.fromkeys(TOKENS if name == PHONES else name for name in names)) or tuple(
        default
    )


def tiers_by_speaker(
    alignment: Alignment,
    style: Style,
    units_per_s: int,
    default: Sequence[str] = (WORDS, TOKENS),
) -> list[SpokenTier]:
    """Return the tiers of the style, by default `words` and `tokens` (or `phones`), in whole units.

    If the transcript names several speakers, each has tiers, named as in MFA: `SPEAKER - words`.
    """
    words = words_by_time(alignment)
    names = speaker_names(words)
    kinds = wanted_tiers(style, default)
    several = len({*names} - {""}) > 1
    return _tiers(
        alignment,
        style,
        units_per_s,
        kinds,
        names if several else [""] * len(words),
        dict.fromkeys(names),
    )


def speaker_names(words: Sequence[AlignedWord]) -> list[str]:
    """Return the speaker of each word.

    `UNNAMED` before the first name if several are named, "" without names.
    """
    speakers = [word.speaker for word in words]
    if len({*speakers} - {""}) > 1:
        return [speaker or UNNAMED for speaker in speakers]
    return speakers


def is_document(subtitles: Subtitles | None, format: str) -> TypeGuard[Subtitles]:
    """Return whether a transcript is a document with tiers in a format."""
    return subtitles is not None and subtitles.format == format and bool(subtitles.cues)


def tiers_by_source(alignment: Alignment, style: Style, units_per_s: int) -> list[SpokenTier]:
    """Return tiers as `tiers_by_speaker` does, but for each text tier of the transcript.

    They are called `TIER - words`.
    """
    subtitles = alignment.subtitles
    assert subtitles is not None, "the transcript is a document of tiers"
    names = _cue_names(words_by_time(alignment), subtitles)
    order = dict.fromkeys(cue.name for cue in subtitles.cues)
    return _tiers(alignment, style, units_per_s, wanted_tiers(style), names, order)


def _cue_names(words: Sequence[AlignedWord], subtitles: Subtitles) -> list[str]:
    starts = [cue.char_start for cue in subtitles.cues]
    return [
        subtitles.cues[max(bisect_right(starts, word.char_start) - 1, 0)].name for word in words
    ]


def _tiers(
    alignment: Alignment,
    style: Style,
    units_per_s: int,
    kinds: Sequence[str],
    owners: Sequence[str],
    order: Iterable[str],
) -> list[SpokenTier]:
    """Return the tiers of some kinds, for each owner.

    `owners` has the owner of each word by time ("" for none).
    """
    rows = word_rows(alignment, style, units_per_s)

    def inner_rows(of: Alignment) -> list[tuple[TimedLabel, str]]:
        own = [owner for word, owner in zip(words_by_time(of), owners) for _ in word.tokens]
        return list(zip(token_rows(of, style, units_per_s), own))

    everything = {
        WORDS: list(zip(rows, owners)),
        TOKENS: inner_rows(alignment) if TOKENS in kinds else [],
        **{
            kind: inner_rows(divide(alignment)) for kind, divide in DERIVED.items() if kind in kinds
        },
        SENTENCES: sentence_rows(alignment, rows, owners) if SENTENCES in kinds else [],
    }
    per_owner = [kind for kind in kinds if kind not in TURNS]
    tiers = []
    for owner in order if any(owners) else ("",):
        for kind in per_owner:
            name = kind
            if kind == TOKENS:
                name = alignment.token_kind
            own = [row for row, whose in everything[kind] if whose == owner]
            tiers.append(SpokenTier(f"{owner} - {name}" if owner else name, own, kind, owner))
    for kind in kinds:
        if kind in TURNS:
            turns = SpokenTier(kind, turn_rows(alignment, kind, rows), kind)
            tiers.insert(0 if kinds[0] == kind else len(tiers), turns)
    return tiers


def syllabified(alignment: Alignment) -> Alignment:
    """Return the alignment with the syllables of each word in place of its phones.

    Syllables have maximal onsets.

    A label has the phones of the syllable, parted by spaces; stress in IPA is before them. Its
    confidence is that of its least certain phone.

    Raises:
        UsageError: the tokens are not phones.
    """
    if alignment.token_kind != PHONES:
        raise UsageError(
            f"--tiers syllables: expected a model of phones, got {alignment.model}, whose tokens"
            " are letters; use --model english or universal, or leave out syllables"
        )
    language = split_languages(str(alignment.config.get("language") or ""))[0]
    labels = {phone.token for word in alignment.words for phone in word.tokens}
    has_diphthongs = any(len(broad_phones(label)) > 1 for label in labels)
    words = []
    for word in alignment.words:
        phones = [phone.token for phone in word.tokens]
        if phones:
            code = base_code(word.language or language)
            starts = syllable_starts(phones, code, has_diphthongs=has_diphthongs)
        else:
            starts = []
        parts = [word.tokens[first:end] for first, end in pairwise([*starts, len(phones)])]
        words.append(replace(word, tokens=tuple(map(_syllable, parts))))
    return replace(alignment, words=tuple(words), token_kind=SYLLABLES)


def with_goodness(alignment: Alignment) -> Alignment:
    """Return the alignment with the goodness of each token as its label.

    `3.1`; `-2.4 IH` if IH is likelier, `-2.4 ∅` if nothing is.

    Raises:
        UsageError: no token has any.
    """
    if not has_goodness(alignment):
        raise UsageError(
            f"--tiers gop: expected an alignment that was made with --gop, got {alignment.utterance}"
            " without goodness of pronunciation; align the recording again, or leave out gop"
        )
    words = tuple(
        replace(word, tokens=tuple(map(_goodness_label, word.tokens))) for word in alignment.words
    )
    return replace(alignment, words=words, token_kind=GOP)


def has_goodness(alignment: Alignment) -> bool:
    """Return whether any token has a goodness of pronunciation."""
    return any(token.gop is not None for word in alignment.words for token in word.tokens)


def _goodness_label(token: AlignedToken) -> AlignedToken:
    """Return a token with its goodness as its label, "" if unknown."""
    label = ""
    if token.gop is not None:
        label = f"{token.gop:.1f}"
    if token.gop is not None and token.gop < 0.0:
        label += f" {token.heard or NOTHING}"
    return replace(token, token=label)


DERIVED: dict[str, Callable[[Alignment], Alignment]] = {
    SYLLABLES: syllabified,
    GOP: with_goodness,
}
"""The kinds of tiers that are made of tokens: each with the alignment that has them as tokens."""


def in_alphabet(
    words: Sequence[AlignedWord], alphabet: str, *, stress: bool = False
) -> tuple[AlignedWord, ...]:
    """Return words whose labels of English phones are in "arpabet" or "ipa".

    `stress` keeps their marks.
    """
    return tuple(
        replace(
            word,
            tokens=tuple(
                replace(
                    each,
                    token=label_in(alphabet, each.token, stress=stress),
                    heard=each.heard and label_in(alphabet, each.heard, stress=stress),
                )
                for each in word.tokens
            ),
        )
        for word in words
    )


def with_phones(alignment: Data, alphabet: str) -> Data:
    """Return an alignment whose phones are in "arpabet" or "ipa".

    Raises:
        UsageError: the tokens are not English phones.
    """
    if alphabet == "auto":
        return alignment
    words = in_alphabet(alignment.words, alphabet, stress=bool(alignment.config.get("stress")))
    labels = {token.token for word in words for token in word.tokens}
    is_ipa_of_all = alphabet == "arpabet" and any(not label.isascii() for label in labels)
    if alignment.token_kind != PHONES or is_ipa_of_all:
        got = "phones of IPA for all languages" if is_ipa_of_all else alignment.token_kind
        raise UsageError(
            f"--phones {alphabet}: expected English phones, got {got} of the model"
            f" {alignment.model}"
        )
    return replace(alignment, words=words)


def _syllable(phones: Sequence[AlignedToken]) -> AlignedToken:
    """Return a syllable of these phones."""
    first = phones[0]
    last = phones[-1]
    label = " ".join(phone.token for phone in phones)
    stress = "".join(mark for mark in "ˈˌ" if mark in label)
    return AlignedToken(
        stress + label.replace(stress, ""),
        first.start_s,
        last.end_s,
        min(phone.confidence for phone in phones),
        first.start_sd_ms,
        last.end_sd_ms,
    )


def sentence_rows(
    alignment: Alignment, rows: Sequence[TimedLabel], owners: Sequence[str]
) -> list[tuple[TimedLabel, str]]:
    """Return the sentences and their owners.

    A sentence begins and ends with the rows of its words.
    """
    by_word = {
        id(word): (row, owner) for word, row, owner in zip(words_by_time(alignment), rows, owners)
    }
    found = []
    for sentence in sentences(alignment):
        (first, owner), (last, _) = (
            by_word[id(word)] for word in (sentence.timed[0], sentence.timed[-1])
        )
        found.append((TimedLabel(first.start, last.end, sentence.text), owner))
    return found


def turn_rows(alignment: Alignment, kind: str, rows: Sequence[TimedLabel]) -> list[TimedLabel]:
    """Return the turns of a kind of `TURNS`.

    Each goes from the first to the last word with the same name, before one with another.

    `rows` are those of the words by time.
    """
    names = TURNS[kind](alignment, words_by_time(alignment))
    turns = []
    for name, group in groupby(zip(names, rows), key=lambda pair: pair[0]):
        turn = [row for _, row in group]
        if name:
            turns.append(TimedLabel(turn[0].start, turn[-1].end, name))
    return turns


def _language_names(alignment: Alignment, words: Sequence[AlignedWord]) -> list[str]:
    """Return the language of each word, of unmarked words that of the settings."""
    language = split_languages(str(alignment.config.get("language") or ""))[0]
    return [word.language or language for word in words]


TURNS: dict[str, Callable[[Alignment, Sequence[AlignedWord]], list[str]]] = {
    SPEAKERS: lambda _, words: speaker_names(words),
    LANGUAGES: _language_names,
}
"""The tiers whose rows are runs of words: the names of the words by time."""


def unused_names(names: Iterable[str], used: Iterable[str]) -> list[str]:
    """Return the names, with a number added to each name that is already taken.

    >>> unused_names(["Ann - words", "Ann - phones"], ["Ann", "Ann - words"])
    ['Ann - words 2', 'Ann - phones']
    """
    taken = set(used)
    found = []
    for name in names:
        number = 1
        free = name
        while free in taken:
            number += 1
            free = f"{name} {number}"
        taken.add(free)
        found.append(free)
    return found
