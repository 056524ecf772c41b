// What a taint would do, before it is set. The answer comes from the same code as that of `kubectl device plan`.

import { ago, command, count, h, messageOf, podItem, show, span, tally, wide } from "./dom.js";
import { PODS_UNASKED_MAX, ask, guarded, ruleName, ruleObject, servedAs } from "./actions.js";
import { typed } from "./engine.js";
import { parseYaml, yaml } from "./yaml.js";

/** @import { DeviceTaint } from "./types/api" */
/** @import { Child, Field, Item, MakePage, Place, Plan, PlannedPod, Resource } from "./types/page" */
/** @import { NewRule } from "./actions.js" */

const PAUSE_MS = 150;
const ROWS_MAX = 300;

/** A rule that somebody wrote; says what is missing. @param {unknown} value @returns {NewRule} */
export function asRule(value) {
  const rule = /** @type {Partial<NewRule> | null | undefined} */ (value);
  if (rule?.kind !== "DeviceTaintRule") throw new Error("The text is no DeviceTaintRule: write `kind: DeviceTaintRule`.");
  if (typeof rule.metadata?.name !== "string") throw new Error("The rule has no name: write `metadata: {name: NAME}`.");
  if (!rule.spec?.taint?.key) throw new Error("The rule has no taint: write `spec: {taint: {key: KEY, effect: EFFECT}}`.");
  return /** @type {NewRule} */ (rule);
}

/** @type {MakePage} */
export function whatifPage(main, app, argument) {
  const { api, fleet, served, engine } = app;
  const devices = h("textarea", { rows: "3", spellcheck: "false", "data-filter": true, value: argument.split(",").filter(Boolean).join("\n"), placeholder: "driver/pool/device, one a line" });
  const expression = h("input", { spellcheck: "false", placeholder: 'device.driver == "gpu.example.com"' });
  const key = h("input", { value: "lazaret.dev/drain", spellcheck: "false" });
  const effect = h("select", ["NoExecute", "NoSchedule", "None"].map((one) => h("option", { value: one }, one)));
  const pace = h("input", { type: "range", min: "1", max: "100", value: "10", "aria-label": "Evictions per second" });
  const paceText = h("b", "10");
  const text = h("textarea.rule", { rows: "16", spellcheck: "false", placeholder: "Name devices above, or write a DeviceTaintRule here." });
  const wrong = h("p.error", { role: "alert" });
  const copy = h("button.copy", { type: "button", "aria-label": "Copy the YAML", onclick: async () => {
    try { await navigator.clipboard.writeText(text.value); copy.textContent = "Copied"; } catch { text.select(); copy.textContent = "Selected"; }
    setTimeout(() => { copy.textContent = "Copy"; }, 1500);
  } }, "Copy");
  /** Rules as somebody wrote them; null while the form says what they are. @type {NewRule[] | null} */
  let written = null;
  const result = h("div.result", { "aria-live": "polite" });
  /** @type {object[] | null} */
  let objects = null;
  let readAt = 0;
  let turn = 0;
  let timer = 0;
  /** @type {Plan | null} */
  let last = null;

  const left = h("div.card", h("label.field", h("span", "Devices"), devices),
    served.superset ? h("label.field", h("span", "or every device that this CEL expression matches"), expression) : null,
    h("label.field", h("span", "Taint key"), key), h("label.field", h("span", "Effect"), effect),
    h("label.field", h("span", "Pace: ", paceText, " evictions a second"), pace));
  const rule = h("div.card", h("header", h("label", { for: "rule-text" }, h("h2", "The rule as YAML")), copy), text, wrong);
  text.id = "rule-text";
  show(main, h("div.page", h("header", h("h1", "What if"), h("p", "The pods that a taint would evict. Nothing is written before you apply it.")), h("div.columns.plan", left, result, rule)));

  const names = () => devices.value.split(/[\s,]+/).filter(Boolean);

  /** A short name means one device, as on the command line. @param {string} name */
  function resolve(name) {
    const whole = fleet.devices.get(name);
    if (whole) return whole;
    const found = [...fleet.devices.values()].filter((device) => device.key.endsWith(`/${name}`));
    const [only] = found;
    if (only && found.length === 1) return only;
    throw new Error(found.length ? `${name} means ${found.length} devices: ${found.slice(0, 4).map((device) => device.key).join(", ")}…` : `No device is called ${name}.`);
  }

  /** @returns {DeviceTaint} */
  const taintOf = () => ({ key: key.value.trim(), effect: effect.value, ...(served.superset && effect.value === "NoExecute" ? { evictionsPerSecond: Number(pace.value) } : {}) });

  /** @returns {NewRule[]} */
  function rules() {
    const { group, version } = servedAs(served.rules);
    const taint = taintOf();
    if (expression.value.trim()) {
      return [{ apiVersion: `${group}/${version}`, kind: "DeviceTaintRule", metadata: { name: "what-if" },
        spec: { deviceSelector: { selectors: [{ cel: { expression: expression.value.trim() } }] }, taint } }];
    }
    return names().map(resolve).map((device) => ruleObject(served, device, taint, "", app.session.user, ruleName(device, taint.key, taint.key === "lazaret.dev/drain" ? null : taint.effect)));
  }

  async function load() {
    /** @type {[string | undefined, string, Resource | null][]} */
    const kinds = [["/api/v1/pods", "Pod", { version: "v1" }], ["/api/v1/nodes", "Node", { version: "v1" }],
      ["/apis/policy/v1/poddisruptionbudgets", "PodDisruptionBudget", { group: "policy", version: "v1" }], [served.classes?.path, "DeviceClass", served.classes]];
    const lists = await Promise.all(kinds.map(async ([path, kind, resource]) => {
      if (!path) return [];
      try { return typed(resource, kind, (await api.list(path)).items); } catch { return []; }
    }));
    objects = lists.flat();
    readAt = Date.now();
  }

  function everything() {
    return [...typed(served.slices, "ResourceSlice", fleet.slices.values()), ...typed(served.claims, "ResourceClaim", fleet.claims.values()),
      ...typed(served.rules, "DeviceTaintRule", fleet.rules.values()), ...typed(served.patches, "ResourceSlicePatch", fleet.patches.values()), ...(objects ?? [])];
  }

  /** The smallest number of pods above which a guard wants approval. */
  function confirmAbove() {
    const limits = [...fleet.guards.values()].flatMap((guard) => guard.spec.confirmAbove?.pods ?? []);
    return limits.length ? Math.min(...limits) : null;
  }

  function change() {
    clearTimeout(timer);
    timer = setTimeout(compute, PAUSE_MS);
  }

  /** Reads what somebody wrote, and shows in the form what the form has a field for. */
  function read() {
    const found = (text.value.trim() ? parseYaml(text.value) : []).map(asRule);
    const [first] = found;
    if (!first) return found;
    if (new Set(found.map((rule) => JSON.stringify(rule.spec.taint))).size > 1) throw new Error("The rules of one plan set the same taint.");
    const { taint } = first.spec;
    const selectors = found.map((rule) => rule.spec.deviceSelector ?? {});
    key.value = taint.key;
    effect.value = taint.effect;
    if (Number.isFinite(taint.evictionsPerSecond)) pace.value = String(taint.evictionsPerSecond);
    expression.value = found.length === 1 ? selectors[0]?.selectors?.[0]?.cel?.expression ?? "" : "";
    devices.value = selectors.every((one) => one.driver && one.pool && one.device) ? selectors.map((one) => `${one.driver}/${one.pool}/${one.device}`).join("\n") : "";
    return found;
  }

  /** Fields of the taint change the rules that somebody wrote; all else is written anew from the form. @param {Field} field */
  function fromForm(field) {
    if (written?.length && (field === key || field === effect || field === pace)) {
      const changed = field === key ? { key: key.value.trim() } : field === effect ? { effect: effect.value } : { evictionsPerSecond: Number(pace.value) };
      for (const { spec } of written) Object.assign(spec.taint, changed);
      text.value = written.map((rule) => yaml(rule)).join("\n---\n");
    } else written = null;
    change();
  }

  function fromText() {
    written = [];
    change();
  }

  /** The rules that are meant now; throws what is wrong with them. */
  function wanted() {
    if (written) return (written = read());
    const found = names().length || expression.value.trim() ? rules() : [];
    text.value = found.map((rule) => yaml(rule)).join("\n---\n");
    return found;
  }

  async function compute() {
    const mine = ++turn;
    /** @type {NewRule[]} */
    let found = [];
    show(wrong);
    try { found = wanted(); } catch (error) {
      show(written ? wrong : result, written ? messageOf(error) : h("div.card", h("p.error", messageOf(error))));
      if (written) show(result, h("div.card", h("p", "The rule cannot be read.")));
      return;
    }
    paceText.textContent = pace.value;
    if (found.length === 0) {
      show(result, h("div.card", h("p", "Name devices, or select some in the ", h("a", { href: "#/fleet" }, "fleet"), " and choose What if. A rule that is written as YAML does as well.")));
      return;
    }
    try {
      if (!objects) { show(result, h("div.card", h("p.note", "Reading pods…"))); await load(); }
      const answer = await engine.ask({ op: "plan", now: new Date().toISOString(), objects: everything(), rules: found });
      if (mine !== turn) return;
      if (!answer.plan) throw new Error(answer.error ?? "there is no answer");
      last = answer.plan;
      draw(answer.plan, answer.places ?? [], found);
    } catch (error) { if (mine === turn) show(result, h("div.card", h("p.error", messageOf(error)))); }
  }

  /** Where a pod could get devices again, or why not. @param {Place | undefined} found @returns {Child} */
  function place(found) {
    if (!found) return "";
    if (found.node) return [found.node, found.devices?.length ? h("div.note", found.devices.map((name) => name.split("/").pop()).join(", ")) : null];
    return h("span.warn", found.problem);
  }

  /** @param {Plan} plan @param {Place[]} places @param {NewRule[]} wanted */
  function draw(plan, places, wanted) {
    const placeOf = new Map(places.map((one) => [one.pod, one]));
    const stuck = places.filter((one) => !one.node);
    const spaces = Object.entries(plan.namespaces);
    /** @param {PlannedPod} pod @returns {Item} */
    const pod = ({ namespace, name, owner }) => podItem(`${namespace}/${name}`, owner);
    const evicts = plan.effect === "NoExecute" && !plan.noEffect;
    const leaving = evicts ? plan.pods.length : 0;
    const now = Date.now();
    const latest = Math.max(0, ...plan.pods.map((pod) => (pod.deadline ? (Date.parse(pod.deadline) - now) / 1000 : 0)));
    const takes = Math.max(latest, leaving / Number(pace.value));
    const names = plan.devices.map((device) => device.name);
    const drain = key.value.trim() === "lazaret.dev/drain" && effect.value === "NoExecute" && !expression.value.trim() && !written;
    const commands = drain ? names.slice(0, 8).map((name) => `kubectl device drain ${name} --evictions-per-second ${pace.value} --reason TEXT`)
      : written || expression.value.trim() ? ["kubectl apply -f rule.yaml"] : names.slice(0, 8).map((name) => `kubectl device taint ${name} ${plan.taint}${evicts ? " --reason TEXT" : ""}`);
    show(result, h("div.card",
      h("header", h("h2", tally(leaving, leaving, "Pods that would be evicted", () => (evicts ? plan.pods : []).map(pod)), " of ", tally(plan.pods.length + plan.tolerating.length, count(plan.pods.length + plan.tolerating.length, "pod"), "Pods that use these devices", () => [...plan.pods, ...plan.tolerating].map(pod)), " would be evicted"), h("span.end", "objects read ", ago(new Date(readAt).toISOString()))),
      plan.noEffect ? h("p.error", `A rule with this taint would have no effect: ${plan.noEffect}`) : null, plan.problem ? h("p.error", plan.problem) : null,
      h("div.facts", h("span", tally(names.length, count(names.length, "device"), "Devices", () => names.map((name) => ({ text: name, href: `#/fleet/${name}` })))), h("span", tally(plan.claims.length, count(plan.claims.length, "claim"), "Claims", () => plan.claims.map((name) => ({ text: name })))),
        h("span", tally(spaces.length, count(spaces.length, "namespace"), "Namespaces", () => spaces.map(([name, number]) => ({ text: name, href: `#/fleet/?ns=${name}`, note: Number.isFinite(number) ? count(number, "pod") : "" })))),
        leaving ? h("span", "takes at least ", h("b", span(Math.max(1, takes)))) : null, stuck.length ? h("span.warn", h("b", tally(stuck.length, stuck.length, "Pods that would not fit", () => stuck.map((one) => podItem(one.pod, one.problem)))), " would not fit") : null),
      plan.pods.length + plan.tolerating.length ? wide("Pods", h("table", h("thead", h("tr", ["Pod", "Evicted", "Would go to", "Budget"].map((name) => h("th", { scope: "col" }, name)))),
        h("tbody", [...plan.pods.map((pod) => ({ pod, leaves: evicts })), ...plan.tolerating.map((pod) => ({ pod, leaves: false }))].slice(0, ROWS_MAX).map(({ pod, leaves }) => h("tr",
          h("td.name", h("a", { href: `#/why/${pod.namespace}/${pod.name}` }, `${pod.namespace}/${pod.name}`), h("div.note", [pod.owner, pod.node].filter(Boolean).join(" on "))),
          h("td", leaves ? when(pod, now) : "never", h("div.note", tolerates(pod))), h("td.name.place", leaves ? place(placeOf.get(`${pod.namespace}/${pod.name}`)) : "stays"),
          h("td", (pod.budgets ?? []).map((one) => `${one.name} (${one.disruptionsAllowed} allowed)`).join(", "))))))) : h("p", "No pod uses these devices."),
      places.length ? h("p.note", "Places of pods are computed from devices alone, without CPU, memory and other conditions of a node.") : null,
      h("p.note", "The same on the command line:"), commands.map(command),
      h("div.actions", guarded(app, "create", "resource.k8s.io", "devicetaintrules", h("button.act.primary", { type: "button", onclick: () => apply(wanted, leaving, commands) }, "Apply…")),
        h("button.act", { type: "button", onclick: async () => { objects = null; await compute(); } }, "Read pods again"))));
  }

  /** @param {PlannedPod} pod */
  const tolerates = ({ tolerationSeconds: seconds }) => (seconds === undefined || seconds === null ? "tolerates it" : seconds ? `tolerates it for ${span(seconds)}` : "");

  /** @param {PlannedPod} pod @param {number} now */
  function when(pod, now) {
    const wait = pod.deadline ? (Date.parse(pod.deadline) - now) / 1000 : 0;
    return wait >= 1 ? `in ${span(wait)}` : "at once";
  }

  /** @param {NewRule[]} wanted @param {number} leaving @param {string[]} commands */
  function apply(wanted, leaving, commands) {
    const above = confirmAbove();
    ask({
      title: `Set ${count(wanted.length, "rule")}`, danger: leaving > 0, reason: effect.value === "NoExecute" ? "required" : "optional", commands: () => commands,
      body: [h("p", `${count(leaving, "pod")} would be evicted.`), above !== null && leaving > above ? h("p", `A DisruptionGuard wants approval above ${count(above, "pod")}: the rule has no effect before somebody approves it.`) : null],
      confirm: leaving > (above ?? PODS_UNASKED_MAX) ? { number: leaving, text: `Type the number of pods, ${leaving}, to confirm` } : null,
      run: async (reason) => {
        const { path } = servedAs(served.rules);
        for (const rule of wanted) {
          rule.metadata.annotations = { ...rule.metadata.annotations, "lazaret.dev/set-by": app.session.user, ...(reason ? { "lazaret.dev/reason": reason } : {}) };
          if (fleet.rules.has(rule.metadata.name)) await api.patch(`${path}/${encodeURIComponent(rule.metadata.name)}`, { spec: rule.spec, metadata: { annotations: rule.metadata.annotations } });
          else await api.post(path, rule);
        }
        app.go("drains");
      },
    });
  }

  for (const field of [devices, expression, key, effect, pace]) field.addEventListener("input", () => fromForm(field));
  text.addEventListener("input", fromText);
  compute();
  return {
    move(next) { if (next) { devices.value = next.split(",").join("\n"); written = null; compute(); } return true; },
    // The page may be opened before the devices were read.
    update() { if (!last) change(); },
    close() { clearTimeout(timer); turn++; },
    plan: () => last,
  };
}
