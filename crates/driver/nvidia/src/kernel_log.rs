//! The kernel log names the process of an XID; NVML does not.

use crate::signals::Process;

/// An XID in the kernel log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Line {
    /// As in sysfs, without the function: `0000:00:06`.
    pub(crate) pci: String,
    pub(crate) xid: u64,
    pub(crate) process: Option<Process>,
}

/// Reads a line such as `NVRM: Xid (PCI:0000:00:06): 31, pid=4242, name=oob, Ch 00000008, …`.
pub(crate) fn read(line: &str) -> Option<Line> {
    let (_, rest) = line.split_once("NVRM: Xid (PCI:")?;
    let (pci, rest) = rest.split_once("): ")?;
    let mut fields = rest.split(", ");
    let xid = fields.next()?.trim().parse().ok()?;
    let (mut pid, mut name) = (None, String::new());
    for field in fields {
        if let Some(number) = field.strip_prefix("pid=") {
            // `'<unknown>'` where the process is gone.
            pid = number.trim_matches('\'').parse().ok();
        } else if let Some(text) = field.strip_prefix("name=") {
            text.clone_into(&mut name);
        }
    }
    let process = pid.map(|pid| Process { pid, name });
    Some(Line { pci: pci.to_lowercase(), xid, process })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_process_is_read_where_it_is_named() {
        let line = "3,1203,88;NVRM: Xid (PCI:0000:00:06): 31, pid=4242, name=oob, Ch 00000008, intr 00000000. MMU Fault";
        let read_line = read(line).unwrap();
        assert_eq!((read_line.pci.as_str(), read_line.xid), ("0000:00:06", 31));
        assert_eq!(read_line.process, Some(Process { pid: 4242, name: "oob".into() }));
        let gone = read(
            "NVRM: Xid (PCI:0000:3B:00): 79, pid='<unknown>', name=<unknown>, GPU has fallen off the bus.",
        );
        assert_eq!(gone, Some(Line { pci: "0000:3b:00".into(), xid: 79, process: None }));
        for other in ["NVRM: loading", "NVRM: Xid (PCI:0000:00:06): x", "Xid 31", ""] {
            assert_eq!(read(other), None, "{other}");
        }
    }
}
