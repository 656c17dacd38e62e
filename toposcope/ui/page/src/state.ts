// What changes while the page is open, as hooks: the cluster, the place that is shown, the time.
import { useCallback, useEffect, useRef, useState } from "preact/hooks";
import { type Place, read, written } from "./address.ts";
import { type Cluster, clusterOf, moved } from "./model/cluster.ts";
import type { Delta } from "./protocol.ts";
import type { Source } from "./source.ts";

/** How long a node that changed is marked, in milliseconds. */
const MARKED = 4_000;
/** Milliseconds in which deltas are drawn together. */
const GATHER = 120;

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
    let waiting: { id: string; delta: Delta }[] = [];
    let timer: ReturnType<typeof setTimeout> | undefined;
    let fading: ReturnType<typeof setTimeout> | undefined;
    const apply = (): void => {
      timer = undefined;
      const deltas = waiting;
      waiting = [];
      setWatched((was) => {
        if (!was.cluster) return was;
        const changed = new Set<string>();
        let { cluster } = was;
        for (const { id, delta } of deltas) {
          const next = moved(cluster, id, delta);
          if (next !== cluster) for (const row of delta.put) changed.add(row.name);
          cluster = next;
        }
        return { ...was, cluster, changed, receivedAt: Date.now() };
      });
      clearTimeout(fading);
      fading = setTimeout(() => setWatched((was) => ({ ...was, changed: new Set() })), MARKED);
    };
    source.start({
      snapshot: (snapshot) => {
        waiting = [];
        setWatched((was) => ({ ...was, cluster: clusterOf(snapshot), receivedAt: Date.now(), error: "" }));
      },
      delta: (id, delta) => {
        waiting.push({ id, delta });
        if (timer === undefined) timer = setTimeout(apply, GATHER);
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
