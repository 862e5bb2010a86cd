"""The folder of a trained model.

It holds the weights, their description, and a card that says how they were made.
"""

from __future__ import annotations

import json
import os
import shutil
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
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
from ctc_align.models.edge_network import FILE as EDGES
from ctc_align.models.edge_network import EdgeNetwork, edge_network_bytes
from ctc_align.text.characters import json_escaped, printable, spreadsheet_cell
from ctc_align.text.lexicon import Lexicon
from ctc_align.training.acoustic_training import HeldOutLosses, Trained, Training
from ctc_align.training.adaptation_check import SegmentComparison
from ctc_align.training.corpus_data import Corpus, Inventory, LeftOut
from ctc_align.training.run_folder import NAME, TrainOptions

LEFT_OUT = "left-out.tsv"


@dataclass(frozen=True)
class ModelPackage:
    """A trained model, and the facts of its card.

    Attributes:
        description: its name, tokens, network and scoring.
        options: of the run that trained it.
        corpus, inventory, training, trained: the run's data, tokens, settings and result.
        log_priors: (K,) of the segmentation states.
        seconds, cpu_seconds: of the run's last call.
        lexicon: the dictionary given in the call, or that of the base.
        mixtures: of the states; None for a model without.
        edges: the network that draws edges finely; None for a model without.
        base: the name of the adapted model; "" for a new one.
        start: the model that the weights come from; "" for none.
        more_epochs: number of epochs after the second segmentation.
        by_language: losses on the held-out part of each language, if the corpus has several ("":
            unnamed ones).
        comparison: an adapted model's segments beside its base's.
    """

    description: ModelDescription
    options: TrainOptions
    corpus: Corpus
    inventory: Inventory
    training: Training
    trained: Trained
    log_priors: torch.Tensor
    seconds: float
    cpu_seconds: float
    lexicon: Lexicon | None = None
    mixtures: Mixtures | None = None
    edges: EdgeNetwork | None = None
    base: str = ""
    start: str = ""
    more_epochs: int = 0
    by_language: Mapping[str, HeldOutLosses] = field(default_factory=dict)
    comparison: SegmentComparison | None = None

    @property
    def folder(self) -> Path:
        """The model's folder."""
        return self.options.out_dir

    @property
    def dev(self) -> HeldOutLosses:
        """Losses on the held-out part."""
        return self.trained.dev

    def card(self) -> str:
        """Return the card in Markdown."""
        corpus = self.corpus
        training = self.training
        inventory = self.inventory
        shape = self.description.shape
        weights = sum(weight.numel() for weight in self.trained.network.parameters())
        kind = "phones"
        if inventory.units == "letters":
            kind = "letters"
        gaussians = ""
        if self.mixtures:
            gaussians = f", with {self.mixtures.weights.shape[1]} Gaussians each"
        more_epochs = ""
        if self.more_epochs:
            more_epochs = f" and {self.more_epochs} on a second segmentation"
        left_out = Counter(pair.kind for pair in corpus.left_out).most_common()
        lines = [
            *self._front_matter(),
            f"# The model `{self.description.name}`",
            "",
            f"An acoustic model of ctc-align {__version__}, {self._origin()}. To align with it:",
            "",
            "    ctc-align AUDIO TRANSCRIPT --model DIR",
            "",
            *self._implied_settings(),
            "| | |",
            "|---|---|",
            f"| tokens | {inventory.tokens} {kind}: {_escaped(' '.join(inventory.vocab[1:]))} |",
            "| output 1 | CTC log-probs over the blank and the tokens, every 10 ms |",
            f"| output 2 | scores of {shape.states} segmentation states, every 10 ms{gaussians} |",
            f"| network | {weights / 1e6:.2f} million weights |",
            f"| edges | {self._edges()} |",
            "",
            "## Data",
            "",
            "| | |",
            "|---|---|",
            f"| corpus | {_escaped(self.options.corpus)} |",
            (
                f"| trained on | {len(corpus.train)} utterances,"
                f" {60 * corpus.hours(corpus.train):.1f} min |"
            ),
            f"| held out | {len(corpus.dev)} utterances, {60 * corpus.hours(corpus.dev):.1f} min |",
            f"| speakers named | {corpus.speakers} |",
            *(f"| left out: {_escaped(reason)} | {number} |" for reason, number in left_out),
            "",
            "## Figures",
            "",
            *self._figures(),
            "",
            "## Recipe",
            "",
            f"    {self.options.command or 'ctc_align.training.pipeline.train'}",
            "",
            (
                f"{training.epochs} epochs at most{more_epochs}, batches of {training.batch_s:g} s,"
                f" learning rate {training.learning_rate:g}, seed {training.seed}; torch"
                f" {torch.__version__}; {self.seconds / 60:.1f} minutes in the last call,"
                f" {self.cpu_seconds / 60:.1f} minutes of CPU time."
            ),
            "",
        ]
        return "\n".join(lines)

    def _front_matter(self) -> list[str]:
        """Return the metadata that model hubs read.

        It is YAML, in which each string is written as JSON, a subset of YAML.
        """
        dataset = {"type": "held-out", "name": f"held-out part of {self.options.corpus}"}
        losses = {
            "CTC loss, nats per token": self.dev.ctc,
            "cross-entropy, nats per frame": self.dev.frame,
        }
        metrics = [
            {"type": "loss", "name": name, "value": round(value, 3)}
            for name, value in losses.items()
            if isfinite(value)
        ]
        result = {"task": {"type": "forced-alignment"}, "dataset": dataset, "metrics": metrics}
        languages = list(filter(None, self.by_language)) or [self.inventory.language]
        fields = {
            "library_name": "ctc-align",
            "tags": ["forced-alignment", "ctc", "speech"],
            **({"language": languages} if any(languages) else {}),
            "model-index": [{"name": self.description.name, "results": [result]}],
        }
        rows = (
            f"{name}: {json_escaped(json.dumps(value, ensure_ascii=False))}"
            for name, value in fields.items()
        )
        return ["---", *rows, "---", ""]

    def _origin(self) -> str:
        if self.base:
            return "adapted from " + self.base
        if self.start:
            return f"begun with the weights of {_escaped(self.start)}"
        return "trained from nothing"

    def _implied_settings(self) -> list[str]:
        """Return the settings that the model's folder implies."""
        inventory = self.inventory
        if inventory.language:
            implied = [f"transcripts are read in `{inventory.language}` (`--language`)"]
        else:
            implied = []
        implied += (
            [f"words are looked up in `{LEXICON}` (`--lexicon`)"]
            if inventory.units == "lexicon"
            else []
        )
        if implied:
            return [f"Unless the call says otherwise, {' and '.join(implied)}.", ""]
        return []

    def _edges(self) -> str:
        """Return how the model draws edges."""
        if self.edges is None:
            return "medians over all segmentations"
        knows = "and does not know their phones"
        if self.edges.shape.labels:
            knows = "and knows their phones"
        return f"drawn finely by a network that learnt from English edges drawn by eye, {knows}"

    def _figures(self) -> list[str]:
        """Return the figures of the model's card.

        They are losses on the held-out part, the segments of base and model, and tables for several
        languages.
        """
        states = self.description.shape.states
        lines = [
            f"On what was held out: CTC loss {self.dev.ctc:.3f} nats a token, cross-entropy"
            f" {self.dev.frame:.3f} nats a frame ({states} states, labels of the training's own"
            " segmentation)."
        ]
        if self.trained.before is not None:
            lines.append(
                f"Before: {self.trained.before.ctc:.3f} and {self.trained.before.frame:.3f}."
            )
        if self.comparison is not None:
            about = (
                "Its words in the same utterances; a frame is loud past the middle between quiet"
                " and loud ones:"
            )
            rows = [
                f"| {name} | {before} | {after} |" for name, before, after in self.comparison.rows()
            ]
            lines += ["", about, "", "| | before | adapted |", "|---|---|---|", *rows]
        if self.by_language:
            head = "| language | hours | utterances | held out | its CTC loss, nats per token |"
            lines += ["", head, "|---|---|---|---|---|", *map(self._language_row, self.by_language)]
        if self.inventory.rare:
            rare = ", ".join(
                f"{letter} ({number})" for letter, number in list(self.inventory.rare.items())[:40]
            )
            lines += ["", f"Letters that are too rare to learn: {_escaped(rare)}."]
        return lines

    def _language_row(self, language: str) -> str:
        """Return the row of a language in the card's table."""
        train = self.corpus.in_language(self.corpus.train, language)
        dev = self.by_language[language]
        loss = f"{dev.ctc:.3f}" if dev.utterances else "–"
        name = _escaped(language) or "not named"
        return (
            f"| {name} | {self.corpus.hours(train):.2f} | {len(train)} | {dev.utterances} |"
            f" {loss} |"
        )


def write_model(package: ModelPackage) -> None:
    """Write all files of a model into its folder; `model.toml`, which makes it a model, comes last.

    Raises:
        OutputError: the system refused to write them.
    """
    folder = package.folder
    left_out = package.corpus.left_out
    part = folder / NAME / "model"
    try:
        shutil.rmtree(part, ignore_errors=True)
        network = package.trained.network.cpu()
        save_folder(
            part, package.description, network, package.log_priors, torch.float16, package.mixtures
        )
        (part / "README.md").write_text(package.card(), "utf-8", newline="\n")
        if package.lexicon is not None and package.inventory.units == "lexicon":
            entries = [
                (word, entry)
                for word, several in package.lexicon.entries.items()
                for entry in several
            ]
            lines = [f"{word}\t{' '.join(entry.labels)}\n" for word, entry in entries]
            (part / LEXICON).write_text("".join(lines), "utf-8", newline="\n")
        if package.edges is not None:
            (part / EDGES).write_bytes(edge_network_bytes(package.edges))
        if left_out:
            (part / LEFT_OUT).write_text(_table(left_out), "utf-8", newline="\n")
        # files of an earlier model belong to other weights
        for name in ("model.toml", CALIBRATION, CONFIDENCE, EDGES, LEXICON, LEFT_OUT):
            (folder / name).unlink(missing_ok=True)
        for path in sorted(part.iterdir(), key=lambda path: path.name == "model.toml"):
            os.replace(path, folder / path.name)
    except OSError as error:
        raise OutputError(
            f"{error.filename or folder}: writing failed ({error.strerror})"
        ) from error


def _table(left_out: Sequence[LeftOut]) -> str:
    rows = [
        ["utterance", "origin", "reason", "met"],
        *(list(asdict(pair).values()) for pair in left_out),
    ]
    cells = (
        [spreadsheet_cell(printable(" ".join(str(cell).split()))) for cell in row] for row in rows
    )
    return "".join("\t".join(row) + "\n" for row in cells)


def _escaped(text: str) -> str:
    return text.replace("|", "\\|").encode("utf-8", "backslashreplace").decode("utf-8")
