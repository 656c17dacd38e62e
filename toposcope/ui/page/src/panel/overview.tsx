// The open domain in numbers: capacity, free GPUs, problems, levels.
import { Fragment } from "preact";
import { figure, many, route } from "../map/text.ts";
import { Swatch } from "../map/tip.tsx";
import { contains, type Domain, type Forest, pathOf } from "../model/domains.ts";
import { HEALTH, healthAt, isTrouble } from "../model/lens.ts";
import type { Table } from "../model/table.ts";
import type { View } from "../protocol.ts";

interface Props {
  table: Table;
  forest: Forest;
  focus: Domain;
  otherNodes: number;
  open(node: number): void;
}

const MAX_LISTED = 12;

export function Overview({ table, forest, focus, otherNodes, open }: Props) {
  const ailing = inTrouble(table, forest, focus);
  // Of the whole view what its ClusterTopology counts, as status and commands do: nodes that lack a level included.
  const { nodes, gpus, leftOut, leftOutGpus, withoutAgent } = focus.parent
    ? { nodes: focus.count, gpus: focus.gpus, ...lost(table, standingApart(forest, focus)), withoutAgent: 0 }
    : forest.view;
  return (
    <>
      <dl class="figures">
        <Figure value={gpus} name="GPUs" />
        <Figure value={focus.free} name="free" />
        {focus.blocked > 0 && <Figure value={focus.blocked} name="of them out of reach" alarm />}
        <Figure value={nodes} name={nodes === 1 ? "node" : "nodes"} />
        {leftOut > 0 && <Figure value={leftOut} name={`left out, with ${many(leftOutGpus, "GPU")}`} alarm />}
        {withoutAgent > 0 && <Figure value={withoutAgent} name="without an agent" alarm />}
        <Figure value={ailing.length} name="with problems" alarm={ailing.length > 0} />
      </dl>
      <section>
        <h3>Nodes with problems</h3>
        {!ailing.length && <p class="healthy">✓ No nodes with problems.</p>}
        <ul class="ailing">
          {ailing.slice(0, MAX_LISTED).map((node) => (
            <Ailing key={table.names[node]} node={node} table={table} forest={forest} open={open} />
          ))}
        </ul>
        {ailing.length > MAX_LISTED && (
          <p class="soft">and {figure(ailing.length - MAX_LISTED)} more, marked on the map</p>
        )}
      </section>
      {!focus.parent && <Apart forest={forest} />}
      <Levels view={forest.view} />
      {otherNodes > 0 && (
        <p class="soft">
          {figure(otherNodes)} {otherNodes === 1 ? "node" : "nodes"} without GPUs {otherNodes === 1 ? "is" : "are"} not
          shown.
        </p>
      )}
    </>
  );
}

/** Nodes of a domain that have problems, the worst first; in the whole view also those that stand apart. */
export function inTrouble(table: Table, forest: Forest, focus: Domain): number[] {
  const troubled: { node: number; severity: number }[] = [];
  const look = (node: number): void => {
    const severity = healthAt(table, forest, node);
    if (isTrouble(severity)) troubled.push({ node, severity });
  };
  for (let at = focus.start; at < focus.end; at++) look(forest.order[at] ?? 0);
  for (const node of standingApart(forest, focus)) look(node);
  return troubled.sort((a, b) => a.severity - b.severity).map(({ node }) => node);
}

/** Nodes that stand apart: all of them in the whole view, in a domain those that have it and lack a narrower one. */
function standingApart(forest: Forest, focus: Domain): number[] {
  const all = forest.pens.flatMap((pen) => pen.nodes);
  return focus.parent ? all.filter((node) => contains(focus, forest.home[node])) : all;
}

function lost(table: Table, nodes: readonly number[]): { leftOut: number; leftOutGpus: number } {
  return { leftOut: nodes.length, leftOutGpus: nodes.reduce((sum, node) => sum + (table.gpus[node] ?? 0), 0) };
}

function Figure({ value, name, alarm = false }: { value: number | null; name: string; alarm?: boolean }) {
  return (
    <div class={alarm ? "alarm" : ""}>
      <dt>{name}</dt>
      <dd>{value === null ? "?" : shortened(value)}</dd>
    </div>
  );
}

function Ailing({
  node,
  table,
  forest,
  open,
}: {
  node: number;
  table: Table;
  forest: Forest;
  open(node: number): void;
}) {
  const category = HEALTH[healthAt(table, forest, node)];
  const home = forest.home[node];
  const reasons = table.reasons.get(node) ?? [];
  const why = reasons[0] ?? forest.why.get(node) ?? category?.hint;
  return (
    <li>
      <button type="button" onClick={() => open(node)}>
        <Swatch tone={category?.tone ?? "odd"} />
        <span class="name">{table.names[node]}</span>
        <span class="what">{category?.label}</span>
        {home?.parent && <span class="where">{route(pathOf(home))}</span>}
        <span class="why">
          {why}
          {reasons.length > 1 && ` (and ${reasons.length - 1} more)`}
        </span>
      </button>
    </li>
  );
}

function Apart({ forest }: { forest: Forest }) {
  if (!forest.pens.length) return null;
  return (
    <section>
      <h3>Skipped by schedulers</h3>
      <ul class="apart">
        {forest.pens.map((pen) => (
          <li key={pen.reason}>
            <strong>{many(pen.nodes.length, "node")}</strong> {pen.reason}
          </li>
        ))}
      </ul>
    </section>
  );
}

function Levels({ view }: { view: View }) {
  if (!view.levels.length) return null;
  return (
    <section>
      <h3>Levels</h3>
      <table class="levels">
        <thead>
          <tr>
            <th scope="col">Level</th>
            <th scope="col">Domains</th>
            <th scope="col">Nodes</th>
          </tr>
        </thead>
        <tbody>
          {view.levels.map((level) => (
            <Fragment key={`${level.domain} ${level.key}`}>
              <tr>
                <th scope="row" title={level.key}>
                  {level.domain}
                  {level.required && <small> required</small>}
                </th>
                <td>{figure(level.domains)}</td>
                <td>
                  {figure(level.nodes)}
                  {level.missing > 0 && <span class="lack"> −{figure(level.missing)}</span>}
                </td>
              </tr>
              {level.problem && (
                <tr class="why">
                  <td colSpan={3}>{level.problem}</td>
                </tr>
              )}
            </Fragment>
          ))}
        </tbody>
      </table>
    </section>
  );
}

/** Four figures side by side have room for five digits each. */
function shortened(value: number): string {
  return value < 100_000 ? figure(value) : `${figure(Math.round(value / 1000))}k`;
}
