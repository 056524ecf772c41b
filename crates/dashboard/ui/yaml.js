// YAML of plain data: written for kubectl, and read as people write rules: block and flow collections, quoted and plain scalars, comments,
// several documents. Anchors, tags and block scalars are refused by name.

/** A rule has 30 lines. */
const TEXT_CHARS_MAX = 1 << 20;
const DEPTH_MAX = 32;

/** Says in which line something is wrong. */
export class YamlError extends Error {
  constructor(line, message) {
    super(`Line ${line}: ${message}`);
    this.line = line;
  }
}

const KEYWORDS = /^(true|false|null|yes|no|on|off|y|n|~)$/i;

/** YAML of plain data. */
export function yaml(value, indent = "") {
  const scalar = (one) => (typeof one === "string" ? (/^[A-Za-z][A-Za-z0-9./_-]*$/.test(one) && !KEYWORDS.test(one) ? one : JSON.stringify(one)) : String(one));
  if (Array.isArray(value)) return value.map((one) => `${indent}- ${yaml(one, `${indent}  `).trimStart()}`).join("\n");
  if (value && typeof value === "object") {
    return Object.entries(value).map(([key, one]) => (one && typeof one === "object"
      ? (Object.keys(one).length ? `${indent}${scalar(key)}:\n${yaml(one, `${indent}  `)}` : `${indent}${scalar(key)}: ${Array.isArray(one) ? "[]" : "{}"}`) : `${indent}${scalar(key)}: ${scalar(one)}`)).join("\n");
  }
  return `${indent}${scalar(value)}`;
}

/** Every document of a text. */
export function parseYaml(text) {
  if (text.length > TEXT_CHARS_MAX) throw new YamlError(1, "the text is too long");
  const documents = [[]];
  text.split(/\r?\n/).forEach((raw, at) => {
    if (/^---(\s|$)/.test(raw)) { documents.push([]); return; }
    const line = withoutComment(raw);
    if (!line.trim()) return;
    if (/^ *\t/.test(line)) throw new YamlError(at + 1, "indent with spaces, not with tabs");
    documents.at(-1).push({ at: at + 1, indent: line.search(/\S/), text: line.trim() });
  });
  return documents.filter((lines) => lines.length).map((lines) => {
    const cursor = { lines, next: 0 };
    const value = block(cursor, lines[0].indent, 0);
    if (cursor.next < lines.length) throw new YamlError(lines[cursor.next].at, "is not indented like the lines around it");
    return value;
  });
}

/** A `#` begins a comment at the start of a line or after a space, outside of quotes. */
function withoutComment(line) {
  let quote = "";
  for (let at = 0; at < line.length; at++) {
    const [one, before] = [line[at], line[at - 1] ?? " "];
    if (quote) {
      if (one === "\\" && quote === '"') at++;
      else if (one === quote) quote = "";
    } else if ((one === '"' || one === "'") && /[\s[{,:]/.test(before)) quote = one;
    else if (one === "#" && /\s/.test(before)) return line.slice(0, at);
  }
  return line;
}

/** A collection whose lines begin at this column, or a scalar of one line. */
function block(cursor, indent, depth) {
  const line = cursor.lines[cursor.next];
  if (depth > DEPTH_MAX) throw new YamlError(line.at, "is nested too deeply");
  if (isItem(line.text)) return sequence(cursor, indent, depth);
  if (keyOf(line.text)) return mapping(cursor, indent, depth);
  cursor.next++;
  return scalar(line.text, line.at);
}

const isItem = (text) => text === "-" || text.startsWith("- ");

/** `[key, rest]` of `key: rest`, or null. */
function keyOf(text) {
  const quoted = /^("(?:[^"\\]|\\.)*"|'(?:[^']|'')*')\s*:(?:\s+(.*))?$/.exec(text);
  if (quoted) return [scalar(quoted[1], 0), quoted[2] ?? ""];
  if (/^["'[{]/.test(text)) return null;
  const plain = /^(.*?)\s*:(?:\s+(.*))?$/.exec(text);
  return plain ? [plain[1], plain[2] ?? ""] : null;
}

function mapping(cursor, indent, depth) {
  const found = Object.create(null);
  for (let line; (line = cursor.lines[cursor.next]) && line.indent === indent && !isItem(line.text);) {
    const entry = keyOf(line.text);
    if (!entry) throw new YamlError(line.at, "is not written as `key: value`");
    const [key, rest] = entry;
    if (key in found) throw new YamlError(line.at, `${key} is there twice`);
    cursor.next++;
    found[key] = rest ? scalar(rest, line.at) : nested(cursor, indent, depth, true);
  }
  return found;
}

function sequence(cursor, indent, depth) {
  const found = [];
  for (let line; (line = cursor.lines[cursor.next]) && line.indent === indent && isItem(line.text);) {
    const rest = line.text.slice(1).trimStart();
    if (!rest) { cursor.next++; found.push(nested(cursor, indent, depth, false)); continue; }
    // What follows the dash is a block of its own that begins at its column.
    cursor.lines[cursor.next] = { at: line.at, indent: indent + line.text.length - rest.length, text: rest };
    found.push(block(cursor, indent + line.text.length - rest.length, depth + 1));
  }
  return found;
}

/** What stands below a key or a dash; a list may stand at the column of its key. */
function nested(cursor, indent, depth, mayAlign) {
  const line = cursor.lines[cursor.next];
  if (line && (line.indent > indent || (mayAlign && line.indent === indent && isItem(line.text)))) return block(cursor, line.indent, depth + 1);
  return null;
}

function scalar(text, at) {
  if (/^[[{]/.test(text)) return flow(text, at);
  if (text.startsWith('"')) {
    try { return JSON.parse(text); } catch { throw new YamlError(at, "a text in double quotes is not closed, or has something after it"); }
  }
  if (text.startsWith("'")) {
    if (!/^'(?:[^']|'')*'$/.test(text)) throw new YamlError(at, "a text in single quotes is not closed, or has something after it");
    return text.slice(1, -1).replaceAll("''", "'");
  }
  if (/^[&*!|>%@`]/.test(text)) throw new YamlError(at, `${text[0]} is not understood here: write the value in quotes, on one line`);
  if (/: /.test(text) || text.endsWith(":")) throw new YamlError(at, "a value with a colon is written in quotes");
  if (/^(null|~)$/i.test(text)) return null;
  if (/^(true|false)$/i.test(text)) return text.toLowerCase() === "true";
  return /^-?(0|[1-9]\d*)(\.\d+)?([eE][+-]?\d+)?$/.test(text) ? Number(text) : text;
}

/** `{a: 1, b: [2, "c"]}`. */
function flow(text, at) {
  let next = 0;
  const wrong = () => new YamlError(at, "brackets or braces are not closed, or something stands after them");
  const space = () => { while (/\s/.test(text[next] ?? "")) next++; };
  const word = (end) => {
    space();
    const quoted = /^("(?:[^"\\]|\\.)*"|'(?:[^']|'')*')/.exec(text.slice(next));
    const found = quoted ? quoted[0] : end.exec(text.slice(next))[0];
    next += found.length;
    space();
    return scalar(found.trim(), at);
  };
  const value = (depth) => {
    space();
    if (depth > DEPTH_MAX) throw new YamlError(at, "is nested too deeply");
    const open = text[next];
    if (open !== "[" && open !== "{") return word(/^[^,\]}]*/);
    const close = open === "[" ? "]" : "}";
    const found = open === "[" ? [] : Object.create(null);
    next++;
    for (space(); text[next] !== close; space()) {
      if (next >= text.length) throw wrong();
      if (open === "[") found.push(value(depth + 1));
      else {
        const key = word(/^[^:,\]}]*/);
        if (text[next++] !== ":") throw wrong();
        found[key] = value(depth + 1);
      }
      space();
      if (text[next] === ",") next++;
      else if (text[next] !== close) throw wrong();
    }
    next++;
    return found;
  };
  const found = value(0);
  space();
  if (next < text.length) throw wrong();
  return found;
}
