//! The command line of failing devices: incidents, reports of people, failures on command.

use crate::{
    args::WriteArgs,
    output::{Format, Plain},
    span::{Span, parse_span},
};

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
    #[command(flatten)]
    pub(crate) write: WriteArgs,
}

#[derive(Debug, clap::Args)]
pub(crate) struct ActArgs {
    /// The incident, or its device
    pub(crate) incident: String,
    /// Why; kept in the incident
    #[arg(long, value_name = "TEXT")]
    pub(crate) reason: Option<String>,
    #[command(flatten)]
    pub(crate) write: WriteArgs,
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

pub(crate) const INCIDENTS: &str = "Examples:
  kubectl device incidents
  kubectl device incidents node-1/gpu-3
  kubectl device incidents --all -o json
  kubectl device incidents -w

An incident is opened by a rule of a DeviceHealthPolicy. Of a device the open one is shown, or else the newest.";

pub(crate) const REPORT: &str = "Examples:
  kubectl device report node-1/gpu-3 gpu.example.com/xid=79 --reason 'seen in the kernel log'

The signal has the source Person. DeviceHealthPolicies decide what follows: nothing, without one that selects the device and has a rule for the signal.";

pub(crate) const ACKNOWLEDGE: &str = "Examples:
  kubectl device acknowledge node-1/gpu-3 --reason 'a new board is ordered'";

pub(crate) const REPAIRED: &str = "Examples:
  kubectl device repaired node-1/gpu-3 --reason 'board replaced'";

pub(crate) const ABANDON: &str = "Examples:
  kubectl device abandon node-1/gpu-3 --reason 'not worth a repair'";

pub(crate) const FAIL: &str = "Examples:
  kubectl device fail node-1/gpu-3 --reason double-bit-error
  kubectl device fail node-1/gpu-3 --effect NoSchedule";

pub(crate) const RECOVER: &str = "Examples:
  kubectl device recover node-1/gpu-3";
