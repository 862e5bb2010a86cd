"""The stages of `ctc-align train`, from a corpus to a model's folder.

reading       usable pairs of audio and transcript, their frames; a held-out part
segmenting    a state for every frame, by a generative model from a flat start (`segmenter`)
training      the network learns both outputs at once: CTC from the tokens, classes of frames from the states
refining      optional: a second segmentation, by the network and mixtures together, on which both are trained further
writing       model.safetensors, model.toml, README.md (the card), left-out.tsv

The result of each stage is kept below the model's folder: a run that was stopped continues. The same seed gives the
same model on the same machine.
"""

from __future__ import annotations

import time
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path

import numpy as np
import torch

from ctc_align.corpus.sources import open_source
from ctc_align.errors import UsageError
from ctc_align.models.convnet.convnet_model import ModelDescription, state_offset
from ctc_align.models.convnet.gaussian_mixtures import Mixtures
from ctc_align.models.convnet.network import AcousticNetwork, NetworkShape
from ctc_align.text.lexicon import Lexicon, read_lexicon
from ctc_align.training import Watch, acoustic_training, frame_labels
from ctc_align.training.corpus_data import Corpus, Limits, Pairs, gather, read_pairs, summary
from ctc_align.training.inventory import Inventory, make_inventory
from ctc_align.training.model_package import Card, LanguagePart, lexicon_lines, write_model
from ctc_align.training.recipe import Recipe
from ctc_align.training.refining.learnt_edges import learnt_edges
from ctc_align.training.resegmentation import StateScorer, learn_mixtures, resegmented
from ctc_align.training.run_folder import check_out_dir, check_torch, run_folder
from ctc_align.training.starting import read_start
from ctc_align.training.training_batches import Material


@dataclass(frozen=True)
class Call:
    """The arguments of `ctc-align train` and `adapt` besides the recipe.

    Attributes:
        corpus: path of a corpus, of any kind that `open_source` knows.
        out_dir: the model's folder.
        kind: of the corpus; None: it is found out.
        dev: path of a corpus to hold out; None: a part of `corpus`.
        lexicon: path of a pronunciation dictionary.
        command: the command line, for the card.
        force: replace a model, or what a run of other settings left.
        keep: keep frames, labels and checkpoints.
    """

    corpus: str
    out_dir: Path
    kind: str | None = None
    dev: str | None = None
    lexicon: str | None = None
    device: torch.device = field(default_factory=lambda: torch.device("cpu"))
    command: str = ""
    force: bool = False
    keep: bool = False


@dataclass(frozen=True)
class Result:
    """The model's folder and its card."""

    folder: Path
    card: Card


def train(recipe: Recipe, call: Call, watch: Watch | None = None) -> Result:
    """Train a model: run all stages.

    Raises:
        UsageError: the call is wrong, or the folder is another run's.
        InputError: nothing in the corpus can be used.
        OutputError: something cannot be written.
    """
    watch = watch or Watch()
    check_torch()
    check_out_dir(call.out_dir, force=call.force)
    recipe, lexicon = _with_lexicon(recipe, call)
    start = read_start(recipe.start, call.out_dir)
    began, cpu = time.monotonic(), time.process_time()
    pairs = pairs_of(call, recipe.language, watch)
    inventory = make_inventory(recipe.units, pairs.words, lexicon, recipe.fewest, recipe.language)
    settings: dict[str, object] = {
        "command": "train",
        "recipe": asdict(recipe),
        "corpus": pairs.fingerprint,
        "vocabulary": inventory.vocab,
        "start": start and start.fingerprint,
    }
    with run_folder(call.out_dir, settings, force=call.force, keep=call.keep) as work:
        limits = Limits(recipe.longest_s, recipe.states_per_token, recipe.dev_share, recipe.seed)
        corpus = gather(pairs, inventory, limits, work / "features", watch)
        say_corpus(corpus, inventory, watch)
        hours = corpus.hours(corpus.train)
        shape = recipe.shape(hours, inventory.tokens, start.description.shape if start else None)
        training = recipe.resolved(hours)
        weights = start.weights_for(shape, inventory.vocab, recipe.units, recipe.seed) if start else None
        labels = frame_labels.kept(work / "labels.npz", corpus, lambda: _segmented(recipe, corpus, inventory, watch))
        watch.say(network_line(shape, training))
        material = Material(corpus.store, labels.targets, labels.states, corpus.train, corpus.dev)
        place = acoustic_training.Place(work / "network", call.device, watch)
        first, second = recipe.stages(training, max(1.0, hours * 3600.0 / training.batch_s))
        trained = acoustic_training.train(shape, first, material, place, weights)
        watch.say(f"held out: {trained.dev}")
        mixtures = None
        if recipe.refining.epochs:
            labels, mixtures = _refined(recipe, corpus, labels, trained.network, work, watch)
            material = replace(material, labels=labels.states)
            place = replace(place, folder=work / "network-2")
            trained = acoustic_training.train(shape, second, material, place, trained.network.state_dict())
            watch.say(f"held out, by the second segmentation: {trained.dev}")
        name, parts = (
            recipe.name or call.out_dir.resolve().name or "model",
            by_language(trained.network, material, corpus),
        )
        card = Card(
            name, call.command, call.corpus, corpus, inventory, shape, training, trained,
            time.monotonic() - began, time.process_time() - cpu,
            mixtures=recipe.refining.mixtures if mixtures else 0, more_epochs=recipe.refining.epochs,
            edges=learnt_edges(recipe.edges, inventory.vocab), start=recipe.start, by_language=parts,
        )  # fmt: skip
        description = _description(recipe, name, inventory, shape, has_mixtures=mixtures is not None)
        lines = lexicon_lines(lexicon) if lexicon is not None and recipe.units == "lexicon" else ()
        log_priors = torch.from_numpy(labels.log_priors(corpus.train.tolist(), shape.states))
        write_model(call.out_dir, description, log_priors, card, lines, mixtures)
    return Result(call.out_dir, card)


def pairs_of(call: Call, language: str, watch: Watch) -> Pairs:
    """Return the pairs of the corpus, and of the one that is held out."""
    exclude = (str(call.out_dir),)
    sources = [(open_source(call.corpus, call.kind, exclude=exclude), False)]
    if call.dev is not None:
        sources.append((open_source(call.dev, exclude=exclude), True))
    watch.progress("reading the corpus", 0.0)
    return read_pairs(sources, language)


def by_language(network: AcousticNetwork, material: Material, corpus: Corpus) -> tuple[LanguagePart, ...]:
    """Return what there is of each language, and how well a network does on its held-out part; () for a single one."""
    languages = np.array(corpus.languages)
    parts = []
    for language in sorted(set(corpus.languages)):
        train, dev = (part[languages[part] == language] for part in (corpus.train, corpus.dev))
        held_out = acoustic_training.evaluate(network, material, dev)
        parts.append(LanguagePart(language, corpus.hours(train), len(train), held_out))
    return tuple(parts) if len(parts) > 1 else ()


def say_corpus(corpus: Corpus, inventory: Inventory, watch: Watch) -> None:
    """Report the sizes of a corpus, what is left out, and the tokens."""
    train, dev = corpus.hours(corpus.train), corpus.hours(corpus.dev)
    speakers = f", {corpus.speakers} speakers" if corpus.speakers > 1 else ""
    watch.say(
        f"{len(corpus.train)} utterances to train on, {60 * train:.1f} min; "
        f"{len(corpus.dev)} held out, {60 * dev:.1f} min{speakers}"
    )
    if corpus.left_out:
        watch.say(f"left out: {summary(corpus.left_out)}")
    tokens = " ".join(inventory.vocab[1:41]) + (" …" if inventory.tokens > 40 else "")
    watch.say(f"{inventory.tokens} tokens: {tokens}")


def network_line(shape: NetworkShape, training: acoustic_training.Training) -> str:
    """Return the network's size in words."""
    weights = sum(w.numel() for w in AcousticNetwork(shape).parameters())
    return f"network of {weights / 1e6:.2f} million weights, {training.epochs} epochs"


def _with_lexicon(recipe: Recipe, call: Call) -> tuple[Recipe, Lexicon | None]:
    """Return the recipe for a dictionary's phones in the place of letters, where there is one, and the dictionary."""
    lexicon = None if call.lexicon is None else read_lexicon(call.lexicon)
    if lexicon is not None and recipe.units == "letters":
        recipe = replace(recipe, units="lexicon")
    if recipe.units == "lexicon" and lexicon is None:
        raise UsageError("units = lexicon: expected a lexicon (--lexicon FILE), got none")
    return recipe, lexicon


def _description(
    recipe: Recipe, name: str, inventory: Inventory, shape: NetworkShape, *, has_mixtures: bool
) -> ModelDescription:
    return ModelDescription(
        name,
        inventory.vocab,
        shape,
        recipe.states_per_token,
        recipe.prior_scale,
        recipe.silence_bonus,
        "tokens" if recipe.units == "letters" else "phones",
        recipe.language,
        recipe.refining.mixture_weight if has_mixtures else 0.0,
        recipe.noise_malus,
    )


def _segmented(recipe: Recipe, corpus: Corpus, inventory: Inventory, watch: Watch) -> frame_labels.Labels:
    parts, seed = recipe.states_per_token, recipe.seed
    return frame_labels.from_nothing(corpus, recipe.segmenter, inventory.tokens, parts, seed, watch)


def _refined(
    recipe: Recipe, corpus: Corpus, labels: frame_labels.Labels, network: AcousticNetwork, work: Path, watch: Watch
) -> tuple[frame_labels.Labels, Mixtures]:
    """Return labels by the network and mixtures together, and mixtures that were fitted to these."""
    plan, states = recipe.refining, network.shape.states
    order = frame_labels.teaching_order(corpus, recipe.segmenter, recipe.seed)
    labelled = [i for i in order if len(labels.states[i])][: plan.utterances]

    def again() -> frame_labels.Labels:
        log_priors = torch.from_numpy(labels.log_priors(corpus.train.tolist(), states))
        offset = state_offset(log_priors, recipe.prior_scale, recipe.silence_bonus)
        first = learn_mixtures(corpus.store, labels, labelled, states, plan.mixtures)
        return resegmented(StateScorer(network.cpu(), offset, first, plan), corpus, labels, watch)

    second = frame_labels.kept(work / "labels-2.npz", corpus, again)
    watch.say("segments: by the network and mixtures together")
    return second, learn_mixtures(corpus.store, second, labelled, states, plan.mixtures)
