"""ctc-align adapt: a model of ours to the speakers or the corpus at hand."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer

from ctc_align.cli import options, train


@options.grouped
def adapt(
    corpus: train.Corpus,
    out_dir: train.OutDir = "",
    model: Annotated[
        str, typer.Option("--model", metavar="english|DIR", help="The model to adapt; it stays as it is.")
    ] = "english",
    kind: options.SourceKind = None,
    dev: train.Dev = None,
    lexicon: options.Lexicon = None,
    language: train.Language = None,
    config: train.ConfigFile = None,
    name: train.Name = None,
    epochs: train.Epochs = None,
    minutes: train.Minutes = None,
    seed: train.Seed = None,
    device: options.Device = "auto",
    keep: train.Keep = False,
    force: train.Force = False,
    *,
    messages: options.MessageOptions,
) -> None:
    """Adapt a model to the speakers of a transcribed CORPUS; nothing but transcripts is needed.

    The model segments the corpus itself and learns from that. The epoch that is best on what is held out is kept; if
    none is better than the model was, it stays as it was, and that is said. The same command goes on where it stopped.
    """
    talk = train.ready(corpus, out_dir, dev, lexicon, messages)
    from ctc_align.config import load_config
    from ctc_align.models import resolve_device
    from ctc_align.models.catalogue import folder_settings
    from ctc_align.training.adaptation import Adaptation
    from ctc_align.training.adaptation import adapt as run
    from ctc_align.training.pipeline import Call

    adaptation = load_config(Adaptation, config, {"name": name, "language": language, "seed": seed})
    adaptation = replace(adaptation, training=train.limited(adaptation.training, epochs, minutes))
    where = resolve_device(device)
    train.say_if_digits_are_not_read(adaptation.language or folder_settings(model).language, talk)
    command = train.command_line()
    call = Call(corpus, Path(out_dir), kind, dev, lexicon, where, command, force=force, keep=keep)
    with train.Following(talk) as watch:
        result = run(adaptation, model, call, watch)
    train.conclude(result, talk)
