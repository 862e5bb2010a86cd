// What every part of the page shares: the words, the sound, the view, and what is selected.

import type { PageData } from "./data";
import { Player } from "./player";
import { type Scale, scaleOf } from "./ratings";
import { Sound } from "./sound";
import { type Theme, themeOf } from "./theme";
import { View } from "./view";
import { type Base, type Doubt, doubts, isTimed, type Span, type Token, type Word, Words } from "./words";

export type Side = "start" | "end";

export class PageState {
  readonly words: Words;
  readonly sound: Sound;
  readonly player: Player;
  readonly view: View;
  theme: Theme;
  /** The place of the selected word in the list, -1 where none is; of its token, -1 for the word itself. */
  selected = -1;
  token = -1;
  /** The edge that keys move. */
  side: Side = "end";
  /** A stretch that was drawn with the mouse. */
  stretch: Span | null = null;
  snaps = false;
  follows = true;
  doubtBelow = 0.5;
  /** Whether colours show pronunciation, where it is rated, in place of confidence. */
  wantsRatings = true;
  private scaled: { base: Base; scale: Scale | null } | null = null;
  private listed: Doubt[] | null = null;
  private readonly heard: (() => void)[] = [];

  constructor(readonly data: PageData) {
    this.words = new Words(data.alignment);
    this.sound = new Sound(data, data.alignment.duration_s);
    this.player = new Player(this.sound);
    this.view = new View(Math.max(data.alignment.duration_s, 0.01));
    this.theme = themeOf(data.theme);
    this.selected = this.words.version.selected;
    this.words.onChange(() => {
      this.listed = null;
      if (this.selected >= this.words.list.length) this.selected = this.words.list.length - 1;
      if (this.token >= (this.word?.tokens.length ?? 0)) this.token = -1;
      this.tell();
    });
  }

  /** Call `listener` when what is selected, or any other setting, changes. */
  onChange(listener: () => void): void {
    this.heard.push(listener);
  }

  tell(): void {
    for (const listener of this.heard) listener();
  }

  get word(): Word | undefined {
    return this.words.list[this.selected];
  }

  /** What is selected in time: a token of the word, or the word. */
  get span(): Span | Token | null {
    const word = this.word;
    if (!isTimed(word)) return null;
    return this.token >= 0 ? word.tokens[this.token] : word;
  }

  /** The scale of the ratings of the alignment; null where no sound is rated. Mending rates none: one walk an alignment. */
  get ratingScale(): Scale | null {
    const { base } = this.words.version;
    if (this.scaled?.base !== base) this.scaled = { base, scale: scaleOf(base.words) };
    return this.scaled.scale;
  }

  get showsRatings(): boolean {
    return this.wantsRatings && this.ratingScale !== null;
  }

  get doubts(): readonly Doubt[] {
    this.listed ??= doubts(this.words, this.doubtBelow);
    return this.listed;
  }

  setDoubtBelow(below: number): void {
    this.doubtBelow = below;
    this.listed = null;
    this.tell();
  }

  select(place: number, token = -1, reveals = true): void {
    this.selected = place;
    this.token = token;
    this.stretch = null;
    const span = this.span;
    if (span && reveals) this.view.reveal(span);
    if (span && !this.player.isPlaying) this.player.seek(span.start);
    this.tell();
  }

  /** Select the word or token before or after the selected one. */
  move(step: 1 | -1): void {
    const word = this.word;
    if (this.token >= 0 && word) {
      const next = this.token + step;
      if (next >= 0 && next < word.tokens.length) return this.select(this.selected, next);
      const place = this.words.neighbour(this.selected, step);
      if (place >= 0) this.select(place, step > 0 ? 0 : this.words.list[place].tokens.length - 1);
      return;
    }
    const place = this.selected < 0 ? (this.words.order[0] ?? -1) : this.words.neighbour(this.selected, step);
    if (place >= 0) this.select(place);
  }

  /** Show the next or previous place to look at, and say why; null where there is none. */
  moveToDoubt(step: 1 | -1): Doubt | null {
    const from = this.stretch?.start ?? this.span?.start ?? this.player.time;
    const list = step > 0 ? this.doubts : [...this.doubts].reverse();
    const isPast = (doubt: Doubt) =>
      doubt.start === from ? doubt.place >= 0 && (doubt.place - this.selected) * step > 0 : (doubt.start - from) * step > 0;
    const doubt = list.find(isPast) ?? list[0];
    if (!doubt) return null;
    if (doubt.place >= 0) this.select(doubt.place);
    this.stretch = doubt.place < 0 ? { start: doubt.start, end: doubt.end } : null;
    const length = Math.max(doubt.end - doubt.start, 0.1);
    if (length * this.view.pxPerS < 40) {
      const middle = (doubt.start + doubt.end) / 2;
      this.view.set(middle - Math.max(3, length), middle + Math.max(3, length));
    } else this.view.reveal(doubt);
    if (!this.player.isPlaying) this.player.seek(doubt.start);
    this.tell();
    return doubt;
  }

  /** Play what is selected: the drawn stretch, the token, or the word. */
  playSelected(): void {
    const span = this.stretch ?? this.span;
    if (span) this.player.playStretch({ start: span.start, end: span.end });
  }
}
