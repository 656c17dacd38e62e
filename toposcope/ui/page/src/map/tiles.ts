// Rectangles within a rectangle: a grid where all are of one size, d3's squarified treemap where they are not.
import { type HierarchyRectangularNode, treemapSquarify } from "d3-hierarchy";

export interface Box {
  x: number;
  y: number;
  w: number;
  h: number;
}

/** Cells a little wider than high: names are. */
const ASPECT = 1.5;

/** One box for each size, in their order; `gap` lies between them, never around them. */
export function tile(sizes: readonly number[], box: Box, gap: number): Box[] {
  if (!sizes.length) return [];
  const first = sizes[0] ?? 1;
  return sizes.every((size) => size === first) ? grid(sizes.length, box, gap) : squares(sizes, box, gap);
}

/** Room for the name of a domain, and for a node with its name below. */
const READABLE = { w: 76, h: 62 } as const;

/** By how much the room of small domains is raised, one try after the other, as a multiple of what they need. */
const RAISED = [1, 1.5, 2, 3, 5];

/**
 * Boxes as `tile` makes them, but none too narrow or too low for its name where there is room for all names: a small
 * domain then gets more than its share, and all of them may lie in one row or one column.
 */
export function readable(sizes: readonly number[], box: Box, gap: number): Box[] {
  const plain = tile(sizes, box, gap);
  const area = Math.max(box.w, 0) * Math.max(box.h, 0);
  const least = (READABLE.w + gap) * (READABLE.h + gap);
  if (legible(plain) >= 1 || least * sizes.length > area) return plain;
  const total = sizes.reduce((sum, size) => sum + size, 0);
  const raised = (times: number): number[] => sizes.map((size) => Math.max(size, (times * total * least) / area));
  const candidates = [...RAISED.map((times) => squares(raised(times), box, gap)), column(sizes, box, gap)];
  candidates.push(row(sizes, box, gap));
  let best = plain;
  for (const boxes of candidates) {
    if (legible(boxes) > legible(best)) best = boxes;
  }
  return best;
}

/** 1 where each box has room for its name; less, the narrower or lower the worst of them is. */
function legible(boxes: readonly Box[]): number {
  return boxes.reduce((worst, { w, h }) => Math.min(worst, w / READABLE.w, h / READABLE.h), 1);
}

function row(sizes: readonly number[], box: Box, gap: number): Box[] {
  const lengths = shares(sizes, box.w, gap, READABLE.w);
  let x = box.x;
  return lengths.map((w) => {
    const here = { x, y: box.y, w, h: box.h };
    x += w + gap;
    return here;
  });
}

function column(sizes: readonly number[], box: Box, gap: number): Box[] {
  const lengths = shares(sizes, box.h, gap, READABLE.h);
  let y = box.y;
  return lengths.map((h) => {
    const here = { x: box.x, y, w: box.w, h };
    y += h + gap;
    return here;
  });
}

/** The parts of a length with gaps between them: in proportion to the sizes, but none below `least` if there is room. */
function shares(sizes: readonly number[], length: number, gap: number, least: number): number[] {
  const room = Math.max(length - gap * (sizes.length - 1), 0);
  const total = sizes.reduce((sum, size) => sum + size, 0);
  const parts = sizes.map((size) => (room * size) / total);
  const missing = parts.reduce((sum, part) => sum + Math.max(least - part, 0), 0);
  const spare = parts.reduce((sum, part) => sum + Math.max(part - least, 0), 0);
  if (missing >= spare) return parts;
  return parts.map((part) => (part > least ? part - ((part - least) * missing) / spare : least));
}

/** Equal boxes in rows; the last row may end early. */
export function grid(count: number, box: Box, gap: number, aspect: number = ASPECT): Box[] {
  const columns = columnsFor(count, box, aspect);
  const rows = Math.ceil(count / columns);
  const w = Math.max((box.w - gap * (columns - 1)) / columns, 0);
  const h = Math.max((box.h - gap * (rows - 1)) / rows, 0);
  return Array.from({ length: count }, (_, at) => ({
    x: box.x + (at % columns) * (w + gap),
    y: box.y + Math.floor(at / columns) * (h + gap),
    w,
    h,
  }));
}

/** The number of columns that makes cells of a good form and leaves little of the last row empty. */
export function columnsFor(count: number, box: Box, aspect: number): number {
  const ideal = Math.sqrt((count * box.w) / (Math.max(box.h, 1) * aspect));
  let best = 1;
  let least = Number.POSITIVE_INFINITY;
  const from = Math.max(1, Math.floor(ideal * 0.6));
  const to = Math.min(count, Math.ceil(ideal * 1.7) + 1);
  for (let columns = from; columns <= to; columns++) {
    const rows = Math.ceil(count / columns);
    const form = box.w / columns / (box.h / rows) / aspect;
    const waste = (rows * columns) / count - 1;
    // Cells that are too wide are read more easily than ones that are too high.
    const cost = (form > 1 ? form : 1 / (form * form)) + waste * 3;
    if (cost < least) {
      least = cost;
      best = columns;
    }
  }
  return best;
}

interface Piece {
  value: number;
  x0: number;
  x1: number;
  y0: number;
  y1: number;
}

function squares(sizes: readonly number[], box: Box, gap: number): Box[] {
  const children: Piece[] = sizes.map((size) => ({ value: Math.max(size, 0.5), x0: 0, x1: 0, y0: 0, y1: 0 }));
  const value = children.reduce((sum, child) => sum + child.value, 0);
  // d3's tiles read `value` and `children` of a node and write the corners of its children: no hierarchy has to be built.
  const parent = { value, children, x0: 0, x1: 0, y0: 0, y1: 0 };
  // Half a gap is cut from each side below, so that the outer edges stay on the box.
  treemapSquarify(
    parent as unknown as HierarchyRectangularNode<unknown>,
    box.x - gap / 2,
    box.y - gap / 2,
    box.x + box.w + gap / 2,
    box.y + box.h + gap / 2,
  );
  return children.map((child) => ({
    x: child.x0 + gap / 2,
    y: child.y0 + gap / 2,
    w: Math.max(child.x1 - child.x0 - gap, 0),
    h: Math.max(child.y1 - child.y0 - gap, 0),
  }));
}
