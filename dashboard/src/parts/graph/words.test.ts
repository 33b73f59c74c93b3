import { expect, test } from "vitest";
import type { Graph } from "../../api/types";
import { path } from "./path";
import { place } from "./layout";
import { NODE_HEIGHT, NODE_WIDTH, type Shape } from "./shape";
import { shapeOf, strokesOf, waits } from "./words";

function node(job_id: string, state = "JOB_STATE_RUNNING", compensates: string | null = null) {
  return {
    job_id,
    name: `job ${job_id}\u202e`,
    type: "t",
    state,
    graph_id: null,
    compensates_job_id: compensates,
  };
}

const GRAPH: Graph = {
  job_id: "3",
  nodes: [node("1"), node("2"), node("3"), node("4", "JOB_STATE_PENDING", "1")],
  edges: [
    { from: "1", to: "3", condition: "succeeded", holds: true },
    { from: "2", to: "3", condition: "failed", holds: false },
    { from: "9", to: "3", condition: "ended", holds: null },
  ],
  truncated: true,
};

test("edges to jobs that are not told are left out, and a job is tied to the one it undoes", () => {
  expect(strokesOf(GRAPH).map(({ from, to, kind, label }) => [from, to, kind, label])).toEqual([
    ["1", "3", "held", ""],
    ["2", "3", "broken", "✕ on failure"],
    ["1", "4", "undo", ""],
  ]);
});

test("what a job waits for is said with conditions, and inert", () => {
  expect(waits(GRAPH).get("3")).toBe(
    "job 1‹202E› (1), job 2‹202E› (2) on failure, job (9) when ended",
  );
});

test("a change of state changes nothing of the layout", () => {
  const later: Graph = {
    ...GRAPH,
    nodes: GRAPH.nodes.map((one) => ({ ...one, state: "JOB_STATE_FAILED" })),
    edges: GRAPH.edges.map((edge) => ({ ...edge, holds: false })),
  };
  expect(shapeOf(later, false)).toBe(shapeOf(GRAPH, false));
  expect(shapeOf(GRAPH, true)).not.toBe(shapeOf(GRAPH, false));
});

test("jobs stand apart, after those they wait for, within the drawing", () => {
  const shape = JSON.parse(shapeOf(GRAPH, false)) as Shape;
  const { nodes, lines, width, height } = place(shape);
  const at = Object.fromEntries(shape.ids.map((id, index) => [id, nodes[index]]));
  for (const { from, to } of shape.lines) expect(at[from]?.x).toBeLessThan(at[to]?.x ?? 0);
  expect(Math.abs((at["1"]?.y ?? 0) - (at["2"]?.y ?? 0))).toBeGreaterThan(NODE_HEIGHT);
  for (const { x, y } of nodes) {
    expect(x).toBeGreaterThanOrEqual(0);
    expect(x + NODE_WIDTH).toBeLessThanOrEqual(width);
    expect(y + NODE_HEIGHT).toBeLessThanOrEqual(height);
  }
  expect(lines.map((line) => line.label !== null)).toEqual([false, true, false]);
});

test("a line goes from its first point to its last", () => {
  const points = [0, 10, 20, 30].map((x) => ({ x, y: x / 10 }));
  expect(path(points)).toBe("M0 0Q10 1 15 2Q20 2 30 3");
  expect(path(points.slice(0, 2))).toBe("M0 0L10 1");
});
