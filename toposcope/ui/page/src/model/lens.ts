// What the map is coloured by: each lens puts every node into one of a few categories.
import { type Forest, outOfReach } from "./domains.ts";
import { listOf, type Table, type Words } from "./table.ts";

/** How a category is drawn besides its colour, for colour-blind users. */
export type Pattern = "plain" | "hatch" | "cross" | "dots" | "slash" | "bars" | "hollow";

export interface Category {
  readonly key: string;
  readonly label: string;
  /** A custom property of the style sheet, without its dashes. */
  readonly tone: string;
  readonly pattern: Pattern;
  /** Drawn first and never less than visibly where a domain is shown as a whole. */
  readonly rare: boolean;
  /** What it means, as a tooltip. */
  readonly hint?: string;
}

export interface Lens {
  readonly key: LensKey;
  readonly categories: readonly Category[];
  /** For each node the position of its category. */
  readonly of: Uint8Array;
}

export type LensKey = "health" | "free" | "coverage" | "product" | "shape";

export const LENSES: readonly { key: LensKey; label: string }[] = [
  { key: "health", label: "Health" },
  { key: "free", label: "Free GPUs" },
  { key: "coverage", label: "Coverage" },
  { key: "product", label: "Product" },
  { key: "shape", label: "Wiring shape" },
];

export function isLens(text: string | null): text is LensKey {
  return LENSES.some(({ key }) => key === text);
}

/** By severity: a node with several marks is drawn as its worst. */
export const HEALTH: readonly Category[] = [
  mark("ok", "healthy", "plain", "Ready, schedulable, wired as expected"),
  mark("not-ready", "not ready", "cross", "its Ready condition is not True"),
  mark("degraded", "degraded", "hatch", "fewer GPUs or links, or worse paths, than expected"),
  mark("unknown", "unknown", "dots", "the agent cannot read its hardware"),
  mark("no-agent", "no agent", "hollow", "has GPUs, but no agent has labelled it"),
  mark("cordoned", "cordoned", "slash", "unschedulable: accepts no new pods"),
  mark("tainted", "tainted", "bars", "accepts only pods that tolerate its taint"),
  mark("left-out", "left out", "hollow", "healthy, but it lacks a level, so schedulers that use this topology skip it"),
];
const UNKNOWN = 3;
const LAST_TROUBLE = 4;
const LEFT_OUT = HEALTH.length - 1;

/** Whether a category of health is a problem: a cordon or a taint may be intended, and left-out nodes have a category of their own. */
export function isTrouble(health: number): boolean {
  return health > 0 && health <= LAST_TROUBLE;
}

function mark(key: string, label: string, pattern: Pattern, hint: string): Category {
  return { key, label, tone: `health-${key}`, pattern, rare: key !== "ok", hint };
}

/** The category of health that a list of marks, worst first, stands for. */
export function healthOf(marks: readonly string[]): number {
  const worst = marks[0];
  if (worst === undefined) return 0;
  const index = HEALTH.findIndex(({ key }) => key === worst);
  return index < 0 ? UNKNOWN : index;
}

/** The category of health of a node in a view: a left-out node is not healthy, even if nothing is wrong with it. */
export function healthAt(table: Table, forest: Forest, node: number): number {
  return healthOf(listOf(table.marks, node)) || (forest.why.has(node) ? LEFT_OUT : 0);
}

export function lensOf(key: LensKey, table: Table, forest: Forest): Lens {
  switch (key) {
    case "health":
      return byHealth(table, forest);
    case "free":
      return byFree(table, forest);
    case "coverage":
      return byCoverage(table, forest);
    case "product":
      return byProduct(table);
    case "shape":
      return byShape(table);
  }
}

export function byHealth(table: Table, forest: Forest): Lens {
  const codes = Uint8Array.from(table.marks.values, (_, code) => healthOf(table.marks.values[code] ?? []));
  const of = Uint8Array.from(table.names, (_, node) => codes[table.marks.codes[node] ?? 0] ?? 0);
  for (const node of forest.why.keys()) of[node] ||= LEFT_OUT;
  return { key: "health", categories: HEALTH, of };
}

function byFree(table: Table, forest: Forest): Lens {
  const categories = [
    { key: "all", label: "all free", tone: "free-4", pattern: "plain" as const, rare: false },
    { key: "half", label: "half or more free", tone: "free-3", pattern: "plain" as const, rare: false },
    { key: "some", label: "less than half free", tone: "free-2", pattern: "plain" as const, rare: false },
    {
      key: "blocked",
      label: "out of reach",
      tone: "free-2",
      pattern: "hatch" as const,
      rare: true,
      hint: "free, but a pod with the median requests of GPU pods cannot use them",
    },
    { key: "none", label: "none free", tone: "free-1", pattern: "plain" as const, rare: false },
    { key: "unknown", label: "unknown", tone: "health-no-agent", pattern: "hollow" as const, rare: false },
  ];
  const at = (key: string): number => categories.findIndex((category) => category.key === key);
  const of = Uint8Array.from(table.names, (_, node) => {
    if (!table.free) return at("unknown");
    const gpus = table.gpus[node] ?? 0;
    const free = table.free[node] ?? 0;
    if (free <= 0) return at("none");
    const within = free - outOfReach(table, forest, node).gpus;
    if (within <= 0) return at("blocked");
    return at(within >= gpus ? "all" : within * 2 >= gpus ? "half" : "some");
  });
  return { key: "free", categories, of };
}

function byCoverage(table: Table, forest: Forest): Lens {
  const whole = {
    key: "all",
    label: "has every level",
    tone: "cover-whole",
    pattern: "plain" as const,
    rare: false,
  };
  const patterns: readonly Pattern[] = ["hatch", "dots", "cross", "slash"];
  const pens = forest.pens.slice(0, 6);
  const lacking = pens.map((pen, at) => ({
    key: pen.reason,
    label: pen.reason,
    tone: `cover-${Math.min(at, 3) + 1}`,
    pattern: patterns[Math.min(at, 3)] ?? ("slash" as const),
    rare: true,
  }));
  const other = {
    key: "elsewhere",
    label: "in another topology",
    tone: "odd",
    pattern: "hollow" as const,
    rare: false,
  };
  const of = new Uint8Array(table.names.length).fill(pens.length + 1);
  for (const node of forest.order) of[node] = 0;
  forest.pens.forEach((pen, at) => {
    for (const node of pen.nodes) of[node] = Math.min(at + 1, pens.length);
  });
  return { key: "coverage", categories: [whole, ...lacking, other], of };
}

const MAX_KINDS = 8;

function byProduct(table: Table): Lens {
  const column = table.facts.get("product");
  const ranking = ranked(column, table.names.length);
  const categories: Category[] = ranking.top.map((code, at) => ({
    key: column?.values[code] ?? "",
    label: column?.values[code] ?? "",
    tone: `kind-${at + 1}`,
    pattern: "plain",
    rare: false,
  }));
  categories.push({
    key: "other",
    label: ranking.more ? "others" : "unknown",
    tone: "odd",
    pattern: "hollow",
    rare: false,
  });
  return { key: "product", categories, of: positions(column, table.names.length, ranking.top) };
}

/** Nodes of one product are wired alike in most clusters: the usual shape of each is quiet, any other stands out. */
function byShape(table: Table): Lens {
  const column = table.facts.get("shape");
  const products = table.facts.get("product");
  const ranking = ranked(column, table.names.length);
  const usual = new Map<number, number>();
  const productOf = new Map<number, number>();
  for (const code of ranking.all) {
    const product = products?.codes[ranking.first.get(code) ?? 0] ?? -1;
    productOf.set(code, product);
    if (!usual.has(product)) usual.set(product, code);
  }
  let odd = 0;
  let kind = 0;
  const categories: Category[] = ranking.top.map((code) => {
    const shape = column?.values[code] ?? "";
    const product = productOf.get(code) ?? -1;
    const name = products?.values[product];
    const strange = usual.get(product) !== code;
    const tone = strange ? `strange-${(odd++ % 3) + 1}` : `kind-${(kind++ % MAX_KINDS) + 1}`;
    return {
      key: shape,
      label: name ? `${shape} ${name}` : shape,
      tone,
      pattern: strange ? ((["hatch", "cross", "dots"] as const)[(odd - 1) % 3] ?? "hatch") : "plain",
      rare: strange,
      hint: strange ? `wired differently from most ${name ?? "nodes"}` : `wired like most ${name ?? "nodes"}`,
    };
  });
  categories.push({
    key: "other",
    label: ranking.more ? "other shapes" : "unknown",
    tone: "odd",
    pattern: "hollow",
    rare: false,
  });
  return { key: "shape", categories, of: positions(column, table.names.length, ranking.top) };
}

function ranked(column: Words | undefined, nodes: number) {
  const counts = new Map<number, number>();
  const first = new Map<number, number>();
  for (let node = 0; node < nodes; node++) {
    const code = column?.codes[node] ?? -1;
    if (code < 0) continue;
    counts.set(code, (counts.get(code) ?? 0) + 1);
    if (!first.has(code)) first.set(code, node);
  }
  // Equal counts in the order of their words, so that colours stay when nodes come and go.
  const words = column?.values ?? [];
  const all = [...counts.keys()].sort(
    (a, b) => (counts.get(b) ?? 0) - (counts.get(a) ?? 0) || ((words[a] ?? "") < (words[b] ?? "") ? -1 : 1),
  );
  return { all, top: all.slice(0, MAX_KINDS), more: all.length > MAX_KINDS, first };
}

function positions(column: Words | undefined, nodes: number, top: readonly number[]): Uint8Array {
  const place = new Map(top.map((code, at) => [code, at]));
  const of = new Uint8Array(nodes);
  for (let node = 0; node < nodes; node++) of[node] = place.get(column?.codes[node] ?? -1) ?? top.length;
  return of;
}

/** How many nodes (`highlighted`: of these) of each category each domain holds: row `domain.id` of a matrix with a column a category. */
export function tally(lens: Lens, forest: Forest, highlighted: Uint8Array | null = null): Uint32Array {
  const width = lens.categories.length;
  const counts = new Uint32Array(forest.all.length * width);
  for (const domain of forest.all) {
    for (const node of domain.nodes) {
      if (highlighted && !highlighted[node]) continue;
      const at = domain.id * width + (lens.of[node] ?? 0);
      counts[at] = (counts[at] ?? 0) + 1;
    }
  }
  // A domain is made after its parent: backwards, each row is whole before it is added to the one above.
  for (let id = forest.all.length - 1; id > 0; id--) {
    const parent = forest.all[id]?.parent;
    if (!parent) continue;
    for (let column = 0; column < width; column++) {
      const at = parent.id * width + column;
      counts[at] = (counts[at] ?? 0) + (counts[id * width + column] ?? 0);
    }
  }
  return counts;
}
