"""What is checked on a card before anything is timed: `gpu.py` runs it. Each check says what is
wrong, or nothing.

`small`: problems so small that Triton's interpreter does them on the CPU, to see that the checks
themselves run.
"""

from __future__ import annotations

import importlib.util
import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any
from unittest import mock

import gpu_calls
import numpy as np
import torch

from ctc_align import CTCLoss, functional, kernels
from ctc_align.errors import KernelError
from ctc_align.kernels.gpu import launches
from ctc_align.lattice import Topology

GROUPS = ("pytorch", "graph", "models", "corpus", "races", "correctness", "sanitizer")
"""In the order in which they run: what takes long comes last."""
SMALL_TOKENS = {"one strip": 2, "eight strips": 33}
TOLERANCES = {torch.float64: 1e-9}
LEAST_TOLERANCE, SCORE_TOLERANCE = 1e-4, 1e-5
"""Largest differences from the reference: absolute, of posteriors; relative, of scores."""


OK = "ok:"


class NeedsCardError(Exception):
    """What this check is about is not there."""


@dataclass(frozen=True)
class Check:
    """A check: `run` returns what is wrong, or an empty text, or `OK` and what was measured."""

    group: str
    name: str
    run: Callable[[], str]

    def verdict(self) -> tuple[str, str]:
        """Return "ok", "FAILED" or "left out", and why."""
        try:
            fault = self.run()
            if fault.startswith(OK):
                return "ok", fault.removeprefix(OK).strip()
        except NeedsCardError as reason:
            return "left out", str(reason)
        except Exception as error:
            return "FAILED", f"{type(error).__name__}: {' '.join(str(error).split())[:300]}"
        return ("FAILED", fault) if fault else ("ok", "")


@dataclass(frozen=True)
class Given:
    """A problem on the device."""

    log_probs: torch.Tensor
    topology: Topology
    lengths: torch.Tensor
    wildcard: torch.Tensor | None

    def call(self, function: str, backend: str = "gpu") -> Any:
        on = {"cpu": "cpu", "reference": "cpu"}.get(backend, self.log_probs.device)
        wildcard = None if self.wildcard is None else self.wildcard.to(on)
        run = getattr(kernels, function)
        return run(
            self.log_probs.to(on), self.topology, self.lengths, wildcard=wildcard, backend=backend
        )


def given(kind: str, tokens: int, dtype: torch.dtype, device: torch.device, small: bool) -> Given:
    """Return random log-probs for a topology; frames beyond the lengths are NaN."""
    batch = 2 if small else 5
    topology = gpu_calls.TOPOLOGIES[kind](tokens, batch)
    frames = tokens + 4 if small else 2 * tokens + 300
    generator = torch.Generator().manual_seed(tokens)
    x = (
        torch.randn(batch, frames, gpu_calls.CLASSES, generator=generator)
        .mul(2)
        .log_softmax(-1)
        .to(dtype)
    )
    lengths = torch.tensor([frames - b for b in range(batch)])
    for b, length in enumerate(lengths.tolist()):
        x[b, length:] = torch.nan
    wide = torch.float64 if dtype == torch.float64 else torch.float32
    wildcard = (
        torch.randn(batch, frames, generator=generator).sub(3).to(wide)
        if topology.has_wildcard
        else None
    )
    return Given(x.to(device), topology, lengths, None if wildcard is None else wildcard.to(device))


def wrong_path(one: Given) -> str:
    met, right = one.call("best_path"), one.call("best_path", "reference")
    if met.states.cpu().tolist() != right.states.tolist():
        return "best_path: states differ from the reference's"
    return (
        ""
        if met.scores.tolist() == right.scores.tolist()
        else "best_path: scores differ from the reference's"
    )


def wrong_sums(one: Given) -> str:
    met, right = one.call("occupancy"), one.call("occupancy", "reference")
    least = TOLERANCES.get(one.log_probs.dtype, LEAST_TOLERANCE)
    for what in ("posteriors", "wildcard"):
        ours, theirs = getattr(met, what), getattr(right, what)
        if (
            ours is not None
            and not (off := float((ours.cpu().double() - theirs.double()).abs().max())) <= least
        ):
            return f"occupancy: {what} are off by {off:.2g}, at most {least:.0e}"
    for what, scores in (("occupancy", met.scores), ("forward", one.call("forward"))):
        if not torch.allclose(scores.cpu(), right.scores, rtol=SCORE_TOLERANCE, atol=0):
            return f"{what}: scores {scores.tolist()}, expected {right.scores.tolist()}"
    return ""


def compared(
    kind: str, tokens: int, dtype: torch.dtype, device: torch.device, small: bool, again: bool
) -> str:
    """Compare both with the reference; `again`: as if memory held little, so that frames are walked
    again."""
    with ExitStack() as stack:
        if again:
            for name in ("ROWS_BYTES", "POINTERS_BYTES"):
                stack.enter_context(mock.patch.object(launches, name, 1 << (12 if small else 18)))
        one = given(kind, tokens, dtype, device, small)
        return wrong_path(one) or wrong_sums(one)


def correctness(device: torch.device, small: bool) -> Iterator[Check]:
    """Every topology × length × dtype × walked again or not, against the reference; small: each of
    them once."""
    for number, one in enumerate(gpu_calls.combinations()):
        tokens = (SMALL_TOKENS if small else gpu_calls.LENGTHS).get(one.length)
        if tokens is not None and (not small or number % 16 == 5 * (number // 16 % 3)):
            run = partial(compared, one.kind, tokens, one.dtype, device, small, one.again)
            yield Check("correctness", str(one), run)


def repeated(kind: str, tokens: int, device: torch.device, small: bool, times: int) -> str:
    """Compare calls with the first, bit by bit."""
    one = given(kind, tokens, torch.float32, device, small)

    def bits() -> list[Any]:
        path, sums = one.call("best_path"), one.call("occupancy")
        return [
            path.states.tolist(),
            path.scores.tolist(),
            sums.posteriors.nan_to_num(-1).tolist(),
            sums.scores.tolist(),
        ]

    first = bits()
    for number in range(1, times):
        if bits() != first:
            return f"call {number + 1} gave other bits than the first"
    return ""


def sanitized(tool: str) -> str:
    """Run a few checks of correctness under NVIDIA's compute-sanitizer, for at most 100 s."""
    program = shutil.which("compute-sanitizer")
    if program is None or not torch.cuda.is_available():
        raise NeedsCardError(
            "compute-sanitizer is not installed" if program is None else "there is no card"
        )
    script = str(Path(__file__).with_name("gpu.py"))
    command = [
        program,
        "--tool",
        tool,
        "--error-exitcode",
        "9",
        sys.executable,
        script,
        "--few",
        "--only",
        "correctness",
    ]
    environment = {**os.environ, "PYTORCH_NO_CUDA_MEMORY_CACHING": "1"}
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, env=environment, check=False, timeout=100
        )
    except subprocess.TimeoutExpired as error:
        raise NeedsCardError("not done after 100 s") from error
    return "" if done.returncode == 0 else f"exit {done.returncode}: {done.stdout[-300:]}"


def sanitizer(device: torch.device, small: bool) -> Iterator[Check]:
    """Yield what compute-sanitizer says."""
    for tool in ("memcheck", "racecheck", "initcheck"):
        yield Check("sanitizer", f"compute-sanitizer {tool}", partial(sanitized, tool))


def races(device: torch.device, small: bool) -> Iterator[Check]:
    """Yield the same call often."""
    for kind in gpu_calls.TOPOLOGIES:
        tokens = 3 if small else 1000
        if not small or kind.endswith("optional"):
            yield Check(
                "races",
                f"{kind}, repeated",
                partial(repeated, kind, tokens, device, small, 2 if small else 20),
            )


def step(
    device: torch.device, small: bool
) -> tuple[torch.nn.Module, Callable[[torch.Tensor], torch.Tensor]]:
    """Return a network, and the loss of its output for frames (N, T, 16)."""
    frames, tokens = (12, 3) if small else (400, 60)
    model = torch.nn.Linear(16, 32).to(device)
    targets = (torch.arange(2 * tokens) % 31 + 1).reshape(2, tokens)
    loss, lengths = CTCLoss(), (torch.full((2,), frames), torch.full((2,), tokens))

    def of(sounds: torch.Tensor) -> torch.Tensor:
        return loss(model(sounds).log_softmax(-1).transpose(0, 1), targets, *lengths)

    return model, of


def sounds_of(device: torch.device, small: bool) -> torch.Tensor:
    return torch.randn(2, 12 if small else 400, 16, generator=torch.Generator().manual_seed(5)).to(
        device
    )


def gradients(model: torch.nn.Module) -> torch.Tensor:
    return torch.cat(
        [parameter.grad.flatten() for parameter in model.parameters() if parameter.grad is not None]
    )


def as_on_the_cpu(device: torch.device, small: bool) -> str:
    """Compare loss and gradients of a step with the CPU's."""
    found = []
    for where in (torch.device("cpu"), device):
        torch.manual_seed(7)
        model, of = step(where, small)
        made = of(sounds_of(where, small))
        made.backward()
        found.append((float(made.detach()), gradients(model).cpu()))
    if abs(found[0][0] - found[1][0]) > 1e-4 * abs(found[0][0]):
        return f"loss {found[1][0]}, on the CPU {found[0][0]}"
    return (
        ""
        if torch.allclose(found[0][1], found[1][1], atol=1e-4, rtol=1e-3)
        else "gradients differ from the CPU's"
    )


def autocast(device: torch.device, small: bool) -> str:
    model, of = step(device, small)
    with torch.autocast(device.type, torch.bfloat16):
        made = of(sounds_of(device, small))
    made.backward()
    return "" if bool(torch.isfinite(gradients(model)).all()) else "gradients are not finite"


def compiled_step(device: torch.device, small: bool) -> str:
    of = step(device, small)[1]
    sounds = sounds_of(device, small)
    plain = float(of(sounds).detach())
    made = torch.compile(of, fullgraph=True, backend="aot_eager" if small else "inductor")(sounds)
    made.backward()
    return (
        ""
        if abs(plain - float(made.detach())) <= 1e-4 * abs(plain)
        else f"loss {float(made.detach())}, not compiled {plain}"
    )


def never_waits(device: torch.device, small: bool) -> str:
    """Run a step while PyTorch raises an error at whatever waits for the card."""
    if device.type != "cuda":
        raise NeedsCardError("needs a card")
    _, of = step(device, small)
    sounds = sounds_of(device, small)
    of(sounds).backward()
    torch.cuda.set_sync_debug_mode("error")
    try:
        of(sounds).backward()
    finally:
        torch.cuda.set_sync_debug_mode("default")
    return ""


def captured(device: torch.device, small: bool) -> str:
    """Capture a training step in a CUDA graph and replay it for other sounds."""
    if device.type != "cuda":
        raise NeedsCardError("needs a card")
    model, of = step(device, small)
    sounds = sounds_of(device, small)
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        for _ in range(3):
            model.zero_grad(set_to_none=False)
            of(sounds).backward()
    torch.cuda.current_stream().wait_stream(side)
    graph = torch.cuda.CUDAGraph()
    model.zero_grad(set_to_none=False)
    with torch.cuda.graph(graph):
        made = of(sounds)
        made.backward()
    sounds.copy_(sounds.flip(1))
    model.zero_grad(set_to_none=False)
    graph.replay()
    replayed, again = gradients(model).clone(), float(made.detach())
    model.zero_grad(set_to_none=True)
    plain = of(sounds)
    plain.backward()
    if abs(float(plain.detach()) - again) > 1e-5 * abs(again):
        return f"replayed loss {again}, expected {float(plain.detach())}"
    return (
        "" if torch.allclose(replayed, gradients(model), atol=1e-6) else "replayed gradients differ"
    )


def uncaptured(device: torch.device, small: bool) -> str:
    """Capture a step whose targets no earlier call had, which must be refused, not go wrong."""
    if device.type != "cuda":
        raise NeedsCardError("needs a card")
    of = step(device, small)[1]
    sounds = sounds_of(device, small)
    of(sounds).backward()
    graph = torch.cuda.CUDAGraph()
    targets = torch.randint(1, 31, (2, 50))
    loss = CTCLoss(reduction="none")
    x = sounds.transpose(0, 1).repeat(1, 1, 2).log_softmax(-1)
    try:
        with torch.cuda.graph(graph):
            loss(x, targets, torch.full((2,), len(x)), torch.full((2,), 50))
    except KernelError as error:
        torch.cuda.synchronize()
        return "" if "captured" in str(error) else f"refused with: {error}"
    return "a graph was captured whose targets nobody keeps"


def compiled_with_graphs(device: torch.device, small: bool) -> str:
    """Run compiled steps whose graphs `torch.compile` captures by itself, with targets that differ
    from step to step."""
    if device.type != "cuda":
        raise NeedsCardError("needs a card")
    torch.manual_seed(8)
    model = torch.nn.Linear(16, 32).to(device)
    sounds, lengths = sounds_of(device, small), (torch.full((2,), 400), torch.full((2,), 60))

    def of(sounds: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
        x = model(sounds).log_softmax(-1).transpose(0, 1)
        return functional.ctc_loss(x, targets, *lengths)

    made = torch.compile(of, mode="reduce-overhead")
    for number in range(6):
        targets = torch.randint(1, 32, (2, 60), generator=torch.Generator().manual_seed(number))
        found = []
        for call in (of, made):
            model.zero_grad(set_to_none=True)
            torch.compiler.cudagraph_mark_step_begin()
            loss = call(sounds, targets)
            loss.backward()
            found.append((float(loss.detach()), gradients(model).clone()))
        if abs(found[0][0] - found[1][0]) > 1e-4 * abs(found[0][0]):
            return f"step {number + 1}: loss {found[1][0]}, not compiled {found[0][0]}"
        if not torch.allclose(found[0][1], found[1][1], atol=1e-4, rtol=1e-3):
            return f"step {number + 1}: gradients differ from those that are not compiled"
    return ""


def graph(device: torch.device, small: bool) -> Iterator[Check]:
    """Yield what is done with CUDA graphs."""
    steps = {
        "a step, captured and replayed": captured,
        "targets that no call had before": uncaptured,
        'torch.compile(mode="reduce-overhead")': compiled_with_graphs,
    }
    for name, run in steps.items():
        yield Check("graph", name, partial(run, device, small))


def many_devices(device: torch.device, small: bool) -> str:
    """Run the loss in `DataParallel` on all cards; one will do."""
    if device.type != "cuda":
        raise NeedsCardError("needs a card")
    model, _ = step(device, small)
    spread = torch.nn.DataParallel(model, list(range(torch.cuda.device_count())))
    x = spread(sounds_of(device, small)).log_softmax(-1)
    tokens = torch.ones(2, 3, dtype=torch.long)
    functional.ctc_loss(x.transpose(0, 1), tokens, [x.shape[1]] * 2, [3, 3]).backward()
    return "" if bool(torch.isfinite(gradients(model)).all()) else "gradients are not finite"


def other_stream(device: torch.device, small: bool) -> str:
    """Run a call on a stream of its own; what came before it on another is waited for as PyTorch
    says."""
    if device.type != "cuda":
        raise NeedsCardError("needs a card")
    one = given("ctc", 20, torch.float32, device, small)
    right = one.call("occupancy").posteriors
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        met = one.call("occupancy").posteriors
    torch.cuda.current_stream().wait_stream(side)
    return (
        ""
        if torch.equal(met.nan_to_num(-1), right.nan_to_num(-1))
        else "other bits than on the usual stream"
    )


def pytorch(device: torch.device, small: bool) -> Iterator[Check]:
    """Yield what PyTorch's users do with the loss."""
    steps = {
        "a step as on the CPU": as_on_the_cpu, "autocast": autocast, "torch.compile": compiled_step,
        "a step never waits for the card": never_waits,
        "DataParallel": many_devices, "a stream of one's own": other_stream,
    }  # fmt: skip
    for name, run in steps.items():
        yield Check("pytorch", name, partial(run, device, small))


def aligned(device: torch.device) -> str:
    """Align noise with the model `english`: emissions stay on the card, and times are the CPU's."""
    import ctc_align

    samples = np.random.default_rng(3).standard_normal(16000).astype(np.float32) / 20
    aligners = [ctc_align.Aligner(device=name) for name in ("cpu", str(device))]
    emissions = aligners[1].emissions((samples, 16000)).log_probs
    if device.type == "cuda" and not (isinstance(emissions, torch.Tensor) and emissions.is_cuda):
        return f"emissions came back as {type(emissions).__name__}, not on the card"
    cpu, gpu = (
        aligner.align((samples, 16000), "We call it bear.").to_dict() for aligner in aligners
    )
    if device.type == "cuda" and gpu["backend"] != "gpu":
        return f"backend {gpu['backend']!r}"
    if abs(cpu["loss"] - gpu["loss"]) > 1e-3 * abs(cpu["loss"]):
        return f"loss {gpu['loss']}, on the CPU {cpu['loss']}"
    return ""


def models(device: torch.device, small: bool) -> Iterator[Check]:
    yield Check("models", "english", partial(aligned, device))


NETWORKS: dict[str, tuple[str, dict[str, int]]] = {
    "wav2vec2, 95 M": ("wav2vec2-group", {"num_hidden_layers": 12, "hidden_size": 768}),
    "wav2vec2, 315 M": ("wav2vec2-layer", {"num_hidden_layers": 24, "hidden_size": 1024}),
}
"""Families of `made_transformers`, and the sizes of the networks that people use."""
TEXT = "it was the best of times it was the worst of times"


def aligned_corpus(kind: str, sizes: dict[str, int], device: torch.device) -> str:
    """Align 120 recordings of noise, half an hour, in float16; say where the time went."""
    if importlib.util.find_spec("transformers") is None or device.type != "cuda":
        raise NeedsCardError("needs a card, and transformers")
    import made_transformers
    import soundfile

    width = sizes["hidden_size"]
    more = {"num_attention_heads": width // 64, "intermediate_size": 4 * width, **sizes}
    more |= {"num_conv_pos_embeddings": 128, "num_conv_pos_embedding_groups": 16}
    network = made_transformers.network(kind, conv_dim=(512,) * 7, **more)
    generator = np.random.default_rng(9)
    with tempfile.TemporaryDirectory() as folder:
        model, source, out = (Path(folder) / name for name in ("model", "source", "out"))
        made_transformers.checkpoint(model, kind, network)
        source.mkdir()
        for number in range(120):
            sound = generator.standard_normal(16_000 * (10 + number % 11)) / 20
            soundfile.write(source / f"{number}.wav", sound, 16_000)
            (source / f"{number}.txt").write_text(TEXT, encoding="utf-8")
        command = [sys.executable, "-m", "ctc_align", "corpus", str(source), "--out-dir", str(out)]
        command += ["--model", f"hf:{model}", "--device", "cuda", "--profile"]
        command += ["--set", "precision=float16"]
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=75)
        if done.returncode:
            return f"exit {done.returncode}: {done.stderr[-300:]}"
        effort = json.loads((out / "summary.json").read_text(encoding="utf-8"))["run"]
    share = effort["stages"]["model"] / effort["wall_s"] / effort["workers"]
    return (
        f"{OK} {effort['wall_s']:.1f} s, {effort['times_real_time']} x real time,"
        f" {share:.0%} in the model: {effort['stages']}"
    )


def corpus(device: torch.device, small: bool) -> Iterator[Check]:
    """Yield corpora with large networks of random weights: speed needs no training."""
    for name, (kind, sizes) in NETWORKS.items():
        yield Check("corpus", name, partial(aligned_corpus, kind, sizes, device))


def checks(
    groups: tuple[str, ...], device: torch.device, small: bool, few: bool
) -> Iterator[Check]:
    """Yield the checks of some groups; `few`: every tenth of the correctness, for slow tools."""
    made = {
        "correctness": correctness, "races": races, "pytorch": pytorch, "graph": graph,
        "models": models, "corpus": corpus, "sanitizer": sanitizer,
    }  # fmt: skip
    for group in groups:
        for number, check in enumerate(made[group](device, small)):
            if not few or number % 10 == 0:
                yield check
