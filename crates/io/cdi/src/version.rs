//! Versions of the format: which there are, and which one the content of a spec needs.

use std::{fmt, str::FromStr};

use crate::{ContainerEdits, Spec, name::split_kind};

/// A version of the format. Ordered by age.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Version(u8, u8, u8);

/// All there are, the oldest first.
pub const KNOWN_VERSIONS: &[Version] = &[
    Version(0, 1, 0),
    Version(0, 2, 0),
    Version(0, 3, 0),
    Version(0, 4, 0),
    Version(0, 5, 0),
    Version(0, 6, 0),
    Version(0, 7, 0),
    Version(0, 8, 0),
    Version(1, 0, 0),
    Version(1, 1, 0),
];

/// The version that every spec needs.
const EARLIEST: Version = Version(0, 3, 0);

type Uses = fn(&Spec) -> bool;

/// Versions, and whether a spec uses a feature that each brought.
const NEEDS: &[(Version, Uses)] = &[
    (Version(1, 1, 0), |spec| {
        any_edits(spec, |edits| {
            let new =
                edits.intel_rdt.as_ref().is_some_and(|rdt| !rdt.schemata.is_empty() || rdt.enable_monitoring);
            new || !edits.net_devices.is_empty()
        })
    }),
    (Version(0, 7, 0), |spec| {
        any_edits(spec, |edits| edits.intel_rdt.is_some() || !edits.additional_gids.is_empty())
    }),
    (Version(0, 6, 0), |spec| {
        !spec.annotations.is_empty()
            || spec.devices.iter().any(|device| !device.annotations.is_empty())
            || split_kind(&spec.kind).is_some_and(|(_, class)| class.contains('.'))
    }),
    (Version(0, 5, 0), |spec| {
        spec.devices.iter().any(|device| device.name.starts_with(|first: char| first.is_ascii_digit()))
            || any_edits(spec, |edits| edits.device_nodes.iter().any(|node| !node.host_path.is_empty()))
    }),
    (Version(0, 4, 0), |spec| {
        any_edits(spec, |edits| edits.mounts.iter().any(|mount| !mount.kind.is_empty()))
    }),
];

/// The lowest version that has everything this spec uses.
#[must_use]
pub fn minimum_version(spec: &Spec) -> Version {
    NEEDS.iter().find(|(_, uses)| uses(spec)).map_or(EARLIEST, |(version, _)| *version)
}

fn any_edits(spec: &Spec, test: impl Fn(&ContainerEdits) -> bool) -> bool {
    test(&spec.container_edits) || spec.devices.iter().any(|device| test(&device.container_edits))
}

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}.{}", self.0, self.1, self.2)
    }
}

impl FromStr for Version {
    type Err = ();

    /// Reads a known version, with or without a leading `v`.
    fn from_str(text: &str) -> Result<Self, ()> {
        let text = text.strip_prefix('v').unwrap_or(text);
        KNOWN_VERSIONS.iter().find(|version| version.to_string() == text).copied().ok_or(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Device, DeviceNode, IntelRdt, Mount, NetDevice};

    fn with(change: impl FnOnce(&mut Spec)) -> Spec {
        let edits = ContainerEdits { env: vec!["A=b".into()], ..ContainerEdits::default() };
        let mut spec = Spec::new("vendor.com/class", vec![Device::new("device", edits)]);
        change(&mut spec);
        spec
    }

    #[test]
    fn the_lowest_version_that_the_content_needs() {
        let edits =
            |spec: &mut Spec, change: fn(&mut ContainerEdits)| change(&mut spec.devices[0].container_edits);
        let rows: Vec<(&str, Spec)> = vec![
            ("0.3.0", with(|_| {})),
            (
                "0.4.0",
                with(|spec| {
                    edits(spec, |edits| edits.mounts.push(Mount { kind: "tmpfs".into(), ..Mount::default() }))
                }),
            ),
            ("0.3.0", with(|spec| edits(spec, |edits| edits.mounts.push(Mount::default())))),
            ("0.5.0", with(|spec| spec.devices[0].name = "0d".into())),
            (
                "0.5.0",
                with(|spec| {
                    let node = DeviceNode { host_path: "/dev/x".into(), ..DeviceNode::default() };
                    spec.container_edits.device_nodes.push(node);
                }),
            ),
            ("0.6.0", with(|spec| spec.kind = "vendor.com/cl.ass".into())),
            ("0.6.0", with(|spec| drop(spec.annotations.insert("a".into(), "b".into())))),
            ("0.6.0", with(|spec| drop(spec.devices[0].annotations.insert("a".into(), "b".into())))),
            ("0.7.0", with(|spec| edits(spec, |edits| edits.intel_rdt = Some(IntelRdt::default())))),
            ("0.7.0", with(|spec| spec.container_edits.additional_gids.push(5))),
            (
                "1.1.0",
                with(|spec| {
                    spec.container_edits.intel_rdt =
                        Some(IntelRdt { enable_monitoring: true, ..IntelRdt::default() });
                }),
            ),
            ("1.1.0", with(|spec| edits(spec, |edits| edits.net_devices.push(NetDevice::default())))),
        ];
        for (wanted, spec) in rows {
            assert_eq!(minimum_version(&spec).to_string(), wanted, "{spec:?}");
        }
    }

    #[test]
    fn versions_are_read_with_and_without_v() {
        assert_eq!("v1.1.0".parse(), Ok(Version(1, 1, 0)));
        assert_eq!("0.3.0".parse(), Ok(EARLIEST));
        for unknown in ["", "1.2.0", "1.1", "01.1.0", "vv1.1.0", "1.1.0 "] {
            assert_eq!(unknown.parse::<Version>(), Err(()), "{unknown}");
        }
    }
}
