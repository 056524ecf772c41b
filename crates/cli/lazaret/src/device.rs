//! `lazaret device`, also called `kubectl-device`.

use std::path::Path;

use anyhow::{Context, Result, anyhow};
use lazaret_device::{Args, Console, connect};

use crate::{Verdict, output};

/// The name under which kubectl finds the plugin.
const PLUGIN: &str = "kubectl-device";

/// The name under which kubectl asks what can follow the words of the plugin.
const PLUGIN_COMPLETION: &str = "kubectl_complete-device";

/// Whether this process was started as kubectl's plugin.
pub(crate) fn is_called_as_plugin() -> bool {
    is_called(PLUGIN)
}

/// The words to complete, where kubectl started this process to complete those of its plugin.
pub(crate) fn words_to_complete() -> Option<Vec<String>> {
    let words = || std::env::args_os().skip(1).map(|word| word.to_string_lossy().into_owned()).collect();
    is_called(PLUGIN_COMPLETION).then(words)
}

fn is_called(name: &str) -> bool {
    let program = std::env::args_os().next();
    program.is_some_and(|path| Path::new(&path).file_stem().is_some_and(|stem| stem == name))
}

/// Prints what can follow `words` of a command.
pub(crate) fn complete(command: clap::Command, words: &[String]) -> Result<Verdict> {
    let text = runtime()?.block_on(lazaret_device::complete(command, words));
    output::print(&text)?;
    Ok(Verdict::Yes)
}

fn runtime() -> Result<tokio::runtime::Runtime> {
    tokio::runtime::Builder::new_current_thread().enable_all().build().context("start the runtime")
}

pub(crate) fn run(args: Args) -> Result<Verdict> {
    if let Some(words) = args.words_to_complete() {
        return complete(lazaret_device::command(), words);
    }
    let mut console = Console::standard();
    if let Some(done) = args.run_alone(&mut console) {
        return ended(done);
    }
    let runtime = runtime()?;
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
