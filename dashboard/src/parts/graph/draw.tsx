/** A graph of jobs as a drawing that is scrolled and zoomed: lines as SVG, jobs as links on it. */
import { memo, useEffect, useMemo, useRef, useState } from "react";
import { Link } from "wouter";
import type { Graph } from "../../api/types";
import { Button } from "../button";
import { path } from "./path";
import { type Drawn, NODE_HEIGHT, NODE_WIDTH, type Point } from "./shape";
import { type Node, type Stroke, strokesOf, waits } from "./words";
import { Badge } from "../show";
import { inert } from "../text";

const ZOOMS = [0.25, 0.4, 0.6, 0.8, 1, 1.25, 1.6, 2];

/** Below this, names are too small to read. */
const ZOOM_MIN_TO_READ = 0.75;

const STROKES: Record<Stroke["kind"], string> = {
  held: "stroke-dim",
  open: "stroke-dim [stroke-dasharray:6_4]",
  broken: "stroke-bad",
  undo: "stroke-accent [stroke-dasharray:2_4]",
};

export function Drawing({ graph, drawn }: { graph: Graph; drawn: Drawn }) {
  const box = useRef<HTMLDivElement>(null);
  const [zoom, setZoom] = useState(1);
  const strokes = useMemo(() => strokesOf(graph), [graph]);
  const told = useMemo(() => waits(graph), [graph]);
  const current = graph.nodes.findIndex((node) => node.job_id === graph.job_id);
  const here = drawn.nodes[current];
  useEffect(() => {
    if (box.current === null || here === undefined) return;
    const { clientWidth } = box.current;
    // A little smaller is better than a little cut off.
    const first = clientWidth / drawn.width;
    change(first >= ZOOM_MIN_TO_READ ? Math.min(first, 1) : 1);
  }, [here]);
  function change(next: number) {
    setZoom(next);
    // The drawing has its new size only after this turn.
    requestAnimationFrame(() => box.current && here && center(box.current, here, next));
  }
  function fit() {
    if (box.current === null) return;
    const { clientWidth, clientHeight } = box.current;
    const fitting = Math.min(clientWidth / drawn.width, clientHeight / drawn.height, 1);
    change(Math.max(fitting, 0.1));
  }
  return (
    <div className="flex flex-col gap-2">
      <div className="flex flex-wrap items-center justify-between gap-2">
        <Legend strokes={strokes} />
        <div className="ml-auto flex gap-1" role="group" aria-label="Zoom">
          <Button
            aria-label="Smaller"
            disabled={zoom <= (ZOOMS[0] ?? 0)}
            onClick={() => change(ZOOMS.findLast((step) => step < zoom) ?? zoom)}
          >
            −
          </Button>
          <Button
            aria-label="Larger"
            disabled={zoom >= (ZOOMS.at(-1) ?? 1)}
            onClick={() => change(ZOOMS.find((step) => step > zoom) ?? zoom)}
          >
            +
          </Button>
          <Button onClick={fit}>Fit</Button>
        </div>
      </div>
      <div
        ref={box}
        tabIndex={0}
        role="region"
        aria-label="Graph of jobs, scrolled"
        className="border-line bg-page max-h-[32rem] overflow-auto rounded border"
      >
        <div
          className="relative mx-auto overflow-hidden"
          style={{ width: drawn.width * zoom, height: drawn.height * zoom }}
        >
          <div
            className="absolute top-0 left-0 origin-top-left"
            style={{ width: drawn.width, height: drawn.height, transform: `scale(${zoom})` }}
          >
            <Lines drawn={drawn} strokes={strokes} />
            <ul aria-label="Jobs of the graph" className="absolute inset-0">
              {graph.nodes.map((node, index) => (
                <Place
                  key={node.job_id}
                  jobId={node.job_id}
                  name={node.name}
                  state={node.state}
                  undoes={node.compensates_job_id ?? null}
                  waiting={told.get(node.job_id) ?? "no other"}
                  isCurrent={index === current}
                  at={drawn.nodes[index] ?? { x: 0, y: 0 }}
                />
              ))}
            </ul>
          </div>
        </div>
      </div>
    </div>
  );
}

function center(box: HTMLElement, at: Point, zoom: number): void {
  box.scrollLeft = (at.x + NODE_WIDTH / 2) * zoom - box.clientWidth / 2;
  box.scrollTop = (at.y + NODE_HEIGHT / 2) * zoom - box.clientHeight / 2;
}

const Place = memo(function Place(props: {
  jobId: string;
  name: Node["name"];
  state: string;
  undoes: string | null;
  waiting: string;
  isCurrent: boolean;
  at: Point;
}) {
  const { jobId, name, state, undoes, waiting, isCurrent, at } = props;
  return (
    <li
      className="absolute"
      style={{ left: at.x, top: at.y, width: NODE_WIDTH, height: NODE_HEIGHT }}
    >
      <Link
        href={`/jobs/${jobId}`}
        title={inert(name)}
        aria-current={isCurrent ? "true" : undefined}
        className={`bg-panel text-ink hover:bg-hover flex h-full flex-col justify-center gap-1 rounded-md px-2.5 hover:no-underline ${isCurrent ? "border-accent border-2" : "border-line border"}`}
      >
        <span className="flex items-baseline justify-between gap-2">
          <bdi className="truncate font-medium">{inert(name)}</bdi>
          <span className="text-dim font-mono text-xs">{jobId}</span>
        </span>
        <span className="flex items-center gap-2 text-xs">
          <Badge state={state} />
          {undoes !== null && <span className="text-dim truncate">{`undoes ${undoes}`}</span>}
        </span>
        <span className="sr-only">{`waits for ${waiting}`}</span>
      </Link>
    </li>
  );
});

const Lines = memo(function Lines({ drawn, strokes }: { drawn: Drawn; strokes: Stroke[] }) {
  return (
    <svg
      aria-hidden="true"
      width={drawn.width}
      height={drawn.height}
      className="absolute top-0 left-0"
    >
      <defs>
        {Object.entries(ARROWS).map(([kind, look]) => (
          <marker
            key={kind}
            id={`arrow-${kind}`}
            viewBox="0 0 8 8"
            refX="7.5"
            refY="4"
            markerWidth="8"
            markerHeight="8"
            markerUnits="userSpaceOnUse"
            orient="auto"
          >
            <path d="M0 0L8 4L0 8z" className={look} />
          </marker>
        ))}
      </defs>
      {strokes.map((stroke, index) => {
        const line = drawn.lines[index];
        if (line === undefined) return null;
        const at = line.label ?? line.points[Math.floor(line.points.length / 2)];
        return (
          <g key={index}>
            <path
              d={path(line.points)}
              className={`fill-none ${STROKES[stroke.kind]}`}
              strokeWidth={1.5}
              markerEnd={`url(#arrow-${stroke.kind})`}
            />
            {stroke.label !== "" && at && <Label text={stroke.label} at={at} kind={stroke.kind} />}
          </g>
        );
      })}
    </svg>
  );
});

const ARROWS: Record<Stroke["kind"], string> = {
  held: "fill-dim",
  open: "fill-dim",
  broken: "fill-bad",
  undo: "fill-accent",
};

/** A label on the line, with the page's colour around it so that the line does not cross it. */
function Label({ text, at, kind }: { text: string; at: Point; kind: Stroke["kind"] }) {
  return (
    <text
      x={at.x}
      y={at.y}
      dominantBaseline="middle"
      textAnchor="middle"
      strokeWidth={5}
      className={`stroke-page text-[11px] [paint-order:stroke] ${ARROWS[kind]}`}
    >
      {text}
    </text>
  );
}

const MEANINGS: [kind: Stroke["kind"], meaning: string][] = [
  ["held", "holds"],
  ["open", "open"],
  ["broken", "did not hold"],
  ["undo", "undoes"],
];

/** What the kinds of lines mean that are there. */
function Legend({ strokes }: { strokes: Stroke[] }) {
  const kinds = new Set(strokes.map((stroke) => stroke.kind));
  return (
    <ul className="text-dim flex flex-wrap gap-x-4 text-xs" aria-label="Lines">
      {MEANINGS.filter(([kind]) => kinds.has(kind)).map(([kind, meaning]) => (
        <li key={kind} className="flex items-center gap-1.5">
          <svg aria-hidden="true" width="28" height="8">
            <line x1="0" y1="4" x2="28" y2="4" strokeWidth={1.5} className={STROKES[kind]} />
          </svg>
          {meaning}
        </li>
      ))}
    </ul>
  );
}
