// The page as a whole: its state, and which part shows what.
import { useCallback, useEffect, useMemo, useState } from "preact/hooks";
import { Crumbs } from "./map/crumbs.tsx";
import { Legend } from "./map/legend.tsx";
import { many } from "./map/text.ts";
import { MapView } from "./map/view.tsx";
import { type Cluster, viewOf } from "./model/cluster.ts";
import { type Domain, domainAt, forestOf, outOfReach, pathOf } from "./model/domains.ts";
import { byHealth, lensOf, tally } from "./model/lens.ts";
import { NodePage } from "./node/page.tsx";
import { Changes } from "./panel/changes.tsx";
import { CheckPanel } from "./panel/check.tsx";
import { Overview } from "./panel/overview.tsx";
import { PlanPanel, type Violations } from "./panel/plan.tsx";
import { Tabs } from "./panel/tabs.tsx";
import { Conditions, Staleness } from "./parts/banners.tsx";
import { Header } from "./parts/header.tsx";
import { useBackKeys } from "./parts/keys.ts";
import { Next } from "./parts/next.tsx";
import { useTheme } from "./parts/theme.tsx";
import { type Check, type CheckAnswer, type GangPlace, VERSION, type View } from "./protocol.ts";
import { type Match, matching } from "./search.ts";
import { messageOf, type Source } from "./source.ts";
import { useCluster, useNow, usePlace, type Watched } from "./state.ts";

export function App({ source }: { source: Source }) {
  const watched = useCluster(source);
  const { cluster, error } = watched;
  if (!cluster) return <Waiting error={error} />;
  const old = cluster.version !== VERSION;
  if (old) return <Waiting error="The server was updated: reload this page." />;
  return <Explorer source={source} watched={watched} cluster={cluster} />;
}

/** Goes into a domain. What lives as long as the page is made apart: a closure keeps all that its neighbours see. */
function useZoom(go: (change: { path: string[]; node: null }) => void): (domain: Domain) => void {
  return useCallback((domain: Domain) => go({ path: pathOf(domain), node: null }), [go]);
}

/** Where a gang is and could be, and that in words. */
function useGang(source: Source, view: string, gang: string | null): { place: GangPlace | null; told: string } {
  const [state, setState] = useState<{ of: string; place: GangPlace | null; told: string } | null>(null);
  const of = `${view} ${gang}`;
  useEffect(() => {
    if (gang === null) return;
    let here = true;
    source.gang(view, gang).then(
      (place) => {
        const better = place.better.map((path) => path.join(" › ")).join(", ");
        const words = better
          ? `Highlighted: its ${many(place.nodes.length, "node")}. Outlined: where it would fit better, ${place.level} ${better}.`
          : `Highlighted: its ${many(place.nodes.length, "node")}. There is no better placement now.`;
        if (here) setState({ of, place, told: words });
      },
      (refusal: unknown) => here && setState({ of, place: null, told: messageOf(refusal) }),
    );
    return () => {
      here = false;
    };
  }, [source, view, gang, of]);
  return gang !== null && state?.of === of ? state : { place: null, told: "" };
}

function Waiting({ error }: { error: string }) {
  return (
    <main class="waiting">
      <h1>Toposcope</h1>
      <p role="status">{error || "Reading the cluster …"}</p>
    </main>
  );
}

function Explorer({ source, watched, cluster }: { source: Source; watched: Watched; cluster: Cluster }) {
  const [place, go] = usePlace();
  const [theme, toggleTheme] = useTheme();
  const now = useNow();
  const [violations, setViolations] = useState<Violations | null>(null);
  const [query, setQuery] = useState("");
  const [tab, setTab] = useState(place.gang === null ? "overview" : "plan");
  const [answer, setAnswer] = useState<CheckAnswer | null>(null);
  const [marked, setMarked] = useState<Check | null>(null);
  const { table } = cluster;
  const view = viewOf(cluster, place.view) ?? NO_VIEW;
  const forest = useMemo(() => forestOf(table, view, cluster.placeholders), [table, view, cluster.placeholders]);
  const focus = useMemo(() => {
    // A link to a node may name nothing else.
    const home =
      place.node !== null && !place.path.length ? forest.home[table.byName.get(place.node) ?? -1] : undefined;
    return home ?? domainAt(forest, place.path).domain;
  }, [forest, table, place.path, place.node]);
  const lens = useMemo(() => lensOf(place.lens, table, forest), [place.lens, table, forest]);
  const counts = useMemo(() => tally(lens, forest), [lens, forest]);
  const health = useMemo(() => tally(byHealth(table, forest), forest), [table, forest]);
  const apart = useMemo(() => {
    const counts = new Map<number, number>();
    for (const pen of forest.pens) {
      for (const node of pen.nodes) counts.set(lens.of[node] ?? 0, (counts.get(lens.of[node] ?? 0) ?? 0) + 1);
    }
    return counts;
  }, [forest, lens]);
  const { place: gang, told } = useGang(source, view.id, place.gang);
  const highlighted = useMemo(() => {
    const members = new Set(gang?.nodes);
    const matched = matching(query, table, forest);
    const named = gang
      ? Uint8Array.from(table.names, (name, at) => Number(members.has(name) && (!matched || matched[at] === 1)))
      : matched;
    const only = lens.categories.findIndex((category) => category.key === place.only);
    if (only < 0) return named;
    return Uint8Array.from(lens.of, (category, node) => Number(category === only && (!named || named[node] === 1)));
  }, [query, table, forest, lens, place.only, gang]);
  const highlightedCounts = useMemo(
    () => (highlighted ? tally(lens, forest, highlighted) : null),
    [lens, forest, highlighted],
  );
  const changed = useMemo(
    () => new Set([...watched.changed].map((name) => table.byName.get(name) ?? -1)),
    [watched.changed, table],
  );
  const fits = useMemo(() => {
    const domains = new Set<Domain>();
    const paths = gang ? gang.better : marked?.view === view.id ? marked.fits.map((fit) => fit.path) : [];
    for (const path of paths) {
      const { domain, whole } = domainAt(forest, path);
      if (whole && domain.parent) domains.add(domain);
    }
    return domains;
  }, [marked, gang, forest, view.id]);

  const zoom = useZoom(go);
  const openName = useCallback(
    (name: string) => {
      const home = forest.home[table.byName.get(name) ?? -1];
      // From the node, the way back leads to where it stands.
      go(home ? { node: name, path: pathOf(home) } : { node: name });
    },
    [go, forest, table],
  );
  const open = useCallback((node: number) => openName(table.names[node] ?? ""), [openName, table]);
  const close = (): void => go({ path: pathOf(focus), node: null });
  useBackKeys(() => {
    if (place.node !== null) {
      close();
      return;
    }
    let here: Domain | null = focus.parent;
    // Domains with nothing else in them look the same as the one above.
    while (here?.parent && here.children.length === 1 && !here.nodes.length) here = here.parent;
    if (here) zoom(here);
  });
  const choose = (match: Match): void => {
    if (match.kind === "domain")
      go({ path: match.path, node: null, ...(match.view === null ? {} : { view: match.view }) });
    else openName(match.node);
  };
  const tabs = [
    { key: "overview", label: "Overview" },
    { key: "changes", label: "Changes", badge: cluster.changes.filter((change) => change.bad).length },
    { key: "check", label: "Check" },
    { key: "plan", label: "Plan", badge: violations?.view === view.id ? violations.count : 0 },
  ];
  return (
    <>
      <Header
        cluster={cluster}
        view={view}
        source={source}
        silent={watched.silent}
        heardAt={watched.heardAt}
        theme={theme}
        toggleTheme={toggleTheme}
        setView={(id) => go({ view: id, path: [], node: null, only: null, gang: null })}
        home={() => go({ path: [], node: null })}
        search={{ source, table, forest, query, setQuery, choose }}
      />
      <Staleness
        status={cluster.status}
        receivedAt={watched.receivedAt}
        silent={watched.silent}
        heardAt={watched.heardAt}
        now={now}
      />
      <Conditions view={view} warnings={cluster.status.warnings} now={now} />
      <div class="body">
        <main id="main" tabIndex={-1}>
          <h1 class="sr-only">{place.node ?? `${view.name || "cluster"} ${pathOf(focus).join(" › ")}`}</h1>
          <Crumbs forest={forest} focus={focus} node={place.node} zoom={zoom} />
          {place.node === null && <Next cluster={cluster} view={view} />}
          {place.node === null ? (
            <>
              <Legend
                lens={lens}
                counts={counts}
                apart={apart}
                focus={focus}
                only={place.only}
                theme={theme}
                freeKnown={table.free !== null}
                pod={cluster.pod}
                setLens={(key) => go({ lens: key, only: null }, true)}
                setOnly={(only) => go({ only }, true)}
              />
              <MapView
                {...{
                  table,
                  forest,
                  focus,
                  lens,
                  counts,
                  health,
                  highlighted,
                  highlightedCounts,
                  fits,
                  changed,
                  theme,
                  zoom,
                  open,
                }}
              />
            </>
          ) : (
            <NodePage
              name={place.node}
              source={source}
              edition={table}
              now={now}
              blocked={outOfReach(table, forest, table.byName.get(place.node) ?? -1)}
              close={close}
            />
          )}
        </main>
        <Tabs tabs={tabs} current={tab} choose={setTab}>
          {tab === "overview" && <Overview {...{ table, forest, focus, open }} otherNodes={cluster.otherNodes} />}
          {tab === "changes" && (
            <Changes
              changes={cluster.changes}
              view={view.id}
              live={source.live}
              now={now}
              known={(name) => table.byName.has(name)}
              open={openName}
            />
          )}
          {tab === "check" && (
            <CheckPanel
              source={source}
              answer={answer}
              marked={marked}
              setAnswer={setAnswer}
              mark={setMarked}
              go={(check, path) => go({ path, node: null, ...(check.view === null ? {} : { view: check.view }) })}
            />
          )}
          {tab === "plan" && (
            <PlanPanel
              source={source}
              view={view.id}
              path={pathOf(focus)}
              node={place.node}
              gang={place.gang}
              told={told}
              count={setViolations}
              show={(name) => go({ gang: name, ...(name === null ? {} : { path: [], node: null }) })}
            />
          )}
        </Tabs>
      </div>
    </>
  );
}

const NO_VIEW: View = {
  id: "",
  name: "",
  kind: "inferred",
  parent: null,
  origin: "inferred",
  levels: [],
  nodes: 0,
  gpus: 0,
  leftOut: 0,
  leftOutGpus: 0,
  withoutAgent: 0,
  conditions: [],
  problems: [],
};
