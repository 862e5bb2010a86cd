"""The stages of `ctc-align train`, from a corpus to a model's folder.

reading       usable pairs of audio and transcript, their frames; a held-out part
segmenting    a state for every frame, by a generative model from a flat start (`frame_labels`)
training      the network learns both outputs at once: CTC from the tokens, classes of frames from the states
refining      optional: a second segmentation, by the network and mixtures together, on which both are trained further
writing       model.safetensors, model.toml, README.md (the card), left-out.tsv

The result of each stage is stored below the model's folder, so that an interrupted run resumes. The
same seed gives the same model on the same machine.
"""

from __future__ import annotations

import time
from dataclasses import asdict, replace
from functools import partial
from pathlib import Path

import torch

from ctc_align.errors import UsageError
from ctc_align.models.convnet.convnet_model import ModelDescription, state_offset
from ctc_align.models.convnet.gaussian_mixtures import Mixtures
from ctc_align.models.convnet.inference import NetworkShape
from ctc_align.models.convnet.network import AcousticNetwork
from ctc_align.sources import open_source
from ctc_align.text.lexicon import Lexicon, read_lexicon
from ctc_align.training import Watch, acoustic_training, frame_labels
from ctc_align.training.corpus_data import (
    Corpus,
    Inventory,
    Pairs,
    gather,
    make_inventory,
    read_pairs,
    summary,
)
from ctc_align.training.frame_labels import StateScorer, learn_mixtures, resegmented
from ctc_align.training.model_package import ModelPackage, write_model
from ctc_align.training.recipe import Recipe
from ctc_align.training.run_folder import TrainOptions, check_run, run_folder
from ctc_align.training.starting import learnt_edges, read_start
from ctc_align.training.training_batches import Material


def train(recipe: Recipe, options: TrainOptions, watch: Watch | None = None) -> ModelPackage:
    """Train a model by all stages, and write it.

    Raises:
        UsageError: the call is wrong, or the folder belongs to a different run.
        InputError: nothing in the corpus can be used.
        OutputError: something cannot be written.
    """
    watch = watch or Watch()
    check_run(options)
    recipe, lexicon = _with_lexicon(recipe, options)
    start = read_start(recipe.start, options.out_dir)
    began = time.monotonic()
    cpu = time.process_time()
    pairs = pairs_of(options, recipe.language, watch)
    inventory = make_inventory(recipe.units, pairs.words, lexicon, recipe.fewest, recipe.language)
    settings: dict[str, object] = {
        "command": "train",
        "recipe": asdict(recipe),
        "corpus": pairs.fingerprint,
        "vocabulary": inventory.vocab,
        "start": start and start.fingerprint,
    }
    with run_folder(options, settings) as work:
        corpus = gather(
            pairs, inventory, work / "features", watch, longest_s=recipe.longest_s, parts=recipe.states_per_token,
            dev_share=recipe.dev_share, seed=recipe.seed,
        )  # fmt: skip
        say_corpus(corpus, inventory, watch)
        hours = corpus.hours(corpus.train)
        shape = recipe.shape(hours, inventory.tokens, start.description.shape if start else None)
        training = recipe.resolved(hours)
        weights = None
        if start:
            weights = start.weights_for(shape, inventory.vocab, recipe.units, recipe.seed)
        flat_start = partial(frame_labels.from_nothing, corpus, recipe, inventory.tokens, watch)
        labels = frame_labels.load_or_make(work / "labels.npz", corpus, flat_start)
        watch.say(network_line(shape, training))
        material = Material(corpus.store, labels.targets, labels.states, corpus.train, corpus.dev)
        train = partial(acoustic_training.train, shape, device=options.device, watch=watch)
        first, second = recipe.stages(training, max(1.0, hours * 3600.0 / training.batch_s))
        trained = train(first, material, work / "network", weights)
        watch.say(f"held out: {trained.dev}")
        mixtures = None
        if recipe.refining.epochs:
            labels, mixtures = _refined(recipe, corpus, labels, trained.network, work, watch)
            material = replace(material, labels=labels.states)
            trained = train(second, material, work / "network-2", trained.network.state_dict())
            watch.say(f"held out, by the second segmentation: {trained.dev}")
        log_priors = torch.from_numpy(labels.log_priors(corpus.train.tolist(), shape.states))
        by_language = losses_by_language(trained.network, material, corpus)
        package = ModelPackage(
            _description(recipe, options, inventory, shape), options, corpus, inventory, training, trained,
            log_priors, time.monotonic() - began, time.process_time() - cpu, lexicon, mixtures,
            learnt_edges(recipe.edges, inventory.vocab), start=recipe.start, more_epochs=recipe.refining.epochs,
            by_language=by_language,
        )  # fmt: skip
        write_model(package)
    return package


def pairs_of(options: TrainOptions, language: str, watch: Watch) -> Pairs:
    """Return the pairs of the corpus, and of the corpus to hold out."""
    open_corpus = partial(open_source, exclude=(str(options.out_dir),), encoding=options.encoding)
    sources = [(open_corpus(options.corpus, options.kind), False)]
    if options.dev is not None:
        sources.append((open_corpus(options.dev), True))
    watch.progress("reading the corpus", 0.0)
    return read_pairs(sources, language)


def losses_by_language(
    network: AcousticNetwork, material: Material, corpus: Corpus
) -> dict[str, acoustic_training.HeldOutLosses]:
    """Return the losses on the held-out part of each language, if the corpus has several."""
    languages = sorted(set(corpus.languages))
    if len(languages) < 2:
        return {}
    return {
        language: acoustic_training.evaluate(
            network, material, corpus.in_language(corpus.dev, language)
        )
        for language in languages
    }


def say_corpus(corpus: Corpus, inventory: Inventory, watch: Watch) -> None:
    """Report the sizes of a corpus, the pairs that are left out, and the tokens."""
    train, dev = corpus.hours(corpus.train), corpus.hours(corpus.dev)
    speakers = ""
    if corpus.speakers > 1:
        speakers = f", {corpus.speakers} speakers"
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


def _with_lexicon(recipe: Recipe, options: TrainOptions) -> tuple[Recipe, Lexicon | None]:
    """Return the recipe and the dictionary.

    If the call names a dictionary, the units are its phones, not letters.
    """
    lexicon = None
    if options.lexicon is not None:
        lexicon = read_lexicon(options.lexicon)
    if lexicon is not None and recipe.units == "letters":
        recipe = replace(recipe, units="lexicon")
    if recipe.units == "lexicon" and lexicon is None:
        raise UsageError("units = lexicon: expected a lexicon (--lexicon FILE), got none")
    return recipe, lexicon


def _description(
    recipe: Recipe, options: TrainOptions, inventory: Inventory, shape: NetworkShape
) -> ModelDescription:
    return ModelDescription(
        recipe.name or options.model_name,
        inventory.vocab,
        shape,
        recipe.states_per_token,
        recipe.prior_scale,
        recipe.silence_bonus,
        "tokens" if recipe.units == "letters" else "phones",
        recipe.language,
        recipe.refining.mixture_weight if recipe.refining.epochs else 0.0,
        recipe.noise_malus,
    )


def _refined(
    recipe: Recipe,
    corpus: Corpus,
    labels: frame_labels.Labels,
    network: AcousticNetwork,
    work: Path,
    watch: Watch,
) -> tuple[frame_labels.Labels, Mixtures]:
    """Return labels by the network and mixtures together, and mixtures fitted to these labels."""
    plan = recipe.refining
    states = network.shape.states
    order = frame_labels.teaching_order(corpus, recipe.segmenter, recipe.seed)
    labelled = [i for i in order if len(labels.states[i])][: plan.utterances]

    def again() -> frame_labels.Labels:
        log_priors = labels.log_priors(corpus.train.tolist(), states)
        offset = state_offset(log_priors, recipe.prior_scale, recipe.silence_bonus)
        first = learn_mixtures(corpus.store, labels, labelled, states, plan.mixtures)
        return resegmented(StateScorer(network.cpu(), offset, first, plan), corpus, labels, watch)

    second = frame_labels.load_or_make(work / "labels-2.npz", corpus, again)
    watch.say("segments: by the network and mixtures together")
    return second, learn_mixtures(corpus.store, second, labelled, states, plan.mixtures)
