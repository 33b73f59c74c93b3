/** Text from users, logs and errors, made inert: what cannot be seen is made visible. */

// What terminals take as orders: colours and cursor moves, titles and links, other sequences.
// A title has an end on its own line, or it is none: nothing can hide the rest of a text.
const ESCAPES = new RegExp(
  // eslint-disable-next-line no-control-regex
  "\\u001b(?:\\[[0-?]*[ -/]*[@-~]|\\][^\\u0000-\\u001f]{0,4096}(?:\\u0007|\\u001b\\\\)|[ -/]*[0-~])",
  "g",
);
// Control characters but tab and newline; marks that turn the direction of text around, which
// could make a line read as another; what takes no room or is blank without being a space;
// halves of characters. A sign may say that it is meant as a picture.
const UNSEEN = new RegExp(
  "(?<!\\p{Extended_Pictographic})[\\ufe0e\\ufe0f]|" +
    "(?![\\t\\n\\ufe0e\\ufe0f])[\\p{Cc}\\p{Cf}\\p{Cs}\\p{Zl}\\p{Zp}" +
    "\\p{Default_Ignorable_Code_Point}\\u2800\\ufffc]",
  "gu",
);

export function withoutEscapes(text: string): string {
  return text.replace(ESCAPES, "");
}

/** Write each character that has no shape of its own as its code, like ‹202E›. */
export function visible(text: string): string {
  return text.replaceAll("\r\n", "\n").replace(UNSEEN, (mark) => {
    const code = mark.codePointAt(0) ?? 0;
    return `‹${code.toString(16).toUpperCase().padStart(2, "0")}›`;
  });
}

export function inert(text: string): string {
  return visible(withoutEscapes(text));
}

/** Cut a text that is too long to show, without cutting a character in two. */
export function shorten(text: string, lengthMax: number): string {
  if (text.length <= lengthMax) return text;
  const end = /[\ud800-\udbff]/.test(text.charAt(lengthMax - 1)) ? lengthMax - 1 : lengthMax;
  return `${text.slice(0, end)}…`;
}

/** JSON for people. */
export function pretty(value: unknown): string {
  return JSON.stringify(value, null, 2) ?? "null";
}

/** JSON for people who only look: what a codec has encoded is named, instead of shown. */
export function readable(value: unknown): string {
  const name = codecOf(value);
  if (name !== null) return encrypted(name);
  const plain = (_: string, inner: unknown): unknown => {
    const codec = codecOf(inner) ?? codecOfPickle(inner);
    return codec === null ? inner : encrypted(codec);
  };
  return JSON.stringify(value, plain, 2) ?? "null";
}

/** Tell by which codec a value was encoded; null if it can be read. */
export function codecOf(value: unknown): string | null {
  if (typeof value !== "object" || value === null) return null;
  const name = (value as Record<string, unknown>)["$holdfast_codec"];
  return typeof name === "string" ? name : null;
}

/** A pickle is a text, and so is one that was encoded. */
function codecOfPickle(value: unknown): string | null {
  if (typeof value !== "string" || !value.startsWith('{"$holdfast_codec":')) return null;
  try {
    return codecOf(JSON.parse(value));
  } catch {
    return null; // no payload, but a text that begins like one
  }
}

function encrypted(codec: string): string {
  return `encrypted by codec ${codec}`;
}
