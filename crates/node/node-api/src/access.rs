//! The permission that a request needs: attributes as kubelet derives them, checked by the API server.

use http::Method;

/// The subresources of `nodes` that authorize a path, of which any one is enough.
pub(crate) fn subresources(path: &str) -> &'static [&'static str] {
    let first = path.trim_start_matches('/').split('/').next().unwrap_or_default();
    match first {
        "stats" => &["stats"],
        "metrics" => &["metrics"],
        "pods" => &["pods", "proxy"],
        "healthz" => &["healthz", "proxy"],
        // Logs of containers included: `log` is for the node's own.
        _ => &["proxy"],
    }
}

/// The verb of a method, as authorization knows it; `None` when there is none.
pub(crate) fn verb(method: &Method) -> Option<&'static str> {
    Some(match *method {
        Method::GET | Method::HEAD => "get",
        Method::POST => "create",
        Method::PUT => "update",
        Method::PATCH => "patch",
        Method::DELETE => "delete",
        _ => return None,
    })
}

// DEVIATION(node-stream-verb)
/// The verb that running something needs, whatever the method: a websocket begins with GET, and permission to read does not permit it.
pub(crate) const STREAM_VERB: &str = "create";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_are_authorized_as_kubelet_does() {
        for (path, expected) in [
            ("/stats/summary", &["stats"][..]),
            ("/metrics", &["metrics"]),
            ("/metrics/resource", &["metrics"]),
            ("/metricsx", &["proxy"]),
            ("/pods", &["pods", "proxy"]),
            ("/healthz", &["healthz", "proxy"]),
            ("/healthz/ping", &["healthz", "proxy"]),
            ("/containerLogs/a/b/c", &["proxy"]),
            ("/exec/a/b/c", &["proxy"]),
            ("//stats", &["stats"]),
            ("/", &["proxy"]),
        ] {
            assert_eq!(subresources(path), expected, "{path}");
        }
    }
}
