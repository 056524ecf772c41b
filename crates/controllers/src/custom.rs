//! Objects of kinds that definitions brought: nobody here watches them, and a namespace that goes takes them with it.

use lazaret_runtime::{Call, CallError, Client};
use serde::Deserialize;

const DEFINITIONS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";

/// Definitions of one page: each may be as large as an object can be, and an answer must not be larger than is read.
const PAGE: usize = 8;

#[derive(Deserialize)]
struct List<T> {
    #[serde(default)]
    metadata: Metadata,
    #[serde(default = "Vec::new")]
    items: Vec<T>,
}

#[derive(Default, Deserialize)]
struct Metadata {
    #[serde(default, rename = "continue")]
    more: String,
}

#[derive(Deserialize)]
struct Definition {
    spec: Spec,
}

#[derive(Deserialize)]
struct Spec {
    group: String,
    scope: String,
    names: Names,
    #[serde(default)]
    versions: Vec<Version>,
}

#[derive(Deserialize)]
struct Names {
    plural: String,
}

#[derive(Deserialize)]
struct Version {
    name: String,
    #[serde(default)]
    served: bool,
}

/// Deletes all of them in a namespace. Whether none are left: finalizers may hold some for a while.
pub(crate) async fn clear(client: &Client, namespace: &str) -> Result<bool, CallError> {
    let mut empty = true;
    for definition in definitions(client).await? {
        let Spec { group, scope, names, versions } = definition.spec;
        let Some(version) = versions.iter().find(|version| version.served).filter(|_| scope == "Namespaced")
        else {
            continue;
        };
        let path = format!("/apis/{group}/{}/namespaces/{namespace}/{}", version.name, names.plural);
        if is_empty(client, &path).await? {
            continue;
        }
        client.send(Call::delete_at(path.clone())).await?;
        empty &= is_empty(client, &path).await?;
    }
    Ok(empty)
}

async fn definitions(client: &Client) -> Result<Vec<Definition>, CallError> {
    let (mut all, mut more) = (Vec::new(), String::new());
    loop {
        let page = read::<Definition>(client, &format!("{DEFINITIONS}?limit={PAGE}&continue={more}")).await?;
        all.extend(page.items);
        if page.metadata.more.is_empty() {
            return Ok(all);
        }
        more = page.metadata.more;
    }
}

async fn is_empty(client: &Client, path: &str) -> Result<bool, CallError> {
    Ok(read::<serde::de::IgnoredAny>(client, &format!("{path}?limit=1")).await?.items.is_empty())
}

async fn read<T: for<'de> Deserialize<'de>>(client: &Client, path: &str) -> Result<List<T>, CallError> {
    let text = match client.send(Call::get_at(path.to_owned())).await {
        Ok(text) => text,
        // A server without definitions, or one that is just taken away.
        Err(CallError::NotFound(_)) => return Ok(List { metadata: Metadata::default(), items: Vec::new() }),
        Err(error) => return Err(error),
    };
    serde_json::from_slice(&text).map_err(|error| CallError::Unavailable(error.to_string()))
}
