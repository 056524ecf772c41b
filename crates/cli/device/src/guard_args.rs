//! The command line of guards: pause, resume, guard.

use clap::Subcommand;

use crate::{
    args::WriteArgs,
    output::{Plain, Tabular},
    span::{Span, parse_span},
};

/// The guard that `pause` makes unless another is named.
pub(crate) const PAUSE_GUARD: &str = "pause";

#[derive(Debug, clap::Args)]
pub(crate) struct PauseArgs {
    /// The DisruptionGuard to pause, made if there is none
    #[arg(default_value = PAUSE_GUARD)]
    pub(crate) guard: String,
    /// Why; kept with the guard and shown wherever an eviction is blocked
    #[arg(long, value_name = "TEXT")]
    pub(crate) reason: String,
    /// Resume by itself after this time, as in 90s, 5m, 1h30m
    #[arg(long = "for", value_name = "TIME", value_parser = parse_span)]
    pub(crate) span: Option<Span>,
    #[command(flatten)]
    pub(crate) write: WriteArgs,
}

#[derive(Debug, clap::Args)]
pub(crate) struct ResumeArgs {
    /// The DisruptionGuard to resume
    #[arg(default_value = PAUSE_GUARD)]
    pub(crate) guard: String,
    #[command(flatten)]
    pub(crate) write: WriteArgs,
}

#[derive(Debug, clap::Args)]
pub(crate) struct GuardArgs {
    #[command(subcommand)]
    pub(crate) command: GuardCommand,
}

#[derive(Debug, clap::Args)]
pub(crate) struct ApproveArgs {
    /// The DeviceTaintRule, or else the DeviceTaintPolicy, or else the ResourceSlicePatch
    #[arg(required_unless_present = "driver")]
    pub(crate) rule: Option<String>,
    /// Approve evictions because of a taint that this driver publishes
    #[arg(long, value_name = "DRIVER", requires = "taint", conflicts_with = "rule")]
    pub(crate) driver: Option<String>,
    /// The taint that the driver publishes
    #[arg(long, value_name = "KEY=VALUE:NoExecute", requires = "driver")]
    pub(crate) taint: Option<String>,
    /// Why; kept with the approval
    #[arg(long, value_name = "TEXT")]
    pub(crate) reason: Option<String>,
    #[command(flatten)]
    pub(crate) write: WriteArgs,
}

#[derive(Debug, Subcommand)]
pub(crate) enum GuardCommand {
    /// List guards: what is paused, which breakers are tripped, which windows are open, which taints wait for approval
    #[command(after_help = GUARD_LIST)]
    List {
        /// How to print
        #[arg(short, long, value_enum, default_value_t)]
        output: Tabular,
    },
    /// Let evictions begin again although the breaker of a guard is tripped
    #[command(after_help = GUARD_RESET)]
    Reset {
        /// The DisruptionGuard
        guard: String,
        /// Why; kept with the guard
        #[arg(long, value_name = "TEXT")]
        reason: String,
        /// How to print
        #[arg(short, long, value_enum, default_value_t)]
        output: Plain,
    },
}

pub(crate) const PAUSE: &str = "Examples:
  kubectl device pause --reason 'storage is being moved'
  kubectl device pause --reason 'release freeze' --for 8h
  kubectl device pause training --reason 'a run must end first'

No eviction because of a device taint begins until `kubectl device resume`. Pods that are terminating go on; taints stay. A guard without
deviceSelector is about all devices.";

pub(crate) const RESUME: &str = "Examples:
  kubectl device resume
  kubectl device resume training";

pub(crate) const APPROVE: &str = "Examples:
  kubectl device approve new-firmware --dry-run
  kubectl device approve new-firmware --reason 'announced for tonight'
  kubectl device approve --driver gpu.example.com --taint gpu.example.com/health=failed:NoExecute

A rule that reaches more than a DisruptionGuard permits without approval is held: it taints nothing and evicts no pod. A taint of a driver or of
a ResourceSlicePatch that is held keeps new pods away and evicts no pod. The approval is for what is shown: it lapses when the rule is
changed, or reaches more than a tenth more; that of a driver's taint ends when no device has the taint.

Exit code 2 when the approval does not count.";

pub(crate) const GUARD: &str = "Examples:
  kubectl device guard list
  kubectl device guard reset fleet --reason 'the rack has power again'

A breaker that was reset does not trip again before its devices were below the limit.";

const GUARD_LIST: &str = "Examples:
  kubectl device guard list
  kubectl device guard list -o json";

const GUARD_RESET: &str = "Examples:
  kubectl device guard reset fleet --reason 'the rack has power again'";
