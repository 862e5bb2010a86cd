"""The workers of a run: processes on this machine, or actors on a Ray cluster, each with its device."""

from __future__ import annotations

import math
import os
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace

from ctc_align.corpus.engine.pool_messages import Pool
from ctc_align.corpus.engine.process_pool import ProcessPool
from ctc_align.corpus.engine.stages import WorkerOptions
from ctc_align.errors import BackendError, UsageError

LOCAL, RAY = "local", "ray"
ENGINES = (LOCAL, RAY)


@dataclass(frozen=True)
class PoolSettings:
    """`--engine`, `--workers`, `--address` and `--gpus-per-worker`; None: by what the machine or the cluster has."""

    engine: str = LOCAL
    workers: int | None = None
    address: str | None = None
    gpus_per_worker: float | None = None

    def check(self, device: str) -> None:
        """
        Raises:
            UsageError: options that do not go together, or Ray is not installed.
        """
        if self.engine not in ENGINES:
            raise UsageError(f"--engine: expected one of {', '.join(ENGINES)}, got {self.engine}")
        if self.workers is not None and self.workers < 1:
            raise UsageError(f"--workers: expected a whole number above 0, got {self.workers}")
        if self.engine == LOCAL:
            for option, value in (("--address", self.address), ("--gpus-per-worker", self.gpus_per_worker)):
                if value is not None:
                    raise UsageError(f"{option} {value}: goes with --engine ray only")
            return
        from ctc_align.corpus.engine.ray_pool import require_ray

        require_ray()
        gpus = self.gpus_per_worker
        if gpus is not None and not 0 <= gpus < math.inf:
            raise UsageError(f"--gpus-per-worker: expected a number from 0 up (0.5: two share one), got {gpus:g}")
        if device.startswith("cuda:"):
            raise UsageError(f"--device {device}: with --engine ray, Ray says which GPU a worker has: give cuda")
        if gpus and device not in ("auto", "cuda"):
            raise UsageError(f"--gpus-per-worker {gpus:g} and --device {device}: give one of them")
        if gpus == 0 and device == "cuda":
            raise UsageError("--device cuda: needs --gpus-per-worker above 0")


@dataclass(frozen=True)
class PoolPlan:
    """The number of workers, on devices of one kind; `pool` starts them for a run with its options."""

    workers: int
    device: str
    pool: Callable[[WorkerOptions], AbstractContextManager[Pool]]

    @property
    def is_on_cpu(self) -> bool:
        return self.device == "cpu"


def plan_pool(settings: PoolSettings, device: str, lock: str, warn: Callable[[str], None]) -> PoolPlan:
    """Return which workers the run has.

    Args:
        lock: the file that the run holds in the output folder, which all workers must see.

    Raises:
        BackendError: no cluster at the address, or one without what a worker needs.
    """
    if settings.engine == RAY:
        return _on_ray(settings, device, lock, warn)
    devices = devices_for(device, settings.workers)
    return PoolPlan(len(devices), devices[0], lambda options: ProcessPool(options, devices))


def _on_ray(settings: PoolSettings, device: str, lock: str, warn: Callable[[str], None]) -> PoolPlan:
    from ctc_align.corpus.engine.ray_pool import Cluster, RayPool, Site

    cluster = Cluster(settings.address)
    if settings.address is None:
        cpus, gpus = cpu_count(), gpu_count() if device in ("auto", "cuda") else 0
    else:
        resources = cluster.connect()
        cpus, gpus = int(resources.get("CPU", 0)), int(resources.get("GPU", 0))
    each = settings.gpus_per_worker
    if each is None:
        each = 1.0 if device == "cuda" or (device == "auto" and gpus) else 0.0
    capacity = int(gpus / each) if each else cpus
    workers = settings.workers or capacity
    if not workers or (each and each > gpus and settings.address is None):
        raise BackendError(f"--engine ray: a worker needs {_need(each)}, got {gpus} GPUs and {cpus} CPUs")
    if settings.address is None:
        cluster.cpus, cluster.gpus = workers, gpus
    elif workers > capacity:
        warn(f"the cluster has room for {capacity} of {workers} workers ({_need(each)} each); the others wait for more")
    kind = "cuda" if each else "cpu" if device in ("auto", "cuda") else device
    site = Site(os.getcwd(), os.path.abspath(lock))
    return PoolPlan(workers, kind, lambda options: RayPool(cluster, replace(options, device=kind), site, workers, each))


def _need(gpus: float) -> str:
    return f"{gpus:g} GPUs and a CPU" if gpus else "a CPU"


def devices_for(device: str, workers: int | None) -> list[str]:
    """Return the device of each worker: one for each core of the CPU, or for each GPU, unless `workers` is set."""
    gpus = gpu_count() if device in ("auto", "cuda") else 0
    if gpus:
        return [f"cuda:{i % gpus}" for i in range(workers or gpus)]
    if device in ("auto", "cpu"):
        return ["cpu"] * (workers or cpu_count())
    from ctc_align.models import resolve_device

    return [str(resolve_device(device))] * (workers or 1)


def gpu_count() -> int:
    """Return the number of CUDA devices that torch can use; torch is loaded only where there is a driver."""
    import ctypes

    try:
        ctypes.CDLL("libcuda.so.1" if os.name == "posix" else "nvcuda.dll")
    except OSError:
        return 0
    import torch

    return torch.cuda.device_count() if torch.cuda.is_available() else 0


def cpu_count() -> int:
    """Return the number of cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
