//! From a Service to an address behind it.

use lazaret_json::Value;
use lazaret_storage::RangeOptions;

use crate::{ObjectStore, object};

const SERVICE_NAME_LABEL: &str = "kubernetes.io/service-name";

/// The address of a ready endpoint of a Service, as `host:port`.
///
/// # Errors
/// Why there is none, as Kubernetes says it.
pub(super) fn endpoint(
    stored: &ObjectStore,
    namespace: &str,
    name: &str,
    port: u16,
) -> Result<String, String> {
    let found = |plural: &str| stored.get(lazaret_kinds::find("", plural)?, namespace, name);
    let service = found("services").ok_or_else(|| format!("service {name:?} not found"))?;
    let kind = service["spec"]["type"].as_str().unwrap_or("ClusterIP");
    if !["ClusterIP", "LoadBalancer", "NodePort"].contains(&kind) {
        return Err(format!("unsupported service type {kind:?}"));
    }
    let ports = service["spec"]["ports"].as_array().into_iter().flatten();
    let service_port = ports
        .into_iter()
        .find(|candidate| candidate["port"].as_i64() == Some(i64::from(port)))
        .ok_or_else(|| format!("no service port {port} found for service {name:?}"))?;
    let port_name = service_port["name"].as_str().unwrap_or_default();
    // DEVIATION(webhook-services): nothing routes a cluster IP here, so an endpoint is called.
    of_slices(stored, namespace, name, port_name)
        .or_else(|| of_endpoints(&found("endpoints")?, port_name))
        .ok_or_else(|| format!("no endpoints available for service {name:?}"))
}

fn of_slices(stored: &ObjectStore, namespace: &str, name: &str, port_name: &str) -> Option<String> {
    let kind = lazaret_kinds::find("discovery.k8s.io", "endpointslices")?;
    let range =
        stored.store().range(object::key(kind, namespace, "").as_bytes(), &RangeOptions::default()).ok()?;
    range.items.iter().find_map(|item| {
        let slice = stored.object_cache().get(item);
        if slice["metadata"]["labels"][SERVICE_NAME_LABEL].as_str() != Some(name) {
            return None;
        }
        let port = port_called(&slice["ports"], port_name)?;
        let ready = |endpoint: &&Value| endpoint["conditions"]["ready"] != false;
        let endpoint = slice["endpoints"].as_array().into_iter().flatten().find(ready)?;
        Some(joined(endpoint["addresses"].get(0)?.as_str()?, port))
    })
}

fn of_endpoints(endpoints: &Value, port_name: &str) -> Option<String> {
    endpoints["subsets"].as_array().into_iter().flatten().find_map(|subset| {
        let port = port_called(&subset["ports"], port_name)?;
        Some(joined(subset["addresses"].get(0)?["ip"].as_str()?, port))
    })
}

fn port_called(ports: &Value, name: &str) -> Option<i64> {
    let mut ports = ports.as_array().into_iter().flatten();
    ports.find(|port| port["name"].as_str().unwrap_or_default() == name)?["port"].as_i64()
}

fn joined(host: &str, port: i64) -> String {
    if host.contains(':') { format!("[{host}]:{port}") } else { format!("{host}:{port}") }
}
