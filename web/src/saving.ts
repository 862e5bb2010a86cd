// What is saved: JSON, TextGrid, CTM and SRT of the words as they are now, made as ctc-align writes them.

import { corrected } from "./exporting";
import { isTimed, type TimedWord, type Words } from "./words";

export type Format = "json" | "TextGrid" | "ctm" | "srt";

const UNITS_PER_S = 100_000;
const UNNAMED = "unnamed";

interface Row {
  start: number;
  end: number;
  label: string;
  confidence: number;
}

/** Return the text of a file in a format. */
export function fileOf(words: Words, format: Format): string {
  if (format === "json") return `${JSON.stringify(corrected(words), null, 1)}\n`;
  if (format === "TextGrid") return textGrid(words);
  if (format === "ctm") return ctm(words);
  return srt(words);
}

/** Return labels with rounded edges, never empty, never overlapping, inside the recording. */
function rows(spans: Iterable<[number, number, string, number | null]>, unitsPerS: number, last: number): Row[] {
  const made: Row[] = [];
  let free = 0;
  for (const [start, end, label, confidence] of spans) {
    const from = Math.max(Math.min(Math.round(start * unitsPerS), last), free);
    free = Math.max(Math.min(Math.round(end * unitsPerS), last), from + 1);
    made.push({ start: from, end: free, label, confidence: confidence ?? 0 });
  }
  let limit = last;
  for (let at = made.length - 1; at >= 0 && made[at].end > limit; at--) {
    made[at].end = limit;
    limit = made[at].start = Math.min(made[at].start, limit - 1);
  }
  return made;
}

function timedWords(words: Words): TimedWord[] {
  return words.order.map((place) => words.list[place]).filter(isTimed);
}

function wordSpans(words: Words, of: readonly TimedWord[]): [number, number, string, number | null][] {
  return of.map((word) => [word.start + words.shift, word.end + words.shift, label(words, word.text), word.confidence]);
}

function tokenSpans(words: Words, of: readonly TimedWord[]): [number, number, string, number | null][] {
  return of.flatMap((word) =>
    word.tokens.map((token): [number, number, string, number] => [
      token.start + words.shift, token.end + words.shift, token.token, token.confidence,
    ]),
  );
}

const KEPT = "%‰#@&°№©";
const OUTER = /[\p{P}\p{C}\p{Z}\p{So}\p{Sk}^`´~|<>\uFE00-\uFE0F\u20E3]/u;
const BRACKETS: Record<string, string> = { ")": "(", "]": "[", "}": "{" };

/** Return the label of a word: without the punctuation around it, unless labels are as they are written. */
function label(words: Words, text: string): string {
  if (words.alignment.config?.labels === "written") return text;
  const letters = Array.from(text.includes("<") ? text.replace(/<[^<>]*>/g, "") || text : text);
  const isOuter = (of: string) => OUTER.test(of) && !KEPT.includes(of);
  let start = 0;
  let end = letters.length;
  while (start < end && isOuter(letters[start])) start++;
  if (start === end) return text;
  const count = (of: string) => letters.slice(start, end).filter((letter) => letter === of).length;
  while (isOuter(letters[end - 1])) {
    const opening = BRACKETS[letters[end - 1]];
    if (opening && count(opening) >= count(letters[end - 1])) break;
    end--;
  }
  const core = letters.slice(start, end).join("");
  const before = letters.slice(0, start).join("");
  const after = letters.slice(end).join("");
  const sign = /^[\p{Nd}\p{Sc}]/u.test(core) ? (/(?:^|[^\p{L}\p{N}_.\-−])([-−]?\.?)$/u.exec(before)?.[1] ?? "") : "";
  const point = after.startsWith(".") && /^(?:\p{L}\.)+\p{L}$/u.test(core) ? "." : "";
  return sign + core + point;
}

function withoutControls(text: string): string {
  // biome-ignore lint: control characters are what is looked for
  return text.replace(/[\x00-\x08\x0b-\x1f\x7f-\x9f]/g, "\ufffd").replace(/[\u2028\u2029]/g, " ");
}

function seconds(units: number): string {
  const text = `${Math.floor(units / UNITS_PER_S)}.${String(units % UNITS_PER_S).padStart(5, "0")}`;
  return text.replace(/\.?0+$/, "") || "0";
}

/** Return tiers (name, rows), of each speaker where there are several, as MFA names them. */
function tiers(words: Words, last: number): [string, Row[]][] {
  const all = timedWords(words);
  const speakers = [...new Set(all.map((word) => word.speaker))];
  const kind = words.alignment.token_kind;
  const several = speakers.filter((name) => name !== "").length > 1;
  const parts: [string, TimedWord[]][] = several
    ? speakers.map((name) => [`${name || UNNAMED} - `, all.filter((word) => word.speaker === name)])
    : [["", all]];
  return parts.flatMap(([name, own]): [string, Row[]][] => [
    [`${name}words`, rows(wordSpans(words, own), UNITS_PER_S, last)],
    [`${name}${kind}`, rows(tokenSpans(words, own), UNITS_PER_S, last)],
  ]);
}

function textGrid(words: Words): string {
  const last = Math.max(1, Math.floor((words.duration + words.shift) * UNITS_PER_S + 1e-4));
  const escaped = (text: string) => withoutControls(text.split(/\s+/u).filter(Boolean).join(" ")).replaceAll('"', '""');
  const made = tiers(words, last);
  const end = seconds(last);
  const lines = [
    'File type = "ooTextFile"', 'Object class = "TextGrid"', "", "xmin = 0", `xmax = ${end}`, "tiers? <exists>",
    `size = ${made.length}`, "item []:",
  ];
  made.forEach(([name, own], number) => {
    const covering: [number, number, string][] = [];
    let at = 0;
    for (const row of own) {
      if (row.start > at) covering.push([at, row.start, ""]);
      covering.push([row.start, row.end, escaped(row.label)]);
      at = row.end;
    }
    if (at < last) covering.push([at, last, ""]);
    lines.push(
      `    item [${number + 1}]:`, '        class = "IntervalTier"', `        name = "${escaped(name)}"`, "        xmin = 0",
      `        xmax = ${end}`, `        intervals: size = ${covering.length}`,
    );
    covering.forEach(([start, stop, text], place) => {
      lines.push(
        `        intervals [${place + 1}]:`, `            xmin = ${seconds(start)}`, `            xmax = ${seconds(stop)}`,
        `            text = "${text}"`,
      );
    });
  });
  return `${lines.join("\n")}\n`;
}

function ctm(words: Words): string {
  const { alignment } = words;
  const field = (text: string) => text.trim().replace(/[\s\x00-\x1f\x7f-\x9f]+/g, "_") || "-";
  const shown = (number: number | null) => (number === null ? "inf" : number.toFixed(6));
  const name = field(alignment.utterance).replace(/^;+/, (marks) => "_".repeat(marks.length));
  const ms = (units: number) => `${Math.floor(units / 1000)}.${String(units % 1000).padStart(3, "0")}`;
  const last = Math.floor((words.duration + words.shift) * 1000 + 1e-4);
  const head = `;; ${name} loss ${shown(alignment.loss)} loss_per_token ${shown(alignment.loss_per_token)} score ${shown(alignment.score)}`;
  const lines = rows(wordSpans(words, timedWords(words)), 1000, last).map(
    (row) => `${name} 1 ${ms(row.start)} ${ms(row.end - row.start)} ${field(row.label)} ${row.confidence.toFixed(4)}`,
  );
  return `${[head, ...lines].join("\n")}\n`;
}

const COLUMNS = 42;
const LONGEST_S = 7;
const PAUSE_S = 0.6;

/** Return subtitles of at most two lines, cut at sentences and pauses; those of a subtitle file keep their cuts. */
function srt(words: Words): string {
  const shown = words.list.filter((word) => word.status !== "skipped" && word.kind !== "markup");
  const cues: { words: typeof shown; start: number; end: number }[] = [];
  let cue: (typeof cues)[number] | null = null;
  const columns = (of: typeof shown) => of.reduce((sum, word) => sum + word.before.trim().length + word.text.length + 1, 0);
  const starts = new Set(sourceCueStarts(words));
  for (const word of shown) {
    const last = cue?.words.findLast(isTimed);
    const parts = starts.size
      ? starts.has(word.id)
      : cue !== null && last !== undefined && isTimed(word) &&
        (columns([...cue.words, word]) > 2 * COLUMNS - 6 || word.end - cue.start > LONGEST_S || word.start - last.end > PAUSE_S ||
          word.start < last.end - 1e-6 || /[.!?。！？؟…]["'”’)\]]*$/u.test(last.text));
    if (!cue || parts) {
      cue = { words: [], start: NaN, end: NaN };
      cues.push(cue);
    }
    cue.words.push(word);
    if (isTimed(word)) {
      if (Number.isNaN(cue.start)) cue.start = word.start;
      cue.end = word.end;
    }
  }
  const timed = cues.filter((of) => !Number.isNaN(of.start)).sort((a, b) => a.start - b.start);
  const lines = timed.map((of, at) => {
    const next = timed[at + 1]?.start ?? words.duration;
    const end = Math.max(of.end, Math.min(of.start + Math.max(0.8, columns(of.words) / 17), next - 0.08));
    const text = withoutControls(linesOf(of.words.map((word) => word.text))).replaceAll("-->", "-- >").replace(/<([^<>\s][^<>]*)>/g, "‹$1›");
    return `${at + 1}\n${stamp(of.start + words.shift)} --> ${stamp(end + words.shift)}\n${text}\n`;
  });
  return `${lines.join("\n")}\n`;

  function linesOf(texts: string[]): string {
    const joined = texts.map((text, at) => (at && of(text, at) ? " " : "") + text).join("");
    if (joined.length <= COLUMNS) return joined;
    const spaces = [...joined.matchAll(/ /g)].map((match) => match.index);
    const middle = spaces.reduce((best, place) => (Math.abs(place - joined.length / 2) < Math.abs(best - joined.length / 2) ? place : best), -1);
    return middle < 0 ? joined : `${joined.slice(0, middle)}\n${joined.slice(middle + 1)}`;
    function of(text: string, at: number): boolean {
      return !/[\p{Script=Han}\p{Script=Hiragana}\p{Script=Katakana}\p{Script=Thai}]/u.test(text + texts[at - 1]);
    }
  }
}

/** Return the ids of words that begin a cue of the subtitle file that the transcript is. */
function sourceCueStarts(words: Words): number[] {
  const source = words.alignment.subtitles;
  if (!source || (source.format !== "srt" && source.format !== "vtt")) return [];
  return source.cues.flatMap((cue) => {
    const first = words.alignment.words.findIndex((word) => word.char_start >= cue.char_start && word.char_end <= cue.char_end);
    return first < 0 ? [] : [first];
  });
}

function stamp(seconds: number): string {
  const ms = Math.round(seconds * 1000);
  const two = (of: number) => String(of).padStart(2, "0");
  return `${two(Math.floor(ms / 3600000))}:${two(Math.floor(ms / 60000) % 60)}:${two(Math.floor(ms / 1000) % 60)},${String(ms % 1000).padStart(3, "0")}`;
}

/** Hand a file to the browser to keep. */
export function download(name: string, text: string): void {
  const link = document.createElement("a");
  const url = URL.createObjectURL(new Blob([text], { type: "application/octet-stream" }));
  link.href = url;
  link.download = name.replace(/[\\/:*?"<>|\x00-\x1f]/g, "_");
  document.body.append(link);
  link.click();
  link.remove();
  setTimeout(() => URL.revokeObjectURL(url), 10_000);
}
