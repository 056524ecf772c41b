// The dashboard in a browser, against `lazaret up`: every page in three looks, acts, a user with few rights, a lost server, many devices.

import assert from "node:assert/strict";
import { execFileSync, spawn } from "node:child_process";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { chromium } from "playwright-core";

const { LAZARET, CHROMIUM, SHOTS } = process.env;
const PATIENCE_MS = 120_000;
const folder = mkdtempSync(join(tmpdir(), "lazaret-browser-"));
const env = { ...process.env, KUBECONFIG: join(folder, "kubeconfig") };
const LOOKS = [
  ["light", { viewport: { width: 1280, height: 800 } }], ["dark", { viewport: { width: 1280, height: 800 }, colorScheme: "dark" }],
  ["phone", { viewport: { width: 360, height: 740 }, deviceScaleFactor: 2 }],
];
const PAGES = ["fleet", "fleet/gpu.example.com/node-1/gpu-0", "whatif/gpu.example.com/node-1/gpu-0", "drains", "incidents", "replay", "why/default/x", "cluster"];

let server = null;

function up(listen) {
  return new Promise((resolve, reject) => {
    server = spawn(LAZARET, ["up", "--nodes", "4", "--devices", "8", "--listen", listen, "--data-dir", folder], { stdio: ["ignore", "pipe", "ignore"] });
    let text = "";
    server.stdout.on("data", (part) => {
      text += part;
      const found = text.match(/dashboard: (\S+)/);
      if (found) resolve(found[1]);
    });
    server.on("error", reject);
    server.on("exit", (code) => reject(new Error(`lazaret up ended with ${code}`)));
  });
}

function down() {
  const ended = new Promise((done) => server.once("exit", done));
  server.removeAllListeners("exit");
  server.once("exit", () => {});
  const over = new Promise((done) => server.once("close", done));
  server.kill("SIGKILL");
  return Promise.race([ended, over]);
}

const device = (...words) => execFileSync(LAZARET, ["device", ...words], { env, stdio: "pipe" }).toString();

async function until(what, is) {
  const end = Date.now() + PATIENCE_MS;
  for (;;) {
    if (await is()) return;
    assert(Date.now() < end, `not so after ${PATIENCE_MS} ms: ${what}`);
    await new Promise((done) => setTimeout(done, 100));
  }
}

const counts = (page) => page.evaluate(() => globalThis.lazaret?.fleet.counts() ?? []);
const stateOf = (page, key) => page.evaluate((one) => globalThis.lazaret?.fleet.devices.get(one)?.state, key);

async function looks(browser, state, base) {
  for (const [look, options] of LOOKS) {
    const context = await browser.newContext({ ignoreHTTPSErrors: true, storageState: state, ...options });
    const page = await context.newPage();
    const problems = [];
    page.on("pageerror", (error) => problems.push(error.message));
    page.on("console", (message) => { if (message.type() === "error" && !/404|Not Found/.test(message.text())) problems.push(message.text()); });
    for (const path of PAGES) {
      await page.goto(`${base}#/${path}`);
      await until(`${look} ${path} shows something`, () => page.evaluate(() => document.querySelector("main").innerText.trim().length > 0));
      if (path === "fleet") await until("32 devices", async () => (await counts(page)).reduce((sum, one) => sum + one, 0) === 32);
      const wide = await page.evaluate(() => document.documentElement.scrollWidth - innerWidth);
      assert(wide <= 0, `${look} ${path} is ${wide} px wider than the window`);
      if (SHOTS) { await page.waitForTimeout(700); await page.screenshot({ path: join(SHOTS, `${look}-${path.replace(/\W+/g, "-")}.png`) }); }
    }
    assert.deepEqual(problems, [], look);
    await context.close();
  }
}

async function acts(page, base) {
  const key = "gpu.example.com/node-2/gpu-1";
  await page.goto(`${base}#/fleet/${key}`);
  await page.click("button:has-text('Cordon')");
  await page.fill("dialog input", "<img src=x onerror=alert(1)>");
  await page.click("dialog button.primary");
  await until("the device is cordoned", async () => (await stateOf(page, key)) === "noschedule");
  assert.match(device("list", "node-2/gpu-1"), /lazaret\.dev\/drain:NoSchedule/);
  await until("the reason is shown as text", () => page.evaluate(() => document.querySelector(".panel").innerText.includes("<img src=x onerror=alert(1)>")));
  assert.equal(await page.evaluate(() => document.querySelectorAll(".panel img").length), 0);
  await page.click("button:has-text('Uncordon')");
  await page.click("dialog button.primary");
  await until("the device is back", async () => (await stateOf(page, key)) === "free");
  device("fail", "node-3/gpu-0", "--effect", "NoSchedule", "--reason", "ecc");
  await until("a failing device is seen without a reload", async () => (await stateOf(page, "gpu.example.com/node-3/gpu-0")) === "noschedule");
  await page.goto(`${base}#/whatif/${key}`);
  await until("the module answers", () => page.evaluate(() => /of \d+ pods? would be evicted/.test(document.querySelector("main").innerText)));
}

async function keyboard(page, base) {
  await page.goto(`${base}#/fleet`);
  await page.keyboard.press("Escape");
  await page.focus(".map");
  await page.keyboard.press("ArrowRight");
  await page.keyboard.press("ArrowRight");
  await page.keyboard.press("Enter");
  await until("a device opens by the keyboard", () => page.evaluate(() => location.hash.includes("gpu.example.com/")));
  await page.keyboard.press("Escape");
  await page.keyboard.press("g");
  await page.keyboard.press("d");
  await until("g d goes to drains", () => page.evaluate(() => location.hash === "#/drains"));
}

async function limited(browser, base) {
  const kubectl = (...words) => execFileSync(process.env.KUBECTL ?? "kubectl", words, { env, stdio: "pipe" }).toString();
  try { kubectl("version", "--client"); } catch { console.log("NOT RUN: a user with few rights, for there is no kubectl"); return; }
  kubectl("create", "serviceaccount", "viewer");
  kubectl("create", "clusterrole", "sees-devices", "--verb=get,list,watch", "--resource=resourceslices.resource.k8s.io,devicetaintrules.resource.k8s.io");
  kubectl("create", "clusterrolebinding", "viewer", "--clusterrole=sees-devices", "--serviceaccount=default:viewer");
  const token = kubectl("create", "token", "viewer").trim();
  const context = await browser.newContext({ ignoreHTTPSErrors: true });
  const page = await context.newPage();
  await page.goto(base);
  await page.fill("#token", token);
  await page.click("button:has-text('Sign in')");
  await until("the fleet is seen", async () => (await counts(page)).reduce((sum, one) => sum + one, 0) === 32);
  await page.goto(`${base}#/fleet/gpu.example.com/node-1/gpu-0`);
  await until("the act is disabled and says what is missing", () => page.evaluate(() => {
    const button = [...document.querySelectorAll("button")].find((one) => one.textContent === "Cordon");
    return button?.disabled && button.title.includes("create devicetaintrules.resource.k8s.io");
  }));
  await context.close();
}

async function lost(page, base, listen) {
  await page.goto(`${base}#/fleet`);
  await down();
  await until("the banner tells of it", () => page.evaluate(() => !document.getElementById("banner").hidden));
  // Sessions end with the server: the page asks to sign in again and does not pretend.
  const address = await up(listen);
  await until("it asks to sign in", () => page.evaluate(() => /Sign in/.test(document.querySelector("main").innerText)));
  await page.goto("about:blank");
  await page.goto(address);
  await until("the same devices are there, none twice", async () => (await counts(page)).reduce((sum, one) => sum + one, 0) === 32);
}

/** Prints figures; asserts nothing about time. */
async function many(page, number) {
  const figures = await page.evaluate(async (devices) => {
    const { fleet, page: shown } = globalThis.lazaret;
    const slice = (at) => ({ metadata: { name: `many-${at}` }, spec: { driver: "many.example.com", nodeName: `many-${at}`, pool: { name: `many-${at}`, generation: 1 },
      devices: Array.from({ length: 8 }, (_, one) => ({ name: `gpu-${one}`, taints: Math.random() < 0.02 ? [{ key: "example.com/x", effect: "NoSchedule" }] : [] })) } });
    const began = performance.now();
    for (let at = 0; at < devices / 8; at++) fleet.set("slices", slice(at));
    await new Promise((done) => setTimeout(done));
    const load = performance.now() - began;
    await new Promise((done) => setTimeout(done, 1500));
    const { map } = shown();
    map.frames.length = 0;
    const gaps = [];
    let last = performance.now();
    for (let frame = 0; frame < 180; frame++) {
      await new Promise((done) => requestAnimationFrame(done));
      gaps.push(performance.now() - last);
      last = performance.now();
      map.element.scrollTop = (frame * 37) % Math.max(1, map.element.scrollHeight - map.element.clientHeight);
      for (let change = 0; change < 5; change++) fleet.set("slices", slice(Math.floor(Math.random() * devices / 8)));
    }
    const at = (list, part) => Number([...list].sort((a, b) => a - b)[Math.floor(list.length * part)].toFixed(1));
    return { devices: fleet.devices.size, loadMs: Math.round(load), drawMs: [at(map.frames, 0.5), at(map.frames, 0.99)], frameMs: [at(gaps, 0.5), at(gaps, 0.99)] };
  }, number);
  console.log(`many devices: ${JSON.stringify(figures)}`);
}

const browser = await chromium.launch({ executablePath: CHROMIUM, args: ["--no-sandbox"] });
try {
  const address = await up("127.0.0.1:0");
  const [base] = address.split("#");
  const listen = new URL(base).host;
  const context = await browser.newContext({ ignoreHTTPSErrors: true, viewport: { width: 1280, height: 800 } });
  const page = await context.newPage();
  const began = Date.now();
  await page.goto(address);
  await until("the fleet is there", async () => (await counts(page)).reduce((sum, one) => sum + one, 0) === 32);
  const paint = await page.evaluate(() => performance.getEntriesByName("first-contentful-paint")[0]?.startTime);
  const bytes = await page.evaluate(() => performance.getEntriesByType("resource").filter((one) => one.name.includes("/ui/")).reduce((sum, one) => sum + one.encodedBodySize, 0));
  console.log(`first contentful paint ${Math.round(paint)} ms, fleet after ${Date.now() - began} ms, ${bytes} bytes`);
  assert(!page.url().includes("token"), "the token does not stay in the address");
  const state = await context.storageState();
  await looks(browser, state, base);
  await acts(page, base);
  await keyboard(page, base);
  await limited(browser, base);
  await lost(page, base, listen);
  await many(page, 10_000);
  await many(page, 100_000);
  console.log("the dashboard works in a browser");
} finally {
  await browser.close();
  server?.removeAllListeners("exit");
  server?.kill("SIGKILL");
  rmSync(folder, { recursive: true, force: true });
}
