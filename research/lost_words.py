"""Words lost by `auto` where pronunciations are poor, and texts that are not spoken and get times.

    python research/lost_words.py [--model universal] [--wrong 0,15,30] [--match auto]

Clips of ../shared/data/languages, without the speakers kept for checks from outside: each with its
own text and with that of another clip of its language, of whose phones a share is wrong (replaced,
left out or added), as if the model had not met the language. Then the words spoken alone of
../shared/data/gold-languages, each with its own phones and with those of another word of its
language. Then texts of the model `english` in noise without speech. In percent: words without
times, texts whose fit is `none`, and texts with a word whose confidence is above 0.5.
"""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from gold_languages import FOLDER, phones_of
from measuring import DATA, ENGLISH, manifest_rows, parser_of

from ctc_align.alignment.aligner import Aligner, pronounce_transcript
from ctc_align.config import Settings
from ctc_align.models import load_model
from ctc_align.types import NONE, Alignment

LANGUAGES = DATA / "languages"
CHOSEN_ON = ["ar", "de", "es", "fr", "it", "ja", "ru", "tr"]
"""The languages on whose clips the limit of `ctc_align.alignment.fit.is_heard` was chosen."""
Phones = list[tuple[str, ...]]
"""Of each word of a text."""


def clips(model: str) -> list[tuple[str, Path, Phones]]:
    """Return language, recording and text of each clip."""
    held_out = {
        line.split("\t")[1]
        for line in (LANGUAGES / "held_out_speakers.tsv").read_text().splitlines()
    }
    rows = [
        row for row in manifest_rows(LANGUAGES / "manifest.jsonl") if row["speaker"] not in held_out
    ]
    aligner, found = Aligner(model, device="cpu"), []
    for row in rows:
        if row["source"] != "kerstin_de":
            reader = aligner.with_settings(Settings(language=row["language"]))
            own = pronounce_transcript(reader, row["text"], row["audio"])[1]
            phones = [word.pronunciations[0].labels for word in own if word.pronunciations]
            if len(phones) > 1:
                found.append((row["language"], LANGUAGES / row["audio"], phones))
    return found


def single_words() -> list[tuple[str, Path, Phones]]:
    """Return language, recording and phones of each word spoken alone."""
    rows = manifest_rows(FOLDER / "reference.jsonl")
    return [(row["language"], FOLDER / row["audio"], [sum(phones_of(row), ())]) for row in rows]


def spoiled(text: Phones, share: float, sounds: Sequence[str], rng: np.random.Generator) -> Phones:
    """Return a text with a share of its phones replaced (three of five), left out or followed by
    another."""

    def phones(phone: str) -> tuple[str, ...]:
        other, kind = str(rng.choice(sounds)), rng.random() / max(share, 1e-9)
        return (
            (phone,)
            if kind > 1
            else (other,)
            if kind < 0.6
            else ()
            if kind < 0.8
            else (phone, other)
        )

    return [sum(map(phones, word), ()) or (str(rng.choice(sounds)),) for word in text]


def aligned(model: str, match: str, rows: Sequence[tuple[Path, Phones]]) -> list[Alignment]:
    """Return the alignments of recordings and texts, whose words are entries of a lexicon, named by
    letters."""
    names = {word: "w" + f"{k:06d}".translate({48 + d: 97 + d for d in range(10)}) for k, word in enumerate(
        dict.fromkeys(word for _, text in rows for word in text))}  # fmt: skip
    with tempfile.TemporaryDirectory() as folder:
        lexicon = Path(folder) / "phones.dict"
        lexicon.write_text(
            "".join(f"{name}\t{' '.join(word)}\n" for word, name in names.items()), "utf-8"
        )
        aligner = Aligner(
            model, device="cpu", lexicon=lexicon, settings=Settings(language="und", match=match)
        )
    pairs = [(str(audio), " ".join(names[word] for word in text)) for audio, text in rows]
    return list(aligner.align_batch(pairs, "raise"))


def show(name: str, found: Sequence[Alignment]) -> None:
    """Print the share of the words without times, and of the texts that are not there at all."""
    words = [word for each in found for word in each.words]
    lost = 100 * np.mean([word.start_s is None for word in words])
    absent = 100 * np.mean([each.fit == NONE for each in found])
    sure = 100 * np.mean(
        [any((word.confidence or 0.0) > 0.5 for word in each.words) for each in found]
    )
    counts = (
        f"{len(words):5d} words, {lost:5.1f} without times; {len(found):4d} texts, {absent:5.1f}"
        f" none, {sure:5.1f} sure"
    )
    print(f"{name:36s} {counts}")


def in_noise(count: int) -> list[Alignment]:
    """Return the alignments of texts of `count` words and 4 s of white noise; a filter of the noise
    changes little."""
    rng, aligner = np.random.default_rng(1), Aligner("english", device="cpu")
    words = " ".join(
        row["text"] for row in manifest_rows(ENGLISH / "manifest.jsonl") if row["split"] == "dev"
    ).split()
    noises = rng.normal(0.0, 0.05, (200, 64000)).astype(np.float32)
    pairs = [((noise, 16000), " ".join(rng.choice(words, count))) for noise in noises]
    return list(aligner.align_batch(pairs, "raise"))


def main() -> int:
    parser = parser_of(__doc__)
    parser.add_argument("--model", default="universal")
    parser.add_argument("--match", default="auto")
    parser.add_argument("--wrong", default="0,15,30", help="percent of the phones")
    given = parser.parse_args()
    rng = np.random.default_rng(1)
    sounds = load_model(given.model, device="cpu").vocab[1:]
    for kind, rows in (("clips", clips(given.model)), ("words", single_words())):
        for share in given.wrong.split(",") if kind == "clips" else ("0",):
            own = [spoiled(text, int(share) / 100, sounds, rng) for _, _, text in rows]
            places: dict[str, list[int]] = {}
            for place, (language, _, _) in enumerate(rows):
                places.setdefault(language, []).append(place)
            other = [
                own[int(rng.choice([k for k in places[rows[n][0]] if k != n]))]
                for n in range(len(rows))
            ]
            for whose, texts in (("own", own), ("another's", other)):
                found = aligned(
                    given.model, given.match, [(row[1], text) for row, text in zip(rows, texts)]
                )
                for chosen in (True, False) if kind == "clips" else (False,):
                    part = [
                        each for each, row in zip(found, rows) if (row[0] in CHOSEN_ON) == chosen
                    ]
                    seen = ", chosen on" if chosen else ""
                    show(f"{kind}, {whose}, {share} % wrong{seen}", part)
    for count in (10, 20):
        show(f"noise, {count} words", in_noise(count))
    return 0


if __name__ == "__main__":
    sys.exit(main())
