// What keeps a pod, a drain or an incident, and how each wait ends: in the words of `kubectl device check` and `kubectl device why`, by the same table.

import { incidentDevice, stageOf } from "./fleet.js";
import { ROWS } from "./wait-rows.js";

/** @import { Condition } from "./types/api" */
/** @import { Incident } from "./types/page" */

/**
 * @typedef {{ incident: boolean, reason: string | null, says: string, stage: string, orphan: boolean, ends: string, needsPerson: boolean }} WaitRow
 * @typedef {{ words: string, ends: string, needsPerson: boolean }} Wait
 * @typedef {{ incident: boolean, reason: string, message: string, stage: string, orphan: boolean, guard: string, device: string }} WaitCase
 */

const POLICY_GONE = "its policy is gone";

/** The first guard that a message names, and what is said about it. @param {string} message @returns {[string, string]} */
function guardIn(message) {
  const at = message.indexOf("DisruptionGuard ");
  if (at < 0) return ["", ""];
  const rest = message.slice(at + "DisruptionGuard ".length);
  const end = rest.search(/[ :;,]/);
  return end < 0 ? [rest, ""] : [rest.slice(0, end), rest.slice(end)];
}

/** @param {WaitCase} wait @returns {{ ends: string, needsPerson: boolean }} */
function end(wait) {
  const [, said] = guardIn(wait.message);
  const row = ROWS.find((one) => one.incident === wait.incident && (one.reason === null || one.reason === wait.reason)
    && said.startsWith(one.says) && (one.stage === "" || one.stage === wait.stage) && (!one.orphan || wait.orphan));
  if (!row) return { ends: "", needsPerson: false };
  return { ends: row.ends.replaceAll("{guard}", () => wait.guard).replaceAll("{device}", () => wait.device), needsPerson: row.needsPerson };
}

/** The wait that a condition `EvictionBlocked` is about. @param {Pick<Condition, "reason" | "message">} condition @returns {Wait} */
export function evictionWait({ reason, message }) {
  const alone = message.startsWith(`${reason}: `) ? message.slice(reason.length + 2) : message;
  const guard = guardIn(message)[0] || "NAME";
  return { words: `blocked (${reason}): ${alone}`, ...end({ incident: false, reason, message, stage: "", orphan: false, guard, device: "" }) };
}

/** The wait of an incident that is open. @param {Incident} incident @returns {Wait | null} */
export function incidentWait(incident) {
  const { status = {}, spec } = incident;
  const stage = stageOf(incident);
  if (stage === "Cleared") return null;
  const message = status.waitsFor ?? "";
  const since = Date.parse(status.since ?? spec.openedAt);
  const words = `waits for ${message || "its controller"}${Number.isNaN(since) ? "" : ` since ${new Date(since).toISOString().replace(/\.\d+Z$/, "Z")}`}`;
  return { words, ...end({ incident: true, reason: status.held?.reason ?? "", message, stage, orphan: message.startsWith(POLICY_GONE), guard: status.held?.guard ?? "", device: incidentDevice(incident) }) };
}

/** In a line. @param {Wait} wait */
export const waitLine = ({ words, ends }) => `${words.replace(/\.+$/, "")}; ${ends}`;
