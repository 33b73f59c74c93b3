import { expect, test } from "vitest";
import { Order, type Part } from "./order";

const encode = (text: string) => new TextEncoder().encode(text);
const stretch = (offset: number, content: Uint8Array<ArrayBuffer>) => ({
  offset,
  content,
  at: 1000 + offset,
});
const said = (parts: Part[]) =>
  parts.map((part) => new TextDecoder().decode(part.content)).join("");

test("what comes early waits for what is before it", () => {
  const order = new Order(1000);
  expect(order.add(stretch(3, encode("def")), 0)).toEqual([]);
  expect(order.add(stretch(6, encode("ghi")), 0)).toEqual([]);
  const parts = order.add(stretch(0, encode("abc")), 500);
  expect([said(parts), parts.map((part) => part.missing)]).toEqual(["abcdefghi", [0, 0, 0]]);
  expect(parts.map((part) => part.at)).toEqual([1000, 1003, 1006]);
  // It has grown since, and comes again whole.
  expect(said(order.add(stretch(6, encode("ghijk")), 600))).toBe("jk");
  expect(order.add(stretch(0, encode("abc")), 700)).toEqual([]);
});

test("a gap is given up in the end, and what fills it then is said to be late", () => {
  const order = new Order(1000);
  expect(order.add(stretch(10, encode("later")), 0)).toEqual([]);
  expect(order.take(999)).toEqual([]);
  expect(order.take(1000).map(({ offset, missing }) => [offset, missing])).toEqual([[10, 10]]);
  const [late] = order.add(stretch(4, encode("mid")), 2000);
  expect(late).toMatchObject({ offset: 4, missing: 0, isLate: true });
  // Of what overlaps only what was not there is shown.
  expect(
    order.add(stretch(0, encode("0123mid789later!")), 3000).map((part) => said([part])),
  ).toEqual(["0123", "789", "!"]);
  expect(order.add(stretch(0, encode("0123mid789later!")), 4000)).toEqual([]);
});

test("at the end nothing waits", () => {
  const order = new Order(1000);
  order.add(stretch(2, encode("c")), 0);
  order.add(stretch(5, encode("f")), 0);
  expect(order.take(1, true).map((part) => [said([part]), part.missing])).toEqual([
    ["c", 2],
    ["f", 2],
  ]);
});

test("what a long log has not kept is not waited for", () => {
  const order = new Order(1000);
  order.add(stretch(0, encode("head")), 0);
  const [tail] = order.add(stretch(9 << 20, encode("tail")), 0);
  expect(tail).toMatchObject({ offset: 9 << 20, missing: (9 << 20) - 4 });
});

test("one that does not begin at its beginning waits for nothing before it", () => {
  const order = new Order(1000, 7);
  expect(order.add(stretch(7, encode("end")), 0).map(({ missing }) => missing)).toEqual([0]);
  const [late] = order.add(stretch(4, encode("mid")), 10);
  expect([late?.offset, late?.isLate]).toEqual([4, true]);
});
