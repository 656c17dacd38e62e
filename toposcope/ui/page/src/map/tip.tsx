// The tooltip. It has a state of its own, so that moving the pointer redraws nothing else.
import type { RefObject } from "preact";
import { useState } from "preact/hooks";
import { type Forest, levelName, outOfReach, pathOf } from "../model/domains.ts";
import { HEALTH, healthAt } from "../model/lens.ts";
import { listOf, type Table, word } from "../model/table.ts";
import type { Hit } from "./layout.ts";
import { freeWords, many, route } from "./text.ts";

export interface Tipped {
  target: Hit;
  x: number;
  y: number;
}

interface Props {
  register: RefObject<(tipped: Tipped | null) => void>;
  table: Table;
  forest: Forest;
  health: Uint32Array;
  width: number;
  height: number;
}

export function Tip({ register, table, forest, health, width, height }: Props) {
  const [tipped, setTipped] = useState<Tipped | null>(null);
  register.current = setTipped;
  const target = tipped?.target;
  if (!target) return null;
  const left = tipped.x > width / 2;
  const above = tipped.y > height / 2;
  const style = {
    left: left ? "auto" : `${tipped.x + 14}px`,
    right: left ? `${width - tipped.x + 14}px` : "auto",
    top: above ? "auto" : `${tipped.y + 14}px`,
    bottom: above ? `${height - tipped.y + 14}px` : "auto",
  };
  if (target.kind === "domain") {
    const { domain } = target.box;
    const ailing = HEALTH.map((category, at) => ({ category, count: health[domain.id * HEALTH.length + at] ?? 0 }));
    return (
      <div class="tip" style={style}>
        <b>{domain.value}</b>
        <div class="soft">{levelName(forest, domain)}</div>
        <div>
          {many(domain.count, "node")}, {many(domain.gpus, "GPU")}
          {domain.free !== null && `, ${freeWords(domain.free, domain.blocked)}`}
        </div>
        {ailing.slice(1).map(
          ({ category, count }) =>
            count > 0 && (
              <div key={category.key}>
                <Swatch tone={category.tone} /> {count} {category.label}
              </div>
            ),
        )}
      </div>
    );
  }
  const { node } = target;
  const marks = listOf(table.marks, node);
  const category = HEALTH[healthAt(table, forest, node)];
  const home = forest.home[node];
  const why = table.reasons.get(node) ?? [];
  const blocked = outOfReach(table, forest, node);
  return (
    <div class="tip" style={style}>
      <b>{table.names[node]}</b>
      {home?.parent && <div class="soft">{route(pathOf(home))}</div>}
      <div>
        {many(table.gpus[node] ?? 0, "GPU")}
        {table.free && `, ${freeWords(table.free[node] ?? 0, blocked.gpus)}`}{" "}
        {word(table.facts.get("product"), table.names, node)}
      </div>
      <div>
        <Swatch tone={category?.tone ?? "odd"} /> {marks.length ? marks.join(", ") : category?.label}
      </div>
      {why.slice(0, 3).map((reason) => (
        <div key={reason} class="why">
          {reason}
        </div>
      ))}
      {blocked.gpus > 0 && !forest.why.has(node) && <div class="why">Out of reach: {blocked.why}</div>}
      {forest.why.has(node) && <div class="why">Left out: {forest.why.get(node)}</div>}
    </div>
  );
}

export function Swatch({ tone }: { tone: string }) {
  return <i class="swatch" style={{ background: `var(--${tone})` }} />;
}
