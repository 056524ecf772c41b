//! Where cluster IPs and node ports come from.

use std::net::Ipv4Addr;

/// The prefix of a network for cluster IPs is no shorter: a million addresses are enough.
const PREFIX_MIN: u32 = 12;
/// Nor longer: there must be a few addresses.
const PREFIX_MAX: u32 = 29;

/// Which cluster IPs and node ports Services are given.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ServiceRanges {
    network: u32,
    prefix: u32,
    port_first: u16,
    port_last: u16,
}

impl Default for ServiceRanges {
    fn default() -> Self {
        Self {
            network: u32::from(Ipv4Addr::new(10, 96, 0, 0)),
            prefix: PREFIX_MIN,
            port_first: 30_000,
            port_last: 32_767,
        }
    }
}

impl ServiceRanges {
    /// A network as in `10.96.0.0/12`, and ports as in `30000-32767` or `30000+2767`.
    ///
    /// # Errors
    /// The invalid range, and why.
    pub fn new(network: &str, ports: &str) -> Result<Self, String> {
        let parsed = network.split_once('/').and_then(|(address, prefix)| {
            Some((address.parse::<Ipv4Addr>().ok()?, prefix.parse::<u32>().ok().filter(|bits| *bits <= 32)?))
        });
        let Some((address, prefix)) = parsed else {
            return Err(format!("{network:?} is no IPv4 network such as 10.96.0.0/12"));
        };
        if prefix < PREFIX_MIN {
            return Err(format!(
                "{network} is too large; for 32-bit addresses, the mask must be >= {PREFIX_MIN}"
            ));
        }
        if prefix > PREFIX_MAX {
            return Err(format!("{network} is too small; the mask must be <= {PREFIX_MAX}"));
        }
        let network = u32::from(address) & (u32::MAX << (32 - prefix));
        let (port_first, port_last) = parse_ports(ports)
            .ok_or_else(|| format!("{ports:?} is no range of ports such as 30000-32767"))?;
        Ok(Self { network, prefix, port_first, port_last })
    }

    /// The cluster IP of the Service `kubernetes`.
    #[must_use]
    pub fn first_address(&self) -> Ipv4Addr {
        Ipv4Addr::from(self.addresses().0)
    }

    /// First and last cluster IP: neither the network's own address nor that for all.
    pub(crate) fn addresses(&self) -> (u32, u32) {
        let last = self.network | !(u32::MAX << (32 - self.prefix));
        (self.network + 1, last - 1)
    }

    /// First and last node port.
    pub(crate) fn ports(&self) -> (u32, u32) {
        (self.port_first.into(), self.port_last.into())
    }

    /// As text.
    pub(crate) fn network(&self) -> String {
        format!("{}/{}", Ipv4Addr::from(self.network), self.prefix)
    }

    /// Addresses at the beginning of the range that are left for people to choose.
    pub(crate) fn chosen_addresses(&self) -> u32 {
        let size = 1_u32 << (32 - self.prefix);
        if size <= 16 { 0 } else { (size / 16).clamp(16, 256) }
    }

    /// Ports at the beginning of the range that are left for people to choose.
    pub(crate) fn chosen_ports(&self) -> u32 {
        let size = u32::from(self.port_last - self.port_first) + 1;
        if size <= 16 { 0 } else { (size / 32).clamp(16, 128) }
    }
}

fn parse_ports(text: &str) -> Option<(u16, u16)> {
    let (first, last) = match (text.split_once('-'), text.split_once('+')) {
        (Some((first, last)), _) => (first.trim().parse().ok()?, last.trim().parse().ok()?),
        (None, Some((first, more))) => {
            let first: u16 = first.trim().parse().ok()?;
            (first, first.checked_add(more.trim().parse().ok()?)?)
        }
        (None, None) => return None,
    };
    (first > 0 && first <= last).then_some((first, last))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_are_read_as_they_are_written() {
        let ranges = ServiceRanges::new("10.96.0.0/12", "30000-32767").unwrap();
        assert_eq!(ranges, ServiceRanges::default());
        assert_eq!(ranges.first_address(), Ipv4Addr::new(10, 96, 0, 1));
        assert_eq!((ranges.network().as_str(), ranges.chosen_addresses()), ("10.96.0.0/12", 256));
        assert_eq!(ServiceRanges::new("10.97.3.4/16", "30000+2767").unwrap().network(), "10.97.0.0/16");
        let wrong = [
            ("10.0.0.0/8", "1-2", "too large"),
            ("10.0.0.0/30", "1-2", "too small"),
            ("fd00::/108", "1-2", "no IPv4 network"),
            ("10.0.0.0/16", "2-1", "no range of ports"),
            ("10.0.0.0/16", "0-1", "no range of ports"),
            ("10.0.0.0/16", "1-70000", "no range of ports"),
        ];
        for (network, ports, why) in wrong {
            let refused = ServiceRanges::new(network, ports).unwrap_err();
            assert!(refused.contains(why), "{network} {ports}: {refused}");
        }
    }
}
