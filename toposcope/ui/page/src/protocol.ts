// What the server sends, as defined in `toposcope/ui/protocol.py`. Any string in here may be hostile: it is shown as text only.

export const VERSION = 7;
/** In `Column.codes`: the node has no value. */
export const ABSENT = -1;
/** In `Column.codes`: the value is the node's own name. */
export const OWN_NAME = -2;

export interface Column {
  values: string[];
  codes: number[];
}

export interface ListColumn {
  values: string[][];
  codes: number[];
}

export interface Nodes {
  name: string[];
  gpus: number[];
  free: number[] | null;
  /** By position: free GPUs that a pod of typical shape cannot get, and why. */
  blocked: Record<string, { gpus: number; why: string }>;
  marks: ListColumn;
  views: ListColumn;
  facts: Record<string, Column>;
  labels: Record<string, Column>;
  reasons: Record<string, string[]>;
  apart: Record<string, string>;
}

export interface LevelView {
  domain: string;
  key: string;
  /** Only these nest on the map; the others are on some nodes only, or required and nowhere. */
  inTopology: boolean;
  domains: number;
  nodes: number;
  missing: number;
  required: boolean;
  workloads: number;
  problem: string;
}

export interface ConditionView {
  type: string;
  status: "True" | "False" | "Unknown";
  reason: string;
  message: string;
  since: string;
  advisory: boolean;
}

export interface View {
  id: string;
  name: string;
  kind: "topology" | "segment" | "inferred";
  parent: string | null;
  origin: "spec" | "observed" | "inferred";
  levels: LevelView[];
  /** All that it selects; those that lack a level are counted apart too. */
  nodes: number;
  gpus: number;
  leftOut: number;
  leftOutGpus: number;
  /** Nodes with GPUs that only wait for an agent; not among `nodes`. */
  withoutAgent: number;
  conditions: ConditionView[];
  problems: string[];
}

export interface Change {
  id: number;
  at: string;
  view: string | null;
  kind: string;
  count: number;
  nodes: string[];
  text: string;
  bad: boolean;
}

export interface Stale {
  seconds: number;
  why: string[];
}

export interface Status {
  asOf: string | null;
  stale: Stale | null;
  warnings: string[];
}

export interface Snapshot {
  version: number;
  id: string;
  source: "cluster" | "files";
  sourceName: string;
  status: Status;
  nodes: Nodes;
  otherNodes: number;
  views: View[];
  /** Placeholder label values, such as `no-topology`: a node with one lacks the level. */
  /** The pod of typical shape; empty where pods are unknown. */
  pod: string;
  placeholders: string[];
  changes: Change[];
}

export interface News {
  /** That of the newest snapshot. */
  id: string;
  status: Status;
}

export interface Device {
  label: string;
  /** `dd`: a Data Direct function, by which a NIC reaches GPUs. */
  kind: "gpu" | "nic" | "dd";
  name: string;
  pci: string;
  numa: number | null;
  rails: string[];
  /** Of a Data Direct function: the labels of its NICs. */
  nics: string[];
  neighbour: string;
}

export interface CellClass {
  cell: string;
  kind: "self" | "nvlink" | "pix" | "pxb" | "phb" | "node" | "sys";
  links: number;
  meaning: string;
}

export interface NodeDetail {
  name: string;
  ready: boolean;
  schedulable: boolean;
  state: "ok" | "degraded" | "unknown" | null;
  since: { at: string; exact: boolean } | null;
  marks: string[];
  gpus: number;
  free: number | null;
  resources: Record<string, (number | null)[]>;
  shares: Record<string, string>;
  hardware: Record<string, string>;
  labels: Record<string, string>;
  taints: string[];
  conditions: Record<string, string>;
  domains: Record<string, string[]>;
  lacking: { view: string; level: string; why: string }[];
  devices: Device[];
  matrix: string[][] | null;
  classes: CellClass[];
  numa: { id: number | null; cpus: string; devices: string[] }[];
  nvswitches: number | null;
  nvlinkDomains: string[][];
  reasons: string[];
  disputes: string[];
  miscabled: string[];
  problem: string;
}

export interface SearchAnswer {
  gpus: { uuid: string; node: string }[];
  more: boolean;
}

export interface Finding {
  rule: string;
  severity: "error" | "warning" | "advice";
  field: string;
  line: number | null;
  message: string;
  fix: string | null;
}

export interface Fit {
  path: string[];
  nodes: number;
  free: number;
}

export interface Check {
  workload: string;
  system: string;
  topology: string | null;
  view: string | null;
  well: boolean;
  verdict: "fits" | "full" | "never" | "unclear" | "refused" | "nothing";
  answer: string;
  advice: string[];
  reasoning: string[];
  demands: string[];
  findings: Finding[];
  notes: string[];
  group: string;
  fits: Fit[];
  fitsExact: boolean;
  moreFits: boolean;
  leftOut: Record<string, string[]>;
}

export interface CheckAnswer {
  checks: Check[];
  problems: string[];
  warnings: string[];
}

export interface SlotRow {
  gpus: number;
  domain: string;
  now: number;
  ended: number;
  empty: number;
  /** From 0 to 1. */
  unusable: number;
}

export interface GangRow {
  kind: string;
  /** `NAMESPACE/NAME`. */
  name: string;
  gpus: number;
  score: number;
  better: boolean;
  spans: string;
}

/** A running gang that is not, or may not be, within the domain that it requires. */
export interface KeptRow {
  kind: string;
  /** `NAMESPACE/NAME`. */
  name: string;
  gpus: number;
  /** `MATCH`: a label changed since it was placed. */
  result: "VIOLATION" | "UNOBSERVABLE" | "MATCH";
  lines: string[];
  /** Who broke it, and what to do. */
  advice: string[];
}

export interface Planning {
  perPod: number;
  slots: SlotRow[];
  gangs: GangRow[];
  scored: number;
  /** Violations first. */
  kept: KeptRow[];
  violations: number;
  unobservable: number;
  matches: number;
  /** What a pod of these gangs requests: `4 GPUs, 100 CPU cores and 400 GiB of memory`. */
  pod: string;
  /** Free GPUs that such a pod can get. */
  reachable: number;
  /** Why it cannot get the other idle GPUs, the most GPUs first. */
  blocked: string[];
  /** Nodes that are not counted because of their taints, one sentence for each taint. */
  uncounted: string[];
}

export interface GangPlace {
  nodes: string[];
  /** Empty: placing it again would not improve it. */
  level: string;
  better: string[][];
}

export interface Drained {
  nodes: number;
  gangs: { text: string; worse: boolean }[];
  slots: { gpus: number; domain: string; before: number; after: number }[];
  warnings: string[];
}

export interface Export {
  version: number;
  snapshot: Snapshot;
  nodes: Record<string, NodeDetail>;
  leftOut: number;
}
