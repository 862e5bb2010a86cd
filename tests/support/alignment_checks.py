"""What is promised of every alignment."""

from __future__ import annotations

import math

from ctc_align.formats import Alignment


def check(alignment: Alignment) -> None:
    """What is promised of every alignment."""
    words = [word for word in alignment.words if word.status == "aligned"]
    tokens = [token for word in words for token in word.tokens]
    for spans in (words, tokens):
        edges = [edge for span in spans for edge in (span.start_s, span.end_s)]
        assert all(isinstance(edge, float) for edge in edges)
        assert all(span.start_s < span.end_s for span in spans), edges
        assert edges == sorted(edges)
        assert edges[0] >= 0.0
        assert edges[-1] <= alignment.duration_s
        assert all(0.0 <= span.confidence <= 1.0 for span in spans)
    for word in words:
        assert (word.start_s, word.end_s) == (word.tokens[0].start_s, word.tokens[-1].end_s)
        assert "|" not in [token.token for token in word.tokens]
    for word in alignment.words:
        assert alignment.text[word.char_start : word.char_end] == word.text
        if word.status != "aligned":
            assert (word.start_s, word.end_s, word.confidence, word.tokens) == (None, None, None, ())
    assert [word.text for word in alignment.words] == alignment.text.split()
    assert math.isfinite(alignment.loss)
    assert -alignment.score >= alignment.loss
