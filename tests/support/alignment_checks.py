"""What is promised of every alignment."""

from __future__ import annotations

import math

from ctc_align.types import FITS, NONE, REGION_KINDS, Alignment


def check(alignment: Alignment) -> None:
    """What is promised of every alignment."""
    words = [word for word in alignment.words if word.status == "aligned"]
    tokens = [token for word in words for token in word.tokens]
    for spans in (words, tokens):
        edges = [edge for span in spans for edge in (span.start_s, span.end_s)]
        assert all(isinstance(edge, float) for edge in edges)
        assert all(span.start_s < span.end_s for span in spans), edges
        assert edges == sorted(edges)
        assert all(0.0 <= edge <= alignment.duration_s for edge in edges)
        assert all(0.0 <= span.confidence <= 1.0 for span in spans)
    for word in words:
        assert (word.start_s, word.end_s) == (word.tokens[0].start_s, word.tokens[-1].end_s)
        assert "|" not in [token.token for token in word.tokens]
    for word in alignment.words:
        assert alignment.text[word.char_start : word.char_end] == word.text
        if word.status != "aligned":
            assert (word.start_s, word.end_s, word.confidence, word.tokens) == (
                None,
                None,
                None,
                (),
            )
    assert [word.text for word in alignment.words] == alignment.text.split()
    assert math.isfinite(alignment.loss)
    assert -alignment.score >= alignment.loss
    assert alignment.fit in (*FITS, None)
    if alignment.fit == NONE:
        assert all(word.confidence < 0.1 for word in words), (
            "a text that is not there has no sure words"
        )
    check_regions(alignment)


def check_regions(alignment: Alignment) -> None:
    """Regions lie in the recording and in the text, by time as far as they have one."""
    starts = [region.start_s for region in alignment.regions if region.start_s is not None]
    assert starts == sorted(starts)
    for region in alignment.regions:
        assert region.kind in REGION_KINDS
        assert (region.start_s is None) == (region.end_s is None)
        assert (region.char_start is None) == (region.char_end is None)
        assert region.start_s is not None or region.char_start is not None, (
            "a region has a place in one of the two"
        )
        if region.start_s is not None:
            assert 0.0 <= region.start_s < region.end_s <= alignment.duration_s
        if region.char_start is not None:
            assert 0 <= region.char_start < region.char_end <= len(alignment.text)
