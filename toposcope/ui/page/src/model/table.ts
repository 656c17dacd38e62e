// The nodes, column by column: what the server sends, in typed arrays, so that 100,000 of them stay small.
import { ABSENT, type Column, type Delta, type ListColumn, type Nodes, OWN_NAME, type Row } from "../protocol.ts";

export interface Words {
  readonly values: string[];
  readonly codes: Int32Array;
}

export interface WordLists {
  readonly values: string[][];
  readonly codes: Int32Array;
}

/** A table is never changed: a delta makes a new one, which shares what stayed. */
export interface Table {
  readonly names: string[];
  readonly gpus: Int32Array;
  /** Null where pods are unknown. */
  readonly free: Int32Array | null;
  readonly marks: WordLists;
  readonly views: WordLists;
  readonly facts: ReadonlyMap<string, Words>;
  readonly labels: ReadonlyMap<string, Words>;
  readonly reasons: ReadonlyMap<number, string[]>;
  readonly apart: ReadonlyMap<number, string>;
  readonly byName: ReadonlyMap<string, number>;
}

export function tableOf(nodes: Nodes): Table {
  return {
    names: nodes.name,
    gpus: Int32Array.from(nodes.gpus),
    free: nodes.free && Int32Array.from(nodes.free),
    marks: typed(nodes.marks),
    views: typed(nodes.views),
    facts: typedAll(nodes.facts),
    labels: typedAll(nodes.labels),
    reasons: byPosition(nodes.reasons),
    apart: byPosition(nodes.apart),
    byName: new Map(nodes.name.map((name, position) => [name, position])),
  };
}

/** The value of a column for one node; undefined where it has none. */
export function word(column: Words | undefined, names: readonly string[], node: number): string | undefined {
  const code = column?.codes[node] ?? ABSENT;
  return code === OWN_NAME ? names[node] : column?.values[code];
}

export function listOf(column: WordLists, node: number): readonly string[] {
  return column.values[column.codes[node] ?? 0] ?? [];
}

/** The table after a delta: rows of `put` replaced or added at their place in the order of names, `gone` taken out. */
export function after(table: Table, delta: Pick<Delta, "put" | "gone">): Table {
  if (!delta.put.length && !delta.gone.length) return table;
  const gone = new Set(delta.gone);
  const fresh = delta.put.filter((row) => !table.byName.has(row.name) && !gone.has(row.name));
  const still = gone.size || fresh.length ? rearranged(table, gone, fresh) : copied(table);
  for (const row of delta.put) {
    const position = still.byName.get(row.name);
    if (position !== undefined) write(still, position, row);
  }
  return still;
}

type Draft = {
  -readonly [K in keyof Table]: Table[K] extends ReadonlyMap<infer A, infer B> ? Map<A, B> : Table[K];
};

function copied(table: Table): Draft {
  return remade(
    table,
    table.names,
    (codes) => codes.slice(),
    table.byName as Map<string, number>,
    (at) => at,
  );
}

/** The same nodes but `gone`, with room for `fresh` ones, in the order of names. */
function rearranged(table: Table, gone: ReadonlySet<string>, fresh: readonly Row[]): Draft {
  const names = table.names.filter((name) => !gone.has(name)).concat(fresh.map((row) => row.name));
  names.sort(inOrder);
  const from = Int32Array.from(names, (name) => table.byName.get(name) ?? -1);
  const byName = new Map(names.map((name, position) => [name, position]));
  const moved = (codes: Int32Array): Int32Array => from.map((was) => (was < 0 ? ABSENT : (codes[was] ?? ABSENT)));
  return remade(table, names, moved, byName, (was) => byName.get(table.names[was] ?? ""));
}

function remade(
  table: Table,
  names: string[],
  codes: (from: Int32Array) => Int32Array,
  byName: Map<string, number>,
  place: (was: number) => number | undefined,
): Draft {
  const all = (columns: ReadonlyMap<string, Words>) =>
    new Map([...columns].map(([key, column]) => [key, { values: [...column.values], codes: codes(column.codes) }]));
  const sparse = <T>(values: ReadonlyMap<number, T>) => {
    const moved = new Map<number, T>();
    for (const [was, value] of values) {
      const now = place(was);
      if (now !== undefined) moved.set(now, value);
    }
    return moved;
  };
  return {
    names,
    gpus: codes(table.gpus),
    free: table.free && codes(table.free),
    marks: { values: [...table.marks.values], codes: codes(table.marks.codes) },
    views: { values: [...table.views.values], codes: codes(table.views.codes) },
    facts: all(table.facts),
    labels: all(table.labels),
    reasons: sparse(table.reasons),
    apart: sparse(table.apart),
    byName,
  };
}

function write(table: Draft, node: number, row: Row): void {
  table.gpus[node] = row.gpus;
  if (row.free === null) table.free = null;
  else if (table.free) table.free[node] = row.free;
  table.marks.codes[node] = codeOf(table.marks.values, row.marks, sameWords);
  table.views.codes[node] = codeOf(table.views.values, row.views, sameWords);
  writeWords(table.facts, node, row.facts, row.name, table.names.length);
  writeWords(table.labels, node, row.labels, row.name, table.names.length);
  if (row.reasons.length) table.reasons.set(node, row.reasons);
  else table.reasons.delete(node);
  if (row.apart) table.apart.set(node, row.apart);
  else table.apart.delete(node);
}

function writeWords(
  columns: Map<string, Words>,
  node: number,
  words: Record<string, string>,
  name: string,
  nodes: number,
): void {
  for (const key of Object.keys(words)) {
    if (!columns.has(key)) columns.set(key, { values: [], codes: new Int32Array(nodes).fill(ABSENT) });
  }
  for (const [key, column] of columns) {
    const value = Object.hasOwn(words, key) ? words[key] : undefined;
    if (value === undefined) column.codes[node] = ABSENT;
    else if (value === name) column.codes[node] = OWN_NAME;
    else column.codes[node] = codeOf(column.values, value, Object.is);
  }
}

function codeOf<T>(values: T[], value: T, same: (a: T, b: T) => boolean): number {
  const index = values.findIndex((known) => same(known, value));
  return index < 0 ? values.push(value) - 1 : index;
}

function sameWords(a: readonly string[], b: readonly string[]): boolean {
  return a.length === b.length && a.every((item, position) => item === b[position]);
}

function typed<T extends Column | ListColumn>(column: T): { values: T["values"]; codes: Int32Array } {
  return { values: column.values, codes: Int32Array.from(column.codes) };
}

function typedAll(columns: Record<string, Column>): Map<string, Words> {
  return new Map(Object.entries(columns).map(([key, column]) => [key, typed(column)]));
}

function byPosition<T>(values: Record<string, T>): Map<number, T> {
  return new Map(Object.entries(values).map(([position, value]) => [Number(position), value]));
}

/** As the server sorts: by code points, whatever the language of the browser. */
function inOrder(a: string, b: string): number {
  return a < b ? -1 : a > b ? 1 : 0;
}
