//! Where a server is found: the address it listens on, the one that it tells clients, and the names that its certificate has.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

/// Under which names a server on this machine is found, besides its address.
const HOSTS: &[&str] = &[
    "localhost",
    "127.0.0.1",
    "::1",
    "kubernetes",
    "kubernetes.default",
    "kubernetes.default.svc",
    "kubernetes.default.svc.cluster.local",
];

/// Where a server is found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServerAddress {
    /// The address that it listens on.
    pub bound: SocketAddr,
    /// The address published to clients, if not the one that it listens on.
    pub advertised: Option<IpAddr>,
    /// Further names and addresses that its certificate is valid for.
    pub names: Vec<String>,
}

impl From<SocketAddr> for ServerAddress {
    fn from(bound: SocketAddr) -> Self {
        Self { bound, advertised: None, names: Vec::new() }
    }
}

impl ServerAddress {
    /// The address for clients on other machines; `None` if it listens on all addresses and none is set to be advertised.
    #[must_use]
    pub fn endpoint(&self) -> Option<SocketAddr> {
        let ip = self.advertised.or(Some(self.bound.ip()).filter(|ip| !ip.is_unspecified()))?;
        Some(SocketAddr::new(ip, self.bound.port()))
    }

    /// Where a client on this machine finds it.
    #[must_use]
    pub fn local(&self) -> SocketAddr {
        let loopback: IpAddr = match self.bound.ip() {
            IpAddr::V4(_) => Ipv4Addr::LOCALHOST.into(),
            IpAddr::V6(_) => Ipv6Addr::LOCALHOST.into(),
        };
        self.endpoint().unwrap_or_else(|| SocketAddr::new(loopback, self.bound.port()))
    }

    /// The names that its certificate is valid for.
    pub(crate) fn certificate_names(&self) -> Vec<String> {
        let mut names: Vec<String> = HOSTS.iter().map(|&host| host.to_owned()).collect();
        let addresses = [Some(self.bound.ip()), self.advertised];
        let own = addresses.into_iter().flatten().filter(|ip| !ip.is_unspecified()).map(|ip| ip.to_string());
        for name in own.chain(self.names.iter().cloned()) {
            if !names.contains(&name) {
                names.push(name);
            }
        }
        names
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clients_are_told_an_address_that_they_can_use() {
        for (bound, advertised, endpoint, local) in [
            ("127.0.0.2:7443", None, Some("127.0.0.2:7443"), "127.0.0.2:7443"),
            ("[::1]:7443", None, Some("[::1]:7443"), "[::1]:7443"),
            ("0.0.0.0:7443", None, None, "127.0.0.1:7443"),
            ("[::]:7443", None, None, "[::1]:7443"),
            ("0.0.0.0:7443", Some("192.0.2.7"), Some("192.0.2.7:7443"), "192.0.2.7:7443"),
            ("[::]:7443", Some("2001:db8::7"), Some("[2001:db8::7]:7443"), "[2001:db8::7]:7443"),
        ] {
            let advertised = advertised.map(|ip: &str| ip.parse().unwrap());
            let address = ServerAddress { bound: bound.parse().unwrap(), advertised, names: Vec::new() };
            let expected = endpoint.map(|endpoint: &str| endpoint.parse().unwrap());
            assert_eq!(address.endpoint(), expected, "{bound}");
            assert_eq!(address.local(), local.parse().unwrap(), "{bound}");
            assert!(address.certificate_names().iter().all(|name| name != "0.0.0.0" && name != "::"));
        }
    }

    #[test]
    fn a_certificate_has_every_name_once() {
        let address = ServerAddress {
            bound: "127.0.0.2:1".parse().unwrap(),
            advertised: Some("192.0.2.7".parse().unwrap()),
            names: vec!["localhost".into(), "api.example.com".into()],
        };
        let names = address.certificate_names();
        assert_eq!(names[HOSTS.len()..], ["127.0.0.2", "192.0.2.7", "api.example.com"]);
    }
}
