// Where pods went that had to leave a device.

import assert from "node:assert/strict";
import { test } from "node:test";
import { Fleet } from "../../ui/fleet.js";
import { Moves } from "../../ui/moves.js";
import { claim, rule, slice } from "./support.js";

const OWNER = { uid: "uid-web", kind: "ReplicaSet", name: "web", controller: true };
const pod = (name, more = {}) => ({ metadata: { name, namespace: "default", uid: `uid-${name}`, ownerReferences: [OWNER], ...more } });

/** A page that follows two devices, `gpu-0` held by the pod `a`. */
function page() {
  let now = 1_000_000;
  const fleet = new Fleet();
  fleet.clock = () => now;
  const moves = new Moves(fleet, () => now);
  const pods = moves.sink();
  fleet.set("slices", slice("s", "node-1", ["gpu-0", "gpu-1"]));
  fleet.set("claims", claim("c-a", "node-1", "gpu-0", ["a"]));
  pods.reset([pod("a")]);
  fleet.set("rules", rule("drain", "NoExecute", { driver: "gpu.example.com", pool: "node-1", device: "gpu-0" }));
  fleet.settle();
  const gone = () => moves.of("uid-drain", fleet.devicesOfRule(fleet.rules.get("drain")));
  return { fleet, moves, pods, gone, pass: (milliseconds) => { now += milliseconds; } };
}

test("a pod that left has the replacement that its owner made, with its devices", () => {
  const { fleet, pods, gone } = page();
  assert.deepEqual(gone(), []);
  pods.set(pod("a", { deletionTimestamp: "2026-01-01T00:00:30Z", deletionGracePeriodSeconds: 30 }));
  pods.set(pod("b"));
  fleet.remove("claims", claim("c-a", "node-1", "gpu-0"));
  pods.remove(pod("a"));
  assert.deepEqual(gone().map(({ name, owner, by }) => [name, owner, by?.name, by?.devices.length]), [["default/a", "ReplicaSet/web", "default/b", 0]]);
  fleet.set("claims", claim("c-b", "node-1", "gpu-1", ["b"]));
  assert.deepEqual(gone()[0].by.devices.map(({ name }) => name), ["gpu-1"]);
});

test("in whatever order claims and pods are heard of", () => {
  const { fleet, pods, gone } = page();
  pods.remove(pod("a"));
  pods.set(pod("b"));
  fleet.remove("claims", claim("c-a", "node-1", "gpu-0"));
  assert.deepEqual(gone().map(({ name, by }) => [name, by?.name]), [["default/a", "default/b"]]);
});

test("a pod that was made before is no replacement, nor is one of another owner, nor one for two", () => {
  const { fleet, pods, gone } = page();
  pods.set(pod("older"));
  pods.set(pod("second"));
  fleet.set("claims", claim("c-2", "node-1", "gpu-0", ["second"]));
  for (const name of ["a", "second"]) pods.remove(pod(name));
  for (const name of ["c-a", "c-2"]) fleet.remove("claims", claim(name, "node-1", "gpu-0"));
  pods.set(pod("stranger", { ownerReferences: [{ ...OWNER, uid: "another" }] }));
  assert.deepEqual(gone().map(({ name, by }) => [name, by]), [["default/a", null], ["default/second", null]]);
  pods.set(pod("new"));
  assert.deepEqual(gone().filter(({ by }) => by).length, 1);
  pods.set(pod("newer"));
  assert.deepEqual(gone().map(({ by }) => by?.name).sort(), ["default/new", "default/newer"]);
});

test("a pod without an owner has none", () => {
  const { fleet, pods, gone } = page();
  pods.set(pod("lonely", { ownerReferences: undefined }));
  fleet.set("claims", claim("c-l", "node-1", "gpu-0", ["lonely"]));
  pods.remove(pod("lonely"));
  fleet.remove("claims", claim("c-l", "node-1", "gpu-0"));
  assert.deepEqual(gone().map(({ name, owner, by }) => [name, owner, by]), [["default/lonely", "", null]]);
});

test("those that left before the rule came do not count", () => {
  const { fleet, gone, pass } = page();
  fleet.set("claims", claim("c-x", "node-1", "gpu-0", ["x"]));
  fleet.remove("claims", claim("c-x", "node-1", "gpu-0"));
  assert.equal(gone().length, 1);
  pass(60_000);
  fleet.remove("rules", rule("drain", "NoExecute", {}));
  fleet.set("rules", rule("drain", "NoExecute", { driver: "gpu.example.com", pool: "node-1", device: "gpu-0" }));
  assert.equal(gone().length, 0);
});

test("a list of pods says who has gone", () => {
  const { moves, pods } = page();
  pods.reset([pod("b")]);
  assert.deepEqual([[...moves.pods.keys()], [...moves.past.keys()]], [["uid-b"], ["uid-a"]]);
  assert.equal(moves.isHidden, false);
  pods.refused(new Error("no"));
  assert.equal(moves.isHidden, true);
});

test("when a pod was asked to end", () => {
  const { moves, pods } = page();
  assert.equal(moves.askedAt("uid-a"), 0);
  assert.equal(moves.askedAt("nobody"), 0);
  pods.set(pod("a", { deletionTimestamp: "2026-01-01T00:00:30Z", deletionGracePeriodSeconds: 30 }));
  assert.equal(moves.askedAt("uid-a"), Date.parse("2026-01-01T00:00:00Z"));
});

test("a day of churn stays in its bounds", () => {
  const { fleet, moves, pods, gone } = page();
  for (let at = 0; at < 5_000; at++) {
    const name = `p-${at}`;
    pods.set(pod(name));
    fleet.set("claims", claim(`c-${at}`, "node-1", "gpu-0", [name]));
    pods.remove(pod(name));
    fleet.remove("claims", claim(`c-${at}`, "node-1", "gpu-0"));
  }
  assert.deepEqual([moves.left.length, moves.past.size, moves.pods.size, fleet.byPod.size], [1_000, 1_000, 1, 1]);
  assert.equal(gone().at(-1).name, "default/p-4999");
});
