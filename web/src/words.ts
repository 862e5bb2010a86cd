// The words that are shown and mended: never changed in place, so that a step back is the list before it.

import type { AlignmentJson, Status, TokenJson, WordJson } from "./data";
import { type Rating, readRating } from "./ratings";

export interface Span {
  start: number;
  end: number;
}

export interface Token extends Span {
  token: string;
  confidence: number;
  startSd?: number;
  endSd?: number;
  byHand: boolean;
  rating?: Rating;
}

export interface Word {
  id: number;
  text: string;
  status: Status;
  kind?: string;
  speaker: string;
  /** Seconds from the start of the utterance; null without a place. */
  start: number | null;
  end: number | null;
  confidence: number | null;
  startSd?: number;
  endSd?: number;
  doubtful: boolean;
  byHand: boolean;
  tokens: readonly Token[];
  /** The characters of the transcript between the word before and this one. */
  before: string;
}

export type TimedWord = Word & Span;

/** An alignment as it was read, or came from aligning again; and its words, whose ids are their places in it. */
export interface Base {
  readonly alignment: AlignmentJson;
  readonly words: readonly Word[];
}

export interface Version {
  /** What its words were made from. */
  base: Base;
  words: readonly Word[];
  /** The characters behind the last word. */
  tail: string;
  /** Whether a person has signed the recording off. */
  checked: boolean;
  selected: number;
}

export function isTimed(word: Word | undefined): word is TimedWord {
  return word !== undefined && word.start !== null && word.end !== null;
}

/** Return where a word was drawn before any mending; null where it had no place. */
export function modelSpan(words: Words, word: Word): Span | null {
  const before = words.read[word.id];
  return isTimed(before) ? before : null;
}

export class Words {
  readonly shift: number;
  private readonly opened: Base;
  private now: Version;
  private readonly undone: Version[] = [];
  private readonly done: Version[] = [];
  private readonly heard: (() => void)[] = [];
  private timed: number[] | null = null;
  private nextId: number;

  constructor(alignment: AlignmentJson) {
    this.shift = alignment.config?.times === "recording" ? alignment.offset_s : 0;
    this.now = this.versionOf(alignment);
    this.opened = this.now.base;
    this.nextId = this.opened.words.length;
  }

  /** Return the words of an alignment as they stand there; its times count as those of the one that was opened. */
  versionOf(alignment: AlignmentJson): Version {
    const text = Array.from(alignment.text);
    let at = 0;
    const words = alignment.words.map((word, id) => {
      const before = text.slice(at, word.char_start).join("");
      at = word.char_end;
      return this.readWord(word, id, before);
    });
    return { base: { alignment, words }, words, tail: text.slice(at).join(""), checked: alignment.checked === true, selected: words.findIndex(isTimed) };
  }

  private readWord(word: WordJson, id: number, before: string): Word {
    const shifted = (time: number | null) => (time === null ? null : time - this.shift);
    return {
      id,
      text: word.text,
      status: word.status,
      kind: word.kind,
      speaker: word.speaker ?? "",
      start: shifted(word.start_s),
      end: shifted(word.end_s),
      confidence: word.confidence,
      startSd: word.start_sd_ms,
      endSd: word.end_sd_ms,
      doubtful: word.doubtful === true,
      byHand: word.by === "hand",
      tokens: word.tokens.map((token: TokenJson) => ({
        token: token.token,
        start: token.start_s - this.shift,
        end: token.end_s - this.shift,
        confidence: token.confidence,
        startSd: token.start_sd_ms,
        endSd: token.end_sd_ms,
        byHand: token.by === "hand",
        rating: readRating(token),
      })),
      before,
    };
  }

  /** The alignment that the words were made from. */
  get alignment(): AlignmentJson {
    return this.now.base.alignment;
  }

  /** The words as they stand in `alignment`: what is still one of them was not mended since. */
  get read(): readonly Word[] {
    return this.now.base.words;
  }

  get list(): readonly Word[] {
    return this.now.words;
  }

  get tail(): string {
    return this.now.tail;
  }

  get version(): Version {
    return this.now;
  }

  get duration(): number {
    return this.alignment.duration_s;
  }

  get canUndo(): boolean {
    return this.done.length > 0;
  }

  get canRedo(): boolean {
    return this.undone.length > 0;
  }

  /** Whether anything differs from what was opened. */
  get isMended(): boolean {
    return this.now.base !== this.opened || this.isChanged;
  }

  /** Whether anything differs from `alignment`. */
  get isChanged(): boolean {
    const { words, checked } = this.now;
    return checked !== (this.alignment.checked === true) || words.length !== this.read.length || words.some((word, place) => word !== this.read[place]);
  }

  /** What was aligned again since the page was opened; null where nothing was. */
  get alignedAgain(): AlignmentJson | null {
    return this.now.base === this.opened ? null : this.alignment;
  }

  newId(): number {
    return this.nextId++;
  }

  /** Call `listener` after every change of the words. */
  onChange(listener: () => void): void {
    this.heard.push(listener);
  }

  /** Put another version in the place of this one; `again` takes its place, as while an edge is dragged. */
  change(next: Version, again = false): void {
    if (!again) this.done.push(this.now);
    this.undone.length = 0;
    this.show(next);
  }

  /** Take a version as the present one, without telling anybody: the next change starts from it. */
  rewind(version: Version): void {
    this.now = version;
    this.timed = null;
  }

  /** Return the words as they were before the last change, selected as then; null where there is none. */
  undo(): Version | null {
    return this.step(this.done, this.undone);
  }

  redo(): Version | null {
    return this.step(this.undone, this.done);
  }

  private step(from: Version[], to: Version[]): Version | null {
    const next = from.pop();
    if (!next) return null;
    to.push(this.now);
    this.show(next);
    return next;
  }

  private show(next: Version): void {
    this.now = next;
    this.timed = null;
    for (const word of next.words) if (word.id >= this.nextId) this.nextId = word.id + 1;
    for (const listener of this.heard) listener();
  }

  /** The places in `list` of words with times, by time. */
  get order(): readonly number[] {
    if (!this.timed) {
      const words = this.list;
      this.timed = words.flatMap((word, place) => (isTimed(word) ? [place] : []));
      this.timed.sort((a, b) => (words[a].start as number) - (words[b].start as number));
    }
    return this.timed;
  }

  /** Return the place in `order` of the first word that ends after `time`. */
  firstEndingAfter(time: number): number {
    let low = 0;
    let high = this.order.length;
    while (low < high) {
      const middle = (low + high) >> 1;
      if ((this.list[this.order[middle]].end as number) > time) high = middle;
      else low = middle + 1;
    }
    return low;
  }

  /** Return the place in `list` of the word that is spoken at `time`, else -1. */
  at(time: number): number {
    const place = this.order[this.firstEndingAfter(time)];
    return place !== undefined && (this.list[place].start as number) <= time ? place : -1;
  }

  /** Return the place in `list` of the word with times before or after another by time, else -1. */
  neighbour(place: number, step: 1 | -1): number {
    const word = this.list[place];
    if (isTimed(word)) return this.order[this.order.indexOf(place) + step] ?? -1;
    for (let at = place + step; at >= 0 && at < this.list.length; at += step) if (isTimed(this.list[at])) return at;
    return -1;
  }
}

/** Whether a word is to be looked at. */
export function isDoubtful(word: Word, below: number): boolean {
  return !word.byHand && (word.doubtful || (word.confidence !== null && word.confidence < below));
}

/** Return, for each of `pixels` parts of a stretch, the share of its words that are doubtful; -1 where no word begins. */
export function doubtShares(words: Words, below: number, span: Span, pixels: number): Float32Array {
  const counts = new Float32Array(pixels);
  const shares = new Float32Array(pixels);
  const perS = pixels / (span.end - span.start);
  for (let at = words.firstEndingAfter(span.start); at < words.order.length; at++) {
    const word = words.list[words.order[at]];
    const pixel = Math.max(0, Math.floor(((word.start as number) - span.start) * perS));
    if (pixel >= pixels) break;
    counts[pixel]++;
    if (isDoubtful(word, below)) shares[pixel]++;
  }
  return shares.map((share, pixel) => (counts[pixel] ? share / counts[pixel] : -1));
}

export interface Doubt extends Span {
  /** The place of its first word, -1 where it has none. */
  place: number;
  why: string;
}

/** Return the places to look at, by time: hardly sure words, words without times, regions that disagree. */
export function doubts(words: Words, below: number): Doubt[] {
  const found: Doubt[] = [];
  let last = 0;
  words.list.forEach((word, place) => {
    if (isTimed(word)) {
      last = word.end;
      if (isDoubtful(word, below)) {
        found.push({ start: word.start, end: word.end, place, why: `confidence ${word.confidence?.toFixed(2)}` });
      }
    } else if (word.status === "skipped" || word.status === "unknown") {
      const why = word.status === "skipped" ? "not in the recording" : "not in the model's alphabet";
      const before = found[found.length - 1];
      if (before?.why === why && before.start === last) return; // a run of them is one place
      found.push({ start: last, end: last, place, why });
    }
  });
  for (const stretch of words.alignment.unexplained) {
    const start = stretch.start_s - words.shift;
    found.push({ start, end: stretch.end_s - words.shift, place: -1, why: "speech that no word explains" });
  }
  for (const region of words.alignment.regions) {
    if (region.kind !== "misfit" || region.start_s === null || region.end_s === null) continue;
    found.push({ start: region.start_s - words.shift, end: region.end_s - words.shift, place: -1, why: region.reason });
  }
  return found.sort((a, b) => a.start - b.start);
}

const RTL = /^[^\p{L}]*[\p{Script=Arabic}\p{Script=Hebrew}\p{Script=Syriac}\p{Script=Thaana}\p{Script=Nko}\p{Script=Adlam}]/u;

export function isRightToLeft(text: string): boolean {
  return RTL.test(text);
}
