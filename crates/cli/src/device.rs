//! `lazaret device`, also called `kubectl-device`.

use std::path::Path;

use anyhow::{Context, Result, anyhow};
use lazaret_device::{Args, Console, connect};

use crate::Verdict;

/// The name under which kubectl finds the plugin.
const PLUGIN: &str = "kubectl-device";

/// Whether this process was started as kubectl's plugin.
pub(crate) fn is_called_as_plugin() -> bool {
    let program = std::env::args_os().next();
    program.is_some_and(|path| Path::new(&path).file_stem().is_some_and(|stem| stem == PLUGIN))
}

pub(crate) fn run(args: Args) -> Result<Verdict> {
    let mut console = Console::standard();
    if let Some(done) = args.run_alone(&mut console) {
        return ended(done);
    }
    let runtime =
        tokio::runtime::Builder::new_current_thread().enable_all().build().context("start the runtime")?;
    ended(runtime.block_on(async {
        let client = connect(&args.connection).await?;
        lazaret_device::run(args, client, &mut console).await
    }))
}

fn ended(done: Result<lazaret_device::Verdict, lazaret_device::Error>) -> Result<Verdict> {
    match done {
        Ok(lazaret_device::Verdict::Yes) => Ok(Verdict::Yes),
        Ok(lazaret_device::Verdict::No) => Ok(Verdict::No),
        // Nothing is left to say to a reader that has gone away.
        Err(error) if error.is_closed_pipe() => Ok(Verdict::Yes),
        Err(error) => Err(anyhow!("{error}")),
    }
}
