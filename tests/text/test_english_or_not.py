"""English or not, by the text alone: no false alarm on what is hard about English, and no language that is missed."""

from __future__ import annotations

import pytest

from ctc_align.text.languages import UNKNOWN, likely_other_language

ENGLISH = (
    "'Twas brillig, and the slithy toves did gyre and gimble in the wabe; all mimsy were the borogoves.",
    "GARCIA, RODRIGUEZ AND MARTINEZ MET ZIMMERMANN IN SAN FRANCISCO, CALIFORNIA, ON TUESDAY",
    "La la la la la la, na na na na, hey hey hey, oh oh oh, da da dum, da da dum, shh, ooh la la",
    "a b c d e f g h i j k l m n o p q r s t u v w x y z",
    "Wee, sleekit, cowrin, tim'rous beastie, O, what a panic's in thy breastie!",
    "We ordered croissants, café au lait and crème brûlée at a little bistro near the Champs-Élysées",
    "Über-Kafka",
    "The letters α, β, γ and δ",
    "42",
    "",
)
OTHERS = (
    ("Ich habe heute leider keine Zeit für dich und deine Schwester.", "de"),
    ("Gisteren hebben we met de kinderen in het bos gewandeld en daarna pannenkoeken gegeten.", "nl"),
    ("Mtoto alikwenda sokoni asubuhi kununua matunda pamoja na mama yake mzazi nyumbani kwao.", UNKNOWN),
    ("mi vidis grandan hundon kiu kuris rapide tra la ĝardeno de nia najbaro hieraŭ vespere", UNKNOWN),
    ("Привет!", UNKNOWN),
    ("Добрый вечер, как вы поживаете?", "ru"),
    ("我今天没有时间", "zh"),
    ("今日は時間がありません", "ja"),
    ("مرحبا بكم في بيتنا", "ar"),
    ("آیا این کتاب را خوانده‌اید؟", "fa"),
)


@pytest.mark.parametrize("text", ENGLISH)
def test_english_gives_no_false_alarm(text: str) -> None:
    assert likely_other_language(text) == ""


@pytest.mark.parametrize(("text", "language"), OTHERS)
def test_other_languages_are_told(text: str, language: str) -> None:
    assert likely_other_language(text) == language


def test_a_long_text_is_told_as_its_parts_are() -> None:
    assert likely_other_language("Der Hund und die Katze sind nicht im Haus, aber auf dem Dach. " * 2_000) == "de"
