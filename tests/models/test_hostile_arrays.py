"""Log-probs that ask for more than they are, and what is no file: refused at once, before memory is touched."""

from __future__ import annotations

import io
import json
import os
import struct
import zipfile
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch
from rows import over_rows

from ctc_align import reading
from ctc_align.errors import CtcAlignError, EmissionsError
from ctc_align.files.transcripts import read_transcript
from ctc_align.models import log_probs
from ctc_align.models.log_probs import LogProbsReader, estimated_seconds, load_torch_file
from ctc_align.text.lexicon import read_lexicon

VOCAB = "\n".join(["<b>", *"abcdefghijklmnopqrstuvwxyz'", "|"])
CLASSES = 29


def header(shape: str, dtype: str = "<f4") -> bytes:
    """Return an .npy file of nothing but its header."""
    text = f"{{'descr': {dtype!r}, 'fortran_order': False, 'shape': {shape}, }}"
    text += " " * (-(len(text) + 11) % 64) + "\n"
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(text)) + text.encode()


def zipped(content: bytes, declared: int | None = None) -> bytes:
    """Return an .npz whose entry says that it holds `declared` bytes."""
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("log_probs.npy", content)
    data = bytearray(file.getvalue())
    if declared is not None:
        for mark, place in ((b"PK\x03\x04", 22), (b"PK\x01\x02", 24)):
            struct.pack_into("<I", data, data.index(mark) + place, declared)
    return bytes(data)


def saved(value: object) -> bytes:
    file = io.BytesIO()
    torch.save(value, file)
    return file.getvalue()


def packed(value: object) -> bytes:
    """Return a .pt whose entries are deflated, as torch never writes them."""
    file = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(saved(value))) as old, zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as new:
        for info in old.infolist():
            new.writestr(info.filename, old.read(info))
    return file.getvalue()


def safetensors(entries: object, data: bytes = b"", length: int | None = None) -> bytes:
    text = json.dumps(entries).encode()
    return struct.pack("<Q", len(text) if length is None else length) + text + data


def ark(rows: int, columns: int, kind: bytes = b"\0BFM ") -> bytes:
    if kind.startswith(b"\0BCM"):
        return kind + struct.pack("<ffii", 0, 1, rows, columns) + b"x" * 64
    return kind + b"\4" + struct.pack("<i", rows) + b"\4" + struct.pack("<i", columns) + b"x" * 64


FAR = torch.zeros(1).as_strided((2 * 10**9, CLASSES), (0, 0))
LARGE = zipped(np.zeros((10**6, CLASSES), np.float32).tobytes())
FILES: list[tuple[str, Callable[[], bytes], str]] = [
    (".pt", lambda: saved({"log_probs": FAR}), "needs 232 GB of memory, 2.0 GB are free"),
    (".pt", lambda: saved(FAR.expand(1, -1, -1)), "needs 232 GB of memory, 2.0 GB are free"),
    (".pt", lambda: saved(torch.zeros(1).as_strided((2**40, CLASSES), (0, 0))), "GB of memory, 2.0 GB are free"),
    (".pt", lambda: saved(torch.empty(2**30, CLASSES, device="meta")), "without values"),
    (".pt", lambda: packed(torch.zeros(10**6, CLASSES)), "it is damaged, of another kind"),
    (".pt", lambda: saved([[1]] * 3), "got list"),
    (".npz", lambda: zipped(header(f"(1000000000, {CLASSES})"), 2**31), "is damaged"),
    (".npz", lambda: zipped(header(f"(20000000, {CLASSES})"), 0xFFFFFFF0), "B of memory, 2.0 GB are free"),
    (".npz", lambda: zipped(header(f"(10, {CLASSES})") + b"\0" * 10), "is damaged: 1160 bytes"),
    (".npz", lambda: zipped(header(f"(-1, {CLASSES})")), "expected plain numbers"),
    (".npz", lambda: zipped(header("(10, 29)", "|O")), "expected plain numbers, got object"),
    (".npz", lambda: zipped(header("(" + "9" * 5000 + ", 29)")), "is damaged"),
    (".npz", lambda: zipped(header("(10, 30)") + b"\0" * 1200), "30 classes and 29 tokens"),
    (".npz", lambda: LARGE, "cannot be read as .npz"),
    (".npz", lambda: header("(10, 29)"), "got a single array"),
    (".npy", lambda: header(f"(1000000000000, {CLASSES})"), "cannot be read"),
    (".npy", lambda: header("(10, 29)", "|O"), "cannot be read"),
    (".npy", lambda: header("(" * 5000 + ")" * 5000), "cannot be read"),
    (".safetensors", lambda: safetensors({}, length=2**62), "cannot be read"),
    (".safetensors", lambda: safetensors({}, length=2**26), "cannot be read"),
    (
        ".safetensors",
        lambda: safetensors({"a": {"dtype": "F32", "shape": [2**40, 29], "data_offsets": [0, 2**47]}}),
        "cannot be read",
    ),
    (
        ".safetensors",
        lambda: safetensors({"a": {"dtype": "F32", "shape": [2, 30], "data_offsets": [0, 240]}}, b"\0" * 240),
        "30 classes and 29 tokens",
    ),
    (".ark:0", lambda: ark(2**31 - 1, 29), "is damaged: a matrix"),
    (".ark:0", lambda: ark(-1, 29), "is damaged: a matrix"),
    (".ark:0", lambda: ark(-(2**31), -(2**31), b"\0BDM "), "is damaged: a matrix"),
    (".ark:0", lambda: ark(2**31 - 1, 2**31 - 1, b"\0BCM "), "is damaged: a matrix"),
    (".ark:99", lambda: ark(1, 29), "expected a binary matrix"),
]


@over_rows(("suffix", "content", "says"), FILES)
def test_sizes_are_checked_before_memory_is_touched(tmp_path_factory, monkeypatch, suffix, content, says):
    folder = tmp_path_factory.mktemp("arrays")
    monkeypatch.setattr(reading, "_memory_limits", lambda: iter([(2 * 10**9, "a test")]))
    (folder / "vocab.txt").write_text(VOCAB)
    file, colon, place = f"a{suffix}".partition(":")
    (folder / file).write_bytes(content())
    path = f"{folder / file}{colon}{place}"
    with pytest.raises(EmissionsError) as caught:
        LogProbsReader(str(folder / "vocab.txt"), 0.01).read(path)
    assert str(caught.value).startswith(path)
    assert says in str(caught.value)
    assert len(str(caught.value).splitlines()) == 1
    assert estimated_seconds(path) >= 0


@over_rows("version", ["2.4.0", "2.5.1+cu121", "2.6.0", "2.9.1", "1.13", "2.10.0", "2.13.0+cpu", "3.0"])
def test_old_versions_of_torch_unpickle_nothing(tmp_path_factory, monkeypatch, version):
    path = tmp_path_factory.mktemp("versions") / "a.pt"
    torch.save(torch.zeros(2, 3), path)
    with monkeypatch.context() as patch:
        patch.setattr(torch, "__version__", version)
        if version in ("2.10.0", "2.13.0+cpu", "3.0"):
            assert load_torch_file(path).shape == (2, 3)
            return
        patch.setattr(torch, "load", lambda *_, **__: pytest.fail("a pickle was opened"))
        with pytest.raises(EmissionsError, match=r"torch 2\.10 or later, or save log-probs as \.npy or \.safetensors"):
            load_torch_file(path)


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no named pipes here")
@over_rows("suffix", [*log_probs.EXTENSIONS, ".ark:0"])
def test_a_pipe_is_no_array(tmp_path_factory, suffix):
    folder = tmp_path_factory.mktemp("pipes")
    (folder / "vocab.txt").write_text(VOCAB)
    os.mkfifo(folder / f"a{suffix}".partition(":")[0])
    path = f"{folder}/a{suffix}"
    with pytest.raises(EmissionsError, match="expected a regular file, got a pipe"):
        LogProbsReader(str(folder / "vocab.txt"), 0.01).read(path)
    assert estimated_seconds(path) == 0


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no named pipes here")
def test_pipes_and_devices_are_no_texts(tmp_path: Path):
    """Nothing waits for a pipe that has a name; one that a shell has opened already (`<(…)`) is read."""
    os.mkfifo(tmp_path / "pipe")
    readers: list[Callable[[str], object]] = [
        read_transcript,
        read_lexicon,
        lambda path: LogProbsReader(path, 0.01).check(),
    ]
    for reader in readers:
        for path in (tmp_path / "pipe", Path("/dev/zero"), tmp_path):
            with pytest.raises(CtcAlignError, match=r"expected (a regular file|a transcript file), got a "):
                reader(str(path))
        read_end, write_end = os.pipe()
        os.write(write_end, b"a AH\nb B\n")
        os.close(write_end)
        with open(read_end, "rb", closefd=True):
            try:
                reader(f"/dev/fd/{read_end}")
            except EmissionsError as error:
                assert "one token a line" in str(error)  # noqa: PT017
