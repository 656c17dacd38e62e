// What changes while the page is open, as hooks: the cluster, the place that is shown, the time.
import { useCallback, useEffect, useRef, useState } from "preact/hooks";
import { type Place, read, written } from "./address.ts";
import { type Cluster, clusterOf } from "./model/cluster.ts";
import { changedNames } from "./model/table.ts";
import type { Source } from "./source.ts";

/** How long a node that changed is marked, in milliseconds. */
const MARKED_MS = 4_000;

export interface Watched {
  readonly cluster: Cluster | null;
  /** Names of the nodes that changed a moment ago. */
  readonly changed: ReadonlySet<string>;
  /** When the last status was received. */
  readonly receivedAt: number;
  readonly silent: boolean;
  readonly heardAt: number;
  readonly error: string;
}

const NOTHING: Watched = {
  cluster: null,
  changed: new Set(),
  receivedAt: 0,
  silent: false,
  heardAt: Date.now(),
  error: "",
};

export function useCluster(source: Source): Watched {
  const [watched, setWatched] = useState<Watched>(NOTHING);
  useEffect(() => {
    let fading: ReturnType<typeof setTimeout> | undefined;
    source.start({
      snapshot: (snapshot) => {
        setWatched((was) => {
          const cluster = clusterOf(snapshot);
          const changed = was.cluster ? changedNames(was.cluster.table, cluster.table) : NOTHING.changed;
          return { ...was, cluster, changed, receivedAt: Date.now(), error: "" };
        });
        clearTimeout(fading);
        fading = setTimeout(() => setWatched((was) => ({ ...was, changed: NOTHING.changed })), MARKED_MS);
      },
      status: (status) =>
        setWatched((was) =>
          was.cluster ? { ...was, receivedAt: Date.now(), cluster: { ...was.cluster, status } } : was,
        ),
      heard: (well, heardAt) =>
        setWatched((was) =>
          was.silent === !well && (well || was.heardAt === heardAt) ? was : { ...was, silent: !well, heardAt },
        ),
      failed: (error) => setWatched((was) => ({ ...was, error })),
    });
  }, [source]);
  return watched;
}

/** The place, and a function that goes to another: `keep` changes the address without a step in the browser's history. */
export function usePlace(): [Place, (change: Partial<Place>, keep?: boolean) => void] {
  const [place, setPlace] = useState(() => read(location.hash));
  const current = useRef(place);
  useEffect(() => {
    const follow = (): void => {
      current.current = read(location.hash);
      setPlace(current.current);
    };
    // `popstate` comes for Back and Forward, `hashchange` also where the user edits the address.
    addEventListener("popstate", follow);
    addEventListener("hashchange", follow);
    return () => {
      removeEventListener("popstate", follow);
      removeEventListener("hashchange", follow);
    };
  }, []);
  const go = useCallback((change: Partial<Place>, keep = false): void => {
    const next = { ...current.current, ...change };
    current.current = next;
    const address = written(next) || location.pathname + location.search;
    if (keep) history.replaceState(null, "", address);
    else history.pushState(null, "", address);
    setPlace(next);
  }, []);
  return [place, go];
}

/** The time, as often as ages in words need it. */
export function useNow(): number {
  const [now, setNow] = useState(Date.now);
  useEffect(() => {
    const ticking = setInterval(() => setNow(Date.now()), 5_000);
    return () => clearInterval(ticking);
  }, []);
  return now;
}
