// What to do next, where something is missing.
import { missing } from "../missing.ts";
import type { Cluster } from "../model/cluster.ts";
import type { View } from "../protocol.ts";

export function Next({ cluster, view }: { cluster: Cluster; view: View }) {
  const gap = missing(cluster, view);
  if (!gap) return null;
  return (
    <section class="next" aria-label="What to do next">
      <h2>{gap.what}</h2>
      <ol>
        {gap.steps.map(([why, command]) => (
          <li key={command}>
            {why}
            <pre tabIndex={0}>{command}</pre>
          </li>
        ))}
      </ol>
    </section>
  );
}
