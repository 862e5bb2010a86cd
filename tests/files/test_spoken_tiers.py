"""Tiers that are asked for, read back by praatio, textgrid and pympi."""

from __future__ import annotations

import itertools
from pathlib import Path

import praatio.textgrid
import pympi
import pytest
import textgrid as textgrid_package
from hypothesis import given, settings
from sample_alignments import aligned, conversation, make_alignment, random_alignments

from ctc_align.config import load_settings
from ctc_align.errors import ConfigError
from ctc_align.files import Alignment, Style, rendered
from ctc_align.files.textgrid import read_textgrid
from ctc_align.types import aligned_words

SENTENCES = {"Ann": ["It is Dr. Brown.", "Is it?"], "Bob": ["Yes, yes is!", "And so"]}


def save(alignment: Alignment, path: Path, style: Style) -> Path:
    path.write_bytes(rendered(alignment, path.suffix[1:].casefold(), style))
    return path


def labels(rows: list) -> list[tuple[float, float, str]]:
    return [(float(start), float(end), label) for start, end, label in rows if label]


def by_praatio(path: Path) -> dict[str, list[tuple[float, float, str]]]:
    grid = praatio.textgrid.openTextgrid(str(path), includeEmptyIntervals=True)
    assert all(a.end == b.start for tier in grid.tiers for a, b in itertools.pairwise(tier.entries))
    return {tier.name: labels(tier.entries) for tier in grid.tiers}


def by_textgrid(path: Path) -> dict[str, list[tuple[float, float, str]]]:
    grid = textgrid_package.TextGrid.fromFile(str(path))
    return {tier.name: labels([(i.minTime, i.maxTime, i.mark) for i in tier]) for tier in grid}


def by_pympi(path: Path) -> dict[str, list[tuple[float, float, str]]]:
    eaf = pympi.Elan.Eaf(str(path))
    return {
        name: [(start / 1000, end / 1000, value) for start, end, value, *_ in eaf.get_annotation_data_for_tier(name)]
        for name in eaf.get_tier_names()
    }


@pytest.mark.parametrize("form", ["long", "short"])
@pytest.mark.parametrize("read", [by_praatio, by_textgrid])
def test_textgrids_have_the_tiers_that_are_asked_for(tmp_path, form, read):
    style = Style(tiers="speakers, Sentences,words", textgrid=form)
    tiers = read(save(conversation(), tmp_path / "a.TextGrid", style))
    grid = read_textgrid(tmp_path / "a.TextGrid")
    assert (grid.start_s, grid.end_s) == (0, conversation().duration_s)
    kinds = ("sentences", "words")
    assert list(tiers) == ["speakers", *(f"{name} - {kind}" for name in ("Ann", "Bob") for kind in kinds)]
    assert [label for *_, label in tiers["speakers"]] == ["Ann", "Bob"]
    assert {name: [label for *_, label in tiers[f"{name} - sentences"]] for name in SENTENCES} == SENTENCES
    (start_s, end_s, _), *_ = tiers["Bob - sentences"]
    words = tiers["Bob - words"]
    assert (start_s, end_s) == (words[0][0], words[2][1])
    assert tiers["speakers"][1][:2] == (words[0][0], words[-1][1])
    one = read(save(conversation(names=False), tmp_path / "b.TextGrid", Style(tiers="phones,speakers")))
    assert list(one) == ["phones", "speakers"]
    assert one["speakers"] == []
    assert len(one["phones"]) == 2 * len(aligned_words(conversation()))


def test_elan_has_phones_within_words_and_the_speakers(tmp_path):
    path = save(conversation(), tmp_path / "a.eaf", Style())
    tiers = by_pympi(path)
    assert list(tiers) == ["Ann - words", "Ann - phones", "Bob - words", "Bob - phones", "speakers"]
    eaf = pympi.Elan.Eaf(str(path))
    parameters = eaf.get_parameters_for_tier("Ann - phones")
    assert (parameters["PARENT_REF"], parameters["PARTICIPANT"]) == ("Ann - words", "Ann")
    kind = eaf.get_parameters_for_linguistic_type(parameters["LINGUISTIC_TYPE_REF"])
    assert (kind["CONSTRAINTS"], kind["TIME_ALIGNABLE"]) == ("Included_In", "true")
    assert [*eaf.constraints] == ["Included_In"]
    assert eaf.get_child_tiers_for("Bob - words") == ["Bob - phones"]
    for name in ("Ann", "Bob"):
        words, phones = tiers[f"{name} - words"], tiers[f"{name} - phones"]
        assert len(phones) == 2 * len(words)
        assert all(any(w[0] <= p[0] < p[1] <= w[1] for w in words) for p in phones)
    expected = [word for word in conversation().words if word.tokens and word.speaker == "Ann"]
    for (start_s, end_s, _), word in zip(tiers["Ann - words"], expected):
        assert (start_s, end_s) == (pytest.approx(word.start_s, abs=5e-4), pytest.approx(word.end_s, abs=5e-4))


def test_phones_that_do_not_fit_into_their_words_depend_on_nothing(tmp_path):
    words = (aligned("a", 0.1, 0.101, 0, "abc"), aligned("b", 0.102, 0.2, 2, "d"))
    eaf = pympi.Elan.Eaf(str(save(make_alignment(words), tmp_path / "a.eaf", Style())))
    assert "PARENT_REF" not in eaf.get_parameters_for_tier("tokens")
    assert len(eaf.get_annotation_data_for_tier("tokens")) == 4


@settings(max_examples=25, deadline=None)
@given(random_alignments())
def test_every_tier_of_any_alignment_is_read(tmp_path_factory, alignment):
    folder = tmp_path_factory.mktemp("tiers")
    style = Style(labels="written", tiers="words,phones,sentences,speakers", textgrid="short")
    grid = by_praatio(save(alignment, folder / "a.TextGrid", style))
    assert grid == by_textgrid(folder / "a.TextGrid")
    tiers = by_pympi(save(alignment, folder / "a.eaf", style))
    assert [*grid] == [*tiers] == ["words", alignment.token_kind, "sentences", "speakers"]
    assert [row[2] for row in grid["words"]] == [row[2] for row in tiers["words"]]
    texts = " ".join(row[2] for row in grid["sentences"])
    assert [word.text for word in alignment.words if word.status == "aligned" and word.text not in texts] == []


def test_an_unknown_tier_is_named():
    assert load_settings(None, tiers=" Words ,phones").tiers
    with pytest.raises(ConfigError, match=r"tiers: expected a list out of words.*got 'words,pitch'"):
        load_settings(None, tiers="words,pitch")
