"""Who may ask what: names, other sites, tokens, the address that is listened on, and what may be
read and written."""

from __future__ import annotations

import base64
import hashlib
import json
import os
import re
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
from local_server import LocalServer, form, local_server, pair, until, wav

from ctc_align.errors import UsageError
from ctc_align.files import from_dict
from ctc_align.serve import access, alignment_folder, uploads
from ctc_align.serve.access import check_token, read_user_token
from ctc_align.serve.alignment_folder import AlignmentFolder
from ctc_align.serve.server import Address, AlignServer
from ctc_align.text.characters import printable

ROOT = Path(__file__).resolve().parents[2]
TOKEN = "a-token-of-enough-characters"
SECRET = "secret of another folder"


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with alignments, its recordings, and around it what nobody may reach."""
    around = tmp_path_factory.mktemp("around")
    folder = around / "folder"
    (folder / "book").mkdir(parents=True)
    with local_server() as server:
        data = server.post("/align", pair("one two", name="talk.wav")).json
    for name, changes in {
        "good": {"fit": "good"},
        "book/chapter 1": {"fit": "poor", "loss_per_token": 3.0},
        "book/chapter ü": {"fit": "poor", "loss_per_token": 4.0},
    }.items():
        (folder / f"{name}.json").write_text(json.dumps({**data, **changes}))
    (folder / "talk.wav").write_bytes(wav())
    (folder / "other.json").write_text("{}")
    (folder / ".ctc-align-parts").mkdir()
    for name in (".hidden.json", ".ctc-align-parts/hidden.json"):
        (folder / name).write_text(json.dumps(data))
    (around / "outside.json").write_text(json.dumps({**data, "text": SECRET}))
    (around / "outside.wav").write_bytes(wav())
    (folder / "link.json").symlink_to(around / "outside.json")
    (folder / "away").symlink_to(around)
    (folder / "stolen.json").write_text(json.dumps({**data, "audio": "../outside.wav"}))
    (folder / "leak.json").write_text(json.dumps({**data, "audio": "other.json"}))
    return folder


@pytest.fixture(scope="module")
def server(place: Path) -> Iterator[LocalServer]:
    with local_server(place) as running:
        yield running


def test_a_folder_is_listed_worst_first(server: LocalServer) -> None:
    rows = server.ask("GET", "/api/alignments").json["alignments"]
    ids = ["book/chapter ü", "book/chapter 1", "good", ".hidden", "leak", "stolen"]
    assert [row["id"] for row in rows if not row["error"]] == ids
    assert (rows[1]["fit"], rows[1]["confidence"], rows[1]["words"]) == ("poor", 0.9, 2)
    assert (rows[0]["id"], rows[0]["error"]) == (
        "link",
        "is a link that leads out of the folder, or nowhere",
    )
    assert (
        server.ask("GET", "/api/alignments/book/chapter%20%C3%BC?format=ctm").body.count(b"\n") >= 2
    )


@pytest.mark.parametrize(
    "name",
    [
        *(
            "../outside",
            "%2e%2e/outside",
            "..%2foutside",
            "book/../../outside",
            "away/outside",
            "link",
            "C:outside",
        ),
        *(
            "%2Fetc%2Fpasswd",
            "/etc/passwd",
            "..%5coutside",
            "C:%5coutside",
            "%252e%252e/outside",
            "good%00",
        ),
        *(".ctc-align-parts/hidden", "other", "good.json", "a" * 5000, "%ff%fe"),
    ],
)
def test_no_name_leads_out_of_the_folder(server: LocalServer, place: Path, name: str) -> None:
    outside = (place.parent / "outside.json").read_bytes()
    bodies = {"PUT": outside, "PATCH": b'{"checked": true}'}
    for method, path in (
        *(("GET", "api/alignments"), ("GET", "api/audio"), ("GET", "view")),
        *(("PUT", "api/alignments"), ("PATCH", "api/alignments")),
    ):
        answer = server.ask(method, f"/{path}/{name}", bodies.get(method))
        assert answer.status in (404, 422), (path, answer.body)
        assert SECRET.encode() not in answer.body
        assert str(place.parent).encode() not in answer.body
    assert (place.parent / "outside.json").read_bytes() == outside


def test_recordings_come_from_the_folder_alone(server: LocalServer) -> None:
    assert server.ask("GET", "/api/audio/book/chapter%201").body == wav()
    assert server.ask("GET", "/api/audio/stolen").status == 404
    for name in ("stolen", "leak"):
        page = server.ask("GET", f"/api/alignments/{name}?format=html")
        assert page.status in (404, 422), page.body[:200]
    leak = server.ask("GET", "/api/audio/leak")
    assert (leak.status, b"other.json: expected audio" in leak.body) == (422, True)


def test_corrections_of_the_folder_are_aligned_again(server: LocalServer, place: Path) -> None:
    data = (place / "book" / "chapter 1.json").read_bytes()
    again = server.ask("POST", "/api/realign/book/chapter%201", data)
    assert (again.status, again.json["loss"], again.json["audio"]) == (
        200,
        2.0,
        json.loads(data)["audio"],
    )
    assert (place / "book" / "chapter 1.json").read_bytes() == data
    assert server.ask("GET", "/api/audio/book/chapter%201").body == wav()
    assert server.ask("POST", "/api/realign/stolen", data).status == 404
    assert '"realign_href": null' in server.ask("GET", "/view/stolen").body.decode()
    assert (
        '"realign_href": "/api/realign/book/chapter%201"'
        in server.ask("GET", "/view/book/chapter%201").body.decode()
    )


def test_saving_keeps_what_was_there_first(server: LocalServer, place: Path) -> None:
    first = (place / "good.json").read_bytes()
    data = json.loads(first)
    for end_s in (0.25, 0.3):
        data["words"][0]["end_s"] = end_s
        assert server.ask("PUT", "/api/alignments/good", json.dumps(data).encode()).status == 200
        assert json.loads((place / "good.json").read_bytes()) == data
    assert (place / "good.before.json").read_bytes() == first
    assert "good.before" not in server.ask("GET", "/api/alignments").body.decode()
    (place / "good.before.json").write_bytes(
        first.replace(b'"utterance": "', b'"utterance": "another ')
    )
    data["words"][0]["end_s"] = 0.35
    assert server.ask("PUT", "/api/alignments/good", json.dumps(data).encode()).status == 200
    assert json.loads((place / "good.before-2.json").read_bytes())["words"][0]["end_s"] == 0.3
    listed = [row["id"] for row in server.ask("GET", "/api/alignments").json["alignments"]]
    assert ("good.before" in listed, "good.before-2" in listed) == (True, False)
    for kept in place.glob("good.before*.json"):
        kept.unlink()
    saved = (place / "good.json").read_bytes()
    endless = json.dumps({**data, "other": 7777}).replace("7777", "1e999").encode()
    for broken in (
        b"{}",
        b"no",
        b"[1]",
        json.dumps({**data, "words": [{}]}).encode(),
        b'{"loss": NaN}',
        endless,
    ):
        assert server.ask("PUT", "/api/alignments/good", broken).status in (400, 422)
    channel = {"config": {**data["config"], "channel": "left"}}
    for other in ({"utterance": "other"}, {"offset_s": 0.5}, {"duration_s": 1.1}, channel):
        assert (
            server.ask("PUT", "/api/alignments/good", json.dumps({**data, **other}).encode()).status
            == 409
        ), other
    assert (place / "good.json").read_bytes() == saved
    assert list(place.rglob("*.part")) == []


@pytest.mark.parametrize(("name", "status"), [("good", 413), ("no such name", 404)])
def test_a_correction_is_refused_by_its_name_and_size_before_it_is_read(
    server: LocalServer, name: str, status: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    for path in (f"/api/alignments/{quote(name)}", f"/api/realign/{quote(name)}"):
        connection = server.connection()
        connection.putrequest("PUT" if "alignments" in path else "POST", path)
        connection.putheader("Content-Length", "45000000")
        connection.endheaders(b"[{}, {}")
        answer = connection.getresponse()
        assert (answer.status, bool(json.loads(answer.read())["error"])) == (status, True)
        connection.close()
    monkeypatch.setattr(uploads, "MOST_PARSED", 2**16)
    dense = b"[" + b"{}, " * 1000 + b"{}]"  # objects take many times their bytes in memory
    assert server.ask("PUT", f"/api/alignments/{quote(name)}", dense).status == status
    assert (
        server.post("/align", [("audio", "a.wav", wav()), ("transcript", "t.json", dense)]).status
        == 413
    )
    assert server.uploads() == []


def test_words_are_mended_and_recordings_signed_off(server: LocalServer, place: Path) -> None:
    def change(path: str, changes: object) -> int:
        return server.ask("PATCH", path, json.dumps(changes).encode()).status

    original = (place / "good.json").read_bytes()
    data = json.loads(original)
    data["words"][0] |= {"confidence": 0.2, "doubtful": True, "note": "half a pair: \ud800"}
    (place / "good.json").write_text(json.dumps({**data, "later": 1}))
    there = server.done_job(pair("a b"))
    [doubt] = [
        word
        for word in server.ask("GET", "/api/words").json["words"]
        if word.get("folder") == "good"
    ]
    assert (doubt["word"], doubt["index"], doubt["room_s"][0]) == (data["words"][0], 0, 0.0)
    right = {key: value for key, value in doubt["word"].items() if key != "doubtful"} | {
        "by": "hand"
    }
    word = {"index": 0, "was": doubt["word"], "is": right}
    for wrong, status in (
        ({"words": 1}, 400),
        ({"words": [{**word, "more": 1}]}, 400),
        ({"checked": 1}, 400),
        ({"text": "other"}, 400),
        ({"words": [{**word, "is": {**right, "text": "else"}}]}, 400),
        ({"words": [{**word, "is": {**right, "end_s": 77.0}}]}, 422),
        ({"words": [{**word, "index": True}]}, 409),
        ({"words": [{**word, "index": 10**30}]}, 409),
        ({"checked": True, "more": "x" * 2**21}, 413),
    ):
        assert change("/api/alignments/good", wrong) == status, wrong
    assert [
        change("/api/alignments/good", same) for same in ({"checked": True}, {}, {"checked": False})
    ] == [200] * 3
    assert not (place / "good.before.json").exists(), "a sign-off changes no word"
    assert change("/api/alignments/good", {"words": [word]}) == 200
    assert change("/api/alignments/good", {"words": [word]}) == 409, "another tab was first"
    for path in ("/api/alignments/good", f"{there}/alignment"):
        for checked in (True, False, True):
            assert change(path, {"checked": checked}) == 200
            assert server.ask("GET", path).json.get("checked", False) is checked
    saved = json.loads((place / "good.json").read_bytes())
    assert saved == {**data, "words": [right, *data["words"][1:]], "later": 1, "checked": True}
    [row] = [
        row
        for row in server.ask("GET", "/api/alignments").json["alignments"]
        if row["id"] == "good"
    ]
    assert (row["checked"], row["to_check"], row["by_hand"]) == (True, 0, 1)
    assert server.ask("GET", there).json["checked"] is True
    for path in ("/api/alignments/good", f"{there}/alignment"):
        answer = server.ask("GET", path)
        tag = {"If-Match": answer.headers["etag"]}
        after = server.ask("PUT", path, answer.body, tag)
        assert (after.status, server.ask("PUT", path, answer.body, tag).status) == (
            200,
            412,
        ), "another tab has saved"
        assert (
            server.ask("PUT", path, answer.body, {"If-Match": f"W/{after.headers['etag']}"}).status
            == 200
        )
    assert server.ask("DELETE", there).status == 200
    (place / "good.json").write_bytes(original)
    (place / "good.before.json").unlink()


def test_names_are_paired_as_in_a_corpus(server: LocalServer) -> None:
    of_a = ["a/x.wav", "a/x.lab", "a/x.srt", "a/y.mp4", "a/y.eaf", "a/._y.eaf"]
    names = [*of_a, "b/x.wav", "b/z.txt", "b/w.flac", "b/w.mp3", "b/.w.txt", "c/\ud800.wav"]
    found = server.ask("POST", "/api/pairs", json.dumps({"names": names}).encode()).json
    pairs = [("a/x.wav", "a/x.lab"), ("a/y.mp4", "a/y.eaf")]
    assert [(pair["audio"], pair["transcript"]) for pair in found["pairs"]] == pairs
    said = {one["file"]: one["reason"] for one in found["alone"]}
    assert not said.keys() & {"a/._y.eaf", "b/.w.txt"}
    assert said["b/z.txt"] == "no recording: add z.wav (or in another format), or rename one"
    assert said["c/\ud800.wav"].startswith("no transcript"), (
        "as browsers tell of a name that is not Unicode"
    )
    assert said["b/w.mp3"] == "w.flac has the same name: rename one of them"
    assert (
        said["b/x.wav"]
        == "no transcript: add x.txt, .lab, .srt, .vtt, .TextGrid, .eaf or .epub, or type it"
    )
    for wrong in ({"names": "x"}, {"names": [1]}, {}):
        assert server.ask("POST", "/api/pairs", json.dumps(wrong).encode()).status == 400


def test_a_job_is_kept_over_nothing_that_is_there(server: LocalServer, place: Path) -> None:
    before = (place / "talk.wav").read_bytes()
    there = server.done_job([*pair("a b"), ("utterance", None, b"../talk")])
    kept = [server.ask("POST", f"{there}/keep").json["id"] for _ in range(2)]
    assert kept == ["_talk", "_talk-2"]
    plain = server.done_job(pair("a b"))
    assert server.ask("POST", f"{plain}/keep").json == {"id": "talk-2"}
    assert (place / "talk.wav").read_bytes() == before
    assert server.ask("GET", "/api/audio/_talk-2").body == wav()
    assert [server.ask("DELETE", job).status for job in (there, plain)] == [200, 200]
    for name in (*kept, "talk-2"):
        for path in (place / f"{name}.json", place / f"{name}.wav"):
            path.unlink()


def test_kept_files_have_names_that_fit_and_never_that_of_the_alignment(
    server: LocalServer, place: Path
) -> None:
    for filename, kept in {
        "rec.json": "rec",
        "run.sh": "run",
        "9.41\u202fAM\u3000\u200d.wav": "9.41\u202fAM\u3000\u200d",
        "あ" * 150 + ".wav": "あ" * 66,
    }.items():
        there = server.done_job(pair("a b", name=filename))
        answer = server.ask("POST", f"{there}/keep")
        assert (answer.status, answer.json) == (201, {"id": kept})
        assert server.ask("DELETE", there).status == 200
        assert kept in [
            row["id"] for row in server.ask("GET", "/api/alignments").json["alignments"]
        ]
        suffix = ".wav" if filename.endswith(".wav") else ".audio"
        assert (place / f"{kept}{suffix}").read_bytes() == wav()
        assert (
            server.ask("GET", f"/api/alignments/{quote(kept)}").json["audio"] == f"{kept}{suffix}"
        )
        for path in place.glob(f"{kept}.*"):
            path.unlink()
    assert "run.sh" not in os.listdir(place)


def test_the_recording_is_that_of_the_longest_path_and_of_the_length(
    place: Path, tmp_path: Path
) -> None:
    root, other = tmp_path / "root", tmp_path / "other"
    made = from_dict(json.loads((place / "good.json").read_bytes()))
    (root / "spk1").mkdir(parents=True)
    (root / "spk1" / "a.json").write_bytes((place / "good.json").read_bytes())
    for path in (root / "a.wav", other / "spk1/a.wav", other / "a.wav"):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(wav())
    folder = AlignmentFolder(root, other)
    for named in ("spk1/a.wav", "elsewhere/a.wav"):
        assert folder.audio("spk1/a", replace(made, audio=named)) == other / "spk1/a.wav"
    assert folder.audio("spk1/a", replace(made, audio="/" * 5000 + "a.wav")) is None
    assert folder.audio("spk1/a", replace(made, audio="a.wav", duration_s=2.0)) is None
    (root / "a.wav").write_bytes(wav(3.0))
    assert (
        folder.audio("spk1/a", replace(made, audio="a.wav", offset_s=1.0, duration_s=2.0))
        == root / "a.wav"
    )


def test_a_bad_file_does_not_end_the_list(server: LocalServer, place: Path) -> None:
    data = json.loads((place / "good.json").read_bytes())
    word, region = data["words"][0], {"kind": "unexplained", "start_s": 7777, "end_s": 1.5}
    for changes in (
        {"duration_s": 7777, "words": [{**word, "confidence": 7777}], "regions": [region]},
        {"text": "\ud800\x1b[2J"},
    ):
        for number in ("1e999", "1" + "0" * 400):
            (place / "bad.json").write_text(json.dumps({**data, **changes}).replace("7777", number))
            answer = server.ask("GET", "/api/alignments")
            assert answer.status == 200
            [row] = [row for row in answer.json["alignments"] if row["id"] == "bad"]
            assert row["text"] == printable(data["text"] if "words" in changes else "\ud800\x1b[2J")
            assert (row["duration_s"], row["confidence"]) == (
                (None, None) if "words" in changes else (1.0, 0.9)
            )
    for channel in ("²", "9" * 5000):
        (place / "bad.json").write_text(
            json.dumps({**data, "config": {**data["config"], "channel": channel}})
        )
        assert server.ask("GET", "/view/bad").status == 200
    (place / "bad.json").unlink()


def test_a_list_that_is_cut_says_so(server: LocalServer, monkeypatch: pytest.MonkeyPatch) -> None:
    answer = server.ask("GET", "/api/alignments").json
    assert (len(answer["alignments"]), answer["truncated"], answer["left_out"]["beyond"]) == (
        7,
        False,
        0,
    )
    for most in (7, 6):
        monkeypatch.setattr(alignment_folder, "MOST_ALIGNMENTS", most)
        answer = server.ask("GET", "/api/alignments").json
        assert (len(answer["alignments"]), answer["truncated"]) == (most, most == 6)
        assert answer["left_out"]["beyond"] == (most == 6)


def test_errors_name_no_path_of_the_server(server: LocalServer, place: Path) -> None:
    leak = server.ask("GET", "/api/alignments/leak?format=html")
    assert (leak.status, leak.json["error"].partition(":")[0]) == (422, "other.json")
    there = server.done_job(pair("a b"))
    data = server.ask("GET", f"{there}/alignment").json
    assert (
        server.ask(
            "PUT", f"{there}/alignment", json.dumps({**data, "offset_s": 100.0}).encode()
        ).status
        == 409
    )
    assert server.ask("PUT", f"{there}/alignment", json.dumps(data).encode()).status == 200
    [upload] = server.uploads()
    upload.write_bytes(b"gone wrong")
    for path in ("page", "alignment?format=html", "audio"):
        answer = server.ask("GET", f"{there}/{path}")
        assert (answer.status, answer.json["error"].partition(":")[0]) == (422, "talk.wav"), path
    assert server.ask("DELETE", there).status == 200


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({"Host": "evil.example"}, 421),
        ({"Host": "evil.example:80"}, 421),
        ({"Host": "localhost.evil.example"}, 421),
        ({"Host": "127.0.0.1@evil.example"}, 400),
        ({"Origin": "http://evil.example"}, 403),
        ({"Origin": "null"}, 403),
        ({"Origin": "http://["}, 403),
        ({"Origin": "http://127.0.0.1:1"}, 403),
        ({"Sec-Fetch-Site": "cross-site"}, 403),
        ({"Sec-Fetch-Site": "same-site"}, 403),
        ({"Host": "localhost:1234"}, 200),
        ({"Host": "[::1]:80"}, 200),
        ({"Sec-Fetch-Site": "same-origin"}, 200),
    ],
)
def test_pages_of_other_sites_change_nothing(
    server: LocalServer, headers: dict[str, str], status: int
) -> None:
    assert server.post("/align", pair("a"), **headers).status == status
    assert server.uploads() == []


def test_headers_and_pages_let_nothing_else_run(server: LocalServer) -> None:
    answer = server.ask("GET", "/")
    policy = answer.headers["content-security-policy"]
    [script] = re.findall(r"<script>(.*?)</script>", answer.body.decode(), re.DOTALL)
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    assert f"script-src 'sha256-{digest}';" in policy
    assert "default-src 'none'" in policy
    for path in ("/", "/models", "/nothing", "/api/audio/good"):
        headers = server.ask("GET", path).headers
        assert (headers["x-content-type-options"], headers["cross-origin-resource-policy"]) == (
            "nosniff",
            "same-origin",
        )
        assert "access-control-allow-origin" not in headers
    assert "server" not in answer.headers


def half_a_request(server: LocalServer) -> socket.socket:
    connection = socket.create_connection(("127.0.0.1", server.port), 10)
    connection.sendall(b"GET /health HTTP/1.1\r\nHost: ")
    return connection


def refusal(connection: socket.socket) -> tuple[bytes, str]:
    head, body = b"".join(iter(lambda: connection.recv(4096), b"")).split(b"\r\n\r\n")
    connection.close()
    return head.split()[1], json.loads(body)["error"]


def test_headers_that_do_not_end_hold_no_place_for_long(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(access, "HEADERS_S", 1.0)
    monkeypatch.setattr(access, "MOST_CONNECTIONS", 4)
    with local_server() as server:
        slow = []
        for _ in range(8):
            slow.append(half_a_request(server))
            assert server.ask("GET", "/health").status == 200
        assert refusal(slow[0]) == (b"503", "too many connections; try again in a second")
        assert refusal(slow[-1]) == (b"408", "the headers of the request did not arrive within 1 s")
        connection = server.connection()
        for _ in range(2):  # a request later than the limit, on a connection that is still open
            connection.request("GET", "/health")
            assert connection.getresponse().read()
            time.sleep(0.7)
        connection.close()
        broken = socket.create_connection(("127.0.0.1", server.port), 10)
        broken.sendall(b"\x16\x03\x01 TLS?\r\n\r\n")
        assert refusal(broken)[0] == b"400"
        for one in slow[1:-1]:
            one.close()


@pytest.mark.parametrize(
    ("method", "path", "allowed"),
    [
        ("DELETE", "/align", "POST"),
        ("POST", "/jobs/1/alignment", "GET, HEAD, PATCH, PUT"),
        ("PUT", "/jobs", "GET, HEAD, POST"),
    ],
)
def test_a_wrong_method_is_told_the_right_ones(
    server: LocalServer, method: str, path: str, allowed: str
) -> None:
    answer = server.ask(method, path)
    assert (answer.status, ", ".join(sorted(answer.headers["allow"].split(", ")))) == (405, allowed)


def test_a_token_is_asked_for_everywhere_but_health() -> None:
    with local_server(token=TOKEN) as server:
        routes = server.server.application(Address()).app.routes
        calls = [(method, route.path) for route in routes for method in route.methods]
        assert len(calls) > 30
        for method, path in [*calls, ("GET", "/nothing"), ("GET", "/health/"), ("PUT", "//health")]:
            if path == "/health":
                assert server.ask(method, path).status == 200
                continue
            there = re.sub("{.*?}", "a", path)
            assert server.ask(method, there).status == 401, (method, path)
            for wrong in ("Bearer " + TOKEN[:-1], TOKEN, f"Basic {TOKEN}", "Bearer ", "Bearer ü"):
                headers = {"Authorization": wrong.encode().decode("latin-1")}
                assert server.ask(method, there, headers=headers).status == 401
        foreign = {"Host": "evil.example", "Authorization": f"Bearer {TOKEN}"}
        assert server.ask("GET", "/models", headers=foreign).status == 421
        assert server.ask("GET", "/?token=wrong").status == 401
        assert server.post("/align", pair("a"), Authorization=f"Bearer {TOKEN}").status == 200
        opened = server.ask("GET", f"//evil.example/?a=1&token={TOKEN}")
        assert (opened.status, opened.headers["location"]) == (303, "/evil.example/?a=1")
        cookie = opened.headers["set-cookie"]
        assert "HttpOnly" in cookie
        assert "SameSite=lax" in cookie
        assert TOKEN not in cookie
        assert server.url == f"http://127.0.0.1:{server.port}/?token={TOKEN}"
        held = {"Cookie": cookie.partition(";")[0]}
        assert server.ask("GET", "/models", headers=held).status == 200
        held["Cookie"] = held["Cookie"].partition("=")[0] + "=" + TOKEN
        assert server.ask("GET", "/models", headers=held).status == 401


@pytest.fixture
def state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of this program in the user's state."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.delenv("CTC_ALIGN_TOKEN", raising=False)
    return tmp_path / "state" / "ctc-align"


def test_a_user_has_one_token_that_nobody_else_can_read(state: Path) -> None:
    old = os.umask(0)
    try:
        with ThreadPoolExecutor(8) as pool:  # starts at the same time
            said = {call.result() for call in [pool.submit(read_user_token) for _ in range(16)]}
    finally:
        os.umask(old)
    [(token, where)] = said
    file = state / "token"
    assert (file.read_text(), where) == (token, f"the token is kept in {file}")
    assert [path.stat().st_mode & 0o777 for path in (file, state)] == [0o600, 0o700]
    check_token(token)
    assert read_user_token() == (token, where)


@pytest.mark.parametrize(
    ("content", "mode", "said"),
    [
        (TOKEN, 0o644, "others may read"),
        (TOKEN, 0o620, "others may write"),
        ("short", 0o600, "has no token"),
    ],
)
def test_a_file_that_holds_no_secret_is_not_used_and_stays(
    state: Path, content: str, mode: int, said: str
) -> None:
    state.mkdir(parents=True, mode=0o700)
    file = state / "token"
    file.write_text(content)
    file.chmod(mode)
    tokens = set()
    for _ in range(2):
        token, line = read_user_token()
        assert line.startswith("the token is for this run only: ")
        assert said in line
        check_token(token)
        tokens.add(token)
    assert len({*tokens, content}) == 3
    assert file.read_text() == content


@pytest.mark.parametrize("variable", ["CTC_ALIGN_TOKEN", ""])
def test_the_printed_address_opens_the_server(
    variable: str, state: Path, cli: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    if variable:
        monkeypatch.setenv(variable, TOKEN)

    def serve_once(server: AlignServer, address: Address, listening: Any) -> None:
        assert address.token
        listening(f"http://127.0.0.1:1/?token={address.token}")

    monkeypatch.setattr(AlignServer, "run", serve_once)
    lines = cli("serve", code=0).stderr.splitlines()
    if variable:
        assert f"/?token={TOKEN} " in lines[0]
        assert not state.exists()
        lines = cli("serve", "--token", TOKEN[::-1], code=0).stderr.splitlines()
        assert f"/?token={TOKEN[::-1]} " in lines[0]
    else:
        assert f"/?token={(state / 'token').read_text()} " in lines[0]
        assert str(state / "token") in lines[1]


def test_no_token_is_for_loopback_alone(
    state: Path, cli: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    addresses: list[Address] = []
    monkeypatch.setattr(AlignServer, "run", lambda _, address, __: addresses.append(address))
    cli("serve", "--no-token", code=0)
    assert [address.token for address in addresses] == [""]
    for host in ("0.0.0.0", "::", "192.168.0.1", "example.org"):
        assert "needs a token" in cli("serve", "--no-token", "--host", host, code=2).error
    assert "a token is given" in cli("serve", "--no-token", "--token", TOKEN, code=2).error
    monkeypatch.setenv("CTC_ALIGN_TOKEN", TOKEN)
    assert "a token is given" in cli("serve", "--no-token", code=2).error
    assert len(addresses) == 1
    assert not state.exists()


@pytest.mark.parametrize(
    ("address", "said"),
    [
        (Address("0.0.0.0"), "needs a token"),
        (Address("::"), "needs a token"),
        (Address("example.org"), "needs a token"),
        (Address("127.0.0.1", 80000), "0 to 65535"),
        (Address("0.0.0.0", 0, "short"), "at least 16 characters"),
    ],
)
def test_addresses_that_are_refused(address: Address, said: str) -> None:
    with pytest.raises(UsageError, match=said):
        address.check()


def test_a_port_that_is_taken_is_a_wrong_call() -> None:
    with (
        socket.create_server(("127.0.0.1", 0)) as taken,
        pytest.raises(UsageError, match="choose another --port"),
    ):
        Address("127.0.0.1", taken.getsockname()[1]).open()


PROGRAM = """
import sys
sys.path.insert(0, sys.argv[1])
import local_server
from ctc_align.serve import server
aligner = local_server.SpreadingAligner()
aligner.gate.clear()
folder = server.AlignmentFolder(sys.argv[2])
server.AlignServer(aligner, server.ServerLimits(), folder).run(
    server.Address(port=0), lambda url: print(url, flush=True))
"""


def started(folder: Path, uploads: Path) -> tuple[subprocess.Popen[str], LocalServer]:
    environment = {**os.environ, "TMPDIR": str(uploads), "PYTHONPATH": str(ROOT)}
    command = [sys.executable, "-c", PROGRAM, str(ROOT / "tests" / "support"), str(folder)]
    process = subprocess.Popen(
        command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    port = int(process.stdout.readline().strip("/\n").rpartition(":")[2])
    return process, LocalServer(None, None, port)  # type: ignore[arg-type]


def listening(pid: int) -> list[str]:
    """Return the addresses (IPv4 in hexadecimal, any of IPv6) on which a process listens, from the
    kernel's tables."""
    fds = Path(f"/proc/{pid}/fd")
    inodes = {os.path.realpath(fds / fd) for fd in os.listdir(fds)}  # one may be closed meanwhile
    found = []
    for table in ("tcp", "tcp6", "udp", "udp6"):
        for line in Path(f"/proc/{pid}/net/{table}").read_text().splitlines()[1:]:
            fields = line.split()
            if f"{fds}/socket:[{fields[9]}]" in inodes and fields[3] in ("0A", "07"):
                found.append(f"{table} {fields[1].partition(':')[0]}")
    return found


@pytest.mark.skipif(sys.platform != "linux", reason="reads the kernel's tables of sockets")
def test_a_killed_server_leaves_nothing_for_long_and_a_stopped_one_nothing(
    place: Path, tmp_path: Path
) -> None:
    uploads = tmp_path / "uploads"
    uploads.mkdir()
    before = {path: path.read_bytes() for path in place.rglob("*.json")}
    first, asked = started(place, uploads)
    try:
        assert listening(first.pid) == ["tcp 0100007F"]
        assert asked.post("/jobs", pair("one")).status == 202
        kind, body = form(pair("two"))
        connection = asked.connection()
        connection.putrequest("POST", "/align")
        connection.putheader("Content-Type", kind)
        connection.putheader("Content-Length", str(len(body)))
        connection.endheaders(body[:5000])
        until(
            lambda: (
                len(
                    [
                        path
                        for path in uploads.rglob("*")
                        if path.is_file() and path.suffix != ".lock"
                    ]
                )
                == 2
            )
        )
        [folder] = [path for path in uploads.iterdir() if path.is_dir()]
        assert folder.stat().st_mode & 0o777 == 0o700
    finally:
        first.kill()
        first.communicate()
    connection.close()
    assert folder.is_dir()
    second, asked = started(place, uploads)
    try:
        assert not folder.exists()
        assert asked.ask("GET", "/health").status == 200
        assert {path: path.read_bytes() for path in place.rglob("*.json")} == before
        assert asked.post("/jobs", pair("one")).status == 202
        second.send_signal(signal.SIGINT)
        began = time.monotonic()
        said = second.communicate(timeout=15)[1]
        assert time.monotonic() - began < 10
    finally:
        second.kill()
        second.communicate()
    assert list(uploads.iterdir()) == [], said
