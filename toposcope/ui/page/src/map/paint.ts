// The map on a canvas: domains as frames with their names, nodes as cells, and what must not be overlooked on top.
import { type Domain, type Forest, levelName, outOfReach } from "../model/domains.ts";
import { HEALTH, healthAt, type Lens } from "../model/lens.ts";
import { type Table, word } from "../model/table.ts";
import type { DomainBox, Layout, PenBox } from "./layout.ts";
import { cut, type Measure, many, measuring } from "./text.ts";
import type { Theme } from "./theme.ts";

export interface Scene {
  readonly table: Table;
  readonly forest: Forest;
  readonly layout: Layout;
  readonly lens: Lens;
  /** Nodes of each category in each domain, see `tally`. */
  readonly counts: Uint32Array;
  /** Nodes with problems in each domain, whatever the lens: see `tally` with the lens of health. */
  readonly health: Uint32Array;
  /** Nodes that keep their colour; null: all. */
  readonly highlighted: Uint8Array | null;
  /** The same for domains drawn as one: how many nodes of each keep their colour, by category. */
  readonly highlightedCounts: Uint32Array | null;
  readonly fits: ReadonlySet<Domain>;
  /** Nodes that changed a moment ago. */
  readonly changed: ReadonlySet<number>;
}

const DIM_ALPHA = 0.16;

export function paint(context: CanvasRenderingContext2D, scene: Scene, theme: Theme): void {
  context.textBaseline = "middle";
  for (const pen of scene.layout.pens) paintPen(context, pen, theme);
  for (const box of scene.layout.domains) paintFrame(context, scene, box, theme);
  paintNodes(context, scene, theme);
  for (const box of scene.layout.domains) {
    if (!box.head) continue;
    context.save();
    if (box.upright) {
      context.translate(box.x, box.y + box.h);
      context.rotate(-Math.PI / 2);
      paintHead(context, scene, { ...box, x: 0, y: 0, w: box.h, h: box.w }, theme);
    } else paintHead(context, scene, box, theme);
    context.restore();
  }
  for (const box of scene.layout.domains)
    if (box.chain.some((domain) => scene.fits.has(domain))) paintFit(context, box, theme);
}

function rounded(context: CanvasRenderingContext2D, x: number, y: number, w: number, h: number, radius: number): void {
  context.beginPath();
  context.roundRect(x, y, Math.max(w, 0), Math.max(h, 0), Math.max(0, Math.min(radius, w / 6, h / 6)));
}

function paintFrame(context: CanvasRenderingContext2D, scene: Scene, box: DomainBox, theme: Theme): void {
  if (box.whole) {
    paintShares(context, scene, box, theme);
    return;
  }
  const shade = box.depth % 2 ? "frame-odd" : "frame-even";
  rounded(context, box.x, box.y, box.w, box.h, box.depth === 1 ? 8 : 5);
  context.fillStyle = theme.colour(shade);
  context.fill();
  if (box.w > 12 && box.h > 12) {
    context.strokeStyle = theme.colour("frame-line");
    context.lineWidth = 1;
    context.stroke();
  }
}

/** A domain whose nodes would be too small, as bands: the rare and bad below, never thinner than can be seen. */
function paintShares(context: CanvasRenderingContext2D, scene: Scene, box: DomainBox, theme: Theme): void {
  const { lens, counts, highlightedCounts } = scene;
  const width = lens.categories.length;
  const row = box.domain.id * width;
  const total = Math.max(box.domain.end - box.domain.start, 1);
  const top = box.y + (box.upright ? 0 : box.head);
  const left = box.x + (box.upright ? box.head : 0);
  const wide = box.x + box.w - left;
  let bottom = box.y + box.h;
  const room = bottom - top;
  const order = lens.categories
    .map((_, at) => at)
    .sort((a, b) => Number(lens.categories[b]?.rare) - Number(lens.categories[a]?.rare));
  for (const at of order) {
    const count = counts[row + at] ?? 0;
    const category = lens.categories[at];
    if (!count || !category) continue;
    const least = category.rare ? Math.min(2, room / 2) : 0;
    const h = Math.min(Math.max((room * count) / total, least), bottom - top);
    context.globalAlpha = highlightedCounts && !highlightedCounts[row + at] ? DIM_ALPHA : 1;
    context.fillStyle = theme.fill(category, h > 9 && box.w > 9);
    context.fillRect(left, bottom - h, wide, h);
    bottom -= h;
  }
  context.globalAlpha = 1;
}

function paintNodes(context: CanvasRenderingContext2D, scene: Scene, theme: Theme): void {
  const { layout, lens, highlighted, table } = scene;
  const { nodes, boxes } = layout;
  // One colour after the other: changing it costs more than a rectangle does.
  const groups: number[][] = [];
  for (let at = 0; at < nodes.length; at++) {
    const node = nodes[at] ?? 0;
    const group = (lens.of[node] ?? 0) * 2 + (highlighted && !highlighted[node] ? 1 : 0);
    const positions = groups[group];
    if (positions) positions.push(at);
    else groups[group] = [at];
  }
  groups.forEach((group, key) => {
    const category = lens.categories[key >> 1];
    if (!category || !group) return;
    context.globalAlpha = key & 1 ? DIM_ALPHA : 1;
    for (const at of group) {
      const [x, y, w, h] = [boxes[at * 4] ?? 0, boxes[at * 4 + 1] ?? 0, boxes[at * 4 + 2] ?? 0, boxes[at * 4 + 3] ?? 0];
      const large = w > 9 && h > 9;
      context.fillStyle = theme.fill(category, large);
      if (large) {
        rounded(context, x, y, w, h, 4);
        context.fill();
        if (category.pattern === "hollow") {
          context.strokeStyle = theme.colour("soft");
          context.lineWidth = 1;
          context.setLineDash([3, 2]);
          context.stroke();
          context.setLineDash([]);
        }
      } else {
        context.fillRect(x, y, w, h);
      }
    }
  });
  context.globalAlpha = 1;
  const font = `500 11.5px ${theme.font}`;
  context.font = font;
  const measure = measuring(context, font);
  for (let at = 0; at < nodes.length; at++) {
    const w = boxes[at * 4 + 2] ?? 0;
    const h = boxes[at * 4 + 3] ?? 0;
    const node = nodes[at] ?? 0;
    const x = boxes[at * 4] ?? 0;
    const y = boxes[at * 4 + 1] ?? 0;
    if (scene.changed.has(node)) {
      rounded(context, x - 1, y - 1, w + 2, h + 2, 5);
      context.strokeStyle = theme.colour("accent");
      context.lineWidth = Math.min(3, 1 + w / 12);
      context.stroke();
    }
    if (w < 11 || h < 11) continue;
    const dim = highlighted && !highlighted[node];
    context.globalAlpha = dim ? 0.4 : 1;
    const category = lens.categories[lens.of[node] ?? 0];
    const health = healthAt(table, scene.forest, node);
    if (health && lens.key !== "health")
      paintMark(
        context,
        x,
        y,
        w,
        h,
        HEALTH[health]?.pattern === "hollow" ? "soft" : (HEALTH[health]?.tone ?? "ink"),
        theme,
      );
    if (w >= 34 && h >= 15 && category)
      paintName(
        context,
        table,
        node,
        { x, y, w, h },
        category,
        theme,
        measure,
        health,
        outOfReach(table, scene.forest, node).gpus,
      );
  }
  context.globalAlpha = 1;
}

interface Rect {
  x: number;
  y: number;
  w: number;
  h: number;
}

function paintName(
  context: CanvasRenderingContext2D,
  table: Table,
  node: number,
  { x, y, w, h }: Rect,
  category: Lens["categories"][number],
  theme: Theme,
  measure: Measure,
  health: number,
  blocked: number,
): void {
  const ink = theme.on(category.tone);
  const pips = h >= 34 && w >= 40;
  const middle = pips ? y + Math.min(15, h / 2 - 5) : y + h / 2;
  const ground = category.pattern !== "plain" && category.pattern !== "hollow";
  // Letters on a pattern need a ground of their own.
  const write = (text: string, at: number, strength: number): void => {
    const words = cut(text, w - 12, measure);
    if (!words) return;
    if (ground) {
      context.fillStyle = theme.colour(category.tone);
      rounded(context, x + 4, at - 8, measure(words) + 6, 16, 3);
      context.fill();
    }
    const before = context.globalAlpha;
    context.globalAlpha = before * strength;
    context.fillStyle = ink;
    context.fillText(words, x + 7, at + 0.5);
    context.globalAlpha = before;
  };
  write(table.names[node] ?? "", middle, 1);
  if (pips) {
    const free = table.free ? (table.free[node] ?? 0) : (table.gpus[node] ?? 0);
    const pipsOf = { gpus: table.gpus[node] ?? 0, free, blocked };
    paintPips(context, pipsOf, x + 7, middle + 14, w - 14, ink);
  }
  if (health && h >= 62) write(`▲ ${HEALTH[health]?.label ?? ""}`, y + h - 14, 1);
  else if (h >= 76 && w >= 90) write(word(table.facts.get("product"), table.names, node) ?? "", y + h - 14, 0.62);
}

/** A small square a GPU: full ones are free, half ones free and out of reach, hollow ones taken. */
function paintPips(
  context: CanvasRenderingContext2D,
  { gpus, free, blocked }: { gpus: number; free: number; blocked: number },
  x: number,
  y: number,
  room: number,
  ink: string,
): void {
  const side = Math.min(6, (room + 2) / Math.max(gpus, 1) - 2);
  if (side < 2.5) return;
  context.fillStyle = context.strokeStyle = ink;
  context.lineWidth = 1;
  const strength = context.globalAlpha;
  for (let gpu = 0; gpu < gpus; gpu++) {
    context.globalAlpha = strength * 0.62;
    const left = x + gpu * (side + 2);
    const top = y - side / 2;
    if (gpu < free - blocked) context.fillRect(left, top, side, side);
    else {
      context.strokeRect(left + 0.5, top + 0.5, side - 1, side - 1);
      if (gpu < free) context.fillRect(left, top + side / 2, side, side / 2);
    }
  }
  context.globalAlpha = strength;
}

/** A corner that marks trouble under every lens. */
function paintMark(
  context: CanvasRenderingContext2D,
  x: number,
  y: number,
  w: number,
  h: number,
  tone: string,
  theme: Theme,
): void {
  const side = Math.min(14, w / 2.2, h / 2.2);
  context.beginPath();
  context.moveTo(x + w - side, y);
  context.lineTo(x + w, y);
  context.lineTo(x + w, y + side);
  context.closePath();
  context.fillStyle = theme.colour(tone);
  context.fill();
  context.strokeStyle = theme.colour("surface");
  context.lineWidth = 1;
  context.stroke();
}

function paintHead(context: CanvasRenderingContext2D, scene: Scene, box: DomainBox, theme: Theme): void {
  const { forest, health } = scene;
  const [plain, bold, heavy] = [`400 11px ${theme.font}`, `600 12px ${theme.font}`, `700 11px ${theme.font}`];
  const [inPlain, inBold] = [measuring(context, plain), measuring(context, bold)];
  const middle = box.y + box.head / 2 + 1;
  let right = box.x + box.w - 8;
  const ailing = troubled(health, box.domain);
  if (ailing) {
    const tone = HEALTH[worst(health, box.domain)]?.tone ?? "health-degraded";
    // The name is worth more than the number.
    const text = box.w - inBold(box.chain.at(-1)?.value ?? "") > 62 ? `▲ ${ailing}` : "▲";
    const wide = measuring(context, heavy)(text) + 10;
    right = box.x + box.w - 4 - wide;
    rounded(context, right, middle - 8, wide, 16, 8);
    context.fillStyle = theme.colour(tone);
    context.fill();
    context.fillStyle = theme.on(tone);
    context.font = heavy;
    context.fillText(text, right + 5, middle + 0.5);
    right -= 6;
  }
  let x = box.x + 8;
  // What is written beside the names needs room for 150 pixels of them, and is never written in a narrow box.
  if (right - x > 150) {
    const { count } = box.domain;
    const facts = `${many(box.domain.gpus, "GPU")}${count > 1 ? ` · ${many(count, "node")}` : ""}`;
    const wide = inPlain(facts);
    if (right - x - wide > 150) {
      context.fillStyle = theme.colour("soft");
      context.font = plain;
      context.fillText(facts, right - wide, middle);
      right -= wide + 14;
    }
  }
  box.chain.forEach((domain, at) => {
    if (right - x < 24) return;
    const level = levelName(forest, domain);
    const wide = inPlain(level);
    if (right - x > wide + 5 + Math.min(inBold(domain.value), 110)) {
      context.fillStyle = theme.colour("soft");
      context.font = plain;
      context.fillText(level, x, middle);
      x += wide + 5;
    }
    // Later ones of a chain need some room too.
    const room = at < box.chain.length - 1 ? Math.max((right - x) * 0.62, 40) : right - x;
    const text = cut(domain.value, room, inBold);
    context.fillStyle = theme.colour("ink");
    context.font = bold;
    context.fillText(text, x, middle);
    x += inBold(text) + 12;
  });
}

/** How many nodes of a domain have trouble: not those that are only cordoned. */
export function troubled(health: Uint32Array, domain: Domain): number {
  const row = domain.id * HEALTH.length;
  return (health[row + 1] ?? 0) + (health[row + 2] ?? 0) + (health[row + 3] ?? 0) + (health[row + 4] ?? 0);
}

function worst(health: Uint32Array, domain: Domain): number {
  for (let at = 1; at < HEALTH.length; at++) if (health[domain.id * HEALTH.length + at]) return at;
  return 0;
}

function paintPen(context: CanvasRenderingContext2D, box: PenBox, theme: Theme): void {
  rounded(context, box.x + 0.5, box.y + 0.5, box.w - 1, box.h - 1, 8);
  context.strokeStyle = theme.colour("soft");
  context.lineWidth = 1.2;
  context.setLineDash([5, 4]);
  context.stroke();
  context.setLineDash([]);
  const middle = box.y + box.head / 2 + 1;
  const [bold, plain] = [`600 12px ${theme.font}`, `400 11.5px ${theme.font}`];
  const count = many(box.pen.nodes.length, "node");
  context.font = bold;
  context.fillStyle = theme.colour("ink");
  context.fillText(count, box.x + 10, middle);
  const x = box.x + 10 + measuring(context, bold)(count) + 8;
  context.font = plain;
  context.fillStyle = theme.colour("soft");
  context.fillText(cut(box.pen.reason, box.x + box.w - 10 - x, measuring(context, plain), 0), x, middle);
}

function paintFit(context: CanvasRenderingContext2D, box: DomainBox, theme: Theme): void {
  // Inside of the box: what lies on the edge of the picture would be cut off.
  const half = box.w > 30 ? 1.75 : 1;
  rounded(context, box.x + half, box.y + half, box.w - 2 * half, box.h - 2 * half, 7);
  context.strokeStyle = theme.colour("fit");
  context.lineWidth = box.w > 30 ? 3.5 : 2;
  context.stroke();
}
