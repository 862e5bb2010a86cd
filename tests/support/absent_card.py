"""A CUDA card that is not there: the package launches its kernels on it, and what they would be
compiled to is kept.

Tensors on the device `meta` say that they lie on a card; Triton's binder asks a stand-in for its
driver; its hook before compilation writes each launch down and lets it pass. So the specialisations
are those of the package's own launches, of any size, for no memory is touched; what reads a value
from the card fails. `compiled` then compiles one of them for a target, NVIDIA's or AMD's, and reads
from the machine code what it takes. TRITON_INTERPRET must not be set.
"""

from __future__ import annotations

import contextlib
import re
import subprocess
import tempfile
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any
from unittest import mock

import torch
import triton
from torch.overrides import TorchFunctionMode
from triton import knobs
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource

from ctc_align import kernels
from ctc_align.ctc import operators
from ctc_align.kernels.gpu import launch_plan, triton_import

TARGETS = {
    **{f"sm_{number}": GPUTarget("cuda", number, 32) for number in (75, 80, 86, 89, 90, 100, 120)},
    "gfx942": GPUTarget("hip", "gfx942", 64),
    "gfx1100": GPUTarget("hip", "gfx1100", 32),
}
"""By name: the architectures of T4, A100, RTX 30, RTX 40 and L4, H100, B200, RTX 50; MI300, RX
7900."""

CARD, NOWHERE = torch.device("cuda", 0), torch.device("meta")
OPTIONS = ("num_warps", "num_stages", "enable_fp_fusion")


class Pretence(TorchFunctionMode):
    """Ask `meta` in place of the card; its tensors say that they are on the card."""

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if func == torch.Tensor.is_cuda.__get__:  # type: ignore[attr-defined]
            return args[0].is_meta
        if func == torch.Tensor.device.__get__:  # type: ignore[attr-defined]
            return CARD if args[0].is_meta else func(*args)
        if func in (torch.Tensor.pin_memory, torch.Tensor.record_stream):
            return args[0]
        if func is torch.Tensor.cuda:
            func, args, kwargs = torch.Tensor.to, (args[0], NOWHERE), {}
        named = {
            name: _moved(value) for name, value in (kwargs or {}).items() if name != "pin_memory"
        }
        return func(*map(_moved, args), **named)


def _moved(value: Any) -> Any:
    return NOWHERE if isinstance(value, torch.device) and value.type == "cuda" else value


class Driver:
    """Answer Triton's binder as the driver of a card of one kind."""

    def get_current_target(self) -> GPUTarget:
        return TARGETS["sm_90"]

    def get_current_device(self) -> int:
        return 0

    def get_current_stream(self, device: int) -> int:
        return 0


@dataclass(frozen=True, eq=False)
class Specialisation:
    """A kernel as a launch needs it: types and constants, by the names of its arguments."""

    kernel: str
    function: Any
    signature: Mapping[str, str]
    constants: Mapping[tuple[int, ...], Any]
    attributes: Mapping[tuple[int, ...], Any]
    options: Mapping[str, Any]

    @cached_property
    def named(self) -> dict[str, Any]:
        """The constants by their names."""
        names = tuple(self.signature)
        return {names[place[0]]: value for place, value in self.constants.items()}

    @cached_property
    def key(self) -> str:
        """Return its identity, which the kernel's source, and the source that it calls, are part
        of."""
        types = {name: kind for name, kind in self.signature.items() if kind != "constexpr"}
        return (
            f"{self.function.cache_key} {types} {sorted(self.named.items())} {self.attributes}"
            f" {dict(self.options)}"
        )

    def __str__(self) -> str:
        """Constants that are not 0, and the types of what has several."""
        given = [f"{name.lower()}={int(value)}" for name, value in self.named.items() if value]
        types = [self.signature[name] for name in ("x", "pointers") if name in self.signature]
        wide = [name for name, kind in self.signature.items() if kind in ("i64", "u64")]
        return " ".join((*types, *given, *(f"{name}:i64" for name in wide)))


@contextlib.contextmanager
def card() -> Iterator[list[Specialisation]]:
    """Pretend that there is a card; the list gets each launch, in order."""
    launched: list[Specialisation] = []

    def note(*, fn: Any, compile: dict[str, Any], **rest: Any) -> bool:
        options = {name: compile[name] for name in OPTIONS}
        name = (
            f"{fn.module.rpartition('.')[2].removesuffix('_kernels')} {fn.name.rpartition('.')[2]}"
        )
        launched.append(
            Specialisation(
                name,
                fn.jit_function,
                compile["signature"],
                compile["constants"],
                compile["configs"][0],
                options,
            )
        )
        return True  # neither compiled nor run

    with (
        mock.patch.object(torch.cuda, "is_available", return_value=True),
        mock.patch.object(torch.cuda, "current_device", return_value=0),
        mock.patch.object(torch.cuda, "is_current_stream_capturing", return_value=False),
        mock.patch.object(torch.cuda, "device", mock.MagicMock()),
        mock.patch.object(triton.runtime.driver, "_active", Driver()),
        mock.patch.object(knobs.runtime, "jit_cache_hook", note),
        Pretence(),
    ):
        yield launched


class Compiled:
    """A compiled kernel that does nothing when it is launched."""

    function = packed_metadata = None

    def launch_metadata(self, *_: Any) -> None:
        """Return nothing, as Triton does where nobody asks."""

    def run(self, *_: Any) -> None:
        """Launch nothing."""


@contextlib.contextmanager
def warm_card() -> Iterator[None]:
    """Pretend that tensors on the CPU lie on a card whose kernels are compiled and do nothing.

    What a call then takes is what the host does for it: Python, NumPy, PyTorch's small tensors and
    Triton up to its launcher. CUDA's driver is left out, and so are allocations of pinned memory.
    """

    def compiled_at_once(
        self: Any, key: str, signature: Any, device: int, *_: Any, **__: Any
    ) -> Compiled:
        assert self.cache_key  # finds the constants, which Triton compares at every launch
        made = self.device_caches[device][0][key] = Compiled()
        return made

    def on_card(*_: Any) -> bool:
        return False

    with (
        mock.patch.object(triton.runtime.driver, "_active", Driver()),
        mock.patch.object(triton.JITFunction, "_do_compile", compiled_at_once),
        mock.patch.object(triton_import, "INTERPRETED", True),
        mock.patch.object(launch_plan, "INTERPRETED_LANES", 1),
        mock.patch.object(kernels, "backend_of", return_value="gpu"),
        mock.patch.object(operators, "_scale", on_card),
        mock.patch.object(operators, "_product", product_on_card),
        mock.patch.object(operators, "_negative", negative_on_card),
    ):
        yield


def product_on_card(values: torch.Tensor, weights: torch.Tensor) -> torch.Tensor:
    """Do what `operators` does for tensors on a card, to one number, for a card would multiply."""
    one, weight = values[:1, :1, :1], weights[:1]
    torch.where(one == 0, 0.0, one * weight)
    return values


def negative_on_card(scores: torch.Tensor, log_probs: torch.Tensor) -> torch.Tensor:
    """Return what `operators` makes of scores on a card."""
    return torch.rsub(scores.to(log_probs.device, torch.float32), 0.0)


def specialisations(
    calls: Mapping[str, Callable[[], Any]],
) -> dict[str, tuple[Specialisation, str]]:
    """Return by its key each specialisation that the calls launch, and the name of the first call
    that does."""
    found: dict[str, tuple[Specialisation, str]] = {}
    with card() as launched:
        for name, call in calls.items():
            call()
            for one in launched:
                found.setdefault(one.key, (one, name))
            launched.clear()
    return found


@dataclass(frozen=True)
class Resources:
    """Resources of a program of a compiled kernel: of AMD's, registers are vector registers, stack
    is scratch.

    `shuffles`: instructions that move a value from lane to lane; `spilled` registers are known of
    AMD's alone.
    """

    registers: int
    stack: int
    shared: int
    barriers: int
    shuffles: int
    code: int


def compiled(one: Specialisation, target: str, **options: int) -> Resources:
    """Compile for a target; return what it takes.

    `options`: of Triton's, besides those of the launch.

    Raises:
        Exception: whatever Triton, LLVM or ptxas raise.
    """
    source = ASTSource(one.function, dict(one.signature), dict(one.constants), dict(one.attributes))
    made = triton.compile(source, target=TARGETS[target], options={**one.options, **options})
    if target.startswith("gfx"):
        return _of_amd(made.asm["amdgcn"], made.metadata.shared, len(made.asm["hsaco"]))
    return _of_nvidia(made.asm["cubin"], made.asm["ptx"])


def _of_nvidia(cubin: bytes, ptx: str) -> Resources:
    with tempfile.NamedTemporaryFile(suffix=".cubin") as file:
        Path(file.name).write_bytes(cubin)
        tool = [knobs.nvidia.cuobjdump.path, "-res-usage", file.name]
        said = subprocess.run(tool, capture_output=True, text=True, check=True).stdout
    found = dict(re.findall(r"(REG|STACK|SHARED|LOCAL):(\d+)", said))
    return Resources(
        registers=int(found["REG"]),
        stack=int(found["STACK"]) + int(found["LOCAL"]),
        shared=int(found["SHARED"]),
        barriers=len(re.findall(r"\b(?:bar|barrier)(?:\.cta)?\.sync", ptx)),
        shuffles=ptx.count("shfl.sync"),
        code=len(cubin),
    )


def _of_amd(assembly: str, shared: int, code: int) -> Resources:
    def figure(name: str) -> int:
        return int(re.findall(rf"\.{name}:\s*(\d+)", assembly)[-1])

    return Resources(
        registers=figure("vgpr_count"),
        stack=figure("private_segment_fixed_size"),
        shared=max(shared, figure("group_segment_fixed_size")),
        barriers=assembly.count("s_barrier"),
        shuffles=len(
            re.findall(r"ds_bpermute|ds_permute|v_permlane|_dpp\b|row_shr|ds_swizzle", assembly)
        ),
        code=code,
    )
