//! Admission policies, asked about a request that is otherwise good.

use lazaret_json::Value;
use lazaret_kinds::{
    Access, Scope, User,
    admission::{
        Attributes, Authorizer, Check, ClusterReader, Decision, Params, Policies, ServiceAccount, Subject,
    },
    selects,
};
use lazaret_storage::RangeOptions;

use super::attributes::with_type;
use crate::{ApiError, call::Call, kind_ref::KindRef, object, selector::parse_fields};

/// A selector of parameters that finds more fails: a policy is asked once for each.
const PARAMS_MAX: usize = 100;

/// Asks whether the request may be carried out; says what its client is to be warned of.
pub(super) fn ask(
    call: &Call<'_>,
    policies: &Policies,
    attributes: &Attributes<'_>,
    name: &str,
) -> Result<Vec<String>, ApiError> {
    if policies.is_empty() {
        return Ok(Vec::new());
    }
    let verdict = policies.ask(attributes, call);
    for (policy, key, value) in verdict.notes {
        // DEVIATION(policy-audit): there is no audit log to put it into.
        tracing::info!(target: "audit", policy, key, value, user = call.user.name, resource = %call.kind.plural, name, "audit");
    }
    match verdict.denial {
        Some(denial) => Err(ApiError::denied(&call.kind, name, &denial.message, &denial.reason)
            .with_warnings(verdict.warnings)),
        None => Ok(verdict.warnings),
    }
}

/// The checks of expressions. Label selectors of a list change nothing for roles and nodes, as in Kubernetes.
impl Authorizer for Call<'_> {
    fn decide(&self, check: &Check) -> Decision {
        let account = check.account.as_ref().map(user_of);
        let user = account.as_ref().unwrap_or(self.user);
        let outcome = match &check.about {
            Subject::Path(path) => self.server.may_path(user, &check.verb, path),
            Subject::Resource(about) => self.server.may(
                user,
                Access {
                    verb: &check.verb,
                    group: &about.group,
                    resource: &about.resource,
                    subresource: &about.subresource,
                    namespace: &about.namespace,
                    name: &about.name,
                    // One that cannot be read restricts nothing: what is asked is then whether everything may be listed.
                    fields: &parse_fields(&about.field_selector).unwrap_or_default(),
                },
            ),
        };
        let allowed = outcome.is_ok();
        Decision { allowed, reason: outcome.err().unwrap_or_default().into(), ..Decision::default() }
    }
}

/// A service account as it would ask itself.
fn user_of(account: &ServiceAccount) -> User {
    let ServiceAccount { namespace, name } = account;
    User {
        name: format!("system:serviceaccount:{namespace}:{name}"),
        groups: vec!["system:serviceaccounts".to_owned(), format!("system:serviceaccounts:{namespace}")],
        ..User::default()
    }
}

impl ClusterReader for Call<'_> {
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
        let range =
            self.server.store().range(object::key(&kind, namespace, "").as_bytes(), &RangeOptions::default());
        let items = range.map_err(|error| error.to_string())?.items;
        let stored = items.iter().map(|item| self.server.object_cache().get(item));
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
