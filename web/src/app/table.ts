// The one table of recordings: those that wait for a partner or are sent, the server's jobs, and the folder.

import { count, type Fit, fitName } from "../fit";
import type { Adding, Waiting } from "./adding";
import { AtRisk } from "./at-risk";
import { addressesOf, asked, attempt, button, changed, clock, element, isolated, made, Refused } from "./dom";

export interface Figures {
  duration_s: number | null; fit: Fit; to_check: number; checked: boolean; by_hand: number; skipped: number; unexplained_s: number;
  loss_per_token: number | null; least: number | null; text: string; tag: string;
}
/** An alignment of the folder; one with an `error` cannot be opened. */
interface FolderRow extends Figures {
  id: string; name: string; error: string;
}
/** How much the server keeps, and may keep. */
export interface Room {
  jobs: number; most_jobs: number; bytes: number; most_bytes: number;
}
export interface Job extends Partial<Figures> {
  id: string; name: string; audio: string; duration_s: number | null; state: State; step: string; progress: number; place: number | null; has_work: boolean; error?: string;
}
type State = "alone" | "sending" | "queued" | "running" | "done" | "failed" | "cancelled" | "damaged";
export interface Row {
  key: string; title: string; state: State; said: string; progress: number; job?: string; folder?: string;
  figures: Figures | null; duration: number | null; waiting?: Waiting;
}

const FITS = ["none", "poor", "doubtful", "good"];
const PAGE_ROWS = 300;
const LEFT_OUT: Record<string, [string, string]> = {
  other: ["other JSON file", "other JSON files"],
  before: ["version before a correction", "versions before a correction"],
  folders: ["folder that is hidden, a link, or cannot be read", "folders that are hidden, links, or cannot be read"],
  beyond: ["JSON file beyond the limit", "JSON files beyond the limit"],
};

function isOpen(row: Row): boolean {
  return row.state === "sending" || row.state === "queued" || row.state === "running";
}

function hasFailed(row: Row): boolean {
  return row.state === "failed" || row.state === "alone" || row.state === "cancelled" || row.state === "damaged";
}

/** Whether a person should look at a recording that nobody has checked. */
export function needsLook(row: Row): boolean {
  const of = row.figures;
  return of !== null && !of.checked && (of.to_check > 0 || (of.fit !== null && of.fit !== "good"));
}

type Value = (row: Row) => number | string | null;
/** What rows are sorted by, the worst first; null keeps the order in which they came. */
const ORDERS: Record<string, Value | null> = {
  added: null,
  check: (row) => (row.figures ? -row.figures.to_check : null),
  fit: (row) => (row.figures?.fit ? FITS.indexOf(row.figures.fit) : null),
  name: (row) => row.title,
  length: (row) => (row.duration === null ? null : -row.duration),
  loss: (row) => (row.figures?.loss_per_token == null ? null : -row.figures.loss_per_token),
  least: (row) => row.figures?.least ?? null,
  skipped: (row) => (row.figures ? -row.figures.skipped : null),
  unexplained: (row) => (row.figures ? -row.figures.unexplained_s : null),
};
const SHOWN: Record<string, (row: Row) => boolean> = {
  all: () => true,
  look: needsLook,
  open: isOpen,
  failed: hasFailed,
  checked: (row) => row.figures?.checked === true,
  unchecked: (row) => row.figures?.checked === false,
  ...Object.fromEntries(FITS.map((fit) => [fit, (row: Row) => row.figures?.fit === fit])),
};

export class RowTable {
  rows: Row[] = [];
  sorted: Row[] = [];
  hasFolder = false;
  truncated = false;
  room: Room | null = null;
  formats: string[] = ["json"];
  readonly jobs = new Map<string, Job>();
  private folder: FolderRow[] = [];
  private leftOut: Record<string, number> = {};
  private folderFault = "";
  private limit = PAGE_ROWS;
  private readonly drawn = new Map<string, { line: HTMLTableRowElement; of: string }>();

  private readonly atRisk = new AtRisk((jobs) => this.keepAll(jobs));

  constructor(readonly adding: () => Adding, private readonly changed: () => void) {}

  wire(): void {
    this.atRisk.wire();
    for (const id of ["filter", "shown", "order"]) element(id).addEventListener("input", () => { this.limit = PAGE_ROWS; this.arrange(); });
    element("more").addEventListener("click", () => { this.limit += PAGE_ROWS; this.arrange(); });
    for (const head of document.querySelectorAll<HTMLButtonElement>("th button")) {
      head.addEventListener("click", () => {
        const order = element<HTMLSelectElement>("order");
        order.value = order.value === head.dataset.order ? "added" : (head.dataset.order as string);
        this.arrange();
      });
    }
  }

  async loadFolder(): Promise<void> {
    try {
      const answer = await asked("/api/alignments");
      this.hasFolder = answer.folder;
      this.folder = answer.alignments;
      this.truncated = answer.truncated;
      this.leftOut = answer.left_out;
      this.folderFault = "";
    } catch (error) {
      if (!(error instanceof Refused)) throw error;
      [this.hasFolder, this.folder, this.leftOut] = [true, [], {}];
      this.folderFault = error.message;
    }
    this.arrange();
  }

  /** Take the server's jobs; of those that it no longer has, files that wait are shown with what happened. */
  async loadJobs(): Promise<void> {
    const known = new Set([...this.jobs.keys(), ...[...this.adding().all.values()].map((one) => one.job)]);
    const { jobs, room } = await asked("/jobs");
    this.room = room;
    for (const id of this.jobs.keys()) if (known.has(id)) this.jobs.delete(id);
    for (const job of jobs as Job[]) this.jobs.set(job.id, job);
    for (const one of [...this.adding().all.values()]) {
      if (one.job === undefined || !known.has(one.job)) continue; // the server told of it meanwhile
      const job = this.jobs.get(one.job);
      if (job?.state === "done") await this.adding().drop(one);
      else if (!job) await this.adding().keep({ ...one, job: undefined, reason: "the server no longer has it: it was stopped, or removed it" });
    }
    this.arrange();
  }

  get isBusy(): boolean {
    return [...this.jobs.values()].some((job) => job.state === "queued" || job.state === "running");
  }

  private made(): Row[] {
    const rows: Row[] = [];
    const ofJob = new Map<string, Waiting>();
    for (const one of this.adding().all.values()) {
      if (one.job !== undefined && this.jobs.has(one.job)) {
        ofJob.set(one.job, one);
        continue;
      }
      const isWhole = one.audio && (one.transcript || one.text);
      const state: State = one.reason ? (isWhole ? "failed" : "alone") : "sending";
      const said = one.reason ?? (one.later ? `waits: ${one.later}` : undefined) ?? (one.sending ? "sending …" : "waits to be sent");
      rows.push({ key: `w${one.id}`, title: one.name.replace(/^.*\//, ""), state, said, progress: 0, figures: null, duration: null, waiting: one });
    }
    for (const job of this.jobs.values()) {
      const said =
        job.state === "queued" ? `waiting: position ${job.place ?? "…"} in the queue`
        : job.state === "running" ? `${job.step} …${job.progress ? ` ${Math.round(100 * job.progress)} %` : ""}`
        : job.state === "done" ? "" : (job.error ?? job.state);
      rows.push({
        key: `j${job.id}`, title: job.name, state: job.state, said, progress: job.progress, job: job.id, duration: job.duration_s,
        figures: job.state === "done" && job.text !== undefined ? (job as Figures & Job) : null, waiting: ofJob.get(job.id),
      });
    }
    for (const one of this.folder) {
      const [state, figures]: [State, Figures | null] = one.error ? ["damaged", null] : ["done", one];
      rows.push({
        key: `f${one.id}`, title: one.name, state, said: one.error && `cannot be opened: ${one.error}`, progress: 1, folder: one.id, figures,
        duration: one.duration_s,
      });
    }
    return rows;
  }

  arrange(): void {
    this.rows = this.made();
    const words = element<HTMLInputElement>("filter").value.toLowerCase().split(/\s+/).filter(Boolean);
    const isShown = SHOWN[element<HTMLSelectElement>("shown").value];
    const order = element<HTMLSelectElement>("order").value;
    this.sorted = this.rows.filter((row) => {
      const text = `${row.title} ${row.figures?.text ?? ""}`.toLowerCase();
      return isShown(row) && words.every((word) => text.includes(word));
    });
    const value = ORDERS[order];
    if (value) this.sorted.sort((a, b) => compared(value(a), value(b)));
    for (const head of document.querySelectorAll<HTMLButtonElement>("th button")) {
      const isIt = head.dataset.order === order;
      head.closest("th")?.setAttribute("aria-sort", isIt ? (order === "name" ? "ascending" : "descending") : "none");
    }
    this.draw();
    this.changed();
  }

  private draw(): void {
    const body = element("rows");
    const lines = this.sorted.slice(0, this.limit).map((row) => this.line(row));
    if (lines.length !== body.children.length || lines.some((line, at) => body.children[at] !== line)) {
      const focused = document.activeElement as HTMLElement | null;
      body.replaceChildren(...lines);
      if (focused && body.contains(focused)) focused.focus();
    }
    const kept = new Set(this.rows.map((row) => row.key));
    for (const key of this.drawn.keys()) if (!kept.has(key)) this.drawn.delete(key);
    element("more").hidden = this.sorted.length <= this.limit;
    element("list").hidden = !this.rows.length && !this.hasFolder;
    document.body.classList.toggle("has-rows", this.rows.length > 0);
    element("empty").hidden = this.rows.length > 0;
    const done = this.rows.filter((row) => row.state === "done");
    const number = (of: (row: Row) => boolean) => this.rows.filter(of).length;
    const look = number(needsLook);
    const damaged = number((row) => row.state === "damaged");
    const failed = number(hasFailed) - damaged;
    const checked = number(SHOWN.checked);
    const said = [
      done.length === this.rows.length ? count(this.rows.length, "recording", "recordings") : `${done.length} of ${this.rows.length} done`,
      look ? `${look} ${look === 1 ? "needs" : "need"} a look` : "",
      checked ? `${checked} checked` : "",
      failed ? `${failed} not aligned` : "",
      damaged ? `${damaged} cannot be opened` : "",
      this.sorted.length < this.rows.length ? `${this.sorted.length} shown` : "",
      this.truncated ? "the folder has more, not listed" : "",
    ].filter(Boolean).join(" · ");
    if (element("count").textContent !== said) element("count").textContent = said;
    const bar = element<HTMLProgressElement>("total");
    bar.hidden = !this.rows.some(isOpen);
    bar.max = Math.max(1, this.rows.length);
    bar.value = done.length + failed + damaged;
    const leftOut = Object.entries(LEFT_OUT).map(([kind, [one, many]]) => count(this.leftOut[kind] ?? 0, one, many)).filter(Boolean);
    element("left-out").textContent = leftOut.length ? `Not listed: ${leftOut.join(", ")}.` : "";
    element("folder-fault").textContent = this.folderFault;
    this.atRisk.show([...this.jobs.values()], this.room, this.hasFolder && !this.folderFault);
    const toCheck = this.rows.reduce((sum, row) => sum + (row.figures && !row.figures.checked ? row.figures.to_check : 0), 0);
    const link = element("to-words");
    link.hidden = !toCheck;
    link.textContent = `Check ${count(toCheck, "word", "words")}`;
  }

  private line(row: Row): HTMLTableRowElement {
    const { waiting, ...shown } = row;
    const of = JSON.stringify([shown, waiting?.id, this.hasFolder]);
    const before = this.drawn.get(row.key);
    if (before?.of === of) return before.line;
    const line = before?.line ?? made("tr");
    line.dataset.testid = "row";
    line.dataset.id = row.folder ?? row.title;
    line.dataset.state = row.state;
    line.setAttribute("role", "row");
    const focused = document.activeElement instanceof HTMLElement && line.contains(document.activeElement) ? document.activeElement.dataset.testid : "";
    const figures = row.figures
      ? [cell("number", row.figures.to_check ? String(row.figures.to_check) : "", "to check"), cell("number", clock(row.duration), "long"), this.checkedCell(row)]
      : [];
    line.replaceChildren(this.titleCell(row), this.fitCell(row), ...figures, this.actions(row));
    if (focused) line.querySelector<HTMLElement>(`[data-testid="${focused}"]`)?.focus();
    this.drawn.set(row.key, { line, of });
    return line;
  }

  private titleCell(row: Row): HTMLTableCellElement {
    const one = cell("title");
    if (row.state === "done") {
      const link = made("a", row.title);
      link.href = addressesOf(row).key;
      link.dir = "auto";
      link.dataset.testid = "look";
      one.append(link);
    } else {
      const name = made("strong", row.title);
      name.dir = "auto";
      one.append(name);
    }
    const text = row.figures?.text || row.waiting?.text || (row.state === "done" ? "" : (row.waiting?.name ?? "").replace(/[^/]*$/, ""));
    if (text) {
      const small = made("small", text);
      small.dir = "auto";
      one.append(small);
    }
    return one;
  }

  private fitCell(row: Row): HTMLTableCellElement {
    const one = cell("fit");
    const of = row.figures;
    if (of) {
      one.append(made("span", fitName(of.fit), `fit-${of.fit}`));
      const more = [
        count(of.skipped, "word not in the recording", "words not in the recording"),
        of.unexplained_s >= 0.5 ? `${of.unexplained_s.toFixed(1)}\u00a0s of speech not in the text` : "",
        of.by_hand ? `${of.by_hand} by hand` : "",
      ].filter(Boolean).join(" · ");
      if (more) one.append(made("small", more));
      return one;
    }
    one.colSpan = 4;
    const said = made("span", row.said, hasFailed(row) ? "error" : "faint");
    one.append(said);
    if (isOpen(row)) {
      const bar = made("progress");
      bar.setAttribute("aria-label", row.title);
      if (row.state === "running" && row.progress) bar.value = row.progress;
      one.append(bar);
    }
    return one;
  }

  private checkedCell(row: Row): HTMLTableCellElement {
    const one = cell("checked");
    const label = made("label");
    const box = made("input");
    box.type = "checkbox";
    box.checked = row.figures?.checked === true;
    box.dataset.testid = "checked";
    box.addEventListener("change", () => attempt(async () => {
      try {
        await this.signOff(row, box.checked);
      } catch (error) {
        box.checked = !box.checked;
        throw error;
      }
    }));
    const what = made("span", "Checked", "what");
    what.append(made("span", ` ${isolated(row.title)}`, "hidden"));
    label.append(box, what);
    one.append(label);
    return one;
  }

  /** Sign a recording off as checked by a person, or take that back. */
  async signOff(of: { job?: string; folder?: string; tag?: string }, checked: boolean): Promise<string> {
    const figures = of.job !== undefined ? this.jobs.get(of.job) : this.folder.find((one) => one.id === of.folder);
    try {
      const tag = await changed(addressesOf(of).alignment, { checked }, of.tag ?? figures?.tag);
      if (figures) [figures.checked, figures.tag] = [checked, tag];
      if (of.job !== undefined) await this.loadJobs(); // whether it has work now
      this.arrange();
      return tag;
    } catch (error) {
      if (!(error instanceof Refused) || error.status !== 412) throw error;
      await this.loadJobs();
      await this.loadFolder();
      throw new Refused("it was changed elsewhere since it was listed here: look at it again before you sign it off", error.status);
    }
  }

  private actions(row: Row): HTMLTableCellElement {
    const one = cell("actions");
    if (row.state === "done") {
      const open = made("a", "Open", "button");
      open.href = addressesOf(row).key;
      one.append(open, this.downloads(row));
      if (row.job !== undefined && this.hasFolder) {
        const keep = button("Keep", "keep", () => attempt(async () => {
          keep.disabled = true;
          try {
            await asked(`/jobs/${row.job}/keep`, { method: "POST" });
          } finally {
            keep.disabled = false;
          }
          await this.forget(row);
          await this.loadFolder();
        }));
        keep.title = "Move it into the folder of this server";
        one.append(keep);
      }
    }
    const { waiting } = row;
    if (waiting && row.state === "alone" && waiting.audio) one.append(button("Type it", "type", () => this.adding().ask(waiting)));
    if (waiting && (row.state === "failed" || row.state === "cancelled")) {
      one.append(button("Retry", "retry", () => attempt(() => {
        if (row.job !== undefined) this.jobs.delete(row.job);
        return this.adding().retry(waiting);
      })));
    }
    if (row.folder === undefined) {
      const stop = button(isOpen(row) ? "Cancel" : "Remove", "remove", () => attempt(() => this.remove(row)));
      one.append(stop);
    }
    for (const of of one.querySelectorAll("button, summary, .button")) of.append(made("span", ` ${isolated(row.title)}`, "hidden"));
    return one;
  }

  private downloads(row: Row): HTMLElement {
    const menu = made("details", "", "menu");
    menu.append(made("summary", "Download"));
    menu.addEventListener("toggle", () => {
      if (!menu.open || menu.children.length > 1) return;
      const list = made("div");
      list.append(...linksOf(this.formats, addressesOf(row).alignment));
      menu.append(list);
    });
    menu.addEventListener("focusout", (event) => {
      if (event.relatedTarget instanceof Node && !menu.contains(event.relatedTarget)) menu.open = false;
    });
    menu.addEventListener("keydown", (event) => {
      if (event.key !== "Escape") return;
      menu.open = false;
      menu.querySelector("summary")?.focus();
    });
    return menu;
  }

  private async remove(row: Row): Promise<void> {
    const isNowhereElse = this.atRisk.isAtRisk(this.jobs.get(row.job ?? ""));
    if (isNowhereElse && !confirm(`${isolated(row.title)} has corrections, or is checked, and is nowhere else. Remove it?`)) return;
    await this.forget(row);
  }

  /** Have the server forget a recording, which is elsewhere now, or not wanted. */
  private async forget(row: Row): Promise<void> {
    if (row.waiting) await this.adding().drop(row.waiting);
    if (row.job !== undefined) {
      await asked(`/jobs/${row.job}`, { method: "DELETE" });
      this.jobs.delete(row.job);
      this.adding().madeRoom();
    }
    this.arrange();
  }

  /** Move recordings into the folder of the server, one after the other. */
  private async keepAll(jobs: readonly Job[]): Promise<void> {
    for (const { id } of jobs) {
      await asked(`/jobs/${id}/keep`, { method: "POST" });
      const row = this.rows.find((one) => one.job === id);
      if (row) await this.forget(row);
    }
    await this.loadFolder();
  }
}

export function linksOf(formats: readonly string[], alignment: string): HTMLAnchorElement[] {
  return formats.map((format) => {
    const link = made("a", format);
    link.href = `${alignment}?format=${format}`;
    link.setAttribute("download", "");
    return link;
  });
}

function cell(name: string, text = "", unit = ""): HTMLTableCellElement {
  const one = made("td", text, name);
  one.setAttribute("role", "cell");
  if (text && unit) one.append(made("span", ` ${unit}`, "unit"));
  return one;
}

function compared(a: number | string | null, b: number | string | null): number {
  if (a === null || b === null) return a === b ? 0 : a === null ? 1 : -1;
  if (typeof a === "string" || typeof b === "string") return String(a).localeCompare(String(b), undefined, { numeric: true });
  return a - b;
}
