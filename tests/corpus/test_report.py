"""The report of a corpus run: the figures of its summary, and a page in which nothing of the corpus
is markup."""

from __future__ import annotations

import base64
import gzip
import hashlib
import json
from html.parser import HTMLParser
from pathlib import Path

import corpus_runs
import numpy as np
import pytest
import soundfile
from corpus_runs import journal_line
from sample_alignments import make_alignment

from ctc_align.corpus.report.report_page import histogram_chart
from ctc_align.corpus.report.run_figures import MOST_REASONS, RunFigures, run_figures
from ctc_align.corpus.state.journal import (
    DONE,
    FAILED,
    Journal,
    journal_path,
)
from ctc_align.corpus.state.summary import Summary, summarize, summary_path
from ctc_align.errors import UsageError
from ctc_align.files.folder_lock import Shard
from ctc_align.sources.named_recordings import find_recording
from ctc_align.types import AlignedToken, AlignedWord, Alignment

HOSTILE = "<img src=x onerror=alert(1)>"
OF_RUN = ("run", "journal_lines", "skipped", "shard")
"""Fields of a summary that are of one run of many, not of what is in the folder."""


def alignment(id: str, confidence: float) -> Alignment:
    """Three words of 0.4 s in two seconds, with pauses of 0.1 and 0.3 s."""

    def word(at: int, start_s: float, speaker: str) -> AlignedWord:
        tokens = tuple(
            AlignedToken("AH", each_s, each_s + 0.2, 0.9) for each_s in (start_s, start_s + 0.2)
        )
        times = (start_s, start_s + 0.4, confidence, tokens)
        return AlignedWord("a", "a", at, at + 1, "aligned", *times, speaker=speaker)

    words = (word(0, 0.1, "Ann"), word(2, 0.6, "Ann"), word(4, 1.3, "</td>"))
    return Alignment(
        id, "a.wav", 2.0, "m", "cpu", 0.01, 1.0, -1.0, "a a a", words, token_kind="phones"
    )


def run_folder(folder: Path, number: int = 4, *, shards: bool = False, jobs: int = 1) -> Path:
    """A folder as `corpus` leaves it: utterances of growing loss, and three that failed for two
    reasons."""
    folder.mkdir()
    lines, objects = [], []
    for i in range(number):
        id = f"u{i}"
        one = alignment(id, 1 - i / 10)
        objects.append(one.to_dict())
        if not shards:
            one.save(folder / f"{id}.json")
        files = None if shards else {f"{id}.json": (1, "0a")}
        figures = {
            "loss": 2.0 * i,
            "loss_per_token": 0.5 * i,
            "duration_s": 2.0,
            "skipped": i,
            "words": 9,
        }
        figures["local_loss"] = 9.0 - i
        row = (1, "0a") if shards else None
        lines.append(journal_line(id, DONE, files=files, row=row, fit="good", **figures))
    if shards:
        with gzip.open(folder / "alignments-00000.jsonl.gz", "wt", encoding="utf-8") as file:
            objects.append(alignment("of an earlier run", 0.1).to_dict())
            file.writelines(json.dumps(data) + "\n" for data in objects)
    lines.append(journal_line(HOSTILE, FAILED, f"{HOSTILE}: a/b.wav: no such audio file"))
    lines.append(journal_line("javascript:alert(1)", FAILED, "c.wav: no such audio file"))
    lines.append(journal_line("z", FAILED, "z: 3 frames are too few, 6 are needed"))
    for job in range(jobs):
        shard = Shard(job, jobs)
        with Journal(journal_path(folder, shard)) as journal:
            journal.append(lines[job::jobs])
        summarize([journal_path(folder, shard)], source="<s>", complete=True).write(
            summary_path(folder, shard)
        )
    return folder


class Page(HTMLParser):
    """The elements of a page, with their attributes, and the texts in some of them."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.inside: list[str] = []
        self.scripts = ""
        self.texts: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))
        self.inside.append(tag)

    def handle_endtag(self, tag):
        while self.inside and self.inside.pop() != tag:
            pass

    def handle_data(self, data):
        if self.inside and self.inside[-1] == "script":
            self.scripts += data
        else:
            self.texts.append(data)

    def named(self, tag: str) -> list[dict[str, str | None]]:
        return [attributes for name, attributes in self.tags if name == tag]


def page_text(folder: Path) -> str:
    return "|".join(Page((folder / "report.html").read_text("utf-8")).texts)


@pytest.mark.parametrize(("shards", "jobs"), [(False, 1), (True, 1), (False, 3), (True, 2)])
def test_the_figures_are_those_of_the_summary(tmp_path, cli, shards, jobs):
    folder = run_folder(tmp_path / "run", shards=shards, jobs=jobs)
    result = cli("corpus", "--summary", folder, code=1)
    assert not [note for note in ("not finished", "there is no journal") if note in result.stderr]
    expected = corpus_runs.summary(folder)
    found = run_figures(folder)
    assert {k: v for k, v in found.summary.to_dict().items() if k not in OF_RUN} == {
        k: v for k, v in expected.items() if k not in OF_RUN
    }
    assert (found.read, found.unread, found.loss_per_token.number) == (4, 0, expected["done"])
    assert sum(reason.count for reason in found.reasons.values()) == expected["failed"]
    assert sorted((reason.count, len(reason.ids)) for reason in found.reasons.values()) == [
        (1, 1),
        (2, 2),
    ]
    assert (found.confidence.number, found.pauses_s.number) == (12, 8)
    assert found.words_per_s.mean == pytest.approx(3 / 1.6)
    assert found.pauses_s.mean == pytest.approx(0.2)
    assert found.speech_s == pytest.approx(4 * 1.2)
    assert {name: one.words for name, one in found.speakers.items()} == {"Ann": 8, "</td>": 4}
    assert [one.id for one in found.worst][:2] == ["u3", "u2"]
    assert found.worst[0].least_confidence == pytest.approx(0.7)

    assert cli("report", folder).code == 0
    page = Page((folder / "report.html").read_text("utf-8"))
    text = "|".join(page.texts)
    for shown in (
        "7",
        "4 (57.1 %)",
        "36",
        "6 words",
        "0.750",
        "median 0.75 · mean 0.75",
        "good 4 (100.0 %)",
    ):
        assert shown in page.texts or shown in text, shown
    assert len(page.named("svg")) == 7
    losses = [cell["data-value"] for cell in page.named("td") if "data-value" in cell][0::6][:4]
    assert losses == [str(row["loss_per_token"]) for row in expected["worst"]]


def test_what_changed_between_two_runs_is_told(tmp_path, cli):
    run, other = run_folder(tmp_path / "run"), run_folder(tmp_path / "other")
    data = json.loads((run / "u1.json").read_text("utf-8"))
    data["words"][1]["end_s"] = data["words"][1]["tokens"][-1]["end_s"] = 1.25
    region = {
        "kind": "unexplained",
        "start_s": 1.8,
        "end_s": 2.0,
        "char_start": None,
        "char_end": None,
    }
    regions = [region | {"reason": "<b>speech"}] * 2
    (run / "u1.json").write_text(json.dumps(data | {"regions": regions}), "utf-8")
    data = json.loads((other / "u2.json").read_text("utf-8"))
    data["words"][0] |= {
        "status": "skipped",
        "start_s": None,
        "end_s": None,
        "confidence": None,
        "tokens": [],
    }
    data["words"][2]["char_end"] = 99  # a file with faults is compared, but not heard
    (other / "u2.json").write_text(json.dumps(data | {"fit": "poor"}), "utf-8")
    with Journal(journal_path(other, Shard())) as journal:
        journal.append([journal_line("u3", FAILED, "u3: no such audio file")])
    assert cli("report", str(run), "--against", str(other)).code == 0
    text = " ".join(page_text(run).replace("|", " ").split())
    told = text[text.index("Changes since") : text.index("Where to look first")]
    assert "3 utterances are in both runs, 4 not compared" in told
    assert (
        "Of 8 words, 1 (12.5 %) moved by more than 10 ms; 1 were found only now, 0 only before"
        in told
    )
    assert told.index("u2") < told.index("u1") < told.index("a at 0.60 s")
    assert "u1 a a a <b>speech no sound: the recording was not found 0.500" in text
    for sound, clips in (
        ("embed", 6),
        (str(tmp_path), 6),
        ("none", 0),
    ):  # of four utterances, and two of a word
        soundfile.write(
            (tmp_path if sound == str(tmp_path) else run) / "a.wav",
            np.linspace(0, 0.5, 16000),
            8000,
        )
        assert cli("report", run, "--against", other, "--audio", sound, "--force").code == 0
        page = Page((run / "report.html").read_text("utf-8"))
        coded = [base64.b64decode(one["data-sound"] or "") for one in page.named("button")]
        assert [one[:4] for one in coded] == [b"OggS"] * clips
        assert "no sound" not in "".join(page.texts)
        (run / "a.wav").unlink(missing_ok=True)
    result = cli("report", str(run), "--against", str(tmp_path), "--force")
    assert result.code == 2
    assert "expected the --out-dir of a corpus run" in result.stderr


def test_outputs_of_either_run_that_cannot_be_compared_are_told(tmp_path, cli):
    run, other = run_folder(tmp_path / "run"), run_folder(tmp_path / "other")
    whole = (other / "u0.json").read_bytes()
    (other / "u0.json").unlink()
    (other / "u1.json").write_bytes(whole[:500])
    (other / "u2.json").write_text('{"format": "ctc-align/1", "words": [{}], "fit": ["good"]}')
    (run / "u3.json").write_bytes(whole.replace(b'"text": "a"', b'"label": "a"'))
    faults = [str(other / f"u{i}.json") for i in range(3)] + [str(run / "u3.json")]
    result = cli("report", run, "--against", other, code=1)
    for told in (result.stderr, page_text(run)):
        assert [fault for fault in faults if fault not in told] == []
    assert "4 outputs of both runs could not be read, and are not compared:" in page_text(run)
    assert cli("report", run, "--force").code == 0, "the figures need less"
    journal = journal_path(other, Shard())
    journal.write_bytes(journal.read_bytes().replace(b'"u0"', b'"u0', 1))
    assert (
        f"{journal}, line 1: " in cli("report", run, "--against", other, "--force", code=1).stderr
    )
    for path in (other / "u1.json", other / "u2.json", run / "u3.json"):
        path.unlink()


def test_nothing_of_the_corpus_is_markup_or_script(tmp_path, cli):
    folder = run_folder(tmp_path / "run")
    assert cli("report", folder, "-o", tmp_path / "else" / "where").code == 0
    page = Page((tmp_path / "else" / "where" / "report.html").read_text("utf-8"))
    assert not page.named("img")
    assert {
        key for _, attributes in page.tags for key in attributes if key.startswith("on")
    } == set()
    assert HOSTILE in "".join(page.texts)
    [policy] = [
        meta["content"]
        for meta in page.named("meta")
        if meta.get("http-equiv") == "Content-Security-Policy"
    ]
    digest = base64.b64encode(hashlib.sha256(page.scripts.encode()).digest()).decode()
    assert policy.startswith("default-src 'none'; ")
    assert f"script-src 'sha256-{digest}'" in policy
    links = [link["href"] or "" for link in page.named("a")]
    assert len(links) == 4
    assert all((tmp_path / "else" / "where" / link).is_file() for link in links), (
        "relative to where the page is"
    )
    (folder / "u3.html").write_text("page")
    assert cli("report", folder, "-o", tmp_path / "else").code == 0
    assert '<a href="./../run/u3.html">u3</a>' in (tmp_path / "else" / "report.html").read_text(
        "utf-8"
    )


def test_a_run_that_has_not_ended_says_so(tmp_path, cli):
    folder = run_folder(tmp_path / "run", jobs=3)
    journal_path(folder, Shard(1, 3)).unlink()
    data = json.loads(summary_path(folder, Shard(0, 3)).read_text("utf-8"))
    summary_path(folder, Shard(0, 3)).write_text(json.dumps({**data, "complete": False}), "utf-8")
    result = cli("report", folder, code=0)
    text, joined = page_text(folder), cli("corpus", "--summary", folder)
    for note in (
        "journal.0-of-3.jsonl: its run has not finished",
        "of 3 shards there is no journal of 1",
    ):
        for told in (result.stderr, text, joined.stderr):
            assert note in told
    assert "This run is not complete" in text
    assert not corpus_runs.summary(folder)["complete"]


def test_outputs_that_cannot_be_read_are_told(tmp_path, cli):
    folder = run_folder(tmp_path / "run")
    (folder / "u0.json").unlink()
    (folder / "u1.json").write_text('{"format": "ctc-align/1", "words": [{}]}')
    result = cli("report", folder, code=1)
    for told in (result.stderr, page_text(folder)):
        assert "u0.json" in told
        assert "u1.json" in told
    assert "2 outputs could not be read" in page_text(folder)


def test_a_run_without_json_says_so(tmp_path, cli):
    folder = run_folder(tmp_path / "run")
    with Journal(journal_path(folder, Shard())) as journal:
        journal.append([journal_line("u0", DONE, files={"u0.ctm": (1, "0a")}, loss_per_token=9.0)])
    for told in (cli("report", folder).stderr, page_text(folder)):
        assert "1 of 4 utterances have no JSON, as --format of the run was" in told


def test_a_journal_leads_nowhere_else(tmp_path, cli):
    folder = run_folder(tmp_path / "run")
    alignment("secret", 0.5).save(tmp_path / "secret.json")
    with Journal(journal_path(folder, Shard())) as journal:
        for name in ("../secret.json", str(tmp_path / "secret.json")):
            journal.append([journal_line(name, DONE, files={name: (1, "0a")}, loss_per_token=9.0)])
    assert cli("report", folder).code == 0
    assert len(Page((folder / "report.html").read_text("utf-8")).named("a")) == 4
    assert run_figures(folder).read == 4


def test_what_is_there_stays(tmp_path, cli):
    folder = run_folder(tmp_path / "run")
    assert cli("report", folder).code == 0
    first = (folder / "report.html").read_bytes()
    assert "already exists; give --force" in cli("report", folder, code=2).error
    assert cli("report", folder, "--force").code == 0
    assert (folder / "report.html").read_bytes() == first, "the same bytes each time"
    (folder / "report.html").write_text("an utterance called report")
    assert "is not a report" in cli("report", folder, "--force", code=2).error
    assert (folder / "report.html").read_text() == "an utterance called report"


def test_memory_holds_what_is_named_and_no_more():
    figures = RunFigures(Summary(), [])
    words = ["".join(chr(97 + int(digit)) for digit in str(i)) for i in range(1000)]
    for i in range(5000):
        figures.add_failure(journal_line(f"u{i}", FAILED, f"u{i}: {words[i % 1000]}"))
    assert len(figures.reasons) == MOST_REASONS + 1
    assert sum(reason.count for reason in figures.reasons.values()) == 5000
    assert max(len(reason.ids) for reason in figures.reasons.values()) == 20


def test_an_axis_tells_long_recordings_apart_and_few_far_values_squeeze_none():
    episodes = RunFigures(Summary(), []).durations_s
    for value in (134.15, 134.35, 134.65):
        episodes.add(value)
    drawn = histogram_chart(episodes, "Length", "seconds")
    labels = [label for _, label in drawn["ticks"]]
    assert len(labels) == len({*labels}) > 3
    assert "134.1 to 134.2 seconds: 1" in [bar[-1] for bar in drawn["bars"]]
    clips = RunFigures(Summary(), []).durations_s
    for value in [1.0, 2.0, 3.0, 4.0] * 50 + [14_000.0]:
        clips.add(value)
    drawn = histogram_chart(clips, "Length", "seconds")
    assert len(drawn["bars"]) > 20
    assert drawn["bars"][-1][-1].endswith(" and more seconds: 1")


def test_the_latest_corrections_are_shown_and_counted(cli, tmp_path: Path) -> None:
    out_dir = run_folder(tmp_path / "out")
    alignment("u1", 0.125).save(out_dir / "u1.corrected (1).json")
    told = f"{out_dir / 'u1.corrected (1).json'} is used instead of u1.json"
    shown = cli("view", out_dir, "--utterance", "u1", "--audio", "none", "-o", tmp_path)
    assert told in shown.stderr
    assert "0.125" in (tmp_path / "u1.html").read_text("utf-8")
    assert f"{told}; loss, fit" in " ".join(cli("report", out_dir).stderr.split())
    assert ">0.125<" in (out_dir / "report.html").read_text("utf-8")


@pytest.mark.parametrize("layout", ["files", "shards"])
def test_any_utterance_of_a_run_can_be_listened_to(cli, run, layout: str, tmp_path: Path) -> None:
    corpus, out_dir = corpus_runs.make_corpus(tmp_path, 12), tmp_path / "out"
    run(corpus, "--out-dir", out_dir, "--layout", layout, code=1)
    cli("report", out_dir)
    assert f"ctc-align view {out_dir} --utterance NAME" in (out_dir / "report.html").read_text(
        "utf-8"
    )
    pages = tmp_path / "pages"
    cli(
        "view", out_dir, "--utterance", "part 2/u8", "--utterance", "part 0/u6", "-o", pages, code=0
    )
    for name in ("u8", "u6"):
        html = (pages / f"{name}.html").read_text("utf-8")
        assert f"number {name[1:]} of them" in html
        assert len(html.partition('id="page-audio">')[2].partition("</script>")[0]) > 100, (
            "its sound is inside"
        )
    for id, says in (("u99", "has no such utterance"), ("part 0/u3", "was not aligned")):
        assert says in cli("view", out_dir, "--utterance", id, code=2).error


MADE = make_alignment((), 1.0, audio="corpus/spk1/a.wav")


def put(*places: tuple[str, float]) -> None:
    for path, seconds in places:
        Path(path).parent.mkdir(parents=True, exist_ok=True)
        soundfile.write(path, np.zeros(int(seconds * 8000)), 8000)


@pytest.mark.parametrize(
    ("there", "given", "found"),
    [
        ([("corpus/spk1/a.wav", 1), ("out/a.wav", 1)], "", "corpus/spk1/a.wav"),
        ([("corpus/spk1/a.wav", 9), ("out/a.wav", 1)], "", "out/a.wav"),
        ([("corpus/spk1/a.wav", 9), ("out/a.wav", 0.5)], "", "corpus/spk1/a.wav"),
        ([("out/spk1/a.wav", 1), ("out/a.wav", 1)], "", "out/spk1/a.wav"),
        ([("new/spk1/a.wav", 1), ("new/a.wav", 1)], "new", "new/spk1/a.wav"),
        ([("new/spk1/a.wav", 2), ("new/a.wav", 1)], "new", "new/a.wav"),
        ([("corpus/spk1/a.wav", 1), ("new/talk.flac", 1)], "new", "new/talk.flac"),
        ([("new/b.wav", 9)], "new/b.wav", "new/b.wav"),
        (
            [("corpus/spk1/a.wav", 0.5), ("out/b.wav", 1)],
            "",
            "spk1/a.wav is another recording: it is 0.5 s",
        ),
        ([("new/b.wav", 1)], "new", "'corpus/spk1/a.wav' is not in new"),
    ],
)
def test_a_recording_is_that_of_the_longest_end_of_its_path_and_of_its_length(
    tmp_path, monkeypatch, there, given, found
) -> None:
    monkeypatch.chdir(tmp_path)
    put(*there)
    if " " not in found:
        assert find_recording(MADE, Path("out/talk.json"), given) == Path(found)
    else:
        with pytest.raises(UsageError, match=found):
            find_recording(MADE, Path("out/talk.json"), given)
