"""The worker that FA-Bench starts answers a line for each job, in its protocol."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
DEMO = ROOT / "ctc_align" / "demo"
sys.path.insert(0, str(ROOT / "tests" / "benchmarks"))

import fa_bench_worker  # noqa: E402


def test_a_line_for_each_job(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text = (DEMO / "demo.txt").read_text(encoding="utf-8")
    jobs = [{"item_id": "a", "audio_path": str(DEMO / "demo.flac"), "transcript": text}]
    jobs += [{"item_id": "b", "audio_path": str(tmp_path / "gone.wav"), "transcript": "no"}]
    (tmp_path / "jobs.jsonl").write_text("".join(json.dumps(job) + "\n" for job in jobs), "utf-8")
    fa_bench_worker.main([str(tmp_path / "jobs.jsonl"), "english"])
    found, failed = map(json.loads, capsys.readouterr().out.splitlines())
    assert (found["item_id"], failed["item_id"]) == ("a", "b")
    assert "gone.wav" in failed["error"]
    assert [word[0] for word in found["words"][:2]] == ["Forced", "alignment"]
    assert [phone[0] for phone in found["phones"][:5]] == ["F", "AO", "R", "S", "T"]
    starts = [word[1] for word in found["words"]]
    assert starts == sorted(starts)
    assert all(0 <= start < end and 0 <= confidence <= 1 for _, start, end, confidence in found["words"])
