"""Adaptation of a trained model to the speakers or the corpus at hand, without labels beyond the transcripts.

The model segments the corpus itself, choosing the pronunciations that fit; then it is trained on with a small learning
rate, on its own segments and by CTC on the transcripts. The held-out part decides which epoch is kept; if none is
better than the model was, the model stays as it was, and a line says so.
"""

from __future__ import annotations

import shutil
import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path

import numpy as np
import torch

from ctc_align import lattice
from ctc_align.alignment.pronunciations import choose_pronunciations
from ctc_align.config import ENGLISH, Settings, setting
from ctc_align.errors import InputError, UsageError
from ctc_align.kernels import batching
from ctc_align.kernels.requests import BestPath, Steps
from ctc_align.models import EMBEDDED, embedded_folder
from ctc_align.models.calibration import FILE as CALIBRATION
from ctc_align.models.catalogue import folder_settings
from ctc_align.models.convnet import convnet_model, model_folder
from ctc_align.models.convnet.convnet_model import ModelDescription
from ctc_align.models.convnet.network import AcousticNetwork
from ctc_align.text.ipa import is_ipa
from ctc_align.text.lexicon import Lexicon, read_lexicon
from ctc_align.tokens.phones import is_arpabet
from ctc_align.tokens.tokenizer import Tokenizer, tokenizer_for
from ctc_align.training import Watch, acoustic_training, frame_labels
from ctc_align.training.corpus_data import Corpus, Limits, gather
from ctc_align.training.inventory import Inventory
from ctc_align.training.model_package import Card, lexicon_lines, write_model
from ctc_align.training.pipeline import Call, Result, pairs_of, say_corpus
from ctc_align.training.refining.learnt_edges import EDGES, learnt_edges
from ctc_align.training.run_folder import check_out_dir, run_folder
from ctc_align.training.segmenter import Spoken
from ctc_align.training.training_batches import Material, collate, evaluation_batches
from ctc_align.types import Pronunciation, WordTokens


@dataclass(frozen=True)
class Adaptation:
    """Settings of `ctc-align adapt`."""

    name: str = setting("", may_be_empty=True)
    """The model's name; "": that of its folder."""
    language: str = setting("", may_be_empty=True)
    """The transcripts' language, by which digits and signs are read; "": the model's, else English for English phones,
    else they are not read."""
    seed: int = 1
    longest_s: float = setting(36.0, above=0.0)
    """Longer utterances are left out."""
    dev_share: float = setting(0.15, above=0.0)
    """Share of the speech that is held out, unless --dev is base."""
    edges: str = setting("english", choices=EDGES)
    """The network of edges that the model gets: see `ctc_align.training.refining.learnt_edges`."""
    training: acoustic_training.Training = field(
        default_factory=lambda: acoustic_training.Training(
            epochs=6, learning_rate=3e-4, batch_s=30.0, warmup_steps=5, freeze_norms=True, keep_best=True
        )
    )


@dataclass(frozen=True)
class BaseModel:
    """The model that is adapted: its folder, description, weights (float32) and lexicon."""

    folder: Path
    description: ModelDescription
    weights: dict[str, torch.Tensor]
    lexicon: Lexicon | None

    @property
    def parts(self) -> int:
        return (self.description.shape.states - 1) // (len(self.description.vocab) - 1)

    @property
    def log_priors(self) -> torch.Tensor:
        return self.weights.get("log_priors", torch.zeros(self.description.shape.states))


def adapt(adaptation: Adaptation, model: str, call: Call, watch: Watch | None = None) -> Result:
    """Read, segment, train, write. Resumable, as `ctc_align.training.pipeline.train`.

    Raises:
        UsageError: the call is wrong, the model cannot be adapted, or the folder is another run's.
        InputError: nothing in the corpus can be used.
        OutputError: something cannot be written.
    """
    watch = watch or Watch()
    check_out_dir(call.out_dir, force=call.force)
    base = read_base_model(model, call)
    began, cpu = time.monotonic(), time.process_time()
    vocab = base.description.vocab
    tokenizer = tokenizer_for(vocab, 0, base.lexicon)
    units = _units(vocab, tokenizer)
    language = adaptation.language or base.description.language or (ENGLISH if units == "arpabet" else "")
    inventory = Inventory(vocab, tokenizer, {}, units, language)
    pairs = pairs_of(call, language, watch)
    settings: dict[str, object] = {
        "command": "adapt",
        "recipe": asdict(adaptation),
        "corpus": pairs.fingerprint,
        "model": _sum_of(base.weights),
    }
    with run_folder(call.out_dir, settings, force=call.force, keep=call.keep) as work:
        limits = Limits(adaptation.longest_s, base.parts, adaptation.dev_share, adaptation.seed)
        corpus = gather(pairs, inventory, limits, work / "features", watch)
        say_corpus(corpus, inventory, watch)
        labels = frame_labels.kept(work / "labels.npz", corpus, lambda: own_labels(base, corpus, watch))
        corpus = _with_labels(corpus, labels)
        material = Material(corpus.store, labels.targets, labels.states, corpus.train, corpus.dev)
        training = replace(adaptation.training, seed=adaptation.seed, keep_best=True)
        place = acoustic_training.Place(work / "network", call.device, watch)
        shape = base.description.shape
        trained = acoustic_training.train(shape, training, material, place, base.weights)
        watch.say(outcome(trained))
        name = adaptation.name or call.out_dir.resolve().name or "model"
        mixtures = convnet_model.mixtures_of(base.description, base.weights)
        card = Card(
            name, call.command, call.corpus, corpus, inventory, shape, training, trained,
            time.monotonic() - began, time.process_time() - cpu, base.description.name,
            mixtures=0 if mixtures is None else mixtures.weights.shape[1],
            edges=learnt_edges(adaptation.edges, vocab, base.folder),
        )  # fmt: skip
        description = replace(base.description, name=name, language=language)
        lines = lexicon_lines(base.lexicon) if base.lexicon is not None and units == "lexicon" else ()
        write_model(call.out_dir, description, base.log_priors, card, lines, mixtures)
        if (base.folder / CALIBRATION).exists():
            shutil.copyfile(base.folder / CALIBRATION, call.out_dir / CALIBRATION)
    return Result(call.out_dir, card)


def outcome(trained: acoustic_training.Trained) -> str:
    """Return the change of the held-out loss in words."""
    before, after = trained.before, trained.dev
    if before is None or not after.utterances:
        return "nothing is held out, so it is unknown whether the model is better now"
    if (before.ctc, before.frame) == (after.ctc, after.frame):
        return f"no epoch was better on what is held out ({after}): the model is unchanged"
    line = f"held out: {after}, before {before}"
    worse = [name for name, a, b in (("ctc", after.ctc, before.ctc), ("frame", after.frame, before.frame)) if a > b]
    return f"{line}; better together, but {worse[0]} alone is worse" if worse else line


def read_base_model(model: str, call: Call) -> BaseModel:
    """Read the model that is to be adapted.

    Raises:
        UsageError: not a model of `ctc-align train`, or one without segmentation states.
    """
    from safetensors.torch import load_file

    folder = embedded_folder(model) if model in EMBEDDED else Path(model)
    if not (folder / "model.toml").is_file():
        raise UsageError(
            f"--model {model}: expected english, or the folder of a model that `ctc-align train` wrote: "
            "no other can be adapted"
        )
    if call.out_dir.resolve() == folder.resolve():
        raise UsageError(f"--out-dir {call.out_dir}: is the folder of the model that is adapted; take another one")
    description = model_folder.load_folder(folder, torch.device("cpu"), Settings()).description
    if not description.shape.states:
        raise UsageError(f"--model {model}: has no segmentation states; train a model with `ctc-align train`")
    weights = {name: w.float() for name, w in load_file(str(folder / "model.safetensors")).items()}
    path = call.lexicon or folder_settings(model).lexicon
    return BaseModel(folder, description, weights, None if path is None else read_lexicon(path))


@torch.inference_mode()
def own_labels(base: BaseModel, corpus: Corpus, watch: Watch) -> frame_labels.Labels:
    """Return the pronunciations that fit and a state for every frame, by the model itself."""
    network = convnet_model.network_with(base.description.shape, base.weights)
    every = np.array(sorted(corpus.spoken))
    spoken: dict[int, Spoken] = {}
    states: list[tuple[int, np.ndarray]] = []
    done = 0
    for part in evaluation_batches(corpus.store.lengths, every):
        for i, chosen, row in _segmented(base, network, corpus, part):
            spoken[i] = chosen
            states.append((i, row))
        done += len(part)
        watch.progress("segmenting", done / len(every), f"{done} of {len(every)}")
    return frame_labels.collected(len(corpus.store), spoken, states)


def _segmented(
    base: BaseModel, network: AcousticNetwork, corpus: Corpus, part: Sequence[int]
) -> Iterator[tuple[int, Spoken, np.ndarray]]:
    """Yield utterances, their pronunciations and their states (T,), of those that have a path."""
    none = [np.zeros(0, np.int16)] * len(corpus.store)
    batch = collate(Material(corpus.store, none, None, corpus.train), part, network.shape.context_frames)
    tokens, scores = network(batch.inputs)
    assert scores is not None
    offset = convnet_model.state_offset(base.log_priors, base.description.prior_scale, base.description.silence_bonus)
    lengths = batch.lengths.tolist()
    rows = [
        _own_path(
            row[:n],
            scores[b, :n].log_softmax(-1) + offset,
            _word_tokens(corpus.spoken[i]),
            base.parts,
        )
        for b, (i, row, n) in enumerate(zip(part, tokens.log_softmax(-1), lengths))
    ]
    for i, labelled in zip(part, batching.run(rows)):
        if labelled is not None:
            yield i, *labelled


def _own_path(
    log_probs: torch.Tensor, scores: torch.Tensor, word_tokens: Sequence[WordTokens], parts: int
) -> Steps[tuple[Spoken, np.ndarray] | None]:
    """Return the pronunciations of an utterance and its states (T,); None if there is no path."""
    try:
        chosen, _ = yield from choose_pronunciations(log_probs, word_tokens, None, 0, whole_words=True)
    except InputError:
        return None
    ids, owners = np.asarray(chosen.ids) - 1, np.asarray(chosen.words)
    topology = lattice.segmentation([ids], [owners], parts, scores.shape[1] - 1)
    best = yield BestPath(scores, topology)
    if best.score == float("-inf"):
        return None
    words = [(ids[owners == w],) for w in np.unique(owners)]
    return Spoken(tuple(words), (0,) * len(words)), topology.emit[0][best.states]


def _word_tokens(spoken: Spoken) -> list[WordTokens]:
    return [
        WordTokens(tuple(Pronunciation(tuple((said + 1).tolist()), ("",) * len(said)) for said in word))
        for word in spoken.words
    ]


def _with_labels(corpus: Corpus, labels: frame_labels.Labels) -> Corpus:
    """Return the corpus without utterances that have no path."""
    has = np.array([len(row) > 0 for row in labels.states])
    if not has[corpus.train].any():
        raise InputError("expected utterances that the model finds a path through, got none: is it the right model?")
    return replace(corpus, train=corpus.train[has[corpus.train]], dev=corpus.dev[has[corpus.dev]])


def _units(vocab: tuple[str, ...], tokenizer: Tokenizer) -> str:
    if tokenizer.token_kind == "tokens":
        return "letters"
    if is_ipa(vocab):
        return "ipa"
    return "arpabet" if is_arpabet(vocab) else "lexicon"


def _sum_of(weights: dict[str, torch.Tensor]) -> list[float]:
    """Return numbers that differ between models' weights."""
    return [float(sum(weight.double().abs().sum() for weight in weights.values())), float(len(weights))]
