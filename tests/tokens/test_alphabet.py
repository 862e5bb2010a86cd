"""How vocabularies write words: those that wav2vec 2.0, MMS, NeMo, ESPnet and GPT-2's kin have."""

from __future__ import annotations

import unicodedata

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from rows import over_rows

from ctc_align.tokens.alphabet import LetterTokenizer, _byte_characters, alphabet_of
from ctc_align.types import WordTokens

WAV2VEC = ("<pad>", "<s>", "</s>", "<unk>", "|", *"ETAONIHSRDLUMWCFGYPBVK'XJQZ")
BUNDLE = ("-", "|", *"ETAONIHSRDLUMWCFGYPBVK'XJQZ")
MMS_FA = ("-", *"aienuotsrmkldghybpwcvjzf'qx", "*")
NEMO_CHARACTERS = (" ", *"abcdefghijklmnopqrstuvwxyz", "'", "<blank>")
NEMO_BPE = ("<unk>", "▁the", "▁", "s", "▁c", "at", "a", "t", "c", "h", "e", "▁a", "<blank>")
WORDPIECE = ("[PAD]", "[UNK]", "the", "##s", "c", "##at", "##a", "##t", "a", "'", "<blank>")
BYTES = ("<pad>", *_byte_characters().values())
BYTE_BPE = (
    "<pad>",
    "Ġthe",
    "Ġc",
    "at",
    "s",
    "Ġ",
    *(c for c in _byte_characters().values() if c not in ("Ġ", "s")),
)

SEPARATORS = ("|", "▁", " ", "<space>", "[SPACE]")


def spelt(vocab: tuple[str, ...], blank: int, spoken: str) -> tuple[str, str]:
    found = LetterTokenizer(vocab, blank).word(spoken)
    labels = " ".join(found.pronunciations[0].labels) if found.pronunciations else ""
    return labels, "".join(found.missing)


@over_rows(
    ("vocab", "blank", "separator", "spoken", "labels", "missing"),
    [
        (WAV2VEC, 0, 4, "don't go", "D O N ' T | G O", ""),
        (BUNDLE, 0, 1, "don't go", "D O N ' T | G O", ""),
        (MMS_FA, 0, None, "don't go", "d o n ' t g o", ""),
        (NEMO_CHARACTERS, 28, 0, "don't go", "d o n ' t   g o", ""),
        (NEMO_BPE, 12, None, "the cats", "▁the ▁c at s", ""),
        (NEMO_BPE, 12, None, "that", "▁ t h at", ""),
        (WORDPIECE, 10, None, "the cats", "the c ##at ##s", ""),
        (WORDPIECE, 10, None, "at", "a ##t", ""),
        (BYTES, 0, BYTES.index("Ġ"), "né go", "n Ã © Ġ g o", ""),
        (BYTE_BPE, 0, None, "the cats né", "Ġthe Ġc at s Ġ n Ã ©", ""),
        # A star, a blank, and special tokens are no letters, whatever is written.
        (MMS_FA, 0, None, "a*b-c", "a b c", ""),
        (WAV2VEC, 0, 4, "<s>", "S", ""),
        # Case, also of letters that change their number or shape with it.
        (("_", *"STRAE"), 0, None, "straße", "S T R A S S E", ""),
        (("_", *"οδσ"), 0, None, "οδος", "ο δ ο σ", ""),
        (("_", *"ΟΔΣ"), 0, None, "οδος", "Ο Δ Ο Σ", ""),
        (("_", "ġ", "Ġ", "a"), 0, None, "ġa", "ġ a", ""),
        (("_", "Ġ", "A"), 0, None, "ġa", "Ġ A", ""),
        # Hangul in syllables, in conjoining jamo, in letters that stand alone.
        (("_", "한", "글"), 0, None, "한글", "한 글", ""),
        (("_", *unicodedata.normalize("NFD", "한글")), 0, None, "한글", "ᄒ ᅡ ᆫ ᄀ ᅳ ᆯ", ""),
        (("_", *"ㅎㅏㄴㄱㅡㄹ"), 0, None, "한글", "ㅎ ㅏ ㄴ ㄱ ㅡ ㄹ", ""),
        (("_", *"ㅎㅏㄴ"), 0, None, "한글", "ㅎ ㅏ ㄴ", "글"),
        # Marks that have no composed form, and forms that composition leaves apart.
        (("_", "क", "क\u093c", "\u093f"), 0, None, "\u0958\u093f", "क\u093c \u093f", ""),
        (("_", "\u0958"), 0, None, "क\u093c", "\u0958", ""),
        (("_", *"שלום"), 0, None, "שלום", "ש ל ו ם", ""),
        # sentencepiece with bytes for the characters that have no piece.
        (("<blk>", "▁a", "a", "<0xC3>", "<0xA9>"), 0, None, "aéñ", "▁a <0xC3> <0xA9>", "ñ"),
        # Special tokens and the blank are never letters; signs outside the vocabulary are dropped,
        # letters are missing.
        (("[PAD]", "<s>", "[UNK]", "a"), 0, None, "<s>", "", "s"),
        (("a", "b"), 1, None, "ab", "a", "b"),
        (("_", *"abcdefg"), 0, None, "'cab' cß7é", "c a b c", "ß7é"),
        (("_", *"abcdefg"), 0, None, "''", "", ""),
        (("_", "’", "n", "t"), 0, None, "n't", "n ’ t", ""),
        # Case and accents are the vocabulary's.
        (("_", "a", "A", "B"), 0, None, "ab", "a B", ""),
        (("_", "a"), 0, None, "A", "a", ""),
        (("_", "E", "\u0301"), 0, None, "\u00e9", "E \u0301", ""),
        (("_", "e"), 0, None, "\u00e9", "", "é"),
        # Longer tokens are preferred unless letters would be lost.
        (("_", "a", "ab", "b", "bcd"), 0, None, "abab", "ab ab", ""),
        (("_", "a", "ab", "b", "bcd"), 0, None, "abcd", "a bcd", ""),
        (("<unk>", "▁the", "at"), 0, None, "at", "at", ""),
        (("_", *"क\u093e\u0301да水"), 0, None, "да 水 क\u093e", "д а 水 क \u093e", ""),
        (("_", *"क\u093e\u0301да水"), 0, None, "ह\u093f", "", "ह\u093f"),
        *[(("_", "a", mark), 0, 2, "a 7 a", f"a {mark} a", "7") for mark in SEPARATORS],
        *[((mark, "a"), 0, None, "a", "a", "") for mark in SEPARATORS],
    ],
)
def test_conventions(
    vocab: tuple[str, ...],
    blank: int,
    separator: int | None,
    spoken: str,
    labels: str,
    missing: str,
) -> None:
    assert alphabet_of(vocab, blank).separator == separator
    assert spelt(vocab, blank, spoken) == (labels, missing)


@pytest.mark.parametrize("form", ["NFC", "NFD"])
@pytest.mark.parametrize("written", ["NFC", "NFD"])
def test_accents_as_the_vocabulary_has_them(form: str, written: str) -> None:
    text = "việtéở"
    vocab = ("_", *sorted(set(unicodedata.normalize(form, text))))
    labels, missing = spelt(vocab, 0, unicodedata.normalize(written, text))
    assert missing == ""
    assert unicodedata.normalize("NFC", labels.replace(" ", "")) == unicodedata.normalize(
        "NFC", text
    )


def test_where_letters_are_lacking() -> None:
    tokenizer = LetterTokenizer(("-", "|", *"abc"), 0)
    (said,) = tokenizer.word("xyaq-bz c7 8 a").pronunciations
    assert [said.labels[place : place + 1] for place, _ in said.gaps] == [
        ("a",),
        ("b",),
        ("|",),
        ("|",),
    ]
    assert [letters for _, letters in said.gaps] == ["xy", "q", "z", "78"]
    assert tokenizer.word("xyaq-bz c7 8 a").missing == tuple("xyqz78")
    assert tokenizer.word("xy") == WordTokens((), ("x", "y"))
    assert tokenizer.word("abc").pronunciations[0].gaps == ()


PIECES = ("<b>", "▁", "▁a", "ab", "b", "c", "bca", "é", "E")


@settings(max_examples=300, deadline=None)
@given(
    st.text("abcéde-'", max_size=12),
    st.sampled_from([PIECES, MMS_FA, BYTE_BPE, WORDPIECE, NEMO_BPE]),
)
def test_tokens_and_gaps_together_are_the_word(word: str, vocab: tuple[str, ...]) -> None:
    """Put back together, they are the word, but for signs that the vocabulary lacks."""
    found = LetterTokenizer(vocab, vocab.index("<blank>") if "<blank>" in vocab else 0).word(word)
    if not found.pronunciations:
        assert sorted(found.missing) == sorted(c for c in word if c.isalpha())
        return
    (said,) = found.pronunciations
    gaps, text = dict(said.gaps), ""
    for place in range(len(said.ids) + 1):
        text += gaps.get(place, "")
        text += said.labels[place].removeprefix("##") if place < len(said.ids) else ""
    if vocab is BYTE_BPE:
        to_byte = {character: byte for byte, character in _byte_characters().items()}
        text = bytes(to_byte[character] for character in text).decode()
    bare = text.replace("▁", "").replace(" ", "").lower()
    assert bare.replace("-", "").replace("'", "") == word.replace("-", "").replace("'", "")
    assert "".join(gaps.values()) == "".join(found.missing)
