/** How grave a line of a log is, guessed from its own words. */

export const LEVELS = ["error", "warn", "info", "debug", "other"] as const;
export type Level = (typeof LEVELS)[number];

/** A level stands near the beginning, after a time and a name; later it is part of a sentence. */
const LOOK_AT_MAX = 160;

const NAMES: [Level, string][] = [
  ["error", "error|err|critical|crit|fatal|panic|alert|emerg|severe"],
  ["warn", "warn|warning"],
  ["info", "info|notice|information"],
  ["debug", "debug|trace|verbose|fine"],
];
const BY_NAME = new Map(
  NAMES.flatMap(([level, names]) => names.split("|").map((name) => [name, level] as const)),
);
const ANY = [...BY_NAME.keys()].join("|");

// {"level":"error"}, level=warn, severity: INFO
const FIELD = new RegExp(`\\b(?:level|severity|lvl|levelname)"?\\s*[:=]\\s*"?(${ANY})\\b`, "i");
// [error], error: at the very beginning in any case; elsewhere only in capitals, as loggers do.
const FIRST = new RegExp(`^\\W*(${ANY})(?:[\\]>):|]|\\s*$)`, "i");
const CAPITALS = new RegExp(`(?<![\\w-])(${ANY.toUpperCase()})(?![\\w-])`);
const RAISED =
  /^(?:Traceback \(most recent call last\)|(?:[a-z_]\w*\.)*[A-Z]\w*(?:Error|Exception)\b)/;

export function levelOf(line: string): Level | null {
  const start = line.length > LOOK_AT_MAX ? line.slice(0, LOOK_AT_MAX) : line;
  const isObject = start.startsWith("{");
  // A JSON line may name its level last.
  const field = FIELD.exec(isObject ? line.slice(0, 4000) : start);
  const found = field ?? (isObject ? null : (FIRST.exec(start) ?? CAPITALS.exec(start)));
  if (found !== null) return BY_NAME.get((found[1] ?? "").toLowerCase()) ?? null;
  return RAISED.test(start) ? "error" : null;
}

/** The level of a line after another: what is set in belongs to the line above. */
export function levelAfter(line: string, before: Level): Level {
  return levelOf(line) ?? (/^\s/.test(line) ? before : "other");
}
