//! The command line of what shows a cluster while it changes: ui, top, record.

use std::path::PathBuf;

use crate::{
    args::FilterArgs,
    output::Tabular,
    span::{Span, parse_span},
};

#[derive(Debug, clap::Args)]
pub(crate) struct UiArgs {
    /// The port on 127.0.0.1; 0 takes a free one
    #[arg(long, value_name = "PORT", default_value_t = 0)]
    pub(crate) port: u16,
}

#[derive(Debug, clap::Args)]
pub(crate) struct TopArgs {
    #[command(flatten)]
    pub(crate) filter: FilterArgs,
    /// Only devices with a taint
    #[arg(long)]
    pub(crate) tainted: bool,
    /// Print once and end; this is what happens without a terminal
    #[arg(short, long, value_enum)]
    pub(crate) output: Option<Tabular>,
}

#[derive(Debug, clap::Args)]
pub(crate) struct RecordArgs {
    /// The file to write; - is standard output
    #[arg(short, long, value_name = "FILE")]
    pub(crate) output: PathBuf,
    /// End by itself after this time, as in 90s, 5m, 1h30m; otherwise Ctrl-C ends it
    #[arg(long = "for", value_name = "TIME", value_parser = parse_span)]
    pub(crate) span: Option<Span>,
}

pub(crate) const UI: &str = "Examples:
  kubectl device ui
  kubectl device ui --context production --port 8001";

pub(crate) const TOP: &str = "Keys: arrows scroll, / filters, t shows tainted devices only, q quits.

Examples:
  kubectl device top
  kubectl device top --node node-1
  kubectl device top -o json";

pub(crate) const RECORD: &str = "The dashboard plays the file: open its page Replay and drop the file there.

Examples:
  kubectl device record -o incident.json
  kubectl device record -o incident.json --for 10m";
