"""The API: good and bad requests of a real server on a loopback port; batches, places,
cancellation, many clients."""

from __future__ import annotations

import errno
import io
import json
import os
import re
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import jsonschema
import numpy as np
import pytest
import soundfile
from local_server import Answer, LocalServer, Parts, form, local_server, pair, until, wav
from made_media import endless_flac, restarting_matroska

from ctc_align.alignment.aligner import Aligner, split_transcript
from ctc_align.config import Settings
from ctc_align.files import from_dict, json_schema
from ctc_align.files.corrections import original_of
from ctc_align.serve.alignment_folder import AlignmentFolder
from ctc_align.serve.jobs import JobQueue, ModelWorker, ServerLimits
from ctc_align.serve.request_fields import OTHERS_ALIGN
from ctc_align.serve.server import Address


@pytest.fixture(scope="module")
def server() -> Iterator[LocalServer]:
    with local_server(audio_s=100.0, upload_bytes=5_000_000, text_chars=2000) as running:
        yield running


def words(data: dict) -> list[str]:
    return [word["text"] for word in data["words"]]


def test_align_answers_in_the_format_that_is_asked_for(server: LocalServer) -> None:
    answer = server.post(
        "/align", [*pair("Hello, wörld!", name="../a talk.wav"), ("match", None, b"exact")]
    )
    assert (answer.status, answer.headers["content-type"]) == (200, "application/json")
    assert (words(answer.json), answer.json["utterance"], answer.json["audio"]) == (
        ["Hello,", "wörld!"],
        "a talk",
        "a talk.wav",
    )
    jsonschema.validate(answer.json, json_schema())
    subtitles = b"1\n00:00:00,000 --> 00:00:01,000\nOne two\n"
    parts: Parts = [
        ("audio", "a.wav", wav()),
        ("transcript", "a.srt", subtitles),
        ("format", None, b"srt"),
    ]
    answer = server.post("/align", parts)
    assert answer.status == 200
    assert b"One two" in answer.body
    assert answer.headers["content-disposition"] == "attachment; filename*=UTF-8''a.srt"
    assert b'"words"' in server.post("/align", [*pair("a b"), ("format", None, b"TextGrid")]).body
    for format in server.ask("GET", "/models").json["formats"]:
        assert (
            server.post("/align", [*pair("a b"), ("format", None, format.encode())]).status == 200
        ), format
    lit = server.post(
        "/align", [*pair("a b"), ("format", None, b"srt"), ("highlight_words", None, b"true")]
    )
    assert lit.body.count(b"-->") > 1
    page = server.post("/align", [*pair("a b"), ("format", None, b"html")])
    assert (page.status, page.headers["content-type"]) == (200, "text/html; charset=utf-8")
    assert re.search(rb'id="page-audio">[\w+/]{100}', page.body)
    assert server.uploads() == []


def test_alignments_in_the_shape_of_other_servers_are_those_of_align(server: LocalServer) -> None:
    there, text = "/v1/audio/alignments", "Hello — wörld! Here we go."
    ours = server.post("/align", pair(text)).json
    parts: Parts = [
        ("file", "talk.wav", pair(text)[0][2]),
        ("text", None, text.encode()),
        ("language", None, b"en"),
    ]
    answer = server.post(there, parts)
    assert (answer.status, answer.headers["content-type"], answer.json["task"]) == (
        200,
        "application/json",
        "align",
    )
    rows = [
        {"word": word["text"], "start": word["start_s"], "end": word["end_s"]}
        for word in ours["words"]
    ]
    assert (answer.json["words"], answer.json["untimed_words"]) == (rows, [])
    assert {answer.json[name] for name in ("text", "language", "model")} == {
        text,
        "en",
        ours["model"],
    }
    more = server.post(there, [*parts, ("response_format", None, b"verbose_json")]).json
    assert more["words"] == [{**row, "confidence": 0.9} for row in rows]
    assert ([part["end"] for part in more["segments"]], more["loss"]) == (
        [rows[2]["end"], rows[-1]["end"]],
        1.0,
    )
    unread = {"status": "skipped", "start_s": None, "end_s": None, "confidence": None}
    partly = from_dict({**ours, "words": [*ours["words"][:-1], {**ours["words"][-1], **unread}]})
    made = OTHERS_ALIGN.objects["json"](partly)
    assert (made["words"], made["untimed_words"]) == (
        rows[:-1],
        [{"word": "go.", "status": "skipped"}],
    )
    srt = server.post(there, [*parts, ("response_format", None, b"srt")])
    assert srt.body == server.post("/align", [*pair(text), ("format", None, b"srt")]).body
    for wrong, said in (
        (
            [*parts, ("response_format", None, b"text")],
            "response_format: expected one of json, verbose_json, srt, vtt",
        ),
        (pair(text), "'audio': no such file in this form; there are file, transcript"),
        (parts[1:], "file: expected a recording; with curl: -F file=@FILE"),
        ([*parts, ("model", None, b"whisper-1")], "this server has spread"),
    ):
        refused = server.post(there, wrong)
        assert (refused.status in (400, 422), said in refused.json["error"]) == (
            True,
            True,
        ), refused.body
    assert server.uploads() == []
    paths = server.ask("GET", "/openapi.json").json["paths"]
    schema = paths[there]["post"]["requestBody"]["content"]["multipart/form-data"]["schema"]
    assert (schema["required"], schema["properties"]["response_format"]["enum"][1]) == (
        ["file"],
        "verbose_json",
    )


def test_a_style_sets_limits_and_other_fields_win(server: LocalServer) -> None:
    style: Parts = [("style", None, b"netflix"), ("max_line", None, b"30")]
    config = server.post("/align", [*pair("Hello"), *style]).json["config"]
    assert (config["max_cps"], config["max_line"], config["close_gaps_s"]) == (20.0, 30, 0.5)


def test_score_ranks_several_texts(server: LocalServer) -> None:
    answer = server.post("/score", [*pair("one"), ("text", None, b"two more")])
    assert [(row["text"], row["rank"]) for row in answer.json["scores"]] == [
        ("one", 1),
        ("two more", 2),
    ]


def test_a_job_is_followed_mended_and_removed(server: LocalServer) -> None:
    answer = server.post("/jobs", pair("one two"))
    assert answer.status == 202
    there = answer.headers["location"]
    until(lambda: server.ask("GET", there).json["state"] == "done")
    data = server.ask("GET", f"{there}/alignment").json
    data["words"][0]["end_s"] = 0.25
    assert server.ask("PUT", f"{there}/alignment", json.dumps(data).encode()).json == {
        "saved": answer.json["id"]
    }
    assert server.ask("GET", f"{there}/alignment").json["words"][0]["end_s"] == 0.25
    part = server.ask("GET", f"{there}/audio", headers={"Range": "bytes=0-3"})
    assert (part.status, part.body, part.headers["content-type"]) == (206, b"RIFF", "audio/wav")
    assert answer.json["id"] in [job["id"] for job in server.ask("GET", "/jobs").json["jobs"]]
    assert len(server.uploads()) == 1
    assert server.ask("DELETE", there).status == 200
    assert server.uploads() == []
    assert server.ask("GET", there).status == 404


def test_corrections_are_aligned_again_and_nothing_is_saved(server: LocalServer) -> None:
    there = server.done_job([*pair("one two"), ("edges", None, b"spikes")])
    before = server.ask("GET", f"{there}/alignment").json

    def ask(**changes: object) -> Answer:
        return server.ask("POST", f"{there}/realign", json.dumps({**before, **changes}).encode())

    fixed = {**before["words"][0], "end_s": 0.25, "by": "hand"}
    answer = ask(
        words=[fixed, before["words"][1]],
        config={**before["config"], "edges": "occupancy", "model": "x"},
    )
    assert (answer.status, answer.headers["content-type"]) == (200, "application/json")
    assert [(word["end_s"], word["confidence"]) for word in answer.json["words"]] == [
        (0.25, 0.9),
        (1.0, 0.5),
    ]
    assert (answer.json["audio"], answer.json["config"]["edges"]) == ("talk.wav", "occupancy")
    assert server.ask("GET", f"{there}/alignment").json == before
    assert server.ask("GET", f"{there}/audio").status == 200
    for changes, said in (
        ({"model": "other"}, "start it with --model other"),
        ({"offset_s": 1.0}, "another part of the recording"),
        ({"utterance": "x"}, "another utterance"),
    ):
        refused = ask(**changes)
        assert (refused.status, said in refused.json["error"]) == (409, True), refused.json
    assert server.ask("GET", "/health").json["queue"]["free"] == 100
    server.ask("DELETE", there)


def test_what_browsers_play_by_another_clock_is_coded_anew(server: LocalServer) -> None:
    file = io.BytesIO()
    soundfile.write(file, np.random.default_rng(0).normal(0, 0.1, 16000), 16000, format="MP3")
    there = server.done_job([("audio", "a.mp3", file.getvalue()), ("text", None, b"one two")])
    sound = server.ask("GET", f"{there}/audio")
    assert (sound.headers["content-type"], sound.body[:4], b"OpusHead" in sound.body) == (
        "audio/ogg",
        b"OggS",
        True,
    )
    assert server.ask("GET", f"{there}/audio", headers={"Range": "bytes=0-3"}).body == b"OggS"
    page = server.ask("GET", f"{there}/page").body.decode()
    data = json.loads(re.search('id="page-data">(.*?)</script>', page)[1])  # type: ignore[index]
    assert data["audio"] == {"href": f"{there}/audio", "mime": "audio/ogg", "start_s": 0.0}
    assert (data["save_href"], data["home_href"], data["peaks"]["per_s"]) == (
        f"{there}/alignment",
        "/",
        100,
    )
    assert len(server.uploads()) == 2
    assert server.ask("DELETE", there).status == 200
    assert server.uploads() == []


TEXT, TALK = ("text", None, b"hello"), ("audio", "a.wav", wav())
PLAYLIST = b"#EXTM3U\n#EXTINF:1,\nfile:///etc/passwd\n"
BAD: dict[str, tuple[int, str, Parts]] = {
    "no audio": (400, "audio: expected a recording", [TEXT]),
    "no text": (400, "text: expected a transcript", [("audio", "a.wav", wav())]),
    "empty text": (422, "transcript is empty", pair(" \n")),
    "nothing spoken": (422, "talk", pair("— ?")),
    "two transcripts": (400, "given twice", [*pair("a"), ("transcript", "t.txt", b"a")]),
    "audio as a field": (400, "expected a file", [("audio", None, b"x"), TEXT]),
    "two recordings": (400, "expected one file", [*pair("a"), ("audio", "b.wav", wav())]),
    "unknown part": (400, "'speed': no such part", [*pair("a"), ("speed", None, b"2")]),
    "a file's path as a setting": (
        400,
        "no such part",
        [*pair("a"), ("calibration", None, b"/etc/passwd")],
    ),
    "wrong value": (400, "match: expected 'auto'", [*pair("a"), ("match", None, b"x")]),
    "wrong number": (
        400,
        "max_line: expected a whole number",
        [*pair("a"), ("max_line", None, b"x")],
    ),
    "neither true nor false": (
        400,
        "highlight_words: expected true",
        [*pair("a"), ("highlight_words", None, b"x")],
    ),
    "wrong language": (
        422,
        "language klingon!: expected",
        [*pair("a"), ("language", None, b"klingon!")],
    ),
    "wrong format": (400, "format: expected one of json", [*pair("a"), ("format", None, b"exe")]),
    "another model": (422, "this server has spread", [*pair("a"), ("model", None, b"/etc/passwd")]),
    "no sound": (422, "a.wav: expected audio", [("audio", "a.wav", b"no sound at all"), TEXT]),
    "a playlist": (422, "a.wav: expected audio", [("audio", "a.wav", PLAYLIST), TEXT]),
    "silence": (422, "talk.wav", [("audio", "talk.wav", wav()[:44] + bytes(32000)), TEXT]),
    "a PDF as transcript": (
        422,
        "t.txt: expected a transcript",
        [TALK, ("transcript", "t.txt", b"%PDF-1.7 x")],
    ),
    "too long": (413, "at most 100 s", pair("a", 101.0)),
    "too large": (413, "at most 5 MB", [("audio", "a.wav", bytes(6_000_000)), TEXT]),
    "too much text": (413, "at most 2000 characters", pair("a " * 1001)),
    "far too much text": (413, "at most 2000 characters", pair("a " * 10_000)),
    "a long name": (
        400,
        "utterance: expected at most 1000 characters",
        [*pair("a"), ("utterance", None, b"x" * 5000)],
    ),
    "not UTF-8": (
        400,
        "expected UTF-8",
        [("audio", "a.wav", wav()), ("text", None, b"\xff\xfe\xfa")],
    ),
    "a fault of the server": (500, "the server failed", pair("boom")),
}


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
@pytest.mark.parametrize("case", BAD)
def test_bad_requests_say_what_is_wrong_and_leave_nothing(server: LocalServer, case: str) -> None:
    status, said, parts = BAD[case]
    answer = server.post("/align", parts)
    assert answer.status == status, answer.body
    assert said in answer.json["error"]
    assert "\n" not in answer.json["error"]
    assert not re.search(r"/tmp|/secret|Traceback|ctc-align-serve-", answer.body.decode())
    assert server.uploads() == []
    assert server.ask("GET", "/health").json["queue"]["free"] == 100


@pytest.mark.parametrize(
    ("body", "kind", "status"),
    [
        (b"{}", "application/json", 415),
        (b"", "multipart/form-data", 415),
        (b"garbage", "multipart/form-data; boundary=edge", 400),
        (form(pair("a"))[1][:-20], "multipart/form-data; boundary=edge", 400),
    ],
)
def test_broken_bodies(server: LocalServer, body: bytes, kind: str, status: int) -> None:
    assert server.ask("POST", "/align", body, {"Content-Type": kind}).status == status
    assert server.uploads() == []


def test_every_address_is_described_and_the_description_is_shown(server: LocalServer) -> None:
    description = server.ask("GET", "/openapi.json").json
    routes = server.server.application(Address()).app.routes  # type: ignore[attr-defined]
    there = {
        (re.sub(":path", "", route.path), method)
        for route in routes
        for method in route.methods - {"HEAD"}
    }
    told = {
        (path, method.upper()) for path, ways in description["paths"].items() for method in ways
    }
    assert there == {(path, method) for path, method in told if method != "PARAMETERS"}
    page = server.ask("GET", "/docs")
    assert b"POST /align" in page.body
    assert "script-src 'none'" in page.headers["content-security-policy"]
    assert not re.search(rb"(?:src|href)=.https?:", page.body)


def test_what_waits_goes_through_together_and_each_gets_its_own(server: LocalServer) -> None:
    server.aligner.gate.clear()
    server.aligner.batches.clear()
    with ThreadPoolExecutor(12) as pool:
        first = pool.submit(server.post, "/align", pair("word first"))
        until(lambda: server.aligner.batches == [1])
        others = [
            pool.submit(server.post, "/align", pair(f"word number{i}", 0.5 + i / 10))
            for i in range(10)
        ]
        loose = pool.submit(server.post, "/align", [*pair("word loose"), ("match", None, b"loose")])
        until(lambda: server.ask("GET", "/health").json["queue"]["waiting"] == 11)
        server.aligner.gate.set()
        assert words(first.result().json) == ["word", "first"]
        for i, answer in enumerate(others):
            assert words(answer.result().json) == ["word", f"number{i}"]
            assert answer.result().json["duration_s"] == 0.5 + i / 10
        assert words(loose.result().json) == ["word", "loose"]
    assert sorted(server.aligner.batches) == [1, 1, 10]


def test_a_long_text_is_split_by_the_settings_of_each_request() -> None:
    from ctc_align.alignment.aligner import Aligner

    worker = ModelWorker(Aligner(None), JobQueue(ServerLimits()))
    text = "7 " * 11_000
    for language, spoken in (("en", "seven"), ("deu", "sieben"), ("en", "seven")):
        aligner = worker._aligner_for(Settings(language=language))
        assert split_transcript(aligner, text, "book").words[0].spoken == spoken


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
def test_one_that_fails_fails_alone(server: LocalServer) -> None:
    server.aligner.gate.clear()
    with ThreadPoolExecutor(4) as pool:
        first = pool.submit(server.post, "/align", pair("first"))
        until(lambda: server.ask("GET", "/health").json["queue"]["running"] == 1)
        texts = ("fine", "— !", "boom")
        others = [pool.submit(server.post, "/align", pair(text)) for text in texts]
        until(lambda: server.ask("GET", "/health").json["queue"]["waiting"] == 3)
        server.aligner.gate.set()
        assert first.result().status == 200
        assert [answer.result().status for answer in others] == [200, 422, 500]


def test_a_full_queue_says_when_to_come_again_and_a_place_is_told() -> None:
    with local_server(places=2) as server:
        server.aligner.gate.clear()
        first = server.post("/jobs", pair("a")).json["id"]
        until(lambda: server.ask("GET", f"/jobs/{first}").json["step"] == "aligning")
        second = server.post("/jobs", pair("a")).json["id"]
        assert server.ask("GET", f"/jobs/{second}").json["place"] == 1
        full = server.post("/align", pair("a"))
        assert (full.status, full.headers["retry-after"]) == (503, "5")
        assert server.ask("DELETE", f"/jobs/{second}").json["state"] == "cancelled"
        assert server.ask("DELETE", f"/jobs/{first}").status == 200
        until(lambda: server.ask("GET", "/health").json["queue"]["free"] == 2)
        assert server.uploads() == []
        server.aligner.gate.set()
        assert server.post("/align", pair("a")).status == 200


@pytest.mark.parametrize("path", ["/align", "/score"])
def test_a_client_that_goes_away_cancels(path: str) -> None:
    with local_server() as server:
        server.aligner.gate.clear()
        kind, body = form(pair("a"))
        for waits in (0, 1):  # one is worked on, one waits
            connection = server.connection()
            connection.request("POST", path, body, {"Content-Type": kind})
            until(lambda waits=waits: server.server.queue.counts()["waiting"] == waits)
            until(lambda: server.server.queue.counts()["running"] == 1)
            if waits:
                connection.close()
            else:
                running = connection
        until(lambda: server.server.queue.counts()["waiting"] == 0)
        running.close()
        until(lambda: server.server.queue.counts()["free"] == 100)
        until(lambda: server.uploads() == [])
        assert server.aligner.batches == [1]


def test_work_that_takes_too_long_is_stopped_and_an_upload_too() -> None:
    with local_server(work_s=0.3) as server:
        server.aligner.gate.clear()
        answer = server.post("/align", pair("a"))
        assert (answer.status, "took more than 0.3 s" in answer.json["error"]) == (503, True)
        server.aligner.gate.set()
        job = server.done_job(pair("a"))
        for method, path in (("POST", "/align"), ("PUT", f"{job}/alignment")):
            connection = server.connection()
            connection.putrequest(method, path)
            connection.putheader("Content-Type", "multipart/form-data; boundary=edge")
            connection.putheader("Content-Length", "1000")
            connection.endheaders(b"--edge\r\n")
            assert connection.getresponse().status == 408
            connection.close()


@pytest.mark.parametrize(
    ("name", "made"), [("a.flac", endless_flac(900)), ("a.mkv", restarting_matroska(5))]
)
def test_reading_ends_at_the_limit_no_matter_what_a_header_says(
    name: str, made: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    with local_server(audio_s=60.0) as server:
        checks: list[float] = []
        queue, check = server.server.queue, server.server.queue.check
        monkeypatch.setattr(queue, "check", lambda job: (checks.append(job.length_s), check(job)))
        answer = server.post("/align", [("audio", name, made), ("text", None, b"a")])
        assert (answer.status, "at most 60 s of audio, got more" in answer.json["error"]) == (
            413,
            True,
        )
        assert 5 < len(checks) < 20
        assert server.uploads() == []
        assert server.post("/align", pair("a")).status == 200
        assert server.aligner.batches == [1]


def test_the_end_of_the_server_ends_what_waits() -> None:
    with local_server() as server, ThreadPoolExecutor(2) as pool:
        server.aligner.gate.clear()
        server.aligner.deaf = True
        waiting = [pool.submit(server.post, "/align", pair("a"))]
        until(lambda: server.server.queue.counts()["running"] == 1)
        waiting.append(pool.submit(server.post, "/align", pair("a")))
        until(lambda: server.server.queue.counts()["waiting"] == 1)
        place = server.server.uploads.path
        server.server.end()
        assert [answer.result(5).status for answer in waiting] == [503, 503]
        server.aligner.gate.set()
    assert not place.exists()
    assert not server.server.worker.is_alive()


DEMO = Path(__file__).resolve().parents[2] / "ctc_align" / "demo"
CLIENTS = 50
MOST_GROWTH_MB = 500


def request_of(client: int) -> Parts:
    """Return a recording and a text that no other client has."""
    samples, rate = soundfile.read(DEMO / "demo.flac", dtype="float32")
    file = io.BytesIO()
    soundfile.write(file, samples[: len(samples) - client * rate // 20], rate, format="FLAC")
    text = f"Client {client}: " + (DEMO / "demo.txt").read_text("utf-8")
    return [("audio", f"client{client}.flac", file.getvalue()), ("text", None, text.encode())]


@pytest.mark.long
def test_fifty_clients_at_once_get_what_each_would_get_alone(tmp_path: Path) -> None:
    resource = pytest.importorskip("resource")
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
    assert [answer.json["text"].split(":")[0] for answer in answers] == [
        f"Client {i}" for i in range(CLIENTS)
    ]
    assert counts["largest_batch"] > 5
    assert counts["batches"] < CLIENTS / 2
    assert grown_mb < MOST_GROWTH_MB
    alone = Aligner()
    for client in range(0, CLIENTS, 10):
        path = tmp_path / f"client{client}.flac"
        path.write_bytes(requests[client][0][2])
        expected = alone.align(path, requests[client][1][2].decode()).to_dict()
        assert {**answers[client].json, "audio": ""} == {**expected, "audio": ""}


def test_a_slow_body_gives_its_place_back_long_before_the_limit(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("ctc_align.serve.uploads.SLOW_S", 0.5)
    with local_server(places=2) as server:
        slow = [server.connection() for _ in range(2)]
        for connection in slow:
            connection.putrequest("POST", "/align")
            connection.putheader("Content-Type", "multipart/form-data; boundary=edge")
            connection.putheader("Content-Length", "100000")
            connection.endheaders(b"--edge\r\n")
        for connection in slow:
            answer = connection.getresponse()
            assert (answer.status, b"at least 4 kB" in answer.read()) == (408, True)
            connection.close()
        until(lambda: server.ask("GET", "/health").json["queue"]["free"] == 2)
        assert server.uploads() == []
        assert server.post("/align", pair("a")).status == 200


@pytest.mark.parametrize(
    ("number", "status", "says"),
    [
        (errno.ENOSPC, 507, "disk is full"),
        (errno.EROFS, 503, "read-only"),
        (errno.EACCES, 503, "read-only or another user's"),
        (errno.ENAMETOOLONG, 422, "too long"),
    ],
)
def test_what_the_system_says_of_files_is_told_with_its_cause(
    server: LocalServer, monkeypatch: pytest.MonkeyPatch, number: int, status: int, says: str
) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr("ctc_align.serve.uploads.UploadFolder.charge", refuse)
    answer = server.post("/align", pair("a"))
    assert (answer.status, says in answer.json["error"]) == (status, True)
    monkeypatch.undo()
    assert server.uploads() == []


def test_transcripts_may_name_their_encoding(server: LocalServer) -> None:
    turkish = "Bugün hava güzel, akşam görüşürüz."
    parts = [part for part in pair("x") if part[0] != "text"]
    for encoding, status in (("cp1254", 200), ("", 422), ("klingon", 400)):
        file = ("transcript", "t.txt", turkish.encode("cp1254"))
        named = [("encoding", None, encoding.encode())] if encoding else []
        answer = server.post("/align", [*parts, file, *named])
        assert answer.status == status, answer.json
    assert "--encoding" in answer.json["error"]


def test_a_job_that_is_removed_while_it_is_kept_is_not_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with local_server(folder=tmp_path) as server:
        job = server.done_job(pair("a"))
        keep = AlignmentFolder.keep

        def late(self, alignment, recording, filename):
            assert server.ask("DELETE", job).status == 200
            return keep(self, alignment, recording, filename)

        monkeypatch.setattr(AlignmentFolder, "keep", late)
        answer = server.ask("POST", f"{job}/keep")
        assert (answer.status, answer.json["error"]) == (404, "this job was removed")
        assert list(tmp_path.iterdir()) == []


def test_recordings_with_names_at_the_limit_of_the_file_system_are_corrected(
    tmp_path: Path,
) -> None:
    name = "n" * 250
    with local_server(folder=tmp_path) as server:
        job = server.done_job(pair("a", name=f"{name}.wav"))
        answer = server.ask("POST", f"{job}/keep")
        assert answer.status == 201, answer.json
        assert len(answer.json["id"]) <= 200
        (tmp_path / f"{name}.json").write_bytes(next(tmp_path.glob("n*.json")).read_bytes())
        data = server.ask("GET", f"/api/alignments/{name}").json
        data["words"][0] |= {"by": "hand", "end_s": data["words"][0]["end_s"] - 0.01}
        body = json.dumps(data).encode()
        answer = server.ask(
            "PUT", f"/api/alignments/{name}", body, {"Content-Type": "application/json"}
        )
        assert answer.status == 200, answer
        (before,) = tmp_path.glob("*.before.json")
        assert original_of(before) == tmp_path / f"{name}.json"
        shown = server.ask("GET", "/api/alignments").json
        assert len(shown["alignments"]) == 2
        assert shown["left_out"]["before"] == 1
