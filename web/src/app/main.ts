// The app of `ctc-align serve`: a form, the jobs of this session with their places in the queue, and a folder's list.
// What comes from files is only ever put into text nodes.

import { type Fit, fitInWords } from "../fit";
import { themeOf } from "../theme";

type Job = {
  id: string; name: string; audio: string; duration_s: number; state: string; step: string; progress: number;
  place: number | null; error?: string; fit?: Fit; to_check?: number;
};
type Row = {
  id: string; duration_s: number | null; loss_per_token: number | null; confidence: number | null; least: number | null;
  words: number; skipped: number; unexplained_s: number; fit: string | null; by_hand: number; text: string;
};
type Column = { title: string; value: (row: Row) => number | string | null; shown: (row: Row) => string; worst: 1 | -1 };
type Item = { key: string; title: string; page: string; alignment: string };

const PAGE_ROWS = 300;
const FITS = ["none", "poor", "doubtful", "good"];
const POLL_MS = 700;
const MOST_FAILURES = 30; // one after the other: 20 s without an answer

function element<E extends HTMLElement>(id: string): E {
  return document.getElementById(id) as E;
}

function made<K extends keyof HTMLElementTagNameMap>(tag: K, text = "", name = ""): HTMLElementTagNameMap[K] {
  const one = document.createElement(tag);
  one.textContent = text;
  if (name) one.className = name;
  return one;
}

class Refused extends Error {
  constructor(message: string, readonly status: number) {
    super(message);
  }
}

async function asked(address: string, options: RequestInit = {}): Promise<any> {
  let answer: Response;
  try {
    answer = await fetch(address, options);
  } catch {
    throw new Error("the server does not answer; is it still running?");
  }
  const data = await answer.json().catch(() => ({}));
  if (!answer.ok) throw new Refused(data.error ?? `the server answered ${answer.status}`, answer.status);
  return data;
}

function addressOf(id: string): string {
  return id.split("/").map(encodeURIComponent).join("/");
}

function clock(seconds: number | null): string {
  if (seconds === null) return "";
  const whole = Math.floor(seconds);
  const parts = [Math.floor(whole / 3600), Math.floor(whole / 60) % 60, whole % 60];
  const shown = parts[0] ? parts : parts.slice(1);
  return shown.map((part, i) => (i ? String(part).padStart(2, "0") : String(part))).join(":");
}

function fixed(value: number | null, digits: number): string {
  return value === null ? "" : value.toFixed(digits);
}

// ---- a new recording

const chosen: { audio: File | null; transcript: File | null } = { audio: null, transcript: null };
let formats: string[] = ["json"];

function isRecording(file: File): boolean {
  return /^(audio|video)\//.test(file.type) || /\.(wav|flac|mp3|m4a|mp4|ogg|oga|opus|webm|mkv|aiff?|wma|aac|amr)$/i.test(file.name);
}

function choose(file: File, kind: "audio" | "transcript"): void {
  chosen[kind] = file;
  element(`${kind}-name`).textContent = file.name;
  if (kind === "transcript") element<HTMLTextAreaElement>("text").disabled = true;
}

function clearForm(): void {
  chosen.audio = chosen.transcript = null;
  element<HTMLFormElement>("form").reset();
  element<HTMLTextAreaElement>("text").disabled = false;
  element("audio-name").textContent = "none yet";
  element("transcript-name").textContent = "or write it below";
}

function wireForm(): void {
  for (const kind of ["audio", "transcript"] as const) {
    element<HTMLInputElement>(kind).addEventListener("change", (event) => {
      const file = (event.target as HTMLInputElement).files?.[0];
      if (file) choose(file, kind);
    });
  }
  const drop = element("drop");
  document.addEventListener("dragover", (event) => {
    event.preventDefault();
    drop.classList.add("over");
  });
  document.addEventListener("dragleave", (event) => {
    if (!event.relatedTarget) drop.classList.remove("over");
  });
  document.addEventListener("drop", (event) => {
    event.preventDefault();
    drop.classList.remove("over");
    for (const file of event.dataTransfer?.files ?? []) choose(file, isRecording(file) ? "audio" : "transcript");
  });
  element("form").addEventListener("submit", (event) => {
    event.preventDefault();
    void submit();
  });
}

async function submit(): Promise<void> {
  const said = element("form-error");
  said.textContent = "";
  const text = element<HTMLTextAreaElement>("text").value;
  if (!chosen.audio) {
    said.textContent = "Choose a recording first.";
    return;
  }
  if (!chosen.transcript && !text.trim()) {
    said.textContent = "Choose a transcript, or type it.";
    return;
  }
  const body = new FormData();
  body.set("audio", chosen.audio);
  if (chosen.transcript) body.set("transcript", chosen.transcript);
  else body.set("text", text);
  for (const name of ["language", "match"]) {
    const value = element<HTMLInputElement>(name).value.trim();
    if (value) body.set(name, value);
  }
  const button = document.querySelector<HTMLButtonElement>("#form button")!;
  button.disabled = true;
  try {
    const job = await asked("/jobs", { method: "POST", body });
    clearForm();
    showJob(job);
    void follow(job.id);
  } catch (error) {
    said.textContent = (error as Error).message;
  } finally {
    button.disabled = false;
  }
}

// ---- jobs

const lines = new Map<string, HTMLLIElement>();
const jobs = new Map<string, Job>();

function saidOf(job: Job): string {
  if (job.state === "queued") return `waiting: position ${job.place ?? "…"} in the queue`;
  if (job.state === "running") return `${job.step}… ${job.progress ? Math.round(100 * job.progress) + " %" : ""}`;
  if (job.state !== "done") return job.error ?? job.state;
  return [clock(job.duration_s), job.to_check === undefined ? "" : fitInWords(job.fit ?? null, job.to_check)].filter(Boolean).join(" · ");
}

function showJob(job: Job): void {
  jobs.set(job.id, job);
  let line = lines.get(job.id);
  if (!line) {
    line = made("li");
    line.dataset.testid = "job";
    lines.set(job.id, line);
    element("jobs").prepend(line);
  }
  line.dataset.state = job.state;
  line.replaceChildren();
  const title = made("span", job.name);
  title.dir = "auto";
  const actions = made("span");
  if (job.state === "done") {
    const look = made("button", "View and correct", "main");
    look.dataset.testid = "look";
    look.addEventListener("click", () => openItem(itemOfJob(job)));
    actions.append(look, " ");
    if (!element("folder").hidden) {
      const keep = made("button", "Keep in the folder");
      keep.dataset.testid = "keep";
      keep.addEventListener("click", () => void keepJob(job.id, keep));
      actions.append(keep, " ");
    }
  }
  const ends = job.state === "queued" || job.state === "running";
  const remove = made("button", ends ? "Cancel" : "Remove");
  remove.dataset.testid = "remove";
  remove.addEventListener("click", () => void removeJob(job.id));
  actions.append(remove);
  const said = made("span", saidOf(job), job.error ? "error" : "said");
  said.setAttribute("role", "status");
  if (job.fit) said.classList.add(`fit-${job.fit}`);
  line.append(title, actions, said);
  if (ends) {
    const bar = made("progress");
    bar.setAttribute("aria-label", job.name);
    if (job.state === "running" && job.progress) bar.value = job.progress;
    line.append(bar);
  }
}

function dropJob(id: string): void {
  lines.get(id)?.remove();
  lines.delete(id);
  jobs.delete(id);
}

async function removeJob(id: string): Promise<void> {
  dropJob(id);
  try {
    await asked(`/jobs/${id}`, { method: "DELETE" });
  } catch (error) {
    element("form-error").textContent = (error as Error).message;
  }
}

async function keepJob(id: string, button: HTMLButtonElement): Promise<void> {
  button.disabled = true;
  try {
    await asked(`/jobs/${id}/keep`, { method: "POST" });
    await loadFolder();
    await removeJob(id);
  } catch (error) {
    element("form-error").textContent = (error as Error).message;
    button.disabled = false;
  }
}

async function follow(id: string): Promise<void> {
  let failures = 0;
  while (lines.has(id)) {
    await new Promise((done) => setTimeout(done, POLL_MS));
    if (!lines.has(id)) return;
    try {
      const job: Job = await asked(`/jobs/${id}`);
      failures = 0;
      if (lines.has(id)) showJob(job);
      if (job.state !== "queued" && job.state !== "running") return;
    } catch (error) {
      failures += 1;
      if (failures < MOST_FAILURES && !(error instanceof Refused && error.status === 404)) continue;
      const job = jobs.get(id);
      if (job) showJob({ ...job, state: "failed", error: (error as Error).message });
      return;
    }
  }
}

// ---- the folder

let rows: Row[] = [];
let truncated = false;
let sorted: Row[] = [];
let limit = PAGE_ROWS;
let order: { column: number; down: boolean } | null = null;
const seen = new Set<string>();

const columns: Column[] = [
  { title: "alignment", value: (row) => row.id, shown: (row) => row.id, worst: 1 },
  { title: "loss per token", value: (row) => row.loss_per_token, shown: (row) => fixed(row.loss_per_token, 3), worst: -1 },
  { title: "confidence", value: (row) => row.confidence, shown: (row) => fixed(row.confidence, 3), worst: 1 },
  { title: "lowest", value: (row) => row.least, shown: (row) => fixed(row.least, 2), worst: 1 },
  { title: "skipped", value: (row) => row.skipped, shown: (row) => String(row.skipped), worst: -1 },
  { title: "unexplained", value: (row) => row.unexplained_s, shown: (row) => `${fixed(row.unexplained_s, 1)} s`, worst: -1 },
  { title: "fit", value: (row) => (row.fit ? FITS.indexOf(row.fit) : null), shown: (row) => row.fit ?? "", worst: 1 },
  { title: "words", value: (row) => row.words, shown: (row) => String(row.words), worst: -1 },
  { title: "by hand", value: (row) => row.by_hand, shown: (row) => (row.by_hand ? String(row.by_hand) : ""), worst: -1 },
  { title: "length", value: (row) => row.duration_s, shown: (row) => clock(row.duration_s), worst: -1 },
];

function compared(a: number | string | null, b: number | string | null): number {
  if (a === null || b === null) return a === b ? 0 : a === null ? 1 : -1;
  if (typeof a === "string" || typeof b === "string") return String(a).localeCompare(String(b), undefined, { numeric: true });
  return a - b;
}

function arrange(): void {
  const words = element<HTMLInputElement>("filter").value.toLowerCase().split(/\s+/).filter(Boolean);
  const fit = element<HTMLSelectElement>("fit").value;
  const unmended = element<HTMLInputElement>("unmended").checked;
  sorted = rows.filter((row) => {
    const text = `${row.id} ${row.text}`.toLowerCase();
    return words.every((word) => text.includes(word)) && (!fit || row.fit === fit) && !(unmended && row.by_hand);
  });
  if (order) {
    const { value, worst } = columns[order.column];
    const sign = order.down ? worst : -worst;
    sorted.sort((a, b) => {
      const [x, y] = [value(a), value(b)];
      return x === null || y === null ? compared(x, y) : sign * compared(x, y);
    });
  }
  draw();
}

function draw(): void {
  const head = element("columns");
  head.replaceChildren(...columns.map((column, i) => {
    const cell = made("th");
    cell.scope = "col";
    const button = made("button", column.title + (order?.column === i ? (order.down ? " ▾" : " ▴") : ""));
    button.type = "button";
    button.title = "Sort, worst first";
    button.addEventListener("click", () => {
      order = { column: i, down: order?.column === i ? !order.down : true };
      arrange();
    });
    cell.setAttribute("aria-sort", order?.column === i ? (order.down ? "descending" : "ascending") : "none");
    cell.append(button);
    return cell;
  }));
  element("rows").replaceChildren(...sorted.slice(0, limit).map(drawn));
  element("more").hidden = sorted.length <= limit;
  element("count").textContent = `${sorted.length} of ${rows.length}${truncated ? " (the folder has more, not listed)" : ""}`;
  element<HTMLButtonElement>("worst").disabled = !sorted.length;
}

function drawn(row: Row): HTMLTableRowElement {
  const line = made("tr", "", seen.has(row.id) ? "seen" : "");
  line.dataset.id = row.id;
  columns.forEach((column, i) => {
    const cell = made("td");
    if (i === 0) {
      const link = made("a", row.id);
      link.href = `#/${addressOf(row.id)}`;
      link.dir = "auto";
      const text = made("small", row.text);
      text.dir = "auto";
      cell.append(link, text);
    } else {
      cell.textContent = column.shown(row);
      if (column.title === "fit" && row.fit) cell.className = `fit-${row.fit}`;
    }
    line.append(cell);
  });
  return line;
}

async function loadFolder(): Promise<void> {
  const answer = await asked("/api/alignments");
  element("folder").hidden = !answer.folder;
  rows = answer.alignments;
  truncated = answer.truncated;
  arrange();
}

// ---- looking at one

function itemOfRow(row: Row): Item {
  const there = addressOf(row.id);
  return { key: `#/${there}`, title: row.id, page: `/view/${there}`, alignment: `/api/alignments/${there}` };
}

function itemOfJob(job: Job): Item {
  const there = `/jobs/${job.id}`;
  return { key: `#job/${job.id}`, title: job.name, page: `${there}/page`, alignment: `${there}/alignment` };
}

function openItem(item: Item): void {
  if (location.hash === item.key) show();
  else location.hash = item.key;
}

function current(): Item | null {
  const hash = location.hash;
  if (hash.startsWith("#job/")) {
    const job = jobs.get(hash.slice(5));
    return job ? itemOfJob(job) : null;
  }
  const row = rows.find((one) => `#/${addressOf(one.id)}` === hash);
  return row ? itemOfRow(row) : null;
}

function show(): void {
  const item = current();
  const viewer = element("viewer");
  const page = element<HTMLIFrameElement>("page");
  const was = !viewer.hidden;
  viewer.hidden = !item;
  if (!item) {
    page.src = "about:blank";
    if (was && !element("folder").hidden) void loadFolder();
    return;
  }
  const place = sorted.findIndex((row) => itemOfRow(row).key === item.key);
  if (place >= 0) seen.add(sorted[place].id);
  element("viewing").textContent = item.title;
  element<HTMLButtonElement>("previous").disabled = place <= 0;
  element<HTMLButtonElement>("next").disabled = place < 0 || place + 1 >= sorted.length;
  const links = formats.map((format) => {
    const link = made("a", format);
    link.href = `${item.alignment}?format=${format}`;
    link.setAttribute("download", "");
    return link;
  });
  element("downloads").replaceChildren("Download ", ...links);
  if (page.getAttribute("src") !== item.page) page.src = item.page;
}

function step(by: number): void {
  const place = sorted.findIndex((row) => itemOfRow(row).key === location.hash);
  const row = sorted[place + by];
  if (place >= 0 && row) openItem(itemOfRow(row));
}

function wireList(): void {
  for (const id of ["filter", "fit", "unmended"]) element(id).addEventListener("input", () => { limit = PAGE_ROWS; arrange(); });
  element("more").addEventListener("click", () => { limit += PAGE_ROWS; draw(); });
  element("worst").addEventListener("click", () => openItem(itemOfRow(sorted.find((row) => !seen.has(row.id)) ?? sorted[0])));
  element("back").addEventListener("click", () => { location.hash = ""; });
  element("previous").addEventListener("click", () => step(-1));
  element("next").addEventListener("click", () => step(1));
  window.addEventListener("hashchange", show);
  // the page inside has a link home: "/" in the frame is this app once more
  element<HTMLIFrameElement>("page").addEventListener("load", () => {
    const inside = element<HTMLIFrameElement>("page").contentWindow;
    if (inside && inside.location.pathname === "/") location.hash = "";
  });
}

async function begin(): Promise<void> {
  themeOf("auto");
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => themeOf("auto"));
  wireForm();
  wireList();
  try {
    const server = await asked("/models");
    formats = server.formats;
    element("health").textContent = `model ${server.models[0].name}, up to ${Math.round(server.limits.audio_s / 60)} min and ${Math.round(server.limits.upload_bytes / 1e6)} MB`;
    element<HTMLInputElement>("language").placeholder = server.models[0].language;
    await loadFolder();
    for (const job of (await asked("/jobs")).jobs as Job[]) {
      showJob(job);
      if (job.state === "queued" || job.state === "running") void follow(job.id);
    }
    show();
  } catch (error) {
    element("form-error").textContent = (error as Error).message;
  }
}

void begin();
