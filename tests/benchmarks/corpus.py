"""How fast a corpus is aligned end to end, and what memory it takes: python
tests/benchmarks/corpus.py

    throughput   2,000 utterances of the speech data beside the checkout, in one call with --profile; with --against
                 CHECKOUT by that one too, in turns of 250 utterances, each checkout first in every
                 other turn
    memory       1,000 and 10,000 short utterances: the peaks of the whole run and of each kind of process
    resume       the same 10,000 again, with nothing left to do
    lines        10,000 and 100,000 lines of a manifest, with an aligner that only spreads the words: the peaks

Promised: at least 100 times real time on 2 cores; the peak of 10,000 within 20 % of that of 1,000.
Figures are of this machine as it is: other work on it slows the runs, so the processor's seconds
are printed too.
"""

from __future__ import annotations

import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import soundfile
from timed_runs import ENGLISH, ROOT, manifest_rows, parser_of

SHORT_S = 0.8
IN_A_TURN = 250
LIGHT = ROOT / "tests" / "support" / "corpus_program.py"


def main() -> None:
    parser = parser_of(__doc__)
    parser.add_argument("--utterances", type=int, default=2000)
    parser.add_argument("--many", type=int, default=10_000)
    parser.add_argument("--against", type=Path, help="another checkout, for the throughput")
    parser.add_argument("--only", choices=["throughput", "memory", "lines"])
    options = parser.parse_args()
    print(f"{os.cpu_count()} cores, load {os.getloadavg()[0]:.1f}")
    with tempfile.TemporaryDirectory() as folder:
        if options.only in (None, "throughput"):
            if options.against:
                against(Path(folder), options.utterances, options.against.resolve())
            else:
                throughput(Path(folder), options.utterances)
        if options.only in (None, "memory"):
            memory(Path(folder), options.many)
        if options.only in (None, "lines"):
            lines(Path(folder), 10 * options.many)


def chosen(count: int) -> list[dict]:
    """Return rows of the English data, spread evenly over it, with absolute paths."""
    every = manifest_rows()
    rows = [every[i * len(every) // count] for i in range(count)]
    return [{**row, "audio": str(ENGLISH / row["audio"])} for row in rows]


def throughput(folder: Path, count: int) -> None:
    rows = chosen(count)
    hours = sum(row["duration_s"] for row in rows) / 3600
    manifest = write(folder / "english.jsonl", rows)
    wall_s, cpu_s, _ = run(manifest, folder / "throughput", "--profile", show=True)
    print(
        f"{count} utterances, {hours:.2f} h: {wall_s:.1f} s, {hours * 3600 / wall_s:.0f} × real"
        " time"
    )
    print(
        f"  {cpu_s:.1f} s of processor: {hours * 3600 / cpu_s:.0f} × real time on one core that"
        " does nothing else"
    )
    print(f"  load {os.getloadavg()[0]:.1f}")


def against(folder: Path, count: int, other: Path) -> None:
    """Run both checkouts on the same files, in turns."""
    rows = chosen(count)
    checkouts, cpu_s, audio_s = (
        {"here": ROOT, "there": other},
        dict.fromkeys(("here", "there"), 0.0),
        0.0,
    )
    first = write(folder / "first.jsonl", rows[:8])
    for name, checkout in checkouts.items():  # compiles the kernels
        run(first, folder / f"{name}-first", "--workers", "1", checkout=checkout)
    for turn, start in enumerate(range(0, count, IN_A_TURN)):
        some = rows[start : start + IN_A_TURN]
        manifest = write(folder / f"{turn}.jsonl", some)
        audio_s += sum(row["duration_s"] for row in some)
        for name in sorted(checkouts, reverse=bool(turn % 2)):
            cpu_s[name] += run(
                manifest, folder / f"{name}{turn}", "--workers", "1", checkout=checkouts[name]
            )[1]
        speeds = ", ".join(f"{name} {audio_s / seconds:.0f}" for name, seconds in cpu_s.items())
        print(f"{audio_s / 3600:.2f} h, seconds of audio in a second of processor: {speeds}; "
              f"{cpu_s['there'] / cpu_s['here']:.2f} times as many here", flush=True)  # fmt: skip


def memory(folder: Path, many: int) -> None:
    peaks(folder, "utterances", many, SHORT_S, 100, "--format", "json")
    wall_s, _, peak = run(
        folder / f"{many}.jsonl", folder / f"utterances{many}", "--format", "json"
    )
    print(f"{many} utterances, all done: {wall_s:.1f} s, {peak['parent'] / 2**20:.0f} MB")


def lines(folder: Path, many: int) -> None:
    peaks(
        folder, "lines", many, 0.2, 40, "--layout", "shards", "--workers", "1", program=[str(LIGHT)]
    )


def peaks(
    folder: Path, what: str, many: int, seconds: float, clips: int, *options: str, **more: Any
) -> None:
    """Print the peaks of memory of a tenth of a corpus of short clips and of all of it, and by how
    much they grow."""
    paths = [clip(folder / f"{what}{i}.wav", row, seconds) for i, row in enumerate(chosen(clips))]
    found = []
    for count in (many // 10, many):
        rows = (
            {
                "audio": paths[i % clips],
                "text": "a few words",
                "utterance": f"u{i}",
                "duration": seconds,
            }
            for i in range(count)
        )
        wall_s, _, peak = run(
            write(folder / f"{count}.jsonl", rows), folder / f"{what}{count}", *options, **more
        )
        found.append(peak)
        sizes = ", ".join(f"{name} {size / 2**20:.0f} MB" for name, size in peak.items())
        print(f"{count} {what} of {seconds} s: peaks {sizes}; {wall_s:.1f} s", flush=True)
    for name in found[0]:
        print(f"  {name}: {found[1][name] / found[0][name] - 1:+.1%}")


def clip(path: Path, row: dict, seconds: float) -> str:
    samples, rate = soundfile.read(row["audio"])
    soundfile.write(path, samples[: int(seconds * rate)], rate)
    return str(path)


def write(path: Path, utterances: Iterable[dict]) -> Path:
    with path.open("w", encoding="utf-8") as file:
        file.writelines(json.dumps(row) + "\n" for row in utterances)
    return path


def run(
    manifest: Path,
    out_dir: Path,
    *options: str,
    show: bool = False,
    program: Sequence[str] = ("-m", "ctc_align"),
    checkout: Path = ROOT,
) -> tuple[float, float, dict[str, int]]:
    """Seconds of wall and processor, and peaks of memory in bytes."""
    command = [
        sys.executable,
        *program,
        "corpus",
        str(manifest),
        "--out-dir",
        str(out_dir),
        *options,
    ]
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    started = time.perf_counter()
    environment = {**os.environ, "PYTHONPATH": str(checkout)}
    process = subprocess.Popen(
        command, stderr=None if show else subprocess.DEVNULL, env=environment, cwd=out_dir.parent
    )
    peaks = {"all together": 0, "parent": 0, "largest worker": 0}
    while process.poll() is None:
        sizes = {pid: status(pid, "VmRSS") for pid in (process.pid, *children(process.pid))}
        highest = {pid: status(pid, "VmHWM") for pid in sizes}
        peaks["all together"] = max(peaks["all together"], sum(sizes.values()))
        peaks["parent"] = max(peaks["parent"], highest.pop(process.pid))
        peaks["largest worker"] = max(peaks["largest worker"], *highest.values(), 0)
        time.sleep(0.1)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    cpu_s = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    summary = json.loads((out_dir / "summary.json").read_text("utf-8"))
    assert summary["complete"], "the run has not come to its end"
    if show or summary["failed"]:
        print(f"{summary['done']} done, {summary['failed']} failed")
    return time.perf_counter() - started, cpu_s, peaks


def children(pid: int) -> list[int]:
    try:
        return [
            int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
        ]
    except OSError:
        return []


def status(pid: int, field: str) -> int:
    try:
        lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    except OSError:
        return 0
    return next((int(line.split()[1]) * 1024 for line in lines if line.startswith(field)), 0)


if __name__ == "__main__":
    main()
