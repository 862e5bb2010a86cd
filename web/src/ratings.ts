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

/** The least percentiles of the steps from usual to unusual; and the least nats, where no percentile is known. */
const PERCENTILES = [25, 10, 5, 2];
const NATS = [0, -1, -2.3, -4];
/** From this step on, a word is marked in the transcript. */
const LOW = 3;

export function readRating(token: TokenJson): Rating | undefined {
  if (typeof token.gop !== "number") return undefined;
  return { gop: token.gop, heard: token.heard ?? "", percentile: token.gop_percentile ?? null };
}

export function writeRating({ gop, heard, percentile }: Rating): Partial<TokenJson> {
  return { gop, ...(percentile === null ? {} : { gop_percentile: percentile }), heard };
}

/** Return the step of a rating, 0 for usual to 4. */
export function stepOf({ gop, percentile }: Rating): number {
  const [value, limits] = percentile === null ? [gop, NATS] : [percentile, PERCENTILES];
  const step = limits.findIndex((least) => value >= least);
  return step < 0 ? limits.length : step;
}

/** Return the token of a word that is rated lowest; undefined where none is rated. */
export function lowestRated(word: Word): (Token & { rating: Rating }) | undefined {
  const rated = word.tokens.filter((token): token is Token & { rating: Rating } => token.rating !== undefined);
  const byRating = (a: Rating, b: Rating) => stepOf(b) - stepOf(a) || (a.percentile ?? a.gop) - (b.percentile ?? b.gop);
  return rated.sort((a, b) => byRating(a.rating, b.rating))[0];
}

/** Return whether a sound of a word is rated so low that one should listen to it. */
export function isRatedLow(word: Word): boolean {
  const lowest = lowestRated(word);
  return lowest !== undefined && stepOf(lowest.rating) >= LOW;
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

/** Return whether a token of the words is rated. */
export function hasRatings(words: readonly Word[]): boolean {
  return words.some((word) => word.tokens.some((token) => token.rating));
}

/** Return what the limits of the steps are of. */
export function stepsMean(words: readonly Word[]): string {
  return hasPercentiles(words) ? "Native speakers rated lower:" : "Likelier than the best rival by:";
}

/** Return the steps by their limits, in the order of their colours. */
export function stepNames(words: readonly Word[]): string[] {
  const [limits, unit] = hasPercentiles(words) ? [PERCENTILES, "%"] : [NATS, "nats"];
  const names = limits.map((limit) => `${limit} ${unit}`.replace("-", "−"));
  return [...names.map((name) => `≥ ${name}`), `< ${names[names.length - 1]}`];
}

function hasPercentiles(words: readonly Word[]): boolean {
  return words.some((word) => word.tokens.some((token) => typeof token.rating?.percentile === "number"));
}
