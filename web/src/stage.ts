// The drawn part of the page: sizes it, draws it when something changes, and takes the mouse and fingers.

import { element, onceAFrame } from "./dom";
import type { PageState } from "./page-state";
import { type Lane, lanesFor, Painter } from "./painting";
import { Spectrogram } from "./spectrogram";
import { isTimed } from "./words";

const WHEEL_ZOOM = 1.0015;

/** What takes over a pointer that goes down on the stage, until it goes up; null leaves it to the stage. */
export interface EdgeDragging {
  /** Return whether an edge is there; `reach` is in pixels. */
  begin(lane: Lane["name"], time: number, reachS: number): boolean;
  isNear(lane: Lane["name"], time: number, reachS: number): boolean;
  move(time: number, event: PointerEvent): void;
  end(cancelled: boolean): void;
}

type Gesture = { kind: "none" | "edge" | "stretch" | "pan" | "pinch"; time: number; x: number; moved: boolean };

export class Stage {
  readonly root = element("div", {
    class: "stage",
    "data-testid": "stage",
    role: "application",
    "aria-label": "Waveform, spectrogram and tiers. Arrow keys move by word; question mark lists all keys.",
    tabindex: "0",
  });
  readonly spectrogram: Spectrogram;
  lanes: Lane[] = [];
  edges: EdgeDragging | null = null;
  readonly draw: () => void;
  private readonly base = element("canvas", { "data-testid": "canvas" });
  private readonly cursor = element("div", { class: "cursor", "data-testid": "cursor" });
  /** What the lanes are, beside them. */
  readonly axis = element("div", { class: "axis", "aria-hidden": "true" });
  private readonly painter: Painter;
  private readonly pointers = new Map<number, number>();
  private gesture: Gesture = { kind: "none", time: 0, x: 0, moved: false };

  constructor(private readonly state: PageState) {
    this.root.append(this.base, this.cursor);
    this.draw = onceAFrame(() => this.paint());
    this.spectrogram = new Spectrogram(state.sound, this.draw);
    this.painter = new Painter(state, this.spectrogram);
    new ResizeObserver(() => this.resize()).observe(this.root);
    state.view.onChange(this.draw);
    state.onChange(this.draw);
    state.sound.onChange(() => this.resize());
    this.root.addEventListener("wheel", (event) => this.wheel(event), { passive: false });
    this.root.addEventListener("pointerdown", (event) => this.down(event));
    this.root.addEventListener("pointermove", (event) => this.moved(event));
    this.root.addEventListener("pointerup", (event) => this.up(event, false));
    this.root.addEventListener("pointercancel", (event) => this.up(event, true));
    this.root.addEventListener("dblclick", (event) => {
      const place = this.placeAt(event.clientX);
      const word = state.words.list[place];
      if (isTimed(word)) state.view.set(word.start - 0.6 * (word.end - word.start), word.end + 0.6 * (word.end - word.start));
    });
  }

  resize(): void {
    const { clientWidth: width, clientHeight: height } = this.root;
    if (!width || !height) return;
    const ratio = window.devicePixelRatio || 1;
    this.base.width = Math.round(width * ratio);
    this.base.height = Math.round(height * ratio);
    this.lanes = lanesFor(this.state, height);
    this.state.view.width = width;
    const label = (text: string, y: number) => element("span", { style: `top:${y}px` }, text);
    this.axis.replaceChildren(
      ...this.lanes.flatMap(({ name, top, height: tall }) => {
        if (name === "spectrogram") return [2, 4, 6].map((khz) => label(`${khz} kHz`, top + tall * (1 - khz / 8)));
        const text = name === "tokens" ? this.state.words.alignment.token_kind : name;
        return name === "ruler" || name === "wave" ? [] : [label(text.length > 8 ? "tokens" : text, top + tall / 2)];
      }),
    );
    this.paint();
  }

  private paint(): void {
    const context = this.base.getContext("2d");
    if (!context || !this.lanes.length) return;
    const ratio = window.devicePixelRatio || 1;
    context.setTransform(ratio, 0, 0, ratio, 0, 0);
    this.painter.paint(context, this.lanes, this.root.clientHeight);
    this.placeCursor();
  }

  placeCursor(): void {
    const x = this.state.view.x(this.state.player.time);
    const isSeen = x >= 0 && x <= this.state.view.width;
    this.cursor.style.display = isSeen ? "" : "none";
    if (isSeen) this.cursor.style.transform = `translateX(${x.toFixed(1)}px)`;
  }

  private xOf(clientX: number): number {
    return clientX - this.root.getBoundingClientRect().left;
  }

  private timeAt(clientX: number): number {
    return Math.min(Math.max(0, this.state.view.time(this.xOf(clientX))), this.state.view.duration);
  }

  private placeAt(clientX: number): number {
    return this.state.words.at(this.timeAt(clientX));
  }

  private laneAt(clientY: number): Lane["name"] {
    const y = clientY - this.root.getBoundingClientRect().top;
    return this.lanes.find((lane) => y < lane.top + lane.height)?.name ?? "words";
  }

  private wheel(event: WheelEvent): void {
    event.preventDefault();
    const { view } = this.state;
    const unit = event.deltaMode === 1 ? 16 : event.deltaMode === 2 ? view.width : 1;
    if (event.ctrlKey || event.metaKey) {
      const strength = Math.abs(event.deltaY) < 30 ? 6 : 1; // a pinch on a touchpad comes in small steps
      view.zoom(WHEEL_ZOOM ** (unit * event.deltaY * strength), this.timeAt(event.clientX));
    } else {
      this.state.follows = false;
      view.scroll((unit * (Math.abs(event.deltaX) > Math.abs(event.deltaY) ? event.deltaX : event.deltaY)) / view.pxPerS);
    }
  }

  private down(event: PointerEvent): void {
    if (event.button !== 0) return;
    this.root.focus({ preventScroll: true });
    this.pointers.set(event.pointerId, event.clientX);
    this.root.setPointerCapture(event.pointerId);
    if (this.pointers.size === 2) {
      if (this.gesture.kind === "edge") this.edges?.end(true);
      this.gesture = { kind: "pinch", time: 0, x: 0, moved: true };
      return;
    }
    const time = this.timeAt(event.clientX);
    const lane = this.laneAt(event.clientY);
    const reach = (event.pointerType === "touch" ? 16 : 6) / this.state.view.pxPerS;
    let kind: Gesture["kind"] = event.pointerType === "touch" || lane === "ruler" ? "pan" : "stretch";
    if (this.edges?.begin(lane, time, reach)) kind = "edge";
    this.gesture = { kind, time, x: event.clientX, moved: false };
  }

  private moved(event: PointerEvent): void {
    const before = this.pointers.get(event.pointerId);
    if (before === undefined) {
      const near = this.edges?.isNear(this.laneAt(event.clientY), this.timeAt(event.clientX), 6 / this.state.view.pxPerS);
      this.root.style.cursor = near ? "ew-resize" : "";
      return;
    }
    const { gesture, state } = this;
    if (gesture.kind === "pinch") {
      this.pinch(event);
      return;
    }
    this.pointers.set(event.pointerId, event.clientX);
    if (Math.abs(event.clientX - gesture.x) > 4) gesture.moved = true;
    if (!gesture.moved) return;
    const time = this.timeAt(event.clientX);
    if (gesture.kind === "edge") this.edges?.move(time, event);
    else if (gesture.kind === "pan") {
      state.follows = false;
      state.view.scroll((before - event.clientX) / state.view.pxPerS);
    } else if (gesture.kind === "stretch") {
      state.stretch = { start: Math.min(time, gesture.time), end: Math.max(time, gesture.time) };
      state.tell();
    }
  }

  private pinch(event: PointerEvent): void {
    const other = [...this.pointers].find(([id]) => id !== event.pointerId);
    const before = this.pointers.get(event.pointerId);
    this.pointers.set(event.pointerId, event.clientX);
    if (!other || before === undefined) return;
    const { view } = this.state;
    const anchor = view.time(this.xOf(other[1]));
    const apart = Math.max(20, Math.abs(before - other[1]));
    view.zoom(apart / Math.max(20, Math.abs(event.clientX - other[1])), anchor);
  }

  private up(event: PointerEvent, cancelled: boolean): void {
    if (!this.pointers.delete(event.pointerId)) return;
    const { gesture, state } = this;
    if (gesture.kind === "edge") this.edges?.end(cancelled);
    else if (!gesture.moved && !cancelled && !this.pointers.size) this.click(gesture.time, this.laneAt(event.clientY));
    else if (gesture.kind === "stretch" && state.stretch && !state.player.isPlaying) state.player.seek(state.stretch.start);
    if (!this.pointers.size) this.gesture = { ...gesture, kind: "none" };
  }

  private click(time: number, lane: Lane["name"]): void {
    const { state } = this;
    state.follows = true;
    const place = state.words.at(time);
    if (place >= 0 && (lane === "words" || lane === "tokens")) {
      const token = lane === "tokens" ? state.words.list[place].tokens.findIndex((of) => of.start <= time && time < of.end) : -1;
      state.select(place, token);
      state.playSelected();
      return;
    }
    state.stretch = null;
    state.player.seek(time);
    state.tell();
  }
}
