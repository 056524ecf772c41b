//! The costs of the page: first paint, bytes, frames, memory under changes, the server's time for its viewers. Printed, and never judged by time:
//! `cargo test --test browser figures -- --nocapture`, with `LAZARET_FIGURES_MINUTES=20` for the last two.

use std::{env, fs, thread, time::Duration};

use serde_json::{Value, json};

use crate::{
    browser,
    chromium::{Browser, Page},
    looks::keep,
    server::Cluster,
};

/// Bytes that a browser loads before a plan is asked for, as transferred: compressed, with the headers of the responses.
const FIRST_BYTES_MAX: u64 = 66_000;
/// The cores, compressed by brotli, when they are first needed.
const CORES_BYTES_MAX: u64 = 400_000;
const VIEWERS: usize = 10;

fn minutes() -> u64 {
    env::var("LAZARET_FIGURES_MINUTES").ok().and_then(|text| text.parse().ok()).unwrap_or_default()
}

/// Slices of eight devices each, on nodes of their own; a fiftieth of the devices is tainted.
const SLICES: &str = r#"globalThis.many = (at, round) => ({ metadata: { name: `many-${at}` }, spec: { driver: "many.example.com", nodeName: `many-${at}`, pool: { name: `many-${at}`, generation: 1 },
  devices: Array.from({ length: 8 }, (_, one) => ({ name: `gpu-${one}`, taints: (at * 8 + one + round * 7) % 50 === 0 ? [{ key: "example.com/x", effect: "NoSchedule" }] : [] })) } })"#;

fn frames(page: &Page<'_>, devices: u32) -> Value {
    // A third shows that they are drawn; all of them are for figures.
    let number = if minutes() == 0 { 60 } else { 180 };
    page.eval(&format!(
        r#"(async () => {{
          const {{ fleet, page: shown }} = globalThis.lazaret;
          const began = performance.now();
          for (let at = 0; at < {devices} / 8; at++) fleet.set("slices", many(at, 0));
          await new Promise((done) => setTimeout(done));
          const load = performance.now() - began;
          await new Promise((done) => setTimeout(done, 1500));
          const {{ map }} = shown();
          map.frames.length = 0;
          const gaps = [];
          let last = performance.now();
          for (let frame = 0; frame < {number}; frame++) {{
            await new Promise((done) => requestAnimationFrame(done));
            gaps.push(performance.now() - last);
            last = performance.now();
            map.element.scrollTop = (frame * 37) % Math.max(1, map.element.scrollHeight - map.element.clientHeight);
            for (let change = 0; change < 5; change++) fleet.set("slices", many((frame * 5 + change) % ({devices} / 8), frame));
          }}
          const at = (list, part) => Number([...list].sort((a, b) => a - b)[Math.floor(list.length * part)].toFixed(1));
          return {{ devices: fleet.devices.size, loadMs: Math.round(load), drawMs: [at(map.frames, 0.5), at(map.frames, 0.99)], frameMs: [at(gaps, 0.5), at(gaps, 0.99)] }};
        }})()"#
    ))
}

/// Bytes of JavaScript's heap, after a garbage collection.
fn heap(page: &Page<'_>) -> f64 {
    page.call("HeapProfiler.collectGarbage", &json!({}));
    page.call("Runtime.getHeapUsage", &json!({}))["usedSize"].as_f64().unwrap_or_default()
}

/// Changes slices of 10,000 devices for a while, ten a frame at most, and prints the heap after each tenth of the time.
fn churn(page: &Page<'_>) {
    let (steps, step_ms) = if minutes() == 0 { (1, 1_000) } else { (minutes(), 60_000) };
    println!("heap before: {:.0} bytes", heap(page));
    for step in 1..=steps {
        let changes = page.eval(&format!(
            "(async () => {{ const end = performance.now() + {step_ms}; let number = globalThis.churned ?? 0;
             while (performance.now() < end) {{ await new Promise((done) => setTimeout(done, 20)); lazaret.fleet.set('slices', many(number % 1250, number++)); }}
             return (globalThis.churned = number); }})()"
        ));
        println!("heap after {step} of {steps} parts and {changes} changes: {:.0} bytes", heap(page));
    }
}

/// Seconds of CPU that a process has used. Linux only.
fn cpu_seconds(pid: u32) -> f64 {
    let status = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    let rest = status.rsplit_once(')').map_or("", |(_, rest)| rest);
    let ticks =
        |at: usize| rest.split_whitespace().nth(at).and_then(|text| text.parse::<f64>().ok()).unwrap_or(0.0);
    (ticks(11) + ticks(12)) / 100.0
}

/// One device fails and recovers again and again; how much of the server's time that takes with and without viewers.
fn viewers(browser: &Browser, cluster: &Cluster) {
    if minutes() == 0 {
        return;
    }
    let pid = cluster.pid();
    let measure = |what: &str| {
        let before = cpu_seconds(pid);
        let mut changes = 0;
        let end = std::time::Instant::now() + Duration::from_secs(60);
        while std::time::Instant::now() < end {
            let word = if changes % 2 == 0 { "cordon" } else { "uncordon" };
            cluster.device(&[word, "node-1/gpu-0"]);
            changes += 1;
            thread::sleep(Duration::from_millis(200));
        }
        println!("{what}: {:.2} s of CPU in 60 s, {changes} changes", cpu_seconds(pid) - before);
    };
    measure("no viewer");
    let mut open = Vec::new();
    for _ in 0..VIEWERS {
        let (ui, address) = cluster.ui();
        let page = browser.page(1280, 800);
        page.open(&address);
        page.until("lazaret.fleet.devices.size === 32");
        open.push((ui, page));
    }
    measure("ten viewers");
}

/// The page is small, and the cores come with the first question to them.
fn bytes(page: &Page<'_>) {
    // Every page but What-if was looked at.
    for path in ["drains", "incidents", "replay", "why", "cluster", "fleet"] {
        page.eval(&format!("void (location.hash = '#/{path}')"));
        page.until(&format!("lazaret.page().id === '{path}'"));
    }
    let loaded = |field: &str, filter: &str| {
        let sum = page.eval(&format!(
            "[...performance.getEntriesByType('navigation'), ...performance.getEntriesByType('resource')].filter(({{ name }}) => new URL(name).pathname.startsWith('/ui/') && {filter}).reduce((sum, one) => sum + one.{field}, 0)"
        ));
        sum.as_u64().unwrap()
    };
    assert_eq!(loaded("decodedBodySize", "name.endsWith('.wasm')"), 0, "loaded before anybody asked");
    let first = loaded("transferSize", "true");
    assert!(first > 10_000, "{first} bytes cannot be all");
    assert!(first < FIRST_BYTES_MAX, "{first} bytes");
    page.eval("void (location.hash = '#/whatif/gpu.example.com/node-1/gpu-0')");
    page.until("/would be evicted/.test(document.querySelector('main').innerText)");
    page.until("performance.getEntriesByType('resource').some(({ name }) => name.endsWith('.wasm'))");
    let cores = loaded("encodedBodySize", "name.endsWith('.wasm')");
    assert!(cores < CORES_BYTES_MAX, "{cores} bytes");
    println!("bytes transferred of the page: {first}, and of the cores when they are first needed: {cores}");
    let asset = lazaret_dashboard::assets().iter().find(|asset| asset.name == "whatif.wasm").unwrap();
    assert_eq!(
        loaded("decodedBodySize", "name.endsWith('.wasm')"),
        asset.bytes().len() as u64,
        "both forms hold one module"
    );
}

#[test]
fn figures() {
    let Some(browser) = browser("figures") else { return };
    let cluster = Cluster::start(4);
    let page = browser.page(1280, 800);
    page.open(&cluster.address);
    page.until("lazaret.fleet.devices.size === 32");
    page.until("performance.getEntriesByName('first-contentful-paint').length");
    let first = page.eval(
        "(() => { const { responseEnd } = performance.getEntriesByType('navigation')[0]; const paint = performance.getEntriesByName('first-contentful-paint')[0].startTime; return { firstPaintMs: Math.round(paint), pageReadMs: Math.round(responseEnd) }; })()",
    );
    println!("first paint: {first}");
    bytes(&page);
    viewers(&browser, &cluster);
    page.eval("void (location.hash = '#/fleet')");
    page.until("lazaret.page().id === 'fleet'");
    page.eval(SLICES);
    println!("10,000 devices: {}", frames(&page, 10_000));
    for look in ["light", "dark"] {
        page.prefer("prefers-color-scheme", look);
        keep(&page, look, "10000-devices");
    }
    churn(&page);
    println!("100,000 devices: {}", frames(&page, 100_000));
    assert_eq!(page.eval("lazaret.fleet.devices.size"), 100_032);
    assert_eq!(page.problems(), Vec::<String>::new());
}
