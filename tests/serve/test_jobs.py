"""Which finished jobs a server forgets, at its real limits: none with a person's work, none that is
in use."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator

import pytest
from local_server import LocalServer, local_server, pair, until, wav

from ctc_align.serve.jobs import ServerLimits

LIMITS = ServerLimits()


@pytest.fixture
def server() -> Iterator[LocalServer]:
    with local_server(places=2 * LIMITS.kept_jobs) as running:
        yield running


def corrected_job(server: LocalServer) -> str:
    """Return the address of a job with a word that a person has marked as right, which nobody has
    asked for since."""
    there = server.done_job(pair("one two"))
    word = server.ask("GET", f"{there}/alignment").json["words"][0]
    change = {"words": [{"index": 0, "was": word, "is": {**word, "by": "hand"}}]}
    assert server.ask("PATCH", f"{there}/alignment", json.dumps(change).encode()).status == 200
    return unused(server, there)


def checked_job(server: LocalServer) -> str:
    there = server.done_job(pair("one two"))
    assert server.ask("PATCH", f"{there}/alignment", b'{"checked": true}').status == 200
    return unused(server, there)


def retyped_job(server: LocalServer) -> str:
    """Return the address of a job whose last word a person has removed from the text."""
    there = server.done_job(pair("one two"))
    data = server.ask("GET", f"{there}/alignment").json
    shorter = {**data, "text": "one", "words": data["words"][:1]}
    assert server.ask("PUT", f"{there}/alignment", json.dumps(shorter).encode()).status == 200
    return unused(server, there)


def unused(server: LocalServer, there: str) -> str:
    """Return the address of a job, which nobody has asked for in the last hour from now on."""
    server.server.queue.find(there.rpartition("/")[2]).used_s = -math.inf
    return there


def is_there(server: LocalServer, there: str) -> bool:
    return server.ask("GET", there).status == 200


def test_a_thousand_newer_jobs_do_not_displace_the_work_of_a_person(server: LocalServer) -> None:
    worked_on = [make(server) for make in (corrected_job, checked_job, retyped_job)]
    used = server.done_job(pair("one two"))
    plain = unused(server, server.done_job(pair("one two")))
    parts = [("audio", "a.wav", wav(0.1)), ("text", None, b"one")]
    newer = [server.post("/jobs", parts).headers["location"] for _ in range(LIMITS.kept_jobs)]
    until(lambda: server.ask("GET", "/health").json["queue"]["finished"] == LIMITS.kept_jobs + 5)
    newest = server.done_job(parts)
    assert [is_there(server, there) for there in (*worked_on, used, newest)] == [True] * 5
    assert [is_there(server, there) for there in (plain, newer[0])] == [False] * 2
    kept = server.ask("GET", "/jobs").json
    assert kept["room"]["jobs"] == kept["room"]["most_jobs"] == LIMITS.kept_jobs
    assert sum(job["has_work"] for job in kept["jobs"]) == 3
    full = server.post("/jobs", parts)
    assert (full.status, full.headers["retry-after"]) == (503, "60")
    assert (
        "all of them have corrections, are checked, or were used in the last hour: keep them"
        in full.json["error"]
    )
    assert server.post("/align", parts).status == 200, "which keeps nothing"
    assert server.ask("DELETE", newer[-1]).status == 200
    assert server.post("/jobs", parts).status == 202


def test_nor_do_uploads_when_the_disk_is_full_of_them(server: LocalServer) -> None:
    worked_on = [make(server) for make in (corrected_job, checked_job)]
    plain = unused(server, server.done_job(pair("one two")))
    uploads = server.server.uploads
    assert uploads.most_bytes == LIMITS.uploads_bytes == 2**32
    uploads.charge(uploads.most_bytes - uploads.bytes)  # by uploads of other requests
    server.done_job(pair("one two"))
    assert not is_there(server, plain)
    full = server.post("/jobs", pair("one two"))
    assert (full.status, full.headers["retry-after"]) == (503, "30")
    assert "have 4.3 GB together" in full.json["error"]
    for there in worked_on:
        data = server.ask("GET", f"{there}/alignment").body
        assert server.ask("PUT", f"{there}/alignment", data).status == 200, "corrections have room"
        assert server.ask("GET", f"{there}/audio").status == 200


def test_an_hour_later_what_has_no_work_is_forgotten(server: LocalServer) -> None:
    work, plain = corrected_job(server), unused(server, server.done_job(pair("one two")))
    for job in server.server.queue.kept():
        job.ended_s -= LIMITS.keep_s
    assert (is_there(server, plain), is_there(server, work)) == (False, True)
