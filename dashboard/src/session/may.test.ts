import { expect, test } from "vitest";
import { ANYBODY, lackOf, scopeOf } from "./may";

const ann = { ...ANYBODY, name: "ann", roles: ["read", "data"] };

test("what a role is lacking for says which", () => {
  expect(lackOf(ann, "data")).toBeNull();
  expect(lackOf(ann, undefined)).toBeNull();
  expect(lackOf(ann, "submit")).toBe("This needs the role submit, which ann does not have.");
  expect(lackOf(ANYBODY, "admin")).toBeNull();
});

test("a scope names what it is for", () => {
  expect(scopeOf(ANYBODY)).toBeNull();
  expect(scopeOf({ ...ann, owners: ["search"] })).toBe("owner search");
  expect(scopeOf({ ...ann, owners: ["a", "b"], queues: ["gpu"] })).toBe(
    "owners a, b and queue gpu",
  );
});
