// The head of the page: what was aligned, and how well it fits.

import { element } from "./dom";
import type { PageState } from "./page-state";

const FIT: Record<string, string> = {
  good: "The transcript fits the recording well",
  doubtful: "It is doubtful whether the transcript fits the recording",
  poor: "The transcript fits the recording poorly",
  none: "The transcript does not fit the recording",
};

function chip(id: string, name: string, value: string, title: string, kind = ""): HTMLElement {
  return element("span", { class: `chip ${kind}`, "data-testid": id, title }, element("b", {}, name), ` ${value}`);
}

export function headline(state: PageState): HTMLElement {
  const { alignment } = state.words;
  const { data } = state;
  const chips: HTMLElement[] = [];
  if (alignment.fit) chips.push(chip("fit", "fit", alignment.fit, FIT[alignment.fit], `fit-${alignment.fit}`));
  const loss = alignment.loss === null ? "infinite" : alignment.loss.toFixed(2);
  const each = alignment.loss_per_token === null ? "" : ` · ${alignment.loss_per_token.toFixed(3)} a token`;
  chips.push(chip("loss", "CTC loss", loss + each, "−log p(transcript | recording), natural logarithm"));
  if (alignment.score !== null) chips.push(chip("score", "score", alignment.score.toFixed(2), "Log-probability of the best path"));
  if (alignment.skipped) chips.push(chip("skipped", "not spoken", String(alignment.skipped), "Words that are not in the recording", "warn"));
  if (alignment.unknown) chips.push(chip("unknown", "unknown letters", String(alignment.unknown), "Letters that the model lacks", "warn"));
  if (alignment.unexplained.length) {
    chips.push(chip("unexplained", "unexplained", String(alignment.unexplained.length), "Stretches of speech that no word explains", "warn"));
  }
  chips.push(chip("model", "model", alignment.model, "The acoustic model"));
  return element(
    "div",
    { class: "headline" },
    // In the app's frame the way back is the app's own.
    data.home_href === null || window.parent !== window ? null : element("a", { class: "home", href: data.home_href, "data-testid": "home" }, "‹ All"),
    element("h1", { dir: "auto", "data-testid": "name" }, data.name),
    ...chips,
  );
}
