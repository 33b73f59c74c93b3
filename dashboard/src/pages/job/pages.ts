/** Rows in pages: which of them are in sight, and where what was read belongs. */

export const PAGE_TASKS = 100;

export type Sight = { first: number; last: number };

/** The pages that a stretch of rows lies on. */
export function pagesOf({ first, last }: Sight, total: number): number[] {
  const end = Math.min(last, Math.max(total - 1, 0));
  const from = Math.floor(Math.min(first, end) / PAGE_TASKS);
  return Array.from({ length: Math.floor(end / PAGE_TASKS) - from + 1 }, (_, step) => from + step);
}

/** Put pages of items in their places among all rows; what has not been read is undefined. */
export function placed<Item>(
  total: number,
  pages: number[],
  read: (readonly Item[] | undefined)[],
): (Item | undefined)[] {
  const rows = Array.from<Item | undefined>({ length: total });
  pages.forEach((page, at) => {
    read[at]?.forEach((item, index) => {
      if (page * PAGE_TASKS + index < total) rows[page * PAGE_TASKS + index] = item;
    });
  });
  return rows;
}
