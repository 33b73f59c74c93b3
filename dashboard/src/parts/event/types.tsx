/** The types of events, to choose one from. */

const TYPES =
  `submitted claimed placed building started succeeded failed killed worker_failed retried
  unschedulable dead_lettered cancel_requested replayed compensated`.split(/\s+/);
/** Beside the log: listed only where one asks for them. */
const NOTES = ["user", "lease_renewed", "heartbeat", "progress"];

export function TypeChoice({
  value,
  onChoose,
}: {
  value: string;
  onChoose: (type: string) => void;
}) {
  return (
    <select
      value={value}
      onChange={(event) => onChoose(event.target.value)}
      className="border-line bg-page text-ink rounded-md border px-2 py-1 text-sm"
    >
      <option value="">all</option>
      {TYPES.map((name) => (
        <option key={name}>{name}</option>
      ))}
      <optgroup label="Notes beside the log">
        {NOTES.map((name) => (
          <option key={name}>{name}</option>
        ))}
      </optgroup>
    </select>
  );
}
