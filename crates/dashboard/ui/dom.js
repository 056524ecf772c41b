// Elements from data. Text from the cluster only ever becomes text nodes and attributes that are not code.

/** `h("button.primary", {onclick}, "Drain")`. */
export function h(tag, attributes, ...children) {
  const [name, ...classes] = tag.split(".");
  const element = document.createElement(name || "div");
  if (classes.length) element.className = classes.join(" ");
  if (attributes !== undefined && (typeof attributes !== "object" || attributes instanceof Node || Array.isArray(attributes))) {
    children.unshift(attributes);
    attributes = null;
  }
  for (const [key, value] of Object.entries(attributes ?? {})) {
    if (value === undefined || value === null || value === false) continue;
    if (key.startsWith("on")) element.addEventListener(key.slice(2), value);
    else if (key === "width") element.style.width = value;
    else if (key === "hue") element.style.setProperty("--hue", value);
    else if (key === "value" || key === "checked") element[key] = value;
    else element.setAttribute(key, value === true ? "" : value);
  }
  append(element, children);
  return element;
}

function append(element, children) {
  for (const child of children.flat(4)) {
    if (child === undefined || child === null || child === false) continue;
    element.append(child instanceof Node ? child : document.createTextNode(String(child)));
  }
}

/** Replaces the content of an element. */
export function show(element, ...children) {
  element.replaceChildren();
  append(element, children);
  return element;
}

/** A place for a table that may be wider than its window: keys scroll it, too. */
export const wide = (name, ...children) => h("div.tablewrap", { role: "region", "aria-label": name, tabindex: 0 }, ...children);

/** `1 pod`, `2 pods`. */
export const count = (number, noun) => `${number.toLocaleString("en")} ${noun}${number === 1 ? "" : "s"}`;

const UNITS = [[86400, "d"], [3600, "h"], [60, "m"], [1, "s"]];

/** Two units at most, as kubectl writes ages. */
export function span(seconds) {
  let rest = Math.max(0, Math.round(seconds));
  const parts = [];
  for (const [size, unit] of UNITS) {
    const whole = Math.floor(rest / size);
    if (whole || (parts.length === 0 && size === 1)) parts.push(`${whole}${unit}`);
    rest -= whole * size;
    if (parts.length === 2 || (parts.length === 1 && whole >= 10)) break;
  }
  return parts.filter((part, at) => at === 0 || !part.startsWith("0")).join("");
}

/** A relative time, the absolute one on hover. */
export function ago(text, now = Date.now()) {
  const at = Date.parse(text ?? "");
  if (Number.isNaN(at)) return h("span.muted", "unknown");
  return h("time", { datetime: new Date(at).toISOString(), title: new Date(at).toISOString() }, since(at, now));
}

const since = (at, now) => `${span((now - at) / 1000)} ago`;

/** Brings every relative time on the page up to date. */
export function refreshTimes() {
  const now = Date.now();
  for (const element of document.querySelectorAll("time[datetime]")) element.textContent = since(Date.parse(element.dateTime), now);
}

/**
 * A list of which only those entries are made anew whose facts changed: what somebody points at, reads or has focused stays where it is.
 * Entries are `{key, facts, make}`.
 */
export function keyed(container, entries) {
  const known = container.entries ?? new Map();
  const kept = new Map();
  for (const { key, facts, make } of entries) {
    const marker = JSON.stringify(facts);
    const before = known.get(key);
    if (before?.marker === marker) { kept.set(key, before); continue; }
    const element = make();
    if (before) replace(before.element, element);
    kept.set(key, { marker, element });
  }
  container.entries = kept;
  [...kept.values()].forEach(({ element }, at) => { if (container.children[at] !== element) container.insertBefore(element, container.children[at] ?? null); });
  while (container.children.length > kept.size) container.lastChild.remove();
}

/** Replaces the content of an element; what was focused in it and how far it was scrolled stays. */
export function redraw(element, ...children) {
  const focused = element.contains(document.activeElement) && document.activeElement !== element ? document.activeElement : null;
  const { scrollTop } = element;
  show(element, ...children);
  element.scrollTop = scrollTop;
  refocus(element, focused);
}

function refocus(element, focused) {
  if (focused) [...element.querySelectorAll(focused.localName)].find((one) => one.textContent === focused.textContent)?.focus({ preventScroll: true });
}

/** Puts one element in the place of another of the same shape, with what was open and focused in it. */
function replace(before, element) {
  const focused = before.contains(document.activeElement) ? document.activeElement : null;
  const name = (details) => details.querySelector("summary")?.textContent.replace(/\d+|s\b/g, "");
  const open = new Map([...before.querySelectorAll("details")].map((one) => [name(one), one.open]));
  for (const one of element.querySelectorAll("details")) one.open = open.get(name(one)) ?? one.open;
  before.replaceWith(element);
  refocus(element, focused);
}

/** Says something to a screen reader. */
export function say(text) {
  const live = document.getElementById("live");
  if (live) live.textContent = text;
}

/** A command that does the same, with a button to copy it. */
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

/** A dialog with the objects behind a number: `{text, href, note}` each. `unnamed` more are known by their number alone; `why` says where their names are. */
export function listing(title, items, { unnamed = 0, why = "" } = {}) {
  const hidden = Math.max(0, items.length - LISTED_MAX);
  const close = () => dialog.close();
  const dialog = h("dialog.listing", { "aria-label": title }, h("header", h("h1", title), h("button.close", { type: "button", "aria-label": "Close", onclick: close }, "×")),
    h("ul", items.slice(0, LISTED_MAX).map(({ text, href, note }) => h("li", { "data-listed": true }, href ? h("a", { href, onclick: close }, text) : h("span", text), note ? h("span.note.end", note) : null))),
    hidden ? h("p.note", { "data-hidden": hidden }, `${hidden.toLocaleString("en")} more.`) : null,
    unnamed ? h("p.note", { "data-unnamed": unnamed }, `${unnamed.toLocaleString("en")} more ${why}`) : null,
    items.length || unnamed ? null : h("p.note", "None."));
  dialog.addEventListener("close", () => dialog.remove());
  document.body.append(dialog);
  dialog.showModal();
}

/** A number that leads to what it counts. `items` is called when somebody asks. */
export function tally(number, text, title, items, more) {
  return h("button.tally", { type: "button", "data-count": number, onclick: () => listing(title, items(), more) }, text);
}

export const deviceItem = (device) => ({ text: device.key, href: `#/fleet/${device.key}` });
export const podItem = (name, note) => ({ text: name, href: `#/why/${name}`, note });

/** An empty page says what to do next. */
export const empty = (title, ...next) => h("div.empty", h("p.lead", title), next.length ? h("div", ...next) : null);
