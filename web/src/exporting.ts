// The corrected alignment as "ctc-align/1".

import type { AlignmentJson, RegionJson, TokenJson, WordJson } from "./data";
import { rounded } from "./mending";
import { writeRating } from "./ratings";
import type { Token, Word, Words } from "./words";

/** Return an alignment with the words as they are now; what was not mended is as it was read, to the bit. */
export function corrected(words: Words): AlignmentJson {
  const { checked: _, ...alignment } = words.alignment;
  if (!words.isChanged) return words.alignment;
  let text = "";
  let length = 0;
  const anchors: [number, number][] = [[0, 0]];
  const list = words.list.map((word) => {
    text += word.before;
    const start = length + codePoints(word.before);
    const end = start + codePoints(word.text);
    text += word.text;
    length = end;
    const source = alignment.words[word.id];
    if (source) anchors.push([source.char_start, start], [source.char_end, end]);
    return wordJson(words, word, start, end);
  });
  text += words.tail;
  anchors.push([codePoints(alignment.text), codePoints(text)]);
  const moved = movedBy(anchors);
  const result: AlignmentJson = {
    ...alignment,
    ...(words.version.checked ? { checked: true as const } : {}),
    skipped: list.filter((word) => word.status === "skipped").length,
    text,
    words: list,
    regions: alignment.regions.flatMap((region) => movedRegion(region, moved)),
  };
  const spanned = <Of extends { char_start: number; char_end: number }>(of: Of): Of => ({
    ...of, char_start: moved(of.char_start), char_end: moved(of.char_end),
  });
  if (alignment.subtitles) result.subtitles = { ...alignment.subtitles, cues: alignment.subtitles.cues.map(spanned) };
  if (alignment.places) result.places = alignment.places.map(spanned);
  return result;
}

function codePoints(text: string): number {
  return Array.from(text).length;
}

/** Return where a place in the old text is in the new one: with the edge of a word that it is behind. */
function movedBy(anchors: readonly [number, number][]): (place: number) => number {
  const old = anchors.map(([from]) => from);
  return (place) => {
    let low = 0;
    let high = old.length - 1;
    while (low < high) {
      const middle = (low + high + 1) >> 1;
      if (old[middle] <= place) low = middle;
      else high = middle - 1;
    }
    const limit = anchors[low + 1]?.[1] ?? Infinity;
    return Math.min(anchors[low][1] + place - anchors[low][0], limit);
  };
}

function movedRegion(region: RegionJson, moved: (place: number) => number): RegionJson[] {
  if (region.char_start === null || region.char_end === null) return [region];
  const start = moved(region.char_start);
  const end = moved(region.char_end);
  return start < end ? [{ ...region, char_start: start, char_end: end }] : [];
}

function wordJson(words: Words, word: Word, charStart: number, charEnd: number): WordJson {
  const source = words.alignment.words[word.id];
  if (source && words.read[word.id] === word) return { ...source, char_start: charStart, char_end: charEnd };
  const before = words.read[word.id];
  if (source && before && before.start === word.start && before.end === word.end && before.text === word.text && sameTokens(before, word)) {
    const { by: _by, doubtful, ...rest } = source;
    const kept: WordJson = { ...rest, char_start: charStart, char_end: charEnd, tokens: source.tokens.map((token, at) => marked(token, word.tokens[at])) };
    if (word.byHand) kept.by = "hand";
    else if (doubtful) kept.doubtful = doubtful;
    return kept;
  }
  const at = (time: number | null) => (time === null ? null : rounded(time + words.shift));
  const made: WordJson = {
    text: word.text,
    spoken: source && source.text === word.text ? source.spoken : word.text.toLowerCase(),
    start_s: at(word.start),
    end_s: at(word.end),
    confidence: word.confidence,
    char_start: charStart,
    char_end: charEnd,
    status: word.status,
    tokens: word.tokens.map((token): TokenJson => {
      const json: TokenJson = { token: token.token, start_s: at(token.start) as number, end_s: at(token.end) as number, confidence: token.confidence };
      if (token.startSd !== undefined) json.start_sd_ms = token.startSd;
      if (token.endSd !== undefined) json.end_sd_ms = token.endSd;
      if (token.byHand) json.by = "hand";
      return token.rating ? { ...json, ...writeRating(token.rating) } : json;
    }),
  };
  if (word.startSd !== undefined) made.start_sd_ms = word.startSd;
  if (word.endSd !== undefined) made.end_sd_ms = word.endSd;
  if (word.doubtful && !word.byHand) made.doubtful = true;
  if (word.kind) made.kind = word.kind;
  if (word.speaker) made.speaker = word.speaker;
  if (word.byHand) made.by = "hand";
  return made;
}

function sameTokens(a: Word, b: Word): boolean {
  return a.tokens.length === b.tokens.length && a.tokens.every((token, at) => token.start === b.tokens[at].start && token.end === b.tokens[at].end);
}

function marked(json: TokenJson, token: Token): TokenJson {
  const { by: _by, ...rest } = json;
  return token.byHand ? { ...rest, by: "hand" } : rest;
}
