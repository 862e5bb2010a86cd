// A stretch of an Ogg Opus file as a small file of its own, so that an hour is never decoded at once.

const CAPTURE = 0x4f676753; // "OggS"
const RATE = 48000;

interface OggPage {
  at: number;
  length: number;
  /** Samples at 48 kHz until the end of this page, what precedes the sound taken away. */
  end: number;
}

export class OggOpus {
  private constructor(
    private readonly bytes: Uint8Array<ArrayBuffer>,
    private readonly headLength: number,
    private readonly pages: readonly OggPage[],
  ) {}

  /** Return the index of an Ogg file with one Opus stream; null where it is another. */
  static read(bytes: Uint8Array<ArrayBuffer>): OggOpus | null {
    const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
    const pages: OggPage[] = [];
    let at = 0;
    let headLength = 0;
    let skip = -1;
    let serial = 0;
    while (at + 27 <= bytes.length && view.getUint32(at) === CAPTURE) {
      const segments = bytes[at + 26];
      let length = 27 + segments;
      for (let of = 0; of < segments; of++) length += bytes[at + 27 + of];
      const granule = Number(view.getBigInt64(at + 6, true));
      if (skip < 0) {
        const body = at + 27 + segments;
        if (String.fromCharCode(...bytes.subarray(body, body + 8)) !== "OpusHead") return null;
        serial = view.getUint32(at + 14, true);
        skip = view.getUint16(body + 10, true);
      } else if (view.getUint32(at + 14, true) !== serial) {
        return null;
      } else if (granule > 0) {
        if (!pages.length) headLength = at;
        pages.push({ at, length, end: granule - skip });
      } else if (pages.length) {
        pages[pages.length - 1].length += length;
      }
      at += length;
    }
    return pages.length ? new OggOpus(bytes, headLength, pages) : null;
  }

  /** Return a file of the pages that hold [start, end) seconds with 80 ms before them, and the second it ends at. */
  cut(start: number, end: number): { file: ArrayBuffer; end: number } {
    const from = Math.max(0, this.pages.findIndex((page) => page.end > (start - 0.1) * RATE));
    let to = this.pages.findIndex((page) => page.end >= end * RATE);
    if (to < 0) to = this.pages.length - 1;
    const first = this.pages[from];
    const last = this.pages[to];
    const begin = from === 0 ? this.headLength : first.at;
    const file = new Uint8Array(this.headLength + last.at + last.length - begin);
    file.set(this.bytes.subarray(0, this.headLength));
    file.set(this.bytes.subarray(begin, last.at + last.length), this.headLength);
    return { file: file.buffer, end: last.end / RATE };
  }
}
