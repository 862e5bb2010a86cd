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
from ctc_align.reading import JsonObject
from ctc_align.text.characters import json_escaped, printable, spreadsheet_cell
from ctc_align.text.lexicon import Lexicon
from ctc_align.training.acoustic_training import HeldOutLosses, Trained, Training
from ctc_align.training.adaptation_check import SegmentComparison
from ctc_align.training.corpus_data import Corpus, Inventory, LeftOut
from ctc_align.training.run_folder import NAME, TrainOptions

LEFT_OUT = "left-out.tsv"
MOST_RARE = 40
"""Rare letters that a card names."""


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
        import jinja2

        environment = jinja2.Environment(
            loader=jinja2.FileSystemLoader(Path(__file__).parent),
            undefined=jinja2.StrictUndefined,
            trim_blocks=True,
            lstrip_blocks=True,
            keep_trailing_newline=True,
        )
        environment.filters |= {"cell": _escaped, "json": _json}
        left_out = Counter(pair.kind for pair in self.corpus.left_out)
        return environment.get_template("card.md.j2").render(
            model=self,
            metadata=self._metadata(),
            implied=self._implied_settings(),
            inventory=self.inventory,
            corpus=self.corpus,
            training=self.training,
            states=self.description.shape.states,
            weights=sum(weight.numel() for weight in self.trained.network.parameters()),
            left_out=left_out.most_common(),
            rare=list(self.inventory.rare.items())[:MOST_RARE],
            version=__version__,
            torch_version=torch.__version__,
        )

    def _metadata(self) -> JsonObject:
        """Return the metadata that model hubs read."""
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
        return {
            "library_name": "ctc-align",
            "tags": ["forced-alignment", "ctc", "speech"],
            **({"language": languages} if any(languages) else {}),
            "model-index": [{"name": self.description.name, "results": [result]}],
        }

    def _implied_settings(self) -> list[str]:
        """Return the settings that the model's folder implies."""
        implied = []
        if self.inventory.language:
            implied.append(f"transcripts are read in `{self.inventory.language}` (`--language`)")
        if self.inventory.units == "lexicon":
            implied.append(f"words are looked up in `{LEXICON}` (`--lexicon`)")
        return implied


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


def _json(value: object) -> str:
    """Return a value for YAML: JSON, which is a subset of it."""
    return json_escaped(json.dumps(value, ensure_ascii=False))
