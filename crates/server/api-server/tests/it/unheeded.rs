//! Kinds that nothing acts on are answered with a warning, and each such kind is in `docs/served.md`.

use bytes::Bytes;
use http::{Request, header};
use http_body_util::BodyExt;
use lazaret_json::{Value, json};
use lazaret_kinds::{Kind, Scope};
use lazaret_server::{Server, ServerOptions, User};
use lazaret_store::Store;

async fn server() -> Server {
    let options = ServerOptions::default();
    let server = Server::new(Store::ephemeral(lazaret_store::Options::default()).unwrap(), options);
    server.bootstrap().await.unwrap();
    server
}

/// The status code, the answer and its warnings.
async fn send(server: &Server, method: &str, path: &str, body: &Value) -> (u16, Value, Vec<String>) {
    let admin = User { name: "admin".into(), groups: vec!["system:masters".into()], ..User::default() };
    let request =
        Request::builder().method(method).uri(path).header(header::CONTENT_TYPE, "application/json");
    let response = server.handle(&admin, request.body(Bytes::from(body.to_string())).unwrap()).await;
    let code = response.status().as_u16();
    let warnings = response.headers().get_all(header::WARNING).iter();
    let warnings = warnings.map(|warning| warning.to_str().unwrap().to_owned()).collect();
    let bytes = response.into_body().collect().await.unwrap().to_bytes();
    (code, serde_json::from_slice(&bytes).unwrap_or(Value::Null), warnings)
}

fn path(kind: &Kind) -> String {
    let version = &kind.versions[0].version;
    let group = if kind.group.is_empty() {
        format!("/api/{version}")
    } else {
        format!("/apis/{}/{version}", kind.group)
    };
    match kind.scope {
        Scope::Cluster => format!("{group}/{}", kind.plural),
        Scope::Namespaced => format!("{group}/namespaces/default/{}", kind.plural),
    }
}

/// The least that a kind can be made of, for each that warns.
fn least(kind: &str) -> Value {
    match kind {
        "PersistentVolumeClaim" => {
            json!({"spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}})
        }
        "HorizontalPodAutoscaler" => {
            let target = json!({"apiVersion": "apps/v1", "kind": "Deployment", "name": "d"});
            json!({"spec": {"maxReplicas": 2, "scaleTargetRef": target}})
        }
        "Ingress" => json!({"spec": {"defaultBackend": {"service": {"name": "s", "port": {"number": 80}}}}}),
        "IngressClass" => json!({"spec": {"controller": "example.com/ingress"}}),
        "NetworkPolicy" => json!({"spec": {"podSelector": {}}}),
        other => panic!("{other} warns: how is one made?"),
    }
}

#[tokio::test]
async fn each_kind_that_nothing_acts_on_says_so_on_every_write() {
    let server = server().await;
    let unheeded: Vec<&Kind> = lazaret_kinds::all().iter().filter(|kind| kind.unheeded.is_some()).collect();
    assert!(!unheeded.is_empty());
    for kind in unheeded {
        let wanted = kind.unheeded.unwrap();
        let mut object = least(&kind.kind);
        object["metadata"]["name"] = "x".into();
        let (code, made, warnings) = send(&server, "POST", &path(kind), &object).await;
        assert_eq!(code, 201, "{}: {made}", kind.kind);
        assert!(warnings.iter().any(|warning| warning.contains(wanted)), "{}: {warnings:?}", kind.kind);
        let (code, answer, warnings) = send(&server, "PUT", &format!("{}/x", path(kind)), &made).await;
        assert_eq!(code, 200, "{}: {answer}", kind.kind);
        assert!(warnings.iter().any(|warning| warning.contains(wanted)), "{}: {warnings:?}", kind.kind);
    }
    let (code, _, warnings) =
        send(&server, "POST", "/api/v1/namespaces/default/configmaps", &json!({"metadata": {"name": "x"}}))
            .await;
    assert_eq!((code, warnings), (201, vec![]));
}
