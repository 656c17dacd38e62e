// What an admin decides by: what a drain would do, which gangs could be better placed, what still fits.
import { useEffect, useState } from "preact/hooks";
import { figure, many } from "../map/text.ts";
import type { Drained, GangRow, KeptRow, Planning, SlotRow } from "../protocol.ts";
import { messageOf, type Source } from "../source.ts";

interface Props {
  source: Source;
  view: string;
  /** What would be drained: the open node, else the domain in focus; neither in the whole view. */
  path: readonly string[];
  node: string | null;
  /** The gang that is shown on the map, as the address names it. */
  gang: string | null;
  /** Why it is not, or where it could be; empty until that is known. */
  told: string;
  show(gang: string | null): void;
  /** Called with how many gangs of a view violate what they require. */
  count(violations: Violations): void;
}

/** How many gangs of a view violate what they require. */
export interface Violations {
  readonly view: string;
  readonly count: number;
}

/** How often slots and gangs are asked for again, in milliseconds. */
const AGAIN = 30_000;

export function PlanPanel({ source, view, path, node, gang, told, show, count }: Props) {
  const [planning, setPlanning] = useState<Planning | null>(null);
  const [error, setError] = useState("");
  useEffect(() => {
    if (!source.live) return;
    let here = true;
    const ask = (): void => {
      source.planning(view).then(
        (answer) => {
          if (!here) return;
          setPlanning(answer);
          count({ view, count: answer.violations });
          setError("");
        },
        (refusal: unknown) => here && setError(messageOf(refusal)),
      );
    };
    setPlanning(null);
    ask();
    const asking = setInterval(ask, AGAIN);
    return () => {
      here = false;
      clearInterval(asking);
    };
  }, [source, view, count]);
  if (!source.live)
    return <p class="soft">A saved file cannot plan: open `toposcope ui` on the cluster, or use `toposcope whatif`.</p>;
  return (
    <div class="plan">
      <Drain key={`${view} ${path.join("/")} ${node}`} source={source} view={view} path={path} node={node} />
      {error && <p class="missing">{error}</p>}
      {!planning && !error && <p class="soft">Counting …</p>}
      {planning && (
        <>
          <Kept planning={planning} gang={gang} told={told} show={show} />
          <Gangs planning={planning} gang={gang} told={told} show={show} />
          <Slots planning={planning} />
        </>
      )}
    </div>
  );
}

function Drain({ source, view, path, node }: Pick<Props, "source" | "view" | "path" | "node">) {
  const [answer, setAnswer] = useState<Drained | null>(null);
  const [busy, setBusy] = useState(false);
  const [error, setError] = useState("");
  const what = node ?? path.at(-1);
  if (what === undefined)
    return (
      <section>
        <h3>What if it is drained?</h3>
        <p class="soft">Open a domain or a node on the map to see here what draining it would do.</p>
      </section>
    );
  const ask = async (): Promise<void> => {
    setBusy(true);
    setError("");
    try {
      setAnswer(await source.drain(view, path, node));
    } catch (refusal) {
      setAnswer(null);
      setError(messageOf(refusal));
    } finally {
      setBusy(false);
    }
  };
  return (
    <section>
      <h3>What if it is drained?</h3>
      <button type="button" class="ask" disabled={busy} onClick={() => void ask()}>
        {busy ? "Trying …" : `What if ${what} is drained?`}
      </button>
      <div aria-live="polite">
        {error && <p class="missing">{error}</p>}
        {answer && (
          <>
            <p>
              {many(answer.nodes, "node")}, {many(answer.gangs.length, "gang")}. Nothing was drained.
            </p>
            {answer.warnings.map((warning) => (
              <p key={warning} class="missing">
                {warning}
              </p>
            ))}
            <ul class="fates">
              {answer.gangs.map((fate) => (
                <li key={fate.text} class={fate.worse ? "worse" : ""}>
                  {fate.worse ? "▲ " : "• "}
                  {fate.text}
                </li>
              ))}
            </ul>
            {!answer.slots.length && <p class="healthy">✓ No slot is lost.</p>}
            {answer.slots.map((slot) => (
              <p key={slot.gpus} class="soft">
                {figure(slot.gpus)} GPUs in one {slot.domain}: {figure(slot.before)} → {figure(slot.after)} slots
              </p>
            ))}
          </>
        )}
      </div>
    </section>
  );
}

/** Whether gangs are within the domains that they require, by the labels of their nodes now. */
function Kept({ planning, gang, told, show }: { planning: Planning } & Pick<Props, "gang" | "told" | "show">) {
  const { violations, unobservable, matches } = planning;
  if (!(violations + unobservable + matches)) return null;
  return (
    <section>
      <h3>Required levels</h3>
      <p class={violations ? "missing" : "soft"}>
        {figure(violations)} VIOLATION, {figure(unobservable)} UNOBSERVABLE, {figure(matches)} MATCH
      </p>
      <ul class="gangs">
        {planning.kept.map((row) => (
          <KeptGang key={`${row.kind}/${row.name}`} row={row} gang={gang} told={told} show={show} />
        ))}
      </ul>
    </section>
  );
}

function KeptGang({ row, gang, told, show }: { row: KeptRow } & Pick<Props, "gang" | "told" | "show">) {
  const name = `${row.kind}/${row.name}`;
  const shown = gang === name;
  return (
    <li>
      <button type="button" aria-pressed={shown} onClick={() => show(shown ? null : name)}>
        <span class="score">{row.result}</span> <span class="name">{row.name}</span>{" "}
        <span class="what">
          {row.kind}, {many(row.gpus, "GPU")}
        </span>
        {row.lines.map((line) => (
          <span key={line} class="why">
            {line}
          </span>
        ))}
      </button>
      {shown &&
        row.advice.map((sentence) => (
          <p key={sentence} class="soft">
            {sentence}
          </p>
        ))}
      {shown && told && <p class="soft">{told}</p>}
    </li>
  );
}

function Gangs({ planning, gang, told, show }: { planning: Planning } & Pick<Props, "gang" | "told" | "show">) {
  return (
    <section>
      <h3>Scattered gangs</h3>
      {!planning.gangs.length && <Compact scored={planning.scored} />}
      <ul class="gangs">
        {planning.gangs.map((row) => (
          <Gang key={`${row.kind}/${row.name}`} row={row} gang={gang} told={told} show={show} />
        ))}
      </ul>
    </section>
  );
}

/** No gang is scattered. */
function Compact({ scored }: { scored: number }) {
  if (!scored) return <p class="soft">No gang of several GPU pods is running.</p>;
  if (scored === 1) return <p class="healthy">✓ The only running gang is as close together as it can be.</p>;
  return <p class="healthy">✓ All {figure(scored)} running gangs are as close together as they can be.</p>;
}

function Gang({ row, gang, told, show }: { row: GangRow } & Pick<Props, "gang" | "told" | "show">) {
  const name = `${row.kind}/${row.name}`;
  const shown = gang === name;
  return (
    <li>
      <button type="button" aria-pressed={shown} onClick={() => show(shown ? null : name)}>
        <span class="score">{row.score.toFixed(2)}</span> <span class="name">{row.name}</span>{" "}
        <span class="what">
          {row.kind}, {many(row.gpus, "GPU")}
        </span>
        <span class="why">
          {row.spans}
          {row.better && " · ▲ fits better now"}
        </span>
      </button>
      {shown && told && <p class="soft">{told}</p>}
    </li>
  );
}

function Slots({ planning }: { planning: Planning }) {
  const beyond = [...planning.blocked, ...planning.uncounted];
  const widest = (row: SlotRow): number => Math.max(row.empty, row.ended, row.now, 1);
  return (
    <section>
      <h3>What still fits into one domain</h3>
      <p class="soft">
        Gangs of pods with {planning.pod} each; {many(planning.reachable, "free GPU")} within reach of such a pod.
      </p>
      {beyond.length > 0 && (
        <ul class="soft" aria-label="GPUs out of its reach">
          {beyond.map((sentence) => (
            <li key={sentence}>{sentence}</li>
          ))}
        </ul>
      )}
      <table class="slots">
        <thead>
          <tr>
            <th scope="col">GPUs</th>
            <th scope="col">Level</th>
            <th scope="col">Slots</th>
            <th scope="col">Now</th>
            <th scope="col">Empty</th>
          </tr>
        </thead>
        <tbody>
          {planning.slots.map((row, at) => (
            <tr key={`${row.gpus} ${row.domain}`}>
              <th scope="row">
                {planning.slots[at - 1]?.gpus === row.gpus ? <span class="sr-only">{row.gpus}</span> : figure(row.gpus)}
              </th>
              <td>{row.domain}</td>
              <td>
                <svg class="bar" viewBox="0 0 100 10" preserveAspectRatio="none" role="img">
                  <title>
                    {row.now} now, {row.ended} when running work has ended, {row.empty} on an empty cluster;{" "}
                    {Math.round(row.unusable * 100)} % of the free GPUs are of no use to such a gang
                  </title>
                  <rect class="empty" width="100" height="10" />
                  <rect class="ended" width={(100 * row.ended) / widest(row)} height="10" />
                  <rect class="now" width={(100 * row.now) / widest(row)} height="10" />
                </svg>
              </td>
              <td>{figure(row.now)}</td>
              <td>{figure(row.empty)}</td>
            </tr>
          ))}
        </tbody>
      </table>
      <p class="keys soft">
        <i class="now" /> now <i class="ended" /> when running work has ended <i class="empty" /> on an empty cluster
      </p>
    </section>
  );
}
