"""torchaudio's bundles, run as they are but for the weights: what would be downloaded is made here,
at random."""

from __future__ import annotations

import urllib.error
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from made_sounds import babble

from ctc_align.config import Settings
from ctc_align.errors import UsageError
from ctc_align.models import load_model
from ctc_align.models.catalogue import catalogue_entries
from ctc_align.models.torch_networks import TorchModel
from ctc_align.types import Audio

LABELLED = sorted(
    entry.name.removeprefix("torchaudio:")
    for entry in catalogue_entries()
    if entry.name.startswith("torchaudio:")
)
RUN = ("WAV2VEC2_ASR_BASE_960H", "VOXPOPULI_ASR_BASE_10K_DE", "MMS_FA")
"""One of each kind: a norm over time; a head with rows to drop; a normalised waveform, a norm per
frame, a star."""


def test_a_torchaudio_that_is_missing_or_cannot_be_imported_is_told(monkeypatch, tmp_path) -> None:
    import sys

    monkeypatch.setitem(sys.modules, "torchaudio", None)
    with pytest.raises(
        UsageError,
        match=r"pip install 'ctc-align\[torchaudio\]' \(torch 2.11 with torchaudio 2.11\)",
    ):
        load_model("torchaudio:MMS_FA", device="cpu")
    # As beside a torch that is not its own: a library that it cannot find.
    import sys

    (tmp_path / "torchaudio").mkdir()
    (tmp_path / "torchaudio" / "__init__.py").write_text(
        "raise OSError('libc10_cuda.so: cannot open\\nshared file')"
    )
    for name in [name for name in sys.modules if name.partition(".")[0] == "torchaudio"]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(
        UsageError, match=r"does not fit torch .* in an environment of its own.*libc10_cuda"
    ) as caught:
        load_model("torchaudio:MMS_FA", device="cpu")
    assert "\n" not in str(caught.value)


@pytest.fixture(scope="module")
def pipelines() -> Any:
    try:
        from torchaudio import pipelines
    except (ImportError, OSError, RuntimeError) as error:
        pytest.skip(f"torchaudio cannot be imported: {str(error).splitlines()[0]}")
    return pipelines


def weights(bundle: Any) -> dict[str, torch.Tensor]:
    """What a bundle would download: random weights of its whole network, with the rows that it
    drops."""
    from torchaudio.pipelines._wav2vec2 import utils

    torch.manual_seed(0)
    state = utils._get_model(bundle._model_type, bundle._params).state_dict()
    for key in ("aux.weight", "aux.bias"):
        rows = list(state[key])
        for axis in sorted(bundle._remove_aux_axis):
            rows.insert(axis, torch.full_like(rows[0], torch.nan))
        state[key] = torch.stack(rows)
    return state


@pytest.fixture(scope="module", params=RUN)
def made(request: pytest.FixtureRequest, pipelines: Any) -> tuple[str, Any, TorchModel, Any]:
    """Name, bundle, our model of it, and the bundle's own; only the download is replaced."""
    from torchaudio.pipelines._wav2vec2 import utils

    bundle = getattr(pipelines, request.param)
    state, asked = weights(bundle), []

    def download(url: str, **options: Any) -> dict[str, torch.Tensor]:
        asked.append((url, options))
        return dict(state)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(utils, "load_state_dict_from_url", download)
        mine = load_model(
            f"torchaudio:{request.param}", device="cpu", settings=Settings(cache_dir="models")
        )
        theirs = bundle.get_model()
    assert asked[0][0].startswith("https://")
    assert asked[0][1] == {"weights_only": True, "map_location": "cpu", "model_dir": "models"}
    return request.param, bundle, mine, theirs


def sound(seconds: float, seed: int = 0) -> Audio:
    return Audio(babble(seconds, seed), 16000, f"made-{seed}.wav")


@pytest.mark.torchaudio
def test_every_bundle_with_labels_is_there(pipelines: Any) -> None:
    from ctc_align.models.torchaudio_bundles import names

    assert names() == LABELLED
    for name in LABELLED:
        bundle = getattr(pipelines, name)
        labels = bundle.get_labels()
        assert labels[0] == "-"
        assert bundle.sample_rate == 16000
        assert len(set(labels)) == len(labels) == bundle._params["aux_num_out"] + (name == "MMS_FA")


@pytest.mark.torchaudio
@torch.no_grad()
def test_log_probs_are_the_bundle_s(made: tuple[str, Any, TorchModel, Any]) -> None:
    name, bundle, mine, theirs = made
    heard = sound(2.345)
    outputs, _ = theirs(torch.from_numpy(heard.samples)[None])
    expected = outputs[0] if name == "MMS_FA" else outputs[0].log_softmax(-1)
    emissions = mine.emissions(heard)
    torch.testing.assert_close(emissions.log_probs, expected, atol=1e-5, rtol=0)
    assert emissions.vocab == tuple(bundle.get_labels())
    assert (emissions.blank, emissions.frame_shift_s, emissions.first_frame_s) == (0, 0.02, 0.0025)
    assert (emissions.name, emissions.duration_s) == (heard.name, heard.duration_s)
    if name == "MMS_FA":
        assert emissions.vocab[-1] == "*"
        assert (emissions.log_probs[:, -1] == 0).all()


@pytest.mark.torchaudio
def test_neighbours_in_a_batch_change_nothing(made: tuple[str, Any, TorchModel, Any]) -> None:
    mine = made[2]
    audios = [sound(seconds, seed) for seed, seconds in enumerate((1.5, 0.61, 1.0003))]
    for audio, emissions in zip(audios, mine.emissions_batch(audios)):
        torch.testing.assert_close(
            emissions.log_probs, mine.emissions(audio).log_probs, atol=1e-4, rtol=0
        )


@pytest.mark.torchaudio
def test_an_impulse_is_heard_when_it_is(made: tuple[str, Any, TorchModel, Any]) -> None:
    mine = made[2]
    background, places = babble(1.2), range(4000, 15000, 2111)
    audios = [
        Audio(background + np.eye(1, len(background), k, dtype=np.float32)[0], 16000)
        for k in places
    ]
    calm, *struck = (
        emissions.log_probs
        for emissions in mine.emissions_batch([Audio(background, 16000), *audios])
    )
    frames = [int((log_probs - calm).square().sum(1).argmax()) for log_probs in struck]
    delays = [
        mine.first_frame_s + (frame + 0.5) * mine.frame_shift_s - (place + 0.5) / 16000
        for frame, place in zip(frames, places)
    ]
    assert abs(float(np.median(delays))) <= mine.frame_shift_s / 2


@pytest.mark.torchaudio
@pytest.mark.parametrize(
    "name", ["WAV2VEC2_BASE", "WAV2VEC2_ASR_BASE", "Wav2Vec2ASRBundle", "__doc__", ""]
)
def test_what_has_no_labels_is_refused(name: str, pipelines: Any) -> None:
    with pytest.raises(
        UsageError,
        match=r"(no such bundle|has no labels).*expected one of HUBERT_ASR_LARGE, .*MMS_FA",
    ):
        load_model(f"torchaudio:{name}", device="cpu")


@pytest.mark.torchaudio
def test_files_that_cannot_be_downloaded_or_read_are_told(pipelines, tmp_path, monkeypatch) -> None:
    from torchaudio.pipelines._wav2vec2 import utils

    settings = Settings(cache_dir=str(tmp_path))

    def unreachable(url: str, **options: Any) -> None:
        raise urllib.error.URLError("Name or service not known")

    with monkeypatch.context() as patch:
        patch.setattr(utils, "load_state_dict_from_url", unreachable)
        with pytest.raises(
            UsageError, match=r"cannot be downloaded .*put the file wav2vec2_\w+\.pth into"
        ) as caught:
            load_model("torchaudio:WAV2VEC2_ASR_BASE_960H", device="cpu", settings=settings)
    assert "\n" not in str(caught.value)
    file = tmp_path / pipelines.WAV2VEC2_ASR_BASE_960H._path.rpartition("/")[2]
    torch.save({"aux.weight": torch.zeros(1000)}, file)
    file.write_bytes(file.read_bytes()[:2000])
    with pytest.raises(
        UsageError,
        match=r"cannot be read \(was a download cut off\?\): delete wav2vec2_\w+\.pth in",
    ):
        load_model("torchaudio:WAV2VEC2_ASR_BASE_960H", device="cpu", settings=settings)
    file = tmp_path / pipelines.WAV2VEC2_ASR_BASE_960H._path.rpartition("/")[2]
    torch.save({"aux.weight": Path("anything")}, file)
    with pytest.raises(UsageError, match="cannot be read"):
        load_model(
            "torchaudio:WAV2VEC2_ASR_BASE_960H",
            device="cpu",
            settings=Settings(cache_dir=str(tmp_path)),
        )
