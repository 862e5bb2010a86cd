"""ctc-align train: a new acoustic model; ctc-align adapt: a model adapted to a corpus."""

from __future__ import annotations

import math
import shlex
import sys
import time
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

import typer

from ctc_align.cli.options import (
    GENERAL,
    WORKERS,
    Group,
    MessageOptions,
    assignments_option,
    checked_language,
    device_option,
    encoding_option,
    folder_option,
    lexicon_option,
    source_option,
    with_examples,
    with_options,
)
from ctc_align.cli.printing import Interrupted, LineBar, Talk, put
from ctc_align.config import load_config, setting
from ctc_align.errors import UsageError
from ctc_align.extras import require_torch
from ctc_align.training import Watch

if TYPE_CHECKING:
    from ctc_align.training.adaptation import Adaptation
    from ctc_align.training.model_package import ModelPackage
    from ctc_align.training.recipe import Recipe
    from ctc_align.training.run_folder import TrainOptions

    RecipeLike = TypeVar("RecipeLike", Recipe, Adaptation)

Corpus = Annotated[
    str,
    typer.Argument(
        metavar="CORPUS",
        help="A manifest (JSONL, CSV, TSV, Lhotse cuts) or a folder (Kaldi, MFA, LibriSpeech).",
    ),
]
_LINE_EVERY_S = 15.0


@dataclass(frozen=True)
class LearningOptions(Group):
    """The corpora that a model learns from, the limits of training, and the folder of the model."""

    out_dir: str | None = folder_option("Folder of the new model. Required.")
    kind: str | None = source_option()
    encoding: str = encoding_option()
    dev: str | None = setting(
        None, "Corpus for the held-out loss.", metavar="CORPUS", shown="a part of CORPUS"
    )
    language: str | None = setting(
        None, "Language of the transcripts (de, pt-BR), if CORPUS names none.", metavar="CODE"
    )
    name: str | None = setting(None, "Name of the model.", metavar="NAME", shown="the name of DIR")
    epochs: int | None = setting(
        None,
        "Passes over the corpus.",
        metavar="N",
        within=(1, math.inf),
        shown="by the size of the corpus",
    )
    minutes: float | None = setting(
        None,
        "Maximum training time of the network, in minutes.",
        metavar="N",
        within=(0.01, math.inf),
    )
    force: bool = setting(
        False, "Replace the model in DIR, or an unfinished run with other settings."
    )
    keep: bool = setting(
        False, "Keep frames, labels and checkpoints (DIR/.training).", panel=WORKERS
    )
    device: str = device_option()
    seed: int | None = setting(
        None, "Seed of all random numbers.", metavar="N", within=(0, math.inf), panel=GENERAL
    )
    config: str | None = setting(
        None,
        "Training recipe; options on the command line override it.",
        metavar="NAME|FILE.toml",
        panel=GENERAL,
    )

    def ready(self, corpus: str, lexicon: str | None, messages: MessageOptions) -> Talk:
        """Check the arguments before heavy imports, and return the writer of messages."""
        from ctc_align.cli.arguments import check_files, check_source

        require_torch("training", "train")
        if not corpus:
            raise UsageError("CORPUS: expected a manifest or a folder, got an empty path")
        check_source(corpus, "CORPUS")
        if self.dev:
            check_source(self.dev, "--dev")
        if not self.out_dir:
            raise UsageError("--out-dir: give a folder for the new model")
        if self.dev == "":
            raise UsageError("--dev: expected a manifest or a folder, got an empty path")
        check_files({"--lexicon": lexicon})
        talk = messages.talk()
        talk.listen()
        return talk

    def recipe_values(self) -> dict[str, Any]:
        """Return the values of a recipe that the command line gives, None for all others."""
        return {"name": self.name, "language": self.language, "seed": self.seed}

    def limited(self, recipe: RecipeLike) -> RecipeLike:
        """Return a recipe with a known language, and the limits of the command line."""
        training = recipe.training
        if self.epochs is not None:
            training = replace(training, epochs=self.epochs)
        if self.minutes is not None:
            training = replace(training, minutes=self.minutes)
        return replace(recipe, language=checked_language(recipe.language), training=training)

    def run_options(self, corpus: str, lexicon: str | None) -> TrainOptions:
        """Return the options of a run: corpora, folder, and the command line for the card."""
        from ctc_align.models.acoustic_model import torch_device
        from ctc_align.training.run_folder import TrainOptions

        command = "ctc-align " + shlex.join(sys.argv[1:])
        folder = Path(self.out_dir or "")
        device = torch_device(self.device)
        return TrainOptions(
            corpus,
            folder,
            self.kind,
            self.dev,
            lexicon,
            device,
            command,
            encoding=self.encoding,
            force=self.force,
            keep=self.keep,
        )


@with_examples(
    "ctc-align train recordings --out-dir model",
    "ctc-align train corpus.jsonl --lexicon words.dict --epochs 20 --out-dir model",
    "ctc-align train corpus.jsonl --from universal --language mt --out-dir model",
)
@with_options
def train(
    corpus: Corpus,
    *,
    given: LearningOptions,
    start: str | None = setting(
        None,
        "Start from this model's weights.",
        option="--from",
        metavar="english|universal|DIR",
        shown="random weights",
    ),
    lexicon: str | None = lexicon_option(
        "Pronunciations in MFA dictionary format; their phones become the tokens.", shown=""
    ),
    assignments: list[str] | None = assignments_option(),
    messages: MessageOptions,
) -> None:
    """Train an acoustic model on a transcribed CORPUS.

    The corpus may be in any language, or in several; a manifest may name the language of each line.
    The tokens are the letters of the transcripts, with --lexicon the phones of the dictionary, and
    with --config universal the phones that all languages share. Utterances that do not fit their
    transcripts are left out and counted. To resume an interrupted run, give the same command again.
    Use the model with --model DIR; DIR/README.md describes it.
    """
    talk = given.ready(corpus, lexicon, messages)
    from ctc_align.training.pipeline import train as run
    from ctc_align.training.recipe import Recipe

    overrides = {**given.recipe_values(), "start": start}
    recipe = given.limited(load_config(Recipe, given.config, overrides, assignments))
    options = given.run_options(corpus, lexicon)
    note_unread_digits(recipe.language, talk)
    with TrainingProgress(talk) as watch:
        package = run(recipe, options, watch)
    conclude(package, talk)


@with_examples(
    "ctc-align adapt recordings --out-dir adapted",
    "ctc-align adapt corpus.jsonl --minutes 30 --out-dir adapted",
    "ctc-align adapt recordings --model universal --language de --out-dir adapted",
)
@with_options
def adapt(
    corpus: Corpus,
    *,
    given: LearningOptions,
    model: str | None = setting(
        None,
        "The model to adapt; its own folder is not changed.",
        metavar="english|universal|DIR",
        shown="by --language",
    ),
    lexicon: str | None = lexicon_option(),
    messages: MessageOptions,
) -> None:
    """Adapt a model to the speakers of a transcribed CORPUS.

    No hand labels are needed: the model learns from its own segmentation of the corpus. The epoch
    with the lowest loss on held-out utterances is kept; if none is better than the unadapted model,
    that model is written, with a message. As the loss does not show whether the segmentation got
    worse, the new segments are compared with the sound level and with those of the unadapted model:
    an epoch whose words shrank, or that calls loud sound a pause, is rejected. If only rejected
    epochs have lower losses, nothing is written (exit 1). To resume an interrupted run, give the
    same command again.
    """
    talk = given.ready(corpus, lexicon, messages)
    from ctc_align.alignment.model_choice import model_for
    from ctc_align.models.catalogue import folder_settings
    from ctc_align.training import adaptation as library

    adaptation = given.limited(load_config(library.Adaptation, given.config, given.recipe_values()))
    model = model or model_for(adaptation.language)
    options = given.run_options(corpus, lexicon)
    note_unread_digits(adaptation.language or folder_settings(model).language, talk)
    with TrainingProgress(talk) as watch:
        package = library.adapt(adaptation, model, options, watch)
    conclude(package, talk)


def note_unread_digits(language: str, talk: Talk) -> None:
    """Note, before the hours of training, that num2words does not know the language."""
    from ctc_align.text.word_forms import reads_digits

    if language and not reads_digits(language):
        talk.note(
            f"language {language!r}: num2words does not know it, so digits in transcripts are not"
            " read"
        )


def conclude(package: ModelPackage, talk: Talk) -> None:
    """Print the folder to stdout, and the result of the training to stderr."""
    if package.corpus.left_out:
        talk.say(
            f"{len(package.corpus.left_out)} pairs were left out: {package.folder / 'left-out.tsv'}"
        )
    minutes, cpu = package.seconds / 60, package.cpu_seconds / 60
    talk.say(f"held out: {package.dev}; {minutes:.1f} minutes, {cpu:.1f} of CPU time")
    put(str(package.folder))
    sys.stdout.flush()


class TrainingProgress(LineBar, Watch):
    """The progress of a training on stderr: a bar on a terminal, a line now and then elsewhere."""

    def __init__(self, talk: Talk) -> None:
        super().__init__("", shown=talk.on_terminal and not talk.quiet)
        self.talk = talk
        self._said_s = 0.0
        self._stage = ""
        self._began_s = time.monotonic()

    def __exit__(self, kind: type[BaseException] | None, *_: Any) -> None:
        super().__exit__()
        if kind is not None and issubclass(kind, KeyboardInterrupt):
            raise Interrupted(
                "interrupted: run the same command to continue from the last checkpoint"
            ) from None

    def say(self, line: str) -> None:
        if self.bar is not None:
            self.bar.console.print(self._timed(line), markup=False, soft_wrap=True)
        else:
            self.talk.say(self._timed(line))

    def progress(self, stage: str, share: float, line: str = "") -> None:
        self.what = stage
        if self.bar is not None:
            self.show(line, share, 1.0)
        elif stage != self._stage or time.monotonic() - self._said_s > _LINE_EVERY_S:
            self._said_s = time.monotonic()
            self._stage = stage
            self.talk.say(self._timed(f"{stage} {share:.0%}  {line}".rstrip()))

    def _timed(self, line: str) -> str:
        return f"{(time.monotonic() - self._began_s) / 60:5.1f} min  {line}"
