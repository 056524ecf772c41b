//! Output for people and programs.

use std::io;

use anyhow::Result;
use lazaret_print::Structured;
pub(crate) use lazaret_print::{Plain as Format, Table, note, print};
use serde::Serialize;

/// Writes `value` as `format` says, where there is no table as JSON.
pub(crate) fn structured(value: &impl Serialize, format: Format) -> Result<()> {
    Ok(print(&format.structured().unwrap_or(Structured::Json).text(value)?)?)
}

/// The error and what led to it, on one line.
pub(crate) fn error(error: &anyhow::Error) {
    note(&format!("error: {}", in_words(error)));
}

/// The messages of an error and its causes. A refusal of an API server is what the server said; a cause that stands at the end of the message before
/// is not repeated.
fn in_words(error: &anyhow::Error) -> String {
    let mut text = String::new();
    for cause in error.chain() {
        let refusal = match cause.downcast_ref::<kube::Error>() {
            Some(kube::Error::Api(status)) => Some(status.message.clone()),
            Some(_) | None => None,
        };
        let is_refusal = refusal.is_some();
        let words = refusal.unwrap_or_else(|| cause.to_string());
        if text.is_empty() {
            text = words;
        } else if !text.ends_with(&words) {
            text = format!("{text}: {words}");
        }
        if is_refusal {
            break;
        }
    }
    text
}

pub(crate) fn is_closed_pipe(error: &anyhow::Error) -> bool {
    error
        .chain()
        .filter_map(|cause| cause.downcast_ref::<io::Error>())
        .any(|e| e.kind() == io::ErrorKind::BrokenPipe)
}

#[cfg(test)]
mod tests {
    use anyhow::{Context as _, anyhow};
    use kube::core::Status;

    use super::*;

    #[test]
    fn errors_are_words() {
        let refusal = || {
            let status = Status::failure("Internal error occurred: no space left", "InternalError");
            kube::Error::Api(status.with_code(500).boxed())
        };
        let full = || io::Error::from_raw_os_error(28);
        for (error, expected) in [
            (anyhow!("no"), "no"),
            (anyhow!(refusal()).context("compact"), "compact: Internal error occurred: no space left"),
            (anyhow!(full()).context("write a"), "write a: No space left on device (os error 28)"),
            (
                Err::<(), _>(full()).context("write x: No space left on device (os error 28)").unwrap_err(),
                "write x: No space left on device (os error 28)",
            ),
        ] {
            let words = in_words(&error);
            assert_eq!(words, expected);
            assert!(!words.contains(['{', '}']), "{words}");
        }
    }
}
