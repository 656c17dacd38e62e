// The link matrix of a node as a heat map that is a table: every cell says its word, colour only repeats it.
import type { CellClass, NodeDetail } from "../wire.ts";
import { bestLinks, isWeak, named } from "./weak.ts";

export function Matrix({ node }: { node: NodeDetail }) {
  const { matrix, devices } = node;
  if (!matrix) return <p class="missing">{node.problem || "There is no link matrix."}</p>;
  const kinds = new Map(node.classes.map((each) => [each.cell, each]));
  const best = bestLinks(matrix);
  const switched = node.hardware["interconnect"] === "nvswitch";
  const amiss = named(node);
  const meaning = new Map<string, CellClass>();
  for (const each of node.classes) if (!meaning.has(each.kind)) meaning.set(each.kind, each);
  return (
    <>
      <div class="scrolls" tabIndex={0} role="region" aria-label={`Link matrix of ${node.name}`}>
        <table class={devices.length > 14 ? "matrix dense" : "matrix"}>
          <caption class="sr-only">How the GPUs and NICs of {node.name} reach each other</caption>
          <thead>
            <tr>
              <td />
              {devices.map((device) => (
                <th key={device.label} scope="col" class={device.kind} title={device.name}>
                  {device.label}
                </th>
              ))}
            </tr>
          </thead>
          <tbody>
            {devices.map((device, row) => (
              <tr key={device.label} class={device.kind}>
                <th scope="row" class={amiss.has(device.label) ? "amiss" : ""} title={device.name}>
                  {device.label}
                </th>
                {devices.map((other, column) => {
                  const cell = matrix[row]?.[column] ?? "";
                  const kind = kinds.get(cell)?.kind ?? "other";
                  const gpus = device.kind === "gpu" && other.kind === "gpu";
                  const weak = isWeak(cell, best, switched, gpus);
                  return (
                    <td
                      key={other.label}
                      class={`m-${kind} ${other.kind}${weak ? " weak" : ""}`}
                      title={`${device.label} to ${other.label}: ${kinds.get(cell)?.meaning ?? cell}`}
                    >
                      {cell}
                      {weak && <span class="sr-only"> (fewer than others)</span>}
                    </td>
                  );
                })}
              </tr>
            ))}
          </tbody>
        </table>
      </div>
      <dl class="meanings">
        {[...meaning.values()].map((each) => (
          <div key={each.kind}>
            <dt class={`m-${each.kind}`}>{each.kind === "nvlink" ? "NV#" : each.cell}</dt>
            <dd>{each.kind === "nvlink" ? "so many NVLinks" : each.meaning}</dd>
          </div>
        ))}
      </dl>
      {node.disputes.length > 0 && (
        <details class="disputes">
          <summary>NVML and sysfs disagree about {node.disputes.length} paths</summary>
          <ul>
            {node.disputes.map((dispute) => (
              <li key={dispute}>{dispute}</li>
            ))}
          </ul>
        </details>
      )}
    </>
  );
}
