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
  return h("time", { datetime: text, title: new Date(at).toISOString() }, `${span((now - at) / 1000)} ago`);
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

/** An empty page says what to do next. */
export const empty = (title, ...next) => h("div.empty", h("p.lead", title), next.length ? h("p", ...next) : null);
