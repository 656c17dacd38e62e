// Which devices and cells of a node are faulty, as far as its own data shows.
import type { NodeDetail } from "../protocol.ts";

/** Labels of the devices that the agent's reasons name: `GPU 3: 17 of 18 NVLinks active` names GPU3. */
export function named(node: Pick<NodeDetail, "reasons" | "devices">): Set<string> {
  const labels = new Set<string>();
  for (const reason of node.reasons) {
    for (const [, number] of reason.matchAll(/\bGPU ?(\d+)\b/g)) labels.add(`GPU${number}`);
    for (const device of node.devices) if (device.name && mentions(reason, device.name)) labels.add(device.label);
  }
  return labels;
}

function mentions(sentence: string, name: string): boolean {
  const at = sentence.indexOf(name);
  return at >= 0 && !/\w/.test(sentence[at + name.length] ?? " ") && !/\w/.test(sentence[at - 1] ?? " ");
}

export function linksOf(cell: string): number {
  return /^NV\d+$/.test(cell) ? Number(cell.slice(2)) : 0;
}

/** NVLinks of the best pair of GPUs; where NVSwitches connect all alike, any pair with fewer is weak. */
export function bestLinks(matrix: readonly (readonly string[])[]): number {
  return Math.max(0, ...matrix.flat().map(linksOf));
}

/** Whether a cell between GPUs that NVSwitches connect has fewer links than the best. */
export function isWeak(cell: string, best: number, switched: boolean, gpus: boolean): boolean {
  return switched && gpus && cell !== "X" && linksOf(cell) < best;
}
