//! The objects that a run makes: all with its label, so that they can be told from everything else.

use std::time::Duration;

use anyhow::{Result, bail};
use serde_json::{Value, json};

use crate::target::{Caller, Target};
use lazaret_print::note;

/// The label that everything of a run has; its value is the run.
pub(crate) const LABEL: &str = "lazaret.dev/bench";
pub(crate) const NODES: &str = "/api/v1/nodes";
pub(crate) const NAMESPACES: &str = "/api/v1/namespaces";
pub(crate) const LEASES: &str = "/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases";
pub(crate) const SLICES: &str = "/apis/resource.k8s.io/v1/resourceslices";
pub(crate) const CLASSES: &str = "/apis/resource.k8s.io/v1/deviceclasses";
pub(crate) const RULES: &str = "/apis/resource.k8s.io/v1/devicetaintrules";
pub(crate) const RULES_WITH_PACE: &str = "/apis/resource.k8s.io/v1alpha3/devicetaintrules";

/// Tries until a new namespace has its account.
const ACCOUNT_TRIES: u32 = 200;
/// Tries until namespaces are gone.
const GONE_TRIES: u32 = 600;
const PAUSE: Duration = Duration::from_millis(100);

pub(crate) fn pods_path(namespace: &str) -> String {
    format!("{NAMESPACES}/{namespace}/pods")
}

pub(crate) fn templates_path(namespace: &str) -> String {
    format!("/apis/resource.k8s.io/v1/namespaces/{namespace}/resourceclaimtemplates")
}

pub(crate) fn claims_path(namespace: &str) -> String {
    format!("/apis/resource.k8s.io/v1/namespaces/{namespace}/resourceclaims")
}

/// Metadata of an object of a run.
pub(crate) fn meta(run: &str, name: &str) -> Value {
    json!({"name": name, "labels": {LABEL: run}})
}

/// Makes a namespace and waits until pods can be made in it.
pub(crate) async fn make_namespace(caller: &mut Caller, run: &str, name: &str) -> Result<()> {
    caller.create(NAMESPACES, &json!({"metadata": meta(run, name)})).await?;
    // Pods are refused until a controller has made their account; where none does, they are not refused.
    for _ in 0..ACCOUNT_TRIES {
        if caller.get(&format!("{NAMESPACES}/{name}/serviceaccounts/default")).await?.is_some() {
            break;
        }
        tokio::time::sleep(PAUSE).await;
    }
    Ok(())
}

/// Takes away everything that has the label of a run, or of any run.
pub(crate) async fn clean_up(target: &Target, run: Option<&str>) -> Result<()> {
    let selector = run.map_or_else(|| LABEL.to_owned(), |run| format!("{LABEL}%3D{run}"));
    let mut caller = Caller::new(target).await?;
    let listed = caller.get(&format!("{NAMESPACES}?labelSelector={selector}")).await?.unwrap_or_default();
    let namespaces: Vec<&str> = listed["items"]
        .as_array()
        .into_iter()
        .flatten()
        .filter_map(|item| item["metadata"]["name"].as_str())
        .collect();
    let at_once = r#"{"gracePeriodSeconds":0,"propagationPolicy":"Background"}"#;
    for namespace in &namespaces {
        remove(&mut caller, &pods_path(namespace), at_once).await?;
        remove(&mut caller, &format!("{NAMESPACES}/{namespace}"), "{}").await?;
    }
    for path in [RULES, SLICES, CLASSES, NODES, LEASES] {
        remove(&mut caller, &format!("{path}?labelSelector={selector}"), at_once).await?;
    }
    for namespace in &namespaces {
        wait_until_gone(&mut caller, namespace).await?;
    }
    Ok(())
}

async fn wait_until_gone(caller: &mut Caller, namespace: &str) -> Result<()> {
    for _ in 0..GONE_TRIES {
        if caller.get(&format!("{NAMESPACES}/{namespace}")).await?.is_none() {
            return Ok(());
        }
        tokio::time::sleep(PAUSE).await;
    }
    bail!("the server is still at work on namespace {namespace}")
}

async fn remove(caller: &mut Caller, path: &str, options: &str) -> Result<()> {
    let request = caller.target().delete(path, options);
    let answer = caller.ask(&request).await?;
    if !matches!(answer.code, 200..300 | 404 | 409) {
        note(&format!("left behind, {path}: {}", answer.refusal()));
    }
    Ok(())
}
