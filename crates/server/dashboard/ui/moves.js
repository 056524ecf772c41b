// Where pods went that had to leave a device: which left, which pod its owner made instead, and which devices that one has. Follows from what
// is watched: claims say who holds a device, the metadata of pods says whose they are.

/** @import { AnyObject, Leaver, Move, Replacement, Sink } from "./types/page" */
/** @import { Device, Fleet } from "./fleet.js" */

/**
 * A pod: whose it is, and its place in the order of what this page saw. `ends` is the place of its end, 0 before that; `askedAt` is in milliseconds.
 * @typedef {{ name: string, owner: { uid: string, text: string } | null, number: number, ends: number, askedAt?: number }} Seen
 */

/** Pods that left, in the memory of the page. */
const LEFT_MAX = 1_000;
/** With more pods in a cluster, whose they are is not followed. */
export const PODS_MAX = 50_000;
/** A claim may be seen to lose its pod before the rule that evicts it is seen. */
const SLACK_MS = 5_000;

export class Moves {
  /** @param {Fleet} fleet */
  constructor(fleet, clock = () => Date.now()) {
    this.fleet = fleet;
    this.clock = clock;
    /** By UID. @type {Map<string, Seen>} */
    this.pods = new Map();
    /** @type {Map<string, Seen>} */
    this.past = new Map();
    this.number = 0;
    /** @type {{ uid: string, name: string, devices: Set<string>, at: number }[]} */
    this.left = [];
    /** Nobody may see the pods, or there are too many to follow. */
    this.isHidden = false;
    fleet.onRelease = (pod, device) => this.#release(pod, device);
  }

  /** Takes the metadata of pods from a follower. @returns {Sink<AnyObject>} */
  sink() {
    return {
      reset: (items) => {
        const there = new Set(items.map((pod) => pod.metadata.uid));
        for (const uid of [...this.pods.keys()]) if (!there.has(uid)) this.#gone(uid);
        for (const pod of items) this.#set(pod);
        this.fleet.touch();
      },
      set: (pod) => { this.#set(pod); this.fleet.touch(); },
      remove: (pod) => { this.#gone(pod.metadata.uid); this.fleet.touch(); },
      refused: () => { this.isHidden = true; this.fleet.touch(); },
    };
  }

  /** @param {AnyObject} pod */
  #set(pod) {
    const { uid, namespace, name, ownerReferences, deletionTimestamp, deletionGracePeriodSeconds } = pod.metadata;
    const owner = ownerReferences?.find((one) => one.controller);
    /** @type {Seen} */
    const known = this.pods.get(uid) ?? { name: `${namespace}/${name}`, owner: owner ? { uid: owner.uid, text: `${owner.kind}/${owner.name}` } : null, number: ++this.number, ends: 0 };
    // Its owner makes another one only after this.
    if (deletionTimestamp && !known.ends) known.ends = this.number;
    // A pod is deleted when its time to end is over; it was asked that time before.
    if (deletionTimestamp) known.askedAt = Date.parse(deletionTimestamp) - (deletionGracePeriodSeconds ?? 0) * 1000;
    this.pods.set(uid, known);
  }

  /** Pods that are gone are remembered for a while: that one left its device may be heard later. @param {string} uid */
  #gone(uid) {
    const pod = this.pods.get(uid);
    if (!pod) return;
    pod.ends ||= this.number;
    this.pods.delete(uid);
    this.past.set(uid, pod);
    if (this.past.size > LEFT_MAX) for (const oldest of this.past.keys()) { this.past.delete(oldest); break; }
  }

  /** @param {Leaver} pod @param {string} device */
  #release(pod, device) {
    const known = this.left.find((entry) => entry.uid === pod.uid);
    if (known) { known.devices.add(device); return; }
    this.left.push({ uid: pod.uid, name: `${pod.namespace}/${pod.name}`, devices: new Set([device]), at: this.clock() });
    if (this.left.length > LEFT_MAX) this.left.shift();
  }

  /** Pods that left these devices since the rule or incident of this UID was first seen, each with its replacement as far as there is one. @param {string} id @param {Device[]} devices */
  of(id, devices) {
    const since = (this.fleet.firstSeen.get(id) ?? this.clock()) - SLACK_MS;
    const keys = new Set(devices.map((device) => device.key));
    const replacements = this.#replacements();
    /** @type {Move[]} */
    const found = [];
    for (const { uid, name, devices: had, at } of this.left) {
      const pod = this.pods.get(uid) ?? this.past.get(uid);
      const by = replacements.get(uid) ?? null;
      if (at >= since && [...had].some((key) => keys.has(key))) found.push({ name, owner: pod?.owner?.text ?? "", at, by });
    }
    return found;
  }

  /** When a pod was asked to end, in milliseconds; 0 for one that was not, or that is not known. @param {string} uid */
  askedAt(uid) {
    return this.pods.get(uid)?.askedAt ?? 0;
  }

  /**
   * The pod that an owner made instead, by the UID of one that left. A pod takes the place of the one that ended last before it was made: those
   * that a Deployment gave up when it was made smaller have no successor.
   */
  #replacements() {
    /** @type {Map<string, { uid: string, ends: number }[]>} */
    const ended = new Map();
    for (const { uid } of this.left) {
      const pod = this.pods.get(uid) ?? this.past.get(uid);
      if (!pod?.owner || !pod.ends) continue;
      const list = ended.get(pod.owner.uid) ?? [];
      list.push({ uid, ends: pod.ends });
      ended.set(pod.owner.uid, list);
    }
    /** @type {Map<string, Replacement>} */
    const found = new Map();
    if (ended.size === 0) return found;
    const made = [...this.pods].filter(([, pod]) => ended.has(pod.owner?.uid ?? "")).sort(([, a], [, b]) => a.number - b.number);
    for (const [uid, pod] of made) {
      const before = ended.get(pod.owner?.uid ?? "")?.filter((one) => one.ends < pod.number && !found.has(one.uid)) ?? [];
      const [first, ...rest] = before;
      if (!first) continue;
      const last = rest.reduce((best, one) => (best.ends > one.ends ? best : one), first);
      found.set(last.uid, { name: pod.name, devices: this.#devicesOf(uid) });
    }
    return found;
  }

  /** @param {string} uid */
  #devicesOf(uid) {
    return [...(this.fleet.byPod.get(uid) ?? [])].flatMap((key) => this.fleet.devices.get(key) ?? []);
  }
}
