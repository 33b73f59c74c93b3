import { type RefObject, useEffect, useRef } from "react";

/** Where a row of choices is wider than the screen, scroll to the chosen one; not the page. */
export function useInSight<Row extends HTMLElement>(chosen: string): RefObject<Row | null> {
  const row = useRef<Row>(null);
  useEffect(() => {
    const box = row.current;
    const choice = box?.querySelector<HTMLElement>("[aria-current=page], [aria-selected=true]");
    if (box == null || choice == null) return;
    const [outer, inner] = [box.getBoundingClientRect(), choice.getBoundingClientRect()];
    const isCut = inner.left < outer.left || inner.right > outer.right;
    if (isCut) box.scrollLeft += (inner.left + inner.right - outer.left - outer.right) / 2;
  }, [chosen]);
  return row;
}
