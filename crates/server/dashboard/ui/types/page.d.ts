// Types of the page's own data. Those of the cluster's objects are in api.d.ts, which is generated.

import type * as api from "./api";
import type { Api, Session } from "../api.js";
import type { Engine } from "../engine.js";
import type { Device, Fleet } from "../fleet.js";
import type { HeatMap } from "../heatmap.js";
import type { Moves } from "../moves.js";
import type { Recorder } from "../record.js";

// Objects as a server keeps them: it gave each a name and a UID.

export type StoredMeta = api.ObjectMeta & { name: string; uid: string };
export type Stored<T> = Omit<T, "metadata"> & { metadata: StoredMeta };

/** In v1beta1 most of a device is in `basic`. */
export type PublishedDevice = api.Device & Pick<api.BetaDevice, "basic">;
/** A device without its name: the part that every version has. */
export type DeviceSpec = Partial<api.Device>;
export type SliceSpec = Omit<api.ResourceSliceSpec, "devices"> & { devices?: PublishedDevice[] };
export type Slice = Stored<Omit<api.ResourceSlice, "spec">> & { spec: SliceSpec };
export type Claim = Stored<api.ResourceClaim> & { metadata: { namespace: string } };
export type Rule = Stored<api.DeviceTaintRule>;
export type Patch = Stored<api.ResourceSlicePatch>;
export type Incident = Stored<api.DeviceIncident>;
export type Guard = Stored<api.DisruptionGuard>;
export type NodeObject = Stored<api.Node>;
export type PodObject = Stored<api.Pod>;
export type EventObject = Stored<api.Event>;
/** An object of which nothing but its metadata is known. */
export type AnyObject = { metadata: StoredMeta };

/** The kinds that a fleet is made of. */
export interface Kinds {
  slices: Slice;
  claims: Claim;
  rules: Rule;
  patches: Patch;
  incidents: Incident;
  nodes: NodeObject;
  guards: Guard;
}
export type Kind = keyof Kinds;
export type Maps = { [K in Kind]: Map<string, Kinds[K]> };
/** Called when an object of a kind came, changed or went. */
export type Changes = { [K in Kind]?: (id: string, before: Kinds[K] | undefined, now: Kinds[K] | null) => void };

export type State = "free" | "inuse" | "suspect" | "noschedule" | "draining" | "repairing" | "probation" | "gone";
export type Origin = "none" | "driver" | "rule" | "patch" | "policy" | "person";
/** A taint with the object that set it. */
export type Taint = api.DeviceTaint & { origin: Origin; by: string; reason?: string | undefined; setBy?: string | undefined };
export type Selector = api.DeviceTaintSelector;
/** Keys of devices, and why an expression could not be evaluated. */
export type Selection = Set<string> & { problem?: string | undefined };

export interface Holder {
  claim: Claim;
  namespace: string;
  name: string;
  pods: string[];
  uids: string[];
}

/** A pod that gave a device up. */
export interface Leaver {
  namespace: string;
  name: string;
  uid: string;
}

// Reading.

/** Where a kind is served. Recorded objects say themselves in which version they are: the fields are absent then. */
export interface Resource {
  group?: string;
  version?: string;
  plural?: string;
  path?: string;
}
export type ServedResource = Required<Resource>;
export interface Served {
  slices: ServedResource | null;
  claims: ServedResource | null;
  rules: ServedResource | null;
  classes: ServedResource | null;
  patches: ServedResource | null;
  superset: boolean;
  deviceincidents: ServedResource;
  disruptionguards: ServedResource;
}

export interface List<T> {
  items?: T[];
  metadata?: api.ListMeta;
}

/** How far a watch has come. */
export interface Cursor {
  version: string;
  opened?: number;
  heard?: number;
  changes?: number;
}

export interface Source {
  path: string;
  cursor: Cursor;
  accept?: string;
  most?: number;
  every?: number;
}

/** Takes the objects that a follower reads. */
export interface Sink<T> {
  reset(items: T[]): void;
  set(object: T): void;
  remove(object: T): void;
  refused?(error: Error): void;
}

/** A line of a watch. With the type ERROR the object is a Status. */
export interface WatchEvent<T> {
  type: string;
  object?: T & { code?: number };
}

/** Names and versions of discovery. */
export interface ApiGroup {
  versions: { version: string }[];
}
export interface ApiResourceList {
  resources: { name: string }[];
}

export interface Watch {
  kind: string;
  source: Source;
  isDown: () => boolean;
}

// The page.

export interface App {
  api: Api;
  session: Session;
  fleet: Fleet;
  engine: Engine;
  moves: Moves;
  recorder: Recorder;
  served: Served;
  watches?: Watch[];
  go: (path: string) => void;
}

/** Functions of a page that the router calls. `move` says whether it took the new argument. */
export interface Page {
  update?(): void;
  move?(argument: string): boolean;
  escape?(): void;
  close?(): void;
  map?: HeatMap;
  play?(recording: Recording): void;
  plan?(): Plan | null;
}
export type MakePage = (main: HTMLElement, app: App, argument: string) => Page;

export type Child = globalThis.Node | string | number | boolean | null | undefined | Child[];
type Handlers = { [K in keyof HTMLElementEventMap as `on${K}`]?: (event: HTMLElementEventMap[K]) => unknown };
export type Attributes = Handlers & { [name: string]: unknown };
type Named<N extends string> = N extends keyof HTMLElementTagNameMap ? HTMLElementTagNameMap[N] : HTMLElement;
/** `input` and `input.wide` are both HTMLInputElements. */
export type ElementOf<T extends string> = T extends `${infer N}.${string}` ? Named<N> : Named<T>;
export type Field = HTMLInputElement | HTMLSelectElement | HTMLTextAreaElement;

/** An entry of a list that is made anew when its facts changed. */
export interface Entry {
  key: string;
  facts: unknown;
  make: () => HTMLElement;
}

/** An object behind a number. */
export interface Item {
  text: string;
  href?: string;
  note?: string | undefined;
}

/** Objects behind a number that are known by their number alone. */
export interface More {
  unnamed?: number;
  why?: string;
}

export interface Group {
  name: string;
  devices: Device[];
}

// Recordings.

export type RecordedKind = "slices" | "claims" | "rules" | "patches" | "incidents";
export type RecordedObject = { [K in RecordedKind]: { kind: K; object: Kinds[K] & { kind?: string } } }[RecordedKind];
export type RecordedEvent = RecordedObject & { at: number; remove: boolean; note?: string | undefined };
export interface Recording {
  title: string;
  start: number;
  end: number;
  classes: Stored<api.DeviceClass>[];
  objects: RecordedObject[];
  events: RecordedEvent[];
}

/** The form that a value of a file must have: a text that is not empty, a list, or an object. A field with `!` must be there, `*` means every field. */
export type Shape = "text" | [Shape] | { [field: string]: Shape };

// Drains and moves.

/** The pod that an owner made instead. */
export interface Replacement {
  name: string;
  devices: Device[];
}
export interface Move {
  name: string;
  owner: string;
  at: number;
  by: Replacement | null;
}

export interface Progress {
  devices: Device[];
  pods: { name: string; uid: string }[];
  gone: number;
  left: number;
  done: boolean;
  held: boolean;
  pace: number | null;
  rate: number;
  blocked: api.Condition | null;
  message: string;
  endsIn: number | null;
}
export interface PhasePod {
  name: string;
  askedAt?: number;
  why?: string;
}
export interface Phase {
  id: string;
  word: string;
  hue: string;
  pods: PhasePod[];
}

// Questions to the Rust cores and their answers.

export type Question =
  | { op: "plan"; now: string; objects: unknown[]; rules: unknown[] }
  | { op: "select"; objects: unknown[]; rules: unknown[] }
  | { op: "impact"; objects: unknown[]; rules: unknown[] };
export interface Answer {
  error?: string;
  plan?: Plan;
  places?: Place[];
  selected?: { devices: string[]; problem?: string }[];
  impact?: Impact;
}
export interface Impact {
  devices: number;
  pods: number;
  namespaces: number;
}
export interface PlannedPod {
  namespace: string;
  name: string;
  owner?: string;
  node?: string;
  deadline?: string;
  tolerationSeconds?: number | null;
  budgets?: { name: string; disruptionsAllowed: number }[];
}
export interface Plan {
  taint: string;
  effect: string;
  noEffect?: string;
  problem?: string;
  devices: { name: string }[];
  claims: string[];
  namespaces: Record<string, number>;
  pods: PlannedPod[];
  tolerating: PlannedPod[];
}
export interface Place {
  pod: string;
  node?: string;
  devices?: string[];
  problem?: string;
}

declare global {
  /** For people who look with the browser's console, and for tests. */
  var lazaret: { fleet: Fleet; app: App; page: () => (Page & { id: string }) | null };
}
