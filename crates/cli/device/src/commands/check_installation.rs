//! The questions of `kubectl device check` about Lazaret's own installation.

use lazaret_kinds::{SCHEMA_ANNOTATION, own_definitions};
use lazaret_model::Timestamp;
use serde_json::{Value, json};

use super::{Session, check_webhook, write::self_review};
use crate::{
    Error,
    api::{DryRun, Resource, Served},
    view::Installation,
};

const ACCESS_REVIEWS: Resource = Resource {
    group: "authorization.k8s.io",
    version: "v1",
    plural: "subjectaccessreviews",
    kind: "SubjectAccessReview",
    namespaced: false,
};
/// Permissions that each component of the chart needs at least: group, resource, verb.
const NEEDED: &[(&str, &str, &str)] = &[
    ("resource.k8s.io", "resourceslices", "watch"),
    ("resource.k8s.io", "resourceclaims", "watch"),
    ("", "pods", "watch"),
    ("", "nodes", "watch"),
];
const ROLES: &str = "/apis/rbac.authorization.k8s.io/v1/clusterroles";
const ADMISSION: &str = "/apis/admissionregistration.k8s.io/v1";
/// The name that the chart gives the scheduler.
const SCHEDULER: &str = "lazaret";
const DEFINITIONS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
/// No list is read further than this: an installation has a handful of each.
const OBJECTS_MAX: usize = 500;

/// The facts about an installation. Those that this user may not see are left out, and marked as such.
pub(super) async fn installation_facts(
    session: &mut Session<'_>,
    served: &Served,
) -> Result<Installation, Error> {
    let wanted: Vec<(String, String)> = own_definitions()
        .iter()
        .map(|one| {
            let metadata = &one["metadata"];
            let schema = metadata["annotations"][SCHEMA_ANNOTATION].as_str();
            (metadata["name"].as_str().unwrap_or_default().into(), schema.unwrap_or_default().into())
        })
        .collect();
    let mut definitions = Some(Vec::new());
    for (name, _) in &wanted {
        match session.api.get_path(&format!("{DEFINITIONS}/{name}"), "read a definition").await {
            Ok(found) => definitions.iter_mut().for_each(|all| all.push(found.clone())),
            Err(Error::NotFound { .. }) => {}
            Err(error @ Error::Unreachable { .. }) => return Err(error),
            Err(_) => definitions = None,
        }
    }
    let labelled = "labelSelector=app.kubernetes.io%2Fname%3Dlazaret";
    let named = |name: &str| format!("fieldSelector=metadata.name%3D{name}");
    let mut leases = Some(Vec::new());
    for name in ["lazaret-controllers", "lazaret-scheduler"] {
        let found = list(session, "/apis/coordination.k8s.io/v1/leases", &named(name)).await?;
        leases = joined(leases, found);
    }
    let mut policies = Some(Vec::new());
    for plural in
        ["taintreplacementpolicies", "devicetaintpolicies", "devicehealthpolicies", "resourceslicepatches"]
    {
        let found = list(session, &format!("/apis/lazaret.dev/v1alpha1/{plural}"), "").await?;
        policies = joined(policies, found);
    }
    let deployments = list(session, "/apis/apps/v1/deployments", labelled).await?;
    let waits = format!("fieldSelector=spec.schedulerName%3D{SCHEDULER},spec.nodeName%3D");
    let policies_of_admission =
        list(session, &format!("{ADMISSION}/validatingadmissionpolicies"), labelled).await?;
    let bindings = list(session, &format!("{ADMISSION}/validatingadmissionpolicybindings"), "").await?;
    let webhooks = list(session, &format!("{ADMISSION}/validatingwebhookconfigurations"), labelled).await?;
    Ok(Installation {
        minor: served.version.minor,
        webhooks: check_webhook::webhooks(session, served.rules, webhooks).await?,
        program: env!("CARGO_PKG_VERSION"),
        wanted,
        definitions,
        daemon_sets: list(session, "/apis/apps/v1/daemonsets", labelled).await?,
        pods: list(session, "/api/v1/pods", labelled).await?,
        waiting: list(session, "/api/v1/pods", &waits).await?,
        admission: policies_of_admission.zip(bindings),
        roles_missing: roles_missing(session).await?,
        refused: refused(session, deployments.as_deref().unwrap_or_default()).await?,
        deployments,
        leases,
        policies,
        events: list(session, "/api/v1/events", "fieldSelector=reason%3DDeviceTaintManagerEviction").await?,
        server_time: server_time(session).await?,
    })
}

async fn roles_missing(session: &Session<'_>) -> Result<Option<Vec<&'static str>>, Error> {
    let mut missing = Vec::new();
    for name in ["kubectl-device-read", "kubectl-device-act", "kubectl-device-release"] {
        match session.api.get_path(&format!("{ROLES}/{name}"), "read a role").await {
            Ok(_) => {}
            Err(Error::NotFound { .. }) => missing.push(name),
            Err(error @ Error::Unreachable { .. }) => return Err(error),
            Err(_) => return Ok(None),
        }
    }
    Ok(Some(missing))
}

/// Permissions that the service accounts of these deployments need and lack.
async fn refused(
    session: &Session<'_>,
    deployments: &[Value],
) -> Result<Option<Vec<(String, String)>>, Error> {
    let mut refused = Vec::new();
    for one in deployments {
        let namespace = one["metadata"]["namespace"].as_str().unwrap_or_default();
        let account = one["spec"]["template"]["spec"]["serviceAccountName"].as_str().unwrap_or("default");
        let user = format!("system:serviceaccount:{namespace}:{account}");
        let groups = json!([
            "system:serviceaccounts",
            format!("system:serviceaccounts:{namespace}"),
            "system:authenticated"
        ]);
        // It is permitted by name, for the one lease of the component.
        let component = one["metadata"]["labels"]["app.kubernetes.io/component"].as_str().unwrap_or_default();
        let lease = format!("lazaret-{component}");
        let leases = ("coordination.k8s.io", "leases", "patch");
        for (group, resource, verb) in NEEDED.iter().copied().chain([leases]) {
            let (of, name) = if resource == "leases" { (namespace, &*lease) } else { ("", "") };
            let wanted = json!({
                "group": group, "resource": resource, "verb": verb, "namespace": of, "name": name, "version": "v1",
            });
            let review = json!({
                "apiVersion": "authorization.k8s.io/v1", "kind": "SubjectAccessReview",
                "spec": {"user": user, "groups": groups, "resourceAttributes": wanted},
            });
            match session.api.create(&ACCESS_REVIEWS, "", &review, DryRun::None).await {
                Ok(answer) if answer["status"]["allowed"] == true => {}
                Ok(_) => refused.push((format!("{namespace}/{account}"), format!("{verb} {resource}"))),
                Err(error @ Error::Unreachable { .. }) => return Err(error),
                Err(_) => return Ok(None),
            }
        }
    }
    Ok(Some(refused))
}

fn joined(all: Option<Vec<Value>>, found: Option<Vec<Value>>) -> Option<Vec<Value>> {
    let (mut all, found) = all.zip(found)?;
    all.extend(found);
    Some(all)
}

/// `None` where this user may not list it; of a kind that is not served there are none.
async fn list(session: &Session<'_>, path: &str, query: &str) -> Result<Option<Vec<Value>>, Error> {
    let path = format!("{path}?limit={OBJECTS_MAX}&{query}");
    match session.api.get_path(&path, "look at the installation").await {
        Ok(mut list) => Ok(list["items"].as_array_mut().map(core::mem::take)),
        Err(Error::NotFound { .. }) => Ok(Some(Vec::new())),
        Err(error @ Error::Unreachable { .. }) => Err(error),
        Err(_) => Ok(None),
    }
}

async fn server_time(session: &Session<'_>) -> Result<Option<Timestamp>, Error> {
    match self_review(session).await {
        Ok(answer) => {
            let time = answer["metadata"]["creationTimestamp"].as_str();
            Ok(time.and_then(|time| lazaret_api::parse_time(time).ok()))
        }
        Err(error @ Error::Unreachable { .. }) => Err(error),
        Err(_) => Ok(None),
    }
}
