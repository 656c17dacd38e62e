import assert from "node:assert/strict";
import { test } from "node:test";
import { read, START, written } from "../src/address.ts";
import { luminance } from "../src/map/theme.ts";
import { planOf } from "../src/node/plan.ts";
import { bestLinks, isWeak, named } from "../src/node/weak.ts";
import type { Device, NodeDetail } from "../src/protocol.ts";
import { gpusIn, lookUp, matching } from "../src/search.ts";
import { ago, lasting, since } from "../src/time.ts";
import { forest } from "./fixtures.ts";

test("an address says what is shown, and is read back the same", () => {
  for (const place of [
    START,
    { ...START, view: "cluster/part", path: ["zone 1", "a/b", "50%", "#&=?"], node: "gpu-1" },
    { ...START, lens: "shape" as const, only: "c36b93f002" },
  ]) {
    assert.deepEqual(read(written(place)), place);
  }
  assert.equal(written({ ...START, path: ["zone-1", "block-1"] }), "#in=zone-1/block-1");
});

test("an address that somebody has spoiled still opens", () => {
  assert.deepEqual(read("#by=nonsense&in=%E0%A4%A&node="), { ...START, path: ["\uFFFD%A"] });
  assert.deepEqual(read("#"), START);
});

test("a search finds domains and nodes, exact names first, then those that begin so", () => {
  const { table, forest: tree } = forest([
    { name: "gpu-1", rack: "rack-10" },
    { name: "gpu-10", rack: "rack-1" },
    { name: "xgpu-1", rack: "rack-1" },
  ]);

  assert.deepEqual(
    lookUp("GPU-1", table, tree).map((item) => item.text),
    ["gpu-1", "gpu-10", "xgpu-1"],
  );
  assert.deepEqual(
    lookUp("rack-1", table, tree).map((item) => item.path),
    [
      ["b1", "rack-1"],
      ["b1", "rack-10"],
    ],
  );
  assert.deepEqual(lookUp("  ", table, tree), []);
  assert.deepEqual(lookUp("(", table, tree), []);
});

test("what matches while somebody types keeps its colour: nodes by name or by any domain", () => {
  const { table, forest: tree } = forest([
    { name: "a", rack: "r1" },
    { name: "b", rack: "r2" },
  ]);

  assert.deepEqual([...(matching("r2", table, tree) ?? [])], [0, 1]);
  assert.equal(matching("nothing", table, tree), null);
});

test("an exported file finds the GPUs that it carries", () => {
  const gpu: Device = {
    label: "GPU0",
    kind: "gpu",
    name: "GPU-abc",
    pci: "",
    numa: 0,
    rails: [],
    nics: [],
    neighbour: "",
  };
  const nodes = { n1: { devices: [gpu] } as unknown as NodeDetail };

  assert.deepEqual(
    gpusIn("gpu-AB", nodes).map((item) => item.node),
    ["n1"],
  );
  assert.deepEqual(gpusIn("zz", nodes), []);
});

test("the devices that reasons name are found, and no others", () => {
  const devices = [{ label: "NIC1", name: "mlx5_1" } as Device, { label: "NIC10", name: "mlx5_10" } as Device];
  const reasons = ["GPU 3: 17 of 18 NVLinks active", "mlx5_10 is missing"];

  assert.deepEqual([...named({ reasons, devices })].sort(), ["GPU3", "NIC10"]);
});

test("a pair of GPUs behind NVSwitches is weak when it has fewer links than the best", () => {
  const best = bestLinks([
    ["X", "NV18", "NV17"],
    ["NV18", "X", "SYS"],
  ]);

  assert.equal(best, 18);
  assert.ok(isWeak("NV17", best, true, true));
  assert.ok(isWeak("SYS", best, true, true));
  assert.ok(!isWeak("NV18", best, true, true));
  assert.ok(!isWeak("X", best, true, true));
  assert.ok(!isWeak("NV1", best, false, true));
  assert.ok(!isWeak("SYS", best, true, false));
});

test("times are told in words that fit their size", () => {
  assert.deepEqual([3, 75, 600, 7200, 400_000].map(ago), ["now", "75 s ago", "10 min ago", "2 h ago", "5 days ago"]);
  assert.equal(lasting(200), "3 min");
  assert.equal(since("2026-01-01T00:00:00Z", Date.parse("2026-01-01T00:01:00Z")), 60);
  assert.equal(since("nonsense", 0), null);
});

test("luminance is that of WCAG", () => {
  assert.equal(luminance("#ffffff"), 1);
  assert.equal(luminance("#000000"), 0);
  assert.ok(Math.abs(luminance("#808080") - 0.2159) < 0.001);
});

test("a rail is drawn to its NIC, with the path of the NIC's Data Direct function", () => {
  const device = (label: string, kind: Device["kind"], more: Partial<Device> = {}): Device => ({
    ...{ label, kind, name: "", pci: "", numa: 0, rails: [], nics: [], neighbour: "" },
    ...more,
  });
  const devices = [
    device("GPU0", "gpu", { rails: ["NIC0"] }),
    device("NIC0", "nic"),
    device("DD0", "dd", { nics: ["NIC0"] }),
    device("DD1", "dd"),
  ];
  const matrix = [
    ["X", "NODE", "PXB", "PIX"],
    ["NODE", "X", "NODE", "NODE"],
    ["PXB", "NODE", "X", "NODE"],
    ["PIX", "NODE", "NODE", "X"],
  ];
  const node = { devices, matrix, numa: [], hardware: {}, reasons: [], nvswitches: null } as unknown as NodeDetail;
  const plan = planOf(node);

  assert.deepEqual(
    plan.rails.map((rail) => [rail.from.device.label, rail.to.device.label, rail.word]),
    [["GPU0", "NIC0", "PXB"]],
  );
  assert.deepEqual(
    plan.parts.map((part) => part.device.label),
    ["GPU0", "NIC0"],
  );
});
