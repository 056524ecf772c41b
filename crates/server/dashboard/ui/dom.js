// Elements from data. Text from the cluster only ever becomes text nodes and attributes that are not code, in which every character can be seen.

/** @import { Attributes, Child, ElementOf, Entry, Item, More } from "./types/page" */
/** @import { Device } from "./fleet.js" */

/** What turns the direction of a line, or stands there without being seen: the same as in the output of `kubectl device`. Line breaks and tabs stay. */
const UNSEEN = /(?![\n\t])[\p{Cc}\p{Cf}\p{Zl}\p{Zp}\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180f\u3164\uffa0\ufff0-\ufff8\u{e0000}-\u{e0fff}]/gu;

/** A text with escapes for what cannot be seen in it. @param {unknown} text */
export const seen = (text) => String(text).replace(UNSEEN, (character) => {
  const code = character.codePointAt(0) ?? 0;
  return code < 0x80 ? `\\x${code.toString(16).padStart(2, "0")}` : `\\u${code.toString(16).padStart(4, "0")}`;
});

/** Attributes that people read. */
const READ = new Set(["title", "aria-label", "placeholder"]);

/**
 * `h("button.primary", {onclick}, "Drain")`.
 * @template {string} T
 * @param {T} tag
 * @param {Attributes | Child} [first]
 * @param {Child[]} children
 * @returns {ElementOf<T>}
 */
export function h(tag, first, ...children) {
  const [name, ...classes] = tag.split(".");
  const element = document.createElement(name || "div");
  if (classes.length) element.className = classes.join(" ");
  if (isAttributes(first)) {
    for (const [key, value] of Object.entries(first)) set(element, key, value);
  } else children.unshift(first);
  append(element, children);
  return /** @type {ElementOf<T>} */ (element);
}

/** @param {Attributes | Child} first @returns {first is Attributes} */
const isAttributes = (first) => typeof first === "object" && first !== null && !(first instanceof Node) && !Array.isArray(first);

/** @param {HTMLElement} element @param {string} key @param {unknown} value */
function set(element, key, value) {
  if (value === undefined || value === null || value === false) return;
  if (key.startsWith("on")) element.addEventListener(key.slice(2), /** @type {EventListener} */ (value));
  else if (key === "width") element.style.width = String(value);
  else if (key === "hue") element.style.setProperty("--hue", String(value));
  else if (key === "value" || key === "checked") Object.assign(element, { [key]: value });
  else element.setAttribute(key, value === true ? "" : READ.has(key) ? seen(value) : String(value));
}

/** @param {HTMLElement} element @param {Child[]} children */
function append(element, children) {
  for (const child of /** @type {Child[]} */ (children.flat(4))) {
    if (child === undefined || child === null || child === false) continue;
    element.append(child instanceof Node ? child : document.createTextNode(seen(child)));
  }
}

/** Replaces the content of an element. @param {HTMLElement} element @param {Child[]} children */
export function show(element, ...children) {
  element.replaceChildren();
  append(element, children);
  return element;
}

/** A place for a table that may be wider than its window: keys scroll it, too. @param {string} name @param {Child[]} children */
export const wide = (name, ...children) => h("div.tablewrap", { role: "region", "aria-label": name, tabindex: 0 }, ...children);

/** `1 pod`, `2 pods`. @param {number} number @param {string} noun */
export const count = (number, noun) => `${number.toLocaleString("en")} ${noun}${number === 1 ? "" : "s"}`;

/** @type {[number, string][]} */
const UNITS = [[86400, "d"], [3600, "h"], [60, "m"], [1, "s"]];

/** Two units at most, as kubectl writes ages. @param {number} seconds */
export function span(seconds) {
  let rest = Math.max(0, Math.round(seconds));
  /** @type {string[]} */
  const parts = [];
  for (const [size, unit] of UNITS) {
    const whole = Math.floor(rest / size);
    if (whole || (parts.length === 0 && size === 1)) parts.push(`${whole}${unit}`);
    rest -= whole * size;
    if (parts.length === 2 || (parts.length === 1 && whole >= 10)) break;
  }
  return parts.filter((part, at) => at === 0 || !part.startsWith("0")).join("");
}

/** A relative time, the absolute one on hover. @param {string | undefined} text */
export function ago(text, now = Date.now()) {
  const at = Date.parse(text ?? "");
  if (Number.isNaN(at)) return h("span.muted", "unknown");
  return h("time", { datetime: new Date(at).toISOString(), title: new Date(at).toISOString() }, since(at, now));
}

/** @param {number} at @param {number} now */
const since = (at, now) => `${span((now - at) / 1000)} ago`;

/** Brings every relative time on the page up to date. */
export function refreshTimes() {
  const now = Date.now();
  for (const element of /** @type {NodeListOf<HTMLTimeElement>} */ (document.querySelectorAll("time[datetime]"))) element.textContent = since(Date.parse(element.dateTime), now);
}

/**
 * The entries that a list shows, by key.
 * @typedef {Map<string, { marker: string, element: HTMLElement }>} Drawn
 * @type {WeakMap<HTMLElement, Drawn>}
 */
const drawn = new WeakMap();

/**
 * A list of which only those entries are made anew whose facts changed: what somebody points at, reads or has focused stays where it is.
 * @param {HTMLElement} container
 * @param {Entry[]} entries
 */
export function keyed(container, entries) {
  const known = drawn.get(container) ?? new Map();
  /** @type {Drawn} */
  const kept = new Map();
  for (const { key, facts, make } of entries) {
    const marker = JSON.stringify(facts);
    const before = known.get(key);
    if (before?.marker === marker) { kept.set(key, before); continue; }
    const element = make();
    if (before) replace(before.element, element);
    kept.set(key, { marker, element });
  }
  drawn.set(container, kept);
  [...kept.values()].forEach(({ element }, at) => { if (container.children[at] !== element) container.insertBefore(element, container.children[at] ?? null); });
  while (container.children.length > kept.size) container.lastChild?.remove();
}

/** Replaces the content of an element; what was focused in it and how far it was scrolled stays. @param {HTMLElement} element @param {Child[]} children */
export function redraw(element, ...children) {
  const focused = element.contains(document.activeElement) && document.activeElement !== element ? document.activeElement : null;
  const { scrollTop } = element;
  show(element, ...children);
  element.scrollTop = scrollTop;
  refocus(element, focused);
}

/** @param {HTMLElement} element @param {Element | null} focused */
function refocus(element, focused) {
  if (focused) /** @type {HTMLElement[]} */ ([...element.querySelectorAll(focused.localName)]).find((one) => one.textContent === focused.textContent)?.focus({ preventScroll: true });
}

/** Puts one element in the place of another of the same shape, with what was open and focused in it. @param {HTMLElement} before @param {HTMLElement} element */
function replace(before, element) {
  const focused = before.contains(document.activeElement) ? document.activeElement : null;
  /** @param {HTMLDetailsElement} details */
  const name = (details) => details.querySelector("summary")?.textContent.replace(/\d+|s\b/g, "");
  const open = new Map([...before.querySelectorAll("details")].map((one) => [name(one), one.open]));
  for (const one of element.querySelectorAll("details")) one.open = open.get(name(one)) ?? one.open;
  before.replaceWith(element);
  refocus(element, focused);
}

/** Says something to a screen reader. @param {string} text */
export function say(text) {
  const live = document.getElementById("live");
  if (live) live.textContent = seen(text);
}

/** A command that does the same, with a button to copy it. @param {string} text */
export function command(text) {
  const button = h("button.copy", { type: "button", "aria-label": "Copy the command" }, "Copy");
  button.addEventListener("click", async () => {
    try {
      await navigator.clipboard.writeText(text);
      button.textContent = "Copied";
    } catch {
      getSelection()?.selectAllChildren(code);
      button.textContent = "Selected";
    }
    setTimeout(() => { button.textContent = "Copy"; }, 1500);
  });
  const code = h("code", text);
  return h("div.command", code, button);
}

/** More than this nobody reads. */
const LISTED_MAX = 500;

/** A dialog with the objects behind a number. `unnamed` more are known by their number alone; `why` says where their names are. @param {string} title @param {Item[]} items @param {More} [more] */
export function listing(title, items, { unnamed = 0, why = "" } = {}) {
  const hidden = Math.max(0, items.length - LISTED_MAX);
  const close = () => { dialog.close(); };
  /** @type {HTMLDialogElement} */
  const dialog = h("dialog.listing", { "aria-label": title }, h("header", h("h1", title), h("button.close", { type: "button", "aria-label": "Close", onclick: close }, "×")),
    h("ul", items.slice(0, LISTED_MAX).map(({ text, href, note }) => h("li", { "data-listed": true }, href ? h("a", { href, onclick: close }, text) : h("span", text), note ? h("span.note.end", note) : null))),
    hidden ? h("p.note", { "data-hidden": hidden }, `${hidden.toLocaleString("en")} more.`) : null,
    unnamed ? h("p.note", { "data-unnamed": unnamed }, `${unnamed.toLocaleString("en")} more ${why}`) : null,
    items.length || unnamed ? null : h("p.note", "None."));
  dialog.addEventListener("close", () => dialog.remove());
  document.body.append(dialog);
  dialog.showModal();
}

/** A number that leads to what it counts. `items` is called when somebody asks. @param {number} number @param {Child} text @param {string} title @param {() => Item[]} items @param {More} [more] */
export function tally(number, text, title, items, more) {
  return h("button.tally", { type: "button", "data-count": number, onclick: () => listing(title, items(), more) }, text);
}

/** @param {Device} device */
export const deviceItem = (device) => ({ text: device.key, href: `#/fleet/${device.key}` });
/** @param {string} name @param {string} [note] @returns {Item} */
export const podItem = (name, note) => ({ text: name, href: `#/why/${name}`, note });

/** An empty page says what to do next. @param {string} title @param {Child[]} next */
export const empty = (title, ...next) => h("div.empty", h("p.lead", title), next.length ? h("div", ...next) : null);

/** The words of an error. @param {unknown} error */
export const messageOf = (error) => (error instanceof Error ? error.message : String(error));
