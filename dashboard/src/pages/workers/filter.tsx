/** Which workers are shown: by health, by words, the lost ones or not. All of it is in the address. */
import { useSearchParams } from "wouter";
import { count } from "../../parts/format";
import { useParam } from "../../parts/params";
import { inert } from "../../parts/text";
import type { Wanted } from "./fleet";
import { HEALTH } from "./health";

const LOOK = "border-line bg-page rounded-md border px-2 py-1";

export function useWanted(): Wanted {
  const [params] = useSearchParams();
  const read = (name: string) => params.get(name) ?? "";
  return {
    health: read("health"),
    text: read("text"),
    isLostShown: read("lost") === "shown",
    workerId: read("worker"),
  };
}

export function Filter({ lost }: { lost: number }) {
  const [health, setHealth] = useParam("health");
  const [isLostShown, setIsLostShown] = useParam("lost");
  const [params, setParams] = useSearchParams();
  function type(text: string) {
    const after = new URLSearchParams(params);
    if (text === "") after.delete("text");
    else after.set("text", text);
    // Not a step of its own: going back would take away one letter at a time.
    setParams(after, { replace: true });
  }
  const known: readonly string[] = HEALTH;
  return (
    <div role="search" aria-label="Workers" className="flex flex-wrap items-center gap-3">
      <input
        type="search"
        aria-label="Name, id, host, queue or attribute"
        placeholder="Name, id, host, queue, attribute"
        value={params.get("text") ?? ""}
        onChange={(event) => type(event.target.value)}
        className={`${LOOK} placeholder:text-dim w-full sm:w-72`}
      />
      <label className="flex items-center gap-2">
        <span className="text-dim">Health</span>
        <select value={health} onChange={(event) => setHealth(event.target.value)} className={LOOK}>
          <option value="">any</option>
          {(health === "" || known.includes(health) ? known : [...known, health]).map((one) => (
            <option key={one} value={one}>
              {inert(one)}
            </option>
          ))}
        </select>
      </label>
      {health === "" && (
        <label className="flex items-center gap-2">
          <input
            type="checkbox"
            checked={isLostShown === "shown"}
            onChange={(event) => setIsLostShown(event.target.checked ? "shown" : "")}
          />
          Show lost <span className="text-dim">({count(lost)})</span>
        </label>
      )}
    </div>
  );
}
