"""A run over a made-up corpus, without audio models: what the engine does with a layout, in its order."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace
from pathlib import Path

from sample_alignments import aligned, make_alignment

from ctc_align.corpus.outputs.assembly import Assembly
from ctc_align.corpus.outputs.layout import Layout, OutputSettings, layout_for
from ctc_align.corpus.outputs.manifests import write_manifests
from ctc_align.corpus.utterance import Utterance
from ctc_align.files import Alignment

WORDS = ("One,", "two", "“three”", "four.", "פה!")


def made_utterances(audio: Path, count: int = 11, per_recording: int = 4) -> list[Utterance]:
    """Utterances of half a second each, of recordings with two speakers in turn."""
    return [
        Utterance(
            id=f"r{i // per_recording}/u{i}",
            output=f"r{i // per_recording}/u{i}",
            audio=str(audio),
            text=" ".join(WORDS[: 1 + i % len(WORDS)]),
            origin=f"line {i + 1}",
            offset_s=0.5 * (i % per_recording),
            duration_s=0.5,
            recording=f"r{i // per_recording}",
            speaker="AB"[i % 2],
        )
        for i in range(count)
    ]


def made_alignment(utterance: Utterance, seed: int = 0) -> Alignment:
    """The utterance's words, 80 ms each, 10 ms apart; `seed` moves them by some milliseconds."""
    words, place = [], 0
    for i, text in enumerate(utterance.text.split()):
        start_s = 0.01 + 0.09 * i + 0.001 * seed
        words.append(aligned(text, start_s, start_s + 0.08, place, "ab"))
        place += len(text) + 1
    changes = {"utterance": utterance.id, "audio": utterance.audio, "offset_s": utterance.offset_s}
    return make_alignment(tuple(words), 0.5, text=utterance.text, token_kind="phones", **changes)


def run(
    settings: OutputSettings,
    utterances: Sequence[Utterance],
    *,
    failing: Collection[str] = (),
    again: Collection[str] = (),
    seed: int = 0,
    window: int = 3,
) -> list[str]:
    """Run or resume; returns the ids that were computed. The journal is a file of lines "id outcome".

    Args:
        failing: ids that fail now; again: ids that are computed although the journal calls them done.
    """
    layout = layout_for(settings)
    Path(settings.out_dir).mkdir(parents=True, exist_ok=True)
    journal = Path(settings.out_dir, "journal.txt")
    known = dict(line.split() for line in journal.read_text().splitlines()) if journal.exists() else {}
    computed: list[str] = []
    with Assembly(layout) as assembly:
        for first in range(0, len(utterances), window):
            items = list(enumerate(utterances))[first : first + window]
            todo = []
            for index, utterance in items:
                outcome = known.get(utterance.id)
                if utterance.id in again or (outcome == "done" and not assembly.present(index, utterance)):
                    outcome = None
                assembly.announce(index, utterance, None if outcome is None else outcome == "done")
                if outcome is None:
                    todo.append((index, utterance))
            # batches do not have the source's order
            _batch(layout, assembly, todo[::-1], journal, failing, seed)
            computed += [utterance.id for _, utterance in todo]
        assembly.finish()
    outcomes = dict(line.split() for line in journal.read_text().splitlines())
    done = ((i, utterance) for i, utterance in enumerate(utterances) if outcomes[utterance.id] == "done")
    write_manifests(layout, done)
    return computed


def _batch(
    layout: Layout,
    assembly: Assembly,
    todo: Sequence[tuple[int, Utterance]],
    journal: Path,
    failing: Collection[str],
    seed: int,
) -> None:
    good = [(index, utterance) for index, utterance in todo if utterance.id not in failing]
    rows = [(u.id, layout.place(i, u, made_alignment(u, seed)).pending) for i, u in good]
    assembly.store_pending(rows)
    with open(journal, "a", encoding="utf-8") as file:
        for _, utterance in todo:
            file.write(f"{utterance.id} {'failed' if utterance.id in failing else 'done'}\n")
    for index, utterance in todo:
        assembly.settle(index, utterance.id not in failing)


def contents(folder: Path) -> dict[str, bytes]:
    """Every file of an output folder but the journal, which has the order of the batches."""
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_file() and path.name != "journal.txt" and ".ctc-align-parts" not in path.parts
    }


def settings_of(out_dir: Path, layout: str, **changes: object) -> OutputSettings:
    """Settings of outputs, and the folder for unfinished ones, which a run makes."""
    parts = str(out_dir / ".ctc-align-parts")
    Path(parts).mkdir(parents=True, exist_ok=True)
    settings = OutputSettings(str(out_dir), layout, shard_size=4, manifests=("nemo", "lhotse"), parts=parts)
    return replace(settings, **changes)  # type: ignore[arg-type]
