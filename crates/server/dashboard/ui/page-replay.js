// Plays a recording on the same heat map.

import { Fleet } from "./fleet.js";
import { HeatMap } from "./heatmap.js";
import { count, h, messageOf, seen, show, span, tally } from "./dom.js";
import { grouped, summary } from "./page-fleet.js";
import { cut, parseRecording } from "./record.js";

/** @import { MakePage, Recording } from "./types/page" */

const SPEEDS = [1, 4, 16, 60, 240];
/** Shown before and after an incident. */
const LEAD_MS = 5_000;
/** Recorded objects say themselves in which version they are. */
const RECORDED_AS = { slices: {}, patches: {}, classes: {} };

/** @type {MakePage} */
export function replayPage(main, app, argument) {
  let timer = 0;
  /** @type {HeatMap | null} */
  let map = null;
  /** @type {ReturnType<typeof summary> | null} */
  let totals = null;
  /** @type {HTMLInputElement} */
  const input = h("input", { type: "file", accept: "application/json,.json", hidden: true, onchange: () => readFirst(input.files) });
  const problem = h("p.error", { role: "alert" });

  function start() {
    const drop = h("div.drop", h("p", "Drop a recording here, or ", h("button.act", { type: "button", onclick: () => input.click() }, "choose a file")),
      h("p.note", "Made by ", h("code", "kubectl device record -o incident.json"), " or ", h("code", "lazaret-sim --record world.json"), "."), problem);
    drop.addEventListener("dragover", (event) => { event.preventDefault(); drop.classList.add("over"); });
    drop.addEventListener("dragleave", () => drop.classList.remove("over"));
    drop.addEventListener("drop", (event) => { event.preventDefault(); drop.classList.remove("over"); readFirst(event.dataTransfer?.files); });
    const minutes = span((Date.now() - app.recorder.start0) / 1000);
    show(main, h("div.page", h("header", h("h1", "Replay"), h("p", "The fleet as it was, played back.")), drop, input,
      h("div.card", h("header", h("h2", "This page remembers"), h("span.end", changes(), ` in ${minutes}`)),
        h("div.actions", h("button.act", { type: "button", onclick: () => play(parseRecording(JSON.stringify(app.recorder.recording()))) }, "Play it"),
          h("button.act", { type: "button", onclick: save }, "Save as JSON")))));
  }

  /** How many changes are kept, and which. */
  function changes() {
    const events = [...app.recorder.events];
    return tally(events.length, count(events.length, "change"), "Changes", () => events.map(({ at, method, kind, object }) => ({ text: `${kind} ${object.metadata.name}`, note: `${method === "set" ? "changed" : "deleted"} ${new Date(at).toISOString().slice(11, 19)}` })).reverse());
  }

  function save() {
    const url = URL.createObjectURL(new Blob([JSON.stringify(app.recorder.recording())], { type: "application/json" }));
    h("a", { href: url, download: `lazaret-${new Date().toISOString().slice(0, 19).replace(/:/g, "")}.json` }).click();
    setTimeout(() => URL.revokeObjectURL(url), 10_000);
  }

  /** @param {FileList | null | undefined} files */
  async function readFirst(files) {
    const file = files?.[0];
    if (!file) return;
    try { play(parseRecording(await file.text())); } catch (error) { problem.textContent = seen(messageOf(error)); }
  }

  function stop() {
    clearInterval(timer);
    map?.destroy();
    totals?.close();
  }

  /** @param {Recording} recording */
  function play(recording) {
    stop();
    let asked = "";
    let next = 0;
    let at = recording.start;
    let speed = SPEEDS.find((one) => (recording.end - recording.start) / 1000 / one <= 40) ?? SPEEDS.at(-1) ?? 1;
    const begin = () => {
      const fresh = new Fleet();
      fresh.clock = () => (playing ? Date.now() : 0);
      for (const { kind, object } of recording.objects) fresh.set(kind, object);
      return fresh;
    };
    let playing = false;
    let fleet = begin();
    const head = (totals = summary());
    const heat = (map = new HeatMap({}));
    const range = h("input", { type: "range", min: "0", max: "1000", value: "0", "aria-label": "Time", oninput: () => { seek(recording.start + (Number(range.value) / 1000) * (recording.end - recording.start)); } });
    const clock = h("output");
    const log = h("ul.timeline");
    const toggle = h("button.act.primary", { type: "button", onclick: () => { playing = !playing; if (at >= recording.end) seek(recording.start); label(); } });
    const rate = h("select", { "aria-label": "Speed", onchange: () => { speed = Number(rate.value); } }, SPEEDS.map((one) => h("option", { value: String(one) }, `${one}×`)));
    rate.value = String(speed);
    const label = () => { toggle.textContent = playing ? "Pause" : "Play"; };
    let shape = -1;

    function draw() {
      fleet.settle();
      const devices = [...fleet.devices.values()];
      head.set(fleet.counts(), `devices · ${recording.title || new Date(recording.start).toISOString().slice(0, 10)}`);
      if (fleet.shape !== shape) { shape = fleet.shape; heat.show(grouped(devices, "node", fleet.nodes)); }
      heat.dirty();
      clock.textContent = `${new Date(at).toISOString().slice(11, 19)} · ${span((at - recording.start) / 1000)}`;
      range.value = String(recording.end > recording.start ? ((at - recording.start) / (recording.end - recording.start)) * 1000 : 1000);
    }

    /** Which devices classes and expressions mean, only the cores can tell. */
    async function evaluate() {
      const names = fleet.opaque();
      const marker = names.length ? JSON.stringify([fleet.shape, names, names.map((name) => fleet.wide.get(name))]) : "";
      if (marker === asked) return;
      asked = marker;
      if (!marker) return;
      const mine = fleet;
      try {
        const found = await app.engine.select({ fleet: mine, served: RECORDED_AS }, names.flatMap((name) => mine.wide.get(name) ?? []), recording.classes);
        names.forEach((name, at) => { if (mine.wide.has(name)) mine.setSelection(name, found[at] ?? new Set()); });
        if (mine === fleet) draw();
      } catch (error) { console.warn(error); }
    }

    /** @param {number} time */
    function seek(time) {
      if (time < at) { fleet = begin(); next = 0; shape = -1; }
      at = time;
      for (let event; (event = recording.events[next]) && event.at <= at; next++) {
        if (event.remove) fleet.remove(event.kind, event.object); else fleet.set(event.kind, event.object);
      }
      show(log, next === 0 ? h("li.none", "Nothing has changed yet.") : recording.events.slice(Math.max(0, next - 7), next).reverse().map((event) => h("li", { hue: event.remove ? "var(--gone)" : "var(--accent)" },
        h("span.note", `${new Date(event.at).toISOString().slice(11, 19)} `), `${event.object.kind} ${event.object.metadata.name}`, event.note ? `: ${event.note}` : event.remove ? " deleted" : "")));
      draw();
      evaluate();
    }

    label();
    show(main, h("div.fleet", h("h1.sr", "Replay"), head.element, h("div.scrub", toggle, rate, range, clock, h("button.act.hide-small", { type: "button", onclick: start }, "Close")),
      h("div.split", heat.element, h("aside.panel", h("h2", "Changes"), log))));
    seek(recording.start);
    let last = performance.now();
    timer = setInterval(() => {
      const now = performance.now();
      if (playing) {
        seek(Math.min(recording.end, at + (now - last) * speed));
        if (at >= recording.end) { playing = false; label(); }
      }
      last = now;
    }, 50);
    toggle.focus();
    playing = true;
    label();
  }

  /** Plays an incident as far as this page has seen it. @param {string} name */
  function playIncident(name) {
    const incident = app.fleet.incidents.get(name);
    if (!incident) { problem.textContent = seen(`There is no incident ${name}.`); return; }
    const until = Date.parse(incident.status?.times?.cleared ?? "") || Date.now();
    play(cut(parseRecording(JSON.stringify(app.recorder.recording())), Date.parse(incident.spec.detectedAt ?? incident.spec.openedAt) - LEAD_MS, until + LEAD_MS, name));
  }

  start();
  if (argument) playIncident(argument);
  return { close: stop, play };
}
