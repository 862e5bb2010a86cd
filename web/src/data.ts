// What the page is given: the objects of "ctc-align/1" and of its own data element.

export type Status = "aligned" | "skipped" | "unspoken" | "unknown";

export interface TokenJson {
  token: string;
  start_s: number;
  end_s: number;
  confidence: number;
  start_sd_ms?: number;
  end_sd_ms?: number;
  by?: "hand";
  gop?: number | null;
  gop_percentile?: number;
  heard?: string;
}

export interface WordJson {
  text: string;
  spoken: string;
  start_s: number | null;
  end_s: number | null;
  confidence: number | null;
  start_sd_ms?: number;
  end_sd_ms?: number;
  doubtful?: true;
  char_start: number;
  char_end: number;
  status: Status;
  kind?: string;
  speaker?: string;
  by?: "hand";
  tokens: TokenJson[];
}

export interface StretchJson {
  start_s: number;
  end_s: number;
}

export interface RegionJson {
  kind: "unexplained" | "not_spoken" | "misfit";
  start_s: number | null;
  end_s: number | null;
  char_start: number | null;
  char_end: number | null;
  reason: string;
}

interface Spanned {
  char_start: number;
  char_end: number;
}

export interface AlignmentJson {
  format: "ctc-align/1";
  utterance: string;
  audio: string;
  offset_s: number;
  duration_s: number;
  model: string;
  loss: number | null;
  loss_per_token: number | null;
  score: number | null;
  fit: "good" | "doubtful" | "poor" | "none" | null;
  skipped: number;
  unknown: number;
  /** Whether a person has signed it off. */
  checked?: true;
  token_kind: string;
  text: string;
  words: WordJson[];
  unexplained: StretchJson[];
  regions: RegionJson[];
  subtitles?: { cues: Spanned[]; [name: string]: unknown };
  places?: Spanned[];
  config: Record<string, unknown>;
}

export interface PageData {
  name: string;
  alignment: AlignmentJson;
  audio: { href: string | null; mime?: string; start_s?: number };
  peaks: { per_s: number; min: string; max: string } | null;
  save_href: string | null;
  /** What the server calls the alignment as it was opened; null where nobody else changes it. */
  save_tag: string | null;
  /** Where corrections are aligned again; null where nobody does it. */
  realign_href: string | null;
  home_href: string | null;
  theme: "auto" | "light" | "dark";
}

/** Return the data of this page; null where it was opened as it is built, without any. */
export function readPageData(): PageData | null {
  return JSON.parse(document.getElementById("page-data")?.textContent ?? "null") as PageData | null;
}

/** Return the bytes that a base64 text stands for. */
export function bytesOf(base64: string): Uint8Array<ArrayBuffer> {
  const quick = (Uint8Array as unknown as { fromBase64?: (text: string) => Uint8Array<ArrayBuffer> }).fromBase64;
  if (quick) return quick.call(Uint8Array, base64);
  const text = atob(base64);
  const bytes = new Uint8Array(text.length);
  for (let at = 0; at < text.length; at++) bytes[at] = text.charCodeAt(at);
  return bytes;
}
