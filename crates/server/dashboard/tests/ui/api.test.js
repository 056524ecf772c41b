// Lists, watches that resume, and what becomes of them when a server goes, forgets or refuses.

import assert from "node:assert/strict";
import { getEventListeners } from "node:events";
import { afterEach, beforeEach, test } from "node:test";
import { Api, ApiError, NOTHING_SERVED, Session, discover, follow, lines } from "../../ui/api.js";
import { Resource, random, settle, virtualTime } from "./support.js";

const PATH = "/apis/example.com/v1/things";
let server;
let time;
let end;

beforeEach(() => {
  time = virtualTime();
  server = new Resource();
  globalThis.fetch = (...call) => server.fetch(...call);
  end = new AbortController();
});
afterEach(async () => {
  end.abort();
  await settle();
  time.end();
});

/** Follows the resource; what the page would know of it is in `known`. */
function begin(more = {}) {
  /** `versions`: those of the changes after each list. */
  const seen = { known: new Map(), calls: [], versions: [], states: [], refused: 0, cursor: { version: "" } };
  const name = (object) => object.metadata.name;
  const sink = {
    reset: (items) => { seen.versions.push([]); seen.calls.push(`reset ${items.length}`); seen.known = new Map(items.map((one) => [name(one), one])); },
    set: (object) => { seen.versions.at(-1).push(Number(object.metadata.resourceVersion)); seen.calls.push(`set ${name(object)}`); seen.known.set(name(object), object); },
    remove: (object) => { seen.versions.at(-1).push(Number(object.metadata.resourceVersion)); seen.calls.push(`remove ${name(object)}`); seen.known.delete(name(object)); },
    refused: () => { seen.refused++; },
  };
  seen.done = follow(new Api(new Session()), { path: PATH, cursor: seen.cursor, ...more }, sink, (connected) => seen.states.push(connected), end.signal);
  return seen;
}

const versions = (map) => [...map].map(([name, object]) => `${name}@${object.metadata.resourceVersion}`).sort();
const watches = () => server.requests.filter(({ query }) => query.get("watch"));
const lists = () => server.requests.filter(({ query }) => !query.get("watch"));

test("a watch that ends is resumed from the last version, without another list", async () => {
  server.write("a");
  const seen = begin();
  await settle();
  server.write("b");
  await settle();
  const last = String(server.version);
  server.cut();
  server.write("c");
  await time.pass(2_000);
  assert.deepEqual(versions(seen.known), versions(server.objects));
  assert.deepEqual(seen.calls, ["reset 1", "set b", "set c"]);
  assert.equal(lists().length, 1);
  assert.equal(watches().at(-1).query.get("resourceVersion"), last);
});

test("a bookmark moves the version and changes nothing", async () => {
  const seen = begin();
  await settle();
  server.version = 77;
  server.bookmark();
  await settle();
  server.cut();
  await time.pass(2_000);
  assert.equal(watches().at(-1).query.get("resourceVersion"), "77");
  assert.deepEqual(seen.calls, ["reset 0"]);
});

test("half of a line at the end of a connection is not taken for a change", async () => {
  const seen = begin();
  await settle();
  server.cut("half");
  server.write("a");
  await time.pass(2_000);
  assert.deepEqual(seen.calls, ["reset 0", "set a"]);
});

for (const byLine of [false, true]) {
  test(`a version that is too old is listed again, told by ${byLine ? "a line" : "the status"}`, async () => {
    server.goneByLine = byLine;
    server.write("goes");
    server.write("stays");
    const seen = begin();
    await settle();
    server.isDown = true;
    server.cut("error");
    await settle();
    server.remove("goes");
    server.write("comes");
    server.compact();
    server.isDown = false;
    await time.pass(5_000);
    assert.equal(lists().length, 2);
    assert.deepEqual(versions(seen.known), versions(server.objects));
    assert.equal(seen.states.at(-1), true);
  });
}

test("an event without an object is passed over", async () => {
  const seen = begin();
  await settle();
  for (const watch of server.watches) for (const line of [{ type: "MODIFIED" }, { type: "MODIFIED", object: {} }, { type: "DELETED", object: null }]) watch.send(line);
  server.write("a");
  await settle();
  assert.deepEqual(seen.calls, ["reset 0", "set a"]);
});

test("a line that is no JSON ends the connection, and nothing is lost", async () => {
  const seen = begin();
  await settle();
  for (const watch of server.watches) watch.send.call(null, undefined);
  server.write("a");
  await time.pass(3_000);
  assert.deepEqual(versions(seen.known), versions(server.objects));
});

test("who writes which field is not kept", async () => {
  server.write("a");
  const seen = begin();
  await settle();
  server.write("b");
  await settle();
  for (const object of seen.known.values()) assert.equal("managedFields" in object.metadata, false);
});

test("a server that is down is asked less and less often, and never given up", async () => {
  server.isDown = true;
  const seen = begin();
  await time.pass(10 * 60_000, 1_000);
  // From 0.5 s up to 15 s between two attempts, each a quarter more or less.
  assert.ok(server.requests.length > 10 * 60 / 19 && server.requests.length < 10 * 60 / 11 + 12, `${server.requests.length} requests`);
  assert.equal(seen.states.at(-1), false);
  assert.ok(getEventListeners(end.signal, "abort").length < 5, "what waited is not kept");
  server.isDown = false;
  server.write("a");
  await time.pass(20_000);
  assert.deepEqual(versions(seen.known), versions(server.objects));
  assert.equal(seen.states.at(-1), true);
});

test("a server that ends every watch at once is not asked at once", async () => {
  server.endsAtOnce = true;
  begin();
  await time.pass(60_000);
  assert.ok(watches().length > 30 && watches().length < 170, `${watches().length} watches in a minute`);
});

test("a refusal is said, and the permission may come later", async () => {
  server.refuses = 403;
  const seen = begin();
  await settle();
  assert.equal(seen.refused, 1);
  assert.equal(seen.states.at(-1), true, "the connection is fine");
  server.refuses = 0;
  server.write("a");
  await time.pass(80_000, 1_000);
  assert.deepEqual(versions(seen.known), versions(server.objects));
});

for (const [code, said] of [[404, "a kind that is not served"], [401, "a session that is over"]]) {
  test(`${said} is not asked for again`, async () => {
    server.refuses = code;
    const seen = begin();
    await time.pass(120_000, 1_000);
    assert.equal(server.requests.length, 1);
    await seen.done;
  });
}

test("after the end nothing is asked and nothing arrives", async () => {
  const seen = begin();
  await settle();
  end.abort();
  server.write("a");
  await time.pass(60_000, 1_000);
  await seen.done;
  assert.deepEqual(seen.calls, ["reset 0"]);
  assert.equal(server.requests.length, 2);
  assert.equal(server.watches.size, 0);
});

test("a kind that is listed now and then has no watch", async () => {
  const seen = begin({ every: 5_000 });
  await time.pass(60_000, 1_000);
  assert.equal(watches().length, 0);
  assert.ok(lists().length >= 9 && lists().length <= 17, `${lists().length} lists`);
  server.write("a");
  await time.pass(10_000, 1_000);
  assert.deepEqual(versions(seen.known), versions(server.objects));
});

/** After any writes and any losses, once the server is back, the page knows every object of the server, and no change arrived twice. */
for (let seed = 1; seed <= 40; seed++) {
  test(`nothing is lost and nothing doubled, seed ${seed}`, async () => {
    const { below, pick, chance } = random(seed);
    server.goneByLine = chance(0.5);
    for (let at = below(5); at > 0; at--) server.write(`first-${at}`);
    const seen = begin();
    for (let step = 0; step < 60; step++) {
      const name = `o-${below(8)}`;
      const act = below(12);
      if (act < 5) server.write(name);
      else if (act < 7) server.remove(name);
      else if (act === 7) server.bookmark();
      else if (act === 8) server.cut(pick(["end", "error", "half"]));
      else if (act === 9) { server.isDown = !server.isDown; if (server.isDown) server.cut("error"); }
      else if (act === 10) server.compact();
      else await time.pass(pick([250, 1_000, 5_000]));
      if (chance(0.5)) await settle(3);
    }
    server.isDown = false;
    await time.pass(40_000, 1_000);
    assert.deepEqual(versions(seen.known), versions(server.objects));
    for (const told of seen.versions) assert.deepEqual(told, [...new Set(told)].sort((a, b) => a - b), "each change once, in order");
    assert.equal(server.watches.size, 1, "one watch is open");
  });
}

test("a long list comes in pages, and one that is too long is refused early", async () => {
  for (let at = 0; at < 1_201; at++) server.write(`o-${at}`);
  const api = new Api(new Session());
  const { items, version } = await api.list(PATH);
  assert.equal(items.length, 1_201);
  assert.equal(version, String(server.version));
  assert.equal(server.requests.length, 3);
  await assert.rejects(api.list(PATH, { most: 1_000 }), { code: 403, reason: "TooMany" });
  assert.equal(server.requests.length, 4, "one page says how many there are");
});

test("a line that never ends is not collected for ever", async () => {
  const chunk = new Uint8Array(4 << 20).fill(97);
  let sent = 0;
  const body = new ReadableStream({ pull: (controller) => { sent++; controller.enqueue(chunk); } });
  await assert.rejects(async () => { for await (const line of lines(body)) assert.fail(line); }, /too long/);
  assert.ok(sent < 12, `${sent} chunks of 4 MiB`);
});

test("characters that are split between two parts of a stream stay whole", async () => {
  const bytes = new TextEncoder().encode('{"a":"ü€𝄞"}\n\n{"b":1}\n{"half":');
  const parts = [...bytes].map((byte) => Uint8Array.of(byte));
  const body = new ReadableStream({ pull: (controller) => { const part = parts.shift(); if (part) controller.enqueue(part); else controller.close(); } });
  const found = [];
  for await (const line of lines(body)) found.push(line);
  assert.deepEqual(found, [{ a: "ü€𝄞" }, { b: 1 }]);
});

test("a permission is asked for once", async () => {
  let asked = 0;
  globalThis.fetch = async () => { asked++; return new Response(JSON.stringify({ status: { allowed: true } })); };
  const api = new Api(new Session());
  assert.deepEqual(await Promise.all([api.may("create", "g", "r"), api.may("create", "g", "r")]), [true, true]);
  assert.equal(asked, 1);
  await api.may("delete", "g", "r");
  assert.equal(asked, 2);
});

test("a refusal has the server's words, and 401 ends the session", async () => {
  let expired = 0;
  const session = Object.assign(new Session(), { onExpired: () => { expired++; } });
  globalThis.fetch = async () => new Response(JSON.stringify({ message: "not yours", reason: "Forbidden" }), { status: 403 });
  await assert.rejects(new Api(session).get("/x"), (error) => error instanceof ApiError && error.code === 403 && error.message === "not yours");
  globalThis.fetch = async () => new Response("<html>", { status: 401 });
  await assert.rejects(new Api(session).get("/x"), { code: 401, message: "GET /x: 401" });
  assert.equal(expired, 1);
});

/** Discovery of a server with these versions and their resources. */
const serving = (table) => (globalThis.fetch = async (path) => {
  const version = path.split("/")[3];
  const body = version ? { resources: table[version].map((name) => ({ name })) } : { versions: Object.keys(table).map((one) => ({ version: one })) };
  return new Response(JSON.stringify(body));
});

test("kinds are read in the version that kubectl device reads them in", async () => {
  const api = new Api(new Session());
  serving({ v1: ["resourceslices", "resourceclaims", "deviceclasses"], v1beta1: ["resourceslices"], v1alpha3: ["devicetaintrules"] });
  const plain = await discover(api);
  assert.deepEqual([plain.slices?.version, plain.claims?.version, plain.rules?.version, plain.patches, plain.superset], ["v1", "v1", "v1alpha3", null, false]);
  serving({ v1: ["resourceslices", "resourceclaims", "devicetaintrules"], v1alpha3: ["resourceslices", "devicetaintrules", "resourceslicepatches"] });
  const ours = await discover(api);
  assert.deepEqual([ours.slices?.version, ours.claims?.version, ours.rules?.version, ours.superset], ["v1alpha3", "v1", "v1alpha3", true]);
  serving({ v1beta2: [] });
  assert.deepEqual(await discover(api), NOTHING_SERVED);
});
