// Search in the page's own data while the user types; only the server (or an exported file) knows GPUs.
import { type Forest, levelName, pathOf } from "./model/domains.ts";
import type { Table } from "./model/table.ts";
import type { NodeDetail } from "./protocol.ts";

/** One result. */
export interface Match {
  readonly kind: "node" | "domain" | "gpu";
  /** A node's name, a domain's value, a GPU's UUID. */
  readonly text: string;
  /** Of a domain: the view that has it. */
  readonly view: string | null;
  /** Of a domain: its values from the broadest level down, itself last. */
  readonly path: readonly string[];
  /** Of a domain: the name of its level. */
  readonly level: string;
  /** Of a node or a GPU: the node's name. */
  readonly node: string;
}

export const MAX_MATCHES = 30;

/** Domains of the view and nodes whose name holds the text, those that begin with it first. */
export function lookUp(text: string, table: Table, forest: Forest, limit: number = MAX_MATCHES): Match[] {
  const wanted = text.trim().toLowerCase();
  if (!wanted) return [];
  const domains: Match[] = [];
  for (const domain of forest.all) {
    if (!domain.parent || !domain.value.toLowerCase().includes(wanted)) continue;
    const level = levelName(forest, domain);
    domains.push({ kind: "domain", text: domain.value, view: forest.view.id, path: pathOf(domain), level, node: "" });
  }
  const nodes: Match[] = [];
  for (const name of table.names) {
    if (!name.toLowerCase().includes(wanted)) continue;
    nodes.push({ kind: "node", text: name, view: null, path: [], level: "", node: name });
    // Enough to put the best in front; a cluster may have 100,000 of them.
    if (nodes.length >= limit * 20) break;
  }
  const matches = [...domains, ...nodes];
  const rank = (match: Match): number => {
    const at = match.text.toLowerCase();
    return at === wanted ? 0 : at.startsWith(wanted) ? 1 : 2;
  };
  return matches
    .map((match, at) => ({ match, at }))
    .sort((a, b) => rank(a.match) - rank(b.match) || a.at - b.at)
    .slice(0, limit)
    .map(({ match }) => match);
}

export function gpuMatch(uuid: string, node: string): Match {
  return { kind: "gpu", text: uuid, view: null, path: [], level: "", node };
}

/** GPUs of the nodes in an exported file. */
export function gpusIn(
  text: string,
  nodes: Readonly<Record<string, NodeDetail>>,
  limit: number = MAX_MATCHES,
): Match[] {
  const wanted = text.trim().toLowerCase();
  const gpus: Match[] = [];
  if (wanted.length < 3) return gpus;
  for (const [name, node] of Object.entries(nodes)) {
    for (const device of node.devices) {
      if (device.kind !== "gpu" || !device.name.toLowerCase().includes(wanted)) continue;
      gpus.push(gpuMatch(device.name, name));
      if (gpus.length >= limit) return gpus;
    }
  }
  return gpus;
}

/** Which nodes keep their colour while the user types: by name, and by any domain that they are in. */
export function matching(text: string, table: Table, forest: Forest): Uint8Array | null {
  const wanted = text.trim().toLowerCase();
  if (!wanted) return null;
  const highlighted = new Uint8Array(table.names.length);
  let any = false;
  table.names.forEach((name, node) => {
    if (!name.toLowerCase().includes(wanted)) return;
    highlighted[node] = 1;
    any = true;
  });
  for (const domain of forest.all) {
    if (!domain.parent || !domain.value.toLowerCase().includes(wanted)) continue;
    any = true;
    for (let at = domain.start; at < domain.end; at++) highlighted[forest.order[at] ?? 0] = 1;
  }
  return any ? highlighted : null;
}
