"""Pictures in which word edges are drawn by eye: waveform, spectrogram and energies, at 2.6 pixels
a millisecond.

    python research/label_pictures.py AUDIO TEXT OUT_DIR [--edges WORDS.tsv]

TEXT is a file with what is said. OUT_DIR gets `words.txt` (a word a line), `overview.png` (the
whole utterance) and `000.png`, `001.png`, … (windows of 450 ms, each 350 ms after the one before).
Nothing in them comes from a model. With `--edges`, a table of words with `start_ms` and `end_ms`
(as readers write it), the edges are drawn too, for training and for checks. The rules for drawing
edges are in `docs/labelling.md`.
"""

from __future__ import annotations

import argparse
import csv
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view

from ctc_align.audio.loading import load_audio
from ctc_align.errors import CtcAlignError
from ctc_align.view import check_plotting

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

WINDOW_MS, STEP_MS = 450, 350
SIZE_PX = (1240, 920)
"""Of every picture: viewers of images commonly shrink what is larger than 1.15 megapixels."""
MARGIN_PX = 26
"""At the left and the right of the panels."""
DPI = 100
HOP_MS = 0.5
EFFECTIVE_MS = 4.0
"""Effective length of the spectrogram's Gaussian window: formants are bands, and each pitch period
is a line."""
WHITE_DB, BLACK_DB, ENERGY_RANGE_DB = -64.0, -10.0, 64.0
LOUDER = 8
"""Factor of the grey copy of the waveform."""
BANDS_HZ = {"0–0.5 kHz": (60, 500), "0.5–4 kHz": (500, 4000), "4–8 kHz": (4000, 8000)}
COLOURS = ("tab:blue", "black", "tab:red")
_FFT = 512


@dataclass(frozen=True)
class Picture:
    """What all pictures of an utterance share.

    Attributes:
        samples: (N,), the loudest at ±1.
        rate: of the samples, in Hz.
        spectrogram_db: (F, T), 0 the loudest of the utterance; column t is centred on t * HOP_MS.
        bands_db: (3, T), likewise, each relative to the loudest of all bands.
        edges: word, start and end in ms, to be drawn; mostly none.
    """

    samples: np.ndarray
    rate: int
    spectrogram_db: np.ndarray
    bands_db: np.ndarray
    edges: Sequence[tuple[str, float, float]] = ()

    @property
    def duration_ms(self) -> float:
        return 1000 * len(self.samples) / self.rate


def analysed(
    samples: np.ndarray, rate: int, edges: Sequence[tuple[str, float, float]] = ()
) -> Picture:
    """Return the picture of (N,) samples, whose own mean and level do not matter."""
    samples = samples - samples.mean()
    samples = samples / max(float(np.abs(samples).max()), 1e-9)
    plain = _power(samples, rate)
    emphasised = _power(np.append(samples[:1], samples[1:] - 0.9 * samples[:-1]), rate)
    hz = np.fft.rfftfreq(_FFT, 1 / rate)
    bands = np.stack([plain[(hz >= low) & (hz < high)].sum(0) for low, high in BANDS_HZ.values()])
    bands[0] = np.convolve(bands[0], _hann(10.0), mode="same")
    bands[1:] = [np.convolve(band, _hann(4.0), mode="same") for band in bands[1:]]
    return Picture(samples, rate, _decibels(emphasised), _decibels(bands), edges)


def _power(samples: np.ndarray, rate: int) -> np.ndarray:
    """Return the power (F, T) in Gaussian windows, one every HOP_MS."""
    half = round(EFFECTIVE_MS * rate / 1000)
    window = np.exp(-12 * (np.arange(-half, half) / (2 * half)) ** 2)
    padded = np.pad(samples, (half, half))
    starts = np.round(np.arange(0, len(samples), HOP_MS * rate / 1000)).astype(int)
    frames = sliding_window_view(padded, 2 * half)[starts] * window
    return np.abs(np.fft.rfft(frames, _FFT)).T ** 2


def _hann(length_ms: float) -> np.ndarray:
    window = np.hanning(round(length_ms / HOP_MS) + 2)
    return window / window.sum()


def _decibels(power: np.ndarray) -> np.ndarray:
    return 10 * np.log10(np.maximum(power / max(float(power.max()), 1e-30), 1e-12))


def window_figure(picture: Picture, start_ms: float, title: str) -> Figure:
    """Draw the window that begins at `start_ms`; time beyond the recording is empty."""
    figure, (wave, sound, energy) = _panels((300, 330, 170))
    end_ms = start_ms + WINDOW_MS
    _draw_wave(wave, picture, start_ms, end_ms)
    _draw_spectrogram(sound, picture, start_ms, end_ms)
    _draw_energy(energy, picture)
    for axes in (wave, sound, energy):
        axes.set_xlim(start_ms, end_ms)
        _draw_grid(axes, start_ms, end_ms, 10, 50)
        _draw_edges(axes, picture.edges, names=axes is wave)
    figure.text(0.5, 0.997, title, ha="center", va="top", fontsize=9)
    return figure


def overview_figure(picture: Picture, title: str) -> Figure:
    """Draw the whole utterance, with a line every 50 ms and a time every 200 ms (500 in long
    ones)."""
    figure, (wave, sound, energy) = _panels((300, 330, 170))
    _draw_wave(wave, picture, 0.0, picture.duration_ms)
    _draw_spectrogram(sound, picture, 0.0, picture.duration_ms)
    _draw_energy(energy, picture)
    thin, thick = (50, 200) if picture.duration_ms < 6000 else (100, 500)
    for axes in (wave, sound, energy):
        axes.set_xlim(0, picture.duration_ms)
        _draw_grid(axes, 0, picture.duration_ms, thin, thick)
        _draw_edges(axes, picture.edges, names=axes is wave)
    figure.text(0.5, 0.997, title, ha="center", va="top", fontsize=9)
    return figure


def _panels(heights_px: tuple[int, int, int]) -> tuple[Figure, list[Axes]]:
    """Return a figure of SIZE_PX and its panels from above to below, room for times above each and
    below the last."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    width, height = SIZE_PX
    figure = Figure(figsize=(width / DPI, height / DPI), dpi=DPI)
    FigureCanvasAgg(figure)
    gap = (height - 18 - sum(heights_px)) / (len(heights_px) + 1)
    panels, top = [], height - 18.0
    for pixels in heights_px:
        bottom = top - gap - pixels
        box = (MARGIN_PX / width, bottom / height, 1 - 2 * MARGIN_PX / width, pixels / height)
        panels.append(figure.add_axes(box))
        top = bottom
    return figure, panels


def _draw_wave(axes: Axes, picture: Picture, start_ms: float, end_ms: float) -> None:
    first = max(0, round(start_ms * picture.rate / 1000))
    part = picture.samples[first : round(end_ms * picture.rate / 1000) + 1]
    if len(part):
        most = max(float(np.abs(part).max()), 0.02)
        times_ms = (first + np.arange(len(part))) * 1000 / picture.rate
        axes.plot(times_ms, np.clip(part / most * LOUDER, -1, 1), color="0.72", linewidth=0.5)
        axes.plot(times_ms, part / most, color="black", linewidth=0.8)
        axes.text(
            0.004,
            0.97,
            f"±{most:.2f} (grey ×{LOUDER})",
            transform=axes.transAxes,
            fontsize=7,
            va="top",
        )
    axes.set_ylim(-1.05, 1.05)
    axes.set_yticks([])


def _draw_spectrogram(axes: Axes, picture: Picture, start_ms: float, end_ms: float) -> None:
    first = round(start_ms / HOP_MS)
    part = picture.spectrogram_db[:, first : round(end_ms / HOP_MS) + 1]
    extent = (
        (first - 0.5) * HOP_MS,
        (first + part.shape[1] - 0.5) * HOP_MS,
        0.0,
        picture.rate / 2000,
    )
    axes.imshow(
        part, origin="lower", aspect="auto", extent=extent, cmap="Greys",
        vmin=WHITE_DB, vmax=BLACK_DB, interpolation="bilinear",
    )  # fmt: skip
    axes.set_yticks(range(9), [str(khz) for khz in range(9)], fontsize=7)
    axes.set_ylim(0, 8)


def _draw_energy(axes: Axes, picture: Picture) -> None:
    times_ms = np.arange(picture.bands_db.shape[1]) * HOP_MS
    for number, (name, band_db, colour) in enumerate(zip(BANDS_HZ, picture.bands_db, COLOURS)):
        axes.text(
            0.1 * number, -0.02, name, transform=axes.transAxes, va="top", color=colour, fontsize=8
        )
        axes.plot(times_ms, band_db, color=colour, linewidth=1.1)
    axes.set_ylim(-ENERGY_RANGE_DB, 2)
    axes.set_yticks(
        range(-60, 1, 10), [str(decibels) for decibels in range(-60, 1, 10)], fontsize=6
    )


def _draw_grid(axes: Axes, start_ms: float, end_ms: float, thin: int, thick: int) -> None:
    """Draw a line every `thin` ms and a thicker one every `thick` ms, ticks at fifths of `thin`,
    and write times above.

    Those of thin lines, where they are 10 ms apart, are without hundreds: four digits do not fit.

    Lines and texts instead of matplotlib's ticks: hundreds of those take seconds a picture.
    """
    first = int(np.ceil(start_ms / thin)) * thin
    marks = np.arange(first, end_ms + 1e-6, thin)
    main = marks % thick == 0
    across = axes.get_xaxis_transform()
    axes.set_xticks([])
    axes.vlines(marks[~main], 0, 1, colors="tab:green", linewidths=0.5, alpha=0.6, transform=across)
    axes.vlines(marks[main], 0, 1, colors="tab:orange", linewidths=1.0, alpha=0.7, transform=across)
    fifths = np.arange(first, end_ms, thin / 5)
    for low, high in ((0.0, 0.015), (0.985, 1.0)):
        axes.vlines(fifths, low, high, colors="black", linewidths=0.6, transform=across)
    for mark in marks[main]:
        axes.text(
            mark, 1.008, f"{mark:.0f}", transform=across, ha="center", fontsize=9, fontweight="bold"
        )
    for mark in marks[~main] if thin == 10 else ():
        axes.text(mark, 1.008, f"{mark % 100:02.0f}", transform=across, ha="center", fontsize=7)


def _draw_edges(axes: Axes, edges: Sequence[tuple[str, float, float]], names: bool) -> None:
    left, right = axes.get_xlim()
    for word, start_ms, end_ms in edges:
        for at_ms in (start_ms, end_ms):
            axes.axvline(at_ms, color="magenta", linewidth=1.6)
        middle_ms = (max(start_ms, left) + min(end_ms, right)) / 2
        if names and left < middle_ms < right and start_ms < right and end_ms > left:
            axes.text(
                middle_ms, -0.98, word, color="magenta", ha="center", fontsize=11, fontweight="bold"
            )


def words_of(text: str) -> list[str]:
    """Return the words of a transcript without punctuation around them, in lower case.

    >>> words_of('Don\\'t they call you "Junior"?')
    ["don't", 'they', 'call', 'you', 'junior']
    """
    bare = (word.strip('.,;:!?"“”()[]-–—').lower() for word in text.split())
    return [word for word in bare if word]


def read_edges(path: Path) -> list[tuple[str, float, float]]:
    """Read the words of a table with the columns `word`, `start_ms` and `end_ms`; exit if it is not
    one."""
    with path.open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file, delimiter="\t"))
    try:
        return [(row["word"], float(row["start_ms"]), float(row["end_ms"])) for row in rows]
    except (KeyError, TypeError, ValueError) as error:
        sys.exit(
            f"{path}: expected tab-separated columns word, start_ms, end_ms with numbers; got"
            f" {error}"
        )


def write_pictures(picture: Picture, words: Sequence[str], folder: Path) -> int:
    """Write the word list and all pictures into `folder`; return the number of windows."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "words.txt").write_text("\n".join(words) + "\n", "utf-8")
    said = " ".join(words)
    overview_figure(picture, f"{picture.duration_ms:.0f} ms: {said}").savefig(
        folder / "overview.png"
    )
    count = 1 + max(0, int(np.ceil((picture.duration_ms - WINDOW_MS) / STEP_MS)))
    for number in range(count):
        start_ms = number * STEP_MS
        title = (
            f"{number:03d}   {start_ms}–{start_ms + WINDOW_MS} ms of {picture.duration_ms:.0f}  "
            f" {said[:120]}"
        )
        window_figure(picture, start_ms, title).savefig(folder / f"{number:03d}.png")
    return count


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("audio", type=Path)
    parser.add_argument("text", type=Path)
    parser.add_argument("out_dir", type=Path)
    parser.add_argument("--edges", type=Path, help="a table of words whose edges are drawn")
    arguments = parser.parse_args()
    try:
        check_plotting()
        audio = load_audio(arguments.audio)
        words = words_of(arguments.text.read_text("utf-8"))
    except (CtcAlignError, OSError, UnicodeDecodeError) as error:
        print(error, file=sys.stderr)
        return 2
    if not words:
        print(
            f"{arguments.text}: expected what is said in {arguments.audio}, got no word",
            file=sys.stderr,
        )
        return 2
    edges = read_edges(arguments.edges) if arguments.edges else []
    picture = analysed(np.asarray(audio.samples, dtype=np.float64), audio.sample_rate, edges)
    count = write_pictures(picture, words, arguments.out_dir)
    print(f"{arguments.out_dir}: overview.png and {count} windows")
    return 0


if __name__ == "__main__":
    sys.exit(main())
