/** A limit in words, and how what was typed of one is read. */
import type { Limit } from "../../api/types";
import { count } from "../../parts/format";

export type Scope = "queue" | "type" | "owner" | "key" | "name";
export type Kind = "concurrency" | "bucket" | "window";
export const SCOPES: Record<Scope, string> = {
  queue: "each queue",
  type: "each type of job",
  owner: "each owner",
  key: "each concurrency key",
  name: "code that asks for it",
};
export const KINDS: Record<Kind, string> = {
  concurrency: "slots at once",
  bucket: "starts by a token bucket",
  window: "starts in a sliding window",
};

const PERIODS: [seconds: number, name: string][] = [
  [86_400, "day"],
  [3600, "hour"],
  [60, "minute"],
  [1, "second"],
];

/** What it allows: "5 at once", "100 per minute, bursts of 20". */
export function allows(limit: Pick<Limit, "kind" | "most" | "period" | "burst">): string {
  if (limit.kind === "concurrency") return `${count(limit.most)} at once`;
  const rate = `${count(limit.most)} ${per(limit.period ?? 1)}`;
  if (limit.kind === "window") return `${rate}, in any such time`;
  return limit.burst == null ? rate : `${rate}, bursts of ${count(limit.burst)}`;
}

function per(seconds: number): string {
  for (const [length, name] of PERIODS) {
    if (seconds === length) return `per ${name}`;
    if (seconds % length === 0) return `per ${count(seconds / length)} ${name}s`;
  }
  return `per ${seconds} seconds`;
}

/** For what: "each owner, in queue mail", "the key eu". */
export function appliesTo(
  limit: Pick<Limit, "scope" | "only_for" | "in_queue" | "in_type">,
): string {
  const scope = limit.scope as Scope;
  const whom =
    limit.only_for == null || scope === "name"
      ? SCOPES[scope]
      : `the ${scope} ${limit.only_for} alone`;
  const parts = [
    whom,
    limit.in_queue != null && `in queue ${limit.in_queue}`,
    limit.in_type != null && `for type ${limit.in_type}`,
  ];
  return parts.filter((part) => part !== false).join(", ");
}

export type Typed = {
  name: string;
  scope: Scope;
  kind: Kind;
  most: string;
  period: string;
  burst: string;
  onlyFor: string;
  inQueue: string;
  inType: string;
};

export type Problems = Partial<Record<keyof Typed, string>>;

/** The fields of a limit; problems by the field that has them. */
export function readTyped(typed: Typed): { body: LimitBody; problems: Problems } {
  const problems: Problems = {};
  const isRate = typed.kind !== "concurrency";
  if (typed.name.trim() === "") problems.name = "Give it a name.";
  const most = readNumber(typed.most);
  if (most === null || most < 0 || (!isRate && !Number.isInteger(most))) {
    problems.most = isRate ? "Give a number." : "Give a whole number; 0 starts nothing.";
  }
  const period = isRate ? readNumber(typed.period) : null;
  if (isRate && (period === null || period <= 0)) problems.period = "Give seconds, more than 0.";
  const hasBurst = typed.kind === "bucket" && typed.burst.trim() !== "";
  const burst = hasBurst ? readNumber(typed.burst) : null;
  if (hasBurst && (burst === null || burst <= 0)) problems.burst = "Give a number more than 0.";
  return {
    body: {
      scope: typed.scope,
      kind: typed.kind,
      most: most ?? 0,
      period,
      burst,
      only_for: typed.scope === "name" ? null : named(typed.onlyFor),
      in_queue: typed.scope === "name" ? null : named(typed.inQueue),
      in_type: typed.scope === "name" ? null : named(typed.inType),
    },
    problems,
  };
}

export type LimitBody = {
  scope: Scope;
  kind: Kind;
  most: number;
  period: number | null;
  burst: number | null;
  only_for: string | null;
  in_queue: string | null;
  in_type: string | null;
};

function readNumber(text: string): number | null {
  const value = Number(text.trim());
  return text.trim() === "" || !Number.isFinite(value) ? null : value;
}

function named(text: string): string | null {
  return text.trim() === "" ? null : text.trim();
}

export function typedOf(limit: Limit | null): Typed {
  return {
    name: limit?.name ?? "",
    scope: (limit?.scope as Scope | undefined) ?? "queue",
    kind: (limit?.kind as Kind | undefined) ?? "concurrency",
    most: limit === null ? "" : String(limit.most),
    period: limit?.period == null ? "1" : String(limit.period),
    burst: limit?.burst == null ? "" : String(limit.burst),
    onlyFor: limit?.only_for ?? "",
    inQueue: limit?.in_queue ?? "",
    inType: limit?.in_type ?? "",
  };
}
