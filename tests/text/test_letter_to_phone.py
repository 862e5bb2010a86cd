"""English spellings to phones: known words exactly, rules of apostrophes and initials, unknown words sensibly."""

from __future__ import annotations

import gzip
import threading

import numpy as np
import pytest
from rows import over_rows

from ctc_align.text.letter_network import likeliest
from ctc_align.text.letter_to_phone import EXCEPTIONS, FOLDER, WEIGHTS, LetterToPhone, fold
from ctc_align.text.phone_sets import ARPABET_PHONES

# Typed by hand from the sound of the words; the first pronunciation of each.
COMMON = """
the DH AH; a AH; of AH V; to T UW; and AH N D; in IH N; is IH Z; it IH T; you Y UW; that DH AE T; he HH IY; was W AA Z;
for F AO R; on AA N; are AA R; with W IH DH; as AE Z; i AY; his HH IH Z; they DH EY; be B IY; at AE T; one W AH N;
have HH AE V; this DH IH S; from F R AH M; or AO R; had HH AE D; by B AY; not N AA T; but B AH T; what W AH T; all AO L;
were W ER; we W IY; when W EH N; your Y AO R; can K AE N; said S EH D; there DH EH R; use Y UW S; an AE N; each IY CH;
which W IH CH; she SH IY; do D UW; how HH AW; their DH EH R; if IH F; will W IH L; up AH P; other AH DH ER;
about AH B AW T; out AW T; many M EH N IY; then DH EH N; them DH EH M; these DH IY Z; so S OW; some S AH M; her HH ER;
would W UH D; make M EY K; like L AY K; him HH IH M; into IH N T UW; time T AY M; has HH AE Z; look L UH K; two T UW;
more M AO R; write R AY T; go G OW; see S IY; number N AH M B ER; no N OW; way W EY; could K UH D; people P IY P AH L;
my M AY; than DH AE N; first F ER S T; water W AO T ER; been B IH N; call K AO L; who HH UW; oil OY L; its IH T S;
now N AW; find F AY N D; long L AO NG; down D AW N; day D EY; did D IH D; get G EH T; come K AH M; made M EY D;
may M EY; part P AA R T; over OW V ER; three TH R IY; four F AO R; five F AY V; six S IH K S; seven S EH V AH N;
eight EY T; nine N AY N; ten T EH N; eleven IH L EH V AH N; twelve T W EH L V; hundred HH AH N D R AH D; new N UW;
sound S AW N D; take T EY K; only OW N L IY; little L IH T AH L; work W ER K; know N OW; place P L EY S; year Y IH R;
live L AY V; me M IY; give G IH V; our AW ER; under AH N D ER; thought TH AO T; through TH R UW; though DH OW;
enough IH N AH F; colonel K ER N AH L; island AY L AH N D; answer AE N S ER; once W AH N S; women W IH M AH N;
does D AH Z; don't D OW N T; can't K AE N T; i'm AY M; it's IH T S; you're Y UH R; we'll W IY L; o'clock AH K L AA K
"""


@pytest.fixture(scope="module")
def speaker() -> LetterToPhone:
    return LetterToPhone.load()


def said(speaker: LetterToPhone, word: str, best: int = 2) -> list[str]:
    return [" ".join(phones) for phones in speaker.pronounce([word], best)[0]]


def test_common_words(speaker: LetterToPhone) -> None:
    wanted = dict(entry.split(maxsplit=1) for entry in COMMON.replace("\n", " ").strip().split(";"))
    assert len(wanted) >= 100
    found = {word: said(speaker, word)[0] for word in wanted}
    assert found == wanted


@over_rows(
    ("word", "wanted"),
    [
        ("the", ["DH AH", "DH IY"]),
        ("a", ["AH", "EY"]),
        ("to", ["T UW", "T IH", "T AH"]),
        ("read", ["R EH D", "R IY D"]),
        ("of", ["AH V"]),
        ("cat", ["K AE T"]),
    ],
)
def test_all_pronunciations_of_known_words_and_no_others(speaker: LetterToPhone, word: str, wanted: list[str]) -> None:
    assert said(speaker, word) == wanted


FIRST = """
b B IY;c S IY;f EH F;h EY CH;s EH S;u Y UW;w D AH B AH L Y UW;x EH K S;y W AY;z Z IY;bbc B IY B IY S IY;
html EY CH T IY EH M EH L;xzq EH K S Z IY K Y UW;blick B L IH K;flim F L IH M;sprunter S P R AH N T ER;ploot P L UW T
"""


def test_letters_have_names_initials_are_spelt_and_plain_unknown_words_are_read(speaker: LetterToPhone) -> None:
    wanted = dict(entry.split(maxsplit=1) for entry in FIRST.replace("\n", " ").strip().split(";"))
    assert {word: said(speaker, word)[0] for word in wanted} == wanted


@over_rows(
    ("word", "like", "ending"),
    [
        ("zorbgat's", "zorbgat", " S"),
        ("zorbgab's", "zorbgab", " Z"),
        ("zorbgash's", "zorbgash", " IH Z"),
        ("zorbgat'd", "zorbgat", " IH D"),
        ("zorbgab'd", "zorbgab", " D"),
        ("zorbgab'll", "zorbgab", " AH L"),
        ("zorbgab've", "zorbgab", " AH V"),
        ("zorbgab're", "zorbgab", " ER"),
        ("zorbgabs'", "zorbgabs", ""),
        ("'zorbgab", "zorbgab", ""),
        ("''zorbgab''", "zorbgab", ""),
    ],
)
def test_apostrophes_of_unknown_words(speaker: LetterToPhone, word: str, like: str, ending: str) -> None:
    assert said(speaker, word) == [phones + ending for phones in said(speaker, like)]


@over_rows(
    ("word", "wanted"),
    [("'tis", "T IH Z"), ("john's", "JH AA N Z"), ("church's", "CH ER CH AH Z"), ("dogs'", "D AO G Z")],
)
def test_apostrophes_of_known_words(speaker: LetterToPhone, word: str, wanted: str) -> None:
    assert wanted in said(speaker, word)


@over_rows(
    ("word", "letters", "missing"),
    [
        ("naïve", "naive", ""),
        ("cafe\u0301", "cafe", ""),
        ("Åse", "ase", ""),
        ("groß", "gross", ""),
        ("æsir", "aesir", ""),
        ("søren", "soren", ""),
        ("łódź", "lodz", ""),
        ("ﬁne", "fine", ""),
        ("ＡＢ", "ab", ""),
        ("don’t", "don't", ""),
        ("a-b.", "ab", ""),
        ("wодa", "wa", "од"),
        ("й", "", "й"),
        ("水x", "x", "水"),
        ("क\u093eर", "", "क\u093eर"),
        ("x7", "x", "7"),
        ("a\ufe0f\u200db", "ab", ""),
        ("x\u0301", "x", ""),
    ],
)
def test_folding(word: str, letters: str, missing: str) -> None:
    assert fold(word) == (letters, tuple(missing))


def test_words_without_letters_have_no_pronunciation(speaker: LetterToPhone) -> None:
    assert speaker.pronounce(["", "'", "''", "привет", "水", "-"]) == [[]] * 6
    assert speaker.pronounce([]) == []
    assert speaker.pronounce(["zoë", "café"]) == speaker.pronounce(["zoe", "cafe"])


def test_unknown_words_are_phones_and_at_most_so_many(speaker: LetterToPhone) -> None:
    words = ["blorptastic", "zzyzyxal", "grumbleshanks", "aaaa", "q" * 5, "kubernetes", "x" * 300, "antidis" * 40]
    for word, found in zip(words, speaker.pronounce(words), strict=True):
        assert 1 <= len(found) <= 2, word
        assert all(phones and set(phones) <= set(ARPABET_PHONES) for phones in found), word
    assert all(len(found) == 1 for found in speaker.pronounce(words, best=1))


def test_a_word_alone_sounds_as_among_others(speaker: LetterToPhone) -> None:
    words = ["blorp", "flarn", "smorgle", "quizzle", "th", "o", "wugs", "glim", "blorp"]
    alone = [LetterToPhone.load().pronounce([word])[0] for word in words]
    assert LetterToPhone.load().pronounce(words) == alone


def test_what_was_pronounced_is_remembered(speaker: LetterToPhone, monkeypatch: pytest.MonkeyPatch) -> None:
    words = [a + b + "ken" for a in "bdfgklmnprst" for b in "aeiou"]
    first = speaker.pronounce(words)

    def heard_again(words: list[str]) -> dict[str, object]:
        assert not words, "the network was asked again"
        return {}

    monkeypatch.setattr(speaker, "_run", heard_again)
    assert speaker.pronounce(words) == first
    with pytest.raises(AssertionError, match="asked again"):
        speaker.pronounce(["zzyxkenbluf"])


def test_threads_wait_for_each_other(monkeypatch: pytest.MonkeyPatch) -> None:
    """The words that one of them needs are never taken away by the other: they would be spelled out."""
    speaker, asked = LetterToPhone.load(), []
    real, other = speaker._run, threading.Thread(target=speaker.pronounce, args=(["ploot"],))

    def run(words: list[str]) -> dict[str, object]:
        asked.append(words)
        if words == ["blick"]:
            other.start()
            other.join(0.02)
            assert asked == [["blick"]]
        return real(words)

    speaker.pronounce([])  # the names of letters
    monkeypatch.setattr(speaker, "_run", run)
    assert said(speaker, "blick") == ["B L IH K"]
    other.join()
    assert asked == [["blick"], ["ploot"]]


def test_what_the_package_holds() -> None:
    assert (FOLDER / WEIGHTS).stat().st_size <= 3_000_000
    packed = (FOLDER / EXCEPTIONS).read_bytes()
    assert len(packed) <= 400_000
    assert packed[4:8] == bytes(4)  # no time stamp: the same training writes the same bytes
    lines = gzip.decompress(packed).decode("utf-8").splitlines()
    assert lines == sorted(lines, key=lambda line: line.split("\t")[0])
    for line in lines:
        _, *pronunciations = line.split("\t")
        assert all(set(one.split(" ")) <= set(ARPABET_PHONES) for one in pronunciations), line
    assert "Carnegie Mellon University" in (FOLDER / "CMUDICT-LICENSE").read_text(encoding="utf-8")


def every_sequence(probs: np.ndarray) -> dict[tuple[int, ...], float]:
    """Label sequences and their probabilities, by walking all CTC paths."""
    sums: dict[tuple[int, ...], float] = {}
    for path in np.ndindex(*[probs.shape[1]] * len(probs)):
        labels = tuple(now for before, now in zip((0, *path), path) if now not in (0, before))
        sums[labels] = sums.get(labels, 0.0) + float(np.prod([row[k] for row, k in zip(probs, path)]))
    return sums


@over_rows("seed", range(20))
def test_beam_search_against_all_paths(seed: int) -> None:
    random = np.random.default_rng(seed)
    probs = random.dirichlet(np.full(3, 0.7), size=5)
    if seed % 2:
        probs = np.round(probs * 4) / 4 + 0.01  # ties
    sums = every_sequence(probs)
    found = likeliest(probs, 2)
    assert [labels for labels, _ in found][:1] == [max(sums, key=lambda one: (round(sums[one], 9), [-k for k in one]))]
    for labels, probability in found:
        assert 0.8 * sums[labels] < probability <= sums[labels] * (1 + 1e-9)  # the beam drops unlikely paths
