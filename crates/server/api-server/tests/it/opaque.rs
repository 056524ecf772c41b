//! JSON of which the server knows nothing comes back byte for byte, in whatever form it was written.

use crate::support::Api;
use bytes::Bytes;
use lazaret_json::json;
use lazaret_store::Store;

const JSON: &str = "application/json";
const PROTOBUF: &str = "application/vnd.kubernetes.protobuf";
const CLAIMS: &str = "/apis/resource.k8s.io/v1/namespaces/default/resourceclaims";

/// With spaces, in an order of its own, with numbers, escapes and names that would be written otherwise.
const TEXTS: &[&str] = &[
    r#"{"kind": "foo", "apiVersion": "dra.example.com/v1"}"#,
    r#"{"z":1e3,"a":1.50,"big":123456789012345678901234567890}"#,
    r#"{ "b" : [ 1 , 2 ] , "a" : "\u00e9\/" }"#,
    r#"{"b":null,"a":{}}"#,
    r#"{}"#,
];

/// Each kind with such JSON: where it is served, in which versions, and what it looks like around it.
fn kinds() -> Vec<(&'static str, &'static [&'static str], &'static str, String)> {
    let config = r#"[{"opaque":{"driver":"d.example.com","parameters":@}}]"#;
    let requests = r#"[{"name":"r","exactly":{"deviceClassName":"c"}}]"#;
    let spec = format!(r#"{{"devices":{{"requests":{requests},"config":{config}}}}}"#);
    let group = "/apis/resource.k8s.io/VERSION";
    let all: &[&str] = &["v1", "v1beta2", "v1beta1"];
    let claims = CLAIMS.replace("v1/", "VERSION/").leak();
    let templates = format!("{group}/namespaces/default/resourceclaimtemplates").leak();
    let classes = format!("{group}/deviceclasses").leak();
    let taint = r#"{"key":"k","effect":"NoExecute","data":@}"#;
    vec![
        (claims, all, "parameters", format!(r#"{{"metadata":{{"name":"o"}},"spec":{spec}}}"#)),
        (templates, all, "parameters", format!(r#"{{"metadata":{{"name":"o"}},"spec":{{"spec":{spec}}}}}"#)),
        (
            classes,
            all,
            "parameters",
            format!(r#"{{"metadata":{{"name":"o"}},"spec":{{"config":{config}}}}}"#),
        ),
        (
            "/apis/resource.k8s.io/VERSION/devicetaintrules",
            &["v1alpha3"],
            "data",
            format!(
                r#"{{"metadata":{{"name":"o"}},"spec":{{"deviceSelector":{{"driver":"d.example.com"}},"taint":{taint}}}}}"#
            ),
        ),
        (
            "/apis/apps/VERSION/namespaces/default/controllerrevisions",
            &["v1"],
            "data",
            r#"{"metadata":{"name":"o"},"revision":1,"data":@}"#.to_owned(),
        ),
    ]
}

fn kept(answer: &str, field: &str, text: &str) {
    assert!(answer.contains(&format!(r#""{field}":{text}"#)), "{text} in {answer}");
}

#[tokio::test]
async fn every_kind_keeps_it_in_every_version_through_changes_and_restarts() {
    for (path, versions, field, object) in kinds() {
        for text in TEXTS {
            let store = Store::ephemeral(lazaret_store::Options::default()).unwrap();
            let api = Api::over(store.clone());
            api.post("/api/v1/namespaces", &json!({"metadata": {"name": "default"}})).await.expect(201);
            let first = path.replace("VERSION", versions[0]);
            api.send("POST", &first, JSON, &object.replace('@', text)).await.expect(201);
            let merge = "application/merge-patch+json";
            for (round, api) in [Api::over(store.clone()), Api::over(store.clone()), api].iter().enumerate() {
                for version in versions {
                    let one = format!("{}/o", path.replace("VERSION", version));
                    kept(&api.raw(&one).await, field, text);
                    kept(&api.raw(&path.replace("VERSION", version)).await, field, text);
                }
                let labels = json!({"metadata": {"labels": {"round": round.to_string()}}});
                api.patch(&format!("{first}/o"), merge, &labels).await.expect(200);
                kept(&api.raw(&format!("{first}/o")).await, field, text);
            }
        }
    }
}

#[tokio::test]
async fn the_status_of_a_device_keeps_it() {
    let api = Api::start().await;
    let claim = json!({"metadata": {"name": "c"}, "spec": {"devices": {"requests": [{"name": "r", "exactly": {"deviceClassName": "c"}}]}}});
    api.post(CLAIMS, &claim).await.expect(201);
    let device = r#""driver":"d.example.com","pool":"p","device":"d""#;
    for text in TEXTS {
        let status = format!(
            r#"{{"metadata":{{"name":"c"}},"status":{{"allocation":{{"devices":{{"results":[{{"request":"r",{device}}}]}}}},"devices":[{{{device},"data":{text}}}]}}}}"#
        );
        let path = format!("{CLAIMS}/c/status");
        api.send("PATCH", &path, "application/merge-patch+json", r#"{"status":null}"#).await.expect(200);
        api.send("PUT", &path, JSON, &status).await.expect(200);
        kept(&api.raw(&format!("{CLAIMS}/c")).await, "data", text);
    }
}

fn field(number: u8, bytes: &[u8]) -> Vec<u8> {
    assert!(bytes.len() < 128, "one byte of length will do");
    [&[number << 3 | 2, u8::try_from(bytes.len()).unwrap()], bytes].concat()
}

fn envelope(api_version: &str, kind: &str, message: &[u8]) -> Bytes {
    let types = [field(1, api_version.as_bytes()), field(2, kind.as_bytes())].concat();
    let length = u8::try_from(message.len() & 0x7f).unwrap() | 0x80;
    let rest = u8::try_from(message.len() >> 7).unwrap();
    [&b"k8s\0"[..], &field(1, &types), &[2 << 3 | 2, length, rest], message].concat().into()
}

#[tokio::test]
async fn protobuf_carries_it_as_it_is() {
    let api = Api::start().await;
    for (number, text) in TEXTS.iter().enumerate() {
        let name = format!("o{number}");
        let metadata = field(1, &field(1, name.as_bytes()));
        let raw = field(1, text.as_bytes());
        let opaque = field(1, &[field(1, b"d.example.com"), field(2, &raw)].concat());
        let class = [metadata.clone(), field(2, &field(2, &field(1, &opaque)))].concat();
        let revision = [metadata, field(2, &raw), vec![3 << 3, 1]].concat();
        for (path, api_version, kind, message, at) in [
            (
                "/apis/resource.k8s.io/v1/deviceclasses",
                "resource.k8s.io/v1",
                "DeviceClass",
                class,
                "parameters",
            ),
            (
                "/apis/apps/v1/namespaces/default/controllerrevisions",
                "apps/v1",
                "ControllerRevision",
                revision,
                "data",
            ),
        ] {
            let body = envelope(api_version, kind, &message);
            api.request("POST", path, JSON, PROTOBUF, body).await.expect(201);
            kept(&api.raw(&format!("{path}/{name}")).await, at, text);
        }
    }
}

#[tokio::test]
async fn what_stands_on_several_lines_stays_on_one_line_of_a_watch() {
    let api = Api::start().await;
    let classes = "/apis/resource.k8s.io/v1/deviceclasses";
    let text = "{\n  \"b\": 1.0,\r\n  \"a\": \"x y\"\n}";
    let class = r#"{"metadata":{"name":"o"},"spec":{"config":[{"opaque":{"driver":"d.example.com","parameters":@}}]}}"#;
    api.send("POST", classes, JSON, &class.replace('@', text)).await.expect(201);
    let answer = api.raw(&format!("{classes}/o")).await;
    kept(&answer, "parameters", r#"{"b":1.0,"a":"x y"}"#);
    assert!(!answer.trim_end().contains('\n'), "{answer}");
}

#[tokio::test]
async fn a_change_within_it_is_made_and_the_limit_counts_its_bytes() {
    let api = Api::start().await;
    let classes = "/apis/resource.k8s.io/v1/deviceclasses";
    let class = r#"{"metadata":{"name":"@"},"spec":{"config":[{"opaque":{"driver":"d.example.com","parameters":#}}]}}"#;
    let class = |name: &str, text: &str| class.replace('@', name).replace('#', text);
    api.send("POST", classes, JSON, &class("o", r#"{"b": 1, "a": 2}"#)).await.expect(201);
    let patch = r#"[{"op":"replace","path":"/spec/config/0/opaque/parameters/a","value":3}]"#;
    let one = format!("{classes}/o");
    api.send("PATCH", &one, "application/json-patch+json", patch).await.expect(200);
    kept(&api.raw(&one).await, "parameters", r#"{"b":1,"a":3}"#);
    let patch =
        r#"[{"op":"replace","path":"/spec/config/0/opaque/parameters","value":{"n":null,"m":[null]}}]"#;
    api.send("PATCH", &one, "application/json-patch+json", patch).await.expect(200);
    kept(&api.raw(&one).await, "parameters", r#"{"m":[null],"n":null}"#);
    let yaml = "metadata: {name: written-as-yaml}\nspec:\n  config:\n  - opaque:\n      driver: d.example.com\n      parameters: {b: null, a: 1}\n";
    api.send("POST", classes, "application/yaml", yaml).await.expect(201);
    kept(&api.raw(&format!("{classes}/written-as-yaml")).await, "parameters", r#"{"a":1,"b":null}"#);
    let wide = format!(r#"{{"a":{}1}}"#, " ".repeat(10 * 1024));
    let refused = api.send("POST", classes, JSON, &class("wide", &wide)).await.expect(422);
    assert!(refused["message"].as_str().unwrap().contains("parameters"), "{refused}");
}
