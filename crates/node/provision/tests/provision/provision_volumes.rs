//! Volumes on disk: their content, how it changes, and that no path leads out of them.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test that cannot go on has failed")]

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    os::unix::fs::{FileTypeExt, MetadataExt, PermissionsExt, symlink},
    path::{Path, PathBuf},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use crate::support::{MemoryObjects, UID, facts, image, merge, pod, pod_with};
use k8s_openapi::api::core::v1::Pod;
use lazaret_images::Image;
use lazaret_provision::{
    Objects, Provision, SpecError, StartFacts, VolumeError, Volumes, last_output, storage_violation,
    termination_message,
};
use serde_json::{Value, json};
use tempfile::TempDir;

struct Node {
    root: TempDir,
    shelf: Arc<MemoryObjects>,
    provision: Provision,
}

impl Node {
    fn new() -> Self {
        let root = TempDir::new().unwrap();
        let shelf = Arc::new(MemoryObjects::default());
        let objects: Arc<dyn Objects> = Arc::clone(&shelf) as _;
        let provision = Provision::new(root.path(), facts(), objects).unwrap();
        Self { root, shelf, provision }
    }

    fn volumes(&self) -> &Volumes {
        self.provision.volumes()
    }

    /// A volume of the pod.
    fn path(&self, kind: &str, name: &str) -> PathBuf {
        self.root
            .path()
            .canonicalize()
            .unwrap()
            .join("pods")
            .join(UID)
            .join(format!("volumes/kubernetes.io~{kind}/{name}"))
    }

    async fn set_up(&self, pod: &Pod) -> Result<(), String> {
        self.provision
            .set_up(pod)
            .await
            .map_err(|errors| errors.iter().map(ToString::to_string).collect::<Vec<_>>().join("; "))
    }

    async fn container(
        &self,
        pod: &Pod,
        image: &Image,
    ) -> Result<lazaret_containers::ContainerSpec, SpecError> {
        let live = StartFacts { pod_ips: vec!["10.1.0.5".to_owned()], ..StartFacts::default() };
        self.provision.container(pod, "main", 0, image, &live).await
    }
}

impl Drop for Node {
    /// Nothing stays mounted, however the test ends.
    fn drop(&mut self) {
        let Ok(root) = self.root.path().canonicalize() else { return };
        let table = fs::read_to_string("/proc/self/mountinfo").unwrap_or_default();
        for line in table.lines().rev() {
            let at = line.split(' ').nth(4).unwrap_or_default().replace("\\040", " ");
            if Path::new(&at).starts_with(&root) {
                let _ = rustix::mount::unmount(at, rustix::mount::UnmountFlags::DETACH);
            }
        }
    }
}

/// A pod with one volume `v`, mounted at `/v`.
fn with_volume(source: Value) -> Pod {
    with_mount(source, json!({}))
}

fn with_mount(source: Value, fields: Value) -> Pod {
    let mut volume = json!({"name": "v"});
    merge(&mut volume, source);
    let mut mount = json!({"name": "v", "mountPath": "/v"});
    merge(&mut mount, fields);
    pod(json!({
        "containers": [{"name": "main", "image": "a", "volumeMounts": [mount]}],
        "volumes": [volume],
        "serviceAccountName": "robot",
    }))
}

fn names(path: &Path) -> Vec<String> {
    let mut names: Vec<String> =
        fs::read_dir(path).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

/// The names that a container sees, without the writer's own.
fn visible(path: &Path) -> Vec<String> {
    names(path).into_iter().filter(|name| !name.starts_with("..")).collect()
}

fn read(path: PathBuf) -> String {
    fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

fn mode(path: PathBuf) -> u32 {
    fs::metadata(path).unwrap().permissions().mode() & 0o7777
}

fn is_root() -> bool {
    fs::metadata("/proc/self").unwrap().uid() == 0
}

#[tokio::test]
async fn config_maps_become_files() {
    let node = Node::new();
    node.shelf.put_config_map("settings", &[("a.conf", "one"), ("b", "two")]);
    let pod = with_volume(json!({"configMap": {"name": "settings"}}));
    node.set_up(&pod).await.unwrap();
    let path = node.path("configmap", "v");
    assert_eq!(visible(&path), ["a.conf", "b"]);
    assert_eq!(read(path.join("a.conf")), "one");
    assert_eq!(mode(path.join("b")), 0o644);
    assert_eq!(fs::read_link(path.join("b")).unwrap(), Path::new("..data/b"));
    let version = fs::read_link(path.join("..data")).unwrap().into_os_string().into_string().unwrap();
    assert!(version.starts_with("..20"), "{version}");
    // Once more changes nothing.
    node.set_up(&pod).await.unwrap();
    assert_eq!(fs::read_link(path.join("..data")).unwrap(), Path::new(&version));
    let paths = node.volumes().paths(&pod).unwrap();
    assert_eq!((paths["v"].path.clone(), paths["v"].is_read_only), (path, true));
}

#[tokio::test]
async fn keys_get_other_paths_and_modes() {
    let node = Node::new();
    node.shelf.put_secret("keys", &[("tls.key", b"k"), ("tls.crt", b"c"), ("rest", b"\xff")]);
    let pod = with_volume(json!({"secret": {"secretName": "keys", "defaultMode": 0o400, "items": [
        {"key": "tls.key", "path": "private/deep/key", "mode": 0o600},
        {"key": "tls.crt", "path": "./crt"},
    ]}}));
    node.set_up(&pod).await.unwrap();
    let path = node.path("secret", "v");
    assert_eq!(visible(&path), ["crt", "private"]);
    assert_eq!(read(path.join("private/deep/key")), "k");
    assert_eq!(mode(path.join("private/deep/key")), 0o600);
    assert_eq!(mode(path.join("crt")), 0o400);
    // A secret is never on disk where memory can be mounted.
    let table = fs::read_to_string("/proc/self/mountinfo").unwrap();
    let is_in_memory =
        table.lines().any(|line| line.contains(path.to_str().unwrap()) && line.contains("tmpfs"));
    assert_eq!(is_in_memory, is_root());
    node.provision.tear_down(UID).await.unwrap();
    assert!(!path.exists());
}

#[tokio::test]
async fn what_is_missing_is_an_event() {
    let node = Node::new();
    node.shelf.put_config_map("settings", &[("a", "1")]);
    node.shelf.put_secret("keys", &[("a", b"1")]);
    let cases = [
        (json!({"configMap": {"name": "none"}}), "configmap \"none\" not found"),
        (json!({"secret": {"secretName": "none"}}), "secret \"none\" not found"),
        (
            json!({"configMap": {"name": "settings", "items": [{"key": "x", "path": "x"}]}}),
            "configmap references non-existent config key: x",
        ),
        (
            json!({"secret": {"secretName": "keys", "items": [{"key": "x", "path": "x"}]}}),
            "references non-existent secret key: x",
        ),
        (
            json!({"persistentVolumeClaim": {"claimName": "c"}}),
            "persistentVolumeClaim volumes are not supported on this node",
        ),
        (json!({"nfs": {"server": "s", "path": "/"}}), "nfs volumes are not supported on this node"),
        (json!({"csi": {"driver": "d"}}), "csi volumes are not supported on this node"),
        (
            json!({"emptyDir": {"medium": "HugePages"}}),
            "storage medium \"HugePages\" is not supported on this node",
        ),
        (
            json!({"projected": {"sources": [{"clusterTrustBundle": {"name": "b", "path": "p"}}]}}),
            "clusterTrustBundle projections are not supported on this node",
        ),
    ];
    for (source, message) in cases {
        let error = node.set_up(&with_volume(source)).await.unwrap_err();
        assert_eq!(error, format!("MountVolume.SetUp failed for volume \"v\" : {message}"));
    }
    assert_eq!(VolumeError::REASON, "FailedMount");
    for optional in [
        json!({"configMap": {"name": "none", "optional": true}}),
        json!({"secret": {"secretName": "none", "optional": true}}),
        json!({"configMap": {"name": "settings", "optional": true, "items": [{"key": "x", "path": "x"}]}}),
    ] {
        node.set_up(&with_volume(optional)).await.unwrap();
    }
    node.shelf.set_broken(Some("etcd is on fire"));
    let fresh = with_volume(json!({"configMap": {"name": "other"}}));
    assert!(node.set_up(&fresh).await.unwrap_err().ends_with("etcd is on fire"));
}

#[tokio::test]
async fn volumes_that_no_container_uses_are_left_out() {
    let node = Node::new();
    let pod = pod(json!({
        "containers": [{"name": "main", "image": "a"}],
        "volumes": [{"name": "v", "configMap": {"name": "none"}}],
    }));
    node.set_up(&pod).await.unwrap();
    assert!(node.volumes().paths(&pod).unwrap().is_empty());
}

#[tokio::test(start_paused = true)]
async fn changes_arrive_within_a_minute_and_as_one() {
    let node = Node::new();
    node.shelf.put_config_map("settings", &[("a", "1"), ("b", "1"), ("dir", "x")]);
    let pod = with_volume(json!({"configMap": {"name": "settings"}}));
    node.set_up(&pod).await.unwrap();
    let path = node.path("configmap", "v");
    node.shelf.put_config_map("settings", &[("a", "2"), ("c", "2")]);
    tokio::time::advance(Duration::from_secs(60)).await;
    assert!(node.provision.refresh(&pod).await.is_empty());
    assert_eq!(visible(&path), ["a", "c"]);
    assert_eq!(read(path.join("a")), "2");
    // The old version is gone.
    assert_eq!(names(&path).len(), 4);
    // When the object is deleted, the content stays, and the reason is reported.
    node.shelf.config_maps.lock().unwrap().clear();
    tokio::time::advance(Duration::from_secs(60)).await;
    let errors = node.provision.refresh(&pod).await;
    assert_eq!(errors[0].message, "configmap \"settings\" not found");
    assert_eq!(read(path.join("a")), "2");
    // Leftovers of a crash do no harm.
    node.shelf.put_config_map("settings", &[("a", "3")]);
    symlink("nowhere", path.join("..data_tmp")).unwrap();
    fs::create_dir_all(path.join("..2020_01_01/x/y")).unwrap();
    tokio::time::advance(Duration::from_secs(60)).await;
    assert!(node.provision.refresh(&pod).await.is_empty());
    assert_eq!(read(path.join("a")), "3");
    assert_eq!(names(&path).len(), 3);
    // A pod that was torn down is not brought back.
    node.provision.tear_down(UID).await.unwrap();
    assert!(node.provision.refresh(&pod).await.is_empty());
    assert!(!path.exists());
}

/// A reader sees the files of one version, however fast versions follow each other.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_reader_sees_one_whole_version() {
    const VERSIONS: usize = 200;
    let node = Node::new();
    let put = |version: usize| {
        let text = format!("{version}\n").repeat(500);
        node.shelf
            .put_secret("keys", &[("a", text.as_bytes()), ("b", text.as_bytes()), ("c", text.as_bytes())]);
    };
    put(0);
    let path = node.path("secret", "v");
    let pod = with_volume(json!({"secret": {"secretName": "keys"}}));
    node.set_up(&pod).await.unwrap();
    let done = Arc::new(AtomicBool::new(false));
    let reader = {
        let (done, path) = (Arc::clone(&done), path.clone());
        std::thread::spawn(move || {
            let (mut whole, mut last) = (0, 0);
            while !done.load(Ordering::SeqCst) || whole == 0 {
                // The directory of one version, as a program holds it that reads several files.
                let Ok(version) = fs::canonicalize(path.join("..data")) else { continue };
                let all: Result<Vec<String>, _> =
                    ["a", "b", "c"].iter().map(|name| fs::read_to_string(version.join(name))).collect();
                // It was removed meanwhile: the reader begins again.
                let Ok(all) = all else { continue };
                assert!(all[0].len() >= 1000 && all[0] == all[1] && all[1] == all[2]);
                let number: usize = all[0].lines().next().unwrap().parse().unwrap();
                assert!(number >= last, "{number} after {last}");
                (whole, last) = (whole + 1, number);
            }
            last
        })
    };
    for version in 1..=VERSIONS {
        put(version);
        // A new object for each: the cache would give the old one for a while.
        let name = format!("keys-{version}");
        let object = node.shelf.secrets.lock().unwrap()["keys"].clone();
        node.shelf.secrets.lock().unwrap().insert(name.clone(), object);
        node.set_up(&with_volume(json!({"secret": {"secretName": name}}))).await.unwrap();
    }
    done.store(true, Ordering::SeqCst);
    let last = reader.join().unwrap();
    assert!(last <= VERSIONS);
    assert_eq!(read(path.join("a")).lines().next(), Some("200"));
}

#[tokio::test(start_paused = true)]
async fn one_read_serves_many_pods() {
    let node = Arc::new(Node::new());
    node.shelf.put_config_map("settings", &[("a", "1")]);
    let mut tasks = tokio::task::JoinSet::new();
    for at in 0..50 {
        let node = Arc::clone(&node);
        tasks.spawn(async move {
            let mut pod = with_volume(json!({"configMap": {"name": "settings"}}));
            pod.metadata.uid = Some(format!("pod-{at}"));
            node.set_up(&pod).await.unwrap();
        });
    }
    tasks.join_all().await;
    assert_eq!(node.shelf.reads.load(Ordering::SeqCst), 1);
    assert_eq!(node.volumes().orphans(&BTreeSet::new()).unwrap().len(), 50);
    // A pod that starts later sees the content of that time.
    node.shelf.put_config_map("settings", &[("a", "2")]);
    tokio::time::advance(Duration::from_secs(2)).await;
    node.set_up(&with_volume(json!({"configMap": {"name": "settings"}}))).await.unwrap();
    assert_eq!(read(node.path("configmap", "v").join("a")), "2");
}

#[tokio::test(start_paused = true)]
async fn what_never_changes_is_not_read_again() {
    let node = Node::new();
    node.shelf.put_config_map("settings", &[("a", "1")]);
    node.shelf.config_maps.lock().unwrap().get_mut("settings").unwrap().immutable = Some(true);
    let pod = with_volume(json!({"configMap": {"name": "settings"}}));
    node.set_up(&pod).await.unwrap();
    for _ in 0..10 {
        tokio::time::advance(Duration::from_secs(60)).await;
        assert!(node.provision.refresh(&pod).await.is_empty());
    }
    assert_eq!(node.shelf.reads.load(Ordering::SeqCst), 1);
}

fn token_pod() -> Pod {
    with_volume(json!({"projected": {"defaultMode": 0o640, "sources": [
        {"serviceAccountToken": {"path": "token", "expirationSeconds": 3600, "audience": "bank"}},
        {"configMap": {"name": "kube-root-ca.crt", "items": [{"key": "ca.crt", "path": "ca.crt"}]}},
        {"downwardAPI": {"items": [
            {"path": "namespace", "fieldRef": {"fieldPath": "metadata.namespace"}},
            {"path": "cpu", "resourceFieldRef": {"containerName": "main", "resource": "limits.cpu"}},
        ]}},
    ]}}))
}

#[tokio::test(start_paused = true)]
async fn tokens_are_renewed_when_a_fifth_of_their_life_is_left() {
    let node = Node::new();
    node.shelf.put_config_map("kube-root-ca.crt", &[("ca.crt", "PEM")]);
    let pod = token_pod();
    node.set_up(&pod).await.unwrap();
    let path = node.path("projected", "v");
    let token = |count: usize| format!("shop/robot/web/{UID}/bank/{count}");
    assert_eq!(visible(&path), ["ca.crt", "cpu", "namespace", "token"]);
    assert_eq!(read(path.join("token")), token(0));
    assert_eq!((read(path.join("namespace")), read(path.join("cpu"))), ("shop".to_owned(), "4".to_owned()));
    assert_eq!(mode(path.join("token")), 0o640);
    tokio::time::advance(Duration::from_secs(47 * 60)).await;
    assert!(node.provision.refresh(&pod).await.is_empty());
    assert_eq!(read(path.join("token")), token(0));
    tokio::time::advance(Duration::from_secs(2 * 60)).await;
    assert!(node.provision.refresh(&pod).await.is_empty());
    assert_eq!(read(path.join("token")), token(1));
    // A server that is away does not take the token away before its time.
    tokio::time::advance(Duration::from_secs(49 * 60)).await;
    let only_token = {
        let mut pod = pod.clone();
        let sources = pod.spec.as_mut().unwrap().volumes.as_mut().unwrap()[0].projected.as_mut().unwrap();
        sources.sources.as_mut().unwrap().truncate(1);
        pod
    };
    node.shelf.set_broken(Some("away"));
    assert!(node.provision.refresh(&only_token).await.is_empty());
    assert_eq!(read(path.join("token")), token(1));
    tokio::time::advance(Duration::from_secs(20 * 60)).await;
    let errors = node.provision.refresh(&only_token).await;
    assert_eq!(errors[0].message, "token expired and refresh failed: away");
}

#[tokio::test]
async fn a_token_is_for_its_user_alone() {
    let node = Node::new();
    node.shelf.put_config_map("kube-root-ca.crt", &[("ca.crt", "PEM")]);
    let mut pod = token_pod();
    let own = fs::metadata(node.root.path()).unwrap();
    let security = serde_json::from_value(json!({"runAsUser": own.uid()})).unwrap();
    pod.spec.as_mut().unwrap().security_context = Some(security);
    node.set_up(&pod).await.unwrap();
    let token = fs::metadata(node.path("projected", "v").join("token")).unwrap();
    assert_eq!((token.permissions().mode() & 0o777, token.uid()), (0o600, own.uid()));
}

#[tokio::test]
async fn a_group_may_read_what_is_written_for_it() {
    let node = Node::new();
    node.shelf.put_config_map("settings", &[("a/..".trim_end_matches("/.."), "1")]);
    // One that this process is in, whichever user runs the test.
    let group = fs::metadata(node.root.path()).unwrap().gid();
    for source in [json!({"configMap": {"name": "settings", "defaultMode": 0o400}}), json!({"emptyDir": {}})]
    {
        let mut pod = with_volume(source);
        let security = serde_json::from_value(json!({"fsGroup": group})).unwrap();
        pod.spec.as_mut().unwrap().security_context = Some(security);
        node.set_up(&pod).await.unwrap();
    }
    let written = node.path("configmap", "v");
    assert_eq!(mode(written.join("a")), 0o440);
    assert_eq!(fs::metadata(written.join("a")).unwrap().gid(), group);
    assert_eq!(mode(written.join("..data")), 0o2755);
    assert_eq!(mode(node.path("empty-dir", "v")), 0o2777);
}

#[tokio::test]
async fn empty_directories() {
    let node = Node::new();
    node.set_up(&with_volume(json!({"emptyDir": {}}))).await.unwrap();
    let path = node.path("empty-dir", "v");
    assert_eq!(mode(path.clone()), 0o777);
    // Its content stays while the pod does.
    fs::write(path.join("x"), "kept").unwrap();
    node.set_up(&with_volume(json!({"emptyDir": {}}))).await.unwrap();
    assert_eq!(read(path.join("x")), "kept");
    let moded = Node::new();
    moded.set_up(&with_volume(json!({"emptyDir": {"mode": 0o1770}}))).await.unwrap();
    assert_eq!(mode(moded.path("empty-dir", "v")), 0o1770);
}

#[tokio::test]
async fn empty_directories_in_memory_have_a_size() {
    let node = Node::new();
    let pod = with_volume(json!({"emptyDir": {"medium": "Memory", "sizeLimit": "1Mi"}}));
    let result = node.set_up(&pod).await;
    if !is_root() {
        assert!(result.unwrap_err().contains("mount tmpfs"));
        return;
    }
    result.unwrap();
    let path = node.path("empty-dir", "v");
    let table = || fs::read_to_string("/proc/self/mountinfo").unwrap();
    let line =
        |table: &str| table.lines().find(|line| line.contains(path.to_str().unwrap())).map(str::to_owned);
    assert!(line(&table()).unwrap().contains("size=1024k"));
    assert_eq!(mode(path.clone()), 0o777);
    // Once more mounts nothing on top.
    fs::write(path.join("x"), "kept").unwrap();
    node.set_up(&pod).await.unwrap();
    assert_eq!(read(path.join("x")), "kept");
    assert!(fs::write(path.join("y"), vec![0; 2 << 20]).is_err());
    node.provision.tear_down(UID).await.unwrap();
    assert_eq!(line(&table()), None);
    assert!(!path.exists());
}

#[tokio::test]
async fn paths_of_the_host_are_what_they_are_said_to_be() {
    let node = Node::new();
    let place = TempDir::new().unwrap();
    let at = |name: &str| place.path().join(name).to_str().unwrap().to_owned();
    fs::create_dir(at("dir")).unwrap();
    fs::write(at("file"), "").unwrap();
    let _socket = std::os::unix::net::UnixListener::bind(at("socket")).unwrap();
    let cases = [
        (at("dir"), "", None),
        (at("dir"), "Directory", None),
        (at("dir"), "DirectoryOrCreate", None),
        (at("made/deep"), "DirectoryOrCreate", None),
        (at("new-file"), "FileOrCreate", None),
        (at("file"), "File", None),
        (at("socket"), "Socket", None),
        ("/dev/null".to_owned(), "CharDevice", None),
        (at("file"), "Directory", Some("is not a directory, it's a File")),
        (at("dir"), "File", Some("is not a file, it's a Directory")),
        (at("dir"), "FileOrCreate", Some("is not a file, it's a Directory")),
        (at("file"), "Socket", Some("is not a socket file, it's a File")),
        (at("socket"), "CharDevice", Some("is not a character device, it's a Socket")),
        ("/dev/null".to_owned(), "BlockDevice", Some("is not a block device, it's a CharDevice")),
        (at("none"), "Directory", Some("unable to determine its type")),
        (at("none"), "File", Some("unable to determine its type")),
        (at("dir"), "Strange", Some("Strange is an invalid volume type")),
        (at("dir/../../.."), "", Some("must not contain '..'")),
        ("relative".to_owned(), "", Some("must be an absolute path")),
    ];
    for (path, kind, problem) in cases {
        let pod = with_volume(json!({"hostPath": {"path": path, "type": kind}}));
        match (node.set_up(&pod).await, problem) {
            (Ok(()), None) => {}
            (Err(error), Some(problem)) => assert!(error.contains(problem), "{path} {kind}: {error}"),
            (result, _) => panic!("{path} {kind}: {result:?}"),
        }
    }
    assert!(fs::metadata(at("made/deep")).unwrap().is_dir());
    assert!(fs::metadata(at("new-file")).unwrap().is_file());
    assert!(fs::metadata(at("socket")).unwrap().file_type().is_socket());
    // Tearing the pod down leaves them alone.
    node.provision.tear_down(UID).await.unwrap();
    assert!(fs::metadata(at("dir")).unwrap().is_dir());
}

#[tokio::test]
async fn no_key_and_no_item_leads_out_of_a_volume() {
    let node = Node::new();
    let long = "n".repeat(256);
    for path in [
        "../x",
        "..",
        "a/../../x",
        "/etc/passwd",
        "..data",
        "..data/x",
        "..2020/x",
        "",
        ".",
        "a\u{0}b",
        &long,
    ] {
        node.shelf.put_config_map("settings", &[("k", "1")]);
        let item = json!({"configMap": {"name": "settings", "items": [{"key": "k", "path": path}]}});
        let error = node.set_up(&with_volume(item)).await.unwrap_err();
        assert!(error.contains("invalid path"), "{path:?}: {error}");
        let name = format!("odd-{}", path.len());
        node.shelf.put_config_map(&name, &[(path, "1")]);
        let key = json!({"configMap": {"name": name}});
        assert!(node.set_up(&with_volume(key)).await.is_err(), "{path:?}");
        let token = json!({"projected": {"sources": [{"serviceAccountToken": {"path": path}}]}});
        assert!(node.set_up(&with_volume(token)).await.is_err(), "{path:?}");
        let field =
            json!({"downwardAPI": {"items": [{"path": path, "fieldRef": {"fieldPath": "metadata.name"}}]}});
        assert!(node.set_up(&with_volume(field)).await.is_err(), "{path:?}");
    }
    // A file cannot be a directory too.
    node.shelf.put_config_map("both", &[("a", "1"), ("b", "2")]);
    for paths in [["x", "x/y"], ["x/y", "x"]] {
        let items = json!([{"key": "a", "path": paths[0]}, {"key": "b", "path": paths[1]}]);
        let pod = with_volume(json!({"configMap": {"name": "both", "items": items}}));
        assert!(node.set_up(&pod).await.unwrap_err().contains("already"));
    }
    assert_eq!(names(node.root.path()), ["pods"]);
}

#[tokio::test]
async fn a_volume_has_a_size() {
    let node = Node::new();
    let large = "x".repeat(9 << 20);
    node.shelf.put_config_map("large-1", &[("a", &large)]);
    node.shelf.put_config_map("large-2", &[("b", &large)]);
    let source = |name: &str| json!({"configMap": {"name": name}});
    let pod = with_volume(json!({"projected": {"sources": [source("large-1"), source("large-2")]}}));
    let error = node.set_up(&pod).await.unwrap_err();
    assert!(error.ends_with("the volume would have more than 16777216 bytes"), "{error}");
    let keys: Vec<String> = (0..20_000).map(|at| at.to_string()).collect();
    let data: Vec<(&str, &str)> = keys.iter().map(|key| (key.as_str(), "")).collect();
    node.shelf.put_config_map("many", &data);
    let error = node.set_up(&with_volume(source("many"))).await.unwrap_err();
    assert!(error.ends_with("the volume would have more than 16384 files"), "{error}");
    assert!(!node.path("projected", "v").exists());
    // Nor does a pod get more by having more of them.
    let many = |count: usize, source: Value| {
        let mounts: Vec<Value> =
            (0..count).map(|at| json!({"name": format!("v{at}"), "mountPath": format!("/v{at}")})).collect();
        let volumes: Vec<Value> = (0..count)
            .map(|at| {
                let mut volume = json!({"name": format!("v{at}")});
                merge(&mut volume, source.clone());
                volume
            })
            .collect();
        crate::support::pod(
            json!({"containers": [{"name": "main", "image": "a", "volumeMounts": mounts}], "volumes": volumes}),
        )
    };
    let error = node.set_up(&many(8, source("large-1"))).await.unwrap_err();
    assert_eq!(
        error.matches("the volumes of the pod would have more than 67108864 bytes").count(),
        1,
        "{error}"
    );
    let error = node.set_up(&many(513, json!({"emptyDir": {}}))).await.unwrap_err();
    assert!(error.ends_with("a pod has at most 512 volumes on this node"), "{error}");
}

#[tokio::test]
async fn what_is_printed_has_no_secrets() {
    let node = Node::new();
    node.shelf.put_config_map("kube-root-ca.crt", &[("ca.crt", "PEM")]);
    node.set_up(&token_pod()).await.unwrap();
    let printed = format!("{:?}", node.provision);
    assert!(!printed.contains(&format!("{UID}/bank/0")), "{printed}");
}

#[tokio::test]
async fn places_for_inner_mounts_are_made() {
    let node = Node::new();
    node.shelf.put_config_map("settings", &[("a", "1")]);
    let pod = pod(json!({
        "containers": [{"name": "main", "image": "a", "volumeMounts": [
            {"name": "v", "mountPath": "/etc/app"},
            {"name": "w", "mountPath": "/etc/app/data/more"},
        ]}],
        "volumes": [{"name": "v", "configMap": {"name": "settings"}}, {"name": "w", "emptyDir": {}}],
    }));
    node.set_up(&pod).await.unwrap();
    let path = node.path("configmap", "v");
    assert!(path.join("data/more").is_dir());
    assert!(node.provision.refresh(&pod).await.is_empty());
    assert_eq!(visible(&path), ["a", "data"]);
}

#[tokio::test]
async fn tearing_down_takes_a_pods_own_and_nothing_else() {
    let node = Node::new();
    let outside = TempDir::new().unwrap();
    fs::write(outside.path().join("precious"), "").unwrap();
    node.set_up(&with_volume(json!({"emptyDir": {}}))).await.unwrap();
    let path = node.path("empty-dir", "v");
    symlink(outside.path(), path.join("link")).unwrap();
    symlink(outside.path().join("precious"), path.join("file-link")).unwrap();
    symlink("/", path.join("root")).unwrap();
    fs::create_dir_all(path.join("a/b")).unwrap();
    symlink("../../..", path.join("a/b/up")).unwrap();
    fs::write(path.join("a/odd \n name"), "").unwrap();
    // Deeper than any path can be, and than directories can be open at a time.
    let mut deep = rustix::fs::open(&path, rustix::fs::OFlags::DIRECTORY, rustix::fs::Mode::empty()).unwrap();
    for _ in 0..3000 {
        rustix::fs::mkdirat(&deep, "d", rustix::fs::Mode::from_raw_mode(0o700)).unwrap();
        let flags = rustix::fs::OFlags::DIRECTORY;
        deep = rustix::fs::openat(&deep, "d", flags, rustix::fs::Mode::empty()).unwrap();
    }
    let mut other = with_volume(json!({"emptyDir": {}}));
    other.metadata.uid = Some("other".to_owned());
    node.set_up(&other).await.unwrap();
    let known = BTreeSet::from(["other".to_owned()]);
    assert_eq!(node.volumes().orphans(&known).unwrap(), [UID]);
    node.provision.tear_down(UID).await.unwrap();
    assert_eq!(node.volumes().orphans(&known).unwrap(), Vec::<String>::new());
    assert!(outside.path().join("precious").exists());
    assert_eq!(names(&node.root.path().join("pods")), ["other"]);
    // Once more is no error.
    node.provision.tear_down(UID).await.unwrap();
    for wrong in ["", "..", ".", "../pods", "a/b", "/"] {
        assert!(node.provision.tear_down(wrong).await.is_err(), "{wrong}");
    }
    assert!(node.root.path().join("pods/other").exists());
}

#[tokio::test]
async fn tearing_down_deletes_nothing_through_a_mount() {
    let node = Node::new();
    let outside = TempDir::new().unwrap();
    fs::write(outside.path().join("precious"), "").unwrap();
    node.set_up(&with_volume(json!({"emptyDir": {}}))).await.unwrap();
    let inside = node.path("empty-dir", "v").join("a b");
    fs::create_dir(&inside).unwrap();
    let mounted = rustix::mount::mount_bind(outside.path(), &inside);
    assert_eq!(mounted.is_ok(), is_root());
    node.provision.tear_down(UID).await.unwrap();
    assert!(outside.path().join("precious").exists());
    assert!(!node.root.path().join("pods").join(UID).exists());
}

#[tokio::test]
async fn parts_of_volumes_stay_inside() {
    let node = Node::new();
    let outside = TempDir::new().unwrap();
    fs::write(outside.path().join("secret"), "s").unwrap();
    let part = |path: &str| with_mount(json!({"emptyDir": {}}), json!({"subPath": path}));
    node.set_up(&part("x")).await.unwrap();
    let volume = node.path("empty-dir", "v");
    symlink(outside.path(), volume.join("out")).unwrap();
    symlink(outside.path().join("secret"), volume.join("out-file")).unwrap();
    symlink("../../../..", volume.join("up")).unwrap();
    symlink("/proc/self/root", volume.join("magic")).unwrap();
    symlink("loop", volume.join("loop")).unwrap();
    fs::create_dir(volume.join("real")).unwrap();
    fs::write(volume.join("real/file"), "f").unwrap();
    symlink("real", volume.join("within")).unwrap();
    for path in [
        "out",
        "out/x",
        "out-file",
        "up",
        "up/pods",
        "magic",
        "magic/etc",
        "loop",
        "within/../out",
        "real/file/x",
    ] {
        let error = node.container(&part(path), &image()).await.unwrap_err();
        assert_eq!(error.reason, "CreateContainerConfigError", "{path}");
        assert!(!error.message.contains(outside.path().to_str().unwrap()), "{}", error.message);
    }
    assert_eq!(names(outside.path()), ["secret"]);
    if !is_root() {
        assert!(node.container(&part("real"), &image()).await.is_err());
        return;
    }
    let source = |spec: lazaret_containers::ContainerSpec| {
        let mount = spec.mounts.into_iter().find(|mount| mount.target == Path::new("/v")).unwrap();
        mount.source
    };
    // A directory, a file, a link that stays inside, and what is made because it was missing.
    let found = source(node.container(&part("real"), &image()).await.unwrap());
    assert_eq!(read(found.join("file")), "f");
    assert!(!found.starts_with(&volume));
    let found = source(node.container(&part("real/file"), &image()).await.unwrap());
    assert_eq!(read(found), "f");
    let found = source(node.container(&part("within"), &image()).await.unwrap());
    assert_eq!(read(found.join("file")), "f");
    let found = source(node.container(&part("made/deep"), &image()).await.unwrap());
    assert!(found.is_dir());
    assert_eq!(mode(volume.join("made/deep")), 0o777);
    // A part that was mounted stays the same, whatever the owner does with its name.
    let found = source(node.container(&part("real"), &image()).await.unwrap());
    fs::rename(volume.join("real"), volume.join("moved")).unwrap();
    symlink(outside.path(), volume.join("real")).unwrap();
    assert_eq!(read(found.join("file")), "f");
    node.provision.tear_down(UID).await.unwrap();
    assert_eq!(names(outside.path()), ["secret"]);
    assert_eq!(names(&node.root.path().join("pods")), Vec::<String>::new());
}

#[tokio::test]
async fn images_are_volumes_that_nobody_writes_to() {
    let node = Node::new();
    let pod = with_volume(json!({"image": {"reference": "data:1"}}));
    let error = node.set_up(&pod).await.unwrap_err();
    assert!(error.ends_with("image \"data:1\" is not there"), "{error}");
    let layers = TempDir::new().unwrap();
    let (top, base) = (layers.path().join("top"), layers.path().join("base"));
    for (layer, file) in [(&top, "new"), (&base, "old"), (&base, "both"), (&top, "both")] {
        fs::create_dir_all(layer).unwrap();
        fs::write(layer.join(file), layer.file_name().unwrap().as_encoded_bytes()).unwrap();
    }
    for (of, expected) in
        [(vec![top.clone(), base.clone()], vec!["both", "new", "old"]), (vec![base], vec!["both", "old"])]
    {
        let images = BTreeMap::from([("v".to_owned(), Image { layers: of.clone(), ..image() })]);
        let result = node.provision.set_up_with_images(&pod, &images).await;
        if !is_root() {
            assert!(result.unwrap_err()[0].message.contains("mount the image"));
            return;
        }
        result.unwrap();
        let path = node.path("image", "v");
        assert_eq!(names(&path), expected);
        assert_eq!(read(path.join("both")), of[0].file_name().unwrap().to_str().unwrap());
        assert!(fs::write(path.join("x"), "").is_err());
        assert!(node.volumes().paths(&pod).unwrap()["v"].is_read_only);
        assert_eq!(node.volumes().images().unwrap(), BTreeSet::from([image().id]), "it is in use");
        let part = with_mount(json!({"image": {"reference": "data:1"}}), json!({"subPath": "none"}));
        assert!(node.container(&part, &image()).await.is_err());
        // The mounted image stays, and so does the note of its id.
        let newer =
            BTreeMap::from([("v".to_owned(), Image { id: "sha256:newer".into(), layers: of, ..image() })]);
        node.provision.set_up_with_images(&pod, &newer).await.unwrap();
        assert_eq!(node.volumes().images().unwrap(), BTreeSet::from([image().id]));
        node.provision.tear_down(UID).await.unwrap();
        assert!(!path.exists());
        assert_eq!(node.volumes().images().unwrap(), BTreeSet::new());
    }
    assert_eq!((names(&top).len(), names(&layers.path().join("base")).len()), (2, 2));
}

#[tokio::test]
async fn a_container_finds_its_files() {
    let node = Node::new();
    node.shelf.put_config_map("settings", &[("COLOR", "blue")]);
    let pod = pod_with(
        json!({}),
        json!({"containers": [{
            "name": "main", "image": "a", "terminationMessagePath": "/dev/termination-log",
            "terminationMessagePolicy": "FallbackToLogsOnError",
            "envFrom": [{"configMapRef": {"name": "settings"}}],
        }]}),
    );
    node.set_up(&pod).await.unwrap();
    let spec = node.container(&pod, &image()).await.unwrap();
    assert!(spec.env.contains(&"COLOR=blue".to_owned()));
    let source = |target: &str| {
        let mount = spec.mounts.iter().find(|mount| mount.target == Path::new(target));
        mount.unwrap_or_else(|| panic!("{target}")).source.clone()
    };
    assert!(read(source("/etc/hosts")).ends_with("10.1.0.5\tweb\n"));
    assert_eq!(read(source("/etc/hostname")), "web\n");
    assert!(read(source("/etc/resolv.conf")).contains("nameserver 10.96.0.10\n"));
    let log = source("/dev/termination-log");
    assert_eq!(mode(log.clone()), 0o666);
    let output = node.root.path().join("0.log");
    fs::write(&output, "2026-01-01T00:00:00Z stderr F boom\n").unwrap();
    let words = |failed| node.provision.read_termination_message(&pod, "main", 0, failed, &output);
    assert_eq!(words(false), None);
    assert_eq!(words(true).as_deref(), Some("boom\n"));
    fs::write(&log, "said").unwrap();
    assert_eq!(words(true).as_deref(), Some("said"));
    // Describing the same container once more takes nothing from it.
    node.container(&pod, &image()).await.unwrap();
    assert_eq!(words(true).as_deref(), Some("said"));
    // A container's changes to its hosts file are gone for the next one.
    fs::write(source("/etc/hosts"), "6.6.6.6 bank").unwrap();
    node.container(&pod, &image()).await.unwrap();
    assert!(read(source("/etc/hosts")).starts_with("# Kubernetes-managed"));
}

#[test]
fn last_words_have_limits() {
    let place = TempDir::new().unwrap();
    let at = |name: &str| place.path().join(name);
    assert_eq!(termination_message(&at("none")).unwrap(), None);
    fs::write(at("long"), format!("{}end", "x".repeat(5000))).unwrap();
    let message = termination_message(&at("long")).unwrap().unwrap();
    assert_eq!((message.len(), message.ends_with("xend")), (4096, true));
    symlink("/etc/passwd", at("link")).unwrap();
    assert!(termination_message(&at("link")).is_err());
    let line = |tag: &str, text: &str| format!("2026-01-01T00:00:00.000000000Z stdout {tag} {text}\n");
    let cases = [
        (line("F", "one") + &line("F", "two"), "one\ntwo\n".to_owned()),
        (line("P", "one") + &line("F", "two"), "onetwo\n".to_owned()),
        (line("F", ""), "\n".to_owned()),
        (String::new(), String::new()),
        (
            (0..100).map(|at| line("F", &at.to_string())).collect(),
            (20..100).map(|at| format!("{at}\n")).collect(),
        ),
        (line("F", &"y".repeat(3000)), format!("{}\n", "y".repeat(2047))),
    ];
    for (log, expected) in cases {
        fs::write(at("log"), &log).unwrap();
        assert_eq!(last_output(&at("log")).unwrap(), expected, "{log}");
    }
    // Longer than is read: the end counts, and a line that is cut does not.
    fs::write(at("log"), line("F", &"z".repeat(100)).repeat(10_000)).unwrap();
    assert_eq!(last_output(&at("log")).unwrap().len(), 2048);
}

#[tokio::test]
async fn users_of_an_image_are_found_in_its_layers() {
    let node = Node::new();
    let layers = TempDir::new().unwrap();
    let layer = |name: &str, files: &[(&str, &str)]| {
        let path = layers.path().join(name);
        fs::create_dir_all(path.join("etc")).unwrap();
        for (file, text) in files {
            fs::write(path.join("etc").join(file), text).unwrap();
        }
        path
    };
    let top = layer("top", &[("group", "root:x:0:\nstaff:x:50:bob,app\nwheel:x:10:app\n")]);
    let base = layer(
        "base",
        &[
            ("passwd", "root:x:0:0::/root:/bin/sh\napp:x:1000:1001::/srv:/bin/sh\n"),
            ("group", "old:x:1:app\n"),
        ],
    );
    let mut image = image();
    image.layers = vec![top.clone(), base];
    let cases = [
        ("", (0, 0, vec![], "/root")),
        ("app", (1000, 1001, vec![50, 10], "/srv")),
        ("1000", (1000, 1001, vec![50, 10], "/srv")),
        ("app:staff", (1000, 50, vec![10], "/srv")),
        ("app:77", (1000, 77, vec![50, 10], "/srv")),
        ("4242", (4242, 0, vec![], "")),
        ("4242:staff", (4242, 50, vec![], "")),
    ];
    let pod = pod(json!({"containers": [{"name": "main", "image": "a"}]}));
    for (user, (uid, gid, groups, home)) in cases {
        image.config.user = user.to_owned();
        let spec = node.container(&pod, &image).await.unwrap();
        let identity = (spec.identity.uid, spec.identity.gid, spec.identity.groups);
        assert_eq!(identity, (uid, gid, groups), "{user}");
        let expected = (!home.is_empty()).then(|| format!("HOME={home}"));
        assert_eq!(spec.env.into_iter().find(|line| line.starts_with("HOME=")), expected, "{user}");
    }
    image.config.user = "nobody".to_owned();
    let error = node.container(&pod, &image).await.unwrap_err();
    assert_eq!(error.message, "unable to find user nobody: no matching entries in passwd file");
    image.config.user = "app:none".to_owned();
    let error = node.container(&pod, &image).await.unwrap_err();
    assert_eq!(error.message, "unable to find group none: no matching entries in group file");
    // A link in an image leads nowhere but into it.
    fs::write(layers.path().join("passwd"), "evil:x:5:5::/:\n").unwrap();
    symlink("../../passwd", top.join("etc/passwd")).unwrap();
    image.config.user = "evil".to_owned();
    assert!(node.container(&pod, &image).await.is_err());
}

#[tokio::test]
async fn a_pod_that_fills_the_disk_is_told_why_it_goes() {
    let node = Node::new();
    let pod = with_limits(json!({"emptyDir": {"sizeLimit": "1Mi"}}));
    node.set_up(&pod).await.unwrap();
    let volume = node.path("empty-dir", "v");
    let outside = TempDir::new().unwrap();
    fs::write(outside.path().join("large"), vec![1; 8 << 20]).unwrap();
    // Neither what a link leads to nor a second name counts.
    symlink(outside.path(), volume.join("link")).unwrap();
    fs::write(volume.join("half"), vec![1; 512 << 10]).unwrap();
    fs::hard_link(volume.join("half"), volume.join("same")).unwrap();
    let judge = |containers: &[(&str, u64)]| {
        let taken = node.volumes().storage_use(&pod).unwrap();
        assert!(taken.rest.is_whole && taken.empty_dirs["v"].is_whole);
        let containers: BTreeMap<String, u64> =
            containers.iter().map(|(name, bytes)| ((*name).to_owned(), *bytes)).collect();
        storage_violation(&pod, &taken, &containers)
    };
    assert_eq!(judge(&[("main", 1 << 20)]), None);
    let container = "Container main exceeded its local ephemeral storage limit \"2Mi\". ";
    assert_eq!(judge(&[("main", (2 << 20) + 1)]).as_deref(), Some(container));
    let all = "Pod ephemeral local storage usage exceeds the total limit of containers 4Mi. ";
    assert_eq!(judge(&[("main", 2 << 20), ("side", 2 << 20)]).as_deref(), Some(all));
    // However deep it is.
    let mut deep =
        rustix::fs::open(&volume, rustix::fs::OFlags::DIRECTORY, rustix::fs::Mode::empty()).unwrap();
    for _ in 0..300 {
        rustix::fs::mkdirat(&deep, "d", rustix::fs::Mode::from_raw_mode(0o700)).unwrap();
        deep =
            rustix::fs::openat(&deep, "d", rustix::fs::OFlags::DIRECTORY, rustix::fs::Mode::empty()).unwrap();
    }
    let flags = rustix::fs::OFlags::CREATE | rustix::fs::OFlags::WRONLY;
    let file = rustix::fs::openat(&deep, "f", flags, rustix::fs::Mode::from_raw_mode(0o600)).unwrap();
    std::io::Write::write_all(&mut fs::File::from(file), &vec![1; 1 << 20]).unwrap();
    let volume = "Usage of EmptyDir volume \"v\" exceeds the limit \"1Mi\". ";
    assert_eq!(judge(&[]).as_deref(), Some(volume));
}

fn with_limits(source: Value) -> Pod {
    let mut volume = json!({"name": "v"});
    merge(&mut volume, source);
    let limits = json!({"limits": {"ephemeral-storage": "2Mi"}});
    pod(json!({
        "containers": [
            {"name": "main", "image": "a", "resources": limits, "volumeMounts": [{"name": "v", "mountPath": "/v"}]},
            {"name": "side", "image": "a", "resources": limits},
        ],
        "volumes": [volume],
    }))
}

/// Damage in a volume that a crash, or a person with a shell on the node, may leave.
#[derive(Clone, Copy, Debug)]
enum Damage {
    None,
    StaleLink,
    StaleVersion,
    LostName,
    ChangedFile,
    LostData,
}

fn damage(path: &Path, damage: Damage) {
    match damage {
        Damage::None => {}
        Damage::StaleLink => symlink("gone", path.join("..data_tmp")).unwrap(),
        Damage::StaleVersion => {
            fs::create_dir_all(path.join("..2000_01_01_00_00_00.0/half")).unwrap();
            fs::write(path.join("..2000_01_01_00_00_00.0/half/file"), "half").unwrap();
        }
        Damage::LostName => {
            if let Some(name) = visible(path).first() {
                fs::remove_file(path.join(name)).unwrap();
            }
        }
        Damage::ChangedFile => {
            if let Some(file) = tree(path).keys().next() {
                fs::write(path.join(file), "changed").unwrap();
            }
        }
        Damage::LostData => fs::remove_file(path.join("..data")).unwrap(),
    }
}

/// Every file that a container sees, by its path.
fn tree(path: &Path) -> BTreeMap<String, String> {
    let mut files = BTreeMap::new();
    let mut folders: Vec<String> = visible(path);
    while let Some(name) = folders.pop() {
        let here = path.join(&name);
        if here.is_dir() {
            folders.extend(names(&here).into_iter().map(|below| format!("{name}/{below}")));
        } else {
            files.insert(name, read(here));
        }
    }
    files
}

proptest::proptest! {
    #![proptest_config(proptest::test_runner::Config::with_cases(64))]

    /// After any history and any damage, a volume ends as the one requested, with nothing beside it.
    #[test]
    fn any_history_ends_in_what_is_asked_for(
        history in proptest::collection::vec(
            (
                proptest::collection::btree_map(
                    proptest::sample::select(vec!["a", "b", "d/x", "d/y", "e/f/g", "e/h", ".dot", "z"]),
                    "[a-c]{0,3}",
                    0..5,
                ),
                proptest::sample::select(vec![
                    Damage::None,
                    Damage::StaleLink,
                    Damage::StaleVersion,
                    Damage::LostName,
                    Damage::ChangedFile,
                    Damage::LostData,
                ]),
            ),
            1..6,
        ),
    ) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let node = Node::new();
        let path = node.path("configmap", "v");
        for (step, (wanted, harm)) in history.iter().enumerate() {
            // A name for each step: the cache would give the object before.
            let name = format!("step-{step}");
            let keys: Vec<(String, &String)> =
                wanted.iter().map(|(path, text)| (path.replace('/', "-"), text)).collect();
            let data: Vec<(&str, &str)> = keys.iter().map(|(key, text)| (key.as_str(), text.as_str())).collect();
            node.shelf.put_config_map(&name, &data);
            let items: Vec<Value> =
                wanted.keys().map(|path| json!({"key": path.replace('/', "-"), "path": path})).collect();
            let pod = with_volume(json!({"configMap": {"name": name, "items": items}}));
            runtime.block_on(node.set_up(&pod)).unwrap();
            let expected: BTreeMap<String, String> =
                wanted.iter().map(|(path, text)| ((*path).to_owned(), text.clone())).collect();
            proptest::prop_assert_eq!(tree(&path), expected);
            // The link, the version that it leads to, and no other.
            proptest::prop_assert_eq!(names(&path).iter().filter(|name| name.starts_with("..")).count(), 2);
            damage(&path, *harm);
        }
    }
}
