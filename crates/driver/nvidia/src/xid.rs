//! XIDs: what the kernel module reports. Numbers and meanings are those of NVIDIA's catalogue.

/// The consequence of an XID for the card.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Severity {
    /// A program did something wrong. The card is well.
    Application,
    /// A part does not work as it should; work can go on until the card is reset.
    Degraded,
    /// The card cannot be used before it was reset, the machine restarted, or the card replaced.
    Fatal,
}

/// An XID of the catalogue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Xid {
    /// Its number.
    pub number: u64,
    /// The consequence for the card.
    pub severity: Severity,
    /// Its name in the catalogue.
    pub name: &'static str,
}

impl Xid {
    /// Whether it concerns the partition alone in which it happened: a program's fault stays where the program is.
    #[must_use]
    pub fn is_contained(&self) -> bool {
        self.severity == Severity::Application
    }
}

const fn app(number: u64, name: &'static str) -> Xid {
    Xid { number, severity: Severity::Application, name }
}

const fn degraded(number: u64, name: &'static str) -> Xid {
    Xid { number, severity: Severity::Degraded, name }
}

const fn fatal(number: u64, name: &'static str) -> Xid {
    Xid { number, severity: Severity::Fatal, name }
}

/// By number.
const CATALOGUE: &[Xid] = &[
    app(8, "GPU stopped processing"),
    app(13, "graphics engine exception"),
    app(31, "memory page fault"),
    fatal(32, "invalid or corrupted push buffer stream"),
    degraded(38, "driver firmware error"),
    app(43, "GPU stopped processing a channel"),
    app(44, "graphics engine fault during context switch"),
    app(45, "preemptive cleanup after earlier errors"),
    fatal(46, "GPU stopped processing"),
    fatal(48, "double bit ECC error"),
    fatal(56, "display engine error"),
    fatal(57, "error programming video memory interface"),
    fatal(58, "unstable video memory interface"),
    degraded(61, "internal micro-controller breakpoint"),
    fatal(62, "internal micro-controller halt"),
    degraded(63, "row remapping recorded"),
    fatal(64, "row remapping failed"),
    degraded(65, "video processor exception"),
    app(66, "illegal access by driver"),
    app(67, "illegal access by driver"),
    app(68, "NVDEC exception"),
    app(69, "graphics engine class error"),
    degraded(74, "NVLink error"),
    fatal(79, "GPU has fallen off the bus"),
    degraded(92, "high rate of single bit ECC errors"),
    app(94, "contained memory error"),
    fatal(95, "uncontained memory error"),
    app(109, "context switch timeout"),
    fatal(110, "security fault"),
    fatal(119, "GSP RPC timeout"),
    fatal(120, "GSP error"),
    degraded(121, "C2C link error"),
    degraded(122, "SPI PMU RPC read failure"),
    degraded(123, "SPI PMU RPC write failure"),
    degraded(124, "SPI PMU RPC erase failure"),
    degraded(125, "inforom file system error"),
    fatal(136, "link training failed"),
    app(137, "NVLink privilege error"),
    fatal(140, "unrecovered ECC error"),
    fatal(143, "GPU initialization failed"),
    degraded(144, "NVLink SAW error"),
    degraded(145, "NVLink RLW error"),
    degraded(146, "NVLink TLW error"),
    degraded(147, "NVLink TREX error"),
    degraded(148, "NVLink NVLPW_CTRL error"),
    degraded(149, "NVLink NETIR error"),
    degraded(150, "NVLink MSE error"),
    fatal(151, "key rotation error"),
    degraded(154, "recovery action changed"),
    degraded(155, "NVLink software defined error"),
    degraded(156, "resource retirement event"),
    fatal(157, "resource retirement failure"),
    fatal(158, "GPU fatal timeout"),
];

/// The XID of a number. One that is not in the catalogue is taken for fatal: an unknown XID is not taken for harmless.
#[must_use]
pub fn xid(number: u64) -> Xid {
    let known = CATALOGUE.binary_search_by_key(&number, |xid| xid.number).ok();
    known.map_or(fatal(number, "not in the catalogue"), |at| CATALOGUE[at])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_catalogue_is_in_order_and_tells_programs_from_cards() {
        assert!(CATALOGUE.is_sorted_by(|a, b| a.number < b.number));
        for number in [13, 31, 43, 45, 68, 109] {
            assert_eq!(xid(number).severity, Severity::Application, "NVIDIA's own driver ignores {number}");
        }
        for number in [48, 64, 79, 95, 119, 999] {
            assert_eq!(xid(number).severity, Severity::Fatal, "{number}");
        }
    }
}
