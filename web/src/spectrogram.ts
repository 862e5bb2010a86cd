// The spectrogram of what is in view: asked of a worker, drawn as a picture that is moved and stretched until the next.

import type { Sound } from "./sound";
import type { SpectrogramAnswer, SpectrogramRequest } from "./spectrogram-worker";
import type { View } from "./view";
import source from "worker:./spectrogram-worker.ts";

export const LONGEST_SPECTROGRAM_S = 60;
const TOP_HZ = 8000;
const AROUND = 0.25;
const MOST_COLUMNS = 3000;
export const WIDE_S = 0.005;
export const NARROW_S = 0.03;

export class Spectrogram {
  window = WIDE_S;
  private readonly worker: Worker;
  private readonly canvas = document.createElement("canvas");
  private picture: { start: number; end: number; key: string } | null = null;
  private asked: { start: number; end: number; key: string; id: number } | null = null;
  private values: SpectrogramAnswer | null = null;
  private colours = new Uint8ClampedArray(256 * 4);
  private count = 0;

  constructor(
    private readonly sound: Sound,
    private readonly ready: () => void,
  ) {
    const url = URL.createObjectURL(new Blob([source], { type: "text/javascript" }));
    this.worker = new Worker(url);
    this.worker.onmessage = (event: MessageEvent<SpectrogramAnswer>) => {
      if (event.data.id !== this.asked?.id) return;
      this.picture = this.asked;
      this.asked = null;
      this.values = event.data;
      this.paint();
      this.ready();
    };
  }

  /** Set the colours from silence to the loudest, each [red, green, blue]. */
  setColours(stops: readonly (readonly number[])[]): void {
    for (let value = 0; value < 256; value++) {
      const at = (value / 255) * (stops.length - 1);
      const low = Math.min(stops.length - 2, Math.floor(at));
      for (let part = 0; part < 3; part++) {
        this.colours[4 * value + part] = stops[low][part] + (at - low) * (stops[low + 1][part] - stops[low][part]);
      }
      this.colours[4 * value + 3] = 255;
    }
    this.paint();
  }

  private paint(): void {
    if (!this.values) return;
    const { width, height, values } = this.values;
    this.canvas.width = width;
    this.canvas.height = height;
    const context = this.canvas.getContext("2d");
    if (!context) return;
    const image = new ImageData(width, height);
    const pixels = new Uint32Array(image.data.buffer);
    const colours = new Uint32Array(this.colours.buffer);
    for (let at = 0; at < values.length; at++) pixels[at] = colours[values[at]];
    context.putImageData(image, 0, 0);
  }

  /** Draw into [top, top + height) of a canvas; return why nothing is drawn, "" where something is. */
  draw(context: CanvasRenderingContext2D, view: View, top: number, height: number): string {
    if (!this.sound.hasSamples) return "";
    if (view.span > LONGEST_SPECTROGRAM_S) return "Zoom in to see the spectrogram";
    this.ask(view, height);
    if (!this.picture) return "…";
    const x = view.x(this.picture.start);
    context.imageSmoothingEnabled = true;
    context.drawImage(this.canvas, x, top, view.x(this.picture.end) - x, height);
    return "";
  }

  private ask(view: View, height: number): void {
    if (this.asked) return;
    const key = `${(view.width / view.span).toPrecision(5)} ${this.window} ${height}`;
    const has = this.picture;
    if (has?.key === key && has.start <= view.start + 1e-9 && has.end >= view.end - 1e-9) return;
    const around = Math.max(AROUND * view.span, 2 * this.window);
    const start = Math.max(0, view.start - around);
    const end = Math.min(view.duration, view.end + around);
    const clip = this.sound.samples(start, end);
    if (!clip?.samples.length) return;
    this.asked = { start: clip.start, end: clip.end, key, id: ++this.count };
    const columns = ((clip.end - clip.start) / view.span) * Math.min(view.width, 1600);
    const width = Math.round(Math.min(MOST_COLUMNS, Math.max(1, columns)));
    const request: SpectrogramRequest = {
      id: this.count,
      samples: clip.samples,
      rate: clip.rate,
      width,
      height: Math.round(Math.min(256, Math.max(64, 1.5 * height))),
      top: Math.min(TOP_HZ, clip.rate / 2),
      window: this.window,
    };
    this.worker.postMessage(request, [clip.samples.buffer]);
  }
}
