// Everything else about a node, in small tables.
import type { ComponentChildren } from "preact";
import { figure } from "../map/text.ts";
import type { NodeDetail } from "../protocol.ts";

interface Props {
  node: NodeDetail;
  /** Which of its free GPUs a pod of typical shape cannot get. */
  blocked: { readonly gpus: number; readonly why: string };
}

export function Facts({ node, blocked }: Props) {
  const gpus = node.devices.filter((device) => device.kind === "gpu");
  const cabled = node.devices.filter((device) => device.neighbour);
  const others = Object.entries(node.labels).filter(([key]) => !key.startsWith("gpu.topology/"));
  let free = node.free === null ? "unknown" : figure(node.free);
  if (blocked.gpus) free += `, ${figure(blocked.gpus)} of them out of reach: ${blocked.why}`;
  return (
    <div class="facts">
      <section>
        <h3>Placement</h3>
        <Pairs
          pairs={[
            ["GPUs", String(node.gpus)],
            ["Free", free],
            ["Ready", node.ready ? "yes" : "no"],
            ["Schedulable", node.schedulable ? "yes" : "no (cordoned)"],
            ...Object.entries(node.domains).map(([view, path]): [string, string] => [
              `In ${view || "the cluster"}`,
              path.join(" › ") || "no level",
            ]),
            ...Object.entries(node.resources).map(([name, [all, free]]): [string, string] => [
              name,
              `${all ?? "?"} allocatable, ${free ?? "?"} free${node.shares[name] ? ` (${node.shares[name]})` : ""}`,
            ]),
          ]}
        />
        {node.taints.length > 0 && <List title="Taints" items={node.taints} />}
      </section>
      <section>
        <h3>Hardware</h3>
        <Pairs pairs={Object.entries(node.hardware)} />
      </section>
      {node.nvlinkDomains.length > 0 && (
        <section>
          <h3>NVLink domains in the node</h3>
          <ul class="plain">
            {node.nvlinkDomains.map((domain) => (
              <li key={domain.join()}>{domain.join(" ")}</li>
            ))}
          </ul>
        </section>
      )}
      {gpus.length > 0 && (
        <section class="wide">
          <h3>GPUs and their rails</h3>
          <div class="scrolls" tabIndex={0} role="region" aria-label="GPUs and their rails">
            <table class="devices">
              <thead>
                <tr>
                  <th scope="col">GPU</th>
                  <th scope="col">UUID</th>
                  <th scope="col">PCI</th>
                  <th scope="col">NUMA</th>
                  <th scope="col">Rail</th>
                </tr>
              </thead>
              <tbody>
                {gpus.map((gpu) => (
                  <tr key={gpu.label}>
                    <th scope="row">{gpu.label}</th>
                    <td class="code">{gpu.name || "–"}</td>
                    <td class="code">{gpu.pci}</td>
                    <td>{gpu.numa ?? "–"}</td>
                    <td>{gpu.rails.map((rail) => withName(node, rail)).join(", ") || "none"}</td>
                  </tr>
                ))}
              </tbody>
            </table>
          </div>
        </section>
      )}
      {cabled.length > 0 && (
        <section>
          <h3>NICs and their switches</h3>
          <Pairs pairs={cabled.map((nic) => [`${nic.label} (${nic.name})`, nic.neighbour])} />
        </section>
      )}
      <section class="wide">
        <details>
          <summary>
            {others.length} other labels, {Object.keys(node.conditions).length} conditions
          </summary>
          <Pairs pairs={[...Object.entries(node.conditions), ...others]} />
        </details>
      </section>
    </div>
  );
}

function withName(node: NodeDetail, label: string): string {
  const name = node.devices.find((device) => device.label === label)?.name;
  return name ? `${label} (${name})` : label;
}

function Pairs({ pairs }: { pairs: readonly (readonly [string, ComponentChildren])[] }) {
  return (
    <dl class="pairs">
      {pairs.map(([key, value]) => (
        <div key={key}>
          <dt>{key}</dt>
          <dd>{value}</dd>
        </div>
      ))}
    </dl>
  );
}

function List({ title, items }: { title: string; items: readonly string[] }) {
  return (
    <>
      <h4>{title}</h4>
      <ul class="plain">
        {items.map((item) => (
          <li key={item}>{item}</li>
        ))}
      </ul>
    </>
  );
}
