//! Many clients of the API at once: one order of their writes explains every read, list, refusal and watch.
#![allow(clippy::disallowed_methods, reason = "clients at the same time need tasks of their own")]

use std::collections::BTreeMap;
use std::sync::Arc;

use http_body_util::BodyExt;
use lazaret_json::{Value, json};
use lazaret_memory::linear::{Change, Clock, History, Operation, Seen, What, Written, check};

use crate::support::{Answer, Api};

const NAMES: [&str; 4] = ["a", "b", "c", "d"];
const NAMESPACES: [&str; 2] = ["default", "kube-system"];
const CLIENTS: u64 = 4;
const STEPS: usize = 50;

/// The object whose creation ends all watches.
const LAST: &str = "last";

fn path(key: &str) -> String {
    let (namespace, name) = key.split_once('/').unwrap();
    format!("/api/v1/namespaces/{namespace}/configmaps/{name}")
}

fn collection(namespace: &str) -> String {
    if namespace.is_empty() {
        "/api/v1/configmaps".into()
    } else {
        format!("/api/v1/namespaces/{namespace}/configmaps")
    }
}

fn revision(object: &Value) -> u64 {
    object["metadata"]["resourceVersion"].as_str().unwrap().parse().unwrap()
}

fn key(object: &Value) -> String {
    let name = |field: &str| object["metadata"][field].as_str().unwrap().to_owned();
    format!("{}/{}", name("namespace"), name("name"))
}

fn seen(object: &Value) -> Seen {
    Seen { revision: revision(object), value: object["data"]["v"].as_str().unwrap_or_default().to_owned() }
}

fn written(object: &Value, expected: Written) -> What {
    let Seen { revision, value } = seen(object);
    let change = Change { revision, key: key(object), value: Some(value) };
    What::Wrote { expected: vec![(change.key.clone(), expected)], changes: vec![change] }
}

/// One client: its own random numbers, and what it saw.
struct Client {
    api: Arc<Api>,
    clock: Arc<Clock>,
    random: u64,
    seen: Vec<Operation>,
    /// Deletions that were acknowledged: key, the revision that was deleted, and when.
    deleted: Vec<(String, u64, u64, u64)>,
}

impl Client {
    fn below(&mut self, limit: usize) -> usize {
        self.random ^= self.random << 13;
        self.random ^= self.random >> 7;
        self.random ^= self.random << 17;
        usize::try_from(self.random % limit as u64).unwrap()
    }

    async fn step(&mut self, value: &str) {
        let key = format!("{}/{}", NAMESPACES[self.below(2)], NAMES[self.below(4)]);
        let held = self.api.get(&path(&key)).await;
        let held = if held.is(404) { None } else { Some(held.expect(200)) };
        let start = self.clock.tick();
        let what = match (self.below(8), held) {
            (0 | 1, _) | (2..=4, None) => self.create(&key, value).await,
            (2, Some(held)) => self.replace(&key, value, &held).await,
            (3, Some(_)) => self.patch(&key, value).await,
            (4, Some(held)) => self.delete(&key, &held, start).await,
            (5, _) => Some(self.read(&key).await),
            (6, _) => Some(self.list().await),
            (_, _) => self.list_past().await,
        };
        let Some(what) = what else { return };
        self.seen.push(Operation { start, end: self.clock.tick(), what });
    }

    async fn create(&self, key: &str, value: &str) -> Option<What> {
        let (namespace, name) = key.split_once('/')?;
        let object = json!({"metadata": {"name": name}, "data": {"v": value}});
        let answer = self.api.post(&collection(namespace), &object).await;
        Some(outcome(answer, 201, key, Written::Absent))
    }

    async fn replace(&self, key: &str, value: &str, held: &Value) -> Option<What> {
        let mut object = held.clone();
        object["data"]["v"] = json!(value);
        Some(outcome(self.api.put(&path(key), &object).await, 200, key, Written::At(revision(held))))
    }

    async fn patch(&self, key: &str, value: &str) -> Option<What> {
        let change = json!({"data": {"v": value}});
        let answer = self.api.patch(&path(key), "application/merge-patch+json", &change).await;
        Some(outcome(answer, 200, key, Written::Present))
    }

    /// The answer does not say which revision a deletion made: it is looked up in the watch afterwards.
    async fn delete(&mut self, key: &str, held: &Value, start: u64) -> Option<What> {
        let expected = revision(held);
        let options = json!({"preconditions": {"resourceVersion": expected.to_string()}});
        let answer = self.api.delete(&path(key), Some(&options)).await;
        if answer.is(200) {
            self.deleted.push((key.to_owned(), expected, start, self.clock.tick()));
            return None;
        }
        Some(outcome(answer, 200, key, Written::At(expected)))
    }

    async fn read(&self, key: &str) -> What {
        let answer = self.api.get(&path(key)).await;
        let found = if answer.is(404) { None } else { Some(seen(&answer.expect(200))) };
        What::Read { key: key.to_owned(), found }
    }

    async fn list(&mut self) -> What {
        let namespace = ["", NAMESPACES[0], NAMESPACES[1]][self.below(3)];
        let (revision, found) = listed(self.api.get(&collection(namespace)).await.expect(200));
        What::Listed { prefix: prefix(namespace), revision, found }
    }

    async fn list_past(&mut self) -> Option<What> {
        let now = revision(&self.api.get(&collection("")).await.expect(200));
        let at = now.saturating_sub(self.below(10) as u64);
        let query = format!("{}?resourceVersion={at}&resourceVersionMatch=Exact", collection(""));
        let answer = self.api.get(&query).await;
        if !answer.is(200) {
            return None;
        }
        let (revision, found) = listed(answer.expect(200));
        assert_eq!(revision, at, "an exact list is of the revision that was asked for");
        Some(What::ListedAt { prefix: String::new(), revision, found })
    }
}

fn prefix(namespace: &str) -> String {
    if namespace.is_empty() { String::new() } else { format!("{namespace}/") }
}

fn listed(list: Value) -> (u64, BTreeMap<String, Seen>) {
    let items = list["items"].as_array().unwrap();
    (revision(&list), items.iter().map(|item| (key(item), seen(item))).collect())
}

fn outcome(answer: Answer, code: u16, key: &str, expected: Written) -> What {
    if answer.is(code) {
        return written(&answer.expect(code), expected);
    }
    let found = answer.is(404).then_some(Written::Absent);
    assert!(found.is_some() || answer.is(409), "{}", answer.expect(409));
    // Where it is gone, presence was missed, whatever its revision was.
    let expected = if found.is_some() { Written::Present } else { expected };
    What::Refused { key: key.to_owned(), expected, found }
}

/// Follows a namespace, or all of them, to the last object.
async fn follow(api: Arc<Api>, clock: Arc<Clock>, namespace: &'static str, from: u64) -> Operation {
    let start = clock.tick();
    let query = format!("{}?watch=1&allowWatchBookmarks=true&resourceVersion={from}", collection(namespace));
    let mut body = api.stream(&query).await;
    let (mut rest, mut delivered, mut progress) = (Vec::new(), Vec::new(), from);
    let mut ended = false;
    while !ended {
        let Some(frame) = body.frame().await else { break };
        rest.extend_from_slice(&frame.unwrap().into_data().unwrap());
        while let Some(end) = rest.iter().position(|byte| *byte == b'\n') {
            let line: Vec<u8> = rest.drain(..=end).collect();
            let event: Value = serde_json::from_slice(&line).unwrap();
            let object = &event["object"];
            let at = clock.tick();
            progress = revision(object);
            if event["type"] == "BOOKMARK" {
                continue;
            }
            let value = (event["type"] != "DELETED").then(|| seen(object).value);
            delivered.push((at, Change { revision: progress, key: key(object), value }));
            ended |= object["metadata"]["name"] == LAST;
        }
    }
    let what = What::Watched { prefix: prefix(namespace), from, delivered, progress };
    Operation { start, end: clock.tick(), what }
}

/// The deletions, with the revisions that the watch of everything tells of them: the next of their keys.
fn with_revisions(watch: &Operation, deleted: Vec<(String, u64, u64, u64)>) -> Vec<Operation> {
    let What::Watched { delivered, .. } = &watch.what else { return Vec::new() };
    let found = deleted.into_iter().map(|(key, expected, start, end)| {
        let after = delivered.iter().map(|(_, change)| change);
        let next = after
            .filter(|change| change.key == key && change.revision > expected)
            .min_by_key(|change| change.revision);
        let change =
            next.unwrap_or_else(|| panic!("no watch tells of the deletion of {key} at {expected}")).clone();
        assert_eq!(change.value, None, "{key} was deleted at {expected}");
        Operation {
            start,
            end,
            what: What::Wrote { changes: vec![change], expected: vec![(key, Written::At(expected))] },
        }
    });
    found.collect()
}

async fn session(api: Api, seed: u64) -> History {
    let (api, clock) = (Arc::new(api), Arc::new(Clock::default()));
    let first = revision(&api.get(&collection("")).await.expect(200));
    let watchers: Vec<_> = ["", NAMESPACES[0], NAMESPACES[1]]
        .into_iter()
        .map(|namespace| tokio::spawn(follow(Arc::clone(&api), Arc::clone(&clock), namespace, first)))
        .collect();
    let clients = (0..CLIENTS).map(|nth| {
        let random = (seed + 1).wrapping_mul(0x9E37_79B9_7F4A_7C15) ^ (nth + 1);
        let (api, clock) = (Arc::clone(&api), Arc::clone(&clock));
        let mut client = Client { api, clock, random, seen: Vec::new(), deleted: Vec::new() };
        tokio::spawn(async move {
            for step in 0..STEPS {
                client.step(&format!("{nth}-{step}")).await;
            }
            client
        })
    });
    let clients: Vec<_> = clients.collect();
    let mut operations = Vec::new();
    let mut deleted = Vec::new();
    for client in clients {
        let client = client.await.unwrap();
        operations.extend(client.seen);
        deleted.extend(client.deleted);
    }
    for namespace in NAMESPACES {
        let object = json!({"metadata": {"name": LAST}, "data": {"v": "last"}});
        let start = clock.tick();
        let object = api.post(&collection(namespace), &object).await.expect(201);
        operations.push(Operation { start, end: clock.tick(), what: written(&object, Written::Absent) });
    }
    for (nth, watcher) in watchers.into_iter().enumerate() {
        let watched = watcher.await.unwrap();
        if nth == 0 {
            operations.extend(with_revisions(&watched, std::mem::take(&mut deleted)));
        }
        operations.push(watched);
    }
    History { first, operations }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn many_clients_at_once_are_answered_in_one_order() {
    for seed in 0..6 {
        for api in Api::over_each_store().await {
            let history = session(api, seed).await;
            check(&history).unwrap_or_else(|why| panic!("seed {seed}: {why}"));
        }
    }
}
