// How sounds were pronounced: the goodness of pronunciation of tokens, in alignments that have it.

import type { TokenJson } from "./data";
import type { Token, Word } from "./words";

export interface Rating {
  /** By how many nats the token is likelier than its best rival. */
  gop: number;
  /** The likeliest sound, "" where the token was left out. */
  heard: string;
  /** The share of native speech, in per cent, in which the same phone is rated lower; null where it is not known. */
  percentile: number | null;
}

/** The steps from usual to unusual, by their least values. */
export interface Scale {
  title: string;
  unit: string;
  limits: readonly number[];
}

const PERCENTILES: Scale = { title: "Native speakers rated lower:", unit: "%", limits: [25, 10, 5, 2] };
/** Where no percentile is known. */
const NATS: Scale = { title: "Likelier than the best rival by:", unit: "nats", limits: [0, -1, -2.3, -4] };
/** From this step on, a word is marked in the transcript. */
const LOW = 3;

type RatedToken = Token & { rating: Rating };

export function readRating(token: TokenJson): Rating | undefined {
  if (typeof token.gop !== "number") return undefined;
  return { gop: token.gop, heard: token.heard ?? "", percentile: token.gop_percentile ?? null };
}

export function writeRating({ gop, heard, percentile }: Rating): Partial<TokenJson> {
  return { gop, ...(percentile === null ? {} : { gop_percentile: percentile }), heard };
}

/** Return the step of a rating, 0 for usual to 4. */
export function stepOf({ gop, percentile }: Rating): number {
  const [value, { limits }] = percentile === null ? [gop, NATS] : [percentile, PERCENTILES];
  const step = limits.findIndex((least) => value >= least);
  return step < 0 ? limits.length : step;
}

/** Return the token of a word that is rated lowest; undefined where none is rated. */
export function lowestRated(word: Word): RatedToken | undefined {
  let lowest: RatedToken | undefined;
  for (const token of word.tokens) {
    if (isRated(token) && (!lowest || isLower(token.rating, lowest.rating))) lowest = token;
  }
  return lowest;
}

/** Return the lowest rated token if one should listen to it. */
export function ratedLow(word: Word): RatedToken | undefined {
  const lowest = lowestRated(word);
  return lowest && stepOf(lowest.rating) >= LOW ? lowest : undefined;
}

function isRated(token: Token): token is RatedToken {
  return token.rating !== undefined;
}

function isLower(a: Rating, b: Rating): boolean {
  const steps = stepOf(a) - stepOf(b);
  return steps > 0 || (steps === 0 && (a.percentile ?? a.gop) < (b.percentile ?? b.gop));
}

/** Return a token, with what was heard in its place. */
export function ratedLabel({ token, rating }: Token): string {
  return rating && rating.heard !== token ? `${token}→${rating.heard || "∅"}` : token;
}

/** Return the rating of a token in words; nothing where it has none. */
export function ratingInWords({ token, rating }: Token): string {
  if (!rating) return "";
  const { gop, heard, percentile } = rating;
  const instead = heard === "" ? ", left out" : heard === token ? "" : `, ${heard} heard`;
  const share = percentile === null ? "" : `; ${percentile} % of native speakers’ ${token} are rated lower`;
  return `${token}${instead}: ${gop.toFixed(2).replace("-", "−")} nats${share}`;
}

/** Return the scale of the ratings of words; null where none is rated. */
export function scaleOf(words: readonly Word[]): Scale | null {
  let scale: Scale | null = null;
  for (const { tokens } of words) {
    for (const { rating } of tokens) {
      if (rating && rating.percentile !== null) return PERCENTILES;
      if (rating) scale = NATS;
    }
  }
  return scale;
}

/** Return the steps by their limits, in the order of their colours. */
export function stepNames({ limits, unit }: Scale): string[] {
  const names = limits.map((limit) => `${limit} ${unit}`.replace("-", "−"));
  return [...names.map((name) => `≥ ${name}`), `< ${names[names.length - 1]}`];
}
