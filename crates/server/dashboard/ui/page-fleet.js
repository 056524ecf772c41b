// The fleet: counts that add up, the heat map, and the device that is open beside it.

import { STATES, parseFilter, stateWord, taintText } from "./fleet.js";
import { HeatMap, drawCell } from "./heatmap.js";
import { count, deviceItem, empty, h, messageOf, show, tally } from "./dom.js";
import { devicePanel } from "./panel.js";
import { plan } from "./actions.js";

/** @import { Child, Group, MakePage, NodeObject, Selection, State } from "./types/page" */
/** @import { Device, Fleet } from "./fleet.js" */
/** @typedef {Fleet["nodes"]} Nodes */
/** @typedef {Fleet["classes"]} Classes */

const GROUPS = [["node", "node"], ["pool", "pool"], ["driver", "driver"], ["model", "model"], ["class", "class"], ["zone", "zone"], ["rack", "rack"], ["state", "state"]];
const ZONE = "topology.kubernetes.io/zone";
const RACK = "topology.kubernetes.io/rack";
/** A table longer than this is not read by anybody. */
const ROWS_MAX = 500;
/** After the last key the expression is evaluated. */
const PAUSE_MS = 150;

/** `gpu-10` after `gpu-9`. */
const order = new Intl.Collator("en", { numeric: true });

/** @param {Device} device @param {string} by @param {Nodes} nodes @param {Classes} [classes] */
export function groupOf(device, by, nodes, classes) {
  /** @param {string} key */
  const label = (key) => nodes.get(device.node ?? "")?.metadata.labels?.[key] ?? "(none)";
  switch (by) {
    case "pool": return device.pool;
    case "driver": return device.driver;
    case "model": return device.model ?? "(none)";
    case "zone": return label(ZONE);
    case "rack": return label(RACK);
    case "class": return classes?.get(device.key)?.join(", ") ?? "(none)";
    case "state": return stateWord(device.state);
    default: return device.node ?? device.pool;
  }
}

/** @param {Device[]} devices @param {string} by @param {Nodes} nodes @param {Classes} [classes] */
export function grouped(devices, by, nodes, classes) {
  /** @type {Map<string, Group>} */
  const groups = new Map();
  for (const device of devices) {
    const name = groupOf(device, by, nodes, classes);
    let group = groups.get(name);
    if (!group) groups.set(name, (group = { name, devices: [] }));
    group.devices.push(device);
  }
  const list = [...groups.values()].sort((a, b) => order.compare(a.name, b.name));
  for (const group of list) group.devices.sort((a, b) => order.compare(a.pool, b.pool) || order.compare(a.name, b.name));
  return list;
}

/** Totals, a bar and a legend that filters; shared with the replay. `onTotal` shows all of them. @param {(state: State) => void} [onState] @param {() => void} [onTotal] */
export function summary(onState, onTotal) {
  const chips = STATES.map(([id, name, what]) => {
    const canvas = h("canvas", { "aria-hidden": "true" });
    const number = h("b", "0");
    const button = h("button", { type: "button", title: what, "aria-pressed": "false", onclick: () => onState?.(id) }, canvas, number, name);
    return { id, button, number, canvas, bar: h("i", { hue: `var(--${id})` }) };
  });
  const paint = () => chips.forEach(({ canvas, id }) => {
    canvas.width = canvas.height = 28;
    const context = canvas.getContext("2d");
    context?.scale(2, 2);
    if (context) drawCell(context, id, 14);
  });
  const ended = new AbortController();
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", paint, { signal: ended.signal });
  const total = onTotal ? h("button.tally", { type: "button", title: "Show them as a table", onclick: onTotal }, "0") : h("span", "0");
  const words = h("span");
  const element = h("section.summary", { "aria-label": "Devices by state" },
    h("div.total", h("strong", total), words), h("div.ratio", { "aria-hidden": "true" }, chips.map((chip) => chip.bar)), h("div.legend", chips.map((chip) => chip.button)));
  paint();
  return {
    element,
    /** @param {number[]} counts @param {Child} text @param {State | null} [chosen] */
    set(counts, text, chosen = null) {
      const all = counts.reduce((sum, number) => sum + number, 0);
      total.textContent = all.toLocaleString("en");
      show(words, text);
      chips.forEach(({ id, button, number, bar }, at) => {
        const many = counts[at] ?? 0;
        number.textContent = many.toLocaleString("en");
        button.classList.toggle("none", many === 0);
        button.setAttribute("aria-pressed", String(chosen === id));
        bar.style.width = all ? `${(many / all) * 100}%` : "0";
        bar.hidden = many === 0;
      });
    },
    close() { ended.abort(); },
  };
}

/** @type {MakePage} */
export function fleetPage(main, app, argument) {
  const { fleet } = app;
  let filter = "";
  /** @type {State | null} */
  let state = null;
  let by = sessionStorage.getItem("group") ?? "node";
  let asTable = false;
  let shape = -1;
  /** @type {Device[]} */
  let shown = [];
  let asked = "";
  let asking = 0;
  /** Devices that the expression matches; null before the answer. @type {Selection | null} */
  let matched = null;
  let problem = "";
  const head = summary((id) => { state = state === id ? null : id; layout(); }, () => { state = null; asTable = true; layout(); });
  const input = h("input", { type: "search", placeholder: "Filter: a name, node=…, state=draining, tainted, or CEL", "aria-label": "Filter devices", "data-filter": true,
    oninput: () => { filter = input.value; layout(); } });
  const group = h("select", { "aria-label": "Group by", onchange: () => { by = group.value; sessionStorage.setItem("group", by); layout(); } },
    GROUPS.map(([id, name]) => h("option", { value: id }, `by ${name}`)));
  group.value = by;
  /** @param {string} name @param {boolean} isTable */
  const view = (name, isTable) => h("button", { type: "button", "aria-pressed": String(!isTable), onclick: () => { asTable = isTable; layout(); } }, name);
  const [mapButton, tableButton] = [view("Map", false), view("Table", true)];
  const views = h("div.segments", { role: "group", "aria-label": "View" }, mapButton, tableButton);
  const split = h("div.split");
  const selection = h("div.selection", { hidden: true });
  const map = new HeatMap({ open: (device) => app.go(`fleet/${device.key}`), select: selected });
  const table = h("div.tablebox", { tabindex: "0" });
  /** @type {ReturnType<typeof devicePanel> | null} */
  let panel = null;

  function selected() {
    selection.hidden = map.selected.size === 0;
    const devices = [...map.selected].flatMap((key) => fleet.devices.get(key) ?? []);
    show(selection, h("b", tally(devices.length, count(devices.length, "device"), "Selected devices", () => devices.map(deviceItem)), " selected"),
      h("button.act", { type: "button", onclick: () => app.go(`whatif/${devices.slice(0, 50).map((device) => device.key).join(",")}`) }, "What if…"),
      h("button.act", { type: "button", onclick: () => plan(app, "cordon", devices) }, "Cordon"),
      h("button.act.danger", { type: "button", onclick: () => plan(app, "drain", devices) }, "Drain…"),
      h("button.act", { type: "button", onclick: () => { map.selected.clear(); selected(); map.dirty(); } }, "Clear"));
  }

  /** @param {string} text */
  const isExpression = (text) => /\bdevice\./.test(text);

  /** Asks the cores which devices an expression matches, and which are in which class. */
  async function askCores() {
    const marker = JSON.stringify([fleet.shape, by === "class", isExpression(filter) ? filter.trim() : ""]);
    if (marker === asked) return;
    asked = marker;
    try {
      const names = by === "class" && app.served.classes ? (await app.api.list(app.served.classes.path)).items.map((one) => one.metadata.name) : [];
      const expressions = isExpression(filter) ? [filter.trim()] : [];
      if (names.length + expressions.length === 0) return;
      const found = await app.engine.select(app, [...names.map((deviceClassName) => ({ deviceClassName })), ...expressions.map((expression) => ({ selectors: [{ cel: { expression } }] }))]);
      if (marker !== asked) return;
      fleet.classes = new Map();
      names.forEach((name, at) => { for (const key of found[at] ?? []) fleet.classes.set(key, [...(fleet.classes.get(key) ?? []), name]); });
      matched = (expressions.length ? found[names.length] : null) ?? null;
      problem = matched?.problem ?? "";
    } catch (error) { if (marker === asked) { matched = new Set(); problem = messageOf(error); } }
    layout();
  }

  function layout() {
    const fits = isExpression(filter) ? (/** @type {Device} */ device) => matched?.has(device.key) === true : parseFilter(filter);
    if (by === "class" || isExpression(filter)) { clearTimeout(asking); asking = setTimeout(askCores, PAUSE_MS); }
    const wanted = [...fleet.devices.values()].filter(fits);
    counts(wanted);
    shown = state ? wanted.filter((device) => device.state === state) : wanted;
    shape = fleet.shape;
    mapButton.setAttribute("aria-pressed", String(!asTable));
    tableButton.setAttribute("aria-pressed", String(asTable));
    map.element.setAttribute("aria-label", `${count(shown.length, "device")}; arrows move, Enter opens. The table view has the same devices as text.`);
    body();
  }

  function body() {
    if (fleet.devices.size === 0) {
      split.replaceChildren(empty("No devices yet", "Drivers publish devices in ResourceSlices. Simulated ones come with ", h("code", "lazaret up --nodes 4 --devices 8"), "."));
    } else if (shown.length === 0) {
      split.replaceChildren(problem && isExpression(filter) ? empty("The expression cannot be used", problem) : empty("No device fits the filter", isExpression(filter) && !matched ? "…" : "Esc leaves the filter."));
    } else if (asTable) {
      rows();
      split.replaceChildren(table);
    } else {
      if (map.element.parentNode !== split) split.replaceChildren(map.element);
      map.show(grouped(shown, by, fleet.nodes, fleet.classes));
    }
    if (panel) split.append(panel.element);
  }

  function rows() {
    const list = grouped(shown, by, fleet.nodes, fleet.classes).flatMap((one) => one.devices);
    show(table, h("table", h("caption.sr", "Devices"), h("thead", h("tr", ["Device", "Node", "Model", "State", "Taints", "Holder"].map((name) => h("th", { scope: "col" }, name)))),
      h("tbody", list.slice(0, ROWS_MAX).map((device) => {
        const open = () => app.go(`fleet/${device.key}`);
        const pods = fleet.holders(device).flatMap((holder) => (holder.pods.length ? holder.pods : [holder.name]).map((pod) => `${holder.namespace}/${pod}`));
        return h("tr", { tabindex: "0", onclick: open, onkeydown: (event) => { if (event.key === "Enter") open(); } },
          h("td", device.key), h("td", device.node ?? ""), h("td", device.model ?? ""),
          h("td", h("span.pill", { hue: `var(--${device.state})` }, stateWord(device.state))),
          h("td", device.taints.map(taintText).join(", ")), h("td", pods.slice(0, 3).join(", "), pods.length > 3 ? ` and ${pods.length - 3} more` : ""));
      }))), list.length > ROWS_MAX ? h("p.empty", `${(list.length - ROWS_MAX).toLocaleString("en")} more: narrow the filter.`) : null);
  }

  /** @param {Device[]} wanted */
  function counts(wanted) {
    /** @type {Map<string, number>} */
    const nodes = new Map();
    for (const device of wanted) nodes.set(device.node ?? device.pool, (nodes.get(device.node ?? device.pool) ?? 0) + 1);
    const nodeItems = () => [...nodes].sort(([a], [b]) => order.compare(a, b)).map(([name, number]) => ({ text: name, href: `#/fleet/?node=${name}`, note: count(number, "device") }));
    const part = filter ? ` of ${fleet.devices.size.toLocaleString("en")}` : "";
    const note = fleet.hidden.claims ? "; you may not list all claims, so a device in use may look free" : "";
    head.set(fleet.counts(wanted), [`devices${part} on `, tally(nodes.size, count(nodes.size, "node"), "Nodes", nodeItems), note], state);
  }

  /** A key opens a device; `?` and the words of a filter show the devices that fit it. @param {string} key */
  function open(key) {
    if (key.startsWith("?")) {
      input.value = filter = key.slice(1);
      key = "";
      layout();
    }
    panel?.close();
    panel = key ? devicePanel(app, key, () => app.go("fleet")) : null;
    body();
  }

  show(main, h("div.fleet", h("h1.sr", "Fleet"), head.element, h("div.tools", h("div.grow", input, h("kbd", "/")), group, views), split, selection));
  layout();
  if (argument) open(argument);
  if (fleet.nodes.size === 0) app.api.list("/api/v1/nodes").then(({ items }) => { fleet.reset("nodes", /** @type {NodeObject[]} */ (items)); if (by === "zone" || by === "rack") layout(); }, () => {});
  let counted = 0;
  let stale = false;
  return {
    move(next) { open(next); return true; },
    escape() { if (panel) app.go("fleet"); else if (map.selected.size) { map.selected.clear(); selected(); map.dirty(); } },
    update() {
      panel?.update();
      const whole = fleet.shape !== shape || filter !== "" || state !== null || asTable || by === "state";
      if (!whole) map.dirty();
      // A change that needs the whole page may come while one that does not is waiting.
      stale ||= whole;
      counted ||= setTimeout(() => {
        counted = 0;
        if (stale) { stale = false; layout(); } else counts(shown);
      }, 100);
    },
    close() { map.destroy(); head.close(); panel?.close(); clearTimeout(counted); clearTimeout(asking); },
    map,
  };
}
