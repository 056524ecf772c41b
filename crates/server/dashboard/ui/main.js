// Starts the page: session, watches, router, keyboard.

import { Api, ApiError, METADATA, NOTHING_SERVED, Session, discover, follow } from "./api.js";
import { Fleet, stageOf } from "./fleet.js";
import { empty, h, messageOf, refreshTimes, seen, show } from "./dom.js";
import { fleetPage } from "./page-fleet.js";
import { whatifPage } from "./page-whatif.js";
import { drainsPage, isDrained } from "./page-drains.js";
import { incidentsPage } from "./page-incidents.js";
import { replayPage } from "./page-replay.js";
import { whyPage } from "./page-why.js";
import { clusterPage } from "./page-cluster.js";
import { Moves, PODS_MAX } from "./moves.js";
import { Recorder } from "./record.js";
import { Engine } from "./engine.js";

/** @import { AnyObject, App, MakePage, Page, Sink, Source } from "./types/page" */

/** @type {[string, string, MakePage][]} */
const PAGES = [
  ["fleet", "Fleet", fleetPage], ["whatif", "What-if", whatifPage], ["drains", "Drains", drainsPage], ["incidents", "Incidents", incidentsPage],
  ["replay", "Replay", replayPage], ["why", "Why", whyPage], ["cluster", "Cluster", clusterPage],
];
/** Without a key, a click or a move for this long the session ends. */
const IDLE_MS = 60 * 60 * 1000;
/** How often relative times are written anew. */
const TIMES_MS = 5_000;
/** Between two lists of patches and of guards where they are not watched. */
const PATCHES_MS = 15_000;
const GUARDS_MS = 5_000;
/** A loss that is shorter than this is not worth a word. */
const QUIET_MS = 2_000;

const session = new Session();
const api = new Api(session);
const fleet = new Fleet();
/** @type {App} */
const app = { api, session, fleet, engine: new Engine(), moves: new Moves(fleet), recorder: new Recorder(fleet), served: NOTHING_SERVED, go: (path) => { location.hash = `#/${path}`; } };
const main = byId("main");
/** The page that is open. @type {(Page & { id: string }) | null} */
let current = null;
let shownPage = "";
/** Whether the cluster is followed, and whether the session has ended since. */
let begun = false;
let expired = false;

/** @param {string} id */
function byId(id) {
  const found = document.getElementById(id);
  if (!found) throw new Error(`there is no #${id}`);
  return found;
}

function nav() {
  const open = [...fleet.incidents.values()].filter((incident) => stageOf(incident) !== "Cleared").length;
  const active = [...fleet.rules.values()].filter((rule) => rule.spec.taint.effect === "NoExecute" && !isDrained(rule)).length;
  /** @type {Record<string, number>} */
  const badges = { incidents: open, drains: active };
  const [page] = route();
  show(byId("nav"), PAGES.map(([id, name]) => h("a", {
    href: `#/${id}`, "aria-current": id === page ? "page" : null,
  }, name, badges[id] ? h("span.badge", badges[id]) : null)));
  // On a phone not every page fits: the one that is open is seen.
  if (page !== shownPage) document.querySelector("nav [aria-current]")?.scrollIntoView({ block: "nearest", inline: "nearest" });
  shownPage = page;
}

function route() {
  const [page = "", ...rest] = location.hash.replace(/^#\//, "").split("/");
  return /** @type {const} */ ([PAGES.some(([id]) => id === page) ? page : "fleet", rest.map(decoded).join("/")]);
}

/** A part of the address as people typed it, where it is not well encoded. @param {string} part */
function decoded(part) {
  try { return decodeURIComponent(part); } catch { return part; }
}

function render() {
  if (expired) return;
  const [page, argument] = route();
  if (current?.id === page && current.move?.(argument)) return;
  current?.close?.();
  const [, name, make] = PAGES.find(([id]) => id === page) ?? ["fleet", "Fleet", fleetPage];
  document.title = `${seen(name)} · Lazaret`;
  main.replaceChildren();
  current = { id: page, ...make(main, app, argument) };
  nav();
}

function followAll() {
  /** When each kind that is not connected was lost. @type {Map<string, number>} */
  const down = new Map();
  const dot = byId("link");
  const banner = byId("banner");
  /** @param {string} kind @returns {(connected: boolean, error?: unknown) => void} */
  const state = (kind) => (connected, error) => {
    if (connected) down.delete(kind);
    else if (!down.has(kind)) down.set(kind, Date.now());
    const tell = () => {
      const lost = [...down.values()].some((since) => Date.now() - since >= QUIET_MS);
      dot.classList.toggle("on", down.size === 0);
      dot.setAttribute("aria-label", down.size === 0 ? "live" : "not connected");
      dot.title = down.size === 0 ? "Live" : "Not connected";
      banner.hidden = !lost;
      if (lost) banner.textContent = seen(`The connection is lost; trying again. The page may be out of date. ${error instanceof ApiError && error.reason ? error.message : ""}`);
    };
    tell();
    if (!connected) setTimeout(tell, QUIET_MS + 50);
  };
  const { slices, claims, rules, patches, deviceincidents, disruptionguards } = app.served;
  /** @typedef {{ kind: string, sink: Sink<AnyObject>, source: Source }} Followed */
  /** @param {string} kind @param {{ path: string } | null} resource @param {unknown} sink @param {Partial<Source>} [more] @returns {Followed[]} */
  const watched = (kind, resource, sink, more = {}) => (resource ? [{ kind, sink: /** @type {Sink<AnyObject>} */ (sink), source: { path: resource.path, cursor: { version: "" }, ...more } }] : []);
  const kinds = [
    ...watched("slices", slices, fleet.sink("slices")), ...watched("claims", claims, fleet.sink("claims")), ...watched("rules", rules, fleet.sink("rules")),
    ...watched("incidents", deviceincidents, fleet.sink("incidents")),
    // Patches and guards change once a month: where connections are few, theirs go to something else.
    ...watched("patches", patches, fleet.sink("patches"), session.fewConnections ? { every: PATCHES_MS } : {}),
    ...watched("guards", disruptionguards, fleet.sink("guards"), session.fewConnections ? { every: GUARDS_MS } : {}),
    ...watched("pods", { path: "/api/v1/pods" }, app.moves.sink(), { accept: METADATA, most: PODS_MAX }),
  ];
  app.watches = kinds.map(({ kind, source }) => ({ kind, source, isDown: () => down.has(kind) }));
  /** @type {AbortController | null} */
  let end = null;
  const begin = () => {
    const { signal } = (end = new AbortController());
    for (const { kind, sink, source } of kinds) follow(api, source, sink, state(kind), signal);
  };
  begin();
  if (!session.fewConnections) return;
  document.addEventListener("visibilitychange", () => {
    end?.abort();
    end = null;
    if (!document.hidden) begin();
  });
}

/** Which devices a rule or a patch with a class or an expression selects only the cores can tell. Asked again when these or devices changed. */
function evaluateSelectors() {
  let asked = "";
  let busy = false;
  fleet.listeners.add(async () => {
    const names = fleet.opaque();
    const selectors = names.flatMap((name) => fleet.wide.get(name) ?? []);
    const marker = names.length ? `${fleet.shape} ${JSON.stringify([names, selectors])}` : "";
    if (names.length === 0 || busy || marker === asked) return;
    [busy, asked] = [true, marker];
    try {
      const found = await app.engine.select(app, selectors);
      names.forEach((name, at) => { if (fleet.wide.has(name)) fleet.setSelection(name, found[at] ?? new Set()); });
    } catch (error) { console.warn(error); }
    busy = false;
    // What changed meanwhile is asked about now.
    fleet.touch();
  });
}

/** @param {string} [reason] */
function login(reason) {
  const input = h("input", { type: "password", autocomplete: "off", spellcheck: "false", required: true, id: "token" });
  const problem = h("p.error", { role: "alert" });
  const form = h("form", { onsubmit: async (event) => {
    event.preventDefault();
    const token = input.value.trim();
    const ok = token.includes(".") ? await session.useBearer(token) : await session.exchange(token);
    // Nothing that another user saw stays.
    if (ok && begun) location.reload();
    else if (ok) start();
    else problem.textContent = "The token is not valid, was used before, or is too old.";
  } }, h("label.field", h("span", "Token"), input), problem, h("button.act.primary", { type: "submit" }, "Sign in"));
  byId("nav").hidden = true;
  show(main, h("div.page.signin", h("div.card", h("h1", "Sign in"), reason ? h("p.note", reason) : null,
    h("p", "Paste the one-time token that ", h("code", "lazaret up"), " printed, or a token of a ServiceAccount:"),
    h("pre", "kubectl create token NAME"), form,
    h("p.note", "On any cluster ", h("code", "kubectl device ui"), " opens this page with your own kubeconfig."))));
  input.focus();
}

async function start() {
  byId("nav").hidden = false;
  byId("user").textContent = seen(session.user);
  try {
    app.served = await discover(api);
  } catch (error) {
    show(main, empty("This cluster does not serve resource.k8s.io to you", messageOf(error)));
    return;
  }
  if (!app.served.slices) {
    show(main, empty("This cluster has no Dynamic Resource Allocation", "It needs Kubernetes 1.34 or newer, or Lazaret."));
    return;
  }
  begun = true;
  app.recorder.start(app.served);
  followAll();
  evaluateSelectors();
  addEventListener("hashchange", render);
  fleet.listeners.add(() => { nav(); current?.update?.(); });
  render();
}

function idle() {
  let last = Date.now();
  for (const event of ["pointermove", "keydown", "pointerdown"]) addEventListener(event, () => { last = Date.now(); }, { passive: true });
  setInterval(async () => {
    if (Date.now() - last < IDLE_MS) return;
    await session.end();
    location.reload();
  }, 30_000);
}

function help() {
  const rows = [["/", "filter"], ["g f", "fleet"], ["g w", "what-if"], ["g d", "drains"], ["g i", "incidents"], ["g r", "replay"], ["g y", "why"], ["g c", "cluster"],
    ["arrows", "move in the map"], ["Enter", "open a device"], ["Space", "select a device"], ["Shift + arrows", "select on the way"], ["Esc", "close, clear the selection"], ["?", "this help"]];
  const dialog = h("dialog", { "aria-label": "Keyboard" }, h("h1", "Keyboard"),
    h("dl", rows.map(([key, what]) => [h("dt", h("kbd", key)), h("dd", what)])), h("p.note", "Esc closes this."));
  dialog.addEventListener("close", () => dialog.remove());
  document.body.append(dialog);
  dialog.showModal();
}

function keys() {
  let prefix = 0;
  /** @type {Record<string, string>} */
  const go = { f: "fleet", w: "whatif", d: "drains", i: "incidents", r: "replay", y: "why", c: "cluster" };
  addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || document.querySelector("dialog[open]")) return;
    const typing = event.target instanceof Element ? event.target.closest("input, textarea, select") : null;
    if (event.key === "Escape") { if (typing instanceof HTMLElement) typing.blur(); else current?.escape?.(); return; }
    if (typing) return;
    const page = go[event.key];
    if (Date.now() - prefix < 1_200 && page) { event.preventDefault(); prefix = 0; app.go(page); return; }
    if (event.key === "g") prefix = Date.now();
    if (event.key === "/") { event.preventDefault(); /** @type {HTMLElement | null} */ (document.querySelector("[data-filter]"))?.focus(); }
    if (event.key === "?") help();
  });
}

session.onExpired = () => {
  // Before that, a refusal answers somebody who signs in; afterwards, what was still asked.
  if (!begun || expired) return;
  expired = true;
  current?.close?.();
  current = null;
  login("Your session has ended.");
};
keys();
idle();
nav();
setInterval(refreshTimes, TIMES_MS);
globalThis.lazaret = { fleet, app, page: () => current };
session.begin().then((known) => (known ? start() : login()), (error) => show(main, empty("The server does not answer", messageOf(error))));
