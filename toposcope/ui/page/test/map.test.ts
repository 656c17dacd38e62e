import assert from "node:assert/strict";
import { test } from "node:test";
import { hit, type Layout, layoutOf, penRoom } from "../src/map/layout.ts";
import { cut, route } from "../src/map/text.ts";
import { type Box, columnsFor, grid, tile } from "../src/map/tiles.ts";
import { domainAt } from "../src/model/domains.ts";
import { forest, type Made } from "./fixtures.ts";

const FRAME = { x: 0, y: 0, w: 900, h: 600 };

function within(inner: Box, outer: Box): boolean {
  const slack = 0.01;
  return (
    inner.x >= outer.x - slack &&
    inner.y >= outer.y - slack &&
    inner.x + inner.w <= outer.x + outer.w + slack &&
    inner.y + inner.h <= outer.y + outer.h + slack
  );
}

function overlap(a: Box, b: Box): boolean {
  const slack = 0.01;
  return a.x + a.w > b.x + slack && b.x + b.w > a.x + slack && a.y + a.h > b.y + slack && b.y + b.h > a.y + slack;
}

function nodeBoxes(layout: Layout): Box[] {
  return [...layout.nodes].map((_, at) => {
    const [x = 0, y = 0, w = 0, h = 0] = layout.boxes.subarray(at * 4, at * 4 + 4);
    return { x, y, w, h };
  });
}

function racks(count: number, size: number, gpus: (rack: number) => number = () => 8): Made[] {
  return Array.from({ length: count * size }, (_, at) => {
    const rack = Math.floor(at / size);
    return { name: `n${at}`, block: `b${Math.floor(rack / 12)}`, rack: `r${rack}`, gpus: gpus(rack) };
  });
}

test("boxes lie in the frame, do not overlap, and are as large as their sizes", () => {
  const sizes = [72, 16, 32, 32, 8, 64];
  const boxes = tile(sizes, FRAME, 0);

  assert.ok(boxes.every((box) => within(box, FRAME)));
  boxes.forEach((a, i) => {
    for (const b of boxes.slice(i + 1)) assert.ok(!overlap(a, b));
  });
  const per = (FRAME.w * FRAME.h) / sizes.reduce((a, b) => a + b);
  boxes.forEach((box, at) => {
    assert.ok(Math.abs(box.w * box.h - per * (sizes[at] ?? 0)) < 1);
  });
});

test("equal sizes make a grid of equal cells", () => {
  const boxes = grid(18, { x: 0, y: 0, w: 500, h: 480 }, 4);

  assert.equal(new Set(boxes.map((box) => `${box.w} ${box.h}`)).size, 1);
  assert.equal(columnsFor(18, { x: 0, y: 0, w: 500, h: 480 }, 1.5), 3);
});

for (const count of [1, 7, 100, 15_000]) {
  test(`a grid of ${count} leaves less than a third of its cells empty`, () => {
    const columns = columnsFor(count, FRAME, 1.5);

    assert.ok(columns >= 1);
    assert.ok(columns * Math.ceil(count / columns) <= Math.max(count * 1.34, count + 1));
  });
}

test("a rack of one node has room for its name beside large ones, on a telephone too", () => {
  const racked = Array.from({ length: 19 }, (_, at) => ({ name: `n${at}`, block: "b0", rack: at < 18 ? "r0" : "r1" }));
  const { table, forest: tree } = forest([...racked, { name: "alone", block: "b1", rack: "r2" }]);
  const layout = layoutOf(table, tree, tree.root, 366, 588);
  for (const box of layout.domains) {
    assert.ok(box.head > 0, `${box.domain.value} has no name`);
    assert.ok(box.w >= 60 && box.h >= 60, `${box.domain.value} is a sliver of ${box.w} by ${box.h}`);
  }
});

test("nodes are drawn once each, inside the domains that they are in", () => {
  const { table, forest: tree } = forest(racks(24, 8));
  const layout = layoutOf(table, tree, tree.root, 900, 600);

  assert.deepEqual(
    [...layout.nodes].sort((a, b) => a - b),
    [...tree.order].sort((a, b) => a - b),
  );
  const boxes = nodeBoxes(layout);
  boxes.forEach((box, at) => {
    const home = tree.home[layout.nodes[at] ?? 0];
    const frame = layout.domains.find((item) => item.domain === home);
    assert.ok(frame && within(box, frame));
  });
});

test("the area of a domain follows its GPUs", () => {
  const { table, forest: tree } = forest(racks(2, 8, (rack) => (rack ? 4 : 8)));
  const layout = layoutOf(table, tree, tree.root, 900, 600);

  const [large, small] = ["r0", "r1"].map((rack) => layout.domains.find((box) => box.domain.value === rack));
  assert.ok(large && small);
  const ratio = (large.w * large.h) / (small.w * small.h);
  assert.ok(ratio > 1.8 && ratio < 2.2, String(ratio));
});

test("domains with nothing else in them share one box", () => {
  const { table, forest: tree } = forest([
    { name: "a", block: "b1", rack: "r1" },
    { name: "b", block: "b2", rack: "r2" },
  ]);
  const layout = layoutOf(table, tree, tree.root, 900, 600);

  assert.deepEqual(
    layout.domains.map((box) => box.chain.map((domain) => domain.value)),
    [
      ["b1", "r1"],
      ["b2", "r2"],
    ],
  );
});

test("100,000 nodes are drawn as domains until one goes in", () => {
  const { table, forest: tree } = forest(racks(6250, 16));
  const layout = layoutOf(table, tree, tree.root, 900, 600);

  assert.equal(layout.nodes.length, 0);
  assert.ok(layout.domains.length < 7000);
  assert.ok(layout.domains.some((box) => box.whole));
  const near = layoutOf(table, tree, domainAt(tree, ["b3"]).domain, 900, 600);
  assert.equal(near.nodes.length, 192);
});

test("who stands apart is drawn below everything else, and only in the whole", () => {
  const { table, forest: tree } = forest([...racks(2, 4), { name: "x", rack: null }]);
  const layout = layoutOf(table, tree, tree.root, 900, 600);

  assert.equal(layout.pens.length, 1);
  const pen = layout.pens[0];
  const boxes = nodeBoxes(layout);
  assert.ok(pen && boxes.slice(layout.apart).every((box) => within(box, pen)));
  assert.ok(boxes.slice(0, layout.apart).every((box) => !overlap(box, pen as Box)));
  assert.deepEqual(layoutOf(table, tree, domainAt(tree, ["b0"]).domain, 900, 600).pens, []);
});

test("who stands apart has room for names on a narrow screen too", () => {
  const reasons = ["x", "y", "z"].map((apart) => ({ name: apart, views: [], apart }));
  const { table, forest: tree } = forest([...racks(2, 400), ...reasons]);
  const layout = layoutOf(table, tree, tree.root, 360, 570 + penRoom(3, 360));

  assert.equal(layout.pens.length, 3);
  for (const box of nodeBoxes(layout).slice(layout.apart)) assert.ok(box.h >= 40 && box.w >= 80);
});

test("a domain that is too narrow for its name has it along its side", () => {
  const sizes = [56, 56, 80, 8, 48, 24, 24, 64, 128, 8, 24];
  const { table, forest: tree } = forest(sizes.map((gpus, at) => ({ name: `n${at}`, block: `b${at}`, gpus })));
  // There is no room for all names side by side.
  const layout = layoutOf(table, tree, tree.root, 395, 219);

  const narrow = layout.domains.filter((box) => box.w < 60 && box.h >= 100);
  assert.ok(narrow.length > 0, "the case is about narrow boxes");
  for (const box of narrow) assert.deepEqual([box.head > 0, box.upright], [true, true]);
});

test("a point is the node there, else the narrowest domain, else nothing", () => {
  const { table, forest: tree } = forest(racks(4, 4));
  const layout = layoutOf(table, tree, tree.root, 900, 600);
  const box = nodeBoxes(layout)[3] as Box;
  const rack = layout.domains.find((item) => item.domain.value === "r2");

  assert.deepEqual(hit(layout, box.x + 1, box.y + 1), { kind: "node", node: layout.nodes[3], at: 3 });
  assert.ok(rack);
  const over = hit(layout, rack.x + 20, rack.y + 2);
  assert.equal(over?.kind === "domain" ? over.box.domain.value : null, "r2");
  assert.equal(hit(layout, -5, -5), null);
});

test("an empty view is an empty map", () => {
  const { table, forest: tree } = forest([]);

  assert.equal(layoutOf(table, tree, tree.root, 900, 600).nodes.length, 0);
});

test("texts keep their ends", () => {
  const measure = (text: string): number => Array.from(text).length;

  assert.equal(cut("rack-1", 10, measure), "rack-1");
  assert.equal(cut("0123456789", 8, measure), "01…56789");
  assert.equal(cut("0123456789", 2, measure), "");
  assert.equal(cut("👩‍🚀👩‍🚀👩‍🚀👩‍🚀", 5, measure).length > 0, true);
  assert.equal(route(["a", "55c2d310-698c-4ab6-864f-82cfbd9dfc5a.32766"]), "a › 55c2d310-698….32766");
});
