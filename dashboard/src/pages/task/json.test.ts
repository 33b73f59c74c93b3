import { expect, test } from "vitest";
import { pretty } from "../../parts/text";
import { readJson } from "./json";

test("numbers are shown as they were written", () => {
  const text = '{\n  "id": 12345678901234567890,\n  "price": 1.10,\n  "n": 7\n}';
  const isExact = "rawJSON" in JSON;
  // A browser that cannot do it shows what JSON is to it, and nothing worse.
  expect(pretty(readJson(text))).toBe(isExact ? text : pretty(JSON.parse(text)));
});
