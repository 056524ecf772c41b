//! Permissions for the parts of a claim's status: allocation and reservations are the scheduler's, the state of devices is their drivers'.

use std::collections::{BTreeMap, BTreeSet};

use lazaret_json::Value;

use super::claim_spec::{admin_access_refusal, namespace_allows_admin_access};
use crate::{
    Access, Context, Errors,
    path::Path,
    value::{has, is_true, list, same, same_field, text},
};

const GROUP: &str = "resource.k8s.io";
const SERVICE_ACCOUNT: &str = "system:serviceaccount:";
const NODE_NAME_KEY: &str = "authentication.kubernetes.io/node-name";

/// All that depends on who asks and where the claim is.
pub(super) fn check(errors: &mut Errors, new: &Value, old: &Value, context: &Context<'_>) {
    admin_access(errors, new, old, context);
    if !context.features.is_on("DRAResourceClaimGranularStatusAuthorization") {
        return;
    }
    binding(errors, new, old, context);
    if context.features.is_on("DRAResourceClaimDeviceStatus") && has(&new["status"], "allocation") {
        device_status(errors, new, old, context);
    }
}

fn admin_access(errors: &mut Errors, new: &Value, old: &Value, context: &Context<'_>) {
    let granted = |claim: &Value| {
        let results = list(&claim["status"]["allocation"]["devices"], "results");
        results.iter().position(|result| is_true(result, "adminAccess"))
    };
    if let Some(at) = granted(new).filter(|_| granted(old).is_none())
        && !namespace_allows_admin_access(context)
    {
        let path = Path::root("status.allocation.devices.results");
        errors.forbidden(path.index(at).field("adminAccess"), admin_access_refusal());
    }
}

fn may(context: &Context<'_>, prefixes: &[&str], subresource: &str, namespace: &str, name: &str) -> bool {
    prefixes.iter().any(|prefix| {
        let verb = format!("{prefix}{}", context.verb);
        (context.may)(Access {
            verb: &verb,
            group: GROUP,
            resource: "resourceclaims",
            subresource,
            namespace,
            name,
            fields: &[],
        })
    })
}

fn binding(errors: &mut Errors, new: &Value, old: &Value, context: &Context<'_>) {
    let (status, before) = (&new["status"], &old["status"]);
    if same_field(status, before, "allocation") && same_field(status, before, "reservedFor") {
        return;
    }
    if !may(context, &[""], "binding", "", "") {
        errors.forbidden(
            Path::root("status.allocation"),
            format!(
                r#"changing status.allocation or status.reservedFor requires resource="resourceclaims/binding", verb={:?} permission: user {:?} does not have it"#,
                context.verb, context.user.name
            ),
        );
    }
}

fn device_status(errors: &mut Errors, new: &Value, old: &Value, context: &Context<'_>) {
    let prefixes: &[&str] = if is_on_allocated_node(new, context) {
        &["associated-node:", "arbitrary-node:"]
    } else {
        &["arbitrary-node:"]
    };
    let namespace = text(&new["metadata"], "namespace");
    for driver in changed_drivers(&new["status"], &old["status"]) {
        if !may(context, prefixes, "driver", namespace, driver) {
            errors.forbidden(
                Path::root("status.devices"),
                format!(
                    r#"changing status.devices requires resource="resourceclaims/driver", verb="{}{}" permission: user {:?} does not have it for driver {driver:?}"#,
                    prefixes[0], context.verb, context.user.name
                ),
            );
        }
    }
}

/// Drivers of which a device was added, removed or changed.
fn changed_drivers<'a>(new: &'a Value, old: &'a Value) -> BTreeSet<&'a str> {
    let key = |device: &'a Value| ["driver", "pool", "device", "shareID"].map(|field| text(device, field));
    let by_key = |status: &'a Value| -> BTreeMap<[&'a str; 4], &'a Value> {
        list(status, "devices").iter().map(|device| (key(device), device)).collect()
    };
    let (new, old) = (by_key(new), by_key(old));
    let differs = |one: &BTreeMap<[&'a str; 4], &'a Value>, other: &BTreeMap<[&'a str; 4], &'a Value>| {
        one.iter()
            .filter(|(key, device)| !other.get(*key).is_some_and(|known| same(known, device)))
            .map(|(key, _)| key[0])
            .collect::<Vec<_>>()
    };
    differs(&new, &old).into_iter().chain(differs(&old, &new)).collect()
}

/// Whether a service account asks whose pod runs on the one node that the claim is for.
fn is_on_allocated_node(claim: &Value, context: &Context<'_>) -> bool {
    let Some(node) = allocated_node(claim) else { return false };
    let user = context.user;
    let account = user.name.strip_prefix(SERVICE_ACCOUNT).is_some_and(|rest| rest.split(':').count() == 2);
    account && user.extra.get(NODE_NAME_KEY).is_some_and(|names| names.len() == 1 && names[0] == node)
}

/// The node, if the allocation names just one.
fn allocated_node(claim: &Value) -> Option<&str> {
    let [term] = list(&claim["status"]["allocation"]["nodeSelector"], "nodeSelectorTerms") else {
        return None;
    };
    let ([], [field]) = (list(term, "matchExpressions"), list(term, "matchFields")) else { return None };
    let [value] = list(field, "values") else { return None };
    (text(field, "key") == "metadata.name" && text(field, "operator") == "In")
        .then(|| value.as_str())
        .flatten()
}
