//! Names for completion, read from the cluster with as few lists as it takes.

use std::collections::BTreeSet;

use super::Session;
use crate::{
    Error,
    api::{Item, NAMESPACES, NODES, PODS, Resource, Scope},
    complete::Names,
    view::{Cluster, Filter, Meta, device_ids, rows},
};

/// The names that the cluster has.
pub(crate) async fn completion_names(session: &mut Session<'_>, names: Names) -> Result<Vec<String>, Error> {
    match names {
        Names::Devices => devices(session).await,
        Names::DevicesAndTaints => {
            let (devices, taints) = (devices(session).await?, taints(session).await.unwrap_or_default());
            Ok(devices.into_iter().chain(taints).collect())
        }
        Names::Nodes => {
            let mut cluster = slices(session).await?;
            let nodes = rows(&mut cluster, &Filter::default()).into_iter().filter_map(|row| row.node);
            let nodes: BTreeSet<String> = nodes.map(|node| node.to_string()).collect();
            // Slices may name no node, and then any may be meant.
            if nodes.is_empty() { named(session, &NODES, "").await } else { Ok(nodes.into_iter().collect()) }
        }
        Names::Drivers => {
            let ids = device_ids(&mut slices(session).await?);
            let drivers: BTreeSet<String> = ids.into_iter().map(|id| id.driver.to_string()).collect();
            Ok(drivers.into_iter().collect())
        }
        Names::Pods => {
            let namespace = session.namespace().to_owned();
            named(session, &PODS, &namespace).await
        }
        Names::Namespaces => named(session, &NAMESPACES, "").await,
        Names::Contexts | Names::Clusters | Names::Users | Names::Files => Ok(Vec::new()),
    }
}

/// A cluster of which only the slices are read.
async fn slices(session: &mut Session<'_>) -> Result<Cluster, Error> {
    let served = session.served().await?;
    let mut cluster = Cluster::default();
    session.api.list(&served.slices, &Scope::default(), |item| cluster.set(item.json())).await?;
    Ok(cluster)
}

async fn devices(session: &mut Session<'_>) -> Result<Vec<String>, Error> {
    Ok(device_ids(&mut slices(session).await?).iter().map(ToString::to_string).collect())
}

/// `KEY:EFFECT-` of each taint that a rule of this command sets.
async fn taints(session: &mut Session<'_>) -> Result<Vec<String>, Error> {
    let rules = session.served().await?.rules()?;
    let mut cluster = Cluster::default();
    session.api.list(&rules, &Scope::default(), |item| cluster.set(item.json())).await?;
    let ours = cluster
        .fleet
        .rules()
        .filter(|view| cluster.rules.get(view.rule.name.as_str()).is_some_and(Meta::is_ours));
    let taints: BTreeSet<String> =
        ours.map(|view| format!("{}:{}-", view.rule.taint.key, view.rule.taint.effect)).collect();
    Ok(taints.into_iter().collect())
}

async fn named(session: &Session<'_>, resource: &Resource, namespace: &str) -> Result<Vec<String>, Error> {
    let mut names = Vec::new();
    let scope = Scope { namespace: namespace.to_owned(), ..Scope::default() };
    let visit = |item: Item| {
        let object: serde_json::Value = serde_json::from_str(item.json()).unwrap_or_default();
        names.extend(object["metadata"]["name"].as_str().map(str::to_owned));
    };
    session.api.list(resource, &scope, visit).await?;
    Ok(names)
}
