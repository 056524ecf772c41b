//! IP families of a Service in a cluster that has IPv4 alone.

use lazaret_json::{Value, json};

use super::{ServiceRefusal, is_headless, needs_cluster_ip, validation};
use crate::{
    Errors,
    addresses::is_ipv6,
    value::{append, has, list, put, same_field, some, text},
};

const SINGLE: &str = "SingleStack";
const PREFER_DUAL: &str = "PreferDualStack";
const REQUIRE_DUAL: &str = "RequireDualStack";
/// The family of the cluster.
const FAMILY: &str = "IPv4";

/// Fills in `ipFamilyPolicy` and `ipFamilies`, or says why they cannot be what was asked for.
pub(super) fn settle(spec: &mut Value, old: Option<&Value>) -> Result<(), ServiceRefusal> {
    if !needs_cluster_ip(spec) || old.is_some_and(|old| stays_preferred(spec, old)) {
        return Ok(());
    }
    let selectorless = text(spec, "clusterIP") == "None" && !has_selector(spec);
    if !has(spec, "ipFamilyPolicy") {
        let policy = match old.and_then(|old| some(old, "ipFamilyPolicy")) {
            Some(policy) => policy.clone(),
            None => json!(if selectorless { REQUIRE_DUAL } else { SINGLE }),
        };
        put(spec, "ipFamilyPolicy", policy);
    }
    let mut errors = Errors::new();
    validation::addresses(&mut errors, spec, old);
    refused(errors)?;
    let mut errors = Errors::new();
    if let Some(old) = old {
        reduce(spec, old, &mut errors);
    }
    check_policy(spec, &mut errors);
    infer(spec, &mut errors);
    refused(errors)?;
    if selectorless {
        if list(spec, "ipFamilies").is_empty() {
            put(spec, "ipFamilies", json!([FAMILY]));
        }
        if list(spec, "ipFamilies").len() < 2 && text(spec, "ipFamilyPolicy") != SINGLE {
            let other = if spec["ipFamilies"][0] == FAMILY { "IPv6" } else { FAMILY };
            append(spec, "ipFamilies", json!(other));
        }
        return Ok(());
    }
    let mut errors = Errors::new();
    if text(spec, "ipFamilyPolicy") == REQUIRE_DUAL {
        errors.invalid(
            "spec.ipFamilyPolicy",
            REQUIRE_DUAL,
            "this cluster is not configured for dual-stack services",
        );
    }
    for (at, family) in list(spec, "ipFamilies").iter().enumerate().filter(|(_, family)| **family != *FAMILY)
    {
        errors.invalid(format!("spec.ipFamilies[{at}]"), family.clone(), "not configured on this cluster");
    }
    refused(errors)?;
    if list(spec, "ipFamilies").is_empty() {
        put(spec, "ipFamilies", json!([FAMILY]));
    }
    Ok(())
}

/// Families and policy of a Service that was stored without.
pub(super) fn default_families(spec: &mut Value) {
    let (policy, families) = if !is_headless(spec) {
        let families: Vec<Value> = list(spec, "clusterIPs").iter().map(|_| json!(FAMILY)).collect();
        (SINGLE, json!(families))
    } else if has_selector(spec) {
        (SINGLE, json!([FAMILY]))
    } else {
        (REQUIRE_DUAL, json!([FAMILY, "IPv6"]))
    };
    put(spec, "ipFamilyPolicy", policy);
    put(spec, "ipFamilies", families);
}

/// A Service that prefers two families is not looked at again while nothing of this changes.
fn stays_preferred(spec: &Value, old: &Value) -> bool {
    let preferred = |spec: &Value| matches!(text(spec, "ipFamilyPolicy"), PREFER_DUAL);
    has(spec, "ipFamilyPolicy")
        && ["type", "clusterIPs", "ipFamilies"].iter().all(|field| same_field(spec, old, field))
        && preferred(spec)
        && (preferred(old) || !has(old, "ipFamilyPolicy"))
}

/// Fewer addresses or families than before are meant only with the policy for one.
fn reduce(spec: &mut Value, old: &Value, errors: &mut Errors) {
    for (field, what) in [("clusterIPs", "cluster IP"), ("ipFamilies", "IP family")] {
        let (now, before) = (list(spec, field), list(old, field));
        if text(spec, "ipFamilyPolicy") == SINGLE {
            if now == before && now.len() > 1 {
                let first = now[0].clone();
                put(spec, field, json!([first]));
            }
        } else if !now.is_empty() && now.len() < before.len() {
            let why = format!("must be 'SingleStack' to release the secondary {what}");
            errors.invalid("spec.ipFamilyPolicy", spec["ipFamilyPolicy"].clone(), why);
        }
    }
}

fn check_policy(spec: &Value, errors: &mut Errors) {
    if text(spec, "ipFamilyPolicy") != SINGLE {
        return;
    }
    for (field, what) in [("clusterIPs", "cluster IPs"), ("ipFamilies", "IP families")] {
        if list(spec, field).len() == 2 {
            let why =
                format!("must be 'RequireDualStack' or 'PreferDualStack' when multiple {what} are specified");
            errors.invalid("spec.ipFamilyPolicy", SINGLE, why);
        }
    }
}

/// The families that addresses which were asked for belong to.
fn infer(spec: &mut Value, errors: &mut Errors) {
    let addresses = list(spec, "clusterIPs").to_vec();
    for (at, address) in addresses.iter().enumerate() {
        let address = address.as_str().unwrap_or_default();
        if address == "None" {
            return;
        }
        if at < list(spec, "ipFamilies").len() {
            continue;
        }
        if is_ipv6(address) {
            let path = format!("spec.clusterIPs[{at}]");
            errors.invalid(path, json!(addresses), "IPv6 is not configured on this cluster");
        } else {
            append(spec, "ipFamilies", json!(FAMILY));
        }
    }
}

fn has_selector(spec: &Value) -> bool {
    some(spec, "selector").and_then(Value::as_object).is_some_and(|selector| !selector.is_empty())
}

fn refused(errors: Errors) -> Result<(), ServiceRefusal> {
    if errors.is_empty() { Ok(()) } else { Err(ServiceRefusal::Invalid(errors)) }
}
