"""Vocabularies of others × transcripts: tokens that are written already, case, digits, marks, and
phones of IPA."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from rows import over_rows

from ctc_align import Aligner, Emissions
from ctc_align.alignment.inputs import read_words
from ctc_align.config import Settings
from ctc_align.errors import TranscriptError
from ctc_align.text.languages import likely_other_language
from ctc_align.text.phone_sets import ARPABET_PHONES, IPA_PHONES, reads_ipa
from ctc_align.text.transcript import words_of
from ctc_align.tokens.tokenizer import join, tokenize, tokenizer_for
from ctc_align.types import Tokens

AZ = "abcdefghijklmnopqrstuvwxyz"
PLAIN = ("-", "|", *AZ, "'")
CASED = ("<b>", "|", *AZ.upper(), *AZ, *"',.?!-")
DIGITS = ("<b>", "|", *AZ, *"0123456789")
TURKISH = ("<b>", "|", *"ABCÇDEFGĞHIİJKLMNOÖPRSŞTUÜVYZ")
ENGLISH = ("<b>", *ARPABET_PHONES)
STRESSED = (
    "<b>",
    *(
        phone + digit
        for phone in ARPABET_PHONES
        for digit in ("01" if phone[0] in "AEIOU" else [""])
    ),
)
IPA = ("<b>", *IPA_PHONES)
FEW_IPA = ("<b>", *(phone for phone in IPA_PHONES if phone not in ("q", "tʃ", "ʈ", "θ", "ɡ", "ʔ")))
HAMA = (
    "<wb>",
    "a",
    "aɪ",
    "b",
    "tʰ",
    "d͡ʒ",
    "i",
    "iː",
    "ɫ",
    "n",
    "oʊ",
    "s",
    "ʃ",
    "t͡ʃ",
    "ɹ",
    "ɝ",
    "ɪ",
    "ŋ",
    "<blank>",
)
SYLLABLES = ("<b>", "a1", "t_he2", "c_at3", "s_at0", "h_e4")
JAPANESE = ("pad", *"aiueoNIUkstnhmywrgzdbp", "ky", "sh", "ch", "cl", "pau")
UNITS = ("<b>", *map(str, range(50)))
NMT = ("<b>", "he@@", "llo", "th@@", "e", "c@@", "at", "a@@", "t")
ENDED = ("<b>", "he", "llo</w>", "th", "e</w>", "c", "at</w>", "a")
PIECES = ("<b>", "▁the", "▁c", "at", "▁", *"theca")
CASED_PIECES = ("<b>", "▁The", "▁the", "▁t", "▁T", "he", "▁cat", ".", *"thecaTHECA")


def row(vocab, text: str, language: str = "", *, score: bool = False) -> Tokens:
    """Return the tokens of a transcript whose every class is heard, of first pronunciations."""
    frames = torch.full((len(vocab), len(vocab)), -9.0).fill_diagonal_(0.0).log_softmax(1)
    emissions, settings = Emissions(frames, tuple(vocab), 0.02), Settings(language=language)
    tokenizer = tokenizer_for(vocab, vocab.index("<blank>") if "<blank>" in vocab else 0)
    words = words_of(text, settings)
    words, reader = read_words(words, emissions, tokenizer, language or "en", as_written=score)
    found = tokenize(words, reader)
    return join(found, [0] * len(found), reader.separator)


@over_rows(
    ("vocab", "text", "labels"),
    [
        # Written words that are tokens: phones with and without stress, syllables, units, pieces.
        (ENGLISH, "HH AE T\nDH IY", "HH AE T DH IY"),
        (ENGLISH, "hh ae1 t sil dh iy0 .", "hh ae t dh iy".upper()),
        (ENGLISH, "HH AE1 T DH IY0", "HH AE1 T DH IY0"),
        (STRESSED, "HH AE T", "HH AE T"),
        (SYLLABLES, "t_he2 c_at3 s_at0", "t_he2 c_at3 s_at0"),
        (SYLLABLES, "T_HE2", "t_he2"),
        (JAPANESE, "k o N n i ch i w a pau", "k o N n i ch i w a pau"),
        (UNITS, "17 4 4 42", "17 4 4 42"),
        (IPA, "h ɛ l o ʊ", "h ɛ l o ʊ"),
        (HAMA, "ʃ iː <blank> t͡ʃ", "ʃ iː t͡ʃ"),
        (PIECES, "▁the ▁c at", "▁the ▁c at"),
        (NMT, "he@@ llo c@@ at", "he@@ llo c@@ at"),
        # The same vocabularies, and words.
        (ENGLISH, "hat", "HH AE T"),
        (ENGLISH, "TV", "T IY V IY"),
        (ENGLISH, "UH", "AH"),
        (ENGLISH, "R S V P", "AA R EH S V IY P IY"),
        (IPA, "u s", "j u ɛ s"),
        (JAPANESE, "konnichiwa", "k o n n i ch i w a"),
        (PIECES, "the cat", "▁the ▁c at"),
        # In a vocabulary of letters, letters are words.
        (PLAIN, "a I", "a | i"),
        (PLAIN, "U S A", "u | s | a"),
        (PLAIN, "Dr. BBC-TV 10%", "d o c t o r | b | b | c | t | v | t e n | p e r c e n t"),
        (PLAIN, "'Tis the “dogs’” don’t", "' t i s | t h e | d o g s | d o n ' t"),
        # Case, marks and digits as far as the vocabulary has them; what it lacks as it is spoken.
        (
            CASED,
            "“Hello,” said McX. It’s 5!",
            "H e l l o , | s a i d | M c X . | I t ' s | f i v e",
        ),
        (CASED, "HELLO Twenty-two", "H E L L O | T w e n t y - t w o"),
        (DIGITS, "In 1984, $5", "i n | 1 9 8 4 | f i v e | d o l l a r s"),
        (CASED_PIECES, "The cat.", "▁The ▁cat ."),
        (CASED_PIECES, "the CAT", "▁the ▁cat"),
        # Pieces whose ends are marked.
        (NMT, "Hello the cat", "he@@ llo th@@ e c@@ at"),
        (ENDED, "hello the cat", "he llo</w> th e</w> c at</w>"),
        ((*PLAIN[2:], "</w>"), "be it", "b e </w> i t </w>"),
        # Phones of IPA of which some are lacking, or written otherwise.
        (FEW_IPA, "She", "ʃ i"),
        (FEW_IPA, "cheek", "t ʃ i k"),
        (FEW_IPA, "thing", "t ɪ ŋ"),
        (HAMA, "She tiny jail", "ʃ i | tʰ aɪ n i | d͡ʒ ɪ ɪ ɫ"),
        (HAMA, "bone her", "b oʊ n | ɝ"),
        # A separator stands between words that are pronounced, and between no phones that are
        # written.
        ((*ENGLISH, "|"), "a-hat the", "AH | HH AE T | DH AH"),
        ((*ENGLISH, "|"), "HH AE T | DH IY", "HH AE T | DH IY"),
        ((*FEW_IPA, "|"), "She tiny", "ʃ i | t a ɪ n i"),
    ],
)
def test_tokens(vocab, text: str, labels: str) -> None:
    assert " ".join(row(vocab, text).labels) == labels


@over_rows(
    ("vocab", "text", "labels"),
    [
        ((*CASED, "/", "—"), "and/or Yes—“No”", "and/or|Yes—No"),
        ((*CASED, "("), "Go ! (Aside) McX", "Go|!|(Aside|McX"),
        (DIGITS, "In 1984 or 5%", "in|1984|or|five|percent"),
        (PLAIN, "and/or Yes—No", "and|or|yes|no"),
    ],
)
def test_a_score_is_of_the_runs_as_they_are_written(vocab, text: str, labels: str) -> None:
    assert "".join(row(vocab, text, score=True).labels) == labels


def test_a_transcript_of_phones_chooses_the_model_of_these_phones() -> None:
    assert likely_other_language("P R IH1 N T IH0 NG IH N DH IY OW N L IY") == ""
    assert likely_other_language("p ɹ ɪ n t ɪ ŋ ɪ n ð i") == "und"


def test_case_is_the_languages() -> None:
    assert "".join(row(TURKISH, "ışık iki", "tr").labels) == "IŞIK|İKİ"
    assert "".join(row(("-", "|", *"ıiks"), "ISI İKİ", "tr").labels) == "ısı|iki"
    assert "".join(row(("-", "|", *"IKS"), "ısı İki", "tr").labels) == "ISI|IKI"


@over_rows(
    ("letters", "ipa"),
    [
        (IPA_PHONES[::2], True),
        (HAMA, True),
        (AZ + "éøæåñüß'", False),
        ("abcçdeəfgğhxıijkqlmnoöprsştuüvyz", False),  # Azerbaijani
        ("abdɖeɛfƒgɣhiklmnŋoɔprstuvʋwxyz", False),  # Ewe
        ("abdeɛfghiklmnoɔprstuwy", False),  # Akan
        ("aábdðeéfghiíjklmnoóprstuúvxyýþæö", False),  # Icelandic
        ("αβγδεζηθικλμνξοπρσςτυφχψω", False),
        ("aabɖeɛfgɣhiɩjklmnŋoɔprstuʊʋvwyz", False),  # languages of Togo
        (("<b>", *AZ, *"абвгдежзийклмнопрстуфхцчшщъыьэюя", *"ʃɪʊ"), False),
    ],
)
def test_vocabularies_of_ipa(letters, ipa: bool) -> None:
    assert reads_ipa(letters) == ipa


def heard(vocab: tuple[str, ...], units: list[list[str]], separator: str = "|") -> Emissions:
    """Return emissions with a spike for each unit, and noise."""
    flat = [
        unit
        for k, word in enumerate(units)
        for unit in ([separator] if k and separator in vocab else []) + word
    ]
    noise = (
        torch.randn((5 * len(flat) + 5, len(vocab)), generator=torch.Generator().manual_seed(0)) - 5
    )
    noise[:, 0] += 8
    noise[torch.arange(len(flat)) * 5 + 4, torch.tensor([vocab.index(unit) for unit in flat])] += 12
    return Emissions(noise.log_softmax(1), vocab, 0.02)


def pytorch_loss(emissions: Emissions, labels: list[str]) -> float:
    ids = torch.tensor([[emissions.vocab.index(label) for label in labels]])
    frames, length = torch.tensor([len(emissions.log_probs)]), torch.tensor([ids.shape[1]])
    log_probs = emissions.log_probs[:, None].double()
    return float(torch.nn.functional.ctc_loss(log_probs, ids, frames, length, reduction="sum"))


@over_rows(
    ("vocab", "text", "said"),
    [
        (
            CASED,
            "Well, she said: “Go!” In Twenty-two hours.",
            "Well,|she|said|Go!|In|Twenty-two|hours.",
        ),
        (
            CASED,
            "Well, she said: “Go!” In Twenty-two hours.",
            "Well|she|said|Go|In|Twenty|two|hours",
        ),
        (CASED, "WELL, SHE SAID: “GO!” IN HOURS.", "well|she|said|go|in|hours"),
        (DIGITS, "It was in 1984 and 1999 that we met.", "it|was|in|1984|and|1999|that|we|met"),
        (DIGITS, "It was in 1984 that we met.", "it|was|in|nineteen|eighty|four|that|we|met"),
    ],
)
def test_the_sound_decides_between_spellings_and_a_score_is_of_what_is_written(
    vocab, text: str, said: str
) -> None:
    emissions = heard(vocab, [list(word) for word in said.split("|")])
    aligner = Aligner(model=None)

    alignment = aligner.align(emissions, text)
    assert [word.status for word in alignment.words] == ["aligned"] * len(text.split())
    assert alignment.loss == pytest.approx(pytorch_loss(emissions, list(said)), rel=1e-6)

    written = "|".join(
        "".join(c for c in word if c in vocab or c.lower() in vocab) for word in text.split()
    )
    written = written if vocab is CASED else written.lower()
    for loss in (aligner.score(emissions, text), aligner.score_texts(emissions, [text])[0].loss):
        assert loss == pytest.approx(pytorch_loss(emissions, list(written)), rel=1e-6)


def test_each_written_token_is_a_word_of_the_output() -> None:
    emissions = heard(SYLLABLES, [["t_he2"], ["c_at3"], ["s_at0"], ["a1"]], separator="")
    alignment = Aligner(model=None).align(emissions, "t_he2 C_at3\ns_at0  a1")
    assert [(word.text, word.spoken, word.tokens[0].token) for word in alignment.words] == [
        ("t_he2", "t_he2", "t_he2"),
        ("C_at3", "C_at3", "c_at3"),
        ("s_at0", "s_at0", "s_at0"),
        ("a1", "a1", "a1"),
    ]
    assert alignment.loss == pytest.approx(
        pytorch_loss(emissions, ["t_he2", "c_at3", "s_at0", "a1"]), abs=1e-5
    )


def test_where_nothing_is_known_the_cure_is_a_dictionary(tmp_path: Path) -> None:
    emissions = heard(SYLLABLES, [["t_he2"], ["c_at3"]], separator="")
    for call in (Aligner(model=None).align, Aligner(model=None).score):
        with pytest.raises(
            TranscriptError,
            match=r"\(a1 t_he2 .*\) are neither letters .* dictionary .* \(--lexicon FILE\)",
        ):
            call(emissions, "the cat sat on it")

    (tmp_path / "words.dict").write_text("dog\tt_he2 c_at3\n", encoding="utf-8")
    with pytest.raises(TranscriptError, match=r"a dictionary of its words .* \(--lexicon FILE\)$"):
        Aligner(model=None, lexicon=tmp_path / "words.dict").align(emissions, "the cat")
