//! `nvidia-smi`, for what NVML has no function for.

use std::{
    io::{self, Read},
    path::{Path, PathBuf},
    process::{Command, Stdio},
    sync::mpsc::{self, Receiver},
    time::Duration,
};

use thiserror::Error;

use crate::{Host, config::Interval};

/// Between two looks whether it has ended.
const LOOK_EVERY: Duration = Duration::from_millis(20);
/// A reset takes seconds, and nothing is prepared meanwhile.
const RESET_MAX: Duration = Duration::from_secs(60);
/// Less than half of what kubelet waits for a claim, which may set several GPUs.
const POLICY_MAX: Duration = Duration::from_secs(15);
/// Of what it prints, this much is kept. It prints a few lines.
const OUTPUT_BYTES_MAX: u64 = 4_096;
/// For what it has printed to be read, once it has ended.
const OUTPUT_MAX: Duration = Duration::from_secs(1);

/// Why `nvidia-smi` did not do it.
#[derive(Debug, Error)]
pub(crate) enum SmiError {
    /// It is nowhere.
    #[error("nvidia-smi is not on this node")]
    Missing,
    /// It cannot be run, or does not end.
    #[error("{path}: {source}")]
    Run {
        /// The program.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// It says that it cannot be done.
    #[error("nvidia-smi: {0}")]
    Refused(String),
}

/// Resets a card that is not in use; returns the program's output.
pub(crate) fn reset(host: &Host, uuid: &str) -> Result<String, SmiError> {
    run(host, &["--gpu-reset", "-i", uuid], RESET_MAX)
}

/// Says how long the turns of programs are that use a card by turns.
pub(crate) fn set_time_slice(host: &Host, uuid: &str, interval: Interval) -> Result<(), SmiError> {
    let number = interval.number().to_string();
    run(host, &["compute-policy", "-i", uuid, "--set-timeslice", &number], POLICY_MAX).map(drop)
}

fn run(host: &Host, words: &[&str], at_most: Duration) -> Result<String, SmiError> {
    let path = host.nvidia_smi().ok_or(SmiError::Missing)?;
    let (is_done, text) = call(&path, words, at_most).map_err(|source| SmiError::Run { path, source })?;
    if is_done { Ok(text) } else { Err(SmiError::Refused(text)) }
}

/// Runs a program to its end, or ends it. Whether it succeeded, and what it said.
fn call(path: &Path, words: &[&str], at_most: Duration) -> io::Result<(bool, String)> {
    let (said, output) = io::pipe()?;
    let mut child = Command::new(path)
        .args(words)
        .stdin(Stdio::null())
        .stdout(output.try_clone()?)
        .stderr(output)
        .spawn()?;
    let text = listen(said)?;
    let mut left = at_most;
    let status = loop {
        if let Some(status) = child.try_wait()? {
            break status;
        }
        if left.is_zero() {
            child.kill()?;
            child.wait()?;
            let why = format!("it did not end within {} s", at_most.as_secs());
            return Err(io::Error::new(io::ErrorKind::TimedOut, why));
        }
        std::thread::sleep(LOOK_EVERY.min(left));
        left = left.saturating_sub(LOOK_EVERY);
    };
    // Nothing comes any more, unless it left a process behind that holds the pipe.
    let text = text.recv_timeout(OUTPUT_MAX).unwrap_or_default();
    Ok((status.success(), if text.is_empty() { status.to_string() } else { text }))
}

/// Hears all that a program says, so that it never waits, and keeps the beginning.
fn listen(mut said: io::PipeReader) -> io::Result<Receiver<String>> {
    let (sender, text) = mpsc::channel();
    let hear = move || {
        let mut kept = Vec::new();
        // Output before an error counts.
        let _ = said.by_ref().take(OUTPUT_BYTES_MAX).read_to_end(&mut kept);
        let _ = io::copy(&mut said, &mut io::sink());
        let _ = sender.send(String::from_utf8_lossy(&kept).trim().to_owned());
    };
    std::thread::Builder::new().name("nvidia-smi".into()).spawn(hear)?;
    Ok(text)
}
