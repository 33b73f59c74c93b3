/** Where the jobs of a graph stand when it is drawn; states play no part in it. */
import { Graph, layout } from "@dagrejs/dagre";
import { type Drawn, NODE_HEIGHT, NODE_WIDTH, type Point, type Shape } from "./shape";

const MARGIN = 16;
const LABEL_WIDTH = 76;
const LABEL_HEIGHT = 18;
/** Above this many lines the best order of ranks takes too long; a good one will do. */
const LINES_MAX_FOR_BEST = 200;

export function place({ ids, lines, isDown }: Shape): Drawn {
  const graph = new Graph({ multigraph: true });
  graph.setGraph({
    rankdir: isDown ? "TB" : "LR",
    nodesep: 20,
    ranksep: isDown ? 36 : 56,
    edgesep: 12,
    marginx: MARGIN,
    marginy: MARGIN,
    ranker: lines.length > LINES_MAX_FOR_BEST ? "longest-path" : "network-simplex",
  });
  ids.forEach((id) => graph.setNode(id, { width: NODE_WIDTH, height: NODE_HEIGHT }));
  lines.forEach((line, index) =>
    graph.setEdge(
      line.from,
      line.to,
      line.hasLabel ? { width: LABEL_WIDTH, height: LABEL_HEIGHT, labelpos: "c" } : {},
      String(index),
    ),
  );
  layout(graph);
  const { width, height } = graph.graph() as { width: number; height: number };
  return {
    width: Math.ceil(width),
    height: Math.ceil(height),
    nodes: ids.map((id) => {
      const { x, y } = graph.node(id) as Point;
      return { x: x - NODE_WIDTH / 2, y: y - NODE_HEIGHT / 2 };
    }),
    lines: lines.map((line, index) => {
      const laid = graph.edge(line.from, line.to, String(index)) as Point & { points: Point[] };
      return { points: laid.points, label: line.hasLabel ? { x: laid.x, y: laid.y } : null };
    }),
  };
}
