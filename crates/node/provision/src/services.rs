//! Variables that say where Services are.

use std::{collections::BTreeMap, net::Ipv6Addr};

use k8s_openapi::api::core::v1::{Service, ServicePort, ServiceSpec};

/// The variables of the Services that a pod in this namespace sees: `default/kubernetes` always, those of its namespace when it
/// wants them.
pub(crate) fn variables(services: &[Service], namespace: &str, links: bool) -> BTreeMap<String, String> {
    let mut seen: BTreeMap<&str, &ServiceSpec> = BTreeMap::new();
    for service in services {
        let (Some(name), Some(home), Some(spec)) =
            (&service.metadata.name, &service.metadata.namespace, &service.spec)
        else {
            continue;
        };
        if address(spec).is_none() || spec.ports.as_ref().is_none_or(Vec::is_empty) {
            continue;
        }
        // A Service of the pod's own namespace that has this name too wins.
        if home == namespace && links {
            seen.insert(name, spec);
        } else if home == "default" && name == "kubernetes" {
            seen.entry(name).or_insert(spec);
        }
    }
    let mut variables = BTreeMap::new();
    for (name, spec) in seen {
        of_service(&mut variables, &variable_name(name), spec);
    }
    variables
}

fn address(spec: &ServiceSpec) -> Option<&str> {
    spec.cluster_ip.as_deref().filter(|address| !address.is_empty() && *address != "None")
}

fn variable_name(name: &str) -> String {
    name.to_uppercase().replace('-', "_")
}

fn of_service(variables: &mut BTreeMap<String, String>, prefix: &str, spec: &ServiceSpec) {
    let (Some(address), Some(ports)) = (address(spec), &spec.ports) else { return };
    let Some(first) = ports.first() else { return };
    variables.insert(format!("{prefix}_SERVICE_HOST"), address.to_owned());
    variables.insert(format!("{prefix}_SERVICE_PORT"), first.port.to_string());
    for port in ports {
        if let Some(name) = port.name.as_deref().filter(|name| !name.is_empty()) {
            variables.insert(format!("{prefix}_SERVICE_PORT_{}", variable_name(name)), port.port.to_string());
        }
    }
    variables.insert(format!("{prefix}_PORT"), url(address, first));
    for port in ports {
        let of_port = format!("{prefix}_PORT_{}_{}", port.port, protocol(port));
        variables.insert(format!("{of_port}_PROTO"), protocol(port).to_lowercase());
        variables.insert(format!("{of_port}_PORT"), port.port.to_string());
        variables.insert(format!("{of_port}_ADDR"), address.to_owned());
        variables.insert(of_port, url(address, port));
    }
}

fn protocol(port: &ServicePort) -> String {
    port.protocol.as_deref().filter(|protocol| !protocol.is_empty()).unwrap_or("TCP").to_uppercase()
}

fn url(address: &str, port: &ServicePort) -> String {
    let protocol = protocol(port).to_lowercase();
    match address.parse::<Ipv6Addr>() {
        Ok(_) => format!("{protocol}://[{address}]:{}", port.port),
        Err(_) => format!("{protocol}://{address}:{}", port.port),
    }
}
