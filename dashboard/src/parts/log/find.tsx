/** Find a text in a log, and go from one line that has it to the next. */
import { useEffect, useState } from "react";
import { count, plural } from "../format";
import { useParam } from "../params";

const TYPING_MS = 200;

/** The pattern is one group, so that a text split by it keeps what was found. */
export function patternOf(find: string): RegExp | null {
  return find === ""
    ? null
    : new RegExp(`(${find.replaceAll(/[\\^$.*+?()[\]{}|/]/g, "\\$&")})`, "iu");
}

export function Find({
  found,
  at,
  onGo,
}: {
  found: number[];
  at: number | undefined;
  onGo: (number: number) => void;
}) {
  const [find, setFind] = useParam("find", "", { replace: true });
  const [text, setText] = useState(find);
  useEffect(() => {
    if (text === find) return;
    const typing = setTimeout(() => setFind(text), TYPING_MS);
    return () => clearTimeout(typing);
  }, [text, find, setFind]);
  const here = at === undefined ? -1 : found.indexOf(at);

  function go(step: 1 | -1) {
    if (found.length === 0) return;
    let next = (here + step + found.length) % found.length;
    if (here === -1) {
      // From a line that is no match, or from the end, to the nearest one.
      const after = at === undefined ? -1 : found.findIndex((number) => number > at);
      const nearest = after === -1 ? (step === 1 ? 0 : found.length - 1) : after;
      next = step === 1 || after === -1 ? nearest : (after - 1 + found.length) % found.length;
    }
    const number = found[next];
    if (number !== undefined) onGo(number);
  }
  return (
    <div role="search" aria-label="In the log" className="flex items-center gap-1">
      <input
        type="search"
        value={text}
        aria-label="Find in the log"
        placeholder="Find"
        onChange={(event) => setText(event.target.value)}
        onKeyDown={(event) => {
          if (event.key === "Enter") go(event.shiftKey ? -1 : 1);
          if (event.key === "Escape") event.currentTarget.blur();
        }}
        className="border-line bg-page placeholder:text-dim w-40 rounded-md border px-2 py-1"
      />
      {find !== "" && (
        <>
          <span role="status" className="text-dim px-1 text-xs whitespace-nowrap">
            {found.length === 0
              ? "not found"
              : `${here === -1 ? "" : `${count(here + 1)} of `}${plural(found.length, "line")}`}
          </span>
          <Step name="Previous match" sign="↑" onStep={() => go(-1)} />
          <Step name="Next match" sign="↓" onStep={() => go(1)} />
        </>
      )}
    </div>
  );
}

function Step({ name, sign, onStep }: { name: string; sign: string; onStep: () => void }) {
  return (
    <button
      type="button"
      aria-label={name}
      title={name}
      onClick={onStep}
      className="border-line hover:bg-hover rounded border px-2 py-0.5"
    >
      {sign}
    </button>
  );
}
