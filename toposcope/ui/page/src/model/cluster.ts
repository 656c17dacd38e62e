// Everything the page knows about the cluster.
import type { Change, ConditionView, Snapshot, Status, View } from "../protocol.ts";
import { type Table, tableOf } from "./table.ts";

export interface Cluster {
  readonly version: number;
  readonly source: "cluster" | "files";
  readonly sourceName: string;
  readonly status: Status;
  readonly table: Table;
  readonly otherNodes: number;
  readonly views: readonly View[];
  /** The pod by which free GPUs are judged; empty where pods are unknown. */
  readonly pod: string;
  readonly placeholders: ReadonlySet<string>;
  readonly changes: readonly Change[];
}

export function clusterOf(snapshot: Snapshot): Cluster {
  const { version, source, sourceName, status, otherNodes, views, changes, pod } = snapshot;
  return {
    version,
    source,
    sourceName,
    status,
    otherNodes,
    views,
    changes,
    pod,
    placeholders: new Set(snapshot.placeholders),
    table: tableOf(snapshot.nodes),
  };
}

/** The view of an id; without it the one called `cluster`, else the first that is no segment. */
export function viewOf(cluster: Cluster, id: string | null): View | undefined {
  const { views } = cluster;
  return (
    views.find((view) => view.id === id) ??
    views.find((view) => view.id === "cluster") ??
    views.find((view) => view.parent === null) ??
    views[0]
  );
}

/** Conditions that are not True, worst first. `Ready` repeats the others: it is left out where one of those that it sums up is here. */
export function failingConditions(view: View): ConditionView[] {
  const failing = view.conditions.filter((condition) => condition.status !== "True");
  const others = failing.filter((condition) => condition.type !== "Ready");
  const shown = others.some((condition) => !condition.advisory) ? others : failing;
  const rank = (condition: ConditionView): number =>
    (condition.advisory ? 2 : 0) + (condition.status === "False" ? 0 : 1);
  return shown.sort((a, b) => rank(a) - rank(b));
}
