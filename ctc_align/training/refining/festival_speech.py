"""Speech whose edges are known: sentences that Festival puts together from diphones, with the time of each phone.

People who label edges differ by 10 to 20 ms; Festival decides where an edge is, and then makes the sound. One process
speaks many sentences: a script in Festival's Scheme sets the voice, rate and pitch of each, saves its samples, and
prints its relations, which `parse_relations` reads:

    utterance 0                     the number of the reading
    token cat 1                     a written word and its place
    word cat 1                      what is said for it (several where Festival expands it)
    segment k 0.312500 1            a phone, its end in seconds, and the place of its word; 0: of none (a pause)

The voices are free for any use: kal and ked are diphones of two men (their packages' licences are MIT-like), slt is an
HMM voice of a woman whose sound comes from a vocoder (edges at multiples of 5 ms; its pitch cannot be set).
"""

from __future__ import annotations

import re
import shutil
import subprocess
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from ctc_align.errors import UsageError, one_line
from ctc_align.text.arpabet import PHONES
from ctc_align.text.textgrid_files import Interval

RATE = 16000
"""Samples per second of all sound here."""
STRETCHES = (0.75, 1.15)
PITCHES_HZ = (90.0, 180.0)
FACTORS = (0.9, 1.25)
"""Ranges of the three changes; a factor above 1 makes speech faster and higher, formants too."""
FEWEST_WORDS, MOST_WORDS = 5, 14

_OTHER_NAMES = {"ax": "AH", "axr": "ER", "dx": "T", "hv": "HH", "nx": "N"}
_SILENCES = ("pau", "h#", "brth", "sil")
_PLAIN = re.compile(r"[a-z]+(?:'[a-z]+)*")
_CONJUNCTIONS = ("and", "but", "or", "nor", "for", "yet", "so", "as", "because", "if", "unless", "although", "though")
_RELATIVES = ("that", "which", "who", "whom", "whose", "when", "where", "while")
_CLAUSE_STARTS = frozenset((*_CONJUNCTIONS, *_RELATIVES))
_SPREAD_OF_PITCH = 0.135
_SCRIPT = "readings.scm"
_INSTALL = "apt install festival festvox-kallpc16k festvox-kdlpc16k"


@dataclass(frozen=True)
class Voice:
    """A voice of Festival: its name there, Debian's package, and if it is one of diphones, whose pitch can be set."""

    name: str
    package: str
    is_diphone: bool = True


VOICES = {
    "kal": Voice("kal_diphone", "festvox-kallpc16k"),
    "ked": Voice("ked_diphone", "festvox-kdlpc16k"),
    "slt": Voice("cmu_us_slt_arctic_hts", "festvox-us-slt-hts", is_diphone=False),
}


@dataclass(frozen=True)
class Reading:
    """A sentence to be spoken: plain lower-case words, by a key of `VOICES`.

    `stretch` is Festival's factor of all durations, `pitch_hz` the mean pitch.
    """

    text: str
    voice: str = "kal"
    stretch: float = 1.0
    pitch_hz: float = 105.0


@dataclass(frozen=True)
class SpokenWord:
    """A word and its phones, `phones[first:end]` of its sentence."""

    text: str
    start_s: float
    end_s: float
    first: int
    end: int


@dataclass(frozen=True)
class Timing:
    """The phones (the 39 of CMUdict, without stress) and words of a sentence; pauses are gaps between them."""

    phones: tuple[Interval, ...]
    words: tuple[SpokenWord, ...]

    def faster(self, factor: float) -> Timing:
        """Return the timing of the same speech played `factor` times as fast."""
        return Timing(
            tuple(Interval(p.start_s / factor, p.end_s / factor, p.label) for p in self.phones),
            tuple(replace(w, start_s=w.start_s / factor, end_s=w.end_s / factor) for w in self.words),
        )


@dataclass(frozen=True)
class SpokenSentence:
    """A reading as it was spoken: samples (N,) float32 at `RATE`, in Festival's own loudness, and their timing."""

    reading: Reading
    samples: np.ndarray
    timing: Timing
    factor: float = 1.0


def clauses(texts: Iterable[str], count: int, seed: int = 0) -> list[str]:
    """Return `count` different clauses of 5 to 14 plain words from transcripts, lower-case.

    Transcripts of books have no punctuation: a clause starts at their first word or at a conjunction.

    Raises:
        UsageError: the texts have fewer clauses.

    >>> clauses(["HE KNEW IT ALL VERY WELL BUT SHE DID NOT WISH TO HEAR"], 2)
    ['but she did not wish to hear', 'he knew it all very well']
    """
    found = sorted({clause for text in texts for clause in _clauses_of(text.lower().split())})
    if len(found) < count:
        raise UsageError(f"expected transcripts with {count} clauses of plain words, got {len(found)}: give more text")
    order = np.random.default_rng(seed).permutation(len(found))[:count]
    return [found[place] for place in order]


def _clauses_of(words: Sequence[str]) -> Iterator[str]:
    starts = [place for place, word in enumerate(words) if place == 0 or word in _CLAUSE_STARTS]
    first = 0
    for start in (*starts[1:], len(words)):
        if start - first < FEWEST_WORDS:
            continue
        clause = words[first:start][:MOST_WORDS]
        if all(_PLAIN.fullmatch(word) for word in clause):
            yield " ".join(clause)
        first = start


def varied(texts: Iterable[str], voice: str, seed: int = 0) -> list[Reading]:
    """Return a reading of each text with a random stretch and, on a logarithmic scale, pitch."""
    rng = np.random.default_rng(seed)
    low, high = np.log(PITCHES_HZ)
    return [
        Reading(text, voice, round(float(rng.uniform(*STRETCHES)), 3), round(float(np.exp(rng.uniform(low, high))), 1))
        for text in texts
    ]


def speak(readings: Sequence[Reading]) -> Iterator[SpokenSentence]:
    """Yield what Festival makes of the readings, in order, without those that it does not read word by word.

    Such are sentences with numbers or abbreviations, which it expands.

    Raises:
        UsageError: Festival or a voice is not installed, a text that is not plain lower-case words, or Festival failed.
    """
    import soundfile
    import soxr

    script = _script(readings)
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / _SCRIPT).write_text(script, encoding="ascii")
        printed = _run_festival(folder)
        for number, timing in parse_relations(printed, [reading.text for reading in readings]):
            samples, rate = soundfile.read(Path(folder) / f"{number}.wav", dtype="float32")
            if rate != RATE:
                samples = soxr.resample(samples, rate, RATE)
            yield SpokenSentence(readings[number], samples.astype(np.float32), timing)


def resampled(sentence: SpokenSentence, factor: float) -> SpokenSentence:
    """Return the sentence played `factor` times as fast: pitch, formants and rate change together, edges scale."""
    import soxr

    samples = soxr.resample(sentence.samples, RATE * factor, RATE, quality="VHQ")
    timing = sentence.timing.faster(factor)
    return replace(sentence, samples=samples.astype(np.float32), timing=timing, factor=sentence.factor * factor)


def _run_festival(folder: str) -> str:
    """Return what the script in `folder` prints; it writes its sounds there."""
    if shutil.which("festival") is None:
        raise UsageError(f"Festival is not installed, which makes the speech; install it: {_INSTALL}")
    ran = subprocess.run(
        ["festival", "--batch", _SCRIPT], cwd=folder, capture_output=True, encoding="utf-8", errors="replace"
    )
    missing = re.search(r"^missing (\S+)$", ran.stdout, re.MULTILINE)
    if missing:
        packages = {voice.name: voice.package for voice in VOICES.values()}
        raise UsageError(
            f"Festival's voice {missing[1]} is not installed; install it: apt install {packages[missing[1]]} "
            f"(all: {_INSTALL})"
        )
    if ran.returncode != 0 or "SIOD ERROR" in ran.stderr + ran.stdout:
        said = one_line(RuntimeError(ran.stderr or ran.stdout[-200:]))
        raise UsageError(f"Festival failed with status {ran.returncode}: {said}; run `festival` to see if it works")
    return ran.stdout


_RELATIONS = """
(define (needs voice) (if (not (member_string voice (voice.list))) (begin (format t "missing %s\\n" voice) (quit))))
(define (speak number utt file)
  (utt.synth utt)
  (format t "utterance %d\\n" number)
  (set! place 0)
  (mapcar (lambda (token)
    (if (null (item.parent token))
      (begin
        (set! place (+ place 1))
        (item.set_feat token "place" place)
        (format t "token %s %d\\n" (item.name token) place)))) (utt.relation.items utt 'Token))
  (mapcar (lambda (word)
    (format t "word %s %d\\n" (item.name word) (item.feat word "R:Token.parent.place"))) (utt.relation.items utt 'Word))
  (mapcar (lambda (segment)
    (format t "segment %s %f %d\\n" (item.name segment) (item.feat segment 'end)
      (item.feat segment "R:SylStructure.parent.parent.R:Token.parent.place"))) (utt.relation.items utt 'Segment))
  (utt.save.wave utt file 'riff))
"""


def _script(readings: Sequence[Reading]) -> str:
    lines = [_RELATIONS]
    names = {key: VOICES[key].name for key in dict.fromkeys(reading.voice for reading in readings) if key in VOICES}
    lines += [f'(needs "{name}")' for name in names.values()]
    for number, reading in enumerate(readings):
        if reading.voice not in names:
            raise UsageError(f"expected one of the voices {', '.join(VOICES)}, got {reading.voice!r}")
        if not reading.text or not all(_PLAIN.fullmatch(word) for word in reading.text.split(" ")):
            raise UsageError(f"expected plain lower-case words, got {reading.text[:60]!r}: leave such sentences out")
        lines.append(f"(voice_{names[reading.voice]})")
        lines += _settings(reading)
        lines.append(f'(speak {number} (Utterance Text "{reading.text}") "{number}.wav")')
    return "\n".join(lines) + "\n"


def _settings(reading: Reading) -> list[str]:
    """Return the lines that set rate and pitch; `model_f0_…` are those of the speaker whom Festival's model is of."""
    if not VOICES[reading.voice].is_diphone:
        return [f'(set! hts_engine_params (append hts_engine_params \'(("-r" {1 / reading.stretch:.4f}))))']
    mean_hz, spread_hz = reading.pitch_hz, reading.pitch_hz * _SPREAD_OF_PITCH
    return [
        f"(Parameter.set 'Duration_Stretch {reading.stretch:.4f})",
        f"(set! int_lr_params '((target_f0_mean {mean_hz:.2f}) (target_f0_std {spread_hz:.2f}) "
        "(model_f0_mean 170) (model_f0_std 34)))",
    ]


def parse_relations(printed: str, texts: Sequence[str]) -> Iterator[tuple[int, Timing]]:
    """Yield the number and the timing of each sentence that was read word by word, from what the script printed.

    A phone that belongs to no word and is no pause is a part of the one before it: ked says ER as `er r`.

    Args:
        printed: lines as in the module's description.
        texts: the sentences, by number.

    >>> lines = ["utterance 0", "token a 1", "word a 1", "segment pau 0.2 0", "segment ax 0.3 1", "segment pau 0.5 0"]
    >>> list(parse_relations(chr(10).join(lines), ["a"]))[0][1].phones
    (Interval(start_s=0.2, end_s=0.3, label='AH'),)
    """
    for block in re.split(r"^utterance ", printed, flags=re.MULTILINE)[1:]:
        number, *lines = block.splitlines()
        timing = _timing([line.split() for line in lines], texts[int(number)].split())
        if timing is not None:
            yield int(number), timing


def _timing(rows: list[list[str]], words: list[str]) -> Timing | None:
    """Return the timing, or None where Festival says other words or phones than those of `words`."""
    said = [""] * len(words)
    tokens = [name for kind, name, *_ in rows if kind == "token"]
    if tokens != words:
        return None
    for name, place in ((row[1], int(row[2])) for row in rows if row[0] == "word"):
        said[place - 1] += name
    segments = [(row[1], float(row[2]), int(row[3])) for row in rows if row[0] == "segment"]
    phones, places = _phones(segments)
    if [word.lower() for word in said] != words or any(phone.label not in PHONES for phone in phones):
        return None
    if places != sorted(places) or set(places) != set(range(1, len(words) + 1)):
        return None
    spoken = []
    for place, word in enumerate(words, 1):
        first, end = places.index(place), places.index(place) + places.count(place)
        spoken.append(SpokenWord(word, phones[first].start_s, phones[end - 1].end_s, first, end))
    return Timing(tuple(phones), tuple(spoken))


def _phones(segments: list[tuple[str, float, int]]) -> tuple[list[Interval], list[int]]:
    """Return the phones, and for each the place of its word."""
    phones: list[Interval] = []
    places: list[int] = []
    start_s = 0.0
    for name, end_s, place in segments:
        if name not in _SILENCES:
            if place == 0 and phones:
                phones[-1] = replace(phones[-1], end_s=end_s)
            else:
                phones.append(Interval(start_s, end_s, _OTHER_NAMES.get(name, name.upper())))
                places.append(place)
        start_s = end_s
    return phones, places
