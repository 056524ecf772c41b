//! `kubectl device taint`.

use lazaret_model::{DeviceSelector, Effect, Impact};
use serde_json::{Value, json};

use super::{
    Session,
    load::{Need, load},
    select::meant,
    taint_future,
    write::{whoami, write},
};
use crate::{
    Error, Verdict,
    api::{DryRun, Resource},
    output::{Format, Structured, structured},
    taint_args::Taint,
    view::{Change, Intent, TaintSpec, changes, request},
};

pub(super) async fn run(session: &mut Session<'_>, args: Taint) -> Result<Verdict, Error> {
    if args.future {
        return taint_future::run(session, args).await;
    }
    let rules = session.served().await?.rules()?;
    let mut cluster = load(session, Need::default()).await?.cluster;
    let meant = meant(session, &mut cluster, &args.selected).await?;
    permitted(session, &meant.specs, args.reason.as_deref()).await?;
    let set_by = whoami(session).await;
    let selected = |target: &DeviceSelector| cluster.fleet.selection_of(target).published_count() as u64;
    let declared = Impact { devices: meant.targets.iter().map(selected).sum(), ..Impact::default() };
    let request = request(&meant.targets, false, declared, set_by.as_deref(), session.now());
    let intent =
        Intent { reason: args.reason, set_by, overwrite: args.overwrite, request, ..Intent::default() };
    let changes = changes(&cluster, &meant.targets, &meant.specs, &intent).map_err(Error::Usage)?;
    carry_out(session, &rules, &changes, args.dry_run, args.output).await
}

/// Whether these taints may be set: rules are in force, and an eviction has a reason.
pub(super) async fn permitted(
    session: &mut Session<'_>,
    specs: &[TaintSpec],
    reason: Option<&str>,
) -> Result<(), Error> {
    let evicts = |spec: &TaintSpec| matches!(spec, TaintSpec::Set { effect: Effect::NoExecute, .. });
    if reason.is_none() && specs.iter().any(evicts) {
        return Err(Error::usage(
            "NoExecute evicts pods: add --reason, which is kept with the rule; `kubectl device plan` shows which pods",
        ));
    }
    if specs.iter().any(|spec| matches!(spec, TaintSpec::Set { .. })) {
        session.rules_in_force().await?;
    }
    Ok(())
}

/// Writes, and prints what was written.
pub(super) async fn carry_out(
    session: &mut Session<'_>,
    rules: &Resource,
    changes: &[Change],
    dry_run: DryRun,
    output: Format,
) -> Result<Verdict, Error> {
    let mut objects: Vec<Value> = Vec::new();
    for change in changes {
        let written = write(session, rules, change, dry_run).await?;
        match output {
            Format::Table | Format::Wide => session.console.line(&written.line)?,
            Format::Name => {
                if let Some(rule) = change.rule() {
                    let kind = rules.kind.to_ascii_lowercase();
                    session.console.line(&format!("{kind}.{}/{rule}", rules.group))?;
                }
            }
            Format::Json | Format::Yaml => objects.extend(written.object),
        }
    }
    let form = match output {
        Format::Json => Structured::Json,
        Format::Yaml => Structured::Yaml,
        Format::Table | Format::Wide | Format::Name => return Ok(Verdict::Yes),
    };
    let value = match objects.as_slice() {
        [one] => one.clone(),
        many => json!({"apiVersion": "v1", "kind": "List", "items": many}),
    };
    structured(session.console, &value, form)?;
    Ok(Verdict::Yes)
}
