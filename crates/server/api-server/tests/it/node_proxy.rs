//! Errors about nodes that the server cannot reach, and about requests that no node sees.

use lazaret_json::{Value, json};
use lazaret_server::{NodeConnections, NodeTrust, Signer, certificate_authority};
use tokio::net::TcpListener;

use crate::support::Api;

const PODS: &str = "/api/v1/namespaces/default/pods";

async fn api(trust: NodeTrust) -> Api {
    let api = Api::start().await;
    let authority = certificate_authority("2026-01-01T00:00:00Z".parse().unwrap()).unwrap();
    api.server.connect_to_nodes(NodeConnections::new(Signer::new(authority), trust));
    api
}

async fn node(api: &Api, name: &str, labels: &Value, status: &Value) {
    api.post("/api/v1/nodes", &json!({"metadata": {"name": name, "labels": labels}, "status": status}))
        .await
        .expect(201);
}

async fn pod(api: &Api, name: &str, node: &str, containers: &[&str]) {
    let containers: Vec<Value> =
        containers.iter().map(|name| json!({"name": name, "image": "registry.example/c:1"})).collect();
    let spec = json!({"nodeName": node, "containers": containers});
    api.post(PODS, &json!({"metadata": {"name": name}, "spec": spec})).await.expect(201);
}

fn message(body: &Value) -> &str {
    body["message"].as_str().unwrap_or_default()
}

#[tokio::test]
async fn a_node_that_never_answers_is_given_up() {
    let api = api(NodeTrust::Cluster).await;
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    let status = json!({
        "addresses": [{"type": "InternalIP", "address": "127.0.0.1"}],
        "daemonEndpoints": {"kubeletEndpoint": {"Port": port}},
    });
    node(&api, "mute", &json!({}), &status).await;
    pod(&api, "a", "mute", &["c"]).await;
    // It accepts, and says nothing. The writes before take real time.
    tokio::time::pause();
    let said = api.get(&format!("{PODS}/a/log")).await.expect(500);
    let expected = format!("dial tcp 127.0.0.1:{port}: i/o timeout");
    assert!(message(&said).contains(&expected), "{said}");
    let said = api.get("/api/v1/nodes/mute/proxy/healthz").await.expect(500);
    assert!(message(&said).starts_with("error dialing backend: dial tcp"), "{said}");
}

#[tokio::test]
async fn what_no_node_is_asked_is_said_as_kubernetes_says_it() {
    let api = api(NodeTrust::Nobody).await;
    let hollow = json!({"hollow.lazaret.dev/node": "true"});
    let address = |address: &str| json!({"addresses": [{"type": "InternalIP", "address": address}]});
    node(&api, "hollow", &hollow, &address("192.0.2.1")).await;
    node(&api, "own", &json!({}), &address("127.0.0.1")).await;
    node(&api, "bare", &json!({}), &json!({})).await;
    pod(&api, "two", "own", &["a", "b"]).await;
    pod(&api, "simulated", "hollow", &["a"]).await;
    pod(&api, "lost", "nowhere", &["a"]).await;
    pod(&api, "waiting", "", &["a"]).await;
    pod(&api, "local", "own", &["a"]).await;
    pod(&api, "addressless", "bare", &["a"]).await;
    for (path, code, expected) in [
        ("two/log", 400, "a container name must be specified for pod two, choose one of: [a b]"),
        ("two/log?container=x", 400, "container x is not valid for pod two"),
        ("two/exec?command=x", 400, "a container name must be specified for pod two, choose one of: [a b]"),
        ("waiting/log", 400, "pod waiting does not have a host assigned"),
        ("waiting/exec?command=x", 400, "pod waiting does not have a host assigned"),
        ("waiting/portforward", 400, "pod waiting does not have a host assigned"),
        (
            "simulated/log",
            501,
            "log: this server has no connection to node \"hollow\", so containers of pod simulated cannot be reached",
        ),
        (
            "simulated/attach",
            501,
            "attach: this server has no connection to node \"hollow\", so containers of pod simulated cannot be reached",
        ),
        ("lost/log", 404, "nodes \"nowhere\" not found"),
        ("local/exec?command=x", 400, "Upgrade request required"),
        (
            "local/log?tailLines=-1",
            422,
            "PodLogOptions \"local\" is invalid: tailLines: Invalid value: -1: must be greater than or equal to 0",
        ),
        (
            "local/log?sinceSeconds=0",
            422,
            "PodLogOptions \"local\" is invalid: sinceSeconds: Invalid value: 0: must be greater than 0",
        ),
        (
            "local/log?limitBytes=0",
            422,
            "PodLogOptions \"local\" is invalid: limitBytes: Invalid value: 0: must be greater than 0",
        ),
        ("local/log?sinceTime=yesterday", 400, "sinceTime"),
        ("local/proxy/", 501, "pods/proxy"),
        ("local/log", 500, "dial tcp 127.0.0.1:10250: address not allowed"),
        ("addressless/log", 500, "no preferred addresses found"),
        ("gone/log", 404, "pods \"gone\" not found"),
    ] {
        let said = api.get(&format!("{PODS}/{path}")).await.expect(code);
        assert!(message(&said).contains(expected), "{path}: {said}");
    }
    for (path, code) in [
        ("hollow/proxy/metrics", 501),
        ("nobody/proxy", 404),
        ("own:22/proxy/", 400),
        ("own/proxy/%2e%2e/x", 400),
        ("own/proxy/a%2fb", 400),
        ("own/proxy/metrics", 500),
    ] {
        api.get(&format!("/api/v1/nodes/{path}")).await.expect(code);
    }
}
