//! Counting, by a program that simulates the machine.

use std::process::Command;

use anyhow::{Context, Result, bail};

use crate::paths::{ALL, Path};

/// The instructions of each path per round, in the order of [`ALL`].
pub(crate) fn all() -> Result<Vec<(&'static str, u64)>> {
    ALL.iter()
        .map(|path| Ok((path.name, round(path).with_context(|| format!("count {}", path.name))?)))
        .collect()
}

fn round(path: &Path) -> Result<u64> {
    let (few, many) = (least(path, path.rounds)?, least(path, path.rounds * 2)?);
    Ok(many.saturating_sub(few) / u64::try_from(path.rounds)?)
}

fn least(path: &Path, rounds: usize) -> Result<u64> {
    let mut least = instructions(path, rounds)?;
    for _ in 1..path.counts {
        least = least.min(instructions(path, rounds)?);
    }
    Ok(least)
}

fn instructions(path: &Path, rounds: usize) -> Result<u64> {
    let output = Command::new("valgrind")
        .args(["--tool=callgrind", "--callgrind-out-file=/dev/null"])
        .arg(std::env::current_exe().context("find this program")?)
        .args(["run", path.name, &rounds.to_string()])
        // Where things lie must not depend on who calls.
        .env_clear()
        .output()
        .context("run valgrind: is it installed?")?;
    let stderr = String::from_utf8_lossy(&output.stderr);
    if !output.status.success() {
        bail!("it failed:\n{stderr}");
    }
    let collected =
        stderr.lines().find_map(|line| line.split("Collected :").nth(1)).context("find the count")?;
    collected.trim().parse().context("read the count")
}

#[allow(clippy::print_stdout, reason = "this is what the program is for")]
pub(crate) fn print(text: &str) {
    println!("{text}");
}
