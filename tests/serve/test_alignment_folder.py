"""The folder of a server: what is saved can be read again, no version is overwritten unseen,
nothing is left out."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import quote

import pytest
from local_server import LocalServer, local_server, pair, wav


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder with one alignment, `talk`, and its recording."""
    with local_server() as server:
        data = server.post("/align", pair("one two", name="talk.wav")).body
    place = tmp_path / "folder"
    place.mkdir()
    (place / "talk.json").write_bytes(data)
    (place / "talk.wav").write_bytes(wav())
    return place


@pytest.fixture
def server(folder: Path) -> Iterator[LocalServer]:
    with local_server(folder) as running:
        yield running


def test_a_change_of_a_version_never_seen_is_refused(server: LocalServer) -> None:
    sign_off = json.dumps({"checked": True}).encode()
    for path in ("/api/alignments/talk", f"{server.done_job(pair('one two'))}/alignment"):
        seen = server.ask("GET", path).headers["etag"]
        changed = server.ask("PATCH", path, sign_off, {"If-Match": f'"other", W/{seen}'})
        assert (changed.status, changed.headers["etag"] != seen) == (200, True)
        data = server.ask("GET", path)
        assert (data.json["checked"], data.headers["etag"]) == (True, changed.headers["etag"])
        take_back = json.dumps({"checked": False}).encode()
        for method, body in (("PATCH", take_back), ("PUT", data.body)):
            assert server.ask(method, path, body, {"If-Match": seen}).status == 412, method
        assert server.ask("GET", path).json["checked"] is True, "nothing was changed"
        assert server.ask("PATCH", path, take_back, {"If-Match": "*"}).status == 200


def test_what_cannot_be_read_again_is_not_saved(server: LocalServer, folder: Path) -> None:
    before = (folder / "talk.json").read_bytes()
    data = json.loads(before)
    [one, two] = data["words"]
    job = server.done_job(pair("one two"))
    of_job = server.ask("GET", f"{job}/alignment").json
    for changes, said in (
        (
            {"format": "ctc-align/2"},
            """expected an alignment of format "ctc-align/1", got 'ctc-align/2'""",
        ),
        ({"format": None}, "got other JSON"),
        ({"words": []}, "expected each word of `text` in `words`, got none for 'onetwo'"),
        ({"words": [two]}, "got none for 'one'"),
        ({"words": [one, {**two, "end_s": 7.0}]}, "leaves the recording"),
        (
            {
                "subtitles": {
                    "format": "eaf",
                    "header": "",
                    "cues": [],
                    "after": "",
                    "document": "<",
                }
            },
            "subtitles",
        ),
    ):
        for path, whole in (("/api/alignments/talk", data), (f"{job}/alignment", of_job)):
            refused = server.ask("PUT", path, json.dumps({**whole, **changes}).encode())
            assert (refused.status, said in refused.json["error"]) == (422, True), (
                path,
                refused.json,
            )
    assert (folder / "talk.json").read_bytes() == before
    assert server.ask("GET", f"{job}/alignment").json == of_job
    late = {"later": "x" * 5000, **{key: data[key] for key in reversed(data)}}
    assert server.ask("PUT", "/api/alignments/talk", json.dumps(late).encode()).status == 200
    assert [row["id"] for row in server.ask("GET", "/api/alignments").json["alignments"]] == [
        "talk"
    ]
    (folder / "talk.json").write_bytes(before)


OPENED = {
    "תל\u200f": "תל\u200f",
    "درس\u061c": "درس\u061c",
    "ltr\u200e": "ltr\u200e",
    "a\u202egpj.exe": "a\\u202egpj.exe",
    ".dot": ".dot",
}
"""Names of alignments that can be opened, and as they are shown."""
REFUSED = {
    "line\nbreak": "such as a line break or a backslash: rename it",
    "back\\slash": "such as a line break or a backslash: rename it",
    "caf\udce9": "such as a line break or a backslash: rename it",
}


@pytest.mark.skipif(os.name == "nt", reason="Windows has no such names")
def test_every_name_of_an_alignment_is_listed_and_shown_without_harm(
    server: LocalServer, folder: Path
) -> None:
    data = (folder / "talk.json").read_bytes()
    for name in (*OPENED, *REFUSED):
        (folder / f"{name}.json").write_bytes(data)
    for name in ("._talk.json", ".DS_Store", ".talk.pfsx"):
        (folder / name).write_bytes(b"\0\5\x16\7of other programs")
    rows = server.ask("GET", "/api/alignments").json["alignments"]
    assert {row["id"]: row["name"] for row in rows if not row["error"]} == {
        "talk": "talk",
        **OPENED,
    }
    refused = {row["name"]: row["error"] for row in rows if row["error"]}
    assert [*refused] == ["back\\slash", "caf\\xe9", "line\\x0abreak"]
    assert all(
        why in refused[shown] for shown, why in zip(sorted(refused), sorted(REFUSED.values()))
    )
    for name, shown in OPENED.items():
        there = f"/api/alignments/{quote(name)}"
        tag = server.ask("GET", there).headers["etag"]
        assert server.ask("PATCH", there, b'{"checked": true}', {"If-Match": tag}).status == 200
        page = server.ask("GET", f"/view/{quote(name)}").body.decode()
        shown_data = re.search('id="page-data">(.*?)</script>', page)
        assert shown_data is not None
        assert json.loads(shown_data[1])["name"] == shown


def test_what_is_damaged_is_listed_with_the_reason_and_the_rest_is_counted(
    server: LocalServer, folder: Path
) -> None:
    data = (folder / "talk.json").read_bytes()
    damaged = {
        "cut": data[:600],
        "empty": b"",
        "zeros": bytes(9000),
        "wordless": data.replace(b'"words"', b'"other"'),
    }
    for name, content in damaged.items():
        (folder / f"{name}.json").write_bytes(content)
    (folder / "dangling.json").symlink_to("nowhere.json")
    (folder / "summary.json").write_text('{"utterances": 3}')
    (folder / "talk.whisper.json").write_text(json.dumps({"segments": ["x" * 5000]}))
    (folder / "talk.before.json").write_bytes(data)
    (folder / ".ctc-align-parts").mkdir()
    answer = server.ask("GET", "/api/alignments").json
    reasons = {row["id"]: row["error"] for row in answer["alignments"] if row["error"]}
    assert reasons.keys() == {*damaged, "dangling"}
    for name, why in (("cut", "not JSON"), ("zeros", "not JSON"), ("wordless", "words is missing")):
        assert why in reasons[name], reasons
    assert str(folder.parent) not in json.dumps(answer)
    assert answer["left_out"] == {"other": 2, "before": 1, "folders": 1, "beyond": 0}
    for name in (*damaged, "talk.before"):
        (folder / f"{name}.json").unlink()


def test_a_folder_that_is_gone_is_an_error_and_is_not_made_again(
    server: LocalServer, folder: Path
) -> None:
    job = server.done_job(pair("one two"))
    away = folder.rename(folder.parent / "away")
    for method, path in (
        ("GET", "/api/alignments"),
        ("GET", "/api/alignments/talk"),
        ("GET", "/api/words"),
        ("POST", f"{job}/keep"),
    ):
        answer = server.ask(method, path)
        assert (answer.status, "folder: the folder of this server" in answer.json["error"]) == (
            503,
            True,
        ), path
    assert not folder.exists()
    away.rename(folder)
    assert [row["id"] for row in server.ask("GET", "/api/alignments").json["alignments"]] == [
        "talk"
    ]


def test_a_kill_never_leaves_an_alignment_without_its_recording(
    server: LocalServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    placed: list[str] = []
    replace = os.replace

    def place(part: Path, target: Path) -> None:
        placed.append(target.suffix)
        replace(part, target)

    job = server.done_job(pair("one two"))
    monkeypatch.setattr(os, "replace", place)
    assert server.ask("POST", f"{job}/keep").status == 201
    assert placed == [".wav", ".json"]


def test_unfinished_files_of_killed_programs_are_removed(server: LocalServer, folder: Path) -> None:
    (folder / "part").mkdir()
    dead, running = (folder / "part" / f".ctc-align.{digit * 16}.part" for digit in "01")
    mine = folder / ".ctc-align.mine.part"
    for path in (dead, running, mine):
        path.write_bytes(b"half")
        os.utime(path, None if path is running else (0, 0))
    [row] = server.ask("GET", "/api/alignments").json["alignments"]
    assert row["id"] == "talk"
    assert [path.exists() for path in (dead, running, mine)] == [False, True, True]
