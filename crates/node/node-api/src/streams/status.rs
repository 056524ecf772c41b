//! How a program ended, as a Status of the API: what the error channel carries.

use lazaret_containers::RuntimeError;
use serde_json::{Value, json};

/// A Status for an exit code, or for why there is none. kubectl ends with the code that is among the causes.
pub(super) fn of_exit(exit: &Result<i32, RuntimeError>) -> Value {
    match exit {
        Ok(0) => success(),
        Ok(code) => json!({
            "metadata": {}, "status": "Failure",
            "message": format!("command terminated with non-zero exit code: {code}"),
            "reason": "NonZeroExitCode",
            "details": {"causes": [{"reason": "ExitCode", "message": code.to_string()}]},
        }),
        Err(error) => failure(&format!("error executing command in container: {error}")),
    }
}

pub(super) fn success() -> Value {
    json!({"metadata": {}, "status": "Success"})
}

pub(super) fn failure(why: &str) -> Value {
    json!({
        "metadata": {}, "status": "Failure", "message": format!("Internal error occurred: {why}"),
        "reason": "InternalError", "details": {"causes": [{"message": why}]}, "code": 500,
    })
}
