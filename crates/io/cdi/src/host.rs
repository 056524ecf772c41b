//! Device nodes of this machine.

use std::{
    io,
    os::unix::fs::{FileTypeExt, MetadataExt},
    path::Path,
};

/// A device node of this machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HostDevice {
    /// Its type.
    pub kind: HostDeviceKind,
    /// The driver's number.
    pub major: i64,
    /// Which of the driver's devices.
    pub minor: i64,
    /// Permissions, without the type.
    pub file_mode: u32,
}

/// The type of a device node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HostDeviceKind {
    /// `b`
    Block,
    /// `c`
    Character,
    /// `p`
    Fifo,
}

impl HostDeviceKind {
    /// As in a spec.
    #[must_use]
    pub fn letter(self) -> &'static str {
        match self {
            Self::Block => "b",
            Self::Character => "c",
            Self::Fifo => "p",
        }
    }
}

impl HostDevice {
    /// The node at a path; a link is none.
    ///
    /// # Errors
    /// When there is nothing, or no device node.
    pub fn at(path: &Path) -> io::Result<Self> {
        let found = path.symlink_metadata()?;
        let kind = match found.file_type() {
            kind if kind.is_block_device() => HostDeviceKind::Block,
            kind if kind.is_char_device() => HostDeviceKind::Character,
            kind if kind.is_fifo() => HostDeviceKind::Fifo,
            _ => return Err(io::Error::other("not a device node")),
        };
        let (major, minor) = split_number(found.rdev());
        Ok(Self { kind, major, minor, file_mode: found.mode() & 0o7777 })
    }
}

/// Linux puts both numbers into one, in four parts.
fn split_number(number: u64) -> (i64, i64) {
    let major = ((number >> 8) & 0xfff) | ((number >> 32) & 0xffff_f000);
    let minor = (number & 0xff) | ((number >> 12) & 0xffff_ff00);
    (major.cast_signed(), minor.cast_signed())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn null_is_a_character_device() {
        let null = HostDevice::at(Path::new("/dev/null")).unwrap();
        assert_eq!((null.kind, null.major, null.minor), (HostDeviceKind::Character, 1, 3));
        assert!(HostDevice::at(Path::new("/")).is_err());
        assert!(HostDevice::at(Path::new("/dev/there-is-none")).is_err());
    }

    #[test]
    fn numbers_have_four_parts() {
        assert_eq!(split_number(0x0103), (1, 3));
        // makedev(0x12345678, 0x9abcdef0) in glibc.
        assert_eq!(split_number(0x1234_59ab_cde6_78f0), (0x1234_5678, 0x9abc_def0));
    }
}
