// Why a pod waits, had to leave, or will.

import { ApiError } from "./api.js";
import { ago, command, empty, h, messageOf, show } from "./dom.js";
import { taintText } from "./fleet.js";
import { evictionWait, waitLine } from "./waits.js";

/** @import { EventObject, List, MakePage, PodObject } from "./types/page" */
/** @import { Device } from "./fleet.js" */

/** @type {MakePage} */
export function whyPage(main, app, argument) {
  const { api, fleet } = app;
  const input = h("input", { placeholder: "namespace/pod", value: argument, "aria-label": "Pod", "data-filter": true, spellcheck: "false" });
  const result = h("div");
  const form = h("form.tools", { onsubmit: (event) => { event.preventDefault(); app.go(`why/${input.value.trim()}`); } }, h("div.grow", input), h("button.act.primary", { type: "submit" }, "Why?"));
  form.style.padding = "0 0 14px";
  show(main, h("div.page", h("header", h("h1", "Why"), h("p", "Why a pod waits, had to leave, or will.")), form, result));

  /** @param {string} name */
  async function look(name) {
    const [namespace = "", pod = ""] = name.includes("/") ? name.split("/") : ["default", name];
    show(result, h("p.note", "…"));
    /** @type {PodObject | null} */
    let object = null;
    try { object = await api.get(`/api/v1/namespaces/${encodeURIComponent(namespace)}/pods/${encodeURIComponent(pod)}`); } catch (error) {
      if (!(error instanceof ApiError) || error.code !== 404) { show(result, h("p.error", messageOf(error))); return; }
    }
    /** @type {EventObject[]} */
    let events = [];
    try {
      const field = encodeURIComponent(`involvedObject.name=${pod},involvedObject.kind=Pod`);
      /** @type {List<EventObject>} */
      const list = await api.get(`/api/v1/namespaces/${encodeURIComponent(namespace)}/events?fieldSelector=${field}`);
      events = list.items ?? [];
    } catch { /* events are not everything */ }
    events.sort((a, b) => String(b.lastTimestamp ?? b.eventTime ?? "").localeCompare(String(a.lastTimestamp ?? a.eventTime ?? "")));
    if (!object && events.length === 0) { show(result, empty(`There is no pod ${namespace}/${pod}`, "and no event about it is left. A server keeps events for an hour by default.")); return; }
    show(result, object ? verdict(object, namespace) : h("div.card", h("p", `The pod ${namespace}/${pod} does not exist any more.`)),
      h("div.card", h("header", h("h2", "Events")), events.length ? h("ul.timeline", events.slice(0, 30).map((event) => h("li", { hue: event.type === "Warning" ? "var(--noschedule)" : "var(--accent)" },
        h("div", event.reason, " ", h("span.note", ago(event.lastTimestamp ?? event.eventTime ?? event.metadata.creationTimestamp))), h("div.note", event.message ?? "")))) : h("p.note", "None.")),
      command(`kubectl device why ${pod} -n ${namespace}`));
  }

  /** @param {PodObject} pod @param {string} namespace */
  function verdict(pod, namespace) {
    const claims = [...(pod.status?.resourceClaimStatuses ?? []), ...(pod.spec?.resourceClaims ?? [])].flatMap((one) => one.resourceClaimName ?? []);
    const devices = claims.flatMap((name) => fleet.claims.get(`${namespace}/${name}`)?.status?.allocation?.devices?.results ?? [])
      .flatMap((result) => fleet.devices.get(`${result.driver}/${result.pool}/${result.device}`) ?? []);
    const conditions = (pod.status?.conditions ?? []).filter((one) => (one.type === "PodScheduled" && one.status === "False") || one.type === "DisruptionTarget");
    const tainted = devices.filter((device) => device.taints.some((taint) => taint.effect === "NoExecute"));
    const phase = pod.metadata.deletionTimestamp ? "Terminating" : pod.status?.phase ?? "Unknown";
    return h("div.card", h("header", h("h2", `${namespace}/${pod.metadata.name}`), h("span.pill", { hue: "var(--accent)" }, phase), h("span.end", ago(pod.metadata.creationTimestamp))),
      conditions.map((one) => h("div.item", { hue: "var(--noschedule)" }, h("p", h("b", one.reason ?? one.type)), h("p", one.message ?? ""))),
      tainted.length ? tainted.map((device) => h("div.item", { hue: "var(--draining)" }, h("p", "It uses ", h("a", { href: `#/fleet/${device.key}` }, device.key), ", which is tainted ",
        device.taints.filter((taint) => taint.effect === "NoExecute").map((taint) => [h("code", taintText(taint)), taint.reason ? ` (${taint.reason})` : "", " "])))) : null,
      waits(tainted, `${namespace}/${pod.metadata.name}`).map((line) => h("div.item", { hue: "var(--noschedule)" }, h("p", "Its eviction is ", line))),
      !conditions.length && !tainted.length ? h("p", phase === "Running" ? "Nothing keeps it waiting and nothing makes it leave." : "Nothing about devices keeps it.") : null,
      devices.length ? h("p.note", "Devices: ", devices.map((device) => [h("a", { href: `#/fleet/${device.key}` }, device.key), " "])) : null);
  }

  /** What keeps a pod on its devices, by the conditions of rules that name it. @param {Device[]} devices @param {string} pod */
  function waits(devices, pod) {
    const names = new Set(devices.flatMap((device) => device.taints.filter((taint) => taint.effect === "NoExecute").map((taint) => taint.by)));
    const conditions = [...fleet.rules.values()].filter((rule) => names.has(rule.metadata.name)).flatMap((rule) => rule.status?.conditions ?? []);
    const about = conditions.filter((one) => one.type === "EvictionBlocked" && one.status === "True" && one.message.split(/[(), ]+/).includes(pod));
    return about.map((one) => waitLine(evictionWait(one)));
  }

  if (argument) look(argument); else input.focus();
  return { move(next) { input.value = next; if (next) look(next); return true; } };
}
