// The head of the page: how well the transcript fits, in words, and how many words are to be looked at; the figures below.

import { element } from "./dom";
import { count, fitInWords } from "./fit";
import type { PageState } from "./page-state";
import { isTimed } from "./words";

/** Return a number with a true minus. */
function figure(value: number | null, digits: number): string {
  return value === null ? "infinite" : value.toFixed(digits).replace("-", "−");
}

export class Headline {
  readonly root: HTMLElement;
  private readonly fit = element("p", { class: "fit", "data-testid": "fit" });
  private readonly checked = element("p", { class: "fit fit-good", "data-testid": "checked-mark", hidden: "" }, "✓ Checked");
  private readonly figures = element("dl", {});

  constructor(
    private readonly state: PageState,
    setting: HTMLElement,
  ) {
    const { data } = state;
    const details = element("details", { class: "details" }, element("summary", { "data-testid": "details" }, "Details"), element("div", {}, this.figures, setting));
    document.addEventListener("pointerdown", (event) => {
      if (!details.contains(event.target as Node)) details.open = false;
    });
    this.root = element(
      "div",
      { class: "headline" },
      // In the app's frame the way back is the app's own.
      data.home_href === null || window.parent !== window ? null : element("a", { class: "home", href: data.home_href, "data-testid": "home" }, "‹ All"),
      element("h1", { dir: "auto", "data-testid": "name" }, data.name),
      this.fit,
      this.checked,
      details,
    );
    this.show();
  }

  show(): void {
    const { words, doubts } = this.state;
    const { alignment } = words;
    const doubtful = doubts.filter((doubt) => isTimed(words.list[doubt.place])).length;
    const text = fitInWords(alignment.fit, doubtful, [
      count(alignment.skipped, "word not in the recording", "words not in the recording"),
      count(alignment.unexplained.length, "stretch of speech not in the text", "stretches of speech not in the text"),
    ]);
    if (this.fit.textContent !== text) this.fit.textContent = text;
    this.checked.hidden = !words.version.checked;
    this.fit.classList.toggle("fit-good", alignment.fit === "good");
    const rows: [string, string, string][] = [
      ["loss", "CTC loss", `${figure(alignment.loss, 2)}, the natural −log of the transcript's probability`],
      ["loss-per-token", "per token", alignment.loss_per_token === null ? "" : figure(alignment.loss_per_token, 3)],
      ["score", "best path", alignment.score === null ? "" : figure(alignment.score, 2)],
      ["unknown", "letters that the model lacks", alignment.unknown ? String(alignment.unknown) : ""],
      ["model", "model", alignment.model],
    ];
    const shown = rows.filter(([, , value]) => value).flatMap(([id, name, value]) => [element("dt", {}, name), element("dd", { "data-testid": id }, value)]);
    if (this.figures.textContent !== shown.map((of) => of.textContent).join("")) this.figures.replaceChildren(...shown);
  }
}
