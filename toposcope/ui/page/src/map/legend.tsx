// What the colours mean, how many nodes have each, and a click to see only those.
import { useLayoutEffect, useRef } from "preact/hooks";
import type { Domain } from "../model/domains.ts";
import { type Category, LENSES, type Lens, type LensKey } from "../model/lens.ts";
import { figure } from "./text.ts";
import { themeOf } from "./theme.ts";

interface Props {
  lens: Lens;
  counts: Uint32Array;
  apart: ReadonlyMap<number, number>;
  focus: Domain;
  only: string | null;
  theme: string;
  /** False where pods, and with them what is taken, are unknown. */
  freeKnown: boolean;
  /** The pod by which free GPUs are judged. */
  pod: string;
  setLens(lens: LensKey): void;
  setOnly(only: string | null): void;
}

export function Legend({ lens, counts, apart, focus, only, theme, freeKnown, pod, setLens, setOnly }: Props) {
  const somethingBlocked = focus.blocked > 0;
  const width = lens.categories.length;
  const inFocus = (at: number): number =>
    (counts[focus.id * width + at] ?? 0) + (focus.parent ? 0 : (apart.get(at) ?? 0));
  return (
    <div class="legend">
      <label class="lens">
        <span>Colour by</span>
        <select value={lens.key} onChange={(event) => setLens(event.currentTarget.value as LensKey)}>
          {LENSES.map(({ key, label }) => (
            <option key={key} value={key}>
              {label}
            </option>
          ))}
        </select>
      </label>
      <fieldset class="chips">
        <legend class="sr-only">Show only</legend>
        {lens.categories.map((category, at) => {
          const count = inFocus(at);
          if (!count && category.key !== only && lens.key !== "free") return null;
          if (!count && category.key === "unknown" && lens.key === "free") return null;
          return (
            <button
              key={category.key}
              type="button"
              class="chip"
              aria-pressed={only === category.key}
              title={category.hint}
              onClick={() => setOnly(only === category.key ? null : category.key)}
            >
              <Sample category={category} theme={theme} />
              <span class="name">{category.label}</span>
              <span class="count">{figure(count)}</span>
            </button>
          );
        })}
        {only !== null && (
          <button type="button" class="chip clear" onClick={() => setOnly(null)}>
            Show all
          </button>
        )}
      </fieldset>
      <p class="squares">
        <Square full /> {freeKnown ? "free GPU" : "GPU"}
        {freeKnown && (
          <>
            {somethingBlocked && (
              <>
                <Square half /> <span title={`free, but no pod that requests ${pod} can use them`}>out of reach</span>
              </>
            )}
            <Square /> in use
          </>
        )}
      </p>
    </div>
  );
}

/** As on the map: a GPU of a node. */
export function Square({ full = false, half = false }: { full?: boolean; half?: boolean }) {
  return <i class={full ? "square full" : half ? "square half" : "square"} aria-hidden="true" />;
}

/** The colour with its pattern, drawn by what draws the map. */
export function Sample({ category, theme }: { category: Category; theme: string }) {
  const canvas = useRef<HTMLCanvasElement>(null);
  useLayoutEffect(() => {
    const element = canvas.current;
    const context = element?.getContext("2d");
    if (!element || !context) return;
    element.width = element.height = 32;
    context.scale(2, 2);
    context.beginPath();
    context.roundRect(1, 1, 14, 14, 4);
    const look = themeOf(theme, 2);
    context.fillStyle = look.fill(category, true);
    context.fill();
    if (category.pattern === "hollow") {
      context.strokeStyle = look.colour("soft");
      context.setLineDash([3, 2]);
      context.stroke();
    }
  }, [category, theme]);
  return <canvas ref={canvas} class="sample" aria-hidden="true" />;
}
