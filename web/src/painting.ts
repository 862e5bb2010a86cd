// Draws the stage: ruler, waveform, spectrogram and tiers of what is in view, and nothing else.

import type { PageState } from "./page-state";
import { type Level, levelFor, rangeOf } from "./peaks";
import { lowestRated, type Rating, ratedLabel, stepOf } from "./ratings";
import type { Spectrogram } from "./spectrogram";
import { colourOf } from "./theme";
import { doubtShares, isRightToLeft, isTimed, modelSpan, type Span, type TimedWord, type Token, type Word } from "./words";

export interface Lane {
  name: "ruler" | "wave" | "spectrogram" | "words" | "tokens" | "speakers";
  top: number;
  height: number;
}

const SHARE_PX = 3;
const FONT = "system-ui, -apple-system, 'Segoe UI', Roboto, 'Noto Sans', sans-serif";

/** Return the lanes from top to bottom, filling `height` pixels. */
export function lanesFor(state: PageState, height: number): Lane[] {
  const speakers = new Set(state.words.list.map((word) => word.speaker)).size > 1;
  const fixed = 22 + 34 + 28 + (speakers ? 20 : 0);
  const rest = Math.max(60, height - fixed);
  const spectrogram = state.sound.hasSamples ? Math.round(0.58 * rest) : 0;
  const lanes: Lane[] = [];
  let top = 0;
  const add = (name: Lane["name"], of: number) => {
    if (of > 0) lanes.push({ name, top, height: of });
    top += of;
  };
  add("ruler", 22);
  add("wave", rest - spectrogram);
  add("spectrogram", spectrogram);
  add("words", 34);
  add("tokens", 28);
  if (speakers) add("speakers", 20);
  return lanes;
}

export class Painter {
  constructor(
    private readonly state: PageState,
    private readonly spectrogram: Spectrogram,
  ) {}

  paint(context: CanvasRenderingContext2D, lanes: readonly Lane[], height: number): void {
    const { theme, view } = this.state;
    context.fillStyle = theme.ground;
    context.fillRect(0, 0, view.width, height);
    for (const lane of lanes) {
      context.save();
      context.beginPath();
      context.rect(0, lane.top, view.width, lane.height);
      context.clip();
      if (lane.name === "ruler") this.ruler(context, lane);
      else if (lane.name === "wave") this.wave(context, lane);
      else if (lane.name === "spectrogram") this.sound(context, lane);
      else if (lane.name === "words") this.wordTier(context, lane);
      else if (lane.name === "tokens") this.tokenTier(context, lane);
      else this.speakerTier(context, lane);
      context.restore();
      if (lane.top) {
        context.fillStyle = theme.line;
        context.fillRect(0, lane.top, view.width, 1);
      }
    }
    this.regions(context, lanes);
    this.edges(context, lanes);
  }

  private ruler(context: CanvasRenderingContext2D, lane: Lane): void {
    const { theme, view } = this.state;
    const step = [1e-3, 2e-3, 5e-3, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 1800, 3600].find(
      (of) => of * view.pxPerS > 76,
    ) ?? 7200;
    context.font = `11px ${FONT}`;
    context.textBaseline = "middle";
    context.textAlign = "left";
    context.direction = "ltr";
    for (let mark = Math.floor(view.start / step); mark * step <= view.end; mark++) {
      const x = Math.round(view.x(mark * step));
      context.fillStyle = theme.line;
      context.fillRect(x, lane.top + 8, 1, lane.height);
      for (let part = 1; part < 5; part++) {
        context.fillRect(Math.round(view.x((mark + part / 5) * step)), lane.top + 17, 1, 5);
      }
      context.fillStyle = theme.faint;
      const text = clock(mark * step, step);
      if (x > -4 && x + 4 + context.measureText(text).width < view.width) context.fillText(text, x + 4, lane.top + 11);
    }
  }

  private wave(context: CanvasRenderingContext2D, lane: Lane): void {
    const { theme, view, sound } = this.state;
    const middle = lane.top + lane.height / 2;
    const coarse = sound.levels.length ? levelFor(sound.levels, view.pxPerS) : null;
    const gain = (0.46 * lane.height) / (loudest(sound.levels) || 1);
    // Peaks that are as fine as pixels need no samples.
    const clips = coarse && coarse.perS >= 0.7 * view.pxPerS && view.span > 6 ? [] : sound.clips(view.start, view.end);
    if (clips.length || coarse) {
      context.fillStyle = theme.line;
      context.fillRect(0, Math.round(middle), view.width, 1);
    }
    context.fillStyle = theme.wave;
    context.strokeStyle = theme.wave;
    const isCovered = clips.length > 0 && clips[0].start <= view.start + 0.01 && clips[clips.length - 1].end >= Math.min(view.end, view.duration - 0.1) - 0.01;
    if (coarse && !isCovered) this.bars(context, coarse, 0, { start: 0, end: view.duration }, middle, gain);
    for (const clip of clips) {
      if (clip.end < view.start || clip.start > view.end) continue;
      if (clip.rate / view.pxPerS < 24) this.line(context, clip, middle, gain);
      else this.bars(context, levelFor(clip.levels, view.pxPerS), clip.start, clip, middle, gain);
    }
    if (!clips.length && !coarse) {
      this.note(context, lane, sound.trouble || (sound.isThere ? "…" : "No recording"));
    }
  }

  private bars(
    context: CanvasRenderingContext2D, level: Level, shift: number, span: Span, middle: number, gain: number,
  ): void {
    const { view } = this.state;
    const from = Math.max(0, Math.floor(view.x(span.start)));
    const to = Math.min(view.width, Math.ceil(view.x(span.end)));
    context.beginPath();
    for (let x = from; x < to; x++) {
      const range = rangeOf(level, view.time(x) - shift, view.time(x + 1) - shift);
      if (range) context.rect(x, middle - range[1] * gain - 0.5, 1, Math.max(1, (range[1] - range[0]) * gain));
    }
    context.fill();
  }

  private line(
    context: CanvasRenderingContext2D, clip: { start: number; samples: Float32Array; rate: number }, middle: number, gain: number,
  ): void {
    const { view } = this.state;
    const from = Math.max(0, Math.floor((view.start - clip.start) * clip.rate) - 1);
    const to = Math.min(clip.samples.length, Math.ceil((view.end - clip.start) * clip.rate) + 2);
    context.lineWidth = 1.2;
    context.lineJoin = "round";
    context.beginPath();
    for (let at = from; at < to; at++) {
      context.lineTo(view.x(clip.start + at / clip.rate), middle - clip.samples[at] * gain);
    }
    context.stroke();
    if (view.pxPerS / clip.rate < 6) return;
    for (let at = from; at < to; at++) {
      context.fillRect(view.x(clip.start + at / clip.rate) - 1.5, middle - clip.samples[at] * gain - 1.5, 3, 3);
    }
  }

  private sound(context: CanvasRenderingContext2D, lane: Lane): void {
    const { view } = this.state;
    const why = this.spectrogram.draw(context, view, lane.top, lane.height);
    if (why) this.note(context, lane, why);
  }

  private note(context: CanvasRenderingContext2D, lane: Lane, text: string): void {
    context.font = `13px ${FONT}`;
    context.textAlign = "center";
    context.textBaseline = "middle";
    context.fillStyle = this.state.theme.faint;
    context.fillText(text, this.state.view.width / 2, lane.top + lane.height / 2, this.state.view.width - 20);
  }

  /** Call `draw` for every word in view; only for one of those that share a pixel. */
  private inView(draw: (word: TimedWord, place: number, x: number, width: number) => void): void {
    const { words, view } = this.state;
    let drawn = -1;
    for (let at = words.firstEndingAfter(view.start); at < words.order.length; at++) {
      const place = words.order[at];
      const word = words.list[place];
      if (!isTimed(word) || word.start > view.end) break;
      const x = view.x(word.start);
      const right = view.x(word.end);
      if (right < drawn + 0.7 && place !== this.state.selected) continue;
      drawn = right;
      draw(word, place, x, Math.max(0.7, right - x));
    }
  }

  /** Whether words are too narrow to be seen one by one. */
  private isCrowded(): boolean {
    const { words, view } = this.state;
    return (words.firstEndingAfter(view.end) - words.firstEndingAfter(view.start)) * SHARE_PX > view.width;
  }

  /** Draw how many of the words are doubtful, at each place: the height is their share, full from a half on. */
  private shares(context: CanvasRenderingContext2D, lane: Lane): void {
    const { theme, view, words, doubtBelow } = this.state;
    const height = lane.height - 2;
    doubtShares(words, doubtBelow, view, Math.ceil(view.width / SHARE_PX)).forEach((share, at) => {
      if (share < 0) return;
      context.fillStyle = colourOf(theme, 1);
      context.fillRect(at * SHARE_PX, lane.top + 1, SHARE_PX, height);
      const tall = Math.min(1, 2 * share) * height;
      context.fillStyle = theme.doubt;
      context.fillRect(at * SHARE_PX, lane.top + 1 + height - tall, SHARE_PX, tall);
    });
  }

  private wordTier(context: CanvasRenderingContext2D, lane: Lane): void {
    const { theme, selected, token } = this.state;
    context.fillStyle = theme.lane;
    context.fillRect(0, lane.top, this.state.view.width, lane.height);
    if (this.isCrowded()) return this.shares(context, lane);
    context.font = `14px ${FONT}`;
    if (!this.state.words.order.length) return this.note(context, lane, "No word has a place in this recording");
    this.inView((word, place, x, width) => {
      this.box(context, lane, x, width, this.wordColour(word), place === selected && token < 0);
      if (word.byHand) {
        context.fillStyle = theme.hand;
        context.fillRect(x, lane.top + lane.height - 4, width, 3);
      }
      this.label(context, lane, word.text, x, width);
    });
  }

  private tokenTier(context: CanvasRenderingContext2D, lane: Lane): void {
    const { theme, view, selected, token } = this.state;
    context.fillStyle = theme.lane;
    context.fillRect(0, lane.top, view.width, lane.height);
    if (this.isCrowded()) return;
    context.font = `12px ${FONT}`;
    this.inView((word, place, _, width) => {
      if (width < 3) return this.box(context, lane, view.x(word.start), width, this.wordColour(word), false);
      word.tokens.forEach((of, at) => {
        const x = view.x(of.start);
        const wide = view.x(of.end) - x;
        this.box(context, lane, x, wide, this.tokenColour(of, word), place === selected && token === at);
        this.label(context, lane, this.state.showsRatings ? ratedLabel(of) : of.token, x, wide);
      });
    });
  }

  /** Return the colour of a word: of its confidence, or of its lowest rated sound. */
  private wordColour(word: Word): string {
    const { theme, showsRatings } = this.state;
    if (showsRatings) return this.ratingColour(lowestRated(word)?.rating);
    return colourOf(theme, word.byHand ? 1 : word.confidence);
  }

  private tokenColour(token: Token, word: Word): string {
    const { theme, showsRatings } = this.state;
    if (showsRatings) return this.ratingColour(token.rating);
    // What is sure as a word is not shown as doubtful by one of its sounds.
    return colourOf(theme, Math.max(token.confidence, 0.5 * (word.byHand ? 1 : (word.confidence ?? 0))));
  }

  private ratingColour(rating: Rating | undefined): string {
    const { theme } = this.state;
    return rating ? theme.confidence[stepOf(rating)][1] : theme.lane;
  }

  private speakerTier(context: CanvasRenderingContext2D, lane: Lane): void {
    const { theme, view } = this.state;
    context.font = `11px ${FONT}`;
    let run: { name: string; start: number; end: number } | null = null;
    const end = () => {
      if (!run) return;
      const x = view.x(run.start);
      const width = view.x(run.end) - x;
      this.box(context, lane, x, width, theme.lane, false);
      this.label(context, lane, run.name, x, width);
    };
    this.inView((word) => {
      if (run && run.name === word.speaker) run.end = word.end;
      else {
        end();
        run = { name: word.speaker, start: word.start, end: word.end };
      }
    });
    end();
  }

  private box(context: CanvasRenderingContext2D, lane: Lane, x: number, width: number, fill: string, isSelected: boolean): void {
    const { theme } = this.state;
    context.fillStyle = fill;
    context.fillRect(x, lane.top + 1, width, lane.height - 1);
    if (width > 3) {
      context.fillStyle = theme.line;
      context.fillRect(x, lane.top + 1, 1, lane.height - 1);
      context.fillRect(x + width, lane.top + 1, 1, lane.height - 1);
    }
    if (!isSelected) return;
    context.strokeStyle = theme.accent;
    context.lineWidth = 2;
    context.strokeRect(x + 1, lane.top + 2, Math.max(1, width - 1), lane.height - 4);
  }

  /** Write a label in the middle of what is seen of its box, shortened where it does not fit. */
  private label(context: CanvasRenderingContext2D, lane: Lane, text: string, left: number, whole: number): void {
    const x = Math.max(0, left);
    const width = Math.min(this.state.view.width, left + whole) - x;
    if (width < 7) return;
    const room = width - 2;
    context.direction = isRightToLeft(text) ? "rtl" : "ltr";
    let shown = text;
    if (context.measureText(text).width > room) {
      const letters = Array.from(text);
      let fits = Math.min(letters.length, Math.floor((letters.length * room) / context.measureText(text).width));
      while (fits > 0 && context.measureText(`${letters.slice(0, fits).join("")}…`).width > room) fits--;
      if (fits < 1) return;
      shown = `${letters.slice(0, fits).join("")}…`;
    }
    context.fillStyle = this.state.theme.text;
    context.textAlign = "center";
    context.textBaseline = "middle";
    context.fillText(shown, x + width / 2, lane.top + lane.height / 2 + 1);
    context.direction = "ltr";
  }

  /** Shade what no word explains, what does not fit, and the stretch that was drawn. */
  private regions(context: CanvasRenderingContext2D, lanes: readonly Lane[]): void {
    const { theme, view, words, stretch } = this.state;
    const wave = lanes[1];
    const last = lanes[lanes.length - 1];
    const height = last.top + last.height - wave.top;
    const shade = (start: number, end: number, colour: string, why = "", line = 0) => {
      if (end < view.start || start > view.end) return;
      const x = view.x(start);
      context.fillStyle = colour;
      context.fillRect(x, wave.top, Math.max(1, view.x(end) - x), height);
      const left = Math.max(0, x) + 6;
      context.font = `12px ${FONT}`;
      if (!why || context.measureText(why).width > Math.min(view.width, view.x(end)) - left - 6) return;
      context.fillStyle = theme.ground;
      context.fillRect(left - 3, wave.top + 4 + 16 * line, context.measureText(why).width + 6, 16);
      context.fillStyle = theme.text;
      context.textAlign = "left";
      context.textBaseline = "middle";
      context.fillText(why, left, wave.top + 12 + 16 * line);
    };
    const alignment = words.alignment;
    for (const of of alignment.unexplained) shade(of.start_s - words.shift, of.end_s - words.shift, theme.unexplained, "speech not in the text", 1);
    for (const of of alignment.regions) {
      if (of.kind !== "misfit" || of.start_s === null || of.end_s === null) continue;
      shade(of.start_s - words.shift, of.end_s - words.shift, theme.misfit, of.reason);
    }
    if (stretch) shade(stretch.start, stretch.end, theme.selection);
  }

  /** Draw the edges of what is selected through the sound, with their spread, and where the model had them. */
  private edges(context: CanvasRenderingContext2D, lanes: readonly Lane[]): void {
    const { theme, view, words, word, span, side } = this.state;
    const bottom = lanes.find((lane) => lane.name === "words") as Lane;
    const top = lanes[1].top;
    const height = bottom.top - top;
    if (view.pxPerS > 40) {
      context.fillStyle = theme.dark ? "rgba(255,255,255,.16)" : "rgba(0,0,0,.13)";
      this.inView((of, _, x, width) => {
        context.fillRect(x, top, 1, height);
        context.fillRect(x + width, top, 1, height);
        this.spreads(context, of, bottom);
      });
    }
    if (!isTimed(word) || !span) return;
    context.fillStyle = theme.selection;
    context.fillRect(view.x(span.start), top, view.x(span.end) - view.x(span.start), lanes[1].height);
    const model = modelSpan(words, word);
    context.setLineDash([4, 4]);
    context.strokeStyle = theme.model;
    context.lineWidth = 1;
    for (const time of model ? [model.start, model.end] : []) {
      if (time === word.start || time === word.end) continue;
      context.beginPath();
      context.moveTo(view.x(time), top);
      context.lineTo(view.x(time), bottom.top + bottom.height);
      context.stroke();
    }
    context.setLineDash([]);
    for (const [name, time] of [["start", span.start], ["end", span.end]] as const) {
      context.fillStyle = theme.accent;
      context.fillRect(view.x(time) - (name === side ? 1 : 0.5), top, name === side ? 2 : 1, height);
      context.beginPath();
      context.arc(view.x(time), bottom.top, name === side ? 5 : 3.5, 0, 7);
      context.fill();
    }
  }

  private spreads(context: CanvasRenderingContext2D, word: TimedWord, lane: Lane): void {
    const { theme, view } = this.state;
    if (word.byHand) return;
    context.fillStyle = theme.spread;
    for (const [time, spread] of [[word.start, word.startSd], [word.end, word.endSd]] as const) {
      const half = ((spread ?? 0) / 1000) * view.pxPerS;
      if (half < 1) continue;
      context.fillRect(view.x(time) - half, lane.top + 1, 2 * half, lane.height - 1);
      context.fillRect(view.x(time) - half, lane.top - 3, 2 * half, 3);
    }
  }
}

const heights = new WeakMap<readonly Level[], number>();

/** Return the greatest amplitude of a recording. */
function loudest(levels: readonly Level[]): number {
  let known = heights.get(levels);
  if (known === undefined && levels.length) {
    const last = levels[levels.length - 1];
    known = last.max.reduce((most, high, at) => Math.max(most, high, -last.min[at]), 0);
    heights.set(levels, known);
  }
  return known ?? 0;
}

/** Return a time as m:ss or h:mm:ss, with as many decimals as steps of `step` seconds need. */
export function clock(seconds: number, step = 0.001): string {
  const decimals = step >= 1 ? 0 : Math.min(3, Math.ceil(-Math.log10(step) - 1e-9));
  const ticks = Math.round(Math.max(0, seconds) * 10 ** decimals);
  const whole = Math.floor(ticks / 10 ** decimals);
  const parts = [Math.floor(whole / 60) % 60, whole % 60].map((of) => String(of).padStart(2, "0"));
  const hours = Math.floor(whole / 3600);
  const base = hours ? `${hours}:${parts.join(":")}` : `${Number(parts[0])}:${parts[1]}`;
  return decimals ? `${base}.${String(ticks % 10 ** decimals).padStart(decimals, "0")}` : base;
}
