"""The utterances of files and folders, and their matching between hypothesis and reference."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from ctc_align.errors import InputError, UsageError
from ctc_align.evaluate.measure_options import PHONES, WORDS
from ctc_align.evaluate.tiers import SAMPLE_LABELS, UtteranceTier, is_table, read_one, read_table
from ctc_align.formats.alignment_files import JSON_EXPORTS

_NOT_ALIGNMENTS = frozenset({"summary.json"})
_TOKEN_CTM = (".tokens", ".phones")
_SHARDS = "alignments-"

ReadTier = Callable[[], UtteranceTier]


@dataclass
class AlignmentSource:
    """The utterances of a path, each with a function that reads it, and the reasons of files that cannot be read."""

    path: Path
    utterances: dict[str, ReadTier] = field(default_factory=dict)
    failures: list[tuple[str, str]] = field(default_factory=list)

    @property
    def is_alone(self) -> bool:
        """True for one file with one utterance, whose name does not matter."""
        return not self.path.is_dir() and len(self.utterances) == 1


def open_source(path: Path, tier: str, tier_name: str | None) -> AlignmentSource:
    """Return the utterances of a file, or of a folder with all its subfolders.

    In folders an utterance's name is the file's path without extension; of several files of one name JSON is preferred
    to TextGrid, that to CTM (`NAME.ctm` holds words, `NAME.tokens.ctm` or `NAME.phones.ctm` phones), and that to
    TIMIT's labels (`NAME.WRD`, `NAME.PHN`). Tables (CTM with several utterances, shards of JSON) have the names of
    utterances inside.

    Raises:
        UsageError: a folder without alignments.
        InputError: a file, not in a folder, that is a table and cannot be read.
    """
    source = AlignmentSource(path)
    if path.is_dir():
        _scan(source, tier, tier_name)
        if not source.utterances and not source.failures:
            raise UsageError(
                f"{path}: expected .TextGrid, .json, .ctm, .wrd or .phn alignments in this folder, got none"
            )
    elif is_table(path):
        source.utterances = _table_readers(path, tier)
    else:
        source.utterances = {path.with_suffix("").name: partial(read_one, path, tier, tier_name)}
    return source


def _table_readers(path: Path, tier: str) -> dict[str, ReadTier]:
    return {name: partial(_identity, utterance) for name, utterance in read_table(path, tier).items()}


def _identity(utterance: UtteranceTier) -> UtteranceTier:
    return utterance


def _scan(source: AlignmentSource, tier: str, tier_name: str | None) -> None:
    ranks: dict[str, int] = {}
    for path in sorted(source.path.rglob("*")):
        rank = _rank(path, tier)
        if rank is None or path.is_dir():
            continue
        name = _name(path.relative_to(source.path))
        if not is_table(path):
            readers: dict[str, ReadTier] = {name: partial(read_one, path, tier, tier_name)}
        else:
            try:
                readers = _table_readers(path, tier)
            except InputError as error:
                source.failures.append((name, str(error)))
                continue
            if len(readers) == 1 and not path.name.startswith(_SHARDS):
                readers = {name: next(iter(readers.values()))}
        for key, read in readers.items():
            if rank < ranks.get(key, 9):
                ranks[key] = rank
                source.utterances[key] = read


def _rank(path: Path, tier: str) -> int | None:
    """Return the rank of a file by its name, the preferred one least; None for no alignment."""
    name = path.name.casefold()
    if path.name in _NOT_ALIGNMENTS or name.startswith(".") or name.endswith(JSON_EXPORTS):
        return None
    if name.endswith((".jsonl", ".jsonl.gz")):
        return 1 if name.startswith(_SHARDS) else None
    holds_tokens = Path(name).stem.endswith(_TOKEN_CTM)
    if name.endswith(".ctm"):
        return {(WORDS, False): 3, (PHONES, True): 3, (PHONES, False): 4}.get((tier, holds_tokens))
    suffix = Path(name).suffix
    if suffix in SAMPLE_LABELS:
        return 5 if SAMPLE_LABELS[suffix] == tier else 6  # which says that it lacks the tier
    return {".json": 0, ".textgrid": 2}.get(suffix)


def _name(path: Path) -> str:
    name = path.with_suffix("").as_posix()
    if path.suffix.casefold() == ".ctm":
        for ending in _TOKEN_CTM:
            name = name.removesuffix(ending)
    return name


def check_paths(hypothesis: Path, reference: Path, role: str = "hypothesis") -> None:
    """Raise UsageError unless both exist and are two files or two folders; a table goes with either."""
    for path, side in ((hypothesis, role), (reference, "reference")):
        if not path.exists():
            raise UsageError(f"{path}: no such file or folder (the {side})")
    if hypothesis.is_dir() != reference.is_dir() and not is_table(hypothesis) and not is_table(reference):
        raise UsageError(f"expected two files or two folders, got {hypothesis} and {reference}")


@dataclass(frozen=True)
class Matches:
    """(name of the reference, hypothesis, reference) triples, and the names without a partner."""

    triples: list[tuple[str, ReadTier, ReadTier]]
    missing: tuple[str, ...]
    extra: tuple[str, ...]


def matched(ours: AlignmentSource, theirs: AlignmentSource) -> Matches:
    """Match utterances by name, else by the end of their paths if only one fits; two alone always match."""
    left, right = ours.utterances, theirs.utterances
    if ours.is_alone and theirs.is_alone:
        # the reference's name, unless only the reference is a table
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
