// Devices from slices, claims, rules, patches and incidents.

import assert from "node:assert/strict";
import { test } from "node:test";
import { Fleet, STATES, isInForce, parseFilter } from "../../ui/fleet.js";
import { claim, incident, key, meta, random, rule, slice } from "./support.js";

const GPU = { driver: "gpu.example.com", pool: "node-1", device: "gpu-0" };

/** A fleet of these objects: `[kind, object]` each. */
function fleetOf(...objects) {
  const fleet = new Fleet();
  for (const [kind, object] of objects) fleet.set(kind, object);
  fleet.settle();
  return fleet;
}
const stateOf = (fleet, device = "gpu-0") => fleet.devices.get(key("node-1", device))?.state;

const PUBLISHED = ["slices", slice("s", "node-1", ["gpu-0", "gpu-1"])];
const HELD = ["claims", claim("c", "node-1", "gpu-0", ["p"])];

for (const [state, ...objects] of [
  ["free", PUBLISHED],
  ["inuse", PUBLISHED, HELD],
  ["gone", HELD],
  [undefined, ["slices", slice("s", "node-1", [])]],
  ["suspect", PUBLISHED, ["rules", rule("r", "None", GPU)]],
  ["noschedule", PUBLISHED, HELD, ["rules", rule("r", "NoSchedule", GPU)]],
  ["noschedule", PUBLISHED, ["rules", rule("r", "NoExecute", GPU)]],
  ["draining", PUBLISHED, HELD, ["rules", rule("r", "NoExecute", GPU)]],
  ["draining", PUBLISHED, HELD, ["rules", rule("weak", "NoSchedule", GPU)], ["rules", rule("strong", "NoExecute", {})]],
  ["free", PUBLISHED, ["rules", rule("r", "NoExecute", undefined)]],
  ["free", PUBLISHED, ["rules", rule("r", "NoExecute", { ...GPU, device: "gpu-1" })]],
  ["free", PUBLISHED, ["rules", rule("r", "NoExecute", { driver: "other.example.com" })]],
  ["noschedule", PUBLISHED, ["rules", rule("r", "NoExecute", { pool: "node-1" })]],
  ["repairing", PUBLISHED, ["incidents", incident("i", "gpu-0", "Repairing")]],
  ["probation", PUBLISHED, HELD, ["incidents", incident("i", "gpu-0", "Probation")]],
  ["inuse", PUBLISHED, HELD, ["incidents", incident("i", "gpu-0", "Cleared")]],
  ["suspect", PUBLISHED, ["incidents", incident("i", "gpu-0", "Draining", { enforced: false })]],
  ["noschedule", ["slices", slice("s", "node-1", [{ name: "gpu-0", taints: [{ key: "k", effect: "NoSchedule" }] }])]],
  ["noschedule", ["slices", slice("s", "node-1", [{ name: "gpu-0", basic: { taints: [{ key: "k", effect: "NoSchedule" }] } }])]],
  ["noschedule", PUBLISHED, ["slices", slice("t", "node-1", [], { spec: { taints: [{ device: "gpu-0", taint: { key: "k", effect: "NoSchedule" } }] } })]],
]) {
  test(`${state}: ${objects.map(([kind, { metadata: { name } }]) => `${kind} ${name}`).join(", ")}`, () => assert.equal(stateOf(fleetOf(...objects)), state));
}

test("of a pool the newest generation counts", () => {
  const fleet = fleetOf(PUBLISHED, ["slices", slice("new", "node-1", ["gpu-1", "gpu-2"], { spec: { pool: { name: "node-1", generation: 2, resourceSliceCount: 1 } } })]);
  assert.deepEqual([...fleet.devices.values()].map((one) => one.name).sort(), ["gpu-1", "gpu-2"]);
});

test("a rule that is held or has expired taints nothing", () => {
  const said = (type, status, observedGeneration = 1) => ({ type, status, observedGeneration });
  const at = (conditions, annotations) => isInForce(rule("r", "NoExecute", GPU, { metadata: { generation: 1, annotations }, status: { conditions } }));
  const written = { "lazaret.dev/written-by": "u" };
  for (const [expected, conditions, annotations] of [
    [true, []], [false, [said("Expired", "True")]], [true, [said("Expired", "True", 0)]], [false, [said("Held", "True")]], [true, [said("Held", "False")]],
    [false, [], written], [true, [said("Held", "False")], written], [false, [said("Held", "False", 0)], written], [false, [said("Held", "True", 0)]], [true, [said("Held", "False", 0)]],
  ]) assert.equal(at(conditions, annotations), expected, JSON.stringify([conditions, annotations]));
});

test("patches override attributes and taints, the strongest wins, null removes", () => {
  const device = { name: "gpu-0", attributes: { model: { string: "own" }, old: { bool: true } }, taints: [{ key: "k", effect: "NoExecute" }] };
  const patch = (name, priority, more) => ["patches", { metadata: meta(name), spec: { devices: { filter: GPU, priority, ...more } } }];
  const fleet = fleetOf(["slices", slice("s", "node-1", [device])], patch("weak", 1, { attributes: { model: { string: "weak" }, extra: { int: 1 } } }),
    patch("strong", 2, { attributes: { model: { string: "strong" }, old: { null: {} } }, taints: [{ key: "k", effect: "NoExecute", value: "patched" }] }));
  const found = fleet.devices.get(key("node-1", "gpu-0"));
  assert.equal(found.model, "strong");
  assert.deepEqual(Object.keys(found.patched.attributes).sort(), ["extra", "model"]);
  assert.deepEqual(found.taints.map(({ origin, value }) => [origin, value]), [["patch", "patched"]]);
  assert.deepEqual(found.spec, device, "what the driver published is not changed");
});

test("who set a taint is told by its marks", () => {
  const origin = (metadata) => fleetOf(PUBLISHED, ["rules", rule("r", "NoSchedule", GPU, { metadata })]).devices.get(key("node-1", "gpu-0")).origin;
  assert.equal(origin({}), "rule");
  assert.equal(origin({ annotations: { "lazaret.dev/set-by": "a" } }), "person");
  assert.equal(origin({ labels: { "app.kubernetes.io/managed-by": "kubectl-device" } }), "person");
  assert.equal(origin({ ownerReferences: [{ apiVersion: "lazaret.dev/v1alpha1", kind: "DeviceHealthPolicy", name: "p", uid: "u" }] }), "policy");
});

test("what a class or an expression selects comes from the cores, and is forgotten with the selector", () => {
  const expression = { selectors: [{ cel: { expression: "true" } }] };
  const fleet = fleetOf(PUBLISHED, ["rules", rule("r", "NoSchedule", expression)]);
  assert.equal(stateOf(fleet), "free");
  assert.deepEqual(fleet.opaque(), ["rules r"]);
  fleet.setSelection("rules r", new Set([key("node-1", "gpu-0")]));
  fleet.settle();
  assert.equal(stateOf(fleet), "noschedule");
  fleet.set("rules", rule("r", "NoSchedule", { ...GPU, device: "gpu-1" }));
  fleet.settle();
  assert.deepEqual([stateOf(fleet), stateOf(fleet, "gpu-1"), fleet.selected.size], ["free", "noschedule", 0]);
});

/** A random object of a random kind, among few names: they collide. */
function anything({ below, pick, chance }) {
  const [pool, device] = [`node-${below(2)}`, `gpu-${below(3)}`];
  const selector = pick([undefined, {}, { driver: "gpu.example.com" }, { pool }, { driver: "gpu.example.com", pool, device }, { deviceClassName: "c" }]);
  return pick([
    () => ["slices", slice(`s-${below(4)}`, pool, [...new Set([device, `gpu-${below(3)}`])], { spec: { pool: { name: pool, generation: below(3), resourceSliceCount: 1 } } })],
    () => ["slices", slice(`t-${below(2)}`, pool, [], { spec: { taints: [{ device, taint: { key: "k", effect: "NoSchedule" } }] } })],
    () => ["claims", claim(`c-${below(4)}`, pool, device, chance(0.7) ? [`p-${below(4)}`] : [])],
    () => ["rules", rule(`r-${below(4)}`, pick(["None", "NoSchedule", "NoExecute"]), selector)],
    () => ["patches", { metadata: meta(`x-${below(2)}`), spec: { devices: { filter: selector, priority: below(3), taints: chance(0.5) ? [{ key: "k", effect: "NoSchedule" }] : [] } } }],
    () => ["incidents", incident(`i-${pool}-${device}`, device, pick(["Suspect", "Draining", "Repairing", "Cleared"]))],
  ])();
}
// A device that is gone stays where it was last seen.
const picture = (fleet) => [...fleet.devices.values()].map(({ key: name, state, origin, taints, claims, node, slice: by }) => JSON.stringify([name, state, origin, taints.map((one) => [one.by, one.effect]).sort(), [...claims].sort(), state === "gone" ? null : node, by])).sort();
const KINDS = ["slices", "claims", "rules", "patches", "incidents"];

for (let seed = 1; seed <= 60; seed++) {
  test(`the answer depends on the objects, never on their order, seed ${seed}`, () => {
    const dice = random(seed);
    const fleet = new Fleet();
    for (let step = 0; step < 120; step++) {
      const [kind, object] = anything(dice);
      if (dice.chance(0.3)) fleet.remove(kind, object); else fleet.set(kind, object);
      if (dice.chance(0.3)) fleet.settle();
    }
    fleet.settle();
    const fresh = new Fleet();
    for (const kind of dice.chance(0.5) ? KINDS : [...KINDS].reverse()) fresh.reset(kind, [...fleet[kind].values()].reverse());
    fresh.settle();
    assert.deepEqual(picture(fleet), picture(fresh));
    assert.equal(fleet.counts().reduce((sum, one) => sum + one, 0), fleet.devices.size, "counts add up");
  });
}

test("what is gone leaves nothing behind", () => {
  const dice = random(7);
  const fleet = new Fleet();
  for (let step = 0; step < 5_000; step++) {
    const [kind, object] = anything(dice);
    if (kind === "rules" && dice.chance(0.5)) fleet.setSelection(`rules ${object.metadata.name}`, new Set([key("node-0", "gpu-0")]));
    fleet.set(kind, { ...object, metadata: { ...object.metadata, uid: `uid-${step}` } });
  }
  fleet.settle();
  for (const kind of KINDS) fleet.reset(kind, []);
  fleet.settle();
  const sizes = Object.entries(fleet).filter(([name, one]) => (one instanceof Map || one instanceof Set) && name !== "listeners");
  assert.ok(sizes.length > 15, "there are stores to look at");
  // Answers of the cores for rules that never were are set by nobody but this test.
  for (const name of fleet.selected.keys()) fleet.selected.delete(name);
  for (const [name, one] of sizes) assert.equal(one.size, 0, name);
});

test("a list that repeats what is known changes nothing, and one without an object removes it", () => {
  const fleet = fleetOf(PUBLISHED, HELD);
  let changes = 0;
  const plain = fleet.set.bind(fleet);
  fleet.set = (...change) => { changes++; plain(...change); };
  fleet.reset("slices", [slice("s", "node-1", ["gpu-0", "gpu-1"])]);
  assert.equal(changes, 0);
  fleet.reset("slices", [slice("s", "node-1", ["gpu-0"], { metadata: { resourceVersion: "2" } })]);
  assert.equal(changes, 1);
  fleet.reset("slices", [slice("s", "node-1", ["gpu-0"], { metadata: { resourceVersion: "2", uid: "another" } })]);
  assert.equal(changes, 2, "another object of the same name");
  fleet.reset("claims", []);
  fleet.settle();
  assert.deepEqual([...fleet.devices.values()].map(({ name, state }) => [name, state]), [["gpu-0", "free"]]);
});

test("listeners hear of many changes once", async () => {
  const fleet = new Fleet();
  let heard = 0;
  fleet.listeners.add(() => { heard++; });
  for (let at = 0; at < 100; at++) fleet.set("slices", slice(`s-${at}`, `node-${at}`, ["gpu-0"]));
  await Promise.resolve();
  assert.equal(heard, 1);
  assert.equal(fleet.devices.size, 100);
});

test("a pod that loses its device is told once for each device", () => {
  const fleet = fleetOf(PUBLISHED, HELD);
  const told = [];
  fleet.onRelease = (pod, device) => told.push(`${pod.namespace}/${pod.name} ${device}`);
  fleet.set("claims", claim("c", "node-1", "gpu-0", ["p", "q"]));
  assert.deepEqual(told, [], "it still has it");
  fleet.set("claims", claim("c", "node-1", "gpu-0", ["q"]));
  fleet.set("claims", claim("c", "node-1", "gpu-0", ["q"]));
  fleet.remove("claims", claim("c", "node-1", "gpu-0"));
  assert.deepEqual(told, [`default/p ${key("node-1", "gpu-0")}`, `default/q ${key("node-1", "gpu-0")}`]);
  assert.equal(fleet.byPod.size, 0);
});

test("words of a filter", () => {
  const fleet = fleetOf(["slices", slice("s", "node-1", [{ name: "gpu-0", attributes: { "gpu.example.com/productName": { string: "Tesla H100" } } }, "gpu-1"])],
    ["slices", slice("t", "node-2", ["gpu-0"])], HELD, ["rules", rule("r", "NoExecute", GPU)]);
  const all = [...fleet.devices.values()];
  for (const [text, expected] of [
    ["", 3], ["  ", 3], ["node=node-1", 2], ["node=NODE-*", 3], ["node=node", 0], ["driver=gpu.*", 3], ["driver=gpu.example", 0], ["pool=node-2", 1], ["model=h100", 1],
    ["state=draining", 1], ["state=free", 2], ["taint=example.com/t:noexecute", 1], ["taint=nothing", 0], ["ns=default", 1], ["namespace=other", 0], ["tainted", 1],
    ["gpu-0", 2], ["gpu-0 node=node-2", 1], ["gpu-0 tainted state=free", 0], ["unknown=1", 0], ["node=(", 0], ["driver=[*", 0], ["state=no-schedule", 0],
  ]) assert.equal(all.filter(parseFilter(text)).length, expected, text);
  assert.deepEqual(fleet.counts(), STATES.map(([id]) => all.filter(({ state }) => state === id).length));
});
