// The heat map: a block a group, a cell a device, on one canvas as large as the window. Draws what is visible, and only after a change.

import { ORIGINS, STATES, STATE_INDEX, stateWord } from "./fleet.js";
import { say, seen } from "./dom.js";

/** @import { Group, Origin, State } from "./types/page" */
/** @import { Device } from "./fleet.js" */
/** @typedef {{ device: Device, x: number, y: number }} Cell */
/** @typedef {{ x0: number, y0: number, x1: number, y1: number }} Box */
/** @typedef {{ image: HTMLCanvasElement, size: number, ratio: number, box: { pixels: number, step: number } }} Sprites */

/** Cells by how many devices there are: few are large enough to read their marks. @type {[number, number][]} */
const CELL_SIZES = [[64, 34], [400, 24], [2_000, 18], [12_000, 13], [40_000, 9], [Infinity, 6]];
const FLASH_MS = 1_200;
/** Smaller cells have no room for the shape of a state. */
const SHAPE_PIXELS_MIN = 8;
const LABEL = 20;

export class HeatMap {
  /** @param {{ open?: (device: Device) => void, select?: (keys: Set<string>) => void }} on */
  constructor(on = {}) {
    this.on = on;
    /** @type {Set<string>} */
    this.selected = new Set();
    /** @type {Group[]} */
    this.groups = [];
    /** @type {Cell[]} */
    this.cells = [];
    /** Cells in the order of their rows, to find those that are visible. @type {Cell[]} */
    this.byRow = [];
    /** @type {{ x: number, y: number, text: string, width: number }[]} */
    this.heads = [];
    this.at = -1;
    this.size = 0;
    this.height = 0;
    /** Whether cells have their places. */
    this.laid = false;
    /** The device that has the focus when they are laid out again. @type {string | undefined} */
    this.focusKey = undefined;
    /** @type {Sprites | null} */
    this.sprites = null;
    /** Where a pointer went down, and the lasso that it drew since. @type {Box | null} */
    this.start = null;
    /** @type {Box | null} */
    this.lasso = null;
    /** The click that ends a lasso opens nothing. */
    this.swallow = false;
    this.frame = 0;
    this.over = false;
    /** @type {number[]} */
    this.frames = [];
    this.element = document.createElement("div");
    this.element.className = "map";
    this.element.tabIndex = 0;
    this.element.setAttribute("role", "application");
    this.element.setAttribute("aria-roledescription", "heat map of devices");
    this.canvas = document.createElement("canvas");
    this.canvas.setAttribute("aria-hidden", "true");
    this.spacer = document.createElement("div");
    this.spacer.className = "spacer";
    this.tip = document.createElement("div");
    this.tip.className = "tip";
    this.tip.hidden = true;
    this.element.append(this.canvas, this.spacer, this.tip);
    this.dark = matchMedia("(prefers-color-scheme: dark)");
    this.still = matchMedia("(prefers-reduced-motion: reduce)");
    this.ended = new AbortController();
    this.dark.addEventListener("change", () => { this.sprites = null; this.dirty(); }, { signal: this.ended.signal });
    this.resizer = new ResizeObserver(() => { this.laid = false; this.dirty(); });
    this.resizer.observe(this.element);
    this.element.addEventListener("scroll", () => { this.tip.hidden = true; this.dirty(); }, { passive: true });
    this.element.addEventListener("keydown", (event) => this.#key(event));
    this.#pointer();
  }

  destroy() {
    this.resizer.disconnect();
    this.ended.abort();
    cancelAnimationFrame(this.frame);
    this.over = true;
  }

  /** Groups in order. @param {Group[]} groups */
  show(groups) {
    const focused = this.cells[this.at]?.device.key;
    this.groups = groups;
    this.laid = false;
    this.focusKey = focused;
    this.dirty();
  }

  dirty() {
    if (this.frame || this.over) return;
    this.frame = requestAnimationFrame(() => {
      this.frame = 0;
      const began = performance.now();
      this.#draw();
      this.frames.push(performance.now() - began);
      if (this.frames.length > 600) this.frames.shift();
    });
  }

  #layout() {
    const width = this.element.clientWidth;
    const total = this.groups.reduce((sum, group) => sum + group.devices.length, 0);
    const size = CELL_SIZES.find(([most]) => total <= most)?.[1] ?? 6;
    const gap = size > 12 ? 3 : size > 8 ? 2 : 1;
    const step = size + gap;
    const labels = size > 8;
    this.size = size;
    this.cells = [];
    this.heads = [];
    const widest = Math.max(1, ...this.groups.map((group) => group.devices.length));
    const edge = width < 600 ? 14 : 24;
    const room = Math.max(step, width - edge * 2);
    // A block is as wide as a group of the usual size, so that blocks stand in columns.
    const columns = Math.max(1, Math.min(widest, size > 12 ? 8 : 16, Math.floor(room / step)));
    const blockWidth = Math.min(room, Math.max(columns * step + (size > 24 ? 28 : 16), labels ? 96 : 0));
    const across = Math.max(1, Math.floor(room / blockWidth));
    let x = 0;
    let top = 14;
    let tallest = 0;
    for (const group of this.groups) {
      const rows = Math.ceil(group.devices.length / columns);
      const height = rows * step + (labels ? LABEL : 0) + 12;
      if (x >= across) { x = 0; top += tallest; tallest = 0; }
      const left = edge + x * blockWidth;
      if (labels) this.heads.push({ x: left, y: top, text: group.name, width: blockWidth - 12 });
      group.devices.forEach((device, at) => {
        this.cells.push({
          device, x: left + (at % columns) * step, y: top + (labels ? LABEL : 0) + Math.floor(at / columns) * step,
        });
      });
      tallest = Math.max(tallest, height);
      x++;
    }
    this.height = top + tallest + 12;
    this.spacer.style.height = `${this.height}px`;
    this.byRow = [...this.cells].sort((a, b) => a.y - b.y);
    this.laid = true;
    if (this.focusKey) this.at = this.cells.findIndex((cell) => cell.device.key === this.focusKey);
  }

  #draw() {
    if (!this.element.isConnected) return;
    if (!this.laid) this.#layout();
    const ratio = Math.min(devicePixelRatio || 1, 2);
    const [width, height] = [this.element.clientWidth, this.element.clientHeight];
    if (this.canvas.width !== width * ratio || this.canvas.height !== height * ratio) {
      this.canvas.width = width * ratio;
      this.canvas.height = height * ratio;
      this.canvas.style.width = `${width}px`;
      this.canvas.style.height = `${height}px`;
    }
    if (!this.sprites || this.sprites.size !== this.size || this.sprites.ratio !== ratio) this.sprites = sprites(this.size, ratio);
    const context = this.canvas.getContext("2d");
    if (!context) return;
    context.setTransform(1, 0, 0, 1, 0, 0);
    context.clearRect(0, 0, this.canvas.width, this.canvas.height);
    context.setTransform(ratio, 0, 0, ratio, 0, -this.element.scrollTop * ratio);
    const top = this.element.scrollTop;
    const style = getComputedStyle(this.element);
    context.font = `500 12px ${style.fontFamily}`;
    context.textBaseline = "middle";
    context.fillStyle = style.getPropertyValue("--muted");
    for (const head of this.heads) {
      if (head.y + LABEL > top && head.y < top + height) context.fillText(fit(context, seen(head.text), head.width), head.x, head.y + LABEL / 2 - 2);
    }
    this.#cells(context, this.sprites, top, height, style.getPropertyValue("--accent"));
  }

  /** @param {CanvasRenderingContext2D} context @param {Sprites} sprites @param {number} top @param {number} height @param {string} accent */
  #cells(context, { image, box }, top, height, accent) {
    const now = Date.now();
    let moving = false;
    const focused = this.cells[this.at];
    for (let from = lowerBound(this.byRow, top - this.size); from < this.byRow.length; from++) {
      const cell = this.byRow[from];
      if (!cell || cell.y > top + height) break;
      const { device, x, y } = cell;
      const state = STATE_INDEX.get(device.state) ?? 0;
      const origin = ORIGINS.indexOf(device.origin);
      context.drawImage(image, state * box.step, origin * box.step, box.pixels, box.pixels, x, y, this.size, this.size);
      const age = now - device.changed;
      if (age < FLASH_MS && !this.still.matches) {
        moving = true;
        const grow = (age / FLASH_MS) * this.size * 0.5;
        context.globalAlpha = (1 - age / FLASH_MS) * 0.7;
        context.strokeStyle = accent;
        context.lineWidth = 2;
        context.beginPath();
        context.roundRect(x - grow, y - grow, this.size + grow * 2, this.size + grow * 2, 5 + grow / 2);
        context.stroke();
        context.globalAlpha = 1;
      }
      if (this.selected.has(device.key) || cell === focused) {
        context.strokeStyle = accent;
        context.lineWidth = cell === focused ? 2.5 : 1.75;
        context.beginPath();
        context.roundRect(x - 1.5, y - 1.5, this.size + 3, this.size + 3, Math.min(6, this.size / 3));
        context.stroke();
      }
    }
    if (this.lasso) {
      const { x0, y0, x1, y1 } = this.lasso;
      context.strokeStyle = accent;
      context.lineWidth = 1;
      context.setLineDash([4, 3]);
      context.strokeRect(Math.min(x0, x1), Math.min(y0, y1), Math.abs(x1 - x0), Math.abs(y1 - y0));
      context.setLineDash([]);
    }
    if (moving) this.dirty();
  }

  /** The cell below a pointer. @param {MouseEvent} event */
  #hit(event) {
    const box = this.element.getBoundingClientRect();
    const x = event.clientX - box.left;
    const y = event.clientY - box.top + this.element.scrollTop;
    for (let from = lowerBound(this.byRow, y - this.size); from < this.byRow.length; from++) {
      const cell = this.byRow[from];
      if (!cell || cell.y > y) break;
      if (x >= cell.x - 1 && x <= cell.x + this.size + 1 && y <= cell.y + this.size + 1) return { cell, x, y };
    }
    return { cell: null, x, y };
  }

  #pointer() {
    const element = this.element;
    element.addEventListener("pointerdown", (event) => {
      if (event.button !== 0 || event.pointerType === "touch") return;
      const { x, y } = this.#hit(event);
      this.start = { x0: x, y0: y, x1: x, y1: y };
    });
    element.addEventListener("pointermove", (event) => {
      const { cell, x, y } = this.#hit(event);
      if (this.start && Math.hypot(x - this.start.x0, y - this.start.y0) > 6) {
        if (!this.lasso) element.setPointerCapture(event.pointerId);
        this.lasso = Object.assign(this.start, { x1: x, y1: y });
        this.tip.hidden = true;
        this.dirty();
        return;
      }
      this.#tip(cell, event);
    });
    element.addEventListener("pointerleave", () => { this.tip.hidden = true; });
    element.addEventListener("pointerup", (event) => {
      const lasso = this.lasso;
      this.lasso = this.start = null;
      if (!lasso) return;
      this.swallow = true;
      const [left, right] = [Math.min(lasso.x0, lasso.x1), Math.max(lasso.x0, lasso.x1)];
      const [top, bottom] = [Math.min(lasso.y0, lasso.y1), Math.max(lasso.y0, lasso.y1)];
      const inside = this.cells.filter(({ x, y }) => x + this.size >= left && x <= right && y + this.size >= top && y <= bottom);
      if (!event.shiftKey) this.selected.clear();
      for (const cell of inside) this.selected.add(cell.device.key);
      this.#selected();
    });
    element.addEventListener("click", (event) => {
      if (this.swallow) { this.swallow = false; return; }
      const { cell } = this.#hit(event);
      if (!cell) {
        if (this.selected.size) { this.selected.clear(); this.#selected(); }
        return;
      }
      const index = this.cells.indexOf(cell);
      if (event.shiftKey && this.at >= 0) {
        for (const { device } of this.cells.slice(Math.min(this.at, index), Math.max(this.at, index) + 1)) this.selected.add(device.key);
        this.#selected();
      } else if (event.ctrlKey || event.metaKey) {
        this.#toggle(cell.device);
      } else {
        this.on.open?.(cell.device);
      }
      this.at = index;
      this.dirty();
    });
  }

  /** @param {Cell | null} cell @param {MouseEvent} event */
  #tip(cell, event) {
    if (!cell) { this.tip.hidden = true; return; }
    const { device } = cell;
    const taint = device.taints[0];
    this.tip.replaceChildren();
    const name = document.createElement("strong");
    name.textContent = seen(`${device.pool}/${device.name}`);
    this.tip.append(name, ` ${stateWord(device.state).toLowerCase()}`);
    if (taint) {
      const line = document.createElement("div");
      line.textContent = seen(`${taint.key}:${taint.effect}${taint.reason ? ` · ${taint.reason}` : ""}`);
      this.tip.append(line);
    }
    const box = this.element.getBoundingClientRect();
    this.tip.hidden = false;
    const left = Math.min(event.clientX - box.left + 14, box.width - this.tip.offsetWidth - 8);
    this.tip.style.left = `${Math.max(4, left)}px`;
    this.tip.style.top = `${event.clientY - box.top + this.element.scrollTop + 18}px`;
  }

  /** @param {Device} device */
  #toggle(device) {
    if (!this.selected.delete(device.key)) this.selected.add(device.key);
    this.#selected();
  }

  #selected() {
    this.on.select?.(this.selected);
    say(`${this.selected.size} devices selected`);
    this.dirty();
  }

  /** @param {KeyboardEvent} event */
  #key(event) {
    /** @type {Record<string, [number, number]>} */
    const moves = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1] };
    const cell = this.cells[this.at];
    const move = moves[event.key];
    if (move) {
      event.preventDefault();
      this.at = this.#next(cell, move);
      const next = this.cells[this.at];
      if (!next) return;
      const { device } = next;
      if (event.shiftKey) { this.selected.add(device.key); this.#selected(); }
      this.#reveal(next);
      say(`${device.pool}/${device.name}, ${stateWord(device.state)}${device.node ? `, node ${device.node}` : ""}`);
    } else if (cell && event.key === "Enter") {
      event.preventDefault();
      this.on.open?.(cell.device);
    } else if (cell && (event.key === " " || event.key === "x")) {
      event.preventDefault();
      this.#toggle(cell.device);
    } else if (event.key === "Escape" && this.selected.size) {
      this.selected.clear();
      this.#selected();
    }
    this.dirty();
  }

  /** The nearest cell in a direction: arrows move over what is seen, not over a list. @param {Cell | undefined} cell @param {[number, number]} move */
  #next(cell, [dx, dy]) {
    if (!cell) return this.cells.length ? 0 : -1;
    let best = this.at;
    let distance = Infinity;
    this.cells.forEach((other, at) => {
      const along = (other.x - cell.x) * dx + (other.y - cell.y) * dy;
      if (along <= 0) return;
      const across = Math.abs(other.x - cell.x) * Math.abs(dy) + Math.abs(other.y - cell.y) * Math.abs(dx);
      const far = along + across * 4;
      if (far < distance) { distance = far; best = at; }
    });
    return best;
  }

  /** @param {Cell} cell */
  #reveal({ y }) {
    const { scrollTop, clientHeight } = this.element;
    if (y < scrollTop + LABEL) this.element.scrollTop = y - LABEL - 8;
    else if (y + this.size > scrollTop + clientHeight) this.element.scrollTop = y + this.size - clientHeight + 12;
  }
}

/** The first of these cells that is not above `y`. @param {Cell[]} list @param {number} y */
function lowerBound(list, y) {
  let [low, high] = [0, list.length];
  while (low < high) {
    const middle = (low + high) >> 1;
    if ((list[middle]?.y ?? Infinity) >= y) high = middle; else low = middle + 1;
  }
  return low;
}

/** Names of nodes often differ in their ends alone: what is too long loses its middle. @param {CanvasRenderingContext2D} context @param {string} text @param {number} width */
function fit(context, text, width) {
  if (context.measureText(text).width <= width) return text;
  /** @param {number} chars */
  const cut = (chars) => `${text.slice(0, Math.ceil(chars / 2))}…${text.slice(text.length - Math.floor(chars / 2))}`;
  let [low, high] = [1, text.length];
  while (low < high) {
    const middle = Math.ceil((low + high) / 2);
    if (context.measureText(cut(middle)).width <= width) low = middle; else high = middle - 1;
  }
  return cut(low);
}

/** Every state with every origin, drawn once. @param {number} size @param {number} ratio @returns {Sprites} */
function sprites(size, ratio) {
  const pixels = Math.round(size * ratio);
  const step = pixels + 2;
  const image = document.createElement("canvas");
  image.width = step * STATES.length;
  image.height = step * ORIGINS.length;
  const context = image.getContext("2d");
  if (context) STATES.forEach(([state], column) => ORIGINS.forEach((origin, row) => {
    context.save();
    context.translate(column * step, row * step);
    context.scale(pixels / size, pixels / size);
    drawCell(context, state, size);
    if (size >= 13) drawOrigin(context, origin, size);
    context.restore();
  }));
  return { image, size, ratio, box: { pixels, step } };
}

/** A state has a colour and a shape of its own. @param {CanvasRenderingContext2D} context @param {State} state @param {number} size */
export function drawCell(context, state, size) {
  const style = getComputedStyle(document.documentElement);
  const hue = style.getPropertyValue(`--${state}`).trim();
  const mark = style.getPropertyValue("--mark").trim();
  const radius = Math.min(5, size / 4);
  const line = Math.max(1, size / 12);
  const middle = size / 2;
  /** @param {number} inset */
  const box = (inset) => { context.beginPath(); context.roundRect(inset, inset, size - inset * 2, size - inset * 2, radius); };
  context.fillStyle = hue;
  context.strokeStyle = state === "free" || state === "gone" ? hue : mark;
  context.lineWidth = line;
  context.lineCap = "round";
  /** @param {[number, number][]} points */
  const stroke = (...points) => {
    context.beginPath();
    points.forEach(([x, y], at) => (at ? context.lineTo(x * size, y * size) : context.moveTo(x * size, y * size)));
    context.stroke();
  };
  // Thousands of rings flicker before the eyes; a pale cell is as free.
  if (state === "free" && size < SHAPE_PIXELS_MIN) { context.globalAlpha = 0.4; box(0); context.fill(); context.globalAlpha = 1; return; }
  if (state === "free") { context.fillStyle = style.getPropertyValue("--free-fill").trim(); box(line / 2); context.fill(); context.stroke(); return; }
  if (state === "gone") { context.setLineDash([size / 6, size / 8]); box(line / 2); context.stroke(); context.setLineDash([]); stroke([0.34, 0.34], [0.66, 0.66]); stroke([0.66, 0.34], [0.34, 0.66]); return; }
  box(0);
  context.fill();
  context.lineWidth = Math.max(1, size / 9);
  if (size < SHAPE_PIXELS_MIN) {
    // No room for a shape: a corner left out tells states apart in print and for the colour-blind.
    if (state !== "inuse") { context.clearRect(size - size / 3, 0, size / 3, size / 3); }
    return;
  }
  if (state === "suspect") { context.fillStyle = mark; context.beginPath(); context.arc(middle, middle, size / 8, 0, 7); context.fill(); }
  if (state === "noschedule") stroke([0.3, 0.7], [0.7, 0.3]);
  if (state === "draining") { stroke([0.5, 0.28], [0.5, 0.7]); stroke([0.32, 0.54], [0.5, 0.72], [0.68, 0.54]); }
  if (state === "repairing") { stroke([0.5, 0.3], [0.5, 0.7]); stroke([0.3, 0.5], [0.7, 0.5]); }
  if (state === "probation") { context.beginPath(); context.arc(middle, middle, size / 5, 0, 7); context.stroke(); }
}

/** A corner says what set the taint: driver top left, rule or patch top right, policy bottom right, person bottom left. @param {CanvasRenderingContext2D} context @param {Origin} origin @param {number} size */
function drawOrigin(context, origin, size) {
  /** @type {Record<Exclude<Origin, "none">, [number, number, number, number]>} */
  const corners = { driver: [0, 0, 1, 1], rule: [1, 0, -1, 1], patch: [1, 0, -1, 1], policy: [1, 1, -1, -1], person: [0, 1, 1, -1] };
  if (origin === "none") return;
  const [x, y, dx, dy] = corners[origin];
  context.beginPath();
  context.roundRect(0, 0, size, size, Math.min(5, size / 4));
  context.clip();
  const reach = size * 0.28;
  context.fillStyle = getComputedStyle(document.documentElement).getPropertyValue("--corner").trim();
  context.beginPath();
  context.moveTo(x * size, y * size);
  context.lineTo(x * size + dx * reach, y * size);
  context.lineTo(x * size, y * size + dy * reach);
  context.closePath();
  context.fill();
}
