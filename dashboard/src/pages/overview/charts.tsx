/** The four charts of the first page; a crosshair in one is a crosshair in all. */
import { useMemo } from "react";
import type { Overview } from "../../api/types";
import { count, duration } from "../../parts/format";
import { Chart, type ChartProps } from "./chart";
import { number, paceOf, perSecond, times } from "./series";

const SECOND = 1000;
const MINUTE = 60 * SECOND;
const HOUR = 60 * MINUTE;
const DAY = 24 * HOUR;
/** Waits go from milliseconds to days: each mark is about ten times the one before. */
const WAITS = [
  1,
  10,
  100,
  ...[1, 10].map((seconds) => seconds * SECOND),
  ...[1, 10].map((minutes) => minutes * MINUTE),
  ...[1, 10].map((hours) => hours * HOUR),
  ...[4, 40, 400].map((days) => days * DAY),
];

export function Charts({ overview }: { overview: Overview }) {
  const charts = useMemo(() => listCharts(overview), [overview]);
  return (
    <div className="grid gap-4 lg:grid-cols-2">
      {charts.map((chart) => (
        <Chart key={chart.title} {...chart} />
      ))}
    </div>
  );
}

function listCharts(overview: Overview): ChartProps[] {
  const { series, step_seconds: step } = overview;
  const at = series.at_ms.map((ms) => ms / 1000);
  const submitted = perSecond(series.submitted, overview);
  const succeeded = perSecond(series.succeeded, overview);
  const pace = paceOf(submitted, succeeded);
  return [
    {
      title: "Throughput",
      unit: `tasks per ${pace.name}`,
      at,
      say: number,
      increments: "any",
      lines: [
        { name: "succeeded", colour: "good", values: times(succeeded, pace.seconds) },
        {
          name: "submitted",
          colour: "accent",
          values: times(submitted, pace.seconds),
          dash: [4, 3],
        },
      ],
    },
    {
      title: "Failures",
      unit: `tasks per ${duration(step * SECOND).replace(/\.0(?= s)/, "")}`,
      at,
      say: count,
      lines: [
        { name: "failed", colour: "bad", values: series.failed },
        { name: "worker failed", colour: "warn", values: series.worker_failed, dash: [4, 3] },
        { name: "dead lettered", colour: "ink", values: series.dead_lettered, dash: [1, 2] },
      ],
    },
    {
      title: "Queue depth and running",
      unit: "tasks",
      at,
      say: count,
      lines: [
        { name: "ready", colour: "warn", values: series.depth },
        { name: "running", colour: "accent", values: series.running, dash: [4, 3] },
      ],
    },
    {
      title: "Wait",
      unit: "from eligible to claimed, log scale",
      at,
      say: briefly,
      decades: WAITS,
      lines: [
        { name: "p50", colour: "accent", values: series.wait_p50_ms },
        { name: "p95", colour: "warn", values: series.wait_p95_ms, dash: [4, 3] },
      ],
    },
  ];
}

/** As on an axis: 5 s, not 5.0 s. */
function briefly(ms: number): string {
  return ms === 0 ? "0" : duration(ms).replace(/\.0(?= s)/, "");
}
