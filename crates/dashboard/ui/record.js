// A recording: the objects at its beginning and every change after. One JSON file, as `lazaret device record` writes it.

const NAME_OF = { slices: "ResourceSlice", claims: "ResourceClaim", rules: "DeviceTaintRule", patches: "ResourceSlicePatch", incidents: "DeviceIncident" };
export const RECORDED = Object.keys(NAME_OF);
const KIND_OF = Object.fromEntries(Object.entries(NAME_OF).map(([kind, name]) => [name, kind]));
/** The page keeps this many changes; older ones are folded into the beginning. */
const EVENTS_MAX = 5_000;
/** And no more than this, an object counting for one and a device in it for another: slices of many devices are large. */
const WEIGHT_MAX = 60_000;
const FILE_BYTES_MAX = 256 << 20;

/** Keeps what happened while the page was open. */
export class Recorder {
  constructor(fleet) {
    this.fleet = fleet;
    this.base = Object.fromEntries(RECORDED.map((kind) => [kind, new Map()]));
    this.events = [];
    this.weight = 0;
    this.start0 = Date.now();
  }

  /** `served` says in which version each kind is read: lists leave that out of their items. */
  start(served) {
    const version = (resource) => (resource ? `${resource.group}/${resource.version}` : "");
    this.versions = { slices: version(served.slices), claims: version(served.claims), rules: version(served.rules), patches: version(served.patches), incidents: version(served.deviceincidents) };
    const reset = this.fleet.reset.bind(this.fleet);
    const begun = new Set();
    this.fleet.reset = (kind, items) => {
      // What the first list has was there before.
      if (RECORDED.includes(kind) && !begun.has(kind)) {
        begun.add(kind);
        for (const item of items) this.base[kind].set(`${item.metadata.namespace ?? ""}/${item.metadata.name}`, item);
        this.quiet = true;
      }
      reset(kind, items);
      this.quiet = false;
    };
    for (const method of ["set", "remove"]) {
      const plain = this.fleet[method].bind(this.fleet);
      this.fleet[method] = (kind, object) => {
        if (RECORDED.includes(kind) && !this.quiet) this.#keep(method, kind, object);
        plain(kind, object);
      };
    }
  }

  #keep(method, kind, object) {
    this.events.push({ at: Date.now(), method, kind, object });
    this.weight += weight(object);
    while (this.events.length > EVENTS_MAX || (this.weight > WEIGHT_MAX && this.events.length > 1)) {
      const oldest = this.events.shift();
      this.weight -= weight(oldest.object);
      const id = `${oldest.object.metadata.namespace ?? ""}/${oldest.object.metadata.name}`;
      if (oldest.method === "set") this.base[oldest.kind].set(id, oldest.object); else this.base[oldest.kind].delete(id);
      this.start0 = oldest.at;
    }
  }

  /** The file. */
  recording() {
    const named = (kind, object) => ({ apiVersion: this.versions[kind], kind: NAME_OF[kind], ...object });
    return {
      apiVersion: "lazaret.dev/v1alpha1", kind: "DeviceRecording", start: new Date(this.start0).toISOString(), end: new Date().toISOString(),
      objects: RECORDED.flatMap((kind) => [...this.base[kind].values()].map((object) => named(kind, object))),
      events: this.events.map(({ at, method, kind, object }) => ({ at: new Date(at).toISOString(), type: method === "set" ? "MODIFIED" : "DELETED", object: named(kind, object) })),
    };
  }
}

const weight = (object) => 1 + (object.spec?.devices?.length ?? 0);

/** Reads a file; says in words what is wrong with one that is no recording. */
export function parseRecording(text) {
  if (text.length > FILE_BYTES_MAX) throw new Error("The file is larger than 256 MiB.");
  let file;
  try { file = JSON.parse(text); } catch { throw new Error("The file is not JSON."); }
  if (file?.kind !== "DeviceRecording") throw new Error("The file is no DeviceRecording: make one with lazaret device record -o FILE.");
  const start = Date.parse(file.start);
  const known = (object) => KIND_OF[object?.kind] && typeof object?.metadata?.name === "string";
  const events = (file.events ?? []).filter((event) => known(event.object)).map((event) => ({
    at: Date.parse(event.at), kind: KIND_OF[event.object.kind], remove: event.type === "DELETED", object: event.object, note: event.note,
  })).filter((event) => !Number.isNaN(event.at)).sort((a, b) => a.at - b.at);
  if (Number.isNaN(start)) throw new Error("The recording does not say when it begins.");
  const end = Math.max(Date.parse(file.end) || 0, events.at(-1)?.at ?? 0, start);
  const classes = (file.objects ?? []).filter((object) => object?.kind === "DeviceClass");
  return { title: file.title ?? "", start, end, classes, objects: (file.objects ?? []).filter(known).map((object) => ({ kind: KIND_OF[object.kind], object })), events };
}

/** The part of a recording between two times; changes before it are folded into its beginning. */
export function cut(recording, from, to, title) {
  const [start, end] = [Math.max(recording.start, Math.min(from, recording.end)), Math.min(recording.end, to)];
  const there = new Map(recording.objects.map(({ kind, object }) => [`${kind} ${object.metadata.namespace ?? ""}/${object.metadata.name}`, { kind, object }]));
  for (const { kind, object, remove } of recording.events.filter((event) => event.at < start)) {
    const id = `${kind} ${object.metadata.namespace ?? ""}/${object.metadata.name}`;
    if (remove) there.delete(id); else there.set(id, { kind, object });
  }
  return { ...recording, title, start, end, objects: [...there.values()], events: recording.events.filter(({ at }) => at >= start && at <= end) };
}
