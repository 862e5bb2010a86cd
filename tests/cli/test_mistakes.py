"""Mistakes of a caller and what is said to them: what is wrong, where, what to do, and the exit
code.

`pytest -s tests/cli/test_mistakes.py` reads them aloud.
"""

from __future__ import annotations

import json
import shlex
import shutil
from pathlib import Path

import numpy as np
import pytest
from made_books import made_zip
from made_sounds import babble
from sample_alignments import aligned, make_alignment

HEADER = '"ooTextFile"\n"TextGrid"\n0\n1\n<exists>\n1\n'
TEXTGRID = HEADER + '"IntervalTier" "words" 0 1 1 0 1 "a"\n'
FILES = {
    "talk.txt": b"Hello, big world!\n",
    "other.txt": b"Good night.\n",
    "empty.txt": b"",
    "empty.wav": b"",
    "paper.txt": b"%PDF-1.4\n\xe2\xe3\xcf\xd3",
    "paper.pdf": b"%PDF-1.4\n\xe2\xe3\xcf\xd3",
    "letter.txt": b"{\\rtf1 Hello}",
    "page.html": b"<!DOCTYPE html><html><body>Hi</body></html>",
    "wide.txt": "Hello there".encode("utf-16-le"),
    "marked.txt": "Hello there".encode("utf-16"),
    "latin.txt": "café".encode("latin-1"),
    "russian.txt": "Добрый день, друзья".encode(),
    "broken.srt": b"1\n00:00:01,000 --> 00:00:02,000\nHello\n\n2\n00:00:03,000 --> soon\nthere\n",
    "grid.TextGrid": TEXTGRID.encode(),
    "broken.TextGrid": HEADER.encode(),
    "broken.eaf": b'<?xml version="1.0"?><ANNOTATION_DOCUMENT AUTHOR="">',
    "silent.TextGrid": TEXTGRID.replace('"a"', '""').encode(),
    "segments.json": b'[{"text": "a", "start": 0, "end": 1}, {"text": "b", "start": "x"}]',
    "grids/a.TextGrid": TEXTGRID.encode(),
    "grids/b.TextGrid": TEXTGRID.encode(),
    "vocab.txt": b"<blank>\na\nb\n",
    "bad.toml": b"chunk_z = 3\n",
    "worse.toml": b"chunk_s = 'long'\nchunk_z = 3\n",
    "latin.TextGrid": TEXTGRID.replace('"a"', '"Grüße"').encode("latin-1"),
    "nothing.ctm": b";; nothing loss 1\n",
    "nothing.json": b"{}",
    "bad.dict": b"hello\n",
    "done.json": b"{}",
    "train.jsonl": b'{"audio": "talk.wav", "text": "a"}\n',
    "plot.png": b"mine",
    "broken.epub": made_zip({"mimetype": "application/epub+zip"}),
}
LONG = "a" * 300
GONE_BENCH = "bench: this command was removed; ctc-align doctor --speed compares"
LOG_PROBS = "scores.npy --vocab vocab.txt --frame-shift 0.02"
MADE = make_alignment((aligned("Hello", 0.1, 0.4, 0, "ab"),), 1.0, audio="../talk.wav").to_dict()
ALIGNMENTS: dict[str, dict[str, object]] = {
    "talk": {},
    "moved": {"audio": "elsewhere/demo.flac"},
    "setting": {"config": {"edges": "bent"}},
    "probs": {"model": "log-probs"},
    "nowhere": {"audio": ""},
    "piped": {"audio": "-"},
}
FILES |= {
    f"made/{name}.json": json.dumps({**MADE, **fields}).encode()
    for name, fields in ALIGNMENTS.items()
}
FILES |= {
    "made/talk.TextGrid": TEXTGRID.encode(),
    "made/talk.ctm": b";; a loss 1\na 1 0 1 x 0.9\n",
    "made/talk.eaf": FILES["broken.eaf"],
}
FILES |= {"made/talk.srt": FILES["broken.srt"], "made/talk.svg": b"<?xml version='1.0'?>\n<svg/>"}
FILES["made/other.json"] = b'{"segments": []}'
NO_MODEL = "model nonesuch: no such model or folder; expected english"

MISTAKES = [
    # files
    ("tallk.wav talk.txt", 2, "tallk.wav: no such audio file; did you mean talk.wav?"),
    ("talk.mp3 talk.txt", 2, "talk.mp3: no such audio file; did you mean talk.wav?"),
    ("https://example.org/talk.mp3 talk.txt", 2, "got a URL; download it first"),
    (
        "folder talk.txt",
        2,
        "folder: expected an audio file, got a folder; name a file in it, or see ctc-align corpus",
    ),
    (
        "talk.wav",
        2,
        "no transcript for talk.wav",
        'or --text "…"',
        "did you mean: ctc-align talk.wav talk.txt",
    ),
    (
        "talk.wav none.txt",
        2,
        "none.txt: no such transcript file; give a UTF-8 text file, - for stdin, or --text",
    ),
    ("talk.wav folder", 2, "folder: expected a transcript file, got a folder"),
    (
        "talk.wav talk.txt --text Hello",
        2,
        "given twice, as talk.txt and with --text; give one of them",
    ),
    (
        "talk.wav --text talk.txt",
        2,
        "--text talk.txt: is a file; give it as TRANSCRIPT, without --text",
    ),
    (
        "talk.wav --text none.epub",
        2,
        "--text none.epub: no such book; give the path of an EPUB, or the words",
    ),
    (
        "talk.wav broken.epub",
        1,
        "broken.epub: expected META-INF/container.xml in the book",
        "get it again",
    ),
    (
        "corpus folder --text none.txt --out-dir out",
        2,
        "--text none.txt: expected a file, no such file",
    ),
    (
        "corpus train.jsonl --text talk.txt --out-dir out",
        2,
        "train.jsonl: expected a folder of recordings that read",
    ),
    (
        "corpus folder --text talk.txt --match exact --out-dir out",
        2,
        "--match exact needs all of it to be read",
    ),
    (
        "corpus folder --text empty.txt --out-dir out",
        1,
        "--text empty.txt: the transcript is empty",
    ),
    ("score talk.wav --text talk.txt", 2, "--text talk.txt: is a file; give it as TRANSCRIPT"),
    ("paper.pdf talk.wav", 2, "these look swapped; did you mean: ctc-align talk.wav paper.pdf"),
    ("wide.txt talk.wav", 2, "these look swapped; did you mean: ctc-align talk.wav wide.txt"),
    ("- -", 2, "AUDIO and TRANSCRIPT are both -", "give the transcript as a file"),
    ("talk.txt talk.wav", 2, "these look swapped; did you mean: ctc-align talk.wav talk.txt"),
    (
        "talk.txt 'my talk.wav'",
        2,
        "these look swapped; did you mean: ctc-align 'my talk.wav' talk.txt",
    ),
    (
        "score talk.txt talk.wav",
        2,
        "these look swapped; did you mean: ctc-align score talk.wav talk.txt",
    ),
    (
        "score talk.txt other.txt talk.wav",
        2,
        "these look swapped",
        "mean: ctc-align score talk.wav talk.txt other.txt",
    ),
    ("score talk.txt talk.txt", 2, "got a text file; the transcript comes after it"),
    ("score talk.wav 'my talk.wav'", 2, "got a second recording (talk.wav is one too)"),
    (
        "talk.wav 'my talk.wav'",
        2,
        "my talk.wav: expected a transcript",
        "give a text of what talk.wav says",
    ),
    ("talk.txt other.txt", 2, "talk.txt: expected a recording as AUDIO, got a text file"),
    ("empty.wav talk.txt", 1, "empty.wav: expected audio, got an empty file"),
    ("talk.wav empty.txt", 1, "empty.txt: the transcript is empty; expected at least one word"),
    (
        "talk.wav --text '— … —'",
        1,
        "--text: nothing in the transcript is spoken",
        "expected at least one word",
    ),
    (
        "talk.wav paper.txt",
        2,
        "paper.txt: expected a transcript",
        "got a PDF document; save its text",
        "pdftotext",
    ),
    (
        "score talk.wav letter.txt",
        2,
        "letter.txt: expected a transcript",
        "got an RTF document; save its text",
    ),
    (
        "talk.wav page.html",
        2,
        "page.html: expected a transcript",
        "got an HTML page; open it in a browser",
    ),
    (
        "talk.wav broken.TextGrid",
        1,
        "broken.TextGrid:6: not a TextGrid that can be read: expected a tier class",
    ),
    (
        "talk.wav silent.TextGrid",
        1,
        "expected a tier with text between two times",
        "(words)",
        "write the sentences",
    ),
    ("talk.wav broken.eaf", 1, "broken.eaf:1: not an ELAN file that can be read: no element found"),
    (
        "talk.wav segments.json",
        1,
        "segments.json, segment 2: expected its start and end in seconds, got 'x'",
        "correct",
    ),
    (
        "talk.wav wide.txt",
        1,
        "wide.txt: expected text",
        "UTF-16 (little-endian)",
        "--encoding utf-16-le",
    ),
    (
        "talk.wav talk.txt --config worse.toml",
        2,
        "chunk_s: expected a number above 0, got 'long'; worse.toml: unknown",
    ),
    (
        "talk.wav latin.TextGrid",
        1,
        "latin.TextGrid, line 7: expected UTF-8, got byte 0xfc",
        "give --encoding cp1252",
    ),
    (
        "evaluate latin.TextGrid grid.TextGrid",
        1,
        "latin.TextGrid, line 7: expected UTF-8",
        '("Grüße"): give --encoding cp1252',
    ),
    (
        "evaluate nothing.ctm grid.TextGrid",
        1,
        "got an empty file (no word has times there); its alignment is in nothing",
    ),
    *(
        (
            f"{call} --encoding klingon",
            2,
            "--encoding: expected the name of an encoding",
            "'klingon'",
        )
        for call in ("talk.wav latin.txt", "evaluate grid.TextGrid grid.TextGrid")
    ),
    (
        "talk.wav latin.txt",
        1,
        "latin.txt, line 1: expected UTF-8, got byte 0xe9",
        "--encoding cp1252",
    ),
    (
        "talk.wav broken.srt",
        1,
        "broken.srt, line 6: expected the times of a cue",
        "correct that line",
    ),
    (
        "talk.wav russian.txt --model english",
        1,
        "cannot spell any",
        "in Cyrillic letters",
        "--model",
        "--romanize",
    ),
    ("'' talk.txt", 2, "AUDIO: expected the path of a file, got an empty one"),
    ("talk.wav ''", 2, "TRANSCRIPT: expected the path"),
    (
        "talk.wav talk.txt --out-dir ''",
        2,
        "--out-dir: expected the path of a folder, got an empty one",
    ),
    ("talk.wav talk.txt --lexicon ''", 2, "--lexicon: expected the path"),
    (f"{LONG}.wav talk.txt", 2, "a.wav: cannot be read: File name too long"),
    (f"talk.wav talk.txt --lexicon {LONG}", 2, "cannot be read: File name too long"),
    (f"talk.wav talk.txt --out-dir {LONG}", 2, "cannot be written (File name too long"),
    ("talk.wav talk.txt extra", 2, "unexpected extra argument", "a name with spaces needs quotes"),
    # options
    ("talk.wav talk.txt --format ''", 2, "got an empty list"),
    ("talk.wav talk.txt --format smil", 2, "--format smil needs an EPUB book as transcript"),
    ("talk.wav talk.txt --times noon", 2, "times: expected 'utterance' or 'recording', got 'noon'"),
    ("talk.wav talk.txt --tiers words,pitch", 2, "--tiers: expected a list of words"),
    ("talk.wav talk.txt --lexicon .", 2, "--lexicon .: expected a file, got a folder"),
    ("talk.wav talk.txt --blank 0", 2, "--blank: only for log-probs"),
    ("scores.npy talk.txt --vocab vocab.txt", 2, "scores.npy: log-probs need --frame-shift"),
    ("scores.npy talk.txt --frame-shift 0.02", 2, "scores.npy: log-probs need --vocab"),
    ("scores.npy talk.txt --vocab none --frame-shift 0.02", 2, "--vocab none: expected a file"),
    ("scores.npy talk.txt --vocab vocab.txt --frame-shift -1", 2, "frame shift"),
    (f"{LOG_PROBS} talk.txt --model english", 2, "already come from a model"),
    (
        "talk.wav talk.txt --language xx",
        2,
        "--language xx: expected the code of a language (ISO 639",
    ),
    (
        "corpus train.jsonl --out-dir out --language klingon",
        2,
        "--language klingon",
        "did you mean tlh (Klingon)?",
    ),
    ("train train.jsonl --out-dir out --language Deutsch", 2, "did you mean de (German)?"),
    (
        "talk.wav talk.txt --model englsh",
        2,
        "model englsh: no such model or folder; did you mean english?",
    ),
    ("done.wav talk.txt --model nonesuch", 2, NO_MODEL),
    (
        "done.wav talk.txt",
        2,
        "done.json: already exists; give --force to replace it, or another --out-dir",
    ),
    (
        "talk.wav talk.txt --model folder",
        2,
        "model folder: expected a folder with model.toml and model.safetensors",
    ),
    (
        "talk.wav talk.txt --device gpu",
        2,
        "device: expected auto, cpu, cuda, cuda:N or mps, got 'gpu'",
    ),
    (
        "talk.wav talk.txt --backend fast",
        2,
        "backend: expected one of auto, reference, cpu, gpu; got 'fast'",
    ),
    (
        "talk.wav talk.txt --format docx",
        2,
        "--format: expected formats out of json, ctm",
        "got docx",
    ),
    (
        "talk.wav talk.txt --stdout --format json,ctm",
        2,
        "--stdout takes exactly one format, got json, ctm",
    ),
    (
        "talk.wav talk.txt --stdout --out-dir out",
        2,
        "--stdout writes no files: omit --out-dir or --stdout",
    ),
    ("talk.wav talk.txt --out-dir talk.txt", 2, "talk.txt: expected a folder for the outputs"),
    (
        "talk.wav talk.txt --outdir out",
        2,
        "No such option: --outdir",
        "--out-dir",
        "see ctc-align align --help",
    ),
    (
        "talk.wav --transcript talk.txt",
        2,
        "--transcript: no such option",
        "the file as the second argument",
    ),
    (
        "talk.wav --transcript=talk.txt",
        2,
        "--transcript: no such option",
        "the file as the second argument",
    ),
    (
        "align talk.wav --text-file talk.txt",
        2,
        "--text-file: no such option",
        "as the second argument",
    ),
    (
        "--audio talk.wav talk.txt",
        2,
        "--audio: no such option; give the recording as the first argument",
    ),
    (
        "talk.wav talk.txt --output out",
        2,
        "--output: no such option; use -o DIR, --out-dir DIR (a folder)",
    ),
    (
        "talk.wav talk.txt --lexicon none.dict",
        2,
        "--lexicon none.dict: expected a file, no such file",
    ),
    (
        "talk.wav talk.txt --lexicon bad.dict",
        1,
        "bad.dict:1: expected phones after the word 'hello'",
        "add them or",
    ),
    (
        "talk.wav talk.txt --config bad.toml",
        2,
        "bad.toml: unknown setting 'chunk_z': did you mean 'chunk_s'?",
    ),
    ("talk.wav talk.txt --set chunk_s=-1", 2, "--set chunk_s: expected a number above 0, got -1.0"),
    (
        "talk.wav talk.txt --min-confidence 2",
        2,
        "--min-confidence: expected a number from 0 to 1, got 2.0",
    ),
    ("talk.wav talc.txt", 2, "talc.txt: no such transcript file; did you mean talk.txt?"),
    ("talk.wav talk.txt --format str", 2, "got str; did you mean srt?"),
    (
        "talk.wav talk.txt --frame-rate 24p",
        2,
        "expected a number of frames per second such as 24 or 23.976, got '24p'",
    ),
    (
        "scores.npy talk.txt --frame-shift 20ms",
        2,
        "expected a number of seconds such as 0.02, got '20ms'",
    ),
    (
        "talk.wav talk.txt --max-line 2.5",
        2,
        "'--max-line': expected a whole number, got '2.5'; see",
    ),
    (
        "talk.wav talk.txt --max-skipped 200",
        2,
        "--max-skipped: expected a number from 0 to 100, got 200.0",
    ),
    ("corpus train.jsonl --out-dir out --max-skipped x", 2, "Invalid value for '--max-skipped'"),
    (
        "talk.wav talk.txt --channel middle",
        2,
        "--channel: expected mix, left, right or a number from 1, got 'middle'",
    ),
    (
        "talk.wav talk.txt --channel 7",
        1,
        "talk.wav: expected channel 7, got a recording of 1 channel",
        "mix",
    ),
    ("talk.wav talk.txt --cues maybe", 2, "--cues: expected 'keep' or 'again', got 'maybe'"),
    ("scores.npy talk.txt", 2, "scores.npy: log-probs need --vocab and --frame-shift too"),
    ("talk.wav talk.txt --vocab vocab.txt", 2, "--vocab: only for log-probs", "got talk.wav"),
    # commands
    ("nonesuch talk.txt", 2, "nonesuch: no such audio file; if a command was meant"),
    ("align", 2, "Missing argument 'AUDIO'"),
    ("algin talk.wav talk.txt", 2, "algin: no such command", "did you mean align?"),
    ("score", 2, "Missing argument 'AUDIO|SOURCE'; see ctc-align score --help"),
    ("score talk.wav", 2, "did you mean: ctc-align score talk.wav talk.txt"),
    ("score talk.wav talk.txt none.txt", 2, "none.txt: no such transcript file"),
    (
        "score talk.wav talk.txt --format csv",
        2,
        "--format: expected table, tsv or jsonl, got 'csv'",
    ),
    ("score talk.wav talk.txt --model nonesuch", 2, NO_MODEL),
    ("score talk.wav talk.txt --worst 10", 2, "--worst: no such option; sort the rows"),
    ("score scores.npy", 2, "no transcript for scores.npy"),
    ("score none.wav talk.txt", 2, "none.wav: no such audio file"),
    (f"score {LOG_PROBS} - -", 2, "standard input (-) can be read only once"),
    (f"score {LOG_PROBS} ''", 2, "got an empty one"),
    (f"score {LOG_PROBS} talk.txt --max-loss nan", 2, "--max-loss: expected a number, got nan"),
    (f"score {LOG_PROBS} talk.txt --workers 2", 2, "--workers: only for a SOURCE"),
    ("score train.jsonl --workers 0", 2, "workers: expected at least 1, got 0"),
    ("score train.jsonl --batch-seconds 0", 2, "batch_seconds: expected"),
    ("score none.jsonl", 2, "none.jsonl: no such file", "expected a manifest"),
    ("corpus", 2, "SOURCE: expected a manifest or a folder; see ctc-align corpus --help"),
    (
        "corpus none",
        2,
        "none: no such file or folder; expected a manifest",
        "or a folder as SOURCE",
    ),
    ("corpus train.jsonl", 2, "--out-dir: a corpus needs a folder"),
    (
        "corpus folder --out-dir out",
        2,
        "folder: expected a corpus (wav.scp",
        "got a folder without any",
    ),
    (
        "corpus talk.wav --out-dir out",
        2,
        "talk.wav: expected a manifest",
        "to align it: ctc-align AUDIO TRANSCRIPT",
    ),
    ("corpus train.jsonl --out-dir out --model nonesuch", 2, NO_MODEL),
    (
        "corpus train.jsonl --out-dir out --shard 4/4",
        2,
        "--shard: expected I/N with I from 0 to N - 1, got '4/4'",
    ),
    *(
        (f"corpus train.jsonl --out-dir out --shard={part}", 2, "--shard: expected I/N")
        for part in ("-1/2", "a/b", "1/0")
    ),
    (
        "corpus --summary --out-dir sh",
        2,
        "expected DIR, got the option --out-dir; did you mean --summary sh?",
    ),
    (
        "talk.wav talk.txt --lexicon --force",
        2,
        "--lexicon: expected FILE, got the option --force; see ctc-align align",
    ),
    (
        "corpus train.jsonl --out-dir out --by pause",
        2,
        "--by pause: needs --cut-audio",
    ),
    (
        "corpus train.jsonl --out-dir out --pause-s 1",
        2,
        "--pause-s: needs --cut-audio --by pause",
    ),
    ("corpus --summary none", 2, "--summary none: expected the output folder of a corpus run"),
    (
        "corpus train.jsonl --out-dir talk.txt",
        2,
        "--out-dir talk.txt: expected a folder, got a file",
    ),
    ("corpus train.jsonl --out-dir out --workers 0", 2, "--workers: expected"),
    ("corpus train.jsonl --out-dir out --batch-seconds nan", 2, "--batch-seconds: expected"),
    ("corpus train.jsonl --out-dir out --layout boxes", 2, "--layout: expected"),
    ("corpus train.jsonl --out-dir out --format smil", 2, "--format smil needs an EPUB book"),
    ("corpus train.jsonl --out-dir out --backend tpu", 2, "--backend: expected"),
    (
        "corpus train.jsonl --out-dir out --lexicon none.dict",
        2,
        "--lexicon none.dict: expected a file",
    ),
    ("corpus train.jsonl --out-dir out --source tape", 2, "tape"),
    ("corpus train.jsonl --summary out", 2, "takes no SOURCE"),
    ("corpus grids --out-dir grids", 2, "is the corpus itself"),
    ("evaluate none grids", 2, "none: no such file or folder (the hypothesis)"),
    (
        "evaluate grids grid.TextGrid",
        2,
        "expected two files or two folders, got grids and grid.TextGrid",
    ),
    (
        "evaluate talk.txt grid.TextGrid",
        2,
        "talk.txt: expected an alignment (a TextGrid, ctc-align JSON or CTM)",
    ),
    (
        "evaluate grids grids --tier words=Wort",
        2,
        "got: 1 words; rename it, or give evaluate",
        "--tier words=NAME",
    ),
    (
        "evaluate grid.TextGrid grid.TextGrid --tier phones",
        2,
        "expected an interval tier named phones",
        "1 words; rename",
    ),
    (
        "evaluate grids grids --tier syllables",
        2,
        "expected the tier words or phones",
        "got 'syllables'",
    ),
    (
        "evaluate grids grids --max-mae -1",
        2,
        "--max-mae: expected milliseconds, 0 or more, got -1.0",
    ),
    (
        "train none --out-dir out",
        2,
        "none: no such file or folder; expected a manifest",
        "or a folder as CORPUS",
    ),
    ("train train.jsonl", 2, "--out-dir: give a folder for the new model"),
    ("train", 2, "Missing argument 'CORPUS'"),
    ("train '' --out-dir out", 2, "CORPUS: expected a manifest or a folder"),
    ("train train.jsonl --out-dir out --dev ''", 2, "--dev: expected a manifest or a folder"),
    ("train train.jsonl --out-dir out --lexicon none.dict", 2, "none.dict"),
    (
        "train train.jsonl --out-dir out --config none",
        2,
        "config 'none': no such file, and no such name",
    ),
    ("train train.jsonl --out-dir out --device tpu", 2, "device: expected auto, cpu, cuda"),
    ("train train.jsonl --out-dir out --epochs 0", 2, "--epochs"),
    ("train train.jsonl --out-dir talk.txt", 2, "expected a folder, got a file"),
    ("adapt train.jsonl", 2, "--out-dir: give a folder for the new model"),
    (
        "adapt train.jsonl --out-dir out --model nonesuch",
        2,
        "--model nonesuch: expected english, universal or the folder",
    ),
    ("calibrate nonesuch grids --out-dir out", 2, NO_MODEL),
    (
        "calibrate english folder --out-dir out",
        2,
        "folder: expected hand-labelled TextGrids in this folder",
    ),
    ("models show nonesuch", 2, NO_MODEL),
    (
        "models list",
        2,
        "expected `ctc-align models`, `ctc-align models show NAME` or `ctc-align models languages`",
    ),
    ("models show", 2, "ctc-align models show NAME"),
    ("view none.json", 2, "no such file"),
    ("view made", 2, "got a folder; name files in it: made/*.json"),
    (
        "view talk.wav",
        2,
        "expected JSON of an alignment, got a sound or video file; ctc-align writes it",
    ),
    ("view made/talk.TextGrid", 2, "got a TextGrid; did you mean made/talk.json?"),
    ("view made/talk.ctm", 2, "got a CTM file; did you mean"),
    ("view made/talk.eaf", 2, "got an ELAN file; did you mean"),
    ("view made/talk.srt", 2, "got subtitles; did you mean"),
    ("view page.html", 2, "got an HTML page; ctc-align"),
    ("view made/talk.svg", 2, "got a picture (SVG); did you mean"),
    (
        "view made/talk.json -o talk.txt",
        2,
        "expected a folder for the outputs, but talk.txt is a file",
    ),
    ("view made/talk.json folder/../made/talk.json", 2, "two pages would be talk.html"),
    ("view made/talk.json --audio none.wav", 2, "no such file or folder"),
    ("view made/talk.json --theme pink", 2, "--theme: expected auto, light or dark, got 'pink'"),
    ("view made/talk.json --audio short.wav", 1, "short.wav"),
    (
        "report none",
        2,
        "OUT_DIR none: expected the output folder of a corpus run, got no such folder",
    ),
    ("report folder", 2, "OUT_DIR folder: there is no journal in it"),
    ("report ''", 2, "OUT_DIR: expected the path of a folder, got an empty one"),
    ("report folder -o ''", 2, "--out-dir: expected the path of a folder, got an empty one"),
    ("realign none.json", 2, "none.json: no such file; expected JSON of an alignment"),
    ("realign made", 2, "got a folder; name files in it"),
    (
        "realign made/moved.json --audio none.wav",
        2,
        "none.wav: no such file or folder; expected a recording or a folder of",
    ),
    (
        "realign made/talk.json made/moved.json --audio talk.wav",
        2,
        "one recording for 2 alignments: give their folder",
    ),
    ("realign made/moved.json --audio made", 2, "'elsewhere/demo.flac' is not in"),
    (
        "realign made/setting.json --audio talk.wav",
        2,
        "setting.json: config.edges: expected 'auto', 'spikes'",
    ),
    (
        "realign made/probs.json --audio talk.wav",
        2,
        "from log-probs: give them with --audio FILE, --vocab and",
    ),
    ("realign made/nowhere.json", 2, "this alignment names no recording; give it with --audio"),
    ("realign made/piped.json", 2, "this alignment names no recording; give it with --audio"),
    ("realign made/nowhere.json --audio made", 2, "its recording 'nowhere' is not in"),
    (
        "realign made/talk.json --format smil",
        2,
        "--format smil needs an EPUB book as transcript; the transcript",
    ),
    (
        "convert made/talk.json",
        2,
        "--format: expected the formats to write, such as srt,vtt; got none",
    ),
    ("convert made/talk.json --format srt,wav", 2, "expected formats out of json"),
    ("convert made/talk.ctm --format srt", 2, "got a CTM file; did you mean made/talk.json?"),
    (
        "convert made/other.json --format srt",
        1,
        'expected an alignment of format "ctc-align/1", got other JSON',
    ),
    (
        "convert none.json --format srt",
        2,
        "no such file; expected JSON of an alignment",
    ),
    ("convert made/talk.json --format srt,vtt --stdout", 2, "--stdout takes exactly one format"),
    (
        "convert made/talk.json --format smil",
        2,
        "smil needs an EPUB book as transcript; the transcript of made/talk.json",
    ),
    (
        "convert made/talk.json --format html --audio none.wav",
        2,
        "--audio none.wav: expected a recording",
    ),
    ("convert made/talk.json --format ctm -o made", 2, "made/talk.ctm: already exists"),
    ("bench --quick --device cpu", 2, GONE_BENCH),
    ("help bench", 2, GONE_BENCH),
    ("doctor --format xml", 2, "--format: expected text or json, got 'xml'"),
    (
        "demo --out-dir talk.txt",
        2,
        "talk.txt: expected a folder for the outputs, but talk.txt is a file",
    ),
]


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    import soundfile

    monkeypatch.chdir(tmp_path)
    for name, data in FILES.items():
        Path(name).parent.mkdir(exist_ok=True)
        Path(name).write_bytes(data)
    Path("folder").mkdir()
    soundfile.write("talk.wav", babble(1.0), 16000)
    soundfile.write("short.wav", babble(0.5), 16000)
    for name in ("my talk.wav", "done.wav"):
        shutil.copy("talk.wav", name)
    np.save("scores.npy", np.zeros((5, 3), np.float32))
    return tmp_path


def test_mistakes_are_told_what_where_and_what_to_do(cli, here, request, capsys):
    """Each in one line without a traceback, with its exit code, and with nothing written."""
    before = sorted(here.rglob("*"))
    faults, aloud = [], []
    for line, code, *says in MISTAKES:
        result = cli(*shlex.split(line))
        if result.code != code or not all(part in result.stderr for part in says):
            faults.append(
                f"ctc-align {line}: {result.code}, expected {code} and {says}\n   {result.stderr}"
            )
        assert result.error, line
        assert "Traceback" not in result.stderr
        aloud.append(f"$ ctc-align {line}\n{result.stderr.strip()}   [exit {result.code}]\n")
        assert sorted(here.rglob("*")) == before, line
    if request.config.getoption("capture") == "no":
        with capsys.disabled():
            print("\n" + "\n".join(aloud))
    assert len(MISTAKES) >= 40
    assert not faults, "\n".join(faults)


def test_what_is_missing_is_told_before_what_is_there_already(cli, here):
    """Arguments, then input files, then the model, then outputs: done.json is there, and is told
    last."""
    for wrong, says in (
        ("done.wav talk.txt --format docx --model nonesuch", "--format"),
        ("done.wav empty.txt --model nonesuch", "empty.txt"),
        ("done.wav talk.txt --model nonesuch", "nonesuch"),
        ("done.wav talk.txt", "done.json: already exists"),
    ):
        assert says in cli(*shlex.split(wrong)).error
