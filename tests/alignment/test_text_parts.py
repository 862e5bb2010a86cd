"""The part of a text that a recording reads, cut out of the alignment of all of it."""

from __future__ import annotations

from dataclasses import replace

from ctc_align.alignment.text_parts import part_of_text
from ctc_align.files import Alignment, read_alignment
from ctc_align.models.confidence_network import FitLimits
from ctc_align.types import AlignedToken, AlignedWord, BookPlace, Region, SourceCue, Subtitles

TEXT = "One two.\n\nANNA: three four — five\n\nsix"
STATUSES = ("skipped", "skipped", "unspoken", "aligned", "skipped", "unspoken", "aligned", "skipped")


TOKEN = AlignedToken("a", 0.0, 0.1, 0.01)


def whole() -> Alignment:
    words, at = [], 0
    for number, (text, status) in enumerate(zip(TEXT.split(), STATUSES, strict=True)):
        at = TEXT.index(text, at)
        times = (float(number), number + 0.5, 0.9) if status == "aligned" else ()
        words.append(AlignedWord(text, text, at, at + len(text), status, *times))
        at += len(text)
    return Alignment("u", "u.wav", 9.0, "m", "cpu", 0.01, 1.0, -1.0, TEXT, tuple(words))


def test_the_part_reaches_from_the_first_word_found_to_the_last_and_json_says_where(tmp_path):
    part = part_of_text(whole())
    assert (part.text, part.text_offset) == ("ANNA: three four — five", 10)
    assert [part.text[word.char_start : word.char_end] for word in part.words] == part.text.split()
    assert (part.skipped, part.spoken) == (1, 3)
    assert TEXT[part.text_offset :].startswith(part.text)
    part = part_of_text(whole())
    part.save(tmp_path / "u.json")
    assert read_alignment(tmp_path / "u.json").text_offset == 10
    assert '"text_offset": 10' in (tmp_path / "u.json").read_text("utf-8")
    assert "text_offset" not in whole().to_dict()


def test_regions_places_and_cues_are_those_of_the_part():
    regions = (
        Region("not_spoken", None, None, 0, 8, "words 1–2 are not in the recording"),
        Region("misfit", 3.0, 5.0, 16, 26, "words 4–5 do not fit the recording"),
        Region("not_spoken", None, None, 22, len(TEXT), "words 5–8 are not in the recording"),
        Region("unexplained", 7.0, 8.0, None, None, "speech"),
    )
    places = (BookPlace(0, 8, "a.xhtml"), BookPlace(10, 33, "a.xhtml", "p2"))
    cues = (SourceCue(0, 8, 0.0, 1.0, "1"), SourceCue(10, 33, 1.0, 2.0, "2"), SourceCue(35, 38, 2.0, 3.0, "3"))
    part = part_of_text(replace(whole(), regions=regions, places=places, subtitles=Subtitles("srt", cues=cues)))
    assert part.regions == (
        Region("misfit", 3.0, 5.0, 6, 16, "words 2–3 do not fit the recording"),
        Region("not_spoken", None, None, 12, 23, "words 3–6 are not in the recording"),
        regions[3],
    )
    assert part.places == (BookPlace(0, 23, "a.xhtml", "p2"),)
    assert [(cue.name, cue.char_start, cue.char_end) for cue in part.subtitles.cues] == [("2", 0, 23)]


def test_a_few_words_far_away_are_told_and_left_out():
    """Six words of a title page, 20,000 words before the chapter; a page skipped within the chapter stays in it."""
    words, at = [], 0
    for number, count, status in ((0, 6, "aligned"), (6, 20_000, "skipped"), (7, 500, "aligned"), (600, 300, "skipped"),
                                  (700, 400, "aligned"), (0, 9_000, "skipped")):  # fmt: skip
        for i in range(count):
            times = (number + i * 0.5, number + i * 0.5 + 0.4, 0.9) if status == "aligned" else ()
            words.append(AlignedWord("w", "w", at, at + 1, status, *times))
            at += 2
    book = replace(
        whole(), text="w " * len(words), words=tuple(words), duration_s=1000.0, unexplained=((900.0, 901.0),)
    )
    part = part_of_text(book)
    assert (len(part.words), part.skipped, part.text_offset) == (1200, 300, 2 * 20_006)
    assert part.unexplained == ((0.0, 2.9), (900.0, 901.0))
    assert part.regions[0].reason.endswith("far from the part of the text that is read: w w w w w …")


def test_words_that_are_unlikely_where_they_were_put_carry_no_weight():
    """As the words of an introduction are, that were found by chance a hundred words after the chapter."""
    chances = [("aligned", 0.99)] * 200 + [("skipped", None)] * 100 + [("aligned", c) for c in [0.7, 0.1] * 9]
    words = tuple(
        AlignedWord("w", "w", 2 * i, 2 * i + 1, status, *(() if c is None else (i * 0.5, i * 0.5 + 0.4, c)))
        for i, (status, c) in enumerate(chances)
    )
    part = part_of_text(replace(whole(), text="w " * len(words), words=words, duration_s=1000.0))
    assert (len(part.words), part.skipped) == (200, 0)
    assert part.unexplained == ((150.0, 158.9),)


def test_where_nothing_is_found_all_of_it_stays():
    words = tuple(replace(word, status="skipped", start_s=None, end_s=None, confidence=None) for word in whole().words)
    nothing = replace(whole(), words=words)
    assert part_of_text(nothing) == nothing


def test_the_fit_is_that_of_the_part():
    limits = FitLimits(good_loss=2.0, doubtful_loss=3.0, good_share=0.6, doubtful_share=0.4, none_share=0.1)
    poor = replace(whole(), fit="poor", loss_per_token=1.0)
    assert (part_of_text(poor, limits).fit, part_of_text(poor).fit) == ("good", "poor")
    unsure = tuple(replace(w, confidence=w.confidence and 0.01, tokens=(TOKEN,) * 6) for w in poor.words)
    nothing = part_of_text(replace(poor, words=unsure, loss_per_token=5.0), limits)
    assert (nothing.fit, nothing.text_offset, nothing.spoken, nothing.skipped) == ("none", None, 6, 6)
    assert [region.kind for region in nothing.regions] == ["misfit"]
