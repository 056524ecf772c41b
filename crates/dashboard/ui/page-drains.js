// Rules that evict: how far each is, how fast, and what keeps it.

import { ago, command, count, empty, h, show, span } from "./dom.js";
import { taintText } from "./fleet.js";
import { ask, guarded } from "./actions.js";

const MANY = 200;

/** Whether the controller says that no pod is left. */
export const isDrained = (rule) => rule.status?.conditions?.some((one) => one.type === "Drained" && one.status === "True") === true;

/** Counts pods that left and pods that are left, and how fast. */
export function progress(fleet, rule, now = Date.now()) {
  const devices = fleet.devicesOfRule(rule);
  const pods = new Set();
  for (const device of devices) for (const holder of fleet.holders(device)) for (const pod of holder.pods) pods.add(`${holder.namespace}/${pod}`);
  const gone = rule.status?.evictions?.pods ?? 0;
  const condition = (type) => rule.status?.conditions?.find((one) => one.type === type);
  const drained = condition("Drained");
  const going = condition("EvictionInProgress");
  const since = Date.parse(rule.spec.taint.timeAdded ?? rule.metadata.creationTimestamp);
  const seconds = Math.max(1, (now - since) / 1000);
  const pace = rule.spec.taint.evictionsPerSecond;
  const left = pods.size;
  const rate = gone / seconds;
  const done = drained ? drained.status === "True" : left === 0;
  return { devices, pods: [...pods], gone, left, done, rate, pace, message: (done ? "" : going?.message) || drained?.message || going?.message || "", endsIn: done ? 0 : pace ? left / pace : null };
}

export function drainsPage(main, app) {
  const { fleet, api, served } = app;
  const list = h("div");
  const state = h("p");
  const buttons = h("div.actions");
  show(main, h("div.page", h("header", h("h1", "Drains"), state), buttons, list));
  let guards = [];

  async function readGuards() {
    try { guards = (await api.list(served.disruptionguards.path)).items; } catch { guards = []; }
    update();
  }

  function paused() {
    return guards.find((guard) => guard.spec?.paused && (!guard.spec.paused.until || Date.parse(guard.spec.paused.until) > Date.now()));
  }

  function pause() {
    ask({
      title: "Pause evictions", reason: "required", body: h("p", "No eviction begins until they are resumed. Pods that are already leaving leave."),
      commands: (reason) => [`kubectl device pause --reason '${reason || "TEXT"}'`],
      run: async (reason) => {
        const annotations = { "lazaret.dev/reason": reason, "lazaret.dev/set-by": app.session.user };
        const known = guards.find((guard) => guard.metadata.name === "pause");
        if (known) await api.patch(`${served.disruptionguards.path}/pause`, { metadata: { uid: known.metadata.uid, annotations }, spec: { paused: { reason } } });
        else await api.post(served.disruptionguards.path, { apiVersion: "lazaret.dev/v1alpha1", kind: "DisruptionGuard", metadata: { name: "pause", annotations }, spec: { paused: { reason } } });
        await readGuards();
      },
    });
  }

  function resume(guard) {
    ask({
      title: "Resume evictions", body: h("p", `Paused: ${guard.spec.paused.reason ?? ""}`), commands: () => [`kubectl device resume ${guard.metadata.name}`],
      run: async () => {
        const path = `${served.disruptionguards.path}/${encodeURIComponent(guard.metadata.name)}`;
        const alone = Object.keys(guard.spec).every((field) => field === "paused" || field === "deviceSelector");
        if (alone) await api.remove(path, { kind: "DeleteOptions", apiVersion: "v1", preconditions: { uid: guard.metadata.uid } });
        else await api.patch(path, { metadata: { uid: guard.metadata.uid }, spec: { paused: null } });
        await readGuards();
      },
    });
  }

  function undo(rule, found) {
    ask({
      title: "Undo", body: [h("p", `Removes the taint ${taintText(rule.spec.taint)} from ${count(found.devices.length, "device")}.`),
        h("p", found.gone ? `${count(found.gone, "pod")} already left and will not come back to their devices by themselves.` : "No pod has left yet.")],
      commands: () => (rule.metadata.labels?.["app.kubernetes.io/managed-by"] === "kubectl-device" && found.devices[0] ? [`kubectl device uncordon ${found.devices[0].key}`] : [`kubectl delete devicetaintrule ${rule.metadata.name}`]),
      run: () => api.remove(`${served.rules.path}/${encodeURIComponent(rule.metadata.name)}`, { kind: "DeleteOptions", apiVersion: "v1", preconditions: { uid: rule.metadata.uid } }),
    });
  }

  function pace(rule) {
    const input = h("input", { type: "number", min: "1", max: "1000", value: String(rule.spec.taint.evictionsPerSecond ?? 10) });
    ask({
      title: "Change the pace", body: h("label.field", h("span", "Evictions per second"), input),
      commands: () => [`kubectl patch devicetaintrules.v1alpha3.resource.k8s.io ${rule.metadata.name} --type merge -p '{"spec":{"taint":{"evictionsPerSecond":${Number(input.value)}}}}'`],
      run: () => api.patch(`${served.rules.path}/${encodeURIComponent(rule.metadata.name)}`, { metadata: { uid: rule.metadata.uid }, spec: { taint: { evictionsPerSecond: Number(input.value) } } }),
    });
  }

  function card(rule) {
    const found = progress(fleet, rule);
    const total = found.gone + found.left;
    const part = found.done ? 1 : total ? found.gone / total : 0;
    const owner = rule.metadata.ownerReferences?.[0];
    const button = (text, verb, run, extra = "") => guarded(app, verb, "resource.k8s.io", "devicetaintrules", h(`button.act${extra}`, { type: "button", onclick: run }, text));
    const bar = h("div.progress", { role: "progressbar", "aria-valuenow": String(Math.round(part * 100)), "aria-valuemin": "0", "aria-valuemax": "100", "aria-label": `Progress of ${rule.metadata.name}` }, h("i", { width: `${part * 100}%` }));
    if (found.done) bar.classList.add("done");
    return h("article.card", h("header", h("h2", rule.metadata.name), h("span.pill", { hue: `var(--${found.done ? "inuse" : "draining"})` }, found.done ? "Drained" : "Draining"), h("span.end", ago(rule.metadata.creationTimestamp))),
      h("div.note", h("code", taintText(rule.spec.taint)), rule.metadata.annotations?.["lazaret.dev/reason"] ? ` · ${rule.metadata.annotations["lazaret.dev/reason"]}` : "",
        rule.metadata.annotations?.["lazaret.dev/set-by"] ? ` · by ${rule.metadata.annotations["lazaret.dev/set-by"]}` : "", owner && !(rule.metadata.annotations?.["lazaret.dev/reason"] ?? "").includes(owner.name) ? ` · ${owner.kind} ${owner.name}` : ""),
      bar,
      h("div.facts", h("span", h("b", found.gone), " evicted"), h("span", h("b", found.left), " left"),
        h("span", found.devices.length === 1 ? h("a", { href: `#/fleet/${found.devices[0].key}` }, found.devices[0].key) : [h("b", found.devices.length), " devices"]),
        found.pace ? h("span", `pace ${found.pace}/s`) : null, found.done || found.endsIn === null ? null : h("span", `about ${span(found.endsIn)} at this pace`)),
      found.message ? h("p", found.message) : null,
      found.left ? h("details", h("summary.note", "Pods that are left"), h("ul", found.pods.slice(0, MANY).map((pod) => h("li", h("a", { href: `#/why/${pod}` }, pod))))) : null,
      h("div.actions", owner ? null : button("Undo…", "delete", () => undo(rule, found)), served.superset && !found.done ? button("Pace…", "patch", () => pace(rule)) : null));
  }

  function update() {
    const rules = [...fleet.rules.values()].filter((rule) => rule.spec.taint.effect === "NoExecute")
      .sort((a, b) => String(b.metadata.creationTimestamp).localeCompare(String(a.metadata.creationTimestamp)));
    const stopped = paused();
    const active = rules.filter((rule) => !progress(fleet, rule).done).length;
    state.textContent = stopped ? `Evictions are paused: ${stopped.spec.paused.reason ?? ""}` : rules.length ? `${count(active, "rule")} at work, ${rules.length - active} drained` : "";
    const control = stopped ? h("button.act.primary", { type: "button", onclick: () => resume(stopped) }, "Resume…") : h("button.act", { type: "button", onclick: pause }, "Pause all…");
    show(buttons, rules.length || stopped ? guarded(app, stopped ? "delete" : "create", "lazaret.dev", "disruptionguards", control) : null);
    // A dialog or an open list of pods is not to be taken away while somebody reads it.
    if (list.querySelector("details[open]")) return;
    show(list, rules.length ? rules.map(card) : empty("No device is being drained", "Take one out of service from the fleet, or with ", command("kubectl device drain DEVICE --reason TEXT")));
  }

  update();
  readGuards();
  const timer = setInterval(update, 5_000);
  return { update, close() { clearInterval(timer); } };
}
