/** The output of one attempt in its own order, however it comes. */

/** Bytes to show: after a gap, or so late that what stood behind them has been shown. */
export type Part = {
  offset: number;
  content: Uint8Array<ArrayBuffer>;
  /** When they were stored. */
  at: number;
  /** Bytes before these that did not come. */
  missing: number;
  isLate: boolean;
};

/** Behind so many bytes of a long log some are not kept: nobody waits for those. */
export const HEAD_BYTES = 8 << 20;

type Stretch = { offset: number; content: Uint8Array<ArrayBuffer>; at: number };
type Early = Stretch & { cameAt: number };

/** What comes early waits for what is before it, but not for ever: some of it may never come. */
export class Order {
  #end = 0;
  #early: Early[] = [];
  #gaps: [from: number, to: number][] = [];

  /** What stands before its beginning is shown elsewhere, or late. */
  constructor(
    readonly patienceMs: number,
    begins = 0,
  ) {
    this.#end = begins;
    if (begins > 0) this.#gaps.push([0, begins]);
  }

  /** Take in a stretch; what was stored twice, after an answer that got lost, is taken once. */
  add(stretch: Stretch, nowMs: number): Part[] {
    const late = this.#fill(stretch);
    if (stretch.offset + stretch.content.length > this.#end) {
      this.#early.push({ ...stretch, cameAt: nowMs });
      this.#early.sort((a, b) => a.offset - b.offset);
    }
    return [...late, ...this.take(nowMs)];
  }

  /** What can be shown by now; all there is, if nothing more will come. */
  take(nowMs: number, isOver = false): Part[] {
    const parts: Part[] = [];
    for (let next = this.#early[0]; next !== undefined; next = this.#early[0]) {
      const { offset, content, at, cameAt } = next;
      const missing = Math.max(0, offset - this.#end);
      const isHopeless = isOver || offset > HEAD_BYTES;
      if (missing > 0 && !isHopeless && nowMs - cameAt < this.patienceMs) break;
      this.#early.shift();
      const unseen = content.subarray(Math.max(0, this.#end - offset));
      if (unseen.length === 0) continue;
      if (missing > 0) this.#gaps.push([this.#end, offset]);
      parts.push({ offset: this.#end + missing, content: unseen, at, missing, isLate: false });
      this.#end += missing + unseen.length;
    }
    return parts;
  }

  get isWaiting(): boolean {
    return this.#early.length > 0;
  }

  /** What of a stretch belongs into gaps that were given up. */
  #fill({ offset, content, at }: Stretch): Part[] {
    const end = offset + content.length;
    const touched = this.#gaps.filter(([from, to]) => offset < to && from < end);
    if (touched.length === 0) return [];
    this.#gaps = this.#gaps.flatMap((gap): [number, number][] => {
      const [from, to] = gap;
      if (!touched.includes(gap)) return [gap];
      const left: [number, number][] = [
        [from, offset],
        [end, to],
      ];
      return left.filter(([first, last]) => first < last);
    });
    return touched.map(([from, to]) => {
      const first = Math.max(from, offset);
      const filling = content.subarray(first - offset, Math.min(to, end) - offset);
      return { offset: first, content: filling, at, missing: 0, isLate: true };
    });
  }
}
