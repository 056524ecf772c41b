//! Lists, a page at a time: what one page held is let go before the next is asked for.

use http::Method;
use serde::Deserialize;
use serde_json::value::RawValue;

use super::{
    call::{Api, Purpose},
    resource::Resource,
};
use crate::Error;

/// As many objects as kubectl asks for at once.
const PAGE_OBJECTS: usize = 500;
/// How often a list begins anew because its pages expired.
const RESTARTS_MAX: usize = 3;

/// An object of a list or a watch, as JSON that says its kind.
#[derive(Debug)]
pub(crate) struct Item {
    json: String,
}

#[derive(Deserialize)]
struct Page<'a> {
    #[serde(default)]
    metadata: PageMeta,
    #[serde(borrow, default)]
    items: Vec<&'a RawValue>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct PageMeta {
    #[serde(rename = "resourceVersion")]
    resource_version: String,
    r#continue: String,
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
                query.push_str(&format!("&{name}={}", percent(value)));
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
        mut visit: impl FnMut(Item) -> Result<(), Error>,
    ) -> Result<String, Error> {
        let purpose = Purpose { verb: "list", resource, name: "" };
        let mut next = String::new();
        let mut restarts = 0;
        loop {
            let mut path =
                format!("{}?limit={PAGE_OBJECTS}{}", resource.path(&scope.namespace, ""), scope.query());
            if !next.is_empty() {
                path.push_str(&format!("&continue={}", percent(&next)));
            }
            let body = match self.ask(Method::GET, &path, "", String::new(), purpose).await {
                Ok(body) => body,
                // The pages were compacted away while we read: objects already visited come again, which does no harm.
                Err(Error::Refused { code: 410, .. }) if restarts < RESTARTS_MAX => {
                    restarts += 1;
                    next.clear();
                    continue;
                }
                Err(error) => return Err(error),
            };
            let page: Page<'_> = serde_json::from_str(&body)
                .map_err(|error| Error::Unreadable { what: purpose.action(), cause: error.to_string() })?;
            for item in page.items {
                visit(Item::new(resource, item.get()))?;
            }
            next = page.metadata.r#continue;
            if next.is_empty() {
                return Ok(page.metadata.resource_version);
            }
        }
    }
}

/// Escapes what a query must not hold.
pub(crate) fn percent(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for byte in text.bytes() {
        if byte.is_ascii_alphanumeric() || b"-._~".contains(&byte) {
            escaped.push(char::from(byte));
        } else {
            escaped.push_str(&format!("%{byte:02X}"));
        }
    }
    escaped
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::api::PODS;

    #[test]
    fn what_a_list_leaves_out_is_put_back() {
        let bare = Item::new(&PODS, r#"{"metadata":{"name":"a"}}"#);
        assert_eq!(bare.json(), r#"{"apiVersion":"v1","kind":"Pod","metadata":{"name":"a"}}"#);
        let whole = r#"{"kind":"Pod","apiVersion":"v1","metadata":{"name":"a"}}"#;
        assert_eq!(Item::new(&PODS, whole).json(), whole);
    }

    #[test]
    fn queries_are_escaped() {
        assert_eq!(percent("a=b,c in (d)"), "a%3Db%2Cc%20in%20%28d%29");
    }
}
