// Mending by mouse and keys: which edge is meant, how far it moves, and what is said.

import type { Command } from "./commands";
import * as mending from "./mending";
import type { PageState } from "./page-state";
import type { EdgeDragging } from "./stage";
import { isTimed, type Version } from "./words";

const STEP_S = 0.005;
const FINE_STEP_S = 0.001;
const SNAP_S = 0.01;

export class Mending implements EdgeDragging {
  private edge: mending.Edge | null = null;
  private before: Version | null = null;

  constructor(
    private readonly state: PageState,
    private readonly say: (text: string) => void,
    /** Ask for the text of a word; null takes nothing. */
    private readonly askText: (isNew: boolean) => void,
  ) {}

  /** The edge that keys move: of the selected token, else of the word. */
  private get selectedEdge(): mending.Edge {
    const { selected, token, side, word } = this.state;
    if (token >= 0) return { place: selected, before: side === "start" ? token : token + 1 };
    return { place: selected, before: side === "start" || !word ? 0 : mending.lastEdge(word) };
  }

  private near(lane: string, time: number, reachS: number): mending.Edge | null {
    const { state } = this;
    if (lane === "ruler" || lane === "speakers") return null;
    const { words, view } = state;
    let best: mending.Edge | null = null;
    let least = reachS;
    const take = (edge: mending.Edge) => {
      const apart = Math.abs(mending.timeOf(words.list, edge) - time);
      const isOwn = edge.place === state.selected;
      if (apart < least || (apart === least && isOwn)) {
        least = apart;
        best = edge;
      }
    };
    if (lane === "wave" || lane === "spectrogram") {
      if (!isTimed(state.word)) return null;
      const { token, selected } = state;
      take({ place: selected, before: Math.max(0, token) });
      take({ place: selected, before: token >= 0 ? token + 1 : mending.lastEdge(state.word) });
      return best;
    }
    for (let at = Math.max(0, words.firstEndingAfter(time) - 2); at < words.order.length; at++) {
      const place = words.order[at];
      const word = words.list[place];
      if (!isTimed(word) || word.start > time + reachS) break;
      const last = mending.lastEdge(word);
      // Edges of what is narrow are not taken: a click is meant for the word.
      if ((word.end - word.start) * view.pxPerS < 12) continue;
      const isFine = lane === "tokens" && ((word.end - word.start) * view.pxPerS) / last > 12;
      for (let before = 0; before <= last; before += isFine ? 1 : last) take({ place, before });
    }
    return best;
  }

  isNear(lane: string, time: number, reachS: number): boolean {
    return this.near(lane, time, reachS) !== null;
  }

  begin(lane: string, time: number, reachS: number): boolean {
    this.edge = this.near(lane, time, reachS);
    this.before = null;
    if (!this.edge) return false;
    const { state } = this;
    const word = state.words.list[this.edge.place];
    const inner = this.edge.before > 0 && this.edge.before < mending.lastEdge(word);
    const token = lane === "tokens" && word.tokens.length ? Math.min(this.edge.before, word.tokens.length - 1) : -1;
    if (!(lane === "wave" || lane === "spectrogram")) {
      state.selected = this.edge.place;
      state.token = token;
    }
    state.side = (inner ? token === this.edge.before : this.edge.before === 0) ? "start" : "end";
    state.tell();
    return true;
  }

  move(time: number, event: { altKey: boolean }): void {
    const { state, edge } = this;
    if (!edge) return;
    const isFirst = this.before === null;
    if (isFirst) state.words.rewind({ ...state.words.version, selected: state.selected });
    const before: Version = this.before ?? state.words.version;
    this.before = before;
    if (!isFirst) state.words.rewind(before);
    const snaps = state.snaps !== event.altKey;
    state.words.change(mending.moveEdge(state.words, edge, snaps ? state.sound.zeroCrossing(time, SNAP_S) : time), !isFirst);
  }

  end(cancelled: boolean): void {
    const { state } = this;
    if (this.before && cancelled) state.words.undo();
    else if (this.before && this.edge) {
      const word = state.word;
      if (isTimed(word)) this.say(`${word.text} from ${word.start.toFixed(3)} to ${word.end.toFixed(3)} seconds`);
    }
    this.edge = null;
    this.before = null;
  }

  /** Make a change, select what it selects, and say what came of it; or say why it cannot be made. */
  apply(what: string, change: () => Version): void {
    const { state } = this;
    state.words.rewind({ ...state.words.version, selected: state.selected });
    try {
      const version = change();
      if (version === state.words.version) return;
      const selected = version.selected;
      const moved = selected !== state.words.version.selected;
      state.words.change(version);
      if (moved) state.select(Math.max(0, selected));
      this.say(what);
    } catch (error) {
      if (!(error instanceof mending.Refusal)) throw error;
      this.say(error.message);
    }
  }

  nudge(seconds: number): void {
    if (!this.state.word) return;
    const edge = this.selectedEdge;
    const time = mending.timeOf(this.state.words.list, edge) + seconds;
    this.apply("", () => mending.moveEdge(this.state.words, edge, time));
    const span = this.state.span;
    if (span) this.say(`${this.state.side} ${span[this.state.side].toFixed(3)} seconds`);
  }

  private snapNow(): void {
    if (!isTimed(this.state.word)) return;
    const edge = this.selectedEdge;
    const time = this.state.sound.zeroCrossing(mending.timeOf(this.state.words.list, edge), SNAP_S);
    this.apply("Moved to the nearest zero crossing", () => mending.moveEdge(this.state.words, edge, time));
  }

  right(): void {
    const { state } = this;
    if (state.word) this.apply(state.word.byHand ? "No longer marked as right" : "Marked as right", () => mending.toggleRight(state.words, state.selected, state.token));
  }

  backToModel(): void {
    this.onWord("Reset to its earlier times", (place) => mending.backToModel(this.state.words, place));
  }

  split(): void {
    const { state } = this;
    const middle = isTimed(state.word) ? (state.word.start + state.word.end) / 2 : 0;
    const time = state.words.at(state.player.time) === state.selected && state.player.time > (state.word?.start ?? 0) ? state.player.time : middle;
    this.onWord("Split", (place) => mending.split(state.words, place, time));
  }

  merge(): void {
    this.onWord("Merged", (place) => mending.merge(this.state.words, place));
  }

  remove(): void {
    this.onWord("Deleted", (place) => mending.remove(this.state.words, place));
  }

  retime(): void {
    const { stretch } = this.state;
    if (!stretch) this.say("Select a stretch first: drag over the sound, or press comma and full stop at its ends.");
    else this.onWord("Moved to the selected stretch", (place) => mending.retime(this.state.words, place, stretch));
  }

  setText(text: string): void {
    this.onWord("Changed", (place) => mending.setText(this.state.words, place, text));
  }

  insert(text: string): void {
    this.onWord("Inserted", (place) => mending.insert(this.state.words, place, text, this.state.stretch));
  }

  private onWord(what: string, change: (place: number) => Version): void {
    if (this.state.word) this.apply(what, () => change(this.state.selected));
  }

  step(back: boolean): void {
    const { words } = this.state;
    const shown = back ? words.undo() : words.redo();
    if (!shown) return this.say(back ? "Nothing to undo" : "Nothing to redo");
    this.state.select(Math.min(shown.selected, words.list.length - 1));
    this.say(back ? "Undone" : "Redone");
  }

  /** Sign the recording off, or take that back. */
  toggleChecked(): void {
    const { version } = this.state.words;
    this.apply(version.checked ? "No longer marked as checked" : "Marked as checked", () => ({ ...this.state.words.version, checked: !version.checked }));
  }

  toggleSnap(): void {
    this.state.snaps = !this.state.snaps;
    this.state.tell();
    this.say(this.state.snaps ? "Edges snap to zero crossings" : "Edges do not snap");
  }

  private chooseSide(side: "start" | "end"): void {
    this.state.side = side;
    this.state.tell();
    this.say(`Keys move the ${side}`);
  }

  private markStretch(isStart: boolean): void {
    const { state } = this;
    const time = state.player.time;
    const { start, end } = state.stretch ?? { start: time, end: time };
    state.stretch = isStart ? { start: time, end: Math.max(end, time) } : { start: Math.min(start, time), end: time };
    state.tell();
    this.say(`Stretch from ${state.stretch.start.toFixed(3)} to ${state.stretch.end.toFixed(3)} seconds`);
  }

  private moveCursor(seconds: number): void {
    this.state.player.seek(this.state.player.time + seconds);
    this.say(`Cursor at ${this.state.player.time.toFixed(3)} seconds`);
  }

  commands(): Command[] {
    const of = (keys: string[], what: string, run: () => void): Command => ({ keys, what, group: "Correct", run });
    return [
      of(["["], "Keys move the start", () => this.chooseSide("start")),
      of(["]"], "Keys move the end", () => this.chooseSide("end")),
      of(["Shift+ArrowLeft"], "Edge 5 ms earlier", () => this.nudge(-STEP_S)),
      of(["Shift+ArrowRight"], "Edge 5 ms later", () => this.nudge(STEP_S)),
      of(["Ctrl+Shift+ArrowLeft"], "Edge 1 ms earlier", () => this.nudge(-FINE_STEP_S)),
      of(["Ctrl+Shift+ArrowRight"], "Edge 1 ms later", () => this.nudge(FINE_STEP_S)),
      of(["x"], "Edge to the nearest zero crossing", () => this.snapNow()),
      of(["g"], "Dragged edges snap to zero crossings (Alt reverses this)", () => this.toggleSnap()),
      of(["b"], "Reset the word to its earlier times", () => this.backToModel()),
      of(["r"], "Mark as right, or remove the mark", () => this.right()),
      of(["e"], "Correct the text of the word", () => this.askText(false)),
      of(["s"], "Split the word at the cursor", () => this.split()),
      of(["m"], "Merge with the next word", () => this.merge()),
      of([","], "Start the selected stretch at the cursor", () => this.markStretch(true)),
      of(["."], "End the selected stretch at the cursor", () => this.markStretch(false)),
      of(["Alt+ArrowLeft"], "Cursor 10 ms earlier", () => this.moveCursor(-0.01)),
      of(["Alt+ArrowRight"], "Cursor 10 ms later", () => this.moveCursor(0.01)),
      of(["t"], "Move the word to the selected stretch", () => this.retime()),
      of(["i"], "Insert a word at the selected stretch, or after the word", () => this.askText(true)),
      of(["Delete"], "Delete the word", () => this.remove()),
      of(["c"], "Mark the recording as checked, or remove the mark", () => this.toggleChecked()),
      of(["Ctrl+z"], "Undo", () => this.step(true)),
      of(["Ctrl+Shift+z", "Ctrl+y"], "Redo", () => this.step(false)),
    ];
  }
}
