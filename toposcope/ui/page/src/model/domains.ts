// One view of the cluster as nested domains: which nodes are in which, and which are in none.
import { ABSENT, type LevelView, OWN_NAME, type View } from "../protocol.ts";
import { type Table, word } from "./table.ts";

const HOSTNAME = "kubernetes.io/hostname";

/** A domain with everything below it. Its identity is the path of values that leads to it. */
export interface Domain {
  readonly id: number;
  /** 0: the whole view; n: a domain of its n-th level. */
  readonly depth: number;
  readonly value: string;
  readonly parent: Domain | null;
  readonly children: Domain[];
  /** Nodes that stand in it directly: in no narrower domain that they share with others. */
  readonly nodes: number[];
  /** All nodes below, in the order in which they are drawn: `forest.order[start]` to `forest.order[end - 1]`. */
  start: number;
  end: number;
  /** GPUs of the nodes that are drawn in it. */
  drawn: number;
  /** Nodes, GPUs, free ones and those out of reach as commands count them: with nodes that lack a narrower level. */
  count: number;
  gpus: number;
  /** Null where pods are unknown. */
  free: number | null;
  /** Of the free ones: what a pod of typical shape cannot get. */
  blocked: number;
}

/** Nodes that schedulers skip, with the reason that they share. It stands after "1 node" as well as after "3 nodes". */
export interface Pen {
  readonly reason: string;
  readonly nodes: number[];
}

export interface Forest {
  readonly view: View;
  /** The levels that nest, broadest first. */
  readonly levels: readonly LevelView[];
  readonly root: Domain;
  readonly all: readonly Domain[];
  /** Every node that is in the map, so that each domain is one stretch of it. */
  readonly order: Int32Array;
  /** Position of each node in `order`; -1 for those that stand apart or belong to another view. */
  readonly rank: Int32Array;
  /** The domain in which each node stands; also for one that lacks a level: the last that it has. */
  readonly home: readonly (Domain | undefined)[];
  readonly pens: readonly Pen[];
  /** Why a node stands apart. */
  readonly why: ReadonlyMap<number, string>;
}

export function forestOf(table: Table, view: View, placeholders: ReadonlySet<string> = new Set()): Forest {
  const all: Domain[] = [];
  const grow = (depth: number, value: string, parent: Domain | null): Domain => {
    const free = table.free ? 0 : null;
    const domain: Domain = {
      id: all.length,
      depth,
      value,
      parent,
      children: [],
      nodes: [],
      start: 0,
      end: 0,
      drawn: 0,
      count: 0,
      gpus: 0,
      free,
      blocked: 0,
    };
    all.push(domain);
    parent?.children.push(domain);
    return domain;
  };
  const root = grow(0, "", null);
  const within = new Map<Domain, Map<string, Domain>>();
  const levels = view.levels.filter((level) => level.inTopology);
  const columns = levels.map((level) => table.labels.get(level.key));
  const nowhere = columns.map(
    (column) => new Set(column?.values.flatMap((value, at) => (placeholders.has(value) ? at : []))),
  );
  const home: (Domain | undefined)[] = new Array(table.names.length);
  const lacking = new Map<Domain, number[]>();
  const pens = new Map<string, number[]>();
  const put = (reason: string, node: number) => {
    const nodes = pens.get(reason);
    if (nodes) nodes.push(node);
    else pens.set(reason, [node]);
  };
  const member = table.views.values.map((ids) => ids.includes(view.id));
  for (let node = 0; node < table.names.length; node++) {
    if (!member[table.views.codes[node] ?? -1]) {
      const why = table.apart.get(node);
      if (why) put(why, node);
      continue;
    }
    let here = root;
    let own = false;
    let lacks = -1;
    for (let depth = 0; depth < columns.length; depth++) {
      const code = columns[depth]?.codes[node] ?? ABSENT;
      if (code === ABSENT || nowhere[depth]?.has(code)) {
        lacks = depth;
        break;
      }
      // From here on the node is alone: a domain that holds one node by nature is that node.
      if (own || code === OWN_NAME || levels[depth]?.key === HOSTNAME) {
        own = true;
        continue;
      }
      const value = word(columns[depth], table.names, node) ?? "";
      let byValue = within.get(here);
      if (!byValue) {
        byValue = new Map();
        within.set(here, byValue);
      }
      let child = byValue.get(value);
      if (!child) {
        child = grow(depth + 1, value, here);
        byValue.set(value, child);
      }
      here = child;
    }
    home[node] = here;
    const level = levels[lacks];
    if (!level) {
      here.nodes.push(node);
      continue;
    }
    put(reasonOf(level, word(columns[lacks], table.names, node)), node);
    const others = lacking.get(here);
    if (others) others.push(node);
    else lacking.set(here, [node]);
  }
  const order = new Int32Array(table.names.length);
  const rank = new Int32Array(table.names.length).fill(-1);
  const used = settle(root, table, order, rank, 0);
  sumUp(root, table, lacking);
  const gathered = [...pens].map(([reason, nodes]) => ({ reason, nodes }));
  gathered.sort((a, b) => b.nodes.length - a.nodes.length);
  const why = new Map(gathered.flatMap(({ reason, nodes }) => nodes.map((node) => [node, reason] as const)));
  return { view, levels, root, all, order: order.subarray(0, used), rank, home, pens: gathered, why };
}

function reasonOf({ domain, key }: LevelView, placeholder: string | undefined): string {
  if (placeholder === undefined) return `without a ${domain} label (${key})`;
  return `whose ${domain} label (${key}) is the placeholder "${placeholder}"`;
}

function settle(domain: Domain, table: Table, order: Int32Array, rank: Int32Array, from: number): number {
  domain.start = from;
  let at = from;
  domain.children.sort((a, b) => natural.compare(a.value, b.value));
  for (const child of domain.children) {
    at = settle(child, table, order, rank, at);
    domain.drawn += child.drawn;
  }
  for (const node of domain.nodes) {
    order[at] = node;
    rank[node] = at++;
    domain.drawn += table.gpus[node] ?? 0;
  }
  domain.end = at;
  return at;
}

function sumUp(domain: Domain, table: Table, lacking: ReadonlyMap<Domain, readonly number[]>): void {
  const add = (count: number, gpus: number, free: number, blocked: number): void => {
    domain.count += count;
    domain.gpus += gpus;
    if (domain.free !== null) domain.free += free;
    domain.blocked += blocked;
  };
  for (const child of domain.children) {
    sumUp(child, table, lacking);
    add(child.count, child.gpus, child.free ?? 0, child.blocked);
  }
  for (const node of domain.nodes)
    add(1, table.gpus[node] ?? 0, table.free?.[node] ?? 0, table.blocked.get(node)?.gpus ?? 0);
  for (const node of lacking.get(domain) ?? []) {
    const free = table.free?.[node] ?? 0;
    add(1, table.gpus[node] ?? 0, free, free);
  }
}

/** How many of a node's free GPUs a pod of typical shape cannot get, and why; a node that stands apart gives none. */
export function outOfReach(table: Table, forest: Forest, node: number): { gpus: number; why: string } {
  const why = forest.why.get(node);
  if (why !== undefined) return { gpus: table.free?.[node] ?? 0, why: `schedulers leave the node out: ${why}` };
  return table.blocked.get(node) ?? NOTHING_BLOCKED;
}

const NOTHING_BLOCKED = { gpus: 0, why: "" };

const natural = new Intl.Collator("en", { numeric: true });

/** The values from the broadest level down to a domain. */
export function pathOf(domain: Domain): string[] {
  const path: string[] = [];
  for (let here: Domain | null = domain; here?.parent; here = here.parent) path.unshift(here.value);
  return path;
}

/** The domain at a path; the last that exists on the way where it does not, so that an old link leads somewhere. */
export function domainAt(forest: Forest, path: readonly string[]): { domain: Domain; whole: boolean } {
  let here = forest.root;
  for (const value of path) {
    const next = here.children.find((child) => child.value === value);
    if (!next) return { domain: here, whole: false };
    here = next;
  }
  return { domain: here, whole: true };
}

/** The name of a domain's level; empty for the whole. */
export function levelName(forest: Forest, domain: Domain): string {
  return forest.levels[domain.depth - 1]?.domain ?? "";
}

/** The domain itself, or the only domain in it and so on: where a click that shows nothing new would end. */
export function narrowed(domain: Domain): Domain {
  let here = domain;
  for (;;) {
    const only = here.children[0];
    if (!only || here.children.length > 1 || here.nodes.length) return here;
    here = only;
  }
}

export function* nodesIn(forest: Forest, domain: Domain): Generator<number> {
  for (let at = domain.start; at < domain.end; at++) yield forest.order[at] ?? 0;
}

export function contains(outer: Domain, inner: Domain | undefined): boolean {
  for (let here: Domain | null | undefined = inner; here; here = here.parent) if (here === outer) return true;
  return false;
}
