// Helpers of these tests: random numbers by seed, objects, and a server that is scripted.

import { mock } from "node:test";

/** A generator of numbers below `below`: the same for the same seed (mulberry32). */
export function random(seed) {
  let state = seed >>> 0;
  const next = () => {
    state = (state + 0x6d2b79f5) >>> 0;
    let mixed = Math.imul(state ^ (state >>> 15), state | 1);
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61);
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32;
  };
  const below = (limit) => Math.floor(next() * limit);
  return { below, pick: (list) => list[below(list.length)], chance: (part) => next() < part };
}

export const meta = (name, more = {}) => ({ name, uid: `uid-${name}`, resourceVersion: "1", ...more });

export const slice = (name, pool, devices, more = {}) => ({
  metadata: meta(name, more.metadata),
  spec: { driver: "gpu.example.com", pool: { name: pool, generation: 1, resourceSliceCount: 1 }, nodeName: pool, devices: devices.map((one) => (typeof one === "string" ? { name: one } : one)), ...more.spec },
});

export const claim = (name, pool, device, pods = [], more = {}) => ({
  metadata: meta(name, { namespace: "default", ...more }), spec: { devices: { requests: [] } },
  status: {
    allocation: { devices: { results: [{ driver: "gpu.example.com", pool, device, request: "r" }] } },
    reservedFor: pods.map((pod) => ({ resource: "pods", name: pod, uid: `uid-${pod}` })),
  },
});

export const rule = (name, effect, deviceSelector, more = {}) => ({
  metadata: meta(name, more.metadata), spec: { deviceSelector, taint: { key: "example.com/t", effect, ...more.taint } }, status: more.status,
});

export const incident = (name, device, stage, more = {}) => ({
  metadata: meta(name), spec: { device: { driver: "gpu.example.com", pool: "node-1", device }, stage, openedAt: "2026-01-01T00:00:00Z", policy: "p", rule: "r" },
  status: { stage, enforced: true, ...more },
});

export const key = (pool, device) => `gpu.example.com/${pool}/${device}`;

/** Lets everything that is ready run: promises, streams, then what they started. */
export async function settle(rounds = 12) {
  for (let round = 0; round < rounds; round++) await new Promise((done) => setImmediate(done));
}

/** Virtual time for timers and dates; `pass` lets it go by. */
export function virtualTime() {
  mock.timers.enable({ apis: ["setTimeout", "Date"] });
  return {
    async pass(milliseconds, step = 250) {
      for (let gone = 0; gone < milliseconds; gone += step) {
        mock.timers.tick(step);
        await settle();
      }
    },
    end: () => mock.timers.reset(),
  };
}

const json = (status, body) => new Response(JSON.stringify(body), { status, headers: { "Content-Type": "application/json" } });

/** One resource of a server: lists in pages, watches that resume, and everything that goes wrong with them. */
export class Resource {
  constructor() {
    this.objects = new Map();
    this.version = 10;
    this.log = [];
    /** Versions below this are forgotten. */
    this.oldest = 0;
    this.isDown = false;
    /** How the server refuses everything: a status. */
    this.refuses = 0;
    /** Whether a version that is too old is said by the status of the answer, or by a line of the watch. */
    this.goneByLine = false;
    /** Whether a watch ends as soon as it has begun. */
    this.endsAtOnce = false;
    this.requests = [];
    this.watches = new Set();
  }

  write(name, more = {}) {
    this.version++;
    const object = { metadata: { name, uid: `uid-${name}`, resourceVersion: String(this.version), managedFields: [{ manager: "m" }] }, ...more };
    this.#tell(this.objects.has(name) ? "MODIFIED" : "ADDED", object);
    this.objects.set(name, object);
  }

  remove(name) {
    const object = this.objects.get(name);
    if (!object) return;
    this.version++;
    this.objects.delete(name);
    this.#tell("DELETED", { ...object, metadata: { ...object.metadata, resourceVersion: String(this.version) } });
  }

  bookmark() {
    const line = { type: "BOOKMARK", object: { metadata: { resourceVersion: String(this.version) } } };
    for (const watch of this.watches) watch.send(line);
  }

  compact() {
    this.oldest = this.version;
    this.log = [];
  }

  /** Ends every watch: in order, by an error, or in the middle of a line. */
  cut(how = "end") {
    for (const watch of this.watches) watch.cut(how);
    this.watches.clear();
  }

  #tell(type, object) {
    const line = { type, object };
    this.log.push({ version: this.version, line });
    for (const watch of this.watches) watch.send(line);
  }

  /** Answers as `fetch` does. */
  fetch = async (path, { signal } = {}) => {
    const query = new URL(path, "http://server").searchParams;
    this.requests.push({ path, query, at: Date.now() });
    signal?.throwIfAborted();
    if (this.isDown) throw new TypeError("fetch failed");
    if (this.refuses) return json(this.refuses, { message: "no", reason: "Refused" });
    return query.get("watch") ? this.#watch(query, signal) : this.#list(query);
  };

  #list(query) {
    const all = [...this.objects.values()];
    const from = Number(query.get("continue") ?? 0);
    const to = from + Number(query.get("limit"));
    const left = all.length - to;
    return json(200, { items: all.slice(from, to), metadata: { resourceVersion: String(this.version), ...(left > 0 ? { continue: String(to), remainingItemCount: left } : {}) } });
  }

  #watch(query, signal) {
    const since = Number(query.get("resourceVersion"));
    const gone = { kind: "Status", code: 410, message: "too old resource version", reason: "Expired" };
    if (since < this.oldest && !this.goneByLine) return json(410, gone);
    const encoder = new TextEncoder();
    let controller;
    const body = new ReadableStream({ start: (one) => { controller = one; }, cancel: () => { this.watches.delete(watch); } });
    const watch = {
      send: (line) => controller.enqueue(encoder.encode(`${JSON.stringify(line)}\n`)),
      cut: (how) => {
        if (how === "half") controller.enqueue(encoder.encode('{"type":"MODIFIED","object":{"metadata":{"name":"half'));
        if (how === "error") controller.error(new TypeError("network error")); else controller.close();
      },
    };
    signal?.addEventListener("abort", () => { if (this.watches.delete(watch)) controller.error(signal.reason); });
    if (since < this.oldest) {
      watch.send({ type: "ERROR", object: gone });
      watch.cut("end");
    } else {
      this.watches.add(watch);
      for (const { version, line } of this.log) if (version > since) watch.send(line);
      if (this.endsAtOnce) this.cut();
    }
    return new Response(body, { status: 200 });
  }
}
