/** What the charts draw, made from what the server has counted step by step. */
import type { Overview } from "../../api/types";

export type Values = (number | null)[];
export type Pace = { seconds: number; name: string };

/** Counts come in every few seconds: a step this young says little about its pace. */
const UNSURE_SECONDS = 15;

const MARKS_MAX = 6;

const SECOND: Pace = { seconds: 1, name: "second" };
const MINUTE: Pace = { seconds: 60, name: "minute" };
const HOUR: Pace = { seconds: 3600, name: "hour" };

/** How many a second there were in each step; the last one is not over yet. */
export function perSecond(values: Values, overview: Overview): Values {
  const { step_seconds: step, now_ms: nowMs, series } = overview;
  return values.map((value, index) => {
    if (value === null) return null;
    const passed = (nowMs - (series.at_ms[index] ?? 0)) / 1000;
    if (passed >= step) return value / step;
    return passed < UNSURE_SECONDS ? null : value / passed;
  });
}

/** The shortest time within which at least one happens, where most happens. */
export function paceOf(...lists: Values[]): Pace {
  const most = Math.max(0, ...lists.flat().map((value) => value ?? 0));
  if (most === 0) return MINUTE;
  return [SECOND, MINUTE].find((pace) => most * pace.seconds >= 1) ?? HOUR;
}

export function times(values: Values, factor: number): Values {
  return values.map((value) => (value === null ? null : value * factor));
}

/** What is less is drawn as that: an axis by multiples has no zero. */
export function atLeast(values: Values, least: number): Values {
  return least === 0
    ? values
    : values.map((value) => (value === null ? null : Math.max(value, least)));
}

/** The marks of an axis that lie within it, every second one where there are too many. */
export function within(marks: number[], min: number, max: number): number[] {
  const seen = marks.filter((mark) => mark >= min && mark <= max);
  const step = Math.ceil(seen.length / MARKS_MAX);
  return seen.filter((_, index) => index % step === 0);
}

export function newest(values: Values): number | null {
  return values.findLast((value) => value !== null) ?? null;
}

export function hasAny(...lists: Values[]): boolean {
  return lists.some((values) => values.some((value) => value !== null));
}

/** Values without a neighbour: no line leads to them, so they are drawn as points. */
export function lonely(values: Values): number[] {
  return values.flatMap((value, index) => {
    const isAlone = (values[index - 1] ?? null) === null && (values[index + 1] ?? null) === null;
    return value !== null && isAlone ? [index] : [];
  });
}

/** Whole numbers are said whole, small ones with what matters of them: 1,204, 12.6, 0.043. */
export function number(value: number): string {
  if (value >= 100 || Number.isInteger(value)) return Math.round(value).toLocaleString("en-US");
  return String(Number(value.toPrecision(value < 1 ? 2 : 3)));
}
