"""Valid samples of everything that the package reads, made on the spot: the seeds of the attack on
its readers."""

from __future__ import annotations

import gzip
import io
import json
import struct
from collections.abc import Callable
from functools import cache, partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import soundfile
import torch
from corpus_runs import journal_line
from hostile_inputs import Case
from made_alignments import CTM, alignment
from made_books import made_epub
from made_media import Coding, write_media
from made_models import tiny_folder
from safetensors.numpy import save
from sample_alignments import talk_alignment

from ctc_align.config import settings_toml
from ctc_align.corpus.state.journal import Journal
from ctc_align.corpus.state.summary import summarize
from ctc_align.files import rendered, to_dict
from ctc_align.types import Region, SourceCue, Subtitles

ROOT = Path(__file__).resolve().parents[2]
VOCAB = ["<b>", "|", *"abcdefghijklmnopqrstuvwxyz'"]
FRAMES = 20

LONG_GRID = """File type = "ooTextFile"
Object class = "TextGrid"

xmin = 0
xmax = 2.5
tiers? <exists>
size = 2
item []:
    item [1]:
        class = "IntervalTier"
        name = "Ann - words"
        xmin = 0
        xmax = 2.5
        intervals: size = 2
        intervals [1]:
            xmin = 0
            xmax = 1e0
            text = "She said ""hello"" twice"
        intervals [2]:
            xmin = 1
            xmax = 2.5
            text = ""
    item [2]:
        class = "TextTier"
        name = "points"
        xmin = 0
        xmax = 2.5
        points: size = 1
        points [1]:
            number = 0.5
            mark = "here"
"""
SHORT_GRID = (
    '"ooTextFile"\n"TextGrid"\n0\n1\n<exists>\n1\n"IntervalTier"\n"words"\n0\n1\n1\n0\n1\n"hello"\n'
)


@cache
def _object(utterance: str = "a") -> str:
    cues = (
        SourceCue(0, 3, 0.1, 0.4, "1"),
        SourceCue(4, 13, 0.4, 1.3, "2", "line:0", "NOTE x", "two &amp; three"),
    )
    fields: dict[str, Any] = {
        "regions": (Region("unexplained", 0.1, 0.2), Region("misfit", None, None, 0, 3, "why")),
        "subtitles": Subtitles("vtt", "WEBVTT", cues, ""),
        "unexplained": ((1.4, 1.9),),
        "config": {"min_confidence": 0.5, "times": "recording"},
        "fit": "good",
        "unknown_letters": {"ß": 1},
        "offset_s": 1.5,
    }
    whole = alignment(utterance)
    data = to_dict(type(whole)(**(vars(whole) | fields)))
    del data["version"]  # so that nobody takes what becomes of it for what ctc-align wrote
    return json.dumps(data, ensure_ascii=False)


def _bare_object() -> str:
    plain = json.loads(_object())
    del plain["subtitles"]
    plain["config"] = {}
    return json.dumps(plain, indent=1)


MANIFEST = (
    '{"audio_filepath": "a.wav", "text": "hello world", "utterance": "u1", "duration": 2.5,'
    ' "offset": 0.5, "channel": 1}\n{"audio": "b.wav", "texts": ["one", "two"], "duration_s": 1,'
    ' "speaker": "ann"}\n{"log_probs": "c.npy", "text": "three", "utterance": 3, "speaker": 4}\n'
)


CUT = (
    '{"id": "c1", "type": "MonoCut", "start": 0.5, "duration": 2, "channel": 0, "recording": {"id":'
    ' "r", "sources": [{"type": "file", "channels": [0, 1], "source": "a.wav"}], "sampling_rate":'
    ' 16000, "num_samples": 64000, "duration": 4.0}, "supervisions": [{"id": "s1", "start": 0.1,'
    ' "duration": 1.5, "channel": 0, "text": "hello", "speaker": "ann"}, {"id": "s2", "start":'
    ' -0.2, "duration": 0.5, "text": "world"}]}\n'
)


def _journals() -> list[Case]:
    with TemporaryDirectory() as folder:
        path = Path(folder, "journal.jsonl")
        with Journal(path) as journal:
            journal.append(
                [journal_line("a", loss=1.5, seconds=0.1, duration_s=2.0, loss_per_token=0.1)]
            )
            doubt = {"words": 1, "unexplained": 0, "least_confidence": 0.5}
            journal.append([journal_line("b", "failed", "no such audio file", doubt=doubt)])
        summary = summarize([path], complete=True)
        summary.write(Path(folder, "summary.json"))
        files = {
            name: Path(folder, name).read_bytes() for name in ("journal.jsonl", "summary.json")
        }
    return [
        files,
        {"journal.jsonl": files["journal.jsonl"], "journal.0-of-2.jsonl": files["journal.jsonl"]},
    ]


GRID = (
    '"ooTextFile" "TextGrid" 0 2 <exists> 3 "IntervalTier" "Ann" 0 2 2 0 1 "So be it." 1 2 "" '
    '"TextTier" "t" 0 2 1 0.5 "x" "IntervalTier" "Ben" 0 2 2 0 1.5 "" 1.5 2 "Yes ""indeed""!"'
)
SLOTS = "".join(f'<TIME_SLOT TIME_SLOT_ID="ts{n}" TIME_VALUE="{n * 400}"/>\n' for n in range(1, 5))
EAF = (
    '<?xml version="1.0" encoding="UTF-8"?>\n<ANNOTATION_DOCUMENT AUTHOR="" DATE="" FORMAT="3.0"'
    ' VERSION="3.0">\n<HEADER TIME_UNITS="milliseconds"><PROPERTY'
    f' NAME="lastUsedAnnotationId">2</PROPERTY></HEADER>\n<TIME_ORDER>\n{SLOTS}<TIME_SLOT'
    ' TIME_SLOT_ID="ts9"/>\n</TIME_ORDER>\n<TIER TIER_ID="Ann"'
    ' LINGUISTIC_TYPE_REF="x"><ANNOTATION><ALIGNABLE_ANNOTATION ANNOTATION_ID="a1"'
    ' TIME_SLOT_REF1="ts1" TIME_SLOT_REF2="ts2"><ANNOTATION_VALUE>So &amp; so it'
    ' is.</ANNOTATION_VALUE></ALIGNABLE_ANNOTATION></ANNOTATION></TIER>\n<TIER TIER_ID="tr"'
    ' PARENT_REF="Ann" LINGUISTIC_TYPE_REF="x"><ANNOTATION><REF_ANNOTATION ANNOTATION_ID="a2"'
    ' ANNOTATION_REF="a1"><ANNOTATION_VALUE>Ainsi</ANNOTATION_VALUE></REF_ANNOTATION></ANNOTATION></TIER>\n'
    '<LINGUISTIC_TYPE LINGUISTIC_TYPE_ID="x" TIME_ALIGNABLE="true"/>\n</ANNOTATION_DOCUMENT>\n'
)
SEGMENTS = (
    '{"text": "a", "segments": [{"start": 0.5, "end": 2, "text": " So be\\nit", "speaker": "A"},'
    ' {"start": null, "end": 1e3, "text": "Yes"}], "timestamp": {"segment": [{"segment": "x",'
    ' "start": 1}]}}'
)
FOREIGN = (
    "@UTF8\n@Begin\n@Languages:\teng\n*CHI:\tso \x150_900\x15\n\tbe . \x15900_1200\x15\n%mor:\tx\n@End\n",
    ";; x\ntalk 1 Ann 0.5 2.25 <o,f0,female> so { uh / @ }\ntalk 1 Ben 3 4\n",
    "SPEAKER t 1 0.4 0.9 <NA> <NA> a <NA> <NA>\nLEXEME t 1 0.4 0.3 so lex a 0.9 <NA>\n",
    '#!MLF!#\n"*/a.lab"\n0 2500000 sil -1.5 SENT-START\n2500000 4000000 s-ao+l -3.5 all\n.\n',
    "LHD: Partitur 1.3\nSAM: 16000\nLBD:\nORT: 0 ja\nSPK: 0 A\nMAU: 0 3200 0 j\nTRN: 0 9000 0,1 <A> ja\n",
    "start\tend\ttext\n500\t1500\tYes\n",
    "0:00:00.500,0:00:01.500\nYes[br]no\n",
    '<Trans xml:lang="fra"><Speakers><Speaker id="s" name="Z"/></Speakers><Turn speaker="s t" startTime="1"'
    ' endTime="2"><Sync time="1"/>oui<Who nb="2"/>non</Turn></Trans>',
    '{"results": {"transcripts": [{"transcript": "So."}], "items": [{"start_time": "0.5", "end_time": "1.5",'
    ' "alternatives": [{"content": "So"}]}, {"alternatives": [{"content": "."}]}], "channels": 2}}',
    '{"speakers": [{"id": 0, "name": "A"}], "monologues": [{"speaker": 0, "elements": [{"value": "So",'
    ' "ts": {"seconds": "1", "nanos": 5}, "end_ts": "00:00:01,5"}]}], "rows": [{"from": 1, "to": 2, "a": "b"}]}',
)
TABLE = (
    'audio,text,start,duration,channel,id,speaker\na.wav,"hello,'
    ' ""you""",0.5,1.5,1,u1,ann\nb.wav,"two\nlines",,,,,\n'
)
TAB_TABLE = 'path\tsentence\tend\tclient_id\na.wav\tso "it is\t2\tann\nb.wav\tworld\t\t\n'
SRT = (
    "1\n00:00:01,000 --> 00:00:02,500 X1:10\nCall me <i>Ishmael</i>.\n\n"
    "2\n00:00:03,000 --> 00:00:04,000\n[MUSIC]\n- Yes.\n"
)
SCP = "r1 a.wav\nr2 sub/b.flac\n"
ONNX_SETTINGS = (
    'features = "nemo-mel"\nframe-shift-s = 0.08\ntokens = "tokens.txt"\nlayers = [[3, 2], [5, 1,'
    ' 2, 2]]\n[nemo_mel]\nbins = 80\nnormalise = "per_feature"\n'
)
PAGES = {
    "a.xhtml": "<h1 id='x'>One</h1><p>Call me <i>I</i>&nbsp;x.<br/>y</p>",
    "b.xhtml": "<p>word</p>",
}
ENCRYPTED = {"META-INF/encryption.xml": "<encryption/>", "OEBPS/b.xhtml": "<p>not <b>closed</p>"}
PROSE = (
    (
        "JOHN: We call it bear. (laughs) It’s the 21st of May 1999, 5:30 p.m.; $3.50, 7/8, 50 % of"
        " 1,234,567 km/h!\n"
    ),
    (
        "# Title\n\n*Hello*, **world** [link](http://x.org) `code` <b>bold</b> &amp; <!-- gone"
        " -->\n\n- one\n- two\n"
    ),
    "<html><body><p>Hello</p><script>x()</script></body></html>",
    (
        "Mr. Smith—née Jones—said: “Dr. No, call 555-0199 or mail a.b@c.org …” [00:01:02] >>"
        " SPEAKER 2: X² + ½ = №5.\n"
    ),
    "日本語 と 中文，ไทย العربية עברית Ελληνικά\n",
)
LANGUAGES = (
    "en de fr es it pt nl sv da no fi pl cs sk ro hu tr vi id ru uk bg el ka hy he ar fa ur hi bn"
    " ta te ml si th lo km my zh yue ja ko am dv kk az lt lv et hr sl eo sw mn und"
)
WAVES = (
    *(
        ("WAV", "PCM_16", 1),
        ("WAV", "FLOAT", 2),
        ("AIFF", "PCM_16", 1),
        ("CAF", "ALAC_16", 1),
        ("RF64", "PCM_16", 1),
    ),
    *(("AU",), ("W64",)),
)


@cache
def _sound(seconds: float = 0.3, rate: int = 16000) -> np.ndarray:
    generator = np.random.default_rng(0)
    return (
        0.3 * np.sin(np.arange(int(seconds * rate)) * 0.05)
        + 0.1 * generator.normal(size=int(seconds * rate))
    ).clip(-1, 1)


def _sound_file(format: str, subtype: str | None = None, channels: int = 1) -> bytes:
    file = io.BytesIO()
    samples = np.repeat(_sound()[:, None], channels, 1)
    soundfile.write(file, samples, 16000, format=format, subtype=subtype)
    return file.getvalue()


def _media(name: str, codec: str, container: str) -> bytes:
    with TemporaryDirectory() as folder:
        samples = _sound(0.3, 48000)[:, None].astype(np.float32)
        path = write_media(Path(folder, name), [(0.0, samples)], 48000, Coding(codec, container))
        return path.read_bytes()


@cache
def _log_probs() -> np.ndarray:
    logits = np.random.default_rng(1).normal(size=(FRAMES, len(VOCAB)))
    return (logits - np.log(np.exp(logits).sum(1, keepdims=True))).astype(np.float32)


def _arrays(suffix: str) -> tuple[bytes, ...]:
    array = _log_probs()
    kinds = (array, array.astype(np.float16), np.asfortranarray(array.astype(np.float64))[None])
    contents: list[bytes] = []
    for each in kinds:
        file = io.BytesIO()
        if suffix == "npy":
            np.save(file, each)
        elif suffix == "npz":
            np.savez_compressed(file, log_probs=each) if each is array else np.savez(file, each)
        elif suffix == "safetensors":
            file.write(save({"log_probs": np.ascontiguousarray(each)}, {"format": "pt"}))
        elif suffix == "pt":
            torch.save({"log_probs": torch.from_numpy(np.ascontiguousarray(each))}, file)
        else:
            kind = b"\0BDM " if each.dtype == np.float64 else b"\0BFM "
            rows = np.ascontiguousarray(each[0] if each.ndim == 3 else each.astype(np.float32))
            file.write(
                kind
                + b"\4"
                + struct.pack("<i", FRAMES)
                + b"\4"
                + struct.pack("<i", len(VOCAB))
                + rows.tobytes()
            )
        contents.append(file.getvalue())
    if suffix == "pt":
        file = io.BytesIO()
        torch.save(torch.from_numpy(array), file, _use_new_zipfile_serialization=False)
        contents.append(file.getvalue())
    return tuple(contents)


def _model_folders() -> list[Case]:
    with TemporaryDirectory() as folder:
        path = tiny_folder(Path(folder, "model"), VOCAB[:6])
        files = {file.name: file.read_bytes() for file in path.iterdir()}
    return [files, files | seeds_of("calibration")[0]]


def _packed(text: str) -> bytes:
    return gzip.compress(text.encode(), mtime=0)


def _read(name: str) -> str:
    return (ROOT / name).read_text("utf-8")


Content = str | bytes
FILES: dict[str, tuple[str, Callable[[], tuple[Content, ...]]]] = {
    "textgrid": ("a.TextGrid", lambda: (LONG_GRID, SHORT_GRID, LONG_GRID.encode("utf-16"))),
    "ctm": (
        "a.ctm",
        lambda: (
            CTM.format("a", "a", "a"),
            ";; a loss 1 loss_per_token 0.1\n" + CTM.format("a", "b", "b"),
        ),
    ),
    "alignment json": ("a.json", lambda: (_object(), _bare_object())),
    "alignments jsonl": ("a.jsonl", lambda: (f"{_object('a')}\n{_object('b')}\n",)),
    "alignments jsonl.gz": ("a.jsonl.gz", lambda: (_packed(f"{_object('a')}\n{_object('b')}\n"),)),
    "manifest": ("m.jsonl", lambda: (MANIFEST,)),
    "manifest gz": ("m.jsonl", lambda: (_packed(MANIFEST),)),
    "csv": ("t.csv", lambda: (TABLE, "path;sentence;end\na.wav;hello;2.5\nb.wav;world;\n")),
    "tsv": ("t.csv", lambda: (TAB_TABLE,)),
    "detected source": ("m.jsonl", lambda: (MANIFEST, TABLE, TAB_TABLE, CUT, _packed(CUT))),
    "lhotse": ("cuts.jsonl", lambda: (CUT, CUT + CUT.replace('"s', '"t'), _packed(CUT))),
    "lexicon": (
        "a.dict",
        lambda: (
            "hello\tHH AH L OW\nworld\t0.99\t0.2\t1.0\t1.0\tW ER L D\nthe DH AH\nthe DH IY\n",
            ";;; comment\nHELLO(2)  HH EH1 L OW0 # remark\na AH\n",
        ),
    ),
    "vocabulary lines": (
        "v.txt",
        lambda: ("\n".join(VOCAB), "<b> 0\na 2\n  1\n", '["<b>", "a"]', '{"<b>": 0, "a": 1}'),
    ),
    "vocabulary json": (
        "v.json",
        lambda: (
            json.dumps(VOCAB),
            json.dumps({token: index for index, token in enumerate(VOCAB)}),
        ),
    ),
    "settings": (
        "a.toml",
        lambda: (
            settings_toml(),
            'chunk_s = 30\nlabels = "written"\nmin_confidence = 0.5\nromanize = true\n',
        ),
    ),
    "--set": (
        "a.set",
        lambda: ("chunk_s=30\nlabels=written", 'channel=2\nlanguage="de"\nmin_confidence = 1'),
    ),
    "recipe": ("a.toml", lambda: (_read("configs/english.toml"),)),
    "calibration": (
        "calibration.toml",
        lambda: (
            _read("ctc_align/models/english/calibration.toml"),
            'format = "ctc-align-calibration/1"\nblank_cost = 1.5\nspike_gap_s = 0.2\n',
        ),
    ),
    "labels map": ("a.map", lambda: ("# comment\nax ah\nix ih # remark\nq\n",)),
    "subtitles": (
        "a.srt",
        lambda: (
            SRT,
            (
                "00:01.5 -> 00:02.5\nhello\n\n7\n1:00:03,5 --> 1:00:04,0\n{\\an8}<font color=red>5"
                " % of $3.50</font>\n"
            ),
        ),
    ),
    "vtt": (
        "a.vtt",
        lambda: (
            (
                "WEBVTT - x\n\nSTYLE\n::cue {}\n\nNOTE hello\n\none\n"
                "00:01.000 --> 00:02.000 line:0\n<v Mary>Hello <00:01.500>there &amp; you\n"
                "\n00:03.000 --> 00:04.000\n<c.loud>OK</c>\n"
            ),
        ),
    ),
    "document": ("a.doc", lambda: (GRID, EAF, SEGMENTS, f"{SEGMENTS}\n{SEGMENTS}", *FOREIGN)),
    "book": ("a.epub", lambda: (made_epub(PAGES), made_epub(PAGES, ENCRYPTED))),
    "transcript": ("a.txt", lambda: PROSE),
    "wav": ("a.wav", lambda: tuple(_sound_file(*kind) for kind in WAVES)),
    "flac": ("a.flac", lambda: (_sound_file("FLAC"), _sound_file("FLAC", channels=2))),
    "ogg": (
        "a.ogg",
        lambda: (
            _sound_file("OGG", "VORBIS"),
            _sound_file("OGG", "OPUS"),
            _sound_file("OGG", "VORBIS") * 2,
        ),
    ),
    "mp3": ("a.mp3", lambda: (_sound_file("MP3", "MPEG_LAYER_III"),)),
    "mp4": ("a.m4a", lambda: (_media("a.m4a", "aac", "mp4"),)),
    "webm": ("a.webm", lambda: (_media("a.webm", "libopus", "webm"),)),
    **{
        suffix: (f"a.{suffix}", partial(_arrays, suffix))
        for suffix in ("npy", "npz", "safetensors", "pt", "ark")
    },
}
"""By the reader's name: the file, and what it may hold, made where it is needed."""
FOLDERS: dict[str, Callable[[], list[dict[str, Content]]]] = {
    "kaldi": lambda: [
        {
            "wav.scp": SCP,
            "text": "u1 hello world\nu2 again\n",
            "segments": "u1 r1 0.5 2.5\nu2 r2 1 -1 0\n",
            "utt2spk": "u1 ann\nu2 ben\n",
        },
        {"wav.scp": SCP, "text": "r1 hello\nr2 world\n"},
        {"logprobs.scp": "u1 a.ark:17\nu2 b.npy\n", "text": "u1 hello\nu2 world\n"},
    ],
    "librispeech": lambda: [
        {
            "1-2.trans.txt": "1-2-0000 HELLO WORLD\n1-2-0001 AGAIN\n",
            "1-2-0000.flac": "fLaC",
            "1-2-0001.flac": "",
        }
    ],
    "mfa folder": lambda: [
        {"a.wav": "RIFF", "a.TextGrid": LONG_GRID, "b.wav": "", "b.lab": "hello there"},
        {"a.mp3": "ID3", "a.srt": SRT, "c.mp4": "", "c.txt": "x", "c.TextGrid": ""},
    ],
    "languages": lambda: [{f"{code}.txt": PROSE[-1] + PROSE[0]} for code in LANGUAGES.split()],
    "hand labels": lambda: [
        {f"a.{end}": rendered(talk_alignment(), end.lower()) for end in ("json", "TextGrid")}
    ],
    "onnx settings": lambda: [{"a.toml": ONNX_SETTINGS, "a.onnx": ""}],
    "journal, summary": lambda: _journals(),
    "model folder": lambda: _model_folders(),
}
"""Samples of several files, by the reader's name."""


def seeds_of(name: str) -> list[Case]:
    """Return the valid samples of a reader."""
    if name in FOLDERS:
        cases = FOLDERS[name]()
    else:
        file, contents = FILES[name]
        cases = [{file: content} for content in contents()]
    return [
        {file: each.encode() if isinstance(each, str) else each for file, each in case.items()}
        for case in cases
    ]
