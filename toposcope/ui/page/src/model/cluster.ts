// Everything the page knows about the cluster, and how a delta updates it.
import type { Change, ConditionView, Delta, Snapshot, Status, View } from "../protocol.ts";
import { after, type Table, tableOf } from "./table.ts";

export interface Cluster {
  readonly version: number;
  readonly id: string;
  readonly source: "cluster" | "files";
  readonly sourceName: string;
  readonly status: Status;
  readonly table: Table;
  readonly otherNodes: number;
  readonly views: readonly View[];
  readonly placeholders: ReadonlySet<string>;
  readonly changes: readonly Change[];
}

/** Changes that the page keeps: its memory is bounded however long it stays open. */
const MAX_CHANGES = 200;

export function clusterOf(snapshot: Snapshot): Cluster {
  const { version, id, source, sourceName, status, otherNodes, views } = snapshot;
  return {
    version,
    id,
    source,
    sourceName,
    status,
    otherNodes,
    views,
    placeholders: new Set(snapshot.placeholders),
    table: tableOf(snapshot.nodes),
    changes: snapshot.changes.slice(0, MAX_CHANGES),
  };
}

/** The cluster after an event; the same object where the event is older than what is known already. */
export function moved(cluster: Cluster, id: string, delta: Delta): Cluster {
  if (!newer(id, cluster.id)) return cluster;
  return {
    ...cluster,
    id,
    status: delta.status,
    otherNodes: delta.otherNodes,
    table: after(cluster.table, delta),
    views: delta.views ?? cluster.views,
    changes: delta.changes.concat(cluster.changes).slice(0, MAX_CHANGES),
  };
}

/** Ids are `EPOCH-NUMBER`: numbers increase within an epoch, and each run of the server has its own. */
function newer(id: string, known: string): boolean {
  const [epoch, number] = parted(id);
  const [knownEpoch, knownNumber] = parted(known);
  return epoch !== knownEpoch || number > knownNumber;
}

function parted(id: string): [string, number] {
  const at = id.lastIndexOf("-");
  return [id.slice(0, at), Number(id.slice(at + 1))];
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
