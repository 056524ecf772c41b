//! `runc`, and what has its command line.

use std::{
    fs,
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

/// Bytes of a runtime's log that are looked at for its last error.
const LOG_BYTES_MAX: u64 = 64 << 10;

/// A runtime's command line.
#[derive(Clone, Debug)]
pub(super) struct OciProgram<'a> {
    pub(super) program: &'a Path,
    pub(super) root: &'a Path,
    /// Where it writes why it failed.
    pub(super) log: PathBuf,
}

/// Why a container or a program could not be made to run.
#[derive(Clone, Debug)]
pub(crate) struct Refused {
    pub(crate) message: String,
    /// Whether the program is at fault.
    pub(crate) cannot_run: bool,
}

impl From<String> for Refused {
    fn from(message: String) -> Self {
        Self { message, cannot_run: false }
    }
}

impl OciProgram<'_> {
    pub(super) fn command(&self, word: &str) -> Command {
        let mut command = Command::new(self.program);
        command.arg("--root").arg(self.root).arg("--log").arg(&self.log).args(["--log-format", "json", word]);
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        command
    }

    /// Runs it to its end.
    pub(super) fn run(&self, mut command: Command) -> Result<(), Refused> {
        let status =
            command.status().map_err(|error| format!("execute {}: {error}", self.program.display()))?;
        if status.success() {
            return Ok(());
        }
        let message =
            self.last_error().unwrap_or_else(|| format!("{} ended with {status}", self.program.display()));
        let cannot_run = is_program_at_fault(&message);
        Err(Refused { message, cannot_run })
    }

    fn last_error(&self) -> Option<String> {
        use std::io::{Read, Seek, SeekFrom};
        let mut file = fs::File::open(&self.log).ok()?;
        let length = file.metadata().ok()?.len();
        file.seek(SeekFrom::Start(length.saturating_sub(LOG_BYTES_MAX))).ok()?;
        let mut bytes = Vec::new();
        file.take(LOG_BYTES_MAX).read_to_end(&mut bytes).ok()?;
        last_error(&String::from_utf8_lossy(&bytes))
    }
}

/// The message of the last line that is an error.
fn last_error(log: &str) -> Option<String> {
    let lines = log.lines().rev().filter_map(|line| serde_json::from_str::<serde_json::Value>(line).ok());
    let error = lines.into_iter().find(|line| line["level"] == "error")?;
    Some(error["msg"].as_str()?.to_owned())
}

/// Whether the text is about the program of the container.
fn is_program_at_fault(message: &str) -> bool {
    let about_program = ["exec: ", "exec failed", "executable file", "chdir to cwd", "executable path"];
    let faults = [
        "executable file not found",
        "executable file `",
        "no such file or directory",
        "permission denied",
        "is a directory",
        "exec format error",
        "Permission denied",
        "No such file or directory",
    ];
    about_program.iter().any(|text| message.contains(text))
        && faults.iter().any(|text| message.contains(text))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_error_is_the_message() {
        let log = "{\"level\":\"warning\",\"msg\":\"w\"}\n{\"level\":\"error\",\"msg\":\"runc create failed: exec: \\\"x\\\": executable file not found in $PATH\"}\nnot json\n";
        let message = last_error(log).unwrap();
        assert!(message.starts_with("runc create failed"));
        assert!(is_program_at_fault(&message));
        assert!(!is_program_at_fault("runc create failed: error mounting \"/x\": no such file or directory"));
        assert_eq!(last_error(""), None);
    }
}
