// A node as it is wired, drawn from its plan.
import type { NodeDetail } from "../protocol.ts";
import { type Link, type Part, planOf } from "./plan.ts";

export function Drawing({ node }: { node: NodeDetail }) {
  if (!node.devices.length) return null;
  const plan = planOf(node);
  const { width, height, bar, homeTop } = plan;
  return (
    <div class="scrolls" tabIndex={0} role="region" aria-label={`Wiring of ${node.name}`}>
      <svg
        class="drawing"
        viewBox={`0 0 ${width} ${height}`}
        width={width}
        height={height}
        role="img"
        aria-label={about(node)}
      >
        {plan.homes.map((home) => (
          <g key={String(home.id)} class="numa">
            <rect x={home.x} y={homeTop} width={home.w} height={height - homeTop - 1} rx="10" />
            <text x={home.x + 14} y={height - 14}>
              {home.id === null ? "NUMA node unknown" : `NUMA ${home.id}`}
              {home.cpus && <tspan class="soft"> CPUs {shortened(home.cpus, home.w - 130)}</tspan>}
            </text>
          </g>
        ))}
        {plan.homes
          .slice(1)
          .filter((home) => home.id !== null)
          .map((home) => (
            <g key={`to ${home.id}`} class="between">
              <path d={`M${home.x - 34} ${height - 30}h34M${home.x - 34} ${height - 26}h34`} />
            </g>
          ))}
        {plan.toBar.map(({ part, links, weak }) => (
          <g key={part.device.label} class={weak || part.faulty ? "up weak" : "up"}>
            <path
              d={`M${middle(part)} ${part.y}V45`}
              stroke-width={links ? Math.max(1.5, Math.min(5, links / 4)) : 1}
            />
            <Word x={middle(part)} y={66} text={links ? `NV${links}` : "no NVLink"} />
          </g>
        ))}
        {bar && (
          <g class={bar.inside ? "switches" : "switches outside"}>
            <rect x={bar.x} y={1} width={bar.w} height={43} rx="8" />
            <text x={bar.x + 14} y={27}>
              {bar.words}
            </text>
            {Array.from({ length: Math.min(bar.count, 18) }, (_, at) => (
              <rect key={at} class="switch" x={bar.x + bar.w - 30 - at * 26} y={13} width="18" height="18" rx="4" />
            ))}
          </g>
        )}
        {plan.meshes.map((mesh) => (
          <Arc key={`${mesh.from.device.label} ${mesh.to.device.label}`} link={mesh} />
        ))}
        {plan.rails.map(({ from, to, word }) => (
          <g key={`${from.device.label} ${to.device.label}`} class="rail">
            <path
              d={`M${middle(from)} ${from.y + from.h}C${middle(from)} ${to.y - 14} ${middle(to)} ${from.y + from.h + 14} ${middle(to)} ${to.y}`}
            />
            <title>
              Rail of {from.device.label}: {to.device.label} via {word}
            </title>
          </g>
        ))}
        {plan.rails.map(({ from, to, word }) => (
          <Word
            key={`w ${from.device.label} ${to.device.label}`}
            x={(middle(from) + middle(to)) / 2}
            y={(from.y + from.h + to.y) / 2}
            text={word}
          />
        ))}
        {plan.parts.map((part) => (
          <Box key={part.device.label} part={part} />
        ))}
      </svg>
    </div>
  );
}

function Box({ part }: { part: Part }) {
  const { device, x, y, w, h, faulty } = part;
  const small = device.kind === "gpu" ? device.pci.replace(/^0+:/, "") : device.name;
  return (
    <g class={`part ${device.kind}${faulty ? " faulty" : ""}`}>
      <title>
        {device.label} {device.name} {device.pci}
      </title>
      <rect x={x} y={y} width={w} height={h} rx="6" />
      <text x={x + w / 2} y={y + h / 2 - 3} class="label">
        {faulty ? `▲ ${device.label}` : device.label}
      </text>
      <text x={x + w / 2} y={y + h / 2 + 11} class="small">
        {shortened(small, w)}
      </text>
    </g>
  );
}

function Arc({ link }: { link: Link }) {
  const from = middle(link.from);
  const to = middle(link.to);
  const top = Math.max(8, link.from.y - 14 - Math.abs(to - from) * 0.16);
  return (
    <g class="mesh">
      <path
        d={`M${from} ${link.from.y}C${from} ${top} ${to} ${top} ${to} ${link.to.y}`}
        stroke-width={1 + link.links * 0.5}
      />
      <title>
        {link.from.device.label} to {link.to.device.label}: {link.links} NVLinks
      </title>
    </g>
  );
}

function Word({ x, y, text }: { x: number; y: number; text: string }) {
  const wide = text.length * 6.4 + 8;
  return (
    <g class="word">
      <rect x={x - wide / 2} y={y - 8} width={wide} height={16} rx="4" />
      <text x={x} y={y + 4}>
        {text}
      </text>
    </g>
  );
}

function middle(part: Part): number {
  return part.x + part.w / 2;
}

function shortened(text: string, room: number): string {
  const letters = Math.max(4, Math.floor(room / 6.6));
  return text.length > letters ? `${text.slice(0, letters - 1)}…` : text;
}

function about(node: NodeDetail): string {
  const gpus = node.devices.filter((device) => device.kind === "gpu").length;
  const nics = node.devices.filter((device) => device.kind === "nic").length;
  const switches = node.nvswitches ? `, ${node.nvswitches} NVSwitches` : "";
  return `${node.name}: ${gpus} GPUs and ${nics} NICs on ${node.numa.length} NUMA nodes${switches}. The link matrix below shows the same as text.`;
}
