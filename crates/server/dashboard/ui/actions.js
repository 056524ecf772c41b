// What a person can do to devices. Each act shows the command that does the same, and asks before it writes.

import { command, count, h, messageOf, seen, show } from "./dom.js";

/** @import { DeviceTaint } from "./types/api" */
/** @import { App, Child, Field, Incident, NodeObject, Rule, Served } from "./types/page" */
/** @import { Device } from "./fleet.js" */

/**
 * `run` writes; what it throws is shown, and the dialog stays. Commands are written anew when one of the fields of `watch` changes.
 * @typedef {object} Question
 * @property {string} title
 * @property {Child} body
 * @property {(reason: string) => string[]} commands
 * @property {"required" | "optional" | null} [reason]
 * @property {{ number: number, text: string } | null} [confirm]
 * @property {boolean} [danger]
 * @property {Field[]} [watch]
 * @property {(reason: string) => unknown} run
 */
/** A rule before a server has it. @typedef {Omit<Rule, "metadata"> & { apiVersion: string, kind: string, metadata: { name: string, labels?: Record<string, string>, annotations?: Record<string, string> } }} NewRule */

const DRAIN_KEY = "lazaret.dev/drain";
/** Above this many pods the number has to be typed. */
export const PODS_UNASKED_MAX = 3;
const REASON_CHARS_MAX = 1_024;
/** What people write on an incident. */
export const NOTE = "lazaret.dev/note";
const MASK = (1n << 64n) - 1n;

/** FNV-1a folded to 32 bits, as `kubectl device` names its rules. @param {string} text */
export function fingerprint(text) {
  let hash = 0xcbf29ce484222325n;
  for (const byte of new TextEncoder().encode(text)) hash = ((hash ^ BigInt(byte)) * 0x100000001b3n) & MASK;
  return Number((hash >> 32n) ^ (hash & 0xffffffffn)).toString(16).padStart(8, "0");
}

/** @param {string} word */
const plain = (word) => word.toLowerCase().replace(/[^a-z0-9]+/g, "-").replace(/^-|-$/g, "");

/** The name that `kubectl device` gives the rule for this device and taint. @param {Device} device @param {string} key @param {string | null} effect */
export function ruleName(device, key, effect) {
  const whole = [device.driver, device.pool, device.name, key, effect ? effect.toLowerCase() : ""].join("\n");
  const words = [device.pool, device.name, key.split("/").pop() ?? "", effect ?? ""].map(plain).filter(Boolean);
  return `${words.join("-").slice(0, 244)}-${fingerprint(whole)}`;
}

/** @param {string} text */
function labelOf(text) {
  return text.replace(/[^A-Za-z0-9._-]/g, "_").slice(0, 63).replace(/^[^A-Za-z0-9]+|[^A-Za-z0-9]+$/g, "");
}

/** Where a kind is served; throws where it is not. @template T @param {T | null} resource */
export function servedAs(resource) {
  if (!resource) throw new Error("This cluster does not serve DeviceTaintRules.");
  return resource;
}

/** @param {Served} served @param {Device} device @param {DeviceTaint} taint @param {string} reason @param {string} user @param {string} name @returns {NewRule} */
export function ruleObject(served, device, taint, reason, user, name) {
  const { group, version } = servedAs(served.rules);
  /** @type {Record<string, string>} */
  const labels = { "app.kubernetes.io/managed-by": "kubectl-device" };
  for (const [label, text] of Object.entries({ driver: device.driver, pool: device.pool, device: device.name, "set-by": labelOf(user) })) {
    if (text && /^[A-Za-z0-9]([A-Za-z0-9._-]{0,61}[A-Za-z0-9])?$/.test(text)) labels[`lazaret.dev/${label}`] = text;
  }
  return {
    apiVersion: `${group}/${version}`, kind: "DeviceTaintRule",
    metadata: { name, labels, annotations: { "lazaret.dev/set-by": user, ...(reason ? { "lazaret.dev/reason": reason } : {}) } },
    spec: { deviceSelector: { driver: device.driver, pool: device.pool, device: device.name }, taint },
  };
}

/** @param {App} app @param {Device} device @param {DeviceTaint} taint @param {string} reason @param {string} name */
async function writeRule(app, device, taint, reason, name) {
  const { api, served, session } = app;
  const { path } = servedAs(served.rules);
  const object = ruleObject(served, device, taint, reason, session.user, name);
  const known = app.fleet.rules.get(name);
  if (known && known.metadata.labels?.["app.kubernetes.io/managed-by"] !== "kubectl-device") throw new Error(`rule ${name} was not made by kubectl device`);
  if (known) {
    return api.patch(`${path}/${encodeURIComponent(name)}`, {
      metadata: { uid: known.metadata.uid, annotations: object.metadata.annotations }, spec: { taint: object.spec.taint },
    });
  }
  return api.post(path, object);
}

/** Removes this very rule. @param {App} app @param {Rule} rule */
export function removeRule({ api, served }, { metadata: { name, uid } }) {
  return api.remove(`${servedAs(served.rules).path}/${encodeURIComponent(name)}`, { kind: "DeleteOptions", apiVersion: "v1", preconditions: { uid } });
}

/** A dialog that shows what will be done. @param {Question} question */
export function ask({ title, body, commands, reason, confirm, danger, watch = [], run }) {
  const problem = h("p.error", { role: "alert" });
  const why = reason ? h("input", { required: reason === "required", maxlength: REASON_CHARS_MAX, placeholder: "ecc errors, fan, firmware…" }) : null;
  const typed = confirm ? h("input", { inputmode: "numeric", required: true, autocomplete: "off" }) : null;
  const shownCommands = h("div");
  const renderCommands = () => show(shownCommands, commands(why?.value.trim() ?? "").map(command));
  for (const field of [why, ...watch]) field?.addEventListener("input", renderCommands);
  renderCommands();
  const submit = h("button.act.primary", { type: "submit" }, title.replace(/…$/, ""));
  if (danger) submit.classList.add("danger");
  /** @type {HTMLDialogElement} */
  const dialog = h("dialog", { "aria-label": title }, h("form", { method: "dialog", onsubmit: async (event) => {
    event.preventDefault();
    if (confirm && typed?.value.trim() !== String(confirm.number)) { problem.textContent = `Type ${confirm.number} to go on.`; return; }
    submit.disabled = true;
    try {
      await run(why?.value.trim() ?? "");
      dialog.close();
    } catch (error) {
      problem.textContent = seen(messageOf(error));
      submit.disabled = false;
    }
  } }, h("h1", title), body, why ? h("label.field", h("span", reason === "required" ? "Reason" : "Reason (optional)"), why) : null,
    confirm ? h("label.field", h("span", confirm.text), typed) : null,
    h("p.note", "The same on the command line:"), shownCommands, problem,
    h("div.actions", submit, h("button.act", { type: "button", onclick: () => dialog.close() }, "Cancel"))));
  dialog.addEventListener("close", () => dialog.remove());
  document.body.append(dialog);
  dialog.showModal();
  (why ?? submit).focus();
}

/** @param {string} text */
export const quote = (text) => `'${text.replace(/'/g, "'\\''")}'`;

/** Closes the dialog in which something was clicked. @param {Event} event */
function closeDialog({ target }) {
  if (target instanceof Element) target.closest("dialog")?.close();
}

/** Cordon, drain or uncordon devices. @param {App} app @param {"cordon" | "drain" | "uncordon"} what @param {Device[]} devices */
export function plan(app, what, devices) {
  const { fleet } = app;
  const pods = new Set(devices.flatMap((device) => fleet.holders(device).flatMap((holder) => holder.pods.map((pod) => `${holder.namespace}/${pod}`))));
  const names = devices.map((device) => `${device.pool}/${device.name}`);
  const list = names.length > 6 ? `${names.slice(0, 6).join(", ")} and ${names.length - 6} more` : names.join(", ");
  const keys = devices.map((device) => device.key);
  /** @param {string} reason */
  const reasonFlag = (reason) => (reason ? ` --reason ${quote(reason)}` : what === "drain" ? " --reason TEXT" : "");
  if (what === "uncordon") {
    const rules = devices.flatMap((device) => device.taints.filter((taint) => taint.key === DRAIN_KEY && taint.origin === "person").flatMap((taint) => fleet.rules.get(taint.by) ?? []));
    ask({
      title: "Uncordon", body: h("p", `${count(devices.length, "device")} can be allocated again: ${list}.`),
      commands: () => keys.map((key) => `kubectl device uncordon ${key}`),
      run: () => Promise.all(rules.map((rule) => removeRule(app, rule))),
    });
    return;
  }
  const drain = what === "drain";
  ask({
    title: drain ? `Drain ${count(devices.length, "device")}` : `Cordon ${count(devices.length, "device")}`,
    body: [h("p", list), h("p", drain
      ? `${count(pods.size, "pod")} would be evicted, unless ${pods.size === 1 ? "it tolerates" : "they tolerate"} the taint ${DRAIN_KEY}:NoExecute.`
      : `New claims stay away. ${count(pods.size, "pod")} that use ${devices.length === 1 ? "it" : "them"} keep running.`),
    drain ? h("p", h("a", { href: `#/whatif/${keys.slice(0, 50).join(",")}`, onclick: closeDialog }, "See the plan: which pods, when, and what allows it")) : null],
    reason: drain ? "required" : "optional", danger: drain,
    confirm: drain && pods.size > PODS_UNASKED_MAX ? { number: pods.size, text: `Type the number of pods, ${pods.size}, to confirm` } : null,
    commands: (reason) => keys.slice(0, 8).map((key) => `kubectl device ${what} ${key}${reasonFlag(reason)}`),
    run: async (reason) => {
      for (const device of devices) {
        await writeRule(app, device, { key: DRAIN_KEY, effect: drain ? "NoExecute" : "NoSchedule" }, reason, ruleName(device, DRAIN_KEY, null));
      }
    },
  });
}

/** @param {App} app @param {Device} device */
function taintDialog(app, device) {
  const key = h("input", { value: "example.com/maintenance", required: true, pattern: "[A-Za-z0-9./_\\-]+" });
  const value = h("input", { placeholder: "optional" });
  const effect = h("select", ["NoSchedule", "NoExecute", "None"].map((one) => h("option", { value: one }, one)));
  const text = () => `${key.value}${value.value ? `=${value.value}` : ""}:${effect.value}`;
  ask({
    title: "Set a taint", reason: "optional", watch: [key, value, effect],
    body: [h("p", device.key), h("label.field", h("span", "Key"), key), h("label.field", h("span", "Value"), value), h("label.field", h("span", "Effect"), effect)],
    commands: (reason) => [`kubectl device taint ${device.key} ${text()}${reason ? ` --reason ${quote(reason)}` : ""}`],
    run: (reason) => {
      if (effect.value === "NoExecute" && !reason) throw new Error("A taint with NoExecute needs a reason.");
      const taint = { key: key.value.trim(), effect: effect.value, ...(value.value ? { value: value.value.trim() } : {}) };
      return writeRule(app, device, taint, reason, ruleName(device, taint.key, taint.effect));
    },
  });
}

const FAIL_SIMULATED = "hollow.lazaret.dev/fail";
const FAIL_DRIVER = "driver.lazaret.dev/fail";
const FAILS_ON_COMMAND = "driver.lazaret.dev/failsOnCommand";

/** The annotation of its node by which a device fails on command, and its name there; null where the driver reports what it sees. @param {App} app @param {Device} device @returns {[string, string] | null} */
function failsBy(app, device) {
  if (device.spec?.attributes?.[FAILS_ON_COMMAND]?.bool === true) return [FAIL_DRIVER, `${device.driver}/${device.name}`];
  const node = app.fleet.nodes.get(device.node ?? "");
  return node?.metadata.labels?.["hollow.lazaret.dev/node"] === "true" ? [FAIL_SIMULATED, device.name] : null;
}

/** Makes the driver of a simulated device report that it fails, or that it is well again. @param {App} app @param {Device} device @param {[string, string]} by @param {boolean} recovers */
function failDialog(app, device, [annotation, name], recovers) {
  const effect = h("select", ["NoExecute", "NoSchedule", "None"].map((one) => h("option", { value: one }, one)));
  ask({
    title: recovers ? "Recover" : "Fail", danger: !recovers, reason: recovers ? null : "optional", watch: [effect],
    body: [h("p", recovers ? `The driver reports ${device.key} as healthy.` : `The device is simulated: its driver reports ${device.key} as failing, with a taint.`),
      recovers ? null : h("label.field", h("span", "Effect"), effect)],
    commands: (reason) => [recovers ? `kubectl device recover ${device.key}` : `kubectl device fail ${device.key} --effect ${effect.value}${reason ? ` --reason ${quote(reason)}` : ""}`],
    run: async (reason) => {
      if (reason && !/^[A-Za-z0-9]([A-Za-z0-9._-]{0,61}[A-Za-z0-9])?$/.test(reason)) throw new Error("The reason becomes the value of the taint: letters, digits, dots, dashes and underscores, 63 at most.");
      const path = `/api/v1/nodes/${encodeURIComponent(device.node ?? "")}`;
      /** @type {NodeObject} */
      const node = await app.api.get(path);
      const failures = JSON.parse(node.metadata.annotations?.[annotation] ?? "{}");
      if (recovers) delete failures[name]; else failures[name] = { effect: effect.value, ...(reason ? { reason } : {}) };
      await app.api.patch(path, { metadata: { uid: node.metadata.uid, resourceVersion: node.metadata.resourceVersion,
        annotations: { [annotation]: Object.keys(failures).length ? JSON.stringify(failures) : null } } });
    },
  });
}

/** @param {App} app @param {Device} device */
function failButton(app, device) {
  const by = failsBy(app, device);
  if (!by) return null;
  const recovers = device.taints.some((taint) => taint.origin === "driver");
  return guarded(app, "patch", "", "nodes", h("button.act", { type: "button", onclick: () => failDialog(app, device, by, recovers) }, recovers ? "Recover…" : "Fail…"));
}

/** A note on an incident, for whoever looks next. @param {App} app @param {Incident} incident */
export function noteDialog(app, incident) {
  const note = h("textarea", { rows: "3", maxlength: REASON_CHARS_MAX, value: incident.metadata.annotations?.[NOTE] ?? "" });
  ask({
    title: "Note", body: [h("p", incident.metadata.name), h("label.field", h("span", "Note"), note)], watch: [note],
    commands: () => [`kubectl annotate --overwrite deviceincident ${incident.metadata.name} ${NOTE}=${quote(note.value.trim())}`],
    run: () => app.api.patch(`${app.served.deviceincidents.path}/${encodeURIComponent(incident.metadata.name)}`,
      { metadata: { uid: incident.metadata.uid, annotations: { [NOTE]: note.value.trim() || null } } }),
  });
}

/** Says of an incident what a person saw or did. @param {App} app @param {Incident} incident @param {"acknowledge" | "repaired" | "abandon"} act */
export function incidentAct(app, incident, act) {
  const { api, served, session } = app;
  const { field, title, text } = {
    acknowledge: { field: "acknowledged", title: "Acknowledge", text: "Others see that you have seen it." },
    repaired: { field: "repaired", title: "Repaired", text: "The device goes on to probation." },
    abandon: { field: "abandoned", title: "Abandon…", text: "The device stays out of service." },
  }[act];
  ask({
    title, danger: act === "abandon", reason: act === "abandon" ? "required" : "optional", body: h("p", incident.metadata.name, ": ", text),
    commands: (reason) => [`kubectl device ${act} ${incident.metadata.name}${reason ? ` --reason ${quote(reason)}` : ""}`],
    run: (reason) => api.patch(`${served.deviceincidents.path}/${encodeURIComponent(incident.metadata.name)}`,
      { metadata: { uid: incident.metadata.uid }, spec: { [field]: { at: new Date().toISOString(), by: session.user, ...(reason ? { reason } : {}) } } }),
  });
}

/** A button that is disabled, with the rule that is missing, for who may not. @param {App} app @param {string} verb @param {string} group @param {string} resource @param {HTMLButtonElement} button */
export function guarded(app, verb, group, resource, button) {
  button.disabled = true;
  app.api.may(verb, group, resource).then((allowed) => {
    button.disabled = !allowed;
    if (!allowed) button.title = `You need the permission to ${verb} ${resource}${group ? `.${group}` : ""}`;
  });
  return button;
}

/** @param {App} app @param {Device} device @param {Incident | null} incident */
export function actions(app, device, incident) {
  /** @param {string} text @param {() => void} run @param {string} [verb] */
  const button = (text, run, verb = "create", danger = false) => guarded(app, verb, "resource.k8s.io", "devicetaintrules", h(danger ? "button.act.danger" : "button.act", { type: "button", onclick: run }, text));
  const drained = device.taints.some((taint) => taint.key === DRAIN_KEY && taint.origin === "person");
  const draining = device.taints.some((taint) => taint.key === DRAIN_KEY && taint.effect === "NoExecute");
  const stage = incident?.status?.stage;
  return h("div.actions",
    drained ? button("Uncordon", () => plan(app, "uncordon", [device]), "delete") : button("Cordon", () => plan(app, "cordon", [device])),
    draining ? null : button("Drain…", () => plan(app, "drain", [device]), "create", true),
    button("Taint…", () => taintDialog(app, device)),
    incident && !incident.status?.acknowledgedBy ? guarded(app, "patch", "lazaret.dev", "deviceincidents", h("button.act", { type: "button", onclick: () => incidentAct(app, incident, "acknowledge") }, "Acknowledge")) : null,
    incident && (stage === "Repairing" || stage === "Abandoned") ? guarded(app, "patch", "lazaret.dev", "deviceincidents", h("button.act", { type: "button", onclick: () => incidentAct(app, incident, "repaired") }, "Repaired")) : null,
    h("button.act", { type: "button", onclick: () => app.go(`whatif/${device.key}`) }, "What if…"), failButton(app, device));
}
