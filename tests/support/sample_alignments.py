"""Alignments to write: one by hand, and random ones."""

from __future__ import annotations

import io
import math
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import replace

from hypothesis import strategies as st

from ctc_align.errors import OutputError
from ctc_align.files import FORMATS
from ctc_align.text import split
from ctc_align.types import AlignedToken, AlignedWord, Alignment

PICTURES = ("png", "svg")
"""Formats that are drawn, which takes long: what is drawn of hostile labels is tested with them."""


def write_all(alignment: Alignment) -> None:
    """Write the bytes of each format."""
    for name, format in FORMATS.items():
        for writer in format.writers if name not in PICTURES else ():
            with suppress(OutputError):  # what a format cannot hold: SMIL is of books alone
                writer().write_bytes(alignment, io.BytesIO())


def aligned(
    text: str, start_s: float, end_s: float, char_start: int = 0, tokens: str = ""
) -> AlignedWord:
    """A word whose `tokens` share its time evenly."""
    step = (end_s - start_s) / max(1, len(tokens))
    spans = tuple(
        AlignedToken(token, start_s + i * step, start_s + (i + 1) * step, 0.5)
        for i, token in enumerate(tokens)
    )
    return AlignedWord(
        text,
        text.casefold(),
        char_start,
        char_start + len(text),
        "aligned",
        start_s,
        end_s,
        0.75,
        spans,
    )


def placed(words: Iterable[AlignedWord]) -> tuple[AlignedWord, ...]:
    """Return words with their characters in a text that has them one after the other, with a space
    between them."""
    result, at = [], 0
    for word in words:
        result.append(replace(word, char_start=at, char_end=at + len(word.text)))
        at += len(word.text) + 1
    return tuple(result)


def make_alignment(
    words: tuple[AlignedWord, ...], duration_s: float = 1.0, **changes: object
) -> Alignment:
    fields: dict = {
        "utterance": "my talk",
        "audio": "sounds/my talk.wav",
        "duration_s": duration_s,
        "model": "english",
        "backend": "cpu",
        "frame_shift_s": 0.01,
        "loss": 12.345,
        "score": -13.002,
        "text": " ".join(word.text for word in words),
        "words": words,
        "loss_per_token": 0.617,
    }
    return Alignment(**{**fields, **changes})


def talk_alignment() -> Alignment:
    """Quotes, right-to-left letters, a word without time, neighbours that touch."""
    return make_alignment(
        (
            aligned("“Hello,”", 0.1, 0.4, 0, "hello"),
            AlignedWord("—", "", 9, 10, "unspoken"),
            aligned('12"', 0.4, 0.7, 11, "ab"),
            aligned("שלום!", 0.75, 1.0, 15, "שלום"),
        )
    )


CONVERSATION = "ANN: It is Dr. Brown. Is it? [coughs] BOB: Yes,\nyes it is!\n\nAnd so"


def conversation(*, names: bool = True) -> Alignment:
    """Words of 0.2 s and two phones, 0.1 s between them; "it" (the last one) is not in the
    recording."""
    words: list[AlignedWord] = []
    at_s, speaker, its = 0.1, "", 0
    for word in split(CONVERSATION).words:
        speaker = {"ANN:": "Ann", "BOB:": "Bob"}.get(word.text, speaker) if names else ""
        its += word.text == "it"
        if not word.spoken or (word.text == "it" and its == 1):
            status = "skipped" if word.spoken else "unspoken"
            words.append(
                AlignedWord(
                    word.text,
                    word.spoken,
                    word.char_start,
                    word.char_end,
                    status,
                    kind=word.kind,
                    speaker=speaker,
                )
            )
            continue
        made = aligned(word.text, round(at_s, 3), round(at_s + 0.2, 3), word.char_start, "ab")
        words.append(replace(made, speaker=speaker))
        at_s += 0.3
    return make_alignment(tuple(words), 5.0, text=CONVERSATION, token_kind="phones")


LABELS = [
    "a",
    "Hello,",
    "“quoted”",
    '6"',
    '""',
    "twenty-two",
    "שלום",
    "😀x",
    "日",
    "don't",
    "\\n",
    ";;x",
    "<eps>",
    "1",
]


@st.composite
def random_alignments(draw: st.DrawFn) -> Alignment:
    """Adjacent words, words of one frame, silences of one frame, words without time."""
    frame_shift_s = draw(st.sampled_from([0.01, 0.02, 0.0125, 512 / 22050, 1 / 3]))
    frame, offset, words = draw(st.integers(0, 3)), 0, []
    for _ in range(draw(st.integers(0, 8))):
        text = draw(st.sampled_from(LABELS))
        if draw(st.integers(0, 4)) == 0:
            status = draw(st.sampled_from(["unspoken", "unknown", "skipped"]))
            words.append(AlignedWord(text, "", offset, offset + len(text), status))
        else:
            length = draw(st.integers(1, 4))
            start_s, end_s = frame * frame_shift_s, (frame + length) * frame_shift_s
            words.append(aligned(text, start_s, end_s, offset, "xyzw"[:length]))
            frame += length + draw(st.sampled_from([0, 0, 1, 7]))
        offset += len(text) + 1
    duration_s = (frame + draw(st.integers(0, 2))) * frame_shift_s + 1e-4
    return make_alignment(
        tuple(words),
        duration_s,
        frame_shift_s=frame_shift_s,
        loss=draw(st.sampled_from([0.0, 3.25, math.inf])),
        offset_s=draw(st.sampled_from([0.0, 12.3456])),
        token_kind=draw(st.sampled_from(["tokens", "phones"])),
    )


@st.composite
def swapped_alignments(draw: st.DrawFn) -> Alignment:
    """Draw alignments whose text is cut in two places, and whose parts are put into another
    order."""
    alignment = draw(random_alignments())
    words = alignment.words
    first, last = sorted((draw(st.integers(0, len(words))), draw(st.integers(0, len(words)))))
    moved = placed((*words[last:], *words[first:last], *words[:first]))
    return replace(alignment, words=moved, text=" ".join(word.text for word in moved))
