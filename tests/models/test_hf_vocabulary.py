"""Text as the model writes it: blank, separator, case and special tokens of its tokenizer, and a language's part."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import soundfile
import torch
from made_sounds import babble
from made_transformers import checkpoint, directly, extractor, network, tokenizer

from ctc_align.alignment.aligner import Aligner
from ctc_align.cli import run
from ctc_align.config import Settings
from ctc_align.errors import UsageError
from ctc_align.models import load_model
from ctc_align.models.huggingface import THREE_LETTERS, choose_language
from ctc_align.tokens.tokenizer import tokenizer_for
from ctc_align.types import Audio, Emissions

HEARD = Audio(babble(3.0), 16000)


def emitted(folder: Path, **settings: Any) -> Emissions:
    return load_model(str(folder), device="cpu", settings=Settings(**settings)).emissions(HEARD)


def labels(emissions: Emissions, text: str) -> list[list[str]]:
    """The tokens of each word when the emissions are aligned with a text."""
    alignment = Aligner(None).align(emissions, text)
    return [[token.token for token in word.tokens] for word in alignment.words]


@pytest.mark.parametrize(
    ("vocab", "more", "blank", "words"),
    [
        # wav2vec2-base-960h: capitals, blank first
        (("<pad>", "<s>", "</s>", "<unk>", "|", *"ABCDE"), {}, 0, [["A", "B"], ["C"]]),
        # fine-tuned by the usual recipe: small letters, separator first, [UNK] and [PAD] last
        (("|", *"abcde", "[UNK]", "[PAD]"), {"unk_token": "[UNK]", "pad_token": "[PAD]"}, 7, [["a", "b"], ["c"]]),
        # special tokens without brackets are no letters
        (("a", "b", "c", "A", "pad", "_", "B"), {"unk_token": "A", "pad_token": "pad", "word_delimiter_token": "_"}, 4,
         [["a", "b"], ["c"]]),
        # a space between words
        (("<pad>", "<unk>", " ", *"abc"), {"word_delimiter_token": " "}, 0, [["a", "b"], ["c"]]),
    ],
)  # fmt: skip
def test_conventions_are_the_tokenizer_s(
    vocab: tuple[str, ...], more: dict[str, Any], blank: int, words: list[list[str]], tmp_path: Path
) -> None:
    folder = checkpoint(
        tmp_path, "wav2vec2-layer", network("wav2vec2-layer", classes=len(vocab)), vocab=vocab, bos_token=None,
        eos_token=None, **more,
    )  # fmt: skip
    emissions = emitted(folder)
    assert emissions.blank == blank
    assert tokenizer_for(emissions.vocab, emissions.blank).separator is not None
    assert labels(emissions, "ab c") == words


def test_the_separator_is_written_alike_whatever_the_tokenizer_calls_it(tmp_path: Path) -> None:
    vocab = ("<pad>", "<unk>", "_", "a", "b")
    folder = checkpoint(
        tmp_path, "wav2vec2-layer", network("wav2vec2-layer", classes=5), vocab=vocab, word_delimiter_token="_"
    )
    emissions = emitted(folder)
    assert emissions.vocab == ("<pad>", "<unk>", "|", "a", "b")
    assert tokenizer_for(emissions.vocab, emissions.blank).separator == 2


def test_a_blank_that_only_the_configuration_names(tmp_path: Path) -> None:
    folder = checkpoint(
        tmp_path,
        "wav2vec2-layer",
        network("wav2vec2-layer", classes=4, pad_token_id=3),
        vocab=("a", "b", "|", "-"),
        pad_token=None,
        unk_token="b",
        bos_token=None,
        eos_token=None,
    )
    assert emitted(folder).blank == 3


def test_no_blank_at_all_is_told(tmp_path: Path) -> None:
    folder = checkpoint(
        tmp_path,
        "wav2vec2-layer",
        network("wav2vec2-layer", classes=4, pad_token_id=9),
        vocab=("a", "b", "|", "c"),
        pad_token=None,
        unk_token="b",
        bos_token=None,
        eos_token=None,
    )
    with pytest.raises(UsageError, match="expected the blank as pad_token of the tokenizer or pad_token_id"):
        emitted(folder)


def test_pieces_of_words_begin_with_their_mark(tmp_path: Path) -> None:
    """A sentencepiece vocabulary, as fast tokenizers hold it."""
    tokenizers = pytest.importorskip("tokenizers")
    import transformers

    pieces = ("<pad>", "<unk>", "▁", "▁we", "▁call", "▁it", "l", "s", "▁c", "a")
    core = tokenizers.Tokenizer(
        tokenizers.models.Unigram([(piece, -1.0) for piece in pieces], unk_id=1, byte_fallback=False)
    )
    core.pre_tokenizer = tokenizers.pre_tokenizers.Metaspace()
    fast = transformers.PreTrainedTokenizerFast(tokenizer_object=core, pad_token="<pad>", unk_token="<unk>")
    network("wav2vec2-bert", classes=len(pieces)).save_pretrained(tmp_path)
    extractor("wav2vec2-bert").save_pretrained(tmp_path)
    fast.save_pretrained(tmp_path)
    emissions = emitted(tmp_path)
    assert emissions.vocab == pieces
    assert labels(emissions, "We call its cals") == [["▁we"], ["▁call"], ["▁it", "s"], ["▁c", "a", "l", "s"]]


NESTED = {
    "eng": {"<pad>": 0, "<s>": 1, "</s>": 2, "<unk>": 3, "|": 4, "a": 5, "b": 6},
    "deu": {"<pad>": 0, "<s>": 1, "</s>": 2, "<unk>": 3, "|": 4, "ä": 5, "b": 6, "ß": 7},
    "azj-script_latin": {"<pad>": 0, "<s>": 1, "</s>": 2, "<unk>": 3, "|": 4, "ə": 5},
    "urd-script_arabic": {"<pad>": 0, "<s>": 1, "</s>": 2, "<unk>": 3, "|": 4, "ا": 5},
    "urd-script_latin": {"<pad>": 0, "<s>": 1, "</s>": 2, "<unk>": 3, "|": 4, "u": 5},
}


@pytest.fixture(scope="module")
def many(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model with a part for each language, as MMS has: adapters and a head, by its own files' names."""
    from safetensors.torch import save_file

    folder = tmp_path_factory.mktemp("many")
    for seed, (language, vocab) in enumerate(NESTED.items()):
        model = network("wav2vec2-layer", classes=len(vocab), adapter_attn_dim=4, output_hidden_size=24, seed=seed)
        if language == "eng":
            model.save_pretrained(folder)
        if language != "azj-script_latin":
            weights = {name: weights.contiguous() for name, weights in model._get_adapters().items()}
            save_file(weights, str(folder / f"adapter.{language}.safetensors"))
    extractor("wav2vec2-layer").save_pretrained(folder)
    tokenizer(folder, NESTED, target_lang="eng").save_pretrained(folder)
    return folder


def test_a_language_brings_its_vocabulary_and_its_weights(many: Path) -> None:
    import transformers

    english, german = emitted(many), emitted(many, language="de")
    assert english.vocab == tuple(NESTED["eng"])
    assert german.vocab == tuple(NESTED["deu"])
    theirs = transformers.Wav2Vec2ForCTC.from_pretrained(many, target_lang="deu", ignore_mismatched_sizes=True).eval()
    expected = directly(theirs, extractor("wav2vec2-layer"), HEARD.samples)
    torch.testing.assert_close(german.log_probs, expected, atol=1e-5, rtol=0)
    assert labels(german, "bäß b") == [["b", "ä", "ß"], ["b"]]
    torch.testing.assert_close(emitted(many, language="deu").log_probs, german.log_probs)
    assert emitted(many, language="urd-script_arabic").vocab == tuple(NESTED["urd-script_arabic"])


def test_it_aligns_by_flags_alone(many: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The command line, from the folder on disk to JSON on stdout; nothing else is said there."""
    audio = tmp_path / "talk.wav"
    soundfile.write(audio, HEARD.samples, 16000)
    arguments = [str(audio), "--text", "Bäß, b!", "--model", f"hf:{many}", "--device", "cpu", "--stdout", "--quiet"]
    assert run([*arguments, "--language", "de"]) == 0
    said = json.loads(capsys.readouterr().out)
    assert [word["text"] for word in said["words"]] == ["Bäß,", "b!"]
    assert [token["token"] for token in said["words"][0]["tokens"]] == ["b", "ä", "ß"]
    assert said["unknown"] == 0
    assert (said["model"], said["frame_shift_s"]) == (f"hf:{many}", 0.02)
    assert run([*arguments, "--language", "fr"]) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.count("\n") == 1
    assert "choose with --language" in captured.err


@pytest.mark.parametrize(
    ("language", "message"),
    [
        ("ur", "language 'ur' may be urd-script_arabic or urd-script_latin: name one of them"),
        ("fr", r"no part for the language 'fr'; there is azj-script_latin, deu, .*: choose with --language"),
        ("az", r"its part for azj-script_latin \(adapter.azj-script_latin.safetensors\) is missing or damaged"),
    ],
)
def test_a_language_that_is_not_there_is_told(language: str, message: str, many: Path) -> None:
    with pytest.raises(UsageError, match=message):
        emitted(many, language=language)


def test_two_letters_have_three() -> None:
    assert len(THREE_LETTERS) >= 180
    assert all(len(two) in (2, 3) for two in THREE_LETTERS)
    codes = [code for several in THREE_LETTERS.values() for code in several]
    assert all(len(code) == 3 and code.isalpha() and code.islower() for code in codes)
    assert len(codes) == len(set(codes)) + 1  # "nob" is Norwegian's and its own
    assert choose_language("pt-BR", ["por"], "x") == choose_language("PT", ["por"], "x") == "por"
    assert choose_language("sw", ["swh"], "x") == "swh"
