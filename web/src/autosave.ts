// Corrections are kept in the browser, under the page's name and what it was made from, until they are saved or discarded.

import type { AlignmentJson, PageData } from "./data";
import { corrected } from "./exporting";
import type { Version, Word, Words } from "./words";

interface Kept {
  at: string;
  tail: string;
  checked?: boolean;
  selected: number;
  /** [first, count] stands for words as they were read. */
  words: ([number, number] | Word)[];
  /** What the words were made from, unless the page has it. */
  again?: AlignmentJson;
}

/** Return a key for what was aligned: another alignment of the same name has another; `tag` is that of a server. */
function keyOf(data: PageData, tag = data.save_tag): string {
  if (tag) return `ctc-align ${data.save_href} ${tag}`;
  let low = 0x811c9dc5;
  let high = 0x9dc5811c;
  const text = JSON.stringify(data.alignment);
  for (let at = 0; at < text.length; at++) {
    low = Math.imul(low ^ text.charCodeAt(at), 0x01000193);
    high = Math.imul(high ^ text.charCodeAt(at), 0x85ebca6b) ^ (high >>> 13);
  }
  return `ctc-align ${data.name} ${((low >>> 0) * 2 ** 20 + (high >>> 12)).toString(36)}`;
}

export class Autosave {
  private key: string;
  private timer = 0;
  private saved: Version | null = null;
  /** Whether the browser keeps what is mended. */
  works = true;

  constructor(
    private readonly words: Words,
    private readonly data: PageData,
  ) {
    this.key = keyOf(data);
    words.onChange(() => {
      clearTimeout(this.timer);
      this.timer = window.setTimeout(() => this.keep(), 250);
    });
    window.addEventListener("pagehide", () => this.keep());
    window.addEventListener("beforeunload", (event) => {
      this.keep();
      if (!this.works && words.isMended) event.preventDefault();
    });
  }

  private keep(): void {
    clearTimeout(this.timer);
    try {
      if (!this.words.isMended || this.words.version === this.saved) localStorage.removeItem(this.key);
      else localStorage.setItem(this.key, JSON.stringify(this.packed()));
      this.works = true;
    } catch {
      this.works = false; // storage is full, or forbidden here
    }
  }

  private packed(): Kept {
    const { read, version } = this.words;
    const words: Kept["words"] = [];
    for (const word of version.words) {
      const last = words[words.length - 1];
      if (read[word.id] !== word) words.push(word);
      else if (Array.isArray(last) && last[0] + last[1] === word.id) last[1]++;
      else words.push([word.id, 1]);
    }
    // Once something is saved, the page is loaded with that.
    const again = (this.saved ? this.words.alignment : this.words.alignedAgain) ?? undefined;
    return { at: new Date().toISOString(), tail: version.tail, checked: version.checked, selected: version.selected, words, again };
  }

  /** Take back what was kept; return when it was kept, null where nothing was. */
  restore(): string | null {
    let kept: Kept | null = null;
    try {
      kept = JSON.parse(localStorage.getItem(this.key) ?? "null") as Kept | null;
      if (!kept) return null;
      const { base } = kept.again ? this.words.versionOf(kept.again) : this.words.version;
      const words = kept.words.flatMap((of) => (Array.isArray(of) ? base.words.slice(of[0], of[0] + of[1]) : [{ ...of, kind: of.kind }]));
      const version: Version = { base, words, tail: kept.tail, checked: kept.checked === true, selected: kept.selected };
      this.words.change(version);
      corrected(this.words); // throws where it is not what it should be
    } catch {
      if (this.words.canUndo) this.words.undo();
      return null;
    }
    return kept.at;
  }

  /** Forget what is kept, which is not wanted. */
  discard(): void {
    this.saved = this.words.version;
    this.keep();
  }

  /** Forget what is kept of a version that a server has now, under a new tag; keep what was changed since. */
  markSaved(version: Version, tag: string | null): void {
    this.discard();
    this.key = keyOf(this.data, tag);
    this.saved = version;
    this.keep();
  }
}
