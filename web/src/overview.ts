// The whole recording in one strip, drawn by wavesurfer.js: what is in view is a region of it that is dragged.

import WaveSurfer from "wavesurfer.js";
import RegionsPlugin, { type Region } from "wavesurfer.js/dist/plugins/regions.js";
import { element, onceAFrame } from "./dom";
import type { PageState } from "./page-state";
import { overviewPeaks } from "./peaks";
import { doubtShares } from "./words";

const PEAKS = 1200;
const MOST_MARKS = 3000;

export class Overview {
  readonly root = element("div", { class: "overview", "data-testid": "overview", "aria-hidden": "true" });
  private readonly strip = element("div", { class: "overview-strip" });
  private readonly marks = element("canvas", { class: "overview-marks" });
  private readonly cursor = element("div", { class: "cursor" });
  private surfer: WaveSurfer | null = null;
  private region: Region | null = null;
  private isDragged = false;
  /** Mark where one has to look: below the strip, a tick for each. */
  readonly drawMarks = onceAFrame(() => this.paintMarks());

  constructor(private readonly state: PageState) {
    this.root.append(this.strip, this.marks, this.cursor);
    state.sound.onChange(() => this.show());
    state.view.onChange(() => this.follow());
    new ResizeObserver(() => this.drawMarks()).observe(this.root);
    this.show();
  }

  /** Draw the recording anew, when its peaks are known or the theme has changed. */
  show(): void {
    const { sound, view, theme } = this.state;
    this.surfer?.destroy();
    const regions = RegionsPlugin.create();
    this.surfer = WaveSurfer.create({
      container: this.strip,
      height: 44,
      peaks: [sound.levels.length ? overviewPeaks(sound.levels, view.duration, PEAKS) : new Float32Array(2)],
      duration: view.duration,
      waveColor: theme.wave,
      progressColor: theme.wave,
      cursorWidth: 0,
      normalize: sound.levels.length > 0,
      interact: true,
      plugins: [regions],
    });
    this.surfer.on("click", (share) => {
      const half = view.span / 2;
      const time = share * view.duration;
      view.set(time - half, time + half);
      this.state.player.seek(time);
    });
    this.surfer.on("ready", () => {
      this.region = regions.addRegion({ start: view.start, end: view.end, color: this.colour(), minLength: 0.005 });
      this.region.on("update", () => this.drag());
      this.region.on("update-end", () => {
        this.isDragged = false;
      });
    });
    this.drawMarks();
  }

  /** Return the colour of what is in view: none where all is. */
  private colour(): string {
    const { view, theme } = this.state;
    return view.span < view.duration ? theme.shade : "transparent";
  }

  private drag(): void {
    if (!this.region) return;
    this.isDragged = true;
    this.state.follows = false;
    this.state.view.set(this.region.start, this.region.end);
  }

  private follow(): void {
    if (!this.isDragged) this.region?.setOptions({ start: this.state.view.start, end: this.state.view.end, color: this.colour() });
  }

  placeCursor(): void {
    this.cursor.style.left = `${(100 * this.state.player.time) / this.state.view.duration}%`;
  }

  private paintMarks(): void {
    const width = this.root.clientWidth;
    const context = this.marks.getContext("2d");
    if (!context || !width) return;
    this.marks.width = width;
    this.marks.height = 5;
    const { doubts, doubtBelow, theme, view, words } = this.state;
    const mark = (start: number, end: number, colour: string, tall = 5) => {
      context.fillStyle = colour;
      const x = (start / view.duration) * width;
      context.fillRect(x - 1, 5 - tall, Math.max(2, ((end - start) / view.duration) * width), tall);
    };
    const isCrowded = doubts.length > width / 4;
    const regions = isCrowded ? doubts.filter((doubt) => doubt.place < 0) : doubts;
    // Where marks would run into each other, their height is the share of the words that are doubtful.
    if (isCrowded) {
      const perS = width / 2 / view.duration;
      doubtShares(words, doubtBelow, { start: 0, end: view.duration }, Math.ceil(width / 2)).forEach((share, at) => {
        if (share > 0) mark(at / perS, (at + 1) / perS, theme.doubt, Math.min(1, 2 * share) * 5);
      });
    }
    for (const { start, end, place } of regions.slice(0, MOST_MARKS)) mark(start, end, place < 0 ? theme.hand : theme.doubt);
  }
}
