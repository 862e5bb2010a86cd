// How well a transcript fits, in words.

export type Fit = "good" | "doubtful" | "poor" | "none" | null;

/** Return a number with its noun; nothing of none. */
export function count(of: number, one: string, more: string): string {
  return of ? `${of.toLocaleString("en")} ${of === 1 ? one : more}` : "";
}

/** Return the fit by its name: "Good fit"; nothing where a model gives none. */
export function fitName(fit: Fit): string {
  return fit ? `${fit === "none" ? "No" : fit[0].toUpperCase() + fit.slice(1)} fit` : "";
}

/** Return what is said first of an alignment; `others` are further things to look at. */
export function fitInWords(fit: Fit, toCheck: number, others: readonly string[] = []): string {
  const said = fitName(fit);
  const more = [count(toCheck, "word to check", "words to check"), ...others].filter(Boolean);
  if (!more.length && fit === "good") more.push("nothing to check");
  if (!more.length && (fit === "doubtful" || fit === "poor")) more.push("no single word to check");
  if (!more.length && !fit) more.push("Nothing to check");
  return [said, ...more].filter(Boolean).join(" · ");
}
