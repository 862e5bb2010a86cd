"""Small alignments with round times, and files of them."""

from __future__ import annotations

from pathlib import Path

from sample_alignments import placed

from ctc_align.types import AlignedToken, AlignedWord, Alignment

WORDS = (("one", 0.1, 0.4), ("two", 0.4, 0.75), ("three", 0.9, 1.3))
CTM = "".join(f"{{}} 1 {start} {end - start:.3f} {label} 0.9\n" for label, start, end in WORDS)


def alignment(utterance: str = "a", shift_s: float = 0.0, duration_s: float = 2.0) -> Alignment:
    """Return words of two tokens each, the first of 0.1 s."""
    words = []
    for label, start_s, end_s in WORDS:
        edges = (start_s + shift_s, start_s + 0.1 + shift_s, end_s + shift_s)
        tokens = (AlignedToken(label[0], *edges[:2], 0.9), AlignedToken("e", *edges[1:], 0.9))
        words.append(AlignedWord(label, label, 0, 1, "aligned", edges[0], edges[2], 0.9, tokens))
    return Alignment(
        utterance, "a.wav", duration_s, "m", "cpu", 0.01, 1.0, -1.0, "one two three", placed(words)
    )


def put(path: Path, text: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
    return path


def textgrid(path: Path, *tiers: tuple[str, tuple], end_s: float = 2.0) -> Path:
    """Tiers by name; one whose name begins with "." is a point tier."""
    rows = [
        'File type = "ooTextFile"',
        'Object class = "TextGrid"',
        "",
        "0",
        str(end_s),
        "<exists>",
        str(len(tiers)),
    ]
    for name, intervals in tiers:
        if name.startswith("."):
            rows += ['"TextTier"', f'"{name}"', "0", str(end_s), "1", "0.5", '"x"']
            continue
        rows += ['"IntervalTier"', f'"{name}"', "0", str(end_s), str(len(intervals))]
        for label, start, end in intervals:
            rows += [str(start), str(end), f'"{label}"']
    return put(path, "\n".join(rows) + "\n")
