"""All that the program says in many runs, written to a folder and compared byte for byte: for rebuilding the inside.

Only the command line and the documented Python API are used, so that nothing here minds where the modules are. What
differs from run to run is taken out: version, times of day, seconds that something took, folders of the machine, the
fingerprints of journals.

    python tests/support/pinned_outputs.py write DIR
    python tests/support/pinned_outputs.py compare DIR [--skip PATTERN] [--part single] [--without-messages]

`--without-messages` is for changes of wording: it compares exit codes, stdout and files, but not stderr, the
texts of errors, or the reasons in journals and summaries.

The package is the one of this checkout, or what PYTHONPATH says.
"""

from __future__ import annotations

import argparse
import difflib
import fnmatch
import gzip
import json
import operator
import os
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
CALLS = Path(__file__).with_name("pinned_calls.txt")
WHERE = [*filter(None, os.environ.get("PYTHONPATH", "").split(os.pathsep)), str(ROOT / "src"), str(ROOT)]
PARTS = ("broken", "python", "gold", "single", "messages")
WORDING = ("reason", "error", "errors", "notes", "warnings")
"""Keys of journals and summaries that hold messages."""
TIMES = ("time", "seconds", "fingerprint", "version", "slowest", "wall_s", "times_real_time", "stages", "host", "pid")
SAID = "Forced alignment finds where every word begins and ends, in twenty-two lines of text, or in 1999."
DEMO = "demo.flac"
PROSE = "the café on the straße was open and nobody knew why it's so late naïve señor quick brown fox jumps over zoë"
TEXTS = {
    "demo": SAID,
    "bird": SAID.replace("word", "bird"),
    "enforced": SAID.replace("Forced", "Enforced"),
    "unknown": "мир 42",
    "hi": "hi",
    "prose": PROSE,
    "long": " ".join([PROSE] * 20) + ".",
    "mixed": "Forced выравнивание finds where every λέξη begins and ends in twenty-two lines of text 本 or in 1999.",
    "greek": "Καλημέρα, κόσμε!",
}


def pick(value: Any) -> Any:
    """A journal's or summary's value without what differs from run to run."""
    if isinstance(value, dict):
        return {key: pick(inner) for key, inner in value.items() if key not in TIMES}
    return [pick(inner) for inner in value] if isinstance(value, list) else value


class Pinned:
    """One round of runs in a folder `work`, whose results go to `out`."""

    def __init__(self, work: Path, data: Path, out: Path) -> None:
        self.work, self.data, self.out = work, data, out
        home = (str(Path(folder).resolve()) for folder in (work, data, *WHERE, sys.prefix))
        self.folders = [folder for folder in (str(work), str(data), *home, sys.executable) if len(folder) > 1]
        self.environment = {**os.environ, "PYTHONPATH": os.pathsep.join(WHERE), "PYTHONIOENCODING": "utf-8"}
        self.environment |= {"COLUMNS": "100", "NO_COLOR": "1", "TERM": "dumb"}

    def plain(self, text: str) -> str:
        """Text without version, times and folders of the machine."""
        for folder in sorted(set(self.folders), key=len, reverse=True):
            text = text.replace(folder, "<FOLDER>")
        text = re.sub(r'"version": "[^"]*"', '"version": "<VERSION>"', text)
        text = re.sub(r"this run +[\d:.]+, [\d.]+ × real time", "this run <TIME>", text)
        return re.sub(r"slowest, seconds.*?(\n\s*\n|\Z)", "slowest <TIMES>\n", text, flags=re.DOTALL)

    def put(self, name: str, content: str | bytes) -> None:
        """One file of the result."""
        path = self.out / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content.encode("utf-8", "backslashreplace") if isinstance(content, str) else content)

    def run(self, part: str) -> None:
        """Run the lines of a part; what the program says goes to NAME.said, what it writes to NAME/."""
        lines = CALLS.read_text("utf-8").partition(f"\n[{part}]\n")[2].partition("\n[")[0]
        stands_for = {
            "@": "made/{}",
            "DEMO": DEMO,
            "ALL": "json,ctm,textgrid,srt,vtt,tsv,audacity",
            "GOLD": "data/gold-dev/corpus",
            "TRUTH": "data/gold-dev/reference",
            "FILES": "made/broken/files",
        }
        for line in lines.strip().splitlines():
            name, _, call = line.partition(": ")
            words = shlex.split(call.replace("LETTERS", "--vocab letters.txt --frame-shift 0.02"))
            words = [stands_for.get(word, word).format(name) for word in words]
            done = subprocess.run(
                [sys.executable, "-m", "ctc_align", *words],
                cwd=self.work,
                env=self.environment,
                input=SAID.encode(),
                capture_output=True,
            )
            # Progress comes after so much time, and columns of tables are as wide as the times in them.
            err = self.plain(done.stderr.decode("utf-8", "replace"))
            err = re.sub(r"(ctc-align: )?\d+ (done|utterances), .* (×|times) real time.*\n", "", err)
            err = re.sub(r"[ ─]{2,}", "  ", err)
            said = [" ".join(words), f"exit {done.returncode}", "-- stdout", self.plain(done.stdout.decode("utf-8"))]
            self.put(f"{name}.said", "\n".join([*said, "-- stderr", err]))
            if "--out-dir" in words:
                self.keep(words[words.index("--out-dir") + 1], name)

    def keep(self, folder: str, name: str) -> None:
        """Copy what a run wrote."""
        for path in sorted((self.work / folder).rglob("*")):
            if not path.is_file():
                continue
            target, content = f"{name}/{path.relative_to(self.work / folder)}", path.read_bytes()
            if path.suffix == ".gz":
                target, content = target.removesuffix(".gz"), gzip.decompress(content)
            if path.name.startswith("journal") and path.suffix == ".jsonl":
                rows = [json.loads(line) for line in content.decode().splitlines()]
                lines = [json.dumps(pick(row), ensure_ascii=False) for row in sorted(rows, key=lambda row: row["id"])]
                content = self.plain("\n".join(lines)).encode()
            elif path.name.startswith("summary") and path.suffix == ".json":
                content = self.plain(json.dumps(pick(json.loads(content)), indent=1, ensure_ascii=False)).encode()
            elif path.suffix not in (".flac", ".npy"):
                content = self.plain(content.decode("utf-8")).encode()
            self.put(target, content)

    def sources(self) -> None:
        """Corpora, log-probs and texts that the runs take, the same every time."""
        import numpy as np
        import soundfile

        work = self.work
        (work / "data").symlink_to(self.data)
        package = next(path for where in WHERE if (path := Path(where) / "ctc_align").is_dir())
        shutil.copy(next(package.rglob(DEMO)), work / DEMO)
        for name, text in TEXTS.items():
            (work / f"{name}.txt").write_text(text, "utf-8")
        vocab = ["<blank>", "|", *"abcdefghijklmnopqrstuvwxyz"]
        (work / "letters.txt").write_text("\n".join(vocab), "utf-8")
        random = np.random.default_rng(7)

        def save(name: str, frames: int, kind: str) -> None:
            scores = random.normal(0, 2, (frames, len(vocab)))
            scores -= np.log(np.exp(scores).sum(axis=1, keepdims=True))
            np.save(work / name, scores.astype(kind))

        save("short32.npy", 500, "float32"), save("short64.npy", 500, "float64")
        save("long32.npy", 20000, "float32"), save("long64.npy", 20000, "float64")
        soundfile.write(work / "silent.wav", np.zeros(16000, np.float32), 16000)
        soundfile.write(work / "short.wav", random.normal(0, 0.1, 1600).astype(np.float32), 16000)
        soundfile.write(work / "hiss.wav", random.normal(0, 0.1, 48000).astype(np.float32), 16000)
        (work / "noise.wav").write_bytes(b"this is no sound")

        first: dict[str, dict[str, Any]] = {}
        for line in (self.data / "languages/manifest.jsonl").read_text("utf-8").splitlines():
            row = json.loads(line)
            first.setdefault(row["language"], row)
        clips, romanized = [], []
        for language, row in sorted(first.items()):
            save(f"{language}.npy", max(200, int(row["duration_s"] / 0.02)), "float32")
            clips.append(
                {"audio_filepath": f"data/languages/{row['audio']}", "text": row["text"], "utterance": language}
            )
            romanized.append({"audio_filepath": f"{language}.npy", "text": row["text"]})
        wavs = sorted((self.data / "gold-dev/corpus").rglob("*.wav"))[::4]
        gold = [
            {
                "audio_filepath": f"data/{path.relative_to(self.data)}",
                "text": path.with_suffix(".txt").read_text("utf-8").strip(),
                "utterance": f"{path.parent.name}-{path.stem}",
            }
            for path in wavs
        ]
        best = []
        for row in gold:
            words = row["text"].split()
            texts = [row["text"], " ".join(words[1:]), " ".join(words[::-1]), f"{row['text']} Ωμέγα", "no"]
            best.append({"audio_filepath": row["audio_filepath"], "utterance": row["utterance"], "texts": texts})
        broken = [
            *gold,
            {"audio_filepath": "late.wav", "text": SAID, "utterance": "late"},
            {"audio_filepath": "gone.wav", "text": "not there", "utterance": "gone"},
            {"audio_filepath": "short.wav", "text": SAID, "utterance": "short"},
            {"audio_filepath": "silent.wav", "text": "nothing", "utterance": "silent"},
            {"audio_filepath": "noise.wav", "text": "no sound", "utterance": "noise"},
            {"audio_filepath": "hiss.wav", "text": "a hiss that nobody wrote down", "utterance": "hiss"},
            {"audio_filepath": "hiss.wav", "text": "", "utterance": "empty"},
            {"audio_filepath": "hiss.wav", "text": "— … !", "utterance": "marks"},
            {"audio_filepath": DEMO, "text": "finds where", "utterance": "part", "offset": 1.0, "duration": 1.0},
            {"audio_filepath": DEMO, "text": "finds", "utterance": "beyond", "offset": 90.0, "duration": 1.0},
        ]
        bad = [*gold[:2], {"audio_filepath": DEMO, "text": 7}, {"audio_filepath": DEMO, "offset": "x", "text": "a"}]
        rows = {"clips": clips, "romanized": romanized, "best": best, "broken": broken, "bad": bad}
        for name, lines in rows.items():
            text = "".join(json.dumps(line, ensure_ascii=False) + "\n" for line in lines)
            (work / f"{name}.jsonl").write_text(text, "utf-8")
        (work / "torn.jsonl").write_text('{"audio_filepath": "demo.flac", "te', "utf-8")
        (work / "made/there").mkdir(parents=True)
        (work / "made/there/demo.json").write_text("{}")
        (work / "bad.toml").write_text("edges = 'none'\ncolour = 1\n")
        (work / "torn.toml").write_text("edges = \n")
        (work / "latin.txt").write_bytes(b"caf\xe9")

    def tell(self, name: str, calls: Iterable[Callable[[], Any]]) -> None:
        """What calls of the Python API return or raise."""
        from ctc_align import Alignment

        lines = []
        for call in calls:
            try:
                results = call()
            except Exception as error:
                results = [error]
            for one in results if isinstance(results, list) else [results]:
                if isinstance(one, Exception):
                    lines.append(f"{type(one).__name__}: {one}")
                elif isinstance(one, Alignment):
                    lines.append(json.dumps(one.to_dict(), indent=1, ensure_ascii=False))
                else:
                    lines.append(repr(one))
        self.put(f"python/{name}", self.plain("\n".join(lines)))

    def heard(self) -> None:
        """The model's own log-probs, also as files for the command line."""
        import numpy as np

        import ctc_align

        emissions = ctc_align.Aligner("english", device="cpu").emissions(str(self.work / DEMO))
        np.save(self.work / "english.npy", emissions.log_probs.numpy())
        (self.work / "english.txt").write_text("\n".join(emissions.vocab), "utf-8")
        self.put("python/log_probs.bin", emissions.log_probs.numpy().tobytes())
        self.put("python/states.bin", emissions.states.numpy().tobytes() if emissions.states is not None else b"")

    def python(self) -> None:
        """The Python API: batches with failures among the good ones, emissions, scores."""
        import numpy as np
        import torch

        import ctc_align

        aligner = ctc_align.Aligner("english", device="cpu")
        heard = aligner.emissions(str(self.work / DEMO))
        sound = {name: str(self.work / name) for name in (DEMO, "gone.wav", "silent.wav", "short.wav", "hiss.wav")}
        golden = sorted((self.data / "gold-dev/corpus").rglob("*.wav"))[:6]
        good: list[Any] = [(str(path), path.with_suffix(".txt").read_text("utf-8")) for path in golden]
        silent, noisy = (np.zeros(16000, np.float32), 16000), (np.full(8000, np.nan, np.float32), 16000)
        bad: list[Any] = [(sound["gone.wav"], SAID), (sound["silent.wav"], SAID), (sound["short.wav"], SAID)]
        bad += [(sound[DEMO], text) for text in ("", "— … !", "мир", "42 мир 1999", 7, None, b"bytes")]
        bad += [(silent, "nothing"), (noisy, "nothing"), (3.5, "nothing"), (sound["hiss.wav"], "hiss")]
        mixed = [pair for both in zip(bad, good * 3) for pair in both]
        self.tell("batch", [lambda: aligner.align_batch(mixed, on_error="return")])
        self.tell("raised", [partial(aligner.align_batch, [good[0], pair], on_error="raise") for pair in bad[:4]])
        self.tell("one", [partial(aligner.align, *pair) for pair in bad])
        bare = ctc_align.Emissions(heard.log_probs, heard.vocab, heard.frame_shift_s, states=None)
        self.tell("bare", [partial(aligner.align, bare, SAID), partial(aligner.align, heard, SAID)])
        self.tell("score", [partial(aligner.score, *pair) for pair in [*good, *bad]])
        fields = operator.attrgetter("rank", "index", "loss", "posterior", "unknown", "text", "error")
        for name, audio in (("texts", sound[DEMO]), ("texts-bare", bare)):
            ranked = aligner.score_texts(audio, [*list(TEXTS.values())[:5], ""])
            self.tell(name, [partial(fields, one) for one in ranked])
        letters = tuple((self.work / "letters.txt").read_text("utf-8").split("\n"))
        alone = ctc_align.Aligner(None)
        for name in ("short32", "short64", "long32", "long64"):
            log_probs, text = (
                torch.from_numpy(np.load(self.work / f"{name}.npy")),
                TEXTS[{"s": "prose", "l": "long"}[name[0]]],
            )
            given = ctc_align.Emissions(log_probs, letters, 0.02)
            moved = ctc_align.Emissions(log_probs, letters, 0.02, offset_s=1.5)
            calls = [partial(alone.align, moved, text), partial(alone.score, given, text)]
            pairs = [(given, text), (given, "a b"), (given, "it's")]
            ranked = [fields(one) for one in alone.score_texts(given, [text, "so late", "é"])]
            self.tell(name, [*calls, partial(alone.align_batch, pairs, on_error="return"), partial(list, ranked)])

    def broken(self) -> None:
        """A corpus with faults; one of them is mended before the same command runs again."""
        self.run("broken")
        shutil.copy(self.work / DEMO, self.work / "late.wav")
        self.run("again")

    def everything(self, parts: Iterable[str] = PARTS) -> None:
        """Run the parts, two at a time."""
        self.sources()
        self.heard()
        jobs = {"broken": self.broken, "python": self.python}
        with ThreadPoolExecutor(2) as pool:
            for job in [pool.submit(jobs.get(part) or partial(self.run, part)) for part in parts]:
                job.result()


def names_of_parts(parts: Iterable[str]) -> tuple[str, ...]:
    """Return how the names of the files that these parts write begin."""
    calls = CALLS.read_text("utf-8")
    sections = [name for part in parts for name in ((part, "again") if part == "broken" else (part,))]
    lines = [line for name in sections for line in calls.partition(f"\n[{name}]\n")[2].partition("\n[")[0].splitlines()]
    return (
        *(f"{line.partition(': ')[0]}{end}" for line in lines if ": " in line for end in ("/", ".")),
        *({"python/"} if "python" in parts else ()),
    )


def without_messages(content: bytes) -> bytes:
    """Return a result without what is worded: stderr, texts of errors, reasons."""
    text = content.decode("utf-8", "surrogateescape").partition("\n-- stderr")[0]
    text = re.sub(r"^(\w+Error): .*(\n(?!\w+Error: |[\[{(\d]).*)*", r"\1", text, flags=re.MULTILINE)
    text = re.sub(rf'"({"|".join(WORDING)})": "(?:[^"\\]|\\.)*"', r'"\1": ""', text)
    return text.encode("utf-8", "surrogateescape")


def steady(name: str, content: bytes) -> bytes:
    """Return a result without what depends on which of several workers was done first, or on a cache of kernels."""
    if name.endswith(".said"):
        return re.sub(rb"ctc-align: note: the kernels are compiled, once on this machine[^\n]*\n", b"", content)
    if re.search(r"(journal|summary)[^/]*$", name):
        content = re.sub(rb'"(crc|line)": ("\w+"|\d+)(, )?', b"", content)
    if re.search(r"summary[^/]*$", name):
        content = b"\n".join(sorted(line.rstrip(b",") for line in content.split(b"\n")))
    return content


def differences(
    before: Path, after: Path, skip: list[str], starts: tuple[str, ...] = ("",), bare: bool = False
) -> list[str]:
    """Return what differs between two folders, file by file, with the first lines that do.

    `starts` limits the comparison to names that begin so; `bare` leaves messages out.
    """
    names = {path.relative_to(folder).as_posix() for folder in (before, after) for path in folder.rglob("*")}
    names = {
        name for name in names if not any(fnmatch.fnmatch(name, one) or name.startswith(f"{one}/") for one in skip)
    }
    found = []
    for name in sorted(names):
        old, new = before / name, after / name
        if not name.startswith(starts) or (bare and name.startswith("messages/")):
            continue
        if old.is_dir() or new.is_dir():
            continue
        if not (old.is_file() and new.is_file()):
            found.append(f"{name}: only {'before' if old.is_file() else 'now'}")
        else:
            pair = [steady(name, path.read_bytes()) for path in (old, new)]
            pair = [without_messages(content) for content in pair] if bare else pair
            if pair[0] != pair[1]:
                found.append("\n".join([f"{name}: differs", *first_lines(*pair)]))
    return found


def first_lines(old: bytes, new: bytes, most: int = 12) -> list[str]:
    """A short unified diff; lines are cut in pieces, and of long files a part is looked at."""
    if b"\0" in old:
        return [f"  {len(old)} and {len(new)} bytes that are no text"]
    both = [re.findall(r".{1,150}", text.decode("utf-8", "replace")) for text in (old, new)]
    start = next((i for i, (one, other) in enumerate(zip(*both)) if one != other), min(map(len, both)))
    parts = [text[start : start + 200] for text in both]
    return [f"  {line}" for line in list(difflib.unified_diff(*parts, n=0, lineterm=""))[2 : 2 + most]]


def main() -> int:
    """Write or compare; 1 where something differs."""
    parser = argparse.ArgumentParser(description="Pin all that the program says, or compare with what was pinned.")
    parser.add_argument("command", choices=("write", "compare"))
    parser.add_argument("folder", type=Path)
    parser.add_argument("--data", type=Path, default=os.environ.get("CTC_ALIGN_DATA", ROOT.parent / "shared" / "data"))
    parser.add_argument("--skip", action="append", default=[], help="folder or pattern of files to leave out")
    parser.add_argument("--part", action="append", choices=PARTS, help="run and compare these parts only")
    parser.add_argument("--without-messages", action="store_true", help="compare what is not wording")
    given = parser.parse_args()
    if given.command == "write" and (given.part or given.without_messages):
        parser.error("--part and --without-messages are for compare")
    if given.command == "compare" and not given.folder.is_dir():
        parser.error(f"{given.folder}: no such folder")
    if given.command == "write" and given.folder.exists():
        parser.error(f"{given.folder}: is there already")
    if not Path(given.data).is_dir():
        parser.error(f"{given.data}: no speech data here; say --data DIR")
    sys.path[:0] = WHERE
    with tempfile.TemporaryDirectory() as name:
        work, out = Path(name) / "work", given.folder if given.command == "write" else Path(name) / "out"
        work.mkdir()
        Pinned(work, Path(given.data).absolute(), out).everything(given.part or PARTS)
        files = sum(path.is_file() for path in out.rglob("*"))
        if given.command == "write":
            print(f"{files} files in {out}")
            return 0
        starts = names_of_parts(given.part) if given.part else ("",)
        found = differences(given.folder, out, given.skip, starts, given.without_messages)
    print("\n".join(found[:40]))
    print(f"{len(found)} of {files} files differ")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
