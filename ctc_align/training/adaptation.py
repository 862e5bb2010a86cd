"""Adapt a trained model to the speakers or recordings of a corpus.

No labels are needed other than the transcripts. The model segments the corpus and chooses the
best-fitting pronunciations; then it is trained further with a small learning rate, on these
segments and by CTC on the transcripts. The result is the epoch with the lowest loss on the held-out
part among those that pass a check independent of the segments
(`ctc_align.training.adaptation_check`). If no epoch has a lower loss than the unadapted model, that
model is written unchanged, with a message. If the epochs with lower losses do not pass the check,
nothing is written.
"""

from __future__ import annotations

import math
import shutil
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path

import numpy as np
import torch

from ctc_align.config import ENGLISH, setting
from ctc_align.errors import InputError, UsageError
from ctc_align.models.calibration import DURATIONS_FILE as DURATIONS
from ctc_align.models.calibration import FILE as CALIBRATION
from ctc_align.models.catalogue import folder_settings
from ctc_align.models.confidence_network import FILE as CONFIDENCE
from ctc_align.models.convnet import convnet_model
from ctc_align.text.lexicon import read_lexicon
from ctc_align.text.phone_sets import is_ipa
from ctc_align.tokens.phones import is_arpabet
from ctc_align.tokens.tokenizer import Tokenizer, tokenizer_for
from ctc_align.training import Watch, acoustic_training, frame_labels
from ctc_align.training.adaptation_check import (
    AdaptationCheck,
    CheckLimits,
    SegmentComparison,
    segments,
)
from ctc_align.training.corpus_data import Corpus, Inventory, Spoken, gather
from ctc_align.training.model_package import ModelPackage, write_model
from ctc_align.training.pipeline import pairs_of, say_corpus
from ctc_align.training.run_folder import TrainOptions, check_run, run_folder
from ctc_align.training.starting import EDGES, Start, folder_of, learnt_edges, read_model
from ctc_align.training.training_batches import Material

SMALLEST_SHARE = 1e-3
"""Least share of silence, and of speech, in a corpus."""


@dataclass(frozen=True)
class Adaptation:
    """Settings of `ctc-align adapt`."""

    name: str = setting("", may_be_empty=True)
    """The model's name; "": that of its folder."""
    language: str = setting("", may_be_empty=True)
    """The transcripts' language, in which digits and signs are read.

    "": the model's, or English for English phones; otherwise they are not read.
    """
    seed: int = 1
    longest_s: float = setting(36.0, above=0.0)
    """Longer utterances are left out."""
    dev_share: float = setting(0.15, above=0.0)
    """Share of the speech that is held out, unless --dev is given."""
    edges: str = setting("english", choices=EDGES)
    """The edge network that the model gets: see `ctc_align.training.starting`."""
    check: CheckLimits = field(default_factory=CheckLimits)
    """How much worse than before the segments may become."""
    training: acoustic_training.Training = field(
        default_factory=lambda: acoustic_training.Training(
            epochs=6,
            learning_rate=3e-4,
            batch_s=30.0,
            warmup_steps=5,
            freeze_norms=True,
            keep_best=True,
        )
    )


def adapt(
    adaptation: Adaptation, model: str, options: TrainOptions, watch: Watch | None = None
) -> ModelPackage:
    """Read, segment, train, write. Resumable, as `ctc_align.training.pipeline.train`.

    Raises:
        UsageError: the call is wrong, the model cannot be adapted, or the folder belongs to a
            different run.
        InputError: nothing in the corpus can be used, or the adapted model would be worse.
        OutputError: something cannot be written.
    """
    watch = watch or Watch()
    check_run(options)
    base = read_base_model(model, options)
    began = time.monotonic()
    cpu = time.process_time()
    vocab = base.description.vocab
    path = options.lexicon or folder_settings(model).lexicon
    lexicon = None if path is None else read_lexicon(path)
    tokenizer = tokenizer_for(vocab, 0, lexicon)
    units = _units(vocab, tokenizer)
    language = (
        adaptation.language or base.description.language or (ENGLISH if units == "arpabet" else "")
    )
    inventory = Inventory(vocab, tokenizer, {}, units, language)
    training = replace(adaptation.training, seed=adaptation.seed, keep_best=True)
    adaptation = replace(adaptation, training=training)
    pairs = pairs_of(options, language, watch)
    settings: dict[str, object] = {
        "command": "adapt",
        "recipe": asdict(adaptation),
        "corpus": pairs.fingerprint,
        "model": _sum_of(base.weights),
    }
    with run_folder(options, settings) as work:
        corpus = gather(
            pairs,
            inventory,
            work / "features",
            watch,
            longest_s=adaptation.longest_s,
            parts=base.parts,
            dev_share=adaptation.dev_share,
            seed=adaptation.seed,
        )
        say_corpus(corpus, inventory, watch)
        corpus, trained, comparison = _trained(
            adaptation, base, corpus, options.device, work, watch
        )
        if not trained.faults:
            name = adaptation.name or options.model_name
            package = ModelPackage(
                replace(base.description, name=name, language=language), options, corpus, inventory, training, trained,
                base.log_priors, time.monotonic() - began, time.process_time() - cpu, lexicon,
                convnet_model.mixtures_of(base.description, base.arrays),
                learnt_edges(adaptation.edges, vocab, base.folder), base.description.name, comparison=comparison,
            )  # fmt: skip
            write_model(package)
            for file in (CALIBRATION, CONFIDENCE, DURATIONS):
                if (base.folder / file).exists():
                    shutil.copyfile(base.folder / file, options.out_dir / file)
    if trained.faults:
        with suppress(OSError):
            options.out_dir.rmdir()  # unless there is something else in it
        raise InputError(refusal(trained.faults, model, options))
    return package


def _trained(
    adaptation: Adaptation,
    base: Start,
    corpus: Corpus,
    device: torch.device,
    work: Path,
    watch: Watch,
) -> tuple[Corpus, acoustic_training.Trained, SegmentComparison | None]:
    """Return the utterances that have a path, the network trained on them, and a comparison.

    The comparison is of the network's segments with the base's, None if there is none.
    """
    labels = frame_labels.load_or_make(
        work / "labels.npz", corpus, lambda: own_labels(base, corpus, watch)
    )
    corpus = _with_labels(corpus, labels)
    more = more_silence(labels, corpus.train, base.log_priors)
    material = Material(corpus.store, labels.targets, labels.states, corpus.train, corpus.dev, more)
    check = _check(base, corpus, labels, adaptation.check)
    shape = base.description.shape
    trained = acoustic_training.train(
        shape,
        adaptation.training,
        material,
        work / "network",
        base.weights,
        device=device,
        watch=watch,
        check=check.faults,
    )
    watch.say(outcome(trained))
    comparison = check.compared(trained.network)
    if comparison is not None and not trained.faults and trained.dev != trained.before:
        watch.say(f"held out, beside {base.description.name}: {comparison}")
    return corpus, trained, comparison


def outcome(trained: acoustic_training.Trained) -> str:
    """Return the change of the held-out loss in words."""
    before, after = trained.before, trained.dev
    if trained.faults:
        return "no epoch with lower losses passed the check of its segments"
    if before is None or not after.utterances:
        return "nothing is held out, so it is unknown whether the model is better now"
    if (before.ctc, before.frame) == (after.ctc, after.frame):
        return f"no epoch was better on what is held out ({after}): the model is unchanged"
    line = f"held out: {after}, before {before}"
    worse = [
        name
        for name, a, b in (("ctc", after.ctc, before.ctc), ("frame", after.frame, before.frame))
        if a > b
    ]
    if worse:
        return f"{line}; better together, but {worse[0]} alone is worse"
    return line


def refusal(faults: Sequence[str], model: str, options: TrainOptions) -> str:
    """Return why no adapted model is written, and what to do about it."""
    return (
        f"{options.out_dir}: no model is written, because on what is held out the adapted one was"
        f" worse: {'; '.join(faults)}. Its losses fell all the same: it learnt its own mistakes."
        f" Align with --model {model} as it is, or adapt it to more speech with less silence and"
        " noise around it"
    )


def read_base_model(model: str, options: TrainOptions) -> Start:
    """Read the model that is to be adapted.

    Raises:
        UsageError: it is not a model of `ctc-align train`, or it has no segmentation states.
    """
    folder = folder_of(model)
    if not (folder / "model.toml").is_file():
        raise UsageError(
            f"--model {model}: expected english, universal or the folder of a model that `ctc-align"
            " train` wrote: no other can be adapted"
        )
    if options.out_dir.resolve() == folder.resolve():
        raise UsageError(
            f"--out-dir {options.out_dir}: is the folder of the model to adapt; choose another"
        )
    description, weights = read_model(folder)
    if not description.shape.states:
        raise UsageError(
            f"--model {model}: has no segmentation states; train a model with `ctc-align train`"
        )
    return Start(model, folder, description, weights)


def own_labels(base: Start, corpus: Corpus, watch: Watch) -> frame_labels.Labels:
    """Return the labels of the model: pronunciations that fit, and a state for every frame."""
    network = base.network()
    every = np.array(sorted(corpus.spoken))
    found = dict(segments(base, network, corpus, every, watch))
    spoken = {i: one.spoken for i, one in found.items()}
    return frame_labels.collected(
        len(corpus.store), spoken, ((i, one.states) for i, one in found.items())
    )


def more_silence(
    labels: frame_labels.Labels, indices: np.ndarray, log_priors: torch.Tensor
) -> float:
    """Return how much likelier silence is in labels than in the data of the log-priors.

    It is a difference of log-odds. Without this correction the network would learn how long the
    pauses of this corpus are. The log-priors, which stay those of the model, would not subtract
    that again, and words would shrink at every uncertain edge.
    """
    states = np.concatenate([labels.states[i] for i in indices.tolist()])
    here = float((states == len(log_priors) - 1).mean())
    before = float(log_priors.log_softmax(-1)[-1].exp())
    return _log_odds(here) - _log_odds(before)


def _log_odds(share: float) -> float:
    share = min(max(share, SMALLEST_SHARE), 1.0 - SMALLEST_SHARE)
    return math.log(share / (1.0 - share))


def _check(
    base: Start, corpus: Corpus, labels: frame_labels.Labels, limits: CheckLimits
) -> AdaptationCheck:
    """Return the check on the held-out part, with the pronunciations of the labels."""
    spoken = {i: Spoken.chosen(labels.targets[i], labels.words[i]) for i in corpus.dev.tolist()}
    of_dev = replace(corpus, spoken=spoken)
    network = base.network()
    return AdaptationCheck(base, of_dev, dict(segments(base, network, of_dev, corpus.dev)), limits)


def _with_labels(corpus: Corpus, labels: frame_labels.Labels) -> Corpus:
    """Return the corpus without utterances that have no path."""
    has = np.array([len(row) > 0 for row in labels.states])
    if not has[corpus.train].any():
        raise InputError(
            "expected utterances that the model finds a path through, got none: is it the right"
            " model?"
        )
    return replace(corpus, train=corpus.train[has[corpus.train]], dev=corpus.dev[has[corpus.dev]])


def _units(vocab: tuple[str, ...], tokenizer: Tokenizer) -> str:
    if tokenizer.token_kind == "tokens":
        return "letters"
    if is_ipa(vocab):
        return "ipa"
    return "arpabet" if is_arpabet(vocab) else "lexicon"


def _sum_of(weights: dict[str, torch.Tensor]) -> list[float]:
    """Return numbers that identify a model's weights."""
    return [
        float(sum(weight.double().abs().sum() for weight in weights.values())),
        float(len(weights)),
    ]
