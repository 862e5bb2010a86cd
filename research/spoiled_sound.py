"""Speech that is hard to hear, made from clean speech: noise, other voices, music, rooms,
telephones, radios, codecs.

`spoil` draws from wide distributions, for training; every sound stays at its time. A recording goes
through the stages of `STAGES` in their order, each with its probability and with one of its
families:

    speech ─► room ─► noise, voices or music ─► telephone, radio or codec ─► limiter or drop-outs

A family can be left out, so that a network can be judged on a kind of sound that it never met.
`CONDITIONS` has
single families at fixed strengths, for measuring (`spoil_by`).
"""

from __future__ import annotations

import io
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass

import av
import numpy as np
from av.audio.stream import AudioStream
from av.container import InputContainer, OutputContainer

from synthetic_sounds import RATE, synthetic_music

Voices = Callable[[int, np.random.Generator], np.ndarray]
"""Returns (n,) samples of another speaker, of any level."""
SNR_DB = -5.0, 25.0
"""Range of the speech's level above noise, voices or music."""
RADIO_SNR_DB = -5.0, 20.0
LINE_SNR_DB = 5.0, 35.0
LONGEST_DELAY_S = 0.2
"""The most that a codec may delay the sound; the delay is measured and taken back."""
TINY = 1e-12


@dataclass(frozen=True)
class Scene:
    """The source of chance and of other voices while one recording is spoiled."""

    rng: np.random.Generator
    voices: Voices

    def between(self, low: float, high: float) -> float:
        """Return a number between `low` and `high`."""
        return float(self.rng.uniform(low, high))

    def happens(self, probability: float) -> bool:
        """Return whether something happens that has this probability."""
        return bool(self.rng.random() < probability)


Family = Callable[[np.ndarray, Scene], np.ndarray]


def add_noise(samples: np.ndarray, noise: np.ndarray, snr_db: float) -> np.ndarray:
    """Return samples (N,) with noise (N,) whose mean power is `snr_db` below theirs."""
    ratio = (mean_power(samples) + TINY) / (mean_power(noise) + TINY)
    return samples + noise * np.sqrt(ratio / 10 ** (snr_db / 10))


def mean_power(samples: np.ndarray) -> float:
    """Return the mean of the squares of samples (N,)."""
    return float(np.mean(samples**2))


def colour_noise(count: int, scene: Scene) -> np.ndarray:
    """Return (count,) noise with a random slope of its spectrum and, half of the time, random hills
    and valleys."""
    size = _fast_size(count)
    spectrum = np.fft.rfft(scene.rng.standard_normal(size))
    hertz = np.arange(len(spectrum)) * RATE / size
    slope = scene.between(-0.1, 1.1)
    spectrum *= np.maximum(hertz, scene.between(30, 150)) ** -slope
    if scene.happens(0.5):
        knots = np.linspace(np.log(50), np.log(8050), 12)
        hills_db = np.interp(np.log(hertz + 50), knots, scene.rng.normal(0, 5, 12))
        spectrum *= 10 ** (hills_db / 20)
    return np.fft.irfft(spectrum, size)[:count]


def draw_envelope(count: int, scene: Scene) -> np.ndarray:
    """Return an envelope (count,) that wanders around 1, a new value every 40 to 500 ms."""
    step = int(RATE * 10 ** scene.between(np.log10(0.04), np.log10(0.5)))
    knots = len(range(0, count + step, step))
    depth = scene.between(0.2, 0.9)
    wandering = np.interp(
        np.arange(count), np.arange(knots) * step, scene.rng.standard_normal(knots)
    )
    return np.asarray(1 + depth * wandering)


def mix_voices(count: int, voices: int, scene: Scene) -> np.ndarray:
    """Return (count,) of several voices at once, of equal power."""
    mixture = np.zeros(count)
    for _ in range(voices):
        voice = scene.voices(count, scene.rng).astype(np.float64)
        mixture += voice / np.sqrt(mean_power(voice) + TINY)
    return mixture


def reverberate(samples: np.ndarray, rt60_s: float, tail_power: float, scene: Scene) -> np.ndarray:
    """Return samples (N,) in a room, as loud as before.

    Args:
        samples: (N,).
        rt60_s: the time in which the tail falls by 60 dB.
        tail_power: of all reflections, relative to the direct sound.
        scene: the source of chance.
    """
    at_s = np.arange(1, int(RATE * rt60_s)) / RATE
    tail = scene.rng.standard_normal(len(at_s)) * 10 ** (-3.0 * at_s / rt60_s)
    # The first reflections are single echoes; later ones are so dense that they are noise.
    first = int(RATE * scene.between(0.0, 0.02))
    tail[:first] *= scene.rng.random(first) < 0.01
    response = np.concatenate(([1.0], tail * np.sqrt(tail_power / ((tail**2).sum() + TINY))))
    size = _fast_size(len(samples) + len(response))
    heard = np.fft.irfft(np.fft.rfft(samples, size) * np.fft.rfft(response, size), size)[
        : len(samples)
    ]
    return heard * np.sqrt(mean_power(samples) / (mean_power(heard) + TINY))


def limit_band(samples: np.ndarray, low_hz: float, high_hz: float, order: int) -> np.ndarray:
    """Return samples (N,) through the magnitude of a Butterworth band-pass filter, without its
    delay."""
    size = _fast_size(len(samples))
    hertz = np.maximum(np.fft.rfftfreq(size, 1 / RATE), 1.0)
    gain = 1 / np.sqrt(
        (1 + (low_hz / hertz) ** (2 * order)) * (1 + (hertz / high_hz) ** (2 * order))
    )
    return np.fft.irfft(np.fft.rfft(samples, size) * gain, size)[: len(samples)]


def clip(samples: np.ndarray, drive: float) -> np.ndarray:
    """Return samples (N,) scaled so that their peak is `drive` times the limit, and cut at the
    limit."""
    peak = np.abs(samples).max() + TINY
    return np.clip(samples * drive / peak, -1.0, 1.0)


def compand(samples: np.ndarray, law: str) -> np.ndarray:
    """Return samples (N,) in the eight bits of the mu-law or the A-law (ITU-T G.711, the continuous
    curves)."""
    peak = np.abs(samples).max() + TINY
    x = np.abs(samples) / peak
    if law == "mu":
        levels = np.round(127 * np.log1p(255 * x) / np.log(256)) / 127
        heard = np.expm1(levels * np.log(256)) / 255
    else:
        knee, scale = 1 / 87.6, 1 + np.log(87.6)
        curve = np.where(x < knee, 87.6 * x, 1 + np.log(np.maximum(87.6 * x, 1.0))) / scale
        levels = np.round(127 * curve) / 127
        heard = np.where(
            levels * scale < 1, levels * scale / 87.6, np.exp(levels * scale - 1) / 87.6
        )
    return np.sign(samples) * heard * peak


@dataclass(frozen=True)
class Codec:
    """An encoder of FFmpeg, its sample rates and its bit rates."""

    name: str
    container: str
    rates: tuple[int, ...]
    bit_rates: tuple[int, ...]


CODECS = (
    Codec("libopencore_amrnb", "amr", (8000,), (4750, 5900, 7400, 12200)),
    Codec("g726", "wav", (8000,), (16000, 24000, 32000)),
    Codec("libopus", "ogg", (8000, 16000), (6000, 9000, 16000)),
    Codec("libmp3lame", "mp3", (16000, 8000), (8000, 16000, 24000)),
)


def pass_codec(samples: np.ndarray, codec: Codec, rate: int, bit_rate: int) -> np.ndarray:
    """Return samples (N,) after a lossy codec, at the same times and as loud as before."""
    peak = np.abs(samples).max() + TINY
    given = av.AudioFrame.from_ndarray(
        (samples / peak * 0.7 * 32767).astype(np.int16)[None], "s16", "mono"
    )
    given.sample_rate = RATE
    file = io.BytesIO()
    output = av.open(file, "w", format=codec.container)
    assert isinstance(output, OutputContainer)
    with output:
        stream = output.add_stream(codec.name, rate=rate, layout="mono")
        assert isinstance(stream, AudioStream)
        stream.bit_rate = bit_rate
        context = stream.codec_context
        converter = av.AudioResampler(context.format, "mono", rate, context.frame_size or 0)
        for frame in [*converter.resample(given), *converter.resample(None)]:
            output.mux(stream.encode(frame))
        output.mux(stream.encode(None))
    file.seek(0)
    coded = av.open(file)
    assert isinstance(coded, InputContainer)
    with coded:
        converter = av.AudioResampler("flt", "mono", RATE)
        frames = [part for frame in coded.decode(audio=0) for part in converter.resample(frame)]
        frames += converter.resample(None)
    heard = np.concatenate([frame.to_ndarray()[0] for frame in frames]).astype(np.float64)
    aligned = _take_back_delay(heard, samples)
    return aligned * np.sqrt(mean_power(samples) / (mean_power(aligned) + TINY))


def _take_back_delay(heard: np.ndarray, samples: np.ndarray) -> np.ndarray:
    """Return what was heard (M,) as (N,), moved to where its correlation with the samples (N,) is
    largest."""
    size = _fast_size(len(heard) + len(samples))
    products = np.fft.irfft(np.fft.rfft(heard, size) * np.conj(np.fft.rfft(samples, size)), size)
    longest = int(LONGEST_DELAY_S * RATE)
    shifts = np.concatenate((np.arange(longest), np.arange(-longest, 0)))
    delay = int(shifts[np.argmax(products[shifts])])
    moved = heard[delay:] if delay >= 0 else np.concatenate((np.zeros(-delay), heard))
    return np.pad(moved[: len(samples)], (0, max(0, len(samples) - len(moved))))


def _fast_size(count: int) -> int:
    return 1 << max(1, count - 1).bit_length()


def _add_steady(samples: np.ndarray, scene: Scene) -> np.ndarray:
    return add_noise(samples, colour_noise(len(samples), scene), scene.between(*SNR_DB))


def _add_white(samples: np.ndarray, scene: Scene) -> np.ndarray:
    return add_noise(samples, scene.rng.standard_normal(len(samples)), scene.between(*SNR_DB))


def _add_modulated(samples: np.ndarray, scene: Scene) -> np.ndarray:
    noise = colour_noise(len(samples), scene) * draw_envelope(len(samples), scene)
    return add_noise(samples, noise, scene.between(*SNR_DB))


def _add_crowd(samples: np.ndarray, scene: Scene) -> np.ndarray:
    voices = int(scene.rng.integers(1, 9))
    # A single voice that is as loud as the speaker leaves open which of the two is meant.
    lowest = SNR_DB[0] + (10.0 if voices < 3 else 3.0)
    return add_noise(
        samples, mix_voices(len(samples), voices, scene), scene.between(lowest, SNR_DB[1])
    )


def _add_music(samples: np.ndarray, scene: Scene) -> np.ndarray:
    return add_noise(samples, synthetic_music(len(samples), scene.rng), scene.between(*SNR_DB))


def _enter_room(samples: np.ndarray, scene: Scene) -> np.ndarray:
    return reverberate(samples, scene.between(0.15, 1.0), scene.between(0.1, 1.5), scene)


def _telephone(samples: np.ndarray, scene: Scene) -> np.ndarray:
    """Return samples (N,) by a telephone: a band, a hum or noise of the line, eight bits or a codec
    of 8 kHz."""
    order = int(scene.rng.integers(3, 12))
    heard = limit_band(samples, scene.between(50, 400), scene.between(3000, 3900), order)
    if scene.happens(0.7):
        heard = add_noise(heard, _line_noise(len(heard), scene), scene.between(*LINE_SNR_DB))
    if scene.happens(0.4):
        return compand(heard, str(scene.rng.choice(("mu", "A"))))
    if scene.happens(0.4):
        return _pass_any_codec(heard, scene, narrow=True)
    return heard


def _line_noise(count: int, scene: Scene) -> np.ndarray:
    """Return (count,) noise of a line: hiss, a hum of mains, crackle."""
    noise = colour_noise(count, scene)
    noise /= np.sqrt(mean_power(noise) + TINY)
    if scene.happens(0.4):
        at_s = np.arange(count) / RATE
        mains_hz = float(scene.rng.choice((50.0, 60.0)))
        hum = np.zeros(count)
        for harmonic in range(1, int(scene.rng.integers(3, 30))):
            hum += np.sin(2 * np.pi * mains_hz * harmonic * at_s + scene.between(0, 6)) / harmonic
        noise += scene.between(0.3, 2.0) * hum
    if scene.happens(0.3):
        clicks = scene.rng.random(count) < scene.between(2, 60) / RATE
        noise += clicks * scene.rng.standard_normal(count) * scene.between(20, 100)
    return noise


def _radio(samples: np.ndarray, scene: Scene) -> np.ndarray:
    """Return samples (N,) by a radio: a band with random edges, often clipped, and noise, mostly in
    the band."""
    low_hz = scene.between(60, 700)
    high_hz = max(scene.between(1400, 7000), 2.5 * low_hz)
    order = int(scene.rng.integers(1, 12))
    heard = limit_band(samples, low_hz, high_hz, order)
    if scene.happens(0.6):
        heard = clip(heard, scene.between(1.0, 12.0))
    noise = colour_noise(len(samples), scene)
    if scene.happens(0.5):
        noise = noise * draw_envelope(len(samples), scene)
    if scene.happens(0.7):
        noise = limit_band(noise, low_hz, high_hz, order)
    return add_noise(heard, noise, scene.between(*RADIO_SNR_DB))


def _pass_any_codec(samples: np.ndarray, scene: Scene, narrow: bool = False) -> np.ndarray:
    codecs = [codec for codec in CODECS if 8000 in codec.rates] if narrow else CODECS
    codec = codecs[int(scene.rng.integers(len(codecs)))]
    rate = 8000 if narrow else int(scene.rng.choice(codec.rates))
    return pass_codec(samples, codec, rate, int(scene.rng.choice(codec.bit_rates)))


def _codec(samples: np.ndarray, scene: Scene) -> np.ndarray:
    return _pass_any_codec(samples, scene)


def _limiter(samples: np.ndarray, scene: Scene) -> np.ndarray:
    """Return samples (N,) clipped, or with their level evened out over 5 to 200 ms."""
    if scene.happens(0.5):
        return clip(samples, scene.between(1.5, 20.0))
    size = int(RATE * 10 ** scene.between(np.log10(0.005), np.log10(0.2)))
    power = np.convolve(samples**2, np.full(size, 1 / size), "same")
    level = np.sqrt(np.maximum(power, 1e-5 * power.max()) + TINY)
    return samples * level ** -scene.between(0.3, 0.9)


def _drop_outs(samples: np.ndarray, scene: Scene) -> np.ndarray:
    """Return samples (N,) that are silent for 10 to 150 ms, once or twice a second."""
    heard = samples.copy()
    for _ in range(1 + int(scene.rng.poisson(scene.between(0.3, 2.0) * len(samples) / RATE))):
        start = int(scene.rng.integers(len(samples)))
        heard[start : start + int(RATE * scene.between(0.01, 0.15))] *= scene.between(0.0, 0.1)
    return heard


@dataclass(frozen=True)
class Stage:
    """A stage of `spoil`: how often a recording goes through it, and the families that it has."""

    probability: float
    families: Mapping[str, Family]


STAGES = (
    Stage(0.25, {"room": _enter_room}),
    Stage(
        0.65,
        {
            "steady": _add_steady,
            "white": _add_white,
            "modulated": _add_modulated,
            "crowd": _add_crowd,
            "music": _add_music,
        },
    ),
    Stage(0.5, {"telephone": _telephone, "radio": _radio, "codec": _codec}),
    Stage(0.1, {"limiter": _limiter, "drop-outs": _drop_outs}),
)
WEIGHTS = {"modulated": 2.0, "crowd": 2.0, "music": 0.7, "radio": 2.5, "codec": 0.7}
"""How often a family is drawn, relative to the other families of its stage, where that is not 1."""
FAMILIES = tuple(name for stage in STAGES for name in stage.families)


def play_backwards(samples: np.ndarray) -> Voices:
    """Return other voices that are a recording (N,) itself, backwards, each from somewhere else."""
    return lambda count, rng: np.resize(np.roll(samples[::-1], rng.integers(len(samples))), count)


def spoil(
    samples: np.ndarray,
    rng: np.random.Generator,
    voices: Voices | None = None,
    left_out: Collection[str] = (),
) -> np.ndarray:
    """Return a recording (N,) float32 at `RATE` that is harder to hear than the given one; times
    stay.

    Args:
        samples: (N,) of speech.
        rng: the source of chance.
        voices: where other voices come from; None: from the recording itself, backwards.
        left_out: families that are not drawn.
    """
    scene = Scene(rng, voices or play_backwards(samples))
    heard = np.asarray(samples, np.float64)
    while True:
        drawn = [
            family
            for stage in STAGES
            if (family := _draw_family(stage, scene, left_out)) is not None
        ]
        if drawn:
            break
    for family in drawn:
        heard = family(heard, scene)
    return heard.astype(np.float32)


def _draw_family(stage: Stage, scene: Scene, left_out: Collection[str]) -> Family | None:
    names = [name for name in stage.families if name not in left_out]
    if not names or not scene.happens(stage.probability):
        return None
    weights = np.array([WEIGHTS.get(name, 1.0) for name in names])
    return stage.families[names[int(scene.rng.choice(len(names), p=weights / weights.sum()))]]


def _condition_noise(
    samples: np.ndarray, scene: Scene, snr_db: float, *, modulated: bool = False
) -> np.ndarray:
    noise = colour_noise(len(samples), scene)
    if modulated:
        noise = noise * draw_envelope(len(samples), scene)
    return add_noise(samples, noise, snr_db)


def _condition_telephone(samples: np.ndarray, scene: Scene) -> np.ndarray:
    """Return samples (N,) by a telephone with 15 dB of line noise: from 300 to 3400 Hz, in the
    eight bits of a law."""
    heard = limit_band(samples, 300.0, 3400.0, 8)
    heard = add_noise(heard, _line_noise(len(heard), scene), 15.0)
    return compand(heard, str(scene.rng.choice(("mu", "A"))))


def _condition_radio(samples: np.ndarray, scene: Scene, snr_db: float) -> np.ndarray:
    """Return samples (N,) by a narrow radio, clipped, with noise `snr_db` below in its band and
    silence outside."""
    low_hz, high_hz = scene.between(300, 500), scene.between(2200, 3000)
    heard = clip(limit_band(samples, low_hz, high_hz, 8), 6.0)
    noise = limit_band(scene.rng.standard_normal(len(samples)), low_hz, high_hz, 8)
    return add_noise(add_noise(heard, noise, snr_db), scene.rng.standard_normal(len(samples)), 60.0)


def _condition_clean_telephone(samples: np.ndarray, scene: Scene) -> np.ndarray:
    return compand(limit_band(samples, 300.0, 3400.0, 30), "mu")


def _condition_speech_noise(samples: np.ndarray, scene: Scene) -> np.ndarray:
    """Return samples (N,) with steady noise of their own spectrum, 10 dB below."""
    return add_noise(samples, _speech_shaped_noise(samples, scene), 10.0)


def _condition_far(samples: np.ndarray, scene: Scene) -> np.ndarray:
    """Return samples (N,) by a distant microphone: a tail as strong as the direct sound, and 15 dB
    of noise."""
    return add_noise(
        reverberate(samples, 0.5, 1.0, scene), _speech_shaped_noise(samples, scene), 15.0
    )


def _condition_mistuned(samples: np.ndarray, scene: Scene) -> np.ndarray:
    """Return samples (N,) by a single-sideband receiver that is 60 to 120 Hz off its station: every
    frequency is higher by as much."""
    spectrum = np.fft.fft(limit_band(samples, 300.0, 3000.0, 8))
    spectrum[len(samples) // 2 + 1 :] = 0.0
    times_s = np.arange(len(samples)) / RATE
    turning = np.exp(2j * np.pi * scene.between(60, 120) * times_s)
    heard = 2.0 * np.real(np.fft.ifft(spectrum) * turning)
    return add_noise(heard, scene.rng.standard_normal(len(samples)), 15.0)


def _condition_hum(samples: np.ndarray, scene: Scene) -> np.ndarray:
    """Return samples (N,) with the hum of the mains and its harmonics, as loud as the speech."""
    times_s = np.arange(len(samples)) / RATE
    mains_hz = (50.0, 60.0)[int(scene.rng.integers(2))]
    tones = (
        np.sin(2 * np.pi * (k * mains_hz * times_s + scene.rng.random())) / k for k in range(1, 40)
    )
    return add_noise(samples, np.sum(list(tones), 0), 0.0)


def _condition_echo(samples: np.ndarray, scene: Scene) -> np.ndarray:
    """Return samples (N,) with one echo, 6 dB below and 0.15 to 0.3 s later."""
    delay = round(RATE * scene.between(0.15, 0.3))
    return samples + 0.5 * np.pad(samples, (delay, 0))[: len(samples)]


def _condition_denoised(samples: np.ndarray, scene: Scene) -> np.ndarray:
    """Return samples (N,) with white noise 5 dB below, after which a program has subtracted its
    mean spectrum: speech with holes, and musical noise."""
    noisy = add_noise(samples, scene.rng.standard_normal(len(samples)), 5.0)
    noise = noisy - samples
    window, hop = np.hanning(513)[:-1], 128
    count = 1 + max(0, len(noisy) - len(window)) // hop
    heard = np.zeros(len(noisy))
    power = np.mean(
        [
            np.abs(np.fft.rfft(window * noise[k * hop : k * hop + len(window)])) ** 2
            for k in range(count)
        ],
        0,
    )
    for k in range(count):
        part = slice(k * hop, k * hop + len(window))
        spectrum = np.fft.rfft(window * noisy[part])
        own = np.abs(spectrum) ** 2
        gain = np.sqrt(np.maximum(1.0 - 2.0 * power / np.maximum(own, TINY), 0.001))
        heard[part] += window * np.fft.irfft(gain * spectrum)
    return heard


def _speech_shaped_noise(samples: np.ndarray, scene: Scene) -> np.ndarray:
    phases = np.exp(2j * np.pi * scene.rng.random(len(samples) // 2 + 1))
    return np.fft.irfft(np.abs(np.fft.rfft(samples)) * phases, len(samples))


CONDITIONS: Mapping[str, Family] = {
    "clean": lambda samples, scene: samples,
    "noise": lambda samples, scene: add_noise(
        samples, scene.rng.standard_normal(len(samples)), 10.0
    ),
    "speech-noise": _condition_speech_noise,
    "steady": lambda samples, scene: _condition_noise(samples, scene, 10.0),
    "modulated": lambda samples, scene: _condition_noise(samples, scene, 10.0, modulated=True),
    "white": lambda samples, scene: add_noise(
        samples, scene.rng.standard_normal(len(samples)), 5.0
    ),
    "crowd": lambda samples, scene: add_noise(samples, mix_voices(len(samples), 6, scene), 8.0),
    "music": lambda samples, scene: add_noise(
        samples, synthetic_music(len(samples), scene.rng), 8.0
    ),
    "room": lambda samples, scene: reverberate(samples, 0.5, 0.7, scene),
    "far": _condition_far,
    "telephone": _condition_telephone,
    "clean-telephone": _condition_clean_telephone,
    "radio": lambda samples, scene: _condition_radio(samples, scene, 0.0),
    "worse-radio": lambda samples, scene: _condition_radio(samples, scene, -5.0),
    "codec": lambda samples, scene: pass_codec(samples, CODECS[0], 8000, 4750),
    "limiter": lambda samples, scene: clip(samples, 10.0),
    "mistuned": _condition_mistuned,
    "hum": _condition_hum,
    "echo": _condition_echo,
    "denoised": _condition_denoised,
}
"""Families at fixed strengths, for measuring; each recording draws its own noise, voices and
band. The last four are of no family of `STAGES`: nothing was trained on such sound."""


def spoil_by(
    condition: str, samples: np.ndarray, rng: np.random.Generator, voices: Voices | None = None
) -> np.ndarray:
    """Return a recording (N,) float32 at `RATE` under one of `CONDITIONS`.

    Args:
        condition: its name.
        samples: (N,) of speech.
        rng: the source of chance.
        voices: where other voices come from; None: from the recording itself, backwards.
    """
    scene = Scene(rng, voices or play_backwards(samples))
    return CONDITIONS[condition](np.asarray(samples, np.float64), scene).astype(np.float32)
