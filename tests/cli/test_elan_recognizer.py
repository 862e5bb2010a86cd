"""The recognizer for ELAN, called as ELAN's interface specification says; ELAN itself does not run
here."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from xml.etree import ElementTree
from xml.sax.saxutils import escape

import pytest

ROOT = Path(__file__).resolve().parents[2]
FOLDER = ROOT / "integrations" / "elan"


def call(tmp_path: Path, source: Path, language: str) -> list[str]:
    """Call the recognizer with a tier of two annotations, and return the lines of its output."""
    (tmp_path / "tier.xml").write_text(
        '<TIER columns="text"><span start="0.1" end="3"><v>Forced alignment finds where every word'
        ' begins</v></span><span start="3" end="7"><v>and ends, in twenty-two lines of text, or in'
        " 1999.</v></span></TIER>"
    )
    values = {
        "source": str(source),
        "text_tier": str(tmp_path / "tier.xml"),
        "output_tiers": str(tmp_path / "out.xml"),
        "language": language,
    }
    rows = "".join(
        f'<param name="{name}">{escape(value)}</param>' for name, value in values.items()
    )
    result = subprocess.run(
        [sys.executable, "recognizer.py"],
        cwd=FOLDER,
        input=f'<?xml version="1.0" encoding="UTF-8"?><PARAM>{rows}</PARAM>',
        capture_output=True,
        text=True,
    )
    return result.stdout.splitlines()


def test_it_writes_tiers_of_words_and_phones(tmp_path: Path) -> None:
    lines = call(tmp_path, ROOT / "ctc_align" / "demo" / "demo.flac", "en")
    assert lines[-1] == "RESULT: DONE."
    words, phones = ElementTree.parse(tmp_path / "out.xml").getroot()
    assert [words.attrib["columns"], phones.attrib["columns"]] == ["words", "phones"]
    assert ["".join(span.itertext()) for span in words][:3] == ["Forced", "alignment", "finds"]
    times = [float(span.attrib[name]) for span in words for name in ("start", "end")]
    assert times == sorted(times)
    assert len(phones) > len(words)


@pytest.mark.parametrize(("name", "language"), [("none.wav", "en"), ("demo.flac", "nothing")])
def test_an_error_of_ctc_align_is_reported(tmp_path: Path, name: str, language: str) -> None:
    lines = call(tmp_path, ROOT / "ctc_align" / "demo" / name, language)
    assert lines[-1] == "RESULT: FAILED."
    assert "ctc-align: error: " in lines[-2]
    assert not (tmp_path / "out.xml").exists()


def test_its_description_names_what_it_reads() -> None:
    tree = ElementTree.parse(FOLDER / "ctc-align.cmdi")
    kinds = ("input", "textparam", "output")
    names = {each.text for each in tree.iter() if each.tag.rpartition("}")[2] in kinds}
    assert names == {"source", "text_tier", "language", "output_tiers"}
