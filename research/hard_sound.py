"""Word edges, and how well true and other texts part, in hand-labelled speech that was spoiled on
purpose:

    python tests/benchmarks/hard_sound.py [FOLDER] [--model NAME|FOLDER] [--conditions
    steady,radio,…] [--seed N]
    python tests/benchmarks/hard_sound.py --languages de,el,fa,pt --model universal

FOLDER (by default ../shared/data/gold-dev beside the checkout) holds `corpus/` and `reference/`.
Each condition is one of `CONDITIONS` of `spoiled_sound.py`; other voices are those of the
development speakers of the English data. The columns: the mean absolute error of word edges with
`--match exact`, in ms and relative to the clean sound of the same speakers; F1 at 20 ms; words lost
with `--match auto`, %; of its words with a confidence above 0.8, those whose edges are both within
0.2 s, %; words of another recording's text that have more than 0.5, %; how often the true text has
the least loss per token of 13, %; and the area under the curve (AUC) of true against other texts by
their loss per token. With `--languages`, the recordings are clips of Common Voice in
those languages, and the labels are where the shipped model puts the words in the clean clip.
"""

from __future__ import annotations

import functools
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import soundfile
from measuring import DATA, ENGLISH, GOLD, manifest_rows, parser_of

from ctc_align.alignment.aligner import Aligner, read_inputs
from ctc_align.config import Settings
from ctc_align.evaluate import evaluate_intervals, read_intervals
from ctc_align.types import Alignment, Emissions, Interval, Transcript
from spoiled_sound import CONDITIONS, RATE, spoil_by

LANGUAGES = DATA / "languages"
SURE, CLOSE_S = 0.8, 0.2
"""Words above this confidence are to have their edges within this distance."""
TEXTS = 13
"""Texts that are compared: the true one and those of other recordings."""


@dataclass(frozen=True)
class Labelled:
    """A hand-labelled recording: its name, samples (N,) at `RATE`, text and words."""

    name: str
    samples: np.ndarray
    text: Transcript
    words: list[Interval]


def read_labelled(folder: Path) -> list[Labelled]:
    """Return the recordings of a folder, in order of their names."""
    labelled = []
    for audio in sorted((folder / "corpus").rglob("*.wav")):
        name = audio.relative_to(folder / "corpus").with_suffix("").as_posix()
        samples, rate = soundfile.read(audio)
        assert rate == RATE, audio
        words = read_intervals(folder / "reference" / f"{name}.TextGrid", "words")
        labelled.append(
            Labelled(name, samples, Transcript(audio.with_suffix(".txt").read_text("utf-8")), words)
        )
    return labelled


def read_clips(languages: Sequence[str], aligner: Aligner) -> list[Labelled]:
    """Return the clips in some languages, with the words where the aligner puts them in the clean
    clip."""
    labelled = []
    for row in manifest_rows(LANGUAGES / "manifest.jsonl", "test"):
        if row["language"] in languages:
            samples, _ = soundfile.read(LANGUAGES / row["audio"])
            text = Transcript(row["text"], language=row["language"])
            words = intervals_of(aligner.align((samples.astype(np.float32), RATE), text))
            labelled.append(Labelled(row["audio"], samples, text, words))
    return labelled


@functools.cache
def development_speech() -> np.ndarray:
    """Return the clips of the development speakers of the English data, one after another."""
    rows = manifest_rows(split="dev")[::7]
    return np.concatenate([soundfile.read(ENGLISH / row["audio"])[0] for row in rows])


def other_voice(count: int, rng: np.random.Generator) -> np.ndarray:
    """Return (count,) samples of a development speaker."""
    speech = development_speech()
    start = int(rng.integers(len(speech) - count))
    return speech[start : start + count]


def spoil_all(labelled: Sequence[Labelled], condition: str, seed: int) -> list[np.ndarray]:
    """Return the samples of each recording under a condition."""
    sources = [np.random.default_rng((seed, k)) for k in range(len(labelled))]
    return [
        spoil_by(condition, each.samples, rng, other_voice) for each, rng in zip(labelled, sources)
    ]


def intervals_of(alignment: Alignment) -> list[Interval]:
    """Return the words that have times."""
    words = [
        word for word in alignment.words if word.start_s is not None and word.end_s is not None
    ]
    return [Interval(word.start_s or 0.0, word.end_s or 0.0, word.text) for word in words]


def lost_share(alignments: Sequence[Alignment]) -> float:
    """Return the share of words that are not aligned, %."""
    words = [word for alignment in alignments for word in alignment.words]
    return 100.0 * float(np.mean([word.status != "aligned" for word in words]))


def close_share(alignments: Sequence[Alignment], labelled: Sequence[Labelled]) -> float:
    """Return the share of words with a confidence above `SURE` whose edges are both within `CLOSE_S`
    of the labels, %."""
    close = []
    for alignment, each in zip(alignments, labelled):
        labels = [label for label in each.words if label.label.strip()]
        if len(labels) != len(alignment.words):
            continue  # the transcript divides words otherwise than the labels
        for word, label in zip(alignment.words, labels):
            if (word.confidence or 0.0) <= SURE or word.start_s is None or word.end_s is None:
                continue
            error_s = max(abs(word.start_s - label.start_s), abs(word.end_s - label.end_s))
            close.append(error_s <= CLOSE_S)
    return 100.0 * float(np.mean(close or [True]))


def sure_share(alignments: Sequence[Alignment]) -> float:
    """Return the share of words with a confidence above 0.5, %."""
    words = [word for alignment in alignments for word in alignment.words]
    return 100.0 * float(np.mean([(word.confidence or 0.0) > 0.5 for word in words]))


def rank_texts(
    aligner: Aligner, heard: Sequence[Emissions], texts: Sequence[Transcript]
) -> tuple[float, float]:
    """Return how often the true text has the least loss per token of `TEXTS`, %, and the AUC over
    all pairs."""
    pairs = []
    for k, each in enumerate(heard):
        # Several speakers read the same sentence.
        others = [text for text in dict.fromkeys([*texts[k:], *texts[:k]]) if text != texts[k]]
        chosen = others[:: len(others) // (TEXTS - 1)][: TEXTS - 1]
        pairs += [(each, text) for text in [texts[k], *chosen]]
    losses = np.array([alignment.loss_per_token for alignment in aligner.align_batch(pairs)])
    by_recording = losses.reshape(len(heard), TEXTS)
    true, others = by_recording[:, 0], by_recording[:, 1:]
    first = 100.0 * float(np.mean(true < others.min(1)))
    return first, float(np.mean(true[:, None] < others.ravel()[None]))


def main() -> int:
    parser = parser_of(__doc__)
    parser.add_argument("folder", nargs="?", type=Path, default=GOLD)
    parser.add_argument("--model", default="english")
    parser.add_argument("--conditions", default=",".join(CONDITIONS))
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--edges-only", action="store_true", help="only the first three columns")
    parser.add_argument("--languages", default="", help="of clips, instead of hand-labelled speech")
    arguments = parser.parse_args()
    exact = Aligner(arguments.model, device="cpu", settings=Settings(match="exact"))
    found = Aligner(arguments.model, device="cpu", settings=Settings(match="auto"))
    if arguments.languages:
        shipped = Aligner("universal", device="cpu", settings=Settings(match="exact"))
        labelled = read_clips(arguments.languages.split(","), shipped)
    else:
        labelled = read_labelled(arguments.folder)
    texts = [each.text for each in labelled]
    clean_ms = None
    print(
        f"{'condition':12} {'MAE':>6} {'ratio':>6} {'F1':>5} {'lost':>5} {'close':>5} {'wrong':>5} {'first':>5}"
        f" {'AUC':>6}"
    )
    for condition in arguments.conditions.split(","):
        sounds = [(samples, RATE) for samples in spoil_all(labelled, condition, arguments.seed)]
        heard = [
            read_inputs(exact, sound, text, keep_sound=True).emissions
            for sound, text in zip(sounds, texts)
        ]
        aligned = exact.align_batch(list(zip(heard, texts)))
        rows = [
            (each.name, intervals_of(alignment), each.words)
            for each, alignment in zip(labelled, aligned)
        ]
        errors = evaluate_intervals(rows)
        mae_ms = errors.both.mae_ms or np.nan
        clean_ms = clean_ms or mae_ms
        line = (
            f"{condition:12} {mae_ms:6.2f} {mae_ms / clean_ms:6.2f}"
            f" {errors.boundaries['both'].f1 or 0.0:5.3f}"
        )
        if not arguments.edges_only:
            automatic = found.align_batch(list(zip(heard, texts)))
            lost, close = lost_share(automatic), close_share(automatic, labelled)
            wrong = sure_share(found.align_batch(list(zip(heard, texts[5:] + texts[:5]))))
            first, area = rank_texts(exact, heard, texts)
            line += f" {lost:5.1f} {close:5.1f} {wrong:5.1f} {first:5.1f} {area:6.3f}"
        print(line, flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
