"""Vocabulary files in their four forms, and what is wrong with others."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from rows import over_rows

from ctc_align.errors import EmissionsError, UsageError
from ctc_align.models.vocabulary import load_vocab


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        ("<blk>\na\nb\n", ("<blk>", "a", "b")),
        ("<blk>\r\na\r\nb", ("<blk>", "a", "b")),
        ("\ufeff<blk>\na\n\n\n", ("<blk>", "a")),
        ("<blk>\n \na\n", ("<blk>", " ", "a")),
        ("a\n \n", ("a", " ")),
        ("a \n\tb\n", ("a", "b")),
        ("a\u2028\n\u00a0\n", ("a\u2028", "\u00a0")),
        ("<blk> 0\na 2\nb 1\n", ("<blk>", "b", "a")),
        ("<blk>\t0\na\t1", ("<blk>", "a")),
        ("0 1\n1 0\n", ("1", "0")),
        ('["<blk>", "a", " "]', ("<blk>", "a", " ")),
        ('{"a": 1, "<blk>": 0}', ("<blk>", "a")),
        ("[PAD]\n[UNK]\na\n", ("[PAD]", "[UNK]", "a")),
        ("{\n}\n", None),
        ("{\n[\n", ("{", "[")),
        ("1\n2\n", ("1", "2")),
    ],
)
@pytest.mark.parametrize("name", ["vocab.txt", "tokens"])
def test_the_forms(tmp_path: Path, name: str, content: str, expected: tuple[str, ...] | None) -> None:
    (tmp_path / name).write_bytes(content.encode())
    if expected is None:
        with pytest.raises(EmissionsError, match="has no tokens"):
            load_vocab(tmp_path / name)
    else:
        assert load_vocab(tmp_path / name) == expected


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("", "has no tokens"),
        ("\n\n", "has no tokens"),
        ("a\nb\na\n", "token 'a' is there twice: line 1 and line 3"),
        ("a 0\nb 1\na 2\n", "token 'a' is there twice: line 1 and line 3"),
        ("a\n\nb\n", r"v\.txt:2: expected a token, got an empty line"),
        ("a 0\nb 0\n", "id 0 is given twice: line 1 and line 2"),
        ("a 0\nb 2\n", "expected ids 0 to 1, each once, got 2 in line 2"),
        ("a -1\nb 0\n", "got -1 in line 1"),
        ("a 0\nb\n", r"v\.txt:1: expected one token a line, or a token and its id on every line, got 'a 0'"),
        ("a\nb c\n", r"v\.txt:2: .* got 'b c'"),
        ('["a", "a"]', "token 'a' is there twice: entry 1 and entry 2"),
        ('{"a": 0, "a": 1}', "token 'a' is there twice"),
        ('{"a": "0"}', "got '0' for token 'a'"),
        ('{"a": true}', "got True for token 'a'"),
        ('{"0": {"a": 1}}', "for token '0'"),
        ('["a", 1]', "expected tokens in quotes, got 1"),
        ("[[0]]", "expected tokens in quotes"),
    ],
)
def test_what_is_wrong_is_said(tmp_path: Path, content: str, message: str) -> None:
    (tmp_path / "v.txt").write_text(content, encoding="utf-8")
    with pytest.raises(EmissionsError, match=message) as caught:
        load_vocab(tmp_path / "v.txt")
    assert "v.txt" in str(caught.value)


def test_files_that_are_none(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"nowhere\.txt: no such vocabulary file"):
        load_vocab(tmp_path / "nowhere.txt")
    with pytest.raises(UsageError, match="cannot be read"):
        load_vocab(tmp_path)
    (tmp_path / "latin.txt").write_bytes("é\n".encode("latin-1"))
    with pytest.raises(EmissionsError, match="expected a UTF-8 vocabulary, got byte 0xe9"):
        load_vocab(tmp_path / "latin.txt")
    for content, message in (("[1,", r"v\.json:1: expected a JSON list or object"), ("3", "got int"), ("", "JSON")):
        (tmp_path / "v.json").write_text(content, encoding="utf-8")
        with pytest.raises(EmissionsError, match=message):
            load_vocab(tmp_path / "v.json")


def test_a_space_before_its_id_is_the_token_space(tmp_path: Path) -> None:
    """As NeMo's networks of characters are exported for sherpa-onnx."""
    path = tmp_path / "tokens.txt"
    path.write_text("  0\na 1\nb 2\n<blk> 3\n", encoding="utf-8")
    assert load_vocab(path) == (" ", "a", "b", "<blk>")
    path.write_text("x 0\n 1 1\n", encoding="utf-8")
    assert load_vocab(path) == ("x", "1")


@over_rows(
    "content",
    [
        *(
            "[" * 100_000,
            '{"a": ' * 50_000,
            "[" + "9" * 5000 + "]",
            '{"a": ' + "9" * 5000 + "}",
            "[1e999]",
            '["a", []]',
        ),
        *('{"a": 1e999}', "a " + "9" * 5000, "a -1", '["\\ud800", "\\ud800"]', "\0", "", "\ufeff", '{"a": true}'),
        *('{"a": ' + "9" * 400 + "}", "a 1\n" * 3, '["a"]]'),
    ],
)
def test_no_vocabulary_ends_in_a_traceback(tmp_path_factory, content: str) -> None:
    for name in ("v.txt", "v.json"):
        path = tmp_path_factory.mktemp("hostile") / name
        path.write_text(content, encoding="utf-8")
        try:
            assert all(load_vocab(path))
        except EmissionsError as error:
            assert re.match(rf"{re.escape(str(path))}[^\n]{{,300}}\Z", str(error))  # noqa: PT017
