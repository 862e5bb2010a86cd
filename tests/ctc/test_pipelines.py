"""Tokenizers and aligners of given emissions: torchaudio's tutorial for many languages, written
anew, with emissions of chance.

Two of its lines differ: where the bundle comes from, and the network.
"""

from __future__ import annotations

import warnings
from typing import Any

import pytest
import torch

from ctc_align.errors import KernelError
from ctc_align.functional import TokenSpan, forced_align
from ctc_align.pipelines import MMS_FA, LabelsBundle


class Network(torch.nn.Module):
    """Takes samples (1, T) to log-probs of 20 ms each and lengths, as torchaudio's networks do."""

    def forward(self, waveform: torch.Tensor) -> tuple[torch.Tensor, None]:
        frames = waveform.shape[1] // 320
        made = torch.Generator().manual_seed(frames)
        scores = torch.randn(1, frames, len(MMS_FA.get_labels(star=None)), generator=made)
        return torch.nn.functional.pad(scores.log_softmax(2), (0, 1)), None


TRANSCRIPTS = {
    "German": "aber seit ich bei ihnen das brot hole",
    "Polish": "wtedy ujrzalem na jego brzuchu okragla czarna rane",
    "Chinese": "guan fuwu gaoduan chanpin reng chuyu gongbuyingqiu de jumian",
    "with gaps": "* ujrzalem na jego * okragla czarna",
}


@pytest.mark.parametrize("language", TRANSCRIPTS)
def test_the_tutorial(language: str) -> None:
    from ctc_align.pipelines import MMS_FA as bundle  # torchaudio.pipelines there

    model = Network()  # bundle.get_model() there
    tokenizer = bundle.get_tokenizer()
    aligner = bundle.get_aligner()

    def compute_alignments(
        waveform: torch.Tensor, transcript: list[str]
    ) -> tuple[torch.Tensor, list[list[TokenSpan]]]:
        with torch.inference_mode():
            emission, _ = model(waveform)
            token_spans = aligner(emission[0], tokenizer(transcript))
        return emission, token_spans

    def score(spans: list[TokenSpan]) -> float:
        return sum(s.score * len(s) for s in spans) / sum(len(s) for s in spans)

    waveform = torch.zeros(1, 4 * bundle.sample_rate)
    transcript = TRANSCRIPTS[language].split()
    emission, token_spans = compute_alignments(waveform, transcript)
    num_frames = emission.size(1)
    ratio = waveform.size(1) / num_frames / bundle.sample_rate
    words = [(ratio * spans[0].start, ratio * spans[-1].end) for spans in token_spans]

    labels = bundle.get_labels()
    assert ["".join(labels[s.token] for s in spans) for spans in token_spans] == transcript
    edges = [edge for word in words for edge in word]
    assert edges == sorted(edges)
    assert edges[-1] <= 4
    assert all(0 < score(spans) <= 1 for spans in token_spans)
    ids = [[bundle.get_dict()[letter] for word in transcript for letter in word]]
    path, scores = forced_align(emission, torch.tensor(ids))
    for spans in token_spans:
        for span in spans:
            assert path[0, span.start : span.end].unique().tolist() == [span.token]
            mean = scores[0, span.start : span.end].exp().mean().item()
            assert span.score == pytest.approx(mean, rel=1e-5)


def test_labels_and_dictionaries() -> None:
    assert "".join(MMS_FA.get_labels()) == "-aienoutsrmkldghybpwcvjzf'qx*"
    assert MMS_FA.get_labels(star=None, blank="_")[:2] == ("_", "a")
    assert MMS_FA.get_dict(star="<star>")["<star>"] == len(MMS_FA.get_dict(star=None)) == 28
    assert MMS_FA.get_tokenizer().dictionary == MMS_FA.get_dict()


def test_a_star_is_added_where_the_emissions_lack_it() -> None:
    bundle = LabelsBundle(("-", "a", "b"), sample_rate=8_000)
    emission = torch.randn(9, 3, generator=torch.Generator().manual_seed(1)).log_softmax(1)
    tokens = bundle.get_tokenizer()(["ab", "*", "", "a"])
    assert tokens == [[1, 2], [3], [], [1]]
    aligner = bundle.get_aligner()
    spans = aligner(emission, tokens)
    assert [len(word) for word in spans] == [2, 1, 0, 1]
    assert spans[1][0].score == 1
    assert spans == aligner(torch.nn.functional.pad(emission, (0, 1)), tokens)


@pytest.mark.parametrize(
    ("call", "said"),
    [
        (lambda: MMS_FA.get_tokenizer()(["Straße"]), "got 'S' in 'Straße'"),
        (lambda: MMS_FA.get_aligner()(torch.zeros(1, 9, 29), [[1]]), "emission: expected (T, C)"),
        (lambda: MMS_FA.get_aligner()(torch.zeros(1, 29), [[1, 2]]), "too long for CTC"),
        (lambda: MMS_FA.get_model(), "get_model: ctc_align has no weights of this network"),
    ],
    ids=["letter", "shape", "length", "network"],
)
def test_what_is_refused(call: Any, said: str) -> None:
    with pytest.raises(KernelError) as error:
        call()
    assert said in str(error.value)
    assert "\n" not in str(error.value)


@pytest.mark.torchaudio
def test_the_same_as_torchaudios() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            from torchaudio.pipelines import MMS_FA as theirs
        except (ImportError, OSError) as error:
            pytest.skip(f"torchaudio cannot be imported: {str(error).splitlines()[0]}")
    for arguments in ({}, {"star": None}, {"star": "?", "blank": "_"}):
        assert MMS_FA.get_labels(**arguments) == theirs.get_labels(**arguments)
        assert MMS_FA.get_dict(**arguments) == theirs.get_dict(**arguments)
    assert MMS_FA.sample_rate == theirs.sample_rate
    emission, _ = Network()(torch.zeros(1, 64_000))
    for text in TRANSCRIPTS.values():
        tokens = MMS_FA.get_tokenizer()(text.split())
        assert tokens == theirs.get_tokenizer()(text.split())
        met = MMS_FA.get_aligner()(emission[0], tokens)
        right = theirs.get_aligner()(emission[0], tokens)
        for spans, others in zip(met, right):
            assert [(s.token, s.start, s.end) for s in spans] == [
                (s.token, s.start, s.end) for s in others
            ]
            assert [s.score for s in spans] == pytest.approx([s.score for s in others], rel=1e-5)
