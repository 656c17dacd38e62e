// All that the page knows of the cluster, and how a delta moves it on.
import type { Change, Delta, Snapshot, Status, View } from "../wire.ts";
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
  readonly changes: readonly Change[];
}

/** As many changes as the page keeps: its memory is bounded however long it stays open. */
const KEPT = 200;

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
    table: tableOf(snapshot.nodes),
    changes: snapshot.changes.slice(0, KEPT),
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
    changes: delta.changes.concat(cluster.changes).slice(0, KEPT),
  };
}

/** Ids are `EPOCH-NUMBER`: numbers grow within an epoch, and another epoch is another life of the server. */
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
