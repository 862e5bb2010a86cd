"""Let ELAN run ctc-align as a recognizer: parameters on stdin, tiers in files, results on stdout.

ELAN writes `<param name="source">PATH</param>` and others to stdin. A tier is an XML file with
`<span start="0.5" end="2.0"><v>text</v></span>`. The line `RESULT: DONE.` or `RESULT: FAILED.` is
the last one. The protocol is that of AVATecH's interface specification.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from pathlib import Path
from xml.etree import ElementTree
from xml.sax.saxutils import escape, quoteattr

Span = tuple[float, float, str]


def main() -> int:
    parameters = read_parameters(sys.stdin.buffer.read())
    print("PROGRESS: 0.1 aligning", flush=True)
    try:
        tiers = align(parameters)
        Path(parameters["output_tiers"]).write_text(to_xml(tiers), encoding="utf-8")
    except (KeyError, OSError, ValueError, ElementTree.ParseError) as error:
        print(f"ctc-align: {error}\nRESULT: FAILED.", flush=True)
        return 1
    print("RESULT: DONE.", flush=True)
    return 0


def read_parameters(data: bytes) -> dict[str, str]:
    """Return the values of ELAN's parameters by their names."""
    elements = ElementTree.fromstring(data).iter()
    return {
        each.attrib["name"]: (each.text or "").strip()
        for each in elements
        if each.tag.endswith("param") and "name" in each.attrib
    }


def read_spans(path: str) -> list[Span]:
    """Return the annotations of a tier: start and end in seconds, and the text."""
    spans = []
    for each in ElementTree.parse(path).iter():
        if each.tag.endswith("span"):
            text = " ".join("".join(each.itertext()).split())
            spans.append((float(each.attrib["start"]), float(each.attrib["end"]), text))
    return spans


def align(parameters: dict[str, str]) -> dict[str, list[Span]]:
    """Return the words and phones of the recording.

    Raises:
        ValueError: ctc-align reports an error.
    """
    spans = read_spans(parameters["text_tier"])
    track = "".join(f"{start:.6f}\t{end:.6f}\t{text}\n" for start, end, text in spans if text)
    with tempfile.TemporaryDirectory() as folder:
        labels = Path(folder, "labels.txt")
        labels.write_text(track, encoding="utf-8")
        command = [sys.executable, "-m", "ctc_align", "align", parameters["source"], str(labels)]
        if parameters.get("language"):
            command += ["--language", parameters["language"]]
        done = subprocess.run([*command, "--format", "json", "--stdout"], capture_output=True)
    messages = done.stderr.decode("utf-8", "replace").strip()
    if not done.stdout:
        raise ValueError(messages)
    print(messages, flush=True)
    words = [each for each in json.loads(done.stdout)["words"] if each["status"] == "aligned"]
    return {
        "words": [(each["start_s"], each["end_s"], each["text"]) for each in words],
        "phones": [
            (token["start_s"], token["end_s"], token["token"])
            for each in words
            for token in each["tokens"]
        ],
    }


def to_xml(tiers: dict[str, list[Span]]) -> str:
    """Return tiers as ELAN reads them from a recognizer."""
    lines = ['<?xml version="1.0" encoding="UTF-8"?>', "<TIERS>"]
    for name, spans in tiers.items():
        lines.append(f"<TIER columns={quoteattr(name)}>")
        lines += [
            f'<span start="{start:.3f}" end="{end:.3f}"><v>{escape(text)}</v></span>'
            for start, end, text in spans
        ]
        lines.append("</TIER>")
    return "\n".join([*lines, "</TIERS>", ""])


if __name__ == "__main__":
    sys.exit(main())
