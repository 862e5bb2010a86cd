"""A server on a loopback port in this process, with an aligner that only spreads words; requests by
http.client."""

from __future__ import annotations

import copy
import http.client
import io
import json
import re
import threading
import time
import types
import wave
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from fnmatch import fnmatch
from functools import partial
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from ctc_align.config import Settings
from ctc_align.errors import InputError
from ctc_align.serve.alignment_folder import AlignmentFolder
from ctc_align.serve.jobs import ServerLimits
from ctc_align.serve.openapi import api_description
from ctc_align.serve.server import Address, AlignServer
from ctc_align.text import require_words, words_of
from ctc_align.types import AlignedWord, Alignment

Parts = list[tuple[str, str | None, bytes]]
"""Parts of a form: name, file name or None, content."""


class SpreadingAligner:
    """Spreads words evenly; `batches` holds how many recordings went through together, `gate` lets
    them pass.

    One that is `deaf` tells nothing while it works, and so cannot be stopped.
    """

    def __init__(self) -> None:
        self.settings = Settings(language="en")
        self.model = types.SimpleNamespace(
            name="spread",
            sample_rate=16000,
            frame_shift_s=0.01,
            vocab=("<blank>", "a"),
            token_kind="tokens",
        )
        self.batches: list[int] = []
        self.gate = threading.Event()
        self.gate.set()
        self.deaf = False
        self._choice = types.SimpleNamespace(
            by_text=False,
            language_of=lambda text: "",
            track_language=str,
            aligner=lambda this, language: this,
        )

    def with_settings(self, settings: Settings) -> SpreadingAligner:
        other = copy.copy(self)
        other.settings = settings
        return other

    def align(
        self, audio: Any, text: Any, *, utterance: str, progress: Callable[[float], None]
    ) -> Alignment:
        self.emissions(audio, progress=progress)
        return self._aligned(audio, text, utterance)

    def realign(
        self, alignment: Alignment, audio: str, *, progress: Callable[[float], None]
    ) -> Alignment:
        self.emissions(audio, progress=progress)
        words = tuple(
            word if word.by else replace(word, confidence=0.5) for word in alignment.words
        )
        return replace(
            alignment, words=words, audio=audio, loss=2.0, config=self.settings.to_dict()
        )

    def align_batch(self, pairs: Any, on_error: str, *, utterances: list[str]) -> list[Any]:
        self.batches.append(len(pairs))
        results: list[Any] = []
        for (audio, text), name in zip(pairs, utterances, strict=True):
            try:
                results.append(self._aligned(audio, text, name))
            except InputError as error:
                results.append(error)
        return results

    def emissions(self, audio: Any, *, progress: Callable[[float], None]) -> Any:
        self.batches.append(1)
        while not self.gate.wait(0.01):
            if not self.deaf:
                progress(0.5)
        return audio

    def emissions_batch(self, audios: Any, on_error: str) -> list[Any]:
        return list(audios)

    def score_emissions(self, emissions: Any, texts: Any, *, languages: Any) -> list[list[Any]]:
        from ctc_align.alignment.scoring import (
            Scored,
        )  # which takes seconds where nothing else needs it

        return [
            [Scored(each.text, i, i + 1, float(len(each.text))) for i, each in enumerate(one)]
            for one in texts
        ]

    def _aligned(self, audio: Any, text: Any, name: str) -> Alignment:
        if "boom" in text.text:
            raise ZeroDivisionError("/secret/place: boom")
        words = words_of(text.text, self.settings)
        require_words(words, name)
        step_s = audio.duration_s / len(words.words)
        aligned = tuple(
            AlignedWord(
                w.text,
                w.spoken,
                w.char_start,
                w.char_end,
                "aligned",
                i * step_s,
                (i + 1) * step_s,
                0.9,
            )
            for i, w in enumerate(words.words)
        )
        fields = (
            name,
            audio.name,
            audio.duration_s,
            "spread",
            "cpu",
            0.01,
            1.0,
            -1.0,
            words.text,
            aligned,
        )
        return Alignment(*fields, loss_per_token=1.0, config=self.settings.to_dict())


@dataclass
class Answer:
    """A response: its status, headers (lower case), and body."""

    status: int
    headers: dict[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)


@dataclass
class LocalServer:
    """A running server, and how to ask it."""

    server: AlignServer
    aligner: SpreadingAligner
    port: int
    url: str = ""
    headers: dict[str, str] = field(default_factory=dict)

    def ask(
        self,
        method: str,
        path: str,
        body: bytes | None = None,
        headers: dict[str, str] | None = None,
    ) -> Answer:
        connection = self.connection()
        try:
            connection.request(method, path, body, {**self.headers, **(headers or {})})
            response = connection.getresponse()
            answer = Answer(
                response.status, {k.lower(): v for k, v in response.getheaders()}, response.read()
            )
        finally:
            connection.close()
        assert_described(method, path.partition("?")[0], answer)
        return answer

    def connection(self) -> http.client.HTTPConnection:
        return http.client.HTTPConnection("127.0.0.1", self.port, timeout=300)

    def post(self, path: str, parts: Parts, **headers: str) -> Answer:
        kind, body = form(parts)
        return self.ask("POST", path, body, {"Content-Type": kind, **headers})

    def done_job(self, parts: Parts) -> str:
        """Return the address of a job that has ended well."""
        there = self.post("/jobs", parts).headers["location"]
        until(lambda: self.ask("GET", there).json["state"] == "done")
        return there

    def uploads(self) -> list[Path]:
        return sorted(self.server.uploads.path.iterdir())


def assert_described(method: str, path: str, answer: Answer) -> None:
    """Raise AssertionError for a status or a type that the description does not give for this
    address."""
    for template, operations in api_description()["paths"].items():
        there = re.sub(
            r"\\{id\\}",
            ".+" if template.startswith(("/api", "/view")) else "[^/]+",
            re.escape(template),
        )
        if re.fullmatch(there, path) and method.lower() in operations and answer.status != 500:
            described = operations[method.lower()]["responses"]
            assert str(answer.status) in described, (method, template, answer)
            kind = answer.headers.get("content-type", "").partition(";")[0]
            kinds = described[str(answer.status)]["content"]
            assert any(map(partial(fnmatch, kind), kinds)), (method, template, kind)


def form(parts: Parts) -> tuple[str, bytes]:
    """Return the type and the bytes of a form."""
    body = io.BytesIO()
    for name, filename, content in parts:
        file = "" if filename is None else f'; filename="{filename}"'
        body.write(
            f'--edge\r\nContent-Disposition: form-data; name="{name}"{file}\r\n\r\n'.encode()
            + content
            + b"\r\n"
        )
    body.write(b"--edge--\r\n")
    return "multipart/form-data; boundary=edge", body.getvalue()


def wav(seconds: float = 1.0) -> bytes:
    """Return a WAV file of a rattle, at 16 kHz."""
    file = io.BytesIO()
    with wave.open(file, "wb") as writer:
        writer.setparams((1, 2, 16000, 0, "NONE", ""))
        writer.writeframes(b"\x00\x10\x00\xf0" * int(8000 * seconds))
    return file.getvalue()


def pair(text: str, seconds: float = 1.0, name: str = "talk.wav") -> Parts:
    """Return the parts of a recording and its transcript."""
    return [("audio", name, wav(seconds)), ("text", None, text.encode())]


@contextmanager
def local_server(
    folder: Path | None = None,
    token: str = "",
    host: str = "127.0.0.1",
    aligner: Any = None,
    **limits: Any,
) -> Iterator[LocalServer]:
    """Run a server in a thread while the block runs."""
    aligner = aligner or SpreadingAligner()
    shown = None if folder is None else AlignmentFolder(folder)
    server = AlignServer(aligner, ServerLimits(**limits), shown)  # type: ignore[arg-type]
    there: list[str] = []
    listening = threading.Event()

    def listens(url: str) -> None:
        there.append(url)
        listening.set()

    thread = threading.Thread(target=server.run, args=(Address(host, 0, token), listens))
    thread.start()
    assert listening.wait(10)
    try:
        yield LocalServer(server, aligner, urlsplit(there[0]).port or 0, there[0])
    finally:
        if isinstance(aligner, SpreadingAligner):
            aligner.gate.set()
        server.end()
        thread.join(15)
        assert not thread.is_alive()


def until(condition: Callable[[], bool], seconds: float = 60.0) -> None:
    """Wait for a condition; fail where it does not come, however busy the machine is."""
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.01)
