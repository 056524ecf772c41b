// How waits end. Written by the tests of kubectl device, from the table that all commands use: UPDATE_WAITS=1.

/** @import { WaitRow } from "./waits.js" */

/** @type {WaitRow[]} */
export const ROWS = [
  {"ends":"it goes on when it is approved","incident":false,"needsPerson":true,"orphan":false,"reason":"Held","says":"","stage":""},
  {"ends":"correct the deviceSelector of DisruptionGuard {guard}","incident":false,"needsPerson":true,"orphan":false,"reason":"Paused","says":" is not understood: ","stage":""},
  {"ends":"kubectl device resume {guard}","incident":false,"needsPerson":true,"orphan":false,"reason":"Paused","says":"","stage":""},
  {"ends":"kubectl device guard reset {guard} --reason TEXT","incident":false,"needsPerson":true,"orphan":false,"reason":"Breaker","says":"","stage":""},
  {"ends":"it goes on when a window opens","incident":false,"needsPerson":false,"orphan":false,"reason":"Window","says":"","stage":""},
  {"ends":"it goes on when there is room for its replacement","incident":false,"needsPerson":false,"orphan":false,"reason":"Capacity","says":"","stage":""},
  {"ends":"it goes on when the other pods of its group can leave","incident":false,"needsPerson":false,"orphan":false,"reason":"Group","says":"","stage":""},
  {"ends":"it goes on when the disruption budget permits it","incident":false,"needsPerson":false,"orphan":false,"reason":"Budget","says":"","stage":""},
  {"ends":"it goes on when the server permits it","incident":false,"needsPerson":false,"orphan":false,"reason":"Refused","says":"","stage":""},
  {"ends":"it goes on when the finalizer is removed","incident":false,"needsPerson":false,"orphan":false,"reason":"Finalizer","says":"","stage":""},
  {"ends":"this version does not know how it ends","incident":false,"needsPerson":false,"orphan":false,"reason":null,"says":"","stage":""},
  {"ends":"correct the deviceSelector of DisruptionGuard {guard}","incident":true,"needsPerson":true,"orphan":false,"reason":"Paused","says":" is not understood: ","stage":""},
  {"ends":"kubectl device resume {guard}","incident":true,"needsPerson":true,"orphan":false,"reason":"Paused","says":"","stage":""},
  {"ends":"kubectl device guard reset {guard} --reason TEXT","incident":true,"needsPerson":true,"orphan":false,"reason":"Breaker","says":" is tripped: ","stage":""},
  {"ends":"it goes on when less is out of service","incident":true,"needsPerson":false,"orphan":false,"reason":"Breaker","says":"","stage":""},
  {"ends":"it goes on when a window opens; to end it now: kubectl device repaired {device}","incident":true,"needsPerson":false,"orphan":false,"reason":"Window","says":"","stage":""},
  {"ends":"kubectl device repaired {device}","incident":true,"needsPerson":true,"orphan":false,"reason":null,"says":"","stage":"Abandoned"},
  {"ends":"kubectl device repaired {device}","incident":true,"needsPerson":true,"orphan":false,"reason":null,"says":"","stage":"Repairing"},
  {"ends":"this version does not know how it ends","incident":true,"needsPerson":false,"orphan":false,"reason":null,"says":"","stage":"Cleared"},
  {"ends":"kubectl device repaired {device}, or kubectl device abandon {device} --reason TEXT","incident":true,"needsPerson":true,"orphan":true,"reason":null,"says":"","stage":""},
  {"ends":"it ends by itself; to give the device up: kubectl device abandon {device} --reason TEXT","incident":true,"needsPerson":false,"orphan":false,"reason":null,"says":"","stage":""},
];
