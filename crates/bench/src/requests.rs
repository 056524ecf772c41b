//! Requests as bytes, prepared before they are timed.

const PODS: &str = "/api/v1/namespaces/default/pods";
const MAPS: &str = "/api/v1/namespaces/default/configmaps";
/// Where nothing is but what watchers wait for.
const SEEN_MAPS: &str = "/api/v1/namespaces/kube-public/configmaps";

fn get(path: &str) -> Vec<u8> {
    format!("GET {path} HTTP/1.1\r\nHost: localhost\r\nAccept: application/json\r\n\r\n").into_bytes()
}

fn post(path: &str, body: &str) -> Vec<u8> {
    format!(
        "POST {path} HTTP/1.1\r\nHost: localhost\r\nAccept: application/json\r\nUser-Agent: bench\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\r\n{body}",
        body.len()
    )
    .into_bytes()
}

pub(crate) fn ready() -> Vec<u8> {
    get("/readyz")
}

pub(crate) fn get_pod(name: &str) -> Vec<u8> {
    get(&format!("{PODS}/{name}"))
}

pub(crate) fn list_pods() -> Vec<u8> {
    get(PODS)
}

pub(crate) fn watch_maps() -> Vec<u8> {
    get(&format!("{SEEN_MAPS}?watch=true"))
}

/// A pod as a controller makes one.
pub(crate) fn create_pod(name: &str) -> Vec<u8> {
    post(
        PODS,
        &format!(
            r#"{{"metadata":{{"name":"{name}","labels":{{"app":"bench","tier":"load"}}}},"spec":{{"containers":[{{"name":"main","image":"registry.example/app:1","resources":{{"requests":{{"cpu":"100m","memory":"64Mi"}}}}}}],"tolerations":[{{"key":"example.com/x","operator":"Exists"}}]}}}}"#
        ),
    )
}

/// A small object.
pub(crate) fn create_map(name: &str) -> Vec<u8> {
    post(MAPS, &format!(r#"{{"metadata":{{"name":"{name}"}},"data":{{"key":"value"}}}}"#))
}

/// One that watchers wait for.
pub(crate) fn create_seen_map(name: &str) -> Vec<u8> {
    post(SEEN_MAPS, &format!(r#"{{"metadata":{{"name":"{name}"}},"data":{{"key":"value"}}}}"#))
}
