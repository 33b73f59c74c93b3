import { expect, test } from "vitest";
import type { Parameter } from "../../api/types";
import { readArgument, readCall } from "./call";

function of(schema: object | null, rest: Partial<Parameter> = {}): Parameter {
  const plain = { name: "x", required: true, is_rest: false, positional_only: false };
  return { ...plain, annotation: null, default: null, schema: schema as never, ...rest };
}
const STR = of({ type: "string" });
const INT = of({ type: "integer" }, { annotation: "int" });

test.each([
  [STR, 'he said "hi"', '"he said \\"hi\\""'],
  [STR, '"quoted"', '"quoted"'],
  [STR, "5", '"5"'],
  [STR, "null", '"null"'],
  [STR, " ", '" "'],
  [of({ anyOf: [{ type: "string" }, { type: "null" }] }), "null", "null"],
  [of({ anyOf: [{ type: "string" }, { type: "integer" }] }), "5", "5"],
  [of({ enum: ["eu", "us"] }), "eu", '"eu"'],
  [INT, "12345678901234567890", "12345678901234567890"],
  [of({ type: "number" }), "5", "5"],
  [of(null), " [1, {}] ", "[1, {}]"],
])("%o takes %s as %s", (parameter, text, json) => {
  expect(readArgument(text, parameter)).toEqual({ json });
});

test("what cannot be is told at its field, with what to do", () => {
  expect(readArgument("", STR).problem).toContain('""');
  expect(readArgument("", of({}, { required: false }))).toEqual({});
  expect(readArgument("abc", INT).problem).toContain('needs its quotes: "abc"');
  expect(readArgument("[1]", INT).problem).toBe("This is a list; wanted is int.");
  expect(readArgument("abc", of(null)).problem).toContain("not JSON");
});

test("arguments go by name, those that must by position", () => {
  const a = of({ type: "string" }, { name: "a", positional_only: true });
  const b = of({ type: "integer" }, { name: 'b"', required: false });
  const rest = of(null, { name: "rest", is_rest: true, required: false });
  const call = (texts: Record<string, string>) => {
    const { entrypoint, problems } = readCall("m:f", [a, b, rest], texts);
    const { args, kwargs } = JSON.parse(entrypoint) as { args: unknown; kwargs: unknown };
    return { args, kwargs, problems };
  };
  expect(call({ a: "x", 'b"': "7" })).toEqual({ args: ["x"], kwargs: { 'b"': 7 }, problems: {} });
  expect(call({ a: "x", rest: '{"c": 1}' })).toEqual({
    args: ["x"],
    kwargs: { c: 1 },
    problems: {},
  });
  expect(call({ a: "x", 'b"': "7", rest: "[8, 9]" }).args).toEqual(["x", 7, 8, 9]);
  expect(Object.keys(call({ a: "x", rest: "[8]" }).problems)).toEqual(['b"']);
  expect(Object.keys(call({ a: "x", rest: "8" }).problems)).toEqual(["rest"]);
  expect(Object.keys(call({}).problems)).toEqual(["a"]);
});
