"""The folder of a server: what is saved can be read again, no version is overwritten unseen, nothing is left out."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

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
        ({"format": "ctc-align/2"}, """expected an alignment of format "ctc-align/1", got 'ctc-align/2'"""),
        ({"format": None}, "got other JSON"),
        ({"words": []}, "expected each word of `text` in `words`, got none for 'onetwo'"),
        ({"words": [two]}, "got none for 'one'"),
        ({"words": [one, {**two, "end_s": 7.0}]}, "leaves the recording"),
        ({"subtitles": {"format": "eaf", "header": "", "cues": [], "after": "", "document": "<"}}, "subtitles"),
    ):
        for path, whole in (("/api/alignments/talk", data), (f"{job}/alignment", of_job)):
            refused = server.ask("PUT", path, json.dumps({**whole, **changes}).encode())
            assert (refused.status, said in refused.json["error"]) == (422, True), (path, refused.json)
    assert (folder / "talk.json").read_bytes() == before
    assert server.ask("GET", f"{job}/alignment").json == of_job
    late = {"later": "x" * 5000, **{key: data[key] for key in reversed(data)}}
    assert server.ask("PUT", "/api/alignments/talk", json.dumps(late).encode()).status == 200
    assert [row["id"] for row in server.ask("GET", "/api/alignments").json["alignments"]] == ["talk"]
    (folder / "talk.json").write_bytes(before)
