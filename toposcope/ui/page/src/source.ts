// Where the page's data comes from: a server that keeps sending, or the file that the page itself was saved into.

import type {
  CheckAnswer,
  Drained,
  Export,
  GangPlace,
  News,
  NodeDetail,
  Planning,
  SearchAnswer,
  Snapshot,
  Status,
} from "./protocol.ts";
import { gpuMatch, gpusIn, type Match } from "./search.ts";

/** A failed request, with the server's message. */
export class RequestError extends Error {}

export interface Listener {
  snapshot(snapshot: Snapshot): void;
  status(status: Status): void;
  /** Whether the server has sent something recently; `since` is when it last did. */
  heard(well: boolean, since: number): void;
  failed(why: string): void;
}

export interface Source {
  /** False: a saved file, which neither changes nor checks. */
  readonly live: boolean;
  readonly note: string;
  start(listener: Listener): void;
  node(name: string, signal: AbortSignal): Promise<NodeDetail>;
  gpus(text: string, signal: AbortSignal): Promise<Match[]>;
  check(workload: string): Promise<CheckAnswer>;
  planning(view: string): Promise<Planning>;
  /** `gang` is `KIND/NAMESPACE/NAME`. */
  gang(view: string, gang: string): Promise<GangPlace>;
  drain(view: string, path: readonly string[], node: string | null): Promise<Drained>;
}

/** Longest pause in milliseconds of a server that sends something every five seconds. */
const SILENCE_MS = 15_000;
/** How long a broken connection may take to come back before the page says so: browsers retry after two seconds. */
const BROKEN_MS = 4_000;
/** How often the page looks whether the server is still there. */
const LOOK_MS = 1_000;

export class Server implements Source {
  readonly live = true;
  readonly note = "";
  private listening = false;
  private fetching = false;
  /** Ids of the snapshot that is shown and of the newest that there is. */
  private shown = "";
  private newest = "";
  private last = Date.now();
  /** When the connection broke; 0: it did not. */
  private brokenAt = 0;
  private tries = 0;

  start(listener: Listener): void {
    void this.fetch(listener);
    setInterval(() => this.tell(listener), LOOK_MS);
    document.addEventListener("visibilitychange", () => this.catchUp(listener));
  }

  /** Says whether the server is still there. */
  private tell(listener: Listener): void {
    const now = Date.now();
    const broken = this.brokenAt > 0 && now - this.brokenAt >= BROKEN_MS;
    listener.heard(!broken && now - this.last < SILENCE_MS, this.last);
  }

  /** Fetches the newest snapshot, unless it is already shown or the page is hidden. */
  private catchUp(listener: Listener): void {
    if (this.newest !== this.shown && !this.fetching && !document.hidden) void this.fetch(listener);
  }

  private async fetch(listener: Listener): Promise<void> {
    this.fetching = true;
    const wanted = this.newest;
    try {
      const snapshot = await ask<Snapshot>("api/snapshot");
      this.last = Date.now();
      this.shown = snapshot.id;
      // An id that arrived during the fetch may be newer still; an earlier one is not.
      if (this.newest === wanted) this.newest = snapshot.id;
      this.fetching = false;
      listener.snapshot(snapshot);
      if (!this.listening) this.listen(listener);
      this.catchUp(listener);
    } catch (error) {
      listener.failed(messageOf(error));
      this.later(() => this.fetch(listener));
    }
  }

  private listen(listener: Listener): void {
    const events = new EventSource("api/events");
    this.listening = true;
    events.addEventListener("message", (event: MessageEvent<string>) => {
      const { id, status } = JSON.parse(event.data) as News;
      this.last = Date.now();
      this.brokenAt = 0;
      this.tries = 0;
      this.newest = id;
      this.tell(listener);
      listener.status(status);
      this.catchUp(listener);
    });
    events.addEventListener("error", () => {
      this.brokenAt ||= Date.now();
      this.tell(listener);
      // A browser reconnects by itself after a broken connection, but not after a response that is not a stream.
      if (events.readyState !== EventSource.CLOSED) return;
      this.listening = false;
      this.later(() => this.fetch(listener));
    });
  }

  private later(act: () => void): void {
    const wait = Math.min(1000 * 2 ** this.tries++, 30_000);
    setTimeout(act, wait * (0.75 + Math.random() / 2));
  }

  node(name: string, signal: AbortSignal): Promise<NodeDetail> {
    return ask<NodeDetail>(`api/node/${encodeURIComponent(name)}`, { signal });
  }

  async gpus(text: string, signal: AbortSignal): Promise<Match[]> {
    const answer = await ask<SearchAnswer>(`api/search?q=${encodeURIComponent(text)}`, { signal });
    return answer.gpus.map(({ uuid, node }) => gpuMatch(uuid, node));
  }

  check(workload: string): Promise<CheckAnswer> {
    const headers = { "Content-Type": "application/json" };
    return ask<CheckAnswer>("api/check", { method: "POST", headers, body: JSON.stringify({ workload }) });
  }

  planning(view: string): Promise<Planning> {
    return ask<Planning>(`api/planning?${new URLSearchParams({ view })}`);
  }

  gang(view: string, gang: string): Promise<GangPlace> {
    const [kind = "", ...name] = gang.split("/");
    return ask<GangPlace>(`api/gang?${new URLSearchParams({ view, kind, name: name.join("/") })}`);
  }

  drain(view: string, path: readonly string[], node: string | null): Promise<Drained> {
    const where = node === null ? { in: path.map(encodeURIComponent).join("/") } : { node };
    return ask<Drained>(`api/drain?${new URLSearchParams({ view, ...where } as Record<string, string>)}`);
  }
}

export class SavedFile implements Source {
  readonly live = false;
  readonly note: string;
  private readonly saved: Export;

  constructor(saved: Export) {
    this.saved = saved;
    const asOf = saved.snapshot.status.asOf;
    this.note = `Saved report${asOf ? `, as of ${new Date(asOf).toLocaleString()}` : ""}: not updated.`;
  }

  start(listener: Listener): void {
    listener.snapshot(this.saved.snapshot);
  }

  async node(name: string): Promise<NodeDetail> {
    const node = Object.hasOwn(this.saved.nodes, name) ? this.saved.nodes[name] : undefined;
    if (!node)
      throw new RequestError(
        `This file has no details of ${name}: ${this.saved.leftOut} nodes were left out to limit its size.`,
      );
    return node;
  }

  async gpus(text: string): Promise<Match[]> {
    return gpusIn(text, this.saved.nodes);
  }

  async check(): Promise<CheckAnswer> {
    throw new RequestError("A saved file cannot check workloads.");
  }

  async planning(): Promise<Planning> {
    throw new RequestError("A saved file cannot plan.");
  }

  async gang(): Promise<GangPlace> {
    throw new RequestError("A saved file cannot show gangs: open `toposcope ui` on the cluster.");
  }

  async drain(): Promise<Drained> {
    throw new RequestError("A saved file cannot plan.");
  }
}

/** The file's own data if there is any, else the server that the page came from. */
export function sourceOf(page: Document): Source {
  const saved = page.getElementById("toposcope-export")?.textContent;
  return saved ? new SavedFile(JSON.parse(saved) as Export) : new Server();
}

async function ask<T>(address: string, init?: RequestInit): Promise<T> {
  const answer = await fetch(address, init);
  const body: unknown = await answer.json().catch(() => null);
  if (answer.ok && body !== null) return body as T;
  const error = body && typeof body === "object" && "error" in body ? String(body.error) : "";
  throw new RequestError(error || `The server answered ${answer.status} ${answer.statusText}`);
}

export function messageOf(error: unknown): string {
  if (error instanceof RequestError) return error.message;
  return "The server is not responding. Is `toposcope ui` still running?";
}
