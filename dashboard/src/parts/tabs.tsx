import type { ReactNode } from "react";
import { useInSight } from "./in_sight";
import { useParam } from "./params";

/** Views of one thing, one at a time; which one stands in the address. */
export function Tabs({
  tabs,
  name = "tab",
}: {
  tabs: [id: string, title: ReactNode, () => ReactNode][];
  name?: string;
}) {
  const [chosen, choose] = useParam(name, tabs[0]?.[0]);
  const current = tabs.find(([id]) => id === chosen) ?? tabs[0];
  const row = useInSight<HTMLDivElement>(current?.[0] ?? "");
  return (
    <div className="flex min-w-0 flex-col gap-3">
      <div ref={row} role="tablist" className="border-line flex gap-1 overflow-x-auto border-b">
        {tabs.map(([id, title]) => {
          const isCurrent = id === current?.[0];
          return (
            <button
              key={id}
              type="button"
              role="tab"
              id={`${name}-${id}`}
              aria-selected={isCurrent}
              aria-controls={isCurrent ? `${name}-panel` : undefined}
              tabIndex={isCurrent ? 0 : -1}
              onClick={() => choose(id)}
              onKeyDown={(event) => {
                const step = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
                if (step === undefined) return;
                const at = tabs.findIndex(([other]) => other === id);
                const next = tabs[(at + step + tabs.length) % tabs.length]?.[0] ?? id;
                choose(next);
                document.getElementById(`${name}-${next}`)?.focus();
              }}
              className={`-mb-px border-b-2 px-3 py-2 whitespace-nowrap ${isCurrent ? "border-accent text-ink font-semibold" : "text-dim hover:text-ink border-transparent"}`}
            >
              {title}
            </button>
          );
        })}
      </div>
      <div role="tabpanel" id={`${name}-panel`} aria-labelledby={`${name}-${current?.[0]}`}>
        {current?.[2]()}
      </div>
    </div>
  );
}
