"""The folder of a trained model: its weights, their description, and a card that says how they were made."""

from __future__ import annotations

import json
import os
import shutil
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from math import isfinite
from pathlib import Path

import torch

from ctc_align._version import __version__
from ctc_align.errors import OutputError
from ctc_align.models.calibration import FILE as CALIBRATION
from ctc_align.models.catalogue import LEXICON
from ctc_align.models.confidence_network import FILE as CONFIDENCE
from ctc_align.models.convnet.convnet_model import ModelDescription, save_folder
from ctc_align.models.convnet.gaussian_mixtures import Mixtures
from ctc_align.models.convnet.network import NetworkShape
from ctc_align.models.edge_network import FILE as EDGES
from ctc_align.models.edge_network import EdgeNetwork, edge_network_bytes
from ctc_align.text.characters import json_escaped, printable, spreadsheet_cell
from ctc_align.text.lexicon import Lexicon
from ctc_align.training.acoustic_training import HeldOutLosses, Trained, Training
from ctc_align.training.adaptation_check import SegmentComparison
from ctc_align.training.corpus_data import Corpus, LeftOut
from ctc_align.training.inventory import Inventory
from ctc_align.training.run_folder import NAME

LEFT_OUT = "left-out.tsv"


@dataclass(frozen=True)
class LanguagePart:
    """The data in one language ("" where the corpus names none), and the losses on its held-out part."""

    language: str
    hours: float
    utterances: int
    dev: HeldOutLosses

    @property
    def row(self) -> str:
        """The row of the card's table."""
        loss = f"{self.dev.ctc:.3f}" if self.dev.utterances else "–"
        name = _escaped(self.language) or "not named"
        return f"| {name} | {self.hours:.2f} | {self.utterances} | {self.dev.utterances} | {loss} |"


@dataclass(frozen=True)
class Card:
    """The facts on a model's card."""

    name: str
    command: str
    source: str
    corpus: Corpus
    inventory: Inventory
    shape: NetworkShape
    training: Training
    trained: Trained
    seconds: float
    cpu_seconds: float
    base: str = ""
    """The model that was adapted; "" for a new one."""
    mixtures: int = 0
    """Gaussians of each state; 0 without mixtures."""
    more_epochs: int = 0
    """Epochs after the second segmentation."""
    edges: EdgeNetwork | None = None
    """The network that draws edges finely, if it has one."""

    start: str = ""
    """The model that it began with; "" for none."""
    by_language: tuple[LanguagePart, ...] = ()
    """The languages, where there are several."""

    comparison: SegmentComparison | None = None
    """An adapted model's segments beside its base's."""

    @property
    def dev(self) -> HeldOutLosses:
        """Losses on the held-out part."""
        return self.trained.dev

    def text(self) -> str:
        """Return the card in Markdown."""
        corpus, training = self.corpus, self.training
        weights = sum(weight.numel() for weight in self.trained.network.parameters())
        lines = [
            *self._front_matter(),
            f"# The model `{self.name}`",
            "",
            f"An acoustic model of ctc-align {__version__}, {self._made()}. To align with it:",
            "",
            "    ctc-align AUDIO TRANSCRIPT --model DIR",
            "",
            *self._settings(),
            "| | |",
            "|---|---|",
            f"| tokens | {self.inventory.tokens} {self._kind()}: {_escaped(' '.join(self.inventory.vocab[1:]))} |",
            "| output 1 | CTC log-probs over the blank and the tokens, every 10 ms |",
            f"| output 2 | scores of {self.shape.states} segmentation states, every 10 ms{self._mixed()} |",
            f"| network | {weights / 1e6:.2f} million weights |",
            f"| edges | {self._edges()} |",
            "",
            "## Data",
            "",
            "| | |",
            "|---|---|",
            f"| corpus | {_escaped(self.source)} |",
            f"| trained on | {len(corpus.train)} utterances, {60 * corpus.hours(corpus.train):.1f} min |",
            f"| held out | {len(corpus.dev)} utterances, {60 * corpus.hours(corpus.dev):.1f} min |",
            f"| speakers named | {corpus.speakers} |",
        ]
        for kind, number in Counter(pair.kind for pair in corpus.left_out).most_common():
            lines.append(f"| left out: {_escaped(kind)} | {number} |")
        lines += [
            "",
            "## Figures",
            "",
            f"On what was held out: CTC loss {self.dev.ctc:.3f} nats a token, cross-entropy {self.dev.frame:.3f} nats "
            f"a frame ({self.shape.states} states, labels of the training's own segmentation).",
        ]
        before = self.trained.before
        if before is not None:
            lines.append(f"Before: {before.ctc:.3f} and {before.frame:.3f}.")
        lines += self._comparison()
        lines += self._languages()
        if self.inventory.rare:
            rare = ", ".join(f"{letter} ({number})" for letter, number in list(self.inventory.rare.items())[:40])
            lines += ["", f"Letters that are too rare to learn: {_escaped(rare)}."]
        lines += [
            "",
            "## Recipe",
            "",
            f"    {self.command or 'ctc_align.training.pipeline.train'}",
            "",
            f"{training.epochs} epochs at most{self._refined()}, batches of {training.batch_s:g} s, learning rate "
            f"{training.learning_rate:g}, seed {training.seed}; torch {torch.__version__}; "
            f"{self.seconds / 60:.1f} minutes in the last call, {self.cpu_seconds / 60:.1f} minutes of CPU time.",
            "",
        ]
        return "\n".join(lines)

    def _front_matter(self) -> list[str]:
        """Return what hubs of models read: YAML, in which each text is written as JSON, a part of YAML."""
        dataset = {"type": "held-out", "name": f"held-out part of {self.source}"}
        losses = {"CTC loss, nats a token": self.dev.ctc, "cross-entropy, nats a frame": self.dev.frame}
        metrics = [
            {"type": "loss", "name": name, "value": round(value, 3)}
            for name, value in losses.items()
            if isfinite(value)
        ]
        result = {"task": {"type": "forced-alignment"}, "dataset": dataset, "metrics": metrics}
        languages = [part.language for part in self.by_language if part.language] or [self.inventory.language]
        fields = {
            "library_name": "ctc-align",
            "tags": ["forced-alignment", "ctc", "speech"],
            **({"language": languages} if any(languages) else {}),
            "model-index": [{"name": self.name, "results": [result]}],
        }
        return [
            "---",
            *(f"{name}: {json_escaped(json.dumps(value, ensure_ascii=False))}" for name, value in fields.items()),
            "---",
            "",
        ]

    def _made(self) -> str:
        begun = f"begun with the weights of {_escaped(self.start)}" if self.start else "trained from nothing"
        return "adapted from " + self.base if self.base else begun

    def _languages(self) -> list[str]:
        """Return the table of languages, where there are several."""
        head = "| language | hours | utterances | held out | its CTC loss, nats a token |"
        rows = [part.row for part in self.by_language]
        return ["", head, "|---|---|---|---|---|", *rows] if rows else []

    def _comparison(self) -> list[str]:
        """Return how words lie beside those of the base, in the same utterances."""
        if self.comparison is None:
            return []
        about = "Its words in the same utterances; a frame is loud past the middle between quiet and loud ones:"
        rows = [f"| {name} | {before} | {after} |" for name, before, after in self.comparison.rows()]
        return ["", about, "", "| | before | adapted |", "|---|---|---|", *rows]

    def _edges(self) -> str:
        """Return how edges are drawn."""
        if self.edges is None:
            return "medians over all segmentations"
        knows = "and knows their phones" if self.edges.shape.labels else "and is not told what the sounds are"
        return f"drawn finely by a network that learnt from English edges drawn by eye, {knows}"

    def _refined(self) -> str:
        return f" and {self.more_epochs} on a second segmentation" if self.more_epochs else ""

    def _mixed(self) -> str:
        return f", with {self.mixtures} Gaussians each" if self.mixtures else ""

    def _kind(self) -> str:
        return "letters" if self.inventory.units == "letters" else "phones"

    def _settings(self) -> list[str]:
        """Return the settings that the model's folder implies."""
        says = (
            [f"transcripts are read in `{self.inventory.language}` (`--language`)"] if self.inventory.language else []
        )
        says += [f"words are looked up in `{LEXICON}` (`--lexicon`)"] if self.inventory.units == "lexicon" else []
        return [f"Unless the call says otherwise, {' and '.join(says)}.", ""] if says else []


def lexicon_lines(lexicon: Lexicon) -> Sequence[str]:
    """Return the lines of a dictionary, for the folder of a model whose tokens are its phones."""
    return [f"{word}\t{' '.join(e.labels)}" for word, entries in lexicon.entries.items() for e in entries]


def write_model(
    folder: Path,
    description: ModelDescription,
    log_priors: torch.Tensor,
    card: Card,
    lexicon: Sequence[str] = (),
    mixtures: Mixtures | None = None,
) -> None:
    """Write all files of a model into `folder`; `model.toml`, which makes it a model, comes last.

    Raises:
        OutputError: the system refused.
    """
    part = folder / NAME / "model"
    try:
        shutil.rmtree(part, ignore_errors=True)
        save_folder(part, description, card.trained.network.cpu(), log_priors, torch.float16, mixtures)
        (part / "README.md").write_text(card.text(), "utf-8", newline="\n")
        if lexicon:
            (part / LEXICON).write_text("\n".join(lexicon) + "\n", "utf-8", newline="\n")
        if card.edges is not None:
            (part / EDGES).write_bytes(edge_network_bytes(card.edges))
        if card.corpus.left_out:
            (part / LEFT_OUT).write_text(_table(card.corpus.left_out), "utf-8", newline="\n")
        # files of an earlier model belong to other weights
        for name in ("model.toml", CALIBRATION, CONFIDENCE, EDGES, LEXICON, LEFT_OUT):
            (folder / name).unlink(missing_ok=True)
        for path in sorted(part.iterdir(), key=lambda path: path.name == "model.toml"):
            os.replace(path, folder / path.name)
    except OSError as error:
        raise OutputError(f"{error.filename or folder}: writing failed ({error.strerror})") from error


def _table(left_out: Sequence[LeftOut]) -> str:
    rows = [list(asdict(pair).values()) for pair in left_out]
    rows.insert(0, ["utterance", "origin", "reason", "met"])
    cells = ([spreadsheet_cell(printable(" ".join(str(cell).split()))) for cell in row] for row in rows)
    return "".join("\t".join(row) + "\n" for row in cells)


def _escaped(text: str) -> str:
    return text.replace("|", "\\|").encode("utf-8", "backslashreplace").decode("utf-8")
