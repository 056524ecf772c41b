//! A disk that fails, hangs and comes back, as clients and administrators see it.

use std::{
    io,
    sync::{Arc, Condvar, Mutex},
};

use crate::support::Api;
use lazaret_json::{Value, json};
use lazaret_server::{Server, ServerOptions, User};
use lazaret_store::{
    Disk, DiskFile, Options, Store,
    fault::{Fault, FaultyDisk},
};

const MAPS: &str = "/api/v1/namespaces/default/configmaps";

fn map(name: &str) -> Value {
    json!({"metadata": {"name": name}, "data": {"a": "b"}})
}

pub(crate) async fn over(disk: Arc<dyn Disk>) -> Api {
    let api = Api::over(Store::open_on(disk, Options::default()).unwrap());
    api.post("/api/v1/namespaces", &json!({"metadata": {"name": "default"}})).await.expect(201);
    api
}

/// The number that a metric has.
fn number(metrics: &Value, name: &str) -> f64 {
    let text = metrics.as_str().unwrap();
    let line = text.lines().find(|line| line.split(' ').next() == Some(name));
    line.unwrap_or_else(|| panic!("{name} is not in\n{text}")).split(' ').nth(1).unwrap().parse().unwrap()
}

#[tokio::test]
async fn a_full_disk_refuses_writes_says_why_and_heals() {
    let disk = FaultyDisk::new(1);
    let api = over(Arc::new(disk.clone())).await;
    api.get("/readyz").await.expect(200);
    let step = disk.steps();
    (step..step + 10_000).for_each(|step| disk.plan(step, Fault::Refuse(io::ErrorKind::StorageFull)));

    let unknown = api.post(MAPS, &map("in-doubt")).await.expect(504);
    assert_eq!(unknown["reason"], "Timeout", "{unknown}");
    assert!(
        unknown["message"]
            .as_str()
            .unwrap()
            .starts_with("the outcome of the write is unknown: append to log-")
    );
    let refused = api.post(MAPS, &map("refused")).await.expect(503);
    assert_eq!(
        (&refused["reason"], &refused["details"]["retryAfterSeconds"]),
        (&json!("ServiceUnavailable"), &json!(1))
    );
    api.get(MAPS).await.expect(200);
    let report = api.get("/readyz").await.expect(500);
    assert!(
        report.as_str().unwrap().contains("[-]etcd failed: the store is read-only: append to log-"),
        "{report}"
    );
    let metrics = api.get("/metrics").await.expect(200);
    assert_eq!(
        (number(&metrics, "lazaret_store_read_only"), number(&metrics, "lazaret_store_failures_total")),
        (1.0, 1.0)
    );

    (step..step + 10_000).for_each(|step| disk.unplan(step));
    while !api.get("/readyz").await.is(200) {
        tokio::task::yield_now().await;
    }
    api.get(&format!("{MAPS}/in-doubt")).await.expect(404);
    api.post(MAPS, &map("in-doubt")).await.expect(201);
    let metrics = api.get("/metrics").await.expect(200);
    assert_eq!(
        (number(&metrics, "lazaret_store_read_only"), number(&metrics, "lazaret_store_heals_total")),
        (0.0, 1.0)
    );
}

#[tokio::test]
async fn why_a_check_fails_is_for_administrators() {
    let disk = FaultyDisk::new(1);
    let store = Store::open_on(Arc::new(disk.clone()), Options::default()).unwrap();
    let options = ServerOptions::default();
    let user =
        |name: &str, group: &str| User { name: name.into(), groups: vec![group.into()], ..User::default() };
    let mut api = Api { server: Server::new(store, options), user: user("admin", "system:masters") };
    let step = disk.steps();
    (step..step + 10_000).for_each(|step| disk.plan(step, Fault::Refuse(io::ErrorKind::StorageFull)));
    api.post("/api/v1/namespaces", &json!({"metadata": {"name": "default"}})).await.expect(504);
    let seen = api.get("/readyz").await.expect(500);
    assert!(seen.as_str().unwrap().contains("append to log-"), "{seen}");
    api.user = user("system:anonymous", "system:unauthenticated");
    let seen = api.get("/readyz").await.expect(500);
    assert!(seen.as_str().unwrap().contains("[-]etcd failed: reason withheld\n"), "{seen}");
    assert!(!seen.as_str().unwrap().contains("log-0"), "{seen}");
    api.send("POST", "/lazaret/store/compact", "", "").await.expect(403);
}

#[tokio::test]
async fn compacting_writes_a_snapshot_and_removes_the_log_before_it() {
    let disk = FaultyDisk::new(1);
    let api = over(Arc::new(disk.clone())).await;
    api.post(MAPS, &map("kept")).await.expect(201);
    let done = api.send("POST", "/lazaret/store/compact", "", "").await.expect(200);
    let store = api.server.store();
    assert_eq!((&done["items"], &done["revision"]), (&json!(store.count(b"")), &json!(store.revision())));
    let files: Vec<String> = disk.sizes().into_keys().collect();
    assert_eq!(files.len(), 2, "{files:?}");
    assert!(files[1].starts_with("snapshot-"), "{files:?}");
    api.send("GET", "/lazaret/store/compact", "", "").await.expect(404);

    let ephemeral = Api::start().await;
    ephemeral.send("POST", "/lazaret/store/compact", "", "").await.expect(400);
}

/// A disk whose syncs wait for a word.
#[derive(Debug, Clone)]
pub(crate) struct HangingDisk {
    disk: FaultyDisk,
    gate: Arc<(Mutex<bool>, Condvar)>,
}

#[derive(Debug)]
struct HangingFile {
    file: Box<dyn DiskFile>,
    gate: Arc<(Mutex<bool>, Condvar)>,
}

impl HangingDisk {
    pub(crate) fn new() -> Self {
        Self { disk: FaultyDisk::new(1), gate: Arc::default() }
    }

    pub(crate) fn hang(&self, hangs: bool) {
        *self.gate.0.lock().unwrap() = hangs;
        self.gate.1.notify_all();
    }

    fn wrap(&self, file: io::Result<Box<dyn DiskFile>>) -> io::Result<Box<dyn DiskFile>> {
        Ok(Box::new(HangingFile { file: file?, gate: Arc::clone(&self.gate) }))
    }
}

impl Disk for HangingDisk {
    fn list(&self) -> io::Result<Vec<String>> {
        self.disk.list()
    }
    fn create(&self, name: &str) -> io::Result<Box<dyn DiskFile>> {
        self.wrap(self.disk.create(name))
    }
    fn open(&self, name: &str) -> io::Result<Box<dyn DiskFile>> {
        self.wrap(self.disk.open(name))
    }
    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        self.disk.rename(from, to)
    }
    fn remove(&self, name: &str) -> io::Result<()> {
        self.disk.remove(name)
    }
    fn sync_dir(&self) -> io::Result<()> {
        self.disk.sync_dir()
    }
}

impl DiskFile for HangingFile {
    fn size(&self) -> io::Result<u64> {
        self.file.size()
    }
    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> io::Result<()> {
        self.file.read_at(offset, buffer)
    }
    fn write_at(&mut self, offset: u64, bytes: &[u8]) -> io::Result<()> {
        self.file.write_at(offset, bytes)
    }
    fn set_size(&mut self, size: u64) -> io::Result<()> {
        self.file.set_size(size)
    }
    fn sync(&mut self) -> io::Result<()> {
        let mut hangs = self.gate.0.lock().unwrap();
        while *hangs {
            hangs = self.gate.1.wait(hangs).unwrap();
        }
        self.file.sync()
    }
}

/// Tokio's clock runs ahead when every task is idle, so the limit of 34 s is over at once.
#[tokio::test]
async fn writers_do_not_wait_for_ever_for_a_disk_that_hangs() {
    let disk = HangingDisk::new();
    let api = over(Arc::new(disk.clone())).await;
    disk.hang(true);
    tokio::time::pause();
    let unknown = api.post(MAPS, &map("slow")).await.expect(504);
    assert!(unknown["message"].as_str().unwrap().contains("no answer in 34 s"), "{unknown}");
    api.post(MAPS, &map("behind-it")).await.expect(504);
    api.get(MAPS).await.expect(200);
    while api.server.store().stats().disk_busy.is_none() {
        tokio::task::yield_now().await;
    }
    tokio::time::resume();
    disk.hang(false);
    api.post(MAPS, &map("after")).await.expect(201);
    // The write that was given up was done all the same: that is why the answer was "unknown".
    api.get(&format!("{MAPS}/slow")).await.expect(200);
    while api.server.store().stats().disk_busy.is_some() {
        tokio::task::yield_now().await;
    }
}
