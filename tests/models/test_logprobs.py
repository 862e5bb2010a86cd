"""Log-probs and vocabularies from files: every container, every shape, and what is wrong with the others."""

from __future__ import annotations

import json
import logging
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import save_file

from ctc_align.errors import EmissionsError, UsageError
from ctc_align.models import log_probs
from ctc_align.models.log_probs import LogProbsReader, check_emissions, is_log_probs_path
from ctc_align.types import Emissions

VOCAB = ("<blk>", "a", "b", "c")
CONTAINERS = (".npy", ".npz", ".safetensors", ".pt", ".PTH")


def load_log_probs(
    path: Path | str, *, vocab_path: Path, frame_shift_s: float, blank: int | str | None = None
) -> Emissions:
    return LogProbsReader(str(vocab_path), frame_shift_s, blank).read(path)


def some_log_probs(frames: int = 7, classes: int = 4, seed: int = 0) -> torch.Tensor:
    return torch.randn(frames, classes, generator=torch.Generator().manual_seed(seed)).log_softmax(1)


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


@pytest.mark.parametrize("suffix", CONTAINERS)
@pytest.mark.parametrize("key", ["log_probs", "other", None])
def test_every_container_gives_the_same(tmp_path: Path, vocab_path: Path, suffix: str, key: str | None) -> None:
    expected = some_log_probs()
    path = save(tmp_path / f"a{suffix}", expected, key)
    emissions = load_log_probs(path, vocab_path=vocab_path, frame_shift_s=0.02)
    assert torch.equal(emissions.log_probs, expected)
    assert (emissions.vocab, emissions.frame_shift_s, emissions.blank) == (VOCAB, 0.02, 0)
    assert emissions.name == str(path)


@pytest.mark.parametrize("suffix", [".npz", ".safetensors", ".pt"])
def test_the_entry_by_name_or_the_only_one(tmp_path: Path, vocab_path: Path, suffix: str) -> None:
    other = np.ones(3, np.float32) if suffix == ".npz" else torch.ones(3)
    path = save(tmp_path / f"a{suffix}", some_log_probs(), lengths=other)
    assert load_log_probs(path, vocab_path=vocab_path, frame_shift_s=0.02).log_probs.shape == (7, 4)
    path = save(tmp_path / f"b{suffix}", some_log_probs(), "x", lengths=other)
    with pytest.raises(
        EmissionsError, match=r"expected an entry 'log_probs' or a single one, got (x, lengths|lengths, x)"
    ):
        load_log_probs(path, vocab_path=vocab_path, frame_shift_s=0.02)


@pytest.mark.parametrize(
    ("suffix", "dtype"),
    [
        (suffix, dtype)
        for suffix in (".safetensors", ".pt", ".npy", ".npz")
        for dtype in (torch.float16, torch.bfloat16, torch.float32, torch.float64)
        if dtype != torch.bfloat16 or not suffix.startswith(".np")
    ],
)
def test_every_float_type(
    tmp_path: Path, vocab_path: Path, caplog: pytest.LogCaptureFixture, dtype: torch.dtype, suffix: str
) -> None:
    given = some_log_probs().to(dtype)
    found = load_log_probs(save(tmp_path / f"a{suffix}", given), vocab_path=vocab_path, frame_shift_s=0.02).log_probs
    assert found.dtype == (torch.float64 if dtype == torch.float64 else torch.float32)
    assert torch.equal(found, given.to(found.dtype))
    assert not caplog.records


def test_arrays_as_numpy_keeps_them(tmp_path: Path, vocab_path: Path) -> None:
    given = some_log_probs().numpy()
    for odd in (given.astype(">f4"), np.asfortranarray(given), given[None], given.astype(np.longdouble)):
        np.save(tmp_path / "a.npy", odd)
        found = load_log_probs(tmp_path / "a.npy", vocab_path=vocab_path, frame_shift_s=0.02).log_probs
        assert found.is_contiguous()
        np.testing.assert_array_equal(found.numpy(), given)
    np.save(tmp_path / "a.npy", given)
    before = (tmp_path / "a.npy").read_bytes()
    load_log_probs(tmp_path / "a.npy", vocab_path=vocab_path, frame_shift_s=0.02).log_probs.fill_(9)
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
def test_what_cannot_be_log_probs(
    tmp_path: Path, vocab_path: Path, array: torch.Tensor, message: str, suffix: str
) -> None:
    path = save(tmp_path / f"a{suffix}", array)
    with pytest.raises(EmissionsError, match=message) as caught:
        load_log_probs(path, vocab_path=vocab_path, frame_shift_s=0.02)
    assert str(path) in str(caught.value)


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
@pytest.mark.parametrize("rows_at_once", [4, 8192])
def test_the_first_bad_value_is_placed(monkeypatch: pytest.MonkeyPatch, value: float, rows_at_once: int) -> None:
    monkeypatch.setattr(log_probs, "_CELLS_AT_ONCE", 4 * rows_at_once)
    matrix = some_log_probs(11)
    matrix[9, 1] = value
    matrix[6, 3] = value
    with pytest.raises(EmissionsError, match=f"value is {value} at frame 6, class 3"):
        check_emissions(Emissions(matrix, VOCAB, 0.02))


def test_minus_infinity_is_the_impossible() -> None:
    matrix = some_log_probs()
    matrix[2, 1:] = -torch.inf
    matrix[2, 0] = 0
    assert torch.equal(check_emissions(Emissions(matrix, VOCAB, 0.02)).log_probs, matrix)
    matrix[2, 0] = -torch.inf
    with pytest.raises(EmissionsError, match="every class is -inf at frame 2"):
        check_emissions(Emissions(matrix, VOCAB, 0.02))


def test_scores_that_do_not_sum_to_one_are_said(caplog: pytest.LogCaptureFixture) -> None:
    scores = some_log_probs() * 3 + 2
    assert torch.equal(check_emissions(Emissions(scores, VOCAB, 0.02, name="x.npy")).log_probs, scores)
    assert [record.levelno for record in caplog.records] == [logging.WARNING]
    assert "x.npy: rows are no distributions" in caplog.text


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
def test_emissions_in_memory_are_checked(field: str, value: Any, error: type[Exception], message: str) -> None:
    fields: dict[str, Any] = {"log_probs": some_log_probs(), "vocab": VOCAB, "frame_shift_s": 0.02, field: value}
    with pytest.raises(error, match=message):
        check_emissions(Emissions(**fields))


@pytest.mark.parametrize("shift", [0, -0.02, float("nan"), float("inf"), "x", None])
def test_frame_shifts_that_are_none(shift: Any) -> None:
    with pytest.raises(UsageError, match="frame shift: expected a positive number of seconds"):
        load_log_probs("unread.npy", vocab_path="unread.txt", frame_shift_s=shift)


def test_a_frame_shift_in_milliseconds() -> None:
    with pytest.raises(UsageError, match=r"expected seconds, got 20: milliseconds\? 0\.02 then"):
        load_log_probs("unread.npy", vocab_path="unread.txt", frame_shift_s=20)


@pytest.mark.parametrize("suffix", CONTAINERS)
@pytest.mark.parametrize("content", [b"", b"hello", b"\x93NUMPY\x01\x00", b"PK\x03\x04" + bytes(30), bytes(64)])
def test_files_that_cannot_be_read(tmp_path: Path, vocab_path: Path, suffix: str, content: bytes) -> None:
    path = tmp_path / f"a{suffix}"
    path.write_bytes(content)
    with pytest.raises(EmissionsError, match=rf"a{suffix}: expected log-probs, got a file that cannot be read"):
        load_log_probs(path, vocab_path=vocab_path, frame_shift_s=0.02)


@pytest.mark.parametrize("suffix", CONTAINERS)
def test_files_cut_short(tmp_path: Path, vocab_path: Path, suffix: str) -> None:
    path = save(tmp_path / f"a{suffix}", some_log_probs(400))
    path.write_bytes(path.read_bytes()[:3000])
    with pytest.raises(EmissionsError, match="cannot be read"):
        load_log_probs(path, vocab_path=vocab_path, frame_shift_s=0.02)


def test_no_code_is_ever_run(tmp_path: Path, vocab_path: Path) -> None:
    torch.save({"log_probs": Path("x")}, tmp_path / "a.pt")
    np.save(tmp_path / "a.npy", np.array([[None]]), allow_pickle=True)
    for name in ("a.pt", "a.npy"):
        with pytest.raises(EmissionsError, match="cannot be read"):
            load_log_probs(tmp_path / name, vocab_path=vocab_path, frame_shift_s=0.02)


def test_an_array_called_an_archive(tmp_path: Path, vocab_path: Path) -> None:
    np.save(tmp_path / "a.npy", some_log_probs().numpy())
    (tmp_path / "a.npy").rename(tmp_path / "a.npz")
    with pytest.raises(EmissionsError, match=r"call it \.npy"):
        load_log_probs(tmp_path / "a.npz", vocab_path=vocab_path, frame_shift_s=0.02)


def test_no_such_file(tmp_path: Path, vocab_path: Path) -> None:
    with pytest.raises(UsageError, match=r"a\.npy: no such file"):
        load_log_probs(tmp_path / "a.npy", vocab_path=vocab_path, frame_shift_s=0.02)
    with pytest.raises(UsageError, match=r"expected log-probs in \.npy"):
        load_log_probs(tmp_path / "a.wav", vocab_path=vocab_path, frame_shift_s=0.02)


def test_kaldis_disambiguation_symbols_are_dropped(tmp_path: Path) -> None:
    path = save(tmp_path / "a.npy", some_log_probs())
    (tmp_path / "tokens.txt").write_text("<blk> 0\na 1\nb 2\nc 3\n#0 4\n#1 5\n", encoding="utf-8")
    assert load_log_probs(path, vocab_path=tmp_path / "tokens.txt", frame_shift_s=0.02).vocab == VOCAB


def test_the_blank_by_name_or_index(tmp_path: Path) -> None:
    path = save(tmp_path / "a.npy", some_log_probs())
    (tmp_path / "v.json").write_text(json.dumps(["a", "b", "0", "<blk>"]), encoding="utf-8")
    for blank, index in ((0, 0), (3, 3), ("<blk>", 3), ("3", 3), ("0", 2)):
        found = load_log_probs(path, vocab_path=tmp_path / "v.json", frame_shift_s=0.02, blank=blank)
        assert found.blank == index
    for bad, message in (
        (None, "--blank 3"),
        ("4", "index from 0 to 3"),
        ("<eps>", "got '<eps>'; <blk> would be one"),
        (-1, "got -1"),
    ):
        with pytest.raises(UsageError, match=message):
            load_log_probs(path, vocab_path=tmp_path / "v.json", frame_shift_s=0.02, blank=bad)


def test_extensions() -> None:
    assert [is_log_probs_path(name) for name in ("a.npy", Path("b.PT"), "c.wav", "npy", "d.npy.wav")] == [
        True,
        True,
        False,
        False,
        False,
    ]


@pytest.mark.parametrize("name", ["bad.pt", "bad.npz", "bad.npy", "bad.safetensors"])
def test_a_damaged_file_is_told_in_our_words(tmp_path: Path, vocab_path: Path, name: str) -> None:
    (tmp_path / name).write_bytes(b"xx")
    with pytest.raises(EmissionsError) as caught:
        load_log_probs(tmp_path / name, vocab_path=vocab_path, frame_shift_s=0.02)
    assert name in str(caught.value)
    assert not re.search("weights_only|allow_pickle|unsafe", str(caught.value))


def test_a_frame_shift_that_would_make_words_empty(tmp_path: Path, vocab_path: Path) -> None:
    np.save(tmp_path / "x.npy", np.log(np.full((5, 4), 0.25, np.float32)))
    with pytest.raises(UsageError, match=r"at least 0\.0001, got 1e-09"):
        load_log_probs(tmp_path / "x.npy", vocab_path=vocab_path, frame_shift_s=1e-9)
