// The selected word: its times, how sure they are, its tokens.

import { button, element } from "./dom";
import type { PageState } from "./page-state";
import { isTimed } from "./words";

const STATUS: Record<string, string> = {
  skipped: "Not in the recording: it has no time.",
  unspoken: "Nothing of it is pronounced.",
  unknown: "The model has no letters that can stand for it.",
};

function spread(ms: number | undefined): string {
  return ms === undefined ? "" : ` ± ${ms.toFixed(0)} ms`;
}

export class Inspector {
  readonly root = element("aside", { class: "inspector", "data-testid": "inspector", "aria-label": "Selected word" });

  constructor(private readonly state: PageState) {
    this.show();
  }

  show(): void {
    const { state } = this;
    const word = state.word;
    this.root.textContent = "";
    if (!word) {
      this.root.append(element("p", {}, "No word is selected."));
      return;
    }
    this.root.append(element("h2", { dir: "auto" }, word.text));
    if (isTimed(word)) {
      const times = `${word.start.toFixed(3)} – ${word.end.toFixed(3)} s, ${((word.end - word.start) * 1000).toFixed(0)} ms`;
      this.root.append(element("p", { "data-testid": "word-times" }, times));
      if (word.byHand) this.root.append(element("p", { "data-testid": "by-hand" }, "Fixed by hand"));
      else {
        const sure = word.confidence === null ? "unknown" : word.confidence.toFixed(3);
        this.root.append(element("p", {}, `Confidence ${sure}`));
        if (word.startSd !== undefined) {
          this.root.append(element("p", {}, `Start${spread(word.startSd)}, end${spread(word.endSd)}`));
        }
      }
    } else {
      this.root.append(element("p", { "data-testid": "word-status" }, STATUS[word.status]));
    }
    if (word.kind) this.root.append(element("p", {}, `It is a ${word.kind === "markup" ? "mark of a format" : word.kind}.`));
    if (word.speaker) this.root.append(element("p", { dir: "auto" }, `Speaker: ${word.speaker}`));
    const tokens = word.tokens.map((token, at) => {
      const made = button("token", token.token, `${token.token}, ${token.start.toFixed(3)} to ${token.end.toFixed(3)} seconds`, "", () => {
        state.select(state.selected, at);
        state.playSelected();
      });
      made.setAttribute("aria-pressed", String(at === state.token));
      made.title += `, confidence ${token.confidence.toFixed(2)}`;
      return made;
    });
    if (tokens.length) this.root.append(element("div", { class: "tokens" }, ...tokens));
  }
}
