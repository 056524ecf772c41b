// One device: what it is, what is wrong with it, who has it, and what can be done.

import { STATES, stageOf, taintText } from "./fleet.js";
import { ago, command, h, redraw, show } from "./dom.js";
import { actions } from "./actions.js";
import { incidentWait, waitLine } from "./waits.js";

/** @import { DeviceAttribute } from "./types/api" */
/** @import { App, EventObject, Origin, PodObject, Taint } from "./types/page" */
/** @import { Device } from "./fleet.js" */

/** @type {Record<Origin, string>} */
const ORIGIN_WORDS = { none: "", driver: "driver, in slice", rule: "rule", patch: "patch", policy: "policy, in rule", person: "person, in rule" };
const HISTORY_MAX = 8;
/** A longer name is written smaller. */
const TITLE_CHARS_MAX = 32;

/** @param {App} app @param {string} key @param {() => void} onClose */
export function devicePanel(app, key, onClose) {
  const { fleet, api } = app;
  const element = h("aside.panel", { "aria-label": "Device", tabindex: "-1" });
  /** @type {Map<string, ReturnType<typeof slimPod>>} */
  const pods = new Map();
  /** @type {EventObject[] | null} */
  let events = null;
  let drawn = "";
  let closed = false;

  /** @param {DeviceAttribute | undefined} attribute */
  function value(attribute) {
    const [found] = /** @type {unknown[]} */ (Object.values(attribute ?? {}));
    return Array.isArray(found) ? found.join(", ") : String(found ?? "");
  }

  function update() {
    const device = fleet.devices.get(key);
    const marker = JSON.stringify([device?.state, device?.taints, [...(device?.claims ?? [])].map((id) => fleet.claims.get(id)?.metadata.resourceVersion),
      fleet.incidentOf(device ?? {})?.metadata.resourceVersion, device?.patched, events?.length, fleet.nodes.size, [...pods]]);
    if (marker === drawn) return;
    drawn = marker;
    const close = h("button.close", { type: "button", "aria-label": "Close", onclick: onClose }, "×");
    if (!device) {
      show(element, h("header", h("div", title(key), h("p.note", "No driver publishes this device, and no claim holds it.")), close));
      return;
    }
    const [, word, meaning] = STATES.find(([id]) => id === device.state) ?? [];
    const incident = fleet.incidentOf(device);
    const wait = incident ? incidentWait(incident) : null;
    redraw(element,
      h("header", h("div", title(`${device.pool}/${device.name}`), h("p.note", device.driver)), close),
      h("p", h("span.pill", { hue: `var(--${device.state})` }, word), " ", h("span.note", meaning)),
      actions(app, device, incident),
      h("h2", "Taints"), device.taints.length ? device.taints.map(taint) : h("p.note", "None."),
      h("h2", "Held by"), holders(device),
      incident ? [h("h2", "Incident"), h("p", h("a", { href: `#/incidents/${incident.metadata.name}` }, incident.metadata.name), ` · ${stageOf(incident)}`,
        wait ? ` · ${waitLine(wait)}` : "")] : null,
      h("h2", "Device"),
      h("dl", [["Node", device.node ?? "—"], ["Model", device.model ?? "—"], ["Slice", device.slice ?? "not published"]].map(([name, text]) => [h("dt", name), h("dd", text)]),
        Object.entries(device.patched?.capacity ?? {}).map(([name, one]) => [h("dt", name), h("dd", one.value ?? "")])),
      h("dl.long", Object.entries(device.patched?.attributes ?? {}).map(([name, one]) => [h("dt", name), h("dd", value(one))])),
      h("h2", "History"), history(),
      command(`kubectl device describe ${device.key}`));
  }

  /** @param {string} name */
  const title = (name) => h(name.length > TITLE_CHARS_MAX ? "h1.long" : "h1", name);

  /** @param {Taint} one */
  const taint = (one) => h("div.item", { hue: `var(--${one.effect === "NoExecute" ? "draining" : one.effect === "NoSchedule" ? "noschedule" : "suspect"})` },
    h("p", h("code", taintText(one))),
    h("p.note", `${ORIGIN_WORDS[one.origin]} ${one.by}`, one.timeAdded ? [" · ", ago(one.timeAdded)] : "", one.setBy ? ` · by ${one.setBy}` : ""),
    one.reason || one.description ? h("p", one.reason ?? one.description) : null);

  /** @param {Device} device */
  function holders(device) {
    const list = fleet.holders(device);
    if (list.length === 0) return h("p.note", fleet.hidden.claims ? "Unknown: you may not list claims in every namespace." : "No claim.");
    return list.map((holder) => h("div.item", h("p", "claim ", h("code", `${holder.namespace}/${holder.name}`)),
      holder.pods.map((name) => {
        const pod = pods.get(`${holder.namespace}/${name}`);
        const owner = pod?.metadata?.ownerReferences?.find((one) => one.controller);
        return h("p", "pod ", h("a", { href: `#/why/${holder.namespace}/${name}` }, name),
          pod ? h("span.note", ` ${pod.metadata.deletionTimestamp ? "Terminating" : pod.status?.phase ?? ""}${owner ? ` · ${owner.kind} ${owner.name}` : ""}`) : null);
      })));
  }

  function history() {
    if (events === null) return h("p.note", "…");
    if (events.length === 0) return h("p.note", "No events. A server keeps events for an hour by default.");
    return h("ul.timeline", events.slice(0, HISTORY_MAX).map((event) => h("li", h("div", event.reason, " ", h("span.note", ago(event.lastTimestamp ?? event.eventTime ?? event.metadata.creationTimestamp))),
      h("div.note", event.message ?? ""))));
  }

  async function more() {
    const device = fleet.devices.get(key);
    if (!device) { events = []; update(); return; }
    const holders = fleet.holders(device).flatMap((holder) => holder.pods.map((name) => ({ namespace: holder.namespace, name }))).slice(0, 20);
    await Promise.all(holders.map(async ({ namespace, name }) => {
      try { pods.set(`${namespace}/${name}`, slimPod(await api.get(`/api/v1/namespaces/${namespace}/pods/${name}`))); } catch { /* gone, or not to be seen */ }
    }));
    try {
      /** @type {Set<string | undefined>} */
      const names = new Set([...device.taints.map((one) => one.by), ...fleet.holders(device).flatMap((one) => [one.name, ...one.pods]), fleet.incidentOf(device)?.metadata.name]);
      const { items } = /** @type {{ items: EventObject[] }} */ (await api.list("/api/v1/events"));
      events = items.filter((event) => names.has(event.involvedObject?.name) || (event.message ?? "").includes(`${device.pool}/${device.name}`))
        .sort((a, b) => String(b.lastTimestamp ?? b.eventTime ?? "").localeCompare(String(a.lastTimestamp ?? a.eventTime ?? "")));
    } catch { events = []; }
    if (!closed) update();
  }

  update();
  more();
  queueMicrotask(() => element.focus({ preventScroll: true }));
  return { element, update, close() { closed = true; element.remove(); } };
}

/** @param {PodObject} pod */
const slimPod = (pod) => ({ metadata: { ownerReferences: pod.metadata.ownerReferences, deletionTimestamp: pod.metadata.deletionTimestamp }, status: { phase: pod.status?.phase } });
