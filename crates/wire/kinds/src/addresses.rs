//! IP addresses and networks as fields of Services and endpoints have them.

use std::{collections::BTreeSet, net::IpAddr};

use crate::{Errors, path::Path};

/// Whether the text is an IPv6 address.
pub(crate) fn is_ipv6(text: &str) -> bool {
    text.parse::<IpAddr>().is_ok_and(|address| address.is_ipv6())
}

/// The error in a text that should be an IP address.
pub(crate) fn address_problem(text: &str) -> Option<&'static str> {
    match text.parse::<IpAddr>() {
        Ok(IpAddr::V6(address)) if address.to_ipv4_mapped().is_some() => {
            Some("must not be an IPv4-mapped IPv6 address")
        }
        Ok(_) => None,
        Err(_) if without_leading_zeros(text).parse::<IpAddr>().is_ok() => Some("must not have leading 0s"),
        Err(_) => Some("must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)"),
    }
}

/// An address that is not among those that were accepted before must be valid.
pub(crate) fn address(errors: &mut Errors, path: &Path<'_>, text: &str, accepted: &BTreeSet<&str>) -> bool {
    if accepted.contains(text) {
        return true;
    }
    match address_problem(text) {
        Some(problem) => {
            errors.invalid(path, text, problem);
            false
        }
        None => true,
    }
}

/// An address that traffic can be sent to.
pub(crate) fn endpoint_address(errors: &mut Errors, path: &Path<'_>, text: &str, loopback: bool) {
    let Ok(address) = text.parse::<IpAddr>() else {
        errors.invalid(path, text, "must be a valid IP address");
        return;
    };
    if address.is_unspecified() {
        errors.invalid(path, text, format!("may not be unspecified ({text})"));
    }
    if address.is_loopback() && !loopback {
        errors.invalid(path, text, "may not be in the loopback range (127.0.0.0/8, ::1/128)");
    }
    let (link_local, link_local_multicast) = match address {
        IpAddr::V4(address) => {
            let octets = address.octets();
            (address.is_link_local(), octets[..3] == [224, 0, 0])
        }
        IpAddr::V6(address) => {
            let first = address.segments()[0];
            (first & 0xffc0 == 0xfe80, first & 0xff0f == 0xff02)
        }
    };
    if link_local {
        errors.invalid(path, text, "may not be in the link-local range (169.254.0.0/16, fe80::/10)");
    }
    if link_local_multicast {
        errors.invalid(path, text, "may not be in the link-local multicast range (224.0.0.0/24, ff02::/10)");
    }
}

/// A network in CIDR notation.
pub(crate) fn network(errors: &mut Errors, path: &Path<'_>, text: &str) {
    let parsed = text.split_once('/').and_then(|(address, bits)| {
        let address: IpAddr = address.parse().ok()?;
        let bits: u8 = bits.parse().ok()?;
        (bits <= if address.is_ipv4() { 32 } else { 128 }).then_some(())
    });
    if parsed.is_none() {
        errors.invalid(path, text, "must be a valid CIDR value, (e.g. 10.9.8.0/24 or 2001:db8::/64)");
    }
}

fn without_leading_zeros(text: &str) -> String {
    let shorten = |part: &str| {
        let rest = part.trim_start_matches('0');
        if rest.is_empty() && !part.is_empty() { "0".to_owned() } else { rest.to_owned() }
    };
    text.split('.').map(shorten).collect::<Vec<_>>().join(".")
}

/// The message about a text that is no network.
pub(crate) const NO_CIDR: &str = "must be a valid CIDR value, (e.g. 10.9.8.0/24 or 2001:db8::/64)";

/// Address and length of the prefix.
pub(crate) fn cidr(text: &str) -> Option<(IpAddr, u32)> {
    let (address, bits) = text.split_once('/')?;
    let address: IpAddr = address.parse().ok()?;
    let bits: u32 = bits.parse().ok()?;
    (bits <= if address.is_ipv4() { 32 } else { 128 }).then_some((address, bits))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_are_addresses_or_say_why_not() {
        let rows = [
            ("10.0.0.1", None),
            ("2001:db8::1", None),
            ("010.0.0.1", Some("must not have leading 0s")),
            ("::ffff:10.0.0.1", Some("must not be an IPv4-mapped IPv6 address")),
            ("10.0.0", Some("must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)")),
            ("", Some("must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)")),
            ("fe80::1%eth0", Some("must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)")),
        ];
        for (text, problem) in rows {
            assert_eq!(address_problem(text), problem, "{text:?}");
        }
    }

    #[test]
    fn traffic_cannot_be_sent_everywhere() {
        let wrong = |text: &str| {
            let mut errors = Errors::new();
            endpoint_address(&mut errors, &Path::root("ip"), text, false);
            errors.list().len()
        };
        for text in ["0.0.0.0", "::", "127.0.0.1", "::1", "169.254.1.1", "fe80::1", "224.0.0.1", "ff02::1"] {
            assert_eq!(wrong(text), 1, "{text}");
        }
        for text in ["10.0.0.1", "2001:db8::1", "224.0.1.1", "fec0::1"] {
            assert_eq!(wrong(text), 0, "{text}");
        }
    }
}
