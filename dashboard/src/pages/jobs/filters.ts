/** Filters of the list: what stands in the address, and what the server is asked. */
import type { paths } from "../../api/schema";

export type JobQuery = NonNullable<paths["/api/jobs"]["get"]["parameters"]["query"]>;

const FIELDS = [
  "state",
  "name",
  "type",
  "queue",
  "owner",
  "label",
  "parent",
  "worker",
  "since",
  "from",
  "until",
  "fingerprint",
] as const;
export type Field = (typeof FIELDS)[number];
/** As they stand in the address; what is not asked for is left out. */
export type Filters = Partial<Record<Field, string>>;

/** The states that a job can be in, in the order of its life. */
export const JOB_STATES = [
  "pending",
  "running",
  "succeeded",
  "failed",
  "dead_lettered",
  "killed",
  "worker_failed",
  "unschedulable",
];

/** What the server takes for every end but the good one. */
export const UNSUCCESSFUL = "unsuccessful";
const NOT_UNSUCCESSFUL = ["pending", "running", "succeeded"];

/** The states that an address names: one, several with commas between them, or none for any. */
export function statesOf(filters: Filters): string[] {
  return (filters.state ?? "").split(",").filter((state) => state !== "");
}

/** Choose one more, or one less; "unsuccessful" stands in the place of those that it holds. */
export function toggleState(chosen: readonly string[], state: string): string {
  if (chosen.includes(state)) return chosen.filter((one) => one !== state).join(",");
  const isHeld = (one: string) => !NOT_UNSUCCESSFUL.includes(one);
  const kept = chosen.filter((one) =>
    state === UNSUCCESSFUL ? !isHeld(one) : one !== UNSUCCESSFUL || !isHeld(state),
  );
  return [...kept, state].join(",");
}

/** What can be chosen instead of two moments. */
export const SINCE = ["15m", "1h", "24h", "7d"];

const UNITS = {
  m: ["min", 60_000],
  h: ["h", 3_600_000],
  d: ["days", 86_400_000],
} as const;

export function readFilters(params: URLSearchParams): Filters {
  const filters: Filters = {};
  for (const field of FIELDS) {
    const value = params.get(field);
    if (value) filters[field] = value;
  }
  return filters;
}

/** The address with some filters changed: an empty one is left out, and the pages begin anew. */
export function withFilters(params: URLSearchParams, changes: Filters): URLSearchParams {
  const after = new URLSearchParams(params);
  after.delete("page");
  for (const [field, value] of Object.entries(changes)) {
    if (value === "") after.delete(field);
    else after.set(field, value);
  }
  return after;
}

export function withoutFilters(params: URLSearchParams): URLSearchParams {
  return withFilters(params, Object.fromEntries(FIELDS.map((field) => [field, ""])));
}

export type Problem = { field: string | null; message: string };

/** What is wrong with the filters that only the dashboard knows; the server judges the others. */
export function problemOf(filters: Filters): Problem | null {
  if (filters.since !== undefined && sinceMs(filters.since) === null) {
    return { field: "since", message: `since: '${filters.since}' is no time; write it like 1h` };
  }
  for (const field of ["from", "until"] as const) {
    const value = filters[field];
    if (value !== undefined && Number.isNaN(Date.parse(value))) {
      const message = `${field}: '${value}' is no time; write it like 2026-01-15T10:30Z`;
      return { field, message };
    }
  }
  return null;
}

/** Ask the server for it; "since" means a new moment each time. */
export function toQuery(filters: Filters, nowMs: number): JobQuery {
  const { since, from, until, state, ...same } = filters;
  const ago = since === undefined ? null : sinceMs(since);
  return {
    ...same,
    ...(state !== undefined && { state: state.toUpperCase() }),
    ...(from !== undefined && { submitted_from_ms: Date.parse(from) }),
    ...(ago !== null && { submitted_from_ms: Math.max(0, nowMs - ago) }),
    ...(until !== undefined && { submitted_until_ms: Date.parse(until) }),
  };
}

function sinceMs(text: string): number | null {
  const [, amount, unit] = /^(\d{1,6})([mhd])$/.exec(text) ?? [];
  return amount === undefined ? null : Number(amount) * UNITS[unit as keyof typeof UNITS][1];
}

/** "last 15 min" for 15m. */
export function sinceWords(text: string): string {
  const [, amount, unit] = /^(\d{1,6})([mhd])$/.exec(text) ?? [];
  return amount === undefined ? text : `last ${amount} ${UNITS[unit as keyof typeof UNITS][0]}`;
}

/** A moment as an address has it, the same for readers in all time zones: 2026-01-15T10:30Z. */
export function toAddress(moment: number): string {
  return `${new Date(moment).toISOString().slice(0, 16)}Z`;
}

/** What a field for local time takes; "" if the address holds no moment. */
export function toLocal(address: string): string {
  const moment = Date.parse(address);
  if (Number.isNaN(moment)) return "";
  const offset = new Date(moment).getTimezoneOffset() * 60_000;
  return new Date(moment - offset).toISOString().slice(0, 16);
}

/** What somebody entered as local time, for the address; "" if it is not whole. */
export function fromLocal(local: string): string {
  const moment = Date.parse(local);
  return Number.isNaN(moment) ? "" : toAddress(moment);
}
