// What must be read before anything else: data that is old, and conditions that do not hold.
import { clock, lasting, since } from "../time.ts";
import type { ConditionView, Status, View } from "../wire.ts";

interface StaleProps {
  status: Status;
  /** When the status came. */
  got: number;
  silent: boolean;
  heardAt: number;
  now: number;
}

export function Staleness({ status, got, silent, heardAt, now }: StaleProps) {
  const { stale } = status;
  if (!stale && !silent) return null;
  const seconds = stale ? stale.seconds + Math.max(0, (now - got) / 1000) : (now - heardAt) / 1000;
  return (
    <div class="banner stale" role="alert">
      <span class="sign" aria-hidden="true">
        ◷
      </span>
      <div>
        <strong>{silent ? `No word from the server since ${clock(heardAt)}` : "Stale"}</strong>
        <span class="age">what you see is {lasting(seconds)} old</span>
        {stale?.why.map((why) => (
          <p key={why}>{why}</p>
        ))}
        {silent && <p>The page goes on trying. See that `toposcope ui` still runs and can be reached.</p>}
      </div>
    </div>
  );
}

/** Conditions that do not hold, worst first. `Ready` only repeats the others, and stands for them where they are all well. */
export function amiss(view: View): ConditionView[] {
  const found = view.conditions.filter((condition) => condition.status !== "True");
  const others = found.filter((condition) => condition.type !== "Ready");
  const shown = others.some((condition) => !condition.advisory) ? others : found;
  const gravity = (condition: ConditionView): number =>
    (condition.advisory ? 2 : 0) + (condition.status === "False" ? 0 : 1);
  return shown.sort((a, b) => gravity(a) - gravity(b));
}

const SHOWN = 3;

export function Conditions({ view, warnings, now }: { view: View; warnings: readonly string[]; now: number }) {
  const found = amiss(view);
  const problems = [...view.problems, ...warnings];
  if (!found.length && !problems.length) return null;
  const rows = [
    ...found.map((condition) => <Condition key={condition.type} condition={condition} now={now} />),
    ...problems.map((problem) => (
      <li key={problem} class="mild">
        <span class="sign" aria-hidden="true">
          ▲
        </span>
        <span class="message">{problem}</span>
      </li>
    )),
  ];
  const rest = rows.slice(SHOWN);
  return (
    <section class="conditions" aria-label="What does not hold">
      <ul>{rows.slice(0, SHOWN)}</ul>
      {rest.length > 0 && (
        <details>
          <summary>{rest.length} more</summary>
          <ul>{rest}</ul>
        </details>
      )}
    </section>
  );
}

function Condition({ condition, now }: { condition: ConditionView; now: number }) {
  const seconds = since(condition.since, now);
  return (
    <li class={condition.advisory || condition.status === "Unknown" ? "mild" : "grave"}>
      <span class="sign" aria-hidden="true">
        ▲
      </span>
      <strong title={`${condition.type}=${condition.status}`}>{condition.reason || condition.type}</strong>
      <span class="message">{condition.message}</span>
      {seconds !== null && (
        <time class="age" dateTime={condition.since} title={condition.since}>
          for {lasting(seconds)}
        </time>
      )}
    </li>
  );
}
