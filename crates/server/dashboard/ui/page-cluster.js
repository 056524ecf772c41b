// The server itself: versions, checks, guards, and its own numbers as small charts.

import { ago, command, deviceItem, h, keyed, messageOf, show, tally, wide } from "./dom.js";

/** @import { Guard, Item, MakePage } from "./types/page" */
/** @import { Fleet } from "./fleet.js" */

const INTERVAL_MS = 5_000;
const POINTS_MAX = 60;
/** @type {[string, string, "rate" | "value"][]} */
const CHARTS = [
  ["Requests/s", "apiserver_request_total", "rate"], ["Open watches", "lazaret_store_watches", "value"], ["Objects", "lazaret_store_objects", "value"],
  ["Commits/s", "lazaret_store_commits_total", "rate"], ["Evictions", "device_taint_eviction_controller_pod_deletions_total", "value"],
  ["Blocked evictions", "lazaret_evictions_blocked", "value"], ["Connections", "lazaret_connections", "value"],
];

/** Sums every series of a metric in the text that Prometheus reads. @param {string} text */
export function sums(text) {
  /** @type {Map<string, number>} */
  const found = new Map();
  for (const line of text.split("\n")) {
    if (!line || line.startsWith("#")) continue;
    const end = line.indexOf("{") >= 0 ? line.indexOf("{") : line.indexOf(" ");
    const value = Number(line.slice(line.lastIndexOf(" ") + 1));
    if (Number.isFinite(value)) found.set(line.slice(0, end), (found.get(line.slice(0, end)) ?? 0) + value);
  }
  return found;
}

/** The series of a metric. @param {string} text @param {string} metric */
export function seriesOf(text, metric) {
  const lines = text.split("\n").filter((line) => line.startsWith(`${metric}{`) || line.startsWith(`${metric} `));
  return lines.map((line) => ({ labels: line.slice(metric.length, line.lastIndexOf(" ")) || metric, value: Number(line.slice(line.lastIndexOf(" ") + 1)) }));
}

/**
 * Objects that a guard counts as out of service now: published devices with a taint that keeps claims away, or their nodes. The status of a guard is written now and
 * then. Null where only the cores can tell which devices are meant, or in which fault domain they are.
 * @param {Fleet} fleet
 * @param {Pick<Guard, "spec">} guard
 * @returns {Item[] | null}
 */
export function outOfService(fleet, { spec }) {
  const { driver, pool, device, selectors, deviceClassName } = spec?.deviceSelector ?? {};
  if (selectors?.length || deviceClassName || spec?.breaker?.of === "FaultDomains") return null;
  const found = [...fleet.devices.values()].filter((one) => one.spec && (!driver || one.driver === driver) && (!pool || one.pool === pool) && (!device || one.name === device)
    && one.taints.some(({ effect }) => effect === "NoSchedule" || effect === "NoExecute"));
  if (spec?.breaker?.of !== "Nodes") return found.map(deviceItem);
  return [...new Set(found.flatMap((one) => one.node ?? []))].sort().map((node) => ({ text: node, href: `#/fleet/?node=${node}` }));
}

/** @type {MakePage} */
export function clusterPage(main, app) {
  const { api, fleet, served } = app;
  const facts = h("dl");
  const checks = h("div");
  const tiles = h("div.tiles");
  const guards = h("div");
  const noGuards = h("div");
  const watches = wide("Watches of this page");
  const gates = h("div");
  show(main, h("div.page", h("header", h("h1", "Cluster")), h("div.columns", h("div.card", h("header", h("h2", "Server")), facts), h("div.card", h("header", h("h2", "Checks")), checks)),
    h("h2", "Guards"), guards, noGuards, h("h2", "Numbers"), tiles, h("div.columns.after", h("div.card", h("header", h("h2", "Watches of this page")), watches), h("div.card", h("header", h("h2", "Feature gates")), gates))));
  /** @type {Map<string, number[]>} */
  const series = new Map();
  /** @type {{ at: number, sums: Map<string, number> } | null} */
  let before = null;
  let gateCount = -1;

  /** @param {number[]} points */
  function spark(points) {
    const canvas = h("canvas.spark", { "aria-hidden": "true" });
    requestAnimationFrame(() => {
      const ratio = devicePixelRatio || 1;
      canvas.width = canvas.clientWidth * ratio;
      canvas.height = canvas.clientHeight * ratio;
      const context = canvas.getContext("2d");
      if (!context) return;
      const [low, high] = [Math.min(...points), Math.max(...points)];
      /** @param {number} value */
      const y = (value) => canvas.height - 3 - ((value - low) / (high - low || 1)) * (canvas.height - 6);
      /** @param {string} name */
      const colour = (name) => getComputedStyle(document.documentElement).getPropertyValue(name);
      context.fillStyle = colour("--line");
      context.fillRect(0, canvas.height - ratio, canvas.width, ratio);
      context.strokeStyle = colour("--accent");
      context.lineWidth = 1.5 * ratio;
      context.beginPath();
      points.forEach((value, at) => { const x = (at / Math.max(1, POINTS_MAX - 1)) * canvas.width; if (at) context.lineTo(x, y(value)); else context.moveTo(x, y(value)); });
      context.stroke();
    });
    return canvas;
  }

  async function numbers() {
    let text;
    try { text = await (await api.request("GET", "/metrics")).text(); } catch (error) { show(tiles, h("p.note", `The numbers of the server cannot be read: ${messageOf(error)}`)); return; }
    const now = { at: Date.now(), sums: sums(text) };
    showGates(text);
    show(tiles, CHARTS.filter(([, metric]) => now.sums.has(metric)).map(([name, metric, how]) => {
      const value = now.sums.get(metric) ?? 0;
      const shown = how === "value" ? value : before ? Math.max(0, (value - (before.sums.get(metric) ?? 0)) / ((now.at - before.at) / 1000)) : 0;
      const points = series.get(metric) ?? [];
      if (how === "value" || before) points.push(shown);
      if (points.length > POINTS_MAX) points.shift();
      series.set(metric, points);
      const parts = seriesOf(text, metric);
      return h("div.tile", h("strong", tally(parts.length, shown.toLocaleString("en", { maximumFractionDigits: 1 }), metric, () => parts.map((part) => ({ text: part.labels, note: part.value.toLocaleString("en") })))), h("span", name), spark(points));
    }));
    before = now;
  }

  /** When each watch last told something, a bookmark or a change: a server sends one each minute. */
  function showWatches() {
    show(watches, h("table", h("thead", h("tr", ["Kind", "State", "Last told", "Changes", "Opened"].map((name) => h("th", { scope: "col" }, name)))),
      h("tbody", (app.watches ?? []).map(({ kind, source, isDown }) => h("tr", h("td.kind", kind), h("td", isDown() ? "not connected" : source.every ? "listed again now and then" : "live"),
        h("td", source.cursor.heard ? ago(new Date(source.cursor.heard).toISOString()) : "nothing yet"), h("td", (source.cursor.changes ?? 0).toLocaleString("en")), h("td", `${source.cursor.opened ?? 0}×`))))));
  }

  /** @param {string} text */
  function showGates(text) {
    const all = [...text.matchAll(/^kubernetes_feature_enabled\{([^}]*)\} (\d)/gm)].map(([, labels = "", on]) => ({ name: /name="([^"]*)"/.exec(labels)?.[1] ?? "", on: on === "1" }));
    const list = all.filter(({ name }) => /^(DRA|Dynamic|Device|Resource)/.test(name)).sort((a, b) => a.name.localeCompare(b.name));
    if (list.length === gateCount) return;
    gateCount = list.length;
    show(gates, list.length ? h("ul.plain", list.map(({ name, on }) => h("li", h("span.pill", { hue: on ? "var(--inuse)" : "var(--gone)" }, on ? "on" : "off"), " ", name))) : h("p.note", "The server does not tell."));
  }

  /** @param {Guard} guard @param {Item[] | null} items */
  function guardCard(guard, items) {
    const { paused, breaker, confirmAbove, windows } = guard.spec ?? {};
    const window = windows?.length ? guard.status?.window : null;
    const tripped = guard.status?.conditions?.find((one) => one.type === "BreakerTripped");
    const told = guard.status?.breaker?.outOfService;
    const out = items ? tally(items.length, items.length, "Out of service", () => items) : told === undefined ? null : h("a", { href: "#/fleet/?tainted" }, told);
    /** @type {[string, string][]} */
    const words = [];
    if (paused) words.push(["Paused", "suspect"]);
    if (tripped?.status === "True") words.push(["Breaker tripped", "draining"]); else if (breaker) words.push(["Breaker closed", "inuse"]);
    if (window) words.push(window.open ? ["Window open", "inuse"] : ["Window closed", "suspect"]);
    return h("div.card", h("header", h("h2", guard.metadata.name), words.map(([word, hue]) => h("span.pill", { hue: `var(--${hue})` }, word))),
      h("div.facts", paused ? h("span", `paused: ${paused.reason ?? ""}`, paused.until ? [", until ", h("time", { title: paused.until }, paused.until)] : "") : null,
        breaker ? h("span", `at most ${breaker.maxOutOfService} of ${(breaker.of ?? "Devices").replace(/(?<=.)[A-Z]/, " $&").toLowerCase()} out of service`, out ? [", now ", h("b", out)] : "") : null,
        windows?.length ? h("span", `evictions begin ${windows.map((one) => `${one.start} for ${one.duration} ${one.timeZone ?? "UTC"}`).join(", ")}`, window?.opensAt ? [", next at ", h("time", { title: window.opensAt }, window.opensAt)] : "") : null,
        confirmAbove ? h("span", `approval above ${Object.entries(confirmAbove).map(([what, number]) => `${number} ${what}`).join(", ")}`) : null),
      tripped?.status === "True" && tripped.message ? h("p", tripped.message) : null);
  }

  async function once() {
    try {
      /** @type {{ gitVersion: string }} */
      const version = await api.get("/version");
      const kinds = [["Version", version.gitVersion], ["Devices", served.slices ? `${served.slices.group}/${served.slices.version}` : "not served"], ["Rules", served.rules ? `${served.rules.group}/${served.rules.version}` : "not served"], ["You are", app.session.user]];
      show(facts, kinds.map(([name, value]) => [h("dt", name), h("dd", value)]));
    } catch (error) { show(facts, h("dd", messageOf(error))); }
    try {
      const text = await (await api.request("GET", "/readyz?verbose")).text();
      const lines = text.split("\n").filter((line) => line.startsWith("[")).map((line) => ({ ok: line.startsWith("[+]"), name: line.slice(3).replace(/ ok$/, "") }));
      const bad = lines.filter((line) => !line.ok);
      /** @param {typeof lines} list */
      const some = (list) => tally(list.length, list.length, "Checks", () => list.map((line) => ({ text: line.name, note: line.ok ? "passes" : "fails" })));
      show(checks, h("p", bad.length ? [some(bad), " of ", some(lines), " checks fail"] : ["All ", some(lines), " checks pass"]), bad.map((line) => h("p.error", line.name)), command("kubectl device check"));
    } catch (error) { show(checks, h("p.note", messageOf(error))); }
  }

  function showGuards() {
    const list = [...fleet.guards.values()];
    keyed(guards, list.map((guard) => {
      const items = guard.spec?.breaker ? outOfService(fleet, guard) : null;
      return { key: guard.metadata.uid, facts: [guard.metadata.resourceVersion, items?.map((item) => item.text)], make: () => guardCard(guard, items) };
    }));
    show(noGuards, list.length ? null : h("p.note", "None. A DisruptionGuard limits how much may be out of service at a time."));
  }

  once();
  numbers();
  showWatches();
  showGuards();
  const timer = setInterval(() => { numbers(); showWatches(); }, INTERVAL_MS);
  return { update: showGuards, close() { clearInterval(timer); } };
}
