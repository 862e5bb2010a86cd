// What all parts of the app need: elements, requests to the server, and how figures are written.
// What comes from files is only ever put into text nodes.

export function element<E extends HTMLElement>(id: string): E {
  return document.getElementById(id) as E;
}

export function made<K extends keyof HTMLElementTagNameMap>(tag: K, text = "", name = ""): HTMLElementTagNameMap[K] {
  const one = document.createElement(tag);
  one.textContent = text;
  if (name) one.className = name;
  return one;
}

export function button(text: string, name: string, run: () => void): HTMLButtonElement {
  const one = made("button", text);
  one.type = "button";
  one.dataset.testid = name;
  one.addEventListener("click", run);
  return one;
}

export class Refused extends Error {
  /** `retrySeconds`: after which the server asks to try again, 0 where it does not. */
  constructor(message: string, readonly status: number, readonly retrySeconds = 0) {
    super(message);
  }
}

async function answered(address: string, options: RequestInit): Promise<[any, Response]> {
  let answer: Response;
  try {
    answer = await fetch(address, options);
  } catch {
    throw new Error("the server does not answer; is it still running?");
  }
  const data = await answer.json().catch(() => ({}));
  const retrySeconds = Number(answer.headers.get("Retry-After") ?? 0);
  if (!answer.ok) throw new Refused(data.error ?? `the server answered ${answer.status}`, answer.status, retrySeconds);
  return [data, answer];
}

export async function asked(address: string, options: RequestInit = {}): Promise<any> {
  const [data] = await answered(address, options);
  return data;
}

export function sent(address: string, method: string, data: unknown): Promise<any> {
  return asked(address, { method, headers: { "Content-Type": "application/json" }, body: JSON.stringify(data) });
}

/** Change words or the sign-off of an alignment, of the version with this tag or, without one, of any; return the new tag. */
export async function changed(address: string, changes: unknown, tag?: string): Promise<string> {
  const headers = { "Content-Type": "application/json", ...(tag ? { "If-Match": tag } : {}) };
  const [, answer] = await answered(address, { method: "PATCH", headers, body: JSON.stringify(changes) });
  return answer.headers.get("ETag") ?? "";
}

/** Return a name for the middle of a sentence: letters of other directions do not reorder what is around it. */
export function isolated(name: string): string {
  return `\u2068${name}\u2069`;
}

/** Say what went wrong, or was done, where everybody sees and hears it; with a way back where there is one. */
export function say(text: string, undo: (() => void) | null = null): void {
  const said = element("said");
  said.replaceChildren(made("span", text));
  said.hidden = !text;
  if (undo) said.append(button("Undo", "undo", () => { say(""); undo(); }));
  if (text) said.append(button("Close", "said-close", () => say("")));
}

export function attempt(work: () => Promise<void>): void {
  void work().catch((error: Error) => say(`${error.message[0].toUpperCase()}${error.message.slice(1)}`));
}

/** Where the parts of a recording's alignment are: of a job, or of the folder. */
export function addressesOf(of: { job?: string; folder?: string }): { key: string; page: string; alignment: string; audio: string } {
  if (of.job !== undefined) {
    const there = `/jobs/${of.job}`;
    return { key: `#job/${of.job}`, page: `${there}/page`, alignment: `${there}/alignment`, audio: `${there}/audio` };
  }
  const there = (of.folder ?? "").split("/").map(encodeURIComponent).join("/");
  return { key: `#/${there}`, page: `/view/${there}`, alignment: `/api/alignments/${there}`, audio: `/api/audio/${there}` };
}

export function clock(seconds: number | null): string {
  if (seconds === null) return "";
  const whole = Math.floor(seconds);
  const parts = [Math.floor(whole / 3600), Math.floor(whole / 60) % 60, whole % 60];
  const shown = parts[0] ? parts : parts.slice(1);
  return shown.map((part, i) => (i ? String(part).padStart(2, "0") : String(part))).join(":");
}
