//! Where a node is, by what its object says. That is data from outside: a node writes its own addresses.

use std::net::IpAddr;

use lazaret_json::Value;

/// The port of a node that names none, as in Kubernetes.
const KUBELET_PORT: u16 = 10_250;
/// A name of a host is not longer.
const HOST_BYTES_MAX: usize = 253;
/// Which addresses are tried for, in this order.
const ADDRESS_TYPES: &[&str] = &["InternalIP", "ExternalIP", "Hostname"];

/// Where a node is, and who is expected there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Location {
    pub(super) node: String,
    /// An address, or the name of a host.
    pub(super) host: String,
    pub(super) port: u16,
}

impl Location {
    /// # Errors
    /// Why the node cannot be reached.
    pub(super) fn of(node: &Value) -> Result<Self, String> {
        let name = node["metadata"]["name"].as_str().unwrap_or_default().to_owned();
        let addresses = || node["status"]["addresses"].as_array().into_iter().flatten();
        let of_type = |kind: &&&str| addresses().find(|address| address["type"] == ***kind);
        let Some(address) = ADDRESS_TYPES.iter().find_map(|kind| of_type(&kind)) else {
            let known: Vec<&str> = addresses().filter_map(|address| address["type"].as_str()).collect();
            return Err(format!("no preferred addresses found; known addresses: {known:?}"));
        };
        let host = address["address"].as_str().unwrap_or_default().to_owned();
        let port = match node["status"]["daemonEndpoints"]["kubeletEndpoint"]["Port"].as_i64() {
            None | Some(..=0) => KUBELET_PORT,
            Some(port) => u16::try_from(port).map_err(|_| format!("node {name} has no port {port}"))?,
        };
        let fine = match host.parse::<IpAddr>() {
            Ok(ip) => !is_unroutable(ip),
            Err(_) => is_host_name(&host),
        };
        if !fine {
            return Err(format!("node {name} has an address that is not connected to: {host:?}"));
        }
        Ok(Self { node: name, host, port })
    }

    /// The authority of its URL.
    pub(super) fn authority(&self) -> String {
        let (host, port) = (&self.host, self.port);
        if host.contains(':') { format!("[{host}]:{port}") } else { format!("{host}:{port}") }
    }

    pub(super) fn url(&self) -> String {
        format!("https://{}", self.authority())
    }
}

/// Addresses at which no node can be.
pub(super) fn is_unroutable(ip: IpAddr) -> bool {
    let ip = plain(ip);
    let link_local = match ip {
        IpAddr::V4(ip) => ip.is_link_local() || ip.is_broadcast(),
        IpAddr::V6(ip) => ip.is_unicast_link_local(),
    };
    ip.is_unspecified() || ip.is_multicast() || link_local
}

/// Addresses of this machine alone: a server there is not trusted without a certificate.
pub(super) fn is_own(ip: IpAddr) -> bool {
    plain(ip).is_loopback()
}

/// `::ffff:127.0.0.1` is 127.0.0.1.
fn plain(ip: IpAddr) -> IpAddr {
    match ip {
        IpAddr::V6(six) => six.to_ipv4_mapped().map_or(ip, IpAddr::V4),
        IpAddr::V4(_) => ip,
    }
}

fn is_host_name(text: &str) -> bool {
    let label = |label: &str| {
        !label.is_empty()
            && label.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_')
            && !label.starts_with('-')
    };
    text.len() <= HOST_BYTES_MAX && text.split('.').all(label)
}

#[cfg(test)]
mod tests {
    use lazaret_json::json;

    use super::*;

    fn at(addresses: &Value, port: &Value) -> Result<String, String> {
        let node = json!({"metadata": {"name": "n"}, "status": {
            "addresses": addresses, "daemonEndpoints": {"kubeletEndpoint": {"Port": port}},
        }});
        Location::of(&node).map(|location| location.url())
    }

    #[test]
    fn a_node_is_where_its_object_says_unless_nobody_can_be_there() {
        let address = |kind: &str, address: &str| json!({"type": kind, "address": address});
        let both = json!([address("Hostname", "n.example.com"), address("InternalIP", "192.0.2.7")]);
        assert_eq!(at(&both, &json!(10_251)).unwrap(), "https://192.0.2.7:10251");
        assert_eq!(at(&both, &Value::Null).unwrap(), "https://192.0.2.7:10250");
        assert_eq!(at(&both, &json!(0)).unwrap(), "https://192.0.2.7:10250");
        assert!(at(&both, &json!(70_000)).is_err());
        let six = json!([address("InternalIP", "2001:db8::7")]);
        assert_eq!(at(&six, &json!(1)).unwrap(), "https://[2001:db8::7]:1");
        for (host, fine) in [
            ("n.example.com", true),
            ("127.0.0.1", true),
            ("169.254.169.254", false),
            ("::ffff:169.254.169.254", false),
            ("fe80::1", false),
            ("0.0.0.0", false),
            ("224.0.0.1", false),
            ("255.255.255.255", false),
            ("n.example.com/x", false),
            ("user@n", false),
            ("n:80", false),
            ("n example", false),
            ("..", false),
            ("", false),
        ] {
            let found = at(&json!([address("Hostname", host)]), &json!(1));
            assert_eq!(found.is_ok(), fine, "{host}: {found:?}");
        }
        assert!(at(&json!([]), &Value::Null).unwrap_err().contains("no preferred addresses"));
        assert!(is_own("::1".parse().unwrap()) && is_own("::ffff:127.0.0.9".parse().unwrap()));
    }
}
