// Incidents of devices: open and past, with their timelines, times and cost.

import { ago, command, count, empty, h, keyed, show, span, tally } from "./dom.js";
import { incidentDevice, stageOf } from "./fleet.js";
import { evicted, movesList } from "./page-drains.js";
import { NOTE, guarded, incidentAct, noteDialog } from "./actions.js";
import { incidentWait, waitLine } from "./waits.js";

/** @import { Incident, Item, MakePage, Move } from "./types/page" */
/** @typedef {"detected" | "decided" | "drained" | "repaired" | "cleared"} Instant */

/** @type {Record<string, string>} */
const HUES = { Suspect: "suspect", Quarantined: "noschedule", Draining: "draining", Repairing: "repairing", Abandoned: "repairing", Probation: "probation", Cleared: "inuse" };
const PAST_MAX = 100;
/** @type {[Instant, Instant, string][]} */
const STEPS = [["detected", "decided", "decide"], ["decided", "drained", "drain"], ["drained", "repaired", "repair"], ["repaired", "cleared", "prove"]];

/** How long each part of a recovery took, as far as it is known. @param {Incident} incident */
export function parts(incident) {
  const times = incident.status?.times ?? {};
  return STEPS.flatMap(([from, to, name]) => {
    const [a, b] = [Date.parse(times[from] ?? ""), Date.parse(times[to] ?? "")];
    return Number.isNaN(a) || Number.isNaN(b) ? [] : [{ name, seconds: (b - a) / 1000 }];
  });
}

/** @type {MakePage} */
export function incidentsPage(main, app, argument) {
  const { fleet, moves } = app;
  const list = h("div");
  const pastTitle = h("h2", "Past");
  const pastList = h("div");
  const nothing = h("div");
  const state = h("p");
  show(main, h("div.page", h("header", h("h1", "Incidents"), state), list, pastTitle, pastList, nothing));
  /** @type {string | null} */
  let wanted = argument;
  let counted = "";

  /** Pods that left the device while this page was open. @param {Incident} incident */
  function went(incident) {
    const device = fleet.devices.get(incidentDevice(incident));
    return device ? moves.of(incident.metadata.uid, [device]) : [];
  }

  /** @param {Incident} incident @param {Move[]} gone */
  function card(incident, gone) {
    const { status = {}, spec } = incident;
    const stage = stageOf(incident);
    const key = incidentDevice(incident);
    const cost = status.cost ?? {};
    const open = cost.outOfServiceSince ? (Date.now() - Date.parse(cost.outOfServiceSince)) / 1000 : 0;
    const flaps = status.flaps ?? [];
    const out = (cost.outOfServiceSeconds ?? 0) + open;
    /** @type {NonNullable<typeof status.timeline>} */
    const timeline = status.timeline ?? [{ at: spec.openedAt, stage: spec.stage, cause: spec.cause, actor: `policy ${spec.policy}` }];
    /** @param {string} text @param {Parameters<typeof incidentAct>[2]} act */
    const button = (text, act) => guarded(app, "patch", "lazaret.dev", "deviceincidents", h("button.act", { type: "button", onclick: () => incidentAct(app, incident, act) }, text));
    const live = stage !== "Cleared";
    const wait = incidentWait(incident);
    return h("article.card", { id: `incident-${incident.metadata.name}` },
      h("header", h("h2", h("a", { href: `#/fleet/${key}` }, key)), h("span.pill", { hue: `var(--${HUES[stage] ?? "gone"})` }, stage),
        status.enforced === true || !live ? null : h("span.note", "observed only"), h("span.end", ago(spec.openedAt))),
      h("div.facts", h("span", `policy ${spec.policy}, rule ${status.rule ?? spec.rule ?? "—"}`), h("span", evicted(cost.podsEvicted ?? 0, gone, count(cost.podsEvicted ?? 0, "pod")), " evicted"),
        h("span", "out of service ", h("b", span(out))), flaps.length ? h("span", tally(flaps.length, count(flaps.length, "flap"), "Flaps", () => flaps.map((at) => ({ text: String(at) })))) : null,
        status.timeToRecoverSeconds ? h("span", "recovered in ", h("b", span(status.timeToRecoverSeconds))) : null,
        parts(incident).map((part) => h("span", `${part.name} ${span(part.seconds)}`))),
      wait ? h("p", waitLine(wait)) : null,
      incident.metadata.annotations?.[NOTE] ? h("p.quote", incident.metadata.annotations[NOTE]) : null,
      gone.length ? movesList(gone) : null,
      status.acknowledgedBy ? h("p.note", `Acknowledged by ${status.acknowledgedBy}`) : null,
      h("details", { open: live }, h("summary.note", "Timeline"), h("ul.timeline", timeline.map((entry) => h("li", { hue: `var(--${HUES[entry.stage] ?? "gone"})` },
        h("div", entry.stage, " ", h("span.note", ago(entry.at))), h("div.note", entry.cause ?? "", entry.actor ? ` · ${entry.actor}` : ""))))),
      h("div.actions", live && !status.acknowledgedBy ? button("Acknowledge", "acknowledge") : null,
        stage === "Repairing" || stage === "Abandoned" ? button("Repaired…", "repaired") : null, live && stage !== "Abandoned" ? button("Abandon…", "abandon") : null,
        guarded(app, "patch", "lazaret.dev", "deviceincidents", h("button.act", { type: "button", onclick: () => noteDialog(app, incident) }, "Note…")),
        h("a.act", { href: `#/replay/${incident.metadata.name}` }, "Replay")));
  }

  /** @param {Incident} incident */
  const entry = (incident) => {
    const gone = went(incident);
    return { key: incident.metadata.uid, facts: [incident.metadata.resourceVersion, gone.map(({ name, by }) => [name, by?.name, by?.devices.map((one) => one.key)])], make: () => card(incident, gone) };
  };

  function update() {
    const all = [...fleet.incidents.values()].sort((a, b) => String(b.spec.openedAt).localeCompare(String(a.spec.openedAt)));
    const open = all.filter((incident) => stageOf(incident) !== "Cleared");
    const past = all.filter((incident) => stageOf(incident) === "Cleared");
    const recovered = past.flatMap((incident) => incident.status?.timeToRecoverSeconds ?? []);
    const mean = recovered.length ? recovered.reduce((sum, one) => sum + one, 0) / recovered.length : null;
    /** @param {Incident} incident @returns {Item} */
    const item = (incident) => ({ text: incident.metadata.name, href: `#/incidents/${incident.metadata.name}`, note: stageOf(incident) });
    const marker = all.map((incident) => `${incident.metadata.uid} ${stageOf(incident)}`).join();
    if (marker !== counted) {
      counted = marker;
      show(state, all.length ? [tally(open.length, open.length, "Open incidents", () => open.map(item)), " open, ", tally(past.length, past.length, "Past incidents", () => past.map(item)), " past",
        mean === null ? "" : `, mean time to recover ${span(mean)}`] : null);
    }
    keyed(list, open.map(entry));
    keyed(pastList, past.slice(0, PAST_MAX).map(entry));
    pastTitle.hidden = past.length === 0;
    show(nothing, all.length ? null : empty("No incidents", h("p", "A DeviceHealthPolicy opens one when the signals of a device fit one of its rules."), command("kubectl apply -f examples/health/policy.yaml")));
    const target = wanted && document.getElementById(`incident-${wanted}`);
    if (target) { target.scrollIntoView({ block: "start" }); wanted = null; }
  }

  update();
  return { update, move(next) { wanted = next; update(); return true; } };
}
