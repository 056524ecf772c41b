// YAML of plain data: written for kubectl, and read as people write rules: block and flow collections, quoted and plain scalars, comments,
// several documents. Anchors, tags and block scalars are refused by name.

/**
 * A line without its comment: its number, its column and its text.
 * @typedef {{ at: number, indent: number, text: string }} Line
 * @typedef {{ lines: Line[], next: number }} Cursor
 */

/** A rule has 30 lines. */
const TEXT_CHARS_MAX = 1 << 20;
const DEPTH_MAX = 32;

/** Says in which line something is wrong. */
export class YamlError extends Error {
  /** @param {number} line @param {string} message */
  constructor(line, message) {
    super(`Line ${line}: ${message}`);
    this.line = line;
  }
}

const KEYWORDS = /^(true|false|null|yes|no|on|off|y|n|~)$/i;

/** @param {unknown} one */
const written = (one) => (typeof one === "string" ? (/^[A-Za-z][A-Za-z0-9./_-]*$/.test(one) && !KEYWORDS.test(one) ? one : JSON.stringify(one)) : String(one));

/** YAML of plain data. @param {unknown} value @returns {string} */
export function yaml(value, indent = "") {
  if (typeof value !== "object" || value === null) return `${indent}${written(value)}`;
  if (Object.keys(value).length === 0) return `${indent}${Array.isArray(value) ? "[]" : "{}"}`;
  if (Array.isArray(value)) return value.map((one) => `${indent}- ${yaml(one, `${indent}  `).trimStart()}`).join("\n");
  return Object.entries(value).map(([key, one]) => {
    const isNested = typeof one === "object" && one !== null && Object.keys(one).length > 0;
    return `${indent}${written(key)}:${isNested ? `\n${yaml(one, `${indent}  `)}` : ` ${yaml(one)}`}`;
  }).join("\n");
}

/** Every document of a text. @param {string} text @returns {unknown[]} */
export function parseYaml(text) {
  if (text.length > TEXT_CHARS_MAX) throw new YamlError(1, "the text is too long");
  /** @type {Line[]} */
  let lines = [];
  const documents = [lines];
  text.split(/\r?\n/).forEach((raw, at) => {
    if (/^---(\s|$)/.test(raw)) { documents.push((lines = [])); return; }
    const line = withoutComment(raw);
    if (!line.trim()) return;
    if (/^ *\t/.test(line)) throw new YamlError(at + 1, "indent with spaces, not with tabs");
    lines.push({ at: at + 1, indent: line.search(/\S/), text: line.trim() });
  });
  return documents.flatMap((lines) => {
    const [first] = lines;
    if (!first) return [];
    const cursor = { lines, next: 0 };
    const value = block(cursor, first, 0);
    const rest = lines[cursor.next];
    if (rest) throw new YamlError(rest.at, "is not indented like the lines around it");
    return [value];
  });
}

/** A `#` begins a comment at the start of a line or after a space, outside of quotes. @param {string} line */
function withoutComment(line) {
  let quote = "";
  for (let at = 0; at < line.length; at++) {
    const [one, before] = [line[at], line[at - 1] ?? " "];
    if (quote) {
      // An escaped quote, and one that is doubled.
      if ((one === "\\" && quote === '"') || (one === "'" && quote === "'" && line[at + 1] === "'")) at++;
      else if (one === quote) quote = "";
    } else if ((one === '"' || one === "'") && /[\s[{,:]/.test(before)) quote = one;
    else if (one === "#" && /\s/.test(before)) return line.slice(0, at);
  }
  return line;
}

/** A collection whose lines begin at the column of this line, the next one, or a scalar of one line. @param {Cursor} cursor @param {Line} line @param {number} depth @returns {unknown} */
function block(cursor, line, depth) {
  if (depth > DEPTH_MAX) throw new YamlError(line.at, "is nested too deeply");
  if (isItem(line.text)) return sequence(cursor, line.indent, depth);
  if (keyOf(line)) return mapping(cursor, line.indent, depth);
  cursor.next++;
  return scalar(line.text, line.at);
}

/** @param {string} text */
const isItem = (text) => text === "-" || text.startsWith("- ");

/** Key and rest of `key: rest`, or null. @param {Line} line */
function keyOf({ text, at }) {
  const quoted = /^("(?:[^"\\]|\\.)*"|'(?:[^']|'')*')\s*:(?:\s+(.*))?$/.exec(text);
  if (quoted) return { key: String(scalar(quoted[1] ?? "", at)), rest: quoted[2] ?? "" };
  if (/^["'[{]/.test(text)) return null;
  const plain = /^(.*?)\s*:(?:\s+(.*))?$/.exec(text);
  return plain ? { key: plain[1] ?? "", rest: plain[2] ?? "" } : null;
}

/** @param {Cursor} cursor @param {number} indent @param {number} depth */
function mapping(cursor, indent, depth) {
  /** @type {Record<string, unknown>} */
  const found = Object.create(null);
  for (let line; (line = cursor.lines[cursor.next]) && line.indent === indent && !isItem(line.text);) {
    const entry = keyOf(line);
    if (!entry) throw new YamlError(line.at, "is not written as `key: value`");
    const { key, rest } = entry;
    if (key in found) throw new YamlError(line.at, `${key} is there twice`);
    cursor.next++;
    found[key] = rest ? scalar(rest, line.at) : nested(cursor, indent, depth, true);
  }
  return found;
}

/** @param {Cursor} cursor @param {number} indent @param {number} depth */
function sequence(cursor, indent, depth) {
  /** @type {unknown[]} */
  const found = [];
  for (let line; (line = cursor.lines[cursor.next]) && line.indent === indent && isItem(line.text);) {
    const rest = line.text.slice(1).trimStart();
    if (!rest) { cursor.next++; found.push(nested(cursor, indent, depth, false)); continue; }
    // What follows the dash is a block of its own that begins at its column.
    const inner = { at: line.at, indent: indent + line.text.length - rest.length, text: rest };
    cursor.lines[cursor.next] = inner;
    found.push(block(cursor, inner, depth + 1));
  }
  return found;
}

/** The value below a key or a dash; a list may stand at the column of its key. @param {Cursor} cursor @param {number} indent @param {number} depth @param {boolean} mayAlign @returns {unknown} */
function nested(cursor, indent, depth, mayAlign) {
  const line = cursor.lines[cursor.next];
  if (line && (line.indent > indent || (mayAlign && line.indent === indent && isItem(line.text)))) return block(cursor, line, depth + 1);
  return null;
}

/** @param {string} text @param {number} at @returns {unknown} */
function scalar(text, at) {
  if (/^[[{]/.test(text)) return flow(text, at);
  if (text.startsWith('"')) {
    try { return JSON.parse(text); } catch { throw new YamlError(at, "a text in double quotes is not closed, or has something after it"); }
  }
  if (text.startsWith("'")) {
    if (!/^'(?:[^']|'')*'$/.test(text)) throw new YamlError(at, "a text in single quotes is not closed, or has something after it");
    return text.slice(1, -1).replaceAll("''", "'");
  }
  if (/^[&*!|>%@\x60]/.test(text)) throw new YamlError(at, `${text[0]} is not understood here: write the value in quotes, on one line`);
  if (/: /.test(text) || text.endsWith(":")) throw new YamlError(at, "a value with a colon is written in quotes");
  if (/^(null|~)$/i.test(text)) return null;
  if (/^(true|false)$/i.test(text)) return text.toLowerCase() === "true";
  return /^-?(0|[1-9]\d*)(\.\d+)?([eE][+-]?\d+)?$/.test(text) ? Number(text) : text;
}

/** `{a: 1, b: [2, "c"]}`. @param {string} text @param {number} at */
function flow(text, at) {
  let next = 0;
  const wrong = () => new YamlError(at, "brackets or braces are not closed, or something stands after them");
  const space = () => { while (/\s/.test(text[next] ?? "")) next++; };
  /** @param {RegExp} end */
  const word = (end) => {
    space();
    const rest = text.slice(next);
    const found = (/^("(?:[^"\\]|\\.)*"|'(?:[^']|'')*')/.exec(rest) ?? end.exec(rest))?.[0] ?? "";
    next += found.length;
    space();
    return scalar(found.trim(), at);
  };
  /** Everything up to the bracket that closes this. @param {string} close @param {() => void} entry */
  const each = (close, entry) => {
    next++;
    for (space(); text[next] !== close; space()) {
      if (next >= text.length) throw wrong();
      entry();
      space();
      if (text[next] === ",") next++;
      else if (text[next] !== close) throw wrong();
    }
    next++;
  };
  /** @param {number} depth @returns {unknown} */
  const value = (depth) => {
    space();
    if (depth > DEPTH_MAX) throw new YamlError(at, "is nested too deeply");
    if (text[next] === "[") {
      /** @type {unknown[]} */
      const list = [];
      each("]", () => { list.push(value(depth + 1)); });
      return list;
    }
    if (text[next] !== "{") return word(/^[^,\]}]*/);
    /** @type {Record<string, unknown>} */
    const map = Object.create(null);
    each("}", () => {
      const key = String(word(/^[^:,\]}]*/));
      if (text[next++] !== ":") throw wrong();
      if (key in map) throw new YamlError(at, `${key} is there twice`);
      map[key] = value(depth + 1);
    });
    return map;
  };
  const found = value(0);
  space();
  if (next < text.length) throw wrong();
  return found;
}
