/** A replay that is asked for anywhere on the page; what became of it stays until it is dismissed. */
import { createContext, type ReactNode, use, useState } from "react";
import { plural } from "../../parts/format";
import type { Chosen } from "./actions";
import { type Answer, JobLinks, ReplayDialog, Waited } from "./replay";
import { useReadAgain } from "./reads";

/** Kept as it was when it was asked for: what is chosen changes as letters come and go. */
type Asked = { chosen: Chosen; isDry: boolean; onDone?: (() => void) | undefined };

const Ask = createContext<(asked: Asked) => void>(() => {});

export function useReplay() {
  return use(Ask);
}

/** Above the lists: what is replayed leaves them, and would take a dialog within them along. */
export function ReplayProvider({ children }: { children: ReactNode }) {
  const [asked, setAsked] = useState<Asked | null>(null);
  const [made, setMade] = useState<Answer | null>(null);
  const readAgain = useReadAgain();
  return (
    <Ask value={setAsked}>
      {made !== null && made.replays.length > 0 && (
        <Made answer={made} onDismiss={() => setMade(null)} />
      )}
      {children}
      {asked !== null && (
        <ReplayDialog
          chosen={asked.chosen}
          isDry={asked.isDry}
          onDone={(answer) => {
            setMade(answer);
            readAgain();
            asked.onDone?.();
          }}
          onClose={() => setAsked(null)}
        />
      )}
    </Ask>
  );
}

function Made({ answer, onDismiss }: { answer: Answer; onDismiss: () => void }) {
  const { replays } = answer;
  const tasks = replays.reduce((sum, each) => sum + each.task_ids.length, 0);
  const ids = replays.flatMap((each) => each.job_id ?? []);
  return (
    <div
      role="status"
      aria-label="The last replay"
      className="border-line bg-accent-soft flex items-start justify-between gap-3 rounded-lg border px-4 py-2"
    >
      <div className="min-w-0">
        <p>
          Replayed {plural(tasks, "task")} as <JobLinks ids={ids} />.
        </p>
        <Waited answer={answer} />
      </div>
      <button type="button" aria-label="Dismiss" className="text-dim" onClick={onDismiss}>
        ✕
      </button>
    </div>
  );
}
