/** What was typed into the fields of a function's parameters, as a call of it. */
import type { Parameter } from "../../api/types";

/** A JSON text, as it was typed: a number of twenty digits keeps them all. */
type Json = string;
export type Problems = Record<string, string>;
type Schema = { type?: string; enum?: unknown[]; anyOf?: Schema[] };

const WORDS: Record<string, string> = {
  array: "a list",
  boolean: "true or false",
  integer: "a whole number",
  null: "null",
  number: "a number",
  object: "an object",
  string: "a text",
};

/** Read one field; what is empty is left out, and the function's default counts. */
export function readArgument(
  text: string,
  parameter: Parameter,
): { json?: Json | undefined; problem?: string } {
  const typed = text.trim();
  if (text === "") {
    return parameter.required ? { problem: 'Give a value; an empty text is written "".' } : {};
  }
  const kinds = kindsOf((parameter.schema ?? {}) as Schema);
  const found = parse(typed);
  if (found !== undefined && (kinds === null || isAmong(found.value, kinds))) {
    return { json: typed };
  }
  // Where a text is wanted, it needs no quotes, and 5 is a text as well.
  if (kinds?.has("string")) return { json: JSON.stringify(text) };
  if (found === undefined) {
    return { problem: `This is not JSON. A text needs its quotes: ${JSON.stringify(typed)}` };
  }
  const wanted = parameter.annotation ?? [...(kinds ?? [])].map((kind) => WORDS[kind]).join(" or ");
  return { problem: `This is ${WORDS[kindOf(found.value)]}; wanted is ${wanted}.` };
}

/** Read all fields: the entrypoint as JSON, or what is wrong with which field. */
export function readCall(
  path: string,
  parameters: readonly Parameter[],
  texts: Readonly<Record<string, string>>,
): { entrypoint: Json; problems: Problems } {
  const problems: Problems = {};
  const args: Json[] = [];
  const kwargs = new Map<string, Json>();
  // Further arguments by position need all before them to be given so as well.
  const further = parameters.findIndex((each) => each.is_rest && isList(texts[each.name]));
  parameters.forEach((parameter, place) => {
    const { name } = parameter;
    const { json, problem } = readOne(texts[name] ?? "", parameter);
    if (problem !== undefined) problems[name] = problem;
    const isByPosition = parameter.positional_only || place < further;
    if (json === undefined) {
      if (isByPosition && isAnyGivenAfter(parameters, place, further, texts)) {
        problems[name] ??= "Give a value: others are given by position after it.";
      }
    } else if (parameter.is_rest && isList(json)) args.push(...partsOf(json));
    else if (parameter.is_rest) entriesOf(json).forEach(([key, value]) => kwargs.set(key, value));
    else if (isByPosition) args.push(json);
    else kwargs.set(name, json);
  });
  const named = [...kwargs].map(([name, json]) => `${JSON.stringify(name)}:${json}`).join();
  const entrypoint = `{"function":${JSON.stringify(path)},"args":[${args.join()}],"kwargs":{${named}}}`;
  return { entrypoint, problems };
}

function readOne(text: string, parameter: Parameter): ReturnType<typeof readArgument> {
  if (!parameter.is_rest) return readArgument(text, parameter);
  if (text.trim() === "") return {};
  const found = parse(text);
  if (found !== undefined && typeof found.value === "object" && found.value !== null) {
    return { json: text.trim() };
  }
  return { problem: 'Write further arguments as a list, [1, 2], or by name, {"a": 1}.' };
}

function isAnyGivenAfter(
  parameters: readonly Parameter[],
  place: number,
  further: number,
  texts: Readonly<Record<string, string>>,
): boolean {
  return parameters.some(
    (each, other) =>
      other > place &&
      (each.positional_only || other <= further) &&
      (texts[each.name] ?? "") !== "",
  );
}

function isList(text: string | undefined): boolean {
  return text !== undefined && text.trim().startsWith("[");
}

/** Numbers in further arguments are a browser's: they are written anew. */
function partsOf(json: Json): Json[] {
  return (JSON.parse(json) as unknown[]).map((value) => JSON.stringify(value));
}

function entriesOf(json: Json): [string, Json][] {
  const found = Object.entries(JSON.parse(json) as Record<string, unknown>);
  return found.map(([key, value]) => [key, JSON.stringify(value)]);
}

function parse(text: string): { value: unknown } | undefined {
  try {
    return { value: JSON.parse(text) };
  } catch {
    return undefined;
  }
}

/** Which kinds of JSON a schema takes; null where it does not say. */
function kindsOf({ type, enum: values, anyOf }: Schema): Set<string> | null {
  if (type !== undefined) return new Set([type]);
  if (values !== undefined) return new Set(values.map(kindOf));
  if (anyOf === undefined) return null;
  const all = anyOf.map(kindsOf);
  return all.includes(null) ? null : new Set(all.flatMap((kinds) => [...(kinds ?? [])]));
}

function kindOf(value: unknown): string {
  if (value === null) return "null";
  if (Array.isArray(value)) return "array";
  if (typeof value === "number") return Number.isInteger(value) ? "integer" : "number";
  return typeof value;
}

function isAmong(value: unknown, kinds: Set<string>): boolean {
  const kind = kindOf(value);
  return kinds.has(kind) || (kind === "integer" && kinds.has("number"));
}
