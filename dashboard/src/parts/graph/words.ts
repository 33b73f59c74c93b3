/** What a graph of jobs says, in words, and what of it is drawn. */
import type { Graph } from "../../api/types";
import type { Line, Shape } from "./shape";
import { inert } from "../text";

export type Node = Graph["nodes"][number];
export type Edge = Graph["edges"][number];

const NAMES_MAX = 5;

/** What an edge waits for, unless it is what they mostly wait for. */
export function condition(edge: Edge): string {
  if (edge.condition === "failed") return "on failure";
  return edge.condition === "ended" ? "when ended" : "";
}

/** A line of the drawing: an edge, or a job to the one that undoes it. */
export type Stroke = Line & { kind: "held" | "open" | "broken" | "undo"; label: string };

const KINDS = { true: "held", false: "broken", null: "open" } as const;

export function strokesOf(graph: Graph): Stroke[] {
  const ids = new Set(graph.nodes.map((node) => node.job_id));
  const edges = graph.edges
    .filter((edge) => ids.has(edge.from) && ids.has(edge.to))
    .map((edge) => {
      const kind = KINDS[`${edge.holds ?? null}`];
      const told = condition(edge);
      const label = kind === "broken" ? `✕ ${told}`.trim() : told;
      // Room is left for the words alone, so that a change of state moves nothing.
      return { from: edge.from, to: edge.to, hasLabel: told !== "", kind, label };
    });
  const waiting = new Set(edges.map((edge) => `${edge.from} ${edge.to}`));
  const undos = graph.nodes.flatMap((node): Stroke[] => {
    const undone = node.compensates_job_id;
    if (undone == null || !ids.has(undone) || waiting.has(`${undone} ${node.job_id}`)) return [];
    return [{ from: undone, to: node.job_id, hasLabel: false, kind: "undo", label: "" }];
  });
  return [...edges, ...undos];
}

/** All that the layout depends on, as a text: as long as it is the same, nothing moves. */
export function shapeOf(graph: Graph, isDown: boolean): string {
  const lines = strokesOf(graph).map(({ from, to, hasLabel }) => ({ from, to, hasLabel }));
  const shape: Shape = { ids: graph.nodes.map((node) => node.job_id), lines, isDown };
  return JSON.stringify(shape);
}

/** For each job that waits, what it waits for: "extract (15), clean (16) on failure". */
export function waits(graph: Graph): Map<string, string> {
  const names = new Map(graph.nodes.map((node) => [node.job_id, inert(node.name)]));
  const before = new Map<string, string[]>();
  for (const edge of graph.edges) {
    const name = `${names.get(edge.from) ?? "job"} (${edge.from})`;
    const told = before.get(edge.to) ?? [];
    before.set(edge.to, [...told, `${name} ${condition(edge)}`.trim()]);
  }
  return new Map([...before].map(([id, all]) => [id, several(all)]));
}

function several(all: string[]): string {
  const rest = all.length - NAMES_MAX;
  return all.slice(0, NAMES_MAX).join(", ") + (rest > 0 ? ` and ${rest} more` : "");
}
