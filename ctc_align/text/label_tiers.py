"""Documents of tiers (TextGrids, ELAN files) as transcripts: which tiers are the text, and their labels as cues.

The text are the tiers of sentences, one for each speaker, in the order of time. Tiers of words and phones, as aligners
add them, are not, and neither is one whose labels all have the times of another's (a translation).
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from ctc_align.errors import TranscriptError
from ctc_align.text.transcript import has_spaceless
from ctc_align.types import SourceCue, Subtitles, Transcript

_LEAST_WORDS = 2.0
"""Words of a label of sentences, on average, at least; two characters count as one in scripts without spaces."""
_ENDS = (".", "?", "!", "…", "。", "？", "！")
_SILENCE = re.compile(r"<?(?:sil|silence|sp|spn|p:|pause|eps)>?|[^\w<>()\[\]♪]*", re.IGNORECASE)
"""Labels of silence."""
_SEGMENTS = re.compile(
    r"(?:.*[\W_])?(?:words?|phones?|phonemes?|tokens?|syllables?|syll|letters?|segments?|mau|(?:ort|kan)-mau)(?: \d+)?",
    re.IGNORECASE | re.DOTALL,
)
"""Names of tiers of single words or sounds: `words`, `Ann - phones`, `Ann - words 2`."""
_WORDS = re.compile(r"(?:^|\s-\s|[\W_])words?(?: \d+)?\s*$", re.IGNORECASE)
_NO_NAMES = re.compile(
    r"(?:text|transcri\w*|sentences?|utterances?|utt|phrases?|default|speech|orthograph\w*|ort|tier\W?\d*|\W*)",
    re.IGNORECASE,
)
"""Names of tiers that name no speaker."""


@dataclass(frozen=True)
class LabelTier:
    """A tier: its name, who speaks in it ("" where nothing says), and (start_s, end_s, label) of what is labelled."""

    name: str
    speaker: str
    labels: tuple[tuple[float, float, str], ...]

    @property
    def letters(self) -> int:
        """The number of letters of all labels."""
        return sum(character.isalpha() for _, _, label in self.labels for character in label)


def speaker_of(name: str) -> str:
    """Return the speaker that a tier is named after, "" where its name says what is in it.

    >>> speaker_of("Ann"), speaker_of("sentences"), speaker_of("Ann - words")
    ('Ann', '', 'Ann')
    """
    name = _WORDS.sub("", name)
    return "" if _NO_NAMES.fullmatch(name.strip()) else " ".join(name.split())


def is_silence(label: str) -> bool:
    """Return whether a label says that nothing is spoken.

    >>> is_silence("<sil>"), is_silence(" "), is_silence("[noise]"), is_silence("So.")
    (True, True, False, False)
    """
    return _SILENCE.fullmatch(label.strip()) is not None


def tiers_transcript(tiers: Sequence[LabelTier], source: str, format: str, document: str) -> Transcript:
    """Return the labels of the tiers that are the text, by time, as a transcript with a cue for each.

    Args:
        tiers: of the document, those that others depend on first.
        source: the document's name, for messages.
        format: one of `ctc_align.types.CUE_FORMATS`.
        document: the whole file, which words are added to.

    Raises:
        TranscriptError: no label has letters.
    """
    chosen = sentence_tiers(tiers)
    if not chosen:
        names = ", ".join(tier.name for tier in tiers) or "none"
        raise TranscriptError(
            f"{source}: expected a tier with text between two times, one for each speaker; got tiers without any "
            f"({names}); write the sentences into one, or give their text as a text file"
        )
    rows = sorted(
        ((start_s, end_s, " ".join(label.split()), tier) for tier in chosen for start_s, end_s, label in tier.labels),
        key=lambda row: row[0],
    )
    cues, at = [], 0
    for start_s, end_s, label, tier in rows:
        start_s = max(start_s, 0.0)
        cue = SourceCue(at, at + len(label), start_s, max(end_s, start_s), name=tier.name, speaker=tier.speaker)
        cues.append(cue)
        at += len(label) + 1
    text = "\n".join(label for _, _, label, _ in rows)
    return Transcript(text, Subtitles(format, cues=tuple(cues), document=document))


def sentence_tiers(tiers: Sequence[LabelTier]) -> list[LabelTier]:
    """Return the tiers whose labels are sentences; without any that with most letters, else tiers of words.

    >>> tiers = [LabelTier(name, "", tuple((at, at + len(labels[0]), label) for at, label in enumerate(labels)))
    ...          for name, labels in (("Ann", ["So be it.", "We go."]), ("Ben", ["Yes.", "No."]), ("words", ["so"]))]
    >>> [tier.name for tier in sentence_tiers(tiers)]
    ['Ann', 'Ben']
    """
    labelled = [tier for tier in tiers if tier.letters]
    others = [tier for tier in labelled if not _SEGMENTS.fullmatch(tier.name.strip())]
    chosen: list[LabelTier] = []
    chosen_times: list[set[tuple[float, float]]] = []
    for tier in filter(_is_of_sentences, others):
        times = {(start_s, end_s) for start_s, end_s, _ in tier.labels}
        if not any(times <= before for before in chosen_times):
            chosen.append(tier)
            chosen_times.append(times)
    if chosen:
        return chosen
    if others:
        return [max(others, key=lambda tier: tier.letters)]
    return [tier for tier in labelled if _WORDS.search(tier.name)]


def _is_of_sentences(tier: LabelTier) -> bool:
    """Return whether labels have several words on average, or half of them end as sentences do."""
    count = len(tier.labels)
    words = sum(len(label) // 2 if has_spaceless(label) else len(label.split()) for _, _, label in tier.labels)
    ended = sum(label.rstrip("\"'”’») ").endswith(_ENDS) for _, _, label in tier.labels)
    return words >= _LEAST_WORDS * count or ended >= count / 2
