//! One request for objects, from its arrival to its answer.

use lazaret_json::Value;
use lazaret_kinds::{Access, Context, Name, Scope, Served, User};
use lazaret_storage::Storage;

use crate::{
    Server, clock,
    kind_ref::KindRef,
    metrics::{RequestLabels, RequestMode},
    negotiate::Form,
    object,
    query::Query,
    request::{Target, Verb},
    request_permits::RequestPermits,
};

/// One request for objects, understood.
pub(crate) struct Call<'a> {
    pub(crate) server: &'a Server,
    pub(crate) user: &'a User,
    pub(crate) verb: Verb,
    pub(crate) kind: KindRef,
    pub(crate) served: Served,
    pub(crate) target: Target,
    pub(crate) query: Query,
    pub(crate) form: Form,
    /// `fieldManager`, or what the client calls itself.
    pub(crate) manager: String,
    pub(crate) content_type: Option<String>,
    /// The resources held while the request runs.
    pub(crate) held: RequestPermits,
}

impl<'a> Call<'a> {
    /// The same call on something else, without its body.
    pub(crate) fn on(&self, target: Target) -> Call<'a> {
        Call {
            server: self.server,
            user: self.user,
            verb: self.verb,
            kind: self.kind.clone(),
            served: self.served.clone(),
            target,
            query: self.query.clone(),
            form: self.form,
            manager: self.manager.clone(),
            content_type: None,
            held: self.held.clone(),
        }
    }
}

impl Call<'_> {
    pub(crate) fn store(&self) -> &dyn Storage {
        self.server.store()
    }

    pub(crate) fn key(&self, name: &str) -> String {
        object::key(&self.kind, &self.target.namespace, name)
    }

    /// Whether the collection is one of a namespace, or the cluster's: not one across namespaces.
    pub(crate) fn whole_collection(&self) -> bool {
        self.kind.scope == Scope::Cluster || !self.target.namespace.is_empty()
    }

    /// All versions in which the resource is served.
    pub(crate) fn versions(&self) -> Vec<Name> {
        let kind = match &self.kind {
            KindRef::Builtin(kind) => kind,
            KindRef::Custom(kind) => return self.server.customs().versions(kind),
        };
        let served = kind.versions.iter().filter(|served| self.server.serves(kind, served));
        served.map(|served| served.version.clone()).collect()
    }

    /// The kind as another version has it.
    pub(crate) fn in_version(&self, version: &str) -> Option<(KindRef, Served)> {
        if self.served.version == version {
            return Some((self.kind.clone(), self.served.clone()));
        }
        self.server.find(&Target { version: version.to_owned(), ..self.target.clone() })
    }

    /// The labels of this call in metrics.
    pub(crate) fn subject(&self, verb: Verb) -> RequestLabels {
        let apply =
            self.content_type.as_deref().is_some_and(|text| text.starts_with("application/apply-patch"));
        let how = RequestMode { dry_run: self.query.get("dryRun") == Some("All"), apply };
        RequestLabels::objects(&self.kind, &self.served.version, &self.target, verb, how)
    }

    /// Now as the API writes it.
    pub(crate) fn timestamp() -> String {
        let now = clock::now();
        jiff::Timestamp::from_second(now.as_second()).unwrap_or(now).to_string()
    }

    /// Runs `inner` with what rules may look at.
    pub(crate) fn with_context<T>(&self, inner: impl FnOnce(&Context<'_>) -> T) -> T {
        let namespace = || {
            lazaret_kinds::find("", "namespaces")
                .filter(|_| self.kind.scope == Scope::Namespaced)
                .and_then(|namespaces| self.server.get(namespaces, "", &self.target.namespace))
        };
        let lookup = |resource: &str, namespace: &str, name: &str| {
            let kind = lazaret_kinds::all().iter().find(|kind| kind.plural == resource)?;
            self.server.get(kind, namespace, name)
        };
        let may = |access: Access<'_>| self.server.may(self.user, access).is_ok();
        inner(&Context {
            now: clock::now(),
            features: self.server.features(),
            user: self.user,
            verb: self.verb.name(),
            version: &self.served.version,
            namespace: &namespace,
            lookup: &lookup,
            may: &may,
        })
    }
}

/// A write of one object.
#[derive(Clone, Copy)]
pub(crate) struct Write<'a> {
    pub(crate) name: &'a str,
    /// As it is stored, unless it is new.
    pub(crate) old: Option<&'a Value>,
    /// As it will be stored, unless it goes.
    pub(crate) new: Option<&'a Value>,
}
