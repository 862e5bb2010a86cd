"""Recordings and transcripts that are not exact, made of the development speakers of
`../shared/data/english`.

    case_of("both", seed=1, group="choose")        see `KINDS`, and `inexact_scores.Case`

Clips stay whole and follow one another with 0.2 to 0.7 s of their own room tone; a clip is a line
of the text, three to six of a speaker are a paragraph. True times are those of each clip aligned
alone with its own text (`match="exact"`), moved to its place. Every second speaker is for choosing
constants ("choose"), the others are for figures ("report"). Texts that nobody speaks come from the
training speakers.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np
from inexact_scores import MUSIC, SPEECH, Case, Stretch, TrueWord
from inexact_speech import PAUSE_S, Line, Place, Take, laid_out, timed_takes, unheard_lines

from ctc_align.files.source_cues import clock
from synthetic_sounds import RATE, synthetic_music

GROUPS = ("choose", "report")
PARAGRAPH, CUE_WORDS, CUE_OFF_S, DRIFT = (3, 6), (6, 13), 3.0, 0.01
FOREIGN_S, UNSPOKEN_WORDS, SCENE_S = 240.0, 400, 120.0
DIRECTION = "[applause]"


@dataclass
class Maker:
    """What a case is made of.

    Attributes:
        rng: of the seed.
        takes: clips in a row.
        others: clips of speakers of the same group that are not in `takes`, or of the longest ago.
        unheard: lines of training speakers, in the order of their books.
        music: recordings of music, (N,) float32; none for music made by rules.
    """

    rng: np.random.Generator
    takes: list[Take]
    others: list[Take]
    unheard: list[Line]
    music: Sequence[np.ndarray]

    def paragraphs(self) -> list[list[int]]:
        """Return the places of the takes by paragraphs: three to six of a speaker."""
        found: list[list[int]] = []
        wanted = 0
        for place, take in enumerate(self.takes):
            if (
                not found
                or len(found[-1]) >= wanted
                or self.takes[found[-1][0]].speaker != take.speaker
            ):
                found.append([])
                wanted = int(self.rng.integers(PARAGRAPH[0], PARAGRAPH[1] + 1))
            found[-1].append(place)
        return found

    def some(self, share: float) -> set[int]:
        """Return places of a share of the takes, at least one."""
        count = max(1, round(share * len(self.takes)))
        return set(self.rng.choice(len(self.takes), count, replace=False).tolist())

    def case(self, heard: set[int] | None = None, written: set[int] | None = None) -> Parts:
        """Return the recording of the takes that are heard with the text of those that are written;
        all if None."""
        every = set(range(len(self.takes)))
        heard = every if heard is None else heard
        written = {at for at in (every if written is None else written) if self.takes[at].words}
        samples, laid = laid_out([self.takes[place] for place in sorted(heard)], self.rng)
        places = dict(zip(sorted(heard), laid))
        paragraphs = [
            [
                (
                    places[at].words
                    if at in heard
                    else tuple(word.unspoken() for word in self.takes[at].words)
                )
                for at in paragraph
                if at in written
            ]
            for paragraph in self.paragraphs()
        ]
        foreign = [places[at].stretch for at in sorted(heard - written)]
        return Parts(samples, [lines for lines in paragraphs if lines], foreign)

    def unspoken_words(self, count: int) -> list[TrueWord]:
        """Return consecutive words that are not spoken."""
        at, words = int(self.rng.integers(len(self.unheard))), []  # type: int, list[TrueWord]
        while len(words) < count:
            words += self.unheard[at % len(self.unheard)]
            at += 1
        return words[:count]


@dataclass
class Parts:
    """The recording of a case, and its text as paragraphs of lines of words."""

    samples: np.ndarray
    paragraphs: list[list[Line]]
    foreign: list[Stretch]
    twice: tuple[tuple[Stretch, Stretch], ...] = ()
    focus: frozenset[int] = frozenset()
    cues: tuple[tuple[int, int], ...] = ()
    subtitles: str = ""

    def finished(self, kind: str, seed: int) -> Case:
        """Return the case."""
        words = tuple(word for paragraph in self.paragraphs for line in paragraph for word in line)
        text = "\n\n".join(
            "\n".join(" ".join(word.text for word in line) for line in paragraph)
            for paragraph in self.paragraphs
        )
        text = self.subtitles or text + "\n"
        return Case(
            kind,
            seed,
            self.samples,
            text,
            words,
            tuple(self.foreign),
            self.twice,
            self.focus,
            self.cues,
        )


def clean(maker: Maker) -> Parts:
    """The text is exact."""
    return maker.case()


def clips_missing(maker: Maker) -> Parts:
    """A tenth of the clips are not in the text."""
    return maker.case(written=set(range(len(maker.takes))) - maker.some(0.1))


def text_unspoken(maker: Maker) -> Parts:
    """A tenth of the sentences of the text are not spoken."""
    return maker.case(heard=set(range(len(maker.takes))) - maker.some(0.1))


def both(maker: Maker) -> Parts:
    """A tenth of the clips are not in the text, a tenth of the text is not spoken."""
    silent, every = maker.some(0.1), set(range(len(maker.takes)))
    return maker.case(every - silent, every - (maker.some(0.1) - silent))


def jump(maker: Maker) -> Parts:
    """Four minutes in a row are not in the text; elsewhere four hundred words in a row are not
    spoken."""
    first = int(maker.rng.integers(2, max(3, len(maker.takes) // 3)))
    missing = _row(maker.takes, first, lambda take: take.duration_s, FOREIGN_S)
    begin = max(missing) + 4
    silent = _row(maker.takes, begin, lambda take: len(take.words), UNSPOKEN_WORDS)
    if maker.rng.random() < 0.5:  # the other way round
        last = len(maker.takes) - 1
        missing, silent = {last - at for at in missing}, {last - at for at in silent}
    every = set(range(len(maker.takes)))
    return maker.case(every - silent, every - missing)


def _row(
    takes: Sequence[Take], first: int, size: Callable[[Take], float], wanted: float
) -> set[int]:
    """Return the places of takes in a row of a size, from `first` on."""
    row, total = set(), 0.0
    for place in range(first, len(takes)):
        row.add(place)
        total += size(takes[place])
        if total >= wanted:
            break
    return row


def four_times(maker: Maker) -> Parts:
    """The text is four times as long as what is spoken: a book beside one of its chapters."""
    parts = maker.case()
    wanted = 3 * sum(len(line) for paragraph in parts.paragraphs for line in paragraph)
    before = round(wanted * maker.rng.uniform(0.1, 0.9))
    parts.paragraphs[:0] = _unspoken_paragraphs(maker, before)
    parts.paragraphs += _unspoken_paragraphs(maker, wanted - before)
    return parts


def _unspoken_paragraphs(maker: Maker, count: int) -> list[list[Line]]:
    """Return paragraphs of `count` words that nobody speaks."""
    words, paragraphs = maker.unspoken_words(count), []
    while words:
        line = tuple(words[: int(maker.rng.integers(8, 40))])
        del words[: len(line)]
        if not paragraphs or len(paragraphs[-1]) >= PARAGRAPH[1]:
            paragraphs.append([])
        paragraphs[-1].append(line)
    return paragraphs


def swapped(maker: Maker) -> Parts:
    """Two paragraphs, one to three apart, are swapped in the text, and only their words are
    counted."""
    parts = maker.case()
    first = int(maker.rng.integers(0, len(parts.paragraphs) - 3))
    second = first + int(maker.rng.integers(1, 4))
    own = parts.paragraphs
    own[first], own[second] = own[second], own[first]
    starts = np.cumsum([0, *(sum(map(len, paragraph)) for paragraph in own)]).tolist()
    counted = [*range(starts[first], starts[first + 1]), *range(starts[second], starts[second + 1])]
    return replace(parts, focus=frozenset(counted))


def runs(maker: Maker) -> Parts:
    """Runs of four to nine words are missing in the text, or added to it: one in sixty words."""
    return _changed(maker, 60, _changed_run)


def _changed_run(maker: Maker, words: list[TrueWord], at: int, foreign: list[Stretch]) -> None:
    length = int(maker.rng.integers(4, 10))
    if maker.rng.random() < 0.5:
        _added(maker, words, at, length)
    else:
        _dropped(words, at, min(at + length, len(words)), foreign)


def single_words(maker: Maker) -> Parts:
    """Single words are added to the text: one in fifty."""
    return _changed(maker, 50, lambda maker, words, at, foreign: _added(maker, words, at, 1))


def loose(maker: Maker) -> Parts:
    """Of a hundred words eight are replaced, dropped or inserted."""
    return _changed(maker, 100 / 8, _changed_word)


def _changed_word(maker: Maker, words: list[TrueWord], at: int, foreign: list[Stretch]) -> None:
    what = int(maker.rng.integers(3))
    if what < 2:
        _dropped(words, at, at + 1, foreign)
    if what > 0:
        _added(maker, words, at, 1)


def _changed(
    maker: Maker, every: float, change: Callable[[Maker, list[TrueWord], int, list[Stretch]], None]
) -> Parts:
    """Return the exact case with a change at one in `every` words, at places that are drawn."""
    parts = maker.case()
    for paragraph in parts.paragraphs:
        for number, line in enumerate(paragraph):
            words = list(line)
            for at in range(len(line) - 1, -1, -1):
                if maker.rng.random() < 1 / every:
                    change(maker, words, at, parts.foreign)
            paragraph[number] = tuple(words)
    parts.foreign.sort(key=lambda each: each.start_s)
    return parts


def _added(maker: Maker, words: list[TrueWord], at: int, count: int) -> None:
    """Insert words that are not spoken. Of the same word twice in a row either may be the one that
    is spoken."""
    extra = maker.unspoken_words(count)
    if at < len(words) and _same(extra[0], words[at]):
        extra[0] = words[at]
    if at and _same(extra[-1], words[at - 1]):
        extra[-1] = words[at - 1]
    words[at:at] = extra


def _same(one: TrueWord, other: TrueWord) -> bool:
    return one.text.rstrip(".").casefold() == other.text.rstrip(".").casefold()


def _dropped(words: list[TrueWord], first: int, last: int, foreign: list[Stretch]) -> None:
    """Delete words that are spoken."""
    edges = [edge for word in words[first:last] for place in word.places for edge in place]
    if edges:
        foreign.append(
            Stretch(
                SPEECH, min(edges), max(edges), min(edges) - PAUSE_S[0], max(edges) + PAUSE_S[0]
            )
        )
    del words[first:last]


def front_matter(maker: Maker) -> Parts:
    """The text begins with 150 to 400 words of front matter, the recording with an introduction by
    another speaker."""
    intro = maker.others[: int(maker.rng.integers(2, 6))]
    maker.takes[:0] = intro
    parts = maker.case(written=set(range(len(intro), len(maker.takes))))
    parts.paragraphs[:0] = _unspoken_paragraphs(maker, int(maker.rng.integers(150, 401)))
    return parts


def music(maker: Maker) -> Parts:
    """Between some paragraphs there are 20 to 60 s of music, as loud as the speech."""
    heard: list[Take] = []
    for number, paragraph in enumerate(maker.paragraphs()):
        if number % 4 == 2:
            heard.append(_music(maker, heard[-1]))
        heard += [maker.takes[at] for at in paragraph]
    maker.takes = heard
    return maker.case()


def _music(maker: Maker, beside: Take) -> Take:
    length = round(RATE * maker.rng.uniform(20, 60))
    if maker.music:
        whole = maker.music[int(maker.rng.integers(len(maker.music)))]
        first = int(maker.rng.integers(0, max(len(whole) - length, 0) + 1))
        sound = whole[first : first + length]
    else:
        sound = synthetic_music(length, maker.rng)
    level = np.sqrt((beside.samples**2).mean() / max(float((sound**2).mean()), 1e-12))
    return Take((sound * level).astype(np.float32), (), f"{beside.speaker} music", MUSIC)


def read_twice(maker: Maker) -> Parts:
    """One paragraph in six is read twice in a row, the second time 4 % faster; either reading is
    right."""
    paragraphs = maker.paragraphs()
    chosen = set(range(1, len(paragraphs), 6))
    order = [
        (at, again)
        for n, own in enumerate(paragraphs)
        for again in range(1 + (n in chosen))
        for at in own
    ]
    takes = [_faster(maker.takes[at]) if again else maker.takes[at] for at, again in order]
    samples, laid = laid_out(takes, maker.rng)
    by_take: dict[int, list[Place]] = {}
    for (at, _), place in zip(order, laid):
        by_take.setdefault(at, []).append(place)
    lines = [[_either([place.words for place in by_take[at]]) for at in own] for own in paragraphs]
    twice = tuple(
        (
            _whole([by_take[at][0] for at in paragraphs[n]]),
            _whole([by_take[at][1] for at in paragraphs[n]]),
        )
        for n in sorted(chosen)
    )
    return Parts(samples, lines, [], twice)


def _faster(take: Take) -> Take:
    import soxr

    samples = soxr.resample(take.samples, 100, 96).astype(np.float32)
    ratio = len(samples) / len(take.samples)
    return replace(
        take,
        samples=samples,
        words=tuple(
            replace(w, places=tuple((a * ratio, b * ratio) for a, b in w.places))
            for w in take.words
        ),
    )


def _either(readings: Sequence[Line]) -> Line:
    return tuple(
        replace(same[0], places=tuple(p for word in same for p in word.places))
        for same in zip(*readings)
    )


def _whole(places: Sequence[Place]) -> Stretch:
    first, last = places[0], places[-1]
    return Stretch(
        SPEECH, first.stretch.start_s, last.stretch.end_s, first.outer_start_s, last.outer_end_s
    )


def srt_offset(maker: Maker) -> Parts:
    """The times of the cues are wrong by up to three seconds, each by its own."""
    return _subtitles(maker, lambda time_s: time_s + maker.rng.uniform(-CUE_OFF_S, CUE_OFF_S))


def srt_drift(maker: Maker) -> Parts:
    """The times of the cues run too slowly by a hundredth."""
    return _subtitles(maker, lambda time_s: time_s * (1 + DRIFT))


def srt_cut(maker: Maker) -> Parts:
    """The subtitles are of another version: two minutes of it are cut, and elsewhere two minutes
    have no cues."""
    third = len(maker.takes) // 3
    every = set(range(len(maker.takes)))
    cut = _row(maker.takes, third, lambda take: take.duration_s, SCENE_S)
    new = _row(maker.takes, max(max(cut), 2 * third) + 1, lambda take: take.duration_s, SCENE_S)
    return _subtitles(maker, lambda time_s: time_s, every - cut, every - new)


def _subtitles(
    maker: Maker,
    shown: Callable[[float], float],
    heard: set[int] | None = None,
    written: set[int] | None = None,
) -> Parts:
    """Return a case whose text is an SRT file; `shown` makes a cue's time of the time in the
    version that has all the takes written."""
    every = set(range(len(maker.takes)))
    parts = maker.case(heard, written)
    theirs = [maker.takes[at] for at in sorted(every if written is None else written)]
    shift_s, blocks, cues, words = (
        0.0,
        [],
        [],
        [],
    )  # type: float, list[str], list[tuple[int, int]], list[TrueWord]
    for take, line in zip(theirs, (line for paragraph in parts.paragraphs for line in paragraph)):
        at = 0
        while at < len(line):
            if len(cues) % 25 == 12:
                start_s = shift_s + take.words[at].places[0][0] - 0.05
                blocks.append(_cue(len(cues), shown(start_s), 0.04, DIRECTION))
                cues.append((len(words), len(words) + 1))
                words.append(TrueWord(DIRECTION, direction=True))
            last = min(at + int(maker.rng.integers(*CUE_WORDS)), len(line))
            last = len(line) if len(line) - last < 3 else last
            own = [word.text for word in line[at:last]]
            start_s, end_s = (
                shift_s + take.words[at].places[0][0],
                shift_s + take.words[last - 1].places[0][1],
            )
            text = (
                " ".join(own)
                if len(own) < 7
                else " ".join(own[: len(own) // 2]) + "\n" + " ".join(own[len(own) // 2 :])
            )
            blocks.append(_cue(len(cues), shown(start_s), end_s - start_s, text))
            cues.append((len(words), len(words) + last - at))
            words += line[at:last]
            at = last
        shift_s += take.duration_s + sum(PAUSE_S) / 2
    return replace(parts, paragraphs=[[tuple(words)]], cues=tuple(cues), subtitles="".join(blocks))


def _cue(number: int, start_s: float, lasts_s: float, text: str) -> str:
    start_ms = max(0, round(start_s * 1000))
    return (
        f"{number + 1}\n{clock(start_ms, ',')} -->"
        f" {clock(start_ms + round(lasts_s * 1000), ',')}\n{text}\n\n"
    )


KINDS: dict[str, Callable[[Maker], Parts]] = {
    made.__name__: made
    for made in (
        *(
            clean,
            clips_missing,
            text_unspoken,
            both,
            jump,
            four_times,
            swapped,
            runs,
            loose,
            front_matter,
            music,
        ),
        *(read_twice, single_words, srt_offset, srt_drift, srt_cut),
    )
}


def case_of(
    kind: str,
    seed: int = 0,
    group: str = "choose",
    minutes: float = 20.0,
    music: Sequence[np.ndarray] = (),
    model: str = "english",
) -> Case:
    """Return the case of a seed.

    Args:
        kind: one of `KINDS`.
        seed: any number.
        group: of speakers: "choose", "report", or "all" (for recordings of more than 20 minutes).
        minutes: of clips that a recording is made of, at most; at most those that the group has.
        music: recordings for the kind "music".
        model: whose alignments of the single clips are the truth, as for
            `inexact_speech.timed_takes`.
    """
    rng = np.random.default_rng([seed, list(KINDS).index(kind), (*GROUPS, "all").index(group)])
    speech = timed_takes(model)
    speakers = sorted(speech) if group == "all" else sorted(speech)[GROUPS.index(group) :: 2]
    rng.shuffle(speakers)
    short = min(speakers, key=lambda speaker: sum(take.duration_s for take in speech[speaker]))
    takes, left_s = [], 60 * minutes
    for speaker in speakers:
        for take in speech[speaker] if speaker != short else ():
            if left_s > 0:
                takes.append(take)
                left_s -= take.duration_s
    return KINDS[kind](
        Maker(rng, takes, list(speech[short]), list(unheard_lines()), music)
    ).finished(kind, seed)
