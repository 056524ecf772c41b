//! The command line: what can be asked, and who answers.

use std::{ffi::OsString, path::PathBuf};

use anyhow::{Context, Result};
use clap::{CommandFactory, Parser, Subcommand, error::ErrorKind};

use crate::{Verdict, allocate, cel, device, driver, install, node, output, plan, policy, run, store, up};

/// Device taints, allocation and eviction for Kubernetes.
#[derive(Debug, Parser)]
#[command(name = "lazaret", version, max_term_width = 110, arg_required_else_help = true)]
#[command(after_help = "Exit codes: 0 done or yes, 1 error, 2 the answer is no.")]
pub(crate) struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
#[allow(clippy::large_enum_variant, reason = "there is one, made from the command line")]
enum Command {
    /// Check or evaluate an expression that selects devices
    #[command(subcommand)]
    Cel(cel::Command),
    /// Show what a taint rule would do, without doing it
    Plan(plan::Args),
    /// Play health policies over recorded signals, before they are trusted
    #[command(subcommand)]
    Policy(policy::Command),
    /// Show which devices claims would be given, or why they get none
    Allocate(allocate::Args),
    /// Start a control plane: API server with an embedded store, scheduler, controllers, simulated nodes
    Up(up::Args),
    /// Check, back up, restore, compact and encrypt the files of a control plane
    #[command(subcommand)]
    Store(store::Command),
    /// Run the scheduler and the controllers against another API server
    Run(run::Args),
    /// Print what a cluster needs to run Lazaret, for `kubectl apply -f -`
    Install(install::Args),
    /// Run a driver of simulated GPUs for a kubelet, and make it fail
    #[command(subcommand)]
    Driver(driver::Command),
    #[command(about = NODE_ABOUT)]
    Node(node::Args),
    /// Measure how fast a control plane places and evicts pods
    Bench(lazaret_bench::Args),
    /// See, taint, drain and explain the devices of a cluster
    #[command(bin_name = "lazaret device")]
    Device(lazaret_device::Args),
    /// Print a completion script for a shell
    #[command(
        after_help = "Examples:\n  lazaret completion bash > /etc/bash_completion.d/lazaret\n  lazaret completion zsh > \"${fpath[1]}/_lazaret\""
    )]
    Completion {
        /// bash, elvish, fish, powershell or zsh
        shell: clap_complete::Shell,
    },
    /// Write manual pages into a folder
    Man {
        /// The folder, made if need be
        folder: PathBuf,
    },
    /// Print what can follow these words, one a line, for completion scripts
    #[command(name = "__complete", hide = true)]
    Complete {
        /// The words after the command's name; the last one is completed
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        words: Vec<String>,
    },
    /// The same for `kubectl device`, under the name by which kubectl calls it
    #[command(skip)]
    CompletePlugin { words: Vec<String> },
}

/// Files with Kubernetes objects.
#[derive(Debug, clap::Args)]
pub(crate) struct Files {
    /// YAML or JSON files, or folders of them; may be given several times, `-` is standard input
    #[arg(short = 'f', long = "filename", value_name = "PATH", required = true)]
    pub(crate) paths: Vec<PathBuf>,
}

/// Reads the arguments. Wrong ones end with code 1: 2 means that the answer is no.
pub(crate) fn parse() -> Result<Cli> {
    match try_parse() {
        Ok(cli) => Ok(cli),
        Err(error) => {
            let asked_for = matches!(
                error.kind(),
                ErrorKind::DisplayHelp
                    | ErrorKind::DisplayVersion
                    | ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand
            );
            let text = error.render();
            if asked_for && error.kind() != ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand {
                output::print(&text.to_string())?;
                finish(0)
            } else {
                output::note(text.to_string().trim_end());
                finish(1)
            }
        }
    }
}

/// Called `kubectl-device`, as kubectl calls its plugins, the command is `device`.
fn try_parse() -> Result<Cli, clap::Error> {
    if let Some(words) = device::words_to_complete() {
        return Ok(Cli { command: Command::CompletePlugin { words } });
    }
    if device::is_called_as_plugin() {
        return lazaret_device::Args::try_parse().map(|args| Cli { command: Command::Device(args) });
    }
    let words = with_group(std::env::args_os().collect());
    if words.get(1).is_some_and(|word| word == "node") {
        return NodeCli::try_parse_from(words).map(|cli| cli.command.into());
    }
    Cli::try_parse_from(words)
}

/// Purpose of `lazaret node`, in the list of commands and in its own help.
const NODE_ABOUT: &str =
    "Join a cluster as a node: run its pods and prepare their devices; or import images for it";

/// [`Cli`] with the one command of a process that is to be small: the flags of the others are megabytes of code, of which the kernel keeps what was
/// run once.
#[derive(Debug, Parser)]
#[command(name = "lazaret", version, max_term_width = 110)]
struct NodeCli {
    #[command(subcommand)]
    command: NodeCommand,
}

#[derive(Debug, Subcommand)]
enum NodeCommand {
    #[command(about = NODE_ABOUT)]
    Node(node::Args),
}

impl From<NodeCommand> for Cli {
    fn from(NodeCommand::Node(args): NodeCommand) -> Self {
        Self { command: Command::Node(args) }
    }
}

/// Commands of `lazaret store` that are understood without `store`: what is typed at night.
const WITHOUT_GROUP: &[&str] = &["backup", "compact", "restore", "verify"];

fn with_group(mut words: Vec<OsString>) -> Vec<OsString> {
    if words.get(1).and_then(|word| word.to_str()).is_some_and(|word| WITHOUT_GROUP.contains(&word)) {
        words.insert(1, "store".into());
    }
    words
}

#[allow(clippy::disallowed_methods, reason = "nothing has been started that would have to be ended")]
fn finish(code: i32) -> ! {
    std::process::exit(code)
}

impl Cli {
    pub(crate) fn run(self) -> Result<Verdict> {
        match self.command {
            Command::Cel(command) => command.run(),
            Command::Plan(args) => args.run(),
            Command::Policy(command) => command.run(),
            Command::Allocate(args) => args.run(),
            Command::Up(args) => args.run(),
            Command::Store(command) => command.run(),
            Command::Run(args) => args.run(),
            Command::Install(args) => args.run(),
            Command::Driver(command) => command.run(),
            Command::Node(args) => args.run(),
            Command::Bench(args) => lazaret_bench::run(&args).map(|()| Verdict::Yes),
            Command::Device(args) => device::run(args),
            Command::Completion { shell } => {
                let script = lazaret_device::completion_script(shell, &mut Self::command(), "lazaret");
                output::print(&script)?;
                Ok(Verdict::Yes)
            }
            Command::Man { folder } => {
                lazaret_device::man_pages(Self::command(), &folder)
                    .with_context(|| format!("write pages to {}", folder.display()))?;
                output::note(&format!("wrote manual pages to {}", folder.display()));
                Ok(Verdict::Yes)
            }
            Command::Complete { words } => device::complete(Self::command(), &words),
            Command::CompletePlugin { words } => device::complete(lazaret_device::command(), &words),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_command_line_is_consistent() {
        Cli::command().debug_assert();
    }

    #[test]
    fn commands_of_the_store_are_understood_without_its_name() {
        let parsed = |line: &str| {
            let words = with_group(line.split(' ').map(OsString::from).collect());
            Cli::try_parse_from(words).map(|cli| matches!(cli.command, Command::Store(_)))
        };
        for line in [
            "lazaret backup F",
            "lazaret store backup F",
            "lazaret restore F",
            "lazaret verify",
            "lazaret compact",
        ] {
            assert!(parsed(line).unwrap(), "{line}");
        }
        assert!(parsed("lazaret backup").is_err(), "the file is missing");
    }
}
