"""Which utterances there are in a file or a folder, and which of the hypothesis's stands for which reference."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from ctc_align.errors import InputError, UsageError
from ctc_align.evaluate.measure_options import PHONES, WORDS
from ctc_align.evaluate.tiers import Reading, is_table, read_one, read_table

_NOT_ALIGNMENTS = frozenset({"summary.json"})
_TOKEN_CTM = (".tokens", ".phones")
_SHARDS = "alignments-"

Read = Callable[[], Reading]


@dataclass
class Source:
    """The utterances of a path: how to read each, and files that could not be read, each with the reason."""

    path: Path
    utterances: dict[str, Read] = field(default_factory=dict)
    failures: list[tuple[str, str]] = field(default_factory=list)

    @property
    def is_alone(self) -> bool:
        """One file with one utterance: it is compared whatever its name."""
        return not self.path.is_dir() and len(self.utterances) == 1


def open_source(path: Path, tier: str, tier_name: str | None) -> Source:
    """The utterances of a file or of a folder with all its subfolders.

    In folders an utterance's name is the file's path without extension; of several files of one name JSON comes before
    TextGrid, and that before CTM (`NAME.ctm` holds words, `NAME.tokens.ctm` or `NAME.phones.ctm` phones). Tables,
    CTM with several utterances and shards of JSON, bring their own names.

    Raises:
        UsageError: a folder without alignments.
        InputError: a file, not in a folder, that is a table and cannot be read.
    """
    source = Source(path)
    if path.is_dir():
        _scan(source, tier, tier_name)
        if not source.utterances and not source.failures:
            raise UsageError(f"{path}: expected .TextGrid, .json or .ctm alignments in this folder, got none")
    elif is_table(path):
        source.utterances = {name: partial(_same, reading) for name, reading in read_table(path, tier).items()}
    else:
        source.utterances = {path.with_suffix("").name: partial(read_one, path, tier, tier_name)}
    return source


def _same(reading: Reading) -> Reading:
    return reading


def _scan(source: Source, tier: str, tier_name: str | None) -> None:
    ranks: dict[str, int] = {}
    for path in sorted(source.path.rglob("*")):
        rank = _rank(path, tier)
        if rank is None or not path.is_file():
            continue
        name = _name(path.relative_to(source.path))
        if not is_table(path):
            found: dict[str, Read] = {name: partial(read_one, path, tier, tier_name)}
        else:
            try:
                found = {key: partial(_same, reading) for key, reading in read_table(path, tier).items()}
            except InputError as error:
                source.failures.append((name, str(error)))
                continue
            if len(found) == 1 and not path.name.startswith(_SHARDS):
                found = {name: next(iter(found.values()))}
        for key, read in found.items():
            if rank < ranks.get(key, 9):
                ranks[key] = rank
                source.utterances[key] = read


def _rank(path: Path, tier: str) -> int | None:
    """How much a file of this name is preferred, least first; None: not at all."""
    name = path.name.casefold()
    if path.name in _NOT_ALIGNMENTS or name.startswith("."):
        return None
    if name.endswith((".jsonl", ".jsonl.gz")):
        return 1 if name.startswith(_SHARDS) else None
    holds_tokens = Path(name).stem.endswith(_TOKEN_CTM)
    if name.endswith(".ctm"):
        return {(WORDS, False): 3, (PHONES, True): 3, (PHONES, False): 4}.get((tier, holds_tokens))
    return {".json": 0, ".textgrid": 2}.get(Path(name).suffix)


def _name(path: Path) -> str:
    name = path.with_suffix("").as_posix()
    if path.suffix.casefold() == ".ctm":
        for ending in _TOKEN_CTM:
            name = name.removesuffix(ending)
    return name


def check_paths(hypothesis: Path, reference: Path, role: str = "hypothesis") -> None:
    """Both are there, and of one kind: two files or two folders; a table goes with either.

    Raises:
        UsageError: they are not.
    """
    for path, whose in ((hypothesis, role), (reference, "reference")):
        if not path.exists():
            raise UsageError(f"{path}: no such file or folder (the {whose})")
    if hypothesis.is_dir() != reference.is_dir() and not is_table(hypothesis) and not is_table(reference):
        raise UsageError(f"expected two files or two folders, got {hypothesis} and {reference}")


@dataclass(frozen=True)
class Matches:
    """(name of the reference, hypothesis, reference) triples, and what has no partner."""

    triples: list[tuple[str, Read, Read]]
    missing: tuple[str, ...]
    extra: tuple[str, ...]


def matched(ours: Source, theirs: Source) -> Matches:
    """Utterances meet by their names, or else by the end of their paths where only one fits; two alone meet anyhow."""
    left, right = ours.utterances, theirs.utterances
    if ours.is_alone and theirs.is_alone:
        # the reference's name, but for what a table calls its only utterance
        name = next(iter(left if is_table(theirs.path) and not is_table(ours.path) else right))
        return Matches([(name, next(iter(left.values())), next(iter(right.values())))], (), ())
    partner = {name: name for name in right if name in left}
    spare = _by_leaf(name for name in left if name not in right)
    lonely = _by_leaf(name for name in right if name not in left)
    for leaf, names in lonely.items():
        for name in names:
            fits = [other for other in spare.get(leaf, ()) if _one_ends_the_other(name, other)]
            if len(fits) == 1 and sum(_one_ends_the_other(other, fits[0]) for other in names) == 1:
                partner[name] = fits[0]
    triples = [(name, left[partner[name]], right[name]) for name in right if name in partner]
    used = set(partner.values())
    return Matches(
        triples,
        tuple(name for name in right if name not in partner),
        tuple(name for name in left if name not in used),
    )


def _by_leaf(names: Iterable[str]) -> dict[str, list[str]]:
    leaves: dict[str, list[str]] = {}
    for name in names:
        leaves.setdefault(name.rpartition("/")[2], []).append(name)
    return leaves


def _one_ends_the_other(left: str, right: str) -> bool:
    return left.endswith(f"/{right}") or right.endswith(f"/{left}")
