//! From words and flags to devices.

use std::collections::BTreeSet;

use lazaret_model::{DeviceId, DeviceSelector};

use super::Session;
use crate::{
    Error,
    api::{Item, NODES, Scope},
    args::{Chosen, FilterArgs, Selected},
    output::count,
    view::{
        Cluster, DeviceRow, Filter, Reference, TaintSpec, device_ids, exact, nearest, parse_taint, resolve,
        rows, selector_of,
    },
};

/// Rules that one command makes; a rule over a pool does for more devices.
const TARGETS_MAX: usize = 512;
/// Names that stand for all where none is near.
const NAMES_SHOWN_MAX: usize = 3;

/// The filter that flags and patterns make.
pub(super) async fn filter(
    session: &Session<'_>,
    cluster: &Cluster,
    args: &FilterArgs,
    words: &[String],
) -> Result<Filter, Error> {
    let references = words
        .iter()
        .map(|word| Reference::parse(word))
        .collect::<Result<Vec<_>, _>>()
        .map_err(Error::Usage)?;
    let mut nodes: Option<BTreeSet<String>> = args.node.clone().map(|node| BTreeSet::from([node]));
    if let Some(labels) = &args.selector {
        let labelled = nodes_with(session, labels).await?;
        nodes = Some(match nodes {
            Some(named) => named.intersection(&labelled).cloned().collect(),
            None => labelled,
        });
    }
    let matched = match &args.cel {
        Some(expression) => Some(matching(cluster, expression)?),
        None => None,
    };
    Ok(Filter { references, driver: args.driver.clone(), nodes, matched, ..Filter::default() })
}

async fn nodes_with(session: &Session<'_>, labels: &str) -> Result<BTreeSet<String>, Error> {
    let mut names = BTreeSet::new();
    let scope = Scope { labels: Some(labels.to_owned()), ..Scope::default() };
    let visit = |item: Item| {
        let node: serde_json::Value = serde_json::from_str(item.json()).unwrap_or_default();
        names.extend(node["metadata"]["name"].as_str().map(str::to_owned));
    };
    session.api.list(&NODES, &scope, visit).await?;
    Ok(names)
}

/// The devices that an expression matches.
fn matching(cluster: &Cluster, expression: &str) -> Result<BTreeSet<DeviceId>, Error> {
    lazaret_cel::compile(expression, &lazaret_cel::Env::stored())
        .map_err(|error| Error::usage(format!("--cel: {error}")))?;
    let selector = DeviceSelector { cel: vec![expression.into()], ..DeviceSelector::default() };
    let selection = cluster.fleet.selection_of(&selector);
    let found: BTreeSet<DeviceId> = selection.published().map(|device| device.id()).collect();
    match selection.problem() {
        // An expression that fails on some devices is common: attributes differ from driver to driver.
        Some(problem) if found.is_empty() => Err(Error::usage(format!("--cel: {problem}"))),
        Some(_) | None => Ok(found),
    }
}

/// The words of a command about taints, sorted into devices and taints, and what they mean.
#[derive(Debug)]
pub(super) struct Meant {
    pub(super) specs: Vec<TaintSpec>,
    /// One for each rule.
    pub(super) targets: Vec<DeviceSelector>,
}

/// Finds out what is meant. A selection is never wider than its words: each name means one device unless `--all` was said.
pub(super) async fn meant(
    session: &Session<'_>,
    cluster: &mut Cluster,
    selected: &Selected,
) -> Result<Meant, Error> {
    let (taints, devices): (Vec<String>, Vec<String>) =
        selected.words.iter().cloned().partition(|word| TaintSpec::looks_like(word));
    let specs =
        taints.iter().map(|text| parse_taint(text)).collect::<Result<Vec<_>, _>>().map_err(Error::Usage)?;
    if specs.is_empty() {
        return Err(Error::usage("no taint given: add KEY:EFFECT to set one, KEY- to remove one"));
    }
    let chosen = Chosen { devices, filter: selected.filter.clone(), all: selected.all };
    let targets = targets(session, cluster, &chosen).await?;
    Ok(Meant { specs, targets })
}

/// The devices meant by words and flags.
pub(super) async fn targets(
    session: &Session<'_>,
    cluster: &mut Cluster,
    chosen: &Chosen,
) -> Result<Vec<DeviceSelector>, Error> {
    let Chosen { devices: words, filter: flags, all } = chosen;
    let known = device_ids(cluster);
    let flagged =
        flags.driver.is_some() || flags.node.is_some() || flags.selector.is_some() || flags.cel.is_some();
    if flagged {
        return filtered(session, cluster, words, flags).await;
    }
    if words.is_empty() {
        if !*all {
            return Err(Error::usage("no device given: name devices, or add --all for every device"));
        }
        return Ok(vec![DeviceSelector::default()]);
    }
    let mut targets: Vec<DeviceSelector> = Vec::new();
    for word in words {
        let reference = Reference::parse(word).map_err(Error::Usage)?;
        let found = resolve(&reference, &known, *all).map_err(Error::Usage)?;
        match reference.selector() {
            Some(selector) => targets.push(selector),
            None => targets.extend(found.into_iter().map(selector_of)),
        }
    }
    bounded(targets)
}

/// The devices meant by words and flags, one by one.
pub(super) async fn devices(
    session: &Session<'_>,
    cluster: &mut Cluster,
    chosen: &Chosen,
) -> Result<Vec<DeviceId>, Error> {
    let known = device_ids(cluster);
    let mut devices: BTreeSet<DeviceId> = BTreeSet::new();
    for target in targets(session, cluster, chosen).await? {
        match exact(&target) {
            Some(id) => {
                devices.insert(id);
            }
            None => devices.extend(known.iter().filter(|id| target.names_match(id)).cloned()),
        }
    }
    if devices.is_empty() {
        return Err(Error::usage("no device is selected: the cluster has no devices at all"));
    }
    if devices.len() > TARGETS_MAX {
        return Err(Error::usage(format!(
            "{} devices would need a rule each, and {TARGETS_MAX} is the most: take them in parts, by --node for instance",
            devices.len()
        )));
    }
    Ok(devices.into_iter().collect())
}

/// The flags select a set of devices as it is now: each gets a rule of its own, so that no later device is selected.
async fn filtered(
    session: &Session<'_>,
    cluster: &mut Cluster,
    words: &[String],
    flags: &FilterArgs,
) -> Result<Vec<DeviceSelector>, Error> {
    let filter = filter(session, cluster, flags, words).await?;
    let known = device_ids(cluster);
    for reference in &filter.references {
        resolve(reference, &known, true).map_err(Error::Usage)?;
    }
    let found = rows(cluster, &filter);
    if found.is_empty() {
        let all = rows(cluster, &Filter::default());
        return Err(Error::usage(format!(
            "no device is selected: `kubectl device list` takes the same flags; without them it shows {}.{}",
            count(all.len(), "device"),
            missing(&all, flags)
        )));
    }
    let ids = found.iter().map(|row| DeviceId {
        driver: row.driver.0.clone(),
        pool: row.pool.0.clone(),
        device: row.device.0.clone(),
    });
    bounded(ids.map(|id| selector_of(&id)).collect())
}

/// The values of flags that no device has, one line each, with the nearest names that devices have.
pub(super) fn missing(all: &[DeviceRow], flags: &FilterArgs) -> String {
    let drivers: BTreeSet<String> = all.iter().map(|row| row.driver.to_string()).collect();
    let nodes: BTreeSet<String> = all.iter().filter_map(|row| Some(row.node.as_ref()?.to_string())).collect();
    let mut text = String::new();
    for (wanted, what, names) in [(&flags.driver, "driver", drivers), (&flags.node, "node", nodes)] {
        let Some(wanted) = wanted.as_ref().filter(|wanted| !names.contains(*wanted)) else { continue };
        let mut near = nearest(wanted, names.iter().map(String::as_str));
        if near.is_empty() {
            near = names.iter().map(String::as_str).take(NAMES_SHOWN_MAX).collect();
        }
        text.push_str(&format!("\nNo device has the {what} {wanted}; nearest: {}.", near.join(", ")));
    }
    text
}

fn bounded(mut targets: Vec<DeviceSelector>) -> Result<Vec<DeviceSelector>, Error> {
    let mut seen = BTreeSet::new();
    targets.retain(|target| seen.insert(crate::view::describe_selector(target)));
    if targets.len() > TARGETS_MAX {
        return Err(Error::usage(format!(
            "{} devices would need a rule each, and {TARGETS_MAX} is the most: name pools, as in 'DRIVER/POOL/*' --all",
            targets.len()
        )));
    }
    Ok(targets)
}
