// The app of `ctc-align serve`: recordings are added and followed in one table, their words checked in one list, and pages opened.

import { themeOf } from "../theme";
import { Adding } from "./adding";
import { addressesOf, asked, attempt, element, say } from "./dom";
import { linksOf, type Row, RowTable } from "./table";
import { WordList } from "./words";

const POLL_MS = 1000;
const IDLE_MS = 240_000; // what a page shows is kept by the server
const MOST_FAILURES = 20;

const table: RowTable = new RowTable(() => adding, showItem);
const adding: Adding = new Adding(() => table.jobs.keys(), (job) => {
  if (job) table.jobs.set(job.id, job);
  table.arrange();
  if (job) follow(0);
});
const words = new WordList((of, checked) => table.signOff(of, checked));
let timer = 0;

function follow(failures: number): void {
  clearTimeout(timer);
  timer = window.setTimeout(() => {
    table.loadJobs().then(() => follow(0), (error: Error) => {
      if (failures + 1 >= MOST_FAILURES) say(error.message);
      follow(failures + 1);
    });
  }, table.isBusy || failures ? POLL_MS : IDLE_MS);
}

function current(): Row | undefined {
  const hash = location.hash;
  return table.rows.find((row) => row.state === "done" && addressesOf(row).key === hash);
}

function neighbours(): { before?: Row; after?: Row; place: string } {
  const open = table.sorted.filter((row) => row.state === "done");
  const at = open.findIndex((row) => addressesOf(row).key === location.hash);
  return at < 0 ? { place: "" } : { before: open[at - 1], after: open[at + 1], place: `${at + 1} of ${open.length}` };
}

/** Show what the address names: a recording's page, the words, or the table. */
function showItem(): void {
  const item = current();
  const page = element<HTMLIFrameElement>("page");
  element("viewer").hidden = !item;
  if (!item) {
    if (page.getAttribute("src") !== "about:blank") page.src = "about:blank";
    return;
  }
  const there = addressesOf(item);
  const { before, after, place } = neighbours();
  element("viewing").textContent = place;
  element<HTMLButtonElement>("previous").disabled = !before;
  element<HTMLButtonElement>("next").disabled = !after;
  if (page.getAttribute("src") === there.page) return;
  element("download-links").replaceChildren(...linksOf(table.formats, there.alignment));
  page.src = there.page;
}

function route(): void {
  const wasWords = words.isShown;
  const isWords = location.hash === "#words";
  element("words").hidden = !isWords;
  element("start").hidden = isWords;
  if (wasWords && !isWords) words.leave();
  say("");
  showItem();
  if (isWords) attempt(() => words.load());
  else if (!current()) attempt(async () => {
    await table.loadJobs();
    if (table.hasFolder) await table.loadFolder();
  });
}

function wire(): void {
  adding.wire();
  table.wire();
  words.wire();
  element("back").addEventListener("click", () => { location.hash = cameFromWords ? "#words" : ""; });
  for (const [id, side] of [["previous", "before"], ["next", "after"]] as const) {
    element(id).addEventListener("click", () => {
      const row = neighbours()[side];
      if (row) location.hash = addressesOf(row).key;
    });
  }
  window.addEventListener("hashchange", (event) => {
    cameFromWords = new URL(event.oldURL).hash === "#words";
    route();
  });
  const page = element<HTMLIFrameElement>("page");
  page.addEventListener("load", () => {
    const inside = page.contentWindow;
    // the page inside has a link home: "/" in the frame is this app once more
    if (inside && inside.location.pathname === "/") location.hash = "";
    const word = sessionStorage.getItem("ctc-align word");
    if (!word || page.getAttribute("src") === "about:blank") return;
    sessionStorage.removeItem("ctc-align word");
    inside?.document.querySelector<HTMLElement>(`[data-testid=transcript] [data-place="${Number(word)}"]`)?.click();
  });
}
let cameFromWords = false;

async function begin(): Promise<void> {
  themeOf("auto");
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => themeOf("auto"));
  wire();
  const server = await asked("/models");
  table.formats = server.formats;
  const { limits, models } = server;
  element("health").textContent = `model ${models[0].name} · up to ${Math.round(limits.audio_s / 60)} min, ${Math.round(limits.upload_bytes / 1e6)} MB`;
  element<HTMLInputElement>("language").placeholder = models[0].language;
  await table.loadFolder();
  await table.loadJobs();
  await adding.restore();
  await table.loadJobs();
  follow(0);
  route();
  document.body.dataset.ready = "true";
}

attempt(begin);
