//! Reads of a cluster what a command needs, several lists at once, each page by page.

use std::cell::RefCell;

use crate::{
    Error,
    api::{DISRUPTION_BUDGETS, DISRUPTION_GUARDS, Item, NODES, PODS, Resource, Scope},
    view::{Cluster, GateFacts, Hidden, consequence, is_off},
};

use super::Session;

/// How many objects that make no sense are named.
const UNREADABLE_SHOWN_MAX: usize = 5;

/// Resources to read besides slices, rules and claims.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Need {
    pub(super) pods: bool,
    pub(super) nodes: bool,
    pub(super) classes: bool,
    pub(super) budgets: bool,
    /// Classes, nodes and guards as far as they are there and may be read: what a plan foretells by.
    pub(super) outlook: bool,
    /// Where claims or pods may not be read in all namespaces, those of one namespace, or none, will do.
    pub(super) partial: bool,
}

/// A list that was read, to be watched from there.
#[derive(Clone, Debug)]
pub(super) struct Read {
    pub(super) resource: Resource,
    pub(super) scope: Scope,
    pub(super) version: String,
}

/// Everything that was read, and from where to watch it.
#[derive(Debug)]
pub(super) struct Loaded {
    pub(super) cluster: Cluster,
    pub(super) reads: Vec<Read>,
}

/// Reads a cluster.
pub(super) async fn load(session: &mut Session<'_>, need: Need) -> Result<Loaded, Error> {
    let served = session.served().await?;
    let gates = session.gates().await;
    let cluster = RefCell::new(Cluster::with_gates(gates));
    let reads = RefCell::new(Vec::new());
    let api = &session.api;
    let read_scope = async |resource: Resource, scope: Scope| -> Result<(), Error> {
        let visit = |item: Item| cluster.borrow_mut().set(item.json());
        // Several are in flight at once: on the heap they do not make every command large.
        let version = Box::pin(api.list(&resource, &scope, visit)).await?;
        reads.borrow_mut().push(Read { resource, scope, version });
        Ok(())
    };
    let read = async |resource: Option<Resource>| match resource {
        Some(resource) => read_scope(resource, Scope::default()).await,
        None => Ok(()),
    };
    let namespace = session.namespace().to_owned();
    // The note about a resource of which not everything may be read.
    let read_partial = async |resource: Option<Resource>| -> Result<Option<String>, Error> {
        let refused = match read(resource).await {
            Err(refused @ Error::Forbidden { .. }) if need.partial => refused,
            read => return read.map(|()| None),
        };
        let Some(resource) = resource else { return Ok(None) };
        let seen =
            match read_scope(resource, Scope { namespace: namespace.clone(), ..Scope::default() }).await {
                Ok(()) => format!("those of namespace {namespace} are shown"),
                Err(Error::Forbidden { .. }) => "none is shown".to_owned(),
                Err(error) => return Err(error),
            };
        Ok(Some(format!("{refused}\nnot every {} is known: {seen}", resource.kind)))
    };
    let classes = (need.classes || served.patches.is_some()).then_some(served.classes);
    let budgets = async {
        match read(need.budgets.then_some(DISRUPTION_BUDGETS)).await {
            // Without budgets a plan is as good: eviction by taint does not ask them.
            Err(Error::NotFound { .. } | Error::Forbidden { .. }) | Ok(()) => Ok(()),
            Err(error) => Err(error),
        }
    };
    // Without them a plan is as good as it can be.
    let read_for_outlook = async |resource: Resource| match read(need.outlook.then_some(resource)).await {
        Err(Error::NotFound { .. } | Error::Forbidden { .. }) | Ok(()) => Ok(()),
        Err(error) => Err(error),
    };
    let outlook = async {
        if classes.is_none() {
            read_for_outlook(served.classes).await?;
        }
        if !need.nodes {
            read_for_outlook(NODES).await?;
        }
        read_for_outlook(DISRUPTION_GUARDS).await
    };
    let nodes = async {
        match read(need.nodes.then_some(NODES)).await {
            // Without nodes it is not known which devices they have to unprepare, and all else is.
            Err(Error::Forbidden { .. }) if need.partial => Ok(()),
            read => read,
        }
    };
    let ((), claims, (), (), (), pods, (), (), ()) = tokio::try_join!(
        read(Some(served.slices)),
        read_partial(Some(served.claims)),
        read(served.rules),
        read(served.patches),
        read(classes),
        read_partial(need.pods.then_some(PODS)),
        nodes,
        budgets,
        outlook,
    )?;
    let (mut cluster, reads) = (cluster.into_inner(), reads.into_inner());
    cluster.hidden = Hidden { claims: claims.is_some(), pods: pods.is_some() };
    claims.iter().chain(&pods).for_each(|text| session.console.note(text));
    note_gates(session, gates, served.version.minor, &cluster);
    note_unreadable(session, &cluster);
    Ok(Loaded { cluster, reads })
}

/// Says which taints that were read have no effect, or may have none.
fn note_gates(session: &mut Session<'_>, gates: GateFacts, minor: u32, cluster: &Cluster) {
    for gate in &cluster.gates_missed {
        session.console.note(&format!("{} on this server: {}", is_off(gate), consequence(gate)));
    }
    if let Some(gate) = gates.perhaps_off(minor).filter(|_| !cluster.rules.is_empty()) {
        let why = if gates.refused { ": this user may not read /metrics" } else { "" };
        session.console.note(&format!(
            "the server does not say whether feature gate {gate} is on{why}; it is off by default in 1.{}, and then {}",
            minor,
            consequence(gate)
        ));
    }
}

fn note_unreadable(session: &mut Session<'_>, cluster: &Cluster) {
    for one in cluster.unreadable.iter().take(UNREADABLE_SHOWN_MAX) {
        let (kind, name, why, kept) = (&one.kind, &one.name, &one.why, &one.kept);
        session.console.note(&format!("{kind} {name} cannot be read: {why}; kept: {kept}"));
    }
    if let more @ 1.. = cluster.unreadable.len().saturating_sub(UNREADABLE_SHOWN_MAX) {
        session.console.note(&format!("{more} more objects cannot be read: kubectl device check"));
    }
}
