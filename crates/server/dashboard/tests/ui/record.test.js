// Recordings: kept while a page is open, read from files that come from anywhere.

import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { test } from "node:test";
import { Fleet } from "../../ui/fleet.js";
import { EVENTS_MAX, Recorder, WEIGHT_MAX, cut, parseRecording } from "../../ui/record.js";
import { claim, incident, random, rule, slice } from "./support.js";

const resource = { group: "resource.k8s.io", version: "v1", plural: "", path: "" };
const SERVED = { slices: resource, claims: resource, rules: resource, classes: null, patches: null, superset: false, deviceincidents: { ...resource, group: "lazaret.dev" }, disruptionguards: resource };

/** A fleet that is recorded, at a clock that goes on by one second with each look. */
function recorded() {
  let now = Date.parse("2026-01-01T00:00:00Z");
  const fleet = new Fleet();
  const recorder = new Recorder(fleet, () => (now += 1_000));
  recorder.start(SERVED);
  return { fleet, recorder };
}
const picture = (fleet) => {
  fleet.settle();
  return [...fleet.devices.values()].map(({ key, state, taints }) => `${key} ${state} ${taints.map((one) => one.by)}`).sort();
};
/** The fleet at the end of a recording. */
function played({ objects, events }) {
  const fleet = new Fleet();
  for (const { kind, object } of objects) fleet.set(kind, object);
  for (const { kind, object, remove } of events) if (remove) fleet.remove(kind, object); else fleet.set(kind, object);
  return fleet;
}
const again = (recorder) => parseRecording(JSON.stringify(recorder.recording()));

test("the first list is the beginning, and what follows are changes", () => {
  const { fleet, recorder } = recorded();
  fleet.reset("slices", [slice("s", "node-1", ["gpu-0"])]);
  fleet.reset("claims", []);
  assert.equal(recorder.events.length, 0);
  fleet.set("claims", claim("c", "node-1", "gpu-0", ["p"]));
  fleet.remove("claims", claim("c", "node-1", "gpu-0"));
  const { objects, events } = again(recorder);
  assert.deepEqual(objects.map(({ kind, object }) => `${kind} ${object.metadata.name}`), ["slices s"]);
  assert.deepEqual(events.map(({ kind, remove }) => `${kind} ${remove}`), ["claims false", "claims true"]);
});

test("a list that is read again counts what changed alone", () => {
  const { fleet, recorder } = recorded();
  const list = (version) => ["a", "b", "c"].map((name) => slice(name, name, ["gpu-0"], { metadata: { resourceVersion: name === "b" ? version : "1" } }));
  fleet.reset("slices", list("1"));
  for (let poll = 0; poll < 50; poll++) fleet.reset("slices", list("1"));
  assert.equal(recorder.events.length, 0);
  fleet.reset("slices", list("2").slice(0, 2));
  assert.deepEqual(recorder.events.map(({ method, object }) => `${method} ${object.metadata.name}`), ["remove c", "set b"]);
});

test("kinds that are not played are not kept", () => {
  const { fleet, recorder } = recorded();
  fleet.reset("nodes", []);
  fleet.set("nodes", { metadata: { name: "n", uid: "n" } });
  fleet.set("guards", { metadata: { name: "g", uid: "g" }, spec: {} });
  assert.equal(recorder.events.length, 0);
});

for (let seed = 1; seed <= 20; seed++) {
  test(`played to its end, a recording shows what the page showed, seed ${seed}`, () => {
    const { below, pick, chance } = random(seed);
    const { fleet, recorder } = recorded();
    const anything = () => pick([
      () => ["slices", slice(`s-${below(4)}`, `node-${below(2)}`, [`gpu-${below(3)}`])],
      () => ["claims", claim(`c-${below(4)}`, `node-${below(2)}`, `gpu-${below(3)}`, [`p-${below(3)}`])],
      () => ["rules", rule(`r-${below(3)}`, pick(["NoSchedule", "NoExecute"]), { driver: "gpu.example.com", pool: `node-${below(2)}`, device: `gpu-${below(3)}` })],
      () => ["incidents", incident(`i-${below(3)}`, `gpu-${below(3)}`, pick(["Draining", "Repairing", "Cleared"]))],
    ])();
    for (const kind of ["slices", "claims", "rules", "incidents"]) fleet.reset(kind, [anything(), anything(), anything()].filter(([one]) => one === kind).map(([, object]) => object));
    for (let step = 0; step < 200; step++) {
      const [kind, object] = anything();
      if (chance(0.3)) fleet.remove(kind, object); else fleet.set(kind, object);
    }
    const recording = again(recorder);
    assert.deepEqual(picture(played(recording)), picture(fleet));
    const middle = recording.events[below(recording.events.length)].at;
    const part = cut(recording, middle, Infinity, "part");
    assert.deepEqual(picture(played(part)), picture(fleet), "and so does a part of it");
    assert.equal(part.start, middle);
    assert.ok(part.events.every(({ at }) => at >= middle));
  });
}

test("a day of churn stays in its bounds, and the end stays right", () => {
  const { fleet, recorder } = recorded();
  fleet.reset("slices", [slice("s", "node-1", ["gpu-0"])]);
  fleet.set("claims", claim("early", "node-1", "gpu-0"));
  for (let step = 0; step < 4 * EVENTS_MAX; step++) {
    fleet.set("claims", claim(`c-${step % 7}`, "node-1", "gpu-0", [], { resourceVersion: String(step) }));
    if (step % 3 === 0) fleet.remove("claims", claim(`c-${step % 7}`, "node-1", "gpu-0"));
  }
  assert.equal(recorder.events.length, EVENTS_MAX);
  assert.ok(recorder.base.size <= 2 + 7, `${recorder.base.size} objects at the beginning`);
  assert.ok(Date.parse(recorder.recording().start) <= recorder.events[0].at, "it begins before its first change");
  assert.deepEqual(picture(played(again(recorder))), picture(fleet));
  assert.deepEqual([...played(again(recorder)).claims.keys()].sort(), [...fleet.claims.keys()].sort(), "one that came early and never changed as well");
  const many = Array.from({ length: 128 }, (_, at) => `gpu-${at}`);
  for (let step = 0; step < 2_000; step++) fleet.set("slices", slice(`s-${step % 9}`, `node-${step % 9}`, many, { metadata: { resourceVersion: String(step) } }));
  assert.ok(recorder.weight <= WEIGHT_MAX, `${recorder.weight}`);
  const weight = recorder.events.reduce((sum, { kind, object }) => sum + 1 + (kind === "slices" ? object.spec.devices.length : 0), 0);
  assert.equal(recorder.weight, weight);
});

test("an error in the first list does not silence the recorder", () => {
  const { fleet, recorder } = recorded();
  assert.throws(() => fleet.reset("slices", [{ metadata: { name: "broken", uid: "b" } }]));
  fleet.set("claims", claim("c", "node-1", "gpu-0"));
  assert.equal(recorder.events.length, 1);
});

const whole = (more) => JSON.stringify({ kind: "DeviceRecording", start: "2026-01-01T00:00:00Z", ...more });
const S = { kind: "ResourceSlice", ...slice("s", "node-1", ["gpu-0"]) };
const R = { kind: "DeviceTaintRule", ...rule("r", "NoExecute", {}) };
const C = { kind: "ResourceClaim", ...claim("c", "node-1", "gpu-0") };
const I = { kind: "DeviceIncident", ...incident("i", "gpu-0", "Draining") };
const P = { kind: "ResourceSlicePatch", metadata: { name: "p" }, spec: { devices: {} } };

for (const [words, text] of [
  ["not JSON", ""], ["not JSON", "{"], ["not JSON", '{"kind":"DeviceRecording","start":"2026'],
  ["no DeviceRecording", "null"], ["no DeviceRecording", "[]"], ["no DeviceRecording", '"x"'], ["no DeviceRecording", '{"kind":"List"}'],
  ["when it begins", whole({ start: "yesterday" })], ["when it begins", whole({ start: null })], ["when it begins", whole({ start: 1 })],
  ["objects of the recording are no list", whole({ objects: {} })], ["events of the recording are no list", whole({ events: "x" })],
  ["has no name", whole({ objects: [{ ...S, metadata: {} }] })], ["has no name", whole({ objects: [{ kind: "DeviceTaintRule" }] })],
  ...[
    { ...S, spec: undefined }, { ...S, spec: "x" }, { ...S, spec: { ...S.spec, pool: null } }, { ...S, spec: { ...S.spec, driver: 1 } }, { ...S, spec: { ...S.spec, devices: {} } },
    { ...S, spec: { ...S.spec, devices: [null] } }, { ...S, spec: { ...S.spec, devices: [{ name: "a", taints: 1 }] } }, { ...S, spec: { ...S.spec, taints: [{ device: "a" }] } },
    { ...R, spec: {} }, { ...R, spec: undefined }, { ...C, status: { reservedFor: {} } }, { ...C, status: { reservedFor: [null] } },
    { ...C, status: { allocation: { devices: { results: "x" } } } }, { ...I, spec: {}, status: {} }, { ...I, spec: { stage: "Draining" }, status: undefined }, { ...P, spec: {} },
  ].map((object) => [`The ${object.kind} ${object.metadata.name} of the recording is broken`, whole({ objects: [object] })]),
  ["is broken", whole({ events: [{ at: "2026-01-01T00:00:01Z", type: "MODIFIED", object: { ...S, spec: {} } }] })],
]) {
  test(`${words}: ${text.slice(0, 100)}`, () => assert.throws(() => parseRecording(text), (error) => {
    assert.ok(!(error instanceof TypeError) && error.message.includes(words), String(error));
    return true;
  }));
}

test("what can be played is played: other kinds and events without a time are left out", () => {
  const at = (seconds) => new Date(Date.parse("2026-01-01T00:00:00Z") + seconds * 1_000).toISOString();
  const found = parseRecording(whole({
    end: at(5), title: 7, objects: [S, C, I, P, R, { kind: "Pod" }, null, 3, { kind: "DeviceClass", metadata: { name: "d" } }],
    events: [{ at: at(9), object: S, note: 5 }, { at: at(2), object: R, note: "why" }, { at: "?", object: S }, null, "x", { at: at(3) },
      { at: at(4), type: "DELETED", object: { kind: "ResourceSlice", metadata: { name: "s" } } }],
  }));
  assert.deepEqual(found.objects.map(({ kind }) => kind), ["slices", "claims", "incidents", "patches", "rules"]);
  assert.deepEqual(found.events.map(({ kind, remove, note }) => [kind, remove, note]), [["rules", false, "why"], ["slices", true, undefined], ["slices", false, undefined]]);
  assert.deepEqual([found.title, found.classes.length, found.end], ["", 1, Date.parse(at(9))]);
  assert.ok(picture(played(found)).length > 0);
});

for (const name of ["incident", "simulated"]) {
  test(`examples/${name}.json plays`, () => {
    const found = parseRecording(readFileSync(new URL(`../../../../../examples/${name}.json`, import.meta.url), "utf8"));
    assert.ok(found.events.length > 5 && found.end > found.start);
    assert.ok(picture(played(found)).length > 0);
  });
}

test("files that were cut or changed anywhere are played or refused in words", () => {
  const more = { metadata: { generation: 1, labels: { a: "b" }, annotations: { a: "b" }, ownerReferences: [{ apiVersion: "v1", name: "o" }] }, status: { conditions: [{ type: "Held", status: "False" }] } };
  const ruled = { kind: "DeviceTaintRule", ...rule("q", "None", { driver: "gpu.example.com" }, more) };
  const published = { kind: "ResourceSlice", ...slice("t", "node-2", [{ name: "a", attributes: { model: { string: "m" } }, taints: [{ key: "k", effect: "None" }] }]) };
  const patched = { kind: "ResourceSlicePatch", metadata: { name: "q" }, spec: { devices: { filter: {}, priority: 1, attributes: { a: { int: 1 }, b: { null: {} } }, taints: [{ key: "k", effect: "None" }] } } };
  const text = JSON.stringify({ ...JSON.parse(whole({})), objects: [S, C, R, I, P, ruled, published, patched], events: [{ at: "2026-01-01T00:00:01Z", type: "MODIFIED", object: S }] });
  const values = [null, 0, "", "x", [], {}, [null], { name: 1 }, true];
  for (let seed = 1; seed <= 4_000; seed++) {
    const { below, pick, chance } = random(seed);
    const file = JSON.parse(text);
    // One value somewhere in the file becomes another.
    let place = chance(0.3) ? file : pick(file.objects);
    for (let depth = 0; depth < 12; depth++) {
      const names = Object.keys(place);
      if (names.length === 0) break;
      const name = pick(names);
      if (typeof place[name] !== "object" || place[name] === null || chance(0.25)) { if (chance(0.2)) delete place[name]; else place[name] = pick(values); break; }
      place = place[name];
    }
    const changed = chance(0.1) ? text.slice(0, below(text.length)) : JSON.stringify(file);
    let recording = null;
    try { recording = parseRecording(changed); } catch (error) { assert.ok(!(error instanceof TypeError), `seed ${seed}: ${error.stack}\n${changed}`); }
    if (recording) assert.doesNotThrow(() => picture(played(recording)).map(String), `seed ${seed}: ${changed}`);
  }
});
