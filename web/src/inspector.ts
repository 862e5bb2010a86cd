// The selected word: its times, how sure they are, its tokens, and what can be done with it.

import { button, element } from "./dom";
import type { Mending } from "./mending-controls";
import type { PageState } from "./page-state";
import { lowestRated, ratingInWords } from "./ratings";
import { isTimed, modelSpan } from "./words";

const STATUS: Record<string, string> = {
  skipped: "Not in the recording, so it has no times.",
  unspoken: "Not pronounced.",
  unknown: "The model has no token for this word.",
};

function spread(ms: number | undefined): string {
  return ms === undefined ? "" : ` ± ${ms.toFixed(0)} ms`;
}

export class Inspector {
  readonly root = element("aside", { class: "inspector", "data-testid": "inspector", "aria-label": "Selected word" });
  private readonly facts = element("div", {});
  private readonly text = element("input", {
    type: "text", dir: "auto", "aria-label": "Text of the word", "data-testid": "word-text", spellcheck: "false", autocomplete: "off",
  });
  private readonly tokens = element("div", { class: "tokens", role: "group", "aria-label": "Sounds of the word" });
  private isNew = false;
  private readonly buttons: Record<string, HTMLButtonElement> = {};

  constructor(
    private readonly state: PageState,
    mending: Mending,
    /** Give the keys back to the stage. */
    private readonly leave: () => void,
  ) {
    const act = (id: string, text: string | readonly string[], label: string, key: string, run: () => void) => {
      this.buttons[id] = button(id, text, label, key, () => {
        run();
        leave();
      });
      return this.buttons[id];
    };
    const form = element("form", { class: "row" }, this.text);
    form.addEventListener("submit", (event) => {
      event.preventDefault();
      const text = this.text.value;
      const isNew = this.isNew;
      this.isNew = false;
      if (isNew && text.trim()) mending.insert(text);
      else if (!isNew) mending.setText(text);
      this.text.value = state.word?.text ?? "";
      leave();
    });
    this.text.addEventListener("keydown", (event) => {
      if (event.key !== "Escape") return;
      this.isNew = false;
      this.text.value = state.word?.text ?? "";
      leave();
    });
    this.text.addEventListener("blur", () => {
      const text = this.text.value.trim();
      if (!this.isNew && text && state.word && text !== state.word.text) mending.setText(text);
      this.isNew = false;
      this.show();
    });
    this.root.append(
      element("div", {}, this.facts, form, this.tokens),
      element(
        "div",
        { class: "row", role: "group", "aria-label": "Correct the word" },
        act("right", [":check", "Right"], "Mark as right, or remove the mark", "R", () => mending.right()),
        act("split", "Split", "Split the word at the cursor", "S", () => mending.split()),
        act("merge", "Merge", "Merge with the next word", "M", () => mending.merge()),
        act("retime", "Move", "Move the word to the selected stretch", "T", () => mending.retime()),
        act("model-edges", "Reset", "Reset the word to its earlier times", "B", () => mending.backToModel()),
        button("insert", "Insert…", "Insert a word at the selected stretch, or after the word", "I", () => this.edit(true)),
        act("delete", "Delete", "Delete the word", "Del", () => mending.remove()),
      ),
    );
    this.show();
  }

  /** Let the text of the word, or of a new one, be written. */
  edit(isNew: boolean): void {
    this.isNew = isNew;
    this.text.value = isNew ? "" : (this.state.word?.text ?? "");
    this.text.placeholder = isNew ? "New word, then Enter" : "";
    this.text.focus();
    this.text.select();
  }

  show(): void {
    const { state } = this;
    const word = state.word;
    this.facts.textContent = "";
    if (document.activeElement !== this.text) {
      this.text.value = word?.text ?? "";
      this.text.placeholder = "";
    }
    this.text.disabled = !word;
    this.buttons.right.setAttribute("aria-pressed", String(word?.byHand ?? false));
    this.buttons.retime.disabled = !state.stretch;
    this.buttons["model-edges"].disabled = !word || !modelSpan(state.words, word) || state.words.read[word.id] === word;
    this.showTokens();
    if (!word) {
      this.facts.append(element("p", {}, "No word is selected."));
      return;
    }
    this.facts.append(...this.factsOf());
  }

  private factsOf(): HTMLElement[] {
    const { word, words } = this.state;
    if (!word) return [];
    const facts: HTMLElement[] = [];
    const add = (text: string, id?: string) => facts.push(element("p", { "data-testid": id, dir: "auto" }, text));
    if (isTimed(word)) {
      add(`${word.start.toFixed(3)} – ${word.end.toFixed(3)} s, ${((word.end - word.start) * 1000).toFixed(0)} ms`, "word-times");
      if (word.byHand) {
        const model = modelSpan(words, word);
        const moved = model && (model.start !== word.start || model.end !== word.end);
        add(moved ? `Fixed by hand; before ${model.start.toFixed(3)} – ${model.end.toFixed(3)} s` : "Fixed by hand", "by-hand");
      } else {
        add(`Confidence ${word.confidence === null ? "not known" : word.confidence.toFixed(3)}`);
        if (word.startSd !== undefined) add(`Start${spread(word.startSd)}, end${spread(word.endSd)}`);
      }
    } else {
      add(STATUS[word.status], "word-status");
    }
    const rated = word.tokens[this.state.token] ?? lowestRated(word);
    if (rated?.rating) add(`${this.state.token < 0 ? "Lowest sound " : ""}${ratingInWords(rated)}`, "rating");
    if (word.kind) add(`Kind: ${word.kind}`);
    if (word.speaker) add(`Speaker: ${word.speaker}`);
    return facts;
  }

  private showTokens(): void {
    const { state } = this;
    const tokens = state.word?.tokens ?? [];
    this.tokens.textContent = "";
    tokens.forEach((token, at) => {
      const times = `${token.start.toFixed(3)} to ${token.end.toFixed(3)} seconds`;
      const label = [`${token.token}, ${times}, confidence ${token.confidence.toFixed(2)}`, ratingInWords(token)];
      const made = button("token", token.token, label.filter(Boolean).join("; "), "", () => {
        state.select(state.selected, at);
        state.playSelected();
        this.leave();
      });
      made.setAttribute("aria-pressed", String(at === state.token));
      this.tokens.append(made);
    });
  }
}
