// The Kubernetes API as the user who looks: lists, watches that resume, writes.

/**
 * @import { SelfSubjectAccessReview, SelfSubjectReview, Status } from "./types/api"
 * @import { AnyObject, ApiGroup, ApiResourceList, List, Served, Sink, Source, WatchEvent } from "./types/page"
 */

const PAGE_OBJECTS = 500;
const BACKOFF_MS_MIN = 500;
const BACKOFF_MS_MAX = 15_000;
/** How long until somebody who may not see a resource is asked for again. */
const REFUSED_MS = 60_000;
/** Names, owners and times of objects without the rest of them. */
export const METADATA = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1,application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1,application/json";
/** No object that a server keeps comes near this. */
const LINE_CHARS_MAX = 32 << 20;

export class ApiError extends Error {
  /** @param {number} code @param {string} message @param {string} [reason] */
  constructor(code, message, reason) {
    super(message);
    this.code = code;
    this.reason = reason;
  }
}

/** Holds whatever proves who asks. The cookie alone proves nothing: every request repeats a secret that only this page was given. */
export class Session {
  constructor() {
    /** @type {string | null} */
    this.secret = null;
    /** @type {string | null} */
    this.bearer = null;
    this.user = "";
    /** Served in the clear over HTTP/1.1, where a browser has six connections for all tabs: those that nobody sees give theirs up. */
    this.fewConnections = false;
    this.onExpired = () => {};
  }

  /** Uses the one-time token of the address, the session that there is, or nothing. */
  async begin() {
    const token = new URLSearchParams(location.hash.slice(1)).get("token");
    if (token) {
      history.replaceState(null, "", `${location.pathname}#/fleet`);
      if (await this.exchange(token)) return true;
    }
    const known = await fetch("session", { headers: { "Lazaret-Dashboard": "session" }, cache: "no-store" });
    if (known.ok) {
      this.#take(await known.json());
      return true;
    }
    this.bearer = sessionStorage.getItem("bearer");
    // A client certificate needs no session.
    return this.#whoami();
  }

  /** A one-time token becomes a session. @param {string} token */
  async exchange(token) {
    const answer = await fetch("login", { method: "POST", headers: { "Lazaret-Login": token }, cache: "no-store" });
    if (!answer.ok) return false;
    this.#take(await answer.json());
    return true;
  }

  /** A bearer token, for example of a ServiceAccount: kept for this tab. @param {string} token */
  async useBearer(token) {
    this.bearer = token;
    if (await this.#whoami()) {
      sessionStorage.setItem("bearer", token);
      return true;
    }
    this.bearer = null;
    return false;
  }

  async end() {
    sessionStorage.removeItem("bearer");
    if (this.secret) await fetch("logout", { method: "POST", headers: this.headers() }).catch(() => {});
    this.secret = this.bearer = null;
  }

  headers() {
    /** @type {Record<string, string>} */
    const headers = {};
    if (this.secret) headers["Lazaret-Dashboard"] = this.secret;
    if (this.bearer) headers.Authorization = `Bearer ${this.bearer}`;
    return headers;
  }

  /** @param {{ secret: string, user?: string, fewConnections?: boolean }} found */
  #take(found) {
    this.secret = found.secret;
    this.user = found.user ?? "";
    this.fewConnections = found.fewConnections === true;
  }

  async #whoami() {
    try {
      /** @type {SelfSubjectReview} */
      const review = await new Api(this).post("/apis/authentication.k8s.io/v1/selfsubjectreviews",
        { apiVersion: "authentication.k8s.io/v1", kind: "SelfSubjectReview" });
      const user = review.status?.userInfo?.username ?? "";
      this.user = user;
      return user !== "" && user !== "system:anonymous";
    } catch {
      return false;
    }
  }
}

export class Api {
  /** @param {Session} session */
  constructor(session) {
    this.session = session;
    /** @type {Map<string, Promise<boolean>>} */
    this.permissions = new Map();
  }

  /**
   * @param {string} method
   * @param {string} path
   * @param {unknown} [body]
   * @param {string} [type]
   * @param {AbortSignal | null} [signal]
   * @param {string} [accept]
   */
  async request(method, path, body, type = "application/json", signal = null, accept = "application/json") {
    /** @type {Record<string, string>} */
    const headers = { Accept: accept, ...this.session.headers() };
    if (body !== undefined) headers["Content-Type"] = type;
    const answer = await fetch(path, {
      method, headers, signal, cache: "no-store", credentials: "same-origin", redirect: "error",
      body: body === undefined ? null : JSON.stringify(body),
    });
    if (answer.ok) return answer;
    if (answer.status === 401) this.session.onExpired();
    /** @type {Status} */
    let status = {};
    try { status = await answer.json(); } catch { /* not every server answers with a Status */ }
    throw new ApiError(answer.status, status.message ?? `${method} ${path}: ${answer.status}`, status.reason);
  }

  /** @param {string} path */
  get = async (path) => (await this.request("GET", path)).json();
  /** @param {string} path @param {unknown} body */
  post = async (path, body) => (await this.request("POST", path, body)).json();
  /** @param {string} path @param {unknown} body */
  patch = async (path, body) => (await this.request("PATCH", path, body, "application/merge-patch+json")).json();
  /** @param {string} path @param {unknown} body */
  remove = async (path, body) => (await this.request("DELETE", path, body)).json();

  /** Whether the user may: asked once, remembered for the life of the page. @param {string} verb @param {string} group @param {string} resource */
  may(verb, group, resource) {
    const key = `${verb} ${resource}.${group}`;
    let answer = this.permissions.get(key);
    if (!answer) {
      answer = this.post("/apis/authorization.k8s.io/v1/selfsubjectaccessreviews", {
        apiVersion: "authorization.k8s.io/v1", kind: "SelfSubjectAccessReview",
        spec: { resourceAttributes: { verb, group, resource } },
      }).then((/** @type {SelfSubjectAccessReview} */ review) => review.status?.allowed === true, () => false);
      this.permissions.set(key, answer);
    }
    return answer;
  }

  /**
   * Every object, page by page; refused where there are more than `most`.
   * @template {AnyObject} T
   * @param {string} path
   * @param {{ signal?: AbortSignal | undefined, accept?: string | undefined, most?: number | undefined }} [options]
   */
  async list(path, { signal, accept, most = Infinity } = {}) {
    /** @type {T[]} */
    const items = [];
    let next = "";
    for (;;) {
      const query = `limit=${PAGE_OBJECTS}${next ? `&continue=${encodeURIComponent(next)}` : ""}`;
      /** @type {List<T>} */
      const page = await (await this.request("GET", `${path}?${query}`, undefined, undefined, signal, accept)).json();
      for (const item of page.items ?? []) items.push(slim(item));
      if (items.length + (page.metadata?.remainingItemCount ?? 0) > most) throw new ApiError(403, `there are more than ${most}`, "TooMany");
      next = page.metadata?.continue ?? "";
      if (!next) return { items, version: page.metadata?.resourceVersion ?? "" };
    }
  }
}

/** Drops the record of which manager wrote which field: the page shows it nowhere. @template {AnyObject} T @param {T} object */
function slim(object) {
  const metadata = /** @type {{ managedFields?: unknown } | undefined} */ (object?.metadata);
  if (metadata) delete metadata.managedFields;
  return object;
}

/** Splits a stream into JSON lines. @template T @param {ReadableStream<Uint8Array<ArrayBuffer>> | null} body @returns {AsyncGenerator<T, void, void>} */
export async function* lines(body) {
  if (!body) return;
  const reader = body.pipeThrough(new TextDecoderStream()).getReader();
  let rest = "";
  try {
    for (;;) {
      const { done, value } = await reader.read();
      if (done) return;
      rest += value;
      if (rest.length > LINE_CHARS_MAX) throw new Error("a line of a watch is too long");
      let from = 0;
      for (let end; (end = rest.indexOf("\n", from)) >= 0; from = end + 1) {
        if (end > from) yield JSON.parse(rest.slice(from, end));
      }
      rest = rest.slice(from);
    }
  } finally {
    reader.cancel().catch(() => {});
  }
}

/**
 * One resource, followed for as long as the page lives: a list, then a watch that resumes from the last version it saw.
 * `sink` gets `reset(items)`, `set(object)` and `remove(object)`; `state(connected)` is called when that changes. Of `every` it is listed again
 * after that time instead of watched.
 * @template {AnyObject} T
 * @param {Api} api
 * @param {Source} source
 * @param {Sink<T>} sink
 * @param {(connected: boolean, error?: unknown) => void} state
 * @param {AbortSignal} signal
 */
export async function follow(api, { path, accept, most, every, cursor }, sink, state, signal) {
  let wait = BACKOFF_MS_MIN;
  /** @param {number} time @returns {Promise<void>} */
  const pause = (time) => new Promise((done) => {
    const over = () => { clearTimeout(timer); signal.removeEventListener("abort", over); done(); };
    const timer = setTimeout(over, time * (0.75 + Math.random() / 2));
    signal.addEventListener("abort", over);
  });
  while (!signal.aborted) {
    const began = Date.now();
    try {
      if (!cursor.version || every) {
        const listed = await api.list(path, { signal, accept, most });
        sink.reset(/** @type {T[]} */ (listed.items));
        cursor.version = listed.version;
        state(true);
      }
      if (every) { await pause(every); continue; }
      const query = `watch=true&allowWatchBookmarks=true&resourceVersion=${encodeURIComponent(cursor.version)}`;
      const answer = await api.request("GET", `${path}?${query}`, undefined, undefined, signal, accept);
      state(true);
      cursor.opened = (cursor.opened ?? 0) + 1;
      /** @type {AsyncGenerator<WatchEvent<T>>} */
      const events = lines(answer.body);
      for await (const event of events) {
        wait = BACKOFF_MS_MIN;
        cursor.heard = Date.now();
        if (event.type === "ERROR") {
          if (event.object?.code === 410) cursor.version = "";
          break;
        }
        const seen = event.object?.metadata?.resourceVersion;
        if (event.type !== "BOOKMARK" && event.object?.metadata) {
          cursor.changes = (cursor.changes ?? 0) + 1;
          if (event.type === "DELETED") sink.remove(slim(event.object));
          else sink.set(slim(event.object));
        }
        if (seen) cursor.version = seen;
      }
      // Servers end watches when their time is over; one that ends at once is not asked again at once.
      if (Date.now() - began < BACKOFF_MS_MIN) await pause(wait);
    } catch (error) {
      if (signal.aborted) return;
      if (error instanceof ApiError && error.code === 410) cursor.version = "";
      if (error instanceof ApiError && [403, 404].includes(error.code)) {
        // The connection is fine. What this user may not see is said where it is missed; somebody may give the permission later.
        sink.refused?.(error);
        state(true);
        if (error.code === 404) return;
        await pause(REFUSED_MS);
        continue;
      }
      state(false, error);
      // The session is over. Signing in again begins anew.
      if (error instanceof ApiError && error.code === 401) return;
      await pause(wait);
      wait = Math.min(wait * 2, BACKOFF_MS_MAX);
    }
  }
}

/** @param {string} plural */
const own = (plural) => ({ group: "lazaret.dev", version: "v1alpha1", plural, path: `/apis/lazaret.dev/v1alpha1/${plural}` });

/** Before anything was discovered. @type {Served} */
export const NOTHING_SERVED = {
  slices: null, claims: null, rules: null, classes: null, patches: null, superset: false, deviceincidents: own("deviceincidents"), disruptionguards: own("disruptionguards"),
};

/** Where each kind is served, as `kubectl device` chooses it. @param {Api} api @returns {Promise<Served>} */
export async function discover(api) {
  /** @type {ApiGroup} */
  const group = await api.get("/apis/resource.k8s.io");
  const versions = group.versions.map((entry) => entry.version);
  const tables = await Promise.all(["v1", "v1beta2", "v1beta1", "v1alpha3"].filter((one) => versions.includes(one)).map(async (version) => {
    /** @type {ApiResourceList} */
    const list = await api.get(`/apis/resource.k8s.io/${version}`);
    return { version, names: new Set(list.resources.map((resource) => resource.name)) };
  }));
  const superset = tables.some(({ names }) => names.has("resourceslicepatches")) ? "v1alpha3" : "";
  /** @param {string} plural @param {string} [prefer] */
  const find = (plural, prefer = "") => {
    const having = tables.filter(({ names }) => names.has(plural)).map(({ version }) => version);
    const version = having.includes(prefer) ? prefer : having[0];
    return version ? { group: "resource.k8s.io", version, plural, path: `/apis/resource.k8s.io/${version}/${plural}` } : null;
  };
  return {
    ...NOTHING_SERVED,
    slices: find("resourceslices", superset),
    claims: find("resourceclaims"),
    rules: find("devicetaintrules", superset),
    classes: find("deviceclasses"),
    patches: find("resourceslicepatches"),
    superset: superset !== "",
  };
}
