// The transcript as it is written, each word a place to click; thousands of words cost only what is in view.

import { element } from "./dom";
import type { PageState } from "./page-state";
import { lowestRated, ratedLow, ratingInWords } from "./ratings";
import { isDoubtful, isTimed, type Word } from "./words";

const LONG_PARAGRAPH = 120;
/** A text of at most so many letters is shown large: there is room. */
const SHORT_LETTERS = 240;

const WHY: Record<string, string> = {
  skipped: "not in the recording",
  unspoken: "not spoken",
  unknown: "the model has no letters for it",
};

export class Transcript {
  readonly root = element("div", {
    class: "transcript",
    "data-testid": "transcript",
    role: "group",
    "aria-label": "Transcript",
    tabindex: "0",
  });
  private spans: HTMLElement[] = [];
  private shown: readonly Word[] = [];
  private tail = "";
  private selected: HTMLElement | null = null;
  private playing: HTMLElement | null = null;

  constructor(private readonly state: PageState) {
    this.root.addEventListener("click", (event) => {
      const span = (event.target as Element).closest<HTMLElement>("[data-place]");
      if (!span) return;
      state.select(Number(span.dataset.place));
      state.playSelected();
    });
    this.show();
  }

  /** Show the words as they are now; only those that have changed are touched where none came or went. */
  show(): void {
    const words = this.state.words.list;
    if (words.length !== this.shown.length || this.tail !== this.state.words.tail) {
      this.build();
    } else {
      words.forEach((word, place) => {
        const old = this.shown[place];
        if (old === word) return;
        const span = this.spans[place];
        span.textContent = word.text;
        this.dress(span, word);
        if (old.before !== word.before && span.previousSibling?.nodeType === Node.TEXT_NODE) {
          span.previousSibling.textContent = word.before;
        }
      });
    }
    this.shown = words;
    this.tail = this.state.words.tail;
    this.mark();
  }

  private build(): void {
    this.root.textContent = "";
    this.spans = [];
    let paragraph = element("p", { dir: "auto" });
    let length = 0;
    this.state.words.list.forEach((word, place) => {
      // A text without sentence marks is parted, too: what is out of view costs nothing only by whole paragraphs.
      const parts = word.before.includes("\n") || length > 4 * LONG_PARAGRAPH || (length > LONG_PARAGRAPH && /[.!?。！？؟]\W*$/.test(this.state.words.list[place - 1].text));
      if (parts && length) {
        this.root.append(paragraph);
        paragraph = element("p", { dir: "auto" });
        length = 0;
      }
      const span = element("span", { "data-place": String(place) }, word.text);
      this.dress(span, word);
      paragraph.append(length ? word.before : word.before.trim(), span);
      this.spans.push(span);
      length++;
    });
    paragraph.append(this.state.words.tail.trimEnd());
    this.root.append(paragraph);
    document.body.classList.toggle("short", this.state.words.list.length <= SHORT_LETTERS && this.root.textContent.length <= SHORT_LETTERS);
  }

  private dress(span: HTMLElement, word: Word): void {
    span.className = `word ${word.status}`;
    if (word.byHand) span.classList.add("hand");
    const lowest = this.state.showsRatings ? ratedLow(word) : undefined;
    if (lowest) span.classList.add("low");
    // A mark for screen readers, too; most words need no attributes.
    const isUnsure = isDoubtful(word, this.state.doubtBelow);
    const marked = isUnsure || lowest !== undefined;
    if (isUnsure) span.classList.add("doubtful");
    if (marked) span.setAttribute("role", "mark");
    else if (span.hasAttribute("role")) span.removeAttribute("role");
    const why = WHY[word.status] ?? (lowest && ratingInWords(lowest));
    if (why) span.title = why;
    else span.removeAttribute("title");
  }

  /** Mark what is doubtful anew, after what counts as such has changed. */
  dressAll(): void {
    this.shown.forEach((word, place) => this.dress(this.spans[place], word));
    this.mark();
  }

  /** Mark the selected word, and bring it into view. */
  mark(): void {
    const span = this.spans[this.state.selected] ?? null;
    if (span === this.selected && span?.classList.contains("selected")) return;
    this.selected?.classList.remove("selected");
    this.selected?.removeAttribute("aria-current");
    this.selected = span;
    span?.classList.add("selected");
    span?.setAttribute("aria-current", "true");
    if (span) this.reveal(span);
  }

  /** Light up the word that is spoken, -1 for none. */
  light(place: number): void {
    const span = this.spans[place] ?? null;
    if (span === this.playing) return;
    this.playing?.classList.remove("playing");
    this.playing = span;
    if (!span) return;
    span.classList.add("playing");
    this.reveal(span);
  }

  private reveal(span: HTMLElement): void {
    const box = this.root.getBoundingClientRect();
    const own = span.getBoundingClientRect();
    if (own.top >= box.top + 8 && own.bottom <= box.bottom - 8) return;
    this.root.scrollTop += own.top - box.top - box.height / 3;
  }

  /** Return what is read aloud about a word. */
  static spoken(word: Word): string {
    if (!isTimed(word)) return `${word.text}, ${WHY[word.status] ?? "without a time"}`;
    const sure = word.byHand ? "fixed by hand" : word.confidence === null ? "" : `confidence ${Math.round(100 * word.confidence)} %`;
    const lowest = lowestRated(word);
    const rated = lowest ? `; lowest sound ${ratingInWords(lowest)}` : "";
    return `${word.text}, ${word.start.toFixed(2)} to ${word.end.toFixed(2)} seconds, ${sure}${rated}`;
  }
}
