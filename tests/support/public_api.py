"""The names of Python that are promised, with their parameters: read from the code, written, and
compared.

python tests/support/public_api.py          writes docs/public-api.txt anew
"""

from __future__ import annotations

import ast
import inspect
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
LIST = ROOT / "docs" / "public-api.txt"
MODULES = ("ctc_align", "ctc_align.functional", "ctc_align.losses", "ctc_align.pipelines")
TYPES = ("AlignedWord", "AlignedToken", "Region", "Transcript", "Audio")
"""Names of `ctc_align.types` that are promised, for alignments are made of them."""
FIELDS_ALONE = ("Settings",)
"""Classes whose methods are no promise; all of their fields are passed by name."""


def current() -> list[str]:
    """Return the promised names of the code as it is, a line each: `module.name(parameters)`."""
    import griffe

    package = griffe.load("ctc_align", search_paths=[ROOT], resolve_aliases=True)
    lines: list[str] = []
    for module in MODULES:
        of = package if module == "ctc_align" else package[module.partition(".")[2]]
        names = (
            of.exports
            if of.exports is not None
            else [name for name in of.members if not of[name].is_alias]
        )
        for name in map(str, names):
            if not name.startswith("_"):
                lines += _lines(f"{module}.{name}", _target(of[name]))
    for name in TYPES:
        lines += _lines(f"ctc_align.types.{name}", package[f"types.{name}"])
    return sorted(set(lines))


def _target(found: Any) -> Any:
    return found.final_target if found.is_alias else found


def _lines(path: str, found: Any) -> Iterator[str]:
    """Yield the lines of a function, a class with its public members, or a value; submodules are no
    promise."""
    if found.is_function:
        yield f"{path}({_parameters(found.parameters)})"
    elif found.is_class:
        if found.name in FIELDS_ALONE:
            yield path
        else:
            yield f"{path}({_parameters(found.parameters, skip_self=True)})"
        for name, member in found.all_members.items():
            own = _target(member)
            is_own = own.path.startswith("ctc_align.") and not own.is_class
            if own.is_function and found.name in FIELDS_ALONE:
                continue
            if not name.startswith("_") and is_own:
                yield (
                    f"{path}.{name}({_parameters(own.parameters, skip_self=True)})"
                    if own.is_function
                    else f"{path}.{name}"
                )
    elif found.is_attribute:
        yield path


def _parameters(parameters: Any, skip_self: bool = False) -> str:
    """Return parameters as Python writes them, without their types."""
    kinds = {kind.description: kind for kind in inspect._ParameterKind}
    given = [one for one in parameters if not (skip_self and one.name in ("self", "cls"))]
    signature = inspect.Signature(
        [
            inspect.Parameter(
                one.name.lstrip("*"),
                kinds[one.kind.value],
                default=(
                    inspect.Parameter.empty
                    if one.default is None or "variadic" in one.kind.value
                    else _Source(one.default)
                ),
            )
            for one in given
        ]
    )
    return str(signature)[1:-1]


class _Source:
    """An expression that is shown as it stands in the code."""

    def __init__(self, expression: object) -> None:
        self._text = str(expression)

    def __repr__(self) -> str:
        return self._text


def broken_promises(promised: Sequence[str], found: Sequence[str]) -> list[str]:
    """Return a sentence for each promise that the names found break: calls that were right would be
    wrong."""
    now = dict(map(_parted, found))
    faults = []
    for line in promised:
        name, before = _parted(line)
        if name not in now:
            faults.append(
                f"{name} is promised, and gone: deprecate it first (CONTRIBUTING.md, Versions)"
            )
        elif before is not None:
            changes = (
                ["it is no function any more"] if now[name] is None else _changes(before, now[name])
            )
            faults += [
                f"{name}: {change}: calls that were right are not (CONTRIBUTING.md, Versions)"
                for change in changes
            ]
    return faults


def _parted(line: str) -> tuple[str, ast.arguments | None]:
    """Return the name of a line, and its parameters, None where it is no call."""
    name, bracket, rest = line.partition("(")
    if not bracket:
        return name, None
    function = ast.parse(f"def f({rest}: ...").body[0]
    assert isinstance(function, ast.FunctionDef)
    return name, function.args


def _changes(before: ast.arguments, after: ast.arguments) -> Iterator[str]:
    """Yield what a caller of the parameters before would notice."""
    old, new = _by_name(before), _by_name(after)
    for name, (place, default) in old.items():
        if name not in new:
            yield f"the parameter {name} is gone"
        elif place is not None and new[name][0] != place:
            yield f"the parameter {name} has another place"
        elif default is not None and new[name][1] != default:
            yield f"the default of {name} was {default} and is {new[name][1] or 'none'}"
    yield from (
        f"the parameter {name} is new and has no default"
        for name in new
        if name not in old and not new[name][1]
    )


def _by_name(arguments: ast.arguments) -> dict[str, tuple[int | None, str | None]]:
    """Return the place (None: by name alone) and the default (None: required) of each parameter."""
    by_place = [*arguments.posonlyargs, *arguments.args]
    defaults = [None] * (len(by_place) - len(arguments.defaults)) + [
        ast.unparse(one) for one in arguments.defaults
    ]
    found: dict[str, tuple[int | None, str | None]] = {
        one.arg: (place, default) for place, (one, default) in enumerate(zip(by_place, defaults))
    }
    for one, value in zip(arguments.kwonlyargs, arguments.kw_defaults):
        found[one.arg] = (None, None if value is None else ast.unparse(value))
    for one in filter(None, (arguments.vararg, arguments.kwarg)):
        found[f"*{one.arg}"] = (None, "()")
    return found


if __name__ == "__main__":
    LIST.write_text("\n".join(current()) + "\n", encoding="utf-8", newline="\n")
