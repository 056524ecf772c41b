// The page words waits as kubectl device does: `waits.json` has what the function says that all commands use.

import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { test } from "node:test";
import { evictionWait, incidentWait, waitLine } from "../../ui/waits.js";

const cases = JSON.parse(readFileSync(new URL("./waits.json", import.meta.url), "utf8"));

test("every wait has the words of kubectl device check", () => {
  assert.ok(cases.length > 20);
  for (const { incident, condition, line, needsPerson } of cases) {
    const wait = incident ? incidentWait(incident) : evictionWait(condition);
    assert.deepEqual([wait && waitLine(wait), wait?.needsPerson], [line, needsPerson], JSON.stringify(incident ?? condition));
  }
});

test("an incident that is over waits for nothing", () => assert.equal(incidentWait({ ...cases.find((one) => one.incident).incident, status: { stage: "Cleared" } }), null));
