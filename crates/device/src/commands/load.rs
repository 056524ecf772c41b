//! Reads of a cluster what a command needs, several lists at once, each page by page.

use std::cell::RefCell;

use crate::{
    Error,
    api::{Item, NODES, PODS, Resource, Scope},
    view::Cluster,
};

use super::Session;

/// How many objects that make no sense are named.
const UNREADABLE_SHOWN_MAX: usize = 5;
const BUDGETS: Resource =
    Resource { group: "policy", version: "v1", plural: "poddisruptionbudgets", kind: "PodDisruptionBudget" };

/// What to read besides slices, rules and claims.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Need {
    pub(super) pods: bool,
    pub(super) nodes: bool,
    pub(super) classes: bool,
    pub(super) budgets: bool,
}

/// A list that was read, to be watched from there.
#[derive(Clone, Debug)]
pub(super) struct Read {
    pub(super) resource: Resource,
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
    let cluster = RefCell::new(Cluster::default());
    let reads = RefCell::new(Vec::new());
    let api = &session.api;
    let whole = Scope::default();
    let read = async |resource: Option<Resource>| -> Result<(), Error> {
        let Some(resource) = resource else { return Ok(()) };
        let visit = |item: Item| {
            cluster.borrow_mut().set(item.json());
            Ok(())
        };
        let version = api.list(&resource, &whole, visit).await?;
        reads.borrow_mut().push(Read { resource, version });
        Ok(())
    };
    let classes = (need.classes || served.patches.is_some()).then_some(served.classes);
    let budgets = async {
        match read(need.budgets.then_some(BUDGETS)).await {
            // Without budgets a plan is as good: eviction by taint does not ask them.
            Err(Error::NotFound { .. } | Error::Forbidden { .. }) | Ok(()) => Ok(()),
            Err(error) => Err(error),
        }
    };
    tokio::try_join!(
        read(Some(served.slices)),
        read(Some(served.claims)),
        read(served.rules),
        read(served.patches),
        read(classes),
        read(need.pods.then_some(PODS)),
        read(need.nodes.then_some(NODES)),
        budgets,
    )?;
    let (cluster, reads) = (cluster.into_inner(), reads.into_inner());
    for text in cluster.unreadable.iter().take(UNREADABLE_SHOWN_MAX) {
        session.console.note(&format!("passed over, for it makes no sense: {text}"));
    }
    if let more @ 1.. = cluster.unreadable.len().saturating_sub(UNREADABLE_SHOWN_MAX) {
        session.console.note(&format!("passed over {more} more objects"));
    }
    Ok(Loaded { cluster, reads })
}
