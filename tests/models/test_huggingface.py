"""Networks of transformers: each family from its own checkpoint, alone and in batches."""

from __future__ import annotations

import itertools
import json
import shutil
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import huggingface_hub.constants as hub_constants
import numpy as np
import pytest
import soundfile
import torch
from huggingface_hub import errors as hub_errors
from made_sounds import babble
from made_transformers import FAMILIES, LETTERS, checkpoint, directly, extractor, network, tokenizer
from rows import first_row_of

from ctc_align.alignment.aligner import Aligner
from ctc_align.cli import run
from ctc_align.config import Settings
from ctc_align.errors import AudioError, EmissionsError, UsageError
from ctc_align.models import load_model
from ctc_align.models.framewise import FrameGrid, plan_chunks
from ctc_align.models.huggingface import THREE_LETTERS, choose_language
from ctc_align.models.torch_networks import TorchModel
from ctc_align.tokens.tokenizer import tokenizer_for
from ctc_align.types import Audio, Emissions

CPU = torch.device("cpu")
Folder = Callable[..., Path]


@pytest.fixture(scope="session")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Folder:
    """Checkpoints of each kind, made once."""
    made: dict[str, Path] = {}

    def make(kind: str) -> Path:
        if kind not in made:
            made[kind] = checkpoint(tmp_path_factory.mktemp(kind), kind)
        return made[kind]

    return make


def loaded(path: Path, **settings: Any) -> TorchModel:
    return load_model(f"hf:{path}", device="cpu", settings=Settings(**settings))


def sound(samples: int, seed: int = 0) -> Audio:
    return Audio(babble(samples / 16000 + 0.01, seed)[:samples], 16000, f"made-{seed}.wav")


@pytest.mark.parametrize("kind", FAMILIES)
@pytest.mark.parametrize("samples", [16000, 24961, 33333])
def test_log_probs_are_the_library_s(kind: str, samples: int, folder: Folder) -> None:
    heard = sound(samples)
    emissions = loaded(folder(kind)).emissions(heard)
    expected = directly(network(kind), extractor(kind), heard.samples)
    assert float(expected.std(0).mean()) > 0.05, "the network does not listen"
    torch.testing.assert_close(emissions.log_probs, expected, atol=1e-5, rtol=0)
    assert emissions.vocab == LETTERS
    assert (emissions.blank, emissions.duration_s, emissions.name) == (
        0,
        samples / 16000,
        heard.name,
    )


@pytest.mark.parametrize("kind", FAMILIES)
def test_neighbours_in_a_batch_change_nothing(kind: str, folder: Folder) -> None:
    model = loaded(folder(kind))
    audios = [
        sound(samples, seed)
        for seed, samples in enumerate((24000, 9999, 40320, 16161, 24001, 3000))
    ]
    together = model.emissions_batch(audios)
    for audio, emissions in zip(audios, together):
        alone = model.emissions(audio)
        assert emissions.name == alone.name
        torch.testing.assert_close(emissions.log_probs, alone.log_probs, atol=1e-4, rtol=0)


@pytest.mark.parametrize("kind", ["wav2vec2-group", "wav2vec2-bert", "sew"])
def test_what_is_too_short_or_at_another_rate_is_refused(kind: str, folder: Folder) -> None:
    model = loaded(folder(kind))
    frames = 2 if kind == "sew" else 1
    shortest = next(n for n in range(1, 2000) if model.grid.frames(n) == frames)
    assert len(model.emissions(sound(shortest)).log_probs) == frames
    with pytest.raises(
        AudioError, match=rf"at least {shortest} of them for the model .*got {shortest - 1} "
    ):
        model.emissions_batch([sound(16000), sound(shortest - 1)])
    with pytest.raises(
        AudioError, match=r"expected samples at 16000 Hz.*got 24000 samples at 8000 Hz"
    ):
        model.emissions(Audio(babble(1.5), 8000))


def test_the_rate_and_the_normalisation_are_the_extractor_s(tmp_path: Path) -> None:
    model = network("wav2vec2-group")
    features = extractor("wav2vec2-group", sampling_rate=8000, do_normalize=False)
    mine = loaded(checkpoint(tmp_path, "wav2vec2-group", model, features=features))
    heard = Audio(babble(2.0)[:16000] + np.float32(0.05), 8000)
    assert (mine.sample_rate, mine.frame_shift_s) == (8000, 0.04)
    torch.testing.assert_close(
        mine.emissions(heard).log_probs, directly(model, features, heard.samples), atol=1e-5, rtol=0
    )


@pytest.mark.parametrize("kind", ["wav2vec2-group", "wav2vec2-bert", "sew-d"])
def test_half_precision_says_nearly_the_same(kind: str, folder: Folder) -> None:
    whole, half = loaded(folder(kind)), loaded(folder(kind), precision="bfloat16")
    assert next(half.network.parameters()).dtype is torch.bfloat16
    exact, rounded = (model.emissions(sound(24000)).log_probs for model in (whole, half))
    assert rounded.dtype is torch.float32
    assert float((exact.exp() - rounded.exp()).abs().mean()) < 0.02
    assert float((exact.exp() - rounded.exp()).abs().mean()) > 0.0
    torch.testing.assert_close(rounded.logsumexp(1), torch.zeros(len(rounded)), atol=1e-5, rtol=0)
    chunked = (
        loaded(folder(kind), precision="bfloat16", chunk_s=0.5, context_s=0.5)
        .emissions(sound(24000))
        .log_probs
    )
    assert chunked.shape == rounded.shape


@pytest.mark.parametrize("kind", ["wav2vec2-group", "sew", "wav2vec2-bert", "wav2vec2-adapter"])
@pytest.mark.parametrize("fails", [False, True])
def test_a_network_that_takes_only_short_sound_gets_it_in_pieces(
    kind: str, fails: bool, folder: Folder, monkeypatch, caplog
) -> None:
    """As with chunks and context of the lengths that it takes; without them no sound is lost."""
    model, heard = loaded(folder(kind)), sound(9 * 16000)
    limit, free = round(4.0 / model.frame_shift_s), type(model)._logits

    def limited(
        self: TorchModel, inputs: torch.Tensor, lengths: torch.Tensor | None
    ) -> torch.Tensor:
        logits = free(self, inputs, lengths)
        if fails and logits.shape[1] > limit:
            raise RuntimeError(
                f"The size of tensor a ({logits.shape[1]}) must match the size of tensor b"
                f" ({limit})"
            )
        return logits[:, :limit]

    short = model.emissions(sound(3 * 16000)).log_probs
    expected = loaded(folder(kind), chunk_s=2.0, context_s=1.0).emissions(heard).log_probs
    monkeypatch.setattr(type(model), "_logits", limited)
    found, *others = (
        each.log_probs for each in model.emissions_batch([heard, sound(3 * 16000), sound(1600)])
    )
    assert len(found) == model.grid.frames(9 * 16000)
    assert (
        f"takes at most {limit * model.frame_shift_s:g} s at once ({limit} frames)" in caplog.text
    )
    assert float((found - expected).abs().mean()) < 0.05, "other seams, but the same sound"
    torch.testing.assert_close(others[0], short, atol=1e-4, rtol=0)
    torch.testing.assert_close(model.emissions(heard).log_probs, found, atol=1e-4, rtol=0)


def test_a_network_that_fails_or_is_short_on_any_sound_is_told(folder: Folder, monkeypatch) -> None:
    model = loaded(folder("wav2vec2-layer"))
    free = type(model)._logits
    for wrong, says in (
        (
            lambda logits: logits[:, ::2],
            r"returns 50 frames of 1\.98 s of sound, which are 99 .*set chunk_s",
        ),
        (
            lambda logits: logits.repeat_interleave(2, 1),
            r"returns 198 frames of .*its frame shift is 0\.01 s, or it pads",
        ),
        (
            lambda logits: logits.nonsense,
            "its network fails on 1.98 s of sound .*no attribute 'nonsense'",
        ),
    ):
        monkeypatch.setattr(type(model), "_logits", lambda *given, wrong=wrong: wrong(free(*given)))
        with pytest.raises(EmissionsError, match=says) as caught:
            model.emissions(sound(2 * 16000))
        assert "\n" not in str(caught.value)


def test_precision_is_half_on_cuda_only_and_numbers_that_overflow_are_told(folder: Folder) -> None:
    from ctc_align.models.torch_networks import precision_of

    auto, cuda = Settings(), torch.device("cuda", 0)
    assert precision_of(auto, cuda) is torch.float16
    assert precision_of(auto, CPU) is precision_of(auto, torch.device("mps")) is torch.float32
    assert precision_of(Settings(precision="float32"), cuda) is torch.float32
    model = loaded(folder("wav2vec2-layer"), precision="float16")
    with torch.no_grad():
        model.network.lm_head.weight.fill_(float("inf"))
    with pytest.raises(EmissionsError, match="overflow in float16: set precision to float32"):
        model.emissions(sound(16000))


# Text as the model writes it: blank, separator, case and special tokens of its tokenizer, and a
# language's part.

HEARD = Audio(babble(3.0), 16000)


def emitted(folder: Path, **settings: Any) -> Emissions:
    return load_model(str(folder), device="cpu", settings=Settings(**settings)).emissions(HEARD)


def labels(emissions: Emissions, text: str) -> list[list[str]]:
    """The tokens of each word when the emissions are aligned with a text."""
    alignment = Aligner(None, settings=Settings(match="exact")).align(emissions, text)
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
        # special tokens beyond the network's classes are no letters either
        (("<pad>", "<unk>", "_", *"abc"), {"word_delimiter_token": "_", "bos_token": "<s>", "eos_token": "</s>"}, 0,
         [["a", "b"], ["c"]]),
        # a space between words
        (("<pad>", "<unk>", " ", *"abc"), {"word_delimiter_token": " "}, 0, [["a", "b"], ["c"]]),
    ],
)  # fmt: skip
def test_conventions_are_the_tokenizer_s(vocab, more, blank, words, tmp_path) -> None:
    folder = checkpoint(
        tmp_path, "wav2vec2-layer", network("wav2vec2-layer", classes=len(vocab)), vocab=vocab,
        **{"bos_token": None, "eos_token": None, **more},
    )  # fmt: skip
    emissions = emitted(folder)
    assert emissions.blank == blank
    separator = tokenizer_for(emissions.vocab, emissions.blank).separator
    assert emissions.vocab[separator] == (" " if " " in vocab else "|"), (
        "whatever else the tokenizer calls it"
    )
    assert labels(emissions, "ab c") == words


def test_a_blank_that_only_the_configuration_names(tmp_path: Path) -> None:
    more = {
        "vocab": ("a", "b", "|", "-"),
        "pad_token": None,
        "unk_token": "b",
        "bos_token": None,
        "eos_token": None,
    }
    kind = "wav2vec2-layer"
    assert (
        emitted(
            checkpoint(tmp_path / "a", kind, network(kind, classes=4, pad_token_id=3), **more)
        ).blank
        == 3
    )
    with pytest.raises(
        UsageError, match="expected the blank as pad_token of the tokenizer or pad_token_id"
    ):
        emitted(checkpoint(tmp_path / "b", kind, network(kind, classes=4, pad_token_id=9), **more))


def test_pieces_of_words_begin_with_their_mark(tmp_path: Path) -> None:
    """A sentencepiece vocabulary, as fast tokenizers hold it."""
    tokenizers = pytest.importorskip("tokenizers")
    import transformers

    pieces = ("<pad>", "<unk>", "▁", "▁we", "▁call", "▁it", "l", "s", "▁c", "a")
    core = tokenizers.Tokenizer(
        tokenizers.models.Unigram(
            [(piece, -1.0) for piece in pieces], unk_id=1, byte_fallback=False
        )
    )
    core.pre_tokenizer = tokenizers.pre_tokenizers.Metaspace()
    fast = transformers.PreTrainedTokenizerFast(
        tokenizer_object=core, pad_token="<pad>", unk_token="<unk>"
    )
    network("wav2vec2-bert", classes=len(pieces)).save_pretrained(tmp_path)
    extractor("wav2vec2-bert").save_pretrained(tmp_path)
    fast.save_pretrained(tmp_path)
    emissions = emitted(tmp_path)
    assert emissions.vocab == pieces
    assert labels(emissions, "We call its cals") == [
        ["▁we"],
        ["▁call"],
        ["▁it", "s"],
        ["▁c", "a", "l", "s"],
    ]


NESTED = {
    "eng": {"<pad>": 0, "<s>": 1, "</s>": 2, "<unk>": 3, "|": 4, "a": 5, "b": 6},
    "deu": {"<pad>": 0, "<s>": 1, "</s>": 2, "<unk>": 3, "|": 4, "ä": 5, "b": 6, "ß": 7},
    "azj-script_latin": {"<pad>": 0, "<s>": 1, "</s>": 2, "<unk>": 3, "|": 4, "ə": 5},
    "urd-script_arabic": {"<pad>": 0, "<s>": 1, "</s>": 2, "<unk>": 3, "|": 4, "ا": 5},
    "urd-script_latin": {"<pad>": 0, "<s>": 1, "</s>": 2, "<unk>": 3, "|": 4, "u": 5},
}


@pytest.fixture(scope="module")
def many(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model with adapters and a head for each language, in files named as MMS's."""
    from safetensors.torch import save_file

    folder = tmp_path_factory.mktemp("many")
    for seed, (language, vocab) in enumerate(NESTED.items()):
        model = network(
            "wav2vec2-layer",
            classes=len(vocab),
            adapter_attn_dim=4,
            output_hidden_size=24,
            seed=seed,
        )
        if language == "eng":
            model.save_pretrained(folder)
        if language != "azj-script_latin":
            weights = {
                name: weights.contiguous() for name, weights in model._get_adapters().items()
            }
            save_file(weights, str(folder / f"adapter.{language}.safetensors"))
    extractor("wav2vec2-layer").save_pretrained(folder)
    tokenizer(folder, NESTED, target_lang="eng").save_pretrained(folder)
    return folder


def test_a_language_brings_its_vocabulary_and_its_weights(many: Path) -> None:
    import transformers

    english, german = emitted(many), emitted(many, language="de")
    assert english.vocab == tuple(NESTED["eng"])
    assert german.vocab == tuple(NESTED["deu"])
    theirs = transformers.Wav2Vec2ForCTC.from_pretrained(
        many, target_lang="deu", ignore_mismatched_sizes=True
    ).eval()
    expected = directly(theirs, extractor("wav2vec2-layer"), HEARD.samples)
    torch.testing.assert_close(german.log_probs, expected, atol=1e-5, rtol=0)
    assert labels(german, "bäß b") == [["b", "ä", "ß"], ["b"]]
    torch.testing.assert_close(emitted(many, language="deu").log_probs, german.log_probs)
    assert emitted(many, language="urd-script_arabic").vocab == tuple(NESTED["urd-script_arabic"])


def test_it_aligns_by_flags_alone(
    many: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The command line, from the folder on disk to JSON on stdout; nothing else is said there."""
    audio = tmp_path / "talk.wav"
    soundfile.write(audio, HEARD.samples, 16000)
    arguments = [
        str(audio),
        "--text",
        "Bäß, b!",
        "--model",
        f"hf:{many}",
        "--device",
        "cpu",
        "--stdout",
        "--quiet",
    ]
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
    assert "choose one of azj-script_latin, deu" in captured.err


@pytest.mark.parametrize(
    ("language", "message"),
    [
        ("ur", "language 'ur' may be urd-script_arabic or urd-script_latin: name one of them"),
        (
            "fr",
            (
                r"no part for the language 'fr'; choose one of azj-script_latin, deu, .* with"
                r" --language"
            ),
        ),
        (
            "az",
            (
                r"its part for azj-script_latin \(adapter.azj-script_latin.safetensors\) is missing"
                r" or damaged"
            ),
        ),
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


# Where models of transformers come from, and the one line for each way in which they do not.

pytest.importorskip("huggingface_hub")

COMMIT = "0123456789abcdef0123456789abcdef01234567"


@pytest.fixture
def made(folder: Folder) -> Path:
    return folder("wav2vec2-group")


@pytest.fixture
def spoilt(made: Path, tmp_path: Path) -> Path:
    """A copy that a test may spoil."""
    return shutil.copytree(made, tmp_path / "model")


def said(name: str, **settings: Any) -> str:
    with pytest.raises(UsageError) as caught:
        load_model(name, device="cpu", settings=Settings(**settings))
    assert "\n" not in str(caught.value)
    return str(caught.value)


def cached(made: Path, cache: Path, branch: str = "main") -> None:
    """A cache as the hub's library leaves it behind a download."""
    repository = cache / "models--someone--something"
    snapshot = repository / "snapshots" / COMMIT
    snapshot.mkdir(parents=True, exist_ok=True)
    (repository / "refs").mkdir(exist_ok=True)
    (repository / "refs" / branch).write_text(COMMIT)
    for file in made.iterdir():
        (snapshot / file.name).write_bytes(file.read_bytes())


def test_a_folder_is_loaded_from_there(made: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(made.parent)
    for name in (f"hf:{made}", str(made), f"hf:./{made.name}"):
        assert load_model(name, device="cpu").vocab == LETTERS


def test_the_cache_is_enough_when_offline(
    made: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """HF_HUB_OFFLINE, --cache-dir and --revision: the same log-probs as from the folder."""
    monkeypatch.setattr(hub_constants, "HF_HUB_OFFLINE", True)
    cached(made, tmp_path, "spring")
    settings = Settings(cache_dir=str(tmp_path), revision="spring")
    from_cache = load_model("hf:someone/something", device="cpu", settings=settings)
    torch.testing.assert_close(
        from_cache.emissions(HEARD).log_probs,
        load_model(str(made), device="cpu").emissions(HEARD).log_probs,
    )
    assert "not in the cache" in said(
        "hf:someone/something", cache_dir=str(tmp_path), revision="autumn"
    )
    assert "not in the cache" in said("hf:someone/else", cache_dir=str(tmp_path))
    (tmp_path / "models--someone--something" / "snapshots" / COMMIT / "model.safetensors").unlink()
    message = said("hf:someone/something", cache_dir=str(tmp_path), revision="spring")
    assert "neither model.safetensors nor pytorch_model.bin" in message
    assert "without HF_HUB_OFFLINE" in message


def test_what_comes_from_nowhere_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hub_constants, "ENDPOINT", "http://127.0.0.1:9")
    message = said("hf:someone/something", cache_dir=str(tmp_path))
    assert "the hub cannot be reached: connect once" in message
    assert "hf:./FOLDER" in message
    (tmp_path / "w2v").mkdir()
    monkeypatch.chdir(tmp_path)
    assert "did you mean hf:./w2v?" in said("hf:w2v", cache_dir=str(tmp_path))
    import sys

    monkeypatch.setitem(sys.modules, "transformers", None)
    assert "pip install 'ctc-align[hf]'" in said("hf:someone/something")


class Answer:
    """Of the hub, as its errors want it."""

    headers: dict[str, str] = {}  # noqa: RUF012
    status_code = 404
    request = None


def refusal(kind: type[Exception]) -> Callable[..., None]:
    def download(*args: Any, **options: Any) -> None:
        try:
            error = kind("why\nand more", response=Answer())
        except TypeError:
            error = kind("why\nand more")
        raise error

    return download


@pytest.mark.parametrize(
    ("kind", "remedy"),
    [
        (hub_errors.RepositoryNotFoundError, "no repository someone/something, or it is private"),
        (hub_errors.GatedRepoError, "asks for its licence to be accepted"),
        (hub_errors.RevisionNotFoundError, "no revision 'main'"),
        (hub_errors.LocalEntryNotFoundError, "the hub cannot be reached"),
        (hub_errors.HfHubHTTPError, "the hub refused: why and more: try again later"),
        (OSError, "cannot be downloaded: why and more"),
    ],
)
def test_what_the_hub_says_is_one_line(
    kind: type[Exception], remedy: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    import huggingface_hub

    monkeypatch.setattr(huggingface_hub, "snapshot_download", refusal(kind))
    assert remedy in said("hf:someone/something")


@pytest.mark.parametrize("name", ["hf:", "hf:some/thing/else", "hf:so me/thing"])
def test_what_is_no_repository_is_told(name: str) -> None:
    assert "expected hf:ORG/NAME or hf:./FOLDER" in said(name)


def test_folders_that_hold_no_model_are_told(tmp_path: Path) -> None:
    assert "no such folder" in said(f"hf:{tmp_path}/nothing")
    (tmp_path / "file").touch()
    assert "got a file" in said(f"hf:{tmp_path}/file")
    assert "has no config.json" in said(f"hf:{tmp_path}")
    (tmp_path / "config.json").write_text("{")
    assert "config.json cannot be read" in said(f"hf:{tmp_path}")
    (tmp_path / "config.json").write_text('{"model_type": "unheard-of"}')
    assert "config.json cannot be read" in said(f"hf:{tmp_path}")


@pytest.mark.parametrize(
    ("config", "got"),
    [
        (
            {"model_type": "whisper", "architectures": ["WhisperForConditionalGeneration"]},
            "got whisper (Whisper",
        ),
        ({"model_type": "bert"}, "got bert (no architecture)"),
    ],
)
def test_a_model_of_another_family_is_told(config: dict[str, Any], got: str, spoilt: Path) -> None:
    (spoilt / "config.json").write_text(json.dumps(config))
    message = said(str(spoilt))
    assert "expected a CTC head (wav2vec2, hubert" in message
    assert got in message


def test_half_a_download_is_told(spoilt: Path) -> None:
    weights = spoilt / "model.safetensors"
    whole = weights.read_bytes()
    for length in (0, 5, 100, len(whole) // 2, len(whole) - 1):
        weights.write_bytes(whole[:length])
        assert f"was a download cut off? then delete {spoilt}" in said(str(spoilt))


def test_a_pickle_runs_nothing(spoilt: Path, tmp_path: Path) -> None:
    (spoilt / "model.safetensors").unlink()
    torch.save(network("wav2vec2-group").state_dict(), spoilt / "pytorch_model.bin")
    assert load_model(str(spoilt), device="cpu").vocab == LETTERS
    trace = tmp_path / "it-ran"

    class Payload:
        def __reduce__(self) -> Any:
            return Path.touch, (trace,)

    torch.save({"lm_head.weight": Payload()}, spoilt / "pytorch_model.bin")
    assert "its weights cannot be read" in said(str(spoilt))
    assert not trace.exists()


@pytest.mark.parametrize(
    ("file", "maps"),
    [
        ("config.json", {"AutoConfig": "evil.Config", "AutoModelForCTC": "evil.Config"}),
        ("preprocessor_config.json", {"AutoFeatureExtractor": "evil.Config"}),
        ("tokenizer_config.json", {"AutoTokenizer": ["evil.Config", None]}),
    ],
)
def test_code_of_a_folder_is_neither_run_nor_asked_about(file, maps, spoilt, monkeypatch) -> None:
    trace = spoilt / "it-ran"
    (spoilt / "evil.py").write_text(f"open({str(trace)!r}, 'w')\nclass Config: pass\n")
    monkeypatch.setattr("builtins.input", lambda *_: "y")
    data = json.loads((spoilt / file).read_text())
    renamed = {
        key: "unheard-of"
        for key in ("model_type", "feature_extractor_type", "tokenizer_class")
        if key in data
    }
    for changes in ({}, renamed):
        (spoilt / file).write_text(json.dumps({**data, **changes, "auto_map": maps}))
        with suppress(UsageError):
            load_model(str(spoilt), device="cpu")
        assert not trace.exists()


def without(*names: str) -> Callable[[Path], None]:
    return lambda folder: [(folder / name).unlink(missing_ok=True) for name in names] and None


@pytest.mark.parametrize(
    ("spoil", "message"),
    [
        (
            without("processor_config.json", "preprocessor_config.json"),
            "(preprocessor_config.json) is missing",
        ),
        (without("vocab.json"), "its tokenizer (vocab.json or tokenizer.json) is missing"),
        (without("model.safetensors"), "lacks the weights, model.safetensors"),
        (
            lambda folder: tokenizer(folder, (*LETTERS, "ä", "ö")).save_pretrained(folder),
            "'s 32 classes (ä, ö)",
        ),
        # such as a model that was pretrained only: its head would be random
        (
            lambda folder: network("wav2vec2-group").wav2vec2.save_pretrained(folder),
            "lack lm_head.bias, lm_head.w",
        ),
        (
            lambda folder: network("wav2vec2-group").wav2vec2.save_pretrained(folder),
            "got architecture Wav2Vec2Model",
        ),
    ],
)
def test_a_folder_that_lacks_something_is_one_line(
    spoil: Callable[[Path], None], message: str, spoilt: Path
) -> None:
    spoil(spoilt)
    assert message in said(str(spoilt))


def test_classes_without_tokens_are_no_letters(
    spoilt: Path, caplog: pytest.LogCaptureFixture
) -> None:
    tokenizer(spoilt, LETTERS[:-2]).save_pretrained(spoilt)
    model = load_model(str(spoilt), device="cpu")
    assert model.vocab[-2:] == (f"<no-token-{len(LETTERS) - 2}>", f"<no-token-{len(LETTERS) - 1}>")
    assert f"2 of the network's {len(LETTERS)} classes have no token" in caplog.text


# Long recordings: chunks on the frame grid, one pass beside them, and memory that does not grow.

LOCAL = (
    "wav2vec2-group",
    "wav2vec2-layer",
    "wav2vec2-adapter",
    "hubert-group",
    "sew",
    "data2vec-audio",
    "wav2vec2-bert",
)
"""Without their layers of attention these see no further than their convolutions: chunks must be
one pass exactly."""
LISTENING = (
    "wav2vec2-group",
    "wavlm",
    "hubert-layer",
    "sew-d",
    "wav2vec2-conformer",
    "wav2vec2-bert",
)


def seconds_of_sound(seconds: float, seed: int = 0) -> Audio:
    return Audio(babble(seconds, seed), 16000)


@pytest.mark.parametrize(
    ("length", "context", "together"), [(1, 0, 1), (10, 3, 1), (10, 3, 2), (7, 5, 4), (2000, 9, 2)]
)
def test_chunks_cover_every_frame_once(length: int, context: int, together: int) -> None:
    for frames in (1, 2, 7, 99, 100, 101, 1000):
        pieces = plan_chunks(frames, length, context, together)
        assert [pieces[0][1], pieces[-1][2]] == [0, frames]
        for before, after in itertools.pairwise(pieces):
            assert before[2] == after[1], frames
        for begin, first, last, end in pieces:
            assert first < last <= first + length + together - 1, frames
            assert begin % together == 0, frames
            assert begin <= max(0, first - context), frames
            assert end >= min(frames, last + context), frames
            assert end <= frames


@pytest.mark.parametrize("kind", LOCAL)
@pytest.mark.parametrize("chunk_s", first_row_of([0.5, 1.3]))
def test_what_sees_no_further_than_its_context_is_as_in_one_pass(
    kind: str, chunk_s: float, tmp_path: Path
) -> None:
    """The recording's own mean and variance, and those of norms over time, in every chunk."""
    model = network(kind, num_hidden_layers=1)
    body = getattr(model, model.base_model_prefix)
    with torch.no_grad():  # attention that says nothing
        for name, weights in body.encoder.named_parameters():
            if "out_proj" in name or "linear_out" in name:
                weights.zero_()
    folder = checkpoint(tmp_path, kind, model)
    # quiet, then loud: a chunk's own statistics would be others
    samples = seconds_of_sound(5.0).samples.copy()
    samples[40000:] *= 8
    whole = loaded(folder).emissions(Audio(samples, 16000))
    pieces = loaded(folder, chunk_s=chunk_s, context_s=0.5).emissions(Audio(samples, 16000))
    assert pieces.first_frame_s == whole.first_frame_s
    torch.testing.assert_close(pieces.log_probs, whole.log_probs, atol=1e-4, rtol=0)


@pytest.mark.parametrize("kind", LISTENING)
def test_attention_loses_little_with_the_context(kind: str, tmp_path: Path) -> None:
    """Probabilities of chunks of 2 s with 2 s around them, beside one pass of all 12 s.

    Random attention is nearly uniform, so what it loses here is the worst case; on average at most
    0.02 of probability.
    """
    folder = checkpoint(tmp_path, kind)
    heard = seconds_of_sound(12.0)
    whole = loaded(folder).emissions(heard).log_probs.exp()
    near, far = (
        (loaded(folder, chunk_s=2.0, context_s=context_s).emissions(heard).log_probs.exp() - whole)
        .abs()
        .mean()
        for context_s in (4.0, 0.5)
    )
    assert 0 < float(near) < 0.02
    assert float(near) < float(far)


def test_progress_grows_to_one(tmp_path: Path) -> None:
    shares: list[float] = []
    model = loaded(checkpoint(tmp_path, "wav2vec2-group"), chunk_s=1.0, context_s=0.2)
    model.emissions(seconds_of_sound(4.5), shares.append)
    assert shares == sorted(shares)
    assert len(set(shares)) == 5
    assert shares[-1] == 1.0


def watched_passes(model: TorchModel, monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Return a list that gets the frames of each pass through the network, all rows together."""
    seen: list[int] = []
    heard = model._logits

    def logits(inputs: torch.Tensor, lengths: torch.Tensor | None) -> torch.Tensor:
        found = heard(inputs, lengths)
        seen.append(found.shape[0] * found.shape[1])
        return found

    monkeypatch.setattr(model, "_logits", logits)
    return seen


@pytest.mark.parametrize("kind", ["wav2vec2-group", "wav2vec2-bert"])
def test_no_pass_is_longer_than_a_chunk_and_its_context(kind, tmp_path, monkeypatch) -> None:
    model = loaded(checkpoint(tmp_path, kind), chunk_s=1.0, context_s=0.5)
    seen = watched_passes(model, monkeypatch)
    model.emissions(seconds_of_sound(60.0))
    assert len(seen) >= 59
    assert max(seen) <= 102


def test_batches_go_in_chunks_too_and_no_pass_is_longer(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = loaded(checkpoint(tmp_path, "wav2vec2-layer"), chunk_s=1.0, context_s=0.5)
    audios = [seconds_of_sound(0.2 + 0.05 * (seed % 7), seed) for seed in range(20)]
    expected = [model.emissions(audio).log_probs for audio in audios]
    seen = watched_passes(model, monkeypatch)
    for emissions, log_probs in zip(model.emissions_batch(audios), expected):
        torch.testing.assert_close(emissions.log_probs, log_probs, atol=1e-4, rtol=0)
    assert 4 <= len(seen) < 10
    assert max(seen) <= 100
    model = loaded(checkpoint(tmp_path, "wav2vec2-layer"), chunk_s=1.5, context_s=0.5)
    audios = [
        seconds_of_sound(1.2, 1),
        seconds_of_sound(4.0, 2),
        seconds_of_sound(0.7, 3),
        seconds_of_sound(2.0, 4),
    ]
    for audio, emissions in zip(audios, model.emissions_batch(audios)):
        torch.testing.assert_close(
            emissions.log_probs, model.emissions(audio).log_probs, atol=1e-4, rtol=0
        )


def test_the_checks_see_a_guard_that_sleeps_and_times_that_are_a_frame_off(
    tmp_path, monkeypatch
) -> None:
    """The faults of the checks above: statistics of a chunk alone, batches with padding."""
    folder = checkpoint(tmp_path, "wav2vec2-group")
    samples = seconds_of_sound(5.0).samples.copy()
    samples[40000:] *= 8
    model = loaded(folder, chunk_s=1.0, context_s=0.5)
    right = model.emissions(Audio(samples, 16000)).log_probs
    monkeypatch.setattr(model._guard, "norms", [])
    assert float((model.emissions(Audio(samples, 16000)).log_probs - right).abs().max()) > 1e-2
    for kind in ("wav2vec2-group", "wav2vec2-conformer", "data2vec-audio"):
        model = loaded(checkpoint(tmp_path / kind, kind))
        audios = [seconds_of_sound(2.0), seconds_of_sound(1.0, 1)]
        monkeypatch.setattr(model._guard, "lengths_of", lambda rows: None)
        alone, together = model.emissions(audios[1]), model.emissions_batch(audios)[1]
        assert float((alone.log_probs - together.log_probs).abs().max()) > 1e-3
    model = loaded(checkpoint(tmp_path, "wav2vec2-group", nearly_local("wav2vec2-group")))
    model.first_frame_s += model.frame_shift_s
    assert abs(float(np.median(delays_s(model)))) > model.frame_shift_s / 2


# When frames are: an impulse put through each network must be heard where the grid says that frames
# lie.

SAMPLES = 48000
IMPULSES = range(8000, 40000, 997)


def nearly_local(kind: str) -> Any:
    """A network in which a frame depends mostly on itself, and a little on the others."""
    model = network(kind)
    with torch.no_grad():
        for name, weights in model.named_parameters():
            positions = "pos_conv" in name and "original0" in name
            attends = (
                "out_proj.weight" in name
                or "linear_out.weight" in name
                or "output.dense.weight" in name
            )
            causal = "depthwise_conv" in name
            if positions or attends or causal:
                weights.mul_(0.1)
    return model


def delays_s(model: TorchModel) -> np.ndarray:
    """For impulses all over a recording: centre of the frame that changes most, less its time."""
    background = babble(SAMPLES / 16000 + 0.01)[:SAMPLES]
    audios = [Audio(background, 16000)]
    for place in IMPULSES:
        struck = background.copy()
        struck[place] += 1.0
        audios.append(Audio(struck, 16000))
    calm, *struck_ones = (emissions.log_probs for emissions in model.emissions_batch(audios))
    found = []
    for place, log_probs in zip(IMPULSES, struck_ones):
        moved = (log_probs - calm).square().sum(1).numpy()
        # frames that move alike (a pooled pair) share the honour
        frame = float(np.flatnonzero(moved > 0.7 * moved.max()).mean())
        found.append(
            model.first_frame_s + (frame + 0.5) * model.frame_shift_s - (place + 0.5) / 16000
        )
    return np.array(found)


@pytest.mark.parametrize("kind", FAMILIES)
def test_an_impulse_is_heard_when_it_is(kind: str, tmp_path: Path) -> None:
    model = loaded(checkpoint(tmp_path, kind, nearly_local(kind)))
    found = delays_s(model)
    assert abs(float(np.median(found))) <= model.frame_shift_s / 2
    assert float(np.mean(np.abs(found) <= 1.5 * model.frame_shift_s)) > 0.8


@pytest.mark.parametrize(
    "layers", [[(10, 5), (3, 2)], [(400, 160), (2, 2)], [(4, 2, 1), (3, 2, 1)], [(3, 1, 1)]]
)
def test_a_grid_is_its_convolutions(layers: list[tuple[int, ...]]) -> None:
    """Beside torch's own: how many frames, and from which inputs, padded layers too."""
    grid = FrameGrid.of(layers)
    stack = torch.nn.Sequential(
        *(
            torch.nn.Conv1d(1, 1, kernel, stride, *padding, bias=False)
            for kernel, stride, *padding in layers
        )
    )
    for inputs in range(grid.field, grid.field + 3 * grid.stride + 2):
        row = torch.rand(1, 1, inputs, requires_grad=True)
        outputs = stack(row)
        assert outputs.shape[-1] == grid.frames(inputs) == grid.levels(inputs)[-1]
        last = outputs.shape[-1] - 1
        (gradient,) = torch.autograd.grad(outputs[0, 0, last], row)
        felt = gradient[0, 0].nonzero().flatten()
        first, end = grid.inputs(last, last + 1)
        assert int(felt.min()) == max(0, first + grid.start)
        assert int(felt.max()) + 1 == min(end, inputs)
        if grid.start == 0 and end <= inputs:
            assert (
                int(felt.min()) + int(felt.max()) + 1
            ) / 2 == grid.first_centre + last * grid.stride
