/** One chart: lines over time on a canvas, with what they say in words beside it. */
import { useEffect, useMemo, useRef, useState, useSyncExternalStore } from "react";
import uPlot from "uplot";
import "uplot/dist/uPlot.min.css";
import { Panel } from "../../parts/page";
import { clock, dateTime } from "../../parts/format";
import { atLeast, hasAny, lonely, newest, type Values, within } from "./series";

const HEIGHT_PIXELS = 180;
const DAY_SECONDS = 24 * 3600;
const WHOLE = [1, 2, 5].flatMap((digit) => Array.from({ length: 10 }, (_, n) => digit * 10 ** n));
WHOLE.sort((a, b) => a - b);

const COLOURS = ["accent", "good", "bad", "warn", "ink", "dim", "line", "panel"] as const;
type Colour = (typeof COLOURS)[number];

export type Line = {
  name: string;
  colour: Colour;
  values: Values;
  /** Told apart by more than its colour. */
  dash?: number[];
};

export type ChartProps = {
  title: string;
  unit: string;
  /** When each step began, in seconds. */
  at: number[];
  lines: Line[];
  say: (value: number) => string;
  /** How far apart the marks of the axis may be; whole numbers if nothing else is said. */
  increments?: number[] | "any";
  /** The marks of an axis on which each is a multiple of the one before; nothing is below the first. */
  decades?: number[];
};

export function Chart(props: ChartProps) {
  const { title, unit, at, lines, say } = props;
  const [pointed, setPointed] = useState<number | null>(null);
  const isKnown = hasAny(...lines.map((line) => line.values));
  const spoken = (value: number | null | undefined) => (value == null ? "none" : say(value));
  const told = lines.map((line) => `${line.name} ${spoken(newest(line.values))}`).join(", ");
  const when = pointed === null ? undefined : at[pointed];
  return (
    <Panel
      title={title}
      aside={
        <span className="text-dim text-xs tabular-nums">
          {when !== undefined && `${momentOf(when * 1000, at)} · `}
          {unit}
        </span>
      }
    >
      {isKnown ? (
        <>
          <ul className="mb-2 flex flex-wrap gap-x-4 gap-y-1 text-xs">
            {lines.map((line) => (
              <li key={line.name} className="flex items-center gap-1.5">
                <Swatch line={line} />
                <span className="text-dim">{line.name}</span>
                <span className="min-w-12 font-medium tabular-nums">
                  {when === undefined
                    ? spoken(newest(line.values))
                    : spoken(line.values[pointed ?? 0])}
                </span>
              </li>
            ))}
          </ul>
          <div role="img" aria-label={`${title}, ${unit}. Newest: ${told}.`}>
            <Canvas {...props} onPoint={setPointed} />
          </div>
        </>
      ) : (
        <p className="text-dim py-16 text-center">Nothing was recorded within this time.</p>
      )}
    </Panel>
  );
}

function momentOf(ms: number, at: number[]): string {
  const isLong = (at.at(-1) ?? 0) - (at[0] ?? 0) > DAY_SECONDS;
  return isLong ? dateTime(ms).slice(0, -3) : clock(ms);
}

function Swatch({ line }: { line: Line }) {
  return (
    <svg aria-hidden="true" width="16" height="4">
      <line
        x1="0"
        y1="2"
        x2="16"
        y2="2"
        stroke={`var(--${line.colour})`}
        strokeWidth="3"
        strokeDasharray={line.dash?.join(" ")}
      />
    </svg>
  );
}

function Canvas(props: ChartProps & { onPoint: (index: number | null) => void }) {
  const box = useRef<HTMLDivElement>(null);
  const plot = useRef<uPlot>(null);
  const isDark = useIsDark();
  const latest = useRef(props);
  latest.current = props;
  const { at, lines, decades } = props;
  const data = useMemo(() => {
    const least = decades?.[0] ?? 0;
    const drawn = lines.map((line) => atLeast(line.values, least));
    return [at, ...drawn] as uPlot.AlignedData;
  }, [at, lines, decades]);
  const drawn = useRef(data);
  drawn.current = data;

  // The colours are the theme's, and a plot keeps those that it was made with.
  useEffect(() => {
    const element = box.current;
    if (element === null) return;
    const made = new uPlot(describe(latest, element.clientWidth), drawn.current, element);
    plot.current = made;
    const sized = new ResizeObserver(() => {
      if (element.clientWidth !== made.width)
        made.setSize({ width: element.clientWidth, height: HEIGHT_PIXELS });
    });
    sized.observe(element);
    return () => {
      sized.disconnect();
      made.destroy();
      plot.current = null;
    };
  }, [isDark]);
  useEffect(() => plot.current?.setData(data), [data]);
  // As high as what it will hold, so that nothing moves when it is drawn.
  return <div ref={box} className="overflow-hidden" style={{ height: HEIGHT_PIXELS }} />;
}

function describe(
  latest: { readonly current: ChartProps & { onPoint: (index: number | null) => void } },
  width: number,
): uPlot.Options {
  const { lines, increments, decades } = latest.current;
  const style = getComputedStyle(document.documentElement);
  const colours = Object.fromEntries(
    COLOURS.map((name) => [name, style.getPropertyValue(`--${name}`).trim()]),
  ) as Record<Colour, string>;
  const axis: uPlot.Axis = {
    stroke: colours.dim,
    font: `11px ${style.fontFamily}`,
    ticks: { show: false },
    grid: { stroke: colours.line, width: 1 },
  };
  return {
    width,
    height: HEIGHT_PIXELS,
    legend: { show: false },
    padding: [8, 18, 0, 0],
    cursor: {
      drag: { x: false, y: false },
      sync: { key: "overview" },
      y: false,
      points: { size: 7 },
    },
    scales: { y: decades === undefined ? FROM_ZERO : overDecades(decades) },
    axes: [
      { ...axis, grid: { show: false }, space: 64, size: 20, values: sayTimes },
      {
        ...axis,
        size: (_plot, marks) => 14 + 6.5 * Math.max(2, ...(marks ?? []).map((mark) => mark.length)),
        space: 26,
        incrs: increments === "any" ? undefined : (increments ?? WHOLE),
        splits: decades && ((_plot, _axis, min, max) => within(decades, min, max)),
        filter: decades && ((_plot, marks) => marks),
        values: (_plot, marks) => marks.map((mark) => latest.current.say(mark)),
      },
    ],
    series: [
      {},
      ...lines.map(({ name, colour, dash }): uPlot.Series => {
        return {
          label: name,
          stroke: colours[colour],
          width: 1.5,
          dash,
          points: {
            show: false,
            size: 4,
            fill: colours[colour],
            filter: (drawn, index) => {
              const alone = lonely(drawn.data[index] as Values);
              return alone.length > 0 ? alone : null;
            },
          },
        };
      }),
    ],
    hooks: { setCursor: [(drawn) => latest.current.onPoint(drawn.cursor.idx ?? null)] },
  };
}

const FROM_ZERO: uPlot.Scale = { range: (_plot, _min, max) => [0, max ? max * 1.1 : 1] };

/** One very long wait among short ones leaves the short ones to be seen. */
function overDecades(decades: number[]): uPlot.Scale {
  return {
    distr: 3,
    range: (_plot, min, max) => {
      const [first, second] = [decades[0] ?? 1, decades[1] ?? 10];
      const low = decades.findLast((mark) => mark <= (min ?? first)) ?? first;
      return [low, Math.max((max ?? first) * 1.3, low * (second / first))];
    },
  };
}

/** 10:30; the day at midnight, or where marks are days apart. */
function sayTimes(_plot: uPlot, marks: number[], _axis: number, _space: number, apart: number) {
  return marks.map((mark) => {
    const at = new Date(mark * 1000);
    const isDay = apart >= DAY_SECONDS || (at.getHours() === 0 && at.getMinutes() === 0);
    if (isDay) return at.toLocaleDateString("en-GB", { day: "numeric", month: "short" });
    return clock(mark * 1000).slice(0, 5);
  });
}

function watchTheme(tell: () => void): () => void {
  const watcher = new MutationObserver(tell);
  watcher.observe(document.documentElement, { attributeFilter: ["class"] });
  return () => watcher.disconnect();
}

function useIsDark(): boolean {
  return useSyncExternalStore(watchTheme, () =>
    document.documentElement.classList.contains("dark"),
  );
}
