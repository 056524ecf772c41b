//! Admission policies, asked about a request that is otherwise good.

use std::sync::Arc;

use lazaret_json::Value;
use lazaret_kinds::{
    Scope,
    admission::{Attributes, Operation, Params, Policies, Surroundings},
    selects,
};
use lazaret_store::{Item, RangeOptions};

use crate::{ApiError, kind_ref::KindRef, object, server::Call};

/// Where policies and bindings are stored.
pub(crate) const POLICIES: &str = "/admissionregistration.k8s.io/";
const BINDINGS: &str = "/admissionregistration.k8s.io/validatingadmissionpolicybindings/";
/// As who the server itself brings its cluster into being. A policy that locked it out could not be taken back.
const OWN_USER: &str = "system:apiserver";
/// A selector of parameters that finds more fails: a policy is asked once for each.
const PARAMS_MAX: usize = 100;

/// Compiles what is stored.
pub(crate) fn compile(items: &[Arc<Item>]) -> Policies {
    let (bindings, policies): (Vec<&Arc<Item>>, Vec<_>) =
        items.iter().partition(|item| item.key.starts_with(BINDINGS.as_bytes()));
    let decode =
        |items: Vec<&Arc<Item>>| items.iter().map(|item| object::decode(&item.value)).collect::<Vec<_>>();
    Policies::compile(&decode(policies), &decode(bindings))
}

/// Asks whether the request may be carried out; says what its client is to be warned of. `new` and `old` are as they are stored.
pub(crate) fn ask(
    call: &Call<'_>,
    operation: Operation,
    name: &str,
    (new, old): (&Value, &Value),
) -> Result<Vec<String>, ApiError> {
    let policies = call.server.policies();
    if policies.is_empty() || call.user.name == OWN_USER {
        return Ok(Vec::new());
    }
    let part = call.target.subresource.as_str();
    // What is posted to a part of an object has a kind of its own.
    let sent =
        call.kind.subresources.iter().find(|known| operation == Operation::Create && known.name == part);
    let sent = sent.and_then(|part| part.takes);
    let in_version = |version: &str| match sent {
        Some((group, version, kind)) => (with_type(new.clone(), group, version, kind), Value::Null),
        None => (typed(call, version, new), typed(call, version, old)),
    };
    let versions: Vec<&str> = call.kind.versions.iter().map(|served| &*served.version).collect();
    let attributes = Attributes {
        operation,
        group: &call.kind.group,
        version: &call.served.version,
        versions: &versions,
        resource: &call.kind.plural,
        subresource: part,
        kind: sent.map_or(&*call.kind.kind, |(_, _, kind)| kind),
        name,
        namespace: &call.target.namespace,
        user: call.user,
        dry_run: call.query.dry_run(),
        objects: &in_version,
    };
    let verdict = policies.ask(&attributes, call);
    for (policy, key, value) in verdict.notes {
        // DEVIATION(policy-audit): there is no audit log to put it into.
        tracing::info!(target: "audit", policy, key, value, user = call.user.name, resource = %call.kind.plural, name);
    }
    match verdict.denial {
        Some(denial) => Err(ApiError::denied(&call.kind, name, &denial.message, &denial.reason)),
        None => Ok(verdict.warnings),
    }
}

/// A stored object as a version has it, with its type.
fn typed(call: &Call<'_>, version: &str, stored: &Value) -> Value {
    if stored.is_null() {
        return Value::Null;
    }
    let mut shown = stored.clone();
    call.kind.rules.to_version(&mut shown, version);
    with_type(shown, &call.kind.group, version, &call.kind.kind)
}

fn with_type(mut object: Value, group: &str, version: &str, kind: &str) -> Value {
    object["apiVersion"] =
        if group.is_empty() { version.into() } else { format!("{group}/{version}").into() };
    object["kind"] = kind.into();
    object
}

impl Surroundings for Call<'_> {
    fn namespace(&self, name: &str) -> Option<Value> {
        let namespaces = lazaret_kinds::find("", "namespaces")?;
        self.server.get(namespaces, "", name)
    }

    fn params(&self, wanted: &Params<'_>) -> Result<Vec<Value>, String> {
        let (group, version) = wanted.api_version.rsplit_once('/').unwrap_or(("", wanted.api_version));
        let known = |kind: &KindRef| {
            kind.group == group
                && kind.kind == wanted.kind
                && kind.versions.iter().any(|served| served.version == version)
        };
        let kind = self.server.kinds().into_iter().find(known).ok_or_else(|| {
            format!("paramKind kind `{}, Kind={}` not known", wanted.api_version, wanted.kind)
        })?;
        let namespace = match kind.scope {
            Scope::Cluster if !wanted.namespace.is_empty() => {
                return Err(
                    "paramRef.namespace must not be provided for a cluster-scoped `paramKind`".to_owned()
                );
            }
            Scope::Cluster => "",
            Scope::Namespaced if !wanted.namespace.is_empty() => wanted.namespace,
            Scope::Namespaced if wanted.request_namespace.is_empty() => {
                let why =
                    "cannot use namespaced paramRef in policy binding that matches cluster-scoped resources";
                return Err(why.to_owned());
            }
            Scope::Namespaced => wanted.request_namespace,
        };
        let shown = |stored: Value| {
            let mut shown = stored;
            kind.rules.to_version(&mut shown, version);
            with_type(shown, group, version, &kind.kind)
        };
        if !wanted.name.is_empty() {
            return Ok(self.server.get(&kind, namespace, wanted.name).map(shown).into_iter().collect());
        }
        let range = self.server.store().range(object::key(&kind, namespace, ""), &RangeOptions::default());
        let items = range.map_err(|error| error.to_string())?.items;
        let stored = items.iter().map(|item| self.server.trees().get(item));
        let found: Vec<Value> = stored
            .filter(|stored| selects(wanted.selector, &stored["metadata"]["labels"]))
            .take(PARAMS_MAX + 1)
            .map(shown)
            .collect();
        if found.len() > PARAMS_MAX {
            return Err(format!("paramRef.selector selects more than {PARAMS_MAX} objects"));
        }
        Ok(found)
    }
}
