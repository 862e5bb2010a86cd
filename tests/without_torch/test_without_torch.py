"""What works without PyTorch, and what says in one line that it needs it. Where PyTorch is
installed, it is hidden."""

from __future__ import annotations

import ast
import importlib.util
import logging
import shutil
import sys
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import numpy as np
import pytest

import ctc_align
from ctc_align import kernels, lattice
from ctc_align.errors import CtcAlignError, MissingExtraError
from ctc_align.extras import import_torch
from ctc_align.models import acoustic_model
from ctc_align.types import Emissions

ROOT = Path(__file__).resolve().parents[2]
EXAMPLES = ROOT / "examples"
RECORDING, TEXT = str(EXAMPLES / "interview.flac"), str(EXAMPLES / "interview.txt")
NEED_TORCH = (
    *("ctc/", "functional", "losses", "pipelines", "kernels/gpu/", "training/"),
    "models/convnet/network",
)
NEED_TORCH += ("models/huggingface", "models/torchaudio_bundles", "models/torch_networks")
"""The modules that import PyTorch when they are imported."""


@pytest.fixture(autouse=True)
def hidden(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "torch", None)


def test_other_modules_import_it_late() -> None:
    found = [
        str(path.relative_to(ROOT / "ctc_align"))
        for path in (ROOT / "ctc_align").rglob("*.py")
        for node in ast.parse(path.read_text("utf-8")).body
        if (
            isinstance(node, ast.Import)
            and any(name.name.partition(".")[0] == "torch" for name in node.names)
        )
        or (isinstance(node, ast.ImportFrom) and (node.module or "").partition(".")[0] == "torch")
    ]
    assert len(found) > 15
    assert [name for name in found if not name.startswith(NEED_TORCH)] == []


@pytest.mark.parametrize(
    ("call", "says"),
    [
        (("align", RECORDING, TEXT, "--device", "cuda"), "device cuda needs PyTorch"),
        (("align", RECORDING, TEXT, "--device", "mps"), "device mps needs PyTorch"),
        (("align", RECORDING, TEXT, "--backend", "gpu"), "backend 'gpu' needs PyTorch"),
        (
            ("align", RECORDING, TEXT, "--set", "precision=float16"),
            "precision float16 needs PyTorch",
        ),
        (("align", RECORDING, TEXT, "--model", "hf:a/b"), "model hf:a/b needs PyTorch"),
        (("align", RECORDING, TEXT, "--model", "torchaudio:A"), "model torchaudio:A needs PyTorch"),
        (
            ("corpus", str(EXAMPLES / "turns.jsonl"), "--device", "cuda"),
            "device cuda needs PyTorch",
        ),
        (
            ("corpus", str(EXAMPLES / "turns.jsonl"), "--model", "hf:a/b"),
            "model hf:a/b needs PyTorch",
        ),
        (("train", str(EXAMPLES / "turns.jsonl")), "training needs PyTorch"),
        (("adapt", str(EXAMPLES / "turns.jsonl")), "training needs PyTorch"),
    ],
    ids=lambda value: " ".join(value[-2:]) if isinstance(value, tuple) else "",
)
def test_what_needs_it_says_so_before_any_work(
    cli: Any, tmp_path: Path, call: tuple[str, ...], says: str
) -> None:
    result = cli(*call, "--out-dir", str(tmp_path / "out"), code=2)
    (line,) = result.stderr.splitlines()
    assert line.startswith(
        f"ctc-align: error: {says}, which is not installed: pip install 'ctc-align["
    )
    assert not (tmp_path / "out").exists()


def test_torch_files_say_how_to_convert_them(cli: Any, tmp_path: Path) -> None:
    (tmp_path / "talk.pt").write_bytes(b"PK")
    (tmp_path / "tokens.txt").write_text("-\na\n", "utf-8")
    call = (
        "--vocab",
        str(tmp_path / "tokens.txt"),
        "--frame-shift",
        "0.02",
        "--out-dir",
        str(tmp_path / "out"),
    )
    result = cli("align", str(tmp_path / "talk.pt"), TEXT, *call, code=2)
    assert "numpy.save('talk.npy', log_probs.float().numpy())" in result.stderr


def test_the_package_and_its_functions(monkeypatch: pytest.MonkeyPatch) -> None:
    package = importlib.util.module_from_spec(importlib.util.find_spec("ctc_align"))
    package.__spec__.loader.exec_module(package)
    assert set(ctc_align.__all__) - set(package.__all__) <= {"CTCLoss"}
    assert "CTCLoss" not in package.__all__
    for name in ("functional", "losses", "pipelines"):
        for imported in (name, "ctc"):
            monkeypatch.delitem(sys.modules, f"ctc_align.{imported}", raising=False)
        with pytest.raises(
            MissingExtraError, match=r"needs PyTorch, .* pip install 'ctc-align\[torch\]'"
        ) as caught:
            importlib.import_module(f"ctc_align.{name}")
        assert isinstance(caught.value, ImportError)
        assert isinstance(caught.value, CtcAlignError)
    emissions = Emissions(np.zeros((3, 2), np.float32), ("-", "a"), 0.02)
    with pytest.raises(MissingExtraError, match=r"in NumPy it is Emissions\.array"):
        _ = emissions.log_probs


def test_an_old_pytorch_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    old: Any = ModuleType("torch")
    old.__version__, old.__spec__ = "2.3.1+cu121", SimpleNamespace()
    monkeypatch.setitem(sys.modules, "torch", old)
    with pytest.raises(
        MissingExtraError, match=r"needs PyTorch 2\.4 or later, got 2\.3\.1\+cu121: pip install"
    ):
        import_torch("this")
    old.__version__ = "2.10.0"
    assert import_torch("this") is old


def test_a_gpu_that_only_lacks_pytorch_is_noted_once(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    acoustic_model._note_idle_gpu.cache_clear()
    caplog.set_level(logging.INFO, "ctc_align")
    monkeypatch.setattr(acoustic_model, "has_driver", lambda: True)
    assert [str(acoustic_model.resolve_device(name)) for name in ("cpu", "auto", "auto")] == [
        "cpu"
    ] * 3
    (record,) = caplog.records
    assert "a GPU, but PyTorch, which it needs" in record.getMessage()
    assert "pip install 'ctc-align[torch]'" in record.getMessage()


def test_doctor_shows_what_its_absence_costs(monkeypatch: pytest.MonkeyPatch) -> None:
    from ctc_align.cli import doctor

    monkeypatch.setattr(acoustic_model, "has_driver", lambda: True)
    found = doctor.installation()
    assert (
        found["devices"]["cuda"] == "not used: a GPU needs PyTorch: pip install 'ctc-align[torch]'"
    )
    assert not [value for value in found["devices"].values() if "broken" in value]
    (row,) = [row for row in found["extras"] if row["extra"] == "torch"]
    assert not row["installed"]
    assert "--device cuda" in row["purpose"]


def test_onnx_models(cli: Any, tmp_path: Path) -> None:
    pytest.importorskip("onnxruntime", reason="needs the extra [onnx]")
    made_onnx = pytest.importorskip("made_onnx")
    file = made_onnx.write(
        tmp_path / "model.onnx", made_onnx.KINDS["nemo"], made_onnx.METADATA["nemo"]
    )
    made_onnx.write_tokens(tmp_path / "tokens.txt")
    result = cli("align", RECORDING, TEXT, "--model", f"onnx:{file}", "--out-dir", tmp_path / "out")
    assert result.code in (0, 3), result.stderr
    assert (tmp_path / "out" / "interview.json").is_file()


def test_constants_of_calibrate(cli: Any, tmp_path: Path) -> None:
    """From labels 30 ms late, of eight files, from which edges would be learnt."""
    from made_alignments import textgrid

    from ctc_align.cli.doctor import DEMO_FOLDER, KNOWN_TIMES

    for k in range(8):
        folder = tmp_path / "labels" / str(k)
        folder.mkdir(parents=True)
        for name in ("demo.flac", "demo.txt"):
            shutil.copy(DEMO_FOLDER / name, folder / name)
        textgrid(
            folder / "demo.TextGrid",
            ("words", [(w, a + 0.03, b + 0.03) for w, a, b in KNOWN_TIMES]),
        )
    result = cli("calibrate", "english", tmp_path / "labels", "--out-dir", tmp_path / "out", code=0)
    assert (
        "constants only: learning edges needs PyTorch, which is not installed: pip install"
        in result.stdout
    )
    assert "constants: proven to be better" in result.stderr
    assert [path.name for path in (tmp_path / "out").iterdir()] == ["calibration.toml"]


def test_arrays_in_files(tmp_path: Path) -> None:
    from ctc_align.models.log_probs import read_array

    values = np.log(np.random.default_rng(0).dirichlet(np.ones(5), 7)).astype(np.float32)
    halves = (values.view(np.uint32) >> 16).astype("<u2")
    header = b'{"log_probs":{"dtype":"BF16","shape":[7,5],"data_offsets":[0,70]}}'
    (tmp_path / "a.safetensors").write_bytes(
        len(header).to_bytes(8, "little") + header + halves.tobytes()
    )
    np.save(tmp_path / "a.npy", values)
    np.savez(tmp_path / "a.npz", log_probs=values)
    for name in ("a.npy", "a.npz", "a.safetensors"):
        np.testing.assert_allclose(
            read_array(tmp_path / name, lambda shape: None), values, rtol=2**-7
        )


def test_the_reference_agrees_with_the_kernels() -> None:
    rng = np.random.default_rng(3)
    rows = [rng.integers(1, 6, size) for size in (4, 1, 7)]
    topology, lengths = lattice.ctc([row.tolist() for row in rows]), np.array([15, 20, 20])
    x = rng.standard_normal((3, 20, 6)).astype(np.float32)
    met, right = (
        kernels.occupancy(x, topology, lengths, backend=name) for name in ("cpu", "reference")
    )
    np.testing.assert_allclose(met.scores, right.scores, rtol=1e-6)
    np.testing.assert_allclose(met.posteriors, right.posteriors, atol=1e-5)
    paths = [
        kernels.best_path(x, topology, lengths, backend=name).states
        for name in ("cpu", "reference")
    ]
    np.testing.assert_array_equal(*paths)
