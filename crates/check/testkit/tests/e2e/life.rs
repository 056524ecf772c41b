//! How clusters begin, begin again and end.

use std::{
    net::TcpStream,
    sync::atomic::{AtomicBool, Ordering},
    time::Duration,
};

use k8s_openapi::api::core::v1::{ConfigMap, Namespace};
use kube::api::{Api, ListParams, PostParams};
use lazaret_testkit::{Cluster, Plane, User};
use serde_json::json;

use crate::support::{connect, connect_with, object, soon};

fn map(name: &str) -> ConfigMap {
    let mut map = ConfigMap::default();
    map.metadata.name = Some(name.into());
    map
}

#[test]
fn a_test_without_a_runtime_needs_none() {
    let cluster = Cluster::start();
    let maps: Api<ConfigMap> = Api::default_namespaced(cluster.client());
    cluster.block_on(maps.create(&PostParams::default(), &map("a"))).unwrap();
    assert_eq!(cluster.block_on(maps.list(&ListParams::default())).unwrap().items.len(), 1);
    let maps: Api<ConfigMap> = cluster.block_on(async { Api::default_namespaced(connect(&cluster).await) });
    assert_eq!(cluster.block_on(maps.list(&ListParams::default())).unwrap().items.len(), 1);
}

#[tokio::test]
async fn a_test_with_a_runtime_is_not_in_its_own_way() {
    let cluster = Cluster::start();
    let maps: Api<ConfigMap> = Api::default_namespaced(cluster.client());
    maps.create(&PostParams::default(), &map("a")).await.unwrap();
    let outside: Api<ConfigMap> = Api::default_namespaced(connect(&cluster).await);
    assert!(outside.get("a").await.is_ok(), "one server, whichever way in");
    assert_eq!(cluster.block_on(async { 7 }), 7);
}

#[test]
fn a_kubeconfig_is_whole_whenever_it_is_read() {
    let cluster = Cluster::start();
    let path = cluster.kubeconfig();
    let writes = AtomicBool::new(true);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            for _ in 0..200 {
                let _ = cluster.kubeconfig();
            }
            writes.store(false, Ordering::Relaxed);
        });
        while writes.load(Ordering::Relaxed) {
            let text = std::fs::read_to_string(&path).unwrap();
            assert!(text.contains("client-key-data"), "{} bytes", text.len());
        }
    });
}

#[tokio::test]
async fn clusters_share_nothing() {
    let (one, other) = (Cluster::start(), Cluster::start());
    let maps = |cluster: &Cluster| Api::<ConfigMap>::default_namespaced(cluster.client());
    maps(&one).create(&PostParams::default(), &map("a")).await.unwrap();
    assert!(maps(&other).get("a").await.is_err());
    assert_ne!(one.address(), other.address());
    let stranger = one.kubeconfig();
    let text = std::fs::read_to_string(&stranger).unwrap();
    let misled = text.replace(&one.address().to_string(), &other.address().to_string());
    std::fs::write(&stranger, misled).unwrap();
    let maps: Api<ConfigMap> = Api::default_namespaced(connect_with(&stranger).await);
    assert!(maps.list(&ListParams::default()).await.is_err(), "nor do their certificates hold elsewhere");
}

#[tokio::test]
async fn somebody_may_do_what_their_roles_allow() {
    let cluster = Cluster::start();
    let alice = User { name: "alice".into(), groups: vec!["people".into()], ..User::default() };
    let maps: Api<ConfigMap> = Api::default_namespaced(cluster.client_as(alice));
    match maps.list(&ListParams::default()).await {
        Err(kube::Error::Api(status)) => assert_eq!(status.code, 403),
        other => panic!("{other:?}"),
    }
    let maps: Api<ConfigMap> =
        Api::default_namespaced(connect_with(&cluster.kubeconfig_as("alice", "people")).await);
    match maps.list(&ListParams::default()).await {
        Err(kube::Error::Api(status)) => assert!(status.message.contains("alice"), "{}", status.message),
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn objects_on_disk_survive_a_restart_and_the_address_stays() {
    let mut cluster = Cluster::options().durable().start().unwrap();
    let client = connect(&cluster).await;
    let maps: Api<ConfigMap> = Api::default_namespaced(client);
    let made = maps.create(&PostParams::default(), &map("a")).await.unwrap();
    let address = cluster.address();
    cluster.restart().unwrap();
    assert_eq!(cluster.address(), address);
    let found = tokio::time::timeout(Duration::from_secs(60), async {
        loop {
            // The connection of before is dead; the client may need a try to notice.
            if let Ok(found) = maps.get("a").await {
                return found;
            }
        }
    });
    assert_eq!(found.await.unwrap().metadata.uid, made.metadata.uid);
    let later = maps.create(&PostParams::default(), &map("b")).await.unwrap();
    let number = |map: &ConfigMap| map.metadata.resource_version.as_ref().unwrap().parse::<u64>().unwrap();
    assert!(number(&later) > number(&made), "revisions never go back");
}

#[tokio::test]
async fn a_cluster_in_memory_begins_anew() {
    let mut cluster = Cluster::start();
    let maps: Api<ConfigMap> = Api::default_namespaced(cluster.client());
    maps.create(&PostParams::default(), &map("a")).await.unwrap();
    cluster.restart().unwrap();
    let maps: Api<ConfigMap> = Api::default_namespaced(cluster.client());
    assert!(maps.get("a").await.is_err());
    maps.create(&PostParams::default(), &map("a")).await.unwrap();
}

#[tokio::test]
async fn what_is_dropped_leaves_nothing_behind() {
    let cluster = Cluster::options().durable().start().unwrap();
    let (address, kubeconfig) = (cluster.address(), cluster.kubeconfig());
    let maps: Api<ConfigMap> = Api::default_namespaced(connect_with(&kubeconfig).await);
    maps.list(&ListParams::default()).await.unwrap();
    assert!(kubeconfig.exists());
    drop(cluster);
    assert!(!kubeconfig.exists());
    assert!(TcpStream::connect(address).is_err(), "nobody listens any more");
}

#[tokio::test]
async fn every_namespace_knows_which_certificate_to_trust() {
    let cluster = Cluster::options().plane(Plane::simulated(0, 0)).start().unwrap();
    let namespaces: Api<Namespace> = Api::all(cluster.client());
    namespaces.create(&PostParams::default(), &object(json!({"metadata": {"name": "new"}}))).await.unwrap();
    let read = async |namespace: &str| {
        let maps: Api<ConfigMap> = Api::namespaced(cluster.client(), namespace);
        maps.get_opt("kube-root-ca.crt").await.unwrap().and_then(|map| map.data?.remove("ca.crt"))
    };
    let published = read("kube-system").await.unwrap();
    assert!(published.starts_with("-----BEGIN CERTIFICATE-----"));
    let copied = async {
        while read("new").await.is_none() {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    soon("the certificate is in the new namespace", copied).await;
    assert_eq!(read("new").await.unwrap(), published);
}

#[test]
fn a_folder_of_the_tests_own_stays_and_has_one_user_at_a_time() {
    let folder = tempfile::tempdir().unwrap();
    let cluster = Cluster::options().folder(folder.path()).start().unwrap();
    let maps: Api<ConfigMap> = Api::default_namespaced(cluster.client());
    cluster.block_on(maps.create(&PostParams::default(), &map("a"))).unwrap();
    assert!(Cluster::options().folder(folder.path()).start().is_err(), "somebody is there");
    drop(cluster);
    let cluster = Cluster::options().folder(folder.path()).start().unwrap();
    let maps: Api<ConfigMap> = Api::default_namespaced(cluster.client());
    assert!(cluster.block_on(maps.get("a")).is_ok());
}
