// Corrections are aligned again by the server that the page came from; what comes back is a change like any other.

import type { Command } from "./commands";
import type { AlignmentJson } from "./data";
import { button, show } from "./dom";
import { corrected } from "./exporting";
import type { PageState } from "./page-state";

/** Return what a server says of a request that it refuses. */
export async function refusalOf(answer: Response): Promise<string> {
  const said = (await answer.json().catch(() => null)) as { error?: unknown } | null;
  return typeof said?.error === "string" ? said.error : `the server answers ${answer.status}`;
}

const WHAT = "Align again between the words that are marked as right";

export class AlignAgain {
  readonly root: HTMLButtonElement | null;
  private running: AbortController | null = null;

  constructor(
    private readonly state: PageState,
    private readonly say: (text: string) => void,
  ) {
    this.root = state.data.realign_href === null ? null : button("align-again", "Align again", WHAT, "A", () => this.toggle());
  }

  commands(): Command[] {
    if (!this.root) return [];
    return [{ keys: ["a"], what: "Align again between the words marked as right; stop aligning", group: "Correct", run: () => this.toggle() }];
  }

  private label(text: string): void {
    if (!this.root) return;
    show(this.root, text);
    this.root.setAttribute("aria-label", this.running ? text : WHAT);
  }

  private toggle(): void {
    if (this.running) this.running.abort();
    else void this.run();
  }

  private async run(): Promise<void> {
    const { words, data } = this.state;
    if (!this.root || data.realign_href === null) return;
    if (!words.list.some((word) => word.byHand)) {
      this.say("No word is marked as right yet: move an edge, or press R, and align again around it.");
      return;
    }
    const before = words.list;
    this.running = new AbortController();
    const { signal } = this.running;
    this.label("Stop aligning");
    this.root.setAttribute("aria-busy", "true");
    this.say("Aligning again …");
    try {
      const body = JSON.stringify(corrected(words));
      const answer = await fetch(data.realign_href, { method: "POST", headers: { "Content-Type": "application/json" }, body, signal });
      if (!answer.ok) throw new Error(await refusalOf(answer));
      const made = words.versionOf((await answer.json()) as AlignmentJson);
      if (words.list !== before) throw new Error("words were changed meanwhile; align again");
      const { selected } = this.state;
      words.rewind({ ...words.version, selected });
      words.change({ ...made, selected });
      const moved = made.words.filter((word, place) => word.start !== before[place]?.start || word.end !== before[place]?.end);
      this.say(`Aligned again: ${moved.length} of ${made.words.length} words moved. Undo brings them back.`);
    } catch (error) {
      const why = error instanceof Error ? error.message : String(error);
      this.say(signal.aborted ? "Stopped: nothing was changed" : `Not aligned again: ${why}`);
    } finally {
      this.running = null;
      this.label("Align again");
      this.root.removeAttribute("aria-busy");
    }
  }
}
