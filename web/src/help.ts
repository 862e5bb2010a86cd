// The overlay that lists all keys.

import type { Command } from "./commands";
import { shownKey } from "./commands";
import { element } from "./dom";

export function helpDialog(commands: readonly Command[]): HTMLDialogElement {
  const groups = [...new Set(commands.map((command) => command.group))];
  const tables = groups.map((group) =>
    element(
      "table",
      {},
      element("thead", {}, element("tr", {}, element("th", { colspan: "2" }, group))),
      element(
        "tbody",
        {},
        ...commands
          .filter((command) => command.group === group)
          .map((command) =>
            element(
              "tr",
              {},
              element("td", {}, ...command.keys.flatMap((key, at) => [at ? " " : "", element("kbd", {}, shownKey(key))])),
              element("td", {}, command.what),
            ),
          ),
      ),
    ),
  );
  const close = element("button", { type: "submit", "data-testid": "help-close" }, "Close");
  return element(
    "dialog",
    { "data-testid": "help", "aria-labelledby": "help-title" },
    element("form", { method: "dialog", class: "dialog-head" }, element("h2", { id: "help-title" }, "Keys"), close),
    element("div", { class: "columns" }, ...tables),
    element(
      "p",
      {},
      "Mouse: click a word to hear it; drag over the sound to select a stretch; drag an edge to move it; the wheel scrolls, " +
        "Ctrl and the wheel zoom. Touch: one finger scrolls, two zoom. The colours of words show confidence, from certain " +
        "(blue) to doubtful (red), or pronunciation, if it was rated; the bands at edges show their standard deviation.",
    ),
  );
}
