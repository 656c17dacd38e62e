// Banners: stale data, and conditions of the ClusterTopology that are not True.
import { many } from "../map/text.ts";
import { failingConditions } from "../model/cluster.ts";
import type { ConditionView, Status, View } from "../protocol.ts";
import { clock, lasting, since } from "../time.ts";
import { useMedia } from "./media.ts";

interface StaleProps {
  status: Status;
  /** When the status was received. */
  receivedAt: number;
  silent: boolean;
  heardAt: number;
  now: number;
}

export function Staleness({ status, receivedAt, silent, heardAt, now }: StaleProps) {
  const { stale } = status;
  if (!stale && !silent) return null;
  const seconds = stale ? stale.seconds + Math.max(0, (now - receivedAt) / 1000) : (now - heardAt) / 1000;
  return (
    <div class="banner stale" role="alert">
      <span class="sign" aria-hidden="true">
        ◷
      </span>
      <div>
        <strong>{silent ? `No update from the server since ${clock(heardAt)}` : "Stale"}</strong>
        <span class="age">the data shown is {lasting(seconds)} old</span>
        {stale?.why.map((why) => (
          <p key={why}>{why}</p>
        ))}
        {silent && <p>The page keeps retrying. Check that `toposcope ui` is running and reachable.</p>}
      </div>
    </div>
  );
}

const MAX_ROWS = 3;

export function Conditions({ view, warnings, now }: { view: View; warnings: readonly string[]; now: number }) {
  const narrow = useMedia("(max-width: 620px)");
  const failing = failingConditions(view);
  const problems = [...view.problems, ...warnings];
  if (!failing.length && !problems.length) return null;
  const rows = [
    ...failing.map((condition) => <Condition key={condition.type} condition={condition} now={now} />),
    ...problems.map((problem) => (
      <li key={problem} class="mild">
        <span class="sign" aria-hidden="true">
          ▲
        </span>
        <span class="message">{problem}</span>
      </li>
    )),
  ];
  const rest = rows.slice(MAX_ROWS);
  if (narrow) {
    const names = failing.map((condition) => `${condition.type}=${condition.status}`);
    if (problems.length) names.push(many(problems.length, "warning"));
    return (
      <section class="conditions" aria-label="Conditions that are not True">
        <details>
          <summary class={failing.some(isGrave) ? "grave" : "mild"}>
            <span class="sign" aria-hidden="true">
              ▲
            </span>{" "}
            <strong>{names.join(", ")}</strong>
          </summary>
          <ul>{rows}</ul>
        </details>
      </section>
    );
  }
  return (
    <section class="conditions" aria-label="Conditions that are not True">
      <ul>{rows.slice(0, MAX_ROWS)}</ul>
      {rest.length > 0 && (
        <details>
          <summary>{rest.length} more</summary>
          <ul>{rest}</ul>
        </details>
      )}
    </section>
  );
}

function isGrave(condition: ConditionView): boolean {
  return !condition.advisory && condition.status !== "Unknown";
}

function Condition({ condition, now }: { condition: ConditionView; now: number }) {
  const seconds = since(condition.since, now);
  return (
    <li class={isGrave(condition) ? "grave" : "mild"}>
      <span class="sign" aria-hidden="true">
        ▲
      </span>
      <strong>
        {condition.type}={condition.status}
      </strong>
      {condition.reason && <span class="reason">{condition.reason}</span>}
      <span class="message">{condition.message}</span>
      {seconds !== null && (
        <time class="age" dateTime={condition.since} title={condition.since}>
          for {lasting(seconds)}
        </time>
      )}
    </li>
  );
}
