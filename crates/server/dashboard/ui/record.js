// A recording: the objects at its beginning and every change after. One JSON file, as `lazaret device record` writes it.

/** @import { AnyObject, Kinds, RecordedEvent, RecordedKind, RecordedObject, Recording, Resource, Served, Shape } from "./types/page" */
/** @import { Fleet } from "./fleet.js" */

/** @type {Record<RecordedKind, string>} */
const NAME_OF = { slices: "ResourceSlice", claims: "ResourceClaim", rules: "DeviceTaintRule", patches: "ResourceSlicePatch", incidents: "DeviceIncident" };
export const RECORDED = /** @type {RecordedKind[]} */ (Object.keys(NAME_OF));
const KIND_OF = new Map(RECORDED.map((kind) => [NAME_OF[kind], kind]));
/** The page keeps this many changes; older ones are folded into the beginning. */
export const EVENTS_MAX = 5_000;
/** And no more than this, an object counting for one and a device in it for another: slices of many devices are large. */
export const WEIGHT_MAX = 60_000;
const FILE_CHARS_MAX = 256 << 20;

/** @param {string} kind @returns {kind is RecordedKind} */
const isRecorded = (kind) => kind in NAME_OF;
/** @param {AnyObject} object */
const idOf = ({ metadata }) => `${metadata.namespace ?? ""}/${metadata.name}`;

/** @typedef {RecordedObject & { at: number, method: "set" | "remove" }} Change */

/** Keeps what happened while the page was open. */
export class Recorder {
  /** @param {Fleet} fleet */
  constructor(fleet, clock = () => Date.now()) {
    this.fleet = fleet;
    this.clock = clock;
    /** The objects at the beginning, by kind and name. @type {Map<string, RecordedObject>} */
    this.base = new Map();
    /** @type {Change[]} */
    this.events = [];
    this.weight = 0;
    this.start0 = clock();
    this.quiet = false;
    /** @type {Record<RecordedKind, string>} */
    this.versions = { slices: "", claims: "", rules: "", patches: "", incidents: "" };
  }

  /** `served` says in which version each kind is read: lists leave that out of their items. @param {Served} served */
  start(served) {
    /** @param {Resource | null} resource */
    const version = (resource) => (resource ? `${resource.group}/${resource.version}` : "");
    this.versions = { slices: version(served.slices), claims: version(served.claims), rules: version(served.rules), patches: version(served.patches), incidents: version(served.deviceincidents) };
    const reset = this.fleet.reset.bind(this.fleet);
    /** @type {Set<string>} */
    const begun = new Set();
    this.fleet.reset = (kind, items) => {
      // What the first list has was there before.
      if (isRecorded(kind) && !begun.has(kind)) {
        begun.add(kind);
        for (const object of items) this.#fold(recorded(kind, object), "set");
        this.quiet = true;
      }
      try { reset(kind, items); } finally { this.quiet = false; }
    };
    for (const method of /** @type {const} */ (["set", "remove"])) {
      const plain = this.fleet[method].bind(this.fleet);
      this.fleet[method] = (kind, object) => {
        if (isRecorded(kind) && !this.quiet) this.#keep(method, recorded(kind, object));
        plain(kind, object);
      };
    }
  }

  /** @param {"set" | "remove"} method @param {RecordedObject} change */
  #keep(method, change) {
    this.events.push({ ...change, at: this.clock(), method });
    this.weight += weight(change);
    while (this.events.length > EVENTS_MAX || (this.weight > WEIGHT_MAX && this.events.length > 1)) {
      const oldest = this.events.shift();
      if (!oldest) break;
      this.weight -= weight(oldest);
      this.#fold(oldest, oldest.method);
      this.start0 = oldest.at;
    }
  }

  /** Makes a change part of the beginning. @param {RecordedObject} change @param {"set" | "remove"} method */
  #fold({ kind, object }, method) {
    const id = `${kind} ${idOf(object)}`;
    if (method === "set") this.base.set(id, recorded(kind, object)); else this.base.delete(id);
  }

  /** The file. */
  recording() {
    /** @param {RecordedObject} one */
    const named = ({ kind, object }) => ({ apiVersion: this.versions[kind], kind: NAME_OF[kind], ...object });
    const base = [...this.base.values()];
    return {
      apiVersion: "lazaret.dev/v1alpha1", kind: "DeviceRecording", start: new Date(this.start0).toISOString(), end: new Date(this.clock()).toISOString(),
      objects: RECORDED.flatMap((kind) => base.filter((one) => one.kind === kind).map(named)),
      events: this.events.map((change) => ({ at: new Date(change.at).toISOString(), type: change.method === "set" ? "MODIFIED" : "DELETED", object: named(change) })),
    };
  }
}

/** @param {RecordedKind} kind @param {Kinds[keyof Kinds]} object */
const recorded = (kind, object) => /** @type {RecordedObject} */ ({ kind, object });
/** @param {RecordedObject} change */
const weight = ({ kind, object }) => 1 + (kind === "slices" ? object.spec.devices?.length ?? 0 : 0);

/** @type {{ [field: string]: Shape }} */
const TAINTED = { taints: [{}], attributes: { "*": {} }, capacity: { "*": {} } };
/** Objects with the fields by which the map is drawn: a file may come from anywhere. @type {Record<RecordedKind, Shape>} */
const SHAPES = {
  slices: { "spec!": { "driver!": "text", "pool!": { "name!": "text" }, devices: [{ "name!": "text", basic: TAINTED, ...TAINTED }], taints: [{ "taint!": {} }] } },
  claims: { status: { reservedFor: [{}], allocation: { devices: { results: [{}] } } } },
  rules: { "spec!": { "taint!": {}, deviceSelector: { selectors: [{}] } }, status: { conditions: [{}] } },
  patches: { "spec!": { "devices!": { filter: { selectors: [{}] }, ...TAINTED } } },
  incidents: { "spec!": { "device!": {}, "stage!": "text" }, status: { device: {}, times: {} } },
};
/** @type {Shape} */
const METADATA = { "name!": "text", labels: {}, annotations: {}, ownerReferences: [{ apiVersion: "text" }] };

/** @param {unknown} value @returns {{ [field: string]: unknown } | undefined} */
const fields = (value) => (typeof value === "object" && value !== null && !Array.isArray(value) ? /** @type {{ [field: string]: unknown }} */ (value) : undefined);
/** @param {unknown} value @returns {unknown[]} */
const listOf = (value) => (Array.isArray(value) ? value : []);
/** @param {unknown} value */
const timeOf = (value) => (typeof value === "string" ? Date.parse(value) : NaN);

/** @param {unknown} value @param {Shape} shape @returns {boolean} */
function fits(value, shape) {
  if (shape === "text") return typeof value === "string" && value !== "";
  if (Array.isArray(shape)) return Array.isArray(value) && value.every((one) => fits(one, shape[0]));
  const found = fields(value);
  return found !== undefined && Object.entries(shape).every(([name, inner]) => {
    if (name === "*") return Object.values(found).every((one) => fits(one, inner));
    const one = found[name.replace("!", "")];
    return one === undefined || one === null ? !name.endsWith("!") : fits(one, inner);
  });
}

/** The object with its kind, or null where the map shows nothing of this kind. Throws for one that is broken; of one that goes the name is enough. @param {unknown} value @param {boolean} goes @returns {RecordedObject | null} */
function read(value, goes) {
  const object = fields(value);
  const kind = KIND_OF.get(String(object?.kind));
  if (!object || !kind) return null;
  const name = fields(object.metadata)?.name;
  if (!fits(name, "text")) throw new Error(`A ${object.kind} of the recording has no name.`);
  if (!goes && !(fits(object.metadata, METADATA) && fits(object, SHAPES[kind]))) throw new Error(`The ${object.kind} ${name} of the recording is broken.`);
  return /** @type {RecordedObject} */ ({ kind, object });
}

/** @param {unknown} value @returns {RecordedEvent[]} */
function readEvent(value) {
  const event = fields(value);
  const at = timeOf(event?.at);
  const remove = event?.type === "DELETED";
  const found = read(event?.object, remove);
  if (!event || !found || Number.isNaN(at)) return [];
  return [{ ...found, at, remove, note: typeof event.note === "string" ? event.note : undefined }];
}

/** Reads a file; says in words what is wrong with one that is no recording. @param {string} text @returns {Recording} */
export function parseRecording(text) {
  if (text.length > FILE_CHARS_MAX) throw new Error("The file is larger than 256 MiB.");
  /** @type {unknown} */
  let parsed;
  try { parsed = JSON.parse(text); } catch { throw new Error("The file is not JSON."); }
  const file = fields(parsed);
  if (file?.kind !== "DeviceRecording") throw new Error("The file is no DeviceRecording: make one with lazaret device record -o FILE.");
  for (const field of ["objects", "events"]) if (!Array.isArray(file[field] ?? [])) throw new Error(`The ${field} of the recording are no list.`);
  const start = timeOf(file.start);
  if (Number.isNaN(start)) throw new Error("The recording does not say when it begins.");
  const events = listOf(file.events).flatMap(readEvent).sort((a, b) => a.at - b.at);
  const end = Math.max(timeOf(file.end) || 0, events.at(-1)?.at ?? 0, start);
  const classes = /** @type {Recording["classes"]} */ (listOf(file.objects).filter((one) => fields(one)?.kind === "DeviceClass"));
  return { title: typeof file.title === "string" ? file.title : "", start, end, classes, objects: listOf(file.objects).flatMap((one) => read(one, false) ?? []), events };
}

/** The part of a recording between two times; changes before it are folded into its beginning. @param {Recording} recording @param {number} from @param {number} to @param {string} title @returns {Recording} */
export function cut(recording, from, to, title) {
  const [start, end] = [Math.max(recording.start, Math.min(from, recording.end)), Math.min(recording.end, to)];
  const there = new Map(recording.objects.map((one) => [`${one.kind} ${idOf(one.object)}`, one]));
  for (const event of recording.events.filter(({ at }) => at < start)) {
    const id = `${event.kind} ${idOf(event.object)}`;
    if (event.remove) there.delete(id); else there.set(id, recorded(event.kind, event.object));
  }
  return { ...recording, title, start, end, objects: [...there.values()], events: recording.events.filter(({ at }) => at >= start && at <= end) };
}
