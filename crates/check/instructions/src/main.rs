//! How many instructions the hot paths take: CEL evaluation, rule match, plan step, allocation, a signal of a health policy, commit, watch
//! fan-out.
//!
//! **Invariant.** Counts, and never reads a clock: a busy machine changes nothing. Each path is run under `valgrind --tool=callgrind` twice, with
//! as many and with twice as many rounds; the difference is the cost of the rounds, without the setup. More than a tenth above the baseline is
//! a failure; a compiler or a machine other than the baseline's is reported and is no failure.
//!
//! It must never know what a path is for, or how fast it is wanted.

mod baseline;
mod count;
mod paths;

use std::process::ExitCode;

use anyhow::{Context, Result, bail};

const USAGE: &str = "usage: lazaret-instructions [check | update | run PATH ROUNDS]";

fn main() -> ExitCode {
    match work(&std::env::args().skip(1).collect::<Vec<_>>()) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::from(2),
        Err(error) => {
            count::print(&format!("error: {error:#}"));
            ExitCode::FAILURE
        }
    }
}

/// Says whether all is as it was.
fn work(words: &[String]) -> Result<bool> {
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    match words.as_slice() {
        [] | ["check"] => baseline::check(&count::all()?),
        ["update"] => baseline::update(&count::all()?).map(|()| true),
        ["run", path, rounds] => {
            let run = paths::ALL.iter().find(|known| known.name == *path).context("no such path")?.run;
            run(rounds.parse().context("read the rounds")?)?;
            Ok(true)
        }
        _ => bail!("{USAGE}"),
    }
}
