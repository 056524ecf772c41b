// YAML as people write rules.

import assert from "node:assert/strict";
import { test } from "node:test";
import { YamlError, parseYaml, yaml } from "../../ui/yaml.js";
import { random } from "./support.js";

const plain = (value) => JSON.parse(JSON.stringify(value));

for (const [text, ...expected] of [
  ["", ...[]],
  ["# nothing\n---\n", ...[]],
  ["a: 1", { a: 1 }],
  ["a:\n  b: [1, 'x', \"y\", {c: true}]\n", { a: { b: [1, "x", "y", { c: true }] } }],
  ["a:\n- 1\n- b: 2\n  c: 3\n", { a: [1, { b: 2, c: 3 }] }],
  ["a: x # comment\nb: 'it''s # not'\n", { a: "x", b: "it's # not" }],
  ["a: ~\nb: null\nc:\nd: ''\n", { a: null, b: null, c: null, d: "" }],
  ["a: 007\nb: 1.5\nc: -2e3\nd: 1_000\n", { a: "007", b: 1.5, c: -2000, d: "1_000" }],
  ["a: yes\nb: True\nc: off\n", { a: "yes", b: true, c: "off" }],
  ["expression: device.driver == \"a\"", { expression: 'device.driver == "a"' }],
  ["\"a b\": 1\n'c': 2\n", { "a b": 1, c: 2 }],
  ["a: 1\n---\nb: 2\n--- # third\nc: 3\n", { a: 1 }, { b: 2 }, { c: 3 }],
  ["a: 1\r\nb:\r\n  c: 2\r\n", { a: 1, b: { c: 2 } }],
  ["- - 1\n  - 2\n- 3\n", [[1, 2], 3]],
  ["__proto__: {x: 1}\nconstructor: 2\n", JSON.parse('{"__proto__":{"x":1},"constructor":2}')],
  ["- {}\n- []\n-\n", [{}, [], null]],
]) test(`reads ${JSON.stringify(text)}`, () => assert.deepEqual(plain(parseYaml(text)), expected));

for (const [line, text, words] of [
  [2, "a: 1\na: 2\n", /there twice/], [1, "a: {b: 1, b: 2}", /there twice/], [2, "a:\n\tb: 1\n", /tabs/], [2, "a: 1\nb\n", /key: value/],
  [3, "a:\n    b: 1\n  c: 2\n", /indented/], [1, 'a: "open', /double quotes/], [1, "a: 'open", /single quotes/], [1, "a: 'x' y", /single quotes/],
  [1, "a: [1, 2", /closed/], [1, "a: {b: 1]", /closed/], [1, "a: [1] 2", /after them/], [1, "a: &anchor 1", /not understood/], [1, "a: *alias", /not understood/],
  [1, "a: !!str 1", /not understood/], [1, "a: |\n  text\n", /not understood/], [1, "a: b: c", /colon/], [2, "x: 1\n\"\\x\": 1", /double quotes/],
  [1, `a: ${"[".repeat(100)}`, /nested/], [34, Array.from({ length: 60 }, (_, at) => `${" ".repeat(at)}a:`).join("\n"), /nested/], [1, "a".repeat((1 << 20) + 1), /too long/],
]) {
  test(`line ${line} is wrong: ${JSON.stringify(text.slice(0, 40))}`, () => assert.throws(() => parseYaml(text), (error) => {
    assert.ok(error instanceof YamlError, String(error));
    assert.match(error.message, words);
    assert.equal(error.line, line);
    return true;
  }));
}

/** Plain data of any shape. */
function anything({ below, pick, chance }, depth = 0) {
  const texts = ["", "a", "true", "null", "~", "1", "1.5", "-", "- a", "a: b", "a #b", "#", "'", '"', "\\", "[x", "{", "ü\n\t", "y", "No", "a/b.c_d-e", " lead", "trail ", "@", "`", "---"];
  const scalar = () => pick([() => pick(texts), () => below(1_000) - 500, () => below(1_000) / 8, () => chance(0.5), () => null])();
  if (depth > 3 || chance(0.4)) return scalar();
  if (chance(0.5)) return Array.from({ length: below(4) }, () => anything({ below, pick, chance }, depth + 1));
  return Object.fromEntries(Array.from({ length: below(4) }, () => [pick(texts.filter(Boolean)), anything({ below, pick, chance }, depth + 1)]));
}

test("what is written is read as it was", () => {
  for (let seed = 1; seed <= 3_000; seed++) {
    const value = anything(random(seed));
    const text = yaml(value);
    assert.deepEqual(plain(parseYaml(text)), [value], `seed ${seed}\n${text}`);
  }
});

test("anything that is typed is read or refused in words", () => {
  const parts = ["a", ": ", ":", "\n", "  ", "- ", "-", "[", "]", "{", "}", ",", "'", '"', "#", " #", "\\", "1", "|", "---", "\t", "é", "__proto__"];
  for (let seed = 1; seed <= 5_000; seed++) {
    const { below, pick } = random(seed);
    const text = Array.from({ length: below(24) }, () => pick(parts)).join("");
    try { parseYaml(text); } catch (error) { assert.ok(error instanceof YamlError && error.line >= 1, `seed ${seed}: ${JSON.stringify(text)}: ${error}`); }
  }
});
