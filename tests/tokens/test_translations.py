"""Lines of a translation, which a model has no letters for, are not spoken."""

from __future__ import annotations

from rows import over_rows

from ctc_align.files.subtitles import parse_subtitles
from ctc_align.text import split, with_cues
from ctc_align.text.phone_sets import ARPABET_PHONES, IPA_PHONES
from ctc_align.tokens.tokenizer import tokenizer_for, with_phones
from ctc_align.tokens.translations import without_translations
from ctc_align.types import Words

ENGLISH = tokenizer_for(("<blank>", *ARPABET_PHONES), 0)
RUSSIAN = tokenizer_for(("<blank>", "|", *"абвгдежзийклмнопрстуфхцчшщъыьэюя"), 0)


def srt(*cues: str) -> Words:
    blocks = (
        f"{at}\n00:00:0{at},000 --> 00:00:0{at},900\n{cue}\n" for at, cue in enumerate(cues, 1)
    )
    transcript = parse_subtitles("\n".join(blocks), "a.srt")
    return with_cues(split(transcript.text), transcript.subtitles)


def left_out(words: Words) -> str:
    return " ".join(word.text for word in words.words if word.kind == "translation")


@over_rows(
    ("cues", "unspoken"),
    [
        (("你好\nHello there.", "再见\nBye."), "你 好 再 见"),
        (("Hello there.\nПривет", "Bye."), "Привет"),
        (("Hello\n안녕", "Bye.", "Yes.\n네"), "안녕 네"),
        (("Hello there.", "Привет"), ""),
        (("Hello Привет there.", "Bye."), ""),
    ],
)
def test_lines_in_cues(cues: tuple[str, ...], unspoken: str) -> None:
    assert left_out(without_translations(srt(*cues), ENGLISH)) == unspoken


def test_lines_of_texts_and_other_models() -> None:
    both = split("Привет всем\nHello everybody\nПока\nBye")
    assert left_out(without_translations(both, ENGLISH)) == "Привет всем Пока"
    assert left_out(without_translations(both, RUSSIAN)) == "Hello everybody Bye"
    once = split("Hello\nПривет\nSo it is\nand so\nit was")
    assert left_out(without_translations(once, ENGLISH)) == "", (
        "somebody says a word of another language"
    )
    reads_all = tokenizer_for(("<blank>", *IPA_PHONES), 0)
    assert left_out(without_translations(with_phones(both, reads_all, ""), reads_all)) == ""
