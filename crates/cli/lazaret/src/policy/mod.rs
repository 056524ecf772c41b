//! `lazaret policy test`: plays health policies over recorded signals, with virtual time.

mod file;
mod play;

pub(crate) use file::duration;

use std::{fs::File, io::Read as _, path::PathBuf};

use anyhow::{Context, Result, bail, ensure};
use serde::Serialize;

use crate::{
    Verdict,
    output::{self, Format, Table},
};

/// The largest file that is read.
const FILE_BYTES_MAX: u64 = 64 << 20;

#[derive(Debug, clap::Subcommand)]
pub(crate) enum Command {
    /// Play DeviceHealthPolicies over recorded signals and print what they would do
    Test(Args),
}

/// The signals that are played, and how the world answers.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// Policies (.yaml, .yml, .json) and recorded signals (.jsonl); may be given several times
    #[arg(short = 'f', long = "filename", value_name = "PATH", required = true)]
    paths: Vec<PathBuf>,
    /// Take every device of the signals as selected by policies that select by class or expression
    #[arg(long)]
    assume_selected: bool,
    /// How long pods take to leave a device
    #[arg(long, value_name = "DURATION", default_value = "1m", value_parser = file::duration)]
    drain_takes: i64,
    /// How long a repair and a validation take
    #[arg(long, value_name = "DURATION", default_value = "1m", value_parser = file::duration)]
    repair_takes: i64,
    /// Repair steps that fail, by name. May be repeated
    #[arg(long, value_name = "STEP")]
    fail_step: Vec<String>,
    /// Validations fail
    #[arg(long)]
    fail_validation: bool,
    /// How to print
    #[arg(short, long, value_enum, default_value_t)]
    output: Format,
}

const EXAMPLES: &str = "A signal is one line of JSON:
  {\"at\": \"2026-01-31T12:00:00Z\", \"driver\": \"gpu.example.com\", \"pool\": \"node-1\", \"device\": \"gpu-0\", \"key\": \"gpu.example.com/xid\", \"value\": \"79\"}
With \"lasts\": true it goes on until a line with the same device, key and source and \"over\": true.

Exit code 2: some incident ended Abandoned.

Examples:
  lazaret policy test -f policy.yaml -f signals.jsonl
  lazaret policy test -f policy.yaml -f signals.jsonl --fail-step reset -o json";

/// One thing that would happen.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Line {
    at: String,
    device: String,
    incident: u64,
    policy: String,
    stage: &'static str,
    cause: String,
    does: Vec<String>,
}

impl Command {
    pub(crate) fn run(self) -> Result<Verdict> {
        let Self::Test(args) = self;
        let (mut policies, mut signals) = (Vec::new(), Vec::new());
        for path in &args.paths {
            let name = path.display().to_string();
            let mut text = String::new();
            let file = File::open(path).with_context(|| format!("open {name}"))?;
            file.take(FILE_BYTES_MAX + 1)
                .read_to_string(&mut text)
                .with_context(|| format!("read {name}"))?;
            ensure!(text.len() as u64 <= FILE_BYTES_MAX, "{name}: has more than {FILE_BYTES_MAX} bytes");
            match path.extension().and_then(|ending| ending.to_str()) {
                Some("jsonl") => signals.extend(file::signals(&name, &text)?),
                Some("yaml" | "yml" | "json") => policies.extend(file::policies(&name, &text)?),
                _ => {
                    bail!("{name}: is neither a policy (.yaml, .yml, .json) nor a record of signals (.jsonl)")
                }
            }
        }
        ensure!(!policies.is_empty(), "no policy: add a file with a DeviceHealthPolicy");
        ensure!(!signals.is_empty(), "no signals: add a .jsonl file with recorded signals");
        for policy in &policies {
            ensure!(
                args.assume_selected || policy.selector.by_names_only(),
                "policy {}: spec.deviceSelector selects by class or expression, which signals cannot answer: add --assume-selected to \
                 take all of their devices as selected",
                policy.policy.name
            );
        }
        let lines = play::play(policies, signals, &args);
        let is_abandoned = play::is_abandoned(&lines);
        if args.output == Format::Table {
            output::print(&table(&lines))?;
        } else {
            output::structured(&lines, args.output)?;
        }
        Ok(if is_abandoned { Verdict::No } else { Verdict::Yes })
    }
}

fn table(lines: &[Line]) -> String {
    if lines.is_empty() {
        return "no rule of any policy held: nothing would be done\n".to_owned();
    }
    let mut table = Table::new(&["AT", "DEVICE", "INCIDENT", "STAGE", "CAUSE", "DOES"]);
    for line in lines {
        table.row([
            line.at.clone(),
            line.device.clone(),
            line.incident.to_string(),
            line.stage.to_owned(),
            line.cause.clone(),
            line.does.join(", "),
        ]);
    }
    table.to_string()
}
