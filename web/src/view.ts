// What stretch of time is in view, and how wide a second is.

import type { Span } from "./words";

const SHORTEST_S = 0.005;

export class View implements Span {
  start = 0;
  end: number;
  width = 1;
  private readonly heard: (() => void)[] = [];

  constructor(readonly duration: number) {
    this.end = duration;
  }

  get span(): number {
    return this.end - this.start;
  }

  get pxPerS(): number {
    return this.width / this.span;
  }

  onChange(listener: () => void): void {
    this.heard.push(listener);
  }

  x(time: number): number {
    return (time - this.start) * this.pxPerS;
  }

  time(x: number): number {
    return this.start + x / this.pxPerS;
  }

  set(start: number, end: number): void {
    const span = Math.min(Math.max(end - start, SHORTEST_S), this.duration);
    const middle = (start + end) / 2;
    this.start = Math.min(Math.max(0, end - start < SHORTEST_S ? middle - span / 2 : start), this.duration - span);
    this.end = this.start + span;
    for (const listener of this.heard) listener();
  }

  scroll(seconds: number): void {
    this.set(this.start + seconds, this.end + seconds);
  }

  /** Show `factor` times as much, the time `about` staying where it is. */
  zoom(factor: number, about = (this.start + this.end) / 2): void {
    const span = Math.min(Math.max(this.span * factor, SHORTEST_S), this.duration);
    const start = about - ((about - this.start) * span) / this.span;
    this.set(start, start + span);
  }

  /** Scroll so that a stretch is seen, with some of what is around it; no further than needed. */
  reveal(stretch: Span): void {
    const margin = 0.08 * this.span;
    if (stretch.end - stretch.start > this.span - 2 * margin) {
      const middle = (stretch.start + stretch.end) / 2;
      const half = Math.max(this.span, (stretch.end - stretch.start) * 1.3) / 2;
      this.set(middle - half, middle + half);
    } else if (stretch.start < this.start + margin) {
      this.scroll(stretch.start - margin - this.start);
    } else if (stretch.end > this.end - margin) {
      this.scroll(stretch.end + margin - this.end);
    }
  }
}
