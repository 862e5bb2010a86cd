// New recordings: files are dropped or chosen, paired by the server, kept in this browser until they are aligned, and sent one by one.

import { asked, element, isolated, Refused, say, sent } from "./dom";

/** Files of one recording that are not aligned yet; kept in the browser, so that a reload loses nothing. */
export interface Waiting {
  id: number;
  name: string;
  audio?: File;
  transcript?: File;
  text?: string;
  /** Of the server, once it has the files. */
  job?: string;
  /** Why they cannot be aligned as they are. */
  reason?: string;
  /** Why the server takes them only later. */
  later?: string;
  /** While they are sent: the jobs that the server had before. */
  sending?: string[];
}

const BUSY_MS = 2000;
const store = "waiting";
let isKept = true;

function opened(): Promise<IDBDatabase> {
  return new Promise((done, failed) => {
    const request = indexedDB.open("ctc-align", 1);
    request.onupgradeneeded = () => request.result.createObjectStore(store, { keyPath: "id" });
    request.onsuccess = () => done(request.result);
    request.onerror = () => failed(request.error);
  });
}

async function inStore<Of>(mode: IDBTransactionMode, use: (of: IDBObjectStore) => IDBRequest<Of>): Promise<Of | undefined> {
  try {
    const database = await opened();
    return await new Promise((done, failed) => {
      const transaction = database.transaction(store, mode);
      const request = use(transaction.objectStore(store));
      transaction.oncomplete = () => { done(request.result); database.close(); };
      transaction.onabort = () => failed(transaction.error);
    });
  } catch {
    isKept = false; // this browser keeps nothing: the files last as long as this page
    return undefined;
  }
}

/** The files that wait, and what sends them. */
export class Adding {
  readonly all = new Map<number, Waiting>();
  /** Ends the wait of what is sent next: the server may have room now. */
  madeRoom = (): void => undefined;
  private isSending = false;

  constructor(private readonly jobs: () => Iterable<string>, private readonly changed: (job?: any) => void) {}

  /** Take up what the last page left, or what another tab has. */
  async restore(): Promise<void> {
    for (const one of (await inStore<Waiting[]>("readonly", (of) => of.getAll())) ?? []) this.all.set(one.id, { ...one, sending: undefined });
    void this.send();
  }

  async keep(one: Waiting): Promise<void> {
    this.all.set(one.id, one);
    this.changed();
    await inStore("readwrite", (of) => of.put(one));
  }

  async drop(one: Waiting): Promise<void> {
    this.all.delete(one.id);
    await inStore("readwrite", (of) => of.delete(one.id));
    this.changed();
  }

  /** Take files, by their paths; those that waited for a partner take part. */
  async take(files: Map<string, File>): Promise<void> {
    if (!files.size) return;
    const given = new Set(files.keys());
    const lonely = [...this.all.values()].filter((one) => one.reason && !one.job && !(one.audio && (one.transcript || one.text)));
    for (const one of lonely) {
      const file = one.audio ?? one.transcript;
      const [base, stem] = [one.name.replace(/^.*\//, ""), stemOf(one.name)];
      // What is added without a folder is the partner of a file in any folder
      const isNear = !files.has(base) && [...given].some((name) => !name.includes("/") && stemOf(name) === stem);
      const name = isNear ? base : one.name;
      if (file && !files.has(name)) files.set(name, file);
    }
    const { pairs, alone } = await sent("/api/pairs", "POST", { names: [...files.keys()] });
    if (!pairs.length && !alone.length) {
      say(`None of ${files.size === 1 ? "this" : "these"} is a recording or a transcript: ${[...files.keys()].slice(0, 3).join(", ")}`);
      return;
    }
    const [sound, text] = ["audio", "transcript"].map((kind) => alone.find((one: any) => one.kind === kind && given.has(one.file)));
    // Two files that are given together belong together, whatever their names are
    if (given.size === 2 && sound && text) {
      pairs.push({ name: sound.file.replace(/\.[^.]*$/, ""), audio: sound.file, transcript: text.file });
      for (const one of [sound, text]) alone.splice(alone.indexOf(one), 1);
    }
    let id = Date.now();
    while (this.all.has(id)) id += 1;
    const names = pairs.map((one: any) => one.name);
    const nameOf = (one: any) => (names.indexOf(one.name) === names.lastIndexOf(one.name) ? one.name : one.audio.replace(/\.[^./]*$/, ""));
    const all: Waiting[] = [
      ...pairs.map((one: any) => ({ id: id++, name: nameOf(one), audio: files.get(one.audio), transcript: files.get(one.transcript) })),
      ...alone.map((one: any) => ({ id: id++, name: one.file, [one.kind]: files.get(one.file), reason: one.reason })),
    ];
    // All at once: what is shown is kept
    await inStore("readwrite", (of) => all.map((one) => of.put(one)).pop() as IDBRequest);
    for (const one of all) this.all.set(one.id, one);
    for (const one of lonely) await this.drop(one);
    this.changed();
    void this.send();
    const single = all.find((one) => one.reason && one.audio && one.name === sound?.file);
    if (given.size === 1 && single) this.ask(single);
  }

  /** Have the transcript of a recording typed. */
  ask(one: Waiting): void {
    const dialog = element<HTMLDialogElement>("typed");
    element("typed-title").textContent = `Transcript of ${isolated(one.name)}`;
    const text = element<HTMLTextAreaElement>("text");
    text.value = "";
    dialog.onclose = () => {
      if (dialog.returnValue !== "align" || !text.value.trim()) return;
      void this.keep({ ...one, name: stemOf(one.name), text: text.value, reason: undefined }).then(() => this.send());
    };
    dialog.returnValue = "";
    dialog.showModal();
  }

  async retry(one: Waiting): Promise<void> {
    if (one.job) await asked(`/jobs/${one.job}`, { method: "DELETE" }).catch(() => undefined);
    await this.keep({ ...one, job: undefined, reason: undefined });
    void this.send();
  }

  private async send(): Promise<void> {
    if (this.isSending) return;
    this.isSending = true;
    for (let one = this.next(); one; one = this.next()) {
      const next = one;
      const waitMs = await (navigator.locks?.request("ctc-align", () => this.sendOne(next)) ?? this.sendOne(next));
      if (waitMs) await this.waitForRoom(waitMs);
    }
    this.isSending = false;
  }

  /** Whether it is already sent, or no longer wanted: another tab sends the same files, and a page may end while it sends. */
  private async isSent(one: Waiting): Promise<boolean> {
    const kept = await inStore<Waiting>("readonly", (of) => of.get(one.id));
    if (!isKept) return false;
    if (!kept) this.all.delete(one.id);
    else if (kept.job || kept.reason) this.all.set(one.id, kept);
    else {
      const before = new Set([...(kept.sending ?? []), ...[...this.all.values()].map((other) => other.job)]);
      const { jobs } = kept.sending ? await asked("/jobs") : { jobs: [] };
      const job = jobs.find((of: any) => of.audio === one.audio?.name && !before.has(of.id));
      if (!job) return false;
      await this.keep({ ...one, job: job.id });
    }
    this.changed();
    return true;
  }

  private waitForRoom(waitMs: number): Promise<void> {
    return new Promise((done) => {
      const timer = setTimeout(done, waitMs);
      this.madeRoom = () => { clearTimeout(timer); done(); };
    });
  }

  /** Send the files of one recording; return how long to wait if the server can take them only later, else 0. */
  private async sendOne(one: Waiting): Promise<number> {
    try {
      if (await this.isSent(one)) return 0;
      const body = new FormData();
      body.set("audio", one.audio as File);
      if (one.transcript) body.set("transcript", one.transcript);
      else body.set("text", one.text ?? "");
      body.set("utterance", one.name);
      for (const name of ["language", "match"]) {
        const value = element<HTMLInputElement>(name).value.trim();
        if (value) body.set(name, value);
      }
      await this.keep({ ...one, sending: [...this.jobs()], later: undefined });
      const job = await asked("/jobs", { method: "POST", body });
      if (!this.all.has(one.id)) await asked(`/jobs/${job.id}`, { method: "DELETE" });
      else {
        await this.keep({ ...one, job: job.id, later: undefined });
        this.changed(job);
      }
      return 0;
    } catch (error) {
      const isThere = error instanceof Refused || await asked("/health").then(() => true, () => false);
      const isLater = error instanceof Refused ? error.status === 503 : !isThere;
      const reason = error instanceof Refused ? error.message : "it could not be sent: try again, or drop the files again if they have changed since";
      if (!this.all.has(one.id)) return 0;
      if (isThere) await this.keep(isLater ? { ...one, later: reason } : { ...one, reason });
      else this.all.set(one.id, one); // it may have them: that is asked once it answers
      return isLater ? Math.max(BUSY_MS, error instanceof Refused ? 1000 * error.retrySeconds : 0) : 0;
    }
  }

  private next(): Waiting | undefined {
    return [...this.all.values()].find((one) => one.audio && (one.transcript || one.text) && !one.job && !one.reason);
  }

  wire(): void {
    for (const id of ["files", "folder-files"]) {
      const input = element<HTMLInputElement>(id);
      input.addEventListener("change", () => {
        const files = new Map([...(input.files ?? [])].map((file) => [file.webkitRelativePath || file.name, file]));
        input.value = "";
        void this.take(files).catch((error: Error) => say(error.message));
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
      const entries = [...(event.dataTransfer?.items ?? [])].map((item) => item.webkitGetAsEntry()).filter((entry) => entry !== null);
      const given = [...(event.dataTransfer?.files ?? [])];
      const files = new Map<string, File>();
      const all = entries.length ? Promise.all(entries.map((entry) => below(entry, files))) : Promise.resolve();
      void all
        .then(() => {
          if (!entries.length) for (const file of given) files.set(file.name, file);
          return this.take(files);
        })
        .catch((error: Error) => say(error.message));
    });
    window.addEventListener("beforeunload", (event) => {
      if (!isKept && this.next()) event.preventDefault();
    });
  }
}

function stemOf(path: string): string {
  return path.replace(/^.*\/|\.[^.]*$/g, "");
}

/** Put the files of a dropped file or folder into `files`, by their paths. */
async function below(entry: FileSystemEntry, files: Map<string, File>): Promise<void> {
  if (entry.name.startsWith(".")) return;
  if (entry.isFile) {
    const file = await new Promise<File>((done, failed) => (entry as FileSystemFileEntry).file(done, failed));
    files.set(entry.fullPath.replace(/^\//, ""), file);
    return;
  }
  const reader = (entry as FileSystemDirectoryEntry).createReader();
  for (;;) {
    const some = await new Promise<FileSystemEntry[]>((done, failed) => reader.readEntries(done, failed));
    if (!some.length) return;
    for (const inner of some) await below(inner, files);
  }
}
