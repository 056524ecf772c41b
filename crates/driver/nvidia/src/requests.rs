//! Requests of a person to a running driver, by files in its data directory: only root on the node may write there.

use std::{
    fs, io,
    path::{Path, PathBuf},
    time::Duration,
};

use lazaret_driver::{read_file, write_file};
use serde::{Deserialize, Serialize};

/// Requests that are looked at in one round.
const REQUESTS_MAX: usize = 32;
/// Between two looks for the answer.
const LOOK_EVERY: Duration = Duration::from_millis(100);

/// A request.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Request {
    /// The GPU: name or UUID.
    pub gpu: String,
    /// Whether it is to be reset; otherwise conditions are acknowledged.
    #[serde(default)]
    pub reset: bool,
    /// Which condition is over; all that nothing else clears, if none is named.
    #[serde(default)]
    pub condition: Option<String>,
}

/// The answer.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Answer {
    /// Whether it was done.
    pub done: bool,
    /// In words.
    pub message: String,
}

/// Asks a running driver, and waits for its answer.
///
/// # Errors
/// When files cannot be written, or no driver answers in time.
pub async fn ask(data: &Path, request: &Request, patience: Duration) -> io::Result<Answer> {
    let folder = data.join("requests");
    fs::create_dir_all(&folder)?;
    let id = format!("{}-{}", std::process::id(), request.gpu.replace('/', "_"));
    let (asked, answered) = (folder.join(format!("{id}.json")), folder.join(format!("{id}.answer")));
    let _ = fs::remove_file(&answered);
    write_file(&asked, request).map_err(io::Error::other)?;
    let wait = async {
        loop {
            if let Ok(text) = fs::read(&answered) {
                return serde_json::from_slice(&text).map_err(io::Error::other);
            }
            tokio::time::sleep(LOOK_EVERY).await;
        }
    };
    let answer = tokio::time::timeout(patience, wait).await;
    let _ = fs::remove_file(&asked);
    let _ = fs::remove_file(&answered);
    answer.map_err(|_| {
        io::Error::new(io::ErrorKind::TimedOut, "no driver answers: is it running on this node?")
    })?
}

/// The pending requests, each with the path for its answer.
pub(crate) fn waiting(data: &Path) -> Vec<(PathBuf, Result<Request, String>)> {
    let Ok(entries) = fs::read_dir(data.join("requests")) else { return Vec::new() };
    let paths = entries.flatten().map(|entry| entry.path());
    let asked = paths.filter(|path| path.extension().is_some_and(|ending| ending == "json"));
    asked
        .take(REQUESTS_MAX)
        .map(|path| {
            let request = read_file(&path).map_err(|error| error.to_string());
            (path, request)
        })
        .collect()
}

/// Answers, and takes the request away.
pub(crate) fn answer(asked: &Path, answer: &Answer) {
    if write_file(&asked.with_extension("answer"), answer).is_ok() {
        let _ = fs::remove_file(asked);
    }
}
