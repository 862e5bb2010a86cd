"""Words that are skipped although they were spoken, and words that are aligned although they were
not.

    python research/skipped_words.py [--models english,planted,hama] [--group report]
    [--texts 60]
        [--seeds 1-2] [--changes 0,2] [--match auto] [--cache FOLDER]

Needs `../shared/data/english`. A row is a model and what was done to its log-probs (noise: normal,
in nats; floor: no log-prob is lower; both before they are normalised again), summed over texts and
seeds, in percent:

    exact skipped     spoken words skipped, of a transcript that is exact
    beside skipped    of words whose neighbours were said and are not written (three of a text)
    spoken skipped    of spoken words beside five words that were not said
    absent caught     of these five, how many are skipped
    replaced caught   of words that stand in the transcript for others, how many are skipped (three of a text)

`--models`: `english`; `planted`, letters with a peak of .999 each among noise letters; or `hama`,
the IPA network of the package hama where it is installed, with words as its own letter-to-phone
reads them.
"""

from __future__ import annotations

import sys
import warnings
import zlib
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch

from measuring import ENGLISH, manifest_rows, parser_of  # isort: skip
from inexact_transcripts import seeds_of
from made_models import among_noise

from ctc_align.alignment.aligner import Aligner
from ctc_align.audio.loading import load_audio
from ctc_align.config import Settings
from ctc_align.types import SKIPPED, Emissions

LETTERS = frozenset("abcdefghijklmnopqrstuvwxyz'")
CHANGES = {"as it is": (None, 0.0), "noise 2": (None, 2.0), "floor -12, noise 3": (-12.0, 3.0)}
CHANGED = 3
ABSENT = 5


@dataclass
class Counts:
    """Words by condition: how many there were, and how many were skipped."""

    skipped: dict[str, list[int]] = field(
        default_factory=lambda: {name: [0, 0] for name in COLUMNS}
    )

    def add(self, column: str, skipped: list[bool]) -> None:
        self.skipped[column][0] += sum(skipped)
        self.skipped[column][1] += len(skipped)

    def row(self) -> str:
        return " ".join(
            f"{100 * some / max(count, 1):9.1f}" for some, count in self.skipped.values()
        )


COLUMNS = ("exact", "beside", "spoken", "absent", "replaced")


def changed(
    emissions: Emissions, floor: float | None, noise: float, rng: np.random.Generator
) -> Emissions:
    """Return log-probs with a floor and with noise, normalised, without segmentation states."""
    x = emissions.log_probs.float()
    if floor is not None:
        x = x.clamp(min=floor)
    x = x + noise * torch.from_numpy(rng.normal(size=tuple(x.shape))).float()
    return replace(emissions, log_probs=torch.log_softmax(x, 1), states=None)


class Network:
    """A model's emissions of clips, from a folder where they are there already."""

    def __init__(self, name: str, cache: Path, words: list[str]) -> None:
        self.name, self.cache = name, cache
        self.lexicon = cache / f"{name}-{zlib.crc32(' '.join(words).encode())}.lexicon"
        if name == "english":
            self.model = Aligner("english", device="cpu")
        elif name == "hama":
            from hama import ASRModel, G2PModel  # type: ignore[import-not-found]

            self.asr = ASRModel()
            if not self.lexicon.exists():
                g2p = G2PModel()
                lines = [f"{word}\t{pronounced(g2p, word)}" for word in words]
                self.lexicon.write_text("\n".join(lines) + "\n", "utf-8")

    def aligner(self, match: str) -> Aligner:
        settings = Settings(match=match)
        if self.name == "english":
            return Aligner("english", device="cpu", settings=settings)
        return Aligner(
            None, settings=settings, lexicon=str(self.lexicon) if self.name == "hama" else None
        )

    def emissions(
        self, row: dict[str, str], words: list[str], rng: np.random.Generator
    ) -> Emissions:
        if self.name == "planted":
            return among_noise(" ".join(words), rng)
        path = self.cache / f"{self.name}-{Path(row['audio']).stem}.pt"
        if path.exists():
            return Emissions(**torch.load(path))
        samples = load_audio(ENGLISH / row["audio"], 16000).samples
        if self.name == "english":
            emissions = replace(self.model.emissions((samples, 16000)), states=None)
        else:
            x, lengths = self.asr.session.run(
                ["log_probs", "out_lengths"],
                {"waveform": samples[None], "waveform_lengths": np.array([len(samples)])},
            )
            x = torch.log_softmax(torch.from_numpy(x[0, : int(lengths[0])]).float(), 1)
            emissions = Emissions(
                x,
                tuple(
                    {"<wb>": "|", " ": "<space>"}.get(token, token)
                    for token in self.asr.decoder_tokens
                ),
                0.02,
                blank=self.asr.blank_id,
            )
        kept = ("log_probs", "vocab", "frame_shift_s", "blank")
        torch.save({name: getattr(emissions, name) for name in kept}, path)
        return emissions


def pronounced(g2p: Any, word: str) -> str:
    """Return the phones of a word by hama's own letter-to-phone, separated by spaces."""
    return " ".join(
        aligned.phoneme for aligned in g2p.predict(word).alignments if aligned.phoneme.strip()
    )


def skipped(aligner: Aligner, emissions: Emissions, words: list[str]) -> list[bool]:
    """Return of each word whether it is skipped."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        alignment = aligner.align(emissions, " ".join(words))
    return [word.status == SKIPPED for word in alignment.words]


def study(
    aligner: Aligner, emissions: Emissions, words: list[str], pool: list[str], rng: np.random.Generator, counts: Counts
) -> None:  # fmt: skip
    """Count what is skipped of a text, exact and changed."""
    if len(words) < 10:
        return
    counts.add("exact", skipped(aligner, emissions, words))
    gone = _apart(rng, len(words), CHANGED)
    left = [word for index, word in enumerate(words) if index not in gone]
    beside = {
        at
        for rank, index in enumerate(gone)
        for at in (index - rank - 1, index - rank)
        if 0 <= at < len(left)
    }
    result = skipped(aligner, emissions, left)
    counts.add("beside", [result[at] for at in sorted(beside)])
    longer: list[tuple[str, bool]] = [(word, True) for word in words]
    for index in sorted(_apart(rng, len(words), ABSENT), reverse=True):
        longer.insert(index, (str(pool[rng.integers(len(pool))]), False))
    result = skipped(aligner, emissions, [word for word, _ in longer])
    counts.add("spoken", [now for now, (_, said) in zip(result, longer) if said])
    counts.add("absent", [now for now, (_, said) in zip(result, longer) if not said])
    places = _apart(rng, len(words), CHANGED)
    other = [
        str(pool[rng.integers(len(pool))]) if index in places else word
        for index, word in enumerate(words)
    ]
    result = skipped(aligner, emissions, other)
    counts.add("replaced", [result[index] for index in places])


def _apart(rng: np.random.Generator, count: int, most: int) -> list[int]:
    """Return up to `most` indices, no two of them adjacent, ascending."""
    chosen: list[int] = []
    for index in rng.permutation(count).tolist():
        if len(chosen) < most and all(abs(index - one) > 1 for one in chosen):
            chosen.append(index)
    return sorted(chosen)


def plain_words(text: str) -> list[str]:
    """Return the words of a text, their letters only."""
    plain = ["".join(filter(LETTERS.__contains__, word)) for word in text.lower().split()]
    return [word for word in plain if word]


def texts_of(group: str, count: int) -> list[dict[str, str]]:
    """Return rows of the development split, of every second speaker, as many of each."""
    rows = manifest_rows(split="dev")
    speakers = sorted({row["speaker"] for row in rows})[group == "report" :: 2]
    by_speaker = [
        [row for row in rows if row["speaker"] == speaker and 12 <= len(row["text"].split()) <= 40]
        for speaker in speakers
    ]
    ranked = [
        own[rank]
        for rank in range(max(map(len, by_speaker)))
        for own in by_speaker
        if rank < len(own)
    ]
    return ranked[:count]


def main() -> int:
    parser = parser_of(__doc__)
    parser.add_argument("--models", default="english,planted")
    parser.add_argument("--group", choices=("choose", "report"), default="choose")
    parser.add_argument("--texts", type=int, default=60)
    parser.add_argument("--seeds", default="1")
    parser.add_argument("--match", default="auto")
    parser.add_argument(
        "--changes", default=",".join(map(str, range(len(CHANGES)))), help="indices of the changes"
    )
    parser.add_argument(
        "--cache", type=Path, default=Path(".cache/skipped_words"), help="folder for log-probs"
    )
    given = parser.parse_args()
    torch.set_num_threads(1)
    rows = texts_of(given.group, given.texts)
    given.cache.mkdir(parents=True, exist_ok=True)
    words_of = [plain_words(row["text"]) for row in rows]
    pool = sorted(
        {
            word
            for row in manifest_rows(split="dev")
            for word in plain_words(row["text"])
            if len(word) > 2
        }
    )[::4]
    every = sorted({*pool, *(word for words in words_of for word in words)})
    print(f"group {given.group}, {len(rows)} texts, seeds {given.seeds}, match {given.match}")
    print(f"{'':28s}" + " ".join(f"{name:>9s}" for name in COLUMNS), flush=True)
    for name in given.models.split(","):
        network = Network(name, given.cache, every)
        aligner = network.aligner(given.match)
        for change in [list(CHANGES)[int(index)] for index in given.changes.split(",")]:
            if name == "planted" and change != "as it is":
                continue
            counts = Counts()
            for seed in seeds_of(given.seeds):
                rng = np.random.default_rng(seed)
                for row, words in zip(rows, words_of):
                    emissions = network.emissions(row, words, rng)
                    if name != "planted":
                        emissions = changed(emissions, *CHANGES[change], rng)
                    study(aligner, emissions, words, pool, rng, counts)
            print(f"{name + ', ' + change:28s}{counts.row()}", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
