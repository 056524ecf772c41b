//! The command line of taking devices out of service and bringing them back: taint, plan, drain, cordon, uncordon, release.

use std::path::PathBuf;

use crate::{
    api::DryRun,
    args::{Chosen, FilterArgs, Selected, WriteArgs},
    output::{Format, Plain, Tabular},
    span::{Span, parse_span},
    view::Pace,
};

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
    #[command(flatten)]
    pub(crate) chosen: Chosen,
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
    #[command(flatten)]
    pub(crate) chosen: Chosen,
    /// Why; kept with the rules
    #[arg(long, value_name = "TEXT")]
    pub(crate) reason: Option<String>,
    #[command(flatten)]
    pub(crate) write: WriteArgs,
}

#[derive(Debug, clap::Args)]
pub(crate) struct Uncordon {
    #[command(flatten)]
    pub(crate) chosen: Chosen,
    #[command(flatten)]
    pub(crate) write: WriteArgs,
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
    #[command(flatten)]
    pub(crate) write: WriteArgs,
}

pub(crate) const TAINT: &str = "Examples:
  kubectl device taint gpu.example.com/node-1/gpu-3 example.com/fan:NoSchedule
  kubectl device taint node-1/gpu-3 example.com/fan=broken:NoExecute --reason 'fan stands still'
  kubectl device taint node-1/gpu-3 example.com/fan:NoExecute-
  kubectl device taint 'gpu.example.com/node-1/*' example.com/firmware:NoSchedule --all --dry-run=server
  kubectl device taint --node node-1 example.com/firmware-";

pub(crate) const PLAN: &str = "Examples:
  kubectl device plan node-1/gpu-3 example.com/fan:NoExecute
  kubectl device plan 'gpu.example.com/node-1/*' example.com/fan:NoExecute --all -o json
  kubectl device plan node-1/gpu-3 example.com/fan:NoExecute --diff";

pub(crate) const DRAIN: &str = "Examples:
  kubectl device drain node-1/gpu-3 --reason 'fan stands still'
  kubectl device drain --node node-1 --driver gpu.example.com --reason 'new firmware' --evictions-per-second 2 --yes
  kubectl device drain node-1/gpu-3 --reason 'fan stands still' --grace 5m --timeout 30m
Ctrl-C stops: pods that are not terminating yet may stay, and the devices stay cordoned.
Exit code 2 when it was stopped, or when pods in place of the evicted ones are Pending.";

pub(crate) const CORDON: &str = "Examples:
  kubectl device cordon node-1/gpu-3 --reason 'fan is loud'
  kubectl device cordon --node node-1 -o json";

pub(crate) const UNCORDON: &str = "Examples:
  kubectl device uncordon node-1/gpu-3
  kubectl device uncordon --node node-1";

pub(crate) const RELEASE: &str = "Examples:
  kubectl device release node-1/gpu-3 --force --reason 'the machine was reset'
  kubectl device release gpu.example.com/node-1/gpu-3 --force --reason 'board replaced' -o json

A device whose pod was removed by force is given to nobody else until its node has unprepared it, is deleted, or is tainted
node.kubernetes.io/out-of-service. `kubectl device list -o wide` shows which devices wait. The node itself may still refuse to prepare it.";
