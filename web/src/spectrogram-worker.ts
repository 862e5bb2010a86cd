// Computes spectrograms beside the page: one column a pixel, in decibels as bytes.

export interface SpectrogramRequest {
  id: number;
  samples: Float32Array;
  rate: number;
  /** Columns, and rows from 0 Hz to `top` Hz. */
  width: number;
  height: number;
  top: number;
  /** The length of the Gaussian window in seconds, as Praat counts it. */
  window: number;
}

export interface SpectrogramAnswer {
  id: number;
  values: Uint8ClampedArray<ArrayBuffer>;
  width: number;
  height: number;
}

const RANGE_DB = 55;

/** Transform `re` and `im` in place; their length is a power of two, `cos` and `sin` a turn of as many steps. */
function fft(re: Float32Array, im: Float32Array, cos: Float32Array, sin: Float32Array): void {
  const n = re.length;
  for (let i = 1, j = 0; i < n; i++) {
    let bit = n >> 1;
    for (; j & bit; bit >>= 1) j ^= bit;
    j ^= bit;
    if (i < j) {
      [re[i], re[j]] = [re[j], re[i]];
      [im[i], im[j]] = [im[j], im[i]];
    }
  }
  for (let size = 2; size <= n; size *= 2) {
    const half = size / 2;
    const step = n / size;
    for (let k = 0; k < half; k++) {
      const wr = cos[k * step];
      const wi = -sin[k * step];
      for (let i = k; i < n; i += size) {
        const j = i + half;
        const xr = re[j] * wr - im[j] * wi;
        const xi = re[j] * wi + im[j] * wr;
        re[j] = re[i] - xr;
        im[j] = im[i] - xi;
        re[i] += xr;
        im[i] += xi;
      }
    }
  }
}

function computed(asked: SpectrogramRequest): SpectrogramAnswer {
  const { samples, rate, width, height, top } = asked;
  const length = 2 * Math.round(asked.window * rate);
  let size = 512;
  while (size < length || (size * top) / rate < height) size *= 2;
  const shape = Float32Array.from({ length }, (_, at) => Math.exp(-12 * ((at + 0.5) / length - 0.5) ** 2));
  const cos = Float32Array.from({ length: size }, (_, at) => Math.cos((2 * Math.PI * at) / size));
  const sin = Float32Array.from({ length: size }, (_, at) => Math.sin((2 * Math.PI * at) / size));
  const re = new Float32Array(size);
  const im = new Float32Array(size);
  const decibels = new Float32Array(width * height);
  const hop = samples.length / width;
  const of = Math.min(3, Math.max(1, Math.round(hop / (length / 4))));
  let loudest = -Infinity;
  for (let column = 0; column < width; column++) {
    for (let part = 0; part < of; part++) {
      const from = Math.round((column + (part + 0.5) / of) * hop - length / 2);
      re.fill(0);
      im.fill(0);
      for (let at = 0; at < length; at++) {
        const place = from + at;
        // The difference of samples lifts high sounds by 6 dB an octave.
        if (place > 0 && place < samples.length) re[at] = (samples[place] - 0.97 * samples[place - 1]) * shape[at];
      }
      fft(re, im, cos, sin);
      for (let row = 0; row < height; row++) {
        const bin = ((row + 0.5) / height) * (top / rate) * size;
        const low = Math.min(size / 2 - 1, Math.floor(bin));
        const share = bin - low;
        const power =
          (1 - share) * (re[low] ** 2 + im[low] ** 2) + share * (re[low + 1] ** 2 + im[low + 1] ** 2);
        decibels[(height - 1 - row) * width + column] += power / of;
      }
    }
  }
  for (let at = 0; at < decibels.length; at++) {
    decibels[at] = 10 * Math.log10(decibels[at] + 1e-12);
    if (decibels[at] > loudest) loudest = decibels[at];
  }
  const floor = Math.max(loudest, -25) - RANGE_DB;
  const values = new Uint8ClampedArray(decibels.length);
  for (let at = 0; at < decibels.length; at++) values[at] = (255 * (decibels[at] - floor)) / RANGE_DB;
  return { id: asked.id, values, width, height };
}

const scope = self as unknown as {
  onmessage: (event: MessageEvent<SpectrogramRequest>) => void;
  postMessage(answer: SpectrogramAnswer, move: ArrayBuffer[]): void;
};
scope.onmessage = (event) => {
  const answer = computed(event.data);
  scope.postMessage(answer, [answer.values.buffer]);
};
