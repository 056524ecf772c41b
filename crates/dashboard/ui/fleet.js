// Devices and what is known of them, from slices, claims, rules and incidents. Plain data and plain functions: no page, no network.

/** In the order in which people read them. */
export const STATES = [
  ["free", "Free", "No claim holds it and nothing keeps claims away"],
  ["inuse", "In use", "A claim holds it"],
  ["suspect", "Suspect", "Marked, with no effect on pods"],
  ["noschedule", "No schedule", "A taint keeps new claims away"],
  ["draining", "Draining", "A taint evicts the pods that use it"],
  ["repairing", "Repairing", "Drained, and waits for a repair"],
  ["probation", "Probation", "Repaired, and has to prove itself"],
  ["gone", "Gone", "A claim holds it and its driver does not publish it any more"],
];
export const STATE_INDEX = new Map(STATES.map(([id], at) => [id, at]));
/** What set the taint that weighs most. */
export const ORIGINS = ["none", "driver", "rule", "patch", "policy", "person"];

const BY_STAGE = {
  Suspect: "suspect", Quarantined: "noschedule", Draining: "draining", Repairing: "repairing", Abandoned: "repairing", Probation: "probation",
};
const WEIGHT = { NoExecute: 3, NoSchedule: 2, None: 1 };
const MODEL_ATTRIBUTES = ["productName", "model", "product", "family", "type", "kind"];

const key3 = (driver, pool, device) => `${driver}/${pool}/${device}`;

export class Device {
  constructor(driver, pool, name) {
    this.key = key3(driver, pool, name);
    this.driver = driver;
    this.pool = pool;
    this.name = name;
    this.node = null;
    this.slice = null;
    this.spec = null;
    /** The same with what patches override. */
    this.patched = null;
    this.taints = [];
    this.claims = new Set();
    this.state = "free";
    this.origin = "none";
    this.changed = 0;
    this.known = false;
  }

  get model() {
    for (const name of MODEL_ATTRIBUTES) {
      for (const [key, value] of Object.entries((this.patched ?? this.spec)?.attributes ?? {})) {
        if ((key === name || key.endsWith(`/${name}`)) && typeof value.string === "string") return value.string;
      }
    }
    return null;
  }
}

/** `key=value:Effect`. */
export const taintText = (taint) => `${taint.key}${taint.value ? `=${taint.value}` : ""}:${taint.effect}`;

export class Fleet {
  constructor() {
    this.slices = new Map();
    this.claims = new Map();
    this.rules = new Map();
    this.patches = new Map();
    this.incidents = new Map();
    this.nodes = new Map();
    this.guards = new Map();
    this.pools = new Map();
    this.slicesByPool = new Map();
    this.devices = new Map();
    /** Keys of devices by the UID of the pod that uses them. */
    this.byPod = new Map();
    /** Called when a pod gives up a device: `(pod, key)`. */
    this.onRelease = null;
    this.openIncident = new Map();
    /** Rules and patches by the one device that they name, as `kind name`. */
    this.exact = new Map();
    /** Selectors of all other rules and patches. */
    this.wide = new Map();
    /** Taints that slices of taints set, by device. */
    this.sliceTaints = new Map();
    this.stale = new Set();
    /** When rules and incidents were first seen here, by UID. */
    this.firstSeen = new Map();
    this.hidden = { claims: false };
    /** Devices by rule or patch, for those that only the Rust core can evaluate: classes and expressions. */
    this.selected = new Map();
    /** Class names by device, once somebody asked for them. */
    this.classes = new Map();
    this.version = 0;
    /** Counted up when devices came or went: the map has to be laid out again. */
    this.shape = 0;
    this.clock = () => Date.now();
    this.listeners = new Set();
  }

  /** What a follower of one kind feeds. */
  sink(kind) {
    return {
      reset: (items) => this.reset(kind, items),
      set: (object) => this.set(kind, object),
      remove: (object) => this.remove(kind, object),
      refused: () => { if (kind === "claims") this.hidden.claims = true; this.touch(); },
    };
  }

  reset(kind, items) {
    const there = new Set(items.map(idOf));
    for (const [id, object] of [...this[kind]]) if (!there.has(id)) this.remove(kind, object);
    for (const item of items) this.set(kind, item);
  }

  set(kind, object) {
    const id = idOf(object);
    const before = this[kind].get(id);
    this[kind].set(id, object);
    if (kind === "rules" || kind === "incidents") this.#saw(before, object);
    this.#changed(kind, id, before, object);
    this.touch();
  }

  remove(kind, object) {
    const id = idOf(object);
    const before = this[kind].get(id);
    if (!before) return;
    this[kind].delete(id);
    this.firstSeen.delete(before.metadata.uid);
    this.#changed(kind, id, before, null);
    this.touch();
  }

  #saw(before, { metadata: { uid } }) {
    if (before && before.metadata.uid !== uid) this.firstSeen.delete(before.metadata.uid);
    if (!this.firstSeen.has(uid)) this.firstSeen.set(uid, this.clock());
  }

  #changed(kind, id, before, now) {
    if (kind === "slices") this.#slice(id, before, now);
    if (kind === "claims") this.#claim(id, before, now);
    if (kind === "rules" || kind === "patches") this.#selecting(kind, id, before, now);
    if (kind === "incidents") this.#incident(id, before, now);
  }

  #slice(id, before, now) {
    if (now) {
      const pool = `${now.spec.driver}/${now.spec.pool.name}`;
      const names = this.slicesByPool.get(pool) ?? new Set();
      this.slicesByPool.set(pool, names.add(id));
    }
    if (before?.spec.taints || now?.spec.taints) this.#taintSlice(id, before, now);
    for (const slice of [before, now]) if (slice) this.#pool(slice.spec.driver, slice.spec.pool.name);
  }

  /** A slice of taints has no devices of its own. */
  #taintSlice(id, before, now) {
    for (const { device } of before?.spec.taints ?? []) {
      const key = key3(before.spec.driver, before.spec.pool.name, device);
      this.sliceTaints.get(key)?.delete(id);
      if (this.sliceTaints.get(key)?.size === 0) this.sliceTaints.delete(key);
      this.stale.add(key);
    }
    for (const { device, taint } of now?.spec.taints ?? []) {
      const key = key3(now.spec.driver, now.spec.pool.name, device);
      const slices = this.sliceTaints.get(key) ?? new Map();
      slices.set(id, [...(slices.get(id) ?? []), taint]);
      this.sliceTaints.set(key, slices);
      this.stale.add(key);
    }
  }

  /** A pool is what the slices of its newest generation say. */
  #pool(driver, name) {
    const id = `${driver}/${name}`;
    const pool = this.pools.get(id) ?? { devices: new Set() };
    this.pools.set(id, pool);
    const slices = this.#slicesOf(driver, name);
    const generation = Math.max(0, ...slices.map((slice) => slice.spec.pool.generation ?? 0));
    const seen = new Set();
    for (const slice of slices.filter((one) => (one.spec.pool.generation ?? 0) === generation)) {
      for (const spec of slice.spec.devices ?? []) {
        const device = this.#device(driver, name, spec.name);
        device.spec = spec.basic ?? spec;
        device.slice = slice.metadata.name;
        device.node = spec.nodeName ?? slice.spec.nodeName ?? null;
        seen.add(device.key);
        this.stale.add(device.key);
      }
    }
    for (const key of pool.devices) {
      if (seen.has(key)) continue;
      const device = this.devices.get(key);
      if (device) device.spec = device.slice = null;
      this.stale.add(key);
    }
    pool.devices = seen;
    if (seen.size === 0) this.pools.delete(id);
  }

  #slicesOf(driver, name) {
    const id = `${driver}/${name}`;
    const names = this.slicesByPool.get(id) ?? new Set();
    const found = [];
    for (const slice of names) {
      const object = this.slices.get(slice);
      if (object && object.spec.driver === driver && object.spec.pool.name === name) found.push(object);
      else names.delete(slice);
    }
    if (names.size === 0) this.slicesByPool.delete(id);
    return found;
  }

  #device(driver, pool, name) {
    const key = key3(driver, pool, name);
    let device = this.devices.get(key);
    if (!device) {
      device = new Device(driver, pool, name);
      this.devices.set(key, device);
      this.shape++;
    }
    return device;
  }

  #claim(id, before, now) {
    const stays = new Set(podsOf(now).map((pod) => pod.uid));
    for (const result of results(before)) {
      const key = key3(result.driver, result.pool, result.device);
      this.devices.get(key)?.claims.delete(id);
      this.stale.add(key);
      for (const pod of podsOf(before)) {
        this.#hold(pod.uid, key, false);
        if (!stays.has(pod.uid)) this.onRelease?.({ namespace: before.metadata.namespace, name: pod.name, uid: pod.uid }, key);
      }
    }
    for (const result of results(now)) {
      const device = this.#device(result.driver, result.pool, result.device);
      device.claims.add(id);
      this.stale.add(device.key);
      for (const pod of podsOf(now)) this.#hold(pod.uid, device.key, true);
    }
  }

  #hold(uid, key, holds) {
    const keys = this.byPod.get(uid) ?? new Set();
    if (holds) keys.add(key); else keys.delete(key);
    if (keys.size) this.byPod.set(uid, keys); else this.byPod.delete(uid);
  }

  #selecting(kind, id, before, now) {
    const name = `${kind} ${id}`;
    for (const [object, add] of [[before, false], [now, true]]) {
      // A rule without a selector selects nothing; with an empty one, everything.
      const selector = object && selectorOf(object);
      if (!selector) continue;
      const { driver, pool, device } = selector;
      if (driver && pool && device && !isOpaque(selector)) {
        const key = key3(driver, pool, device);
        const names = this.exact.get(key) ?? new Set();
        if (add) names.add(name); else names.delete(name);
        if (names.size) this.exact.set(key, names); else this.exact.delete(key);
        this.stale.add(key);
      } else {
        if (add) this.wide.set(name, selector); else this.wide.delete(name);
        if (!now) this.selected.delete(name);
        for (const one of this.devices.values()) if (!driver || one.driver === driver) this.stale.add(one.key);
      }
    }
  }

  #incident(id, before, now) {
    for (const incident of [before, now]) if (incident) this.stale.add(incidentDevice(incident));
    if (before) {
      const key = incidentDevice(before);
      if (this.openIncident.get(key) === id) this.openIncident.delete(key);
    }
    if (now && stageOf(now) !== "Cleared") this.openIncident.set(incidentDevice(now), id);
  }

  /** What the core answered for a rule or a patch that the page cannot evaluate itself. */
  setSelection(name, keys) {
    const before = this.selected.get(name);
    this.selected.set(name, keys);
    for (const key of [...(before ?? []), ...keys]) this.stale.add(key);
    this.touch();
  }

  /** Rules and patches whose devices only the core can tell, as `kind name`. */
  opaque() {
    return [...this.wide].filter(([, selector]) => isOpaque(selector)).map(([name]) => name);
  }

  #object(name) {
    const at = name.indexOf(" ");
    return this[name.slice(0, at)].get(name.slice(at + 1));
  }

  #ofKind(kind, device) {
    const found = [...(this.exact.get(device.key) ?? [])];
    for (const [name, selector] of this.wide) {
      const fits = isOpaque(selector)
        ? this.selected.get(name)?.has(device.key)
        : (!selector.driver || selector.driver === device.driver) && (!selector.pool || selector.pool === device.pool)
          && (!selector.device || selector.device === device.name);
      if (fits) found.push(name);
    }
    return found.filter((name) => name.startsWith(kind)).map((name) => this.#object(name)).filter(Boolean);
  }

  #rulesFor(device) {
    return this.#ofKind("rules", device);
  }

  /** The strongest patch first. */
  #patchesFor(device) {
    const list = this.#ofKind("patches", device);
    return list.sort((a, b) => (b.spec.devices.priority ?? 0) - (a.spec.devices.priority ?? 0) || (a.metadata.name < b.metadata.name ? -1 : 1));
  }

  touch() {
    if (this.pending) return;
    this.pending = true;
    queueMicrotask(() => {
      this.pending = false;
      this.settle();
      for (const listener of this.listeners) listener();
    });
  }

  /** Brings every device that something changed for up to date. */
  settle() {
    const now = this.clock();
    for (const key of this.stale) {
      const device = this.devices.get(key);
      if (!device) continue;
      if (!device.spec && device.claims.size === 0) {
        this.devices.delete(key);
        this.shape++;
        continue;
      }
      const before = device.state;
      this.#derive(device);
      // A device that is new here did not change before somebody's eyes.
      if (before !== device.state && device.known) device.changed = now;
      device.known = true;
    }
    if (this.stale.size) this.version++;
    this.stale.clear();
  }

  #derive(device) {
    const patches = this.patches.size ? this.#patchesFor(device) : [];
    device.patched = patches.length && device.spec ? patched(device.spec, patches) : device.spec;
    const taints = this.#published(device, patches);
    for (const rule of this.#rulesFor(device)) {
      if (!isInForce(rule)) continue;
      taints.push({
        ...rule.spec.taint, origin: originOf(rule), by: rule.metadata.name,
        reason: rule.metadata.annotations?.["lazaret.dev/reason"], setBy: rule.metadata.annotations?.["lazaret.dev/set-by"],
      });
    }
    device.taints = taints;
    const strongest = taints.reduce((best, taint) => ((WEIGHT[taint.effect] ?? 0) > (WEIGHT[best?.effect] ?? 0) ? taint : best), null);
    device.origin = strongest?.origin ?? "none";
    const incident = this.incidents.get(this.openIncident.get(device.key));
    device.state = stateOf(device, strongest?.effect, incident);
  }

  /** Taints of the driver and of patches: of two with the same key and effect, that of the stronger patch counts, then the driver's. */
  #published(device, patches) {
    const taints = [];
    const overridden = (taint) => taints.some((one) => one.origin === "patch" && one.key === taint.key && one.effect === taint.effect);
    for (const patch of patches) {
      const set = (patch.spec.devices.taints ?? []).filter((taint) => !overridden(taint));
      taints.push(...set.map((taint) => ({ ...taint, origin: "patch", by: patch.metadata.name, reason: patch.metadata.annotations?.["lazaret.dev/reason"] })));
    }
    const own = (device.spec?.taints ?? []).map((taint) => ({ ...taint, origin: "driver", by: device.slice }));
    for (const [slice, list] of this.sliceTaints.get(device.key) ?? []) own.push(...list.map((taint) => ({ ...taint, origin: "driver", by: slice })));
    return [...own.filter((taint) => !overridden(taint)), ...taints];
  }

  incidentOf(device) {
    return this.incidents.get(this.openIncident.get(device.key)) ?? null;
  }

  /** `[{claim, pods}]` of a device. */
  holders(device) {
    return [...device.claims].map((id) => this.claims.get(id)).filter(Boolean).map((claim) => ({
      claim, namespace: claim.metadata.namespace, name: claim.metadata.name,
      pods: podsOf(claim).map((one) => one.name), uids: podsOf(claim).map((one) => one.uid),
    }));
  }

  devicesOfRule(rule) {
    const { driver, pool, device } = rule.spec.deviceSelector ?? {};
    if (!this.wide.has(`rules ${idOf(rule)}`)) {
      const one = this.devices.get(key3(driver, pool, device));
      return one ? [one] : [];
    }
    return [...this.devices.values()].filter((one) => this.#rulesFor(one).includes(rule));
  }

  counts(devices = this.devices.values()) {
    const counts = new Array(STATES.length).fill(0);
    for (const device of devices) counts[STATE_INDEX.get(device.state)]++;
    return counts;
  }
}

const selectorOf = (object) => object.spec.deviceSelector ?? object.spec.devices?.deviceSelector ?? object.spec.devices?.filter;
const isOpaque = (selector) => Boolean(selector.selectors?.length || selector.deviceClassName);
const condition = (object, type) => object.status?.conditions?.find((one) => one.type === type);

/** Whether a rule taints: not while it is held, nor once it has expired. As the cores decide it. */
export function isInForce(rule) {
  const generation = rule.metadata.generation;
  const isOfThisSpec = (said) => said.observedGeneration === generation;
  const expired = condition(rule, "Expired");
  if (expired?.status === "True" && isOfThisSpec(expired)) return false;
  const needsDecision = Boolean(rule.metadata.annotations?.["lazaret.dev/written-by"]);
  const held = condition(rule, "Held");
  if (!held) return !needsDecision;
  return isOfThisSpec(held) ? held.status === "False" : !(needsDecision || held.status === "True");
}

/** What patches make of a device: the strongest comes first and says what counts; null removes. */
function patched(spec, patches) {
  const merged = { ...spec };
  for (const field of ["attributes", "capacity"]) {
    const values = { ...spec[field] };
    for (const patch of [...patches].reverse()) {
      for (const [name, value] of Object.entries(patch.spec.devices[field] ?? {})) {
        if (value?.null) delete values[name]; else values[name] = value;
      }
    }
    merged[field] = values;
  }
  return merged;
}

function stateOf(device, effect, incident) {
  if (!device.spec) return "gone";
  const stage = incident && BY_STAGE[stageOf(incident)];
  const held = device.claims.size > 0;
  if (stage && (incident.status?.enforced === true || stage === "suspect")) return stage;
  if (effect === "NoExecute") return held ? "draining" : "noschedule";
  if (effect === "NoSchedule") return "noschedule";
  if (effect === "None" || stage) return "suspect";
  return held ? "inuse" : "free";
}

function originOf(rule) {
  if ((rule.metadata.ownerReferences ?? []).some((owner) => owner.apiVersion?.startsWith("lazaret.dev/"))) return "policy";
  const byHand = rule.metadata.labels?.["app.kubernetes.io/managed-by"] === "kubectl-device" || rule.metadata.annotations?.["lazaret.dev/set-by"];
  return byHand ? "person" : "rule";
}

export const idOf = (object) => (object.metadata.namespace ? `${object.metadata.namespace}/${object.metadata.name}` : object.metadata.name);
export const stageOf = (incident) => incident.status?.stage || incident.spec?.stage || "";
export function incidentDevice(incident) {
  const at = incident.status?.device ?? incident.spec?.device ?? {};
  return key3(at.driver, at.pool, at.device);
}
const podsOf = (claim) => (claim?.status?.reservedFor ?? []).filter((one) => one.resource === "pods");
const results = (claim) => claim?.status?.allocation?.devices?.results ?? [];

/**
 * A filter in the words of `kubectl device list`: `node=node-1 driver=… state=draining model=… taint=… ns=… tainted`, and any other word
 * as a part of the name. All words have to fit.
 */
export function parseFilter(text) {
  const words = text.trim().toLowerCase().split(/\s+/).filter(Boolean);
  const tests = words.map((word) => {
    const [name, ...rest] = word.split("=");
    const value = rest.join("=");
    if (rest.length) {
      switch (name) {
        case "node": return (device) => (device.node ?? "").toLowerCase() === value || wild(value, device.node);
        case "driver": return (device) => wild(value, device.driver);
        case "pool": return (device) => wild(value, device.pool);
        case "model": return (device) => (device.model ?? "").toLowerCase().includes(value);
        case "state": return (device) => device.state === value || device.state === value.replace(/[- ]/g, "");
        case "taint": return (device) => device.taints.some((taint) => taintText(taint).toLowerCase().includes(value));
        case "ns": case "namespace": return (device) => [...device.claims].some((claim) => claim.startsWith(`${value}/`));
      }
    }
    if (word === "tainted") return (device) => device.taints.length > 0;
    return (device) => device.key.toLowerCase().includes(word) || (device.node ?? "").toLowerCase().includes(word);
  });
  return (device) => tests.every((test) => test(device));
}

function wild(pattern, text) {
  if (!pattern.includes("*")) return (text ?? "").toLowerCase() === pattern;
  const parts = pattern.split("*").map((part) => part.replace(/[.+?^${}()|[\]\\]/g, "\\$&"));
  return new RegExp(`^${parts.join(".*")}$`).test((text ?? "").toLowerCase());
}
