// The nodes, column by column: what the server sends, in typed arrays, so that 100,000 of them stay small.
import { ABSENT, type Column, type ListColumn, type Nodes, OWN_NAME } from "../protocol.ts";

export interface Words {
  readonly values: string[];
  readonly codes: Int32Array;
}

export interface WordLists {
  readonly values: string[][];
  readonly codes: Int32Array;
}

/** A table is never changed: a newer snapshot makes a new one. */
export interface Table {
  readonly names: string[];
  readonly gpus: Int32Array;
  /** Null where pods are unknown. */
  readonly free: Int32Array | null;
  /** Free GPUs that a pod of typical shape cannot get, because of what the node says itself; and why. */
  readonly blocked: ReadonlyMap<number, { readonly gpus: number; readonly why: string }>;
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
    blocked: byPosition(nodes.blocked),
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

/** The names of the nodes that are new, or of which anything that both tables have a column for is not as it was. */
export function changedNames(before: Table, now: Table): Set<string> {
  const columns = [pairs(before.facts, now.facts), pairs(before.labels, now.labels)].flat();
  const bothFree = before.free && now.free;
  const same = (was: number, node: number): boolean =>
    before.gpus[was] === now.gpus[node] &&
    (!bothFree || before.free?.[was] === now.free?.[node]) &&
    before.blocked.get(was)?.gpus === now.blocked.get(node)?.gpus &&
    sameWords(listOf(before.marks, was), listOf(now.marks, node)) &&
    sameWords(before.reasons.get(was) ?? [], now.reasons.get(node) ?? []) &&
    before.apart.get(was) === now.apart.get(node) &&
    columns.every(([old, fresh]) => word(old, before.names, was) === word(fresh, now.names, node));
  return new Set(
    now.names.filter((name, node) => {
      const was = before.byName.get(name);
      return was === undefined || !same(was, node);
    }),
  );
}

function pairs(before: ReadonlyMap<string, Words>, now: ReadonlyMap<string, Words>): [Words, Words][] {
  return [...now].flatMap(([key, column]) => {
    const was = before.get(key);
    return was ? [[was, column]] : [];
  });
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
