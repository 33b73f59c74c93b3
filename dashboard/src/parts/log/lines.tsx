/** The lines of a log, those in sight drawn; it stays at the end until one scrolls up. */
import { useVirtualizer } from "@tanstack/react-virtual";
import { useCallback, useEffect, useLayoutEffect, useRef, useState } from "react";
import { Link, useLocation, useSearchParams } from "wouter";
import { absolute, count, instant } from "../format";
import { shorten } from "../text";
import type { Line } from "./buffer";
import type { Level } from "./levels";

const LINE_PIXELS = 20;
/** So near to the end counts as the end. */
const END_PIXELS = 24;
/** So near to the first line, what stands before it is read. */
const TOP_PIXELS = 400;
const CUT_AT = 4000;
/** So much is shown before and after what was found behind the cut. */
const FOUND_AROUND = 300;
/** Marked in one line; odd, so that the rest of the line is not marked. */
const PARTS_MAX = 1001;

const COLOURS: Record<Level, string> = {
  error: "text-bad",
  warn: "text-warn",
  info: "",
  debug: "text-dim",
  other: "",
};

/** A line to bring into sight; a new object each time it is asked for. */
export type Target = { number: number };

export function Lines({
  label,
  lines,
  pattern,
  target,
  isWrapped,
  isFollowing,
  withTask,
  withNumbers,
  withTimes,
  onFollow,
  onTop,
}: {
  label: string;
  lines: readonly Line[];
  /** What is found is marked. */
  pattern: RegExp | null;
  target: Target | null;
  isWrapped: boolean;
  isFollowing: boolean;
  withTask: boolean;
  withNumbers: boolean;
  withTimes: boolean;
  onFollow: (isFollowing: boolean) => void;
  /** Near the first line: there are more before it. */
  onTop: (() => void) | null;
}) {
  const box = useRef<HTMLDivElement>(null);
  const [whole, setWhole] = useState<ReadonlySet<number>>(new Set());
  const virtual = useVirtualizer({
    count: lines.length,
    getScrollElement: () => box.current,
    estimateSize: () => LINE_PIXELS,
    getItemKey: useCallback((index: number) => lines[index]?.number ?? index, [lines]),
    overscan: 20,
  });
  const items = virtual.getVirtualItems();
  const total = virtual.getTotalSize();
  const lastTop = useRef(0);

  useLayoutEffect(() => {
    const element = box.current;
    if (!isFollowing || element === null) return;
    element.scrollTop = element.scrollHeight;
    lastTop.current = element.scrollTop;
  }, [isFollowing, lines, total, isWrapped]);

  // Lines that come before those in sight move nothing.
  const firstNumber = lines[0]?.number ?? 1;
  const lastFirst = useRef(firstNumber);
  useLayoutEffect(() => {
    const element = box.current;
    const before = lastFirst.current;
    lastFirst.current = firstNumber;
    if (isFollowing || element === null || firstNumber >= before) return;
    const index = latest.current.findIndex((line) => line.number >= before);
    element.scrollTop += virtual.measurementsCache[index]?.start ?? index * LINE_PIXELS;
    lastTop.current = element.scrollTop;
  }, [firstNumber, isFollowing, virtual]);

  const latest = useRef(lines);
  latest.current = lines;
  const isThere = target !== null && lines.some((line) => line.number === target.number);
  useEffect(() => {
    if (!isThere) return;
    const index = latest.current.findIndex((line) => line.number === target?.number);
    virtual.scrollToIndex(index, { align: "center" });
    box.current?.scrollIntoView({ block: "nearest", behavior: "instant" });
  }, [virtual, target, isThere]);

  function scrolled() {
    const element = box.current;
    if (element === null) return;
    const fromEnd = element.scrollHeight - element.scrollTop - element.clientHeight;
    // At the end because somebody went there, not because lines came before those in sight.
    if (fromEnd <= END_PIXELS && element.scrollTop > lastTop.current) onFollow(true);
    else if (element.scrollTop < lastTop.current) onFollow(false);
    if (element.scrollTop < TOP_PIXELS && element.scrollTop < lastTop.current) onTop?.();
    lastTop.current = element.scrollTop;
  }

  const first = items[0]?.start ?? 0;
  const end = items[items.length - 1]?.end ?? 0;
  return (
    <div
      ref={box}
      role="region"
      aria-label={label}
      tabIndex={0}
      dir="ltr"
      onScroll={scrolled}
      className="bg-page max-h-[70dvh] overflow-auto font-mono text-xs leading-5"
    >
      <div
        className={isWrapped ? "" : "w-max min-w-full"}
        style={{ paddingTop: first, paddingBottom: total - end }}
      >
        {items.map(({ index, key }) => {
          const line = lines[index];
          return (
            line && (
              <LogLine
                key={key}
                index={index}
                measure={virtual.measureElement}
                line={line}
                pattern={pattern}
                isTarget={line.number === target?.number}
                isWrapped={isWrapped}
                isWhole={whole.has(line.number)}
                onWhole={() => setWhole(new Set([...whole, line.number]))}
                withTask={withTask}
                withNumbers={withNumbers}
                withTimes={withTimes}
              />
            )
          );
        })}
      </div>
    </div>
  );
}

function LogLine({
  index,
  measure,
  line,
  pattern,
  isTarget,
  isWrapped,
  isWhole,
  onWhole,
  withTask,
  withNumbers,
  withTimes,
}: {
  index: number;
  measure: (element: HTMLElement | null) => void;
  line: Line;
  pattern: RegExp | null;
  isTarget: boolean;
  isWrapped: boolean;
  isWhole: boolean;
  onWhole: () => void;
  withTask: boolean;
  withNumbers: boolean;
  withTimes: boolean;
}) {
  const { number, text, level, writer, at } = line;
  const isLong = text.length > CUT_AT;
  const isCut = isLong && !isWhole;
  // A whole long line is wrapped in any case: no browser scrolls a million characters sideways.
  const isBroken = isWrapped || (isLong && isWhole);
  return (
    <div
      ref={measure}
      data-index={index}
      className={`flex min-h-5 items-start ${isTarget ? "bg-accent-soft" : "hover:bg-hover"}`}
    >
      {withNumbers ? (
        <LineNumber
          number={number}
          attempt={withTask ? null : writer.attempt}
          isTarget={isTarget}
        />
      ) : (
        <span className="w-3 shrink-0" />
      )}
      {withTimes && at !== undefined && (
        <time
          dateTime={new Date(at).toISOString()}
          title={absolute(at)}
          className="text-dim mr-2 shrink-0 tabular-nums select-none"
        >
          {instant(at)}
        </time>
      )}
      {withTask && (
        <Link
          href={`/tasks/${writer.taskId}?tab=logs&attempt=${writer.attempt}`}
          title={`Task ${writer.taskId}, attempt ${writer.attempt}`}
          className="text-dim mr-2 shrink-0"
        >
          {writer.taskId}
          {writer.attempt > 0 && `.${writer.attempt}`}
        </Link>
      )}
      <bdi
        dir="ltr"
        className={`min-w-0 flex-1 pr-3 ${COLOURS[level]} ${isBroken ? "wrap-anywhere whitespace-pre-wrap" : "whitespace-pre"}`}
      >
        <Marked text={isCut ? cut(text, pattern) : text} pattern={pattern} />
        {isCut && (
          <button type="button" onClick={onWhole} className="text-accent ml-1 font-sans underline">
            show all {count(text.length)} characters
          </button>
        )}
      </bdi>
    </div>
  );
}

/** The beginning of a long line; or the place where something was found, if it stands behind. */
function cut(text: string, pattern: RegExp | null): string {
  const place = pattern === null ? -1 : text.search(pattern);
  if (place < CUT_AT - FOUND_AROUND) return shorten(text, CUT_AT);
  return `…${shorten(text.slice(place - FOUND_AROUND), 2 * FOUND_AROUND)}`;
}

/** The number of a line leads to the line, also when there has been another attempt since. */
function LineNumber({
  number,
  attempt,
  isTarget,
}: {
  number: number;
  attempt: number | null;
  isTarget: boolean;
}) {
  const [place] = useLocation();
  const [params] = useSearchParams();
  const there = new URLSearchParams(params);
  there.set("line", String(number));
  if (attempt !== null) there.set("attempt", String(attempt));
  return (
    <Link
      href={`${place}?${there}`}
      aria-label={`Line ${number}`}
      aria-current={isTarget || undefined}
      className="text-dim hover:text-ink w-16 shrink-0 pr-3 text-right select-none"
    >
      {number}
    </Link>
  );
}

function Marked({ text, pattern }: { text: string; pattern: RegExp | null }) {
  if (pattern === null) return text;
  // The pattern is one group: what matched stands at every second place.
  const parts = text.split(pattern);
  if (parts.length === 1) return text;
  if (parts.length > PARTS_MAX) parts.push(parts.splice(PARTS_MAX - 1).join(""));
  return parts.map((part, place) =>
    place % 2 === 1 ? (
      <mark key={place} className="bg-warn-soft text-ink outline-warn rounded-xs outline">
        {part}
      </mark>
    ) : (
      part
    ),
  );
}
