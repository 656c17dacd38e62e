// The map: a canvas for the eye, buttons over it for keyboards and screen readers, a note under the pointer.
import type { RefObject } from "preact";
import { useEffect, useLayoutEffect, useMemo, useRef, useState } from "preact/hooks";
import { type Domain, narrowed } from "../model/domains.ts";
import { hit, type Layout, layoutOf, penRoom } from "./layout.ts";
import { itemsOf, Overlay } from "./overlay.tsx";
import { paint, type Scene } from "./paint.ts";
import { themeOf } from "./theme.ts";
import type { Box } from "./tiles.ts";
import { Tip, type Tipped } from "./tip.tsx";

export interface MapProps extends Omit<Scene, "layout"> {
  focus: Domain;
  theme: string;
  zoom(domain: Domain): void;
  open(node: number): void;
}

/** How long a change of the view is drawn, in milliseconds. */
const GLIDE_MS = 160;
/** Smaller nodes are too hard to hit: a click on one leads to its domain first. */
const MIN_CLICK_PX = 26;

export function MapView(props: MapProps) {
  const { focus, theme, table, forest, lens, counts, health, highlighted, highlightedCounts, fits, changed } = props;
  const frame = useRef<HTMLDivElement>(null);
  const canvas = useRef<HTMLCanvasElement>(null);
  const last = useRef<Layout | null>(null);
  const tip = useRef<(tipped: Tipped | null) => void>(() => undefined);
  const size = useSize(frame);
  const layout = useMemo(
    () => (size.w > 0 ? layoutOf(table, forest, focus, size.w, size.h) : null),
    [table, forest, focus, size],
  );
  const items = useMemo(() => (layout ? itemsOf(layout, forest) : []), [layout, forest]);

  useLayoutEffect(() => {
    const element = canvas.current;
    const context = element?.getContext("2d");
    if (!element || !context || !layout) return;
    const density = Math.min(devicePixelRatio || 1, 2);
    element.width = Math.round(layout.width * density);
    element.height = Math.round(layout.height * density);
    const look = themeOf(theme, density);
    const scene = { table, forest, layout, lens, counts, health, highlighted, highlightedCounts, fits, changed };
    const draw = (from: Box | null, share: number): void => {
      context.setTransform(density, 0, 0, density, 0, 0);
      context.clearRect(0, 0, layout.width, layout.height);
      if (from) {
        // The new picture grows out of (or shrinks into) the box that it has in the picture before.
        const left = from.x * (1 - share);
        const top = from.y * (1 - share);
        const wide = from.w + (layout.width - from.w) * share;
        const high = from.h + (layout.height - from.h) * share;
        context.translate(left, top);
        context.scale(wide / layout.width, high / layout.height);
      }
      paint(context, scene, look);
    };
    const before = last.current;
    last.current = layout;
    const from = before && before.focus !== layout.focus ? origin(before, layout) : null;
    if (!from || matchMedia("(prefers-reduced-motion: reduce)").matches) {
      draw(null, 1);
      drawn();
      return;
    }
    let request = 0;
    const started = performance.now();
    const step = (): void => {
      const share = Math.min(1, (performance.now() - started) / GLIDE_MS);
      draw(share < 1 ? from : null, 1 - (1 - share) ** 3);
      if (share < 1) request = requestAnimationFrame(step);
      else drawn();
    };
    step();
    return () => cancelAnimationFrame(request);
  }, [layout, lens, counts, health, highlighted, highlightedCounts, fits, changed, theme]);

  // A tooltip about something that is gone would be wrong.
  useEffect(() => tip.current(null), [layout]);

  const at = (event: MouseEvent) => {
    const box = frame.current?.getBoundingClientRect();
    return box && layout ? { x: event.clientX - box.left, y: event.clientY - box.top, layout } : null;
  };
  const onClick = (event: MouseEvent): void => {
    // Buttons are clicked by keyboards and screen readers, and answer themselves.
    if (event.target instanceof HTMLButtonElement) return;
    const spot = at(event);
    const target = spot && hit(spot.layout, spot.x, spot.y);
    if (!target) return;
    if (target.kind === "domain") {
      props.zoom(target.box.domain);
      return;
    }
    const home = forest.home[target.node];
    const wide = spot.layout.boxes[target.at * 4 + 2] ?? 0;
    const high = spot.layout.boxes[target.at * 4 + 3] ?? 0;
    const near = !home || narrowed(focus) === home || target.at >= spot.layout.apart;
    if (near || (wide >= MIN_CLICK_PX && high >= MIN_CLICK_PX / 2)) props.open(target.node);
    else props.zoom(home);
  };
  const onMove = (event: MouseEvent): void => {
    const spot = at(event);
    const target = spot && hit(spot.layout, spot.x, spot.y);
    const clear = !target || (target.kind === "domain" && !target.box.head && !target.box.whole && target.box.w > 60);
    tip.current(clear ? null : { target, x: spot.x, y: spot.y });
  };
  return (
    // biome-ignore lint/a11y: the buttons in the overlay do for keyboards what this does for pointers
    <div
      class="map"
      ref={frame}
      style={{ "--pens": focus.parent || !forest.pens.length ? "0px" : `${penRoom(forest.pens.length, size.w)}px` }}
      onClick={onClick}
      onMouseMove={onMove}
      onMouseLeave={() => tip.current(null)}
    >
      <canvas ref={canvas} aria-hidden="true" />
      {layout && <Overlay items={items} {...props} />}
      <Tip register={tip} table={table} forest={forest} health={health} width={size.w} height={size.h} />
      {layout && !layout.nodes.length && !layout.domains.length && <p class="empty">No nodes here.</p>}
    </div>
  );
}

/** How large an element is. Made apart from the map: its closures live as long as the page, and must not keep a cluster. */
function useSize(frame: RefObject<HTMLElement | null>): { w: number; h: number } {
  const [size, setSize] = useState({ w: 0, h: 0 });
  useLayoutEffect(() => {
    const element = frame.current;
    if (!element) return;
    const measure = (): void => {
      const { width, height } = element.getBoundingClientRect();
      setSize((was) => (was.w === width && was.h === height ? was : { w: width, h: height }));
    };
    const observer = new ResizeObserver(measure);
    observer.observe(element);
    measure();
    return () => observer.disconnect();
  }, [frame]);
  return size;
}

/** For benchmarks. Only the last mark is kept: a page that is open for weeks would accumulate them. */
function drawn(): void {
  performance.clearMarks("toposcope:map");
  performance.mark("toposcope:map");
}

/** The box from which one layout becomes another: where the inner of the two lies in the outer. */
function origin(before: Layout, now: Layout): Box | null {
  const inner = before.domains.find((box) => box.chain.includes(now.focus));
  if (inner) return inner;
  const outer = now.domains.find((box) => box.chain.includes(before.focus));
  if (!outer) return null;
  // Zooming out begins with the picture so large that the domain one comes from fills the frame.
  const across = now.width / outer.w;
  const down = now.height / outer.h;
  return { x: -outer.x * across, y: -outer.y * down, w: now.width * across, h: now.height * down };
}
