// Rules that evict: how far each is, how fast, what keeps it, and where the pods went.

import { ago, command, count, deviceItem, empty, h, keyed, messageOf, podItem, seen, show, span, tally } from "./dom.js";
import { isInForce, taintText } from "./fleet.js";
import { ask, guarded, quote, removeRule, servedAs } from "./actions.js";
import { typed } from "./engine.js";
import { evictionWait, waitLine } from "./waits.js";

/** @import { Child, Guard, Impact, Item, MakePage, Move, Phase, Progress, Rule } from "./types/page" */
/** @import { Device, Fleet } from "./fleet.js" */
/** @import { Moves } from "./moves.js" */

const PODS_SHOWN_MAX = 200;

/** @param {Rule} rule @param {string} type */
const conditionOf = (rule, type) => rule.status?.conditions?.find((one) => one.type === type);

/** Whether the controller says that no pod is left. @param {Rule} rule */
export const isDrained = (rule) => conditionOf(rule, "Drained")?.status === "True";
/** Whether it waits for approval and has no effect. @param {Rule} rule */
export const isHeld = (rule) => conditionOf(rule, "Held")?.status === "True" && !isInForce(rule);

/** Counts pods that left and pods that are left, and how fast. @param {Fleet} fleet @param {Rule} rule @returns {Progress} */
export function progress(fleet, rule, now = Date.now()) {
  const devices = fleet.devicesOfRule(rule);
  /** @type {Map<string, string>} */
  const pods = new Map();
  for (const device of devices) for (const { namespace, pods: names, uids } of fleet.holders(device)) names.forEach((pod, at) => pods.set(`${namespace}/${pod}`, uids[at] ?? ""));
  const gone = rule.status?.evictions?.pods ?? 0;
  const drained = conditionOf(rule, "Drained");
  const going = conditionOf(rule, "EvictionInProgress");
  const blocked = conditionOf(rule, "EvictionBlocked");
  const since = Date.parse(rule.spec.taint.timeAdded ?? rule.metadata.creationTimestamp ?? "");
  const until = Date.parse(rule.status?.evictions?.until ?? "") || now;
  const pace = rule.spec.taint.evictionsPerSecond ?? null;
  const left = pods.size;
  const held = isHeld(rule);
  const done = !held && (drained ? drained.status === "True" : left === 0);
  return {
    devices, pods: [...pods].map(([name, uid]) => ({ name, uid })).sort((a, b) => (a.name < b.name ? -1 : 1)), gone, left, done, held, pace,
    rate: gone / Math.max(1, (until - since) / 1000),
    blocked: blocked?.status === "True" && !done ? blocked : null,
    message: held ? conditionOf(rule, "Held")?.message ?? "" : (done ? "" : going?.message) || drained?.message || going?.message || "",
    // What is blocked ends when somebody lets it, which no pace tells.
    endsIn: done || held || blocked?.status === "True" || !pace ? null : Math.max(1, left / pace),
  };
}

/**
 * Pods of a drain by how far they are: `[{id, word, hue, pods}]`, without phases that no pod is in. Pods that are left have the reason why they
 * are still there; those that went were seen by this page to go.
 * @param {Progress} found
 * @param {Move[]} gone
 * @param {Pick<Moves, "askedAt">} moves
 * @param {string} pausedBy
 * @returns {Phase[]}
 */
export function phases(found, gone, moves, pausedBy) {
  // Its controller knows whether a guard that is paused is about this drain.
  const waits = found.held ? "the rule waits for approval" : found.blocked ? waitLine(evictionWait(found.blocked)) : pausedBy ? `evictions are paused: ${pausedBy}` : found.pace ? `the pace is ${found.pace}/s` : "its turn or its time has not come";
  const left = found.pods.map(({ name, uid }) => ({ name, askedAt: moves.askedAt(uid), why: waits }));
  return [
    { id: "waiting", word: "waiting", hue: "noschedule", pods: left.filter((pod) => !pod.askedAt) },
    { id: "ending", word: "ending", hue: "draining", pods: left.filter((pod) => pod.askedAt) },
    { id: "homeless", word: "gone, replacement without a device", hue: "suspect", pods: gone.filter((pod) => pod.owner && !pod.by?.devices.length) },
    { id: "replaced", word: "gone and replaced", hue: "inuse", pods: gone.filter((pod) => pod.by?.devices.length) },
    { id: "lost", word: "gone, nothing makes them again", hue: "gone", pods: gone.filter((pod) => !pod.owner) },
  ].filter(({ pods }) => pods.length);
}

/** How many pods are in which phase. @param {Phase[]} list */
const phaseCounts = (list) => h("p.phases", { "aria-label": "Pods by phase" }, list.map(({ id, word, hue, pods }) => h("span.pill", { hue: `var(--${hue})`, "data-phase": id },
  tally(pods.length, `${pods.length.toLocaleString("en")} ${word}`, `Pods: ${word}`, () => pods.map(({ name, why, askedAt }) => podItem(name, askedAt ? "" : why))))));

/** Pods that are left, with their phase and why they are still there. @param {Phase[]} list */
function leftList(list) {
  const rows = list.filter(({ id }) => id === "waiting" || id === "ending").flatMap(({ word, hue, pods }) => pods.map((pod) => ({ ...pod, word, hue })));
  return h("ul.moves", rows.slice(0, PODS_SHOWN_MAX).map(({ name, word, hue, askedAt, why }) => h("li", h("a", { href: `#/why/${name}` }, name), h("span.pill", { hue: `var(--${hue})` }, word),
    h("span.note.end", askedAt ? ["asked to end ", ago(new Date(askedAt).toISOString())] : why))));
}

/** Each pod that left, and the one that its owner made instead. @param {Move[]} gone */
export function movesList(gone) {
  /** @param {Device} device @param {number} index */
  const place = (device, index) => [index ? ", " : "", h("a", { href: `#/fleet/${device.key}` }, `${device.pool}/${device.name}`)];
  return h("ul.moves", gone.slice(-PODS_SHOWN_MAX).reverse().map(({ name, owner, at, by }) => h("li",
    h("span", name), h("span.arrow", { role: "img", "aria-label": "replaced by" }, "→"),
    by ? h("span", h("a", { href: `#/why/${by.name}` }, by.name), by.devices.length ? [" on ", by.devices.map(place)] : h("span.note", " waits for a device"))
      : h("span.note", owner ? `${owner} has not made another pod` : "nothing makes it again"),
    h("span.note.end", ago(new Date(at).toISOString())))));
}

/** Names of pods that left before this page was open are in events alone, for as long as a server keeps them. */
export const LEFT_BEFORE = "left before this page was open: kubectl get events -A --field-selector reason=DeviceTaintManagerEviction";
/** How many pods were evicted, and which. @param {number} number @param {Move[]} gone @param {Child} text */
export const evicted = (number, gone, text) => tally(number, text, `${count(number, "pod")} evicted`, () => (number ? gone.slice(-number) : []).map(({ name, by }) => podItem(name, by ? `replaced by ${by.name}` : "")), { unnamed: Math.max(0, number - gone.length), why: LEFT_BEFORE });

/** @type {MakePage} */
export function drainsPage(main, app, argument) {
  const { fleet, api, served, moves } = app;
  const list = h("div");
  const nothing = h("div");
  const state = h("p");
  const buttons = h("div.actions");
  show(main, h("div.page", h("header", h("h1", "Drains"), state), buttons, list, nothing));
  let control = "";
  let counted = "";
  /** @type {string | null} */
  let wanted = argument;

  /** @param {Rule} rule */
  const pathOf = (rule) => `${servedAs(served.rules).path}/${encodeURIComponent(rule.metadata.name)}`;

  function paused() {
    return [...fleet.guards.values()].find((guard) => guard.spec?.paused && (!guard.spec.paused.until || Date.parse(guard.spec.paused.until) > Date.now()));
  }

  function pause() {
    ask({
      title: "Pause evictions", reason: "required", body: h("p", "No eviction begins until they are resumed. Pods that are already leaving leave."),
      commands: (reason) => [`kubectl device pause --reason ${quote(reason || "TEXT")}`],
      run: async (reason) => {
        const annotations = { "lazaret.dev/reason": reason, "lazaret.dev/set-by": app.session.user };
        const known = fleet.guards.get("pause");
        if (known) await api.patch(`${served.disruptionguards.path}/pause`, { metadata: { uid: known.metadata.uid, annotations }, spec: { paused: { reason } } });
        else await api.post(served.disruptionguards.path, { apiVersion: "lazaret.dev/v1alpha1", kind: "DisruptionGuard", metadata: { name: "pause", annotations }, spec: { paused: { reason } } });
      },
    });
  }

  /** @param {Guard} guard */
  function resume(guard) {
    ask({
      title: "Resume evictions", body: h("p", `Paused: ${guard.spec.paused?.reason ?? ""}`), commands: () => [`kubectl device resume ${guard.metadata.name}`],
      run: async () => {
        const path = `${served.disruptionguards.path}/${encodeURIComponent(guard.metadata.name)}`;
        const alone = Object.keys(guard.spec).every((field) => field === "paused" || field === "deviceSelector");
        if (alone) await api.remove(path, { kind: "DeleteOptions", apiVersion: "v1", preconditions: { uid: guard.metadata.uid } });
        else await api.patch(path, { metadata: { uid: guard.metadata.uid }, spec: { paused: null } });
      },
    });
  }

  /** @param {Rule} rule @param {Progress} found */
  function undo(rule, found) {
    ask({
      title: "Undo", body: [h("p", `Removes the taint ${taintText(rule.spec.taint)} from ${count(found.devices.length, "device")}.`),
        h("p", found.gone ? `${count(found.gone, "pod")} already left and will not come back to their devices by themselves.` : "No pod has left yet.")],
      commands: () => (rule.metadata.labels?.["app.kubernetes.io/managed-by"] === "kubectl-device" && found.devices[0] ? [`kubectl device uncordon ${found.devices[0].key}`] : [`kubectl delete devicetaintrule ${rule.metadata.name}`]),
      run: () => removeRule(app, rule),
    });
  }

  /** @param {Rule} rule */
  function pace(rule) {
    const input = h("input", { type: "number", min: "1", max: "1000", value: String(rule.spec.taint.evictionsPerSecond ?? 10) });
    ask({
      title: "Change the pace", body: h("label.field", h("span", "Evictions per second"), input), watch: [input],
      commands: () => [`kubectl patch devicetaintrules.v1alpha3.resource.k8s.io ${rule.metadata.name} --type merge -p '{"spec":{"taint":{"evictionsPerSecond":${Number(input.value)}}}}'`],
      run: () => api.patch(pathOf(rule), { metadata: { uid: rule.metadata.uid }, spec: { taint: { evictionsPerSecond: Number(input.value) } } }),
    });
  }

  /** The same question that the controller asks: what the rule reaches now is what is approved. @param {Rule} rule */
  async function approve(rule) {
    const text = h("p", "Counting what the rule reaches…");
    /** @type {Impact | null} */
    let impact = null;
    ask({
      title: "Approve", reason: "optional", body: [h("p", rule.metadata.name, ": ", conditionOf(rule, "Held")?.message ?? ""), text],
      commands: (reason) => [`kubectl device approve ${rule.metadata.name}${reason ? ` --reason ${quote(reason)}` : ""}`],
      run: (reason) => {
        if (!impact) throw new Error("The devices that the rule selects are not known yet.");
        const approval = { uid: rule.metadata.uid, generation: rule.metadata.generation ?? 0, ...impact, ...(reason ? { reason } : {}) };
        return api.patch(pathOf(rule), { metadata: {
          uid: rule.metadata.uid, resourceVersion: rule.metadata.resourceVersion, annotations: { "lazaret.dev/approval": JSON.stringify(approval) } } });
      },
    });
    try {
      const classes = served.classes ? (await api.list(served.classes.path)).items : [];
      const answer = await app.engine.ask({ op: "impact", rules: typed(served.rules, "DeviceTaintRule", [rule]), objects: [
        ...typed(served.slices, "ResourceSlice", fleet.slices.values()), ...typed(served.claims, "ResourceClaim", fleet.claims.values()),
        ...typed(served.rules, "DeviceTaintRule", fleet.rules.values()), ...typed(served.patches, "ResourceSlicePatch", fleet.patches.values()),
        ...typed(served.classes, "DeviceClass", classes), ...typed({ version: "v1" }, "Pod", (await api.list("/api/v1/pods")).items)] });
      if (!answer.impact) throw new Error(answer.error ?? "there is no answer");
      impact = answer.impact;
      text.textContent = `It would taint ${count(impact.devices, "device")} and evict ${count(impact.pods, "pod")} in ${count(impact.namespaces, "namespace")}.`;
    } catch (error) { text.textContent = seen(`The devices that it selects cannot be shown: ${messageOf(error)}`); }
  }

  /** @param {Progress} found @param {Move[]} gone */
  function facts(found, gone) {
    const [first, ...others] = found.devices;
    return h("div.facts", h("span", h("b", evicted(found.gone, gone, found.gone)), " evicted"), h("span", h("b", tally(found.left, found.left, `${count(found.left, "pod")} left`, () => found.pods.map(({ name }) => podItem(name)))), " left"),
      h("span", first && others.length === 0 ? h("a", { href: `#/fleet/${first.key}` }, first.key) : tally(found.devices.length, count(found.devices.length, "device"), "Devices of this rule", () => found.devices.map(deviceItem))),
      found.gone && !found.done ? h("span", `${found.rate.toLocaleString("en", { maximumFractionDigits: 1 })}/s`, found.pace ? ` of ${found.pace}/s` : "") : found.pace ? h("span", `pace ${found.pace}/s`) : null,
      found.endsIn ? h("span", `ends in about ${span(found.endsIn)}`) : null);
  }

  /** @param {Rule} rule @param {Progress} found @param {Move[]} gone @param {Phase[]} list */
  function card(rule, found, gone, list) {
    const total = found.gone + found.left;
    const part = found.done ? 1 : total ? found.gone / total : 0;
    const owner = rule.metadata.ownerReferences?.[0];
    const { "lazaret.dev/reason": reason, "lazaret.dev/set-by": setBy } = rule.metadata.annotations ?? {};
    /** @param {string} text @param {string} verb @param {() => void} run */
    const button = (text, verb, run, primary = false) => guarded(app, verb, "resource.k8s.io", "devicetaintrules", h(primary ? "button.act.primary" : "button.act", { type: "button", onclick: run }, text));
    const bar = h("div.progress", { role: "progressbar", "aria-valuenow": String(Math.round(part * 100)), "aria-valuemin": "0", "aria-valuemax": "100", "aria-label": `Progress of ${rule.metadata.name}` }, h("i", { width: `${part * 100}%` }));
    if (found.done) bar.classList.add("done");
    const [word, hue] = found.held ? ["Waits for approval", "suspect"] : found.done ? ["Drained", "inuse"] : found.blocked ? ["Blocked", "noschedule"] : ["Draining", "draining"];
    return h("article.card", { id: `drain-${rule.metadata.name}` }, h("header", h("h2", rule.metadata.name), h("span.pill", { hue: `var(--${hue})` }, word), h("span.end", ago(rule.metadata.creationTimestamp))),
      h("div.note", h("code", taintText(rule.spec.taint)), reason ? ` · ${reason}` : "", setBy ? ` · by ${setBy}` : "", owner && !(reason ?? "").includes(owner.name) ? ` · ${owner.kind} ${owner.name}` : ""),
      bar, facts(found, gone), list.length ? phaseCounts(list) : null,
      found.blocked ? h("div.item", { hue: "var(--noschedule)" }, h("p", waitLine(evictionWait(found.blocked)))) : null,
      found.message ? h("p.note", found.message) : null,
      gone.length ? h("details", { open: gone.length <= 8 }, h("summary.note", `Where ${count(gone.length, "pod")} went`), movesList(gone)) : null,
      found.left ? h("details", { open: found.left <= 8 }, h("summary.note", "Pods that are left"), leftList(list)) : null,
      h("div.actions", found.held ? button("Approve…", "patch", () => approve(rule), true) : null, owner ? null : button("Undo…", "delete", () => undo(rule, found)),
        served.superset && !found.done ? button("Pace…", "patch", () => pace(rule)) : null));
  }

  function update() {
    const rules = [...fleet.rules.values()].filter((rule) => rule.spec.taint.effect === "NoExecute")
      .sort((a, b) => String(b.metadata.creationTimestamp).localeCompare(String(a.metadata.creationTimestamp)));
    const stopped = paused();
    // A guard that selects devices pauses these alone: the conditions of their rules say so.
    const pausedBy = stopped && !stopped.spec.deviceSelector ? stopped.spec.paused?.reason || "no reason given" : "";
    const rows = rules.map((rule) => {
      const found = progress(fleet, rule);
      const gone = moves.of(rule.metadata.uid, found.devices);
      return { rule, found, gone, list: phases(found, gone, moves, pausedBy) };
    });
    const active = rows.filter(({ found }) => !found.done).length;
    /** @param {boolean} done @returns {() => Item[]} */
    const some = (done) => () => rows.filter(({ found }) => found.done === done).map(({ rule }) => ({ text: rule.metadata.name, href: `#/drains/${rule.metadata.name}`, note: taintText(rule.spec.taint) }));
    const marker = `${pausedBy} ${active} ${rules.map((rule) => rule.metadata.uid).join()}`;
    if (marker !== counted) {
      counted = marker;
      show(state, stopped ? `Evictions are paused${stopped.spec.deviceSelector ? ` on the devices of DisruptionGuard ${stopped.metadata.name}` : ""}: ${stopped.spec.paused?.reason ?? ""}. ` : null, rules.length ? [tally(active, count(active, "rule"), "Rules at work", some(false)), " at work, ", tally(rules.length - active, rules.length - active, "Drained", some(true)), " drained"] : null);
    }
    const buttonFor = stopped ? `resume ${stopped.metadata.name}` : rules.length ? "pause" : "";
    if (buttonFor !== control) {
      control = buttonFor;
      const button = stopped ? h("button.act.primary", { type: "button", onclick: () => resume(stopped) }, "Resume…") : h("button.act", { type: "button", onclick: pause }, "Pause all…");
      show(buttons, buttonFor ? guarded(app, stopped ? "delete" : "create", "lazaret.dev", "disruptionguards", button) : null);
    }
    keyed(list, rows.map(({ rule, found, gone, list: byPhase }) => ({
      key: rule.metadata.uid, facts: [rule.metadata.resourceVersion, found.devices.length, found.pods, pausedBy, byPhase.map(({ id, pods }) => [id, pods.length]), gone.map(({ name, by }) => [name, by?.name, by?.devices.map((device) => device.key)])],
      make: () => card(rule, found, gone, byPhase),
    })));
    show(nothing, rules.length ? null : empty("No device is being drained", h("p", "Take one out of service from the ", h("a", { href: "#/fleet" }, "fleet"), ", or with"), command("kubectl device drain DEVICE --reason TEXT")));
    const target = wanted && document.getElementById(`drain-${wanted}`);
    if (target) { target.scrollIntoView({ block: "start" }); wanted = null; }
  }

  update();
  return { update, move(next) { wanted = next; update(); return true; } };
}
