/** A log: followed while it is written, searched, sifted by level. */
import { type RefObject, useEffect, useMemo, useRef, useState } from "react";
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

const MARGIN_PIXELS = 8;
/** So near to the end counts as the end. */
const END_PIXELS = 24;

export function LogView({ source }: { source: LogSource }) {
  const [lineParam] = useParam("line");
  const line = numberOf(lineParam);
  const [isFollowing, setIsFollowing] = useState(line === null);
  const [log, again, readBack] = useLog(source, !isFollowing, line);
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
    if (line === null) return setTarget(null);
    setTarget({ number: line });
    setIsFollowing(false);
  }, [line]);
  const section = useEndInSight(isFollowing, setIsFollowing);
  // What is looked for may stand anywhere.
  const isWanted =
    pattern !== null ||
    chosen !== "" ||
    (log.isNumbered && (target?.number ?? Infinity) <= log.leftOut);
  const { hasOlder, isReadingOlder, isRead, error } = log;
  useEffect(() => {
    if (isWanted && isRead && hasOlder && !isReadingOlder && error === null) readBack();
  }, [isWanted, isRead, hasOlder, isReadingOlder, error, readBack]);

  function go(number: number) {
    setIsFollowing(false);
    setTarget({ number });
  }
  const name = source.kind === "job" ? `job ${source.id}` : `${source.taskId}.${source.attempt}`;
  return (
    <section
      ref={section}
      aria-label={`Log of ${name}`}
      className="border-line bg-panel rounded-lg border"
    >
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
      {hasBefore(log) && <Older log={log} target={target} readBack={readBack} />}
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
            withNumbers={log.isNumbered}
            withTimes={isTimed}
            onFollow={setIsFollowing}
            onTop={hasOlder && !isReadingOlder ? readBack : null}
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
        {howMany(log, shown.length)}
        {log.isComplete ? "; the log is complete" : log.isRead ? "; more may come" : "; reading on"}
      </p>
    </section>
  );
}

function numberOf(text: string): number | null {
  const number = Number(text);
  return Number.isInteger(number) && number >= 1 ? number : null;
}

/** Of a log whose lines are not counted, lines stand before these until all have been read. */
function hasBefore({ leftOut, hasOlder, isNumbered, isTrimmed }: Log): boolean {
  return isNumbered ? leftOut > 0 : hasOlder || isTrimmed;
}

function howMany({ lines, leftOut, isNumbered, hasOlder }: Log, shown: number): string {
  if (shown < lines.length) return `${count(shown)} of ${plural(lines.length, "line")}`;
  if (!isNumbered) return `${hasOlder ? "the last " : ""}${plural(shown, "line")}`;
  if (leftOut === 0 || shown === 0) return plural(shown, "line");
  return `lines ${count(leftOut + 1)} to ${count(leftOut + shown)}`;
}

/** What stands before the lines that are shown. */
function Older({
  log: { leftOut, hasOlder, isReadingOlder, isNumbered },
  target,
  readBack,
}: {
  log: Log;
  target: Target | null;
  readBack: () => void;
}) {
  const isLost = target !== null && target.number <= leftOut;
  return (
    <p className="border-line text-dim border-b px-3 py-1 text-xs">
      {isNumbered ? plural(leftOut, "earlier line") : "Earlier lines"}
      {hasOlder ? (
        <button
          type="button"
          disabled={isReadingOlder}
          onClick={readBack}
          className="text-accent ml-2 hover:underline disabled:opacity-50"
        >
          {isReadingOlder ? "Reading …" : "Show earlier lines"}
        </button>
      ) : (
        ` ${leftOut === 1 ? "is" : "are"} left out${isLost ? `, line ${target.number} among them` : ""}. The download has them.`
      )}
    </p>
  );
}

/**
 * While a log is followed, its end stays in sight, also when it grows below the edge of the window;
 * whoever scrolls the page up, away from it, no longer follows.
 */
function useEndInSight(
  isFollowing: boolean,
  onFollow: (isFollowing: boolean) => void,
): RefObject<HTMLElement | null> {
  const section = useRef<HTMLElement>(null);
  useEffect(() => {
    const element = section.current;
    if (element === null || !isFollowing) return;
    let lastY = window.scrollY;
    const below = () => element.getBoundingClientRect().bottom - window.innerHeight;
    function show() {
      if (below() > 0) window.scrollBy({ top: below() + MARGIN_PIXELS, behavior: "instant" });
      lastY = window.scrollY;
    }
    function scrolled() {
      if (window.scrollY < lastY && below() > END_PIXELS) onFollow(false);
      lastY = window.scrollY;
    }
    const sizes = new ResizeObserver(show);
    sizes.observe(element);
    window.addEventListener("resize", show);
    window.addEventListener("scroll", scrolled, { passive: true });
    show();
    return () => {
      sizes.disconnect();
      window.removeEventListener("resize", show);
      window.removeEventListener("scroll", scrolled);
    };
  }, [isFollowing, onFollow]);
  return section;
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
