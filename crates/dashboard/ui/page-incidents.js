// Incidents of devices: open and past, with their timelines, times and cost.

import { ago, count, empty, h, show, span } from "./dom.js";
import { incidentDevice, stageOf } from "./fleet.js";
import { guarded, incidentAct } from "./actions.js";

const HUES = { Suspect: "suspect", Quarantined: "noschedule", Draining: "draining", Repairing: "repairing", Abandoned: "repairing", Probation: "probation", Cleared: "inuse" };
const PAST_MAX = 100;
const STEPS = [["detected", "decided", "decide"], ["decided", "drained", "drain"], ["drained", "repaired", "repair"], ["repaired", "cleared", "prove"]];

/** How long each part of a recovery took, as far as it is known. */
export function parts(incident) {
  const times = incident.status?.times ?? {};
  return STEPS.map(([from, to, name]) => {
    const [a, b] = [Date.parse(times[from]), Date.parse(times[to])];
    return Number.isNaN(a) || Number.isNaN(b) ? null : { name, seconds: (b - a) / 1000 };
  }).filter(Boolean);
}

export function incidentsPage(main, app, argument) {
  const { fleet } = app;
  const list = h("div");
  const state = h("p");
  show(main, h("div.page", h("header", h("h1", "Incidents"), state), list));
  let marker = "";

  function card(incident) {
    const { status = {}, spec } = incident;
    const stage = stageOf(incident);
    const key = incidentDevice(incident);
    const cost = status.cost ?? {};
    const open = cost.outOfServiceSince ? (Date.now() - Date.parse(cost.outOfServiceSince)) / 1000 : 0;
    const flaps = Array.isArray(status.flaps) ? status.flaps.length : status.flaps ?? 0;
    const out = (cost.outOfServiceSeconds ?? 0) + open;
    const timeline = status.timeline ?? [{ at: spec.openedAt, stage: spec.stage, cause: spec.cause, actor: `policy ${spec.policy}` }];
    const button = (text, act) => guarded(app, "patch", "lazaret.dev", "deviceincidents", h("button.act", { type: "button", onclick: () => incidentAct(app, incident, act) }, text));
    const live = stage !== "Cleared";
    return h("article.card", { id: `incident-${incident.metadata.name}` },
      h("header", h("h2", h("a", { href: `#/fleet/${key}` }, key)), h("span.pill", { hue: `var(--${HUES[stage] ?? "gone"})` }, stage),
        status.enforced === true || !live ? null : h("span.note", "observed only"), h("span.end", ago(spec.openedAt))),
      h("div.facts", h("span", `policy ${spec.policy}, rule ${status.rule ?? spec.rule ?? "—"}`), h("span", `${count(cost.podsEvicted ?? 0, "pod")} evicted`),
        h("span", "out of service ", h("b", span(out))), flaps ? h("span", count(flaps, "flap")) : null,
        status.timeToRecoverSeconds ? h("span", "recovered in ", h("b", span(status.timeToRecoverSeconds))) : null,
        parts(incident).map((part) => h("span", `${part.name} ${span(part.seconds)}`))),
      status.waitsFor ? h("p", `Waits for ${status.waitsFor}`) : null,
      status.acknowledgedBy ? h("p.note", `Acknowledged by ${status.acknowledgedBy}`) : null,
      h("details", { open: live }, h("summary.note", "Timeline"), h("ul.timeline", timeline.map((entry) => h("li", { hue: `var(--${HUES[entry.stage] ?? "gone"})` },
        h("div", entry.stage, " ", h("span.note", ago(entry.at))), h("div.note", entry.cause ?? "", entry.actor ? ` · ${entry.actor}` : ""))))),
      live ? h("div.actions", status.acknowledgedBy ? null : button("Acknowledge", "acknowledge"),
        stage === "Repairing" || stage === "Abandoned" ? button("Repaired…", "repaired") : null, stage === "Abandoned" ? null : button("Abandon…", "abandon")) : null);
  }

  function update() {
    const all = [...fleet.incidents.values()].sort((a, b) => String(b.spec.openedAt).localeCompare(String(a.spec.openedAt)));
    const now = all.map((incident) => incident.metadata.resourceVersion).join();
    if (now === marker) return;
    marker = now;
    const open = all.filter((incident) => stageOf(incident) !== "Cleared");
    const past = all.filter((incident) => stageOf(incident) === "Cleared");
    const recovered = past.map((incident) => incident.status?.timeToRecoverSeconds).filter(Number.isFinite);
    const mean = recovered.length ? recovered.reduce((sum, one) => sum + one, 0) / recovered.length : null;
    state.textContent = all.length ? `${open.length} open, ${past.length} past${mean === null ? "" : `, mean time to recover ${span(mean)}`}` : "";
    show(list, all.length === 0 ? empty("No incidents", "A DeviceHealthPolicy opens one when the signals of a device fit one of its rules.") : null,
      open.map(card), past.length ? h("h2", "Past") : null, past.slice(0, PAST_MAX).map(card));
    if (argument) document.getElementById(`incident-${argument}`)?.scrollIntoView({ block: "start" });
  }

  update();
  if (fleet.incidents.size === 0) marker = "-", update();
  return { update };
}
