import { expect, test } from "vitest";
import { codecOf, inert, pretty, readable, shorten, visible, withoutEscapes } from "./text";

const at = (...codes: number[]) => String.fromCodePoint(...codes);

test("orders to a terminal are left out", () => {
  const colours = "\u001b[1;31mred\u001b[0m \u001b[38;5;12mblue\u001b[m";
  expect(inert(colours)).toBe("red blue");
  expect(inert("\u001b[2J\u001b[Hup\u001b[3A\u001b[?25l")).toBe("up");
  expect(inert("\u001b(B\u001b7\u001bc\u001b=plain")).toBe("plain");
  expect(
    inert("\u001b]0;title\u0007\u001b]8;;http://x.example\u001b\\link\u001b]8;;\u001b\\"),
  ).toBe("link");
});

test("an order that does not end hides nothing", () => {
  expect(inert("\u001b]0;the rest\nof the error")).toBe("0;the rest\nof the error");
  expect(inert("\u001bPpayload")).toBe("payload");
  expect(inert("cut \u001b")).toBe("cut ‹1B›");
  expect(inert("\u001b\u001b[31m[31mx")).toBe("‹1B›[31mx");
});

test("what cannot be seen is written as its code", () => {
  expect(inert("a\u0000b\u0007c\u007fd\u009b31m")).toBe("a‹00›b‹07›c‹7F›d‹9B›31m");
  expect(inert("user\u202egpj.exe\u2066\u200f\u061c")).toBe("user‹202E›gpj.exe‹2066›‹200F›‹61C›");
  expect(inert("zero\u200bwidth\ufeff\u00ad\u2060")).toBe("zero‹200B›width‹FEFF›‹AD›‹2060›");
  expect(inert("\u3164\u115f\uffa0\u2800\u180e\u034f")).toBe("‹3164›‹115F›‹FFA0›‹2800›‹180E›‹34F›");
  expect(inert(`tag${at(0xe0041)}`)).toBe("tag‹E0041›");
  expect(inert("half \ud83d of one")).toBe("half ‹D83D› of one");
  expect(inert("line\u2028break")).toBe("line‹2028›break");
});

test("a return that would write over a line is seen, the end of a line is none", () => {
  expect(inert("bad\rgood")).toBe("bad‹0D›good");
  expect(inert("one\r\ntwo\r\n")).toBe("one\ntwo\n");
});

test("what can be seen stays as it is", () => {
  const texts = [
    "tab\tand\nline",
    "Grüße, 日本語, عربى, हिन्दी",
    "❤️ ✔︎ 😀",
    "<script>alert(1)</script>",
  ];
  for (const text of texts) expect(inert(text)).toBe(text);
  expect(inert("a\ufe0fb")).toBe("a‹FE0F›b");
});

test("what was made inert stays inert", () => {
  for (let code = 0; code <= 0xffff; code += 1) {
    const once = inert(`x${String.fromCharCode(code)}[31my`);
    if (visible(once) !== once || withoutEscapes(once) !== once) throw new Error(code.toString(16));
  }
});

test("a text that is made to take long does not", () => {
  const hostile = "\u001b]".repeat(500_000) + "\u001b[" + "1".repeat(1_000_000);
  expect(inert(hostile)).toBe("1".repeat(1_000_000));
});

test("a text is not cut within a character", () => {
  expect(shorten("ab😀", 3)).toBe("ab…");
  expect(shorten("ab😀", 4)).toBe("ab😀");
  expect(shorten("abc", 2)).toBe("ab…");
});

test("what a codec has encoded is named, wherever it stands", () => {
  const payload = { $holdfast_codec: "fernet", v: 1, data: "Z0FBQUFB" };
  expect(codecOf(payload)).toBe("fernet");
  expect(readable(payload)).toBe("encrypted by codec fernet");
  const spec = { entrypoint: { args: [payload, 7], pickle: JSON.stringify(payload) } };
  expect(readable(spec)).not.toContain("Z0FBQUFB");
  expect(readable(spec).match(/"encrypted by codec fernet"/g)).toHaveLength(2);
  // Whoever edits it gets what is there.
  expect(pretty(payload)).toContain("Z0FBQUFB");
});

test("what only looks like an encoded payload is shown as it is", () => {
  for (const value of [null, 7, "x", '{"$holdfast_codec":', { $holdfast_codec: 7 }, [1]]) {
    expect(codecOf(value)).toBeNull();
    expect(readable(value)).toBe(pretty(value));
  }
});
