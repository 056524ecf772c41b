//! Checks the answers of plugins. DEVIATION(plugin-answers): kubelet takes anything; here names must be ones that a claim can have been given, and there is
//! a limit to everything: answers are kept in a file and handed to runtimes.

use alloc::{format, string::String};

use crate::checkpoint::DeviceState;

/// Devices of one claim and driver. An allocation has at most 32.
pub const DEVICES_PER_CLAIM_MAX: usize = 128;
/// CDI names, and requests, of one device.
const NAMES_PER_DEVICE_MAX: usize = 64;
/// Bytes of the name of a pool, and of a request.
const NAME_BYTES_MAX: usize = 253;
/// Bytes of a device's name: a DNS label.
const LABEL_BYTES_MAX: usize = 63;
/// Bytes of a CDI name: vendor, class and a name that contains a claim's UID.
const CDI_BYTES_MAX: usize = 512;

/// Checks the devices that a plugin has prepared for a claim.
pub(crate) fn checked(devices: &[DeviceState]) -> Result<(), String> {
    if devices.len() > DEVICES_PER_CLAIM_MAX {
        let count = devices.len();
        return Err(format!("{count} devices for one ResourceClaim, at most {DEVICES_PER_CLAIM_MAX} can be"));
    }
    devices.iter().try_for_each(check_device)
}

fn check_device(device: &DeviceState) -> Result<(), String> {
    let of_name = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || b"-./".contains(&byte);
    let of_share = |byte: u8| byte.is_ascii_hexdigit() || byte == b'-';
    check("pool name", &device.pool, NAME_BYTES_MAX, of_name)?;
    check("device name", &device.device, LABEL_BYTES_MAX, |byte| {
        of_name(byte) && byte != b'/' && byte != b'.'
    })?;
    if let Some(share) = &device.share {
        check("share ID", share, LABEL_BYTES_MAX, of_share)?;
    }
    if device.requests.len() > NAMES_PER_DEVICE_MAX || device.cdi_ids.len() > NAMES_PER_DEVICE_MAX {
        return Err(format!("more than {NAMES_PER_DEVICE_MAX} names for device {}", device.device));
    }
    for request in &device.requests {
        check("request name", request, NAME_BYTES_MAX, of_name)?;
    }
    device.cdi_ids.iter().try_for_each(|id| check_cdi_id(id))
}

/// Checks the CDI names of a classic claim.
pub(crate) fn checked_cdi_ids(ids: &[String]) -> Result<(), String> {
    if ids.len() > DEVICES_PER_CLAIM_MAX {
        let count = ids.len();
        return Err(format!(
            "{count} CDI device IDs for one ResourceClaim, at most {DEVICES_PER_CLAIM_MAX} can be"
        ));
    }
    ids.iter().try_for_each(|id| check_cdi_id(id))
}

fn check_cdi_id(id: &str) -> Result<(), String> {
    let of_cdi = |byte: u8| byte.is_ascii_alphanumeric() || b"-._:".contains(&byte);
    let parts = id.split_once('=').and_then(|(kind, name)| {
        let (vendor, class) = kind.split_once('/')?;
        Some([vendor, class, name])
    });
    let parts = parts.ok_or_else(|| format!("CDI device ID {} is not VENDOR/CLASS=NAME", shown(id)))?;
    parts.into_iter().try_for_each(|part| check("part of a CDI device ID", part, CDI_BYTES_MAX, of_cdi))
}

fn check(what: &str, name: &str, most: usize, allowed: impl Fn(u8) -> bool) -> Result<(), String> {
    if name.is_empty() || name.len() > most || !name.bytes().all(allowed) {
        return Err(format!("{what} {} is not allowed", shown(name)));
    }
    Ok(())
}

/// A name as it can be shown: quoted, and not too long.
fn shown(name: &str) -> String {
    let start: String = name.chars().take(64).collect();
    format!("{start:?}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::{string::ToString, vec};

    #[test]
    fn names_that_no_claim_can_have_and_too_many_devices_are_refused() {
        let good = DeviceState {
            pool: "node-1.example.com/a".into(),
            device: "gpu-0".into(),
            share: Some("8a2f5c1e-9b0d-4c7a-a1b2-c3d4e5f60718".into()),
            requests: vec!["r".into(), "r/sub".into()],
            cdi_ids: vec!["k8s.gpu.example.com/gpu=8a2f:0_a-gpu-0".into()],
        };
        assert_eq!(checked(&vec![good.clone(); DEVICES_PER_CLAIM_MAX]), Ok(()));
        assert!(checked(&vec![good.clone(); DEVICES_PER_CLAIM_MAX + 1]).unwrap_err().contains("129 devices"));
        let with = |change: fn(&mut DeviceState)| {
            let mut device = good.clone();
            change(&mut device);
            checked(&[device]).unwrap_err()
        };
        assert!(with(|device| device.pool = String::new()).contains("pool name"));
        assert!(with(|device| device.pool = "x".repeat(254)).contains("pool name"));
        assert!(with(|device| device.device = "../../etc".into()).contains("device name"));
        assert!(with(|device| device.device = "a\nb".into()).contains(r#""a\nb""#));
        assert!(with(|device| device.share = Some("a b".into())).contains("share ID"));
        assert!(with(|device| device.requests = vec!["R".into()]).contains("request name"));
        assert!(with(|device| device.requests = vec!["r".to_string(); 65]).contains("more than 64"));
        for id in ["", "gpu", "v/c", "v=c", "v/c=", "v/c=a b", "/c=a", "v/c=a=b"] {
            let wrong = checked(&[DeviceState { cdi_ids: vec![id.into()], ..good.clone() }]).unwrap_err();
            assert!(wrong.contains("CDI device ID"), "{id}: {wrong}");
        }
    }
}
