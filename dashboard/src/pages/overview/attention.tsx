/** What somebody should look at, the worst first, each with the way to it. */
import { Link } from "wouter";
import type { Overview } from "../../api/types";
import { Mark } from "../../parts/mark";
import { Panel } from "../../parts/page";
import { Said } from "../../parts/show";

type Attention = Overview["attention"][number];

const KINDS: Record<string, string> = {
  failing_type: "Failing jobs",
  dead_letters: "Dead letters",
  queue_stalled: "Queue",
  worker_lost: "Worker",
};

export function AttentionList({ attention }: { attention: Attention[] }) {
  return (
    <Panel title="Needs attention" flush>
      {attention.length === 0 ? (
        <p className="text-dim px-4 py-3">Nothing needs attention.</p>
      ) : (
        <ul>
          {attention.map((one) => (
            <li
              key={`${one.kind} ${one.subject}`}
              className="border-line hover:bg-hover flex flex-wrap items-baseline sm:flex-nowrap gap-x-3 gap-y-1 border-b px-4 py-2 last:border-b-0"
            >
              <span className="w-16 shrink-0">
                <Mark tone={one.severity === "critical" ? "bad" : "warn"}>{one.severity}</Mark>
              </span>
              <span className="min-w-0">
                <span className="text-dim">{KINDS[one.kind] ?? one.kind}</span>{" "}
                <Link href={placeOf(one)} className="font-medium">
                  <Said text={one.subject} lengthMax={120} />
                </Link>
                : <Said text={one.message} />
              </span>
            </li>
          ))}
        </ul>
      )}
    </Panel>
  );
}

export function placeOf({ kind, subject }: Pick<Attention, "kind" | "subject">): string {
  const named = encodeURIComponent(subject);
  if (kind === "failing_type") return `/jobs?type=${named}&state=failed`;
  if (kind === "dead_letters") return `/dead-letters?reason=${named}`;
  if (kind === "queue_stalled") return `/queues?queue=${named}`;
  return `/workers?worker=${named}`;
}
