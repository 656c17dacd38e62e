import assert from "node:assert/strict";
import { test } from "node:test";
import { missing } from "../src/missing.ts";
import { clusterOf, failingConditions, viewOf } from "../src/model/cluster.ts";
import { domainAt, outOfReach, pathOf } from "../src/model/domains.ts";
import { byHealth, lensOf, tally } from "../src/model/lens.ts";
import { changedNames, tableOf, word } from "../src/model/table.ts";
import type { ConditionView, View } from "../src/protocol.ts";
import { forest, level, type Made, snapshot, view } from "./fixtures.ts";

test("a domain is its path: equal names under two parents are two domains", () => {
  const made = forest([
    { name: "a", block: "b1", rack: "r1" },
    { name: "b", block: "b2", rack: "r1" },
  ]);

  assert.deepEqual(made.forest.all.map(pathOf), [[], ["b1"], ["b1", "r1"], ["b2"], ["b2", "r1"]]);
  assert.equal(made.forest.root.gpus, 16);
  assert.equal(domainAt(made.forest, ["b2", "r1"]).domain.gpus, 8);
});

test("each domain is one stretch of the order in which nodes are drawn, by natural order of names", () => {
  const { forest: tree, table } = forest([
    { name: "c", rack: "r10" },
    { name: "a", rack: "r9" },
    { name: "b", rack: "r9" },
  ]);

  assert.deepEqual(
    [...tree.order].map((node) => table.names[node]),
    ["a", "b", "c"],
  );
  const rack = domainAt(tree, ["b1", "r9"]).domain;
  assert.deepEqual([rack.start, rack.end, rack.gpus], [0, 2, 16]);
});

test("a node that lacks a level, or is in no view, stands apart with its reason; one of another view does not", () => {
  const { forest: tree } = forest([
    { name: "a" },
    { name: "b", rack: null },
    { name: "c", views: [], apart: "without an agent" },
    { name: "d", views: ["other"] },
    { name: "e", rack: "no-topology" },
  ]);

  assert.deepEqual(tree.pens, [
    { reason: "without a rack label (label/rack)", nodes: [1] },
    { reason: "without an agent", nodes: [2] },
    { reason: 'whose rack label (label/rack) is the placeholder "no-topology"', nodes: [4] },
  ]);
  assert.deepEqual([...tree.order], [0]);
  assert.deepEqual(pathOf(tree.home[1] ?? tree.root), ["b1"]);
});

test("a level that is not in the topology nests nothing and leaves nobody out", () => {
  const levels = [level("block"), level("rack", false), level("host")];
  const { forest: tree } = forest([{ name: "a", rack: null }, { name: "b" }], view("cluster", levels));

  assert.deepEqual(tree.all.map(pathOf), [[], ["b1"]]);
  assert.deepEqual(tree.pens, []);
});

test("an old link leads to the last domain of its path that is still there", () => {
  const { forest: tree } = forest([{ name: "a" }]);

  const { domain, whole } = domainAt(tree, ["b1", "gone"]);

  assert.deepEqual([pathOf(domain), whole], [["b1"], false]);
});

const plain: Made = { name: "a", free: 4, marks: ["degraded"], facts: { shape: "s1" }, rack: "r1" };
const changes: readonly (readonly [string, Partial<Made>])[] = [
  ["nothing", {}],
  ["its GPUs", { gpus: 4 }],
  ["what is free", { free: 3 }],
  ["its marks", { marks: [] }],
  ["why it stands apart", { apart: "without an agent" }],
  ["a fact", { facts: { shape: "s2" } }],
  ["a fact that is gone", { facts: {} }],
  ["its rack", { rack: "r2" }],
  ["its name, as another", { name: "b" }],
];
for (const [what, change] of changes) {
  test(`a node is marked where it has changed: ${what}`, () => {
    // Another node in front: neither positions nor codes are what is compared.
    const now = [
      { name: "0", rack: "r0", marks: ["cordoned"], facts: { shape: "s0" } },
      { ...plain, ...change },
    ];

    const found = changedNames(tableOf(snapshot([plain]).nodes), tableOf(snapshot(now).nodes));

    assert.deepEqual([...found], what === "nothing" ? ["0"] : ["0", change.name ?? "a"]);
  });
}

test("a column that only one snapshot has marks no node, nor does what is free where it is unknown", () => {
  const { nodes } = snapshot([plain]);
  const others = { "label/new": { values: ["n1"], codes: [0] }, "kubernetes.io/hostname": { values: [], codes: [-2] } };
  const reasons = { 0: ["1 of 18 NVLinks is down"] };

  assert.deepEqual([...changedNames(tableOf(nodes), tableOf({ ...nodes, free: null, labels: others }))], []);
  assert.deepEqual([...changedNames(tableOf(nodes), tableOf({ ...nodes, reasons }))], ["a"]);
});

test("labels called like parts of every object are labels", () => {
  const { names, labels } = tableOf({
    ...snapshot([{ name: "a" }]).nodes,
    labels: { constructor: { values: ["x"], codes: [0] } },
  });

  assert.equal(word(labels.get("constructor"), names, 0), "x");
  assert.equal(word(labels.get("toString"), names, 0), undefined);
});

test("without an id the view is the one called cluster, else the first that is no segment", () => {
  const segment = { ...view("part"), parent: "x" };

  assert.equal(viewOf(clusterOf(snapshot([], [segment, view("x"), view("cluster")])), null)?.id, "cluster");
  assert.equal(viewOf(clusterOf(snapshot([], [segment, view("x")])), null)?.id, "x");
  assert.equal(viewOf(clusterOf(snapshot([], [segment, view("x")])), "part")?.id, "part");
  assert.equal(viewOf(clusterOf(snapshot([], [])), null), undefined);
});

test("a node is coloured by its worst mark, and domains count what is in them", () => {
  const { table, forest: tree } = forest([
    { name: "a", marks: ["not-ready", "degraded"] },
    { name: "b", rack: "r2", marks: ["cordoned"] },
    { name: "c", rack: "r2" },
    { name: "d", rack: null },
    { name: "e", rack: null, marks: ["degraded"] },
  ]);
  const lens = byHealth(table, tree);

  assert.deepEqual(
    [...lens.of].map((at) => lens.categories[at]?.key),
    ["not-ready", "cordoned", "ok", "left-out", "degraded"],
  );
  const width = lens.categories.length;
  assert.deepEqual([...tally(lens, tree).subarray(0, width)], [1, 1, 0, 0, 0, 1, 0, 0]);
  const rack = domainAt(tree, ["b1", "r2"]).domain.id * width;
  assert.deepEqual([...tally(lens, tree).subarray(rack, rack + width)], [1, 0, 0, 0, 0, 1, 0, 0]);
  assert.deepEqual([...tally(lens, tree, Uint8Array.of(0, 0, 1)).subarray(0, width)], [1, 0, 0, 0, 0, 0, 0, 0]);
});

test("a domain counts nodes that lack a narrower level, as commands do, and what is out of reach", () => {
  const { table, forest: tree } = forest([
    { name: "n0", rack: "r0" },
    { name: "n1", rack: "r0", free: 6, blocked: 4 },
    { name: "lacking", rack: null },
  ]);
  const block = domainAt(tree, ["b1"]).domain;
  const { drawn, count, gpus, free, blocked } = block;
  assert.deepEqual({ drawn, count, gpus, free, blocked }, { drawn: 16, count: 3, gpus: 24, free: 22, blocked: 12 });
  assert.deepEqual(outOfReach(table, tree, 1), { gpus: 4, why: "too little CPU is left" });
  assert.equal(outOfReach(table, tree, 2).gpus, 8);
});

test("free GPUs out of reach have a colour of their own", () => {
  const { table, forest: tree } = forest([
    { name: "all", free: 8, blocked: 8 },
    { name: "most", free: 8, blocked: 6 },
    { name: "none", free: 0 },
  ]);
  const lens = lensOf("free", table, tree);
  assert.deepEqual(
    [...lens.of].map((at) => lens.categories[at]?.key),
    ["blocked", "some", "none"],
  );
});

test("free GPUs are told in four steps", () => {
  const { table, forest: tree } = forest([0, 3, 4, 8].map((free) => ({ name: `n${free}`, free })));
  const lens = lensOf("free", table, tree);

  assert.deepEqual(
    [...lens.of].map((at) => lens.categories[at]?.key),
    ["none", "some", "half", "all"],
  );
});

test("a shape that differs from most of its product stands out", () => {
  const h200 = { product: "H200", shape: "usual" };
  const { table, forest: tree } = forest([
    { name: "a", facts: h200 },
    { name: "b", facts: h200 },
    { name: "c", facts: { product: "H200", shape: "other" } },
    { name: "d", facts: { product: "L40S", shape: "alone" } },
  ]);
  const lens = lensOf("shape", table, tree);

  const strange = lens.categories.filter((category) => category.rare).map((category) => category.key);
  assert.deepEqual(strange, ["other"]);
  assert.deepEqual(
    [...lens.of].map((at) => lens.categories[at]?.key),
    ["usual", "usual", "other", "alone"],
  );
});

test("coverage names what is lacking", () => {
  const { table, forest: tree } = forest([{ name: "a" }, { name: "b", rack: null }, { name: "c", views: ["other"] }]);
  const lens = lensOf("coverage", table, tree);

  assert.deepEqual(
    [...lens.of].map((at) => lens.categories[at]?.label),
    ["has every level", "without a rack label (label/rack)", "in another topology"],
  );
});

test("more products than colours share the last one", () => {
  const { table, forest: tree } = forest(
    Array.from({ length: 12 }, (_, at) => ({ name: `n${at}`, facts: { product: `p${at}` } })),
  );
  const lens = lensOf("product", table, tree);

  assert.equal(lens.categories.length, 9);
  assert.equal([...lens.of].filter((at) => at === 8).length, 4);
});

test("conditions that are not True come worst first, and Ready only where it is the whole story", () => {
  const condition = (type: string, status: ConditionView["status"], advisory = false): ConditionView => {
    return { type, status, reason: "R", message: "", since: "", advisory };
  };
  const types = (...conditions: ConditionView[]): string[] =>
    failingConditions({ ...view("cluster"), conditions }).map((failing) => failing.type);

  const fabric = condition("FabricHealthy", "False", true);
  const ready = condition("Ready", "False");
  assert.deepEqual(types(condition("LevelsCovered", "True"), condition("Ready", "True")), []);
  assert.deepEqual(
    types(fabric, condition("AgentsReporting", "Unknown"), condition("TopologyLevelsAvailable", "False"), ready),
    ["TopologyLevelsAvailable", "AgentsReporting", "FabricHealthy"],
  );
  assert.deepEqual(types(fabric, ready), ["Ready", "FabricHealthy"]);
});

const agentless = { marks: ["no-agent"], views: [], apart: "without an agent" };
const inferred: View = { ...view(""), kind: "inferred" };
for (const [what, nodes, shown, others, source, command] of [
  ["The files contain no nodes", [], view("cluster"), 0, "files", "kubectl get nodes,pods"],
  ["The cluster has no nodes", [], view("cluster"), 0, "cluster", "kubectl get nodes"],
  ["None of the 2 nodes reports a GPU", [], view("cluster"), 2, "cluster", "allocatable"],
  ["No agent has labelled the node", [{ name: "a", ...agentless }], view("cluster"), 0, "cluster", "get daemonset"],
  ["There is no ClusterTopology", [{ name: "a", views: [""] }], inferred, 0, "cluster", "kubectl get crd"],
  ["selects none of the 1 node ", [{ name: "a", views: [] }], view("c"), 0, "cluster", "kubectl get clustertopology c"],
] as const satisfies readonly (readonly [string, readonly Made[], View, number, "files" | "cluster", string])[]) {
  test(`what is missing is said first: ${what}`, () => {
    const made = { ...snapshot([...nodes], [shown]), otherNodes: others, source };
    const found = missing(clusterOf(made), shown);

    assert.ok(found?.what.includes(what));
    assert.ok(found?.steps.some(([, step]) => step.includes(command)));
  });
}

test("nothing is missing where a ClusterTopology has nodes", () => {
  const shown = { ...view("cluster"), nodes: 1 };

  assert.equal(missing(clusterOf(snapshot([{ name: "a" }], [shown])), shown), null);
});
