"""Fifty clients at once, with the real model: none refused, none mixed up, each with the result that it has alone."""

from __future__ import annotations

import io
import resource
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
import soundfile
from local_server import Answer, Parts, local_server

from ctc_align.alignment.aligner import Aligner

DEMO = Path(__file__).resolve().parents[2] / "ctc_align" / "demo"
CLIENTS = 50
MOST_GROWTH_MB = 500

pytestmark = [
    pytest.mark.long,
    pytest.mark.skipif(sys.platform == "win32", reason="measures memory by the module resource"),
]


def request_of(client: int) -> Parts:
    """Return a recording and a text that no other client has."""
    samples, rate = soundfile.read(DEMO / "demo.flac", dtype="float32")
    file = io.BytesIO()
    soundfile.write(file, samples[: len(samples) - client * rate // 20], rate, format="FLAC")
    text = f"Client {client}: " + (DEMO / "demo.txt").read_text("utf-8")
    return [("audio", f"client{client}.flac", file.getvalue()), ("text", None, text.encode())]


def test_fifty_clients_at_once_get_what_each_would_get_alone(tmp_path: Path) -> None:
    requests = [request_of(client) for client in range(CLIENTS)]
    with local_server(aligner=Aligner()) as server:
        assert server.post("/align", requests[0]).status == 200
        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        start = threading.Barrier(CLIENTS)

        def ask(parts: Parts) -> Answer:
            start.wait()
            return server.post("/align", parts)

        with ThreadPoolExecutor(CLIENTS) as pool:
            answers = list(pool.map(ask, requests))
        grown_mb = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 1024
        counts = server.server.queue.counts()
    assert [answer.status for answer in answers] == [200] * CLIENTS
    assert [answer.json["text"].split(":")[0] for answer in answers] == [f"Client {i}" for i in range(CLIENTS)]
    assert counts["largest_batch"] > 5
    assert counts["batches"] < CLIENTS / 2
    assert grown_mb < MOST_GROWTH_MB
    alone = Aligner()
    for client in range(0, CLIENTS, 10):
        path = tmp_path / f"client{client}.flac"
        path.write_bytes(requests[client][0][2])
        expected = alone.align(path, requests[client][1][2].decode()).to_dict()
        assert {**answers[client].json, "audio": ""} == {**expected, "audio": ""}
