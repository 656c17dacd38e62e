// One node: what is wrong with it, how it is wired, and everything known about it.
import { useEffect, useRef, useState } from "preact/hooks";
import { HEALTH, healthOf } from "../model/lens.ts";
import type { NodeDetail } from "../protocol.ts";
import { messageOf, type Source } from "../source.ts";
import { day, lasting, since } from "../time.ts";
import { Drawing } from "./drawing.tsx";
import { Facts } from "./facts.tsx";
import { Matrix } from "./matrix.tsx";

interface Props {
  name: string;
  source: Source;
  /** Changes whenever the node may have: it is then loaded again. */
  edition: unknown;
  now: number;
  /** Which of its free GPUs a pod of typical shape cannot get. */
  blocked: { readonly gpus: number; readonly why: string };
  close(): void;
}

export function NodePage({ name, source, edition, now, blocked, close }: Props) {
  const [state, setState] = useState<{ name: string; node?: NodeDetail; error?: string }>({ name });
  const heading = useRef<HTMLHeadingElement>(null);
  useEffect(() => {
    const stop = new AbortController();
    source.node(name, stop.signal).then(
      (node) => setState({ name, node }),
      (error: unknown) => {
        if (!stop.signal.aborted) setState({ name, error: messageOf(error) });
      },
    );
    return () => stop.abort();
  }, [name, source, edition]);
  useEffect(() => heading.current?.focus({ preventScroll: true }), [name]);
  const { node, error } = state.name === name ? state : { node: undefined, error: undefined };
  return (
    <article class="node" aria-busy={!node && !error}>
      <header>
        <h2 ref={heading} tabIndex={-1}>
          {name}
        </h2>
        {node && <Marks node={node} />}
        <button
          type="button"
          class="icon-button close"
          onClick={close}
          aria-label="Back to the map"
          title="Back to the map (Esc)"
        >
          ✕
        </button>
      </header>
      {error && (
        <p class="missing" role="alert">
          {error}
        </p>
      )}
      {!node && !error && <p class="soft">Loading …</p>}
      {node && (
        <>
          <Trouble node={node} now={now} />
          <section>
            <h3>Wiring</h3>
            <Drawing node={node} />
          </section>
          <section>
            <h3>Link matrix</h3>
            <Matrix node={node} />
          </section>
          <Facts node={node} blocked={blocked} />
        </>
      )}
    </article>
  );
}

function Marks({ node }: { node: NodeDetail }) {
  const marks = node.marks.length ? node.marks : [node.lacking.length ? "left-out" : "ok"];
  return (
    <ul class="marks">
      {marks.map((mark) => {
        const category = HEALTH[healthOf(mark === "ok" ? [] : [mark])];
        return (
          <li key={mark} class={`mark mark-${category?.key ?? "unknown"}`}>
            {category?.key === "ok" ? "✓ " : "▲ "}
            {category?.label ?? mark}
          </li>
        );
      })}
    </ul>
  );
}

function Trouble({ node, now }: { node: NodeDetail; now: number }) {
  const seconds = since(node.since?.at ?? null, now);
  const others = node.lacking.length + node.miscabled.length;
  if (!node.reasons.length && !others && node.state !== "degraded" && node.state !== "unknown") return null;
  return (
    <div class="trouble">
      {(node.state === "degraded" || node.state === "unknown" || node.reasons.length > 0) && (
        <p>
          <strong>{node.state === "unknown" ? "The agent cannot read its hardware" : "Degraded"}</strong>
          {node.since && seconds !== null && (
            <time dateTime={node.since.at}>
              {node.since.exact ? ` since ${day(node.since.at)}` : ` since ${day(node.since.at)} or earlier`} (
              {lasting(seconds)})
            </time>
          )}
        </p>
      )}
      <ul>
        {node.reasons.map((reason) => (
          <li key={reason}>{reason}</li>
        ))}
        {node.miscabled.map((sentence) => (
          <li key={sentence}>Wrong cable: {sentence}</li>
        ))}
        {node.lacking.map(({ view, level, why }) => (
          <li key={`${view} ${level}`}>
            Left out of {view || "the topology"}: {why}
          </li>
        ))}
      </ul>
    </div>
  );
}
