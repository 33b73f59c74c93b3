/** A field that chooses among the versions of a dataset that can be read. */
import { type Dataset, useVersions } from "./reads";

export function VersionChoice({
  dataset,
  name,
  value,
  onChange,
}: {
  dataset: Dataset;
  name: string;
  value: string;
  onChange: (version: string) => void;
}) {
  const query = useVersions(dataset.name);
  const known = (query.data?.pages.flatMap((page) => page.versions) ?? [])
    .filter((version) => version.state !== "dropped")
    .map((version) => String(version.version));
  // One that is old is not among the first that are read, and may be asked for all the same.
  const choices = known.includes(value) || value === "" ? known : [...known, value];
  return (
    <label className="flex items-center gap-2">
      <span className="text-dim text-xs">{name}</span>
      <select
        value={value}
        onChange={(event) => onChange(event.target.value)}
        className="border-line bg-panel rounded-md border px-2 py-1"
      >
        {choices.map((version) => (
          <option key={version} value={version}>
            {version === String(dataset.current_version) ? `${version} (current)` : version}
          </option>
        ))}
      </select>
    </label>
  );
}
