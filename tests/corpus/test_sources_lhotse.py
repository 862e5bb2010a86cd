from __future__ import annotations

import copy
import gzip

import pytest
from made_sources import jsonl, read, write

from ctc_align.corpus.sources import open_source
from ctc_align.corpus.utterance import Utterance
from ctc_align.errors import UsageError

SUPERVISION = {"id": "sup-1", "start": 0.0, "duration": 4.2, "channel": 0, "text": "One.", "speaker": "a"}
RECORDING = {"id": "rec", "sampling_rate": 16000, "num_samples": 160000, "duration": 10.0, "channel_ids": [0]}
RECORDING["sources"] = [{"type": "file", "channels": [0], "source": "wavs/rec 1.flac"}]
CUT = {"id": "cut-1", "type": "MonoCut", "start": 0, "duration": 10.0, "channel": 0, "recording": RECORDING}
CUT["supervisions"] = [SUPERVISION]


def changed(path: str = "", value: object = None, **cut: object) -> dict:
    """CUT with the value at "supervisions.0.text" or the like put in the place of what is there."""
    result = copy.deepcopy(CUT) | cut
    if path:
        *way, last = [int(key) if key.isdigit() else key for key in path.split(".")]
        inner = result
        for key in way:
            inner = inner[key]
        inner[last] = value
    return result


def cuts(tmp_path, *rows):
    return write(tmp_path, {"cuts.jsonl": jsonl(*rows)}) / "cuts.jsonl"


def test_a_cut(tmp_path):
    path = cuts(tmp_path, CUT)
    found, refused = read(path)
    assert refused == []
    audio = f"{tmp_path}/wavs/rec 1.flac"
    assert found == [Utterance("sup-1", "sup-1", audio, "One.", "cuts.jsonl, line 1", duration_s=4.2, speaker="a")]
    source = open_source(path)
    assert (source.kind, source.files) == ("lhotse", (str(path),))
    write(tmp_path, {"cuts.jsonl.gz": gzip.compress(path.read_bytes())})
    assert read(tmp_path / "cuts.jsonl.gz", "lhotse")[0][0].text == "One."


def test_several_supervisions_are_several_utterances(tmp_path):
    first = CUT["supervisions"][0]
    several = [first, first | {"id": "sup-2", "start": 1.1, "duration": 0.2, "text": "Two."}]
    several += [{"start": -0.5, "duration": 1, "text": "before the cut"}, {"start": 2, "duration": 1, "text": ""}]
    found, refused = read(cuts(tmp_path, changed(start=2.2, supervisions=several)))
    assert [(utterance.id, utterance.offset_s, utterance.duration_s) for utterance in found] == [
        ("sup-1", 2.2, 4.2),
        ("sup-2", 3.3, 0.2),
        ("cut-1", 1.7, 1.0),
    ]
    assert [(item.id, item.origin) for item in refused] == [("cut-1-2", "cuts.jsonl, line 1, supervision 4")]


def test_channels(tmp_path):
    stereo = [{"type": "file", "channels": [0, 1], "source": "a.wav"}]
    two = [{"type": "file", "channels": [0], "source": "l.wav"}, {"type": "file", "channels": [1], "source": "r.wav"}]
    rows = [changed("recording.sources", stereo, channel=0), changed("recording.sources", stereo, type="MultiCut")]
    rows[0]["supervisions"][0]["channel"] = 1
    rows[1]["supervisions"][0] |= {"channel": [0, 1], "id": "both"}
    rows.append(changed("recording.sources", two))
    rows[2]["supervisions"][0] |= {"channel": 1, "id": "right"}
    rows.append(changed("recording.sources", two))
    rows[3]["supervisions"][0] |= {"channel": [0, 1], "id": "parted"}
    found, refused = read(cuts(tmp_path, *rows))
    assert [(utterance.id, utterance.audio[len(str(tmp_path)) :], utterance.channel) for utterance in found] == [
        ("sup-1", "/a.wav", 2),
        ("both", "/a.wav", None),
        ("right", "/r.wav", None),
    ]
    assert [item.id for item in refused] == ["parted"]


BAD = [
    (changed("recording.sources.0.type", "command"), "nothing is run or fetched"),
    (changed("recording.sources.0.type", "url"), "nothing is run or fetched"),
    (changed("recording.sources.0.source", "https://x/a.wav"), "nothing is fetched"),
    (changed("recording.sources.0.source", ["a.wav"]), "a list"),
    (changed("recording.sources", []), "list of sources"),
    (changed("recording.sources", ["a.wav"]), "list of sources"),
    (changed("recording.transforms", [{"name": "Speed", "kwargs": {"factor": 1.1}}]), "transforms"),
    (changed(recording=None), "recording"),
    (changed(type="MixedCut", tracks=[]), "MixedCut"),
    (changed(type="PaddingCut"), "PaddingCut"),
    (changed(type="Other"), "Other"),
    (changed(supervisions=[]), "no transcript"),
    (changed(supervisions=None), "no transcript"),
    (changed(supervisions=["x"]), "got a string"),
    (changed("supervisions.0.text", None), "text"),
    (changed("supervisions.0.text", " "), "empty"),
    (changed("supervisions.0.text", 5), "got a number"),
    (changed("supervisions.0.duration", 0), "more than 0"),
    (changed("supervisions.0.duration", "3"), "number of seconds, got '3'"),
    (changed("supervisions.0.start", -5), "inside its recording"),
    (changed("supervisions.0.start", 8), "inside its recording"),
    (changed("supervisions.0.start", float("nan")), "NaN"),
    (changed(start=-1), "0 or more"),
    (changed(start="0"), "number of seconds"),
    (changed("supervisions.0.channel", "left"), "numbers from 0"),
    (changed("supervisions.0.id", ""), "an id"),
    (changed(id=["x"]), "got a list"),
]


@pytest.mark.parametrize(("row", "reason"), BAD)
def test_what_is_no_utterance_is_refused_and_the_next_is_read(tmp_path, row, reason):
    good = [changed("supervisions.0.id", name) for name in ("first", "last")]
    found, refused = read(cuts(tmp_path, good[0], row, good[1]))
    assert [utterance.id for utterance in found] == ["first", "last"]
    assert [item.origin for item in refused] == ["cuts.jsonl, line 2"]
    assert reason in refused[0].reason


def test_rounding_is_forgiven(tmp_path):
    rows = [changed("supervisions.0", {"id": "a", "start": -0.004, "duration": 2.0, "text": "x"})]
    rows.append(changed("supervisions.0", {"id": "b", "start": 5.0, "duration": 5.004, "text": "x"}))
    found, refused = read(cuts(tmp_path, *rows))
    assert refused == []
    assert [(utterance.offset_s, utterance.duration_s) for utterance in found] == [(0.0, 1.996), (5.0, 5.0)]


def test_duplicates_name_both_lines(tmp_path):
    found, refused = read(cuts(tmp_path, CUT, CUT))
    assert len(found) == 1
    assert "cuts.jsonl, line 1 has it already" in refused[0].reason


def test_cuts_and_manifests_are_told_apart(tmp_path):
    row = {"audio": "a.wav", "text": "one", "recording": "r1", "type": "read"}
    path = write(tmp_path, {"m.jsonl": jsonl(row), "c.jsonl": jsonl(CUT)})
    assert open_source(path / "m.jsonl").kind == "manifest"
    with pytest.raises(UsageError, match="give --source manifest"):
        open_source(path / "m.jsonl", "lhotse")
    with pytest.raises(UsageError, match="give --source lhotse"):
        open_source(path / "c.jsonl", "manifest")
