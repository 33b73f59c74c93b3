/** How much of what a worker has is taken: a bar each, and the numbers beside it. */
import type { Worker } from "../../api/types";
import { Nothing } from "../../parts/show";
import { inert } from "../../parts/text";
import { type Amount, amountsOf } from "./fleet";

export function Meters({ worker }: { worker: Worker }) {
  const amounts = amountsOf(worker);
  if (amounts.length === 0) return <Nothing />;
  return (
    <ul className="flex min-w-44 flex-col gap-1">
      {amounts.map((amount) => (
        <li key={amount.name} className="text-xs">
          <Meter {...amount} />
        </li>
      ))}
    </ul>
  );
}

function Meter({ name, used, capacity, text }: Amount) {
  const share = capacity === 0 ? 1 : Math.min(used / capacity, 1);
  return (
    <>
      <div className="flex justify-between gap-2">
        <span className="text-dim max-w-20 truncate" title={inert(name)}>
          {inert(name)}
        </span>
        <span className="whitespace-nowrap tabular-nums">{text}</span>
      </div>
      <div
        role="meter"
        aria-label={inert(name)}
        aria-valuemin={0}
        aria-valuemax={capacity}
        aria-valuenow={Math.min(used, capacity)}
        aria-valuetext={text}
        className="bg-line h-1 overflow-hidden rounded-full"
      >
        <div
          className={`h-full rounded-full ${share >= 0.9 ? "bg-warn" : "bg-accent"}`}
          style={{ width: `${share * 100}%` }}
        />
      </div>
    </>
  );
}
