// Where the parts of a node are drawn: NUMA nodes side by side, in each its GPUs above its NICs, NVSwitches above all.
import type { Device, NodeDetail } from "../protocol.ts";
import { bestLinks, linksOf, named } from "./weak.ts";

export interface Part {
  readonly device: Device;
  readonly x: number;
  readonly y: number;
  readonly w: number;
  readonly h: number;
  readonly faulty: boolean;
}

export interface Home {
  readonly id: number | null;
  readonly cpus: string;
  readonly x: number;
  readonly w: number;
}

/** A line between two parts, from the middle of one edge to that of the other. */
export interface Link {
  readonly from: Part;
  readonly to: Part;
  readonly word: string;
  readonly links: number;
}

export interface Plan {
  readonly width: number;
  readonly height: number;
  readonly homes: readonly Home[];
  readonly homeTop: number;
  readonly parts: readonly Part[];
  /** What connects all GPUs that have NVLinks: switches in the node, or outside of it. */
  readonly bar: { words: string; count: number; inside: boolean; x: number; w: number } | null;
  readonly toBar: readonly { part: Part; links: number; weak: boolean }[];
  readonly meshes: readonly Link[];
  readonly rails: readonly Link[];
}

export const PART = { gpuHeight: 46, nicHeight: 34 } as const;
const PAD = 14;
const GAP = 10;
const BAR = 44;
const NEAREST = ["PIX", "PXB", "PHB", "NODE", "SYS"];

export function planOf(node: NodeDetail): Plan {
  const homes = node.numa.length
    ? node.numa
    : [{ id: null, cpus: "", devices: node.devices.map((device) => device.label) }];
  const byLabel = new Map(node.devices.map((device, at) => [device.label, { device, at }]));
  const faulty = named(node);
  const wide = Math.max(...homes.map((home) => Math.max(count(home.devices, "GPU"), count(home.devices, "NIC"), 1)));
  const partWidth = Math.max(52, Math.min(92, Math.floor(860 / Math.max(wide * homes.length, 1)) - GAP));
  const switched = node.hardware["interconnect"] === "nvswitch";
  const meshed = node.hardware["interconnect"] === "nvlink";
  const top = switched ? BAR + 42 : meshed ? 96 : 6;
  const gpuTop = top + 14;
  const nicTop = gpuTop + PART.gpuHeight + 40;
  const parts: Part[] = [];
  const placed: Home[] = [];
  let x = 1;
  for (const home of homes) {
    const gpus = of(home.devices, byLabel, "gpu");
    const nics = of(home.devices, byLabel, "nic");
    const most = Math.max(gpus.length, nics.length, 3);
    const w = most * (partWidth + GAP) - GAP + 2 * PAD;
    place(gpus, x, w, partWidth, gpuTop, PART.gpuHeight);
    place(orderedByRail(nics, gpus), x, w, partWidth, nicTop, PART.nicHeight);
    placed.push({ id: home.id, cpus: home.cpus, x, w });
    x += w + 34;
  }

  function place(devices: readonly Device[], left: number, room: number, w: number, y: number, h: number): void {
    const step = (room - 2 * PAD - devices.length * w) / Math.max(devices.length, 1);
    devices.forEach((device, at) => {
      parts.push({ device, x: left + PAD + step / 2 + at * (w + step), y, w, h, faulty: faulty.has(device.label) });
    });
  }

  const find = (label: string): Part | undefined => parts.find((part) => part.device.label === label);
  const matrix = node.matrix ?? [];
  const best = bestLinks(matrix);
  const gpus = parts.filter((part) => part.device.kind === "gpu");
  const cell = (a: Part, b: Part): string =>
    matrix[byLabel.get(a.device.label)?.at ?? -1]?.[byLabel.get(b.device.label)?.at ?? -1] ?? "";
  // Data goes by the NIC's Data Direct function where it has one.
  const way = (gpu: Part, nic: Part): string => {
    const row = matrix[byLabel.get(gpu.device.label)?.at ?? -1] ?? [];
    const direct = node.devices.flatMap((device, at) =>
      device.nics.includes(nic.device.label) ? [row[at] ?? ""] : [],
    );
    return NEAREST.find((level) => direct.includes(level)) ?? cell(gpu, nic);
  };
  const most = (part: Part): number => Math.max(0, ...gpus.map((other) => linksOf(cell(part, other))));
  const width = x - 34 + 1;
  const inside = node.nvswitches !== null && node.nvswitches > 0;
  const words = inside
    ? `${node.nvswitches} NVSwitch${node.nvswitches === 1 ? "" : "es"}`
    : "NVSwitches outside this node";
  const expected = Math.max(best, Number(node.hardware["nvlink-links"] ?? 0));
  const rails = gpus.flatMap((gpu) =>
    gpu.device.rails.flatMap((label) => {
      const nic = find(label);
      return nic ? [{ from: gpu, to: nic, word: way(gpu, nic), links: 0 }] : [];
    }),
  );
  const meshes = meshed
    ? gpus.flatMap((a, at) =>
        gpus.slice(at + 1).map((b) => ({ from: a, to: b, word: cell(a, b), links: linksOf(cell(a, b)) })),
      )
    : [];
  return {
    width,
    height: (parts.some((part) => part.device.kind === "nic") ? nicTop + PART.nicHeight : gpuTop + PART.gpuHeight) + 40,
    homes: placed,
    homeTop: top,
    parts,
    bar: switched ? { words, count: inside ? (node.nvswitches ?? 0) : 0, inside, x: 1, w: width - 2 } : null,
    toBar: switched
      ? gpus.map((part) => {
          const links = most(part) || Number(node.hardware["nvlink-links"] ?? 0);
          return { part, links, weak: links < expected };
        })
      : [],
    meshes: meshes.filter((mesh) => mesh.links > 0),
    rails,
  };
}

function of(
  labels: readonly string[],
  byLabel: ReadonlyMap<string, { device: Device }>,
  kind: Device["kind"],
): Device[] {
  return labels.flatMap((label) => {
    const device = byLabel.get(label)?.device;
    return device?.kind === kind ? [device] : [];
  });
}

function count(labels: readonly string[], kind: string): number {
  return labels.filter((label) => label.startsWith(kind)).length;
}

/** NICs as close as possible below the GPUs whose rails they are. */
function orderedByRail(nics: readonly Device[], gpus: readonly Device[]): Device[] {
  const under = (nic: Device): number => {
    const over = gpus.flatMap((gpu, at) => (gpu.rails.includes(nic.label) ? [at] : []));
    return over.length ? over.reduce((sum, at) => sum + at, 0) / over.length : gpus.length;
  };
  return [...nics].sort((a, b) => under(a) - under(b));
}
