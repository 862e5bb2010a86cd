// The lowest and highest sample of short stretches of sound, at several widths, so that any zoom is drawn quickly.

export interface Level {
  perS: number;
  min: Float32Array;
  max: Float32Array;
}

const FINEST = 32;
const STEP = 8;

/** Return `level` and ever coarser ones, the finest first. */
function coarser(level: Level): Level[] {
  const levels = [level];
  for (let last = level; last.min.length > 4000; levels.push(last)) {
    const length = Math.ceil(last.min.length / STEP);
    const next = { perS: last.perS / STEP, min: new Float32Array(length), max: new Float32Array(length) };
    for (let at = 0; at < length; at++) {
      let low = Infinity;
      let high = -Infinity;
      const end = Math.min(last.min.length, (at + 1) * STEP);
      for (let of = at * STEP; of < end; of++) {
        if (last.min[of] < low) low = last.min[of];
        if (last.max[of] > high) high = last.max[of];
      }
      next.min[at] = low;
      next.max[at] = high;
    }
    last = next;
  }
  return levels;
}

export function levelsOfSamples(samples: Float32Array, rate: number): Level[] {
  const length = Math.ceil(samples.length / FINEST);
  const level = { perS: rate / FINEST, min: new Float32Array(length), max: new Float32Array(length) };
  for (let at = 0; at < length; at++) {
    let low = Infinity;
    let high = -Infinity;
    const end = Math.min(samples.length, (at + 1) * FINEST);
    for (let of = at * FINEST; of < end; of++) {
      const value = samples[of];
      if (value < low) low = value;
      if (value > high) high = value;
    }
    level.min[at] = low;
    level.max[at] = high;
  }
  return coarser(level);
}

export function levelsOfBytes(perS: number, min: Uint8Array, max: Uint8Array): Level[] {
  const floats = (bytes: Uint8Array) =>
    Float32Array.from(new Int8Array(bytes.buffer, bytes.byteOffset, bytes.length), (value) => value / 127);
  return coarser({ perS, min: floats(min), max: floats(max) });
}

/** Return the finest level that has at most `perPx` values a pixel, else the coarsest. */
export function levelFor(levels: readonly Level[], pxPerS: number): Level {
  for (const level of levels) if (level.perS / pxPerS <= STEP) return level;
  return levels[levels.length - 1];
}

/** Return [lowest, highest] of a stretch in seconds of a level; null where it has nothing. */
export function rangeOf(level: Level, start: number, end: number): [number, number] | null {
  const from = Math.max(0, Math.floor(start * level.perS));
  const to = Math.min(level.min.length, Math.max(from + 1, Math.ceil(end * level.perS)));
  if (from >= to) return null;
  let low = Infinity;
  let high = -Infinity;
  for (let at = from; at < to; at++) {
    if (level.min[at] < low) low = level.min[at];
    if (level.max[at] > high) high = level.max[at];
  }
  return [low, high];
}

/** Return `count` peaks of the whole, lowest and highest by turns, for the overview. */
export function overviewPeaks(levels: readonly Level[], duration: number, count: number): Float32Array {
  const level = levelFor(levels, count / duration);
  const peaks = new Float32Array(2 * count);
  for (let at = 0; at < count; at++) {
    const range = rangeOf(level, (at * duration) / count, ((at + 1) * duration) / count);
    peaks[2 * at] = range?.[1] ?? 0;
    peaks[2 * at + 1] = range?.[0] ?? 0;
  }
  return peaks;
}
