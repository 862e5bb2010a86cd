"""ctc-align models: the names that --model takes, and the description of a model."""

from __future__ import annotations

import itertools
import json
import sys
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Annotated

import typer

from ctc_align.cli.options import SettingsOptions, with_examples, with_options
from ctc_align.cli.printing import console_for, put_row, say
from ctc_align.errors import UsageError
from ctc_align.text.characters import json_escaped, printable

if TYPE_CHECKING:
    from ctc_align.models import AcousticModel
    from ctc_align.models.catalogue import CatalogueEntry

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


@with_examples(
    "ctc-align models",
    "ctc-align models languages",
    "ctc-align models show english",
)
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

    Prints a table on a terminal, otherwise tab-separated columns. `show` prints the names and
    values of one model (vocabulary, frames, receptive field …); it loads the model, and downloads
    it if necessary. `languages` lists the languages that the model universal was trained on or
    measured with; it aligns others, too.
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

    entries = catalogue_entries()
    if sys.stdout.isatty():
        _print_table(("model", "MB", "licence", "about"), _rows_by_state(entries))
        return
    put_row(HEADER)
    for one in entries:
        put_row((one.name, one.state, _size(one), one.licence, one.about))


def _rows_by_state(entries: Iterable[CatalogueEntry]) -> Iterator[Sequence[object]]:
    """Yield the state of each group of models in a row of its own, then the models."""
    for state, group in itertools.groupby(entries, key=lambda one: one.state):
        yield (state, "", "", "")
        for one in group:
            yield (f"  {one.name}", _size(one), one.licence, one.about)


def _size(entry: CatalogueEntry) -> str:
    return "" if entry.megabytes is None else str(entry.megabytes)


def _list_languages() -> None:
    from ctc_align.models.catalogue import model_languages

    figures, languages = model_languages()
    _put_table((*LANGUAGE_HEADER, *figures), languages)
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
    _put_table((), values.items())


def _put_table(header: Sequence[str], rows: Iterable[Sequence[object]]) -> None:
    """Print rows below a header, if any: a table on a terminal, otherwise tab-separated."""
    if sys.stdout.isatty():
        _print_table([name.replace("_", " ") for name in header], rows)
        return
    if header:
        put_row(header)
    for row in rows:
        put_row(row)


def _print_table(header: Sequence[str], rows: Iterable[Sequence[object]]) -> None:
    """Print a table as wide as the terminal: long cells wrap, and nothing is cut."""
    from rich.table import Table
    from rich.text import Text

    table = Table(*header, box=None, padding=(0, 1, 0, 0), pad_edge=False, show_header=bool(header))
    for row in rows:
        table.add_row(*(Text(printable(str(cell))) for cell in row))
    for column in table.columns:
        column.overflow = "fold"
    table.columns[0].no_wrap = True
    console_for(sys.stdout).print(table)


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
