//! IP addresses and CIDR blocks: stricter than most parsers. No zones, no IPv4-mapped IPv6, no leading zeros.

use alloc::format;
use alloc::string::String;
use core::fmt;
use core::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use super::{ExtError, quote};

/// A network: an address, kept with its host bits, and a prefix length.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Cidr {
    address: IpAddr,
    prefix: u8,
}

/// `ip(string)`.
pub(crate) fn parse_ip(text: &str) -> Result<IpAddr, ExtError> {
    if let Some((address, zone)) = text.split_once('%')
        && address.parse::<Ipv6Addr>().is_ok()
        && !zone.is_empty()
    {
        return Err(ExtError(format!("IP address {} with zone value is not allowed", quote::go(text))));
    }
    let address = text.parse::<IpAddr>().map_err(|_| {
        ExtError(format!(
            "IP Address {} parse error during conversion from string: neither IPv4 nor IPv6",
            quote::go(text)
        ))
    })?;
    reject_mapped(address, text)?;
    Ok(address)
}

/// `cidr(string)`.
pub(crate) fn parse_cidr(text: &str) -> Result<Cidr, ExtError> {
    let refuse = |reason: &str| {
        ExtError(format!(
            "network address parse error during conversion from string: {}: {reason}",
            quote::go(text)
        ))
    };
    let (address, prefix) = text.rsplit_once('/').ok_or_else(|| refuse("no prefix length"))?;
    let address = address.parse::<IpAddr>().map_err(|_| refuse("neither an IPv4 nor an IPv6 network"))?;
    let canonical =
        prefix.bytes().all(|b| b.is_ascii_digit()) && (prefix.len() == 1 || !prefix.starts_with('0'));
    let prefix = prefix
        .parse::<u8>()
        .ok()
        .filter(|prefix| canonical && *prefix <= bits(address))
        .ok_or_else(|| refuse("bad prefix length"))?;
    reject_mapped(address, text)?;
    Ok(Cidr { address, prefix })
}

/// `ip.family()`: 4 or 6.
pub(crate) fn family(address: IpAddr) -> i64 {
    match address {
        IpAddr::V4(_) => 4,
        IpAddr::V6(_) => 6,
    }
}

/// `ip.isCanonical(string)`: whether the text is how the address would be written.
pub(crate) fn is_canonical(text: &str) -> Result<bool, ExtError> {
    parse_ip(text).map(|address| format!("{address}") == text)
}

/// 224.0.0.0/24, or multicast of IPv6 with link-local scope.
pub(crate) fn is_link_local_multicast(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(v4) => matches!(v4.octets(), [224, 0, 0, _]),
        IpAddr::V6(v6) => v6.segments()[0] & 0xff0f == 0xff02,
    }
}

/// 169.254.0.0/16 or fe80::/10.
pub(crate) fn is_link_local_unicast(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(v4) => v4.is_link_local(),
        IpAddr::V6(v6) => v6.segments()[0] & 0xffc0 == 0xfe80,
    }
}

/// Everything that is not unspecified, loopback, multicast, link-local or the IPv4 broadcast; private ranges count.
pub(crate) fn is_global_unicast(address: IpAddr) -> bool {
    !(address.is_unspecified()
        || address.is_loopback()
        || address.is_multicast()
        || is_link_local_unicast(address)
        || address == IpAddr::V4(Ipv4Addr::BROADCAST))
}

impl Cidr {
    /// `cidr.ip()`: the address as written, host bits and all.
    pub(crate) fn ip(self) -> IpAddr {
        self.address
    }

    /// `cidr.prefixLength()`.
    pub(crate) fn prefix_length(self) -> i64 {
        i64::from(self.prefix)
    }

    /// `cidr.masked()`: host bits cleared.
    pub(crate) fn masked(self) -> Cidr {
        Cidr { address: mask(self.address, self.prefix), prefix: self.prefix }
    }

    /// `cidr.containsIP(ip)`; false across families.
    pub(crate) fn contains_ip(self, address: IpAddr) -> bool {
        family(self.address) == family(address)
            && mask(self.address, self.prefix) == mask(address, self.prefix)
    }

    /// `cidr.containsCIDR(cidr)`; false across families.
    pub(crate) fn contains_cidr(self, other: Cidr) -> bool {
        self.prefix <= other.prefix && self.contains_ip(other.address)
    }

    /// `size` as the cost model sees it: bytes of prefix, rounded up.
    pub(crate) fn size(self) -> u64 {
        u64::from(self.prefix.div_ceil(8))
    }
}

impl fmt::Display for Cidr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.address, self.prefix)
    }
}

/// `string(ip)`.
pub(crate) fn ip_to_string(address: IpAddr) -> String {
    format!("{address}")
}

fn bits(address: IpAddr) -> u8 {
    match address {
        IpAddr::V4(_) => 32,
        IpAddr::V6(_) => 128,
    }
}

fn mask(address: IpAddr, prefix: u8) -> IpAddr {
    match address {
        IpAddr::V4(v4) => {
            let kept = u32::MAX.checked_shl(32 - u32::from(prefix.min(32))).unwrap_or(0);
            IpAddr::V4(Ipv4Addr::from_bits(v4.to_bits() & kept))
        }
        IpAddr::V6(v6) => {
            let kept = u128::MAX.checked_shl(128 - u32::from(prefix.min(128))).unwrap_or(0);
            IpAddr::V6(Ipv6Addr::from_bits(v6.to_bits() & kept))
        }
    }
}

fn reject_mapped(address: IpAddr, text: &str) -> Result<(), ExtError> {
    match address {
        IpAddr::V6(v6) if v6.to_ipv4_mapped().is_some() => {
            Err(ExtError(format!("IPv4-mapped IPv6 address {} is not allowed", quote::go(text))))
        }
        IpAddr::V4(_) | IpAddr::V6(_) => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::string::ToString as _;

    fn ip(text: &str) -> IpAddr {
        parse_ip(text).unwrap()
    }

    fn cidr(text: &str) -> Cidr {
        parse_cidr(text).unwrap()
    }

    #[test]
    fn addresses_that_parse_and_how_they_are_written() {
        for (text, written) in [
            ("192.168.0.1", "192.168.0.1"),
            ("::1", "::1"),
            ("2001:DB8:0:0:0:0:0:1", "2001:db8::1"),
            ("::1.2.3.4", "::102:304"),
            ("1:0:0:2:0:0:0:3", "1:0:0:2::3"),
            ("1:0:2:3:4:5:6:7", "1:0:2:3:4:5:6:7"),
        ] {
            assert_eq!(ip_to_string(ip(text)), written);
            assert_eq!(is_canonical(text), Ok(text == written), "{text}");
        }
    }

    #[test]
    fn addresses_that_do_not_parse() {
        for (text, reason) in [
            ("", "neither IPv4 nor IPv6"),
            ("192.168.0.1.0", "neither"),
            ("127.0.0.01", "neither"),
            ("256.0.0.1", "neither"),
            ("::ffff:1.2.3.4", "IPv4-mapped IPv6 address"),
            ("::ffff:c0a8:1", "IPv4-mapped IPv6 address"),
            ("fe80::1%en0", "with zone value is not allowed"),
            ("fe80::1%", "neither"),
            ("1.2.3.4%en0", "neither"),
            ("1:2:3:4:5:6:7:8::", "neither"),
            ("::12345", "neither"),
            ("[::1]", "neither"),
        ] {
            let error = parse_ip(text).unwrap_err().to_string();
            assert!(error.contains(reason), "{text}: {error}");
            assert!(is_canonical(text).is_err());
        }
    }

    #[test]
    fn kinds_of_addresses() {
        // (address, unspecified, loopback, link-local multicast, link-local unicast, global unicast)
        for (text, unspecified, loopback, multicast, unicast, global) in [
            ("0.0.0.0", true, false, false, false, false),
            ("127.9.9.9", false, true, false, false, false),
            ("224.0.0.1", false, false, true, false, false),
            ("224.0.1.1", false, false, false, false, false),
            ("169.254.169.254", false, false, false, true, false),
            ("192.168.0.1", false, false, false, false, true),
            ("255.255.255.255", false, false, false, false, false),
            ("240.0.0.1", false, false, false, false, true),
            ("::", true, false, false, false, false),
            ("::1", false, true, false, false, false),
            ("ff02::1", false, false, true, false, false),
            ("ff12::1", false, false, true, false, false),
            ("ff05::1", false, false, false, false, false),
            ("fe80::1", false, false, false, true, false),
            ("febf::1", false, false, false, true, false),
            ("fd00::1", false, false, false, false, true),
        ] {
            let address = ip(text);
            assert_eq!(address.is_unspecified(), unspecified, "{text}");
            assert_eq!(address.is_loopback(), loopback, "{text}");
            assert_eq!(is_link_local_multicast(address), multicast, "{text}");
            assert_eq!(is_link_local_unicast(address), unicast, "{text}");
            assert_eq!(is_global_unicast(address), global, "{text}");
        }
        assert_eq!((family(ip("1.2.3.4")), family(ip("::1"))), (4, 6));
    }

    #[test]
    fn blocks_keep_their_host_bits() {
        let block = cidr("192.168.0.7/24");
        assert_eq!(block.to_string(), "192.168.0.7/24");
        assert_eq!(block.ip(), ip("192.168.0.7"));
        assert_eq!(block.prefix_length(), 24);
        assert_eq!(block.size(), 3);
        assert_eq!(block.masked().to_string(), "192.168.0.0/24");
        assert_ne!(block, block.masked());
        assert_eq!(cidr("10.1.2.3/0").masked().to_string(), "0.0.0.0/0");
        assert_eq!(cidr("::ffff/128").masked().to_string(), "::ffff/128");
        assert_eq!(cidr("2001:db8::1/32").masked().to_string(), "2001:db8::/32");
    }

    #[test]
    fn blocks_that_do_not_parse() {
        for text in [
            "",
            "1.2.3.4",
            "1.2.3.4/",
            "1.2.3.4/33",
            "1.2.3.4/08",
            "1.2.3.4/+8",
            "1.2.3.4/-1",
            "1.2.3.4/999",
            "::/129",
            "::ffff:1.2.3.4/120",
            "fe80::1%en0/64",
            "01.2.3.4/8",
        ] {
            assert!(parse_cidr(text).is_err(), "{text}");
        }
    }

    #[test]
    fn containment_never_crosses_families() {
        let block = cidr("192.168.0.0/24");
        assert!(block.contains_ip(ip("192.168.0.255")));
        assert!(!block.contains_ip(ip("192.168.1.0")));
        assert!(!block.contains_ip(ip("::1")));
        assert!(cidr("0.0.0.0/0").contains_ip(ip("9.9.9.9")));
        assert!(block.contains_cidr(cidr("192.168.0.128/25")));
        assert!(block.contains_cidr(block));
        assert!(!block.contains_cidr(cidr("192.168.0.0/23")));
        assert!(!cidr("::/0").contains_cidr(block));
    }
}
