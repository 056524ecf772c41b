//! The command line: what can be asked.

use std::path::PathBuf;

use clap::{CommandFactory, Parser, Subcommand};

use crate::{
    api::DryRun,
    guard_args, live_args,
    output::{Format, Plain, Tabular},
    view::Pace,
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
    #[command(after_help = TAINT)]
    Taint(Taint),
    /// Show what a taint would do, without setting it
    #[command(after_help = PLAN)]
    Plan(Plan),
    /// Take devices out of service: keep new pods away, then evict the pods on them
    #[command(after_help = DRAIN)]
    Drain(DrainArgs),
    /// Keep new pods away from devices, and let the pods on them run
    #[command(after_help = CORDON)]
    Cordon(Cordon),
    /// Bring cordoned or drained devices back into service
    #[command(after_help = UNCORDON)]
    Uncordon(Uncordon),
    /// Let others have a device whose pod was removed before it ended, without waiting for its node
    #[command(after_help = RELEASE)]
    Release(Release),
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
    #[command(after_help = INCIDENTS)]
    Incidents(IncidentsArgs),
    /// Report something about a device to the health policies
    #[command(after_help = REPORT)]
    Report(ReportArgs),
    /// Say that you have seen an incident
    #[command(after_help = ACKNOWLEDGE)]
    Acknowledge(ActArgs),
    /// Say that a device was repaired: it goes to probation
    #[command(after_help = REPAIRED)]
    Repaired(ActArgs),
    /// Give a device up: it stays out of service until somebody says that it was repaired
    #[command(after_help = ABANDON)]
    Abandon(ActArgs),
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
    #[command(after_help = FAIL)]
    Fail(Fail),
    /// Make a driver that fails on command report a healthy device again
    #[command(after_help = RECOVER)]
    Recover(Recover),
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
pub(crate) struct Taint {
    #[command(flatten)]
    pub(crate) selected: Selected,
    /// Why; required with NoExecute, kept with the rule
    #[arg(long, value_name = "TEXT")]
    pub(crate) reason: Option<String>,
    /// Select what --driver, --class and --cel say in one rule, so that devices which appear later are tainted as well
    #[arg(long)]
    pub(crate) future: bool,
    /// Only devices of this DeviceClass
    #[arg(long, value_name = "NAME", requires = "future")]
    pub(crate) class: Option<String>,
    /// Give a taint that is there another value
    #[arg(long)]
    pub(crate) overwrite: bool,
    /// Only say what would be done: client prints the rules, server checks them
    #[arg(long, value_enum, default_value_t, num_args = 0..=1, require_equals = true, default_missing_value = "client")]
    pub(crate) dry_run: DryRun,
    /// How to print what was written
    #[arg(short, long, value_enum, default_value_t)]
    pub(crate) output: Format,
}

#[derive(Debug, clap::Args)]
pub(crate) struct Plan {
    /// Devices, and taints KEY[=VALUE]:EFFECT
    #[arg(required_unless_present = "filename", value_name = "DEVICE|TAINT")]
    pub(crate) words: Vec<String>,
    #[command(flatten)]
    pub(crate) filter: FilterArgs,
    /// Let a name mean several devices; without a name, all devices
    #[arg(long)]
    pub(crate) all: bool,
    /// Plan the rules in this file, DeviceTaintRules or DeviceTaintPolicies, with all that they say about how pods leave
    #[arg(short, long, value_name = "FILE", conflicts_with = "words")]
    pub(crate) filename: Option<PathBuf>,
    /// Taken and not used, so that a line of `taint` can be tried with `plan`
    #[arg(long, value_name = "TEXT", hide = true)]
    pub(crate) reason: Option<String>,
    /// Show what is different from the last plan of the same words
    #[arg(long)]
    pub(crate) diff: bool,
    /// How to print
    #[arg(short, long, value_enum, default_value_t)]
    pub(crate) output: Tabular,
}

impl Plan {
    pub(crate) fn selected(&self) -> Selected {
        Selected { words: self.words.clone(), filter: self.filter.clone(), all: self.all }
    }
}

#[derive(Debug, clap::Args)]
pub(crate) struct DrainArgs {
    /// Devices
    #[arg(value_name = "DEVICE")]
    pub(crate) devices: Vec<String>,
    #[command(flatten)]
    pub(crate) filter: FilterArgs,
    /// Let a name mean several devices; without a name, all devices
    #[arg(long)]
    pub(crate) all: bool,
    /// Why; kept with the rules
    #[arg(long, value_name = "TEXT")]
    pub(crate) reason: String,
    /// Do not ask
    #[arg(short, long)]
    pub(crate) yes: bool,
    /// Evict at most this many pods a second from all devices together, as in 2 or 0.5
    #[arg(long, value_name = "NUMBER", value_parser = Pace::parse)]
    pub(crate) evictions_per_second: Option<Pace>,
    /// Give up after this time, as in 90s, 5m, 1h30m; 0 is never
    #[arg(long, value_name = "TIME", value_parser = parse_span)]
    pub(crate) timeout: Option<Span>,
    /// Let pods end by themselves for this time before they are evicted
    #[arg(long, value_name = "TIME", value_parser = parse_span)]
    pub(crate) grace: Option<Span>,
    /// Wait until the devices are empty
    #[arg(long, default_value_t = true, num_args = 0..=1, require_equals = true, default_missing_value = "true", action = clap::ArgAction::Set)]
    pub(crate) wait: bool,
    /// Only show the plan
    #[arg(long, value_enum, default_value_t, num_args = 0..=1, require_equals = true, default_missing_value = "client")]
    pub(crate) dry_run: DryRun,
    /// How to print the result; progress goes to standard error
    #[arg(short, long, value_enum, default_value_t)]
    pub(crate) output: Plain,
}

#[derive(Debug, clap::Args)]
pub(crate) struct Cordon {
    /// Devices
    #[arg(value_name = "DEVICE")]
    pub(crate) devices: Vec<String>,
    #[command(flatten)]
    pub(crate) filter: FilterArgs,
    /// Let a name mean several devices; without a name, all devices
    #[arg(long)]
    pub(crate) all: bool,
    /// Why; kept with the rules
    #[arg(long, value_name = "TEXT")]
    pub(crate) reason: Option<String>,
    /// Only say what would be done
    #[arg(long, value_enum, default_value_t, num_args = 0..=1, require_equals = true, default_missing_value = "client")]
    pub(crate) dry_run: DryRun,
    /// How to print
    #[arg(short, long, value_enum, default_value_t)]
    pub(crate) output: Plain,
}

#[derive(Debug, clap::Args)]
pub(crate) struct Uncordon {
    /// Devices
    #[arg(value_name = "DEVICE")]
    pub(crate) devices: Vec<String>,
    #[command(flatten)]
    pub(crate) filter: FilterArgs,
    /// Let a name mean several devices; without a name, all devices
    #[arg(long)]
    pub(crate) all: bool,
    /// Only say what would be done
    #[arg(long, value_enum, default_value_t, num_args = 0..=1, require_equals = true, default_missing_value = "client")]
    pub(crate) dry_run: DryRun,
    /// How to print
    #[arg(short, long, value_enum, default_value_t)]
    pub(crate) output: Plain,
}

#[derive(Debug, clap::Args)]
pub(crate) struct Release {
    /// The device
    pub(crate) device: String,
    /// Required: the device may still be in use on the node, and another pod may be given it
    #[arg(long, required = true)]
    pub(crate) force: bool,
    /// Why the node's word is not needed; goes into an event of the claim
    #[arg(long, value_name = "TEXT")]
    pub(crate) reason: String,
    /// Only say what would be done
    #[arg(long, value_enum, default_value_t, num_args = 0..=1, require_equals = true, default_missing_value = "client")]
    pub(crate) dry_run: DryRun,
    /// How to print
    #[arg(short, long, value_enum, default_value_t)]
    pub(crate) output: Plain,
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
pub(crate) struct IncidentsArgs {
    /// An incident or its device, to show everything about it; all open ones unless given
    pub(crate) incident: Option<String>,
    /// Those that are over as well
    #[arg(long)]
    pub(crate) all: bool,
    /// Then print each incident that changes
    #[arg(short, long, conflicts_with = "incident")]
    pub(crate) watch: bool,
    /// How to print
    #[arg(short, long, value_enum, default_value_t)]
    pub(crate) output: Format,
}

#[derive(Debug, clap::Args)]
pub(crate) struct ReportArgs {
    /// The device
    pub(crate) device: String,
    /// Signal that was seen, as rules of health policies name it
    #[arg(value_name = "KEY[=VALUE]")]
    pub(crate) signal: String,
    /// In your words; kept in the incident
    #[arg(long, value_name = "TEXT")]
    pub(crate) reason: String,
    /// Only say what would be done
    #[arg(long, value_enum, default_value_t, num_args = 0..=1, require_equals = true, default_missing_value = "client")]
    pub(crate) dry_run: DryRun,
    /// How to print
    #[arg(short, long, value_enum, default_value_t)]
    pub(crate) output: Plain,
}

#[derive(Debug, clap::Args)]
pub(crate) struct ActArgs {
    /// The incident, or its device
    pub(crate) incident: String,
    /// Why; kept in the incident
    #[arg(long, value_name = "TEXT")]
    pub(crate) reason: Option<String>,
    /// Only say what would be done
    #[arg(long, value_enum, default_value_t, num_args = 0..=1, require_equals = true, default_missing_value = "client")]
    pub(crate) dry_run: DryRun,
    /// How to print
    #[arg(short, long, value_enum, default_value_t)]
    pub(crate) output: Plain,
}

#[derive(Debug, clap::Args)]
pub(crate) struct CheckArgs {
    /// How to print
    #[arg(short, long, value_enum, default_value_t)]
    pub(crate) output: Plain,
}

/// Milliseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Span(pub(crate) i64);

/// `90s`, `5m`, `1h30m`, as kubectl has it; a bare number is seconds.
pub(crate) fn parse_span(text: &str) -> Result<Span, String> {
    let wrong = || format!("{text:?} is no time: write it as 90s, 5m or 1h30m");
    if let Ok(seconds) = text.parse::<u32>() {
        return Ok(Span(i64::from(seconds) * 1000));
    }
    if text.is_empty() {
        return Err(wrong());
    }
    let mut millis: i64 = 0;
    let mut digits = String::new();
    for c in text.chars() {
        if c.is_ascii_digit() {
            digits.push(c);
            continue;
        }
        let unit = match c {
            'h' => 3_600_000,
            'm' => 60_000,
            's' => 1000,
            _ => return Err(wrong()),
        };
        let number: i64 = std::mem::take(&mut digits).parse().map_err(|_| wrong())?;
        millis = number.checked_mul(unit).and_then(|part| millis.checked_add(part)).ok_or_else(wrong)?;
    }
    if digits.is_empty() { Ok(Span(millis)) } else { Err(wrong()) }
}

#[derive(Debug, clap::Args)]
pub(crate) struct Fail {
    /// A device of a simulated node, or of a driver that fails on command
    #[arg(value_name = "DEVICE")]
    pub(crate) device: String,
    /// Effect of the driver's taint
    #[arg(long, value_name = "EFFECT", default_value = "NoExecute", value_parser = ["None", "NoSchedule", "NoExecute"])]
    pub(crate) effect: String,
    /// Problem of the device: the value of the driver's taint, letters, digits, '-', '_' and '.'
    #[arg(long, value_name = "WORD")]
    pub(crate) reason: Option<String>,
    /// How long a driver that fails on command may take to report it
    #[arg(long, value_name = "TIME", default_value = "30s", value_parser = parse_span)]
    pub(crate) timeout: Span,
    /// How to print
    #[arg(short, long, value_enum, default_value_t)]
    pub(crate) output: Plain,
}

#[derive(Debug, clap::Args)]
pub(crate) struct Recover {
    /// A device of a simulated node, or of a driver that fails on command
    #[arg(value_name = "DEVICE")]
    pub(crate) device: String,
    /// How long a driver that fails on command may take to report it
    #[arg(long, value_name = "TIME", default_value = "30s", value_parser = parse_span)]
    pub(crate) timeout: Span,
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

const TAINT: &str = "Examples:
  kubectl device taint gpu.example.com/node-1/gpu-3 example.com/fan:NoSchedule
  kubectl device taint node-1/gpu-3 example.com/fan=broken:NoExecute --reason 'fan stands still'
  kubectl device taint node-1/gpu-3 example.com/fan:NoExecute-
  kubectl device taint 'gpu.example.com/node-1/*' example.com/firmware:NoSchedule --all --dry-run=server
  kubectl device taint --node node-1 example.com/firmware-";

const PLAN: &str = "Examples:
  kubectl device plan node-1/gpu-3 example.com/fan:NoExecute
  kubectl device plan 'gpu.example.com/node-1/*' example.com/fan:NoExecute --all -o json
  kubectl device plan node-1/gpu-3 example.com/fan:NoExecute --diff";

const DRAIN: &str = "Examples:
  kubectl device drain node-1/gpu-3 --reason 'fan stands still'
  kubectl device drain --node node-1 --driver gpu.example.com --reason 'new firmware' --evictions-per-second 2 --yes
  kubectl device drain node-1/gpu-3 --reason 'fan stands still' --grace 5m --timeout 30m
Ctrl-C stops: pods that are not terminating yet may stay, and the devices stay cordoned.
Exit code 2 when it was stopped, or when pods in place of the evicted ones are Pending.";

const CORDON: &str = "Examples:
  kubectl device cordon node-1/gpu-3 --reason 'fan is loud'
  kubectl device cordon --node node-1 -o json";

const UNCORDON: &str = "Examples:
  kubectl device uncordon node-1/gpu-3
  kubectl device uncordon --node node-1";

const RELEASE: &str = "Examples:
  kubectl device release node-1/gpu-3 --force --reason 'the machine was reset'
  kubectl device release gpu.example.com/node-1/gpu-3 --force --reason 'board replaced' -o json

A device whose pod was removed by force is given to nobody else until its node has unprepared it, is deleted, or is tainted
node.kubernetes.io/out-of-service. `kubectl device list -o wide` shows which devices wait. The node itself may still refuse to prepare it.";

const WHY: &str = "Examples:
  kubectl device why trainer-0 -n research
  kubectl device why research/trainer-0 -o json";

const HISTORY: &str = "Examples:
  kubectl device history
  kubectl device history node-1/gpu-3 -o json

Rules and taints that exist say who set them and why. Events say what was removed, for as long as the
server keeps them: an hour by default. The server's audit log is the proof.";

const INCIDENTS: &str = "Examples:
  kubectl device incidents
  kubectl device incidents node-1/gpu-3
  kubectl device incidents --all -o json
  kubectl device incidents -w

An incident is opened by a rule of a DeviceHealthPolicy. Of a device the open one is shown, or else the newest.";

const REPORT: &str = "Examples:
  kubectl device report node-1/gpu-3 gpu.example.com/xid=79 --reason 'seen in the kernel log'

The signal has the source Person. DeviceHealthPolicies decide what follows: nothing, without one that selects the device and has a rule for the signal.";

const ACKNOWLEDGE: &str = "Examples:
  kubectl device acknowledge node-1/gpu-3 --reason 'a new board is ordered'";

const REPAIRED: &str = "Examples:
  kubectl device repaired node-1/gpu-3 --reason 'board replaced'";

const ABANDON: &str = "Examples:
  kubectl device abandon node-1/gpu-3 --reason 'not worth a repair'";

const CHECK: &str = "Examples:
  kubectl device check
  kubectl device check -o json

Exit code 2 when something failed; warnings do not count.";

const FAIL: &str = "Examples:
  kubectl device fail node-1/gpu-3 --reason double-bit-error
  kubectl device fail node-1/gpu-3 --effect NoSchedule";

const RECOVER: &str = "Examples:
  kubectl device recover node-1/gpu-3";

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
    fn spans_of_time() {
        for (text, millis) in
            [("90s", 90_000), ("1h30m", 5_400_000), ("45", 45_000), ("0", 0), ("2m5s", 125_000)]
        {
            assert_eq!(parse_span(text), Ok(Span(millis)), "{text}");
        }
        for text in ["", "s", "5x", "1h3", "-5s", "9999999999999999h"] {
            assert!(parse_span(text).is_err(), "{text}");
        }
    }

    #[test]
    fn the_command_line_is_consistent_and_every_command_has_examples() {
        command().debug_assert();
        for sub in command().get_subcommands().filter(|sub| !sub.is_hide_set()) {
            let help = sub.get_after_help().map(ToString::to_string).unwrap_or_default();
            assert!(help.contains("Examples:\n  kubectl device "), "{} has no examples", sub.get_name());
        }
    }
}
