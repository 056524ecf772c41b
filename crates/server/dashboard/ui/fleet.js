// Devices and what is known of them, from slices, claims, rules and incidents. Plain data and plain functions: no page, no network.

/**
 * @import { Condition, DeviceTaint, NullableDeviceAttribute } from "./types/api"
 * @import { AnyObject, Changes, Claim, DeviceSpec, Holder, Incident, Kind, Kinds, Leaver, Maps, Origin, Patch, Rule, Selection, Selector, Sink, Slice, State, Taint } from "./types/page"
 */

/**
 * In the order in which people read them.
 * @type {[State, string, string][]}
 */
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
/** A state in words. @param {State} state */
export const stateWord = (state) => STATES[STATE_INDEX.get(state) ?? 0]?.[1] ?? "";
/** The writers of taints, as the corner of a cell shows them. @type {Origin[]} */
export const ORIGINS = ["none", "driver", "rule", "patch", "policy", "person"];

/** @type {Record<string, State>} */
const BY_STAGE = {
  Suspect: "suspect", Quarantined: "noschedule", Draining: "draining", Repairing: "repairing", Abandoned: "repairing", Probation: "probation",
};
/** @type {Record<string, number>} */
const WEIGHT = { NoExecute: 3, NoSchedule: 2, None: 1 };
const MODEL_ATTRIBUTES = ["productName", "model", "product", "family", "type", "kind"];

/** @param {string | undefined} driver @param {string | undefined} pool @param {string | undefined} device */
const key3 = (driver, pool, device) => `${driver}/${pool}/${device}`;

export class Device {
  /** @param {string} driver @param {string} pool @param {string} name */
  constructor(driver, pool, name) {
    this.key = key3(driver, pool, name);
    this.driver = driver;
    this.pool = pool;
    this.name = name;
    /** @type {string | null} */
    this.node = null;
    /** @type {string | null} */
    this.slice = null;
    /** @type {DeviceSpec | null} */
    this.spec = null;
    /** The same with what patches override. @type {DeviceSpec | null} */
    this.patched = null;
    /** @type {Taint[]} */
    this.taints = [];
    /** @type {Set<string>} */
    this.claims = new Set();
    /** @type {State} */
    this.state = "free";
    /** @type {Origin} */
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

/** `key=value:Effect`. @param {DeviceTaint} taint */
export const taintText = (taint) => `${taint.key}${taint.value ? `=${taint.value}` : ""}:${taint.effect}`;

export class Fleet {
  constructor() {
    /** @type {Maps["slices"]} */
    this.slices = new Map();
    /** @type {Maps["claims"]} */
    this.claims = new Map();
    /** @type {Maps["rules"]} */
    this.rules = new Map();
    /** @type {Maps["patches"]} */
    this.patches = new Map();
    /** @type {Maps["incidents"]} */
    this.incidents = new Map();
    /** @type {Maps["nodes"]} */
    this.nodes = new Map();
    /** @type {Maps["guards"]} */
    this.guards = new Map();
    /** @type {Map<string, { devices: Set<string> }>} */
    this.pools = new Map();
    /** @type {Map<string, Set<string>>} */
    this.slicesByPool = new Map();
    /** @type {Map<string, Device>} */
    this.devices = new Map();
    /** Keys of devices by the UID of the pod that uses them. @type {Map<string, Set<string>>} */
    this.byPod = new Map();
    /** Called when a pod gives up a device. @type {((pod: Leaver, key: string) => void) | null} */
    this.onRelease = null;
    /** Names of incidents that are not cleared, by device. @type {Map<string, Set<string>>} */
    this.openIncidents = new Map();
    /** Rules and patches by the one device that they name, as `kind name`. @type {Map<string, Set<string>>} */
    this.exact = new Map();
    /** Selectors of all other rules and patches. @type {Map<string, Selector>} */
    this.wide = new Map();
    /** Taints that slices of taints set, by device, then by slice. @type {Map<string, Map<string, DeviceTaint[]>>} */
    this.sliceTaints = new Map();
    /** @type {Set<string>} */
    this.stale = new Set();
    /** When rules and incidents were first seen here, by UID. @type {Map<string, number>} */
    this.firstSeen = new Map();
    this.hidden = { claims: false };
    /** Devices by rule or patch, for those that only the Rust core can evaluate: classes and expressions. @type {Map<string, Selection>} */
    this.selected = new Map();
    /** Class names by device, once somebody asked for them. @type {Map<string, string[]>} */
    this.classes = new Map();
    this.version = 0;
    /** Counted up when devices came or went: the map has to be laid out again. */
    this.shape = 0;
    this.clock = () => Date.now();
    /** @type {Set<() => unknown>} */
    this.listeners = new Set();
    this.pending = false;
    /** @type {Changes} */
    this.changes = {
      slices: (id, before, now) => this.#slice(id, before, now),
      claims: (id, before, now) => this.#claim(id, before, now),
      rules: (id, before, now) => { this.#saw(before, now); this.#selecting("rules", id, before, now); },
      patches: (id, before, now) => this.#selecting("patches", id, before, now),
      incidents: (id, before, now) => { this.#saw(before, now); this.#incident(id, before, now); },
    };
  }

  /** @template {Kind} K @param {K} kind @returns {Map<string, Kinds[K]>} */
  #map(kind) {
    /** @type {Maps} */
    const maps = this;
    return maps[kind];
  }

  /** Takes the objects of one kind from a follower. @template {Kind} K @param {K} kind @returns {Sink<Kinds[K]>} */
  sink(kind) {
    return {
      reset: (items) => this.reset(kind, items),
      set: (object) => this.set(kind, object),
      remove: (object) => this.remove(kind, object),
      refused: () => { if (kind === "claims") this.hidden.claims = true; this.touch(); },
    };
  }

  /** Takes the whole list of a kind. An object that is known in the same version did not change. @template {Kind} K @param {K} kind @param {Kinds[K][]} items */
  reset(kind, items) {
    const there = new Set(items.map(idOf));
    for (const [id, object] of [...this.#map(kind)]) if (!there.has(id)) this.remove(kind, object);
    for (const item of items) if (!isSame(this.#map(kind).get(idOf(item)), item)) this.set(kind, item);
  }

  /** @template {Kind} K @param {K} kind @param {Kinds[K]} object */
  set(kind, object) {
    const id = idOf(object);
    const before = this.#map(kind).get(id);
    this.#map(kind).set(id, object);
    this.changes[kind]?.(id, before, object);
    this.touch();
  }

  /** @template {Kind} K @param {K} kind @param {Kinds[K]} object */
  remove(kind, object) {
    const id = idOf(object);
    const before = this.#map(kind).get(id);
    if (!before) return;
    this.#map(kind).delete(id);
    this.changes[kind]?.(id, before, null);
    this.touch();
  }

  /** @param {AnyObject | undefined} before @param {AnyObject | null} now */
  #saw(before, now) {
    if (before && before.metadata.uid !== now?.metadata.uid) this.firstSeen.delete(before.metadata.uid);
    if (now && !this.firstSeen.has(now.metadata.uid)) this.firstSeen.set(now.metadata.uid, this.clock());
  }

  /** @param {string} id @param {Slice | undefined} before @param {Slice | null} now */
  #slice(id, before, now) {
    if (now) {
      const pool = `${now.spec.driver}/${now.spec.pool.name}`;
      const names = this.slicesByPool.get(pool) ?? new Set();
      this.slicesByPool.set(pool, names.add(id));
    }
    if (before?.spec.taints || now?.spec.taints) this.#taintSlice(id, before, now);
    for (const slice of [before, now]) if (slice) this.#pool(slice.spec.driver, slice.spec.pool.name);
  }

  /** A slice of taints has no devices of its own. @param {string} id @param {Slice | undefined} before @param {Slice | null} now */
  #taintSlice(id, before, now) {
    for (const { device } of before?.spec.taints ?? []) {
      const key = key3(before?.spec.driver, before?.spec.pool.name, device);
      this.sliceTaints.get(key)?.delete(id);
      if (this.sliceTaints.get(key)?.size === 0) this.sliceTaints.delete(key);
      this.stale.add(key);
    }
    for (const { device, taint } of now?.spec.taints ?? []) {
      const key = key3(now?.spec.driver, now?.spec.pool.name, device);
      const slices = this.sliceTaints.get(key) ?? new Map();
      slices.set(id, [...(slices.get(id) ?? []), taint]);
      this.sliceTaints.set(key, slices);
      this.stale.add(key);
    }
  }

  /** A pool is what the slices of its newest generation say. @param {string} driver @param {string} name */
  #pool(driver, name) {
    const id = `${driver}/${name}`;
    const pool = this.pools.get(id) ?? { devices: /** @type {Set<string>} */ (new Set()) };
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

  /** @param {string} driver @param {string} name */
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
    return found.sort((a, b) => (a.metadata.name < b.metadata.name ? -1 : 1));
  }

  /** @param {string} driver @param {string} pool @param {string} name */
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

  /** @param {string} id @param {Claim | undefined} before @param {Claim | null} now */
  #claim(id, before, now) {
    const stays = new Set(podsOf(now).map((pod) => pod.uid));
    for (const result of results(before)) {
      const key = key3(result.driver, result.pool, result.device);
      this.devices.get(key)?.claims.delete(id);
      this.stale.add(key);
      for (const pod of podsOf(before)) {
        this.#hold(pod.uid, key, false);
        if (before && !stays.has(pod.uid)) this.onRelease?.({ namespace: before.metadata.namespace, name: pod.name, uid: pod.uid }, key);
      }
    }
    for (const result of results(now)) {
      const device = this.#device(result.driver, result.pool, result.device);
      device.claims.add(id);
      this.stale.add(device.key);
      for (const pod of podsOf(now)) this.#hold(pod.uid, device.key, true);
    }
  }

  /** @param {string} uid @param {string} key @param {boolean} holds */
  #hold(uid, key, holds) {
    const keys = this.byPod.get(uid) ?? new Set();
    if (holds) keys.add(key); else keys.delete(key);
    if (keys.size) this.byPod.set(uid, keys); else this.byPod.delete(uid);
  }

  /** @param {Kind} kind @param {string} id @param {Rule | Patch | undefined} before @param {Rule | Patch | null} now */
  #selecting(kind, id, before, now) {
    const name = `${kind} ${id}`;
    for (const object of [before, now]) {
      // A rule without a selector selects nothing; with an empty one, everything.
      const selector = object && selectorOf(object);
      if (!selector) continue;
      const add = object === now;
      const { driver, pool, device } = selector;
      if (driver && pool && device && !isOpaque(selector)) {
        const key = key3(driver, pool, device);
        const names = this.exact.get(key) ?? new Set();
        if (add) names.add(name); else names.delete(name);
        if (names.size) this.exact.set(key, names); else this.exact.delete(key);
        this.stale.add(key);
      } else {
        if (add) this.wide.set(name, selector); else this.wide.delete(name);
        for (const one of this.devices.values()) if (!driver || one.driver === driver) this.stale.add(one.key);
      }
    }
    // A selection counts for as long as the page cannot evaluate the selector itself.
    if (!this.wide.has(name)) this.selected.delete(name);
  }

  /** @param {string} id @param {Incident | undefined} before @param {Incident | null} now */
  #incident(id, before, now) {
    for (const incident of [before, now]) {
      if (!incident) continue;
      const key = incidentDevice(incident);
      const open = this.openIncidents.get(key) ?? new Set();
      if (incident === now && stageOf(incident) !== "Cleared") open.add(id); else open.delete(id);
      if (open.size) this.openIncidents.set(key, open); else this.openIncidents.delete(key);
      this.stale.add(key);
    }
  }

  /** Takes the answer of the cores for a rule or a patch that the page cannot evaluate itself. @param {string} name @param {Selection} keys */
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

  /** Names of the rules or patches that select a device. @param {string} kind @param {Device} device */
  #naming(kind, device) {
    const found = [...(this.exact.get(device.key) ?? [])];
    for (const [name, selector] of this.wide) {
      const fits = isOpaque(selector)
        ? this.selected.get(name)?.has(device.key)
        : (!selector.driver || selector.driver === device.driver) && (!selector.pool || selector.pool === device.pool)
          && (!selector.device || selector.device === device.name);
      if (fits) found.push(name);
    }
    return found.filter((name) => name.startsWith(`${kind} `)).map((name) => name.slice(kind.length + 1));
  }

  /** @param {Device} device */
  #rulesFor(device) {
    return present(this.#naming("rules", device).map((name) => this.rules.get(name)));
  }

  /** The strongest patch first. @param {Device} device */
  #patchesFor(device) {
    const list = present(this.#naming("patches", device).map((name) => this.patches.get(name)));
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

  /** @param {Device} device */
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
    const strongest = taints.reduce((best, taint) => ((WEIGHT[taint.effect] ?? 0) > (WEIGHT[best?.effect ?? ""] ?? 0) ? taint : best), /** @type {Taint | null} */ (null));
    device.origin = strongest?.origin ?? "none";
    const incident = this.incidentOf(device);
    device.state = stateOf(device, strongest?.effect, incident);
  }

  /** Taints of the driver and of patches: of two with the same key and effect, that of the stronger patch counts, then the driver's. @param {Device} device @param {Patch[]} patches @returns {Taint[]} */
  #published(device, patches) {
    /** @type {Taint[]} */
    const taints = [];
    /** @param {DeviceTaint} taint */
    const overridden = (taint) => taints.some((one) => one.origin === "patch" && one.key === taint.key && one.effect === taint.effect);
    for (const patch of patches) {
      const set = (patch.spec.devices.taints ?? []).filter((taint) => !overridden(taint));
      taints.push(...set.map((taint) => ({ ...taint, origin: /** @type {const} */ ("patch"), by: patch.metadata.name, reason: patch.metadata.annotations?.["lazaret.dev/reason"] })));
    }
    /** @type {Taint[]} */
    const own = (device.spec?.taints ?? []).map((taint) => ({ ...taint, origin: "driver", by: device.slice ?? "" }));
    for (const [slice, list] of this.sliceTaints.get(device.key) ?? []) own.push(...list.map((taint) => ({ ...taint, origin: /** @type {const} */ ("driver"), by: slice })));
    return [...own.filter((taint) => !overridden(taint)), ...taints];
  }

  /** The open incident of a device; of several, the one that was opened last. @param {{ key?: string }} device */
  incidentOf(device) {
    const ids = this.openIncidents.get(device.key ?? "");
    if (!ids) return null;
    const open = present([...ids].map((id) => this.incidents.get(id)));
    /** @param {Incident} incident */
    const age = ({ spec, metadata }) => `${spec.openedAt} ${metadata.name}`;
    return open.reduce((last, one) => (last && age(last) > age(one) ? last : one), /** @type {Incident | null} */ (null));
  }

  /** Claims on a device, with their pods. @param {Device} device @returns {Holder[]} */
  holders(device) {
    return present([...device.claims].map((id) => this.claims.get(id))).map((claim) => ({
      claim, namespace: claim.metadata.namespace, name: claim.metadata.name,
      pods: podsOf(claim).map((one) => one.name), uids: podsOf(claim).map((one) => one.uid),
    }));
  }

  /** @param {Rule} rule */
  devicesOfRule(rule) {
    const { driver, pool, device } = rule.spec.deviceSelector ?? {};
    if (!this.wide.has(`rules ${idOf(rule)}`)) {
      const one = this.devices.get(key3(driver, pool, device));
      return one ? [one] : [];
    }
    return [...this.devices.values()].filter((one) => this.#rulesFor(one).includes(rule));
  }

  /** Numbers of devices in the order of `STATES`. @param {Iterable<Device>} [devices] */
  counts(devices = this.devices.values()) {
    const counts = STATES.map(() => 0);
    for (const device of devices) {
      const at = STATE_INDEX.get(device.state) ?? 0;
      counts[at] = (counts[at] ?? 0) + 1;
    }
    return counts;
  }
}

/** @template T @param {(T | undefined | null)[]} list @returns {T[]} */
const present = (list) => list.flatMap((one) => (one === undefined || one === null ? [] : [one]));
/** @param {Rule | Patch} object */
const selectorOf = ({ spec }) => ("devices" in spec ? spec.devices.filter : spec.deviceSelector);
/** @param {Selector} selector */
const isOpaque = (selector) => Boolean(selector.selectors?.length || selector.deviceClassName);
/** @param {Rule} object @param {string} type */
const condition = (object, type) => object.status?.conditions?.find((one) => one.type === type);

/** Whether a rule taints: not while it is held, nor once it has expired. As the cores decide it. @param {Rule} rule */
export function isInForce(rule) {
  const generation = rule.metadata.generation;
  /** @param {Condition} said */
  const isOfThisSpec = (said) => said.observedGeneration === generation;
  const expired = condition(rule, "Expired");
  if (expired?.status === "True" && isOfThisSpec(expired)) return false;
  const needsDecision = Boolean(rule.metadata.annotations?.["lazaret.dev/written-by"]);
  const held = condition(rule, "Held");
  if (!held) return !needsDecision;
  return isOfThisSpec(held) ? held.status === "False" : !(needsDecision || held.status === "True");
}

/** A device with the patches that select it: the strongest comes first and says what counts; null removes. @param {DeviceSpec} spec @param {Patch[]} patches */
function patched(spec, patches) {
  const attributes = overridden(spec.attributes, patches.map((patch) => patch.spec.devices.attributes));
  const capacity = overridden(spec.capacity, patches.map((patch) => patch.spec.devices.capacity));
  return { ...spec, attributes, capacity };
}

/** @template {object} T @param {Record<string, T> | undefined} own @param {(Record<string, Partial<T> & Pick<NullableDeviceAttribute, "null">> | undefined)[]} changes */
function overridden(own, changes) {
  const values = { ...own };
  for (const change of [...changes].reverse()) {
    for (const [name, value] of Object.entries(change ?? {})) {
      if (value.null) delete values[name]; else values[name] = /** @type {T} */ (value);
    }
  }
  return values;
}

/** @param {Device} device @param {string | undefined} effect @param {Incident | null} incident @returns {State} */
function stateOf(device, effect, incident) {
  if (!device.spec) return "gone";
  const stage = incident ? BY_STAGE[stageOf(incident)] : undefined;
  const held = device.claims.size > 0;
  if (stage && (incident?.status?.enforced === true || stage === "suspect")) return stage;
  if (effect === "NoExecute") return held ? "draining" : "noschedule";
  if (effect === "NoSchedule") return "noschedule";
  if (effect === "None" || stage) return "suspect";
  return held ? "inuse" : "free";
}

/** @param {Rule} rule @returns {Origin} */
function originOf(rule) {
  if ((rule.metadata.ownerReferences ?? []).some((owner) => owner.apiVersion?.startsWith("lazaret.dev/"))) return "policy";
  const byHand = rule.metadata.labels?.["app.kubernetes.io/managed-by"] === "kubectl-device" || rule.metadata.annotations?.["lazaret.dev/set-by"];
  return byHand ? "person" : "rule";
}

/** @param {AnyObject} object */
export const idOf = (object) => (object.metadata.namespace ? `${object.metadata.namespace}/${object.metadata.name}` : object.metadata.name);
/** @param {AnyObject | undefined} known @param {AnyObject} now */
const isSame = (known, { metadata }) => known !== undefined && metadata.resourceVersion !== undefined && known.metadata.uid === metadata.uid && known.metadata.resourceVersion === metadata.resourceVersion;
/** @param {Incident} incident */
export const stageOf = (incident) => incident.status?.stage || incident.spec?.stage || "";
/** @param {Incident} incident */
export function incidentDevice(incident) {
  const at = incident.status?.device ?? incident.spec?.device;
  return key3(at?.driver, at?.pool, at?.device);
}
/** @param {Claim | null | undefined} claim */
const podsOf = (claim) => (claim?.status?.reservedFor ?? []).filter((one) => one.resource === "pods");
/** @param {Claim | null | undefined} claim */
const results = (claim) => claim?.status?.allocation?.devices?.results ?? [];

/**
 * A filter in the words of `kubectl device list`: `node=node-1 driver=… state=draining model=… taint=… ns=… tainted`, and any other word
 * as a part of the name. All words have to fit.
 * @param {string} text
 * @returns {(device: Device) => boolean}
 */
export function parseFilter(text) {
  const words = text.trim().toLowerCase().split(/\s+/).filter(Boolean);
  const tests = words.map(/** @returns {(device: Device) => boolean} */ (word) => {
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

/** @param {string} pattern @param {string | null} text */
function wild(pattern, text) {
  if (!pattern.includes("*")) return (text ?? "").toLowerCase() === pattern;
  const parts = pattern.split("*").map((part) => part.replace(/[.+?^${}()|[\]\\]/g, "\\$&"));
  return new RegExp(`^${parts.join(".*")}$`).test((text ?? "").toLowerCase());
}
