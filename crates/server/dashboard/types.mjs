// Types of the objects that the page reads, from the OpenAPI documents of the server: `node types.mjs < documents.json > ui/types/api.d.ts`.
// The input is one JSON object, a document by the path of its group version. A test of `testkit` runs this and compares.

import { readFileSync } from "node:fs";
import { pathToFileURL } from "node:url";

/** The kinds that the page reads, each in the newest version that it asks for, with the name that it gets. */
export const ROOTS = [
  ["core.v1.Event", "Event"],
  ["core.v1.Node", "Node"],
  ["core.v1.Pod", "Pod"],
  ["resource.v1.DeviceClass", "DeviceClass"],
  ["resource.v1.ResourceClaim", "ResourceClaim"],
  ["resource.v1alpha3.DeviceTaintRule", "DeviceTaintRule"],
  ["resource.v1alpha3.ResourceSlice", "ResourceSlice"],
  ["resource.v1alpha3.ResourceSlicePatch", "ResourceSlicePatch"],
  // Slices of this version keep most of a device in `basic`.
  ["resource.v1beta1.Device", "BetaDevice"],
  ["authentication.v1.SelfSubjectReview", "SelfSubjectReview"],
  ["authorization.v1.SelfSubjectAccessReview", "SelfSubjectAccessReview"],
  ["meta.v1.Status", "Status"],
  ["lazaret.v1alpha1.DeviceIncident", "DeviceIncident"],
  ["lazaret.v1alpha1.DisruptionGuard", "DisruptionGuard"],
];

/** Of types that would bring a hundred others along, the fields that the page reads. */
export const FIELDS = {
  "core.v1.Node": ["apiVersion", "kind", "metadata"],
  "core.v1.PodResourceClaim": ["name", "resourceClaimName"],
  "core.v1.PodSpec": ["nodeName", "resourceClaims"],
  "core.v1.PodStatus": ["conditions", "phase", "resourceClaimStatuses"],
  "authentication.v1.UserInfo": ["username"],
  "authorization.v1.ResourceAttributes": ["group", "resource", "verb"],
  "authorization.v1.SelfSubjectAccessReviewSpec": ["resourceAttributes"],
  "meta.v1.ListMeta": ["continue", "remainingItemCount", "resourceVersion"],
  "meta.v1.ObjectMeta": ["annotations", "creationTimestamp", "deletionGracePeriodSeconds", "deletionTimestamp", "generation", "labels", "name", "namespace", "ownerReferences",
    "resourceVersion", "uid"],
  "resource.v1.AllocationResult": ["devices"],
  "resource.v1.Device": ["attributes", "capacity", "name", "nodeName", "taints"],
  "resource.v1.DeviceAllocationResult": ["results"],
  "resource.v1.DeviceCapacity": ["value"],
  "resource.v1.DeviceClass": ["apiVersion", "kind", "metadata"],
  "resource.v1.DeviceRequestAllocationResult": ["device", "driver", "pool", "request"],
  "resource.v1.ResourceClaim": ["apiVersion", "kind", "metadata", "status"],
  "resource.v1.ResourceClaimStatus": ["allocation", "reservedFor"],
  "resource.v1alpha3.DeviceTaintRuleSpec": ["deviceSelector", "taint"],
  "resource.v1alpha3.NullableDeviceCapacity": ["null", "value"],
  "resource.v1alpha3.ResourceSliceSpec": ["devices", "driver", "nodeName", "pool", "taints"],
  "resource.v1beta1.BasicDevice": ["attributes", "capacity", "nodeName", "taints"],
  "resource.v1beta1.DeviceCapacity": ["value"],
};

/** `io.k8s.api.resource.v1.Device` as `resource.v1.Device`. */
const short = (name) => name.split(".").slice(-3).join(".");
const quoted = (name) => (/^[A-Za-z_$][\w$]*$/.test(name) ? name : JSON.stringify(name));

/** The text of the declarations. Throws where a kind or a field is missing: the page would read something that is not served. */
export function declarations(documents) {
  const schemas = new Map();
  for (const { components } of Object.values(documents)) {
    for (const [name, schema] of Object.entries(components.schemas)) schemas.set(short(name), schema);
  }
  const names = new Map(ROOTS);
  const taken = new Set(names.values());
  const queue = ROOTS.map(([name]) => name);

  /** Two versions of a type have two names. */
  function nameOf(full) {
    if (!names.has(full)) {
      const [, version, name] = full.split(".");
      const free = taken.has(name) ? `${name}${version[0].toUpperCase()}${version.slice(1)}` : name;
      if (taken.has(free)) throw new Error(`two types would be called ${free}`);
      names.set(full, free);
      taken.add(free);
      queue.push(full);
    }
    return names.get(full);
  }

  function typeOf(schema, indent) {
    const reference = schema.$ref ?? schema.allOf?.[0]?.$ref;
    if (reference) return nameOf(short(reference.split("/").at(-1)));
    if (schema["x-kubernetes-int-or-string"] || schema.format === "int-or-string") return "number | string";
    if (schema["x-kubernetes-preserve-unknown-fields"] && !schema.properties) return "unknown";
    switch (schema.type) {
      case "string": return "string";
      case "boolean": return "boolean";
      case "integer": case "number": return "number";
      case "array": return `Array<${typeOf(schema.items, indent)}>`;
      case "object": return object(schema, indent);
      default: throw new Error(`no type for ${JSON.stringify(schema)}`);
    }
  }

  function object(schema, indent) {
    if (schema.additionalProperties) return `Record<string, ${typeOf(schema.additionalProperties, indent)}>`;
    if (!schema.properties) return "Record<string, unknown>";
    return fields(schema, Object.keys(schema.properties), indent);
  }

  function fields(schema, chosen, indent) {
    const inner = `${indent}  `;
    const lines = [...chosen].sort().map((field) => {
      const found = schema.properties?.[field];
      if (!found) throw new Error(`there is no field ${field}`);
      return `${inner}${quoted(field)}${schema.required?.includes(field) ? "" : "?"}: ${typeOf(found, inner)};\n`;
    });
    return `{\n${lines.join("")}${indent}}`;
  }

  const found = new Map();
  for (let full; (full = queue.shift());) {
    const schema = schemas.get(full);
    if (!schema) throw new Error(`there is no ${full}`);
    const chosen = FIELDS[full] ?? Object.keys(schema.properties ?? {});
    found.set(names.get(full), `export interface ${names.get(full)} ${fields(schema, chosen, "")}\n`);
  }
  const sorted = [...found].sort(([a], [b]) => (a < b ? -1 : 1)).map(([, text]) => text);
  return `// Written by types.mjs from the OpenAPI documents of the server; changes by hand are lost.\n\n${sorted.join("\n")}`;
}

if (import.meta.url === pathToFileURL(process.argv[1] ?? "").href) process.stdout.write(declarations(JSON.parse(readFileSync(0, "utf8"))));
