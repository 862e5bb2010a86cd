"""The words of a corrected alignment, as they are said; its settings, and its recording."""

from __future__ import annotations

from dataclasses import replace
from os import PathLike

from ctc_align.audio.loading import load_segment
from ctc_align.config import Settings
from ctc_align.errors import AudioError, UsageError
from ctc_align.text import require_words, words_of
from ctc_align.text.sounds import phones_together
from ctc_align.types import UNSPOKEN, AlignedWord, AlignmentData, Audio, Transcript, Word, Words

LONGER_S = 0.1
"""A recording may differ from its alignment by so much: another copy, or a rounded length."""


def corrected_words(alignment: AlignmentData, settings: Settings, name: str) -> Words:
    """Return the words of an alignment, said as the text that it has now is said.

    They are parted as in the alignment, which a person may have done in another way than the text is split. What was
    found not to be spoken, of its `kind`, stays so.

    Raises:
        TranscriptError: nothing in it is spoken.
    """
    split = words_of(alignment.text, settings)
    by_span = {(word.char_start, word.char_end): word for word in split.words}
    words = tuple(_said(word, by_span.get((word.char_start, word.char_end)), settings) for word in alignment.words)
    found = Words(alignment.text, words, subtitles=alignment.subtitles, places=alignment.places)
    require_words(found, name)
    return found


def _said(word: AlignedWord, same: Word | None, settings: Settings) -> Word:
    """Return a word with what is pronounced: by the split of the whole text where that has the `same` word."""
    written = Word(word.text, "", word.char_start, word.char_end, kind=word.kind, speaker=word.speaker)
    if word.status == UNSPOKEN and word.kind:
        return written
    if same is None or (not same.spoken and word.status != UNSPOKEN):
        own = words_of(word.text, settings).words
        said = [one for one in own if one.spoken]
        roman = " ".join(one.roman or "" for one in said) if any(one.roman is not None for one in said) else None
        phones = phones_together(one.phones for one in said)
        spoken = " ".join(one.spoken for one in said)
        reading = " ".join(one.sounding for one in said) if any(one.reading is not None for one in said) else None
        return replace(written, spoken=spoken, roman=roman, phones=phones, reading=reading)
    return replace(written, spoken=same.spoken, roman=same.roman, phones=same.phones, reading=same.reading)


def recording_of(
    alignment: AlignmentData,
    path: str | PathLike[str],
    sample_rate: int,
    *,
    channel: int | None = None,
    on_disk: bool = False,
) -> Audio:
    """Read the recording of an alignment, or the part of it that was aligned.

    Raises:
        AudioError: as `ctc_align.audio.loading.load_segment`.
    """
    if not alignment.offset_s:
        audio = load_segment(path, sample_rate, channel=channel, on_disk=on_disk)
        if audio.duration_s <= alignment.duration_s + LONGER_S:
            return audio
    return load_segment(
        path,
        sample_rate,
        offset_s=alignment.offset_s,
        duration_s=alignment.duration_s,
        channel=channel,
        on_disk=on_disk,
    )


def text_of(alignment: AlignmentData) -> Transcript:
    """Return the transcript of an alignment, as if it were read from its file."""
    return Transcript(alignment.text, alignment.subtitles, alignment.places)


def path_of(alignment: AlignmentData) -> str:
    """Return the path of an alignment's recording; raise UsageError where it names none."""
    if not alignment.audio:
        raise UsageError(f"{alignment.utterance}: this alignment names no recording; give it (--audio, or `audio`)")
    return alignment.audio


def check_length(alignment: AlignmentData, duration_s: float, source: str) -> None:
    """Raise AudioError where a recording is not as long as that which was aligned."""
    if abs(duration_s - alignment.duration_s) > LONGER_S:
        raise AudioError(
            f"{source or alignment.utterance}: expected the recording that was aligned, {alignment.duration_s:.3f} s "
            f"long, got one of {duration_s:.3f} s; is it the same one?"
        )
