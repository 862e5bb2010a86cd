"""The app of `ctc-align serve` in a real browser: a recording is dropped and followed, a folder is gone through."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from local_server import LocalServer, local_server, pair, until, wav

HOSTILE = "<img src=x onerror=document.title='owned'> </script><script>document.title='owned'</script>"


@pytest.fixture
def page(browser: Any, server: LocalServer) -> Iterator[Any]:
    """A page of the browser whose script must not fail; it is closed before the server that it may still ask."""
    context = browser.new_context()
    faults: list[str] = []
    opened = context.new_page()
    opened.on("pageerror", lambda error: faults.append(str(error)))
    opened.on("console", lambda line: faults.append(f"{line.text} {line.location}") if line.type == "error" else None)
    yield opened
    context.close()
    assert faults == []


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder of three alignments; the worst has a hostile text."""
    with local_server() as server:
        data = server.post("/align", pair("one two", name="talk.wav")).json
    place = tmp_path / "folder"
    place.mkdir()
    (place / "talk.wav").write_bytes(wav())
    for name, changes in {
        "good": {"fit": "good", "loss_per_token": 0.1},
        "doubtful": {"fit": "doubtful", "loss_per_token": 9.0},
        "worst": {"fit": "poor", "loss_per_token": 1.0, "text": f"one two {HOSTILE}"},
    }.items():
        (place / f"{name}.json").write_text(json.dumps({**data, **changes}))
    return place


@pytest.fixture
def server(folder: Path) -> Iterator[LocalServer]:
    with local_server(folder) as running:
        yield running


def ids(page: Any) -> list[str]:
    return page.locator("[data-testid=folder-table] tbody tr").evaluate_all("rows => rows.map(row => row.dataset.id)")


def test_a_recording_is_dropped_followed_and_mended(page: Any, server: LocalServer, tmp_path: Path) -> None:
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.url))
    server.aligner.gate.clear()
    (tmp_path / "mine.wav").write_bytes(wav())
    page.goto(f"http://127.0.0.1:{server.port}/")
    page.get_by_test_id("audio").set_input_files(str(tmp_path / "mine.wav"))
    page.get_by_test_id("text").fill("one two")
    page.get_by_test_id("align").click()
    page.wait_for_selector("[data-testid=job][data-state=running]")
    page.get_by_test_id("audio").set_input_files(str(tmp_path / "mine.wav"))
    page.get_by_test_id("text").fill("second")
    page.get_by_test_id("align").click()
    page.get_by_text("position 1 in the queue").wait_for()
    page.locator("[data-testid=job]").first.get_by_test_id("remove").click()
    until(lambda: server.server.queue.counts()["waiting"] == 0)
    server.aligner.gate.set()
    page.wait_for_selector("[data-testid=job][data-state=done]")
    page.get_by_test_id("look").click()
    inside = page.frame_locator("[data-testid=page]")
    inside.locator("body[data-ready=true]").wait_for()
    with page.expect_download() as download:
        page.get_by_text("textgrid", exact=True).click()
    assert b'"words"' in Path(download.value.path()).read_bytes()
    page.get_by_test_id("back").click()
    page.get_by_test_id("keep").click()
    page.locator("tr[data-id=mine]").wait_for()
    until(lambda: server.server.queue.kept() == [])  # it is removed after it is kept
    here = f"http://127.0.0.1:{server.port}/"
    assert [url for url in asked if not url.startswith((here, "blob:", "data:"))] == []


def test_a_folder_is_gone_through_worst_first(page: Any, server: LocalServer) -> None:
    page.goto(f"http://127.0.0.1:{server.port}/")
    page.wait_for_selector("[data-testid=folder-table] tbody tr")
    assert ids(page) == ["worst", "doubtful", "good"]
    page.get_by_role("button", name="loss per token").click()
    assert ids(page) == ["doubtful", "worst", "good"]
    page.get_by_test_id("fit").select_option("good")
    assert ids(page) == ["good"]
    page.get_by_test_id("fit").select_option("")
    page.get_by_test_id("filter").fill("onerror")
    assert ids(page) == ["worst"]
    page.get_by_test_id("filter").fill("")
    page.get_by_test_id("worst").click()
    page.frame_locator("[data-testid=page]").locator("body[data-ready=true]").wait_for()
    page.get_by_test_id("next").click()
    page.wait_for_url("**/#/worst")
    page.frame_locator("[data-testid=page]").locator("body[data-ready=true]").wait_for()
    page.get_by_test_id("back").click()
    assert page.title() == "ctc-align"


def test_what_is_mended_is_saved_in_the_folder(page: Any, server: LocalServer, folder: Path) -> None:
    page.goto(f"http://127.0.0.1:{server.port}/#/good")
    inside = page.frame_locator("[data-testid=page]")
    inside.locator("body[data-ready=true]").wait_for()
    inside.locator("[data-testid=transcript] [data-place='0']").click()
    page.keyboard.press("r")
    page.keyboard.press("Control+s")
    until(lambda: '"hand"' in (folder / "good.json").read_text("utf-8"))
    assert (folder / "good.before.json").exists()
    assert [word.get("by") for word in json.loads((folder / "good.json").read_text("utf-8"))["words"]] == ["hand", None]
    page.get_by_test_id("back").click()
    page.locator("tr[data-id=good] td:nth-child(9)", has_text="1").wait_for()


def test_corrections_are_aligned_again_undone_and_saved(page: Any, server: LocalServer, folder: Path) -> None:
    page.goto(f"http://127.0.0.1:{server.port}/#/good")
    inside = page.frame_locator("[data-testid=page]")
    inside.locator("body[data-ready=true]").wait_for()

    def said(text: str) -> None:
        # hidden again after a while
        inside.locator("[data-testid=said]", has_text=text).wait_for(state="attached")

    def has_loss(text: str) -> None:
        inside.locator("[data-testid=loss]", has_text=text).wait_for(state="attached")  # below the details

    again = inside.get_by_test_id("align-again")
    again.click()
    said("No word is marked as right yet")
    inside.locator("[data-testid=transcript] [data-place='0']").click()
    page.keyboard.press("r")
    server.aligner.gate.clear()
    again.click()
    inside.get_by_role("button", name="Stop aligning").click()
    said("Stopped: nothing was changed")
    until(lambda: server.server.queue.counts()["running"] == 0)
    server.aligner.gate.set()
    again.click()
    said("Aligned again: 0 of 2 words moved")
    has_loss("2.00")
    inside.get_by_test_id("undo").click()
    has_loss("1.00")
    assert json.loads((folder / "good.json").read_text("utf-8"))["loss"] == 1.0
    inside.get_by_test_id("redo").click()
    inside.locator("[data-testid=transcript] [data-place='1']").click()
    page.keyboard.press("r")
    page.reload()
    inside.get_by_text("Your corrections of").wait_for()
    has_loss("2.00")
    inside.get_by_test_id("notice-keep").click()
    page.keyboard.press("Control+s")
    until(lambda: json.loads((folder / "good.json").read_text("utf-8"))["loss"] == 2.0)
    saved = json.loads((folder / "good.json").read_text("utf-8"))["words"]
    assert [(word["by"], word["confidence"]) for word in saved] == [("hand", 0.9), ("hand", 0.5)]
