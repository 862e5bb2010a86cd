// What would be lost with the server: work that is nowhere else, and room for new recordings; with a way to save it.

import { count } from "../fit";
import { addressesOf, attempt, button, element, made } from "./dom";
import type { Job, Room } from "./table";

const NEARLY_FULL = 0.9;
const PAUSE_MS = 300; // between downloads, of which browsers drop those that come too fast

export class AtRisk {
  /** Tags of the versions that were downloaded, by their jobs. */
  private readonly saved = new Map<string, string>();
  private shown = "";
  private jobs: Job[] = [];
  private room: Room | null = null;
  private canKeep = false;

  constructor(private readonly keep: (jobs: readonly Job[]) => Promise<void>) {}

  /** Count the JSON of a job as saved once it is downloaded. */
  wire(): void {
    document.addEventListener("click", (event) => {
      const link = event.target instanceof Element ? event.target.closest<HTMLAnchorElement>("a[download]") : null;
      const job = link && this.jobs.find((one) => link.pathname === addressesOf({ job: one.id }).alignment);
      if (job && link.search === "?format=json") this.markSaved(job);
    });
  }

  /** Return whether a recording has work of a person that is nowhere else than in the memory of the server. */
  isAtRisk(job: Job | undefined): boolean {
    return job !== undefined && job.has_work && this.saved.get(job.id) !== job.tag;
  }

  show(jobs: Job[], room: Room | null, canKeep: boolean): void {
    [this.jobs, this.room, this.canKeep] = [jobs, room, canKeep];
    const atRisk = jobs.filter((job) => this.isAtRisk(job));
    const full = room === null ? 0 : Math.max(room.jobs / room.most_jobs, room.bytes / room.most_bytes);
    const shown = JSON.stringify([atRisk.map((job) => job.id), full >= NEARLY_FULL && room, canKeep]);
    if (shown === this.shown) return;
    this.shown = shown;
    const place = element("at-risk");
    place.replaceChildren();
    if (atRisk.length) place.append(this.riskOf(atRisk, canKeep));
    if (room !== null && full >= NEARLY_FULL) place.append(made("p", fullnessOf(room, full >= 1)));
    place.hidden = !place.childElementCount;
  }

  private riskOf(atRisk: readonly Job[], canKeep: boolean): HTMLElement {
    const [are, they] = atRisk.length === 1 ? ["is", "it is"] : ["are", "they are"];
    const what = count(atRisk.length, "recording that you corrected or checked", "recordings that you corrected or checked");
    const line = made("p", `${what} ${are} only in the memory of this server: ${they} lost when it stops. `);
    const run = () => attempt(() => (canKeep ? this.keep(atRisk) : this.download(atRisk)));
    line.append(button(canKeep ? "Keep in the folder" : "Download as JSON", "save-risk", run));
    return line;
  }

  private async download(jobs: readonly Job[]): Promise<void> {
    for (const job of jobs) {
      const link = made("a");
      link.href = `${addressesOf({ job: job.id }).alignment}?format=json`;
      link.download = "";
      document.body.append(link);
      link.click();
      link.remove();
      await new Promise((done) => setTimeout(done, PAUSE_MS));
    }
  }

  private markSaved(job: Job): void {
    this.saved.set(job.id, job.tag ?? "");
    this.show(this.jobs, this.room, this.canKeep);
  }
}

function fullnessOf(room: Room, isFull: boolean): string {
  const gigabytes = (bytes: number) => (bytes / 1e9).toFixed(1);
  const now = `${room.jobs} of ${room.most_jobs} recordings, ${gigabytes(room.bytes)} of ${gigabytes(room.most_bytes)} GB`;
  const [is, then] = isFull ? ["full", "It"] : ["nearly full", "Then it"];
  return `The server is ${is}: ${now}. ${then} takes no new ones: keep or download what you need, and remove it here.`;
}
