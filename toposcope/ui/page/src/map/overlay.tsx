// A button over each thing on the map that one can go to: arrows move between them as they lie, Enter goes in.
import { useEffect, useRef, useState } from "preact/hooks";
import { type Domain, type Forest, levelName, narrowed, outOfReach, pathOf } from "../model/domains.ts";
import { HEALTH, healthAt } from "../model/lens.ts";
import { listOf, type Table } from "../model/table.ts";
import type { Layout } from "./layout.ts";
import { troubled } from "./paint.ts";
import { freeWords, many } from "./text.ts";
import type { Box } from "./tiles.ts";

export type Item = Box &
  ({ readonly domain: Domain; readonly node: null } | { readonly domain: null; readonly node: number });

/** What stands in the focus directly, and who stands apart; what is deeper is reached by going in. */
export function itemsOf(layout: Layout, forest: Forest): Item[] {
  const items: Item[] = [];
  for (const box of layout.domains) {
    if (box.depth === 1) items.push({ x: box.x, y: box.y, w: box.w, h: box.h, domain: box.domain, node: null });
  }
  const here = narrowed(layout.focus);
  layout.nodes.forEach((node, at) => {
    if (at < layout.apart && forest.home[node] !== here) return;
    const [x, y, w, h] = layout.boxes.subarray(at * 4, at * 4 + 4);
    items.push({ x: x ?? 0, y: y ?? 0, w: w ?? 0, h: h ?? 0, domain: null, node });
  });
  return items;
}

/** As many buttons as there are at once: the ones around the active one. */
const MAX_BUTTONS = 240;

interface Props {
  items: readonly Item[];
  table: Table;
  forest: Forest;
  focus: Domain;
  health: Uint32Array;
  zoom(domain: Domain): void;
  open(node: number): void;
}

export function Overlay({ items, table, forest, focus, health, zoom, open }: Props) {
  const [active, setActive] = useState(0);
  const group = useRef<HTMLDivElement>(null);
  const shown = useRef<Shown>({ focus, forest });
  const hasFocus = useRef(false);
  useEffect(() => {
    const before = shown.current;
    shown.current = { focus, forest };
    // A newer snapshot of the same place leaves the active button as it is.
    if (samePlace(before, { focus, forest })) return;
    // Coming back, the button is that of where one was; going in, it is the first.
    const was =
      before.forest === forest ? items.findIndex((item) => item.domain && holds(item.domain, before.focus)) : -1;
    setActive(Math.max(was, 0));
    if (hasFocus.current)
      requestAnimationFrame(() => group.current?.querySelector<HTMLElement>('[tabindex="0"]')?.focus());
  }, [focus, forest, items]);

  const from = Math.max(0, Math.min(active - MAX_BUTTONS / 2, items.length - MAX_BUTTONS));
  const move = (event: KeyboardEvent): void => {
    const next = event.key === "Home" ? 0 : event.key === "End" ? items.length - 1 : towards(items, active, event.key);
    if (next === null) return;
    event.preventDefault();
    setActive(next);
    requestAnimationFrame(() => group.current?.querySelector<HTMLElement>('[tabindex="0"]')?.focus());
  };
  return (
    <div
      ref={group}
      class="overlay"
      role="group"
      aria-label={`Map of ${focus.value || forest.view.name || "the cluster"}: ${many(items.length, "item")}. Arrow keys move, Enter opens, Escape goes back.`}
      onKeyDown={move}
      onFocusCapture={() => {
        hasFocus.current = true;
      }}
      onBlurCapture={() => {
        // A button that goes away with the picture loses the focus too: only a move elsewhere ends it.
        setTimeout(() => {
          const now = document.activeElement;
          if (now && now !== document.body && !group.current?.contains(now)) hasFocus.current = false;
        });
      }}
    >
      {items.slice(from, from + MAX_BUTTONS).map((item, offset) => (
        <Cell
          key={item.domain ? `d${item.domain.id}` : `n${item.node}`}
          item={item}
          label={item.domain ? aboutDomain(item.domain, forest, health) : aboutNode(item.node, table, forest)}
          current={from + offset === Math.min(active, items.length - 1)}
          choose={() => (item.domain ? zoom(item.domain) : open(item.node))}
          reach={() => setActive(from + offset)}
        />
      ))}
    </div>
  );
}

interface CellProps {
  item: Item;
  label: string;
  current: boolean;
  choose(): void;
  reach(): void;
}

function Cell({ item, label, current, choose, reach }: CellProps) {
  // Preact sets `style` property by property, which a strict Content-Security-Policy allows.
  const style = { left: `${item.x}px`, top: `${item.y}px`, width: `${item.w}px`, height: `${item.h}px` };
  return (
    <button
      type="button"
      style={style}
      tabIndex={current ? 0 : -1}
      aria-label={label}
      onClick={choose}
      onFocus={reach}
    />
  );
}

export function aboutDomain(domain: Domain, forest: Forest, health: Uint32Array): string {
  const trouble = troubled(health, domain);
  const free = domain.free === null ? "" : `, ${freeWords(domain.free, domain.blocked)}`;
  const words = `${levelName(forest, domain)} ${domain.value}: ${many(domain.count, "node")}, ${many(domain.gpus, "GPU")}${free}`;
  return trouble ? `${words}, ${trouble} with problems` : words;
}

export function aboutNode(node: number, table: Table, forest: Forest): string {
  const marks = listOf(table.marks, node);
  const blocked = outOfReach(table, forest, node);
  const free = table.free ? `, ${freeWords(table.free[node] ?? 0, blocked.gpus)}` : "";
  const health = marks.length ? marks.join(", ") : (HEALTH[healthAt(table, forest, node)]?.label ?? "");
  const why = [
    ...(table.reasons.get(node) ?? []).slice(0, 1),
    ...(forest.why.has(node) ? [forest.why.get(node)] : blocked.gpus ? [blocked.why] : []),
  ].join("; ");
  return `node ${table.names[node]}: ${many(table.gpus[node] ?? 0, "GPU")}${free}, ${health}${why ? `: ${why}` : ""}`;
}

/** The nearest item in the direction of an arrow key; null for other keys and where there is none. */
export function towards(items: readonly Item[], from: number, key: string): number | null {
  const start = items[from];
  const step = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1] }[key];
  if (!start || !step) return null;
  const [across = 0, down = 0] = step;
  let best: number | null = null;
  let least = Number.POSITIVE_INFINITY;
  items.forEach((item, at) => {
    const dx = item.x + item.w / 2 - start.x - start.w / 2;
    const dy = item.y + item.h / 2 - start.y - start.h / 2;
    const along = dx * across + dy * down;
    if (at === from || along <= 1) return;
    const aside = Math.abs(dx * down) + Math.abs(dy * across);
    const cost = along + aside * 2.5;
    if (cost < least) {
      least = cost;
      best = at;
    }
  });
  return best;
}

interface Shown {
  focus: Domain;
  forest: Forest;
}

function samePlace(a: Shown, b: Shown): boolean {
  return (
    a.forest.view.id === b.forest.view.id &&
    `${pathOf(a.focus).map(encodeURIComponent)}` === `${pathOf(b.focus).map(encodeURIComponent)}`
  );
}

function holds(outer: Domain, inner: Domain): boolean {
  for (let here: Domain | null = inner; here; here = here.parent) if (here === outer) return true;
  return false;
}
