//! How a program ended, as Kubernetes' protocol says it.

use lazaret_containers::RuntimeError;
use serde::Deserialize;

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Status {
    status: String,
    message: String,
    reason: String,
    details: Details,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Details {
    causes: Vec<Cause>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Cause {
    reason: String,
    message: String,
}

/// The exit code of a program, or why there is none.
pub(super) fn exit_code(said: &[u8]) -> Result<i32, RuntimeError> {
    if said.is_empty() {
        return Err(RuntimeError::Failed("the runtime lost the program".to_owned()));
    }
    let status: Status = serde_json::from_slice(said).map_err(|_| {
        RuntimeError::Failed(format!(
            "the runtime says of the program's end: {}",
            String::from_utf8_lossy(said).trim()
        ))
    })?;
    if status.status == "Success" {
        return Ok(0);
    }
    let mut causes = status.details.causes.iter();
    let code = causes.find(|cause| cause.reason == "ExitCode").and_then(|cause| cause.message.parse().ok());
    match code {
        Some(code) if status.reason == "NonZeroExitCode" => Ok(code),
        Some(_) | None => Err(RuntimeError::CannotRun(status.message)),
    }
}
