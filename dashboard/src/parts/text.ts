/** Text from users, logs and errors, made inert: what cannot be seen is made visible. */

// Terminal colours and cursor moves say nothing here. C0 but tab and newline, DEL, C1, and the
// marks that turn the direction of text around, which could make a line read as another.
// eslint-disable-next-line no-control-regex
const ESCAPES = /\u001b(?:\[[0-?]*[ -/]*[@-~]|\][^\u0007\u001b]*(?:\u0007|\u001b\\)?|[@-Z\\-_])/g;
const UNSEEN = new RegExp(
  "[\\u0000-\\u0008\\u000b-\\u001f\\u007f-\\u009f\\u00ad\\u061c\\u200b-\\u200f" +
    "\\u2028-\\u202e\\u2060-\\u206f\\ufeff\\ufff9-\\ufffb]",
  "g",
);

export function withoutEscapes(text: string): string {
  return text.replace(ESCAPES, "");
}

/** Write each character that has no shape of its own as its code, like ‹202E›. */
export function visible(text: string): string {
  return text.replace(UNSEEN, (mark) =>
    mark === "\r" ? "" : `‹${mark.charCodeAt(0).toString(16).toUpperCase().padStart(2, "0")}›`,
  );
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

/** JSON for people; a text that is JSON already is not quoted again. */
export function pretty(value: unknown): string {
  return JSON.stringify(value, null, 2) ?? "null";
}
