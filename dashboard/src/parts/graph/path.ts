/** A line of the drawing as SVG has it. */
import type { Point } from "./shape";

/** A line through the middles between its bends, so that it has no corners. */
export function path(points: Point[]): string {
  const [first, ...rest] = points;
  const last = rest.at(-1);
  if (first === undefined || last === undefined) return "";
  const curves = rest.slice(0, -1).map((bend, index) => {
    const next = rest[index + 1] ?? last;
    const end = index === rest.length - 2 ? last : middle(bend, next);
    return `Q${round(bend)} ${round(end)}`;
  });
  return `M${round(first)}${curves.length === 0 ? `L${round(last)}` : curves.join("")}`;
}

const middle = (a: Point, b: Point) => ({ x: (a.x + b.x) / 2, y: (a.y + b.y) / 2 });
const round = ({ x, y }: Point) => `${Math.round(x)} ${Math.round(y)}`;
