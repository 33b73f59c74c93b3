/** How a replay goes: how many of them first, and for a single one with which input. */
import { Button } from "../../parts/button";
import { duration } from "../../parts/format";
import { pretty } from "../../parts/text";
import { readJson } from "../task/json";
import { useInput } from "../task/reads";

/** How many go first; none unless it is a whole number. */
export function readCanary(text: string): number | null {
  return /^[0-9]{1,6}$/.test(text.trim()) ? Number(text) : null;
}

export function Canary({ text, onChange }: { text: string; onChange: (text: string) => void }) {
  return (
    <label className="flex flex-wrap items-baseline gap-2">
      Canary:
      <input
        type="number"
        min={1}
        value={text}
        onChange={(event) => onChange(event.target.value)}
        className="border-line bg-panel w-20 rounded border px-2 py-1"
      />
      go first, the rest if they succeed (empty: no canary)
    </label>
  );
}

/** How many start in a second; none unless it is a number above zero. */
export function readRate(text: string): number | null {
  const rate = Number(text);
  return text.trim() !== "" && Number.isFinite(rate) && rate > 0 ? rate : null;
}

export function Rate({ text, onChange }: { text: string; onChange: (text: string) => void }) {
  return (
    <label className="flex flex-wrap items-baseline gap-2">
      Pace:
      <input
        type="number"
        min={0}
        step="any"
        value={text}
        onChange={(event) => onChange(event.target.value)}
        className="border-line bg-panel w-20 rounded border px-2 py-1"
      />
      tasks a second (empty: all at once)
    </label>
  );
}

/** When the tasks of a job of the replay start, in words. */
export function tellStart(
  made: { is_canary: boolean; start_delay: number | null },
  hasCanary: boolean,
): string {
  const first = made.is_canary ? "first" : hasCanary ? "after the canary" : "";
  const delay = made.start_delay ? `after ${duration(made.start_delay * 1000)}` : "";
  return [first, delay].filter((each) => each !== "").join(", ") || "at once";
}

/** The input that a dead letter gets instead of its own; null while it keeps that. */
export function EditedInput({
  taskId,
  text,
  onChange,
}: {
  taskId: string;
  text: string | null;
  onChange: (text: string | null) => void;
}) {
  const own = useInput(taskId);
  if (own.data === undefined) return null;
  const { input } = readJson(own.data) as { input: unknown };
  if (input === null) return null;
  if (text === null) {
    return (
      <div>
        <Button onClick={() => onChange(pretty(input))}>Edit the input …</Button>
      </div>
    );
  }
  const problem = findProblem(text);
  return (
    <div className="flex flex-col gap-2">
      <label className="flex flex-col gap-1">
        Input of the new task, as JSON
        <textarea
          value={text}
          rows={8}
          spellCheck={false}
          onChange={(event) => onChange(event.target.value)}
          aria-invalid={problem !== null}
          aria-describedby="input-problem"
          className="border-line bg-page rounded border p-2 font-mono text-xs"
        />
      </label>
      <p id="input-problem" role="status" className="text-bad">
        {problem}
      </p>
      <div>
        <Button onClick={() => onChange(null)}>Use its own input</Button>
      </div>
    </div>
  );
}

export function findProblem(text: string | null): string | null {
  if (text === null) return null;
  try {
    JSON.parse(text);
    return null;
  } catch (error) {
    return `This is not JSON: ${error instanceof Error ? error.message : String(error)}`;
  }
}
