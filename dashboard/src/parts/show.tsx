/** Small things that every page shows the same way: states, times, ids, text that is not ours. */
import { type ReactNode, useState, useSyncExternalStore } from "react";
import { Link } from "wouter";
import { now } from "../api/client";
import { absolute, clock, dateTime, duration, localTimes, relative, stateName } from "./format";
import { putOnClipboard } from "./clipboard";
import { inert, shorten } from "./text";

const TEXT_MAX = 2000;
const NAME_MAX = 100;

export function Badge({ state }: { state: string }) {
  const name = stateName(state);
  return <span className={`badge status-${name}`}>{name}</span>;
}

let second = Math.floor(now() / 1000);
const watchers = new Set<() => void>();
setInterval(() => {
  second = Math.floor(now() / 1000);
  watchers.forEach((tell) => tell());
}, 1000);

function watch(tell: () => void): () => void {
  watchers.add(tell);
  return () => void watchers.delete(tell);
}

/** The time by the server's clock, a new one each second. */
export function useNow(): number {
  return useSyncExternalStore(watch, () => second) * 1000;
}

/** "3 min ago", and the moment itself on hover. */
export function Ago({ ms }: { ms: number | null | undefined }) {
  const nowMs = useNow();
  if (ms == null) return <Nothing />;
  return (
    <time dateTime={new Date(ms).toISOString()} title={absolute(ms)} className="whitespace-nowrap">
      {relative(ms, nowMs)}
    </time>
  );
}

/** "10:30:05 3 min ago": for tables in which moments are compared. */
export function Clock({ ms, date = false }: { ms: number | null | undefined; date?: boolean }) {
  const nowMs = useNow();
  if (ms == null) return <Nothing />;
  return (
    <time dateTime={new Date(ms).toISOString()} title={absolute(ms)} className="whitespace-nowrap">
      {date ? dateTime(ms) : clock(ms)}{" "}
      <span className="text-dim text-xs">{relative(ms, nowMs)}</span>
    </time>
  );
}

/** How long something took, or has taken so far. */
export function Took({ from, to }: { from: number | null | undefined; to?: number | null }) {
  const nowMs = useNow();
  if (from == null) return <Nothing />;
  return (
    <span className="whitespace-nowrap">{duration((to ?? Math.max(nowMs, from)) - from)}</span>
  );
}

/** There is nothing to show here. */
export function Nothing() {
  return <span className="text-dim">-</span>;
}

export function Copy({ text, what }: { text: string; what: string }) {
  const [sign, setSign] = useState<"✓" | "✕" | null>(null);
  async function copy(button: HTMLElement) {
    setSign((await putOnClipboard(text, button)) ? "✓" : "✕");
    setTimeout(() => setSign(null), 1500);
  }
  // A whole spec is not read out as the name of its button.
  const name = text.length > NAME_MAX ? "" : ` ${inert(text)}`;
  return (
    <button
      type="button"
      onClick={(event) => void copy(event.currentTarget)}
      aria-label={`Copy ${what}${name}`}
      title={sign === "✕" ? "The browser did not allow it" : `Copy ${what}`}
      className="text-dim hover:text-ink ml-1 align-middle text-xs"
    >
      {sign ?? <CopySign />}
    </button>
  );
}

/** Two sheets, drawn: not every font has a sign for it. */
function CopySign() {
  return (
    <svg
      aria-hidden="true"
      viewBox="0 0 16 16"
      className="inline size-3 fill-none stroke-current"
      strokeWidth="1.5"
    >
      <rect x="1.5" y="4.5" width="9" height="10" rx="1.5" />
      <path d="M5 4.5v-1a2 2 0 0 1 2-2h5.5a2 2 0 0 1 2 2v6a2 2 0 0 1-2 2h-2" />
    </svg>
  );
}

/** An id that can be followed and copied. */
export function Id({ id, to, what = "id" }: { id: string; to?: string; what?: string }) {
  return (
    <span className="font-mono text-[0.8125rem] whitespace-nowrap">
      {to === undefined ? <bdi>{inert(id)}</bdi> : <Link href={to}>{inert(id)}</Link>}
      <Copy text={id} what={what} />
    </span>
  );
}

/**
 * Text that somebody else wrote: inert, in its own direction, cut where it is too long. It breaks
 * as its surroundings do: in a cell of a table with wrap-anywhere, so that it does not widen it.
 */
export function Said({ text, lengthMax = TEXT_MAX }: { text: string; lengthMax?: number }) {
  return <bdi>{shorten(inert(text), lengthMax)}</bdi>;
}

/** A sentence of the server's about what is to come: its moments are told in local time. */
export function Told({ text, lengthMax = TEXT_MAX }: { text: string; lengthMax?: number }) {
  return <Said text={localTimes(text, now())} lengthMax={lengthMax} />;
}

/** A block of text as it is: an error, an input, a spec. */
export function Block({ text, label }: { text: string; label: string }) {
  const [isWhole, setIsWhole] = useState(false);
  const shown = isWhole ? inert(text) : shorten(inert(text), 20_000);
  return (
    <div className="relative">
      <pre
        aria-label={label}
        tabIndex={0}
        dir="ltr"
        className="border-line bg-page max-h-96 overflow-auto rounded border p-3 font-mono text-xs break-words whitespace-pre-wrap"
      >
        {shown}
      </pre>
      <div className="absolute top-1 right-2">
        <Copy text={text} what={label} />
      </div>
      {text.length > 20_000 && !isWhole && (
        <button type="button" className="text-accent text-xs" onClick={() => setIsWhole(true)}>
          Show all {text.length.toLocaleString("en-US")} characters
        </button>
      )}
    </div>
  );
}

/** A name and what stands behind it, in a list of such. */
export function Fact({ name, children }: { name: string; children: ReactNode }) {
  return (
    <div className="min-w-0">
      <dt className="text-dim text-xs">{name}</dt>
      <dd className="min-w-0 wrap-anywhere">{children}</dd>
    </div>
  );
}

export function Facts({ children, isDense = false }: { children: ReactNode; isDense?: boolean }) {
  const columns = isDense ? "lg:grid-cols-5 xl:grid-cols-6" : "lg:grid-cols-4";
  return (
    <dl className={`grid grid-cols-2 gap-x-6 gap-y-2 sm:grid-cols-3 ${columns}`}>{children}</dl>
  );
}
