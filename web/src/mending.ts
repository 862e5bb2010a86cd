// Changes of words: each takes the words as they are, and returns them as they will be, or says why it cannot be.

import { isTimed, modelSpan, type Span, type TimedWord, type Token, type Version, type Word, type Words } from "./words";

export const SHORTEST_S = 0.005;
const TOUCH_S = 1e-6;
const SPACELESS = /[\p{Script=Han}\p{Script=Hiragana}\p{Script=Katakana}\p{Script=Thai}\p{Script=Lao}\p{Script=Khmer}\p{Script=Myanmar}]/u;

/** What cannot be done, said to a person. */
export class Refusal extends Error {}

/** An edge of a word or inside it. */
export interface Edge {
  place: number;
  /** The edge lies before this token; 0 is the word's start, and `tokens.length` (at least 1) its end. */
  before: number;
}

/** Return seconds in whole steps of 10 µs, as they are written. */
export function rounded(seconds: number): number {
  return Math.round(seconds * 1e5) / 1e5;
}

export function lastEdge(word: Word): number {
  return Math.max(1, word.tokens.length);
}

export function timeOf(words: readonly Word[], edge: Edge): number {
  const word = words[edge.place];
  if (edge.before === 0) return word.start ?? 0;
  if (edge.before >= lastEdge(word)) return word.end ?? 0;
  return word.tokens[edge.before].start;
}

function spanLength(of: Span): number {
  return Math.min(SHORTEST_S, of.end - of.start);
}

/** Return a word of which one edge is moved; inner edges in its way are pushed, nothing gets shorter than 5 ms. */
function withEdge(word: TimedWord, before: number, time: number): TimedWord {
  const tokens: Token[] = word.tokens.map((token) => ({ ...token }));
  const at = before >= lastEdge(word) ? tokens.length : before;
  let limit = time;
  for (let left = at - 1; left >= 0; left--) {
    tokens[left].end = limit;
    limit = rounded(limit - spanLength(word.tokens[left]));
    if (tokens[left].start <= limit) break;
    tokens[left].start = limit;
  }
  limit = time;
  for (let right = at; right < tokens.length; right++) {
    tokens[right].start = limit;
    limit = rounded(limit + spanLength(word.tokens[right]));
    if (tokens[right].end >= limit) break;
    tokens[right].end = limit;
  }
  // Rounding must not push a token out of its word.
  if (at > 0 && tokens.length) tokens[0].start = Math.max(tokens[0].start, word.start);
  if (at < tokens.length) tokens[tokens.length - 1].end = Math.min(tokens[tokens.length - 1].end, word.end);
  const moved: TimedWord = { ...word, tokens };
  if (before === 0) {
    moved.start = time;
    moved.startSd = undefined;
    if (tokens.length) tokens[0].startSd = undefined;
  } else if (before >= lastEdge(word)) {
    moved.end = time;
    moved.endSd = undefined;
    if (tokens.length) tokens[tokens.length - 1].endSd = undefined;
  } else {
    tokens[at - 1] = { ...tokens[at - 1], endSd: undefined, byHand: true };
    tokens[at] = { ...tokens[at], startSd: undefined, byHand: true };
  }
  return moved;
}

/** Return how long the tokens [from, to) of a word are at least; the word itself where it has none. */
function least(word: TimedWord, from: number, to: number): number {
  if (!word.tokens.length) return spanLength(word);
  return word.tokens.slice(from, to).reduce((sum, token) => sum + spanLength(token), 0);
}

/** Return the words with an edge moved as near to `time` as its neighbours let it; a touching word moves with it. */
export function moveEdge(words: Words, edge: Edge, time: number): Version {
  const version = words.version;
  const word = version.words[edge.place];
  if (!isTimed(word)) throw new Refusal(`“${word.text}” has no time yet: choose a stretch and press T.`);
  const last = lastEdge(word);
  const isStart = edge.before === 0;
  const isEnd = edge.before >= last;
  const other = isStart ? version.words[words.neighbour(edge.place, -1)] : isEnd ? version.words[words.neighbour(edge.place, 1)] : undefined;
  let low = isStart ? 0 : word.start + least(word, 0, edge.before);
  let high = isEnd ? words.duration : word.end - least(word, edge.before, last);
  let touching: TimedWord | null = null;
  if (isTimed(other) && isStart) {
    touching = Math.abs(other.end - word.start) < TOUCH_S ? other : null;
    low = touching ? other.start + least(other, 0, lastEdge(other)) : other.end;
  } else if (isTimed(other)) {
    touching = Math.abs(other.start - word.end) < TOUCH_S ? other : null;
    high = touching ? other.end - least(other, 0, lastEdge(other)) : other.start;
  }
  const to = rounded(Math.min(Math.max(time, low), high));
  const list = [...version.words];
  list[edge.place] = { ...withEdge(word, edge.before, to), byHand: true, doubtful: false };
  if (touching) list[list.indexOf(touching)] = withEdge(touching, isStart ? lastEdge(touching) : 0, to);
  return { ...version, words: list };
}

/** Return the words with one marked as right, or no longer. */
export function toggleRight(words: Words, place: number, token: number): Version {
  const version = words.version;
  const word = version.words[place];
  if (!isTimed(word)) throw new Refusal(`“${word.text}” has no time that could be right.`);
  const list = [...version.words];
  const right = token >= 0 ? !word.tokens[token].byHand : !word.byHand;
  if (token < 0 && !right && (word.confidence === null || !word.tokens.length)) {
    throw new Refusal(`“${word.text}” has its times from a person alone: undo, or delete it.`);
  }
  const tokens = word.tokens.map((of, at) => ((token < 0 && !right) || at === token ? { ...of, byHand: right } : of));
  list[place] = { ...word, byHand: right || (token >= 0 && word.byHand), tokens };
  const before = words.read[word.id];
  if (before && sameWord(before, list[place])) list[place] = before;
  return { ...version, words: list };
}

function sameWord(a: Word, b: Word): boolean {
  return JSON.stringify(a) === JSON.stringify(b);
}

/** Return the words with one where it was before it was mended. */
export function backToModel(words: Words, place: number): Version {
  const version = words.version;
  const word = version.words[place];
  const before = words.read[word.id];
  const span = modelSpan(words, word);
  if (!before || !span || !isTimed(before)) throw new Refusal(`“${word.text}” had no edges before.`);
  const list = [...version.words];
  const left = version.words[words.neighbour(place, -1)];
  const right = version.words[words.neighbour(place, 1)];
  const lost = (of: string) => new Refusal(`“${of}” is in the way: move it first.`);
  if (isTimed(left) && (left.end > span.start || (isTimed(word) && Math.abs(left.end - (word.start as number)) < TOUCH_S))) {
    if (left.start + least(left, 0, lastEdge(left)) > span.start) throw lost(left.text);
    list[list.indexOf(left)] = restored(words, withEdge(left, lastEdge(left), span.start));
  }
  if (isTimed(right) && (right.start < span.end || (isTimed(word) && Math.abs(right.start - (word.end as number)) < TOUCH_S))) {
    if (right.end - least(right, 0, lastEdge(right)) < span.end) throw lost(right.text);
    list[list.indexOf(right)] = restored(words, withEdge(right, 0, span.end));
  }
  list[place] = { ...before, text: word.text, before: word.before };
  if (sameWord(before, list[place])) list[place] = before;
  return { ...version, words: list };
}

/** Return a word as it was read where it has the same edges again. */
function restored(words: Words, word: TimedWord): Word {
  const before = words.read[word.id];
  if (!before || word.byHand || before.text !== word.text) return word;
  return before.start === word.start && before.end === word.end ? before : word;
}

/** Return the words with one cut at `time`; its letters are shared by time. */
export function split(words: Words, place: number, time: number): Version {
  const version = words.version;
  const word = version.words[place];
  if (!isTimed(word)) throw new Refusal(`“${word.text}” has no time, and is not split.`);
  const at = rounded(time);
  if (at < word.start + SHORTEST_S || at > word.end - SHORTEST_S) {
    throw new Refusal(`Put the cursor inside “${word.text}” to split the word there.`);
  }
  const letters = Array.from(word.text);
  if (letters.length < 2) throw new Refusal(`“${word.text}” is one letter, and is not split.`);
  const share = Math.round((letters.length * (at - word.start)) / (word.end - word.start));
  const cut = Math.min(letters.length - 1, Math.max(1, share));
  const isBefore = (token: Token) => (token.start + token.end) / 2 < at;
  let left = word.tokens.filter(isBefore);
  let right = word.tokens.filter((token) => !isBefore(token));
  if (!left.length || !right.length) left = right = [];
  left = left.map((token, of) => (of === left.length - 1 ? { ...token, end: at, endSd: undefined } : token));
  right = right.map((token, of) => (of === 0 ? { ...token, start: at, startSd: undefined } : token));
  const first: Word = { ...word, text: letters.slice(0, cut).join(""), end: at, endSd: undefined, tokens: left, byHand: true, doubtful: false };
  const second: Word = {
    ...first, id: words.newId(), text: letters.slice(cut).join(""), start: at, end: word.end, startSd: undefined,
    endSd: word.endSd, tokens: right, before: SPACELESS.test(word.text) ? "" : " ",
  };
  return { ...version, words: version.words.toSpliced(place, 1, first, second) };
}

/** Return the words with one and the next as one. */
export function merge(words: Words, place: number): Version {
  const version = words.version;
  const word = version.words[place];
  const next = version.words[place + 1];
  if (!next) throw new Refusal("The last word has no next word.");
  if (!isTimed(word) || !isTimed(next) || words.neighbour(place, 1) !== place + 1) {
    throw new Refusal(`“${word.text}” and “${next.text}” are not side by side in time.`);
  }
  const touch = Math.abs(next.start - word.end) < TOUCH_S && word.tokens.length > 0 && next.tokens.length > 0;
  const merged: Word = {
    ...word,
    text: word.text + next.before.trim() + next.text,
    end: next.end,
    endSd: next.endSd,
    confidence: word.confidence === null || next.confidence === null ? null : Math.min(word.confidence, next.confidence),
    tokens: touch ? [...word.tokens, ...next.tokens] : [],
    byHand: true,
    doubtful: false,
  };
  return { ...version, words: version.words.toSpliced(place, 2, merged) };
}

/** Return letters only, as they are compared to tell whether a word is pronounced as before. */
function letters(text: string): string {
  return text.toLowerCase().replace(/[^\p{L}\p{N}\p{M}]/gu, "");
}

/** Return the words with another text for one; several words share its time. */
export function setText(words: Words, place: number, text: string): Version {
  const version = words.version;
  const word = version.words[place];
  const parts = text.trim().split(/\s+/u).filter((part) => part !== "");
  if (!parts.length) return remove(words, place);
  if (parts.length === 1) {
    if (parts[0] === word.text) return version;
    const tokens = letters(parts[0]) === letters(word.text) ? word.tokens : [];
    const changed: Word = { ...word, text: parts[0], tokens: isTimed(word) ? tokens : word.tokens, byHand: isTimed(word) };
    return { ...version, words: version.words.with(place, changed) };
  }
  if (!isTimed(word)) throw new Refusal(`“${word.text}” has no time that several words could share.`);
  const lengths = parts.map((part) => Array.from(part).length);
  const total = lengths.reduce((sum, length) => sum + length, 0);
  if (word.end - word.start < SHORTEST_S * parts.length) throw new Refusal(`“${word.text}” is too short for ${parts.length} words.`);
  let done = 0;
  let start: number = word.start;
  const made = parts.map((part, at): Word => {
    done += lengths[at];
    const end = at + 1 === parts.length ? word.end : rounded(word.start + ((word.end - word.start) * done) / total);
    const own: Word = { ...word, id: at ? words.newId() : word.id, text: part, start, end, tokens: [], byHand: true, doubtful: false };
    own.startSd = at ? undefined : word.startSd;
    own.endSd = at + 1 === parts.length ? word.endSd : undefined;
    if (at) own.before = " ";
    start = end;
    return own;
  });
  return { ...version, words: version.words.toSpliced(place, 1, ...made) };
}

/** Return the words without one. */
export function remove(words: Words, place: number): Version {
  const version = words.version;
  const word = version.words[place];
  const next = version.words[place + 1];
  const list = version.words.toSpliced(place, 1);
  const gap = (a: string, b: string) => (a.includes("\n") || !/\s/u.test(b) ? a : b);
  if (next) list[place] = { ...next, before: place ? gap(word.before, next.before) : word.before };
  return { ...version, words: list, selected: Math.min(place, list.length - 1) };
}

/** Return the free time about the middle of a stretch, as far as the stretch goes; `but` is not in its way. */
function free(words: Words, span: Span, but: number): Span {
  const middle = (span.start + span.end) / 2;
  let start = Math.max(0, span.start);
  let end = Math.min(words.duration, span.end);
  for (const place of words.order) {
    const other = words.list[place];
    if (place === but || !isTimed(other) || other.end <= start || other.start >= end) continue;
    if ((other.start + other.end) / 2 < middle) start = Math.max(start, other.end);
    else end = Math.min(end, other.start);
  }
  if (end - start < SHORTEST_S) throw new Refusal("Other words are there: select a stretch between words.");
  return { start: rounded(start), end: rounded(end) };
}

/** Return the words with one at a stretch, cut off where other words are. */
export function retime(words: Words, place: number, stretch: Span): Version {
  const version = words.version;
  const word = version.words[place];
  const { start, end } = free(words, stretch, place);
  const scale = isTimed(word) ? (end - start) / (word.end - word.start) : 0;
  const tooShort = word.tokens.some((token) => (token.end - token.start) * scale < SHORTEST_S);
  const moved = (time: number) => rounded(start + (time - (word.start as number)) * scale);
  const tokens = scale === 0 || tooShort ? [] : word.tokens.map((token) => ({ ...token, start: moved(token.start), end: moved(token.end) }));
  const last = tokens[tokens.length - 1];
  if (last) last.end = end;
  const changed: Word = {
    ...word, start, end, tokens, status: "aligned", kind: undefined, startSd: undefined, endSd: undefined, byHand: true, doubtful: false,
  };
  return { ...version, words: version.words.with(place, changed) };
}

/** Return the words with a new one behind another, at a stretch, else in the gap behind that word. */
export function insert(words: Words, after: number, text: string, stretch: Span | null): Version {
  const version = words.version;
  const parts = text.trim().split(/\s+/u);
  if (parts.length !== 1 || !parts[0]) throw new Refusal("Write one word, without spaces.");
  let span = stretch;
  if (!span) {
    const word = version.words[after];
    const next = version.words[words.neighbour(after, 1)];
    const start = isTimed(word) ? word.end : 0;
    span = { start, end: Math.min(isTimed(next) ? next.start : words.duration, start + 0.5) };
    if (span.end - span.start < SHORTEST_S) throw new Refusal("There is no gap after the word: select a stretch for the new one.");
  }
  const { start, end } = free(words, span, -1);
  const before = words.order.findLast((place) => (words.list[place].end as number) <= start + TOUCH_S);
  const place = before === undefined ? 0 : before + 1;
  const speaker = version.words[before ?? 0]?.speaker ?? "";
  const space = SPACELESS.test(parts[0]) ? "" : " ";
  const made: Word = {
    id: words.newId(), text: parts[0], status: "aligned", speaker, start, end, confidence: null, doubtful: false, byHand: true, tokens: [],
    before: place ? space : (version.words[0]?.before ?? ""),
  };
  const list = version.words.toSpliced(place, 0, made);
  const next = list[place + 1];
  if (!place && next) list[1] = { ...next, before: space };
  return { ...version, words: list, selected: place };
}
