"""The app of `ctc-align serve` in a real browser: files are dropped and followed, a folder and
words gone through."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from local_server import LocalServer, local_server, pair, until, wav

HOSTILE = (
    "<img src=x onerror=document.title='owned'> </script><script>document.title='owned'</script>"
)


def _is_fault(line: Any) -> bool:
    is_refusal = re.search("the server responded with a status of (4|503)", line.text)
    return line.type == "error" and not is_refusal


@pytest.fixture
def page(browser: Any, server: LocalServer) -> Iterator[Any]:
    """A page of the browser whose script must not fail; it is closed before the server that it may
    still ask."""
    context = browser.new_context()
    faults: list[str] = []
    shown = context.new_page()
    shown.on("pageerror", lambda error: faults.append(str(error)))
    # the browser itself reports requests that are refused, which the app tells in its own words
    shown.on(
        "console",
        lambda line: faults.append(f"{line.text} {line.location}") if _is_fault(line) else None,
    )
    yield shown
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
    one, two = (
        {**word, edge: 0.49996} for word, edge in zip(data["words"], ("end_s", "start_s"))
    )  # shown as 0.500
    for name, confidences, changes in (
        ("good", (0.2, 0.3), {"fit": "good", "loss_per_token": 0.1}),
        ("doubtful", (0.9, 0.9), {"fit": "doubtful", "loss_per_token": 9.0}),
        (
            "worst",
            (0.11, 0.9),
            {"fit": "poor", "loss_per_token": 1.0, "text": f"one two {HOSTILE}"},
        ),
    ):
        words = [
            {**word, "confidence": confidence} for word, confidence in zip((one, two), confidences)
        ]
        (place / f"{name}.json").write_text(json.dumps({**data, "words": words, **changes}))
    return place


@pytest.fixture
def server(folder: Path) -> Iterator[LocalServer]:
    with local_server(folder) as running:
        yield running


def opened(page: Any, server: LocalServer, place: str = "") -> Any:
    page.goto(f"http://127.0.0.1:{server.port}/{place}")
    page.wait_for_selector("body[data-ready=true]")
    return page


def inside_page(page: Any) -> Any:
    """Return the frame with the page of an alignment, once it can be used."""
    frame = page.frame_locator("[data-testid=page]")
    frame.locator("body[data-ready=true]").wait_for()
    return frame


def ids(page: Any) -> list[str]:
    return page.get_by_test_id("row").evaluate_all("rows => rows.map(row => row.dataset.id)")


def states(page: Any) -> dict[str, str]:
    rows = page.get_by_test_id("row").evaluate_all(
        "rows => rows.map(row => [row.dataset.id, row.dataset.state])"
    )
    return dict(rows)


def saved_words(folder: Path, name: str) -> list[dict[str, Any]]:
    return json.loads((folder / f"{name}.json").read_text("utf-8"))["words"]


@pytest.fixture
def corpus(tmp_path: Path) -> Path:
    """Files as they are dropped: pairs of several kinds, some without a partner, one whose
    transcript is of no use."""
    place = tmp_path / "corpus"
    (place / "sub").mkdir(parents=True)
    for name in ("one.wav", "sub/two.wav", "sub/three.wav", "sub/alone.wav", "sub/bad.wav"):
        (place / name).write_bytes(wav())
    (place / "one.txt").write_text("one two")
    (place / "sub/two.srt").write_text("1\n00:00:00,000 --> 00:00:01,000\none two\n")
    (place / "sub/three.txt").write_text("three")
    (place / "sub/bad.txt").write_text("boom")
    (place / "sub/nobody.txt").write_text("nobody")
    return place


def test_a_folder_that_is_dropped_becomes_one_table(
    page: Any, corpus: Path, tmp_path: Path
) -> None:
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.url))
    with local_server() as server:
        server.aligner.gate.clear()
        opened(page, server)
        page.get_by_test_id("folder-files").set_input_files(str(corpus))
        page.get_by_text("no transcript: add alone.txt").wait_for()
        page.get_by_text("no recording: add nobody.wav").wait_for()
        page.wait_for_selector("tr[data-state=queued], tr[data-state=running]")
        until(lambda: len(server.server.queue.kept()) == 4)
        opened(page, server)  # nothing is lost when the page is loaded again
        alone = {"alone.wav": "alone", "nobody.txt": "alone"}
        assert {name: state for name, state in states(page).items() if state == "alone"} == alone
        assert len(ids(page)) == 6
        server.aligner.gate.set()
        page.get_by_text("3 of 6 done · 3 not aligned").wait_for()
        assert states(page) == {
            **alone,
            "bad": "failed",
            **dict.fromkeys(("one", "two", "three"), "done"),
        }
        page.locator("[data-id=bad]").get_by_test_id("retry").click()
        until(
            lambda: (
                len(
                    [job for job in server.server.queue.kept() if job.name == "bad" and job.ended_s]
                )
                == 1
            )
        )
        page.get_by_test_id("files").set_input_files(
            str(corpus / "sub/alone.wav")
        )  # its transcript is asked for
        page.get_by_role("button", name="Not now").click()
        assert len(ids(page)) == 7, "nothing is paired but by name"
        page.locator("[data-id='alone.wav']").first.get_by_test_id("remove").click()
        page.get_by_test_id("files").set_input_files(
            {"name": "nobody.wav", "mimeType": "", "buffer": wav()}
        )
        page.locator("[data-id=nobody][data-state=done]").wait_for()
        page.locator("[data-id='alone.wav']").get_by_test_id("type").click()
        page.get_by_test_id("text").fill("typed words")
        page.get_by_test_id("align").click()
        page.locator("[data-id=alone][data-state=done]").wait_for()
        page.locator("[data-id=one]").get_by_text("Download").click()
        with page.expect_download() as download:
            page.get_by_text("textgrid", exact=True).click()
        assert b'"words"' in Path(download.value.path()).read_bytes()
        page.locator("[data-id=one]").get_by_test_id("checked").check()
        page.get_by_text("1 checked").wait_for()
        with page.expect_download() as download:
            page.get_by_test_id("save-risk").click()
        assert json.loads(Path(download.value.path()).read_bytes())["checked"] is True
        page.get_by_test_id("at-risk").wait_for(state="hidden")
        page.locator("[data-id=one]").get_by_test_id("remove").click()
        page.locator("[data-id=one]").wait_for(state="detached")
        here = f"http://127.0.0.1:{server.port}/"
        assert [url for url in asked if not url.startswith((here, "blob:", "data:"))] == []


def test_what_one_tab_was_sending_is_sent_once(page: Any, tmp_path: Path) -> None:
    (tmp_path / "x.wav").write_bytes(wav())
    (tmp_path / "x.txt").write_text("one two")
    with local_server() as server:
        server.post("/jobs", pair("of the same name", name="x.wav"))
        page.route(
            "**/jobs", lambda route: route.continue_() if route.request.method == "GET" else None
        )
        opened(page, server).get_by_test_id("files").set_input_files(
            [tmp_path / "x.wav", tmp_path / "x.txt"]
        )
        page.get_by_text("sending …").wait_for()
        other = opened(page.context.new_page(), server)
        opened(page, server)
        other.get_by_text("2 recordings").wait_for()
        page.get_by_text("2 recordings").wait_for()
        assert len(server.server.queue.kept()) == 2


def test_what_is_kept_moves_into_the_folder(page: Any, server: LocalServer, tmp_path: Path) -> None:
    (tmp_path / "mine.wav").write_bytes(wav())
    (tmp_path / "other.txt").write_text("one two")
    opened(page, server)
    page.get_by_test_id("files").set_input_files(
        [str(tmp_path / "mine.wav"), str(tmp_path / "other.txt")]
    )
    page.locator("[data-id=mine]").get_by_test_id("keep").click()
    until(lambda: server.server.queue.kept() == [])  # it is removed after it is kept
    page.get_by_test_id("keep").wait_for(state="detached")
    page.locator("[data-id=mine]").get_by_test_id("look").click()
    inside_page(page)


def test_a_folder_is_gone_through_worst_first(page: Any, server: LocalServer) -> None:
    opened(page, server)
    assert ids(page) == ["worst", "doubtful", "good"]
    page.get_by_test_id("order").select_option("loss")
    assert ids(page) == ["doubtful", "worst", "good"]
    page.get_by_role("button", name="To check").click()
    assert ids(page) == ["good", "worst", "doubtful"]
    page.get_by_test_id("shown").select_option("doubtful")
    assert ids(page) == ["doubtful"]
    page.get_by_test_id("shown").select_option("all")
    page.get_by_test_id("filter").fill("onerror")
    assert ids(page) == ["worst"]
    page.get_by_test_id("filter").fill("")
    page.get_by_test_id("look").first.click()
    inside_page(page)
    page.get_by_test_id("next").click()
    page.wait_for_url("**/#/worst")
    inside_page(page)
    page.get_by_test_id("back").click()
    assert page.title() == "ctc-align"


def test_words_of_all_recordings_are_checked_in_one_list(
    page: Any, server: LocalServer, folder: Path
) -> None:
    opened(page, server)
    page.get_by_test_id("to-words").click()
    doubts = page.get_by_test_id("doubt")
    doubts.nth(2).wait_for()
    count = page.get_by_test_id("words-count")
    assert count.inner_text() == "1 of 3 in 2 recordings"
    assert HOSTILE in doubts.first.inner_text()
    page.get_by_test_id("words-order").select_option("sure")
    assert re.findall(r"confidence ([0-9.]+)", "\n".join(doubts.all_inner_texts())) == [
        "0.11",
        "0.20",
        "0.30",
    ]
    page.get_by_test_id("words-order").select_option("recording")
    page.keyboard.press("ArrowDown")
    assert page.evaluate("document.activeElement.dataset.testid") == "context"
    assert count.inner_text() == "2 of 3 in 2 recordings"
    page.keyboard.press("r")
    page.get_by_text("“one” is marked as right.").wait_for()
    assert [word.get("by") for word in saved_words(folder, "good")] == ["hand", None]
    page.get_by_test_id("undo").click()
    until(lambda: [word.get("by") for word in saved_words(folder, "good")] == [None, None])
    page.get_by_text("2 of 3 in 2 recordings").wait_for()
    page.get_by_test_id("end").fill("7")
    page.get_by_test_id("save-times").click()
    page.get_by_text("Expected times from 0.000 to 0.500 s").wait_for()
    page.get_by_test_id("end").fill("0.5")
    page.get_by_test_id("save-times").click()
    page.get_by_text("“one” has its times by hand.").wait_for()
    [one, two] = saved_words(folder, "good")
    assert (one["end_s"], one["by"], "by" in two) == (0.49996, "hand", False)
    (folder / "good.json").write_text(
        (folder / "good.json").read_text("utf-8").replace("0.3", "0.12")
    )
    page.keyboard.press("r")
    page.get_by_text("This word was changed elsewhere").wait_for()
    page.locator("[data-testid=doubt]", has_text="good").click()
    page.keyboard.press("o")
    inside_page(page).locator("[data-place='1'].selected").wait_for()
    page.get_by_test_id("back").click()
    doubts.nth(1).wait_for()
    page.locator("[data-testid=doubt]", has_text="good").click()
    page.keyboard.press("c")
    page.get_by_text("\u2068good\u2069 is signed off as checked.").wait_for()
    assert json.loads((folder / "good.json").read_text("utf-8"))["checked"] is True
    assert count.inner_text() in ("1 of 1 in 1 recording · 1 done", "1 of 1 in 1 recording")
    page.get_by_test_id("to-table").click()
    assert page.locator("[data-id=good]").get_by_test_id("checked").is_checked()
    assert page.title() == "ctc-align"


def test_what_is_mended_is_saved_in_the_folder(
    page: Any, server: LocalServer, folder: Path
) -> None:
    page.goto(f"http://127.0.0.1:{server.port}/#/good")
    inside = inside_page(page)
    inside.locator("[data-testid=transcript] [data-place='0']").click()
    page.keyboard.press("r")
    page.keyboard.press("Control+s")
    until(lambda: '"hand"' in (folder / "good.json").read_text("utf-8"))
    assert (folder / "good.before.json").exists()
    assert [word.get("by") for word in saved_words(folder, "good")] == ["hand", None]
    page.keyboard.press("c")
    page.keyboard.press("Control+s")
    until(lambda: '"checked": true' in (folder / "good.json").read_text("utf-8"))
    sent: list[Any] = []
    page.route(
        "**/api/alignments/good",
        lambda route: sent.append(route) if route.request.method == "PUT" else None,
    )
    page.keyboard.press("Control+z")
    page.keyboard.press("Control+s")
    until(lambda: page.wait_for_timeout(10) or sent)
    page.keyboard.press("c")  # while it is being saved
    sent[0].continue_()
    inside.locator("[data-testid=said]").get_by_text("Saved", exact=True).wait_for(state="attached")
    page.unroute("**/api/alignments/good")
    page.reload()
    inside.get_by_text("Your corrections of").wait_for()
    inside.get_by_test_id("checked-mark").wait_for()
    inside.get_by_test_id("notice-keep").click()
    (folder / "good.json").write_text((folder / "good.json").read_text("utf-8") + "\n")
    page.keyboard.press("Control+s")
    inside.get_by_test_id("spoken").get_by_text("Not saved: it was changed elsewhere").wait_for(
        state="attached"
    )
    page.get_by_test_id("back").click()
    page.locator("[data-id=good]").wait_for()


def test_corrections_are_aligned_again_undone_and_saved(
    page: Any, server: LocalServer, folder: Path
) -> None:
    page.goto(f"http://127.0.0.1:{server.port}/#/good")
    inside = inside_page(page)

    def said(text: str) -> None:
        # hidden again after a while
        inside.locator("[data-testid=said]", has_text=text).wait_for(state="attached")

    def has_loss(text: str) -> None:
        inside.locator("[data-testid=loss]", has_text=text).wait_for(
            state="attached"
        )  # below the details

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
    assert [(word["by"], word["confidence"]) for word in saved_words(folder, "good")] == [
        ("hand", 0.2),
        ("hand", 0.5),
    ]


def test_work_that_is_nowhere_else_is_told_and_kept(
    page: Any, server: LocalServer, folder: Path
) -> None:
    server.server.queue.limits = replace(server.server.queue.limits, kept_jobs=2)
    for name in ("first", "second"):
        server.done_job(pair("one two", name=f"{name}.wav"))
    opened(page, server)
    page.locator("[data-id=first]").get_by_test_id("checked").check()
    told = page.get_by_test_id("at-risk")
    told.get_by_text(
        "1 recording that you corrected or checked is only in the memory of this server"
    ).wait_for()
    told.get_by_text("The server is full: 2 of 2 recordings").wait_for()
    sound, text = folder.parent / "third.wav", folder.parent / "third.txt"
    sound.write_bytes(wav())
    text.write_text("three")
    page.get_by_test_id("files").set_input_files([sound, text])
    page.get_by_text("waits: the server keeps 2 finished recordings").wait_for()
    page.once("dialog", lambda dialog: dialog.dismiss())
    page.locator("[data-id=first]").get_by_test_id("remove").click()
    assert "first" in ids(page), "what is nowhere else is not removed unasked"
    told.get_by_test_id("save-risk").click()
    page.wait_for_selector("[data-id=third][data-state=done]")
    until(lambda: not told.is_visible() or "corrected" not in told.inner_text())
    assert json.loads((folder / "first.json").read_text("utf-8"))["checked"] is True


def test_a_sign_off_of_a_version_never_seen_is_refused(
    page: Any, server: LocalServer, folder: Path
) -> None:
    opened(page, server)
    data = json.loads((folder / "good.json").read_text("utf-8"))
    (folder / "good.json").write_text(json.dumps({**data, "fit": "poor"}), "utf-8")
    page.locator("[data-id=good]").get_by_test_id("checked").click()
    page.get_by_text("It was changed elsewhere since it was listed here").wait_for()
    page.locator("[data-id=good] .fit-poor").wait_for()
    assert "checked" not in json.loads((folder / "good.json").read_text("utf-8"))
    page.locator("[data-id=good]").get_by_test_id("checked").check()
    until(lambda: "checked" in json.loads((folder / "good.json").read_text("utf-8")))
    page.goto(f"http://127.0.0.1:{server.port}/#words")
    page.get_by_test_id("doubt").first.wait_for()
    page.get_by_test_id("right").click()
    page.get_by_test_id("sign-off-last").click()
    page.get_by_text("is signed off as checked").wait_for()


def test_what_cannot_be_opened_is_a_row_and_names_stay_to_themselves(
    page: Any, server: LocalServer, folder: Path
) -> None:
    data = (folder / "good.json").read_bytes()
    for name in ("\u05ea\u05dc\u200f", "a\u202egpj"):
        (folder / f"{name}.json").write_bytes(data)
    (folder / "cut.json").write_bytes(data[:300])
    (folder / "other.json").write_text("{}")
    opened(page, server)
    assert states(page)["cut"] == "damaged"
    page.get_by_text("cannot be opened: cut.json: not JSON that can be read").wait_for()
    assert page.get_by_test_id("left-out").inner_text() == "Not listed: 1 other JSON file."
    page.get_by_text("1 cannot be opened").wait_for()
    titles = page.get_by_test_id("look")
    assert {*titles.all_inner_texts()} == {
        "good",
        "doubtful",
        "worst",
        "\u05ea\u05dc\u200f",
        r"a\u202egpj",
    }
    isolates = "rows => rows.every(row => getComputedStyle(row).unicodeBidi === 'isolate')"
    assert titles.evaluate_all(isolates)
    page.get_by_role("link", name="\u05ea\u05dc\u200f", exact=True).click()
    frame = inside_page(page)
    assert frame.get_by_test_id("name").inner_text() == "\u05ea\u05dc\u200f"
    title = frame.locator("body").evaluate("() => document.title")
    assert title == "\u2068\u05ea\u05dc\u200f\u2069"
    away = folder.rename(folder.parent / "away")
    opened(page, server)
    page.get_by_test_id("folder-fault").get_by_text("cannot be read: is gone").wait_for()
    away.rename(folder)
