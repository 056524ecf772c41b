//! Objects of kinds that definitions brought: nobody here watches them, and a namespace that goes takes them with it.

use lazaret_runtime::{Call, CallError, Client};
use serde::Deserialize;

const DEFINITIONS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";

#[derive(Deserialize)]
struct List<T> {
    #[serde(default = "Vec::new")]
    items: Vec<T>,
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
    for definition in read::<Definition>(client, DEFINITIONS).await? {
        let Spec { group, scope, names, versions } = definition.spec;
        let Some(version) = versions.iter().find(|version| version.served).filter(|_| scope == "Namespaced")
        else {
            continue;
        };
        let path = format!("/apis/{group}/{}/namespaces/{namespace}/{}", version.name, names.plural);
        if read::<serde::de::IgnoredAny>(client, &path).await?.is_empty() {
            continue;
        }
        client.send(Call::delete_at(path.clone())).await?;
        empty &= read::<serde::de::IgnoredAny>(client, &path).await?.is_empty();
    }
    Ok(empty)
}

async fn read<T: for<'de> Deserialize<'de>>(client: &Client, path: &str) -> Result<Vec<T>, CallError> {
    let text = match client.send(Call::get_at(path.to_owned())).await {
        Ok(text) => text,
        // A server without definitions, or one that is just taken away.
        Err(CallError::NotFound(_)) => return Ok(Vec::new()),
        Err(error) => return Err(error),
    };
    let list: List<T> =
        serde_json::from_slice(&text).map_err(|error| CallError::Unavailable(error.to_string()))?;
    Ok(list.items)
}
