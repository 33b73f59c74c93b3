/** What is laid out and how it comes back; apart from the layout, which is loaded when needed. */
export const NODE_WIDTH = 184;
export const NODE_HEIGHT = 58;

export type Line = { from: string; to: string; hasLabel: boolean };
/** Ids, and who comes before whom. */
export type Shape = { ids: string[]; lines: Line[]; isDown: boolean };
export type Point = { x: number; y: number };
export type Drawn = {
  width: number;
  height: number;
  /** The upper left corner of each node, in the order of the ids. */
  nodes: Point[];
  /** The bends of each line and where its label stands, in the order of the lines. */
  lines: { points: Point[]; label: Point | null }[];
};
