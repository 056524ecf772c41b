//! Flags for a server that other machines reach.

use std::net::{IpAddr, SocketAddr};

use lazaret_model::validate_dns_subdomain;
use lazaret_server::ServerAddress;

/// Names that a certificate may have besides its own.
const NAMES_MAX: usize = 100;

#[derive(Clone, Debug, Default, clap::Args)]
pub(crate) struct AddressArgs {
    /// Address for clients on other machines, if not the one to listen on: for the Service kubernetes and for nodes that join
    #[arg(long, value_name = "IP", value_parser = parse_advertised)]
    advertise_address: Option<IpAddr>,
    /// Further names or addresses that the server's certificate is valid for
    #[arg(long, value_name = "NAME,...", value_delimiter = ',', value_parser = parse_name)]
    tls_san: Vec<String>,
}

impl AddressArgs {
    /// Where a server is found that listens here.
    pub(crate) fn of(&self, bound: SocketAddr) -> ServerAddress {
        let names = self.tls_san.iter().take(NAMES_MAX).cloned().collect();
        ServerAddress { bound, advertised: self.advertise_address, names }
    }
}

fn parse_advertised(text: &str) -> Result<IpAddr, String> {
    let ip: IpAddr = text.parse().map_err(|_| "write it as 192.0.2.7 or 2001:db8::7".to_owned())?;
    if ip.is_unspecified() || ip.is_multicast() {
        return Err("clients cannot connect to this address".into());
    }
    Ok(ip)
}

/// An address, or a name that may begin with `*.`.
fn parse_name(text: &str) -> Result<String, String> {
    if let Ok(ip) = text.parse::<IpAddr>() {
        return Ok(ip.to_string());
    }
    let name = text.to_ascii_lowercase();
    validate_dns_subdomain(name.strip_prefix("*.").unwrap_or(&name)).map_err(|error| error.to_string())?;
    Ok(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_addresses_are_taken_and_nothing_else() {
        for (text, expected) in [
            ("API.example.com", Some("api.example.com")),
            ("*.example.com", Some("*.example.com")),
            ("192.0.2.7", Some("192.0.2.7")),
            ("2001:DB8::7", Some("2001:db8::7")),
            ("", None),
            ("a b", None),
            ("*", None),
            ("a/b", None),
        ] {
            assert_eq!(parse_name(text).ok().as_deref(), expected, "{text:?}");
        }
        for text in ["0.0.0.0", "::", "224.0.0.1", "example.com", "1.2.3"] {
            assert!(parse_advertised(text).is_err(), "{text}");
        }
    }
}
