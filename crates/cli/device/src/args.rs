//! The command line: what can be asked.

use std::path::PathBuf;

use clap::{CommandFactory, Parser, Subcommand};

use crate::{
    api::DryRun,
    guard_args, health_args, live_args,
    output::{Format, Plain, Tabular},
    taint_args,
};

/// See, taint, drain and explain the devices of a cluster.
#[derive(Debug, Parser)]
#[command(name = "kubectl-device", bin_name = "kubectl device", version, max_term_width = 110)]
#[command(arg_required_else_help = true, subcommand_required = true)]
#[command(
    after_help = "A device is named DRIVER/POOL/DEVICE, or shorter where that is enough: POOL/DEVICE, DEVICE.
Exit codes: 0 done or yes, 1 error, 2 the answer is no."
)]
pub struct Args {
    /// Which cluster, as whom.
    #[command(flatten)]
    pub connection: Connection,
    /// The command.
    #[command(subcommand)]
    pub(crate) command: Command,
}

/// Which cluster, as whom, in which namespace.
#[derive(Clone, Debug, Default, clap::Args)]
#[command(next_help_heading = "Cluster")]
pub struct Connection {
    /// The kubeconfig file [default: as kubectl finds it]
    #[arg(long, global = true, value_name = "PATH")]
    pub kubeconfig: Option<PathBuf>,
    /// The context in the kubeconfig
    #[arg(long, global = true, value_name = "NAME")]
    pub context: Option<String>,
    /// The cluster in the kubeconfig
    #[arg(long, global = true, value_name = "NAME")]
    pub cluster: Option<String>,
    /// The user in the kubeconfig
    #[arg(long, global = true, value_name = "NAME")]
    pub user: Option<String>,
    /// Act as this user
    #[arg(long = "as", global = true, value_name = "USER")]
    pub as_user: Option<String>,
    /// Act as a member of this group; may be given several times
    #[arg(long = "as-group", global = true, value_name = "GROUP")]
    pub as_group: Vec<String>,
    /// The namespace of pods and claims
    #[arg(short, long, global = true, value_name = "NAME")]
    pub namespace: Option<String>,
    /// Pods and claims of all namespaces
    #[arg(short = 'A', long, global = true, conflicts_with = "namespace")]
    pub all_namespaces: bool,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// List devices with their state, taints and holders
    #[command(visible_alias = "ls", after_help = LIST)]
    List(List),
    /// Show everything about one device
    #[command(after_help = DESCRIBE)]
    Describe(Describe),
    /// Set or remove taints
    #[command(after_help = taint_args::TAINT)]
    Taint(taint_args::Taint),
    /// Show what a taint would do, without setting it
    #[command(after_help = taint_args::PLAN)]
    Plan(taint_args::Plan),
    /// Take devices out of service: keep new pods away, then evict the pods on them
    #[command(after_help = taint_args::DRAIN)]
    Drain(taint_args::DrainArgs),
    /// Keep new pods away from devices, and let the pods on them run
    #[command(after_help = taint_args::CORDON)]
    Cordon(taint_args::Cordon),
    /// Bring cordoned or drained devices back into service
    #[command(after_help = taint_args::UNCORDON)]
    Uncordon(taint_args::Uncordon),
    /// Let others have a device whose pod was removed before it ended, without waiting for its node
    #[command(after_help = taint_args::RELEASE)]
    Release(taint_args::Release),
    /// Let no eviction because of a device taint begin
    #[command(after_help = guard_args::PAUSE)]
    Pause(guard_args::PauseArgs),
    /// Let evictions begin again
    #[command(after_help = guard_args::RESUME)]
    Resume(guard_args::ResumeArgs),
    /// Show what keeps evictions from beginning, and reset breakers
    #[command(after_help = guard_args::GUARD)]
    Guard(guard_args::GuardArgs),
    /// Show what a held rule does, and let it take effect
    #[command(after_help = guard_args::APPROVE)]
    Approve(guard_args::ApproveArgs),
    /// Show why a pod waits for devices, or why it was evicted from them
    #[command(after_help = WHY)]
    Why(WhyArgs),
    /// Show who tainted devices, why, and which pods were evicted
    #[command(after_help = HISTORY)]
    History(HistoryArgs),
    /// Show incidents of devices: what is wrong, how far the repair is, what it cost
    #[command(after_help = health_args::INCIDENTS)]
    Incidents(health_args::IncidentsArgs),
    /// Report something about a device to the health policies
    #[command(after_help = health_args::REPORT)]
    Report(health_args::ReportArgs),
    /// Say that you have seen an incident
    #[command(after_help = health_args::ACKNOWLEDGE)]
    Acknowledge(health_args::ActArgs),
    /// Say that a device was repaired: it goes to probation
    #[command(after_help = health_args::REPAIRED)]
    Repaired(health_args::ActArgs),
    /// Give a device up: it stays out of service until somebody says that it was repaired
    #[command(after_help = health_args::ABANDON)]
    Abandon(health_args::ActArgs),
    /// Show the fleet in a browser: the dashboard, with this kubeconfig
    #[command(after_help = live_args::UI)]
    Ui(live_args::UiArgs),
    /// Show the fleet in this terminal, as it changes
    #[command(after_help = live_args::TOP)]
    Top(live_args::TopArgs),
    /// Record what happens to devices into a file that the dashboard plays
    #[command(after_help = live_args::RECORD)]
    Record(live_args::RecordArgs),
    /// Look for problems with devices, drivers, rules and permissions
    #[command(after_help = CHECK)]
    Check(CheckArgs),
    /// Make a driver that fails on command report a failing device
    #[command(after_help = health_args::FAIL)]
    Fail(health_args::Fail),
    /// Make a driver that fails on command report a healthy device again
    #[command(after_help = health_args::RECOVER)]
    Recover(health_args::Recover),
    /// Print a completion script for a shell
    #[command(after_help = COMPLETION)]
    Completion {
        /// bash, elvish, fish, powershell or zsh
        shell: clap_complete::Shell,
    },
    /// Write manual pages into a folder
    #[command(after_help = "Examples:\n  kubectl device man /usr/local/share/man/man1")]
    Man {
        /// The folder
        folder: PathBuf,
    },
    /// Print what can follow these words, one a line, for completion scripts
    #[command(name = COMPLETE, hide = true)]
    Complete {
        /// The words after the command's name; the last one is completed
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        words: Vec<String>,
    },
}

/// The command that completion scripts call.
pub(crate) const COMPLETE: &str = "__complete";

#[derive(Debug, clap::Args)]
pub(crate) struct List {
    /// Devices, or patterns with *; all unless given
    pub(crate) devices: Vec<String>,
    #[command(flatten)]
    pub(crate) filter: FilterArgs,
    /// Only devices with a taint
    #[arg(long)]
    pub(crate) tainted: bool,
    /// Then print each device that changes
    #[arg(short, long)]
    pub(crate) watch: bool,
    /// How to print
    #[arg(short, long, value_enum, default_value_t)]
    pub(crate) output: Format,
}

/// Which devices, by what they are.
#[derive(Clone, Debug, Default, clap::Args)]
pub(crate) struct FilterArgs {
    /// Only devices of this driver
    #[arg(long, value_name = "NAME")]
    pub(crate) driver: Option<String>,
    /// Only devices on this node
    #[arg(long, value_name = "NAME")]
    pub(crate) node: Option<String>,
    /// Only devices on nodes with these labels
    #[arg(short = 'l', long, value_name = "LABELS")]
    pub(crate) selector: Option<String>,
    /// Only devices that this expression matches
    #[arg(long, value_name = "EXPRESSION")]
    pub(crate) cel: Option<String>,
}

#[derive(Debug, clap::Args)]
pub(crate) struct Describe {
    /// The device
    pub(crate) device: String,
    /// How to print
    #[arg(short, long, value_enum, default_value_t)]
    pub(crate) output: Plain,
}

/// Devices by name, and by what they are.
#[derive(Debug, clap::Args)]
pub(crate) struct Chosen {
    /// Devices
    #[arg(value_name = "DEVICE")]
    pub(crate) devices: Vec<String>,
    #[command(flatten)]
    pub(crate) filter: FilterArgs,
    /// Let a name mean several devices; without a name, all devices
    #[arg(long)]
    pub(crate) all: bool,
}

/// Whether a write is tried or done, and how the result is printed.
#[derive(Clone, Copy, Debug, clap::Args)]
pub(crate) struct WriteArgs {
    /// Only say what would be done
    #[arg(long, value_enum, default_value_t, num_args = 0..=1, require_equals = true, default_missing_value = "client")]
    pub(crate) dry_run: DryRun,
    /// How to print
    #[arg(short, long, value_enum, default_value_t)]
    pub(crate) output: Plain,
}

/// Devices and taints, in any order: a taint has `:` or `=` in it, or ends in `-`.
#[derive(Debug, clap::Args)]
pub(crate) struct Selected {
    /// Devices, and taints KEY[=VALUE]:EFFECT to set or KEY[=VALUE][:EFFECT]- to remove
    #[arg(required = true, value_name = "DEVICE|TAINT")]
    pub(crate) words: Vec<String>,
    #[command(flatten)]
    pub(crate) filter: FilterArgs,
    /// Let a name mean several devices; without a name, all devices
    #[arg(long)]
    pub(crate) all: bool,
}

#[derive(Debug, clap::Args)]
pub(crate) struct WhyArgs {
    /// The pod; NAMESPACE/POD is understood as well
    pub(crate) pod: String,
    /// How to print
    #[arg(short, long, value_enum, default_value_t)]
    pub(crate) output: Plain,
}

#[derive(Debug, clap::Args)]
pub(crate) struct HistoryArgs {
    /// The device; all unless given
    pub(crate) device: Option<String>,
    /// One line for each entry, for other programs
    #[arg(long, value_enum, value_name = "FORMAT", conflicts_with = "output")]
    pub(crate) export: Option<Export>,
    /// How to print
    #[arg(short, long, value_enum, default_value_t)]
    pub(crate) output: Tabular,
}

/// Lines for other programs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Export {
    /// An entry as JSON.
    Jsonl,
    /// A CloudEvent, version 1.0, as JSON.
    Cloudevents,
}

#[derive(Debug, clap::Args)]
pub(crate) struct CheckArgs {
    /// How to print
    #[arg(short, long, value_enum, default_value_t)]
    pub(crate) output: Plain,
}

const LIST: &str = "Examples:
  kubectl device list
  kubectl device list --tainted -o wide
  kubectl device list 'gpu.example.com/node-1/*'
  kubectl device list -l topology.kubernetes.io/zone=a --driver gpu.example.com
  kubectl device list --cel 'device.attributes[\"gpu.example.com\"].model == \"A100\"' -o name
  kubectl device list -n research -w";

const DESCRIBE: &str = "Examples:
  kubectl device describe gpu.example.com/node-1/gpu-3
  kubectl device describe node-1/gpu-3 -o json";

const WHY: &str = "Examples:
  kubectl device why trainer-0 -n research
  kubectl device why research/trainer-0 -o json";

const HISTORY: &str = "Examples:
  kubectl device history
  kubectl device history node-1/gpu-3 -o json

Rules and taints that exist say who set them and why. Events say what was removed, for as long as the
server keeps them: an hour by default. The server's audit log is the proof.";

const CHECK: &str = "Examples:
  kubectl device check
  kubectl device check -o json

Exit code 2 when something failed; warnings do not count.";

const COMPLETION: &str = "Examples:
  kubectl device completion bash > /etc/bash_completion.d/kubectl-device
  kubectl device completion zsh > \"${fpath[1]}/_kubectl-device\"

These scripts complete `kubectl-device`. `kubectl device` itself is completed by kubectl, which runs an executable `kubectl_complete-device`: link
this binary under that name as well.";

/// The command line as clap sees it, for completions, manual pages and tests.
#[must_use]
pub fn command() -> clap::Command {
    Args::command()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_command_line_is_consistent_and_every_command_has_examples() {
        command().debug_assert();
        for sub in command().get_subcommands().filter(|sub| !sub.is_hide_set()) {
            let help = sub.get_after_help().map(ToString::to_string).unwrap_or_default();
            assert!(help.contains("Examples:\n  kubectl device "), "{} has no examples", sub.get_name());
        }
    }
}
