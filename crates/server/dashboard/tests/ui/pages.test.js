// The parts of pages that are plain functions.

import assert from "node:assert/strict";
import { test } from "node:test";
import { fingerprint, quote, ruleName, ruleObject } from "../../ui/actions.js";
import { count, messageOf, seen, span } from "../../ui/dom.js";
import { typed } from "../../ui/engine.js";
import { Fleet } from "../../ui/fleet.js";
import { outOfService, seriesOf, sums } from "../../ui/page-cluster.js";
import { phases, progress } from "../../ui/page-drains.js";
import { grouped } from "../../ui/page-fleet.js";
import { parts } from "../../ui/page-incidents.js";
import { asRule } from "../../ui/page-whatif.js";
import { claim, incident, meta, rule, slice } from "./support.js";

test("ages as kubectl writes them", () => {
  for (const [seconds, text] of [[0, "0s"], [-5, "0s"], [9.6, "10s"], [59, "59s"], [60, "1m"], [61, "1m1s"], [600, "10m"], [3_600, "1h"], [3_660, "1h1m"], [36_060, "10h"], [90_000, "1d1h"], [86_400 * 40, "40d"]]) assert.equal(span(seconds), text);
  assert.deepEqual([count(1, "pod"), count(0, "pod"), count(1_234, "pod")], ["1 pod", "0 pods", "1,234 pods"]);
  assert.deepEqual([messageOf(new Error("a")), messageOf("b"), messageOf(undefined)], ["a", "b", "undefined"]);
});

test("a text of the cluster turns no line and hides nothing", () => {
  for (const [text, shown] of [
    ["plain, größer, 東京, שלום, \u{1f600}", "plain, größer, 東京, שלום, \u{1f600}"], ["a\nb\tc", "a\nb\tc"],
    ["gpu-\u202e0\u2066x\u2069", "gpu-\\u202e0\\u2066x\\u2069"], ["\u001b[2J\r", "\\x1b[2J\\x0d"],
    ["ze\u200bro\ufeff\u2028\u00ad\u3164", "ze\\u200bro\\ufeff\\u2028\\u00ad\\u3164"], ["\u{e0041}\u009b", "\\ue0041\\u009b"],
  ]) assert.equal(seen(text), shown);
  assert.equal(seen(3), "3");
});

test("rules have the names that kubectl device gives them", () => {
  // FNV-1a of 64 bits of nothing is 0xcbf29ce484222325, and of "a" 0xaf63dc4c8601ec8c: folded to 32.
  assert.equal(fingerprint(""), Number(0xcbf29ce4n ^ 0x84222325n).toString(16).padStart(8, "0"));
  assert.equal(fingerprint("a"), Number(0xaf63dc4cn ^ 0x8601ec8cn).toString(16).padStart(8, "0"));
  const device = { driver: "gpu.example.com", pool: "Node_1", name: "gpu-0" };
  assert.match(ruleName(device, "lazaret.dev/drain", null), /^node-1-gpu-0-drain-[0-9a-f]{8}$/);
  assert.match(ruleName(device, "a/b", "NoExecute"), /^node-1-gpu-0-b-noexecute-[0-9a-f]{8}$/);
  assert.notEqual(ruleName(device, "a/b", "NoExecute"), ruleName(device, "c/b", "NoExecute"), "keys of two domains");
  assert.ok(ruleName({ ...device, pool: "x".repeat(400) }, "k", null).length <= 253);
});

test("a rule names its device, and says who set it only in labels that hold it", () => {
  const served = { rules: { group: "resource.k8s.io", version: "v1alpha3", plural: "devicetaintrules", path: "/p" } };
  const device = { driver: "gpu.example.com", pool: "node-1", name: "gpu-0" };
  const object = ruleObject(served, device, { key: "k", effect: "NoSchedule" }, "", "system:admin", "n");
  assert.deepEqual(object.spec.deviceSelector, { driver: "gpu.example.com", pool: "node-1", device: "gpu-0" });
  assert.equal(object.metadata.labels["lazaret.dev/set-by"], "system_admin");
  assert.deepEqual(object.metadata.annotations, { "lazaret.dev/set-by": "system:admin" });
  const odd = ruleObject(served, { ...device, pool: "x".repeat(64) }, { key: "k", effect: "None" }, "why", "ü", "n");
  assert.deepEqual([odd.metadata.labels["lazaret.dev/pool"], odd.metadata.labels["lazaret.dev/set-by"], odd.metadata.annotations["lazaret.dev/reason"]], [undefined, undefined, "why"]);
  assert.throws(() => ruleObject({ rules: null }, device, { key: "k", effect: "None" }, "", "u", "n"), /does not serve/);
});

test("what is pasted into a shell is quoted", () => assert.equal(quote("it's $HOME"), "'it'\\''s $HOME'"));

test("a text that is no rule is told what it lacks", () => {
  const whole = { kind: "DeviceTaintRule", metadata: { name: "n" }, spec: { taint: { key: "k", effect: "None" } } };
  assert.equal(asRule(whole), whole);
  for (const [words, value] of [[/kind/, null], [/kind/, 5], [/kind/, {}], [/kind/, "x"], [/name/, { ...whole, metadata: null }], [/name/, { ...whole, metadata: { name: 1 } }], [/taint/, { ...whole, spec: null }], [/taint/, { ...whole, spec: { taint: {} } }]]) assert.throws(() => asRule(value), words);
});

test("metrics are summed, and their series are named", () => {
  const text = '# HELP a x\n# TYPE a counter\na{x="1"} 2\na{x="2 3"} 3.5\nb 7\nab 9\nc NaN\n\nbroken\n';
  assert.deepEqual([...sums(text)], [["a", 5.5], ["b", 7], ["ab", 9]]);
  assert.deepEqual(seriesOf(text, "a"), [{ labels: '{x="1"}', value: 2 }, { labels: '{x="2 3"}', value: 3.5 }]);
  assert.deepEqual(seriesOf(text, "b"), [{ labels: "b", value: 7 }]);
});

function fleetOf(...objects) {
  const fleet = new Fleet();
  for (const [kind, object] of objects) fleet.set(kind, object);
  fleet.settle();
  return fleet;
}
const FIRST = { driver: "gpu.example.com", pool: "node-1", device: "gpu-0" };

test("what a guard counts as out of service", () => {
  const fleet = fleetOf(["slices", slice("s", "node-1", ["gpu-0", "gpu-1"])], ["slices", slice("t", "node-2", ["gpu-0"])], ["rules", rule("r", "NoSchedule", { pool: "node-1" })], ["rules", rule("n", "None", { pool: "node-2" })]);
  const texts = (spec) => outOfService(fleet, { spec })?.map(({ text }) => text);
  assert.deepEqual(texts({ breaker: { maxOutOfService: 1 } }), ["gpu.example.com/node-1/gpu-0", "gpu.example.com/node-1/gpu-1"]);
  assert.deepEqual(texts({ breaker: { maxOutOfService: 1, of: "Nodes" } }), ["node-1"]);
  assert.deepEqual(texts({ breaker: { maxOutOfService: 1 }, deviceSelector: { driver: "other" } }), []);
  assert.equal(texts({ breaker: { maxOutOfService: 1, of: "FaultDomains" } }), undefined);
  assert.equal(texts({ breaker: { maxOutOfService: 1 }, deviceSelector: { deviceClassName: "c" } }), undefined);
});

const said = (type, status, more = {}) => ({ type, status, reason: "Reason", message: "words", lastTransitionTime: "", observedGeneration: 1, ...more });
const drain = (status, taint = {}) => rule("r", "NoExecute", FIRST, { metadata: { generation: 1, creationTimestamp: "2026-01-01T00:00:00Z" }, taint, status });
const NOW = Date.parse("2026-01-01T00:01:40Z");

test("how far a drain is", () => {
  const at = (status, taint) => { const one = drain(status, taint); return progress(fleetOf(["slices", slice("s", "node-1", ["gpu-0"])], ["claims", claim("c", "node-1", "gpu-0", ["p", "q"])], ["rules", one]), one, NOW); };
  const going = at({ evictions: { pods: 10 }, conditions: [said("EvictionInProgress", "True", { message: "at work" })] }, { evictionsPerSecond: 4 });
  assert.deepEqual([going.gone, going.left, going.done, going.rate, going.endsIn, going.message], [10, 2, false, 0.1, 1, "at work"]);
  assert.equal(at({ evictions: { pods: 10, until: "2026-01-01T00:00:20Z" } }).rate, 0.5);
  assert.deepEqual([at(undefined).done, at({ conditions: [said("Drained", "True")] }).done], [false, true]);
  const blocked = at({ conditions: [said("EvictionBlocked", "True")] }, { evictionsPerSecond: 4 });
  assert.deepEqual([blocked.blocked?.reason, blocked.endsIn], ["Reason", null]);
  const held = at({ conditions: [said("Held", "True", { message: "ask" })] }, { evictionsPerSecond: 4 });
  assert.deepEqual([held.held, held.done, held.message, held.endsIn], [true, false, "ask", null]);
  const empty = drain(undefined);
  assert.equal(progress(fleetOf(["slices", slice("s", "node-1", ["gpu-0"])], ["rules", empty]), empty, NOW).done, true);
});

test("every pod of a drain is in one phase, and the phases say why", () => {
  const found = { devices: [], pods: ["a", "b"].map((name) => ({ name, uid: name })), gone: 3, left: 2, done: false, held: false, pace: null, rate: 0, blocked: null, message: "", endsIn: null };
  const device = { key: "k" };
  const gone = [{ name: "c", owner: "o", at: 0, by: null }, { name: "d", owner: "o", at: 0, by: { name: "e", devices: [device] } }, { name: "f", owner: "", at: 0, by: null }];
  const moves = { askedAt: (uid) => (uid === "b" ? 5 : 0) };
  const at = (more, pausedBy = "") => phases({ ...found, ...more }, gone, moves, pausedBy);
  assert.deepEqual(at({}).map(({ id, pods }) => [id, pods.map(({ name }) => name).join()]), [["waiting", "a"], ["ending", "b"], ["homeless", "c"], ["replaced", "d"], ["lost", "f"]]);
  const why = (more, pausedBy) => at(more, pausedBy)[0].pods[0].why;
  assert.match(why({}), /turn/);
  assert.match(why({ pace: 2 }), /2\/s/);
  assert.match(why({ blocked: said("EvictionBlocked", "True") }), /Reason/);
  assert.match(why({ blocked: said("EvictionBlocked", "True") }, "storm"), /blocked \(Reason\): words; /);
  assert.match(why({}, "storm"), /paused: storm/);
  assert.match(why({ held: true }, "storm"), /approval/);
});

test("the parts of a recovery, as far as they are known", () => {
  assert.deepEqual(parts(incident("i", "gpu-0", "Repairing", { times: { detected: "2026-01-01T00:00:00Z", decided: "2026-01-01T00:00:05Z", drained: "2026-01-01T00:01:05Z", repaired: "never" } })), [{ name: "decide", seconds: 5 }, { name: "drain", seconds: 60 }]);
  assert.deepEqual(parts(incident("i", "gpu-0", "Suspect")), []);
});

test("groups are sorted as people count", () => {
  const fleet = fleetOf(["slices", slice("s", "node-10", ["gpu-10", "gpu-9"])], ["slices", slice("t", "node-9", ["gpu-0"])], ["nodes", { metadata: meta("node-9", { labels: { "topology.kubernetes.io/zone": "z" } }) }]);
  const by = (what) => grouped([...fleet.devices.values()], what, fleet.nodes, fleet.classes).map(({ name, devices }) => [name, devices.map((one) => one.name).join()]);
  assert.deepEqual(by("node"), [["node-9", "gpu-0"], ["node-10", "gpu-9,gpu-10"]]);
  assert.deepEqual(by("zone"), [["(none)", "gpu-9,gpu-10"], ["z", "gpu-0"]]);
  assert.deepEqual(by("state"), [["Free", "gpu-0,gpu-9,gpu-10"]]);
  assert.deepEqual(by("class").map(([name]) => name), ["(none)"]);
});

test("items of lists get their version and kind", () => {
  assert.deepEqual(typed({ group: "g", version: "v1" }, "K", [{ a: 1 }]), [{ apiVersion: "g/v1", kind: "K", a: 1 }]);
  assert.deepEqual(typed({ version: "v1" }, "Pod", [{}]), [{ apiVersion: "v1", kind: "Pod" }]);
  assert.deepEqual(typed(null, "K", [{}]), []);
});
