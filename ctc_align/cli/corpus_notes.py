"""Messages of a corpus run: failures, transcripts that fit badly, outputs that others changed, limits, exit codes."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from ctc_align.cli.messages import SOME_FAILED, THRESHOLD_NOT_MET, counted
from ctc_align.cli.printing import say
from ctc_align.types import NONE, POOR

if TYPE_CHECKING:
    from ctc_align.corpus.run import RunResult
    from ctc_align.corpus.state.summary import Effort, Summary

_NAMED = 1000
"""Failures that are named on stderr, one a line; the summary has more, the journal all."""
_MOST_IN_LINE = 5


def verification(result: RunResult) -> str:
    """Return what `--verify` found, for a message."""
    found = result.verified
    assert found is not None
    again = f", {'to be ' if result.interrupted else ''}done again" if found.damaged else ""
    unknown = f"; {found.unknown} by their presence only: their lines are of a version without checksums"
    return (
        f"{counted(found.checked, 'utterance', 'utterances')} checked: "
        f"{found.checked - found.damaged} whole, {found.damaged} not{again}{unknown if found.unknown else ''}"
    )


def changed_outputs(effort: Effort) -> Iterator[str]:
    """Yield what became of outputs that others have changed since a run wrote them."""
    for files, what in ((effort.left, "left as it is"), (effort.kept, "not replaced, but moved aside")):
        if files.count:
            names = ", ".join(files.names[:_MOST_IN_LINE]) + (", …" if files.count > _MOST_IN_LINE else "")
            changed = counted(files.count, "output was", "outputs were")
            yield f"{changed} changed by others since a run wrote it, and {what}: {names}"


def interruption(result: RunResult) -> str:
    of = "" if result.total is None else f" of {result.total}"
    return f"interrupted: {result.summary.done}{of} utterances are done; the same command goes on from there"


def name_failures(summary: Summary, journal: Path) -> None:
    """Print each failure with its reason to stderr, one on each line, even when quiet."""
    for failure in summary.failures[:_NAMED]:
        line = " ".join(f"{failure['utterance']}: {failure['reason']}".split())
        say(f"ctc-align: {line}")
    more = summary.failed - len(summary.failures[:_NAMED])
    if more > 0:
        say(f"ctc-align: and {more} more that failed: see {journal}")


def leave(summary: Summary) -> None:
    """Exit with 1 where something failed, else with 3 where a limit is not met; which one is said, even when quiet."""
    unmet = []
    if summary.too_many_skipped:
        which = _named(summary.most_skipped, summary.too_many_skipped)
        lack = counted(summary.too_many_skipped, "utterance lacks more of its", "utterances lack more of their")
        unmet.append(f"--max-skipped is passed: {lack} words ({which})")
    if summary.in_doubt:
        which = _named(summary.doubtful, summary.in_doubt)
        are = counted(summary.in_doubt, "utterance is", "utterances are")
        unmet.append(f"--min-confidence is not met: {are} in doubt ({which})")
    failed = f"; exit code 1 all the same: {summary.failed} failed" if summary.failed else ""
    for line in unmet:
        say(f"ctc-align: {line}{failed}")
    if summary.failed or unmet:
        raise typer.Exit(SOME_FAILED if summary.failed else THRESHOLD_NOT_MET)


def _named(ranked: list[dict[str, Any]], count: int) -> str:
    """Return the first of `count` utterances of a ranking, and how many more there are."""
    return _first([str(row["utterance"]) for row in ranked[: min(count, _MOST_IN_LINE)]], count)


def misfits(summary: Summary, *, has_json: bool = True, keeps_cues: bool = False) -> Iterator[str]:
    """Yield how many transcripts fit poorly or not at all, and which; and where words that are not there are named.

    Args:
        summary: of the run.
        has_json: whether the run writes JSON, which names such words.
        keeps_cues: whether cues of subtitles are kept, those that nobody says as well.
    """
    count = summary.fit.get(POOR, 0) + summary.fit.get(NONE, 0)
    if count:
        named = ", ".join(_misfit(row) for row in summary.misfits[:_MOST_IN_LINE])
        more = f" and {count - _MOST_IN_LINE} more" if count > _MOST_IN_LINE else ""
        fit = "transcript fits its recording" if count == 1 else "transcripts fit their recordings"
        yield f"{count} {fit} poorly or not at all: {named}{more}: are they of these recordings?"
        if summary.text_gaps and count == summary.done:
            yield "no recording reads the text well: it seems to be another book, or another edition of it"
    if not summary.skipped_words:
        return
    where = "ctc-align view shows them" if has_json else "a run with --format json has it"
    yield f'which words are not in the recordings: those of "status": "skipped" in the JSON of an utterance; {where}'
    if keeps_cues:
        yield (
            "subtitles: a cue of which no word is in its recording is kept, between its neighbours, at times that mean "
            "nothing; ctc-align RECORDING SUBTITLES tells its number, and --cues again leaves it out"
        )


def read_twice(summary: Summary) -> Iterator[str]:
    """Yield which recordings read the same passage of a text, and which few have one transcript, that fits not all."""
    from ctc_align.corpus.state.shared_texts import MOST_NAMED, gap_words

    for row in summary.text_overlaps[:_MOST_IN_LINE]:
        words = "" if row["words"] is None else f" ({counted(row['words'], 'word', 'words')}: {gap_words(row)})"
        one, other = row["utterances"]
        yield (
            f"{one} and {other} read the same passage{words}: a second take? Leave one of them out: ctc-align book "
            "takes no two recordings of one passage"
        )
    if len(summary.text_overlaps) > _MOST_IN_LINE:
        more = counted(len(summary.text_overlaps) - _MOST_IN_LINE, "more passage is", "more passages are")
        yield f"and {more} read twice: see text_overlaps in summary.json"
    doubtful = [row for row in summary.same_texts if row["misfits"] and row["count"] <= MOST_NAMED]
    for row in doubtful[:_MOST_IN_LINE]:
        yield (
            f"{_first(row['utterances'], row['count'])} have the same transcript ({row['words']} words), which does "
            f"not fit {_first(row['misfits'], row['misfit_count'])}: was it given to a wrong recording?"
        )
    if len(doubtful) > _MOST_IN_LINE:
        yield f"and {len(doubtful) - _MOST_IN_LINE} more transcripts of several recordings fit not all: see same_texts"


def _first(names: list[str], count: int) -> str:
    """Return the first of `count` names, and how many more there are."""
    shown = names[:_MOST_IN_LINE]
    return ", ".join(shown) + (f" and {count - len(shown)} more" if count > len(shown) else "")


def _misfit(row: dict[str, Any]) -> str:
    skipped = f", {row['skipped']} of {row['words']} words not in it" if row["skipped"] else ""
    return f"{row['utterance']} (fit {row['fit']}{skipped})"
