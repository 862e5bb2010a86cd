"""Words to tokens: phones by dictionary and letter-to-phone, letters of any vocabulary, and the row
of a lattice."""

from __future__ import annotations

from pathlib import Path

import pytest
from rows import over_rows

from ctc_align.errors import LexiconError, UsageError
from ctc_align.text import split
from ctc_align.text.letter_to_phone import LetterToPhone
from ctc_align.text.lexicon import Lexicon, read_lexicon
from ctc_align.text.phone_sets import ARPABET_PHONES, IPA_PHONES
from ctc_align.tokens import alphabet, phones
from ctc_align.tokens.lexicon_words import join_entries
from ctc_align.tokens.phones import PhoneTokenizer
from ctc_align.tokens.tokenizer import count_missing, join, missing_letters, tokenize, tokenizer_for
from ctc_align.types import Pronunciation, Word, Words, WordTokens

ENGLISH = ("<blank>", *ARPABET_PHONES)
WAV2VEC = ("<pad>", "<s>", "</s>", "<unk>", "|", *"ETAONIHSRDLUMWCFGYPBVK'XJQZ")


def lexicon(tmp_path: Path, text: str) -> Lexicon:
    path = tmp_path / "words.dict"
    path.write_text(text, encoding="utf-8")
    return read_lexicon(path)


def labels(tokens: WordTokens) -> list[str]:
    return [" ".join(one.labels) for one in tokens.pronunciations]


def words_of(*spoken: str) -> Words:
    return Words(" ".join(spoken), tuple(Word(one, one, 0, 0) for one in spoken))


class TestPhones:
    def test_parts_are_combined_best_first_and_few(self) -> None:
        tokenizer = PhoneTokenizer(ENGLISH)
        said = labels(tokenizer.word("the a the"))
        assert said[0] == "DH AH AH DH AH"
        assert len(said) == len(set(said)) == 4
        assert set(said[1:]) <= {"DH IY AH DH AH", "DH AH EY DH AH", "DH AH AH DH IY"}

    def test_many_parts_do_not_explode(self) -> None:
        assert len(labels(PhoneTokenizer(ENGLISH).word(" ".join(["the"] * 60)))) == 4

    def test_letters_of_other_scripts_are_missing_and_the_rest_is_said(self) -> None:
        tokens = PhoneTokenizer(ENGLISH).word("wодa кот")
        assert tokens.missing == ("о", "д", "к", "о", "т")
        assert len(tokens.pronunciations) >= 1
        assert PhoneTokenizer(ENGLISH).word("кот") == WordTokens((), ("к", "о", "т"))

    def test_nothing_to_say(self) -> None:
        assert PhoneTokenizer(ENGLISH).word("'") == WordTokens(())
        assert PhoneTokenizer(ENGLISH).word("") == WordTokens(())

    @pytest.mark.parametrize(
        ("written", "entry"),
        [
            ("“ka:,", "ka:"), ("'aka'!", "'aka'"), ("aka'.", "aka'"), ("?ana", "?ana"), ("(ta꞉)", "ta꞉"),
            ("a!a", "a!a"), ("ka:ta", "ka:ta"), ("Tom: yes", "tom:"), ("Ka’:", "ka':"),
        ],
    )  # fmt: skip
    def test_the_written_form_is_looked_up_with_its_marks(
        self, written: str, entry: str, tmp_path: Path
    ) -> None:
        tokenizer = PhoneTokenizer(
            ENGLISH, lexicon(tmp_path, f"{entry}\tS IH K S\nka\tT\naka\tT\nta\tT\n")
        )
        words = join_entries(split(written), tokenizer)
        assert labels(tokenize(words, tokenizer)[0]) == ["S IH K S"]
        assert all(written[word.char_start : word.char_end] == word.text for word in words.words)

    def test_entries_that_are_not_used_are_told_once(
        self, tmp_path: Path, caplog: pytest.LogCaptureFixture
    ) -> None:
        tokenizer = PhoneTokenizer(ENGLISH, lexicon(tmp_path, "你好\tN IY\ncat\tK AE T\n"))
        for _ in range(2):
            assert [word.text for word in join_entries(split("你好 cat"), tokenizer).words] == [
                "你",
                "好",
                "cat",
            ]
        assert len(caplog.records) == 1
        assert "'你好'" in caplog.text

    def test_a_lexicon_comes_first_and_keeps_its_stress_marks(self, tmp_path: Path) -> None:
        given = lexicon(tmp_path, "cat\tD AO1 G\ntwenty two\tT UW0\n3rd\tTH ER1 D\n<unk>\tspn\n")
        tokenizer = PhoneTokenizer(ENGLISH, given)
        assert labels(tokenizer.word("cat")) == ["D AO1 G"]
        assert [ENGLISH[i] for i in tokenizer.word("cat").pronunciations[0].ids] == ["D", "AO", "G"]
        assert labels(tokenizer.word("twenty two")) == ["T UW0"]
        assert labels(tokenizer.word("dog cat"))[0] == "D AO G D AO1 G"
        assert labels(tokenizer.word("third", "(3rd,")) == ["TH ER1 D"]

    def test_pronunciations_that_differ_in_stress_only_are_one(self, tmp_path: Path) -> None:
        given = lexicon(tmp_path, "a\tAH0\na\tAH1\na\tEY1\n")
        assert labels(PhoneTokenizer(ENGLISH, given).word("a")) == ["AH0", "EY1"]

    def test_phones_that_the_model_lacks_matter_when_used(self, tmp_path: Path) -> None:
        given = lexicon(tmp_path, "cat\tK AE T\n[laughter]\tspn\nhm\tspn\nhm\tHH M\n")
        tokenizer = PhoneTokenizer(ENGLISH, given)
        assert labels(tokenizer.word("hm")) == ["HH M"]
        with pytest.raises(
            LexiconError,
            match=(
                r"words\.dict:2: the model does not have the phones spn of the word .*models show"
                r" MODEL lists them\)"
            ),
        ):
            tokenizer.word("[laughter]")

    def test_a_lexicon_in_another_phone_set_is_an_error(self, tmp_path: Path) -> None:
        with pytest.raises(
            LexiconError, match=r"words\.dict:1: expected phones .* got none of them but kʰ æ tʰ"
        ):
            tokenizer_for(ENGLISH, 0, lexicon(tmp_path, "cat\tkʰ æ tʰ\n"))

    @pytest.mark.parametrize(
        "write", [str.lower, lambda phone: phone + "1" if phone[0] in "AEIOU" else phone]
    )
    def test_vocabularies_in_lower_case_or_with_stress(self, write) -> None:
        vocab = ("<eps>", *map(write, ARPABET_PHONES))
        tokenizer = tokenizer_for(vocab, 0)
        assert tokenizer.token_kind == "phones"
        assert [vocab[i] for i in tokenizer.word("cat").pronunciations[0].ids] == list(
            map(write, ("K", "AE", "T"))
        )

    def test_a_vocabulary_without_some_phones_names_them_and_says_the_others(self) -> None:
        vocab = ("<blank>", *(phone for phone in ARPABET_PHONES if phone not in ("ZH", "K")))
        tokens = PhoneTokenizer(vocab).word("cat duck")
        (only,) = tokens.pronunciations
        assert only.labels == ("AE", "T", "D", "AH")
        assert (only.gaps, tokens.missing) == (((0, "K"), (4, "K")), ("K", "K"))

    def test_another_phone_set_with_its_lexicon(self, tmp_path: Path) -> None:
        tokenizer = tokenizer_for(("<pad>", "k", "æ", "t"), 0, lexicon(tmp_path, "cat\tk æ t\n"))
        assert (tokenizer.token_kind, tokenizer.separator) == ("phones", None)
        assert tokenizer.word("cat").pronunciations == (Pronunciation((1, 2, 3), ("k", "æ", "t")),)
        assert tokenizer.word("dog") == WordTokens((), ("d", "o", "g"))

    def test_letters_as_the_lexicons_units(self, tmp_path: Path) -> None:
        tokenizer = tokenizer_for(WAV2VEC, 0, lexicon(tmp_path, "dr\tD O C T O R\n"))
        assert (tokenizer.token_kind, tokenizer.separator) == ("tokens", 4)
        assert labels(tokenizer.word("dr who")) == ["D O C T O R | W H O"]


def test_tokenize_gives_one_entry_per_word_in_order() -> None:
    found = tokenize(words_of("cat", "", "кот", "the"), tokenizer_for(ENGLISH, 0))
    assert [len(one.pronunciations) for one in found] == [1, 0, 0, 2]
    assert [one.missing for one in found] == [(), (), ("к", "о", "т"), ()]


def test_a_word_that_breaks_off_has_the_sounds_of_the_next_word() -> None:
    """The likeliest number of them first, then one fewer and more; without such a word, its own."""
    tokenizer = tokenizer_for(ENGLISH, 0)
    said, other = (
        tokenize(split("kni- knight"), tokenizer)[0],
        tokenize(split("kni- cat"), tokenizer)[0],
    )
    assert labels(said)[:2] == ["N AY", "N"]
    assert labels(other) == labels(tokenizer.word("kni"))


def test_missing_letters_count_with_multiplicity() -> None:
    found = [WordTokens((), ("x", "y")), WordTokens(()), WordTokens((), ("y",))]
    assert count_missing(found) == 3
    assert missing_letters(found) == {"y": 2, "x": 1}
    assert list(missing_letters(found)) == ["y", "x"]


def test_join_places_separators_between_words_only() -> None:
    a, b = Pronunciation((5,), ("a",)), Pronunciation((6, 7), ("b", "c"))
    found = [WordTokens(()), WordTokens((a, b)), WordTokens(()), WordTokens((a,)), WordTokens(())]
    row = join(found, [0, 1, 9, 0, 0], separator=4)
    assert (row.ids, row.labels, row.words) == ((6, 7, 4, 5), ("b", "c", "|", "a"), (1, 1, -1, 3))
    assert join(found, [0, 0, 0, 0, 0], None).ids == (5, 5)
    assert join([], [], 4).ids == ()
    with pytest.raises(UsageError, match="one choice for each of 5 words, got 1"):
        join(found, [0], None)


@over_rows("blank", [-1, 40])
def test_a_blank_outside_the_vocabulary(blank: int) -> None:
    with pytest.raises(UsageError, match="blank between 0 and 39"):
        tokenizer_for(ENGLISH, blank)


def test_what_was_pronounced_is_kept_and_what_is_kept_is_bounded(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    texts = ["the cat", "twenty-two the", "кот cat", "o'neil"]
    once = [tokenize(words_of(*text.split()), tokenizer_for(ENGLISH, 0)) for text in texts]
    often = tokenizer_for(ENGLISH, 0)
    asked: list[list[str]] = []
    real = LetterToPhone.pronounce
    monkeypatch.setattr(
        LetterToPhone, "pronounce", lambda self, new: asked.append(new) or real(self, new)
    )
    for _ in range(2):
        assert [tokenize(words_of(*text.split()), often) for text in texts] == once
    assert sorted(word for new in asked for word in new) == sorted(
        {word for text in texts for word in text.split()}
    )
    for module, vocab in ((phones, ENGLISH), (alphabet, tuple("_|abcdefghijklmnopqrstuvwxyz"))):
        monkeypatch.setattr(module, "MOST_KEPT", 3)
        bounded, fresh = tokenizer_for(vocab, 0), [tokenizer_for(vocab, 0) for _ in texts]
        expected = [
            tokenize(words_of(*text.split()), tokenizer) for text, tokenizer in zip(texts, fresh)
        ]
        for _ in range(2):
            assert [tokenize(words_of(*text.split()), bounded) for text in texts] == expected
        kept = bounded._parts if isinstance(bounded, PhoneTokenizer) else bounded._spelt  # type: ignore[attr-defined]
        assert len(kept) <= 3 + 2


def test_phones_of_ipa_are_those_of_the_words_or_of_the_lexicon(tmp_path: Path) -> None:
    own = tokenizer_for(("<blank>", *IPA_PHONES), 0)
    given = tokenizer_for(
        ("<blank>", *IPA_PHONES),
        0,
        lexicon(tmp_path, "schön\tʃ e n\nein\ta j n\nund\tu n\nund\to n\n"),
    )

    assert (own.token_kind, own.separator) == ("phones", None)
    assert labels(own.word("ʃ ø n | ʃ ø n | ʃ œ n | ʃ e n", "Schön!", "schön")) == [
        "ʃ ø n",
        "ʃ e n",
    ]
    assert labels(given.word("ʃ ø n", "„Schön!“", "schön")) == ["ʃ e n"]
    assert labels(given.word("a ɪ n u n t", "1&", "ein und")) == ["a j n u n", "a j n o n"]
    assert labels(given.word("a ɪ n k u", "1&", "ein kuh")) == ["a ɪ n k u"]
    found = own.word("2 1 k 7", "21k7")
    assert found.missing == ("2", "1", "7")
    assert found.pronunciations[0].gaps == ((0, "21"), (1, "7"))
    assert own.word("2 1").pronunciations == ()
