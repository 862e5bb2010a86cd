// The words to check of all recordings, one after the other: listen, mark as right or mend, go on.

import type { WordJson } from "../data";
import { addressesOf, asked, attempt, button, changed, clock, element, isolated, made, Refused, say } from "./dom";

interface Doubt {
  job?: string; folder?: string; name: string; tag: string; index: number; word: WordJson; before: string; after: string;
  room_s: [number, number]; shift_s: number; why: string;
}

const AROUND_S = 1;
const MOST_WORDS = 500; // that the server lists at once
const SHORTEST_S = 0.01;

/** Return a word at other times: its tokens share them as before. */
function movedTo(word: WordJson, start: number, end: number): WordJson {
  const [from, to] = [word.start_s as number, word.end_s as number];
  const moved = (time: number) => Math.round((start + ((time - from) * (end - start)) / (to - from)) * 1e5) / 1e5;
  const { doubtful: _doubtful, start_sd_ms: _start, end_sd_ms: _end, ...rest } = word;
  const tokens = word.tokens.map(({ start_sd_ms: _s, end_sd_ms: _e, ...token }) => ({ ...token, start_s: moved(token.start_s), end_s: moved(token.end_s) }));
  return { ...rest, start_s: start, end_s: end, tokens, by: "hand" };
}

/** Return the time in a field, which has three decimals: unchanged it is that of the word, and beside a limit it is the limit. */
function timeIn(field: HTMLInputElement, was: number, room: [number, number]): number {
  const time = Number(field.value);
  return field.value === field.defaultValue ? was : (room.find((limit) => Math.abs(limit - time) < 0.000501) ?? time);
}

function right(word: WordJson): WordJson {
  const { doubtful: _doubtful, ...rest } = word;
  return { ...rest, by: "hand" };
}

function keyOf(of: { job?: string; folder?: string }): string {
  return addressesOf(of).key;
}

export class WordList {
  private words: Doubt[] = [];
  private at = 0;
  private done = 0;
  private isCut = false;
  private stopAt = Infinity;
  private readonly sound = new Audio();

  constructor(private readonly signOff: (of: Doubt, checked: boolean) => Promise<string>) {}

  get isShown(): boolean {
    return !element("words").hidden;
  }

  wire(): void {
    element("words-order").addEventListener("input", () => this.arrange());
    this.sound.addEventListener("timeupdate", () => {
      if (this.sound.currentTime >= this.stopAt) this.sound.pause();
    });
    for (const name of ["play", "pause"]) {
      this.sound.addEventListener(name, () => element("words").classList.toggle("playing", !this.sound.paused));
    }
    document.addEventListener("keydown", (event) => {
      const inField = event.target instanceof Element && event.target.matches("input:not([type=checkbox]), select, textarea");
      if (!this.isShown || inField || event.ctrlKey || event.metaKey || event.altKey) return;
      const onButton = event.target instanceof Element && event.target.matches("button, a, input");
      const run: Record<string, () => void> = {
        ArrowDown: () => this.go(1), j: () => this.go(1), n: () => this.go(1), ArrowUp: () => this.go(-1), k: () => this.go(-1), p: () => this.go(-1),
        r: () => this.mark(), e: () => document.querySelector<HTMLElement>("#doubts [data-testid=start]")?.focus(), o: () => this.open(),
        l: () => this.play(), c: () => this.check(),
        ...(onButton ? {} : { " ": () => this.play() }),
      };
      const wanted = run[event.key];
      if (!wanted) return;
      event.preventDefault();
      wanted();
    });
  }

  async load(): Promise<void> {
    const before = this.words[this.at];
    this.words = (await asked("/api/words")).words;
    this.isCut = this.words.length >= MOST_WORDS;
    this.arrange();
    // where one was, or near it if that word is done
    const place = before ? this.words.findIndex((one) => keyOf(one) === keyOf(before) && one.index >= before.index) : 0;
    this.choose(place < 0 ? this.at : place);
  }

  leave(): void {
    this.sound.pause();
    this.sound.removeAttribute("src");
  }

  private arrange(): void {
    const now = this.words[this.at];
    const place = new Map<string, number>();
    for (const one of this.words) if (!place.has(keyOf(one))) place.set(keyOf(one), place.size);
    const byRecording = (a: Doubt, b: Doubt) => (place.get(keyOf(a)) as number) - (place.get(keyOf(b)) as number) || a.index - b.index;
    const isSorted = element<HTMLSelectElement>("words-order").value === "sure";
    this.words.sort((a, b) => (isSorted ? (a.word.confidence ?? 0) - (b.word.confidence ?? 0) : 0) || byRecording(a, b));
    this.at = Math.max(0, this.words.indexOf(now));
    this.draw();
  }

  private draw(): void {
    const recordings = new Set(this.words.map(keyOf)).size;
    const left = this.words.length;
    element("words-count").textContent = left
      ? `${this.at + 1} of ${left} in ${recordings} ${recordings === 1 ? "recording" : "recordings"}${this.done ? ` · ${this.done} done` : ""}${this.isCut ? " · more when these are done" : ""}`
      : this.done ? `All done: ${this.done}` : "Nothing to check";
    const list = element("doubts");
    const focused = list.contains(document.activeElement) ? (document.activeElement as HTMLElement).dataset.testid : "";
    list.replaceChildren(...this.words.map((one, at) => this.item(one, at)));
    element("words-none").hidden = left > 0;
    // from a field one goes on with the keys
    if (focused) this.focus(/start|end|save/.test(focused) ? "context" : focused);
    list.children[this.at]?.scrollIntoView({ block: "nearest" });
  }

  private focus(name: string): void {
    element("doubts").children[this.at]?.querySelector<HTMLElement>(`[data-testid="${name}"]`)?.focus();
  }

  private item(one: Doubt, at: number): HTMLLIElement {
    const item = made("li");
    item.dataset.testid = "doubt";
    const isCurrent = at === this.at;
    if (isCurrent) item.setAttribute("aria-current", "true");
    const context = button("", "context", () => {
      if (at !== this.at) this.choose(at);
      this.play();
    });
    context.className = "context";
    context.dir = "auto";
    context.append(one.before, made("mark", one.word.text), one.after);
    const seconds = (one.word.start_s as number) + one.shift_s;
    const confidence = `confidence ${(one.word.confidence ?? 0).toFixed(2)}`;
    const about = made("p", "", "about");
    const name = made("bdi", one.name);
    about.append(name, ` · ${clock(seconds)} · ${confidence}${one.why ? ` · ${one.why}` : ""}`);
    item.append(context, about);
    if (isCurrent) item.append(this.tools(one));
    return item;
  }

  private tools(one: Doubt): HTMLElement {
    const tools = made("div", "", "tools");
    const mark = button("Right", "right", () => this.mark());
    mark.className = "main";
    const [start, end] = (["start", "end"] as const).map((name) => {
      const input = made("input");
      input.type = "number";
      input.step = "0.01";
      input.min = String(one.room_s[0]);
      input.max = String(one.room_s[1]);
      input.value = input.defaultValue = (one.word[`${name}_s`] as number).toFixed(3);
      input.dataset.testid = name;
      input.addEventListener("keydown", (event) => {
        if (event.key === "Enter") save.click();
        if (event.key === "Escape") input.blur();
      });
      return input;
    });
    const labelled = (text: string, input: HTMLInputElement) => {
      const label = made("label", `${text} `);
      label.append(input);
      return label;
    };
    const times = () => [start, end].map((input, at) => timeIn(input, one.word[at ? "end_s" : "start_s"] as number, one.room_s)) as [number, number];
    const save = button("Save times", "save-times", () => this.mend(one, ...times()));
    const listen = button("Listen", "listen", () => this.play(...times()));
    const link = made("a", "Open the page");
    link.className = "button";
    link.href = addressesOf(one).key;
    link.dataset.testid = "open-page";
    link.addEventListener("click", () => sessionStorage.setItem("ctc-align word", String(one.index)));
    const sign = button("Sign off the recording", "sign-off", () => this.check());
    tools.append(listen, mark, labelled("From", start), labelled("to", end), save, link, sign);
    return tools;
  }

  private choose(at: number): void {
    this.at = Math.max(0, Math.min(at, this.words.length - 1));
    this.draw();
  }

  private go(by: number): void {
    if (!this.words.length) return;
    this.choose(this.at + by);
    this.focus("context"); // which a screen reader reads
    this.sound.pause();
    this.play();
  }

  private open(): void {
    document.querySelector<HTMLElement>("#doubts [data-testid=open-page]")?.click();
  }

  /** Play the word with a second around; a second call pauses. */
  private play(start?: number, end?: number): void {
    const one = this.words[this.at];
    if (!one) return;
    if (!this.sound.paused && start === undefined) {
      this.sound.pause();
      return;
    }
    const source = addressesOf(one).audio;
    if (this.sound.getAttribute("src") !== source) this.sound.setAttribute("src", source);
    const shift = one.shift_s;
    this.sound.currentTime = Math.max(0, (start ?? (one.word.start_s as number)) + shift - AROUND_S);
    this.stopAt = (end ?? (one.word.end_s as number)) + shift + AROUND_S;
    this.sound.play().catch((error: Error) => {
      if (error.name !== "AbortError") say(`${isolated(one.name)} cannot be played: its recording is not in the folder (see --audio of serve), or this browser does not play it`);
    });
  }

  private mark(): void {
    const one = this.words[this.at];
    if (one) attempt(() => this.change(one, right(one.word), `“${one.word.text}” is marked as right.`));
  }

  private mend(one: Doubt, start: number, end: number): void {
    const [low, high] = one.room_s;
    if (!(start >= low - 1e-6 && end <= high + 1e-6 && end - start >= SHORTEST_S)) {
      say(`Expected times from ${low.toFixed(3)} to ${high.toFixed(3)} s, between the words beside it, the first before the second.`);
      return;
    }
    attempt(() => this.change(one, movedTo(one.word, start, end), `“${one.word.text}” has its times by hand.`));
  }

  /** Save a word, take it from the list, and go on to the next. */
  private async change(one: Doubt, is: WordJson, said: string): Promise<void> {
    try {
      this.retag(one, await changed(addressesOf(one).alignment, { words: [{ index: one.index, was: one.word, is }] }));
    } catch (error) {
      if (error instanceof Refused && error.status === 409) await this.load();
      throw error;
    }
    const at = this.words.indexOf(one);
    this.words.splice(at, 1);
    this.at = Math.max(0, Math.min(this.at, this.words.length - 1));
    this.done += 1;
    this.draw();
    if (this.isCut && !this.words.length) await this.load();
    const isLast = !this.words.some((other) => keyOf(other) === keyOf(one));
    say(isLast ? `${said} It was the last of ${isolated(one.name)}.` : said, () => attempt(async () => {
      this.retag(one, await changed(addressesOf(one).alignment, { words: [{ index: one.index, was: is, is: one.word }] }));
      this.words.splice(at, 0, one);
      this.at = at;
      this.done -= 1;
      this.draw();
    }));
    if (isLast) element("said").firstElementChild?.after(button(`Sign off ${isolated(one.name)}`, "sign-off-last", () => this.signed(one)));
  }

  /** Note the tag of a recording after a change that this page made. */
  private retag(of: Doubt, tag: string): void {
    of.tag = tag;
    for (const one of this.words) if (keyOf(one) === keyOf(of)) one.tag = tag;
  }

  private check(): void {
    const one = this.words[this.at];
    if (one) this.signed(one);
  }

  /** Sign off the recording of a word; its other words leave the list. */
  private signed(one: Doubt): void {
    attempt(async () => {
      try {
        one.tag = await this.signOff(one, true);
      } catch (error) {
        if (error instanceof Refused && error.status === 412) await this.load();
        throw error;
      }
      const gone = this.words.filter((other) => keyOf(other) === keyOf(one));
      this.words = this.words.filter((other) => keyOf(other) !== keyOf(one));
      this.at = Math.max(0, Math.min(this.at, this.words.length - 1));
      this.draw();
      say(`${isolated(one.name)} is signed off as checked.`, () => attempt(async () => {
        const tag = await this.signOff(one, false);
        this.words.push(...gone.map((other) => ({ ...other, tag })));
        this.arrange();
      }));
    });
  }
}
