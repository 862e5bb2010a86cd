"""ctc-align models: the names that --model takes, and the description of a model."""

from __future__ import annotations

import json
import sys
from typing import TYPE_CHECKING, Annotated

import typer

from ctc_align.cli.options import SettingsOptions, with_options
from ctc_align.cli.printing import put_row, say
from ctc_align.errors import UsageError
from ctc_align.text.characters import json_escaped

if TYPE_CHECKING:
    from ctc_align.models import AcousticModel

HEADER = ("model", "state", "megabytes", "licence", "about")
_COLUMNS_NOTE = (
    "digits: whether numbers are read as words. of speakers: whether the speakers of the test clips"
    " also occur in the training data, or were left out. best of 10, %: share of clips whose own"
    " text has the lowest loss per token among ten texts. swapped word, %: share of clips where"
    " replacing a word raises the loss. edges at pauses, %: share of edges beside a pause that are"
    " within 50 ms of it. loss: mean over the clips. With about ten clips per language, one clip is"
    " 10 %"
)
LANGUAGE_HEADER = ("language", "code", "script", "digits", "hours_in_training")


@with_options
def models(
    action: Annotated[
        str | None,
        typer.Argument(
            metavar="show|languages", help="Describe one model, or list the languages of universal."
        ),
    ] = None,
    name: Annotated[
        str | None, typer.Argument(metavar="NAME", help="Name of the model, as for --model.")
    ] = None,
    *,
    config: SettingsOptions,
) -> None:
    """List the models that --model takes, or describe one.

    Prints tab-separated columns: a list with a header, or the names and values of one model
    (vocabulary, frames, receptive field …). `show` loads the model, and downloads it if necessary.
    `languages` lists the languages that the model universal was trained on or measured with; it
    aligns others, too.
    """
    if action is None:
        _list()
    elif action == "languages" and not name:
        _list_languages()
    elif action != "show" or not name:
        raise UsageError(
            "models: expected `ctc-align models`, `ctc-align models show NAME` or `ctc-align models"
            " languages`"
        )
    else:
        from ctc_align.models import load_model

        _show(load_model(name, device="cpu", settings=config.settings()), name)


def _list() -> None:
    from ctc_align.models.catalogue import catalogue_entries

    put_row(HEADER)
    for row in catalogue_entries():
        size = "" if row.megabytes is None else str(row.megabytes)
        put_row((row.name, row.state, size, row.licence, row.about))


def _list_languages() -> None:
    from ctc_align.models.catalogue import model_languages

    figures, languages = model_languages()
    put_row((*LANGUAGE_HEADER, *figures))
    for row in languages:
        put_row(row)
    sys.stdout.flush()
    say(f"ctc-align: note: {_COLUMNS_NOTE}")


def _show(model: AcousticModel, name: str) -> None:
    from ctc_align.tokens.tokenizer import tokenizer_for
    from ctc_align.units import seconds_to_ms

    separator = tokenizer_for(model.vocab, model.blank).separator
    values = {
        "model": model.name,
        "sample_rate": model.sample_rate,
        "frame_shift_ms": f"{seconds_to_ms(model.frame_shift_s):g}",
        "first_frame_ms": f"{seconds_to_ms(model.first_frame_s):g}",
        "receptive_field_ms": f"{seconds_to_ms(model.receptive_field_s):g}",
        "tokens": model.token_kind,
        "classes": len(model.vocab),
        "blank": _json(model.vocab[model.blank]),
        "separator": "" if separator is None else _json(model.vocab[separator]),
        "vocabulary": _json(model.vocab),
        **_folder_values(model, name),
    }
    for key, value in values.items():
        put_row((key, value))


def _json(value: object) -> str:
    return json_escaped(json.dumps(value, ensure_ascii=False))


def _folder_values(model: AcousticModel, name: str) -> dict[str, object]:
    """Return the values that only models of this package have."""
    from ctc_align.models.catalogue import folder_settings
    from ctc_align.text.lexicon import read_lexicon

    beside = folder_settings(name)
    values = dict[str, object]()
    if beside.language:
        values["language"] = beside.language
    if beside.lexicon is not None:
        values |= {
            "lexicon": beside.lexicon,
            "lexicon_words": len(read_lexicon(beside.lexicon).entries),
        }
    if model.gaussians_per_state:
        values["gaussians_per_state"] = model.gaussians_per_state
    return values
