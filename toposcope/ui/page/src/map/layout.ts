// Where everything is drawn: the domain in focus, what is nested in it as far as there is room, and which nodes are in none.
import { type Domain, type Forest, narrowed, type Pen } from "../model/domains.ts";
import type { Table } from "../model/table.ts";
import { type Box, grid, readable, tile } from "./tiles.ts";

export interface DomainBox extends Box {
  readonly domain: Domain;
  /** Domains with nothing else in them share one box: the broadest, down to this one. */
  readonly chain: readonly Domain[];
  /** Height of the line with its name; 0: no room for one. */
  readonly head: number;
  /** The line stands on its end, along the left side of a box that is too narrow for it. */
  readonly upright: boolean;
  /** Nestedness from the focus; 1: stands in it directly. */
  readonly depth: number;
  /** Drawn as one: what is in it would be too small. */
  readonly whole: boolean;
}

export interface PenBox extends Box {
  readonly pen: Pen;
  readonly head: number;
  readonly shown: number;
}

export interface Layout {
  readonly focus: Domain;
  readonly width: number;
  readonly height: number;
  readonly domains: readonly DomainBox[];
  readonly pens: readonly PenBox[];
  /** Node by node, with four numbers each in `boxes`: x, y, width, height. */
  readonly nodes: Int32Array;
  readonly boxes: Float32Array;
  /** Nodes from this position on stand in pens. */
  readonly apart: number;
}

const GAPS = [10, 6, 4, 3] as const;
/** Nodes smaller than this are shown by their domain, as shares of it. */
const MIN_NODE_PX = 3.2;
/** And domains by the one around them. */
const MIN_DOMAIN_PX = 6;
const HEAD_PX = 22;
/** The least height of a pen: its reason, and nodes with their names. */
const PEN_PX = 84;
/** From this width on pens stand side by side. */
const MIN_ABREAST_PX = 600;

export function layoutOf(table: Table, forest: Forest, focus: Domain, width: number, height: number): Layout {
  const domains: DomainBox[] = [];
  const nodes: number[] = [];
  const boxes: number[] = [];
  const put = (node: number, box: Box) => {
    nodes.push(node);
    boxes.push(box.x, box.y, box.w, box.h);
  };

  const fill = (domain: Domain, box: Box, depth: number): void => {
    const gap = gapAt(depth, box);
    const [inner, singles] = [domain.children, domain.nodes];
    if (!inner.length) {
      const sizes = singles.map((node) => table.gpus[node] || 1);
      const spots = tile(sizes, box, nodeGap(singles.length, box));
      singles.forEach((node, at) => {
        const spot = spots[at];
        if (spot) put(node, spot);
      });
      return;
    }
    // Nodes beside domains share one part of the room, as if they were a domain.
    const sizes = inner.map((child) => child.drawn || child.end - child.start);
    if (singles.length) sizes.push(singles.reduce((sum, node) => sum + (table.gpus[node] || 1), 0));
    const spots = readable(sizes, box, gap);
    // Names on some of them only would look as if the others were something else.
    const heads = spots.filter((spot) => hasRoomForName(spot) || isNarrow(spot)).length * 3 >= spots.length * 2;
    inner.forEach((child, at) => {
      const spot = spots[at];
      if (spot) place(child, spot, depth + 1, heads);
    });
    const last = spots[inner.length];
    if (singles.length && last) {
      const within = tile(
        singles.map((node) => table.gpus[node] || 1),
        last,
        nodeGap(singles.length, last),
      );
      singles.forEach((node, at) => {
        const spot = within[at];
        if (spot) put(node, spot);
      });
    }
  };

  const place = (domain: Domain, spot: Box, depth: number, heads: boolean): void => {
    const last = narrowed(domain);
    const chain: Domain[] = [];
    for (let here: Domain | null = last; here && here !== domain.parent; here = here.parent) chain.unshift(here);
    const count = last.end - last.start;
    const upright = !hasRoomForName(spot) && isNarrow(spot);
    const head = heads && (upright || hasRoomForName(spot)) ? HEAD_PX : 0;
    const pad = head && !upright ? (spot.w > 160 ? 6 : 4) : spot.w > 24 && spot.h > 24 ? 2 : 1;
    const [left, top] = upright ? [head || pad, pad] : [pad, head || pad];
    const inside = { x: spot.x + left, y: spot.y + top, w: spot.w - left - pad, h: spot.h - top - pad };
    const room = Math.max(inside.w, 0) * Math.max(inside.h, 0);
    // What is in it is domains or nodes: domains are told apart as long as each has some pixels for its shares.
    const parts = last.children.length || count;
    const least = last.children.length ? MIN_DOMAIN_PX : MIN_NODE_PX;
    const whole = room / Math.max(parts, 1) < least * least || inside.w < least || inside.h < least;
    domains.push({ ...spot, domain: last, chain, head, upright, depth, whole });
    if (!whole) fill(last, inside, depth);
  };

  const pens = focus.parent ? [] : forest.pens;
  const across = width >= MIN_ABREAST_PX;
  const shown = pens.slice(0, across ? 6 : 3);
  const strip = stripHeight(shown, forest, width, height);
  const body = { x: 0, y: 0, w: width, h: height - (strip ? strip + 14 : 0) };
  const start = narrowed(focus);
  if (focus.end > focus.start) fill(start, body, 0);
  const apart = nodes.length;
  const penBoxes: PenBox[] = [];
  if (strip) {
    // By the root of their counts: a pen of one node still has room for its reason.
    const sizes = shown.map((pen) => Math.sqrt(pen.nodes.length));
    const total = sizes.reduce((sum, size) => sum + size, 0);
    let at = across ? 0 : body.h + 14;
    shown.forEach((pen, index) => {
      const share = (sizes[index] ?? 0) / total;
      const gap = 10;
      const least = across ? Math.min(190, (width - gap * (shown.length - 1)) / shown.length) : PEN_PX;
      const free = (across ? width : strip) - gap * (shown.length - 1) - least * shown.length;
      const long = least + free * share;
      const box = across ? { x: at, y: body.h + 14, w: long, h: strip } : { x: 0, y: at, w: width, h: long };
      at += long + gap;
      const inside = { x: box.x + 8, y: box.y + 26, w: box.w - 16, h: box.h - 34 };
      const fits = Math.min(
        pen.nodes.length,
        Math.floor(Math.max(inside.w * inside.h, 1) / (MIN_NODE_PX * MIN_NODE_PX)),
      );
      const some = pen.nodes.slice(0, fits);
      // Few nodes in a large pen stay small: what stands apart is no bigger than what is in the map.
      const room = some.length * 90 * 46 < inside.w * inside.h ? tight(some.length, inside) : inside;
      const spots = grid(some.length, room, nodeGap(some.length, room));
      some.forEach((node, at) => {
        const spot = spots[at];
        if (spot) put(node, spot);
      });
      penBoxes.push({ ...box, pen, head: 26, shown: fits });
    });
  }
  return {
    focus,
    width,
    height,
    domains,
    pens: penBoxes,
    nodes: Int32Array.from(nodes),
    boxes: Float32Array.from(boxes),
    apart,
  };
}

function hasRoomForName(box: Box): boolean {
  return box.h >= 40 && box.w >= 60;
}

/** Whether a name has room along the side only. */
function isNarrow(box: Box): boolean {
  return box.w < 60 && box.w >= 36 && box.h >= 100;
}

/** A part of the room at its beginning in which so many nodes have 90 by 46 pixels. */
function tight(count: number, box: Box): Box {
  const columns = Math.max(1, Math.min(count, Math.floor(box.w / 90)));
  const rows = Math.ceil(count / columns);
  return { x: box.x, y: box.y, w: Math.min(box.w, columns * 90), h: Math.min(box.h, rows * 46) };
}

function stripHeight(pens: readonly Pen[], forest: Forest, width: number, height: number): number {
  if (!pens.length) return 0;
  const apart = pens.reduce((sum, pen) => sum + pen.nodes.length, 0);
  const share = apart / Math.max(apart + forest.order.length, 1);
  const least = penRoom(pens.length, width);
  return Math.round(Math.max(least, Math.min(height * share * 1.2, height * 0.4)));
}

/** The least height of so many pens: side by side, on a narrow screen one below the other. */
export function penRoom(pens: number, width: number): number {
  return width >= MIN_ABREAST_PX ? PEN_PX : Math.min(pens, 3) * (PEN_PX + 10) - 10;
}

function gapAt(depth: number, box: Box): number {
  const gap = GAPS[Math.min(depth, GAPS.length - 1)] ?? 3;
  return Math.max(1, Math.min(gap, Math.min(box.w, box.h) / 30));
}

function nodeGap(count: number, box: Box): number {
  const side = Math.sqrt((Math.max(box.w, 0) * Math.max(box.h, 0)) / Math.max(count, 1));
  return side > 40 ? 4 : side > 16 ? 2 : side > 6 ? 1 : 0.5;
}

export type Hit = { kind: "node"; node: number; at: number } | { kind: "domain"; box: DomainBox } | null;

/** What is drawn at a point: the node there, else the narrowest domain. */
export function hit(layout: Layout, x: number, y: number): Hit {
  const { boxes, nodes } = layout;
  for (let at = 0; at < nodes.length; at++) {
    const left = boxes[at * 4] ?? 0;
    const top = boxes[at * 4 + 1] ?? 0;
    if (x >= left && y >= top && x < left + (boxes[at * 4 + 2] ?? 0) && y < top + (boxes[at * 4 + 3] ?? 0)) {
      return { kind: "node", node: nodes[at] ?? 0, at };
    }
  }
  let innermost: DomainBox | undefined;
  for (const box of layout.domains) {
    if (x >= box.x && y >= box.y && x < box.x + box.w && y < box.y + box.h) innermost = box;
  }
  return innermost ? { kind: "domain", box: innermost } : null;
}

/** The domain of the first level below the focus that a box lies in: what a click zooms into first. */
export function stepTo(focus: Domain, domain: Domain): Domain {
  let here = domain;
  const top = narrowed(focus);
  while (here.parent && here.parent !== top && here.parent !== focus) here = here.parent;
  return here;
}
