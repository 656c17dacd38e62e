// The link matrix of a node as a heat map that is a table: every cell has its text, colour only repeats it.
import { many } from "../map/text.ts";
import type { CellClass, NodeDetail } from "../protocol.ts";
import { bestLinks, isWeak, named } from "./weak.ts";

export function Matrix({ node }: { node: NodeDetail }) {
  const { matrix, devices } = node;
  if (!matrix) return <p class="missing">{node.problem || "The node has no link matrix."}</p>;
  const kinds = new Map(node.classes.map((cellClass) => [cellClass.cell, cellClass]));
  const best = bestLinks(matrix);
  const switched = node.hardware["interconnect"] === "nvswitch";
  const faulty = named(node);
  const meaning = new Map<string, CellClass>();
  for (const cellClass of node.classes) if (!meaning.has(cellClass.kind)) meaning.set(cellClass.kind, cellClass);
  return (
    <>
      <div class="scrolls" tabIndex={0} role="region" aria-label={`Link matrix of ${node.name}`}>
        <table class={devices.length > 14 ? "matrix dense" : "matrix"}>
          <caption class="sr-only">Links between the GPUs and NICs of {node.name}</caption>
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
                <th scope="row" class={faulty.has(device.label) ? "faulty" : ""} title={device.name}>
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
        {[...meaning.values()].map(({ kind, cell, meaning }) => (
          <div key={kind}>
            <dt class={`m-${kind}`}>{kind === "nvlink" ? "NV#" : cell}</dt>
            <dd>{kind === "nvlink" ? "this many NVLinks" : meaning}</dd>
          </div>
        ))}
      </dl>
      {node.disputes.length > 0 && (
        <details class="disputes">
          <summary>NVML and sysfs disagree about {many(node.disputes.length, "path")}</summary>
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
