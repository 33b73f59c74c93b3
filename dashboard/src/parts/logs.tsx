/** A log: followed while it is written, searched, sifted by level. */
import { useEffect, useMemo, useState } from "react";
import { countLevels } from "./log/buffer";
import { Download, Levels, Switch, useHabit } from "./log/controls";
import { Find, patternOf } from "./log/find";
import { Lines, type Target } from "./log/lines";
import type { LogSource } from "./log/read";
import { type Log, useLog } from "./log/use-log";
import { count, plural } from "./format";
import { Empty, Failure, Loading } from "./page";
import { useParam } from "./params";

export type { LogSource };

export function LogView({ source }: { source: LogSource }) {
  const [lineParam] = useParam("line");
  const [isFollowing, setIsFollowing] = useState(lineParam === "");
  const [log, again] = useLog(source, !isFollowing);
  const [isWrapped, switchWrap] = useHabit("wrap", true);
  const [isTimed, switchTimes] = useHabit("times", false);
  const [chosen, setChosen] = useParam("level");
  const [find] = useParam("find");
  const pattern = useMemo(() => patternOf(find), [find]);

  const counts = useMemo(() => countLevels(log.lines), [log.lines]);
  const shown = useMemo(() => {
    const levels = new Set(chosen.split(","));
    return chosen === "" ? log.lines : log.lines.filter((line) => levels.has(line.level));
  }, [log.lines, chosen]);
  const found = useMemo(
    () => (pattern ? shown.filter((line) => line.text.search(pattern) >= 0) : []),
    [shown, pattern],
  );
  const [target, setTarget] = useState<Target | null>(null);
  useEffect(() => {
    const number = Number(lineParam);
    if (!Number.isInteger(number) || number < 1) return setTarget(null);
    setTarget({ number });
    setIsFollowing(false);
  }, [lineParam]);

  function go(number: number) {
    setIsFollowing(false);
    setTarget({ number });
  }
  const name = source.kind === "job" ? `job ${source.id}` : `${source.taskId}.${source.attempt}`;
  const isLost = target !== null && target.number <= log.leftOut;
  return (
    <section aria-label={`Log of ${name}`} className="border-line bg-panel rounded-lg border">
      <div className="border-line flex flex-wrap items-center gap-2 border-b px-3 py-2">
        <Find found={found.map((line) => line.number)} at={target?.number} onGo={go} />
        <Levels counts={counts} chosen={chosen} onChoose={setChosen} />
        <div className="ml-auto flex flex-wrap gap-2">
          <Switch isOn={isFollowing} onSwitch={() => setIsFollowing(!isFollowing)}>
            Follow
          </Switch>
          <Switch isOn={isWrapped} onSwitch={switchWrap}>
            Wrap
          </Switch>
          <Switch isOn={isTimed} onSwitch={switchTimes}>
            Times
          </Switch>
          <Download source={source} />
        </div>
      </div>
      {log.error && <Failure error={log.error} retry={again} />}
      {log.leftOut > 0 && (
        <p className="border-line text-dim border-b px-3 py-1 text-xs">
          {plural(log.leftOut, "line")} before these {log.leftOut === 1 ? "is" : "are"} left out
          {isLost && `, line ${target.number} among them`}. The download has them.
        </p>
      )}
      {shown.length > 0 ? (
        <div className="relative">
          <Lines
            label={`Lines of the log of ${name}`}
            lines={shown}
            pattern={pattern}
            target={target}
            isWrapped={isWrapped}
            isFollowing={isFollowing}
            withTask={source.kind === "job"}
            withTimes={isTimed}
            onFollow={setIsFollowing}
          />
          {!isFollowing && (
            <button
              type="button"
              onClick={() => setIsFollowing(true)}
              className="border-line bg-panel text-ink hover:bg-hover absolute right-5 bottom-3 rounded-full border px-3 py-1 text-xs shadow"
            >
              ↓ Go to the end
            </button>
          )}
        </div>
      ) : (
        <NoLines log={log} />
      )}
      <p role="status" className="border-line text-dim border-t px-3 py-1 text-xs">
        {shown.length === log.lines.length
          ? plural(shown.length, "line")
          : `${count(shown.length)} of ${plural(log.lines.length, "line")}`}
        {log.isComplete ? "; the log is complete" : log.isRead ? "; more may come" : "; reading on"}
      </p>
    </section>
  );
}

function NoLines({ log }: { log: Log }) {
  if (log.lines.length > 0) return <Empty title="No line has one of the chosen levels." />;
  if (!log.isRead) return log.error ? null : <Loading what="the log" />;
  return (
    <Empty title={log.isComplete ? "Nothing was written." : "Nothing has been written yet."}>
      {!log.isComplete && <p>It is shown here as it comes.</p>}
    </Empty>
  );
}
