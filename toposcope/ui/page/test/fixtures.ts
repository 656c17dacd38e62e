// A small cluster as the server would send it.
import { clusterOf } from "../src/model/cluster.ts";
import { forestOf } from "../src/model/domains.ts";
import type { Column, LevelView, ListColumn, Snapshot, View } from "../src/protocol.ts";
import { VERSION } from "../src/protocol.ts";

export interface Made {
  name: string;
  block?: string | null;
  rack?: string | null;
  gpus?: number;
  free?: number;
  blocked?: number;
  marks?: string[];
  views?: string[];
  apart?: string;
  facts?: Record<string, string>;
}

export const LEVELS = ["block", "rack", "host"];

export function level(domain: string, inTopology = true): LevelView {
  const key = domain === "host" ? "kubernetes.io/hostname" : `label/${domain}`;
  return { domain, key, inTopology, domains: 0, nodes: 0, missing: 0, required: false, workloads: 0, problem: "" };
}

export function view(id: string, levels: LevelView[] = LEVELS.map((domain) => level(domain))): View {
  const nothing = { nodes: 0, gpus: 0, leftOut: 0, leftOutGpus: 0, withoutAgent: 0, conditions: [], problems: [] };
  return { id, name: id, kind: "topology", parent: null, origin: "observed", levels, ...nothing };
}

export function snapshot(nodes: Made[], views: View[] = [view("cluster")]): Snapshot {
  const at = (of: (node: Made) => string | undefined): Record<string, string> =>
    Object.fromEntries(nodes.flatMap((node, i) => (of(node) ? [[String(i), of(node) ?? ""]] : [])));
  return {
    version: VERSION,
    id: "e-1",
    source: "cluster",
    sourceName: "https://cluster.test",
    status: { asOf: null, stale: null, warnings: [] },
    nodes: {
      name: nodes.map((node) => node.name),
      gpus: nodes.map((node) => node.gpus ?? 8),
      free: nodes.map((node) => node.free ?? 8),
      blocked: Object.fromEntries(
        nodes.flatMap((node, i) =>
          node.blocked ? [[String(i), { gpus: node.blocked, why: "too little CPU is left" }]] : [],
        ),
      ),
      marks: lists(nodes.map((node) => node.marks ?? [])),
      views: lists(nodes.map((node) => node.views ?? ["cluster"])),
      facts: Object.fromEntries(
        ["product", "shape"].map((key) => [key, column(nodes.map((node) => node.facts?.[key] ?? null))]),
      ),
      labels: {
        "label/block": column(nodes.map((node) => (node.block === undefined ? "b1" : node.block))),
        "label/rack": column(nodes.map((node) => (node.rack === undefined ? "r1" : node.rack))),
        "kubernetes.io/hostname": { values: [], codes: nodes.map(() => -2) },
      },
      reasons: {},
      apart: at((node) => node.apart),
    },
    otherNodes: 0,
    views,
    pod: "8 GPUs and 64 CPU cores",
    placeholders: ["no-topology"],
    changes: [],
  };
}

export function forest(nodes: Made[], shown: View = view("cluster")) {
  const { table, placeholders } = clusterOf(snapshot(nodes, [shown]));
  return { table, forest: forestOf(table, shown, placeholders) };
}

function column(words: (string | null)[]): Column {
  const place = new Map([...new Set(words.filter((word) => word !== null))].map((word, at) => [word, at]));
  return { values: [...place.keys()], codes: words.map((word) => (word === null ? -1 : (place.get(word) ?? -1))) };
}

function lists(words: string[][]): ListColumn {
  const keys = [...new Set(words.map((word) => JSON.stringify(word)))];
  return { values: keys.map((key) => JSON.parse(key)), codes: words.map((word) => keys.indexOf(JSON.stringify(word))) };
}
