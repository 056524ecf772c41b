//! Prints what this machine makes of the store: `cargo run --release -p lazaret-store --example store_figures [dir]`.
#![allow(
    clippy::disallowed_methods,
    clippy::print_stdout,
    reason = "a measuring program reads the clock and prints"
)]

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use bytes::Bytes;
use lazaret_store::{EncryptionKey, EncryptionKeys, Op, Options, RangeOptions, Store};

const OBJECTS: usize = 150_000;
const WRITERS: usize = 64;
const WATCHERS: usize = 1_000;
const SECONDS: u64 = 4;

type Outcome = Result<(), Box<dyn std::error::Error>>;

fn main() -> Outcome {
    let mut arguments = std::env::args().skip(1);
    let dir =
        arguments.next().map_or_else(|| std::env::temp_dir().join("lazaret-store-figures"), PathBuf::from);
    match arguments.next().as_deref() {
        None => {}
        Some("memory") => return memory(&dir),
        Some(other) => return Err(format!("unknown argument {other}").into()),
    }
    let fresh = |name: &str| -> std::io::Result<PathBuf> {
        let path = dir.join(name);
        if path.exists() {
            std::fs::remove_dir_all(&path)?;
        }
        Ok(path)
    };
    creates("durable", &Store::open(fresh("one")?, Options::default())?, 1);
    creates("durable", &Store::open(fresh("many")?, Options::default())?, WRITERS);
    creates("encrypted", &Store::open(fresh("sealed-one")?, encrypted()?)?, 1);
    creates("encrypted", &Store::open(fresh("sealed-many")?, encrypted()?)?, WRITERS);
    creates("ephemeral", &Store::ephemeral(Options::default())?, WRITERS);
    fan_out()?;
    objects(&fresh("objects")?)?;
    std::fs::remove_dir_all(&dir)?;
    Ok(())
}

fn encrypted() -> Result<Options, Box<dyn std::error::Error>> {
    let key = EncryptionKey::generate().ok_or("no random bytes")?;
    let encryption = EncryptionKeys::parse(&key.line(), "a key file")?;
    Ok(Options { encryption, ..Options::default() })
}

/// A value of the size of an ordinary object.
fn value() -> Bytes {
    Bytes::from(vec![b'x'; 1_200])
}

fn creates(kind: &str, store: &Store, writers: usize) {
    let start = Instant::now();
    let end = start + Duration::from_secs(SECONDS);
    let mut latencies: Vec<Duration> = thread::scope(|scope| {
        let threads: Vec<_> = (0..writers)
            .map(|writer| {
                scope.spawn(move || {
                    let mut latencies = Vec::new();
                    while Instant::now() < end {
                        let key = format!(
                            "/resource.k8s.io/resourceclaims/ns-{writer:02}/claim-{:07}",
                            latencies.len()
                        );
                        let before = Instant::now();
                        if store.txn_blocking(vec![Op::create(key, value())]).is_ok() {
                            latencies.push(before.elapsed());
                        }
                    }
                    latencies
                })
            })
            .collect();
        threads.into_iter().flat_map(|thread| thread.join().unwrap_or_default()).collect()
    });
    let seconds = start.elapsed().as_secs_f64();
    latencies.sort_unstable();
    let at = |percent: usize| latencies.get(latencies.len() * percent / 100).copied().unwrap_or_default();
    let stats = store.stats();
    println!(
        "{kind} creates, {writers} writers: {:.0}/s, p50 {:?}, p99 {:?}, {:.1} a group, {} snapshots, {} failed",
        latencies.len() as f64 / seconds,
        at(50),
        at(99),
        stats.txns as f64 / stats.groups.max(1) as f64,
        stats.snapshots,
        stats.snapshots_failed,
    );
}

fn fan_out() -> Outcome {
    const EVENTS: u64 = 2_000;
    let store = Store::ephemeral(Options::default())?;
    let runtime = tokio::runtime::Builder::new_multi_thread().build()?;
    let delivered = AtomicU64::new(0);
    let delivered: &'static AtomicU64 = Box::leak(Box::new(delivered));
    let mut tasks = Vec::new();
    for _ in 0..WATCHERS {
        let mut watch = store.watch("/resource.k8s.io/", store.revision())?;
        tasks.push(runtime.spawn(async move {
            for _ in 0..EVENTS {
                if watch.next().await.is_ok() {
                    delivered.fetch_add(1, Ordering::Relaxed);
                }
            }
        }));
    }
    let start = Instant::now();
    for n in 0..EVENTS {
        store.txn_blocking(vec![Op::put(format!("/resource.k8s.io/devicetaintrules/{n}"), value())])?;
    }
    let written = start.elapsed();
    runtime.block_on(async {
        for task in tasks {
            drop(task.await);
        }
    });
    let all = start.elapsed();
    println!(
        "fan-out of {EVENTS} single writes to {WATCHERS} watchers: {} deliveries in {all:?} ({:.0}/s), writes took {written:?}",
        delivered.load(Ordering::Relaxed),
        delivered.load(Ordering::Relaxed) as f64 / all.as_secs_f64(),
    );
    Ok(())
}

fn objects(dir: &Path) -> Outcome {
    let key = |n: usize| format!("/resource.k8s.io/resourceslices/node-{:05}-{n:06}", n * 7_919 % 10_007);
    let store = Store::open(dir, Options { snapshot_log_bytes_min: u64::MAX, ..Options::default() })?;
    let start = Stopwatch::start();
    for first in (0..OBJECTS).step_by(500) {
        let ops = (first..first + 500).map(|n| Op::create(key(n), value())).collect();
        store.txn_blocking(ops)?;
    }
    println!("{OBJECTS} objects loaded in {}, 500 a transaction", start.spent());
    drop(store);

    let start = Stopwatch::start();
    let store = Store::open(dir, Options { snapshot_log_bytes_min: 1, ..Options::default() })?;
    println!("opened from the log alone in {}", start.spent());
    store.txn_blocking(vec![Op::put("/tick", "1")])?;
    let start = Stopwatch::start();
    drop(store);
    println!("snapshot written and closed in {}", start.spent());

    let start = Stopwatch::start();
    let store = Store::open(dir, Options::default())?;
    println!("opened from the snapshot in {}", start.spent());
    drop(store);
    // In a process of its own, so that nothing else is counted.
    let own = std::env::current_exe()?;
    std::process::Command::new(own).arg(dir).arg("memory").status()?;
    let store = Store::open(dir, Options::default())?;
    reads(&store, key)
}

fn memory(dir: &Path) -> Outcome {
    let before = resident_mib();
    let store = Store::open(dir, Options::default())?;
    let stats = store.stats();
    println!(
        "memory: {:.0} MiB more resident for {} items of {:.0} MiB",
        resident_mib() - before,
        stats.items,
        stats.items_bytes as f64 / f64::from(1 << 20),
    );
    Ok(())
}

fn reads(store: &Store, key: impl Fn(usize) -> String + Sync) -> Outcome {
    let keys: Vec<String> = (0..OBJECTS).map(&key).collect();
    let start = Instant::now();
    let found = keys.iter().filter(|key| store.get(key).is_some()).count();
    println!("get: {:.0}/s on one thread ({found} found)", found as f64 / start.elapsed().as_secs_f64());

    let start = Instant::now();
    let list = store.range("/resource.k8s.io/resourceslices/", &RangeOptions::default())?;
    println!("list of all {} items: {:?}", list.items.len(), start.elapsed());

    for n in 0..100_000_usize.div_ceil(500) {
        let ops = (0..500).map(|i| Op::put(keys[(n * 500 + i) % OBJECTS].clone(), value())).collect();
        store.txn_blocking(ops)?;
    }
    let oldest = store.stats().oldest;
    let (mut after, mut pages) = (None, 0);
    let start = Instant::now();
    while pages < 100 {
        let at = Some(list.revision.max(oldest));
        let page =
            store.range("/resource.k8s.io/", &RangeOptions { at, limit: Some(500), after: after.clone() })?;
        after = page.items.last().map(|item| item.key.clone());
        pages += 1;
    }
    let events = store.stats().history_events;
    println!("page of 500 at a revision {events} events ago: {:?}", start.elapsed() / pages);
    let start = Instant::now();
    for _ in 0..100 {
        store.range("/resource.k8s.io/", &RangeOptions { limit: Some(500), ..RangeOptions::default() })?;
    }
    println!("page of 500 now, with the count of the rest: {:?}", start.elapsed() / 100);
    Ok(())
}

/// Wall time and processor time: on a busy machine only the second tells about the program.
struct Stopwatch {
    wall: Instant,
    processor: f64,
}

impl Stopwatch {
    fn start() -> Stopwatch {
        Stopwatch { wall: Instant::now(), processor: processor_seconds() }
    }

    fn spent(&self) -> String {
        format!("{:?} ({:.2} s of processor time)", self.wall.elapsed(), processor_seconds() - self.processor)
    }
}

/// User and system time of this process, in ticks of 10 ms.
fn processor_seconds() -> f64 {
    let stat = std::fs::read_to_string("/proc/self/stat").unwrap_or_default();
    let after_name = stat.rsplit(')').next().unwrap_or_default();
    let ticks = after_name.split_whitespace().skip(11).take(2).filter_map(|field| field.parse::<f64>().ok());
    ticks.sum::<f64>() / 100.0
}

fn resident_mib() -> f64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    let kib = line.and_then(|line| line.split_whitespace().next()?.parse::<f64>().ok());
    kib.unwrap_or_default() / 1024.0
}
