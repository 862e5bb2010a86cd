"""Tables of what is written and what is spoken for it: one case a line, "|" between words."""

from __future__ import annotations


def rows(table: str) -> list[tuple[str, list[str]]]:
    lines = [line for line in table.strip().splitlines() if line and not line.startswith("# ")]
    pairs = [line.split("|", 1) for line in lines]
    return [
        (written.strip().encode("utf-8").decode("unicode_escape") if "\\u" in written else written.strip(), said)
        for written, rest in pairs
        for said in [[word.strip() for word in rest.split("|")]]
    ]
