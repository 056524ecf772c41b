//! Lists and watches of one resource.

use lazaret_runtime::{Change, RequestError, Resource, escape_query};
use serde::Deserialize;

use super::call::{Api, Purpose};
use crate::Error;

/// How often a list begins anew because its pages expired.
const RESTARTS_MAX: usize = 3;

/// An object of a list or a watch, as JSON that says its kind.
#[derive(Debug)]
pub(crate) struct Item {
    json: String,
}

#[derive(Deserialize)]
struct Header {
    kind: Option<serde::de::IgnoredAny>,
}

impl Item {
    /// Takes an object's JSON. `apiVersion` and `kind`, which lists leave out, are put back.
    pub(crate) fn new(resource: &Resource, json: &str) -> Self {
        let says_kind = serde_json::from_str::<Header>(json).is_ok_and(|header| header.kind.is_some());
        let json = match json.trim_start().strip_prefix('{') {
            Some(rest) if !says_kind => {
                format!(
                    "{{\"apiVersion\":\"{}\",\"kind\":\"{}\",{rest}",
                    resource.api_version(),
                    resource.kind
                )
            }
            Some(_) | None => json.to_owned(),
        };
        Self { json }
    }

    pub(crate) fn json(&self) -> &str {
        &self.json
    }
}

/// Which objects of a resource.
#[derive(Clone, Debug, Default)]
pub(crate) struct Scope {
    /// Empty: all.
    pub(crate) namespace: String,
    pub(crate) labels: Option<String>,
    pub(crate) fields: Option<String>,
}

impl Scope {
    pub(crate) fn query(&self) -> String {
        let mut query = String::new();
        for (name, value) in [("labelSelector", &self.labels), ("fieldSelector", &self.fields)] {
            if let Some(value) = value {
                query.push_str(&format!("&{name}={}", escape_query(value)));
            }
        }
        query
    }
}

impl Api {
    /// Hands every object of `scope` to `visit` and gives the resource version to watch from.
    pub(crate) async fn list(
        &self,
        resource: &Resource,
        scope: &Scope,
        mut visit: impl FnMut(Item),
    ) -> Result<String, Error> {
        let purpose = Purpose { verb: "list", resource, name: "" };
        let (path, query) = (resource.path(&scope.namespace, "", ""), scope.query());
        let mut restarts = 0;
        loop {
            match self.client.list(&path, &query, |json| visit(Item::new(resource, json))).await {
                // The pages were compacted away while we read: objects already visited come again, which does no harm.
                Err(RequestError::Refused(410, _)) if restarts < RESTARTS_MAX => restarts += 1,
                listed => return listed.map_err(|error| purpose.failure(error)),
            }
        }
    }

    /// Watches what `scope` means from a resource version on.
    pub(crate) async fn watch(
        &self,
        resource: Resource,
        scope: &Scope,
        resource_version: &str,
    ) -> Result<Watch, Error> {
        let (path, query) = (resource.path(&scope.namespace, "", ""), scope.query());
        let uri = format!("{path}?watch=true&resourceVersion={resource_version}{query}");
        let open = self.client.watch(&uri).await.map_err(|error| watching(&resource).failure(error))?;
        Ok(Watch { resource, open })
    }
}

/// An open watch.
#[derive(Debug)]
pub(crate) struct Watch {
    resource: Resource,
    open: lazaret_runtime::Watch,
}

impl Watch {
    /// The next object, and whether it is still there; `None` when the watch has ended and all is to be listed again. May be dropped while it waits:
    /// nothing is lost.
    pub(crate) async fn next(&mut self) -> Result<Option<(Item, bool)>, Error> {
        let change = self.open.next().await.map_err(|error| watching(&self.resource).failure(error))?;
        let item = |json: &str| Item::new(&self.resource, json);
        Ok(match change {
            Change::Set(json) => Some((item(&json), true)),
            Change::Gone(json) => Some((item(&json), false)),
            Change::Over => None,
        })
    }
}

fn watching(resource: &Resource) -> Purpose<'_> {
    Purpose { verb: "watch", resource, name: "" }
}

#[cfg(test)]
mod tests {
    use lazaret_runtime::PODS;

    use super::*;

    #[test]
    fn what_a_list_leaves_out_is_put_back() {
        let bare = Item::new(&PODS, r#"{"metadata":{"name":"a"}}"#);
        assert_eq!(bare.json(), r#"{"apiVersion":"v1","kind":"Pod","metadata":{"name":"a"}}"#);
        let whole = r#"{"kind":"Pod","apiVersion":"v1","metadata":{"name":"a"}}"#;
        assert_eq!(Item::new(&PODS, whole).json(), whole);
    }
}
