"""The page of a report: one HTML file without a network, of which all but the sorting of a table needs no script."""

from __future__ import annotations

import base64
import hashlib
import html
import os
import shlex
from collections.abc import Iterable, Sequence
from pathlib import Path
from urllib.parse import quote

from ctc_align._version import __version__
from ctc_align.corpus.report.charts import histogram_chart, share_bar
from ctc_align.corpus.report.run_figures import (
    MOST_SPEAKERS,
    MOST_WORST,
    PAUSE_S,
    NamedUtterance,
    RunFigures,
    failed_reasons,
    page_beside,
)
from ctc_align.corpus.state.shared_texts import gap_place, gap_words
from ctc_align.corpus.state.summary import Summary
from ctc_align.text.control_characters import printable
from ctc_align.units import clock

MARK = "<!doctype html>\n<!-- ctc-align report -->\n"
"""The beginning of every report, by which one is known."""
_MOST_SPEAKERS_SHOWN = 50
_SCRIPT = """
for (const head of document.querySelectorAll("table.sortable th")) {
  const sort = () => {
    const body = head.closest("table").tBodies[0], place = head.cellIndex;
    const down = head.getAttribute("aria-sort") !== "descending";
    for (const other of head.parentNode.cells) other.removeAttribute("aria-sort");
    head.setAttribute("aria-sort", down ? "descending" : "ascending");
    const value = (row) => row.cells[place].dataset.value ?? row.cells[place].textContent;
    const rows = [...body.rows].sort((a, b) => {
      const x = value(a), y = value(b), z = Number(x) - Number(y);
      return (x === "") - (y === "") || (Number.isNaN(z) ? x.localeCompare(y) : z) * (down ? -1 : 1);
    });
    body.append(...rows);
  };
  head.tabIndex = 0;
  head.addEventListener("click", sort);
  head.addEventListener("keydown", (event) => { if (event.key === "Enter") sort(); });
}
"""
_STYLE = """
:root { color-scheme: light dark; --ink: #20242a; --paper: #fff; --faint: #68717c; --line: #d5dae0; --bar: #3a74b8;
  --good: #4f9a61; --doubtful: #d9a520; --poor: #d9662b; --none: #b3273f; --alarm: #fdecea; }
@media (prefers-color-scheme: dark) { :root { --ink: #e4e7eb; --paper: #15181c; --faint: #98a2ae; --line: #343a42;
  --bar: #6ea3e0; --good: #6dbb80; --doubtful: #e5bb4f; --poor: #ec8a55; --none: #ea6b7f; --alarm: #43201f; } }
body { font: 15px/1.5 system-ui, sans-serif; color: var(--ink); background: var(--paper); margin: 0 auto;
  max-width: 72rem; padding: 1rem 1.2rem 4rem; }
h1 { font-size: 1.5rem; margin: .5rem 0 0; overflow-wrap: anywhere; } h2 { font-size: 1.15rem; margin: 2.2rem 0 .6rem; }
small, .none, caption { color: var(--faint); } a { color: var(--bar); }
.notes { background: var(--alarm); padding: .6rem 1rem; border-radius: .4rem; }
.tiles { display: grid; grid-template-columns: repeat(auto-fill, minmax(10rem, 1fr)); gap: .7rem; padding: 0; }
.tiles div { border: 1px solid var(--line); border-radius: .4rem; padding: .5rem .8rem; }
.tiles dt { color: var(--faint); font-size: .85rem; } .tiles dd { margin: 0; font-size: 1.25rem; }
.charts { display: grid; grid-template-columns: repeat(auto-fill, minmax(20rem, 1fr)); gap: 1rem 1.5rem; }
figure { margin: 0; } figcaption { font-weight: 600; } figcaption small { font-weight: 400; }
figure svg { width: 100%; height: auto; } figure.wide svg { height: 18px; border-radius: .3rem; }
svg text { fill: var(--faint); font-size: 11px; } svg rect { fill: var(--bar); } svg .axis { stroke: var(--line); }
svg .median { stroke: var(--ink); stroke-dasharray: 3 3; }
.good { fill: var(--good); background: var(--good); } .doubtful { fill: var(--doubtful); background: var(--doubtful); }
.poor { fill: var(--poor); background: var(--poor); } rect.none, .key.none { fill: var(--none);
  background: var(--none); }
.key { display: inline-block; width: .8em; height: .8em; margin-right: .35em; border-radius: .15em; }
.scroll { overflow-x: auto; } table { border-collapse: collapse; width: 100%; font-variant-numeric: tabular-nums; }
th, td { text-align: left; padding: .25rem .7rem .25rem 0; border-bottom: 1px solid var(--line); vertical-align: top;
  overflow-wrap: anywhere; } td.number, th.number { text-align: right; white-space: nowrap; overflow-wrap: normal; }
.sortable th { cursor: pointer; } th[aria-sort=descending]::after { content: " ↓"; }
th[aria-sort=ascending]::after { content: " ↑"; } code { overflow-wrap: anywhere; }
"""


def report_page(figures: RunFigures, out_dir: Path, folder: Path) -> str:
    """Return the report of a run in `out_dir` as HTML, to be written into `folder`: links are relative to it.

    Nothing of the corpus (names, reasons, speakers) can become markup, script, or a link to elsewhere.
    """
    summary = figures.summary
    digest = base64.b64encode(hashlib.sha256(_SCRIPT.encode()).digest()).decode()
    policy = f"default-src 'none'; style-src 'unsafe-inline'; script-src 'sha256-{digest}'; base-uri 'none'"
    title = f"Corpus run: {out_dir.resolve().name}"
    sections = [
        _overview(figures),
        _fits(summary),
        _failures(figures),
        _gaps(summary),
        _overlaps(summary),
        _worst(figures, out_dir, folder),
        _distributions(figures),
        _speakers(figures),
    ]
    return (
        f'{MARK}<html lang="en"><head><meta charset="utf-8"><title>{_text(title)}</title>'
        f'<meta http-equiv="Content-Security-Policy" content="{html.escape(policy)}">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        '<meta name="referrer" content="no-referrer">'
        f"<style>{_STYLE}</style></head><body><header><h1>{_text(title)}</h1>"
        f"<p><small>{_text(summary.source)} · ctc-align {_text(__version__)}</small></p>{_notes(figures)}</header>"
        f"<main>{''.join(sections)}</main><script>{_SCRIPT}</script></body></html>\n"
    )


def _text(value: object) -> str:
    """Return a text for HTML, with what would change the direction of text, or is no character, as escapes."""
    return html.escape(printable(str(value)).encode("utf-8", "backslashreplace").decode("utf-8"))


def _notes(figures: RunFigures) -> str:
    """Return what is missing for a whole run, and what could not be read."""
    notes = [] if figures.summary.complete else ["This run is not complete: the figures are of what is done so far."]
    notes += figures.notes
    if figures.unread:
        notes.append(f"{figures.unread:,} outputs could not be read, and are missing in the distributions:")
        notes += figures.faults
    lines = "".join(f"<li>{_text(note)}</li>" for note in notes)
    return f'<div class="notes" role="status"><ul>{lines}</ul></div>' if notes else ""


def _overview(figures: RunFigures) -> str:
    summary = figures.summary
    done = 100 * summary.done / max(summary.utterances, 1)
    tiles = {
        "utterances": f"{summary.utterances:,}",
        "done": f"{summary.done:,} ({done:.1f} %)",
        "failed": f"{summary.failed:,}",
        "audio": f"{summary.audio_hours:,.2f} h",
        "in words": f"{figures.speech_s / 3600:,.2f} h" if figures.read else "–",
        "words": f"{summary.words:,}",
        "not in the recordings": f"{summary.skipped_words:,} words",
        "speech not in the text": clock(round(summary.unexplained_s)),
        "in doubt (--min-confidence)": f"{summary.in_doubt:,}",
        "median loss per token": _figure(summary.loss_per_token.get("p50")),
    }
    cells = "".join(f"<div><dt>{_text(name)}</dt><dd>{_text(value)}</dd></div>" for name, value in tiles.items())
    return f'<section><h2>At a glance</h2><dl class="tiles">{cells}</dl></section>'


def _fits(summary: Summary) -> str:
    return f"<section><h2>How the transcripts fit</h2>{share_bar(summary.fit, 'fit')}</section>"


def _distributions(figures: RunFigures) -> str:
    kind, losses = figures.token_kind, figures.summary.loss_per_token
    charts = [
        histogram_chart(figures.loss_per_token, "Loss per token", "nats", losses.get("p50"), losses.get("mean")),
        histogram_chart(figures.confidence, "Confidence of words", "confidence"),
        histogram_chart(figures.words_per_s, "Speech rate of utterances", "words a second"),
        histogram_chart(figures.tokens_per_s, f"Speech rate in {kind}", f"{kind} a second"),
        histogram_chart(figures.pauses_s, f"Pauses of {PAUSE_S:g} s and more", "seconds"),
        histogram_chart(figures.durations_s, "Length of utterances", "seconds"),
    ]
    read = f"{figures.read:,} outputs were read; rates are from the first word to the last, pauses included."
    drawn = f'<div class="charts">{"".join(charts)}</div>'
    return f"<section><h2>Distributions</h2><p><small>{read}</small></p>{drawn}</section>"


def _failures(figures: RunFigures) -> str:
    if not figures.reasons:
        return "<section><h2>Failures</h2><p>None.</p></section>"
    rows = []
    for reason in failed_reasons(figures):
        more = reason.count - len(reason.ids)
        ids = ", ".join(_text(id) for id in reason.ids) + (f" and {more:,} more" if more else "")
        rows.append([_number(f"{reason.count:,}"), f"<td>{_text(reason.example)}</td>", f"<td>{ids}</td>"])
    head = ('<th class="number">how many</th>', "<th>reason (of the first)</th>", "<th>utterances</th>")
    return f"<section><h2>Failures</h2>{_table(head, rows)}</section>"


def _worst(figures: RunFigures, out_dir: Path, folder: Path) -> str:
    rows = [
        [
            f"<td>{_link(one, out_dir, folder)}</td>",
            _value(one.loss_per_token),
            _value(one.least_confidence),
            f"<td>{_text(one.fit or '–')}</td>",
            _value(100 * one.skipped_share, 1),
            _value(one.words, 0),
            _value(one.duration_s, 2),
        ]
        for one in figures.worst
    ]
    names = ("loss per token", "least confidence", "fit", "% not in the recording", "words", "seconds")
    head = ["<th>utterance</th>"]
    head += [f"<th{'' if name == 'fit' else ' class=number'}>{name}</th>" for name in names]
    target = shlex.quote(str(out_dir))
    hint = (
        f"The {MOST_WORST} with the greatest loss per token, the least confidence of a word, and the most words that "
        "are not in the recording. Names are links to their pages, or to their JSON, where there are such files; "
        f"<code>ctc-align view {_text(target)} --utterance NAME --out-dir {_text(target)}</code> makes a page with the "
        "sound, of runs with --layout shards, too. A click on a heading sorts."
    )
    return (
        f"<section><h2>Where to look first</h2><p><small>{hint}</small></p>{_table(head, rows, 'sortable')}</section>"
    )


def _link(one: NamedUtterance, out_dir: Path, folder: Path) -> str:
    name = page_beside(out_dir, one) or one.json
    if name is None or not os.path.isfile(out_dir / name):
        return _text(one.id)
    path = Path(os.path.relpath(out_dir.resolve() / name, folder.resolve())).as_posix()
    return f'<a href="./{quote(os.fsencode(path))}">{_text(one.id)}</a>'


def _speakers(figures: RunFigures) -> str:
    if not figures.speakers:
        of_words = (
            "No transcript names speakers in its text. Those that a source names for whole utterances are not here."
        )
        why = of_words if figures.read else "Not known: no JSON of an alignment was read."
        return f"<section><h2>Speakers</h2><p>{why}</p></section>"
    ranked = sorted(figures.speakers.items(), key=lambda named: (-named[1].seconds, named[0]))
    rows = [
        [
            f"<td>{_text(name)}</td>",
            _value(speaker.words, 0),
            _value(speaker.seconds, 1),
            _value(speaker.confidence / max(speaker.words, 1)),
        ]
        for name, speaker in ranked[:_MOST_SPEAKERS_SHOWN]
    ]
    more = len(ranked) - len(rows)
    left = "and more" if len(ranked) >= MOST_SPEAKERS else f"and {more:,} more" if more else ""
    number = ' class="number"'
    head = ("<th>speaker</th>", *(f"<th{number}>{name}</th>" for name in ("words", "seconds", "mean confidence")))
    return f"<section><h2>Speakers</h2>{_table(head, rows, 'sortable')}<p><small>{left}</small></p></section>"


def _gaps(summary: Summary) -> str:
    if not summary.text_gaps:
        return ""
    rows = [
        [
            f"<td>{_text(gap_words(gap))}</td>",
            f"<td>{_text(gap_place(gap))}</td>",
            _value(gap["words"], 0),
            f"<td>{_text(gap['text'])}</td>",
        ]
        for gap in summary.text_gaps
    ]
    head = ("<th>begins … ends</th>", "<th>where</th>", '<th class="number">words</th>', "<th>text</th>")
    return f"<section><h2>Parts of texts that nobody reads</h2>{_table(head, rows, 'sortable')}</section>"


def _overlaps(summary: Summary) -> str:
    if not summary.text_overlaps:
        return ""
    rows = [
        [
            f"<td>{_text(gap_words(one))}</td>",
            f"<td>{_text(', '.join(one['utterances']))}</td>",
            _value(one["words"], 0),
            f"<td>{_text(one['text'])}</td>",
        ]
        for one in summary.text_overlaps
    ]
    head = ("<th>begins … ends</th>", "<th>recordings</th>", '<th class="number">words</th>', "<th>text</th>")
    return f"<section><h2>Parts of texts that are read twice</h2>{_table(head, rows, 'sortable')}</section>"


def _table(head: Iterable[str], rows: Sequence[Sequence[str]], kind: str = "") -> str:
    body = "".join(f"<tr>{''.join(row)}</tr>" for row in rows)
    heads = f"<thead><tr>{''.join(head)}</tr></thead>"
    return f'<div class="scroll"><table class="{kind}">{heads}<tbody>{body}</tbody></table></div>'


def _value(value: float | None, digits: int = 3) -> str:
    """Return the cell of a number, "–" for none; what it is sorted by is exact."""
    if value is None:
        return '<td class="number" data-value="">–</td>'
    return f'<td class="number" data-value="{value}">{value:,.{digits}f}</td>'


def _number(text: str) -> str:
    return f'<td class="number">{text}</td>'


def _figure(value: float | None) -> str:
    return "–" if value is None else f"{value:.3f}"
