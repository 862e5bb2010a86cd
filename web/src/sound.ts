// The recording: an <audio> element plays it at once; samples are decoded later, and of long ones only where one looks.

import { bytesOf, type PageData } from "./data";
import { OggOpus } from "./ogg";
import { type Level, levelsOfBytes, levelsOfSamples } from "./peaks";
import type { Span } from "./words";

/** Decoded sound: `samples` from `start` to `end` seconds of the utterance. */
export interface Clip extends Span {
  samples: Float32Array<ArrayBuffer>;
  rate: number;
  levels: Level[];
}

const FULL_RATE = 48000;
const LOW_RATE = 16000;
const MOST_BYTES = 400e6;
const MOST_FULL_RATE_S = 360;
const PIECE_S = 20;
const MOST_PIECES = 12;
const QUIET_MS = 60;

export class Sound {
  readonly media = document.createElement("audio");
  levels: Level[] = [];
  /** Why there is nothing to hear, or no samples to see; "" where there is nothing to say. */
  trouble = "";
  /** Why samples are not there for good, though it plays: no spectrogram is drawn; "" where they are, or may come. */
  unseen = "";
  private whole: Clip | null = null;
  private ogg: OggOpus | null = null;
  private readonly pieces = new Map<number, Clip>();
  private wanted: number[] = [];
  private isDecoding = false;
  private timer = 0;
  private linkedHref = "";
  private readonly heard: (() => void)[] = [];

  constructor(
    private readonly data: PageData,
    readonly duration: number,
  ) {
    this.media.preload = "auto";
    this.media.preservesPitch = true;
    const peaks = data.peaks;
    if (peaks) this.levels = levelsOfBytes(peaks.per_s, bytesOf(peaks.min), bytesOf(peaks.max));
    this.media.addEventListener("error", () => {
      const path = data.alignment.audio || "it";
      this.trouble = `The recording cannot be played. Open ${path} with “Recording”.`;
      this.tell();
    });
  }

  /** Seconds of the recording where the utterance begins. */
  get startsAt(): number {
    return this.data.audio.start_s ?? 0;
  }

  get isThere(): boolean {
    return this.media.src !== "";
  }

  onChange(listener: () => void): void {
    this.heard.push(listener);
  }

  private tell(): void {
    for (const listener of this.heard) listener();
  }

  /** Open what the page's data names: sound within the page, or a file or address beside it. */
  open(): void {
    const { href, mime } = this.data.audio;
    this.linkedHref = href ?? "";
    if (href === null) {
      this.trouble = "This page contains no sound. Open the recording with “Recording”.";
      return;
    }
    const inside = href === "#page-audio";
    if (inside || href.startsWith("data:")) {
      const text = inside ? (document.getElementById("page-audio")?.textContent ?? "") : href.slice(href.indexOf(",") + 1);
      this.play(new Blob([bytesOf(text.trim())], { type: mime }));
      return;
    }
    this.media.src = href;
    if (location.protocol === "file:") {
      this.unseen = `No spectrogram: a page opened from a disk may play the file beside it, but not read it. Open ${this.linkedName} with “Recording”.`;
      this.tell();
      return;
    }
    this.later(async () => {
      const answer = await fetch(href);
      if (!answer.ok) throw new Error(String(answer.status));
      await this.decode(await answer.blob());
    });
  }

  /** The name of the file that the page links to; "" where it links to none. */
  private get linkedName(): string {
    return decodeURIComponent(this.linkedHref.split("/").pop() ?? "");
  }

  /** Take a recording that a person has chosen. */
  take(file: File): void {
    this.trouble = this.unseen = "";
    this.whole = null;
    this.ogg = null;
    this.pieces.clear();
    if (file.name !== this.linkedName) this.data.audio.start_s = this.data.alignment.offset_s;
    this.play(file);
    this.tell();
  }

  private play(blob: Blob): void {
    this.media.src = URL.createObjectURL(blob);
    this.later(() => this.decode(blob));
  }

  /** Run work when the page can already be used. */
  private later(work: () => Promise<void>): void {
    const run = () =>
      void work().catch(() => {
        if (this.levels.length) this.unseen = "No spectrogram: this browser cannot decode the recording; it may still play it.";
        else this.trouble = "This browser can play the recording, but cannot decode it to draw it.";
        this.tell();
      });
    setTimeout(run, 60);
  }

  private async decode(blob: Blob): Promise<void> {
    const bytes = new Uint8Array(await blob.arrayBuffer());
    const length = this.startsAt + this.duration;
    const rate = length <= MOST_FULL_RATE_S ? FULL_RATE : LOW_RATE;
    // Browsers decode at the recording's own rate first, often in stereo.
    if (4 * length * (2 * FULL_RATE + rate) > MOST_BYTES) {
      this.ogg = OggOpus.read(bytes);
      if (!this.ogg) this.unseen = "No spectrogram: a recording of this length needs Ogg Opus, the format that “ctc-align view” stores in its page.";
      this.tell();
      return;
    }
    const buffer = await decoded(bytes.buffer, rate);
    const samples = mixed(buffer);
    const from = Math.round(this.startsAt * rate);
    const own = from ? samples.slice(from, from + Math.ceil(this.duration * rate)) : samples;
    this.whole = { start: 0, end: own.length / rate, samples: own, rate, levels: levelsOfSamples(own, rate) };
    this.levels = this.whole.levels;
    this.tell();
  }

  /** Return whether samples can be had, now or later. */
  get hasSamples(): boolean {
    return this.whole !== null || this.ogg !== null;
  }

  /** Return the decoded pieces of a stretch; what is missing is decoded, and listeners are told when it is there. */
  clips(start: number, end: number): Clip[] {
    if (this.whole) return [this.whole];
    if (!this.ogg) return [];
    const found: Clip[] = [];
    const missing: number[] = [];
    for (let piece = Math.max(0, Math.floor(start / PIECE_S)); piece * PIECE_S < end; piece++) {
      const clip = this.pieces.get(piece);
      if (clip === undefined) missing.push(piece);
      else {
        this.pieces.delete(piece);
        this.pieces.set(piece, clip); // the one last used is the last to go
        found.push(clip);
      }
    }
    if (missing.length) {
      this.wanted = missing;
      clearTimeout(this.timer);
      this.timer = window.setTimeout(() => void this.decodeWanted(), QUIET_MS);
    }
    return found;
  }

  /** Decode what was last asked for, one piece after the other, so that scrolling goes on meanwhile. */
  private async decodeWanted(): Promise<void> {
    if (this.isDecoding) return;
    this.isDecoding = true;
    try {
      for (let piece = this.wanted.shift(); piece !== undefined; piece = this.wanted.shift()) {
        if (!this.pieces.has(piece)) await this.decodePiece(piece);
      }
    } finally {
      this.isDecoding = false;
    }
  }

  private async decodePiece(piece: number): Promise<void> {
    if (!this.ogg) return;
    const shift = this.startsAt;
    const cut = this.ogg.cut(piece * PIECE_S + shift, (piece + 1) * PIECE_S + shift);
    const samples = mixed(await decoded(cut.file, LOW_RATE));
    // Its end is certain; the first 80 ms of a stream that is entered in its middle are not.
    const begins = cut.end - shift - samples.length / LOW_RATE;
    const skip = Math.max(0, Math.round((piece * PIECE_S - begins) * LOW_RATE));
    const own = samples.slice(skip, skip + PIECE_S * LOW_RATE);
    const start = begins + skip / LOW_RATE;
    const clip = { start, end: start + own.length / LOW_RATE, samples: own, rate: LOW_RATE, levels: levelsOfSamples(own, LOW_RATE) };
    this.pieces.set(piece, clip);
    for (const old of this.pieces.keys()) {
      if (this.pieces.size <= MOST_PIECES) break;
      this.pieces.delete(old);
    }
    this.tell();
  }

  /** Return the samples of a stretch as one array; null while some of them are not decoded. */
  samples(start: number, end: number): Clip | null {
    const from = Math.max(0, start);
    const to = Math.min(this.duration, end);
    const clips = this.clips(from, to);
    if (!clips.length) return null;
    const rate = clips[0].rate;
    const samples = new Float32Array(Math.max(0, Math.round((to - from) * rate)));
    let filled = 0;
    for (const clip of clips) {
      const into = Math.round((clip.start - from) * rate);
      const own = clip.samples.subarray(Math.max(0, -into), Math.max(0, samples.length - into));
      samples.set(own, Math.max(0, into));
      filled += own.length;
    }
    if (filled < samples.length - 0.1 * rate) return null;
    return { start: from, end: to, samples, rate, levels: [] };
  }

  /** Return the time nearest to `time`, within `within` seconds, where the wave crosses zero; else `time`. */
  zeroCrossing(time: number, within = 0.01): number {
    const clip = this.samples(time - within, time + within);
    if (!clip) return time;
    let best = time;
    let distance = within;
    for (let at = 1; at < clip.samples.length; at++) {
      const a = clip.samples[at - 1];
      const b = clip.samples[at];
      if (a === 0 ? b === 0 : Math.sign(a) === Math.sign(b)) continue;
      const crossing = clip.start + (at - 1 + (a === b ? 0 : a / (a - b))) / clip.rate;
      if (Math.abs(crossing - time) < distance) {
        distance = Math.abs(crossing - time);
        best = crossing;
      }
    }
    return best;
  }
}

async function decoded(file: ArrayBuffer, rate: number): Promise<AudioBuffer> {
  return new OfflineAudioContext(1, 1, rate).decodeAudioData(file);
}

function mixed(buffer: AudioBuffer): Float32Array<ArrayBuffer> {
  const samples = buffer.getChannelData(0);
  for (let channel = 1; channel < buffer.numberOfChannels; channel++) {
    const other = buffer.getChannelData(channel);
    for (let at = 0; at < samples.length; at++) samples[at] += other[at];
  }
  if (buffer.numberOfChannels > 1) for (let at = 0; at < samples.length; at++) samples[at] /= buffer.numberOfChannels;
  return samples;
}
