//! A double of NVML for tests: a shared library with the functions that `lazaret-nvml` calls.
//!
//! Beside the library's file lies `script.json` ([`Script`]), which lists the cards and the events so
//! far; a test writes it anew whenever something is to happen. Changes of the cards (partitions, modes) go to
//! `hardware.json` ([`Hardware`]) and outlive a process, as with real cards. A test that wants cards of its own
//! puts a copy of the library into a directory of its own ([`install`]).
//!
//! **Invariant.** Without a script there is no card and NVML does not start. A card that is lost answers nothing.

mod exports;
mod state;

use std::{
    io,
    path::{Path, PathBuf},
};

pub use state::{Card, Event, Hardware, Part, Profile, Script};

/// Puts a copy of the library and this script into a directory; gives the path of the library.
///
/// # Errors
/// When files cannot be written, or the library was not built.
pub fn install(directory: &Path, script: &Script) -> io::Result<PathBuf> {
    let built = built()?;
    let path = directory.join("libnvidia-ml.so.1");
    std::fs::copy(built, &path)?;
    script.write(directory)?;
    Ok(path)
}

/// Cargo puts it beside the test's own program.
fn built() -> io::Result<PathBuf> {
    let program = std::env::current_exe()?;
    let name = "libnvidia_ml_double.so";
    let found = program.ancestors().skip(1).map(|directory| directory.join(name)).find(|path| path.exists());
    found.ok_or_else(|| {
        io::Error::new(io::ErrorKind::NotFound, format!("{name} is not beside {}", program.display()))
    })
}
