//! Completions and manual pages.

use std::path::Path;

use crate::{Console, Error, Verdict, args};

/// As which program completions are made: kubectl looks for plugins by this name.
const PROGRAM: &str = "kubectl-device";

pub(super) fn completion(console: &mut Console, shell: clap_complete::Shell) -> Result<Verdict, Error> {
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut args::command().bin_name(PROGRAM), PROGRAM, &mut script);
    console.print(&String::from_utf8_lossy(&script))?;
    Ok(Verdict::Yes)
}

/// One page for the command and one for each of its commands.
pub(super) fn man(console: &mut Console, folder: &Path) -> Result<Verdict, Error> {
    let failed =
        |error: std::io::Error| Error::usage(format!("write pages to {}: {error}", folder.display()));
    std::fs::create_dir_all(folder).map_err(failed)?;
    clap_mangen::generate_to(args::command().bin_name(PROGRAM).disable_help_subcommand(true), folder)
        .map_err(failed)?;
    console.note(&format!("wrote manual pages to {}", folder.display()));
    Ok(Verdict::Yes)
}
