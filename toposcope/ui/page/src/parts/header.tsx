// The header: the topology, the search box, how fresh the data is.
import type { ComponentProps } from "preact";
import { figure } from "../map/text.ts";
import type { Cluster } from "../model/cluster.ts";
import type { View } from "../protocol.ts";
import type { Source } from "../source.ts";
import { clock, day } from "../time.ts";
import { Help } from "./help.tsx";
import { Search } from "./search.tsx";
import { ThemeButton, type ThemeName } from "./theme.tsx";

interface Props {
  cluster: Cluster;
  view: View;
  source: Source;
  silent: boolean;
  heardAt: number;
  theme: ThemeName;
  toggleTheme(): void;
  setView(id: string): void;
  home(): void;
  search: ComponentProps<typeof Search>;
}

export function Header({ cluster, view, source, silent, heardAt, theme, toggleTheme, setView, home, search }: Props) {
  return (
    <header class="head">
      <button type="button" class="skip" onClick={toMap}>
        Skip to the map
      </button>
      <button type="button" class="brand" onClick={home} aria-label="Toposcope: the whole cluster">
        <Logo />
        <span>Toposcope</span>
      </button>
      {cluster.views.length > 0 && (
        <label class="views">
          <span class="sr-only">Topology or segment</span>
          <select value={view.id} onChange={(event) => setView(event.currentTarget.value)}>
            {cluster.views.map((choice) => (
              <option key={choice.id} value={choice.id}>
                {choice.parent === null ? "" : "  "}
                {choice.name || "levels from labels"} ({figure(choice.nodes)})
              </option>
            ))}
          </select>
        </label>
      )}
      <Search {...search} />
      <Freshness cluster={cluster} source={source} silent={silent} heardAt={heardAt} />
      <Help theme={theme} />
      <ThemeButton theme={theme} toggle={toggleTheme} />
    </header>
  );
}

/** To the map's current button; where a node is open, or nothing is on the map, to the main part. */
function toMap(): void {
  const main = document.getElementById("main");
  (main?.querySelector<HTMLElement>(".overlay [tabindex='0']") ?? main)?.focus();
}

function Freshness({
  cluster,
  source,
  silent,
  heardAt,
}: {
  cluster: Cluster;
  source: Source;
  silent: boolean;
  heardAt: number;
}) {
  const { asOf, stale } = cluster.status;
  if (!source.live) return <p class="fresh saved">{source.note}</p>;
  if (cluster.source === "files") {
    return (
      <p class="fresh saved" title={cluster.sourceName}>
        From files{asOf ? `, as of ${day(asOf)}` : ""}
      </p>
    );
  }
  const well = !stale && !silent;
  return (
    <p class={well ? "fresh live" : "fresh old"} title={cluster.sourceName}>
      <i aria-hidden="true" />
      {well ? "Live" : "Stale"}
      <span class="sr-only">, last update at {clock(heardAt)}</span>
    </p>
  );
}

export function Logo() {
  return (
    <svg viewBox="0 0 32 32" width="24" height="24" aria-hidden="true" class="logo">
      <rect width="32" height="32" rx="7" class="ground" />
      <rect x="6" y="6" width="9" height="9" rx="2" />
      <rect x="6" y="17" width="9" height="9" rx="2" />
      <rect x="17" y="17" width="9" height="9" rx="2" />
      <rect x="17" y="6" width="9" height="9" rx="2" class="hot" />
    </svg>
  );
}
