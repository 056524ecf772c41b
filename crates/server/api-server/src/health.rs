//! Whether the server lives and is ready, as a whole and check by check.

use std::collections::BTreeSet;

use crate::{ApiError, Server, query::Query, respond::Answer};

/// A check: its name, and what is wrong if something is.
type Check = (&'static str, fn(&Server) -> Result<(), String>);

const CHECKS: &[Check] = &[("ping", |_| Ok(())), ("log", |_| Ok(())), ("etcd", store_writes)];

/// The store takes writes. It is called what Kubernetes calls it, for those who exclude it by name.
fn store_writes(server: &Server) -> Result<(), String> {
    server.disk_trouble().map_or(Ok(()), Err)
}

/// The checks of the server, and of other tasks in this process. A controller that is down is no reason to restart the server.
fn checks(server: &Server, whole: &str) -> impl Iterator<Item = (String, Result<(), String>)> {
    let further = if whole == "livez" { Vec::new() } else { server.further_checks() };
    let own = CHECKS.iter().map(|(name, check)| ((*name).to_owned(), check(server)));
    let down = "it ended and has not come back; see the log";
    own.chain(
        further
            .into_iter()
            .map(move |(name, works)| (name, if works { Ok(()) } else { Err(down.to_owned()) })),
    )
}

/// Answers `/healthz`, `/livez`, `/readyz` and the paths of single checks below them.
/// `sees_reasons`: unauthenticated clients may read this too, so why a check failed is for administrators.
pub(crate) fn answer(
    server: &Server,
    path: &str,
    query: &str,
    sees_reasons: bool,
) -> Result<Answer, ApiError> {
    let (whole, one) = path.split_once('/').unwrap_or((path, ""));
    let query = Query::parse(query);
    let verbose = query.has("verbose");
    let mut unknown: BTreeSet<String> = query.all("exclude").map(str::to_owned).collect();
    let excluded = unknown.clone();
    let chosen: Vec<_> = checks(server, whole).filter(|(name, _)| one.is_empty() || *name == one).collect();
    if chosen.is_empty() {
        return Err(ApiError::no_such_path());
    }
    let mut report = String::new();
    let mut failed = false;
    for (name, outcome) in chosen {
        unknown.remove(&name);
        if excluded.contains(&name) {
            report.push_str(&format!("[+]{name} excluded: ok\n"));
            continue;
        }
        match outcome {
            Ok(()) => report.push_str(&format!("[+]{name} ok\n")),
            Err(reason) => {
                failed = true;
                // DEVIATION(health-reasons): Kubernetes withholds it from administrators too.
                let reason = if sees_reasons { reason.as_str() } else { "reason withheld" };
                report.push_str(&format!("[-]{name} failed: {reason}\n"));
            }
        }
    }
    if !unknown.is_empty() {
        let names: Vec<String> = unknown.iter().map(|name| format!("{name:?}")).collect();
        let names = names.join(",");
        report.push_str(&format!("warn: some health checks cannot be excluded: no matches for {names}\n"));
    }
    Ok(match (failed, verbose) {
        (true, _) => Answer::text(500, format!("{report}{whole} check failed\n")),
        (false, true) => Answer::text(200, format!("{report}{whole} check passed\n")),
        (false, false) => Answer::text(200, "ok"),
    })
}
