/** The filters above the list. All of them stand in the address, and only there. */
import { type ReactNode, useState } from "react";
import { now } from "../../api/client";
import type { Job } from "../../api/types";
import { Button } from "../../parts/button";
import { Failure } from "../../parts/page";
import { inert, shorten } from "../../parts/text";
import { FIELD_LOOK, Labelled, TextField } from "./fields";
import {
  type Field,
  type Filters,
  fromLocal,
  JOB_STATES,
  type Problem,
  SINCE,
  sinceWords,
  statesOf,
  toAddress,
  toggleState,
  toLocal,
  UNSUCCESSFUL,
} from "./filters";

const DAY_MS = 86_400_000;

export function FilterBar({
  filters,
  jobs,
  problem,
  onChange,
  onClear,
}: {
  filters: Filters;
  /** What is shown now: names in it are suggested. */
  jobs: readonly Job[];
  problem: Problem | null;
  onChange: (changes: Filters) => void;
  onClear: () => void;
}) {
  const { state: _state, name: _name, ...others } = filters;
  const [isOpen, setIsOpen] = useState(Object.keys(others).length > 0);
  const text = (field: Field, label: string, rest: { hint?: string; suggest?: string[] } = {}) => (
    <TextField
      label={label}
      value={filters[field] ?? ""}
      onCommit={(value) => onChange({ [field]: value })}
      isWrong={problem?.field === field}
      {...rest}
    />
  );
  return (
    <section aria-label="Filters" className="flex min-w-0 flex-col gap-3">
      <StateChoice chosen={statesOf(filters)} onChoose={(state) => onChange({ state })} />
      <div className="grid grid-cols-2 items-end gap-2 sm:grid-cols-3 lg:grid-cols-6">
        {text("name", "Name begins with")}
        <Button className="sm:hidden" aria-expanded={isOpen} onClick={() => setIsOpen(!isOpen)}>
          {isOpen ? "Fewer filters" : "More filters"}
        </Button>
        <div className={`${isOpen ? "contents" : "hidden"} sm:contents`}>
          {text("type", "Type", { suggest: distinct(jobs.map((job) => job.type)) })}
          {text("queue", "Queue", { suggest: distinct(jobs.map((job) => job.queue ?? "")) })}
          {text("owner", "Owner", { suggest: distinct(jobs.map((job) => job.owner)) })}
          {text("label", "Label", {
            hint: "team=search",
            suggest: distinct(jobs.flatMap(labelsOf)),
          })}
          <TimeChoice filters={filters} problem={problem} onChange={onChange} />
        </div>
      </div>
      {Object.keys(filters).length > 0 && (
        <div className="flex flex-wrap items-center gap-2">
          {filters.parent !== undefined && (
            <Chip label="Show jobs of any parent" onDrop={() => onChange({ parent: "" })}>
              Child jobs of {inert(filters.parent)}
            </Chip>
          )}
          {filters.fingerprint !== undefined && (
            <Chip label="Show jobs with any error" onDrop={() => onChange({ fingerprint: "" })}>
              With one error: {shorten(inert(errorOf(jobs) ?? filters.fingerprint), 120)}
            </Chip>
          )}
          {filters.worker !== undefined && (
            <Chip label="Show jobs of any worker" onDrop={() => onChange({ worker: "" })}>
              Of late on worker {inert(filters.worker)}
            </Chip>
          )}
          <Button onClick={onClear}>Clear filters</Button>
        </div>
      )}
      {problem !== null && <Failure error={new Error(problem.message)} />}
    </section>
  );
}

/** The error that all of them have, but for what varies in it: as one of them says it. */
function errorOf(jobs: readonly Job[]): string | null {
  const [first] = (jobs[0]?.error ?? "").trim().split("\n");
  return first === undefined || first === "" ? null : first;
}

/** A filter that has no field; it can only be dropped. */
function Chip({
  label,
  onDrop,
  children,
}: {
  label: string;
  onDrop: () => void;
  children: ReactNode;
}) {
  return (
    <span className="bg-accent-soft min-w-0 rounded-md px-2 py-1 wrap-anywhere">
      {children}
      <button
        type="button"
        aria-label={label}
        className="text-dim hover:text-ink ml-2"
        onClick={onDrop}
      >
        ✕
      </button>
    </span>
  );
}

function labelsOf(job: Job): string[] {
  return Object.entries(job.labels).map(([key, value]) => `${key}=${value}`);
}

function distinct(values: string[]): string[] {
  return [...new Set(values)].filter((value) => value !== "").toSorted();
}

function StateChoice({
  chosen,
  onChoose,
}: {
  chosen: string[];
  onChoose: (state: string) => void;
}) {
  // One that is not of ours came with the address: it is shown, and the server says what it thinks.
  const states = [...new Set([...JOB_STATES, UNSUCCESSFUL, ...chosen])];
  return (
    <div
      role="group"
      aria-label="State"
      className="-m-1 flex gap-1.5 overflow-x-auto p-1 sm:flex-wrap"
    >
      <Choice name="any state" isChosen={chosen.length === 0} onChoose={() => onChoose("")} />
      {states.map((state) => (
        <Choice
          key={state}
          name={inert(state)}
          dot={`status-${state === UNSUCCESSFUL ? "failed" : state}`}
          isChosen={chosen.includes(state)}
          onChoose={() => onChoose(toggleState(chosen, state))}
        />
      ))}
    </div>
  );
}

function Choice({
  name,
  dot,
  isChosen,
  onChoose,
}: {
  name: string;
  dot?: string;
  isChosen: boolean;
  onChoose: () => void;
}) {
  const look = isChosen
    ? `badge ${dot ?? ""} border-transparent`
    : "border-line bg-panel hover:bg-hover text-ink";
  return (
    <button
      type="button"
      aria-pressed={isChosen}
      onClick={onChoose}
      className={`flex items-center gap-1.5 rounded-full border px-2.5 py-0.5 text-xs font-medium whitespace-nowrap ${look}`}
    >
      {dot !== undefined && !isChosen && (
        <span aria-hidden="true" className={`badge size-2 p-0! ${dot}`} />
      )}
      {name}
    </button>
  );
}

function TimeChoice({
  filters,
  problem,
  onChange,
}: {
  filters: Filters;
  problem: Problem | null;
  onChange: (changes: Filters) => void;
}) {
  const isBetween = filters.from !== undefined || filters.until !== undefined;
  const chosen = isBetween ? "between" : (filters.since ?? "");
  const choices = chosen === "" || isBetween || SINCE.includes(chosen) ? SINCE : [...SINCE, chosen];
  function choose(value: string) {
    if (value === "between") onChange({ since: "", from: toAddress(now() - DAY_MS) });
    else onChange({ since: value, from: "", until: "" });
  }
  const moment = (field: "from" | "until", label: string) => (
    <div className="col-span-2">
      <TextField
        type="datetime-local"
        label={label}
        value={toLocal(filters[field] ?? "")}
        onCommit={(value) => onChange({ [field]: fromLocal(value) })}
        isWrong={problem?.field === field || problem?.field === `submitted_${field}_ms`}
      />
    </div>
  );
  return (
    <>
      <Labelled label="Submitted">
        {(id) => (
          <select
            id={id}
            value={chosen}
            aria-invalid={problem?.field === "since" || undefined}
            onChange={(event) => choose(event.target.value)}
            className={FIELD_LOOK}
          >
            <option value="">at any time</option>
            {choices.map((since) => (
              <option key={since} value={since}>
                {inert(sinceWords(since))}
              </option>
            ))}
            <option value="between">between …</option>
          </select>
        )}
      </Labelled>
      {isBetween && moment("from", "From")}
      {isBetween && moment("until", "Until")}
    </>
  );
}
