//! `kubectl device release`: gives a device to others without the word of its node.

use serde::Serialize;

use super::{
    Session,
    load::{Need, load},
    write::{check_reason, whoami},
};
use crate::{
    Error, Verdict,
    api::{DryRun, NODES},
    args::WriteArgs,
    output::{RESULT_VERSION, structured},
    taint_args::Release,
    view::{Reference, device_ids, release_patch, resolve_one},
};

/// A node is written by others as well: so often a write that came too late is tried again.
const ATTEMPTS_MAX: usize = 5;

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct ReleaseResult {
    api_version: &'static str,
    kind: &'static str,
    device: String,
    node: String,
    /// `namespace/name` of the claims that it was held for.
    claims: Vec<String>,
    reason: String,
    /// Whether it was not released before.
    changed: bool,
    dry_run: bool,
}

pub(super) async fn run(session: &mut Session<'_>, args: Release) -> Result<Verdict, Error> {
    let WriteArgs { dry_run, output } = args.write;
    check_reason(&args.reason)?;
    let mut cluster = load(session, Need { nodes: true, ..Need::default() }).await?.cluster;
    let reference = Reference::parse(&args.device).map_err(Error::Usage)?;
    let known = device_ids(&mut cluster);
    let id = resolve_one(&reference, &known).map_err(Error::Usage)?;
    let Some(awaited) = cluster.awaited(id) else {
        return Err(Error::usage(format!(
            "{id} is not waiting to be unprepared: only a device whose pod was removed before it ended can be released. `kubectl device describe {id}` shows who holds it"
        )));
    };
    let by = whoami(session).await.map_or_else(String::new, |user| format!(" ({user})"));
    let reason = format!("{}{by}", args.reason);
    let mut attempt = 1;
    let (claims, changed) = loop {
        let node = session.api.get(&NODES, "", &awaited.node).await?;
        let Some((claims, patch)) = release_patch(&node, id, &reason) else {
            // Meanwhile the node has answered.
            break (vec![awaited.claim.clone()], false);
        };
        let Some(patch) = patch else { break (claims, false) };
        if dry_run == DryRun::Client {
            break (claims, true);
        }
        match session.api.patch(&NODES, &awaited.node, &patch, dry_run).await {
            Ok(_) => break (claims, true),
            Err(Error::Conflict { .. }) if attempt < ATTEMPTS_MAX => attempt += 1,
            Err(error) => return Err(error),
        }
    };
    let result = ReleaseResult {
        api_version: RESULT_VERSION,
        kind: "ReleaseResult",
        device: id.to_string(),
        node: awaited.node,
        claims,
        reason: args.reason,
        changed,
        dry_run: dry_run != DryRun::None,
    };
    match output.structured() {
        Some(form) => structured(session.console, &result, form)?,
        None => {
            let already = if result.changed { "" } else { "already " };
            let (claims, suffix) = (result.claims.join(", "), dry_run.suffix());
            session.console.line(&format!("{id} {already}released from claim {claims}{suffix}"))?;
        }
    }
    Ok(Verdict::Yes)
}
