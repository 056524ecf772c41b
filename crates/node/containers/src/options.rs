//! Paths on the machine that a runtime uses.

use std::{ffi::OsString, path::PathBuf};

/// Paths on the machine.
#[derive(Clone, Debug)]
pub struct Options {
    /// Where everything of this runtime is kept: a directory of its own, on a file system that overlayfs can write to.
    /// It should not outlive a boot, though nothing breaks when it does.
    pub state: PathBuf,
    /// The program, and the words after which it calls [`crate::shim_main`] with the rest.
    pub shim: Vec<OsString>,
    /// Directories with CDI specs, the most important one last.
    pub cdi_directories: Vec<PathBuf>,
    /// Where configurations of the pods' network are. Without any, pods have the host's.
    pub cni_configurations: PathBuf,
    /// Where network plugins are looked for.
    pub cni_programs: Vec<PathBuf>,
}

impl Options {
    /// The usual places, for a program that has `node shim`.
    pub fn new(state: impl Into<PathBuf>) -> Self {
        Self {
            state: state.into(),
            shim: ["/proc/self/exe", "node", "shim"].map(OsString::from).to_vec(),
            cdi_directories: vec![
                lazaret_cdi::STATIC_DIRECTORY.into(),
                lazaret_cdi::DYNAMIC_DIRECTORY.into(),
            ],
            cni_configurations: "/etc/cni/net.d".into(),
            cni_programs: vec!["/opt/cni/bin".into(), "/usr/lib/cni".into()],
        }
    }
}
