/** Which dead letters are shown: kept in the address, set by fields and by links of the matrix. */
import { type ReactNode, useMemo } from "react";
import { useSearchParams } from "wouter";

const REASONS = [
  "exhausted_retries",
  "validation_failed",
  "parse_error",
  "timeout",
  "dependency_unavailable",
  "infrastructure_failure",
  "policy_violation",
  "compensation_failed",
];
export const STAGES = ["fetch", "input", "exec", "output", "commit"];

export type Filter = {
  reason: string;
  stage: string;
  type: string;
  queue: string;
  job: string;
  settled: string;
  /** The fingerprint of their error. */
  group: string;
};
/** What else the address tells: the order and the page of the list, and the letter that is open. */
type Place = Filter & { order: string; page: string; task: string };

export function useLettersPlace(): [place: Place, change: (changes: Partial<Place>) => void] {
  const [params, setParams] = useSearchParams();
  const place = useMemo(() => {
    const read = (name: string) => params.get(name) ?? "";
    return {
      reason: read("reason"),
      stage: read("stage"),
      type: read("type"),
      queue: read("queue"),
      job: read("job"),
      settled: read("settled"),
      page: read("page"),
      task: read("task"),
      group: read("group"),
      order: read("order"),
    };
  }, [params]);
  return [place, (changes) => setParams(written({ ...place, ...changes }))];
}

function written(place: Place): URLSearchParams {
  return new URLSearchParams(Object.entries(place).filter(([, value]) => value !== ""));
}

/** The address of a part of the letters; the page of a list belongs to one filter alone. */
export function lettersAddress(place: Place, changes: Partial<Place>): string {
  const params = written({ ...place, page: "", task: "", group: "", ...changes }).toString();
  return params === "" ? "/dead-letters" : `/dead-letters?${params}`;
}

/** The filter as the API has it; what is empty is left out. */
export function asked({ reason, stage, type, queue, job, group }: Filter) {
  return {
    ...(reason && { reason_code: reason }),
    ...(stage && { stage }),
    ...(type && { type }),
    ...(queue && { queue }),
    ...(job && { job_id: job }),
    ...(group && { fingerprint: group }),
  };
}

export function describe(filter: Filter): string {
  const parts = [
    filter.reason && `reason ${filter.reason}`,
    filter.stage && `stage ${filter.stage}`,
    filter.type && `type ${filter.type}`,
    filter.queue && `queue ${filter.queue}`,
    filter.job && `of job ${filter.job}`,
    filter.group && "of one kind of error",
  ].filter(Boolean);
  return parts.length === 0 ? "all" : parts.join(", ");
}

export function Filters({
  place,
  onChange,
}: {
  place: Place;
  onChange: (changes: Partial<Place>) => void;
}) {
  const set = (changes: Partial<Place>) => onChange({ page: "", task: "", ...changes });
  const isFiltered = describe(place) !== "all";
  return (
    <form
      role="search"
      aria-label="Filter dead letters"
      className="grid grid-cols-2 items-end gap-x-3 gap-y-2 sm:flex sm:flex-wrap"
      onSubmit={(event) => event.preventDefault()}
    >
      <Choice
        name="Reason"
        value={place.reason}
        all={REASONS}
        onChange={(reason) => set({ reason })}
      />
      <Choice name="Stage" value={place.stage} all={STAGES} onChange={(stage) => set({ stage })} />
      <Text name="Type" value={place.type} onChange={(type) => set({ type })} />
      <Text name="Queue" value={place.queue} onChange={(queue) => set({ queue })} />
      <Text name="Job" value={place.job} onChange={(job) => set({ job })} isShort />
      <label className="flex items-center gap-2 py-1.5">
        <input
          type="checkbox"
          checked={place.settled === "1"}
          onChange={(event) => set({ settled: event.target.checked ? "1" : "" })}
        />
        Settled, too
      </label>
      {isFiltered && (
        <button
          type="button"
          className="text-accent py-1.5 text-left"
          onClick={() => set({ reason: "", stage: "", type: "", queue: "", job: "", group: "" })}
        >
          Clear
        </button>
      )}
    </form>
  );
}

const FIELD = "h-8 border-line bg-panel w-full rounded-md border px-2 py-1";

function Field({ name, children }: { name: string; children: ReactNode }) {
  return (
    <label className="flex min-w-0 flex-col gap-0.5">
      <span className="text-dim text-xs">{name}</span>
      {children}
    </label>
  );
}

function Choice(props: {
  name: string;
  value: string;
  all: string[];
  onChange: (value: string) => void;
}) {
  const { name, value, all, onChange } = props;
  return (
    <Field name={name}>
      <select value={value} onChange={(event) => onChange(event.target.value)} className={FIELD}>
        <option value="">any</option>
        {/* An address may name one that is none; the server says so. */}
        {(value === "" || all.includes(value) ? all : [...all, value]).map((one) => (
          <option key={one}>{one}</option>
        ))}
      </select>
    </Field>
  );
}

/** Taken over by Enter, or when the field is left: exact names match nothing while half typed. */
function Text(props: {
  name: string;
  value: string;
  onChange: (value: string) => void;
  isShort?: boolean;
}) {
  const { name, value, onChange, isShort = false } = props;
  const take = (input: HTMLInputElement) => {
    const text = input.value.trim();
    if (text !== value) onChange(text);
  };
  return (
    <Field name={name}>
      <input
        key={value}
        defaultValue={value}
        placeholder="any"
        onBlur={(event) => take(event.currentTarget)}
        onKeyDown={(event) => event.key === "Enter" && take(event.currentTarget)}
        className={`${FIELD} placeholder:text-dim ${isShort ? "sm:w-24" : "sm:w-36"}`}
      />
    </Field>
  );
}
