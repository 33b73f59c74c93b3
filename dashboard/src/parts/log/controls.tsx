/** What can be set about a log: levels, wrapping, and a file of it. */
import { type ReactNode, useState } from "react";
import { count } from "../format";
import { LEVELS, type Level } from "./levels";
import { download, type LogSource } from "./read";

export function Levels({
  counts,
  chosen,
  onChoose,
}: {
  counts: Record<Level, number>;
  chosen: string;
  onChoose: (levels: string) => void;
}) {
  const levels = new Set(chosen.split(",").filter((level) => level !== ""));
  function flip(level: Level) {
    const after = new Set(levels);
    if (!after.delete(level)) after.add(level);
    onChoose([...after].join(","));
  }
  return (
    <div role="group" aria-label="Levels" className="flex flex-wrap gap-1">
      {LEVELS.filter((level) => counts[level] > 0 || levels.has(level)).map((level) => (
        <Switch key={level} isOn={levels.has(level)} onSwitch={() => flip(level)}>
          {level} <span className="text-dim">{count(counts[level])}</span>
        </Switch>
      ))}
    </div>
  );
}

export function Switch({
  isOn,
  onSwitch,
  children,
}: {
  isOn: boolean;
  onSwitch: () => void;
  children: ReactNode;
}) {
  return (
    <button
      type="button"
      aria-pressed={isOn}
      onClick={onSwitch}
      className={`rounded-full border px-2.5 py-0.5 text-xs ${isOn ? "border-accent bg-accent-soft text-ink" : "border-line text-dim hover:text-ink"}`}
    >
      {children}
    </button>
  );
}

export function Download({ source }: { source: LogSource }) {
  const [told, setTold] = useState("");
  const [isBusy, setIsBusy] = useState(false);
  async function run() {
    setIsBusy(true);
    try {
      setTold(await download(source));
    } catch (problem) {
      setTold(problem instanceof Error ? problem.message : String(problem));
    } finally {
      setIsBusy(false);
    }
  }
  return (
    <>
      <button
        type="button"
        disabled={isBusy}
        onClick={() => void run()}
        className="text-accent text-xs hover:underline disabled:opacity-50"
      >
        {isBusy ? "Reading …" : "Download"}
      </button>
      {told !== "" && (
        <span role="status" className="text-dim text-xs">
          {told}
        </span>
      )}
    </>
  );
}

/** Whether long lines are wrapped, or times shown, is a habit, not a part of what is looked at. */
export function useHabit(
  name: "wrap" | "times",
  usual: boolean,
): [isOn: boolean, flip: () => void] {
  const key = `holdfast-${name}`;
  const [isOn, setIsOn] = useState(() => (localStorage.getItem(key) ?? yesOrNo(usual)) === "yes");
  return [
    isOn,
    () => {
      localStorage.setItem(key, yesOrNo(!isOn));
      setIsOn(!isOn);
    },
  ];
}

function yesOrNo(isSo: boolean): string {
  return isSo ? "yes" : "no";
}
