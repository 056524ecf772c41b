//! `lazaret cel`: what an expression means, what it costs, which devices it matches.

use anyhow::Result;
use lazaret_cel::{COST_MAX, Env, Mode, Outcome, Program, compile};
use lazaret_fleet::Gates;
use serde::Serialize;

use crate::{
    Verdict,
    args::Files,
    input,
    output::{self, Format, Table},
};

#[derive(Debug, clap::Subcommand)]
pub(crate) enum Command {
    /// Type-check an expression and print what it may cost
    #[command(after_help = CHECK_EXAMPLES)]
    Check {
        /// The expression, as in a device class or a request
        expression: String,
        #[command(flatten)]
        dialect: Dialect,
        /// How to print
        #[arg(short, long, value_enum, default_value_t)]
        output: Format,
    },
    /// Evaluate an expression on every device of some ResourceSlices
    #[command(after_help = EVAL_EXAMPLES)]
    Eval {
        /// The expression, as in a device class or a request
        expression: String,
        #[command(flatten)]
        files: Files,
        #[command(flatten)]
        dialect: Dialect,
        /// How to print
        #[arg(short, long, value_enum, default_value_t)]
        output: Format,
    },
}

const CHECK_EXAMPLES: &str = "Examples:
  lazaret cel check 'device.driver == \"gpu.example.com\"'
  lazaret cel check 'device.capacity[\"gpu.example.com\"].memory.isGreaterThan(quantity(\"40Gi\"))' -o json";

const EVAL_EXAMPLES: &str = "Examples:
  lazaret cel eval 'device.attributes[\"gpu.example.com\"].healthy' -f slices.yaml
  kubectl get resourceslices -o yaml | lazaret cel eval 'device.driver == \"gpu.example.com\"' -f -";

/// Which declarations an expression may use.
#[derive(Clone, Copy, Debug, clap::Args)]
pub(crate) struct Dialect {
    /// Accept what the scheduler accepts in stored objects: all declarations, no cost limit when compiling
    #[arg(long)]
    stored: bool,
    /// Attributes may be lists (gate DRAListTypeAttributes)
    #[arg(long)]
    list_attributes: bool,
    /// Do not declare device.allowMultipleAllocations (gate DRAConsumableCapacity off)
    #[arg(long)]
    no_consumable_capacity: bool,
}

impl Dialect {
    fn env(self) -> Env {
        if self.stored {
            return Env::stored();
        }
        Env::new(Mode::New)
            .with_list_attributes(self.list_attributes)
            .with_consumable_capacity(!self.no_consumable_capacity)
    }
}

impl Command {
    pub(crate) fn run(self) -> Result<Verdict> {
        match self {
            Self::Check { expression, dialect, output } => check(&expression, dialect, output),
            Self::Eval { expression, files, dialect, output } => eval(&expression, &files, dialect, output),
        }
    }
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Checked<'a> {
    expression: &'a str,
    compiles: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    estimated_cost: Option<u64>,
    cost_limit: u64,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    reads: Vec<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    issues: Vec<IssueOut>,
}

#[derive(Serialize)]
struct IssueOut {
    line: usize,
    column: usize,
    message: String,
}

fn check(expression: &str, dialect: Dialect, format: Format) -> Result<Verdict> {
    let compiled = compile(expression, &dialect.env());
    if format == Format::Table {
        match &compiled {
            Ok(program) => {
                output::print(&format!(
                    "ok: costs at most {} of {COST_MAX}\n",
                    program.estimated_cost().max
                ))?;
                let reads = reads(program);
                if !reads.is_empty() {
                    output::print(&format!("reads: {}\n", reads.join(", ")))?;
                }
            }
            Err(error) => output::note(error.render(expression).trim_end()),
        }
    } else {
        output::structured(&describe(expression, &compiled), format)?;
    }
    Ok(if compiled.is_ok() { Verdict::Yes } else { Verdict::No })
}

fn describe<'a>(expression: &'a str, compiled: &Result<Program, lazaret_cel::CompileError>) -> Checked<'a> {
    let issues = compiled.as_ref().err().map(|error| {
        error
            .issues
            .iter()
            .map(|issue| IssueOut {
                line: issue.line,
                column: issue.column,
                message: issue.message.to_string(),
            })
            .collect()
    });
    Checked {
        expression,
        compiles: compiled.is_ok(),
        estimated_cost: compiled.as_ref().ok().map(|program| program.estimated_cost().max),
        cost_limit: COST_MAX,
        reads: compiled.as_ref().map(reads).unwrap_or_default(),
        issues: issues.unwrap_or_default(),
    }
}

/// The fields of a device that the expression reads, as one would write them.
fn reads(program: &Program) -> Vec<String> {
    let reads = program.reads();
    let mut list = Vec::new();
    if reads.driver {
        list.push("device.driver".to_owned());
    }
    list.extend(
        reads.attributes.iter().map(|name| format!("device.attributes[{:?}].{}", &*name.domain, name.id)),
    );
    if reads.whole_attributes {
        list.push("device.attributes (all)".to_owned());
    }
    list.extend(
        reads.capacity.iter().map(|name| format!("device.capacity[{:?}].{}", &*name.domain, name.id)),
    );
    if reads.whole_capacity {
        list.push("device.capacity (all)".to_owned());
    }
    if reads.allow_multiple {
        list.push("device.allowMultipleAllocations".to_owned());
    }
    list
}

#[derive(Serialize)]
struct Evaluated {
    device: String,
    result: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<String>,
    cost: u64,
}

fn eval(expression: &str, files: &Files, dialect: Dialect, format: Format) -> Result<Verdict> {
    let program = match compile(expression, &dialect.env()) {
        Ok(program) => program,
        Err(error) => {
            output::note(error.render(expression).trim_end());
            return Ok(Verdict::No);
        }
    };
    let snapshot = input::fleet(input::load(files)?, Gates::default()).snapshot();
    let bound = program.bind(snapshot.names());
    let mut results = Vec::new();
    for pool in snapshot.pools() {
        for slice in &pool.slices {
            for device in slice.devices(snapshot.names()) {
                let (outcome, cost) = bound.matches_with_cost(&device);
                let (result, error) = match outcome {
                    Outcome::Match => ("match", None),
                    Outcome::NoMatch => ("no-match", None),
                    Outcome::Error(error) => ("error", Some(error.to_string())),
                };
                results.push(Evaluated { device: device.id().to_string(), result, error, cost });
            }
        }
    }
    if results.is_empty() {
        output::note("no devices in these files: give ResourceSlices with spec.devices");
    }
    if format != Format::Table {
        output::structured(&results, format)?;
        return Ok(Verdict::Yes);
    }
    let mut table = Table::default();
    for Evaluated { device, result, error, .. } in results {
        table.row([device, result.to_owned(), error.unwrap_or_default()]);
    }
    output::print(&table.to_string())?;
    Ok(Verdict::Yes)
}
