"""Log-probs and vocabularies from files: every container, every shape, and what is wrong with the
others."""

from __future__ import annotations

import io
import json
import logging
import os
import re
import struct
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from rows import over_rows
from safetensors.torch import save_file

from ctc_align.errors import CtcAlignError, EmissionsError, UsageError
from ctc_align.files.transcripts import read_transcript
from ctc_align.machine import memory
from ctc_align.models import array_checks, log_probs
from ctc_align.models.log_probs import (
    LogProbsReader,
    check_emissions,
    estimated_seconds,
    load_torch_file,
)
from ctc_align.models.vocabulary import load_vocab
from ctc_align.text.lexicon import read_lexicon
from ctc_align.types import Emissions

VOCAB = ("<blk>", "a", "b", "c")
CONTAINERS = (".npy", ".npz", ".safetensors", ".pt", ".PTH")
FLOATS = (torch.bfloat16, torch.float16, torch.float32, torch.float64)


def load(
    path: Path | str, vocab_path: Path, blank: int | str | None = None, frame_shift_s: float = 0.02
) -> Emissions:
    return LogProbsReader(str(vocab_path), frame_shift_s, blank).read(path)


def some_log_probs(frames: int = 7, classes: int = 4, seed: int = 0) -> torch.Tensor:
    return torch.randn(frames, classes, generator=torch.Generator().manual_seed(seed)).log_softmax(
        1
    )


def save(path: Path, array: torch.Tensor, key: str | None = "log_probs", **others: Any) -> Path:
    """Write in the container that the extension names; without a key as a bare array."""
    suffix = path.suffix.lower()
    if suffix == ".npy":
        np.save(path, array.numpy())
    elif suffix == ".npz":
        np.savez(path, **{key or "arr_0": array.numpy(), **others})
    elif suffix == ".safetensors":
        save_file({key or "only": array.contiguous(), **others}, path)
    else:
        torch.save({key: array, **others} if key else array, path)
    return path


@pytest.fixture
def vocab_path(tmp_path: Path) -> Path:
    path = tmp_path / "vocab.txt"
    path.write_text("\n".join(VOCAB) + "\n", encoding="utf-8")
    return path


@pytest.mark.parametrize(
    ("suffix", "dtype", "key"),
    [
        (suffix, dtype, key)
        for suffix in CONTAINERS
        for dtype, key in zip(
            FLOATS[suffix.startswith(".np") :], ("log_probs", "other", None, "log_probs")
        )
    ],
)
def test_every_container_and_float_type_gives_the_same(
    tmp_path, vocab_path, caplog, suffix, dtype, key
) -> None:
    given = some_log_probs().to(dtype)
    path = save(tmp_path / f"a{suffix}", given, key)
    emissions = load(path, vocab_path)
    assert emissions.log_probs.dtype == (torch.float64 if dtype == torch.float64 else torch.float32)
    assert torch.equal(emissions.log_probs, given.to(emissions.log_probs.dtype))
    assert not caplog.records
    assert (emissions.vocab, emissions.frame_shift_s, emissions.blank) == (VOCAB, 0.02, 0)
    assert emissions.name == str(path)


@pytest.mark.parametrize("suffix", [".npz", ".safetensors", ".pt"])
def test_the_entry_by_name_or_the_only_one(tmp_path: Path, vocab_path: Path, suffix: str) -> None:
    other = np.ones(3, np.float32) if suffix == ".npz" else torch.ones(3)
    path = save(tmp_path / f"a{suffix}", some_log_probs(), lengths=other)
    assert load(path, vocab_path).log_probs.shape == (7, 4)
    path = save(tmp_path / f"b{suffix}", some_log_probs(), "x", lengths=other)
    with pytest.raises(
        EmissionsError,
        match=r"expected an entry 'log_probs' or a single one, got (x, lengths|lengths, x)",
    ):
        load(path, vocab_path)


def test_arrays_as_numpy_keeps_them(tmp_path: Path, vocab_path: Path) -> None:
    given = some_log_probs().numpy()
    for odd in (
        given.astype(">f4"),
        np.asfortranarray(given),
        given[None],
        given.astype(np.longdouble),
    ):
        np.save(tmp_path / "a.npy", odd)
        found = load(tmp_path / "a.npy", vocab_path).log_probs
        assert found.is_contiguous()
        np.testing.assert_array_equal(found.numpy(), given)
    np.save(tmp_path / "a.npy", given)
    before = (tmp_path / "a.npy").read_bytes()
    load(tmp_path / "a.npy", vocab_path).log_probs.fill_(9)
    assert (tmp_path / "a.npy").read_bytes() == before


@pytest.mark.parametrize(
    ("array", "message"),
    [
        (some_log_probs()[0], r"shape \(T, C\), frames by classes, got \(4,\)"),
        (torch.stack([some_log_probs()] * 2), r"got \(2, 7, 4\): give one utterance"),
        (some_log_probs()[:0], r"at least one frame and one class, got shape \(0, 4\)"),
        (some_log_probs()[:, :0], r"at least one frame and one class, got shape \(7, 0\)"),
        (torch.zeros(7, 4, dtype=torch.int32), "floating-point"),
        (some_log_probs(7, 5), "got 5 classes and 4 tokens"),
        (some_log_probs(4, 7), r"got 7 classes and 4 tokens: are the axes swapped"),
        (some_log_probs().exp(), "look like probabilities .* take the natural log"),
        (some_log_probs().exp().half(), "look like probabilities"),
    ],
)
@pytest.mark.parametrize("suffix", [".npy", ".pt"])
def test_what_cannot_be_log_probs(tmp_path, vocab_path, array, message, suffix) -> None:
    path = save(tmp_path / f"a{suffix}", array)
    with pytest.raises(EmissionsError, match=message) as caught:
        load(path, vocab_path)
    assert str(path) in str(caught.value)


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
@pytest.mark.parametrize("rows_at_once", [4, 8192])
def test_the_first_bad_value_is_placed(
    monkeypatch: pytest.MonkeyPatch, value: float, rows_at_once: int
) -> None:
    monkeypatch.setattr(array_checks, "CELLS_AT_ONCE", 4 * rows_at_once)
    matrix = some_log_probs(11)
    matrix[9, 1] = value
    matrix[6, 3] = value
    with pytest.raises(EmissionsError, match=f"value is {value} at frame 6, class 3"):
        check_emissions(Emissions(matrix, VOCAB, 0.02))


def test_minus_infinity_is_the_impossible_and_scores_that_do_not_sum_to_one_are_said(
    caplog,
) -> None:
    matrix = some_log_probs()
    matrix[2, 1:] = -torch.inf
    matrix[2, 0] = 0
    assert torch.equal(check_emissions(Emissions(matrix, VOCAB, 0.02)).log_probs, matrix)
    matrix[2, 0] = -torch.inf
    with pytest.raises(EmissionsError, match="every class is -inf at frame 2"):
        check_emissions(Emissions(matrix, VOCAB, 0.02))
    scores = some_log_probs() * 3 + 2
    assert torch.equal(
        check_emissions(Emissions(scores, VOCAB, 0.02, name="x.npy")).log_probs, scores
    )
    assert [record.levelno for record in caplog.records] == [logging.WARNING]
    assert "x.npy: rows are not distributions" in caplog.text


def test_emissions_in_memory_may_be_numpy() -> None:
    matrix = some_log_probs()
    frozen = matrix.numpy().copy()
    frozen.flags.writeable = False
    found = check_emissions(Emissions(frozen, list(VOCAB), 0.02, blank=2))  # type: ignore[arg-type]
    assert torch.equal(found.log_probs, matrix)
    assert (found.vocab, found.blank) == (VOCAB, 2)
    grad = matrix.clone().requires_grad_()
    assert not check_emissions(Emissions(grad, VOCAB, 0.02)).log_probs.requires_grad


@pytest.mark.parametrize(
    ("field", "value", "error", "message"),
    [
        ("log_probs", [[0.0]], EmissionsError, "expected an array of shape"),
        ("log_probs", torch.eye(4).to_sparse(), EmissionsError, "expected dense"),
        ("blank", 4, UsageError, "index from 0 to 3, got 4"),
        ("blank", -1, UsageError, "index from 0 to 3, got -1"),
        ("blank", None, UsageError, "got NoneType"),
        ("offset_s", float("nan"), UsageError, "offset_s"),
        ("duration_s", 0.0, UsageError, "duration_s"),
        ("frame_shift_s", 0.0, UsageError, "frame shift"),
    ],
)
def test_emissions_in_memory_are_checked(
    field: str, value: Any, error: type[Exception], message: str
) -> None:
    fields: dict[str, Any] = {
        "log_probs": some_log_probs(),
        "vocab": VOCAB,
        "frame_shift_s": 0.02,
        field: value,
    }
    with pytest.raises(error, match=message):
        check_emissions(Emissions(**fields))


@pytest.mark.parametrize(
    ("shift", "message"),
    [
        *(
            (shift, "expected a positive number of seconds")
            for shift in (0, -0.02, float("nan"), float("inf"), "x", None)
        ),
        (20, r"expected seconds, got 20: if these are milliseconds, give 0\.02"),
        (1e-9, r"at least 0\.0001, got 1e-09"),
    ],
)
def test_frame_shifts_that_are_none(shift: Any, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        load("unread.npy", vocab_path=Path("unread.txt"), frame_shift_s=shift)


@pytest.mark.parametrize("suffix", CONTAINERS)
def test_files_that_cannot_be_read(tmp_path: Path, vocab_path: Path, suffix: str) -> None:
    path = save(tmp_path / f"a{suffix}", some_log_probs(400))
    cut = path.read_bytes()[:3000]
    for content in (cut, b"", b"hello", b"\x93NUMPY\x01\x00", b"PK\x03\x04" + bytes(30), bytes(64)):
        path.write_bytes(content)
        with pytest.raises(
            EmissionsError, match=rf"a{suffix}: expected log-probs, got a file that cannot"
        ) as caught:
            load(path, vocab_path)
        assert not re.search("weights_only|allow_pickle|unsafe", str(caught.value)), "in our words"


def test_files_that_are_not_there_hold_code_or_are_misnamed(
    tmp_path: Path, vocab_path: Path
) -> None:
    with pytest.raises(UsageError, match=r"a\.npy: no such file"):
        load(tmp_path / "a.npy", vocab_path)
    with pytest.raises(UsageError, match=r"expected log-probs in \.npy"):
        load(tmp_path / "a.wav", vocab_path)
    torch.save({"log_probs": Path("x")}, tmp_path / "a.pt")
    np.save(tmp_path / "a.npy", np.array([[None]]), allow_pickle=True)
    for name in ("a.pt", "a.npy"):
        with pytest.raises(EmissionsError, match="cannot be read"):
            load(tmp_path / name, vocab_path)
    np.save(tmp_path / "a.npy", some_log_probs().numpy())
    (tmp_path / "a.npy").rename(tmp_path / "a.npz")
    with pytest.raises(EmissionsError, match=r"call it \.npy"):
        load(tmp_path / "a.npz", vocab_path)


def test_the_blank_and_symbols_that_are_none(tmp_path: Path) -> None:
    path = save(tmp_path / "a.npy", some_log_probs())
    (tmp_path / "tokens.txt").write_text("<blk> 0\na 1\nb 2\nc 3\n#0 4\n#1 5\n", encoding="utf-8")
    assert load(path, tmp_path / "tokens.txt").vocab == VOCAB
    path = save(tmp_path / "a.npy", some_log_probs())
    (tmp_path / "v.json").write_text(json.dumps(["a", "b", "0", "<blk>"]), encoding="utf-8")
    for blank, index in ((0, 0), (3, 3), ("<blk>", 3), ("3", 3), ("0", 2)):
        found = load(path, tmp_path / "v.json", blank=blank)
        assert found.blank == index
    for bad, message in (
        (None, "--blank 3"),
        ("4", "index from 0 to 3"),
        ("<eps>", "got '<eps>'; <blk> would be one"),
        (-1, "got -1"),
    ):
        with pytest.raises(UsageError, match=message):
            load(path, tmp_path / "v.json", blank=bad)


# Log-probs that ask for more than they are, and what is no file: refused at once, before memory is
# touched.

LETTERS = "\n".join(["<b>", *"abcdefghijklmnopqrstuvwxyz'", "|"])
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
    with (
        zipfile.ZipFile(io.BytesIO(saved(value))) as old,
        zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as new,
    ):
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
    (
        ".pt",
        lambda: saved({"log_probs": FAR}),
        "got 4 bytes for a tensor that needs 232,000,000,000",
    ),
    (".pt", lambda: saved(FAR.expand(1, -1, -1)), "save tensor.contiguous()"),
    (
        ".pt",
        lambda: saved(torch.zeros(1).as_strided((10**5, CLASSES), (0, 0))),
        "save tensor.contiguous()",
    ),
    (
        ".pt",
        lambda: saved(torch.zeros(1).as_strided((2**40, CLASSES), (0, 0))),
        "save tensor.contiguous()",
    ),
    (".pt", lambda: saved(torch.empty(2**30, CLASSES, device="meta")), "without values"),
    (".pt", lambda: packed(torch.zeros(10**6, CLASSES)), "it is damaged, of a different kind"),
    (".pt", lambda: saved([[1]] * 3), "got list"),
    (".npz", lambda: zipped(header(f"(1000000000, {CLASSES})"), 2**31), "is damaged"),
    (
        ".npz",
        lambda: zipped(header(f"(20000000, {CLASSES})"), 0xFFFFFFF0),
        "B of memory, 2.0 GB are free",
    ),
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
        lambda: safetensors(
            {"a": {"dtype": "F32", "shape": [2**40, 29], "data_offsets": [0, 2**47]}}
        ),
        "cannot be read",
    ),
    (
        ".safetensors",
        lambda: safetensors(
            {"a": {"dtype": "F32", "shape": [2, 30], "data_offsets": [0, 240]}}, b"\0" * 240
        ),
        "30 classes and 29 tokens",
    ),
    (".ark:0", lambda: ark(2**31 - 1, 29), "is damaged: a matrix"),
    (".ark:0", lambda: ark(-1, 29), "is damaged: a matrix"),
    (".ark:0", lambda: ark(-(2**31), -(2**31), b"\0BDM "), "is damaged: a matrix"),
    (".ark:0", lambda: ark(2**31 - 1, 2**31 - 1, b"\0BCM "), "is damaged: a matrix"),
    (".ark:99", lambda: ark(1, 29), "expected a binary matrix"),
]


@over_rows(("suffix", "content", "says"), FILES)
def test_sizes_are_checked_before_memory_is_touched(
    tmp_path_factory, monkeypatch, suffix, content, says
):
    folder = tmp_path_factory.mktemp("arrays")
    monkeypatch.setattr(memory, "_memory_limits", lambda: iter([(2 * 10**9, "a test")]))
    (folder / "vocab.txt").write_text(LETTERS)
    file, colon, place = f"a{suffix}".partition(":")
    (folder / file).write_bytes(content())
    path = f"{folder / file}{colon}{place}"
    with pytest.raises(EmissionsError) as caught:
        LogProbsReader(str(folder / "vocab.txt"), 0.01).read(path)
    assert str(caught.value).startswith(path)
    assert says in str(caught.value)
    assert len(str(caught.value).splitlines()) == 1
    assert estimated_seconds(path) >= 0


@over_rows(
    "version", ["2.4.0", "2.5.1+cu121", "2.6.0", "2.9.1", "1.13", "2.10.0", "2.13.0+cpu", "3.0"]
)
def test_old_versions_of_torch_unpickle_nothing(tmp_path_factory, monkeypatch, version):
    path = tmp_path_factory.mktemp("versions") / "a.pt"
    torch.save(torch.zeros(2, 3), path)
    with monkeypatch.context() as patch:
        patch.setattr(torch, "__version__", version)
        if version in ("2.10.0", "2.13.0+cpu", "3.0"):
            assert load_torch_file(path).shape == (2, 3)
            return
        patch.setattr(torch, "load", lambda *_, **__: pytest.fail("a pickle was opened"))
        with pytest.raises(
            EmissionsError,
            match=r"torch 2\.10 or later, or save log-probs as \.npy or \.safetensors",
        ):
            load_torch_file(path)


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no named pipes here")
@over_rows("suffix", [*log_probs.EXTENSIONS, ".ark:0"])
def test_a_pipe_is_no_array(tmp_path_factory, suffix):
    folder = tmp_path_factory.mktemp("pipes")
    (folder / "vocab.txt").write_text(LETTERS)
    os.mkfifo(folder / f"a{suffix}".partition(":")[0])
    path = f"{folder}/a{suffix}"
    with pytest.raises(EmissionsError, match="expected a regular file, got a pipe"):
        LogProbsReader(str(folder / "vocab.txt"), 0.01).read(path)
    assert estimated_seconds(path) == 0


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no named pipes here")
def test_pipes_and_devices_are_no_texts(tmp_path: Path):
    """Nothing waits for a pipe that has a name; one that a shell has opened already (`<(…)`) is
    read."""
    os.mkfifo(tmp_path / "pipe")
    readers: list[Callable[[str], object]] = [
        read_transcript,
        read_lexicon,
        lambda path: LogProbsReader(path, 0.01).check(),
    ]
    for reader in readers:
        for path in (tmp_path / "pipe", Path("/dev/zero"), tmp_path):
            with pytest.raises(
                CtcAlignError, match=r"expected (a regular file|a transcript file), got a "
            ):
                reader(str(path))
        read_end, write_end = os.pipe()
        os.write(write_end, b"a AH\nb B\n")
        os.close(write_end)
        with open(read_end, "rb", closefd=True):
            try:
                reader(f"/dev/fd/{read_end}")
            except EmissionsError as error:
                assert "one token per line" in str(error)  # noqa: PT017


# Vocabulary files in their four forms, and what is wrong with others.


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        ("<blk>\na\nb\n", ("<blk>", "a", "b")),
        ("<blk>\r\na\r\nb", ("<blk>", "a", "b")),
        ("\ufeff<blk>\na\n\n\n", ("<blk>", "a")),
        ("<blk>\n \na\n", ("<blk>", " ", "a")),
        ("a\n \n", ("a", " ")),
        ("a \n\tb\n", ("a", "b")),
        ("a\u2028\n\u00a0\n", ("a\u2028", "\u00a0")),
        ("<blk> 0\na 2\nb 1\n", ("<blk>", "b", "a")),
        ("<blk>\t0\na\t1", ("<blk>", "a")),
        ("0 1\n1 0\n", ("1", "0")),
        ('["<blk>", "a", " "]', ("<blk>", "a", " ")),
        ('{"a": 1, "<blk>": 0}', ("<blk>", "a")),
        ("[PAD]\n[UNK]\na\n", ("[PAD]", "[UNK]", "a")),
        ("{\n}\n", None),
        ("{\n[\n", ("{", "[")),
        ("1\n2\n", ("1", "2")),
    ],
)
@pytest.mark.parametrize("name", ["vocab.txt", "tokens"])
def test_the_forms(
    tmp_path: Path, name: str, content: str, expected: tuple[str, ...] | None
) -> None:
    (tmp_path / name).write_bytes(content.encode())
    if expected is None:
        with pytest.raises(EmissionsError, match="has no tokens"):
            load_vocab(tmp_path / name)
    else:
        assert load_vocab(tmp_path / name) == expected


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("", "has no tokens"),
        ("\n\n", "has no tokens"),
        ("a\nb\na\n", "token 'a' is there twice: line 1 and line 3"),
        ("a 0\nb 1\na 2\n", "token 'a' is there twice: line 1 and line 3"),
        ("a\n\nb\n", r"v\.txt:2: expected a token, got an empty line"),
        ("a 0\nb 0\n", r"id 0 is given twice: to 'a' \(line 1\) and 'b' \(line 2\)"),
        (
            "a 0\nb 2\n",
            r"expected ids 0 to 1, .* got 2 of 'b' \(line 2\), and no token for 1: remove",
        ),
        ("a -1\nb 0\n", "got -1 of 'a'"),
        (
            "a 0\nb\n",
            (
                r"v\.txt:1: expected one token per line, or a token and its id on every line, got"
                r" 'a 0'"
            ),
        ),
        ("a\nb c\n", r"v\.txt:2: .* got 'b c'"),
        ('["a", "a"]', "token 'a' is there twice: entry 1 and entry 2"),
        ('{"a": 0, "a": 1}', "token 'a' is there twice"),
        ('{"a": "0"}', "got '0' for token 'a'"),
        ('{"a": true}', "got True for token 'a'"),
        ('{"0": {"a": 1}}', "for token '0'"),
        ('["a", 1]', "expected tokens in quotes, got 1"),
        ("[[0]]", "expected tokens in quotes"),
    ],
)
def test_what_is_wrong_is_said(tmp_path: Path, content: str, message: str) -> None:
    (tmp_path / "v.txt").write_text(content, encoding="utf-8")
    with pytest.raises(EmissionsError, match=message) as caught:
        load_vocab(tmp_path / "v.txt")
    assert "v.txt" in str(caught.value)


def test_vocabularies_that_are_none_and_the_token_space(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"nowhere\.txt: no such vocabulary file"):
        load_vocab(tmp_path / "nowhere.txt")
    with pytest.raises(UsageError, match="cannot be read"):
        load_vocab(tmp_path)
    (tmp_path / "latin.txt").write_bytes("é\n".encode("latin-1"))
    with pytest.raises(EmissionsError, match="expected a UTF-8 vocabulary, got byte 0xe9"):
        load_vocab(tmp_path / "latin.txt")
    for content, message in (
        ("[1,", r"v\.json:1: expected a JSON list or object"),
        ("3", "got int"),
        ("", "JSON"),
    ):
        (tmp_path / "v.json").write_text(content, encoding="utf-8")
        with pytest.raises(EmissionsError, match=message):
            load_vocab(tmp_path / "v.json")
    # As NeMo's networks of characters are exported for sherpa-onnx.
    path = tmp_path / "tokens.txt"
    path.write_text("  0\na 1\nb 2\n<blk> 3\n", encoding="utf-8")
    assert load_vocab(path) == (" ", "a", "b", "<blk>")
    path.write_text("x 0\n 1 1\n", encoding="utf-8")
    assert load_vocab(path) == ("x", "1")


@over_rows(
    "content",
    [
        *(
            "[" * 100_000,
            '{"a": ' * 50_000,
            "[" + "9" * 5000 + "]",
            '{"a": ' + "9" * 5000 + "}",
            "[1e999]",
            '["a", []]',
        ),
        *(
            '{"a": 1e999}',
            "a " + "9" * 5000,
            "a -1",
            '["\\ud800", "\\ud800"]',
            "\0",
            "",
            "\ufeff",
            '{"a": true}',
        ),
        *('{"a": ' + "9" * 400 + "}", "a 1\n" * 3, '["a"]]'),
    ],
)
def test_no_vocabulary_ends_in_a_traceback(tmp_path_factory, content: str) -> None:
    for name in ("v.txt", "v.json"):
        path = tmp_path_factory.mktemp("hostile") / name
        path.write_text(content, encoding="utf-8")
        try:
            assert all(load_vocab(path))
        except EmissionsError as error:
            assert re.match(rf"{re.escape(str(path))}[^\n]{{,300}}\Z", str(error))  # noqa: PT017


def test_a_part_of_what_is_no_array(tmp_path: Path, vocab_path: str) -> None:
    torch.save(torch.float32, tmp_path / "a.pt")
    with pytest.raises(EmissionsError, match="expected an array of shape"):
        LogProbsReader(vocab_path, 0.02).read(tmp_path / "a.pt", offset_s=0.02)
