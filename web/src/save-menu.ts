// The menu of what is saved, to files and to the server that the page came from.

import { refusalOf } from "./align-again";
import type { Autosave } from "./autosave";
import type { Command } from "./commands";
import { button, element } from "./dom";
import { corrected } from "./exporting";
import type { PageState } from "./page-state";
import { download, fileOf, type Format } from "./saving";

const FORMATS: readonly [Format, string][] = [
  ["json", "JSON, for ctc-align"],
  ["TextGrid", "TextGrid, for Praat"],
  ["ctm", "CTM, for scoring"],
  ["srt", "SRT subtitles"],
];

export class SaveMenu {
  readonly root: HTMLElement;
  private readonly list = element("div", { hidden: "", "data-testid": "save-menu", role: "group", "aria-label": "Save as" });
  private readonly opener: HTMLButtonElement;
  private tag: string | null;
  private saving = Promise.resolve();

  constructor(
    private readonly state: PageState,
    private readonly autosave: Autosave,
    private readonly say: (text: string) => void,
  ) {
    this.tag = state.data.save_tag;
    const isServed = state.data.save_href !== null;
    this.opener = button("save", [":save", "Save"], "Save", "Ctrl + S", () => this.toggle());
    this.opener.setAttribute("aria-haspopup", "true");
    if (isServed) this.list.append(button("save-server", "Save here", "Save to the folder of this alignment", "", () => void this.put()));
    for (const [format, name] of FORMATS) {
      this.list.append(button(`save-${format.toLowerCase()}`, name, `Save as ${name}`, "", () => this.save(format)));
    }
    this.root = element("span", { class: "menu" }, this.opener, this.list);
    this.opener.setAttribute("aria-expanded", "false");
    document.addEventListener("pointerdown", (event) => {
      if (!this.root.contains(event.target as Node)) this.close();
    });
    this.root.addEventListener("keydown", (event) => {
      if (event.key !== "Escape") return;
      event.stopPropagation();
      this.close();
      this.opener.focus();
    });
  }

  commands(): Command[] {
    const run = () => (this.state.data.save_href === null ? this.toggle() : void this.put());
    const what = this.state.data.save_href === null ? "Save as JSON, TextGrid, CTM or SRT" : "Save";
    return [{ keys: ["Ctrl+s"], what, group: "Save and help", run }];
  }

  private toggle(): void {
    this.list.hidden = !this.list.hidden;
    this.opener.setAttribute("aria-expanded", String(!this.list.hidden));
    if (!this.list.hidden) this.list.querySelector("button")?.focus();
  }

  private close(): void {
    this.list.hidden = true;
    this.opener.setAttribute("aria-expanded", "false");
  }

  private save(format: Format): void {
    const { words, data } = this.state;
    // Not the name of what it was made from: that must not be replaced without being asked.
    download(`${data.name}${words.isMended ? ".corrected" : ""}.${format}`, fileOf(words, format));
    this.close();
    this.say(`Saved as ${format}`);
  }

  /** Save once what was saved before has its answer, and with it the tag. */
  private put(): Promise<void> {
    this.saving = this.saving.then(() => this.send());
    return this.saving;
  }

  private async send(): Promise<void> {
    this.close();
    this.say("Saving …");
    try {
      const { version } = this.state.words;
      const body = JSON.stringify(corrected(this.state.words));
      const answer = await fetch(this.state.data.save_href as string, {
        method: "PUT", headers: { "Content-Type": "application/json", ...(this.tag ? { "If-Match": this.tag } : {}) }, body,
      });
      if (!answer.ok) throw new Error(await refusalOf(answer));
      this.tag = answer.headers.get("ETag");
      this.autosave.markSaved(version, this.tag);
      this.say("Saved");
    } catch (error) {
      this.say(`Not saved: ${error instanceof Error ? error.message : String(error)}. Your corrections stay in this browser.`);
    }
  }
}
