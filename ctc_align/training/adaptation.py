"""From a model of ours to one that knows the speakers or the corpus at hand, without labels beyond the transcripts.

The model segments the corpus itself, taking the pronunciations that fit; then it learns on with a small rate from its
own segments and from the transcripts by CTC. What is held out decides which epoch is kept; if none is better than the
model was, the model stays as it was, and that is said.
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
from ctc_align.models import EMBEDDED
from ctc_align.models.calibration import FILE as CALIBRATION
from ctc_align.models.catalogue import folder_settings
from ctc_align.models.convnet import convnet_model as ours
from ctc_align.models.convnet.convnet_model import ModelDescription
from ctc_align.models.convnet.network import AcousticNetwork
from ctc_align.text.lexicon import Lexicon, read_lexicon
from ctc_align.tokens.phones import is_arpabet
from ctc_align.tokens.tokenizer import tokenizer_for
from ctc_align.training import acoustic_training, frame_labels
from ctc_align.training.corpus_data import Corpus, Limits, gather
from ctc_align.training.held_out_losses import EVALUATION_FRAMES
from ctc_align.training.inventory import Inventory
from ctc_align.training.model_package import Card, lexicon_lines, write_model
from ctc_align.training.pipeline import Call, Result, pairs_of, say_corpus
from ctc_align.training.progress import Watch
from ctc_align.training.run_folder import check_out_dir, workplace
from ctc_align.training.segmenter import Spoken
from ctc_align.training.training_batches import collate, plan
from ctc_align.training.training_data import Material
from ctc_align.types import Pronunciation, WordTokens


@dataclass(frozen=True)
class Adaptation:
    """Settings of `ctc-align adapt`."""

    name: str = setting("", may_be_empty=True)
    """What the model is called; "": as its folder is."""
    language: str = setting("", may_be_empty=True)
    """Of the transcripts: how digits and signs are read; "": as the model says, else English for English phones, else
    they are not."""
    seed: int = 1
    longest_s: float = setting(36.0, above=0.0)
    """Longer utterances are left out."""
    dev_share: float = setting(0.15, above=0.0)
    """How much of the speech is held out, unless --dev says what."""
    training: acoustic_training.Training = field(
        default_factory=lambda: acoustic_training.Training(
            epochs=6, learning_rate=3e-4, batch_s=30.0, warmup_steps=5, freeze_norms=True, keep_best=True
        )
    )


@dataclass(frozen=True)
class Given:
    """The model that is adapted: what it is, its weights (float32), and what stands beside them."""

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
    """Go through all stages: read, segment, learn, write. Resumable as `ctc_align.training.pipeline.train` is.

    Raises:
        UsageError: the call is wrong, the model is none of ours, or the folder is another run's.
        InputError: nothing in the corpus can be used.
        OutputError: something cannot be written.
    """
    watch = watch or Watch()
    check_out_dir(call.out_dir, force=call.force)
    given = read_given(model, call)
    began, cpu = time.monotonic(), time.process_time()
    vocab = given.description.vocab
    inventory = Inventory(vocab, tokenizer_for(vocab, 0, given.lexicon), {})
    units = _units(inventory)
    language = adaptation.language or given.description.language or (ENGLISH if units == "arpabet" else "")
    pairs = pairs_of(call, language, watch)
    settings: dict[str, object] = {
        "command": "adapt",
        "recipe": asdict(adaptation),
        "corpus": pairs.fingerprint,
        "model": _sum_of(given.weights),
    }
    with workplace(call.out_dir, settings, force=call.force, keep=call.keep) as work:
        limits = Limits(adaptation.longest_s, given.parts, adaptation.dev_share, adaptation.seed)
        corpus = gather(pairs, inventory, units, language, limits, work / "features", watch)
        say_corpus(corpus, inventory, watch)
        found = frame_labels.kept(work / "labels.npz", corpus, lambda: own_labels(given, corpus, watch))
        corpus = _with_labels(corpus, found)
        material = Material(corpus.store, found.targets, found.states, corpus.train, corpus.dev)
        training = replace(adaptation.training, seed=adaptation.seed, keep_best=True)
        place = acoustic_training.Place(work / "network", call.device, watch)
        shape = given.description.shape
        trained = acoustic_training.train(shape, training, material, place, given.weights)
        watch.say(outcome(trained))
        name = adaptation.name or call.out_dir.resolve().name or "model"
        mixtures = ours.mixtures_of(given.description, given.weights)
        card = Card(
            name, call.command, call.corpus, units, language, corpus, inventory, shape, training, trained,
            time.monotonic() - began, time.process_time() - cpu, given.description.name,
            mixtures=0 if mixtures is None else mixtures.weights.shape[1],
        )  # fmt: skip
        description = replace(given.description, name=name, language=language)
        lines = lexicon_lines(given.lexicon) if given.lexicon is not None and units == "lexicon" else ()
        write_model(call.out_dir, description, trained.network, given.log_priors, card, lines, mixtures)
        if (given.folder / CALIBRATION).exists():
            shutil.copyfile(given.folder / CALIBRATION, call.out_dir / CALIBRATION)
    return Result(call.out_dir, card)


def outcome(trained: acoustic_training.Trained) -> str:
    """What became of the held-out loss, in words."""
    before, after = trained.before, trained.dev
    if before is None or not after.utterances:
        return "nothing is held out: whether the model is better now, nobody knows"
    if (before.ctc, before.frame) == (after.ctc, after.frame):
        return f"no epoch was better on what is held out ({after}): the model is the one that was given"
    line = f"held out: {after}, before {before}"
    worse = [name for name, a, b in (("ctc", after.ctc, before.ctc), ("frame", after.frame, before.frame)) if a > b]
    return f"{line}; better together, but {worse[0]} alone is worse" if worse else line


def read_given(model: str, call: Call) -> Given:
    """The model that is to be adapted.

    Raises:
        UsageError: none of ours, or one without segmentation states.
    """
    from safetensors.torch import load_file

    folder = ours.EMBEDDED if model in EMBEDDED else Path(model)
    if not (folder / "model.toml").is_file():
        raise UsageError(
            f"--model {model}: expected english, or the folder of a model that `ctc-align train` wrote: "
            "no other can be adapted"
        )
    if call.out_dir.resolve() == folder.resolve():
        raise UsageError(f"--out-dir {call.out_dir}: is the folder of the model that is adapted; take another one")
    description = ours.load_folder(folder, torch.device("cpu"), Settings()).description
    if not description.shape.states:
        raise UsageError(f"--model {model}: has no segmentation states; train a model with `ctc-align train`")
    weights = {name: w.float() for name, w in load_file(str(folder / "model.safetensors")).items()}
    path = call.lexicon or folder_settings(model).lexicon
    return Given(folder, description, weights, None if path is None else read_lexicon(path))


@torch.inference_mode()
def own_labels(given: Given, corpus: Corpus, watch: Watch) -> frame_labels.Labels:
    """Of each utterance the pronunciations that fit and a state for every frame, by the model itself."""
    network = ours.network_with(given.description.shape, given.weights)
    members = np.array(sorted(corpus.spoken))
    spoken: dict[int, Spoken] = {}
    states: list[tuple[int, np.ndarray]] = []
    done = 0
    for places in plan(corpus.store.lengths[members], EVALUATION_FRAMES, 0, 0):
        part = members[places].tolist()
        for i, chosen, row in _segmented(given, network, corpus, part):
            spoken[i] = chosen
            states.append((i, row))
        done += len(part)
        watch.progress("segmenting", done / len(members), f"{done} of {len(members)}")
    return frame_labels.collected(len(corpus.store), spoken, states)


def _segmented(
    given: Given, network: AcousticNetwork, corpus: Corpus, part: Sequence[int]
) -> Iterator[tuple[int, Spoken, np.ndarray]]:
    """Utterance, what is said in it, and its states (T,), of those that have a path."""
    none = [np.zeros(0, np.int16)] * len(corpus.store)
    batch = collate(corpus.store, part, none, None, network.shape.context_frames, None)
    tokens, scores = network(batch.inputs)
    assert scores is not None
    offset = ours.state_offset(given.log_priors, given.description.prior_scale, given.description.silence_bonus)
    lengths = batch.lengths.tolist()
    rows = [
        _own_path(
            row[:n],
            scores[b, :n].log_softmax(-1) + offset,
            _word_tokens(corpus.spoken[i]),
            given.parts,
        )
        for b, (i, row, n) in enumerate(zip(part, tokens.log_softmax(-1), lengths))
    ]
    for i, found in zip(part, batching.run(rows)):
        if found is not None:
            yield i, *found


def _own_path(
    log_probs: torch.Tensor, scores: torch.Tensor, word_tokens: Sequence[WordTokens], parts: int
) -> Steps[tuple[Spoken, np.ndarray] | None]:
    """What is said in an utterance, and its states (T,); None where there is no path."""
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


def _with_labels(corpus: Corpus, found: frame_labels.Labels) -> Corpus:
    """The corpus without what the model found no path through."""
    has = np.array([len(row) > 0 for row in found.states])
    if not has[corpus.train].any():
        raise InputError("expected utterances that the model finds a path through, got none: is it the right model?")
    return replace(corpus, train=corpus.train[has[corpus.train]], dev=corpus.dev[has[corpus.dev]])


def _units(inventory: Inventory) -> str:
    if inventory.tokenizer.token_kind == "tokens":
        return "letters"
    return "arpabet" if is_arpabet(inventory.vocab) else "lexicon"


def _sum_of(weights: dict[str, torch.Tensor]) -> list[float]:
    """What tells one model's weights from another's."""
    return [float(sum(weight.double().abs().sum() for weight in weights.values())), float(len(weights))]
