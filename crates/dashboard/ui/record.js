// A recording: the objects at its beginning and every change after. One JSON file, as `lazaret device record` writes it.

export const RECORDED = ["slices", "claims", "rules", "incidents"];
const KIND_OF = { ResourceSlice: "slices", ResourceClaim: "claims", DeviceTaintRule: "rules", DeviceIncident: "incidents" };
const NAME_OF = { slices: "ResourceSlice", claims: "ResourceClaim", rules: "DeviceTaintRule", incidents: "DeviceIncident" };
/** The page keeps this many changes; older ones are folded into the beginning. */
const EVENTS_MAX = 5_000;
const FILE_BYTES_MAX = 256 << 20;

/** Keeps what happened while the page was open. */
export class Recorder {
  constructor(fleet) {
    this.fleet = fleet;
    this.base = Object.fromEntries(RECORDED.map((kind) => [kind, new Map()]));
    this.events = [];
    this.start0 = Date.now();
  }

  /** `served` says in which version each kind is read: lists leave that out of their items. */
  start(served) {
    const version = (resource) => (resource ? `${resource.group}/${resource.version}` : "");
    this.versions = { slices: version(served.slices), claims: version(served.claims), rules: version(served.rules), incidents: version(served.deviceincidents) };
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
    if (this.events.length > EVENTS_MAX) {
      const oldest = this.events.shift();
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
  return { title: file.title ?? "", start, end, objects: (file.objects ?? []).filter(known).map((object) => ({ kind: KIND_OF[object.kind], object })), events };
}
