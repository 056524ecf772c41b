//! A device is allocated once, whoever writes the allocation and how.

use std::{sync::Arc, time::Duration};

use crate::{
    disk::{HangingDisk, over},
    support::{Answer, Api},
};
use lazaret_json::{Value, json};
use lazaret_store::{Options, Store, fault::FaultyDisk};

const BASE: &str = "/apis/resource.k8s.io/v1/namespaces/default/resourceclaims";
const SLICES: &str = "/apis/resource.k8s.io/v1/resourceslices";
const SHARES: [&str; 3] = [
    "11111111-1111-4111-8111-111111111111",
    "22222222-2222-4222-8222-222222222222",
    "33333333-3333-4333-8333-333333333333",
];

async fn claim(api: &Api, name: &str) -> Value {
    let request = json!({"name": "r", "exactly": {"deviceClassName": "gpu"}});
    let claim = json!({"metadata": {"name": name}, "spec": {"devices": {"requests": [request]}}});
    api.post(BASE, &claim).await.expect(201)
}

fn result(device: &str) -> Value {
    json!({"request": "r", "driver": "d.example.com", "pool": "p", "device": device})
}

fn share(device: &str, id: usize, memory: &str) -> Value {
    let mut share = result(device);
    share["shareID"] = SHARES[id].into();
    share["consumedCapacity"] = json!({"memory": memory});
    share
}

fn allocation(results: &[Value]) -> Value {
    json!({"allocation": {"devices": {"results": results}}})
}

fn status_of(name: &str) -> String {
    format!("{BASE}/{name}/status")
}

/// Writes the status of a claim as a whole.
async fn put(api: &Api, name: &str, results: &[Value]) -> Answer {
    let mut claim = api.get(&format!("{BASE}/{name}")).await.expect(200);
    claim["status"] = if results.is_empty() { json!({}) } else { allocation(results) };
    api.put(&status_of(name), &claim).await
}

#[track_caller]
fn conflict(answer: Answer, name: &str, why: &str) {
    let refused = answer.expect(409);
    assert_eq!(refused["reason"], "Conflict");
    let wanted = format!("Operation cannot be fulfilled on resourceclaims.resource.k8s.io \"{name}\": {why}");
    assert_eq!(refused["message"], wanted.as_str());
}

const HELD_BY_A: &str = "device d.example.com/p/gpu-0 is allocated to ResourceClaim default/a";

#[tokio::test]
async fn no_write_of_any_kind_gives_a_device_twice() {
    for api in Api::over_each_store().await {
        for name in ["a", "b"] {
            claim(&api, name).await;
        }
        put(&api, "a", &[result("gpu-0")]).await.expect(200);
        conflict(put(&api, "b", &[result("gpu-0")]).await, "b", HELD_BY_A);
        conflict(put(&api, "b", &[result("gpu-1"), result("gpu-0")]).await, "b", HELD_BY_A);
        let status = json!({"status": allocation(&[result("gpu-0")])});
        for patch in ["application/merge-patch+json", "application/strategic-merge-patch+json"] {
            conflict(api.patch(&status_of("b"), patch, &status).await, "b", HELD_BY_A);
        }
        let add = json!([{"op": "add", "path": "/status", "value": allocation(&[result("gpu-0")])}]);
        conflict(api.patch(&status_of("b"), "application/json-patch+json", &add).await, "b", HELD_BY_A);
        let apply = |version: &str| {
            let mut applied = status.clone();
            applied["apiVersion"] = format!("resource.k8s.io/{version}").into();
            applied["kind"] = "ResourceClaim".into();
            applied["metadata"]["name"] = "b".into();
            applied
        };
        for version in ["v1", "v1beta2", "v1beta1"] {
            let path = status_of("b").replace("/v1/", &format!("/{version}/"));
            let applied = format!("{path}?fieldManager=me&force=true");
            let answer = api.patch(&applied, "application/apply-patch+yaml", &apply(version)).await;
            conflict(answer, "b", HELD_BY_A);
            let dry = format!("{path}?dryRun=All");
            conflict(api.patch(&dry, "application/merge-patch+json", &status).await, "b", HELD_BY_A);
        }
        // A claim is made without a status.
        let mut whole = json!({"metadata": {"name": "c"}, "spec": {"devices": {"requests": []}}});
        whole["status"] = allocation(&[result("gpu-0")]);
        let made = api.post(BASE, &whole).await.expect(201);
        assert!(made["status"]["allocation"].is_null());
        put(&api, "b", &[result("gpu-1")]).await.expect(200);
    }
}

#[tokio::test]
async fn a_device_is_free_once_its_claim_gave_it_back_or_is_gone() {
    let api = Api::start().await;
    for name in ["a", "b", "c"] {
        claim(&api, name).await;
    }
    put(&api, "a", &[result("gpu-0")]).await.expect(200);
    // It may go on with what it has, and it holds it until it is gone.
    let reserved = json!({"status": {"reservedFor": [{"resource": "pods", "name": "p", "uid": "u"}]}});
    api.patch(&status_of("a"), "application/merge-patch+json", &reserved).await.expect(200);
    let held = json!({"metadata": {"finalizers": ["example.com/kept"]}});
    api.patch(&format!("{BASE}/a"), "application/merge-patch+json", &held).await.expect(200);
    api.delete(&format!("{BASE}/a"), None).await.expect(200);
    conflict(put(&api, "b", &[result("gpu-0")]).await, "b", HELD_BY_A);
    let free = json!({"metadata": {"finalizers": null}});
    let none = json!({"status": {"reservedFor": null, "allocation": null}});
    api.patch(&status_of("a"), "application/merge-patch+json", &none).await.expect(200);
    put(&api, "b", &[result("gpu-0")]).await.expect(200);
    api.patch(&format!("{BASE}/a"), "application/merge-patch+json", &free).await.expect(200);
    // A claim that is gone, and one of the same name that came after it.
    api.delete(&format!("{BASE}/b"), None).await.expect(200);
    put(&api, "c", &[result("gpu-0")]).await.expect(200);
    claim(&api, "b").await;
    let by_c = "device d.example.com/p/gpu-0 is allocated to ResourceClaim default/c";
    conflict(put(&api, "b", &[result("gpu-0")]).await, "b", by_c);
    put(&api, "c", &[]).await.expect(200);
    put(&api, "c", &[result("gpu-1")]).await.expect(200);
    put(&api, "b", &[result("gpu-0")]).await.expect(200);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
#[allow(clippy::disallowed_methods, reason = "clients of their own")]
async fn of_clients_that_race_for_a_device_one_gets_it() {
    let api = Arc::new(Api::start().await);
    for round in 0..8 {
        let device = format!("gpu-{round}");
        let mut attempts = Vec::new();
        for client in 0..16 {
            let name = format!("c-{round}-{client}");
            claim(&api, &name).await;
            let (api, device) = (Arc::clone(&api), device.clone());
            attempts.push(tokio::spawn(async move {
                let answer = put(&api, &name, &[result(&device)]).await;
                if answer.is(200) {
                    return 1;
                }
                let refused = answer.expect(409)["message"].as_str().unwrap().to_owned();
                assert!(
                    refused.contains(&format!(
                        "device d.example.com/p/{device} is allocated to ResourceClaim default/c-{round}-"
                    )),
                    "{refused}"
                );
                0
            }));
        }
        let mut given = 0;
        for attempt in attempts {
            given += attempt.await.unwrap();
        }
        assert_eq!(given, 1);
    }
}

#[tokio::test]
async fn what_was_allocated_before_a_restart_is_known_after_it() {
    let disk = FaultyDisk::new(1);
    let api = over(Arc::new(disk.clone())).await;
    for name in ["a", "b"] {
        claim(&api, name).await;
    }
    put(&api, "a", &[result("gpu-0")]).await.expect(200);
    drop(api);
    let again = Api::over(Store::open_on(Arc::new(disk.after_kill()), Options::default()).unwrap());
    conflict(put(&again, "b", &[result("gpu-0")]).await, "b", HELD_BY_A);
    put(&again, "a", &[]).await.expect(200);
    put(&again, "b", &[result("gpu-0")]).await.expect(200);
}

/// The client of `a` gets 504: the outcome is unknown. Its write is stored once the disk answers again.
#[tokio::test]
async fn a_write_that_nobody_waits_for_any_longer_still_holds_its_device() {
    let disk = HangingDisk::new();
    let api = over(Arc::new(disk.clone())).await;
    for name in ["a", "b", "c"] {
        claim(&api, name).await;
    }
    put(&api, "c", &[result("gpu-9")]).await.expect(200);
    disk.hang(true);
    tokio::time::pause();
    put(&api, "a", &[result("gpu-0")]).await.expect(504);
    conflict(put(&api, "b", &[result("gpu-0")]).await, "b", HELD_BY_A);
    tokio::time::resume();
    disk.hang(false);
    // The thread that writes may not have begun yet.
    let is_stored = async {
        loop {
            conflict(put(&api, "b", &[result("gpu-0")]).await, "b", HELD_BY_A);
            let stored = api.get(&format!("{BASE}/a")).await.expect(200);
            if stored["status"]["allocation"]["devices"]["results"][0]["device"] == "gpu-0" {
                return;
            }
            tokio::task::yield_now().await;
        }
    };
    let limit = Duration::from_secs(60);
    tokio::time::timeout(limit, is_stored).await.expect("the write is stored once the disk answers");
    conflict(put(&api, "b", &[result("gpu-0")]).await, "b", HELD_BY_A);
}

async fn publish(api: &Api, spec: Value) {
    let mut spec = spec;
    spec["driver"] = "d.example.com".into();
    spec["allNodes"] = true.into();
    let name = if spec["devices"].is_null() { "counters" } else { "devices" };
    spec["pool"] = json!({"name": "p", "generation": 1, "resourceSliceCount": 2});
    api.post(SLICES, &json!({"metadata": {"name": name}, "spec": spec})).await.expect(201);
}

#[tokio::test]
async fn shares_of_a_device_are_told_apart_and_fit_together() {
    let api = Api::start().await;
    let device =
        json!({"name": "gpu-0", "allowMultipleAllocations": true, "capacity": {"memory": {"value": "80Gi"}}});
    publish(&api, json!({"devices": [device]})).await;
    for name in ["a", "b", "c"] {
        claim(&api, name).await;
    }
    put(&api, "a", &[share("gpu-0", 0, "40Gi")]).await.expect(200);
    conflict(put(&api, "b", &[result("gpu-0")]).await, "b", HELD_BY_A);
    let same = format!(
        "share {} of device d.example.com/p/gpu-0 is allocated to ResourceClaim default/a",
        SHARES[0]
    );
    conflict(put(&api, "b", &[share("gpu-0", 0, "1Gi")]).await, "b", &same);
    let more = "device d.example.com/p/gpu-0 does not have as much memory left: another share is allocated to ResourceClaim default/a";
    conflict(put(&api, "b", &[share("gpu-0", 1, "41Gi")]).await, "b", more);
    put(&api, "b", &[share("gpu-0", 1, "40Gi")]).await.expect(200);
    let none_left = put(&api, "c", &[share("gpu-0", 2, "1")]).await.expect(409);
    assert!(none_left["message"].as_str().unwrap().contains("does not have as much memory left"));
    // The driver takes the slice away: nobody says any more that the device is shared.
    put(&api, "b", &[]).await.expect(200);
    api.delete(&format!("{SLICES}/devices"), None).await.expect(200);
    let unknown = "device d.example.com/p/gpu-0 is allocated to ResourceClaim default/a, and no ResourceSlice allows multiple allocations of it";
    conflict(put(&api, "c", &[share("gpu-0", 2, "1Gi")]).await, "c", unknown);
}

#[tokio::test]
async fn parts_of_a_device_fit_into_its_counters() {
    let api = Api::start().await;
    let part = |name: &str, slots: &str| json!({"name": name, "consumesCounters": [{"counterSet": "card", "counters": {"slots": {"value": slots}}}]});
    publish(&api, json!({"sharedCounters": [{"name": "card", "counters": {"slots": {"value": "2"}}}]})).await;
    publish(&api, json!({"devices": [part("half-0", "1"), part("half-1", "1"), part("whole", "2")]})).await;
    for name in ["a", "b"] {
        claim(&api, name).await;
    }
    put(&api, "a", &[result("half-0")]).await.expect(200);
    let full = "the pool of device d.example.com/p/whole does not have as much of counter slots in set card left: a device that draws from it is allocated to ResourceClaim default/a";
    conflict(put(&api, "b", &[result("whole")]).await, "b", full);
    put(&api, "b", &[result("half-1")]).await.expect(200);
    put(&api, "b", &[]).await.expect(200);
    // A device that a claim gives back in the same write is free for that claim.
    put(&api, "a", &[]).await.expect(200);
    put(&api, "a", &[result("whole")]).await.expect(200);
    put(&api, "b", &[result("half-1")]).await.expect(409);
}

#[tokio::test]
async fn access_for_administration_takes_nothing() {
    let api = Api::start().await;
    let label = json!({"metadata": {"labels": {"resource.kubernetes.io/admin-access": "true"}}});
    api.patch("/api/v1/namespaces/default", "application/merge-patch+json", &label).await.expect(200);
    for name in ["a", "b"] {
        claim(&api, name).await;
    }
    let mut watched = result("gpu-0");
    watched["adminAccess"] = true.into();
    put(&api, "a", &[watched.clone()]).await.expect(200);
    put(&api, "b", &[result("gpu-0")]).await.expect(200);
    put(&api, "a", &[]).await.expect(200);
    put(&api, "a", &[watched]).await.expect(200);
}
