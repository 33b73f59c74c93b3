/** JSON as it was written: numbers keep all their digits. */

type Raw = { rawJSON?: (text: string) => unknown };
type Reviver = (key: string, value: unknown, context?: { source?: string }) => unknown;

const { rawJSON } = JSON as Raw;

/** Read a JSON text; numbers that a browser would round stay as they are. */
export function readJson(text: string): unknown {
  const exact: Reviver = (_, value, context) => {
    const source = context?.source;
    const isRounded = typeof value === "number" && source !== undefined && String(value) !== source;
    return isRounded && rawJSON !== undefined ? rawJSON.call(JSON, source) : value;
  };
  return JSON.parse(text, exact as (key: string, value: unknown) => unknown);
}
