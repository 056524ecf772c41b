//! `kubectl device taint --future`: one rule for all that a driver, a class and an expression select, now and later.
//!
//! A DeviceTaintRule of Kubernetes does where names say enough. Class and expression need a DeviceTaintRule of Lazaret's own server, or else a
//! DeviceTaintPolicy, from which `lazaret run policies` makes rules.

use lazaret_model::DeviceSelector;

use super::{
    Session,
    load::{Need, load},
    taint::{carry_out, permitted},
    write::whoami,
};
use crate::{
    Error, Verdict,
    api::{Resource, Scope, Served, TAINT_POLICIES},
    taint_args::Taint,
    view::{Cluster, Intent, TaintSpec, changes, parse_taint},
};

pub(super) async fn run(session: &mut Session<'_>, args: Taint) -> Result<Verdict, Error> {
    let (selector, specs) = said(&args)?;
    let served = session.served().await?;
    let rules = kind(session, &served, &selector).await?;
    permitted(session, &specs, args.reason.as_deref()).await?;
    let cluster = if rules == TAINT_POLICIES {
        policies(session).await?
    } else {
        load(session, Need::default()).await?.cluster
    };
    let set_by = whoami(session).await;
    let intent = Intent { reason: args.reason, set_by, overwrite: args.overwrite, ..Intent::default() };
    let changes = changes(&cluster, &[selector], &specs, &intent).map_err(Error::Usage)?;
    carry_out(session, &rules, &changes, args.dry_run, args.output).await
}

/// Which devices, and which taints.
fn said(args: &Taint) -> Result<(DeviceSelector, Vec<TaintSpec>), Error> {
    let (words, filter) = (&args.selected.words, &args.selected.filter);
    let specs = words.iter().map(|word| parse_taint(word)).collect::<Result<Vec<_>, _>>();
    let specs = specs.map_err(|why| {
        Error::usage(format!("--future selects by --driver, --class and --cel, and not by names: {why}"))
    })?;
    if filter.node.is_some() || filter.selector.is_some() || args.selected.all {
        return Err(Error::usage("--future selects by --driver, --class and --cel alone"));
    }
    if let Some(expression) = &filter.cel {
        lazaret_cel::compile(expression, &lazaret_cel::Env::stored())
            .map_err(|error| Error::usage(format!("--cel: {error}")))?;
    }
    let text = |text: &Option<String>| text.as_deref().map(Into::into);
    let selector = DeviceSelector {
        driver: text(&filter.driver),
        class: text(&args.class),
        cel: filter.cel.iter().map(|expression| expression.as_str().into()).collect(),
        ..DeviceSelector::default()
    };
    if selector == DeviceSelector::default() {
        return Err(Error::usage("--future needs --driver, --class or --cel: which devices?"));
    }
    Ok((selector, specs))
}

/// The kind that can say which devices are meant.
async fn kind(session: &Session<'_>, served: &Served, selector: &DeviceSelector) -> Result<Resource, Error> {
    if selector.by_names_only() || served.has_pace() {
        return served.rules();
    }
    let path = format!("/apis/{}", TAINT_POLICIES.api_version());
    let found = match session.api.get_path(&path, "read what lazaret.dev serves").await {
        Ok(found) => found,
        Err(Error::NotFound { .. }) => {
            return Err(Error::NoPolicies { version: served.version.text.clone() });
        }
        Err(error) => return Err(error),
    };
    let mut listed = found["resources"].as_array().into_iter().flatten();
    if listed.any(|entry| entry["name"] == TAINT_POLICIES.plural) {
        Ok(TAINT_POLICIES)
    } else {
        Err(Error::NoPolicies { version: served.version.text.clone() })
    }
}

/// The policies in the place of rules.
async fn policies(session: &Session<'_>) -> Result<Cluster, Error> {
    let mut cluster = Cluster::default();
    session.api.list(&TAINT_POLICIES, &Scope::default(), |item| cluster.set(item.json())).await?;
    Ok(cluster)
}
