//! The work of the fuzz targets on their bytes; `tests/corpus.rs` does the same with the cases that were kept.
//!
//! Every request is a dry run, so that one case leaves nothing behind for the next. Whatever the bytes are: no panic, no internal error,
//! and the server must accept each object that it answers with.
#![allow(
    dead_code,
    clippy::unwrap_used,
    clippy::panic,
    reason = "a case that cannot go on has found something"
)]

use std::{cell::OnceCell, sync::OnceLock};

use bytes::Bytes;
use http::Request;
use http_body_util::BodyExt;
use lazaret_kinds::{Access, Kind, Scope, Verbs};
use lazaret_server::{Authorizer, Features, ObjectStore, Server, ServerOptions, TokenKeys, User};
use lazaret_store::{Options, Store};
use percent_encoding::{NON_ALPHANUMERIC, percent_encode};
use serde_json::{Value, json};

struct AllowAll;

impl Authorizer for AllowAll {
    fn access(&self, _: &ObjectStore, _: &User, _: Access<'_>) -> Result<(), String> {
        Ok(())
    }

    fn path(&self, _: &ObjectStore, _: &User, _: &str, _: &str) -> Result<(), String> {
        Ok(())
    }
}

struct World {
    server: Server,
    user: User,
}

thread_local! {
    static RUNTIME: OnceCell<tokio::runtime::Runtime> = const { OnceCell::new() };
}

fn wait<T>(future: impl Future<Output = T>) -> T {
    RUNTIME.with(|cell| {
        let make = || tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
        cell.get_or_init(make).block_on(future)
    })
}

/// A server with one object of some kinds, called `a`, in the namespace `default`.
fn world() -> &'static World {
    static WORLD: OnceLock<World> = OnceLock::new();
    WORLD.get_or_init(|| {
        let options = ServerOptions {
            features: Features::kubernetes_1_37(),
            runtime_config: vec![("api/all".into(), true)],
            authorizer: Box::new(AllowAll),
            token_keys: Some(TokenKeys::load(&TokenKeys::generate().unwrap()).unwrap()),
        };
        let server = Server::new(Store::ephemeral(Options::default()).unwrap(), options);
        let user = User { name: "fuzz".into(), ..User::default() };
        let world = World { server, user };
        for (path, object) in seeds() {
            let (code, answer) = world.send("POST", path, "application/json", object.to_string().into());
            assert_eq!(code, 201, "{answer}");
        }
        let definitions = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
        let (code, answer) =
            world.send("POST", definitions, "application/json", anything().to_string().into());
        assert_eq!(code, 201, "{answer}");
        world
    })
}

/// A kind whose objects may hold anything.
fn anything() -> Value {
    let names = json!({"plural": "anythings", "singular": "anything", "kind": "Anything", "listKind": "AnythingList"});
    let schema = json!({"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": true}});
    json!({"metadata": {"name": "anythings.example.com"}, "spec": {"group": "example.com", "scope": "Namespaced", "names": names,
        "versions": [{"name": "v1", "served": true, "storage": true, "schema": schema}]}})
}

/// The objects to change: path and content.
pub(crate) fn seeds() -> Vec<(&'static str, Value)> {
    let named = json!({"name": "a", "labels": {"app": "x"}, "annotations": {"n": "1"}});
    let container = json!({"name": "c", "image": "i", "env": [{"name": "A", "value": "b"}], "ports": [{"containerPort": 80}]});
    let pod = json!({"containers": [container], "tolerations": [{"key": "k", "operator": "Exists"}]});
    let claim = json!({"devices": {"requests": [{"name": "r", "exactly": {"deviceClassName": "c", "selectors": [{"cel": {"expression": "device.driver == 'd'"}}]}}]}});
    let taint = json!({"key": "example.com/x", "value": "y", "effect": "NoExecute"});
    vec![
        ("/api/v1/namespaces", json!({"metadata": {"name": "default"}})),
        ("/api/v1/namespaces/default/pods", json!({"metadata": named, "spec": pod})),
        ("/api/v1/namespaces/default/configmaps", json!({"metadata": named, "data": {"k": "v"}})),
        ("/api/v1/namespaces/default/serviceaccounts", json!({"metadata": named})),
        (
            "/apis/apps/v1/namespaces/default/deployments",
            json!({"metadata": named, "spec": {"selector": {"matchLabels": {"app": "x"}}, "template": {"metadata": {"labels": {"app": "x"}}, "spec": pod}}}),
        ),
        (
            "/apis/resource.k8s.io/v1/namespaces/default/resourceclaims",
            json!({"metadata": named, "spec": claim}),
        ),
        (
            "/apis/resource.k8s.io/v1/resourceslices",
            json!({"metadata": named, "spec": {"driver": "d.example.com", "nodeName": "n", "pool": {"name": "p", "generation": 1, "resourceSliceCount": 1},
                "devices": [{"name": "d0", "attributes": {"x": {"int": 1}}, "capacity": {"m": {"value": "1Gi"}}, "taints": [taint]}]}}),
        ),
        (
            "/apis/resource.k8s.io/v1/devicetaintrules",
            json!({"metadata": named, "spec": {"deviceSelector": {"pool": "p"}, "taint": taint}}),
        ),
    ]
}

impl World {
    fn send(&self, method: &str, path: &str, content_type: &str, body: Bytes) -> (u16, Value) {
        let request = Request::builder()
            .method(method)
            .uri(path)
            .header("accept", "application/json")
            .header("content-type", content_type)
            .header("user-agent", "fuzz/1")
            .body(body)
            .unwrap();
        wait(async {
            let response = self.server.handle(&self.user, request).await;
            let code = response.status().as_u16();
            let bytes = response.into_body().collect().await.unwrap().to_bytes();
            let answer = serde_json::from_slice(&bytes).unwrap_or_else(|error| {
                panic!(
                    "{method} {path} was answered what is no JSON ({error}): {}",
                    String::from_utf8_lossy(&bytes)
                )
            });
            (code, answer)
        })
    }

    /// Sends a request that the server must cope with.
    fn must_cope(&self, method: &str, path: &str, content_type: &str, body: &[u8]) -> (u16, Value) {
        let (code, answer) = self.send(method, path, content_type, Bytes::copy_from_slice(body));
        assert!(code < 500, "{method} {path} was answered {code}: {answer}");
        (code, answer)
    }
}

/// Kinds and versions to ask for. Kept cases name them by number: new ones go to the end.
const COLLECTIONS: &[(&str, &str, &str)] = &[
    ("", "v1", "pods"),
    ("", "v1", "configmaps"),
    ("", "v1", "nodes"),
    ("", "v1", "namespaces"),
    ("", "v1", "secrets"),
    ("", "v1", "services"),
    ("", "v1", "events"),
    ("resource.k8s.io", "v1", "resourceslices"),
    ("resource.k8s.io", "v1beta1", "resourceslices"),
    ("resource.k8s.io", "v1", "resourceclaims"),
    ("resource.k8s.io", "v1beta1", "resourceclaims"),
    ("resource.k8s.io", "v1beta2", "resourceclaimtemplates"),
    ("resource.k8s.io", "v1", "deviceclasses"),
    ("resource.k8s.io", "v1", "devicetaintrules"),
    ("resource.k8s.io", "v1alpha3", "devicetaintrules"),
    ("resource.k8s.io", "v1alpha3", "resourceslicepatches"),
    ("apps", "v1", "deployments"),
    ("apps", "v1", "statefulsets"),
    ("apps", "v1", "daemonsets"),
    ("batch", "v1", "jobs"),
    ("batch", "v1", "cronjobs"),
    ("policy", "v1", "poddisruptionbudgets"),
    ("rbac.authorization.k8s.io", "v1", "clusterroles"),
    ("rbac.authorization.k8s.io", "v1", "rolebindings"),
    ("coordination.k8s.io", "v1", "leases"),
    ("scheduling.k8s.io", "v1", "priorityclasses"),
    ("storage.k8s.io", "v1", "storageclasses"),
    ("authorization.k8s.io", "v1", "selfsubjectaccessreviews"),
];

/// A kind to ask for, and where its objects are.
fn collection(choice: u8) -> (&'static Kind, String) {
    let (group, version, plural) = COLLECTIONS[usize::from(choice) % COLLECTIONS.len()];
    let kind = lazaret_kinds::find(group, plural).unwrap();
    let group = if group.is_empty() { "/api".to_owned() } else { format!("/apis/{group}") };
    let namespace = match kind.scope {
        Scope::Cluster => "",
        Scope::Namespaced => "/namespaces/default",
    };
    (kind, format!("{group}/{version}{namespace}/{plural}"))
}

/// The server must accept the object that it answers with.
fn must_accept(kind: &Kind, collection: &str, mut stored: Value) {
    if kind.verbs == Verbs::Create {
        return;
    }
    stored["metadata"]["resourceVersion"].take();
    let path = format!("{collection}?dryRun=All&fieldValidation=Strict");
    let (code, answer) = world().must_cope("POST", &path, "application/json", stored.to_string().as_bytes());
    assert!(matches!(code, 201 | 409), "not accepted again ({code}): {answer}\n{stored}");
}

/// Further requests about an object. Kept cases name them by number: new ones go to the end.
const MESSAGES: &[Option<(&str, &str)>] = &[
    None,
    Some(("POST", "/api/v1/namespaces/default/pods/a/eviction")),
    Some(("POST", "/api/v1/namespaces/default/pods/a/binding")),
    Some(("PUT", "/api/v1/namespaces/default/pods/a/status")),
    Some(("DELETE", "/api/v1/namespaces/default/pods/a")),
    Some(("PUT", "/apis/apps/v1/namespaces/default/deployments/a/scale")),
    Some(("POST", "/api/v1/namespaces/default/serviceaccounts/a/token")),
    Some(("PUT", "/apis/resource.k8s.io/v1/namespaces/default/resourceclaims/a/status")),
];

/// A stored object equals the one that was sent, alone and among others, whatever its fields are called.
fn must_come_back(body: &[u8]) {
    const PATH: &str = "/apis/example.com/v1/namespaces/default/anythings";
    let Ok(Value::Object(mut sent)) = serde_json::from_slice(body) else { return };
    for field in ["apiVersion", "kind", "metadata"] {
        sent.remove(field);
    }
    let mut object = Value::Object(sent.clone());
    object["metadata"] =
        json!({"name": "r", "annotations": {"managedFields": String::from_utf8_lossy(body)}});
    let (code, answer) = world().must_cope("POST", PATH, "application/json", object.to_string().as_bytes());
    if code != 201 {
        return;
    }
    let (_, read) = world().must_cope("GET", &format!("{PATH}/r"), "", b"");
    let (_, list) = world().must_cope("GET", PATH, "", b"");
    let (deleted, _) = world().must_cope("DELETE", &format!("{PATH}/r"), "", b"");
    assert_eq!(deleted, 200);
    let items = list["items"].as_array().unwrap();
    assert_eq!(items.len(), 1, "{list}");
    for (name, value) in sent.iter().chain([(&"metadata".to_owned(), &answer["metadata"])]) {
        assert_eq!((&read[name], &items[0][name]), (value, value), "{name}");
    }
    assert_eq!(read["metadata"]["annotations"], object["metadata"]["annotations"]);
    assert_eq!(read.as_object().unwrap().len(), sent.len() + 3, "{read}");
}

/// In the second byte, for an object that is stored and read back.
const COME_BACK: u8 = 0xf;

/// Two bytes say what kind and how; the rest is an object as JSON or YAML, or a message to one.
pub(crate) fn bodies(data: &[u8]) {
    let [choice, how, body @ ..] = data else { return };
    if how >> 4 == COME_BACK {
        return must_come_back(body);
    }
    let (kind, collection) = collection(*choice);
    let media = if how & 1 == 0 { "application/json" } else { "application/yaml" };
    let validation = ["Warn", "Strict", "Ignore"][usize::from(how >> 1) % 3];
    let query = format!("dryRun=All&fieldValidation={validation}");
    if let Some((method, path)) = MESSAGES.get(usize::from(how >> 4)).copied().flatten() {
        world().must_cope(method, &format!("{path}?{query}"), media, body);
    } else if how & 8 == 0 {
        let (code, answer) = world().must_cope("POST", &format!("{collection}?{query}"), media, body);
        if code == 201 {
            must_accept(kind, &collection, answer);
        }
    } else {
        world().must_cope("PUT", &format!("{collection}/a?{query}"), media, body);
    }
}

/// One byte says which object and which kind of patch; the rest is the patch.
pub(crate) fn patches(data: &[u8]) {
    let [choice, patch @ ..] = data else { return };
    let seeds = seeds();
    let (path, object) = &seeds[usize::from(choice >> 3) % seeds.len()];
    let name = object["metadata"]["name"].as_str().unwrap_or("a");
    let media = [
        "application/json-patch+json",
        "application/merge-patch+json",
        "application/strategic-merge-patch+json",
        "application/apply-patch+yaml",
    ][usize::from(choice & 3)];
    let force = if choice & 4 == 0 || !media.contains("apply") { "" } else { "&force=true" };
    world().must_cope("PATCH", &format!("{path}/{name}?dryRun=All&fieldManager=fuzz{force}"), media, patch);
}

/// One byte says what kind; of the rest, the first line selects by labels and the second by fields.
pub(crate) fn selectors(data: &[u8]) {
    let [choice, text @ ..] = data else { return };
    let (_, collection) = collection(*choice);
    let mut lines = text.splitn(2, |byte| *byte == b'\n');
    let encode = |line: Option<&[u8]>| percent_encode(line.unwrap_or_default(), NON_ALPHANUMERIC).to_string();
    let (labels, fields) = (encode(lines.next()), encode(lines.next()));
    world().must_cope("GET", &format!("{collection}?labelSelector={labels}&fieldSelector={fields}"), "", b"");
}

/// Two bytes say what kind and whether to put the rest into an envelope first.
pub(crate) fn protobuf(data: &[u8]) {
    let [choice, how, message @ ..] = data else { return };
    let (kind, collection) = collection(*choice);
    let body = if how & 1 == 0 { message.to_vec() } else { envelope(kind, message) };
    let path = format!("{collection}?dryRun=All");
    let (code, answer) = world().must_cope("POST", &path, "application/vnd.kubernetes.protobuf", &body);
    if code == 201 {
        must_accept(kind, &collection, answer);
    }
}

/// A message as clients send it: magic, type, bytes.
fn envelope(kind: &Kind, message: &[u8]) -> Vec<u8> {
    fn low_bits(length: usize) -> u8 {
        u8::try_from(length & 0x7f).unwrap_or(0)
    }
    fn field(out: &mut Vec<u8>, tag: u8, bytes: &[u8]) {
        out.push(tag << 3 | 2);
        let mut length = bytes.len();
        while length > 0x7f {
            out.push(low_bits(length) | 0x80);
            length >>= 7;
        }
        out.push(low_bits(length));
        out.extend_from_slice(bytes);
    }
    let mut types = Vec::new();
    field(&mut types, 1, kind.api_version(&kind.hub().version).as_bytes());
    field(&mut types, 2, kind.kind.as_bytes());
    let mut out = b"k8s\0".to_vec();
    field(&mut out, 1, &types);
    field(&mut out, 2, message);
    out
}
