"""`hf:ORG/NAME`, `hf:./FOLDER`: networks of `transformers` with a CTC head.

wav2vec 2.0 (and MMS with its parts for each language), HuBERT, WavLM, SEW, SEW-D, data2vec-audio,
UniSpeech, UniSpeech-SAT and wav2vec 2.0 Conformer take samples, Wav2Vec2-BERT takes mel features.
The model's feature extractor and tokenizer give the rate, the normalisation, the blank and the word
separator.
"""

from __future__ import annotations

import json
import logging
import warnings
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn

from ctc_align.config import ENGLISH, Settings
from ctc_align.errors import UsageError, one_line
from ctc_align.extras import install_line
from ctc_align.models.acoustic_model import HF, Device, torch_device
from ctc_align.models.framewise import Convolution, FrameGrid, NetworkFacts, Signal
from ctc_align.models.torch_networks import TorchModel, time_norm
from ctc_align.tokens.alphabet import SEPARATORS
from ctc_align.types import Audio

WAVEFORM = (
    "wav2vec2",
    "hubert",
    "wavlm",
    "sew",
    "sew-d",
    "data2vec-audio",
    "unispeech",
    "unispeech-sat",
    "wav2vec2-conformer",
)
FEATURES = ("wav2vec2-bert",)
SQUEEZED = ("sew", "sew-d")
"""These networks pool pairs of frames, and a last odd frame alone, which padding would change."""

_NORM_EPSILON = 1e-7
_FBANK = Convolution(400, 160)
"""Samples per frame of the filter bank of Wav2Vec2-BERT."""
_BLOCK_FRAMES = 6000
"""Frames of the filter bank computed at once."""

logger = logging.getLogger(__name__)


def load(
    name: str, device: str | Device | torch.device, settings: Settings, *, folder: bool = False
) -> TorchModel:
    """Load the model `name`: hf:ORG/NAME, hf:./FOLDER, or with `folder` the path of a folder.

    Raises:
        UsageError: `transformers` is missing, there is no such model, it has no CTC head, or its
            files are damaged.
    """
    device = torch_device(device)
    try:
        import transformers  # noqa: F401
    except ImportError as error:
        raise UsageError(
            f"{HF}: models of transformers need an extra: {install_line('hf')} ({one_line(error)})"
        ) from error
    target = name.removeprefix(HF)
    source = HubSource(name, target, settings, folder or is_folder(target))
    description = source.description()
    with _quiet():
        config = _config(description, name)
        extractor = _extractor(description, name)
        tokenizer = load_tokenizer(description, name)
        language = set_language(tokenizer, settings.language or ENGLISH, name)
        further: tuple[str, ...] = ()
        if language:
            further = (f"adapter.{language}.safetensors", f"adapter.{language}.bin")
        network = _network(source.weights(*further), config, name)
        if language and getattr(config, "adapter_attn_dim", None):
            _load_adapter(network, language, name)
    classes = network.lm_head.out_features
    mel = config.model_type in FEATURES
    norms: tuple[tuple[nn.Module, str], ...] = ()
    stem = None
    if not mel:
        norms, stem = time_norm(_body(network).feature_extractor.conv_layers[0])
    facts = NetworkFacts(
        name=name,
        vocab=vocabulary(tokenizer, description, classes, name),
        blank=blank_of(tokenizer, config, classes, name),
        sample_rate=int(extractor.sampling_rate),
        grid=_mel_grid(network, extractor) if mel else _waveform_grid(network, config),
        front=2 if mel else 0,
        pads=config.model_type not in SQUEEZED,
        norms=norms,
        stem=stem,
        norm_epsilon=_NORM_EPSILON if not mel and extractor.do_normalize else None,
    )
    return TransformersModel(facts, network, extractor if mel else None, device, settings)


class TransformersModel(TorchModel):
    """A network of transformers.

    Args:
        extractor: of a network that takes a filter bank, each channel standardised over the
            utterance; None for one that takes samples.
    """

    def __init__(
        self,
        facts: NetworkFacts,
        network: nn.Module,
        extractor: Any | None,
        device: torch.device,
        settings: Settings,
    ) -> None:
        super().__init__(facts, network, device, settings)
        self._extractor = extractor

    def _signal(self, audio: Audio) -> Signal:
        if self._extractor is None:
            return super()._signal(audio)
        count = _FBANK.outputs(len(audio.samples))
        # each channel's frames side by side, as in the extractor: sums round as there
        features = np.empty((self._extractor.num_mel_bins, count), np.float32).T
        for first in range(0, count, _BLOCK_FRAMES):
            last = min(count, first + _BLOCK_FRAMES)
            samples = audio.samples[
                first * _FBANK.stride : (last - 1) * _FBANK.stride + _FBANK.kernel
            ]
            features[first:last] = self._extractor._extract_fbank_features(samples)
        mean = features.mean(0)
        variance = features.var(0, ddof=1)
        # the extractor pads the last odd frame and masks it: it is not used
        together = self._extractor.stride
        rows = features[: count // together * together].reshape(-1, together * features.shape[1])
        deviation = np.sqrt(variance + _NORM_EPSILON)
        return Signal(
            rows, *(np.tile(each, together).astype(np.float32) for each in (mean, deviation))
        )

    def _logits(self, inputs: torch.Tensor, lengths: torch.Tensor | None) -> torch.Tensor:
        mask = None
        if lengths is not None:
            mask = (torch.arange(inputs.shape[1], device=inputs.device) < lengths[:, None]).long()
        with warnings.catch_warnings():  # WavLM gives torch two masks of different types
            warnings.filterwarnings("ignore", "Support for mismatched key_padding_mask")
            return self.network(inputs, attention_mask=mask).logits


def _body(network: Any) -> Any:
    """Return the network without its head."""
    return getattr(
        network, network.base_model_prefix.replace("-", "_")
    )  # versions before 5 say "sew-d"


def _waveform_grid(network: Any, config: Any) -> FrameGrid:
    body = _body(network)
    layers = (_convolution(layer.conv) for layer in body.feature_extractor.conv_layers)
    return FrameGrid(
        (*layers, *_adapters(body)), config.squeeze_factor if config.model_type in SQUEEZED else 1
    )


def _mel_grid(network: Any, extractor: Any) -> FrameGrid:
    return FrameGrid(
        (_FBANK, Convolution(extractor.stride, extractor.stride), *_adapters(_body(network)))
    )


def _convolution(module: nn.Conv1d) -> Convolution:
    padding = module.padding[0]
    assert isinstance(padding, int)
    return Convolution(module.kernel_size[0], module.stride[0], padding)


def _adapters(body: Any) -> list[Convolution]:
    """Return the convolutions behind the encoder, which lengthen the stride."""
    adapter = getattr(body, "adapter", None)
    layers = [] if adapter is None else adapter.layers
    return [_convolution(getattr(layer, "residual_conv", None) or layer.conv) for layer in layers]


_READ_ERRORS = (OSError, ValueError, KeyError, TypeError)


def _read(
    kind: str,
    folder: Path,
    name: str,
    fault: str,
    errors: tuple[type[Exception], ...] = _READ_ERRORS,
    **options: Any,
) -> Any:
    """Load an object of transformers from a folder.

    `errors` become a UsageError that names the `fault`.
    """
    import transformers

    try:
        return getattr(transformers, kind).from_pretrained(
            str(folder), trust_remote_code=False, **options
        )
    except errors as error:
        raise UsageError(f"model {name}: {fault}: {one_line(error)}") from error


def _config(folder: Path, name: str) -> Any:
    config = _read("AutoConfig", folder, name, "config.json cannot be read")
    if config.model_type not in (*WAVEFORM, *FEATURES):
        made = ", ".join(getattr(config, "architectures", None) or []) or "no architecture"
        raise UsageError(
            f"model {name}: expected a CTC head ({', '.join((*WAVEFORM, *FEATURES))}), "
            f"got {config.model_type} ({made}): choose a model that was fine-tuned with CTC"
        )
    return config


def _extractor(folder: Path, name: str) -> Any:
    fault = "its feature extractor (preprocessor_config.json) is missing or damaged"
    extractor = _read("AutoFeatureExtractor", folder, name, fault)
    kind = type(extractor).__name__
    if kind not in ("Wav2Vec2FeatureExtractor", "SeamlessM4TFeatureExtractor"):
        raise UsageError(
            f"model {name}: expected the feature extractor of wav2vec 2.0 or Wav2Vec2-BERT, got"
            f" {kind}"
        )
    return extractor


def _network(folder: Path, config: Any, name: str) -> Any:
    fault = f"its weights cannot be read (was a download cut off? then delete {folder} and load it again)"
    # safetensors, torch and transformers raise various kinds, and all mean the same here
    options = {"config": config, "output_loading_info": True}
    network, report = _read("AutoModelForCTC", folder, name, fault, (Exception,), **options)
    missing = sorted(key for key in report["missing_keys"] if not key.endswith("masked_spec_embed"))
    if missing:
        made = ", ".join(getattr(config, "architectures", None) or []) or "unknown"
        raise UsageError(
            f"model {name}: the weights lack {', '.join(missing[:3])}{' …' if missing[3:] else ''}:"
            f" expected a model fine-tuned with CTC (…ForCTC), got architecture {made}"
        )
    return network


def _load_adapter(network: Any, language: str, name: str) -> None:
    try:
        network.load_adapter(language, local_files_only=True)
    except (OSError, ValueError, KeyError) as error:
        raise UsageError(
            f"model {name}: its part for {language} (adapter.{language}.safetensors) is missing or"
            f" damaged: {one_line(error)}"
        ) from error


@contextmanager
def _quiet() -> Iterator[None]:
    """Keep transformers' warnings and progress bars off the terminal; errors are raised as ours."""
    from transformers.utils import logging

    verbosity = logging.get_verbosity()
    bars = logging.is_progress_bar_enabled()
    logging.set_verbosity_error()
    logging.disable_progress_bar()
    try:
        yield
    finally:
        logging.set_verbosity(verbosity)
        if bars:
            logging.enable_progress_bar()


# Models on the Hugging Face hub: a repository's files in a local folder. `HF_HUB_OFFLINE`,
# `HF_HOME` and `HF_ENDPOINT` work as in every program that uses huggingface_hub.

DESCRIPTIONS = ("*.json", "*.txt", "*.model")
"""Small files: configuration, tokenizer, feature extractor."""
SAFE_WEIGHTS = ("model.safetensors", "model-*-of-*.safetensors")
PICKLED_WEIGHTS = ("pytorch_model.bin", "pytorch_model-*-of-*.bin")
"""Pickles of tensors; reading them refuses anything else."""
_PATH_PREFIXES = (".", "/", "~")


def is_folder(target: str) -> bool:
    """Return whether `target` names a folder rather than a repository ORG/NAME.

    Windows paths are folders, too.

    >>> is_folder("./model"), is_folder("facebook/wav2vec2-base-960h")
    (True, False)
    """
    return target.startswith(_PATH_PREFIXES) or "\\" in target or target[1:2] == ":"


@dataclass(frozen=True)
class HubSource:
    """The origin of a model, a folder or a repository ORG/NAME; `name` is what the user wrote.

    `revision` and `cache_dir` of the settings are used.
    """

    name: str
    target: str
    settings: Settings
    folder: bool = False

    def description(self) -> Path:
        """Return the folder with `config.json` and the other small files.

        Those of a repository are downloaded.

        Raises:
            UsageError: the folder, repository or revision does not exist or cannot be accessed, or
                there is no network or no disk space.
        """
        if self.folder:
            return self._local()
        folder = self._snapshot(DESCRIPTIONS)
        if not (folder / "config.json").is_file():
            raise UsageError(
                f"model {self.name}: the repository has no config.json: it is not a model of"
                " transformers"
            )
        return folder

    def weights(self, *further: str) -> Path:
        """Return the folder with the weights too, and with `further` files (patterns).

        The weights are safetensors if there are any.

        Raises:
            UsageError: as for `description`, or there are no weights.
        """
        if self.folder:
            folder = self._local()
            if not any(_has(folder, weights) for weights in (SAFE_WEIGHTS, PICKLED_WEIGHTS)):
                raise UsageError(
                    f"model {self.name}: {folder} lacks the weights, {SAFE_WEIGHTS[0]}: copy them"
                    " there too"
                )
            return folder
        for weights in (SAFE_WEIGHTS, PICKLED_WEIGHTS):
            folder = self._snapshot((*DESCRIPTIONS, *weights, *further))
            if _has(folder, weights):
                return folder
        raise UsageError(
            f"model {self.name}: {self.target} has neither {SAFE_WEIGHTS[0]} nor"
            f" {PICKLED_WEIGHTS[0]}, or they are not in the cache: load it once with a network and"
            " without HF_HUB_OFFLINE"
        )

    def _local(self) -> Path:
        folder = Path(self.target).expanduser()
        if not folder.is_dir():
            got = "got a file" if folder.exists() else "no such folder"
            raise UsageError(
                f"model {self.name}: expected the folder of a model of transformers, {got}:"
                f" {self.target}"
            )
        if not (folder / "config.json").is_file():
            raise UsageError(
                f"model {self.name}: {self.target} has no config.json, which save_pretrained of"
                " transformers writes"
            )
        return folder

    def _snapshot(self, patterns: tuple[str, ...]) -> Path:
        """Return the folder of a repository with the files of `patterns`.

        Files that are not in the cache are downloaded.
        """
        from huggingface_hub import errors, snapshot_download

        revision = self.settings.revision or None
        cache_dir = self.settings.cache_dir
        repository = self.target
        reasons: dict[
            type[Exception], str
        ] = {  # the first that fits: later ones are bases of earlier ones
            errors.GatedRepoError: (
                f"{repository} asks for its licence to be accepted: do so on its page, then "
                "`hf auth login`"
            ),
            errors.RepositoryNotFoundError: (
                f"the hub has no repository {repository}, or it is private "
                "(`hf auth login`); a folder is written hf:./FOLDER"
            ),
            errors.RevisionNotFoundError: (
                f"{repository} has no revision {revision!r}: expected a branch, tag or commit"
            ),
            errors.HFValidationError: (f"expected hf:ORG/NAME or hf:./FOLDER, got {repository!r}"),
            errors.LocalEntryNotFoundError: (
                "not in the cache, or not whole, and the hub cannot be reached: connect "
                "once (unset HF_HUB_OFFLINE), or give the model as a folder: hf:./FOLDER"
            ),
            errors.HfHubHTTPError: "the hub refused: {error}: try again later",
            OSError: "cannot be downloaded: {error}",
        }
        try:
            return Path(
                snapshot_download(
                    repository,
                    revision=revision,
                    cache_dir=Path(cache_dir).expanduser() if cache_dir else None,
                    allow_patterns=list(patterns),
                )
            )
        except tuple(reasons) as error:
            reason = next(text for kind, text in reasons.items() if isinstance(error, kind))
            if Path(repository).is_dir():
                reason += f"; there is a folder {repository}: did you mean hf:./{repository}?"
            raise UsageError(
                f"model {self.name}: {reason.replace('{error}', one_line(error))}"
            ) from error


def _has(folder: Path, patterns: tuple[str, ...]) -> bool:
    return any(any(folder.glob(pattern)) for pattern in patterns)


# Tokenizers of transformers: the tokens of a network's classes, the blank, the word separator, the
# language.

SEPARATOR = SEPARATORS[0]
"""The token between words in our vocabularies, whatever the tokenizer calls it."""

# "zh" and others are families of languages; the one that models mean comes first.
_THREE = (
    "aa aar,ab abk,ae ave,af afr,ak aka,am amh,an arg,ar ara arb,as asm,av ava,ay aym ayr,az aze"
    " azj,ba bak,be bel,bg bul,bi bis,bm bam,bn ben,bo bod,br bre,bs bos,ca cat,ce che,ch cha,co"
    " cos,cr cre,cs ces,cu chu,cv chv,cy cym,da dan,de deu,dv div,dz dzo,ee ewe,el ell,en eng,eo"
    " epo,es spa,et est ekk,eu eus,fa fas pes,ff ful,fi fin,fj fij,fo fao,fr fra,fy fry,ga gle,gd"
    " gla,gl glg,gn grn gug,gu guj,gv glv,ha hau,he heb,hi hin,ho hmo,hr hrv,ht hat,hu hun,hy"
    " hye,hz her,ia ina,id ind,ie ile,ig ibo,ii iii,ik ipk,io ido,is isl,it ita,iu iku,ja jpn,jv"
    " jav,ka kat,kg kon,ki kik,kj kua,kk kaz,kl kal,km khm,kn kan,ko kor,kr kau,ks kas,ku kur"
    " kmr,kv kom,kw cor,ky kir,la lat,lb ltz,lg lug,li lim,ln lin,lo lao,lt lit,lu lub,lv lav"
    " lvs,mg mlg plt,mh mah,mi mri,mk mkd,ml mal,mn mon khk,mr mar,ms msa zlm zsm,mt mlt,my mya,na"
    " nau,nb nob,nd nde,ne nep npi,ng ndo,nl nld,nn nno,no nor nob,nr nbl,nv nav,ny nya,oc oci,oj"
    " oji,om orm,or ori ory,os oss,pa pan,pi pli,pl pol,ps pus pbt,pt por,qu que,rm roh,rn run,ro"
    " ron,ru rus,rw kin,sa san,sc srd,sd snd,se sme,sg sag,si sin,sk slk,sl slv,sm smo,sn sna,so"
    " som,sq sqi als,sr srp,ss ssw,st sot,su sun,sv swe,sw swa swh,ta tam,te tel,tg tgk,th tha,ti"
    " tir,tk tuk,tl tgl,tn tsn,to ton,tr tur,ts tso,tt tat,tw twi,ty tah,ug uig,uk ukr,ur urd,uz"
    " uzb uzn,ve ven,vi vie,vo vol,wa wln,wo wol,xh xho,yi yid ydd,yo yor,yue yue,za zha,zh cmn"
    " zho,zu zul"
)
THREE_LETTERS = {codes.split()[0]: tuple(codes.split()[1:]) for codes in _THREE.split(",")}
"""Three-letter codes of languages (ISO 639-3), by their two-letter codes (ISO 639-1).

Multilingual models use those of three letters.
"""


def load_tokenizer(folder: Path, name: str) -> Any:
    """Load the tokenizer in a model's folder.

    Raises:
        UsageError: it is missing or cannot be read.
    """
    # phonemes come from our lexicon: the tokenizer needs no phonemizer
    phonemes = _config_text(folder, "tokenizer_class") == "Wav2Vec2PhonemeCTCTokenizer"
    options = {"do_phonemize": False} if phonemes else {}
    fault = "its tokenizer (vocab.json or tokenizer.json) is missing, damaged or unknown"
    # transformers raises OSError, ValueError, TypeError, ImportError …
    return _read("AutoTokenizer", folder, name, fault, (Exception,), **options)


def set_language(tokenizer: Any, language: str, name: str) -> str | None:
    """Choose a language in a tokenizer that has a vocabulary for each.

    Return the language as the model writes it, or None.

    Raises:
        UsageError: the tokenizer does not know the language.
    """
    nested = getattr(tokenizer, "vocab", None)
    if (
        not isinstance(nested, dict)
        or not nested
        or not all(isinstance(part, dict) for part in nested.values())
    ):
        return None
    chosen = choose_language(language, nested, name)
    tokenizer.set_target_lang(chosen)
    return chosen


def choose_language(language: str, there: Collection[str], name: str) -> str:
    """Return the model's own code for `language`.

    It is the same code, its three-letter code, or that with its only script.

    >>> choose_language("de", ["deu", "eng"], "mms"), choose_language("zh-CN", ["cmn-script_simplified", "eng"], "mms")
    ('deu', 'cmn-script_simplified')

    Raises:
        UsageError: there is no such language, or several match.
    """
    if language in there:
        return language
    base = language.replace("_", "-").partition("-")[0].lower()
    for code in (base, *THREE_LETTERS.get(base, ())):
        if code in there:
            return code
        scripts = sorted(known for known in there if known.startswith(f"{code}-"))
        if len(scripts) == 1:
            return scripts[0]
        if scripts:
            raise UsageError(
                f"model {name}: language {language!r} may be {' or '.join(scripts)}: name one of"
                " them"
            )
    few = ", ".join(sorted(there)[:8]) + (f" … ({len(there)} in all)" if len(there) > 8 else "")
    raise UsageError(
        f"model {name}: it has no part for the language {language!r}; choose one of {few} with"
        " --language"
    )


def vocabulary(tokenizer: Any, folder: Path, classes: int, name: str) -> tuple[str, ...]:
    """Return the token of each class; `folder` is that of the tokenizer.

    Special tokens are put in brackets, so that they are never taken for letters; the token between
    words is `|`.

    Raises:
        UsageError: the tokenizer has more tokens than the network has classes, so it belongs to a
            different model.
    """
    ids = _ids(tokenizer)
    special = set(tokenizer.all_special_tokens)
    # transformers 5 forgets a delimiter other than its default when it loads a tokenizer
    delimiter = _config_text(folder, "word_delimiter_token") or getattr(
        tokenizer, "word_delimiter_token", None
    )
    beyond = sorted(
        token for token, index in ids.items() if index >= classes and token not in special
    )
    if beyond:
        raise UsageError(
            f"model {name}: the tokenizer has tokens beyond the network's {classes} classes"
            f" ({', '.join(beyond[:5])}): it belongs to a different model: copy vocab.json and"
            " tokenizer_config.json of this one"
        )
    tokens = [f"<no-token-{index}>" for index in range(classes)]
    for token, index in ids.items():
        if index < classes:
            tokens[index] = _written(token, special, delimiter, ids)
    without = sum(token.startswith("<no-token-") for token in tokens)
    if without:
        logger.warning(
            "model %s: %d of the network's %d classes have no token", name, without, classes
        )
    return tuple(tokens)


def blank_of(tokenizer: Any, config: Any, classes: int, name: str) -> int:
    """Return the blank: the tokenizer's padding token, otherwise that of the model's configuration.

    Raises:
        UsageError: neither is one of the network's classes.
    """
    for index in (getattr(tokenizer, "pad_token_id", None), getattr(config, "pad_token_id", None)):
        if index is not None and 0 <= index < classes:
            return int(index)
    raise UsageError(
        f"model {name}: expected the blank as pad_token of the tokenizer or pad_token_id of"
        f" config.json, below {classes}: neither says so"
    )


def _ids(tokenizer: Any) -> dict[str, int]:
    """Return tokens and their ids; if two tokens have the same id, leave out the added one."""
    ids = getattr(tokenizer, "encoder", None)
    if not isinstance(ids, dict):
        return {str(token): int(index) for token, index in tokenizer.get_vocab().items()}
    taken = set(ids.values())
    added = {
        token: index
        for token, index in tokenizer.get_vocab().items()
        if token not in ids and index not in taken
    }
    return ids | added


def _written(token: str, special: set[str], delimiter: str | None, ids: dict[str, int]) -> str:
    if token == delimiter and token not in SEPARATORS and SEPARATOR not in ids:
        return SEPARATOR
    bracketed = len(token) > 2 and (token[0] + token[-1]) in ("<>", "[]")
    if token in special and token != delimiter and not bracketed:
        return f"<{token}>"
    return token


def _config_text(folder: Path, key: str) -> Any:
    """Return the text of `key` in `tokenizer_config.json`, None if it is missing.

    Where a token is a table, its text is meant.
    """
    try:
        value = json.loads((folder / "tokenizer_config.json").read_text(encoding="utf-8")).get(key)
        if isinstance(value, dict):
            return value["content"]
        return value
    except (OSError, ValueError, AttributeError, KeyError):
        return None
