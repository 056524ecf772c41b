// The generator of types: what it says of a document, and what it refuses.

import assert from "node:assert/strict";
import { test } from "node:test";
import { FIELDS, ROOTS, declarations } from "../../types.mjs";

/** Documents in which every wanted type has the fields that are wanted of it. */
function documents() {
  const schemas = Object.fromEntries([...ROOTS.map(([name]) => name), ...Object.keys(FIELDS)].map((name) => [`x.${name}`,
    { type: "object", properties: Object.fromEntries((FIELDS[name] ?? ["kind"]).map((field) => [field, { type: "string" }])) }]));
  return { a: { components: { schemas } } };
}
const of = (properties, more = {}, others = {}) => {
  const all = documents();
  all.a.components.schemas["x.core.v1.Event"] = { type: "object", properties, ...more };
  Object.assign(all.a.components.schemas, others);
  return declarations(all);
};

test("each form of a field has its type", () => {
  const text = of({
    a: { type: "string" }, b: { type: "integer" }, c: { type: "boolean" }, d: { type: "array", items: { type: "number" } }, e: { type: "object", additionalProperties: { type: "string" } },
    f: { type: "object", "x-kubernetes-preserve-unknown-fields": true }, g: { type: "string", format: "int-or-string" }, h: { type: "object" }, "i-j": { type: "object", properties: { k: { type: "string" } }, required: ["k"] },
  }, { required: ["b"] });
  for (const line of ["a?: string;", "b: number;", "c?: boolean;", "d?: Array<number>;", "e?: Record<string, string>;", "f?: unknown;", "g?: number | string;", "h?: Record<string, unknown>;", '"i-j"?: {', "k: string;"]) assert.ok(text.includes(`  ${line}\n`), line);
});

test("two versions of a type have two names", () => {
  const reference = (name) => ({ allOf: [{ $ref: `#/components/schemas/x.${name}` }] });
  const text = of({ a: reference("g.v1.Thing"), b: reference("g.v2.Thing") }, {}, { "x.g.v1.Thing": { properties: { one: { type: "string" } } }, "x.g.v2.Thing": { properties: { two: { type: "string" } } } });
  assert.ok(text.includes("a?: Thing;") && text.includes("b?: ThingV2;") && /interface ThingV2 \{\n {2}two/.test(text), text);
});

test("what is not served is no type", () => {
  assert.throws(() => declarations({ a: { components: { schemas: {} } } }), /there is no core\.v1\.Event/);
  const lacking = documents();
  delete lacking.a.components.schemas["x.core.v1.PodStatus"];
  lacking.a.components.schemas["x.core.v1.Pod"].properties.status = { $ref: "#/components/schemas/x.core.v1.PodStatus" };
  assert.throws(() => declarations(lacking), /there is no core\.v1\.PodStatus/);
  const renamed = documents();
  delete renamed.a.components.schemas["x.resource.v1.ResourceClaim"].properties.status;
  assert.throws(() => declarations(renamed), /no field status/);
});
