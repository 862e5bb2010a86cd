"""ctc-align train: an acoustic model from a transcribed corpus; ctc-align adapt: one that fits its speakers."""

from __future__ import annotations

import shlex
import sys
import time
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ctc_align.cli import options
from ctc_align.cli.messages import Interrupted, Talk
from ctc_align.cli.options import MessageOptions, grouped
from ctc_align.cli.printing import put
from ctc_align.errors import UsageError
from ctc_align.training import Watch

if TYPE_CHECKING:
    from ctc_align.training.acoustic_training import Training
    from ctc_align.training.pipeline import Result

Corpus = Annotated[
    str,
    typer.Argument(
        metavar="CORPUS", help="A manifest (JSONL, CSV, TSV, Lhotse cuts) or a folder (Kaldi, MFA, LibriSpeech)."
    ),
]
OutDir = Annotated[str, typer.Option("--out-dir", "-o", metavar="DIR", help="Folder of the new model. Required.")]
Dev = Annotated[
    str | None,
    typer.Option(
        "--dev",
        metavar="CORPUS",
        help="Corpus for the held-out loss.",
        show_default="a part of the CORPUS",
    ),
]
ConfigFile = Annotated[
    str | None,
    typer.Option("--config", metavar="NAME|FILE.toml", help="Training recipe; the command line wins."),
]
Language = Annotated[
    str | None,
    typer.Option(
        "--language", metavar="CODE", help="Language of the transcripts, where CORPUS names none (de, pt-BR)."
    ),
]
Lexicon = Annotated[
    str | None,
    typer.Option("--lexicon", metavar="FILE", help="Pronunciations in MFA dictionary format: their phones are tokens."),
]
Start = Annotated[
    str | None,
    typer.Option(
        "--from",
        metavar="english|universal|DIR",
        help="Begin with the weights of this model.",
        show_default="with none",
    ),
]
Epochs = Annotated[
    int | None,
    typer.Option("--epochs", metavar="N", min=1, help="Passes over the corpus.", show_default="by its amount"),
]
Minutes = Annotated[
    float | None,
    typer.Option("--minutes", metavar="N", min=0.01, help="Longest time of training the network."),
]
Seed = Annotated[int | None, typer.Option("--seed", metavar="N", min=0, help="Seed of all random numbers.")]
Keep = Annotated[bool, typer.Option("--keep", help="Keep frames, labels and checkpoints (DIR/.training).")]
Force = Annotated[
    bool, typer.Option("--force", help="Replace the model in DIR, or an unfinished run with other settings.")
]
Name = Annotated[str | None, typer.Option("--name", help="Name of the model.", show_default="as DIR is")]
_LINE_EVERY_S = 15.0


@grouped
def train(
    corpus: Corpus,
    out_dir: OutDir = "",
    kind: options.SourceKind = None,
    dev: Dev = None,
    lexicon: Lexicon = None,
    language: Language = None,
    config: ConfigFile = None,
    assignments: options.Assignments = None,
    start: Start = None,
    name: Name = None,
    epochs: Epochs = None,
    minutes: Minutes = None,
    seed: Seed = None,
    device: options.Device = "auto",
    keep: Keep = False,
    force: Force = False,
    *,
    messages: MessageOptions,
) -> None:
    """Train an acoustic model on a transcribed CORPUS, in any language, or in several.

    Tokens are the letters of the transcripts, with --lexicon the phones of a dictionary, and with --config
    universal the phones that all languages share. A manifest may name the language of each line. Utterances that do
    not fit their transcripts are left out and counted. An interrupted run goes on where it stopped when the same
    command is given again. Use the model with --model DIR; DIR/README.md describes it.
    """
    talk = ready(corpus, out_dir, dev, lexicon, messages)
    from ctc_align.config import load_config
    from ctc_align.models import resolve_device
    from ctc_align.training.pipeline import Call
    from ctc_align.training.pipeline import train as run
    from ctc_align.training.recipe import Recipe

    recipe = load_config(
        Recipe, config, {"name": name, "language": language, "seed": seed, "start": start}, assignments
    )
    recipe = replace(
        recipe,
        language=options.checked_language(recipe.language),
        training=limited(recipe.training, epochs, minutes),
    )
    where = resolve_device(device)
    say_if_digits_are_not_read(recipe.language, talk)
    call = Call(corpus, Path(out_dir), kind, dev, lexicon, where, command_line(), force=force, keep=keep)
    with TrainingProgress(talk) as watch:
        result = run(recipe, call, watch)
    conclude(result, talk)


@grouped
def adapt(
    corpus: Corpus,
    out_dir: OutDir = "",
    model: Annotated[
        str | None,
        typer.Option(
            "--model",
            metavar="english|universal|DIR",
            help="The model to adapt; its own folder is not changed.",
            show_default="by --language",
        ),
    ] = None,
    kind: options.SourceKind = None,
    dev: Dev = None,
    lexicon: options.Lexicon = None,
    language: Language = None,
    config: ConfigFile = None,
    name: Name = None,
    epochs: Epochs = None,
    minutes: Minutes = None,
    seed: Seed = None,
    device: options.Device = "auto",
    keep: Keep = False,
    force: Force = False,
    *,
    messages: MessageOptions,
) -> None:
    """Adapt a model to the speakers of a transcribed CORPUS; no hand labels are needed.

    The model segments the corpus itself and learns from that. The epoch with the lowest loss on held-out utterances is
    kept; if none is better than the unadapted model, that model is kept, with a message. Losses cannot tell whether
    its segments got worse, so they are compared with the level of the sound and with those of the unadapted model:
    an epoch in which words shrank, or loud sound is called pause, is not kept, and where only such epochs are better
    nothing is written (exit 1). An interrupted run goes on where it stopped when the same command is given again.
    """
    talk = ready(corpus, out_dir, dev, lexicon, messages)
    from ctc_align.alignment.model_choice import model_for
    from ctc_align.config import load_config
    from ctc_align.models import resolve_device
    from ctc_align.models.catalogue import folder_settings
    from ctc_align.training import adaptation as library
    from ctc_align.training.pipeline import Call

    adaptation = load_config(library.Adaptation, config, {"name": name, "language": language, "seed": seed})
    adaptation = replace(
        adaptation,
        language=options.checked_language(adaptation.language),
        training=limited(adaptation.training, epochs, minutes),
    )
    model = model or model_for(adaptation.language)
    where = resolve_device(device)
    say_if_digits_are_not_read(adaptation.language or folder_settings(model).language, talk)
    command = command_line()
    call = Call(corpus, Path(out_dir), kind, dev, lexicon, where, command, force=force, keep=keep)
    with TrainingProgress(talk) as watch:
        result = library.adapt(adaptation, model, call, watch)
    conclude(result, talk)


def ready(corpus: str, out_dir: str, dev: str | None, lexicon: str | None, messages: MessageOptions) -> Talk:
    """Check the arguments, before anything heavy is imported, and return what writes messages."""
    from ctc_align.cli.arguments import check_files, check_source

    if not corpus:
        raise UsageError("CORPUS: expected a manifest or a folder, got an empty path")
    check_source(corpus, "CORPUS")
    if dev:
        check_source(dev, "--dev")
    if not out_dir:
        raise UsageError("--out-dir: a model needs a folder")
    if dev == "":
        raise UsageError("--dev: expected a manifest or a folder, got an empty path")
    check_files({"--lexicon": lexicon})
    talk = messages.talk()
    talk.listen()
    return talk


def say_if_digits_are_not_read(language: str, talk: Talk) -> None:
    """Note, before the hours of training, that num2words does not know the language."""
    from ctc_align.text.spoken_form import reads_digits

    if language and not reads_digits(language):
        talk.note(f"language {language!r}: num2words does not know it, so digits in transcripts are not read")


def limited(training: Training, epochs: int | None, minutes: float | None) -> Training:
    """Return the training with the limits of the command line."""
    return replace(
        training,
        epochs=training.epochs if epochs is None else epochs,
        minutes=training.minutes if minutes is None else minutes,
    )


def command_line() -> str:
    """Return the command line, for the model's card."""
    return "ctc-align " + " ".join(shlex.quote(argument) for argument in sys.argv[1:])


def conclude(result: Result, talk: Talk) -> None:
    """Print the folder to stdout, and the result of the training to stderr."""
    card = result.card
    if card.corpus.left_out:
        talk.say(f"{len(card.corpus.left_out)} pairs were left out: {result.folder / 'left-out.tsv'}")
    minutes, cpu = card.seconds / 60, card.cpu_seconds / 60
    talk.say(f"held out: {card.dev}; {minutes:.1f} minutes, {cpu:.1f} of CPU time")
    put(str(result.folder))
    sys.stdout.flush()


class TrainingProgress(Watch):
    """The progress of a training on stderr: a bar on a terminal, a line now and then elsewhere."""

    def __init__(self, talk: Talk) -> None:
        self.talk = talk
        self._bar: Any = None
        self._said_s, self._stage = 0.0, ""
        self._began_s = time.monotonic()

    def __enter__(self) -> TrainingProgress:
        if self.talk.on_terminal and not self.talk.quiet:
            from rich.progress import BarColumn, Progress, TextColumn

            from ctc_align.cli.printing import console_for

            columns = (
                TextColumn("{task.description}", markup=False),
                BarColumn(bar_width=24),
                TextColumn("{task.fields[line]}", markup=False),
            )
            self._bar = Progress(*columns, console=console_for(sys.stderr), transient=True, redirect_stdout=False)
            self._bar.add_task("", total=1.0, line="")
            self._bar.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: Any) -> None:
        if self._bar is not None:
            self._bar.stop()
        if kind is not None and issubclass(kind, KeyboardInterrupt):
            raise Interrupted("interrupted: the same command goes on from the last checkpoint") from None

    def say(self, line: str) -> None:
        if self._bar is not None:
            self._bar.console.print(self._timed(line), markup=False, soft_wrap=True)
        else:
            self.talk.say(self._timed(line))

    def progress(self, stage: str, share: float, line: str = "") -> None:
        if self._bar is not None:
            self._bar.update(self._bar.tasks[0].id, description=stage, completed=share, line=line)
        elif stage != self._stage or time.monotonic() - self._said_s > _LINE_EVERY_S:
            self._said_s, self._stage = time.monotonic(), stage
            self.talk.say(self._timed(f"{stage} {share:.0%}  {line}".rstrip()))

    def _timed(self, line: str) -> str:
        return f"{(time.monotonic() - self._began_s) / 60:5.1f} min  {line}"
